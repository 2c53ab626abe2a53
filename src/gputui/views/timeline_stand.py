"""Where a reader stands in a timeline: the window of time, the cursor, marks. Moves alone; no Textual here.

All times are ns on the timeline's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputui.analysis.finding import Moment
    from gputui.analysis.lanes import Extra, Lane, Table
    from gputui.analysis.timeline import TimelineFacts

FRAMED = 3
"""A place that one goes to takes this part of the window."""
_COVERS = 0.5
_MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class LaneKey:
    """What a lane is, whichever others are shown with it."""

    kind: str
    title: str
    level: int
    gpu: int
    thread: int

    @classmethod
    def of(cls, lane: Lane) -> LaneKey:
        return cls(lane.kind, lane.full_title, lane.level, lane.gpu, lane.thread)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The event that was selected, by its row; a gap's is of its idle lane."""

    table: Table
    row: int
    lane: LaneKey
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Stand:
    """``whole`` is the capture's time and ``work`` that from first to last operation of a GPU.

    ``least_ns`` is the shortest window that can be told apart on the screen. ``gap`` is the rank of the idle gap that
    was gone to last.
    """

    whole: tuple[int, int]
    work: tuple[int, int]
    start_ns: int = 0
    end_ns: int = 0
    cursor_ns: int = 0
    lane: LaneKey | None = None
    first_lane: int = 0
    least_ns: int = 100
    range_ns: tuple[int, int] | None = None
    chosen: Chosen | None = None
    mark_a: int | None = None
    mark_b: int | None = None
    bookmarks: tuple[int, ...] = ()
    extra: tuple[Extra, ...] = ()
    gap: int | None = None
    moment: Moment | None = None
    """Where to go as soon as the lanes are known."""
    has_moved: bool = False
    """Whether the reader has found the keys."""

    @classmethod
    def at_start(cls, facts: TimelineFacts) -> Stand:
        """The whole capture; where the GPUs work in less than half of it, that part."""
        timeline = facts.timeline
        whole = timeline.start_ns, max(timeline.end_ns, timeline.start_ns + 1)
        ops = timeline.ops
        work = (int(ops.start[0]), int(ops.end.max())) if len(ops) else whole
        stand = cls(whole, work)
        stand.fit(work if work[1] - work[0] < _COVERS * (whole[1] - whole[0]) else whole)
        stand.cursor_ns = work[0]
        return stand

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns

    # -------------------------------------------------------------- the window

    def look_at(self, start_ns: int, span_ns: int) -> None:
        """A window of this length from here, kept within the capture and above the shortest length."""
        first, last = self.whole
        span = max(min(span_ns, last - first), self.least_ns)
        self.start_ns = max(first, min(start_ns, last - span))
        self.end_ns = self.start_ns + span

    def zoom(self, factor: float, at_ns: int | None = None) -> None:
        """A window ``factor`` times as long in which ``at_ns`` (the cursor) keeps its place."""
        at = self.cursor_ns if at_ns is None else at_ns
        if not self.start_ns <= at <= self.end_ns:
            at = (self.start_ns + self.end_ns) // 2
        span = max(round(self.span_ns * factor), self.least_ns)
        self.look_at(at - round((at - self.start_ns) / self.span_ns * span), span)

    def pan(self, ns: int) -> None:
        """Move on by so much, the cursor keeping its place on the screen; at the capture's ends it alone moves."""
        self.look_at(self.start_ns + ns, self.span_ns)
        self.put_cursor(self.cursor_ns + ns)

    def fit(self, span: tuple[int, int]) -> None:
        """Show all of this, with a little room beside it."""
        start, end = span
        margin = round((end - start) * _MARGIN)
        self.look_at(start - margin, end - start + 2 * margin)

    def fit_next(self) -> None:
        """The whole capture; from there, the part in which the GPUs work."""
        is_whole = (self.start_ns, self.end_ns) == self.whole
        self.fit(self.work if is_whole else self.whole)

    def frame(self, start_ns: int, end_ns: int) -> None:
        """Show this in the middle third."""
        span = max(FRAMED * (end_ns - start_ns), self.least_ns)
        self.look_at((start_ns + end_ns - span) // 2, span)

    def put_cursor(self, ns: int) -> None:
        """Move the cursor; the window follows where it would leave it."""
        self.cursor_ns = max(self.whole[0], min(ns, self.whole[1]))
        if not self.start_ns <= self.cursor_ns <= self.end_ns:
            self.look_at(self.cursor_ns - self.span_ns // FRAMED, self.span_ns)

    # -------------------------------------------------------------- marks

    def measure(self) -> None:
        """Set the first mark, then the second, then neither."""
        if self.mark_a is None:
            self.mark_a = self.cursor_ns
        elif self.mark_b is None:
            self.mark_b = self.cursor_ns
        else:
            self.mark_a = self.mark_b = None

    @property
    def measured(self) -> tuple[int, int] | None:
        """The time between the marks, or from the first to the cursor; else what was drawn with the mouse."""
        if self.mark_a is None:
            return self.range_ns
        other = self.cursor_ns if self.mark_b is None else self.mark_b
        return min(self.mark_a, other), max(self.mark_a, other)

    def toggle_bookmark(self, near_ns: int) -> None:
        """Set a bookmark at the cursor, or take away those nearer than ``near_ns``."""
        kept = tuple(one for one in self.bookmarks if abs(one - self.cursor_ns) > near_ns)
        self.bookmarks = kept if len(kept) < len(self.bookmarks) else tuple(sorted((*kept, self.cursor_ns)))

    def next_bookmark(self) -> bool:
        """Go to the next bookmark, from the last to the first; whether there is one."""
        if not self.bookmarks:
            return False
        self.put_cursor(next((one for one in self.bookmarks if one > self.cursor_ns), self.bookmarks[0]))
        return True

    def clear(self) -> bool:
        """Take back marks and selections; whether there were any."""
        had = (self.range_ns, self.chosen, self.mark_a, self.mark_b) != (None, None, None, None)
        self.range_ns = self.chosen = self.mark_a = self.mark_b = None
        return had
