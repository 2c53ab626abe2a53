"""Text measured in terminal cells: cut, filled, wrapped, made safe. No Textual here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gputui.paint.grid import clusters, shorten, width_of
from gputui.terminal import safe

Segment = tuple[str, str]
"""Text and its role."""
Line = Sequence[Segment]

_NO_LINE_START = "、。，．」』）】〕!?！？・ー：；,.)]ゃゅょっァィゥェォャュョッ％"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|×|[µmn]?s\b|[kMGTP]?(?:B|FLOP|Hz)\b)|(?<=×) (?=\d)")
"""Blanks at which no line may break: a number keeps its unit."""


def cut(text: str, cells: int) -> str:
    """The beginning of ``text`` that fits, without an ellipsis; a wide character cut in half becomes a blank."""
    kept: list[str] = []
    used = 0
    for piece, size in clusters(text):
        if used + size > cells:
            return "".join(kept) + " " * max(0, cells - used)
        kept.append(piece)
        used += size
    return "".join(kept)


def fit(text: str, cells: int, *, right: bool = False) -> str:
    """``text`` in exactly ``cells`` cells: shortened with an ellipsis, or filled with blanks."""
    text = shorten(text, cells)
    blanks = " " * max(0, cells - width_of(text))
    return blanks + text if right else text + blanks


@lru_cache(maxsize=4096)
def shorten_middle(text: str, cells: int) -> str:
    """``text`` with its middle left out: names of kernels differ at their ends as often as at their beginnings."""
    if width_of(text) <= cells:
        return text
    pieces = clusters(text)
    tail_cells = (cells - 1) // 2
    tail: list[str] = []
    used = 0
    for piece, size in reversed(pieces):
        if used + size > tail_cells:
            break
        tail.insert(0, piece)
        used += size
    head = cut(text, cells - 1 - used).rstrip()
    return f"{head}…{''.join(tail)}"


def line_width(line: Line) -> int:
    return sum(width_of(text) for text, _ in line)


def wrap(text: str, cells: int) -> list[str]:
    """``text`` broken into lines of at most ``cells``; Japanese breaks between characters, other text at blanks."""
    cells = max(cells, 1)
    text = _BEFORE_UNIT.sub("\u00a0", text)
    lines: list[str] = []
    line: list[str] = []
    for piece in _breakable(text):
        if line and width_of("".join(line)) + width_of(piece.rstrip()) > cells:
            # What must not begin a line takes the piece before it along.
            kept = len(line)
            while kept > 1 and (piece if kept == len(line) else line[kept]).strip()[:1] in _NO_LINE_START:
                kept -= 1
            lines.append("".join(line[:kept]).rstrip())
            line = line[kept:]
            if not line:
                piece = piece.lstrip()
        if line and width_of(piece.rstrip()) > cells:
            lines.append("".join(line).rstrip())
            line = []
        while width_of(piece.rstrip()) > cells:
            head = cut(piece, cells).rstrip() or piece[:1]
            lines.append(head)
            piece = piece[len(head) :]
        line.append(piece)
    rest = "".join(line).rstrip()
    if rest or not lines:
        lines.append(rest)
    return [line.replace("\u00a0", " ") for line in lines]


def broken(text: str, cells: int) -> list[str]:
    """``text`` in pieces of at most ``cells``, wherever that may be: of code nothing may be left out or moved."""
    lines, used = [""], 0
    for piece, size in clusters(text):
        if used and used + size > max(cells, 1):
            lines.append("")
            used = 0
        lines[-1] += piece
        used += size
    return lines


def _breakable(text: str) -> Iterable[str]:
    """``text`` in pieces between which a line may break; a piece keeps the blank behind it."""
    piece = ""
    for char in text:
        if char == " ":
            piece += char
            continue
        wide = ord(char) >= 0x2E80
        if piece.strip() and (piece.endswith(" ") or wide or ord(piece[-1]) >= 0x2E80):
            yield piece
            piece = ""
        piece += char
    if piece:
        yield piece


def paragraph(text: str, width: int, *, first: Line = (), indent: int = 0, role: str = "") -> list[Line]:
    """``text`` wrapped with a hanging indent; ``first`` stands before the first line, within the indent."""
    lead = [*first, (" " * max(0, indent - line_width(first)), "")]
    lines: list[Line] = []
    for part in wrap(text, max(8, width - indent)):
        lines.append([*(lead if not lines else [(" " * indent, "")]), (part, role)])
    return lines


def shown(text: str, limit: int = 400) -> str:
    """A stranger's text made fit for the screen, and cut where nobody would read on."""
    text = safe(text[:limit])
    return "".join(piece for piece, _ in clusters(text))
