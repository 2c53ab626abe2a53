"""NVTX ranges on GPU time against ``nsys stats -r nvtx_gpu_proj_sum``."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from gputui.analysis.timeline import TimelineFacts
from gputui.formats import open_report
from gputui.model.timeline import RangeKind

_STYLES = {RangeKind.PUSH_POP: "PushPop", RangeKind.START_END: "StartEnd"}
_FILES = (
    "sqlite/brycelelbach__nsightful__power_iteration__baseline.sqlite",
    "sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite",
    "sqlite/CodeGandee__accelsim-test__capture.sqlite",
    "nsys/openhackathons-org__gpubootcamp__jacobi_report.qdrep",
)


@pytest.mark.parametrize("name", _FILES)
def test_projected_ranges_equal_those_of_nsys(
    reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("nsys is not installed")
    # nsys writes beside what it reads.
    copy = tmp_path / Path(name).name
    copy.write_bytes((reports / name).read_bytes())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    printed = subprocess.run(
        [nsys, "stats", "-q", "-r", "nvtx_gpu_proj_sum", "--format", "csv", str(copy)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    lines = printed.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith("Range,")), None)
    assert start is not None, printed
    expected = {
        (row["Range"], row["Style"]): (
            int(row["Range Instances"]),
            int(row["Total Proj Time (ns)"]),
            int(row["Total Range Time (ns)"]),
            int(row["Total GPU Ops"]),
        )
        for row in csv.DictReader(lines[start:])
    }

    report = open_report(reports / name)
    timeline = report.timeline
    assert timeline is not None
    ranges, projection = timeline.ranges, TimelineFacts(timeline).projection
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in range(len(ranges)):
        if projection.launches[row]:
            domain = timeline.name(int(ranges.domain[row]))
            if re.fullmatch(r"domain \d+", domain):  # the file does not name it, and nsys then leaves it out
                domain = ""
            name = timeline.name(int(ranges.name[row]))
            sums = found[f"{domain}:{name}" if domain else name, _STYLES[RangeKind(int(ranges.kind[row]))]]
            numbers = (1, projection.duration[row], ranges.duration[row], projection.launches[row])
            for place, number in enumerate(numbers):
                sums[place] += int(number)
    assert len(expected) > 0
    assert {key: tuple(value) for key, value in found.items()} == expected
