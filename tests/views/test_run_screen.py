"""The guided run on the screen, led by a session that runs nothing."""

from __future__ import annotations

import shlex
import string
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from built_timeline import Built
from gputui.analysis.proposals import propose
from gputui.data import demo_timeline
from gputui.errors import EXIT_NO, GputuiError
from gputui.run.doctor import Check
from gputui.run.failures import Failure, failure_text
from gputui.run.folder import RunSummary
from gputui.run.plan import Request
from gputui.run.progress import Progress
from gputui.terminal import safe
from gputui.views import actions
from gputui.views.app import GputuiApp, _tell_kept
from gputui.views.guide_text import command_rows, parsed, shown_command
from gputui.views.live import Live
from gputui.views.screens.compare import CompareScreen
from gputui.views.screens.doctor import DoctorScreen
from gputui.views.screens.help import HelpScreen
from gputui.views.screens.run import RunScreen, clock_text
from gputui.views.widgets.choose_list import spoken
from gputui.wording import LANGUAGES, wording

from .conftest import settle
from .fake_session import PROGRAM, FakeSession, Step
from .fakes import make_report
from .test_timeline_app import timeline_report

NO_COUNTERS = Check("counters", "problem", "restricted", {"host": "h", "user": "me", "driver": "550"}, ("ncu",))
NO_NSYS = Check("nsys", "problem", "missing", {"host": "h", "user": "me"}, ("nsys",))
HOSTILE = (
    b"\x1b[2J\x1b]0;title\x07\x1bP+q544e\x1b\\plain\x9b31m\r\n",
    "\u202eevil\u2066\n".encode(),
    b"x" * 100_000 + b"\n",
    b"\xff\xfe\x00\x07end",
)


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    return FakeSession(tmp_path)


