"""Commands as text: shown, edited, read back. No Textual here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gputui.paint.grid import width_of
from gputui.terminal import safe
from gputui.views.text import Line, Segment, broken

_INDENT = "  "


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


def command_lines(argv: Sequence[str], program: Sequence[str], width: int) -> list[Line]:
    """A command broken between its words so that it can still be copied: an option keeps its value beside it, and the
    program that is profiled begins a line."""
    own = len(argv) - len(program) if program and tuple(argv[-len(program) :]) == tuple(program) else len(argv)
    lines = _filled([shlex.quote(one) for one in argv[:own]], width, "code")
    if own < len(argv):
        lines += _filled([shlex.quote(one) for one in argv[own:]], width, "strong", indent=_INDENT)
    lines[-1] = lines[-1][:1]
    return list(lines)


def _filled(words: Sequence[str], width: int, role: str, *, indent: str = "") -> list[list[Segment]]:
    room = max(10, width - 2)
    pieces: list[str] = []
    for word in map(safe, words):
        follows = bool(pieces) and pieces[-1].startswith("-") and " " not in pieces[-1] and "=" not in pieces[-1]
        if follows and not word.startswith("-"):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    lines: list[list[Segment]] = []
    line = indent
    for piece in pieces:
        if line.strip() and width_of(line) + 1 + width_of(piece) > room:
            lines.append([(line, role), (" \\", "faint")])
            line = _INDENT if not indent else indent + _INDENT
        line = f"{line} {piece}" if line.strip() else line + piece
        while width_of(line) > room:
            head, *_ = broken(line, room)
            # Without a blank the two halves stay one word.
            lines.append([(head, role), ("\\", "faint")])
            line = line[len(head) :]
    return [*lines, [(line, role), (" \\", "faint")]]
