"""The events of a PyTorch profiler trace (or another Chrome trace) as a timeline.

What becomes what, by an event's category (``cat``):

* ``kernel``, ``gpu_memcpy``, ``gpu_memset``: GPU operations, linked by ``correlation`` to the call that launched them;
* ``cuda_runtime``, ``cuda_driver`` (and those of other makers): API calls;
* ``user_annotation`` (``record_function``, ``ProfilerStep#3``): ranges of the default domain; ``cpu_op``: of the domain
  "PyTorch"; ``python_function``: of "Python"; any other whole event, or pair of begin and end: of the category's own;
* ``overhead``: the profiler's own time.

Left out are ``gpu_user_annotation`` and ``cuda_sync``, which Kineto makes from the others, arrows (``ac2g`` repeats
the correlation, ``fwdbwd`` has no place in a timeline), instants and counters. Time 0 is the start of the first event.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from gputui.errors import GputuiError
from gputui.formats._chrome_trace import MALFORMED, Args, Event, Place, Trace, times
from gputui.formats._nsys_tables import COPY_NAMES, MEMSET_NAME, api_name, link
from gputui.formats.base import LONGEST_NAME, Progress, capability_of, plausible, rank_of
from gputui.model.device import Device
from gputui.model.kernel import Dim3
from gputui.model.limits import LARGEST_BYTES, summable, summable_ends
from gputui.model.nesting import nest
from gputui.model.report import NoMetrics, Notice, Report, Session
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Gpu,
    GpuOps,
    LaunchShape,
    MemoryKind,
    OpKind,
    Process,
    RangeKind,
    Ranges,
    SourceFile,
    Stream,
    Thread,
    Timeline,
    Transfers,
)

_OPS: Mapping[str, OpKind] = {
    "kernel": OpKind.KERNEL, "gpu_memcpy": OpKind.COPY, "memcpy": OpKind.COPY,
    "gpu_memset": OpKind.MEMSET, "memset": OpKind.MEMSET,
}  # fmt: skip
_CALLS = ("runtime", "driver")
_DERIVED = frozenset({"gpu_user_annotation", "cuda_sync", "trace"})
_DOMAINS = {"user_annotation": "", "cpu_op": "PyTorch", "operator": "PyTorch", "python_function": "Python"}
"""The words that PyTorch 1.8 used (``Operator``, ``Memcpy``) stand beside today's."""
_TORCH = frozenset({*_DOMAINS, "cuda_runtime", "gpu_memcpy"})
"""Categories that Kineto alone writes."""

_COPY = re.compile(r"Memcpy (\w+) \(([\w ]+) -> ([\w ]+)\)")
_MEMSET = re.compile(r"Memset \(([\w ]+)\)")
_COPIES = {
    "HtoD": CopyKind.HOST_TO_DEVICE, "DtoH": CopyKind.DEVICE_TO_HOST, "HtoA": CopyKind.HOST_TO_ARRAY,
    "AtoH": CopyKind.ARRAY_TO_HOST, "AtoA": CopyKind.ARRAY_TO_ARRAY, "AtoD": CopyKind.ARRAY_TO_DEVICE,
    "DtoA": CopyKind.DEVICE_TO_ARRAY, "DtoD": CopyKind.DEVICE_TO_DEVICE, "HtoH": CopyKind.HOST_TO_HOST,
    "PtoP": CopyKind.PEER_TO_PEER,
}  # fmt: skip
"""Kineto's short word for a direction."""
_MEMORIES = {
    "Pageable": MemoryKind.PAGEABLE, "Pinned": MemoryKind.PINNED, "Device": MemoryKind.DEVICE,
    "Array": MemoryKind.ARRAY, "Managed": MemoryKind.MANAGED, "Device Static": MemoryKind.DEVICE_STATIC,
    "Managed Static": MemoryKind.MANAGED_STATIC,
}  # fmt: skip

_PLAIN_THREAD = re.compile(r"thread \d+ \((.*)\)")
_PLAIN_STREAM = re.compile(r"stream \d+\s*")
_AUTOMATIC = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#", "DistributedDataParallel.", "nccl:", "gloo:")
"""Annotations that PyTorch makes by itself."""
_EPOCH_NS = 10**18
"""A start beyond it (September 2001) counts from 1970: Kineto before it wrote ``baseTimeNanoseconds``."""
_UNLINKED_SHARE = 0.01
"""Operations without the call that launched them, of all: worth a word beyond it."""
_DEEPEST, _MOST_UNFINISHED = 1000, 100_000
"""Events that have begun on a thread, and in all: more are left out. Stacks of calls are no deeper."""
_MOST_REGISTERS = 1 << 14
_MOST_CACHED = 1024
_NO_ARGS = Args()