@asynccontextmanager
async def guided(
    session: FakeSession, *, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[tuple[GputuiApp, Pilot[int]]]:
    """The application on the run screen, the machine checked."""

    def another(request: Request) -> FakeSession:
        return FakeSession(session.base, session.steps, request, numbers=session.numbers, found=session.found)

    options.setdefault("proposer", propose)
    app = GputuiApp((), session=session, new_session=another, **options)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        yield app, pilot


def screen_of(app: GputuiApp) -> RunScreen:
    assert isinstance(app.screen, RunScreen)
    return app.screen


def text_of(app: GputuiApp) -> str:
    """All that is on the screen."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def joined(text: str) -> str:
    return " ".join(text.split())


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        await pilot.pause(0.02)
    raise AssertionError(text_of(pilot.app))  # type: ignore[arg-type]


async def press(app: GputuiApp, pilot: Pilot[int], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(app, pilot)


BUSY = Path(__file__).parents[2] / "sample_reports" / "timeline_graph.sqlite"


def no_kernels() -> Any:
    built = Built(names=[])
    built.range(0, 1000, "step", 0)
    return timeline_report(built)


# -------------------------------------------------------------------- check


async def test_the_check_shows_the_exact_command_and_runs_nothing(session: FakeSession) -> None:
    async with guided(session) as (app, _):
        shown = "".join(text_of(app).replace("\\", "").split())
        assert "".join(shlex.join(session.timeline_command().argv).split()) in shown
        assert app.words.text("guide.ready-timeline") in text_of(app)
        assert session.ran == []
        assert screen_of(app).pane == actions.RUN_CHECK


async def test_problems_come_first_with_what_one_can_do(session: FakeSession) -> None:
    session.found = (*session.found, NO_COUNTERS)
    async with guided(session) as (app, pilot):
        lines = [line.strip() for line in screen_of(app).body.plain_lines()]
        assert lines[0].startswith("The timeline works here; counters do not")
        assert next(place for place, line in enumerate(lines) if line.startswith("✗")) < lines.index(
            app.words.text("guide.ready-timeline")
        )
        await press(app, pilot, "d")
        assert isinstance(app.screen, DoctorScreen)
        await press(app, pilot, "escape")
        assert isinstance(app.screen, RunScreen)


async def test_where_nsys_is_missing_the_page_says_how_to_get_it_and_looks_again(session: FakeSession) -> None:
    session.found, tools = (NO_NSYS,), session.tools
    session.tools = type(tools)()
    async with guided(session) as (app, pilot):
        assert "module load" in text_of(app)
        footer = text_of(app).splitlines()[-1]
        assert "⏎" not in footer
        assert "edit" not in footer
        assert "r try again" in footer
        for key in ("enter", "i"):
            app.clear_notifications()
            await press(app, pilot, key)
            assert [one.message for one in app._notifications] == [app.words.text("guide.nothing_to_run")]
        assert session.ran == []
        assert not screen_of(app).editor.display
        session.found, session.tools = (), tools
        await press(app, pilot, "r")
        assert app.words.text("guide.ready-timeline") in text_of(app)


async def test_the_message_to_the_administrator_is_copied_from_the_check(session: FakeSession) -> None:
    session.found = (*session.found, NO_COUNTERS)
    async with guided(session) as (app, pilot):
        await press(app, pilot, "y")
        assert app.clipboard.startswith("Hello, on h I (user me)")
        assert len(app._notifications) == 1
        app.copy_to_clipboard("")
        await press(app, pilot, "d", "y")
        assert app.clipboard.startswith("Hello, on h I (user me)")
        assert len(app._notifications) == 2
        await press(app, pilot, "question_mark")
        assert isinstance(app.screen, RunScreen)


async def test_without_a_gpu_the_timeline_is_offered_for_what_it_tells(session: FakeSession) -> None:
    session.found = (*session.found, Check("gpu", "problem", "none", {"host": "h", "user": "me"}, ("nsys", "ncu")))
    session.steps = [Step(reports=[no_kernels()])]
    async with guided(session) as (app, pilot):
        assert app.words.text("run.text.cpu-only") in joined(text_of(app))
        assert "nothing can be profiled" not in text_of(app)
        await press(app, pilot, "enter")
        assert "There is no GPU work" in text_of(app)
        assert "✗" not in text_of(app)


async def test_an_interrupted_run_of_another_program_is_not_offered(session: FakeSession, tmp_path: Path) -> None:
    other = RunSummary(tmp_path, "interrupted", "infer", None, ("timeline.nsys-rep",))
    empty = RunSummary(tmp_path, "interrupted", "train", None)
    async with guided(session, earlier=[other, empty]) as (app, pilot):
        assert "was interrupted" not in text_of(app)
        await press(app, pilot, "o")
        assert screen_of(app).pane == actions.RUN_CHECK


async def test_a_machine_that_cannot_be_reached_is_told_and_tried_again(session: FakeSession) -> None:
    session.check_error = GputuiError("user@server", "cannot be reached", "Check its name")
    async with guided(session) as (app, pilot):
        assert screen_of(app).pane == actions.RUN_FAILED
        assert "cannot be reached" in text_of(app)
        session.check_error = None
        await press(app, pilot, "r")
        assert screen_of(app).pane == actions.RUN_CHECK


async def test_an_interrupted_run_can_be_opened(session: FakeSession, tmp_path: Path) -> None:
    folder = tmp_path / "earlier"
    folder.mkdir()
    (folder / "timeline.sqlite").write_bytes(demo_timeline().read_bytes())
    earlier = RunSummary(folder, "interrupted", "train", None, ("timeline.sqlite",))
    async with guided(session, earlier=[earlier]) as (app, pilot):
        assert "An earlier run of train was interrupted" in text_of(app)
        assert "Kept in earlier: 1 report" in joined(text_of(app))
        await press(app, pilot, "o")
        await until(pilot, lambda: screen_of(app).pane == actions.RUN_CHOOSE)
        assert session.ran == []
        # The new run's folder stays empty, and goes.
        assert session.folder is not None
        assert session.folder.path.name not in text_of(app)
        assert text_of(app).splitlines()[0].split()[-1] == "earlier"
        assert "an interrupted run kept" in joined(text_of(app))
        assert app.guide.kept == []


async def test_kernels_can_be_chosen_from_a_timeline_that_is_there(session: FakeSession) -> None:
    async with guided(session, timeline=demo_timeline()) as (app, pilot):
        await until(pilot, lambda: screen_of(app).pane == actions.RUN_CHOOSE)
        assert session.ran == []
        await press(app, pilot, "space", "enter")
        assert [one.tool for one in app.guide.commands] == ["ncu"]


async def test_a_run_whose_connection_was_lost_is_gone_on_with(session: FakeSession) -> None:
    pending = session.pending = session.timeline_command()
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session) as (app, _):
        assert session.ran == [pending]
        assert session.pending is None
        assert screen_of(app).pane == actions.RUN_CHOOSE


# -------------------------------------------------------------------- editing


async def test_an_edited_command_is_what_runs(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "i", *" --more", "enter")
        assert screen_of(app).pane == actions.RUN_CHECK
        await press(app, pilot, "enter")
        assert session.ran[0].argv[-len(PROGRAM) - 1 :] == (*PROGRAM, "--more")


async def test_what_is_no_command_is_told_in_its_place_and_can_be_taken_back(session: FakeSession) -> None:
    async with guided(session) as (app, pilot):
        before = app.guide.commands[0]
        await press(app, pilot, "i", *" 'open", "enter")
        assert app.words.text("guide.unclosed") in joined(text_of(app))
        assert screen_of(app).editor.display
        await press(app, pilot, "escape")
        assert app.guide.commands == [before]
        assert not screen_of(app).editor.display


async def test_the_reports_name_must_stay_in_the_command(session: FakeSession) -> None:
    async with guided(session) as (app, pilot):
        await press(app, pilot, "i")
        screen_of(app).editor.load_text("nsys profile -o elsewhere python train.py")
        await press(app, pilot, "enter")
        assert "gputui looks for the report under this name" in joined(text_of(app))
        assert screen_of(app).editor.display


async def test_q_is_a_letter_in_the_editor_and_nothing_pasted_acts(session: FakeSession) -> None:
    async with guided(session) as (app, pilot):
        await press(app, pilot, "i", "q")
        editor = screen_of(app).editor
        assert editor.text.endswith("40q")
        editor.insert("\x1b[2J")
        await pilot.pause()
        assert editor.text.endswith(r"\x1b[2J")


async def burst(app: GputuiApp, pilot: Pilot[int], *keys: str) -> None:
    """Keys that are all there before the first is acted on, as from a terminal that sends them at once."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))
    await settle(app, pilot)


async def test_keys_in_a_burst_are_taken_in_their_order(session: FakeSession) -> None:
    async with guided(session) as (app, pilot):
        await burst(app, pilot, "i", *"q12", "backspace", *"3r", "left", "4")
        assert screen_of(app).editor.text.endswith("40q134r")
        await burst(app, pilot, "enter")
        assert app.guide.commands[0].argv[-1] == "40q134r"
        assert not screen_of(app).editor.display


async def test_a_complaint_goes_as_soon_as_it_is_mended(session: FakeSession) -> None:
    async with guided(session) as (app, pilot):
        await press(app, pilot, "i", "'", "enter")
        assert app.words.text("guide.unclosed") in joined(text_of(app))
        await press(app, pilot, "x")
        assert app.words.text("guide.unclosed") in joined(text_of(app))
        await press(app, pilot, "'")
        assert app.words.text("guide.unclosed") not in joined(text_of(app))
        assert screen_of(app).editor.display


# -------------------------------------------------------------------- running


async def test_what_the_program_prints_is_shown_as_it_comes(session: FakeSession) -> None:
    gate = threading.Event()
    step = Step([b"step %d\n" % one for one in range(100)], [Progress(size=12_000_000)], gate=gate)
    session.steps = [step]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "step 99" in text_of(app))
        assert "report so far: 12 MB" in text_of(app)
        assert "▸2 Timeline 00:0" in text_of(app)
        columns, rows = session.sizes[0]
        assert (columns, rows) == screen_of(app).room
        gate.set()
        await settle(app, pilot)


