"""Which kernels are proposed, why, and what people may call them."""

from __future__ import annotations

import pytest
from timeline_builder import MS, US, Program

from gputui.analysis.proposals import Proposal, propose, resolve
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.errors import GputuiError
from gputui.wording import LANGUAGES, wording

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def diagnosis(program: Program) -> TimelineDiagnosis:
    return diagnose_timeline(program.facts())


def loop(*kernels: tuple[str, int], kind: str = "nsys") -> Program:
    """Twenty steps of 10 ms, of the kernels' times in µs one after another, each in a range of its name."""
    program = Program(kind=kind)
    for step in range(20):
        time = step * 10 * MS + 50 * US
        program.range(time - 45 * US, time + 9_900 * US, f"step {step}")
        for name, us in kernels:
            called = time - 10 * US
            program.range(called - 5 * US, called + 5 * US, f"do_{name}")
            program.kernel(time, time + us * US, name, called=called)
            time += us * US + 20 * US
    return program


def by_name(proposals: tuple[Proposal, ...]) -> dict[str, tuple[bool, str]]:
    return {one.share.kernel.name: (one.is_proposed, one.reason) for one in proposals}


def test_those_that_gain_most_are_marked_and_collectives_never() -> None:
    found = propose(diagnosis(loop(("gemm", 4000), (ALL_REDUCE, 3000), ("softmax", 1500), ("tiny", 20))))
    assert [one.share.kernel.name for one in found] == ["gemm", ALL_REDUCE, "softmax", "tiny"]
    assert by_name(found) == {
        "gemm": (True, "worth"), ALL_REDUCE: (False, "collective"), "softmax": (True, "worth"),
        "tiny": (False, "small"),
    }  # fmt: skip


def test_five_are_enough() -> None:
    found = propose(diagnosis(loop(*((f"k{name}", 1000) for name in "abcdefg"))))
    assert [one.reason for one in found] == ["worth"] * 5 + ["more"] * 2
    assert sum(one.is_proposed for one in found) == 5


@pytest.mark.parametrize("top", [0, 1, 3, 9])
def test_top_marks_so_many(top: int) -> None:
    found = propose(diagnosis(loop(("gemm", 4000), (ALL_REDUCE, 3000), ("softmax", 1500), ("tiny", 20))), top=top)
    assert [one.share.kernel.name for one in found if one.is_proposed] == ["gemm", "softmax", "tiny"][:top]
    assert not by_name(found)[ALL_REDUCE][0]


def test_what_was_asked_for_is_marked_however_small_and_shares_are_of_the_range() -> None:
    (found,) = propose(diagnosis(loop(("gemm", 4000), ("tiny", 20))), nvtx="do_tiny")
    assert (found.share.kernel.name, found.is_proposed, found.reason) == ("tiny", True, "asked")
    assert found.share.share == 1.0


def test_the_cost_is_the_program_and_the_replays() -> None:
    (found,) = propose(diagnosis(loop(("gemm", 4000))), launches=2)
    # 200 ms of program, half a second to begin, and two launches of 40 passes of 4 ms and 10 ms.
    assert found.count == 2
    assert found.seconds == pytest.approx(0.2 + 3.0 + 2 * 40 * (0.004 + 0.05), rel=0.02)


def test_a_few_steps_do_not_tell_how_long_the_program_runs() -> None:
    (found,) = propose(diagnosis(loop(("gemm", 4000), kind="torch")))
    assert found.seconds is None


def test_skip_and_count_are_of_the_range_where_ncu_filters_by_it() -> None:
    program = Program()
    for step in range(6):
        start = step * 10 * MS
        for place, name in enumerate(("first", "second")):
            begin = start + place * 5 * MS
            program.range(begin, begin + 4 * MS, name)
            program.kernel(begin + MS, begin + 3 * MS, "k", called=begin + 100 * US)
    (found,) = propose(diagnosis(program), nvtx="second")
    (alone,) = propose(diagnosis(program))
    # In the range it is launched six times; 0 … 3 may be the first of three, and the middle of those is taken.
    assert (found.skip, found.count, alone.count) == (2, 3, 3)


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("typed", "kernels"),
    [("do_gemm", ["gemm"]), ("soft", ["softmax"]), ("DO_GEMM", ["gemm"]), ("^relu$", ["relu"]), ("RELU", ["relu"])],
)
def test_ranges_come_before_kernels_and_case_matters_last(typed: str, kernels: list[str]) -> None:
    found = resolve(diagnosis(loop(("gemm", 2000), ("softmax", 2000), ("relu", 1000))), typed, None)
    assert [one.kernel.name for one in found.kernels] == kernels


def test_kernel_within_a_range_is_a_name() -> None:
    found = resolve(diagnosis(loop(("gemm", 2000), ("softmax", 2000))), "gemm|softmax", "do_gemm")
    assert [one.kernel.name for one in found.kernels] == ["gemm"]


def test_what_is_not_there_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(GputuiError) as error:
        resolve(diagnosis(loop(("gemm", 2000), ("softmax", 2000))), "sofmax_x", None)
    assert "softmax" in error.value.hint
    assert "--pytorch-ranges" in error.value.hint
    assert str(error.value).startswith("--kernel sofmax_x: matches no NVTX range and no kernel")


def test_pytorch_ranges_are_not_advised_where_they_are() -> None:
    program = loop(("gemm", 2000))
    for step in range(20):
        program.range(step * 10 * MS, step * 10 * MS + 9 * MS, f"aten::mm, seq = {step}")
    with pytest.raises(GputuiError) as error:
        resolve(diagnosis(program), None, "aten::matmul")
    assert "aten::mm" in error.value.hint
    assert "--pytorch-ranges" not in error.value.hint


def test_an_expression_that_is_none_is_told() -> None:
    with pytest.raises(GputuiError, match="is no regular expression"):
        resolve(diagnosis(loop(("gemm", 2000))), "torch.nn.Linear(", None)


def test_every_reason_has_words() -> None:
    for language in LANGUAGES:
        for reason in ("worth", "asked", "more", "small", "collective"):
            assert wording(language).text(f"run.reason.{reason}")


def test_one_launch_tells_nothing_of_the_program() -> None:
    program = Program()
    program.kernel(0, MS, "once")
    (one,) = propose(diagnosis(program))
    assert (one.is_proposed, one.reason, one.gain) == (True, "few", None)
    (of_loop, *_) = propose(diagnosis(loop(("gemm", 6000), ("relu", 1000))))
    assert of_loop.gain == of_loop.share.amdahl
    assert of_loop.gain is not None
