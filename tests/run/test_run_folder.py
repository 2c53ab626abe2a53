"""The run folder: what it tells, and what it keeps of runs that were cut short."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputui.cli_run import kept_timeline
from gputui.data import demo_report
from gputui.errors import GputuiError
from gputui.formats import nsys_rep, open_report, reports_in
from gputui.run import keeper
from gputui.run.folder import (
    RunFolder,
    add_note,
    interrupted,
    kept_environment,
    listed,
    program_name,
    read_record,
    recover,
    runs,
    summary,
)
from gputui.run.local import LocalMachine
from gputui.run.machine import Outcome
from gputui.run.plan import Command, Request, Tools
from gputui.run.process import read_status
from gputui.run.session import Session

NSYS = nsys_rep.find_nsys()
REQUEST = Request(("python", "train.py"), "/data")
TIMELINE = Command("timeline", "nsys", ("nsys", "profile", "-o", "x y"), "timeline", {"A": "b c"})
WHOLE = b"NVIDIA Tegra Profiler Report 2023@4[END]"
CUT = b"NVIDIA Tegra Profiler Report 2023@4 [EN"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, REQUEST)


def written(run: RunFolder) -> Any:
    return json.loads((run.path / "run.json").read_text(encoding="utf-8"))


def in_another_process(act: Callable[[], None]) -> None:
    """Have a child do it and die of SIGKILL."""

    def act_and_die() -> None:
        act()
        os.kill(os.getpid(), signal.SIGKILL)

    child = multiprocessing.get_context("fork").Process(target=act_and_die)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


def dead_run(base: Path, **drafts: bytes) -> Path:
    """A run whose gputui was killed while it took a timeline, with these drafts (``_`` for ``.`` in names)."""

    def begin() -> None:
        run = RunFolder.create(base, REQUEST)
        run.begin(TIMELINE)
        for name, content in drafts.items():
            (run.work / name.replace("_", ".").replace("nsys.rep", "nsys-rep")).write_bytes(content)

    in_another_process(begin)
    (one,) = runs(base)
    return one.path


# --------------------------------------------------------------- what it tells


def test_a_run_tells_what_was_run_and_how_it_ended(tmp_path: Path) -> None:
    run = RunFolder.create(
        tmp_path / "runs", REQUEST, tools=Tools(nsys="/x/nsys", nsys_version=(2023, 4, 4)), gpus=["H100"],
        driver="550.54", environ={"CUDA_VISIBLE_DEVICES": "0", "HOME": "/x"},
    )  # fmt: skip
    record = written(run)
    assert record["state"] == "running"
    assert record["request"]["command"] == ["python", "train.py"]
    assert (record["gpus"], record["driver"], record["tools"]) == (["H100"], "550.54", {"nsys": "2023.4.4"})
    assert record["environment"] == {"CUDA_VISIBLE_DEVICES": "0"}
    run.begin(TIMELINE)
    assert written(run)["stages"][0]["status"] is None
    assert (run.path / "commands.txt").read_text(encoding="utf-8").splitlines()[1:] == [
        "env 'A=b c' nsys profile -o 'x y'",
        "",
    ]
    assert stat.S_IMODE(run.work.stat().st_mode) == 0o700
    draft = run.work / "timeline.nsys-rep"
    draft.write_bytes(WHOLE)
    report = run.adopt(draft, "timeline.nsys-rep")
    run.finish("timeline", Outcome(3, False, 12.5), [report], ["program-failed"])
    run.end("failed")
    (stage,) = written(run)["stages"]
    assert (stage["status"], stage["seconds"], stage["reports"]) == (3, 12.5, ["timeline.nsys-rep"])
    assert stage["failures"] == ["program-failed"]
    (one,) = runs(tmp_path / "runs")
    assert (one.state, one.program, one.reports) == ("failed", "train", ("timeline.nsys-rep",))
    assert one.path == run.path
    report.unlink()
    assert summary(run.path).reports == ()


def test_a_command_that_is_run_again_is_told_once_and_both_can_be_copied(run: RunFolder) -> None:
    run.begin(TIMELINE)
    run.finish("timeline", Outcome(1, False, 1.0))
    run.begin(TIMELINE)
    assert [one.status for one in run.record.stages] == [None]
    assert (run.path / "commands.txt").read_text(encoding="utf-8").count("nsys profile") == 2


@pytest.mark.parametrize("odd", ["a'b\n$(reboot)", "損失", "\udcff", "\x1b[2J"])
def test_commands_can_be_copied_whatever_they_hold(tmp_path: Path, odd: str) -> None:
    run = RunFolder.create(tmp_path, Request((odd,), f"/{odd}"))
    run.begin(Command("timeline", "nsys", ("printf", "%s", odd), "timeline"))
    assert read_record(run.path).request.command == (odd,)
    printed = subprocess.run(["sh", str(run.path / "commands.txt")], capture_output=True, check=True).stdout
    assert printed == os.fsencode(odd)


def test_two_runs_of_one_second_and_two_reports_of_one_name(tmp_path: Path) -> None:
    paths = [RunFolder.create(tmp_path, REQUEST).path.name for _ in range(5)]
    assert len(set(paths)) == 5
    run = RunFolder.create(tmp_path, REQUEST)
    names = []
    for content in (b"1", b"2", b"3"):
        draft = run.work / "x"
        draft.write_bytes(content)
        names.append(run.adopt(draft, "counters-1.ncu-rep").name)
        assert not draft.exists()
    assert names == ["counters-1.ncu-rep", "counters-1-2.ncu-rep", "counters-1-3.ncu-rep"]
    assert [(run.path / name).read_bytes() for name in names] == [b"1", b"2", b"3"]


def test_a_disk_without_hard_links_overwrites_nothing(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    (run.path / "a.log").write_bytes(b"mine")
    draft = run.work / "a.log"
    draft.write_bytes(b"new")
    assert run.adopt(draft, "a.log").name == "a-2.log"
    assert (run.path / "a.log").read_bytes() == b"mine"
    assert (run.path / "a-2.log").read_bytes() == b"new"


def test_the_environment_that_is_kept_holds_no_secret() -> None:
    kept = ("CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "OMP_NUM_THREADS", "SLURM_JOB_ID", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    left = ("HOME", "AWS_SECRET_ACCESS_KEY", "SLURM_JWT", "NVIDIA_API_KEY", "TORCH_TOKEN", "CUDA_PASSWORD", "MY_CUDA_X")
    assert set(kept_environment(dict.fromkeys([*kept, *left], "x"))) == set(kept)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py", "train"),
        ("python3.11 -u -m pkg.mod --x 1", "mod"),
        ("torchrun --nproc_per_node 8 --master_addr host train.py", "train"),
        ("mpirun -n 4 ./a.out x", "a.out"),
        ("env CUDA_VISIBLE_DEVICES=0 /x/bench big", "bench"),
        ("accelerate launch /x/fine_tune.py", "fine_tune"),
        ("./a.out", "a.out"),
        ("./run", "run"),
        ("python -c print(1)", "python"),
        ("../../etc/pass*wd", "pass_wd"),
        ("./-損失-", "program"),
        ("x" * 300, "x" * 40),
        ("", "program"),
    ],
)
def test_the_name_of_a_program(command: str, name: str) -> None:
    assert program_name(command.split()) == name


def test_gputui_open_finds_the_reports_of_a_run_and_nothing_else(run: RunFolder) -> None:
    run.begin(TIMELINE)
    for name in ("timeline.nsys-rep", "half.ncu-rep", "timeline.log", "timeline.status.json"):
        (run.work / name).write_bytes(WHOLE)
    run.adopt(run.work / "timeline.log", "timeline.log")
    run.note("a note")
    with pytest.raises(GputuiError, match="without a report"):
        reports_in(run.path)
    shutil.copy(demo_report(), run.work / "counters-1.ncu-rep")
    report = run.adopt(run.work / "counters-1.ncu-rep", "counters-1.ncu-rep")
    assert reports_in(run.path) == [report]
    open_report(report).close()


# ------------------------------------------------------------ notes and lists


def test_notes_are_added_while_another_writes_the_run(run: RunFolder) -> None:
    add_note(run.path, "batch 64\nslower\n")
    run.note("batch 128")
    assert (run.path / "notes.txt").read_text(encoding="utf-8") == "batch 64\nslower\nbatch 128\n"
    assert summary(run.path).note == "batch 64"
    with pytest.raises(GputuiError, match="is no run of gputui"):
        add_note(run.path.parent, "x")


def test_only_one_gputui_writes_a_run(run: RunFolder) -> None:
    with pytest.raises(GputuiError, match="open in another gputui"):
        RunFolder.open(run.path)
    run.end("done")
    run.close()
    again = RunFolder.open(run.path)
    again.begin(TIMELINE)
    assert (written(again)["state"], written(again)["ended"]) == ("running", None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[[[",
        b"[" * 100_000,
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"state": "running"}',
        b"1" * 10_000,
        b" " * (5 << 20),
    ],
)
def test_a_damaged_record_is_one_line(run: RunFolder, content: bytes) -> None:
    (run.path / "run.json").write_bytes(content)
    (one,) = runs(run.path.parent)
    assert "damaged run.json" in one.problem
    assert "\n" not in one.problem
    assert len(one.problem) < 500 + 2 * len(str(run.path))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("state", "\x1b[2J"),
        ("owner", {"pid": "1"}),
        ("stages", [{"id": "x", "tool": "", "argv": [], "output": "", "reports": ["../../x"]}]),
        ("started", "yesterday"),
    ],
)
def test_a_hostile_record_is_refused(run: RunFolder, where: str, value: Any) -> None:
    (run.path / "run.json").write_text(json.dumps({**written(run), where: value}), encoding="utf-8")
    problem = summary(run.path).problem
    assert "damaged run.json" in problem
    assert problem.isprintable()


def test_fields_of_a_later_gputui_do_no_harm(run: RunFolder) -> None:
    (run.path / "run.json").write_text(json.dumps({**written(run), "new": [1]}), encoding="utf-8")
    assert summary(run.path).problem == ""


def test_a_thousand_runs_are_listed_at_once_newest_first(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path, REQUEST)
    record = written(first)
    for number in range(1, 1000):
        other = tmp_path / f"{number}"
        other.mkdir()
        changed = {**record, "state": "done", "started": f"2020-01-01T00:{number // 60:02}:{number % 60:02}Z"}
        (other / "run.json").write_text(json.dumps(changed), encoding="utf-8")
    begun = time.process_time()
    found = runs(tmp_path)
    assert time.process_time() - begun < 2
    assert [one.path.name for one in found] == [first.path.name, *map(str, range(999, 0, -1))]


def test_no_runs(tmp_path: Path) -> None:
    assert runs(tmp_path) == runs(tmp_path / "none") == []
    (tmp_path / "file").touch()
    with pytest.raises(GputuiError, match="cannot be read"):
        runs(tmp_path / "file")


# ------------------------------------------------------------------ cut short


def test_a_run_whose_gputui_lives_is_running(run: RunFolder) -> None:
    assert summary(run.path).state == "running"
    assert interrupted(run.path.parent) == []


def test_a_killed_gputui_leaves_an_interrupted_run_of_which_whole_reports_are_kept(tmp_path: Path) -> None:
    path = dead_run(tmp_path, timeline_nsys_rep=WHOLE, timeline_1_nsys_rep=CUT, timeline_log=b"said", other=WHOLE)
    assert [one.path for one in interrupted(tmp_path)] == [path]
    one = recover(path)
    assert (one.state, one.reports) == ("interrupted", ("timeline.nsys-rep",))
    assert interrupted(tmp_path) == []
    assert (path / "timeline.nsys-rep").read_bytes() == WHOLE
    assert (path / "timeline.log").read_bytes() == b"said"
    assert sorted(entry.name for entry in (path / ".work").iterdir()) == ["lock", "other", "timeline.1.nsys-rep"]
    assert read_record(path).state == "interrupted"
    assert recover(path) == one


def test_a_number_that_another_process_has_now_does_not_make_a_run_alive(run: RunFolder) -> None:
    record = written(run)
    record["owner"]["start"] += 1
    run.close()
    (run.path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert summary(run.path).state == "interrupted"


def test_what_runs_elsewhere_is_not_known(run: RunFolder, tmp_path: Path) -> None:
    record = written(run)
    record["owner"].update(boot="another", host="node7")
    (run.path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    one = summary(run.path)
    assert (one.state, one.host) == ("unknown", "node7")
    base = tmp_path / "remote"
    in_another_process(lambda: RunFolder.create(base, REQUEST, host="me@server") and None)
    (one,) = runs(base)
    assert (one.state, one.host) == ("unknown", "me@server")
    assert recover(one.path).state == "unknown"


def test_listing_keeps_what_it_can_and_needs_no_right_to_write(tmp_path: Path) -> None:
    path = dead_run(tmp_path, timeline_nsys_rep=WHOLE)
    held = RunFolder.open(path)
    (one,) = listed(tmp_path)
    assert (one.state, one.reports) == ("interrupted", ())
    held.close()
    (one,) = listed(tmp_path)
    assert one.reports == ("timeline.nsys-rep",)


def test_a_damaged_status_of_the_keeper_hinders_nothing(tmp_path: Path) -> None:
    path = dead_run(tmp_path, timeline_nsys_rep=WHOLE)
    hostile = {"keeper": {"pid": 1}, "token": "x", "ended": "never", "status": [], "seconds": "long", "error": {}}
    (path / ".work" / "timeline.status.json").write_text(json.dumps(hostile), encoding="utf-8")
    assert recover(path).reports == ("timeline.nsys-rep",)
    assert read_record(path).stages[0].status is None


PARENT = """
import sys
from pathlib import Path
from gputui.run.folder import RunFolder
from gputui.run.local import LocalMachine
from gputui.run.machine import JobSpec
from gputui.run.plan import Command, Request
base, *argv = sys.argv[1:]
run = RunFolder.create(Path(base), Request(("python",), base))
machine = LocalMachine()
folder = machine.folder(run.path)
command = Command("timeline", "nsys", (*argv[:2], "-o", folder + "/timeline", *argv[2:]), "timeline")
run.begin(command)
job = machine.start(JobSpec("timeline", command.argv, folder, base, tool="nsys"))
while b"step 3" not in job.read():
    pass
