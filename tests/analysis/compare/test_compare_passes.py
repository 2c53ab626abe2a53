"""Passes, windows that begin anywhere, and launches in other orders: made of the launches of the sample reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import gputui
from gputui.analysis.compare.amounts import amounts
from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.model import Comparison, KernelKey, Pairing, Side
from gputui.analysis.compare.sides import counters_side
from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric
from gputui.model.report import NoMetrics, Report

SAMPLES = Path(__file__).parents[3] / "sample_reports"
WINDOW = "ncu --launch-skip 100 --launch-count 20 python train.py"


@cache
def diagnosed(name: str) -> tuple[Report, list[Diagnosis]]:
    report = gputui.open_report(SAMPLES / f"attention_{name}.ncu-rep")
    try:
        return report, diagnose_all(report)
    finally:
        report.close()


def side(name: str, places: Sequence[int], command: str = "ncu python train.py") -> Side:
    """The launches at these places of a sample, as a report made by ``command``."""
    report, diagnoses = diagnosed(name)
    session = replace(report.session, command_line=command)
    made = Report(report.path, report.kind, report.kernels, report.source, session=session)
    return counters_side([(made, [diagnoses[place] for place in places])])


def told(found: Comparison) -> set[tuple[tuple[str, ...], tuple[str, ...], str]]:
    def names(members: Sequence[object]) -> tuple[str, ...]:
        return tuple(sorted(member.kernel.name for member in members))  # type: ignore[attr-defined]

    return {(names(group.base), names(group.new), group.how) for group in found.groups}


@pytest.fixture(scope="module")
def whole() -> Comparison:
    return compare(side("eager", range(14)), side("sdpa", range(10)))


def test_several_passes_are_told_as_one(whole: Comparison) -> None:
    base, new = side("eager", [*range(14)] * 3), side("sdpa", [*range(10)] * 5)
    assert (base.passes, len(base.members), base.launches, new.passes, len(new.members)) == (3, 14, 42, 5, 10)
    found = compare(base, new)
    assert told(found) == told(whole)
    assert (found.time.before_ns, found.time.after_ns) == (whole.time.before_ns, whole.time.after_ns)
    assert (found.time.noise, found.time.samples, found.dram) == ("passes", (3, 5), whole.dram)
    assert [one.id for one in found.cautions] == ["passes"]


def test_a_last_pass_that_is_not_whole_does_not_count() -> None:
    found = side("eager", [*range(14), *range(14), *range(6)])
    assert (found.passes, len(found.members), found.launches) == (2, 14, 34)
    assert {len(member.durations_ns) for member in found.members} == {2}


def test_products_of_other_sizes_are_no_passes_of_one() -> None:
    """Four products of compiled code have one name, grid and range: 46 to 180 µs."""
    found = side("compile", [1, 3, 5, 7])
    assert (found.passes, len(found.members)) == (1, 4)
    against = compare(side("sdpa", [1, 3, 6, 8]), found)
    assert (against.time.outcome, {group.how for group in against.groups}) == ("no-difference", {"same"})


def test_a_cut_off_report_gains_nothing() -> None:
    report, diagnoses = diagnosed("eager")
    cut = Report(report.path, report.kind, report.kernels, report.source, truncated=True)
    found = compare(side("eager", range(14)), counters_side([(cut, diagnoses[:9])]))
    assert (found.time.outcome, found.dram.trend, found.tensor.trend) == ("no-difference", "same", "same")
    assert (found.fusion, found.kernels.because) == ("unknown", "truncated")
    # Nobody left launches out on purpose.
    assert "part" not in [one.id for one in found.cautions]


def test_half_of_a_model_is_no_gain() -> None:
    """Twelve layers and six, each report with a launch more, so that nothing repeats to its end."""
    found = compare(side("eager", [*([*range(14)] * 12), 13]), side("eager", [*([*range(14)] * 6), 13]))
    assert (found.time.outcome, found.cautions[0].id, found.fusion) == ("inconclusive", "other-work", "unknown")
    assert (found.tensor.trend, found.dram.trend) == ("unknown", "unknown")


def test_how_often_it_was_done_is_said_of_one_pass_too() -> None:
    found = compare(side("eager", [4] * 12), side("eager", [4]))
    assert (found.base.passes, found.new.passes) == (12, 1)
    said = {one.id: dict(one.params) for one in found.cautions}
    assert said["passes"] == {"base": 12, "new": 1}


def test_attention_takes_in_no_products_around_it() -> None:
    """The new side counted its attention alone: the rest was left out, and is not fused in it."""
    found = compare(side("eager", range(14)), side("sdpa", [2], "ncu -k flash python train.py"))
    (fused,) = found.fused
    assert [member.place for member in fused.base] == [2, 3, 4, 5, 6]


def test_gpus_of_two_models_on_one_side_are_not_added_up() -> None:
    report, diagnoses = diagnosed("eager")
    mixed = counters_side([(report, diagnoses)])
    first = mixed.members[0]
    kernel = Kernel(0, first.kernel.name, first.kernel.demangled, Device("NVIDIA A100"), NoMetrics())
    mixed = replace(mixed, members=(replace(first, kernel=kernel), *mixed.members[1:]))
    found = compare(mixed, side("sdpa", range(10)))
    assert "mixed-gpus" in [one.id for one in found.cautions]
    assert found.time.outcome == "inconclusive"


def test_negative_counts_are_damage() -> None:
    """As ``Facts.number`` has it; the logarithm of their ratio would be none."""
    report, diagnoses = diagnosed("eager")
    kernel = diagnoses[1].kernel
    name = kernel.value("tensor_ops_bf16").metric  # type: ignore[union-attr]
    damaged = Kernel(
        1, kernel.name, kernel.demangled, kernel.device, NoMetrics(), grid=kernel.grid, block=kernel.block,
        metrics=[Metric(name, -5.0, ""), Metric("gpu__time_duration.sum", 137568.0, "ns")],
    )  # fmt: skip
    one = replace(diagnoses[1], kernel=damaged)
    new = counters_side([(report, [one])])
    assert amounts(new.members).tensor_ops is None
    assert compare(side("eager", [1]), new).time.speedup == pytest.approx(1.0)


@pytest.mark.parametrize(("base_first", "new_first"), [(0, 7), (4, 2), (13, 9), (5, 0)])
def test_windows_are_turned_to_begin_alike(whole: Comparison, base_first: int, new_first: int) -> None:
    """The eager window begins in the middle of its attention, too."""
    base = side("eager", [(base_first + place) % 14 for place in range(18)], WINDOW)
    new = side("sdpa", [(new_first + place) % 10 for place in range(13)], WINDOW)
    assert (len(base.members), len(new.members), base.is_cyclic) == (14, 10, True)
    found = compare(base, new)
    assert told(found) == told(whole)
    assert found.before.time_ns == pytest.approx(whole.before.time_ns)
    assert found.dram.after == pytest.approx(whole.dram.after)
    assert (found.fusion, found.time.outcome) == ("fused", "faster")


def test_a_window_of_less_than_a_pass_is_what_it_is() -> None:
    base = side("eager", [*range(3, 13)], WINDOW)
    assert (base.passes, len(base.members), base.is_cyclic) == (1, 10, False)


def test_what_one_window_leaves_out_is_no_gain(whole: Comparison) -> None:
    """The new side counted no product behind the attention: it is not gone, and its time is not saved."""
    new = side("sdpa", [0, 1, 2, 3, 4, 5], WINDOW)
    found = compare(side("eager", range(14)), new)
    assert "part" in [one.id for one in found.cautions]
    assert {group.how for group in found.groups if not group.new} == {"gone"}
    paired = [group for group in found.groups if group.new]
    assert found.before.time_ns == pytest.approx(sum(group.before.time_ns or 0 for group in paired))
    assert found.fusion == "fused"
    # Of whole reports what is gone is saved.
    assert compare(side("eager", range(14)), side("sdpa", [0, 1, 2, 3, 4, 5])).before.time_ns == whole.before.time_ns


def test_layers_are_told_together() -> None:
    """Twelve layers, of which the last has one kernel more: nothing repeats to the end."""
    base, new = side("eager", [*([*range(14)] * 12), 13]), side("sdpa", [*([*range(10)] * 12), 9])
    assert (base.passes, new.passes) == (1, 1)
    found = compare(base, new)
    (fused,) = found.fused
    assert (fused.times, len(fused.base), len(fused.new)) == (12, 60, 12)
    assert found.kernels.before == 169


def test_kernels_in_another_order_are_still_pairs() -> None:
    order = [0, 1, 2, 3, 4, 5, 6, 7, 9, 8, 10, 11, 12, 13]
    found = compare(side("eager", range(14)), side("eager", order))
    assert {group.how for group in found.groups} == {"same"}
    assert (found.kernels.trend, found.time.speedup) == ("same", 1.0)


def test_half_of_the_work_is_not_faster() -> None:
    """Half of the blocks' products: fewer operations on the tensor cores."""
    found = compare(side("eager", [1, 10, 12]), side("eager", [7, 10, 7]))
    assert found.time.outcome == "inconclusive"
    assert found.cautions[0].id in ("other-work", "nothing-paired")


