"""The rules about several launches: a report built for each, with the bound worked out by hand, and the other side of
each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from built import make_kernel, make_report, memory_parts, sm_parts
from gputui.analysis.engine import Diagnosis, diagnose, diagnose_all, diagnoser
from gputui.analysis.finding import Finding
from gputui.analysis.neighbours import Launches
from gputui.analysis.rules import all_rules
from gputui.model.kernel import Kernel
from gputui.model.metrics import dictionary
from gputui.model.report import Session

Numbers = Mapping[str, Any]

WHOLE = Session(command_line="ncu --set full -o report python train.py")
FILTERED = Session(command_line="ncu --set full -k regex:gemm|softmax -o report python train.py")

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(x)"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::binary_internal::MulFunctor<float>>(x)"
RSQRT = "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(x)>(x)"
MEAN = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(x)"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(x)>(x)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(x)"
DROPOUT = "void at::native::fused_dropout_kernel_vec<float>(x)"
SOFTMAX = "void at::native::cunn_SoftMaxForward<4, c10::BFloat16, float, c10::BFloat16>(x)"
PRODUCT = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>(x)"
FOREACH = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, at::native::UnaryOpFunctor<float>>(x)"
FUSED = "void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float>>(x)"
NORM = "void at::native::vectorized_layer_norm_kernel<float, float>(x)"
GELU = "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(x)>(x)"

PEAK = 4e12
RATE = 0.93 * PEAK


def launch(name: str, us: float, read: float = 0.0, write: float = 0.0, **other: Any) -> tuple[str, Numbers]:
    """A launch that moves so many megabytes; DRAM's share of its time follows."""
    moved = (read + write) * 1e6
    numbers = {
        "duration": us * 1e3, "dram_read_bytes": read * 1e6, "dram_write_bytes": write * 1e6, "sm_pct": 20.0,
        "dram_pct": 100 * moved / (PEAK * us * 1e-6), "dram_bytes_per_s": moved / (us * 1e-6), "grid_size": 1000.0,
        "sm_count": 100.0, **other,
    }  # fmt: skip
    return name, numbers


def report_of(
    *launches: tuple[str, Numbers], session: Session = WHOLE, nvtx: Sequence[tuple[str, ...]] = ()
) -> list[Diagnosis]:
    names = [name for name, _ in launches]
    report = make_report([numbers for _, numbers in launches], names, names, session=session)
    for kernel, ranges in zip(report.kernels, nvtx, strict=False):
        kernel.nvtx = ranges
    one = diagnoser(report)
    return [one(kernel) for kernel in report.kernels]


def told(id: str, seen: Sequence[Diagnosis]) -> dict[int, Finding]:
    """The finding by the place of the launch that it is told on."""
    return {place: found for place, one in enumerate(seen) for found in one.findings if found.id == id}


# ------
# Chains
# ------

CHAIN = (launch(MUL, 100, 100, 100), launch(ADD, 150, 350, 100))


def test_a_chain_is_told_on_each_of_its_launches() -> None:
    found = told("elementwise-chain", report_of(*CHAIN))
    assert list(found) == [0, 1]
    assert found[0] == found[1]
    assert found[0].group == (0, 1)
    # The first reads 100 MB and the last writes 100. Of the 350 that the last reads 100 were handed to it and 100 may
    # be what the first read; 150 are new.
    assert found[1].max_speedup == pytest.approx(250e-6 / (350e6 / RATE))
    assert found[1].params == {
        "kernels": 2, "time": 250e3, "first": 1, "last": 2, "saved": 200e6, "steps": 1,
    }  # fmt: skip
    assert found[1].confidence == 0.6
    assert found[1].evidence[0].value == 250e3


