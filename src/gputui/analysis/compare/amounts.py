"""What members take together: times and bytes summed, percentages weighted by time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import TYPE_CHECKING

from gputui.analysis.compare.model import Amounts, Member
from gputui.analysis.facts import TENSOR_PRECISIONS
from gputui.analysis.roofline import Point

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Level, VerdictId

_SAME_OPERATIONS = 0.1
"""Counted operations of the same work differ by less: tiles overlap the edges of a matrix differently."""

Number = Callable[["Diagnosis"], float | None]


def amounts(members: Sequence[Member]) -> Amounts:
    """Of one pass. A number that one of the members does not tell is told of none."""
    if not members:
        return Amounts(0, 0.0)
    verdict, level, share = _ruling(members)
    return Amounts(
        kernels=round(sum(member.count for member in members)),
        time_ns=_sum(member.time_ns for member in members),
        tensor_pct=_weighted(members, lambda one: one.gauges.tensor_pct),
        tensor_ops=_sum(mean(member, tensor_ops) for member in members),
        flops=_sum(map(flops_of, members)),
        dram_bytes=_sum(mean(member, lambda one: one.gauges.dram_bytes) for member in members),
        sm_pct=_weighted(members, lambda one: one.gauges.sm_pct),
        dram_pct=_weighted(members, lambda one: one.gauges.dram_pct),
        sm_clock_hz=_weighted(members, lambda one: number(one, "sm_clock")),
        dram_clock_hz=_weighted(members, lambda one: number(one, "dram_clock")),
        verdict=verdict,
        level=level,
        verdict_share=share,
    )


def mean(member: Member, number: Number) -> float | None:
    """Of the launches of a member; ``None`` where one of them does not tell, and of a timeline."""
    values = [number(one) for one in member.diagnoses]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def tensor_ops(diagnosis: Diagnosis) -> float | None:
    """Operations of the tensor cores in a launch; 0 where it does none."""
    counts = [number(diagnosis, f"tensor_ops_{precision}") for precision in TENSOR_PRECISIONS]
    known = [count for count in counts if count is not None]
    if diagnosis.gauges.tensor_pct == 0:
        return 0.0
    return sum(known) if any(known) else None


def flops_of(member: Member) -> float | None:
    """Operations in a launch, of all kinds that the report counts."""

    return mean(member, flops_in)


def flops_in(diagnosis: Diagnosis) -> float | None:
    """Operations in one launch."""
    rate, duration = diagnosis.roofline.achieved_flop_per_s, diagnosis.kernel.duration_ns
    return None if rate is None or duration is None else rate * duration / 1e9


def as_many(one: float, other: float) -> bool:
    """Whether two positive counts of operations are those of the same work."""
    return abs(log(one / other)) < _SAME_OPERATIONS


def number(diagnosis: Diagnosis, concept: str) -> float | None:
    """As ``Facts.number``: a negative value is damage and counts as not told."""
    value = diagnosis.kernel.number(concept)
    return None if value is None or value < 0 else value


def point_of(together: Amounts, number: int, name: str) -> Point | None:
    """Where kernels stand together in the roofline: all operations over all DRAM bytes, and over all time."""
    flops, moved, time_ns = together.flops, together.dram_bytes, together.time_ns
    if not (flops and moved and time_ns):
        return None
    return Point(number, name, "dram", flops / moved, flops / time_ns * 1e9, None, time_ns)


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _weighted(members: Sequence[Member], number: Number) -> float | None:
    total, weights = 0.0, 0.0
    for member in members:
        value, weight = mean(member, number), member.time_ns
        if value is None or weight is None:
            return None
        total, weights = total + value * weight, weights + weight
    return total / weights if weights else None


def _ruling(members: Sequence[Member]) -> tuple[VerdictId | None, Level | None, float | None]:
    """What holds most of the time: a verdict, its memory level, and its share."""
    times: dict[tuple[VerdictId, Level | None], float] = {}
    for member in members:
        if not member.diagnoses or member.time_ns is None:
            return None, None, None
        verdict = member.diagnoses[0].verdict
        times[verdict.id, verdict.level] = times.get((verdict.id, verdict.level), 0.0) + member.time_ns
    total = sum(times.values())
    most = max(times, key=lambda one: times[one])
    return (*most, times[most] / total if total else None)
