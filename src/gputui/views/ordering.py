"""Which rows a table shows, in what order: index arrays, so that 100,000 rows cost no Python object. No Textual here.

A row is the number of an item, or ``-1 - group`` for the header of a group.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
NO_ROWS: Rows = np.empty(0, dtype=np.int64)


def header_of(group: int) -> int:
    return -1 - group


def group_of(row: int) -> int:
    """The group whose header this row is."""
    return -1 - row


def sort_items(keys: npt.NDArray[np.generic] | None, count: int, *, descending: bool) -> Rows:
    """All items by key, equal ones in their own order; ``None`` is the items' own order. NaN keys come last."""
    if keys is None:
        rows = np.arange(count, dtype=np.int64)
        return rows[::-1].copy() if descending else rows
    if descending and np.issubdtype(keys.dtype, np.number):
        return np.argsort(np.negative(keys), kind="stable").astype(np.int64)
    order = np.argsort(keys, kind="stable").astype(np.int64)
    return order[::-1].copy() if descending else order


def keep(rows: Rows, mask: npt.NDArray[np.bool_]) -> Rows:
    """The rows whose item passes the filter."""
    return rows[mask[rows]]


def group_rows(rows: Rows, groups: npt.NDArray[np.int64], expanded: Collection[int]) -> Rows:
    """Headers in the order in which ``rows`` first meet each group, and behind those expanded their items."""
    if len(rows) == 0:
        return NO_ROWS
    of_rows = groups[rows]
    found, first = np.unique(of_rows, return_index=True)
    in_order = found[np.argsort(first, kind="stable")]
    parts: list[Rows] = []
    if not expanded:
        return -1 - in_order
    for group in in_order:
        parts.append(np.array([header_of(int(group))], dtype=np.int64))
        if int(group) in expanded:
            parts.append(rows[of_rows == group])
    return np.concatenate(parts)


def unfolded(ends: Sequence[int], expanded: Collection[int]) -> Rows:
    """The rows of a tree that stand in no folded one; ``ends[row]`` is the row behind the last one inside ``row``."""
    rows: list[int] = []
    row = 0
    while row < len(ends):
        rows.append(row)
        row = row + 1 if row in expanded else ends[row]
    return np.array(rows, dtype=np.int64)


def with_parents(ends: Sequence[int], found: Sequence[int]) -> Rows:
    """These rows of a tree, in order, each behind all that it stands in."""
    rows: list[int] = []
    row = 0
    for wanted in found:
        while row <= wanted:
            if wanted < ends[row]:
                rows.append(row)
                row += 1
            else:
                row = ends[row]
    return np.array(rows, dtype=np.int64)
