"""The steady state of a timeline: when each GPU waited, what the CPU did then, and what may be asked of the capture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gputui.analysis.finding import Moment
from gputui.analysis.kernel_names import KernelIdentity, identify
from gputui.analysis.ncu_command import is_python
from gputui.analysis.steps import Step, without_numbers
from gputui.analysis.timeline import Mask, TimelineFacts, Window
from gputui.model.intervals import EMPTY, Intervals, Ns, any_of
from gputui.model.timeline import Calls, CopyKind, Events, Ids, MemoryKind, OpKind, RangeKind, Ranges

if TYPE_CHECKING:
    from gputui.model.report import Notice

NEEDS = (
    "ops", "loop", "api-calls", "os-calls", "operators", "nvtx", "memory-kinds", "grids", "gpu-metrics", "samples",
    "steps", "all-ranks",
)  # fmt: skip
"""What rules may ask a capture for."""

LAUNCH_GAP_NS = 100_000
"""Shorter gaps are those between launches (heuristic: an eager PyTorch operation takes the CPU 10 to 50 µs)."""
LONG_GAP_NS = 1_000_000
"""From here on a gap is something that the CPU did, not the restart after a wait for the GPU."""
_FEW_OPS = 20
"""Operations in the window under which nothing is repeated enough to speak of a steady state."""
_MOST_OPS = 1_000_000
_LEAST_STEPS = 3
_AT_WORK = 0.1
"""Of several GPUs, those count that are busy for this share of the busiest one's time."""

SYNCS = r"cu(da)?(Ctx|Device|Stream|Event|Thread)Synchronize"
ALLOCATIONS = (
    r"cu(da)?(Malloc(?!\w*Async)|Free(?!\w*Async)|Host(Alloc|Register|Unregister)|MemAlloc(?!\w*Async)"
    r"|MemFree(?!\w*Async)|MemHostAlloc|MemCreate|MemMap$|MemUnmap|MemRelease|MemAddress)"
)
BLOCKING_COPIES = r"cu(da)?Memcpy(?!\w*Async|Batch)"
LAUNCHES = r"cu(da)?(Graph)?Launch(?!HostFunc)"
GRAPH_LAUNCHES = r"cu(da)?GraphLaunch"
MODULE_LOADS = r"cu(da)?(ModuleLoad|LibraryLoad|LibraryGetModule|LinkComplete|LinkCreate|FuncGetAttributes)|nvrtc"

_WAITS_FOR_INPUT = (
    r"p?poll$|p?select(6)?$|epoll_p?wait|p?read(v|v2|64|at)?$|__read|f?read(_unlocked)?$|f?getc|fgets|getline|recv"
    r"|accept"
)
_WAITS_FOR_OTHERS = r"pthread_cond_(timed|clock)?wait|sem_(timed|clock)?wait|futex|pthread_join|wait(pid|4|id)?$|mq_"
_INPUT_RANGE = re.compile(
    r"data_?load|load_?(data|batch|input)|(next|get|fetch|read|prepare)_?(the_)?(next_)?(batch|data|input|sample)"
    r"|input_?pipeline|prefetch|DataLoaderIter|^(data|input|loader)$",
    re.IGNORECASE,
)
_OPERATORS = "PyTorch"
"""The domain of the operators that PyTorch's profiler records."""


UNIFIED = (CopyKind.UNIFIED_HOST_TO_DEVICE, CopyKind.UNIFIED_DEVICE_TO_HOST, CopyKind.UNIFIED_DEVICE_TO_DEVICE)
"""Pages of unified memory that were moved without the program's asking."""


