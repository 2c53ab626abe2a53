"""Which files become one report: ranks and captures of one job, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from built_timeline import Built
from gputui.errors import GputuiError
from gputui.formats import together
from gputui.formats.together import join, open_all
from gputui.model.report import NoMetrics, Notice, Report
from traces import write_trace

SECOND = 1_000_000_000
NOON = 1_764_504_000 * SECOND


def report(
    name: str = "run.sqlite", *, rank: int | None = None, wall: int | None = None, kind: str = "nsys", kernels: int = 2
) -> Report:
    """A capture of one second with some kernels."""
    built = Built()
    for place in range(kernels):
        built.kernel(place * 1000, place * 1000 + 100, f"kernel {place}")
    built.call(0, SECOND, "cudaDeviceSynchronize")
    timeline = built.timeline()
    file = replace(timeline.files[0], path=name, kind=kind, rank=rank, wall_ns=wall)
    return Report(name, kind, [], NoMetrics(), timeline=replace(timeline, files=[file]))


def paths(reports: list[Report]) -> list[list[str]]:
    """Per report the files that it is made of."""
    return [[file.path for file in one.timeline.files] for one in reports if one.timeline is not None]


def test_ranks_of_one_job_become_one_report() -> None:
    ranks = [report(f"rank{rank}.sqlite", rank=rank, wall=NOON + rank * SECOND // 2) for rank in range(3)]
    joined = join(ranks)
    assert paths(joined) == [["rank0.sqlite", "rank1.sqlite", "rank2.sqlite"]]
    timeline = joined[0].timeline
    assert timeline is not None
    assert len(timeline.ops) == 6
    assert len(timeline.gpus) == 3
    # Half a second later on the wall clock is half a second later on the common one.
    assert [file.shift_ns for file in timeline.files] == [0, SECOND // 2, SECOND]


def test_ranks_that_start_seconds_apart_are_one_job_and_hours_apart_two() -> None:
    assert len(join([report("a", rank=0, wall=NOON), report("b", rank=1, wall=NOON + 20 * SECOND)])) == 1
    assert len(join([report("a", rank=0, wall=NOON), report("b", rank=1, wall=NOON + 7200 * SECOND)])) == 2


def test_ranks_without_a_clock_are_one_job_in_one_folder() -> None:
    assert len(join([report("run/rank0.json", rank=0), report("run/rank1.json", rank=1)])) == 1
    assert len(join([report("one/rank0.json", rank=0), report("other/rank1.json", rank=1)])) == 2


def test_a_rank_occurs_once_in_a_job() -> None:
    runs = [report(f"run{run}.rank{rank}", rank=rank, wall=NOON) for run in (1, 2) for rank in (0, 1)]
    # Both runs at the same time, the files by run: each rank goes to the first job that lacks it.
    for place, one in enumerate(runs):
        assert one.timeline is not None
        runs[place] = replace(one, timeline=replace(one.timeline, end_ns=SECOND + place))
    assert paths(join(runs)) == [["run1.rank0", "run1.rank1"], ["run2.rank0", "run2.rank1"]]


def test_captures_that_overlap_are_one_job_and_others_are_not() -> None:
    first, second = report("a", wall=NOON), report("b", wall=NOON + SECOND // 2)
    assert len(join([first, second])) == 1
    assert len(join([first, report("c", wall=NOON + 2 * SECOND)])) == 2
    # Without a clock or a rank nothing says that they belong together.
    assert len(join([report("a"), report("b")])) == 2


def test_captures_of_two_tools_stay_apart() -> None:
    assert len(join([report("a", rank=0, wall=NOON), report("b", rank=1, wall=NOON, kind="torch")])) == 2


def test_a_capture_and_its_export_count_once() -> None:
    joined = join([report("run.nsys-rep", wall=NOON), report("run.sqlite", wall=NOON)])
    assert paths(joined) == [["run.nsys-rep"]]
    assert joined[0].notices == [Notice("same-capture", {"file": "run.sqlite", "other": "run.nsys-rep"})]
    # Another number of kernels is another capture.
    assert paths(join([report("a", wall=NOON), report("b", wall=NOON, kernels=3)])) == [["a", "b"]]


def test_a_merged_report_keeps_what_is_to_be_said_of_its_files() -> None:
    first, second = report("a", rank=0, wall=NOON), report("b", rank=1, wall=NOON)
    first.notices.append(Notice("lacks-nvtx"))
    second.notices += [Notice("lacks-nvtx"), Notice("dropped-events", {"count": 1, "text": "x"})]
    second.truncated = True
    (joined,) = join([first, second])
    assert [notice.id for notice in joined.notices] == ["lacks-nvtx", "dropped-events"]
    assert joined.truncated


# -------------------------------------------------------------------- files


def test_a_folder_of_ranks_opens_as_one(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank{rank}.json")
    (found,) = open_all([tmp_path])
    assert isinstance(found, Report)
    assert found.timeline is not None
    assert [file.rank for file in found.timeline.files] == [0, 1]


def test_one_bad_file_of_many_is_told_and_left_out(tmp_path: Path) -> None:
    good = write_trace(tmp_path / "good.json")
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"SQLite format 3\0")
    found = list(open_all([bad, tmp_path / "absent", good]))
    assert [type(one) for one in found] == [GputuiError, GputuiError, Report]


def test_an_open_report_is_taken_as_it_is() -> None:
    ready = report()
    assert list(open_all([ready])) == [ready]


def test_reading_stops_where_progress_says_so(tmp_path: Path) -> None:
    files = [write_trace(tmp_path / f"{name}.json") for name in "abc"]
    asked: list[str] = []

    def progress(path: str, done: int, total: int) -> bool:
        if (done, total) == (0, 0):
            asked.append(Path(path).name)
        return len(asked) < 2

    assert len(list(open_all(files, progress))) == 1
    assert asked == ["a.json", "b.json"]


def test_other_reports_come_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Report("x.ncu-rep", "ncu", [], NoMetrics())
    by_name = {"a": report("a"), "x": counted}
    monkeypatch.setattr(together.formats, "open_report", lambda path, progress=None: by_name[path.name])
    # The timeline may still get company, so it comes last.
    assert list(open_all(["a", "x"])) == [counted, by_name["a"]]


def test_one_unreadable_file_costs_a_folder_itself_alone(tmp_path: Path) -> None:
    write_trace(tmp_path / "good.json")
    # A regular file whose first bytes nobody can read.
    (tmp_path / "bad.json").symlink_to("/proc/self/mem")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    os.mkfifo(tmp_path / "pipe.json")
    opened = list(open_all([tmp_path]))
    assert [Path(one.path).name for one in opened if isinstance(one, Report)] == ["good.json"]
    (error,) = [one for one in opened if isinstance(one, GputuiError)]
    assert "bad.json: " in str(error)
