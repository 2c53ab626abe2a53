"""The JSON of a timeline, and the rows that are exported of one, against numbers by hand."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from render_builder import HOSTILE

import gputui
from gputui.analysis.nvtx import DEEPEST
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.analysis.timeline_tables import select, select_ops
from gputui.render import timeline_table
from gputui.render.timeline_json import timeline_json
from gputui.render.timeline_table import COLUMNS, csv_parts, json_parts
from gputui.wording import wording
from traces import ADD, BUSY_US, COPY_BYTES, GEMM, KERNELS, PROCESS, STEPS, launched, loop, whole, write_trace


def answer_of(path: Path, *, kernel: str | None = None, nvtx: str | None = None) -> Any:
    report = gputui.open_report(path)
    diagnosis = gputui.diagnose(report)
    assert isinstance(diagnosis, TimelineDiagnosis)
    selection = select(diagnosis, *(None if one is None else re.compile(one) for one in (kernel, nvtx)))
    return json.loads(json.dumps(timeline_json(report, diagnosis, selection, wording("en")), allow_nan=False))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "loop.json")


# -------------------------------------------------------------------- explain --format json


def test_kernels_are_grouped_by_name_longest_total_first(trace: Path) -> None:
    kernels = answer_of(trace)["kernels"]
    assert [(one["demangled"], one["count"], one["duration_ns"]) for one in kernels] == [
        (name, count, 1000 * us) for name, (count, us) in KERNELS.items()
    ]
    assert [one["index"] for one in kernels] == [0, 1]
    assert kernels[0]["grid"] == [64, 2, 1]
    assert kernels[0]["block"] == [256, 1, 1]
    assert (kernels[0]["op_class"], kernels[1]["op_class"]) == ("gemm", "elementwise")
    assert kernels[1]["times"] == {
        "share": 0.2, "window_share": pytest.approx(50 * STEPS / (1000 * STEPS - 1), abs=1e-6), "min_ns": 50_000,
        "median_ns": 50_000, "max_ns": 50_000, "launch_shapes": 1,
        "window_max_speedup": pytest.approx(1 / 0.95, rel=1e-3),
    }  # fmt: skip


def test_what_needs_counters_is_null(trace: Path) -> None:
    for kernel in answer_of(trace)["kernels"]:
        assert set(kernel["gauges"].values()) == {None}
        assert set(kernel["roofline"].values()) == {None}
        assert (kernel["verdict"]["id"], kernel["verdict"]["level"], kernel["findings"]) == ("unknown", None, [])


def test_busy_and_idle_are_of_the_whole_capture(trace: Path) -> None:
    timeline = answer_of(trace)["timeline"]
    (device,) = timeline["devices"]
    span_us = 1000 * STEPS - 1
    assert timeline["span_ns"] == 1000 * span_us
    assert (device["busy_ns"], device["idle_ns"]) == (1000 * BUSY_US * STEPS, 1000 * (span_us - BUSY_US * STEPS))
    assert (device["device"], device["name"], device["kernel_count"]) == ("GPU 0", "NVIDIA Test GPU", 3 * STEPS)


def test_ranges_copies_and_steps_are_told(trace: Path) -> None:
    timeline = answer_of(trace)["timeline"]
    ranges = {one["range"]: one for one in timeline["nvtx"]}
    assert len(ranges) == len(timeline["nvtx"]) == 3 * STEPS
    assert ranges["ProfilerStep#2/forward"] == {
        "range": "ProfilerStep#2/forward", "domain": None, "count": 1, "cpu_ns": 390_000, "gpu_ns": 350_000,
        "projected_ns": 350_000, "idle_share": round(40 / 390, 6), "kernel_count": 3,
    }  # fmt: skip
    assert ranges["ProfilerStep#2/data"]["idle_share"] == 1.0
    assert timeline["copies"] == [
        {
            "kind": "host-to-device", "host_memory": "pageable", "count": STEPS, "bytes": STEPS * COPY_BYTES,
            "duration_ns": STEPS * 100_000,
        }
    ]  # fmt: skip
    assert (timeline["window"]["source"], timeline["window"]["steps"], timeline["window"]["step_ns"]) == (
        "steps", STEPS, 1_000_000,
    )  # fmt: skip


def test_findings_have_their_place(trace: Path) -> None:
    timeline = answer_of(trace)["timeline"]
    gap = next(one for one in timeline["findings"] if one["id"] == "gpu-idle")
    # From the end of a step's last kernel to the start of the next one's copy.
    assert (gap["place"]["start_ns"] % 1_000_000, gap["place"]["end_ns"] % 1_000_000) == (960_000, 610_000)
    assert gap["place"]["end_ns"] - gap["place"]["start_ns"] == 650_000
    assert gap["place"]["lane"].startswith("GPU 0, stream 7")
    # No bound promises more than all idle time.
    assert 1 < gap["max_speedup"] <= (1000 * STEPS - 1) / (BUSY_US * STEPS) + 1e-3


def test_nvtx_and_kernel_limit_kernels_and_ranges_but_no_findings(trace: Path) -> None:
    whole_answer, answer = answer_of(trace), answer_of(trace, nvtx="#[0-2]/forward")
    assert [(one["demangled"], one["count"]) for one in answer["kernels"]] == [(GEMM, 6), (ADD, 3)]
    assert {one["range"] for one in answer["timeline"]["nvtx"]} == {f"ProfilerStep#{one}/forward" for one in range(3)}
    assert answer["timeline"]["findings"] == whole_answer["timeline"]["findings"]
    assert [one["name"] for one in answer_of(trace, kernel="sgemm")["kernels"]] == [GEMM]


def test_a_trace_of_the_cpu_alone_has_no_kernels(tmp_path: Path) -> None:
    answer = answer_of(write_trace(tmp_path / "a.json", [whole("step", "user_annotation", 5, 10)]))
    assert answer["kernels"] == []
    assert answer["timeline"]["devices"] == []
    assert answer["timeline"]["span_ns"] == 10_000
    assert answer["timeline"]["verdict"]["id"] == "no-gpu"
    assert answer["warnings"]


# -------------------------------------------------------------------- export


def facts_of(path: Path) -> TimelineFacts:
    timeline = gputui.open_report(path).timeline
    assert timeline is not None
    return TimelineFacts(timeline)


def exported(facts: TimelineFacts, kernel: str | None = None) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    chosen = select_ops(facts, None if kernel is None else re.compile(kernel))
    rows = list(csv.DictReader("".join(csv_parts(facts, chosen)).splitlines(keepends=True)))
    return rows, json.loads("".join(json_parts(facts, chosen)))["operations"]


@pytest.mark.parametrize("rows_a_part", [1, 5, 8192])
def test_a_row_for_each_operation(trace: Path, monkeypatch: pytest.MonkeyPatch, rows_a_part: int) -> None:
    monkeypatch.setattr(timeline_table, "_ROWS", rows_a_part)
    table, objects = exported(facts_of(trace))
    assert len(table) == len(objects) == 4 * STEPS
    assert [int(row["index"]) for row in table] == [one["index"] for one in objects] == list(range(4 * STEPS))
    assert all(tuple(one) == COLUMNS for one in objects)
    copy, gemm = objects[4], objects[5]
    assert copy == {
        "index": 4, "kind": "copy", "name": "[CUDA memcpy Host-to-Device]", "demangled": "[CUDA memcpy Host-to-Device]",
        "start_ns": 1_610_000, "duration_ns": 100_000, "gpu": 0, "rank": None, "pid": PROCESS, "stream": 7,
        "grid": None, "block": None, "registers": None, "shared_bytes": None, "bytes": COPY_BYTES,
        "api_call": "cudaMemcpyAsync", "api_start_ns": 1_603_000, "nvtx": "ProfilerStep#1/forward",
    }  # fmt: skip
    assert (gemm["kind"], gemm["grid"], gemm["registers"], gemm["shared_bytes"]) == ("kernel", [64, 2, 1], 122, 16384)
    assert (table[5]["name"], table[5]["grid"], table[5]["bytes"]) == (GEMM, "(64, 2, 1)", "")
    assert (table[7]["name"], table[7]["demangled"]) == ("vectorized_elementwise_kernel", ADD)


def test_the_rows_of_some_kernels(trace: Path) -> None:
    table, objects = exported(facts_of(trace), "^vectorized")
    assert {row["demangled"] for row in table} == {one["demangled"] for one in objects} == {ADD}
    assert len(table) == STEPS


def test_what_the_file_does_not_tell_is_empty(tmp_path: Path) -> None:
    events = [
        event for event in launched(1, "Memset (Unknown)", "gpu_memset", 0, 10, 5) if event["cat"] == "gpu_memset"
    ]
    table, objects = exported(facts_of(write_trace(tmp_path / "a.json", events)))
    for name in ("grid", "bytes", "api_call", "api_start_ns", "nvtx", "rank"):
        assert table[0][name] == ""
        assert objects[0][name] is None


@pytest.mark.parametrize("name", HOSTILE)
def test_a_strangers_name_is_no_formula_and_acts_on_no_terminal(tmp_path: Path, name: str) -> None:
    events = loop(gemm=name)
    for event in events:
        event["name"] = name if event["cat"] == "user_annotation" else event["name"]
    facts = facts_of(write_trace(tmp_path / "a.json", events))
    table, objects = exported(facts)
    for row in table:
        for cell in row.values():
            assert cell.isprintable()
            assert not cell.startswith(("=", "+", "-", "@"))
    assert {one["demangled"] for one in objects if one["kind"] == "kernel"} > {ADD}


def test_ranges_as_deep_as_a_stranger_likes(tmp_path: Path) -> None:
    events = [whole(f"r{depth}", "user_annotation", depth, 20_000 - 2 * depth) for depth in range(3000)]
    events += launched(1, GEMM, "kernel", 5000, 5010, 5)
    _, objects = exported(facts_of(write_trace(tmp_path / "a.json", events)))
    assert len(answer_of(tmp_path / "a.json")["timeline"]["nvtx"]) == DEEPEST
    assert objects[0]["nvtx"] == "/".join(f"r{depth}" for depth in range(3000 - DEEPEST, 3000))
