"""The package's own sample reports: what was planted in each kernel is found, and what was cured is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.formats import open_report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[2] / "sample_reports"
LABELS: list[dict[str, Any]] = tomllib.loads((FOLDER / "labels.toml").read_text(encoding="utf-8"))["kernel"]
SAMPLES = sorted(FOLDER.glob("*.ncu-rep"))

PAIRS = {
    label["pair"]: (label, next(cure for cure in LABELS if cure.get("pair") == label["pair"] and "cured" in cure))
    for label in LABELS
    if "planted" in label
}
"""The planted kernel and the cured one, by the pair's name."""


def diagnoses_of(path: Path) -> list[Diagnosis]:
    report = open_report(path)
    try:
        return diagnose_all(report)
    finally:
        report.close()


@pytest.fixture(scope="module")
def tour() -> Iterator[Mapping[str, Diagnosis]]:
    """The demo that the package ships, by kernel name."""
    with resources.as_file(resources.files("gputui.data").joinpath("demo", "tour.ncu-rep")) as path:
        yield {seen.kernel.name: seen for seen in diagnoses_of(path)}


def ids(seen: Diagnosis) -> list[str]:
    return [found.id for found in seen.findings]


def planted(tour: Mapping[str, Diagnosis], label: Mapping[str, Any]) -> tuple[bool, str]:
    found = ids(tour[label["name"]])
    return label["planted"] in found[:3], f"{label['name']}: {label['planted']} among {found}"


def test_every_kernel_has_its_label(tour: Mapping[str, Diagnosis]) -> None:
    assert set(tour) == {label["name"] for label in LABELS}
    assert len(PAIRS) == 14


@pytest.mark.parametrize("pair", PAIRS)
def test_what_was_planted_is_among_the_first_three(tour: Mapping[str, Diagnosis], pair: str) -> None:
    hit, told = planted(tour, PAIRS[pair][0])
    assert hit, told


@pytest.mark.parametrize("pair", PAIRS)
def test_what_was_cured_is_not_found(tour: Mapping[str, Diagnosis], pair: str) -> None:
    cure = PAIRS[pair][1]
    assert cure["cured"] not in ids(tour[cure["name"]])


def test_the_score(tour: Mapping[str, Diagnosis], capsys: pytest.CaptureFixture[str]) -> None:
    found = [planted(tour, bad)[0] for bad, _ in PAIRS.values()]
    first = [ids(tour[bad["name"]])[:1] == [bad["planted"]] for bad, _ in PAIRS.values()]
    clean = [good["cured"] not in ids(tour[good["name"]]) for _, good in PAIRS.values()]
    with capsys.disabled():
        sys.stdout.write(
            f"\nplanted among the first three: {sum(found)} of {len(found)}, leading: {sum(first)}; "
            f"cured and silent: {sum(clean)} of {len(clean)}\n"
        )
    assert sum(first) >= 0.8 * len(first)


