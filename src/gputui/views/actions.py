"""The only table of keys: bindings, footer, help and command palette all come from here.

An action's label is ``ui.action.<id>`` and its one-line explanation ``ui.action_help.<id>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType

Scope = Literal["app", "main", "run", "compare", "pane", "place", "timeline", "prompt"]
"""Whose binding it is: the application's (valid everywhere), the main screen's, the run screen's, that of the screen
that compares, that of a pane with a cursor, of one whose lines lead to places in a timeline, of the timeline itself
(which are such panes too), or of the line of input."""
Group = Literal["move", "kernels", "view", "timeline", "find", "compare", "run", "keep", "app"]
GROUPS: tuple[Group, ...] = ("move", "view", "timeline", "find", "kernels", "compare", "run", "keep", "app")


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
    "left": "←",
    "right": "→",
    "enter": "⏎",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "full_stop": ".",
    "comma": ",",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_text(key: str, *, ascii: bool = False) -> str:
    """How a key is spelt for the reader."""
    text = _KEY_TEXT.get(key, key)
    return text if text.isascii() or not ascii else key


KERNELS, DIAGNOSIS, ROOFLINE, METRICS, SOURCE = "kernels", "diagnosis", "roofline", "metrics", "source"
TIMELINE, RANGES, FINDINGS = "timeline", "ranges", "timeline-diagnosis"
TIMED = "timed-kernels"
"""The list of kernels while a timeline's are selected: the same pane, for which other keys matter."""
EMPTY = "empty"
PROMPT = "prompt"
RUN_CHECK, RUN_READY, RUN_GOING = "run-check", "run-ready", "run-going"
RUN_CHOOSE, RUN_NOTHING, RUN_FAILED = "run-choose", "run-nothing", "run-failed"
"""The run screen: the check of the machine and nsys's command; ncu's commands; one that runs; kernels to choose from,
or none; what went wrong."""
RUN = (RUN_CHECK, RUN_READY, RUN_GOING, RUN_CHOOSE, RUN_NOTHING, RUN_FAILED)
COMPARE, COMPARE_PAGE, COMPARE_WAIT = "compare", "compare-page", "compare-wait"
"""The screen that compares: its list, its pages, and while it waits for verdicts."""
COMPARES = (COMPARE, COMPARE_PAGE, COMPARE_WAIT)
_ALL = (KERNELS, TIMED, RANGES, DIAGNOSIS, FINDINGS, ROOFLINE, TIMELINE, METRICS, SOURCE, EMPTY)
_SEARCHED = (KERNELS, TIMED, RANGES, METRICS, SOURCE, TIMELINE)
_FILTERED = (KERNELS, TIMED, RANGES, METRICS, SOURCE)

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
    Action("open_place", ("enter",), "view", "place", "open_place", (RANGES,), in_palette=False),
    Action(
        "unfold",
        ("enter", "space"),
        "view",
        "main",
        "unfold",
        (KERNELS, TIMED, RANGES, DIAGNOSIS, FINDINGS, METRICS, SOURCE),
    ),
    Action("tab_diagnosis", ("1",), "view", "main", "show_tab('diagnosis')", (ROOFLINE, METRICS, SOURCE, EMPTY)),
    Action("tab_roofline", ("2",), "view", "main", "show_tab('roofline')", (KERNELS, DIAGNOSIS, METRICS, EMPTY)),
    Action("tab_timeline", ("3",), "view", "main", "show_tab('timeline')", (TIMED, RANGES, FINDINGS)),
    Action("tab_metrics", ("4",), "view", "main", "show_tab('metrics')", (KERNELS, DIAGNOSIS, ROOFLINE, EMPTY)),
    Action("tab_source", ("5",), "view", "main", "show_tab('source')"),
    Action("zoom_in", ("plus", "equals_sign"), "timeline", "timeline", "zoom(-1)", (TIMELINE,), in_palette=False),
    Action("zoom_out", ("minus",), "timeline", "timeline", "zoom(1)", in_palette=False),
    Action("zoom_selection", ("z",), "timeline", "timeline", "zoom_selection", (TIMELINE,), in_palette=False),
    Action("whole", ("0",), "timeline", "timeline", "whole", (TIMELINE,), in_palette=False),
    Action("pan_left", ("h", "left"), "timeline", "timeline", "pan(-1)", in_palette=False),
    Action("pan_right", ("l", "right"), "timeline", "timeline", "pan(1)", (TIMELINE,), in_palette=False),
    Action("cell_left", ("less_than_sign",), "timeline", "timeline", "step(-1)", in_palette=False),
    Action("cell_right", ("greater_than_sign",), "timeline", "timeline", "step(1)", in_palette=False),
    Action("next_event", ("right_curly_bracket",), "timeline", "timeline", "event(1)", (TIMELINE,), in_palette=False),
    Action("previous_event", ("left_curly_bracket",), "timeline", "timeline", "event(-1)", in_palette=False),
    Action("next_gap", ("full_stop",), "timeline", "timeline", "gap(1)", (TIMELINE,), in_palette=False),
    Action("previous_gap", ("comma",), "timeline", "timeline", "gap(-1)", in_palette=False),
    Action("select_event", ("enter", "space"), "timeline", "timeline", "select", (TIMELINE,), in_palette=False),
    Action("measure", ("v",), "timeline", "timeline", "measure", (TIMELINE,), in_palette=False),
    Action("bookmark", ("b",), "timeline", "timeline", "bookmark", (TIMELINE,), in_palette=False),
    Action("next_bookmark", ("B",), "timeline", "timeline", "next_bookmark", in_palette=False),
    Action("more_lanes", ("a",), "timeline", "timeline", "more_lanes", (TIMELINE,), in_palette=False),
    Action("clear", ("escape",), "timeline", "timeline", "clear", in_palette=False),
    Action("where", ("w",), "view", "main", "where", (TIMED, DIAGNOSIS, FINDINGS, TIMELINE, SOURCE)),
    Action("level", ("L",), "view", "main", "next_level", (KERNELS, TIMED, DIAGNOSIS, FINDINGS)),
    Action("search", ("slash",), "find", "main", "search", _SEARCHED),
    Action("next_match", ("n",), "find", "main", "next_match(1)"),
    Action("previous_match", ("N",), "find", "main", "next_match(-1)"),
    Action("filter", ("f",), "find", "main", "filter", _FILTERED),
    Action("back", ("escape",), "find", "main", "back", in_palette=False),
    Action("keep", ("enter", "tab"), "find", "prompt", "keep", (PROMPT,), in_palette=False),
    Action("cancel", ("escape",), "find", "prompt", "cancel", (PROMPT,), in_palette=False),
    Action("sort", ("s",), "kernels", "main", "sort", (KERNELS, TIMED, SOURCE)),
    Action("reverse", ("S",), "kernels", "main", "reverse"),
    Action("group", ("o",), "kernels", "main", "group", (KERNELS, TIMED, RANGES)),
    Action("base", ("m",), "compare", "main", "mark_base", (KERNELS, TIMED)),
    Action("compare", ("c",), "compare", "main", "compare", (KERNELS, TIMED, DIAGNOSIS, FINDINGS)),
    Action("pick", ("space",), "compare", "compare", "pick", (COMPARE,)),
    Action("pair", ("p",), "compare", "compare", "pair", (COMPARE,)),
    Action("apart", ("u",), "compare", "compare", "apart", (COMPARE,)),
    Action("forget_pairs", ("U",), "compare", "compare", "forget_pairs", (COMPARE,)),
    Action("swap", ("x",), "compare", "compare", "swap", (COMPARE, COMPARE_PAGE)),
    Action("same_work", ("w",), "compare", "compare", "same_work", (COMPARE, COMPARE_PAGE)),
    Action("page_why", ("1",), "compare", "compare", "show_page('why')", (COMPARE, COMPARE_PAGE)),
    Action("page_roofline", ("2",), "compare", "compare", "show_page('roofline')", (COMPARE, COMPARE_PAGE)),
    Action("page_kernels", ("3",), "compare", "compare", "show_page('kernels')", (COMPARE, COMPARE_PAGE)),
    Action("other_kind", ("o",), "compare", "compare", "other_kind", (COMPARE, COMPARE_PAGE)),
    Action("compare_level", ("L",), "compare", "compare", "next_level", (COMPARE_PAGE,)),
    Action("next_group", ("right_square_bracket",), "move", "compare", "step_group(1)", (COMPARE_PAGE,)),
    Action("previous_group", ("left_square_bracket",), "move", "compare", "step_group(-1)"),
    Action("other_pane", ("tab", "shift+tab"), "move", "compare", "other_pane", (COMPARE, COMPARE_PAGE)),
    Action("compare_copy", ("y",), "keep", "compare", "copy", (COMPARE, COMPARE_PAGE)),
    Action("compare_save", ("e",), "keep", "compare", "save", (COMPARE, COMPARE_PAGE)),
    Action("compare_back", ("escape",), "compare", "compare", "back", COMPARES, in_palette=False),
    Action("profile", ("p",), "run", "main", "profile", (KERNELS, TIMED, DIAGNOSIS, FINDINGS)),
    Action("again", ("r",), "run", "main", "run_again"),
    Action("proceed", ("enter",), "run", "run", "proceed", (RUN_CHECK, RUN_READY, RUN_CHOOSE), in_palette=False),
    Action("mark", ("space",), "run", "run", "mark", (RUN_CHOOSE,), in_palette=False),
    Action("mark_all", ("a",), "run", "run", "mark_all", (RUN_CHOOSE,), in_palette=False),
    Action("edit", ("i",), "run", "run", "edit", (RUN_CHECK, RUN_READY, RUN_NOTHING, RUN_FAILED), in_palette=False),
    Action("retry", ("r",), "run", "run", "retry", (RUN_FAILED, RUN_NOTHING, RUN_CHECK), in_palette=False),
    Action("checks", ("d",), "run", "run", "checks", (RUN_CHECK,), in_palette=False),
    Action("earlier", ("o",), "run", "run", "earlier", (RUN_CHECK,), in_palette=False),
    Action(
        "output", ("w",), "run", "run", "output", (RUN_GOING, RUN_FAILED, RUN_CHOOSE, RUN_NOTHING), in_palette=False
    ),
    Action("copy_ask", ("y",), "run", "run", "copy_ask", (RUN_CHECK, RUN_READY, RUN_FAILED), in_palette=False),
    Action("look", ("3",), "run", "run", "look", (RUN_CHOOSE, RUN_NOTHING), in_palette=False),
    Action("run_back", ("escape",), "run", "run", "back", (RUN_READY, RUN_CHOOSE, RUN_NOTHING), in_palette=False),
    Action("copy", ("y",), "keep", "main", "copy", (DIAGNOSIS, FINDINGS)),
    Action("save", ("e",), "keep", "main", "save", (DIAGNOSIS, FINDINGS)),
    Action("help", ("question_mark", "f1"), "app", "app", "help", (*_ALL, *RUN, *COMPARES)),
    Action("palette", ("ctrl+p",), "app", "app", "command_palette", in_palette=False),
    Action("theme", ("t",), "app", "app", "next_theme"),
    Action("redraw", ("ctrl+l",), "app", "app", "redraw"),
    Action("language", (), "app", "app", "next_language"),
    Action("stop", ("ctrl+x",), "app", "app", "stop", (RUN_GOING, COMPARE_WAIT)),
    Action("quit", ("q", "ctrl+q"), "app", "app", "quit", (*_ALL, *RUN, *COMPARES)),
)

