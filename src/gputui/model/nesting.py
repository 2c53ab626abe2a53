"""How ranges of one thread nest."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from gputui.model.intervals import Ns
from gputui.model.timeline import Bytes, Ids, RangeKind

_DEEPEST = np.iinfo(np.int16).max


def nest(*, start: Ns, end: Ns, kind: Bytes, thread: Ids, domain: Ids) -> tuple[Bytes, Ids, npt.NDArray[np.int16]]:
    """The kind, parent and depth of each range: the row of the push/pop range of its thread and domain that encloses it
    (-1 at the top), and how many do.

    The rows are sorted by start, longer ones first: of two that start in the same nanosecond the longer one, and of
    equal ones the first, encloses the other. A push/pop range that crosses another's end cannot be one: its kind
    becomes ``START_END`` (PyTorch's traces have asynchronous operations among the others).
    """
    kind = kind.copy()
    parent, depth = np.full(len(start), -1, dtype=np.int32), np.zeros(len(start), dtype=np.int16)
    order = np.lexsort((domain, thread))
    changes = (np.diff(thread[order]) != 0) | (np.diff(domain[order]) != 0)
    for rows in np.split(order, np.flatnonzero(changes) + 1):
        parents: list[int] = []
        depths: list[int] = []
        crossing: list[bool] = []
        around: list[int] = []
        # Negative, so that they rise inwards.
        ends: list[int] = []
        columns = (rows, start[rows], end[rows], kind[rows] == RangeKind.PUSH_POP)
        for row, begin, finish, pushed in zip(*(column.tolist() for column in columns), strict=True):
            while around and -ends[-1] <= begin:
                around.pop()
                ends.pop()
            level = bisect_right(ends, -finish)
            parents.append(around[level - 1] if level else -1)
            depths.append(level)
            crossing.append(pushed and level < len(around))
            if pushed and level == len(around):
                around.append(row)
                ends.append(-finish)
        parent[rows], depth[rows] = parents, np.minimum(depths, _DEEPEST)
        kind[rows[np.array(crossing, dtype=bool)]] = RangeKind.START_END
    return kind, parent, depth
