"""Stands in for what is not merged yet: gputui.run.output, gputui.run.failures.failure_text, gputui.render.doctor."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gputui.terminal import safe

if TYPE_CHECKING:
    from gputui.run.doctor import Check
    from gputui.run.failures import Failure
    from gputui.views.text import Segment
    from gputui.wording import Wording

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")


class OutputLines:
    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=2000)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data[-1_000_000:]).split(b"\n")
        self._lines += [self._shown(one) for one in whole[-2000:]]

    def _shown(self, line: bytes) -> str:
        last = line.rstrip(b"\r").split(b"\r")[-1][:10_000]
        return safe(_ESCAPES.sub(b"", last).decode("utf-8", "replace"))

    @property
    def lines(self) -> Sequence[str]:
        return [*self._lines, self._shown(self._rest)] if self._rest else list(self._lines)


class FailureText(NamedTuple):
    title: str
    cause: str
    fix: tuple[str, ...]
    ask: str


def failure_text(failure: Failure, words: Wording) -> FailureText:
    return FailureText(failure.id, failure.line, (), "")


def check_lines(checks: Sequence[Check], words: Wording) -> list[list[Segment]]:
    return [[(f"{one.id} ", "strong"), (f"{one.state} {one.variant}", "")] for one in checks]
