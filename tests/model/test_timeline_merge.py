from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from gputui.model.device import Device
from gputui.model.report import Notice
from gputui.model.timeline import (
    Calls,
    Counter,
    Gpu,
    GpuOps,
    LaunchShape,
    OpKind,
    Process,
    RangeKind,
    Ranges,
    Samples,
    SourceFile,
    Stream,
    Thread,
    Timeline,
    Transfers,
)
from gputui.model.timeline_merge import merge
from gputui.wording import LANGUAGES, wording


def ints(*values: int, type: type[np.generic] = np.int32) -> Any:
    return np.array(values, dtype=type)


def ns(*values: int) -> Any:
    return ints(*values, type=np.int64)


def timeline(rank: int, wall: int | None, begin: int = 0) -> Timeline:
    """A step with a launch, a copy and a kernel that is named after the rank, from ``begin`` on."""
    return Timeline(
        names=("launch", "step", f"kernel of {rank}", "[CUDA memset]", "lib"),
        short_names={2: f"k{rank}"},
        files=(SourceFile(f"rank{rank}.sqlite", "nsys", wall_ns=wall, rank=rank),),
        gpus=(Gpu(rank, Device(f"GPU {rank}")),),
        processes=(Process(100 + rank),),
        streams=(Stream(0, 0, 7), Stream(0, -1, 8)),
        threads=(Thread(0, 100 + rank), Thread(-1, 5)),
        shapes=(LaunchShape((1, 1, 1 + rank)),),
        ops=GpuOps(
            start=ns(begin + 20, begin + 30), end=ns(begin + 25, begin + 40), name=ints(3, 2),
            kind=ints(OpKind.MEMSET, OpKind.KERNEL, type=np.uint8), stream=ints(0, 1), call=ints(-1, 1),
            detail=ints(0, 0), graph=ints(0, 0),
        ),
        transfers=Transfers(
            bytes=ns(64 + rank),
            **{name: ints(0, type=np.uint8) for name in ("kind", "source", "target")},
        ),
        calls=Calls(
            start=ns(begin + 10, begin + 12), end=ns(begin + 11, begin + 14), name=ints(0, 0), thread=ints(0, 0)
        ),
        os_calls=Calls(start=ns(begin + 1), end=ns(begin + 2), name=ints(0), thread=ints(1)),
        ranges=Ranges(
            start=ns(begin, begin + 5, begin + 8), end=ns(begin + 50, begin + 40, begin + 8), name=ints(1, 1, 1),
            kind=ints(RangeKind.PUSH_POP, RangeKind.PUSH_POP, RangeKind.MARK, type=np.uint8),
            domain=ints(-1, 4, -1), thread=ints(0, 0, 1), end_thread=ints(0, 0, 0), parent=ints(-1, 0, 1),
            depth=ints(0, 1, 2, type=np.int16), is_open=np.array([False, True, False]),
        ),
        faults=Calls(start=ns(begin + 3), end=ns(begin + 4), name=ints(0), thread=ints(-1)),
        counters=(Counter("SMs Active", 0, ns(begin + 7), np.array([50.0])),),
        samples=Samples(ns(begin + 6), ints(0)),
        lacks=(Notice("lacks-copies"),),
        start_ns=begin,
        end_ns=begin + 50,
    )  # fmt: skip


