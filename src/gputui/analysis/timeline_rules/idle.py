"""Times when a GPU had nothing to do: how long, where, and what the CPU did then."""

from __future__ import annotations

import numpy as np

from gputui.analysis.finding import Evidence
from gputui.analysis.timeline_rules import Hit, timeline_rule
from gputui.analysis.timeline_rules.steady import (
    GRAPH_LAUNCHES,
    LAUNCH_GAP_NS,
    LAUNCHES,
    Cause,
    Spent,
    SteadyState,
)
from gputui.model.intervals import Intervals
from gputui.model.timeline import OpKind

IDLE_SHARE = 0.2
"""From here on a GPU idles: half of what NVIDIA's gpu_time_util calls idle (chunks under 50 % busy)."""
SOME_IDLE = 0.1
"""Under it nothing that the CPU does holds the GPU up: launch calls that wait for a full queue sum to seconds then."""


@timeline_rule("gpu-idle", "idle", needs=("ops",))
def gpu_idle(state: SteadyState) -> Hit | None:
    """A GPU has nothing to do for a fifth of the window, on average of the whole of it.

    The bound leaves out the gaps that other findings name (``state.claimed``): it is for what nothing else explains.
    """
    if not state.gpus:
        return None
    gpu = state.worst(state.idle_share)
    share = state.idle_share(gpu)
    if share < IDLE_SHARE:
        return None
    gaps = state.gaps(gpu)
    unexplained = state.unexplained(gpu)
    left = np.ones(len(gaps), dtype=bool)
    if unexplained * 2 >= state.idle(gpu):
        left = ~np.isin(gaps.cause, list(state.claimed))
    long = left & (gaps.end - gaps.start >= LAUNCH_GAP_NS)
    told = long if int(gaps.idle[long].sum()) * 2 >= int(gaps.idle[left].sum()) else left
    spent = state.spent(gpu, told)
    parted = state.neighbours(gpu, told)
    count, steps = int(told.sum()), state.steps or 0
    before, after = parted if parted is not None and parted[0] != parted[1] else ("", "")
    params = {
        "idle_pct": 100 * share, "busy_pct": 100 * (1 - share), "idle": float(state.idle(gpu)),
        "window": float(state.length(gpu)), "gpu": state.number(gpu), "gpus": len(state.gpus),
        "unexplained_pct": 100 * unexplained / max(1, state.length(gpu)), "gaps": count,
        "gaps_pct": 100 * int(gaps.idle[told].sum()) / max(1, state.idle(gpu)),
        "typical": float(np.median(gaps.idle[told])), "longest": float(gaps.idle[told].max(initial=0)),
        "steps": steps, "before": before, "after": after, **told_of(spent),
    }  # fmt: skip
    whose = f"{'several-' if len(state.gpus) > 1 else ''}{state.span_word}"
    if before and 0.8 * steps <= count <= 1.2 * steps:
        where = "parted-once"
    elif spent.range_share >= _MOSTLY:
        where = "in"
    elif before:
        where = "parted"
    else:
        where = "between" if state.between_steps(gpu) * 2 >= state.idle(gpu) else ""
    variant = "+".join((f"{whose}-{where}" if where else whose, whose, _did(spent)))
    evidence = (Evidence("gpu_idle_pct", 100 * share, "%", 100 * IDLE_SHARE),)
    confidence = 0.9 if state.window.source == "steps" else 0.75
    return Hit(confidence, state.gain(state.unexplained), evidence, params, variant, state.longest(gpu, told))


def told_of(spent: Spent) -> dict[str, object]:
    """What the CPU did, as parameters of a text."""
    return {
        "range": spent.range or "", "range_pct": 100 * spent.range_share,
        "os": spent.os or "", "os_pct": 100 * spent.os_share,
        "api": spent.api or "", "api_pct": 100 * spent.api_share,
        "own_pct": 100 * (spent.own_share or 0.0), "outside_pct": 100 * (spent.outside_share or 0.0),
    }  # fmt: skip


_MOSTLY = 0.5
_PARTLY = 0.25


def _did(spent: Spent) -> str:
    """What to tell: a range that fills most of the gaps, and the call that does; else what is known of calls."""
    call = ""
    if max(spent.os_share, spent.api_share) >= _PARTLY:
        call = "os" if spent.os_share >= spent.api_share else "api"
    elif (spent.own_share or 0.0) >= _MOSTLY:
        call = "own"
    elif (spent.outside_share or 0.0) >= _MOSTLY and spent.own_share is None:
        call = "outside"
    if spent.range_share >= _MOSTLY:
        return f"range-{call}" if call else "range"
    return call or "unknown"


