"""The facts of machines laid out in a folder, and where the tools are found."""

from __future__ import annotations

import ast
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from fake_machine import DOCKER, RECORDED_INFORMATION, FakeMachine, clean_environment

from gputui import nsight
from gputui.run import probe

pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")
SOURCE = Path(probe.__file__)
ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    machine = FakeMachine(tmp_path / "machine")
    clean_environment(machine, monkeypatch)
    return machine


def test_the_facts_of_a_healthy_machine(machine: FakeMachine) -> None:
    found: dict[str, Any] = machine.facts()
    assert found["errors"] == {}
    assert found["driver"]["version"] == "580.159.04"
    assert found["profiling_admin_only"] == 0
    assert (found["perf_event_paranoid"], found["ptrace_scope"], found["seccomp"]) == (2, 1, 0)
    assert found["capabilities"] == {"sys_ptrace": False, "sys_admin": False, "perfmon": False}
    assert (found["container"], found["wsl"], found["confidential"]) == ("", False, False)
    assert found["gpus"]["list"] == [
        {
            "index": "0",
            "name": "NVIDIA H200",
            "uuid": "GPU-61a0dd73-d340-c8db-ffe0-02ffc4ef95de",
            "compute_cap": "9.0",
            "driver_version": "580.159.04",
            "mig.mode.current": "Disabled",
            "memory.used": "0",
        }
    ]
    nsys, ncu = found["tools"]["nsys"][0], found["tools"]["ncu"][0]
    assert nsys == {"path": str(machine.programs / "nsys"), "version": "2023.4.4.54"}
    assert (ncu["path"], ncu["version"]) == (str(machine.programs / "ncu"), "2025.3.1.0")
    assert ncu["sections"] == ["LaunchStats", "SpeedOfLight", "SpeedOfLight_RooflineChart"]
    assert {"gh100", "gb20b"} <= set(ncu["chips"])
    assert len(ncu["chips"]) == 12
    assert found["user"] == {"name": ME, "uid": os.geteuid(), "mapped": False}
    assert found["temp"]["path"] == str(machine.root / "tmp")
    assert found["temp"]["free"] > 0
    assert found["cwd"]["path"] == os.getcwd()
    assert (found["locks"], found["processes"], found["variables"]) == ([], [], {})
    json.dumps(found, allow_nan=False)


def test_an_empty_root_and_no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeMachine(tmp_path / "machine")
    clean_environment(machine, monkeypatch)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    found: dict[str, Any] = probe.facts(str(empty))
    assert found["errors"] == {}
    assert found["tools"] == {"nsys": [], "ncu": []}
    assert found["gpus"] == {"smi": None, "list": [], "error": ""}
    for name in ("driver", "profiling_admin_only", "perf_event_paranoid", "capabilities", "seccomp", "confidential"):
        assert found[name] is None
    assert not found["temp"]["writable"]


