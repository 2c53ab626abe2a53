"""The tables of an nsys export as a ``Timeline``, whatever of them there is (schemas of 2020 to 2026)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gputui.formats._sqlite_columns import Ahead, Codes, DamagedError, Database
from gputui.formats.base import Progress, capability_of, plausible
from gputui.model.device import Device
from gputui.model.intervals import Ns
from gputui.model.kernel import Dim3
from gputui.model.limits import FARTHEST_NS, LARGEST_BYTES, LONGEST_NS, summable, summable_ends
from gputui.model.nesting import nest
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Counter,
    Gpu,
    GpuOps,
    Ids,
    LaunchShape,
    MemoryKind,
    OpKind,
    Process,
    RangeKind,
    Ranges,
    Samples,
    SourceFile,
    Stream,
    Thread,
    Timeline,
    Transfers,
    in_order,
)

KERNELS, COPIES, MEMSETS, GRAPHS = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)
RUNTIME, DRIVER = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"
NVTX, OS_CALLS, METRICS, SAMPLES = "NVTX_EVENTS", "OSRT_API", "GPU_METRICS", "COMPOSITE_EVENTS"
OVERHEAD = "PROFILER_OVERHEAD"
GPU_FAULTS, CPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
TABLES = frozenset(
    {KERNELS, COPIES, MEMSETS, GRAPHS, RUNTIME, DRIVER, NVTX, OS_CALLS, METRICS, SAMPLES, OVERHEAD, "SCHED_EVENTS"}
    | {"ThreadNames", "ProcessStreams", "TARGET_INFO_GPU", "TARGET_INFO_SYSTEM_ENV", "META_DATA_EXPORT"}
)
"""A database with one of these is nsys's."""

_TIME = {METRICS: "timestamp"}
"""The column that makes a row an event, where that is not ``start``."""
_PROCESS = -16777216
"""The bits of a globalTid that are its globalPid."""
_MOST_HERTZ = 10**11
_OPEN = 1 << 62
"""The end of a range that has none."""
_NO_REGISTERS = 0x7FFF
_UNNAMED = "(unnamed)"
COPY_NAMES = {
    kind: "[CUDA memcpy {}]".format(kind.name.title().replace("_To_", "-to-").replace("_", " ")) for kind in CopyKind
}
"""As nsys stats prints them: "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Unified Device-to-Host]"."""
MEMSET_NAME, _GRAPH_NAME = "[CUDA memset]", "[CUDA graph]"

_VERSION = re.compile(r"_(?:v\d{4,}|ptsz|ptds)")

_RANGE_KINDS = {
    59: RangeKind.PUSH_POP, 70: RangeKind.PUSH_POP,
    60: RangeKind.START_END, 71: RangeKind.START_END,
    34: RangeKind.MARK, 65: RangeKind.MARK,
}  # fmt: skip
"""nsys's event types; the second of each kind is of NVTX in text form."""
_DOMAIN_CREATED = 75


def api_name(text: str) -> str:
    """``cudaLaunchKernel`` of ``cudaLaunchKernel_ptsz_v7000``. The ``_v2`` of a driver call is part of its name."""
    end = len(text)
    while (start := text.rfind("_", 0, end)) >= 0 and _VERSION.fullmatch(text, start, end):
        end = start
    return text[:end]


def kernel_names(database: Database) -> str:
    """SQL for a kernel's names in one integer: the id of the full one above that of the short one."""
    known = [one for one in ("demangledName", "shortName", "mangledName") if database.has(KERNELS, one)]
    full = f"COALESCE({', '.join(known)}, -1)" if known else "-1"
    return f"(({full} & {0x7FFFFFFF}) << 32) | ({database.bits(KERNELS, 'shortName', 32, 0, -1)})"


def names_of_kernel(pair: int, text: Callable[[int], str]) -> tuple[str, str]:
    """The full name of one of ``kernel_names``, and the short one where it differs; ``text`` is that of an id."""
    full, short = text(pair >> 32), text(pair & 0xFFFFFFFF)
    return full or short, "" if full == short else short


def name_to_keep(text: str) -> str:
    return text or _UNNAMED


def clipped(start: Ns, end: Ns) -> tuple[Ns, Ns]:
    """Times of events: none further from 0 than can be subtracted, none that ends before it starts or never."""
    start = _near(start)
    return start, np.clip(_near(end), start, start + LONGEST_NS)


def _near(time: Ns) -> Ns:
    return np.clip(time, -FARTHEST_NS, FARTHEST_NS)


