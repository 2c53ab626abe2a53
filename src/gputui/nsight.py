"""NVIDIA's profilers on this machine: where they are.

The places are those that the probe looks in on any machine, so that there is one list of them.
"""

from __future__ import annotations

from gputui.run import probe


def find_nsys() -> str | None:
    """The nsys to run: that of the search path, else one that a variable names, else the newest installed."""
    return next(iter(probe.candidates("nsys")), None)


def find_ncu() -> str | None:
    """The ncu to run, found as nsys is."""
    return next(iter(probe.candidates("ncu")), None)
