"""How far a profiler is, by what it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_MOST_LINE = 4096
"""Characters of a line that has not ended; the profilers' own are far shorter."""
_PROFILING = re.compile(
    r'==PROF== Profiling "(?P<name>[^"]*)"(?: - \d+)?(?: \((?P<nth>\d+)/(?P<of>\d+)\))?:(?P<rest>.*)'
)
_PERCENT = re.compile(r"(\d+)%")
_WRITING = re.compile(r"Generating '.*\.qdstrm'|==PROF== (Disconnected|Trying to shutdown)")
_WRITTEN = re.compile(r"\[(\d+)/(\d+)\] \[[= ]*(\d+)%")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a command is.

    ``seconds`` since it began; ``size`` bytes of report so far. Of ncu: the ``launch`` under way of ``launches`` in all
    (0 where it does not tell), its ``kernel`` and ``percent``. ``is_writing`` says that the program has ended and the
    profiler makes its report, ``percent`` of it.
    """

    seconds: float = 0.0
    size: int = 0
    kernel: str = ""
    launch: int = 0
    launches: int = 0
    percent: int = 0
    is_writing: bool = False


class ProgressReader:
    """Fed with a profiler's output as it comes. ``launches`` is how many ncu was told to take."""

    def __init__(self, launches: int = 0) -> None:
        self.progress = Progress(launches=launches)
        self._seen = 0
        self._rest = ""

    def feed(self, text: str) -> Progress:
        *whole, rest = re.split(r"[\r\n]", self._rest + text)
        for line in whole:
            self._read(line, whole=True)
        self._rest = rest[-_MOST_LINE:]
        self._read(self._rest, whole=False)
        return self.progress

    def _read(self, line: str, *, whole: bool) -> None:
        if (found := _PROFILING.search(line)) is not None:
            self._read_launch(found, whole=whole)
        elif (written := _WRITTEN.search(line)) is not None:
            self.progress = replace(self.progress, is_writing=True, percent=min(100, int(written[3])))
        elif _WRITING.search(line):
            self.progress = replace(self.progress, is_writing=True, percent=0)

    def _read_launch(self, found: re.Match[str], *, whole: bool) -> None:
        percents = _PERCENT.findall(found["rest"])
        self.progress = replace(
            self.progress,
            kernel=found["name"],
            launch=int(found["nth"]) if found["nth"] else self._seen + 1,
            launches=int(found["of"]) if found["of"] else self.progress.launches,
            percent=min(100, int(percents[-1])) if percents else 0,
            is_writing=False,
        )
        if whole:
            self._seen += 1
