"""What became of a program over its runs, as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from rich.table import Table
from rich.text import Text

from gputui import units
from gputui.analysis.transformer import TransformerOp
from gputui.paint.grid import shorten
from gputui.paint.sparkline import sparkline
from gputui.render.markdown import escape
from gputui.terminal import safe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.analysis.compare.history import GroupRow, History, RunRow, Since, Work
    from gputui.analysis.compare.model import Kind
    from gputui.wording import Wording

_KINDS: tuple[Kind, ...] = ("timeline", "counters")
_STEPS = frozenset(get_args(TransformerOp))
_SAID = frozenset({"other-gpu", "other-work", "clocks", "noise"})
_MOST_GROUPS = 20
_NOTE_CELLS = 60
_SPARK_CELLS = 12
_GROUP_COLUMNS = ("group", "time", "speed", "dram", "tensor")
_COLUMNS = ("number", "run", "time", "speed", "kernels", "dram", "tensor", "change")


def history_text(h: History, words: Wording, *, ascii: bool = False) -> Iterable[RenderableType]:
    """What became of the time, then a row a run, what to know of them, and the groups of kernels."""
    yield Text(" ".join(_sentences(h, words)), style="bold")
    if h.runs:
        yield Text()
        yield _run_table(h, words)
    remarks = [Text(safe(line)) for line in _remarks(h, words)]
    yield from (Text(), *remarks) if remarks else ()
    for kind in _KINDS:
        rows = [row for row in h.groups if row.kind == kind]
        if rows and len(h.told) > 1:
            yield Text()
            yield Text(words.text(f"history.groups-{kind}"), style="bold")
            yield _group_table(h, rows[:_MOST_GROUPS], words, ascii=ascii)
            if rows[_MOST_GROUPS:]:
                yield Text(words.text("history.more", count=len(rows) - _MOST_GROUPS))


def _run_table(h: History, words: Wording) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for column in _COLUMNS:
        is_text = column in ("run", "change")
        table.add_column(
            words.text(f"history.column.{column}"),
            justify="left" if is_text else "right",
            no_wrap=column != "run",
            overflow="fold",
        )
    for number, row in enumerate(h.runs, 1):
        table.add_row(*map(Text, _cells(h, number, row, words)))
    return table


def _group_table(h: History, rows: Sequence[GroupRow], words: Wording, *, ascii: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    for _ in range(3):
        table.add_column(no_wrap=True)

    def spark(values: Sequence[float | None]) -> Text:
        return Text(sparkline(values, _SPARK_CELLS, ascii=ascii))

    for row in rows:
        times = [None if one is None else one.time_ns for one in row.runs]
        name, time, speed, dram, tensor = _group_cells(h, row, words)
        table.add_row(Text(name), spark(times), Text(time), Text(speed))
        if row.kind == "counters":
            bytes = [None if one is None else one.dram_bytes for one in row.runs]
            table.add_row(Text(), spark(bytes), Text(words.text("history.dram", change=dram)), Text())
            used = [None if one is None else one.tensor_pct for one in row.runs]
            if any(used):
                table.add_row(Text(), spark(used), Text(words.text("history.tensor", change=tensor)), Text())
    return table


def history_markdown(h: History, words: Wording) -> str:
    """The same as two tables, for an issue or a pull request."""
    lines = [f"**{escape(' '.join(_sentences(h, words)))}**"]
    if h.runs:
        lines += ["", *_markdown_table([words.text(f"history.column.{one}") for one in _COLUMNS])]
        lines += [_markdown_row(_cells(h, number, row, words)) for number, row in enumerate(h.runs, 1)]
    remarks = [f"- {escape(line)}" for line in _remarks(h, words)]
    lines += ["", *remarks] if remarks else []
    for kind in _KINDS:
        rows = [row for row in h.groups if row.kind == kind]
        if rows and len(h.told) > 1:
            columns = _GROUP_COLUMNS[: len(_GROUP_COLUMNS) if kind == "counters" else -2]
            lines += ["", f"**{escape(words.text(f'history.groups-{kind}'))}**", ""]
            lines += _markdown_table([words.text(f"history.column.{one}") for one in columns])
            lines += [_markdown_row(_group_cells(h, row, words)[: len(columns)]) for row in rows]
    return "\n".join(lines) + "\n"


def _markdown_table(titles: Sequence[str]) -> list[str]:
    return [_markdown_row(titles), f"|{'---|' * len(titles)}"]


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


# ------------------------------------------------------------------ words


def _sentences(h: History, words: Wording) -> Iterator[str]:
    if not h.runs:
        yield words.text("history.none")
    elif not h.told:
        yield words.text("history.nothing-told", runs=len(h.runs))
    elif h.change is None:
        yield words.text("history.one")
    else:
        time = h.change.time
        if time.before_ns is None or time.after_ns is None:
            yield words.text("history.no-time", runs=len(h.told))
            return
        yield words.text(
            f"history.{time.outcome}",
            runs=len(h.told),
            what=words.text(f"history.what.{h.measure}"),
            before=time.before_ns,
            after=time.after_ns,
            factor=max(time.speedup, 1 / time.speedup) if time.speedup else None,
        )
        for key, place in (("largest", h.largest), ("fastest", h.fastest)):
            if place is not None:
                row = h.runs[place]
                total = row.total.time if row.total is not None else time
                yield words.text(
                    f"history.{key}",
                    number=place + 1,
                    name=shorten(safe(row.note or row.name), _NOTE_CELLS),
                    time=total.after_ns,
                    factor=total.speedup,
                )


def _cells(h: History, number: int, row: RunRow, words: Wording) -> Iterator[str]:
    yield str(number)
    state = "" if row.state == "done" else words.text(f"runs.state.{row.state}")
    started = f"{row.started:%m-%d %H:%M}" if row.started is not None else safe(row.name)
    yield " ".join(filter(None, (started, state, shorten(safe(row.note), _NOTE_CELLS))))
    yield units.duration(row.time_ns if h.measure == "gpu" else row.wall_ns)
    yield units.times(row.total.time.speedup if row.total is not None and _is_fair(row.total) else None)
    yield units.count(row.kernels)
    yield units.size(row.dram_bytes)
    yield units.percent(row.tensor_pct)
    if row.step is None:
        yield units.DASH
    else:
        yield words.text(f"history.outcome.{row.step.time.outcome}", number=row.step.against + 1)


def _is_fair(since: Since) -> bool:
    """Whether nothing but noise stands between the two times."""
    return set(since.time.because) <= {"noise"}


def _remarks(h: History, words: Wording) -> Iterator[str]:
    """What to know before these numbers are believed."""
    for number, row in enumerate(h.runs, 1):
        for problem in row.problems:
            yield words.text("history.problem", number=number, problem=problem)
        if row.step is not None:
            yield from _said(number, row.step, words)
        if row.part:
            yield words.text("history.part", number=number)
    if h.change is not None and h.change.against != h.told[-2]:
        yield from _said(h.told[-1] + 1, h.change, words)
    if h.others:
        programs = ", ".join(f"{name} ({count})" for name, count in h.others.items())
        yield words.text("history.others", count=sum(h.others.values()), programs=programs)


def _said(number: int, since: Since, words: Wording) -> Iterator[str]:
    cautions = {one.id: one.params for one in since.cautions}
    for id in dict.fromkeys([*(id for id in cautions if id in _SAID), *since.time.because]):
        yield words.text(
            f"history.said.{id if id in _SAID else 'other'}",
            **cautions.get(id, {}),
            number=number,
            against=since.against + 1,
        )


def _group_cells(h: History, row: GroupRow, words: Wording) -> tuple[str, ...]:
    """As ``_GROUP_COLUMNS``: from the first to the last run that tells of the group."""
    name = _work(row.work, words)
    if row.also:
        name = words.text("history.name-also", name=name, also=", ".join(_work(one, words) for one in row.also))
    told = [one for one in row.runs if one is not None]
    first, last = told[0], told[-1]
    is_told_once = len(told) == 1
    is_fair = h.change is not None and _is_fair(h.change) and not is_told_once
    speed = first.time_ns / last.time_ns if is_fair and first.time_ns and last.time_ns else None

    def change(number: Callable[[float | None], str], before: float | None, after: float | None) -> str:
        if is_told_once:
            return number(after)
        return words.text("history.change", before=number(before), after=number(after))

    return (
        name,
        change(units.duration, first.time_ns, last.time_ns),
        units.times(speed),
        change(units.size, first.dram_bytes, last.dram_bytes),
        change(units.percent, first.tensor_pct, last.tensor_pct),
    )


def _work(work: Work, words: Wording) -> str:
    if work.is_function:
        return shorten(safe(work.name), _NOTE_CELLS)
    return words.ui(f"{'transformer' if work.name in _STEPS else 'op'}.{work.name}")


# ------------------------------------------------------------------ JSON


def history_json(h: History) -> dict[str, Any]:
    """The numbers in ns, bytes and percent; runs are numbered from 1; ``null`` where a run does not tell."""
    return {
        "kind": h.kind,
        "measure": h.measure,
        "change": _since_json(h.change),
        "largest": None if h.largest is None else h.largest + 1,
        "runs": [
            {
                "number": number,
                "name": row.name,
                "started": row.started.isoformat() if row.started is not None else None,
                "note": row.note,
                "state": row.state,
                "problems": list(row.problems),
                "gpu": row.gpu,
                "wall_ns": row.wall_ns,
                "gpu_time_ns": row.time_ns,
                "kernels": row.kernels,
                "dram_bytes": row.dram_bytes,
                "tensor_pct": row.tensor_pct,
                "part": row.part,
                "step": _since_json(row.step),
                "total": _since_json(row.total),
            }
            for number, row in enumerate(h.runs, 1)
        ],
        "groups": [
            {
                "kind": row.kind,
                "name": row.work.name,
                "also": [one.name for one in row.also],
                "runs": [
                    None
                    if one is None
                    else {
                        "time_ns": one.time_ns,
                        "dram_bytes": one.dram_bytes,
                        "tensor_pct": one.tensor_pct,
                        "kernels": one.kernels,
                    }
                    for one in row.runs
                ],
            }
            for row in h.groups
        ],
        "others": dict(h.others),
    }


def _since_json(since: Since | None) -> dict[str, Any] | None:
    if since is None:
        return None
    time = since.time
    return {
        "against": since.against + 1,
        "outcome": time.outcome,
        "before_ns": time.before_ns,
        "after_ns": time.after_ns,
        "speedup": time.speedup,
        "low": time.low,
        "high": time.high,
        "because": list(time.because),
    }
