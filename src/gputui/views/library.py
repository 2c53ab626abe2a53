"""The opened reports as one list of kernels: what the screen knows before any verdict. No Textual here."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gputui.analysis.kernel_names import KernelIdentity, identify
from gputui.analysis.links import link
from gputui.errors import GputuiError
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric, names_of
from gputui.model.report import Report
from gputui.views.text import shown

if TYPE_CHECKING:
    from gputui.analysis.nvtx import RangeNode
    from gputui.analysis.timeline import Group, Mask, TimelineFacts
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_kernels import KernelShare
    from gputui.formats.nsys_sqlite import KernelSum

_RUN_FOLDER = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)_(?P<time>\d\d-\d\d-\d\d)-(?P<program>.+)")
_NAME_LIMIT = 2000
"""What of a demangled name is looked at: some are megabytes long."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel in the list: a launch of an ncu report, all launches of one name of a timeline.

    ``title`` and ``detail`` are safe to show, ``common`` is how many characters at the beginning of ``title`` all those
    have that begin with the same word; ``share`` is of its report's time, 0-1. ``search`` is what search and
    filter look at: names, what it does, library, NVTX ranges. ``timed`` are its launches in a timeline,
    ``None`` for a launch that has counters.
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
    timed: Group | None = None
    common: int = 0

    @property
    def key_detail(self) -> str:
        """The word that tells it best from others of the same name."""
        return self.detail.split(" ")[0]

    @property
    def count(self) -> int:
        """The launches that it stands for."""
        return 1 if self.timed is None else self.timed.count


