"""The package's data files, and where the demo report lies."""

from __future__ import annotations

from pathlib import Path


def demo_report() -> Path:
    """The report that ``gputui demo`` opens."""
    return Path(__file__).with_name("demo") / "tour.ncu-rep"
