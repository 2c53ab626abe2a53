"""What a kernel is: operation class, library, precision and tile, from its name (``data/kernel_patterns.tsv``).

Names are hints: where the report counts instructions, those win (``confirm``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from gputui.data import text_of


@dataclass(frozen=True, slots=True)
class KernelIdentity:
    """``op_class`` is one of the design's classes; ``detail`` says more of it: the pattern that matched, or the
    operations that the name lists, joined by ``+``. ``precision`` is the inputs'; ``tile`` is what a block of a matrix
    product computes at a time, such as ``"128x256x64"``.
    """

    op_class: str
    detail: str
    library: str
    precision: str | None
    tile: str | None = None

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(self.detail.split("+"))


_LIBRARIES: tuple[tuple[str, str], ...] = (
    ("nccl", r"nccl(Dev)?Kernel|^nccl"),
    ("flash-attn", r"flash_(fwd|bwd)|flash::|FlashAttn|pytorch_flash"),
    ("inductor", r"^triton_(poi|per|red|tem|spl|for|mm|unk)_"),
    ("cudnn", r"cudnn|nchwToNhwc|nhwcToNchw|xmma_(fprop|dgrad|wgrad)"),
    (
        "cublas",
        r"^nvjet_|cublas|gemvx?::|gemv[NT2]|splitKreduce|xmma_gemm|(volta|turing|ampere|hopper|blackwell)_\w*gemm"
        r"|^cutlass_\d+_\w*gemm|cutlass_\d+_(tensorop|wmma|simt)",
    ),
    ("cutlass", r"cutlass"),
    ("cub-thrust", r"\bcub::|thrust::|DeviceRadixSort|DeviceScan"),
    (
        "aten",
        r"\bat::|at_cuda_detail|(vectorized|unrolled)_elementwise_kernel|CatArrayBatched|softmax_warp_(for|back)ward",
    ),
    ("triton", r"^triton_|_kernel_0d1d"),
)
_PRECISIONS: tuple[tuple[str, str], ...] = (
    ("fp8", r"e4m3|e5m2|fp8|float8|^nvjet_(sm\d+_)?q"),
    ("fp4", r"e2m1|fp4|nvf4|^nvjet_(sm\d+_)?o"),
    ("tf32", r"tf32|tfloat32|s1688gemm_(?!bf16|fp16)"),
    ("bf16", r"bf16|bfloat16|__nv_bfloat|BFloat16|^nvjet_(sm\d+_)?t[a-z]+_"),
    (
        "fp16",
        r"(?<![a-z])f?fp16|(?<![a-z])f16|__half|c10::Half|half_t|_h\d*gemm|hgemm|s884gemm|h884gemm"
        r"|^nvjet_(sm\d+_)?h[a-z]+_",
    ),
    ("int8", r"int8|_i\d+gemm|(?<![a-z])s8_"),
    ("fp64", r"(?<![a-z])f64|dgemm|d884|^(?!.*\bfloat\b).*\bdouble\b"),
    ("fp32", r"sgemm|scudnn|_float\b|(?<![a-z])f32|\bfloat\b"),
)

_CAST = re.compile(r"\((?:int|unsigned int|bool)\)")
_WORDS_OF_MANGLED = re.compile(r"S[0-9A-Z]*_|L[a-z]n?\d+E|(\d{1,5})")


_READ_OF_A_NAME = 600
"""Characters that the patterns look at: some take quadratic time (2 ms for that many). What tells a kernel's kind
stands before its template arguments' own arguments: on all public reports more characters change no answer."""


