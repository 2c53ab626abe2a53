"""Which launches ncu's name filter, skip and count hit, played through launch by launch."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from timeline_builder import MS, US, Program

from gputui.analysis.ncu_command import MOST_OTHERS, Commands, Launches, ncu_command
from gputui.analysis.timeline import TimelineFacts
from gputui.model.kernel import function_name
from gputui.model.timeline import Stream

NAMES = (
    "gemm",
    "void ns::add<float>(float*)",
    "void ns::add<int>(int*)",
    "softmax",
    "ncclDevKernel_AllReduce",
    "a.b$c",
)


def random_program(chance: random.Random) -> Program:
    """A loop with a slow start whose steps launch some kernels, mostly the same ones, on two streams."""
    processes = chance.choice((1, 1, 2))
    program = Program(streams=[Stream(0, process, 7 + stream) for process in range(processes) for stream in range(2)])
    body = [chance.choice(NAMES) for _ in range(chance.randint(1, 7))]
    start = 0
    for step in range(chance.randint(1, 12)):
        length = (40 if step < 2 else 8) * MS
        for place, name in enumerate(body):
            if chance.random() < 0.1:
                continue
            begin = start + (place + 1) * MS // 2
            for stream in range(0, len(program.streams), 2):
                program.kernel(
                    begin + stream * US, begin + 400 * US, name, stream=stream + chance.randint(0, 1),
                    blocks=chance.choice((64, 64, 64, 128)), called=begin - chance.randint(5, 900) * US,
                )  # fmt: skip
        start += length
    return program


def matching_launches(facts: TimelineFacts, launches: Launches, process: int) -> list[int]:
    """The operations of a process that the filter lets through, in the order of their launches."""
    timeline = facts.timeline
    pattern = option(ncu_command("ncu", launches.chosen, "x", ()), "--kernel-name").removeprefix("regex:")
    rows = [
        (int(timeline.calls.start[timeline.ops.call[row]]), row)
        for row in range(len(timeline.ops))
        if timeline.streams[timeline.ops.stream[row]].process == process
        and re.search(pattern, function_name(timeline.name(int(timeline.ops.name[row]))))
    ]
    return [row for _, row in sorted(rows)]


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


def wanted(facts: TimelineFacts, name: int) -> set[int]:
    """A kernel's launches of the usual shape after the warm-up; its last one where there are none."""
    ops = facts.timeline.ops
    every = [row for row in range(len(ops)) if ops.name[row] == name]
    steady = [row for row in every if ops.start[row] >= facts.window.start_ns]
    shapes = Counter(int(ops.detail[row]) for row in steady)
    usual = min((shape for shape in shapes if shapes[shape] == max(shapes.values())), default=-1)
    return {row for row in steady if ops.detail[row] == usual} or set(every[-1:])


def shortest(rows: list[int], wants: list[set[int]], needed: list[int]) -> int | None:
    """The length of the shortest stretch that holds so many of each, by trying all."""
    for length in range(1, len(rows) + 1):
        for begin in range(len(rows) - length + 1):
            held = rows[begin : begin + length]
            if all(len(want & set(held)) >= number for want, number in zip(wants, needed, strict=True)):
                return length
    return None


