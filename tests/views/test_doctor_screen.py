"""The doctor's screen: what it shows, its keys, and the message it copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App

import gputui.views
from gputui.run.doctor import Check
from gputui.views.screens.doctor import DoctorScreen
from gputui.views.themes import DARK
from gputui.wording import wording

WHO = {"driver": "580.1", "host": "gpu7", "user": "alice"}
CHECKS = (
    Check("gpu", "ok", "found", {"gpus": "NVIDIA H200"}),
    Check("counters", "problem", "restricted", WHO, ("ncu",)),
)


class Host(App[None]):
    CSS_PATH = str(Path(gputui.views.__file__).parent / "app.tcss")

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name


@pytest.mark.parametrize("ascii", [False, True])
async def test_it_shows_the_problem_its_fix_and_what_is_right(ascii: bool) -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = DoctorScreen(wording("en"), CHECKS, app.copy_to_clipboard, ascii=ascii)
        await app.push_screen(screen)
        await pilot.pause()
        lines = screen.body.plain_lines()
        assert lines[0].startswith("The timeline works here; counters do not")
        assert any(line.strip() == "sudo reboot" for line in lines)
        assert lines.index(f" {'x' if ascii else '✗'} permission to read the GPU's counters") < lines.index(
            f" {'ok' if ascii else '✓'} GPU"
        )
        assert len(lines) > 24
        await pilot.press("G")
        await pilot.pause()
        assert screen.body.scroll_offset.y > 0
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is not screen


async def test_the_message_to_the_administrator_is_copied() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(DoctorScreen(wording("en"), CHECKS, app.copy_to_clipboard, ascii=False))
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard.startswith("Hello, on gpu7 I (user alice) would like to use NVIDIA Nsight Compute.")
        await pilot.press("q")
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_nothing_to_ask_for() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(DoctorScreen(wording("ja"), CHECKS[:1], app.copy_to_clipboard, ascii=False))
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == ""
