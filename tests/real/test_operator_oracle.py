"""Kernels of a PyTorch operator, as people call it, against loops over the raw files."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from gputui.analysis.proposals import propose, resolve
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.formats import open_report

TRACE = "torch/facebookresearch__HolisticTraceAnalysis__sampled_rank-0.json.gz"
EXPORT = "sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite"


def diagnosed(path: Path) -> TimelineDiagnosis:
    report = open_report(path)
    assert report.timeline is not None
    return diagnose_timeline(TimelineFacts(report.timeline), report.notices)


def chosen(diagnosis: TimelineDiagnosis, typed: str) -> Counter[str]:
    """The launches that a name finds, by kernel."""
    timeline = diagnosis.facts.timeline
    ops = resolve(diagnosis, typed, None).ops & diagnosis.facts.kernel_mask
    return Counter(timeline.name(int(timeline.ops.name[row])) for row in np.flatnonzero(ops))


@pytest.mark.parametrize("operator", ["aten::matmul", "aten::mm", "aten::linear", "aten::addmm"])
def test_operators_of_a_trace(reports: Path, operator: str) -> None:
    path = reports / TRACE
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    ranges = defaultdict(list)
    launched = set()
    for event in events:
        if event.get("cat") == "cpu_op" and operator in event["name"]:
            ranges[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for event in events:
        if event.get("cat") == "cuda_runtime":
            for begin, end in ranges[event["pid"], event["tid"]]:
                if begin <= event["ts"] and event["ts"] + event["dur"] <= end:
                    launched.add(event["args"]["correlation"])
    kernels = [one for one in events if one.get("cat") == "kernel" and one["args"]["correlation"] in launched]
    expected = Counter(one["name"] for one in kernels)
    diagnosis = diagnosed(path)
    assert expected
    assert chosen(diagnosis, operator) == expected
    proposals = propose(diagnosis, operator)
    assert {one.share.kernel.demangled: one.share.group.count for one in proposals} == expected
    assert proposals[0].is_proposed


@pytest.mark.parametrize("operator", ["aten::linear", "aten::addmm", "aten::cat"])
def test_operators_that_emit_nvtx_named(reports: Path, operator: str) -> None:
    path = reports / EXPORT
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as database:
        ranges = defaultdict(list)
        query = (
            "SELECT n.globalTid, n.start, n.end, coalesce(n.text, s.value) FROM NVTX_EVENTS n"
            " LEFT JOIN StringIds s ON s.id = n.textId WHERE n.end IS NOT NULL AND n.eventType = 59"
        )
        for thread, begin, end, name in database.execute(query):
            if operator in (name or ""):
                ranges[thread].append((begin, end))
        launched = set()
        for thread, begin, end, correlation in database.execute(
            "SELECT globalTid, start, end, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ):
            if any(low <= begin and end <= high for low, high in ranges[thread]):
                launched.add((thread & -16777216, correlation))
        kernels = database.execute(
            "SELECT k.globalPid, k.correlationId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN StringIds s ON s.id = k.demangledName"
        )
        expected = Counter(name for process, correlation, name in kernels if (process, correlation) in launched)
    assert expected
    assert chosen(diagnosed(path), operator) == expected