def test_other_programs_are_not_compared() -> None:
    """One product is all that both have: 16 % of the time."""
    report = gputui.open_report(SAMPLES / "tf32_on.ncu-rep")
    other = counters_side([(report, diagnose_all(report))])
    report.close()
    found = compare(side("sdpa", range(10)), other)
    assert found.cautions[0].id == "little-paired"
    assert found.cautions[0].params["percent"] == pytest.approx(16.4, abs=0.1)
    assert {found.tensor.trend, found.dram.trend, found.fusion} == {"unknown"}
    assert found.time.outcome == "inconclusive"


def test_counted_operations_go_before_a_pairing_by_hand() -> None:
    """A product of four times as many operations is other work, whoever paired it; unless the user insists."""
    base, new = side("eager", [7]), side("eager", [10])
    by_hand = Pairing(frozenset({base.members[0].key}), frozenset({new.members[0].key}))
    found = compare(base, new, [by_hand])
    assert (found.time.outcome, found.cautions[0].id) == ("inconclusive", "other-work")
    assert found.cautions[0].params["times"] == pytest.approx(4.0, rel=0.01)
    assert compare(base, new, [by_hand], same_work=True).time.outcome == "slower"


def test_pairs_by_hand_are_of_single_launches(whole: Comparison) -> None:
    base, new = side("eager", range(14)), side("compile", range(9))
    out, up = new.members[3].key, new.members[5].key
    # In compiled code one function makes four products of one range.
    assert (out.function, out.nvtx, out.nth, up.nth) == (up.function, up.nvtx, 1, 2)
    by_hand = Pairing(frozenset({base.members[7].key}), frozenset({out}))
    found = compare(base, new, [by_hand])
    (group,) = [one for one in found.groups if one.by_hand]
    assert ([m.place for m in group.base], [m.place for m in group.new]) == ([7], [3])
    assert sum(len(one.new) for one in found.groups) == 9


def test_a_pairing_whose_kernels_are_not_there_changes_nothing(whole: Comparison) -> None:
    other = Pairing(frozenset({KernelKey("no_such_kernel")}), frozenset({whole.new.members[0].key}))
    assert told(compare(whole.base, whole.new, [other])) == told(whole)
