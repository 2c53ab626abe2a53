"""Reports made of nothing: a source that holds its metrics in memory, so that no test needs NVIDIA's reader."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric
from gputui.model.report import Extras, Report, RuleResult, Section
from gputui.model.source import SourceListing

DEVICE = Device("NVIDIA Test GPU", (9, 0), 132, 1.7e9, 2.6e9, 5120, 50_000_000)

MEMORY_BOUND: Mapping[str, tuple[float, str]] = {
    "gpu__time_duration.sum": (500_000.0, "ns"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (12.0, "%"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (70.0, "%"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (30.0, "%"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": (70.0, "%"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": (55.0, "%"),
    "smsp__thread_inst_executed_per_inst_executed.ratio": (32.0, ""),
    "launch__waves_per_multiprocessor": (8.0, ""),
    "dram__bytes.sum": (1e9, "byte"),
    "dram__bytes.sum.per_second": (2e12, "byte/s"),
}

EXTRAS = Extras(
    sections=(
        Section("SpeedOfLight", "GPU Speed Of Light", tuple(list(MEMORY_BOUND)[:4])),
        Section("Occupancy", "Occupancy", ("sm__warps_active.avg.pct_of_peak_sustained_active",)),
    ),
    rules=(RuleResult("SOL", "SpeedOfLight", "OPT", "High [b]Memory[/b]", "Memory is busier than compute."),),
    labels={"gpu__time_duration.sum": "Duration"},
    descriptions={"gpu__time_duration.sum": "total time in ns"},
)


class FakeSource:
    """Counts what it is asked, on which thread; ``gate`` holds every answer back until it is set."""

    def __init__(self, rows: Sequence[Mapping[str, Metric]], gate: threading.Event | None = None) -> None:
        self.rows = rows
        self.gate = gate
        self.threads: set[int] = set()
        self.fetched: list[tuple[int, ...]] = []
        self.closed = False
        self.listing: SourceListing | None = None

    def fetch(self, indices: Sequence[int], names: Sequence[str] | None) -> list[dict[str, Metric]]:
        self.threads.add(threading.get_ident())
        self.fetched.append(tuple(indices))
        if self.gate is not None:
            assert self.gate.wait(20)
        return [
            {name: metric for name, metric in self.rows[index].items() if names is None or name in names}
            for index in indices
        ]

    def extras(self, index: int) -> Extras:
        self.threads.add(threading.get_ident())
        return EXTRAS

    def source(self, index: int) -> SourceListing | None:
        return self.listing

    def close(self) -> None:
        self.closed = True


def make_report(
    names: Sequence[str] = ("copy_a", "gemm_b", "softmax_c"),
    *,
    path: str = "/somewhere/fake.ncu-rep",
    gate: threading.Event | None = None,
    metrics: Mapping[str, tuple[float, str]] = MEMORY_BOUND,
    truncated: bool = False,
) -> Report:
    """A report of kernels with these names, the first the longest."""
    rows = []
    for place, _ in enumerate(names):
        row = {name: Metric(name, value, unit) for name, (value, unit) in metrics.items()}
        if "gpu__time_duration.sum" in row:
            row["gpu__time_duration.sum"] = Metric("gpu__time_duration.sum", 500_000.0 / (place + 1), "ns")
        rows.append(row)
    source = FakeSource(rows, gate)
    kernels = [
        Kernel(
            place,
            name,
            f"void {name}<float>(float*)",
            DEVICE,
            source,
            grid=(128, 1, 1),
            block=(256, 1, 1),
            metrics=[row["gpu__time_duration.sum"]] if "gpu__time_duration.sum" in row else [],
        )
        for place, (name, row) in enumerate(zip(names, rows, strict=True))
    ]
    return Report(path, "ncu", kernels, source, tool_version="2025.1.0.0", truncated=truncated)
