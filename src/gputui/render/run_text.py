"""A guided run as plain text: what ``gputui run --no-tui`` prints beside the program's own output."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable, Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gputui import units
from gputui.render import timeline_rows as rows
from gputui.render.doctor import summary
from gputui.render.text import gain
from gputui.run.doctor import blocked, outlook
from gputui.run.failures import failure_text
from gputui.terminal import safe

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from gputui.analysis.proposals import Proposal
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.errors import GputuiError
    from gputui.model.report import Report
    from gputui.run.doctor import Check
    from gputui.run.failures import Failure
    from gputui.run.folder import RunSummary
    from gputui.run.guided import Stage
    from gputui.run.plan import Command, Tools
    from gputui.run.session import StepResult
    from gputui.wording import Wording

_MOST_CELLS = 110
"""As wide as anything is printed."""
_INDENT = 3
STAGES: tuple[Stage, ...] = ("check", "timeline", "choose", "counters", "explain")


def stage_line(stage: Stage, words: Wording) -> RenderableType:
    name = words.text(f"run.stage.{stage}")
    return Text(words.text("run.text.stage", number=STAGES.index(stage) + 1, name=name), style="bold")


def checked_text(checks: Sequence[Check], tools: Tools, words: Wording) -> Iterator[RenderableType]:
    """Which profilers there are, and in a sentence what works."""
    found = {
        name: words.text(f"run.text.{name}", version=".".join(map(str, version)))
        if path
        else words.text(f"run.text.no-{name}")
        for name, path, version in (("nsys", tools.nsys, tools.nsys_version), ("ncu", tools.ncu, tools.ncu_version))
    }
    yield _indented(words.text("run.text.tools", **found), "dim")
    works = outlook(checks)
    told = {"no-gpu": "run.text.cpu-only", "unsure": "run.text.unsure"}
    yield _indented(words.text(told[works]) if works in told else summary(checks, words))
    if blocked(checks):
        yield _indented(words.text("run.text.doctor"), "dim")


def command_text(command: Command) -> RenderableType:
    """The command as one could type it: an argument that is longer than a line is neither broken nor cut."""
    first, *others = rows.command_lines(command.argv, min(get_terminal_size().columns, _MOST_CELLS) - _INDENT - 4)
    lines = [f"$ {first}", *(f"    {line}" for line in others)]
    # In a group, for what a console prints as it is loses how it overflows.
    return Group(Text("\n".join(f"{' ' * _INDENT}{line}" for line in lines), "dim", no_wrap=True, overflow="ignore"))


def ended_text(result: StepResult, words: Wording) -> Iterator[RenderableType]:
    """What a command left, and what went wrong, each with its cause and what to do."""
    outcome = result.outcome
    for path in result.reports:
        size = path.stat().st_size
        yield _indented(
            words.text("run.text.report", path=safe(str(path)), size=size, time=outcome.seconds * 1e9), "green"
        )
    told = any({"status", "signal"} & one.params.keys() for one in result.failures)
    if result.reports and outcome.stopped:
        yield _indented(words.text("run.text.stopped"))
    elif result.reports and outcome.status and not told:
        yield _indented(_status(outcome.status, words), "yellow")
    if not result.reports:
        yield _indented(words.text("run.text.no-report"), "red")
    for failure in result.failures:
        yield from failure_lines(failure, words)
    if result.failures or not result.reports:
        yield _indented(words.text("run.text.log", path=safe(str(result.log))), "dim")


def _status(status: int, words: Wording) -> str:
    if status >= 0:
        return words.text("run.text.status", status=status)
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return words.text("run.text.signal", signal=name)


def failure_lines(failure: Failure, words: Wording) -> Iterator[RenderableType]:
    text = failure_text(failure, words)
    yield _indented(text.title, "red" if failure.kind == "failure" else "yellow")
    yield Padding(Text(text.cause), (0, 0, 0, 2 * _INDENT))
    for line in failure.params.get("lines", (failure.line,) if failure.line else ()):
        yield Padding(Text(f"> {safe(line)}", style="dim"), (0, 0, 0, 2 * _INDENT))
    for step in text.fix:
        yield Padding(Text(f"- {step}"), (0, 0, 0, 2 * _INDENT))


def timeline_summary(report: Report, diagnosis: TimelineDiagnosis, words: Wording) -> Iterator[RenderableType]:
    """The sentence about the program, and its findings in a line each."""
    yield _indented(rows.sentence(diagnosis, words), "bold cyan")
    for number, finding in enumerate(diagnosis.main, 1):
        title = rows.finding_text(finding, words, diagnosis.tags).title
        line = words.text("run.text.finding", number=number, title=title)
        yield Padding(Text(f"{line}  {gain(finding, words)}".rstrip()), (0, 0, 0, _INDENT))
    if not diagnosis.kernels:
        yield _indented(words.text("run.text.no-gpu"))
    yield _indented(words.text("run.text.all", command=shlex.join(["gputui", "explain", safe(report.path)])), "dim")


def proposals_text(proposals: Sequence[Proposal], words: Wording) -> Iterable[RenderableType]:
    chosen = [one for one in proposals if one.is_proposed]
    if not chosen:
        yield _indented(words.text("run.text.none-proposed"))
        return
    table = Table.grid(padding=(0, 2))
    for proposal in chosen:
        share = proposal.share
        table.add_row(
            Text(safe(share.kernel.name)),
            Text(units.percent(100 * share.share)),
            Text("" if proposal.gain is None else words.text("run.text.gain", gain=proposal.gain)),
            Text(words.text(f"run.reason.{proposal.reason}")),
            Text(
                "" if proposal.seconds is None else words.text("run.text.seconds", time=proposal.seconds * 1e9),
                style="dim",
            ),
        )
    yield Padding(table, (0, 0, 0, _INDENT))


def next_line(command: Sequence[str], words: Wording) -> RenderableType:
    return _indented(words.text("run.text.next", command=safe(shlex.join(command))), "bold")


def kept_line(path: Path, words: Wording, *, has_reports: bool) -> str:
    """Where a run was kept, and the command that shows it."""
    here = os.path.relpath(path)
    command = shlex.join(["gputui", "open" if has_reports else "runs", here])
    return words.text("run.text.kept", path=safe(here), command=safe(command))


def interrupted_line(run: RunSummary, words: Wording) -> RenderableType:
    path = os.path.relpath(run.path)
    kept = ", ".join(run.reports) or words.text("run.text.no-reports")
    command = shlex.join(["gputui", "open", path] if run.reports else ["gputui", "runs", path])
    return Text(words.text("run.text.interrupted", path=safe(path), kept=safe(kept), command=safe(command)), "yellow")


def connection_line(host: str, why: str, words: Wording) -> RenderableType:
    key = "lost" if why else "back"
    return _indented(words.text(f"run.text.{key}", host=safe(host), why=safe(why)), "yellow")


def error_line(error: GputuiError) -> RenderableType:
    return _indented(safe(str(error)), "red")


def stopping_line(words: Wording) -> RenderableType:
    return _indented(words.text("run.text.stopping"), "yellow")


def _indented(text: str, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 0, _INDENT))
