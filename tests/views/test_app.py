"""The application on reports made of nothing: loading, selecting, searching, sizes, languages, hostile names."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from gputui.errors import EXIT_NO
from gputui.paint.grid import width_of
from gputui.views.app import GputuiApp
from gputui.views.screens.error import ErrorScreen
from gputui.views.screens.loading import LoadingScreen
from gputui.wording import wording

from .conftest import Start, settle
from .fakes import MEMORY_BOUND, FakeSource, make_report

HOSTILE = ("[/bold]", "\x1b[31mred", "a" * 5000, "カーネル行列積" * 20, "[@click=app.quit]x[/]", "\u202eevil", "")


def page(app: GputuiApp) -> str:
    return "\n".join(app.main.diagnosis.plain_lines())


def screen_text(app: GputuiApp) -> list[str]:
    """What the terminal would show, line by line."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def test_the_longest_kernel_is_selected_and_explained(start: Start) -> None:
    async with start(make_report()) as (app, _):
        assert app.main.entry is not None
        assert app.main.entry.title == "copy_a"
        assert len(app.diagnoses) == 3
        assert not app.is_diagnosing
        assert app.words.verdict(app.diagnoses[0].verdict).split()[0] in page(app)


async def test_the_list_is_there_before_the_verdicts(start: Start) -> None:
    gate = threading.Event()
    report = make_report(gate=gate)
    gate.set()
    async with start(report, wait=False) as (app, pilot):
        gate.clear()
        await pilot.pause(0.3)
        assert len(app.main.kernels.table.rows) in (0, 3)
        gate.set()
        await settle(app, pilot)
        assert len(app.diagnoses) == 3


async def test_the_event_loop_goes_on_while_a_report_is_read(start: Start) -> None:
    gate = threading.Event()
    report = make_report(names=[f"kernel_{number}" for number in range(200)], gate=gate)
    async with start(report, wait=False) as (app, pilot):
        await pilot.pause(0.3)
        assert not gate.is_set()  # we are here, and the reader still waits
        assert app.library.entries == []
        gate.set()
        await settle(app, pilot)
        assert len(app.diagnoses) == 200


async def test_no_report_is_read_on_the_screens_thread(start: Start) -> None:
    report = make_report()
    async with start(report) as (app, pilot):
        for key in ("j", "2", "4", "j", "slash", "d", "enter", "1", "enter", "right_square_bracket"):
            await pilot.press(key)
            await settle(app, pilot)
        assert isinstance(report.source, FakeSource)
        assert threading.get_ident() not in report.source.threads


async def test_the_selected_kernel_is_diagnosed_first() -> None:
    from gputui.views.library import Backlog

    backlog = Backlog()
    backlog.add(range(200))
    backlog.want(150)
    assert backlog.take() == [150]
    assert backlog.take() == list(range(64))
    backlog.clear()
    assert backlog.take() == []