@cache
def identify(name: str, demangled: str) -> KernelIdentity:
    """What the names say. The full name decides first: short names such as ``Kernel2`` hide it."""
    name, demangled = name[:_READ_OF_A_NAME], demangled[:_READ_OF_A_NAME]
    texts = tuple(dict.fromkeys((demangled, name, *(words_of_mangled(text) for text in (demangled, name)))))
    op_class, detail = "other", "unknown"
    for pattern, row_class, row_detail in _patterns():
        if any(map(pattern.search, texts)):
            op_class, detail = row_class, row_detail
            break
    library = next((id for id, pattern in _compiled(_LIBRARIES) if any(map(pattern.search, texts))), "user")
    precision = next((id for id, pattern in _compiled(_PRECISIONS) if pattern.search(demangled)), None)
    full = _CAST.sub("", words_of_mangled(demangled) or demangled)
    fused = fused_operations(demangled) or fused_operations(name)
    if library == "inductor" and fused:
        op_class, detail = _class_of_fused(name, fused, op_class), "+".join(fused)
    elif op_class == "attention":
        detail += _attention_shape(full)
    elif library == "aten" and detail in _WITH_FUNCTOR:
        detail = _functor(full) or detail
    elif op_class == "optimizer":
        detail = "foreach" if "multi_tensor_apply" in full and not _FUSED_OPTIMIZER.search(full) else detail
    tile = _tile(full) if op_class in ("gemm", "conv", "attention") else None
    return KernelIdentity(op_class, detail, library, precision, tile)


_FUSED_OPTIMIZER = re.compile(r"Fused|[Aa]dam|LAMB|[Ss][Gg][Dd]")
"""In ``multi_tensor_apply``: one kernel for a whole optimizer step, not one a small operation of it."""


def words_of_mangled(name: str) -> str:
    """The identifiers of an Itanium-mangled name, in order: ``_ZN3foo3barIfEEvPf`` is ``foo bar``; else nothing."""
    if not name.startswith("_Z"):
        return ""
    words, place = [], 2
    while (found := _WORDS_OF_MANGLED.search(name, place)) is not None:
        place = found.end()
        if found.group(1):
            length = int(found.group(1))
            words.append(name[place : place + length])
            place += length
    return " ".join(words)


# ------------------------------------------------------------------ Inductor

_FUSED = re.compile(r"^triton_(poi|red|per|tem|for|spl)_fused_(\w+?)_\d+$")
_OPERATIONS_WITH_UNDERSCORE = (
    "native_layer_norm_backward", "native_layer_norm", "native_group_norm_backward", "native_group_norm",
    "native_batch_norm_backward", "native_batch_norm", "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit", "_fused_rms_norm_backward", "_fused_rms_norm",
    "rms_norm", "layer_norm", "_softmax_backward_data", "_softmax", "_log_softmax_backward_data", "_log_softmax",
    "log_softmax", "_to_copy", "_unsafe_view", "_unsafe_index", "convert_element_type", "native_dropout_backward",
    "native_dropout", "threshold_backward", "gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward",
    "nll_loss_forward", "nll_loss_backward", "cross_entropy", "embedding_dense_backward", "index_select", "index_put",
    "index_add", "scatter_add", "masked_fill", "where", "flex_attention", "scaled_dot_product_attention",
    "scalar_tensor", "constant_pad_nd", "bitwise_and", "bitwise_or", "logical_and", "logical_not", "var_mean",
    "max_pool2d_with_indices", "_adaptive_avg_pool2d", "avg_pool2d", "upsample_nearest2d", "zeros_like", "ones_like",
    "empty_like", "split_with_sizes", "as_strided", "copy_", "add_", "mul_",
)  # fmt: skip
"""Names that hold a ``_``, longest first where one begins another; every other operation is one word."""

_LAYOUT = frozenset(
    {
        "clone", "permute", "transpose", "t", "view", "_unsafe_view", "expand", "contiguous", "slice", "copy", "copy_",
        "_to_copy", "unsqueeze", "squeeze", "convert_element_type", "reshape",
    }
)  # fmt: skip


def fused_operations(name: str) -> tuple[str, ...]:
    """The operations in an Inductor kernel's name: ``triton_red_fused_add_native_layer_norm_1`` fuses two.

    Inductor cuts long lists short, so the last one may be a part of a name.
    """
    found = _FUSED.match(name)
    if found is None:
        return ()
    rest, operations = found.group(2), []
    while rest:
        known = (op for op in _OPERATIONS_WITH_UNDERSCORE if rest == op or rest.startswith(f"{op}_"))
        operation = next(known, None) or rest.split("_")[0] or f"_{rest[1:].split('_')[0]}"
        operations.append(operation)
        rest = rest[len(operation) :].removeprefix("_")
    return tuple(operations)


