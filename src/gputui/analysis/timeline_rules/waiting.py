"""Calls that make the CPU wait for the GPU, so that the GPU waits for the CPU after them."""

from __future__ import annotations

import numpy as np

from gputui.analysis.finding import Evidence
from gputui.analysis.timeline_rules import Hit, timeline_rule
from gputui.analysis.timeline_rules.idle import SOME_IDLE
from gputui.analysis.timeline_rules.steady import ALLOCATIONS, SYNCS, Cause, SteadyState


@timeline_rule("excessive-sync", "waiting", needs=("api-calls",))
def excessive_sync(state: SteadyState) -> Hit | None:
    """The GPU ran dry while the CPU waited for it in a synchronising call, and had nothing to do until the CPU had
    launched again (gaps under 1 ms): 5 % of the window, or 2 % with more than two such calls a step.

    Waiting at the end of a step for a busy GPU is normal: only what the GPU idles counts, and only where it idles for
    10 % in all.
    """
    return _restarts(state, Cause.SYNC, SYNCS, "syncs")


@timeline_rule("sync-copies", "waiting", needs=("api-calls",))
def sync_copies(state: SteadyState) -> Hit | None:
    """As ``excessive-sync``, after copies that return when they are done: by their name (NVIDIA's cuda_memcpy_sync
    rule), or because the computer's side is pageable memory."""
    return _restarts(state, Cause.COPY, None, "copies")


def _restarts(state: SteadyState, cause: Cause, pattern: str | None, what: str) -> Hit | None:
    if not state.gpus:
        return None
    gpu = state.worst(lambda one: state.idle_share(one, cause))
    share, idle = state.idle_share(gpu, cause), state.idle_share(gpu)
    rows = state.blocking_calls if pattern is None else state.calls_in_window(pattern)
    per_step = len(rows) / state.steps if state.steps else 0.0
    if idle < SOME_IDLE or len(rows) < 10 or share < (0.02 if per_step > 2 else 0.05):
        return None
    gaps, calls = state.gaps(gpu), state.timeline.calls
    chosen = gaps.cause == cause
    names, counts = np.unique(calls.name[rows], return_counts=True)
    params = {
        "share_pct": 100 * share, "idle_pct": 100 * idle, "count": len(rows), "gaps": int(chosen.sum()),
        "typical": float(np.median(gaps.idle[chosen])), "per_step": per_step, "gpu": state.number(gpu),
        "per_s": len(rows) / state.seconds,
        "api": state.timeline.name(int(names[counts.argmax()])), "time": float(calls.duration[rows].sum()),
    }  # fmt: skip
    evidence = (Evidence(f"gpu_idle_after_{what}_pct", 100 * share, "%", 5.0), Evidence(f"{what}_count", len(rows), ""))
    bound = state.gain(lambda one: state.idle(one, cause))
    variant = "steps" if per_step >= 1 else ""
    return Hit(0.75, bound, evidence, params, variant, state.longest(gpu, chosen), claims=(cause,))


@timeline_rule("sync-memset", "waiting", needs=("api-calls",))
def sync_memset(state: SteadyState) -> Hit | None:
    """``cudaMemset`` without ``Async`` (NVIDIA's cuda_memset_sync rule), ten or more of them, with the GPU idle while
    the CPU was in them for 1 % of the window."""
    rows = state.calls_in_window(r"cu(da)?Memset(?!\w*Async)")
    if len(rows) < 10 or not state.gpus:
        return None
    during = state.cover(state.timeline.calls, rows)
    gpu = state.worst(lambda one: float(state.idle_during(one, during)))
    idle = state.idle_during(gpu, during)
    share = idle / max(1, state.length(gpu))
    if share < 0.01 or state.idle_share(gpu) < SOME_IDLE:
        return None
    time = float(state.timeline.calls.duration[rows].sum())
    params = {"count": len(rows), "time": time, "share_pct": 100 * share, "gpu": state.number(gpu)}
    evidence = (Evidence("gpu_idle_in_memset_calls_pct", 100 * share, "%", 1.0),)
    bound = state.gain(lambda one: state.idle_during(one, during))
    return Hit(0.4, bound, evidence, params, moment=state.moment_of_call(rows))


@timeline_rule("alloc-in-loop", "waiting", needs=("api-calls",), effects=("excessive-sync",))
def alloc_in_loop(state: SteadyState) -> Hit | None:
    """Memory is allocated or freed again and again (once a step or more; without steps ten times, in both halves of the
    window), and the GPU idles meanwhile for 1 % of the window. Stream-ordered calls (``cudaMallocAsync``) do not count.
    """
    rows = state.calls_in_window(ALLOCATIONS)
    if len(rows) < max(10, state.steps or 0) or not state.gpus:
        return None
    calls = state.timeline.calls
    middle = (state.window.start_ns + state.window.end_ns) // 2
    in_both = len(rows) * 0.1 <= int((calls.start[rows] < middle).sum()) <= len(rows) * 0.9
    during = state.cover(calls, rows)

    def idle(gpu: int) -> int:
        return max(state.idle(gpu, Cause.ALLOCATION), state.idle_during(gpu, during))

    gpu = state.worst(lambda one: float(idle(one)))
    share = idle(gpu) / max(1, state.length(gpu))
    if not in_both or share < 0.01:
        return None
    names, counts = np.unique(calls.name[rows], return_counts=True)
    per_step = len(rows) / state.steps if state.steps else 0.0
    params = {
        "count": len(rows), "per_step": per_step, "time": float(calls.duration[rows].sum()), "share_pct": 100 * share,
        "api": state.timeline.name(int(names[counts.argmax()])), "gpu": state.number(gpu),
        "per_s": len(rows) / state.seconds,
    }  # fmt: skip
    evidence = (Evidence("gpu_idle_in_allocations_pct", 100 * share, "%", 1.0), Evidence("allocations", len(rows), ""))
    variant = "steps" if per_step >= 1 else ""
    return Hit(0.8, state.gain(idle), evidence, params, variant, state.moment_of_call(rows), claims=(Cause.ALLOCATION,))
