"""The verdict: the first line of the table that holds, its edges, its guards, its level, and what is at its roof."""

from __future__ import annotations

from typing import Any

import pytest

from built import DEVICE, make_kernel, memory_parts, sm_parts
from gputui.analysis.engine import diagnose
from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.verdict import settle, verdict_of
from gputui.model.device import Device

LONG = {"duration": 1e6, "grid_size": 1000.0}
"""A launch that is neither short nor small."""


def facts(values: dict[str, Any], **options: Any) -> Facts:
    return Facts(make_kernel({**LONG, **values}, **options))


def verdict(**values: Any) -> Verdict:
    return verdict_of(facts(values))


# ---------
# The table
# ---------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "unknown"),
        ({"sm_pct": 90, "memory_pct": 90, "duration": 4000}, "launch-bound"),
        ({"sm_pct": 20, "memory_pct": 20, "grid_size": 99.0}, "launch-bound"),
        ({"sm_pct": 70, "memory_pct": 90, "tensor_pct": 65, "tensor_ops_bf16": 1e9}, "tensor-bound"),
        ({"sm_pct": 80, "memory_pct": 30}, "compute-bound"),
        ({"sm_pct": 30, "memory_pct": 80}, "memory-bound"),
        ({"sm_pct": 75, "memory_pct": 70}, "balanced"),
        ({"sm_pct": 30, "memory_pct": 40}, "latency-bound"),
    ],
)
def test_each_line(values: dict[str, float], expected: str) -> None:
    assert verdict(**values).id == expected


def test_short_comes_before_tensor_and_tensor_before_memory() -> None:
    tensor = {"sm_pct": 65, "memory_pct": 95, "tensor_pct": 70, "tensor_ops_bf16": 1e9}
    assert verdict(**tensor, duration=4999).id == "launch-bound"
    assert verdict(**tensor).id == "tensor-bound"


@pytest.mark.parametrize(
    ("sm", "memory", "expected"),
    [
        (59.9, 0, "latency-bound"),
        (60, 0, "compute-bound"),
        (0, 59.9, "latency-bound"),
        (0, 60, "memory-bound"),
        (70, 60, "compute-bound"),
        (69.9, 60, "balanced"),
        (60, 70, "memory-bound"),
        (60, 69.9, "balanced"),
        (50, 60, "memory-bound"),
        (50.1, 60, "balanced"),
    ],
)
def test_the_lines_at_60_and_the_margin_of_10(sm: float, memory: float, expected: str) -> None:
    assert verdict(sm_pct=sm, memory_pct=memory).id == expected


@pytest.mark.parametrize(("duration", "expected"), [(4999, "launch-bound"), (5000, "latency-bound")])
def test_short_is_under_5_microseconds(duration: float, expected: str) -> None:
    found = verdict(sm_pct=20, memory_pct=20, duration=duration)
    assert found.id == expected
    assert (found.variant == "short") == (duration < 5000)


@pytest.mark.parametrize(
    ("blocks", "sm", "memory", "expected"),
    [
        (99, 59.9, 59.9, "launch-bound"),
        (100, 59.9, 59.9, "latency-bound"),
        (99, 60, 20, "compute-bound"),
        (99, 20, 60, "memory-bound"),
    ],
)
def test_fewer_blocks_than_sms(blocks: float, sm: float, memory: float, expected: str) -> None:
    found = verdict(sm_pct=sm, memory_pct=memory, grid_size=blocks)
    assert found.id == expected
    assert (found.variant == "grid") == (expected == "launch-bound")


def test_sms_are_those_that_the_launch_could_use() -> None:
    # A quarter of the device under MIG: 30 blocks fill its 25 SMs.
    assert verdict(sm_pct=20, memory_pct=20, grid_size=30.0, sm_count=25).id == "latency-bound"
    assert verdict(sm_pct=20, memory_pct=20, grid_size=30.0).id == "launch-bound"


