"""A side of a comparison from a timeline: what a steady step launches on one GPU, and how long that took in each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gputui.analysis.compare.model import Answer, Caution, Member, Side, Wall, numbered
from gputui.analysis.compare.timing import LEAST_CHANGE
from gputui.analysis.kernel_names import identify
from gputui.analysis.links import normalised
from gputui.analysis.nvtx import DEEPEST
from gputui.analysis.steps import Steps, without_numbers
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.analysis.timeline_tables import PARTICULARS, select_ops
from gputui.analysis.transformer import op_of_ranges
from gputui.errors import GputuiError
from gputui.model.device import Device
from gputui.model.intervals import Intervals
from gputui.model.kernel import Kernel
from gputui.model.report import NoMetrics
from gputui.model.timeline import LaunchShape, OpKind

if TYPE_CHECKING:
    from typing import Any

    from gputui.analysis.compare.matching import Match
    from gputui.model.report import Report

    Rows = npt.NDArray[Any]

_LAUNCHED = (OpKind.KERNEL, OpKind.GRAPH)
_MOST_PLACES = 3_000
"""A step of more launches is told by kernel, range and shape: launches are laid beside each other one by one."""
_MOST_PASSES = 1_000
_USUAL = 0.9
"""So many of the steps launch the same kernels where each launch is told: the others were cut off by the recording."""


def timeline_side(
    report: Report,
    kernel: re.Pattern[str] | None = None,
    nvtx: re.Pattern[str] | None = None,
    diagnosis: TimelineDiagnosis | None = None,
) -> Side:
    """The kernels that these patterns find (``select_ops``), of the GPU that is busiest with them.

    A pass is a steady step that launches any of them; without steps the recording is the only one. Where nearly all
    passes launch the same kernels there is a member for each launch, else one for all of a kernel in an NVTX range and
    shape. Raises ``GputuiError`` where the report is no timeline, or has too many different kernels.
    """
    if report.timeline is None:
        raise GputuiError(report.path, "is no timeline", "Compare it with another Nsight Compute report")
    diagnosis = diagnosis or diagnose_timeline(TimelineFacts(report.timeline), report.notices)
    facts, ops = diagnosis.facts, report.timeline.ops
    nothing = Side("timeline", (report,), (), 0, 0, False, diagnosis=diagnosis)
    asked = select_ops(facts, kernel, nvtx)
    launches = np.flatnonzero(asked & np.isin(ops.kind, _LAUNCHED))
    if not len(launches):
        return nothing
    gpu = int(np.bincount(facts.op_gpu[launches], weights=ops.duration[launches]).argmax())
    steps = _steady(diagnosis)
    rows, pass_of = _by_pass(facts, np.flatnonzero(asked & (facts.op_gpu == gpu)), steps)
    is_launch = np.isin(ops.kind[rows], _LAUNCHED)
    kept, of = np.unique(pass_of[is_launch], return_inverse=True)
    if not len(kept):
        return nothing
    tell = _Members(diagnosis, gpu, rows[is_launch])
    table = _places(ops.name[tell.rows], of)
    if table is None:
        members = tell.merged(of, len(kept))
    else:
        members, kept = tell.each(table[0]), kept[table[1]]
    is_cyclic = steps is not None and steps.source == "kernels"
    return Side(
        kind="timeline",
        reports=(report,),
        members=members if is_cyclic else numbered(members),
        passes=len(kept),
        launches=round(len(kept) * sum(member.count for member in members)),
        is_part=False,
        is_chosen=kernel is not None or nvtx is not None,
        is_cyclic=is_cyclic,
        wall=None if kernel is not None else _wall(facts, gpu, rows, pass_of, kept, steps, is_whole=nvtx is None),
        diagnosis=diagnosis,
    )


# ------------------------------------------------------------------ passes


def _steady(diagnosis: TimelineDiagnosis) -> Steps | None:
    """The steps that the diagnosis looks at: the steady ones, or those in the middle of a very long recording."""
    steps, window = diagnosis.facts.steps, diagnosis.window
    if steps is None:
        return None
    inside = [one for one in steps.steady if one.start_ns >= window.start_ns and one.end_ns <= window.end_ns]
    chosen = (inside or steps.steady)[-_MOST_PASSES:]
    first = steps.steps.index(chosen[0])
    # What comes before tells when the first of them began.
    return Steps(steps.steps[: first + len(chosen)], steps.source, steps.label, first)


def _by_pass(facts: TimelineFacts, rows: Rows, steps: Steps | None) -> tuple[Rows, Rows]:
    """Those of the operations that belong to a pass, in the order of their launch, and the pass of each."""
    ops, calls = facts.timeline.ops, facts.timeline.calls
    time = ops.start[rows]
    # Steps from kernels have their borders on the GPU; ranges on the CPU, where the launch is what lies in them.
    if len(calls) and (steps is None or steps.source == "nvtx"):
        call = ops.call[rows]
        time = np.where(call >= 0, calls.start[call], time)
    order = np.argsort(time, kind="stable")
    rows, time = rows[order], time[order]
    if steps is None:
        return rows, np.zeros(len(rows), dtype=np.int64)
    borders = np.array([*(one.start_ns for one in steps.steady), steps.steady[-1].end_ns])
    place = np.searchsorted(borders, time, side="right") - 1
    inside = (place >= 0) & (place < len(steps.steady))
    return rows[inside], place[inside]


def _places(name: Rows, of: Rows) -> tuple[Rows, Rows] | None:
    """A row a pass and a column a launch, in the first pass's order, and which passes: those with the same kernels.

    A pass's launches of one name keep their order; different ones may change theirs, as streams and threads do.
    ``None`` where less than nine of ten passes launch the same kernels, or too many.
    """
    counts = np.bincount(of)
    usual = int(np.bincount(counts).argmax())
    if usual > _MOST_PLACES:
        return None
    order = np.lexsort((name, of))
    whole = counts == usual
    table = order[whole[of[order]]].reshape(-1, usual)
    _, kind, how_many = np.unique(name[table], axis=0, return_inverse=True, return_counts=True)
    alike = kind.reshape(-1) == how_many.argmax()
    if alike.sum() < _USUAL * len(counts):
        return None
    table = table[alike]
    return table[:, np.argsort(table[0])], np.flatnonzero(whole)[alike]


def _wall(
    facts: TimelineFacts, gpu: int, rows: Rows, pass_of: Rows, kept: Rows, steps: Steps | None, *, is_whole: bool
) -> Wall:
    """The steps' own times; of a part of them, and without steps, from its first work on the GPU to its last."""
    ops = facts.timeline.ops
    worked = facts.busy[gpu] if is_whole else Intervals.union(ops.start[rows], ops.end[rows])
    if steps is not None and is_whole:
        end = np.array([one.done_ns for one in steps.steady])
        start = end - np.array(steps.times_ns)
    else:
        size = int(pass_of.max()) + 1
        start, end = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
        np.minimum.at(start, pass_of, ops.start[rows])
        np.maximum.at(end, pass_of, ops.end[rows])
    spans = end[kept] - start[kept]
    busy = (worked.up_to(end[kept]) - worked.up_to(start[kept])).sum()
    return Wall(
        durations_ns=tuple(map(float, spans.tolist())),
        source="span" if steps is None else steps.source,
        busy_pct=100 * float(busy) / max(1, int(spans.sum())),
    )


