"""A comparison as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gputui.render import compare_rows as rows
from gputui.render.markdown import escape

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Comparison
    from gputui.render.compare_rows import AnswerRow
    from gputui.wording import ReaderLevel, Wording

_MARKS = {"yes": "✅", "no": "❌", "same": "➖", "unknown": "❔"}
_COLUMNS = ("base", "new", "how", "time", "gain", "dram", "tensor")


def compare_markdown(comparisons: Sequence[Comparison], words: Wording, level: ReaderLevel | None = None) -> str:
    """The verdict, the three answers, a table of the kernels, why, and what to know before trusting it."""
    head = rows.head(comparisons, words)
    lines = [f"## {escape(head.title)}", "", f"**{escape(head.headline)}**", ""]
    lines += [_answer(row) for row in head.answers]
    if head.cautions:
        lines += ["", *(f"> ⚠️ {escape(line)}  " for line, _ in head.cautions)]
    if head.further:
        lines += ["", *(f"{escape(line)}  " for line in head.further)]
    for c in comparisons:
        if len(comparisons) > 1:
            lines += ["", f"### {words.text(f'compare.kind.{c.kind}')}"]
        lines += _body(c, words, rows.next_lines(c, words, level) if rows.tells_next(c, comparisons) else [])
    return "\n".join(lines) + "\n"


def _answer(row: AnswerRow) -> str:
    mark = _MARKS["same" if row.same else row.mark]
    told = " · ".join(escape(one) for one in (row.numbers, row.note) if one)
    return f"- {mark} **{escape(row.title)}**: {told}"


def _body(c: Comparison, words: Wording, advice: Sequence[str]) -> Iterable[str]:
    for line in (rows.shift(c, words), rows.still_slow(c, words)):
        if line is not None:
            yield from ("", escape(line))
    if advice:
        yield from ("", f"**{escape(advice[0])}**", "", *(f"- {escape(line)}" for line in advice[1:]))
    yield ""
    yield f"| {' | '.join(words.text(f'compare.column.{key}') for key in _COLUMNS)} |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows.group_rows(c, words, rows.SHOWN_GROUPS):
        cells = (
            row.base,
            row.new or (row.base if row.group.new else ""),
            " · ".join(one for one in (row.how, row.sure) if one),
            rows.arrow(row.before, row.after, words),
            " · ".join(one for one in (row.gain, row.reason) if one),
            rows.arrow(row.dram_before, row.dram_after, words),
            rows.arrow(row.tensor_before, row.tensor_after, words),
        )
        yield f"| {' | '.join(map(escape, cells))} |"
    if len(c.groups) > rows.SHOWN_GROUPS:
        yield from ("", words.text("compare.more", count=len(c.groups) - rows.SHOWN_GROUPS))
    whys = rows.changed_groups(c, words)
    if whys:
        yield from ("", f"**{words.text('compare.whys')}**", "")
    for first, *others in whys:
        yield from (f"- {escape(first)}", *(f"  - {escape(line)}" for line in others))