@pytest.mark.parametrize("clue", [{"sm_pct": 20}, {"memory_pct": 20}, {"dram_pct": 20}, {"l2_pct": 20}])
def test_half_of_the_picture_with_nothing_busy_in_it_is_unknown(clue: dict[str, float]) -> None:
    assert verdict(**clue).id == "unknown"


def test_half_of_the_picture_may_be_enough() -> None:
    assert verdict(memory_pct=80).id == "memory-bound"
    assert verdict(sm_pct=80).id == "compute-bound"
    assert verdict(memory_pct=20, duration=2000).id == "launch-bound"


def test_full_tensor_cores_need_no_more_of_the_picture() -> None:
    assert verdict(memory_pct=30, tensor_pct=70, tensor_ops_bf16=1e9).id == "tensor-bound"


def test_without_a_duration_nothing_is_short() -> None:
    found = verdict_of(Facts(make_kernel({"sm_pct": 20, "memory_pct": 20})))
    assert found.id == "latency-bound"


# ------
# Tensor
# ------


def test_the_pipe_alone_is_no_proof_of_tensor_operations() -> None:
    # On Ampere and Hopper constants are moved by HFMA2.MMA, through the tensor pipe: 3 % of it and not one operation.
    trap = facts({"sm_pct": 31, "memory_pct": 77, "tensor_pct": 3.0, "tensor_ops_bf16": 0, "tensor_ops_fp16": 0})
    assert trap.does_tensor is False
    assert trap.tensor == 0.0


@pytest.mark.parametrize(
    ("clues", "does"),
    [
        ({"tensor_pct": 3.0, "tensor_ops_fp16": 1.0}, True),
        ({"tensor_pct": 3.0, "tensor_type_pct": 0.0}, False),
        ({"tensor_pct": 3.0, "tensor_type_pct": 0.1}, True),
        ({"tensor_pct": 4.9}, False),
        ({"tensor_pct": 5.0}, True),
        ({}, None),
    ],
)
def test_what_proves_tensor_operations(clues: dict[str, float], does: bool | None) -> None:
    assert facts(clues).does_tensor is does


@pytest.mark.parametrize(("tensor", "expected"), [(59.9, "compute-bound"), (60, "tensor-bound")])
def test_tensor_bound_from_60(tensor: float, expected: str) -> None:
    assert verdict(sm_pct=80, memory_pct=10, tensor_pct=tensor, tensor_ops_bf16=1e9).id == expected


def test_a_busy_tensor_pipe_without_operations_is_not_tensor_bound() -> None:
    found = verdict(sm_pct=20, memory_pct=20, tensor_pct=3, tensor_ops_bf16=0)
    assert found.id == "latency-bound"
    assert found.params["tensor_pct"] == 0.0


def test_the_fifth_generations_pipe_has_its_own_name() -> None:
    found = verdict(sm_pct=30, memory_pct=30, tensor_pct=10, tensor_tc_pct=80, tensor_ops_fp8=1e12)
    assert (found.id, found.params["tensor_pct"]) == ("tensor-bound", 80)


def test_a_pipe_that_is_half_busy_does_tensor_operations_whatever_was_counted() -> None:
    # The counters are one for each precision; a report with those of bf16 and int8 tells nothing of fp6 or of one bit.
    assert facts({"tensor_pct": 50, "tensor_ops_bf16": 0, "tensor_ops_int8": 0}).does_tensor is not False


# ----------------
# Loads and stores
# ----------------


@pytest.mark.parametrize("unit", ["inst_executed_pipe_lsu", "mio_inst_issued", "mio2rf_writeback_active"])
def test_an_sm_held_by_its_load_and_store_unit_is_memory_bound(unit: str) -> None:
    found = verdict(sm_pct=90, memory_pct=90, **sm_parts(**{unit: 90, "issue_active": 60}))
    assert (found.id, found.level, found.variant) == ("memory-bound", "l1", "l1")


@pytest.mark.parametrize("unit", ["idc__request_cycles_active", "l1tex__data_pipe"])
def test_so_is_one_held_by_constants_or_l1(unit: str) -> None:
    from gputui.analysis.facts import SM_BREAKDOWN

    found = verdict(sm_pct=80, memory_pct=20, **{SM_BREAKDOWN: unit, unit: 80})
    assert (found.id, found.level) == ("memory-bound", "l1")


