"""The exact Nsight Compute command for kernels that a timeline shows, as an argument list; made here alone.

Sources: the command line options of Nsight Compute's guide (``--kernel-name``, ``--kernel-name-base``,
``--launch-skip``, ``--launch-count``, ``--nvtx``). ``--launch-skip`` counts the launches that the name filter lets
through, in each process by itself.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gputui.analysis.nvtx import RangeNode
from gputui.analysis.timeline import Mask, TimelineFacts
from gputui.model.intervals import Ns
from gputui.model.timeline import Ids, RangeKind, SourceFile, Timeline

PLACEHOLDER = ("python", "train.py")
"""Stands for a program of which the file tells neither its command nor its name, or only that it is Python's."""

LAUNCHES = 3
"""Launches to profile: one tells why a kernel is slow, several how much its time varies."""
MOST_OTHERS = 4
"""Launches that may be profiled for each one that is wanted: each takes about two seconds."""
_PROFILERS = re.compile(r"(.*/)?(nsys|ncu)(\.exe)?")
_PYTHON = re.compile(r"python|jupyter|torchrun|accelerate", re.IGNORECASE)


def program_of(files: Sequence[SourceFile]) -> tuple[str, ...]:
    """The profiled program's command as an argument list; empty where the files do not tell it, or are of several."""
    commands = {file.command for file in files if file.command}
    if len(commands) != 1:
        return ()
    try:
        words = shlex.split(next(iter(commands)))
    except ValueError:
        return ()
    return () if not words or _PROFILERS.fullmatch(words[0]) else tuple(words)


def is_python(timeline: Timeline) -> bool | None:
    """Whether the program is one of Python, as far as names and commands tell; ``None`` where there are none."""
    told = [process.name for process in timeline.processes] + [file.command or "" for file in timeline.files]
    if any(file.kind == "torch" for file in timeline.files) or any(map(_PYTHON.search, told)):
        return True
    return False if any(told) else None


def stand_in(process: str) -> tuple[str, ...]:
    """What stands for a program whose command is not known: its process's own name, without the arguments."""
    if not process or _PYTHON.search(process):
        return PLACEHOLDER
    return (process if "/" in process or "\\" in process else f"./{process}",)


