"""The compute family's findings of the wrong unit, the older path and the full pipe: values worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from built import A100, DEVICE, make_kernel, memory_parts, sm_parts
from compute_kernels import (
    ALU,
    B200,
    BLACKWELL,
    CHAIN,
    HGEMM,
    HITS,
    HOPPER,
    MASKED,
    PRODUCT,
    SGEMM,
    TILES,
    UNFUSED,
    WAITING,
    Numbers,
)  # fmt: skip
from gputui.analysis.engine import Diagnosis, diagnose
from gputui.analysis.facts import OPCODES_WITH_MODIFIERS, Facts
from gputui.analysis.finding import Finding
from gputui.analysis.gpu import features_of
from gputui.analysis.roofline import peak_of
from gputui.analysis.rules import all_rules
from gputui.model.device import Device
from gputui.wording import LANGUAGES, wording

RTX_3080 = Device("NVIDIA GeForce RTX 3080", (8, 6), 68)
T4 = Device("Tesla T4", (7, 5), 40)
RTX_5090 = Device("NVIDIA GeForce RTX 5090", (12, 0), 170)


def see(values: Numbers, name: str = "kernel", device: Device = DEVICE) -> Diagnosis:
    return diagnose(make_kernel(values, name, device=device))


def find(id: str, values: Numbers, name: str = "kernel", device: Device = DEVICE) -> Finding | None:
    return next((found for found in see(values, name, device).findings if found.id == id), None)


def hit(id: str, values: Numbers, name: str = "kernel", device: Device = DEVICE) -> Finding:
    found = find(id, values, name, device)
    assert found is not None
    return found


def bound(id: str, values: Numbers, name: str = "kernel", device: Device = DEVICE) -> float:
    told = hit(id, values, name, device).max_speedup
    assert told is not None
    return told


def asked(id: str, values: Numbers, name: str, device: Device) -> bool:
    return all_rules()[id].applies(Facts(make_kernel(values, name, device=device)))


# ----
# TF32
# ----

FLOPS = 2 * 5000 * 1.41e9


def test_tf32_off_moves_the_arithmetic_to_its_peak() -> None:
    found = hit("tf32-off", SGEMM, "sgemm", A100)
    assert found.max_speedup == pytest.approx(156e12 / FLOPS)
    assert (found.confidence, found.params) == (0.7, {"busy_pct": 90.0})
    assert [item.threshold for item in found.evidence] == [5.0, 30.0, None]
    assert found.evidence[2].value == pytest.approx(FLOPS)


def test_tf32_off_leaves_dram_as_it_is() -> None:
    assert bound("tf32-off", {**SGEMM, "dram_pct": 20.0}, "sgemm", A100) == 100 / 20


def test_the_reports_own_peak_wins() -> None:
    # 1024 FLOP a cycle and SM are what the A100 has; the report's number is taken as it is.
    own = {**SGEMM, "tensor_ops_tf32_peak_per_s": 100e12}
    assert bound("tf32-off", own, "sgemm", A100) == pytest.approx(100e12 / FLOPS)


def test_tf32_off_explains_the_unused_tensor_cores() -> None:
    seen = see(SGEMM, "ampere_sgemm_128x64_nn", A100)
    assert [found.id for found in seen.main] == ["tf32-off"]
    assert seen.explained["tensor-cores-unused"] == "tf32-off"
    assert seen.explained["compute-roof"] in ("tf32-off", "tensor-cores-unused")
    assert seen.findings[0].confidence == 0.85


@pytest.mark.parametrize(
    "other",
    [
        {"tensor_ops_bf16": 1e9},
        {"tensor_pct": 5.0},
        {"sm_pct": 29.9},
        {"duration": 4000.0},
        {"ffma_per_cycle": 0.0},
        {"dadd_per_cycle": 0.0, "dmul_per_cycle": 0.0, "dfma_per_cycle": 5001.0},
        {"pipe_fp16_pct": 20.0},
    ],
)
def test_no_tf32_off(other: Numbers) -> None:
    assert find("tf32-off", {**SGEMM, **other}, "sgemm", A100) is None


def test_a_product_of_which_nothing_says_that_it_is_fp32_is_not_told_so() -> None:
    unknown = {key: value for key, value in SGEMM.items() if not key.endswith("_per_cycle")}
    assert find("tf32-off", unknown, "my_gemm", A100) is None
    assert find("tensor-cores-unused", unknown, "my_gemm", A100) is not None
    assert hit("tf32-off", unknown, "ampere_sgemm_128x64_nn", A100).max_speedup is None


@pytest.mark.parametrize(("device", "variant"), [(RTX_3080, "tf32-same"), (T4, "fp16-only"), (A100, "")])
def test_tf32_is_advised_only_where_it_gains(device: Device, variant: str) -> None:
    assert asked("tf32-off", SGEMM, "sgemm", device) is (variant == "")
    assert hit("tensor-cores-unused", SGEMM, "sgemm", device).variant == variant


def test_half_inputs_do_not_listen_to_the_tf32_switch() -> None:
    assert not asked("tf32-off", SGEMM, "hgemm_f16", A100)


def test_a_slice_has_its_part_of_the_peak() -> None:
    part = Device("NVIDIA A100-SXM4-40GB MIG 3g.20gb", (8, 0), 42)
    facts = Facts(make_kernel({**SGEMM, "sm_count": 42.0}, "sgemm", device=part))
    assert peak_of(facts, "tensor-tf32") == (pytest.approx(156e12 * 42 / 108), "specs")


# --------------
# Half precision
# --------------


def test_fp16_without_tensor_moves_it_to_the_fp16_peak() -> None:
    found = hit("fp16-without-tensor", HGEMM, "my_gemm", A100)
    assert found.max_speedup == pytest.approx(312e12 / (4 * 5000 * 1.41e9))
    assert (found.confidence, found.params) == (0.7, {"fp16_pct": 60.0})
    seen = see(HGEMM, "my_gemm", A100)
    assert [one.id for one in seen.main] == ["fp16-without-tensor"]
    assert seen.explained["tensor-cores-unused"] == "fp16-without-tensor"


def test_half_precision_that_is_not_counted_is_worked_out_from_its_instructions() -> None:
    bare = {key: value for key, value in HGEMM.items() if not key.startswith("h")}
    assert bound("fp16-without-tensor", {**bare, "opcode_total": {"HFMA2": 1e8}}, "my_gemm", A100) == pytest.approx(
        312e12 / (1e8 * 32 * 4 / 1e-3)
    )
    assert hit("fp16-without-tensor", bare, "my_gemm", A100).max_speedup is None


@pytest.mark.parametrize(
    "other",
    [
        {"pipe_fp16_pct": 19.9},
        # The compiler's constant moves: many HFMA2, no FP16 pipe.
        {"pipe_fp16_pct": 0.0, "opcode_total": {"HFMA2": 300.0, "FFMA": 700.0}},
        {"tensor_ops_fp16": 1e9},
        {"duration": 4000.0},
    ],
)
def test_no_fp16_without_tensor(other: Numbers) -> None:
    assert find("fp16-without-tensor", {**HGEMM, **other}, "my_gemm", A100) is None


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("stencil", A100), ("sgemm", A100), ("my_gemm", Device("NVIDIA GeForce GTX 1660 Ti", (7, 5), 24)),
        ("my_gemm", Device("NVIDIA GeForce MX450", (7, 5), 14)),
    ],
)  # fmt: skip
def test_fp16_without_tensor_is_not_asked(name: str, device: Device) -> None:
    assert not asked("fp16-without-tensor", HGEMM, name, device)


# ---------------
# The newer paths
# ---------------


def test_mma_sync_on_hopper_reaches_two_thirds() -> None:
    found = hit("hopper-features-unused", HOPPER, "my_gemm")
    assert found.max_speedup == pytest.approx(100 / (60 * 2 / 3))
    assert (found.confidence, found.variant) == (0.75, "")
    assert found.params["rate_pct"] == pytest.approx(40.0)
    assert see(HOPPER, "my_gemm").explained["tensor-roof"] == "hopper-features-unused"


def test_mma_sync_on_hopper_leaves_dram_and_the_special_functions() -> None:
    assert bound("hopper-features-unused", {**HOPPER, "dram_pct": 50.0}, "my_gemm") == 100 / 50
    exps = {**HOPPER, **sm_parts(pipe_tensor_cycles_active=60, inst_executed_pipe_xu=58)}
    assert bound("hopper-features-unused", exps, "my_gemm") == 100 / 58


def test_attention_reaches_three_quarters_of_the_newer_rate() -> None:
    found = hit("hopper-features-unused", HOPPER, "flash_fwd_kernel")
    assert (found.max_speedup, found.variant) == (pytest.approx(100 / (60 * 2 / 3 / 0.75)), "attention")


def test_mma_sync_behind_a_full_l2() -> None:
    behind = {**HOPPER, "tensor_pct": 56.0, "sm_pct": 52.0, "memory_pct": 83.0, "l2_pct": 83.0,
              **sm_parts(pipe_tensor_cycles_active=52)}  # fmt: skip
    found = hit("hopper-features-unused", behind, "my_gemm")
    assert (found.variant, found.confidence) == ("l2", 0.6)
    assert found.max_speedup == pytest.approx(100 / (52 * 2 / 3))
    assert found.params["l2_pct"] == 83.0


def test_full_tensor_cores_are_no_roof_where_a_faster_path_exists() -> None:
    full = {**HOPPER, "tensor_pct": 95.0, "sm_pct": 90.0, **sm_parts(pipe_tensor_cycles_active=90)}
    assert not see(full, "my_gemm").verdict.at_roof
    assert see({**full, "tensor_gmma_pct": 5.0}, "my_gemm").verdict.at_roof


@pytest.mark.parametrize(
    "other",
    [
        {"duration": 19_999.0},
        {"tensor_gmma_pct": 5.0},
        # Its tensor cores idle two thirds of the time: what feeds them comes first.
        {"tensor_pct": 40.0, "tensor_type_pct": 33.0, **sm_parts(pipe_tensor_cycles_active=33)},
        # The newer instructions, however they are fed.
        {"opcode_total": {"HGMMA": 1e5, "LDG": 1e5, "STS": 1e5}},
        {"opcode_total": {"DMMA": 1e6}},
        {"opcode_total": {"HMMA": 1e6, "HGMMA": 1e5}},
        {"tensor_pct": 40.0, "dram_pct": 90.0, "memory_pct": 90.0},
        {"tensor_pct": 40.0, "grid_size": 99.0, "sm_pct": 40.0},
    ],
)
def test_no_hopper_features_unused(other: Numbers) -> None:
    assert find("hopper-features-unused", {**HOPPER, **other}, "my_gemm") is None


def test_only_hopper_has_wgmma() -> None:
    for device in (A100, B200, RTX_5090):
        assert not asked("hopper-features-unused", HOPPER, "my_gemm", device)


def test_blackwell_features_unused_has_no_bound() -> None:
    found = hit("blackwell-features-unused", BLACKWELL, "my_gemm", B200)
    assert (found.max_speedup, found.confidence, found.params) == (None, 0.5, {"tensor_pct": 12.5})
    full = {**BLACKWELL, "tensor_pct": 95.0, "sm_pct": 95.0}
    assert not see(full, "my_gemm", B200).verdict.at_roof
    assert see({**full, "tensor_tc_pct": 95.0}, "my_gemm", B200).verdict.at_roof


@pytest.mark.parametrize("other", [{"tensor_tc_pct": 0.1}, {"tensor_pct": 1.0}, {"duration": 19_999.0}])
def test_no_blackwell_features_unused(other: Numbers) -> None:
    assert find("blackwell-features-unused", {**BLACKWELL, "tensor_ops_bf16": 1e9, **other}, "my_gemm", B200) is None


def test_only_data_centre_blackwells_have_tcgen05() -> None:
    assert not asked("blackwell-features-unused", BLACKWELL, "my_gemm", RTX_5090)
    assert not asked("blackwell-features-unused", BLACKWELL, "my_gemm", DEVICE)
    b300 = Device("NVIDIA B300", (10, 3), 148)
    assert find("blackwell-features-unused", BLACKWELL, "gemm_int8", b300) is None
    assert find("blackwell-features-unused", BLACKWELL, "gemm_bf16", b300) is not None


def test_fp8_is_an_option_and_no_cause() -> None:
    seen = see(PRODUCT, "my_gemm")
    assert [found.id for found in seen.main] == ["tensor-roof"]
    assert [found.id for found in seen.further] == ["fp8-opportunity"]
    found = seen.further[0]
    assert (found.max_speedup, found.severity, found.confidence, found.variant) == (2.0, "info", 0.3, "")
    assert (found.option, found.score) == (True, 0.0)
    assert found.params == {"tensor_pct": 75.0, "ratio": 2.0, "precision": "bf16"}


def test_fp8_is_all_that_is_told_of_a_product_at_its_roof() -> None:
    seen = see({**PRODUCT, "sm_pct": 90.0, "tensor_pct": 92.0}, "my_gemm")
    assert seen.verdict.at_roof
    assert (seen.main, seen.effects) == ((), ())
    assert [found.id for found in seen.further] == ["fp8-opportunity"]


@pytest.mark.parametrize(
    "other",
    [
        {"tensor_pct": 59.9},
        {"tensor_ops_bf16": 0.0, "tensor_ops_fp8": 1e12},
        {"tensor_gmma_pct": 0.0},
        {"duration": 4000.0},
    ],
)
def test_no_fp8_opportunity(other: Numbers) -> None:
    assert find("fp8-opportunity", {**PRODUCT, **other}, "my_gemm") is None


def test_fp8_is_told_where_the_gpu_has_it() -> None:
    assert not asked("fp8-opportunity", PRODUCT, "my_gemm", A100)
    assert find("fp8-opportunity", PRODUCT, "flash_fwd_kernel") is None
    ada = Device("NVIDIA GeForce RTX 4090", (8, 9), 128)
    # With FP32 sums 330.3 of FP8 against 165.2 TFLOP/s of bf16.
    assert hit("fp8-opportunity", PRODUCT, "my_gemm", ada).params["ratio"] == pytest.approx(330.3 / 165.2)
    assert bound("fp8-opportunity", PRODUCT, "my_gemm", ada) == pytest.approx(330.3 / 165.2)
    assert hit("fp8-opportunity", PRODUCT, "my_gemm", RTX_5090).variant == "fp4"


def test_async_copy_unused_gains_at_most_the_wait() -> None:
    found = hit("async-copy-unused", TILES, device=A100)
    # 6 + 4 of 20 cycles; the units would allow 100 / 25.
    assert (found.max_speedup, found.confidence, found.variant) == (1 / (1 - 10 / 20), 0.6, "")
    assert found.params == {"waiting_pct": 50.0, "loads": 100.0, "stores": 100.0}
    assert hit("async-copy-unused", TILES, device=DEVICE).variant == "tma"
    assert bound("async-copy-unused", {**TILES, "memory_pct": 55.0}, device=A100) == 100 / 55


def _opcodes(**counts: float) -> Numbers:
    return {"opcode_total": {**TILES["opcode_total"], **counts}}


@pytest.mark.parametrize(
    "other",
    [
        _opcodes(LDGSTS=1.0), _opcodes(UTMALDG=1.0), _opcodes(UBLKCP=1.0),
        _opcodes(STS=0.0), _opcodes(STS=24.0), _opcodes(STS=401.0, LDS=1000.0),
        _opcodes(LDS=199.0), _opcodes(IADD3=10_000.0),
        {"stall_long_scoreboard": 2.9}, {"stall_long_scoreboard": 4.0, "stall_barrier": 1.9},
        {"issue_active": 0.8}, {"memory_pct": 60.0}, {"duration": 4000.0},
    ],
)  # fmt: skip
def test_no_async_copy_unused(other: Numbers) -> None:
    assert find("async-copy-unused", {**TILES, **other}, device=A100) is None


FED_BY_HAND: Numbers = {
    **TILES, "stall_long_scoreboard": 8.0, "stall_barrier": 5.6, "sm_pct": 35.0, "memory_pct": 70.0,
    "l1_elapsed_pct": 70.0, "l2_pct": 40.0, "tensor_pct": 35.0, "tensor_type_pct": 35.0,
    **sm_parts(pipe_tensor_cycles_active=35, inst_executed_pipe_lsu=45),
    **memory_parts(l1tex__data_pipe_lsu_wavefronts=70, lts__t_sectors=40),
    "opcode_total": {"LDG": 4e6, "STS": 4e6, "HGMMA": 2e6, "IMAD": 30e6},
}  # fmt: skip
"""wgmma reads from shared memory by itself, so that neither loads nor multiply-adds are many; L1 is 70 % busy."""


def test_wgmma_fed_through_registers() -> None:
    seen = see(FED_BY_HAND, "my_gemm")
    assert seen.verdict.level == "l1"
    found = seen.main[0]
    # L1 is full of the copying; L2's 40 % stay, and two thirds of the wait would allow 3.1 times.
    assert (found.id, found.max_speedup) == ("async-copy-unused", 100 / 40)
    assert seen.explained["l1-bandwidth"] == "async-copy-unused"


@pytest.mark.parametrize(
    "other",
    [
        {"opcode_total": {**FED_BY_HAND["opcode_total"], "UTMALDG": 1.0}},
        {"opcode_total": {**FED_BY_HAND["opcode_total"], "HGMMA": 0.0, "HMMA": 2e6}},
        {"stall_long_scoreboard": 2.0},
        {"l2_pct": 70.0, "l1_elapsed_pct": 50.0, **memory_parts(l1tex__data_pipe_lsu_wavefronts=50, lts__t_sectors=70)},
    ],
)
def test_wgmma_fed_well_or_held_by_another_level(other: Numbers) -> None:
    assert find("async-copy-unused", {**FED_BY_HAND, **other}, "my_gemm") is None


def test_async_copies_are_asked_for_where_they_exist_and_shared_memory_is_used() -> None:
    assert not asked("async-copy-unused", TILES, "kernel", T4)
    assert not asked("async-copy-unused", {**TILES, "shared_static": 0.0, "shared_dynamic": 0.0}, "kernel", A100)
    assert asked("async-copy-unused", {**TILES, "shared_static": 0.0, "shared_dynamic": 1.0}, "kernel", A100)


# ---------
# One pipe
# ---------


def test_a_full_alu_leaves_the_next_unit() -> None:
    found = hit("pipe-saturated", ALU)
    # Without the ALU's work its half of 80 % of the issue slots goes too: 50 - 40 = 10 %, and FMA's 30 % is the most.
    assert found.max_speedup == pytest.approx(100 / 30)
    assert (found.confidence, found.variant) == (0.75, "alu")
    assert found.params == {"pipe": "alu", "pipe_pct": 80.0, "divisions": 0.0}
    assert [(item.metric, item.value, item.threshold) for item in found.evidence] == [
        ("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed", 80.0, 60.0)
    ]
    assert find("compute-roof", ALU) is None


def test_integers_leave_the_multiply_add_pipe_too() -> None:
    # Two of three instructions of the multiply-add pipe are IMAD, and 600 of 800 instructions are integers.
    mixed = {**ALU, "opcode_total": {"IMAD": 200.0, "LOP3": 400.0, "FFMA": 100.0, "LDG": 100.0}}
    # 30 / 3 = 10 % of the multiply-adds, 50 / 4 = 12.5 % of the slots, and L2's 20 % is the most.
    assert bound("pipe-saturated", mixed) == 100 / 20
    assert bound("pipe-saturated", {**mixed, **memory_parts(lts__t_sectors=11)}) == 100 / 12.5


def test_a_kernel_of_nothing_but_integers_has_no_bound() -> None:
    """Nobody knows what they could be replaced by."""
    alone = {**ALU, "opcode_total": {"IMAD": 300.0, "LOP3": 700.0}, **memory_parts(lts__t_sectors=9.9)}
    found = hit("pipe-saturated", alone)
    assert (found.max_speedup, found.variant) == (None, "alu")
    assert [one.id for one in see(alone).main] == ["pipe-saturated"]


MULTIPLIED: Numbers = {
    **ALU, "sm_pct": 70.0, "memory_pct": 15.0, "opcode_total": {"IMAD": 600.0, "IADD3": 200.0, "LDG": 200.0},
    **sm_parts(pipe_fmaheavy_cycles_active=70, inst_executed_pipe_xu=65, issue_active=60),
    **memory_parts(lts__t_sectors=15),
}  # fmt: skip


def test_integers_in_the_multiply_add_pipe_are_no_roof() -> None:
    found = hit("pipe-saturated", MULTIPLIED)
    # The special functions' 65 % are none of theirs.
    assert (found.variant, found.max_speedup) == ("integer", 100 / 65)
    floats = {**MULTIPLIED, "opcode_total": {"IMAD": 300.0, "FFMA": 300.0}}
    assert (hit("pipe-saturated", floats).variant, bound("pipe-saturated", floats)) == ("fma", 100 / 70)


def test_integer_divisions_leave_all_arithmetic_units() -> None:
    counts = {"I2F": 15.0, "F2I": 15.0, "MUFU": 15.0, "IMAD": 155.0, "ISETP": 100.0, "IADD3": 500.0, "LDG": 200.0}
    found = hit("pipe-saturated", {**MULTIPLIED, "opcode_total": counts})
    # 15 times 20 of 1000 instructions. The slots keep 215 of 1000: 60 x 0.215 = 12.9 %; L2 has 15 %.
    assert (found.variant, found.max_speedup, found.params["divisions"]) == ("division", 100 / 15, 15.0)


@pytest.mark.parametrize(
    "counts",
    [
        {"I2F": 14.9, "F2I": 15.0, "MUFU": 15.0},
        # Floats converted for their own sake: no multiplications and compares to correct a quotient by.
        {"I2F": 15.0, "F2I": 15.0, "MUFU": 15.0, "ISETP": 29.0},
        {"I2F": 90.0, "F2I": 90.0, "MUFU": 90.0, "IMAD": 155.0},
    ],
)
def test_conversions_are_no_divisions_by_themselves(counts: Mapping[str, float]) -> None:
    every = {"IMAD": 155.0, "ISETP": 100.0, "IADD3": 500.0, "LDG": 200.0, **counts}
    every["LDG"] += 1000 - sum(every.values())
    assert hit("pipe-saturated", {**MULTIPLIED, "opcode_total": every}).variant == "integer"


def test_divisions_are_counted_by_their_rounding_where_it_is_told() -> None:
    modified = {"I2F.U32.RP": 20.0, "I2F.RP": 5.0, "I2F.U32": 70.0, "IMAD": 200.0, "MUFU.RCP": 90.0}
    counts = {"I2F": 95.0, "F2I": 90.0, "MUFU": 90.0, "IMAD": 200.0}
    found = hit("pipe-saturated", {**MULTIPLIED, "opcode_total": counts, OPCODES_WITH_MODIFIERS: modified})
    assert (found.variant, found.params["divisions"]) == ("division", 25.0)


@pytest.mark.parametrize(
    ("part", "pipe"),
    [
        ("pipe_aluheavy_cycles_active", "alu"), ("inst_executed_pipe_xu", "xu"), ("pipe_fma_cycles_active", "fma"),
        ("pipe_fmaheavy_cycles_active", "fma"), ("pipe_fp64_cycles_active", "fp64"),
        ("inst_executed_pipe_fp16", "fp16"), ("inst_executed_pipe_fma_type_fp16", "fp16"),
        ("inst_executed_pipe_uniform", "uniform"),
    ],
)  # fmt: skip
def test_each_pipe_has_its_name(part: str, pipe: str) -> None:
    found = hit("pipe-saturated", {**WAITING, "sm_pct": 70.0, **sm_parts(**{part: 70.0}), "device_fp64_ratio": 2.0})
    assert (found.params["pipe"], found.confidence) == (pipe, 0.6)


@pytest.mark.parametrize("part", ["pipe_fma_cycles_active", "pipe_fp64_cycles_active"])
def test_multiply_adds_have_only_what_their_pipe_has_left(part: str) -> None:
    values: dict[str, Any] = {**WAITING, "device_fp64_ratio": 2.0, "sm_pct": 79.0, **sm_parts(**{part: 79.0})}
    assert bound("pipe-saturated", values) == 100 / 79
    full = {**values, "sm_pct": 80.0, **sm_parts(**{part: 80.0})}
    assert find("pipe-saturated", full) is None
    assert find("compute-roof", full) is not None
    assert see(full).verdict.at_roof


@pytest.mark.parametrize(
    "other",
    [
        sm_parts(issue_active=80, pipe_alu_cycles_active=79),
        sm_parts(inst_executed_pipe_lsu=80, pipe_alu_cycles_active=79),
        {"sm_pct": 59.9, **sm_parts(pipe_alu_cycles_active=59.9)},
        {"memory_pct": 95.0},
        {"pipe_fp64_pct": 76.0, "device_fp64_ratio": 32.0},
        {"duration": 4000.0},
    ],
)
def test_no_pipe_saturated(other: Numbers) -> None:
    assert find("pipe-saturated", {**ALU, **other}) is None


def test_a_full_pipe_beside_a_busy_memory_is_less_sure() -> None:
    beside = {**ALU, "sm_pct": 70.0, "memory_pct": 65.0, **memory_parts(lts__t_sectors=65),
              **sm_parts(pipe_alu_cycles_active=70)}  # fmt: skip
    found = hit("pipe-saturated", beside)
    assert (found.confidence, found.max_speedup) == (0.45, 100 / 65)


# ------------
# Instructions
# ------------


def test_unfused_math_gives_each_pair_one_instruction() -> None:
    found = hit("unfused-math", UNFUSED)
    # 1000 of 2100 instructions go: 80 % of FMA and 70 % of the issue slots shrink to 11 / 21 of themselves.
    assert found.max_speedup == pytest.approx(21 / 11)
    assert found.params == {
        "pairs_pct": pytest.approx(100 * 1000 / 1100), "saved_pct": pytest.approx(100 * 10 / 21), "kind": "FP32",
        "fused": "FFMA", "add": "FADD", "multiply": "FMUL",
    }  # fmt: skip
    assert see(UNFUSED).explained["compute-roof" if find("compute-roof", UNFUSED) else "pipe-saturated"]


def test_unfused_math_in_double_precision() -> None:
    double = {
        **UNFUSED, "fadd_per_cycle": 0.0, "fmul_per_cycle": 0.0, "ffma_per_cycle": 0.0, "pipe_fma_pct": 3.0,
        "dadd_per_cycle": 500.0, "dmul_per_cycle": 400.0, "dfma_per_cycle": 100.0, "pipe_fp64_pct": 90.0,
        **sm_parts(pipe_shared_cycles_active=91, pipe_fp64_cycles_active=90, issue_active=50),
    }  # fmt: skip
    found = hit("unfused-math", double)
    # 400 of 1000 instructions go: 0.6 of the pipe's time is left, and of the entrance before it.
    assert found.max_speedup == pytest.approx(1 / 0.6)
    assert (found.params["kind"], found.params["fused"], found.params["add"]) == ("FP64", "DFMA", "DADD")


def test_unfused_math_leaves_the_other_instructions() -> None:
    mixed = {**UNFUSED, "opcode_total": {"FADD": 1000.0, "FMUL": 1000.0, "FFMA": 100.0, "LDG": 2900.0}}
    assert bound("unfused-math", mixed) == pytest.approx(100 / (70 * (1 - 1000 / 5000)))


@pytest.mark.parametrize(
    "other",
    [
        {"ffma_per_cycle": 501.0},
        {"fadd_per_cycle": 0.0},  # A chain of multiplies has nothing to fuse.
        {"fmul_per_cycle": 0.0},
        {"pipe_fma_pct": 29.9},
        {"memory_pct": 95.0},
        {"duration": 4000.0},
        {"tensor_pct": 50.0, "tensor_ops_bf16": 1e9},
    ],
)
def test_no_unfused_math(other: Numbers) -> None:
    assert find("unfused-math", {**UNFUSED, **other}) is None


def test_packed_instructions_count_twice() -> None:
    packed = {**UNFUSED, "ffma2_per_cycle": 201.0}
    assert find("unfused-math", packed) is None
    assert find("unfused-math", {**UNFUSED, "ffma2_per_cycle": 200.0}) is not None


def test_predication_gains_at_most_the_masked_lanes() -> None:
    found = hit("predication", MASKED)
    assert (found.max_speedup, found.confidence) == (30 / 15, 0.5)
    assert found.params == {"threads": 30.0, "on": 15.0, "off_pct": 50.0}
    assert bound("predication", {**MASKED, **memory_parts(lts__t_sectors=60)}) == pytest.approx(100 / 60)


def test_predication_of_a_memory_bound_kernel_is_doubtful() -> None:
    held = {**MASKED, "sm_pct": 30.0, **sm_parts(issue_active=30), "memory_pct": 80.0, "l2_pct": 80.0,
            **memory_parts(lts__t_sectors=80)}  # fmt: skip
    found = hit("predication", held)
    assert (found.max_speedup, found.confidence) == (1.0, 0.3)


@pytest.mark.parametrize("other", [{"threads_per_inst_pred": 24.0}, {"threads_per_inst": 23.9}, {"duration": 4000.0}])
def test_no_predication(other: Numbers) -> None:
    assert find("predication", {**MASKED, **other}) is None


def test_low_ilp_gains_at_most_the_dependent_wait() -> None:
    found = hit("low-ilp", CHAIN)
    # 12 of 20 cycles; the units would allow 4 times, the schedulers 1 / 0.3.
    assert found.max_speedup == pytest.approx(1 / (1 - 12 / 20))
    assert found.confidence == 0.45
    assert found.params == {"dependent_pct": pytest.approx(60.0), "latency": 20.0, "issue_pct": pytest.approx(30.0)}
    assert bound("low-ilp", {**CHAIN, "memory_pct": 55.0}) == 100 / 55
    assert see(CHAIN).explained["issue-slots"] == "low-ilp"


def test_a_matrix_product_has_few_warps_by_design() -> None:
    few = {**CHAIN, "achieved_occupancy_pct": 20.0}
    assert find("low-ilp", few) is None
    assert find("low-ilp", few, "my_gemm") is not None


@pytest.mark.parametrize(
    "other",
    [
        {"achieved_occupancy_pct": 59.9},
        {"eligible_warps": 1.0},
        {"issue_active": 0.6},
        {"stall_wait": 4.0},
        {"stall_long_scoreboard": 12.1},
        {"shared_wavefronts": 100.0, "shared_wavefronts_excess": 10.0},
        {"threads_per_inst": 23.9},
        {"tensor_pct": 10.0},
        {"memory_pct": 60.0},
        {"duration": 4000.0},
    ],
)
def test_no_low_ilp(other: Numbers) -> None:
    assert find("low-ilp", {**CHAIN, **other}) is None


# ---------------
# GPU generations
# ---------------


@pytest.mark.parametrize(
    ("name", "capability", "tensor", "has"),
    [
        ("GeForce GTX 1080", (6, 1), "", ""),
        ("Tesla V100-SXM2-32GB", (7, 0), "fp16", ""),
        ("Tesla T4", (7, 5), "fp16 int8", ""),
        ("NVIDIA GeForce GTX 1660 Ti", (7, 5), "", ""),
        ("NVIDIA GeForce MX450", (7, 5), "", ""),
        ("NVIDIA T1000", (7, 5), "", ""),
        ("NVIDIA A100-SXM4-40GB", (8, 0), "bf16 fp16 int8 tf32", "async_copy tf32_gains"),
        ("NVIDIA A10G", (8, 6), "bf16 fp16 int8 tf32", "async_copy"),
        ("NVIDIA A40", (8, 6), "bf16 fp16 int8 tf32", "async_copy tf32_gains"),
        ("NVIDIA GeForce RTX 3070", (8, 6), "bf16 fp16 int8 tf32", "async_copy"),
        ("Orin", (8, 7), "bf16 fp16 int8 tf32", "async_copy tf32_gains unified_memory"),
        ("NVIDIA GeForce RTX 4090", (8, 9), "bf16 fp16 fp8 int8 tf32", "async_copy"),
        ("NVIDIA L40S", (8, 9), "bf16 fp16 fp8 int8 tf32", "async_copy tf32_gains"),
        ("NVIDIA H200", (9, 0), "bf16 fp16 fp8 int8 tf32", "async_copy tf32_gains tma wgmma"),
        ("NVIDIA B200", (10, 0), "bf16 fp16 fp4 fp8 int8 tf32", "async_copy tcgen05 tf32_gains tma"),
        ("NVIDIA Thor", (11, 0), "bf16 fp16 fp4 fp8 int8 tf32", "async_copy tcgen05 tf32_gains tma unified_memory"),
        ("NVIDIA GeForce RTX 5090", (12, 0), "bf16 fp16 fp4 fp8 int8 tf32", "async_copy tma"),
        ("NVIDIA GB10", (12, 1), "bf16 fp16 fp4 fp8 int8 tf32", "async_copy tf32_gains tma unified_memory"),
        ("unknown", None, "", ""),
    ],
)
def test_what_a_generation_has(name: str, capability: tuple[int, int] | None, tensor: str, has: str) -> None:
    features = features_of(Device(name, capability, 1))
    flags = ("async_copy", "tcgen05", "tf32_gains", "tma", "unified_memory", "wgmma")
    assert " ".join(sorted(features.tensor)) == tensor
    assert " ".join(flag for flag in flags if getattr(features, flag)) == has
    assert features.tensor_cores is bool(tensor)


# -----
# Words
# -----

VARIANTS: list[tuple[str, Numbers, str, Device]] = [
    *((id, *case) for id, case in HITS.items()),
    ("tensor-cores-unused", SGEMM, "sgemm", T4),
    ("tensor-cores-unused", SGEMM, "sgemm", RTX_3080),
    ("hopper-features-unused", HOPPER, "flash_fwd_kernel", DEVICE),
    ("fp8-opportunity", PRODUCT, "my_gemm", RTX_5090),
    ("async-copy-unused", TILES, "kernel", DEVICE),
    ("pipe-saturated", MULTIPLIED, "kernel", DEVICE),
    ("pipe-saturated", {**MULTIPLIED, "opcode_total": {"I2F": 9, "F2I": 9, "MUFU": 9, "IMAD": 40, "ISETP": 20}},
     "kernel", DEVICE),
]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("id", "values", "name", "device"), VARIANTS)
def test_every_variant_is_filled(id: str, values: Numbers, name: str, device: Device, language: str) -> None:
    text = wording(language).finding(hit(id, values, name, device))
    for part in (text.title, text.why, text.verify, *(action for one in text.actions.values() for action in one)):
        assert part
        assert "–" not in part
        assert "None" not in part
        assert not {"{", "}"} & set(part)
