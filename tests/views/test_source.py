"""The Source page: hottest lines first, one line opened, the way there from a finding, hostile text."""

from __future__ import annotations

import threading

import pytest

from gputui.model.report import Report
from gputui.model.source import Instruction, SourceLine, SourceListing
from gputui.paint.grid import width_of
from gputui.views.app import GputuiApp
from gputui.views.widgets.source import SourceView

from .conftest import Start, settle
from .fakes import MEMORY_BOUND, FakeSource, make_report
from .test_app import HOSTILE, page, screen_text

CODE = {
    1: "__global__ void f(float* x) {",
    2: "    float a = x[32 * threadIdx.x];",
    3: "    x[0] = a * 2.0f;",
    4: "}",
}
LISTING = SourceListing(
    (
        Instruction(0, "MOV R1, c[0x0][0x28]", "dir/f.cu", 1, samples=1, executed=10, threads=320),
        Instruction(
            16, "LDG.E R2, [R4.64]", "dir/f.cu", 2, samples=9, stalls={"lg_throttle": 9.0}, executed=10, threads=320,
            global_sectors=320, global_ideal=40,
        ),
        Instruction(
            32, "FMUL R3, R2, 2", "dir/f.cu", 3, samples=80, stalls={"long_scoreboard": 72.0, "selected": 8.0},
            executed=10, threads=320,
        ),
        Instruction(48, "STG.E [R4.64], R3", "dir/f.cu", 3, samples=8, executed=10, threads=320),
        Instruction(64, "EXIT", "dir/f.cu", 4, samples=2, stalls={"tomorrows_reason": 2.0}, executed=10, threads=320),
    ),
    frozenset({"samples", "stalls", "executed", "threads", "global_sectors", "global_ideal"}),
    {("dir/f.cu", number): SourceLine("dir/f.cu", number, text) for number, text in CODE.items()},
)  # fmt: skip
"""88 of 100 samples on line 3, 9 on line 2, whose load moves 8 times what it needs."""

SCATTERED = {
    **MEMORY_BOUND,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": (1e6, "sector"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": (1e4, "sector"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": (3e4, ""),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": (3e3, ""),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": (4.0, "byte/sector"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.max_rate": (32.0, "byte/sector"),
}


def report_of(listing: SourceListing | None = LISTING) -> Report:
    report = make_report(metrics=SCATTERED)
    assert isinstance(report.source, FakeSource)
    report.source.listing = listing
    return report


def view(app: GputuiApp) -> SourceView:
    return app.main.source


def rows(app: GputuiApp) -> list[str]:
    """The table as it is painted, its head first."""
    table = view(app).table
    return [table.render_line(y).text.rstrip() for y in range(len(table.rows) + 1)]


def words(app: GputuiApp) -> str:
    return "\n".join(view(app).words_view.plain_lines())


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15), (200, 50)])
async def test_the_hottest_line_comes_first(start: Start, size: tuple[int, int]) -> None:
    async with start(report_of(), size=size) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        lines = rows(app)
        assert [line.split()[-3:] and line.split("%")[0].split()[-1] for line in lines[1:]] == ["88", "9", "2", "1"]
        assert "x[0]" in lines[1]
        if size[0] >= 80:
            assert "waits for memory" in lines[1]
            assert "scattered access" in lines[2]
        assert "f.cu" in view(app).head.plain_lines()[0]
        assert "88 % of all samples" in words(app)
        assert all(width_of(line) == size[0] for line in screen_text(app))


async def test_a_line_opens_into_its_instructions_and_closes(start: Start) -> None:
    async with start(report_of()) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        await pilot.press("enter")
        opened = rows(app)[1:]
        assert [line.split()[-1] == "memory" or "STG" in line for line in opened] == [True, True]
        assert "FMUL R3, R2, 2" in opened[0]
        # The code around it, and the load that it waits for.
        assert "float a = x[32 * threadIdx.x];" in words(app)
        assert "SASS 2 (f.cu:2): LDG.E R2, [R4.64]" in words(app)
        await pilot.press("j")
        assert "SASS 4" in words(app)
        await pilot.press("escape")
        assert len(rows(app)) == 5
        await pilot.press("space")
        assert len(rows(app)) == 3
        await pilot.press("enter")
        assert len(rows(app)) == 5


async def test_order_search_and_filter(start: Start) -> None:
    async with start(report_of()) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        await pilot.press("s")
        assert [int(row) for row in view(app).table.rows] == [3, 1, 0, 2]  # lines 1 to 4
        assert "program order" in view(app).head.plain_lines()[0]
        await pilot.press("slash", *"EXIT", "enter")
        assert view(app).table.row == 2
        await pilot.press("escape", "f", *"threadidx", "enter")
        await pilot.pause()
        assert [int(row) for row in view(app).table.rows] == [1]
        assert "filter: threadidx (1)" in view(app).head.plain_lines()[0]
        await pilot.press("escape", "slash", *"f.cu", "enter", "n")
        assert view(app).table.row == 0
        await pilot.press("N", "N")
        assert view(app).table.row == 3


