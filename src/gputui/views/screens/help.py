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
from gputui.views.paper import ROLE_CLASSES, LinesView
from gputui.views.text import Line, fit, paragraph

if TYPE_CHECKING:
    from gputui.wording import Wording


class HelpBody(LinesView):
    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, signs: Glyphs, pane: str) -> None:
        super().__init__(id="help-body")
        self.words = words
        self.signs = signs
        self.pane = pane

    def build(self, width: int) -> list[Line]:
        return list(self._page(width - 1))

    def _page(self, width: int) -> Iterable[Line]:
        words = self.words
        yield [(words.ui(f"help.{self.pane}.title"), "title")]
        yield from paragraph(words.ui(f"help.{self.pane}.text"), width)
        yield ()
        yield [(words.ui("help.marks"), "title")]
        for mark, role, key in (
            (self.signs.high, "high", "high"),
            (self.signs.medium, "medium", "medium"),
            (self.signs.low, "low", "low"),
            (self.signs.ok, "ok", "ok"),
            (self.signs.unknown, "unknown", "unknown"),
        ):
            yield from paragraph(words.ui(f"mark.{key}"), width, first=[(f" {mark} ", role)], indent=4)
        for group in actions.GROUPS:
            yield ()
            yield [(words.ui(f"group.{group}"), "title")]
            for action in actions.ACTIONS:
                if action.group == group and action.keys:
                    keys = action.key_text(ascii=self.ascii)
                    key = fit(f" {keys}", max(17, width_of(keys) + 3))
                    yield from paragraph(words.ui(f"action.{action.id}"), width, first=[(key, "key")], indent=18)
        yield ()
        yield [(words.ui("help.glossary"), "title")]
        for row in words.glossary().values():
            yield ()
            yield [(f" {row['term']}", "strong")]
            yield from paragraph(row["text"], width, first=[("   ", "")], indent=3)
        yield ()
        yield [(words.ui("help.close"), "faint")]


class HelpScreen(ModalScreen[None]):
    COMPONENT_CLASSES = set(ROLE_CLASSES)
    BINDINGS = [Binding("escape,question_mark,f1,q", "dismiss_help", show=False)]

    def __init__(self, words: Wording, signs: Glyphs, pane: str, *, ascii: bool) -> None:
        super().__init__()
        self.body = HelpBody(words, signs, pane)
        self.body.ascii = ascii
        self.set_class(ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.body.focus()

    def action_dismiss_help(self) -> None:
        self.dismiss(None)
