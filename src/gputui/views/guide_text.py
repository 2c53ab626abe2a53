"""Commands as text: shown, edited, read back. No Textual here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gputui.paint.grid import width_of
from gputui.render.timeline_rows import command_lines
from gputui.terminal import safe
from gputui.views.text import Line, broken, shorten_middle


def printable(text: str) -> str:
    """``text`` of several lines with nothing in it that acts on a terminal."""
    return "".join(part if part in ("\n", "\t") else safe(part) for part in re.split(r"([\n\t])", text))


def shown_command(argv: Sequence[str]) -> str:
    """An argument list as one would type it, with nothing in it that acts on a terminal."""
    return printable(shlex.join(argv))


def parsed(text: str) -> tuple[str, ...]:
    """What was typed as an argument list. Raises ``ValueError`` where a quotation is not closed."""
    # As long commands are shown.
    return tuple(shlex.split(text.replace("\\\n", " ")))


def command_rows(argv: Sequence[str], program: Sequence[str], cells: int) -> list[Line]:
    """A command over lines of so many cells, to be read; the program that is profiled begins a line.

    An option and its value stay together: of a path that is too long for that the middle is left out.
    """
    own = len(argv) - len(program) if program and tuple(argv[-len(program) :]) == tuple(program) else len(argv)
    # Lines are indented, by most before the program, and end in a backslash.
    room = cells - 8
    short = [
        _shortened(one, room - (width_of(before) + 1 if before.startswith("-") else 0))
        for before, one in zip(("", *argv), argv, strict=False)
    ]
    parts = [(command_lines(short[:own], cells - 2), "code"), (command_lines(short[own:], cells - 4), "strong")]
    rows: list[Line] = []
    for lines, role in parts:
        for place, line in enumerate(lines):
            indent = "    " if rows and not place else "  " if rows else ""
            last = place + 1 == len(lines) and role == "code" and own < len(argv)
            text = f"{line} \\" if last else line
            rows += [((f"{indent if not cut else ''}{piece}", role),) for cut, piece in enumerate(broken(text, cells))]
    return rows


def _shortened(word: str, cells: int) -> str:
    if "/" not in word or width_of(word) <= cells:
        return word
    # A shell's word may hold dots, and is then shown without quotation marks.
    return shorten_middle(word, cells - 2).replace("…", "...")