print("stepped", flush=True)
sys.stdin.read()
"""
STEPS = "import time\nfor step in range(600):\n    print('step', step)\n    time.sleep(0.1)\n"


@pytest.mark.skipif(NSYS is None, reason="nsys is not installed")
def test_the_report_that_nsys_finishes_after_gputui_died_is_kept(tmp_path: Path) -> None:
    assert NSYS is not None
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), NSYS, "profile", "--trace=osrt", "--sample=none",
         "--cpuctxsw=none", sys.executable, "-c", STEPS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"stepped\n"
        (path,) = (one.path for one in runs(tmp_path))
        status = read_status(path / ".work" / "timeline.status.json")
        assert status is not None
        parent.kill()
    # While nsys finishes its report the run is not over.
    end = time.monotonic() + 60
    while (state := summary(path).state) != "interrupted":
        assert state == "running"
        assert time.monotonic() < end
        time.sleep(0.05)
    assert keeper.leftovers(status.token) == set()
    one = recover(path)
    assert one.reports == ("timeline.nsys-rep",)
    assert nsys_rep.is_whole(path / "timeline.nsys-rep")
    (stage,) = read_record(path).stages
    assert (stage.status, stage.stopped) == (128 + signal.SIGINT, True)
    assert "step 3" in (path / "timeline.log").read_text(encoding="utf-8")


def test_a_run_that_is_gone_on_with_keeps_its_timeline(tmp_path: Path) -> None:
    request = Request(("python", "train.py"), str(tmp_path))
    folder = RunFolder.create(tmp_path, request)
    session = Session(LocalMachine(), request, tmp_path, folder=folder)
    assert kept_timeline(session) is None
    folder.begin(Command("timeline", "nsys", ("nsys",), "timeline"))
    assert kept_timeline(session) is None, "it may still be under way"
    folder.finish("timeline", Outcome(0, False, 1.0), [folder.path / "timeline.nsys-rep"])
    assert kept_timeline(session) == folder.path / "timeline.nsys-rep"
    folder.begin(Command("counters-1", "ncu", ("ncu",), "counters-1"))
    assert kept_timeline(session) is None, "its counters are under way"
    folder.close()


@pytest.mark.parametrize("key", ["id", "output"])
@pytest.mark.parametrize("name", ["../../victim", "/etc/passwd", "", ".", "..", "a/b", "a\0b", ".work"])
def test_a_step_of_a_stranger_reaches_no_file_outside(tmp_path: Path, key: str, name: str) -> None:
    folder = RunFolder.create(tmp_path / "runs", Request(("true",), str(tmp_path)))
    folder.begin(Command("timeline", "nsys", ("nsys",), "timeline"))
    folder.close()
    told = json.loads((folder.path / "run.json").read_text())
    told["owner"]["pid"] = 2**22 + 1
    told["stages"][0][key] = name
    (folder.path / "run.json").write_text(json.dumps(told))
    victim = tmp_path / "victim.log"
    victim.write_text("precious")
    (one,) = listed(tmp_path / "runs")
    assert "damaged run.json" in one.problem
    assert victim.read_text() == "precious"


def test_drafts_that_are_a_link_are_left_alone(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", Request(("true",), str(tmp_path)))
    folder.begin(Command("timeline", "nsys", ("nsys",), "timeline"))
    folder.close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "timeline.log").write_text("precious")
    shutil.rmtree(folder.path / ".work")
    (folder.path / ".work").symlink_to(tmp_path / "mine")
    with pytest.raises(GputuiError, match="is a link"):
        recover(folder.path)
    assert (tmp_path / "mine" / "timeline.log").exists()


@pytest.mark.parametrize("name", ["run.json", "notes.txt", ".work/timeline.status.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = RunFolder.create(tmp_path / "runs", Request(("true",), str(tmp_path)))
    folder.begin(Command("timeline", "nsys", ("nsys",), "timeline"))
    folder.close()
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    (one,) = runs(tmp_path / "runs")
    assert bool(one.problem) == (name == "run.json")


def test_a_year_that_no_clock_shows_is_sorted(tmp_path: Path) -> None:
    for _ in range(2):
        folder = RunFolder.create(tmp_path, Request(("true",), str(tmp_path)))
        folder.close()
        told = json.loads((folder.path / "run.json").read_text())
        (folder.path / "run.json").write_text(json.dumps({**told, "started": "0001-01-01T00:00:00"}))
    assert len(runs(tmp_path)) == 2
