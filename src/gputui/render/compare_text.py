"""A comparison as text for a terminal: what ``gputui compare`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gputui.render import compare_rows as rows

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.analysis.compare.model import Comparison
    from gputui.render.compare_rows import AnswerRow, GroupRow
    from gputui.wording import ReaderLevel, Wording

_STYLES = {"faster": "green", "slower": "red", "no-difference": "cyan", "inconclusive": "yellow"}
_MARKS = {
    "yes": ("✓", "+", "green"),
    "no": ("✗", "x", "red"),
    "same": ("=", "=", "cyan"),
    "unknown": ("?", "?", "yellow"),
}
_TITLE_CELLS = 36


def compare_text(
    comparisons: Sequence[Comparison], words: Wording, level: ReaderLevel | None = None, *, ascii: bool = False
) -> Iterable[RenderableType]:
    """What to print of two sides: the cautions, the answers, then each comparison's kernels and reasons.

    Several comparisons are of the same two runs: a timeline and counters. ``level`` is the reader's; ``None`` takes it
    from the kernel.
    """
    head = rows.head(comparisons, words)
    yield Text(head.title, style="bold")
    for line, is_open in head.cautions:
        yield Text(f"! {line}", style="yellow" if is_open else "dim")
    yield Padding(Text(head.headline, style=f"bold {_STYLES[head.outcome]}"), (1, 0, 0, 0))
    for line in head.further:
        yield Text(line, style="dim")
    yield Padding(_answers(head.answers, ascii), (1, 0, 0, 0))
    for c in comparisons:
        if len(comparisons) > 1:
            yield Padding(Text(words.text(f"compare.kind.{c.kind}"), style="bold underline"), (1, 0, 0, 0))
        yield from _body(c, words, rows.next_lines(c, words, level) if rows.tells_next(c, comparisons) else [])


def _answers(answers: Sequence[AnswerRow], ascii: bool) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(max_width=_TITLE_CELLS, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for row in answers:
        mark, plain, style = _MARKS["same" if row.same else row.mark]
        told = Text(row.numbers)
        if row.note:
            told.append(f"\n{row.note}" if row.numbers else row.note, style="dim")
        table.add_row(Text(plain if ascii else mark, style=style), Text(row.title, style="bold"), told)
    return table


def _body(c: Comparison, words: Wording, advice: Sequence[str]) -> Iterable[RenderableType]:
    for line in (rows.shift(c, words), rows.still_slow(c, words)):
        if line is not None:
            yield Padding(Text(line), (1, 0, 0, 0))
    if advice:
        yield Padding(Text(advice[0], style="bold"), (1, 0, 0, 0))
        yield from (Padding(Text(line), (0, 0, 0, 2)) for line in advice[1:])
    yield Padding(Text(words.text("compare.groups"), style="bold"), (1, 0, 0, 0))
    yield _groups(rows.group_rows(c, words, rows.SHOWN_GROUPS), words)
    if len(c.groups) > rows.SHOWN_GROUPS:
        yield Text(words.text("compare.more", count=len(c.groups) - rows.SHOWN_GROUPS), style="dim")
    whys = rows.changed_groups(c, words)
    if whys:
        yield Padding(Text(words.text("compare.whys"), style="bold"), (1, 0, 0, 0))
    for first, *others in whys:
        yield Text(first)
        yield from (Padding(Text(line, style="dim"), (0, 0, 0, 2)) for line in others)


def _groups(found: Sequence[GroupRow], words: Wording) -> RenderableType:
    """Two lines a group, so that the names have room on 80 columns."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for row in found:
        names = Text(row.base or row.new)
        names.append(f"\n{rows.became(row, words)}", style="dim")
        for doubt in (row.sure, row.reason):
            if doubt:
                names.append(f"\n{doubt}", style="yellow")
        numbers = Text(rows.arrow(row.before, row.after, words))
        dram = rows.arrow(row.dram_before, row.dram_after, words)
        if dram:
            numbers.append(f"\n{words.text('compare.of-dram', change=dram)}", style="dim")
        time = row.group.time
        gain = Text(row.gain, style=_STYLES[time.outcome] if time is not None else "")
        tensor = rows.arrow(row.tensor_before, row.tensor_after, words)
        if tensor:
            gain.append(f"\n{words.text('compare.of-tensor', change=tensor)}", style="dim")
        table.add_row(names, numbers, gain)
    return table
