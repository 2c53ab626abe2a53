"""Which kernels of a timeline deserve Nsight Compute, and what profiling them costs."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.analysis.timeline_kernels import KernelShare


@dataclass(frozen=True, slots=True)
class Proposal:
    """A kernel that may be profiled.

    ``share`` and ``amdahl`` as in ``KernelShare`` (of the chosen NVTX ranges where some were asked for).
    ``is_proposed``: marked at the start. ``reason`` is an id under ``run.reason`` for why it is or is not.
    ``seconds`` estimates what profiling it takes: running the program up to its launches, and replaying those;
    ``None`` where nothing tells how long the program runs. ``skip`` and ``count`` are ncu's ``--launch-skip`` and
    ``--launch-count``.
    """

    share: KernelShare
    is_proposed: bool
    reason: str
    seconds: float | None
    skip: int
    count: int
