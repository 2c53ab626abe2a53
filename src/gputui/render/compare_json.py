"""The JSON of ``compare --format json``, schema 1. Fields may be added, never renamed; ``null`` is "not told".

Shares are between 0 and 1, what ends in ``_pct`` is in percent; all amounts are for doing the work once.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.render import compare_rows as rows
from gputui.render.schema import device_json, finite
from gputui.render.text import sureness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gputui.analysis.compare.model import Amounts, Comparison, Group, Member, Side, TimeChange
    from gputui.wording import Wording


def compare_json(comparisons: Sequence[Comparison], words: Wording) -> dict[str, Any]:
    """The whole answer for two sides; several comparisons are of the same two runs, and none has no sides."""
    return {
        "schema": 1,
        "gputui": __version__,
        "base": _sides([c.base for c in comparisons]),
        "new": _sides([c.new for c in comparisons]),
        "comparisons": [_comparison(c, words) for c in comparisons],
    }


def _sides(sides: Sequence[Side]) -> dict[str, Any] | None:
    if not sides:
        return None
    reports = [report for side in sides for report in side.reports]
    device = next((side.device for side in sides if side.device is not None), None)
    return {
        "path": reports[0].path,
        "paths": [report.path for report in reports],
        "device": None if device is None else device_json(device),
    }


def _comparison(c: Comparison, words: Wording) -> dict[str, Any]:
    marks = {row.id: row.mark for row in rows.answers(c, words)}
    tensor, dram, kernels = c.tensor, c.dram, c.kernels
    return {
        "kind": c.kind,
        "base": _side(c.base),
        "new": _side(c.new),
        "headline": rows.headline(c, words),
        "cautions": [
            {
                "id": caution.id,
                "text": " ".join(rows.caution_lines(c, caution, words)),
                "open": sorted(caution.open),
            }
            for caution in c.cautions
        ],
        "answers": {
            "tensor": {
                "answer": marks["tensor"],
                "trend": tensor.trend,
                "before_pct": finite(tensor.before),
                "after_pct": finite(tensor.after),
                "before_ops": finite(c.before.tensor_ops),
                "after_ops": finite(c.after.tensor_ops),
                "because": tensor.because or None,
            },
            "dram": {
                "answer": marks["dram"],
                "trend": dram.trend,
                "before_bytes": finite(dram.before),
                "after_bytes": finite(dram.after),
                "because": dram.because or None,
            },
            "fusion": {
                "answer": marks["kernels"],
                "kind": c.fusion,
                "before_kernels": kernels.before,
                "after_kernels": kernels.after,
                "because": kernels.because or None,
            },
        },
        "time": _time(c.time),
        "wall": None if c.wall is None else _time(c.wall),
        "bottleneck": {
            "before": _bottleneck(c.before),
            "after": _bottleneck(c.after),
            "sentence": rows.shift(c, words),
        },
        "groups": [_group(c, group, words) for group in c.groups],
        "next": _next(c, words),
    }


def _side(side: Side) -> dict[str, Any]:
    return {"passes": side.passes, "launches": side.launches, "kernels": len(side.members), "is_part": side.is_part}


def _time(time: TimeChange) -> dict[str, Any]:
    equal = time.at_equal_clocks
    return {
        "outcome": time.outcome,
        "before_ns": finite(time.before_ns),
        "after_ns": finite(time.after_ns),
        "speedup": finite(time.speedup),
        "low": finite(time.low),
        "high": finite(time.high),
        "samples": list(time.samples),
        "noise": time.noise,
        "noise_pct": finite(time.noise_pct),
        "at_equal_clocks": None if equal is None else [finite(one) for one in equal],
        "because": list(time.because),
    }


def _bottleneck(amounts: Amounts) -> dict[str, Any] | None:
    if amounts.verdict is None:
        return None
    return {"verdict": amounts.verdict, "level": amounts.level, "share": finite(amounts.verdict_share)}


def _group(c: Comparison, group: Group, words: Wording) -> dict[str, Any]:
    return {
        "how": group.how,
        "times": group.times,
        "sureness": finite(group.sureness),
        "by_hand": group.by_hand,
        "same_work": group.same_work,
        "base": [_member(one) for one in group.base],
        "new": [_member(one) for one in group.new],
        "before": _amounts(group.before),
        "after": _amounts(group.after),
        "time": None if group.time is None else _time(group.time),
        "why": rows.why_lines(c, group, words),
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "name": member.kernel.name,
        "demangled": member.kernel.demangled,
        "nvtx": list(member.nvtx),
        "op_class": member.identity.op_class,
        "transformer_op": member.op,
        "duration_ns": finite(member.time_ns),
    }


def _amounts(amounts: Amounts) -> dict[str, Any]:
    return {key: finite(one) if isinstance(one, float) else one for key, one in asdict(amounts).items()}


def _next(c: Comparison, words: Wording) -> dict[str, Any] | None:
    """``max_speedup`` is of all kernels together; of a timeline it is the program's."""
    found = rows.next_finding(c, words)
    if found is None:
        return None
    finding, text = found.finding, found.text
    return {
        "kernel": None if c.next is None else c.next.member.kernel.name,
        "finding": finding.id,
        "title": text.title,
        "share": None if c.next is None else finite(c.next.share),
        "max_speedup": finite(finding.max_speedup if c.next is None else c.next.gain),
        "confidence": finding.confidence,
        "sure": sureness(finding, words),
        "actions": {level: list(actions) for level, actions in text.actions.items()},
        "verify": text.verify,
    }
