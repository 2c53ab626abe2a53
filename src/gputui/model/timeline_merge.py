"""Several timelines (ranks, files) as one, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gputui.model.limits import FARTHEST_NS, LARGEST_BYTES, summable, summable_ends
from gputui.model.report import Notice
from gputui.model.timeline import Events, Ids, OpKind, Samples, Timeline, Transfers, in_order

E = TypeVar("E", bound=Events)


def merge(timelines: Sequence[Timeline]) -> Timeline:
    """All of them on the clock of the one that starts first, whose times stay as they are.

    Where every file tells the wall clock, and no two lie 73 years apart, they stand as they ran; else each starts at 0,
    and ``lacks`` says so.
    ``SourceFile.shift_ns`` is what was added to the times of a file. Names that are equal are one; links between tables
    and places in lists are those of the whole.
    """
    if len(timelines) == 1:
        return timelines[0]
    aligned = _aligned(timelines)
    shifts = aligned or [-one.start_ns for one in timelines]

    names: dict[str, int] = {}
    places = [np.array([names.setdefault(name, len(names)) for name in one.names], dtype=np.int32) for one in timelines]
    parts = [
        _Part(one, shift, place, *firsts)
        for one, shift, place, *firsts in zip(
            timelines,
            shifts,
            places,
            *(
                _firsts(timelines, count)
                for count in (
                    lambda one: len(one.files),
                    lambda one: len(one.gpus),
                    lambda one: len(one.processes),
                    lambda one: len(one.streams),
                    lambda one: len(one.threads),
                    lambda one: len(one.shapes),
                    lambda one: len(one.transfers),
                )
            ),
            strict=True,
        )
    ]
    calls, call_rows = _joined([part.calls(part.of.calls) for part in parts])
    ops, _ = _joined([part.ops(rows) for part, rows in zip(parts, call_rows, strict=True)])
    ranges, range_rows = _joined([part.ranges() for part in parts])
    parent = np.empty(len(ranges), dtype=np.int32)
    for part, rows in zip(parts, range_rows, strict=True):
        parent[rows] = _placed(rows, part.of.ranges.parent)
    return Timeline(
        names=tuple(names),
        short_names={
            int(part.names[old]): short for part in reversed(parts) for old, short in part.of.short_names.items()
        },
        files=tuple(replace(file, shift_ns=file.shift_ns + part.shift) for part in parts for file in part.of.files),
        gpus=tuple(replace(gpu, file=gpu.file + part.file) for part in parts for gpu in part.of.gpus),
        processes=tuple(
            replace(process, file=process.file + part.file) for part in parts for process in part.of.processes
        ),
        streams=tuple(
            replace(stream, gpu=stream.gpu + part.gpu, process=_moved(stream.process, part.process))
            for part in parts
            for stream in part.of.streams
        ),
        threads=tuple(
            replace(thread, process=_moved(thread.process, part.process))
            for part in parts
            for thread in part.of.threads
        ),
        shapes=tuple(shape for part in parts for shape in part.of.shapes),
        ops=ops,
        transfers=_transfers(parts),
        calls=calls,
        os_calls=_joined([part.calls(part.of.os_calls) for part in parts])[0],
        ranges=replace(ranges, parent=parent),
        faults=_joined([part.calls(part.of.faults) for part in parts])[0],
        overhead=_joined([part.calls(part.of.overhead) for part in parts])[0],
        counters=tuple(
            replace(counter, gpu=counter.gpu + part.gpu, time=counter.time + part.shift)
            for part in parts
            for counter in part.of.counters
        ),
        samples=_samples(parts),
        lacks=_lacks(parts, aligned is not None),
        start_ns=min(part.of.start_ns + part.shift for part in parts),
        end_ns=max(part.of.end_ns + part.shift for part in parts),
    )


def _aligned(timelines: Sequence[Timeline]) -> list[int] | None:
    """What to add to the times of each so that all stand as they ran; ``None`` where their files do not tell."""
    walls = [_wall(one) for one in timelines]
    told = [wall for wall in walls if wall is not None]
    if len(told) < len(timelines):
        return None
    _, base = min((wall + one.start_ns, wall) for wall, one in zip(told, timelines, strict=True))
    shifts = [wall - base for wall in told]
    start = min(one.start_ns + shift for one, shift in zip(timelines, shifts, strict=True))
    end = max(one.end_ns + shift for one, shift in zip(timelines, shifts, strict=True))
    return shifts if end - start <= FARTHEST_NS and end <= FARTHEST_NS else None


def _wall(timeline: Timeline) -> int | None:
    """The wall clock at time 0, where all its files tell it."""
    if not timeline.files or any(file.wall_ns is None for file in timeline.files):
        return None
    first = timeline.files[0]
    assert first.wall_ns is not None
    return first.wall_ns - first.shift_ns


def _firsts(timelines: Sequence[Timeline], count: Callable[[Timeline], int]) -> list[int]:
    """Where the entries of each begin in the list of the whole."""
    return list(accumulate(map(count, timelines[:-1]), initial=0))


class _Part:
    """One of the timelines, what to add to its times and to its places in lists, and its names' new places."""

    def __init__(
        self,
        of: Timeline,
        shift: int,
        names: Ids,
        file: int,
        gpu: int,
        process: int,
        stream: int,
        thread: int,
        shape: int,
        transfer: int,
    ) -> None:
        self.of, self.shift, self.names = of, shift, names
        self.file, self.gpu, self.process, self.stream, self.thread = file, gpu, process, stream, thread
        self.shape, self.transfer = shape, transfer

    def _events(self, events: E, **columns: npt.NDArray[Any]) -> E:
        return replace(
            events,
            start=events.start + self.shift,
            end=events.end + self.shift,
            name=_placed(self.names, events.name),
            **columns,
        )

    def calls(self, calls: Any) -> Any:
        return self._events(calls, thread=_after(self.thread, calls.thread))

    def ops(self, call_rows: Ids) -> Any:
        ops = self.of.ops
        return self._events(
            ops,
            stream=_after(self.stream, ops.stream),
            call=_placed(call_rows, ops.call),
            detail=_after(np.where(ops.kind == OpKind.KERNEL, self.shape, self.transfer), ops.detail),
        )

    def ranges(self) -> Any:
        ranges = self.of.ranges
        return self._events(
            ranges,
            domain=_placed(self.names, ranges.domain),
            thread=_after(self.thread, ranges.thread),
            end_thread=_after(self.thread, ranges.end_thread),
        )


