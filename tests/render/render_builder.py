"""Reports made of nothing, so that what is printed of them can be written down to the letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric
from gputui.model.report import Extras, Notice, Report
from gputui.model.source import SourceListing

DEVICE = Device("NVIDIA Test GPU", (9, 0), 132, 1.7e9, 2.6e9, 5120, 50_000_000)

MEMORY_BOUND: Mapping[str, tuple[float | str, str]] = {
    "gpu__time_duration.sum": (500_000.0, "ns"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (12.0, "%"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (78.0, "%"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (78.0, "%"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": (55.0, "%"),
    "smsp__thread_inst_executed_per_inst_executed.ratio": (32.0, ""),
    "launch__waves_per_multiprocessor": (8.0, ""),
    "dram__bytes.sum": (1e9, "byte"),
    "dram__bytes.sum.per_second": (2e12, "byte/s"),
    "dram__bytes.sum.peak_sustained": (1000.0, "byte/cycle"),
}

HOSTILE = (
    "\x1b[2J\x1b]52;c;QUJD\x07",
    "\x1b]8;;http://evil\x1b\\click\x9b31m",
    "nul\0 bell\x07 back\x08\x08 cr\r lf\n tab\t",
    "rtl\u202e\u2066 zero\u200b bom\ufeff sep\u2028",
    "half\udc80 tag\U000e0041",
    "Z" + "\u0300" * 300,
    "| a | b |`code` **bold** [link](http://x) <img src=x onerror=y> # head $x$ ![i](x) ~~s~~ &lt;",
    "[bold red]markup[/bold red] {dram_pct:pct} {0} %s",
    "=cmd|' /C calc'!A0",
)
"""Names that act on a terminal, on Markdown, on Rich's markup, on ``str.format`` or on a spreadsheet."""


class MemorySource:
    """The metrics of a report in memory."""

    def __init__(self, rows: Sequence[Mapping[str, Metric]]) -> None:
        self.rows = rows
        self.listing: SourceListing | None = None

    def fetch(self, indices: Sequence[int], names: Sequence[str] | None) -> list[dict[str, Metric]]:
        return [
            {name: metric for name, metric in self.rows[index].items() if names is None or name in names}
            for index in indices
        ]

    def extras(self, index: int) -> Extras:
        return Extras()

    def source(self, index: int) -> SourceListing | None:
        return self.listing

    def close(self) -> None:
        pass


def make_report(
    *names: str,
    metrics: Mapping[str, tuple[float | str, str]] = MEMORY_BOUND,
    device: Device = DEVICE,
    path: str = "run.ncu-rep",
    nvtx: tuple[str, ...] = (),
    notices: Sequence[Notice] = (),
) -> Report:
    """A report with a launch of each name, all with the same metrics."""
    row = {name: Metric(name, value, unit) for name, (value, unit) in metrics.items()}
    source = MemorySource([row] * len(names))
    kernels = [
        Kernel(index, name, name, device, source, grid=(4096, 1, 1), block=(256, 1, 1), nvtx=nvtx)
        for index, name in enumerate(names)
    ]
    return Report(path, "ncu", kernels, source, notices=list(notices))


def hostile_report() -> Report:
    """A report whose every name is hostile: path, GPU, NVTX ranges, kernels, a metric, what the profiler said."""
    evil = "sm__inst_\x1b[2J\u202e`|.avg"
    metrics = {
        "gpu__time_duration.sum": (500_000.0, "ns"),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": (90.0, "%"),
        "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed": (evil, ""),
        evil: (90.0, "%"),
    }
    return make_report(
        *HOSTILE,
        metrics=metrics,
        device=Device("GPU\x1b[31m\u202e|`", (9, 0), 132),
        path="dir\x1b[2J/a|b`\udc80.ncu-rep",
        nvtx=("range\x1b[2J\u202e",),
        notices=[Notice("unreadable-kernels", {"count": 2})],
    )
