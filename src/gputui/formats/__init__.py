"""Opening a file of any format. Formats are told apart by content, never by name alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gputui.errors import GputuiError
from gputui.formats import foreign, ncu_csv, ncu_report
from gputui.formats.base import HEAD_BYTES, Format, Progress

if TYPE_CHECKING:
    from gputui.model.report import Report

FORMATS: tuple[Format, ...] = (cast("Format", ncu_report), cast("Format", ncu_csv))


REPORT_SUFFIXES = frozenset({".ncu-rep", ".ncu-repz", ".nsight-cuprof-report", ".csv"})
"""What a folder is searched for; a file named by itself may have any name."""


def reports_in(path: Path) -> list[Path]:
    """The files to open for one path: a folder stands for the reports in it, by name.

    Raises ``GputuiError`` for a folder that holds none or cannot be read.
    """
    try:
        if not path.is_dir():
            return [path]
        found = sorted(child for child in path.iterdir() if child.suffix in REPORT_SUFFIXES and child.is_file())
    except OSError as error:
        raise foreign.cannot_open(path, error) from error
    if not found:
        raise GputuiError(str(path), "is a folder without a report", "Name a .ncu-rep file, or a folder that has some")
    return found


def open_report(path: str | os.PathLike[str], progress: Progress | None = None) -> Report:
    """The report in the file at ``path``.

    Raises ``GputuiError`` (file, cause, next step) where there is none to read.
    """
    path = Path(path)
    try:
        foreign.check_is_file(path)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        for format in FORMATS:
            if format.recognises(head):
                return format.open(path, progress)
    except OSError as error:
        raise foreign.cannot_open(path, error) from error
    raise foreign.unknown(path, head)
