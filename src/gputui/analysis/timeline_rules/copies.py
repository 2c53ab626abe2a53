"""Copies: from slow memory, in the way of the kernels, too small, or within the GPU."""

from __future__ import annotations

import re

import numpy as np

from gputui.analysis.finding import Evidence
from gputui.analysis.timeline_rules import Hit, timeline_rule
from gputui.analysis.timeline_rules.steady import LAUNCH_GAP_NS, UNIFIED, Cause, SteadyState
from gputui.model.intervals import any_of
from gputui.model.timeline import CopyKind

_SMALL_BYTES = 64_000
"""NVIDIA's cuda_memcpy_sync rule passes over copies up to this size."""
_SHARES_MEMORY = re.compile(r"GH200|GB200|GB300|GB10\b|Grace", re.IGNORECASE)


@timeline_rule(
    "pageable-copies", "copies", needs=("memory-kinds",), applies=lambda state: bool(state.host_copies.any())
)
def pageable_copies(state: SteadyState) -> Hit | None:
    """Copies whose side in the computer's memory is pageable (NVIDIA's cuda_memcpy_async rule lists all of them). They
    matter from 2 % of the window on, counting what runs beside nothing else; ten or more in the whole capture that do
    not are told as harmless.

    The bound takes them to no time at all, which pinned memory does not do (2-4 times as fast is usual).
    """
    if not state.gpus:
        return None
    copies = state.pageable & state.in_window
    exposed = {gpu: state.exposed(gpu, copies) for gpu in state.gpus}
    gpu = state.worst(lambda one: float(exposed[one]))
    share = exposed[gpu] / max(1, state.length(gpu))
    matters = share >= 0.02
    mine = np.flatnonzero(state.mask(gpu, copies) if matters else state.pageable & (state.facts.op_gpu == gpu))
    if not matters and len(mine) < 10:
        return None
    sizes = state.bytes_of(mine)
    time = int(state.timeline.ops.duration[mine].sum())
    params = {
        "count": len(mine), "share_pct": 100 * share, "time": float(time),
        "bytes": int(sizes.sum()) if len(sizes) else None,
        "typical": float(np.median(sizes)) if len(sizes) else None,
        "most": int(sizes.max()) if len(sizes) else None, "gpu": state.number(gpu),
        "rate": float(sizes.sum()) / time * 1e9 if time > 0 and len(sizes) == len(mine) else None,
    }  # fmt: skip
    evidence = (Evidence("pageable_copies_pct", 100 * share, "%", 2.0), Evidence("pageable_copies", len(mine), ""))
    return Hit(
        0.7 if matters else 0.9, state.gain(exposed), evidence, params,
        "harmless" if not matters else "" if len(sizes) else "unsized", state.moment_of(mine),
    )  # fmt: skip


@timeline_rule("no-overlap", "copies", needs=("ops",), effects=("pageable-copies",))
def no_overlap(state: SteadyState) -> Hit | None:
    """Copies to and from the GPU take 5 % of the window, and less than a tenth of them runs beside kernels.

    The bound hides the shorter of the two, copies or kernels, behind the other.
    """
    found = []
    for gpu in state.gpus:
        copying = state.union(state.mask(gpu, state.host_copies))
        computing = state.union(state.mask(gpu, state.facts.kernel_mask))
        both = copying.intersect(computing).total
        count = int(state.mask(gpu, state.host_copies).sum())
        length = max(1, state.length(gpu))
        hidden = min(copying.total, computing.total) - both
        if count >= 10 and copying.total >= 0.05 * length and both < 0.1 * copying.total and hidden >= 0.02 * length:
            found.append((hidden, gpu, copying.total, both, count))
    if not found:
        return None
    hidden, gpu, copying_ns, both, count = max(found)
    length = state.length(gpu)
    params = {
        "copies_pct": 100 * copying_ns / length, "both_pct": 100 * both / copying_ns, "count": count,
        "time": float(copying_ns), "hidden_pct": 100 * hidden / length, "gpu": state.number(gpu),
    }  # fmt: skip
    evidence = (
        Evidence("host_copies_pct", 100 * copying_ns / length, "%", 5.0),
        Evidence("copies_beside_kernels_pct", 100 * both / copying_ns, "%", 10.0),
    )
    taken = {one: amount for amount, one, *_ in found}
    rows = np.flatnonzero(state.mask(gpu, state.host_copies))
    return Hit(0.6, state.gain(taken), evidence, params, moment=state.moment_of(rows))


