"""Which step of a transformer a kernel belongs to, and which side of the roofline such a step is expected on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gputui.analysis.neighbours import identity_of, same_pass
from gputui.analysis.verdict import FULL_PCT

if TYPE_CHECKING:
    from gputui.analysis.facts import Facts
    from gputui.analysis.finding import Verdict
    from gputui.analysis.neighbours import Neighbours
    from gputui.analysis.roofline import Roofline
    from gputui.model.kernel import Kernel

TransformerOp = Literal[
    "qkv-linear", "attention-scores", "softmax", "attention-values", "attention-fused", "attention-output", "mlp",
    "norm", "residual", "embedding", "optimizer",
]  # fmt: skip

# ------------------------------------------------------------------ by NVTX range

_RANGES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (op, re.compile(pattern, re.IGNORECASE))
    for op, pattern in (
        ("optimizer", r"optimi[sz]er|\badamw?\b|\bsgd\b|\blamb\b"),
        ("norm", r"layer_?norm|rms_?norm|(?<![a-z])ln_?[\df]?(?![a-z])|(?<![a-z])norm\d?(?![a-z])|_norm(?![a-z])"),
        ("embedding", r"embed|(?<![a-z])w[tp]e(?![a-z])"),
        ("softmax", r"soft_?max"),
        ("attention-scores", r"att(ention|n)[ _.]?(scores|weights|logits)|(?<![a-z])qk_?t?(?![a-z])"),
        ("attention-values", r"att(ention|n)[ _.]?values|(?<![a-z])pv(?![a-z])"),
        ("qkv-linear",
         r"(?<![a-z])w?qkv(?![a-z])|query_key_value|c_attn|(?<![a-z])[qkv]_proj|in_proj|linear_qkv"
         r"|self\.(query|key|value)(?![a-z])|(?<![a-z])to_[qkv](?![a-z])|linear_q_|linear_kv_"),
        ("attention-output",
         r"(?<![a-z])o_proj|out_proj|att(ention|n)[ _.]?out(put)?|att(ention|n)\.(c_proj|proj|dense|wo)(?![a-z])"
         r"|linear_proj|(?<![a-z])to_out(?![a-z])"),
        ("mlp",
         r"(?<![a-z])mlp|(?<![a-z])ffn?(?![a-z])|feed_?forward|(?<![a-z])(gate|up|down)_(up_)?proj"
         r"|(?<![a-z])fc[12_]|c_fc|linear_fc[12]|dense_h_to_4h|dense_4h_to_h|intermediate\.dense"
         r"|(?<!attention\.)output\.dense"),
        ("residual", r"residual"),
        ("attention", r"att(ention|n)(?![a-z])|attn|sdpa|scaled_dot_product|flash"),
    )
)  # fmt: skip
"""What a range's name says; the first that matches. ``attention`` names the whole of it: the kernel says which part."""


def transformer_op(facts: Facts) -> TransformerOp | None:
    """The step, from the innermost NVTX range that tells, else from the launches around; ``None`` where neither does.

    What the kernel certainly is goes before the range: a norm that runs inside ``mlp`` is a norm.
    """
    found = op_of_ranges(facts.identity.op_class, facts.kernel.nvtx)
    if found is None and not facts.neighbours.filtered:
        return _by_neighbours(facts.neighbours, facts.identity.op_class)  # type: ignore[return-value]
    return found


def op_of_ranges(op_class: str, nvtx: Sequence[str]) -> TransformerOp | None:
    """The step as far as the kernel's class and the NVTX ranges around it tell."""
    return _certain(op_class) or _by_range(nvtx, op_class)  # type: ignore[return-value]


def _certain(op_class: str) -> str | None:
    return {"attention": "attention-fused", "optimizer": "optimizer"}.get(op_class)


def _by_range(nvtx: Sequence[str], op_class: str) -> str | None:
    for name in reversed(nvtx):
        said = next((op for op, pattern in _RANGES if pattern.search(name)), None)
        if said is None:
            continue
        if op_class == "communication":
            return None
        if op_class == "norm" and said != "optimizer":
            return "norm"
        if op_class == "softmax" and said.startswith("attention"):
            return "softmax"
        return None if said == "attention" else said
    return None


