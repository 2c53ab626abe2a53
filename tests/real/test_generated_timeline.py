"""The timelines that the benchmarks generate are what nsys itself reads, and are read alike."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.analysis.timeline import TimelineFacts
from gputui.formats import open_report
from gputui.formats.nsys_sqlite import kernel_sums
from gputui.nsight import find_nsys

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KERNELS = 2_500
"""Two whole steps of a thousand, one a GPU, and a part of one."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generated") / "timeline.sqlite"
    generate(path)
    return path


def generate(path: Path, *options: str) -> None:
    program = str(BENCHMARKS / "generate_timeline.py")
    subprocess.run([sys.executable, program, "-n", str(KERNELS), *options, str(path)], check=True, capture_output=True)


def test_the_same_arguments_make_the_same_file(generated: Path, tmp_path: Path) -> None:
    generate(tmp_path / "again.sqlite")
    generate(tmp_path / "other.sqlite", "--seed", "1")
    assert (tmp_path / "again.sqlite").read_bytes() == generated.read_bytes()
    assert (tmp_path / "other.sqlite").read_bytes() != generated.read_bytes()


def test_it_opens_with_nothing_lacking_or_loose(generated: Path) -> None:
    timeline = open_report(generated).timeline
    assert timeline is not None
    assert sum(group.count for group in TimelineFacts(timeline).kernels) == KERNELS
    assert len(timeline.gpus) == 2
    assert (timeline.ops.call >= 0).all()
    assert (timeline.ops.start >= timeline.calls.start[timeline.ops.call]).all()
    assert [timeline.name(name) for name in timeline.ranges.name[timeline.ranges.parent < 0][:2]] == ["step 0"] * 2


@pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")
def test_nsys_sums_its_kernels_alike(generated: Path) -> None:
    timeline = open_report(generated).timeline
    assert timeline is not None
    command = [str(find_nsys()), "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", str(generated)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(output[output.index("Time (%)") :].splitlines()))
    theirs = {row["Name"]: (int(row["Instances"]), int(row["Total Time (ns)"])) for row in rows}
    ours = {timeline.name(one.name): (one.count, one.total_ns) for one in TimelineFacts(timeline).kernels}
    assert ours == theirs
    assert {one.name: (one.count, one.total_ns) for one in kernel_sums(generated)} == theirs
    spans = {row["Name"]: (int(row["Min (ns)"]), int(row["Max (ns)"])) for row in rows}
    assert {one.name: (one.min_ns, one.max_ns) for one in kernel_sums(generated)} == spans
