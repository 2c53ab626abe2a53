from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nsys_builder import (
    MAIN,
    OTHER,
    PROCESS,
    SCHEMA,
    WORKER,
    call,
    copy,
    database,
    insert,
    kernel,
    pushed,
    strings,
)

from gputui.errors import GputuiError
from gputui.formats import _nsys_tables, nsys_sqlite, open_report
from gputui.formats._nsys_tables import TABLES, api_name
from gputui.formats.base import rank_of
from gputui.model.report import Report
from gputui.model.timeline import CopyKind, Events, LaunchShape, MemoryKind, OpKind, RangeKind, Timeline
from gputui.wording import LANGUAGES, wording

KERNELS, COPIES, MEMSETS = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET"))
CALLS, GRAPHS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"


def opened(path: Path) -> Timeline:
    timeline = open_report(path).timeline
    assert timeline is not None
    return timeline


def made(tmp_path: Path, **tables: Any) -> Timeline:
    return opened(database(tmp_path / "a.sqlite", **tables))


def names(timeline: Timeline, table: Events) -> list[str]:
    return [timeline.names[place] for place in table.name]


def lacks(timeline: Timeline) -> list[str]:
    for notice in timeline.lacks:
        for language in LANGUAGES:
            assert wording(language).notice(notice)
    return [notice.id for notice in timeline.lacks]


def test_kernels_copies_and_memsets_are_one_table_in_order(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("void f<int>(int *)", "cudaLaunchKernel_v7000", "f", "cudaMemcpyAsync_ptsz_v7000"),
        **{
            KERNELS: [kernel(300, 400, shortName=3, correlationId=2, staticSharedMemory=16, dynamicSharedMemory=1024)],
            COPIES: [copy(100, 200, correlationId=1, bytes=4096, copyKind=1, srcKind=0, dstKind=2)],
            MEMSETS: [copy(250, 260, correlationId=3, bytes=64, memKind=2)],
            CALLS: [call(50, 90, 1, nameId=4), call(210, 220, 2), call(205, 207, 3, nameId=4)],
        },
    )
    ops = timeline.ops
    assert names(timeline, ops) == ["[CUDA memcpy Host-to-Device]", "[CUDA memset]", "void f<int>(int *)"]
    assert timeline.short_names == {ops.name[2]: "f"}
    assert ops.kind.tolist() == [OpKind.COPY, OpKind.MEMSET, OpKind.KERNEL]
    assert ops.start.tolist() == [100, 250, 300]
    assert ops.end.tolist() == [200, 260, 400]
    assert timeline.shapes[ops.detail[2]] == LaunchShape((4, 2, 1), (128, 1, 1), 32, 1040)
    moved = timeline.transfers
    assert [moved.bytes[ops.detail[row]] for row in (0, 1)] == [4096, 64]
    assert moved.kind[ops.detail[0]] == CopyKind.HOST_TO_DEVICE
    assert (moved.source[ops.detail[0]], moved.target[ops.detail[0]]) == (MemoryKind.PAGEABLE, MemoryKind.DEVICE)
    assert names(timeline, timeline.calls) == ["cudaMemcpyAsync", "cudaMemcpyAsync", "cudaLaunchKernel"]
    assert ops.call.tolist() == [0, 1, 2]
    assert (timeline.start_ns, timeline.end_ns) == (50, 400)
    assert lacks(timeline) == ["lacks-nvtx"]


def test_events_that_start_together_come_longest_first(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("a", "b"),
        **{
            CALLS: [call(9, 10, 1), call(5, 6, 2), call(5, 8, 3), call(5, 7, 4), call(1, 2, 5)],
            KERNELS: [kernel(20 + id, 21 + id, correlationId=id) for id in range(1, 6)],
        },
    )
    assert list(zip(timeline.calls.start.tolist(), timeline.calls.end.tolist(), strict=True)) == [
        (1, 2), (5, 8), (5, 7), (5, 6), (9, 10),
    ]  # fmt: skip
    assert timeline.ops.call.tolist() == [4, 3, 1, 2, 0]


def test_equal_correlation_ids_of_two_processes(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("k", "launch"),
        **{
            CALLS: [call(1, 2, 7), call(3, 4, 7, globalTid=OTHER + 4321)],
            KERNELS: [
                kernel(10, 11, correlationId=7, globalPid=OTHER),
                kernel(12, 13, correlationId=7),
                kernel(14, 15, correlationId=8),
            ],
        },
    )
    assert timeline.ops.call.tolist() == [1, 0, -1]
    assert [timeline.processes[timeline.streams[one].process].pid for one in timeline.ops.stream] == [4321, 1234, 1234]
    assert [(one.tid, timeline.processes[one.process].pid) for one in timeline.threads] == [(1234, 1234), (4321, 4321)]


