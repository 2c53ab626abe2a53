"""What a format is: a module that recognises a file by its first bytes and opens it as a ``Report``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gputui.model.device import Device

if TYPE_CHECKING:
    from gputui.model.metrics import Metric
    from gputui.model.report import Report

Progress = Callable[[int, int], bool]
"""``progress(done, total)``; the work stops where it answers ``False``."""

HEAD_BYTES = 65536
"""How much of a file a format may look at to recognise it."""

LONGEST_NAME = 4096
"""Characters that are kept of any text of a timeline's file; a demangled C++ name has some thousand at most."""


class Format(Protocol):
    """One way to store a report."""

    kind: str

    def recognises(self, head: bytes) -> bool:
        """Whether a file that starts with ``head`` is of this format, by content alone."""
        ...

    def open(self, path: Path, progress: Progress | None = None) -> Report:
        """The report. Raises ``GputuiError`` where the file cannot be read."""
        ...


def device_of(metrics: Mapping[str, Metric], capability: tuple[int, int] | None = None) -> Device:
    """The device from a kernel's own ``device__attribute_*``; ``capability`` is what the file says beside them."""

    def number(attribute: str, factor: int = 1) -> float | None:
        metric = metrics.get(f"device__attribute_{attribute}")
        return None if metric is None or metric.number is None else metric.number * factor

    def whole(attribute: str) -> int | None:
        value = number(attribute)
        return None if value is None else int(value)

    major, minor = whole("compute_capability_major"), whole("compute_capability_minor")
    name = metrics.get("device__attribute_display_name")
    return Device(
        name=str(name.value) if name is not None and name.value else "unknown GPU",
        compute_capability=capability if major is None or minor is None else (major, minor),
        sm_count=whole("multiprocessor_count"),
        sm_clock_hz=number("clock_rate", 1000),
        memory_clock_hz=number("memory_clock_rate", 1000),
        memory_bus_bits=whole("global_memory_bus_width"),
        l2_bytes=whole("l2_cache_size"),
    )


def plausible(value: object, most: int = 1 << 20) -> int | None:
    """A count that a file tells of a GPU; ``None`` where it is none that any GPU has."""
    return value if isinstance(value, int) and 0 < value <= most else None


def capability_of(major: object, minor: object) -> tuple[int, int] | None:
    """The compute capability that a file tells, where it is one."""
    known = plausible(major, 999)
    return (known, minor) if known is not None and isinstance(minor, int) and 0 <= minor <= 99 else None


_RANK = re.compile(r"rank[-_.=]?(\d{1,6})", re.IGNORECASE)


def rank_of(path: Path) -> int | None:
    """The rank that a file's name tells: 3 of ``run.rank3.sqlite``."""
    found = _RANK.findall(path.name)
    return int(found[-1]) if found else None
