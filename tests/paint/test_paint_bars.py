from __future__ import annotations

import math
import random

import pytest

from gputui.paint.bandwidth import bandwidth_bar
from gputui.paint.bars import bar
from gputui.paint.grid import width_of

HOSTILE = [None, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e308, 5e-324]


@pytest.mark.parametrize(
    ("eighths", "text"),
    [(1, "▏ "), (2, "▎ "), (3, "▍ "), (4, "▌ "), (5, "▋ "), (6, "▊ "), (7, "▉ "), (8, "█ "), (9, "█▏"), (16, "██")],
)
def test_bars_are_exact_to_the_eighth(eighths: int, text: str) -> None:
    assert bar(eighths, 16, 2) == text


def test_every_eighth_of_a_long_bar() -> None:
    blocks = " ▏▎▍▌▋▊▉█"
    for eighths in range(1, 81):
        drawn = bar(eighths / 80 * 3.7, 3.7, 10)
        assert sum(blocks.index(char) for char in drawn) == eighths


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "    "),
        (math.nan, "    "),
        (0, "    "),
        (-5, "    "),
        (1e-9, "▏   "),
        (100, "████"),
        (250, "████"),
        (math.inf, "████"),
    ],
)
def test_a_bar_clamps(value: float | None, text: str) -> None:
    assert bar(value, 100, 4) == text


def test_a_bar_in_ascii() -> None:
    assert [bar(value, 4, 4, ascii=True) for value in (0, 0.1, 2, 2.5, 4)] == ["    ", ".   ", "##  ", "##. ", "####"]


def test_a_maximum_that_makes_no_sense_gives_blanks() -> None:
    assert {bar(1, maximum, 3) for maximum in (0, -1, math.nan)} == {"   "}


def test_hostile_values_keep_the_width() -> None:
    rng = random.Random(3)
    for _ in range(300):
        width = rng.randint(0, 30)
        value, maximum = rng.choice(HOSTILE), rng.choice([0.0, math.nan, math.inf, 1e308, 5e-324, 7.0])
        ascii = rng.random() < 0.5
        assert len(bar(value, maximum, width, ascii=ascii)) == width
        picture = bandwidth_bar(value, maximum, width, caption=rng.choice(["", "words 日本"]), ascii=ascii)
        assert all(width_of(line) == width for line in picture.lines())
        assert picture.text().isascii() or not ascii


def test_a_bandwidth_bar_ends_at_the_roof() -> None:
    # 40 cells: 11 for the head, 10 for the roof, 19 for the bar; 25 % of 19 cells are 38 eighths.
    picture = bandwidth_bar(1.2e12, 4.8e12, 40, caption="1.2 TB/s from DRAM")
    assert picture.text() == "DRAM  25 % ████▊──────────────▏ 4.8 TB/s\n           1.2 TB/s from DRAM"
    assert [role for _, role in picture.rows[0]] == [
        "label",
        "bar-full",
        "bar-empty",
        "roof-memory",
        "roof-memory-label",
    ]


def test_a_bandwidth_bar_without_numbers_or_room() -> None:
    assert bandwidth_bar(None, 4.8e12, 40).text() == "DRAM     – ───────────────────▏ 4.8 TB/s"
    assert bandwidth_bar(1e12, 4e12, 40, ascii=True).text() == "DRAM  25 % #####................| 4 TB/s"
    assert bandwidth_bar(1e12, 4e12, 12).text() == "DRAM  25 %"
