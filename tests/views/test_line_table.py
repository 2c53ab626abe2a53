"""The table: 100,000 rows at no cost a row."""

from __future__ import annotations

import time

import numpy as np
import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from gputui.views import ordering
from gputui.views.text import Line
from gputui.views.widgets.line_table import LineTable, TableState, highlight

COUNT = 100_000


class Numbers:
    """Rows that say their number, and remember which were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def head(self, width: int) -> Line:
        return [("number", "head")]

    def row(self, row: int, state: TableState) -> Line:
        self.asked.append(row)
        return [(f"row {row}", "")]


class TableApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = Numbers()
        self.table = LineTable(self.numbers)

    def compose(self) -> ComposeResult:
        yield self.table


async def test_paints_only_what_is_seen() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        before = time.perf_counter()
        app.table.set_rows(np.arange(COUNT))
        assert time.perf_counter() - before < 0.05
        await pilot.pause()
        assert len(set(app.numbers.asked)) <= 24
        await pilot.press("G")
        await pilot.pause()
        assert app.table.row == COUNT - 1
        assert app.table.render_line(23).text.strip().endswith(f"row {COUNT - 1}")
        assert app.table.render_line(0).text.startswith("number")
        assert len(set(app.numbers.asked)) <= 48


async def test_cursor_move_repaints_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.set_rows(np.arange(COUNT))
        await pilot.pause()
        refreshed: list[Region] = []
        monkeypatch.setattr(app.table, "refresh", lambda *regions, **_: refreshed.extend(regions))
        app.table.action_cursor_down()
        assert [(region.y, region.height) for region in refreshed] == [(1, 1), (2, 1)]


async def test_keys_move_and_clamp() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.table.focus()
        app.table.set_rows(np.arange(100))
        await pilot.press("k")
        assert app.table.cursor == 0
        await pilot.press("j", "down", "pagedown")
        assert app.table.cursor == 24
        await pilot.press("g")
        assert app.table.cursor == 0
        app.table.set_rows(ordering.NO_ROWS)
        await pilot.press("j", "G")
        assert app.table.row is None


async def test_the_cursor_stays_on_its_row_when_the_order_changes() -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)):
        app.table.set_rows(np.arange(100))
        app.table.move_to(7)
        app.table.set_rows(np.arange(100)[::-1].copy())
        assert app.table.row == 7
        app.table.set_rows(np.array([1, 2, 3]))
        assert app.table.row in (1, 2, 3)


def test_sort_filter_and_group_100_000_rows() -> None:
    keys = np.random.default_rng(1).random(COUNT)
    keys[5] = np.nan
    before = time.perf_counter()
    rows = ordering.sort_items(keys, COUNT, descending=True)
    assert time.perf_counter() - before < 0.2
    assert rows[-1] == 5
    assert keys[rows[0]] == np.nanmax(keys)
    half = ordering.keep(rows, keys > 0.5)
    assert (keys[half] > 0.5).all()
    groups = np.arange(COUNT) % 7
    grouped = ordering.group_rows(rows, groups, expanded={3})
    headers = grouped[grouped < 0]
    assert sorted(ordering.group_of(int(row)) for row in headers) == list(range(7))
    at = int((grouped == ordering.header_of(3)).nonzero()[0][0])
    count = int((groups == 3).sum())
    assert (groups[grouped[at + 1 : at + 1 + count]] == 3).all()


def test_equal_keys_keep_their_order() -> None:
    rows = ordering.sort_items(np.zeros(10), 10, descending=True)
    assert rows.tolist() == list(range(10))


def test_highlight_marks_each_match() -> None:
    assert highlight("abcABC", "", "b") == [("a", ""), ("b", "match"), ("cA", ""), ("B", "match"), ("C", "")]
    assert highlight("ß", "", "ss") == [("ß", "")]
