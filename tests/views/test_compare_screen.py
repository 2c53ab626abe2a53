"""The screen that compares: what is compared with what, the answers, and pairs made by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gputui.run.folder import RunFolder
from gputui.run.plan import Request
from gputui.views import actions
from gputui.views.app import GputuiApp
from gputui.views.screens.compare import CompareScreen
from gputui.views.screens.help import HelpScreen
from gputui.wording import wording

from .conftest import Start, settle
from .fakes import make_report

SAMPLES = Path(__file__).parents[2] / "sample_reports"
EAGER, SDPA = SAMPLES / "attention_eager.ncu-rep", SAMPLES / "attention_sdpa.ncu-rep"


def compared(app: GputuiApp) -> CompareScreen:
    assert isinstance(app.screen, CompareScreen)
    return app.screen


def text_of(app: GputuiApp) -> str:
    """What stands on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def pairs(screen: CompareScreen) -> list[tuple[int, int, str]]:
    """Per group its kernels before, its kernels after, and what became of them."""
    shown = screen.comparing.shown
    assert shown is not None
    return [(len(one.base), len(one.new), one.how) for one in shown.comparison.groups]


async def test_two_reports_are_compared_and_swapped(start: Start) -> None:
    async with start(EAGER, SDPA) as (app, pilot):
        await pilot.press("c")
        await settle(app, pilot)
        # The times and bytes are the sums over the launches that ncu --page raw --csv lists.
        page = text_of(app)
        assert "Faster: 2.05 ms → 1.04 ms" in page
        assert "✓ Tensor cores used more" in page
        assert "3.89 GB → 720 MB" in page
        assert "14 kernels → 10" in page
        assert pairs(compared(app))[0] == (5, 1, "fused")
        await pilot.press("2")
        assert "○ before → ● after" in text_of(app)
        await pilot.press("3")
        assert "cunn_SoftMaxForwardReg" in text_of(app)
        await pilot.press("x")
        await settle(app, pilot)
        page = text_of(app)
        assert "Slower: 1.04 ms → 2.05 ms" in page
        assert "✗ Tensor cores used less" in page
        assert "720 MB → 3.89 GB" in page
        assert pairs(compared(app))[0] == (1, 5, "split")
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert app.screen.body.plain_lines()[0] == app.words.ui("help.compare.title")
        await pilot.press("escape", "escape")
        assert app.screen is app.main


async def test_kernels_are_paired_by_hand_and_kept_in_the_run_folder(start: Start, tmp_path: Path) -> None:
    runs = []
    for report in (EAGER, SDPA):
        run = RunFolder.create(tmp_path / "runs", Request(("python", "train.py"), "/data"))
        run.close()
        runs.append(shutil.copy(report, run.path / "counters.ncu-rep").parent)
    kept = runs[1] / "pairs.json"
    async with start(compared=([runs[0]], [runs[1]])) as (app, pilot):
        screen = compared(app)
        found = pairs(screen)
        await pilot.press("u")
        await settle(app, pilot)
        apart = pairs(screen)
        assert (5, 1, "fused") not in apart
        assert len(apart) == len(found) + 5
        assert len(json.loads(kept.read_text())["pairs"]) == 6
        # The longest two of them are the softmax and what replaced it.
        assert apart[:2] == [(1, 0, "gone"), (0, 1, "added")]
        await pilot.press("p", "space", "j", "space", "p")
        await settle(app, pilot)
        group = screen.group
        assert group is not None
        assert [one.kernel.name for one in (*group.base, *group.new)] == ["cunn_SoftMaxForwardReg", "flash_fwd_kernel"]
        assert group.by_hand
        await pilot.press("x")
        await settle(app, pilot)
        pairings = json.loads(kept.read_text())["pairs"]
        assert len(pairings) == 5
        assert ["SoftMax" in key["function"] for key in pairings[0]["base"]] == [True]
        await pilot.press("U", "x")
        await settle(app, pilot)
        assert pairs(screen) == found
        assert json.loads(kept.read_text())["pairs"] == []


async def test_two_kernels_of_one_report(start: Start) -> None:
    async with start(make_report(), size=(60, 15), ascii=True) as (app, pilot):
        words = app.words
        await pilot.press("c")
        assert app.screen is app.main
        await pilot.press("m")
        assert f" {words.ui('compare.base')} copy_a" in text_of(app)
        await pilot.press("c")
        assert app.screen is app.main
        await pilot.press("j", "c")
        await settle(app, pilot)
        screen = compared(app)
        assert pairs(screen) == [(1, 1, "replaced")]
        page = text_of(app)
        assert page.isascii()
        assert "copy_a -> gemm_b" in page
        assert len(page.splitlines()) <= 15
        shown = [action.id for action in screen.footer.shown_actions(60)]
        assert shown[-2:] == ["help", "quit"]
        for size, has_room in (((50, 10), False), ((60, 15), True)):
            await pilot.resize_terminal(*size)
            await settle(app, pilot)
            assert (screen.answers.display, screen.body.display) == (has_room, has_room)
            assert screen.too_small.display != has_room
        await pilot.press("escape", "k", "m")
        assert words.ui("compare.base") not in text_of(app).split("copy_a")[0]


async def test_of_three_reports_the_base_must_be_marked(start: Start) -> None:
    reports = [make_report(path=f"/somewhere/{name}.ncu-rep") for name in "abc"]
    async with start(*reports) as (app, pilot):
        await pilot.press("c")
        assert app.screen is app.main
        await pilot.press("m", "G", "c")
        await settle(app, pilot)
        comparing = compared(app).comparing
        assert (comparing.base.reports, comparing.new.reports) == ((0,), (2,))
        assert "a.ncu-rep → c.ncu-rep" in text_of(app).splitlines()[0]


async def test_verdicts_are_waited_for(start: Start) -> None:
    reports = [make_report(path=f"/somewhere/{name}.ncu-rep") for name in "ab"]
    async with start(*reports) as (app, pilot):
        app.diagnoses.clear()
        with app._reading:
            await pilot.press("c")
            await pilot.pause()
            assert app.words.ui("compare.waiting") in text_of(app)
            assert "0 / 6" in text_of(app)
            await pilot.press("ctrl+x")
            assert app.screen is app.main
            await pilot.press("c")
        await settle(app, pilot)
        assert [how for _, _, how in pairs(compared(app))] == ["same", "same", "same"]
        assert app.words.text("compare.how.same") in text_of(app)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_page_has_its_words(language: str) -> None:
    words = wording(language)
    for pane in actions.COMPARES:
        assert words.ui(f"help.{pane}.title")
        assert words.ui(f"help.{pane}.text")
