"""A report: the kernels of one file, and what the file says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

    from gputui.model.device import Device
    from gputui.model.source import SourceListing
    from gputui.model.timeline import Timeline


class MetricSource(Protocol):
    """Where a report's metrics come from. Safe to call from several threads."""

    def fetch(self, indices: Sequence[int], names: Sequence[str] | None) -> list[dict[str, Metric]]:
        """Per kernel of ``indices``: its metrics of ``names`` that exist, or all of them where ``names`` is ``None``.

        May bring more than was asked for: with a ``breakdown:…`` the metrics that it names.
        Raises ``GputuiError`` where the file can no longer be read.
        """
        ...

    def extras(self, index: int) -> Extras:
        """What NVIDIA's own tools say of one kernel."""
        ...

    def source(self, index: int) -> SourceListing | None:
        """One kernel's instructions and source lines; ``None`` where the report holds nothing by instruction."""
        ...

    def close(self) -> None: ...


class NoMetrics:
    """The source of a report that measures time alone."""

    def fetch(self, indices: Sequence[int], names: Sequence[str] | None) -> list[dict[str, Metric]]:
        return [{} for _ in indices]

    def extras(self, index: int) -> Extras:
        return Extras()

    def source(self, index: int) -> SourceListing | None:
        return None

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Section:
    """One of Nsight Compute's sections: its name as NVIDIA shows it, and the metrics it shows, in order."""

    id: str
    name: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one of NVIDIA's own rules said. ``speedup_pct`` is its estimate of the time that would go away."""

    rule: str
    section: str
    kind: str
    title: str
    message: str
    speedup_pct: float | None = None
    speedup_is_global: bool = False


@dataclass(frozen=True, slots=True)
class Extras:
    sections: tuple[Section, ...] = ()
    rules: tuple[RuleResult, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """NVIDIA's short label of a metric, by name."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """NVIDIA's description of a metric, by name."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to say about a report: the id of its text and what the text needs."""

    id: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    """How the report was made. ``None`` where the file does not tell.

    The controls are ncu's own words, in lower case (``"base"``, ``"none"``, ``"all"``, ``"kernel"``); where the command
    line is known and leaves one out, it is ncu's default. ``clock_control`` is ``"none"`` too where ncu was to lock
    the clocks and could not. ``created`` is the time in UTC, in ISO 8601.
    """

    command_line: str | None = None
    clock_control: str | None = None
    cache_control: str | None = None
    replay_mode: str | None = None
    created: str | None = None


@dataclass(slots=True, repr=False)
class Report:
    """One opened file.

    ``kind`` is ``"ncu"``, ``"ncu-csv"``, ``"nsys"`` or ``"torch"``; the last two have a ``timeline``. ``truncated``
    says that the file was cut off and holds only what could be read; ``kernels`` are in the report's own order.
    """

    path: str
    kind: str
    kernels: list[Kernel]
    source: MetricSource
    tool_version: str | None = None
    truncated: bool = False
    notices: list[Notice] = field(default_factory=list)
    session: Session = field(default_factory=Session)
    timeline: Timeline | None = None

    def __repr__(self) -> str:
        what = f"{len(self.kernels)} kernels" if self.timeline is None else "a timeline"
        return f"<Report {self.path!r}: {self.kind}, {what}>"

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs of the kernels; a cut-off kernel's unknown one is left out where another is known."""
        found = tuple(dict.fromkeys(kernel.device for kernel in self.kernels))
        return tuple(device for device in found if device.compute_capability is not None) or found

    def prefetch(
        self,
        names: Sequence[str],
        kernels: Iterable[Kernel] | None = None,
        progress: Callable[[int, int], bool] | None = None,
    ) -> bool:
        """Read ``names`` of many kernels in few round trips; whether all of it was read.

        ``progress(done, total)`` is called after each batch; the reading stops where it answers ``False``.
        """
        todo = [kernel for kernel in (self.kernels if kernels is None else kernels) if not kernel.has_fetched(names)]
        for start in range(0, len(todo), _BATCH):
            batch = todo[start : start + _BATCH]
            for kernel, found in zip(batch, self.source.fetch([kernel.index for kernel in batch], names), strict=True):
                kernel.store(found, names)
            if progress is not None and not progress(start + len(batch), len(todo)):
                return False
        return True

    def to_frame(self) -> pd.DataFrame:
        """Every metric of every kernel as a table: a row a launch, a column a metric, values in base units.

        The first columns are ``index``, ``name``, ``demangled``, ``grid``, ``block`` and ``nvtx``. Units are in
        ``frame.attrs["units"]``. pandas is imported here and nowhere else.
        """
        import pandas as pd

        units: dict[str, str] = {}
        rows = []
        for kernel in self.kernels:
            metrics = kernel.metrics()
            units.update((name, metric.unit) for name, metric in metrics.items())
            rows.append(
                {
                    "index": kernel.index,
                    "name": kernel.name,
                    "demangled": kernel.demangled,
                    "grid": kernel.grid,
                    "block": kernel.block,
                    "nvtx": "/".join(kernel.nvtx),
                    **{name: metric.value for name, metric in metrics.items()},
                }
            )
        frame: pd.DataFrame = pd.DataFrame(rows)
        frame.attrs["units"] = units
        return frame

    def close(self) -> None:
        self.source.close()


_BATCH = 64
"""Kernels a round trip: about 10 ms of reading, so that a screen can show progress and cancel between two."""