def test_a_fact_that_fails_costs_no_other(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("proc/self/status", "CapEff:\tnonsense\nSeccomp:\t0\n")
    found = machine.facts()
    assert found["capabilities"] is None
    assert "ValueError" in found["errors"]["capabilities"]  # type: ignore[index]
    assert found["seccomp"] == 0


def test_a_tool_that_does_not_run(machine: FakeMachine) -> None:
    machine.answers("nsys", "echo 'libfoo.so: cannot open shared object file'; exit 127")
    tool: Any = machine.facts()["tools"]
    assert tool["nsys"][0]["version"] == ""
    assert "libfoo.so" in tool["nsys"][0]["error"]


def test_a_tool_that_hangs_is_left(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_TOOL_S", 0.2)
    machine.answers("nsys", "sleep 60; true")
    tool: Any = machine.facts()["tools"]
    assert tool["nsys"][0]["version"] == ""
    assert "timed out" in tool["nsys"][0]["error"]


def test_programs_that_all_hang_cost_the_time_of_few(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    # One after the other they would take four times the second that each gets.
    assert max(probe._SMI_S, probe._TOOL_S + 2 * probe._LIST_S) < 25
    for name in ("_TOOL_S", "_SMI_S"):
        monkeypatch.setattr(probe, name, 1.0)
    for name in ("nvidia-smi", "nsys", "ncu"):
        machine.answers(name, "sleep 60; true")
    began = time.monotonic()
    found: Any = machine.facts()
    assert time.monotonic() - began < 3.5
    assert found["gpus"]["list"] == []
    assert found["gpus"]["error"] == "nvidia-smi does not answer"
    assert found["confidential"] is None
    assert [found["tools"][tool][0]["version"] for tool in probe.TOOLS] == ["", ""]


def test_gpus_when_nvidia_smi_fails_is_old_or_is_missing(machine: FakeMachine) -> None:
    words = "NVIDIA-SMI has failed because it couldn t communicate with the NVIDIA driver."
    machine.smi(words, status=9)
    found: Any = machine.facts()["gpus"]
    assert (found["list"], found["error"]) == ([], words)
    # Recorded: what nvidia-smi says of a field that it does not know, with its status.
    machine.answers(
        "nvidia-smi",
        'case "$*" in *compute_cap*) echo "Field \\"compute_cap\\" is not a valid field to query."; exit 2;; esac\n'
        "echo '0, Tesla V100-SXM2-16GB, GPU-x, 418.87, [N/A], 11'",
    )
    found = machine.facts()["gpus"]
    assert found["list"][0]["name"] == "Tesla V100-SXM2-16GB"
    assert found["list"][0]["driver_version"] == "418.87"
    machine.remove("programs/nvidia-smi")
    machine.write("proc/driver/nvidia/gpus/0000:00:06.0/information", RECORDED_INFORMATION)
    found = machine.facts()["gpus"]
    assert found == {"smi": None, "list": [{"name": "NVIDIA H200"}], "error": ""}


def test_signs_of_a_container(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("proc/self/status", DOCKER)
    machine.write("proc/1/cgroup", "12:pids:/docker/0123456789abcdef\n")
    found = machine.facts()
    assert (found["container"], found["seccomp"]) == ("docker", 2)
    machine.write("run/.containerenv", "")
    assert machine.facts()["container"] == "podman"
    (machine.root / ".singularity.d").mkdir()
    assert machine.facts()["container"] == "singularity"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert machine.facts()["container"] == "kubernetes"


def test_wsl(machine: FakeMachine) -> None:
    machine.write("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    assert machine.facts()["wsl"] is True


def test_profilers_that_run(machine: FakeMachine) -> None:
    machine.write("proc/77/cmdline", "/usr/bin/nv-hostengine\0-n\0")
    machine.write("proc/78/cmdline", "python\0ncu\0")
    assert machine.facts()["processes"] == [{"pid": 77, "name": "nv-hostengine", "user": ME}]


def test_variables_that_load_tools(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", str(machine.root / "missing.so"))
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1029407")
    assert machine.facts()["variables"] == {"NSYS_PROFILING_SESSION_ID": "1029407"}
    tool = machine.write("tool.so", "")
    monkeypatch.setenv("CUDA_INJECTION64_PATH", str(tool))
    assert machine.facts()["variables"] == {
        "CUDA_INJECTION64_PATH": str(tool),
        "NSYS_PROFILING_SESSION_ID": "1029407",
    }


@pytest.mark.parametrize(("file", "since_2025"), [("nsight-compute-lock", False), ("nvidia/nsight_compute/lock", True)])
def test_a_lock_that_cannot_be_opened(machine: FakeMachine, file: str, since_2025: bool) -> None:
    lock = machine.write(f"tmp/{file}", "")
    assert machine.facts()["locks"] == []
    lock.unlink()
    # Even root opens no link here: what stands in the way for a user is another's file.
    lock.symlink_to(machine.root / "elsewhere")
    assert {"path": str(lock), "owner": ME, "since_2025": since_2025} in machine.facts()["locks"]  # type: ignore[operator]
    assert not (machine.root / "elsewhere").exists()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, to become another user")
@pytest.mark.parametrize("made", ["nvidia", "nvidia/nsight_compute", "nvidia/nsight_compute/lock"])
def test_another_users_lock(made: str) -> None:
    """Each of these was seen to stop ncu 2025.3 on a machine with an H200."""
    # Not pytest's folder, which no other user may enter.
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o755)
        made_at = root / "tmp" / made
        (root / "tmp" / "nvidia").mkdir(parents=True)
        if made.startswith("nvidia/nsight_compute"):
            (root / "tmp" / "nvidia" / "nsight_compute").mkdir()
        if made.endswith("lock"):
            made_at.touch(mode=0o600)
        shutil.copy(SOURCE, root / "probe.py")
        program = f"import json, probe; print(json.dumps(probe._locks({str(root)!r})))"
        as_another = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/env", "python3"]
        done = subprocess.run([*as_another, "-c", program], cwd=root, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == [{"path": str(made_at), "owner": "root", "since_2025": True}]
    finally:
        shutil.rmtree(root)


def test_it_stands_alone_and_suits_an_old_python(machine: FakeMachine) -> None:
    source = SOURCE.read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {
        name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
    assert imported <= {
        *("concurrent", "contextlib", "glob", "json", "os", "platform", "pwd", "re", "shutil", "signal"),
        *("subprocess", "sys", "tempfile"),
    }  # all of them are in 3.6
    done = subprocess.run(
        [sys.executable, "-I", "-"], input=source, capture_output=True, text=True, check=True, cwd=machine.root
    )
    found = json.loads(done.stdout)
    assert found["cwd"]["path"] == str(machine.root)
    assert found["system"]["python"] == ".".join(map(str, sys.version_info[:3]))


def install(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_search_path_comes_first_then_variables_then_the_newest(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = machine.root
    for version in ("2023.4.4", "2025.10.1", "2025.2.1"):
        install(root / f"opt/nvidia/nsight-systems/{version}/bin/nsys")
    (root / "opt/nvidia/nsight-systems/2026.1.1/bin").mkdir(parents=True)
    # The nsys that ships within Nsight Compute cannot make a report.
    install(root / "opt/nvidia/nsight-compute/2027.1.1/host/target-linux-x64/nsys")
    cuda = install(root / "usr/local/cuda-12.4/bin/nsys")
    linked = root / "opt/nvidia/nsight-systems-cli/2025.10.1/bin/nsys"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(root / "opt/nvidia/nsight-systems/2025.10.1/bin/nsys")
    named = install(root / "mine/bin/nsys")
    monkeypatch.setenv("CUDA_HOME", str(root / "mine"))
    found = probe.candidates("nsys", str(root))
    assert found[:2] == [str(machine.programs / "nsys"), str(named)]
    installed = [path for path in found[2:] if path.startswith(str(root))]
    versions = [path.split("/")[-3] for path in installed]
    assert versions == ["2025.10.1", "2025.2.1", "2023.4.4", "cuda-12.4"]
    assert installed[-1] == str(cuda)


@pytest.mark.parametrize(
    "place",
    [
        "opt/nvidia/nsight-compute/2025.3.1/ncu",
        "usr/local/cuda-12.4/bin/ncu",
        "usr/local/cuda/nsight-compute-2024.1.1/ncu",
        "opt/nvidia/hpc_sdk/Linux_x86_64/24.5/profilers/Nsight_Compute/ncu",
        "usr/lib/nsight-compute/ncu",
    ],
)
def test_where_ncu_may_lie(machine: FakeMachine, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    installed = install(machine.root / place)
    assert probe.candidates("ncu", str(machine.root)) == [str(installed)]


def test_a_variable_of_nsights_or_condas(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(probe, "HOMES", ())
    assert nsight.find_ncu() is None
    assert nsight.find_nsys() is None
    conda = install(machine.root / "conda[1]/bin/ncu")
    monkeypatch.setenv("CONDA_PREFIX", str(conda.parents[1]))
    assert nsight.find_ncu() == str(conda)
    nsys = install(machine.root / "nsight/bin/nsys")
    monkeypatch.setenv("NSIGHT_SYSTEMS_HOME", str(nsys.parents[1]))
    assert nsight.find_nsys() == str(nsys)
    monkeypatch.setenv("NSIGHT_SYSTEMS_HOME", "relative")
    assert nsight.find_nsys() is None


needs_tools = pytest.mark.skipif(
    shutil.which("nsys") is None or shutil.which("ncu") is None, reason="nsys and ncu are not installed"
)


@needs_tools
def test_the_real_tools() -> None:
    tools: Any = probe.facts()["tools"]
    nsys, ncu = tools["nsys"][0], tools["ncu"][0]
    assert nsys["path"] == shutil.which("nsys")
    assert nsys["version"].startswith("20")
    assert {"SpeedOfLight", "LaunchStats", "Occupancy", "SourceCounters"} <= set(ncu["sections"])
    assert "Identifier" not in ncu["sections"]
    assert {"ga100", "gh100"} <= set(ncu["chips"])
