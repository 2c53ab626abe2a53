"""Rows of terminal cells: what every picture is made of, and the canvas that draws one.

A role is a short word for what a piece of text is ("roof", "mark-selected"); a view maps roles to the theme's styles, a
renderer to colours or to nothing. This module knows no Textual and no styles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from rich.cells import cell_len

from gputui.terminal import safe

Segment = tuple[str, str]
"""Text and its role; the role of empty ground is ``""``."""

_BRAILLE_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_ASCII_BY_HEIGHT = "'-._"
_ASCII_TWINS = str.maketrans(
    {"µ": "u", "μ": "u", "×": "x", "–": "-", "—": "-", "·": "-", "…": "~", "≥": ">=", "≤": "<=", "→": "->", "←": "<-",
     "±": "+-", "“": '"', "”": '"'}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Picture:
    """``height`` rows, each exactly ``width`` terminal cells wide."""

    width: int
    height: int
    rows: tuple[tuple[Segment, ...], ...]

    def lines(self) -> list[str]:
        """The rows as plain text, trailing blanks included."""
        return ["".join(text for text, _ in row) for row in self.rows]

    def text(self) -> str:
        """The whole picture as plain text, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.lines())


def to_ascii(text: str) -> str:
    """``text`` in pure ASCII: signs with a plain twin become it, anything else a question mark."""
    return text if text.isascii() else text.translate(_ASCII_TWINS).encode("ascii", "replace").decode("ascii")


def clusters(text: str) -> list[tuple[str, int]]:
    """``text`` as the pieces that each fill one or two cells, with that number.

    Zero-width characters join the piece before them. Variation selectors go: terminals disagree on the width they give.
    """
    if text.isascii():
        return [(char, 1) for char in text]
    pieces: list[tuple[str, int]] = []
    for char in text:
        if "\ufe00" <= char <= "\ufe0f":
            continue
        cells = cell_len(char)
        if cells:
            pieces.append((char, cells))
        elif pieces:
            pieces[-1] = (pieces[-1][0] + char, pieces[-1][1])
    return pieces


def width_of(text: str) -> int:
    """How many cells a canvas needs for ``text``."""
    return len(text) if text.isascii() else sum(cells for _, cells in clusters(text))


def shorten(text: str, cells: int, *, ascii: bool = False) -> str:
    """``text``, or as much of its beginning as leaves room for an ellipsis within ``cells``."""
    if width_of(text) <= cells:
        return text
    kept, used = "", 1
    for piece, size in clusters(text):
        if used + size > cells:
            break
        kept += piece
        used += size
    return kept + ("~" if ascii else "…") if cells > 0 else ""


def printable(text: str, *, ascii: bool = False) -> str:
    """A stranger's text made fit for a picture: nothing in it acts on a terminal, and ASCII where that is asked for."""
    text = safe(text)
    return to_ascii(text) if ascii else text


