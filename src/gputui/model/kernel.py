"""One kernel launch of a report: its identity at once, its metrics when asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from gputui.model.metrics import Metric, Value, resolve

if TYPE_CHECKING:
    from gputui.model.device import Device
    from gputui.model.report import MetricSource

Dim3 = tuple[int, int, int]


class Kernel:
    """A launch, identified by its place in the report (``index``), never by its name: names repeat.

    ``name`` is the function's short name, ``demangled`` the full one. ``grid`` and ``block`` are ``None`` where the
    report does not tell them. ``nvtx`` is the stack of NVTX push/pop ranges around the launch, outermost first.
    ``workload`` is ``"kernel"``, ``"range"`` or ``"graph"``: what one row of the report stands for.
    """

    __slots__ = (
        "_complete", "_metrics", "_source", "_values",
        "block", "demangled", "device", "grid", "index", "name", "nvtx", "workload",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        name: str,
        demangled: str,
        device: Device,
        source: MetricSource,
        *,
        grid: Dim3 | None = None,
        block: Dim3 | None = None,
        nvtx: tuple[str, ...] = (),
        workload: str = "kernel",
        metrics: Iterable[Metric] = (),
    ) -> None:
        self.index = index
        self.name = name
        self.demangled = demangled
        self.device = device
        self.grid = grid
        self.block = block
        self.nvtx = nvtx
        self.workload = workload
        self._source = source
        self._metrics: dict[str, Metric | None] = {metric.name: metric for metric in metrics}
        self._values: dict[str, Value | None] = {}
        self._complete = False

    def metric(self, name: str) -> Metric | None:
        """The metric of exactly this name, or ``None`` where the report lacks it."""
        if name not in self._metrics:
            if self._complete:
                return None
            self.store(self._source.fetch([self.index], [name])[0], [name])
        return self._metrics[name]

    def value(self, concept: str) -> Value | None:
        """The concept's value, or ``None`` where the report does not tell. ``KeyError`` for an unknown concept."""
        if concept not in self._values:
            self._values[concept] = resolve(concept, self.metric)
        return self._values[concept]

    def number(self, concept: str) -> float | None:
        value = self.value(concept)
        return None if value is None else value.value

    def metrics(self) -> Mapping[str, Metric]:
        """Every metric of this launch by name, in the report's own order."""
        if not self._complete:
            everything = self._source.fetch([self.index], None)[0]
            self._metrics = dict(everything)
            self._complete = True
        return {name: metric for name, metric in self._metrics.items() if metric is not None}

    def has_fetched(self, names: Iterable[str]) -> bool:
        return self._complete or all(name in self._metrics for name in names)

    def store(self, found: Mapping[str, Metric], asked: Iterable[str]) -> None:
        """Keep what a fetch found, also beyond ``asked``; names asked for and not found are known to be absent."""
        self._metrics.update(dict.fromkeys(asked))
        self._metrics.update(found)

    @property
    def duration_ns(self) -> float | None:
        """``None`` where the report does not tell, or says that no time has passed."""
        duration = self.number("duration")
        return duration if duration is not None and duration > 0 else None

    @property
    def blocks(self) -> int | None:
        return None if self.grid is None else self.grid[0] * self.grid[1] * self.grid[2]


_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
_READ_OF_A_NAME = 4000
"""Characters of a demangled name that are looked at: some are megabytes long."""


@lru_cache(maxsize=4096)
def function_name(demangled: str) -> str:
    """The function's own name, without return type, namespaces, template arguments and parameters.

    ``void at::native::(anonymous namespace)::cast<4, float>(int)`` is ``cast``. What is no C++ name stays as it is.
    """
    text = _ANONYMOUS.sub("", demangled[:_READ_OF_A_NAME])
    if not any(sign in text for sign in ("(", "<", "::")):
        return demangled
    depth, start = 0, 0
    for place, char in enumerate(text):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif depth == 0:
            if char == "(" and place > start:
                return text[start:place].partition("<")[0] or demangled
            if char == " " or text.startswith("::", place - 1):
                start = place + 1
    return text[start:].partition("<")[0] or demangled