BY_ID = {action.id: action for action in ACTIONS}
_OPENS_PLACES = (RANGES, FINDINGS)


def footer_key(action: Action, pane: str, *, ascii: bool = False) -> str:
    """The key that the footer shows for an action: the first that means it in this pane."""
    taken = BY_ID["open_place"].keys if pane in _OPENS_PLACES and action.id != "open_place" else ()
    return key_text(next(key for key in action.keys if key not in taken), ascii=ascii)


def bindings(scope: Scope) -> list[BindingType]:
    """The Textual bindings of one scope."""
    return [
        # Ctrl+Q and Ctrl+L work in dialogs too, and where a key is text. The editor must be open before the letter
        # behind "edit" is looked at: any other key is acted on later than the next one is sent to what has the focus.
        Binding(key, action.call, action.id, show=False, priority=key in ("ctrl+q", "ctrl+l") or action.id == "edit")
        for action in ACTIONS
        if action.scope == scope
        for key in action.keys
    ]


def in_footer(pane: str) -> Iterable[Action]:
    """What the footer offers while this pane has the focus, most needed first."""
    compared = ("page_why", "page_roofline", "page_kernels")
    first = {
        KERNELS: ("unfold", "compare", "base", "tab_roofline", "tab_metrics", "profile", "search", "filter", "sort"),
        TIMED: ("unfold", "compare", "base", "tab_timeline", "where", "profile", "group", "search", "filter", "sort"),
        RANGES: ("open_place", "unfold", "group", "tab_timeline", "search", "filter"),
        FINDINGS: ("where", "unfold", "tab_timeline"),
        SOURCE: ("unfold", "sort", "where", "search"),
        TIMELINE: ("zoom_in", "pan_right", "next_event", "next_gap", "select_event", "measure", "whole", "search"),
        COMPARE: ("pair", "other_kind", *compared, "compare_back", "pick", "swap", "apart", "compare_copy"),
        COMPARE_PAGE: ("next_group", "other_kind", *compared, "compare_back", "swap", "compare_copy"),
        RUN_CHECK: ("proceed", "edit", "retry"),
        RUN_READY: ("proceed", "edit", "run_back"),
        RUN_GOING: ("stop", "output"),
        RUN_CHOOSE: ("proceed", "mark", "run_back", "output", "look"),
        RUN_FAILED: ("retry", "edit", "output"),
        RUN_NOTHING: ("retry", "edit", "output", "look"),
    }.get(pane, ())
    chosen = [action for action in ACTIONS if pane in action.panes]
    rest = [action for action in chosen if action.id not in first and action.id not in ("help", "quit")]
    return (*(BY_ID[id] for id in first), *rest)
