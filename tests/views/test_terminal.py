"""The program in a real terminal: silent while nothing happens, and gone when it is told to end."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from .ptys import read_for, start

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
