"""A screen on which nothing happens sends nothing, in a real terminal."""

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


@pytest.mark.parametrize("keys", [b"", b"4", b"f"], ids=["diagnosis", "metrics", "typing"])
def test_no_byte_while_idle(keys: bytes, tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(Path(__file__).parents[2])
        os.environ.update(TERM="xterm-256color", XDG_STATE_HOME=str(tmp_path))
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        seen = b""
        for _ in range(20):
            seen += read_for(terminal, 0.5)
            if b"copy_a" in seen and b"quit" in seen:
                break
        assert b"copy_a" in seen
        seen += read_for(terminal, 1.5)
        os.write(terminal, keys)
        read_for(terminal, 2.0)
        assert read_for(terminal, 2.0) == b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
