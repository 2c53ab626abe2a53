"""The diagnosis of real reports, against what is known of their kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.errors import GputuiError
from gputui.formats import open_report
from gputui.model.metrics import dictionary

REPORTS = 37

TRANSPOSES = "Lashi0812__CudaProgramming__smemTranspose.ncu-rep"


@pytest.fixture(scope="module")
def everything(reports: Path) -> Mapping[str, list[Diagnosis]]:
    """Every kernel of every report, by file name."""
    files = sorted(p for p in (reports / "ncu").iterdir() if p.suffix in (".ncu-rep", ".nsight-cuprof-report"))
    found = {}
    for path in files:
        report = open_report(path)
        try:
            found[path.name] = diagnose_all(report)
        finally:
            report.close()
    return found


def kernel(everything: Mapping[str, list[Diagnosis]], file: str, name: str) -> Diagnosis:
    return next(seen for seen in everything[file] if seen.kernel.name == name)


def ids(seen: Diagnosis) -> list[str]:
    return [found.id for found in seen.findings]


def bound(seen: Diagnosis, id: str) -> float:
    found = next(found for found in seen.findings if found.id == id)
    assert found.max_speedup is not None
    return found.max_speedup


# --------------
# Five transposes
# --------------


def test_the_naive_transpose_is_led_by_its_stores(everything: Mapping[str, list[Diagnosis]]) -> None:
    naive, tiled = kernel(everything, TRANSPOSES, "naiveGmem"), kernel(everything, TRANSPOSES, "transposeSmemPad")
    assert (naive.verdict.id, naive.verdict.level) == ("memory-bound", "l2")
    assert ids(naive)[0] == "uncoalesced-store"
    assert naive.kernel.duration_ns
    assert tiled.kernel.duration_ns
    gained = naive.kernel.duration_ns / tiled.kernel.duration_ns
    assert gained == pytest.approx(3.6, abs=0.05)
    assert bound(naive, "uncoalesced-store") >= gained
    assert naive.explained["l2-bandwidth"] == "uncoalesced-store"


def test_the_copy_is_at_the_dram_roof(everything: Mapping[str, list[Diagnosis]]) -> None:
    copy = kernel(everything, TRANSPOSES, "copyGmem")
    assert (copy.verdict.id, copy.verdict.level, copy.verdict.at_roof) == ("memory-bound", "dram", True)
    assert ids(copy) == ["dram-bandwidth"]


def test_bank_conflicts_behind_a_full_dram_gain_nothing(everything: Mapping[str, list[Diagnosis]]) -> None:
    # Padding them away made it 0.8 % faster.
    smem = kernel(everything, TRANSPOSES, "transposeSmem")
    assert (smem.verdict.id, smem.verdict.level) == ("memory-bound", "dram")
    assert bound(smem, "bank-conflicts") < 1.05
    assert ids(smem)[0] != "bank-conflicts"
    assert smem.verdict.at_roof
    assert smem.main == ()
    assert [one.id for one in smem.further] == ["bank-conflicts"]


def test_padding_cures_bank_conflicts(everything: Mapping[str, list[Diagnosis]]) -> None:
    for name in ("transposeSmemPad", "transposeSmemUnrollPad"):
        assert "bank-conflicts" not in ids(kernel(everything, TRANSPOSES, name))


# --------------
# Single kernels
# --------------


@pytest.mark.parametrize("file", ["uncoalesced_chart", "coalesced_chart"])
def test_a_report_without_the_sms_side_is_unknown(everything: Mapping[str, list[Diagnosis]], file: str) -> None:
    (seen,) = everything[f"Alaric617R__COALDA__{file}.ncu-rep"]
    assert seen.verdict.id == "unknown"
    told = {rule.id: rule for rule in seen.not_checked}
    assert {"uncoalesced-load", "stall-long-scoreboard", "thread-divergence"} <= set(told)
    # 73,536 sectors written in 6,144 stores: pixels of three floats, of which each thread writes one.
    found = {one.id: one for one in seen.findings}
    assert ("uncoalesced-store" in told) is (file == "coalesced_chart")
    assert list(found) == (["uncoalesced-store"] if file == "uncoalesced_chart" else [])
    if found:
        store = found["uncoalesced-store"]
        assert (store.variant, store.confidence, store.max_speedup) == ("l2", 0.35, None)
        assert store.params["sectors"] == pytest.approx(11.97, abs=0.01)
    assert all(rule.sections for rule in told.values())
    assert told["thread-divergence"].sections == ("WarpStateStats", "SpeedOfLight")
    assert "missing-metrics" in {found.id for found in seen.validity}


def test_double_precision_on_a_gaming_card_leads(everything: Mapping[str, list[Diagnosis]]) -> None:
    seen = kernel(everything, "yzwang2000__cudaCode__profile.ncu-rep", "kernel_A")
    assert ids(seen)[0] == "fp64-on-slow-part"
    assert seen.verdict.id == "compute-bound"
    assert not seen.verdict.at_roof


@pytest.mark.parametrize(
    ("file", "name", "verdict", "level"),
    [
        # A DRAM-bound copy that computes on the way.
        ("AlpriElse__cs599k__2025-04-21-77_06-MT.ncu-rep", "silu_kernel", "memory-bound", "dram"),
        ("AveryClapp__ESMM-Research__be34af6_profile.ncu-rep", "basic", "memory-bound", "l1"),
        # SM and memory read the same, because the load/store unit sets both.
        ("AveryClapp__ESMM-Research__be34af6_profile.ncu-rep", "gmem_coalesce", "memory-bound", "l1"),
        ("AveryClapp__ESMM-Research__be34af6_profile.ncu-rep", "smem_blocking", "memory-bound", "l1"),
        ("AveryClapp__ESMM-Research__be34af6_profile.ncu-rep", "one_blocktiling", "memory-bound", "l1"),
        # 64 blocks on 80 SMs.
        ("AveryClapp__ESMM-Research__be34af6_profile.ncu-rep", "two_blocktiling", "launch-bound", None),
        ("AveryClapp__ESMM-Research__profile_output.ncu-rep", "warptiling", "launch-bound", None),
        ("CodeGandee__accelsim-test__b28316d_profile.ncu-rep", "Kernel2", "launch-bound", None),
        ("NVIDIA__nsight-training__CuVectorAddDrv.ncu-rep", "VecAdd_kernel", "launch-bound", None),
        ("NVIDIA__nsight-training__manual_nvtx.ncu-rep", "init_data_kernel", "memory-bound", "dram"),
        ("piragi__fuzigrad__output.ncu-rep", "matmul_2d_tiling", "memory-bound", "l1"),
        ("amitadate__GPU_Power_Model__PS1_10_profile.ncu-rep", "ParallelStrategyOne", "latency-bound", "dram"),
        ("AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4", "latency-bound", None),
        ("armleth__cuda-mlp-inference__report.ncu-rep", "matrix_addition2D", "memory-bound", "dram"),
    ],
)
def test_verdicts_that_were_checked_by_hand(
    everything: Mapping[str, list[Diagnosis]], file: str, name: str, verdict: str, level: str | None
) -> None:
    seen = kernel(everything, file, name)
    assert (seen.verdict.id, seen.verdict.level) == (verdict, level)


@pytest.mark.parametrize(
    ("file", "name", "leading"),
    [
        ("AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4", "tail-wave"),
        ("amitadate__GPU_Power_Model__PS1_10_profile.ncu-rep", "ParallelStrategyOne", "partial-warp"),
        ("bwd29__self-join-MiSTIC__profileMSDKT23.out.ncu-rep", "nodeByPoint5", "thread-divergence"),
        ("AshunFeiyu__Cuda_Gemm_Practice__gemm_v9.ncu-rep", "gemm", "register-spill"),
        ("AshunFeiyu__Cuda_Gemm_Practice__gemm_v9.ncu-rep", "ampere_sgemm_128x64_nn", "tensor-cores-unused"),
    ],
)
def test_what_leads(everything: Mapping[str, list[Diagnosis]], file: str, name: str, leading: str) -> None:
    assert ids(kernel(everything, file, name))[0] == leading


def test_double_precision_behind_a_full_dram_is_no_finding(everything: Mapping[str, list[Diagnosis]]) -> None:
    for name in ("init_data_kernel", "daxpy_kernel", "check_results_kernel"):
        seen = kernel(everything, "NVIDIA__nsight-training__manual_nvtx.ncu-rep", name)
        assert ids(seen) == ["dram-bandwidth"]


def test_a_tiled_product_is_not_told_to_raise_its_occupancy(everything: Mapping[str, list[Diagnosis]]) -> None:
    products = everything["piragi__fuzigrad__output.ncu-rep"]
    assert len(products) == 100
    assert not any(found.family == "occupancy" for seen in products for found in seen.findings)


# ----------
# All of them
# ----------


def test_every_report_is_diagnosed(everything: Mapping[str, list[Diagnosis]]) -> None:
    assert len(everything) == REPORTS
    assert all(everything.values())


def test_bounds_and_confidence(everything: Mapping[str, list[Diagnosis]]) -> None:
    for file, diagnoses in everything.items():
        for seen in diagnoses:
            for found in (*seen.findings, *seen.validity):
                told = (file, seen.kernel.name, found)
                assert found.max_speedup is None or (math.isfinite(found.max_speedup) and found.max_speedup >= 1), told
                assert 0 < found.confidence <= 1, told


def test_evidence_is_in_the_report(everything: Mapping[str, list[Diagnosis]]) -> None:
    known = {name for concept in dictionary().values() for name in concept.names}
    for file, diagnoses in everything.items():
        for seen in diagnoses:
            for found in (*seen.findings, *seen.validity):
                for item in found.evidence:
                    # One name, or a formula over some.
                    names = [word for word in re.split(r"[ ()]+", item.metric) if re.match(r"[a-z]", word)]
                    told = (file, seen.kernel.name, found.id, item.metric)
                    assert names, told
                    assert set(names) <= known, told
                    assert all(seen.kernel.metric(name) is not None for name in names), told
                    assert math.isfinite(item.value), told


def test_the_roof_silences_occupancy_and_stalls(everything: Mapping[str, list[Diagnosis]]) -> None:
    at_roof = [seen for diagnoses in everything.values() for seen in diagnoses if seen.verdict.at_roof]
    assert len(at_roof) >= 8
    for seen in at_roof:
        assert not {found.family for found in seen.findings} & {"occupancy", "stalls"}
        assert seen.identity.op_class not in ("gemm", "conv", "attention") or seen.verdict.id != "memory-bound"


def test_a_minor_cause_explains_no_larger_effect(everything: Mapping[str, list[Diagnosis]]) -> None:
    for file, diagnoses in everything.items():
        for seen in diagnoses:
            found = {finding.id: finding for finding in seen.findings}
            for effect, cause in seen.explained.items():
                gain = found[cause].max_speedup
                # Without a bound a cause may be large.
                told = (file, seen.kernel.name, cause, effect)
                assert gain is None or gain >= 1.05 or found[effect].severity == "info", told


def test_csvs_are_diagnosed_too(reports: Path) -> None:
    diagnosed = 0
    for path in sorted((reports / "csv").iterdir()):
        try:
            report = open_report(path)
        except GputuiError:
            continue
        for seen in diagnose_all(report):
            diagnosed += 1
            assert all(found.max_speedup is None or found.max_speedup >= 1 for found in seen.findings)
        report.close()
    assert diagnosed >= 1
