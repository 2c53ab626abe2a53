"""Commands run by the keeper: real processes, and the real nsys where it is installed."""

from __future__ import annotations

import ast
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gputui.errors import GputuiError
from gputui.formats import nsys_rep, open_report
from gputui.run import keeper, local
from gputui.run.local import LocalMachine
from gputui.run.machine import JobSpec, Outcome
from gputui.run.process import LocalJob, Status, is_alive, read_status

NSYS = nsys_rep.find_nsys()
needs_nsys = pytest.mark.skipif(NSYS is None, reason="nsys is not installed")
LONG = 60.0

DEAF = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
STEPS = "import time\nfor step in range(600):\n    print('step', step)\n    time.sleep(0.1)\n"

Start = Callable[..., LocalJob]


def until(what: Callable[[], Any], within: float = LONG) -> Any:
    """The first answer of ``what`` that is one."""
    end = time.monotonic() + within
    while not (answer := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return answer


def ended(job: LocalJob) -> Outcome:
    outcome: Outcome = until(job.outcome)
    return outcome


def printed(job: LocalJob, text: str) -> str:
    """What the job printed up to now, once that holds ``text``."""
    found = bytearray()

    def more() -> bool:
        found.extend(job.read())
        return text.encode() in found

    until(more)
    return found.decode()


def everything(job: LocalJob) -> str:
    return b"".join(iter(job.read, b"")).decode()


def token_of(folder: str, id: str = "job") -> str:
    status = read_status(Path(folder) / f"{id}.status.json")
    assert status is not None
    return status.token


def whole_report(path: Path) -> bool:
    return path.is_file() and nsys_rep.is_whole(path)


@pytest.fixture
def machine() -> Iterator[LocalMachine]:
    machine = LocalMachine()
    yield machine
    machine.close()


@pytest.fixture
def folder(machine: LocalMachine, tmp_path: Path) -> Iterator[str]:
    folder = machine.folder(tmp_path / "run")
    yield folder
    for status in map(read_status, Path(folder).glob("*.status.json")):
        assert status is not None
        if is_alive(status.keeper):
            os.kill(status.keeper.pid, signal.SIGTERM)
        until(partial(keeper.end_all, status.token))


@pytest.fixture
def start(machine: LocalMachine, folder: str, tmp_path: Path) -> Start:
    def start(*argv: str, id: str = "job", **more: Any) -> LocalJob:
        return machine.start(JobSpec(id, argv, folder, str(tmp_path), **more))

    return start


def nsys_command(folder: str, program: str) -> tuple[str, ...]:
    assert NSYS is not None
    return (NSYS, "profile", "-o", f"{folder}/timeline", "--trace=osrt", "--sample=none", "--cpuctxsw=none",
            sys.executable, "-c", program)  # fmt: skip


def test_the_keeper_is_python_3_6_and_stands_alone() -> None:
    tree = ast.parse(Path(keeper.__file__).read_text(encoding="utf-8"), feature_version=(3, 6))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)


# ---------------------------------------------------------------- running


def test_output_arrives_while_the_program_runs(start: Start) -> None:
    job = start(sys.executable, "-c", STEPS)
    printed(job, "step 2\n")
    assert job.outcome() is None
    job.kill()
    ended(job)


def test_the_exit_status_and_all_that_was_printed(start: Start) -> None:
    job = start("sh", "-c", "echo out; echo err >&2; exit 3")
    outcome = ended(job)
    assert (outcome.status, outcome.stopped, outcome.error) == (3, False, "")
    assert 0 < outcome.seconds < 10
    assert everything(job) == "out\nerr\n"
    assert job.read() == b""


def test_a_signal_that_ends_it_is_its_status(start: Start) -> None:
    assert ended(start("sh", "-c", "kill -SEGV $$")).status == -signal.SIGSEGV


def test_it_has_a_terminal_of_the_asked_size_and_no_input(start: Start, tmp_path: Path) -> None:
    told = "import os, sys; print(os.get_terminal_size(1), sys.stdin.read(), os.getcwd(), os.environ['A'])"
    job = start(sys.executable, "-c", told, columns=91, rows=17, env={"A": "b c"})
    assert ended(job).status == 0
    assert everything(job) == f"os.terminal_size(columns=91, lines=17)  {tmp_path} b c\n"


