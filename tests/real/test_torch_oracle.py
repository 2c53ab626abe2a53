"""Real traces of the PyTorch profiler against a count of their JSON worked out apart."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gputui.formats import open_report, torch_trace
from gputui.model.report import Report
from gputui.model.timeline import CopyKind, Events, MemoryKind, OpKind, RangeKind, Timeline

TRACES = (
    "backward_thread.json", "base.json.gz", "nccl_data.json.gz", "rank_non_gpu.json.gz", "sampled_rank-0.json.gz",
    "triton_example.json.gz",
)  # fmt: skip
GPU = {"kernel": OpKind.KERNEL, "gpu_memcpy": OpKind.COPY, "gpu_memset": OpKind.MEMSET}
DOMAINS = {"cpu_op": "PyTorch", "user_annotation": ""}


def trace(reports: Path, name: str) -> Path:
    return reports / "torch" / f"facebookresearch__HolisticTraceAnalysis__{name}"


def loaded(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data, parse_float=Decimal)
    return found


def ns(us: Decimal | int) -> int:
    return int(us * 1000)


def events_of(content: dict[str, Any], *categories: str) -> list[dict[str, Any]]:
    return [event for event in content["traceEvents"] if event["ph"] == "X" and event.get("cat") in categories]


def opened(path: Path) -> tuple[Report, Timeline]:
    report = torch_trace.open(path)
    assert report.timeline is not None
    return report, report.timeline


def sums(timeline: Timeline, events: Events) -> dict[str, tuple[int, int]]:
    """Count and total time in ns by name."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, duration in zip(events.name.tolist(), events.duration.tolist(), strict=True):
        count, total = found[timeline.name(name)]
        found[timeline.name(name)] = (count + 1, total + duration)
    return dict(found)


