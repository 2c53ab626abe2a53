"""Every metric of a report as a file for a notebook or a spreadsheet; values in base units."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputui.errors import GputuiError
from gputui.render.files import write_whole
from gputui.terminal import safe

if TYPE_CHECKING:
    from gputui.model.report import Report


def csv_text(report: Report) -> str:
    """A row of names, a row of units, then a row a launch; a metric that a launch lacks is an empty cell."""
    frame = report.to_frame()
    units = frame.attrs["units"]
    frame = frame.map(cell)
    frame.columns = [cell(name) for name in frame.columns]
    header = frame.columns.to_frame().T.map(lambda name: units.get(name, ""))
    import pandas as pd

    return str(pd.concat([header, frame]).to_csv(index=False))


def json_text(report: Report) -> str:
    """``{"units": {metric: unit}, "kernels": [{"index", "name", …, "metrics": {metric: value or null}}]}``."""
    units: dict[str, str] = {}
    kernels = []
    for kernel in report.kernels:
        metrics = kernel.metrics()
        units.update((name, metric.unit) for name, metric in metrics.items())
        kernels.append(
            {
                "index": kernel.index,
                "name": kernel.name,
                "demangled": kernel.demangled,
                "grid": kernel.grid,
                "block": kernel.block,
                "nvtx": kernel.nvtx,
                "metrics": {name: _finite(metric.value) for name, metric in metrics.items()},
            }
        )
    return json.dumps({"units": units, "kernels": kernels}, indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(value: Any) -> Any:
    """Text as a spreadsheet shows it and never runs it: a leading ``=``, ``+``, ``-`` or ``@`` is quoted."""
    if not isinstance(value, str):
        return value
    text = safe(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def write(path: Path, text: str | Iterable[str]) -> None:
    """``text``, or its parts, at ``path``, whole or not at all. Raises ``GputuiError`` where that cannot be."""
    try:
        if path.exists() and not path.is_file():
            raise GputuiError(str(path), "is no ordinary file", "Name a file to write, or a new one")
        write_whole(path, text)
    except OSError as error:
        hint = "Choose another place with -o"
        raise GputuiError(str(path), f"cannot be written ({error.strerror})", hint) from error
