"""The sums of a file that is not opened against those of the opened timeline, which go another way."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from nsys_builder import OTHER, call, copy, database, insert, kernel, strings

from gputui.analysis.timeline import TimelineFacts
from gputui.errors import GputuiError
from gputui.formats import nsys_export_of, open_report
from gputui.formats.nsys_sqlite import KernelSum, kernel_sums

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def of_opened(path: Path) -> list[KernelSum]:
    timeline = open_report(path).timeline
    assert timeline is not None
    return [
        KernelSum(
            timeline.name(one.name), timeline.short_names.get(one.name, ""), one.count, one.total_ns, one.min_ns,
            one.max_ns,
        )
        for one in TimelineFacts(timeline).kernels
    ]  # fmt: skip


def check(path: Path) -> tuple[KernelSum, ...]:
    sums = kernel_sums(path)
    assert [one.total_ns for one in sums] == sorted((one.total_ns for one in sums), reverse=True)
    assert set(sums) == set(of_opened(path))
    assert len({one.name for one in sums}) == len(sums)
    return sums


def loose(path: Path, columns: str, *rows: tuple[object, ...], texts: tuple[object, ...] = ()) -> Path:
    """An export whose table of kernels has only these columns, of no type."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts, 1))
        connection.execute(f"CREATE TABLE {KERNELS} ({columns})")
        connection.executemany(f"INSERT INTO {KERNELS} VALUES ({', '.join('?' * len(columns.split(',')))})", rows)
    connection.close()
    return path


def test_launches_are_summed_by_name(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.sqlite",
        StringIds=strings("void f<int>(int *)", "launch", "f", "g"),
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(1, 2, 1)],
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy(0, 10**9)],
        **{
            KERNELS: [
                kernel(100, 130, shortName=3),
                kernel(90, 100, shortName=3, deviceId=1, globalPid=OTHER),
                kernel(200, 1200, demangledName=4, shortName=4),
                kernel(50, 55, shortName=3),
            ]
        },
    )
    assert check(path) == (
        KernelSum("g", "", 1, 1000, 1000, 1000),
        KernelSum("void f<int>(int *)", "f", 3, 45, 5, 30),
    )


def test_two_ids_with_one_text_are_one_name(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.sqlite",
        StringIds=strings("f", "f", "short"),
        **{KERNELS: [kernel(0, 3), kernel(0, 9, demangledName=2, shortName=3), kernel(5, 6)]},
    )
    assert check(path) == (KernelSum("f", "short", 3, 13, 1, 9),)


def test_a_kernel_without_a_name_counts(tmp_path: Path) -> None:
    path = loose(
        tmp_path / "a.sqlite",
        "start, end, demangledName, shortName",
        (0, 10, None, None),
        (0, 20, None, 2),
        (0, 40, 77, 78),
        (0, 80, 1, None),
        (0, 160, "text", 2),
        (0, 320, 3, 4),
        (0, 640, -5, 1 << 40),
        texts=("f", "g", b"\xff\xfe", ""),
    )
    named = {one.name: one.total_ns for one in check(path)}
    assert named == {"g": 20 + 160, "f": 80, "(unnamed)": 10 + 40 + 320 + 640}


@pytest.mark.parametrize(
    ("start", "end", "duration"),
    [
        (100, 40, 0),
        (None, 40, 41),
        (40, None, 0),
        (-50, -20, 30),
        ("7", "9", 2),
        ("x", 5.9, 5),
        (0, 2**63 - 1, 10**16),
        (-(2**63), 2**63 - 1, 10**16),
        (2**63 - 2, 2**63 - 1, 0),
    ],
)
def test_strange_times_are_those_of_the_timeline(tmp_path: Path, start: object, end: object, duration: int) -> None:
    path = loose(tmp_path / "a.sqlite", "start, end, shortName", (start, end, 1), texts=("f",))
    assert check(path) == (KernelSum("f", "", 1, duration, duration, duration),)