@timeline_rule("input-bound", "idle", needs=("os-calls|nvtx",), effects=("no-overlap",))
def input_bound(state: SteadyState) -> Hit | None:
    """Gaps of a millisecond and more, of which the CPU spent over half in getting data: in ranges whose name says so,
    or with all launching threads in a call that waits for files, pipes, or other threads and processes.
    """
    if not state.gpus:
        return None
    gpu = state.worst(lambda one: state.idle_share(one, Cause.INPUT))
    share = state.idle_share(gpu, Cause.INPUT)
    if share < 0.05 or state.idle_share(gpu) < SOME_IDLE:
        return None
    gaps = state.gaps(gpu)
    chosen = gaps.cause == Cause.INPUT
    spent = state.spent(gpu, chosen)
    start, end = gaps.start[chosen], gaps.end[chosen]
    whole = int((end - start).sum())

    def part(when: Intervals) -> float:
        return int((when.up_to(end) - when.up_to(start)).sum()) / whole

    in_ranges, reading = part(state.input_ranges), part(state.input_calls)
    if in_ranges >= _MOSTLY:
        variant, confidence = "range", 0.85
    elif reading >= _MOSTLY:
        variant, confidence = "reading", 0.65
    else:
        variant, confidence = "waiting", 0.45
    params = {
        "share_pct": 100 * share, "idle_pct": 100 * state.idle_share(gpu), "gaps": int(chosen.sum()),
        "typical": float(np.median(gaps.idle[chosen])), "gpu": state.number(gpu), **told_of(spent),
        "input_pct": 100 * max(in_ranges, reading),
    }  # fmt: skip
    evidence = (Evidence("gpu_idle_for_input_pct", 100 * share, "%", 5.0),)
    bound = state.gain(lambda one: state.idle(one, Cause.INPUT))
    met = state.collectives
    delays = met is not None and met.late == gpu and 2 * state.idle(gpu, Cause.INPUT) >= max(met.wait_of.values())
    return Hit(
        confidence, bound, evidence, params, variant, state.longest(gpu, chosen),
        effects=("straggler",) if delays else (), claims=(Cause.INPUT,),
    )  # fmt: skip


@timeline_rule("launch-bound-timeline", "idle", needs=("ops",), effects=("single-stream", "small-copies"))
def launch_bound(state: SteadyState) -> Hit | None:
    """Short gaps between operations (under 100 µs) cost 5 % of the window, the GPU idles for 10 % or more, and the
    kernels are tiny and many (median under 10 µs, over 1,000 a second), or the gaps are half as long as the kernels, or
    the launch calls take longer than the kernels, or the gaps cost 15 %.

    Only with the GPU idle: calls that wait for a full queue sum to seconds while the GPU is busy. Where the CPU is what
    takes the time, the gaps that its own code makes longer (``Cause.CODE``) are told and counted with the short ones,
    unless they are more: both are times when it could not keep up, and what cures the one cures the other.
    """
    if not state.gpus:
        return None
    gpu = state.worst(lambda one: state.idle_share(one, Cause.LAUNCH))
    share = state.idle_share(gpu, Cause.LAUNCH)
    gaps = state.gaps(gpu)
    chosen = gaps.cause == Cause.LAUNCH
    if state.idle_share(gpu) < SOME_IDLE or share < 0.05 or chosen.sum() < 100:
        return None
    timeline = state.timeline
    kernels = state.mask(gpu, state.facts.kernel_mask)
    count = int(kernels.sum())
    if not count:
        return None
    durations = timeline.ops.duration[kernels]
    typical, gap = float(np.median(durations)), float(np.median(gaps.idle[chosen]))
    launch_rows = state.calls_in_window(LAUNCHES)
    launching = int(timeline.calls.duration[launch_rows].sum())
    tiny = typical < 10_000 and count / state.seconds > 1000
    if not (tiny or gap > 0.5 * typical or launching > int(durations.sum()) or share >= _MANY_GAPS):
        return None
    known = state.has("api-calls")
    queued = int(gaps.idle[chosen & gaps.queued].sum()) / max(1, state.idle(gpu, Cause.LAUNCH))
    of_cpu = known and queued < _MOSTLY
    causes: tuple[Cause, ...] = (Cause.LAUNCH,)
    if of_cpu and state.idle(gpu, Cause.LAUNCH) >= state.idle(gpu, Cause.CODE):
        causes = _KEEPING_UP
        chosen = np.isin(gaps.cause, causes)
        gap = float(np.median(gaps.idle[chosen]))
    share, idle = state.idle_share(gpu, *causes), max(1, state.idle(gpu, *causes))
    in_calls = int(np.minimum(gaps.in_calls, gaps.end - gaps.start)[chosen].sum()) / idle
    variant = "cpu" if of_cpu else "queued" if known else "unknown"
    if gap < typical:
        variant += "+longer"
    if not state.is_nsys:
        variant += "+torch"
    params = {
        "share_pct": 100 * share, "idle_pct": 100 * state.idle_share(gpu), "kernels": count, "typical": typical,
        "gap": gap, "mean": float(gaps.idle[chosen].mean()), "gaps": int(chosen.sum()),
        "per_s": count / state.seconds, "gpu": state.number(gpu), "queued_pct": 100 * queued,
        "in_calls_pct": 100 * in_calls, "launching": float(launching),
        "each": launching / len(launch_rows) if len(launch_rows) else 0.0,
    }  # fmt: skip
    evidence = (
        Evidence("launch_gaps_pct", 100 * share, "%", 5.0),
        Evidence("gpu_idle_pct", 100 * state.idle_share(gpu), "%", 100 * SOME_IDLE),
        Evidence("median_kernel", typical, "ns"), Evidence("median_launch_gap", gap, "ns"),
    )  # fmt: skip
    bound = state.gain(lambda one: state.idle(one, *causes))
    return Hit(
        0.85 if known else 0.6, bound, evidence, params, variant, state.longest(gpu, chosen),
        effects=("python-overhead",) if Cause.CODE in causes else (), claims=causes,
    )  # fmt: skip


