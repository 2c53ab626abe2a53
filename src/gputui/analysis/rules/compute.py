"""Whether the arithmetic runs on the right unit, with all its lanes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from gputui.analysis.facts import OPCODES_WITH_MODIFIERS, Facts
from gputui.analysis.finding import Evidence, Verdict
from gputui.analysis.rules import Hit, rule
from gputui.analysis.verdict import ROOF_PCT, SLOW_FP64_RATIO

HOT_PCT = 60.0
"""A pipe this busy is NVIDIA's "high"; from 80 "over-used"."""

_PIPE = re.compile(r"sm__(?:inst_executed_)?pipe_(alu|xu|fma_type_fp16|fp16|fma|fp64|uniform)(?:heavy|lite)?(?:_|\.)")
"""Of the parts of the SM's throughput the arithmetic pipes; loads belong to the memory, matrices to tensor-roof."""

_AT_ITS_ROOF = ("fma", "fp64")
"""Where these are full there is nothing to shift elsewhere: the arithmetic itself is the limit."""


def _hot_pipe(facts: Facts, verdict: Verdict) -> tuple[str, str] | None:
    """The arithmetic pipe that holds the kernel, and its metric."""
    top = facts.top_sm_part
    found = _PIPE.match(top) if top is not None else None
    if top is None or found is None or verdict.id not in ("compute-bound", "balanced") or facts.busy[top] < HOT_PCT:
        return None
    pipe = "fp16" if found[1] == "fma_type_fp16" else found[1]
    slow_fp64 = (facts.number("device_fp64_ratio") or 0) >= SLOW_FP64_RATIO
    if slow_fp64 and (facts.number("pipe_fp64_pct") or 0) >= HOT_PCT:
        return None  # Its instructions keep the ALU pipe waiting with them: fp64-on-slow-part.
    return None if pipe in _AT_ITS_ROOF and facts.busy[top] >= ROOF_PCT else (pipe, top)


@rule("compute-roof", "compute", needs=("sm_pct",), effects=("issue-slots",))
def compute_roof(facts: Facts, verdict: Verdict) -> Hit | None:
    """The gain is bounded by the slots that are still free, as long as the work stays the same.

    Silent where one pipe is what is full: ``pipe-saturated`` says more.
    """
    if verdict.id != "compute-bound" or facts.sm is None or _hot_pipe(facts, verdict):
        return None
    confidence = 0.8 if facts.sm >= ROOF_PCT else 0.5
    variant = "issue" if verdict.variant == "issue" else ""
    evidence = (facts.evidence("sm_pct", ROOF_PCT),)
    return Hit(confidence, max(1.0, 100 / facts.sm), evidence, {"sm_pct": facts.sm}, variant)


@rule(
    "pipe-saturated",
    "compute",
    needs=("sm_pct",),
    uses=("pipe_fp64_pct", "device_fp64_ratio"),
    effects=("issue-slots", "stall-math-pipe", "stall-short-scoreboard"),
)
def pipe_saturated(facts: Facts, verdict: Verdict) -> Hit | None:
    """One arithmetic pipe is the busiest part of the SM, at least 60 % (NVIDIA's "high") of the time.

    Multiply-add and fast FP64 pipes only below 80 %: from there they are the roof. For them the bound is what they have
    left; for the others it takes their whole work away, so what is left is the next busiest unit. Integer work is
    spread over the ALU and the multiply-add pipe (IMAD, also for moves and shifts), and goes from both at once; so do
    the conversions of integer divisions, where these are 30 % of the instructions (variant ``division``).
    """
    hot = _hot_pipe(facts, verdict)
    if hot is None:
        return None
    pipe, metric = hot
    use = facts.busy[metric]
    divided = min(1.0, _DIVISION_LENGTH * _divisions(facts) / (sum(facts.opcodes.values()) or 1.0))
    divides = pipe in ("alu", "xu", "fma") and divided >= 0.3
    integers = _integer_share(facts)
    if divides or pipe == "alu" or (pipe == "fma" and integers > 0.5):
        bound = _without_integers(facts, use, integers, divides)
    elif pipe in _AT_ITS_ROOF:
        bound = 100 / use
    else:
        bound = facts.bound(_without_pipe(facts, pipe, use))
    stored = facts.kernel.metric(metric)
    evidence = (Evidence(metric, use, stored.unit if stored is not None else "%", HOT_PCT),)
    confidence = 0.75 if use >= ROOF_PCT else 0.6 if verdict.id == "compute-bound" else 0.45
    params = {"pipe": pipe, "pipe_pct": use, "divisions": _divisions(facts)}
    variant = "division" if divides else "integer" if pipe == "fma" and integers > 0.5 else pipe
    return Hit(confidence, bound, evidence, params, variant)


