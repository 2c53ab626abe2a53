"""What warps wait for. A stall matters only where schedulers have nothing to issue, and it is mostly an effect.

Gate (NVIDIA's): under 0.8 issues a cycle and the reason over 30 % of the wait. On memory-bound kernels a stall only
restates the bandwidth limit, so these rules hold for latency-bound kernels alone.
"""

from __future__ import annotations

import math

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.rules import Hit, rule

_GATE_ISSUE = 0.8
_GATE_SHARE = 0.3


def _stall(facts: Facts, verdict: Verdict, reason: str) -> Hit | None:
    share, issue = facts.stall_share(reason), facts.issue
    if share is None or issue is None or share <= _GATE_SHARE or issue >= _GATE_ISSUE:
        return None
    if verdict.id != "latency-bound" or (facts.tensor or 0) >= 50:
        return None
    bound = min(
        1 / (1 - share) if share < 1 else math.inf,
        facts.latency_bound_gain or math.inf,
        1 / issue if issue else math.inf,
    )
    latency = facts.number("warp_latency")
    evidence = (
        facts.evidence(f"stall_{reason}", _GATE_SHARE * (latency or 0)),
        facts.evidence("warp_latency"),
        facts.evidence("issue_active", _GATE_ISSUE),
    )
    params = {
        "share_pct": 100 * min(share, 1.0),
        "cycles": facts.number(f"stall_{reason}"),
        "latency": latency,
        "issue_pct": 100 * issue,
        "warps": facts.number("active_warps_per_scheduler"),
    }
    return Hit(0.45, bound if math.isfinite(bound) else None, evidence, params)


_NEEDS = ("warp_latency", "issue_active")


@rule(
    "stall-long-scoreboard",
    "stalls",
    needs=("stall_long_scoreboard", *_NEEDS),
    uses=("active_warps_per_scheduler",),
    effects=("issue-slots",),
)
def long_scoreboard(facts: Facts, verdict: Verdict) -> Hit | None:
    return _stall(facts, verdict, "long_scoreboard")


@rule(
    "stall-barrier",
    "stalls",
    needs=("stall_barrier", *_NEEDS),
    uses=("active_warps_per_scheduler", "block_size"),
    effects=("issue-slots", "occupancy-achieved"),
)
def barrier(facts: Facts, verdict: Verdict) -> Hit | None:
    hit = _stall(facts, verdict, "barrier")
    if hit is None:
        return None
    return Hit(hit.confidence, hit.max_speedup, hit.evidence, {**hit.params, "threads": facts.number("block_size")})


@rule("issue-slots", "stalls", needs=("issue_active",), uses=("eligible_warps", "active_warps_per_scheduler"))
def issue_slots(facts: Facts, verdict: Verdict) -> Hit | None:
    """Under 0.6 issues a cycle (NVIDIA's threshold) in a kernel that no unit holds."""
    issue = facts.issue
    if not issue or issue >= 0.6 or verdict.id != "latency-bound" or (facts.tensor or 0) >= 50:
        return None
    bound = min(1 / issue, facts.latency_bound_gain or math.inf)
    evidence = [facts.evidence("issue_active", 0.6)]
    eligible = facts.number("eligible_warps")
    if eligible is not None:
        evidence.append(facts.evidence("eligible_warps", 1.0))
    return Hit(0.4, bound, tuple(evidence), {"idle_pct": 100 * (1 - issue), "eligible": eligible})