async def test_a_finding_shows_its_line_and_leads_there(start: Start) -> None:
    async with start(report_of()) as (app, pilot):
        await settle(app, pilot)
        assert "f.cu:2  float a = x[32 * threadIdx.x];" in page(app)
        assert "100 % of the sectors that are too many" in page(app)
        await pilot.press("w")
        await settle(app, pilot)
        assert app.main.tab == "source"
        assert "scattered loads: 100 % of the sectors" in view(app).head.plain_lines()[1]
        row = view(app).table.row
        assert row is not None
        assert view(app).data.lines[row].line == 2
        assert "320 sectors of 32 bytes where 40 would do (8.0×)" in " ".join(words(app).split())
        await pilot.press("j")
        await pilot.pause()
        assert len(view(app).head.plain_lines()) == 1


async def test_the_tab_is_dim_where_there_is_nothing(start: Start) -> None:
    async with start(report_of(None)) as (app, pilot):
        assert [tab.id for tab in app.main.tabs.tabs if not tab.has_data] == ["timeline", "source"]
        await pilot.press("w")
        await settle(app, pilot)
        assert "-lineinfo" in " ".join(view(app).head.plain_lines())
        await pilot.press("enter", "s", "slash", "x", "enter", "n", "escape", "1")
    async with start(report_of()) as (app, pilot):
        await settle(app, pilot)
        assert [tab.id for tab in app.main.tabs.tabs if not tab.has_data] == ["timeline"]


async def test_lines_are_read_once_by_a_worker_and_when_the_cursor_rests(start: Start) -> None:
    report = report_of()
    gate, asked, threads = threading.Event(), [], set()

    def slow(index: int) -> SourceListing:
        asked.append(index)
        threads.add(threading.get_ident())
        assert gate.wait(20)
        return LISTING

    report.source.source = slow  # type: ignore[method-assign]
    async with start(report, wait=False) as (app, pilot):
        await pilot.pause(0.5)
        await pilot.press("5")
        await pilot.pause(0.1)
        assert "Reading the instructions" in " ".join(view(app).head.plain_lines())
        gate.set()
        await settle(app, pilot)
        assert "x[0]" in rows(app)[1]
        await pilot.press("1", "5")
        await settle(app, pilot)
    assert asked == [0]
    assert threading.get_ident() not in threads


async def test_the_language_changes_and_the_order_stays(start: Start) -> None:
    async with start(report_of()) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        await pilot.press("s")
        await app.run_action("next_language")
        await settle(app, pilot)
        assert app.main.tab == "source"
        assert "プログラム順" in " ".join(view(app).head.plain_lines())
        assert "メモリ待ち" in "\n".join(rows(app))


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_hostile_code_and_file_names(start: Start, size: tuple[int, int], ascii: bool) -> None:
    evil = [*HOSTILE, "tab\tnul\0 bel\x07 \x9b31m \x1b]52;c;QUJD\x07", "Z" + "\u0300" * 300]
    instructions, lines = [], {}
    for number, text in enumerate(evil, 1):
        file = f"dir/{text}"
        stalls = {text or "none": 5.0}
        instructions.append(Instruction(16 * number, text, file, number, samples=10.0 + number, stalls=stalls))
        lines[file, number] = SourceLine(file, number, text)
    instructions.append(Instruction(999, evil[1], samples=3.0))
    listing = SourceListing(tuple(instructions), frozenset({"samples", "stalls"}), lines)
    async with start(report_of(listing), size=size, ascii=ascii) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        for key in ["j", "enter", "enter"] * len(instructions):
            await pilot.press(key)
            shown = screen_text(app)
            assert all(char.isprintable() for line in shown for char in line)
            assert all(width_of(line) == app.size.width for line in shown)
            if ascii:
                assert all(line.isascii() for line in shown)


async def test_machine_code_alone_says_what_is_missing(start: Start) -> None:
    bare = tuple(Instruction(one.address, one.sass, samples=one.samples, stalls=one.stalls)
                 for one in LISTING.instructions)  # fmt: skip
    async with start(report_of(SourceListing(bare, LISTING.measured))) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        assert "-lineinfo" in " ".join(view(app).head.plain_lines())
        assert "FMUL R3, R2, 2" in rows(app)[1]
        # An opened instruction stands among its neighbours.
        await pilot.press("enter")
        assert len(rows(app)) == 6
        assert view(app).table.row == 2
        assert ">" not in rows(app)[1][:1]


async def test_text_that_was_not_imported(start: Start) -> None:
    listing = SourceListing(LISTING.instructions, LISTING.measured, {}, ("dir/f.cu",))
    async with start(report_of(listing)) as (app, pilot):
        await pilot.press("5")
        await settle(app, pilot)
        head = " ".join(" ".join(view(app).head.plain_lines()).split())
        assert "f.cu is not in the report" in head
        assert "--import-source yes" in head
        assert "FMUL R3, R2, 2" in rows(app)[1]