async def test_loading_can_be_stopped(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    def slow(path: Path, progress) -> object:  # type: ignore[no-untyped-def]
        started.set()
        while progress(1, 1000):
            threading.Event().wait(0.01)
        report = make_report(path=str(path))
        report.kernels = []
        return report

    monkeypatch.setattr("gputui.formats.open_report", slow)
    async with start("one.ncu-rep", "two.ncu-rep", wait=False) as (app, pilot):
        assert await asyncio.to_thread(started.wait, 5)
        await pilot.pause(0.1)
        assert isinstance(app.screen, LoadingScreen)
        await pilot.press("escape")
        await settle(app, pilot)
        assert app.was_stopped
        assert any(app.words.ui("stopped") in text for text in app.main.notices.texts)


async def test_stopping_before_anything_is_read_ends_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from gputui.errors import GputuiError

    def refuses(path: Path, progress) -> object:  # type: ignore[no-untyped-def]
        while progress(0, 0):
            threading.Event().wait(0.01)
        raise GputuiError(str(path), "was stopped")

    monkeypatch.setattr("gputui.formats.open_report", refuses)
    async with start("one.ncu-rep", wait=False) as (app, pilot):
        await pilot.pause(0.1)
        await pilot.press("escape")
        await settle(app, pilot)
    assert app.return_value == EXIT_NO


async def test_a_file_that_cannot_be_read_is_an_error_screen(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "[bold]not.ncu-rep"
    file.write_bytes(b"no report")
    async with start(file) as (app, pilot):
        assert isinstance(app.screen, ErrorScreen)
        assert "[bold]not" in "".join(app.screen.body.plain_lines())
        await pilot.press("q")
    assert app.return_value == 2


async def test_one_bad_file_of_many_is_a_warning(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "bad.ncu-rep"
    file.write_bytes(b"no report")
    async with start(make_report(), file) as (app, _):
        assert app.screen is app.main
        assert "bad.ncu-rep" in app.main.notices.texts[0]


async def test_a_crash_in_a_worker_is_told_and_survived(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> object:
        raise ZeroDivisionError("[/oops]")

    monkeypatch.setattr("gputui.analysis.engine.diagnose", crash)
    async with start(make_report()) as (app, pilot):
        assert app.screen is app.main
        assert not app.is_diagnosing
        await pilot.press("j")
        assert app.main.entry is not None
        assert app.main.entry.title == "gemm_b"


async def test_a_metrics_name_is_text_too(start: Start) -> None:
    names = {f"evil__{number}\x1b]52;c;aGk=\x07\u202e.sum": (float(number), "\x1b[31m") for number in range(3)}
    async with start(make_report(metrics={**MEMORY_BOUND, **names})) as (app, pilot):
        await pilot.press("4")
        await settle(app, pilot)
        for _ in range(14):
            await pilot.press("j")
            await pilot.pause()
            assert not any(mark in line for line in screen_text(app) for mark in "\x1b\x07\u202e")
        assert "evil__" in "".join(screen_text(app))


async def test_ctrl_q_quits_from_a_dialog(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("question_mark")
        await pilot.press("ctrl+q")
    assert app.return_value == 0


async def test_files_of_one_name_stay_two_groups(start: Start) -> None:
    async with start(make_report(path="/a/run.ncu-rep"), make_report(path="/b/run.ncu-rep")) as (app, _):
        assert {line.split("×")[0].split()[-1] for line in screen_text(app) if "run.ncu-rep  " in line} >= {
            "a/run.ncu-rep",
            "b/run.ncu-rep",
        }


async def test_a_level_can_be_taken_back(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        seen = []
        for _ in range(3):
            await pilot.press("L")
            seen.append(app.level)
        assert None in seen
        assert len(set(seen)) == 3


async def test_several_reports_are_grouped_by_file(start: Start) -> None:
    async with start(make_report(), make_report(path="/else/where.ncu-rep")) as (app, pilot):
        rows = app.main.kernels.table.rows
        assert (rows < 0).sum() == 2
        assert len(rows) == 8
        await pilot.press("G")
        await settle(app, pilot)
        assert "where.ncu-rep (2/2)" in screen_text(app)[0]


async def test_truncation_is_told(start: Start) -> None:
    async with start(make_report(truncated=True)) as (app, _):
        assert app.main.notices.display
        assert app.words.ui("truncated") in screen_text(app)[1]


@pytest.mark.parametrize("ascii", [False, True])
async def test_hostile_names_are_text(start: Start, ascii: bool) -> None:
    async with start(make_report(HOSTILE), ascii=ascii) as (app, pilot):
        for _ in HOSTILE:
            for key in ("1", "2", "4"):
                await pilot.press(key)
                await settle(app, pilot)
                lines = screen_text(app)
                assert all("\x1b" not in line and "\u202e" not in line for line in lines)
                assert all(width_of(line) == app.size.width for line in lines)
                if ascii:
                    assert all(line.isascii() for line in lines)
            await pilot.press("right_square_bracket")
        await pilot.press("1", "g")
        await settle(app, pilot)
        assert "[/bold]" in "\n".join(screen_text(app))


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (99, 30), (100, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("language", ["en", "ja"])
async def test_each_size_shows_sentence_and_keys(start: Start, size: tuple[int, int], language: str) -> None:
    async with start(make_report(), size=size, language=language) as (app, _):
        lines = screen_text(app)
        assert len(lines) == size[1]
        assert all(width_of(line) == size[0] for line in lines)
        sentence = app.words.verdict(app.diagnoses[0].verdict)
        assert sentence[:6] in "\n".join(lines)
        assert app.words.ui("footer.quit") in lines[-1]
        assert "copy_a" in "\n".join(lines[1:4])


async def test_too_small_is_one_line_and_growing_brings_it_back(start: Start) -> None:
    async with start(make_report(), size=(59, 14)) as (app, pilot):
        text = [line.strip() for line in screen_text(app) if line.strip()]
        assert text == [app.words.ui("too_small", least=60, least_height=15, width=59, height=14)]
        await pilot.resize_terminal(100, 30)
        await pilot.pause(0.2)
        assert "copy_a" in "\n".join(screen_text(app))


async def test_language_switch_keeps_kernel_page_and_order(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("j", "2")
        app.action_next_language()
        await settle(app, pilot)
        assert app.words is wording("ja")
        assert app.screen is app.main
        assert app.main.tab == "roofline"
        assert app.main.entry is not None
        assert app.main.entry.title == "gemm_b"
        await pilot.press("1")
        assert app.words.verdict(app.diagnoses[1].verdict)[:4] in page(app)


async def test_level_is_remembered(start: Start, tmp_path: Path) -> None:
    async with start(make_report()) as (app, pilot):
        assert app.main.level_for(app.diagnoses[0]) == "cuda"
        await pilot.press("L")
        assert app.main.level_for(app.diagnoses[0]) == "pytorch"
    settings = json.loads((tmp_path / "state" / "gputui" / "settings.json").read_text())
    assert settings == {"level": "pytorch"}
    async with start(make_report()) as (app, _):
        assert app.level == "pytorch"


async def test_settings_that_cannot_be_kept_are_no_error(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
    async with start(make_report()) as (app, pilot):
        await pilot.press("L", "t")
        assert app.theme == "gputui-light"


async def test_search_moves_and_escape_takes_it_back(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("slash", *"soft")
        await pilot.pause()
        assert app.main.entry is not None
        assert app.main.entry.title == "softmax_c"
        assert "q" not in app.main.prompt.query_one("Input").value  # type: ignore[attr-defined]
        await pilot.press("enter", "g", "n")
        assert app.main.entry.title == "softmax_c"
        await pilot.press("escape")
        assert app.main.finder.queries["kernels"] == ""


async def test_filter_narrows_while_typing(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("f", *"gemm")
        await pilot.pause()
        assert [app.library.entries[row].title for row in app.main.kernels.table.rows] == ["gemm_b"]
        await pilot.press(*"zzz")
        await pilot.pause()
        assert len(app.main.kernels.table.rows) == 0
        assert app.words.ui("no_kernel") in page(app)
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.main.kernels.table.rows) == 3


async def test_sort_reverse_and_group(start: Start) -> None:
    async with start(make_report(("b", "a", "b"))) as (app, pilot):
        titles = lambda: [app.library.entries[row].title for row in app.main.kernels.table.rows]  # noqa: E731
        await pilot.press("s", "s")
        assert titles() == ["a", "b", "b"]
        await pilot.press("S")
        assert titles() == ["b", "b", "a"]
        await pilot.press("s", "s", "s", "o")
        assert (app.main.kernels.table.rows < 0).all()
        assert len(app.main.kernels.table.rows) == 2
        await pilot.press("g", "enter")
        assert len(app.main.kernels.table.rows) == 4


async def test_tabs_without_data_say_why(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("3")
        await pilot.pause()
        assert "Nsight Systems" in " ".join(screen_text(app))
        await pilot.press("5")
        await pilot.pause()
        assert "-lineinfo" in " ".join(screen_text(app))


async def test_enter_shows_the_evidence_and_nvidias_rules(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        assert "High [b]Memory[/b]" not in page(app)
        await pilot.press("enter")
        assert "High [b]Memory[/b]" in page(app)
        await pilot.press("enter")
        assert "High [b]Memory[/b]" not in page(app)


async def test_metrics_in_nvidias_order_with_words(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("4")
        await settle(app, pilot)
        lines = "\n".join(screen_text(app))
        assert lines.index("GPU Speed Of Light") < lines.index("Duration") < lines.index("Not in any section")
        await pilot.press("f", *"duration", "enter", "j")
        await settle(app, pilot)
        words = "\n".join(app.main.metrics.description.plain_lines())
        assert "gpu__time_duration.sum" in words
        assert "NVIDIA: total time in ns" in words


async def test_stepping_from_the_metrics_stays_on_the_metric(start: Start) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("4")
        await settle(app, pilot)
        await pilot.press("j", "j")
        await pilot.press("right_square_bracket")
        await settle(app, pilot)
        assert app.main.metrics.entry == 1
        assert app.main.metrics.table.row == 2


async def test_a_report_without_durations_has_dashes(start: Start) -> None:
    metrics = {"sm__throughput.avg.pct_of_peak_sustained_elapsed": (10.0, "%")}
    async with start(make_report(metrics=metrics)) as (app, _):
        assert app.main.kernels.table.rows.tolist() == [0, 1, 2]
        assert "–" in screen_text(app)[2]


async def test_saving_never_overwrites(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with start(make_report(("../evil", "b"))) as (_, pilot):
        await pilot.press("e", "e")
        await pilot.pause()
    assert sorted(file.name for file in tmp_path.glob("*.md")) == ["___evil-2.md", "___evil.md"]  # noqa: ASYNC240


async def test_copy_goes_to_a_file_as_well(start: Start, tmp_path: Path) -> None:
    async with start(make_report()) as (app, pilot):
        await pilot.press("y")
        await pilot.pause()
        assert "copy" in app.clipboard
    assert list((tmp_path / "home").rglob("copied.md"))


async def test_a_real_report(start: Start, reports: Path) -> None:
    file = reports / "ncu" / "Lashi0812__CudaProgramming__smemTranspose.ncu-rep"
    if not file.exists():
        pytest.skip("not there")
    async with start(file) as (app, pilot):
        assert [entry.title for entry in app.library.entries][:1] == ["naiveGmem"]
        assert "L2" in page(app)
        for key in ("2", "4", "1"):
            await pilot.press(key)
            await settle(app, pilot)
        assert app.screen is app.main
