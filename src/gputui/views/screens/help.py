"""Help: what has the focus, the keys (from the one table), the marks, and a glossary in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from gputui.paint.grid import width_of
from gputui.views import actions
from gputui.views.glyphs import Glyphs
from gputui.views.paper import LinesView
from gputui.views.text import Line, fit, paragraph

if TYPE_CHECKING:
    from gputui.wording import Wording


_FIRST_KEYS: dict[str, actions.Group] = {
    actions.TIMELINE: "timeline",
    actions.KERNELS: "kernels",
    actions.RANGES: "kernels",
    **dict.fromkeys(actions.RUN, "run"),
    **dict.fromkeys(actions.COMPARES, "compare"),
}
"""By pane the keys that are its own."""
_OF_TIMELINES = (actions.TIMELINE, actions.RANGES, actions.FINDINGS)
"""Panes whose help explains the words of timelines (``of`` in the glossary) before the others."""


class HelpBody(LinesView):
    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, signs: Glyphs, pane: str, offered: frozenset[str] | None) -> None:
        super().__init__(id="help-body")
        self.offered = offered
        self.words = words
        self.signs = signs
        self.pane = pane

    def build(self, width: int) -> list[Line]:
        return list(self._page(width - 1))

    def _page(self, width: int) -> Iterable[Line]:
        words = self.words
        yield [(words.ui(f"help.{self.pane}.title"), "title")]
        yield from paragraph(words.ui(f"help.{self.pane}.text"), width)
        first = _FIRST_KEYS.get(self.pane, actions.GROUPS[0])
        yield from self._keys(first, width)
        if self.pane not in (*actions.RUN, *actions.COMPARES):
            yield from self._marks(width)
        for group in actions.GROUPS:
            if group != first:
                yield from self._keys(group, width)
        yield ()
        yield [(words.ui("help.glossary"), "title")]
        rows = list(words.glossary().values())
        if self.pane in _OF_TIMELINES:
            rows.sort(key=lambda row: "of" not in row)
        for row in rows:
            yield ()
            yield [(f" {row['term']}", "strong")]
            yield from paragraph(row["text"], width, first=[("   ", "")], indent=3)
        yield ()
        yield [(words.ui("help.close"), "faint")]

    def _marks(self, width: int) -> Iterable[Line]:
        words = self.words
        yield ()
        yield [(words.ui("help.marks"), "title")]
        for mark, role, key in (
            (self.signs.high, "high", "high"),
            (self.signs.medium, "medium", "medium"),
            (self.signs.low, "low", "low"),
            (self.signs.ok, "ok", "ok"),
            (self.signs.unknown, "unknown", "unknown"),
            (self.signs.worth, "accent", "worth"),
        ):
            yield from paragraph(words.ui(f"mark.{key}"), width, first=[(f" {mark} ", role)], indent=4)

    def _keys(self, group: actions.Group, width: int) -> Iterable[Line]:
        chosen = [one for one in actions.ACTIONS if one.group == group and one.keys]
        if self.offered is not None:
            chosen = [one for one in chosen if one.id in self.offered]
        if not chosen:
            return
        yield ()
        yield [(self.words.ui(f"group.{group}"), "title")]
        for action in chosen:
            keys = action.key_text(ascii=self.ascii)
            key = fit(f" {keys}", max(17, width_of(keys) + 3))
            yield from paragraph(self.words.ui(f"action.{action.id}"), width, first=[(key, "key")], indent=18)


class HelpScreen(ModalScreen[None]):
    """``offered`` are the actions that do something on the page that it is about, by id; ``None``: all."""

    BINDINGS = [Binding("escape,question_mark,f1,q", "dismiss_help", show=False)]

    def __init__(
        self, words: Wording, signs: Glyphs, pane: str, offered: frozenset[str] | None = None, *, ascii: bool
    ) -> None:
        super().__init__()
        self.body = HelpBody(words, signs, pane, offered)
        self.body.ascii = ascii
        self.set_class(ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.body.focus()

    def action_dismiss_help(self) -> None:
        self.dismiss(None)