# ------------------------------------------------------------------ by the launches around

_BETWEEN = frozenset({"elementwise", "random", "copy", "transpose"})
"""What may run between the steps: scale, mask, bias, dropout, rotary embedding, casts and layout copies."""
_REACH = 4
"""Launches between two steps at most: norm, rotary embedding and copies come to about four."""


def written_attention(neighbours: Neighbours) -> tuple[Kernel, ...]:
    """Where this kernel is a softmax between two matrix products: all launches from product to product; else none.

    Between them only elementwise launches. Where the report counts bytes they must fit: the first product hands on
    more than it read (sequence × sequence from two sequence × head), and the second reads what softmax wrote. A
    classifier's softmax does neither: no product takes its result.
    """
    softmax = neighbours.kernel
    if identity_of(softmax).op_class != "softmax":
        return ()
    before, after = _product_at(neighbours, -1), _product_at(neighbours, 1)
    if before is None or after is None:
        return ()
    group = [neighbours.at(offset) for offset in range(before, after + 1)]
    kernels = tuple(kernel for kernel in group if kernel is not None)
    return kernels if _sizes_fit(kernels[0], softmax, kernels[-1]) is not False else ()


def _product_at(neighbours: Neighbours, step: int) -> int | None:
    """How many launches away the next product is, over nothing but elementwise ones."""
    for distance in range(1, _REACH + 2):
        kernel = neighbours.at(step * distance)
        if kernel is None:
            return None
        identity = identity_of(kernel)
        if identity.op_class == "gemm":
            return step * distance
        if identity.op_class not in _BETWEEN and identity.detail != "splitk_reduce":
            return None
    return None


def _sizes_fit(scores: Kernel, softmax: Kernel, values: Kernel) -> bool | None:
    """``None`` where the report does not count the bytes."""
    numbers = [kernel.number("dram_read_bytes") for kernel in (scores, softmax, values)]
    if None in numbers:
        return None
    inputs, matrix, taken = (number or 0.0 for number in numbers)
    passed_on = written_bytes(softmax)
    return matrix >= inputs and (passed_on is None or taken >= 0.7 * passed_on)


def sizes_known(kernel: Kernel) -> bool:
    return kernel.number("dram_read_bytes") is not None and kernel.number("dram_write_bytes") is not None


def written_bytes(kernel: Kernel) -> float | None:
    """What a kernel wrote: its stores, where it uses the ordinary ones; else what was counted at DRAM.

    DRAM's count leaves out what is still in L2 when the kernel ends, and holds up to some megabytes that are not the
    kernel's (2.5 MB for a mean that writes 32 KB on an H200). Products store by bulk copies (TMA), which are no part of
    the store sectors: for them the larger number counts.
    """
    dram, sectors = kernel.number("dram_write_bytes"), kernel.number("global_store_sectors")
    if dram is None or not sectors:
        return dram
    return max(dram, 32 * sectors) if identity_of(kernel).op_class in _COMPUTE_SIDE else 32 * sectors


def _by_neighbours(neighbours: Neighbours, op_class: str) -> str | None:
    if op_class == "softmax":
        return "softmax" if written_attention(neighbours) else None
    inside = _inside_written_attention(neighbours)
    if inside is not None:
        return inside
    if op_class == "gemm":
        return _linear(neighbours)
    if op_class == "norm":
        # A norm right before a product that feeds attention, or between two steps of a block.
        following = neighbours.at(1)
        linear = following is not None and identity_of(following).op_class == "gemm"
        return "norm" if linear and following is not None and _linear(neighbours.seen_from(following)) else None
    if op_class == "elementwise":
        return _pointwise(neighbours)
    return None


