"""A timeline explained as Markdown, for an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gputui.render import timeline_rows as rows
from gputui.render.markdown import escape, finding_lines
from gputui.render.text import gain

if TYPE_CHECKING:
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_tables import Selection
    from gputui.model.report import Report
    from gputui.wording import ReaderLevel, Wording

_COMMAND_CELLS = 100


def timeline_markdown(
    report: Report,
    diagnosis: TimelineDiagnosis,
    selection: Selection,
    words: Wording,
    level: ReaderLevel | None = None,
) -> str:
    """The sentence, the findings with their evidence, and the tables of what was selected.

    With a selection the findings, which are about the whole timeline, are left out.
    """
    facts = diagnosis.facts
    lines = [f"# {escape(rows.title(report, facts, words))}"]
    for notice in report.notices:
        lines += ["", f"> {escape(words.notice(notice))}"]
    lines += ["", f"**{escape(rows.sentence(diagnosis, words))}**"]
    found = rows.gpu_rows(facts, words)
    if found:
        lines.append("")
        lines += [
            f"- {escape(row.label)}: {words.text('timeline_text.busy', share=row.busy_pct)} ({escape(row.name)})"
            for row in found
        ]
        lines += ["", escape(rows.window(facts, words))]
    lines += ["", escape(rows.clock(facts.timeline, words))]
    for note in rows.notes(diagnosis, words):
        lines += ["", escape(note)]
    if selection.is_whole:
        lines += _findings(diagnosis, words, level or rows.level_of(diagnosis))
    lines += _kernels(diagnosis, selection, words)
    lines += _ranges(selection, words)
    copies = [rows.copy_row(one, words) for one in selection.copies]
    lines += _table(words.text("timeline_text.copies"), rows.copy_headings(words), copies)
    if selection.is_whole:
        lines += _left_out(report, diagnosis, words)
    elif diagnosis.main:
        lines += ["", words.text("timeline_text.selection")]
    return "\n".join(lines) + "\n"


def _findings(diagnosis: TimelineDiagnosis, words: Wording, level: ReaderLevel) -> Iterable[str]:
    for number, finding in enumerate(diagnosis.main, 1):
        text = rows.finding_text(finding, words, diagnosis.tags)
        yield from ("", f"## {number}. {escape(text.title)} ({gain(finding, words)})", "")
        if finding.moment is not None:
            yield f"- {words.text('source.where')}: {escape(rows.where(finding.moment, diagnosis.facts, words))}"
        yield from finding_lines(text, finding, words, level)
    for heading, others in rows.other_findings(diagnosis, words):
        yield from ("", heading, "", *(f"- {escape(line)}" for line in others))


def _kernels(diagnosis: TimelineDiagnosis, selection: Selection, words: Wording) -> Iterable[str]:
    shown = rows.kernel_rows(selection.kernels, words)
    yield from _table(words.text("timeline_text.kernels"), rows.kernel_headings(words), shown)
    if len(selection.kernels) > len(shown):
        yield from ("", words.text("timeline_text.more-kernels", count=len(selection.kernels) - len(shown)))
    advice = rows.ncu_advice(selection, words)
    if advice is None:
        return
    yield from ("", escape(advice.sentence))
    if advice.command:
        yield from ("", *(f"    {line}" for line in rows.command_lines(advice.command, _COMMAND_CELLS)))
        note = rows.program_note(diagnosis, advice.command, words)
        if note is not None:
            yield from ("", escape(note))
    if advice.others:
        yield from ("", escape(words.text("timeline_text.ncu-others", names=advice.others)))


def _ranges(selection: Selection, words: Wording) -> Iterable[str]:
    found, left = rows.range_rows(selection.nodes, words)
    # Blanks at the beginning of a cell are not shown.
    lines = [(*row.cells, f"{'· ' * row.depth}{row.name}") for row in found]
    yield from _table(words.text("timeline_text.ranges"), rows.range_headings(words), lines)
    if left:
        yield from ("", words.text("timeline_text.more", count=left))


def _left_out(report: Report, diagnosis: TimelineDiagnosis, words: Wording) -> Iterable[str]:
    lacking = rows.lacks(report, diagnosis.facts, words)
    if lacking:
        yield from ("", f"## {words.text('timeline_text.lacks')}", "")
        yield from (f"- {escape(line)}" for line in lacking)
    unchecked, command = rows.not_checked(diagnosis, words)
    if unchecked:
        yield from ("", f"{words.text('explain.not-told')} {escape(unchecked)}")
    if command is not None:
        yield from ("", words.text("explain.not-told-command", command=f"`{command}`"))


def _table(heading: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterable[str]:
    """Four columns of numbers, to the right, then words; nothing where there are no lines."""
    if not lines:
        return
    yield from ("", f"## {heading}", "")
    yield f"| {' | '.join(headings)} |"
    yield f"|{'--:|' * 4}{'---|' * (len(headings) - 4)}"
    yield from (f"| {' | '.join(map(escape, line))} |" for line in lines)