def test_the_guard_needs_the_load_and_store_unit_on_top() -> None:
    parts = sm_parts(inst_executed_pipe_lsu=70, issue_active=71)
    assert verdict(sm_pct=71, memory_pct=20, **parts).id == "compute-bound"


@pytest.mark.parametrize(("sm", "expected"), [(59.9, "latency-bound"), (60, "memory-bound")])
def test_the_guard_starts_at_60(sm: float, expected: str) -> None:
    assert verdict(sm_pct=sm, memory_pct=30, **sm_parts(inst_executed_pipe_lsu=sm)).id == expected


def test_the_guard_leaves_alone_a_memory_that_is_busier() -> None:
    found = verdict(sm_pct=65, memory_pct=80, dram_pct=80, **sm_parts(inst_executed_pipe_lsu=65))
    assert (found.id, found.level) == ("memory-bound", "dram")


@pytest.mark.parametrize(
    ("part", "variant"),
    [
        ("issue_active", "issue"),
        ("inst_executed", "issue"),
        ("pipe_alu_cycles_active", "alu"),
        ("pipe_fma_cycles_active", "fma"),
        ("pipe_fmaheavy_cycles_active", "fma"),
        ("pipe_fp64_cycles_active", "fp64"),
        ("inst_executed_pipe_xu", "xu"),
        ("inst_executed_pipe_uniform", "other"),
    ],
)
def test_which_unit_computes(part: str, variant: str) -> None:
    assert verdict(sm_pct=80, memory_pct=20, **sm_parts(**{part: 80})).variant == variant


def test_without_a_breakdown_no_unit_is_named() -> None:
    assert verdict(sm_pct=80, memory_pct=20).variant == "other"


# -----
# Level
# -----


@pytest.mark.parametrize(
    ("levels", "level", "variant"),
    [
        ({"dram_pct": 80, "l2_pct": 50, "l1_elapsed_pct": 30}, "dram", "dram"),
        ({"dram_pct": 75, "l2_pct": 50}, "dram", "dram"),
        ({"dram_pct": 74.9, "l2_pct": 50}, "dram", "dram-partly"),
        ({"dram_pct": 20, "l2_pct": 80, "l1_elapsed_pct": 30}, "l2", "l2"),
        ({"dram_pct": 70, "l2_pct": 80}, "l2", "l2-dram"),
        ({"dram_pct": 69.9, "l2_pct": 80}, "l2", "l2"),
        ({"dram_pct": 60, "l2_pct": 70}, "l2", "l2-dram"),
        ({"dram_pct": 59.9, "l2_pct": 69}, "l2", "l2"),
        ({"dram_pct": 20, "l2_pct": 50, "l1_elapsed_pct": 80}, "l1", "l1"),
        ({}, None, "default"),
    ],
)
def test_the_busiest_level(levels: dict[str, float], level: str | None, variant: str) -> None:
    found = verdict(sm_pct=20, memory_pct=max(levels.values(), default=80), **levels)
    assert (found.id, found.level, found.variant) == ("memory-bound", level, variant)
    assert found.params["level_pct"] == (levels.get(f"{level}_pct") or levels.get(f"{level}_elapsed_pct"))


def test_l1_of_the_active_time_counts_by_its_share_of_the_elapsed_time() -> None:
    # 90 % of the active time, which is a third of the whole.
    active = {"l1_pct": 90, "sm_cycles_active_avg": 1000, "sm_cycles_elapsed_avg": 3000}
    assert facts({"dram_pct": 40, **active}).levels == {"dram": 40, "l1": pytest.approx(90 / 3)}


def test_the_breakdown_gives_levels_that_the_report_has_no_total_of() -> None:
    parts = memory_parts(dram__cycles_active=30, fbpa__dram_sectors=25, lts__t_sectors=50, l1tex__data_bank_reads=80)
    assert facts({"memory_pct": 80, **parts}).levels == {"dram": 30, "l2": 50, "l1": 80}


