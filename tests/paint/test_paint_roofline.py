from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from rich.cells import cell_len

from gputui.analysis.roofline import MemoryLevel, Point, Roof
from gputui.paint.grid import Picture
from gputui.paint.roofline import Arrow, Chart, draw, legend

DRAM = Roof("dram", "memory", 4.8e12, "report")
L2 = Roof("l2", "memory", 1.2e13, "report")
FP32 = Roof("fp32", "compute", 6.7e13, "report")
BF16 = Roof("tensor-bf16", "compute", 9.9e14, "specs")
ROOFS = (DRAM, L2, FP32, BF16)
HOSTILE = [0.0, -1.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, 1e-6, 1e6]


def point(
    kernel: int,
    intensity: float,
    flop_per_s: float,
    *,
    name: str = "",
    level: MemoryLevel = "dram",
    fraction: float | None = None,
    duration_ns: float | None = 1e6,
) -> Point:
    return Point(kernel, name or f"k{kernel}", level, intensity, flop_per_s, fraction, duration_ns)


def find(picture: Picture, glyph: str) -> list[tuple[int, int]]:
    """The (column, row) of each such character, in a picture without wide ones."""
    return [(col, row) for row, line in enumerate(picture.lines()) for col, char in enumerate(line) if char == glyph]


def cells_of(picture: Picture, role: str) -> list[tuple[int, int]]:
    """The cells that text of this role takes."""
    cells = []
    for row, segments in enumerate(picture.rows):
        col = 0
        for text, found in segments:
            cells.extend((col + offset, row) for offset in range(cell_len(text)) if found == role)
            col += cell_len(text)
    return cells


def texts(picture: Picture, role: str) -> list[str]:
    return [text for row in picture.rows for text, found in row if found == role]


def test_the_whole_chart() -> None:
    chart = Chart(
        (DRAM, FP32),
        (
            point(0, 12.4, 2.9e12, name="naive_gemm", fraction=0.05, duration_ns=5.2e6),
            point(1, 0.61, 2.7e12, name="adamw", fraction=0.92, duration_ns=1.2e6),
            point(2, 0.03, 2.2e10, name="embedding", duration_ns=6e4),
        ),
        selected=0,
        gap_label="5 % of the roof",
    )
    assert draw(chart, 60, 16).text() == WHOLE
    assert draw(chart, 60, 16, ascii=True).text() == WHOLE_ASCII


WHOLE = """\
FLOP/s                                             fp32 67 T
100 T ┤                                        ⢀⡠⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤
      │                                    ⢀⡠⠔⠊┊
      │                                ⣀⠤⠒⠉⠁   ┊ 5 %
 10 T ┤                            ⣀⠤⠒⠉        ┊
      │         DRAM 4.8 TB/s  ⣀⠤⠒⠉            ┊
      │                   ⢀⣀⠤⠒● adamw 1.2 ms   ◆
  1 T ┤               ⢀⡠⠔⠊⠁            naive_gemm 5.2 ms
      │           ⢀⡠⠔⠊⠁
      │       ⢀⡠⠔⠊⠁
100 G ┤   ⣀⠤⠒⠊⠁
      │⠤⠒⠉
      │      · embedding 60 µs
 10 G ┤
      └┬────────────┬────────────┬────────────┬─ FLOP/byte ┬
      0.01         0.1           1            10         100"""
WHOLE_ASCII = """\
FLOP/s                                             fp32 67 T
100 T +                                        _/-----------
      |                                    _..':
      |                                _.-''   : 5 %
 10 T +                            _.-'        :
      |         DRAM 4.8 TB/s  _.-'            :
      |                   __.-O adamw 1.2 ms   #
  1 T +               _..''            naive_gemm 5.2 ms
      |           _..''
      |       _..''
100 G +   _.-''
      |.-'
      |      . embedding 60 us
 10 G +
      ++------------+------------+------------+- FLOP/byte +
      0.01         0.1           1            10         100"""


