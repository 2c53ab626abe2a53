"""The diagnosis as the Python API gives it: of a kernel, or of a whole report."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from gputui.model.kernel import Kernel

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.model.report import Report


@overload
def diagnose(subject: Kernel) -> Diagnosis: ...


@overload
def diagnose(subject: Report) -> TimelineDiagnosis | list[Diagnosis]: ...


def diagnose(subject: Kernel | Report) -> Diagnosis | TimelineDiagnosis | list[Diagnosis]:
    """Why a kernel, the program of a timeline, or each kernel of an Nsight Compute report is slow.

    A kernel by itself is judged without its neighbours; as part of its report with them.
    """
    from gputui.analysis import engine

    if isinstance(subject, Kernel):
        return engine.diagnose(subject)
    if subject.timeline is None:
        return engine.diagnose_all(subject)
    from gputui.analysis.timeline import TimelineFacts
    from gputui.analysis.timeline_diagnosis import diagnose_timeline

    return diagnose_timeline(TimelineFacts(subject.timeline), subject.notices)
