"""Opening several files at once: timelines of one job become one report, everything else stays apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputui import formats
from gputui.errors import GputuiError
from gputui.model.report import NoMetrics, Notice, Report

if TYPE_CHECKING:
    from gputui.model.timeline import SourceFile, Timeline

FileProgress = Callable[[str, int, int], bool]
"""``progress(path, done, total)``; the work stops where it answers ``False``."""


def open_all(
    sources: Iterable[str | os.PathLike[str] | Report], progress: FileProgress | None = None
) -> Iterator[Report | GputuiError]:
    """The reports in these files and folders, and those already open; an error for each that cannot be read.

    Reports come as they are read, timelines once all files are read: those of one job are merged into one report.
    """
    timelines: list[Report] = []
    for source in _files(sources):
        if isinstance(source, GputuiError):
            yield source
            continue
        path = source.path if isinstance(source, Report) else str(source)
        if progress is not None and not progress(path, 0, 0):
            break
        try:
            report = source if isinstance(source, Report) else _open(source, path, progress)
        except GputuiError as error:
            yield error
            continue
        if report.timeline is None:
            yield report
        else:
            timelines.append(report)
    yield from join(timelines)


def _files(sources: Iterable[str | os.PathLike[str] | Report]) -> Iterator[Path | Report | GputuiError]:
    for source in sources:
        if isinstance(source, Report):
            yield source
            continue
        try:
            yield from formats.reports_in(Path(source))
        except GputuiError as error:
            yield error


def _open(source: Path, path: str, progress: FileProgress | None) -> Report:
    if progress is None:
        return formats.open_report(source)
    return formats.open_report(source, lambda done, total: progress(path, done, total))


# ------------------------------------------------------------------ one job


def join(reports: Sequence[Report]) -> list[Report]:
    """Timelines with those of one job merged; a capture that is there twice (a report and its export) is kept once."""
    jobs: list[list[Report]] = []
    for report in reports:
        twin = next((one for job in jobs for one in job if _is_same_capture(report, one)), None)
        if twin is not None:
            notice = Notice("same-capture", {"file": Path(report.path).name, "other": Path(twin.path).name})
            twin.notices.append(notice)
            continue
        job = next((job for job in jobs if _belongs_to(report, job)), None)
        if job is None:
            jobs.append([report])
        else:
            job.append(report)
    return [_merged(job) for job in jobs]


def _is_same_capture(one: Report, other: Report) -> bool:
    """Whether two files tell of one process's same time on the same clock with the same number of events."""

    def identity(report: Report) -> tuple[object, ...]:
        timeline, file = _timeline(report), _file(report)
        counts = [len(table) for table in (timeline.ops, timeline.calls, timeline.ranges)]
        return report.kind, file.rank, file.wall_ns, timeline.start_ns, timeline.end_ns, *counts

    return _file(one).wall_ns is not None and identity(one) == identity(other)


def _belongs_to(report: Report, job: Sequence[Report]) -> bool:
    """Whether a timeline is of the job: with one of its files by rank or time, and of a rank that it does not have."""
    rank = _file(report).rank
    taken = rank is not None and any(_file(one).rank == rank for one in job)
    return not taken and any(_are_of_one_job(report, one) for one in job)


def _are_of_one_job(one: Report, other: Report) -> bool:
    """Several ranks that were captured at about the same time, or captures that overlap on the wall clock.

    Where a file does not tell when it was made, several ranks in one folder count as one job.
    """
    if one.kind != other.kind:
        return False
    has_ranks = _file(one).rank is not None and _file(other).rank is not None
    spans = _wall_span(one), _wall_span(other)
    if spans[0] is None or spans[1] is None:
        return has_ranks and Path(one.path).parent == Path(other.path).parent
    apart_ns = max(spans[0][0], spans[1][0]) - min(spans[0][1], spans[1][1])
    return apart_ns < (_CLOCKS_DIFFER_NS if has_ranks else 0)


_CLOCKS_DIFFER_NS = 60_000_000_000
"""Ranks on several machines start and end at different times, on clocks that may not agree."""


def _wall_span(report: Report) -> tuple[int, int] | None:
    timeline, wall = _timeline(report), _file(report).wall_ns
    return None if wall is None else (wall + timeline.start_ns, wall + timeline.end_ns)


def _file(report: Report) -> SourceFile:
    return _timeline(report).files[0]


def _timeline(report: Report) -> Timeline:
    assert report.timeline is not None
    return report.timeline


def _merged(job: Sequence[Report]) -> Report:
    from gputui.model.timeline_merge import merge

    first = job[0]
    if len(job) == 1:
        return first
    notices = {(notice.id, tuple(notice.params.items())): notice for report in job for notice in report.notices}
    return Report(
        path=first.path,
        kind=first.kind,
        kernels=[],
        source=NoMetrics(),
        tool_version=first.tool_version,
        truncated=any(report.truncated for report in job),
        notices=list(notices.values()),
        session=first.session,
        timeline=merge([_timeline(report) for report in job]),
    )
