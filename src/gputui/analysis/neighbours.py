"""The launches before and after a kernel in its report, in the order in which its stream ran them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from gputui.analysis.kernel_names import identify

if TYPE_CHECKING:
    from gputui.analysis.kernel_names import KernelIdentity
    from gputui.model.kernel import Kernel
    from gputui.model.report import Session

Linked = Callable[["Kernel", "Kernel"], bool]

Known = TypeVar("Known")

CONCEPTS = ("stream_id", "context_id", "device_id", "duration")
"""What is read of every launch of a report before the first question about neighbours is answered."""

_DROPS_KERNELS = re.compile(r"(^|\s)(-k|--kernel-(name|id|regex)|--(nvtx|range)-(include|exclude|filter))(?=[\s=:]|$)")
"""Options of ncu that leave out launches between two of the report's; ``-c`` and ``-s`` only cut the ends off."""


_PYTHON = re.compile(r"\bpython|\.py\b|\btorchrun\b", re.IGNORECASE)

_AHEAD = 32
"""Launches that a walk reads at a time once it has gone so far."""


class Launches:
    """A report's launches by stream. ``read`` reads ``CONCEPTS`` of all of them at once, before streams are asked for;
    ``read_ahead`` all that rules want of some, before a long walk comes to them.

    Launches of one GPU, context and stream follow each other; where the report does not tell those, all of it does.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        session: Session,
        read: Callable[[], object] = lambda: None,
        read_ahead: Callable[[Sequence[Kernel]], object] = lambda kernels: None,
    ) -> None:
        self.kernels = kernels
        self.filtered = bool(session.command_line and _DROPS_KERNELS.search(session.command_line))
        self.order_known = session.command_line is not None and not self.filtered
        self._command = session.command_line or ""
        self._read = read
        self.read_ahead = read_ahead
        self._kinds: dict[tuple[Callable[[Kernel], bool], str | None], tuple[tuple[Kernel, ...], float]] = {}
        self._once: dict[tuple[Kernel, ...], Any] = {}
        self.runs: dict[tuple[Linked, int], tuple[Kernel, ...]] = {}

    def once(self, kernels: tuple[Kernel, ...], make: Callable[[], Known]) -> Known:
        """What ``make`` knows of some launches, made the first time that it is asked for."""
        if kernels not in self._once:
            self._once[kernels] = make()
        found: Known = self._once[kernels]
        return found

    def of(self, kernel: Kernel) -> Neighbours:
        return Neighbours(self, kernel)

    @cached_property
    def python(self) -> bool:
        """Whether the program is Python's by its command, NVTX ranges or one of its kernels."""
        return bool(_PYTHON.search(self._command)) or any(
            kernel.nvtx or identity_of(kernel).library in ("aten", "inductor", "triton") for kernel in self.kernels
        )

    @cached_property
    def places(self) -> dict[int, tuple[list[Kernel], int]]:
        """By a kernel's index: the launches of its stream, and its place among them."""
        self._read()
        lanes: dict[tuple[Hashable, ...], list[Kernel]] = {}
        places = {}
        for kernel in self.kernels:
            lane = lanes.setdefault((kernel.device, *map(kernel.number, CONCEPTS[:3])), [])
            places[kernel.index] = (lane, len(lane))
            lane.append(kernel)
        return places

    @cached_property
    def _within(self) -> dict[str | None, list[Kernel]]:
        """The launches by their outermost NVTX range."""
        self._read()
        found: dict[str | None, list[Kernel]] = {}
        for kernel in self.kernels:
            found.setdefault(outermost_range(kernel), []).append(kernel)
        return found

    def share_of(self, kind: Callable[[Kernel], bool], within: str | None = None) -> tuple[tuple[Kernel, ...], float]:
        """The launches of a kind on any stream, and the time of all launches; of an outermost NVTX range where told."""
        if (kind, within) not in self._kinds:
            ranges = self._within
            kernels = self.kernels if within is None else ranges.get(within, ())
            time = sum(kernel.duration_ns or 0.0 for kernel in kernels)
            self._kinds[kind, within] = tuple(kernel for kernel in kernels if kind(kernel)), time
        return self._kinds[kind, within]


@dataclass(frozen=True)
class Neighbours:
    """The launches around ``kernel``. Their metrics are read when asked for."""

    launches: Launches
    kernel: Kernel

    @property
    def filtered(self) -> bool:
        """Whether the report was told to leave launches out: what is next to each other here need not be in truth."""
        return self.launches.filtered

    @property
    def order_known(self) -> bool:
        return self.launches.order_known

    def at(self, offset: int) -> Kernel | None:
        """The launch so many places after this one in its stream (before it, where negative)."""
        lane, place = self._place
        return lane[place + offset] if 0 <= place + offset < len(lane) else None

    def seen_from(self, kernel: Kernel) -> Neighbours:
        return Neighbours(self.launches, kernel)

    @property
    def _place(self) -> tuple[list[Kernel], int]:
        found = self.launches.places.get(self.kernel.index)
        return ([self.kernel], 0) if found is None else found

    def run(self, linked: Linked) -> tuple[Kernel, ...]:
        """The longest sequence around this kernel in which each launch is ``linked`` to the next."""

        known = self.launches.runs.get((linked, self.kernel.index))
        if known is not None:
            return known
        lane, place = self._place
        first = last = place
        while first > 0 and linked(lane[first - 1], lane[first]):
            first -= 1
            if (place - first) % _AHEAD == 0:
                self.launches.read_ahead(lane[max(0, first - 1 - _AHEAD) : first])
        while last + 1 < len(lane) and linked(lane[last], lane[last + 1]):
            last += 1
            if (last - place) % _AHEAD == 0:
                self.launches.read_ahead(lane[last + 1 : last + 2 + _AHEAD])
        found = tuple(lane[first : last + 1])
        self.launches.runs.update(((linked, kernel.index), found) for kernel in found)
        return found


def same_pass(one: Kernel, other: Kernel) -> bool:
    """Whether two launches may belong to one piece of work: not where outermost NVTX ranges of the program differ."""
    outer = outermost_range(one), outermost_range(other)
    return None in outer or outer[0] == outer[1]


def outermost_range(kernel: Kernel) -> str | None:
    """The outermost NVTX range of the program; PyTorch's own, one an operation (``aten::mul``), do not count."""
    return next((name for name in kernel.nvtx if not name.startswith("aten::")), None)


def identity_of(kernel: Kernel) -> KernelIdentity:
    """What a launch is, by its name alone."""
    return identify(kernel.name, kernel.demangled)
