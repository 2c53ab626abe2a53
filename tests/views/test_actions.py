"""One table of keys: bindings, footer, help, palette and words say the same."""

from __future__ import annotations

import pytest
from textual.binding import Binding

from gputui.views import actions
from gputui.views.app import GputuiApp
from gputui.views.screens.compare import CompareScreen
from gputui.views.screens.help import HelpScreen
from gputui.views.screens.main import MainScreen
from gputui.views.screens.run import RunScreen
from gputui.views.widgets.diagnosis import DiagnosisView
from gputui.views.widgets.editor import CommandEditor
from gputui.views.widgets.line_table import LineTable
from gputui.views.widgets.nvtx_tree import RangeTree
from gputui.views.widgets.output import OutputPane
from gputui.views.widgets.prompt import Prompt
from gputui.views.widgets.run_page import RunPage
from gputui.views.widgets.timeline import TimelineView
from gputui.views.widgets.timeline_diagnosis import TimelineDiagnosisView
from gputui.wording import LANGUAGES, wording

from .conftest import Start
from .fakes import make_report

HOMES = {
    "app": (GputuiApp,), "main": (MainScreen,), "run": (RunScreen,), "compare": (CompareScreen,),
    "pane": (LineTable, DiagnosisView, TimelineView, RunPage, OutputPane),
    "place": (TimelineDiagnosisView, RangeTree), "timeline": (TimelineView,), "prompt": (Prompt, CommandEditor),
}  # fmt: skip


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_each_action_can_be_run_where_it_is_bound(action: actions.Action) -> None:
    name = action.call.split("(")[0]
    for home in HOMES[action.scope]:
        assert callable(getattr(home, f"action_{name}"))
        keys = {key for binding in home.BINDINGS if isinstance(binding, Binding) for key in binding.key.split(",")}
        assert set(action.keys) <= keys


def test_no_key_means_two_things_in_one_place() -> None:
    for scope in ("pane", "prompt"):
        keys = [key for action in actions.ACTIONS if action.scope in (scope, "main", "app") for key in action.keys]
        if scope == "pane":
            assert len(keys) == len(set(keys))
    own = [key for action in actions.ACTIONS if action.scope in ("pane", "timeline") for key in action.keys]
    others = {key for action in actions.ACTIONS if action.scope in ("main", "app") for key in action.keys}
    assert len(own) == len(set(own))
    for screen in ("run", "compare"):
        keys = [key for action in actions.ACTIONS if action.scope in ("pane", screen, "app") for key in action.keys]
        assert len(keys) == len(set(keys))
    # Where it selects and takes back, the timeline comes before the screen.
    assert set(own) & others == {"enter", "space", "escape"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_action_has_its_words(language: str) -> None:
    words = wording(language)
    for action in actions.ACTIONS:
        assert words.ui(f"action.{action.id}")
        assert words.ui(f"footer.{action.id}")


def test_languages_have_the_same_keys() -> None:
    def keys(table: object, path: str = "") -> set[str]:
        if not isinstance(table, dict):
            return {path}
        return {key for name, value in table.items() for key in keys(value, f"{path}.{name}")}

    english, japanese = (wording(language)._table for language in ("en", "ja"))
    for part in ("ui", "glossary"):
        assert keys(english[part]) == keys(japanese[part])


async def test_help_lists_every_key_and_the_glossary(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        page = "\n".join(app.screen.body.plain_lines())
        for action in actions.ACTIONS:
            if action.keys:
                assert f" {action.key_text()} " in page
        for row in app.words.glossary().values():
            assert row["term"] in page
        await pilot.press("escape")
        assert app.screen is app.main


async def test_help_is_about_what_has_the_focus(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("4", "f1")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert app.screen.body.plain_lines()[0] == app.words.ui("help.metrics.title")


async def test_footer_always_tells_help_and_quit(start: Start) -> None:
    async with start(make_report(), size=(60, 15)) as (app, pilot):
        for key in ("1", "tab", "2", "4", "3"):
            await pilot.press(key)
            shown = [action.id for action in app.main.footer.shown_actions(60)]
            assert shown[-2:] == ["help", "quit"]
            assert len(shown) > 2


async def test_palette_runs_what_the_table_says(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"roofline")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await pilot.pause(0.2)
        if app.screen is not app.main:
            await pilot.press("enter")
            await pilot.pause(0.2)
        assert app.main.tab == "roofline"


async def test_all_is_drawn_again_under_a_dialog_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(GputuiApp, "action_redraw", lambda app: drawn.append(type(app.screen)))
    async with start(make_report()) as (_, pilot):
        await pilot.press("ctrl+l", "question_mark")
        await pilot.pause()
        await pilot.press("ctrl+l")
        assert drawn == [MainScreen, HelpScreen]
