"""The JSON of ``explain --format json`` for a timeline: the same schema, with ``timeline`` filled.

Times are on the timeline's clock: a file's own, after ``shift_ns`` was added to them where there are several files.
Shares of time are between 0 and 1. Of a kernel that only a timeline tells of, what needs counters is ``null``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.analysis.finding import Gauges, Verdict
from gputui.analysis.roofline import Roofline
from gputui.render import timeline_rows as rows
from gputui.render.collect import nsys_command
from gputui.render.schema import device_json, finding_json, finite, gauges_json, roofline_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gputui.analysis.finding import Finding
    from gputui.analysis.nvtx import RangeNode
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_kernels import KernelShare
    from gputui.analysis.timeline_tables import Copies, Selection
    from gputui.model.report import Report
    from gputui.wording import Wording

MOST_RANGES = 1000
"""NVTX ranges of different paths; the longest are told."""

_NO_ROOFLINE = Roofline(None, (), None, (), None, None, None, None, None, None, None, None)
_UNKNOWN = Verdict("unknown")


def timeline_json(report: Report, diagnosis: TimelineDiagnosis, selection: Selection, words: Wording) -> dict[str, Any]:
    """The whole answer for one timeline: kernels and NVTX ranges of what was selected, findings of all of it."""
    facts = diagnosis.facts
    timeline, window = facts.timeline, facts.window
    gpus = [timeline.gpus[gpu] for gpu in facts.gpus] or list(timeline.gpus)
    return {
        "schema": 1,
        "gputui": __version__,
        "report": {
            "path": report.path,
            "kind": report.kind,
            "tool_version": report.tool_version,
            "truncated": report.truncated,
            "devices": [device_json(gpu.device) for gpu in gpus],
            "files": [
                {"path": file.path, "rank": file.rank, "host": file.host, "shift_ns": file.shift_ns}
                for file in timeline.files
            ],
            "not_told": [
                {
                    "id": one.id,
                    "needs": list(one.needs),
                    "available": one.available,
                    "command": nsys_command(one.sections) if one.sections else None,
                }
                for one in diagnosis.not_checked
            ],
        },
        "warnings": [words.notice(notice) for notice in report.notices] + rows.lacks(report, facts, words),
        "kernels": [_kernel_json(share, words) for share in selection.kernels],
        "timeline": {
            "start_ns": timeline.start_ns,
            "end_ns": timeline.end_ns,
            "span_ns": timeline.span_ns,
            "window": {
                "start_ns": window.start_ns,
                "end_ns": window.end_ns,
                "source": window.source,
                "steps": None if facts.steps is None else len(facts.steps.steps),
                "warm_up_steps": None if facts.steps is None else facts.steps.warm_up,
                "step_ns": None if facts.steps is None else facts.steps.median_ns,
            },
            "verdict": {"id": diagnosis.verdict.id, "sentence": rows.sentence(diagnosis, words)},
            "devices": list(_devices(diagnosis, words)),
            "nvtx": [_range_json(node) for node in _longest_ranges(selection.nodes)],
            "copies": [_copies_json(one) for one in selection.copies],
            "findings": [_finding_json(finding, diagnosis, words) for finding in diagnosis.findings],
        },
    }


def _kernel_json(share: KernelShare, words: Wording) -> dict[str, Any]:
    kernel, group = share.kernel, share.group
    return {
        "index": kernel.index,
        "name": kernel.name,
        "demangled": kernel.demangled,
        "duration_ns": group.total_ns,
        "count": group.count,
        "device": kernel.device.name,
        "grid": None if kernel.grid is None else list(kernel.grid),
        "block": None if kernel.block is None else list(kernel.block),
        "nvtx": list(kernel.nvtx),
        "op_class": share.identity.op_class,
        "library": share.identity.library,
        "precision": share.identity.precision,
        "tile": share.identity.tile,
        "transformer_op": None,
        "gauges": gauges_json(Gauges()),
        "roofline": roofline_json(_NO_ROOFLINE),
        "verdict": {"id": _UNKNOWN.id, "level": None, "sentence": words.verdict(_UNKNOWN), "at_roof": False},
        "findings": [],
        "times": {
            "share": _share(share.share),
            "window_share": _share(share.window_share),
            "min_ns": group.min_ns,
            "median_ns": group.median_ns,
            "max_ns": group.max_ns,
            "launch_shapes": share.shapes,
            "window_max_speedup": finite(share.amdahl),
        },
        "ncu": {"deserves": share.deserves, "command": list(share.command) or None},
    }


def _share(value: float) -> float:
    return round(value, 6)


def _devices(diagnosis: TimelineDiagnosis, words: Wording) -> Iterator[dict[str, Any]]:
    """``busy_ns`` and ``idle_ns`` are of the whole capture, ``busy_share`` is of the window."""
    facts = diagnosis.facts
    for gpu in facts.gpus:
        busy = facts.busy[gpu].total
        yield {
            "device": rows.gpu_label(facts.timeline, gpu, words),
            "name": facts.timeline.gpus[gpu].device.name,
            "busy_ns": busy,
            "idle_ns": facts.timeline.span_ns - busy,
            "busy_share": _share(facts.busy_share(gpu)),
            "kernel_count": int((facts.kernel_mask & facts.ops_of(gpu)).sum()),
        }


def _longest_ranges(nodes: Sequence[RangeNode]) -> list[RangeNode]:
    """The ranges and those in them, as a tree is read: outer ones before inner ones."""
    found: list[RangeNode] = []
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(node.children)
    if len(found) > MOST_RANGES:
        least = sorted((node.cpu_ns for node in found), reverse=True)[MOST_RANGES - 1]
        found = [node for node in found if node.cpu_ns >= least][:MOST_RANGES]
    return found


def _range_json(node: RangeNode) -> dict[str, Any]:
    """``gpu_ns``: how long the GPU worked on what they launched; ``projected_ns``: from the first of it to the last."""
    return {
        "range": "/".join(node.path),
        "domain": node.domain or None,
        "count": node.count,
        "cpu_ns": node.cpu_ns,
        "gpu_ns": node.busy_ns,
        "projected_ns": node.projected_ns,
        "idle_share": None if node.idle_share is None else _share(node.idle_share),
        "kernel_count": node.kernels,
    }


def _copies_json(copies: Copies) -> dict[str, Any]:
    return {
        "kind": "memset" if copies.kind is None else copies.kind.name.lower().replace("_", "-"),
        "host_memory": copies.host.name.lower(),
        "count": copies.count,
        "bytes": copies.bytes,
        "duration_ns": copies.total_ns,
    }


def _finding_json(finding: Finding, diagnosis: TimelineDiagnosis, words: Wording) -> dict[str, Any]:
    moment = finding.moment
    place = None
    if moment is not None:
        lane = rows.lane(moment, diagnosis.facts.timeline, words)
        place = {"start_ns": moment.start_ns, "end_ns": moment.end_ns, "lane": lane or None}
    text = words.finding(finding, diagnosis.tags)
    return {**finding_json(finding, text, diagnosis.explained.get(finding.id)), "place": place}
