"""NVIDIA's counters of tensor operations, calibrated by products of known size measured on an H200."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.formats import open_report

SAMPLE = Path(__file__).parents[2] / "sample_reports" / "tensor_counts.ncu-rep"
OPERATIONS = 2 * 4096**3

# Dense operations a cycle and SM by NVIDIA's Hopper white paper, and what one warp instruction of the kernel does.
KINDS = {
    "bf16": (4096, "HGMMA"), "fp16": (4096, "HGMMA"), "tf32": (2048, "HGMMA"), "fp8": (8192, "QGMMA"),
    "int8": (8192, "IMMA"), "fp64": (256, "DMMA"),
}  # fmt: skip


@pytest.fixture(scope="module")
def products() -> Iterator[Mapping[str, Diagnosis]]:
    report = open_report(SAMPLE)
    yield {seen.kernel.nvtx[0]: seen for seen in diagnose_all(report)}
    report.close()


@pytest.mark.parametrize("kind", KINDS)
def test_multiply_and_add_count_as_two(products: Mapping[str, Diagnosis], kind: str) -> None:
    assert products[kind].kernel.number(f"tensor_ops_{kind}") == OPERATIONS


@pytest.mark.parametrize("kind", KINDS)
def test_the_achieved_rate_is_held_against_the_dense_peak(products: Mapping[str, Diagnosis], kind: str) -> None:
    roofline, kernel = products[kind].roofline, products[kind].kernel
    assert kernel.duration_ns
    assert roofline.precision == f"tensor-{kind}"
    assert roofline.achieved_flop_per_s == pytest.approx(OPERATIONS / kernel.duration_ns * 1e9, rel=1e-9)
    clock = kernel.number("sm_clock")
    assert clock
    assert roofline.peak_flop_per_s == pytest.approx(KINDS[kind][0] * 132 * clock, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_precision_comes_from_the_instructions(products: Mapping[str, Diagnosis], kind: str) -> None:
    seen = products[kind]
    opcodes = seen.kernel.metric("sass__inst_executed_per_opcode")
    assert opcodes is not None
    assert KINDS[kind][1] in (opcodes.instances or {})
    assert seen.identity.op_class == "gemm"
    assert seen.identity.precision == kind
