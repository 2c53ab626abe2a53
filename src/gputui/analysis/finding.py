"""What the diagnosis says, as data. No words: those are in ``data/wording`` under each id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that backs a finding: a metric of this report, or a formula over some, and what it is held against."""

    metric: str
    value: float
    unit: str
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in a timeline: ``[start_ns, end_ns)`` on its clock, and where it is seen best.

    ``gpu``, ``stream`` and ``thread`` are places in the timeline's lists, ``op`` a row of its operations; ``None``
    where the moment is not about one of them.
    """

    start_ns: int
    end_ns: int
    gpu: int | None = None
    stream: int | None = None
    thread: int | None = None
    op: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs the kernel (of a timeline: the program) time, or that the reader must know.

    ``max_speedup`` is an upper bound (at least 1) on how much faster the kernel can get by this alone, or ``None``
    where the report cannot bound it. ``confidence`` is 0 to 1. ``params`` fill the text. ``effects`` are the ids of
    findings that this one explains: they rank behind it. ``family`` is the rule's (``"memory"``, ``"validity"`` …).
    ``variant`` picks other forms of its texts (``why-<variant>``) where they exist: another case of the same finding;
    of parts joined by ``+`` the first for which there is a form.
    ``group`` are the launches (``Kernel.index``) that a finding about several is told on, each time with the same
    numbers; empty where it is about this launch alone.
    An ``option`` is what else the GPU offers and no cause: whatever it could gain, nothing is wrong without it.
    ``moment`` is where a timeline shows it.
    """

    id: str
    family: str
    confidence: float
    max_speedup: float | None
    evidence: tuple[Evidence, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    effects: tuple[str, ...] = ()
    variant: str = ""
    option: bool = False
    group: tuple[int, ...] = ()
    moment: Moment | None = None

    @property
    def severity(self) -> Severity:
        """From the bound: high at 1.5 times, medium at 1.15, low at 1.05, else info; an option is always info."""
        gain = 1.0 if self.option else self.max_speedup or 1.0
        return "high" if gain >= 1.5 else "medium" if gain >= 1.15 else "low" if gain >= 1.05 else "info"

    @property
    def score(self) -> float:
        """What findings are ranked by: the share of time that could go, weighed by the confidence; 0 for an option."""
        return 0.0 if self.option else (1 - 1 / (self.max_speedup or 1.0)) * self.confidence


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A rule that could not run: ``needs`` are the concepts that the report lacks, ``sections`` what collects them.

    ``available`` says whether this GPU has such counters at all: where not, collecting again does not help.
    """

    id: str
    family: str
    needs: tuple[str, ...]
    sections: tuple[str, ...]
    available: bool = True


VerdictId = Literal[
    "unknown", "launch-bound", "tensor-bound", "compute-bound", "memory-bound", "balanced", "latency-bound"
]
Level = Literal["dram", "l2", "l1"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits the kernel. ``level`` is the memory level that leads, where one does.

    ``at_roof`` says that the kernel is as fast as this GPU lets it be without doing less work. ``variant`` picks the
    sentence under the id, ``params`` fill it.
    """

    id: VerdictId
    level: Level | None = None
    variant: str = "default"
    at_roof: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gauges:
    """The numbers shown first; percent 0-100, FLOP/s, bytes/s, bytes. ``None`` where the report does not tell."""

    sm_pct: float | None = None
    memory_pct: float | None = None
    busiest_memory_pct: float | None = None
    """The largest of the memory throughput and its levels: what the verdict goes by."""
    dram_pct: float | None = None
    dram_at_least: bool = False
    """The report tells one direction alone, reads or writes."""
    l2_pct: float | None = None
    l1_pct: float | None = None
    tensor_pct: float | None = None
    achieved_occupancy_pct: float | None = None
    warp_execution_efficiency_pct: float | None = None
    achieved_flop_per_s: float | None = None
    dram_bytes_per_s: float | None = None
    dram_bytes: float | None = None
