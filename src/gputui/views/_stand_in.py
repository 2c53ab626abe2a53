"""Stands in for what is not merged yet: gputui.run.failures.failure_text, gputui.render.doctor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gputui.run.doctor import Check
    from gputui.run.failures import Failure
    from gputui.views.text import Segment
    from gputui.wording import Wording


class FailureText(NamedTuple):
    title: str
    cause: str
    fix: tuple[str, ...]
    ask: str


def failure_text(failure: Failure, words: Wording) -> FailureText:
    return FailureText(failure.id, failure.line, (), "")


def check_lines(checks: Sequence[Check], words: Wording) -> list[list[Segment]]:
    return [[(f"{one.id} ", "strong"), (f"{one.state} {one.variant}", "")] for one in checks]
