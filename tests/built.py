"""Kernels made of numbers: what a report would hold, by concept or by metric name, without a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gputui.analysis.facts import MEMORY_BREAKDOWN, SM_BREAKDOWN
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric, dictionary
from gputui.model.report import Report, Session
from views.fakes import FakeSource

Values = Mapping[str, Any]
"""Numbers and strings; counts by opcode are a mapping."""

DEVICE = Device("Test GPU", (9, 0), 100)
A100 = Device("NVIDIA A100-SXM4-40GB", (8, 0), 108)

ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


def metrics_of(values: Values) -> dict[str, Metric]:
    """Each value under its own name, or under the first name of the concept that the key is."""
    row = {}
    for key, value in values.items():
        concept = dictionary().get(key)
        name = concept.names[0] if concept is not None else key
        unit = concept.unit if concept is not None else ""
        if isinstance(value, Mapping):
            row[name] = Metric(name, sum(value.values()), unit, dict(value))
        else:
            row[name] = Metric(name, value, unit)
    return row


def make_kernel(values: Values, name: str = "kernel", demangled: str = "", device: Device = DEVICE) -> Kernel:
    """One kernel; its grid and block are what ``grid_size`` and ``block_size`` say."""
    return make_report([values], [name], [demangled or name], device).kernels[0]


def make_report(
    rows: Sequence[Values],
    names: Sequence[str] | None = None,
    demangled: Sequence[str] | None = None,
    device: Device = DEVICE,
    session: Session | None = None,
) -> Report:
    """A report of such kernels; its source counts what it is asked (``fetched``)."""
    names = names or ["kernel"] * len(rows)
    source = FakeSource([metrics_of(row) for row in rows])
    kernels = [
        Kernel(
            index,
            name,
            full,
            device,
            source,
            grid=(int(row["grid_size"]), 1, 1) if "grid_size" in row else None,
            block=(int(row["block_size"]), 1, 1) if "block_size" in row else None,
        )
        for index, (row, name, full) in enumerate(zip(rows, names, demangled or names, strict=True))
    ]
    return Report("built.ncu-rep", "ncu", kernels, source, session=session or Session())


def sm_parts(**percent: float) -> dict[str, float | str]:
    """The parts of the SM throughput: ``sm_parts(issue_active=70)`` is ``sm__issue_active`` at 70 % of the time."""
    return _parts(SM_BREAKDOWN, {f"sm__{part}": value for part, value in percent.items()})


def memory_parts(**percent: float) -> dict[str, float | str]:
    """The parts of the memory throughput: ``memory_parts(lts__t_sectors=40)``."""
    return _parts(MEMORY_BREAKDOWN, percent)


def _parts(breakdown: str, percent: Mapping[str, float]) -> dict[str, float | str]:
    parts: dict[str, float | str] = {name + ELAPSED: value for name, value in percent.items()}
    return {breakdown: ", ".join(parts), **parts}