class _DeviceProperties(msgspec.Struct):
    id: int
    name: str
    major: int | None = msgspec.field(default=None, name="computeMajor")
    minor: int | None = msgspec.field(default=None, name="computeMinor")
    sm_count: int | None = msgspec.field(default=None, name="numSms")


def read(path: Path, progress: Progress | None = None) -> Report:
    """The trace as a report. Raises ``GputuiError`` where it holds no event with a time, or unpacks to too much."""
    trace = Trace(path, progress)
    tables = _Tables()
    for events in trace.events():
        tables.add(events)
    if not tables.count:
        raise GputuiError(
            str(path), "is a trace without events", "Copy it again, or export it again (export_chrome_trace)"
        )
    timeline = tables.timeline(str(path), trace.beside)
    notices = []
    if trace.cut:
        notices.append(Notice("trace-cut", {"events": tables.count}))
    if skipped := trace.skipped + tables.skipped:
        notices.append(Notice("trace-damaged", {"skipped": skipped}))
    return Report(
        path=str(path),
        kind="torch",
        kernels=[],
        source=NoMetrics(),
        truncated=trace.cut,
        notices=notices,
        session=Session(created=_utc(timeline.files[0].wall_ns)),
        timeline=timeline,
    )


class _Columns:
    """Columns that grow by a batch at a time; the first two are start and end."""

    def __init__(self, *types: npt.DTypeLike) -> None:
        self._types = types
        self._batches: list[tuple[npt.NDArray[Any], ...]] = []
        self.count = 0

    def add(self, *columns: npt.ArrayLike) -> None:
        batch = tuple(np.asarray(column, dtype=type) for column, type in zip(columns, self._types, strict=True))
        self._batches.append(batch)
        self.count += len(batch[0])

    def in_order(self) -> list[npt.NDArray[Any]]:
        """The columns by start, longer ones first, then as they came; durations can be summed."""
        columns = [
            np.concatenate([np.zeros(0, dtype=type), *(batch[place] for batch in self._batches)])
            for place, type in enumerate(self._types)
        ]
        self._batches.clear()
        columns[1] = summable_ends(columns[0], columns[1])
        order = np.lexsort((-columns[1], columns[0]))
        return [column[order] for column in columns]