def _without_pipe(facts: Facts, pipe: str, use: float) -> Callable[[str], float]:
    """What is left of each part without a pipe's work, which also leaves the issue slots: one in as many cycles as the
    pipe is busy with it."""
    issued = max((pct for name, pct in facts.busy.items() if name.startswith(_ISSUE)), default=0.0)
    own = min(1.0, _ISSUE_SHARE[pipe] * use / issued) if issued else 0.0
    return lambda name: 0.0 if _is_pipe(name, pipe) else 1 - own if name.startswith(_ISSUE) else 1.0


def _without_integers(facts: Facts, use: float, share: float, divides: bool) -> float | None:
    """The bound without integer work; ``share`` is its part of the multiply-add pipe.

    ``None`` where hardly anything else is there: what such work could be replaced by no counter knows.
    """
    slots = facts.opcode_count(*_INTEGER) / (sum(facts.opcodes.values()) or 1.0)
    alone = _without_pipe(facts, "alu", use)

    def factor(name: str) -> float:
        if _is_pipe(name, "fma"):
            return 1 - share
        if name.startswith(_ISSUE) and facts.opcodes:
            return 1 - slots
        return 0.0 if divides and _is_pipe(name, "xu") else alone(name)

    bound = facts.bound(factor)
    return None if bound is None or bound > _TELLING else bound


_TELLING = 10.0
"""A larger bound says no more than that the kernel consists of this work."""

_INTEGER = (
    "IMAD", "IADD", "IADD3", "VIADD", "LEA", "SHF", "LOP3", "SGXT", "BMSK", "PRMT", "ISETP", "SEL", "IMNMX", "VIMNMX",
    "VIADDMNMX", "IABS", "VABSDIFF", "POPC", "FLO", "BREV", "ISCADD", "XMAD", "BFE", "BFI", "I2F", "F2I", "I2I", "LOP",
    "SHL", "SHR",
)  # fmt: skip
_SINGLE = ("FFMA", "FMUL", "FADD")

_DIVISION_LENGTH = 20
"""Instructions of a 32-bit integer division (17 without a sign, 22 to 26 with one)."""


def _integer_share(facts: Facts) -> float:
    """The share of integers in the multiply-add pipe's instructions."""
    integers = facts.opcode_count("IMAD", "XMAD")
    return integers / ((integers + facts.opcode_count(*_SINGLE)) or 1.0)


def _divisions(facts: Facts) -> float:
    """Integer divisions and modulos by numbers unknown to the compiler, in warp instructions.

    Each inverts its divisor as a float, rounded up (``I2F.RP``), which nothing else does. Where modifiers are not
    counted: as many as there are conversions there and back with a reciprocal between, and enough IMAD and compares
    (at least two each) to correct them.
    """
    modified = facts.kernel.metric(OPCODES_WITH_MODIFIERS)
    if modified is not None and modified.instances:
        exact = (count for name, count in modified.instances.items() if _ROUNDED_UP.match(name))
        return sum(exact)
    found = min(facts.opcode_count(opcode) for opcode in ("I2F", "F2I", "MUFU"))
    return found if min(facts.opcode_count("IMAD"), facts.opcode_count("ISETP")) >= 2 * found else 0.0


_ROUNDED_UP = re.compile(r"I2F\.(?:.*\.)?RP$")


_ISSUE = ("sm__issue_active", "sm__inst_executed.", "sm__inst_issued")
_ISSUE_SHARE = {"alu": 0.5, "xu": 0.25, "fp16": 1.0, "uniform": 0.5}
"""Issue slots that a full pipe takes: the lanes of the pipe over those of the warp; where generations differ the
largest, which keeps the bound a bound."""


def _is_pipe(name: str, pipe: str) -> bool:
    found = _PIPE.match(name)
    return found is not None and found[1] in ((pipe, "fma_type_fp16") if pipe == "fp16" else (pipe,))


_PAIRS = {"fma": ("f", "FADD", "FMUL"), "fp64": ("d", "DADD", "DMUL")}
"""By pipe: the letter of its counters, and the opcodes of which two can be one."""