def test_memory_is_the_largest_of_the_total_and_its_levels() -> None:
    # L2's throughput has parts outside of the memory throughput.
    found = verdict(sm_pct=30, memory_pct=63, dram_pct=40, l2_pct=85)
    assert (found.id, found.level, found.params["memory_pct"]) == ("memory-bound", "l2", 85)


@pytest.mark.parametrize(
    ("dram", "listed", "level"),
    [
        (86, 57, "dram"),  # A plain copy on an H200: what fills L2 is the way to the other half of it.
        (86, 87, "l2"),
        (39.9, 30, "l2"),
        (40, 30, "dram"),
    ],
)
def test_a_divided_l2_that_only_passes_bytes_on_leaves_the_lead_to_dram(dram: float, listed: float, level: str) -> None:
    found = facts({"l2_pct": 93, "dram_pct": dram, **memory_parts(lts__t_sectors=listed)})
    assert found.level == level


@pytest.mark.parametrize(
    ("capability", "dram", "level"),
    [((9, 0), 86, "dram"), ((8, 0), 75, "dram"), ((9, 0), 74, "l2"), ((8, 9), 86, "l2"), ((12, 0), 86, "l2")],
)
def test_without_a_breakdown_dram_leads_where_l2_is_divided(
    capability: tuple[int, int], dram: float, level: str
) -> None:
    device = Device("GPU", capability, 100)
    assert facts({"l2_pct": 93, "dram_pct": dram}, device=device).level == level


@pytest.mark.parametrize(
    ("levels", "level"),
    [
        ({"dram_pct": 40, "l2_pct": 26}, "dram"),
        ({"dram_pct": 39.9, "l2_pct": 20}, None),
        ({"dram_pct": 45, "l2_pct": 30}, "dram"),
        ({"dram_pct": 44.9, "l2_pct": 30}, None),
        ({"l2_pct": 45}, "l2"),
    ],
)
def test_a_waiting_kernel_names_a_level_that_clearly_leads(levels: dict[str, float], level: str | None) -> None:
    found = verdict(sm_pct=10, memory_pct=45, **levels)
    assert (found.id, found.level) == ("latency-bound", level)
    assert found.variant == (level or "default")


# -----------
# At the roof
# -----------

COPY = {"sm_pct": 15, "memory_pct": 90, "dram_pct": 90, "l2_pct": 40}


def settled(values: dict[str, Any], waste_gain: float = 1.0, **options: Any) -> Verdict:
    known = facts(values, **options)
    return settle(verdict_of(known), known, waste_gain)


@pytest.mark.parametrize(("dram", "at_roof"), [(79.9, False), (80, True)])
def test_dram_is_at_its_roof_from_80(dram: float, at_roof: bool) -> None:
    found = settled({**COPY, "dram_pct": dram, "memory_pct": dram})
    assert found.at_roof is at_roof
    assert found.variant == ("dram-roof" if at_roof else "dram")


@pytest.mark.parametrize(("gain", "at_roof"), [(1.1, True), (1 / 0.9, False)])
def test_ten_percent_of_waste_prevents_it(gain: float, at_roof: bool) -> None:
    assert settled(COPY, gain).at_roof is at_roof


def test_so_does_a_waste_finding_of_the_same_kernel() -> None:
    half_used = {"global_load_sectors": 1e6, "global_load_requests": 1e5, "load_bytes_per_sector": 16.0,
                 "load_bytes_per_sector_max": 32.0}  # fmt: skip
    kernel = {**LONG, **COPY, **memory_parts(dram__cycles_active=90), **half_used}
    assert diagnose(make_kernel({**LONG, **COPY})).verdict.at_roof
    assert not diagnose(make_kernel(kernel)).verdict.at_roof


