"""The program in a real terminal: silent while nothing happens, and gone when it is told to end."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

PROGRAM = """
from tests.views.fakes import make_report
from gputui.views.app import run
run([make_report()])
"""


GUIDED = """
import threading
from pathlib import Path
from tests.views.fake_session import FakeSession, Step
from gputui.views.app import run_guided
step = Step([b"copy_a\\n"], gate=threading.Event())
run_guided(FakeSession(Path("runs"), [step], found=()), proposer=lambda diagnosis: ())
"""


def read_for(terminal: int, seconds: float) -> bytes:
    """What arrives within this time."""
    found, end = b"", time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                found += os.read(terminal, 65536)
            except OSError:
                break
    return found


def start(program: str, state: Path, shown: str = "copy_a") -> tuple[int, int]:
    """The program's process and its terminal, 120×40, once it has drawn this."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(Path(__file__).parents[2])
        os.environ.update(TERM="xterm-256color", XDG_STATE_HOME=str(state))
        os.execv(sys.executable, [sys.executable, "-c", program])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    for _ in range(20):
        seen += read_for(terminal, 0.5)
        if shown.encode() in seen and b"quit" in seen:
            break
    assert shown.encode() in seen
    return child, terminal


@pytest.mark.parametrize("keys", [b"", b"4", b"f"], ids=["diagnosis", "metrics", "typing"])
def test_no_byte_while_idle(keys: bytes, tmp_path: Path) -> None:
    child, terminal = start(PROGRAM, tmp_path)
    try:
        read_for(terminal, 1.5)
        os.write(terminal, keys)
        read_for(terminal, 2.0)
        assert read_for(terminal, 2.0) == b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def test_a_run_sends_nothing_while_it_waits_and_a_clock_while_it_runs(tmp_path: Path) -> None:
    child, terminal = start(GUIDED, tmp_path, "nsys")
    try:
        read_for(terminal, 1.5)
        assert read_for(terminal, 2.0) == b""
        os.write(terminal, b"\r")
        assert b"copy_a" in read_for(terminal, 2.0)
        # The strip of steps, once a second.
        assert 0 < len(read_for(terminal, 3.0)) < 3 * 1500
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


DRIVER_THAT_NEVER_CLOSES = """
import threading
from textual.drivers.linux_driver import LinuxDriver
LinuxDriver.close = lambda self: threading.Event().wait()
"""


@pytest.mark.parametrize("program", [PROGRAM, DRIVER_THAT_NEVER_CLOSES + PROGRAM], ids=["plain", "stuck driver"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(number: int, program: str, tmp_path: Path) -> None:
    child, terminal = start(program, tmp_path)
    os.kill(child, number)
    end = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        read_for(terminal, 0.1)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(terminal)
    assert ended[0] == child
