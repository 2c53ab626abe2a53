"""gputui: Nsight Compute and Nsight Systems reports opened and explained in the terminal.

The Python API is resolved lazily, so that ``import gputui`` costs nothing:

>>> report = gputui.open_report("run.ncu-rep")
>>> gputui.diagnose(report.kernels[0]).verdict.id

A timeline (``report.timeline``) is diagnosed as a whole:

>>> gputui.diagnose(gputui.open_report("run.nsys-rep")).findings

What a change did, from one report to another:

>>> gputui.compare(report, gputui.open_report("after.ncu-rep")).time.outcome

The profilers are run by ``profile``; ``annotate`` marks ranges that both show:

>>> report = gputui.profile("train.py", tool="ncu", kernel="softmax")

A program to be profiled names its parts:

>>> with gputui.annotate("forward"): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "CountersDeniedError",
    "GputuiError",
    "NothingProfiledError",
    "ProfileError",
    "ProgramFailedError",
    "ToolMissingError",
    "__version__",
    "annotate",
    "compare",
    "diagnose",
    "open_report",
    "profile",
]

if TYPE_CHECKING:
    from gputui.annotation import annotate
    from gputui.api import compare, diagnose
    from gputui.errors import GputuiError
    from gputui.formats import open_report
    from gputui.run.profiling import (
        CountersDeniedError,
        NothingProfiledError,
        ProfileError,
        ProgramFailedError,
        ToolMissingError,
        profile,
    )

_HOMES = {
    "open_report": "gputui.formats",
    "diagnose": "gputui.api",
    "compare": "gputui.api",
    "annotate": "gputui.annotation",
    "profile": "gputui.run.profiling",
    **{name: "gputui.run.profiling" for name in __all__ if name.endswith("Error")},
    "GputuiError": "gputui.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
