"""What a stretch of a timeline holds: which names take the time of a lane, and what the CPU did while a GPU idled.

Both are asked for at every move in the pane, so they cost what the stretch holds, not what the timeline does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gputui.analysis.lanes import table_of

if TYPE_CHECKING:
    from gputui.analysis.lanes import Lane
    from gputui.analysis.timeline import TimelineFacts
    from gputui.model.intervals import Ns

MOST_IN_VIEW = 300_000
"""Events of one stretch that are told apart by name: 5 ms."""


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one name: how many are in the stretch, how long they take of it, and the longest of them.

    ``place`` is that one's in its lane, ``name`` a place in ``Timeline.names`` (-1 for a gap).
    """

    name: int
    count: int
    total_ns: int
    longest_ns: int
    place: int


def in_view(facts: TimelineFacts, lane: Lane, start_ns: int, end_ns: int, most: int) -> tuple[Part, ...] | None:
    """The names that take most of ``[start_ns, end_ns)`` in a lane, longest first, at most so many; gaps one by one.

    Events that reach beyond the stretch count with the part inside it. ``None`` where there are more than
    ``MOST_IN_VIEW``.
    """
    rows = lane.rows_in(start_ns, end_ns)
    if len(rows) > MOST_IN_VIEW:
        return None
    if not len(rows) or most < 1:
        return ()
    first = lane.place_of(int(rows[0])) or 0
    inside = slice(first, first + len(rows))
    spent = np.minimum(lane.end[inside], end_ns) - np.maximum(lane.start[inside], start_ns)
    if lane.table in ("gaps", "counters"):
        places = largest(spent, most)
        return tuple(Part(-1, 1, int(spent[one]), int(spent[one]), first + int(one)) for one in places)
    names = table_of(facts.timeline, lane.table).name[rows]
    totals, counts = np.bincount(names, weights=spent), np.bincount(names)
    some = np.flatnonzero(counts)
    found = []
    for name in some[largest(totals[some], most)].tolist():
        of_name = np.flatnonzero(names == name)
        longest = int(of_name[np.argmax(spent[of_name])])
        found.append(Part(name, int(counts[name]), int(totals[name]), int(spent[longest]), first + longest))
    return tuple(found)


def largest(values: npt.NDArray[Any], most: int) -> npt.NDArray[np.intp]:
    """The places of the largest values, largest first."""
    some = np.argpartition(-values, most)[:most] if len(values) > most else np.arange(len(values))
    return some[np.argsort(-values[some], kind="stable")]


@dataclass(frozen=True, slots=True)
class After:
    """How an idle time of a GPU ended: ``op`` ran next, which ``thread`` launched (-1 where the file does not tell).

    ``path`` are the NVTX ranges that this thread was in at the middle of the idle time, outermost first.
    """

    op: int
    thread: int
    path: tuple[str, ...]


def steady_gaps(facts: TimelineFacts, start_ns: Ns, end_ns: Ns) -> npt.NDArray[np.bool_]:
    """Which idle times belong to the steady time that findings tell of: those of which most lies in it."""
    window = facts.window
    inside = np.minimum(end_ns, window.end_ns) - np.maximum(start_ns, window.start_ns)
    found: npt.NDArray[np.bool_] = 2 * inside >= end_ns - start_ns
    return found


def after_gap(facts: TimelineFacts, gpu: int, start_ns: int, end_ns: int) -> After:
    op = _op_from(facts, gpu, end_ns)
    thread = facts.launching_thread(op)
    return After(op, thread, facts.range_path(facts.range_at(thread, (start_ns + end_ns) // 2)))


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What a thread did in a stretch of time. ``calls`` are CUDA calls and ``waits`` the operating system's outside
    them, each (name, share of the time 0-1), the longest first; ``outside`` is the share in no CUDA call."""

    calls: tuple[tuple[int, float], ...]
    outside: float
    waits: tuple[tuple[int, float], ...]


def meanwhile(facts: TimelineFacts, thread: int, start_ns: int, end_ns: int) -> Meanwhile:
    """For a stretch longer than 0."""
    timeline, length = facts.timeline, end_ns - start_ns
    calls = facts.thread_time(timeline.calls, thread, start_ns, end_ns)
    outside = max(0, length - sum(ns for _, ns in calls))
    waits = facts.thread_time(timeline.os_calls, thread, start_ns, end_ns)
    return Meanwhile(
        tuple((name, ns / length) for name, ns in calls),
        outside / length,
        tuple((name, min(ns, outside) / length) for name, ns in waits),
    )


def _op_from(facts: TimelineFacts, gpu: int, time_ns: int) -> int:
    """The first operation of a GPU that begins at this time, -1 where none does."""
    starts = facts.timeline.ops.start
    place = int(np.searchsorted(starts, time_ns, side="left"))
    while place < len(starts) and starts[place] == time_ns:
        if facts.op_gpu[place] == gpu:
            return place
        place += 1
    return -1