def test_it_reads_the_standard_input_where_that_is_asked(folder: str, tmp_path: Path) -> None:
    spec = {"id": "job", "argv": ["cat"], "folder": folder, "cwd": str(tmp_path), "inherit_stdin": True}
    (tmp_path / "spec").write_text(json.dumps(spec), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, keeper.__file__, str(tmp_path / "spec")], input=b"given", capture_output=True, check=True
    )
    assert (Path(folder) / "job.log").read_bytes() == b"given"
    assert [json.loads(line).get("status") for line in done.stdout.splitlines()] == [None, None, 0]


def test_its_terminal_can_be_resized(start: Start) -> None:
    program = (
        "import os, signal\nsignal.signal(signal.SIGWINCH, lambda *_: None)\nprint('ready')\nsignal.pause()\n"
        "print(os.get_terminal_size(1).columns)"
    )
    job = start(sys.executable, "-c", program)
    printed(job, "ready")
    job.resize(77, 20)
    assert ended(job).status == 0
    assert everything(job).strip() == "77"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("no-such-program",), "no-such-program: No such file or directory"),
        (("/etc/passwd",), "/etc/passwd: Permission denied"),
        (("a\0b",), "embedded null byte"),
    ],
)
def test_what_cannot_be_started(start: Start, argv: tuple[str, ...], said: str) -> None:
    outcome = ended(start(*argv))
    assert (outcome.status, outcome.stopped, outcome.error) == (None, False, said)


def test_a_folder_that_is_not_there(machine: LocalMachine, tmp_path: Path) -> None:
    with pytest.raises(GputuiError, match="No such file or directory"):
        machine.start(JobSpec("job", ("true",), str(tmp_path / "gone"), "/"))


def test_odd_bytes_in_arguments_arrive_as_they_are(start: Start) -> None:
    job = start("printf", "%s", "損失\udcff\n")
    ended(job)
    assert b"".join(iter(job.read, b"")) == "損失".encode() + b"\xff\n"


def test_many_at_once_do_not_disturb_each_other(start: Start) -> None:
    jobs = [start("sh", "-c", f"sleep 0.2; echo {one}; exit {one}", id=f"job{one}") for one in range(6)]
    assert [ended(job).status for job in jobs] == list(range(6))
    assert [everything(job) for job in jobs] == [f"{one}\n" for one in range(6)]


def test_a_job_can_be_found_again(start: Start, machine: LocalMachine, folder: str, tmp_path: Path) -> None:
    job = start(sys.executable, "-c", STEPS)
    again = machine.attach(JobSpec("job", (), folder, str(tmp_path)))
    printed(again, "step 1\n")
    assert again.outcome() is None
    again.stop()
    assert ended(again) == ended(job)
    assert ended(job).stopped
    with pytest.raises(GputuiError, match="never started"):
        machine.attach(JobSpec("other", (), folder, str(tmp_path)))


# ---------------------------------------------------------------- stopping


def test_stop_is_ctrl_c_for_the_whole_group(start: Start) -> None:
    job = start("sh", "-c", "trap 'echo parent; wait; exit 7' INT; sh -c 'trap \"echo child\" INT; sleep 60'; wait")
    until(lambda: len(keeper.leftovers(token_of(os.path.dirname(job._place)))) >= 3)
    job.stop()
    outcome = ended(job)
    assert (outcome.status, outcome.stopped) == (7, True)
    assert sorted(everything(job).split()) == ["child", "parent"]


def test_a_program_that_ignores_it_ends_at_the_second_stop(start: Start) -> None:
    job = start(sys.executable, "-c", DEAF + STEPS)
    printed(job, "step 0")
    job.stop()
    printed(job, "step 5")
    assert job.outcome() is None
    job.stop()
    assert ended(job) == Outcome(-signal.SIGTERM, True, ended(job).seconds)


def test_a_program_that_ignores_everything_is_killed(start: Start) -> None:
    job = start(sys.executable, "-c", DEAF + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STEPS)
    printed(job, "step 0")
    job.stop()
    printed(job, "step 5")
    job.stop()
    assert ended(job).status == -signal.SIGKILL


