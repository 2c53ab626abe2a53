"""What a timeline tells before any judgement: busy time, kernels by name, NVTX ranges on the GPU, gaps, steps.

Busy time is always a union of intervals, so that no share of time is above 100 %. Everything is numpy over whole
columns: ten million kernels are summed in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gputui.analysis.nvtx import DEEPEST, Outside, Projection, RangeNode, outside, project, tree
from gputui.analysis.steps import Steps, find_steps
from gputui.model.intervals import EMPTY, Intervals, Ns
from gputui.model.kernel import function_name
from gputui.model.timeline import Calls, Events, Ids, OpKind, RangeKind, Timeline

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Group:
    """All events of one name. ``share`` is of the time of all events summed, 0-1; times in ns."""

    name: int
    count: int
    total_ns: int
    min_ns: int
    median_ns: float
    max_ns: int
    share: float

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count


def groups(events: Events, rows: npt.NDArray[Any] | None = None) -> tuple[Group, ...]:
    """The events (or these ``rows``, places or a mask) by name, the longest total first."""
    name = events.name if rows is None else events.name[rows]
    duration = events.duration if rows is None else events.duration[rows]
    if not len(name):
        return ()
    # One sort for all statistics: by name, and by duration within it.
    order = np.lexsort((duration, name))
    name, duration = name[order], duration[order]
    first = np.flatnonzero(np.concatenate(([True], name[1:] != name[:-1])))
    count = np.diff(np.append(first, len(name)))
    total = np.add.reduceat(duration, first)
    low, high = duration[first + (count - 1) // 2], duration[first + count // 2]
    whole = int(total.sum()) or 1
    columns = (name[first], count, total, duration[first], (low + high) / 2, duration[first + count - 1], total / whole)
    found = [Group(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return tuple(sorted(found, key=lambda group: (-group.total_ns, group.name)))


@dataclass(frozen=True, slots=True)
class Window:
    """The time that shares are told of: the steady state where it can be told, else from first to last GPU work.

    ``source`` is ``"steps"``, ``"tail"`` (the first tenth left out) or ``"all"``.
    """

    start_ns: int
    end_ns: int
    source: str

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns


class TimelineFacts:
    """A timeline with what is worked out from it, each part when first asked for. Safe to read from one thread."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    # -------------------------------------------------------------- GPUs

    @cached_property
    def op_gpu(self) -> Ids:
        """The GPU of each operation."""
        timeline = self.timeline
        by_stream = np.array([stream.gpu for stream in timeline.streams] or [0], dtype=np.int32)
        found: Ids = by_stream[timeline.ops.stream]
        return found

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that did something."""
        return tuple(np.flatnonzero(np.bincount(self.op_gpu)).tolist()) if len(self.op_gpu) else ()

    def ops_of(self, gpu: int | None = None, kinds: Iterable[OpKind] | None = None) -> Mask:
        """The operations of a GPU (``None``: of all) and of these kinds, as a mask."""
        ops = self.timeline.ops
        mask: Mask = np.ones(len(ops), dtype=bool) if gpu is None else self.op_gpu == gpu
        if kinds is not None:
            wanted = np.zeros(len(OpKind), dtype=bool)
            wanted[list(kinds)] = True
            mask = mask & wanted[ops.kind]
        return mask

    def union(self, mask: Mask) -> Intervals:
        """When any of these operations ran."""
        ops = self.timeline.ops
        return Intervals.union(ops.start[mask], ops.end[mask])

    @cached_property
    def busy(self) -> dict[int, Intervals]:
        """Per GPU when anything ran on it."""
        if len(self.gpus) == 1:
            ops = self.timeline.ops
            return {self.gpus[0]: Intervals.union(ops.start, ops.end)}
        return {gpu: self.union(self.ops_of(gpu)) for gpu in self.gpus}

    @cached_property
    def kernel_mask(self) -> Mask:
        found: Mask = self.timeline.ops.kind == OpKind.KERNEL
        return found

    @cached_property
    def kernels(self) -> tuple[Group, ...]:
        """The kernels by name, longest total first."""
        mask = self.kernel_mask
        return groups(self.timeline.ops, None if mask.all() else mask)

    @cached_property
    def kernel_rows(self) -> dict[int, Ids]:
        """The launches of each kernel, by its place in the timeline's names, in order of start."""
        rows = np.flatnonzero(self.kernel_mask).astype(np.int32)
        rows = rows[np.argsort(self.timeline.ops.name[rows], kind="stable")]
        name = self.timeline.ops.name[rows]
        first = np.flatnonzero(np.diff(name, prepend=-1))
        return dict(zip(name[first].tolist(), np.split(rows, first[1:]), strict=True)) if len(rows) else {}

    def short_name(self, name: int) -> str:
        """A kernel's function alone, by its place in the timeline's names."""
        return self.timeline.short_names.get(name) or function_name(self.timeline.name(name))

    # -------------------------------------------------------------- steps and steady state

    @cached_property
    def steps(self) -> Steps | None:
        """The program's loop: from NVTX ranges where they tell it, else from kernels that repeat."""
        return find_steps(self)

    @cached_property
    def window(self) -> Window:
        ops = self.timeline.ops
        if not len(ops):
            return Window(self.timeline.start_ns, self.timeline.end_ns, "all")
        first, last = int(ops.start[0]), int(ops.end.max())
        if self.steps is not None:
            steady = self.steps.steady
            start, end = steady[0].start_ns, max(step.end_ns for step in steady)
            return Window(max(start, self.timeline.start_ns), end, "steps")
        if len(ops) >= _FEW_OPS:
            # From an operation on: a gap cut by the window's border would be told with a length that it does not have.
            begun = int(np.searchsorted(ops.start, first + (last - first) // 10))
            return Window(int(ops.start[min(begun, len(ops) - 1)]), last, "tail")
        return Window(first, last, "all")

    def busy_share(self, gpu: int, window: Window | None = None) -> float:
        """How much of the window the GPU did anything, 0-1."""
        window = window or self.window
        busy = self.busy.get(gpu, EMPTY).length_in(window.start_ns, window.end_ns)
        return busy / window.span_ns if window.span_ns > 0 else 0.0

    # -------------------------------------------------------------- API calls

    def named(self, pattern: str) -> npt.NDArray[np.bool_]:
        """Per name of the timeline whether this regular expression matches it from its beginning."""
        compiled = re.compile(pattern)
        return np.array([compiled.match(name) is not None for name in self.timeline.names], dtype=bool)

    def calls_named(self, pattern: str) -> Mask:
        """The API calls whose name matches, as a mask."""
        found: Mask = self.named(pattern)[self.timeline.calls.name]
        return found

    @cached_property
    def thread_slices(self) -> tuple[Ids, Ns]:
        """The calls' rows sorted by thread and start, and where each thread begins among them."""
        calls = self.timeline.calls
        order = np.argsort(calls.thread, kind="stable").astype(np.int32)
        begin = np.searchsorted(calls.thread[order], np.arange(len(self.timeline.threads) + 1))
        return order, begin

    def launching_thread(self, op: int) -> int:
        """The thread whose API call launched an operation, -1 where the file does not tell."""
        call = int(self.timeline.ops.call[op]) if op >= 0 else -1
        return int(self.timeline.calls.thread[call]) if call >= 0 else -1

    def thread_time(self, events: Calls, thread: int, start_ns: int, end_ns: int) -> tuple[tuple[int, int], ...]:
        """What a thread spent ``[start_ns, end_ns)`` in: (name, ns) of ``events``, the longest first."""
        near = _overlapping(events, start_ns, end_ns)
        rows = near[events.thread[near] == thread]
        if not len(rows):
            return ()
        spent = np.minimum(events.end[rows], end_ns) - np.maximum(events.start[rows], start_ns)
        names, place = np.unique(events.name[rows], return_inverse=True)
        totals = np.bincount(place, weights=spent).astype(np.int64)
        return tuple(sorted(zip(names.tolist(), totals.tolist(), strict=True), key=lambda one: -one[1]))

    # -------------------------------------------------------------- NVTX

    @cached_property
    def projection(self) -> Projection:
        return project(self)

    def ops_of_ranges(self, rows: Sequence[int] | Ids) -> Mask:
        """The operations that these NVTX ranges launched, as a mask."""
        timeline, projection = self.timeline, self.projection
        rows = np.asarray(rows, dtype=np.int64)
        first, last = projection.first_call[rows], projection.last_call[rows]
        inside = np.zeros(len(timeline.calls) + 1, dtype=np.int64)
        np.add.at(inside, first, 1)
        np.add.at(inside, last, -1)
        chosen = np.zeros(len(timeline.calls) + 1, dtype=bool)
        chosen[projection.order] = np.cumsum(inside[:-1]) > 0
        # The last place stands for "no call": -1 finds it.
        return chosen[timeline.ops.call]

    def range_at(self, thread: int, time_ns: int) -> int:
        """The innermost push/pop range of a thread around a time, -1 where there is none."""
        return int(self.ranges_at(np.array([thread]), np.array([time_ns]))[0])

    def ranges_at(self, thread: npt.NDArray[Any], time: Ns) -> Ids:
        """The innermost push/pop range of each of these threads around a time, -1 where there is none.

        Of the default domain, the program's own, where that has one; else of the library whose range begins last.
        """
        ranges = self.timeline.ranges
        found = np.full(len(time), -1, dtype=np.int32)
        wanted = set(np.unique(thread).tolist())
        # The default domain is -1: it comes first, and what it has found stays.
        for (owner, _), rows in sorted(self._nested.items(), key=lambda one: one[0][1]):
            if owner not in wanted:
                continue
            here = np.flatnonzero(thread == owner)
            place = np.searchsorted(ranges.start[rows], time[here], side="right") - 1
            row = np.where(place >= 0, rows[np.maximum(place, 0)], -1)
            # The nearest that begins before may have ended: then one around it has not, or none.
            while (over := (row >= 0) & (ranges.end[row] < time[here])).any():
                row[over] = ranges.parent[row[over]]
            before = found[here]
            library = (ranges.domain[before] >= 0) & (ranges.start[row] > ranges.start[before])
            inner = (row >= 0) & ((before < 0) | library)
            found[here[inner]] = row[inner]
        return found

    @cached_property
    def ranges_of_ops(self) -> Ids:
        """Per operation the innermost push/pop range around the API call that launched it, -1 where there is none."""
        ops, calls = self.timeline.ops, self.timeline.calls
        found = np.full(len(ops), -1, dtype=np.int32)
        linked = np.flatnonzero(ops.call >= 0)
        call = ops.call[linked]
        found[linked] = self.ranges_at(calls.thread[call], calls.start[call])
        return found

    @cached_property
    def _nested(self) -> dict[tuple[int, int], Ids]:
        """The rows of push/pop ranges by thread and domain."""
        ranges = self.timeline.ranges
        rows = np.flatnonzero(ranges.kind == RangeKind.PUSH_POP).astype(np.int32)
        rows = rows[np.lexsort((rows, ranges.domain[rows], ranges.thread[rows]))]
        keys = list(zip(ranges.thread[rows].tolist(), ranges.domain[rows].tolist(), strict=True))
        first = [place for place, key in enumerate(keys) if place == 0 or key != keys[place - 1]]
        return {keys[low]: rows[low:high] for low, high in pairwise([*first, len(keys)])}

    def range_path(self, row: int) -> tuple[str, ...]:
        """A range's name under the names of those around it, outermost first; the innermost of too many."""
        path: list[str] = []
        while row >= 0 and len(path) < DEEPEST:
            path.append(self.timeline.name(int(self.timeline.ranges.name[row])))
            row = int(self.timeline.ranges.parent[row])
        return tuple(reversed(path))

    def path_of_op(self, op: int) -> tuple[str, ...]:
        """The NVTX ranges around the API call that launched an operation, outermost first."""
        call = int(self.timeline.ops.call[op])
        if call < 0:
            return ()
        calls = self.timeline.calls
        return self.range_path(self.range_at(int(calls.thread[call]), int(calls.start[call])))

    @cached_property
    def range_tree(self) -> tuple[RangeNode, ...]:
        """The NVTX ranges by path, each level by CPU time, longest first; ranges of all threads together."""
        return tree(self)

    @cached_property
    def outside_ranges(self) -> tuple[Outside, ...]:
        """The kernels that were launched in no NVTX range, by thread."""
        return outside(self)


_FEW_OPS = 50
"""Under so many operations a tenth of them is too few to be a warm-up."""


def _overlapping(events: Events, start_ns: int, end_ns: int) -> npt.NDArray[np.int64]:
    """The rows that overlap ``[start_ns, end_ns)``."""
    last = int(np.searchsorted(events.start, end_ns, side="left"))
    return np.flatnonzero(events.end[:last] > start_ns)
