"""gputui: Nsight Compute and Nsight Systems reports opened and explained in the terminal.

The Python API is resolved lazily, so that ``import gputui`` costs nothing:

>>> report = gputui.open_report("run.ncu-rep")
>>> gputui.diagnose(report.kernels[0]).verdict.id

A timeline (``report.timeline``) is diagnosed as a whole:

>>> gputui.diagnose(gputui.open_report("run.nsys-rep")).findings

A program to be profiled names its parts:

>>> with gputui.annotate("forward"): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["__version__", "annotate", "diagnose", "open_report"]

if TYPE_CHECKING:
    from gputui.annotation import annotate
    from gputui.api import diagnose
    from gputui.formats import open_report

_HOMES = {"open_report": "gputui.formats", "diagnose": "gputui.api", "annotate": "gputui.annotation"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
