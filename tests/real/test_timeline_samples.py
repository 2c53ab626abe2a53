"""Our own timelines, whose weaknesses are known and whose times were measured without a profiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.formats.together import open_all
from gputui.model.report import Report
from gputui.render import timeline_rows as rows
from gputui.wording import LANGUAGES, wording

_SAMPLES = Path(__file__).parents[2] / "sample_reports"
_MS_A_STEP = {"wasteful": 56.9, "tuned": 9.3, "graph": 5.7}
"""Without a profiler: the mean of two runs of 100 steps each (sample_reports/README.md)."""


def _diagnosed(*names: str) -> TimelineDiagnosis:
    (report,) = open_all([_SAMPLES / name for name in names])
    assert isinstance(report, Report)
    assert report.timeline is not None
    return diagnose_timeline(TimelineFacts(report.timeline), report.notices)


def test_a_loader_that_cannot_keep_up_is_the_first_thing_told() -> None:
    diagnosis = _diagnosed("timeline_wasteful.sqlite")
    assert diagnosis.main[0].id == "input-bound"
    assert diagnosis.main[0].params["range"] == "data"
    assert [one.id for one in diagnosis.main[:2]] == ["input-bound", "launch-bound-timeline"]
    assert diagnosis.explained["gpu-idle"] in ("input-bound", "launch-bound-timeline")
    # Without the wait, 41.2 and 44.8 of 56.7 and 57.1 ms a step, the loop would be 3.7 and 4.6 times as fast; nsys made
    # all else slower.
    assert diagnosis.main[0].max_speedup == pytest.approx(2.5, abs=0.1)


def test_the_tuned_loop_waits_for_launches_and_a_graph_stays_within_the_bound() -> None:
    diagnosis = _diagnosed("timeline_tuned.sqlite")
    lead = diagnosis.main[0]
    assert lead.id == "launch-bound-timeline"
    assert "no-cuda-graph" in {one.id for one in diagnosis.further}
    assert not {"input-bound", "pageable-copies", "excessive-sync"} & {one.id for one in diagnosis.findings}
    assert lead.max_speedup is not None
    assert _MS_A_STEP["tuned"] / _MS_A_STEP["graph"] <= lead.max_speedup
    # Its share and its bound are of the same gaps, and kernels are longer than those: not so short that the GPU waits.
    assert lead.max_speedup == pytest.approx(1 / (1 - lead.params["share_pct"] / 100), rel=0.01)
    assert diagnosis.explained["python-overhead"] == "launch-bound-timeline"
    for language in LANGUAGES:
        assert wording(language).timeline_verdict(diagnosis.verdict) == rows.sentence(diagnosis, wording(language))
    assert "so short" not in rows.sentence(diagnosis, wording("en"))
    # Its optimizer is fused already.
    assert not any(
        "fused=True" in one for one in rows.finding_text(lead, wording("en"), diagnosis.tags).actions["pytorch"]
    )


def test_an_effect_names_what_the_cpu_was_in_and_no_gain() -> None:
    diagnosis = _diagnosed("timeline_wasteful.sqlite")
    *_, (heading, lines) = rows.other_findings(diagnosis, wording("en"))
    assert heading.startswith("Not the problem")
    assert lines == ['The GPU has nothing to do for 85 % of the loop, mostly while the CPU is in "data"']


def test_the_graph_keeps_the_gpu_busy() -> None:
    diagnosis = _diagnosed("timeline_graph.sqlite")
    assert diagnosis.facts.busy_share(0, diagnosis.window) > 0.95
    found = {one.id for one in diagnosis.findings}
    assert not found & {"gpu-idle", "launch-bound-timeline", "no-cuda-graph", "input-bound", "python-overhead"}


def test_one_rank_alone_is_not_said_to_be_slow_for_sure() -> None:
    diagnosis = _diagnosed("timeline_ddp_rank0.json.gz")
    assert (diagnosis.main[0].id, diagnosis.main[0].variant) == ("exposed-communication", "alone")
    assert diagnosis.main[0].confidence <= 0.5


def test_the_rank_that_gets_its_data_late_explains_why_the_other_one_waits() -> None:
    diagnosis = _diagnosed("timeline_ddp_rank0.json.gz", "timeline_ddp_rank1.json.gz")
    lead = diagnosis.main[0]
    assert lead.id == "input-bound"
    assert "1" in str(lead.params["gpu"])
    assert diagnosis.explained["straggler"] == "input-bound"
    assert diagnosis.explained["exposed-communication"] in ("input-bound", "straggler")
    # Two ranks of which none is late take 12.6 ms a step, these 47.3 (without a profiler).
    assert lead.max_speedup is not None
    assert lead.max_speedup > 2
