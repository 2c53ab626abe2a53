"""What the terminal shows, cell by cell, so that a frame sends only the cells that change.

Textual sends every widget that was repainted as a whole: 24 KB for a step in a list on 120 × 40, which takes a link of
256 kbit/s three quarters of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate

_UNKNOWN = "\0"
"""Stands for the text of a cell of which it is not known what the terminal shows."""
_SHOWN_IN_SPACES = frozenset({"4", "5", "6", "7", "9", "21", "51", "52", "53"})
"""SGR attributes that are seen where there is no character: underlined, blinking, reversed, struck out, framed."""

_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""SGR parameters that end an attribute alone; what ends the rarer ones is not told alike by all terminals."""


class Cells:
    """The cells of a terminal: their texts, and the SGR parameters that each was written with.

    A character of two columns stands in the first of its cells, and an empty text in the other.
    """

    def __init__(self) -> None:
        self._lines: dict[int, tuple[list[str], list[str]]] = {}
        self._is_forgotten = False

    def forget(self) -> None:
        """The terminal may show anything: the next frame is sent whole."""
        self._lines.clear()
        self._is_forgotten = True

    def changes(self, update: CompositorUpdate) -> CompositorUpdate:
        """The update that sends only what changes."""
        return _Changes(self, update)

    def sequence(self, update: CompositorUpdate, console: Console) -> str:
        """What to send to the terminal for this update; what it shows from then on is known."""
        if not isinstance(update, (LayoutUpdate, ChopsUpdate)):
            self.forget()
            return update.render_segments(console)
        clear = ""
        if self._is_forgotten and isinstance(update, LayoutUpdate):
            # Of a wide character that a resize cut in two, tmux leaves a hole in what is written over it.
            clear = "\x1b[2J"
            self._lines.clear()
            self._is_forgotten = False
        pen = _Pen()
        color_system = console._color_system or ColorSystem.TRUECOLOR
        for x, y, segments in _pieces(update):
            self._write(pen, x, y, *_cells(segments, color_system))
        return clear + pen.lifted()

    def _write(self, pen: _Pen, start: int, y: int, texts: list[str], styles: list[str]) -> None:
        shown, shown_styles = self._lines.setdefault(y, ([], []))
        end = start + len(texts)
        if missing := end - len(shown):
            shown.extend([_UNKNOWN] * missing)
            shown_styles.extend([""] * missing)
        old, old_styles = shown[start:end], shown_styles[start:end]
        if old == texts and old_styles == styles:
            return
        # Of a character of two columns that is written over in one, terminals leave this or that in the other.
        if not old[0] and start:
            start -= 1
            texts, old = [" ", *texts], [_UNKNOWN, *old]
            styles, old_styles = [shown_styles[start], *styles], ["", *old_styles]
        if end < len(shown) and not shown[end]:
            texts, old = [*texts, " "], [*old, _UNKNOWN]
            styles, old_styles = [*styles, shown_styles[end]], [*old_styles, ""]
            end += 1
        shown[start:end], shown_styles[start:end] = texts, styles
        changed = [
            at
            for at, (a, b, c, d) in enumerate(zip(texts, old, styles, old_styles, strict=True), start)
            if a != b or c != d
        ]
        for first, end in _runs(changed):
            while first > start and not shown[first]:
                first -= 1
            while end < len(shown) and not shown[end]:
                end += 1
            pen.write(y, first, end, shown, shown_styles)


class _Changes(CompositorUpdate):
    def __init__(self, cells: Cells, update: CompositorUpdate) -> None:
        self._cells = cells
        self._update = update

    def render_segments(self, console: Console) -> str:
        return self._cells.sequence(self._update, console)