def test_a_stop_at_once_after_the_start_is_not_lost(start: Start) -> None:
    for one in range(5):
        job = start("sleep", "60", id=f"job{one}")
        job.stop()
        assert ended(job) == Outcome(-signal.SIGINT, True, ended(job).seconds)


def test_kill_takes_a_whole_tree_also_one_that_goes_on_forking(start: Start, folder: str) -> None:
    program = (
        "for one in $(seq 20); do setsid sleep 600 & done\n"
        "setsid env -i sleep 654321 &\n"
        # Each lives for a moment, and leaves another.
        "again() { sleep 0.01; again & }\n"
        "again &\n"
        "trap '' INT TERM; echo ready; while :; do sleep 1; done"
    )
    job = start("bash", "-c", program)
    printed(job, "ready")
    job.kill()
    assert ended(job) == Outcome(-signal.SIGKILL, True, ended(job).seconds)
    assert keeper.leftovers(token_of(folder)) == set()
    # Without its environment it is known as a child alone.
    assert b"sleep\x00654321" not in b"".join(commands())


def commands() -> Iterator[bytes]:
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield one.read_bytes()
        except OSError:
            continue


def test_what_the_program_leaves_behind_is_ended(start: Start, folder: str) -> None:
    job = start("sh", "-c", "setsid sleep 600 & exit 0")
    assert ended(job) == Outcome(0, False, ended(job).seconds)
    assert keeper.leftovers(token_of(folder)) == set()


def test_a_killed_keeper_is_noticed_and_leaves_nothing(start: Start, folder: str) -> None:
    job = start("sh", "-c", "trap '' HUP; setsid sleep 600 & echo ready; sleep 600")
    printed(job, "ready")
    status = read_status(Path(folder) / "job.status.json")
    assert status is not None
    os.kill(status.keeper.pid, signal.SIGKILL)
    outcome = ended(job)
    assert (outcome.status, outcome.stopped) == (None, False)
    assert "keeper was killed" in outcome.error
    assert keeper.leftovers(status.token) == set()


PARENT = """
import sys
from gputui.run.local import LocalMachine
from gputui.run.machine import JobSpec
folder, tool, *argv = sys.argv[1:]
job = LocalMachine().start(JobSpec("job", tuple(argv), folder, folder, tool=tool))
print("started", flush=True)
sys.stdin.read()
"""


