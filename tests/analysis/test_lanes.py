"""The lanes of the timeline pane: which there are, in which order, and what they answer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from built_timeline import Built, random_built
from gputui.analysis.lanes import Lane, Lit, lane_of, lanes, read_out
from gputui.model.timeline import (
    CopyKind,
    LaunchShape,
    MemoryKind,
    Process,
    RangeKind,
    Stream,
    Thread,
)


def _titles(found: list[Lane]) -> list[str]:
    return [f"{lane.title}/{lane.level}" if lane.level else lane.title for lane in found]


def test_the_lanes_of_one_gpu_in_their_order() -> None:
    built = Built()
    built.range(0, 900, "step")
    built.range(10, 100, "forward", 1)
    built.range(20, 30, "collective", domain="NCCL")
    built.kernel(0, 10, stream=0)
    built.kernel(20, 400, stream=1)
    built.kernel(50, 90, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", stream=1)
    built.copy(600, 610, CopyKind.DEVICE_TO_HOST)
    built.copy(500, 510, CopyKind.HOST_TO_DEVICE)
    built.copy(520, 530, CopyKind.UNIFIED_HOST_TO_DEVICE)
    built.copy(540, 550, CopyKind.DEVICE_TO_DEVICE)
    built.copy(560, 570, CopyKind.PEER_TO_PEER)
    built.memset(700, 710)
    built.graph(800, 810)
    built.call(0, 5)
    built.call(0, 500, "cudaMalloc", thread=1)
    built.call(0, 9, "poll", os=True)
    built.counter("SMs Active", [0, 10], [50.0, 20.0])
    facts = built.facts()

    assert _titles(lanes(facts)) == [
        "nvtx", "nvtx/1", "NCCL", "idle", "stream 13", "stream 7", "nccl", "graphs",
        "copy H→D", "copy D→H", "copy D→D", "copy peer", "memset",
    ]  # fmt: skip
    every = lanes(facts, extra=("api", "os", "counters"))
    assert _titles(every)[13:] == ["api worker", "api main", "os", "SMs Active"]
    assert every[4].full_title == "stream 13 · GPU 0 GPU"
    assert every[13].full_title == "api · worker 101 · python 100"
    assert [len(lane) for lane in every[3:8]] == [8, 1, 1, 1, 1]


def test_a_timeline_without_events_has_no_lanes() -> None:
    assert lanes(Built(gpus=0, streams=()).facts(), extra=("api", "os", "counters")) == []


def test_what_overlaps_in_a_stream_takes_sub_lanes() -> None:
    built = Built()
    for start, end in ((0, 100), (50, 150), (60, 70), (200, 300)):
        built.kernel(start, end)
    found = [lane for lane in lanes(built.facts()) if lane.kind == "stream"]
    assert [lane.level for lane in found] == [0, 1, 2]
    assert [lane.rows.tolist() for lane in found] == [[0, 3], [1], [2]]


def test_the_busiest_streams_and_threads_come_first() -> None:
    built = Built(
        streams=[Stream(0, 0, number) for number in (1, 2, 3)], threads=[Thread(0, tid) for tid in (100, 7, 8)]
    )
    for stream, length in enumerate((10, 30, 20)):
        built.kernel(stream * 100, stream * 100 + length, stream=stream)
        built.range(stream * 100, stream * 100 + length, "work", thread=stream)
    assert _titles(lanes(built.facts())) == [
        "nvtx 7", "nvtx 8", "nvtx main", "idle", "stream 2", "stream 3", "stream 1",
    ]  # fmt: skip


def test_ranges_beyond_the_depth_are_counted_not_shown() -> None:
    built = Built()
    for depth in range(6):
        built.range(depth, 100 - depth, f"level {depth}", depth)
    found = lanes(built.facts(), range_depth=3)
    assert [(lane.level, lane.hidden) for lane in found] == [(0, 0), (1, 0), (2, 3)]


def test_ranges_that_are_not_nested_have_lanes_of_their_own() -> None:
    built = Built()
    built.range(0, 100, "outer")
    built.range(10, 60, "request 1", kind=RangeKind.START_END)
    built.range(20, 90, "request 2", kind=RangeKind.START_END)
    built.range(30, 40, "handed over", end_thread=1)
    built.range(55, 55, "epoch", kind=RangeKind.MARK)
    found = lanes(built.facts())
    assert [(lane.kind, lane.title, lane.level, len(lane)) for lane in found] == [
        ("nvtx", "nvtx", 0, 1), ("start-end", "ranges", 0, 1), ("start-end", "ranges", 1, 1),
        ("start-end", "ranges", 2, 1), ("marks", "marks", 0, 1),
    ]  # fmt: skip
    assert found[-1].instants.tolist() == [55]


def test_many_ranges_leave_room_for_the_gpu() -> None:
    built = Built(threads=[Thread(0, 100 + one) for one in range(6)])
    for thread in range(6):
        for depth in range(3):
            built.range(depth, 100 - depth - thread, "work", depth, thread)
    built.kernel(0, 10)
    kinds = [lane.kind for lane in lanes(built.facts(), ranges_above=6)]
    assert kinds == ["nvtx"] * 6 + ["stream"] + ["nvtx"] * 12


def test_ranks_and_gpus_are_told_apart() -> None:
    built = Built(
        gpus=4, files=2, processes=[Process(1, "a", 0, rank=0), Process(2, "b", 1, rank=1)],
        streams=[Stream(gpu, gpu // 2, 7) for gpu in range(4)], threads=[Thread(0, 1), Thread(1, 2)],
    )  # fmt: skip
    for gpu in range(4):
        built.kernel(gpu, 10, stream=gpu)
        built.copy(20, 30, CopyKind.HOST_TO_DEVICE, stream=gpu)
    for thread in (0, 1):
        built.range(0, 100, "step", thread=thread)
    assert _titles(lanes(built.facts())) == [
        "r0 nvtx main", "r0g0 idle", "r0g0 s7", "r0g0 H→D", "r0g1 idle", "r0g1 s7", "r0g1 H→D",
        "r1 nvtx main", "r1g0 idle", "r1g0 s7", "r1g0 H→D", "r1g1 idle", "r1g1 s7", "r1g1 H→D",
    ]  # fmt: skip


def test_idle_time_is_what_no_stream_covers() -> None:
    built = Built()
    for start, end, stream in ((10, 50, 0), (40, 70, 1), (100, 120, 0), (125, 130, 1)):
        built.kernel(start, end, stream=stream)
    idle = next(lane for lane in lanes(built.facts()) if lane.kind == "idle")
    assert list(zip(idle.start.tolist(), idle.end.tolist(), strict=True)) == [(70, 100), (120, 125)]
    assert idle.longest_row() == 0
    assert idle.span(1) == (120, 125)


@pytest.mark.parametrize("seed", range(5))
def test_every_event_is_in_one_lane_and_no_two_of_a_lane_overlap(seed: int) -> None:
    facts = random_built(seed).facts()
    timeline = facts.timeline
    found = lanes(facts, extra=("api",))
    for table, events in (("ops", timeline.ops), ("ranges", timeline.ranges), ("calls", timeline.calls)):
        rows = np.concatenate([lane.rows for lane in found if lane.table == table])
        assert sorted(rows.tolist()) == list(range(len(events)))
    for lane in found:
        assert (lane.start[1:] >= lane.end[:-1]).all()


@pytest.mark.parametrize("seed", range(5))
def test_questions_about_time_equal_a_look_at_every_event(seed: int) -> None:
    facts = random_built(seed, span=600, kernels=20).facts()
    for lane in lanes(facts, extra=("api",)):
        events = list(zip(lane.rows.tolist(), lane.start.tolist(), lane.end.tolist(), strict=True))
        for time in range(-5, 760, 3):
            at = [row for row, start, end in events if start <= time < end or start == end == time]
            assert (lane.row_at(time) in at) if at else lane.row_at(time) is None
            after = [row for row, start, _ in events if start > time]
            assert lane.row_after(time) == (after[0] if after else None)
            before = [row for row, start, _ in events if start < time]
            assert lane.row_before(time) == (before[-1] if before else None)
            inside = [row for row, start, end in events if start < time + 40 and (end > time or start == end >= time)]
            assert lane.rows_in(time, time + 40).tolist() == inside


@pytest.mark.parametrize("seed", range(5))
def test_a_lane_covers_what_its_classes_cover(seed: int) -> None:
    facts = random_built(seed, span=900).facts()
    edges = np.sort(np.random.default_rng(seed).integers(0, 1000, 14))
    for lane in lanes(facts, extra=("api",)):
        each = np.zeros(1200, dtype=int)
        for start, end in zip(lane.start, lane.end, strict=True):
            each[start:end] += 1
        cover = lane.cover(edges)
        assert len(cover) == len(lane.classes)
        assert cover.sum(axis=0).tolist() == [each[low:high].sum() for low, high in pairwise(edges)]


def test_classes_of_kernels_copies_calls_and_ranges() -> None:
    built = Built()
    for place, name in enumerate(("sm90_xmma_gemm_bf16", "softmax_warp_forward", "my_kernel")):
        built.kernel(100 * place, 100 * place + 10 + place, name)
    for place, name in enumerate(("cudaGraphLaunch", "cuStreamSynchronize", "cudaMemsetAsync", "cuMemAlloc", "cuInit")):
        built.call(100 * place, 100 * place + 10 + place, name)
    built.call(0, 10, "pthread_cond_timedwait", os=True)
    built.call(20, 30, "open64", os=True)
    found = {lane.kind: lane for lane in lanes(built.facts(), extra=("api", "os"))}

    def by_time(kind: str, times: int) -> list[str]:
        lane = found[kind]
        each = [lane.cover(np.array([100 * one, 100 * one + 100])) for one in range(times)]
        return [lane.classes[int(one.argmax())] for one in each]

    assert by_time("stream", 3) == ["gemm", "attention", "other"]
    assert by_time("api", 5) == ["api-launch", "api-sync", "api-memcpy", "api-alloc", "api-other"]
    assert found["os"].classes == ("os-wait", "os")


def test_ranges_of_one_name_have_one_class_whatever_their_numbers() -> None:
    built = Built()
    for step in range(10):
        built.range(step * 100, step * 100 + 90, f"step {step}")
        built.range(step * 100, step * 100 + 30, "forward", 1)
        built.range(step * 100 + 30, step * 100 + 80, "backward", 1)
    outer, inner = lanes(built.facts())
    assert outer.classes == ("nvtx-0",), "the most time has the first class"
    assert inner.classes == ("nvtx-1", "nvtx-2")


def test_a_counter_covers_its_mean() -> None:
    built = Built()
    built.kernel(0, 1)
    built.counter("SM Active", [0, 10, 20, 30], [100.0, 50.0, 0.0, 25.0])
    lane = lanes(built.facts(), extra=("counters",))[-1]
    assert lane.kind == "counter"
    assert lane.cover(np.array([0, 10, 20, 30, 40])).tolist() == [[10, 5, 0, 2]]
    assert lane.cover(np.array([5, 15])).tolist() == [[8]]


def test_lit_events_by_name_and_by_row() -> None:
    facts = random_built(1).facts()
    timeline = facts.timeline
    name = timeline.names.index("softmax")
    lit = Lit.of_names(facts, "ops", [name])
    rows = np.flatnonzero(timeline.ops.name == name)
    assert lit.rows.tolist() == rows.tolist()
    same = Lit.of_rows(facts, "ops", rows)
    edges = np.arange(0, 4200, 50)
    for lane in lanes(facts):
        if lane.table != "ops":
            assert lit.within(lane, edges) is None
            continue
        chosen = np.isin(lane.rows, rows)
        each = np.zeros(4200, dtype=int)
        for start, end in zip(lane.start[chosen], lane.end[chosen], strict=True):
            each[start : max(end, start + 1)] = 1
        within = lit.within(lane, edges)
        if not chosen.any():
            assert within is None
            continue
        assert within is not None
        expected = each[:4150].reshape(-1, 50).sum(axis=1)
        # An event without duration shares its nanosecond with the next.
        assert (abs(within - expected) <= (lane.instants < 4200).sum()).all()
        again = same.within(lane, edges)
        assert again is not None
        assert (again == within).all()
    first = lit.row_after(-1)
    assert first == rows[0]
    assert lit.row_after(int(timeline.ops.start[rows[3]])) == rows[4]
    assert lit.row_before(int(timeline.ops.start[rows[3]])) == rows[2]
    assert Lit.of_rows(facts, "ops", []).row_after(0) is None


def test_the_lane_of_a_launch() -> None:
    facts = random_built(2).facts()
    found = lanes(facts)
    for row in range(0, len(facts.timeline.ops), 7):
        place = lane_of(found, "ops", row)
        assert place is not None
        assert found[place].has(row)
    assert lane_of(found, "ops", len(facts.timeline.ops)) is None
    assert lane_of(found, "calls", 0) is None


def test_the_read_out_of_a_kernel() -> None:
    built = Built()
    built.range(0, 1000, "step 3")
    built.range(5, 900, "forward", 1)
    built.call(10, 14)
    built.kernel(40, 90, "void ns::gemm<4>(int)", call=0)
    facts = built.facts()
    found = lanes(facts)
    place = lane_of(found, "ops", 0)
    assert place is not None
    told = read_out(facts, found[place], 0)
    assert (told.name, told.start_ns, told.duration_ns) == ("void ns::gemm<4>(int)", 40, 50)
    assert told.shape == LaunchShape((4, 2, 1), (128, 1, 1))
    assert (told.stream, told.thread, told.call, told.call_name, told.latency_ns) == (0, 0, 0, "cudaLaunchKernel", 30)
    assert told.nvtx == ("step 3", "forward")
    assert (told.bytes, told.rate, told.copy) == (None, None, None)
    assert found[place].label(0) == "gemm"


def test_a_copy_whose_size_the_report_does_not_hold_has_neither_size_nor_rate() -> None:
    built = Built()
    built.copy(100, 300, CopyKind.HOST_TO_DEVICE, size=-1)
    facts = built.facts()
    copy = next(lane for lane in lanes(facts) if lane.kind == "copy")
    assert copy.label(0) == ""
    told = read_out(facts, copy, 0)
    assert (told.bytes, told.rate) == (None, None)


def test_the_read_out_of_copies_ranges_calls_gaps_and_counters() -> None:
    built = Built()
    built.range(0, 1000, "step", domain="NCCL")
    built.call(10, 14, "cudaMemcpyAsync")
    built.call(20, 24, "read", os=True)
    built.copy(100, 300, CopyKind.HOST_TO_DEVICE, size=4000)
    built.memset(400, 500, size=77)
    built.counter("SMs Active", [0, 10], [12.0, 34.0])
    facts = built.facts()
    found = {lane.kind: lane for lane in lanes(facts, extra=("api", "os", "counters"))}

    copy = read_out(facts, found["copy"], 0)
    assert (copy.copy, copy.bytes, copy.source, copy.target) == (
        CopyKind.HOST_TO_DEVICE, 4000, MemoryKind.PAGEABLE, MemoryKind.DEVICE,
    )  # fmt: skip
    assert copy.rate == pytest.approx(20e9)
    assert (copy.call, copy.latency_ns, copy.nvtx) == (-1, None, ())
    assert found["copy"].label(0) == "4 kB"
    memset = read_out(facts, found["memset"], 1)
    assert (memset.copy, memset.bytes, memset.source) == (None, 77, None)
    ranges = read_out(facts, found["nvtx"], 0)
    assert (ranges.name, ranges.domain, ranges.nvtx, ranges.is_open) == ("step", "NCCL", ("step",), False)
    assert read_out(facts, found["api"], 0).nvtx == ("step",)
    assert read_out(facts, found["os"], 0).name == "read"
    gap = read_out(facts, found["idle"], 0)
    assert (gap.name, gap.start_ns, gap.end_ns, gap.gpu) == ("", 300, 400, 0)
    assert read_out(facts, found["counter"], 1).value == 34.0
    with pytest.raises(KeyError):
        read_out(facts, found["copy"], 1)