class Cause(IntEnum):
    """Why a GPU had nothing to do in a gap, as far as the capture tells."""

    UNKNOWN = 0
    LAUNCH = 1
    """Short: the CPU or the GPU itself was busy with launching the next operation."""
    SYNC = 2
    """Under a millisecond, begun while the CPU waited for the GPU: the restart after that wait."""
    COPY = 3
    """As ``SYNC``, after a copy that blocks the CPU."""
    ALLOCATION = 4
    INPUT = 5
    CODE = 6
    """0.1 to 1 ms in which the launching thread was mostly in no call of CUDA or the operating system; where the latter
    were not traced, mostly in PyTorch's operators or between them in a range, and in no call of CUDA."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The times when one GPU had nothing to do, in order of time; all columns of one length.

    ``idle`` is their length in ns without the profiler's own work in them. ``op`` is the operation that ended each (-1
    at the window's end), ``thread`` the CPU thread that launched it (-1 where that is not known). ``queued`` says that
    it had been launched before the gap began. ``in_calls`` is the time that the thread spent in CUDA calls.
    """

    start: Ns
    end: Ns
    idle: Ns
    op: Ns
    thread: Ns
    queued: Mask
    cause: npt.NDArray[np.uint8]
    in_calls: Ns
    in_os: Ns
    in_input: Ns

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a thread spent its time in while a GPU had nothing to do; shares are of that time, 0-1, each the largest of
    its kind. ``None`` and 0 where there is none, ``""`` where the capture has no such events."""

    range: str | None
    range_share: float
    os: str | None
    os_share: float
    api: str | None
    api_share: float
    own_share: float | None
    """In no call of CUDA or the operating system; ``None`` where the latter were not traced."""
    outside_share: float | None
    """In no call of CUDA; ``None`` where those were not traced."""


@dataclass(frozen=True, slots=True, eq=False)
class Collectives:
    """The same collectives on several GPUs: ``durations`` in ns and ``rows`` of the operations, a row a GPU.

    All GPUs leave a collective together, so the time of one on a GPU less its shortest on any is waiting for the last.
    """

    gpus: tuple[int, ...]
    durations: Ns
    rows: tuple[Ns, ...]

    @property
    def waits(self) -> Ns:
        waits: Ns = self.durations - self.durations.min(axis=0)
        return waits

    @property
    def wait_of(self) -> dict[int, int]:
        """How long each GPU waited for others, in ns."""
        return dict(zip(self.gpus, self.waits.sum(axis=1).tolist(), strict=True))

    @property
    def _last(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.durations.argmin(axis=0), minlength=len(self.gpus))

    @property
    def late(self) -> int:
        """The GPU that comes last most often."""
        return self.gpus[int(self._last.argmax())]

    @property
    def late_share(self) -> float:
        """In how many of the collectives it comes last, 0-1."""
        return float(self._last.max()) / len(self.durations[0])


class SteadyState:
    """What the rules look at; each part is worked out when first asked for."""

    def __init__(self, facts: TimelineFacts, notices: Sequence[Notice] = ()) -> None:
        self.facts = facts
        self.timeline = facts.timeline
        self.window = _manageable(facts)
        """The steady window, or the middle of it where it holds more than can be looked at in a second or two."""
        self.notices = notices
        self.found: set[str] = set()
        """The findings so far, by id: some rules go by others."""
        self.claimed: set[Cause] = set()
        """The causes of idle time that findings so far speak of."""
        self._gaps: dict[int, Gaps] = {}
        self._lengths: dict[int, int] = {}
        self._idle: dict[int, Ns] = {}
        self._near: dict[int, Ns] = {}

    # -------------------------------------------------------------- what the capture holds

    def has(self, need: str) -> bool:
        return self._holds[need]()

    @cached_property
    def _holds(self) -> Mapping[str, Callable[[], bool]]:
        timeline = self.timeline
        return {
            "ops": lambda: len(timeline.ops) > 0,
            "loop": lambda: self.facts.steps is not None or (self.has_many_ops and self._repeats),
            "api-calls": lambda: bool((timeline.ops.call[self.rows] >= 0).any()),
            "os-calls": lambda: len(timeline.os_calls) > 0,
            "operators": lambda: len(self.operators) > 0,
            "nvtx": lambda: bool((timeline.ranges.kind == RangeKind.PUSH_POP).any()),
            "memory-kinds": lambda: bool((self.host_memory != MemoryKind.UNKNOWN).any()),
            "grids": lambda: any(shape.grid is not None for shape in timeline.shapes) and self.sm_count is not None,
            "gpu-metrics": lambda: any(is_sm_active(counter.name) for counter in timeline.counters),
            "samples": lambda: timeline.samples is not None and len(timeline.samples.time) > 0,
            "steps": lambda: self.facts.steps is not None,
            "all-ranks": lambda: len(self.communicating) > 1,
        }

    @property
    def has_many_ops(self) -> bool:
        """Whether the window has enough operations that the program asked for: migrations of unified memory are not."""
        return int((self.in_window & ~self.copies_of(*UNIFIED)).sum()) >= _FEW_OPS

    @property
    def _repeats(self) -> bool:
        """Whether a kernel or graph of the capture is launched again and again; of one without any, its copies are."""
        work = np.isin(self.timeline.ops.kind, (OpKind.KERNEL, OpKind.GRAPH))
        return not work.any() or int(np.bincount(self.timeline.ops.name[work]).max()) >= _LEAST_STEPS

    @property
    def is_nsys(self) -> bool:
        return any(file.kind == "nsys" for file in self.timeline.files)

    @cached_property
    def is_python(self) -> bool:
        """Whether the launching program is a Python one, as far as its name or command tells."""
        return bool(is_python(self.timeline))

    @property
    def sm_count(self) -> int | None:
        return next((gpu.device.sm_count for gpu in self.timeline.gpus if gpu.device.sm_count), None)

    # -------------------------------------------------------------- operations in the window

    @cached_property
    def rows(self) -> Ns:
        """The operations that overlap the window."""
        return self.near(self.timeline.ops)

    @cached_property
    def in_window(self) -> Mask:
        mask: Mask = np.zeros(len(self.timeline.ops), dtype=bool)
        mask[self.rows] = True
        return mask

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs at work: those that do a tenth or more of what the busiest one does."""
        facts, window = self.facts, self.window
        busy = {gpu: facts.busy[gpu].length_in(window.start_ns, window.end_ns) for gpu in facts.gpus}
        most = max(busy.values(), default=0)
        return tuple(gpu for gpu, time in busy.items() if time > 0 and time >= _AT_WORK * most)

    def mask(self, gpu: int | None, chosen: Mask) -> Mask:
        """Of these operations those in the window, on one GPU or (``None``) on all."""
        found: Mask = chosen & self.in_window
        return found if gpu is None else found & (self.facts.op_gpu == gpu)

    def union(self, mask: Mask) -> Intervals:
        """When any of these ran, within the window."""
        return self.facts.union(mask).clip(self.window.start_ns, self.window.end_ns)

    def busy(self, gpu: int) -> Intervals:
        return self.facts.busy[gpu].clip(self.window.start_ns, self.window.end_ns)

    @cached_property
    def steps(self) -> int | None:
        """How many steps the window holds."""
        return None if self.facts.steps is None else len(self._steps)

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        steps, window = self.facts.steps, self.window
        every = () if steps is None else steps.steady
        return tuple(one for one in every if one.start_ns >= window.start_ns and one.end_ns <= window.end_ns)

    @property
    def seconds(self) -> float:
        return max(1, self.window.span_ns) / 1e9

    @property
    def span_word(self) -> str:
        """Which variant of a text fits the window: that of a loop, or of a time."""
        return "loop" if self.window.source == "steps" else "time"

    def exposed(self, gpu: int, chosen: Mask) -> int:
        """How long these operations ran on a GPU with no other beside them, in ns."""
        mine = self.mask(gpu, chosen)
        if not mine.any():
            return 0
        return self.union(mine).minus(self.union(self.mask(gpu, ~chosen))).total

    def kernels_by_step(self, most: int = 64) -> npt.NDArray[np.int64]:
        """How often each kernel was launched in each of the first steady steps: a row a step, a column a name."""
        steps, ops, calls = self.facts.steps, self.timeline.ops, self.timeline.calls
        shown = self._steps[:most]
        if steps is None or not shown:
            return np.zeros((0, 0), dtype=np.int64)
        rows = np.flatnonzero(self.facts.kernel_mask & self.in_window)
        time = ops.start[rows]
        if steps.source == "nvtx" and len(calls):
            time = np.where(ops.call[rows] >= 0, calls.start[ops.call[rows]], time)
        borders = np.array([*(step.start_ns for step in shown), shown[-1].end_ns], dtype=np.int64)
        place = np.searchsorted(borders, time, side="right") - 1
        inside = (place >= 0) & (place < len(shown))
        _, name = np.unique(ops.name[rows[inside]], return_inverse=True)
        width = int(name.max(initial=-1)) + 1
        cells = np.bincount(place[inside] * width + name, minlength=len(shown) * width)
        return cells.reshape(len(shown), width)

    # -------------------------------------------------------------- kernels by what they are

    @cached_property
    def identities(self) -> dict[int, KernelIdentity]:
        """What the kernels are, by their place in the timeline's names."""
        timeline = self.timeline
        names = np.unique(timeline.ops.name[self.facts.kernel_mask]).tolist()
        return {name: identify(timeline.short_names.get(name, ""), timeline.name(name)) for name in names}

    def kernels_where(self, wanted: Callable[[KernelIdentity], bool]) -> Mask:
        """The kernels of such identities, as a mask over all operations."""
        chosen = np.zeros(len(self.timeline.names) + 1, dtype=bool)
        chosen[[name for name, identity in self.identities.items() if wanted(identity)]] = True
        found: Mask = self.facts.kernel_mask & chosen[self.timeline.ops.name]
        return found

    @cached_property
    def communication(self) -> Mask:
        return self.kernels_where(lambda identity: identity.op_class == "communication")

    @cached_property
    def computing(self) -> tuple[int, ...]:
        """The GPUs that run kernels."""
        return tuple(np.unique(self.facts.op_gpu[self.facts.kernel_mask & self.in_window]).tolist())

    def number(self, gpu: int) -> str:
        """What a GPU is called: its own number; where that is another's too with its rank, or its place instead."""
        gpus, files = self.timeline.gpus, self.timeline.files
        own = gpus[gpu]
        if sum(one.ordinal == own.ordinal for one in gpus) == 1:
            return str(own.ordinal)
        rank = files[own.file].rank if own.file < len(files) else None
        return str(gpu) if rank is None else f"{own.ordinal} (rank {rank})"

    @cached_property
    def communicating(self) -> tuple[int, ...]:
        """The GPUs that run collectives."""
        return tuple(np.unique(self.facts.op_gpu[self.communication & self.in_window]).tolist())

    # -------------------------------------------------------------- copies

    @cached_property
    def copies(self) -> Mask:
        found: Mask = (self.timeline.ops.kind == OpKind.COPY) & (self.timeline.ops.detail >= 0)
        return found

    def copies_of(self, *kinds: CopyKind) -> Mask:
        """The copies of these directions, as a mask over all operations."""
        ops, found = self.timeline.ops, np.zeros(len(self.timeline.ops), dtype=bool)
        rows = np.flatnonzero(self.copies)
        found[rows] = np.isin(self.timeline.transfers.kind[ops.detail[rows]], kinds)
        return found

    @cached_property
    def host_copies(self) -> Mask:
        """Copies between the GPU and the computer's memory that the program asked for."""
        return self.copies_of(CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST)

    @cached_property
    def host_memory(self) -> npt.NDArray[np.uint8]:
        """Where the host's end of each copy to or from the GPU lies: a ``MemoryKind`` an operation, ``UNKNOWN`` for all
        others."""
        ops, transfers = self.timeline.ops, self.timeline.transfers
        found = np.full(len(ops), MemoryKind.UNKNOWN, dtype=np.uint8)
        for kind, side in ((CopyKind.HOST_TO_DEVICE, transfers.source), (CopyKind.DEVICE_TO_HOST, transfers.target)):
            rows = np.flatnonzero(self.copies_of(kind))
            found[rows] = side[ops.detail[rows]]
        return found

    @cached_property
    def pageable(self) -> Mask:
        found: Mask = self.host_memory == MemoryKind.PAGEABLE
        return found

    def bytes_of(self, chosen: Mask | Ns) -> Ns:
        """The bytes of these copies (rows or a mask), without those whose size the file does not tell."""
        sizes = self.timeline.transfers.bytes[self.timeline.ops.detail[chosen]]
        return sizes[sizes >= 0]

    # -------------------------------------------------------------- threads

    @cached_property
    def launching(self) -> tuple[int, ...]:
        """The threads that launch the window's operations, most launches first; those under 1 % are left out."""
        calls = self.timeline.ops.call[self.rows]
        calls = calls[calls >= 0]
        if not len(calls):
            return ()
        counts = np.bincount(self.timeline.calls.thread[calls].clip(0))
        order = np.argsort(-counts, kind="stable")
        return tuple(int(thread) for thread in order if counts[thread] >= max(1, len(calls) // 100))

    def calls_in_window(self, pattern: str) -> Ns:
        """The launching threads' CUDA calls of this name that overlap the window."""
        rows = self.by_launching_threads
        return rows[self.facts.named(pattern)[self.timeline.calls.name[rows]]]

    @cached_property
    def by_launching_threads(self) -> Ns:
        """The launching threads' CUDA calls that overlap the window."""
        rows = self.near(self.timeline.calls)
        return rows[np.isin(self.timeline.calls.thread[rows], self.launching)]

    def near(self, events: Events) -> Ns:
        """The rows of a table that overlap the window."""
        if id(events) not in self._near:
            last = int(np.searchsorted(events.start, self.window.end_ns, side="left"))
            self._near[id(events)] = np.flatnonzero(events.end[:last] > self.window.start_ns)
        return self._near[id(events)]

    def thread_rows(self, events: Calls | Ranges, thread: int) -> Ns:
        """The rows of a thread that overlap the window."""
        rows = self.near(events)
        found: Ns = rows[events.thread[rows] == thread]
        return found

    def cover(self, events: Events, rows: npt.NDArray[Any]) -> Intervals:
        return Intervals.union(events.start[rows], events.end[rows])

    def when_in(self, thread: int, pattern: str) -> Intervals:
        """When a thread was in CUDA calls of this name."""
        calls, rows = self.timeline.calls, self.thread_rows(self.timeline.calls, thread)
        return self.cover(calls, rows[self.facts.named(pattern)[calls.name[rows]]])

    @cached_property
    def _blocking(self) -> Mask:
        """Calls that copy and return when the copy is done: by their name, or because the memory is pageable."""
        found = self.facts.calls_named(BLOCKING_COPIES)
        called = self.timeline.ops.call[self.pageable]
        found[called[called >= 0]] = True
        return found

    @cached_property
    def blocking_calls(self) -> Ns:
        """The launching threads' copies that block, in the window."""
        rows = self.by_launching_threads
        found: Ns = rows[self._blocking[rows]]
        return found

    def _waiting(self, pattern: str) -> Intervals:
        """When every launching thread was in such an operating-system call (outside of CUDA's calls): one that waits
        for another one that works does not count."""
        os_calls, calls = self.timeline.os_calls, self.timeline.calls
        named = self.facts.named(pattern)
        found: Intervals | None = None
        for thread in self.launching if len(os_calls) else ():
            rows = self.thread_rows(os_calls, thread)
            waits = self.cover(os_calls, rows[named[os_calls.name[rows]]])
            waits = waits.minus(self.cover(calls, self.thread_rows(calls, thread)))
            found = waits if found is None else found.intersect(waits)
        return found or EMPTY

    @cached_property
    def input_calls(self) -> Intervals:
        return self._waiting(_WAITS_FOR_INPUT)

    @cached_property
    def waits_for_others(self) -> Intervals:
        return self._waiting(_WAITS_FOR_OTHERS)

    @cached_property
    def input_ranges(self) -> Intervals:
        """When a launching thread was in a range whose name says that it gets data."""
        ranges = self.timeline.ranges
        named = np.array([_INPUT_RANGE.search(name) is not None for name in self.timeline.names], dtype=bool)
        if not named.any() or not len(ranges):
            return EMPTY
        rows = self.near(ranges)
        chosen = named[ranges.name[rows]] & np.isin(ranges.thread[rows], self.launching)
        return self.cover(ranges, rows[chosen])

    @cached_property
    def operators(self) -> Ns:
        """The launching threads' ranges in the window that are PyTorch's operators."""
        ranges, rows = self.timeline.ranges, self.near(self.timeline.ranges)
        named = np.array([name == _OPERATORS for name in self.timeline.names] + [False], dtype=bool)
        found: Ns = rows[named[ranges.domain[rows]] & np.isin(ranges.thread[rows], self.launching)]
        return found

    def in_operators(self, gpu: int, chosen: Mask) -> float:
        """How much of these gaps the thread that launched what ended them was in PyTorch's operators, 0-1."""
        gaps, ranges = self.gaps(gpu), self.timeline.ranges
        inside, whole = 0, int((gaps.end - gaps.start)[chosen].sum())
        for thread in np.unique(gaps.thread[chosen]).tolist():
            mine = chosen & (gaps.thread == thread)
            when = self.cover(ranges, self.operators[ranges.thread[self.operators] == thread])
            inside += int(_covered(when, gaps.start[mine], gaps.end[mine]).sum())
        return inside / max(1, whole)

    # -------------------------------------------------------------- gaps

    @cached_property
    def overhead(self) -> Intervals:
        """When the profiler itself kept a launching thread, or one that is not told, from working."""
        overhead, rows = self.timeline.overhead, self.near(self.timeline.overhead)
        return self.cover(overhead, rows[np.isin(overhead.thread[rows], (-1, *self.launching))])

    def gaps(self, gpu: int) -> Gaps:
        if gpu not in self._gaps:
            self._gaps[gpu] = self._find_gaps(gpu)
        return self._gaps[gpu]

    def _find_gaps(self, gpu: int) -> Gaps:
        facts, ops, calls = self.facts, self.timeline.ops, self.timeline.calls
        found = facts.busy[gpu].gaps(self.window.start_ns, self.window.end_ns)
        start, end = found.start, found.end
        idle = end - start - _covered(self.overhead, start, end)
        mine = np.flatnonzero(facts.op_gpu == gpu)
        place = np.minimum(np.searchsorted(ops.start[mine], end, side="left"), len(mine) - 1)
        op = np.where(ops.start[mine[place]] == end, mine[place], -1)
        call = np.where(op >= 0, ops.call[op], -1)
        usual = self.launching[0] if self.launching else -1
        thread = np.where(call >= 0, calls.thread[call], usual).astype(np.int64) if len(calls) else np.full(len(op), -1)
        queued = (call >= 0) & (calls.start[call] < start) if len(calls) else np.zeros(len(op), dtype=bool)
        zero = np.zeros(len(start), dtype=np.int64)
        in_calls, in_os, in_allocation, in_ranges = zero.copy(), zero.copy(), zero.copy(), zero.copy()
        after_sync, after_copy = np.zeros(len(start), dtype=bool), np.zeros(len(start), dtype=bool)
        for one in np.unique(thread[thread >= 0]).tolist():
            here = np.flatnonzero(thread == one)
            begin, stop = start[here], end[here]
            own = self.thread_rows(calls, one)
            every = self.cover(calls, own)
            in_calls[here] = _covered(every, begin, stop)
            os_rows = self.thread_rows(self.timeline.os_calls, one)
            in_os[here] = _covered(self.cover(self.timeline.os_calls, os_rows).minus(every), begin, stop)
            ranges = self.thread_rows(self.timeline.ranges, one)
            ranges = ranges[self.timeline.ranges.kind[ranges] == RangeKind.PUSH_POP]
            in_ranges[here] = _covered(self.cover(self.timeline.ranges, ranges).minus(self.input_ranges), begin, stop)
            in_allocation[here] = _covered(self.when_in(one, ALLOCATIONS), begin, stop)
            after_sync[here] = _covered(self.when_in(one, SYNCS), begin, begin + 1) > 0
            after_copy[here] = _covered(self.cover(calls, own[self._blocking[own]]), begin, begin + 1) > 0
        inputs = any_of((self.input_calls, self.waits_for_others, self.input_ranges))
        in_input = _covered(inputs, start, end)
        length = end - start
        cause = np.full(len(start), Cause.UNKNOWN, dtype=np.uint8)
        # From the weakest reason to the strongest: what is set last holds.
        if self.has("os-calls"):
            in_own = (thread >= 0) & (in_calls + in_os < length // 2)
        else:
            # What PyTorch's profiler records of the CPU is the program's own code, but for ranges that get data.
            in_own = (in_calls < length // 2) & (in_ranges > length // 2) & self.has("operators")
        cause[(length >= LAUNCH_GAP_NS) & (length < LONG_GAP_NS) & in_own] = Cause.CODE
        cause[length < LAUNCH_GAP_NS] = Cause.LAUNCH
        cause[(length < LONG_GAP_NS) & after_sync] = Cause.SYNC
        cause[(length < LONG_GAP_NS) & after_copy] = Cause.COPY
        cause[(length >= LONG_GAP_NS) & (in_input > length // 2)] = Cause.INPUT
        cause[in_allocation > length // 2] = Cause.ALLOCATION
        return Gaps(start, end, np.maximum(idle, 0), op, thread, queued, cause, in_calls, in_os, in_input)

    def length(self, gpu: int) -> int:
        """The window without the profiler's own work while the GPU had nothing to do, in ns."""
        if gpu not in self._lengths:
            gaps = self.gaps(gpu)
            self._lengths[gpu] = self.window.span_ns - int((gaps.end - gaps.start - gaps.idle).sum())
        return self._lengths[gpu]

    def idle(self, gpu: int, *causes: Cause) -> int:
        """How long the GPU had nothing to do (for these causes), in ns."""
        if gpu not in self._idle:
            gaps = self.gaps(gpu)
            self._idle[gpu] = np.zeros(len(Cause), dtype=np.int64)
            np.add.at(self._idle[gpu], gaps.cause, gaps.idle)
        return int(self._idle[gpu][list(causes or Cause)].sum())

    def unexplained(self, gpu: int) -> int:
        """How long the GPU had nothing to do for no cause that a finding speaks of, in ns."""
        return self.idle(gpu) - (self.idle(gpu, *self.claimed) if self.claimed else 0)

    def between_steps(self, gpu: int) -> int:
        """How long the GPU had nothing to do after one step's work on it and before the next one's, in ns."""
        steps, ranges, projection = self.facts.steps, self.timeline.ranges, self.facts.projection
        if steps is None or steps.source != "nvtx":
            return 0
        starts = np.array([step.start_ns for step in steps.steps], dtype=np.int64)
        alike = np.array([without_numbers(name) == steps.label for name in self.timeline.names], dtype=bool)
        rows = np.flatnonzero(alike[ranges.name] & np.isin(ranges.start, starts) & (projection.launches > 0))
        at_work = Intervals.union(projection.start[rows], projection.end[rows])
        gaps = self.gaps(gpu)
        outside = gaps.end - gaps.start - _covered(at_work, gaps.start, gaps.end)
        return int(np.minimum(outside, gaps.idle).sum())

    def idle_during(self, gpu: int, when: Intervals) -> int:
        """How much of this time the GPU had nothing to do, in ns."""
        gaps = self.gaps(gpu)
        return int(np.minimum(_covered(when, gaps.start, gaps.end), gaps.idle).sum())

    def running_share(self, gpu: int, chosen: Mask) -> float | None:
        """The share of these gaps in which CPU samples saw the launching thread run; ``None`` without samples."""
        samples, gaps = self.timeline.samples, self.gaps(gpu)
        whole = int((gaps.end - gaps.start)[chosen].sum())
        if samples is None or not whole:
            return None
        seen = 0.0
        for thread in np.unique(gaps.thread[chosen]).tolist():
            times = samples.time[samples.thread == thread]
            if len(times) < 10:
                continue
            rows = np.flatnonzero(chosen & (gaps.thread == thread))
            inside = np.searchsorted(times, gaps.end[rows]) - np.searchsorted(times, gaps.start[rows])
            # Samples come at a fixed pace while the thread runs: the usual distance is what one stands for.
            seen += float(inside.sum()) * float(np.median(np.diff(times)))
        return min(1.0, seen / whole)

    def idle_share(self, gpu: int, *causes: Cause) -> float:
        return self.idle(gpu, *causes) / max(1, self.length(gpu))

    @cached_property
    def least_idle(self) -> float:
        """The idle share of the busiest GPU: what no GPU is under."""
        return min(map(self.idle_share, self.gpus), default=0.0)

    def worst(self, measure: Callable[[int], float]) -> int:
        """The GPU at work for which this is largest."""
        return max(self.gpus, key=lambda gpu: (measure(gpu), -gpu))

    def gain(self, removed: Mapping[int, int] | Callable[[int], int]) -> float:
        """How much shorter the window could get without these times (per GPU, in ns): no GPU at work is faster than
        its own remaining time. A GPU that waits in collectives for another one waits the less, the more that one wins.
        """
        take = removed if callable(removed) else (lambda gpu: removed.get(gpu, 0))
        won = {gpu: max(0, take(gpu)) for gpu in self.gpus}
        waits = {} if self.collectives is None else self.collectives.wait_of
        best = sorted(self.gpus, key=lambda gpu: -won[gpu])[:2]
        by_others = {gpu: max((won[one] for one in best if one != gpu), default=0) for gpu in self.gpus}
        return min(
            (
                self.length(gpu) / max(1, self.length(gpu) - won[gpu] - min(waits.get(gpu, 0), by_others[gpu]))
                for gpu in self.gpus
            ),
            default=1.0,
        )

    @cached_property
    def collectives(self) -> Collectives | None:
        """The window's collectives that every communicating GPU ran equally often, matched in order."""
        ops = self.timeline.ops
        by_gpu = [np.flatnonzero(self.mask(gpu, self.communication)) for gpu in self.communicating]
        if len(by_gpu) < 2:
            return None
        names = [np.bincount(ops.name[rows], minlength=len(self.timeline.names)) for rows in by_gpu]
        same = np.flatnonzero(np.all([one == names[0] for one in names], axis=0) & (names[0] > 0))
        chosen = [rows[np.isin(ops.name[rows], same)] for rows in by_gpu]
        # In the order of each name: streams may swap different collectives.
        chosen = [rows[np.argsort(ops.name[rows], kind="stable")] for rows in chosen]
        if len(chosen[0]) < 3:
            return None
        return Collectives(self.communicating, np.stack([ops.duration[rows] for rows in chosen]), tuple(chosen))

    # -------------------------------------------------------------- what the CPU did

    def spent(self, gpu: int, chosen: Mask) -> Spent:
        """What the launching threads did in these gaps of a GPU."""
        gaps = self.gaps(gpu)
        timeline = self.timeline
        whole = int((gaps.end - gaps.start)[chosen].sum())
        if whole == 0:
            return Spent(None, 0.0, None, 0.0, None, 0.0, None, None)
        in_ranges: Counter[str] = Counter()
        in_os: Counter[int] = Counter()
        in_api: Counter[int] = Counter()
        own = 0
        for thread in np.unique(gaps.thread[chosen]).tolist():
            rows = np.flatnonzero(chosen & (gaps.thread == thread))
            when = Intervals.union(gaps.start[rows], gaps.end[rows])
            in_ranges.update(self._range_time(thread, when))
            in_os.update(_time_by_name(timeline.os_calls, self.thread_rows(timeline.os_calls, thread), when))
            in_api.update(_time_by_name(timeline.calls, self.thread_rows(timeline.calls, thread), when))
            own += int((gaps.end - gaps.start - gaps.in_calls - gaps.in_os)[rows].sum())

        def top(times: Counter[Any], name: Callable[[Any], str]) -> tuple[str | None, float]:
            if not times:
                return None, 0.0
            key, time = times.most_common(1)[0]
            return (name(key), min(1.0, time / whole)) if time > 0 else (None, 0.0)

        return Spent(
            *top(in_ranges, str), *top(in_os, timeline.name), *top(in_api, timeline.name),
            own / whole if self.has("os-calls") else None,
            1 - int(gaps.in_calls[chosen].sum()) / whole if self.has("api-calls") else None,
        )  # fmt: skip

    def _range_time(self, thread: int, when: Intervals) -> dict[str, int]:
        """How long a thread was in push/pop ranges during these times, by name (``#`` for numbers), without the ranges
        inside them."""
        ranges = self.timeline.ranges
        rows = self.thread_rows(ranges, thread)
        rows = rows[ranges.kind[rows] == RangeKind.PUSH_POP]
        if not len(rows):
            return {}
        time = np.zeros(len(ranges), dtype=np.int64)
        time[rows] = _covered(when, ranges.start[rows], ranges.end[rows])
        inner = rows[ranges.parent[rows] >= 0]
        own = time.copy()
        np.subtract.at(own, ranges.parent[inner], time[inner])
        found: Counter[str] = Counter()
        sums = np.bincount(ranges.name[rows], weights=own[rows])
        for name in np.flatnonzero(sums > 0).tolist():
            found[without_numbers(self.timeline.name(name))] += int(sums[name])
        return dict(found)

    def label_of_op(self, op: int) -> str:
        """The innermost range around the call that launched an operation, with ``#`` for numbers."""
        path = self.facts.path_of_op(op) if op >= 0 else ()
        return without_numbers(path[-1]) if path else ""

    def neighbours(self, gpu: int, chosen: Mask, looked_at: int = 8) -> tuple[str, str] | None:
        """The ranges whose work these gaps part, where most of the longest ones agree on them."""
        gaps, ops = self.gaps(gpu), self.timeline.ops
        rows = np.flatnonzero(chosen & (gaps.op >= 0))
        rows = rows[np.argsort(-gaps.idle[rows], kind="stable")][:looked_at]
        mine = self.facts.op_gpu == gpu
        pairs: Counter[tuple[str, str]] = Counter()
        for start, op in zip(gaps.start[rows].tolist(), gaps.op[rows].tolist(), strict=True):
            before = np.flatnonzero((ops.end == start) & mine)
            if len(before):
                pairs[self.label_of_op(int(before[-1])), self.label_of_op(op)] += 1
        if not pairs:
            return None
        pair, count = pairs.most_common(1)[0]
        return pair if count > len(rows) // 2 and all(pair) else None

    def longest(self, gpu: int, chosen: Mask | None = None) -> Moment | None:
        """The longest gap (of these)."""
        gaps = self.gaps(gpu)
        rows = np.arange(len(gaps)) if chosen is None else np.flatnonzero(chosen)
        if not len(rows):
            return None
        row = int(rows[np.argmax(gaps.idle[rows])])
        thread, op = int(gaps.thread[row]), int(gaps.op[row])
        stream = int(self.timeline.ops.stream[op]) if op >= 0 else None
        return Moment(
            int(gaps.start[row]),
            int(gaps.end[row]),
            gpu,
            stream,
            None if thread < 0 else thread,
            None if op < 0 else op,
        )

    def moment_of_call(self, rows: Ns) -> Moment | None:
        """The longest of these CUDA calls."""
        if not len(rows):
            return None
        calls = self.timeline.calls
        row = int(rows[np.argmax(calls.duration[rows])])
        return Moment(int(calls.start[row]), int(calls.end[row]), thread=int(calls.thread[row]))

    def moment_of(self, rows: Ns | Ids) -> Moment | None:
        """The longest of these operations."""
        if not len(rows):
            return None
        ops = self.timeline.ops
        row = int(rows[np.argmax(ops.duration[rows])])
        return Moment(int(ops.start[row]), int(ops.end[row]), int(self.facts.op_gpu[row]), int(ops.stream[row]), op=row)


def _manageable(facts: TimelineFacts) -> Window:
    """The steady window; where it holds more than ``_MOST_OPS`` operations, so many in its middle: whole steps where
    there are any."""
    window, start = facts.window, facts.timeline.ops.start
    first, last = np.searchsorted(start, [window.start_ns, window.end_ns]).tolist()
    if last - first <= _MOST_OPS:
        return window
    middle = (first + last) // 2
    begin, end = int(start[middle - _MOST_OPS // 2]), int(start[middle + _MOST_OPS // 2])
    steps = () if facts.steps is None else facts.steps.steady
    whole = [one for one in steps if one.start_ns >= begin and one.end_ns <= end]
    if len(whole) >= _LEAST_STEPS:
        begin, end = whole[0].start_ns, whole[-1].end_ns
    return Window(begin, end, window.source)


def is_sm_active(name: str) -> bool:
    return re.fullmatch(r"SMs? Active.*", name, re.IGNORECASE) is not None


def _covered(intervals: Intervals, start: Ns, end: Ns) -> Ns:
    """How much of each ``[start, end)`` is covered."""
    return intervals.up_to(end) - intervals.up_to(start)


def _time_by_name(events: Events, rows: Ns, when: Intervals) -> dict[int, int]:
    if not len(rows):
        return {}
    sums = np.bincount(events.name[rows], weights=_covered(when, events.start[rows], events.end[rows]))
    return {name: int(sums[name]) for name in np.flatnonzero(sums > 0).tolist()}
