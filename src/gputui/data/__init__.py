"""The package's data files, and where the demo report lies."""

from __future__ import annotations

from pathlib import Path


def text_of(name: str) -> str:
    """The text of a data file. importlib.resources would take 10 ms more of every start."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def demo_report() -> Path:
    """The report that ``gputui demo`` opens."""
    return Path(__file__).with_name("demo") / "tour.ncu-rep"


def demo_timeline() -> Path:
    """The timeline that ``gputui demo --timeline`` opens."""
    (found,) = Path(__file__).with_name("demo").glob("timeline*")
    return found