@dataclass(frozen=True, slots=True, eq=False)
class RangeRows:
    """The NVTX ranges of a timeline by path, each before those inside it; ``ends[row]`` is the row behind the last one
    inside ``row``."""

    nodes: tuple[RangeNode, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RangeContent:
    """What some NVTX ranges of one path launched: per entry its launches among them.

    ``rows`` are the ranges, ``ops`` the operations.
    """

    report: int
    path: tuple[str, ...]
    rows: tuple[int, ...]
    ops: Mask
    kernels: Mapping[int, Group]


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedTimeline:
    """What takes a while to work out of a timeline."""

    diagnosis: TimelineDiagnosis
    ranges: RangeRows


@dataclass(frozen=True, slots=True, eq=False)
class LoadedReport:
    """A report with everything about its kernels that the list shows at once.

    ``facts`` are of its timeline, ``None`` where it is none; ``entry_of`` finds a timeline's entry by the place of its
    name there.
    """

    report: Report
    entries: tuple[Entry, ...]
    total_ns: float | None
    facts: TimelineFacts | None = None
    entry_of: Mapping[int, Entry] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name, safe to show; of several files what they have in common."""
        timeline = self.report.timeline
        if timeline is None or len(timeline.files) == 1:
            return shown(Path(self.report.path).name)
        return shown(_pattern([Path(file.path).name for file in timeline.files]))


def _pattern(names: Sequence[str]) -> str:
    """What several names have in common: ``rank*.sqlite``."""
    start = _common(names)
    end = _common([name[len(start) :][::-1] for name in names])[::-1]
    return start if len(set(names)) == 1 else f"{start}*{end}"


def _common(texts: Sequence[str]) -> str:
    """How all of them begin."""
    least, most = min(texts), max(texts)
    return least[: next((place for place, char in enumerate(least) if char != most[place]), len(least))]


@dataclass(frozen=True, slots=True)
class LinkedEntry:
    """The launch in an ncu report that belongs to a kernel of a timeline; ``same_shape`` as ``links.Link`` has it."""

    entry: Entry
    same_shape: bool | None


@dataclass(slots=True)
class Library:
    """All reports of this session. Only the screen's thread changes it.

    ``timelines`` are, by a report's place, what has been worked out of it; ``links``, by the number of a timeline's
    entry, the launches that have counters; ``remarks`` what was told while they were recorded; ``base`` the kernel that
    is marked to compare with.
    """

    reports: list[LoadedReport] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    failures: list[GputuiError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    timelines: dict[int, ExplainedTimeline] = field(default_factory=dict)
    links: Mapping[int, LinkedEntry] = field(default_factory=dict)
    base: Entry | None = None

    def add(self, loaded: LoadedReport) -> None:
        self.reports.append(loaded)
        self.entries.extend(loaded.entries)

    def name_of(self, report: int) -> str:
        """A report's file name; where others have it too, behind its folder, or behind the time of its run."""
        path, name = Path(self.reports[report].report.path), self.reports[report].name
        folders = [Path(one.report.path).parent.name for one in self.reports if one.name == name]
        if len(folders) == 1:
            return name
        runs = [run for one in folders if (run := _RUN_FOLDER.fullmatch(one)) is not None]
        mine = _RUN_FOLDER.fullmatch(path.parent.name)
        if mine is None or len(runs) < len(folders) or len({one.group() for one in runs}) < len(runs):
            return shown(str(Path(path.parent.name, path.name)))
        # What differs comes first, and short: of long names the middle is left out.
        day = "" if len({one["day"] for one in runs}) == 1 else f"{mine['day']} "
        program = "" if len({(one["day"], one["time"]) for one in runs}) == len(runs) else f"{mine['program']} "
        return shown(f"{day}{mine['time']} {program}{path.stem}")

    def report_of(self, entry: Entry) -> LoadedReport:
        return self.reports[entry.report]

    def explained(self, loaded: LoadedReport | None) -> ExplainedTimeline | None:
        """What has been worked out of a timeline, as soon as it is known."""
        return None if loaded is None else self.timelines.get(self.reports.index(loaded))

    def share_of(self, entry: Entry) -> KernelShare | None:
        """What a kernel is to the program, as soon as it is known; ``None`` for a launch that has counters."""
        explained = self.timelines.get(entry.report)
        return None if explained is None or entry.timed is None else explained.diagnosis.kernels[entry.kernel.index]

    @property
    def has_timeline(self) -> bool:
        return any(loaded.facts is not None for loaded in self.reports)


def load(report: Report, number: int, first_entry: int) -> LoadedReport:
    """Name, duration and share of every kernel. Reads the report: for a worker only."""
    if report.timeline is not None:
        return _load_timeline(report, number, first_entry)
    report.prefetch(names_of(["duration"]))
    durations = [kernel.duration_ns for kernel in report.kernels]
    known = [duration for duration in durations if duration is not None]
    total = sum(known) if known else None
    details = distinguish([(kernel.name, kernel.demangled, kernel.nvtx) for kernel in report.kernels])
    common = common_beginnings([kernel.name for kernel in report.kernels])
    entries = tuple(
        _entry(first_entry + place, number, kernel, durations[place], total, details[place], common[place])
        for place, kernel in enumerate(report.kernels)
    )
    return LoadedReport(report, entries, total)


def _entry(
    number: int,
    report: int,
    kernel: Kernel,
    duration_ns: float | None,
    total_ns: float | None,
    detail: str,
    common: int,
    group: Group | None = None,
) -> Entry:
    name, demangled = kernel.name[:_NAME_LIMIT], kernel.demangled[:_NAME_LIMIT]
    identity = identify(name, demangled)
    return Entry(
        number=number,
        report=report,
        kernel=kernel,
        duration_ns=duration_ns,
        share=group.share if group else duration_ns / total_ns if total_ns and duration_ns is not None else None,
        identity=identity,
        title=shown(kernel.name),
        detail=detail,
        search="\n".join((name, demangled, identity.op_class, identity.library, *kernel.nvtx)).casefold(),
        timed=group,
        common=common,
    )


def _load_timeline(report: Report, number: int, first_entry: int) -> LoadedReport:
    from gputui.analysis.timeline import TimelineFacts

    assert report.timeline is not None
    timeline = report.timeline
    facts = TimelineFacts(timeline)
    device = timeline.gpus[facts.gpus[0]].device if facts.gpus and timeline.gpus else Device("unknown GPU")
    kernels = []
    for place, group in enumerate(facts.kernels):
        full = timeline.name(group.name)
        total = Metric("gpu__time_duration.sum", float(group.total_ns), "ns")
        kernels.append(Kernel(place, facts.short_name(group.name), full, device, report.source, metrics=(total,)))
    details = distinguish([(kernel.name, kernel.demangled, ()) for kernel in kernels])
    common = common_beginnings([kernel.name for kernel in kernels])
    entries = tuple(
        _entry(first_entry + place, number, kernel, group.total_ns, None, details[place], common[place], group)
        for place, (kernel, group) in enumerate(zip(kernels, facts.kernels, strict=True))
    )
    by_name = {group.name: entry for group, entry in zip(facts.kernels, entries, strict=True)}
    total_ns = sum(group.total_ns for group in facts.kernels) or None
    return LoadedReport(report, entries, total_ns, facts, by_name)


@dataclass(frozen=True, slots=True)
class SummedKernel:
    """All launches of a kernel, before its timeline is there. ``share`` is of all kernels' time, 0-1; ``None`` where
    they took none."""

    title: str
    detail: str
    count: int
    total_ns: int
    share: float | None


@dataclass(frozen=True, slots=True)
class SummedKernels:
    """The kernels of a file by time. ``names`` and ``launches`` count all of them, ``longest`` are the first few; all
    texts are safe to show."""

    file: str
    names: int
    launches: int
    longest: tuple[SummedKernel, ...]


_MOST_SUMMED = 200
"""Kernels; the screen shows as many as it has lines."""


def summed(path: str, sums: Sequence[KernelSum]) -> SummedKernels:
    """The kernels of a file as the screen shows them while it is opened; ``sums`` come by time."""
    from gputui.model.kernel import function_name

    whole = sum(one.total_ns for one in sums)
    longest = [(one.short_name or function_name(one.name), one) for one in sums[:_MOST_SUMMED]]
    details = distinguish([(name, one.name, ()) for name, one in longest])
    rows = tuple(
        SummedKernel(shown(name), detail, one.count, one.total_ns, one.total_ns / whole if whole > 0 else None)
        for (name, one), detail in zip(longest, details, strict=True)
    )
    return SummedKernels(shown(Path(path).name), len(sums), sum(one.count for one in sums), rows)


def explain(loaded: LoadedReport) -> ExplainedTimeline:
    """The diagnosis of a timeline and its NVTX ranges. Goes through every event: for a worker only."""
    from gputui.analysis.timeline_diagnosis import diagnose_timeline

    assert loaded.facts is not None
    diagnosis = diagnose_timeline(loaded.facts, loaded.report.notices)
    # Kept with the facts, for the page that tells it.
    _ = loaded.facts.outside_ranges
    return ExplainedTimeline(diagnosis, flatten(loaded.facts.range_tree))


_ALIKE = 16
"""More ranges beside one another that differ in numbers alone (steps, layers) are told together."""


def flatten(tree: Sequence[RangeNode]) -> RangeRows:
    """The tree as rows, from the top down, many that are alike as one."""
    from gputui.analysis.timeline_tables import condensed

    nodes: list[RangeNode] = []
    ends: list[int] = []
    # No recursion: a file may nest its ranges deeper than Python its calls. A row stands for the end of its node.
    todo: list[tuple[RangeNode, tuple[str, ...]] | int] = []

    def add(beside: Sequence[RangeNode], path: tuple[str, ...]) -> None:
        todo.extend((node, path) for node in reversed(condensed(beside, more_than=_ALIKE)))

    add(tree, ())
    while todo:
        one = todo.pop()
        if isinstance(one, int):
            ends[one] = len(nodes)
            continue
        node, above = one
        path = (*above, node.name)
        todo.append(len(nodes))
        nodes.append(replace(node, path=path))
        ends.append(0)
        add(node.children, path)
    return RangeRows(tuple(nodes), tuple(ends))


def content_of(loaded: LoadedReport, number: int, path: tuple[str, ...], rows: Sequence[int]) -> RangeContent:
    """What these NVTX ranges launched. Goes through every operation: for a worker only."""
    from gputui.analysis.timeline import groups

    facts = loaded.facts
    assert facts is not None
    ops = facts.ops_of_ranges(rows)
    found = groups(facts.timeline.ops, ops & facts.kernel_mask)
    kernels = {loaded.entry_of[group.name].number: group for group in found if group.name in loaded.entry_of}
    return RangeContent(number, path, tuple(map(int, rows)), ops, kernels)


def link_all(library: Library) -> dict[int, LinkedEntry]:
    """Per entry of an explained timeline the launch with counters that belongs to it. Looks at every name: for a worker
    only."""
    counted = [entry for entry in library.entries if entry.timed is None]
    timed = [(entry, share) for entry in library.entries if (share := library.share_of(entry)) is not None]
    found = link([share.kernel for _, share in timed], [entry.kernel for entry in counted])
    return {timed[place][0].number: LinkedEntry(counted[one.counted], one.same_shape) for place, one in found.items()}


_WORD = re.compile(r"[A-Za-z_]\w*|\d+")
_GENERIC = frozenset(
    {
        "lambda", "instance", "operator", "const", "void", "unnamed", "anonymous", "namespace", "std", "array",
        "unsigned", "signed", "long", "short", "int", "char", "bool", "float", "double", "c10", "at", "native",
        "TensorIteratorBase", "Scalar", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "binary_internal",
    }
)  # fmt: skip
"""Words of C++, and of PyTorch's wrappers around the function that matters: they tell little of a kernel."""


def distinguish(names: Sequence[tuple[str, str, tuple[str, ...]]]) -> list[str]:
    """Per kernel what tells it from others of the same short name; empty where nothing does.

    The innermost NVTX range where the ranges differ, else the words of the full name that others lack, the most telling
    first: those that the fewest have, numbers last.
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
        holders = Counter(word for found in words.values() for word in found)
        for full, found in words.items():
            telling = (word for word in found if holders[word] < len(fulls))
            ranked = sorted(telling, key=lambda word: (word.isdigit(), word in _GENERIC, holders[word]))
            details[name, full] = shown(" ".join(ranked)[:80])
    return [
        shown(nvtx[-1]) if nvtx and len(ranges_by_name[name]) > 1 else details.get((name, demangled), "")
        for name, demangled, nvtx in names
    ]


def common_beginnings(titles: Sequence[str]) -> list[int]:
    """Per name how many characters those of its first word (up to ``_``) have in common, up to the end of a word."""
    families: dict[str, list[str]] = {}
    for title in dict.fromkeys(titles):
        families.setdefault(title.split("_")[0], []).append(title)
    common = {first: _common(family).rfind("_") + 1 if len(family) > 1 else 0 for first, family in families.items()}
    return [common[title.split("_")[0]] for title in titles]


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