def test_the_bounds_hold(tour: Mapping[str, Diagnosis], capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for pair, (bad, good) in PAIRS.items():
        slow, fast = tour[bad["name"]], tour[good["name"]]
        assert slow.kernel.duration_ns
        assert fast.kernel.duration_ns
        gain = slow.kernel.duration_ns / fast.kernel.duration_ns
        bound = next((found.max_speedup for found in slow.findings if found.id == bad["planted"]), None)
        rows.append((pair, gain, bound, bound is not None and gain <= 1.1 * bound))
    with capsys.disabled():
        sys.stdout.write(f"\n{'pair':36} {'gained':>7} {'bound':>7}\n")
        for pair, gain, bound, holds in rows:
            told = "-" if bound is None else f"{bound:.2f}"
            sys.stdout.write(f"{pair:36} {gain:7.2f} {told:>7}{'' if holds else '  too low'}\n")
    assert sum(holds for *_, holds in rows) >= 0.9 * len(rows)


def test_the_copy_is_done(tour: Mapping[str, Diagnosis]) -> None:
    copy = tour["copy_plain"]
    assert (copy.verdict.id, copy.verdict.level, copy.verdict.at_roof) == ("memory-bound", "dram", True)
    assert ids(copy) == ["dram-bandwidth"]
    assert copy.identity.op_class == "copy"


def test_the_tensor_product_is_held_by_the_tensor_cores_or_by_a_fuller_unit(tour: Mapping[str, Diagnosis]) -> None:
    product = tour["gemm_bf16_large"]
    tensor, memory = product.gauges.tensor_pct, product.verdict.params["memory_pct"]
    assert tensor is not None
    assert tensor >= 40
    if product.verdict.id != "tensor-bound":
        assert (product.verdict.id, product.verdict.level) == ("memory-bound", "l2")
        assert memory > tensor
    assert "tensor-cores-unused" not in ids(product)
    assert product.roofline.precision == "tensor-bf16"


def test_the_tensor_product_counts_its_operations(tour: Mapping[str, Diagnosis]) -> None:
    product = tour["gemm_bf16_large"]
    counted = product.kernel.number("tensor_ops_bf16")
    assert counted == 2 * 4096**3
    assert product.kernel.duration_ns
    assert product.roofline.achieved_flop_per_s == pytest.approx(
        counted / product.kernel.duration_ns * 1e9 + (product.kernel.number("fp32_flop_per_s") or 0.0), rel=1e-6
    )


def test_a_kernel_without_tensor_operations_uses_none(tour: Mapping[str, Diagnosis]) -> None:
    for name, seen in tour.items():
        assert (seen.gauges.tensor_pct == 0.0) is ("bf16" not in name), name


def test_one_problem_a_kernel_leads_to_one_verdict_a_pair(tour: Mapping[str, Diagnosis]) -> None:
    verdicts = {pair: tour[bad["name"]].verdict for pair, (bad, _) in PAIRS.items()}
    assert {pair: (verdict.id, verdict.level) for pair, verdict in verdicts.items()} == {
        "uncoalesced store": ("memory-bound", "l2"),
        "uncoalesced load": ("memory-bound", "dram"),
        "bank conflicts": ("memory-bound", "l1"),
        "register spill": ("memory-bound", "l2"),
        "thread divergence": ("compute-bound", None),
        "tensor cores unused": ("balanced", None),
        "small grid": ("launch-bound", None),
        "tail wave": ("latency-bound", None),
        "uneven SM load": ("latency-bound", None),
        "occupancy limited by registers": ("latency-bound", None),
        "occupancy limited by shared memory": ("latency-bound", None),
        "waiting for global memory": ("latency-bound", None),
        "waiting at a barrier": ("latency-bound", None),
        "partial warp": ("compute-bound", None),
    }


def test_a_full_report_leaves_nothing_unchecked(tour: Mapping[str, Diagnosis]) -> None:
    for name, seen in tour.items():
        assert seen.not_checked == (), name
        assert "missing-metrics" not in {found.id for found in seen.validity}, name


def test_a_clock_that_was_not_locked_is_not_said_to_be(tour: Mapping[str, Diagnosis]) -> None:
    # Collected with --clock-control none: advice to do so is no help.
    locked = [found for seen in tour.values() for found in seen.validity if found.id == "clock-locked"]
    assert all(found.variant for found in locked)


# ---------------
# All the samples
# ---------------


@pytest.mark.parametrize("path", SAMPLES, ids=[path.stem for path in SAMPLES])
def test_each_sample(path: Path) -> None:
    for seen in diagnoses_of(path):
        assert seen.verdict.id != "unknown"
        for found in (*seen.findings, *seen.validity):
            assert found.max_speedup is None or found.max_speedup >= 1
            assert 0 < found.confidence <= 1
            for item in found.evidence:
                assert " " in item.metric or seen.kernel.metric(item.metric) is not None, item
        if seen.verdict.at_roof:
            assert not {found.family for found in seen.findings} & {"occupancy", "stalls"}


def test_three_ways_to_attend() -> None:
    classes = {
        way: [seen.identity.op_class for seen in diagnoses_of(FOLDER / f"attention_{way}.ncu-rep")]
        for way in ("eager", "sdpa", "compile")
    }
    assert "softmax" in classes["eager"]
    assert "attention" not in classes["eager"]
    assert {"attention"} <= set(classes["sdpa"]) & set(classes["compile"])
    assert len(classes["eager"]) > len(classes["sdpa"]) > len(classes["compile"])


@pytest.mark.parametrize("way", ["eager", "sdpa", "compile"])
def test_the_librarys_products_reach_the_tensor_roof(way: str) -> None:
    products = [seen for seen in diagnoses_of(FOLDER / f"attention_{way}.ncu-rep") if seen.identity.op_class == "gemm"]
    assert products
    assert {seen.identity.library for seen in products} == {"cublas"}
    assert {seen.roofline.precision for seen in products} == {"tensor-bf16"}
    assert sum(seen.verdict.id == "tensor-bound" and seen.verdict.at_roof for seen in products) >= 3
    assert all("tensor-cores-unused" not in ids(seen) for seen in products)


def test_the_source_sample_agrees_with_the_tour(tour: Mapping[str, Diagnosis]) -> None:
    for seen in diagnoses_of(FOLDER / "tour_source.ncu-rep"):
        twin = tour[seen.kernel.name]
        assert (seen.verdict.id, seen.verdict.level) == (twin.verdict.id, twin.verdict.level)
        assert ids(seen)[0] == ids(twin)[0]


# ---------------
# What fusing does
# ---------------

STEPS = {
    "compile": ["norm", "qkv-linear", "attention-fused", "attention-output", "norm", "mlp", "mlp", "mlp", "residual"],
    "sdpa": [
        "norm", "qkv-linear", "attention-fused", "attention-output", "residual", "norm", "mlp", "mlp", "mlp",
        "residual",
    ],
    "eager": [
        "norm", "qkv-linear", "attention-scores", "attention-scores", "softmax", "attention-values",
        "attention-output", "attention-output", "residual", "norm", "mlp", "mlp", "mlp", "residual",
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", STEPS)
def test_each_step_of_the_block_is_known(way: str) -> None:
    # The compiled block has no ranges inside: its steps come from the neighbours.
    assert [seen.transformer_op for seen in diagnoses_of(FOLDER / f"attention_{way}.ncu-rep")] == STEPS[way]


def test_attention_written_out_is_found_where_it_is() -> None:
    seen = {way: diagnoses_of(FOLDER / f"attention_{way}.ncu-rep") for way in STEPS}
    told = {way: [one for one in seen[way] if "naive-attention" in ids(one)] for way in STEPS}
    assert (told["sdpa"], told["compile"]) == ([], [])
    # On each of its launches, with the same words.
    assert [one.identity.op_class for one in told["eager"]] == ["gemm", "elementwise", "softmax", "gemm"]
    found = told["eager"][0].main[0]
    assert (found.id, found.params["kernels"]) == ("naive-attention", 4)
    assert all(one.main[0] == found for one in told["eager"])
    fused = next(one.kernel.duration_ns for one in seen["sdpa"] if one.identity.op_class == "attention")
    assert fused
    gained = found.params["time"] / fused
    assert gained == pytest.approx(3.5, abs=0.1)
    assert found.max_speedup is not None
    assert gained <= found.max_speedup <= 2 * gained


def test_the_chain_that_the_compiler_fuses_is_found_before_it_does() -> None:
    eager, compiled = (diagnoses_of(FOLDER / f"attention_{way}.ncu-rep") for way in ("sdpa", "compile"))
    _, norm = (one for one in eager if "elementwise-chain" in ids(one))
    found = next(one for one in norm.findings if one.id == "elementwise-chain")
    fused = next(one.kernel.duration_ns for one in compiled if "add_native_layer_norm" in one.kernel.name)
    assert fused
    assert found.max_speedup is not None
    # Addition and layer norm in one kernel: 1.8 times faster.
    assert found.params["time"] / fused == pytest.approx(1.8, abs=0.1)
    assert found.params["time"] / fused <= found.max_speedup
    assert not [one for one in compiled if any(found.family == "fusion" for found in one.findings)]
