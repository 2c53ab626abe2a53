"""Timelines of programs put together by hand: what a CPU thread does, and what the GPU does because of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gputui.analysis.timeline import TimelineFacts
from gputui.model.device import Device
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Counter,
    Gpu,
    GpuOps,
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
)

US, MS = 1_000, 1_000_000
H100 = Device("NVIDIA H100 80GB HBM3", (9, 0), 132)
_TYPES: dict[str, Any] = {"start": np.int64, "end": np.int64, "kind": np.uint8, "depth": np.int16, "is_open": bool}
Row = dict[str, Any]


@dataclass
class Program:
    """Rows may come in any order. Times in ns; ``streams`` are made by ``stream``, threads by ``thread``.

    An operation is launched ``lead`` ns before it starts, by a call of ``launch_ns``, unless it is told otherwise
    (``called``); a ``lead`` of ``None`` leaves the calls out.
    """

    device: Device = H100
    gpus: int = 1
    kind: str = "nsys"
    command: str | None = "python train.py --fast"
    process: str = "python"
    lead: int | None = 3 * US
    launch_ns: int = 2 * US
    streams: list[Stream] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=lambda: [Thread(0, 100, "main")])
    counters: list[Counter] = field(default_factory=list)
    samples: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    shapes: list[LaunchShape] = field(default_factory=list)
    _rows: dict[str, list[Row]] = field(default_factory=dict)
    _transfers: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams = self.streams or [Stream(gpu, 0, 7) for gpu in range(self.gpus)]

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text)

    def stream(self, gpu: int = 0) -> int:
        self.streams.append(Stream(gpu, 0, 13 + len(self.streams)))
        return len(self.streams) - 1

    def thread(self, name: str = "worker") -> int:
        self.threads.append(Thread(0, 100 + len(self.threads), name))
        return len(self.threads) - 1

    def kernel(
        self, start: int, end: int, name: str = "gemm", *, stream: int = 0, called: int | None = None,
        api: str = "cudaLaunchKernel", thread: int = 0, blocks: int = 1024, graph: int = 0,
    ) -> None:  # fmt: skip
        shape = LaunchShape((blocks, 1, 1), (256, 1, 1))
        if shape not in self.shapes:
            self.shapes.append(shape)
        call = self._launch(start, called, api, thread)
        self._op(start, end, name, OpKind.KERNEL, stream, call, self.shapes.index(shape), graph)

    def copy(
        self, start: int, end: int, size: int, kind: CopyKind = CopyKind.HOST_TO_DEVICE, *,
        memory: MemoryKind = MemoryKind.PINNED, stream: int = 0, called: int | None = None,
        api: str = "cudaMemcpyAsync", returns: int | None = None, thread: int = 0,
    ) -> None:  # fmt: skip
        """``memory`` is the computer's side; ``returns`` is when the call ends, for copies that block."""
        device = MemoryKind.DEVICE
        source, target = (device, memory) if kind == CopyKind.DEVICE_TO_HOST else (memory, device)
        if kind == CopyKind.DEVICE_TO_DEVICE:
            source = target = device
        self._transfers.append((size, kind, source, target))
        call = self._launch(start, called, api, thread, returns)
        self._op(start, end, f"[CUDA memcpy {kind.name}]", OpKind.COPY, stream, call, len(self._transfers) - 1, 0)

    def graph(self, start: int, end: int, stream: int = 0) -> None:
        call = self._launch(start, None, "cudaGraphLaunch", 0)
        self._op(start, end, "[CUDA graph]", OpKind.GRAPH, stream, call, -1, 1)

    def call(self, start: int, end: int, name: str, thread: int = 0) -> Row:
        return self._add("calls", start, end, name, thread=thread)

    def os_call(self, start: int, end: int, name: str, thread: int = 0) -> None:
        self._add("os_calls", start, end, name, thread=thread)

    def fault(self, start: int, end: int, name: str = "GPU") -> None:
        self._add("faults", start, end, name, thread=-1)

    def overhead(self, start: int, end: int, thread: int = 0) -> None:
        self._add("overhead", start, end, "CUPTI buffer flush", thread=thread)

    def range(self, start: int, end: int, name: str, thread: int = 0, domain: str | None = None) -> None:
        """A push/pop range; what encloses it on the same thread is its parent."""
        self._add(
            "ranges", start, end, name, kind=RangeKind.PUSH_POP, domain=-1 if domain is None else self.name(domain),
            thread=thread, end_thread=thread, is_open=False,
        )  # fmt: skip

    def counter(self, name: str, times: Any, values: Any, gpu: int = 0) -> None:
        self.counters.append(Counter(name, gpu, np.asarray(times, np.int64), np.asarray(values, float), "%"))

    def sample(self, time: int, thread: int = 0) -> None:
        self.samples.append((time, thread))

    def _launch(self, start: int, called: int | None, api: str, thread: int, returns: int | None = None) -> Row | None:
        if called is None:
            if self.lead is None:
                return None
            called = start - self.lead
        return self.call(called, called + self.launch_ns if returns is None else returns, api, thread)

    def _op(
        self, start: int, end: int, name: str, kind: OpKind, stream: int, call: Row | None, detail: int, graph: int
    ) -> None:
        self._add("ops", start, end, name, kind=kind, stream=stream, call=call, detail=detail, graph=graph)

    def _add(self, table: str, start: int, end: int, name: str, **columns: Any) -> Row:
        row = {"start": start, "end": end, "name": self.name(name), **columns}
        self._rows.setdefault(table, []).append(row)
        return row

    def timeline(self) -> Timeline:
        for rows in self._rows.values():
            rows.sort(key=lambda row: (row["start"], -row["end"]))
        place = {id(row): number for number, row in enumerate(self._rows.get("calls", ()))}
        ops = [
            {**row, "call": -1 if row["call"] is None else place[id(row["call"])]} for row in self._rows.get("ops", ())
        ]
        transfers = np.array(self._transfers, dtype=np.int64).reshape(-1, 4)
        small = transfers.astype(np.uint8)
        samples = np.array(sorted(self.samples), dtype=np.int64).reshape(-1, 2)
        every = [row for rows in self._rows.values() for row in rows]
        return Timeline(
            names=self.names,
            files=[SourceFile("run.sqlite", self.kind, command=self.command)],
            gpus=[Gpu(one, self.device) for one in range(self.gpus)],
            processes=[Process(100, self.process)],
            streams=self.streams,
            threads=self.threads,
            shapes=self.shapes,
            ops=_table(GpuOps, ops),
            calls=_table(Calls, self._rows.get("calls", ())),
            os_calls=_table(Calls, self._rows.get("os_calls", ())),
            faults=_table(Calls, self._rows.get("faults", ())),
            overhead=_table(Calls, self._rows.get("overhead", ())),
            ranges=_table(Ranges, _nested(self._rows.get("ranges", []))),
            transfers=Transfers(bytes=transfers[:, 0], kind=small[:, 1], source=small[:, 2], target=small[:, 3]),
            counters=self.counters,
            samples=Samples(samples[:, 0], samples[:, 1].astype(np.int32)) if self.samples else None,
            start_ns=min((row["start"] for row in every), default=0),
            end_ns=max((row["end"] for row in every), default=0),
        )

    def facts(self) -> TimelineFacts:
        return TimelineFacts(self.timeline())


def _nested(rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for place, row in enumerate(rows):
        around = [
            one
            for one in range(place)
            if rows[one]["thread"] == row["thread"]
            and rows[one]["domain"] == row["domain"]
            and rows[one]["end"] >= row["end"]
            and rows[one]["end"] > row["start"]
        ]
        parent = around[-1] if around else -1
        found.append({**row, "parent": parent, "depth": found[parent]["depth"] + 1 if parent >= 0 else 0})
    return found


def _table(kind: type[Any], rows: Any) -> Any:
    columns = {one.name: [row[one.name] for row in rows] for one in fields(kind)}
    return kind(**{name: np.array(values, dtype=_TYPES.get(name, np.int32)) for name, values in columns.items()})


def looped(steps: int, length: int, body: Callable[[int], None]) -> None:
    """Call ``body`` with the start of each step."""
    for step in range(steps):
        body(step * length)