def test_sparse_correlation_ids(tmp_path: Path) -> None:
    """Far apart: no table of all ids between them is made."""
    ids = [5, 2**40, 2**60, 17]
    timeline = made(
        tmp_path,
        StringIds=strings("k", "launch"),
        **{
            CALLS: [call(row, row + 1, id) for row, id in enumerate(ids)],
            KERNELS: [kernel(10 + row, 11 + row, correlationId=id) for row, id in enumerate([*reversed(ids), 6, 0])],
        },
    )
    assert timeline.ops.call.tolist() == [3, 2, 1, 0, -1, -1]


def test_of_several_calls_with_one_id_the_first_launched(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("k", "launch"),
        **{CALLS: [call(5, 6, 1), call(4, 9, 1)], KERNELS: [kernel(10, 11, correlationId=1)]},
    )
    assert timeline.calls.start[timeline.ops.call[0]] == 4


def test_a_file_of_the_least_columns(tmp_path: Path) -> None:
    """As some tools write: no process, no context, no registers, no threads."""
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {KERNELS} (start, end, deviceId, streamId, correlationId, shortName)")
        connection.execute(f"CREATE TABLE {CALLS} (start INT, end INT, correlationId INT)")
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.execute(f"INSERT INTO {KERNELS} VALUES (10, 20, 1, 7, 3, 1)")
        connection.execute(f"INSERT INTO {CALLS} VALUES (1, 2, 3)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'k')")
    timeline = opened(path)
    assert names(timeline, timeline.ops) == ["k"]
    assert timeline.ops.call.tolist() == [0]
    assert timeline.shapes == (LaunchShape(),)
    assert timeline.calls.thread.tolist() == [-1]
    (stream,) = timeline.streams
    assert (stream.process, stream.number, timeline.gpus[stream.gpu].ordinal) == (-1, 7, 1)
    assert timeline.processes == timeline.threads == ()
    assert timeline.files[0].wall_ns is None


@pytest.mark.parametrize("table", sorted(SCHEMA))
def test_every_table_may_be_the_only_one(tmp_path: Path, table: str) -> None:
    path = database(tmp_path / "a.sqlite", **{table: [{}]})
    if table not in TABLES:
        with pytest.raises(GputuiError, match="looks like an SQLite database"):
            open_report(path)
        return
    report = open_report(path)
    assert report.timeline is not None
    assert not report.truncated


@pytest.mark.parametrize("table", [KERNELS, COPIES, MEMSETS, GRAPHS, CALLS, "NVTX_EVENTS", "OSRT_API", "GPU_METRICS"])
def test_a_table_without_rows_or_columns(tmp_path: Path, table: str) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table} (other)")
        connection.execute(f"INSERT INTO {table} VALUES ('x')")
        connection.execute(f"CREATE TABLE ThreadNames ({SCHEMA['ThreadNames']})")
    assert opened(path).end_ns <= 0


def test_text_and_null_in_integer_columns(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.sqlite",
        StringIds=strings("k", "launch"),
        **{CALLS: [call(1, 2, 3)], KERNELS: [kernel(10, 20, correlationId=3)]},
    )
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"CREATE TABLE loose AS SELECT * FROM {KERNELS} UNION ALL SELECT * FROM {KERNELS} "
            f"UNION ALL SELECT * FROM {KERNELS} UNION ALL SELECT * FROM {KERNELS}"
        )
        connection.execute(f"DROP TABLE {KERNELS}")
        connection.execute(f"ALTER TABLE loose RENAME TO {KERNELS}")
        for row, (start, end, stream, name) in enumerate(
            [
                ("text", None, b"\xff\x00", "1"),
                (30.7, "40", None, None),
                (2**63 - 1, -(2**63), -1, 2**62),
                (50, 60, 7, 1),
            ],
            1,
        ):
            connection.execute(
                f"UPDATE {KERNELS} SET start = ?, end = ?, streamId = ?, demangledName = ?, shortName = ?, gridX = 'x' "
                "WHERE rowid = ?",
                (start, end, stream, name, name, row),
            )
    timeline = opened(path)
    assert timeline.ops.start.tolist() == [0, 30, 50, 2**61]
    assert timeline.ops.end.tolist() == [0, 40, 60, 2**61]
    assert names(timeline, timeline.ops) == ["k", "(unnamed)", "k", "(unnamed)"]
    assert all(shape.grid is None for shape in timeline.shapes)


def test_no_view_and_no_virtual_table_is_read(tmp_path: Path) -> None:
    """They could run for ever."""
    path = database(tmp_path / "a.sqlite", **{CALLS: [call(1, 2, 3)]})
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"CREATE VIEW {KERNELS} AS WITH RECURSIVE n(start) AS (SELECT 0 UNION ALL SELECT start + 1 FROM n) "
            "SELECT start, start AS end FROM n"
        )
        connection.execute("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, end, text)")
    timeline = opened(path)
    assert len(timeline.calls) == 1
    assert len(timeline.ops) == len(timeline.ranges) == 0


