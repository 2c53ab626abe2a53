"""NVIDIA's own rule results beside our diagnosis: which finding of ours says the same, and why where none does.

The table goes by NVIDIA's rule identifier and, where one rule says several things, by the title or the message; the
names are those of reports from 2019 to 2025. Texts are
``nvidia.reason.<reason>`` and ``nvidia.estimate.<estimate>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gputui.analysis.facts import Facts
from gputui.analysis.rules import all_rules
from gputui.analysis.rules.occupancy import LOW_PCT

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.model.report import RuleResult

RelationId = Literal["agrees", "effect", "differs", "not-checked", "no-own-check", "information"]
RELATIONS: tuple[RelationId, ...] = ("agrees", "effect", "differs", "not-checked", "no-own-check", "information")


@dataclass(frozen=True, slots=True)
class Remark:
    """One rule result and what it is to us.

    ``finding`` is the id of ours that it is held against, where there is one; ``number`` is that finding's place among
    those told in full. ``reason`` says how the two stand; ``estimate`` why NVIDIA's estimate is not the kernel's gain,
    ``""`` where it gives none or ours does not contradict it. ``params`` fill both texts.
    """

    rule: RuleResult
    relation: RelationId
    reason: str
    finding: str | None = None
    number: int | None = None
    estimate: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def no_loss(self) -> bool:
        """Of a kind that NVIDIA has for nearly every kernel, and that costs nothing here."""
        return self.relation == "differs" and self.finding in _NO_LOSS


@dataclass(frozen=True, slots=True)
class _Row:
    """Where ``rule`` and ``pattern`` (sought in title and message) hold: what of ours it is about.

    ``verdicts`` are ours that say the same; ``reason`` is for a rule that ours have no counterpart of, or that claims
    nothing (``relation``); ``why_not`` is why ours did not find it, where that is always the same.
    """

    rule: str
    pattern: str = ""
    findings: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    relation: RelationId | None = None
    reason: str = ""
    why_not: str = ""


_OCCUPANCY = (
    _Row("", "shared memory", ("occupancy-shared-memory",)),
    _Row("", "number of required registers", ("occupancy-registers",)),
    _Row("", "number of warps within each block", ("occupancy-block-size",)),
    _Row("", "number of blocks|block limit", ("occupancy-block-count",)),
    _Row("", "measured achieved", ("occupancy-achieved", "tail-wave", "sm-imbalance", "small-grid")),
)
"""What limits the occupancy: the message tells, several at a time."""

_TABLE = (
    _Row("SOLBottleneck", "^High Compute", verdicts=("compute-bound", "tensor-bound")),
    _Row("SOLBottleneck", "^High Memory", verdicts=("memory-bound",)),
    _Row("SOLBottleneck", "^Small Grid", ("small-grid", "tail-wave"), ("launch-bound",)),
    _Row("SOLBottleneck", "^Balanced", verdicts=("balanced",)),
    _Row(
        "SOLBottleneck", "^High Throughput", verdicts=("memory-bound", "compute-bound", "tensor-bound", "balanced")
    ),
    _Row("SOLBottleneck", "", verdicts=("latency-bound", "launch-bound")),
    _Row("SOLFPRoofline", relation="information", reason="roofline"),
    _Row("HighPipeUtilization", "^Balanced", relation="information", reason="describes"),
    _Row("HighPipeUtilization", "^(Very )?High Utilization", ("compute-roof", "tensor-roof", "pipe-saturated"),
         ("compute-bound", "tensor-bound")),
    _Row("HighPipeUtilization", "", verdicts=("latency-bound", "launch-bound", "memory-bound")),
    _Row("IssueSlotUtilization", "", ("issue-slots",)),
    _Row("CPIStall", "^Warp Stall$", relation="information", reason="describes"),
    _Row("CPIStall", "^not.selected", relation="information", reason="not-selected"),
    _Row("AchievedOccupancy", "", ("occupancy-achieved", "tail-wave", "sm-imbalance", "small-grid")),
    _Row("Occupancy", "not impacted by any", relation="information", reason="describes"),
    _Row("LaunchConfiguration", "^Block Size", ("partial-warp",)),
    _Row("LaunchConfiguration", "__syncthreads", ("few-blocks",)),
    _Row("LaunchConfiguration", "^Small Grid", ("small-grid",)),
    _Row("LaunchConfiguration", "Tail Effect|wave of thread blocks", ("tail-wave",)),
    _Row("FPInstructions", "", ("unfused-math",), why_not="fused"),
    _Row("MemoryCacheAccessPattern", " Local ", ("register-spill",)),
    _Row("MemoryCacheAccessPattern", " Store ", ("uncoalesced-store",)),
    _Row("MemoryCacheAccessPattern", "", ("uncoalesced-load",)),
    _Row("MemoryL2Compression", "", ("l2-compression",), why_not="compression"),
    _Row("PMSamplingData", relation="information", reason="sampling"),
    _Row("SharedMemoryConflicts", "", ("bank-conflicts",)),
    _Row("UncoalescedSharedAccess", "", ("bank-conflicts",)),
    _Row("UncoalescedGlobalAccess", "", ("uncoalesced-load", "uncoalesced-store")),
    _Row("ThreadDivergence", "", ("thread-divergence", "partial-warp")),
    _Row("SlowPipeLimiter", "", ("pipe-saturated",)),
    _Row("MemoryApertureUsage", "", ("sysmem-traffic",)),
    _Row("WorkloadImbalance", "^L2", relation="no-own-check", reason="l2-slices"),
    _Row("WorkloadImbalance", "", ("sm-imbalance", "tail-wave", "small-grid")),
)  # fmt: skip

_STALLS = {
    "math-pipe-throttle": ("stall-math-pipe", "pipe-saturated", "fp64-on-slow-part", "tensor-roof"),
    "no-instructions": ("stall-no-instruction",),
    "branch-resolving": ("stall-branch",),
    "warpgroup-arrive": ("stall-gmma",),
}
"""Stalls that ours have under another id, or that another finding of ours says as well."""
_NO_LOSS = ("unfused-math", "l2-compression")
_LATENCY_FAMILIES = frozenset({"occupancy", "stalls"})
_PAUSES = 0.1
"""The share of the time at barriers from which few blocks count: few-blocks' own line."""
_GUARDED_BY_LENGTH = ("memory", "compute", "launch", "occupancy", "stalls")
_TILED = ("gemm", "attention", "conv")
_NOTHING = 1.005
"""A bound below this reads as 1.00."""
_LEFT_OUT_PCT = 2.0
"""NVIDIA's memory figure leaves out a level that is this much busier."""
_ABOVE = 1.1
"""NVIDIA's estimate is called too high where it exceeds our bound by this."""


