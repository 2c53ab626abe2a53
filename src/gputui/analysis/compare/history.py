"""What became of a program over its runs: time, DRAM bytes and tensor use, of all its kernels and of each group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from gputui.analysis.compare.amounts import amounts
from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.matching import match
from gputui.analysis.compare.model import Amounts
from gputui.analysis.compare.sides import begun_alike

if TYPE_CHECKING:
    from datetime import datetime

    from gputui.analysis.compare.model import Caution, Comparison, Kind, Member, Side, TimeChange, Wall

Measure = Literal["step", "span", "gpu"]
"""What the time of a run is: that of the program's step, from the first to the last work of the GPU, or the GPU's."""

_PARTS_OF_ATTENTION = frozenset({"attention-scores", "softmax", "attention-values"})


@dataclass(frozen=True, eq=False)
class HistoryRun:
    """A run as it is told to ``history``. ``state`` as ``RunSummary.state``, or ``"damaged"``; ``problems`` say what
    could not be read."""

    name: str
    started: datetime | None
    note: str
    side_counters: Side | None
    side_timeline: Side | None
    state: str = "done"
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What kernels do: a step of a transformer, an op class, or what one function does where neither is known."""

    name: str
    is_function: bool = False


@dataclass(frozen=True, slots=True)
class Since:
    """How the time changed since the run at the place ``against``, and what must be said of that."""

    against: int
    time: TimeChange
    cautions: tuple[Caution, ...]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run. Times in ns and kernels are of one pass; what it does not tell is ``None``.

    ``wall_ns`` is of a timeline, DRAM bytes and tensor use are of the kernels that were counted: chosen ones alone
    where it is a ``part``. ``step`` is the change since the last run before it that tells, ``total`` since the first.
    """

    name: str
    started: datetime | None
    note: str
    state: str
    problems: tuple[str, ...]
    gpu: str | None = None
    wall_ns: float | None = None
    time_ns: float | None = None
    kernels: int | None = None
    dram_bytes: float | None = None
    tensor_pct: float | None = None
    part: bool = False
    step: Since | None = None
    total: Since | None = None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Kernels that do ``work``, and those that they took the place of over the runs, which did ``also`` other things.

    ``runs`` has what they take in each run, as reports of this ``kind`` tell it.
    """

    kind: Kind
    work: Work
    also: tuple[Work, ...]
    runs: tuple[Amounts | None, ...]


_BETTER = 1.05
"""The fastest run is told where it is so much faster than the last one."""


@dataclass(frozen=True, slots=True)
class History:
    """The runs, oldest first. Times and kernels are told by reports of one ``kind``, ``None`` where no run has any.

    ``others`` counts the runs of other programs, by program.
    """

    kind: Kind | None
    measure: Measure
    runs: tuple[RunRow, ...]
    groups: tuple[GroupRow, ...]
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def fastest(self) -> int | None:
        """The place of the run that is fastest; ``None`` where that is the last one, or hardly faster than it."""
        speeds = {
            place: row.total.time.speedup
            for place, row in enumerate(self.runs)
            if row.total is not None and row.total.time.outcome == "faster" and row.total.time.speedup is not None
        }
        best = max(speeds, key=lambda place: speeds[place], default=None)
        last = self.change.time.speedup if self.change is not None else None
        return best if best is not None and last is not None and speeds[best] > _BETTER * last else None

    @property
    def told(self) -> tuple[int, ...]:
        """The places of the runs that tell their kernels."""
        return tuple(place for place, row in enumerate(self.runs) if row.kernels is not None)

    @property
    def change(self) -> Since | None:
        """From the first run that tells to the last."""
        return next((row.total for row in reversed(self.runs) if row.total is not None), None)

    @property
    def largest(self) -> int | None:
        """The place of the run that did most of the change, where several did something."""
        if self.change is None or self.change.time.outcome not in ("faster", "slower"):
            return None
        steps = {place: row.step.time for place, row in enumerate(self.runs) if row.step is not None}
        if len(steps) < 2:
            return None
        sign = 1 if self.change.time.outcome == "faster" else -1
        alike = {
            place: sign * step.speedup
            for place, step in steps.items()
            if step.outcome == self.change.time.outcome and step.speedup is not None
        }
        return max(alike, key=lambda place: alike[place], default=None)


