"""Runs two programs in turns and says how many times as long the one takes as the other, and how far that varies."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What a command took: wall seconds, and the bytes of the largest process among it and those it waited for.

    Linux counts for a process what the one that started it held: where that is all, ``peak`` is only a bound.
    """

    seconds: float
    peak: float
    is_bound: bool

    @property
    def memory(self) -> str:
        return f"{'≤ ' if self.is_bound else ''}{self.peak / 1e6:.0f} MB"


@dataclass(frozen=True)
class Pair:
    """What gputui and a peer took in turns: medians, and of peer ÷ gputui the median, least and greatest.

    A ratio above 1 says that gputui takes less.
    """

    ours: float
    theirs: float
    ratio: float
    low: float
    high: float


def cost(commands: Sequence[Sequence[str]], env: dict[str, str] | None = None) -> Cost:
    """Runs the commands one after the other with their output thrown away. Raises SystemExit where one fails."""
    peak = 0.0
    begin = time.perf_counter()
    for command in commands:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
        peak = max(peak, usage.ru_maxrss * 1024)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Cost(time.perf_counter() - begin, peak, peak <= own)


def in_turns(ours: Callable[[], float], theirs: Callable[[], float], turns: int) -> Pair:
    """Both once unmeasured, so that files and programs lie in memory, then in ``turns`` turns."""
    if turns > 1:
        ours()
        theirs()
    found = [(ours(), theirs()) for _ in range(turns)]
    ratios = [peer / own for own, peer in found]
    ours_each, theirs_each = zip(*found, strict=True)
    return Pair(
        statistics.median(ours_each),
        statistics.median(theirs_each),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
    )


def read_once(path: Path) -> None:
    """Puts the file into the memory of the operating system."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