def check_links(whole: Timeline, ranks: int) -> None:
    """What each rank's rows say, through all links."""
    for table in (whole.ops, whole.calls, whole.os_calls, whole.ranges, whole.faults):
        assert (np.diff(table.start) >= 0).all()
    seen = []
    for row in np.flatnonzero(whole.ops.kind == OpKind.KERNEL).tolist():
        rank = int(whole.names[whole.ops.name[row]].rpartition(" ")[2])
        seen.append(rank)
        assert whole.short_names[whole.ops.name[row]] == f"k{rank}"
        stream = whole.streams[whole.ops.stream[row]]
        assert (stream.number, stream.process) == (8, -1)
        gpu = whole.gpus[stream.gpu]
        assert gpu.device.name == f"GPU {rank}"
        assert whole.files[gpu.file].rank == rank
        assert whole.shapes[whole.ops.detail[row]].grid == (1, 1, 1 + rank)
        call = int(whole.ops.call[row])
        assert whole.ops.start[row] - whole.calls.start[call] == 18
        thread = whole.threads[whole.calls.thread[call]]
        assert thread.tid == whole.processes[thread.process].pid == 100 + rank
        assert whole.files[whole.processes[thread.process].file].rank == rank
    assert sorted(seen) == list(range(ranks))
    for row in np.flatnonzero(whole.ops.kind == OpKind.MEMSET).tolist():
        stream = whole.streams[whole.ops.stream[row]]
        rank = whole.processes[stream.process].pid - 100
        assert whole.transfers.bytes[whole.ops.detail[row]] == 64 + rank
        assert whole.ops.call[row] == -1
    ranges = whole.ranges
    for row in range(len(ranges)):
        parent, depth = int(ranges.parent[row]), int(ranges.depth[row])
        assert (parent < 0) == (depth == 0)
        if depth == 1:
            assert ranges.start[row] - ranges.start[parent] == 5
            assert whole.names[ranges.domain[row]] == "lib"
            assert ranges.is_open[row]
        elif depth == 2:
            assert ranges.start[row] - ranges.start[parent] == 3
            assert whole.threads[ranges.thread[row]].process == -1
            assert ranges.domain[row] == -1
    assert [whole.gpus[one.gpu].ordinal for one in whole.counters] == list(range(ranks))
    assert whole.faults.thread.tolist() == [-1] * ranks
    assert len(whole.names) == len(set(whole.names)) == 4 + ranks
    for table in (GpuOps, Calls, Ranges):
        (one,) = (one for one in (whole.ops, whole.calls, whole.ranges) if type(one) is table)
        (old,) = (
            one for one in (timeline(0, 0).ops, timeline(0, 0).calls, timeline(0, 0).ranges) if type(one) is table
        )
        for column in fields(table):
            assert getattr(one, column.name).dtype == getattr(old, column.name).dtype


def test_ranks_are_aligned_on_the_wall_clock() -> None:
    """Rank 1 was started 15 ns before rank 0: its clock shows 15 more at the same moment."""
    whole = merge([timeline(0, 1_000_000), timeline(1, 999_985), timeline(2, 1_000_003)])
    assert [file.shift_ns for file in whole.files] == [15, 0, 18]
    assert (whole.start_ns, whole.end_ns) == (0, 68)
    assert whole.calls.start.tolist() == [10, 12, 25, 27, 28, 30]
    assert whole.samples is not None
    assert whole.samples.time.tolist() == [6, 21, 24]
    assert [whole.threads[one].tid for one in whole.samples.thread] == [101, 100, 102]
    assert [one.time.tolist() for one in whole.counters] == [[22], [7], [25]]
    assert [one.id for one in whole.lacks] == ["lacks-copies"]
    check_links(whole, 3)


def test_the_first_to_start_keeps_its_times() -> None:
    """Not the file whose clock began first, but the one whose events do."""
    whole = merge([timeline(0, 1_000_000, begin=500), timeline(1, 1_000_100, begin=10)])
    assert [file.shift_ns for file in whole.files] == [-100, 0]
    assert whole.start_ns == 10
    assert whole.ranges.start.tolist() == [10, 15, 18, 400, 405, 408]
    check_links(whole, 2)


def test_without_the_wall_clock_each_starts_at_0() -> None:
    whole = merge([timeline(0, None, begin=7), timeline(1, 1_000_000, begin=900)])
    assert [file.shift_ns for file in whole.files] == [-7, -900]
    assert (whole.start_ns, whole.end_ns) == (0, 50)
    assert [one.id for one in whole.lacks] == ["lacks-copies", "not-aligned"]
    for language in LANGUAGES:
        assert "2" in wording(language).notice(whole.lacks[1])
    check_links(whole, 2)


