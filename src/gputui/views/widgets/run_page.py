"""The page of the run screen: what was found, what will run, what went wrong, and which key comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gputui.paint.grid import width_of
from gputui.render.doctor import mark, message, summary, told
from gputui.run.doctor import outlook
from gputui.run.failures import failure_text
from gputui.views import actions
from gputui.views.guide_text import command_rows, shown_command
from gputui.views.paper import LinesView
from gputui.views.text import Line, line_width, paragraph, shorten_middle, shown, wrap

if TYPE_CHECKING:
    from gputui.run.failures import Failure
    from gputui.run.session import StepResult
    from gputui.views.glyphs import Glyphs
    from gputui.views.guide import Guide
    from gputui.wording import Wording

_LAST_LINES = 6
"""Of what a program printed that failed."""
_MOST_WIDTH = 100
"""Cells: longer lines of text are hard to read."""


class RunPage(LinesView):
    BINDINGS = actions.bindings("pane")

    def __init__(self, guide: Guide, words: Wording, signs: Glyphs) -> None:
        super().__init__(id="run-page")
        self.guide = guide
        self.words = words
        self.signs = signs
        self.complaint = ""
        """What is wrong with what was typed."""
        self.is_editing = False
        self.reading: tuple[str, int, int] = ("", 0, 0)
        """The report that is being opened: its name, and how much of how much of it is read."""

        self._room = _MOST_WIDTH
        """Cells for what may be wider than text."""

    def get_content_height(self, container, viewport, width: int) -> int:  # type: ignore[no-untyped-def]
        return len(self.build(width - self.scrollbar_size_vertical))

    def _say(self, key: str, width: int, role: str = "", **params: object) -> list[Line]:
        return paragraph(self.words.text(f"guide.{key}", **params), width, role=role)

    def build(self, width: int) -> list[Line]:
        self._room = width - 2
        width = min(self._room, _MOST_WIDTH)
        pages: dict[str, Callable[[int], Iterable[Line]]] = {
            "program": self._page_program,
            "checking": partial(self._say, "checking", role="sentence"),
            "planning": partial(self._say, "planning", role="sentence"),
            "ready": self._page_ready,
            "running": self._page_running,
            "reading": self._page_reading,
            "choose": self._page_choose,
            "failed": self._page_failed,
        }
        return [[(" ", ""), *line] for line in pages[self.guide.page](width)]

    # -------------------------------------------------------------- pages

    def _page_program(self, width: int) -> Iterator[Line]:
        yield from self._say("program", width, "sentence")
        yield from self._typing(width)

    def _page_ready(self, width: int) -> Iterator[Line]:
        guide = self.guide
        if self.is_editing:
            yield from self._typing(width)
            return
        is_check = guide.stage == "check"
        checks = () if guide.session is None else guide.session.checks
        yield from self._obstacles(width)
        if guide.commands:
            yield from self._commands(width)
        else:
            yield from self._key("retry", "check_again")
        if is_check and guide.earlier:
            yield ()
            one = guide.earlier[0]
            program, folder = shown(one.program), shown(one.path.name)
            yield from self._say("earlier", width, "muted", program=program, folder=folder, reports=len(one.reports))
            yield from self._key("earlier", "open_earlier")
        if is_check and checks:
            yield ()
            passed = sum(one.state == "ok" for one in checks)
            yield from self._say("passed", width, "faint", passed=passed, checks=len(checks))

    def _obstacles(self, width: int) -> Iterator[Line]:
        """What stands in the way, each with what one may do about it oneself."""
        guide = self.guide
        checks = () if guide.session is None else guide.session.checks
        if guide.stage == "check":
            troubles = [one for one in checks if one.state in ("problem", "warning")]
        else:
            troubles = list(guide.blockers)
        if any(one.state == "problem" for one in troubles):
            # Without a GPU too nsys can record something.
            is_cpu_only = guide.stage == "check" and guide.command is not None and outlook(checks) == "no-gpu"
            sentence = self.words.text("run.text.cpu-only") if is_cpu_only else summary(checks, self.words)
            yield from paragraph(sentence, width, role="sentence")
            yield ()
        for row in told(troubles, self.words):
            sign = mark(row.state, ascii=self.ascii)
            lead = [(f"{sign} ", "high" if row.state == "problem" else "warning"), (f"{row.name}: ", "strong")]
            yield from _with_lead(lead, row.found, width)
            if row.state == "problem":
                for _, lines in row.fixes[:1]:
                    for line in lines:
                        yield from paragraph(line, width, first=[(f"  {self.signs.bullet} ", "accent")], indent=4)
        if self.ask:
            yield from self._key("copy_ask", "copy_ask")
        if troubles:
            yield ()

    def _commands(self, width: int) -> Iterator[Line]:
        guide = self.guide
        tries = bool(guide.blockers)
        if guide.told:
            yield from paragraph(guide.told, width, role="sentence")
        elif not tries:
            key = "ready-timeline" if guide.commands[0].tool == "nsys" else "ready-counters"
            yield from self._say(key, width, "sentence")
        yield ()
        program = () if guide.session is None else guide.session.request.command
        several = len(guide.commands) > 1
        for place, command in enumerate(guide.commands):
            mark = self.signs.cursor if several and place == guide.place else " "
            # Code is not read line by line: it may be as wide as there is room.
            for line in command_rows(command.argv, program, max(width, self._room) - 2):
                yield [(f"{mark} ", "accent"), *line]
            if several and place + 1 < len(guide.commands):
                yield ()
        yield ()
        yield from self._key("proceed", "run_anyway" if tries else "run_all" if several else "run_it")

    def _typing(self, width: int) -> Iterator[Line]:
        if self.complaint:
            yield from paragraph(self.complaint, width, role="warning")
        elif self.guide.page != "program":
            yield from self._say("typing", width, "sentence")

    def _page_running(self, width: int) -> Iterator[Line]:
        command = self.guide.command
        if command is not None:
            text = shown_command(command.argv).replace("\n", " ")
            yield [("$ ", "faint"), (shorten_middle(text, width - 2), "muted")]

    def _page_reading(self, width: int) -> Iterator[Line]:
        name, done, total = self.reading
        if name:
            key = "opening_part" if total else "opening"
            yield from self._say(key, width, "sentence", name=name, percent=100 * done / total if total else 0)
        else:
            yield from self._say("reading", width, "sentence")

    def _page_choose(self, width: int) -> Iterator[Line]:
        guide = self.guide
        if self.is_editing:
            yield from self._typing(width)
            return
        if guide.opened is not None:
            yield from self._say("kept_interrupted", width, "muted", folder=guide.folder)
        if guide.trouble is not None:
            yield from self._trouble(guide.trouble, width)
        if guide.has_nothing_to_choose:
            yield from self._nothing_to_choose(width)
            return
        if guide.diagnosis is not None:
            yield from paragraph(self.words.timeline_verdict(guide.diagnosis.verdict), width, role="sentence")
        key = "choose" if guide.counters_tell else "choose_timeline_first"
        yield from self._say(key, width, "muted" if guide.counters_tell else "warning")
        if guide.blockers:
            checks = () if guide.session is None else guide.session.checks
            yield from paragraph(summary(checks, self.words), width, role="warning")

    def _trouble(self, result: StepResult, width: int) -> Iterator[Line]:
        """How the program failed that left a timeline, and what it said."""
        failure = next((one for one in result.failures if one.kind != "noise"), None)
        if failure is None:
            yield from self._say("program_failed", width, "high", status=result.outcome.status)
        elif self.guide.has_nothing_to_choose:
            yield from self._cure(failure, width)
        else:
            text = failure_text(failure, self.words)
            yield from paragraph(shown(text.title), width, role="high")
            yield from paragraph(shown(text.cause, 300), width)
        if self.guide.has_nothing_to_choose:
            yield ()
            yield from self._last_lines(width)
        yield from self._key("output", "all_output", path=self.guide.log)
        yield ()

    def _last_lines(self, width: int) -> Iterator[Line]:
        for line in self.guide.last_lines[-_LAST_LINES:]:
            yield [("  ", ""), (shorten_middle(line, width - 2), "faint")]

    def _nothing_to_choose(self, width: int) -> Iterator[Line]:
        guide = self.guide
        if guide.diagnosis is not None:
            yield from paragraph(self.words.timeline_verdict(guide.diagnosis.verdict), width, role="sentence")
        yield ()
        if guide.trouble is None and guide.result is not None:
            for failure in guide.result.failures:
                if failure.kind != "noise":
                    yield from self._cure(failure, width)
                    yield ()
        checks = () if guide.session is None else guide.session.checks
        if checks and outlook(checks) == "no-gpu":
            yield from paragraph(self.words.text("run.text.cpu-only"), width)
        else:
            yield from self._say("no_kernels" if guide.can_retry else "no_kernels_given", width)
        if guide.can_retry:
            yield ()
            yield from self._key("retry", "try_again")

    def _page_failed(self, width: int) -> Iterator[Line]:
        guide = self.guide
        if self.is_editing:
            yield from self._typing(width)
            return
        if guide.error is not None:
            yield from paragraph(shown(guide.error.title, 300), width, role="high")
            yield from paragraph(shown(guide.error.message, 600), width)
            if guide.error.hint:
                yield from paragraph(shown(guide.error.hint, 600), width, role="accent")
        elif guide.result is not None:
            yield from self._what_failed(width)
        yield ()
        yield from self._key("retry", "try_again")
        if guide.result is not None:
            yield from self._say("log", width, "faint", path=guide.log)

    def _what_failed(self, width: int) -> Iterator[Line]:
        result = self.guide.result
        assert result is not None
        known = [one for one in result.failures if one.kind == "failure"] or list(result.failures)
        if not known:
            status = result.outcome.status
            key = "failed_error" if result.outcome.error else "failed" if status is None else "failed_status"
            yield from self._say(key, width, "high", status=status, error=shown(result.outcome.error, 300))
            yield from self._say("see_output", width)
        for place, failure in enumerate(known):
            if place:
                yield ()
            yield from self._cure(failure, width)

    def _cure(self, failure: Failure, width: int) -> Iterator[Line]:
        """What went wrong, and what to do."""
        text = failure_text(failure, self.words)
        yield from paragraph(shown(text.title), width, role="high")
        yield from paragraph(shown(text.cause, 1000), width)
        if failure.line:
            yield [(shorten_middle(shown(failure.line), width), "faint")]
        if text.fix:
            yield ()
        for line in text.fix:
            yield from paragraph(shown(line, 1000), width, first=[(f"{self.signs.bullet} ", "accent")], indent=2)
        if text.ask:
            yield ()
            yield from self._key("copy_ask", "ask")
            yield from paragraph(shown(text.ask, 2000), width, first=[("  ", "")], indent=2, role="code")

    def _key(self, action: str, key: str, **params: object) -> Iterable[Line]:
        """A key that the page itself offers."""
        text = actions.BY_ID[action].footer_key(ascii=self.ascii)
        said = self.words.text(f"guide.{key}", **params)
        return paragraph(said, self._room, first=[(text, "key"), ("  ", "")], indent=width_of(text) + 2)

    @property
    def ask(self) -> str:
        """The message to the administrator, empty where none is shown."""
        guide = self.guide
        if guide.page == "ready":
            checks = () if guide.session is None else guide.session.checks
            return message(checks if guide.stage == "check" else guide.blockers, self.words)
        failures = () if guide.result is None or guide.page not in ("failed", "choose") else guide.result.failures
        return next((text.ask for one in failures if (text := failure_text(one, self.words)).ask), "")

    # -------------------------------------------------------------- several commands

    def action_cursor_down(self) -> None:
        self._move(1)

    def action_cursor_up(self) -> None:
        self._move(-1)

    def _move(self, step: int) -> None:
        guide = self.guide
        if guide.page == "ready" and len(guide.commands) > 1:
            guide.place = max(0, min(guide.place + step, len(guide.commands) - 1))
            self.rebuild()
        else:
            self.scroll_relative(y=step, animate=False)


def _with_lead(lead: Line, text: str, width: int) -> list[Line]:
    """``text`` behind the words that it is about, the lines below it a little in."""
    used = line_width(lead)
    first, *rest = wrap(text, max(8, width - used))
    below = paragraph(" ".join(rest), width, indent=2) if rest else []
    return [[*lead, (first, "")], *below]
