"""The main screen: kernels, and the pages of the selected one. It owns what is selected, sorted, filtered and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from gputui import units
from gputui.analysis.nvidia_rules import relate_all
from gputui.render.lines import place_share, placed
from gputui.render.text import level_of
from gputui.views import actions, ordering
from gputui.views.paper import ROLE_CLASSES
from gputui.views.text import shown
from gputui.views.widgets.diagnosis import DiagnosisView, Subject
from gputui.views.widgets.empty import EmptyView
from gputui.views.widgets.footer import Footer
from gputui.views.widgets.header import Header
from gputui.views.widgets.kernel_list import SORTS, KernelList, KernelTable
from gputui.views.widgets.line_table import LineTable
from gputui.views.widgets.metrics import MetricsView
from gputui.views.widgets.notices import Notices
from gputui.views.widgets.prompt import Prompt
from gputui.views.widgets.roofline import RooflineSubject, RooflineView
from gputui.views.widgets.source import SourceView
from gputui.views.widgets.tabs import Tab, TabBar
from gputui.wording import READER_LEVELS, ReaderLevel

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.roofline import Point
    from gputui.model.metrics import Metric
    from gputui.model.report import Extras
    from gputui.views.app import GputuiApp
    from gputui.views.library import Entry

TABS = ("diagnosis", "roofline", "timeline", "metrics", "source")
_WIDE = 100
_EXTRA_WIDE = 160
_SMALLEST = (60, 15)
_MOST_POINTS = 300
"""Points on one roofline: more would only cover each other."""
_SETTLE_S = 0.08
"""A kernel that stays selected this long gets what must be read for it; one run past does not."""


class MainScreen(Screen[None]):
    COMPONENT_CLASSES = set(ROLE_CLASSES)
    BINDINGS = actions.bindings("main")
    AUTO_FOCUS: ClassVar[str | None] = "#kernel-table"

    def __init__(self, app: GputuiApp) -> None:
        super().__init__()
        self.host = app
        words, signs, ascii = app.words, app.signs, app.ascii
        self.header = Header()
        self.notices = Notices()
        self.kernels = KernelList(self._table_data(), id="kernels")
        self.tabs = TabBar()
        self.diagnosis = DiagnosisView(words, signs, id="diagnosis")
        self.roofline = RooflineView(words, signs, id="roofline")
        self.metrics = MetricsView(words, signs, ascii=ascii, id="metrics")
        self.source = SourceView(words, signs, ascii=ascii, id="source")
        self.pages: dict[str, Widget] = {
            "diagnosis": self.diagnosis,
            "roofline": self.roofline,
            "timeline": EmptyView(words.ui("no_timeline"), id="timeline"),
            "metrics": self.metrics,
            "source": self.source,
        }
        self.prompt = Prompt()
        self.footer = Footer(words)
        self.too_small = Static("", id="too-small", markup=False)
        for widget in (self.header, self.notices, self.tabs, self.footer, *self.pages.values()):
            widget.ascii = ascii  # type: ignore[attr-defined]
        self.set_class(ascii, "-ascii")
        self.tab = "diagnosis"
        self.query_text: dict[str, str] = {"kernels": "", "metrics": "", "source": ""}
        self._before_prompt = ""
        self._points: dict[int, tuple[Point, ...]] = {}
        self._start_row: int | None = None
        self._has_source = False
        """Whether the kernel last asked about has numbers by instruction: the Source tab is dim where it has none."""
        self._where = -1

    def take_over(self, old: MainScreen) -> None:
        """Stand where another main screen stood: same order, filter, kernel and page."""
        data, before = self.kernels.data, old.kernels.data
        data.sort, data.reversed, data.filter = before.sort, before.reversed, before.filter
        data.grouping, data.expanded = before.grouping, set(before.expanded)
        self._start_row, self.tab = old.kernels.table.row, old.tab
        self.diagnosis.unfolded = old.diagnosis.unfolded
        self.source.data.order, self._has_source = old.source.data.order, old._has_source

    def _table_data(self) -> KernelTable:
        data = KernelTable(self.host.library, self.host.diagnoses, self.host.words, self.host.signs)
        data.ascii = self.host.ascii
        return data

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.notices
        with Horizontal(id="body"):
            yield self.kernels
            with Vertical(id="detail"):
                yield self.tabs
                with ContentSwitcher(id="pages", initial=self.tab):
                    yield from self.pages.values()
        yield self.prompt
        yield self.footer
        yield self.too_small

    def on_mount(self) -> None:
        self._show_tabs()
        self._show_header()
        self.show_notices()
        if self.host.library.entries:
            self.kernels.update_rows(keep=self._start_row)

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        self.set_class(width < _WIDE, "-narrow")
        self.set_class(width >= _EXTRA_WIDE, "-xl")
        tiny = width < _SMALLEST[0] or height < _SMALLEST[1]
        self.set_class(tiny, "-tiny")
        if tiny:
            self.too_small.update(
                self.host.words.ui(
                    "too_small", width=width, height=height, least=_SMALLEST[0], least_height=_SMALLEST[1]
                )
            )
        self._fit_list(height)

    def _fit_list(self, height: int) -> None:
        """In the stacked layout the list takes what it needs, and at most a quarter; a chart needs more of the room."""
        if self.has_class("-narrow"):
            most = 3 if self.tab == "roofline" and height < 40 else max(4, height // 4)
            self.kernels.styles.height = min(len(self.kernels.table.rows) + 1, most)
        else:
            self.kernels.styles.height = None

    # -------------------------------------------------------------- what is selected

    @property
    def entry(self) -> Entry | None:
        """The selected kernel; on the header of a group, its first one."""
        row = self.kernels.table.row
        if row is None:
            return None
        return self.host.library.entries[row if row >= 0 else self.kernels.data.first_of(ordering.group_of(row))]

    @property
    def pane(self) -> str:
        """What has the focus, by the names that the table of keys uses."""
        focused = self.focused
        if self.prompt.display:
            return actions.PROMPT
        if focused is None or focused is self.kernels.table:
            return actions.KERNELS
        if focused is self.metrics.table:
            return actions.METRICS
        if focused is self.source.table:
            return actions.SOURCE
        return {"diagnosis": actions.DIAGNOSIS, "roofline": actions.ROOFLINE}.get(focused.id or "", actions.EMPTY)

    def level_for(self, diagnosis: Diagnosis | None) -> ReaderLevel:
        if self.host.level is not None:
            return self.host.level
        return level_of(diagnosis) if diagnosis is not None else "pytorch"

    # -------------------------------------------------------------- what the workers bring

    def show_report(self) -> None:
        """Another report has been opened."""
        first = self.kernels.table.row is None
        if len(self.host.library.reports) > 1 and not self.kernels.data.grouping:
            self.kernels.data.grouping = "file"
            self.kernels.data.expanded = set(range(len(self.host.library.reports)))
        elif self.kernels.data.grouping == "file":
            self.kernels.data.expanded.add(len(self.host.library.reports) - 1)
        self.kernels.update_rows()
        self._fit_list(self.size.height)
        self._show_header()
        self.show_notices()
        if first:
            self.select_changed()

    def show_diagnoses(self, found: Mapping[int, Diagnosis]) -> None:
        """Verdicts have arrived."""
        if self.kernels.data.sort == "verdict":
            self.kernels.update_rows()
        else:
            self.kernels.table.repaint(list(found))
        self._points.clear()
        entry = self.entry
        if entry is not None and entry.number in found:
            self.show_entry()
        elif self.tab == "roofline" and not self.host.is_diagnosing:
            self._show_roofline()
        self._show_header()

    def show_extras(self, entry: int, extras: Extras) -> None:
        if self.entry is not None and self.entry.number == entry:
            self.show_entry()

    def show_source(self, entry: int) -> None:
        """The lines of a kernel have been read."""
        if self.entry is not None and self.entry.number == entry:
            self.show_entry()
            self._update_source_tab()

    def _update_source_tab(self) -> None:
        """Dim the tab once it is known that it has nothing to show for this kernel."""
        entry = self.entry
        if entry is not None and entry.number in self.host.sources:
            has_source = self.host.sources[entry.number] is not None
            if has_source != self._has_source:
                self._has_source = has_source
                self._show_tabs()

    def show_metrics(self, entry: int, metrics: Mapping[str, Metric], extras: Extras) -> None:
        if self.entry is not None and self.entry.number == entry:
            self.metrics.show(entry, metrics, extras)

    # -------------------------------------------------------------- painting

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        event.stop()
        if event.table is self.kernels.table:
            self.select_changed()
        elif event.table is self.metrics.table:
            self.metrics.describe_row(event.row)
        else:
            self.source.describe_row(event.row)

    def select_changed(self) -> None:
        """Show the selected kernel at once as far as it is known; read the rest when the cursor rests."""
        entry = self.entry
        self._where = -1
        if entry is not None:
            self.host.want(entry)
            self.set_timer(_SETTLE_S, lambda: self._settled(entry))
        self.show_entry()
        self._update_source_tab()
        self._show_header()

    def _settled(self, entry: Entry) -> None:
        if self.entry is entry:
            self.host.read_extras(entry)
            self.host.read_source(entry)
            if self.tab == "metrics" and self.metrics.entry != entry.number:
                self.host.read_metrics(entry)

    def show_entry(self) -> None:
        """Paint the open page for the selected kernel."""
        entry = self.entry
        if self.tab == "diagnosis":
            subject = None
            if entry is not None:
                diagnosis = self.host.diagnoses.get(entry.number)
                extras = self.host.extras.get(entry.number)
                remarks = relate_all(extras.rules, diagnosis) if extras is not None and diagnosis is not None else ()
                source = self.host.sources.get(entry.number)
                subject = Subject(entry, diagnosis, extras, self.level_for(diagnosis), source, remarks)
            self.diagnosis.show(subject)
        elif self.tab == "roofline":
            self._show_roofline()
        elif self.tab == "source":
            self._show_source()

    def _show_source(self) -> None:
        entry = self.entry
        if entry is None:
            self.source.show(None, None, is_pending=False)
            return
        known = self.host.sources
        self.source.show(entry.number, known.get(entry.number), is_pending=entry.number not in known)

    def _show_roofline(self) -> None:
        entry = self.entry
        if entry is None:
            self.roofline.show(None)
            return
        report = self.host.library.report_of(entry)
        if entry.report not in self._points:
            self._points[entry.report] = points_of(report.entries, self.host.diagnoses)
        diagnosis = self.host.diagnoses.get(entry.number)
        self.roofline.show(RooflineSubject(entry, diagnosis, self._points[entry.report], report.total_ns))

    def _show_header(self) -> None:
        words, library = self.host.words, self.host.library
        entry = self.entry
        if not library.reports:
            self.header.show("", (), "")
            return
        loaded = library.report_of(entry) if entry is not None else library.reports[0]
        report = loaded.report
        device = entry.kernel.device if entry is not None else next(iter(report.devices), None)
        facts = []
        if device is not None:
            facts.append(shown(device.name.removeprefix("NVIDIA ").removeprefix("GeForce "), 40))
            if device.architecture:
                facts.append(f"{device.architecture} {device.capability_text}")
        if report.tool_version:
            facts.append(f"ncu {shown('.'.join(report.tool_version.split('.')[:2]), 20)}")
        facts.append(words.ui("kernel_count", count=len(loaded.entries)))
        if loaded.total_ns is not None:
            facts.append(units.duration(loaded.total_ns))
        file = loaded.name
        if len(library.reports) > 1:
            file = f"{file} ({loaded.entries[0].report + 1 if loaded.entries else 1}/{len(library.reports)})"
        level = words.ui(f"level.{self.level_for(self.host.diagnoses.get(entry.number) if entry else None)}")
        right = f"L: {level}  {words.language}"
        if self.host.is_diagnosing:
            right = words.ui("verdicts", done=len(self.host.diagnoses), total=len(library.entries)) + "  " + right
        self.header.show(file, facts, right)

    def show_notices(self) -> None:
        words, library = self.host.words, self.host.library
        several = len(library.reports) + len(library.failures) > 1
        texts = []
        for failure in library.failures:
            texts.append(
                words.ui("not_opened", file=shown(failure.title.rsplit("/", 1)[-1]), why=shown(failure.message))
            )
        for loaded in library.reports:
            lead = f"{loaded.name}: " if several else ""
            texts += [f"{lead}{shown(words.notice(notice))}" for notice in loaded.report.notices]
            if loaded.report.truncated and not any(notice.id == "truncated" for notice in loaded.report.notices):
                texts.append(lead + words.ui("truncated"))
        if self.host.was_stopped:
            texts.append(words.ui("stopped"))
        self.notices.show(texts, words.ui("more_notices", count=len(texts) - Notices.MOST))

    def _show_tabs(self) -> None:
        words = self.host.words
        self.tabs.show(
            [Tab(id, str(number), words.ui(f"tab.{id}"), self._has_data(id)) for number, id in enumerate(TABS, 1)],
            self.tab,
        )

    def _has_data(self, tab: str) -> bool:
        return tab != "timeline" and (tab != "source" or self._has_source)

    def on_descendant_focus(self) -> None:
        self._show_footer()

    def _show_footer(self) -> None:
        words = self.host.words
        status = []
        rows = self.kernels.data
        if rows.filter:
            status.append(
                words.ui("filtered", text=shown(rows.filter, 24), count=int((self.kernels.table.rows >= 0).sum()))
            )
        if self.query_text["kernels"]:
            status.append(f"/{shown(self.query_text['kernels'], 24)}")
        self.footer.show(self.pane, "  ".join(status))

    # -------------------------------------------------------------- actions: panes and tabs

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        self.action_show_tab(event.tab)

    def action_show_tab(self, tab: str) -> None:
        in_detail = self.focused is not None and self.focused is not self.kernels.table
        self.tab = tab
        self._fit_list(self.size.height)
        self.query_one(ContentSwitcher).current = tab
        self._show_tabs()
        self.show_entry()
        entry = self.entry
        if tab == "metrics" and entry is not None and self.metrics.entry != entry.number:
            self.host.read_metrics(entry)
        if tab == "source" and entry is not None:
            self.host.read_source(entry)
        if in_detail or tab in ("metrics", "source"):
            self._detail_target().focus()
        self._show_footer()

    def _detail_target(self) -> Widget:
        tables: dict[str, Widget] = {"metrics": self.metrics.table, "source": self.source.table}
        return tables.get(self.tab) or self.pages[self.tab]

    def action_next_pane(self) -> None:
        on_list = self.focused is None or self.focused is self.kernels.table
        (self._detail_target() if on_list else self.kernels.table).focus()

    def action_previous_pane(self) -> None:
        self.action_next_pane()

    def action_step_kernel(self, step: int) -> None:
        self.kernels.table.move_to(self.kernels.table.cursor + step)

    def action_unfold(self) -> None:
        if self.pane == actions.METRICS:
            self.metrics.unfold()
            return
        if self.pane == actions.SOURCE:
            self.source.toggle_line()
            return
        row = self.kernels.table.row
        if self.pane == actions.KERNELS and row is not None and row < 0:
            self.kernels.data.toggle(ordering.group_of(row))
            self.kernels.update_rows()
            self._fit_list(self.size.height)
            return
        if self.tab != "diagnosis":
            self.action_show_tab("diagnosis")
        self.diagnosis.toggle_evidence()

    def action_where(self) -> None:
        """Go to the line that the first finding is about; from there to the next one's."""
        entry = self.entry
        if entry is None:
            return
        words = self.host.words
        diagnosis = self.host.diagnoses.get(entry.number)
        if diagnosis is None or entry.number not in self.host.sources:
            self.host.read_source(entry)
            self.notify(words.text("source.pending"), markup=False)
            return
        source = self.host.sources[entry.number]
        findings = () if diagnosis is None else (*diagnosis.main, *diagnosis.further, *diagnosis.effects)
        found = [(one, place) for one in findings if (place := placed(source, one)) is not None]
        if self.tab != "source":
            self._where = -1
            self.action_show_tab("source")
        if source is None:
            return  # The page says why.
        if not found:
            self.notify(words.text("source.no_place"), markup=False)
            return
        self._where = (self._where + 1) % len(found)
        finding, place = found[self._where]
        self.source.go_to(place.line, f"{words.finding_name(finding.id)}: {place_share(place, words)}")

    def action_next_level(self) -> None:
        entry = self.entry
        diagnosis = self.host.diagnoses.get(entry.number) if entry else None
        fitting = level_of(diagnosis) if diagnosis is not None else "pytorch"
        # Through the other levels, then back to what fits the kernel.
        others: list[ReaderLevel | None] = [level for level in READER_LEVELS if level != fitting]
        steps = [None, *others]
        now = steps.index(self.host.level) if self.host.level in steps else 0
        self.host.set_level(steps[(now + 1) % len(steps)])
        self.show_entry()
        self._show_header()

    # -------------------------------------------------------------- actions: the list

    def action_sort(self) -> None:
        if self.pane == actions.SOURCE:
            self.source.next_order()
            return
        data = self.kernels.data
        data.sort = SORTS[(SORTS.index(data.sort) + 1) % len(SORTS)]
        data.reversed = False
        self.kernels.update_rows()

    def action_reverse(self) -> None:
        self.kernels.data.reversed = not self.kernels.data.reversed
        self.kernels.update_rows()

    def action_group(self) -> None:
        """Launches one by one, then together by name, then (where several are open) by file."""
        data = self.kernels.data
        modes = ["", "name", "file"] if len(self.host.library.reports) > 1 else ["", "name"]
        data.grouping = modes[(modes.index(data.grouping) + 1) % len(modes)]
        data.expanded = set(range(len(self.host.library.reports))) if data.grouping == "file" else set()
        entry = self.entry
        self.kernels.update_rows(keep=entry.number if entry is not None and not data.grouping else None)
        self._fit_list(self.size.height)

    # -------------------------------------------------------------- actions: search and filter

    @property
    def _searched(self) -> str:
        return {actions.METRICS: "metrics", actions.SOURCE: "source"}.get(self.pane, "kernels")

    def _table_of(self, target: str) -> LineTable:
        return {"metrics": self.metrics.table, "source": self.source.table}.get(target, self.kernels.table)

    def action_search(self) -> None:
        self._open_prompt("search")

    def action_filter(self) -> None:
        self._open_prompt("filter")

    def _open_prompt(self, kind: str) -> None:
        target = self._searched
        text = self._filter_of(target) if kind == "filter" else ""
        self._before_prompt = text if kind == "filter" else self.query_text[target]
        words = self.host.words
        self.prompt.open(f"{kind} {target}", words.ui(f"prompt.{kind}"), words.ui(f"prompt.{kind}_{target}"), text)

    def _filter_of(self, target: str) -> str:
        filters = {"metrics": self.metrics.data.filter, "source": self.source.data.filter}
        return filters.get(target, self.kernels.data.filter)

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        kind, target = event.kind.split()
        self._apply(kind, target, event.text)

    def on_prompt_closed(self, event: Prompt.Closed) -> None:
        kind, target = event.kind.split()
        if not event.kept:
            self._apply(kind, target, self._before_prompt)
        elif kind == "search" and self.query_text[target] and not self._has_match(target):
            self.notify(self.host.words.ui("no_match", text=shown(self.query_text[target], 40)), markup=False)
        self._table_of(target).focus()
        self._show_footer()

    def _apply(self, kind: str, target: str, text: str) -> None:
        text = text.casefold()
        if kind == "filter":
            if target == "metrics":
                self.metrics.data.filter = text
                self.metrics.update_rows()
            elif target == "source":
                self.source.data.filter = text
                self.source.update_rows()
            else:
                self.kernels.data.filter = text
                self.kernels.update_rows()
                self._fit_list(self.size.height)
            return
        self.query_text[target] = text
        table = self._table_of(target)
        table.set_query(text)
        if text and not self._matches(target, table.row):
            self._move_to_match(target, 1)

    def _has_match(self, target: str) -> bool:
        table = self._table_of(target)
        return any(self._matches(target, int(row)) for row in table.rows)

    def _matches(self, target: str, row: int | None) -> bool:
        text = self.query_text[target]
        if row is None or not text:
            return False
        if target == "metrics":
            return self.metrics.data.matches(text, row)
        if target == "source":
            return self.source.data.matches(text, row)
        return row >= 0 and text in self.host.library.entries[row].search

    def action_next_match(self, step: int) -> None:
        self._move_to_match(self._searched, step)

    def _move_to_match(self, target: str, step: int) -> None:
        table = self._table_of(target)
        count = len(table.rows)
        for distance in range(1, count + 1):
            place = (table.cursor + step * distance) % count
            if self._matches(target, int(table.rows[place])):
                table.move_to(place)
                return

    def action_back(self) -> None:
        """Undo one thing: a search, a filter, then the focus."""
        target = self._searched
        if self.query_text[target]:
            self._apply("search", target, "")
        elif self._filter_of(target):
            self._apply("filter", target, "")
        elif self.pane == actions.SOURCE and self.source.close_line():
            pass
        elif self.focused is not self.kernels.table:
            self.kernels.table.focus()
        elif self.host.is_diagnosing:
            self.host.action_stop()
        self._show_footer()

    # -------------------------------------------------------------- actions: keep

    def action_copy(self) -> None:
        entry = self.entry
        if entry is not None:
            self.host.copy_explanation(entry, self.level_for(self.host.diagnoses.get(entry.number)))

    def action_save(self) -> None:
        entry = self.entry
        if entry is not None:
            self.host.save_explanation(entry, self.level_for(self.host.diagnoses.get(entry.number)))


def points_of(entries: tuple[Entry, ...], diagnoses: Mapping[int, Diagnosis]) -> tuple[Point, ...]:
    """The DRAM points of the kernels that take the most time, named and numbered as the list has them."""
    longest = nlargest(_MOST_POINTS, entries, key=lambda entry: entry.duration_ns or 0.0)
    found = []
    for entry in longest:
        diagnosis = diagnoses.get(entry.number)
        if diagnosis is not None and diagnosis.roofline.point is not None:
            found.append(replace(diagnosis.roofline.point, kernel=entry.number, name=entry.title))
    return tuple(found)
