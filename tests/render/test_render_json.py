"""The JSON of ``explain``: valid for any report, and what it cannot tell is ``null``."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from render_builder import HOSTILE, MEMORY_BOUND, hostile_report, make_report

from gputui.analysis.engine import diagnose_all
from gputui.model.device import Device
from gputui.model.report import Report
from gputui.render.schema import report_json
from gputui.wording import wording


def as_json(report: Report, language: str = "en") -> Any:
    text = json.dumps(report_json(report, diagnose_all(report), wording(language)), allow_nan=False)
    assert text.isascii()
    assert text.isprintable()
    return json.loads(text)


def test_a_built_report() -> None:
    answer = as_json(make_report("copy_a", nvtx=("outer", "inner")))
    assert answer["report"]["path"] == "run.ncu-rep"
    assert answer["report"]["devices"] == [
        {"name": "NVIDIA Test GPU", "compute_capability": "9.0", "architecture": "Hopper", "sm_count": 132}
    ]
    (kernel,) = answer["kernels"]
    assert kernel["duration_ns"] == 500_000
    assert kernel["grid"] == [4096, 1, 1]
    assert kernel["nvtx"] == ["outer", "inner"]
    assert kernel["verdict"]["id"] == "memory-bound"
    assert kernel["verdict"]["level"] == "dram"
    assert kernel["verdict"]["at_roof"] is False
    assert kernel["gauges"]["dram_pct"] == 78
    assert kernel["gauges"]["tensor_pct"] is None
    assert kernel["findings"][0]["evidence"] == [
        {
            "metric": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "value": 78,
            "unit": "%",
            "threshold": 75,
        }
    ]


def test_every_launch_is_a_row_of_its_own() -> None:
    rows = as_json(make_report("copy_a", "gemm_b", "copy_a"))["kernels"]
    assert [(row["index"], row["name"], row["count"]) for row in rows] == [
        (0, "copy_a", 1), (1, "gemm_b", 1), (2, "copy_a", 1),
    ]  # fmt: skip


def test_names_are_kept_as_they_are() -> None:
    assert [row["name"] for row in as_json(hostile_report())["kernels"]] == list(HOSTILE)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null(value: float) -> None:
    name = "smsp__thread_inst_executed_per_inst_executed.ratio"
    answer = as_json(make_report("copy_a", metrics={**MEMORY_BOUND, name: (value, "")}))
    assert answer["kernels"][0]["gauges"]["warp_execution_efficiency_pct"] is None


def test_a_report_without_metrics_is_unknown_throughout() -> None:
    answer = as_json(make_report("copy_a", metrics={}, device=Device("unknown GPU")))
    (kernel,) = answer["kernels"]
    assert kernel["verdict"]["id"] == "unknown"
    assert set(kernel["gauges"].values()) == {None}
    assert set(kernel["roofline"].values()) == {None}
    assert kernel["duration_ns"] is None
    assert {one["id"] for one in answer["report"]["not_told"]} == {one["id"] for one in kernel["not_checked"]} != set()


def test_a_report_without_kernels_is_an_empty_list() -> None:
    answer = as_json(make_report())
    assert answer["kernels"] == []
    assert answer["report"]["not_told"] == []


def test_what_a_gpu_cannot_count_has_no_command() -> None:
    answer = as_json(make_report("copy_a", device=Device("NVIDIA B200", (10, 0), 148)))
    told = {one["id"]: one for one in answer["report"]["not_told"]}
    assert (told["sysmem-traffic"]["available"], told["sysmem-traffic"]["command"]) == (False, None)
    assert told["uncoalesced-load"]["available"]
    assert told["uncoalesced-load"]["command"].startswith("ncu ")
    (kernel,) = answer["kernels"]
    assert {one["id"] for one in kernel["not_checked"] if not one["available"]} == {"sysmem-traffic"}
