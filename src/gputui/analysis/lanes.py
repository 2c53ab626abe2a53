"""The lanes of the timeline pane: rows of events that do not overlap, in the order in which they stand.

A lane knows what a frame needs and nothing of how it looks: how much of each cell of time each class of its events
covers, and which event lies where. Everything is a search in sorted columns, so that a frame costs the same for a
thousand events and for ten million.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from gputui import units
from gputui.analysis.kernel_names import identify
from gputui.model.cover import Cover
from gputui.model.intervals import Ns, levels
from gputui.model.kernel import function_name
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Counter,
    Events,
    GpuOps,
    Ids,
    LaunchShape,
    MemoryKind,
    OpKind,
    RangeKind,
    Ranges,
    Timeline,
)

if TYPE_CHECKING:
    from gputui.analysis.timeline import TimelineFacts

LaneKind = Literal[
    "nvtx", "start-end", "marks", "idle", "stream", "nccl", "graph", "copy", "memset", "api", "os", "counter"
]
Table = Literal["ranges", "ops", "calls", "os_calls", "gaps", "counters"]
Extra = Literal["api", "os", "counters"]
Classes = npt.NDArray[np.uint8]

KERNEL_CLASSES = ("gemm", "attention", "norm", "elementwise", "optimizer", "copy-kernel", "comm", "other")
"""What kernels are told apart by: the operation classes, as few as colours can show."""
_KERNEL_CLASS_OF = {
    "gemm": "gemm", "gemv": "gemm", "conv": "gemm", "attention": "attention", "softmax": "attention", "norm": "norm",
    "reduction": "norm", "loss": "norm", "elementwise": "elementwise", "random": "elementwise", "copy": "copy-kernel",
    "transpose": "copy-kernel", "embedding": "copy-kernel", "optimizer": "optimizer", "communication": "comm",
}  # fmt: skip
TRANSFER_CLASSES = ("h2d", "d2h", "d2d", "p2p", "memset")
_TRANSFER_CLASS_OF = {
    CopyKind.HOST_TO_DEVICE: "h2d", CopyKind.HOST_TO_ARRAY: "h2d", CopyKind.UNIFIED_HOST_TO_DEVICE: "h2d",
    CopyKind.DEVICE_TO_HOST: "d2h", CopyKind.ARRAY_TO_HOST: "d2h", CopyKind.UNIFIED_DEVICE_TO_HOST: "d2h",
    CopyKind.PEER_TO_PEER: "p2p",
}  # fmt: skip
_TRANSFER_TITLES = {"h2d": "H→D", "d2h": "D→H", "d2d": "D→D", "p2p": "peer", "memset": "memset"}
OP_CLASSES = (*KERNEL_CLASSES, "graph", *TRANSFER_CLASSES)
CALL_CLASSES = ("api-launch", "api-sync", "api-memcpy", "api-alloc", "api-other")
OS_CLASSES = ("os-wait", "os")
RANGE_CLASSES: tuple[str, ...] = ("nvtx-0", "nvtx-1", "nvtx-2", "nvtx-3", "nvtx-4", "nvtx-5")
_CALLS = (
    (r"cu(da)?(Graph)?Launch", "api-launch"),
    (r"cu\w*Synchronize", "api-sync"),
    (r"cu\w*Mem(cpy|set)", "api-memcpy"),
    (r"cu\w*(Malloc|Free|(Mem|Host)Alloc|Host(Unr|R)egister|Mem(Create|Map|Unmap|Release))", "api-alloc"),
)
_WAITS = re.compile(r"poll|select|wait|sleep|futex|sem_|_join|_lock|pause|yield", re.IGNORECASE)
_TITLE_CELLS = 12
_MOST_CLASSIFIED = 4096
"""Kernel names that are looked at one by one; a file of more different ones shows the rest as "other"."""
_DIGITS = str.maketrans("", "", "0123456789")


_T = TypeVar("_T", bound=np.generic)


def _column(column: npt.NDArray[_T], rows: Ids) -> npt.NDArray[_T]:
    """``column[rows]``, without a copy where those are all rows in their order."""
    if len(rows) == len(column) and (rows[1:] > rows[:-1]).all():
        return column
    picked: npt.NDArray[_T] = column[rows]
    return picked


class Lane:
    """One row of events that do not overlap, sorted by start.

    ``row`` counts in the table of the timeline that ``table`` names (``"gaps"``: in this lane itself). ``classes`` are
    those of its events. ``level`` is its place among the sub-lanes of what overlaps or nests, ``hidden`` how many
    deeper ones are not shown below it. The arrays are made at the first question.
    """

    def __init__(
        self,
        timeline: Timeline,
        kind: LaneKind,
        table: Table,
        title: str,
        full_title: str,
        rows: Ids,
        events: Events,
        class_of: Classes,
        class_names: Sequence[str],
        *,
        gpu: int = -1,
        thread: int = -1,
        level: int = 0,
        hidden: int = 0,
    ) -> None:
        self._timeline = timeline
        self.kind = kind
        self.table = table
        self.title = title
        self.full_title = full_title
        self._given = rows
        self.gpu = gpu
        self.thread = thread
        self.level = level
        self.hidden = hidden
        self._events = events
        self._class_of = class_of
        self._class_names = class_names

    def __len__(self) -> int:
        return len(self._given)

    def __repr__(self) -> str:
        return f"<Lane {self.title!r} {self.level} of {len(self)} {self.table}>"

    @cached_property
    def _sorted(self) -> tuple[Ids, Ns, Ns]:
        rows = self._given
        start = _column(self._events.start, rows)
        end = np.maximum(_column(self._events.end, rows), start)
        # Where one without duration begins with another, it comes first: the last that began is the one that goes on.
        if ((start[1:] == start[:-1]) & (end[1:] < end[:-1])).any():
            order = np.lexsort((end, start))
            rows, start, end = rows[order], start[order], end[order]
        return rows, start, end

    @property
    def rows(self) -> Ids:
        """The rows of its events in the table, in the order of ``start``."""
        return self._sorted[0]

    @property
    def start(self) -> Ns:
        return self._sorted[1]

    @property
    def end(self) -> Ns:
        return self._sorted[2]

    def pick(self, column: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """A column of the lane's table (or a mask over it) at the lane's events."""
        return _column(column, self.rows)

    def prepare(self) -> None:
        """Make the arrays that the first frame needs."""
        _ = self._cover, self.instants

    # -------------------------------------------------------------- how much of the time

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes of its events."""
        return tuple(self._class_names[one] for one in self._found)

    @cached_property
    def _of(self) -> Classes:
        return self.pick(self._class_of)

    @cached_property
    def _found(self) -> list[int]:
        found: list[int] = np.flatnonzero(np.bincount(self._of)).tolist()
        return found

    @cached_property
    def _cover(self) -> Cover:
        if self._found == list(range(len(self._found))):
            return Cover(self.start, self.end, self._of, len(self._found))
        place = np.zeros(len(self._class_names), dtype=np.uint8)
        place[self._found] = np.arange(len(self._found), dtype=np.uint8)
        return Cover(self.start, self.end, place[self._of], len(self._found))

    def cover(self, edges: Ns) -> Ns:
        """Per class of ``classes`` and cell ``[edges[i], edges[i + 1])``: how many ns of it the class covers. Exact."""
        return self._cover.within(edges)

    @cached_property
    def instants(self) -> Ns:
        """When the events without any duration are: they cover nothing, and are to be seen."""
        at: Ns = self.start[self.end == self.start]
        return at

    # -------------------------------------------------------------- which event

    def row_at(self, time_ns: int) -> int | None:
        """The event at this time."""
        place = int(np.searchsorted(self.start, time_ns, side="right")) - 1
        if place >= 0 and (time_ns < self.end[place] or time_ns == self.start[place]):
            return int(self.rows[place])
        return None

    def row_after(self, time_ns: int) -> int | None:
        """The next event that begins after this time."""
        place = int(np.searchsorted(self.start, time_ns, side="right"))
        return int(self.rows[place]) if place < len(self) else None

    def row_before(self, time_ns: int) -> int | None:
        """The last event that begins before this time."""
        place = int(np.searchsorted(self.start, time_ns, side="left")) - 1
        return int(self.rows[place]) if place >= 0 else None

    def rows_in(self, start_ns: int, end_ns: int) -> Ids:
        """The events that overlap ``[start_ns, end_ns)``."""
        first = int(np.searchsorted(self.start, start_ns, side="right")) - 1
        if first < 0 or (self.end[first] <= start_ns and self.start[first] < start_ns):
            first += 1
        return self.rows[first : int(np.searchsorted(self.start, end_ns, side="left"))]

    def has(self, row: int) -> bool:
        return self.place_of(row) is not None

    def place_of(self, row: int) -> int | None:
        """Where in this lane the event of the table's ``row`` is."""
        if not 0 <= row < len(self._events):
            return None
        time = self._events.start[row]
        first, last = np.searchsorted(self.start, time, side="left"), np.searchsorted(self.start, time, side="right")
        found = np.flatnonzero(self.rows[first:last] == row)
        return int(first + found[0]) if len(found) else None

    def span(self, row: int) -> tuple[int, int]:
        """Start and end in ns. ``KeyError`` where the lane does not hold the row."""
        place = self.place_of(row)
        if place is None:
            raise KeyError(row)
        return int(self.start[place]), int(self.end[place])

    def longest_row(self) -> int | None:
        return int(self.rows[np.argmax(self.end - self.start)]) if len(self) else None

    def filling(self, edges: Ns) -> Ns:
        """The places in this lane of the events that fill a whole cell ``[edges[i], edges[i + 1])``."""
        places = np.searchsorted(self.start, edges[:-1], side="right") - 1
        fills = (places >= 0) & (self.end[places] >= edges[1:])
        found: Ns = np.unique(places[fills])
        return found

    def first_in(self, edges: Ns) -> Ns:
        """Per cell the place in this lane of the first event that begins in it; -1 where none does."""
        places = np.searchsorted(self.start, edges, side="left")
        found: Ns = np.where(places[1:] > places[:-1], places[:-1], -1)
        return found

    def label(self, place: int) -> str:
        """What to write on the event at a place of this lane: a kernel's short name, the size of a copy."""
        row, timeline = int(self.rows[place]), self._timeline
        if self.kind in ("copy", "memset"):
            size = _size(timeline, int(timeline.ops.detail[row]))
            return "" if size is None else units.size(size)
        name = int(self._events.name[row])
        return timeline.short_names.get(name) or (
            function_name(timeline.name(name)) if self.table == "ops" else timeline.name(name)
        )


