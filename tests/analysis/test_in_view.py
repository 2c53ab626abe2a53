"""What a stretch of a timeline holds, against sums made one event at a time."""

from __future__ import annotations

import numpy as np
import pytest

from gputui.analysis import in_view as module
from gputui.analysis.in_view import after_gap, in_view, meanwhile
from gputui.analysis.lanes import Lane, lanes
from gputui.analysis.timeline import TimelineFacts
from gputui.model.device import Device
from gputui.model.timeline import (
    Calls,
    Gpu,
    GpuOps,
    Process,
    RangeKind,
    Ranges,
    SourceFile,
    Stream,
    Thread,
    Timeline,
)

NAMES = ("gemm", "softmax", "add", "cudaLaunchKernel", "cudaStreamSynchronize", "poll", "outer", "inner")


def facts_with(seed: int, kernels: int = 200) -> TimelineFacts:
    """Kernels of three names one after the other with gaps, each launched by a call 50 ns before it begins."""
    random = np.random.default_rng(seed)
    lengths, gaps = random.integers(1, 500, kernels), random.integers(60, 300, kernels)
    end = np.cumsum(lengths + gaps).astype(np.int64)
    start = end - lengths
    zeros = np.zeros(kernels, dtype=np.int32)
    ops = GpuOps(
        start=start, end=end, name=random.integers(0, 3, kernels).astype(np.int32),
        kind=np.zeros(kernels, dtype=np.uint8), stream=zeros, call=np.arange(kernels, dtype=np.int32), detail=zeros - 1,
        graph=zeros,
    )  # fmt: skip
    calls = Calls(start=start - 50, end=start - 40, name=zeros + 3, thread=zeros)
    whole = np.array([0, 0], dtype=np.int64), np.array([end[-1], end[-1]], dtype=np.int64)
    two = np.zeros(2, dtype=np.int32)
    ranges = Ranges(
        start=whole[0], end=whole[1], name=np.array([6, 7], dtype=np.int32),
        kind=np.full(2, RangeKind.PUSH_POP, dtype=np.uint8), domain=two - 1, thread=two, end_thread=two,
        parent=np.array([-1, 0], dtype=np.int32), depth=np.array([0, 1], dtype=np.int16),
        is_open=np.zeros(2, dtype=bool),
    )  # fmt: skip
    return TimelineFacts(
        Timeline(
            names=NAMES, files=(SourceFile("x", "nsys"),),
            gpus=(Gpu(0, Device("GPU", (9, 0), 132, 1e9, 1e9, 5120, 1)),), processes=(Process(1),),
            streams=(Stream(0, 0, 7),), threads=(Thread(0, 1),), ops=ops, calls=calls, ranges=ranges,
            end_ns=int(end[-1]),
        )
    )  # fmt: skip


def lane_of_kind(facts: TimelineFacts, kind: str) -> Lane:
    return next(lane for lane in lanes(facts) if lane.kind == kind)


@pytest.mark.parametrize("seed", range(5))
def test_names_are_summed_with_the_part_of_each_event_inside(seed: int) -> None:
    facts = facts_with(seed)
    ops, lane = facts.timeline.ops, lane_of_kind(facts, "stream")
    begin, stop = int(ops.start[20]) + 1, int(ops.end[150]) - 1
    expected: dict[int, list[int]] = {}
    for start, end, name in zip(ops.start.tolist(), ops.end.tolist(), ops.name.tolist(), strict=True):
        if start < stop and end > begin:
            expected.setdefault(name, []).append(min(end, stop) - max(start, begin))
    found = in_view(facts, lane, begin, stop, 10)
    assert found is not None
    assert {part.name: (part.count, part.total_ns, part.longest_ns) for part in found} == {
        name: (len(parts), sum(parts), max(parts)) for name, parts in expected.items()
    }
    assert [part.total_ns for part in found] == sorted((part.total_ns for part in found), reverse=True)
    assert all(ops.name[lane.rows[part.place]] == part.name for part in found)
    assert in_view(facts, lane, begin, stop, 2) == found[:2]


def test_gaps_come_one_by_one_the_longest_first() -> None:
    facts = facts_with(7)
    ops, lane = facts.timeline.ops, lane_of_kind(facts, "idle")
    lengths = sorted((ops.start[1:] - ops.end[:-1]).tolist(), reverse=True)
    found = in_view(facts, lane, 0, facts.timeline.end_ns, 5)
    assert found is not None
    assert [part.total_ns for part in found] == lengths[:5]
    assert all(lane.end[part.place] - lane.start[part.place] == part.total_ns for part in found)


def test_nothing_in_view_is_nothing_and_too_much_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_with(1)
    lane, ops = lane_of_kind(facts, "stream"), facts.timeline.ops
    assert in_view(facts, lane, int(ops.end[3]), int(ops.start[4]), 5) == ()
    monkeypatch.setattr(module, "MOST_IN_VIEW", 10)
    assert in_view(facts, lane, 0, facts.timeline.end_ns, 5) is None
    assert in_view(facts, lane, int(ops.start[0]), int(ops.end[9]), 5) is not None


def test_a_gap_is_ended_by_an_operation_that_a_thread_launched_inside_ranges() -> None:
    facts = facts_with(2)
    ops = facts.timeline.ops
    after = after_gap(facts, 0, int(ops.end[4]), int(ops.start[5]))
    assert (after.op, after.thread, after.path) == (5, 0, ("outer", "inner"))
    after = after_gap(facts, 0, int(ops.end[-1]), int(ops.end[-1]) + 10)
    assert (after.op, after.thread, after.path) == (-1, -1, ())


def test_what_a_thread_did_adds_up_to_the_whole_time() -> None:
    facts = facts_with(3)
    ops = facts.timeline.ops
    start, end = int(ops.end[4]), int(ops.start[5])
    story = meanwhile(facts, 0, start, end)
    assert story.calls == ((3, 10 / (end - start)),)
    assert story.outside + sum(share for _, share in story.calls) == pytest.approx(1)
    assert story.waits == ()