class _Pen:
    """Writes cells with as few bytes as it takes to move there and to change the style."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._x = self._y = -1
        self._style = ""

    def write(self, y: int, first: int, end: int, texts: list[str], styles: list[str]) -> None:
        """Write the cells of a line from the first to the end."""
        if y != self._y:
            self._sent.append(f"\x1b[{y + 1};{first + 1}H")
        elif first != self._x:
            move = f"\x1b[{first + 1}G"
            between = self._bridge(first, texts, styles) if 0 <= self._x < first <= self._x + len(move) else ""
            self._sent.append(between or move)
        self._y = y
        place = first
        for x in range(first, end):
            text, style = texts[x], styles[x]
            if text:
                if place < 0:
                    self._sent.append(f"\x1b[{x + 1}G")
                if not self._fits(text, style):
                    self._sent.append(_change(self._style, style))
                    self._style = style
                self._sent.append(text)
                # Terminals disagree on how far several code points together move the cursor.
                place = -1 if len(text) > 1 else x
        self._x = -1 if place < 0 else end

    def _bridge(self, end: int, texts: list[str], styles: list[str]) -> str:
        """The unchanged cells on the way, where they can be sent again as they are: mostly a space between words, which
        takes fewer bytes than to pass it over."""
        way = range(self._x, end)
        plain = all(texts[x].isascii() and texts[x] != _UNKNOWN and self._fits(texts[x], styles[x]) for x in way)
        return "".join(texts[self._x : end]) if plain else ""

    def _fits(self, text: str, style: str) -> bool:
        """Whether the style is the one that is set, or the text a space that looks the same in that."""
        return style == (_of_space(self._style) if text == " " else self._style)

    def lifted(self) -> str:
        """All that was written, with the style as it was before."""
        self._sent.append(_change(self._style, ""))
        return "".join(self._sent)


def _pieces(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Iterable[Segment]]]:
    """Column, line and segments of each part of the update, as Textual itself renders it."""
    if isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            yield update.region.x, y, (segment for strip in line for segment in strip)
        return
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= right and end > left:
                yield x, y, strip if x >= left and end <= right else strip.crop(0, min(end, right) - x)


def _cells(segments: Iterable[Segment], color_system: ColorSystem) -> tuple[list[str], list[str]]:
    texts: list[str] = []
    styles: list[str] = []
    for text, style, control in segments:
        if control:
            continue
        code, code_of_space = ("", "") if style is None else _codes(style, color_system)
        if text.isascii():
            added = list(text)
        else:
            added = _characters(text)
            if added and not cell_len(added[0]):
                if texts:
                    at = next(at for at in reversed(range(len(texts))) if texts[at])
                    texts[at] += added[0]
                del added[0]
        texts += added
        if code == code_of_space:
            styles += [code] * len(added)
        else:
            styles += [code_of_space if one == " " else code for one in added]
    return texts, styles


def _characters(text: str) -> list[str]:
    """The text of each cell. Marks without a width stand with the character before them, at the start alone."""
    found: list[str] = []
    for character in text:
        width = cell_len(character)
        if width or not found:
            found += [character, *[""] * (width - 1)]
        else:
            at = -1 if found[-1] else -2
            found[at] += character
    width = cell_len(text)
    # Several characters that are joined to one, as in an emoji of a family, are left together.
    return found if sum(map(cell_len, found)) == len(found) == width else [text, *[""] * (width - 1)]


def _runs(changed: list[int]) -> Iterator[tuple[int, int]]:
    """First cell and end of what stands side by side."""
    first = last = changed[0]
    for at in changed[1:]:
        if at - last > 1:
            yield first, last + 1
            first = at
        last = at
    yield first, last + 1


@lru_cache(4096)
def _codes(style: Style, color_system: ColorSystem) -> tuple[str, str]:
    """The SGR parameters of a style, and what of them is seen in a space."""
    rendered = style.update_link(None).render("x", color_system=color_system)
    code = rendered[2 : rendered.index("m")] if rendered.startswith("\x1b[") else ""
    return code, _of_space(code)


@lru_cache(4096)
def _of_space(code: str) -> str:
    attributes, _, background = _parts(code)
    return code if set(attributes) & _SHOWN_IN_SPACES else background


@lru_cache(4096)
def _change(before: str, after: str) -> str:
    """The shortest sequence from one style to another."""
    if before == after:
        return ""
    if not after:
        return "\x1b[m"
    attributes, foreground, background = _parts(after)
    old, old_foreground, old_background = _parts(before)
    whole = f"\x1b[0;{after}m"
    gone = set(old) - set(attributes)
    if not gone <= _ENDS.keys():
        return whole
    ends = {_ENDS[one] for one in gone}
    # 22 ends bold and dim, of which one may go on.
    parts = [*sorted(ends), *(one for one in attributes if one not in old or _ENDS.get(one) in ends)]
    if foreground != old_foreground:
        parts.append(foreground or "39")
    if background != old_background:
        parts.append(background or "49")
    return min(f"\x1b[{';'.join(parts)}m", whole, key=len)


@lru_cache(4096)
def _parts(code: str) -> tuple[tuple[str, ...], str, str]:
    """Attributes, foreground and background of SGR parameters."""
    attributes: list[str] = []
    foreground = background = ""
    numbers = code.split(";") if code else []
    while numbers:
        one = numbers.pop(0)
        if one in ("38", "48"):
            more = 4 if numbers[0] == "2" else 2
            colour = ";".join([one, *numbers[:more]])
            del numbers[:more]
            foreground, background = (colour, background) if one == "38" else (foreground, colour)
        elif len(one) > 1 and one[:-1] in ("3", "9"):
            foreground = one
        elif len(one) > 1 and one[:-1] in ("4", "10"):
            background = one
        else:
            attributes.append(one)
    return tuple(attributes), foreground, background
