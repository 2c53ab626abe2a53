"""The diagnosis and the comparison as the Python API gives them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, overload

from gputui.model.kernel import Kernel

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Comparison
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


def compare(
    base: Report,
    new: Report,
    *,
    kernel: str | None = None,
    base_kernel: str | None = None,
    new_kernel: str | None = None,
    nvtx: str | None = None,
    same_work: bool = False,
) -> Comparison:
    """What a change did, from the report before it to the one after it: two timelines, or two of Nsight Compute.

    The regular expressions choose what is compared, as the options of ``gputui compare`` do: ``kernel`` on both sides,
    ``base_kernel`` and ``new_kernel`` on one, ``nvtx`` in the paths ``outer/inner`` of NVTX ranges. ``same_work`` says
    that both do the same work where the reports do not tell. Raises ``GputuiError`` where nothing can be compared.
    """
    from gputui.analysis.compare.reports import Chosen, compare_reports

    base_pattern, new_pattern, path = (
        re.compile(one) if one else None for one in (base_kernel or kernel, new_kernel or kernel, nvtx)
    )
    chosen = Chosen(base_pattern, new_pattern, path)
    return compare_reports([base], [new], chosen, same_work=same_work)[0]