def test_an_index_of_another_tool_does_not_mix_up_names(tmp_path: Path) -> None:
    rows = [pushed(start, start + 1, text) for start, text in enumerate("zyxabc")]
    path = database(tmp_path / "a.sqlite", NVTX_EVENTS=rows)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE INDEX by_text ON NVTX_EVENTS (text)")
        connection.execute("CREATE INDEX by_end ON NVTX_EVENTS (end DESC, start, eventType, globalTid)")
    timeline = opened(path)
    assert names(timeline, timeline.ranges) == list("zyxabc")


# ---------------------------------------------------------------------- NVTX


def nesting(timeline: Timeline) -> list[tuple[str, str | None, int]]:
    ranges = timeline.ranges
    return [
        (timeline.names[name], timeline.names[ranges.name[parent]] if parent >= 0 else None, depth)
        for name, parent, depth in zip(ranges.name, ranges.parent.tolist(), ranges.depth.tolist(), strict=True)
    ]


def test_ranges_nest_by_thread_and_domain(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        NVTX_EVENTS=[
            {"start": 0, "eventType": 75, "text": "lib", "globalTid": MAIN, "domainId": 3},
            pushed(10, 100, "step"),
            pushed(20, 60, "forward"),
            pushed(20, 40, "layer"),
            pushed(25, 30, "other thread", globalTid=WORKER),
            pushed(26, 28, "inner", domainId=3),
            pushed(40, 50, "layer"),
            pushed(60, 60, "nothing"),
            pushed(70, 100, "backward"),
            pushed(100, 120, "step"),
        ],
    )
    assert nesting(timeline) == [
        ("step", None, 0),
        ("forward", "step", 1),
        ("layer", "forward", 2),
        ("other thread", None, 0),
        ("inner", None, 0),
        ("layer", "forward", 2),
        ("nothing", "step", 1),  # it begins where "forward" ends: beside it, not in it
        ("backward", "step", 1),
        ("step", None, 0),
    ]
    domains = [timeline.names[one] if one >= 0 else None for one in timeline.ranges.domain]
    assert domains == [None, None, None, None, "lib", None, None, None, None]


def test_ranges_that_start_in_the_same_nanosecond(tmp_path: Path) -> None:
    """The longer encloses the shorter, whatever their order in the file; of equal ones the first the second."""
    timeline = made(
        tmp_path,
        NVTX_EVENTS=[pushed(5, 7, "c"), pushed(5, 9, "b"), pushed(5, 9, "b2"), pushed(5, 20, "a"), pushed(5, 5, "d")],
    )
    assert nesting(timeline) == [("a", None, 0), ("b", "a", 1), ("b2", "b", 2), ("c", "b2", 3), ("d", "c", 4)]


def test_nesting_against_brute_force() -> None:
    """Random programs of pushes and pops on a coarse clock, so that many times are equal."""
    from gputui.model.nesting import nest
    from gputui.model.timeline import in_order

    random = np.random.default_rng(7)
    for _ in range(50):
        stack: list[tuple[int, int]] = []
        start, end, parent_of, now = [], [], [], 0
        for _ in range(60):
            now += int(random.integers(0, 2))
            if stack and random.random() < 0.5:
                row, _ = stack.pop()
                end[row] = now
            else:
                parent_of.append(stack[-1][0] if stack else -1)
                stack.append((len(start), now))
                start.append(now)
                end.append(-1)
        end = [one if one >= 0 else now + 1 for one in end]
        starts, ends = np.array(start), np.array(end)
        order = in_order(starts, ends)
        order = np.arange(len(start)) if order is None else order
        zeros = np.zeros(len(start), dtype=np.int32)
        _, parent, depth = nest(
            start=starts[order], end=ends[order], kind=zeros.astype(np.uint8), thread=zeros, domain=zeros
        )
        for row, (up, level) in enumerate(zip(parent.tolist(), depth.tolist(), strict=True)):
            enclosing = 0
            while up >= 0:
                assert starts[order][up] <= starts[order][row]
                assert ends[order][up] >= ends[order][row]
                up, enclosing = int(parent[up]), enclosing + 1
            assert enclosing == level
        # What is strictly inside what it was pushed in, and in nothing else of that length, has that parent.
        for row, old in enumerate(order.tolist()):
            true = parent_of[old]
            covers = [
                one for one in range(len(start))
                if one != old and start[one] <= start[old] and end[one] >= end[old]
                and (start[one], end[one]) != (start[old], end[old])
            ]  # fmt: skip
            spans = {(start[one], end[one]) for one in covers}
            if true >= 0 and true in covers and len(spans) == len(covers) and start[old] < end[old]:
                assert order[parent[row]] == true


