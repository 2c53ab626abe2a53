"""The proof that the diagnosis is right: planted kernels, collected on an H200 (benchmarks/whyslow)."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.formats import open_report

FOLDER = Path(__file__).parents[2] / "benchmarks" / "whyslow"


def load_score() -> ModuleType:
    spec = importlib.util.spec_from_file_location("whyslow_score", FOLDER / "score.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


score = load_score()
PAIRS, CONTROLS = score.labels()

needs_reports = pytest.mark.skipif(not score.reports_in(score.REPORTS), reason="no reports of the planted kernels")


@needs_reports
def test_the_diagnosis_reaches_its_targets(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = score.scores_of()
    with capsys.disabled():
        sys.stdout.write("\n" + score.told(found) + "\n")
    assert not found.missing
    assert {name: share for name, share in found.shares.items() if share < score.TARGETS[name]} == {}
    assert not any(found.alarms.values()), found.alarms


# ---------------------------
# The labels and the programs
# ---------------------------


def test_every_pair_is_labelled_once_and_every_label_is_a_pair() -> None:
    programs = [
        path.read_text(encoding="utf-8") for pattern in ("*.cu", "whyslow_*.py") for path in FOLDER.glob(pattern)
    ]
    planted = {
        name for text in programs for name in re.findall(r'(?:bench\.run\(|^@case\()"([^"]+)"', text, re.MULTILINE)
    }
    names = [label["name"] for label in (*PAIRS, *CONTROLS)]
    assert len(names) == len(set(names))
    assert planted == set(names)
    assert len(PAIRS) >= 45


def test_labels_name_findings_and_reasons() -> None:
    for label in PAIRS:
        assert label["language"] in ("cuda", "triton", "torch"), label
        assert label["text"].endswith("."), label
        assert label["planted"] not in label.get("also", ()), label


# -------------------------------------
# The scorer, on the package's own tour
# -------------------------------------


@pytest.fixture(scope="module")
def tour() -> dict[str, Diagnosis]:
    with resources.as_file(resources.files("gputui.data").joinpath("demo", "tour.ncu-rep")) as path:
        report = open_report(path)
        try:
            return {seen.kernel.name: seen for seen in diagnose_all(report)}
        finally:
            report.close()


def row(tour: dict[str, Diagnosis], slow: list[str], cured: str, **label: Any) -> Any:
    kernels = [tour[name] for name in slow]
    timing = {"slow_us": 30.0, "cured_us": 10.0}
    return score.row_of({"name": "a pair", **label}, kernels, [tour[cured]], timing)


def test_a_planted_finding_that_leads(tour: dict[str, Diagnosis]) -> None:
    found = row(tour, ["transpose_naive"], "transpose_tiled", planted="uncoalesced-store")
    assert (found.rank, found.leading, found.gone, found.outside) == (1, "uncoalesced-store", True, 3.0)
    assert found.gain == pytest.approx(
        tour["transpose_naive"].kernel.duration_ns / tour["transpose_tiled"].kernel.duration_ns
    )
    assert found.holds


def test_a_finding_that_is_not_there(tour: dict[str, Diagnosis]) -> None:
    found = row(tour, ["copy_plain"], "transpose_naive", planted="uncoalesced-store")
    assert (found.rank, found.leading, found.bound, found.holds) == (None, "dram-bandwidth", None, None)
    assert not found.gone


def test_what_promises_nothing_that_can_be_told_is_not_gone(tour: dict[str, Diagnosis]) -> None:
    cured = tour["transpose_naive"]
    unbounded = tuple(replace(found, max_speedup=None) for found in cured.findings)
    label = {"name": "a pair", "planted": "uncoalesced-store"}
    found = score.row_of(label, [cured], [replace(cured, findings=unbounded)], {})
    assert (found.left, found.gone) == (math.inf, False)


def test_a_group_counts_by_its_best_kernel_and_its_whole_time(tour: dict[str, Diagnosis]) -> None:
    group = ["copy_plain", "transpose_naive"]
    found = row(tour, group, "copy_plain", planted="bank-conflicts", also=["uncoalesced-store"])
    assert (found.rank, found.leading) == (1, "uncoalesced-store")
    times = [tour[name].kernel.duration_ns or 0.0 for name in group]
    assert found.gain == pytest.approx(sum(times) / times[0])


def test_sides_that_do_other_work_have_no_gain(tour: dict[str, Diagnosis]) -> None:
    found = row(tour, ["transpose_naive"], "transpose_tiled", planted="uncoalesced-store", work_differs=True)
    assert (found.gain, found.outside, found.holds) == (None, None, None)


def test_the_score_passes_only_without_false_alarms(tour: dict[str, Diagnosis]) -> None:
    good = row(tour, ["transpose_naive"], "transpose_tiled", planted="uncoalesced-store")
    assert score.Score([good], [], {"copy": []}).passed
    assert not score.Score([good], [], {"copy": ["small-grid"]}).passed
    assert not score.Score([], [], {}).passed
    bad = row(tour, ["copy_plain"], "transpose_tiled", planted="uncoalesced-store")
    assert not score.Score([good, bad], [], {}).passed
    assert "uncoalesced-store" in score.told(score.Score([good, bad], ["lost"], {"copy": []}))


def test_a_folder_without_reports_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score.main([str(tmp_path)]) == 2
    assert "collect" in capsys.readouterr().err


def test_the_bound_is_that_of_the_planted_finding(tour: dict[str, Diagnosis]) -> None:
    """Not that of one as good which stands before it."""
    bounds = {found.id: found.max_speedup for found in tour["transpose_naive"].findings}
    last = [name for name, bound in bounds.items() if bound][-1]
    assert bounds[last] != bounds["uncoalesced-store"]
    found = row(tour, ["transpose_naive"], "transpose_tiled", planted=last, also=["uncoalesced-store"])
    assert (found.rank, found.bound) == (1, bounds[last])


def test_what_was_timed_once_more_replaces_the_side(tmp_path: Path) -> None:
    (tmp_path / "timings.json").write_text('{"a": {"slow_us": 4.0, "cured_us": 2.0}, "b": {"slow_us": 1.0}}')
    (tmp_path / "timings_more.json").write_text('{"a": {"cured_us": 1.0}}')
    assert score.timings_in(tmp_path) == {"a": {"slow_us": 4.0, "cured_us": 1.0}, "b": {"slow_us": 1.0}}


def test_what_is_held_out_has_a_score_of_its_own() -> None:
    known, held_out = score.scores_of()
    names = {row.name for row in known.rows} | set(known.missing)
    assert {label["name"] for label in PAIRS if not label.get("held_out")} <= names
    assert {row.name for row in held_out.rows} | set(held_out.missing) == {
        label["name"] for label in PAIRS if label.get("held_out")
    }
    assert not held_out.alarms