def test_what_is_still_in_the_cache_when_a_launch_ends_was_written_too() -> None:
    # 10 of the 100 MB reached DRAM; the stores tell the rest.
    first = launch(MUL, 100, 100, 10, global_store_sectors=100e6 / 32)
    found = told("elementwise-chain", report_of(first, CHAIN[1]))[1]
    assert found.params["saved"] == 200e6
    assert found.max_speedup == pytest.approx(250e-6 / (350e6 / RATE))


def test_what_dram_counts_beyond_the_stores_is_not_the_kernels() -> None:
    first = launch(MUL, 100, 100, 150, global_store_sectors=100e6 / 32)
    assert told("elementwise-chain", report_of(first, CHAIN[1]))[1].params["saved"] == 200e6


def test_a_handful_of_bytes_tells_no_size() -> None:
    steps = (launch(MUL, 100, 100, 100), launch(MEAN, 60, 100, 0.9), launch(ADD, 100, 100, 100))
    assert told("elementwise-chain", report_of(*steps))[0].params["kernels"] == 3
    steps = (steps[0], launch(MEAN, 60, 100, 1.1), launch(ADD, 100, 0.5, 100))
    assert told("elementwise-chain", report_of(*steps))[0].params["kernels"] == 2


def test_launches_of_two_passes_are_no_chain() -> None:
    for one, other, linked in (
        (("pass 1", "add"), ("pass 2", "mul"), False),
        (("pass 1", "add"), ("pass 1", "mul"), True),
        (("aten::mul",), ("aten::add",), True),
        (("pass 1",), (), True),
    ):
        assert bool(told("elementwise-chain", report_of(*CHAIN, nvtx=(one, other)))) is linked


@pytest.mark.parametrize(
    "launches",
    [
        (CHAIN[0],),  # alone
        (CHAIN[0], CHAIN[0]),  # the same function over and over: a benchmark
        (CHAIN[0], launch(PRODUCT, 100, 10, 10), CHAIN[1]),  # a product in between
        (CHAIN[0], launch(ADD, 150, 79, 100)),  # reads less than what was written
        (CHAIN[0], launch(FILL, 150, 100, 100)),
        (launch("triton_poi_fused_mul_0", 100, 100, 100), CHAIN[1]),  # Inductor fused what it could
        (launch("silu_kernel", 100, 100, 100), launch("gelu_kernel", 100, 100, 100)),  # variants of an author's own
        (launch(MUL, 1000, 100, 100), launch(ADD, 1000, 200, 100)),  # 12 % of DRAM, and not short
        (launch(MUL, 100, 100, 1), launch(ADD, 150, 500, 100)),  # 2 of 701 MB saved
    ],
)
def test_no_chain(launches: tuple[tuple[str, Numbers], ...]) -> None:
    assert told("elementwise-chain", report_of(*launches)) == {}


def test_short_launches_are_a_chain_whatever_dram_does() -> None:
    short = (launch(MUL, 9, 1, 1), launch(ADD, 8, 1, 1))
    assert list(told("elementwise-chain", report_of(*short))) == [0, 1]
    assert told("elementwise-chain", report_of(short[0], launch(ADD, 11, 1, 1))) == {}


def test_a_filtered_report_shows_no_chains() -> None:
    seen = report_of(*CHAIN, session=FILTERED)
    assert told("elementwise-chain", seen) == {}
    assert all("elementwise-chain" not in {one.id for one in diagnosis.not_checked} for diagnosis in seen)


def test_a_report_that_does_not_tell_its_command_is_less_sure() -> None:
    assert told("elementwise-chain", report_of(*CHAIN, session=Session()))[1].confidence == 0.45


def test_launches_of_two_streams_are_no_chain() -> None:
    other = (CHAIN[1][0], {**CHAIN[1][1], "stream_id": 13.0})
    assert told("elementwise-chain", report_of((CHAIN[0][0], {**CHAIN[0][1], "stream_id": 7.0}), other)) == {}
    between = launch(PRODUCT, 100, 10, 10, stream_id=13.0)
    first, last = ((name, {**numbers, "stream_id": 7.0}) for name, numbers in CHAIN)
    assert list(told("elementwise-chain", report_of(first, between, last))) == [0, 2]