class _Tables:
    """What has been read so far. Keys of the dictionaries are as the file has them, values are places."""

    def __init__(self) -> None:
        self._ops = _Columns(np.int64, np.int64, np.int32, np.uint8, np.int32, np.int64, np.int32, np.int32)
        self._transfers: list[tuple[int, CopyKind, MemoryKind, MemoryKind]] = []
        self._calls = _Columns(np.int64, np.int64, np.int32, np.int32, np.int64)
        self._ranges = _Columns(np.int64, np.int64, np.int32, np.int32, np.int32, np.bool_)
        self._overhead = _Columns(np.int64, np.int64, np.int32, np.int32)
        self._begun: dict[tuple[Place, Place], list[Event]] = {}
        self._unfinished = 0
        self._too_deep: Counter[tuple[Place, Place]] = Counter()
        self.skipped = 0
        self._categories: set[str] = set()
        self._annotated = False
        self._names: dict[str, int] = {}
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._processes: dict[Place, int] = {}
        self._threads: dict[tuple[Place, Place], int] = {}
        self._devices: set[Place] = set()
        self._streams: dict[tuple[Place, Place, Place], int] = {}
        self._process_names: dict[Place, str] = {}
        self._thread_names: dict[tuple[Place, Place], str] = {}

    @property
    def count(self) -> int:
        """The events that have found a place."""
        begun = sum(len(events) for events in self._begun.values())
        return self._ops.count + self._calls.count + self._ranges.count + self._overhead.count + begun

    def add(self, events: Sequence[Event]) -> None:
        by_category: dict[str, list[Event]] = {}
        for event in events:
            if event.ph == "X":
                by_category.setdefault(event.cat, []).append(event)
            elif event.ph == "M":
                self._name(event)
            elif event.ph == "B":
                self._begin(event)
            elif event.ph == "E":
                whole = self._end(event)
                if whole is not None:
                    by_category.setdefault(whole.cat, []).append(whole)
        for category, some in by_category.items():
            self._add_category(category.lower(), some)

    def _begin(self, event: Event) -> None:
        thread = (event.pid, event.tid)
        begun = self._begun.setdefault(thread, [])
        if self._too_deep[thread] or len(begun) >= _DEEPEST or self._unfinished >= _MOST_UNFINISHED:
            self._too_deep[thread] += 1
            self.skipped += 1
            return
        begun.append(event)
        self._unfinished += 1

    def _end(self, event: Event) -> Event | None:
        """The whole event that ends here."""
        thread = (event.pid, event.tid)
        if self._too_deep[thread]:
            self._too_deep[thread] -= 1
            return None
        begun = self._begun.get(thread)
        if not begun:
            return None
        self._unfinished -= 1
        begin = begun.pop()
        begin.dur = type(begin.ts)(event.ts) - begin.ts
        return begin

    def _add_category(self, category: str, events: Sequence[Event]) -> None:
        self._categories.add(category)
        if category in _OPS:
            self._add_ops(_OPS[category], events)
        elif category.endswith(_CALLS):
            names = [self._place(_call_name(event.name)) for event in events]
            correlations = [_known((event.args or _NO_ARGS).correlation) for event in events]
            self._calls.add(*times(events), names, self._threads_of(events), correlations)
        elif category == "overhead":
            self._overhead.add(*times(events), [self._place(event.name) for event in events], np.full(len(events), -1))
        elif category not in _DERIVED:
            self._add_ranges(category, events)

    def _add_ops(self, kind: OpKind, events: Sequence[Event]) -> None:
        names, details, streams, correlations, graphs = [], [], [], [], []
        for event in events:
            args = event.args or _NO_ARGS
            if kind == OpKind.KERNEL:
                names.append(self._place(event.name))
                shape = (args.grid, args.block, args.registers, args.shared)
                details.append(self._shapes.setdefault(shape, len(self._shapes)))
            else:
                name, copy_kind, source, target = (_copy if kind == OpKind.COPY else _memset)(event.name)
                names.append(self._place(name))
                details.append(len(self._transfers))
                self._transfers.append((_known(args.bytes), copy_kind, source, target))
            streams.append(self._stream_of(event, args))
            correlations.append(_known(args.correlation))
            # CUDA's number is of 32 bits without a sign.
            graphs.append((args.graph or 0) & 0x7FFFFFFF)
        self._ops.add(*times(events), names, np.full(len(events), kind), streams, correlations, details, graphs)

    def _add_ranges(self, category: str, events: Sequence[Event], is_open: bool = False) -> None:
        domain = _DOMAINS.get(category, category)
        if category == "user_annotation" and not self._annotated:
            self._annotated = any(not event.name.startswith(_AUTOMATIC) for event in events)
        self._ranges.add(
            *times(events),
            [self._place(event.name) for event in events],
            np.full(len(events), self._place(domain) if domain else -1),
            self._threads_of(events),
            np.full(len(events), is_open),
        )

    def _name(self, event: Event) -> None:
        """Remember the name that a metadata event gives to a process or thread."""
        name = event.args.name if event.args is not None else None
        if name is None:
            return
        name = name[:LONGEST_NAME]
        if event.name == "process_name":
            self._process_names[event.pid] = name
        elif event.name == "thread_name":
            self._thread_names[event.pid, event.tid] = name

    def _place(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _threads_of(self, events: Sequence[Event]) -> list[int]:
        found = []
        for event in events:
            key = (event.pid, event.tid)
            if key not in self._threads:
                self._processes.setdefault(event.pid, len(self._processes))
                self._threads[key] = len(self._threads)
            found.append(self._threads[key])
        return found

    def _stream_of(self, event: Event, args: Args) -> int:
        device = args.device if args.device is not None else args.in_device
        device = event.pid if device is None else device
        key = (device, args.context, event.tid if args.stream is None else args.stream)
        if key not in self._streams:
            self._devices.add(device)
            self._streams[key] = len(self._streams)
        return self._streams[key]

    def timeline(self, path: str, beside: Mapping[str, Any]) -> Timeline:
        """All of it; ``beside`` is what stands beside the events in the file. Nothing can be added afterwards."""
        without_end: dict[str, list[Event]] = {}
        for events in self._begun.values():
            for event in events:
                without_end.setdefault(event.cat.lower(), []).append(event)
        for category, some in without_end.items():
            self._add_ranges(category, some, is_open=True)
        op_columns, call_columns = self._ops.in_order(), self._calls.in_order()
        range_columns, overhead_columns = self._ranges.in_order(), self._overhead.in_order()
        tables = [columns for columns in (op_columns, call_columns, range_columns, overhead_columns) if len(columns[0])]
        zero = min(int(columns[0][0]) for columns in tables)
        for columns in tables:
            columns[0] -= zero
            columns[1] -= zero
        end_ns = max(int(columns[1].max()) for columns in tables)

        start, end, name, thread, correlation = call_columns
        calls = Calls(start=start, end=end, name=name, thread=thread)
        start, end, name, kind, stream, launched_by, detail, graph = op_columns
        # Correlations are those of one profiler, whatever process launched.
        call = link(np.zeros_like(launched_by), launched_by, np.zeros_like(correlation), correlation)
        ops = GpuOps(
            start=start, end=end, name=name, kind=kind, stream=stream, call=call, detail=detail, graph=graph
        )  # fmt: skip
        start, end, name, domain, thread, is_open = range_columns
        end = summable_ends(start, np.where(is_open, end_ns, end))
        kind = np.full(len(start), RangeKind.PUSH_POP, dtype=np.uint8)
        kind, parent, depth = nest(start=start, end=end, kind=kind, thread=thread, domain=domain)
        ranges = Ranges(
            start=start, end=end, name=name, kind=kind, domain=domain, thread=thread, end_thread=thread, parent=parent,
            depth=depth, is_open=is_open,
        )  # fmt: skip
        start, end, name, thread = overhead_columns
        overhead = Calls(start=start, end=end, name=name, thread=thread)

        devices = sorted(self._devices, key=lambda device: (_number(device), str(device)))
        rank = _rank(path, beside)
        is_torch = bool(self._categories & _TORCH) or "deviceProperties" in beside
        schema = beside.get("schemaVersion")
        file = SourceFile(
            path=path,
            kind="torch" if is_torch else "chrome",
            schema=str(schema) if isinstance(schema, int) else None,
            wall_ns=_wall_ns(beside.get("baseTimeNanoseconds"), zero),
            rank=rank,
        )
        return Timeline(
            names=[_printable(one) for one in self._names],
            files=[file],
            gpus=_gpus(devices, beside.get("deviceProperties")),
            processes=[Process(_number(pid), self._process_name(pid), rank=rank) for pid in self._processes],
            streams=self._stream_list(ops, calls, devices),
            threads=[
                Thread(self._processes[pid], _number(tid), self._thread_name(pid, tid)) for pid, tid in self._threads
            ],
            shapes=[_shape(*one) for one in self._shapes],
            ops=ops,
            transfers=_transfers(self._transfers),
            calls=calls,
            ranges=ranges,
            overhead=overhead,
            lacks=self._lacks(ops) if is_torch else [],
            end_ns=end_ns,
        )

    def _process_name(self, pid: Place) -> str:
        return _printable(self._process_names.get(pid) or _title(pid))

    def _thread_name(self, pid: Place, tid: Place) -> str:
        name = self._thread_names.get((pid, tid)) or _title(tid)
        plain = _PLAIN_THREAD.fullmatch(name)
        return _printable(name if plain is None else plain[1])

    def _stream_list(self, ops: GpuOps, calls: Calls, devices: Sequence[Place]) -> list[Stream]:
        """The streams; ``devices`` are the GPUs in order. A stream is of the process whose calls put work on it, else
        of the one with most calls."""
        process_of = np.array([self._processes[pid] for pid, _ in self._threads], dtype=np.int32)
        otherwise = 0 if self._processes else -1
        if len(calls):
            otherwise = int(np.bincount(process_of[calls.thread]).argmax())
        processes = np.full(len(self._streams), otherwise)
        linked = ops.call >= 0
        processes[ops.stream[linked]] = process_of[calls.thread[ops.call[linked]]]
        gpu_of = {device: place for place, device in enumerate(devices)}
        found = []
        for (device, context, number), process in zip(self._streams, processes.tolist(), strict=True):
            name = self._thread_names.get((device, number)) or _title(number)
            found.append(
                Stream(
                    gpu=gpu_of[device],
                    process=process,
                    number=_number(number),
                    context=max(_number(context), 0),
                    name="" if _PLAIN_STREAM.fullmatch(name) else _printable(name),
                )
            )
        return found

    def _lacks(self, ops: GpuOps) -> list[Notice]:
        """What the profiler was not asked for, or lost."""
        lacks = []
        if not len(ops):
            lacks.append(Notice("lacks-torch-kernels") if self._calls.count else Notice("lacks-torch-cuda"))
        if not self._annotated:
            lacks.append(Notice("lacks-torch-annotations"))
        unlinked = int((ops.call < 0).sum())
        if unlinked > _UNLINKED_SHARE * len(ops):
            lacks.append(Notice("lacks-torch-calls", {"count": unlinked, "total": len(ops)}))
        return lacks


_call_name = lru_cache(_MOST_CACHED)(api_name)


@lru_cache(_MOST_CACHED)
def _copy(name: str) -> tuple[str, CopyKind, MemoryKind, MemoryKind]:
    """Name as nsys has it, direction, source and target of ``Memcpy HtoD (Pageable -> Device)``."""
    told = _COPY.match(name)
    direction, source, target = told.groups() if told else ("", "", "")
    kind = _COPIES.get(direction, CopyKind.UNKNOWN)
    return COPY_NAMES[kind], kind, _MEMORIES.get(source, MemoryKind.UNKNOWN), _MEMORIES.get(target, MemoryKind.UNKNOWN)


@lru_cache(_MOST_CACHED)
def _memset(name: str) -> tuple[str, CopyKind, MemoryKind, MemoryKind]:
    """The same of ``Memset (Device)``."""
    told = _MEMSET.match(name)
    target = _MEMORIES.get(told[1], MemoryKind.UNKNOWN) if told else MemoryKind.UNKNOWN
    return MEMSET_NAME, CopyKind.UNKNOWN, MemoryKind.UNKNOWN, target


def _known(value: int | None) -> int:
    return -1 if value is None else value


def _number(place: Place) -> int:
    """The number in what an event calls a process, thread, device or stream; -1 where there is none."""
    with suppress(ValueError, OverflowError, TypeError):
        number = int(place)  # type: ignore[arg-type]
        return number if abs(number) < 2**63 else -1
    return -1


def _title(place: Place) -> str:
    """What stands for a name where an event calls a process or thread by something else than a number."""
    return place if isinstance(place, str) and _number(place) < 0 else ""


def _printable(text: str) -> str:
    """Without halves of surrogate pairs, which no terminal and no file can take."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _shape(grid: Dim3 | None, block: Dim3 | None, registers: int | None, shared: int | None) -> LaunchShape:
    def real(size: Dim3 | None) -> Dim3 | None:
        return size if size is not None and all(0 < one < 2**31 for one in size) else None

    return LaunchShape(
        real(grid),
        real(block),
        plausible(registers, _MOST_REGISTERS),
        shared if shared is not None and 0 <= shared < 2**31 else None,
    )


def _transfers(rows: Sequence[tuple[int, CopyKind, MemoryKind, MemoryKind]]) -> Transfers:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    bytes, kind, source, target = columns.T
    return Transfers(
        bytes=summable(np.clip(bytes, -1, LARGEST_BYTES), LARGEST_BYTES),
        kind=kind.astype(np.uint8),
        source=source.astype(np.uint8),
        target=target.astype(np.uint8),
    )


def _gpus(devices: Sequence[Place], properties: Any) -> list[Gpu]:
    """The GPUs that did something, with what the file says of them."""
    told = {}
    for one in properties if isinstance(properties, list) else ():
        with suppress(*MALFORMED):
            found = msgspec.convert(one, _DeviceProperties, strict=False)
            told[found.id] = Device(
                name=_printable(found.name[:LONGEST_NAME]),
                compute_capability=capability_of(found.major, found.minor),
                sm_count=plausible(found.sm_count),
            )
    numbers = [_number(device) for device in devices]
    return [Gpu(number, told.get(number, Device("unknown GPU"))) for number in numbers]


def _rank(path: str, beside: Mapping[str, Any]) -> int | None:
    """The rank in a distributed job: from the file, else from its name."""
    job = beside.get("distributedInfo")
    rank = job.get("rank") if isinstance(job, dict) else None
    if isinstance(rank, int) and 0 <= rank < 2**31:
        return rank
    return rank_of(Path(path))


def _wall_ns(base: Any, zero: int) -> int | None:
    """The wall clock at ``zero`` ns of the file's own time, which counts from ``base`` where the file tells it."""
    if isinstance(base, int) and 0 < base < 2**62:
        return base + zero
    return zero if zero >= _EPOCH_NS else None


def _utc(wall_ns: int | None) -> str | None:
    return None if wall_ns is None else datetime.fromtimestamp(wall_ns // 10**9, timezone.utc).isoformat()
