"""What to run: argument lists, never shell strings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. ``command`` is the program's argument list; ``nvtx`` and ``kernel`` are regular
    expressions over gputui's NVTX paths and kernel names; times in seconds."""

    command: tuple[str, ...]
    cwd: str
    top: int | None = None
    nvtx: str | None = None
    kernel: str | None = None
    pytorch_ranges: bool = False
    capture_api: bool = False
    """Record only between cudaProfilerStart and cudaProfilerStop."""
    delay: float | None = None
    duration: float | None = None
    communication: bool = False
    """Let ncu profile collectives too, which hang when they are replayed."""
    launches: int = 3
    """Launches of a kernel to profile."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The profilers of the machine: paths, versions as numbers, and the sections that its ncu knows."""

    nsys: str = ""
    nsys_version: tuple[int, ...] = ()
    ncu: str = ""
    ncu_version: tuple[int, ...] = ()
    ncu_sections: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Command:
    """One call of a profiler.

    ``id`` names its files (``timeline``, ``counters-1``). ``argv`` writes reports that begin with ``output``, a path
    relative to the run folder, without suffix; with a launcher there is one a rank. ``env`` is added to the program's.
    ``kernels`` are the short names it profiles and ``launches`` how many launches in all (0: a timeline).
    """

    id: str
    tool: str
    argv: tuple[str, ...]
    output: str
    env: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    launches: int = 0