def test_a_chain_is_advice_for_a_kernel_at_its_roof_too() -> None:
    seen = report_of(launch(MUL, 55, 100, 100), launch(ADD, 88, 200, 100, memory_pct=85.0))[1]
    assert seen.verdict.at_roof
    assert [found.id for found in seen.main] == ["elementwise-chain"]
    assert "dram-bandwidth" in {found.id for found in seen.findings}


def test_without_the_bytes_a_chain_is_not_checked() -> None:
    bare = [(name, {key: value for key, value in numbers.items() if "bytes" not in key}) for name, numbers in CHAIN]
    for seen in report_of(*bare):
        missing = next(one for one in seen.not_checked if one.id == "elementwise-chain")
        assert missing.needs == ("dram_read_bytes", "dram_write_bytes")
    assert not report_of(bare[0])[0].not_checked or "elementwise-chain" not in {
        one.id for one in report_of(bare[0])[0].not_checked
    }


# ----------
# Row by row
# ----------

WRITTEN_OUT = (
    launch(MUL, 100, 100, 100), launch(MEAN, 60, 100, 0.1), launch(RSQRT, 3, 0.1, 0.1),
    launch(ADD, 110, 100.1, 100),
)  # fmt: skip


def test_a_norm_written_out_explains_the_chain() -> None:
    seen = report_of(*WRITTEN_OUT)
    found = told("multi-pass-norm", seen)
    assert list(found) == [0, 1, 2, 3]
    assert found[0] == found[3]
    # The input is read once and the result written once: all other reads may be of what was there before.
    assert found[3].max_speedup == pytest.approx(273e-6 / (200e6 / RATE), rel=1e-3)
    assert (found[3].variant, found[3].params["kernels"]) == ("chain", 4)
    assert all(one.explained["elementwise-chain"] == "multi-pass-norm" for one in seen)


ROWS: Numbers = {
    **launch(NORM, 100, 100, 10)[1], "global_store_sectors": 100e6 / 32, "l2_sectors_from_l1": 300e6 / 32,
    "l2_pct": 50.0, "memory_pct": 50.0, **memory_parts(lts__t_sectors=50, dram__cycles_active=27.5),
    **sm_parts(issue_active=20),
}  # fmt: skip


def test_a_second_pass_that_hits_the_cache() -> None:
    # L1 asks L2 for 300 MB, of which 100 are stores: twice the 100 MB of the rows.
    found = told("multi-pass-norm", report_of((NORM, ROWS)))[0]
    assert found.params["passes"] == pytest.approx(2)
    # L2's 50 % shrink to (100 + 100) / 300 of themselves.
    assert found.max_speedup == pytest.approx(100 / (50 * 2 / 3))
    assert found.confidence == 0.6


@pytest.mark.parametrize(
    "other",
    [
        {"l2_sectors_from_l1": (100e6 + 1.59 * 100e6) / 32},
        {"duration": 4000.0},
        {"dram_read_bytes": 200e6},  # Inputs in a wider type: read once from DRAM and once from L2.
    ],
)
def test_one_pass(other: Numbers) -> None:
    assert told("multi-pass-norm", report_of((NORM, {**ROWS, **other}))) == {}


@pytest.mark.parametrize(("read", "hit"), [(250e6, True), (249e6, False)])
def test_rows_read_again_from_dram(read: float, hit: bool) -> None:
    rows = {**ROWS, "dram_read_bytes": read, "l2_sectors_from_l1": (read + 100e6) / 32}
    found = told("multi-pass-norm", report_of((NORM, rows)))
    assert bool(found) is hit
    if hit:
        assert found[0].params["passes"] == 2.5
        # DRAM now moves 250 + 10 MB (the rest of the result is still in L2) and then 100 + 10; L2 350 and then 200.
        dram, l2 = 27.5 * 110 / 260, 50 * 200 / 350
        assert found[0].max_speedup == pytest.approx(100 / max(dram, l2, 20))