@dataclass(frozen=True, slots=True)
class Contents:
    """What an export holds. ``damaged`` are the tables that could be read in part or not at all; ``messages`` are the
    profiler's own, each with nsys's severity (2 is a warning, 3 an error)."""

    timeline: Timeline
    damaged: tuple[str, ...]
    messages: tuple[tuple[int, str], ...]


def read(database: Database, path: Path, rank: int | None, progress: Progress | None = None) -> Contents:
    """Everything in it; what there is until then where ``progress`` answers ``False``."""
    reader = _Reader(database, path, rank, progress)
    try:
        return reader.read()
    finally:
        reader.close()


class _Columns:
    """Columns that grow by batches."""

    def __init__(self, **types: type[np.generic]) -> None:
        self._types = types
        self._parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in types}

    def add(self, **columns: npt.NDArray[Any]) -> None:
        for name, column in columns.items():
            self._parts[name].append(column.astype(self._types[name], copy=False))

    def take(self) -> dict[str, npt.NDArray[Any]]:
        """The whole columns, which this gives away: two copies of one at a time."""
        return {
            name: np.concatenate([np.zeros(0, dtype=type), *self._parts.pop(name)])
            for name, type in self._types.items()
        }


class _Reader:
    def __init__(self, database: Database, path: Path, rank: int | None, progress: Progress | None) -> None:
        self._db = database
        self._path = path
        self._rank = rank
        self._progress = progress
        self._done = 0
        self._total = sum(
            database.about(one)
            for one in (KERNELS, COPIES, MEMSETS, GRAPHS, RUNTIME, DRIVER, NVTX, OS_CALLS, METRICS, SAMPLES, OVERHEAD)
        )
        self._stopped = False
        self._damaged: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._threads = Codes(missing=-1)
        self._processes = Codes(missing=-1)
        self._streams = Codes()
        self._stream_places = Codes()
        # The two that are big are read at the same time.
        self._begun: dict[str, Ahead[list[Ns]]] = {}
        self._begin(RUNTIME, self._call_columns(RUNTIME))
        self._begin(KERNELS, self._kernel_columns())
        self._texts = dict(self._rows("StringIds", "id", "value"))

    def close(self) -> None:
        for one in self._begun.values():
            one.close()

    def read(self) -> Contents:
        calls, ids = self._calls((RUNTIME, DRIVER), api_name)
        ops, shapes, transfers, short_names = self._ops(calls, ids)
        del ids
        os_calls, _ = self._calls((OS_CALLS,))
        overhead, _ = self._calls((OVERHEAD,))
        ranges = self._ranges()
        faults = self._faults()
        samples = self._samples()
        gpus = _Gpus(self)
        counters = self._counters(gpus)
        start, end = _extent(
            [one for table in (calls, ops, os_calls, overhead, faults) for one in (table.start, table.end)]
            + [ranges.start, ranges.end[~ranges.is_open], samples.time, *(one.time for one in counters)]
        )
        file = self._file()
        streams = self._stream_list(gpus)
        threads = self._thread_list()
        timeline = Timeline(
            names=tuple(self._places),
            short_names=short_names,
            files=(file,),
            gpus=tuple(gpus.gpus),
            processes=self._process_list(file, threads),
            streams=streams,
            threads=threads,
            shapes=shapes,
            ops=ops,
            transfers=transfers,
            calls=calls,
            os_calls=os_calls,
            ranges=replace(ranges, end=summable_ends(ranges.start, np.where(ranges.is_open, end, ranges.end))),
            faults=faults,
            overhead=overhead,
            counters=counters,
            samples=samples if len(samples.time) else None,
            start_ns=start,
            end_ns=end,
        )
        messages = tuple(
            (severity, " ".join(text.split()))
            for severity, text in self._rows("DIAGNOSTIC_EVENT", "severity", "text")
            if isinstance(severity, int) and isinstance(text, str)
        )
        return Contents(timeline, tuple(self._damaged), messages)

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """A small table's rows, as far as they can be read."""
        try:
            yield from self._db.rows(table, columns)
        except DamagedError:
            self._damaged[table] = None

    def _begin(self, table: str, expressions: Mapping[str, str]) -> None:
        """Let a thread read ahead what ``_batches`` will ask for."""
        if self._db.has(table, _TIME.get(table, "start")):
            self._begun[table] = Ahead(self._db.batches(table, list(expressions.values())))

    def _batches(self, table: str, **expressions: str) -> Iterator[dict[str, Ns]]:
        """A big table's columns, as far as they can be read and until the user stops it."""
        if self._stopped:
            return
        if table not in self._begun:
            self._begin(table, expressions)
        try:
            for columns in self._begun.get(table, ()):
                yield dict(zip(expressions, columns, strict=True))
                self._done += len(columns[0])
                if not self._goes_on():
                    return
        except DamagedError:
            self._damaged[table] = None

    def _goes_on(self) -> bool:
        if self._progress is not None and not self._progress(self._done, max(self._done, self._total)):
            self._stopped = True
        return not self._stopped

    def _whole(self, table: str, column: str, otherwise: int = -1) -> str:
        return self._db.whole(table, column, otherwise)

    def _place(self, text: str) -> int:
        return self._places.setdefault(name_to_keep(text), len(self._places))

    def _text(self, id: int) -> str:
        text = self._texts.get(id)
        return text if isinstance(text, str) else ""

    def _calls(self, tables: tuple[str, ...], rename: Callable[[str], str] = str) -> tuple[Calls, Ns]:
        """The calls of these tables, and the correlation id of each."""
        columns = _Columns(start=np.int64, end=np.int64, name=np.int32, thread=np.int32, id=np.int64)
        names = _Names(lambda id: self._place(rename(self._text(id))))
        for table in tables:
            for got in self._batches(table, **self._call_columns(table)):
                start, end = clipped(got["start"], got["end"])
                columns.add(
                    start=start,
                    end=end,
                    thread=self._threads.of(got["thread"]),
                    name=names.of(got["name"]),
                    id=got["id"],
                )
        sorted = _events(columns.take())
        ids = sorted.pop("id")
        return Calls(**sorted), ids

    def _call_columns(self, table: str) -> dict[str, str]:
        return {
            "start": self._whole(table, "start"),
            "end": self._whole(table, "end"),
            "thread": self._whole(table, "globalTid"),
            "name": self._whole(table, "nameId"),
            "id": self._whole(table, "correlationId"),
        }

    def _ops(self, calls: Calls, call_ids: Ns) -> tuple[GpuOps, tuple[LaunchShape, ...], Transfers, Mapping[int, str]]:
        columns = _Columns(
            start=np.int64, end=np.int64, name=np.int32, kind=np.uint8, stream=np.int32, detail=np.int32,
            graph=np.int32, id=np.int64,
        )  # fmt: skip
        transfers = _Columns(bytes=np.int64, kind=np.uint8, source=np.uint8, target=np.uint8)
        moved = 0
        shapes = _Shapes()
        short_names: dict[int, str] = {}

        def kernel_name(pair: int) -> int:
            name, short = names_of_kernel(pair, self._text)
            place = self._place(name)
            if short:
                short_names.setdefault(place, short)
            return place

        names = _Names(kernel_name)
        copy_names = _Names(lambda kind: self._place(COPY_NAMES[CopyKind(kind)]))

        def add(kind: OpKind, got: dict[str, Ns], name: npt.NDArray[Any], detail: npt.NDArray[Any]) -> None:
            start, end = clipped(got["start"], got["end"])
            count = len(start)
            process = self._processes.of(got["process"])
            place = self._stream_places.of(got["place"])
            columns.add(
                start=start,
                end=end,
                kind=np.broadcast_to(np.uint8(kind), count),
                name=name,
                stream=self._streams.of((process.astype(np.int64) << 32) | place),
                detail=detail,
                graph=_graph(got["graph"], got["node"]),
                id=got["id"],
            )

        for got in self._batches(KERNELS, **self._kernel_columns()):
            add(OpKind.KERNEL, got, names.of(got["name"]), shapes.of(got["grid"], got["block"], got["shared"]))
        for got in self._batches(
            COPIES,
            **self._op_columns(COPIES),
            bytes=self._whole(COPIES, "bytes"),
            kind=self._whole(COPIES, "copyKind"),
            source=self._whole(COPIES, "srcKind"),
            target=self._whole(COPIES, "dstKind"),
        ):
            count = len(got["kind"])
            kind = np.where((got["kind"] < 0) | (got["kind"] > max(CopyKind)), CopyKind.UNKNOWN, got["kind"])
            add(OpKind.COPY, got, copy_names.of(kind), np.arange(moved, moved + count))
            transfers.add(
                bytes=_size(got["bytes"]), kind=kind, source=_memory(got["source"]), target=_memory(got["target"])
            )
            moved += count
        for got in self._batches(
            MEMSETS,
            **self._op_columns(MEMSETS),
            bytes=self._whole(MEMSETS, "bytes"),
            target=self._whole(MEMSETS, "memKind"),
        ):
            count = len(got["bytes"])
            name = np.broadcast_to(np.int32(self._place(MEMSET_NAME)), count)
            add(OpKind.MEMSET, got, name, np.arange(moved, moved + count))
            transfers.add(
                bytes=_size(got["bytes"]),
                kind=np.broadcast_to(np.uint8(CopyKind.UNKNOWN), count),
                source=np.broadcast_to(np.uint8(MemoryKind.UNKNOWN), count),
                target=_memory(got["target"]),
            )
            moved += count
        for got in self._batches(GRAPHS, **self._op_columns(GRAPHS)):
            count = len(got["start"])
            name = np.broadcast_to(np.int32(self._place(_GRAPH_NAME)), count)
            add(OpKind.GRAPH, got, name, np.broadcast_to(np.int32(-1), count))

        sorted = _events(columns.take())
        ids = sorted.pop("id")
        # 32 bits of place below the process.
        process_of_stream = np.array([key >> 32 for key in self._streams.values], dtype=np.int64)
        process_of_thread = self._processes.of(np.array(self._threads.values, dtype=np.int64) & _PROCESS)
        if any(process_of_stream >= 0):
            op_process = process_of_stream[sorted["stream"]]
            call_process = np.append(process_of_thread, -1)[calls.thread]
        else:
            op_process = np.zeros(len(ids), dtype=np.int64)
            call_process = np.zeros(len(call_ids), dtype=np.int64)
        call = link(op_process, ids, call_process, call_ids)
        moves = transfers.take()
        moves["bytes"] = summable(moves["bytes"], LARGEST_BYTES)
        return GpuOps(**sorted, call=call), shapes.all(), Transfers(**moves), short_names

    def _op_columns(self, table: str) -> dict[str, str]:
        graph = self._whole(table, "graphId", 0)
        if self._db.has(table, "graphExecId"):
            graph = f"COALESCE(NULLIF({graph}, 0), {self._whole(table, 'graphExecId', 0)})"
        return {
            "start": self._whole(table, "start"),
            "end": self._whole(table, "end"),
            "process": self._whole(table, "globalPid"),
            "place": self._packed(table, ("deviceId", 15, 48, 0), ("contextId", 16, 32, 0), ("streamId", 32, 0, 0)),
            "id": self._whole(table, "correlationId"),
            "graph": graph,
            "node": self._whole(table, "graphNodeId", 0),
        }

    def _packed(self, table: str, *parts: tuple[str, int, int, int]) -> str:
        """Columns (bits, shift, in the place of NULL) in one integer: a column less costs 50 ns a row less."""
        return " | ".join(f"({self._db.bits(table, *part)})" for part in parts)

    def _kernel_columns(self) -> dict[str, str]:
        shared = "-1"
        if self._db.has(KERNELS, "staticSharedMemory", "dynamicSharedMemory"):
            static, dynamic = (self._db.bits(KERNELS, f"{one}SharedMemory", 32) for one in ("static", "dynamic"))
            shared = f"({static}) + ({dynamic})"
        return {
            **self._op_columns(KERNELS),
            "name": kernel_names(self._db),
            "grid": self._packed(KERNELS, ("gridX", 31, 32, 0), ("gridY", 16, 16, 0), ("gridZ", 16, 0, 0)),
            "block": self._packed(
                KERNELS,
                ("registersPerThread", 15, 48, _NO_REGISTERS),
                ("blockX", 16, 32, 0),
                ("blockY", 16, 16, 0),
                ("blockZ", 16, 0, 0),
            ),
            "shared": shared,
        }

    def _ranges(self) -> Ranges:
        """Open ranges end at ``_OPEN``."""
        columns = _Columns(
            start=np.int64, end=np.int64, type=np.int32, thread=np.int32, end_thread=np.int32, domain=np.int32,
            name=np.int32,
        )  # fmt: skip
        # A domain's number is its process's.
        domains = Codes(missing=-1)
        names = _Names(lambda id: -1 if id < 0 else self._place(self._text(id)))
        for got in self._batches(
            NVTX,
            start=self._whole(NVTX, "start"),
            end=self._whole(NVTX, "end", _OPEN),
            type=self._whole(NVTX, "eventType"),
            thread=self._whole(NVTX, "globalTid"),
            end_thread=self._whole(NVTX, "endGlobalTid"),
            domain=self._whole(NVTX, "domainId", 0),
            name=self._whole(NVTX, "textId"),
        ):
            thread = self._threads.of(got["thread"])
            end_thread = self._threads.of(got["end_thread"])
            process = self._processes.of(np.where(got["thread"] == -1, -1, got["thread"] & _PROCESS))
            domain = (process.astype(np.int64) << 32) | (got["domain"] & 0x7FFFFFFF)
            columns.add(
                start=_near(got["start"]),
                end=got["end"],
                type=np.clip(got["type"], -1, 0x7FFFFFFF),
                thread=thread,
                end_thread=np.where(end_thread < 0, thread, end_thread),
                domain=np.where(got["domain"] == 0, -1, domains.of(domain)),
                name=names.of(got["name"]),
            )
        read = columns.take()
        texts = self._inline_texts(len(read["start"]))
        name = np.where(texts < 0, read["name"], texts)

        domain_names: dict[int, int] = {}
        for row in np.flatnonzero((read["type"] == _DOMAIN_CREATED) & (name >= 0)).tolist():
            domain_names[int(read["domain"][row])] = int(name[row])
        place_of_domain = np.array([domain_names.get(code, -2) for code in range(len(domains))] + [-1], dtype=np.int32)
        used = np.unique(read["domain"])
        for code in used[used >= 0].tolist():
            if place_of_domain[code] == -2:
                place_of_domain[code] = self._place(f"domain {domains.values[code] & 0x7FFFFFFF}")

        kinds = np.full(len(name), 255, dtype=np.uint8)
        for type, range_kind in _RANGE_KINDS.items():
            kinds[read["type"] == type] = range_kind
        kept = np.flatnonzero(kinds != 255)
        unnamed = self._place("") if (name[kept] < 0).any() else -1
        start, end = read["start"][kept], read["end"][kept]
        kind = kinds[kept]
        is_mark = kind == RangeKind.MARK
        # Exports before 2022 have fillers in the place of NULL.
        is_open = ~is_mark & ((end == _OPEN) | (end < start))
        end = np.where(is_mark | is_open, start, np.minimum(_near(end), start + LONGEST_NS))
        end = np.where(is_open, _OPEN, summable_ends(start, end))
        sorted = _sorted(
            {
                "start": start,
                "end": end,
                "name": np.where(name[kept] < 0, np.int32(unnamed), name[kept]).astype(np.int32),
                "kind": kind,
                "domain": place_of_domain[read["domain"][kept]],
                "thread": read["thread"][kept],
                "end_thread": read["end_thread"][kept],
                "is_open": is_open,
            }
        )
        kind, parent, depth = nest(**{one: sorted[one] for one in ("start", "end", "kind", "thread", "domain")})
        return Ranges(**{**sorted, "kind": kind}, parent=parent, depth=depth)

    def _inline_texts(self, count: int) -> Ids:
        """The names that the rows of NVTX hold themselves, -1 where they hold none."""
        places = np.full(count, -1, dtype=np.int32)
        if self._db.has(NVTX, "text"):
            names = self._places
            row = 0
            try:
                for texts in self._db.texts(NVTX, "text"):
                    found = [
                        names.setdefault(text, len(names)) if text and isinstance(text, str) else -1
                        for (text,) in texts[: count - row]
                    ]
                    places[row : row + len(found)] = found
                    row += len(found)
                    if row >= count or not self._goes_on():
                        break
            except DamagedError:
                self._damaged[NVTX] = None
        return places

    def _faults(self) -> Calls:
        columns = _Columns(start=np.int64, end=np.int64, name=np.int32, thread=np.int32)
        for table, name in ((GPU_FAULTS, "GPU"), (CPU_FAULTS, "CPU")):
            end = "end" if self._db.has(table, "end") else "start"
            for got in self._batches(table, start=self._whole(table, "start"), end=self._whole(table, end)):
                start, ends = clipped(got["start"], got["end"])
                columns.add(
                    start=start,
                    end=ends,
                    name=np.broadcast_to(np.int32(self._place(name)), len(start)),
                    thread=np.broadcast_to(np.int32(-1), len(start)),
                )
        return Calls(**_events(columns.take()))

    def _samples(self) -> Samples:
        columns = _Columns(time=np.int64, thread=np.int32)
        for got in self._batches(SAMPLES, time=self._whole(SAMPLES, "start"), thread=self._whole(SAMPLES, "globalTid")):
            columns.add(time=_near(got["time"]), thread=self._threads.of(got["thread"]))
        read = columns.take()
        order = np.argsort(read["time"], kind="stable")
        return Samples(read["time"][order], read["thread"][order])

    def _counters(self, gpus: _Gpus) -> tuple[Counter, ...]:
        columns = _Columns(time=np.int64, type=np.int32, metric=np.int32, value=np.int64)
        types, metrics = Codes(), Codes()
        for got in self._batches(
            METRICS,
            time=self._whole(METRICS, "timestamp"),
            type=self._whole(METRICS, "typeId"),
            metric=self._whole(METRICS, "metricId"),
            value=self._whole(METRICS, "value"),
        ):
            columns.add(
                time=_near(got["time"]),
                type=types.of(got["type"]),
                metric=metrics.of(got["metric"]),
                value=got["value"],
            )
        read = columns.take()
        if not len(read["time"]):
            return ()
        labels = {
            (type, metric): name
            for type, metric, name in self._rows("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName")
            if isinstance(name, str)
        }
        order = np.lexsort((read["time"], read["metric"], read["type"]))
        type, metric = read["type"][order], read["metric"][order]
        borders = np.flatnonzero((type[1:] != type[:-1]) | (metric[1:] != metric[:-1])) + 1
        counters = []
        for rows in np.split(order, borders):
            number = types.values[read["type"][rows[0]]]
            label = labels.get((number, metrics.values[read["metric"][rows[0]]]))
            if label is None:
                continue
            # A clock that went wrong shows as a negative number.
            rows = rows[read["value"][rows] >= 0]
            name, unit = _named_unit(label)
            counters.append(
                Counter(
                    name,
                    # The last byte of a type is the GPU's number.
                    gpus.numbered(number & 0xFF),
                    read["time"][rows],
                    read["value"][rows].astype(np.float64),
                    unit,
                )
            )
        return tuple(counters)

    def _stream_list(self, gpus: _Gpus) -> tuple[Stream, ...]:
        names: dict[tuple[Any, ...], str] = {}
        for pid, context, stream in [
            *self._rows("TARGET_INFO_CUDA_NULL_STREAM", "processId", "contextId", "streamId"),
            *self._rows("TARGET_INFO_CUDA_CONTEXT_INFO", "processId", "contextId", "nullStreamId"),
        ]:
            names[pid, context, stream] = "default"
        for pid, context, stream, name in self._rows(
            "TARGET_INFO_NVTX_CUDA_STREAM", "processId", "contextId", "streamId", "name"
        ):
            if isinstance(name, str) and name:
                names[pid, context, stream] = name
        streams = []
        for key in self._streams.values:
            process = key >> 32
            place = self._stream_places.values[key & 0xFFFFFFFF]
            device, context, number = place >> 48, (place >> 32) & 0xFFFF, place & 0xFFFFFFFF
            pid = _pid(self._processes.values[process]) if process >= 0 else -1
            streams.append(
                Stream(gpus.of(pid, device), process, number, context, names.get((pid, context, number), ""))
            )
        return tuple(streams)

    def _thread_list(self) -> tuple[Thread, ...]:
        wanted = set(self._threads.values)
        names: dict[int, tuple[int, str]] = {}
        for thread, id, priority in self._rows("ThreadNames", "globalTid", "nameId", "priority"):
            if thread in wanted and isinstance(id, int):
                weight = priority if isinstance(priority, int) else 0
                if self._text(id) and weight >= names.get(thread, (weight, ""))[0]:
                    names[thread] = weight, self._text(id)
        processes = self._processes.of(np.array(self._threads.values, dtype=np.int64) & _PROCESS).tolist()
        return tuple(
            Thread(process, thread & 0xFFFFFF, names.get(thread, (0, ""))[1])
            for process, thread in zip(processes, self._threads.values, strict=True)
        )

    def _process_list(self, file: SourceFile, threads: tuple[Thread, ...]) -> tuple[Process, ...]:
        names = dict(self._rows("PROCESSES", "globalPid", "name"))
        own = {thread.process: thread.name for thread in threads if thread.name and self._is_main(thread)}
        ranks = {
            thread & _PROCESS: rank
            for thread, rank in self._rows("MPI_RANKS", "globalTid", "rank")
            if isinstance(thread, int) and isinstance(rank, int)
        }
        processes = []
        for place, value in enumerate(self._processes.values):
            name = names.get(value)
            if not isinstance(name, str) or name == "nsys-launcher":
                # That one became the program.
                name = own.get(place) or ""
            processes.append(Process(_pid(value), name, rank=ranks.get(value, file.rank)))
        return tuple(processes)

    def _is_main(self, thread: Thread) -> bool:
        return thread.process >= 0 and thread.tid == _pid(self._processes.values[thread.process])

    def _file(self) -> SourceFile:
        info = {
            name: value
            for table in ("EXPORT_META_DATA", "META_DATA_EXPORT", "META_DATA_CAPTURE")
            for name, value in self._rows(table, "name", "value")
            if isinstance(name, str) and isinstance(value, str)
        }
        command = [info.get("PROCESS_0:COMMAND", "")]
        while (argument := info.get(f"PROCESS_0:ARGUMENT_{len(command) - 1}")) is not None:
            command.append(argument)
        host = next(
            (value for name, value in self._rows("TARGET_INFO_SYSTEM_ENV", "name", "value") if name == "Hostname"), None
        )
        wall = next((row[0] for row in self._rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")), None)
        return SourceFile(
            path=str(self._path),
            kind="nsys",
            tool_version=info.get("EXPORT_PRODUCT_VERSION"),
            schema=info.get("EXPORT_SCHEMA_VERSION"),
            wall_ns=_wall(wall, info),
            host=host if isinstance(host, str) and host else None,
            command=shlex.join(command) if command[0] else None,
            rank=self._rank,
        )


class _Names:
    """Ids of names in batches, as places in the timeline's names; each is looked up once."""

    def __init__(self, place: Callable[[int], int]) -> None:
        self._place = place
        self._codes = Codes()
        self._places = np.zeros(0, dtype=np.int32)

    def of(self, ids: Ns) -> Ids:
        codes = self._codes.of(ids)
        new = self._codes.values[len(self._places) :]
        if new:
            self._places = np.append(self._places, np.array([self._place(id) for id in new], dtype=np.int32))
        return self._places[codes]


class _Shapes:
    """The distinct launch shapes of kernels that come in batches."""

    def __init__(self) -> None:
        self._grids, self._blocks, self._shared = Codes(), Codes(), Codes()
        self._pairs, self._all = Codes(), Codes()

    def of(self, grid: Ns, block: Ns, shared: Ns) -> Ids:
        pair = self._pairs.of((self._grids.of(grid).astype(np.int64) << 32) | self._blocks.of(block))
        return self._all.of((pair.astype(np.int64) << 32) | self._shared.of(shared))

    def all(self) -> tuple[LaunchShape, ...]:
        shapes = []
        for key in self._all.values:
            pair = self._pairs.values[key >> 32]
            grid, block = self._grids.values[pair >> 32], self._blocks.values[pair & 0xFFFFFFFF]
            shared = self._shared.values[key & 0xFFFFFFFF]
            registers = (block >> 48) & _NO_REGISTERS
            shapes.append(
                LaunchShape(
                    _dims(grid >> 32, grid >> 16, grid),
                    _dims((block >> 32) & 0xFFFF, block >> 16, block),
                    # No kernel has 0 registers; old exports fill in 0.
                    None if registers in (0, _NO_REGISTERS) else registers,
                    None if shared < 0 else shared,
                )
            )
        return tuple(shapes)


def _dims(x: int, y: int, z: int) -> Dim3 | None:
    dims = (x, y & 0xFFFF, z & 0xFFFF)
    return dims if all(dims) else None


class _Gpus:
    """The GPUs that the file tells of, and those that its kernels name beyond them."""

    def __init__(self, reader: _Reader) -> None:
        rows = list(
            reader._rows(
                "TARGET_INFO_GPU", "id", "cuDevice", "name", "computeMajor", "computeMinor", "smCount", "clockRate",
                "l2CacheSize",
            )
        ) or [
            # Old drivers' table counts kHz.
            (id, id, name, major, minor, sms, clock * 1000 if isinstance(clock, int) else None, l2)
            for id, name, major, minor, sms, clock, l2 in reader._rows(
                "TARGET_INFO_CUDA_GPU", "deviceId", "name", "computeCapabilityMajor", "computeCapabilityMinor",
                "numMultiprocessors", "coreClockRate", "l2CacheSize",
            )
        ]  # fmt: skip
        rows = [row for row in rows if isinstance(row[0], int)]
        numbers = [row[1] for row in rows if isinstance(row[1], int) and row[1] >= 0]
        # Old files say 0 for all.
        told = bool(numbers) and len(set(numbers)) == len(numbers)
        ordinals = {row[0]: row[1] if told and isinstance(row[1], int) and row[1] >= 0 else row[0] for row in rows}
        devices = {row[0]: _device(*row[2:]) for row in rows}
        ids = sorted(devices, key=lambda id: (ordinals[id], id))
        self.gpus = [Gpu(ordinals[id], devices[id]) for id in ids]
        self._by_id = {id: place for place, id in enumerate(ids)}
        self._by_ordinal = {gpu.ordinal: place for place, gpu in reversed(list(enumerate(self.gpus)))}
        # CUDA_VISIBLE_DEVICES gives each process its own numbers.
        self._visible = {
            (pid, device): self._by_id[id]
            for pid, device, id in reader._rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
            if id in self._by_id
        }

    def of(self, pid: int, device: int) -> int:
        """The place of the GPU that a process calls ``device``."""
        place = self._visible.get((pid, device))
        return self._numbered(device, self._by_ordinal) if place is None else place

    def numbered(self, id: int) -> int:
        """The place of the GPU that nsys itself gives this number."""
        return self._numbered(id, self._by_id)

    def _numbered(self, number: int, known: dict[int, int]) -> int:
        if number not in known:
            known[number] = len(self.gpus)
            self.gpus.append(Gpu(number, Device("unknown GPU")))
        return known[number]


def _device(name: Any, major: Any, minor: Any, sms: Any, clock: Any, l2: Any) -> Device:
    hertz = plausible(clock, _MOST_HERTZ)
    return Device(
        name=name if isinstance(name, str) and name else "unknown GPU",
        compute_capability=capability_of(major, minor),
        sm_count=plausible(sms),
        sm_clock_hz=None if hertz is None else float(hertz),
        l2_bytes=plausible(l2, LARGEST_BYTES),
    )


def link(op_process: Ns, op_id: Ns, call_process: Ns, call_id: Ns) -> Ids:
    """Per op the row of the call of its process that has its correlation id, the first of several; -1 for none."""
    call = np.full(len(op_id), -1, dtype=np.int32)
    if not len(op_id) or not len(call_id):
        return call
    first, last = int(call_id.min()), int(call_id.max())
    span = last - first + 1
    processes = int(max(op_process.max(), call_process.max())) + 1
    asked = np.flatnonzero((op_id > 0) & (op_id >= first) & (op_id <= last) & (op_process >= 0))
    has_process = np.flatnonzero(call_process >= 0)
    if span * processes <= 8 * (len(op_id) + len(call_id)) + (1 << 20):
        # The ids of a process are nearly without holes.
        row_of = np.full(span * processes, -1, dtype=np.int32)
        backwards = has_process[::-1]
        row_of[call_process[backwards] * span + (call_id[backwards] - first)] = backwards
        call[asked] = row_of[op_process[asked] * span + (op_id[asked] - first)]
        return call
    order = has_process[np.lexsort((call_id[has_process], call_process[has_process]))]
    key = np.empty(len(order), dtype=[("process", np.int64), ("id", np.int64)])
    key["process"], key["id"] = call_process[order], call_id[order]
    sought = np.empty(len(asked), dtype=key.dtype)
    sought["process"], sought["id"] = op_process[asked], op_id[asked]
    place = np.minimum(np.searchsorted(key, sought), len(order) - 1)
    if len(order):
        call[asked] = np.where(key[place] == sought, order[place], -1)
    return call


def _events(columns: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return _sorted({**columns, "end": summable_ends(columns["start"], columns["end"])})


def _sorted(columns: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    order = in_order(columns["start"], columns["end"])
    return columns if order is None else {name: column[order] for name, column in columns.items()}


def _extent(times: list[Ns]) -> tuple[int, int]:
    told = [one for one in times if len(one)]
    return (min(int(one.min()) for one in told), max(int(one.max()) for one in told)) if told else (0, 0)


def _graph(graph: Ns, node: Ns) -> Ns:
    """The CUDA graph of each; where only a node is told, the upper half of its number, which is the graph's."""
    if not node.any():
        return np.clip(graph, 0, 0x7FFFFFFF)
    of_node = np.where(node >> 32, node >> 32, node)
    return np.clip(np.where(graph > 0, graph, of_node), 0, 0x7FFFFFFF)


def _size(bytes: Ns) -> Ns:
    return np.clip(bytes, -1, LARGEST_BYTES)


def _memory(kind: Ns) -> Ns:
    return np.where((kind < 0) | (kind > max(MemoryKind)), MemoryKind.UNKNOWN, kind)


def _pid(value: int) -> int:
    return (value >> 24) & 0xFFFFFF


def _named_unit(label: str) -> tuple[str, str]:
    """A metric's name and unit: nsys writes "SMs Active [Throughput %]". It labels clocks MHz and stores Hz."""
    name, _, unit = label.rpartition(" [")
    if not name or not unit.endswith("]"):
        return label, ""
    unit = unit[:-1]
    return name, "%" if unit.endswith("%") else "Hz" if unit == "MHz" else unit


def _wall(start: Any, info: Mapping[str, str]) -> int | None:
    """The wall clock at time 0: the session's start, less what the export added to every time."""
    if not isinstance(start, int) or not 0 < start < FARTHEST_NS:
        return None
    shift = info.get("EXPORT_CONFIG_TIME_SHIFT", "0")
    return start - int(shift) if re.fullmatch(r"-?\d{1,19}", shift) else None