def relate_all(rules: Iterable[RuleResult], diagnosis: Diagnosis) -> tuple[Remark, ...]:
    """Every remark of NVIDIA's with its relation, those that agree or differ first."""
    found = [relate(rule, diagnosis) for rule in rules]
    return tuple(sorted(found, key=lambda remark: RELATIONS.index(remark.relation)))


def relate(rule: RuleResult, diagnosis: Diagnosis) -> Remark:
    """What one rule result is to the diagnosis of the same kernel."""
    if rule.kind == "ERR":
        return Remark(rule, "information", "failed")
    if not rule.message:
        return Remark(rule, "information", "empty")
    row = _row_of(rule)
    if row is None:
        return Remark(rule, "no-own-check", "unknown")
    if row.relation is not None:
        return Remark(rule, row.relation, row.reason)
    known = [id for id in row.findings if id in all_rules()]
    if row.findings and not known and not row.verdicts:
        return Remark(rule, "no-own-check", row.reason or "unknown")
    if diagnosis.verdict.id in row.verdicts:
        return Remark(rule, "agrees", "verdict", params=_verdict(diagnosis))
    remark = _held_against(rule, known, diagnosis) if known else None
    if remark is not None and row.why_not and remark.relation == "differs" and remark.reason != "at-roof":
        return Remark(rule, "differs", row.why_not, remark.finding)
    if remark is None or (remark.relation == "differs" and row.verdicts):
        return _other_verdict(rule, diagnosis)
    return remark


