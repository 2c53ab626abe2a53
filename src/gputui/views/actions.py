"""The only table of keys: bindings, footer, help and command palette all come from here.

An action's label is ``ui.action.<id>`` and its one-line explanation ``ui.action_help.<id>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Scope = Literal["app", "main", "pane", "prompt"]
"""Whose binding it is: the application's (valid everywhere), the main screen's, that of a pane with a cursor, or of the
line of input."""
Group = Literal["move", "kernels", "view", "find", "keep", "app"]
GROUPS: tuple[Group, ...] = ("move", "view", "find", "kernels", "keep", "app")


@dataclass(frozen=True, slots=True)
class Action:
    """``call`` is what Textual runs; ``panes`` are those where the footer offers it."""

    id: str
    keys: tuple[str, ...]
    group: Group
    scope: Scope
    call: str
    panes: tuple[str, ...] = ()
    in_palette: bool = True

    def key_text(self, *, ascii: bool = False) -> str:
        """All keys, for help."""
        return " ".join(key_text(key, ascii=ascii) for key in self.keys)

    def footer_key(self, *, ascii: bool = False) -> str:
        return key_text(self.keys[0], ascii=ascii)


_KEY_TEXT = {
    "slash": "/",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "pagedown": "pgdn",
    "pageup": "pgup",
    "escape": "esc",
    "down": "↓",
    "up": "↑",
    "enter": "⏎",
}


def key_text(key: str, *, ascii: bool = False) -> str:
    """How a key is spelt for the reader."""
    text = _KEY_TEXT.get(key, key)
    return text if text.isascii() or not ascii else key


KERNELS, DIAGNOSIS, ROOFLINE, METRICS, SOURCE = "kernels", "diagnosis", "roofline", "metrics", "source"
EMPTY = "empty"
PROMPT = "prompt"
_ALL = (KERNELS, DIAGNOSIS, ROOFLINE, METRICS, SOURCE, EMPTY)
_TABLES = (KERNELS, METRICS, SOURCE)

ACTIONS: tuple[Action, ...] = (
    Action("cursor_down", ("j", "down"), "move", "pane", "cursor_down", in_palette=False),
    Action("cursor_up", ("k", "up"), "move", "pane", "cursor_up", in_palette=False),
    Action("top", ("g", "home"), "move", "pane", "top", in_palette=False),
    Action("bottom", ("G", "end"), "move", "pane", "bottom", in_palette=False),
    Action("page_down", ("pagedown", "ctrl+d"), "move", "pane", "page_down", in_palette=False),
    Action("page_up", ("pageup", "ctrl+u"), "move", "pane", "page_up", in_palette=False),
    Action("next_pane", ("tab",), "move", "main", "next_pane", _ALL, in_palette=False),
    Action("previous_pane", ("shift+tab",), "move", "main", "previous_pane", in_palette=False),
    Action(
        "next_kernel",
        ("right_square_bracket",),
        "move",
        "main",
        "step_kernel(1)",
        (DIAGNOSIS, ROOFLINE, METRICS, SOURCE),
    ),
    Action("previous_kernel", ("left_square_bracket",), "move", "main", "step_kernel(-1)"),
    Action("unfold", ("enter", "space"), "view", "main", "unfold", (KERNELS, DIAGNOSIS, METRICS, SOURCE)),
    Action("tab_diagnosis", ("1",), "view", "main", "show_tab('diagnosis')", (ROOFLINE, METRICS, SOURCE, EMPTY)),
    Action("tab_roofline", ("2",), "view", "main", "show_tab('roofline')", (KERNELS, DIAGNOSIS, METRICS, EMPTY)),
    Action("tab_timeline", ("3",), "view", "main", "show_tab('timeline')"),
    Action("tab_metrics", ("4",), "view", "main", "show_tab('metrics')", (KERNELS, DIAGNOSIS, ROOFLINE, EMPTY)),
    Action("tab_source", ("5",), "view", "main", "show_tab('source')"),
    Action("where", ("w",), "view", "main", "where", (DIAGNOSIS, SOURCE)),
    Action("level", ("L",), "view", "main", "next_level", (KERNELS, DIAGNOSIS)),
    Action("search", ("slash",), "find", "main", "search", _TABLES),
    Action("next_match", ("n",), "find", "main", "next_match(1)"),
    Action("previous_match", ("N",), "find", "main", "next_match(-1)"),
    Action("filter", ("f",), "find", "main", "filter", _TABLES),
    Action("back", ("escape",), "find", "main", "back", in_palette=False),
    Action("keep", ("enter", "tab"), "find", "prompt", "keep", (PROMPT,), in_palette=False),
    Action("cancel", ("escape",), "find", "prompt", "cancel", (PROMPT,), in_palette=False),
    Action("sort", ("s",), "kernels", "main", "sort", (KERNELS, SOURCE)),
    Action("reverse", ("S",), "kernels", "main", "reverse"),
    Action("group", ("o",), "kernels", "main", "group", (KERNELS,)),
    Action("copy", ("y",), "keep", "main", "copy", (DIAGNOSIS,)),
    Action("save", ("e",), "keep", "main", "save", (DIAGNOSIS,)),
    Action("help", ("question_mark", "f1"), "app", "app", "help", _ALL),
    Action("palette", ("ctrl+p",), "app", "app", "command_palette", in_palette=False),
    Action("theme", ("t",), "app", "app", "next_theme"),
    Action("language", (), "app", "app", "next_language"),
    Action("stop", ("ctrl+x",), "app", "app", "stop"),
    Action("quit", ("q", "ctrl+q"), "app", "app", "quit", _ALL),
)

BY_ID = {action.id: action for action in ACTIONS}


def bindings(scope: Scope) -> list[BindingType]:
    """The Textual bindings of one scope."""
    return [
        # Ctrl+Q works in dialogs too, and where a key is text.
        Binding(key, action.call, action.id, show=False, priority=key == "ctrl+q")
        for action in ACTIONS
        if action.scope == scope
        for key in action.keys
    ]


def in_footer(pane: str) -> Iterable[Action]:
    """What the footer offers while this pane has the focus, most needed first."""
    first = {
        KERNELS: ("unfold", "tab_roofline", "tab_metrics", "search", "filter", "sort"),
        SOURCE: ("unfold", "sort", "where", "search"),
    }.get(pane, ())
    chosen = [action for action in ACTIONS if pane in action.panes]
    rest = [action for action in chosen if action.id not in first and action.id not in ("help", "quit")]
    return (*(BY_ID[id] for id in first), *rest)
