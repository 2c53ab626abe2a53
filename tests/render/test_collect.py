"""The command that collects what is missing."""

from __future__ import annotations

import pytest

from gputui.analysis.finding import NotChecked
from gputui.analysis.rules import all_rules
from gputui.model.device import Device
from gputui.model.metrics import dictionary
from gputui.render.collect import NotTold, collect_command, not_told
from gputui.wording import wording

FULL = "ncu --set full --import-source yes -o again YOUR_PROGRAM"


@pytest.mark.parametrize(
    ("sections", "command"),
    [
        (["Occupancy"], "ncu --section Occupancy --section SpeedOfLight -o again YOUR_PROGRAM"),
        (["Occupancy", "Occupancy"], "ncu --section Occupancy --section SpeedOfLight -o again YOUR_PROGRAM"),
        (["device", "Occupancy"], "ncu --section Occupancy --section SpeedOfLight -o again YOUR_PROGRAM"),
        (["Occupancy", "LaunchStats"], FULL),
        (["metrics"], FULL),
        ([], FULL),
    ],
)
def test_collect_command(sections: list[str], command: str) -> None:
    assert collect_command(sections) == command


def test_no_section_is_asked_for_twice() -> None:
    assert collect_command(["SpeedOfLight"]).count("SpeedOfLight") == 1


@pytest.mark.parametrize("section", sorted({concept.section for concept in dictionary().values()}))
def test_every_section_of_the_dictionary_is_one_of_ncus(section: str) -> None:
    assert section in {
        "C2CLink", "ComputeWorkloadAnalysis", "InstructionStats", "LaunchStats", "MemoryWorkloadAnalysis",
        "MemoryWorkloadAnalysis_Chart", "MemoryWorkloadAnalysis_Tables", "NumaAffinity", "Nvlink", "Nvlink_Tables",
        "Nvlink_Topology", "Occupancy", "PmSampling", "SchedulerStats", "SourceCounters", "SpeedOfLight",
        "SpeedOfLight_HierarchicalDoubleRooflineChart", "SpeedOfLight_HierarchicalHalfRooflineChart",
        "SpeedOfLight_HierarchicalSingleRooflineChart", "SpeedOfLight_HierarchicalTensorRooflineChart",
        "SpeedOfLight_RooflineChart", "WarpStateStats", "WorkloadDistribution", "device", "metrics",
    }  # fmt: skip


def unchecked(*ids: str, available: bool = True) -> list[NotChecked]:
    return [NotChecked(id, all_rules()[id].family, ("x",), ("WarpStateStats",), available) for id in ids]


WARPS = "ncu --section WarpStateStats --section SpeedOfLight -o again YOUR_PROGRAM"
FEW = ("stall-barrier", "issue-slots", "thread-divergence", "bank-conflicts")


def test_few_findings_are_named() -> None:
    told = not_told(unchecked(*FEW[:2]), wording())
    names = [wording().finding_name(id) for id in FEW[:2]]
    assert told == NotTold(", ".join(names), WARPS, None)


def test_many_are_counted_by_family() -> None:
    told = not_told(unchecked(*FEW, "stall-long-scoreboard"), wording())
    assert told.what == "5 checks (stalls 3, compute 1, memory 1)"


def test_what_the_gpu_cannot_count_is_not_collected() -> None:
    told = not_told([*unchecked("stall-barrier"), *unchecked("dram-bandwidth", available=False)], wording())
    assert (told.command, told.never) == (WARPS, wording().finding_name("dram-bandwidth"))
    never = not_told(unchecked("dram-bandwidth", available=False), wording())
    assert (never.what, never.command) == (None, None)


def test_nothing_unchecked_says_nothing() -> None:
    assert not_told([], wording()) == NotTold(None, None, None)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_family_has_a_name(language: str) -> None:
    for family in {rule.family for rule in all_rules().values()}:
        assert wording(language).text(f"explain.family.{family}")


def test_pascal_takes_the_last_nsight_compute_that_knows_it() -> None:
    pascal, volta = Device("GTX 1080", (6, 1), 20), Device("V100", (7, 0), 80)
    told = not_told(unchecked(*FEW[:2]), wording(), pascal)
    assert told.command == "nv-nsight-cu-cli --section SpeedOfLight --section WarpStateStats -o again YOUR_PROGRAM"
    assert told.version is not None
    assert "2019.5" in told.version
    # It has no sets, and not the sections that came later.
    assert collect_command(["Occupancy", "PmSampling", "metrics"], pascal) == (
        "nv-nsight-cu-cli --section SpeedOfLight --section Occupancy -o again YOUR_PROGRAM"
    )
    assert not_told(unchecked(*FEW[:2]), wording(), volta) == not_told(unchecked(*FEW[:2]), wording())
