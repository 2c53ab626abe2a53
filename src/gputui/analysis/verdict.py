"""One verdict a kernel: what limits it, by the first line of the table that holds.

Thresholds 60, 80 and 10 are NVIDIA's own (its speed-of-light rule); the level, the load/store guard and the 5 µs line
were settled on 265 kernels of public reports.
"""

from __future__ import annotations

from gputui.analysis.facts import WARP_GROUP_MMA, Facts
from gputui.analysis.finding import Verdict, VerdictId
from gputui.analysis.gpu import features_of

FULL_PCT = 60.0
"""A unit this busy is getting full."""
ROOF_PCT = 80.0
"""A unit this busy is at its roof."""
MARGIN_PCT = 10.0
DRAM_FULL_PCT = 75.0
"""Kernels at 77 % of DRAM are limited by it; the best plain copies reach 88-96 %."""

SLOW_FP64_RATIO = 16
"""FP32 over FP64 rate from which a GPU counts as slow at FP64 (2 on the data-centre parts, 32 and 64 on the others)."""

_PIPES = {
    "sm__issue_active": "issue",
    "sm__inst_executed": "issue",
    "sm__inst_issued": "issue",
    "sm__pipe_alu_cycles_active": "alu",
    "sm__pipe_aluheavy_cycles_active": "alu",
    "sm__pipe_fma_cycles_active": "fma",
    "sm__pipe_fmaheavy_cycles_active": "fma",
    "sm__pipe_fp64_cycles_active": "fp64",
    "sm__inst_executed_pipe_fp64": "fp64",
    "sm__inst_executed_pipe_xu": "xu",
    "sm__inst_executed_pipe_adu": "adu",
}


def verdict_of(facts: Facts) -> Verdict:
    """The verdict before any finding is known; ``settle`` makes it final."""
    id = _id(facts)
    level = facts.level if id == "memory-bound" else facts.leading_level if id == "latency-bound" else None
    if id == "memory-bound" and _held_by_loads(facts):
        level = "l1"
    params = {
        "sm_pct": facts.sm,
        "memory_pct": facts.memory,
        "tensor_pct": facts.tensor,
        "level_pct": facts.levels.get(level) if level else None,
        "dram_pct": facts.levels.get("dram"),
        "duration": facts.kernel.duration_ns,
        "blocks": facts.kernel.blocks,
        "sm_count": facts.sm_count,
        "busiest_pct": facts.busiest,
        "idle_pct": None if facts.busiest is None else 100 - facts.busiest,
    }
    return Verdict(id, level, _variant(id, level, facts), params=params)


def settle(verdict: Verdict, facts: Facts, waste_gain: float) -> Verdict:
    """The verdict with ``at_roof`` decided; ``waste_gain`` is the largest bound of a waste finding (1 if none)."""
    if waste_gain >= 1.11 or facts.is_short:
        return verdict
    dram = facts.levels.get("dram")
    arithmetic = _arithmetic_pct(facts, verdict)
    at_dram_roof = (
        verdict.id == "memory-bound" and verdict.level == "dram" and dram is not None and dram >= ROOF_PCT
        and not facts.is_matrix_product
    )  # fmt: skip
    at_arithmetic_roof = (
        verdict.id in ("compute-bound", "tensor-bound") and arithmetic is not None and arithmetic >= ROOF_PCT
    )
    if not (at_dram_roof or at_arithmetic_roof):
        return verdict
    variant = "dram-roof" if at_dram_roof else "roof"
    return Verdict(verdict.id, verdict.level, variant, True, {**verdict.params, "arithmetic_pct": arithmetic})


def _id(facts: Facts) -> VerdictId:
    tensor = facts.tensor
    if facts.is_short:
        return "launch-bound"
    if facts.sm is None and facts.memory is None:
        return "tensor-bound" if tensor is not None and tensor >= FULL_PCT else "unknown"
    sm, memory = facts.sm or 0.0, facts.memory or 0.0
    blocks, sm_count = facts.kernel.blocks, facts.sm_count
    fewer_blocks_than_sms = blocks is not None and sm_count is not None and blocks < sm_count
    if fewer_blocks_than_sms and sm < FULL_PCT and memory < FULL_PCT:
        return "launch-bound"
    if tensor is not None and tensor >= FULL_PCT:
        return "tensor-bound"
    if max(sm, memory) < FULL_PCT and (facts.sm is None or facts.memory is None):
        return "unknown"
    if sm >= FULL_PCT and (sm >= memory + MARGIN_PCT or _held_by_loads(facts)):
        return "memory-bound" if facts.moves_data else "compute-bound"
    if memory >= FULL_PCT and memory >= sm + MARGIN_PCT:
        return "memory-bound"
    if max(sm, memory) >= FULL_PCT:
        return "balanced"
    return "latency-bound"


def _held_by_loads(facts: Facts) -> bool:
    """SM and memory read the same because one load/store unit sets both."""
    sm, memory = facts.sm, facts.memory
    return facts.moves_data and sm is not None and sm >= FULL_PCT and (memory is None or sm >= memory - 1)


def _variant(id: VerdictId, level: str | None, facts: Facts) -> str:
    if id == "launch-bound":
        return "short" if facts.is_short else "grid"
    if id == "tensor-bound" and facts.opcodes and features_of(facts.device).wgmma:
        return "default" if facts.opcode_count(*WARP_GROUP_MMA) else "older"
    if id == "compute-bound":
        # Where double precision is slow its instructions keep the ALU pipe waiting with them.
        slow_fp64 = (facts.number("device_fp64_ratio") or 0) >= SLOW_FP64_RATIO
        if slow_fp64 and (facts.number("pipe_fp64_pct") or 0) >= FULL_PCT:
            return "fp64-alu" if facts.alu_is_as_busy_as_fp64 else "fp64"
        return _PIPES.get((facts.top_sm_part or "").partition(".")[0], "other")
    if id == "memory-bound" and level == "dram" and facts.levels["dram"] < DRAM_FULL_PCT:
        return "dram-partly"
    dram = facts.levels.get("dram", 0.0)
    if id == "memory-bound" and level == "l2" and dram >= FULL_PCT and facts.levels["l2"] <= dram + MARGIN_PCT:
        return "l2-dram"
    if id in ("memory-bound", "latency-bound") and level is not None:
        return level
    if id == "latency-bound" and (facts.tensor or 0) >= 40 and facts.tensor == facts.busiest:
        return "tensor"
    if id == "balanced" and _PIPES.get((facts.top_sm_part or "").partition(".")[0]) == "issue":
        return "issue"
    return "default"


def _arithmetic_pct(facts: Facts, verdict: Verdict) -> float | None:
    """How busy the arithmetic unit that holds the kernel is: the tensor pipe, or the multiply-add pipe.

    FP64's counts on GPUs made for it. Full issue slots, integer and special-function pipes are no roof: the same work
    can often be done with less of them.
    """
    if verdict.id == "tensor-bound":
        return facts.tensor
    part = facts.top_sm_part
    pipe = _PIPES.get((part or "").partition(".")[0])
    fast_fp64 = pipe == "fp64" and (facts.number("device_fp64_ratio") or SLOW_FP64_RATIO) < SLOW_FP64_RATIO
    return facts.busy[part] if part is not None and (pipe == "fma" or fast_fp64) else None
