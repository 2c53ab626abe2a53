"""Real timelines in the application: what the list and the tree count."""

from __future__ import annotations

import re
from pathlib import Path

from gputui.formats import open_report
from gputui.views.library import content_of, explain, load

BASELINE = "sqlite/brycelelbach__nsightful__power_iteration__baseline.sqlite"


def kernels_told(reports: Path) -> dict[str, int]:
    """The number of kernels of each SQLite export, as the folder's index has it."""
    rows = re.findall(
        r"^\| (\S+\.sqlite) \|(?:[^|\n]*\|){4} (\d+|-) \|", (reports / "INDEX.md").read_text(), re.MULTILINE
    )
    return {name: 0 if count == "-" else int(count) for name, count in rows}


def test_the_list_counts_every_launch(reports: Path) -> None:
    told = kernels_told(reports)
    assert len(told) >= 10
    for name, count in told.items():
        loaded = load(open_report(reports / "sqlite" / name), 0, 0)
        assert sum(entry.count for entry in loaded.entries) == count, name


def test_what_a_range_launched_adds_up_to_its_kernels(reports: Path) -> None:
    loaded = load(open_report(reports / BASELINE), 0, 0)
    tree = explain(loaded).ranges.nodes
    (loop,) = (node for node in tree if node.path == ("Loop",))
    content = content_of(loaded, 0, loop.path, loop.rows.tolist())
    assert sum(group.count for group in content.kernels.values()) == loop.kernels == 3677
    steps = next(node for node in tree if node.path == ("Loop", "Step # to #"))
    assert steps.count == 44
