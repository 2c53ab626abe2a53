"""What a running command tells: written by the session's thread, looked at by the screen a few times a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputui.run.output import OutputLines

if TYPE_CHECKING:
    from gputui.run.plan import Command
    from gputui.run.progress import Progress

_MOST_AT_ONCE = 128 * 1024
"""Bytes. Of a program that prints more between two looks nobody can read it, and the screen must keep up."""
_KEPT_LINES = 5000


@dataclass(frozen=True, slots=True)
class Copying:
    """A report that is brought here from another machine; bytes."""

    name: str
    done: int
    total: int


class Live:
    """A session's listener. It posts nothing: a program that prints without end must not fill the screen's queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._output = OutputLines(_KEPT_LINES)
        self.printed = 0
        """Grows with every piece of output."""
        self.began = 0.0
        """By ``time.monotonic``."""
        self.now: Progress | None = None
        self.copied: Copying | None = None
        self.lost_why = ""

    def forget(self) -> None:
        """Another command is about to run."""
        with self._lock:
            self._output = OutputLines(_KEPT_LINES)
            self.printed += 1
        self.began = time.monotonic()
        self.now, self.copied, self.lost_why = None, None, ""

    def lines(self) -> Sequence[str]:
        """What was printed last, as safe lines."""
        with self._lock:
            return self._output.lines()

    def command(self, command: Command) -> None: ...

    def output(self, data: bytes) -> None:
        if len(data) > _MOST_AT_ONCE:
            data = data[-_MOST_AT_ONCE:].partition(b"\n")[2] or data[-_MOST_AT_ONCE:]
        with self._lock:
            self._output.feed(data)
            self.printed += 1

    def progress(self, progress: Progress) -> None:
        self.now, self.copied = progress, None

    def copying(self, name: str, done: int, total: int) -> None:
        self.copied = Copying(name, done, total)

    def lost(self, message: str) -> None:
        self.lost_why = message