def test_open_ranges_end_with_the_capture(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        NVTX_EVENTS=[pushed(10, None, "main"), pushed(20, 30, "step"), pushed(40, None, "last"), pushed(50, 0, "old")],
        **{CALLS: [call(60, 90, 1)]},
    )
    ranges = timeline.ranges
    assert ranges.is_open.tolist() == [True, False, True, True]
    assert ranges.end.tolist() == [90, 30, 90, 90]
    assert nesting(timeline) == [("main", None, 0), ("step", "main", 1), ("last", "main", 1), ("old", "last", 2)]


def test_start_end_ranges_and_marks(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        NVTX_EVENTS=[
            pushed(0, 50, "step"),
            pushed(10, 90, "request", eventType=60, endGlobalTid=WORKER),
            pushed(20, None, "here", eventType=34),
            pushed(20, 30, "load", eventType=60, endGlobalTid=MAIN),
            pushed(25, 28, "text form", eventType=70),
            pushed(1, 2, "a thread's name", eventType=39),
            pushed(1, 2, "a category", eventType=33),
        ],
    )
    ranges = timeline.ranges
    assert ranges.kind.tolist() == [
        RangeKind.PUSH_POP, RangeKind.START_END, RangeKind.START_END, RangeKind.MARK, RangeKind.PUSH_POP,
    ]  # fmt: skip
    assert nesting(timeline) == [
        ("step", None, 0), ("request", None, 0), ("load", "step", 1), ("here", "step", 1), ("text form", "step", 1),
    ]  # fmt: skip
    assert (ranges.end_thread != ranges.thread).tolist() == [False, True, False, False, False]
    assert timeline.threads[ranges.end_thread[1]].tid == 1240
    assert (ranges.start[3], ranges.end[3], ranges.is_open[3]) == (20, 20, False)


def test_names_by_id_and_domains_by_process(tmp_path: Path) -> None:
    other = {"globalTid": OTHER + 1, "domainId": 1}
    timeline = made(
        tmp_path,
        StringIds=strings("registered", "NCCL"),
        NVTX_EVENTS=[
            {"start": 0, "eventType": 75, "textId": 2, "globalTid": MAIN, "domainId": 1},
            {"start": 0, "eventType": 75, "text": "mine", **other},
            pushed(1, 2, None, textId=1, domainId=1),
            pushed(3, 4, "inline", **other),
            pushed(5, 6, "", textId=1, domainId=2),
            pushed(7, 8, None),
        ],
    )
    ranges = timeline.ranges
    assert names(timeline, ranges) == ["registered", "inline", "registered", "(unnamed)"]
    domains = [timeline.names[one] if one >= 0 else None for one in ranges.domain]
    assert domains == ["NCCL", "mine", "domain 2", None]


# ----------------------------------------------------------- graphs, devices


def test_graphs_traced_by_node_and_as_a_block(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("k", "cudaGraphLaunch_v10000"),
        **{
            CALLS: [call(1, 2, 5), call(3, 4, 6)],
            KERNELS: [
                kernel(10, 20, correlationId=5, graphNodeId=(9 << 32) + 1),
                kernel(20, 30, correlationId=5, graphNodeId=(9 << 32) + 2),
                kernel(30, 40),
            ],
            GRAPHS: [copy(50, 80, correlationId=6, graphId=4, graphExecId=5)],
        },
    )
    ops = timeline.ops
    assert ops.kind.tolist() == [OpKind.KERNEL] * 3 + [OpKind.GRAPH]
    assert ops.graph.tolist() == [9, 9, 0, 4]
    assert ops.call.tolist() == [0, 0, -1, 1]
    assert ops.detail[3] == -1
    assert "lacks-graph-kernels" in lacks(timeline)
    assert "lacks-calls" in lacks(timeline)


def test_gpus_are_those_that_each_process_sees(tmp_path: Path) -> None:
    gpu = {"smCount": 108, "clockRate": 1_410_000_000, "computeMajor": 8, "computeMinor": 0, "l2CacheSize": 41943040}
    timeline = made(
        tmp_path,
        StringIds=strings("k"),
        TARGET_INFO_GPU=[
            {"id": 3, "cuDevice": 0, "name": "A100", **gpu},
            {"id": 1, "cuDevice": 2, "name": "A40"},
            {"id": 2, "cuDevice": 1, "name": "A100", **gpu},
        ],
        TARGET_INFO_CUDA_DEVICE=[{"gpuId": 2, "cudaId": 0, "pid": 4321}],
        **{
            KERNELS: [
                kernel(1, 2, deviceId=0),
                kernel(3, 4, deviceId=0, globalPid=OTHER),
                kernel(5, 6, deviceId=2),
                kernel(7, 8, deviceId=9),
            ]
        },
    )
    assert [(one.ordinal, one.device.name) for one in timeline.gpus] == [
        (0, "A100"), (1, "A100"), (2, "A40"), (9, "unknown GPU"),
    ]  # fmt: skip
    assert [timeline.streams[one].gpu for one in timeline.ops.stream] == [0, 1, 2, 3]
    device = timeline.gpus[0].device
    assert (device.sm_count, device.sm_clock_hz, device.capability_text) == (108, 1.41e9, "8.0")
    assert device.l2_bytes == 41943040
    assert timeline.gpus[2].device.sm_count is None


