"""What the kernels themselves show on a timeline."""

from __future__ import annotations

import numpy as np

from gputui.analysis.finding import Evidence
from gputui.analysis.timeline_rules import Hit, timeline_rule
from gputui.analysis.timeline_rules.steady import SteadyState, is_sm_active


@timeline_rule("one-kernel-dominates", "kernels", needs=("ops",), loop=False)
def one_kernel_dominates(state: SteadyState) -> Hit | None:
    """One kernel takes half of all kernels' time, and runs for a tenth of the window: the place to look with ncu. Not a
    collective: others speak of those, and ncu cannot replay them.

    What that kernel could gain is not in a timeline; the text gives the window's bound were it to take no time at all.
    """
    groups = state.facts.kernels
    if not groups or len(groups) < 2 or groups[0].share < 0.5:
        return None
    top = groups[0]
    if state.identities[top.name].op_class == "communication":
        return None
    mask = state.facts.kernel_mask & (state.timeline.ops.name == top.name)
    taken = {gpu: state.exposed(gpu, mask) for gpu in state.gpus}
    runs = {gpu: state.union(state.mask(gpu, mask)).total / max(1, state.length(gpu)) for gpu in state.gpus}
    window_share = max(runs.values(), default=0.0)
    if window_share < 0.1:
        return None
    params = {
        "name": state.facts.short_name(top.name), "share_pct": 100 * top.share, "count": top.count,
        "time": float(top.total_ns), "each": top.median_ns, "window_pct": 100 * window_share,
        "amdahl": state.gain(taken),
    }  # fmt: skip
    evidence = (Evidence("share_of_kernel_time_pct", 100 * top.share, "%", 50.0),)
    rows = np.flatnonzero(mask & state.in_window)
    return Hit(0.95, None, evidence, params, moment=state.moment_of(rows))


@timeline_rule("single-stream", "kernels", needs=("grids",))
def single_stream(state: SteadyState) -> Hit | None:
    """All kernels (99 % of their time) run on one stream, and for half of their time they have fewer blocks than the
    GPU has SMs: others could run beside them, if they do not need each other's results.

    The bound fills the SMs that have no block: a kernel of b blocks leaves 1 - b / SMs of the GPU free.
    """
    if len(state.gpus) != 1 or not state.sm_count:
        return None
    ops, gpu = state.timeline.ops, state.gpus[0]
    rows = np.flatnonzero(state.mask(gpu, state.facts.kernel_mask & ~state.communication))
    blocks = np.array([shape.blocks or 0 for shape in state.timeline.shapes] or [0], dtype=np.float64)
    known = rows[(ops.detail[rows] >= 0) & (blocks[ops.detail[rows]] > 0)]
    if len(known) < 100 or len(np.unique(ops.name[known])) < 2:
        return None
    time = ops.duration[known].astype(np.float64)
    by_stream = np.bincount(ops.stream[rows], weights=ops.duration[rows])
    filled = np.minimum(1.0, blocks[ops.detail[known]] / state.sm_count)
    small = float(time[filled < 1].sum() / max(1.0, time.sum()))
    free = float((time * (1 - filled)).sum())
    bound = state.gain({gpu: int(free)})
    if by_stream.max() < 0.99 * by_stream.sum() or small < 0.5 or bound < 1.15:
        return None
    params = {
        "small_pct": 100 * small, "sms": state.sm_count, "kernels": len(known),
        "blocks": float(np.median(blocks[ops.detail[known]])), "free_pct": 100 * free / max(1, state.length(gpu)),
    }  # fmt: skip
    evidence = (Evidence("time_with_fewer_blocks_than_sms_pct", 100 * small, "%", 50.0),)
    return Hit(0.3, bound, evidence, params, moment=state.moment_of(known[filled < 1]))


@timeline_rule("low-sm-active", "kernels", needs=("gpu-metrics",), loop=False)
def low_sm_active(state: SteadyState) -> Hit | None:
    """The GPU is busy for over 80 % of the window, and while it is, under half of its SMs have work (sampled).

    The bound fills the SMs in the busy time.
    """
    found = []
    for counter in state.timeline.counters:
        if not is_sm_active(counter.name) or counter.gpu not in state.gpus:
            continue
        busy = state.busy(counter.gpu)
        inside = busy.up_to(counter.time + 1) > busy.up_to(counter.time)
        share = busy.total / max(1, state.length(counter.gpu))
        if inside.sum() >= 10 and share > 0.8:
            found.append((float(counter.value[inside].mean()), counter.gpu, share))
    if not found:
        return None
    active, gpu, share = min(found)
    if active >= 50:
        return None
    params = {"active_pct": active, "busy_pct": 100 * share, "gpu": state.number(gpu)}
    evidence = (Evidence("sms_active_while_busy_pct", active, "%", 50.0),)
    empty = {one: int(state.busy(one).total * (1 - value / 100)) for value, one, _ in found}
    return Hit(0.6, state.gain(empty), evidence, params)