def _row_of(rule: RuleResult) -> _Row | None:
    if rule.rule.startswith("CPIStall"):
        name = rule.title or rule.rule
        row = next((row for row in _TABLE if row.rule == "CPIStall" and re.search(row.pattern, name, re.I)), None)
        return row or _Row("CPIStall", "", stall_findings(name), reason="stall")
    if rule.rule in ("Occupancy", "TheoreticalOccupancy") and "not impacted by any" not in rule.message:
        limits = [row.findings for row in _OCCUPANCY if re.search(row.pattern, rule.message)]
        return _Row(rule.rule, "", tuple(dict.fromkeys(id for ids in limits for id in ids))) if limits else None
    for row in _TABLE:
        if row.rule == rule.rule and (re.search(row.pattern, rule.title) or re.search(row.pattern, rule.message)):
            return row
    return None


def stall_findings(title: str) -> tuple[str, ...]:
    """The ids of ours for a stall as NVIDIA's titles spell it: Long Scoreboard Stalls, long_scoreboard."""
    name = re.sub(r"^CPI Stall|\bStalls?$|['\"]", "", title, flags=re.I).strip().lower()
    name = re.sub(r"[\s_]+", "-", name)
    return _STALLS.get(name, (f"stall-{name}",))


def _held_against(rule: RuleResult, ids: Sequence[str], diagnosis: Diagnosis) -> Remark:
    found = {one.id: one for one in (*diagnosis.findings, *diagnosis.validity)}
    # Causes before effects, as the findings are ranked.
    ours = [one for id, one in found.items() if id in ids]
    if diagnosis.verdict.at_roof:
        return Remark(rule, "differs", "at-roof", ours[0].id if ours else ids[0], params=_verdict(diagnosis))
    if ours:
        return _with_finding(rule, ours[0], diagnosis)
    unchecked = {one.id: one for one in diagnosis.not_checked}
    if all(id in unchecked for id in ids):
        return Remark(rule, "not-checked", "not-checked", ids[0])
    reason, numbers = _why_not(ids, diagnosis)
    # How many warps fit is set by the launch, and no effect of anything.
    limiter = all_rules()[ids[0]].family == "occupancy" and ids[0] != "occupancy-achieved"
    if not limiter and reason not in ("too-short", "by-design"):
        for number, cause in enumerate(diagnosis.main, 1):
            if cause.severity != "info" and set(cause.effects) & set(ids):
                return Remark(rule, "effect", "symptom", ids[0], params={"cause": cause.id, "number": number})
    return Remark(rule, "differs", reason, ids[0], params={**_verdict(diagnosis), **numbers})


def _with_finding(rule: RuleResult, finding: Finding, diagnosis: Diagnosis) -> Remark:
    numbers = {one.id: number for number, one in enumerate(diagnosis.main, 1)}
    number = numbers.get(finding.id)
    params: dict[str, Any] = {"number": number, "gain": finding.max_speedup, "estimate": rule.speedup_pct}
    cause = diagnosis.explained.get(finding.id)
    if cause is not None:
        params["cause"] = cause
        # Curing the effect without its cause gains no more than curing both.
        ours = next((one.max_speedup for one in diagnosis.findings if one.id == cause), None)
        if ours is not None and finding.max_speedup is not None:
            params["gain"] = min(ours, finding.max_speedup)
        return Remark(rule, "effect", "effect", finding.id, params=params, estimate=_estimate(rule, finding))
    reason = "finding" if number is not None else "minor" if finding.severity == "info" else "also"
    return Remark(rule, "agrees", reason, finding.id, number, _estimate(rule, finding), params)


