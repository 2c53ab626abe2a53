"""Whether the arithmetic runs on the right unit, with all its lanes."""

from __future__ import annotations

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.roofline import roofline_of
from gputui.analysis.rules import Hit, rule
from gputui.analysis.specs import specs_of
from gputui.analysis.transformer import is_decode_product
from gputui.analysis.verdict import FULL_PCT, ROOF_PCT, SLOW_FP64_RATIO

TENSOR_REACHABLE_PCT = 90.0
"""The tensor pipe use of the best library products (70-90 %)."""


@rule("compute-roof", "compute", needs=("sm_pct",), effects=("issue-slots",))
def compute_roof(facts: Facts, verdict: Verdict) -> Hit | None:
    """The gain is bounded by the slots that are still free, as long as the work stays the same."""
    if verdict.id != "compute-bound" or facts.sm is None:
        return None
    confidence = 0.8 if facts.sm >= ROOF_PCT else 0.5
    variant = "issue" if verdict.variant == "issue" else ""
    evidence = (facts.evidence("sm_pct", ROOF_PCT),)
    return Hit(confidence, max(1.0, 100 / facts.sm), evidence, {"sm_pct": facts.sm}, variant)


@rule("tensor-roof", "compute", needs=("tensor_pct|tensor_tc_pct",), effects=("compute-roof", "issue-slots"))
def tensor_roof(facts: Facts, verdict: Verdict) -> Hit | None:
    if verdict.id != "tensor-bound" or not facts.tensor:
        return None
    concept = "tensor_pct" if facts.number("tensor_pct") == facts.tensor else "tensor_tc_pct"
    bound = max(1.0, TENSOR_REACHABLE_PCT / facts.tensor)
    return Hit(0.5, bound, (facts.evidence(concept, 60.0),), {"tensor_pct": facts.tensor})


@rule(
    "tensor-cores-unused",
    "compute",
    needs=("sm_pct", "tensor_pct|tensor_type_pct"),
    effects=("compute-roof", "l1-bandwidth", "l2-bandwidth", "issue-slots"),
    applies=lambda facts: facts.is_matrix_product and _has_tensor_cores(facts) and not _only_reads_weights(facts),
)
def tensor_cores_unused(facts: Facts, verdict: Verdict) -> Hit | None:
    """A matrix product by name, at least 30 % of the SM's throughput, and no tensor operation counted.

    The bound moves the counted FP32 and FP16 operations to the bf16 (Volta, Turing: fp16) tensor peak and leaves DRAM.
    """
    if facts.does_tensor is not False:
        return None
    if (
        (facts.sm or 0) < 30
        or facts.is_short
        or (facts.number("fp64_flop_per_s") or 0) > (facts.number("fp32_flop_per_s") or 0)
    ):
        return None
    bound = _bound_on_tensor_cores(facts)
    hint_is_weak = facts.identity.library == "user"
    evidence = (facts.evidence("tensor_pct|tensor_type_pct", 5.0), facts.evidence("sm_pct", 30.0))
    params = {"sm_pct": facts.sm, "precision": facts.identity.precision or "fp32"}
    return Hit(0.7 if hint_is_weak else 0.85, bound, evidence, params)


def _only_reads_weights(facts: Facts) -> bool:
    """A product of a few rows held by DRAM: tensor cores would wait for its weights too."""
    decode = is_decode_product(facts, roofline_of(facts).arithmetic_intensity)
    return decode and facts.levels.get("dram", 0.0) >= FULL_PCT


def _has_tensor_cores(facts: Facts) -> bool:
    capability = facts.device.compute_capability
    # The GTX 16 series is compute capability 7.5 without tensor cores.
    return capability is not None and capability >= (7, 0) and "GTX 16" not in facts.device.name


def _bound_on_tensor_cores(facts: Facts) -> float | None:
    specs = specs_of(facts.device.name)
    if specs is None or specs.boost_hz is None:
        return None
    peak = specs.peaks.get("tensor-bf16") or specs.peaks.get("tensor-fp16")
    flops, clock = roofline_of(facts).achieved_flop_per_s, facts.number("sm_clock") or specs.boost_hz
    if not peak or not flops:
        return None
    tensor_time = 100 * flops / (peak * clock / specs.boost_hz)
    remaining = max(tensor_time, facts.levels.get("dram", 0.0))
    return max(1.0, 100 / remaining)


@rule(
    "thread-divergence",
    "compute",
    needs=("threads_per_inst", "sm_pct"),
    uses=("branch_uniform_pct",),
    effects=("compute-roof", "issue-slots"),
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
    "fp64-on-slow-part",
    "compute",
    needs=("pipe_fp64_pct", "device_fp64_ratio"),
    effects=("compute-roof", "issue-slots", "stall-long-scoreboard"),
)
def fp64_on_slow_part(facts: Facts, verdict: Verdict) -> Hit | None:
    """The FP64 pipe is at least 60 % busy on a GPU that runs FP64 at 1/16 of the FP32 rate or less, off DRAM's roof."""
    use, ratio = facts.number("pipe_fp64_pct"), facts.number("device_fp64_ratio")
    at_dram = verdict.id == "memory-bound" and verdict.level == "dram"
    if use is None or ratio is None or use < 60 or ratio < SLOW_FP64_RATIO or at_dram or facts.is_short:
        return None
    bound = facts.bound(lambda name: 1 / ratio if "fp64" in name or "pipe_alu" in name else 1.0)
    return Hit(0.8, bound, (facts.evidence("pipe_fp64_pct", 60.0),), {"fp64_pct": use, "ratio": ratio})
