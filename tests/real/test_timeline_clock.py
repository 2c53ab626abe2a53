"""The times that gputui tells of an nsys file are those that its tables hold: a reader finds them by SQL."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from io import StringIO
from pathlib import Path

import pytest

import gputui
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.analysis.timeline_tables import select
from gputui.render import timeline_rows
from gputui.render.timeline_json import timeline_json
from gputui.render.timeline_markdown import timeline_markdown
from gputui.render.timeline_table import csv_parts
from gputui.wording import wording

SAMPLE = Path(__file__).parents[2] / "sample_reports" / "timeline_wasteful.sqlite"
_TABLES = ("KERNEL", "MEMCPY", "MEMSET")


@pytest.fixture(scope="module")
def operations() -> list[tuple[int, int]]:
    """Start and end of everything that ran on the GPU, as the file has them."""
    with sqlite3.connect(f"file:{SAMPLE}?mode=ro", uri=True) as database:
        every = " UNION ALL ".join(f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{one}" for one in _TABLES)
        return database.execute(f"{every} ORDER BY start").fetchall()


def test_the_gap_of_a_finding_is_found_by_sql(operations: list[tuple[int, int]]) -> None:
    report, words = gputui.open_report(SAMPLE), wording("en")
    diagnosis = gputui.diagnose(report)
    assert isinstance(diagnosis, TimelineDiagnosis)
    answer = timeline_json(report, diagnosis, select(diagnosis), words)
    first = json.loads(json.dumps(answer))["timeline"]["findings"][0]
    assert first["id"] == diagnosis.main[0].id == "input-bound"
    start, end = first["place"]["start_ns"], first["place"]["end_ns"]
    assert not [one for one in operations if one[0] < end and one[1] > start]
    assert end in {one[0] for one in operations}
    assert start in {one[1] for one in operations}
    moment = diagnosis.main[0].moment
    assert moment is not None
    text = timeline_rows.where(moment, diagnosis.facts, words)
    found = re.match(r"at ([\d.]+) s, for", text)
    assert found is not None
    decimals = len(found[1].partition(".")[2])
    assert 0 <= start - round(float(found[1]) * 1e9) < 10 ** (9 - decimals)
    assert f"at {found[1]} s, for" in timeline_markdown(report, diagnosis, select(diagnosis), words)


def test_the_exported_times_are_the_files(operations: list[tuple[int, int]]) -> None:
    timeline = gputui.open_report(SAMPLE).timeline
    assert timeline is not None
    facts = TimelineFacts(timeline)
    rows = csv.DictReader(StringIO("".join(csv_parts(facts, facts.ops_of()))))
    assert sorted(int(row["start_ns"]) for row in rows) == sorted(start for start, _ in operations)