# ------------------------------------------------------------------ members


class _Members:
    """What is launched on one GPU; ``rows`` are its launches in order."""

    def __init__(self, diagnosis: TimelineDiagnosis, gpu: int, rows: Rows) -> None:
        timeline = diagnosis.facts.timeline
        self.rows = rows
        self._facts = diagnosis.facts
        self._timeline = timeline
        self._path = self._facts.ranges_of_ops[rows]
        self._device = timeline.gpus[gpu].device if gpu < len(timeline.gpus) else Device("unknown GPU")
        self._shares = {share.group.name: share for share in diagnosis.kernels}
        self._labels: dict[int, str] = {}

    def each(self, table: Rows) -> tuple[Member, ...]:
        """One a column of places in ``rows``."""
        times = self._timeline.ops.duration[self.rows[table]]
        return tuple(
            self._member(place, int(first), self._path_of(int(self._path[first])), self._shape(int(first)),
                         times[:, place], 1.0)
            for place, first in enumerate(table[0].tolist())
        )  # fmt: skip

    def merged(self, of: Rows, passes: int) -> tuple[Member, ...]:
        """One for all launches of a kernel in an NVTX range and a shape; for all of a kernel where those are too many.

        A sample is the sum over a pass.
        """
        ops = self._timeline.ops
        name, detail = ops.name[self.rows].astype(np.int64), ops.detail[self.rows] + 1
        paths, path = self._numbered_paths()
        key = (name * len(paths) + path) * (int(detail.max()) + 1) + detail
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        in_detail = len(first) <= _MOST_PLACES
        if not in_detail:
            _, first, place = np.unique(name, return_index=True, return_inverse=True)
        if len(first) > _MOST_PLACES:
            raise GputuiError(
                self._timeline.files[0].path, f"has {len(first):,} different kernels, too many to pair",
                "Compare a part of them: --kernel or --nvtx",
            )  # fmt: skip
        times = np.bincount(place * passes + of, self._timeline.ops.duration[self.rows], len(first) * passes)
        times = times.reshape(len(first), passes)
        counts = np.bincount(place) / passes
        return tuple(
            self._member(
                number, int(first[one]), paths[path[first[one]]] if in_detail else (),
                self._shape(int(first[one])) if in_detail else LaunchShape(), times[one], float(counts[one]),
            )
            for number, one in enumerate(np.argsort(first).tolist())
        )  # fmt: skip

    def _member(
        self, place: int, launch: int, nvtx: tuple[str, ...], shape: LaunchShape, times: Rows, count: float
    ) -> Member:
        ops, facts = self._timeline.ops, self._facts
        row = int(self.rows[launch])
        name = int(ops.name[row])
        share = self._shares.get(name)
        full = self._timeline.name(name)
        identity = identify("", full) if share is None else share.identity
        kernel = Kernel(
            place if share is None else share.kernel.index,
            facts.short_name(name),
            full,
            self._device,
            NoMetrics(),
            grid=shape.grid,
            block=shape.block,
            nvtx=nvtx,
            workload="graph" if ops.kind[row] == OpKind.GRAPH else "kernel",
        )
        return Member(
            place=place,
            kernel=kernel,
            identity=identity,
            op=op_of_ranges(identity.op_class, nvtx),
            nvtx=nvtx,
            durations_ns=tuple(map(float, times.tolist())),
            count=count,
        )

    def _shape(self, launch: int) -> LaunchShape:
        detail = int(self._timeline.ops.detail[self.rows[launch]])
        return self._timeline.shapes[detail] if detail >= 0 else LaunchShape()

    def _path_of(self, row: int) -> tuple[str, ...]:
        """As ``TimelineFacts.range_path``, without numbers."""
        ranges = self._timeline.ranges
        path: list[str] = []
        while row >= 0 and len(path) < DEEPEST:
            name = int(ranges.name[row])
            if name not in self._labels:
                self._labels[name] = without_numbers(PARTICULARS.sub("", self._timeline.name(name)))
            path.append(self._labels[name])
            row = int(ranges.parent[row])
        return tuple(reversed(path))

    def _numbered_paths(self) -> tuple[Sequence[tuple[str, ...]], Rows]:
        """The different paths of the launches, and the place of each launch's own among them."""
        rows, which = np.unique(self._path, return_inverse=True)
        numbers: dict[tuple[str, ...], int] = {}
        of_row = np.array([numbers.setdefault(self._path_of(row), len(numbers)) for row in rows.tolist()])
        return list(numbers), of_row[which]


