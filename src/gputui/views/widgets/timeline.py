"""The timeline: what ran when, lane by lane, and what stands under the cursor.

State lives in a ``Stand`` for each timeline; after every move the picture is painted anew and only the lines that
differ are refreshed. Lanes, lit events and search results are made in workers, which post what they made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
from rich.style import Style
from textual import events
from textual.actions import SkipAction
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from gputui.analysis.in_view import largest, steady_gaps
from gputui.analysis.lanes import Extra, Lane, Lit, Table, lane_of, lanes, read_out
from gputui.analysis.timeline import TimelineFacts
from gputui.model.timeline import OpKind
from gputui.paint.timeline import NAMES, SHARES, Layout, Overlay, Viewport, layout, paint
from gputui.views import actions
from gputui.views.glyphs import Glyphs
from gputui.views.paper import RolePainter, look_of
from gputui.views.text import Line, paragraph
from gputui.views.timeline_stand import Chosen, LaneKey, Stand
from gputui.views.widgets.timeline_words import TimelineWords

if TYPE_CHECKING:
    from gputui.analysis.finding import Moment
    from gputui.wording import Wording

Mask = npt.NDArray[np.bool_]
T = TypeVar("T")

_BAR = "-bar"
_BAR_TEXTS = ("tl-bar", "tl-range-bar")
"""How names stand on the bars of events, and on those of NVTX ranges."""
_ZOOM = 2.0
_WHEEL_ZOOM = 1.5
_PAN = 8
"""A step is this part of the window."""
_MOST_GAPS = 100
_LEAST_GAP = 0.01
"""Of the longest: so many idle gaps of the steady time one can go to, none shorter than that, and as many others."""
_SEEN_GAP = 20
"""A gap shorter than this part of the window is zoomed to."""
_BLURRED = {"tl-title-selected": "tl-title", "tl-cursor-head": "tl-axis-label"}
_WITH_FEW_COLOURS = {"tl-selection": Style.null(), "tl-cursor": Style(reverse=True), "tl-hit": Style(underline=True)}
"""A ground among 16 colours hides what stands on it."""
_RULER_ROWS = 2
_READ_OUT = ((22, 4), (15, 3), (8, 2), (0, 1))
"""From this height on, so many lines below the picture."""
_RANGES = ((34, (4, 8)), (22, (3, 6)), (14, (3, 4)), (0, (2, 2)))
"""From this height on, so many levels of NVTX ranges and so many lanes of them: the GPUs' lanes must be seen too."""
_OF_LANES = frozenset(
    action.call.partition("(")[0] for action in actions.ACTIONS if action.scope in ("pane", "timeline")
)
_SEARCHED: tuple[Table, ...] = ("ops", "ranges")


@dataclass(frozen=True, slots=True)
class _Key:
    """Which lanes of a timeline: ``ranges`` are the levels of NVTX ranges and the most lanes of them above the GPUs."""

    facts: TimelineFacts
    extra: tuple[Extra, ...]
    ranges: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Built:
    """The lanes of a timeline, and its idle gaps as one goes through them: the lane and the place in it of each."""

    key: _Key
    lanes: list[Lane]
    gaps: list[tuple[Lane, int]]