def stand_in_of(command: Sequence[str]) -> str:
    """The words of an ncu command that stand for the program, where they do (``TimelineDiagnosis.program_known``)."""
    return " ".join(command[list(command).index("-o") + 2 :])


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches as ncu can choose them: of the functions of these short names it lets ``skip`` pass in each process, and
    profiles the next ``count``. ``wanted`` of them are those that were asked for."""

    names: tuple[str, ...]
    skip: int
    count: int
    wanted: int
    process: int

    @property
    def chosen(self) -> tuple[str, int, int]:
        """As ``ncu_command`` takes them."""
        return name_filter(self.names), self.skip, self.count


def ncu_command(
    ncu: str,
    launches: tuple[str, int, int],
    output: str,
    program: Sequence[str],
    *,
    sections: Sequence[str] = (),
    nvtx: bool = False,
    ranges: Sequence[str] = (),
    children: bool = True,
    from_start: bool = True,
    more: Sequence[str] = (),
) -> tuple[str, ...]:
    """The argument list that profiles these launches with all that the diagnosis reads.

    ``launches`` are ncu's filter for names (empty: all), how many of those to skip, and how many to profile;
    ``sections`` are what the set ``full`` lacks; ``nvtx`` records the ranges around each launch, and ``ranges`` are
    filters over them; ``from_start=False`` waits for ``cudaProfilerStart``; ``more`` are further options.
    """
    kernels, skip, count = launches
    return (
        ncu, "--set", "full", *(word for one in sections for word in ("--section", one)), "--import-source", "yes",
        *(("--nvtx",) if nvtx else ()), *(word for one in ranges for word in ("--nvtx-include", one)),
        *(("--target-processes", "all") if children else ()),
        *(() if from_start else ("--profile-from-start", "off")),
        *(("--kernel-name", kernels) if kernels else ()), "--launch-skip", str(skip), "--launch-count", str(count),
        *more, "-o", output, *program,
    )  # fmt: skip


class Commands:
    """Which launches of a timeline's kernels ncu should profile, and the command that does; by places in the names."""

    def __init__(self, facts: TimelineFacts) -> None:
        self._facts = facts
        self._rows = facts.kernel_rows
        self._short = {name: facts.short_name(name) for name in self._rows}
        self._alike: defaultdict[str, list[int]] = defaultdict(list)
        for name, short in self._short.items():
            self._alike[short].append(name)
        self._orders: dict[tuple[tuple[str, ...], int], tuple[Ids, Ns]] = {}
        self._process = np.array([stream.process for stream in facts.timeline.streams] or [0])

    def of(self, name: int) -> tuple[str, ...]:
        """What profiles a few launches of this kernel in the steady state of the program."""
        timeline = self._facts.timeline
        launches = self.launches((name,))
        assert launches is not None
        program = program_of(timeline.files) or stand_in(self._process_name(launches.process))
        return ncu_command(
            "ncu", launches.chosen, file_name(self._short[name]), program,
            nvtx=len(timeline.ranges) > 0, children=len(timeline.processes) > 1,
        )  # fmt: skip

    def launches(
        self, names: Sequence[int], most: int = LAUNCHES, inside: Mask | None = None, counted: Mask | None = None
    ) -> Launches | None:
        """The fewest launches in a row that hold ``most`` of each of these kernels, as far as there are so many.

        Those wanted are of the kernel's usual shape, in the steady state and ``inside`` (a mask over the operations;
        ``None``: anywhere); where there is none, its last launch. The filter is by the function's short name, as ncu's
        default is: kernels with other template arguments that share it are let through too. Where those, or others
        between, would make many more than wanted, it is one launch of a single kernel, and ``None`` for several.
        Launches that another filter of ncu's keeps out are not ``counted``.
        """
        ops = self._facts.timeline.ops
        wanted = [self._wanted(self._rows[name], inside) for name in names]
        process = int(self._process[ops.stream[wanted[0][0]]])
        shorts = tuple(sorted({self._short[name] for name in names}))
        rows, place = self._order(shorts, process)
        if counted is not None:
            keep = counted[rows]
            rows, place = rows[keep], np.argsort(np.argsort(place[keep]))
        places = [np.sort(place[_found_in(rows, one)]) for one in wanted]
        if not all(map(len, places)):
            return None
        needed = [min(most, len(one)) for one in places]
        begin, count = _shortest(places, needed)
        if count > MOST_OTHERS * sum(needed):
            if len(names) > 1:
                return None
            begin, count, needed = int(places[0][len(places[0]) // 2]), 1, [1]
        return Launches(shorts, begin, count, sum(needed), process)

    @cached_property
    def _steady(self) -> Mask:
        found: Mask = self._facts.timeline.ops.start >= self._facts.window.start_ns
        return found

    def _wanted(self, rows: Ids, inside: Mask | None) -> Ids:
        """Of a kernel's launches those worth profiling, all of the process that is first to have one."""
        detail = self._facts.timeline.ops.detail
        near = rows if inside is None else rows[inside[rows]]
        steady = near[self._steady[near]]
        if not len(steady):
            return (near if len(near) else rows)[-1:]
        shapes, counts = np.unique(detail[steady], return_counts=True)
        usual: Ids = steady[detail[steady] == shapes[counts.argmax()]]
        return usual

    def _order(self, shorts: tuple[str, ...], process: int) -> tuple[Ids, Ns]:
        """The launches of these functions in a process, and the place of each in the order of their launches."""
        if (shorts, process) not in self._orders:
            ops = self._facts.timeline.ops
            rows = np.sort(np.concatenate([self._rows[one] for short in shorts for one in self._alike[short]]))
            rows = rows[self._process[ops.stream[rows]] == process]
            place = np.empty(len(rows), dtype=np.int64)
            # The kernels of a CUDA graph have one call for all of them.
            place[np.argsort(self._launched(rows), kind="stable")] = np.arange(len(rows))
            self._orders[shorts, process] = rows, place
        return self._orders[shorts, process]

    def _process_name(self, process: int) -> str:
        processes = self._facts.timeline.processes
        return processes[process].name if 0 <= process < len(processes) else ""

    def _launched(self, rows: Ids) -> Ns:
        """When these operations were launched; their start where the call is not known."""
        ops, calls = self._facts.timeline.ops, self._facts.timeline.calls
        if not len(calls):
            return ops.start[rows]
        return np.where(ops.call[rows] >= 0, calls.start[ops.call[rows]], ops.start[rows])


def _found_in(ordered: Ids, rows: Ids) -> Ns:
    """The places of those ``rows`` that are among the ordered ones."""
    place: Ns = np.minimum(np.searchsorted(ordered, rows), max(0, len(ordered) - 1))
    return place[ordered[place] == rows] if len(ordered) else place[:0]


def _shortest(places: Sequence[Ns], needed: Sequence[int]) -> tuple[int, int]:
    """Where the shortest stretch begins that holds so many places of each, and its length.

    Of several the middle one: what is still warming up, or loaded late, is before it.
    """
    begins = np.concatenate(places)
    begins.sort()
    ends = begins
    for one, number in zip(places, needed, strict=True):
        last = np.searchsorted(one, begins) + number - 1
        begins, ends, last = (column[last < len(one)] for column in (begins, ends, last))
        ends = np.maximum(ends, one[last])
    lengths = ends - begins + 1
    shortest = np.flatnonzero(lengths == lengths.min())
    best = int(shortest[len(shortest) // 2])
    return int(begins[best]), int(lengths[best])


def name_filter(names: Sequence[str]) -> str:
    """ncu's regular expression for functions' names: a backslash before signs alone. Old exports cut long names."""
    parts = [
        re.sub(r"([^\w ])", r"\\\1", one.removesuffix("...")) + ("" if one.endswith("...") else "$") for one in names
    ]
    return f"regex:^{parts[0]}" if len(parts) == 1 else f"regex:^({'|'.join(parts)})"


def file_name(short: str) -> str:
    """A name of letters, digits and ``_`` for the report."""
    return re.sub(r"\W+", "_", short, flags=re.ASCII).strip("_")[:40] or "kernel"


# ------------------------------------------------------------------ NVTX filters

_MOST_FILTERS = 8
"""More ranges than these are instances of one with a number in its name, which may be another one in the next run."""
_QUANTIFIERS = re.compile(r"[@,\[\]/*+]")
_NOT_EXPRESSIBLE = re.compile(r"[\\$\x00-\x1f\x7f]|^regex:|^$")
"""How a backslash or dollar is written differs by what reads it, and a range without a name cannot be asked for."""


def nvtx_filters(facts: TimelineFacts, nodes: Sequence[RangeNode]) -> tuple[str, ...]:
    """What ``--nvtx-include`` has to be for the launches in these ranges, and no others; empty where it cannot say so.

    ncu's own syntax (the guide's "NVTX Filtering"): push/pop ranges from the outside in, ``outer/inner``, one alone as
    ``name/``; start/end ranges as they are; ``domain@`` before those of a library; a backslash before ``@,[]/*+``.
    Without ``[``, which asks for the outermost range: a capture that began late does not show what is around.

    Counting launches alone finds the same ones in a program that does the same again, so that what cannot be said
    exactly is not said: numbers in names, PyTorch's operators (``aten::mm, seq = 7``), start/end ranges where several
    threads launch (ncu's are those of the process, a timeline's those of the thread), ranges that stand inside others
    as well.
    """
    if not nodes or any(file.kind != "nsys" for file in facts.timeline.files):
        return ()
    filters = tuple(dict.fromkeys(map(_nvtx_filter, nodes)))
    # A number in the name of a range that comes once counts steps: the next run may have another one.
    counts = any(one.count == 1 and re.search(r"\d", "".join(one.path)) for one in nodes)
    if len(filters) > _MOST_FILTERS or not all(filters) or counts:
        return ()
    if any(one.kind == RangeKind.START_END for one in nodes):
        return filters if len(np.unique(facts.timeline.calls.thread[facts.timeline.ops.call])) == 1 else ()
    chosen = {(one.domain, one.path) for one in nodes}
    others = (one for one in _all_below(facts.range_tree, chosen) if one.kind == RangeKind.PUSH_POP)
    is_exact = not any(
        one.domain == domain and one.path[-len(path) :] == path for one in others for domain, path in chosen
    )
    return filters if is_exact else ()


def _nvtx_filter(node: RangeNode) -> str:
    """The filter for one range; empty where there is none."""
    if any(_NOT_EXPRESSIBLE.search(one) for one in node.path) or (node.domain and _NOT_EXPRESSIBLE.search(node.domain)):
        return ""
    path = "/".join(_escaped(one) for one in node.path)
    alone = node.kind == RangeKind.PUSH_POP and len(node.path) == 1
    return (f"{_escaped(node.domain)}@" if node.domain else "") + path + ("/" if alone else "")


def _escaped(name: str) -> str:
    return _QUANTIFIERS.sub(r"\\\g<0>", name)


def _all_below(nodes: Sequence[RangeNode], without: set[tuple[str, tuple[str, ...]]]) -> Iterator[RangeNode]:
    """These ranges and what is inside them, without those that were chosen and theirs."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if (node.domain, node.path) not in without:
            yield node
            waiting += node.children
