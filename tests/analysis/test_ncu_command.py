"""The ncu command of a kernel that a timeline shows."""

from __future__ import annotations

import re

import pytest
from timeline_builder import MS, US, Program

from gputui.analysis.ncu_command import program_of
from gputui.analysis.timeline_kernels import KernelShare, kernel_shares
from gputui.analysis.timeline_rules.steady import SteadyState
from gputui.model.timeline import SourceFile


def share_of(program: Program, name: str) -> KernelShare:
    return next(one for one in kernel_shares(SteadyState(program.facts())) if one.kernel.demangled == name)


def option(command: tuple[str, ...], name: str) -> str:
    return command[command.index(name) + 1]


def loop(*names: str, warm_up: int = 3, steps: int = 20) -> Program:
    """Steps of which the first ``warm_up`` take ten times as long; each launches these kernels once."""
    program = Program()
    start = 0
    for step in range(steps):
        length = (100 if step < warm_up else 10) * MS
        program.range(start, start + length - 100 * US, f"step {step}")
        for place, name in enumerate(names):
            begin = start + 10 * US + place * MS
            program.kernel(begin, begin + (1000 if place else 6000) * US + place, name, called=start + (place + 1) * US)
            start += 6 * MS if place == 0 else 0
            length -= 6 * MS if place == 0 else 0
        start += length
    return program


def test_the_command_goes_past_the_warm_up() -> None:
    command = share_of(loop("gemm", "softmax"), "softmax").command
    assert command == (
        "ncu", "--set", "full", "--import-source", "yes", "--nvtx", "--kernel-name", "regex:^softmax$",
        "--launch-skip", "3", "--launch-count", "3", "-o", "softmax", "python", "train.py", "--fast",
    )  # fmt: skip


def test_launches_of_other_templates_of_the_function_are_skipped_too() -> None:
    names = ("void ns::add<float>(float*)", "void ns::add<int>(int*)", "void ns::mul<int>(int*)")
    command = share_of(loop(*names), names[1]).command
    assert option(command, "--kernel-name") == "regex:^add$"
    # Three steps of two, and the other one of its own step.
    assert option(command, "--launch-skip") == "7"
    assert option(command, "--launch-count") == "1"


def test_no_more_launches_are_asked_for_than_there_are() -> None:
    program = Program()
    program.kernel(0, MS, "once")
    assert option(share_of(program, "once").command, "--launch-count") == "1"


@pytest.mark.parametrize("name", ["a.b$c", "operator()", "kernel[abi:v1]", "Kernel+2|x", "^x"])
def test_the_name_is_taken_literally(name: str) -> None:
    program = Program()
    program.kernel(0, MS, name)
    shares = kernel_shares(SteadyState(program.facts()))
    pattern = option(shares[0].command, "--kernel-name").removeprefix("regex:")
    assert re.search(pattern, shares[0].kernel.name)
    assert not re.search(pattern, f"x{shares[0].kernel.name}x")
    assert re.fullmatch(r"\w+", option(shares[0].command, "-o"))


def test_a_program_that_is_not_told_has_a_stand_in() -> None:
    program = Program(command=None)
    program.kernel(0, MS, "gemm")
    assert share_of(program, "gemm").command[-2:] == ("python", "train.py")


@pytest.mark.parametrize(
    ("commands", "program"),
    [
        (["./app 'a b' 3"], ("./app", "a b", "3")),
        (["python train.py", "python train.py"], ("python", "train.py")),
        (["python a.py", "python b.py"], ()),
        ([None], ()),
        (["nsys profile python train.py"], ()),
        (["python 'unclosed"], ()),
        (["   "], ()),
    ],
)
def test_the_programs_own_command(commands: list[str | None], program: tuple[str, ...]) -> None:
    assert program_of([SourceFile("x", "nsys", command=one) for one in commands]) == program
