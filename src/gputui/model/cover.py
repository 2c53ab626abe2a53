"""How much of any stretch of time each class of many events covers: exact, at a cost that hardly grows with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gputui.model.intervals import Ns

_BLOCK = 16
"""Events between two stored sums: so many are summed anew for each time that is asked for."""
_PORTION = 1 << 16
"""Blocks that are summed at once: what a processor's cache holds."""


class Cover:
    """Events sorted by ``start``, each of one of ``classes`` classes (``of``: 0 and up).

    Where events overlap, the time belongs to the one that began first, so that no time counts twice. Beside the events
    themselves, half a byte a class is kept for each.
    """

    def __init__(self, start: Ns, end: Ns, of: npt.NDArray[Any], classes: int) -> None:
        if len(start) and (start[1:] < end[:-1]).any():
            reach = np.maximum.accumulate(end)
            start = np.concatenate((start[:1], np.maximum(start[1:], reach[:-1])))
            end = np.maximum(start, end)
        self._start = start
        self._end = end
        self._of = of
        blocks = len(start) // _BLOCK
        self._before = np.zeros((blocks + 1, classes), dtype=np.int64)
        for first in range(0, blocks, _PORTION):
            last = min(first + _PORTION, blocks)
            events = slice(first * _BLOCK, last * _BLOCK)
            key = np.repeat(np.arange(last - first) * classes, _BLOCK) + of[events]
            # In floats, which are exact here: a block lasts less than 2**53 ns, a hundred days.
            sums = np.bincount(key, weights=end[events] - start[events], minlength=(last - first) * classes)
            self._before[first + 1 : last + 1] = sums.reshape(-1, classes)
        np.cumsum(self._before, axis=0, out=self._before)

    def up_to(self, times: Ns) -> Ns:
        """How much each class covers before each of ``times``, shape (times, classes)."""
        begun = np.searchsorted(self._start, times, side="right")
        block = begun // _BLOCK
        covered: Ns = self._before[block]
        if not len(self._start):
            return covered
        # The rest of each block up to the time: one row of events a time.
        places = block[:, np.newaxis] * _BLOCK + np.arange(_BLOCK)
        rest = places < begun[:, np.newaxis]
        places = places[rest]
        row = np.repeat(np.arange(len(times)), begun - block * _BLOCK)
        length = np.minimum(self._end[places], times[row]) - self._start[places]
        np.add.at(covered, (row, self._of[places]), length)
        # The last event of a whole block may go on beyond the time.
        last = np.flatnonzero((begun > 0) & (begun == block * _BLOCK))
        place = begun[last] - 1
        beyond = np.maximum(self._end[place] - times[last], 0)
        covered[last, self._of[place]] -= beyond
        return covered

    def within(self, edges: Ns) -> Ns:
        """How much of each cell ``[edges[i], edges[i + 1])`` each class covers, shape (classes, cells)."""
        covered = self.up_to(edges)
        cells: Ns = (covered[1:] - covered[:-1]).T
        return cells
