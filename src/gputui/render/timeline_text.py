"""A timeline explained as plain text for a terminal or a pipe: what ``gputui explain`` prints of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gputui.paint.bars import bar
from gputui.render import timeline_rows as rows
from gputui.render.text import finding_block
from gputui.terminal import safe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_tables import Selection
    from gputui.model.report import Report
    from gputui.wording import ReaderLevel, Wording

_BAR = 20
_COMMAND_CELLS = 72


def timeline_text(
    report: Report,
    diagnosis: TimelineDiagnosis,
    selection: Selection,
    words: Wording,
    level: ReaderLevel | None = None,
    *,
    ascii: bool = False,
) -> Iterable[RenderableType]:
    """What to print of a timeline: the sentence, the findings, then the tables of what was selected.

    ``level`` is the reader's; ``None`` takes it from the program. With a selection the findings, which are about the
    whole timeline, are left out.
    """
    facts = diagnosis.facts
    yield Text(rows.title(report, facts, words), style="bold")
    for notice in report.notices:
        yield Text(f"! {safe(words.notice(notice))}", style="yellow")
    yield Padding(Text(rows.sentence(diagnosis, words), style="bold cyan"), (1, 0))
    yield from _gpus(diagnosis, words, ascii)
    for note in rows.notes(diagnosis, words):
        yield Text(note, style="dim")
    if selection.is_whole:
        yield from _findings(diagnosis, words, level or rows.level_of(diagnosis))
    yield Text()
    yield Text(rows.clock(facts.timeline, words), style="dim")
    yield from _kernels(diagnosis, selection, words)
    yield from _ranges(selection, words)
    yield from _copies(selection, words)
    if selection.is_whole:
        yield from _left_out(report, diagnosis, words)
    elif diagnosis.main:
        yield Text()
        yield Text(words.text("timeline_text.selection"), style="dim")


def _heading(text: str) -> Iterable[RenderableType]:
    yield Text()
    yield Text(text, style="bold")


def _gpus(diagnosis: TimelineDiagnosis, words: Wording, ascii: bool) -> Iterable[RenderableType]:
    found = rows.gpu_rows(diagnosis.facts, words)
    if not found:
        return
    table = Table.grid(padding=(0, 2))
    for row in found[: rows.SHOWN_GPUS]:
        filled = bar(row.busy_pct, 100, _BAR, ascii=ascii)
        table.add_row(row.label, filled, words.text("timeline_text.busy", share=row.busy_pct), Text(row.name, "dim"))
    yield table
    if len(found) > rows.SHOWN_GPUS:
        yield Text(words.text("timeline_text.more", count=len(found) - rows.SHOWN_GPUS), style="dim")
    yield Text(rows.window(diagnosis.facts, words), style="dim")


def _findings(diagnosis: TimelineDiagnosis, words: Wording, level: ReaderLevel) -> Iterable[RenderableType]:
    for number, finding in enumerate(diagnosis.main, 1):
        yield Text()
        moment = finding.moment
        where = None if moment is None else Text(rows.where(moment, diagnosis.facts, words))
        yield finding_block(number, rows.finding_text(finding, words, diagnosis.tags), finding, words, level, where)
    if not diagnosis.main and diagnosis.kernels:
        yield Padding(Text(words.text("explain.nothing")), (1, 0, 0, 0))
    for heading, lines in rows.other_findings(diagnosis, words):
        yield Text()
        yield Text(heading, style="dim")
        for line in lines:
            yield Padding(Text(f"- {line}", style="dim"), (0, 0, 0, 2))


def _kernels(diagnosis: TimelineDiagnosis, selection: Selection, words: Wording) -> Iterable[RenderableType]:
    shown = rows.kernel_rows(selection.kernels, words)
    if not shown:
        return
    yield from _heading(words.text("timeline_text.kernels"))
    yield _table(rows.kernel_headings(words), shown, right=(0, 1, 2, 3), last=5)
    left = len(selection.kernels) - len(shown)
    if left:
        yield Text(words.text("timeline_text.more-kernels", count=left), style="dim")
    advice = rows.ncu_advice(selection, words)
    if advice is None:
        return
    yield Text()
    yield Text(advice.sentence)
    if advice.command:
        yield Padding(Text("\n".join(rows.command_lines(advice.command, _COMMAND_CELLS))), (0, 0, 0, 4))
        note = rows.program_note(diagnosis, advice.command, words)
        if note is not None:
            yield Text(note, style="dim")
    if advice.others:
        yield Text(words.text("timeline_text.ncu-others", names=advice.others), style="dim")


def _ranges(selection: Selection, words: Wording) -> Iterable[RenderableType]:
    found, left = rows.range_rows(selection.nodes, words)
    if not found:
        return
    yield from _heading(words.text("timeline_text.ranges"))
    lines = [(*row.cells, f"{'  ' * row.depth}{row.name}") for row in found]
    yield _table(rows.range_headings(words), lines, right=(0, 1, 2, 3), last=4)
    if left:
        yield Text(words.text("timeline_text.more", count=left), style="dim")


def _copies(selection: Selection, words: Wording) -> Iterable[RenderableType]:
    found = selection.copies[: rows.SHOWN_COPIES]
    if found:
        yield from _heading(words.text("timeline_text.copies"))
        lines = [rows.copy_row(one, words) for one in found]
        yield _table(rows.copy_headings(words), lines, right=(0, 1, 2, 3), last=4)


def _left_out(report: Report, diagnosis: TimelineDiagnosis, words: Wording) -> Iterable[RenderableType]:
    lacking = rows.lacks(report, diagnosis.facts, words)
    if lacking:
        yield from _heading(words.text("timeline_text.lacks"))
        table = Table.grid(padding=(0, 1))
        for line in lacking:
            table.add_row("  -", Text(line))
        yield table
    unchecked, command = rows.not_checked(diagnosis, words)
    if unchecked:
        yield Text()
        yield Text(f"{words.text('explain.not-told')} {unchecked}")
    if command is not None:
        yield Padding(Text(words.text("explain.not-told-command", command=command)), (0, 0, 0, 2))


def _table(
    headings: Sequence[str], lines: Sequence[Sequence[str]], *, right: Sequence[int], last: int
) -> RenderableType:
    """Columns as wide as they must be; the ``last`` one gets what is left and is cut there."""
    table = Table.grid(padding=(0, 2), expand=True)
    for column in range(len(headings)):
        ratio = 1 if column == last else None
        table.add_column(justify="right" if column in right else "left", no_wrap=True, ratio=ratio)
    table.add_row(*(Text(heading, style="dim") for heading in headings))
    for line in lines:
        table.add_row(*map(Text, line))
    return table
