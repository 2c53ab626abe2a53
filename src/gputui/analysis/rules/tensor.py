"""Whether matrix products run on the tensor cores, and on the best path that this GPU generation has.

Names are hints and may be the author's own, so a rule asks for counted operations or opcodes beside the name.
"""

from __future__ import annotations

from gputui.analysis.facts import WARP_GROUP_MMA, Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.gpu import features_of
from gputui.analysis.roofline import peak_of
from gputui.analysis.rules import Hit, rule
from gputui.analysis.transformer import is_decode_product
from gputui.analysis.verdict import FULL_PCT

TENSOR_REACHABLE_PCT = 90.0
"""The tensor pipe use of the best library products (70-90 %)."""

MMA_SYNC_SHARE = 2 / 3
"""What mma.sync reaches of the wgmma rate on GH100: 2731 of 4096 FLOP a cycle and SM by the counters' own peaks."""

ATTENTION_REACHABLE = 0.75
"""What the best public attention kernel reaches of Hopper's tensor peak (FlashAttention 3: 740 of 989 TFLOP/s)."""

_FED_PCT = 100 / 3
"""Tensor cores that idle more than two thirds of the time are held by what feeds them (heuristic)."""

_PATH_MIN_NS = 20_000.0
"""Products under 20 µs are held by their start, end and small tiles rather than by the instruction they use."""

_OLD_MMA = ("HMMA", "IMMA", "QMMA")


@rule("tensor-roof", "compute", needs=("tensor_pct|tensor_tc_pct",), effects=("compute-roof", "issue-slots"))
def tensor_roof(facts: Facts, verdict: Verdict) -> Hit | None:
    if verdict.id != "tensor-bound" or not facts.tensor:
        return None
    concept = "tensor_pct" if facts.number("tensor_pct") == facts.tensor else "tensor_tc_pct"
    bound = max(1.0, TENSOR_REACHABLE_PCT / facts.tensor)
    return Hit(0.5, bound, (facts.evidence(concept, 60.0),), {"tensor_pct": facts.tensor})


_UNUSED_EFFECTS = (
    "compute-roof", "pipe-saturated", "issue-slots", "stall-math-pipe", "stall-mio-throttle",
    "stall-short-scoreboard",
)  # fmt: skip


def _only_reads_weights(facts: Facts) -> bool:
    """A product of a few rows held by DRAM: tensor cores would wait for its weights too."""
    decode = is_decode_product(facts, facts.roofline.arithmetic_intensity)
    return decode and facts.levels.get("dram", 0.0) >= FULL_PCT


_PIPES = ("pipe_fma_pct", "pipe_fp16_pct", "pipe_fp64_pct")


def _busy_pct(facts: Facts) -> float | None:
    """How busy the ordinary arithmetic is: its busiest pipe, or where no pipe is told the SM."""
    return max((use for use in map(facts.number, _PIPES) if use is not None), default=facts.sm)


@rule(
    "tensor-cores-unused",
    "compute",
    needs=("sm_pct", "tensor_pct|tensor_type_pct"),
    uses=_PIPES,
    effects=_UNUSED_EFFECTS,
    applies=lambda facts: (
        facts.is_matrix_product and features_of(facts.device).tensor_cores and not _only_reads_weights(facts)
    ),
)
def tensor_cores_unused(facts: Facts, verdict: Verdict) -> Hit | None:
    """A matrix product by name, at least 30 % of the SM's throughput, and no tensor operation counted.

    The bound moves the counted FP32 and FP16 operations to the bf16 (Volta, Turing: fp16) tensor peak and leaves DRAM.
    """
    if not _by_hand(facts):
        return None
    features = features_of(facts.device)
    bf16 = "bf16" in features.tensor
    variant = "fp16-only" if not bf16 else "tf32-same" if not features.tf32_gains else ""
    evidence = (facts.evidence("tensor_pct|tensor_type_pct", 5.0), facts.evidence("sm_pct", 30.0))
    params = {"busy_pct": _busy_pct(facts), "precision": facts.identity.precision or "fp32"}
    bound = _bound_on_tensor_cores(facts, "bf16" if bf16 else "fp16")
    return Hit(_confidence(facts), bound, evidence, params, variant)


