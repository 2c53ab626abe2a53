"""The JSON of ``explain --format json``, schema 1. Fields may be added, never renamed; ``null`` is "not told"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.render.collect import collect_command
from gputui.render.lines import MOST_READ, placed, remark_text, remarks_of, source_of
from gputui.render.text import expectation, group_by_function

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding, Gauges
    from gputui.analysis.nvidia_rules import Remark
    from gputui.analysis.roofline import Roofline
    from gputui.analysis.source import HotLine, Place, Source
    from gputui.model.device import Device
    from gputui.model.report import Report
    from gputui.wording import FindingText, Wording


_MOST_LINES = 10


def report_json(report: Report, diagnoses: Iterable[Diagnosis], words: Wording) -> dict[str, Any]:
    """The whole answer for one report."""
    kernels = list(diagnoses)
    explained = [launches[0] for launches in group_by_function(kernels)[:MOST_READ]]
    read = {one.kernel.index: (source_of(report, one), remarks_of(report, one)) for one in explained}
    return {
        "schema": 1,
        "gputui": __version__,
        "report": {
            "path": report.path,
            "kind": report.kind,
            "tool_version": report.tool_version,
            "truncated": report.truncated,
            "devices": [device_json(device) for device in report.devices],
            "not_told": _not_told(report, kernels),
        },
        "warnings": [words.notice(notice) for notice in report.notices],
        "kernels": [kernel_json(one, words, *read.get(one.kernel.index, (None, None))) for one in kernels],
        "timeline": None,
    }


def kernel_json(
    diagnosis: Diagnosis,
    words: Wording,
    source: Source | None = None,
    remarks: Sequence[Remark] | None = None,
) -> dict[str, Any]:
    """One kernel of the answer; ``remarks`` is ``None`` where NVIDIA's were not read."""
    kernel, gauges, roofline = diagnosis.kernel, diagnosis.gauges, diagnosis.roofline
    return {
        "index": kernel.index,
        "name": kernel.name,
        "demangled": kernel.demangled,
        "duration_ns": finite(kernel.duration_ns),
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
        "gauges": gauges_json(gauges),
        "roofline": roofline_json(roofline),
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
            _finding_json(finding, diagnosis, words, placed(source, finding))
            for finding in (*diagnosis.findings, *diagnosis.validity)
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
        "nvidia_rules": None if remarks is None else [_remark_json(remark, diagnosis, words) for remark in remarks],
        "source": None if source is None else {"lines": [_line_json(one) for one in source.lines[:_MOST_LINES]]},
    }


def gauges_json(gauges: Gauges) -> dict[str, Any]:
    return {
        "sm_pct": finite(gauges.sm_pct),
        "memory_pct": finite(gauges.memory_pct),
        "dram_pct": finite(gauges.dram_pct),
        "tensor_pct": finite(gauges.tensor_pct),
        "achieved_occupancy_pct": finite(gauges.achieved_occupancy_pct),
        "warp_execution_efficiency_pct": finite(gauges.warp_execution_efficiency_pct),
        "achieved_flop_per_s": finite(gauges.achieved_flop_per_s),
        "dram_bytes_per_s": finite(gauges.dram_bytes_per_s),
        "dram_bytes": finite(gauges.dram_bytes),
    }


def roofline_json(roofline: Roofline) -> dict[str, Any]:
    return {
        "precision": roofline.precision,
        "achieved_flop_per_s": finite(roofline.achieved_flop_per_s),
        "peak_flop_per_s": finite(roofline.peak_flop_per_s),
        "peak_source": roofline.peak_source,
        "arithmetic_intensity": finite(roofline.arithmetic_intensity),
        "ridge": finite(roofline.ridge),
        "dram_peak_bytes_per_s": finite(roofline.dram_peak_bytes_per_s),
        "roof_fraction": finite(roofline.roof_fraction),
    }


def _remark_json(remark: Remark, diagnosis: Diagnosis, words: Wording) -> dict[str, Any]:
    rule = remark.rule
    estimate = finite(rule.speedup_pct) or None
    return {
        "rule": rule.rule,
        "section": rule.section,
        "title": rule.title,
        "message": rule.message,
        "estimate_pct": estimate,
        "estimate_is": None if estimate is None else "kernel" if rule.speedup_is_global else "unit",
        "our_finding": remark.finding,
        "relation": remark.relation,
        "why": remark_text(remark, diagnosis, words),
    }


def _line_json(line: HotLine) -> dict[str, Any]:
    return {
        **_place_json(line),
        "samples": finite(line.samples),
        "share_pct": finite(line.share_pct),
        "stalls": {stall.reason: round(stall.share_pct / 100, 4) for stall in line.stalls},
        "executed": finite(line.executed),
        "threads": finite(line.threads),
        "flags": [flag.id for flag in line.flags],
    }


def _place_json(line: HotLine) -> dict[str, Any]:
    """``sass_number`` is the place of the line's first instruction in the program, from 1."""
    return {
        "file": line.file or None,
        "line": line.line or None,
        "text": line.text,
        "sass": line.sass or None,
        "sass_number": line.number,
    }


def _finding_json(finding: Finding, diagnosis: Diagnosis, words: Wording, place: Place | None) -> dict[str, Any]:
    return {
        **finding_json(finding, words.finding(finding, diagnosis.tags), diagnosis.explained.get(finding.id)),
        "place": None if place is None else {**_place_json(place.line), "share_pct": round(place.share_pct, 2)},
    }


def finding_json(finding: Finding, text: FindingText, explained_by: str | None) -> dict[str, Any]:
    """A finding without its place."""
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
        "explained_by": explained_by,
        "evidence": [
            {
                "metric": one.metric,
                "value": finite(one.value),
                "unit": one.unit,
                "threshold": None if one.threshold is None else finite(one.threshold),
            }
            for one in finding.evidence
        ],
    }


def device_json(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "compute_capability": device.capability_text,
        "architecture": device.architecture,
        "sm_count": device.sm_count,
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
            "command": collect_command(one.sections, diagnoses[0].kernel.device) if one.available else None,
        }
        for one in unchecked[0].values()
        if one.id in everywhere
    ]


def finite(value: float | None) -> float | None:
    """``None`` for what JSON has no number for."""
    return value if value is not None and math.isfinite(value) else None
