"""The exact Nsight Compute command for a kernel that a timeline shows, as an argument list.

Sources: the command line options of Nsight Compute's guide (``--kernel-name``, ``--kernel-name-base``,
``--launch-skip``, ``--launch-count``, ``--nvtx``). ``--launch-skip`` counts the launches that the name filter lets
through, in each process by itself.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from gputui.analysis.timeline import TimelineFacts
from gputui.model.intervals import Ns
from gputui.model.timeline import SourceFile, Timeline

PLACEHOLDER = ("python", "train.py")
"""Stands for a program of which the file tells neither its command nor its name, or only that it is Python's."""

_LAUNCHES = 3
"""Launches to profile: one tells why a kernel is slow, several how much its time varies."""
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


class Commands:
    """The ncu command of each kernel of a timeline; ``rows`` are its launches, by its place in the names."""

    def __init__(self, facts: TimelineFacts, rows: Mapping[int, Ns]) -> None:
        self._facts = facts
        self._rows = rows
        timeline = facts.timeline
        self._short = {name: facts.short_name(name) for name in rows}
        self._alike: defaultdict[str, list[int]] = defaultdict(list)
        for name, short in self._short.items():
            self._alike[short].append(name)
        self._launches: dict[tuple[str, int], Ns] = {}
        self._process = np.array([stream.process for stream in timeline.streams] or [0])
        self._program = program_of(timeline.files)

    def of(self, name: int) -> tuple[str, ...]:
        """What profiles a few launches of this kernel in the steady state of the program.

        The filter is by the function's short name, as ncu's default is. Where kernels with other template arguments
        share it, their launches are skipped too, and a single one is profiled: the next may be another's.
        """
        timeline, ops = self._facts.timeline, self._facts.timeline.ops
        short = self._short[name]
        chosen = self._steady_launch(self._rows[name])
        process = int(self._process[ops.stream[chosen]])
        times = self._times(short, process)
        skipped = int(np.searchsorted(times, self._launched(np.array([chosen]))[0]))
        count = 1 if len(self._alike[short]) > 1 else min(_LAUNCHES, len(times) - skipped)
        return (
            "ncu", "--set", "full", "--import-source", "yes",
            *(("--nvtx",) if len(timeline.ranges) else ()),
            *(("--target-processes", "all") if len(timeline.processes) > 1 else ()),
            "--kernel-name", _filter(short),
            "--launch-skip", str(skipped), "--launch-count", str(max(1, count)),
            "-o", _file_name(short), *(self._program or stand_in(self._process_name(process))),
        )  # fmt: skip

    def _process_name(self, process: int) -> str:
        processes = self._facts.timeline.processes
        return processes[process].name if 0 <= process < len(processes) else ""

    def _times(self, short: str, process: int) -> Ns:
        """When a process launched the kernels that share a short name, sorted."""
        if (short, process) not in self._launches:
            alike = np.concatenate([self._rows[one] for one in self._alike[short]])
            alike = alike[self._process[self._facts.timeline.ops.stream[alike]] == process]
            self._launches[short, process] = np.sort(self._launched(alike))
        return self._launches[short, process]

    def _steady_launch(self, rows: Ns) -> int:
        """The first launch of the usual shape in the steady state; the last of all where none is in it."""
        ops, window = self._facts.timeline.ops, self._facts.window
        steady = rows[ops.start[rows] >= window.start_ns]
        if not len(steady):
            return int(rows[-1])
        shapes, counts = np.unique(ops.detail[steady], return_counts=True)
        return int(steady[ops.detail[steady] == shapes[counts.argmax()]][0])

    def _launched(self, rows: Ns) -> Ns:
        """When these operations were launched; their start where the call is not known."""
        ops, calls = self._facts.timeline.ops, self._facts.timeline.calls
        if not len(calls):
            return ops.start[rows]
        return np.where(ops.call[rows] >= 0, calls.start[ops.call[rows]], ops.start[rows])


def _filter(name: str) -> str:
    """ncu's regular expression for a function's name: a backslash before signs alone. Old exports cut long names."""
    whole = name.removesuffix("...")
    escaped = re.sub(r"([^\w ])", r"\\\1", whole)
    return f"regex:^{escaped}" if whole != name else f"regex:^{escaped}$"


def _file_name(short: str) -> str:
    """A name of letters, digits and ``_`` for the report."""
    return re.sub(r"\W+", "_", short, flags=re.ASCII).strip("_")[:40] or "kernel"
