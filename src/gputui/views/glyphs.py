"""The few signs that carry meaning beside colour, and their ASCII twins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Severity


@dataclass(frozen=True, slots=True)
class Glyphs:
    high: str
    medium: str
    low: str
    ok: str
    unknown: str
    waiting: str
    cursor: str
    bullet: str
    separator: str
    folded: str
    unfolded: str
    down: str
    up: str
    enter: str
    dash: str
    line: str
    emphasis: str
    warning: str
    worth: str
    """A kernel of a timeline that ncu should look into."""
    done: str
    """A step that has come to a good end."""
    here: str
    """The step that one is at."""
    no: str
    """An answer; the other ones are ``done`` and ``unknown``."""
    arrow: str
    """From before to after."""


UNICODE = Glyphs(
    "●", "◐", "○", "✓", "?", "·", "▌", "•", " · ", "▸", "▾", "▾", "▴", "⏎", "–", "─", "▌", "!", "◎", "✓", "▸", "✗", "→"
)
ASCII = Glyphs(
    "#", "+", "o", "=", "?", ".", ">", "-", " - ", "+", "-", " v", " ^", "enter", "-", "-", "|", "!", "*", "ok", ">",
    "no", "->",
)  # fmt: skip


def glyphs(ascii: bool) -> Glyphs:
    return ASCII if ascii else UNICODE


def severity_mark(severity: Severity, signs: Glyphs) -> tuple[str, str]:
    """The mark of a severity and its role."""
    if severity == "high":
        return signs.high, "high"
    if severity == "medium":
        return signs.medium, "medium"
    return signs.low, "low"


def verdict_mark(diagnosis: Diagnosis | None, signs: Glyphs) -> tuple[str, str]:
    """The mark of a kernel: how much there is to gain, or that it is done."""
    if diagnosis is None:
        return signs.waiting, "faint"
    if diagnosis.verdict.at_roof:
        return signs.ok, "ok"
    if diagnosis.findings:
        return severity_mark(diagnosis.findings[0].severity, signs)
    return (signs.unknown, "unknown") if diagnosis.verdict.id == "unknown" else (signs.low, "low")