def _class_of_fused(name: str, operations: tuple[str, ...], by_kind: str) -> str:
    """A persistent or looped reduction is named by what it reduces for; a template by its product."""
    have = set(operations)
    if "triton_tem_" in name:
        return "conv" if "convolution" in have else by_kind
    if by_kind == "elementwise":
        return "embedding" if "embedding" in have else "copy" if have <= _LAYOUT else by_kind
    if any("softmax" in operation and "log" not in operation for operation in operations):
        return "softmax"
    if any("loss" in operation or "cross_entropy" in operation for operation in operations):
        return "loss"
    if any("norm" in operation for operation in operations) or {"pow", "mean", "rsqrt"} <= have:
        return "norm"
    return by_kind


# ------------------------------------------------------------------ ATen

_WITH_FUNCTOR = frozenset({"elementwise", "activation", "cast_copy", "reduction", "random"})
_NATIVE = r"(?:native|at)::(?:<unnamed>::|\(anonymous namespace\)::)?"
_FUNCTORS = tuple(
    re.compile(pattern)
    for pattern in (
        r"CUDAFunctor(?:OnSelf|OnOther)?_([a-z]+)",
        r"binary_internal::(\w+?)Functor",
        _NATIVE + r"(?!gpu_kernel)(\w+?)(?:_?CUDA)?_?[Kk]ernel_?(?:[Ii]mpl|cuda)\w*[(<]",
        _NATIVE + r"(\w+?)_kernel(?:_vec|\()",
        _NATIVE + r"(\w+?)(?:Nan)?(?:Functor|Ops)\b",
        r"func_wrapper_t<[^>]*native::(\w+?)_functor",
    )
)


def _functor(demangled: str) -> str | None:
    """The operation that an ATen kernel's functor hides: ``MulFunctor``, ``rsqrt_kernel_cuda``, ``MeanOps``."""
    found = next((found for pattern in _FUNCTORS if (found := pattern.search(demangled)) is not None), None)
    if found is None:
        return None
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", found.group(1)).lower()
    return re.sub(r"_(cuda|kernel|impl|nan)$", "", word) or None


# ------------------------------------------------------------------ shapes

_CUTE_TUPLE = re.compile(r"tuple<((?:cute::)?C<\d+>), ?((?:cute::)?C<\d+>), ?((?:cute::)?C<\d+>)>")
_TILES = tuple(
    re.compile(pattern)
    for pattern in (
        r"^nvjet_(?:sm\d+_)?[a-z]+_(\d+)x(\d+)_(\d+)x\d+",
        r"tilesize(\d+)x(\d+)x(\d+)",
        r"_(\d+)x(\d+)_(?:\w*?_)?stages_(\d+)x\d+",
        r"gemm_(?:[a-z0-9]+_)*?(\d+)x(\d+)_(\d+)x\d+",
        r"GemmShape<(\d+), ?(\d+), ?(\d+)>",
        r"[Ff]lash_(?:fwd|bwd)_kernel_traits<\d+, ?(\d+), ?(\d+)",
        r"gemm_(?:[a-z0-9]+_)*?(\d+)x(\d+)(?:_|\b)",
    )
)


def _tile(demangled: str) -> str | None:
    for match in _CUTE_TUPLE.finditer(demangled):
        sides = [int(re.sub(r"\D", "", side)) for side in match.groups()]
        # Cluster shapes are written the same way: 1, 1, 1 or 2, 1, 1.
        if min(sides) >= 16:
            return "x".join(map(str, sides))
    found = next((found for pattern in _TILES if (found := pattern.search(demangled)) is not None), None)
    return None if found is None else "x".join(found.groups())


_FLASH_2 = re.compile(r"[Ff]lash_(?:fwd|bwd)_kernel_traits<(\d+)")
_HEAD = re.compile(r"(?:hdim|headdim|head_dim|HEAD_DIM)_?(\d+)")


