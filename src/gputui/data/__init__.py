"""The package's data files, and where the demo report lies."""

from __future__ import annotations

from pathlib import Path


def demo_report() -> Path:
    """The report that ``gputui demo`` opens."""
    return Path(__file__).with_name("demo") / "tour.ncu-rep"


def demo_timeline() -> Path:
    """The timeline that ``gputui demo --timeline`` opens."""
    (found,) = Path(__file__).with_name("demo").glob("timeline*")
    return found