@rule(
    "tf32-off",
    "compute",
    needs=("sm_pct", "tensor_pct|tensor_type_pct"),
    uses=("fp32_flop_per_s", "fp64_flop_per_s", "pipe_fp16_pct"),
    effects=("tensor-cores-unused", *_UNUSED_EFFECTS),
    applies=lambda facts: (
        facts.is_matrix_product
        and features_of(facts.device).tf32_gains
        and facts.identity.precision in (None, "fp32", "tf32")
    ),
)
def tf32_off(facts: Facts, verdict: Verdict) -> Hit | None:
    """As ``tensor-cores-unused`` (which it explains) where inputs and arithmetic are FP32 and TF32 runs faster.

    The bound moves the counted operations to this GPU's TF32 peak and leaves DRAM.
    """
    if not _by_hand(facts):
        return None
    fp32 = facts.number("fp32_flop_per_s")
    # Half inputs that are multiplied in FP32 do not listen to the switch: their name or their FP16 arithmetic tells.
    if facts.identity.precision is None and not fp32:
        return None
    if fp32 is not None and (not fp32 or _half_pipe_pct(facts) >= 20):
        return None
    evidence = [facts.evidence("tensor_pct|tensor_type_pct", 5.0), facts.evidence("sm_pct", 30.0)]
    if fp32 is not None:
        evidence.append(facts.evidence("fp32_flop_per_s"))
    return Hit(
        _confidence(facts), _bound_on_tensor_cores(facts, "tf32"), tuple(evidence), {"busy_pct": _busy_pct(facts)}
    )


@rule(
    "fp16-without-tensor",
    "compute",
    needs=("pipe_fp16_pct", "tensor_pct|tensor_type_pct"),
    effects=("tensor-cores-unused", *_UNUSED_EFFECTS),
    applies=lambda facts: (
        facts.is_matrix_product
        and features_of(facts.device).tensor_cores
        and facts.identity.precision in (None, "fp16", "bf16")
    ),
)
def fp16_without_tensor(facts: Facts, verdict: Verdict) -> Hit | None:
    """A matrix product with the half-precision pipe at least 20 % busy (heuristic) and no tensor operation.

    The pipe decides, not the count of HFMA2: the compiler moves constants with HFMA2.MMA, up to 12 % of a plain
    kernel's instructions, and the pipe then reads 0.
    """
    use = _half_pipe_pct(facts)
    if facts.does_tensor is not False or use < 20 or facts.is_short:
        return None
    evidence = (facts.evidence("pipe_fp16_pct", 20.0), facts.evidence("tensor_pct|tensor_type_pct", 5.0))
    return Hit(_confidence(facts), _bound_on_tensor_cores(facts, "fp16"), evidence, {"fp16_pct": use})


def _half_pipe_pct(facts: Facts) -> float:
    return facts.number("pipe_fp16_pct") or 0.0


def _by_hand(facts: Facts) -> bool:
    """Whether it computes without tensor operations, and not in double precision, where they would change the result
    beyond use."""
    fp64, fp32 = (facts.number(f"{precision}_flop_per_s") or 0.0 for precision in ("fp64", "fp32"))
    return facts.does_tensor is False and (facts.sm or 0) >= 30 and not facts.is_short and fp64 <= fp32


def _confidence(facts: Facts) -> float:
    """An author's own name is a weaker hint at a matrix product than a library's."""
    return 0.7 if facts.identity.library == "user" else 0.85


def _bound_on_tensor_cores(facts: Facts, precision: str) -> float | None:
    """The counted operations at the tensor peak of ``precision``, DRAM as busy as now: what L1 and L2 pass on changes
    with the tiles of another kernel."""
    peak, flops = peak_of(facts, f"tensor-{precision}"), _flop_per_s(facts)
    if peak is None or not flops:
        return None
    return max(1.0, 100 / max(100 * flops / peak[0], facts.levels.get("dram", 0.0)))


def _flop_per_s(facts: Facts) -> float:
    """The ordinary arithmetic counted; where half precision is not, its instructions: two multiply-adds a lane."""
    counted, duration = facts.roofline.achieved_flop_per_s or 0.0, facts.kernel.duration_ns
    if facts.number("fp16_flop_per_s") is None and _half_pipe_pct(facts) >= 1 and duration:
        counted += facts.opcode_count("HFMA2") * 32 * 4 / duration * 1e9
    return counted


# ----------------------------
# The generation's better path
# ----------------------------


