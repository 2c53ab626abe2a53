"""Another machine, which is this one (``ssh_server``), asked and told."""

from __future__ import annotations

import ast
import fcntl
import getpass
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ssh_server import Server, descendants, free_port, name_of, needs_sshd, wait_for

import gputui
from gputui.errors import GputuiError
from gputui.render.doctor import doctor_text
from gputui.run import remote
from gputui.run.doctor import checks, tools
from gputui.run.machine import JobSpec, Outcome
from gputui.run.remote import RemoteJob, SshMachine, UnreachableError, facts_of
from gputui.wording import wording

pytestmark = needs_sshd
EVERYTHING = "a b'c\"d$(touch x)`touch y`;&&||>z<*?[!]{}~#\\ \n\r\t!%^=-- é日本\udcff"


@pytest.fixture
def box(server: Server) -> SshMachine:
    server.start()
    return server.machine()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "here" / "run-1"
    folder.mkdir(parents=True)
    return folder


def spec(machine: SshMachine, run: Path, *argv: str, id: str = "timeline", cwd: str = "/", **more: object) -> JobSpec:
    return JobSpec(id=id, argv=argv, folder=machine.folder(run), cwd=cwd, **more)  # type: ignore[arg-type]


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *arguments)


def finish(job: RemoteJob, log: bytearray | None = None) -> tuple[bytes, Outcome]:
    log = bytearray() if log is None else log

    def over() -> Outcome | None:
        log.extend(job.read())
        return job.outcome()

    outcome = wait_for(over)
    log.extend(job.read())
    return bytes(log), outcome


def lines(first: int, last: int) -> bytes:
    return b"".join(b"%d \x1b[31mred\x1b[0m\n" % number for number in range(first, last))


@pytest.fixture
def two_halves(server: Server, box: SshMachine, run: Path) -> tuple[JobSpec, Path]:
    """A program that prints 5000 lines, waits for a file, prints as many again and ends with status 3."""
    go = run / "go"
    code = """if True:
        import os, sys, time
        for number in range(10000):
            while number == 5000 and not os.path.exists(sys.argv[1]):
                time.sleep(0.01)
            print(number, "\\x1b[31mred\\x1b[0m")
        sys.exit(3)
    """
    return spec(box, run, *python(code, str(go))), go


def read_until(job: RemoteJob, log: bytearray, end: bytes) -> None:
    def reached() -> bool | None:
        log.extend(job.read())
        return log.endswith(end) or None

    wait_for(reached)


def trouble(job: RemoteJob, log: bytearray) -> ConnectionError | None:
    try:
        log.extend(job.read())
    except ConnectionError as error:
        return error
    return None


def finish_in_spite_of_it(job: RemoteJob, log: bytearray) -> Outcome:
    def over() -> Outcome | None:
        try:
            log.extend(job.read())
            return job.outcome()
        except ConnectionError:
            return None

    outcome = wait_for(over)
    log.extend(job.read())
    return outcome


def test_facts_are_those_of_the_machine(box: SshMachine) -> None:
    facts = box.facts()
    assert facts["system"]["host"] == socket.gethostname()
    assert facts["cwd"]["path"] == os.getcwd()


def test_arguments_arrive_as_typed(server: Server, box: SshMachine, run: Path) -> None:
    code = "import os, sys; print(os.fsencode(sys.argv[1]).hex(), os.getcwd(), os.environ['VALUE'])"
    made = spec(box, run, *python(code, EVERYTHING), cwd=str(run), env={"VALUE": "$HOME `id`"})
    log, outcome = finish(box.start(made))
    assert log.decode() == f"{os.fsencode(EVERYTHING).hex()} {run} $HOME `id`\n"
    assert (outcome.status, outcome.stopped, outcome.error) == (0, False, "")
    assert os.listdir(server.home) == [".cache"]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "csh"])
