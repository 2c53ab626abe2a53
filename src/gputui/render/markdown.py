"""The explanation as Markdown, for an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gputui import units
from gputui.render.collect import not_told
from gputui.render.lines import (
    MOST_READ,
    Told,
    claims,
    code_of,
    line_name,
    mark_of,
    place_share,
    placed,
    remarks_of,
    source_of,
)
from gputui.render.text import (
    SHOWN_LINES,
    expectation,
    gain,
    gauge_rows,
    group_by_function,
    level_of,
    sureness,
    told_line,
)
from gputui.terminal import safe

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.nvidia_rules import Remark
    from gputui.analysis.source import Source
    from gputui.model.report import Report
    from gputui.wording import FindingText, ReaderLevel, Wording

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$!])")


def escape(text: str) -> str:
    """A report's own text so that Markdown shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", safe(text))


def report_markdown(
    report: Report, diagnoses: Sequence[Diagnosis], words: Wording, level: ReaderLevel | None = None
) -> str:
    """The whole report: a table of kernels, then the slowest launch of each function explained."""
    groups = group_by_function(diagnoses)
    total = sum(diagnosis.kernel.duration_ns or 0 for diagnosis in diagnoses) or None
    lines = [
        "# "
        + words.text(
            "explain.report",
            path=escape(report.path),
            device=escape(", ".join(device.name for device in report.devices)),
            kernels=len(diagnoses),
            time=total,
        ),
        "",
        *(f"> {escape(words.notice(notice))}" for notice in report.notices),
        "",
        "| % | time | kernel | verdict |",
        "|--:|--:|---|---|",
    ]
    for launches in groups:
        time = sum(one.kernel.duration_ns or 0 for one in launches) or None
        share = 100 * time / total if time and total else None
        count = f" ×{len(launches)}" if len(launches) > 1 else ""
        lines.append(
            f"| {units.share(share)} | {units.duration(time)} | {escape(launches[0].kernel.name)}{count} "
            f"| {words.verdict_name(launches[0].verdict.id)} |"
        )
    told = Told(diagnoses)
    for number, launches in enumerate(groups):
        first = launches[0]
        read = number < MOST_READ
        source, remarks = (source_of(report, first), remarks_of(report, first)) if read else (None, ())
        lines += ["", kernel_markdown(first, words, level, source=source, remarks=remarks, told=told)]
    lines += _not_told(groups, words)
    return "\n".join(lines).rstrip() + "\n"


def kernel_markdown(
    diagnosis: Diagnosis,
    words: Wording,
    level: ReaderLevel | None = None,
    *,
    source: Source | None = None,
    remarks: Sequence[Remark] = (),
    told: Told | None = None,
) -> str:
    """One kernel: sentence, gauges, findings with their evidence, its hottest lines, NVIDIA's remarks."""
    return "\n".join(_kernel(diagnosis, words, level or level_of(diagnosis), source, remarks, told))


def _kernel(
    diagnosis: Diagnosis,
    words: Wording,
    level: ReaderLevel,
    source: Source | None,
    remarks: Sequence[Remark],
    told: Told | None,
) -> Iterable[str]:
    kernel = diagnosis.kernel
    yield f"## {escape(kernel.name)} · {units.duration(kernel.duration_ns)}"
    yield ""
    yield f"**{escape(words.verdict(diagnosis.verdict))}**"
    differs = expectation(diagnosis, words)
    if differs:
        yield ""
        yield escape(differs)
    yield ""
    yield " · ".join(f"{words.ui(f'gauge.{key}')} {units.percent(value)}" for key, value in gauge_rows(diagnosis))
    for number, finding in enumerate(diagnosis.main, 1):
        text = words.finding(finding, diagnosis.tags)
        before = told.place_of(finding, number, kernel) if told is not None else None
        title = text.title if before is None else told_line(text.title, before, words)
        yield ""
        yield f"### {number}. {escape(title)} ({gain(finding, words)})"
        if before is not None:
            continue
        yield ""
        place = placed(source, finding)
        if place is not None:
            where = escape(line_name(place.line, words))
            yield f"- {words.text('source.where')}: {where} {_code(code_of(place.line))} ({place_share(place, words)})"
        yield from finding_lines(text, finding, words, level)
    if source is not None and source.samples:
        yield ""
        yield f"**{words.text('source.hottest' if source.has_source else 'source.hottest_instructions')}**"
        yield ""
        for line in source.lines[:SHOWN_LINES]:
            if line.samples:
                mark = mark_of(line, words)
                yield (
                    f"- {units.share(line.share_pct)} {escape(line_name(line, words))} {_code(code_of(line))}"
                    f"{f' ({mark})' if mark else ''}"
                )
    found = claims(remarks, diagnosis, words)
    if found:
        yield ""
        yield f"**{words.ui('nvidia_rules')}**"
        yield ""
        yield from (f"- {escape(titles)}: {escape(answer)}" for titles, answer in found)


def finding_lines(text: FindingText, finding: Finding, words: Wording, level: ReaderLevel) -> Iterable[str]:
    """Why, what to do, how to check, and the evidence, as a list."""
    yield f"- {words.text('explain.why')}: {escape(text.why)}"
    for action in text.actions[level]:
        yield f"- {words.text('explain.do')}: {escape(action)}"
    yield f"- {words.text('explain.check')}: {escape(text.verify)}"
    yield f"- {words.text('explain.sure')}: {escape(sureness(finding, words))}"
    for one in finding.evidence:
        threshold = "" if one.threshold is None else f" ({units.quantity(one.threshold, one.unit)})"
        value = units.quantity(one.value, one.unit)
        yield f"- {words.text('explain.evidence')}: `{safe(one.metric)}` = {value}{threshold}"


def _code(text: str) -> str:
    """Safe text as inline code: a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if not longest:
        return f"`{text}`" if text else ""
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def _not_told(groups: Sequence[Sequence[Diagnosis]], words: Wording) -> Iterable[str]:
    told = not_told(groups[0][0].not_checked, words, groups[0][0].kernel.device) if groups else not_told((), words)
    if told.what is not None:
        yield ""
        yield f"{words.text('explain.not-told')} {escape(told.what)}  "
        yield words.text("explain.not-told-command", command=f"`{told.command}`")
    if told.version is not None:
        yield ""
        yield escape(told.version)
    if told.never is not None:
        yield ""
        yield f"{words.text('explain.not-told-never')} {escape(told.never)}"
