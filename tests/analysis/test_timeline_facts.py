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
def test_the_longest_gaps_come_first_and_name_what_ended_them(seed: int) -> None:
    facts = facts_of(seed)
    ops = facts.timeline.ops
    gaps = facts.gaps(0)
    assert [one.duration_ns for one in gaps] == sorted((one.duration_ns for one in gaps), reverse=True)
    for gap in gaps:
        assert not ((ops.start < gap.end_ns) & (ops.end > gap.start_ns) & (ops.end > ops.start)).any()
        assert gap.op == -1 or ops.start[gap.op] == gap.end_ns
    inside = sum(one.duration_ns for one in gaps) / facts.window.span_ns
    assert facts.busy_share(0) == pytest.approx(1 - inside)


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
