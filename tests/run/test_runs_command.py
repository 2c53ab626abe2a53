"""``gputui runs``, as its users start it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.data import demo_report
from gputui.run.folder import RunFolder
from gputui.run.machine import Outcome
from gputui.run.plan import Command, Request
from gputui.wording import LANGUAGES

MAIN = "import sys; from gputui.cli import main; sys.argv[0] = 'gputui'; main()"


def gputui(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "110", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "gputui-runs"


@pytest.fixture
def done(base: Path) -> Path:
    run = RunFolder.create(base, Request(("python", "train.py"), "/data"))
    run.begin(Command("counters-1", "ncu", ("ncu",), "counters-1"))
    shutil.copy(demo_report(), run.work / "draft")
    run.finish("counters-1", Outcome(0, False, 1.0), [run.adopt(run.work / "draft", "counters-1.ncu-rep")])
    run.end("done")
    run.close()
    return run.path


def test_the_runs_of_the_current_folder_with_their_notes(base: Path, done: Path) -> None:
    noted = gputui("runs", "--note", "batch 64 \x1b[31m\nmore", done, cwd=base.parent)
    assert (noted.returncode, noted.stdout) == (0, f"The note is in {done}/notes.txt\n")
    (base / "broken").mkdir()
    (base / "broken" / "run.json").write_text("{", encoding="utf-8")
    listed = gputui("runs", cwd=base.parent)
    assert (listed.returncode, listed.stderr) == (0, "")
    lines = listed.stdout.splitlines()
    assert lines[0] == "Runs in gputui-runs, newest first"
    assert lines[1].split() == [done.name, "done", "1", "report", "batch", "64", "\\x1b[31m"]
    assert lines[2].split() == ["broken", "damaged", "0", "reports"]
    assert lines[-2:] == ["To open one:", f"  gputui open gputui-runs/{done.name}"]
    assert sum("has a damaged run.json" in line for line in lines) == 1


def test_the_runs_as_json(base: Path, done: Path) -> None:
    (one,) = json.loads(gputui("runs", base, "--format", "json", cwd=base.parent).stdout)
    assert (one["path"], one["state"], one["program"]) == (str(done), "done", "train")
    assert (one["reports"], one["note"], one["problem"]) == (["counters-1.ncu-rep"], "", "")
    assert json.loads(gputui("runs", done, "--format", "json", cwd=base.parent).stdout) == [one]


def test_what_an_interrupted_run_left_is_kept_and_can_be_opened(base: Path, done: Path) -> None:
    record = json.loads((done / "run.json").read_text(encoding="utf-8"))
    record["state"] = "running"
    record["owner"]["start"] += 1
    (stage,) = record["stages"]
    stage.update(seconds=None, reports=[])
    (done / "run.json").write_text(json.dumps(record), encoding="utf-8")
    (done / "counters-1.ncu-rep").rename(done / ".work" / "counters-1.ncu-rep")
    lines = gputui("runs", cwd=base.parent).stdout.splitlines()
    assert " ".join(lines[3:-1]).endswith("Kept: counters-1.ncu-rep. To open it:")
    assert lines[-1] == f"  gputui open gputui-runs/{done.name}"
    opened = gputui("open", f"gputui-runs/{done.name}", cwd=base.parent)
    assert (opened.returncode, opened.stderr) == (0, "")
    assert f"{done.name}/counters-1.ncu-rep" in opened.stdout


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_runs_are_no_error(tmp_path: Path, language: str) -> None:
    answer = gputui("runs", "--lang", language, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "gputui run -- python train.py" in answer.stdout


def test_a_note_needs_its_run(tmp_path: Path) -> None:
    for arguments in (("runs", "--note", "x"), ("runs", "--note", "x", tmp_path)):
        answer = gputui(*arguments, cwd=tmp_path)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert len(answer.stderr.splitlines()) == 1
