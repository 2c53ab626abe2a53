"""The tables of a timeline, against arithmetic by hand and brute force."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gputui
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.analysis.timeline_tables import (
    PARTICULARS,
    condensed,
    copies,
    matching,
    select,
    select_ops,
)
from gputui.model.device import Device
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Gpu,
    GpuOps,
    MemoryKind,
    OpKind,
    Process,
    RangeKind,
    Ranges,
    SourceFile,
    Stream,
    Thread,
    Timeline,
)
from traces import ADD, COPY_BYTES, GEMM, KERNELS, STEPS, launched, loop, whole, write_trace


def facts_of(path: Path) -> TimelineFacts:
    timeline = gputui.open_report(path).timeline
    assert timeline is not None
    return TimelineFacts(timeline)


@pytest.fixture
def diagnosis(tmp_path: Path) -> TimelineDiagnosis:
    found = gputui.diagnose(gputui.open_report(write_trace(tmp_path / "loop.json")))
    assert isinstance(found, TimelineDiagnosis)
    return found


# -------------------------------------------------------------------- copies


def test_copies_are_summed_by_direction_and_memory(tmp_path: Path) -> None:
    events = [
        *loop(),
        *launched(901, "Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", 9000, 9010, 40, bytes=4000),
        *launched(902, "Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", 9100, 9110, 30, bytes=600),
        *launched(903, "Memset (Device)", "gpu_memset", 9200, 9210, 20, bytes=512),
        *launched(904, "Memcpy DtoD (Device -> Device)", "gpu_memcpy", 9300, 9310, 10),
    ]
    found = copies(facts_of(write_trace(tmp_path / "a.json", events)))
    assert [(one.kind, one.host, one.count, one.bytes, one.total_ns) for one in found] == [
        (CopyKind.HOST_TO_DEVICE, MemoryKind.PAGEABLE, STEPS, STEPS * COPY_BYTES, STEPS * 100_000),
        (CopyKind.DEVICE_TO_HOST, MemoryKind.PINNED, 1, 4000, 40_000),
        (CopyKind.DEVICE_TO_HOST, MemoryKind.PAGEABLE, 1, 600, 30_000),
        (None, MemoryKind.UNKNOWN, 1, 512, 20_000),
        (CopyKind.DEVICE_TO_DEVICE, MemoryKind.UNKNOWN, 1, None, 10_000),
    ]
    assert found[0].bytes_per_s == pytest.approx(10e9)
    assert found[-1].bytes_per_s is None


def test_a_timeline_without_copies_has_none(tmp_path: Path) -> None:
    assert copies(facts_of(write_trace(tmp_path / "a.json", [whole("work", "user_annotation", 0, 10)]))) == ()


# -------------------------------------------------------------------- what is chosen


def test_everything_is_chosen_where_nothing_is_asked_for(diagnosis: TimelineDiagnosis) -> None:
    chosen = select(diagnosis)
    assert chosen.is_whole
    assert chosen.kernels == diagnosis.kernels
    assert {
        share.kernel.demangled: (share.group.count, share.group.total_ns // 1000) for share in chosen.kernels
    } == KERNELS
    assert chosen.ops.all()


def test_the_outermost_ranges_that_match_are_chosen(diagnosis: TimelineDiagnosis) -> None:
    nodes = diagnosis.facts.range_tree
    assert {node.path for node in matching(nodes, re.compile("Step#[12]$"))} == {
        ("ProfilerStep#1",),
        ("ProfilerStep#2",),
    }
    assert {node.path for node in matching(nodes, re.compile("Step#3/forw"))} == {("ProfilerStep#3", "forward")}
    assert matching(nodes, re.compile("backward")) == ()


def test_a_path_matches_as_it_is_shown_too(diagnosis: TimelineDiagnosis) -> None:
    """With ``#`` for the numbers, under which ranges are listed."""
    nodes = diagnosis.facts.range_tree
    found = matching(nodes, re.compile("^ProfilerStep#/forward$"))
    assert {node.path for node in found} == {(f"ProfilerStep#{step}", "forward") for step in range(8)}


def test_nvtx_chooses_what_the_ranges_launched(diagnosis: TimelineDiagnosis) -> None:
    chosen = select(diagnosis, nvtx=re.compile("#[0-2]/forward"))
    assert [(share.kernel.demangled, share.group.count, share.group.total_ns) for share in chosen.kernels] == [
        (GEMM, 6, 600_000),
        (ADD, 3, 150_000),
    ]
    assert [share.share for share in chosen.kernels] == pytest.approx([0.8, 0.2])
    assert [(one.count, one.total_ns) for one in chosen.copies] == [(3, 300_000)]
    assert not chosen.is_whole


def test_kernel_finds_names_short_or_full(diagnosis: TimelineDiagnosis) -> None:
    assert [one.kernel.demangled for one in select(diagnosis, re.compile("^vectorized")).kernels] == [ADD]
    assert [one.kernel.demangled for one in select(diagnosis, re.compile("Functor_add")).kernels] == [ADD]
    both = select(diagnosis, re.compile("sgemm"), re.compile("Step#5"))
    assert [(one.kernel.demangled, one.group.count) for one in both.kernels] == [(GEMM, 2)]
    assert int(both.ops.sum()) == 2


def test_the_operations_alone_are_chosen_alike(diagnosis: TimelineDiagnosis) -> None:
    for kernel, nvtx in (
        (None, None),
        (re.compile("sgemm"), None),
        (None, re.compile("#3")),
        (re.compile("add"), re.compile("#3")),
    ):
        assert (select_ops(diagnosis.facts, kernel, nvtx) == select(diagnosis, kernel, nvtx).ops).all()