def _estimate(rule: RuleResult, finding: Finding) -> str:
    """Why NVIDIA's estimate is not what the kernel gains."""
    if not rule.speedup_pct:
        return ""
    claimed = 1 / (1 - min(rule.speedup_pct, 99.0) / 100)
    bound = finding.max_speedup
    nothing = "-nothing" if bound is not None and bound < _NOTHING else ""
    if not rule.speedup_is_global:
        return "local" if bound is None else f"local{nothing or '-bounded'}"
    return f"above{nothing}" if bound is not None and claimed > _ABOVE * bound else ""


_LIMITS = ("limit_registers", "limit_shared", "limit_warps", "limit_blocks", "limit_barriers")
"""Blocks that an SM can hold, by what limits them."""


def _why_not(ids: Sequence[str], diagnosis: Diagnosis) -> tuple[str, dict[str, float]]:
    """Why ours did not find what was checked, and the numbers that tell it."""
    families = {all_rules()[id].family for id in ids}
    if any(one.id == "too-short" for one in diagnosis.validity) and families & set(_GUARDED_BY_LENGTH):
        return "too-short", {}
    facts = Facts(diagnosis.kernel)
    waves, theoretical = facts.number("waves"), facts.number("theoretical_occupancy_pct")
    if ids[0] == "few-blocks":
        if 1 in map(facts.number, _LIMITS):
            return "blocks-no-room", {}
        barrier = facts.stall_share("barrier")
        if barrier is not None and barrier <= _PAUSES:
            return "blocks-barriers", {"barrier_pct": 100 * barrier}
    elif not families & _LATENCY_FAMILIES:
        return "tail" if tuple(ids) == ("tail-wave",) else "below-line", {}
    if diagnosis.verdict.id == "tensor-bound" or (
        diagnosis.identity.op_class in _TILED and diagnosis.gauges.tensor_pct
    ):
        return "by-design", {}
    if diagnosis.verdict.id in ("memory-bound", "compute-bound", "balanced"):
        return "other-limit", {}
    if ids[0] == "few-blocks" and waves is not None and waves >= 1:
        return "blocks-no-room", {}
    if "occupancy" in families and waves is not None and waves < 1:
        return "occupancy-blocks", {"filled_pct": 100 * waves}
    if "occupancy" in families and facts.fed and facts.issue is not None:
        return "occupancy-fed", {"issue_pct": 100 * facts.issue}
    if "occupancy" in families and ids[0] != "occupancy-achieved" and theoretical and theoretical >= LOW_PCT:
        return "occupancy-enough", {"theoretical_pct": theoretical}
    return "below-line", {}


def _other_verdict(rule: RuleResult, diagnosis: Diagnosis) -> Remark:
    """The numbers that the verdict goes by, where NVIDIA's rule goes by others."""
    if diagnosis.verdict.id == "unknown":
        return Remark(rule, "not-checked", "verdict-unknown")
    gauges, kernel = diagnosis.gauges, diagnosis.kernel
    numbers = {
        "sm_pct": gauges.sm_pct, "memory_pct": gauges.memory_pct, "busiest_pct": gauges.busiest_memory_pct,
        "filled_pct": 100 * (kernel.number("waves") or 0.0),
    }  # fmt: skip
    reason = "other-verdict"
    if rule.title == "Small Grid" and 0 < (kernel.number("waves") or 0.0) < 1:
        reason = "other-verdict-blocks"
    elif gauges.sm_pct is None or gauges.memory_pct is None:
        reason = "other-verdict-unknown"
    elif diagnosis.verdict.level != "dram" and (gauges.busiest_memory_pct or 0.0) > gauges.memory_pct + _LEFT_OUT_PCT:
        reason = "other-verdict-level"
    elif diagnosis.verdict.level == "l1" and Facts(kernel).moves_data:
        reason = "other-verdict-loads"
    return Remark(rule, "differs", reason, params={**_verdict(diagnosis), **numbers})


def _verdict(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"verdict": diagnosis.verdict.id}
