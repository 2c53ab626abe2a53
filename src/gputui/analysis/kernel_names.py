"""What a kernel is, from its name: operation class, library, precision (``data/kernel_patterns.tsv``).

Names are hints: where the report's own counters say otherwise, they win (see ``facts.py``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class KernelIdentity:
    """``op_class`` is one of the design's classes; ``detail`` the pattern that matched; ``precision`` of the inputs."""

    op_class: str
    detail: str
    library: str
    precision: str | None


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
    ("fp8", r"e4m3|e5m2|fp8|float8|^nvjet_(\w*_)?q[a-z]*_"),
    ("fp4", r"e2m1|fp4|nvf4"),
    ("tf32", r"tf32|s1688gemm_(?!bf16|fp16)"),
    ("bf16", r"bf16|bfloat16|__nv_bfloat|BFloat16|^nvjet_\w*?t[a-z]t_"),
    (
        "fp16",
        r"(?<![a-z])f?fp16|(?<![a-z])f16|__half|c10::Half|half_t|_h\d*gemm|hgemm|s884gemm|h884gemm|^nvjet_\w*?h[a-z]h_",
    ),
    ("int8", r"int8|_i\d+gemm|(?<![a-z])s8_"),
    ("fp64", r"(?<![a-z])f64|dgemm|d884|\bdouble\b"),
    ("fp32", r"sgemm|scudnn|_float\b|(?<![a-z])f32|\bfloat\b"),
)


@cache
def identify(name: str, demangled: str) -> KernelIdentity:
    """What the names say. The full name decides first: short names such as ``Kernel2`` hide it."""
    op_class, detail = "other", "unknown"
    for pattern, row_class, row_detail in _patterns():
        if pattern.search(demangled) or pattern.search(name):
            op_class, detail = row_class, row_detail
            break
    library = next(
        (id for id, pattern in _compiled(_LIBRARIES) if pattern.search(demangled) or pattern.search(name)), "user"
    )
    precision = next((id for id, pattern in _compiled(_PRECISIONS) if pattern.search(demangled)), None)
    return KernelIdentity(op_class, detail, library, precision)


@cache
def _compiled(table: tuple[tuple[str, str], ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((id, re.compile(pattern)) for id, pattern in table)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    text = resources.files("gputui.data").joinpath("kernel_patterns.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:] if line]
    return tuple((re.compile(row[1]), row[2], row[3]) for row in rows)
