"""``gputui doctor``, as it is run, with the machine's own files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def doctor(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "from gputui.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "doctor", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **variables},
    )


@pytest.mark.skipif(HERE, reason="there is a GPU here")
def test_without_a_gpu_it_says_so_and_that_opening_reports_works() -> None:
    done = doctor()
    assert done.returncode == 1
    assert "No usable GPU here" in done.stdout
    assert "gputui" in done.stdout
    assert done.stderr == ""
    japanese = doctor("--lang", "ja")
    assert "使える" in japanese.stdout


@pytest.mark.skipif(HERE, reason="there is a GPU here")
def test_json_and_ascii() -> None:
    done = doctor("--format", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["can_profile"], told["outlook"]) == (1, False, "no-gpu")
    assert told["facts"]["system"]["name"] == os.uname().sysname
    done = doctor("--ascii")
    assert done.stdout.isascii()
    assert "x GPU" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="shell scripts")
def test_status_0_where_profiling_works(tmp_path: Path) -> None:
    """Stand-ins for the three programs: no GPU is here."""
    answers = {
        "nvidia-smi": "echo '0, NVIDIA H200, GPU-x, 9.0, 580.159.04, Disabled, 0'",
        "nsys": "echo version 2025.3.1",
        "ncu": "echo Version 2025.3.1.0",
    }
    for name, script in answers.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    done = doctor(PATH=f"{tmp_path}:/usr/bin:/bin", TMPDIR=str(tmp_path), CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("Profiling ")
