"""Steps of a transformer, by NVTX range and by the launches around, and the side of the roofline they belong on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from built import make_kernel, make_report, memory_parts, sm_parts
from gputui.analysis.engine import diagnose, diagnoser
from gputui.analysis.transformer import NEEDED, Expected
from gputui.model.report import Session
from gputui.wording import LANGUAGES, wording

PRODUCT = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
FLASH = "flash_fwd_kernel"
NORM = "vectorized_layer_norm_kernel"
SOFTMAX = "softmax_warp_forward"
ADD = "vectorized_elementwise_kernel<CUDAFunctor_add>"
GELU = "vectorized_elementwise_kernel<at::native::GeluCUDAKernelImpl(x)>"
COPY = "elementwise_kernel<at::native::direct_copy_kernel_cuda(x)>"


def op_in(name: str, *nvtx: str) -> str | None:
    kernel = make_kernel({"duration": 1e5}, name)
    kernel.nvtx = nvtx
    return diagnose(kernel).transformer_op


@pytest.mark.parametrize(
    ("nvtx", "name", "op"),
    [
        (("block", "qkv"), PRODUCT, "qkv-linear"),
        (("layer.3.self_attn.q_proj",), PRODUCT, "qkv-linear"),
        (("transformer.h.0.attn.c_attn",), PRODUCT, "qkv-linear"),
        (("decoder.layers.0.self_attention.linear_qkv",), PRODUCT, "qkv-linear"),
        (("bert.encoder.layer.0.attention.self.query",), PRODUCT, "qkv-linear"),
        (("attention", "attention scores"), PRODUCT, "attention-scores"),
        (("attention", "attention scores"), ADD, "attention-scores"),
        (("attention", "softmax"), SOFTMAX, "softmax"),
        (("model.layers.1.self_attn",), SOFTMAX, "softmax"),
        (("attention", "attention values"), PRODUCT, "attention-values"),
        (("attention output",), COPY, "attention-output"),
        (("model.layers.1.self_attn.o_proj",), PRODUCT, "attention-output"),
        (("transformer.h.0.attn.c_proj",), PRODUCT, "attention-output"),
        (("bert.encoder.layer.0.attention.output.dense",), PRODUCT, "attention-output"),
        (("self_attention.linear_proj",), PRODUCT, "attention-output"),
        (("transformer.h.0.mlp.c_proj",), PRODUCT, "mlp"),
        (("model.layers.1.mlp.down_proj",), PRODUCT, "mlp"),
        (("bert.encoder.layer.0.output.dense",), PRODUCT, "mlp"),
        (("model.layers.1.mlp", "aten::linear, seq = 12"), PRODUCT, "mlp"),
        (("model.layers.1.post_attention_layernorm",), NORM, "norm"),
        (("transformer.h.0.ln_1",), ADD, "norm"),
        (("mlp",), NORM, "norm"),
        (("mlp",), SOFTMAX, "mlp"),
        (("residual",), ADD, "residual"),
        (("model.embed_tokens",), "indexSelectLargeIndex", "embedding"),
        (("Optimizer.step#AdamW.step",), ADD, "optimizer"),
        (("aten::scaled_dot_product_attention, seq = 3",), FLASH, "attention-fused"),
        (("model.layers.1.self_attn",), PRODUCT, None),
        (("model.layers.1.self_attn",), ADD, None),
        (("step", "normal_init"), ADD, None),
        (("mlp",), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", None),
        ((), PRODUCT, None),
        ((), FLASH, "attention-fused"),
    ],
)
def test_ranges(nvtx: tuple[str, ...], name: str, op: str | None) -> None:
    assert op_in(name, *nvtx) == op


def ops(names: Sequence[str], session: Session | None = None) -> list[str | None]:
    report = make_report([{"duration": 1e5}] * len(names), names, names, session=session)
    one = diagnoser(report)
    return [one(kernel).transformer_op for kernel in report.kernels]


def test_a_block_without_ranges() -> None:
    assert ops([NORM, PRODUCT, FLASH, COPY, PRODUCT, ADD, NORM, PRODUCT, GELU, PRODUCT, ADD]) == [
        "norm", "qkv-linear", "attention-fused", None, "attention-output", "residual", "norm", "mlp", "mlp", "mlp",
        "residual",
    ]  # fmt: skip


def test_attention_written_out_without_ranges() -> None:
    assert ops([PRODUCT, PRODUCT, ADD, SOFTMAX, PRODUCT, COPY, PRODUCT]) == [
        "qkv-linear", "attention-scores", "attention-scores", "softmax", "attention-values", None, "attention-output",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names", [[PRODUCT], [PRODUCT, PRODUCT, PRODUCT], [PRODUCT, SOFTMAX], [NORM, ADD], [ADD, ADD], [PRODUCT, ADD]]
)
def test_too_little_to_tell(names: list[str]) -> None:
    assert ops(names) == [None] * len(names)


def test_a_filtered_report_does_not_tell_what_ran_next() -> None:
    filtered = Session(command_line="ncu --kernel-name regex:nvjet|flash -o x python x.py")
    assert ops([PRODUCT, FLASH, PRODUCT], filtered) == [None, "attention-fused", None]
    assert ops([PRODUCT, FLASH, PRODUCT], Session(command_line="ncu -c 3 -o x python x.py"))[0] == "qkv-linear"


# -----------------
# The expected side
# -----------------

BASE = {"duration": 1e5, "grid_size": 1000.0, "sm_count": 100.0, "sm_pct": 20.0, "memory_pct": 30.0, "dram_pct": 30.0,
        "dram_bytes": 1e8}  # fmt: skip
TWO_TB = {"dram_clock": 1e9, "dram_peak_bytes_per_cycle": 2000.0}
BUSY = {**BASE, "sm_pct": 75.0, **sm_parts(issue_active=75)}
DRAM = {**BASE, "memory_pct": 85.0, "dram_pct": 85.0}
CACHE = {**BASE, "memory_pct": 85.0, "l2_pct": 85.0, **memory_parts(lts__t_sectors=85)}


@pytest.mark.parametrize(
    ("name", "numbers", "side", "variant"),
    [
        (SOFTMAX, DRAM, "memory", None),
        (SOFTMAX, CACHE, "memory", "cache"),
        (SOFTMAX, BUSY, "memory", "issue"),
        (SOFTMAX, BASE, "memory", "waiting"),
        (SOFTMAX, {**BASE, "dram_bytes": 9.9e6, **TWO_TB}, "memory", "small"),
        (SOFTMAX, {**BASE, "dram_bytes": 10.1e6, **TWO_TB}, "memory", "waiting"),
        (SOFTMAX, {**BUSY, "duration": 4999.0}, "memory", None),
        (ADD, {**BASE, "sm_pct": 65.0, "memory_pct": 66.0}, "memory", None),
        (PRODUCT, {**BASE, "tensor_pct": 70.0, "tensor_ops_bf16": 1e12}, "compute", None),
        (PRODUCT, {**DRAM, "tensor_pct": 10.0, "tensor_ops_bf16": 1e12}, "compute", "dram"),
        (PRODUCT, {**CACHE, "tensor_pct": 10.0, "tensor_ops_bf16": 1e12}, "compute", "cache"),
        (PRODUCT, {**BASE, "tensor_pct": 10.0, "tensor_ops_bf16": 1e12}, "compute", "waiting"),
        (FLASH, {**BASE, "tensor_pct": 41.0, "tensor_ops_bf16": 1e12}, "compute", None),
        ("flash_fwd_splitkv_kernel", DRAM, "memory", None),
        ("gemv2T_kernel_val", DRAM, "memory", None),
    ],
)
def test_the_side(name: str, numbers: dict[str, Any], side: str, variant: str | None) -> None:
    found = diagnose(make_kernel(numbers, name)).expected
    assert found is not None
    assert (found.side, found.variant) == (side, variant)


@pytest.mark.parametrize("name", ["walk", "curand_normal", "ncclDevKernel_AllReduce", "vector_fft"])
def test_no_side_is_expected_of_other_kinds(name: str) -> None:
    assert diagnose(make_kernel(BASE, name)).expected is None


def test_no_side_is_expected_of_scores_that_are_written_out() -> None:
    kernel = make_kernel(CACHE, PRODUCT)
    kernel.nvtx = ("attention scores",)
    assert diagnose(kernel).expected is None


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", NEEDED)
def test_each_sentence_asks_for_its_numbers_alone(key: str, language: str) -> None:
    side, _, variant = key.partition("-")
    expected = Expected(side, variant, dict.fromkeys(NEEDED[key], 50.0))  # type: ignore[arg-type]
    sentence = wording(language).expected(expected, "Softmax")
    assert sentence is not None
    assert sentence.startswith("Softmax")