class TimelineView(RolePainter, can_focus=True):
    """``show`` gives it a timeline. Posts ``Selected`` for the event that the reader chose."""

    BINDINGS = [*actions.bindings("pane"), *actions.bindings("timeline")]
    DEFAULT_CSS = "TimelineView { height: 1fr; }"

    class Selected(Message):
        """``kind`` is ``"kernel"``, ``"copy"``, ``"memset"`` or ``"graph"`` for a row of the timeline's ``ops``,
        ``"range"`` for one of ``ranges``, ``"call"`` and ``"os_call"`` for calls, ``"gap"`` for idle time."""

        def __init__(self, view: TimelineView, kind: str, row: int) -> None:
            super().__init__()
            self.view = view
            self.kind = kind
            self.row = row

        @property
        def control(self) -> TimelineView:
            return self.view

    class Made(Message):
        """A worker is done: ``take`` puts what it made in place."""

        def __init__(self, take: Callable[[], None]) -> None:
            super().__init__()
            self.take = take

    def __init__(self, words: Wording, signs: Glyphs, *, ascii: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.words = words
        self.signs = signs
        self.ascii = ascii
        self.facts: TimelineFacts | None = None
        self._told = TimelineWords(words, signs)
        self._names = {key: words.text(f"timeline_pane.name.{key}") for key in (*NAMES, *SHARES)}
        self._stands: dict[TimelineFacts, Stand] = {}
        self._built: dict[TimelineFacts, _Built] = {}
        """The lanes last made of each timeline."""
        self._asked: _Key | None = None
        self._failed: TimelineFacts | None = None
        """The timeline of which no lanes could be made."""
        self._lit: Lit | None = None
        self._lit_asked: tuple[int | None, Mask | None] | None = None
        self._hits: dict[Table, Lit] | None = None
        self._query = ""
        self._lines: list[Line] = []
        self._drag: int | None = None
        """The column in which the mouse button went down, while it is."""
        self._has_dragged = False

    # -------------------------------------------------------------- from outside

    def show(self, facts: TimelineFacts | None) -> None:
        """Show this timeline, where the reader left it."""
        if facts is self.facts:
            return
        self.facts = facts
        self._lit = self._lit_asked = self._hits = None
        self._query = ""
        if facts is not None:
            if facts not in self._stands:
                self._stands[facts] = Stand.at_start(facts)
                self._stands[facts].extra = self._first_extra(facts)
            self._want_lanes()
        self.repaint()

    def take_over(self, old: TimelineView) -> None:
        """Stand where another such view stood."""
        self._stands, self._built = old._stands, old._built
        self.facts, self._lit, self._hits, self._query = old.facts, old._lit, old._hits, old._query

    @property
    def stand(self) -> Stand:
        """Where the reader is in the timeline that is shown."""
        assert self.facts is not None
        return self._stands[self.facts]

    def go_to(self, moment: Moment) -> None:
        """Show the place of a finding: in the middle third of the window, the cursor in the lane that it is about."""
        if self.facts is None:
            return
        stand = self.stand
        stand.moment = moment
        stand.has_moved = True
        about_a_thread = moment.thread is not None and moment.gpu is None and moment.op is None
        if about_a_thread and "api" not in stand.extra and len(self.facts.timeline.calls):
            stand.extra = ("api",)
        self._want_lanes()
        self.repaint()

    def light(self, name: int | None = None, mask: Mask | None = None) -> None:
        """Light the operations of this name (a place in ``Timeline.names``) and of this mask; without either, none."""
        facts, asked = self.facts, (name, mask)
        if self._lit_asked is not None and asked[0] == self._lit_asked[0] and asked[1] is self._lit_asked[1]:
            return
        self._lit_asked = asked
        if facts is None or (name is None and mask is None):
            self._lit = None
            self.repaint()
            return
        built = self._lanes

        def make() -> Lit:
            ops = facts.timeline.ops
            chosen = np.ones(len(ops), dtype=bool) if mask is None else mask
            if name is not None:
                chosen = chosen & (ops.name == name)
            return _indexed(Lit.of_rows(facts, "ops", chosen), built)

        def take(lit: Lit) -> None:
            if asked is self._lit_asked and facts is self.facts:
                self._lit = lit
                self.repaint()

        self._work(make, take, "light")

    def search(self, text: str) -> None:
        """Find the events whose name holds ``text``, and go to the next one unless the cursor is on one."""
        facts = self.facts
        self._query = text = text.casefold()
        if facts is None or not text:
            self._hits = None
            self.repaint()
            return
        extra = self.stand.extra
        tables: list[Table] = [*_SEARCHED]
        if "api" in extra:
            tables.append("calls")
        if "os" in extra:
            tables.append("os_calls")
        built = self._lanes

        def make() -> dict[Table, Lit]:
            names = [place for place, name in enumerate(facts.timeline.names) if text in name.casefold()]
            found = {table: Lit.of_names(facts, table, names) for table in tables}
            return {table: _indexed(lit, built) for table, lit in found.items() if len(lit)}

        def take(hits: dict[Table, Lit]) -> None:
            if text == self._query and facts is self.facts:
                self._hits = hits
                lane, row = self._under()
                if hits and not (lane is not None and row is not None and self._is_hit(lane.table, row)):
                    self.next_match(1)
                self.repaint()

        self._work(make, take, "search")

    @property
    def match_count(self) -> int | None:
        """How many events the last search that is done found; ``None`` without one."""
        return None if self._hits is None else sum(len(lit) for lit in self._hits.values())

    def next_match(self, step: int) -> None:
        """Go to the next match in time, or (``step`` -1) to the one before, from the last on to the first."""
        if self.facts is None or not self._hits:
            return
        stand = self.stand
        beyond = stand.whole[0] - 1 if step > 0 else stand.whole[1] + 1
        for time in (stand.cursor_ns, beyond):
            found = [
                (int(self._starts(table)[row]), table, row)
                for table, lit in self._hits.items()
                if (row := lit.row_after(time) if step > 0 else lit.row_before(time)) is not None
            ]
            if found:
                start, table, row = (min if step > 0 else max)(found, key=lambda one: one[0])
                place = lane_of(self._lanes, table, row)
                self._move(start, None if place is None else self._lanes[place])
                return

    def plain_lines(self) -> list[str]:
        """What is on the screen as text."""
        return ["".join(text for text, _ in line).rstrip() for line in self._lines]

    # -------------------------------------------------------------- lanes

    @staticmethod
    def _first_extra(facts: TimelineFacts) -> tuple[Extra, ...]:
        """Where neither GPUs nor ranges did anything, the calls are all there is."""
        if len(facts.timeline.ops) or len(facts.timeline.ranges):
            return ()
        return _choices(facts)[-1]

    @property
    def _lanes(self) -> list[Lane]:
        """Those shown; none before the first are made."""
        built = self._built.get(self.facts) if self.facts is not None else None
        return [] if built is None else built.lanes

    def _want_lanes(self) -> None:
        """Have the lanes made that are wanted now; until they are, those before stay."""
        facts, height = self.facts, self.size.height
        if facts is None or not height:
            return
        key = _Key(facts, self.stand.extra, next(ranges for least, ranges in _RANGES if height >= least))
        built = self._built.get(facts)
        if built is not None and built.key == key:
            self._asked = None
            self._arrive()
        elif key != self._asked:
            self._asked = key
            lits = [one for one in (self._lit, *(self._hits or {}).values()) if one is not None]
            self._failed = None
            self._work(lambda: _build(key, lits), self._take_lanes, "lanes", partial(self._lose_lanes, key))

    def _take_lanes(self, built: _Built) -> None:
        if built.key == self._asked:
            self._asked = None
            self._built[built.key.facts] = built
            self._arrive()
            self.repaint()

    def _lose_lanes(self, key: _Key) -> None:
        """They could not be made: say so, and let the next occasion try again."""
        if key == self._asked:
            self._asked = None
            self._failed = key.facts
            self.repaint()

    def _arrive(self) -> None:
        """Once the lanes are known: go where a finding leads, or take the first place that the cursor has."""
        if not self._lanes:
            return
        stand = self.stand
        moment, stand.moment = stand.moment, None
        if moment is not None:
            lane, time = self._place_of(moment)
            stand.frame(moment.start_ns, moment.end_ns)
            stand.mark_a = stand.mark_b = stand.chosen = None
            stand.range_ns = moment.start_ns, moment.end_ns
            stand.put_cursor(time)
            stand.lane = LaneKey.of(lane)
        elif stand.lane is None:
            lane = next((lane for lane in self._lanes if lane.kind == "stream"), self._lanes[0])
            stand.lane = LaneKey.of(lane)
            longest = lane.longest_row()
            if longest is not None:
                stand.put_cursor(lane.span(longest)[0])

    def _place_of(self, moment: Moment) -> tuple[Lane, int]:
        """The lane that shows a finding's place best, and the time in it."""
        assert self.facts is not None
        shown, ops = self._lanes, self.facts.timeline.ops
        if moment.op is not None and moment.start_ns <= ops.start[moment.op] < max(moment.end_ns, moment.start_ns + 1):
            place = lane_of(shown, "ops", moment.op)
            if place is not None:
                return shown[place], int(ops.start[moment.op])

        def fits(lane: Lane) -> bool:
            if moment.gpu is not None:
                return lane.kind == "idle" and lane.gpu == moment.gpu
            if moment.stream is not None:
                return lane.kind == "stream" and int(ops.stream[lane.rows[0]]) == moment.stream
            return lane.kind in ("nvtx", "api") and lane.thread == moment.thread

        found = [lane for lane in shown if fits(lane)]
        here = next((lane for lane in found if lane.row_at(moment.start_ns) is not None), None)
        return here or next(iter(found), self._lane), moment.start_ns

    @property
    def _lane(self) -> Lane:
        """That of the cursor."""
        return self._lanes[self._place]

    @property
    def _place(self) -> int:
        key = self.stand.lane
        return next((place for place, lane in enumerate(self._lanes) if LaneKey.of(lane) == key), 0)

    def _starts(self, table: Table) -> npt.NDArray[np.int64]:
        assert self.facts is not None
        timeline = self.facts.timeline
        tables = {
            "ops": timeline.ops,
            "ranges": timeline.ranges,
            "calls": timeline.calls,
            "os_calls": timeline.os_calls,
        }
        return tables[table].start

    def _is_hit(self, table: Table, row: int) -> bool:
        lit = self._hits.get(table) if self._hits else None
        return lit is not None and row in lit

    def _under(self) -> tuple[Lane | None, int | None]:
        """The lane of the cursor, and the event in it: at the cursor's time, else the first in its cell."""
        if not self._lanes:
            return None, None
        lane, time = self._lane, self.stand.cursor_ns
        row = lane.row_at(time)
        if row is None:
            plan = self._plan
            column = plan.column_of(time)
            if column is not None:
                cell = column - plan.left
                here = lane.rows_in(int(plan.edges[cell]), int(plan.edges[cell + 1]))
                row = int(here[0]) if len(here) else None
        return lane, row

    # -------------------------------------------------------------- workers

    def _work(
        self, make: Callable[[], T], take: Callable[[T], None], group: str, lose: Callable[[], None] | None = None
    ) -> None:
        """``make`` in a thread, then ``take`` what it made here, or ``lose`` it. The application tells of errors."""

        def run() -> None:
            try:
                made = make()
            except BaseException:
                if lose is not None:
                    self.post_message(self.Made(lose))
                raise
            self.post_message(self.Made(partial(take, made)))

        self.app.run_worker(run, thread=True, group=f"timeline-{group}", exit_on_error=False)

    def on_timeline_view_made(self, event: Made) -> None:
        event.stop()
        event.take()

    # -------------------------------------------------------------- painting

    def on_resize(self) -> None:
        self._want_lanes()
        self.repaint()

    def watch_has_focus(self, has_focus: bool) -> None:
        self._role_styles = {}
        super().watch_has_focus(has_focus)
        self.refresh()

    def repaint(self) -> None:
        """Paint what has changed."""
        width, height = self.size
        if not width or not height:
            return
        lines = self._page(width, height)
        changed = [
            Region(0, y, width, 1)
            for y, (new, old) in enumerate(zip_longest(lines, self._lines))
            if new != old and y < height
        ]
        self._lines = lines
        if changed:
            self.refresh(*changed)

    @property
    def _below(self) -> int:
        """The lines under the picture: so many at least, and what the lanes leave."""
        stand, (width, height) = self.stand, self.size
        least = next(lines for from_height, lines in _READ_OUT if height >= from_height)
        tall = Viewport(stand.start_ns, stand.end_ns, width, height - least)
        slots = layout(self._lanes, tall).slots
        used = slots[-1].row + slots[-1].height + 2 if slots else 0
        return max(least, height - used)

    @property
    def _viewport(self) -> Viewport:
        stand, (width, height) = self.stand, self.size
        return Viewport(stand.start_ns, stand.end_ns, width, height - self._below, stand.first_lane)

    @property
    def _plan(self) -> Layout:
        return layout(self._lanes, self._viewport)

    def _page(self, width: int, height: int) -> list[Line]:
        facts = self.facts
        if facts is None:
            return self._words_page(self.words.ui("no_timeline"), width)
        if facts not in self._built:
            key = "failed" if facts is self._failed else "reading"
            return self._words_page(self.words.text(f"timeline_pane.{key}"), width)
        if not self._lanes:
            return self._words_page(self.words.text("timeline_pane.nothing"), width)
        stand = self.stand
        self._fit(height)
        lane, row = self._under()
        assert lane is not None
        place, plan = self._place, self._plan
        selection = stand.range_ns
        if selection is None and stand.chosen is not None:
            selection = stand.chosen.start_ns, stand.chosen.end_ns
        overlay = Overlay(
            stand.cursor_ns, selection, stand.mark_a, stand.mark_b, stand.bookmarks, place, row, self._lit,
            self._hits.get(lane.table) if self._hits else None,
        )  # fmt: skip
        picture = paint(
            self._lanes, self._viewport, overlay, names=self._names, ascii=self.ascii, colourless=self.is_colourless
        )
        told = self._told.lines(
            facts, lane, row, stand, plan.span_ns / plan.columns, (width, self._below), (place, len(self._lanes)),
            matches=self.match_count, ascii=self.ascii,
        )  # fmt: skip
        return [*picture.rows, *told]

    def _words_page(self, text: str, width: int) -> list[Line]:
        return [(), *([(" ", ""), *line] for line in paragraph(text, min(width - 2, 90), role="muted"))]

    def _fit(self, height: int) -> None:
        """Keep the window at 1 ns a cell or more, and the cursor's lane among those seen."""
        stand = self.stand
        stand.least_ns = self._plan.columns
        if stand.span_ns < stand.least_ns:
            stand.look_at(stand.start_ns, stand.least_ns)
        room = max(1, height - self._below - _RULER_ROWS - 1)
        place, last = self._place, max(0, len(self._lanes) - room)
        stand.first_lane = min(max(stand.first_lane, place - room + 1), place, last)

    @property
    def is_colourless(self) -> bool:
        """Whether classes must be told apart without colour."""
        return self.ascii or self._has_few_colours

    @property
    def _has_few_colours(self) -> bool:
        return self.app.no_color or self.app.console.color_system in (None, "standard")

    def role_style(self, role: str) -> Style:
        """Roles of the timeline are this widget's own, laid over one another where there are several."""
        style = self._role_styles.get(role)
        if style is None:
            style = Style.null()
            parts = role.split()
            if parts[:1] and parts[0].endswith(_BAR):
                # A bar is a ground itself.
                parts = [part for part in parts if part != "tl-selection"]
            for part in parts:
                style += self._own_style(part) if part.startswith("tl-") else super().role_style(part)
            self._role_styles[role] = style
        return style

    def _own_style(self, role: str) -> Style:
        if not self.has_focus:
            role = _BLURRED.get(role, role)
        if self._has_few_colours and role in _WITH_FEW_COLOURS:
            return _WITH_FEW_COLOURS[role]
        if self.is_colourless and role.startswith("tl-nvtx"):
            # Their names are written in it, not on it.
            role = "tl-title"
        if role.endswith(_BAR) and role not in _BAR_TEXTS:
            ground = Style(bgcolor=self._own_style(role.removesuffix(_BAR)).color)
            return ground + self._own_style(_BAR_TEXTS[role.startswith("tl-nvtx")])
        return look_of(role, self.app)

    def render_line(self, y: int) -> Strip:
        return self.strip(self._lines[y] if y < len(self._lines) else (), self.size.width)

    # -------------------------------------------------------------- moves

    def _move(self, time_ns: int, lane: Lane | None = None) -> None:
        """Put the cursor there."""
        self.stand.put_cursor(time_ns)
        if lane is not None:
            self.stand.lane = LaneKey.of(lane)
        self._moved()

    def _moved(self) -> None:
        self.stand.has_moved = True
        self.repaint()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without lanes there is nothing to move in."""
        return bool(self._lanes) if action in _OF_LANES else super().check_action(action, parameters)

    def action_zoom(self, direction: int) -> None:
        self.stand.zoom(_ZOOM**direction)
        self._moved()

    def action_pan(self, direction: int) -> None:
        self.stand.pan(direction * max(1, self.stand.span_ns // _PAN))
        self._moved()

    def action_page_down(self) -> None:
        self.stand.pan(self.stand.span_ns)
        self._moved()

    def action_page_up(self) -> None:
        self.stand.pan(-self.stand.span_ns)
        self._moved()

    def action_top(self) -> None:
        self._move(self.stand.whole[0])

    def action_bottom(self) -> None:
        self._move(self.stand.whole[1])

    def action_step(self, cells: int) -> None:
        plan = self._plan
        self._move(self.stand.cursor_ns + cells * max(1, round(plan.span_ns / plan.columns)))

    def action_cursor_down(self) -> None:
        self._step_lane(1)

    def action_cursor_up(self) -> None:
        self._step_lane(-1)

    def _step_lane(self, step: int) -> None:
        place = max(0, min(self._place + step, len(self._lanes) - 1))
        self._move(self.stand.cursor_ns, self._lanes[place])

    def action_whole(self) -> None:
        self.stand.fit_next()
        self._moved()

    def action_zoom_selection(self) -> None:
        """To the marked time, the selected event, or the one under the cursor."""
        stand = self.stand
        lane, row = self._under()
        if stand.measured is not None:
            stand.fit(stand.measured)
        elif stand.chosen is not None:
            stand.frame(stand.chosen.start_ns, stand.chosen.end_ns)
            stand.put_cursor(stand.chosen.start_ns)
        elif lane is not None and row is not None:
            stand.frame(*lane.span(row))
        self._moved()

    def action_event(self, step: int) -> None:
        lane, time = self._lane, self.stand.cursor_ns
        row = lane.row_after(time) if step > 0 else lane.row_before(time)
        if row is not None:
            self._move(lane.span(row)[0])

    def action_gap(self, step: int) -> None:
        """To the idle gap of the next rank, whichever GPU idled."""
        assert self.facts is not None
        gaps = self._built[self.facts].gaps
        if not gaps:
            self.notify(self.words.text("timeline_pane.no_gap"), markup=False)
            return
        stand = self.stand
        stand.gap = 0 if stand.gap is None else max(0, min(stand.gap + step, len(gaps) - 1))
        lane, place = gaps[stand.gap]
        start, end = int(lane.start[place]), int(lane.end[place])
        if not stand.span_ns // _SEEN_GAP <= end - start <= stand.span_ns:
            stand.frame(start, end)
        elif not stand.start_ns <= start <= end <= stand.end_ns:
            stand.look_at((start + end - stand.span_ns) // 2, stand.span_ns)
        self._move(start, lane)

    def action_measure(self) -> None:
        self.stand.measure()
        self._moved()

    def action_bookmark(self) -> None:
        plan = self._plan
        self.stand.toggle_bookmark(plan.span_ns // plan.columns)
        self._moved()

    def action_next_bookmark(self) -> None:
        if self.stand.next_bookmark():
            self._moved()
        else:
            self.notify(self.words.text("timeline_pane.no_bookmark"), markup=False)

    def action_more_lanes(self) -> None:
        """The lanes of GPUs and ranges; with API calls; with the operating system's too; with sampled metrics."""
        assert self.facts is not None
        choices = _choices(self.facts)
        if len(choices) == 1:
            self.notify(self.words.text("timeline_pane.no_more_lanes"), markup=False)
            return
        stand = self.stand
        stand.extra = choices[(choices.index(stand.extra) + 1) % len(choices)] if stand.extra in choices else ()
        self._want_lanes()
        self._moved()

    def action_select(self) -> None:
        """Select the event under the cursor."""
        lane, row = self._under()
        if lane is None or row is None:
            return
        start, end = lane.span(row)
        self.stand.chosen = Chosen(lane.table, row, LaneKey.of(lane), start, end)
        self._moved()
        self.post_message(self.Selected(self, self._kind(lane.table, row), row))

    def _kind(self, table: Table, row: int) -> str:
        assert self.facts is not None
        if table == "ops":
            return OpKind(int(self.facts.timeline.ops.kind[row])).name.lower()
        return {"ranges": "range", "calls": "call", "os_calls": "os_call", "gaps": "gap"}.get(table, table)

    def action_clear(self) -> None:
        """Take back marks and selections; where there are none, the key is the screen's."""
        if not self.stand.clear():
            raise SkipAction
        self.repaint()

    # -------------------------------------------------------------- mouse

    def _time_at(self, x: int) -> int:
        return self._plan.time_at(x)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self._lanes and event.button == 1 and event.y < self.size.height - self._below:
            self._drag, self._has_dragged = event.x, False
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drag is not None and event.x != self._drag:
            self._has_dragged = True
            first, last = sorted((self._drag, event.x))
            self.stand.range_ns = self._time_at(first), self._time_at(last + 1)
            self.stand.mark_a = self.stand.mark_b = None
            self._moved()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._drag is not None:
            self._drag = None
            self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there and select; the second click of two zooms to the event."""
        if not self._lanes or event.y >= self.size.height - self._below or self._has_dragged:
            return
        self.stand.range_ns = None
        place = self._plan.lane_at(event.y)
        if place is not None:
            self.stand.lane = LaneKey.of(self._lanes[place])
        self._move(self._time_at(event.x))
        if place is None:
            return
        if event.chain == 2:
            self.action_zoom_selection()
        else:
            self.action_select()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, direction: int) -> None:
        """On the time scale, or with ctrl or shift: zoom around the pointer. Elsewhere: through the lanes."""
        if not self._lanes:
            return
        event.stop()
        if event.ctrl or event.shift or event.y < _RULER_ROWS:
            self.stand.zoom(_WHEEL_ZOOM**direction, self._time_at(event.x))
            self._moved()
        else:
            self._step_lane(direction)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._turn(event, 1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._turn(event, -1)

    def _turn(self, event: events.MouseEvent, direction: int) -> None:
        if self._lanes:
            event.stop()
            self.action_pan(direction)


def _choices(facts: TimelineFacts) -> list[tuple[Extra, ...]]:
    """The lanes on demand, from none to all that the capture has."""
    timeline = facts.timeline
    has: dict[Extra, int] = {
        "api": len(timeline.calls), "os": len(timeline.os_calls), "counters": len(timeline.counters)
    }  # fmt: skip
    choices: list[tuple[Extra, ...]] = [()]
    for one, count in has.items():
        if count:
            choices.append((*choices[-1], one))
    return choices


def _build(key: _Key, lits: Sequence[Lit]) -> _Built:
    facts, (depth, above) = key.facts, key.ranges
    made = lanes(facts, extra=key.extra, range_depth=depth, ranges_above=above)
    for lane in made:
        lane.prepare()
    for lane in made[:1]:
        # What the facts work out when first asked is worked out here.
        read_out(facts, lane, int(lane.rows[0]))
    if len(facts.timeline.ranges):
        _ = facts.projection
    for lit in lits:
        _indexed(lit, made)
    return _Built(key, made, _ranked_gaps(facts, [lane for lane in made if lane.kind == "idle"]))


def _ranked_gaps(facts: TimelineFacts, idle: Sequence[Lane]) -> list[tuple[Lane, int]]:
    """The gaps of all GPUs, longest first: those of the steady time, which is what findings tell of, then the others.

    Of each no more than matter, so that one comes to the others in time.
    """
    if not idle:
        return []
    length = np.concatenate([lane.end - lane.start for lane in idle])
    steady = np.concatenate([steady_gaps(facts, lane.start, lane.end) for lane in idle])
    of = np.repeat(np.arange(len(idle)), [len(lane) for lane in idle])
    place = np.concatenate([np.arange(len(lane)) for lane in idle])
    ranked = []
    for chosen in (np.flatnonzero(steady), np.flatnonzero(~steady)):
        rows = chosen[largest(length[chosen], _MOST_GAPS)]
        rows = rows[length[rows] >= _LEAST_GAP * length[rows[:1]]]
        ranked += [(idle[lane], at) for lane, at in zip(of[rows].tolist(), place[rows].tolist(), strict=True)]
    return ranked


def _indexed(lit: Lit, among: list[Lane]) -> Lit:
    """With what painting asks of it made ready."""
    lit.row_after(0)
    for lane in among:
        lit.within(lane, np.zeros(2, dtype=np.int64))
    return lit