async def test_the_output_stands_still_while_the_reader_looks_further_up(session: FakeSession) -> None:
    gate, more = threading.Event(), threading.Event()

    def act(listener: Any, stopping: threading.Event) -> None:
        assert more.wait(20)
        listener.output(b"latest\n")

    session.steps = [Step([b"step %d\n" % one for one in range(100)], act=act, gate=gate)]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "step 99" in text_of(app))
        await pilot.press("pageup")
        await until(pilot, lambda: app.words.text("guide.follow") in text_of(app))
        before = screen_of(app).output.scroll_y
        more.set()
        await pilot.pause(0.4)
        assert screen_of(app).output.scroll_y == before
        assert "latest" not in text_of(app)
        await pilot.press("G")
        await until(pilot, lambda: "latest" in text_of(app))
        assert app.words.text("guide.follow") not in text_of(app)
        gate.set()
        await settle(app, pilot)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_hostile_output_puts_no_control_byte_on_the_screen(size: tuple[int, int], session: FakeSession) -> None:
    gate = threading.Event()
    session.steps = [Step(HOSTILE, [Progress(kernel="[/bold]\x1b[31mevil", launch=1, launches=2)], gate=gate)]
    async with guided(session, size=size) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "end" in text_of(app))
        for strip in app.screen._compositor.render_strips():
            assert strip.text == safe(strip.text)
            assert strip.cell_length == size[0]
        gate.set()
        await settle(app, pilot)


def test_of_a_flood_only_its_end_is_looked_at() -> None:
    live = Live()
    live.output(b"old line\n" * 4_000_000 + b"last line\n")
    lines = live.lines()
    assert lines[-2:] == ["last line", ""]
    assert len(lines) <= 5001


async def test_stopping_keeps_the_report_and_a_second_time_ends_it(session: FakeSession) -> None:
    ended = threading.Event()

    def act(listener: Any, stopping: threading.Event) -> None:
        assert ended.wait(20)

    session.steps = [Step(reports=[timeline_report()], act=act, gate=threading.Event())]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: app.guide.page == "running" and len(session.ran) == 1)
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "Asked the program to stop" in text_of(app))
        await pilot.press("ctrl+x")
        await until(pilot, lambda: app.words.text("guide.ending") in text_of(app))
        assert session.stops == 2
        ended.set()
        await settle(app, pilot)
        assert screen_of(app).pane == actions.RUN_CHOOSE


async def test_stopped_before_there_was_a_report_it_offers_to_run_again(session: FakeSession) -> None:
    session.steps = [Step(gate=threading.Event())]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: len(session.ran) == 1)
        await press(app, pilot, "ctrl+x")
        assert app.words.text("guide.nothing_written") in text_of(app)


async def test_quitting_while_it_runs_asks_once_and_keeps_what_there_is(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()], gate=threading.Event())]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: len(session.ran) == 1)
        await pilot.press("q")
        await until(pilot, lambda: "q again to quit" in text_of(app))
        await pilot.press("j")
        await until(pilot, lambda: "q again to quit" not in text_of(app))
        assert session.stops == 0
        await pilot.press("q", "q")
        await until(pilot, lambda: app._exit)
        assert session.stops == 1
        assert session.finished == ["stopped"]
        assert app.return_value == 0