@rule(
    "hopper-features-unused",
    "compute",
    needs=("tensor_type_pct|tensor_pct", "tensor_gmma_pct|opcode_total"),
    uses=("l2_pct", "dram_pct"),
    effects=("tensor-roof", "l2-bandwidth", "stall-math-pipe"),
    applies=lambda facts: features_of(facts.device).wgmma and facts.is_matrix_product,
)
def hopper_features_unused(facts: Facts, verdict: Verdict) -> Hit | None:
    """A product or attention over 20 µs whose tensor cores are busy a third of the time with mma.sync alone, off DRAM's
    roof.

    The bound is the tensor pipe's time at the wgmma rate (in attention at three quarters of it, the best that is
    known), or DRAM's or the special functions' time: another kernel moves other tiles through L2.
    """
    duration, tensor = facts.kernel.duration_ns, facts.tensor
    if not tensor or (duration is not None and duration < _PATH_MIN_NS) or verdict.id == "launch-bound":
        return None
    if verdict.id == "memory-bound" and verdict.level == "dram":
        return None
    elapsed = max((pct for name, pct in facts.busy.items() if name.startswith("sm__pipe_tensor")), default=tensor)
    if facts.number("tensor_gmma_pct") or facts.opcode_count(*WARP_GROUP_MMA):
        return None
    if elapsed < _FED_PCT or (facts.opcodes and not facts.opcode_count(*_OLD_MMA)):
        return None
    kept = max((pct for name, pct in facts.busy.items() if "pipe_xu" in name), default=0.0)
    attention = facts.identity.op_class == "attention"
    reached = MMA_SYNC_SHARE * elapsed / (ATTENTION_REACHABLE if attention else 1.0)
    bound = max(1.0, 100 / max(reached, facts.levels.get("dram", 0.0), kept))
    by_l2 = verdict.id == "memory-bound" and verdict.level == "l2"
    params = {
        "tensor_pct": tensor,
        "rate_pct": MMA_SYNC_SHARE * elapsed,
        "l2_pct": facts.levels.get("l2"),
    }
    evidence = [facts.evidence("tensor_type_pct|tensor_pct", _FED_PCT)]
    if facts.number("tensor_gmma_pct") is not None:
        evidence.append(facts.evidence("tensor_gmma_pct", 0.0))
    variant = "l2" if by_l2 else "attention" if attention else ""
    return Hit(0.75 if verdict.id == "tensor-bound" else 0.6, bound, tuple(evidence), params, variant)


@rule(
    "blackwell-features-unused",
    "compute",
    needs=("tensor_pct", "tensor_tc_pct"),
    effects=("tensor-roof", "stall-math-pipe"),
    applies=lambda facts: features_of(facts.device).tcgen05 and facts.is_matrix_product,
)
def blackwell_features_unused(facts: Facts, verdict: Verdict) -> Hit | None:
    """A product or attention over 20 µs with tensor work (over 1 %) and none of it by tcgen05, on cc 10.x and 11.0.

    Not for INT8 on 10.3, whose tcgen05 hardly does it. No bound: no report tells mma.sync's share of the peak there.
    """
    duration, use = facts.kernel.duration_ns, facts.number("tensor_pct")
    if not facts.does_tensor or facts.number("tensor_tc_pct") or use is None or use <= 1:
        return None
    if duration is not None and duration < _PATH_MIN_NS:
        return None
    if facts.identity.precision == "int8" and facts.device.compute_capability == (10, 3):
        return None
    evidence = (facts.evidence("tensor_tc_pct", 0.0), facts.evidence("tensor_pct", 1.0))
    return Hit(0.5, None, evidence, {"tensor_pct": use})


