"""Every operation of a timeline as rows for a notebook or a spreadsheet, made part by part: there may be millions."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from gputui.model.timeline import LaunchShape, OpKind, Process
from gputui.render.table import cell

if TYPE_CHECKING:
    from gputui.analysis.timeline import Mask, TimelineFacts

COLUMNS = (
    "index", "kind", "name", "demangled", "start_ns", "duration_ns", "gpu", "rank", "pid", "stream", "grid", "block",
    "registers", "shared_bytes", "bytes", "api_call", "api_start_ns", "nvtx",
)  # fmt: skip
"""``index`` is the operation's place in the timeline; times are on its own clock; ``nvtx`` is ``outer/inner``.

``registers`` are a thread's, ``shared_bytes`` a block's, ``bytes`` what a copy or memset moved.
"""

_ROWS = 8192
"""Rows a part: some 2 MB of text."""


def csv_parts(facts: TimelineFacts, chosen: Mask) -> Iterator[str]:
    """A row of names, then a row an operation; what the file does not tell is an empty cell."""
    text = cache(cell)
    yield _csv([COLUMNS])
    for rows in _rows(facts, chosen):
        yield _csv([[text(one) if isinstance(one, str) else one for one in row] for row in rows])


def json_parts(facts: TimelineFacts, chosen: Mask) -> Iterator[str]:
    """``{"operations": [{"index", "kind", …}]}``; ``null`` where the file does not tell."""
    yield '{"operations": ['
    before = "\n"
    for rows in _rows(facts, chosen):
        yield before + ",\n".join(json.dumps(dict(zip(COLUMNS, row, strict=True)), allow_nan=False) for row in rows)
        before = ",\n"
    yield "\n]}\n"


def _csv(rows: Any) -> str:
    part = StringIO()
    csv.writer(part, lineterminator="\n").writerows(rows)
    return part.getvalue()


def _rows(facts: TimelineFacts, chosen: Mask) -> Iterator[list[tuple[Any, ...]]]:
    timeline = facts.timeline
    ops, calls, transfers = timeline.ops, timeline.calls, timeline.transfers
    ranges = facts.ranges_of_ops
    paths = _Paths(facts)
    short = cache(facts.short_name)
    no_shape, no_process = LaunchShape(), Process(-1)
    places = [
        (
            timeline.gpus[one.gpu].ordinal,
            timeline.processes[one.process] if one.process >= 0 else no_process,
            one.number,
        )
        for one in timeline.streams
    ]
    all_rows = np.flatnonzero(chosen)
    for begin in range(0, len(all_rows), _ROWS):
        part = all_rows[begin : begin + _ROWS]
        columns = (part, ops.kind[part], ops.name[part], ops.start[part], ops.duration[part], ops.stream[part],
                   ops.detail[part], ops.call[part], ranges[part])  # fmt: skip
        rows = []
        for index, kind, name, start, duration, stream, detail, call, inner in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            full = timeline.name(name)
            gpu, process, number = places[stream]
            is_kernel = kind == OpKind.KERNEL
            shape = timeline.shapes[detail] if is_kernel and detail >= 0 else no_shape
            moved = int(transfers.bytes[detail]) if not is_kernel and detail >= 0 else -1
            rows.append(
                (
                    index, OpKind(kind).name.lower(), short(name) if is_kernel else full, full, start, duration,
                    gpu, process.rank, _told(process.pid), _told(number), shape.grid, shape.block, shape.registers,
                    shape.shared_bytes, _told(moved), timeline.name(int(calls.name[call])) if call >= 0 else None,
                    int(calls.start[call]) if call >= 0 else None, paths[inner] or None,
                )
            )  # fmt: skip
        yield rows


def _told(value: int) -> int | None:
    return None if value < 0 else value


class _Paths(dict[int, str]):
    """The path of each range, worked out once."""

    def __init__(self, facts: TimelineFacts) -> None:
        super().__init__()
        self._facts = facts

    def __missing__(self, row: int) -> str:
        path = self[row] = "/".join(self._facts.range_path(row))
        return path
