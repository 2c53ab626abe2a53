"""Whether both sides ran at the same clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Literal

from gputui.analysis.compare.amounts import amounts

if TYPE_CHECKING:
    from gputui.analysis.compare.matching import Match
    from gputui.analysis.compare.model import Amounts

_DIFFER = 0.02
"""Clocks further apart than this are said to differ."""
_TELLS = 0.2
"""Of the time that kernels which stand opposite a single one must take to speak for all."""

Both = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of the base and the new side in Hz; ``None`` where one of them is not told."""

    sm: Both | None
    dram: Both | None

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times faster those of the new side ran, of those that differ by more than 2 %."""
        ratios = [after / before for before, after in filter(None, (self.sm, self.dram))]
        return tuple(ratio for ratio in ratios if abs(log(ratio)) > log(1 + _DIFFER))


def clocks_of(matches: Sequence[Match], before: Amounts, after: Amounts) -> Clocks:
    """Weighted by time, of kernels that stand opposite a single one: others run at other clocks by themselves, as they
    draw more power. Where those are few, of all."""
    single = [(amounts(one.base), amounts(one.new)) for one in matches if len(one.base) == len(one.new) == 1]
    total = (before.time_ns or 0.0) + (after.time_ns or 0.0)
    share = sum((old.time_ns or 0.0) + (now.time_ns or 0.0) for old, now in single)
    if not total or share < _TELLS * total:
        single = [(before, after)]
    return Clocks(_mean(single, "sm_clock_hz"), _mean(single, "dram_clock_hz"))


def _mean(pairs: Sequence[tuple[Amounts, Amounts]], clock: Literal["sm_clock_hz", "dram_clock_hz"]) -> Both | None:
    sums, weights = [0.0, 0.0], 0.0
    for old, now in pairs:
        first, last = getattr(old, clock), getattr(now, clock)
        weight = (old.time_ns or 0.0) + (now.time_ns or 0.0)
        if first and last and weight:
            sums, weights = [sums[0] + first * weight, sums[1] + last * weight], weights + weight
    return (sums[0] / weights, sums[1] / weights) if weights else None
