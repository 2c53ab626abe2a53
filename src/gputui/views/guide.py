"""A guided run: what has been done, what comes next, and what the reader decides. It knows no widget.

All of it lives on the screen's thread; what blocks runs in workers of the application, which post what they found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from gputui.analysis.ncu_command import name_filter, program_of
from gputui.errors import EXIT_NO, GputuiError
from gputui.run.failures import failure_text
from gputui.run.folder import commands_of, program_name
from gputui.run.plan import Command, Request, moved
from gputui.views.guide_text import parsed, shown_command
from gputui.views.live import Live
from gputui.views.messages import CommandEnded, CommandsPlanned, KernelsProposed, MachineChecked
from gputui.views.screens.run import RunScreen
from gputui.views.text import shown
from gputui.views.widgets.stages import Stage

if TYPE_CHECKING:
    from gputui.analysis.proposals import Proposal
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.run.doctor import Check
    from gputui.run.folder import RunRecord, RunSummary
    from gputui.run.session import Listener, Session, StepResult
    from gputui.views.app import GputuiApp
    from gputui.views.library import Entry, LoadedReport

Page = Literal["program", "checking", "planning", "ready", "running", "reading", "choose", "failed"]
"""What the run screen shows: asks for the program; looks at the machine; works out the commands; commands that wait for
enter; one that runs; reports being opened; kernels to choose from; what went wrong."""
Proposer = Callable[["TimelineDiagnosis"], "tuple[Proposal, ...]"]
SessionMaker = Callable[[Request], "Session"]

_COUNTERS_TELL = frozenset({"busy", "few", "low-sm-active"})
"""Verdicts on a timeline after which faster kernels are what helps."""


class Guide:
    """``session`` is the run to lead through; ``new_session`` makes another one, on the same machine and without
    waiting for it: for what ``r`` repeats, and for a kernel of a report.

    Kernels are chosen from ``timeline`` where one is given, else it is recorded. ``earlier`` are runs that were
    interrupted, the newest first; ``opened`` is the run whose reports are open, where they are one's.
    """

    def __init__(
        self,
        host: GputuiApp,
        session: Session | None = None,
        *,
        proposer: Proposer | None = None,
        new_session: SessionMaker | None = None,
        timeline: Path | None = None,
        earlier: Sequence[RunSummary] = (),
        opened: RunRecord | None = None,
    ) -> None:
        self.host = host
        self.session = session
        self.sessions = [] if session is None else [session]
        """All that were led through, the latest last."""
        program = "" if session is None else program_name(session.request.command)
        # There is nothing to open of one that has no report.
        self.earlier = tuple(one for one in earlier if one.program == program and one.reports)
        self.screen: RunScreen | None = None
        self.stage: Stage = "check"
        self.done: set[Stage] = set()
        self.troubled: set[Stage] = set()
        """Stages that are done, and in which something went wrong."""
        self.page: Page = "checking"
        self.live = Live()
        self.commands: list[Command] = []
        """Those that wait, run or have run, in turn."""
        self.place = 0
        """The one under the cursor, or that runs."""
        self.diagnosis: TimelineDiagnosis | None = None
        self.proposals: tuple[Proposal, ...] = ()
        self.marked: set[int] = set()
        self.result: StepResult | None = None
        """Of the command that has ended last."""
        self.trouble: StepResult | None = None
        """Of the timeline to choose from, where its program failed."""
        self.error: GputuiError | None = None
        self.told = ""
        """A line above the commands: what has just happened."""
        self.stops = 0
        """How often the running command was asked to stop."""
        self.asks_to_quit = False
        self.quits = False
        """Whether the application ends with the running command."""
        self._is_choosing = False
        self._is_finished = False
        self._is_read = False
        self._first_new = 0
        self.opened: Path | None = None
        """The folder of the interrupted run that is looked at."""
        self._timeline = 0
        """Its place among the reports: the one that the kernels are chosen from."""
        self._ran: dict[str, Command] = {one.id: one for one in commands_of(opened)} if opened else {}
        """By id, what left a report in the last run."""
        self._ran_of: Session | None = None
        self._request = opened.request if opened else None
        """What the run was asked for that is open."""
        self._reports: list[Path] = []
        self._before: LoadedReport | None = None
        """The last one before the commands are run again: what comes of that is compared with it."""
        self._given = timeline
        self._wanted: Entry | None = None
        self._redo: Callable[[], None] = self._check
        """What failed, from its beginning."""
        self._proposer = proposer
        self._new_session = new_session

    # -------------------------------------------------------------- what the screen asks

    @property
    def is_open(self) -> bool:
        return self.screen is not None

    @property
    def command(self) -> Command | None:
        return self.commands[self.place] if self.place < len(self.commands) else None

    @property
    def blockers(self) -> tuple[Check, ...]:
        """What keeps the profiler from working that is next."""
        if self.session is None or not self.session.checks:
            return ()
        return self.session.blockers("ncu" if self.stage in ("choose", "counters") else "nsys")

    @property
    def folder(self) -> str:
        """Where the files of this run are, safe to show; empty before there is a folder."""
        if self.opened is not None:
            return _from_here(self.opened)
        folder = None if self.session is None else self.session.folder
        return "" if folder is None else _from_here(folder.path)

    @property
    def log(self) -> str:
        """The file that holds all that the command printed, or where it will be."""
        return _from_here(self.result.log) if self.result is not None else self.folder

    @property
    def counters_tell(self) -> bool:
        """Whether the timeline says that faster kernels help."""
        return self.diagnosis is not None and self.diagnosis.verdict.id in _COUNTERS_TELL

    @property
    def has_nothing_to_choose(self) -> bool:
        return not self.proposals

    @property
    def can_edit(self) -> bool:
        """Whether a command can be changed now."""
        waits = self.page in ("ready", "failed") or (self.page == "choose" and self.has_nothing_to_choose)
        return waits and self.command is not None

    @property
    def can_retry(self) -> bool:
        is_check = self.page == "ready" and self.stage == "check"
        has_run = self.page == "choose" and self.has_nothing_to_choose and self.command is not None
        return self.page == "failed" or is_check or has_run

    @property
    def can_open_earlier(self) -> bool:
        return self.page == "ready" and self.stage == "check" and bool(self.earlier)

    @property
    def can_go_back(self) -> bool:
        pages: tuple[Page, ...] = ("ready", "choose", "failed", "program")
        return self.page in pages and bool(self.host.library.reports)

    @property
    def last_lines(self) -> list[str]:
        """What the program printed, without what nsys says once it has ended; safe to show."""
        lines = list(self.live.lines())
        end = next((place for place, line in enumerate(lines) if line.startswith("Generating '")), len(lines))
        return [line for line in lines[:end] if line.strip()]

    @property
    def kept(self) -> list[tuple[Path, bool]]:
        """The folders of the runs in which something was run, and whether they hold reports."""
        return [
            (one.folder.path, any(result.reports for result in one.results))
            for one in self.sessions
            if one.folder is not None and (one.results or one.pending is not None)
        ]

    # -------------------------------------------------------------- check

    def begin(self) -> None:
        """Lead through the session from its beginning."""
        self._open_screen()
        self._check()

    def _check(self) -> None:
        assert self.session is not None
        self.stage, self.error, self.result = ("counters" if self._wanted else "check"), None, None
        self._redo = self._check
        self._turn_to("checking")
        self._work(self._check_machine, self.session)

    def _check_machine(self, session: Session) -> None:
        session.check()
        self.host.post_message(MachineChecked())

    def checked(self) -> None:
        """What the machine can do is known."""
        assert self.session is not None
        self.done.add("check")
        if self._wanted is not None:
            self._plan_for(self._wanted)
        elif self._given is not None:
            self.stage, self._reports, self._given = "timeline", [self._given], None
            self._read()
        elif self.session.pending is not None:
            self.commands, self.place = [self.session.pending], 0
            self._run()
        elif not self.session.tools.nsys:
            self._wait_with([])
        else:
            self._plan(lambda session: [session.timeline_command()])

    def _plan(self, commands_of: Callable[[Session], Sequence[Command]]) -> None:
        """Have the next commands made: the first of a run makes its folder, maybe on another machine."""
        assert self.session is not None
        self._redo = partial(self._plan, commands_of)
        self._turn_to("planning")
        self._work(self._make_commands, self.session, commands_of)

    def _make_commands(self, session: Session, commands_of: Callable[[Session], Sequence[Command]]) -> None:
        self.host.post_message(CommandsPlanned(commands_of(session)))

    def planned(self, commands: Sequence[Command]) -> None:
        """The next commands are known."""
        assert self.session is not None
        self._wait_with(commands)
        if self.session.request.top is not None and self._wanted is None and not (self.blockers or self.told):
            self.proceed()

    # -------------------------------------------------------------- commands

    def _wait_with(self, commands: Sequence[Command]) -> None:
        self.commands, self.place = list(commands), 0
        self._reports = []
        self._turn_to("ready")

    def complaint(self, text: str) -> str:
        """What is wrong with what was typed for the command under the cursor, or for the program; empty if nothing."""
        words, command = self.host.words, self.command
        if self.page != "program" and command is not None and text == shown_command(command.argv):
            return ""
        try:
            argv = parsed(text)
        except ValueError:
            return words.text("guide.unclosed")
        if not argv:
            return words.text("guide.empty")
        if self.page == "program" or command is None:
            return ""
        outputs = [one for one in command.argv if one.endswith(command.output)]
        if outputs and not any(one.endswith(command.output) for one in argv):
            return words.text("guide.no_output", output=shown(outputs[0]))
        return ""

    def edit(self, text: str) -> None:
        """Take what was typed, with which nothing is wrong."""
        if self.page == "program":
            self._profile_program(parsed(text))
            return
        command = self.command
        assert command is not None
        if text != shown_command(command.argv):  # What cannot be shown is kept.
            self.commands[self.place] = replace(command, argv=parsed(text))
        self._turn_to("ready")

    def proceed(self) -> None:
        """Go on with what the page waits for."""
        if self.page == "ready" and self.command is None:
            self.tell_nothing_to_run()
        elif self.page == "ready":
            self._run()
        elif self.page == "choose" and self.marked:
            self._show_commands()

    def tell_nothing_to_run(self) -> None:
        self.host.notify(self.host.words.text("guide.nothing_to_run"), severity="warning", markup=False)

    def _run(self) -> None:
        command, session = self.command, self.session
        assert command is not None
        assert session is not None
        self.stage = "timeline" if command.tool == "nsys" else "counters"
        self.stops, self.asks_to_quit, self.told, self.result = 0, False, "", None
        self._redo = self._run
        self.live.forget()
        if self.place == 0:
            self._reports, self.opened = [], None
            self.troubled.discard(self.stage)
        # By its methods it is one; the session is loaded only where something runs.
        session.listener = cast("Listener", self.live)
        if self.screen is not None:
            self.screen.begin_command()
            session.resize(*self.screen.room)
        self._turn_to("running")
        self._work(self._run_command, session, command)

    def _run_command(self, session: Session, command: Command) -> None:
        # One whose connection was lost is gone on with.
        lead = session.run if command != session.pending else session.attach
        self.host.post_message(CommandEnded(lead(command)))

    def stop(self) -> None:
        """Have the running command finish what it has; asked again, end it at once."""
        if self.page == "running" and self.session is not None:
            self.stops += 1
            self.asks_to_quit = False
            self.session.stop()
            self._show()

    def ended(self, result: StepResult) -> None:
        """A command has come to its end."""
        self._reports += result.reports
        self.result = result
        self._remember(result)
        if self.quits:
            self._finish(waits=True)
            self.host.exit(0 if self._reports else EXIT_NO)
            return
        if result.failed and not (self._reports or result.outcome.stopped):
            self._fail(result)
        elif not result.outcome.stopped and self.place + 1 < len(self.commands):
            self.place += 1
            self._run()
        elif self._reports:
            self._read()
        else:
            self.told = self.host.words.text("guide.nothing_written")
            self._turn_to("ready")

    def _remember(self, result: StepResult) -> None:
        """The exit status, what to repeat, and what went wrong beside a report: that is told with it."""
        assert self.session is not None
        self._set_status()
        if result.failed or result.program_failed:
            self.troubled.add(self.stage)
        if not self._reports:
            return
        if self._ran_of is not self.session:
            self._ran, self._ran_of = {}, self.session
        self._ran[result.command.id] = result.command
        remarks = self.host.library.remarks
        told = (failure_text(one, self.host.words).title for one in result.failures if one.kind != "noise")
        remarks += [one for one in told if one not in remarks]

    def _set_status(self) -> None:
        self.host.set_status(EXIT_NO if self._went_wrong else 0)

    @property
    def _ends(self) -> list[StepResult]:
        """How the commands of this run ended; of one that was tried again, how it ended last."""
        return [] if self.session is None else list({one.command.id: one for one in self.session.results}.values())

    @property
    def _went_wrong(self) -> bool:
        """As a run without a screen has it: a command or the program failed, or there was no GPU work."""
        is_idle = self._is_choosing and self.diagnosis is not None and not self.diagnosis.kernels
        return is_idle or any(one.failed or one.program_failed for one in self._ends)

    def resize(self, columns: int, rows: int) -> None:
        """The program's terminal is as large as the pane that shows what it prints."""
        if self.page == "running" and self.session is not None:
            self.session.resize(columns, rows)

    # -------------------------------------------------------------- reports

    def _read(self) -> None:
        self._redo = self._read
        self.done.add(self.stage)
        self._is_read = False
        self._first_new = len(self.host.library.reports)
        self._turn_to("reading")
        self.host.open(self._reports)

    def loaded(self) -> None:
        """Nothing is left to open."""
        self._is_read = True
        self.advance()

    def advance(self) -> None:
        """Go on as soon as the reports are open and the timeline is explained."""
        library = self.host.library
        if self.page != "reading" or not self._is_read:
            return
        new = range(self._first_new, len(library.reports))
        if not new:
            self.fail(library.failures[-1] if library.failures else GputuiError("gputui", "nothing could be read"))
            return
        if self._before is not None:
            self.host.comparing.mark_run_before(self._before)
            self._before = None
        timeline = next((one for one in new if library.reports[one].facts is not None), None)
        if timeline is None or len(self.commands) > 1 or self.stage == "counters":
            self._explain(new)
        elif timeline in library.timelines:
            self._propose(timeline, self._choose)

    def _propose(self, timeline: int, then: Callable[[], None]) -> None:
        """Have it worked out what of this explained timeline to offer."""
        self._timeline, self.diagnosis = timeline, self.host.library.timelines[timeline].diagnosis
        self._redo = partial(self._propose, timeline, then)
        self._turn_to("planning")
        self._work(self._make_proposals, self.diagnosis, then)

    def _make_proposals(self, diagnosis: TimelineDiagnosis, then: Callable[[], None]) -> None:
        self.host.post_message(KernelsProposed(() if self._proposer is None else self._proposer(diagnosis), then))

    def proposed(self, proposals: tuple[Proposal, ...], then: Callable[[], None]) -> None:
        """It is known what to offer."""
        self.proposals = proposals
        then()

    def _choose(self) -> None:
        self.marked = {place for place, one in enumerate(self.proposals) if one.is_proposed}
        self.stage, self._is_choosing = "choose", True
        self.trouble = self.result if self.result is not None and self.result.program_failed else None
        self._set_status()
        top = None if self.session is None else self.session.request.top
        if top is not None:
            self.marked = set(sorted(self.marked)[:top])
            if top == 0:
                self._explain(range(self._first_new, len(self.host.library.reports)))
                return
        self._turn_to("choose")
        if top is not None and self.marked and not self.blockers:
            self.proceed()

    def _show_commands(self) -> None:
        """The ncu commands for the marked kernels."""
        diagnosis = self.diagnosis
        assert diagnosis is not None
        chosen = [self.proposals[place] for place in sorted(self.marked)]
        self.done.add("choose")
        self.stage = "counters"
        self._plan(lambda session: session.counter_commands(diagnosis, chosen))

    def _explain(self, new: Sequence[int]) -> None:
        """Show what came of it: the kernel that takes most of the program's time."""
        words, host = self.host.words, self.host
        self._finish()
        self._is_choosing = False
        self.stage, self._wanted = "explain", None
        shares = {one.share.kernel.name: one.share.share for one in reversed(self.proposals)}
        counted = [entry for one in new for entry in host.library.reports[one].entries if entry.timed is None]
        worst = max(
            counted,
            key=lambda entry: (shares.get(entry.kernel.name, 0.0), entry.duration_ns or 0.0),
            default=None,
        )
        self._close_screen()
        if worst is not None:
            host.main.go_to(worst)
            host.main.explain_selected()
        if self.folder:
            key = "kept" if self.opened is None else "kept_interrupted"
            host.notify(words.text(f"guide.{key}", folder=self.folder), timeout=12, markup=False)

    # -------------------------------------------------------------- choosing

    def toggle(self, place: int) -> None:
        self.marked ^= {place}
        self._show()

    def toggle_all(self) -> None:
        """Mark those that are proposed; where they are marked, none."""
        proposed = {place for place, one in enumerate(self.proposals) if one.is_proposed}
        self.marked = set() if self.marked else proposed
        self._show()

    def go_back(self) -> None:
        """One step back: from the commands to the kernels, from there and from a failure to what is open."""
        if self.page == "ready" and self.stage == "counters" and self._is_choosing:
            self.stage = "choose"
            self._turn_to("choose")
        elif self.can_go_back:
            self._close_screen()

    def look_at_timeline(self) -> None:
        self.go_back()
        entries = self.host.library.reports[self._timeline].entries
        if entries:
            self.host.main.go_to(entries[0])
        self.host.main.action_show_tab("timeline")

    # -------------------------------------------------------------- from the main screen

    def profile(self, entry: Entry) -> None:
        """Have ncu look into a kernel of the list: among those to choose from, or it alone."""
        words = self.host.words
        if self._is_choosing:
            place = self._proposal_of(entry)
            if place is not None:
                self.marked.add(place)
            self.stage = "choose"
            self._open_screen(at=place)
            self._turn_to("choose")
            return
        if self._new_session is None and (self.session is None or self._is_finished):
            self.host.notify(words.text("guide.cannot_run"), markup=False)
            return
        if entry.timed is not None and self.host.library.share_of(entry) is None:
            self.host.notify(words.ui("verdict_pending"), markup=False)
            return
        self._wanted, self.stage = entry, "counters"
        self._open_screen()
        if self.session is not None:
            self._profile_wanted()
            return
        timeline = self.host.library.report_of(entry).report.timeline
        program = () if timeline is None else program_of(timeline.files)
        if self._request is not None:
            program = self._request.command
        if program:
            self._profile_program(program)
        else:
            self._turn_to("program")

    def entry_of(self, proposal: Proposal) -> Entry:
        """The kernel as the list of kernels has it."""
        return self.host.library.reports[self._timeline].entries[proposal.share.kernel.index]

    def _proposal_of(self, entry: Entry) -> int | None:
        share = self.host.library.share_of(entry)
        return next((place for place, one in enumerate(self.proposals) if one.share is share), None)

    def _profile_program(self, program: tuple[str, ...]) -> None:
        self._begin_anew(Request(program, os.getcwd()))
        self._check()

    def _profile_wanted(self) -> None:
        assert self.session is not None
        assert self._wanted is not None
        if self._is_finished:
            self._begin_anew(self.session.request)
        if self.session.checks:
            self._plan_for(self._wanted)
        else:
            self._check()

    def _begin_anew(self, request: Request) -> None:
        """Another run, in a folder of its own; what its machine can do may be known already."""
        assert self._new_session is not None
        self._finish()
        old, self.session = self.session, self._new_session(request)
        self.sessions.append(self.session)
        if old is not None:
            self.session.facts, self.session.checks = old.facts, old.checks
            self.session.tools = replace(old.tools, folder="")
        self._is_finished, self._is_choosing, self.opened = False, False, None
        self.troubled.clear()

    def _plan_for(self, entry: Entry) -> None:
        """The ncu command for one kernel."""
        self.stage = "counters"
        timed = self._timed_of(entry)
        explained = None if timed is None else self.host.library.timelines.get(timed.report)
        if timed is None or explained is None or self._proposer is None:
            self._plan(lambda session: [session.kernels_command(name_filter((entry.kernel.name,)))])
            return
        self._propose(timed.report, partial(self._plan_proposed, timed))

    def _plan_proposed(self, timed: Entry) -> None:
        place = self._proposal_of(timed)
        if place is None or self.proposals[place].reason == "collective":
            self.host.notify(self.host.words.text("guide.no_command"), markup=False)
            self._close_screen()
            return
        self.marked = {place}
        self._show_commands()

    def _timed_of(self, entry: Entry) -> Entry | None:
        """The kernel of a timeline that an entry is, or that its counters belong to."""
        if entry.timed is not None:
            return entry
        library = self.host.library
        return next((library.entries[one] for one, link in library.links.items() if link.entry is entry), None)

    def repeat(self) -> None:
        """Offer to run the commands of the last run once more, in a folder of their own."""
        request = self._request if self.session is None else self.session.request
        if request is None or self._new_session is None or not self._ran:
            self.host.notify(self.host.words.text("guide.nothing_to_repeat"), markup=False)
            return
        self._begin_anew(request)
        self._before = self.host.library.reports[-1] if self.host.library.reports else None
        self.done, self._wanted = {"check"}, None
        ran = list(self._ran.values())
        self.stage = "timeline" if ran[0].tool == "nsys" else "counters"
        self.told = self.host.words.text("guide.again")
        self._open_screen()
        self._plan(lambda session: [moved(one, session.place()) for one in ran])

    def retry(self) -> None:
        """Once more what failed; the command that found nothing; the look at the machine."""
        if self.page == "failed":
            self._redo()
        elif self.page == "choose" and self.can_retry:
            self._run()
        elif self.session is not None and self.can_retry:
            self._check()

    def open_earlier(self) -> None:
        """Open the newest run that was interrupted, and go on from there."""
        if self.can_open_earlier:
            self.opened = self.earlier[0].path
            self._reports = [self.opened]
            self.stage = "timeline"
            self._read()

    # -------------------------------------------------------------- failures and the end

    def _fail(self, result: StepResult) -> None:
        self.result, self.error = result, None
        self.host.set_status(EXIT_NO)
        self._turn_to("failed")

    def fail(self, error: GputuiError) -> None:
        """Something else than a command failed."""
        if self.quits:
            self._finish(waits=True)
            self.host.exit(EXIT_NO)
            return
        self.result, self.error = None, error
        self.host.set_status(EXIT_NO)
        self._turn_to("failed")

    def may_quit(self) -> bool:
        """Whether the application may end now; a running program is asked about, and stopped, first."""
        if self.page != "running" or self.screen is None:
            self._finish(waits=True)
            return True
        if not self.asks_to_quit and not self.quits:
            self.asks_to_quit = True
            self._show()
            return False
        if self.quits:
            return True
        self.quits = True
        self.stop()
        return False

    def take_back_quit(self) -> None:
        if self.asks_to_quit:
            self.asks_to_quit = False
            self._show()

    def _finish(self, *, waits: bool = False) -> None:
        """Close the run folder, once, and let go of the machine, which may be far away."""
        session = self.session
        if session is None or session.folder is None or self._is_finished:
            return
        self._is_finished = True
        stopped = any(one.outcome.stopped for one in self._ends)
        failed = self.page == "failed" or self._went_wrong
        finish = partial(session.finish, "stopped" if stopped else "failed" if failed else "done")
        if waits:
            finish()
        else:
            self._work(finish)

    # -------------------------------------------------------------- screen and workers

    def _open_screen(self, at: int | None = None) -> None:
        if self.screen is None:
            self.screen = RunScreen(self, at=at)
            self.host.push_screen(self.screen)

    def _close_screen(self) -> None:
        if self.screen is not None:
            self.screen.close()
            self.screen = None

    def _turn_to(self, page: Page) -> None:
        self.page = page
        self._show()

    def _show(self) -> None:
        if self.screen is not None and self.screen.is_mounted:
            self.screen.show()

    def _work(self, function: Callable[..., None], *arguments: Any) -> None:
        self.host.run_worker(partial(function, *arguments), thread=True, group="run", exit_on_error=False)


def _from_here(path: Path) -> str:
    """A path as one would type it here, safe to show."""
    return shown(os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path))
