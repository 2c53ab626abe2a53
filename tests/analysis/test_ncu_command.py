"""The ncu command of a kernel that a timeline shows."""

from __future__ import annotations

import re

import pytest
from timeline_builder import MS, US, Program

from gputui.analysis.ncu_command import is_python, program_of, stand_in_of
from gputui.analysis.timeline_kernels import LEAST_BOUND, KernelShare, kernel_shares
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
    # Three launches begin at one of 3 … 17: the middle.
    command = share_of(loop("gemm", "softmax"), "softmax").command
    assert command == (
        "ncu", "--set", "full", "--import-source", "yes", "--nvtx", "--kernel-name", "regex:^softmax$",
        "--launch-skip", "10", "--launch-count", "3", "-o", "softmax", "python", "train.py", "--fast",
    )  # fmt: skip


def test_launches_of_other_templates_of_the_function_are_skipped_too() -> None:
    names = ("void ns::add<float>(float*)", "void ns::add<int>(int*)", "void ns::mul<int>(int*)")
    command = share_of(loop(*names), names[1]).command
    assert option(command, "--kernel-name") == "regex:^add$"
    # Steps 3 … 17 hold a first of three; the middle is step 10: ten steps of two, and the other one of its own step.
    assert option(command, "--launch-skip") == "21"
    # Three of it, with the other one's between them.
    assert option(command, "--launch-count") == "5"


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
    ("process", "program"),
    [
        ("testqo", ("./testqo",)),
        ("/opt/app/solve", ("/opt/app/solve",)),
        ("python3.11", ("python", "train.py")),
        ("", ("python", "train.py")),
    ],
)
def test_the_stand_in_is_the_process_where_the_file_names_it(process: str, program: tuple[str, ...]) -> None:
    told = Program(command=None, process=process)
    told.kernel(0, MS, "gemm")
    command = share_of(told, "gemm").command
    assert command[command.index("-o") + 2 :] == program
    assert stand_in_of(command) == " ".join(program)


@pytest.mark.parametrize(
    ("process", "command", "kind", "answer"),
    [
        ("python3", None, "nsys", True),
        ("app", "torchrun --nproc 2 train.py", "nsys", True),
        ("", None, "torch", True),
        ("app", None, "nsys", False),
        ("", None, "nsys", None),
    ],
)
def test_whether_the_program_is_one_of_python(
    process: str, command: str | None, kind: str, answer: bool | None
) -> None:
    assert is_python(Program(process=process, command=command, kind=kind).timeline()) is answer


def test_a_kernel_that_gains_next_to_nothing_deserves_no_look() -> None:
    """Of 10 ms a kernel runs for 9.5 and another one for 0.4: without that one it is 1.04 times as fast."""
    program = Program()
    for step in range(20):
        start = step * 10 * MS
        program.kernel(start, start + 9_500 * US, "long")
        program.kernel(start + 9_500 * US, start + 9_900 * US, "short")
    long, short = kernel_shares(SteadyState(program.facts()))
    assert (long.deserves, short.deserves) == (True, False)
    assert short.amdahl == pytest.approx(10 / 9.6, rel=0.01)
    for number in range(40):
        program.kernel(number * 10 * MS, number * 10 * MS + 300 * US, f"tiny_{number}")
    for share in kernel_shares(SteadyState(program.facts())):
        assert not share.deserves or share.amdahl is None or share.amdahl >= LEAST_BOUND


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