class CounterLane(Lane):
    """A sampled value. Each sample holds until the next; what it covers of a cell is its mean against ``scale``."""

    def __init__(self, timeline: Timeline, counter: Counter, title: str, full_title: str) -> None:
        self.counter = counter
        time = counter.time
        end = np.append(time[1:], time[-1:] + int(np.median(np.diff(time))) if len(time) > 1 else time + 1)
        rows = np.arange(len(time), dtype=np.int32)
        nameless = np.full(len(time), -1, dtype=np.int32)
        events = Events(start=time, end=end, name=nameless)
        kinds = np.zeros(len(time), dtype=np.uint8)
        super().__init__(
            timeline, "counter", "counters", title, full_title, rows, events, kinds, ("counter",), gpu=counter.gpu
        )
        values = np.nan_to_num(counter.value, nan=0.0, posinf=0.0, neginf=0.0)
        self.scale = 100.0 if "%" in counter.unit or "%" in counter.name else float(values.max(initial=0.0)) or 1.0
        self._level = np.clip(values / self.scale, 0.0, 1.0)
        self._before = np.concatenate(([0.0], np.cumsum(self._level * (self.end - self.start))))

    def cover(self, edges: Ns) -> Ns:
        place = np.searchsorted(self.start, edges, side="right") - 1
        held = np.maximum(place, 0)
        inside = np.clip(edges - self.start[held], 0, self.end[held] - self.start[held]) * self._level[held]
        sums = np.where(place < 0, 0.0, self._before[held] + inside)
        return np.rint(np.diff(sums)).astype(np.int64)[np.newaxis]