class Canvas:
    """Cells to draw on: lines of 2 × 4 dots a cell, and glyphs and text that take whole cells.

    A taken cell stays taken: lines pass beneath it and labels keep away from it. What lies outside is not drawn.
    """

    def __init__(self, width: int, height: int, *, ascii: bool = False) -> None:
        self.width = max(0, width)
        self.height = max(0, height)
        self.ascii = ascii
        self._dots = [bytearray(self.width) for _ in range(self.height)]
        self._taken = [bytearray(self.width) for _ in range(self.height)]
        self._glyphs = [[" "] * self.width for _ in range(self.height)]
        self._roles = [[""] * self.width for _ in range(self.height)]

    def dot(self, x: int, y: int, role: str) -> None:
        """Set one dot; ``x`` counts half cells from the left, ``y`` quarter cells from the top."""
        col, row = x >> 1, y >> 2
        if 0 <= col < self.width and 0 <= row < self.height:
            self._dots[row][col] |= _BRAILLE_BITS[y & 3][x & 1]
            if not self._taken[row][col]:
                self._roles[row][col] = role

    def line(self, x0: float, y0: float, x1: float, y1: float, role: str, *, dash: int = 0) -> None:
        """A straight line between two dots; with ``dash``, so many dots on and as many off."""
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
        for step in range(steps + 1):
            if dash == 0 or step // dash % 2 == 0:
                part = step / steps
                self.dot(round(x0 + (x1 - x0) * part), round(y0 + (y1 - y0) * part), role)

    def put(self, col: int, row: int, glyph: str, role: str) -> None:
        """Take one cell for a glyph one cell wide, over whatever is there."""
        if 0 <= col < self.width and 0 <= row < self.height:
            self._glyphs[row][col] = glyph
            self._roles[row][col] = role
            self._taken[row][col] = 1

    def fill(self, col: int, row: int, glyphs: Sequence[str], roles: Sequence[str]) -> None:
        """Take one cell a glyph, each with its role, over whatever is there. All must lie inside."""
        end = col + len(glyphs)
        self._glyphs[row][col:end] = glyphs
        self._roles[row][col:end] = roles
        self._taken[row][col:end] = b"\x01" * len(glyphs)

    def reserve(self, col: int, row: int, cells: int) -> None:
        """Take cells of a row without drawing, so that no label goes there."""
        for taken in range(max(0, col), min(self.width, col + cells)):
            self._taken[row][taken] = 1

    def is_taken(self, col: int, row: int) -> bool:
        """Whether a glyph, text or reservation holds this cell; true outside the canvas."""
        return not (0 <= col < self.width and 0 <= row < self.height) or self._taken[row][col] != 0

    def is_free(self, col: int, row: int, cells: int, *, over_lines: bool = False) -> bool:
        """Whether text of this width fits here with a blank cell, or the edge, on either side of it."""
        if not (0 <= row < self.height and col >= 0 and cells > 0 and col + cells <= self.width):
            return False
        start, end = max(0, col - 1), min(self.width, col + cells + 1)
        if self._taken[row].find(1, start, end) >= 0:
            return False
        return over_lines or not any(self._dots[row][start:end])

    def write(self, col: int, row: int, text: str, role: str) -> None:
        """Take cells for ``text``, over whatever is there. What does not fit whole is left out."""
        if not 0 <= row < self.height:
            return
        for piece, cells in clusters(text):
            if col >= 0 and col + cells <= self.width:
                self.put(col, row, piece, role)
                if cells == 2:
                    self.put(col + 1, row, "", role)
            col += cells

    def label(
        self, text: str, role: str, places: Iterable[tuple[int, int]], *, over_lines: bool = False
    ) -> tuple[int, int] | None:
        """Write ``text`` at the first (column, row) where it fits, and tell which; ``None`` where it is dropped."""
        cells = width_of(text)
        for col, row in places:
            if self.is_free(col, row, cells, over_lines=over_lines):
                self.write(col, row, text, role)
                return col, row
        return None

    def picture(self) -> Picture:
        """What has been drawn."""
        return Picture(self.width, self.height, tuple(self._row(row) for row in range(self.height)))

    def _row(self, row: int) -> tuple[Segment, ...]:
        glyphs = self._glyphs[row]
        if any(self._dots[row]):
            glyph_of = _ascii_glyph if self.ascii else _braille_glyph
            glyphs = [
                glyph_of(dots) if dots and not taken else glyph
                for dots, taken, glyph in zip(self._dots[row], self._taken[row], glyphs, strict=True)
            ]
        segments, start = [], 0
        for role, run in groupby(self._roles[row]):
            end = start + len(list(run))
            segments.append(("".join(glyphs[start:end]), role))
            start = end
        return tuple(segments)


def _braille_glyph(dots: int) -> str:
    return chr(0x2800 + dots)


@lru_cache(maxsize=256)
def _ascii_glyph(dots: int) -> str:
    """The character that looks most like these dots."""
    left, right = ([row for row in range(4) if dots & _BRAILLE_BITS[row][column]] for column in (0, 1))
    if max(len(left), len(right)) >= 3 and min(len(left), len(right)) <= 1:
        return "|"
    # Where two lines share the cell, a column has a hole in it, and no slope is to be told.
    if left and right and len(left) > left[-1] - left[0] and len(right) > right[-1] - right[0]:
        rise = (left[0] + left[-1] - right[0] - right[-1]) / 2
        if abs(rise) >= 1.5:
            return "/" if rise > 0 else "\\"
    rows = left + right
    return _ASCII_BY_HEIGHT[round(sum(rows) / len(rows))]