def _inside_written_attention(neighbours: Neighbours) -> str | None:
    for offset in (*range(1, _REACH + 2), *range(-1, -_REACH - 2, -1)):
        kernel = neighbours.at(offset)
        if kernel is None or identity_of(kernel).op_class != "softmax":
            continue
        group = written_attention(neighbours.seen_from(kernel))
        if neighbours.kernel in group and "backward" not in identity_of(kernel).detail:
            return "attention-scores" if offset > 0 else "attention-values"
    return None


def _next_of(neighbours: Neighbours, step: int, between: frozenset[str] = _BETWEEN) -> Kernel | None:
    """The next launch that is no mere elementwise step, in one direction."""
    for distance in range(1, _REACH + 2):
        kernel = neighbours.at(step * distance)
        if kernel is None or not same_pass(neighbours.kernel, kernel):
            return None
        if identity_of(kernel).op_class not in between:
            return kernel
    return None


def _is_attention(neighbours: Neighbours, kernel: Kernel | None, step: int) -> bool:
    """A fused attention kernel, or the near end of a written-out one."""
    if kernel is None:
        return False
    if identity_of(kernel).op_class == "attention":
        return "bwd" not in identity_of(kernel).detail
    said = _inside_written_attention(neighbours.seen_from(kernel))
    return said == ("attention-scores" if step > 0 else "attention-values")


def _linear(neighbours: Neighbours) -> str | None:
    """What a product is for, by what comes next to it: attention, or an activation and another product."""
    if _is_attention(neighbours, _next_of(neighbours, 1), 1):
        return "qkv-linear"
    if _is_attention(neighbours, _next_of(neighbours, -1), -1):
        return "attention-output"
    for step in (1, -1):
        between, other = neighbours.at(step), neighbours.at(2 * step)
        beside_a_product = (
            other is not None and identity_of(other).op_class == "gemm" and same_pass(neighbours.kernel, other)
        )
        if between is not None and beside_a_product and _is_activation(between):
            return "mlp"
    return None


def _is_activation(kernel: Kernel) -> bool:
    identity = identity_of(kernel)
    named = any(word in identity.detail for word in ("gelu", "silu", "relu", "activation"))
    return identity.op_class == "elementwise" and named and "backward" not in identity.detail


def _pointwise(neighbours: Neighbours) -> str | None:
    before, after = neighbours.at(-1), neighbours.at(1)
    products = before is not None and after is not None and {identity_of(before).op_class,
                                                             identity_of(after).op_class} == {"gemm"}  # fmt: skip
    if products and _is_activation(neighbours.kernel):
        return "mlp"
    adds = "add" in identity_of(neighbours.kernel).operations
    if adds and before is not None and identity_of(before).op_class == "gemm":
        return "residual" if _linear(neighbours.seen_from(before)) in ("attention-output", "mlp") else None
    return None


# ------------------------------------------------------------------ the expected side

Side = Literal["memory", "compute"]

_MEMORY_SIDE = frozenset(
    {"gemv", "softmax", "norm", "elementwise", "reduction", "copy", "transpose", "embedding", "optimizer", "loss"}
)
_COMPUTE_SIDE = frozenset({"gemm", "conv", "attention"})

DECODE_FLOP_PER_BYTE = 16.0
"""A product of M rows does about M operations a byte of 16-bit weights: up to here it only reads its weights."""
_FILLS_THE_ROAD_S = 5e-6
"""What DRAM at full speed moves in less time is over before its start and end stop to count."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The side of the roofline where such a kernel belongs. ``variant`` picks the sentence that says how this one
    differs, ``params`` fill it; ``None`` where it is where it belongs, or where the report cannot tell."""

    side: Side
    variant: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


def is_decode_product(facts: Facts, intensity: float | None) -> bool:
    """A product of a few rows: it reads its weights once for little arithmetic, so that memory limits it rightly.

    A gemv by name; or a library's product that does at most 16 operations a byte and writes under a tenth of what it
    reads. Where operations are not counted: tiles of at most 16 rows, and 2 % written. An author's own product that
    spills or reads its inputs many times does few operations a byte too.
    """
    identity = facts.identity
    if identity.op_class != "gemm" or identity.library == "user":
        return identity.op_class == "gemv"
    read, written = facts.number("dram_read_bytes"), facts.number("dram_write_bytes")
    if read is None or written is None:
        return False
    if intensity is not None:
        return intensity <= DECODE_FLOP_PER_BYTE and written < 0.1 * read
    sides = [int(side) for side in (identity.tile or "").split("x")[:2] if side]
    return bool(sides) and min(sides) <= 16 and written < 0.02 * read


