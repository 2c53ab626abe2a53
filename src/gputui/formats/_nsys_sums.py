"""The kernels of an nsys export by name, without its timeline: three columns, and no row is kept."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import replace

import numpy as np

from gputui.formats._nsys_tables import KERNELS, clipped, kernel_names, name_to_keep, names_of_kernel
from gputui.formats._sqlite_columns import Ahead, Codes, DamagedError, Database
from gputui.formats.base import Progress
from gputui.formats.nsys_sqlite import KernelSum
from gputui.model.intervals import Ns
from gputui.model.limits import MOST_IN_ALL
from gputui.model.timeline import Ids


class _Sums:
    """Count, total, least and most of durations by a code that counts up from 0."""

    def __init__(self) -> None:
        self.count = np.zeros(0, dtype=np.int64)
        self.total = np.zeros(0, dtype=np.int64)
        self._about = np.zeros(0)
        self.least = np.zeros(0, dtype=np.int64)
        self.most = np.zeros(0, dtype=np.int64)

    def grow(self, codes: int) -> None:
        new = codes - len(self.count)
        nothing = np.zeros(new, dtype=np.int64)
        self.count = np.append(self.count, nothing)
        self.total = np.append(self.total, nothing)
        self._about = np.append(self._about, nothing)
        self.least = np.append(self.least, np.full(new, np.iinfo(np.int64).max))
        self.most = np.append(self.most, nothing)

    def add(self, code: Ids, duration: Ns) -> None:
        self.count += np.bincount(code, minlength=len(self.count))
        # bincount sums floats, which count ns exactly for 104 days only; but they do not overflow.
        self._about += np.bincount(code, duration, minlength=len(self.count))
        np.add.at(self.total, code, duration)
        self.total[self._about > MOST_IN_ALL] = MOST_IN_ALL
        np.minimum.at(self.least, code, duration)
        np.maximum.at(self.most, code, duration)


def sum_kernels(database: Database, progress: Progress | None = None) -> tuple[KernelSum, ...]:
    """The sums of what can be read, the longest total first, and until ``progress`` answers ``False``."""
    if not database.has(KERNELS, "start"):
        return ()
    names, sums = Codes(), _Sums()
    expressions = [database.whole(KERNELS, "start"), database.whole(KERNELS, "end"), kernel_names(database)]
    # Read in one thread and summed in another.
    ahead = Ahead(database.batches(KERNELS, expressions))
    done, about = 0, database.about(KERNELS)
    with closing(ahead), suppress(DamagedError):
        for start, end, name in ahead:
            start, end = clipped(start, end)
            code = names.of(name)
            sums.grow(len(names))
            sums.add(code, end - start)
            done += len(name)
            if progress is not None and not progress(done, max(done, about)):
                break
    return tuple(sorted(_named(database, names.values, sums), key=lambda one: -one.total_ns))


def _named(database: Database, pairs: list[int], sums: _Sums) -> Iterable[KernelSum]:
    """The sums of each name: several ids may have the same."""
    wanted = {id for pair in pairs for id in (pair >> 32, pair & 0xFFFFFFFF)}
    texts: dict[int, str] = {}
    with suppress(DamagedError):
        for id, text in database.rows("StringIds", ["id", "value"]):
            if id in wanted:
                texts[id] = text if isinstance(text, str) else ""
    found: dict[str, KernelSum] = {}
    columns = (column.tolist() for column in (sums.count, sums.total, sums.least, sums.most))
    for pair, *numbers in zip(pairs, *columns, strict=True):
        full, short = names_of_kernel(pair, lambda id: texts.get(id, ""))
        name = name_to_keep(full)
        one = KernelSum(name, short, *numbers)
        found[name] = _both(found[name], one) if name in found else one
    return found.values()


def _both(one: KernelSum, other: KernelSum) -> KernelSum:
    return replace(
        one,
        short_name=one.short_name or other.short_name,
        count=one.count + other.count,
        total_ns=one.total_ns + other.total_ns,
        min_ns=min(one.min_ns, other.min_ns),
        max_ns=max(one.max_ns, other.max_ns),
    )
