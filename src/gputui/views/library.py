"""The opened reports as one list of kernels: what the screen knows before any verdict. No Textual here."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from gputui.analysis.kernel_names import KernelIdentity, identify
from gputui.errors import GputuiError
from gputui.model.kernel import Kernel
from gputui.model.metrics import names_of
from gputui.model.report import Report
from gputui.views.text import shown

_NAME_LIMIT = 2000
"""What of a demangled name is looked at: some are megabytes long."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel in the list. ``title`` and ``detail`` are safe to show; ``share`` is of its report's time, 0-1.

    ``search`` is what search and filter look at: names, what it does, library, NVTX ranges.
    """

    number: int
    report: int
    kernel: Kernel
    duration_ns: float | None
    share: float | None
    identity: KernelIdentity
    title: str
    detail: str
    search: str


@dataclass(frozen=True, slots=True)
class LoadedReport:
    """A report with everything about its kernels that the list shows at once."""

    report: Report
    entries: tuple[Entry, ...]
    total_ns: float | None

    @property
    def name(self) -> str:
        """The file's name, safe to show."""
        return shown(Path(self.report.path).name)


@dataclass(slots=True)
class Library:
    """All reports of this session. Only the screen's thread changes it."""

    reports: list[LoadedReport] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    failures: list[GputuiError] = field(default_factory=list)

    def add(self, loaded: LoadedReport) -> None:
        self.reports.append(loaded)
        self.entries.extend(loaded.entries)

    def name_of(self, report: int) -> str:
        """A report's file name, with its folder where another report has the same name."""
        path, name = Path(self.reports[report].report.path), self.reports[report].name
        same = [one for one in self.reports if one.name == name]
        return name if len(same) == 1 else shown(str(Path(path.parent.name, path.name)))

    def report_of(self, entry: Entry) -> LoadedReport:
        return self.reports[entry.report]


def load(report: Report, number: int, first_entry: int) -> LoadedReport:
    """Name, duration and share of every kernel. Reads the report: for a worker only."""
    report.prefetch(names_of(["duration"]))
    durations = [kernel.duration_ns for kernel in report.kernels]
    known = [duration for duration in durations if duration is not None]
    total = sum(known) if known else None
    details = distinguish([(kernel.name, kernel.demangled, kernel.nvtx) for kernel in report.kernels])
    entries = tuple(
        _entry(first_entry + position, number, kernel, duration, total, detail)
        for position, (kernel, duration, detail) in enumerate(zip(report.kernels, durations, details, strict=True))
    )
    return LoadedReport(report, entries, total)


def _entry(
    number: int, report: int, kernel: Kernel, duration_ns: float | None, total_ns: float | None, detail: str
) -> Entry:
    name, demangled = kernel.name[:_NAME_LIMIT], kernel.demangled[:_NAME_LIMIT]
    identity = identify(name, demangled)
    return Entry(
        number=number,
        report=report,
        kernel=kernel,
        duration_ns=duration_ns,
        share=duration_ns / total_ns if total_ns and duration_ns is not None else None,
        identity=identity,
        title=shown(kernel.name),
        detail=detail,
        search="\n".join((name, demangled, identity.op_class, identity.library, *kernel.nvtx)).casefold(),
    )


_WORD = re.compile(r"[A-Za-z_]\w*|\d+")


def distinguish(names: Sequence[tuple[str, str, tuple[str, ...]]]) -> list[str]:
    """Per kernel what tells it from others of the same short name; empty where nothing does.

    The innermost NVTX range where the ranges differ, else the words of the full name that the others lack.
    """
    full_by_name: dict[str, dict[str, None]] = {}
    ranges_by_name: dict[str, set[tuple[str, ...]]] = {}
    for name, demangled, nvtx in names:
        full_by_name.setdefault(name, {})[demangled] = None
        ranges_by_name.setdefault(name, set()).add(nvtx[-1:])
    details: dict[tuple[str, str], str] = {}
    for name, fulls in full_by_name.items():
        if len(fulls) == 1:
            continue
        words = {full: dict.fromkeys(_WORD.findall(full[:_NAME_LIMIT])) for full in fulls}
        common = set.intersection(*(set(found) for found in words.values()))
        for full, found in words.items():
            details[name, full] = shown(" ".join(word for word in found if word not in common)[:80])
    return [
        shown(nvtx[-1]) if nvtx and len(ranges_by_name[name]) > 1 else details.get((name, demangled), "")
        for name, demangled, nvtx in names
    ]


class Backlog:
    """Kernels that still need a verdict; the wanted one comes first. Safe to use from several threads."""

    BATCH = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._todo: dict[int, None] = {}
        self._wanted: int | None = None

    def add(self, entries: Iterable[int]) -> None:
        with self._lock:
            self._todo.update(dict.fromkeys(entries))

    def want(self, entry: int) -> None:
        """Have this one diagnosed next, and before all others."""
        with self._lock:
            self._wanted = entry

    def take(self) -> list[int]:
        """The next batch, empty where nothing is left: the wanted kernel alone, so that it does not wait for others."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
            if wanted is not None:
                self._todo.pop(wanted, None)
                return [wanted]
            batch = list(islice(self._todo, self.BATCH))
            for entry in batch:
                del self._todo[entry]
            return batch

    def clear(self) -> None:
        with self._lock:
            self._todo.clear()
            self._wanted = None

    def __len__(self) -> int:
        with self._lock:
            return len(self._todo) + (self._wanted is not None)
