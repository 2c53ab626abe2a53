"""The lanes and the painted pane of every timeline that can be read here."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from gputui.analysis.lanes import lanes, read_out
from gputui.analysis.timeline import TimelineFacts
from gputui.errors import GputuiError
from gputui.formats import open_report
from gputui.paint.timeline import ROLES, Overlay, Viewport, layout, paint

_EXTRA = ("api", "os", "counters")


def _timelines(reports: Path) -> list[tuple[str, TimelineFacts]]:
    found = []
    for path in sorted([*reports.glob("sqlite/*.sqlite"), *reports.glob("torch/*.json*")]):
        try:
            report = open_report(path)
        except GputuiError:
            continue
        if report.timeline is not None:
            found.append((path.name, TimelineFacts(report.timeline)))
    return found


def test_every_event_stands_in_exactly_one_lane(reports: Path) -> None:
    seen = 0
    for name, facts in _timelines(reports):
        timeline = facts.timeline
        found = lanes(facts, extra=_EXTRA, range_depth=99, ranges_above=99)
        tables = {
            "ops": timeline.ops, "ranges": timeline.ranges, "calls": timeline.calls, "os_calls": timeline.os_calls,
        }  # fmt: skip
        for table, events in tables.items():
            rows = [lane.rows for lane in found if lane.table == table]
            shown = np.sort(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.int32)
            assert (shown == np.arange(len(events))).all(), (name, table)
            seen += len(shown)
        for lane in found:
            assert len(lane), (name, lane)
            assert read_out(facts, lane, int(lane.rows[0])).start_ns == lane.start[0]
    assert seen > 100_000


def test_busy_cells_equal_the_union_of_the_operations(reports: Path) -> None:
    """On each GPU: what idle lane and busy time make together is all of the time."""
    for name, facts in _timelines(reports):
        for lane in lanes(facts):
            if lane.kind != "idle":
                continue
            first, last = int(lane.start[0]), int(lane.end[-1])
            edges = first + np.arange(151, dtype=np.int64) * (last - first) // 150
            busy = facts.busy[lane.gpu].within(edges)
            assert (lane.cover(edges)[0] + busy == np.diff(edges)).all(), name


@pytest.mark.parametrize(("ascii", "colourless"), [(False, False), (True, True), (False, True)])
def test_every_timeline_is_painted_at_every_zoom(reports: Path, ascii: bool, colourless: bool) -> None:
    for name, facts in _timelines(reports):
        timeline = facts.timeline
        found = lanes(facts, extra=_EXTRA)
        for zoom in range(0, 40, 4):
            span = max(1, timeline.span_ns >> zoom)
            middle = timeline.start_ns + timeline.span_ns * 2 // 3
            for width, height in ((80, 12), (120, 30), (200, 50)):
                viewport = Viewport(middle - span // 2, middle + span // 2, width, height)
                picture = paint(found, viewport, Overlay(cursor_ns=middle), ascii=ascii, colourless=colourless)
                assert {cell_len(line) for line in picture.lines()} == {width}, name
                assert {one for row in picture.rows for _, role in row for one in role.split()} <= set(ROLES)
                assert not ascii or "".join(picture.lines()).isascii()
                slots = layout(found, viewport).slots
                assert all(above.row + above.height <= below.row for above, below in pairwise(slots))