def test_merging_what_is_merged_already() -> None:
    parts = [timeline(0, 1_000_000), timeline(1, 999_985), timeline(2, 999_900)]
    at_once, by_steps = merge(parts), merge([merge(parts[:2]), parts[2]])
    assert [file.shift_ns for file in by_steps.files] == [file.shift_ns for file in at_once.files] == [100, 85, 0]
    for one, other in ((at_once.ops, by_steps.ops), (at_once.ranges, by_steps.ranges)):
        assert one.start.tolist() == other.start.tolist()
    check_links(by_steps, 3)


def test_random_tables_against_a_plain_sort() -> None:
    random = np.random.default_rng(5)
    parts = []
    for rank in range(4):
        start = np.sort(random.integers(0, 1000, 300))
        calls = Calls(
            start=start, end=start + 5, name=np.zeros(300, dtype=np.int32), thread=np.zeros(300, dtype=np.int32)
        )
        call = random.integers(-1, 300, 300).astype(np.int32)
        ops = GpuOps(
            start=start + 7, end=start + 9, name=np.zeros(300, dtype=np.int32),
            kind=np.zeros(300, dtype=np.uint8), stream=np.zeros(300, dtype=np.int32), call=call,
            detail=np.zeros(300, dtype=np.int32), graph=np.zeros(300, dtype=np.int32),
        )  # fmt: skip
        base = timeline(rank, 1000 * rank)
        parts.append(
            Timeline(
                names=base.names, files=base.files, gpus=base.gpus, processes=base.processes, streams=base.streams,
                threads=base.threads, shapes=base.shapes, ops=ops, calls=calls, start_ns=0, end_ns=1009,
            )
        )  # fmt: skip
    whole = merge(parts)
    expected = sorted(
        (int(op) + 1000 * rank, int(part.calls.start[call]) + 1000 * rank if call >= 0 else -1, rank)
        for rank, part in enumerate(parts)
        for op, call in zip(part.ops.start, part.ops.call.tolist(), strict=True)
    )
    found = sorted(
        (int(op), int(whole.calls.start[call]) if call >= 0 else -1, int(stream) // 2)
        for op, call, stream in zip(whole.ops.start, whole.ops.call.tolist(), whole.ops.stream, strict=True)
    )
    assert found == expected


def test_one_alone_stays_as_it_is() -> None:
    one = timeline(0, None)
    assert merge([one]) is one


def test_timelines_without_anything() -> None:
    empty = [Timeline(names=(), files=(SourceFile(f"{n}", "nsys"),)) for n in range(2)]
    whole = merge(empty)
    assert len(whole.ops) == len(whole.ranges) == 0
    assert whole.samples is None


def test_clocks_too_far_apart_are_not_aligned() -> None:
    far = merge([timeline(0, 1), timeline(1, 2**61 + 2)])
    assert [file.shift_ns for file in far.files] == [0, 0]
    assert Notice("not-aligned", {"count": 2}) in far.lacks
    near = merge([timeline(0, 1), timeline(1, 2**60)])
    assert near.files[1].shift_ns == 2**60 - 1
    assert near.end_ns > 2**60 - 1


def test_absurd_durations_and_sizes_can_still_be_summed_together() -> None:
    def absurd(rank: int) -> Timeline:
        one = timeline(rank, None)
        ops = replace(one.ops, end=one.ops.start + 2**60)
        sizes = replace(one.transfers, bytes=ns(2**60))
        return replace(one, ops=ops, transfers=sizes, end_ns=2**60 + 40)

    merged = merge([absurd(rank) for rank in range(40)])
    assert sum(merged.ops.duration.tolist()) < 2**62
    assert sum(merged.transfers.bytes.tolist()) < 2**62
