"""The screen that compares: the answers on top, below them what became what, and the pages of the selected group."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from gputui import units
from gputui.paint.bars import bar
from gputui.render.compare_rows import head, shift, tells_next
from gputui.render.text import level_of
from gputui.views import actions
from gputui.views.widgets.answers import Answers
from gputui.views.widgets.footer import Footer
from gputui.views.widgets.group_list import GroupList
from gputui.views.widgets.group_pages import GroupPage, MembersPage, ShiftPage, WhyPage
from gputui.views.widgets.header import Header
from gputui.views.widgets.line_table import LineTable
from gputui.views.widgets.notices import Notices
from gputui.views.widgets.one_line import OneLine
from gputui.views.widgets.tabs import Tab, TabBar
from gputui.views.widgets.too_small import TooSmall
from gputui.wording import READER_LEVELS, ReaderLevel

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Group, KernelKey
    from gputui.views.comparing import Compared, Comparing
    from gputui.views.messages import Keep

_WIDE = 150
_ROOMY, _SHORT = 34, 20
"""Lines: from the first on there is room for all that the answers say, below the second for the answers alone."""
_BAR = 40


def _keys(group: Group) -> frozenset[KernelKey]:
    return frozenset(member.key for member in (*group.base, *group.new))


class Waiting(OneLine):
    """How many of the verdicts that are needed are there."""

    DEFAULT_CSS = "Waiting { height: 3; }"

    def show(self, done: int, total: int, text: str, *, ascii: bool) -> None:
        count = f"  {units.count(done)} / {units.count(total)}"
        progress = [(" ", ""), (bar(done, total or 1, _BAR, ascii=ascii), "bar-lead"), (count, "muted")]
        self._lines = [(), [(f" {text}", "strong")], progress]
        self.refresh()


class CompareScreen(Screen[None]):
    BINDINGS = actions.bindings("compare")
    AUTO_FOCUS: ClassVar[str | None] = "#group-list"

    def __init__(self, comparing: Comparing) -> None:
        super().__init__()
        self.comparing = comparing
        self.host = comparing.host
        words, signs, ascii = self.host.words, self.host.signs, self.host.ascii
        self.header = Header()
        self.notices = Notices()
        self.waiting = Waiting(id="waiting")
        self.answers = Answers(signs)
        self.groups = GroupList(words, signs)
        self.body = Horizontal(id="body")
        self.box = Vertical(id="list")
        self.tabs = TabBar()
        self.why = WhyPage(words, signs, id="why")
        self.pages: dict[str, GroupPage] = {
            "why": self.why,
            "roofline": ShiftPage(words, signs, id="roofline"),
            "kernels": MembersPage(words, signs, id="kernels"),
        }
        self.page = "why"
        self.switcher = ContentSwitcher(id="pages", initial="why")
        self.footer = Footer(words)
        self.too_small = TooSmall(words)
        self.set_class(ascii, "-ascii")
        for widget in (
            self.header, self.notices, self.waiting, self.answers, self.groups, self.tabs, self.footer,
            *self.pages.values(),
        ):  # fmt: skip
            widget.ascii = ascii
        self._is_over = False
        self._painted: Compared | None = None
        self._paired: frozenset[KernelKey] = frozenset()

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.notices
        yield self.waiting
        yield self.answers
        with self.body:
            with self.box:
                yield self.groups
            with Vertical(id="detail"):
                yield self.tabs
                with self.switcher:
                    yield from self.pages.values()
        yield self.footer
        yield self.too_small

    def on_mount(self) -> None:
        self.show()

    def close(self) -> None:
        """Go at once, or as soon as what the user has opened over it is closed."""
        self._is_over = True
        if self.app.screen is self:
            self.app.pop_screen()

    def on_screen_resume(self) -> None:
        if self._is_over:
            self.app.pop_screen()

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        before = self.classes
        self.set_class(width < _WIDE, "-narrow", update=False)
        self.too_small.fit(self, event.size)
        if self.classes != before:
            self.update_node_styles(animate=False)
        if self.is_mounted:
            self.show()

    # -------------------------------------------------------------- painting

    @property
    def group(self) -> Group | None:
        """The selected one."""
        shown, row = self.comparing.shown, self.groups.row
        return None if shown is None or row is None else shown.comparison.groups[row]

    @property
    def pane(self) -> str:
        """What has the focus, by the names that the table of keys uses."""
        if self.comparing.shown is None:
            return actions.COMPARE_WAIT
        return actions.COMPARE if self.focused in (None, self.groups) else actions.COMPARE_PAGE

    @property
    def offered(self) -> frozenset[str]:
        """The actions that do something now, by id."""
        scopes = ("pane",) if self.comparing.shown is None else ("pane", "compare")
        own = {one.id for one in actions.ACTIONS if one.scope in scopes}
        if len(self.comparing.found) < 2:
            own.discard("other_kind")
        return frozenset({*own, "compare_back", "help", "theme", "stop", "quit"})

    @property
    def _without(self) -> frozenset[str]:
        """What can do nothing now."""
        group, comparing = self.group, self.comparing
        if group is None:
            return frozenset(one.id for one in actions.ACTIONS if one.scope == "compare") - {"compare_back"}
        missing = set()
        if len(self.groups.data.picked) < 2:
            missing.add("pair")
        if len(group.base) + len(group.new) < 2:
            missing.add("apart")
        if not comparing.pairings:
            missing.add("forget_pairs")
        if len(comparing.found) < 2:
            missing.add("other_kind")
        missing.add(f"page_{self.page}")
        return frozenset(missing)

    def show(self) -> None:
        """Paint what there is; the cursor stays on its kernels, whatever group they are in now."""
        shown, words = self.comparing.shown, self.host.words
        if self.has_class("-tiny"):
            for widget in (self.notices, self.waiting, self.answers, self.body):
                widget.display = False
            return
        self.waiting.display = shown is None
        self.answers.display = self.body.display = shown is not None
        if shown is None:
            done, total = self.comparing.progress
            self.waiting.show(done, total, words.ui("compare.waiting"), ascii=self.host.ascii)
            self.header.show(words.ui("compare.title"), (), words.language)
            self._show_footer()
            return
        if self.focused is None:
            self.groups.focus()
        found = [one.comparison for one in self.comparing.found]
        told = head(found, words)
        self.why.tells_next = tells_next(shown.comparison, found)
        self.why.cautions = [text for text, _ in told.cautions]
        self.notices.show(
            self.why.cautions,
            words.ui("compare.more_cautions", count=len(told.cautions) - Notices.MOST),
            urgent=sum(is_open for _, is_open in told.cautions),
        )
        height = self.size.height
        moved = shift(shown.comparison, words) if height >= _SHORT else None
        self.answers.show(told, moved or "", is_roomy=height >= _ROOMY)
        if shown is not self._painted:
            at = self._place_in(shown)
            self._painted = shown
            self.groups.show(shown, at)
        self._fit_list()
        self._show_header(shown, told.title)
        self._show_page()

    def _place_in(self, shown: Compared) -> int:
        """The group that the kernels of the selected one are in now, or those that were just paired."""
        kept, self._paired = self._paired, frozenset()
        if not kept and self._painted is not None and self.groups.row is not None:
            kept = _keys(self._painted.comparison.groups[self.groups.row])
        return next((group.number for group in shown.comparison.groups if _keys(group) & kept), 0)

    def _fit_list(self) -> None:
        """In the stacked layout the list takes what it needs, and at most a quarter; a chart needs more of the room."""
        height = self.size.height
        if self.has_class("-narrow"):
            is_tight = height < _SHORT or (self.page == "roofline" and height < _ROOMY)
            self.box.styles.height = min(len(self.groups.rows) + 1, 3 if is_tight else height // 4)
        else:
            self.box.styles.height = None

    def _show_header(self, shown: Compared, title: str) -> None:
        words, width = self.host.words, self.size.width
        # The names are those that the list of kernels has.
        _, *facts = title.split(" · ")
        if len(self.comparing.found) > 1:
            facts.append(words.ui(f"compare.kind_{shown.comparison.kind}"))
        if self.comparing.same_work:
            facts.append(words.ui("compare.same_work_said"))
        right = f"L: {words.ui(f'level.{self.level}')}  {words.language}"
        self.header.show(self.comparing.title(width // 4), facts, right, least=width)

    def _show_page(self) -> None:
        shown, group, words = self.comparing.shown, self.group, self.host.words
        tabs = [Tab(id, str(number), words.ui(f"compare.page.{id}"), True) for number, id in enumerate(self.pages, 1)]
        self.tabs.show(tabs, self.page)
        self.switcher.current = self.page
        if shown is not None and group is not None:
            self.pages[self.page].show(shown.comparison, group, shown.rows[group.number], self.level)
        self._show_footer()

    @property
    def level(self) -> ReaderLevel:
        shown = self.comparing.shown
        if self.host.level is not None:
            return self.host.level
        next = None if shown is None else shown.comparison.next
        return "pytorch" if next is None else level_of(next.diagnosis)

    def _show_footer(self) -> None:
        count = len(self.groups.data.picked)
        status = self.host.words.ui("compare.picked", count=count) if count else ""
        self.footer.show(self.pane, status, self._without)

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        event.stop()
        self._show_page()

    def on_descendant_focus(self) -> None:
        self._show_footer()

    # -------------------------------------------------------------- actions

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        self.action_show_page(event.tab)

    def action_show_page(self, page: str) -> None:
        on_page = self.focused not in (None, self.groups)
        self.page = page
        self._fit_list()
        self._show_page()
        if on_page:
            self.pages[page].focus()

    def action_other_pane(self) -> None:
        (self.pages[self.page] if self.focused in (None, self.groups) else self.groups).focus()

    def action_step_group(self, step: int) -> None:
        self.groups.move_to(self.groups.cursor + step)

    def action_pick(self) -> None:
        self.groups.toggle()
        self._show_footer()

    def action_pair(self) -> None:
        shown, picked = self.comparing.shown, sorted(self.groups.data.picked)
        if shown is None or len(picked) < 2:
            self._tell("pick_first")
        else:
            groups = [shown.comparison.groups[number] for number in picked]
            self._paired = frozenset(key for group in groups for key in _keys(group))
            self.comparing.pair(groups)

    def action_apart(self) -> None:
        group = self.group
        if group is not None and len(group.base) + len(group.new) > 1:
            self.comparing.take_apart(group)

    def action_forget_pairs(self) -> None:
        if self.comparing.pairings:
            self.comparing.forget()

    def action_swap(self) -> None:
        self.comparing.swap()

    def action_same_work(self) -> None:
        self.comparing.toggle_same_work()

    def action_other_kind(self) -> None:
        self.comparing.show_other_kind()

    def action_next_level(self) -> None:
        place = READER_LEVELS.index(self.level)
        self.host.set_level(READER_LEVELS[(place + 1) % len(READER_LEVELS)])
        self.show()

    def action_copy(self) -> None:
        self._keep("copy")

    def action_save(self) -> None:
        self._keep("save")

    def _keep(self, keep: Keep) -> None:
        from gputui.render.compare_markdown import compare_markdown

        found = [one.comparison for one in self.comparing.found]
        if found:
            self.host.keep(compare_markdown(found, self.host.words, self.level), "comparison", keep)

    def action_back(self) -> None:
        if self.groups.data.picked:
            self.groups.data.picked.clear()
            self.groups.repaint()
            self._show_footer()
        elif self.pane == actions.COMPARE_PAGE:
            self.groups.focus()
        else:
            self.comparing.close()

    def _tell(self, key: str) -> None:
        self.notify(self.host.words.ui(f"compare.{key}"), markup=False)