@rule(
    "unfused-math",
    "compute",
    needs=("fadd_per_cycle", "fmul_per_cycle", "ffma_per_cycle", "pipe_fma_pct"),
    uses=(
        "fadd2_per_cycle", "fmul2_per_cycle", "ffma2_per_cycle", "dadd_per_cycle", "dmul_per_cycle", "dfma_per_cycle",
        "pipe_fp64_pct",
    ),
    effects=("compute-roof", "pipe-saturated", "issue-slots"),
    applies=lambda facts: max(facts.number("pipe_fma_pct") or 30, facts.number("pipe_fp64_pct") or 0) >= 30,
)  # fmt: skip
def unfused_math(facts: Facts, verdict: Verdict) -> Hit | None:
    """At least twice as many multiplies and adds that could be pairs as fused multiply-adds, in a busy pipe (30 %).

    NVIDIA's line is (FADD + FMUL) / all / 2 > 0.1. Compilers fuse by default, and what they leave is mostly no pair
    (layer norms: as many left as fused): so only min(FADD, FMUL) counts as pairs, and these must be twice the FFMA
    (heuristic). The bound gives each pair one instruction. FP64 alike, in its own pipe.
    """
    if facts.is_short or facts.tensor or verdict.id not in ("compute-bound", "balanced", "latency-bound"):
        return None
    hits = (_unfused(facts, pipe) for pipe in _PAIRS if (facts.number(f"pipe_{pipe}_pct") or 0.0) >= 30)
    return max((hit for hit in hits if hit is not None), key=lambda hit: hit.max_speedup or 1.0, default=None)


def _unfused(facts: Facts, pipe: str) -> Hit | None:
    letter, *opcodes = _PAIRS[pipe]
    counts = {
        kind: (facts.number(f"{letter}{kind}_per_cycle") or 0.0)
        + (2 * (facts.number(f"f{kind}2_per_cycle") or 0.0) if letter == "f" else 0.0)
        for kind in ("add", "mul", "fma")
    }
    total, pairs, fused = sum(counts.values()), min(counts["add"], counts["mul"]), counts["fma"]
    if not pairs or (total - fused) / total / 2 <= 0.1 or pairs < 2 * fused:
        return None
    left = 1 - pairs / total
    executed = sum(facts.opcodes.values())
    saved = min(facts.opcode_count(opcode) for opcode in opcodes) / executed if executed else pairs / total

    def factor(name: str) -> float:
        # The tensor, FP64 and FP16 pipes share one entrance on some chips.
        own = _is_pipe(name, pipe) or (pipe == "fp64" and name.startswith("sm__pipe_shared"))
        return left if own else 1 - saved if name.startswith(_ISSUE) else 1.0

    bound = facts.bound(factor)
    if bound is not None:
        bound = min(bound, 1 / left)
    evidence = (
        *(facts.evidence(f"{letter}{kind}_per_cycle") for kind in counts if counts[kind]),
        facts.evidence(f"pipe_{pipe}_pct", 30.0),
    )
    params = {
        "pairs_pct": 100 * pairs / (pairs + fused), "saved_pct": 100 * (1 - left),
        "kind": "FP32" if letter == "f" else "FP64", "fused": f"{letter.upper()}FMA", "add": opcodes[0],
        "multiply": opcodes[1],
    }  # fmt: skip
    return Hit(0.5, bound, evidence, params)


@rule(
    "thread-divergence",
    "compute",
    needs=("threads_per_inst", "sm_pct"),
    uses=("branch_uniform_pct",),
    effects=("compute-roof", "pipe-saturated", "issue-slots", "stall-branch", "stall-no-instruction"),
)
def thread_divergence(facts: Facts, verdict: Verdict) -> Hit | None:
    """Under 24 of 32 threads active an instruction (NVIDIA's threshold)."""
    threads = facts.number("threads_per_inst")
    if threads is None or threads <= 0 or threads >= 24 or facts.is_short:
        return None
    used = threads / 32
    bound = facts.bound(lambda name: used if name.startswith(("sm__", "smsp__", "idc__")) else 1.0)
    if bound is not None:
        bound = min(bound, 1 / used)
    confidence = 0.3 if verdict.id == "memory-bound" else 0.8
    params = {"threads": threads, "used_pct": 100 * used, "uniform_pct": facts.number("branch_uniform_pct")}
    return Hit(confidence, bound, (facts.evidence("threads_per_inst", 24.0),), params)


