"""What stands on the screen while a file is opened."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputui.errors import GputuiError
from gputui.formats import nsys_sqlite, open_report
from gputui.paint.grid import width_of
from gputui.terminal import safe
from gputui.views import app as application
from gputui.views.app import GputuiApp
from gputui.views.library import ExplainedTimeline, LoadedReport
from gputui.views.messages import KernelsSummed, LoadProgressed
from gputui.views.screens.loading import LoadingScreen

from .conftest import Start, settle
from .fakes import make_report
from .test_timeline_app import timeline_report

NAMES = ("void gemm<float>(float *)", "void gemm<double>(double *)", "softmax", "[/bold]\x1b[31mevil\n" + "x" * 5000)
TOTALS = (6000, 2500, 1000, 500)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Four kernels with ten launches each; their totals sum to 10 µs."""
    path = tmp_path / "run.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, demangledName INT)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(NAMES, 1))
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)",
            [
                (1000 * launch, 1000 * launch + total // 10, id)
                for id, total in enumerate(TOTALS, 1)
                for launch in range(10)
            ],
        )
    connection.close()
    return path


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Holds up the opening of files, but not that their kernels are summed, until it is set or the user stops it."""
    gate = threading.Event()

    def held(path: Path, progress: Callable[[int, int], bool]) -> Any:
        while not gate.wait(0.01):
            if not progress(300, 1000):
                raise GputuiError(str(path), "was stopped")
        return open_report(path, progress)

    monkeypatch.setattr("gputui.formats.open_report", held)
    monkeypatch.setattr(application, "_LEAST_SUMMED_BYTES", 0)
    yield gate
    gate.set()


async def loading(app: GputuiApp, text: str) -> list[str]:
    """The lines of the loading screen once this text is on it."""
    for _ in range(200):
        lines = [strip.text for strip in app.screen._compositor.render_strips()]
        if isinstance(app.screen, LoadingScreen) and any(text in line for line in lines):
            return lines
        await asyncio.sleep(0.02)
    raise AssertionError("\n".join(lines))


async def test_it_tells_the_file_how_far_and_how_to_stop(start: Start, export: Path, gate: threading.Event) -> None:
    async with start(export, wait=False) as (app, _):
        text = "\n".join(await loading(app, "300 / 1,000"))
        assert f"{app.words.ui('opening')} run.sqlite" in text
        assert f"esc {app.words.ui('footer.stop')}" in text
        assert "█" in text


async def test_the_kernels_are_there_before_the_file_is_open(start: Start, export: Path, gate: threading.Event) -> None:
    async with start(export, wait=False) as (app, pilot):
        lines = await loading(app, "softmax")
        assert app.library.reports == []
        assert any(app.words.ui("header.launches", kernels=4, launches=40) in line for line in lines)
        rows = [line.strip("│ ").split() for line in lines if "×10" in line]
        assert [row[0] for row in rows] == ["60", "25", "10", "5"]
        assert [row[row.index("×10") - 2 : row.index("×10")] for row in rows] == [
            ["6", "µs"], ["2.5", "µs"], ["1", "µs"], ["500", "ns"],
        ]  # fmt: skip
        assert [row[row.index("×10") + 1 :] for row in rows[:3]] == [["gemm", "float"], ["gemm", "double"], ["softmax"]]
        gate.set()
        await settle(app, pilot)
        assert [entry.title for entry in app.library.entries[:3]] == ["gemm", "gemm", "softmax"]
        assert not isinstance(app.screen, LoadingScreen)


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 50)])
@pytest.mark.parametrize("options", [{}, {"ascii": True}, {"language": "ja"}])
async def test_no_name_leaves_its_line(
    start: Start, export: Path, gate: threading.Event, size: tuple[int, int], options: dict[str, Any]
) -> None:
    async with start(export, wait=False, size=size, **options) as (app, _):
        lines = await loading(app, "gemm")
        assert len(lines) == size[1]
        for line in lines:
            assert width_of(line) == size[0]
            assert safe(line) == line
            assert line.isascii() or not options.get("ascii")


async def test_as_many_kernels_as_there_is_room_for(start: Start, export: Path, gate: threading.Event) -> None:
    async with start(export, wait=False, size=(100, 40)) as (app, pilot):
        assert sum("×10" in line for line in await loading(app, "softmax")) == len(NAMES)
        await pilot.resize_terminal(100, 13)
        await pilot.pause(0.1)
        lines = await loading(app, "gemm")
        assert 0 < sum("×10" in line for line in lines) < len(NAMES)
        assert app.screen.query_one("#loading-kernels").max_scroll_y == 0


async def test_a_small_file_is_not_summed(
    start: Start, export: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_LEAST_SUMMED_BYTES", 1_000_000)
    monkeypatch.setattr(nsys_sqlite, "kernel_sums", lambda *_: pytest.fail("it was summed"))
    async with start(export, wait=False) as (app, pilot):
        await loading(app, "300 / 1,000")
        gate.set()
        await settle(app, pilot)
        assert len(app.library.entries) == len(NAMES)


async def test_a_file_that_cannot_be_summed_is_told_once(start: Start, tmp_path: Path, gate: threading.Event) -> None:
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"SQLite format 3\0 and no more")
    gate.set()
    async with start(bad, make_report()) as (app, _):
        assert [Path(error.title).name for error in app.library.failures] == ["bad.sqlite"]
        assert len(app.library.reports) == 1


async def test_summing_can_be_stopped(
    start: Start, export: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    summing = threading.Event()

    def endless(path: Path, progress: Callable[[int, int], bool]) -> tuple[nsys_sqlite.KernelSum, ...]:
        while progress(1, 2):
            summing.set()
            threading.Event().wait(0.01)
        return (nsys_sqlite.KernelSum("half", "", 1, 1, 1, 1),)

    monkeypatch.setattr(nsys_sqlite, "kernel_sums", endless)
    async with start(export, wait=False) as (app, pilot):
        assert await asyncio.to_thread(summing.wait, 5)
        await loading(app, "1 / 2")
        await pilot.press("escape")
        await settle(app, pilot)
        assert app.was_stopped
        assert app.library.reports == []


async def test_of_a_burst_the_newest_is_shown() -> None:
    from gputui.views.library import summed

    kernels = summed("a.sqlite", [nsys_sqlite.KernelSum("f", "", 1, 0, 0, 0)])
    assert kernels.longest[0].share is None
    message = KernelsSummed(0, kernels)
    assert KernelsSummed(0, kernels).can_replace(message)
    assert not message.can_replace(LoadProgressed(0, "a.sqlite", 0, 0))


async def test_what_was_opened_over_the_loading_screen_stays_and_loading_goes_with_it(
    start: Start, export: Path, gate: threading.Event
) -> None:
    async with start(export, wait=False) as (app, pilot):
        await loading(app, "300 / 1,000")
        await pilot.press("question_mark")
        await pilot.pause()
        help_screen = app.screen
        gate.set()
        await settle(app, pilot)
        assert app.screen is help_screen
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_a_timeline_is_used_before_it_is_explained(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    explained = threading.Event()
    explain = application.explain

    def held(loaded: LoadedReport) -> ExplainedTimeline:
        assert explained.wait(20)
        return explain(loaded)

    monkeypatch.setattr(application, "explain", held)
    try:
        async with start(timeline_report(), wait=False) as (app, pilot):
            while not app.library.entries:
                await pilot.pause()
            await pilot.press("j", "3", "plus", "1")
            assert app.main.kernels.table.cursor == 1
            assert app.library.timelines == {}
            await pilot.press("e")
            assert [one.message for one in app._notifications] == [app.words.ui("verdict_pending")]
            explained.set()
            await settle(app, pilot)
            assert list(app.library.timelines) == [0]
    finally:
        explained.set()