async def test_the_whole_output_tells_where_its_log_is(session: FakeSession) -> None:
    gate = threading.Event()
    session.steps = [Step([b"hello\n"], gate=gate)]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "hello" in text_of(app))
        await pilot.press("w")
        await until(pilot, lambda: "All output is in" in text_of(app))
        assert not screen_of(app).body.display
        await pilot.press("w")
        await until(pilot, lambda: screen_of(app).body.display)
        gate.set()
        await settle(app, pilot)


async def test_a_lost_connection_and_a_copied_report_are_told(session: FakeSession) -> None:
    gate, back = threading.Event(), threading.Event()

    def act(listener: Any, stopping: threading.Event) -> None:
        listener.lost("timed out\x1b")
        assert back.wait(20)
        listener.lost("")
        listener.copying("timeline.nsys-rep", 12_000_000, 80_000_000)

    session.steps = [Step(act=act, gate=gate)]
    async with guided(session) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "The connection is gone (timed out" in text_of(app))
        back.set()
        await until(pilot, lambda: "12 MB of 80 MB" in text_of(app))
        gate.set()
        await settle(app, pilot)


# -------------------------------------------------------------------- failures


async def test_a_failure_is_told_with_its_cure_and_can_be_tried_again(session: FakeSession) -> None:
    id, params = failure_with_a_message()
    failure = Failure(id, "failure", params, "==ERROR== \x1b[31mno")
    session.steps = [Step([b"boom\n"], failures=(failure,), status=1), Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert screen_of(app).pane == actions.RUN_FAILED
        shown = text_of(app)
        assert "boom" in shown
        assert "timeline.log" in "".join(shown.split())
        assert r"==ERROR== \x1b[31mno" in shown
        assert joined(failure_text(failure, app.words).title) in joined(shown)
        assert app._return_value == EXIT_NO
        await press(app, pilot, "r")
        assert screen_of(app).pane == actions.RUN_CHOOSE
        assert app._return_value == 0


def failure_with_a_message() -> tuple[str, dict[str, str]]:
    """A failure whose words ask an administrator, with something for each of their parameters."""
    table = wording("en")._table["failure"]
    id = next(id for id, row in table.items() if row.get("ask"))
    row = table[id]
    texts = [text for value in row.values() for text in (value if isinstance(value, list) else [value])]
    names = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
    return id, dict.fromkeys(names, "x")


async def test_the_message_to_the_administrator_is_copied(session: FakeSession) -> None:
    id, params = failure_with_a_message()
    session.steps = [Step(failures=(Failure(id, "failure", params),), status=1)]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "y")
        assert screen_of(app).body.ask
        assert app.clipboard == screen_of(app).body.ask


