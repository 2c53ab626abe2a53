"""Nothing holds the event loop for more than 50 ms: while large files load, and while a person uses what is there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot
from textual.worker import WorkerCancelled, WorkerFailed

from gputui.model.report import Report
from gputui.views.app import GputuiApp
from gputui.views.screens.compare import CompareScreen
from gputui.views.screens.help import HelpScreen
from gputui.views.screens.main import MainScreen
from gputui.views.widgets.kernel_list import KernelTable

from .fakes import make_report
from .loop_monitor import LoopMonitor

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KERNELS = 100_000
RUNS = 3
"""What blocks does so in each of them; what the machine does, in one."""
LARGEST = (
    "AshunFeiyu__Cuda_Gemm_Practice__gemm_v9.ncu-rep",
    "AlpriElse__cs599k__2025-04-21-v1.ncu-rep",
)
"""By size, and by the lines of its source."""
Steps = Sequence[tuple[str, Sequence[str]]]
KEYS: Steps = (
    ("down", ["j"] * 15),
    ("ends", ["G", "g", "pagedown"]),
    ("filter", ["f", "g", "e", "enter"]),
    ("clear filter", ["escape"]),
    ("search", ["slash", "e", "l", "enter", "n", "escape"]),
    ("sort", ["s", "s", "S", "S"]),
    ("roofline", ["2"]),
    ("timeline", ["3"]),
    ("zoom", ["plus"] * 4),
    ("pan", ["l"] * 3 + ["h"]),
    ("events", ["right_curly_bracket", "full_stop", "0"]),
    ("metrics", ["4"]),
    ("metrics down", ["j"] * 5),
    ("source", ["5"]),
    ("source down", ["G", "g", "enter"]),
    ("diagnosis", ["1", "enter", "shift+tab"]),
    ("theme", ["t"]),
)


@pytest.fixture(autouse=True)
def painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual leaves out the painting for a driver that is headless; this one paints, and throws it away."""
    monkeypatch.setattr(HeadlessDriver, "is_headless", False)


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loop") / "timeline.sqlite"
    program = str(BENCHMARKS / "generate_timeline.py")
    subprocess.run([sys.executable, program, "-n", str(KERNELS), str(path)], check=True, capture_output=True)
    return path


async def done(app: GputuiApp, pilot: Pilot[int]) -> None:
    """Wait for the workers and for what they bring."""
    for _ in range(2):
        with suppress(WorkerFailed, WorkerCancelled):
            await app.workers.wait_for_complete()
        await pilot.pause()


async def blocks_of(
    sources: Sequence[Path | Report],
    steps: Steps,
    more: Callable[[GputuiApp, Pilot[int]], Awaitable[None]] | None = None,
) -> dict[str, str]:
    """What held the loop for too long, by what was done meanwhile."""
    found: dict[str, str] = {}
    app = GputuiApp(sources)
    with LoopMonitor().watch() as monitor:

        def note(what: str) -> None:
            if monitor.blocks:
                found[what] = str(monitor.longest)
            monitor.forget()

        async with app.run_test(size=(120, 40)) as pilot:
            note("start")
            await done(app, pilot)
            note("load")
            assert app.library.entries
            for what, keys in steps:
                await pilot.press(*keys)
                await done(app, pilot)
                note(what)
            if more is not None:
                await more(app, pilot)
                note("compare")
            await pilot.resize_terminal(80, 24)
            await pilot.resize_terminal(200, 50)
            await pilot.pause()
            note("resize")
            await pilot.press("question_mark")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            await pilot.press("escape", "ctrl+p")
            await pilot.pause()
            note("help and palette")
    return found


async def expect_still(
    sources: Sequence[Path | Report],
    steps: Steps,
    more: Callable[[GputuiApp, Pilot[int]], Awaitable[None]] | None = None,
) -> None:
    blocked = await blocks_of(sources, steps, more)
    for _ in range(RUNS - 1):
        if not blocked:
            return
        again = await blocks_of(sources, steps, more)
        blocked = {what: told for what, told in again.items() if what in blocked}
    assert not blocked, "\n".join(f"{what}: {told}" for what, told in blocked.items())


async def test_a_large_timeline(timeline: Path) -> None:
    await expect_still([timeline], KEYS)


async def test_the_largest_reports_and_comparing_them(reports: Path) -> None:
    async def compare(app: GputuiApp, pilot: Pilot[int]) -> None:
        app.library.base = app.library.entries[0]
        app.main.go_to(app.library.entries[-1])
        await pilot.press("c")
        await done(app, pilot)
        assert isinstance(app.screen, CompareScreen)
        await pilot.press("j", "2", "3", "escape")
        await done(app, pilot)
        assert isinstance(app.screen, MainScreen)

    await expect_still([reports / "ncu" / name for name in LARGEST], KEYS, compare)


# ------------------------------------------------------------------ what the monitor finds


def busy() -> None:
    """A block of 100 ms that computes."""
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass


def asleep() -> None:
    """A block of 100 ms that waits."""
    time.sleep(0.1)


@pytest.mark.parametrize("block", [busy, asleep])
async def test_a_planted_block_fails(monkeypatch: pytest.MonkeyPatch, block: Callable[[], None]) -> None:
    rows = KernelTable.rows

    def slow(self: KernelTable) -> object:
        block()
        return rows(self)

    monkeypatch.setattr(KernelTable, "rows", slow)
    monkeypatch.setattr(f"{__name__}.RUNS", 1)
    with pytest.raises(AssertionError, match=rf"sort: .*\n.* < test_event_loop.py:\d+ {block.__name__}"):
        await expect_still([make_report()], [("sort", ["s"])])


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """More programs than processors."""
    program = [sys.executable, "-c", "import time\nend = time.time() + 9\nwhile time.time() < end: pass"]
    others = [subprocess.Popen(program) for _ in range(6)]
    yield
    for other in others:
        other.kill()
        other.wait()


async def test_what_others_do_is_no_block(busy_machine: None) -> None:
    """Neither other programs nor a thread that keeps Python's lock to itself."""
    holder = threading.Thread(target=lambda: sum(range(12_000_000)))
    with LoopMonitor().watch() as monitor:
        holder.start()
        for _ in range(40):
            end = time.thread_time() + 0.003
            while time.thread_time() < end:
                pass
            await asyncio.sleep(0)
    holder.join()
    assert not monitor.blocks, monitor.longest