def expected_of(facts: Facts, verdict: Verdict, roofline: Roofline, op: TransformerOp | None) -> Expected | None:
    """Where the kernel's kind belongs, and how this one differs."""
    side = _side(facts, roofline, op)
    if side is None:
        return None
    if facts.is_short or facts.kernel.duration_ns is None or verdict.id in ("unknown", "launch-bound", "balanced"):
        return Expected(side)
    params = {
        "sm_pct": facts.sm,
        "dram_pct": facts.levels.get("dram"),
        "busiest_pct": facts.busiest,
        "tensor_pct": facts.tensor,
        "bytes": facts.number("dram_bytes"),
        "intensity": roofline.arithmetic_intensity,
        "ridge": roofline.ridge,
    }
    variant = _off_memory(facts, verdict, roofline) if side == "memory" else _off_compute(facts, verdict, roofline)
    if variant is None or any(params[name] is None for name in NEEDED[f"{side}-{variant}"]):
        return Expected(side)
    return Expected(side, variant, params)


NEEDED: Mapping[str, tuple[str, ...]] = {
    "memory-small": ("bytes",),
    "memory-cache": ("dram_pct",),
    "memory-issue": ("sm_pct", "dram_pct"),
    "memory-waiting": ("busiest_pct",),
    "compute-thin": ("intensity", "ridge"),
    "compute-dram": ("dram_pct", "sm_pct"),
    "compute-cache": ("sm_pct",),
    "compute-waiting": ("busiest_pct",),
}
"""The numbers that each sentence holds."""


def _side(facts: Facts, roofline: Roofline, op: TransformerOp | None) -> Side | None:
    op_class, detail = facts.identity.op_class, facts.identity.detail
    # Unfused scores and values read or write a whole sequence × sequence matrix: in between by nature.
    if op in ("attention-scores", "attention-values") and op_class == "gemm":
        return None
    if op_class in _MEMORY_SIDE or is_decode_product(facts, roofline.arithmetic_intensity):
        return "memory"
    if op_class == "attention" and ("decode" in detail or "combine" in detail):
        return "memory"
    return "compute" if op_class in _COMPUTE_SIDE else None


def _off_memory(facts: Facts, verdict: Verdict, roofline: Roofline) -> str | None:
    if verdict.id == "memory-bound":
        # A divided L2 reads busier than the DRAM that it passes on.
        level, dram = facts.levels.get(verdict.level or "dram", 0.0), facts.levels.get("dram", 0.0)
        return "cache" if verdict.level != "dram" and dram < FULL_PCT and level >= 1.5 * dram else None
    if verdict.id == "compute-bound":
        return "issue"
    if verdict.id == "latency-bound":
        moved, peak = facts.number("dram_bytes"), roofline.dram_peak_bytes_per_s
        return "small" if moved is not None and peak and moved / peak < _FILLS_THE_ROAD_S else "waiting"
    return None


def _off_compute(facts: Facts, verdict: Verdict, roofline: Roofline) -> str | None:
    # Attention's softmax keeps the tensor cores waiting part of the time: 40 to 75 % is a healthy kernel.
    if (facts.tensor or 0) >= 40 or verdict.id in ("tensor-bound", "compute-bound"):
        return None
    intensity, ridge = roofline.arithmetic_intensity, roofline.ridge
    if verdict.id == "memory-bound":
        if intensity is not None and ridge is not None and intensity < ridge:
            return "thin"
        return "dram" if verdict.level == "dram" or facts.levels.get("dram", 0.0) >= FULL_PCT else "cache"
    return "waiting" if verdict.id == "latency-bound" else None