def test_each_part_of_l2_loses_what_is_read_again() -> None:
    rows = {
        **ROWS, "dram_read_bytes": 300e6, "dram_write_bytes": 100e6, "l2_sectors_from_l1": 400e6 / 32,
        **memory_parts(
            dram__cycles_active=80, lts__d_sectors_fill_device=90, lts__d_sectors=80, lts__xbar2lts_cycles_active=30,
            lts__lts2xbar_cycles_active=60,
        ),
    }  # fmt: skip
    # DRAM 400 MB to 200, fills 300 to 100, data banks 300 + 100 + 400 to 400, to the SMs 300 to 100, from them all.
    left = max(80 * 200 / 400, 90 / 3, 80 / 2, 60 / 3, 30)
    assert told("multi-pass-norm", report_of((NORM, rows)))[0].max_speedup == pytest.approx(100 / left)


def test_spilled_registers_are_no_second_pass() -> None:
    assert told("multi-pass-norm", report_of((NORM, {**ROWS, "local_load_sectors": 4.9e6 / 32})))
    assert told("multi-pass-norm", report_of((NORM, {**ROWS, "local_load_sectors": 5.1e6 / 32}))) == {}


@pytest.mark.parametrize(
    "name", ["layer_norm_grad_input_kernel", "triton_per_fused_add_native_layer_norm_1", "softmax_warp_backward"]
)
def test_several_inputs_are_no_second_pass(name: str) -> None:
    assert told("multi-pass-norm", report_of((name, ROWS))) == {}


# ---------
# Attention
# ---------

SCORES = launch(PRODUCT, 100, 30, 500, tensor_pct=60.0, tensor_ops_bf16=1e12)
SCALE = launch(MUL, 250, 500, 500)
WEIGHTS = launch(SOFTMAX, 800, 500, 500)
VALUES = launch(PRODUCT, 90, 515, 15, tensor_pct=50.0, tensor_ops_bf16=1e12)
ATTENTION = (SCORES, SCALE, WEIGHTS, VALUES)


def test_attention_written_out() -> None:
    found = told("naive-attention", report_of(*ATTENTION))
    assert list(found) == [0, 1, 2, 3]
    assert found[0] == found[1] == found[2] == found[3]
    # The tensor pipe works 60 + 45 µs, in a fused kernel at 3/4 of its rate; 30 + 15 + 15 MB remain, which take less.
    assert found[2].max_speedup == pytest.approx(1240 / ((0.6 * 100 + 0.5 * 90) / 0.75))
    assert found[2].params["kernels"] == 4
    assert found[2].params["saved"] == pytest.approx(3060e6 - 60e6)
    assert (found[2].confidence, found[2].variant) == (0.85, "")


def test_attention_explains_its_chain() -> None:
    seen = report_of(*ATTENTION)[2]
    assert seen.explained["elementwise-chain"] == "naive-attention"
    assert seen.main[0].id == "naive-attention"


def test_attention_with_mask_and_dropout() -> None:
    whole = (SCORES, SCALE, launch(ADD, 250, 500, 500), WEIGHTS, launch(DROPOUT, 240, 500, 500), VALUES)
    found = told("naive-attention", report_of(*whole))
    assert found[3].params["kernels"] == 6


@pytest.mark.parametrize(
    "launches",
    [
        (SCORES, SCALE, WEIGHTS),
        (SCALE, WEIGHTS, VALUES),
        (SCORES, launch(NORM, 100, 500, 500), WEIGHTS, VALUES),
        (SCORES, WEIGHTS, launch(MEAN, 100, 500, 1), VALUES),
        (launch(PRODUCT, 100, 501, 500), WEIGHTS, VALUES),  # a classifier: its weights outweigh its scores
        (SCORES, WEIGHTS, launch(PRODUCT, 90, 349, 15)),  # the next product takes something else
        (SCORES, launch("flash_fwd_kernel", 100, 30, 10), VALUES),
    ],
)
def test_no_attention_written_out(launches: tuple[tuple[str, Numbers], ...]) -> None:
    assert told("naive-attention", report_of(*launches)) == {}


