"""What the lines under the timeline say: the event under the cursor, what is measured, what is in view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from gputui import units
from gputui.analysis.in_view import MOST_IN_VIEW, Meanwhile, after_gap, in_view, meanwhile, steady_gaps
from gputui.analysis.lanes import Lane, ReadOut, Table, read_out
from gputui.model.kernel import function_name
from gputui.model.timeline import MemoryKind, OpKind
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.render.text import sides
from gputui.render.timeline_rows import clock_file, clock_kind
from gputui.views import actions
from gputui.views.glyphs import Glyphs
from gputui.views.text import Line, Segment, fit, line_width, shorten_middle, shown, wrap

if TYPE_CHECKING:
    from gputui.analysis.timeline import TimelineFacts
    from gputui.views.timeline_stand import Stand
    from gputui.wording import Wording

_NAME = 2000
_SHOWN_CALLS = 3
_LEAST_SHARE = 0.01
"""Calls that take less than this part of a gap are not named."""
_HINTS = (("next_gap",), ("zoom_in", "zoom_out"), ("pan_left", "pan_right"), ("next_event",), ("measure",))
_LEAST_GAP = 0.001
"""Gaps that take less than this part of the view are not listed."""
_ROOMY = 8
_DETAILS = 4
_LEAST_RANKING = 4
"""So many lines make a ranking worth showing."""


class TimelineWords:
    """Asked after each move: the costly part, the event itself, is kept until another one is under the cursor."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        self.words = words
        self.signs = signs
        self._event: tuple[Lane, int] | None = None
        self._facts_line: list[str] = []
        self._story: list[str] = []
        """What the CPU did in an idle time, most telling first."""
        self._told: ReadOut | None = None
        self._when = ""
        """Of an idle time outside the steady time: in the warm-up, or after."""
        self._around = ""

    def text(self, key: str, /, **params: object) -> str:
        return self.words.text(f"timeline_pane.{key}", **params)

    def lines(
        self, facts: TimelineFacts, lane: Lane, row: int | None, stand: Stand, step_ns: float, size: tuple[int, int],
        place: tuple[int, int], *, matches: int | None, ascii: bool,
    ) -> list[Line]:  # fmt: skip
        """``size`` is (width, lines), ``place`` the lane's place and how many there are, ``step_ns`` what one cell
        stands for, ``matches`` what a search found."""
        width, height = size[0] - 2, size[1]
        self._look_at(facts, lane, row)
        title = self._title(facts, lane, step_ns, width)
        measured = self._measured(facts, lane, stand, ascii)
        view = self._view(facts, lane, stand, step_ns, width, place, matches)
        hint = [] if stand.has_moved else self._hint()
        around: Line = [(shorten_middle(self._around, width), "muted")] if self._around else ()
        now = measured or hint
        told = self._facts_lines(width, 1 if height == 2 or (height == 3 and measured) else 2)
        page: list[Line]
        if height == 1:
            page = [measured or title]
        elif height == 2:
            page = [title, now or told[0]]
        elif height == 3:
            page = [title, *told, now or around or view]
        elif height < _ROOMY:
            page = [title, *told, around, *([now] if now else []), view]
        else:
            details = [
                *self._full_name(width),
                *(told if self._story else ()),
                *self._joined(self._facts_line, width, 3 - len(told) if self._story else 2),
                *([around] if around else []),
            ]
            # As many lines for each event: what stands below stays where it is while the cursor moves.
            page = [title, *details[:_DETAILS], *[()] * (_DETAILS - len(details)), now, view, ()]
            if height >= len(page) + _LEAST_RANKING:
                page += self._ranking(facts, lane, stand, step_ns, width, height - len(page), ascii)
        return [[(" ", ""), *line] for line in page[:height]]

    # -------------------------------------------------------------- the event

    def _look_at(self, facts: TimelineFacts, lane: Lane, row: int | None) -> None:
        event = None if row is None else (lane, row)
        if event == self._event and event is not None:
            return
        self._event = event
        self._told, self._facts_line, self._story, self._when, self._around = None, [], [], "", ""
        if row is None:
            return
        told = self._told = read_out(facts, lane, row)
        if lane.table == "gaps":
            self._facts_line = list(self._gap(facts, lane, row, told))
        else:
            self._facts_line = [one for one in self._facts(facts, lane, row, told) if one]
        outer = told.nvtx[:-1] if lane.table == "ranges" else told.nvtx
        if outer:
            self._around = self._inside(outer)

    def _facts_lines(self, width: int, most: int) -> list[Line]:
        """What is told of the event: of an idle time what the CPU did, over so many lines; else on one line."""
        if not self._story:
            return self._joined(self._facts_line, width, 1)
        kept = len(self._story)
        # What counts least goes first where there is no room for all.
        while kept > 1 and len(wrap(self.signs.separator.join(self._story[:kept]), width)) > most:
            kept -= 1
        return [[(part, "number")] for part in wrap(self.signs.separator.join(self._story[:kept]), width)[:most]]

    def _full_name(self, width: int) -> list[Line]:
        """Where the title is too short for it."""
        name = "" if self._told is None else shown(self._told.name, _NAME)
        if width_of(name) <= width // 2:
            return []
        return [[("  ", ""), (shorten_middle(name, width - 2), "faint")]]

    def _inside(self, path: Sequence[str]) -> str:
        return self.text("inside", path=" / ".join(shown(name, 80) for name in path))

    def _title(self, facts: TimelineFacts, lane: Lane, step_ns: float, width: int) -> Line:
        told = self._told
        if told is None:
            return [(self.text("empty"), "muted"), ("   ", ""), (shown(lane.full_title, 80), "faint")]
        name = shown(told.name, _NAME) or self.text("idle", number=self._ordinal(facts, told.gpu))
        short = shown(function_name(told.name), _NAME) if lane.table == "ops" else name
        took = units.duration(told.duration_ns) if told.duration_ns else ""
        at = self.text("starts", at=_moment(told.start_ns, step_ns))
        if told.is_open:
            at = f"{at}{self.signs.separator}{self.text('open')}"
        if self._when:
            at = f"{at}{self.signs.separator}{self._when}"
        room = width - width_of(took) - width_of(at) - 8
        return [
            (f"{self.signs.emphasis} ", "accent"),
            (name if width_of(name) <= room else shorten_middle(short, max(8, room)), "title"),
            ("   ", ""),
            (took, "accent"),
            ("   ", ""),
            (at, "muted"),
        ]

    def _facts(self, facts: TimelineFacts, lane: Lane, row: int, told: ReadOut) -> Iterable[str]:
        if lane.table == "ops":
            yield from self._op(facts, row, told)
        elif lane.table == "ranges":
            yield from self._range(facts, row, told)
        elif lane.table == "counters":
            yield self.text("value", value=told.value)
        else:
            yield self._thread(facts, told.thread)
            if lane.table == "calls":
                yield from self._call(facts, row)

    def _op(self, facts: TimelineFacts, row: int, told: ReadOut) -> Iterable[str]:
        timeline = facts.timeline
        if len(facts.gpus) > 1:
            yield self.text("gpu", number=self._ordinal(facts, told.gpu))
        if told.bytes is not None:
            yield self.text("copied", bytes=told.bytes)
            if told.rate is not None:
                yield self.text("rate", rate=told.rate)
            if told.source is not None and told.target is not None:
                yield self.text("copy", source=self._memory(told.source), target=self._memory(told.target))
            elif told.target is not None:
                yield self.text("set", target=self._memory(told.target))
        shape = told.shape
        if shape is not None:
            if shape.grid is not None:
                yield self.text("grid", grid=sides(shape.grid))
            if shape.block is not None:
                yield self.text("block", block=sides(shape.block))
        if 0 <= told.stream < len(timeline.streams):
            yield self.text("stream", number=timeline.streams[told.stream].number)
        if told.latency_ns is not None:
            yield self.text("latency", latency=told.latency_ns, call=shown(told.call_name, 60))
        if told.graph:
            key = "graph_whole" if timeline.ops.kind[row] == OpKind.GRAPH else "graph"
            yield self.text(key, number=told.graph)
        if shape is not None:
            if shape.registers:
                yield self.text("registers", count=shape.registers)
            if shape.shared_bytes:
                yield self.text("shared", bytes=shape.shared_bytes)

    def _memory(self, kind: MemoryKind) -> str:
        return self.text(f"memory.{kind.name.lower()}")

    def _range(self, facts: TimelineFacts, row: int, told: ReadOut) -> Iterable[str]:
        projection = facts.projection
        if projection.ops[row]:
            if projection.kernels[row]:
                yield self.text("launched", kernels=int(projection.kernels[row]))
            else:
                yield self.text("launched_ops", ops=int(projection.ops[row]))
            yield self.text("projected", time=int(projection.duration[row]))
        elif len(facts.timeline.ops):
            yield self.text("launches_nothing")
        yield self._thread(facts, told.thread)
        if told.domain:
            yield self.text("domain", domain=shown(told.domain, 40))

    def _call(self, facts: TimelineFacts, row: int) -> Iterable[str]:
        ops = facts.timeline.ops
        launched = np.flatnonzero(ops.call == row)
        if len(launched):
            first = int(launched[0])
            yield self.text("call_launched", name=shown(self._name_of(facts, "ops", int(ops.name[first])), 80))
            yield self.text("call_latency", latency=int(ops.start[first] - facts.timeline.calls.start[row]))

    def _thread(self, facts: TimelineFacts, thread: int) -> str:
        threads = facts.timeline.threads
        if not 0 <= thread < len(threads):
            return ""
        one = threads[thread]
        return self.text("thread", thread=f"{shown(one.name, 40)} {one.tid}".strip())

    def _ordinal(self, facts: TimelineFacts, gpu: int) -> int:
        gpus = facts.timeline.gpus
        return gpus[gpu].ordinal if 0 <= gpu < len(gpus) else 0

    def _gap(self, facts: TimelineFacts, lane: Lane, row: int, told: ReadOut) -> Iterable[str]:
        """What the thread that launched the next operation did in an idle time of its GPU."""
        timeline = facts.timeline
        after = after_gap(facts, told.gpu, told.start_ns, told.end_ns)
        if after.thread >= 0:
            story = meanwhile(facts, after.thread, told.start_ns, told.end_ns)
            spent = [
                (share, self.text("in_call", name=shown(timeline.name(name), 60), share=100 * share))
                for name, share in story.calls[:_SHOWN_CALLS]
            ]
            spent.append((story.outside, self._outside(facts, story)))
            spent.sort(key=lambda one: -one[0])
            said = [text for share, text in spent if share >= _LEAST_SHARE]
            self._story = [f"{self._meanwhile(facts, after.thread)} {said[0]}", *said[1:]] if said else []
        if after.op >= 0:
            yield self.text("then", name=shown(self._name_of(facts, "ops", int(timeline.ops.name[after.op])), 80))
        steady = steady_gaps(facts, lane.start, lane.end)
        is_steady = bool(steady[lane.place_of(row)])
        beside = steady if is_steady else ~steady
        longer = int(np.count_nonzero((lane.end - lane.start > told.duration_ns) & beside))
        key = "idle_rank" if is_steady else "idle_rank_other"
        yield self.text(key, rank=longer + 1, count=int(np.count_nonzero(beside)))
        if not is_steady:
            self._when = self.text("warm_up" if told.start_ns < facts.window.start_ns else "after_steady")
        if after.path:
            self._around = self._inside(after.path)

    def _meanwhile(self, facts: TimelineFacts, thread: int) -> str:
        one = facts.timeline.threads[thread]
        return self.text("meanwhile", thread=f"{shown(one.name, 40)} {one.tid}".strip())

    def _outside(self, facts: TimelineFacts, story: Meanwhile) -> str:
        """How long the thread was in no CUDA call, and which call of the operating system took most of that."""
        waits = [(name, share) for name, share in story.waits[:1] if share >= _LEAST_SHARE]
        if not waits:
            return self.text("outside", share=100 * story.outside)
        name, share = waits[0]
        return self.text(
            "outside_in", share=100 * story.outside, name=shown(facts.timeline.name(name), 60), part=100 * share
        )

    @staticmethod
    def _name_of(facts: TimelineFacts, table: Table, name: int) -> str:
        """Of a kernel its short name."""
        return facts.short_name(name) if table == "ops" else facts.timeline.name(name)

    # -------------------------------------------------------------- which names take the time in view

    def _ranking(
        self, facts: TimelineFacts, lane: Lane, stand: Stand, step_ns: float, width: int, height: int, ascii: bool
    ) -> Iterable[Line]:
        """A line a name that is in view in the cursor's lane: its share of the window, its time, how many there are."""
        if lane.table == "counters":
            return
        parts = in_view(facts, lane, stand.start_ns, stand.end_ns, height - 1)
        title = shown(lane.full_title, 80)
        if parts is None:
            yield [(self.text("too_many", count=MOST_IN_VIEW), "faint")]
            return
        key = "gaps_in_view" if lane.table == "gaps" else "in_view"
        yield [(shorten_middle(self.text(key, lane=title), width), "label-word")]
        if lane.table == "gaps":
            parts = tuple(part for part in parts if part.total_ns >= _LEAST_GAP * stand.span_ns)
        most = max((part.total_ns for part in parts), default=1)
        for part in parts:
            share = 100 * part.total_ns / stand.span_ns
            line: list[Segment] = [
                (bar(part.total_ns, most, min(16, width // 8), ascii=ascii), "bar"),
                (fit(units.share(share), 6, right=True), "number"),
                (fit(units.duration(part.total_ns), 10, right=True), "number"),
                ("  ", ""),
            ]
            if lane.table == "gaps":
                start, end = int(lane.start[part.place]), int(lane.end[part.place])
                line.append((self.text("starts", at=_moment(start, step_ns)), "muted"))
                line.append(("  ", ""))
                text = " / ".join(shown(name, 80) for name in after_gap(facts, lane.gpu, start, end).path)
            else:
                count = self.text("times", count=part.count)
                line.append((fit(count, 8, right=True), "muted"))
                line.append((fit(self.text("each", time=part.total_ns / part.count), 15, right=True), "muted"))
                line.append(("  ", ""))
                text = shown(self._name_of(facts, lane.table, part.name), 400)
            yield [*line, (shorten_middle(text, max(8, width - line_width(line))), "")]

    # -------------------------------------------------------------- what is measured, what is in view

    def _measured(self, facts: TimelineFacts, lane: Lane, stand: Stand, ascii: bool) -> list[Segment]:
        span = stand.measured
        if span is None:
            return []
        start, end = span
        key = "dragged" if stand.mark_a is None else "measure_to" if stand.mark_b is None else "measure_ab"
        length = end - start
        delta = _moment(length, length / 10_000)
        starts = facts.timeline.ops.start
        count = int(np.searchsorted(starts, end) - np.searchsorted(starts, start))
        said = [self.text(key), *self._busy(facts, lane, start, end), self.text("ops", count=count)]
        sign = "delta" if ascii else "Δ"
        return [(f"{sign} {delta}", "tl-measure"), ("   ", ""), (self.signs.separator.join(said), "muted")]

    def _view(
        self, facts: TimelineFacts, lane: Lane, stand: Stand, step_ns: float, width: int, place: tuple[int, int],
        matches: int | None,
    ) -> Line:  # fmt: skip
        timeline = facts.timeline
        view = self.text(
            "view",
            start=_moment(stand.start_ns, step_ns),
            end=_moment(stand.end_ns, step_ns),
        )
        zero = self.text(f"zero.{clock_kind(timeline)}", file=clock_file(timeline))
        said = [
            *self._busy(facts, lane, stand.start_ns, stand.end_ns, "view_busy"),
            view,
            self.text("cursor", at=_moment(stand.cursor_ns, step_ns)),
            *([self.text("bookmarks", count=len(stand.bookmarks))] if stand.bookmarks else []),
            self.text("part", span=stand.span_ns, whole=timeline.span_ns),
            *([zero] if len(timeline.files) > 1 else []),
            self.text("lanes", lane=place[0] + 1, count=place[1]),
        ]
        if matches is not None:
            said.insert(0, self.text("matches", count=matches))
        if len(timeline.files) == 1:
            said.append(zero)
        return self._joined(said, width, 1)[0]

    def _busy(self, facts: TimelineFacts, lane: Lane, start: int, end: int, key: str = "busy") -> Iterable[str]:
        """How busy the lane's GPU was, or the first one where the lane is of none."""
        gpu = lane.gpu if lane.gpu in facts.busy else next(iter(facts.gpus), None)
        if gpu is not None and end > start:
            share = 100 * facts.busy[gpu].length_in(start, end) / (end - start)
            if len(facts.gpus) > 1:
                yield self.text(key, number=self._ordinal(facts, gpu), share=share)
            else:
                yield self.text(f"{key}_one", share=share)

    def _hint(self) -> list[Segment]:
        """The keys that matter most, until one of them has been used."""
        line: list[Segment] = []
        for ids in _HINTS:
            keys = " ".join(actions.BY_ID[id].footer_key() for id in ids)
            line += [(keys, "key"), (f" {self.text(f'hint.{ids[0]}')}   ", "muted")]
        return line

    def _joined(self, parts: list[str], width: int, most: int) -> list[Line]:
        """As many of the parts as fit on so many lines, the first in any case; one line at least."""
        lines: list[list[Segment]] = [[]]
        for number, part in enumerate(parts):
            text = self.signs.separator + part if lines[-1] else part
            if lines[-1] and line_width(lines[-1]) + width_of(text) > width:
                if len(lines) == most:
                    break
                lines.append([])
                text = part
            lines[-1].append((fit(text, min(width, width_of(text))), "number" if number == 0 else "muted"))
        return list(lines)


def _moment(ns: int, resolution_ns: float) -> str:
    """A time with the digits that tell apart what lies ``resolution_ns`` apart."""
    return units.moment(ns, 10 ** max(0, floor(log10(max(resolution_ns, 1.0)))), ns)