def test_an_empty_chart_still_has_axes() -> None:
    picture = draw(Chart((), ()), 40, 8)
    assert picture.text() == EMPTY


EMPTY = """\
FLOP/s
  1 P ┤
      │
  1 T ┤
      │
  1 G ┤
      └┬───────┬───────┬── FLOP/byte ──┬
      0.1      1       10     100   1000"""


def test_the_axes_cover_whole_decades() -> None:
    picture = draw(Chart(ROOFS, (point(0, 0.03, 2e10),)), 80, 20)
    labels = [label.strip() for label in texts(picture, "axis-label")]
    assert labels == ["1 P", "100 T", "10 T", "1 T", "100 G", "10 G", "0.01", "0.1", "1", "10", "100", "1000"]


def test_a_mark_stands_where_hand_arithmetic_puts_it() -> None:
    # 87 x 23 cells: 7 columns of numbers leave 80, that is dots 14 to 173, for 0.1 to 1000 FLOP/byte (4 decades);
    # one row of title and two of axis leave 20, dots 83 up to 4, for 10 G to 100 T FLOP/s (4 decades).
    picture = draw(
        Chart((DRAM, FP32), (point(0, 10.5, 1.1e12), point(1, 1, 1.1e11), point(2, 100, 2e10)), selected=0), 87, 23
    )
    assert find(picture, "┤") == [(6, 1), (6, 6), (6, 11), (6, 15), (6, 20)]
    # 10.5 FLOP/byte is 2.021 decades in: dot 14 + 159 * 2.021 / 4 = 94.3, in column 47; 1.1 T is 2.041 decades up:
    # dot 83 - 79 * 2.041 / 4 = 42.7, in row 10.
    assert find(picture, "◆") == [(47, 10)]
    # 1: dot 53.75, column 27; 1.1e11: dot 62.4, row 15. 100: dot 133.25, column 66; 2e10: dot 77.05, row 19.
    assert find(picture, "●") == [(27, 15), (66, 19)]


def test_roofs_meet_at_the_ridge() -> None:
    picture = draw(Chart((DRAM, FP32), ()), 87, 23)
    flat = [col for col, row in cells_of(picture, "roof")]
    slope = [col for col, row in cells_of(picture, "roof-memory")]
    ridge = round(14 + 159 * (math.log10(6.7e13 / 4.8e12) + 1) / 4) // 2
    assert max(slope) == ridge
    assert min(flat) in (ridge, ridge + 1)
    assert max(flat) == 86


def test_roofs_are_named_with_their_peak() -> None:
    picture = draw(Chart(ROOFS, (), roof_names={"dram": "HBM"}), 80, 20)
    assert texts(picture, "roof-memory-label") == ["HBM 4.8 TB/s"]
    assert texts(picture, "roof-cache-label") == ["L2 12 TB/s"]
    assert texts(picture, "roof-label") == ["tensor bf16 990 T", "fp32 67 T"]


def test_marks_tell_the_share_of_time() -> None:
    points = tuple(point(i, 10.0**i, 1e11, duration_ns=ns) for i, ns in enumerate((90e3, 9e3, 1e3)))
    picture = draw(Chart(ROOFS, points), 100, 20)
    assert [len(find(picture, glyph)) for glyph in "●•·◆"] == [1, 1, 1, 0]
    ascii_picture = draw(Chart((), points, selected=2), 100, 20, ascii=True)
    assert [len(texts(ascii_picture, role)) for role in ("mark", "mark-small", "mark-selected")] == [2, 0, 1]
    assert texts(ascii_picture, "mark") == ["O", "o"]
    assert texts(ascii_picture, "mark-selected") == ["#"]


def test_shares_are_of_the_total_where_it_is_known() -> None:
    picture = draw(Chart(ROOFS, (point(0, 1, 1e11, duration_ns=1e3),), total_ns=1e6), 80, 20)
    assert texts(picture, "mark-small") == ["·"]


