"""What stands between the numbers and a conclusion: short kernels, locked clocks, emptied caches, one sample."""

from __future__ import annotations

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Evidence, Verdict
from gputui.analysis.rules import Hit, rule

_PERCENTAGES = (
    "sm_pct", "memory_pct", "dram_pct", "l2_pct", "l1_elapsed_pct", "tensor_pct", "l1_hit_pct", "l2_hit_pct",
    "achieved_occupancy_pct", "theoretical_occupancy_pct",
)  # fmt: skip

_CORE = (
    "sm_pct|memory_pct", "dram_bytes", "warp_latency", "global_load_sectors|global_store_sectors",
    "achieved_occupancy_pct", "threads_per_inst",
)  # fmt: skip
"""One concept for each section that the main findings need."""


@rule("missing-metrics", "validity", uses=tuple(concept for need in _CORE for concept in need.split("|")))
def missing_metrics(facts: Facts, verdict: Verdict) -> Hit | None:
    missing = [need for need in _CORE if all(facts.number(concept) is None for concept in need.split("|"))]
    if not missing:
        return None
    return Hit(1.0, None, params={"missing": len(missing), "total": len(_CORE)})


@rule("too-short", "validity", needs=("duration",))
def too_short(facts: Facts, verdict: Verdict) -> Hit | None:
    """5 µs: about the cost of a launch; under it percentages are mostly start and end (heuristic)."""
    if not facts.is_short:
        return None
    duration = facts.number("duration")
    return Hit(0.9, None, (facts.evidence("duration", 5000.0),), {"duration": duration})


@rule("clock-locked", "validity", needs=("sm_clock", "device_clock"))
def clock_locked(facts: Facts, verdict: Verdict) -> Hit | None:
    """ncu locks the clock to its base by default: normal, and the reason why times are longer than in production."""
    clock, most = facts.number("sm_clock"), facts.number("device_clock")
    if not clock or not most or clock >= 0.9 * most:
        return None
    evidence = (facts.evidence("sm_clock", 0.9 * most), facts.evidence("device_clock"))
    variant = "free" if facts.session.clock_control == "none" else ""
    return Hit(0.8, None, evidence, {"clock": clock, "most": most}, variant)


@rule("cold-cache", "validity", needs=("dram_bytes", "device_l2_bytes", "dram_pct"))
def cold_cache(facts: Facts, verdict: Verdict) -> Hit | None:
    """ncu empties the caches before each pass unless told not to; that matters where all the data would fit in L2."""
    moved, l2, dram = facts.number("dram_bytes"), facts.number("device_l2_bytes"), facts.number("dram_pct")
    if facts.session.cache_control == "none" or not moved or not l2 or dram is None or dram < 20 or moved > l2:
        return None
    evidence = (facts.evidence("dram_bytes", l2), facts.evidence("device_l2_bytes"))
    return Hit(0.6, None, evidence, {"moved": moved, "l2": l2})


@rule("replay-inconsistent", "validity", uses=_PERCENTAGES)
def replay_inconsistent(facts: Facts, verdict: Verdict) -> Hit | None:
    """Percentages of averages beyond 0-102: passes measured different runs. (100-102 is rounding.)"""
    for concept in _PERCENTAGES:
        value = facts.kernel.value(concept)
        if value is not None and not 0 <= value.value <= 102:
            evidence = Evidence(value.metric, value.value, value.unit, 102.0)
            return Hit(0.9, None, (evidence,), {"metric": value.metric, "value": value.value})
    return None


@rule("single-launch", "validity")
def single_launch(facts: Facts, verdict: Verdict) -> Hit | None:
    return Hit(1.0, None) if facts.launches == 1 else None
