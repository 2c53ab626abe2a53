"""What keeps warps off the SM, told only where more warps would help.

Low occupancy alone is no finding: tiled and tensor kernels run one or two blocks an SM by design. So the rules hold
for kernels that wait (latency-bound) or whose schedulers lack ready warps, and never for well-used tensor cores.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.rules import Hit, rule

_LIMITS = ("limit_registers", "limit_shared", "limit_blocks", "limit_warps", "limit_barriers")
_EFFECTS = ("occupancy-achieved", "issue-slots", "stall-long-scoreboard", "stall-short-scoreboard", "stall-wait")


LOW_PCT = 70.0
"""NVIDIA's rule says 80; at 75 % of the warps few kernels gain from the rest, at two thirds (1024 threads on an SM for
48 warps) some do."""
GAP_PCT = 10.0
"""NVIDIA's line between theoretical and achieved occupancy."""


def _more_warps_would_help(facts: Facts, verdict: Verdict) -> bool:
    if facts.is_short or (facts.tensor or 0) >= 50:
        return False
    if facts.is_matrix_product and (facts.busiest or 0) >= 60:
        return False
    if verdict.id == "latency-bound":
        return not facts.fed
    return facts.starved and (facts.busiest or 0) < 75


def _limited_by(facts: Facts, verdict: Verdict, limit: str, params: dict[str, float | None]) -> Hit | None:
    """The hit of one limiter where it is (one of) the smallest; a limit that the report leaves out is no limit."""
    theoretical = facts.number("theoretical_occupancy_pct")
    limits = {name: value for name in _LIMITS if (value := facts.number(name)) is not None}
    if theoretical is None or theoretical >= LOW_PCT or not limits or limits.get(limit) != min(limits.values()):
        return None
    # The driver gives shared memory just the room that the other limits leave: a tie is not its fault.
    if limit == "limit_shared" and list(limits.values()).count(limits[limit]) > 1:
        return None
    # Under one wave every block is there at once: no limit keeps any away.
    if (facts.number("waves") or 1.0) < 1 or not _more_warps_would_help(facts, verdict):
        return None
    bound = min(100 / theoretical if theoretical else math.inf, facts.latency_bound_gain or math.inf)
    evidence = (facts.evidence("theoretical_occupancy_pct", LOW_PCT), facts.evidence(limit))
    filled = {"theoretical_pct": theoretical, "blocks": limits[limit], **params}
    # Without the waits in the report nothing shows that more warps would fill them.
    told = facts.number("warp_latency") is not None or facts.issue is not None
    return Hit(0.55 if told else 0.4, bound if math.isfinite(bound) else None, evidence, filled)


@rule(
    "occupancy-registers",
    "occupancy",
    needs=("theoretical_occupancy_pct", "limit_registers", "registers_per_thread"),
    uses=_LIMITS,
    effects=_EFFECTS,
)
def registers(facts: Facts, verdict: Verdict) -> Hit | None:
    params = {"registers": facts.number("registers_per_thread")}
    return _limited_by(facts, verdict, "limit_registers", params)


@rule(
    "occupancy-shared-memory",
    "occupancy",
    needs=("theoretical_occupancy_pct", "limit_shared", "shared_per_block"),
    uses=_LIMITS,
    effects=_EFFECTS,
)
def shared_memory(facts: Facts, verdict: Verdict) -> Hit | None:
    return _limited_by(facts, verdict, "limit_shared", {"shared": facts.number("shared_per_block")})


@rule(
    "occupancy-block-count",
    "occupancy",
    needs=("theoretical_occupancy_pct", "limit_blocks", "block_size"),
    uses=_LIMITS,
    effects=_EFFECTS,
)
def block_count(facts: Facts, verdict: Verdict) -> Hit | None:
    return _limited_by(facts, verdict, "limit_blocks", {"threads": facts.number("block_size")})


@rule(
    "occupancy-block-size",
    "occupancy",
    needs=("theoretical_occupancy_pct", "limit_warps", "block_size"),
    uses=_LIMITS,
    effects=_EFFECTS,
)
def block_size(facts: Facts, verdict: Verdict) -> Hit | None:
    return _limited_by(facts, verdict, "limit_warps", {"threads": facts.number("block_size")})


@rule(
    "occupancy-barriers",
    "occupancy",
    needs=("theoretical_occupancy_pct", "limit_barriers"),
    uses=(*_LIMITS, "barrier_count"),
    effects=_EFFECTS,
    applies=lambda facts: (facts.device.compute_capability or (0, 0)) >= (9, 0),
)
def barriers(facts: Facts, verdict: Verdict) -> Hit | None:
    """An SM has 64 barriers for its blocks (an H200: 16 a block leave room for 4 blocks, 3 for 21). Reports of compute
    capability 9.0 and later tell the limit. With one barrier a block it equals the limit on blocks and is no limit."""
    hit = _limited_by(facts, verdict, "limit_barriers", {"barriers": facts.number("barrier_count")})
    others = [facts.number(limit) for limit in _LIMITS if limit != "limit_barriers"]
    if hit is None or facts.number("limit_barriers") in others:
        return None
    return replace(hit, variant="" if facts.number("barrier_count") else "uncounted")


@rule(
    "occupancy-achieved",
    "occupancy",
    needs=("theoretical_occupancy_pct", "achieved_occupancy_pct", "waves"),
    effects=("issue-slots",),
)
def achieved(facts: Facts, verdict: Verdict) -> Hit | None:
    """Only for kernels that wait, with at least one full wave: elsewhere the gap only restates the launch's shape."""
    theoretical, got = facts.number("theoretical_occupancy_pct"), facts.number("achieved_occupancy_pct")
    waves = facts.number("waves")
    if theoretical is None or not got or waves is None or theoretical - got <= GAP_PCT or waves < 1:
        return None
    if verdict.id != "latency-bound":
        return None
    bound = min(theoretical / got, facts.latency_bound_gain or math.inf)
    evidence = (
        facts.evidence("achieved_occupancy_pct", theoretical - GAP_PCT),
        facts.evidence("theoretical_occupancy_pct"),
    )
    return Hit(0.45, bound, evidence, {"achieved_pct": got, "theoretical_pct": theoretical})