def test_marks_without_times_are_medium() -> None:
    picture = draw(Chart(ROOFS, (point(0, 1, 1e11, duration_ns=None),)), 80, 20)
    assert texts(picture, "mark") == ["•"]
    assert texts(picture, "label") == ["k0"]


def test_the_gap_reaches_from_the_roof_to_the_kernel() -> None:
    chart = Chart((DRAM, FP32), (point(0, 100, 6.7e11, fraction=0.01),), selected=0)
    picture = draw(chart, 80, 24)
    [(col, row)] = find(picture, "◆")
    roof_row = min(row for _, row in cells_of(picture, "roof"))
    assert find(picture, "┊") == [(col, between) for between in range(roof_row + 1, row)]
    assert texts(picture, "gap-label") == ["1 %"]


def test_the_gap_is_worked_out_from_the_roofs_where_no_fraction_is_known() -> None:
    # Below the slope the roof is 4.8e12 x 0.1 = 4.8e11 FLOP/s, of which 4.8e10 are a tenth.
    picture = draw(Chart((DRAM, FP32), (point(0, 0.1, 4.8e10),), selected=0), 80, 24)
    assert texts(picture, "gap-label") == ["10 %"]


def test_a_kernel_at_its_roof_has_no_gap_but_is_told_so() -> None:
    picture = draw(Chart((DRAM, FP32), (point(0, 100, 6.6e13, fraction=0.985),), selected=0), 80, 24)
    assert find(picture, "┊") == []
    assert texts(picture, "gap-label") == ["98 %"]


def test_a_long_gap_label_gives_way_to_the_percentage() -> None:
    chart = Chart((DRAM, FP32), (point(0, 100, 6.7e11, fraction=0.01),), selected=0, gap_label="x" * 99)
    assert texts(draw(chart, 80, 24), "gap-label") == ["1 %"]


def test_other_levels_are_shown_for_the_selected_kernel_alone() -> None:
    points = (
        point(0, 100, 1e12),
        point(0, 10, 1e12, level="l2"),
        point(0, 1, 1e12, level="l1"),
        point(1, 0.3, 1e11),
        point(1, 0.1, 1e11, level="l2"),
    )
    picture = draw(Chart(ROOFS, points, selected=0), 100, 24)
    assert len(find(picture, "◇")) == 2
    assert sorted(text for text in texts(picture, "mark-level") if text != "◇") == ["L1", "L2"]
    assert len(find(draw(Chart(ROOFS, points), 100, 24), "◇")) == 0


def test_points_that_are_no_numbers_are_left_out() -> None:
    points = tuple(point(i, bad, 1e12) for i, bad in enumerate((0.0, -1.0, math.nan, math.inf)))
    points += tuple(point(10 + i, 1.0, bad) for i, bad in enumerate((0.0, -1.0, math.nan, math.inf)))
    picture = draw(Chart(ROOFS, points), 80, 20)
    assert texts(picture, "mark") == texts(picture, "label") == []


def test_points_beyond_the_limits_stand_at_the_ends() -> None:
    picture = draw(Chart(ROOFS, (point(0, 1e-9, 1e12), point(1, 1e9, 1e13))), 80, 20)
    assert [col for col, _ in sorted(find(picture, "●"))] == [7, 79]


def test_a_strangers_name_cannot_act_on_the_terminal() -> None:
    picture = draw(Chart(ROOFS, (point(0, 10, 1e11, name="a\x1b[2J\nb"),), selected=0), 120, 20)
    assert texts(picture, "label-selected") == ["a\\x1b[2J\\x0ab 1 ms"]


def test_wide_names_keep_rows_in_shape() -> None:
    picture = draw(Chart(ROOFS, (point(0, 10, 1e11, name="行列積カーネル"),), selected=0), 80, 20)
    assert texts(picture, "label-selected") == ["行列積カーネル 1 ms"]
    assert {cell_len(line) for line in picture.lines()} == {80}


