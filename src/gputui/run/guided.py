"""The guided run led by nobody: what the command line does without a screen, and continuous integration."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gputui.errors import EXIT_INTERRUPTED, EXIT_NO, GputuiError
from gputui.run.session import Listener, Session, StepResult

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.proposals import Proposal
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.model.report import Report
    from gputui.run.doctor import Check
    from gputui.run.plan import Tools

Stage = Literal["check", "timeline", "choose", "counters", "explain"]


class Teller(Listener):
    """Whom the guided run tells, beside what a session tells; every method may be left as it is."""

    def stage(self, stage: Stage) -> None:
        """This stage begins."""

    def checked(self, checks: Sequence[Check], tools: Tools) -> None:
        """What the doctor found."""

    def blocked(self, checks: Sequence[Check]) -> None:
        """The next stage cannot be, for these reasons."""

    def ended(self, result: StepResult) -> None:
        """A command came to its end."""

    def unreadable(self, error: GputuiError) -> None:
        """What a profiler has written cannot be opened."""

    def timeline(self, report: Report, diagnosis: TimelineDiagnosis) -> None:
        """The timeline is open."""

    def proposed(self, proposals: Sequence[Proposal]) -> None:
        """These kernels may be profiled; those marked will be."""

    def explained(self, launches: Sequence[Diagnosis], report: Sequence[Diagnosis]) -> None:
        """The launches of one kernel, the longest first; ``report`` are all of that report, the same each time."""


@dataclass(slots=True)
class Guided:
    """What came of it. ``status`` is the command line's exit status."""

    reports: list[Path] = field(default_factory=list)
    status: int = 0


def lead(session: Session, teller: Teller, timeline: Path | None = None) -> Guided:
    """Check, record the timeline (or take the one given), choose, count, explain. A run that was begun before goes on
    with what is ``pending``.

    Raises ``GputuiError`` where nothing can be begun. What fails later is told and is in the status.
    """
    session.listener = teller
    done = Guided()
    try:
        _lead(session, teller, timeline, done)
    except Exception:
        session.finish("failed")
        raise
    except BaseException:
        session.abandon()
        raise
    session.finish("stopped" if session.was_stopped else "failed" if done.status else "done")
    if session.was_stopped:
        done.status = EXIT_INTERRUPTED
    return done


def _lead(session: Session, teller: Teller, timeline: Path | None, done: Guided) -> None:
    teller.stage("check")
    teller.checked(session.check(), session.tools)
    pending = session.pending
    if pending is not None and pending.tool == "ncu":
        teller.stage("counters")
        _keep(session.attach(pending), teller, done)
        _explain(done.reports, (), teller)
        return
    if timeline is None:
        teller.stage("timeline")
        if pending is not None:
            _keep(session.attach(pending), teller, done)
        elif _can(session, "nsys", teller, done):
            _keep(session.run(session.timeline_command()), teller, done)
    paths = [timeline] if timeline is not None else done.reports
    if not paths:
        return
    try:
        diagnosis = _open_timeline(paths, teller)
    except GputuiError as error:
        if timeline is not None:
            raise
        teller.unreadable(error)
        done.status = EXIT_NO
        return
    if session.was_stopped:
        return
    if not diagnosis.kernels:
        done.status = EXIT_NO
        return
    _count(session, teller, diagnosis, paths, done)


def _keep(result: StepResult, teller: Teller, done: Guided) -> None:
    teller.ended(result)
    done.reports += result.reports
    if result.failed or result.program_failed:
        done.status = EXIT_NO


def _can(session: Session, tool: str, teller: Teller, done: Guided) -> bool:
    """Whether this profiler works here; where not, that is told."""
    blockers = session.blockers(tool)
    if blockers:
        teller.blocked(blockers)
        done.status = EXIT_NO
    return not blockers


def _open_timeline(paths: Sequence[Path], teller: Teller) -> TimelineDiagnosis:
    """The diagnosis of the timeline in these files; of several that are not of one job, of the first."""
    from gputui.analysis.timeline import TimelineFacts
    from gputui.analysis.timeline_diagnosis import diagnose_timeline
    from gputui.formats.together import open_all

    opened = list(open_all(paths))
    report = next((one for one in opened if not isinstance(one, GputuiError)), None)
    if report is None:
        raise next(one for one in opened if isinstance(one, GputuiError))
    if report.timeline is None:
        raise GputuiError(report.path, "is no timeline", "Name a report of nsys or a trace of the PyTorch profiler")
    diagnosis = diagnose_timeline(TimelineFacts(report.timeline), report.notices)
    teller.timeline(report, diagnosis)
    return diagnosis


def _count(session: Session, teller: Teller, diagnosis: TimelineDiagnosis, paths: Sequence[Path], done: Guided) -> None:
    from gputui.analysis.proposals import propose

    teller.stage("choose")
    request = session.request
    try:
        proposals = propose(diagnosis, request.kernel, request.nvtx, top=request.top, launches=request.launches)
    except GputuiError as error:
        if not done.reports:
            raise
        timeline = shlex.join(["--timeline", str(paths[0])])
        hint = f"{error.hint}. " if error.hint else ""
        raise GputuiError(error.title, error.message, f"{hint}The timeline is kept: add {timeline}") from error
    teller.proposed(proposals)
    chosen = [one for one in proposals if one.is_proposed]
    if not chosen:
        return
    teller.stage("counters")
    if not _can(session, "ncu", teller, done):
        return
    first = len(done.reports)
    for command in session.counter_commands(diagnosis, chosen):
        _keep(session.run(command), teller, done)
        if session.was_stopped:
            break
    _explain(done.reports[first:], chosen, teller)


def _explain(paths: Sequence[Path], chosen: Sequence[Proposal], teller: Teller) -> None:
    """Tell of each kernel in these reports: the chosen ones in the order of choice, then the others by time."""
    from gputui.analysis.engine import diagnose_all
    from gputui.formats.together import open_all

    if not paths:
        return
    teller.stage("explain")
    order = {proposal.share.kernel.name: place for place, proposal in enumerate(chosen)}
    opened = list(open_all(paths))
    try:
        kernels: dict[str, list[tuple[Diagnosis, list[Diagnosis]]]] = {}
        for report in opened:
            if isinstance(report, GputuiError):
                continue
            diagnoses = diagnose_all(report)
            for diagnosis in diagnoses:
                kernels.setdefault(diagnosis.kernel.name, []).append((diagnosis, diagnoses))
        for launches in kernels.values():
            launches.sort(key=lambda one: -_time(one[0]))
        for name in sorted(kernels, key=lambda name: (order.get(name, len(order)), -_time(kernels[name][0][0]))):
            teller.explained([one for one, _ in kernels[name]], kernels[name][0][1])
        for report in opened:
            if isinstance(report, GputuiError):
                raise report
    finally:
        for report in opened:
            if not isinstance(report, GputuiError):
                report.close()


def _time(diagnosis: Diagnosis) -> float:
    return diagnosis.kernel.duration_ns or 0.0