def _attention_shape(demangled: str) -> str:
    """Head dimension and causal mask, as far as FlashAttention's template arguments tell."""
    said = []
    found = _FLASH_2.search(demangled) or _HEAD.search(demangled)
    if found is not None:
        said.append(f"hdim{found.group(1)}")
    # FlashAttention 2: after the traits come Is_dropout and Is_causal.
    flags = re.search(r">, ?(?:0|1|true|false), ?(0|1|true|false),", demangled)
    if _FLASH_2.search(demangled) and flags is not None and flags.group(1) in ("1", "true"):
        said.append("causal")
    return "".join(f"+{one}" for one in said)


# ------------------------------------------------------------------ instructions

_TENSOR_OPCODE = re.compile(r"(HMMA|IMMA|DMMA|BMMA|QMMA|OMMA|[HIQB]GMMA|UTC[A-Z]*MMA)(?=$|\.)")
_MULTIPLIES = ("FFMA", "FFMA2", "FMUL", "FMUL2", "DFMA", "DMUL", "HFMA2", "HMUL2", "IDP", "IDP4A", "IMAD")


def is_tensor_opcode(opcode: str) -> bool:
    """Whether a base opcode is a tensor operation. Modifiers would mislead: ``HFMA2.MMA`` moves constants."""
    return _TENSOR_OPCODE.fullmatch(opcode) is not None


def confirm(
    named: KernelIdentity, opcodes: Mapping[str, float], modified: Mapping[str, float], tensor_pct: float | None
) -> KernelIdentity:
    """The identity after a look at the instructions; ``modified`` counts them with their modifiers, where known.

    - A product by name that hardly multiplies (under 1 % of its instructions, no tensor operation) is none.
    - A kernel without a telling name that keeps the tensor cores busy (30 %) is a product of some kind, unless it also
      takes many exponentials, as attention does.
    - The modifiers of the tensor instructions tell the inputs' precision.
    """
    total = sum(opcodes.values())
    if not total:
        return named
    tensor = any(is_tensor_opcode(opcode) and count for opcode, count in opcodes.items())
    multiplies = sum(opcodes.get(opcode, 0.0) for opcode in _MULTIPLIES)
    if named.op_class in ("gemm", "gemv", "conv", "attention") and not tensor and multiplies < 0.01 * total:
        return replace(named, op_class="other", detail="unknown", tile=None)
    if not tensor:
        return named
    if named.op_class == "other" and (tensor_pct or 0) >= 30 and opcodes.get("MUFU", 0.0) < 0.01 * total:
        named = replace(named, op_class="gemm", detail="tensor_work")
    precision = tensor_precision(modified) or tensor_precision(opcodes)
    return named if precision is None else replace(named, precision=precision)


def tensor_precision(opcodes: Mapping[str, float]) -> str | None:
    """The inputs' type of most tensor instructions, as far as their names tell it."""
    counts: dict[str, float] = {}
    for opcode, count in opcodes.items():
        if _TENSOR_OPCODE.match(opcode):
            precision = _precision_of(opcode)
            if precision is not None:
                counts[precision] = counts.get(precision, 0.0) + count
    return max(counts, key=lambda precision: counts[precision]) if any(counts.values()) else None


def _precision_of(opcode: str) -> str | None:
    base, *modifiers = opcode.split(".")
    if base == "DMMA":
        return "fp64"
    if base in ("QGMMA", "QMMA", "UTCQMMA"):
        return "fp8"
    if base in ("OMMA", "UTCOMMA"):
        return "fp4"
    if base in ("IMMA", "IGMMA", "UTCIMMA"):
        return "int4" if {"S4", "U4"} & set(modifiers) else "int8"
    if base in ("HMMA", "HGMMA") and modifiers:
        return next((word.lower() for word in ("BF16", "TF32") if word in modifiers), "fp16")
    return None


@cache
def _compiled(table: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((id, re.compile(pattern)) for id, pattern in table)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    text = text_of("kernel_patterns.tsv")
    rows = [line.split("\t") for line in text.splitlines()[1:] if line]
    return tuple((re.compile(row[1]), row[2], row[3]) for row in rows)


# ------------------------------------------------------------------ the short name