def test_attention_of_a_filtered_report_is_less_sure() -> None:
    found = told("naive-attention", report_of(SCORES, WEIGHTS, VALUES, session=FILTERED))[1]
    assert (found.confidence, found.variant) == (round(0.85 * 0.7, 2), "filtered")


def test_attention_without_the_bytes() -> None:
    bare = [(name, {key: value for key, value in numbers.items() if "bytes" not in key}) for name, numbers in ATTENTION]
    found = told("naive-attention", report_of(*bare))[2]
    assert (found.confidence, found.variant) == (0.6, "bytes-unknown")
    assert found.max_speedup == pytest.approx(1240 / 140)


# ---------------------
# Copies and optimizers
# ---------------------


@pytest.mark.parametrize(("us", "hit"), [(50.0, False), (53.0, True)])
def test_copies_of_five_percent(us: float, hit: bool) -> None:
    found = told("layout-copies", report_of(launch(PRODUCT, 1000, 10, 10), launch(COPY, us, 10, 10)))
    assert list(found) == ([1] if hit else [])
    if hit:
        assert found[1].max_speedup == pytest.approx(1053 / 1000)
        assert found[1].variant == "one"


def test_copies_are_added_up_and_told_once() -> None:
    found = told("layout-copies", report_of(launch(COPY, 40, 10, 10), launch(PRODUCT, 900), launch(COPY, 60, 10, 10)))
    assert list(found) == [2]
    assert (found[2].params["kernels"], found[2].params["share_pct"]) == (2, 10.0)
    assert found[2].variant == ""


@pytest.mark.parametrize("name", ["copyGmem", "transposeSmem", FILL, "void at::native::CatArrayBatchedCopy<float>(x)"])
def test_copies_that_are_the_work(name: str) -> None:
    assert told("layout-copies", report_of(launch(PRODUCT, 100), launch(name, 100, 10, 10))) == {}


def test_copies_count_within_their_range_where_they_are_little_of_the_report() -> None:
    launches = (launch(COPY, 60, 10, 10), launch(NORM, 240, 10, 10), launch(PRODUCT, 9000, 10, 10))
    ranges = [("step", "forward"), ("step", "aten::layer_norm"), ("other",)]
    found = told("layout-copies", report_of(*launches, nvtx=ranges))
    assert list(found) == [0]
    assert (found[0].variant, found[0].params["share_pct"]) == ("range-one", 20.0)
    assert found[0].max_speedup == pytest.approx(300 / 240)
    alone = [("step",), ("other",), ("other",)]
    assert told("layout-copies", report_of(*launches, nvtx=alone)) == {}


def test_each_copy_that_scatters_is_told_and_its_loads_are_its_effect() -> None:
    scattered = {
        "global_load_sectors": 32e6, "global_load_requests": 1e6, "global_store_sectors": 4e6,
        "global_store_requests": 1e6, "load_bytes_per_sector": 4.0, "load_bytes_per_sector_max": 32.0, "l2_pct": 90.0,
        "memory_pct": 90.0, **memory_parts(lts__t_sectors=90),
    }  # fmt: skip
    plain = {**scattered, "load_bytes_per_sector": 32.0}
    copies = [launch(COPY, us, 100, 100, **pattern) for us, pattern in ((90, scattered), (80, scattered), (70, plain))]
    seen = report_of(launch(PRODUCT, 760), *copies)
    found = told("layout-copies", seen)
    assert list(found) == [1, 2]
    assert found[2].params["kernels"] == 3
    for place in found:
        assert seen[place].findings[0].id == "layout-copies"
        assert seen[place].explained["uncoalesced-load"] == "layout-copies"


