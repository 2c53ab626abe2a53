"""Sets of time as sorted, disjoint, half-open intervals: unions, gaps, overlaps, and how much of a cell is covered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]
"""Times or durations in nanoseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """``[start, end)`` sorted, disjoint and not touching; ``before[i]`` is the length of all intervals before ``i``.

    ``before`` has one element more than the others: its last is the whole length.
    """

    start: Ns
    end: Ns
    before: Ns

    @classmethod
    def union(cls, start: Ns, end: Ns) -> Intervals:
        """What is covered by intervals in any order, overlapping or not. Empty and reversed ones cover nothing."""
        real = end > start
        if not real.all():
            start, end = start[real], end[real]
        if len(start) == 0:
            return EMPTY
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        first = np.concatenate(([True], start[1:] > reach[:-1]))
        last = np.concatenate((first[1:], [True]))
        return cls._of(start[first], reach[last])

    @classmethod
    def _of(cls, start: Ns, end: Ns) -> Intervals:
        before = np.zeros(len(start) + 1, dtype=np.int64)
        np.cumsum(end - start, out=before[1:])
        return cls(start, end, before)

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """The whole length in ns."""
        return int(self.before[-1])

    def up_to(self, time: Ns) -> Ns:
        """How much is covered before each of ``time``."""
        if not len(self.start):
            return np.zeros(len(time), dtype=np.int64)
        place = np.searchsorted(self.start, time, side="right") - 1
        held = np.maximum(place, 0)
        inside = np.clip(time - self.start[held], 0, self.end[held] - self.start[held])
        return np.where(place < 0, 0, self.before[held] + inside)

    def within(self, edges: Ns) -> Ns:
        """How much of each cell ``[edges[i], edges[i + 1])`` is covered: exact, at any zoom."""
        return np.diff(self.up_to(edges))

    def length_in(self, start: int, end: int) -> int:
        """How much of ``[start, end)`` is covered."""
        covered = self.up_to(np.array([start, max(start, end)], dtype=np.int64))
        return int(covered[1] - covered[0])

    def clip(self, start: int, end: int) -> Intervals:
        """The part in ``[start, end)``."""
        if not len(self.start) or end <= start:
            return EMPTY
        return Intervals.union(np.clip(self.start, start, end), np.clip(self.end, start, end))

    def gaps(self, start: int, end: int) -> Intervals:
        """What of ``[start, end)`` is not covered."""
        if end <= start:
            return EMPTY
        inner = self.clip(start, end)
        return Intervals.union(
            np.concatenate((np.array([start], dtype=np.int64), inner.end)),
            np.concatenate((inner.start, np.array([end], dtype=np.int64))),
        )

    def intersect(self, other: Intervals) -> Intervals:
        """What both cover."""
        if not len(self) or not len(other):
            return EMPTY
        # What both cover begins where one begins within the other, and ends where one ends within the other.
        start = np.concatenate((self.start[other.holds(self.start)], other.start[self.holds(other.start, inside=True)]))
        end = np.concatenate((self.end[other.reaches(self.end)], other.end[self.reaches(other.end, inside=True)]))
        return Intervals._of(np.sort(start), np.sort(end))

    def holds(self, time: Ns, *, inside: bool = False) -> npt.NDArray[np.bool_]:
        """Whether an interval covers each time; with ``inside``, not as its first."""
        place = np.searchsorted(self.start, time, side="left" if inside else "right") - 1
        return (place >= 0) & (time < self.end[np.maximum(place, 0)])

    def reaches(self, time: Ns, *, inside: bool = False) -> npt.NDArray[np.bool_]:
        """Whether an interval covers all up to each time; with ``inside``, not as its end."""
        place = np.searchsorted(self.start, time, side="left") - 1
        ends = self.end[np.maximum(place, 0)]
        return (place >= 0) & ((time < ends) if inside else (time <= ends))

    def minus(self, other: Intervals) -> Intervals:
        """What this covers and ``other`` does not."""
        if not len(self) or not len(other):
            return self
        return self.intersect(other.gaps(int(self.start[0]), int(self.end[-1])))


EMPTY = Intervals(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64))


def any_of(sets: Sequence[Intervals]) -> Intervals:
    """What any of them covers."""
    if len(sets) == 1:
        return sets[0]
    return Intervals.union(
        np.concatenate([EMPTY.start, *(one.start for one in sets)]),
        np.concatenate([EMPTY.end, *(one.end for one in sets)]),
    )


def levels(start: Ns, end: Ns) -> npt.NDArray[np.int16]:
    """The sub-lane of each event so that no two of one sub-lane overlap; ``start`` is sorted.

    First fit: a nested event lies below what encloses it. Events that follow one another without overlap are all 0.
    """
    level = np.zeros(len(start), dtype=np.int16)
    if len(start) < 2:
        return level
    reach = np.maximum.accumulate(end)
    clear = np.concatenate(([True], start[1:] >= reach[:-1]))
    if clear.all():
        return level
    # Only runs of overlapping events need a look each.
    firsts = np.flatnonzero(clear)
    lasts = np.append(firsts[1:], len(start))
    busy = lasts - firsts > 1
    for first, last in zip(firsts[busy].tolist(), lasts[busy].tolist(), strict=True):
        ends: list[int] = []
        starts_here, ends_here = start[first:last].tolist(), end[first:last].tolist()
        for place, (begin, finish) in enumerate(zip(starts_here, ends_here, strict=True)):
            for free, until in enumerate(ends):
                if until <= begin:
                    ends[free] = finish
                    break
            else:
                free = len(ends)
                if free < _MOST_LEVELS:
                    ends.append(finish)
                else:
                    free -= 1
            level[first + place] = free
    return level


_MOST_LEVELS = 64
"""Sub-lanes of one lane: what overlaps deeper shares the last one."""