def test_gpus_of_old_files(tmp_path: Path) -> None:
    """cuDevice is 0 for all, or the table is the driver's, in kHz."""
    rows = [{"id": id, "cuDevice": 0, "name": f"GPU {id}"} for id in (1, 0)]
    timeline = made(tmp_path, TARGET_INFO_GPU=rows, **{KERNELS: [kernel(1, 2, deviceId=1)]})
    assert timeline.gpus[timeline.streams[0].gpu].device.name == "GPU 1"
    old = {"deviceId": 0, "name": "V100", "coreClockRate": 1_530_000, "numMultiprocessors": 80,
           "computeCapabilityMajor": 7}  # fmt: skip
    path = database(tmp_path / "b.sqlite", TARGET_INFO_CUDA_GPU=[old], **{KERNELS: [kernel(1, 2)]})
    (gpu,) = opened(path).gpus
    assert (gpu.device.name, gpu.device.sm_clock_hz, gpu.device.capability_text) == ("V100", 1.53e9, "7.0")


def test_streams_threads_and_processes_have_names(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("k", "launch", "python", "loader", "old name"),
        TARGET_INFO_CUDA_CONTEXT_INFO=[{"nullStreamId": 7, "processId": 1234, "contextId": 1}],
        TARGET_INFO_NVTX_CUDA_STREAM=[{"name": "comm", "processId": 1234, "contextId": 1, "streamId": 20}],
        ThreadNames=[
            {"nameId": 3, "globalTid": MAIN},
            {"nameId": 4, "globalTid": WORKER, "priority": 5},
            {"nameId": 5, "globalTid": WORKER, "priority": 1},
        ],
        PROCESSES=[{"globalPid": PROCESS, "name": "nsys-launcher"}, {"globalPid": OTHER, "name": "./other"}],
        MPI_RANKS=[{"globalTid": OTHER + 4321, "rank": 1}],
        **{
            KERNELS: [kernel(1, 2), kernel(3, 4, streamId=20), kernel(5, 6, globalPid=OTHER, streamId=20)],
            CALLS: [call(1, 2, 1), call(1, 2, 2, globalTid=WORKER)],
        },
    )
    assert [(one.number, one.name) for one in timeline.streams] == [(7, "default"), (20, "comm"), (20, "")]
    assert [one.name for one in timeline.threads] == ["python", "loader"]
    assert [(one.name, one.rank) for one in timeline.processes] == [("python", None), ("./other", 1)]


# ------------------------------------------------------------- other tables


def test_os_calls_overhead_samples_and_page_faults(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("poll", "CUPTI: Buffer flush"),
        OSRT_API=[call(5, 15, 0, nameId=1), call(1, 2, 0, nameId=1, globalTid=WORKER)],
        PROFILER_OVERHEAD=[call(3, 4, 0)],
        COMPOSITE_EVENTS=[{"start": 8, "globalTid": WORKER}, {"start": 2, "globalTid": MAIN}],
        CUDA_UM_GPU_PAGE_FAULT_EVENTS=[{"start": 20, "end": 24}],
        CUDA_UM_CPU_PAGE_FAULT_EVENTS=[{"start": 10}],
        **{COPIES: [copy(30, 40, copyKind=11, bytes=65536, srcKind=7, dstKind=7)]},
    )
    assert names(timeline, timeline.os_calls) == ["poll", "poll"]
    assert [timeline.threads[one].tid for one in timeline.os_calls.thread] == [1240, 1234]
    assert names(timeline, timeline.overhead) == ["CUPTI: Buffer flush"]
    assert timeline.samples is not None
    assert timeline.samples.time.tolist() == [2, 8]
    assert [timeline.threads[one].tid for one in timeline.samples.thread] == [1234, 1240]
    assert names(timeline, timeline.faults) == ["CPU", "GPU"]
    assert timeline.faults.end.tolist() == [10, 24]
    assert names(timeline, timeline.ops) == ["[CUDA memcpy Unified Host-to-Device]"]
    assert timeline.transfers.source.tolist() == [MemoryKind.UNKNOWN]
    assert (timeline.start_ns, timeline.end_ns) == (1, 40)