_KEEPING_UP = (Cause.LAUNCH, Cause.CODE)
"""Gaps in which the CPU could not keep up with the GPU."""
_MANY_GAPS = 0.15
"""Short gaps that cost so much of the window are told whatever the kernels' length."""


@timeline_rule(
    "no-cuda-graph",
    "idle",
    needs=("ops", "steps"),
    option=True,
    applies=lambda state: "launch-bound-timeline" in state.found,
)
def no_cuda_graph(state: SteadyState) -> Hit | None:
    """``launch-bound-timeline`` holds, no graph is launched, and the steps' kernels are the same in number and name,
    within 2 %: what repeats can be recorded once."""
    timeline = state.timeline
    graphs = (timeline.ops.kind == OpKind.GRAPH) | (timeline.ops.graph != 0)
    if (graphs & state.in_window).any() or len(state.calls_in_window(GRAPH_LAUNCHES)):
        return None
    counts = state.kernels_by_step()
    if len(counts) < 3:
        return None
    usual = np.median(counts, axis=0)
    differing = np.abs(counts - usual).sum(axis=1)
    if float((differing <= 0.02 * usual.sum()).mean()) < 0.8:
        return None
    gpu = state.worst(lambda one: state.idle_share(one, *_KEEPING_UP))
    kernels = int(usual.sum())
    params = {"kernels": kernels, "steps": len(counts), "share_pct": 100 * state.idle_share(gpu, *_KEEPING_UP)}
    evidence = (Evidence("kernels_per_step", kernels, ""), Evidence("graph_launches", 0, ""))
    # One launch of all also spares the CPU its own code between two of them.
    bound = state.gain(lambda one: state.idle(one, *_KEEPING_UP))
    return Hit(0.7, bound, evidence, params, moment=state.longest(gpu, np.isin(state.gaps(gpu).cause, _KEEPING_UP)))


@timeline_rule("python-overhead", "idle", needs=("os-calls|operators",), applies=lambda state: state.is_python)
def python_overhead(state: SteadyState) -> Hit | None:
    """A Python program whose launching thread was in its own code, in no call of CUDA or the operating system, in gaps
    of 0.1 to 1 ms that cost 5 % of the window. CPU samples of that thread in those gaps make it surer, and so do
    PyTorch's operators that fill most of them.
    """
    if not state.gpus:
        return None
    gpu = state.worst(lambda one: state.idle_share(one, Cause.CODE))
    share = state.idle_share(gpu, Cause.CODE)
    gaps = state.gaps(gpu)
    chosen = gaps.cause == Cause.CODE
    if share < 0.05 or state.idle_share(gpu) < SOME_IDLE or chosen.sum() < 10:
        return None
    spent, in_operators = state.spent(gpu, chosen), state.in_operators(gpu, chosen)
    params = {
        "share_pct": 100 * share, "gaps": int(chosen.sum()), "typical": float(np.median(gaps.idle[chosen])),
        "gpu": state.number(gpu), "operators_pct": 100 * in_operators, **told_of(spent),
    }  # fmt: skip
    running = state.running_share(gpu, chosen)
    evidence = (Evidence("gpu_idle_for_own_code_pct", 100 * share, "%", 5.0),)
    bound = state.gain(lambda one: state.idle(one, Cause.CODE))
    seen = running is not None and running >= _MOSTLY
    confidence = 0.75 if seen else 0.65 if in_operators >= _MOSTLY else 0.55
    if state.has("os-calls"):
        variant = "range" if spent.range_share >= _MOSTLY else ""
    else:
        variant = "operators-range+operators" if spent.range_share >= _MOSTLY else "operators"
    return Hit(confidence, bound, evidence, params, variant, state.longest(gpu, chosen), claims=(Cause.CODE,))
