"""The guided run led by nobody: what the command line does without a screen, and continuous integration."""

from __future__ import annotations

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

    def timeline(self, report: Report, diagnosis: TimelineDiagnosis) -> None:
        """The timeline is open."""

    def proposed(self, proposals: Sequence[Proposal]) -> None:
        """These kernels may be profiled; those marked will be."""

    def explained(self, report: Report, diagnoses: Sequence[Diagnosis]) -> None:
        """The launches of one kernel's report, the longest first."""


@dataclass(slots=True)
class Guided:
    """What came of it. ``status`` is the command line's exit status."""

    reports: list[Path] = field(default_factory=list)
    status: int = 0


def lead(session: Session, teller: Teller, timeline: Path | None = None) -> Guided:
    """Check, record the timeline (or take the one given), choose, count, explain.

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
    if timeline is None:
        teller.stage("timeline")
        if not _can(session, "nsys", teller, done):
            return
        result = session.run(session.timeline_command())
        teller.ended(result)
        done.reports += result.reports
        if result.failed or result.program_failed:
            done.status = EXIT_NO
    paths = [timeline] if timeline is not None else done.reports
    if not paths:
        return
    diagnosis = _open_timeline(paths, teller)
    if session.was_stopped:
        return
    if diagnosis is None or not diagnosis.kernels:
        done.status = EXIT_NO
        return
    _count(session, teller, diagnosis, done)


def _can(session: Session, tool: str, teller: Teller, done: Guided) -> bool:
    """Whether this profiler works here; where not, that is told."""
    blockers = session.blockers(tool)
    if blockers:
        teller.blocked(blockers)
        done.status = EXIT_NO
    return not blockers


def _open_timeline(paths: Sequence[Path], teller: Teller) -> TimelineDiagnosis | None:
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


def _count(session: Session, teller: Teller, diagnosis: TimelineDiagnosis, done: Guided) -> None:
    from gputui.analysis.proposals import propose

    teller.stage("choose")
    request = session.request
    proposals = propose(diagnosis, request.kernel, request.nvtx, top=request.top, launches=request.launches)
    teller.proposed(proposals)
    chosen = [one for one in proposals if one.is_proposed]
    if not chosen:
        return
    teller.stage("counters")
    if not _can(session, "ncu", teller, done):
        return
    reports: list[Path] = []
    for command in session.counter_commands(diagnosis, chosen):
        result = session.run(command)
        teller.ended(result)
        reports += result.reports
        if result.failed or result.program_failed:
            done.status = EXIT_NO
        if session.was_stopped:
            break
    done.reports += reports
    if reports:
        teller.stage("explain")
        _explain(reports, chosen, teller)


def _explain(paths: Sequence[Path], chosen: Sequence[Proposal], teller: Teller) -> None:
    """Tell each chosen kernel's launches, in the order of choice."""
    from gputui.analysis.engine import diagnose_all
    from gputui.formats.together import open_all

    for report in open_all(paths):
        if isinstance(report, GputuiError):
            raise report
        try:
            diagnoses = sorted(diagnose_all(report), key=lambda one: -(one.kernel.duration_ns or 0.0))
            for proposal in chosen:
                of_kernel = [one for one in diagnoses if one.kernel.name == proposal.share.kernel.name]
                if of_kernel:
                    teller.explained(report, of_kernel)
        finally:
            report.close()
