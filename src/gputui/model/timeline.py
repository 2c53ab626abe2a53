"""A timeline: what ran when on GPUs, in API calls and in NVTX ranges, as sorted numpy columns.

Every table is a set of columns of one length, sorted by ``start``. Times are int64 nanoseconds on one clock for all
tables; those of a single file are the file's own. Names are places in ``Timeline.names``; streams, threads, GPUs and
processes are places in the lists of the same name. -1 stands for "the file does not tell".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from gputui.model.intervals import Ns
from gputui.model.kernel import Dim3

if TYPE_CHECKING:
    from gputui.model.device import Device
    from gputui.model.report import Notice

Ids = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


class OpKind(IntEnum):
    """What the GPU did. A ``GRAPH`` is a whole CUDA graph launch traced as one block: its kernels are not known."""

    KERNEL = 0
    COPY = 1
    MEMSET = 2
    GRAPH = 3


class CopyKind(IntEnum):
    """The direction of a copy, numbered as nsys and CUPTI do."""

    UNKNOWN = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_ARRAY = 3
    ARRAY_TO_HOST = 4
    ARRAY_TO_ARRAY = 5
    ARRAY_TO_DEVICE = 6
    DEVICE_TO_ARRAY = 7
    DEVICE_TO_DEVICE = 8
    HOST_TO_HOST = 9
    PEER_TO_PEER = 10
    UNIFIED_HOST_TO_DEVICE = 11
    UNIFIED_DEVICE_TO_HOST = 12
    UNIFIED_DEVICE_TO_DEVICE = 13


class MemoryKind(IntEnum):
    """Where one end of a copy lies, numbered as nsys does (CUPTI's own numbers are one higher)."""

    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    ARRAY = 3
    MANAGED = 4
    DEVICE_STATIC = 5
    MANAGED_STATIC = 6
    UNKNOWN = 7


class RangeKind(IntEnum):
    """An NVTX push/pop range, a start/end range (may overlap others and end on another thread), or a mark."""

    PUSH_POP = 0
    START_END = 1
    MARK = 2


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """How kernels were launched. ``None`` where the file does not tell."""

    grid: Dim3 | None = None
    block: Dim3 | None = None
    registers: int | None = None
    shared_bytes: int | None = None

    @property
    def blocks(self) -> int | None:
        return None if self.grid is None else self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True, slots=True)
