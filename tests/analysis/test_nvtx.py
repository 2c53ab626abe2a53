"""NVTX ranges on GPU time and as a tree, against loops over every pair of range and operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gputui.analysis.nvtx import DEEPEST, RangeNode
from gputui.analysis.timeline import TimelineFacts
from gputui.model.device import Device
from gputui.model.timeline import (
    Calls,
    Gpu,
    GpuOps,
    OpKind,
    Process,
    RangeKind,
    Ranges,
    SourceFile,
    Stream,
    Thread,
    Timeline,
)

_NAMES = ("step", "forward", "attention", "mlp", "cudaLaunchKernel", "cudaMemcpyAsync", "kernel", "[copy]")
_CALL, _COPY_CALL, _KERNEL, _COPY = 4, 5, 6, 7
Nested = tuple[int, int, int, int, int]


def _nested(source: np.random.Generator, start: int, end: int, depth: int, parent: int, out: list[Nested]) -> None:
    """Ranges within ``[start, end)``, some of them starting or ending with what is around them."""
    time = start
    while time < end - 4 and depth < 4:
        stop = int(source.integers(time + 1, end + 1))
        out.append((time, stop, int(source.integers(0, 4)), depth, parent))
        _nested(source, time, stop, depth + 1, len(out) - 1, out)
        time = stop + int(source.integers(0, 20))


def random_timeline(seed: int) -> Timeline:
    """Two threads with nested ranges, calls in and between them, operations that start later on two streams."""
    source = np.random.default_rng(seed)
    ranges: list[tuple[int, int, int, int, int, int]] = []
    calls: list[tuple[int, int, int, int]] = []
    for thread in (0, 1):
        own: list[Nested] = []
        _nested(source, int(source.integers(0, 50)), 1000, 0, -1, own)
        first = len(ranges)
        ranges += [(*one[:4], one[4] if one[4] < 0 else one[4] + first, thread) for one in own]
        borders = {edge for one in own for edge in one[:2]}
        time = 0
        while time < 1000:
            length = int(source.integers(1, 8))
            # A call on the range's own thread cannot cross its border.
            if not any(time < border < time + length for border in borders):
                calls.append((time, time + length, int(source.choice([_CALL, _COPY_CALL])), thread))
            time += length + int(source.integers(0, 12))
    order = sorted(range(len(ranges)), key=lambda row: (ranges[row][0], -ranges[row][1], row))
    place = {row: number for number, row in enumerate(order)}
    ranges = [(*ranges[row][:4], place.get(ranges[row][4], -1), ranges[row][5]) for row in order]
    calls.sort()
    ops = []
    for row, (_, end, name, _) in enumerate(calls):
        for _ in range(int(source.choice([0, 1, 1, 1, 3]))):
            begin = end + int(source.integers(0, 90))
            stream = int(source.integers(0, 2))
            kind = OpKind.COPY if name == _COPY_CALL else OpKind.KERNEL
            ops.append((begin, begin + int(source.integers(1, 40)), kind, stream, row if source.random() < 0.9 else -1))
    ops.sort()
    columns = [np.array(column, dtype=np.int64) for column in zip(*ranges, strict=True)]
    call_columns = [np.array(column, dtype=np.int64) for column in zip(*calls, strict=True)]
    op_columns = [np.array(column, dtype=np.int64) for column in zip(*ops, strict=True)]
    count = len(ranges)
    return Timeline(
        names=_NAMES,
        files=[SourceFile("run.sqlite", "nsys")],
        gpus=[Gpu(0, Device("GPU"))],
        processes=[Process(1)],
        streams=[Stream(0, 0, 7), Stream(0, 0, 14)],
        threads=[Thread(0, 1), Thread(0, 2)],
        ops=GpuOps(
            start=op_columns[0], end=op_columns[1], kind=op_columns[2].astype(np.uint8),
            name=np.where(op_columns[2] == OpKind.KERNEL, _KERNEL, _COPY).astype(np.int32),
            stream=op_columns[3].astype(np.int32), call=op_columns[4].astype(np.int32),
            detail=np.full(len(ops), -1, dtype=np.int32), graph=np.zeros(len(ops), dtype=np.int32),
        ),
        calls=Calls(
            start=call_columns[0], end=call_columns[1], name=call_columns[2].astype(np.int32),
            thread=call_columns[3].astype(np.int32),
        ),
        ranges=Ranges(
            start=columns[0], end=columns[1], name=columns[2].astype(np.int32),
            kind=np.full(count, RangeKind.PUSH_POP, dtype=np.uint8), domain=np.full(count, -1, dtype=np.int32),
            thread=columns[5].astype(np.int32), end_thread=columns[5].astype(np.int32),
            parent=columns[4].astype(np.int32), depth=columns[3].astype(np.int16),
            is_open=np.zeros(count, dtype=bool),
        ),
        start_ns=0, end_ns=1200,
    )  # fmt: skip


def _launched_by(timeline: Timeline, row: int) -> np.ndarray:
    """The operations of one range, by the definition."""
    ranges, calls, ops = timeline.ranges, timeline.calls, timeline.ops
    inside = [
        call
        for call in range(len(calls))
        if calls.thread[call] == ranges.thread[row]
        and calls.start[call] >= ranges.start[row]
        and calls.end[call] <= ranges.end[row]
    ]
    return np.isin(ops.call, inside)


def _union(start: np.ndarray, end: np.ndarray) -> int:
    return len({time for low, high in zip(start.tolist(), end.tolist(), strict=True) for time in range(low, high)})


@pytest.mark.parametrize("seed", range(12))
def test_a_range_on_the_gpu_is_what_its_own_calls_launched(seed: int) -> None:
    timeline = random_timeline(seed)
    facts = TimelineFacts(timeline)
    found, ops = facts.projection, timeline.ops
    for row in range(len(timeline.ranges)):
        mine = _launched_by(timeline, row)
        assert found.ops[row] == mine.sum()
        assert found.kernels[row] == (mine & (ops.kind == OpKind.KERNEL)).sum()
        assert found.launches[row] == len(set(ops.call[mine].tolist()))
        assert (facts.ops_of_ranges([row]) == mine).all()
        if mine.any():
            assert (found.start[row], found.end[row]) == (ops.start[mine].min(), ops.end[mine].max())
        else:
            assert (found.start[row], found.end[row]) == (0, 0)


def _walk(nodes: tuple[RangeNode, ...]) -> Iterator[RangeNode]:
    for node in nodes:
        yield node
        yield from _walk(node.children)


@pytest.mark.parametrize("block", [7, 1_000_000])
@pytest.mark.parametrize("seed", range(12))
def test_the_tree_sums_its_ranges_and_never_counts_a_nanosecond_twice(
    monkeypatch: pytest.MonkeyPatch, seed: int, block: int
) -> None:
    monkeypatch.setattr("gputui.analysis.nvtx._BLOCK", block)
    timeline = random_timeline(seed)
    facts = TimelineFacts(timeline)
    ranges, ops, projection = timeline.ranges, timeline.ops, facts.projection
    nodes = list(_walk(facts.range_tree))
    assert sorted(row for node in nodes for row in node.rows.tolist()) == list(range(len(ranges)))
    for node in nodes:
        rows = node.rows
        assert {facts.range_path(row) for row in rows.tolist()} == {node.path}
        assert node.count == len(rows)
        assert node.cpu_ns == ranges.duration[rows].sum()
        assert node.projected_ns == projection.duration[rows].sum()
        assert node.kernels == projection.kernels[rows].sum()
        mine = np.logical_or.reduce([_launched_by(timeline, row) for row in rows.tolist()])
        assert node.busy_ns == _union(ops.start[mine], ops.end[mine])
        assert (facts.ops_of_ranges(rows) == mine).all()
        idle = 0
        for row in rows.tolist():
            window = set(range(int(ranges.start[row]), int(ranges.end[row])))
            for low, high in zip(ops.start.tolist(), ops.end.tolist(), strict=True):
                window -= set(range(low, high))
            idle += len(window)
        assert node.idle_ns == idle
        assert node.idle_share is None or 0 <= node.idle_share <= 1
        for child in node.children:
            assert child.path[:-1] == node.path


@pytest.mark.parametrize("seed", range(6))
def test_the_innermost_range_around_a_time(seed: int) -> None:
    timeline = random_timeline(seed)
    ranges = timeline.ranges
    # Every other tree of ranges is a library's: the program's own ranges come first where both are there.
    for row in range(len(ranges)):
        parent = int(ranges.parent[row])
        ranges.domain[row] = ranges.domain[parent] if parent >= 0 else row % 2 - 1
    facts = TimelineFacts(timeline)
    for thread in (0, 1):
        for time in range(0, 1000, 7):
            around = np.flatnonzero((ranges.thread == thread) & (ranges.start <= time) & (time <= ranges.end))
            own = around[ranges.domain[around] == -1]
            around = own if len(own) else around
            found = facts.range_at(thread, time)
            if len(around):
                assert found in around
                assert ranges.start[found] == ranges.start[around].max()
            else:
                assert found == -1


def test_a_range_that_ends_on_another_thread_claims_no_operation() -> None:
    timeline = random_timeline(3)
    row = int(np.argmax(TimelineFacts(timeline).projection.ops))
    timeline.ranges.end_thread[row] = 1 - timeline.ranges.thread[row]
    assert TimelineFacts(timeline).projection.ops[row] == 0


@pytest.mark.parametrize("seed", range(6))
def test_kernels_in_no_range_are_told_by_thread(seed: int) -> None:
    timeline = random_timeline(seed)
    ops, calls = timeline.ops, timeline.calls
    held = np.logical_or.reduce([_launched_by(timeline, row) for row in range(len(timeline.ranges))])
    expected = {}
    for op in np.flatnonzero((ops.kind == OpKind.KERNEL) & (ops.call >= 0) & ~held).tolist():
        kernels, time = expected.get(int(calls.thread[ops.call[op]]), (0, 0))
        expected[int(calls.thread[ops.call[op]])] = kernels + 1, time + int(ops.duration[op])
    found = TimelineFacts(timeline).outside_ranges
    assert {one.thread: (one.kernels, one.time_ns) for one in found} == expected
    assert [one.time_ns for one in found] == sorted((one.time_ns for one in found), reverse=True)


@pytest.mark.parametrize("seed", range(8))
def test_start_end_ranges_that_overlap_count_no_nanosecond_twice(seed: int) -> None:
    timeline = random_timeline(seed)
    ranges, ops = timeline.ranges, timeline.ops
    # All on one level: they cross each other and share names.
    ranges.kind[:] = RangeKind.START_END
    ranges.parent[:] = -1
    ranges.depth[:] = 0
    for node in TimelineFacts(timeline).range_tree:
        mine = np.logical_or.reduce([_launched_by(timeline, row) for row in node.rows.tolist()])
        assert node.busy_ns == _union(ops.start[mine], ops.end[mine])


def test_ranges_nested_without_end_cost_no_more_than_they_say() -> None:
    """Forty thousand around one another: the innermost levels are in the numbers of what encloses them."""
    timeline = random_timeline(0)
    ranges = timeline.ranges
    count = 40_000
    deep = Ranges(
        start=np.zeros(count, dtype=np.int64), end=np.full(count, 1000, dtype=np.int64),
        name=np.zeros(count, dtype=np.int32), kind=np.full(count, RangeKind.PUSH_POP, dtype=np.uint8),
        domain=np.full(count, -1, dtype=np.int32), thread=np.zeros(count, dtype=np.int32),
        end_thread=np.zeros(count, dtype=np.int32), parent=np.arange(-1, count - 1, dtype=np.int32),
        depth=np.minimum(np.arange(count), 32_767).astype(np.int16), is_open=np.zeros(count, dtype=bool),
    )  # fmt: skip
    assert len(ranges) < count
    facts = TimelineFacts(replace(timeline, ranges=deep))
    nodes = list(_walk(facts.range_tree))
    assert [len(node.path) for node in nodes] == list(range(1, DEEPEST + 1))
    assert {node.kernels for node in nodes} == {int(facts.projection.kernels[0])}
    assert len(facts.range_path(count - 1)) == DEEPEST
