"""A side of a comparison from reports with counters: what one pass launches, and how often it was done."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gputui.analysis.compare.model import Member, Side
from gputui.analysis.links import normalised
from gputui.analysis.neighbours import Launches
from gputui.analysis.steps import without_numbers

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.model.kernel import Kernel
    from gputui.model.report import Report

_COUNTED = re.compile(r"(^|\s)(-c|-s|--launch-(count|skip))(?=[\s=:]|$)")
"""Options of ncu that cut launches off at the ends."""


def counters_side(
    reports: Sequence[tuple[Report, Sequence[Diagnosis]]], keep: Callable[[Kernel], bool] | None = None
) -> Side:
    """The launches of these reports that ``keep`` holds for, with their diagnoses in launch order.

    Launches that the report breaks off before (no time, no grid) are left out.
    """
    chosen = [
        diagnosis
        for _, diagnoses in reports
        for diagnosis in diagnoses
        if (keep is None or keep(diagnosis.kernel)) and not _is_cut_off(diagnosis.kernel)
    ]
    period = _period([(normalised(one.kernel.demangled), one.kernel.grid, one.kernel.block) for one in chosen])
    passes = len(chosen) // period if period else 0
    members = tuple(_member(place, chosen[place : passes * period : period]) for place in range(period))
    return Side(
        kind="counters",
        reports=tuple(report for report, _ in reports),
        members=members,
        passes=passes,
        launches=len(chosen),
        is_part=any(_is_part(report) for report, _ in reports),
    )


def _is_cut_off(kernel: Kernel) -> bool:
    return kernel.duration_ns is None and kernel.grid is None


def _is_part(report: Report) -> bool:
    command = report.session.command_line or ""
    return Launches(report.kernels, report.session).filtered or _COUNTED.search(command) is not None


def _period(keys: Sequence[object]) -> int:
    """After how many launches everything repeats, to the end of the last pass; all of them where nothing does.

    A last pass that is not whole does not count.
    """
    count = len(keys)
    for period in range(1, count // 2 + 1):
        if all(keys[place] == keys[place - period] for place in range(period, count)):
            return period
    return count


def _member(place: int, launches: Sequence[Diagnosis]) -> Member:
    first = launches[0]
    durations = [one.kernel.duration_ns for one in launches]
    known = tuple(duration for duration in durations if duration is not None)
    return Member(
        place=place,
        kernel=first.kernel,
        identity=first.identity,
        op=first.transformer_op,
        nvtx=tuple(map(without_numbers, first.kernel.nvtx)),
        durations_ns=known if len(known) == len(durations) else (),
        diagnoses=tuple(launches),
    )
