"""The run screen: one strip of steps on top, below it what the step has to tell and to ask. It decides nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.timer import Timer

from gputui.views import actions
from gputui.views.guide_text import shown_command
from gputui.views.screens.doctor import DoctorScreen
from gputui.views.text import Line, shown
from gputui.views.widgets.choose_list import ChooseFoot, ChooseList
from gputui.views.widgets.editor import CommandEditor
from gputui.views.widgets.footer import Footer
from gputui.views.widgets.line_table import LineTable
from gputui.views.widgets.one_line import OneLine
from gputui.views.widgets.output import OutputPane
from gputui.views.widgets.run_page import RunPage
from gputui.views.widgets.run_status import RunStatus
from gputui.views.widgets.stages import StageStrip
from gputui.views.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from gputui.views.guide import Guide

_LOOK_S = 0.1
"""How often the screen looks at what a running command has printed."""
_OTHER_ROWS = 8
"""Above and below the output."""


class OutputHead(OneLine):
    """Whose output it is, and how to get back to its end."""

    def show(self, text: str, key: str, offer: str) -> None:
        lines: list[Line] = [[(f" {text}  ", "head"), (key, "key"), (f" {offer}" if offer else "", "head")]]
        if lines != self._lines:
            self._lines = lines
            self.refresh()


class RunScreen(Screen[None]):
    BINDINGS = actions.bindings("run")
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self, guide: Guide, at: int | None = None) -> None:
        super().__init__()
        self.guide = guide
        self.host = guide.host
        words, signs, ascii = self.host.words, self.host.signs, self.host.ascii
        self.stages = StageStrip(words, signs)
        self.body = RunPage(guide, words, signs)
        self.editor = CommandEditor()
        self.status = RunStatus(guide, words)
        self.choices = ChooseList(guide, words)
        self.choice = ChooseFoot(self.choices.data)
        self.output_head = OutputHead(id="output-head")
        self.output = OutputPane()
        self.footer = Footer(words)
        self.too_small = TooSmall(words)
        self.set_class(ascii, "-ascii")
        for widget in (
            self.stages, self.body, self.status, self.choices, self.choice, self.output_head, self.output, self.footer,
        ):  # fmt: skip
            widget.ascii = ascii
        self._at = at
        self._is_over = False
        self._whole_output = False
        self._printed = -1
        self._looking: Timer | None = None
        self._page = ""

    def compose(self) -> ComposeResult:
        yield self.stages
        yield self.body
        yield self.editor
        yield self.status
        yield self.choices
        yield self.choice
        yield self.output_head
        yield self.output
        yield self.footer
        yield self.too_small

    def on_mount(self) -> None:
        self._looking = self.set_interval(_LOOK_S, self._look, pause=True)
        self.show()

    def close(self) -> None:
        """Go at once, or as soon as what the user has opened over it is closed."""
        self._is_over = True
        if self._looking is not None:
            self._looking.stop()
        if self.app.screen is self:
            self.app.pop_screen()

    def on_screen_resume(self) -> None:
        if self._is_over:
            self.app.pop_screen()

    def on_resize(self, event: events.Resize) -> None:
        self.too_small.fit(self, event.size)
        self.guide.resize(*self.room)

    @property
    def room(self) -> tuple[int, int]:
        """Columns and rows for what a program prints."""
        return max(20, self.size.width - self.output.scrollbar_size_vertical - 1), max(
            2, self.size.height - _OTHER_ROWS
        )

    # -------------------------------------------------------------- painting

    @property
    def pane(self) -> str:
        """What matters now, by the names that the table of keys uses."""
        guide = self.guide
        if self.is_typing:
            return actions.PROMPT
        if guide.page == "choose":
            return actions.RUN_NOTHING if guide.has_nothing_to_choose else actions.RUN_CHOOSE
        if guide.page == "failed":
            return actions.RUN_FAILED
        if guide.page == "running":
            return actions.RUN_GOING
        return actions.RUN_READY if self.host.library.reports else actions.RUN_CHECK

    @property
    def offered(self) -> frozenset[str]:
        """The actions that do something on the page that is open, by id."""
        guide, session, pane = self.guide, self.guide.session, self.pane
        always = {"help", "theme", "quit"}
        is_running = guide.page == "running"
        if self._whole_output:
            own = {"output": True, "run_back": True, "stop": is_running}
        else:
            own = {
                "proceed": (guide.page == "ready" and guide.command is not None) or pane == actions.RUN_CHOOSE,
                "mark": pane == actions.RUN_CHOOSE,
                "mark_all": pane == actions.RUN_CHOOSE,
                "edit": guide.can_edit,
                "retry": guide.can_retry,
                "checks": guide.page == "ready" and session is not None and bool(session.checks),
                "earlier": guide.can_open_earlier,
                "output": self._has_printed,
                "copy_ask": bool(self.body.ask),
                "look": guide.page == "choose",
                "run_back": guide.can_go_back,
                "stop": is_running,
            }
        moves = {one.id for one in actions.ACTIONS if one.scope == "pane"}
        return frozenset(always | moves | {id for id, holds in own.items() if holds})

    @property
    def _has_printed(self) -> bool:
        """Whether there is output of a command to look at."""
        guide = self.guide
        return guide.page == "running" or (guide.page in ("failed", "choose") and guide.result is not None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # Before anything else has seen the key: elsewhere it is a letter, or means nothing.
        if action == "edit":
            return not self._whole_output and (self.guide.can_edit or self.guide.page == "ready") and not self.is_typing
        return super().check_action(action, parameters)

    @property
    def is_typing(self) -> bool:
        return bool(self.editor.display)

    def begin_command(self) -> None:
        """Another one is about to run."""
        self.output.follows = True
        self._page = ""

    def show(self) -> None:
        """Paint what the guide has come to."""
        guide, page = self.guide, self.guide.page
        if page != self._page:
            self._page, self._whole_output = page, False
            self.body.reading = ("", 0, 0)
            self._close_editor()
            if page == "program":
                self._open_editor("")
        is_running = page == "running"
        has_output = is_running or (page == "failed" and guide.result is not None) or self._whole_output
        self.body.display = not self._whole_output
        self.status.display = is_running
        choosing = page == "choose" and not guide.has_nothing_to_choose and not self._whole_output
        self.choices.display = self.choice.display = choosing
        self.output.display = self.output_head.display = has_output
        self.body.set_class(choosing or has_output or self.editor.display, "-above")
        if self._looking is not None:
            if is_running:
                self._looking.resume()
            else:
                self._looking.pause()
        self.body.rebuild()
        self.body.refresh(layout=True)
        if choosing:
            self.choices.update_rows(self._at)
            self._at = None
            self.choices.repaint()
            self.choice.show(self.choices.row)
        if has_output:
            self._show_output()
        self._show_status()
        self._show_footer()
        if not self.editor.display:
            self.set_focus(self.choices if choosing else self.output if is_running or self._whole_output else self.body)

    def _look(self) -> None:
        """What the command has told since, a few times a second; nothing is painted where nothing has changed."""
        if self.guide.live.printed != self._printed and self.output.follows:
            self._show_output()
        self._show_status()

    def _show_footer(self) -> None:
        pane = self.pane
        without = frozenset() if pane == actions.PROMPT else frozenset(actions.BY_ID) - self.offered
        self.footer.show(pane, without=without)

    def _show_status(self) -> None:
        guide, words = self.guide, self.host.words
        clock = ""
        if guide.page == "running":
            clock = clock_text(time.monotonic() - guide.live.began)
        self.stages.show(frozenset(guide.done), frozenset(guide.troubled), guide.stage, clock, guide.folder)
        self.status.update_lines()
        if self._whole_output and guide.log:
            text = words.text("guide.log", path=guide.log)
        else:
            text = words.text("guide.output")
        if self.output.follows:
            self.output_head.show(text, "", "")
        else:
            self.output_head.show(text, "G", words.text("guide.follow"))

    def _show_output(self) -> None:
        self._printed = self.guide.live.printed
        self.output.show(self.guide.live.lines())

    def show_reading(self, name: str, done: int, total: int) -> None:
        """How much of a report is open."""
        self.body.reading = (name, done, total)
        if self.guide.page == "reading":
            self.body.rebuild()

    def on_line_table_highlighted(self, event: LineTable.Highlighted) -> None:
        event.stop()
        self.choice.show(event.row)

    # -------------------------------------------------------------- actions

    def on_key(self, event: events.Key) -> None:
        if event.key not in ("q", "ctrl+q"):
            self.guide.take_back_quit()

    def action_proceed(self) -> None:
        self.guide.proceed()

    def action_edit(self) -> None:
        command = self.guide.command
        if command is None:
            self.guide.tell_nothing_to_run()
        else:
            self._open_editor(shown_command(command.argv))
            self.show()

    def _open_editor(self, text: str) -> None:
        self.body.is_editing, self.body.complaint = True, ""
        self.editor.open(text)

    def _close_editor(self) -> None:
        self.body.is_editing, self.body.complaint = False, ""
        self.editor.display = False

    def on_text_area_changed(self, event: CommandEditor.Changed) -> None:
        if self.body.complaint:
            self._complain(self.guide.complaint(self.editor.text))

    def _complain(self, complaint: str) -> None:
        self.body.complaint = complaint
        self.body.rebuild()
        self.body.refresh(layout=True)

    def on_command_editor_closed(self, event: CommandEditor.Closed) -> None:
        if not self.is_typing:
            return
        if not event.kept:
            self._close_editor()
            if self.guide.page == "program":
                self.guide.go_back()
            else:
                self.show()
            return
        complaint = self.guide.complaint(event.text)
        if complaint:
            self._complain(complaint)
            return
        self._close_editor()
        self.guide.edit(event.text)

    def action_checks(self) -> None:
        session = self.guide.session
        if self.guide.page == "ready" and session is not None:
            self.app.push_screen(DoctorScreen(self.host.words, session.checks, self.host.copy, ascii=self.host.ascii))

    def action_output(self) -> None:
        """The output on the whole screen, with the path of its log; and back."""
        if self._whole_output or self._has_printed:
            self._whole_output = not self._whole_output
            self.show()

    def action_mark(self) -> None:
        row = self.choices.row
        if self.pane == actions.RUN_CHOOSE and row is not None:
            self.guide.toggle(row)

    def action_mark_all(self) -> None:
        if self.pane == actions.RUN_CHOOSE:
            self.guide.toggle_all()

    def action_retry(self) -> None:
        self.guide.retry()

    def action_earlier(self) -> None:
        self.guide.open_earlier()

    def action_look(self) -> None:
        if self.guide.page == "choose":
            self.guide.look_at_timeline()

    def action_back(self) -> None:
        if self._whole_output:
            self.action_output()
        else:
            self.guide.go_back()

    def action_copy_ask(self) -> None:
        if self.body.ask:
            self.host.copy(shown(self.body.ask, 4000))


def clock_text(seconds: float) -> str:
    """``00:14``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