# -------------------------------------------------------------------- the tree of ranges


def test_ranges_that_differ_in_numbers_alone_are_one(diagnosis: TimelineDiagnosis) -> None:
    (step,) = condensed(diagnosis.facts.range_tree)
    assert (step.name, step.count, step.cpu_ns) == ("ProfilerStep#", STEPS, STEPS * 999_000)
    assert step.kernels == 3 * STEPS
    assert step.busy_ns == STEPS * 350_000
    data, forward = condensed(step.children)
    assert (data.name, data.count, data.kernels, data.idle_share) == ("data", STEPS, 0, 1.0)
    assert (forward.name, forward.count, forward.kernels, forward.cpu_ns) == (
        "forward",
        STEPS,
        3 * STEPS,
        STEPS * 390_000,
    )


def test_what_pytorch_writes_behind_an_operation_is_left_out(tmp_path: Path) -> None:
    events = [
        whole(f"aten::mm, seq = {one}, op_id = {one + 7}, sizes = [[{one}, 2], [2, 2]]", "user_annotation", 10 * one, 5)
        for one in range(4)
    ]
    (node,) = condensed(facts_of(write_trace(tmp_path / "a.json", events)).range_tree)
    assert (node.name, node.count) == ("aten::mm", 4)


# -------------------------------------------------------------------- the range around an operation


def nested(random: np.random.Generator, start: int, end: int, depth: int) -> Iterator[tuple[int, int, int]]:
    """Random ranges within ``[start, end]`` that lie beside or in one another: start, end, depth."""
    borders = np.sort(random.choice(np.arange(start, end), size=6, replace=False)).tolist()
    for low, high in zip(borders[::2], borders[1::2], strict=True):
        yield low, high, depth
        if depth < 2 and high - low > 20:
            yield from nested(random, low + 1, high, depth + 1)


def random_timeline(seed: int) -> Timeline:
    random = np.random.default_rng(seed)
    rows = [
        (low, high, depth, thread, domain)
        for thread in (0, 1)
        for domain in (-1, 0)
        for low, high, depth in nested(random, 0, 1000, 0)
    ]
    rows.sort(key=lambda row: (row[0], -row[1]))
    start, end, depth, thread, domain = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    parent = np.full(len(rows), -1)
    for one in range(len(rows)):
        around = (start < start[one]) & (end > end[one]) & (thread == thread[one]) & (domain == domain[one])
        if around.any():
            parent[one] = np.flatnonzero(around)[depth[around].argmax()]
    count = 300
    called = np.sort(random.integers(0, 1000, count))
    link = np.arange(count)
    link[random.random(count) < 0.1] = -1
    zeros = np.zeros(count, dtype=np.int32)
    return Timeline(
        names=["domain"],
        files=[SourceFile("a", "nsys")],
        gpus=[Gpu(0, Device("GPU"))],
        processes=[Process(1)],
        streams=[Stream(0, 0, 7)],
        threads=[Thread(0, 1), Thread(0, 2)],
        calls=Calls(start=called, end=called, name=zeros, thread=random.integers(0, 2, count).astype(np.int32)),
        ops=GpuOps(
            start=called + 5000, end=called + 5001, name=zeros, kind=np.full(count, OpKind.KERNEL, dtype=np.uint8),
            stream=zeros, call=link.astype(np.int32), detail=zeros - 1, graph=zeros,
        ),
        ranges=Ranges(
            start=start, end=end, name=np.zeros(len(rows), dtype=np.int32),
            kind=np.full(len(rows), RangeKind.PUSH_POP, dtype=np.uint8), domain=domain.astype(np.int32),
            thread=thread.astype(np.int32), end_thread=thread.astype(np.int32), parent=parent.astype(np.int32),
            depth=depth.astype(np.int16), is_open=np.zeros(len(rows), dtype=bool),
        ),
        end_ns=6001,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_the_innermost_range_is_that_of_brute_force(seed: int) -> None:
    timeline = random_timeline(seed)
    ranges, calls = timeline.ranges, timeline.calls
    found = TimelineFacts(timeline).ranges_of_ops
    domains = set()
    for op, call in enumerate(timeline.ops.call.tolist()):
        expected = -1
        if call >= 0:
            time = calls.start[call]
            around = (ranges.thread == calls.thread[call]) & (ranges.start <= time) & (ranges.end >= time)
            own = around & (ranges.domain == -1)
            around = own if own.any() else around
            if around.any():
                expected = int(np.flatnonzero(around)[ranges.start[around].argmax()])
                domains.add(int(ranges.domain[expected]))
        assert expected == found[op]
    assert domains == {-1, 0}


def test_an_operation_without_call_or_ranges_is_in_none(tmp_path: Path) -> None:
    kernel = [event for event in launched(1, GEMM, "kernel", 0, 10, 5) if event["cat"] == "kernel"]
    assert facts_of(write_trace(tmp_path / "a.json", kernel)).ranges_of_ops.tolist() == [-1]
    around = whole("step", "user_annotation", 0, 100)
    assert facts_of(write_trace(tmp_path / "b.json", [*kernel, around])).ranges_of_ops.tolist() == [-1]


def test_hostile_range_names_take_no_time() -> None:
    begin = time.perf_counter()
    assert PARTICULARS.sub("", "aten::mm" + ", seq = " * 100_000 + "\nx") == "aten::mm"
    assert time.perf_counter() - begin < 1