# ------------------------------------------------------------------ two of them


def same_steps(base: Side, new: Side, matches: Sequence[Match], works: Sequence[bool | None]) -> bool | None:
    """Whether a pass of both does the same work; ``works`` are of the matches.

    Not where most kernels that both have are launched in other shapes or numbers. Where both have steps that the same
    range or kernel begins they do; else where half of the time goes to kernels launched alike, and next to none to
    such as are launched otherwise or on one side alone.
    """
    total = alike = other = alone = 0.0
    for one, work in zip(matches, works, strict=True):
        time = sum(member.time_ns or 0.0 for member in (*one.base, *one.new))
        total += time
        ours, theirs = ({member.kind[0] for member in side} for side in (one.base, one.new))
        if work:
            alike += time
        elif ours == theirs:
            other += time
        elif not (ours and theirs):
            alone += time
    if other > alike and other > _LITTLE * total:
        return False
    if _label(base) is not None and _label(base) == _label(new):
        return True
    return True if 2 * alike >= total and other + alone <= 2 * _LITTLE * alike else None


_LITTLE = 0.05


def _label(side: Side) -> tuple[str, str] | None:
    """What begins a step."""
    steps = None if side.diagnosis is None else side.diagnosis.facts.steps
    return None if steps is None else (steps.source, normalised(steps.label))


