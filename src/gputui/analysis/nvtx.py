"""NVTX ranges on GPU time, and as a tree: what each launched, how long that took, and how much of it the GPU idled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gputui.model.intervals import Ns
from gputui.model.timeline import Ids, OpKind, RangeKind

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
    order: Ns

    @property
    def duration(self) -> Ns:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RangeNode:
    """All ranges of one path (its name under the names of those around it, in one domain).

    ``cpu_ns`` sums their own times; ``projected_ns`` their times on the GPU from first operation to last; ``busy_ns``
    how much of the time the GPU worked on what they launched (a union: never more than the time that passed);
    ``idle_ns`` how much of ``projected_ns`` no operation of any kind ran on that GPU. ``rows`` are the ranges.
    """

    path: tuple[str, ...]
    domain: str
    kind: RangeKind
    count: int
    cpu_ns: int
    projected_ns: int
    busy_ns: int
    idle_ns: int
    kernels: int
    rows: Ids
    children: tuple[RangeNode, ...]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def idle_share(self) -> float | None:
        """Of ``projected_ns``, 0-1; ``None`` where nothing was launched."""
        return self.idle_ns / self.projected_ns if self.projected_ns > 0 else None


def project(facts: TimelineFacts) -> Projection:
    timeline = facts.timeline
    ranges, calls, ops = timeline.ranges, timeline.calls, timeline.ops
    order, begin = facts.thread_slices
    count = len(ranges)
    start, end = calls.start[order], calls.end[order]
    first, last = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    counted = (ranges.kind != RangeKind.MARK) & (ranges.thread == ranges.end_thread)
    for thread in np.unique(ranges.thread[counted]).tolist():
        rows = np.flatnonzero(counted & (ranges.thread == thread))
        low, high = int(begin[thread]), int(begin[thread + 1])
        if low == high:
            continue
        begins = low + np.searchsorted(start[low:high], ranges.start[rows], side="left")
        stops = low + np.searchsorted(start[low:high], ranges.end[rows], side="right")
        # A call that begins inside and ends outside is not inside; there are at most a few at a range's end.
        late = (stops > begins) & (end[np.maximum(stops - 1, 0)] > ranges.end[rows])
        while late.any():
            stops[late] -= 1
            late = (stops > begins) & (end[np.maximum(stops - 1, 0)] > ranges.end[rows])
        first[rows], last[rows] = begins, np.maximum(begins, stops)
    linked = np.flatnonzero(ops.call >= 0)
    place_of = np.empty(len(calls), dtype=np.int64)
    place_of[order] = np.arange(len(calls))
    place = place_of[ops.call[linked]]
    size = len(calls) + 1
    ops_of = np.bincount(place, minlength=size)
    kernels_of = np.bincount(place[ops.kind[linked] == OpKind.KERNEL], minlength=size)
    earliest = np.full(size, np.iinfo(np.int64).max)
    latest = np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(earliest, place, ops.start[linked])
    np.maximum.at(latest, place, ops.end[linked])

    def within(values: Ns) -> Ns:
        running = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))
        return running[last] - running[first]

    launches = within((ops_of > 0).astype(np.int64))
    some = np.flatnonzero(launches > 0)
    # In the order of their first call: what lies between two ranges is looked through as well.
    some = some[np.argsort(first[some], kind="stable")]
    pairs = np.stack((first[some], last[some]), axis=1).reshape(-1)
    starts, ends = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if len(pairs):
        starts[some] = np.minimum.reduceat(earliest, pairs)[::2]
        ends[some] = np.maximum.reduceat(latest, pairs)[::2]
    return Projection(starts, ends, launches, within(ops_of), within(kernels_of), first, last, order)


def tree(facts: TimelineFacts) -> tuple[RangeNode, ...]:
    timeline = facts.timeline
    ranges, projection = timeline.ranges, facts.projection
    rows = np.flatnonzero(ranges.kind != RangeKind.MARK)
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
            idle_ns=idles[number], kernels=kernels[number], rows=by_path[number].astype(np.int32),
            children=tuple(below),
        )  # fmt: skip
    return tuple(sorted((node for top in tops if (node := nodes[top])), key=lambda node: -node.cpu_ns))


def _busy_of_paths(facts: TimelineFacts, path: Ns, size: int) -> list[int]:
    """Per path how long the GPU worked on what its ranges launched, operations at the same time counted once.

    Ranges of one thread, domain and depth do not overlap, so an operation belongs to at most one of them.
    """
    timeline = facts.timeline
    ranges, calls, ops = timeline.ranges, timeline.calls, timeline.ops
    busy = np.zeros(size, dtype=np.int64)
    linked = np.flatnonzero(ops.call >= 0)
    if not len(linked):
        return [0] * size
    call = ops.call[linked]
    thread, time, done = calls.thread[call], calls.start[call], calls.end[call]
    counted = (ranges.kind != RangeKind.MARK) & (ranges.thread == ranges.end_thread)
    nested = counted & (ranges.kind == RangeKind.PUSH_POP)
    for domain in np.unique(ranges.domain[nested]).tolist():
        for depth in range(int(ranges.depth[nested & (ranges.domain == domain)].max()) + 1):
            of = np.full(len(linked), -1, dtype=np.int64)
            level = nested & (ranges.domain == domain) & (ranges.depth == depth)
            for one in np.unique(ranges.thread[level]).tolist():
                rows = np.flatnonzero(level & (ranges.thread == one))
                here = np.flatnonzero(thread == one)
                place = np.searchsorted(ranges.start[rows], time[here], side="right") - 1
                row = rows[np.maximum(place, 0)]
                inside = (place >= 0) & (done[here] <= ranges.end[row])
                of[here[inside]] = path[row[inside]]
            _add_unions(busy, of, ops.start[linked], ops.end[linked], facts.op_gpu[linked])
    # Start/end ranges overlap as they like; there are few of them.
    others = np.flatnonzero(counted & (ranges.kind == RangeKind.START_END) & (facts.projection.launches > 0))
    for place in np.unique(path[others]).tolist():
        mask = facts.ops_of_ranges(others[path[others] == place])
        busy[place] = sum(facts.union(mask & facts.ops_of(gpu)).total for gpu in facts.gpus)
    return [int(one) for one in busy]


def _add_unions(busy: Ns, of: Ns, start: Ns, end: Ns, gpu: Ids) -> None:
    """Add to ``busy[k]`` the length of the union of the intervals with ``of == k``, per GPU."""
    chosen = np.flatnonzero(of >= 0)
    if not len(chosen):
        return
    of, start, end = of[chosen], start[chosen], end[chosen]
    segment = of * (int(gpu.max()) + 1) + gpu[chosen]
    order = np.lexsort((start, segment))
    segment, of, start, end = segment[order], of[order], start[order], end[order]
    # Each segment on a stretch of time of its own: one running maximum serves all of them.
    head = np.concatenate(([True], segment[1:] != segment[:-1]))
    number = np.cumsum(head) - 1
    span = int(end.max() - start.min()) + 1
    base = number * span - int(start.min())
    reach = np.maximum.accumulate(end + base)
    fresh = np.maximum(start + base, np.concatenate(([np.iinfo(np.int64).min], reach[:-1])))
    np.add.at(busy, of, np.maximum(0, end + base - fresh))


def _idle_of_ranges(facts: TimelineFacts) -> Ns:
    """Per range how much of its time on the GPU nothing at all ran there (on the busiest of several GPUs)."""
    projection = facts.projection
    idle = np.zeros(len(projection.start), dtype=np.int64)
    some = projection.launches > 0
    start, end = projection.start[some], projection.end[some]
    least: Ns | None = None
    for busy in facts.busy.values():
        here = (end - start) - (busy.up_to(end) - busy.up_to(start))
        least = here if least is None else np.minimum(least, here)
    if least is not None:
        idle[some] = least
    return idle
