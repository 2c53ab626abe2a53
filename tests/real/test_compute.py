"""The compute family on real kernels: what an expert says of them, and silence where there is nothing to say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.analysis.finding import Finding
from gputui.formats import open_report

SAMPLES = Path(__file__).parents[2] / "sample_reports"

SPECIAL = {
    "tf32-off", "fp16-without-tensor", "pipe-saturated", "unfused-math", "predication", "low-ilp",
    "hopper-features-unused", "blackwell-features-unused", "fp8-opportunity", "async-copy-unused",
}  # fmt: skip


def read(path: Path) -> list[Diagnosis]:
    report = open_report(path)
    try:
        return diagnose_all(report)
    finally:
        report.close()


@pytest.fixture(scope="module")
def tour() -> Mapping[str, Diagnosis]:
    return {seen.kernel.name: seen for seen in read(SAMPLES / "tour.ncu-rep")}


@pytest.fixture(scope="module")
def attention() -> list[Diagnosis]:
    return [seen for way in ("eager", "sdpa", "compile") for seen in read(SAMPLES / f"attention_{way}.ncu-rep")]


def found(seen: Diagnosis, id: str) -> Finding | None:
    return next((one for one in seen.findings if one.id == id), None)


def test_a_product_with_mma_sync_behind_a_full_l2(tour: Mapping[str, Diagnosis]) -> None:
    product = tour["gemm_bf16_large"]
    told = product.main[0]
    assert (told.id, told.variant) == ("hopper-features-unused", "l2")
    assert product.explained["l2-bandwidth"] == "hopper-features-unused"
    # Its asynchronous copies fill whole sectors, whatever the lines of 128 bytes are charged for.
    assert "uncoalesced-load" not in {one.id for one in product.findings}
    # The pipe says 56 %, the counted operations 35 % of the wgmma peak: two thirds of the elapsed share.
    assert told.params["tensor_pct"] == pytest.approx(55.7, abs=0.1)
    assert told.params["rate_pct"] == pytest.approx(34.7, abs=0.1)
    assert product.roofline.roof_fraction == pytest.approx(told.params["rate_pct"] / 100, abs=0.005)
    assert told.params["l2_pct"] == pytest.approx(83, abs=1)


def test_the_fp32_product_is_told_of_tf32_alone(tour: Mapping[str, Diagnosis]) -> None:
    product = tour["gemm_fp32_tiled"]
    assert [one.id for one in product.main] == ["tf32-off"]
    assert product.explained["tensor-cores-unused"] == "tf32-off"
    told = product.main[0].max_speedup
    assert told is not None
    # 46 TFLOP/s in FP32 against the report's own TF32 peak.
    assert told == pytest.approx(11.55, abs=0.05)


def test_the_other_kernels_of_the_tour_are_told_nothing_of_the_kind(tour: Mapping[str, Diagnosis]) -> None:
    for name, seen in tour.items():
        if not name.startswith("gemm"):
            assert not {one.id for one in seen.findings} & SPECIAL, name


def test_flash_attention_2_on_hopper_uses_the_older_instructions(attention: list[Diagnosis]) -> None:
    flash = [seen for seen in attention if seen.kernel.name.startswith("flash_fwd")]
    assert len(flash) == 2
    assert all(seen.main[0].id == "hopper-features-unused" for seen in flash)
    assert {seen.main[0].variant for seen in flash} == {"attention"}


def test_the_librarys_products_are_told_of_fp8_as_an_option(attention: list[Diagnosis]) -> None:
    roof = [seen for seen in attention if seen.verdict.id == "tensor-bound"]
    assert len(roof) == 12
    for seen in roof:
        assert [one.id for one in seen.further] == ["fp8-opportunity"]
        assert seen.main == ()
        assert all(one.severity == "info" for one in seen.findings)
        assert found(seen, "hopper-features-unused") is None


def test_fused_and_elementwise_kernels_are_left_alone(attention: list[Diagnosis]) -> None:
    # Their adds and multiplies are what the compilers could not fuse.
    for seen in attention:
        if seen.identity.op_class not in ("gemm", "attention"):
            assert not {one.id for one in seen.findings} & SPECIAL, seen.kernel.name


def test_an_int8_product_on_a_b200_without_tcgen05(reports: Path) -> None:
    seen = read(reports / "ncu" / "CodeGandee__accelsim-test__b28316d_profile.ncu-rep")
    assert all(found(one, "blackwell-features-unused") for one in seen if one.kernel.name == "Kernel2")
    assert [one.id for one in seen[0].main] == ["small-grid", "blackwell-features-unused"]


def test_unpacking_four_bit_numbers_fills_the_alu(reports: Path) -> None:
    seen = read(reports / "ncu" / "eschnett__IndexSpaces.jl__3176628_profile.ncu-rep")
    beam = next(one for one in seen if one.kernel.name == "julia_bb_4477")
    told = beam.main[0]
    assert (told.id, told.variant) == ("pipe-saturated", "alu")
    # The tensor pipe's 53.8 % of the time stays.
    assert told.max_speedup == pytest.approx(1 / 0.538, abs=0.01)
    assert found(beam, "compute-roof") is None


@pytest.mark.parametrize(
    ("file", "kernel"),
    [
        ("AshunFeiyu__Cuda_Gemm_Practice__gemm_v9.ncu-rep", "ampere_sgemm_128x64_nn"),
        ("piragi__fuzigrad__output.ncu-rep", "matmul_2d_tiling"),
    ],
)
def test_tf32_is_no_advice_on_a_gaming_card(reports: Path, file: str, kernel: str) -> None:
    seen = next(one for one in read(reports / "ncu" / file) if one.kernel.name == kernel)
    assert found(seen, "tf32-off") is None
    unused = found(seen, "tensor-cores-unused")
    assert unused is not None
    assert unused.variant == "tf32-same"


def test_slow_double_precision_is_no_full_alu(reports: Path) -> None:
    seen = read(reports / "ncu" / "yzwang2000__cudaCode__profile.ncu-rep")
    assert all(found(one, "pipe-saturated") is None for one in seen)
