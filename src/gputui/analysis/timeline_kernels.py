"""The kernels of a timeline by name: how much of the time looked at each takes, and which are worth a closer look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gputui.analysis.kernel_names import KernelIdentity
from gputui.analysis.ncu_command import Commands
from gputui.analysis.timeline import Group
from gputui.analysis.timeline_rules.steady import SteadyState
from gputui.model.device import Device
from gputui.model.intervals import Intervals, Ns
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric
from gputui.model.report import NoMetrics
from gputui.model.timeline import Ids, LaunchShape, OpKind

DESERVES = 0.05
"""Of the window: a kernel under it gains less than that, however fast it gets."""
LEAST_BOUND = 1.05
"""What a kernel must be able to gain the window before ncu is worth the while."""
_MOST_OF_THE_TIME = 0.8
"""The first few kernels that make up so much of all kernel time are worth a look too, """
_NOTHING = 0.01
"""unless they are next to nothing of the window of a program that goes on."""


@dataclass(frozen=True, slots=True)
class KernelShare:
    """All launches of one kernel, and whether a closer look at it pays.

    ``kernel`` stands for all of them: its duration is the total, its grid and block the most common ones. ``share`` is
    of the time of all kernels summed, ``window_share`` of the steady window in which it ran, on the GPU where that is
    most (both 0-1). ``amdahl`` bounds how much faster that window passes if the kernel took no time: the window over
    what is left of it without the time in which nothing else ran; ``None`` where the window holds no launch of it.
    Nothing ``deserves`` a look of which that is next to nothing.
    ``shapes`` counts the different launch shapes. ``command`` is the ncu command, an argument list; empty where ncu
    cannot profile it: collectives, whose launches wait for other GPUs, hang when they are replayed.
    """

    kernel: Kernel
    group: Group
    identity: KernelIdentity
    share: float
    window_share: float
    amdahl: float | None
    deserves: bool
    shapes: int
    command: tuple[str, ...]


def kernel_shares(state: SteadyState) -> tuple[KernelShare, ...]:
    """The kernels, the longest total first."""
    facts, timeline = state.facts, state.timeline
    if not facts.kernels:
        return ()
    alone = {gpu: _time_alone(state, gpu) for gpu in state.gpus}
    commands = Commands(facts)
    found: list[KernelShare] = []
    told = 0.0
    for index, group in enumerate(facts.kernels):
        own = facts.kernel_rows[group.name]
        identity = state.identities[group.name]
        collective = identity.op_class == "communication"
        window_share = _window_share(state, own)
        bound = state.gain({gpu: times.get(group.name, 0) for gpu, times in alone.items()})
        amdahl = bound if window_share > 0 else None
        deserves = (
            not collective
            and (amdahl is None or amdahl >= LEAST_BOUND)
            and (
                window_share >= DESERVES
                or (told < _MOST_OF_THE_TIME and (window_share >= _NOTHING or not state.has("loop")))
            )
        )
        told += group.share
        shape, shapes = _shape(state, own)
        kernel = Kernel(
            index,
            state.facts.short_name(group.name),
            timeline.name(group.name),
            _device(state, own),
            NoMetrics(),
            grid=None if shape is None else shape.grid,
            block=None if shape is None else shape.block,
            metrics=(Metric("gpu__time_duration.sum", float(group.total_ns), "ns"),),
        )
        found.append(
            KernelShare(
                kernel, group, identity, group.share, window_share, amdahl, deserves, shapes,
                () if collective else commands.of(group.name),
            )
        )  # fmt: skip
    return tuple(found)


def _shape(state: SteadyState, rows: Ids) -> tuple[LaunchShape | None, int]:
    """The most common launch shape, and how many different ones there are."""
    detail = state.timeline.ops.detail[rows]
    places, counts = np.unique(detail[detail >= 0], return_counts=True)
    return (state.timeline.shapes[int(places[counts.argmax()])], len(places)) if len(places) else (None, 0)


def _device(state: SteadyState, rows: Ids) -> Device:
    gpu = int(np.bincount(state.facts.op_gpu[rows]).argmax())
    gpus = state.timeline.gpus
    return gpus[gpu].device if gpu < len(gpus) else Device("unknown GPU")


def _window_share(state: SteadyState, rows: Ids) -> float:
    """How much of the window it ran, on the GPU where that is most."""
    rows = rows[state.in_window[rows]]
    if not len(rows):
        return 0.0
    ops, window, gpus = state.timeline.ops, state.window, state.facts.op_gpu[rows]
    ran = (
        Intervals.union(ops.start[rows[gpus == gpu]], ops.end[rows[gpus == gpu]])
        .clip(window.start_ns, window.end_ns)
        .total
        for gpu in np.unique(gpus).tolist()
    )
    return max(ran) / max(1, window.span_ns)


def _time_alone(state: SteadyState, gpu: int) -> Mapping[int, int]:
    """Per kernel name how long it ran in the window with nothing else beside it on the GPU, in ns."""
    ops, window = state.timeline.ops, state.window
    rows = np.flatnonzero(state.in_window & (state.facts.op_gpu == gpu))
    start = np.maximum(ops.start[rows], window.start_ns)
    end = np.minimum(ops.end[rows], window.end_ns)
    # Copies and the rest are all one more name.
    name = np.where(ops.kind[rows] == OpKind.KERNEL, ops.name[rows], len(state.timeline.names)).astype(np.int64)
    if (start[1:] >= end[:-1]).all():
        return _sums(name, end - start)
    # Between two borders the operations at work are all of one name if the sum of squares of their names, times
    # their number, is the square of the sum of the names.
    time = np.concatenate((start, end))
    order = np.argsort(time, kind="stable")
    time = time[order]
    sign = np.concatenate((np.ones(len(rows), dtype=np.int64), -np.ones(len(rows), dtype=np.int64)))[order]
    names = np.concatenate((name, name))[order]
    number, total, squares = (np.cumsum(sign * names**power)[:-1] for power in (0, 1, 2))
    same = (number > 0) & (number * squares == total**2)
    return _sums((total[same] // number[same]), np.diff(time)[same])


def _sums(name: npt.NDArray[np.int64], time: Ns) -> dict[int, int]:
    if not len(name):
        return {}
    found, place = np.unique(name, return_inverse=True)
    sums = np.zeros(len(found), dtype=np.int64)
    np.add.at(sums, place, time)
    return dict(zip(found.tolist(), sums.tolist(), strict=True))
