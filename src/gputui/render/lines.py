"""Source lines and NVIDIA's remarks in words, for the screen and for text alike. Strangers' text comes out safe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputui import units
from gputui.errors import GputuiError
from gputui.terminal import safe

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.nvidia_rules import Remark
    from gputui.analysis.source import Flag, HotLine, Place, Source
    from gputui.model.kernel import Kernel
    from gputui.model.report import Report
    from gputui.wording import Wording


class Told:
    """The findings about several launches that one output has told in full: each kind of group is told once.

    Groups are of one kind where as many launches of the same function are in them: the layers of a model.
    """

    def __init__(self, diagnoses: Iterable[Diagnosis]) -> None:
        self._functions = {diagnosis.kernel.index: diagnosis.kernel.demangled for diagnosis in diagnoses}
        self._told: dict[tuple[str, int, str], tuple[int, str]] = {}

    def place_of(self, finding: Finding, number: int, kernel: Kernel) -> tuple[int, str] | None:
        """Number and kernel under which the group was told; ``None`` where it has to be told now, as this number."""
        if not finding.group:
            return None
        size = len(finding.group)
        place = self._told.get((finding.id, size, kernel.demangled))
        if place is None:
            for index in finding.group:
                self._told.setdefault((finding.id, size, self._functions.get(index, "")), (number, kernel.name))
        return place


MOST_READ = 50
"""Functions whose slowest launch is told with its source lines and NVIDIA's remarks: reading them takes some 20 ms."""
_LONGEST = 200


def file_name(path: str) -> str:
    """The last part of a path, Windows' too, safe to show."""
    return safe(path.replace("\\", "/").rsplit("/", 1)[-1][:_LONGEST])


def line_name(line: HotLine, words: Wording, *, number_only: bool = False) -> str:
    """``tour.cu:123``, or ``SASS 12`` for an instruction without a line."""
    if not line.line:
        return str(line.number) if number_only else words.text("source.sass", number=line.number)
    return str(line.line) if number_only else f"{file_name(line.file)}:{line.line}"


def code_of(line: HotLine) -> str:
    """The source text, or the instruction with the most samples."""
    return tidy(line.text if line.text is not None and line.text.strip() else line.sass)


def tidy(text: str) -> str:
    """Code on one line, its tabs and indentation gone."""
    return safe(" ".join(text[:_LONGEST].split()))


def stall_name(reason: str, words: Wording) -> str:
    """A few words for what a warp waits for; the profiler's own name where we know none."""
    try:
        return words.text(f"source.stall.{reason}")
    except KeyError:
        return safe(reason[:_LONGEST].replace("_", " "))


def stall_text(reason: str, words: Wording) -> str:
    try:
        return words.text(f"source.stall_text.{reason}")
    except KeyError:
        return ""


def flag_text(flag: Flag, words: Wording) -> str:
    return words.text(f"source.mark_text.{flag.id}", **flag.params)


def mark_of(line: HotLine, words: Wording) -> str:
    """What the line does badly in a word or two; empty where nothing is known. That it is hot shows in its bar."""
    found = next((flag for flag in line.flags if flag.id != "stall"), None)
    return "" if found is None else words.text(f"source.mark.{found.id}")


def place_share(place: Place, words: Wording) -> str:
    """ "98 % of the sectors that are too many"."""
    return words.text(f"source.place.{place.what}", share=units.percent(place.share_pct))


def placed(source: Source | None, finding: Finding) -> Place | None:
    """Where a finding shows, if anywhere."""
    return next(iter(source.places_of(finding)), None) if source is not None else None


def remark_text(remark: Remark, diagnosis: Diagnosis, words: Wording) -> str:
    """How a remark of NVIDIA's stands to ours, and why, in one or two sentences."""
    params = dict(remark.params)
    if remark.finding is not None:
        params["name"] = words.finding_name(remark.finding)
    if "cause" in params:
        params["cause"] = words.finding_name(params["cause"])
    params["verdict"] = words.verdict_name(diagnosis.verdict.id)
    text = words.text(f"nvidia.reason.{remark.reason}", **params)
    if remark.estimate:
        text = f"{text} {words.text(f'nvidia.estimate.{remark.estimate}', **params)}"
    return text


def claims(remarks: Iterable[Remark], diagnosis: Diagnosis, words: Wording) -> list[tuple[str, str]]:
    """What NVIDIA's rules claim: the titles of those that get the same answer from us, and that answer.

    Those that nearly every kernel has without a loss are left to the screen and the JSON.
    """
    titles: dict[str, list[str]] = {}
    for remark in remarks:
        if remark.relation != "information" and not remark.no_loss:
            title = safe((remark.rule.title or remark.rule.rule)[:_LONGEST])
            titles.setdefault(remark_text(remark, diagnosis, words), []).append(title)
    return [(", ".join(dict.fromkeys(names)), answer) for answer, names in titles.items()]


def remark_counts(remarks: Iterable[Remark], words: Wording) -> str:
    """ "4 agree, 2 differ, 3 for information"."""
    counts: dict[str, int] = {}
    for remark in remarks:
        counts[remark.relation] = counts.get(remark.relation, 0) + 1
    return ", ".join(words.text(f"nvidia.count.{id}", count=count) for id, count in counts.items())


def source_of(report: Report, diagnosis: Diagnosis) -> Source | None:
    """The lines of a kernel; reads the report. None where that fails: the diagnosis stands without them."""
    from gputui.analysis.source import Source

    try:
        listing = report.source.source(diagnosis.kernel.index)
    except GputuiError:
        return None
    return None if listing is None else Source(listing)


def remarks_of(report: Report, diagnosis: Diagnosis) -> tuple[Remark, ...]:
    """NVIDIA's remarks on a kernel beside its diagnosis; reads the report. None where that fails."""
    from gputui.analysis.nvidia_rules import relate_all

    try:
        rules = report.source.extras(diagnosis.kernel.index).rules
    except GputuiError:
        return ()
    return relate_all(rules, diagnosis)