@rule(
    "predication",
    "compute",
    needs=("threads_per_inst", "threads_per_inst_pred", "sm_pct"),
    effects=("compute-roof", "pipe-saturated", "issue-slots"),
)
def predication(facts: Facts, verdict: Verdict) -> Hit | None:
    """At least 24 of 32 threads take part, fewer than 24 of them with their condition true (NVIDIA's line for both)."""
    threads, on = facts.number("threads_per_inst"), facts.number("threads_per_inst_pred")
    if threads is None or not on or threads < 24 or on >= 24 or facts.is_short:
        return None
    used = on / threads
    bound = facts.bound(lambda name: used if name.startswith(("sm__", "smsp__", "idc__")) else 1.0)
    if bound is not None:
        bound = min(bound, 1 / used)
    evidence = (facts.evidence("threads_per_inst_pred", 24.0), facts.evidence("threads_per_inst", 24.0))
    params = {"threads": threads, "on": on, "off_pct": 100 * (1 - used)}
    return Hit(0.3 if verdict.id == "memory-bound" else 0.5, bound, evidence, params)


@rule(
    "low-ilp",
    "compute",
    needs=(
        "stall_wait", "stall_short_scoreboard", "warp_latency", "issue_active", "eligible_warps",
        "achieved_occupancy_pct",
    ),
    uses=("stall_long_scoreboard", "shared_wavefronts_excess", "shared_wavefronts", "threads_per_inst"),
    effects=("stall-wait", "stall-short-scoreboard", "issue-slots"),
)  # fmt: skip
def low_ilp(facts: Facts, verdict: Verdict) -> Hit | None:
    """Warps wait over half of the time for their own arithmetic or shared-memory results, and there are enough warps.

    Latency-bound, under 0.6 issues a cycle (NVIDIA's line) and under one eligible warp. Enough warps: achieved
    occupancy of at least 60 %, or a matrix product, which has few by design. Silent where a pattern makes the results
    slow: bank conflicts (10 %), divergent threads, tensor work.
    """
    if verdict.id != "latency-bound" or facts.is_short or not facts.starved or (facts.tensor or 0) >= 10:
        return None
    if (facts.number("achieved_occupancy_pct") or 0) < 60 and not facts.is_matrix_product:
        return None
    conflicts, wavefronts = facts.number("shared_wavefronts_excess"), facts.number("shared_wavefronts")
    if (conflicts and wavefronts and conflicts / wavefronts >= 0.1) or (facts.number("threads_per_inst") or 32) < 24:
        return None
    dependent = sum(facts.stall_share(reason) or 0.0 for reason in ("wait", "short_scoreboard"))
    if dependent <= 0.5 or (facts.stall_share("long_scoreboard") or 0.0) > dependent:
        return None
    bound = min(1 / (1 - min(dependent, 0.99)), facts.latency_bound_gain or math.inf, 1 / (facts.issue or 1.0))
    latency = facts.number("warp_latency") or 0.0
    evidence = (
        facts.evidence("stall_wait"), facts.evidence("stall_short_scoreboard"), facts.evidence("warp_latency"),
        facts.evidence("issue_active", 0.6), facts.evidence("eligible_warps", 1.0),
    )  # fmt: skip
    params = {"dependent_pct": 100 * min(dependent, 1.0), "latency": latency, "issue_pct": 100 * (facts.issue or 0.0)}
    return Hit(0.45, bound if math.isfinite(bound) else None, evidence, params)


@rule(
    "fp64-on-slow-part",
    "compute",
    needs=("pipe_fp64_pct", "device_fp64_ratio"),
    effects=(
        "compute-roof", "pipe-saturated", "issue-slots", "stall-long-scoreboard", "stall-short-scoreboard",
        "stall-math-pipe", "stall-tex-throttle",
    ),
)  # fmt: skip
def fp64_on_slow_part(facts: Facts, verdict: Verdict) -> Hit | None:
    """The FP64 pipe is at least 60 % busy on a GPU that runs FP64 at 1/16 of the FP32 rate or less, off DRAM's roof.

    Fairly sure where the ALU pipe is as busy: how much of that is FP64's no counter tells.
    """
    use, ratio = facts.number("pipe_fp64_pct"), facts.number("device_fp64_ratio")
    at_dram = verdict.id == "memory-bound" and verdict.level == "dram"
    if use is None or ratio is None or use < 60 or ratio < SLOW_FP64_RATIO or at_dram or facts.is_short:
        return None
    bound = facts.bound(lambda name: 1 / ratio if "fp64" in name or "pipe_alu" in name else 1.0)
    evidence, params = (facts.evidence("pipe_fp64_pct", 60.0),), {"fp64_pct": use, "ratio": ratio}
    if facts.alu_is_as_busy_as_fp64:
        return Hit(0.55, bound, evidence, params, "alu")
    return Hit(0.8, bound, evidence, params)