def _placed(places: Ids, ids: Ids) -> Ids:
    """The new place of each; -1 stays."""
    return np.append(places, np.int32(-1))[ids]


def _after(first: Any, ids: Ids) -> Ids:
    return np.where(ids < 0, ids, ids + first).astype(np.int32)


def _moved(place: int, first: int) -> int:
    return place + first if place >= 0 else -1


def _joined(tables: Sequence[E]) -> tuple[E, list[Ids]]:
    """One table in order, and per table the new row of each of its rows."""
    one = replace(
        tables[0],
        **{
            column.name: np.concatenate([getattr(table, column.name) for table in tables])
            for column in fields(tables[0])
        },
    )
    one = replace(one, end=summable_ends(one.start, one.end))
    order = in_order(one.start, one.end)
    rows = np.arange(len(one), dtype=np.int32)
    if order is not None:
        one = one.take(order)
        rows[order] = np.arange(len(one), dtype=np.int32)
    return one, np.split(rows, np.cumsum([len(table) for table in tables])[:-1])


def _transfers(parts: Sequence[_Part]) -> Transfers:
    columns = {
        column.name: np.concatenate([getattr(part.of.transfers, column.name) for part in parts])
        for column in fields(Transfers)
    }
    return Transfers(**{**columns, "bytes": summable(columns["bytes"], LARGEST_BYTES)})


def _samples(parts: Sequence[_Part]) -> Samples | None:
    told = [(part, part.of.samples) for part in parts if part.of.samples is not None]
    if not told:
        return None
    time = np.concatenate([samples.time + part.shift for part, samples in told])
    thread = np.concatenate([_after(part.thread, samples.thread) for part, samples in told])
    order = np.argsort(time, kind="stable")
    return Samples(time[order], thread[order])


def _lacks(parts: Sequence[_Part], aligned: bool) -> tuple[Notice, ...]:
    """What each lacks, said once; and that they do not stand as they ran where that is so."""
    notices = [notice for part in parts for notice in part.of.lacks]
    if not aligned:
        notices.append(Notice("not-aligned", {"count": len(parts)}))
    return tuple({(notice.id, tuple(notice.params.items())): notice for notice in notices}.values())