def test_many_kernels_are_summed_exactly(tmp_path: Path) -> None:
    """More than are read at a time, with names that come late; totals are beyond what a float counts exactly."""
    random = np.random.default_rng(0)
    count = 150_000
    start = random.integers(0, 10**12, count)
    duration = random.integers(0, 2**44, count)
    name = np.where(np.arange(count) < 100_000, random.integers(1, 40, count), random.integers(30, 90, count))
    path = loose(
        tmp_path / "a.sqlite",
        "start, end, demangledName",
        *zip(start.tolist(), (start + duration).tolist(), name.tolist(), strict=True),
        texts=tuple(f"kernel {id}" for id in range(1, 90)),
    )
    expected = {
        KernelSum(f"kernel {id}", "", len(one), sum(one), min(one), max(one))
        for id in range(1, 90)
        if (one := duration[name == id].tolist())
    }
    assert set(kernel_sums(path)) == expected
    check(path)


def test_no_total_overflows(tmp_path: Path) -> None:
    path = loose(tmp_path / "a.sqlite", "start, end, shortName", *[(0, 2**63 - 1, 1)] * 1000, texts=("f",))
    (total,) = kernel_sums(path)
    assert (total.count, total.total_ns, total.max_ns) == (1000, 2**61, 10**16)
    (of_timeline,) = of_opened(path)
    assert 0 < of_timeline.total_ns <= 2**61


def test_without_kernels_there_are_no_sums(tmp_path: Path) -> None:
    assert kernel_sums(database(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=[call(1, 2, 3)])) == ()
    assert kernel_sums(database(tmp_path / "b.sqlite", **{KERNELS: []})) == ()
    assert check(loose(tmp_path / "c.sqlite", "end, shortName", (9, 1), texts=("f",))) == ()


def test_a_file_that_is_cut_off_gives_what_is_left(tmp_path: Path) -> None:
    rows = ((place, place + 7, 1 + place % 2) for place in range(150_000))
    whole = loose(tmp_path / "whole.sqlite", "start, end, demangledName", *rows, texts=("f", "g"))
    content = whole.read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(content[: len(content) * 9 // 10])
    assert 0 < sum(one.count for one in check(path)) < 150_000


def test_it_can_be_stopped(tmp_path: Path) -> None:
    rows = [(place, place + 1, 1) for place in range(150_000)]
    path = loose(tmp_path / "a.sqlite", "start, end, shortName", *rows, texts=("f",))
    told: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> bool:
        told.append((done, total))
        return False

    (one,) = kernel_sums(path, stop)
    assert told == [(one.count, 150_000)]
    assert one.count < 150_000


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    text = tmp_path / "text.sqlite"
    text.write_text("SQLite format 4")
    for path in (other, text):
        with pytest.raises(GputuiError):
            kernel_sums(path)


def test_the_user_s_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"CREATE TABLE {KERNELS} (start, end)")
        insert(connection, KERNELS, [{"start": 1, "end": 2}])
    connection.close()
    before = path.read_bytes()
    assert len(kernel_sums(path)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["a.sqlite"]
    assert path.read_bytes() == before


def test_the_real_files(reports: Path) -> None:
    summed = 0
    for path in sorted(reports.rglob("*.sqlite")):
        try:
            expected = of_opened(path)
        except GputuiError:
            with pytest.raises(GputuiError):
                kernel_sums(path)
            continue
        assert set(kernel_sums(path)) == set(expected), path.name
        summed += bool(expected)
    assert summed >= 8


# ------------------------------------------------------ which file to sum


def test_an_export_is_its_own(tmp_path: Path) -> None:
    path = database(tmp_path / "a.txt", **{KERNELS: []})
    assert nsys_export_of(path) == path
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}')
    assert nsys_export_of(trace) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_nothing_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent"):
        with pytest.raises((GputuiError, OSError)):
            nsys_export_of(path)
