from __future__ import annotations

import random

import pytest
from rich.cells import cell_len

from gputui.paint.grid import Canvas, Picture, clusters, printable, shorten, to_ascii, width_of


def widths(picture: Picture) -> set[int]:
    return {cell_len(line) for line in picture.lines()}


def test_one_dot_is_one_braille_dot() -> None:
    canvas = Canvas(2, 1)
    canvas.dot(0, 0, "roof")
    canvas.dot(3, 3, "roof")
    assert canvas.picture().lines() == ["⠁⢀"]


def test_a_diagonal_line() -> None:
    canvas = Canvas(4, 2)
    canvas.line(0, 7, 7, 0, "roof")
    assert canvas.picture().text() == "  ⡠⠊\n⡠⠊"


def test_lines_in_ascii() -> None:
    canvas = Canvas(10, 3, ascii=True)
    canvas.line(0, 1, 7, 1, "roof")
    canvas.line(0, 11, 3, 4, "roof")
    canvas.line(10, 0, 10, 11, "roof")
    canvas.line(14, 4, 17, 11, "roof")
    assert canvas.picture().lines() == ["---- |    ", " /   | \\  ", "/    |  \\ "]


def test_a_shallow_ascii_slope_climbs_within_its_cells() -> None:
    canvas = Canvas(8, 1, ascii=True)
    canvas.line(0, 3, 15, 0, "roof")
    assert canvas.picture().lines() == ["_...--''"]


def test_two_lines_in_one_cell_make_no_falling_slope() -> None:
    canvas = Canvas(1, 1, ascii=True)
    for x, y in ((0, 0), (1, 0), (1, 3)):
        canvas.dot(x, y, "roof")
    assert canvas.picture().lines() == ["-"]


def test_dashes() -> None:
    canvas = Canvas(6, 1)
    canvas.line(0, 0, 11, 0, "roof", dash=2)
    assert canvas.picture().lines() == ["⠉ ⠉ ⠉ "]


def test_a_glyph_hides_the_line_and_a_later_line_keeps_its_role() -> None:
    canvas = Canvas(3, 1)
    canvas.put(1, 0, "●", "mark")
    canvas.line(0, 0, 5, 0, "roof")
    assert canvas.picture().rows == ((("⠉", "roof"), ("●", "mark"), ("⠉", "roof")),)


def test_what_lies_outside_is_not_drawn() -> None:
    canvas = Canvas(3, 1)
    canvas.dot(-1, 0, "roof")
    canvas.dot(6, 4, "roof")
    canvas.put(3, 0, "●", "mark")
    canvas.write(-2, 0, "abcd", "label")
    canvas.write(0, 1, "abcd", "label")
    canvas.reserve(-5, 0, 100)
    assert canvas.picture().lines() == ["cd "]


def test_a_wide_character_at_the_edge_is_left_out_whole() -> None:
    canvas = Canvas(3, 1)
    canvas.write(0, 0, "日本", "label")
    assert canvas.picture().rows == ((("日", "label"), (" ", "")),)


def test_zero_width_characters_take_no_cell() -> None:
    assert clusters("e\u0301a") == [("e\u0301", 1), ("a", 1)]
    assert clusters("\u0301a\ufe0f") == [("a", 1)]
    assert width_of("日e\u0301") == 3


def test_labels_keep_a_blank_between_them_and_away_from_marks() -> None:
    canvas = Canvas(20, 1)
    canvas.put(0, 0, "●", "mark")
    assert canvas.label("one", "label", [(1, 0), (2, 0)]) == (2, 0)
    assert canvas.label("two", "label", [(4, 0), (5, 0), (6, 0)]) == (6, 0)
    assert canvas.label("too long to fit here", "label", [(col, 0) for col in range(-5, 30)]) is None
    assert canvas.picture().text() == "● one two"


def test_labels_keep_away_from_lines_unless_told() -> None:
    canvas = Canvas(6, 1)
    canvas.line(0, 0, 11, 0, "roof")
    assert canvas.label("ab", "label", [(2, 0)]) is None
    assert canvas.label("ab", "label", [(2, 0)], over_lines=True) == (2, 0)
    assert canvas.picture().lines() == ["⠉⠉ab⠉⠉"]


def test_a_row_of_roles() -> None:
    canvas = Canvas(8, 1)
    canvas.write(1, 0, "ab", "label")
    canvas.write(4, 0, "cd", "dim")
    assert canvas.picture().rows == (((" ", ""), ("ab", "label"), (" ", ""), ("cd", "dim"), ("  ", "")),)


@pytest.mark.parametrize(
    ("text", "cells", "short"),
    [
        ("kernel", 6, "kernel"),
        ("kernel", 5, "kern…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("ab", 1, "…"),
        ("a", 0, ""),
    ],
)
def test_shorten(text: str, cells: int, short: str) -> None:
    assert shorten(text, cells) == short


def test_ascii_twins() -> None:
    assert to_ascii("5 µs – 3×, 日") == "5 us - 3x, ?"
    assert printable("a\x1b[31m\u202eb", ascii=True) == "a\\x1b[31m\\u202eb"


@pytest.mark.parametrize("size", [(0, 0), (0, 3), (3, 0), (-1, -1)])
def test_no_room_is_an_empty_picture(size: tuple[int, int]) -> None:
    canvas = Canvas(*size)
    canvas.line(0, 0, 9, 9, "roof")
    assert canvas.picture().text().strip() == ""


@pytest.mark.parametrize("ascii", [False, True])
def test_every_row_is_exactly_as_wide_as_asked(ascii: bool) -> None:
    rng = random.Random(7)
    texts = ["abc", "日本語", "e\u0301\u0301x", "한글", "", "⠉●", "☃\ufe0f", "\u200dq"]
    for _ in range(200):
        canvas = Canvas(rng.randint(1, 30), rng.randint(1, 8), ascii=ascii)
        for _ in range(20):
            col, row = rng.randint(-4, 34), rng.randint(-2, 9)
            canvas.line(2 * col, 4 * row, rng.randint(-9, 70), rng.randint(-9, 40), "roof", dash=rng.choice((0, 2)))
            canvas.label(
                printable(rng.choice(texts), ascii=ascii), "label", [(col, row)], over_lines=rng.random() < 0.5
            )
        picture = canvas.picture()
        assert widths(picture) == {canvas.width}
        assert len(picture.rows) == canvas.height
        assert picture.text().isascii() == ascii or not ascii


def test_a_run_of_cells_is_filled_at_once() -> None:
    canvas = Canvas(5, 1)
    canvas.line(0, 0, 9, 0, "roof")
    canvas.fill(1, 0, ["a", "b"], ["one", "two"])
    assert canvas.picture().rows == ((("⠉", "roof"), ("a", "one"), ("b", "two"), ("⠉⠉", "roof")),)
    assert canvas.is_taken(2, 0)
    assert not canvas.is_taken(3, 0)
