"""The painted timeline against counting every nanosecond of every event by hand."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from rich.cells import cell_len

from built_timeline import Built, random_built
from gputui.analysis.lanes import Lane, Lit, lane_of, lanes
from gputui.analysis.timeline import TimelineFacts
from gputui.model.timeline import CopyKind, RangeKind, Stream
from gputui.paint.grid import Picture, clusters
from gputui.paint.timeline import NAMES, ROLES, Layout, Overlay, Viewport, layout, paint

BLOCKS = " ▁▂▃▄▅▆▇█"
EXTRA = ("api", "os", "counters")


def cells(picture: Picture, row: int) -> list[tuple[str, str]]:
    """Glyph and role of each cell; the second half of a wide character is empty."""
    found = []
    for text, role in picture.rows[row]:
        for piece, size in clusters(text):
            found += [(piece, role), ("", role)][:size]
    return found


def row_of(plan: Layout, found: list[Lane], kind: str, level: int = 0) -> int:
    """The lowest row of the first lane of this kind."""
    slot = next(one for one in plan.slots if (found[one.lane].kind, found[one.lane].level) == (kind, level))
    return slot.row + slot.height - 1


def expected(covered: int, width: int, steps: int = 8) -> int:
    """To the nearest step, halves up; nothing and all only where that is so."""
    if covered == 0:
        return 0
    if covered == width:
        return steps
    near = int(Fraction(covered * steps, width) + Fraction(1, 2))
    return min(max(near, 1), steps - 1)


# ------------------------------------------------------------------ exactness


@pytest.mark.parametrize("seed", range(12))
def test_every_cell_shows_what_is_covered_at_every_zoom(seed: int) -> None:
    facts = random_built(seed, span=6000).facts()
    found = lanes(facts, extra=EXTRA)
    source = random.Random(seed)
    for _ in range(8):
        width = source.choice([60, 80, 120, 160])
        span = source.choice([50, 200, 700, 3000, 6500])
        start = source.randrange(-100, 6000)
        height = source.choice([12, 24, 40, 60])
        viewport = Viewport(start, start + span, width, height, first_lane=source.choice([0, 0, 3]))
        plan = layout(found, viewport)
        picture = paint(found, viewport)
        edges = plan.edges.tolist()
        assert edges[0] == start
        assert edges[-1] == start + max(span, plan.columns)
        for slot in plan.slots:
            lane = found[slot.lane]
            if lane.kind == "idle":
                continue
            each = np.zeros(edges[-1] - start, dtype=int)
            owner = [""] * len(each)
            for low, high, name in _events(facts, lane):
                for time in range(max(low - start, 0), min(high - start, len(each))):
                    each[time] = 1
                    owner[time] = name
            instants = {low for low, high, _ in _events(facts, lane) if low == high}
            rows = [cells(picture, slot.row + line) for line in range(slot.height)]
            for column in range(plan.columns):
                low, high = edges[column] - start, edges[column + 1] - start
                level = expected(int(each[low:high].sum()), high - low, 8 * slot.height)
                if level == 0 and any(edges[column] <= time < edges[column + 1] for time in instants):
                    level = 1
                here = [row[plan.left + column] for row in rows]
                if here[0][1].endswith("-bar"):
                    assert level == 8 * slot.height, "a bar is where no time is free"
                else:
                    shown = sum(BLOCKS.index(glyph) for glyph, _ in here)
                    assert shown == level
                if level and any(owner[low:high]):
                    role = here[-1][1].removeprefix("tl-").removesuffix("-bar")
                    most = max(owner[low:high].count(name) for name in lane.classes)
                    if not here[0][1].endswith("-bar"):
                        assert owner[low:high].count(role) == most


def _events(facts: TimelineFacts, lane: Lane) -> list[tuple[int, int, str]]:
    """Start, end and class of each event of a lane, the class by its own cover."""
    found = []
    for low, high in zip(lane.start.tolist(), lane.end.tolist(), strict=True):
        cover = lane.cover(np.array([low, high]))
        found.append((low, high, lane.classes[int(cover.argmax())]))
    return found


def test_all_is_not_nearly_all_and_little_is_not_nothing() -> None:
    built = Built()
    built.kernel(0, 1000)
    built.kernel(1000, 1999, "softmax")
    built.kernel(3999, 4000)
    found = lanes(built.facts())
    viewport = Viewport(0, 9000, 14, 5)
    plan = layout(found, viewport)
    assert (plan.left, plan.columns) == (5, 9)
    row = cells(paint(found, viewport), row_of(plan, found, "stream"))[5:]
    assert [glyph for glyph, _ in row] == ["█", "▇", " ", "▁", " ", " ", " ", " ", " "]
    assert [role for _, role in row[:4]] == ["tl-gemm", "tl-attention", "", "tl-gemm"]


def test_no_lane_shows_more_than_all_of_the_time() -> None:
    built = Built(streams=[Stream(0, 0, one) for one in range(3)])
    for stream in range(3):
        built.kernel(0, 1000, stream=stream)
        built.kernel(10, 990, stream=stream)
    text = paint(lanes(built.facts()), Viewport(0, 1000, 120, 20)).text()
    shares = [int(word[:-2]) for word in text.replace(" %", "_%").split() if word.endswith("_%")]
    assert max(shares) == 100


# ------------------------------------------------------------------ bars


def test_long_events_are_bars_with_their_names() -> None:
    built = Built()
    built.range(0, 1000, "step 1")
    built.range(1000, 2000, "step 2")
    built.kernel(0, 500, "void ns::flash_fwd_kernel<int>(int)")
    built.kernel(500, 1700, "ampere_sgemm_128x64_nn")
    built.kernel(1700, 1800, "softmax")
    found = lanes(built.facts())
    viewport = Viewport(0, 2000, 49, 9)
    plan = layout(found, viewport)
    assert plan.columns == 40
    lines = paint(found, viewport).lines()
    assert lines[row_of(plan, found, "nvtx")] == "nvtx     ▏step 1             ▏step 2             "
    # The stream is three rows high; names are in the middle one.
    last = row_of(plan, found, "stream")
    assert lines[last - 1] == "stream 7  flash_fw…▏ampere_sgemm_128x64_nn ██    "
    kernels = cells(paint(found, viewport), last)[plan.left :]
    assert [role for _, role in kernels] == [
        *["tl-attention-bar"] * 10, *["tl-gemm-bar"] * 24, *["tl-attention"] * 2, *[""] * 4,
    ]  # fmt: skip


def test_copies_tell_their_size() -> None:
    built = Built()
    built.copy(0, 1000, CopyKind.HOST_TO_DEVICE, size=6_291_456)
    assert "6.29 MB" in paint(lanes(built.facts()), Viewport(0, 1000, 60, 8)).text()


def test_marks_are_named_where_there_is_room() -> None:
    built = Built()
    for time, name in ((100, "epoch 1"), (600, "epoch 2"), (605, "saved")):
        built.range(time, time, name, kind=RangeKind.MARK)
    found = lanes(built.facts())
    viewport = Viewport(0, 1000, 66, 6)
    line = paint(found, viewport).lines()[2]
    assert line.startswith("marks" + " " * 7 + "▾ epoch 1")
    assert "▾ epoch 2" in line
    assert "saved" not in line
    assert paint(found, Viewport(2000, 3000, 66, 6)).lines()[2].strip() == "marks"


def test_gaps_are_told_with_their_lengths_and_the_longest_stands_out() -> None:
    built = Built()
    for start, end in ((0, 1_000_000), (5_000_000, 6_000_000), (16_000_000, 20_000_000)):
        built.kernel(start, end)
    found = lanes(built.facts())
    viewport = Viewport(0, 20_000_000, 109, 9)
    row = cells(paint(found, viewport), row_of(layout(found, viewport), found, "idle"))
    text = "".join(glyph for glyph, _ in row)
    assert "── 4 ms ──" in text
    assert "── 10 ms ──" in text
    assert {role for glyph, role in row if glyph in "─├┤" and role} == {"tl-idle-label", "tl-idle-longest"}
    longest = "".join(glyph for glyph, role in row if role == "tl-idle-longest")
    assert longest.strip("─├┤") == " 10 ms "


# ------------------------------------------------------------------ ruler


@pytest.mark.parametrize("seed", range(6))
def test_labels_of_the_ruler_are_right_and_apart(seed: int) -> None:
    source = random.Random(seed)
    factors = {"ns": 1, "µs": 1000, "ms": 10**6, "s": 10**9}
    for _ in range(60):
        span = int(10 ** source.uniform(2, 12))
        start = source.choice([0, int(10 ** source.uniform(0, 13))])
        width = source.choice([40, 80, 120, 200])
        viewport = Viewport(start, start + span, width, 4)
        picture = paint([], viewport)
        plan = layout([], viewport)
        top, axis = picture.lines()[0], picture.lines()[1]
        base = 0
        if any(role == "tl-axis-offset" for _, role in picture.rows[0]):
            number, unit = next(text for text, role in picture.rows[0] if role == "tl-axis-offset").split()
            base = round(Fraction(number) * factors[unit])
        labels = [text for text, role in picture.rows[0] if role == "tl-axis-label"]
        assert labels, (start, span, width)
        ticks = [column for column, glyph in enumerate(axis) if glyph == "┬"]
        assert len(ticks) >= len(labels)
        for label in labels:
            number, unit = label.lstrip("+").split()
            time = base + round(Fraction(number) * factors[unit])
            column = plan.column_of(time)
            assert column is not None
            assert axis[column] == "┬"
            at = top.index(label)
            assert at - 1 <= column <= at + len(label), "it stands over its tick"
            steps = Fraction(number) * factors[unit]
            assert steps.denominator == 1


def test_deep_zoom_is_told_as_an_offset() -> None:
    picture = paint([], Viewport(12_345_678, 12_347_678, 100, 4))
    assert picture.lines()[0].startswith("12.345 ms")
    assert "+1 µs" in picture.text() or "+1.0 µs" in picture.text()


# ------------------------------------------------------------------ what lies over the lanes


def busy() -> tuple[TimelineFacts, list[Lane]]:
    built = Built()
    built.range(0, 1000, "step")
    for start in range(0, 1000, 100):
        built.kernel(start, start + 40, "gemm")
        built.kernel(start + 40, start + 60, "softmax")
    facts = built.facts()
    return facts, lanes(facts)


def test_cursor_marks_and_bookmarks() -> None:
    _, found = busy()
    viewport = Viewport(0, 1000, 109, 9)
    plan = layout(found, viewport)
    overlay = Overlay(cursor_ns=505, mark_a=205, mark_b=405, bookmarks=(705, 5000))
    picture = paint(found, viewport, overlay)
    axis = cells(picture, 1)

    def at(time: int) -> int:
        column = plan.column_of(time)
        assert column is not None
        return column

    assert axis[at(505)] == ("▼", "tl-cursor-head")
    assert (axis[at(205)], axis[at(405)]) == (("a", "tl-mark-a"), ("b", "tl-mark-b"))
    assert axis[at(705)] == ("◆", "tl-bookmark")
    assert "━ 200 ns ━" in picture.lines()[1]
    assert [glyph for glyph, role in axis if role == "tl-bookmark"] == ["◆"]
    for slot in plan.slots:
        for row in range(slot.row, slot.row + slot.height):
            glyph, role = cells(picture, row)[at(505)]
            assert role.split()[-1] in ("tl-cursor", "tl-cursor-line")
            assert (glyph == "│") == (role == "tl-cursor-line")


def test_the_selection_and_the_selected_event() -> None:
    facts, found = busy()
    viewport = Viewport(0, 1000, 109, 9)
    plan = layout(found, viewport)
    lane = lane_of(found, "ops", 2)
    picture = paint(found, viewport, Overlay(selection=(300, 500), lane=lane, row=2))
    row = cells(picture, row_of(plan, found, "stream"))
    first, last = plan.column_of(300), plan.column_of(499)
    assert first is not None
    assert last is not None
    chosen = [column for column, (_, role) in enumerate(row) if "tl-selection" in role.split()]
    assert chosen == list(range(first, last + 1))
    selected = [column for column, (_, role) in enumerate(row) if "tl-selected" in role.split()]
    assert selected == [column for column in range(109) if plan.column_of(100) <= column <= plan.column_of(139)]
    assert ("stream 7", "tl-title-selected") in [(text, role) for line in picture.rows for text, role in line]
    assert facts.timeline.ops.start[2] == 100


def test_lit_events_stand_out_with_and_without_colour() -> None:
    facts, found = busy()
    lit = Lit.of_names(facts, "ops", [facts.timeline.names.index("softmax")])
    viewport = Viewport(0, 1000, 109, 9)
    plan = layout(found, viewport)
    row = cells(paint(found, viewport, Overlay(lit=lit)), row_of(plan, found, "stream"))
    for column in range(plan.columns):
        low, high = plan.edges[column].item(), plan.edges[column + 1].item()
        soft = sum(40 <= time % 100 < 60 for time in range(low, high))
        every = sum(time % 100 < 60 for time in range(low, high))
        roles = row[plan.left + column][1].split()
        assert ("tl-lit" in roles) == (soft > 0 and 2 * soft >= every)
        assert ("tl-has-lit" in roles) == (0 < 2 * soft < every)
    plain = paint(found, viewport, Overlay(lit=lit), colourless=True)
    assert "◆" in plain.lines()[row_of(plan, found, "stream")]
    assert plain.lines()[-1].startswith("◆ lit")
    ascii_lines = paint(found, viewport, Overlay(lit=lit), ascii=True, colourless=True).lines()
    assert "@" in ascii_lines[row_of(plan, found, "stream")]


def test_search_hits_are_marked() -> None:
    facts, found = busy()
    viewport = Viewport(0, 1000, 109, 9)
    picture = paint(found, viewport, Overlay(hits=Lit.of_rows(facts, "ops", [0])))
    plan = layout(found, viewport)
    row = cells(picture, row_of(plan, found, "stream"))
    marked = [column for column, (_, role) in enumerate(row) if "tl-hit" in role.split()]
    assert marked == list(range(plan.left, (plan.column_of(39) or 0) + 1))


def test_without_colour_a_letter_tells_the_class() -> None:
    built = Built()
    for start in range(0, 400, 100):
        for part, name in enumerate(("gemm", "softmax", "layer_norm", "mine")):
            for piece in range(5):
                built.kernel(start + 25 * part + 5 * piece, start + 25 * part + 5 * piece + 4, name)
    found = lanes(built.facts())
    viewport = Viewport(0, 400, 109, 5)
    line = paint(found, viewport, colourless=True).lines()[row_of(layout(found, viewport), found, "stream")]
    assert [char for char in line.removeprefix("stream 7") if char.isalpha()] == list("GANK" * 4)
    legend = paint(found, viewport, colourless=True).lines()[-1]
    assert {"G gemm", "A attention", "N norm", "K other"} <= {" ".join(word.split()[:2]) for word in legend.split("%")}


# ------------------------------------------------------------------ legend and layout


def test_the_legend_tells_the_share_of_the_gpus_time_in_view() -> None:
    built = Built()
    built.kernel(0, 600, "gemm")
    built.kernel(600, 900, "softmax")
    built.copy(900, 1000, CopyKind.DEVICE_TO_HOST)
    built.kernel(2000, 9000, "layer_norm")
    built.call(0, 10)
    found = lanes(built.facts(), extra=EXTRA)
    picture = paint(found, Viewport(0, 1000, 120, 12), names={"gemm": "行列積"})
    assert picture.lines()[-1].rstrip() == "■ 行列積 60 %  ■ attention 30 %  ■ d2h 10 %  ■ api-launch"


def test_titles_stand_once_and_hidden_levels_are_told() -> None:
    built = Built()
    for depth in range(7):
        built.range(depth, 1000 - depth, f"level {depth}", depth)
    found = lanes(built.facts(), range_depth=3)
    lines = paint(found, Viewport(0, 1000, 60, 8)).lines()
    assert [line[:5].strip() for line in lines[2:5]] == ["nvtx", "", "+4"]
    assert paint(found, Viewport(0, 1000, 60, 8, first_lane=1)).lines()[2].startswith("nvtx")
    one = lanes(built.facts(), range_depth=1)
    assert paint(one, Viewport(0, 1000, 60, 8)).lines()[2].startswith("nvtx +6 ▏level 0")


def test_room_that_is_left_makes_kernels_taller() -> None:
    facts, found = busy()
    heights = [[slot.height for slot in layout(found, Viewport(0, 1000, 100, height)).slots] for height in (6, 8, 12)]
    assert heights == [[1, 1, 1], [1, 1, 2], [1, 1, 3]]
    plan = layout(found, Viewport(0, 1000, 100, 12))
    assert [plan.lane_at(row) for row in range(2, 8)] == [0, None, 1, 2, 2, 2]
    assert facts.gpus == (0,)


def test_columns_and_times_agree() -> None:
    _, found = busy()
    plan = layout(found, Viewport(17, 1017, 100, 10))
    for column in range(plan.left, plan.left + plan.columns):
        assert plan.column_of(plan.time_at(column)) == column
    assert plan.column_of(16) is None
    assert plan.column_of(1017) is None
    assert plan.time_at(0) == 17
    assert plan.time_at(5000) == 1017


# ------------------------------------------------------------------ any size, any text


def hostile() -> list[Lane]:
    built = random_built(3)
    for place, name in enumerate(
        ("\x1b[31mred", "日本語の名前がとても長い" * 9, "[/bold]", "\u202eevil", "", "e\u0301" * 40)
    ):
        built.range(place * 600, place * 600 + 590, name, thread=1, domain="D")
        built.kernel(place * 600, place * 600 + 500, name, stream=1)
        built.range(place * 600, place * 600, name, thread=1, kind=RangeKind.MARK)
    built.kernel(0, 2**62, "forever")
    built.counter("nothing", [5], [float("nan")])
    return lanes(built.facts(), extra=EXTRA)


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("colourless", [False, True])
def test_every_picture_has_its_size_and_only_known_roles(ascii: bool, colourless: bool) -> None:
    found = hostile()
    source = random.Random(1)
    sizes = [(0, 0), (1, 1), (5, 3), (13, 2), (14, 30), (80, 24), (200, 50), (300, 4)]
    for width, height in sizes:
        for start, end in ((0, 4000), (10, 11), (3000, 100), (-(2**40), 2**61), (600, 1200), (2**62 - 5, 2**62 + 5)):
            time = source.randrange(start, max(end, start) + 2)
            overlay = Overlay(
                cursor_ns=time,
                selection=(time, time + 100),
                mark_a=time - 50,
                mark_b=time,
                bookmarks=(time,),
                lane=2,
                row=0,
            )
            viewport = Viewport(start, end, width, height, first_lane=source.choice([0, 4, 99, -3]))
            picture = paint(found, viewport, overlay, ascii=ascii, colourless=colourless)
            assert (picture.width, picture.height, len(picture.rows)) == (width, height, height)
            for row in picture.rows:
                assert cell_len("".join(text for text, _ in row)) == width
                assert {one for _, role in row for one in role.split()} <= set(ROLES)
            text = "".join(picture.lines())
            assert "\x1b" not in text
            assert "\u202e" not in text
            assert not ascii or text.isascii()


def test_every_class_has_its_word_and_roles() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for name in NAMES:
        assert {f"tl-{name}", f"tl-{name}-bar"} <= set(ROLES)
