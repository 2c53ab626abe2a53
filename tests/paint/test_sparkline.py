from __future__ import annotations

import math

import pytest

from gputui.paint.sparkline import sparkline


def test_the_bars_stand_on_zero() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert sparkline([99, 100]) == "██"
    assert sparkline([50, 100]) == "▄█"


def test_in_ascii() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8, None], ascii=True) == "_.-~=+*# "


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([None, None], "··"),
        ([0, 0.0], "▁▁"),
        ([0, None, 1], "▁·█"),
        ([math.nan, math.inf, 1], "··█"),
        ([-1, 1], "▁█"),
        ([1e-9, 1], "▁█"),
        ([5e-324, 1e308], "▁█"),
    ],
)
def test_what_is_nothing_or_not_known(values: list[float | None], text: str) -> None:
    assert sparkline(values) == text


def test_the_first_and_the_last_of_many_values_stay() -> None:
    values = [8.0, *[4.0] * 97, 2.0, 1.0]
    assert sparkline(values, 5) == "█▄▄▄▁"
    assert sparkline(values, 1) == "█"
    assert sparkline(values, 100) == sparkline(values)