def test_gpu_metrics(tmp_path: Path) -> None:
    first, second = (1 << 48) + 256, (1 << 48) + 256 + 1
    labels = {0: "SMs Active [Throughput %]", 1: "GPC Clock Frequency [MHz]", 2: "PCIe Read Requests [Requests]"}
    timeline = made(
        tmp_path,
        TARGET_INFO_GPU=[{"id": 0, "cuDevice": 0, "name": "a"}, {"id": 1, "cuDevice": 1, "name": "b"}],
        TARGET_INFO_GPU_METRICS=[
            {"typeId": type, "metricId": id, "metricName": name}
            for type in (first, second)
            for id, name in labels.items()
        ],
        GPU_METRICS=[
            {"timestamp": 20, "typeId": first, "metricId": 0, "value": 60},
            {"timestamp": 10, "typeId": first, "metricId": 0, "value": 50},
            {"timestamp": 10, "typeId": first, "metricId": 1, "value": 1_410_000_000},
            {"timestamp": 20, "typeId": first, "metricId": 1, "value": -5},
            {"timestamp": 10, "typeId": second, "metricId": 0, "value": 5},
            {"timestamp": 10, "typeId": second, "metricId": 99, "value": 5},
        ],
    )  # fmt: skip
    assert [(one.name, one.unit, one.gpu, one.time.tolist(), one.value.tolist()) for one in timeline.counters] == [
        ("SMs Active", "%", 0, [10, 20], [50.0, 60.0]),
        ("GPC Clock Frequency", "Hz", 0, [10], [1.41e9]),
        ("SMs Active", "%", 1, [10], [5.0]),
    ]
    assert (timeline.start_ns, timeline.end_ns) == (10, 20)


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    path = database(
        tmp_path / "run_rank3.sqlite",
        META_DATA_EXPORT=[
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2025.1"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.20.2"},
            {"name": "EXPORT_CONFIG_TIME_SHIFT", "value": "100"},
        ],
        META_DATA_CAPTURE=[
            {"name": "PROCESS_0:COMMAND", "value": "python"},
            {"name": "PROCESS_0:ARGUMENT_0", "value": "train me.py"},
            {"name": "PROCESS_0:ARGUMENT_1", "value": "--fast"},
        ],
        TARGET_INFO_SYSTEM_ENV=[{"name": "Hostname", "value": "node7"}],
        TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 1_700_000_000_000_000_000}],
        **{KERNELS: [kernel(1, 2)]},
    )
    report = open_report(path)
    assert report.timeline is not None
    (file,) = report.timeline.files
    assert (report.kind, report.tool_version, file.schema, file.host, file.rank) == (
        "nsys",
        "2025.1",
        "3.20.2",
        "node7",
        3,
    )
    assert file.wall_ns == 1_700_000_000_000_000_000 - 100
    assert file.command == report.session.command_line == "python 'train me.py' --fast"
    assert report.session.created == "2023-11-14T22:13:19Z"
    assert report.timeline.processes[0].rank == 3
    assert report.kernels == []
    assert report.source.fetch([], None) == []


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank3.sqlite", 3), ("run_RANK-12_h100.nsys-rep", 12), ("report1.sqlite", None), ("rank0.of.rank8.sqlite", 8)],
)
def test_ranks_in_names(name: str, rank: int | None) -> None:
    assert rank_of(Path(name)) == rank


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync_v2"),
        ("cuLaunchKernel", "cuLaunchKernel"),
    ],
)
def test_api_names(text: str, name: str) -> None:
    assert api_name(text) == name


# ------------------------------------------------------------ what is lacking


def test_lacks(tmp_path: Path) -> None:
    assert lacks(made(tmp_path, ThreadNames=[])) == ["lacks-cuda", "lacks-nvtx"]
    path = database(tmp_path / "b.sqlite", NVTX_EVENTS=[pushed(1, 2, "a")], **{CALLS: [call(1, 2, 1)]})
    assert lacks(opened(path)) == ["lacks-kernels"]
    linked = [kernel(id, id + 1, correlationId=id) for id in range(1, 100)]
    path = database(
        tmp_path / "c.sqlite",
        NVTX_EVENTS=[pushed(1, 2, "a")],
        **{CALLS: [call(id, id + 1, id) for id in range(1, 100)], KERNELS: [*linked, kernel(200, 201)]},
    )
    assert lacks(opened(path)) == ["lacks-copies"]
    with sqlite3.connect(path) as connection:
        insert(connection, KERNELS, [kernel(300, 301), copy(0, 0) | kernel(302, 303)])
        connection.execute(f"CREATE TABLE {MEMSETS} ({SCHEMA[MEMSETS]})")
        insert(connection, MEMSETS, [copy(400, 401)])
    timeline = opened(path)
    assert lacks(timeline) == ["lacks-calls"]
    assert timeline.lacks[0].params == {"count": 3, "kernels": 102}


def diagnosed(tmp_path: Path, *messages: tuple[int, str]) -> Report:
    rows = [{"severity": severity, "text": text} for severity, text in messages]
    return open_report(database(tmp_path / "a.sqlite", DIAGNOSTIC_EVENT=rows, **{KERNELS: [kernel(1, 2)]}))


