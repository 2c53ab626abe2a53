"""What the reader must know of the capture itself before anything else is believed."""

from __future__ import annotations

import numpy as np

from gputui.analysis.finding import Evidence, Moment
from gputui.analysis.timeline_rules import Hit, timeline_rule
from gputui.analysis.timeline_rules.steady import MODULE_LOADS, SteadyState
from gputui.model.timeline import OpKind


@timeline_rule("warm-up", "validity", needs=("steps",))
def warm_up(state: SteadyState) -> Hit | None:
    """The first step takes three times as long as the usual one: it and others like it are left out of all shares."""
    steps = state.facts.steps
    if steps is None or not steps.warm_up:
        return None
    first = steps.steps[0]
    ratio = first.duration_ns / max(1.0, steps.median_ns)
    if ratio < 3:
        return None
    last = steps.steps[steps.warm_up - 1]
    calls = state.timeline.calls
    loads = state.facts.calls_named(MODULE_LOADS) & (calls.start >= first.start_ns) & (calls.end <= last.end_ns)
    params = {
        "steps": steps.warm_up, "ratio": ratio, "first": float(first.duration_ns), "usual": steps.median_ns,
        "loads": int(loads.sum()), "load_time": float(calls.duration[loads].sum()),
    }  # fmt: skip
    evidence = (Evidence("first_step / median_step", ratio, "", 3.0),)
    variant = "loads" if loads.any() else ""
    return Hit(0.9, None, evidence, params, variant, Moment(first.start_ns, last.end_ns))


@timeline_rule("graph-trace-hides", "validity", needs=("ops",), loop=False)
def graph_trace_hides(state: SteadyState) -> Hit | None:
    """Whole CUDA graphs were traced as one block each, and single kernels are under a tenth of the GPU's time."""
    ops = state.timeline.ops
    graphs = np.flatnonzero(ops.kind == OpKind.GRAPH)
    if not len(graphs):
        return None
    inside, kernels = int(ops.duration[graphs].sum()), int(ops.duration[state.facts.kernel_mask].sum())
    if kernels >= 0.1 * (inside + kernels):
        return None
    params = {"graphs": len(graphs), "time": float(inside), "kernels_pct": 100 * kernels / max(1, inside + kernels)}
    evidence = (Evidence("graph_launches", len(graphs), ""),)
    return Hit(0.95, None, evidence, params, moment=state.moment_of(graphs))


@timeline_rule("dropped-events", "validity", needs=("ops",), loop=False)
def dropped_events(state: SteadyState) -> Hit | None:
    """The profiler says that it lost events, or over 1 % of the kernels have no launch call among those traced."""
    dropped = next((notice for notice in state.notices if notice.id == "dropped-events"), None)
    called = state.timeline.ops.call[state.facts.kernel_mask]
    unlinked = int((called < 0).sum()) if len(state.timeline.calls) else 0
    share = 100 * unlinked / max(1, len(called))
    params = {"count": unlinked, "total": len(called), "share_pct": share, "text": ""}
    evidence = (Evidence("kernels_without_call_pct", share, "%", 1.0),)
    if dropped is not None:
        return Hit(0.9, None, evidence, {**params, **dropped.params})
    return Hit(0.8, None, evidence, params, "calls") if share > 1 else None
