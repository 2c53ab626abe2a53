"""Two reports compared: sums against ``ncu --import --page raw --csv``, and what is said of real pairs."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import gputui
from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.model import Comparison, Group, Pairing, Side
from gputui.analysis.compare.sides import counters_side
from gputui.analysis.compare.why import why
from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.errors import GputuiError
from gputui.model.kernel import Kernel
from gputui.model.report import Report

SAMPLES = Path(__file__).parents[2] / "sample_reports"
BLOCK = ("attention_eager", "attention_sdpa", "attention_compile")
SMEM = "Lashi0812__CudaProgramming__smemTranspose"


@cache
def diagnosed(path: Path) -> list[tuple[Report, list[Diagnosis]]]:
    report = gputui.open_report(path)
    try:
        return [(report, diagnose_all(report))]
    finally:
        report.close()


def side(path: Path, keep: Callable[[Kernel], bool] | None = None) -> Side:
    return counters_side(diagnosed(path), keep)


def sample(name: str) -> Side:
    return side(SAMPLES / f"{name}.ncu-rep")


def named(path: Path, pattern: str) -> Side:
    return side(path, lambda kernel: re.search(pattern, kernel.name) is not None)


# ------------------------------------------------------------------ sums, by ncu itself

TIME, TENSOR = "gpu__time_duration.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
OPS = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"


@cache
def raw(name: str) -> list[dict[str, str]]:
    """The rows that ncu prints of a report, in base units."""
    ncu = shutil.which("ncu")
    if ncu is None:
        pytest.skip("no ncu here")
    command = [ncu, "--import", str(SAMPLES / f"{name}.ncu-rep"), "--page", "raw", "--csv", "--print-units", "base"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    units, *rows = csv.DictReader(io.StringIO(printed))
    assert (units[TIME], units["dram__bytes_read.sum"], units[TENSOR]) == ("nsecond", "byte", "%")
    return rows


def column(name: str, metric: str) -> list[float]:
    return [float(row[metric].replace(",", "")) for row in raw(name)]


def tensor_column(name: str) -> list[float]:
    """How busy the tensor cores are; nothing where no matrix instruction runs: constants move through the pipe too."""
    return [pct if ops > 0 else 0.0 for pct, ops in zip(column(name, TENSOR), column(name, OPS), strict=True)]


@pytest.mark.parametrize("name", BLOCK)
def test_the_three_answers_are_sums_of_what_ncu_prints(name: str) -> None:
    found = compare(sample("attention_eager"), sample(name))
    for amounts, report in ((found.before, "attention_eager"), (found.after, name)):
        times = column(report, TIME)
        assert amounts.kernels == len(times)
        assert amounts.time_ns == sum(times)
        moved = column(report, "dram__bytes_read.sum") + column(report, "dram__bytes_write.sum")
        assert amounts.dram_bytes == sum(moved)
        assert amounts.tensor_ops == sum(column(report, OPS))
        weighted = sum(pct * time for pct, time in zip(tensor_column(report), times, strict=True)) / sum(times)
        assert amounts.tensor_pct == pytest.approx(weighted, abs=0.005)  # ncu prints two decimals
    assert found.time.speedup == pytest.approx(sum(column("attention_eager", TIME)) / sum(column(name, TIME)), rel=1e-9)


# ------------------------------------------------------------------ the block of a transformer


def became(group: Group) -> tuple[list[str], list[str]]:
    return [m.kernel.name for m in group.base], [m.kernel.name for m in group.new]


def test_written_out_attention_becomes_one_flash_kernel() -> None:
    found = compare(sample("attention_eager"), sample("attention_sdpa"))
    assert (found.tensor.trend, found.dram.trend, found.fusion) == ("up", "down", "fused")
    assert (found.time.outcome, found.cautions[0].id) == ("faster", "single-controls")
    (fused,) = found.fused
    assert [name.split("_")[0] for name in became(fused)[0]] == ["nvjet", "vectorized", "cunn", "nvjet", "elementwise"]
    assert became(fused)[1] == ["flash_fwd_kernel"]
    assert [m.place for m in fused.base] == [2, 3, 4, 5, 6]
    assert {group.how for group in found.groups} == {"fused", "same"}
    assert {group.time.outcome for group in found.groups if group.how == "same" and group.time} == {"no-difference"}


def test_compiled_code_fuses_the_attention_and_a_sum_with_the_norm_behind_it() -> None:
    found = compare(sample("attention_eager"), sample("attention_compile"))
    assert (found.tensor.trend, found.dram.trend, found.fusion, found.time.outcome) == ("up", "down", "fused", "faster")
    assert [([m.place for m in group.base], group.new[0].kernel.name[:38]) for group in found.fused] == [
        ([2, 3, 4, 5, 6], "flash_fwd_kernel"),
        ([8, 9], "triton_red_fused_add_native_layer_norm"),
    ]
    # Every other kernel has one that does the same.
    assert all(len(group.base) == len(group.new) for group in found.groups if group.how != "fused")
    assert sum(len(group.base) for group in found.groups) == 14
    assert sum(len(group.new) for group in found.groups) == 9


def test_the_fp32_product_meets_its_tensor_core_successor() -> None:
    found = compare(sample("tf32_off"), sample("tf32_on"))
    (group,) = found.groups
    assert (group.how, group.same_work, found.base.passes, found.new.passes) == ("alike", True, 5, 5)
    assert (found.tensor.trend, found.time.outcome, found.time.noise) == ("up", "faster", "passes")
    # 2 · 4096³ operations, on the tensor cores where they are used at all.
    assert found.after.tensor_ops == 2 * 4096**3
    assert found.before.tensor_ops == 0
    assert found.before.flops == pytest.approx(found.after.flops, rel=0.01)
    # The tensor cores draw more power: the clock falls, and the speed-up at equal clocks is larger.
    assert found.time.at_equal_clocks is not None
    assert found.time.speedup == pytest.approx(7.78, abs=0.01)
    assert found.time.at_equal_clocks[1] == pytest.approx(7.78 * 1.974 / 1.668, rel=0.01)
    assert [finding.id for finding in why(group).cured] == ["tf32-off"]


# ------------------------------------------------------------------ reports from elsewhere


def test_coalesced_stores_make_a_transpose_faster(reports: Path) -> None:
    path = reports / "ncu" / f"{SMEM}.ncu-rep"
    base, new = named(path, "naiveGmem"), named(path, "transposeSmem$")
    by_hand = Pairing(frozenset(m.key for m in base.members), frozenset(m.key for m in new.members))
    found = compare(base, new, [by_hand])
    assert (found.time.outcome, round(found.time.speedup or 0, 1)) == ("faster", 3.6)
    # 523,712 ns at 2.235 GHz against 145,120 ns at 1.750 GHz.
    assert found.time.at_equal_clocks == pytest.approx(
        (523712 / 145120, 523712 * 2.235022 / (145120 * 1.750408)), rel=1e-4
    )
    reasons = why(found.groups[0])
    assert "uncoalesced-store" in [finding.id for finding in reasons.cured]
    assert ("store_sectors_per_request", 32, 4) in [(one.concept, one.before, one.after) for one in reasons.moved]


def test_padding_gains_nothing_where_dram_holds_the_kernel(reports: Path) -> None:
    path = reports / "ncu" / f"{SMEM}.ncu-rep"
    found = compare(named(path, "transposeSmem$"), named(path, "transposeSmemPad"))
    assert (found.time.outcome, found.cautions[0].id) == ("no-difference", "clocks")
    reasons = why(found.groups[0])
    assert (reasons.variant, [round(pct) for pct in reasons.held_pct or ()]) == ("full", [86, 90])
    assert ("shared_wavefronts_excess", 7864320, 0) in [(one.concept, one.before, one.after) for one in reasons.moved]


def test_eight_sums_a_thread_are_slower_since_they_are_not_coalesced(reports: Path) -> None:
    base = side(reports / "ncu" / "armleth__cuda-mlp-inference__report.ncu-rep")
    new = side(reports / "ncu" / "armleth__cuda-mlp-inference__report_v4_8_per_thread.ncu-rep")
    found = compare(base, new)
    # The grids differ, and both do a million additions.
    assert (found.groups[0].same_work, found.before.flops, found.after.flops) == (
        True,
        pytest.approx(1e6),
        pytest.approx(1e6),
    )
    assert (found.time.outcome, found.dram.trend, found.tensor.trend) == ("slower", "up", "same")
    assert {"uncoalesced-load", "uncoalesced-store"} <= {one.id for one in why(found.groups[0]).appeared}


def test_coalesced_pixels_are_faster_and_what_is_not_counted_is_not_told(reports: Path) -> None:
    base, new = (
        side(reports / "ncu" / f"Alaric617R__COALDA__{name}_chart.ncu-rep") for name in ("uncoalesced", "coalesced")
    )
    found = compare(base, new)
    assert (found.time.outcome, found.time.speedup) == ("faster", pytest.approx(17504 / 14112))
    assert (found.tensor.trend, found.tensor.because, found.dram.trend) == ("unknown", "not-counted", "same")


def test_another_gpu_leaves_time_and_bytes_open(reports: Path) -> None:
    base = side(reports / "ncu" / "AlpriElse__cs599k__2025-04-21-77_06-MT.ncu-rep")
    new = side(reports / "ncu" / "AlpriElse__cs599k__2025-04-21-v1.ncu-rep")
    by_hand = Pairing(frozenset(m.key for m in base.members), frozenset(m.key for m in new.members))
    for pairings in ([], [by_hand]):
        found = compare(base, new, pairings)
        assert found.cautions[0].id == "other-gpu"
        assert (found.time.outcome, found.dram.trend) == ("inconclusive", "unknown")
    # By name, an activation and a norm are no pair.
    assert [one.id for one in compare(base, new).cautions] == ["other-gpu", "nothing-paired"]


# ------------------------------------------------------------------ all of them

TURNED = {"up": "down", "down": "up", "faster": "slower", "slower": "faster", "fused": "split", "split": "fused",
          "fewer": "more", "more": "fewer", "gone": "added", "added": "gone"}  # fmt: skip


def turned(answer: str) -> str:
    return TURNED.get(answer, answer)


def answers(found: Comparison) -> list[str]:
    return [found.tensor.trend, found.dram.trend, found.kernels.trend, found.fusion, found.time.outcome]


def check_turned(base: Side, new: Side) -> None:
    there, back = compare(base, new), compare(new, base)
    assert answers(back) == [turned(answer) for answer in answers(there)]
    assert [one.id for one in back.cautions] == [one.id for one in there.cautions]
    if there.time.speedup is not None and back.time.speedup is not None:
        assert back.time.speedup == pytest.approx(1 / there.time.speedup)
        assert back.time.low == pytest.approx(1 / (there.time.high or 0))

    def told(found: Comparison, *, back: bool) -> set[tuple[tuple[str, ...], tuple[str, ...], str]]:
        both = [(*map(tuple, became(group)), group.how) for group in found.groups]
        return {(new, base, turned(how)) if back else (base, new, how) for base, new, how in both}

    assert told(back, back=True) == told(there, back=False)


@pytest.mark.parametrize(("base", "new"), [*pairwise(BLOCK), ("tf32_off", "tf32_on"), ("tour", "tour_source")])
def test_exchanging_the_sides_turns_every_answer(base: str, new: str) -> None:
    check_turned(sample(base), sample(new))


def test_exchanging_real_reports_turns_every_answer(reports: Path) -> None:
    found = [side(path) for path in sorted((reports / "ncu").glob("*-rep")) if path.stat().st_size < 400_000]
    sides = [one for one in found if one.members]
    assert len(sides) > 15
    for base, new in pairwise(sides):
        check_turned(base, new)


def test_a_report_against_itself_is_no_difference(reports: Path) -> None:
    paths = [
        *SAMPLES.glob("*.ncu-rep"),
        *(path for path in (reports / "ncu").glob("*-rep") if path.stat().st_size < 400_000),
    ]
    for path in paths:
        one = side(path)
        if not one.members:
            with pytest.raises(GputuiError, match="holds no kernels"):
                compare(one, one)
            continue
        found = compare(one, one)
        assert {group.how for group in found.groups} == {"same"}, path.name
        assert (found.kernels.trend, found.fusion) == ("same", "same")
        assert found.time.outcome == "no-difference" or found.time.before_ns is None, path.name
        assert {found.tensor.trend, found.dram.trend} <= {"same", "unknown"}
