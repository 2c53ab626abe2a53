"""The steady state against a look at every nanosecond, and the kernels' shares of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from timeline_builder import MS, US, Program

from built_timeline import random_built
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_kernels import kernel_shares
from gputui.analysis.timeline_rules import steady
from gputui.analysis.timeline_rules.steady import ALLOCATIONS, BLOCKING_COPIES, LAUNCHES, SYNCS, Cause, SteadyState
from gputui.model.timeline import Events, OpKind

SEEDS = range(12)


def state_of(seed: int) -> SteadyState:
    return SteadyState(TimelineFacts(random_built(seed).timeline()))


def when(events: Events, rows: npt.NDArray[np.int64], span: int = 6000) -> npt.NDArray[np.bool_]:
    """Per nanosecond whether any of these rows covers it."""
    covered = np.zeros(span, dtype=bool)
    for row in rows.tolist():
        covered[events.start[row] : events.end[row]] = True
    return covered


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_are_the_nanoseconds_in_which_nothing_runs(seed: int) -> None:
    state = state_of(seed)
    ops = state.timeline.ops
    idle = ~when(ops, np.arange(len(ops)))
    idle[: state.window.start_ns] = False
    idle[state.window.end_ns :] = False
    gaps = state.gaps(0)
    seen = np.zeros_like(idle)
    for start, end in zip(gaps.start.tolist(), gaps.end.tolist(), strict=True):
        seen[start:end] = True
    assert (seen == idle).all()
    assert state.idle(0) == idle.sum() == sum(state.idle(0, cause) for cause in Cause)
    assert state.idle_share(0) == pytest.approx(idle.sum() / state.window.span_ns)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_cpu_did_in_gaps(seed: int) -> None:
    state = state_of(seed)
    timeline, gaps = state.timeline, state.gaps(0)
    if not len(gaps):
        return
    spent = state.spent(0, np.ones(len(gaps), dtype=bool))
    idle = np.zeros(6000, dtype=bool)
    for start, end in zip(gaps.start.tolist(), gaps.end.tolist(), strict=True):
        idle[start:end] = True
    # Random operations have no call: the thread is not known, and nothing is said of it.
    assert spent.api is None
    assert spent.range is None
    one = 0
    state._gaps[0] = gaps = type(gaps)(**{
        **{name: getattr(gaps, name) for name in gaps.__dataclass_fields__}, "thread": np.full(len(gaps), one)
    })  # fmt: skip
    spent = state.spent(0, np.ones(len(gaps), dtype=bool))
    calls, ranges = timeline.calls, timeline.ranges
    own = np.flatnonzero(calls.thread == one)
    times = {
        name: sum(int(idle[calls.start[row] : calls.end[row]].sum()) for row in own if calls.name[row] == name)
        for name in np.unique(calls.name[own]).tolist()
    }
    assert spent.api_share == pytest.approx(min(1, max(times.values()) / idle.sum()))
    assert spent.api is None or times[timeline.names.index(spent.api)] == max(times.values())
    mine = np.flatnonzero(ranges.thread == one)
    inner = when(ranges, mine[ranges.depth[mine] == 1])
    outer = when(ranges, mine[ranges.depth[mine] == 0]) & ~inner
    assert spent.range_share == pytest.approx(max((outer & idle).sum(), (inner & idle).sum()) / idle.sum())
    assert spent.range in ("step #", "inner", None)


@pytest.mark.parametrize("seed", SEEDS)
def test_shares_and_the_bound_of_each_kernel(seed: int) -> None:
    state = state_of(seed)
    ops, window = state.timeline.ops, state.window
    inside = np.zeros(6000, dtype=bool)
    inside[window.start_ns : window.end_ns] = True
    kernel = ops.kind == OpKind.KERNEL
    for share in kernel_shares(state):
        own = kernel & (ops.name == share.group.name)
        runs = when(ops, np.flatnonzero(own)) & inside
        alone = runs & ~when(ops, np.flatnonzero(~own))
        assert share.window_share == pytest.approx(runs.sum() / inside.sum())
        if runs.any():
            assert share.amdahl == pytest.approx(inside.sum() / max(1, inside.sum() - alone.sum()))
        assert share.share == pytest.approx(ops.duration[own].sum() / ops.duration[kernel].sum())
        assert share.kernel.duration_ns == ops.duration[own].sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_time_with_nothing_beside_it(seed: int) -> None:
    state = state_of(seed)
    ops = state.timeline.ops
    chosen = ops.kind == OpKind.COPY
    inside = np.zeros(6000, dtype=bool)
    inside[state.window.start_ns : state.window.end_ns] = True
    alone = when(ops, np.flatnonzero(chosen)) & ~when(ops, np.flatnonzero(~chosen)) & inside
    assert state.exposed(0, chosen) == alone.sum()


def test_kernels_that_are_worth_a_look() -> None:
    program = Program()
    for number in range(100):
        start = number * MS
        program.kernel(start, start + 700 * US, "large", blocks=64 + number % 3)
        program.kernel(start + 700 * US, start + 900 * US, "middle")
        program.kernel(start + 900 * US, start + 910 * US, "small")
        program.kernel(start + 910 * US, start + 970 * US, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    shares = {one.kernel.name: one for one in kernel_shares(SteadyState(program.facts()))}
    assert [name for name, one in shares.items() if one.deserves] == ["large", "middle"]
    assert [one.kernel.index for one in shares.values()] == [0, 1, 2, 3]
    assert shares["large"].shapes == 3
    assert shares["large"].kernel.grid == (64, 1, 1)
    assert shares["large"].amdahl == pytest.approx(1 / 0.3, rel=0.01)
    assert shares["ncclDevKernel_AllReduce_Sum_f32_RING_LL"].command == ()


def test_a_lone_kernel_in_an_idle_program_is_worth_no_look() -> None:
    program = Program()
    for number in range(100):
        program.kernel(number * MS, number * MS + 2 * US)
    (share,) = kernel_shares(SteadyState(program.facts()))
    assert not share.deserves
    assert share.amdahl == pytest.approx(1.002, abs=0.001)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (
            SYNCS,
            ["cudaDeviceSynchronize", "cudaStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"],
            ["cudaStreamWaitEvent", "cudaEventQuery"],
        ),
        (
            ALLOCATIONS,
            ["cudaMalloc", "cudaFree", "cudaMallocManaged", "cudaHostAlloc", "cudaFreeHost", "cuMemAlloc_v2",
             "cuMemFree_v2", "cuMemUnmap", "cuMemCreate"],
            ["cudaMallocAsync", "cudaFreeAsync", "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cudaMemcpy"],
        ),
        (
            BLOCKING_COPIES,
            ["cudaMemcpy", "cudaMemcpy2D", "cuMemcpyHtoD_v2", "cudaMemcpyToSymbol"],
            ["cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cudaMemcpy2DAsync", "cudaMemset"],
        ),
        (
            LAUNCHES,
            ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunch",
             "cudaGraphLaunch"],
            ["cudaLaunchHostFunc", "cuLaunchHostFunc", "cudaGraphInstantiate"],
        ),
    ],
)  # fmt: skip
def test_the_calls_that_count(pattern: str, yes: list[str], no: list[str]) -> None:
    program = Program()
    for name in (*yes, *no):
        program.call(0, 1, name)
    facts = program.facts()
    named = facts.named(pattern)
    assert [name for name, holds in zip(facts.timeline.names, named.tolist(), strict=True) if holds] == yes


def test_of_a_very_long_loop_whole_steps_in_its_middle_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "_MOST_OPS", 40)
    program = Program()
    for step in range(100):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        for place in range(4):
            begin = start + 10 * US + place * MS
            program.kernel(begin, begin + 500 * US, f"kernel_{place}", called=start + (1 + place) * US)
    facts = program.facts()
    state = SteadyState(facts)
    assert facts.steps is not None
    starts = [step.start_ns for step in facts.steps.steps]
    assert state.window.start_ns in starts
    assert state.steps == (state.window.span_ns + US) // (10 * MS)
    assert 5 <= state.steps <= 10
    assert abs((state.window.start_ns + state.window.end_ns) / 2 - 500 * MS) < 20 * MS
    assert state.idle_share(0) == pytest.approx(0.8, abs=0.01)
