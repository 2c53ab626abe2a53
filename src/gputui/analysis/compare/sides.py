"""A side of a comparison from reports with counters: what one pass launches, and how often it was done."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING

import numpy as np

from gputui.analysis.compare.amounts import as_many, flops_in
from gputui.analysis.compare.matching import in_order, likeness_table, order_of
from gputui.analysis.compare.model import Member, Side, numbered
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
    is_part = any(_is_part(report) for report, _ in reports)
    period = _period([_Launch.of(one) for one in chosen], least=_LEAST_REPEATED if is_part else None)
    passes = len(chosen) // period if period else 0
    # Of a window of the launches the last pass may be no whole one: it tells its launches once more.
    end = len(chosen) if is_part else passes * period
    is_cyclic = is_part and period < len(chosen)
    members = tuple(_member(place, chosen[place:end:period]) for place in range(period))
    return Side(
        kind="counters",
        reports=tuple(report for report, _ in reports),
        # Where a pass may begin anywhere a number says nothing.
        members=members if is_cyclic else numbered(members),
        passes=passes,
        launches=len(chosen),
        is_part=is_part,
        is_cyclic=is_cyclic,
    )


_LEAST_REPEATED = 2
"""So many launches at the end of a window that are those at its beginning: there a pass is over. One alone may be
one of several in a pass."""


def _is_cut_off(kernel: Kernel) -> bool:
    return kernel.duration_ns is None and kernel.grid is None


def _is_part(report: Report) -> bool:
    command = report.session.command_line or ""
    return report.truncated or Launches(report.kernels, report.session).filtered or _COUNTED.search(command) is not None


@dataclass(frozen=True, slots=True)
class _Launch:
    """What tells one launch of a pass from the next: products of many sizes have one name and one grid."""

    what: tuple[object, ...]
    flops: float | None
    time_ns: float | None

    @classmethod
    def of(cls, one: Diagnosis) -> _Launch:
        kernel = one.kernel
        what = (normalised(kernel.demangled), kernel.grid, kernel.block, kernel.nvtx, kernel.device)
        return cls(what, flops_in(one), kernel.duration_ns)

    def does_as(self, other: _Launch) -> bool:
        """Whether both do the same work: as many operations, or where those are not counted in about the same time."""
        if self.what != other.what:
            return False
        if self.flops and other.flops:
            return as_many(self.flops, other.flops)
        return not (self.time_ns and other.time_ns) or abs(log(self.time_ns / other.time_ns)) < _SAME_TIME


_SAME_TIME = log(1.5)


def _period(launches: Sequence[_Launch], least: int | None) -> int:
    """After how many launches everything repeats, to the end; all of them where nothing does.

    A whole pass must be repeated, or ``least`` launches.
    """
    count = len(launches)
    for period in range(1, count):
        if count - period < (period if least is None else min(least, period)):
            break
        if all(launches[place].does_as(launches[place - period]) for place in range(period, count)):
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


# ------------------------------------------------------------------ where a pass begins

_MOST_TRIED = 48


def begun_alike(base: Side, new: Side) -> tuple[Side, Side]:
    """Both sides turned so that their passes begin with the same work, where they may begin anywhere.

    Of the ways to begin with two launches that are much alike the one by which most is alike in order.
    """
    if not (base.is_cyclic or new.is_cyclic) or not (base.members and new.members):
        return base, new
    if order_of(new.members) < order_of(base.members):
        new, base = begun_alike(new, base)
        return base, new
    table = likeness_table(base.members, new.members)
    firsts = range(len(base.members)) if base.is_cyclic else (0,)
    others = range(len(new.members)) if new.is_cyclic else (0,)
    tries = sorted(((i, j) for i in firsts for j in others), key=lambda one: -table[one])[:_MOST_TRIED]
    i, j = max(tries, key=lambda one: in_order(np.roll(table, (-one[0], -one[1]), (0, 1))))
    return _turned(base, i), _turned(new, j)


def _turned(side: Side, first: int) -> Side:
    if not first:
        return side
    members = [*side.members[first:], *side.members[:first]]
    return replace(side, members=tuple(replace(member, place=place) for place, member in enumerate(members)))
