"""What became of a program over the runs in a folder."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gputui.analysis.compare.history import HistoryRun, history
from gputui.errors import GputuiError
from gputui.formats.together import open_all
from gputui.run.folder import runs

if TYPE_CHECKING:
    from pathlib import Path

    from gputui.analysis.compare.history import History
    from gputui.analysis.compare.model import Side
    from gputui.formats.together import FileProgress
    from gputui.run.folder import RunSummary


def history_of(folder: Path, progress: FileProgress | None = None) -> History:
    """Of the program that was run last, and how many runs there are of others. One run's reports are open at a time.

    Raises ``GputuiError`` where the folder cannot be read; one that is not there holds no runs.
    """
    found = runs(folder)
    program = next((run.program for run in found if not run.problem), "")
    # Whose program is not known is not known to be another's.
    own = [run for run in reversed(found) if run.problem or run.program == program]
    others = Counter(run.program for run in found if not run.problem and run.program != program)
    return history((_read(run, progress) for run in own), others)


def _read(run: RunSummary, progress: FileProgress | None) -> HistoryRun:
    from gputui.analysis.compare.sides import counters_side
    from gputui.analysis.engine import diagnose_all

    problems = [run.problem] if run.problem else []
    counted = []
    timeline: Side | None = None
    with ExitStack() as opened:
        for report in open_all([run.path / name for name in run.reports], progress):
            if isinstance(report, GputuiError):
                problems.append(str(report))
                continue
            opened.callback(report.close)
            try:
                if report.timeline is None:
                    counted.append((report, diagnose_all(report)))
                elif timeline is None:
                    from gputui.analysis.compare.timelines import timeline_side

                    timeline = timeline_side(report)
            except GputuiError as error:
                problems.append(str(error))
    return HistoryRun(
        name=run.path.name,
        started=run.started,
        note=run.note,
        side_counters=counters_side(counted) if counted else None,
        side_timeline=timeline,
        state="damaged" if run.problem else run.state,
        problems=tuple(problems),
    )