def test_a_report_of_copies_alone_tests_copies() -> None:
    assert told("layout-copies", report_of(launch(COPY, 100, 10, 10))) == {}
    assert told("layout-copies", report_of(launch(PRODUCT, 10), launch(COPY, 90), session=FILTERED)) == {}


def test_an_optimizer_of_many_launches() -> None:
    steps = [launch(FOREACH, 20 + place, 50, 50) for place in range(5)]
    found = told("unfused-optimizer", report_of(*steps))
    assert list(found) == [0, 1, 2, 3, 4]
    # One launch must move the 100 MB of one of them.
    assert found[4].max_speedup == pytest.approx(110e-6 / (100e6 / RATE))
    assert told("unfused-optimizer", report_of(*steps[:4])) == {}
    assert told("unfused-optimizer", report_of(*[launch(FUSED, 20, 50, 50)] * 6)) == {}


def test_an_optimizer_in_its_range() -> None:
    steps = [launch(MUL if place % 2 else ADD, 20 + place, 50, 50) for place in range(6)]
    ranges = [("Optimizer.step#AdamW.step",)] * 6
    seen = report_of(*steps, nvtx=ranges)
    assert list(told("unfused-optimizer", seen)) == [0, 1, 2, 3, 4, 5]
    assert seen[5].explained["elementwise-chain"] == "unfused-optimizer"
    assert told("unfused-optimizer", report_of(*steps)) == {}


# --------
# Products
# --------

GEMV = "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16>(x)"
DECODE: Numbers = {
    **launch(GEMV, 100, 340, 0.1)[1], "memory_pct": 85.0, **memory_parts(dram__cycles_active=85, lts__t_sectors=30),
    **sm_parts(issue_active=20),
}  # fmt: skip


def test_a_product_of_one_row_reads_its_weights() -> None:
    seen = report_of((GEMV, DECODE))[0]
    assert seen.main[0].id == "gemv-decode"
    # In 4 bits for 16 a quarter of the bytes: the issue slots' 20 % and DRAM's 85 / 4 remain.
    assert seen.main[0].max_speedup == pytest.approx(100 / (85 / 4))
    assert seen.verdict.at_roof
    assert seen.expected is not None
    assert (seen.expected.side, seen.expected.variant) == ("memory", None)


def test_a_gemv_that_does_not_fill_the_road() -> None:
    slower = {**DECODE, "dram_pct": 59.9, **memory_parts(dram__cycles_active=59.9, lts__t_sectors=30)}
    assert told("gemv-decode", report_of((GEMV, slower))) == {}


def sgemm(flop: float, write: float) -> tuple[str, Numbers]:
    """A single-precision product with so many operations a byte of its 340 MB."""
    # Operations are counted a cycle: 1e9 cycles a second, two operations a multiply-add.
    numbers = {
        **DECODE, "dram_write_bytes": write, "dram_bytes_per_s": 3.4e12, "ffma_per_cycle": flop * 3.4e12 / 2 / 1e9,
        "fadd_per_cycle": 0.0, "fmul_per_cycle": 0.0, "smsp_clock": 1e9, "tensor_pct": 0.0, "sm_pct": 40.0,
    }  # fmt: skip
    return "ampere_sgemm_32x32_sliced1x4_tn", numbers


@pytest.mark.parametrize(("flop", "write", "hit"), [(15.9, 1e6, True), (16.1, 1e6, False), (15.9, 34e6, False)])
def test_a_product_of_few_operations_a_byte(flop: float, write: float, hit: bool) -> None:
    seen = report_of(sgemm(flop, write))[0]
    assert (told("gemv-decode", [seen]) != {}) is hit
    # Tensor cores would wait for the same weights.
    assert ("tensor-cores-unused" not in {found.id for found in seen.findings}) is hit


