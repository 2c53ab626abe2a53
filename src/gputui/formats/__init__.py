"""Opening a file of any format. Formats are told apart by content, never by name alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gputui.errors import GputuiError
from gputui.formats import foreign, ncu_csv, ncu_report, nsys_rep, nsys_sqlite, torch_trace
from gputui.formats.base import HEAD_BYTES, Format, Progress

if TYPE_CHECKING:
    from gputui.model.report import Report

FORMATS: tuple[Format, ...] = tuple(
    cast("Format", module) for module in (ncu_report, nsys_sqlite, nsys_rep, torch_trace, ncu_csv)
)


REPORT_SUFFIXES = frozenset(
    {".ncu-rep", ".ncu-repz", ".nsight-cuprof-report", ".csv", ".sqlite", ".nsys-rep", ".qdrep"}
)
"""What a folder is searched for, and for traces; a file named by itself may have any name."""
_TRACE_SUFFIXES = (".json", ".json.gz")
"""Most files of these names are something else: their first bytes decide."""


def reports_in(path: Path) -> list[Path]:
    """The files to open for one path: a folder stands for the reports in it, by name.

    Raises ``GputuiError`` for a folder that holds none or cannot be read.
    """
    try:
        if not path.is_dir():
            return [path]
        found = sorted(child for child in path.iterdir() if _may_be_report(child))
    except OSError as error:
        raise foreign.cannot_open(path, error) from error
    if not found:
        raise GputuiError(
            str(path),
            "is a folder without a report",
            "Name a report (.ncu-rep, .nsys-rep, .sqlite) or a folder that has some; gputui runs FOLDER lists runs",
        )
    return found


def _may_be_report(path: Path) -> bool:
    """Whether to open a file of a folder. One that cannot be read is: opening it says why."""
    if not path.name.endswith((*REPORT_SUFFIXES, *_TRACE_SUFFIXES)):
        return False
    try:
        return path.is_file() and (path.suffix in REPORT_SUFFIXES or torch_trace.recognises(_head(path)))
    except OSError:
        return True


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def open_report(path: str | os.PathLike[str], progress: Progress | None = None) -> Report:
    """The report in the file at ``path``.

    Raises ``GputuiError`` (file, cause, next step) where there is none to read.
    """
    path = Path(path)
    try:
        foreign.check_is_file(path)
        head = _head(path)
        for format in FORMATS:
            if format.recognises(head):
                return format.open(path, progress)
    except OSError as error:
        raise foreign.cannot_open(path, error) from error
    raise foreign.unknown(path, head)


def nsys_export_of(path: Path) -> Path | None:
    """The file that holds this timeline as nsys exports it, ``None`` where there is none yet.

    Raises ``GputuiError`` or ``OSError`` where ``path`` cannot be read.
    """
    foreign.check_is_file(path)
    head = _head(path)
    if nsys_sqlite.recognises(head):
        return path
    return nsys_rep.export_at_hand(path) if nsys_rep.recognises(head) else None