def random_chart(rng: random.Random) -> Chart:
    def value(low: float, high: float) -> float:
        return rng.choice(HOSTILE) if rng.random() < 0.15 else 10 ** rng.uniform(low, high)

    names = (
        "gemm",
        "void at::native::elementwise_kernel",
        "日本語",
        "e\u0301\u0301\u0301",
        "",
        "\u202e\x07",
        "☃\ufe0f",
    )
    roofs = [Roof(name, "memory", value(11, 14), "report") for name in ("dram", "l2", "l1") if rng.random() < 0.8]
    roofs += [Roof(f"tensor-{i}", "compute", value(12, 15.3), "specs") for i in range(rng.randint(0, 5))]
    points = [
        Point(
            rng.randint(0, 20),
            rng.choice(names),
            rng.choice(("dram", "dram", "l2", "l1")),
            value(-7, 7),
            value(6, 16),
            rng.choice((None, value(-3, 0.1))),
            rng.choice((None, value(2, 9))),
        )
        for _ in range(rng.choice((0, 1, 3, 40)))
    ]
    selected = rng.choice((None, 0, 3, 999))
    return Chart(
        tuple(roofs), tuple(points), selected, rng.choice((None, *HOSTILE)), gap_label=rng.choice((None, "隙間 5 %"))
    )