def history(runs: Iterable[HistoryRun], others: Mapping[str, int] | None = None) -> History:
    """Of the runs of one program, oldest first. Of their sides no more than three are kept at a time."""
    chains: dict[Kind, _Chain] = {"timeline": _Chain("timeline"), "counters": _Chain("counters")}
    given: list[HistoryRun] = []
    for place, run in enumerate(runs):
        for side in (run.side_timeline, run.side_counters):
            if side is not None and side.members:
                chains[side.kind].add(place, side)
        given.append(replace(run, side_timeline=None, side_counters=None))
    timeline, counters = chains["timeline"], chains["counters"]
    kind: Kind | None = None
    if timeline.links or counters.links:
        kind = "timeline" if len(timeline.links) >= len(counters.links) else "counters"
    measure = _measure([link.wall for link in timeline.links.values()] if kind == "timeline" else [])
    return History(
        kind=kind,
        measure=measure,
        runs=tuple(
            _row(run, None if kind is None else chains[kind].links.get(place), timeline.links.get(place),
                 counters.links.get(place), measure)
            for place, run in enumerate(given)
        ),
        groups=(*timeline.groups(len(given)), *counters.groups(len(given))),
        others=others or {},
    )  # fmt: skip


def _measure(walls: Sequence[Wall | None]) -> Measure:
    """That which all runs tell."""
    sources = {None if wall is None else wall.source for wall in walls}
    return "gpu" if None in sources or not sources else "span" if "span" in sources else "step"


def _row(
    run: HistoryRun, timed: _Link | None, timeline: _Link | None, counters: _Link | None, measure: Measure
) -> RunRow:
    wall = timeline.wall if timeline is not None else None
    return RunRow(
        name=run.name,
        started=run.started,
        note=run.note,
        state=run.state,
        problems=run.problems,
        gpu=next((link.gpu for link in (timed, timeline, counters) if link is not None), None),
        wall_ns=fmean(wall.durations_ns) if wall is not None else None,
        # Of chosen kernels alone it is no time of the program.
        time_ns=timed.amounts.time_ns if timed is not None and not timed.is_part else None,
        kernels=timed.amounts.kernels if timed is not None else None,
        dram_bytes=counters.amounts.dram_bytes if counters is not None else None,
        tensor_pct=counters.amounts.tensor_pct if counters is not None else None,
        part=counters.is_part if counters is not None else False,
        step=_since(timed.step, measure) if timed is not None else None,
        total=_since(timed.total, measure) if timed is not None else None,
    )


def _since(found: _Found | None, measure: Measure) -> Since | None:
    if found is None:
        return None
    time = found.time if measure == "gpu" or found.wall is None else found.wall
    return Since(found.against, time, found.cautions)


# ------------------------------------------------------------------ run after run


@dataclass(frozen=True, slots=True)
class _Found:
    """What is kept of a comparison with the run at the place ``against``."""

    against: int
    time: TimeChange
    wall: TimeChange | None
    cautions: tuple[Caution, ...]


@dataclass(frozen=True, slots=True)
class _Link:
    """What is kept of a side."""

    members: Mapping[int, Member]
    amounts: Amounts
    wall: Wall | None
    gpu: str | None
    is_part: bool
    step: _Found | None
    total: _Found | None


_Node = tuple[int, int]
"""The place of a run, and that of a member in it."""


