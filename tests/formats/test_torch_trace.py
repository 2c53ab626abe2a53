"""Chrome traces written by hand: what becomes what, exact times, nesting, and files that are not as they should be."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gputui.errors import GputuiError
from gputui.formats import _chrome_trace, torch_trace
from gputui.model.report import Report
from gputui.model.timeline import CopyKind, LaunchShape, MemoryKind, OpKind, RangeKind, Timeline
from gputui.wording import wording

KERNEL_ARGS = {
    "device": 0, "context": 1, "stream": 7, "correlation": 11, "registers per thread": 40, "shared memory": 400,
    "grid": [512, 2, 1], "block": [128, 1, 1], "warps per SM": 2.5, "graph id": 0,
}  # fmt: skip


def whole(category: str, name: str, ts: float, dur: float, pid: Any = 77, tid: Any = 77, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return whole("kernel", name, ts, dur, 0, 7, **{**KERNEL_ARGS, **args})


def op(ts: float = 0, dur: float = 1, name: str = "aten::add", **place: Any) -> dict[str, Any]:
    return whole("cpu_op", name, ts, dur, **place)


def text_of(events: Sequence[Any], **beside: Any) -> str:
    return json.dumps({"schemaVersion": 1, **beside, "traceEvents": events})


def opened(tmp_path: Path, text: str | bytes, name: str = "trace.json") -> Report:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return torch_trace.open(path)


def timeline_of(tmp_path: Path, events: Sequence[Any], **beside: Any) -> Timeline:
    timeline = opened(tmp_path, text_of(events, **beside)).timeline
    assert timeline is not None
    return timeline


def names(timeline: Timeline, places: Any) -> list[str]:
    return [timeline.name(place) for place in places]


def notices(report: Report) -> list[str]:
    assert report.timeline is not None
    return [wording("en").notice(notice) for notice in (*report.notices, *report.timeline.lacks)]


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": []}',
        '{\n "schemaVersion": 1,\n "deviceProperties": [{"id": 0',
        '{"distributedInfo": {"rank": 0}, "traceEvents": [',
        '\ufeff [ {"name": "a", "args": {"x": {}}, "ph": "X"',
    ],
)
def test_traces_are_recognised_by_content(text: str) -> None:
    assert torch_trace.recognises(text.encode())
    assert torch_trace.recognises(gzip.compress(text.encode()))


@pytest.mark.parametrize(
    "head",
    [b"", b"[1, 2]", b'{"schemaVersion": 2, "mediaType": "x"}', b'[{"name": "a"}]', b"\x1f\x8b\x08nonsense", b"SQLite"],
)
def test_other_files_are_not(head: bytes) -> None:
    assert not torch_trace.recognises(head)


def test_a_kernel_has_its_shape_its_stream_and_the_call_that_launched_it(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path,
        [
            {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "python3"}},
            {"ph": "M", "name": "thread_name", "pid": 77, "tid": 78, "args": {"name": "thread 78 (pt_main_thread)"}},
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
            whole("cuda_runtime", "cudaLaunchKernel_v7000", 10, 5, tid=78, correlation=11),
            whole("cuda_runtime", "cudaMalloc", 20, 1, tid=78, correlation=12),
            kernel("gemm", 30, 4.5, **{"graph id": 3}),
            kernel("gemm", 40, 2, correlation=99, grid=None, block=[0, 1, 1]),
        ],
        deviceProperties=[
            {"id": 1, "name": "idle", "numSms": 1},
            {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132},
        ],
    )
    ops, calls = timeline.ops, timeline.calls
    assert names(timeline, calls.name) == ["cudaLaunchKernel", "cudaMalloc"]
    assert ops.kind.tolist() == [OpKind.KERNEL, OpKind.KERNEL]
    assert ops.call.tolist() == [0, -1]
    assert ops.graph.tolist() == [3, 0]
    assert ops.duration.tolist() == [4500, 2000]
    assert [timeline.shapes[place] for place in ops.detail] == [
        LaunchShape((512, 2, 1), (128, 1, 1), 40, 400),
        LaunchShape(None, None, 40, 400),
    ]
    (stream,), (gpu,), (process,), (thread,) = timeline.streams, timeline.gpus, timeline.processes, timeline.threads
    assert (stream.gpu, stream.process, stream.number, stream.context, stream.name) == (0, 0, 7, 1, "")
    assert (gpu.ordinal, gpu.device.name, gpu.device.compute_capability, gpu.device.sm_count) == (
        0, "NVIDIA H200", (9, 0), 132,
    )  # fmt: skip
    assert (process.pid, process.name, thread.tid, thread.name) == (77, "python3", 78, "pt_main_thread")


def test_copies_and_memsets_are_named_as_nsys_names_them(tmp_path: Path) -> None:
    place = {"device": 0, "stream": 7}
    timeline = timeline_of(
        tmp_path,
        [
            whole("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1, 1, 0, 7, bytes=64, **place),
            whole("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 2, 1, 0, 7, inDevice=1, stream=7),
            whole("gpu_memset", "Memset (Managed Static)", 3, 1, 0, 7, bytes=8, **place),
            whole("gpu_memcpy", "Memcpy by magic", 4, 1, 0, 7, **place),
        ],
    )
    assert names(timeline, timeline.ops.name) == [
        "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Peer-to-Peer]", "[CUDA memset]", "[CUDA memcpy Unknown]",
    ]  # fmt: skip
    assert timeline.ops.kind.tolist() == [OpKind.COPY, OpKind.COPY, OpKind.MEMSET, OpKind.COPY]
    rows = timeline.ops.detail
    transfers = timeline.transfers
    assert transfers.bytes[rows].tolist() == [64, -1, 8, -1]
    assert transfers.kind[rows].tolist() == [
        CopyKind.HOST_TO_DEVICE, CopyKind.PEER_TO_PEER, CopyKind.UNKNOWN, CopyKind.UNKNOWN,
    ]  # fmt: skip
    unknown = MemoryKind.UNKNOWN
    assert transfers.source[rows].tolist() == [MemoryKind.PAGEABLE, MemoryKind.DEVICE, unknown, unknown]
    assert transfers.target[rows].tolist() == [
        MemoryKind.DEVICE, MemoryKind.DEVICE, MemoryKind.MANAGED_STATIC, unknown,
    ]  # fmt: skip
    assert [gpu.ordinal for gpu in timeline.gpus] == [0, 1]
    assert [timeline.streams[place].gpu for place in timeline.ops.stream] == [0, 1, 0, 0]


def test_ranges_are_of_the_domain_that_made_them(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path,
        [
            whole("user_annotation", "ProfilerStep#3", 0, 10),
            whole("python_function", "train.py(3): step", 1, 8),
            op(2, 5),
            whole("Operator", "aten::old", 3, 1),
            whole("gpu_user_annotation", "ProfilerStep#3", 0, 10, 0, 7),
            whole("cuda_sync", "Context Sync", 0, 10, 0, -1, stream=4294967295),
            whole("overhead", "Lazy Function Loading", 4, 1, -1, 0),
            {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 500},
            {"ph": "s", "id": 1, "pid": 77, "tid": 77, "ts": 2, "cat": "ac2g", "name": "ac2g"},
        ],
    )
    ranges = timeline.ranges
    found = list(zip(names(timeline, ranges.name), names(timeline, ranges.domain), strict=True))
    assert found == [
        ("ProfilerStep#3", ""), ("train.py(3): step", "Python"), ("aten::add", "PyTorch"), ("aten::old", "PyTorch"),
    ]  # fmt: skip
    assert ranges.parent.tolist() == [-1, -1, -1, 2]
    assert (names(timeline, timeline.overhead.name), timeline.overhead.thread.tolist()) == (
        ["Lazy Function Loading"], [-1],
    )  # fmt: skip
    assert timeline.span_ns == 10_000
    assert not len(timeline.ops)


def test_ranges_nest_by_thread_and_of_equal_starts_the_longer_encloses(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path,
        [
            op(0, 10, "short"), op(0, 20, "long"), op(0, 10, "twin"), op(10, 10, "next"), op(12, 0, "instant"),
            op(12, 0, "instant too"), op(5, 100, "elsewhere", tid=78), op(20, 5, "after"),
        ],
    )  # fmt: skip
    ranges = timeline.ranges
    order = names(timeline, ranges.name)
    parents = {name: order[parent] if parent >= 0 else None for name, parent in zip(order, ranges.parent, strict=True)}
    assert parents == {
        "long": None, "short": "long", "twin": "short", "elsewhere": None, "next": "long", "instant": "next",
        "instant too": "next", "after": None,
    }  # fmt: skip
    depths = dict(zip(order, ranges.depth.tolist(), strict=True))
    assert depths == {
        "long": 0, "short": 1, "twin": 2, "elsewhere": 0, "next": 1, "instant": 2, "instant too": 2, "after": 0,
    }  # fmt: skip
    assert (ranges.kind == RangeKind.PUSH_POP).all()


def test_a_range_that_crosses_the_end_of_another_is_a_start_end_range(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [op(0, 100, "out"), op(10, 20, "in"), op(20, 30, "crosses"), op(25, 2, "leaf")])
    ranges = timeline.ranges
    assert ranges.kind.tolist() == [
        RangeKind.PUSH_POP, RangeKind.PUSH_POP, RangeKind.START_END, RangeKind.PUSH_POP,
    ]  # fmt: skip
    assert ranges.parent.tolist() == [-1, 0, 0, 1]
    assert ranges.depth.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_nesting_is_that_of_a_comparison_of_all_pairs(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)

    def fill(start: int, end: int, level: int) -> list[dict[str, Any]]:
        """Ranges that nest, with many equal borders."""
        cuts = np.sort(random.integers(start, end + 1, 6))
        found = []
        for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if high > low:
                found.append(op(low, high - low, f"{low}-{high}-{level}"))
                found += fill(low, high, level + 1) if level < 3 else []
        return found

    events = fill(0, 60, 0)
    ranges = timeline_of(tmp_path, [events[place] for place in random.permutation(len(events))]).ranges
    start, end = ranges.start, ranges.end
    for row in range(len(ranges)):
        # Of equal ranges the first in the table encloses the others.
        around = [
            other
            for other in range(len(ranges))
            if start[other] <= start[row] and end[row] <= end[other]
            and (start[other], end[other], row) != (start[row], end[row], other)
            and ((start[other], end[other]) != (start[row], end[row]) or other < row)
        ]  # fmt: skip
        assert ranges.depth[row] == len(around)
        assert ranges.parent[row] == (max(around) if around else -1)


@pytest.mark.parametrize(
    "base",
    [
        0, 4_398_046_511_104_001, 4_458_676_522_690_655, 4_503_599_627_370_497, 7_800_000_000_000_001,
        1_666_149_715_364_322_123, 1_900_000_000_000_000_001,
    ],
)  # fmt: skip
@pytest.mark.parametrize("block", [1 << 10, 1 << 22])
def test_times_are_exact_to_the_nanosecond(
    base: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chrome_trace, "_BLOCK_BYTES", block)
    starts = [base + offset for offset in range(0, 5000, 7)]
    events = ",".join(
        f'{{"ph": "X", "cat": "cpu_op", "ts": {ns // 1000}.{ns % 1000:03}, "dur": 0.{ns % 1000:03}}}' for ns in starts
    )
    timeline = opened(tmp_path, f'{{"traceEvents": [{events}]}}').timeline
    assert timeline is not None
    assert timeline.ranges.start.tolist() == [ns - base for ns in starts]
    assert timeline.ranges.duration.tolist() == [ns % 1000 for ns in starts]


def test_whole_microseconds_since_1970_are_exact(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, [op(1666149715364322, 3), op(1666149715364323, 1)])
    assert timeline.ranges.start.tolist() == [0, 1000]
    assert timeline.files[0].wall_ns == 1666149715364322000


def test_the_wall_clock_is_that_of_the_first_event(tmp_path: Path) -> None:
    events = [op(2000, 1), op(1000, 1)]
    based = opened(tmp_path, text_of(events, baseTimeNanoseconds=1_711_964_646_000_000_000))
    assert based.timeline is not None
    assert based.timeline.files[0].wall_ns == 1_711_964_646_001_000_000
    assert based.session.created == "2024-04-01T09:44:06+00:00"
    unknown = timeline_of(tmp_path, events)
    assert unknown.files[0].wall_ns is None
    # A trace that begins later has the same times: its own clock is in ``wall_ns`` alone.
    later = timeline_of(tmp_path, [{**event, "ts": event["ts"] + 5} for event in events])
    assert later.ranges.start.tolist() == unknown.ranges.start.tolist() == [0, 1_000_000]


@pytest.mark.parametrize(
    ("beside", "name", "rank"),
    [
        ({"distributedInfo": {"rank": 3}}, "rank9.json", 3),
        ({}, "rank-70.Mar_25.pt.trace.json", 70),
        ({"distributedInfo": {"rank": "x"}}, "trace.json", None),
        ({"distributedInfo": []}, "trace.json", None),
    ],
)
def test_the_rank_is_told_by_the_file_or_else_its_name(
    beside: dict[str, Any], name: str, rank: int | None, tmp_path: Path
) -> None:
    timeline = opened(tmp_path, text_of([op()], **beside), name).timeline
    assert timeline is not None
    assert (timeline.files[0].rank, timeline.processes[0].rank) == (rank, rank)


def test_a_chrome_trace_of_another_program_has_ranges_of_its_own_categories(tmp_path: Path) -> None:
    events = [
        {"ph": "B", "cat": "io", "name": "read", "pid": "reader", "tid": "worker", "ts": 10},
        {"ph": "B", "cat": "io", "name": "seek", "pid": "reader", "tid": "worker", "ts": 11},
        {"ph": "E", "pid": "reader", "tid": "worker", "ts": 12.5},
        {"ph": "B", "name": "never ends", "pid": "12", "tid": 1, "ts": 12},
        {"ph": "E", "pid": "reader", "tid": "nobody", "ts": 13},
        {"ph": "X", "name": "draw", "pid": 5, "tid": None, "ts": "20", "dur": "5", "args": "text"},
        {"ph": "E", "pid": "reader", "tid": "worker", "ts": 15},
    ]
    report = opened(tmp_path, json.dumps(events))
    timeline = report.timeline
    assert timeline is not None
    ranges = timeline.ranges
    assert timeline.files[0].kind == "chrome"
    assert not report.notices
    assert not timeline.lacks
    assert names(timeline, ranges.name) == ["read", "seek", "never ends", "draw"]
    assert names(timeline, ranges.domain) == ["io", "io", "", ""]
    assert list(zip(ranges.start.tolist(), ranges.end.tolist(), strict=True)) == [
        (0, 5000), (1000, 2500), (2000, 15000), (10000, 15000),
    ]  # fmt: skip
    assert ranges.is_open.tolist() == [False, False, True, False]
    assert ranges.parent.tolist() == [-1, 0, -1, -1]
    assert [(one.pid, one.name) for one in timeline.processes] == [(-1, "reader"), (5, ""), (12, "")]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([op()], ["ProfilerActivity.CUDA", "record_function"]),
        ([op(), whole("cuda_runtime", "cudaLaunchKernel", 0, 1)], ["torch.cuda.synchronize", "record_function"]),
        ([whole("user_annotation", "forward", 0, 1)], ["ProfilerActivity.CUDA"]),
        ([op(), whole("user_annotation", "ProfilerStep#1", 0, 9), kernel("k", 1, 1)], ["record_function", "1 of 1"]),
        (
            [
                whole("user_annotation", "f", 0, 1),
                whole("cuda_driver", "cuLaunchKernel", 0, 1, correlation=11),
                kernel("k", 1, 1),
            ],
            [],
        ),
    ],
)
def test_what_a_trace_lacks_is_said_with_what_would_bring_it(
    events: list[Any], said: list[str], tmp_path: Path
) -> None:
    texts = notices(opened(tmp_path, text_of(events)))
    assert len(texts) == len(said)
    assert all(word in text for word, text in zip(said, texts, strict=True))


def many(count: int) -> str:
    return text_of([op(place, 1, f"aten::{place}") for place in range(count)], traceName="x.json")


@pytest.mark.parametrize("block", [64, 100, 1000, 1 << 20])
def test_where_the_text_is_cut_into_blocks_makes_no_difference(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_chrome_trace, "_BLOCK_BYTES", block)
    monkeypatch.setattr(_chrome_trace, "_PACKED_BYTES", block)
    events = [op(place, 1, f'}}, {{ "{place}" ]') for place in range(200)]
    for event in events:
        event["args"] = {"nested": [{}, {"a": [{}, {}]}], "text": "}, {"}
    text = text_of(events, traceName="}, {", baseTimeNanoseconds=10**18)
    for data in (
        text.encode(),
        gzip.compress(text.encode()),
        gzip.compress(text[:999].encode()) + gzip.compress(text[999:].encode()),
    ):
        report = opened(tmp_path, data)
        assert report.timeline is not None
        assert names(report.timeline, report.timeline.ranges.name) == [event["name"] for event in events]
        assert report.timeline.files[0].wall_ns == 10**18
        assert not report.truncated
        assert not report.notices


def test_a_file_that_is_cut_off_gives_the_events_before_the_cut(tmp_path: Path) -> None:
    text = many(50)
    border = text.index('{"ph": "X", "cat": "cpu_op", "name": "aten::30"')
    for cut in range(border, border + 100, 7):
        report = opened(tmp_path, text[:cut])
        assert report.timeline is not None
        assert len(report.timeline.ranges) == 30
        assert report.truncated
        assert "30 events" in notices(report)[0]
    assert opened(tmp_path, text[:-5]).truncated
    assert not opened(tmp_path, text).truncated


def test_a_cut_off_gzip_file_gives_the_events_before_the_cut(tmp_path: Path) -> None:
    packed = gzip.compress(many(5000).encode())
    report = opened(tmp_path, packed[: len(packed) // 2])
    assert report.timeline is not None
    assert report.truncated
    assert 1000 < len(report.timeline.ranges) < 5000
    assert opened(tmp_path, packed[:-4]).truncated
    assert not opened(tmp_path, packed + b"\0" * 100).truncated


def test_a_bare_list_needs_no_end(tmp_path: Path) -> None:
    text = json.dumps([op(), op(1)])
    assert not opened(tmp_path, text).truncated
    assert not opened(tmp_path, text[:-1]).truncated
    assert not opened(tmp_path, text[:-1] + ",\n").truncated
    assert opened(tmp_path, text[:-5]).truncated


@pytest.mark.parametrize(
    "bad",
    [
        '{"ph": "X", "name": "a" "b"}',
        '{"ph": "X", "ts": 1e999, "dur": 1}',
        '{"ph": "X", "ts": 1, "dur": NaN}',
        '{"ph": "X", "name": "no time"}',
        '{"ph": "X", "ts": "yesterday"}',
        '{"ph": "X", "ts": 1' + "0" * 5000 + "}",
        '{"ph": "X", "ts": 1E+999999999, "dur": 1}',
        '{"ph": "X", "ts": 1E+9999999999999999999999, "dur": 1}',
        '{"ph": "X", "ts": "NaN", "dur": 1}',
        '{"ph": "X", "ts": 1, "dur": -1e300}',
        '{"ph": "X", "ts": 1700000000000000.123, "dur": -1e30}',
        '{"ph": "X", "ts": 1700000000000000.123, "dur": -1e999999}',
        '{"ph": "X", "ts": 1, "dur": 1e14}',
        '{"ph": "X", "ts": 3e15}',
        '{"ph": "X", "ts": -3e15}',
        '{"ph": "X", "ts": 1, "pid": "' + "p" * 5000 + '"}',
        '{"ph": ["X"], "ts": 1}',
        '{"ph": "X", "ts": true}',
        '{"ph": "X", "ts": 1, "args": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"ph": "X", "ts": 1, "args": {"a": }}',
    ],
)
def test_an_event_that_cannot_be_read_costs_itself_alone(bad: str, tmp_path: Path) -> None:
    good = [json.dumps(op(place, 1, f"n{place}")) for place in range(4)]
    report = opened(tmp_path, '{"traceEvents": [' + ", ".join([*good[:2], bad, *good[2:]]) + "]}")
    assert report.timeline is not None
    assert names(report.timeline, report.timeline.ranges.name) == ["n0", "n1", "n2", "n3"]
    assert notices(report)[0] == "This trace is damaged: 1 event could not be read."


@pytest.mark.parametrize(
    "odd",
    [
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"grid": [1, 2], "stream": {}}}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"correlation": 1e300}}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"correlation": 99999999999999999999}}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"blocks per SM": inf, "x": -nan}}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"x": NaN, "device": 1e99}}',
        '{"ph": "X", "cat": "kernel", "name": "k", "name": "k", "ts": 5, "ts": 1, "dur": 1}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": null, "pid": 1.5e300}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"a": "x\ty"}}',
        '{"ph": "X", "cat": "kernel", "name": "k", "ts": "1.0", "dur": "1"}',
    ],
)
def test_odd_values_cost_themselves_alone(odd: str, tmp_path: Path) -> None:
    report = opened(tmp_path, '{"traceEvents": [' + json.dumps(op(0, 9)) + "," + odd + "]}")
    timeline = report.timeline
    assert timeline is not None
    assert names(timeline, timeline.ops.name) == ["k"]
    assert (timeline.ops.start.tolist(), timeline.ops.end.tolist()) == ([1000], [2000])
    assert not report.notices


def test_names_that_are_no_text_are_made_printable(tmp_path: Path) -> None:
    text = b'[{"ph": "X", "name": "a\xff\xfeb", "ts": 1, "dur": 1}, {"ph": "X", "name": "\\ud800", "ts": 2, "dur": 1}]'
    timeline = opened(tmp_path, text).timeline
    assert timeline is not None
    assert names(timeline, timeline.ranges.name) == ["a??b", "?"]


def test_a_negative_duration_is_none(tmp_path: Path) -> None:
    assert timeline_of(tmp_path, [op(5, -3), op(1, 1)]).ranges.duration.tolist() == [1000, 0]


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": []}',
        '{"traceEvents": null}',
        "[]",
        '{"deviceProperties": []}',
        '{"traceEvents": [1, [], null]}',
    ],
)
def test_a_trace_without_events_is_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(GputuiError, match=r"trace.json: is a trace without events\. .*export_chrome_trace"):
        opened(tmp_path, text)


def test_a_bomb_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chrome_trace, "_MOST_UNPACKED", 1 << 22)
    bomb = gzip.compress(b"[" + json.dumps(op()).encode() + b"," * (1 << 23))
    with pytest.raises(GputuiError, match="unpacks to more than"):
        opened(tmp_path, bomb)


def test_an_endless_event_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chrome_trace, "_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(_chrome_trace, "_LONGEST_EVENT", 1 << 16)
    report = opened(tmp_path, "[" + json.dumps(op()) + ', {"args": {"a": "' + "x" * (1 << 18))
    assert report.timeline is not None
    assert (len(report.timeline.ranges), report.truncated) == (1, True)
    with pytest.raises(GputuiError, match="without events"):
        opened(tmp_path, '{"traceEvents": ' + " " * (1 << 18))


def test_too_many_bad_events_end_the_reading(tmp_path: Path) -> None:
    bad = ", ".join(['{"ph": "X", "name": "a" "b"}'] * 3000)
    report = opened(tmp_path, "[" + json.dumps(op()) + ", " + bad + ", " + json.dumps(op()) + "]")
    assert report.timeline is not None
    assert (len(report.timeline.ranges), report.truncated) == (1, True)


def test_bytes_changed_at_random_never_crash(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    text = text_of([op(1, 2), kernel("k", 3, 1), whole("cuda_runtime", "c", 1, 1, correlation=11), op(4, 2)])
    for _ in range(300):
        changed = bytearray(text.encode())
        for place in random.integers(0, len(changed), 5).tolist():
            changed[place] = int(random.choice(list(b'{}[]",:0e-\\\xffX ')))
        for data in (bytes(changed), zlib.compress(bytes(changed), wbits=31)):
            try:
                report = opened(tmp_path, data)
            except GputuiError:
                continue
            assert report.timeline is not None
            for notice in notices(report):
                assert notice


def test_absurd_times_and_sizes_can_still_be_summed(tmp_path: Path) -> None:
    copied = "Memcpy HtoD (Pageable -> Device)"
    timeline = timeline_of(
        tmp_path,
        [
            *(kernel("k", -2e15, 9e12) for _ in range(1000)),
            *(whole("gpu_memcpy", copied, 2e15, 1, bytes=2**63 - 1) for _ in range(9000)),
            whole("gpu_memcpy", copied, 2.1e15, 1, bytes=-(2**63)),
            whole("gpu_memcpy", copied, 2.2e15, 1),
            {"ph": "B", "cat": "c", "name": "far", "pid": 1, "tid": 1, "ts": -2e15},
            {"ph": "E", "pid": 1, "tid": 1, "ts": 2e15},
            *({"ph": "B", "cat": "c", "name": "open", "pid": 1, "tid": 2, "ts": -2e15} for _ in range(900)),
        ],
    )
    for table in (timeline.ops, timeline.ranges):
        assert (table.duration >= 0).all()
        assert sum(table.duration.tolist()) < 2**62
    sizes = timeline.transfers.bytes.tolist()
    assert sizes[-2:] == [-1, -1]
    assert min(sizes[:-2]) > 0
    assert sum(sizes) < 2**62


def test_absurd_devices_and_shapes_are_unknown(tmp_path: Path) -> None:
    timeline = timeline_of(
        tmp_path,
        [kernel("k", 1, 1, **{"registers per thread": 2**80, "shared memory": -(2**80)})],
        deviceProperties=[{"id": 0, "name": "x" * 9999, "computeMajor": 2**70, "computeMinor": -1, "numSms": -(2**70)}],
    )
    (gpu,), (shape,) = timeline.gpus, timeline.shapes
    assert gpu.device.sm_count is gpu.device.compute_capability is None
    assert len(gpu.device.name) == 4096
    assert shape.registers is shape.shared_bytes is None


def test_long_names_are_cut(tmp_path: Path) -> None:
    long = "n" * 100_000
    timeline = timeline_of(
        tmp_path,
        [
            kernel(long, 1, 1),
            op(name=long),
            whole(long, long, 1, 1),
            {"ph": "M", "name": "process_name", "pid": 77, "args": {"name": long}},
        ],
    )
    assert max(map(len, timeline.names)) == 4096
    assert [len(process.name) for process in timeline.processes] == [4096]


def test_a_hostile_copy_takes_no_time(tmp_path: Path) -> None:
    begin = time.perf_counter()
    events = [whole("gpu_memcpy", "Memcpy HtoD (" + "a -> " * (50_000 + place), place, 1) for place in range(20)]
    timeline = timeline_of(tmp_path, events)
    assert time.perf_counter() - begin < 2
    assert set(timeline.transfers.kind.tolist()) == {CopyKind.UNKNOWN}


def test_begins_without_end_are_bounded_and_what_ends_still_ends(tmp_path: Path) -> None:
    def end(kind: str, ts: float) -> dict[str, Any]:
        return {"ph": kind, "cat": "c", "name": "deep", "pid": 1, "tid": 1, "ts": ts}

    report = opened(tmp_path, text_of([end("B", place) for place in range(1500)]))
    assert report.timeline is not None
    assert len(report.timeline.ranges) == 1000
    assert notices(report)[0] == "This trace is damaged: 500 events could not be read."
    events = [*(end("B", place) for place in range(1500)), *(end("E", 5000 - place) for place in range(1500, 0, -1))]
    ranges = timeline_of(tmp_path, events).ranges
    assert not ranges.is_open.any()
    # The thousand that are kept end last, inner ones first.
    assert ranges.start.tolist() == [1000 * place for place in range(1000)]
    assert ranges.end.tolist() == [1000 * (4999 - place) for place in range(1000)]


def test_blanks_packed_small_are_one_line(tmp_path: Path) -> None:
    blanks = gzip.compress(b"[" + json.dumps(op()).encode() + b" " * (80 << 20))
    begin = time.perf_counter()
    with pytest.raises(GputuiError, match="unpacks to more than 250 times its size"):
        opened(tmp_path, blanks)
    assert time.perf_counter() - begin < 5


def test_the_reading_stops_when_the_user_cancels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chrome_trace, "_BLOCK_BYTES", 1 << 12)
    path = tmp_path / "trace.json"
    path.write_text(many(1000))
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        told.append((done, total))
        return len(told) < 3

    report = torch_trace.open(path, progress)
    assert report.timeline is not None
    size = path.stat().st_size
    assert told == [(4096, size), (8192, size), (12288, size)]
    assert 0 < len(report.timeline.ranges) < 200
