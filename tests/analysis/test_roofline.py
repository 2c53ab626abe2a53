"""The roofline: peaks, points and the roof that a kernel is judged on, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from built import A100, make_kernel
from gputui.analysis.engine import prepare
from gputui.analysis.facts import Facts
from gputui.analysis.roofline import Roofline, roofline_of
from gputui.analysis.specs import specs_of
from gputui.formats import open_report
from gputui.model.device import Device
from gputui.model.kernel import Kernel

CLOCK = 1.2e9

FP32: Mapping[str, Any] = {
    "duration": 1e6, "smsp_clock": CLOCK, "sm_clock": CLOCK,
    "fadd_per_cycle": 100.0, "fmul_per_cycle": 200.0, "ffma_per_cycle": 1000.0,
    "ffma_peak_per_cycle": 64 * 108.0,
    "dram_bytes_per_s": 5e11, "dram_peak_bytes_per_cycle": 1280.0, "dram_clock": 1.2e9,
}  # fmt: skip
"""An A100 at 1.2 GHz, with 64 multiply-adds a cycle on each of its 108 SMs, which reads 500 GB/s."""

ACHIEVED = (100 + 200 + 2 * 1000) * CLOCK
PEAK = 2 * 64 * 108 * CLOCK
DRAM = 1280 * 1.2e9


def roofline(values: Mapping[str, Any], name: str = "kernel", device: Device = A100) -> Roofline:
    return roofline_of(Facts(make_kernel(values, name, device=device)))


def peaks(found: Roofline) -> dict[str, tuple[float, str]]:
    return {roof.id: (roof.peak, roof.source) for roof in found.roofs}


def test_peaks_come_from_the_report() -> None:
    found = roofline(FP32)
    assert found.precision == "fp32"
    assert found.achieved_flop_per_s == pytest.approx(ACHIEVED)
    assert (found.peak_flop_per_s, found.peak_source) == (pytest.approx(PEAK), "report")
    assert found.dram_peak_bytes_per_s == pytest.approx(DRAM)
    assert peaks(found)["dram"] == (pytest.approx(DRAM), "report")


def test_the_point() -> None:
    found = roofline(FP32)
    assert found.arithmetic_intensity == pytest.approx(ACHIEVED / 5e11)
    assert found.ridge == pytest.approx(PEAK / DRAM)
    # Left of the ridge, so the roof above it is DRAM's: the share of the roof is the share of DRAM's bytes.
    assert ACHIEVED / 5e11 < PEAK / DRAM
    assert found.roof_fraction == pytest.approx(5e11 / DRAM)
    assert found.point is not None
    assert (found.point.level, found.point.flop_per_s) == ("dram", pytest.approx(ACHIEVED))


def test_right_of_the_ridge_the_roof_is_arithmetic() -> None:
    found = roofline({**FP32, "dram_bytes_per_s": 1e9})
    assert found.roof_fraction == pytest.approx(ACHIEVED / PEAK)


def test_without_peaks_of_its_own_the_data_sheet_counts_at_the_measured_clock() -> None:
    bare = {key: value for key, value in FP32.items() if "peak" not in key and key != "dram_clock"}
    found = roofline(bare)
    # 19.5 TFLOP/s at 1410 MHz.
    assert (found.peak_flop_per_s, found.peak_source) == (pytest.approx(19.5e12 * CLOCK / 1.41e9), "specs")
    # The memory's clock is not locked: 1555 GB/s as it is.
    assert peaks(found)["dram"] == (1555e9, "specs")
    assert peaks(found)["fp64"] == (pytest.approx(9.7e12 * CLOCK / 1.41e9), "specs")


def test_without_a_clock_the_data_sheet_counts_as_it_is() -> None:
    found = roofline({"duration": 1e6, "ffma_count": 1e9, "fadd_count": 0.0, "fmul_count": 0.0})
    assert (found.peak_flop_per_s, found.peak_source) == (19.5e12, "specs")


def test_a_gpu_without_a_data_sheet_has_the_reports_roofs_alone() -> None:
    assert peaks(roofline({"duration": 1e6, "smsp_clock": CLOCK}, device=Device("Test GPU"))) == {}
    assert set(peaks(roofline(FP32, device=Device("Test GPU")))) == {"fp32", "dram"}


@pytest.mark.parametrize(
    ("name", "display", "boost_mhz"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100 40GB SXM4", 1410),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB SXM4", 1410),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB", 1980),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB", 1755),
        ("NVIDIA H200", "H200 SXM 141GB", 1980),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090", 2520),
        ("Tesla T4", "Tesla T4", 1590),
    ],
)
def test_data_sheets(name: str, display: str, boost_mhz: int) -> None:
    specs = specs_of(name)
    assert specs is not None
    assert (specs.name, specs.boost_hz) == (display, boost_mhz * 1e6)


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 3080 Ti", "unknown GPU"])
def test_no_data_sheet_is_better_than_another_gpus(name: str) -> None:
    assert specs_of(name) is None


# ------
# Tensor
# ------

TENSOR: Mapping[str, Any] = {
    **FP32, "tensor_pct": 80.0, "tensor_ops_bf16": 2e11, "tensor_ops_bf16_peak_per_cycle": 2048 * 108.0,
}  # fmt: skip


def test_a_tensor_kernel_stands_under_its_tensor_roof() -> None:
    found = roofline(TENSOR)
    assert found.precision == "tensor-bf16"
    assert found.peak_flop_per_s == pytest.approx(2048 * 108 * CLOCK)
    # 2e11 operations in 1 ms, and its scalar arithmetic beside them.
    assert found.achieved_flop_per_s == pytest.approx(2e11 / 1e-3 + ACHIEVED)
    assert found.ridge == pytest.approx(2048 * 108 * CLOCK / DRAM)


def test_the_tensor_roof_may_come_from_the_data_sheet() -> None:
    found = roofline({key: value for key, value in TENSOR.items() if key != "tensor_ops_bf16_peak_per_cycle"})
    assert (found.precision, found.peak_source) == ("tensor-bf16", "specs")
    assert found.peak_flop_per_s == pytest.approx(312e12 * CLOCK / 1.41e9)


def test_a_tensor_kernel_is_never_judged_on_a_scalar_roof() -> None:
    # A handful of tensor operations beside a full multiply-add pipe.
    assert roofline({**TENSOR, "tensor_ops_bf16": 1.0}).precision == "tensor-bf16"


def test_of_two_tensor_precisions_the_busier_one_counts() -> None:
    both = {**TENSOR, "tensor_ops_int8": 2.5e11, "tensor_ops_int8_peak_per_cycle": 4096 * 108.0}
    # Twice the peak for 1.25 times the operations.
    assert roofline(both).precision == "tensor-bf16"


def test_uncounted_tensor_operations_are_no_arithmetic_of_the_scalar_pipes() -> None:
    # A report without the tensor roofline: what its CUDA cores did beside the tensor cores is not its speed.
    uncounted = {key: value for key, value in TENSOR.items() if not key.startswith("tensor_ops")}
    found = roofline(uncounted, "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn")
    assert found.precision == "tensor-bf16"
    assert found.achieved_flop_per_s is None
    assert found.point is None


def test_the_constants_trap_stays_under_the_scalar_roof() -> None:
    trap = {**FP32, "tensor_pct": 3.0, "tensor_ops_bf16": 0.0}
    assert roofline(trap).precision == "fp32"
    assert "tensor-bf16" not in peaks(roofline(trap))


# --------
# No point
# --------


@pytest.mark.parametrize(
    "values",
    [
        {"duration": 1e6, "dram_bytes_per_s": 5e11},
        {**FP32, "fadd_per_cycle": 0.0, "fmul_per_cycle": 0.0, "ffma_per_cycle": 0.0},
        {key: value for key, value in FP32.items() if key != "dram_bytes_per_s"},
        {**FP32, "dram_bytes_per_s": 0.0},
        {},
    ],
)
def test_without_arithmetic_or_bytes_there_is_no_point(values: Mapping[str, Any]) -> None:
    found = roofline(values)
    assert (found.point, found.points) == (None, ())
    assert (found.arithmetic_intensity, found.roof_fraction) == (None, None)


def test_a_copy_still_has_its_dram_roof() -> None:
    found = roofline({key: value for key, value in FP32.items() if key[0] != "f"})
    assert (found.dram_bytes_per_s, found.dram_peak_bytes_per_s) == (5e11, pytest.approx(DRAM))
    assert found.precision is None


def test_double_precision_has_a_roof_of_its_own() -> None:
    double = {**FP32, "dadd_per_cycle": 0.0, "dmul_per_cycle": 0.0, "dfma_per_cycle": 900.0,
              "dfma_peak_per_cycle": 32 * 108.0}  # fmt: skip
    found = roofline(double)
    # 900 of 3456 keep their unit busier than 1150 of 6912.
    assert found.precision == "fp64"
    assert found.peak_flop_per_s == pytest.approx(2 * 32 * 108 * CLOCK)


def test_points_of_the_caches() -> None:
    caches = {"l2_bytes_per_s": 1e12, "l2_peak_bytes_per_cycle": 5120.0, "l2_clock": 1e9, "l1_bytes_per_s": 2e12}
    found = roofline({**FP32, **caches})
    assert [(point.level, point.intensity) for point in found.points] == [
        ("dram", pytest.approx(ACHIEVED / 5e11)),
        ("l2", pytest.approx(ACHIEVED / 1e12)),
        ("l1", pytest.approx(ACHIEVED / 2e12)),
    ]
    assert found.points[1].roof_fraction == pytest.approx(1e12 / (5120 * 1e9))
    assert found.points[2].roof_fraction is None


# ------------
# Real reports
# ------------

REAL = {
    "AlpriElse__cs599k__2025-04-21-77_06-MT.ncu-rep": (108, 64, 19.5e12, 1.41e9),  # A100: 64 lanes on 108 SMs.
    "AlpriElse__cs599k__2025-04-21-v1.ncu-rep": (114, 128, 51.2e12, 1.755e9),  # H100 PCIe: 128 lanes on 114 SMs.
}


@pytest.fixture(scope="module")
def first_kernels(reports: Path) -> Iterator[Mapping[str, Kernel]]:
    """The first kernel of each, by file."""
    opened = {file: open_report(reports / "ncu" / file) for file in REAL}
    for report in opened.values():
        prepare(report)
    yield {file: report.kernels[0] for file, report in opened.items()}
    for report in opened.values():
        report.close()


def raw(kernel: Kernel, name: str) -> float:
    metric = kernel.metric(name)
    assert metric is not None
    assert metric.number is not None
    return metric.number


@pytest.mark.parametrize("file", REAL)
def test_fp32_peak_of_a_real_report(first_kernels: Mapping[str, Kernel], file: str) -> None:
    sms, lanes, data_sheet, boost = REAL[file]
    kernel = first_kernels[file]
    found = roofline_of(Facts(kernel))
    width = raw(kernel, "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained")
    clock = raw(kernel, "smsp__cycles_elapsed.avg.per_second")
    assert width == sms * lanes
    assert peaks(found)["fp32"] == (pytest.approx(2 * width * clock), "report")
    # The data sheet at that clock says the same.
    assert 2 * width * clock == pytest.approx(data_sheet * clock / boost, rel=0.01)


@pytest.mark.parametrize("file", REAL)
def test_fp32_rate_of_a_real_report(first_kernels: Mapping[str, Kernel], file: str) -> None:
    # Kernels in float: their HFMA2.MMA move constants and are no arithmetic.
    kernel = first_kernels[file]
    found = roofline_of(Facts(kernel))
    per_cycle = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    adds, multiplies, both = (raw(kernel, per_cycle.format(op)) for op in ("fadd", "fmul", "ffma"))
    clock = raw(kernel, "smsp__cycles_elapsed.avg.per_second")
    assert found.precision == "fp32"
    assert found.achieved_flop_per_s == pytest.approx((adds + multiplies + 2 * both) * clock)