@pytest.mark.parametrize("seed", range(150))
def test_ncu_hits_what_was_wanted_and_little_else(seed: int) -> None:
    chance = random.Random(seed)
    facts = random_program(chance).facts()
    if not facts.kernels:
        return
    names = sorted({group.name for group in facts.kernels})
    chosen = tuple(chance.sample(names, chance.randint(1, min(3, len(names)))))
    most = chance.randint(1, 4)
    launches = Commands(facts).launches(chosen, most)
    wants = [wanted(facts, name) for name in chosen]
    process = facts.timeline.streams[facts.timeline.ops.stream[min(wants[0])]].process
    let_through = Launches(
        tuple(sorted({function_name(facts.timeline.name(name)) for name in chosen})), 0, 1, 1, process
    )
    rows = matching_launches(facts, let_through, process)
    needed = [min(most, len(want & set(rows))) for want in wants]
    length = shortest(rows, wants, needed) if all(needed) else None
    if len(chosen) > 1 and (length is None or length > MOST_OTHERS * sum(needed)):
        assert launches is None
        return
    assert launches is not None
    assert launches.names == let_through.names
    assert launches.process == process
    hit = matching_launches(facts, launches, process)[launches.skip : launches.skip + launches.count]
    assert len(hit) == launches.count
    assert hit[0] in set.union(*wants)
    assert hit[-1] in set.union(*wants)
    if length is not None and length <= MOST_OTHERS * sum(needed):
        assert launches.count == length
        assert launches.wanted == sum(needed)
        for want, number in zip(wants, needed, strict=True):
            assert len(want & set(hit)) >= number
    else:
        assert (launches.count, launches.wanted) == (1, 1)


@pytest.mark.parametrize("seed", range(40))
def test_other_filters_are_counted_with(seed: int) -> None:
    """What another filter keeps out is neither skipped nor profiled."""
    chance = random.Random(seed)
    facts = random_program(chance).facts()
    if not facts.kernels:
        return
    name = facts.kernels[0].name
    inside = facts.kernel_mask & [chance.random() < 0.5 for _ in range(len(facts.timeline.ops))]
    own = set(facts.kernel_rows[name].tolist()) & {int(row) for row in inside.nonzero()[0]}
    launches = Commands(facts).launches((name,), 2, inside, inside)
    if launches is None:
        assert not own
        return
    rows = [row for row in matching_launches(facts, launches, launches.process) if inside[row]]
    hit = rows[launches.skip : launches.skip + launches.count]
    assert hit
    assert hit[0] in own


def test_kernels_of_one_loop_are_taken_together() -> None:
    program = Program()
    for step in range(10):
        for place, name in enumerate(("gemm", "softmax", "relu")):
            begin = step * 10 * MS + place * MS
            program.kernel(begin, begin + MS // 2, name)
    facts = program.facts()
    names = [facts.timeline.names.index(one) for one in ("gemm", "relu")]
    launches = Commands(facts).launches(names, 3)
    assert launches is not None
    assert (launches.names, launches.count, launches.wanted) == (("gemm", "relu"), 6, 6)
    command = ncu_command(
        "/opt/ncu", launches.chosen, "out", ("./app", "$X; 'y"), sections=("A", "B"), nvtx=True, ranges=("f/",)
    )
    assert command == (
        "/opt/ncu", "--set", "full", "--section", "A", "--section", "B", "--import-source", "yes", "--nvtx",
        "--nvtx-include", "f/", "--target-processes", "all", "--kernel-name", "regex:^(gemm$|relu$)",
        "--launch-skip", str(launches.skip), "--launch-count", "6", "-o", "out", "./app", "$X; 'y",
    )  # fmt: skip


def test_a_rare_kernel_is_not_taken_with_a_frequent_one() -> None:
    program = Program()
    for step in range(200):
        program.kernel(step * MS, step * MS + MS // 2, "often")
        if step % 60 == 30:
            program.kernel(step * MS + MS // 2, step * MS + MS, "rare")
    facts = program.facts()
    often, rare = (facts.timeline.names.index(one) for one in ("often", "rare"))
    assert Commands(facts).launches((often, rare), 3) is None
    alone = Commands(facts).launches((rare,), 3)
    assert alone is not None
    assert alone.count == 3


def test_names_that_a_file_cut_off_match_from_their_beginning() -> None:
    command = ncu_command("ncu", Launches(("long_na...", "b"), 0, 1, 1, 0).chosen, "x", ())
    pattern = option(command, "--kernel-name").removeprefix("regex:")
    assert re.search(pattern, "long_name")
    assert re.search(pattern, "b")
    assert not re.search(pattern, "bb")
    assert not re.search(pattern, "a_long_name")
