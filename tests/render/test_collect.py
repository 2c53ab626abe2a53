"""The command that collects what is missing."""

from __future__ import annotations

import pytest

from gputui.model.metrics import dictionary
from gputui.render.collect import collect_command

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