def test_dropped_events_and_errors_are_told(tmp_path: Path) -> None:
    report = diagnosed(
        tmp_path,
        (2, "No NVTX events collected. Does the process use NVTX?"),
        (2, "Not all CUDA events might have been\ncollected."),
        (1, "Profiling has started."),
        (3, "CUPTI error 15"),
        (2, "12 events were dropped"),
    )
    assert [(one.id, dict(one.params)) for one in report.notices] == [
        ("dropped-events", {"count": 2, "text": "Not all CUDA events might have been collected."}),
        ("profiler-errors", {"count": 1, "text": "CUPTI error 15"}),
    ]
    for language in LANGUAGES:
        assert all(wording(language).notice(one) for one in report.notices)


def test_noise_is_not_told(tmp_path: Path) -> None:
    assert not diagnosed(tmp_path, (2, "No cuBLAS events collected. Does the process use cuBLAS?")).notices


# --------------------------------------------------------- files of strangers


def big(path: Path, count: int = 3000) -> Path:
    return database(
        path,
        StringIds=strings("k", "launch"),
        **{
            CALLS: [call(10 * id, 10 * id + 5, id) for id in range(1, count)],
            KERNELS: [kernel(10 * id + 5, 10 * id + 9, correlationId=id) for id in range(1, count)],
        },
    )


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    path = big(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    before = path.read_bytes()
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert len(opened(path).ops) == 2999
        assert [one.name for one in tmp_path.iterdir()] == ["a.sqlite"]
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a b?mode=rw#x%20.sqlite", "日本語.sqlite", "-x.sqlite", "a&immutable=0.sqlite"])
def test_names_of_files_that_mean_something_in_an_address(tmp_path: Path, name: str) -> None:
    path = big(tmp_path / name, 10)
    assert len(opened(path).ops) == 9
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big(tmp_path / "a.sqlite", 10)
    monkeypatch.chdir(tmp_path)
    assert len(opened(Path("a.sqlite")).ops) == 9


def test_a_file_cut_off_at_any_page_ends_well(tmp_path: Path) -> None:
    whole = big(tmp_path / "a.sqlite").read_bytes()
    read, errors = [], set()
    for part in range(1, 40):
        path = tmp_path / "cut.sqlite"
        path.write_bytes(whole[: len(whole) * part // 40])
        try:
            report = open_report(path)
        except GputuiError as error:
            errors.add(error.message)
            continue
        assert report.truncated
        assert report.timeline is not None
        read.append(len(report.timeline.calls) + len(report.timeline.ops))
        assert "damaged-tables" in [one.id for one in report.notices]
        assert wording().notice(report.notices[0])
    assert len(read) > 10
    assert read == sorted(read)
    assert errors <= {"is cut off or damaged: none of its events can be read"}


def test_damaged_pages_end_well(tmp_path: Path) -> None:
    whole = bytearray(big(tmp_path / "a.sqlite").read_bytes())
    random = np.random.default_rng(3)
    for _ in range(60):
        broken = bytearray(whole)
        for place in random.integers(0, len(whole) // 512, 3):
            broken[place * 512 : place * 512 + 64] = random.bytes(64)
        path = tmp_path / "broken.sqlite"
        path.write_bytes(broken)
        try:
            timeline = opened(path)
        except GputuiError:
            continue
        assert (timeline.ops.end >= timeline.ops.start).all()
        assert (timeline.ops.call < len(timeline.calls)).all()
        assert (np.diff(timeline.ops.start) >= 0).all()


def test_other_databases(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name)")
    connection.close()
    with pytest.raises(GputuiError, match="looks like an SQLite database"):
        open_report(path)


def test_nsys_tables_beyond_the_first_pages_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for number in range(800):
            connection.execute(f"CREATE TABLE other{number} (a_long_name_for_a_column_{number}, another_long_name)")
        connection.execute(f"CREATE TABLE {KERNELS} ({SCHEMA[KERNELS]})")
        insert(connection, KERNELS, [kernel(1, 2)])
    connection.close()
    assert KERNELS.encode() not in path.read_bytes()[:65536]
    assert len(opened(path).ops) == 1


def test_progress_and_stopping(tmp_path: Path) -> None:
    path = big(tmp_path / "a.sqlite", 2)
    with sqlite3.connect(path) as connection:
        for table in (CALLS, KERNELS):
            for _ in range(17):
                connection.execute(f"INSERT INTO {table} SELECT * FROM {table}")
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        return True

    open_report(path, progress)
    assert len(seen) == 4
    assert seen == sorted(seen)
    assert all(0 < done <= total for done, total in seen)
    assert seen[-1] == (2**18, 2**18)

    seen.clear()
    report = open_report(path, lambda done, total: progress(done, total) and len(seen) < 2)
    assert len(seen) == 2
    assert report.timeline is not None
    assert len(report.timeline.calls) + len(report.timeline.ops) <= 2**17


def test_an_empty_name_and_a_name_of_a_megabyte(tmp_path: Path) -> None:
    timeline = made(
        tmp_path,
        StringIds=strings("k" * 1_000_000, ""),
        **{KERNELS: [kernel(1, 2), kernel(3, 4, demangledName=2, shortName=2)]},
    )
    assert [len(one) for one in names(timeline, timeline.ops)] == [4096, len("(unnamed)")]


def unfinished(path: Path, mode: str) -> sqlite3.Connection:
    """A database whose second kernel is not in its main file yet."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    if mode == "wal":
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    else:
        connection.execute("PRAGMA cache_size = 1")
    return connection


def test_rows_in_a_write_ahead_log_are_told_of(tmp_path: Path) -> None:
    path = database(tmp_path / "a b.sqlite", StringIds=strings("k"), **{KERNELS: [kernel(1, 2)]})
    connection = unfinished(path, "wal")
    assert not open_report(path).notices
    insert(connection, KERNELS, [kernel(3, 4)])
    report = open_report(path)
    assert report.timeline is not None
    assert len(report.timeline.ops) == 1
    (notice,) = report.notices
    text = wording("en").notice(notice)
    assert "a b.sqlite-wal" in text
    assert "Run sqlite3 'a b.sqlite' 'PRAGMA wal_checkpoint(TRUNCATE)'" in text
    assert wording("ja").notice(notice)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    report = open_report(path)
    assert report.timeline is not None
    assert (len(report.timeline.ops), report.notices) == (2, [])
    connection.close()


def test_an_export_that_is_in_its_write_ahead_log_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    connection = unfinished(path, "wal")
    connection.execute(f"CREATE TABLE {KERNELS} ({SCHEMA[KERNELS]})")
    with pytest.raises(GputuiError, match=r"holds no table of nsys yet: what was written is still in a\.sqlite-wal"):
        open_report(path)
    connection.close()


def test_a_write_that_did_not_end_is_told_of(tmp_path: Path) -> None:
    path = database(tmp_path / "a.sqlite", StringIds=strings("k"), **{KERNELS: [kernel(1, 2)]})
    connection = unfinished(path, "delete")
    connection.execute("BEGIN")
    insert(connection, KERNELS, [kernel(3, 4 + place) for place in range(20_000)])
    journal = path.with_name("a.sqlite-journal")
    kept = journal.read_bytes()
    assert kept
    assert [one.id for one in open_report(path).notices] == ["rows-unseen"]
    connection.execute("COMMIT")
    connection.close()
    assert not open_report(path).notices
    # A journal that is done may stay, without its first bytes.
    journal.write_bytes(bytes(8) + kept[8:])
    assert not open_report(path).notices


def test_absurd_times_and_sizes_can_still_be_summed(tmp_path: Path) -> None:
    most = 2**63 - 1
    timeline = made(
        tmp_path,
        StringIds=strings("k", "call"),
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy(-most, most, bytes=most) for _ in range(9000)] + [copy(1, 2, bytes=-(2**63))],
        NVTX_EVENTS=[pushed(-most, most, "x"), pushed(-most, None, "open")],
        **{KERNELS: [kernel(-most, most) for _ in range(1000)], CALLS: [call(-most, most, 1) for _ in range(1000)]},
    )
    for table in (timeline.ops, timeline.calls, timeline.ranges):
        assert (table.duration >= 0).all()
        assert (np.abs(table.start) <= 2**61).all()
        assert sum(table.duration.tolist()) < 2**62
    assert timeline.transfers.bytes[-1] == -1
    assert (timeline.transfers.bytes[:-1] > 0).all()
    assert sum(timeline.transfers.bytes.tolist()) < 2**62


def test_absurd_devices_are_unknown(tmp_path: Path) -> None:
    absurd = {"smCount": 2**62, "clockRate": 2**62, "l2CacheSize": -1, "computeMajor": 2**40, "computeMinor": 0}
    timeline = made(
        tmp_path,
        StringIds=strings("k"),
        TARGET_INFO_GPU=[{"id": 0, "name": "x" * 100_000, "cuDevice": 0, **absurd}],
        **{KERNELS: [kernel(1, 2)]},
    )
    (gpu,) = timeline.gpus
    device = gpu.device
    assert device.sm_count is device.sm_clock_hz is device.l2_bytes is device.compute_capability is None
    assert len(device.name) == 4096


@pytest.mark.parametrize("hostile", ["_ptsz", "_v1111", "_", "_v1"])
def test_hostile_api_names_take_no_time(hostile: str) -> None:
    begin = time.perf_counter()
    api_name(hostile * 50_000 + "x")
    api_name("x" + hostile * 50_000)
    assert time.perf_counter() - begin < 1


def test_hostile_units_take_no_time() -> None:
    begin = time.perf_counter()
    assert _nsys_tables._named_unit("a [" * 100_000)[1] == ""
    assert time.perf_counter() - begin < 1


def test_the_module_is_a_format() -> None:
    assert nsys_sqlite.recognises(b"SQLite format 3\0...")
    assert not nsys_sqlite.recognises(b"NVIDIA Tegra Profiler")