def sums_of_json(events: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for event in events:
        count, total = found.get(event["name"], (0, 0))
        found[event["name"]] = (count + 1, total + ns(event["dur"]))
    return found


@pytest.mark.parametrize("name", TRACES)
def test_counts_and_total_times_are_those_of_the_json(name: str, reports: Path) -> None:
    path = trace(reports, name)
    content = loaded(path)
    report, timeline = opened(path)
    for category, kind in GPU.items():
        expected = events_of(content, category)
        ops = timeline.ops.take(timeline.ops.kind == kind)
        assert len(ops) == len(expected)
        assert int(ops.duration.sum()) == sum(ns(event["dur"]) for event in expected)
        if kind == OpKind.KERNEL:
            assert sums(timeline, ops) == sums_of_json(expected)
    assert sums(timeline, timeline.calls) == sums_of_json(events_of(content, "cuda_runtime", "cuda_driver"))
    for category, domain in DOMAINS.items():
        of_domain = np.array([timeline.name(place) == domain for place in timeline.ranges.domain], dtype=bool)
        assert sums(timeline, timeline.ranges.take(of_domain)) == sums_of_json(events_of(content, category))
    assert set(timeline.ranges.kind.tolist()) <= {RangeKind.PUSH_POP}
    assert not report.truncated
    assert not report.notices


@pytest.mark.parametrize("name", TRACES)
def test_every_event_has_its_time_from_the_first_one_on(name: str, reports: Path) -> None:
    path = trace(reports, name)
    content = loaded(path)
    _, timeline = opened(path)
    expected = events_of(content, *GPU, *DOMAINS, "cuda_runtime", "cuda_driver")
    zero = min(ns(event["ts"]) for event in expected)
    tables = (timeline.ops, timeline.calls, timeline.ranges)
    found = Counter(
        (start, end) for one in tables for start, end in zip(one.start.tolist(), one.end.tolist(), strict=True)
    )
    times = [(ns(event["ts"]) - zero, ns(event["ts"]) - zero + ns(event["dur"])) for event in expected]
    assert found == Counter(times)
    assert (timeline.start_ns, timeline.end_ns) == (0, max(end for _, end in times))
    for one in tables:
        assert np.array_equal(np.lexsort((-one.end, one.start)), np.arange(len(one)))


@pytest.mark.parametrize("name", TRACES)
def test_operations_are_linked_by_correlation(name: str, reports: Path) -> None:
    path = trace(reports, name)
    content = loaded(path)
    _, timeline = opened(path)
    calls = {event["args"]["correlation"]: event for event in events_of(content, "cuda_runtime", "cuda_driver")}
    zero = min(ns(event["ts"]) for event in events_of(content, *GPU, *DOMAINS, "cuda_runtime", "cuda_driver"))
    expected = Counter()
    for event in events_of(content, *GPU):
        call = calls.get(event["args"]["correlation"])
        args = event["args"]
        launch = None if call is None else (call["name"], ns(call["ts"]) - zero, call["pid"], call["tid"])
        expected[ns(event["ts"]) - zero, args["device"], args["stream"], launch] += 1
    found = Counter()
    for start, place, row in zip(timeline.ops.start.tolist(), timeline.ops.stream, timeline.ops.call, strict=True):
        stream = timeline.streams[place]
        launch = None
        if row >= 0:
            thread = timeline.threads[timeline.calls.thread[row]]
            pid = timeline.processes[thread.process].pid
            assert timeline.processes[stream.process].pid == pid
            launch = (timeline.name(timeline.calls.name[row]), int(timeline.calls.start[row]), pid, thread.tid)
        found[start, timeline.gpus[stream.gpu].ordinal, stream.number, launch] += 1
    assert found == expected


@pytest.mark.parametrize("name", TRACES)
def test_shapes_and_bytes_are_those_of_the_json(name: str, reports: Path) -> None:
    path = trace(reports, name)
    content = loaded(path)
    _, timeline = opened(path)
    expected = Counter(
        (tuple(args["grid"]), tuple(args["block"]), args["registers per thread"], args["shared memory"])
        for args in (event["args"] for event in events_of(content, "kernel"))
    )
    found = Counter()
    for place in timeline.ops.detail[timeline.ops.kind == OpKind.KERNEL]:
        shape = timeline.shapes[place]
        found[shape.grid, shape.block, shape.registers, shape.shared_bytes] += 1
    assert found == expected
    moved = Counter()
    rows = timeline.ops.detail[timeline.ops.kind == OpKind.COPY]
    for row in rows:
        kinds = (timeline.transfers.kind[row], timeline.transfers.source[row], timeline.transfers.target[row])
        moved[kinds] += int(timeline.transfers.bytes[row])
    pageable, pinned, device = MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.DEVICE
    meanings = {
        "Memcpy HtoD (Pageable -> Device)": (CopyKind.HOST_TO_DEVICE, pageable, device),
        "Memcpy HtoD (Pinned -> Device)": (CopyKind.HOST_TO_DEVICE, pinned, device),
        "Memcpy DtoH (Device -> Pageable)": (CopyKind.DEVICE_TO_HOST, device, pageable),
        "Memcpy DtoD (Device -> Device)": (CopyKind.DEVICE_TO_DEVICE, device, device),
    }
    wanted = Counter()
    for event in events_of(content, "gpu_memcpy"):
        wanted[meanings[event["name"]]] += event["args"]["bytes"]
    assert moved == wanted


@pytest.mark.parametrize("name", TRACES)
def test_ranges_lie_in_the_shortest_one_around_them(name: str, reports: Path) -> None:
    _, timeline = opened(trace(reports, name))
    ranges = timeline.ranges
    lanes = defaultdict(list)
    for row, key in enumerate(zip(ranges.thread.tolist(), ranges.domain.tolist(), strict=True)):
        lanes[key].append(row)
    for rows in lanes.values():
        start, end = ranges.start[rows], ranges.end[rows]
        # A sample of each lane, and its ranges that share their start with the one before.
        same = np.flatnonzero(np.diff(start) == 0) + 1
        for place in {*range(0, len(rows), max(1, len(rows) // 300)), *same.tolist()}:
            before = np.flatnonzero((end[:place] >= end[place]) & (end[:place] > start[place]))
            assert ranges.depth[rows[place]] == len(before)
            assert ranges.parent[rows[place]] == (rows[before[-1]] if len(before) else -1)


@pytest.mark.parametrize(
    ("name", "rank", "gpus"),
    [
        ("backward_thread.json", 0, [(0, "unknown GPU", None)]),
        ("base.json.gz", 1, [(1, "unknown GPU", None)]),
        ("nccl_data.json.gz", 0, [(0, "NVIDIA A100-PG509-200", 108)]),
        ("rank_non_gpu.json.gz", 0, []),
        ("sampled_rank-0.json.gz", 0, [(0, "unknown GPU", None)]),
        ("triton_example.json.gz", None, [(0, "NVIDIA A100-PG509-200", 108)]),
    ],
)
def test_ranks_and_gpus_are_those_of_the_file(name: str, rank: int | None, gpus: list[Any], reports: Path) -> None:
    _, timeline = opened(trace(reports, name))
    assert timeline.files[0].rank == rank
    assert [(gpu.ordinal, gpu.device.name, gpu.device.sm_count) for gpu in timeline.gpus] == gpus
    assert all(process.rank == rank for process in timeline.processes)


@pytest.mark.parametrize("name", ["nccl_data.json.gz", "triton_example.json.gz"])
def test_the_wall_clock_is_that_of_the_profilers_own_log(name: str, reports: Path) -> None:
    """The log lines in the trace have local time without a zone, seven hours behind UTC on these machines."""
    path = trace(reports, name)
    _, timeline = opened(path)
    times = [re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line) for line in loaded(path)["INFO"]]
    logged = [datetime.fromisoformat(f"{found[0]}-07:00") for found in times if found is not None]
    wall_ns = timeline.files[0].wall_ns
    assert wall_ns is not None
    start = datetime.fromtimestamp(wall_ns / 1e9, timezone.utc)
    assert min(logged) <= start <= max(logged) + timedelta(seconds=1)


def test_a_cpu_only_trace_says_what_would_bring_the_gpu(reports: Path) -> None:
    _, timeline = opened(trace(reports, "rank_non_gpu.json.gz"))
    assert not len(timeline.ops)
    assert [notice.id for notice in timeline.lacks] == ["lacks-torch-cuda"]


def test_backward_kernels_are_launched_by_a_thread_of_their_own(reports: Path) -> None:
    """The range around ``backward()`` is on the main thread and holds no launch, though it lasts while they run."""
    _, timeline = opened(trace(reports, "backward_thread.json"))
    ranges, calls = timeline.ranges, timeline.calls
    rows = {timeline.name(place): row for row, place in enumerate(ranges.name)}
    backward, outermost = rows["## backward ##"], rows["autograd::engine::evaluate_function: AddmmBackward0"]
    launch = int(timeline.ops.call[0])
    assert calls.thread[launch] != ranges.thread[backward]
    assert calls.thread[launch] == ranges.thread[outermost]
    for row in (backward, outermost):
        assert ranges.start[row] <= calls.start[launch]
        assert calls.end[launch] <= ranges.end[row]
    assert ranges.parent[rows["aten::mm"]] == rows["AddmmBackward0"]
    assert ranges.parent[rows["AddmmBackward0"]] == outermost
    assert ranges.parent[backward] == rows["ProfilerStep#552"]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_cut_off_trace_gives_what_stands_before_the_cut(suffix: str, reports: Path) -> None:
    path = reports / "odd" / f"torch_truncated{suffix}"
    data = path.read_bytes()
    if suffix == ".json.gz":
        data = zlib.decompressobj(wbits=31).decompress(data)
    # The events one by one, as far as they are whole.
    text = data.decode()
    at = text.index("[", text.index('"traceEvents"')) + 1
    whole = []
    while True:
        at = re.compile(r"[\s,]*").match(text, at).end()  # type: ignore[union-attr]
        try:
            event, at = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            break
        whole.append(event)
    report, timeline = opened(path)
    categories = Counter(event.get("cat") for event in whole if event["ph"] == "X")
    assert len(timeline.ops) == categories["kernel"] + categories["gpu_memcpy"] + categories["gpu_memset"] > 0
    assert len(timeline.calls) == categories["cuda_runtime"] + categories["cuda_driver"] > 0
    assert len(timeline.ranges) == categories["cpu_op"] + categories["user_annotation"] > 0
    assert report.truncated
    assert [notice.id for notice in report.notices] == ["trace-cut"]


@pytest.mark.parametrize("name", TRACES)
def test_the_trace_opens_by_content_under_any_name(name: str, reports: Path, tmp_path: Path) -> None:
    copy = tmp_path / "something"
    copy.write_bytes(trace(reports, name).read_bytes())
    report = open_report(copy)
    assert (report.kind, report.timeline is not None) == ("torch", True)