async def test_an_unknown_failure_names_the_status_and_can_be_edited(session: FakeSession) -> None:
    session.steps = [Step(status=3), Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert "status 3" in text_of(app)
        await press(app, pilot, "i", *" -v", "enter")
        assert app.guide.page == "ready"
        await press(app, pilot, "enter")
        assert session.ran[1].argv[-1] == "-v"
        assert screen_of(app).pane == actions.RUN_CHOOSE


async def test_quitting_from_a_failure_answers_no(session: FakeSession) -> None:
    session.steps = [Step(status=3)]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        await pilot.press("q")
        await until(pilot, lambda: app._exit)
        assert app.return_value == EXIT_NO
        assert session.finished == ["failed"]


async def test_what_went_wrong_beside_a_report_is_a_notice(session: FakeSession) -> None:
    id, params = failure_with_a_message()
    session.steps = [Step(reports=[timeline_report()], failures=(Failure(id, "warning", params),), status=1)]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert screen_of(app).pane == actions.RUN_CHOOSE
        await press(app, pilot, "escape")
        assert app.screen is app.main
        assert app.library.remarks == [failure_text(Failure(id, "warning", params), app.words).title]
        assert app.library.remarks[0] in app.main.notices.texts[0]
        assert app._return_value == EXIT_NO


PYTHON_ERROR = Failure("python-error", "warning", {"error": "RuntimeError: it broke"})


async def test_a_program_that_failed_is_told_before_the_kernels(session: FakeSession) -> None:
    session.steps = [Step([b"Traceback\n"], reports=[timeline_report()], failures=(PYTHON_ERROR,), status=1)]
    async with guided(session, size=(80, 24)) as (app, pilot):
        await press(app, pilot, "enter")
        assert screen_of(app).pane == actions.RUN_CHOOSE
        assert app.guide.diagnosis is not None
        shown = joined(text_of(app))
        said = failure_text(PYTHON_ERROR, app.words)
        assert said.cause.endswith("it broke")
        sentence = joined(app.words.timeline_verdict(app.guide.diagnosis.verdict))
        assert shown.index(said.title) < shown.index(said.cause) < shown.index(sentence)
        assert "w all that it printed" in shown
        assert "timeline.log" in "".join(shown.split())
        assert "2 Timeline !" in shown
        assert "2 Timeline ✓" not in shown
        await press(app, pilot, "w")
        assert "Traceback" in text_of(app)
        assert not screen_of(app).choices.display
        await press(app, pilot, "escape")
        assert screen_of(app).choices.display


async def test_unattended_a_program_that_failed_is_counted_all_the_same(session: FakeSession) -> None:
    await counted(session)
    session.steps[0].status, session.steps[0].failures = 1, (PYTHON_ERROR,)
    session.request = Request(PROGRAM, ".", top=1)
    async with guided(session) as (app, pilot):
        await until(pilot, lambda: app.screen is app.main)
        await settle(app, pilot)
        assert [one.tool for one in session.ran] == ["nsys", "ncu"]
        assert session.finished == ["failed"]
        assert app._return_value == EXIT_NO


async def test_a_program_that_failed_before_its_gpu_work_is_told_before_that(session: FakeSession) -> None:
    printed = b"step 1\nRuntimeError: it broke\nGenerating '/tmp/x.qdstrm'\n[1/1] more\n"
    session.steps = [Step([printed], reports=[no_kernels()], failures=(PYTHON_ERROR,), status=1)]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert screen_of(app).pane == actions.RUN_NOTHING
        shown = text_of(app)
        order = (PYTHON_ERROR_TITLE, "step 1", "all that it printed", "There is no GPU work in this capture")
        assert sorted(order, key=shown.index) == list(order)
        assert "qdstrm" not in shown
        assert "w all output" in shown.splitlines()[-1]
        await press(app, pilot, "w")
        assert "qdstrm" in text_of(app)
        await press(app, pilot, "q")
        assert session.finished == ["failed"]
        assert app.return_value == EXIT_NO


PYTHON_ERROR_TITLE = failure_text(PYTHON_ERROR, wording("en")).title


async def test_a_report_that_cannot_be_read_is_told(session: FakeSession, tmp_path: Path) -> None:
    session.steps = [Step(reports=[tmp_path / "missing.nsys-rep"])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert screen_of(app).pane == actions.RUN_FAILED
        assert "missing.nsys-rep" in text_of(app)


async def test_without_gpu_work_there_is_no_empty_table(session: FakeSession) -> None:
    session.steps = [Step(reports=[no_kernels()]), Step(reports=[timeline_report(path="/somewhere/two.sqlite")])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert screen_of(app).pane == actions.RUN_NOTHING
        assert "There is no GPU work in this capture" in text_of(app)
        assert not screen_of(app).choices.display
        await press(app, pilot, "enter")
        assert len(session.ran) == 1
        await press(app, pilot, "r")
        assert screen_of(app).pane == actions.RUN_CHOOSE


async def test_a_run_without_gpu_work_has_failed_and_shows_its_ranges(session: FakeSession) -> None:
    session.steps = [Step(reports=[no_kernels()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "3")
        assert app.screen is app.main
        assert app.main.ranges.display
        assert "step" in text_of(app)
        assert " p profile" not in text_of(app)
        await press(app, pilot, "q")
        assert session.finished == ["failed"]
        assert app.return_value == EXIT_NO


async def test_a_given_timeline_without_kernels_is_not_blamed_on_a_command(session: FakeSession) -> None:
    async with guided(session, timeline=no_kernels()) as (app, pilot):
        assert app.words.text("guide.no_kernels_given") in joined(text_of(app))
        assert "try again" not in text_of(app)
        await press(app, pilot, "r")
        assert session.ran == []


@pytest.mark.parametrize(("width", "times"), [(120, 1), (160, 1)])
async def test_a_reason_is_told_once(session: FakeSession, width: int, times: int) -> None:
    async with guided(session, timeline=BUSY, size=(width, 40)) as (app, _):
        reason = app.words.text("run.reason.worth")
        rows = [line for line in text_of(app).splitlines() if reason in line]
        first = app.guide.proposals[0].share.kernel.name
        assert sum(first in row for row in rows) == times


# -------------------------------------------------------------------- choosing, counting, explaining


async def test_the_sentence_stands_before_the_kernels(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        assert app.guide.diagnosis is not None
        sentence = joined(app.words.timeline_verdict(app.guide.diagnosis.verdict))
        shown = joined(text_of(app))
        assert shown.index(sentence) < shown.index("[x]")
        row = next(line for line in text_of(app).splitlines() if "gemm" in line and "[x]" in line)
        assert "92 %" in row
        assert "×20" in row
        assert "2.5×" in row
        assert "program gains at most" in text_of(app)


async def test_the_choose_page_says_what_its_numbers_are_and_where_one_is(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session, size=(80, 24)) as (app, pilot):
        await press(app, pilot, "enter")
        lines = text_of(app).splitlines()
        assert "▸3 Choose" in lines[0]
        assert any(line.startswith(" gemm: ") for line in lines)
        assert "program gains at most" in text_of(app)
        assert "esc back" in lines[-1]


async def test_marks_follow_the_keys(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        proposed = set(app.guide.marked)
        assert proposed
        await press(app, pilot, "space")
        assert app.guide.marked == proposed ^ {0}
        await press(app, pilot, "j", "space")
        assert app.guide.marked == proposed ^ {0, 1}
        await press(app, pilot, *(("space", "a") if not app.guide.marked else ("a",)), "enter")
        assert app.guide.marked == set()
        assert app.guide.page == "choose"
        await press(app, pilot, "a")
        assert app.guide.marked == proposed


async def counted(session: FakeSession, **step: Any) -> None:
    session.steps = [
        Step(reports=[timeline_report()]),
        Step(reports=[make_report(("softmax", "gemm"), path="/somewhere/counters-1.ncu-rep")], **step),
    ]


async def test_the_marked_kernels_are_counted_and_the_worst_is_explained(session: FakeSession) -> None:
    gate = threading.Event()
    await counted(session, progress=[Progress(kernel="gemm", launch=2, launches=3, percent=50)], gate=gate)
    async with guided(session, size=(100, 30)) as (app, pilot):
        await press(app, pilot, "enter", "enter")
        assert app.guide.page == "ready"
        assert "ncu --set full" in text_of(app)
        assert len(session.ran) == 1
        await pilot.press("enter")
        await until(pilot, lambda: "launch 2 of 3" in text_of(app))
        assert "50 %" in text_of(app)
        gate.set()
        await settle(app, pilot)
        assert app.screen is app.main
        assert len(app.library.reports) == 2
        assert app.main.entry is not None
        # softmax is longer in the counters' report, gemm in the program.
        assert (app.main.entry.title, app.main.entry.timed) == ("gemm", None)
        assert app.main.page == "diagnosis"
        assert session.finished == ["done"]
        assert app._return_value == 0


async def test_after_the_counters_the_diagnosis_is_open_whatever_was(session: FakeSession) -> None:
    await counted(session)
    session.steps += [Step(reports=[make_report(("gemm",), path="/elsewhere/counters-1.ncu-rep")])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "3")
        assert app.main.page == "timeline"
        app.main.kernels.table.focus()
        await press(app, pilot, "p", "enter", "enter")
        assert app.screen is app.main
        assert app.main.page == "diagnosis"
        await press(app, pilot, "4", "p", "enter")
        assert app.screen is app.main
        assert app.main.page == "diagnosis"
        assert app.main.entry is not None
        assert app.main.entry.report == 2


async def test_esc_looks_at_the_timeline_and_p_comes_back(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "3")
        assert app.screen is app.main
        assert app.main.page == "timeline"
        await press(app, pilot, "1", "tab", "j")
        app.main.kernels.table.focus()
        await press(app, pilot, "G", "p")
        assert screen_of(app).pane == actions.RUN_CHOOSE
        assert screen_of(app).choices.row == 1
        assert 1 in app.guide.marked
        await press(app, pilot, "enter")
        assert app.guide.page == "ready"
        await press(app, pilot, "escape")
        assert app.guide.page == "choose"


async def test_names_that_are_not_there_are_told(session: FakeSession) -> None:
    session.steps = [Step(reports=[timeline_report()])]
    async with guided(session, proposer=lambda diagnosis: propose(diagnosis, "nobody")) as (app, pilot):
        await press(app, pilot, "enter")
        assert app.guide.page == "failed"
        assert "--kernel nobody matches no NVTX range and no kernel" in joined(text_of(app))


async def test_a_number_of_kernels_given_beforehand_asks_nothing(session: FakeSession) -> None:
    await counted(session)
    session.request = Request(PROGRAM, ".", top=1)
    async with guided(session) as (app, pilot):
        await until(pilot, lambda: app.screen is app.main)
        assert [one.tool for one in session.ran] == ["nsys", "ncu"]
        assert session.ran[1].kernels == ("gemm",)
        assert session.finished == ["done"]


async def test_unattended_it_does_not_run_what_cannot_work(session: FakeSession) -> None:
    await counted(session)
    session.request = Request(PROGRAM, ".", top=1)
    session.found = (NO_COUNTERS,)
    async with guided(session) as (app, pilot):
        await until(pilot, lambda: app.guide.page == "choose")
        assert [one.tool for one in session.ran] == ["nsys"]


async def test_enter_pressed_again_and_again_runs_each_command_once(session: FakeSession) -> None:
    await counted(session)
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter")
        await pilot.press(*["enter"] * 6)
        await settle(app, pilot)
        assert [one.tool for one in session.ran] == ["nsys", "ncu"]
        assert app.screen is app.main


async def test_a_command_that_fails_after_others_is_a_notice(session: FakeSession) -> None:
    session.steps = [
        Step(reports=[timeline_report()]),
        Step(reports=[make_report(("gemm",), path="/somewhere/one.ncu-rep")]),
        Step(status=1),
    ]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "enter")
        app.guide.commands = app.guide.commands * 2
        await press(app, pilot, "enter")
        assert app.screen is app.main
        assert len(session.ran) == 3


# -------------------------------------------------------------------- from the main screen


async def test_p_profiles_a_kernel_of_a_report_that_was_opened(tmp_path: Path) -> None:
    made: list[FakeSession] = []

    def another(request: Request) -> FakeSession:
        report = make_report(("gemm",), path="/somewhere/counters-1.ncu-rep")
        made.append(FakeSession(tmp_path, [Step(reports=[report])], request))
        return made[-1]

    app = GputuiApp([make_report(("gemm", "softmax"))], proposer=propose, new_session=another)  # type: ignore[arg-type]
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(app, pilot)
        await press(app, pilot, "j", "p")
        assert app.guide.page == "program"
        await press(app, pilot, *"./prog --fast", "enter")
        assert made[0].request.command == ("./prog", "--fast")
        assert app.guide.page == "ready"
        assert "softmax" in text_of(app)
        await press(app, pilot, "enter")
        assert made[0].ran[0].argv[-2:] == ("./prog", "--fast")
        assert app.screen is app.main
        assert len(app.library.reports) == 2
        await press(app, pilot, "p")
        assert len(made) == 2
        assert app.guide.page == "ready"
        await press(app, pilot, "escape")
        assert app.screen is app.main


async def test_p_can_be_taken_back_where_it_asks_for_the_program() -> None:
    app = GputuiApp([make_report()], proposer=propose, new_session=lambda request: None)  # type: ignore[arg-type, return-value]
    async with app.run_test() as pilot:
        await settle(app, pilot)
        await press(app, pilot, "p", "escape")
        assert app.screen is app.main
        await press(app, pilot, "r")
        assert app.screen is app.main


async def test_r_repeats_the_commands_in_another_folder(session: FakeSession) -> None:
    await counted(session)
    session.steps += [
        Step(reports=[timeline_report(path="/elsewhere/timeline.sqlite")]),
        Step(reports=[make_report(("gemm",), path="/elsewhere/counters-1.ncu-rep")]),
    ]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "enter", "enter")
        assert app.screen is app.main
        await press(app, pilot, "r")
        assert app.words.text("guide.again") in text_of(app)
        new = app.guide.session
        assert isinstance(new, FakeSession)
        await press(app, pilot, "enter")
        assert app.screen is app.main
        assert [one.tool for one in new.ran] == ["nsys", "ncu"]
        assert new.place() != session.place()
        for old, repeated in zip(session.ran, new.ran, strict=True):
            assert repeated.argv == tuple(word.replace(session.place(), new.place()) for word in old.argv)
        assert len(app.library.reports) == 4
        assert app.main.kernels.data.grouping == "file"
        # The run before is what the new one is compared with.
        await press(app, pilot, "c")
        assert isinstance(app.screen, CompareScreen)
        assert (app.comparing.base.reports, app.comparing.new.reports) == ((1,), (2,))


async def test_r_after_p_repeats_that_kernel_alone(session: FakeSession) -> None:
    await counted(session)
    session.steps += [
        Step(reports=[make_report(("gemm",), path="/elsewhere/counters-1.ncu-rep")]),
        Step(reports=[make_report(("gemm",), path="/third/counters-1.ncu-rep")]),
    ]
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "enter", "enter")
        await press(app, pilot, "p", "enter")
        alone = app.guide.session
        await press(app, pilot, "r", "enter")
        repeated = app.guide.session
        assert isinstance(alone, FakeSession)
        assert isinstance(repeated, FakeSession)
        assert [one.id for one in repeated.ran] == [one.id for one in alone.ran] == ["counters-1"]
        assert all(repeated.place() in " ".join(one.argv) for one in repeated.ran)


async def test_runs_of_one_day_are_told_apart_by_their_time(session: FakeSession) -> None:
    paths = [f"/r/2026-11-30_19-0{place}-48-train/counters-1.ncu-rep" for place in (6, 8)]
    session.steps = [Step(reports=[timeline_report()])]
    app = GputuiApp([make_report(("gemm",), path=path) for path in paths])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(app, pilot)
        assert "19-06-48 counters-1 (1/2)" in text_of(app)
        await press(app, pilot, "G")
        assert "19-08-48 counters-1 (2/2)" in text_of(app)
        assert sum("19-08-48 counters-1" in line for line in text_of(app).splitlines()) == 2


async def test_where_the_runs_are_kept_is_told_at_the_end(
    session: FakeSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(session.base)
    session.steps = [Step(status=3), Step(reports=[timeline_report()])]
    async with guided(session) as (app, pilot):
        folder = Path(session.place())
        assert app.guide.kept == []
        await press(app, pilot, "enter")
        assert app.guide.kept == [(folder, False)]
        await press(app, pilot, "r")
        assert app.guide.kept == [(folder, True)]
    _tell_kept(app)
    assert capsys.readouterr().out == f"Kept: {folder.name}  Look at it: gputui open {folder.name}\n"


# -------------------------------------------------------------------- looks


async def test_it_says_what_size_it_needs_and_comes_back(session: FakeSession) -> None:
    async with guided(session, size=(60, 15)) as (app, pilot):
        assert "1 Check" in text_of(app)
        assert "nsys" in text_of(app)
        await pilot.resize_terminal(40, 10)
        await pilot.pause(0.2)
        assert "60 × 15" in text_of(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.2)
        assert "nsys profile" in text_of(app)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", [(60, 15), (80, 24), (200, 50)])
async def test_every_page_fits_in_every_language(language: str, size: tuple[int, int], session: FakeSession) -> None:
    session.found = (*session.found, NO_COUNTERS)
    gate = threading.Event()
    await counted(session, printed=[b"hello\n"], gate=gate)
    async with guided(session, size=size, language=language) as (app, pilot):
        for keys in (("i",), ("escape",), ("enter",), ("enter",)):
            await press(app, pilot, *keys)
            assert all(strip.cell_length == size[0] for strip in app.screen._compositor.render_strips())
            assert app.words.ui("footer.quit") in text_of(app) or screen_of(app).editor.display
        await pilot.press("enter")
        await until(pilot, lambda: "hello" in text_of(app))
        gate.set()
        await settle(app, pilot)


async def test_ascii_draws_with_ascii_alone(session: FakeSession) -> None:
    session.found = (*session.found, NO_COUNTERS)
    session.steps = [Step(["日本語\n".encode()], reports=[timeline_report()])]
    async with guided(session, ascii=True) as (app, pilot):
        assert text_of(app).isascii()
        await press(app, pilot, "enter")
        assert text_of(app).isascii()
        assert "1 Check ok  2 Timeline ok >3 Choose" in text_of(app)


async def test_help_is_about_the_page(session: FakeSession) -> None:
    async with guided(session) as (app, pilot):
        await press(app, pilot, "question_mark")
        assert app.words.ui("help.run-check.title") in text_of(app)
        await press(app, pilot, "escape")
        assert isinstance(app.screen, RunScreen)


async def test_help_lists_the_keys_that_work_on_the_page(session: FakeSession) -> None:
    gate = threading.Event()
    session.steps = [Step(reports=[timeline_report()], gate=gate)]
    async with guided(session, size=(120, 60)) as (app, pilot):

        async def listed() -> set[str]:
            await pilot.press("question_mark")
            await pilot.pause()
            assert isinstance(app.screen, HelpScreen)
            lines = app.screen.body.plain_lines()
            await pilot.press("escape")
            await pilot.pause()
            return {id for id, one in actions.BY_ID.items() if f" {one.key_text()} " in "".join(
                line for line in lines if app.words.ui(f"action.{id}")[:40] in line)}  # fmt: skip

        check = await listed()
        await pilot.press("enter")
        await until(pilot, lambda: app.guide.page == "running" and len(session.ran) == 1)
        going = await listed()
        gate.set()
        await settle(app, pilot)
        choose = await listed()
    assert {"proceed", "edit", "retry", "checks", "quit"} <= check
    assert not {"profile", "again", "mark", "look", "output", "stop", "earlier", "zoom_in"} & check
    assert {"stop", "output"} <= going
    assert not {"proceed", "edit", "retry", "checks"} & going
    assert {"proceed", "mark", "mark_all", "look", "run_back", "output"} <= choose
    assert not {"profile", "again", "edit", "retry", "stop"} & choose


async def test_a_command_that_ends_under_an_open_help_page_is_gone_on_with(session: FakeSession) -> None:
    gate = threading.Event()
    await counted(session, gate=gate)
    async with guided(session) as (app, pilot):
        await press(app, pilot, "enter", "enter")
        await pilot.press("enter")
        await until(pilot, lambda: len(session.ran) == 2)
        await pilot.press("question_mark")
        gate.set()
        await settle(app, pilot)
        await press(app, pilot, "escape")
        assert app.screen is app.main


# -------------------------------------------------------------------- text


def test_a_command_is_shown_as_it_can_be_copied() -> None:
    argv = ("ncu", "--set", "full", "--kernel-name", "regex:^a b$", "-o", "x" * 100, "python", "-c", "print('hi')")
    for width in (30, 60, 100):
        rows = command_rows(argv, argv[-3:], width)
        text = "\n".join("".join(part for part, _ in row) for row in rows)
        assert "python" in text.splitlines()[-1] or width == 30
    assert parsed("\n".join("".join(part for part, _ in row) for row in command_rows(argv, argv[-3:], 140))) == argv


def test_an_option_keeps_its_value_and_a_long_path_loses_its_middle() -> None:
    path = f"/home/me/{'very-long/' * 12}gputui-runs/2026-11-30_19-06-48-train/timeline"
    program = ("python", "train.py")
    rows = command_rows(("nsys", "profile", "--trace=cuda", "-o", path, *program), program, 74)
    lines = ["".join(part for part, _ in row) for row in rows]
    assert all(len(line) <= 74 for line in lines)
    assert all(line.strip() != "\\" for line in lines)
    output = next(line for line in lines if "-o" in line.split())
    assert output.split()[-2].startswith("/home/me/")
    assert "..." in output
    assert output.split()[-2].endswith("19-06-48-train/timeline")
    assert lines[-1].strip() == "python train.py"


def test_what_is_typed_is_what_is_shown() -> None:
    argv = ("python", "-c", "import x\nprint('a b')", "$HOME", "")
    assert parsed(shown_command(argv)) == argv
    assert "\x1b" not in shown_command(("a\x1b[2J",))
    with pytest.raises(ValueError, match="quotation"):
        parsed("python 'train.py")


def test_times_are_short() -> None:
    assert [clock_text(one) for one in (0, 14, 3723)] == ["00:00", "00:14", "1:02:03"]
    assert [spoken(one) for one in (0.2, 80, 300, 7200)] == ["1 s", "80 s", "5 min", "2.0 h"]