def timeline_cautions(base: Side, new: Side, same_work: bool | None) -> Iterator[Caution]:
    """What must be said first of timelines; ``same_work`` as ``same_steps`` has it."""
    sides = base, new
    times: frozenset[Answer] = frozenset(("time", "wall"))
    before, after = (_label(side) for side in sides)
    if before is None and after is None:
        counts = [sum(member.count for member in side.members) for side in sides]
        unlike: frozenset[Answer] = frozenset() if counts[0] == counts[1] else frozenset(("wall",))
        yield Caution("no-steps", {}, unlike if same_work else times)
    elif before is None or after is None:
        without = base if before is None else new
        yield Caution("steps-of-one", {"file": without.reports[0].path}, times | {"kernels"})
    elif before != after and not same_work:
        yield Caution("other-steps", {"base": before[1], "new": after[1]}, times)
    if same_work is False:
        yield Caution("other-shapes", {}, times)
    if base.reports[0].kind != new.reports[0].kind:
        yield Caution("other-tool", {}, frozenset(("wall",)))
    if any(notice.id == "dropped-events" for side in sides for notice in side.reports[0].notices):
        yield Caution("events-lost", {}, times | {"kernels"})
    if any(member.kernel.workload == "graph" for side in sides for member in side.members):
        yield Caution("whole-graphs", {}, frozenset(("kernels",)))
    gpus = [_gpus_at_work(side) for side in sides]
    if gpus[0] != gpus[1]:
        yield Caution("gpu-count", {"base": gpus[0], "new": gpus[1]}, times)
    elif gpus[0] > 1:
        yield Caution("several-gpus", {"count": gpus[0]})
    yield from _collectives(base, new)


def _collectives(base: Side, new: Side) -> Iterator[Caution]:
    """Collectives wait for other GPUs: their time is no work, and leaves open what it could decide by itself."""
    whole, spent = [], []
    for side in (base, new):
        whole.append(sum(member.time_ns or 0.0 for member in side.members))
        spent.append(sum(one.time_ns or 0.0 for one in side.members if one.identity.op_class == "communication"))
    if not all(whole) or max(part / total for part, total in zip(spent, whole, strict=True)) < _LITTLE:
        return
    decides = abs(spent[0] - spent[1]) >= LEAST_CHANGE * min(whole)
    params = {"base_pct": 100 * spent[0] / whole[0], "new_pct": 100 * spent[1] / whole[1]}
    yield Caution("collectives", params, frozenset(("time",)) if decides else frozenset())


def _gpus_at_work(side: Side) -> int:
    """Those with a tenth or more of the kernel time of the busiest one."""
    assert side.diagnosis is not None
    facts = side.diagnosis.facts
    times = np.bincount(facts.op_gpu[facts.kernel_mask], weights=facts.timeline.ops.duration[facts.kernel_mask])
    return int((times >= 0.1 * times.max()).sum()) if len(times) else 0
