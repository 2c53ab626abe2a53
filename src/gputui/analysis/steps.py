"""The program's loop: its iterations, and which of them are warm-up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gputui.model.timeline import Ids, RangeKind

if TYPE_CHECKING:
    from gputui.analysis.timeline import TimelineFacts


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of the program's loop."""

    start_ns: int
    end_ns: int
    name: str = ""

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Steps:
    """The iterations that the capture shows, in order. ``warm_up`` of them, at the start, are slower than the rest.

    ``source`` says what tells them: ``"nvtx"`` ranges of one name (numbers aside), or ``"kernels"``: a sequence of
    kernels that repeats. ``label`` is the range's name with ``#`` for numbers, or the kernel that begins a step.
    """

    steps: tuple[Step, ...]
    source: Literal["nvtx", "kernels"]
    label: str
    warm_up: int

    @property
    def steady(self) -> tuple[Step, ...]:
        return self.steps[self.warm_up :]

    @property
    def median_ns(self) -> float:
        """Of the steady steps."""
        return float(np.median([step.duration_ns for step in self.steady]))


def without_numbers(name: str) -> str:
    """A range's name with ``#`` for its numbers: ``step 12`` is ``step #``, ``ProfilerStep#3`` ``ProfilerStep#``."""
    return _NUMBERS.sub("#", name)


def find_steps(facts: TimelineFacts) -> Steps | None:
    """From NVTX ranges where they tell it, else from kernels that repeat; ``None`` where neither does."""
    return _steps_of_ranges(facts) or _steps_of_kernels(facts)


_NUMBERS = re.compile(r"#?\d+")
_OPERATOR = re.compile(r"^(aten|autograd|c10d|nccl|torch\w*)::|, (seq|op_id) = \d")
"""PyTorch's operators (``aten::mm``, ``MmBackward0, seq = 12``) are no steps, however much time they fill."""
_LEAST_STEPS = 3
_SLOW = 1.5
"""A step at the start that takes so many times the median belongs to the warm-up."""
_COVERS = 0.5
"""Steps fill at least this share of the time from first to last GPU work."""


def _steps_of_ranges(facts: TimelineFacts) -> Steps | None:
    """The outermost ranges of one name (numbers aside), one after the other, that launch work and fill the time."""
    timeline = facts.timeline
    ranges, ops = timeline.ranges, timeline.ops
    usable = (ranges.kind != RangeKind.MARK) & ~ranges.is_open
    if not len(ops) or not usable.any():
        return None
    first, last = int(ops.start[0]), int(ops.end.max())
    labels: dict[str, int] = {}
    label_of = np.array([labels.setdefault(without_numbers(name), len(labels)) for name in timeline.names])
    operators = np.array([_OPERATOR.search(name) is not None for name in timeline.names], dtype=bool)
    rows = np.flatnonzero(usable & (facts.projection.kernels > 0) & ~operators[ranges.name])
    rows = rows[ranges.depth[rows] <= _DEEPEST_STEP]
    best: tuple[float, int, npt.NDArray[np.intp]] | None = None
    keys = np.stack((label_of[ranges.name[rows]], ranges.thread[rows], ranges.domain[rows], ranges.depth[rows]), axis=1)
    found, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.reshape(-1)
    for number in range(len(found)):
        chosen = rows[place == number]
        if len(chosen) < _LEAST_STEPS or (ranges.start[chosen][1:] < ranges.end[chosen][:-1]).any():
            continue
        covered = int((ranges.end[chosen] - ranges.start[chosen]).sum()) / max(1, last - first)
        depth = int(found[number][3])
        # Of ranges that fill the time about as well, the outer ones are the steps.
        if covered >= _COVERS and (best is None or (depth, -covered) < (best[1], -best[0])):
            best = covered, depth, chosen
    if best is None:
        return None
    chosen = best[2]
    ends = np.maximum(ranges.end[chosen], np.append(ranges.start[chosen][1:], ranges.end[chosen][-1]))
    # The CPU may be done with the last step long before the GPU is.
    ends[-1] = max(int(ends[-1]), int(facts.projection.end[chosen[-1]]))
    steps = tuple(
        Step(start, end, timeline.name(name))
        for start, end, name in zip(
            ranges.start[chosen].tolist(), ends.tolist(), ranges.name[chosen].tolist(), strict=True
        )
    )
    label = without_numbers(steps[0].name)
    return Steps(steps, "nvtx", label, _warm_up(steps))


_DEEPEST_STEP = 3


def _steps_of_kernels(facts: TimelineFacts) -> Steps | None:
    """Where the kernels of the busiest stream repeat: a step from each launch of one that comes once a round."""
    timeline = facts.timeline
    rows = np.flatnonzero(facts.kernel_mask)
    if len(rows) < _LEAST_STEPS * 2:
        return None
    streams = timeline.ops.stream[rows]
    weights = np.bincount(streams, weights=timeline.ops.duration[rows])
    rows = rows[streams == int(weights.argmax())]
    name, start = timeline.ops.name[rows], timeline.ops.start[rows]
    counts = np.bincount(name)
    best: npt.NDArray[np.intp] | None = None
    for candidate in np.argsort(np.where(counts >= _LEAST_STEPS, counts, np.iinfo(np.int64).max))[:16].tolist():
        if counts[candidate] < _LEAST_STEPS:
            break
        at = np.flatnonzero(name == candidate)
        rounds = np.diff(at)
        typical = int(np.median(rounds))
        regular = typical >= 2 and float((np.abs(rounds - typical) <= max(1, typical // 50)).mean()) >= _REGULAR
        covered = (start[at[-1]] - start[at[0]]) / max(1, int(start[-1] - start[0]))
        if regular and covered >= _COVERS and _same_rounds(name, at, typical):
            best = at
            break
    if best is None:
        return None
    label = timeline.name(int(name[best[0]]))
    borders = start[best].tolist()
    steps = tuple(Step(begin, end, label) for begin, end in pairwise(borders))
    return Steps(steps, "kernels", label, _warm_up(steps)) if len(steps) >= _LEAST_STEPS else None


_REGULAR = 0.9
"""So many of the rounds have the usual number of kernels."""


def _same_rounds(name: Ids, at: npt.NDArray[np.intp], length: int) -> bool:
    """Whether the rounds of the usual length mostly hold the same kernels in the same order."""
    starts = at[:-1][np.diff(at) == length][:64]
    if len(starts) < _LEAST_STEPS - 1:
        return False
    rounds = name[starts[:, None] + np.arange(length)[None, :]]
    usual = np.sort(rounds, axis=0)[len(rounds) // 2]
    return float((rounds == usual).mean()) >= 1 - 0.02


def _warm_up(steps: Sequence[Step]) -> int:
    """How many steps at the start are slower than the rest; at least two steps remain."""
    durations = np.array([step.duration_ns for step in steps], dtype=np.float64)
    usual = float(np.median(durations[len(durations) // 2 :]))
    slow = 0
    while slow < len(steps) - 2 and durations[slow] > _SLOW * usual:
        slow += 1
    return slow