def killed_parent(folder: str, tool: str, *argv: str) -> str:
    """Have another process start the command and kill that process once the command prints; the token."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, folder, tool, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    try:
        assert parent.stdout.readline() == b"started\n"
        log = Path(folder) / "job.log"
        until(lambda: b"step 3" in log.read_bytes())
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        parent.stdin.close()
    return token_of(folder)


def final_status(folder: str) -> Status:
    def written() -> Status | None:
        status = read_status(Path(folder) / "job.status.json")
        return status if status is not None and status.ended is not None else None

    status: Status = until(written)
    return status


def test_a_program_does_not_outlive_a_killed_gputui(folder: str) -> None:
    token = killed_parent(folder, "", sys.executable, "-c", STEPS)
    status = final_status(folder)
    assert (status.status, status.stopped) == (-signal.SIGINT, True)
    assert keeper.leftovers(token) == set()


def test_without_somebody_to_answer_to_a_command_goes_on(folder: str, tmp_path: Path) -> None:
    spec = {"id": "job", "argv": ["sh", "-c", "echo begun; read x < pipe; exit 4"], "folder": folder,
            "cwd": str(tmp_path)}  # fmt: skip
    (tmp_path / "spec").write_text(json.dumps(spec), encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    alone = subprocess.Popen(
        ["sh", "-c", '"$@" > /dev/null & echo $!', "sh", sys.executable, keeper.__file__, str(tmp_path / "spec")],
        stdout=subprocess.PIPE,
    )
    number = int(alone.communicate()[0])
    until(lambda: (Path(folder) / "job.log").is_file() and (Path(folder) / "job.log").read_bytes() == b"begun\n")
    os.kill(number, signal.SIGHUP)
    (tmp_path / "pipe").write_text("go on\n", encoding="utf-8")
    status = final_status(folder)
    assert (status.status, status.stopped, status.keeper.pid) == (4, False, number)


# ------------------------------------------------------------- the real nsys


@needs_nsys
def test_nsys_that_is_stopped_finishes_its_report(start: Start, folder: str) -> None:
    job = start(*nsys_command(folder, STEPS), tool="nsys")
    printed(job, "step 3\n")
    job.stop()
    outcome = ended(job)
    assert outcome.stopped
    # The program's own, which Python ends so.
    assert outcome.status == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in everything(job)
    report = Path(folder) / "timeline.nsys-rep"
    assert whole_report(report)
    assert keeper.leftovers(token_of(folder)) == set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        opened = open_report(report)
    assert opened.kind == "nsys"
    opened.close()


@needs_nsys
def test_nsys_and_a_program_that_ignores_the_stop(start: Start, folder: str) -> None:
    job = start(*nsys_command(folder, DEAF + STEPS), tool="nsys")
    printed(job, "step 3\n")
    job.stop()
    # A second signal to nsys would end it here, without a report.
    printed(job, "Generating")
    job.stop()
    assert ended(job).stopped
    assert whole_report(Path(folder) / "timeline.nsys-rep")
    assert keeper.leftovers(token_of(folder)) == set()


@needs_nsys
def test_nsys_reports_of_a_program_that_ignores_everything(start: Start, folder: str) -> None:
    job = start(*nsys_command(folder, DEAF + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STEPS), tool="nsys")
    printed(job, "step 3\n")
    job.stop()
    printed(job, "Generating")
    job.stop()
    assert ended(job).stopped
    assert whole_report(Path(folder) / "timeline.nsys-rep")


@needs_nsys
def test_nsys_is_killed_where_that_is_asked(start: Start, folder: str) -> None:
    job = start(*nsys_command(folder, STEPS), tool="nsys")
    printed(job, "step 3\n")
    job.kill()
    assert ended(job) == Outcome(-signal.SIGKILL, True, ended(job).seconds)
    assert keeper.leftovers(token_of(folder)) == set()


@needs_nsys
def test_nsys_of_a_killed_gputui_finishes_its_report_and_is_gone(folder: str) -> None:
    token = killed_parent(folder, "nsys", *nsys_command(folder, STEPS))
    assert final_status(folder).stopped
    assert keeper.leftovers(token) == set()
    assert whole_report(Path(folder) / "timeline.nsys-rep")


@needs_nsys
def test_nsys_tells_the_status_of_its_program(start: Start, folder: str) -> None:
    job = start(*nsys_command(folder, "raise SystemExit(3)"), tool="nsys")
    assert ended(job) == Outcome(3, False, ended(job).seconds)
    assert whole_report(Path(folder) / "timeline.nsys-rep")


# ------------------------------------------------------------------- the log


def log_of(tmp_path: Path, *chunks: bytes) -> bytes:
    log = keeper.Log(os.fsencode(tmp_path / "log"))
    for chunk in chunks:
        log.add(chunk)
    log.close()
    return (tmp_path / "log").read_bytes()


def test_of_much_output_beginning_and_end_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOG_HEAD", 100)
    monkeypatch.setattr(keeper, "LOG_TAIL", 20)
    numbers = b"".join(b"%4d" % number for number in range(1000))
    assert log_of(tmp_path, numbers[:100]) == numbers[:100]
    for size in (1, 7, 100, 4000):
        text = log_of(tmp_path, *(numbers[at : at + size] for at in range(0, 4000, size)))
        head, note, left_out = text.partition(b"\n[gputui: this is much output")
        assert head == numbers[:100]
        assert left_out.endswith(b"\n[gputui: 3880 bytes are left out here]\n" + numbers[-20:])
        assert note
    assert b"left out" not in log_of(tmp_path, numbers[:110])
    assert log_of(tmp_path, numbers[:110]).endswith(numbers[100:110])


def test_output_without_end_is_cut_and_does_not_hold_up_the_program(start: Start) -> None:
    job = start(sys.executable, "-c", f"import sys\nfor _ in range({keeper.LOG_HEAD >> 20} + 8):\n print('x' * 2**20)")
    assert ended(job).status == 0
    text = everything(job)
    assert keeper.LOG_HEAD < len(text) < keeper.LOG_HEAD + keeper.LOG_TAIL + 200
    assert "bytes are left out here]" in text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "gputui-test", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_neither_ends_the_program_nor_hides_how_it_ended(machine: LocalMachine, small_disk: Path) -> None:
    folder = machine.folder(small_disk / "run")
    job = machine.start(
        JobSpec("job", (sys.executable, "-c", "print('x' * 3_000_000); raise SystemExit(5)"), folder, "/")
    )
    outcome = ended(job)
    assert (outcome.status, outcome.stopped) == (5, False)
    assert outcome.error == f"some of its output could not be kept ({os.strerror(errno.ENOSPC)})"
    # For whoever attaches later, too.
    again = machine.attach(JobSpec("job", (), folder, "/"))
    assert again.outcome() == outcome
    with pytest.raises(GputuiError, match=os.strerror(errno.ENOSPC)):
        machine.start(JobSpec("next", ("true",), folder, "/"))


# ------------------------------------------------------------- the machine


def test_facts_are_what_the_probe_prints(
    machine: LocalMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in for the probe: what the real one finds differs from machine to machine.
    probe = tmp_path / "probe.py"
    monkeypatch.setattr(local, "PROBE", probe)
    probe.write_text("print('{\"gpus\": []}')", encoding="utf-8")
    assert machine.facts() == {"gpus": []}
    probe.write_text("raise SystemExit(3)", encoding="utf-8")
    with pytest.raises(GputuiError, match="status 3"):
        machine.facts()
    monkeypatch.setattr(local, "_PROBE_S", 0.3)
    probe.write_text("import os, time\nos.fork()\ntime.sleep(600)", encoding="utf-8")
    with pytest.raises(GputuiError, match=r"more than 0\.3 s"):
        machine.facts()


def test_files_are_put_listed_and_moved_into_place(machine: LocalMachine, tmp_path: Path) -> None:
    run = tmp_path / "run"
    folder = Path(machine.folder(run))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    machine.put(run, "timeline.nsys-rep", b"report")
    machine.put(run, "other", b"")
    assert machine.files(run, "timeline") == {"timeline.nsys-rep": 6}
    machine.fetch(run, "timeline.nsys-rep", folder / "timeline.nsys-rep")
    assert (folder / "timeline.nsys-rep").read_bytes() == b"report"
    machine.fetch(run, "timeline.nsys-rep", tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == b"report"
    assert machine.files(run, "timeline") == {}
    with pytest.raises(GputuiError, match="No such file"):
        machine.fetch(run, "timeline.nsys-rep", tmp_path / "here")


def test_a_file_goes_to_another_disk_whole_or_not_at_all(
    machine: LocalMachine, tmp_path: Path, small_disk: Path
) -> None:
    run = tmp_path / "run"
    machine.put(run, "big", b"x" * (2 << 20))
    with pytest.raises(GputuiError, match=os.strerror(errno.ENOSPC)):
        machine.fetch(run, "big", small_disk / "big")
    machine.put(run, "small", b"x" * 1000)
    with pytest.raises(GputuiError, match="was stopped"):
        machine.fetch(run, "small", small_disk / "small", lambda done, total: False)
    assert list(small_disk.iterdir()) == []
    seen: list[tuple[int, int]] = []
    machine.fetch(run, "small", small_disk / "small", lambda done, total: not seen.append((done, total)))
    assert (small_disk / "small").read_bytes() == b"x" * 1000
    assert seen == [(1000, 1000)]
    assert list(machine.files(run, "")) == ["big"]


# ------------------------------------------------------------ who is alive


def test_a_process_is_told_from_another_of_its_number() -> None:
    me = keeper.identity(os.getpid())
    assert keeper.is_alive(me) is True
    assert keeper.is_alive({**me, "start": me["start"] + 1}) is False
    assert keeper.is_alive({**me, "boot": "an earlier one"}) is False
    assert keeper.is_alive({**me, "boot": "another", "host": "elsewhere"}) is None
    assert keeper.is_alive({**me, "space": "pid:[1]"}) is None
    child = subprocess.Popen(["true"])
    who = keeper.identity(child.pid)
    # Ended, though not waited for.
    until(lambda: keeper.is_alive(who) is False)
    child.wait()
    assert keeper.is_alive(who) is False
