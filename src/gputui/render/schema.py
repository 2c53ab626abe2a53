"""The JSON of ``explain --format json``, schema 1. Fields may be added, never renamed; ``null`` is "not told"."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.render.collect import collect_command
from gputui.render.text import expectation

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.model.report import Report
    from gputui.wording import Wording


def report_json(report: Report, diagnoses: Iterable[Diagnosis], words: Wording) -> dict[str, Any]:
    """The whole answer for one report."""
    kernels = list(diagnoses)
    return {
        "schema": 1,
        "gputui": __version__,
        "report": {
            "path": report.path,
            "kind": report.kind,
            "tool_version": report.tool_version,
            "truncated": report.truncated,
            "devices": [
                {
                    "name": device.name,
                    "compute_capability": device.capability_text,
                    "architecture": device.architecture,
                    "sm_count": device.sm_count,
                }
                for device in report.devices
            ],
            "not_told": _not_told(report, kernels),
        },
        "warnings": [words.notice(notice) for notice in report.notices],
        "kernels": [kernel_json(diagnosis, words) for diagnosis in kernels],
        "timeline": None,
    }


def kernel_json(diagnosis: Diagnosis, words: Wording) -> dict[str, Any]:
    """One kernel of the answer."""
    kernel, gauges, roofline = diagnosis.kernel, diagnosis.gauges, diagnosis.roofline
    return {
        "index": kernel.index,
        "name": kernel.name,
        "demangled": kernel.demangled,
        "duration_ns": _finite(kernel.duration_ns),
        "count": 1,
        "device": kernel.device.name,
        "grid": None if kernel.grid is None else list(kernel.grid),
        "block": None if kernel.block is None else list(kernel.block),
        "nvtx": list(kernel.nvtx),
        "op_class": diagnosis.identity.op_class,
        "library": diagnosis.identity.library,
        "precision": roofline.precision or diagnosis.identity.precision,
        "tile": diagnosis.identity.tile,
        "transformer_op": diagnosis.transformer_op,
        "gauges": {
            "sm_pct": _finite(gauges.sm_pct),
            "memory_pct": _finite(gauges.memory_pct),
            "dram_pct": _finite(gauges.dram_pct),
            "tensor_pct": _finite(gauges.tensor_pct),
            "achieved_occupancy_pct": _finite(gauges.achieved_occupancy_pct),
            "warp_execution_efficiency_pct": _finite(gauges.warp_execution_efficiency_pct),
            "achieved_flop_per_s": _finite(gauges.achieved_flop_per_s),
            "dram_bytes_per_s": _finite(gauges.dram_bytes_per_s),
            "dram_bytes": _finite(gauges.dram_bytes),
        },
        "roofline": {
            "precision": roofline.precision,
            "achieved_flop_per_s": _finite(roofline.achieved_flop_per_s),
            "peak_flop_per_s": _finite(roofline.peak_flop_per_s),
            "peak_source": roofline.peak_source,
            "arithmetic_intensity": _finite(roofline.arithmetic_intensity),
            "ridge": _finite(roofline.ridge),
            "dram_peak_bytes_per_s": _finite(roofline.dram_peak_bytes_per_s),
            "roof_fraction": _finite(roofline.roof_fraction),
        },
        "verdict": {
            "id": diagnosis.verdict.id,
            "level": diagnosis.verdict.level,
            "sentence": words.verdict(diagnosis.verdict),
            "at_roof": diagnosis.verdict.at_roof,
        },
        "expected": None
        if diagnosis.expected is None
        else {"side": diagnosis.expected.side, "sentence": expectation(diagnosis, words)},
        "findings": [
            _finding_json(finding, diagnosis, words) for finding in (*diagnosis.findings, *diagnosis.validity)
        ],
        "not_checked": [
            {
                "id": one.id,
                "needs": list(one.needs),
                "sections": list(one.sections),
                "available": one.available,
            }
            for one in diagnosis.not_checked
        ],
    }


def _finding_json(finding: Finding, diagnosis: Diagnosis, words: Wording) -> dict[str, Any]:
    text = words.finding(finding)
    return {
        "id": finding.id,
        "family": finding.family,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "max_speedup": None if finding.max_speedup is None else round(finding.max_speedup, 4),
        "title": text.title,
        "why": text.why,
        "analogy": text.analogy,
        "actions": {level: list(actions) for level, actions in text.actions.items()},
        "verify": text.verify,
        "explained_by": diagnosis.explained.get(finding.id),
        "evidence": [
            {
                "metric": one.metric,
                "value": _finite(one.value),
                "unit": one.unit,
                "threshold": None if one.threshold is None else _finite(one.threshold),
            }
            for one in finding.evidence
        ],
    }


def _not_told(report: Report, diagnoses: list[Diagnosis]) -> list[dict[str, Any]]:
    """What no kernel of the report could be checked for, and the command that collects it.

    ``available`` is false, and there is no command, where the GPU has no such counters.
    """
    unchecked = [{one.id: one for one in diagnosis.not_checked} for diagnosis in diagnoses]
    if not unchecked:
        return []
    everywhere = set.intersection(*(set(one) for one in unchecked))
    return [
        {
            "id": one.id,
            "needs": list(one.needs),
            "available": one.available,
            "command": collect_command(one.sections) if one.available else None,
        }
        for one in unchecked[0].values()
        if one.id in everywhere
    ]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
