"""One training loop, recorded by Nsight Systems and, in another run, by the PyTorch profiler: the same kernels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gputui.analysis.timeline import TimelineFacts
from gputui.data import demo_timeline
from gputui.formats import open_report

FOLDER = Path(__file__).parents[2] / "sample_reports"


def kernels_of(path: Path) -> tuple[Counter[str], int]:
    """Launches by name, up to its first bracket since the two spell the rest differently, and their time in ns."""
    timeline = open_report(path).timeline
    assert timeline is not None
    launches: Counter[str] = Counter()
    total_ns = 0
    for group in TimelineFacts(timeline).kernels:
        name = timeline.name(group.name).removeprefix("void ")
        launches[name.partition("<")[0].partition("(")[0]] += group.count
        total_ns += group.total_ns
    return launches, total_ns


def test_they_agree_on_the_kernels() -> None:
    nsys, nsys_ns = kernels_of(FOLDER / "timeline_wasteful.sqlite")
    torch, torch_ns = kernels_of(FOLDER / "timeline_wasteful.json.gz")
    assert sum(nsys.values()) == 4753
    assert nsys == torch
    assert nsys_ns == pytest.approx(torch_ns, rel=0.005)


def test_the_demo_is_that_loop() -> None:
    assert demo_timeline().samefile(FOLDER / "timeline_wasteful.sqlite")
