"""ncu's NVTX filters, against a reader of its guide's syntax that follows each thread's stack of ranges."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from timeline_builder import MS, US, Program

from gputui.analysis.ncu_command import nvtx_filters
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_tables import matching, ops_of_nodes
from gputui.model.timeline import RangeKind


def filters(facts: TimelineFacts, pattern: str) -> tuple[str, ...]:
    return nvtx_filters(facts, matching(facts.range_tree, re.compile(pattern)))


def names_of(filter: str) -> tuple[str, list[str]]:
    """The domain and the names of a push/pop filter, by the guide."""
    parts = re.split(r"(?<!\\)@", filter)
    domain, path = parts if len(parts) == 2 else ("", parts[0])
    names = re.split(r"(?<!\\)/", path)
    assert len(names) > 1, "a push/pop range alone ends in /"
    if names[-1] == "":
        names.pop()
    return re.sub(r"\\(.)", r"\1", domain), [re.sub(r"\\(.)", r"\1", one) for one in names]


def hit(facts: TimelineFacts, filter: str) -> set[int]:
    """The operations launched where these names lie in a row on the thread's stack of their domain."""
    timeline = facts.timeline
    ranges, calls, ops = timeline.ranges, timeline.calls, timeline.ops
    domain, names = names_of(filter)
    found = set()
    for row in range(len(ops)):
        call = ops.call[row]
        around = [
            timeline.name(int(ranges.name[one]))
            for one in sorted(range(len(ranges)), key=lambda one: ranges.depth[one])
            if ranges.thread[one] == calls.thread[call]
            and timeline.name(int(ranges.domain[one])) == domain
            and ranges.start[one] <= calls.start[call]
            and calls.end[call] <= ranges.end[one]
        ]
        if any(around[place : place + len(names)] == names for place in range(len(around))):
            found.add(row)
    return found


def test_one_range_ends_in_a_slash_and_nested_ones_have_it_between() -> None:
    program = Program()
    for step in range(5):
        start = step * 10 * MS
        program.range(start, start + 9 * MS, "train")
        program.range(start + MS, start + 8 * MS, "forward")
        program.range(start + 2 * MS, start + 3 * MS, "attention")
        program.kernel(start + 2 * MS + 500 * US, start + 3 * MS, "softmax")
    facts = program.facts()
    assert filters(facts, "^train$") == ("train/",)
    assert filters(facts, "attention") == ("train/forward/attention",)
    assert filters(facts, "nothing") == ()


def test_domains_and_signs() -> None:
    program = Program()
    program.range(0, MS, "all[0] + a/b, *@", domain="NCCL, 2@x")
    program.range(0, MS, "all[0] + a/b, *@", domain="NCCL, 2@x", thread=program.thread())
    program.kernel(500 * US, MS, "k")
    assert filters(program.facts(), "all") == (r"NCCL\, 2\@x@all\[0\] \+ a\/b\, \*\@/",)


@pytest.mark.parametrize("name", ["step 12", "aten::mm, seq = 7, op_id = 9", "a\\b", "$x", "regex:x", "", "a\nb"])
def test_what_cannot_be_said_exactly_is_not_said(name: str) -> None:
    program = Program()
    program.range(0, MS, name)
    program.kernel(500 * US, MS, "k")
    facts = program.facts()
    assert nvtx_filters(facts, facts.range_tree) == ()


def test_a_number_in_a_name_that_comes_again_is_part_of_it() -> None:
    program = Program()
    for step in range(3):
        program.range(step * MS, step * MS + 900 * US, "layer 7")
        program.kernel(step * MS + 500 * US, step * MS + 600 * US, "k")
    assert filters(program.facts(), "layer") == ("layer 7/",)


def test_a_range_that_stands_elsewhere_too_is_not_asked_for() -> None:
    """``norm`` alone would hit the norm inside the block as well, which was not asked for."""
    program = Program()
    program.range(0, MS, "norm")
    program.range(2 * MS, 4 * MS, "block")
    program.range(2 * MS, 3 * MS, "norm")
    program.kernel(500 * US, MS, "k")
    program.kernel(2 * MS + 500 * US, 3 * MS, "k")
    facts = program.facts()
    assert filters(facts, "^norm$") == ()
    assert filters(facts, "block/norm") == ("block/norm",)


def test_start_end_ranges_are_of_the_process() -> None:
    def facts(threads: int) -> TimelineFacts:
        program = Program()
        other = program.thread()
        program.range(0, MS, "epoch")
        program._rows["ranges"][0]["kind"] = RangeKind.START_END
        for thread in (0, other)[:threads]:
            program.kernel(500 * US + thread, MS, "k", thread=thread)
        return program.facts()

    assert filters(facts(1), "epoch") == ("epoch",)
    assert filters(facts(2), "epoch") == ()


def test_a_trace_of_pytorchs_profiler_has_ranges_that_ncu_does_not_see() -> None:
    program = Program(kind="torch")
    program.range(0, MS, "aten::mm", domain="PyTorch")
    program.kernel(500 * US, MS, "k")
    assert filters(program.facts(), "mm") == ()


@pytest.mark.parametrize("seed", range(120))
def test_filters_hit_what_was_launched_in_the_ranges(seed: int) -> None:
    chance = random.Random(seed)
    program = Program()
    threads = [0, program.thread()]

    def nest(start: int, end: int, thread: int, depth: int) -> None:
        step = (end - start) // 4
        for place in range(4):
            begin = start + place * step
            if depth and chance.random() < 0.6:
                program.range(begin + 1, begin + step - 1, chance.choice("ABC"), thread, chance.choice((None, "lib")))
                nest(begin + 2, begin + step - 2, thread, depth - 1)
            elif chance.random() < 0.7:
                program.kernel(begin + step // 2 + 5 * US, begin + step // 2 + 9 * US, "k", thread=thread)

    for thread in threads:
        nest(0, 400 * MS, thread, 3)
    facts = program.facts()
    for pattern in ("A", "^B$", "A/B", "^C", "C/."):
        nodes = matching(facts.range_tree, re.compile(pattern))
        found = nvtx_filters(facts, nodes)
        if found:
            expected = set(np.flatnonzero(ops_of_nodes(facts, nodes)).tolist())
            assert set().union(*(hit(facts, one) for one in found)) == expected