@pytest.mark.parametrize("seed", range(12))
def test_hostile_charts_of_any_size_fill_their_rows_exactly(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        chart = random_chart(rng)
        width, height, ascii = rng.randint(0, 200), rng.randint(0, 60), rng.random() < 0.5
        picture = draw(chart, width, height, ascii=ascii)
        assert len(picture.rows) == height
        assert all(cell_len(line) == width for line in picture.lines())
        assert picture.text().isascii() or not ascii


@pytest.mark.parametrize("width", range(0, 40, 3))
def test_small_sizes_draw_what_fits(width: int) -> None:
    for height in range(12):
        picture = draw(Chart(ROOFS, (point(0, 10, 1e12, fraction=0.1),), selected=0), width, height)
        assert [cell_len(line) for line in picture.lines()] == [width] * height


@pytest.mark.parametrize("seed", range(8))
def test_labels_never_overlap_each_other_or_marks(seed: int) -> None:
    rng = random.Random(seed)
    points = tuple(
        point(i, 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(10, 14.9), name=f"kernel_{i}_end", duration_ns=None)
        for i in range(60)
    )
    picture = draw(Chart(ROOFS, points, selected=0, gap_label="gap_end"), rng.randint(60, 140), rng.randint(16, 40))
    names = {f"kernel_{i}_end" for i in range(60)}
    labels = texts(picture, "label")
    assert labels
    assert set(labels) <= names  # a label that another or a mark had cut would not be whole
    assert len(labels) == len(set(labels))
    assert texts(picture, "label-selected") in ([], ["kernel_0_end"])
    bare = draw(Chart(ROOFS, tuple(replace(each, name="") for each in points), 0), picture.width, picture.height)
    for role in ("mark", "mark-selected"):
        assert cells_of(picture, role) == cells_of(bare, role)  # no name has hidden a mark


def test_the_whole_chart_with_arrows() -> None:
    chart = Chart(
        (DRAM, FP32),
        (),
        arrows=(
            Arrow(point(0, 0.61, 1.7e11, name="adamw"), point(0, 0.61, 2.7e12, name="fused", duration_ns=1.2e6)),
            Arrow(
                point(1, 8, 1.9e12, name="softmax"),
                point(4, 100, 4e13, name="flash", duration_ns=4e5),
                is_selected=True,
            ),
            Arrow(point(2, 0.03, 2.2e10, name="dropout"), None),
            Arrow(None, point(3, 90, 3e10, name="cast", duration_ns=None)),
        ),
    )
    assert draw(chart, 60, 16).text() == WHOLE_ARROWS
    assert draw(chart, 60, 16, ascii=True).text() == WHOLE_ARROWS_ASCII


WHOLE_ARROWS = """\
FLOP/s                                             fp32 67 T
100 T ┤                                ⣀⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤
      │                             ⡠⠔⠊        ⢀↗◆ flash
      │                         ⢀⡠⠔⠉        ⢀⠤⠊⠁
 10 T ┤                      ⢀⠤⠒⠁        ⢀⠤⠊⠁
      │     DRAM 4.8 TB/s ⣀⠔⠊⠁        ⢀⠤⠊⠁
      │               ⢀⡠⠔● fused     ◇⠁
  1 T ┤            ⢀⡠⠒⠁  ↑
      │         ⣀⠤⠊⠁     ⡂
      │      ⡠⠔⠊         ○
100 G ┤  ⢀⡠⠒⠉
      │⠤⠊⠁
      │     ○ dropout 1 ms                      ● cast
 10 G ┤
      └┬─────────┬──────────┬─────────┬──── FLOP/byte ─────┬
      0.01      0.1         1         10        100     1000"""
WHOLE_ARROWS_ASCII = """\
FLOP/s                                             fp32 67 T
100 T +                                _--------------------
      |                             ..'        _># flash
      |                         _..'        _.''
 10 T +                      _.-'        _.''
      |     DRAM 4.8 TB/s _.''        _.''
      |               _..@ fused     x'
  1 T +            _.-'  ^
      |         _.''     .
      |      ..'         o
100 G +  _.-'
      |.''
      |     o dropout 1 ms                      @ cast
 10 G +
      ++---------+----------+---------+---- FLOP/byte -----+
      0.01      0.1         1         10        100     1000"""


# With these on 87 x 23 cells a decade is 40 dots wide and 20 high (see the hand arithmetic above): half a decade of
# FLOP/byte is as long as one of FLOP/s. In ASCII a slanted head points to its side.
HOLD_THE_AXES = (point(8, 1, 2e10), point(9, 100, 2e10))
DIRECTIONS = [
    (0.5, 0, "→", ">"),
    (0.5, 1, "↗", ">"),
    (0, 1, "↑", "^"),
    (-0.5, 1, "↖", "<"),
    (-0.5, 0, "←", "<"),
    (-0.5, -1, "↙", "<"),
    (0, -1, "↓", "v"),
    (0.5, -1, "↘", ">"),
    (0.5, 0.3, "→", ">"),  # 17 degrees
    (0.5, 0.6, "↗", ">"),  # 31 degrees
    (0.3, 1, "↗", ">"),  # 59 degrees
    (0.15, 1, "↑", "^"),  # 73 degrees
]


@pytest.mark.parametrize(("right", "up", "head", "ascii_head"), DIRECTIONS)
@pytest.mark.parametrize("is_selected", [False, True])
def test_the_head_points_where_the_kernel_went(
    right: float, up: float, head: str, ascii_head: str, is_selected: bool
) -> None:
    arrow = Arrow(point(0, 20, 7e11), point(0, 20 * 10**right, 7e11 * 10**up), is_selected)
    chart = Chart((DRAM, FP32), HOLD_THE_AXES, arrows=(arrow,))
    suffix = "-selected" if is_selected else ""
    for ascii, glyph in ((False, head), (True, ascii_head)):
        picture = draw(chart, 87, 23, ascii=ascii)
        [before] = cells_of(picture, f"mark-before{suffix}")
        [after] = cells_of(picture, f"mark-after{suffix}")
        line = cells_of(picture, f"arrow{suffix}")
        beside = [(col, row) for col, row in line if max(abs(col - after[0]), abs(row - after[1])) == 1]
        assert glyph in [picture.lines()[row][col] for col, row in beside]
        for axis in (0, 1):  # the arrow lies between its ends
            low, high = sorted((before[axis], after[axis]))
            assert all(low <= cell[axis] <= high for cell in line)


def test_before_is_hollow_and_after_is_filled() -> None:
    arrows = (
        Arrow(point(0, 1, 1e11), point(0, 1, 1e12)),
        Arrow(point(1, 100, 1e11), point(1, 100, 1e12), is_selected=True),
    )
    for ascii, signs in ((False, ["○", "●", "◇", "◆"]), (True, ["o", "@", "x", "#"])):
        picture = draw(Chart(ROOFS, (), arrows=arrows), 80, 24, ascii=ascii)
        roles = ("mark-before", "mark-after", "mark-before-selected", "mark-after-selected")
        assert [texts(picture, role) for role in roles] == [[sign] for sign in signs]


def test_a_kernel_that_stayed_is_one_mark_without_a_line() -> None:
    picture = draw(Chart(ROOFS, (), arrows=(Arrow(point(0, 10, 1e12), point(0, 10.01, 1.001e12)),)), 80, 24)
    assert texts(picture, "mark-after") == ["●"]
    assert texts(picture, "mark-before") == texts(picture, "arrow") == []


def test_between_ends_side_by_side_is_no_room_for_a_head() -> None:
    # A cell is 1/20 of a decade.
    arrow = Arrow(point(0, 20, 1e12), point(0, 20 * 10**0.05, 1e12))
    picture = draw(Chart((DRAM, FP32), HOLD_THE_AXES, arrows=(arrow,)), 87, 23)
    [(before, _)], [(after, _)] = cells_of(picture, "mark-before"), cells_of(picture, "mark-after")
    assert after - before == 1
    assert texts(picture, "arrow") == []


@pytest.mark.parametrize("missing", [None, *(point(0, bad, 1e12) for bad in (0.0, -1.0, math.nan, math.inf))])
def test_where_one_end_is_missing_the_other_stands_alone(missing: Point | None) -> None:
    there = point(0, 10, 1e12, name="there")
    gone = draw(Chart(ROOFS, (), arrows=(Arrow(there, missing),)), 80, 24)
    new = draw(Chart(ROOFS, (), arrows=(Arrow(missing, there),)), 80, 24)
    roles = ("mark-before", "mark-after", "arrow", "label")
    assert [texts(gone, role) for role in roles] == [["○"], [], [], ["there 1 ms"]]
    assert [texts(new, role) for role in roles] == [[], ["●"], [], ["there 1 ms"]]
    neither = draw(Chart(ROOFS, (), arrows=(Arrow(missing, missing),)), 80, 24)
    assert neither == draw(Chart(ROOFS, ()), 80, 24)


def test_a_kernel_is_named_once_where_it_stands() -> None:
    arrow = Arrow(point(0, 1, 1e11, name="was"), point(0, 100, 1e11, name="is", duration_ns=2e6))
    assert texts(draw(Chart(ROOFS, (), arrows=(arrow,)), 80, 24), "label") == ["is 2 ms"]
    lit = draw(Chart(ROOFS, (), arrows=(replace(arrow, is_selected=True),)), 80, 24)
    assert texts(lit, "label-selected") == ["is 2 ms"]
    assert texts(lit, "label") == []


@pytest.mark.parametrize("is_selected", [False, True])
def test_a_name_keeps_away_from_where_another_kernel_stood(is_selected: bool) -> None:
    # 8 columns to the right, where the name would just fit.
    other = Arrow(point(1, 20 * 10**0.4, 1e12, name=""), None)
    arrow = Arrow(None, point(0, 20, 1e12, name="fused", duration_ns=None), is_selected)
    suffix = "-selected" if is_selected else ""
    for arrows, is_right in (((arrow,), True), ((arrow, other), False)):
        picture = draw(Chart((DRAM, FP32), HOLD_THE_AXES, arrows=arrows), 87, 23)
        [(mark, _)] = cells_of(picture, f"mark-after{suffix}")
        row = next(line for line in picture.lines() if "fused" in line)
        assert (row.index("fused") > mark) == is_right


def test_the_axes_reach_to_both_ends_of_an_arrow() -> None:
    arrow = Arrow(point(0, 2e-5, 1e12), point(0, 2e5, 2e8))
    labels = [label.strip() for label in texts(draw(Chart(ROOFS, (), arrows=(arrow,)), 150, 40), "axis-label")]
    assert {"100 M", "1e-5", "1e6"} <= set(labels)


@pytest.mark.parametrize("lit_is_first", [False, True])
def test_the_selected_arrow_lies_on_top(lit_is_first: bool) -> None:
    # A cross whose shafts share a cell, and ends that all share theirs.
    low, high = point(0, 1, 1e12), point(0, 100, 1e12)
    lit, other = Arrow(low, high, is_selected=True), Arrow(point(1, 10, 1e11), point(1, 10, 1e13))
    pair = (lit, other) if lit_is_first else (other, lit)
    picture = draw(Chart((DRAM, FP32), (), arrows=pair), 87, 23)
    line = cells_of(picture, "arrow-selected")
    assert [col for col, _ in line] == list(range(line[0][0], line[-1][0] + 1))
    same = Arrow(low, high)
    picture = draw(Chart((DRAM, FP32), (), arrows=(lit, same) if lit_is_first else (same, lit)), 87, 23)
    assert [texts(picture, role) for role in ("mark-before", "mark-after", "arrow")] == [[], [], []]


@pytest.mark.parametrize("seed", range(6))
def test_names_and_heads_hide_no_mark_of_an_arrow(seed: int) -> None:
    rng = random.Random(seed)

    def end(i: int) -> Point:
        return point(i, 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(10, 14.9), name=f"kernel_{i}_end", duration_ns=None)

    arrows = tuple(Arrow(end(i), end(i), is_selected=i == 3) for i in range(12))
    for ascii in (False, True):
        picture = draw(Chart(ROOFS, (), arrows=arrows), rng.randint(60, 140), rng.randint(16, 40), ascii=ascii)
        names = {f"kernel_{i}_end" for i in range(12)}
        assert set(texts(picture, "label")) <= names - {"kernel_3_end"}
        assert texts(picture, "label-selected") in ([], ["kernel_3_end"])
        # The same ends without lines, heads and names stand in the same cells.
        ends = tuple(
            half
            for each in arrows
            if each.before and each.after
            for half in (
                replace(each, after=None, before=replace(each.before, name="")),
                replace(each, before=None, after=replace(each.after, name="")),
            )
        )
        bare = draw(Chart(ROOFS, (), arrows=ends), picture.width, picture.height, ascii=ascii)
        for role in ("mark-before", "mark-after", "mark-before-selected", "mark-after-selected"):
            assert cells_of(picture, role) == cells_of(bare, role)


@pytest.mark.parametrize("seed", range(6))
def test_hostile_arrows_in_any_size_fill_their_rows_exactly(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        chart, ends = random_chart(rng), [None, *random_chart(rng).points]
        arrows = [Arrow(rng.choice(ends), rng.choice(ends), rng.random() < 0.2) for _ in range(rng.choice((1, 3, 30)))]
        width, height, ascii = rng.randint(0, 200), rng.randint(0, 60), rng.random() < 0.5
        picture = draw(replace(chart, arrows=tuple(arrows)), width, height, ascii=ascii)
        assert [cell_len(line) for line in picture.lines()] == [width] * height
        assert picture.text().isascii() or not ascii


def test_the_legend_shows_the_marks_with_the_words_given() -> None:
    assert "".join(text for text, _ in legend("前", "後")) == "○ 前 → ● 後"
    assert "".join(text for text, _ in legend("before", "after", ascii=True)) == "o before > @ after"
