"""``--fail-if``: what the names stand for, by hand arithmetic, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gputui.analysis.compare.condition import Condition
from gputui.analysis.compare.model import Amounts, Change, Comparison, Side, TimeChange
from gputui.errors import GputuiError

SIDE = Side("counters", (), (), 1, 0, False)


def time(before: float, after: float, outcome: Any, because: tuple[str, ...] = ()) -> TimeChange:
    return TimeChange(before, after, before / after, None, None, (1, 1), "assumed", 5.0, outcome, because=because)


NO_TIME = TimeChange(None, None, None, None, None, (0, 0), "assumed", 0.0, "inconclusive", because=("no-time",))


def told(**changes: Any) -> Comparison:
    """2000 ns became 2500 ns, 30 % became 45 %, 800 bytes 600, 12 kernels 9."""
    known: dict[str, Any] = {
        "kind": "counters",
        "time": time(2000.0, 2500.0, "slower"),
        "wall": None,
        "tensor": Change("up", 30.0, 45.0),
        "dram": Change("down", 800.0, 600.0),
        "kernels": Change("down", 12.0, 9.0),
        "fusion": "fused",
    }
    rest = {"base": SIDE, "new": SIDE, "cautions": (), "groups": (), "before": Amounts(), "after": Amounts()}
    return Comparison(next=None, **rest, **{**known, **changes})


def holds(text: str, *comparisons: Comparison) -> bool:
    return Condition.parse(text).holds(comparisons or (told(),))


def refused(text: str, *comparisons: Comparison) -> str:
    with pytest.raises(GputuiError) as caught:
        holds(text, *comparisons)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"--fail-if {text}: ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time", 1.25), ("speedup", 0.8), ("dram", 0.75), ("kernels", 0.75), ("tensor", 1.5), ("tensor_before", 30.0),
        ("tensor_after", 45.0),
    ],
)  # fmt: skip
def test_a_name_stands_for_its_number(name: str, value: float) -> None:
    assert holds(f"{name} == {value}")
    assert not holds(f"{name} != {value}")
    assert Condition.parse(f"{name} > 0").values((told(),)) == {name: value}


def test_the_wall_time_is_that_of_timelines() -> None:
    timeline = told(kind="timeline", wall=time(4000.0, 3000.0, "faster"))
    assert holds("wall == 0.75", timeline)
    # The time that the headline tells is the program's, where it is known.
    assert holds("time == 0.75 and faster", timeline)
    assert "cannot tell wall, because only two timelines tell it. " in refused("wall > 1")


@pytest.mark.parametrize("outcome", ["faster", "slower", "no-difference", "inconclusive"])
def test_the_verdict_on_the_time(outcome: str) -> None:
    one = told(time=time(100.0, 100.0, outcome, ("noise",) if outcome == "inconclusive" else ()))
    assert [holds(name, one) for name in ("faster", "slower", "inconclusive")] == [
        outcome == name for name in ("faster", "slower", "inconclusive")
    ]


@pytest.mark.parametrize(
    ("fusion", "expected"), [("fused", True), ("both", True), ("split", False), ("fewer", False), ("same", False)]
)
def test_fused(fusion: str, expected: bool) -> None:
    assert holds("fused", told(fusion=fusion)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2 < time < 1.3", True),
        ("1.2 < time < 1.22", False),
        ("time > 1.05 and dram > 1", False),
        ("time > 1.05 or dram > 1", True),
        ("not (time > 1.05)", False),
        ("time * 4 - 1 == (2 + 6) / 2", True),
        ("-time < +0", True),
        ("tensor_after - tensor_before >= 15", True),
        (" slower and not faster ", True),
    ],
)
def test_python_notation(text: str, expected: bool) -> None:
    assert holds(text) is expected


def test_the_first_comparison_that_tells_a_name_is_taken() -> None:
    timeline = told(
        kind="timeline",
        time=time(10.0, 20.0, "slower"),
        dram=Change("unknown", None, None, "timeline"),
        tensor=Change("unknown", None, None, "timeline"),
    )
    both = (timeline, told())
    assert holds("time == 2 and dram == 0.75 and tensor_after == 45", *both)
    assert "cannot tell dram, because a timeline does not count it. Compare reports" in refused("dram > 1", timeline)


@pytest.mark.parametrize("id", ["other-gpu", "other-work", "work-unknown", "nothing-paired", "one-of-later"])
@pytest.mark.parametrize("text", ["time > 1.05", "speedup < 1", "slower", "faster"])
def test_what_a_caution_leaves_open_is_not_told(id: str, text: str) -> None:
    one = told(time=time(100.0, 50.0, "inconclusive", (id,)))
    assert f"cannot tell {text.split()[0]}, because " in refused(text, one)
    assert holds("inconclusive", one)


def test_what_cannot_be_told_is_no_pass() -> None:
    untold = told(
        time=NO_TIME,
        dram=Change("unknown", None, None, "not-counted"),
        kernels=Change("unknown", 5.0, 4.0, "truncated"),
        tensor=Change("up", 0.0, 40.0),
        fusion="unknown",
    )
    for name in ("time", "dram", "kernels", "tensor"):
        assert f"cannot tell {name}, because " in refused(f"{name} > 99", untold)
    assert "cannot tell fused" in refused("fused", untold)
    assert holds("tensor_before == 0 and tensor_after == 40 and inconclusive", untold)
    with pytest.raises(GputuiError, match="because nothing is compared"):
        Condition.parse("time > 1").holds(())


def test_what_is_not_asked_need_not_be_told() -> None:
    assert holds("slower or wall > 1")
    assert not holds("faster and wall > 1")
    assert Condition.parse("slower or dram > 1").values((told(),)) == {"slower": True}
    assert not holds("2 < time < wall")


@pytest.mark.parametrize(
    "text",
    [
        "", "1 +", "time", "time > ", "time > 'a'", "slower > 1", "time and slower", "not time", "faster + 1 > 0",
        "True", "time ** 2 > 1", "time > True", "time is 1", "time in (1, 2)", "abs(time) > 1", "time.real > 1",
        "[time] > 1", "__import__('os')", "time := 1", "lambda: time", "time > 1j",
        "(" * 150 + "time" + ")" * 150, "x" * 300,
    ],
)  # fmt: skip
def test_what_is_no_condition(text: str) -> None:
    line = refused(text)
    assert ": is no condition (" in line
    assert "time, speedup, gpu_time, wall, dram, kernels, tensor, tensor_before, tensor_after" in line


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    assert "(tiem is no name that it knows)" in refused("tiem > 1")


def test_a_division_by_nothing() -> None:
    assert "divides by 0" in refused("1 / (time - time) > 1")
