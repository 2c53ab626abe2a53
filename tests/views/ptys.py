"""Programs on a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path


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


def read_until_idle(terminal: int, child: int) -> bytes:
    """What arrives until nothing does for a quarter of a second in which the program neither ran nor waited for a
    processor, however busy the machine is."""
    found, used = b"", -1
    while True:
        more, before = read_for(terminal, 0.25), used
        found += more
        tasks = [task.read_text().rpartition(")")[2].split() for task in Path(f"/proc/{child}/task").glob("*/stat")]
        used = sum(int(task[11]) + int(task[12]) for task in tasks)
        if not more and used == before and all(task[0] == "S" for task in tasks):
            return found


def start(program: str, state: Path, shown: str = "copy_a") -> tuple[int, int]:
    """The program's process and its terminal, 120×40, once it has drawn this."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.chdir(Path(__file__).parents[2])
        os.environ.update(TERM="xterm-256color", XDG_STATE_HOME=str(state))
        os.execv(sys.executable, [sys.executable, "-c", program])
    seen = b""
    for _ in range(20):
        seen += read_for(terminal, 0.5)
        if shown.encode() in seen and b"quit" in seen:
            break
    assert shown.encode() in seen
    return child, terminal
