"""Lines of styled text, cell by cell: what every widget of ours is painted with.

A line is a sequence of (text, role) segments. Roles are few and named for what they mean; ``app.tcss`` gives each a
look, so that a theme or a poor terminal changes the look in one place. Nothing here is parsed for markup.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from rich.segment import Segment as RichSegment
from rich.style import Style
from textual.app import App
from textual.css.model import RuleSet
from textual.dom import DOMNode
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from gputui.paint.grid import to_ascii, width_of
from gputui.terminal import safe
from gputui.views.text import Line, cut

_LOOKS: WeakKeyDictionary[App[Any], tuple[list[RuleSet], dict[str, Style]]] = WeakKeyDictionary()
"""By application the rules that hold now, and the roles that have been looked up in them."""


def look_of(role: str, app: App[Any]) -> Style:
    """What ``app.tcss`` says of the class ``role--<role>``; nothing for a role that it does not know.

    Looked up when it is needed. As component classes of a screen or a widget, Textual would work out all of them anew
    whenever a screen is opened or resized: more than for everything else on it.
    """
    rules = app.stylesheet.rules
    if app not in _LOOKS or _LOOKS[app][0] is not rules:
        _LOOKS[app] = rules, {}
    looks = _LOOKS[app][1]
    if role not in looks:
        node = DOMNode(classes=f"role--{role}")
        node._attach(app)
        app.stylesheet.apply(node)
        looks[role] = node.styles.partial_rich_style
    return looks[role]


@lru_cache(maxsize=8192)
def _passed(text: str, ascii: bool) -> tuple[str, int]:
    """The last gate to the terminal: whatever came here from a report, nothing in it acts. And how wide it is."""
    text = safe(text)
    if ascii:
        text = to_ascii(text)
    return text, width_of(text)


class RolePainter(Widget):
    """A widget that turns lines into strips."""

    ascii: bool = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._role_styles: dict[str, Style] = {}

    def role_style(self, role: str) -> Style:
        style = self._role_styles.get(role)
        if style is None:
            style = self._role_styles[role] = look_of(role, self.app)
        return style

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._role_styles = {}

    def strip(self, line: Line, width: int, over: Style | None = None) -> Strip:
        """``line`` as a strip exactly ``width`` cells wide; ``over`` lies above each role's style."""
        base = self.rich_style
        pieces: list[RichSegment] = []
        used = 0
        for text, role in line:
            text, cells = _passed(text, self.ascii)
            if used + cells > width:
                text = cut(text, width - used)
                cells = width_of(text)
            if not text:
                continue
            style = base + self.role_style(role) if role else base
            pieces.append(RichSegment(text, style + over if over is not None else style))
            used += cells
        if used < width:
            pieces.append(RichSegment(" " * (width - used), base + over if over is not None else base))
        return Strip(pieces, width)


class LinesView(ScrollView, RolePainter, can_focus=True):
    """A page of lines built for the width at hand; a subclass says what stands on it in ``build``."""

    DEFAULT_CSS = """
    LinesView {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: list[Line] = []
        self._built_width = -1

    def build(self, width: int) -> list[Line]:
        raise NotImplementedError

    def rebuild(self, *, to_top: bool = False) -> None:
        """Build the page anew and paint it."""
        width = self.scrollable_content_region.width
        self._built_width = width
        self._lines = self.build(width) if width > 0 else []
        self.virtual_size = Size(width, len(self._lines))
        if to_top:
            self.scroll_to(y=0, animate=False)
        self.refresh()

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._built_width:
            self.rebuild()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        row = y + self.scroll_offset.y
        return self.strip(self._lines[row] if row < len(self._lines) else (), width)

    def plain_lines(self) -> list[str]:
        """The page as text."""
        return ["".join(text for text, _ in line).rstrip() for line in self._lines]

    def action_cursor_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_cursor_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_page_down(self) -> None:
        self.scroll_relative(y=max(1, self.size.height - 1), animate=False)

    def action_page_up(self) -> None:
        self.scroll_relative(y=-max(1, self.size.height - 1), animate=False)

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)