def test_a_full_l2_or_l1_is_never_done() -> None:
    assert not settled({"sm_pct": 15, "memory_pct": 95, "l2_pct": 95, "dram_pct": 20}).at_roof
    assert not settled({"sm_pct": 15, "memory_pct": 95, "l1_elapsed_pct": 95}).at_roof
    assert not settled({"sm_pct": 95, "memory_pct": 95, **sm_parts(inst_executed_pipe_lsu=95)}).at_roof


def test_a_memory_bound_matrix_product_is_never_done() -> None:
    assert settled(COPY, name="copy").at_roof
    assert not settled(COPY, name="sgemm_128x64_nn").at_roof


def test_a_short_kernel_is_never_at_its_roof() -> None:
    assert not settled({**COPY, "duration": 4000}).at_roof


@pytest.mark.parametrize(("tensor", "at_roof"), [(79.9, False), (80, True)])
def test_tensor_cores_at_their_roof(tensor: float, at_roof: bool) -> None:
    found = settled({"sm_pct": 70, "memory_pct": 40, "tensor_pct": tensor, "tensor_ops_bf16": 1e12})
    assert (found.at_roof, found.variant) == (at_roof, "roof" if at_roof else "default")


@pytest.mark.parametrize(
    ("part", "at_roof"),
    [
        ("pipe_fma_cycles_active", True),
        ("pipe_fmaheavy_cycles_active", True),
        ("issue_active", False),
        ("pipe_alu_cycles_active", False),
        ("inst_executed_pipe_xu", False),
    ],
)
def test_only_multiply_add_is_a_roof_among_the_sms_parts(part: str, at_roof: bool) -> None:
    found = settled({"sm_pct": 90, "memory_pct": 20, **sm_parts(**{part: 90})})
    assert found.at_roof is at_roof
    assert found.params.get("arithmetic_pct") == (90 if at_roof else None)


def test_double_precision_on_a_gpu_made_for_it_has_a_roof_too() -> None:
    found = settled({"sm_pct": 95, "memory_pct": 20, "device_fp64_ratio": 2, **sm_parts(pipe_fp64_cycles_active=95)})
    assert found.at_roof


def test_a_few_tensor_operations_do_not_hide_a_full_multiply_add_pipe() -> None:
    tensor = {"tensor_pct": 20, "tensor_ops_bf16": 1e9}
    found = settled({"sm_pct": 90, "memory_pct": 20, **tensor, **sm_parts(pipe_fma_cycles_active=90)})
    assert found.at_roof


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"sm_pct": 20, "memory_pct": 20, "duration": 3000},
        {"sm_pct": 75, "memory_pct": 70},
        {"sm_pct": 30, "memory_pct": 40},
    ],
)
def test_the_other_verdicts_have_no_roof(values: dict[str, float]) -> None:
    assert not settled(values).at_roof


def test_without_sms_known_no_grid_is_small() -> None:
    found = facts({"sm_pct": 20, "memory_pct": 20, "grid_size": 1.0}, device=Device("unknown GPU"))
    assert verdict_of(found).id == "latency-bound"
    assert facts({}).sm_count == DEVICE.sm_count


@pytest.mark.parametrize(("l1", "part", "busy"), [(90.0, 45.0, 90.0), (90.0, 44.0, 88.0), (60.0, 45.0, 45.0)])
def test_parts_of_l1_that_are_listed_in_half_are_doubled(l1: float, part: float, busy: float) -> None:
    parts = memory_parts(l1tex__m_l1tex2xbar=part, dram__cycles_active=30)
    found = facts({"l1_elapsed_pct": l1, **parts})
    assert found.busy["l1tex__m_l1tex2xbar.avg.pct_of_peak_sustained_elapsed"] == busy
    assert found.busy["dram__cycles_active.avg.pct_of_peak_sustained_elapsed"] == 30


@pytest.mark.parametrize(("opcode", "variant"), [("HGMMA", "default"), ("IMMA", "older")])
def test_an_older_instruction_is_no_praise(opcode: str, variant: str) -> None:
    found = verdict(tensor_pct=68.0, tensor_ops_int8=1e12, opcode_total={opcode: 1e6})
    assert (found.id, found.variant) == ("tensor-bound", variant)
