"""How the work is cut into blocks, and how the blocks fill the GPU."""

from __future__ import annotations

import math

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.rules import Hit, rule
from gputui.analysis.verdict import FULL_PCT


@rule(
    "small-grid",
    "launch",
    needs=("grid_size", "sm_count"),
    uses=("sm_pct",),
    effects=(
        "occupancy-achieved", "issue-slots", "sm-imbalance", "stall-long-scoreboard", "stall-barrier",
        "occupancy-registers", "occupancy-shared-memory", "occupancy-block-count", "occupancy-block-size",
    ),
)  # fmt: skip
def small_grid(facts: Facts, verdict: Verdict) -> Hit | None:
    """Fewer blocks than SMs. The gain is bounded by the SMs that stand idle (NVIDIA's launch rule)."""
    blocks, sms = facts.number("grid_size"), facts.number("sm_count")
    if not blocks or not sms or blocks >= sms:
        return None
    if (facts.sm or 0) >= FULL_PCT or (facts.memory or 0) >= FULL_PCT:
        return None
    bound = min(sms / blocks, facts.latency_bound_gain or math.inf)
    evidence = (facts.evidence("grid_size", sms), facts.evidence("sm_count"))
    confidence = 0.5 if facts.is_short else 0.85
    return Hit(confidence, bound, evidence, {"blocks": blocks, "sms": sms, "idle_pct": 100 * (1 - blocks / sms)})


@rule(
    "tail-wave",
    "launch",
    needs=("waves", "achieved_occupancy_pct", "theoretical_occupancy_pct"),
    effects=("occupancy-achieved", "sm-imbalance", "issue-slots"),
)
def tail_wave(facts: Facts, verdict: Verdict) -> Hit | None:
    """The last, partly filled wave takes as long as a full one. Conditions are NVIDIA's (launch configuration rule)."""
    waves = facts.number("waves") or 0.0
    achieved, theoretical = facts.number("achieved_occupancy_pct"), facts.number("theoretical_occupancy_pct")
    if achieved is None or theoretical is None:
        return None
    whole, part = math.floor(waves), waves - math.floor(waves)
    if whole < 1 or part < 0.01 or 1 / (whole + 1) < 0.20 or achieved >= 0.8 * theoretical or facts.is_short:
        return None
    bound = min((whole + 1) / waves, facts.latency_bound_gain or math.inf)
    if bound < 1.05:
        return None
    evidence = (facts.evidence("waves"), facts.evidence("achieved_occupancy_pct", 0.8 * theoretical))
    return Hit(
        0.7, bound, evidence, {"waves": waves, "whole": whole, "part_pct": 100 * part, "empty_pct": 100 * (1 - part)}
    )


@rule(
    "partial-warp",
    "launch",
    needs=("block_size",),
    effects=("thread-divergence", "occupancy-block-count", "occupancy-achieved"),
)
def partial_warp(facts: Facts, verdict: Verdict) -> Hit | None:
    """Threads run in warps of 32; a block's last warp runs its empty lanes too."""
    threads = facts.number("block_size")
    if not threads or threads % 32 == 0:
        return None
    used = threads / (32 * math.ceil(threads / 32))
    bound = facts.bound(lambda name: used if name.startswith(("sm__", "smsp__", "l1tex__", "idc__")) else 1.0)
    if bound is not None:
        bound = min(bound, 1 / used)
    params = {"threads": threads, "warps": math.ceil(threads / 32), "wasted_pct": 100 * (1 - used),
              "rounded": 32 * math.ceil(threads / 32)}  # fmt: skip
    return Hit(0.9 if used <= 0.75 else 0.6, bound, (facts.evidence("block_size", 32.0),), params)


@rule(
    "sm-imbalance",
    "launch",
    needs=(
        "sm_cycles_active_avg", "sm_cycles_active_max", "sm_cycles_active_sum", "sm_cycles_elapsed_sum", "grid_size",
        "sm_count",
    ),
    effects=("occupancy-achieved", "issue-slots"),
)  # fmt: skip
def sm_imbalance(facts: Facts, verdict: Verdict) -> Hit | None:
    """(1 - average / longest active SM) x share of time active, at least 5 % (NVIDIA's workload distribution rule)."""
    average, longest = facts.number("sm_cycles_active_avg"), facts.number("sm_cycles_active_max")
    active, elapsed = facts.number("sm_cycles_active_sum"), facts.number("sm_cycles_elapsed_sum")
    blocks, sms = facts.number("grid_size"), facts.number("sm_count")
    if not average or not longest or not active or not elapsed or not blocks or not sms or blocks < sms:
        return None
    share_active = min(1.0, active / elapsed)
    if (1 - average / longest) * share_active < 0.05 or facts.is_short:
        return None
    # With the work spread evenly every SM ends when the average one ends now: the time shrinks by the difference
    # between the longest and the average, as shares of the elapsed time.
    lost = min(0.99, (longest / average - 1) * share_active)
    bound = min(1 / (1 - lost), facts.latency_bound_gain or math.inf)
    evidence = (facts.evidence("sm_cycles_active_avg"), facts.evidence("sm_cycles_active_max"))
    return Hit(0.8, bound, evidence, {"lost_pct": 100 * lost, "ratio": longest / average})