# ------------------------------------------------------------------ the lanes of a timeline


def lanes(
    facts: TimelineFacts, *, extra: Collection[Extra] = (), range_depth: int = 4, ranges_above: int = 8
) -> list[Lane]:
    """The lanes of the pane, from top to bottom; none is empty.

    Per file: NVTX ranges by thread and domain, then per GPU its idle time, streams, NCCL kernels, whole graphs and
    copies. Then the NVTX lanes beyond ``ranges_above`` a pane, and the ``extra`` ones: API calls and operating-system
    calls by thread, sampled counters. Of several streams, threads and domains the busiest comes first; ranges of the
    default domain come before those of libraries. ``range_depth`` levels of nested ranges are shown.
    """
    return _Builder(facts, range_depth, ranges_above).build(extra)


def lane_of(lanes: Sequence[Lane], table: Table, row: int) -> int | None:
    """The place among ``lanes`` of the one that shows a row of a table."""
    return next((place for place, lane in enumerate(lanes) if lane.table == table and lane.has(row)), None)


class _Builder:
    def __init__(self, facts: TimelineFacts, range_depth: int, ranges_above: int) -> None:
        self.facts = facts
        self.timeline: Timeline = facts.timeline
        self.files = sorted({gpu.file for gpu in self.timeline.gpus} | {one.file for one in self.timeline.processes})
        self.above = max(1, ranges_above // max(1, len(self.files)))
        self.depth = max(1, min(range_depth, self.above))

    def build(self, extra: Collection[Extra]) -> list[Lane]:
        made: list[Lane] = []
        below: list[Lane] = []
        ranges = self._range_groups()
        gpus = self._gpu_lanes()
        for file in self.files or [0]:
            shown = 0
            for group in (one for one in ranges if self._file_of(one[0].thread) == file):
                fits = shown == 0 or shown + len(group) <= self.above
                (made if fits else below).extend(group)
                shown += len(group)
            made += (lane for lane in gpus if self.timeline.gpus[lane.gpu].file == file)
        made += below
        if "api" in extra:
            made += self._call_lanes("api", "calls", self.timeline.calls, _CALLS, CALL_CLASSES)
        if "os" in extra:
            made += self._call_lanes(
                "os", "os_calls", self.timeline.os_calls, ((_WAITS.pattern, "os-wait"),), OS_CLASSES
            )
        if "counters" in extra:
            made += (self._counter_lane(counter) for counter in self.timeline.counters if len(counter.time))
        return made

    def _file_of(self, thread: int) -> int:
        if not 0 <= thread < len(self.timeline.threads):
            return self.files[0] if self.files else 0
        return self.timeline.processes[self.timeline.threads[thread].process].file

    # -------------------------------------------------------------- titles

    def _prefix(self, file: int, gpu: int = -1) -> str:
        """What tells files and GPUs apart where there are several: ``r0``, ``g1``, ``r0g1``; else nothing."""
        words = ""
        if len(self.files) > 1:
            rank = next(
                (one.rank for one in self.timeline.processes if one.file == file and one.rank is not None), None
            )
            words += f"f{file}" if rank is None else f"r{rank}"
        if gpu >= 0 and sum(self.timeline.gpus[one].file == file for one in self.facts.gpus) > 1:
            words += f"g{self.timeline.gpus[gpu].ordinal}"
        return words

    def _gpu_title(self, gpu: int, long: str, short: str = "", name: str = "") -> tuple[str, str]:
        device = self.timeline.gpus[gpu]
        prefix = self._prefix(device.file, gpu)
        title = f"{prefix} {long}".strip()
        if len(title) > _TITLE_CELLS and short:
            title = f"{prefix} {short}".strip()
        words = (self._prefix(device.file), long, name, f"GPU {device.ordinal} {device.device.name}".rstrip())
        return title, " · ".join(word for word in words if word)

    def _thread_title(self, thread: int, word: str, alone: bool) -> tuple[str, str]:
        threads, processes = self.timeline.threads, self.timeline.processes
        if not 0 <= thread < len(threads):
            return word, word
        one = threads[thread]
        process = processes[one.process]
        among = {two.process for two in threads if processes[two.process].file == process.file}
        label = "main" if one.tid == process.pid else one.name or str(one.tid)
        if len(among) > 1:
            label = str(one.tid)
        title = " ".join(part for part in (self._prefix(process.file), word, "" if alone else label) if part)
        words = (self._prefix(process.file), word, f"{one.name} {one.tid}", f"{process.name} {process.pid}")
        return title, " · ".join(part.strip() for part in words if part.strip())

    # -------------------------------------------------------------- NVTX

    def _range_groups(self) -> list[list[Lane]]:
        """The lanes of each thread and domain, one list a group; the most important group first."""
        ranges = self.timeline.ranges
        if not len(ranges):
            return []
        class_of = range_classes(self.timeline)[ranges.name]
        foreign = ranges.end_thread != ranges.thread
        nested = np.flatnonzero((ranges.kind == RangeKind.PUSH_POP) & ~foreign)
        loose = np.flatnonzero((ranges.kind != RangeKind.MARK) & ((ranges.kind == RangeKind.START_END) | foreign))
        marks = np.flatnonzero(ranges.kind == RangeKind.MARK)
        parts: list[tuple[LaneKind, Ids]] = []
        parts += (("nvtx", rows) for rows in _split(self._range_keys(ranges, nested), nested))
        parts += (("start-end", rows) for rows in _split(self._range_keys(ranges, loose), loose))
        parts += (("marks", rows) for rows in _split(self._range_keys(ranges, marks), marks))
        alone = len({int(ranges.thread[rows[0]]) for _, rows in parts}) == 1
        order = {"nvtx": 0, "start-end": 1, "marks": 2}

        def importance(part: tuple[LaneKind, Ids]) -> tuple[bool, int, int]:
            kind, rows = part
            top = rows[ranges.depth[rows] == 0]
            own = int(ranges.domain[rows[0]]) < 0
            return not own, order[kind], -int((ranges.end[top] - ranges.start[top]).sum())

        return [self._range_lanes(kind, rows, ranges, class_of, alone) for kind, rows in sorted(parts, key=importance)]

    def _range_keys(self, ranges: Ranges, rows: npt.NDArray[Any]) -> Ns:
        keys: Ns = ranges.thread[rows].astype(np.int64) * (len(self.timeline.names) + 2) + ranges.domain[rows] + 1
        return keys

    def _range_lanes(self, kind: LaneKind, rows: Ids, ranges: Ranges, class_of: Classes, alone: bool) -> list[Lane]:
        thread, domain = int(ranges.thread[rows[0]]), self.timeline.name(int(ranges.domain[rows[0]]))
        word = {"nvtx": domain or "nvtx", "start-end": domain or "ranges", "marks": "marks"}[kind]
        title, full = self._thread_title(thread, word, alone)
        if kind == "nvtx":
            level = ranges.depth[rows]
        elif kind == "start-end":
            level = levels(ranges.start[rows], ranges.end[rows])
        else:
            level = np.zeros(len(rows), dtype=np.int16)
        deepest = int(level.max(initial=0))
        shown = min(self.depth, deepest + 1)
        names = RANGE_CLASSES
        if kind == "marks":
            class_of, names = np.zeros(len(ranges), dtype=np.uint8), ("mark",)
        return [
            Lane(
                self.timeline, kind, "ranges", title, full, rows[level == one], ranges, class_of, names,
                thread=thread, level=one, hidden=deepest + 1 - shown if one == shown - 1 else 0,
            )
            for one in range(shown)
            if (level == one).any()
        ]  # fmt: skip

    # -------------------------------------------------------------- GPUs

    def _gpu_lanes(self) -> list[Lane]:
        """The lanes of all GPUs, those of each in their order."""
        timeline, ops = self.timeline, self.timeline.ops
        if not len(ops):
            return []
        class_of = op_classes(timeline)
        streams, gpus = len(timeline.streams), len(timeline.gpus)
        # One number a group: streams by their own, then per GPU one for each class that has a lane of its own.
        own = ("comm", "graph", *TRANSFER_CLASSES)
        slot = np.full(len(OP_CLASSES), -1, dtype=np.int32)
        slot[[OP_CLASSES.index(one) for one in own]] = np.arange(len(own), dtype=np.int32)
        of = slot[class_of]
        group = np.where(of < 0, ops.stream, streams + self.facts.op_gpu * len(own) + of).astype(np.int32)
        by_gpu: list[list[tuple[tuple[int, int], list[Lane]]]] = [[] for _ in range(gpus)]
        for rows in _split(group, None):
            number = int(group[rows[0]])
            if number < streams:
                stream = timeline.streams[number]
                gpu, rank = stream.gpu, 0
                titles = self._gpu_title(gpu, f"stream {stream.number}", f"s{stream.number}", stream.name)
                kind: LaneKind = "stream"
            else:
                gpu, place = divmod(number - streams, len(own))
                rank = 1 + place
                kind, word = _own_lane(own[place])
                titles = self._gpu_title(gpu, word, _TRANSFER_TITLES.get(own[place], ""))
            made = list(_stacked(timeline, kind, "ops", titles, rows, ops, class_of, OP_CLASSES, gpu=gpu))
            busy = int((ops.end[rows] - ops.start[rows]).sum())
            by_gpu[gpu].append(((rank, -busy), made))
        found: list[Lane] = []
        for gpu, groups in enumerate(by_gpu):
            if groups:
                found += self._idle_lane(gpu)
                for _, made in sorted(groups, key=lambda one: one[0]):
                    found += made
        return found

    def _idle_lane(self, gpu: int) -> Iterator[Lane]:
        """When nothing ran on the GPU, between the first of its operations and the last."""
        busy = self.facts.busy[gpu]
        if len(busy) < 2:
            return
        rows = np.arange(len(busy) - 1, dtype=np.int32)
        events = Events(start=busy.end[:-1], end=busy.start[1:], name=np.full(len(rows), -1, dtype=np.int32))
        kinds = np.zeros(len(rows), dtype=np.uint8)
        title, full = self._gpu_title(gpu, "idle")
        yield Lane(self.timeline, "idle", "gaps", title, full, rows, events, kinds, ("idle",), gpu=gpu)

    # -------------------------------------------------------------- on demand

    def _call_lanes(
        self, kind: LaneKind, table: Table, calls: Calls, patterns: Sequence[tuple[str, str]], classes: Sequence[str]
    ) -> Iterator[Lane]:
        class_of = _classes_by_name(self.timeline.names, calls.name, patterns, classes)[calls.name]
        parts = _split(calls.thread, None)
        busiest = sorted(parts, key=lambda rows: -int((calls.end[rows] - calls.start[rows]).sum()))
        for rows in busiest:
            thread = int(calls.thread[rows[0]])
            titles = self._thread_title(thread, kind, len(parts) == 1)
            yield from _stacked(self.timeline, kind, table, titles, rows, calls, class_of, classes, thread=thread)

    def _counter_lane(self, counter: Counter) -> Lane:
        title, full = self._gpu_title(counter.gpu, counter.name)
        return CounterLane(self.timeline, counter, title, full)


def _own_lane(of_class: str) -> tuple[LaneKind, str]:
    if of_class == "comm":
        return "nccl", "nccl"
    if of_class in ("graph", "memset"):
        return ("graph", "graphs") if of_class == "graph" else ("memset", "memset")
    return "copy", f"copy {_TRANSFER_TITLES[of_class]}"


def _stacked(
    timeline: Timeline,
    kind: LaneKind,
    table: Table,
    titles: tuple[str, str],
    rows: Ids,
    events: Events,
    class_of: Classes,
    class_names: Sequence[str],
    *,
    gpu: int = -1,
    thread: int = -1,
) -> Iterator[Lane]:
    """The lane of these events, or several where some overlap."""
    level = levels(_column(events.start, rows), _column(events.end, rows))
    deepest = int(level.max(initial=0))
    for one in range(deepest + 1):
        own = rows if deepest == 0 else rows[level == one]
        yield Lane(
            timeline, kind, table, *titles, own, events, class_of, class_names, gpu=gpu, thread=thread, level=one
        )


def _split(keys: npt.NDArray[Any], rows: npt.NDArray[Any] | None) -> list[Ids]:
    """``rows`` (by default all) with the same key together, in their order; the keys' order is theirs."""
    if not len(keys):
        return []
    if rows is None:
        rows = np.arange(len(keys), dtype=np.int32)
    if keys.min() == keys.max():
        return [rows.astype(np.int32)]
    if keys.max() < 1 << 16 and keys.min() >= 0:
        # numpy sorts two bytes by radix: ten times faster.
        keys = keys.astype(np.uint16)
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return [one.astype(np.int32) for one in np.split(rows[order], cuts)]


# ------------------------------------------------------------------ classes


def op_classes(timeline: Timeline) -> Classes:
    """Per operation its place in ``OP_CLASSES``."""
    ops = timeline.ops
    found = np.full(len(ops), OP_CLASSES.index("other"), dtype=np.uint8)
    kernels = ops.kind == OpKind.KERNEL
    found[kernels] = _kernel_classes(timeline, ops, kernels)[ops.name[kernels]]
    found[ops.kind == OpKind.GRAPH] = OP_CLASSES.index("graph")
    found[ops.kind == OpKind.MEMSET] = OP_CLASSES.index("memset")
    copies = np.flatnonzero(ops.kind == OpKind.COPY)
    if len(copies):
        by_kind = np.full(256, OP_CLASSES.index("d2d"), dtype=np.uint8)
        for kind, name in _TRANSFER_CLASS_OF.items():
            by_kind[kind] = OP_CLASSES.index(name)
        detail = ops.detail[copies]
        known = detail >= 0
        found[copies] = OP_CLASSES.index("d2d")
        found[copies[known]] = by_kind[timeline.transfers.kind[detail[known]]]
    return found


def _kernel_classes(timeline: Timeline, ops: GpuOps, kernels: npt.NDArray[np.bool_]) -> Classes:
    """Per name its place in ``OP_CLASSES``, for the names of kernels."""
    found = np.full(max(1, len(timeline.names)), OP_CLASSES.index("other"), dtype=np.uint8)
    if not kernels.any():
        return found
    times = np.bincount(ops.name[kernels], weights=ops.duration[kernels] + 1, minlength=len(found))
    used = np.argsort(-times, kind="stable")[: min(_MOST_CLASSIFIED, int((times > 0).sum()))]
    for place in used.tolist():
        name = timeline.name(place)
        found[place] = OP_CLASSES.index(_KERNEL_CLASS_OF.get(identify(name, name).op_class, "other"))
    return found


def range_classes(timeline: Timeline) -> Classes:
    """Per name its place in ``RANGE_CLASSES``: the names that take most time differ, numbers in a name do not count."""
    ranges = timeline.ranges
    found = np.zeros(max(1, len(timeline.names)), dtype=np.uint8)
    times = np.bincount(ranges.name, weights=ranges.duration + 1, minlength=len(found))
    by_word: dict[str, float] = {}
    words = {place: timeline.name(place).translate(_DIGITS) for place in np.flatnonzero(times).tolist()}
    for place, word in words.items():
        by_word[word] = by_word.get(word, 0.0) + float(times[place])
    rank = {word: number for number, word in enumerate(sorted(by_word, key=lambda word: (-by_word[word], word)))}
    for place, word in words.items():
        found[place] = rank[word] % len(RANGE_CLASSES)
    return found


def _classes_by_name(
    names: Sequence[str], used: Ids, patterns: Sequence[tuple[str, str]], classes: Sequence[str]
) -> Classes:
    """Per name its place in ``classes``, by the first of ``patterns`` that is found in it, else the last class."""
    found = np.full(max(1, len(names)), len(classes) - 1, dtype=np.uint8)
    compiled = [(re.compile(pattern, re.IGNORECASE), classes.index(name)) for pattern, name in patterns]
    for place in np.flatnonzero(np.bincount(used, minlength=len(found))).tolist():
        name = names[place]
        found[place] = next((number for pattern, number in compiled if pattern.search(name)), len(classes) - 1)
    return found


# ------------------------------------------------------------------ some of the events


class Lit:
    """Some events of a table: the launches of the selected kernel, or what a search found."""

    def __init__(self, table: Table, events: Events, mask: npt.NDArray[np.bool_]) -> None:
        self.table = table
        self._events = events
        self._mask = mask
        self._of_lane: dict[Lane, Cover | None] = {}

    @classmethod
    def of_names(cls, facts: TimelineFacts, table: Table, names: Collection[int]) -> Lit:
        """The events with one of these names, which are places in ``Timeline.names``."""
        events = table_of(facts.timeline, table)
        wanted = np.zeros(max(1, len(facts.timeline.names)), dtype=bool)
        wanted[list(names)] = True
        return cls(table, events, wanted[events.name])

    @classmethod
    def of_rows(cls, facts: TimelineFacts, table: Table, rows: Sequence[int] | npt.NDArray[Any]) -> Lit:
        """These rows, or those where a mask is true."""
        events = table_of(facts.timeline, table)
        mask = np.zeros(len(events), dtype=bool)
        mask[np.asarray(rows, dtype=None if len(rows) else np.int64)] = True
        return cls(table, events, mask)

    @cached_property
    def rows(self) -> Ids:
        return np.flatnonzero(self._mask).astype(np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, row: int) -> bool:
        return bool(self._mask[row])

    def row_after(self, time_ns: int) -> int | None:
        """The next of them that begins after this time."""
        rows = self.rows
        place = int(np.searchsorted(self._starts, time_ns, side="right"))
        return int(rows[place]) if place < len(rows) else None

    def row_before(self, time_ns: int) -> int | None:
        """The last of them that begins before this time."""
        place = int(np.searchsorted(self._starts, time_ns, side="left")) - 1
        return int(self.rows[place]) if place >= 0 else None

    @cached_property
    def _starts(self) -> Ns:
        return _column(self._events.start, self.rows)

    def within(self, lane: Lane, edges: Ns) -> Ns | None:
        """How many ns of each cell they cover in a lane, ``None`` where it has none of them.

        Those without any duration count as 1 ns long.
        """
        if lane.table != self.table:
            return None
        if lane not in self._of_lane:
            mask = lane.pick(self._mask)
            end = np.maximum(lane.end, lane.start + 1) if len(lane.instants) else lane.end
            self._of_lane[lane] = Cover(lane.start, end, mask.view(np.uint8), 2) if mask.any() else None
        cover = self._of_lane[lane]
        return None if cover is None else cover.within(edges)[1]


def table_of(timeline: Timeline, table: Table) -> Events:
    """The table that a lane's rows count in."""
    tables: dict[str, Events] = {
        "ranges": timeline.ranges, "ops": timeline.ops, "calls": timeline.calls, "os_calls": timeline.os_calls,
    }  # fmt: skip
    return tables[table]


# ------------------------------------------------------------------ one event


@dataclass(frozen=True, slots=True)
class ReadOut:
    """What is known of one event. ``None`` and -1 stand for what the file does not tell or the event does not have.

    ``latency_ns`` is from the start of the API call to the start of what it launched. ``nvtx`` is the path of ranges
    around the event (or around the call that launched it), outermost first. ``value`` is a counter's.
    """

    name: str
    start_ns: int
    end_ns: int
    gpu: int = -1
    stream: int = -1
    thread: int = -1
    shape: LaunchShape | None = None
    copy: CopyKind | None = None
    bytes: int | None = None
    source: MemoryKind | None = None
    target: MemoryKind | None = None
    call: int = -1
    call_name: str = ""
    latency_ns: int | None = None
    graph: int = 0
    nvtx: tuple[str, ...] = ()
    domain: str = ""
    is_open: bool = False
    value: float | None = None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def rate(self) -> float | None:
        """Bytes per second of a copy."""
        return None if self.bytes is None or self.duration_ns <= 0 else self.bytes / self.duration_ns * 1e9


def read_out(facts: TimelineFacts, lane: Lane, row: int) -> ReadOut:
    """What is known of one event of a lane. ``KeyError`` where the lane does not hold the row."""
    timeline = facts.timeline
    start, end = lane.span(row)
    if lane.table == "gaps":
        return ReadOut("", start, end, gpu=lane.gpu)
    if isinstance(lane, CounterLane):
        counter = lane.counter
        return ReadOut(counter.name, start, end, gpu=lane.gpu, value=float(counter.value[row]))
    if lane.table == "ops":
        return _op_read_out(facts, row, start, end, lane.gpu)
    if lane.table == "ranges":
        ranges = timeline.ranges
        return ReadOut(
            timeline.name(int(ranges.name[row])), start, end, thread=int(ranges.thread[row]),
            nvtx=facts.range_path(row), domain=timeline.name(int(ranges.domain[row])),
            is_open=bool(ranges.is_open[row]),
        )  # fmt: skip
    calls = timeline.calls if lane.table == "calls" else timeline.os_calls
    thread = int(calls.thread[row])
    path = facts.range_path(facts.range_at(thread, start))
    return ReadOut(timeline.name(int(calls.name[row])), start, end, thread=thread, nvtx=path)


def _op_read_out(facts: TimelineFacts, row: int, start: int, end: int, gpu: int) -> ReadOut:
    timeline, ops, calls = facts.timeline, facts.timeline.ops, facts.timeline.calls
    kind, detail, call = int(ops.kind[row]), int(ops.detail[row]), int(ops.call[row])
    shape = timeline.shapes[detail] if kind == OpKind.KERNEL and detail >= 0 else None
    copy: CopyKind | None = None
    size: int | None = None
    source: MemoryKind | None = None
    target: MemoryKind | None = None
    if kind in (OpKind.COPY, OpKind.MEMSET) and detail >= 0:
        transfers = timeline.transfers
        size, target = _size(timeline, detail), _known(MemoryKind, int(transfers.target[detail]))
        if kind == OpKind.COPY:
            copy = _known(CopyKind, int(transfers.kind[detail]))
            source = _known(MemoryKind, int(transfers.source[detail]))
    return ReadOut(
        timeline.name(int(ops.name[row])), start, end, gpu=gpu, stream=int(ops.stream[row]), shape=shape, copy=copy,
        bytes=size, source=source, target=target, call=call,
        thread=int(calls.thread[call]) if call >= 0 else -1,
        call_name=timeline.name(int(calls.name[call])) if call >= 0 else "",
        latency_ns=start - int(calls.start[call]) if call >= 0 else None,
        graph=int(ops.graph[row]), nvtx=facts.path_of_op(row),
    )  # fmt: skip


def _size(timeline: Timeline, detail: int) -> int | None:
    """The bytes of a copy or memset, ``None`` where the file does not tell them."""
    size = int(timeline.transfers.bytes[detail]) if detail >= 0 else -1
    return None if size < 0 else size


def _known(kinds: type[Any], number: int) -> Any:
    """The kind of this number; what no list knows is ``UNKNOWN``."""
    return kinds(number) if number in kinds._value2member_map_ else kinds.UNKNOWN
