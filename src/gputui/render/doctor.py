"""What the doctor found, in words: lines for a terminal, the message to the administrator, and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from gputui import __version__
from gputui.run.doctor import Check, blocked, can_profile, outlook
from gputui.terminal import safe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.run.doctor import State
    from gputui.run.machine import Facts
    from gputui.wording import Wording

_ORDER: Mapping[State, int] = {"problem": 0, "unknown": 1, "warning": 2, "ok": 3}
_MARKS: Mapping[State, tuple[str, str]] = {
    "problem": ("✗", "x"),
    "unknown": ("?", "?"),
    "warning": ("!", "!"),
    "ok": ("✓", "ok"),
}
_STYLES: Mapping[State, str] = {"problem": "bold red", "unknown": "yellow", "warning": "yellow", "ok": "green"}
_FIXES = ("fix-user", "fix-root", "ask")


@dataclass(frozen=True, slots=True)
class Told:
    """A check in words, safe to show. ``fixes`` are headings, each with its lines: what one may do oneself first."""

    state: State
    name: str
    found: str
    fixes: tuple[tuple[str, tuple[str, ...]], ...]


def mark(state: State, *, ascii: bool = False) -> str:
    """A character for a state; in ASCII a word where no character says it."""
    return _MARKS[state][ascii]


def told(checks: Iterable[Check], words: Wording) -> list[Told]:
    """The checks in words, problems first."""
    return [
        Told(
            check.state,
            words.text(f"doctor.{check.id}.name"),
            _part(check, "found", words)[0],
            tuple((words.text(f"doctor.{part}"), lines) for part in _FIXES if (lines := _part(check, part, words))),
        )
        for check in sorted(checks, key=lambda check: _ORDER[check.state])
    ]


def _part(check: Check, part: str, words: Wording) -> tuple[str, ...]:
    params = {name: safe(value) if isinstance(value, str) else value for name, value in check.params.items()}
    return words.texts(f"doctor.{check.id}.{check.variant}.{part}", **params)


def summary(checks: Sequence[Check], words: Wording) -> str:
    """The one sentence: what works here."""
    why = next((words.text(f"doctor.{check.id}.name") for check in checks if check.blocks), "")
    return words.text(f"doctor.outlook.{outlook(checks)}", why=why)


def message(checks: Iterable[Check], words: Wording) -> str:
    """What to ask the administrator for, ready to send; empty where there is nothing to ask for.

    What only limits profiling is left out where something prevents it.
    """
    checks = tuple(checks)
    grave = [check for check in checks if check.blocks]
    asked = [_part(check, "ask", words) for check in grave or checks]
    return "\n\n".join("\n".join(lines) for lines in asked if lines)


def doctor_text(checks: Sequence[Check], words: Wording, *, ascii: bool = False) -> Iterable[RenderableType]:
    """What to print: the sentence, then what is wrong with its cure, then what is right."""
    yield Text(summary(checks, words), style="bold green" if can_profile(checks) else "bold")
    yield from wrong_text(checks, words, ascii=ascii)
    rows = told(checks, words)
    fine = [row for row in rows if row.state == "ok"]
    if fine:
        yield Text()
        yield Text(words.text("doctor.more"), style="dim")
        for row in fine:
            yield _line(row, ascii)
    if len(fine) < len(rows):
        # The first line may have left the screen.
        yield Text()
        yield Text(summary(checks, words), style="bold")


def wrong_text(checks: Sequence[Check], words: Wording, *, ascii: bool = False) -> Iterable[RenderableType]:
    """What is wrong, each with its cure."""
    for row in told(checks, words):
        if row.state != "ok":
            yield Text()
            yield _line(row, ascii)
            for heading, lines in row.fixes:
                yield Padding(Text(heading, style="dim"), (0, 0, 0, 2))
                for line in lines:
                    yield Padding(Text(line), (0, 0, 0, 4))


def _line(row: Told, ascii: bool) -> Text:
    line = Text(f"{mark(row.state, ascii=ascii)} ", style=_STYLES[row.state])
    line.append(row.name, style="bold" if row.state != "ok" else "default")
    line.append(f"  {row.found}", style="default")
    return line


def doctor_json(checks: Sequence[Check], facts: Facts) -> dict[str, Any]:
    """The checks and the facts behind them, for programs."""
    stopped = blocked(checks)
    return {
        "schema": 1,
        "gputui": __version__,
        "can_profile": can_profile(checks),
        "timeline": "nsys" not in stopped,
        "counters": "ncu" not in stopped,
        "outlook": outlook(checks),
        "checks": [
            {
                "id": check.id,
                "state": check.state,
                "variant": check.variant,
                "params": dict(check.params),
                "blocks": list(check.blocks),
            }
            for check in checks
        ],
        "facts": dict(facts),
    }
