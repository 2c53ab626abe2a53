"""One run step by step, with the real nsys."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standins import METACHARACTERS, NO_TEXT

import gputui
from gputui.errors import GputuiError
from gputui.formats.nsys_rep import find_nsys
from gputui.run import keeper
from gputui.run.folder import RunFolder, read_record
from gputui.run.local import LocalMachine
from gputui.run.plan import Command, Request
from gputui.run.process import read_status
from gputui.run.progress import Progress
from gputui.run.session import Listener, Session, StepResult

pytestmark = pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")

RANGES = """if True:
    import nvtx, sys
    with nvtx.annotate("outer"):
        for at in range(3):
            with nvtx.annotate("inner"):
                print("step", at, *map(ascii, sys.argv[1:]))
"""
DEAF = """if True:
    import signal, time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("ready")
    time.sleep(100)
"""
POLITE = """if True:
    import sys, time
    print("ready")
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        sys.stdout.write("finishing\\n")
"""


class Ear(Listener):
    """Keeps what it is told; ``do`` is called with each line that the program printed so far."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.printed = b""
        self.states: list[Progress] = []
        self.copies: list[tuple[str, int, int]] = []
        self.do: Callable[[], None] = lambda: None

    def command(self, command: Command) -> None:
        self.commands.append(command)

    def output(self, data: bytes) -> None:
        self.printed += data
        self.do()

    def progress(self, progress: Progress) -> None:
        self.states.append(progress)

    def copying(self, name: str, done: int, total: int) -> None:
        self.copies.append((name, done, total))


@pytest.fixture
def ear() -> Ear:
    return Ear()


Make = Callable[..., Session]


@pytest.fixture
def make(tmp_path: Path, ear: Ear) -> Iterator[Make]:
    made: list[Session] = []

    def session(*command: str, base: Path = tmp_path / "runs", **more: object) -> Session:
        request = Request(command, str(tmp_path), **more)  # type: ignore[arg-type]
        made.append(Session(LocalMachine(), request, base, ear))
        made[-1].check()
        return made[-1]

    yield session
    for one in made:
        one.machine.close()
        if one.folder is not None:
            for path in one.folder.work.glob("*.status.json"):
                status = read_status(path)
                assert status is None or keeper.end_all(status.token)


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def record(session: Session) -> StepResult:
    return session.run(session.timeline_command())


def nothing_runs(session: Session) -> bool:
    assert session.folder is not None
    statuses = list(map(read_status, session.folder.work.glob("*.status.json")))
    return bool(statuses) and not any(keeper.leftovers(one.token) for one in statuses if one is not None)


def test_a_program_that_ends_well(make: Make, ear: Ear) -> None:
    session = make(*python(RANGES, METACHARACTERS))
    result = record(session)
    session.finish("done")
    assert session.folder is not None
    folder = session.folder.path
    assert result.reports == (folder / "timeline.nsys-rep",)
    assert (result.failed, result.program_failed, result.failures) == (False, False, ())
    assert (result.outcome.status, result.outcome.stopped, result.outcome.error) == (0, False, "")
    assert result.log.read_bytes() == ear.printed
    assert ear.printed.startswith(b"".join(f"step {at} {METACHARACTERS!a}\n".encode() for at in range(3)))
    assert ear.commands == [result.command] == [session.timeline_command()]
    assert ear.states[-1].is_writing
    assert ear.states[-1].percent == 100
    assert 0 < ear.states[-1].seconds < 60
    timeline = gputui.open_report(result.reports[0]).timeline
    assert timeline is not None
    assert {"outer", "inner"} <= set(timeline.names)
    told = json.loads((folder / "run.json").read_text())
    assert (told["state"], told["ended"] is not None, told["host"]) == ("done", True, "")
    assert told["request"]["command"] == [*python(RANGES, METACHARACTERS)]
    (stage,) = told["stages"]
    assert (stage["status"], stage["stopped"], stage["reports"]) == (0, False, ["timeline.nsys-rep"])
    assert stage["argv"] == list(result.command.argv)
    assert stage["seconds"] == result.outcome.seconds
    assert sorted(os.listdir(folder)) == [".work", "commands.txt", "run.json", "timeline.log", "timeline.nsys-rep"]
    assert not [name for name in os.listdir(folder / ".work") if name.startswith("timeline.") and "rep" in name]
    assert nothing_runs(session)


