"""The main screen: kernels, and the pages of the selected one. It owns what is selected, sorted and open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from gputui.render.lines import place_share, placed
from gputui.views import actions, ordering
from gputui.views.finder import Finder, Table
from gputui.views.selection import Selection
from gputui.views.subjects import level_for, moments_of, of_launch, of_timeline, points_of
from gputui.views.text import shorten_middle, shown
from gputui.views.widgets.diagnosis import DiagnosisView
from gputui.views.widgets.empty import EmptyView
from gputui.views.widgets.footer import Footer
from gputui.views.widgets.header import Header, facts_of
from gputui.views.widgets.kernel_list import SORTS, KernelList, KernelTable
from gputui.views.widgets.line_table import LineTable
from gputui.views.widgets.metrics import MetricsView
from gputui.views.widgets.notices import Notices, texts_of
from gputui.views.widgets.nvtx_tree import RangeTree
from gputui.views.widgets.prompt import Prompt
from gputui.views.widgets.roofline import RooflineSubject, RooflineView
from gputui.views.widgets.source import SourceView
from gputui.views.widgets.tabs import Tab, TabBar
from gputui.views.widgets.timeline import TimelineView
from gputui.views.widgets.timeline_diagnosis import TimelineDiagnosisView
from gputui.views.widgets.too_small import TooSmall
from gputui.wording import READER_LEVELS, ReaderLevel

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.roofline import Point
    from gputui.model.metrics import Metric
    from gputui.model.report import Extras
    from gputui.views.app import GputuiApp
    from gputui.views.library import Entry, ExplainedTimeline, RangeContent
    from gputui.views.messages import Keep

TABS = ("diagnosis", "roofline", "timeline", "metrics", "source")
_WIDE = 100
_EXTRA_WIDE = 160
_BASE_NAME = 24
_SETTLE_S = 0.08
"""A kernel that stays selected this long gets what must be read for it; one run past does not."""


class MainScreen(Screen[None]):
    BINDINGS = actions.bindings("main")
    AUTO_FOCUS: ClassVar[str | None] = "#list LineTable"

    def __init__(self, app: GputuiApp) -> None:
        super().__init__()
        self.host = app
        words, signs, ascii = app.words, app.signs, app.ascii
        self.header = Header()
        self.notices = Notices()
        self.kernels = KernelList(self._table_data(), id="kernels")
        self.ranges = RangeTree(words, signs, ascii=ascii, id="ranges")
        self.selected = Selection(app.library, self.kernels, self.ranges)
        self.tabs = TabBar()
        self.diagnosis = DiagnosisView(words, signs, id="diagnosis")
        self.timeline_diagnosis = TimelineDiagnosisView(words, signs, id="timeline-diagnosis")
        self.roofline = RooflineView(words, signs, id="roofline")
        self.timeline = TimelineView(words, signs, ascii=ascii, id="timeline")
        self.metrics = MetricsView(words, signs, ascii=ascii, id="metrics")
        self.source = SourceView(words, signs, ascii=ascii, id="source")
        self.pages: dict[str, Widget] = {
            "diagnosis": self.diagnosis,
            "timeline-diagnosis": self.timeline_diagnosis,
            "roofline": self.roofline,
            "timeline": self.timeline,
            "metrics": self.metrics,
            "source": self.source,
            "no-timeline": EmptyView(words.ui("no_timeline"), id="no-timeline"),
            "no-counters": EmptyView(words.ui("no_counters"), id="no-counters"),
        }
        self.box = Vertical(id="list")
        self.switcher = ContentSwitcher(id="pages", initial="diagnosis")
        self.prompt = Prompt()
        targets: dict[str, Table | TimelineView] = {
            actions.KERNELS: self.kernels,
            actions.RANGES: self.ranges,
            actions.METRICS: self.metrics,
            actions.SOURCE: self.source,
            actions.TIMELINE: self.timeline,
        }
        self.finder = Finder(words, self.prompt, targets, changed=self._fit_list)
        self.footer = Footer(words)
        self.too_small = TooSmall(words)
        for widget in (self.header, self.notices, self.tabs, self.footer, *self.pages.values()):
            widget.ascii = ascii  # type: ignore[attr-defined]
        self.set_class(ascii, "-ascii")
        self.tab = "diagnosis"
        self._points: dict[int, tuple[Point, ...]] = {}
        self._start_row: int | None = None
        self._has_source = False
        """Whether the kernel last asked about has numbers by instruction: the Source tab is dim where it has none."""
        self._where = -1
        """The place that ``w`` went to last, among those of the findings."""

    def take_over(self, old: MainScreen) -> None:
        """Stand where another main screen stood: same order, filter, kernel and page."""
        data, before = self.kernels.data, old.kernels.data
        data.sort, data.reversed, data.filter = before.sort, before.reversed, before.filter
        data.grouping, data.expanded = before.grouping, set(before.expanded)
        self._start_row, self.tab = old.kernels.table.row, old.tab
        self.kernels.table.was_moved = old.kernels.table.was_moved
        self.selected.listing, self.selected.held_to = old.selected.listing, old.selected.held_to
        if old.ranges.data.ranges is not None:
            self.ranges.data.set_ranges(old.ranges.data.ranges)
            self.ranges.data.expanded = set(old.ranges.data.expanded)
        self.diagnosis.unfolded = self.timeline_diagnosis.unfolded = old.diagnosis.unfolded
        self.timeline.take_over(old.timeline)
        self.source.data.order, self._has_source = old.source.data.order, old._has_source

    def _table_data(self) -> KernelTable:
        data = KernelTable(self.host.library, self.host.diagnoses, self.host.words, self.host.signs)
        data.ascii = self.host.ascii
        return data

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.notices
        with Horizontal(id="body"):
            with self.box:
                yield self.kernels
                yield self.ranges
            with Vertical(id="detail"):
                yield self.tabs
                with self.switcher:
                    yield from self.pages.values()
        yield self.prompt
        yield self.footer
        yield self.too_small

    def on_mount(self) -> None:
        self._show_tabs()
        self._show_header()
        self.show_notices()
        self._show_listing()
        if self.host.library.entries:
            self.kernels.hold_to(self.selected.held_to, keep=self._start_row)
        if self.ranges.data.ranges is not None:
            self.ranges.update_rows()
        if self.host.library.reports:
            self.select_changed()

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        before = self.classes
        self.set_class(width < _WIDE, "-narrow", update=False)
        self.set_class(width >= _EXTRA_WIDE, "-xl", update=False)
        self.too_small.fit(self, event.size)
        if self.classes != before:
            # Once for all of them: it takes Textual as long as painting the screen ten times.
            self.update_node_styles(animate=False)
        self._fit_list()

    def _fit_list(self) -> None:
        """In the stacked layout the list takes what it needs, and at most a quarter; a chart needs more of the room."""
        height = self.size.height
        if self.has_class("-narrow"):
            most = 3 if self.tab in ("roofline", "timeline") and height < 40 else max(4, height // 4)
            self.box.styles.height = min(self.selected.list.lines_needed, most)
        else:
            self.box.styles.height = None

    # -------------------------------------------------------------- what is selected

    @property
    def entry(self) -> Entry | None:
        """The selected kernel."""
        return self.selected.entry

    @property
    def page(self) -> str:
        """The page that the open tab shows for what is selected."""
        selected = self.selected
        if self.tab == "diagnosis":
            return "timeline-diagnosis" if selected.is_timeline else "diagnosis"
        if self.tab == "timeline":
            return "timeline" if selected.timed is not None else "no-timeline"
        return "no-counters" if selected.is_timeline and selected.counted is None else self.tab

    @property
    def pane(self) -> str:
        """What has the focus, by the names that the table of keys uses."""
        focused = self.focused
        if self.prompt.display:
            return actions.PROMPT
        if focused is None or focused is self.selected.list.table:
            return self.selected.listing
        if focused is self.metrics.table:
            return actions.METRICS
        if focused is self.source.table:
            return actions.SOURCE
        panes = {"diagnosis", "roofline", "timeline", "timeline-diagnosis"}
        return focused.id if focused.id in panes else actions.EMPTY

    def level_for(self, diagnosis: Diagnosis | None) -> ReaderLevel:
        return level_for(self.host, self.selected.loaded, diagnosis)

    # -------------------------------------------------------------- what the workers bring

    def show_report(self) -> None:
        """Another report has been opened."""
        library = self.host.library
        if len(library.reports) > 1 and not self.kernels.data.grouping:
            self.kernels.data.grouping = "file"
            self.kernels.data.expanded = set(range(len(library.reports)))
        elif self.kernels.data.grouping == "file":
            self.kernels.data.expanded.add(len(library.reports) - 1)
        self.kernels.update_rows()
        self._fit_list()
        self.show_notices()
        self.select_changed()

    def show_diagnoses(self, found: Mapping[int, Diagnosis]) -> None:
        """Verdicts have arrived."""
        if self.kernels.data.sort == "verdict":
            self.kernels.update_rows()
        else:
            links = self.host.library.links
            self.kernels.table.repaint([*found, *(one for one, link in links.items() if link.entry.number in found)])
        self._points.clear()
        counted = self.selected.counted
        if counted is not None and counted.number in found:
            self.show_entry()
        elif self.tab == "roofline" and not self.host.is_diagnosing:
            self._show_roofline()
        self._show_header()

    def show_timeline(self, report: int, explained: ExplainedTimeline) -> None:
        """The diagnosis of a timeline has arrived."""
        self.kernels.table.repaint()
        if not self.host.library.entries and explained.ranges.nodes:
            # Nothing ran on a GPU: the ranges are what there is.
            self.ranges.show(explained.ranges)
            self._list_ranges(shown=True)
        if self.selected.loaded is self.host.library.reports[report]:
            self.show_entry()
            self._show_header()

    def show_links(self) -> None:
        """Kernels of a timeline have been found in an ncu report."""
        self.kernels.update_rows()
        self.select_changed()

    def show_extras(self, entry: int, extras: Extras) -> None:
        if self.selected.counted is not None and self.selected.counted.number == entry:
            self.show_entry()

    def show_source(self, entry: int) -> None:
        """The lines of a kernel have been read."""
        if self.selected.counted is not None and self.selected.counted.number == entry:
            self.show_entry()
            self._update_source_tab()

    def _update_source_tab(self) -> None:
        """Dim the tab once it is known that it has nothing to show for this kernel."""
        counted = self.selected.counted
        if counted is not None and counted.number in self.host.sources:
            has_source = self.host.sources[counted.number] is not None
            if has_source != self._has_source:
                self._has_source = has_source
                self._show_tabs()

    def show_metrics(self, entry: int, metrics: Mapping[str, Metric], extras: Extras) -> None:
        if self.selected.counted is not None and self.selected.counted.number == entry:
            self.metrics.show(entry, metrics, extras)

    def show_range(self, content: RangeContent) -> None:
        """What some NVTX ranges launched is known: hold the list to it, and light it."""
        if not content.kernels:
            self.notify(self.host.words.ui("range_without_kernels"), markup=False)
            return
        self.selected.held_to = content
        self.kernels.data.grouping = ""
        # All of it is lit until the reader chooses a kernel.
        self.kernels.table.was_moved = False
        self.kernels.hold_to(content)
        self._list_ranges(shown=False)
        self.select_changed()

    # -------------------------------------------------------------- painting

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        event.stop()
        if event.table is self.selected.list.table:
            self.select_changed()
        elif event.table is self.metrics.table:
            self.metrics.describe_row(event.row)
        elif event.table is self.source.table:
            self.source.describe_row(event.row)

    def select_changed(self) -> None:
        """Show the selected kernel at once as far as it is known; read the rest when the cursor rests."""
        counted = self.selected.counted
        self._where = -1
        if counted is not None:
            self.host.want(counted)
            self.set_timer(_SETTLE_S, lambda: self._settled(counted))
        self.show_entry(moved=self.selected.list.table.was_moved)
        self._light()
        self._update_source_tab()
        self._show_tabs()
        self._show_header()
        self._show_footer()

    def _settled(self, counted: Entry) -> None:
        if self.selected.counted is counted:
            self.host.read_extras(counted)
            self.host.read_source(counted)
            if self.tab == "metrics" and self.metrics.entry != counted.number:
                self.host.read_metrics(counted)

    def _light(self) -> None:
        """In the timeline, light the launches of the selected kernel, or all that the selected ranges launched."""
        entry, timed = self.entry, self.selected.timed
        if timed is None or timed.facts is None:
            return
        self.timeline.show(timed.facts)
        held = self.selected.held_to
        mask = held.ops if held is not None and self.host.library.reports[held.report] is timed else None
        # Until the reader has chosen one, the longest is no more than where the cursor happens to be.
        is_chosen = self.selected.listing == actions.KERNELS and self.kernels.table.was_moved
        group = entry.timed if is_chosen and entry is not None else None
        self.timeline.light(None if group is None else group.name, mask)

    def show_entry(self, *, moved: bool = False) -> None:
        """Paint the open page for what is selected; ``moved`` says that the reader has just selected it."""
        page = self.page
        if self.switcher.current != page:
            in_detail = self.focused is not None and self.focused is not self.selected.list.table
            self.switcher.current = page
            if in_detail:
                self._detail_target().focus()
        if page == "timeline-diagnosis":
            subject = of_timeline(self.host, self.selected.loaded, self.entry)
            if subject is not None and self.selected.listing == actions.RANGES:
                subject = replace(subject, entry=None, node=self.ranges.node)
            self.timeline_diagnosis.show(subject, to_selected=moved)
        elif page == "diagnosis":
            self.diagnosis.show(of_launch(self.host, self.entry))
        elif page == "roofline":
            self._show_roofline()
        elif page == "source":
            self._show_source()

    def _show_source(self) -> None:
        counted = self.selected.counted
        if counted is None:
            self.source.show(None, None, is_pending=False)
            return
        known = self.host.sources
        self.source.show(counted.number, known.get(counted.number), is_pending=counted.number not in known)

    def _show_roofline(self) -> None:
        counted = self.selected.counted
        if counted is None:
            self.roofline.show(None)
            return
        report = self.host.library.report_of(counted)
        if counted.report not in self._points:
            self._points[counted.report] = points_of(report.entries, self.host.diagnoses)
        diagnosis = self.host.diagnoses.get(counted.number)
        self.roofline.show(RooflineSubject(counted, diagnosis, self._points[counted.report], report.total_ns))

    def _show_header(self) -> None:
        words, library = self.host.words, self.host.library
        entry, loaded = self.entry, self.selected.loaded
        if loaded is None:
            self.header.show("", (), "")
            return
        device = entry.kernel.device if entry is not None else next(iter(loaded.report.devices), None)
        number = library.reports.index(loaded)
        file = library.name_of(number)
        if len(library.reports) > 1:
            file = f"{file} ({number + 1}/{len(library.reports)})"
        level = words.ui(f"level.{self.level_for(self.host.diagnoses.get(entry.number) if entry else None)}")
        right = f"L: {level}  {words.language}"
        if self.host.is_diagnosing:
            total = sum(one.timed is None for one in library.entries)
            right = words.ui("verdicts", done=len(self.host.diagnoses), total=total) + "  " + right
        base = self.host.comparing.base_name
        if base:
            right = words.ui("compare.base_is", name=shorten_middle(base, _BASE_NAME)) + "  " + right
        self.header.show(file, facts_of(loaded, device, words), right)

    def show_notices(self) -> None:
        words = self.host.words
        texts = texts_of(self.host.library, words, was_stopped=self.host.was_stopped)
        self.notices.show(texts, words.ui("more_notices", count=len(texts) - Notices.MOST))

    def _show_tabs(self) -> None:
        words = self.host.words
        self.tabs.show(
            [Tab(id, str(number), words.ui(f"tab.{id}"), self._has_data(id)) for number, id in enumerate(TABS, 1)],
            self.tab,
        )

    def _has_data(self, tab: str) -> bool:
        if tab == "timeline":
            return self.selected.timed is not None
        if tab == "diagnosis":
            return True
        has_counters = self.selected.counted is not None or not self.host.library.has_timeline
        return has_counters and (tab != "source" or self._has_source)

    def on_descendant_focus(self) -> None:
        self._show_footer()

    def _show_footer(self) -> None:
        """The keys of what has the focus; in the timeline the finding whose place it shows."""
        words, finder = self.host.words, self.finder
        status = []
        if self.page == "timeline" and self._where >= 0:
            status.append(words.finding_name(moments_of(self.selected.explained)[self._where].id))
        filter, query = finder.filter_of(self.selected.listing), finder.queries[self.selected.listing]
        if filter:
            count = int((self.selected.list.table.rows >= 0).sum())
            status.append(words.ui("filtered", text=shown(filter, 24), count=count))
        if query:
            status.append(f"/{shown(query, 24)}")
        loaded, pane = self.selected.loaded, self.pane
        of_timeline = pane == actions.KERNELS and loaded is not None and loaded.facts is not None
        without = set() if self.entry is not None else {"profile"}
        library = self.host.library
        if len(library.reports) < 2:
            without |= {"base", "compare"} if library.base is None else {"base"}
        self.footer.show(actions.TIMED if of_timeline else pane, "  ".join(status), frozenset(without))

    # -------------------------------------------------------------- actions: panes and tabs

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        self.action_show_tab(event.tab)

    def action_show_tab(self, tab: str) -> None:
        in_detail = self.focused is not None and self.focused is not self.selected.list.table
        again = tab == self.tab
        self.tab = tab
        self._fit_list()
        self._show_tabs()
        self.show_entry()
        counted = self.selected.counted
        if tab == "metrics" and counted is not None and self.metrics.entry != counted.number:
            self.host.read_metrics(counted)
        if tab == "source" and counted is not None:
            self.host.read_source(counted)
        if in_detail or tab in ("metrics", "source") or self.page == "timeline":
            self._detail_target().focus()
        if again and self.page == "timeline-diagnosis":
            self.timeline_diagnosis.action_top()
        self._show_footer()

    def _detail_target(self) -> Widget:
        tables: dict[str, Widget] = {"metrics": self.metrics.table, "source": self.source.table}
        return tables.get(self.page) or self.pages[self.page]

    def action_next_pane(self) -> None:
        on_list = self.focused is None or self.focused is self.selected.list.table
        (self._detail_target() if on_list else self.selected.list.table).focus()

    def action_previous_pane(self) -> None:
        self.action_next_pane()

    def action_step_kernel(self, step: int) -> None:
        table = self.selected.list.table
        table.move_to(table.cursor + step)

    def action_unfold(self) -> None:
        pane, row = self.pane, self.kernels.table.row
        if pane == actions.METRICS:
            self.metrics.unfold()
        elif pane == actions.SOURCE:
            self.source.toggle_line()
        elif pane == actions.RANGES:
            self.ranges.toggle()
            self._fit_list()
        elif pane == actions.KERNELS and row is not None and row < 0:
            self.kernels.data.toggle(ordering.group_of(row))
            self.kernels.update_rows()
            self._fit_list()
        else:
            if self.tab != "diagnosis":
                self.action_show_tab("diagnosis")
            self.diagnosis.toggle_evidence()
            self.timeline_diagnosis.toggle_evidence()

    def action_next_level(self) -> None:
        was, self.host.level = self.host.level, None
        entry = self.entry
        fitting = self.level_for(self.host.diagnoses.get(entry.number) if entry else None)
        # Through the other levels, then back to what fits the kernel.
        others: list[ReaderLevel | None] = [level for level in READER_LEVELS if level != fitting]
        steps = [None, *others]
        now = steps.index(was) if was in steps else 0
        self.host.set_level(steps[(now + 1) % len(steps)])
        self.show_entry()
        self._show_header()

    # -------------------------------------------------------------- actions: places

    def action_where(self) -> None:
        """Go to the place that the first finding is about; from there to the next one's."""
        if self.page in ("timeline-diagnosis", "timeline"):
            self._go_to_next_moment()
        else:
            self._go_to_next_line()

    def _go_to_next_moment(self) -> None:
        found = moments_of(self.selected.explained)
        if not found:
            self.notify(self.host.words.ui("no_moment"), markup=False)
            return
        marked = self.timeline_diagnosis.finding_marked
        if self.page == "timeline-diagnosis" and marked in found:
            self._where = found.index(marked)
        else:
            self._where = (self._where + 1) % len(found)
        self._go_to(found[self._where])

    def on_timeline_diagnosis_view_place_chosen(self, event: TimelineDiagnosisView.PlaceChosen) -> None:
        found = moments_of(self.selected.explained)
        if event.finding in found:
            self._where = found.index(event.finding)
            self._go_to(event.finding)

    def _go_to(self, finding: Finding) -> None:
        timed, explained = self.selected.timed, self.selected.explained
        if timed is None or explained is None or finding.moment is None:
            return
        if finding in explained.diagnosis.main:
            self.timeline_diagnosis.mark(explained.diagnosis.main.index(finding))
        if self.tab != "timeline":
            self.action_show_tab("timeline")
        self.timeline.show(timed.facts)
        self.timeline.go_to(finding.moment)
        self._show_footer()

    def _go_to_next_line(self) -> None:
        counted = self.selected.counted
        if counted is None:
            return
        words = self.host.words
        diagnosis = self.host.diagnoses.get(counted.number)
        if diagnosis is None or counted.number not in self.host.sources:
            self.host.read_source(counted)
            self.notify(words.text("source.pending"), markup=False)
            return
        source = self.host.sources[counted.number]
        findings = (*diagnosis.main, *diagnosis.further, *diagnosis.effects)
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

    def on_timeline_view_selected(self, event: TimelineView.Selected) -> None:
        """An event of the timeline was chosen: a kernel is selected in the list, a range keeps what it launched."""
        timed = self.selected.timed
        if timed is None or timed.facts is None:
            return
        facts = timed.facts
        if event.kind == "kernel":
            entry = timed.entry_of.get(int(facts.timeline.ops.name[event.row]))
            if entry is not None:
                self.go_to(entry)
        elif event.kind == "range":
            self.host.read_range(timed, facts.range_path(event.row), (event.row,))

    def go_to(self, entry: Entry) -> None:
        """Put the list's cursor on a kernel, whatever hides it."""
        self._list_ranges(shown=False)
        data, table = self.kernels.data, self.kernels.table
        if entry.number not in table.rows:
            data.filter, self.selected.held_to = "", None
            data.expanded.add(entry.report)
            self.kernels.hold_to(None)
        table.was_moved = True
        places = (table.rows == entry.number).nonzero()[0]
        if len(places):
            table.move_to(int(places[0]))
        self._light()

    def explain_selected(self) -> None:
        """Say why the selected kernel is slow, whatever page was open."""
        self.action_show_tab("diagnosis")
        self.set_focus(self.selected.list.table)

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
        """Launches one by one, together by name, by file where several are open; of a timeline its NVTX ranges."""
        data, library = self.kernels.data, self.host.library
        modes = [""]
        if any(entry.timed is None for entry in library.entries):
            modes.append("name")
        if len(library.reports) > 1:
            modes.append("file")
        if self.selected.listing == actions.RANGES:
            next_mode = 0
            self._list_ranges(shown=not library.entries)
        else:
            next_mode = modes.index(data.grouping) + 1 if data.grouping in modes else 0
            if next_mode == len(modes) and self._open_ranges():
                return
        data.grouping = modes[next_mode % len(modes)]
        data.expanded = set(range(len(library.reports))) if data.grouping == "file" else set()
        entry = self.entry
        self.kernels.update_rows(keep=entry.number if entry is not None and not data.grouping else None)
        self._fit_list()
        self.select_changed()
        self.set_focus(self.selected.list.table)

    def _open_ranges(self) -> bool:
        """Show the NVTX ranges of the timeline, where there is one that has some; whether that is so."""
        if self.selected.timed is None:
            return False
        explained = self.selected.explained
        if explained is None or not explained.ranges.nodes:
            key = "no_ranges" if explained is not None else "verdict_pending"
            self.notify(self.host.words.ui(key), markup=False)
            return False
        self.ranges.show(explained.ranges)
        self._list_ranges(shown=True)
        self.select_changed()
        self.set_focus(self.ranges.table)
        return True

    def _list_ranges(self, *, shown: bool) -> None:
        """Show the NVTX ranges on the left, or the kernels; the focus stays on the left if it was there."""
        on_list = self.focused in (None, self.kernels.table, self.ranges.table)
        self.selected.listing = actions.RANGES if shown else actions.KERNELS
        self.selected.list.display = True
        if on_list:
            # Before what has the focus is hidden: it would go elsewhere by itself.
            self.set_focus(self.selected.list.table)
        self._show_listing()
        self._fit_list()
        self._show_footer()

    def _show_listing(self) -> None:
        self.kernels.display = self.selected.listing == actions.KERNELS
        self.ranges.display = self.selected.listing == actions.RANGES

    def on_range_tree_chosen(self, event: RangeTree.Chosen) -> None:
        """Keep only what these ranges launched."""
        loaded = self.selected.loaded
        if loaded is not None:
            self.host.read_range(loaded, event.node.path, event.node.rows.tolist())

    # -------------------------------------------------------------- actions: comparing

    def action_mark_base(self) -> None:
        if self.entry is not None:
            self.host.comparing.mark(self.entry)
            self.show_base()

    def show_base(self) -> None:
        """Another base is marked to compare with, or none."""
        self.kernels.table.repaint()
        self._show_header()
        self._show_footer()

    def action_compare(self) -> None:
        self.host.comparing.begin(self.entry)

    # -------------------------------------------------------------- actions: running the profilers

    def action_profile(self) -> None:
        entry = self.entry
        if entry is not None:
            self.host.guide.profile(entry)

    def action_run_again(self) -> None:
        self.host.guide.repeat()

    # -------------------------------------------------------------- actions: search and filter

    @property
    def _searched(self) -> str:
        return self.pane if self.pane in self.finder.targets else self.selected.listing

    def action_search(self) -> None:
        self.finder.open("search", self._searched)

    def action_filter(self) -> None:
        if self._searched != actions.TIMELINE:
            self.finder.open("filter", self._searched)

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        self.finder.typed(event.kind, event.text)

    def on_prompt_closed(self, event: Prompt.Closed) -> None:
        target, told = self.finder.close(event.kind, kept=event.kept)
        if told:
            self.notify(told, markup=False)
        target.focus()
        self._show_footer()

    def action_next_match(self, step: int) -> None:
        self.finder.next_match(self._searched, step)

    def action_back(self) -> None:
        """Undo one thing: a search, a filter, the range that the list is held to, then the focus."""
        if self.finder.take_back(self._searched) or (self.pane == actions.SOURCE and self.source.close_line()):
            pass
        elif self.pane in (actions.KERNELS, actions.TIMELINE) and self.selected.held_to is not None:
            self._let_go()
        elif self.focused is not self.selected.list.table:
            self.selected.list.table.focus()
        elif self.host.is_diagnosing:
            self.host.action_stop()
        self._show_footer()

    def _let_go(self) -> None:
        """Show all kernels again; from the list, go back to the tree if that has been open."""
        self.selected.held_to = None
        if len(self.host.library.reports) > 1:
            self.kernels.data.grouping = "file"
            self.kernels.data.expanded = set(range(len(self.host.library.reports)))
        self.kernels.hold_to(None)
        if self.ranges.data.ranges is not None and self.pane == actions.KERNELS:
            self._list_ranges(shown=True)
        self._fit_list()
        self.select_changed()

    # -------------------------------------------------------------- actions: keep

    def action_copy(self) -> None:
        self._explain("copy")

    def action_save(self) -> None:
        self._explain("save")

    def _explain(self, keep: Keep) -> None:
        loaded, entry = self.selected.loaded, self.entry
        if loaded is not None and loaded.facts is not None:
            self.host.explain_timeline(loaded, self.level_for(None), keep)
        elif entry is not None:
            self.host.explain(entry, self.level_for(self.host.diagnoses.get(entry.number)), keep)