@timeline_rule("small-copies", "copies", needs=("ops",))
def small_copies(state: SteadyState) -> Hit | None:
    """Over 100 copies to and from the GPU a second, half of them under 64 KB, that cost 2 % of the window: the time
    that they take beside no kernel, and short gaps that end with one."""
    if not state.gpus:
        return None
    cost = {gpu: _cost_of_small(state, gpu) for gpu in state.gpus}
    gpu = state.worst(lambda one: float(cost[one]))
    mine = np.flatnonzero(state.mask(gpu, state.host_copies))
    sizes = state.bytes_of(mine)
    if not len(sizes):
        return None
    typical, per_s = float(np.median(sizes)), len(mine) / state.seconds
    share = cost[gpu] / max(1, state.length(gpu))
    if len(mine) < 100 or per_s <= 100 or typical >= _SMALL_BYTES or share < 0.02:
        return None
    params = {
        "count": len(mine),
        "per_s": per_s,
        "typical": typical,
        "share_pct": 100 * share,
        "gpu": state.number(gpu),
    }
    evidence = (Evidence("small_copies_pct", 100 * share, "%", 2.0), Evidence("copies_per_s", per_s, "1/s", 100.0))
    return Hit(0.6, state.gain(cost), evidence, params, moment=state.moment_of(mine))


def _cost_of_small(state: SteadyState, gpu: int) -> int:
    rows = np.flatnonzero(state.mask(gpu, state.host_copies))
    sizes = state.timeline.transfers.bytes[state.timeline.ops.detail[rows]]
    small = rows[(sizes >= 0) & (sizes < _SMALL_BYTES)]
    if not len(small):
        return 0
    mask = np.zeros(len(state.timeline.ops), dtype=bool)
    mask[small] = True
    gaps = state.gaps(gpu)
    before = (gaps.op >= 0) & mask[gaps.op] & (gaps.end - gaps.start < LAUNCH_GAP_NS) & (gaps.cause != Cause.COPY)
    return state.exposed(gpu, mask) + int(gaps.idle[before].sum())


@timeline_rule("device-copies", "copies", needs=("ops",))
def device_copies(state: SteadyState) -> Hit | None:
    """Copies within the GPU's memory, and kernels that only copy, fill a tenth of the GPU's busy time by themselves."""
    if not state.gpus:
        return None
    kernels = state.kernels_where(lambda identity: identity.op_class == "copy")
    copies = (state.copies_of(CopyKind.DEVICE_TO_DEVICE) | kernels) & state.in_window
    alone = {gpu: state.exposed(gpu, copies) for gpu in state.gpus}
    gpu = state.worst(lambda one: float(alone[one]))
    busy = state.busy(gpu).total
    if not busy or alone[gpu] < 0.1 * busy:
        return None
    mine = np.flatnonzero(state.mask(gpu, copies))
    params = {
        "of_busy_pct": 100 * alone[gpu] / busy, "share_pct": 100 * alone[gpu] / max(1, state.length(gpu)),
        "count": len(mine), "time": float(alone[gpu]), "kernels": int(state.mask(gpu, kernels).sum()),
        "gpu": state.number(gpu),
    }  # fmt: skip
    evidence = (Evidence("device_copies_pct_of_busy", 100 * alone[gpu] / busy, "%", 10.0),)
    return Hit(0.6, state.gain(alone), evidence, params, moment=state.moment_of(mine))


@timeline_rule(
    "page-faults",
    "copies",
    needs=("ops",),
    applies=lambda state: bool(len(state.timeline.faults) or state.copies_of(*UNIFIED).any()),
)
def page_faults(state: SteadyState) -> Hit | None:
    """Unified memory moves pages while kernels wait for them: faults and migrations take 2 % of the window.

    Not on GPUs that share the memory with the CPU in hardware (GH200, GB10), where pages stay where they are.
    """
    if not state.gpus:
        return None
    faults, window = state.timeline.faults, state.window
    on_gpu = np.array([name.upper().startswith("GPU") for name in state.timeline.names] or [False], dtype=bool)
    rows = np.flatnonzero(on_gpu[faults.name]) if len(faults) else np.zeros(0, dtype=np.int64)
    moved = state.copies_of(*UNIFIED) & state.in_window
    if any(_SHARES_MEMORY.search(state.timeline.gpus[gpu].device.name) for gpu in state.gpus):
        return None
    waiting = state.cover(faults, rows).clip(window.start_ns, window.end_ns)
    taken = {}
    for gpu in state.gpus:
        moving = state.union(state.mask(gpu, moved))
        both = any_of((waiting, moving))
        taken[gpu] = both.total
    gpu = state.worst(lambda one: float(taken[one]))
    share = taken[gpu] / max(1, state.length(gpu))
    count = int(((faults.start[rows] < window.end_ns) & (faults.end[rows] > window.start_ns)).sum())
    mine = np.flatnonzero(state.mask(gpu, moved))
    if share < 0.02:
        return None
    params = {
        "faults": count, "share_pct": 100 * share, "time": float(taken[gpu]), "moves": len(mine),
        "bytes": int(state.bytes_of(mine).sum()), "gpu": state.number(gpu),
    }  # fmt: skip
    evidence = (Evidence("page_faults_and_migrations_pct", 100 * share, "%", 2.0),)
    variant = "" if count else "moves"
    return Hit(0.7, state.gain(taken), evidence, params, variant, state.moment_of(mine))
