"""gputui's timelines against nsys itself, and against the table of the real reports."""

from __future__ import annotations

import csv
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gputui.errors import GputuiError
from gputui.formats import open_report
from gputui.model.timeline import Events, OpKind, RangeKind, Timeline
from gputui.nsight import find_nsys

Sums = dict[str, tuple[int, int]]
"""Count and total ns by name."""

needs_nsys = pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "nsys-cache"))


def opened(path: Path) -> Timeline:
    timeline = open_report(path).timeline
    assert timeline is not None
    return timeline


# ------------------------------------------------------ the table of reports


def index(reports: Path, section: str) -> dict[str, dict[str, str]]:
    """The rows of one table of INDEX.md, by file."""
    text = (reports / "INDEX.md").read_text(encoding="utf-8")
    lines = [
        line for line in text.partition(f"\n## {section}")[2].partition("\n## ")[0].splitlines() if line[:1] == "|"
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def number(cell: str) -> int:
    return 0 if cell in ("-", "") else int(cell)


def check_counts(timeline: Timeline, row: dict[str, str], export: Path | None) -> None:
    kinds = timeline.ops.kind
    assert (kinds == OpKind.KERNEL).sum() == number(row["kernels"])
    assert (kinds == OpKind.COPY).sum() == number(row["copies"])
    assert len(timeline.calls) == number(row["API calls"])
    # The table counts all rows of NVTX, also those that name domains.
    others = 0
    if export is not None and number(row["NVTX"]):
        with sqlite3.connect(f"{export.as_uri()}?mode=ro&immutable=1", uri=True) as connection:
            (others,) = connection.execute(
                "SELECT count(*) FROM NVTX_EVENTS WHERE eventType NOT IN (34, 59, 60, 70, 71)"
            ).fetchone()
    assert len(timeline.ranges) + others == number(row["NVTX"])


def check_whole(timeline: Timeline) -> None:
    """What every timeline promises."""
    for table in (timeline.ops, timeline.calls, timeline.os_calls, timeline.ranges, timeline.faults, timeline.overhead):
        if not len(table):
            continue
        assert (np.diff(table.start) >= 0).all()
        same = np.diff(table.start) == 0
        assert (np.diff(table.end)[same] <= 0).all()
        assert (table.end >= table.start).all()
        assert table.start[0] >= timeline.start_ns
        assert table.end.max() <= timeline.end_ns
        assert ((table.name >= 0) & (table.name < len(timeline.names))).all()
    ops = timeline.ops
    assert ((ops.stream >= 0) & (ops.stream < len(timeline.streams))).all()
    linked = ops.call >= 0
    assert (ops.start[linked] >= timeline.calls.start[ops.call[linked]]).all()
    assert all(0 <= stream.gpu < len(timeline.gpus) for stream in timeline.streams)


@pytest.mark.parametrize("section", ["sqlite", "nsys"])
def test_counts_are_those_of_the_table(reports: Path, section: str) -> None:
    """And what nsys cannot export ends in one line with the command for the machine that captured it."""
    if section == "nsys" and find_nsys() is None:
        pytest.skip("nsys is not installed")
    rows = index(reports, section)
    assert rows.keys() == {path.name for path in (reports / section).iterdir()}
    for name, row in rows.items():
        path = reports / section / name
        verdict = row.get("nsys") or row.get("exports with 2023.4.4") or ""
        if verdict in ("not a database", "pointer", "newer"):
            with pytest.raises(GputuiError) as caught:
                open_report(path)
            line = str(caught.value)
            assert "\n" not in line
            assert (
                ("newer than the" in line and "nsys export" in line) if verdict == "newer" else "git lfs pull" in line
            )
            continue
        timeline = opened(path)
        check_counts(timeline, row, path if section == "sqlite" else exported(path))
        check_whole(timeline)
        gpu, _, count = row["GPU"].partition(" x")
        if gpu != "-":
            assert timeline.gpus[0].device.name == gpu or timeline.gpus[0].device.name.strip() == gpu, name
            assert len(timeline.gpus) == int(count or 1) or not count
        if section == "sqlite":
            assert (timeline.files[0].tool_version or "-", timeline.files[0].schema or "-") == (
                row["nsys"],
                row["schema"],
            )


def exported(path: Path) -> Path | None:
    """The export that opening it left in the cache."""
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "gputui" / "nsys"
    found = sorted(cache.glob("*.sqlite"), key=lambda one: one.stat().st_mtime_ns)
    return found[-1] if found else None


def test_no_folder_of_reports_was_written_to(reports: Path) -> None:
    for section in ("sqlite", "nsys"):
        assert {path.name for path in (reports / section).iterdir()} == index(reports, section).keys()


# ------------------------------------------------------------------ nsys stats


def sums(timeline: Timeline, table: Events, rows: np.ndarray, name_of: Callable[[int], str]) -> Sums:
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows.tolist():
        name = name_of(row)
        count, total = found[name]
        found[name] = count + 1, total + int(table.end[row] - table.start[row])
    return dict(found)


def plain_name(text: str) -> str:
    """An API call's without version, which nsys stats removes from some only."""
    return re.sub(r"(_v\d{4,5}|_ptsz|_ptds)+$", "", text)


def ours(timeline: Timeline) -> dict[str, Sums]:
    ops, calls, ranges = timeline.ops, timeline.calls, timeline.ranges
    copies = (ops.kind == OpKind.COPY) | (ops.kind == OpKind.MEMSET)

    def range_name(row: int) -> str:
        name, domain = timeline.names[ranges.name[row]], int(ranges.domain[row])
        name = "" if name == "(unnamed)" else name
        # nsys leaves out a domain whose name it does not know.
        known = domain >= 0 and not re.fullmatch(r"domain \d+", timeline.names[domain])
        return f"{timeline.names[domain]}:{name}" if known else name

    return {
        "cuda_gpu_kern_sum": sums(
            timeline, ops, np.flatnonzero(ops.kind == OpKind.KERNEL), lambda row: timeline.names[ops.name[row]]
        ),
        "cuda_gpu_mem_time_sum": sums(timeline, ops, np.flatnonzero(copies), lambda row: timeline.names[ops.name[row]]),
        "cuda_api_sum": sums(timeline, calls, np.arange(len(calls)), lambda row: timeline.names[calls.name[row]]),
        "nvtx_sum": sums(timeline, ranges, np.flatnonzero(ranges.kind != RangeKind.MARK), range_name),
    }


COLUMNS = {
    "cuda_gpu_kern_sum": ("Name", "Instances"),
    "cuda_gpu_mem_time_sum": ("Operation", "Count"),
    "cuda_api_sum": ("Name", "Num Calls"),
    "nvtx_sum": ("Range", "Instances"),
}


def theirs(export: Path, folder: Path) -> dict[str, Sums]:
    """What ``nsys stats`` says of a copy of an export; reports that it finds no data for are left out."""
    nsys = find_nsys()
    assert nsys is not None
    folder.mkdir()
    copied = folder / "a.sqlite"
    shutil.copy(export, copied)
    subprocess.run(
        [nsys, "stats", "--report", ",".join(COLUMNS), "--format", "csv", "--force-export=false",
         "--output", str(folder / "out"), str(copied)],
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    found = {}
    for report, (name, count) in COLUMNS.items():
        path = folder / f"out_{report}.csv"
        if not path.exists() or not path.stat().st_size:
            continue
        table: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = plain_name(row[name]) if report == "cuda_api_sum" else row[name]
                old = table[key]
                table[key] = old[0] + int(row[count]), old[1] + int(row["Total Time (ns)"])
        found[report] = dict(table)
    return found


@needs_nsys
@pytest.mark.parametrize("section", ["sqlite", "nsys"])
def test_sums_are_those_of_nsys_stats(reports: Path, section: str, tmp_path: Path) -> None:
    compared: dict[str, int] = defaultdict(int)
    for path in sorted((reports / section).iterdir()):
        try:
            timeline = opened(path)
        except GputuiError:
            continue
        export = path if section == "sqlite" else exported(path)
        assert export is not None
        mine = ours(timeline)
        for report, table in theirs(export, tmp_path / path.name).items():
            assert mine[report] == table, (path.name, report)
            compared[report] += bool(table)
    least = {"sqlite": (10, 6, 11, 3), "nsys": (9, 8, 9, 1)}[section]
    assert all(compared[report] >= count for report, count in zip(COLUMNS, least, strict=True)), compared


# --------------------------------------------------------------- nsys profile

PROGRAM = """
import threading, time
import nvtx

def work(name):
    with nvtx.annotate(name):
        for step in range(3):
            with nvtx.annotate(f"{name} step {step}"):
                with nvtx.annotate("load"):
                    time.sleep(0.002)
                with nvtx.annotate("compute", domain="lib"):
                    time.sleep(0.001)
                nvtx.mark("done")

both = nvtx.start_range("both")
thread = threading.Thread(target=work, args=("worker",))
thread.start()
work("main")
thread.join()
nvtx.end_range(both)
"""


@needs_nsys
def test_nested_ranges_of_two_threads(tmp_path: Path) -> None:
    """A program that runs here, under nsys profile: every range in its place."""
    pytest.importorskip("nvtx")
    nsys = find_nsys()
    assert nsys is not None
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [nsys, "profile", "--trace", "nvtx,osrt", "--sample", "none", "--cpuctxsw", "none", "--output", "run",
         sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    report = tmp_path / "run.nsys-rep"
    if not report.exists():
        pytest.skip(f"nsys profile does not work here: {done.stderr or done.stdout}")
    before = {path.name for path in tmp_path.iterdir()}
    timeline = opened(report)
    assert {path.name for path in tmp_path.iterdir()} == before
    ranges = timeline.ranges

    def lane(thread: int, domain: str | None) -> list[tuple[str, int]]:
        rows = np.flatnonzero((ranges.thread == thread) & (ranges.kind == RangeKind.PUSH_POP))
        return [
            (timeline.names[ranges.name[row]], int(ranges.depth[row]))
            for row in rows
            if (timeline.names[ranges.domain[row]] if ranges.domain[row] >= 0 else None) == domain
        ]

    threads = list(dict.fromkeys(ranges.thread.tolist()))
    assert len(threads) == 2
    found = {}
    for thread in threads:
        own = lane(thread, None)
        found[own[0][0]] = own, lane(thread, "lib")
    for name in ("main", "worker"):
        steps = [row for step in range(3) for row in ((f"{name} step {step}", 1), ("load", 2))]
        assert found[name] == ([(name, 0), *steps], [("compute", 0)] * 3)
    for row in np.flatnonzero(ranges.parent >= 0).tolist():
        parent = int(ranges.parent[row])
        assert ranges.thread[parent] == ranges.thread[row]
        assert ranges.start[parent] <= ranges.start[row] <= ranges.end[row] <= ranges.end[parent]
        if timeline.names[ranges.name[row]] == "load":
            assert " step " in timeline.names[ranges.name[parent]]
            assert ranges.end[row] - ranges.start[row] >= 2_000_000
    (both,) = np.flatnonzero(ranges.kind == RangeKind.START_END)
    assert timeline.names[ranges.name[both]] == "both"
    rest = np.flatnonzero(ranges.kind != RangeKind.START_END)
    assert (ranges.start[rest] >= ranges.start[both]).all()
    assert (ranges.end[rest] <= ranges.end[both]).all()
    assert (ranges.kind == RangeKind.MARK).sum() == 6
    assert not ranges.is_open.any()
    assert len({timeline.threads[thread].tid for thread in threads}) == 2
    assert len({timeline.threads[thread].process for thread in threads}) == 1
    assert len(timeline.os_calls)
    assert [one.id for one in timeline.lacks] == ["lacks-cuda"]
