"""Why a group of kernels got faster, or did not: what held it before and after, what was cured, which numbers moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import TYPE_CHECKING, Literal

from gputui.analysis.compare.amounts import mean, number
from gputui.model.metrics import dictionary

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Comparison, Group, Member
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding, Verdict

_TOLD = (
    "load_sectors_per_request", "store_sectors_per_request", "shared_nway", "shared_wavefronts_excess", "l2_hit_pct",
    "l1_hit_pct", "dram_pct", "l2_pct", "sm_pct", "tensor_pct", "achieved_occupancy_pct",
    "warp_execution_efficiency_pct", "issue_active", "inst_executed", "registers_per_thread", "spill_inst",
)  # fmt: skip
"""The numbers that tell most of a change, in the order to tell them where they moved alike; DRAM's bytes go first."""
_MOVED = log(1.1)
_MOST_MOVED = 6
_FULL_PCT = 75.0
"""From here on a unit holds the kernel, whatever else is cured."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A number of the dictionary (``concept``) that changed by a tenth or more, in the unit of the dictionary."""

    concept: str
    before: float
    after: float
    unit: str


@dataclass(frozen=True, slots=True)
class Why:
    """``variant`` picks the sentence: what holds the kernel ``moved``; it is ``full`` all along, so that what was cured
    gained nothing; it is the ``same``; or that is ``unknown``. ``held_pct`` is how busy what holds it is, before and
    after, where it is full. ``cured`` findings are gone, ``appeared`` ones are new."""

    variant: Literal["moved", "full", "same", "unknown"]
    before: Verdict | None
    after: Verdict | None
    cured: tuple[Finding, ...] = ()
    appeared: tuple[Finding, ...] = ()
    moved: tuple[Moved, ...] = ()
    held_pct: tuple[float, float] | None = None


def why(group: Group) -> Why:
    """Of the longest kernel on each side."""
    old, now = group.longest_base, group.longest_new
    if old is None or now is None or not (old.diagnoses and now.diagnoses):
        return Why("unknown", None, None)
    before, after = old.diagnoses[0], now.diagnoses[0]
    cured, appeared = _only_in(before, group.new), _only_in(after, group.base)
    moved = []
    for concept in ("dram_bytes", *_TOLD):
        first, last = (mean(member, partial(_number, concept)) for member in (old, now))
        if first is not None and last is not None and _apart(first, last) >= _MOVED:
            moved.append(Moved(concept, first, last, dictionary()[concept].unit))
    moved.sort(key=lambda one: (one.concept != "dram_bytes", -_apart(one.before, one.after)))
    pct, last_pct = _held(before), _held(after)
    held = None if pct is None or last_pct is None else (pct, last_pct)
    same = (before.verdict.id, before.verdict.level) == (after.verdict.id, after.verdict.level)
    no_gain = group.time is not None and group.time.outcome == "no-difference"
    full = same and no_gain and held is not None and min(held) >= _FULL_PCT
    if full:
        cured = _only_in(before, group.new, minor=True)
    is_unknown = "unknown" in (before.verdict.id, after.verdict.id)
    if is_unknown:
        # Many causes are looked for only where it is known what holds the kernel.
        cured = appeared = ()
    return Why(
        variant="unknown" if is_unknown else "full" if full else "same" if same else "moved",
        before=before.verdict,
        after=after.verdict,
        cured=cured,
        appeared=appeared,
        moved=tuple(moved[:_MOST_MOVED]),
        held_pct=held if full else None,
    )


def work_moved_to(comparison: Comparison, group: Group) -> Group | None:
    """The group that moves so many bytes more now that work of a fused ``group`` seems to have gone there.

    A fused kernel that does not store what a later one reads saves bytes that the later one then spends: a quarter of
    the saving or more. ``None`` where nothing looks like that.
    """
    if group.how != "fused" or group.before.dram_bytes is None or group.after.dram_bytes is None:
        return None
    saved = group.before.dram_bytes - group.after.dram_bytes
    grown = [
        (one.after.dram_bytes - one.before.dram_bytes, one)
        for one in comparison.groups
        if one.how in ("alike", "replaced") and one.before.dram_bytes and one.after.dram_bytes
        and one.after.dram_bytes > 1.1 * one.before.dram_bytes
    ]  # fmt: skip
    most, where = max(grown, key=lambda one: one[0], default=(0.0, None))
    return where if saved > 0 and most >= saved / 4 else None


def _number(concept: str, diagnosis: Diagnosis) -> float | None:
    """The pipe counts other work too; the gauge is 0 where no matrix instruction runs."""
    return diagnosis.gauges.tensor_pct if concept == "tensor_pct" else number(diagnosis, concept)


def _only_in(one: Diagnosis, others: Sequence[Member], *, minor: bool = False) -> tuple[Finding, ...]:
    """Causes that none of the others has at all, and that could be looked for in each of them; but for ``minor`` those
    alone that gain something in this one.

    In a kernel that something holds all along, what was cured gained nothing, and is told for that.
    """
    diagnoses = [other for member in others for other in member.diagnoses[:1]]
    known = {finding.id for other in diagnoses for finding in other.findings}
    known |= {rule.id for other in diagnoses for rule in other.not_checked}
    return tuple(
        finding
        for finding in one.findings
        if finding.id not in known
        and finding.id not in one.explained
        and (finding.severity != "info" or (minor and not finding.option))
    )


def _apart(before: float, after: float) -> float:
    if before <= 0 or after <= 0:
        return 0.0 if before == after else log(100)
    return abs(log(before / after))


def _held(diagnosis: Diagnosis) -> float | None:
    """How busy what holds the kernel is, in percent."""
    gauges, verdict = diagnosis.gauges, diagnosis.verdict
    if verdict.id == "memory-bound":
        return {"dram": gauges.dram_pct, "l2": gauges.l2_pct, "l1": gauges.l1_pct}.get(verdict.level or "dram")
    return {"tensor-bound": gauges.tensor_pct, "compute-bound": gauges.sm_pct}.get(verdict.id)
