"""Timelines put together row by row for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from gputui.analysis.timeline import TimelineFacts
from gputui.model.device import Device
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Counter,
    Events,
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

_TYPES: dict[str, Any] = {"start": np.int64, "end": np.int64, "kind": np.uint8, "depth": np.int16, "is_open": bool}


@dataclass
class Built:
    """Rows may come in any order; what one of them links to is told by its name or by its number of that kind."""

    gpus: int = 1
    streams: Sequence[Stream] = (Stream(0, 0, 7), Stream(0, 0, 13))
    threads: Sequence[Thread] = (Thread(0, 100, "main"), Thread(0, 101, "worker"))
    processes: Sequence[Process] = (Process(100, "python"),)
    files: int = 1
    names: list[str] = field(default_factory=list)
    _ops: list[dict[str, Any]] = field(default_factory=list)
    _calls: list[dict[str, Any]] = field(default_factory=list)
    _os: list[dict[str, Any]] = field(default_factory=list)
    _ranges: list[dict[str, Any]] = field(default_factory=list)
    _transfers: list[tuple[int, int, int, int]] = field(default_factory=list)
    _counters: list[Counter] = field(default_factory=list)

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text)

    def kernel(self, start: int, end: int, name: str = "gemm", stream: int = 0, *, call: int = -1) -> None:
        self._op(start, end, name, OpKind.KERNEL, stream, call, detail=0)

    def graph(self, start: int, end: int, stream: int = 0) -> None:
        self._op(start, end, "graph 1", OpKind.GRAPH, stream, -1, detail=-1)

    def copy(self, start: int, end: int, kind: CopyKind, size: int = 1024, stream: int = 0, *, call: int = -1) -> None:
        self._transfers.append((size, kind, MemoryKind.PAGEABLE, MemoryKind.DEVICE))
        self._op(start, end, "[CUDA memcpy]", OpKind.COPY, stream, call, detail=len(self._transfers) - 1)

    def memset(self, start: int, end: int, size: int = 1024, stream: int = 0) -> None:
        self._transfers.append((size, 0, MemoryKind.UNKNOWN, MemoryKind.DEVICE))
        self._op(start, end, "[CUDA memset]", OpKind.MEMSET, stream, -1, detail=len(self._transfers) - 1)

    def _op(self, start: int, end: int, name: str, kind: OpKind, stream: int, call: int, *, detail: int) -> None:
        self._ops.append(
            {"start": start, "end": end, "name": self.name(name), "kind": kind, "stream": stream, "call": call,
             "detail": detail, "graph": 0}
        )  # fmt: skip

    def call(self, start: int, end: int, name: str = "cudaLaunchKernel", thread: int = 0, *, os: bool = False) -> None:
        row = {"start": start, "end": end, "name": self.name(name), "thread": thread}
        (self._os if os else self._calls).append(row)

    def range(
        self, start: int, end: int, name: str, depth: int = 0, thread: int = 0, *, kind: RangeKind = RangeKind.PUSH_POP,
        domain: str = "", end_thread: int | None = None,
    ) -> None:  # fmt: skip
        """The parent is the last range given before it that is one level up in its thread and domain."""
        self._ranges.append(
            {"start": start, "end": end, "name": self.name(name), "kind": kind, "depth": depth, "thread": thread,
             "domain": self.name(domain) if domain else -1, "is_open": False,
             "end_thread": thread if end_thread is None else end_thread, "parent": -1}
        )  # fmt: skip

    def counter(self, name: str, time: Sequence[int], value: Sequence[float], unit: str = "%") -> None:
        self._counters.append(Counter(name, 0, np.array(time, dtype=np.int64), np.array(value, dtype=float), unit))

    def timeline(self) -> Timeline:
        for rows in (self._calls, self._os, self._ranges, self._ops):
            rows.sort(key=lambda row: (row["start"], -row["end"]))
        for place, row in enumerate(self._ranges):
            above = (
                one
                for one in reversed(range(place))
                if row["depth"] > 0
                and all(self._ranges[one][key] == row[key] for key in ("thread", "domain"))
                and self._ranges[one]["depth"] == row["depth"] - 1
            )
            row["parent"] = next(above, -1)
        every = [row for rows in (self._ops, self._calls, self._os, self._ranges) for row in rows]
        transfers = np.array(self._transfers, dtype=np.int64).reshape(-1, 4)
        small = transfers.astype(np.uint8)
        return Timeline(
            names=self.names,
            files=[SourceFile(f"run{one}.sqlite", "nsys") for one in range(self.files)],
            gpus=[Gpu(one % max(1, self.gpus // self.files), Device("GPU"), one * self.files // self.gpus)
                  for one in range(self.gpus)],
            processes=self.processes, streams=self.streams, threads=self.threads,
            shapes=[LaunchShape((4, 2, 1), (128, 1, 1))],
            ops=_table(GpuOps, self._ops), calls=_table(Calls, self._calls), os_calls=_table(Calls, self._os),
            ranges=_table(Ranges, self._ranges),
            transfers=Transfers(bytes=transfers[:, 0], kind=small[:, 1], source=small[:, 2], target=small[:, 3]),
            counters=self._counters,
            start_ns=min((row["start"] for row in every), default=0),
            end_ns=max((row["end"] for row in every), default=1),
        )  # fmt: skip

    def facts(self) -> TimelineFacts:
        return TimelineFacts(self.timeline())


def _table(kind: type[Any], rows: Sequence[dict[str, Any]]) -> Any:
    assert issubclass(kind, Events)
    columns = {one.name: [row[one.name] for row in rows] for one in fields(kind)}
    return kind(**{name: np.array(values, dtype=_TYPES.get(name, np.int32)) for name, values in columns.items()})


def random_built(seed: int, *, span: int = 4000, kernels: int = 60) -> Built:
    """Kernels of several classes that may overlap on two streams, copies, calls, and nested ranges on two threads."""
    source = np.random.default_rng(seed)
    built = Built()
    for stream in (0, 1):
        for start in np.sort(source.integers(0, span, kernels)).tolist():
            name = str(source.choice(["gemm", "softmax", "layer_norm", "vectorized_elementwise_kernel", "mine"]))
            built.kernel(start, start + int(source.integers(0, 120)), name, stream)
    for start in source.integers(0, span, 20).tolist():
        built.copy(start, start + int(source.integers(1, 80)), CopyKind(int(source.choice([0, 1, 2, 8, 10]))))
    for thread in (0, 1):
        time = 0
        while time < span:
            length = int(source.integers(0, 90))
            built.call(time, time + length, str(source.choice(["cudaLaunchKernel", "cudaMalloc", "cudaFree"])), thread)
            built.range(time, time + length, f"step {time}", 0, thread)
            if length > 4:
                built.range(time + 1, time + length - 1, "inner", 1, thread)
            time += length + int(source.integers(0, 40))
    return built
