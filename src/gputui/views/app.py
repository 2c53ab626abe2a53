"""The application: it opens reports and diagnoses kernels in workers, keeps what they found, and tells the screens.

Workers never touch a widget: they post finished results, stamped with the generation they belong to.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from textual import events, work
from textual._compositor import CompositorUpdate
from textual.app import App, SystemCommand
from textual.markup import escape
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input
from textual.worker import Worker, WorkerState, get_current_worker

from gputui.errors import EXIT_INTERRUPTED, EXIT_NO, EXIT_USAGE, GputuiError
from gputui.render.files import write_whole
from gputui.views import actions, settings
from gputui.views.cells import Cells
from gputui.views.comparing import Compared, Comparing
from gputui.views.escape import shorten_wait
from gputui.views.glyphs import glyphs
from gputui.views.guide import Guide, Proposer
from gputui.views.library import (
    Backlog,
    Entry,
    Library,
    LoadedReport,
    content_of,
    explain,
    link_all,
    load,
    summed,
)
from gputui.views.messages import (
    CommandEnded,
    CommandsPlanned,
    ExplanationWritten,
    ExtrasRead,
    KernelsDiagnosed,
    KernelsLinked,
    KernelsProposed,
    KernelsSummed,
    LoadFinished,
    LoadProgressed,
    MachineChecked,
    MetricsRead,
    RangeRead,
    ReportFailed,
    ReportOpened,
    SidesCompared,
    SourceRead,
    TimelineExplained,
)
from gputui.views.screens.compare import CompareScreen
from gputui.views.screens.error import ErrorScreen
from gputui.views.screens.help import HelpScreen
from gputui.views.screens.loading import LoadingScreen
from gputui.views.screens.main import MainScreen
from gputui.views.screens.run import RunScreen
from gputui.views.text import shown
from gputui.views.themes import THEMES
from gputui.wording import LANGUAGES, READER_LEVELS, ReaderLevel, wording

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.widget import Widget

    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.source import Source
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.model.report import Extras, Report
    from gputui.run.session import Session
    from gputui.views.messages import Keep

_THEME_BY_NAME = {theme.name: theme for theme in THEMES}
_LOG = logging.getLogger("gputui")
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_EXIT = 2.0
_LEAST_SUMMED_BYTES = 20_000_000
"""What is smaller opens in a moment."""
_KEPT_SOURCES = 32
"""Kernels whose lines are kept: those of one may take 10 MB."""


class GputuiApp(App[int]):
    """``sources`` are files, folders or reports already open; ``level`` is the reader's, ``None`` to fit the kernel;
    ``session`` is a run to lead through before there are any, with ``means`` as ``Guide`` has them; ``compared`` are
    the paths of a base and of what to compare with it."""

    CSS_PATH = "app.tcss"
    TITLE = "gputui"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar = actions.bindings("app")

    def __init__(
        self,
        sources: Sequence[Path | str | Report],
        *,
        language: str = "en",
        level: ReaderLevel | None = None,
        ascii: bool = False,
        session: Session | None = None,
        compared: tuple[Sequence[Path], Sequence[Path]] | None = None,
        **means: Any,
    ) -> None:
        super().__init__()
        remembered = settings.remembered()
        kept = remembered.get("level")
        # Without Unicode there is no Japanese either.
        self.words = wording("en" if ascii or language not in LANGUAGES else language)
        self.ascii = ascii
        self.signs = glyphs(ascii)
        self.level: ReaderLevel | None = level or next((one for one in READER_LEVELS if one == kept), None)
        self.library = Library()
        self.diagnoses: dict[int, Diagnosis] = {}
        self.extras: dict[int, Extras] = {}
        self.sources: dict[int, Source | None] = {}
        self._sources_asked: set[int] = set()
        self.backlog = Backlog()
        self.is_diagnosing = False
        self.was_stopped = False
        self.owns_process = False
        """Whether nothing is left to do once the application is closed."""
        self.generation = 0
        self._compared = compared
        self._sources: list[Path | str | Report] = []
        for source in (*sources, *(path for side in compared or () for path in side)):
            if source not in self._sources:
                self._sources.append(source)
        self._stop_loading = threading.Event()
        self._reading = threading.Lock()
        self._next_sources: list[Path | str | Report] = []
        self._is_loading = False
        self._main = MainScreen(self)
        self._loading: LoadingScreen | None = None
        self._cells = Cells()
        self._pressed_in: WeakKeyDictionary[events.Key, Widget | None] = WeakKeyDictionary()
        self.guide = Guide(self, session, **means)
        self.comparing = Comparing(self)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = (
            remembered.get("theme", "") if remembered.get("theme") in {t.name for t in THEMES} else THEMES[0].name
        )
        self.animation_level = "none"

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(
            screen, self._cells.changes(renderable) if isinstance(renderable, CompositorUpdate) else renderable
        )

    def on_resize(self) -> None:
        self._cells.forget()

    def action_redraw(self) -> None:
        """Send all of the screen again: another program may have written on it."""
        self._cells.forget()
        self.screen.refresh(layout=True)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._pressed_in[event] = self.focused
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """Textual gives a key to what has the focus when it comes. Keys that came in one packet behind one that moves
        the focus ("/gemm") are given on, or they would act on what had it before."""
        focused = self.focused
        if focused is not None and self._pressed_in.get(event, focused) is not focused:
            event.prevent_default()
            focused._forward_event(events.Key(event.key, event.character))

    def get_theme(self, theme_name: str) -> Theme | None:
        """Textual asks for the theme at every line it paints, and would sort all themes to answer."""
        return _THEME_BY_NAME.get(theme_name) or super().get_theme(theme_name)

    @property
    def main(self) -> MainScreen:
        return self._main

    def on_mount(self) -> None:
        self.app_resume_signal.subscribe(self, lambda _: self._cells.forget())
        if threading.current_thread() is threading.main_thread():
            # Without this they would leave the terminal in raw mode.
            for number in _END_SIGNALS:
                asyncio.get_running_loop().add_signal_handler(number, self._exit_by_signal)
        _keep_for_good()
        self.push_screen(self._main)
        if self.guide.session is not None:
            self.guide.begin()
            return
        self._loading = LoadingScreen(self.words, ascii=self.ascii)
        self.push_screen(self._loading)
        self.open(self._sources)

    def open(self, sources: Sequence[Path | str | Report]) -> None:
        """Open more, after what is being opened."""
        self._next_sources += sources
        if not self._is_loading:
            self._stop_loading.clear()
            self._load_next()

    def _load_next(self) -> None:
        self._is_loading = True
        sources, self._next_sources = tuple(self._next_sources), []
        self.load_all(self.generation, sources, len(self.library.reports), len(self.library.entries))

    def _exit_by_signal(self) -> None:
        # When the terminal is gone (SSH dropped), Textual's writer thread has died of its first write and
        # the driver may wait for it for ever.
        _end_process_soon(EXIT_INTERRUPTED)
        self.exit(EXIT_INTERRUPTED)

    def on_unmount(self) -> None:
        """Stop what still runs, then let go of the files."""
        if self.owns_process:
            # Python waits for threads, and numpy cannot be stopped while it sorts ten million kernels.
            _end_process_soon(self.return_value or self.return_code or 0)
        self._stop_loading.set()
        self.backlog.clear()
        for loaded in self.library.reports:
            loaded.report.close()
        for number in _END_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    # -------------------------------------------------------------- workers

    @work(thread=True, exclusive=True, group="load", exit_on_error=False)
    def load_all(self, generation: int, sources: tuple[Path | str | Report, ...], opened: int, entries: int) -> None:
        """Open everything, one after the other, beside so many reports and kernels; what cannot be opened is told and
        left out."""
        from gputui.formats.together import open_all

        begun = {source.path for source in sources if not isinstance(source, str | Path)}

        def progress(path: str, done: int, total: int) -> bool:
            self.post_message(LoadProgressed(generation, path, done, total))
            if path not in begun:
                begun.add(path)
                self._sum_kernels(generation, path)
            return not self._stop_loading.is_set()

        for found in open_all(sources, progress):
            try:
                if isinstance(found, GputuiError):
                    raise found
                loaded = load(found, opened, entries)
            except GputuiError as error:
                self.post_message(ReportFailed(generation, error))
                continue
            opened, entries = opened + 1, entries + len(loaded.entries)
            _keep_for_good()
            self.post_message(ReportOpened(generation, loaded))
        self.post_message(LoadFinished(generation, self._stop_loading.is_set()))

    def _sum_kernels(self, generation: int, path: str) -> None:
        """What kernels a large file holds, long before it is open. Of one that cannot be read, opening it tells.

        For the worker that is about to open it: beside that one, both would be slower.
        """
        from gputui.formats import nsys_export_of
        from gputui.formats.nsys_sqlite import kernel_sums

        def goes_on(done: int, total: int) -> bool:
            self.post_message(LoadProgressed(generation, path, done, total))
            return not self._stop_loading.is_set()

        with suppress(GputuiError, OSError):
            export = None if self._loading is None else nsys_export_of(Path(path))
            if export is None or export.stat().st_size < _LEAST_SUMMED_BYTES:
                return
            sums = kernel_sums(export, goes_on)
            if sums and not self._stop_loading.is_set():
                self.post_message(KernelsSummed(generation, summed(path, sums)))

    @work(thread=True, exclusive=True, group="diagnose", exit_on_error=False)
    def diagnose_all(self, generation: int) -> None:
        """Work off the backlog, the wanted kernel first."""
        from gputui.analysis.engine import diagnoser, prepare

        worker = get_current_worker()

        def goes_on() -> bool:
            return not worker.is_cancelled

        diagnosers = {}
        while goes_on() and (batch := self.backlog.take()):
            # The reports are told apart by position: this list only grows.
            chosen = [self.library.entries[number] for number in batch if number not in self.diagnoses]
            found: dict[int, Diagnosis] = {}
            with self._reading:
                for number in dict.fromkeys(entry.report for entry in chosen):
                    loaded = self.library.reports[number]
                    if number not in diagnosers:
                        diagnosers[number] = diagnoser(loaded.report)
                    kernels = [entry.kernel for entry in chosen if entry.report == number]
                    prepare(loaded.report, kernels, lambda done, total: goes_on())
                for entry in chosen:
                    if not goes_on():
                        return
                    found[entry.number] = diagnosers[entry.report](entry.kernel)
            _keep_for_good()
            self.post_message(KernelsDiagnosed(generation, found))

    @work(thread=True, exclusive=True, group="links", exit_on_error=False)
    def _link(self, generation: int, library: Library) -> None:
        self.post_message(KernelsLinked(generation, link_all(library)))

    @work(thread=True, group="timeline", exit_on_error=False)
    def _explain_timeline(self, generation: int, loaded: LoadedReport, number: int) -> None:
        explained = explain(loaded)
        _keep_for_good()
        self.post_message(TimelineExplained(generation, number, explained))

    @work(thread=True, exclusive=True, group="range", exit_on_error=False)
    def _read_range(
        self, generation: int, loaded: LoadedReport, number: int, path: tuple[str, ...], rows: Sequence[int]
    ) -> None:
        self.post_message(RangeRead(generation, content_of(loaded, number, path, rows)))

    @work(thread=True, exclusive=True, group="explain", exit_on_error=False)
    def _write_explanation(
        self, generation: int, report: Report, diagnosis: TimelineDiagnosis, level: ReaderLevel, keep: Keep
    ) -> None:
        from gputui.analysis.timeline_tables import select
        from gputui.render.timeline_markdown import timeline_markdown

        text = timeline_markdown(report, diagnosis, select(diagnosis), self.words, level)
        self.post_message(ExplanationWritten(generation, text, report.path, keep))

    @work(thread=True, exclusive=True, group="compare", exit_on_error=False)
    def compare_sides(self, asked: int, compare: Callable[[], tuple[Compared, ...]]) -> None:
        self.post_message(SidesCompared(asked, compare()))

    @work(thread=True, exclusive=True, group="extras", exit_on_error=False)
    def _read_extras(self, generation: int, entry: Entry) -> None:
        extras = self.library.report_of(entry).report.source.extras(entry.kernel.index)
        self.post_message(ExtrasRead(generation, entry.number, extras))

    @work(thread=True, exclusive=True, group="metrics", exit_on_error=False)
    def _read_metrics(self, generation: int, entry: Entry) -> None:
        if get_current_worker().is_cancelled:
            return
        with self._reading:
            metrics = entry.kernel.metrics()
            extras = self.library.report_of(entry).report.source.extras(entry.kernel.index)
        self.post_message(MetricsRead(generation, entry.number, metrics, extras))

    @work(thread=True, group="source", exit_on_error=False)
    def _read_source(self, generation: int, entry: Entry) -> None:
        from gputui.analysis.source import Source

        try:
            listing = self.library.report_of(entry).report.source.source(entry.kernel.index)
        finally:
            self._sources_asked.discard(entry.number)
        self.post_message(SourceRead(generation, entry.number, None if listing is None else Source(listing)))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """The one place where a worker's error becomes words; it never ends the application."""
        worker = event.worker
        if worker.group == "diagnose":
            running = event.state in (WorkerState.PENDING, WorkerState.RUNNING)
            if not running and len(self.backlog):
                self._start_diagnosing()
            elif running != self.is_diagnosing:
                self.is_diagnosing = running
                self._main.show_diagnoses({})
        if event.state is WorkerState.ERROR:
            error = worker.error
            _LOG.error("worker %s failed", worker.name, exc_info=error)
            if worker.group == "diagnose":
                self.backlog.clear()
                self.comparing.stop()
            if worker.group == "load":
                self._is_loading = False
            if worker.group == "compare":
                self.comparing.close()
            self._show_failure(error)

    def _show_failure(self, error: BaseException | None) -> None:
        if not isinstance(error, GputuiError):
            error = GputuiError("gputui", f"{type(error).__name__}: {error}", self.words.ui("bug_hint"))
        if self.guide.is_open:
            self.guide.fail(error)
        elif self.library.reports:
            self.notify(shown(str(error), 300), severity="error", markup=False)
        else:
            self._show_error(error)

    # -------------------------------------------------------------- what workers bring

    def on_load_progressed(self, event: LoadProgressed) -> None:
        if event.generation == self.generation and self._loading is not None:
            self._loading.body.show(shown(Path(event.path).name), event.done, event.total)
        if self.guide.screen is not None:
            self.guide.screen.show_reading(shown(Path(event.path).name), event.done, event.total)

    def on_kernels_summed(self, event: KernelsSummed) -> None:
        if event.generation == self.generation and self._loading is not None:
            self._loading.show_kernels(event.kernels)

    def on_report_opened(self, event: ReportOpened) -> None:
        if event.generation != self.generation:
            event.loaded.report.close()
            return
        self.library.add(event.loaded)
        self._close_loading()
        by_time = sorted(event.loaded.entries, key=lambda entry: -(entry.duration_ns or 0.0))
        self.backlog.add(entry.number for entry in by_time if entry.timed is None)
        self._main.show_report()
        if len(self.backlog):
            self._start_diagnosing()
        if event.loaded.facts is not None:
            self._explain_timeline(self.generation, event.loaded, len(self.library.reports) - 1)
        else:
            self._start_linking()

    def on_report_failed(self, event: ReportFailed) -> None:
        if event.generation == self.generation:
            self.library.failures.append(event.error)
            self._main.show_notices()

    def on_load_finished(self, event: LoadFinished) -> None:
        if event.generation != self.generation:
            return
        self.was_stopped = event.stopped
        self._is_loading = False
        if self._next_sources:
            self._load_next()
        elif self.guide.is_open:
            self._main.show_notices()
            self.guide.loaded()
        elif self.library.reports:
            self._main.show_notices()
            if self._compared is not None:
                self.comparing.open_paths(*self._compared)
                self._compared = None
        elif event.stopped:
            self.exit(EXIT_NO)
        elif self.library.failures:
            self._show_error(self.library.failures[0])
        else:
            self._show_error(GputuiError("gputui", self.words.ui("nothing_to_open")))

    def on_kernels_diagnosed(self, event: KernelsDiagnosed) -> None:
        if event.generation == self.generation:
            self.diagnoses.update(event.diagnoses)
            self._main.show_diagnoses(event.diagnoses)
            self.comparing.advance()

    def on_kernels_linked(self, event: KernelsLinked) -> None:
        if event.generation == self.generation:
            self.library.links = event.links
            self._main.show_links()

    def on_range_read(self, event: RangeRead) -> None:
        if event.generation == self.generation:
            self._main.show_range(event.content)

    def on_timeline_explained(self, event: TimelineExplained) -> None:
        if event.generation == self.generation:
            self.library.timelines[event.report] = event.explained
            self._main.show_timeline(event.report, event.explained)
            self._start_linking()
            self.guide.advance()
            self.comparing.advance()

    def on_sides_compared(self, event: SidesCompared) -> None:
        self.comparing.answered(event.asked, event.found)

    def on_machine_checked(self, event: MachineChecked) -> None:
        self.guide.checked()

    def on_kernels_proposed(self, event: KernelsProposed) -> None:
        self.guide.proposed(event.proposals, event.then)

    def on_commands_planned(self, event: CommandsPlanned) -> None:
        self.guide.planned(event.commands)

    def on_command_ended(self, event: CommandEnded) -> None:
        self.guide.ended(event.result)

    def on_explanation_written(self, event: ExplanationWritten) -> None:
        if event.generation == self.generation:
            self.keep(event.text, Path(event.path).name, event.keep)

    def on_extras_read(self, event: ExtrasRead) -> None:
        if event.generation == self.generation:
            self.extras[event.entry] = event.extras
            self._main.show_extras(event.entry, event.extras)

    def on_metrics_read(self, event: MetricsRead) -> None:
        if event.generation == self.generation:
            self.extras[event.entry] = event.extras
            self._main.show_metrics(event.entry, event.metrics, event.extras)

    def on_source_read(self, event: SourceRead) -> None:
        if event.generation == self.generation:
            while len(self.sources) >= _KEPT_SOURCES:
                del self.sources[next(iter(self.sources))]
            self.sources[event.entry] = event.source
            self._main.show_source(event.entry)

    def _close_loading(self) -> None:
        if self._loading is not None:
            self._loading.close()
            self._loading = None

    def _show_error(self, error: GputuiError) -> None:
        self._close_loading()
        self._return_value = EXIT_USAGE
        self.push_screen(ErrorScreen(self.words, error, ascii=self.ascii))

    def _start_linking(self) -> None:
        """Find the timelines' kernels in the ncu reports, where both are open."""
        if self.library.timelines and any(entry.timed is None for entry in self.library.entries):
            self._link(self.generation, replace(self.library, entries=list(self.library.entries)))

    def _start_diagnosing(self) -> None:
        running = any(worker.group == "diagnose" and not worker.is_finished for worker in self.workers)
        if not running:
            self.is_diagnosing = True
            self.diagnose_all(self.generation)

    # -------------------------------------------------------------- what screens ask for

    def want(self, entry: Entry) -> None:
        """Have this kernel's verdict next."""
        if entry.number not in self.diagnoses:
            self.backlog.want(entry.number)
            self._start_diagnosing()

    def diagnose_missing(self, reports: Iterable[int]) -> None:
        """Have the verdicts of all kernels of these reports, whatever was stopped before."""
        entries = (entry for number in reports for entry in self.library.reports[number].entries)
        self.backlog.add(one.number for one in entries if one.timed is None and one.number not in self.diagnoses)
        if len(self.backlog):
            self._start_diagnosing()

    def read_extras(self, entry: Entry) -> None:
        if entry.number not in self.extras:
            self._read_extras(self.generation, entry)

    def read_metrics(self, entry: Entry) -> None:
        self._read_metrics(self.generation, entry)

    def read_source(self, entry: Entry) -> None:
        if entry.number not in self.sources and entry.number not in self._sources_asked:
            self._sources_asked.add(entry.number)
            self._read_source(self.generation, entry)

    def read_range(self, loaded: LoadedReport, path: tuple[str, ...], rows: Sequence[int]) -> None:
        """Find out what these NVTX ranges of one path launched."""
        self._read_range(self.generation, loaded, self.library.reports.index(loaded), path, rows)

    def set_status(self, status: int) -> None:
        """The exit status, were the user to quit now."""
        self._return_value = status

    def set_level(self, level: ReaderLevel | None) -> None:
        """Whom the advice is for; ``None`` goes back to what fits each kernel."""
        self.level = level
        settings.remember("level", level or "")

    def explain(self, entry: Entry, level: ReaderLevel, keep: Keep) -> None:
        """Copy or save what is said of a kernel."""
        text = self._markdown(entry, level)
        if text is not None:
            self.keep(text, entry.kernel.name, keep)

    def explain_timeline(self, loaded: LoadedReport, level: ReaderLevel, keep: Keep) -> None:
        """Copy or save what is said of a timeline, once it is written."""
        explained = self.library.explained(loaded)
        if explained is None:
            self.notify(self.words.ui("verdict_pending"), markup=False)
            return
        self._write_explanation(self.generation, loaded.report, explained.diagnosis, level, keep)

    def keep(self, text: str, name: str, keep: Keep) -> None:
        """Copy a text, or save it under this name."""
        if keep == "copy":
            self.copy(text)
        else:
            self._save(text, name)

    def copy(self, text: str) -> None:
        """To the clipboard by OSC 52, which not every terminal obeys: so to a file as well, and say which."""
        self.copy_to_clipboard(text)
        path = None
        # Without a home there is no file either.
        with suppress(RuntimeError):
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            path = self._write(cache / "gputui" / "copied.md", text, overwrite=True)
        key = "copied" if path is None else "copied_and_file"
        self.notify(self.words.ui(key, path=shown(str(path))), markup=False)

    def _save(self, text: str, name: str) -> None:
        name = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[:60] or "kernel"
        path = self._write(Path(f"{name}.md"), text, overwrite=False)
        if path is None:
            self.notify(self.words.ui("not_saved", path=shown(f"{name}.md")), severity="error", markup=False)
        else:
            self.notify(self.words.ui("saved", path=shown(os.path.abspath(path))), markup=False)

    def _markdown(self, entry: Entry, level: ReaderLevel) -> str | None:
        from gputui.analysis.nvidia_rules import relate_all
        from gputui.render.markdown import kernel_markdown

        diagnosis = self.diagnoses.get(entry.number)
        if diagnosis is None:
            self.notify(self.words.ui("verdict_pending"), markup=False)
            return None
        extras = self.extras.get(entry.number)
        remarks = () if extras is None else relate_all(extras.rules, diagnosis)
        source = self.sources.get(entry.number)
        return kernel_markdown(diagnosis, self.words, level, source=source, remarks=remarks)

    def _write(self, path: Path, text: str, *, overwrite: bool) -> Path | None:
        """The file written, under a free name unless it may be overwritten; ``None`` where that fails."""
        stem, number = path.stem, 2
        while not overwrite and path.exists():
            path = path.with_name(f"{stem}-{number}.md")
            number += 1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError:
            return None
        return path

    # -------------------------------------------------------------- actions

    def action_stop(self) -> None:
        """Stop the program that is profiled, or loading and diagnosing, and keep what there is."""
        if self.guide.page == "running" and self.guide.is_open:
            self.guide.stop()
            return
        self._stop_loading.set()
        self.backlog.clear()
        self.comparing.stop()

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            screen = self.screen
            pane = screen.pane if isinstance(screen, MainScreen | RunScreen | CompareScreen) else actions.KERNELS
            offered = screen.offered if isinstance(screen, RunScreen | CompareScreen) else None
            self.push_screen(HelpScreen(self.words, self.signs, pane, offered, ascii=self.ascii))

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]
        settings.remember("theme", self.theme)

    def action_next_language(self) -> None:
        """Build the main screen anew in the next language; what is known and selected stays."""
        if self.ascii:
            return
        language = LANGUAGES[(LANGUAGES.index(self.words.language) + 1) % len(LANGUAGES)]
        self.words = wording(language)
        old, self._main = self._main, MainScreen(self)
        self._main.take_over(old)
        self.switch_screen(self._main)

    async def action_quit(self) -> None:
        if not self.guide.may_quit():
            return
        self._stop_loading.set()
        self.backlog.clear()
        self.exit(self._return_value or 0)

    def action_command_palette(self) -> None:
        super().action_command_palette()
        self.call_after_refresh(self._calm_palette)

    def _calm_palette(self) -> None:
        for field in self.screen.query(Input):
            field.cursor_blink = False

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what the table of keys offers, with its key."""
        if not isinstance(screen, MainScreen | CompareScreen):
            return
        elsewhere = ("main", "language") if isinstance(screen, CompareScreen) else ("compare",)
        for action in actions.ACTIONS:
            if action.in_palette and not {action.scope, action.id} & set(elsewhere):
                key = f"   {action.key_text(ascii=self.ascii)}" if action.keys else ""
                yield SystemCommand(
                    self.words.ui(f"footer.{action.id}"),
                    escape(f"{self.words.ui(f'action.{action.id}')}{key}"),  # the palette reads it as markup
                    self._runner(action, screen),
                )

    def _runner(self, action: actions.Action, screen: MainScreen | CompareScreen):  # type: ignore[no-untyped-def]
        async def run() -> None:
            node = self if action.scope == "app" else screen
            await self.run_action(action.call, default_namespace=node)

        return run


def _keep_for_good() -> None:
    """What there is now lives as long as the session: modules, reports and what is said of them. Looked through again
    and again by the garbage collector, they would hold up the screen, for 170 ms at a time where there are 5,000
    kernels."""
    gc.freeze()


def _end_process_soon(status: int) -> None:
    deadline = threading.Timer(_SECONDS_TO_EXIT, os._exit, (status,))
    deadline.daemon = True
    deadline.start()


def _tell_kept(app: GputuiApp) -> None:
    """What was run and where that is kept, on the terminal as it was before."""
    from gputui.render.run_text import kept_line

    # The terminal may be gone.
    with suppress(OSError):
        for path, has_reports in app.guide.kept:
            sys.stdout.write(f"{kept_line(path, app.words, has_reports=has_reports)}\n")


def run(
    paths: Sequence[Path | str | Report],
    *,
    language: str = "en",
    level: ReaderLevel | None = None,
    ascii: bool = False,
    mouse: bool = True,
    **means: Any,
) -> int:
    """Show the reports until the user quits; the exit status. ``means`` to profile a kernel are those of ``Guide``."""
    return _run(GputuiApp(paths, language=language, level=level, ascii=ascii, **means), mouse=mouse)


def run_guided(
    session: Session,
    *,
    proposer: Proposer,
    language: str = "en",
    level: ReaderLevel | None = None,
    ascii: bool = False,
    mouse: bool = True,
    **means: Any,
) -> int:
    """Lead through a run, from the check of the machine to the explained kernels; the exit status.

    ``proposer`` says which kernels of a timeline to offer; further ``means`` as ``Guide`` has them.
    """
    app = GputuiApp((), language=language, level=level, ascii=ascii, session=session, proposer=proposer, **means)
    return _run(app, mouse=mouse)


def _run(app: GputuiApp, *, mouse: bool) -> int:
    app.owns_process = True
    shorten_wait()
    status = app.run(mouse=mouse)
    _tell_kept(app)
    # A crash leaves no value, only Textual's return code.
    return status if status is not None else app.return_code or 0