class Process:
    """``file`` is the place of its file among those that were opened; ``rank`` is of a distributed job."""

    pid: int
    name: str = ""
    file: int = 0
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of one file; ``ordinal`` is the number that the file gives it (CUDA's device number)."""

    ordinal: int
    device: Device
    file: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """A CUDA stream of a process on a GPU. ``number`` is what the file calls it (nsys: 7 is the default stream)."""

    gpu: int
    process: int
    number: int
    context: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Thread:
    process: int
    tid: int
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Events:
    """``start`` and ``end`` in ns, ``name`` a place in ``Timeline.names``; sorted by start, longer ones first."""

    start: Ns
    end: Ns
    name: Ids

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> Ns:
        return self.end - self.start

    def take(self: E, rows: npt.NDArray[Any]) -> E:
        """These rows (places or a mask), in that order. Links to other tables stay as they are."""
        return replace(self, **{one.name: getattr(self, one.name)[rows] for one in fields(self)})


E = TypeVar("E", bound=Events)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuOps(Events):
    """What ran on GPUs.

    ``kind`` is an ``OpKind``. ``call`` is the row of the API call that launched it in ``Timeline.calls``, -1 where
    that is not in the file. ``detail`` is a place in ``Timeline.shapes`` for kernels, a row of ``Timeline.transfers``
    for copies and memsets, -1 otherwise. ``graph`` is the CUDA graph (graph node tracing or a whole graph) it ran in,
    else 0.
    """

    kind: Bytes
    stream: Ids
    call: Ids
    detail: Ids
    graph: Ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls(Events):
    """Calls of a CPU thread: CUDA's runtime and driver, or the operating system's (``Timeline.os_calls``).

    Names of CUDA calls are without version suffix (``cudaLaunchKernel``, not ``cudaLaunchKernel_v7000``).
    """

    thread: Ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranges(Events):
    """NVTX ranges and marks.

    ``domain`` is a place in ``Timeline.names``, -1 for the default domain. ``end_thread`` differs from ``thread``
    where a range ended on another thread. ``parent`` is the row of the push/pop range of the same thread and domain
    that encloses it, -1 at the top; ``depth`` counts those. ``is_open`` says that the file has no end for it: its
    ``end`` is that of the capture.
    """

    kind: Bytes
    domain: Ids
    thread: Ids
    end_thread: Ids
    parent: Ids
    depth: npt.NDArray[np.int16]
    is_open: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfers:
    """Copies and memsets beyond their time: ``bytes``, ``kind`` (a ``CopyKind``), ``source`` and ``target``
    (``MemoryKind``; a memset has only a target)."""

    bytes: Ns
    kind: Bytes
    source: Bytes
    target: Bytes

    def __len__(self) -> int:
        return len(self.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """A sampled GPU metric: ``value`` at ``time``."""

    name: str
    gpu: int
    time: Ns
    value: npt.NDArray[np.float64]
    unit: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """CPU samples: the thread that was running at ``time``."""

    time: Ns
    thread: Ids


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One opened file of the timeline. ``wall_ns`` is the wall clock (ns since 1970, UTC) at its time 0;
    ``shift_ns`` was added to its times to put it on the common clock."""

    path: str
    kind: str
    tool_version: str | None = None
    schema: str | None = None
    wall_ns: int | None = None
    shift_ns: int = 0
    host: str | None = None
    command: str | None = None
    rank: int | None = None


def in_order(start: Ns, end: Ns) -> npt.NDArray[np.intp] | None:
    """The places of events by start, longer ones first, then as they came; ``None`` where they are so already."""
    order = None
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    same = start[1:] == start[:-1]
    wrong = same & (end[1:] > end[:-1])
    if wrong.any():
        # Only runs of equal starts need another look.
        run = np.concatenate(([0], np.cumsum(~same)))
        is_wrong = np.zeros(int(run[-1]) + 1, dtype=bool)
        is_wrong[run[1:][wrong]] = True
        rows = np.flatnonzero(is_wrong[run])
        if order is None:
            order = np.arange(len(start))
        order[rows] = order[rows[np.lexsort((-end[rows], run[rows]))]]
    return order


def no_events(kind: type[E]) -> E:
    """A table without rows."""
    types: dict[str, Any] = {"start": np.int64, "end": np.int64, "kind": np.uint8, "depth": np.int16, "is_open": bool}
    return kind(**{one.name: np.zeros(0, dtype=types.get(one.name, np.int32)) for one in fields(kind)})


def no_transfers() -> Transfers:
    small = np.zeros(0, dtype=np.uint8)
    return Transfers(bytes=np.zeros(0, dtype=np.int64), kind=small, source=small, target=small)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """One capture, or several on one clock.

    ``start_ns`` to ``end_ns`` encloses every event. ``short_names`` are functions without parameters and templates, by
    place in ``names``, of kernels whose file tells them. ``faults`` are unified-memory page faults, by ``name`` "GPU"
    or "CPU" and with their thread -1; ``overhead`` is the profiler's own time. ``lacks`` are what the capture does not
    have, each a notice with the flag that would bring it.
    """

    names: Sequence[str]
    files: Sequence[SourceFile]
    short_names: Mapping[int, str] = field(default_factory=dict)
    gpus: Sequence[Gpu] = ()
    processes: Sequence[Process] = ()
    streams: Sequence[Stream] = ()
    threads: Sequence[Thread] = ()
    shapes: Sequence[LaunchShape] = ()
    ops: GpuOps = field(default_factory=lambda: no_events(GpuOps))
    transfers: Transfers = field(default_factory=no_transfers)
    calls: Calls = field(default_factory=lambda: no_events(Calls))
    os_calls: Calls = field(default_factory=lambda: no_events(Calls))
    ranges: Ranges = field(default_factory=lambda: no_events(Ranges))
    faults: Calls = field(default_factory=lambda: no_events(Calls))
    overhead: Calls = field(default_factory=lambda: no_events(Calls))
    counters: Sequence[Counter] = ()
    samples: Samples | None = None
    lacks: Sequence[Notice] = ()
    start_ns: int = 0
    end_ns: int = 0

    @property
    def span_ns(self) -> int:
        return self.end_ns - self.start_ns

    def name(self, place: int) -> str:
        return self.names[place] if place >= 0 else ""