@pytest.mark.parametrize(
    ("name", "write", "hit"),
    [
        ("nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT", 6.7, True),
        ("nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT", 6.9, False),
        ("nvjet_sm90_tst_64x512_64x3_2x1_v_bz_NNN", 1.0, False),
    ],
)
def test_a_product_of_few_rows_by_its_tile(name: str, write: float, hit: bool) -> None:
    numbers = {**launch(name, 100, 340, write)[1], "memory_pct": 85.0}
    assert bool(told("gemv-decode", report_of((name, numbers)))) is hit


def test_an_authors_own_product_may_spill_or_read_twice() -> None:
    assert told("gemv-decode", report_of(("my_gemm", sgemm(2.0, 1e6)[1]))) == {}


@pytest.mark.parametrize(("us", "hit"), [(15.0, False), (16.0, True)])
def test_adding_up_a_split_product(us: float, hit: bool) -> None:
    found = told("splitk-overhead", report_of(launch(PRODUCT, 100, 10, 10), launch(REDUCE, us, 10, 1)))
    assert list(found) == ([0, 1] if hit else [])
    if hit:
        assert found[0].max_speedup == pytest.approx(1.16)
        assert found[0].params["share_pct"] == pytest.approx(16)


def test_adding_up_that_takes_longer_than_the_product() -> None:
    found = told("splitk-overhead", report_of(launch(PRODUCT, 10, 10, 10), launch(REDUCE, 20, 10, 1)))
    assert list(found) == [0, 1]
    assert found[0].max_speedup == found[1].max_speedup == 3.0


def test_a_later_optimizer_step_of_another_range_is_no_part_of_this_one() -> None:
    steps = [launch(FOREACH, 20, 50, 50)] * 6
    seen = report_of(*steps, nvtx=[("slow",)] * 5 + [("fused",)])
    assert list(told("unfused-optimizer", seen)) == [0, 1, 2, 3, 4]


def test_the_bound_of_a_group_is_not_that_of_a_short_member() -> None:
    # The second launch could gain 2 times at most, as an empty kernel takes 1 µs; the group gains more.
    found = told("elementwise-chain", report_of(launch(MUL, 9, 10, 10), launch(ADD, 2, 10, 0.1)))
    assert found[1].max_speedup == found[0].max_speedup == pytest.approx(11e-6 / (10.1e6 / RATE))


def test_attention_explains_the_full_caches_of_its_products() -> None:
    busy = {
        "l2_pct": 85.0,
        "memory_pct": 85.0,
        "dram_pct": 60.0,
        **memory_parts(lts__t_sectors=85, dram__cycles_active=60),
    }
    scores = (SCORES[0], {**SCORES[1], "tensor_pct": 30.0, **busy})
    seen = report_of(scores, SCALE, WEIGHTS, VALUES)[0]
    assert seen.main[0].id == "naive-attention"
    assert seen.explained["l2-bandwidth"] == "naive-attention"


# ------
# Lookup
# ------

GATHER: Numbers = {
    **launch("indexSelectLargeIndex", 100, 100, 50)[1], "load_bytes_per_sector": 20.0,
    "load_bytes_per_sector_max": 32.0, "memory_pct": 60.0, **memory_parts(dram__cycles_active=60, lts__t_sectors=30),
    **sm_parts(issue_active=20),
}  # fmt: skip


def test_a_lookup_that_wastes_what_it_moves() -> None:
    found = told("irregular-gather", report_of(("indexSelectLargeIndex", GATHER)))[0]
    assert found.max_speedup == pytest.approx(100 / (60 * 20 / 32))
    assert found.params["used_pct"] == 62.5