class _Chain:
    """The runs that have a side of one kind, each compared with the one before it and with the first."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.links: dict[int, _Link] = {}
        self._ends: list[tuple[int, Side]] = []
        self._same: list[list[_Node]] = []
        self._missing: list[tuple[_Node, int]] = []
        """Members, each with a run that may have left it out."""

    def add(self, place: int, side: Side) -> None:
        step = total = None
        if self._ends:
            (first, first_side), (last, last_side) = self._ends[0], self._ends[-1]
            step = total = _kept(last, compare(last_side, side))
            if first != last:
                total = _kept(first, compare(first_side, side))
            self._chain((last, last_side), (place, side))
        self.links[place] = _Link(
            members={member.place: member for member in side.members},
            amounts=amounts(side.members),
            wall=side.wall,
            gpu=side.device.name if side.device is not None else None,
            is_part=side.is_part,
            step=step,
            total=total,
        )
        self._ends = [*self._ends[:1], (place, side)]

    def _chain(self, before: tuple[int, Side], after: tuple[int, Side]) -> None:
        """Note what became what, and what may be missing in one of the two because it left launches out."""
        runs, sides = (before[0], after[0]), (before[1], after[1])
        # Where they begin alike their members have other places.
        places = [{id(member.kernel): member.place for member in side.members} for side in sides]
        base, new = begun_alike(*sides)
        for one in match(base.members, new.members):
            nodes = [
                (run, own[id(member.kernel)])
                for run, own, members in zip(runs, places, (one.base, one.new), strict=True)
                for member in members
            ]
            self._same.append(nodes)
            if not (one.base and one.new) and any(side.is_part for side in sides):
                self._missing += [(node, runs[0] if one.new else runs[1]) for node in nodes]

    def groups(self, runs: int) -> Iterator[GroupRow]:
        """A row for each kind of work, the longest first."""
        found: dict[Work, list[_Node]] = {}
        for nodes in self._united():
            found.setdefault(self._work(nodes), []).extend(nodes)
        rows = [self._group(work, nodes, runs) for work, nodes in found.items()]
        yield from sorted(rows, key=_longest_ns, reverse=True)

    def _united(self) -> Iterable[list[_Node]]:
        """The members of all runs, those together that became each other."""
        above = {(run, place): (run, place) for run, link in self.links.items() for place in link.members}

        def top(node: _Node) -> _Node:
            while above[node] != node:
                above[node] = above[above[node]]
                node = above[node]
            return node

        for first, *others in self._same:
            for other in others:
                above[top(other)] = top(first)
        found: dict[_Node, list[_Node]] = {}
        for node in above:
            found.setdefault(top(node), []).append(node)
        return found.values()

    def _work(self, nodes: Sequence[_Node]) -> Work:
        """What takes most of the time in the newest run; attention where it is one kernel in any."""
        works = {_work_of(self._member(node)) for node in nodes}
        if Work("attention") in works:
            return Work("attention")
        newest = max(run for run, _ in nodes)
        times: dict[Work, float] = {}
        for node in nodes:
            if node[0] == newest:
                work = _work_of(self._member(node))
                times[work] = times.get(work, 0.0) + (self._member(node).time_ns or 0.0)
        return max(times, key=lambda work: times[work])

    def _group(self, work: Work, nodes: Sequence[_Node], runs: int) -> GroupRow:
        works = dict.fromkeys(_work_of(self._member(node)) for node in nodes)
        hidden = {work.name, *(_PARTS_OF_ATTENTION if work.name == "attention" else ())}
        by_run: dict[int, list[Member]] = {run: [] for run, link in self.links.items() if not link.is_part}
        for node in sorted(nodes):
            by_run.setdefault(node[0], []).append(self._member(node))
        for node, run in self._missing:
            if node in nodes:
                by_run.pop(run, None)
        return GroupRow(
            kind=self.kind,
            work=work,
            also=tuple(one for one in works if one.name not in hidden),
            runs=tuple(self._amounts(by_run[run]) if run in by_run else None for run in range(runs)),
        )

    def _amounts(self, members: Sequence[Member]) -> Amounts:
        if members or self.kind == "timeline":
            return amounts(members)
        return Amounts(0, 0.0, dram_bytes=0.0)

    def _member(self, node: _Node) -> Member:
        run, place = node
        return self.links[run].members[place]


def _kept(against: int, found: Comparison) -> _Found:
    return _Found(against, found.time, found.wall, found.cautions)


def _work_of(member: Member) -> Work:
    op_class = member.identity.op_class
    if member.op is not None and op_class != "attention":
        return Work(member.op)
    return Work(member.kernel.name, is_function=True) if op_class == "other" else Work(op_class)


def _longest_ns(row: GroupRow) -> float:
    return max((one.time_ns or 0.0 for one in row.runs if one is not None), default=0.0)