def test_the_command_that_is_kept_can_be_typed(make: Make) -> None:
    session = make(*python("import sys; print(ascii(sys.argv[1]))", NO_TEXT))
    result = record(session)
    assert session.folder is not None
    text = os.fsdecode((session.folder.path / "commands.txt").read_bytes())
    comment, command = text.split("\n", 1)
    assert comment.startswith("# timeline, ")
    assert tuple(shlex.split(command)) == result.command.argv
    program = command[command.index(f"timeline {shlex.quote(sys.executable)}") + len("timeline ") :]
    done = subprocess.run(["bash", "-c", os.fsencode(program)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{NO_TEXT!a}\n"


def test_a_program_that_fails_leaves_its_report(make: Make) -> None:
    session = make(*python("import sys; print('out'); sys.exit(3)"))
    result = record(session)
    session.finish("failed")
    assert [path.name for path in result.reports] == ["timeline.nsys-rep"]
    assert (result.failed, result.program_failed, result.outcome.status) == (False, True, 3)
    assert [(one.id, one.kind, one.params["status"]) for one in result.failures] == [("program-failed", "warning", "3")]
    assert session.folder is not None
    told = read_record(session.folder.path)
    assert (told.state, told.stages[0].status, told.stages[0].failures) == ("failed", 3, ("program-failed",))
    assert gputui.open_report(result.reports[0]).timeline is not None


def test_a_program_that_is_not_there(make: Make) -> None:
    session = make("./no-such-program", "x")
    result = record(session)
    assert (result.failed, result.reports) == (True, ())
    assert [one.id for one in result.failures][:1] == ["program-not-found"]
    assert result.log.is_file()


def test_a_folder_that_is_not_there(make: Make, tmp_path: Path) -> None:
    session = make("true")
    command = session.timeline_command()
    session.request = Request(("true",), str(tmp_path / "none"))
    with pytest.raises(GputuiError, match="none: there is no such folder"):
        session.run(command)
    session.finish("failed")
    assert session.folder is not None
    told = read_record(session.folder.path)
    assert (told.state, told.stages[0].status) == ("failed", None)


@pytest.mark.parametrize("asked", [{"duration": 1.0}, {"nsys_options": ("--duration=1",)}])
def test_nsys_ends_the_program_after_the_time_asked_for(make: Make, asked: dict[str, object]) -> None:
    session = make(*python("import time; time.sleep(100)"), **asked)
    result = record(session)
    assert (result.outcome.status, result.outcome.stopped) == (0, False)
    assert result.failures == ()
    assert not result.program_failed
    assert gputui.open_report(result.reports[0]).timeline is not None


def test_a_program_that_is_killed_within_that_time_has_failed(make: Make) -> None:
    session = make(*python("import os; os.kill(os.getpid(), 9)"), duration=50.0)
    assert record(session).program_failed


def test_a_stop_leaves_a_whole_report(make: Make, ear: Ear) -> None:
    session = make(*python(POLITE))
    stops: list[bool] = []
    ear.do = lambda: stops.append(session.stop()) if not stops and b"ready" in ear.printed else None
    assert not session.stop()
    result = record(session)
    session.finish("stopped")
    assert stops == [True]
    # nsys begins to write at once.
    assert b"finishing\n" in ear.printed
    assert result.outcome.stopped
    assert session.was_stopped
    assert not result.program_failed
    assert [one.id for one in result.failures if one.kind == "failure"] == []
    assert gputui.open_report(result.reports[0]).timeline is not None
    assert nothing_runs(session)
    assert not session.stop()


def test_a_program_that_does_not_hear_is_ended_by_the_second_stop(make: Make, ear: Ear) -> None:
    session = make(*python(DEAF))
    stops: list[bool] = []

    def stop() -> None:
        if b"ready" in ear.printed and not stops:
            stops.append(session.stop())
            stops.append(session.stop())

    ear.do = stop
    result = record(session)
    assert stops == [True, True]
    assert result.outcome.stopped
    assert result.outcome.seconds < 30
    assert nothing_runs(session)
    for path in result.reports:
        assert gputui.open_report(path).timeline is not None


def test_what_it_prints_last_is_not_lost(make: Make, ear: Ear) -> None:
    session = make(*python("print('x' * 3_000_000); print('the end')"))
    record(session)
    assert ear.printed.split(b"Generating")[0] == b"x" * 3_000_000 + b"\nthe end\n"


def test_another_session_goes_on_with_what_one_has_left(make: Make, ear: Ear, tmp_path: Path) -> None:
    """As after a lost connection: another session follows what the first began."""
    go = tmp_path / "go"
    code = f"import os, time\nprint('begun')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\nprint('over')"
    first = make(*python(code))

    def leave() -> None:
        raise ConnectionAbortedError

    ear.do = leave
    with pytest.raises(ConnectionAbortedError):
        record(first)
    assert first.folder is not None
    assert first.pending is not None
    first.folder.close()
    ear.do = lambda: None
    ear.printed = b""
    go.touch()
    second = Session(LocalMachine(), first.request, first.base, ear, folder=RunFolder.open(first.folder.path))
    second.check()
    assert second.pending is not None
    assert second.pending.argv == first.timeline_command().argv
    result = second.attach(second.pending)
    assert ear.printed.startswith(b"begun\nover\n")
    assert [path.name for path in result.reports] == ["timeline.nsys-rep"]
    assert second.pending is None
    second.finish("done")
    assert read_record(first.folder.path).state == "done"


def test_a_run_that_was_not_seen_to_its_end_is_not_marked_as_over(make: Make, ear: Ear) -> None:
    session = make(*python(POLITE))

    def fail() -> None:
        raise RuntimeError

    ear.do = fail
    with pytest.raises(RuntimeError):
        record(session)
    session.finish("failed")
    assert session.folder is not None
    assert read_record(session.folder.path).state == "running"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=160k", "gputui-test"]
    if subprocess.run(["mount", *options, str(place)], capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_without_room_for_the_report(
    make: Make, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of nothing has 240 kB."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    session = make(*python("print('done')"), base=small_disk / "runs")
    result = record(session)
    session.finish("failed")
    assert session.folder is not None
    assert result.reports == ()
    assert [(one.id, one.kind) for one in result.failures] == [("disk-full", "failure")]
    assert sorted(os.listdir(session.folder.path)) == [".work", "commands.txt", "run.json", "timeline.log"]
    told = read_record(session.folder.path)
    assert (told.state, told.stages[0].reports, told.stages[0].failures) == ("failed", (), ("disk-full",))


def test_a_disk_without_any_room(make: Make, small_disk: Path) -> None:
    session = make("true", base=small_disk / "runs")
    command = session.timeline_command()
    (small_disk / "filling").write_bytes(b"x" * shutil.disk_usage(small_disk).free)
    with pytest.raises(GputuiError, match="No space left"):
        session.run(command)
    session.finish("failed")
    assert session.folder is not None
    assert not (session.folder.path / "run.json").exists(), "nothing was run"


def test_a_folder_for_runs_that_cannot_be(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    session = make("true", base=tmp_path / "file")
    with pytest.raises(GputuiError, match="cannot be written"):
        session.timeline_command()
    session.finish("failed")
    assert session.folder is None


def test_a_stop_after_the_program_has_ended_is_a_stop(make: Make, ear: Ear) -> None:
    """What it left running has two seconds; a stop then ends it, and nothing more is to begin."""
    session = make("true")
    session.place()
    asked: list[bool] = []

    class Late(Ear):
        def progress(self, progress: Progress) -> None:
            if b"left" in self.printed and progress.seconds > 0.7 and not asked:
                asked.append(session.stop())

    session.listener = Late()
    leaving = ("sh", "-c", "setsid sleep 30 </dev/null >/dev/null 2>&1 & sleep 0.2; echo left")
    result = session.run(Command("timeline", "nsys", leaving, "timeline"))
    assert asked == [True]
    assert result.outcome.stopped
    assert nothing_runs(session)


def test_an_empty_report_is_none(make: Make) -> None:
    session = make("true")
    place = session.place()
    command = Command("timeline", "nsys", ("touch", f"{place}/timeline.nsys-rep"), "timeline")
    result = session.run(command)
    session.finish("failed")
    assert (result.reports, result.failed) == ((), True)
    assert (Path(place) / "timeline.nsys-rep").exists(), "nothing is lost"


def test_half_a_report_of_a_profiler_that_was_killed_is_none(make: Make) -> None:
    session = make("true")
    place = session.place()
    code = f"import os; open({place + '/timeline.nsys-rep'!r}, 'wb').write(b'NSYS' * 99); os.kill(os.getpid(), 9)"
    result = session.run(Command("timeline", "nsys", python(code), "timeline"))
    session.finish("failed")
    assert (result.outcome.status, result.reports) == (-9, ())