def test_wider_rows_take_fewer_instructions() -> None:
    # A load brings one sector where 16 fit: the SM's work shrinks to a sixteenth, DRAM's to the 20 of 32 bytes used.
    narrow = {
        **GATHER, "global_load_sectors": 1e6, "global_load_requests": 1e6, "dram_pct": 4.0, "memory_pct": 4.0,
        "sm_pct": 32.0, **sm_parts(issue_active=32), **memory_parts(dram__cycles_active=4),
    }  # fmt: skip
    found = told("irregular-gather", report_of(("indexSelectLargeIndex", narrow)))[0]
    assert found.max_speedup == pytest.approx(100 / max(32 / 16, 4 * 20 / 32))
    wide = told("irregular-gather", report_of(("indexSelectLargeIndex", {**narrow, "global_load_requests": 1e6 / 16})))
    assert wide[0].max_speedup == pytest.approx(100 / 32)


@pytest.mark.parametrize("other", [{"load_bytes_per_sector": 25.6}, {"duration": 4000.0}])
def test_a_lookup_of_whole_sectors(other: Numbers) -> None:
    assert told("irregular-gather", report_of(("indexSelectLargeIndex", {**GATHER, **other}))) == {}


def test_a_lookup_that_waits() -> None:
    waits = {**GATHER, "load_bytes_per_sector": 32.0, "dram_pct": 25.0, "memory_pct": 25.0, "warp_latency": 20.0,
             "stall_long_scoreboard": 10.0, **memory_parts(dram__cycles_active=25)}  # fmt: skip
    found = told("irregular-gather", report_of(("indexSelectLargeIndex", waits)))[0]
    assert (found.variant, found.max_speedup) == ("waiting", 100 / 25)
    assert told("irregular-gather", report_of(("walk", waits))) == {}


# ---------------------------------
# What the rules need, and the cost
# ---------------------------------

HITS: Mapping[str, tuple[tuple[str, Numbers], ...]] = {
    "elementwise-chain": CHAIN,
    "multi-pass-norm": ((NORM, ROWS),),
    "gemv-decode": ((GEMV, DECODE),),
    "irregular-gather": (("indexSelectLargeIndex", GATHER),),
}


def test_every_rule_with_needs_is_here() -> None:
    assert set(HITS) == {id for id, rule in all_rules().items() if rule.family == "fusion" and rule.needs}


@pytest.mark.parametrize("id", HITS)
def test_not_checked_without_what_it_needs(id: str) -> None:
    for need in all_rules()[id].needs:
        names = {*dictionary()[need].names, need}
        kept = [
            (name, {key: value for key, value in numbers.items() if key not in names}) for name, numbers in HITS[id]
        ]
        seen = report_of(*kept)
        assert told(id, seen) == {}
        assert any(need in one.needs for one in seen[-1].not_checked if one.id == id)


def test_a_kernel_alone_has_no_neighbours() -> None:
    name, numbers = WEIGHTS
    assert "naive-attention" not in {found.id for found in diagnose(make_kernel(numbers, name)).findings}


def test_a_long_report_asks_each_pair_once() -> None:
    launches = [launch(MUL if place % 2 else ADD, 20, 50, 50) for place in range(300)]
    names = [name for name, _ in launches]
    report = make_report([numbers for _, numbers in launches], names, names, session=WHOLE)
    pairs = []

    def linked(before: Kernel, after: Kernel) -> bool:
        pairs.append((before.index, after.index))
        return True

    beside = Launches(report.kernels, report.session)
    runs = {beside.of(kernel).run(linked) for kernel in report.kernels}
    assert len(runs) == 1
    assert len(pairs) == len(set(pairs)) == 299


def test_neighbours_are_read_in_few_round_trips() -> None:
    launches = [launch(MUL if place % 2 else ADD, 20, 50, 50) for place in range(300)]
    names = [name for name, _ in launches]
    report = make_report([numbers for _, numbers in launches], names, names, session=WHOLE)
    diagnose_all(report)
    # Batches, and at most 32 launches one by one before a walk reads ahead.
    assert len(report.source.fetched) < 100  # type: ignore[attr-defined]
