"""``gputui run``: from a program to an explanation, with a screen or without. It holds no arithmetic."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputui.errors import GputuiError
from gputui.run import folder as folders
from gputui.run.guided import Stage, Teller, lead
from gputui.run.output import PlainText
from gputui.run.session import Session, machine_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rich.console import RenderableType

    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.proposals import Proposal
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.model.report import Report
    from gputui.render.lines import Told
    from gputui.run.doctor import Check
    from gputui.run.folder import RunSummary
    from gputui.run.plan import Command, Request, Tools
    from gputui.run.progress import Progress
    from gputui.run.session import StepResult
    from gputui.wording import ReaderLevel, Wording

_REPORT = re.compile(r"Generating '[^'\n]*\.qdstrm'")
"""What nsys says when it begins to write its report."""
_OF_REPORT = re.compile(rf"{_REPORT.pattern}|\[\d+/\d+\] \[[= ]*\d+%.*|Generated:|\s+/.*\.(?:nsys-rep|qdstrm)|\s*")
"""A line of nsys about its files, which have names of the moment."""
Show = Callable[[Iterable["RenderableType"]], None]


def attached(base: Path) -> Session:
    """The newest run that may still go on on another machine. Raises ``GputuiError`` where there is none."""
    lost = [one for one in folders.runs(base) if one.state == "unknown" and folders.read_record(one.path).host]
    if not lost:
        raise GputuiError(str(base), "holds no run that goes on on another machine", "gputui runs lists what there is")
    folder = folders.RunFolder.open(lost[0].path)
    request = folder.record.request
    return Session(machine_of(folder.record.host, request.directory), request, base, folder=folder)


def kept_timeline(session: Session) -> Path | None:
    """The timeline that a run has recorded before, where nothing of it is under way."""
    if session.folder is None or session.pending is not None:
        return None
    found = (name for stage in session.folder.record.stages if stage.tool == "nsys" for name in stage.reports)
    return next((session.folder.path / name for name in found), None)


def means(base: Path, request: Request | None = None, host: str = "") -> dict[str, Any]:
    """What the screens need to profile kernels: which to propose, and a session for another run on the same machine."""
    from gputui.analysis.proposals import propose, texts_of
    from gputui.run.patterns import check_time

    def proposer(diagnosis: TimelineDiagnosis) -> tuple[Proposal, ...]:
        if request is None:
            return propose(diagnosis)
        for option, expression in (("--kernel", request.kernel), ("--nvtx", request.nvtx)):
            if expression is not None:
                check_time(option, expression, texts_of(diagnosis.facts))
        return propose(diagnosis, request.kernel, request.nvtx, top=request.top, launches=request.launches)

    def new_session(asked: Request) -> Session:
        return Session(machine_of(host, asked.directory, connect=False), asked, base)

    return {"proposer": proposer, "new_session": new_session}


def opened_run(paths: Sequence[Path]) -> folders.RunRecord | None:
    """What is known of the run whose folder is the one thing to open."""
    with suppress(GputuiError):
        return folders.read_record(paths[0]) if len(paths) == 1 else None
    return None


def recovered(base: Path) -> list[RunSummary]:
    """The runs whose gputui died, the newest first, with what they left kept: from now on they are only listed."""
    found = []
    for run in folders.interrupted(base):
        with suppress(GputuiError):
            found.append(folders.recover(run.path))
    return found


class Printer(Teller):
    """Prints a guided run: the program's output as it comes, and what gputui says of it beside."""

    def __init__(
        self,
        write: Callable[[str], None],
        show: Show,
        words: Wording,
        level: ReaderLevel | None,
        host: str,
        *,
        ascii: bool,
    ) -> None:
        self._write = write
        self._show = show
        self._words = words
        self._level = level
        self._host = host
        self._ascii = ascii
        self._plain = PlainText()
        self._at_margin = True
        self._told: dict[int, Told] = {}
        """By report what has been told in full."""
        self._is_written = False
        """Whether nsys writes its report; the program, and others beside it, may still print."""
        self._rest = ""
        self.stops = False
        """Set by the handler of a signal, which must not print: it may stand within what prints."""
        self._told_stop = False

    def stage(self, stage: Stage) -> None:
        from gputui.render.run_text import stage_line

        self._say([stage_line(stage, self._words)])

    def checked(self, checks: Sequence[Check], tools: Tools) -> None:
        from gputui.render.run_text import checked_text

        self._say(checked_text(checks, tools, self._words))

    def blocked(self, checks: Sequence[Check]) -> None:
        from gputui.render.doctor import wrong_text

        self._say(wrong_text(checks, self._words, ascii=self._ascii))

    def command(self, command: Command) -> None:
        from gputui.render.run_text import command_text

        self._is_written = False
        self._say([command_text(command)])

    def output(self, data: bytes) -> None:
        text = self._plain.feed(data)
        if not self._is_written:
            begins = _REPORT.search(text)
            if begins is None:
                self._put(text)
                return
            self._is_written = True
            self._put(text[: begins.start()])
            text = text[begins.end() :]
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        self._put("".join(f"{line}\n" for line in lines if not _OF_REPORT.fullmatch(line)))

    def _put(self, text: str) -> None:
        if text:
            self._at_margin = text.endswith("\n")
            self._write(text)

    def progress(self, progress: Progress) -> None:
        from gputui.render.run_text import stopping_line

        if self.stops and not self._told_stop:
            self._told_stop = True
            self._say([stopping_line(self._words)])

    def ended(self, result: StepResult) -> None:
        from gputui.render.run_text import ended_text

        if not _OF_REPORT.fullmatch(self._rest):
            self._put(self._rest)
        self._rest = ""
        self._say(ended_text(result, self._words))

    def unreadable(self, error: GputuiError) -> None:
        from gputui.render.run_text import error_line

        self._say([error_line(error)])

    def timeline(self, report: Report, diagnosis: TimelineDiagnosis) -> None:
        from gputui.render.run_text import timeline_summary

        self._say(timeline_summary(report, diagnosis, self._words))

    def proposed(self, proposals: Sequence[Proposal]) -> None:
        from gputui.render.run_text import proposals_text

        self._say(proposals_text(proposals, self._words))

    def explained(self, launches: Sequence[Diagnosis], report: Sequence[Diagnosis]) -> None:
        from gputui.render.lines import Told
        from gputui.render.text import kernel_text

        told = self._told.setdefault(id(report), Told(report))
        lines = kernel_text(launches[0], self._words, self._level, launches=launches, told=told, ascii=self._ascii)
        self._say(["", *lines])

    def lost(self, message: str) -> None:
        from gputui.render.run_text import connection_line

        self._say([connection_line(self._host, message, self._words)])

    def _say(self, lines: Iterable[RenderableType]) -> None:
        if not self._at_margin:
            self._write("\n")
            self._at_margin = True
        self._show(lines)


def unattended(session: Session, printer: Printer, show: Show, words: Wording, timeline: Path | None) -> int:
    """Lead a run without a screen; the exit status."""
    from gputui.render.run_text import interrupted_line, next_line

    show(interrupted_line(run, words) for run in recovered(session.base))
    session.inherit_stdin = sys.stdin is not None and not sys.stdin.isatty()
    with _interruptible(session, printer):
        done = lead(session, printer, timeline)
    if session.folder is not None and done.reports:
        show([next_line(["gputui", "open", os.path.relpath(session.folder.path)], words)])
    return done.status


@contextmanager
def _interruptible(session: Session, printer: Printer) -> Iterator[None]:
    """Within, Ctrl-C ends the program and lets the profiler write its report; where nothing runs, it ends gputui."""

    def stop(number: int, frame: FrameType | None) -> None:
        if not session.stop():
            raise KeyboardInterrupt
        printer.stops = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
