"""What a timeline tells before any judgement, against plain loops and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from timeline_builder import MS, US, Program

from built_timeline import random_built
from gputui.analysis.timeline import TimelineFacts, groups
from gputui.model.timeline import OpKind

SEEDS = range(10)


def facts_of(seed: int) -> TimelineFacts:
    return random_built(seed).facts()


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_what_numpy_says_of_each_name(seed: int) -> None:
    facts = facts_of(seed)
    ops = facts.timeline.ops
    mask = ops.kind == OpKind.KERNEL
    found = groups(ops, mask)
    assert [one.total_ns for one in found] == sorted((one.total_ns for one in found), reverse=True)
    assert {one.name for one in found} == set(np.unique(ops.name[mask]).tolist())
    whole = ops.duration[mask].sum()
    for one in found:
        times = ops.duration[mask & (ops.name == one.name)]
        assert (one.count, one.total_ns, one.min_ns, one.max_ns) == (len(times), times.sum(), times.min(), times.max())
        assert one.median_ns == np.median(times)
        assert one.share == pytest.approx(times.sum() / whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gpu_is_busy_in_each_nanosecond_that_something_runs_in(seed: int) -> None:
    facts = random_built(seed).facts()
    ops, window = facts.timeline.ops, facts.window
    busy = np.zeros(window.end_ns - window.start_ns, dtype=bool)
    for start, end, stream in zip(ops.start.tolist(), ops.end.tolist(), ops.stream.tolist(), strict=True):
        if facts.timeline.streams[stream].gpu != 0:
            continue
        busy[max(0, start - window.start_ns) : max(0, end - window.start_ns)] = True
    assert facts.busy_share(0) == pytest.approx(busy.mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_threads_time_is_told_by_name(seed: int) -> None:
    facts = facts_of(seed)
    calls, names = facts.timeline.calls, facts.timeline.names
    times = dict(facts.thread_time(calls, 0, 500, 1700))
    for place, name in enumerate(names):
        expected = sum(
            max(0, min(int(calls.end[row]), 1700) - max(int(calls.start[row]), 500))
            for row in range(len(calls))
            if calls.thread[row] == 0 and calls.name[row] == place
        )
        assert times.get(place, 0) == expected, name


def test_a_step_is_no_single_operator() -> None:
    """PyTorch's ``emit_nvtx`` puts a range around each: the outermost ones are not the program's steps."""
    program = Program()
    for number in range(20):
        start = number * 10 * MS
        program.range(start, start + 9 * MS, f"aten::linear, op_id = {number}")
        program.kernel(start + 10 * US, start + 8 * MS, called=start + 5 * US)
    assert program.facts().steps is None
    for number in range(20):
        program.range(number * 10 * MS - US, number * 10 * MS + 9 * MS + US, f"iteration {number}")
    steps = program.facts().steps
    assert steps is not None
    assert steps.label == "iteration #"


def test_a_capture_without_ranges_finds_none_around_a_call() -> None:
    program = Program()
    program.kernel(10 * US, 20 * US)
    facts = program.facts()
    assert facts.path_of_op(0) == ()
    assert facts.range_at(0, 0) == -1


def test_the_steady_time_begins_with_work_and_cuts_no_gap() -> None:
    """Of 100 ms the first tenth is left out; it ends inside a gap of 50 ms, which is no part of what follows."""
    program = Program()
    for number in range(30):
        program.copy(number * 100 * US, number * 100 * US + 50 * US, 1000)
    for number in range(30):
        program.copy(53 * MS + number * MS, 53 * MS + number * MS + 500 * US, 1000)
    program.copy(99 * MS, 100 * MS, 1000)
    window = program.facts().window
    assert (window.start_ns, window.end_ns, window.source) == (53 * MS, 100 * MS, "tail")
