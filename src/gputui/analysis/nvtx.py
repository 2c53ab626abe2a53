"""NVTX ranges on GPU time, and as a tree: what each launched, how long that took, and how much of it the GPU idled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gputui.model.intervals import Intervals, Ns, any_of
from gputui.model.timeline import Ids, OpKind, RangeKind, Ranges

if TYPE_CHECKING:
    from gputui.analysis.timeline import TimelineFacts


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """NVTX ranges on GPU time, a row a range: an operation belongs to a range if the API call that launched it lies
    inside the range on the range's own thread (NVIDIA's ``nvtx_gpu_proj_trace`` counts the same).

    ``start`` to ``end`` goes from the first of its operations to the last; both 0 where ``launches`` is 0.
    ``launches`` counts the API calls that launched something, ``ops`` what they launched, ``kernels`` the kernels
    among them. ``first_call`` to ``last_call`` are places in ``order``, the calls sorted by thread and start.
    """

    start: Ns
    end: Ns
    launches: Ns
    ops: Ns
    kernels: Ns
    first_call: Ns
    last_call: Ns
    order: Ids

    @property
    def duration(self) -> Ns:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RangeNode:
    """All ranges of one path (its name under the names of those around it, in one domain).

    ``cpu_ns`` sums their own times; ``projected_ns`` their times on the GPU from first operation to last; ``busy_ns``
    how much of the time the GPU worked on what they launched (a union: never more than the time that passed);
    ``idle_ns`` how much of ``cpu_ns`` no GPU of its process did anything, whoever launched it (``None`` without GPU
    work in the capture): what the GPU did *meanwhile*, so that the idle times of children add up. ``rows`` are the
    ranges.
    """

    path: tuple[str, ...]
    domain: str
    kind: RangeKind
    count: int
    cpu_ns: int
    projected_ns: int
    busy_ns: int
    idle_ns: int | None
    kernels: int
    rows: Ids
    children: tuple[RangeNode, ...]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def idle_share(self) -> float | None:
        """Of ``cpu_ns``, 0-1; ``None`` without GPU work, or without time."""
        return self.idle_ns / self.cpu_ns if self.idle_ns is not None and self.cpu_ns > 0 else None


def project(facts: TimelineFacts) -> Projection:
    timeline = facts.timeline
    ranges, calls, ops = timeline.ranges, timeline.calls, timeline.ops
    order, begin = facts.thread_slices
    count = len(ranges)
    first, last = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    counted = (ranges.kind != RangeKind.MARK) & (ranges.thread == ranges.end_thread)
    for thread in np.unique(ranges.thread[counted]).tolist():
        rows = np.flatnonzero(counted & (ranges.thread == thread))
        low, own = int(begin[thread]), order[begin[thread] : begin[thread + 1]]
        if not len(own):
            continue
        start, end = calls.start[own], calls.end[own]
        begins = np.searchsorted(start, ranges.start[rows], side="left")
        stops = np.searchsorted(start, ranges.end[rows], side="right")
        # A call that begins inside and ends outside is not inside; there are at most a few at a range's end.
        while (late := (stops > begins) & (end[np.maximum(stops - 1, 0)] > ranges.end[rows])).any():
            stops[late] -= 1
        first[rows], last[rows] = low + begins, low + np.maximum(begins, stops)
    linked = ops.call >= 0
    place_of = np.empty(len(calls), dtype=np.int32)
    place_of[order] = np.arange(len(calls), dtype=np.int32)
    place = place_of[ops.call[linked]]
    size = len(calls) + 1

    # One column of all calls at a time: ten million calls are 80 MB each.
    def within(values: Ns) -> Ns:
        running = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(values, out=running[1:])
        return running[last] - running[first]

    numbers = np.bincount(place, minlength=size)
    found = within(numbers)
    launches = within((numbers > 0).astype(np.int64))
    kernels = within(np.bincount(place[ops.kind[linked] == OpKind.KERNEL], minlength=size))
    del numbers
    some = np.flatnonzero(launches > 0)
    # In the order of their first call: what lies between two ranges is looked through as well.
    some = some[np.argsort(first[some], kind="stable")]
    pairs = np.stack((first[some], last[some]), axis=1).reshape(-1)
    starts, ends = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if len(pairs):
        edge = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(edge, place, ops.start[linked])
        starts[some] = np.minimum.reduceat(edge, pairs)[::2]
        edge.fill(np.iinfo(np.int64).min)
        np.maximum.at(edge, place, ops.end[linked])
        ends[some] = np.maximum.reduceat(edge, pairs)[::2]
    return Projection(starts, ends, launches, found, kernels, first, last, order)


DEEPEST = 64
"""Levels of ranges that are told apart: what lies deeper is in the numbers of what encloses it. Programs nest a few."""


def tree(facts: TimelineFacts) -> tuple[RangeNode, ...]:
    timeline = facts.timeline
    ranges, projection = timeline.ranges, facts.projection
    rows = np.flatnonzero((ranges.kind != RangeKind.MARK) & (ranges.depth < DEEPEST))
    if not len(rows):
        return ()
    # A path is its parent's path and a name: numbered level by level, from the top.
    path = np.full(len(ranges), -1, dtype=np.int64)
    parents: list[int] = []
    names: list[tuple[int, int, int]] = []
    for depth in range(int(ranges.depth[rows].max()) + 1):
        level = rows[ranges.depth[rows] == depth]
        above = np.where(ranges.parent[level] >= 0, path[ranges.parent[level]], -1)
        keys = np.stack((above, ranges.name[level], ranges.domain[level], ranges.kind[level]), axis=1)
        found, place = np.unique(keys, axis=0, return_inverse=True)
        path[level] = len(parents) + place.reshape(-1)
        parents += found[:, 0].tolist()
        names += [(int(name), int(domain), int(kind)) for _, name, domain, kind in found]
    busy = _busy_of_paths(facts, path, len(parents))
    idle = _idle_of_ranges(facts)
    size = len(parents)
    of_rows = path[rows]
    counts = np.bincount(of_rows, minlength=size)

    def total(values: Ns) -> list[int]:
        sums = np.zeros(size, dtype=np.int64)
        np.add.at(sums, of_rows, values[rows])
        return [int(one) for one in sums]

    cpu, projected, idles, kernels = (
        total(values) for values in (ranges.duration, projection.duration, idle, projection.kernels)
    )
    by_path = np.split(rows[np.argsort(of_rows, kind="stable")], np.cumsum(counts)[:-1])
    children: list[list[int]] = [[] for _ in range(size)]
    tops: list[int] = []
    for number, parent in enumerate(parents):
        (children[parent] if parent >= 0 else tops).append(number)

    # Deep before shallow: a child always has a higher number than its parent.
    full: list[tuple[str, ...]] = []
    for number, parent in enumerate(parents):
        own = (timeline.name(names[number][0]),)
        full.append((*full[parent], *own) if parent >= 0 else own)
    nodes: list[RangeNode | None] = [None] * size
    for number in reversed(range(size)):
        below = sorted((node for one in children[number] if (node := nodes[one])), key=lambda node: -node.cpu_ns)
        nodes[number] = RangeNode(
            path=full[number], domain=timeline.name(names[number][1]), kind=RangeKind(names[number][2]),
            count=int(counts[number]), cpu_ns=cpu[number], projected_ns=projected[number], busy_ns=busy[number],
            idle_ns=idles[number] if facts.busy else None, kernels=kernels[number],
            rows=by_path[number].astype(np.int32), children=tuple(below),
        )  # fmt: skip
    return tuple(sorted((node for top in tops if (node := nodes[top])), key=lambda node: -node.cpu_ns))


def _busy_of_paths(facts: TimelineFacts, path: Ns, size: int) -> list[int]:
    """Per path how long the GPU worked on what its ranges launched, operations at the same time counted once.

    Ranges of one thread, domain and depth do not overlap, so an operation belongs to at most one of them.
    """
    ranges, calls, ops = facts.timeline.ranges, facts.timeline.calls, facts.timeline.ops
    counted = (ranges.kind != RangeKind.MARK) & (ranges.thread == ranges.end_thread)
    nested = counted & (ranges.kind == RangeKind.PUSH_POP) & (ranges.depth < DEEPEST)
    levels: dict[tuple[int, int], list[tuple[int, Ns]]] = {}
    for domain, depth, thread in _combinations(ranges, nested):
        here = nested & (ranges.domain == domain) & (ranges.depth == depth) & (ranges.thread == thread)
        levels.setdefault((domain, depth), []).append((thread, np.flatnonzero(here)))
    gpus = len(facts.timeline.gpus)
    busy = _Unions(size * gpus)
    for low in range(0, len(ops), _BLOCK):
        block = slice(low, low + _BLOCK)
        call, start, end, gpu = ops.call[block], ops.start[block], ops.end[block], facts.op_gpu[block]
        linked = np.flatnonzero(call >= 0)
        caller, time, done = calls.thread[call[linked]], calls.start[call[linked]], calls.end[call[linked]]
        for level in levels.values():
            of = np.full(len(linked), -1, dtype=np.int64)
            for one, rows in level:
                mine = np.flatnonzero(caller == one)
                place = np.searchsorted(ranges.start[rows], time[mine], side="right") - 1
                row = rows[np.maximum(place, 0)]
                inside = (place >= 0) & (done[mine] <= ranges.end[row])
                of[mine[inside]] = path[row[inside]]
            some = np.flatnonzero(of >= 0)
            op = linked[some]
            busy.add(of[some] * gpus + gpu[op], start[op], end[op])
    lengths = busy.length.reshape(size, gpus).sum(axis=1) if gpus else np.zeros(size, dtype=np.int64)
    # Start/end ranges overlap as they like: the operations of each path lie side by side in the order of their calls.
    others = np.flatnonzero(
        counted & (ranges.kind == RangeKind.START_END) & (facts.projection.launches > 0) & (path >= 0)
    )
    if len(others):
        of_call = _OpsOfCalls(facts)
        others = others[np.argsort(path[others], kind="stable")]
        for rows in np.split(others, np.flatnonzero(np.diff(path[others])) + 1):
            held = of_call.within(rows)
            parts = (held[facts.op_gpu[held] == one] for one in np.unique(facts.op_gpu[held]).tolist())
            lengths[path[rows[0]]] = sum(Intervals.union(ops.start[part], ops.end[part]).total for part in parts)
    return [int(one) for one in lengths]


class _OpsOfCalls:
    """The operations in the order of their calls (``Projection.order``)."""

    def __init__(self, facts: TimelineFacts) -> None:
        self._projection = facts.projection
        calls, ops = facts.timeline.calls, facts.timeline.ops
        place_of = np.empty(len(calls), dtype=np.int32)
        place_of[self._projection.order] = np.arange(len(calls), dtype=np.int32)
        linked = np.flatnonzero(ops.call >= 0)
        place = place_of[ops.call[linked]]
        order = np.argsort(place, kind="stable")
        self._rows, self._place = linked[order].astype(np.int32), place[order]

    def within(self, ranges: Ns) -> Ids:
        """The rows of what these ranges launched, each once, in order of call."""
        calls = Intervals.union(self._projection.first_call[ranges], self._projection.last_call[ranges])
        low, high = np.searchsorted(self._place, calls.start), np.searchsorted(self._place, calls.end)
        return np.concatenate([self._rows[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True)])


_BLOCK = 1_000_000
"""Operations looked at in one go: columns of ten million would add up to a gigabyte."""


def _combinations(ranges: Ranges, chosen: npt.NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """The domains, depths and threads that these ranges have."""
    columns = np.stack((ranges.domain[chosen], ranges.depth[chosen], ranges.thread[chosen]), axis=1)
    return [tuple(row) for row in np.unique(columns, axis=0).tolist()]


class _Unions:
    """The lengths of many unions of intervals, which come in blocks sorted by start: what a block begins with may
    have been covered by the ones before."""

    def __init__(self, count: int) -> None:
        self.length = np.zeros(count, dtype=np.int64)
        self._reach = np.full(count, np.iinfo(np.int64).min)

    def add(self, of: Ns, start: Ns, end: Ns) -> None:
        """Intervals and the union that each belongs to."""
        if not len(of):
            return
        order = np.argsort(of, kind="stable")
        of, start, end = of[order], start[order], end[order]
        head = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        # Each union on a stretch of time of its own: one running maximum serves all of them.
        origin, span = int(start.min()), int(end.max() - start.min()) + 1
        base = np.repeat(np.arange(len(head)) * span, np.diff(np.append(head, len(of)))) - origin
        reach = np.maximum.accumulate(end + base)
        before = np.concatenate((reach[:1], reach[:-1])) - base
        before[head] = self._reach[of[head]]
        # What has been covered before the block counts beside what the block itself covers.
        before = np.maximum(before, self._reach[of])
        np.add.at(self.length, of, np.maximum(0, end - np.maximum(start, before)))
        np.maximum.at(self._reach, of, end)


def _idle_of_ranges(facts: TimelineFacts) -> Ns:
    """Per range how much of its time no GPU of its process did anything; of all GPUs where that process used none."""
    timeline, ranges = facts.timeline, facts.timeline.ranges
    idle: Ns = ranges.duration.copy()
    process = np.array([thread.process for thread in timeline.threads] or [-1])[ranges.thread]
    gpus_of: dict[int, set[int]] = {}
    for stream in timeline.streams:
        if stream.gpu in facts.busy:
            gpus_of.setdefault(stream.process, set()).add(stream.gpu)
    for one in np.unique(process).tolist():
        busy = any_of([facts.busy[gpu] for gpu in gpus_of.get(one, facts.busy)])
        mine = process == one
        idle[mine] -= busy.up_to(ranges.end[mine]) - busy.up_to(ranges.start[mine])
    return idle


@dataclass(frozen=True, slots=True)
class Outside:
    """Kernels that a thread launched in none of its NVTX ranges: no range's numbers hold them."""

    thread: int
    kernels: int
    time_ns: int


def outside(facts: TimelineFacts) -> tuple[Outside, ...]:
    """By thread the kernels in none of the program's own ranges, the longest total first; empty without NVTX ranges.

    Its own are those of the default domain, or of all domains where that has none.

    PyTorch's backward pass is the usual case: it launches from a thread of its own, and ranges of the main thread do
    not hold its kernels.
    """
    timeline = facts.timeline
    ranges, ops = timeline.ranges, timeline.ops
    rows = np.flatnonzero(ranges.kind != RangeKind.MARK).astype(np.int32)
    own = rows[ranges.domain[rows] < 0]
    rows = own if len(own) else rows
    if not len(rows):
        return ()
    left = np.flatnonzero(facts.kernel_mask & (ops.call >= 0) & ~facts.ops_of_ranges(rows))
    thread = timeline.calls.thread[ops.call[left]]
    count = np.bincount(thread)
    time = np.bincount(thread, weights=ops.duration[left])
    found = [Outside(one, int(count[one]), int(time[one])) for one in np.flatnonzero(count).tolist()]
    return tuple(sorted(found, key=lambda one: -one.time_ns))