def test_the_login_shell_does_not_matter_even_one_that_talks(server: Server, run: Path, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    server.start(force=f"echo Welcome; printf 'gputui\\nA\\0\\0'; exec {path} -c \"$SSH_ORIGINAL_COMMAND\"")
    machine = server.machine()
    code = "import os, sys; print(os.fsencode(sys.argv[1]).hex())"
    log, _ = finish(machine.start(spec(machine, run, *python(code, EVERYTHING))))
    assert log.decode() == os.fsencode(EVERYTHING).hex() + "\n"


def test_nothing_of_the_environment_here_is_sent(server: Server, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_SECRET", "LANG"):
        monkeypatch.setenv(name, "C.UTF-8")
    monkeypatch.setenv("SECRET", "C.UTF-8")
    server.start()
    machine = server.machine()
    code = "import os; print(sorted(set(os.environ) & {'LC_ALL', 'LC_SECRET', 'LANG', 'SECRET', 'GIVEN'}))"
    log, _ = finish(machine.start(spec(machine, run, *python(code), env={"GIVEN": "1"})))
    # Python itself sets LC_CTYPE where it finds no locale.
    assert log == b"['GIVEN']\n"


def test_a_program_runs_in_the_same_folder_or_the_one_told_or_at_home(server: Server, run: Path) -> None:
    server.start()
    (server.home / "a folder").mkdir()
    where = python("import os; print(os.getcwd())")
    for directory, cwd, expected in (
        ("", str(run), run),
        ("", "/no such folder", server.home),
        ("a folder", str(run), server.home / "a folder"),
        ("~/a folder", str(run), server.home / "a folder"),
    ):
        machine = server.machine(directory=directory)
        log, _ = finish(machine.start(spec(machine, run, *where, cwd=cwd)))
        assert log.decode() == f"{expected}\n"
    machine = server.machine(directory="none")
    with pytest.raises(GputuiError, match=r"there is no folder .*none"):
        machine.start(spec(machine, run, *where))


def test_the_run_folder_is_private_and_forgotten_when_asked(server: Server, box: SshMachine, run: Path) -> None:
    folder = Path(box.folder(run))
    assert folder == server.home / ".cache" / "gputui" / "runs" / run.name
    assert folder.stat().st_mode & 0o777 == 0o700
    box.put(run, "timeline.txt", bytes(range(256)))
    assert (folder / "timeline.txt").read_bytes() == bytes(range(256))
    assert (folder / "timeline.txt").stat().st_mode & 0o777 == 0o600
    (folder / "timeline.link").symlink_to("/etc/passwd")
    (folder / "other").touch()
    assert box.files(run, "timeline") == {"timeline.txt": 256}
    with pytest.raises(GputuiError):
        box.fetch(run, "timeline.link", run / "x")
    job = box.start(spec(box, run, "sleep", "60"))
    with pytest.raises(GputuiError, match="still under way"):
        box.forget(run)
    with pytest.raises(GputuiError, match="under way already"):
        box.start(spec(box, run, "sleep", "60"))
    job.kill()
    finish(job)
    box.forget(run)
    assert not folder.exists()


def test_a_program_that_is_not_there(box: SshMachine, run: Path) -> None:
    _, outcome = finish(box.start(spec(box, run, "/no/such/program")))
    assert outcome.status is None
    assert "No such file" in outcome.error


def test_what_it_prints_comes_as_it_is_printed(box: SshMachine, two_halves: tuple[JobSpec, Path]) -> None:
    made, go = two_halves
    job, log = box.start(made), bytearray()
    read_until(job, log, lines(4999, 5000))
    assert job.outcome() is None
    go.touch()
    whole, outcome = finish(job, log)
    assert whole == lines(0, 10000)
    assert (outcome.status, outcome.stopped) == (3, False)
    assert 0 < outcome.seconds < 30


def test_stop_interrupts_and_kill_ends_all(box: SshMachine, run: Path) -> None:
    code = """if True:
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(2, 1); signal.pause()"])
        print("ready")
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            print("finishing")
            sys.argv[1:] and time.sleep(60)
            child.kill()
            sys.exit(4)
    """
    log = bytearray()
    job = box.start(spec(box, run, *python(code), id="stopped"))
    read_until(job, log, b"ready\n")
    job.stop()
    whole, outcome = finish(job, log)
    assert whole == b"ready\nfinishing\n"
    assert (outcome.status, outcome.stopped) == (4, True)
    job.stop()
    job.kill()
    log = bytearray()
    job = box.start(spec(box, run, *python(code, "forever"), id="killed"))
    read_until(job, log, b"ready\n")
    job.stop()
    read_until(job, log, b"finishing\n")
    job.kill()
    _, outcome = finish(job, log)
    assert (outcome.status, outcome.stopped) == (-signal.SIGKILL, True)


def test_the_terminal_of_the_program_has_the_size_told(box: SshMachine, run: Path) -> None:
    code = """if True:
        import os, signal
        resized = lambda *_: print(*os.get_terminal_size(1))
        signal.signal(signal.SIGWINCH, resized)
        resized()
        signal.pause()
    """
    log = bytearray()
    job = box.start(spec(box, run, *python(code), columns=99, rows=33))
    read_until(job, log, b"99 33\n")
    job.resize(77, 22)
    assert finish(job, log)[0] == b"99 33\n77 22\n"


def test_a_keeper_that_was_killed_is_nobody_who_saw_the_end(box: SshMachine, run: Path) -> None:
    # That its program does not stay is for the server's fixture to see.
    log = bytearray()
    job = box.start(spec(box, run, *python("import os, time; print(os.getppid()); time.sleep(600)")))
    read_until(job, log, b"\n")
    os.kill(int(log), signal.SIGKILL)
    _, outcome = finish(job, log)
    assert outcome == Outcome(None, False, 0.0, "its keeper was killed, and nobody saw it end")


@pytest.mark.parametrize("side", ["server", "client", "machine is off"])
def test_a_lost_connection_costs_nothing(
    server: Server, box: SshMachine, two_halves: tuple[JobSpec, Path], side: str
) -> None:
    made, go = two_halves
    job, log = box.start(made), bytearray()
    read_until(job, log, lines(4999, 5000))
    if side == "server":
        server.cut()
    elif side == "client":
        assert os.path.exists(box._private / "m")
        box._hang_up()
    else:
        server.stop()
    lost = wait_for(lambda: trouble(job, log))
    assert isinstance(lost, GputuiError)
    assert "--attach" in lost.hint
    with pytest.raises(ConnectionError):
        job.stop()
    go.touch()
    if side == "machine is off":
        wait_for(lambda: ((lost := trouble(job, log)) and "no ssh server" in str(lost)) or None)
        server.start()
    outcome = finish_in_spite_of_it(job, log)
    assert bytes(log) == lines(0, 10000)
    assert (outcome.status, outcome.stopped) == (3, False)


def test_a_server_that_lets_no_requests_share_a_connection(server: Server, run: Path) -> None:
    server.start(sessions=1)
    machine = server.machine()
    machine.connect()
    log, outcome = finish(machine.start(spec(machine, run, "echo", "hello")))
    assert (log, outcome.status) == (b"hello\n", 0)


def test_a_connection_that_was_made_stays_until_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.start()
    monkeypatch.setitem(remote._OPTIONS, "ControlPersist", "1")
    machine = server.machine()
    machine.connect()
    # Whoever has to type a password cannot come in again.
    server.folder.joinpath("user.pub").rename(server.folder / "no longer")
    # Longer than the connection would stay by itself: that nothing happens cannot be awaited.
    time.sleep(3)
    assert machine.facts()


def test_ssh_itself_asks_while_connecting_and_never_again(server: Server) -> None:
    server.start()
    change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", server.folder / "user"]
    subprocess.run(change, check=True, timeout=30)
    code = """if True:
        import pathlib, sys
        from gputui.run.remote import SshMachine
        machine = SshMachine("box", config=pathlib.Path(sys.argv[1]))
        machine.connect()
        print(machine.facts()["system"]["host"])
        machine.close()
    """
    terminal, end = pty.openpty()
    child = subprocess.Popen(
        python(code, str(server.config)),
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=end,
        env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
    )
    os.close(end)
    asked = b""
    while b"passphrase" not in asked:
        asked += os.read(terminal, 1000)
    os.write(terminal, b"open sesame\n")
    assert child.communicate(timeout=30)[0].decode() == f"{socket.gethostname()}\n"
    os.close(terminal)


def test_a_job_is_found_again_by_another_gputui(
    server: Server, box: SshMachine, two_halves: tuple[JobSpec, Path]
) -> None:
    made, go = two_halves
    box.start(made)
    box.close()
    later = server.machine()
    go.touch()
    log, outcome = finish(later.attach(made))
    assert log == lines(0, 10000)
    assert outcome.status == 3
    with pytest.raises(GputuiError, match="it was never started"):
        later.attach(JobSpec("other", (), made.folder, "/"))


def test_a_hung_connection_counts_as_lost(
    box: SshMachine, two_halves: tuple[JobSpec, Path], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, go = two_halves
    job, log = box.start(made), bytearray()
    read_until(job, log, lines(4999, 5000))
    monkeypatch.setattr(remote, "_SILENCE", 0.5)
    assert server.process is not None
    halted = [pid for pid in descendants(server.process.pid) if b"sshd" in name_of(pid)]
    for pid in halted:
        os.kill(pid, signal.SIGSTOP)
    lost = wait_for(lambda: trouble(job, log))
    assert "does not answer any more" in str(lost)
    monkeypatch.undo()
    go.touch()
    assert finish_in_spite_of_it(job, log).status == 3
    assert bytes(log) == lines(0, 10000)
    for pid in halted:
        os.kill(pid, signal.SIGKILL)


def big_file(box: SshMachine, run: Path) -> bytes:
    content = os.urandom(1 << 20) * 30
    (Path(box.folder(run)) / "timeline.nsys-rep").write_bytes(content)
    return content


def test_a_copy_that_broke_off_goes_on_where_it_was(server: Server, box: SshMachine, run: Path) -> None:
    content = big_file(box, run)
    to = run / "timeline.nsys-rep"
    seen: list[int] = []

    def cut_once(done: int, total: int) -> bool:
        assert total == len(content)
        if done > 10 << 20 and not seen:
            seen.append(done)
            server.cut()
        return True

    with pytest.raises(ConnectionError, match="broke off"):
        box.fetch(run, to.name, to, cut_once)
    (part,) = run.iterdir()
    assert part.name.endswith(".part")
    kept = part.stat().st_size
    assert 10 << 20 < kept < len(content)

    def note(done: int, total: int) -> bool:
        seen.append(done)
        return True

    box.fetch(run, to.name, to, note)
    assert kept < seen[1] <= kept + (1 << 16)
    assert seen[-1] == len(content)
    assert to.read_bytes() == content
    assert list(run.iterdir()) == [to]


def test_a_copy_stops_when_told_and_begins_anew_when_the_file_changed(box: SshMachine, run: Path) -> None:
    big_file(box, run)
    to = run / "timeline.nsys-rep"
    with pytest.raises(GputuiError, match="it was stopped"):
        box.fetch(run, to.name, to, lambda done, total: done < 1 << 20)
    assert not to.exists()
    assert len(list(run.iterdir())) == 1
    content = big_file(box, run)
    box.fetch(run, to.name, to)
    assert to.read_bytes() == content
    assert list(run.iterdir()) == [to]


def lie(monkeypatch: pytest.MonkeyPatch, do: str, body: str) -> None:
    """Make the far side answer a request with anything: an agent of which one operation is replaced."""
    told = remote._source

    def source(name: str) -> str:
        if name != "agent":
            return told(name)
        return told(name) + f"\ndef lie(line, **request):\n    {body}\n_OPERATIONS[{do!r}] = lie\n"

    monkeypatch.setattr(remote, "_source", source)


@pytest.mark.parametrize("name", ["../evil", "a/b", "/etc/passwd", "..", ".", "", "a\0b"])
def test_a_file_of_no_plain_name_is_refused(
    server: Server, box: SshMachine, run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GputuiError):
        box.fetch(run, name, run / "x")
    with pytest.raises(GputuiError):
        box.put(run, name, b"")
    lie(monkeypatch, "files", f"return {{{name!r}: 1}}")
    with pytest.raises(GputuiError, match="does not bring it here"):
        box.files(run, "")


@pytest.mark.parametrize(
    "body",
    [
        "return {'sha256': '0'}",
        "line.send(b'S', json.dumps({'tag': '../../x', 'offset': 0, 'size': 1}).encode())",
        "line.send(b'S', json.dumps({'tag': '1-1', 'offset': 5, 'size': 9}).encode())",
        "line.send(b'S', json.dumps({'tag': '1-1', 'offset': 0, 'size': 1}).encode()); line.send(b'D', b'12')",
        "line.send(b'S', json.dumps({'tag': '1-1', 'offset': 0, 'size': 1}).encode()); line.send(b'D', b'1')\n"
        "    return {'sha256': 'f' * 64}",
        "line.send(b'S', b'[' * 100000)",
        'line.send(b\'S\', b\'{"tag": "1-1", "offset": 0, "size": 1e999}\')',
        'line.send(b\'S\', b\'{"tag": "1-1", "offset": 1e999, "size": 1}\')',
        'line.send(b\'S\', b\'{"tag": "1-1", "offset": 0, "size": -1}\')',
        "line.send(b'O', b'\xff')",
        "line._out.write(b'D' + b'\\xff' * 4); line._out.flush()",
        "raise RefusedError('\\x1b[31mred')",
        "raise KeyError('x')",
    ],
)
def test_a_far_side_that_lies_writes_nothing(
    box: SshMachine, run: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, "fetch", body)
    with pytest.raises(GputuiError) as error:
        box.fetch(run, "x", run / "x")
    assert "\x1b" not in str(error.value)
    assert not (run / "x").exists()
    assert [path for path in run.parent.rglob("*") if path != run and not path.name.endswith(".part")] == []


@pytest.mark.parametrize("answer", ["None", "[]", "0", "'x'", "{'a': float('inf')}", "{'a': -1}", "{'a': 2 ** 70}"])
def test_files_that_make_no_sense_are_refused(
    box: SshMachine, run: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, "files", f"return {answer}")
    with pytest.raises(GputuiError, match="makes no sense"):
        box.files(run, "")


@pytest.mark.parametrize("answer", ["None", "[]", "0", "{}", "''", "'x/y'", r"'/a\nb'", r"'/a\n'", r"'/a\x1b[31m'"])
def test_a_run_folder_is_an_absolute_path(
    box: SshMachine, run: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, "folder", f"return {answer}")
    with pytest.raises(GputuiError, match="makes no sense"):
        box.folder(run)


@pytest.mark.parametrize("answer", ["None", "[]", "0", "'x'"])
def test_facts_are_an_object(box: SshMachine, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lie(monkeypatch, "facts", f"return {answer}")
    with pytest.raises(GputuiError, match="makes no sense"):
        box.facts()


WRONG: tuple[Any, ...] = (
    *(None, [], {}, 0, -1, 10**400, 1.5, float("inf"), True, "x", "9" * 5000, [None], [[]], [{}], ["x"], [0]),
    *({"x": None}, {"x": []}, {"x": {}}, {"x": 0}, {"x": "x"}),
)


def test_facts_of_any_shape_can_be_judged(box: SshMachine) -> None:
    true = box.facts()
    # Something is in all that this machine may have none of.
    tool = {"path": "/ncu", "version": "2024.1.1.0", "error": "", "chips": ["gh100"], "sections": ["SpeedOfLight"]}
    true = {
        **true,
        "tools": {"nsys": [tool], "ncu": [tool]},
        "driver": {"version": "535.1"},
        "gpus": {"smi": "/smi", "list": [{"name": "H200", "compute_cap": "9.0"}], "error": ""},
        "processes": [{"pid": 1, "name": "nsys", "user": "me"}],
        "locks": [{"path": "/tmp/x", "owner": "me", "since_2025": True}],
        "variables": {"LD_PRELOAD": "x"},
        "container": "docker",
        **dict.fromkeys(("profiling_admin_only", "perf_event_paranoid", "ptrace_scope", "seccomp"), 2),
        "capabilities": {"sys_admin": True},
        "confidential": False,
    }
    assert facts_of(true) == true
    words = wording("en")
    for name, value in true.items():
        for wrong in (*WRONG, *variants(value)):
            facts = facts_of({**true, name: wrong})
            list(doctor_text(checks(facts), words))
            tools(facts)
    assert facts_of({}) == dict.fromkeys(true)
    assert checks(facts_of({}))


def variants(value: Any) -> Iterator[Any]:
    """The value with each of its parts, however deep, wrong or missing."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield {other: value[other] for other in value if other != name}
            yield from ({**value, name: wrong} for wrong in (*WRONG, *variants(part)))
    elif isinstance(value, list) and value:
        yield from ([wrong, *value[1:]] for wrong in (*WRONG, *variants(value[0])))


def test_a_status_that_makes_no_sense_is_no_outcome(
    box: SshMachine, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie(monkeypatch, "follow", "line.send(b'S', json.dumps({'ended': 1, 'seconds': '\\x1b'}).encode())")
    job = box.start(spec(box, run, "true"))
    with pytest.raises(GputuiError, match="makes no sense"):
        finish(job)
    monkeypatch.undo()
    (Path(box.folder(run)) / "timeline.status.json").write_text("[]")
    with pytest.raises(GputuiError, match="is damaged"):
        box.attach(spec(box, run))


def test_a_program_cannot_speak_for_the_agent(box: SshMachine, run: Path) -> None:
    said = b"\ngputui 00000000000000000000000000000000\nA\0\0\0\x02{}E\0\0\0\x02{}\x1b]0;x\x07\xff"
    code = f"import os; os.write(1, {said!r})"
    log, outcome = finish(box.start(spec(box, run, *python(code))))
    assert log == said
    assert outcome.status == 0


def connecting(server: Server, capfd: pytest.CaptureFixture[str]) -> tuple[GputuiError | None, str]:
    """How a first connection fails, if it does, and what it shows; it leaves no folder behind where it fails."""
    machine = server.machine()
    error = None
    try:
        machine.connect()
    except GputuiError as raised:
        error = raised
    assert machine._private.exists() == (error is None)
    out, err = capfd.readouterr()
    assert out == ""
    return error, err


def test_what_is_said_while_connecting_is_shown_cleaned(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    server.start(force="printf 'wel\\033]0;x\\007come\\r\\n\\033[31mto' >&2; exec $SSH_ORIGINAL_COMMAND")
    error, shown = connecting(server, capfd)
    assert (error, shown) == (None, "wel\\x1b]0;x\\x07come\n\\x1b[31mto\n")


def test_a_machine_that_never_answers_is_given_up(
    server: Server, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_SAY_WAITING", 0.1)
    monkeypatch.setattr(remote, "_FIRST_SILENCE", 1.0)
    # Somewhat longer than the test: what runs there ends by itself.
    server.start(force="sleep 5")
    error, shown = connecting(server, capfd)
    assert shown == "waiting for box …\n"
    assert str(error) == "box: the machine does not answer. Try: ssh box."


def test_facts_that_never_come_say_nothing_of_what_goes_on(box: SshMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    box.connect()
    monkeypatch.setattr(remote, "_SILENCE", 0.5)
    lie(monkeypatch, "facts", "time.sleep(4)")
    with pytest.raises(UnreachableError) as error:
        box.facts()
    assert str(error.value) == "box: the machine does not answer. Try: ssh box."


def test_an_ssh_that_dies_before_it_logs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # In place of an ssh that the system ends.
    dies = tmp_path / "ssh"
    dies.write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    error, shown = connecting(Server(tmp_path), capfd)
    assert str(error) == "box: ssh cannot connect (it was ended by signal 9). Try: ssh box."
    assert shown == ""


def test_endless_noise_is_given_up(server: Server) -> None:
    server.start(force="cat /dev/zero")
    with pytest.raises(GputuiError, match="makes no sense"):
        server.machine().facts()


@pytest.mark.parametrize(
    "host", ["", "-oProxyCommand=x", "me@-x", "a b", "a;b", "$(x)", "a\nb", "a`b`", "-", "ssh://u@h:99999", "ssh://h:0"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(GputuiError, match="no name of a host"):
        SshMachine(host)


def test_hosts_may_be_written_as_ssh_takes_them(server: Server) -> None:
    server.start()
    server.config.write_text(server.config.read_text().replace("Host box", "Host 127.0.0.1"))
    for host in ("127.0.0.1", f"{getpass.getuser()}@127.0.0.1", f"ssh://127.0.0.1:{server.port}"):
        machine = server.machine(host)
        machine.connect()
        assert machine.name == host


def test_what_cannot_be_reached_is_told_with_the_next_step(server: Server) -> None:
    server.start()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", server.folder / "strange"], check=True)
    strange = server.folder / "strange"
    (server.folder / "changed").write_text(
        server.folder.joinpath("known").read_text().split()[0] + " " + strange.with_suffix(".pub").read_text()
    )
    for changes, message, hint in (
        ({"Port": str(free_port())}, "no ssh server answers there", "sshd"),
        ({"HostName": "no-such-host.invalid"}, "there is no host of this name", "config"),
        ({"IdentityFile": str(strange)}, "the server does not let you in", "ssh-copy-id box"),
        ({"UserKnownHostsFile": str(server.folder / "changed")}, "key is new or has changed", "ssh box"),
    ):
        server.configure(**changes)
        for act in (SshMachine.facts, SshMachine.connect):
            with pytest.raises(GputuiError) as error:
                act(server.machine())
            assert message in error.value.message
            assert hint in error.value.hint
            assert error.value.title == "box"


@pytest.mark.parametrize("shell", ["sh", "csh", "fish"])
def test_a_machine_without_python_is_told(server: Server, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    server.start(path="/nowhere", force=f'exec {path} -c "$SSH_ORIGINAL_COMMAND"')
    with pytest.raises(GputuiError, match=r"no Python 3\.6 or later answers there .*ssh box python3 --version"):
        server.machine().facts()


def test_another_name_of_python_is_tried_and_an_old_one_told(server: Server, tmp_path: Path, run: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    # In place of a Python 2.7, which cannot be had here.
    old = tools / "python3"
    code = "import sys; sys.version_info = (2, 7, 18); exec(sys.stdin.read())"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}'\n")
    old.chmod(0o755)
    server.start(path=str(tools))
    with pytest.raises(GputuiError, match=r"no Python 3\.6 or later"):
        server.machine().facts()
    (tools / "python").symlink_to(sys.executable)
    assert server.machine().facts()["system"]["host"] == socket.gethostname()
    (tools / "python").unlink()
    old.rename(tools / "python")
    with pytest.raises(GputuiError, match=r"its Python is 2\.7"):
        server.machine().facts()


def real_python(version: str) -> str:
    """A Python of that version, where pyenv or the system has one."""
    # Not pyenv's own launcher, a script that needs other programs.
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    path = next(map(str, installed), None) or shutil.which(f"python{version}")
    if path is None:
        pytest.skip(f"no Python {version} here")
    return path


def test_python_3_6_will_do(server: Server, tmp_path: Path, run: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(real_python("3.6"))
    server.start(path=str(tools))
    machine = server.machine()
    assert machine.facts()["system"]["python"].startswith("3.6.")
    code = "import os, sys; print(os.fsencode(sys.argv[1]).hex())"
    log, outcome = finish(machine.start(spec(machine, run, *python(code, EVERYTHING))))
    assert (log.decode(), outcome.status) == (os.fsencode(EVERYTHING).hex() + "\n", 0)
    content = big_file(machine, run)
    machine.fetch(run, "timeline.nsys-rep", run / "timeline.nsys-rep")
    assert (run / "timeline.nsys-rep").read_bytes() == content
    machine.forget(run)


def test_a_real_python_2_is_told(server: Server, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "python").symlink_to(real_python("2.7"))
    server.start(path=str(tools))
    with pytest.raises(GputuiError, match=r"its Python is 2\.7"):
        server.machine().facts()


@pytest.mark.parametrize("name", ["agent", "keeper", "probe"])
def test_what_is_sent_can_be_read_by_old_pythons(name: str) -> None:
    ast.parse(remote._source(name), feature_version=(3, 6))
    imported = {
        ((node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
        for node in ast.walk(ast.parse(remote._source(name)))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert imported <= sys.stdlib_module_names
    assert "__future__" not in imported


@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed here")
def test_a_report_of_the_nsys_there_opens_here(box: SshMachine, run: Path) -> None:
    code = "import nvtx\nwith nvtx.annotate('far away'): print('working')"
    folder = box.folder(run)
    output = ("--trace=nvtx", "--sample=none", "--cpuctxsw=none", "-o", f"{folder}/timeline")
    job = box.start(spec(box, run, "nsys", "profile", *output, *python(code), tool="nsys", cwd=str(run)))
    log, outcome = finish(job)
    assert outcome.status == 0, log
    assert b"working" in log
    (name,) = (name for name in box.files(run, "timeline") if name.endswith(".nsys-rep"))
    box.fetch(run, name, run / name)
    report = gputui.open_report(run / name)
    assert report.timeline is not None
    assert "far away" in report.timeline.names