@rule(
    "fp8-opportunity",
    "compute",
    needs=("tensor_pct|tensor_tc_pct",),
    uses=("tensor_gmma_pct",),
    applies=lambda facts: facts.is_matrix_product and "fp8" in features_of(facts.device).tensor,
    option=True,
)
def fp8_opportunity(facts: Facts, verdict: Verdict) -> Hit | None:
    """A bf16 or fp16 product that the tensor cores hold: half the bits run at up to twice the rate.

    An option and no cause: whether the result stays good enough is the model's question. The bound is the ratio of the
    peaks, at most 2: half the bytes let no level of memory cap it before.
    """
    if verdict.id != "tensor-bound" or facts.identity.op_class == "attention":
        return None
    if features_of(facts.device).wgmma and facts.number("tensor_gmma_pct") == 0:
        return None  # First the instructions of its generation: hopper-features-unused.
    precision = facts.roofline.precision
    if precision not in ("tensor-bf16", "tensor-fp16"):
        return None
    peaks = [peak_of(facts, id) for id in ("tensor-fp8", precision)]
    ratio = min(2.0, peaks[0][0] / peaks[1][0] if peaks[0] and peaks[1] else 2.0)
    concept = "tensor_pct" if facts.number("tensor_pct") == facts.tensor else "tensor_tc_pct"
    variant = "fp4" if "fp4" in features_of(facts.device).tensor else ""
    params = {"tensor_pct": facts.tensor, "ratio": ratio, "precision": precision.removeprefix("tensor-")}
    return Hit(0.3, ratio, (facts.evidence(concept, 60.0),), params, variant)


def _has_shared_memory(facts: Facts) -> bool:
    """Whether a block reserves any; yes where the report does not tell."""
    static, dynamic = facts.number("shared_static"), facts.number("shared_dynamic")
    return static is None or dynamic is None or static + dynamic > 0


_MMA = (*_OLD_MMA, *WARP_GROUP_MMA, "DMMA", "BMMA")


@rule(
    "async-copy-unused",
    "compute",
    needs=("opcode_total", "warp_latency", "stall_long_scoreboard", "issue_active"),
    uses=("stall_barrier", "shared_static", "shared_dynamic"),
    effects=("stall-long-scoreboard", "stall-barrier", "issue-slots", "low-ilp", "l1-bandwidth"),
    applies=lambda facts: features_of(facts.device).async_copy and _has_shared_memory(facts),
)
def async_copy_unused(facts: Facts, verdict: Verdict) -> Hit | None:
    """A tile kernel that loads through registers (LDG, then STS, no LDGSTS or TMA) and waits for it.

    Heuristics: at least 10 % of its instructions are multiply-adds or matrix operations, each staged value is read
    back at least twice (LDS and LDSM over STS), STS is within a quarter and four times LDG, and global loads with
    barriers are over 30 % of the wait (NVIDIA's line for stalls) of a kernel that is latency-bound or held by L1, which
    the copying fills. wgmma reads whole tiles from shared memory, many operations an instruction: there the first two
    hold by themselves. The bound is the wait, and what the units outside L1 have left.
    """
    held_by_l1 = verdict.id == "memory-bound" and verdict.level == "l1"
    if verdict.id != "latency-bound" and not held_by_l1:
        return None
    if facts.is_short or (facts.issue or 0) >= 0.8 or not facts.opcodes:
        return None
    loads, stores = facts.opcode_count("LDG"), facts.opcode_count("STS")
    if not loads or not 0.25 * loads <= stores <= 4 * loads:
        return None
    if facts.opcode_count("LDGSTS", "UTMALDG", "UBLKCP"):
        return None
    multiplies = facts.opcode_count("FFMA", "HFMA2", "DFMA", *_MMA) >= 0.1 * sum(facts.opcodes.values())
    reads_again = facts.opcode_count("LDS", "LDSM") >= 2 * stores
    if not facts.opcode_count(*WARP_GROUP_MMA) and not (multiplies and reads_again):
        return None
    loading = facts.stall_share("long_scoreboard") or 0.0
    waiting = min(0.99, loading + (facts.stall_share("barrier") or 0.0))
    if loading < 0.15 or waiting <= 0.3:
        return None
    outside = max((pct for name, pct in facts.busy.items() if not name.startswith(_L1_PARTS)), default=0.0)
    bound = min(1 / (1 - waiting), 100 / max(outside, facts.tensor or 0.0, 1.0))
    latency = facts.number("warp_latency") or 0.0
    evidence = (facts.evidence("stall_long_scoreboard", 0.15 * latency), facts.evidence("warp_latency"))
    params = {"waiting_pct": 100 * waiting, "loads": loads, "stores": stores}
    return Hit(0.6, bound, evidence, params, "tma" if features_of(facts.device).tma else "")


_L1_PARTS = ("l1tex__", "sm__mio", "sm__inst_executed_pipe_lsu")
"""The parts of the two breakdowns that copies through registers keep busy."""
