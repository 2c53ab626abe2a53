"""The ncu command that collects what a report lacks."""

from __future__ import annotations

from collections.abc import Iterable

PROGRAM = "YOUR_PROGRAM"
"""Stands for the profiled program and its arguments."""


def collect_command(sections: Iterable[str]) -> str:
    """The shortest ncu command that collects these sections; ``"metrics"`` and ``"device"`` are no sections."""
    wanted = [section for section in dict.fromkeys(sections) if section not in ("metrics", "device")]
    if len(wanted) == 1:
        chosen = " ".join(f"--section {section}" for section in dict.fromkeys((wanted[0], "SpeedOfLight")))
        return f"ncu {chosen} -o again {PROGRAM}"
    return f"ncu --set full --import-source yes -o again {PROGRAM}"
