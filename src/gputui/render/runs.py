"""The runs of a folder: what ``gputui runs`` prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from gputui.paint.grid import shorten
from gputui.terminal import safe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.run.folder import RunSummary
    from gputui.wording import Wording

_NOTE_CELLS = 40


def runs_text(folder: Path, runs: Sequence[RunSummary], words: Wording) -> Iterable[RenderableType]:
    """A line a run, then what to do about those that did not end as they should."""
    if not runs:
        yield Text(words.text("runs.none", folder=safe(str(folder))))
        return
    yield Text(words.text("runs.heading", folder=safe(str(folder))), style="bold")
    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column(no_wrap=True)
    for run in runs:
        state = "damaged" if run.problem else run.state
        table.add_row(
            Text(safe(run.path.name)),
            Text(words.text(f"runs.state.{state}")),
            Text(words.text("runs.reports", reports=len(run.reports))),
            Text(shorten(safe(run.note), _NOTE_CELLS)),
        )
    yield table
    for run in runs:
        remark = _remark(run, words)
        if remark:
            yield Text()
            yield Text(remark)
            if run.reports:
                yield _command(run)
    whole = [run for run in runs if run.reports and run.state != "interrupted"]
    if whole:
        yield Text()
        yield Text(words.text("runs.open"))
        yield _command(whole[0])


def _remark(run: RunSummary, words: Wording) -> str:
    name = safe(run.path.name)
    if run.problem:
        return safe(run.problem)
    if run.state == "unknown":
        return words.text("runs.unknown", name=name, host=safe(run.host))
    if run.state != "interrupted":
        return ""
    if not run.reports:
        return words.text("runs.lost", name=name, folder=safe(str(run.path)))
    return words.text("runs.kept", name=name, kept=safe(", ".join(run.reports)))


def _command(run: RunSummary) -> RenderableType:
    return Text(f"  gputui open {safe(shlex.quote(str(run.path)))}")


def runs_json(runs: Sequence[RunSummary]) -> list[dict[str, Any]]:
    """The runs as JSON values; times are ISO 8601."""
    return [
        {
            "path": str(run.path),
            "state": "damaged" if run.problem else run.state,
            "program": run.program,
            "started": run.started.isoformat() if run.started else None,
            "host": run.host,
            "reports": list(run.reports),
            "note": run.note,
            "problem": run.problem,
        }
        for run in runs
    ]
