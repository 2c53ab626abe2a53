"""Whether something got faster, and how sure that is.

The bounds are those of a ratio of means at 95 %: from the passes' own spread (Welch's interval on the logarithms) where
there are several passes, else from a noise that is looked up in the launches. A change under 2 % is none: nsys and ncu
themselves disturb a program by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log, sqrt
from statistics import fmean, variance
from typing import TYPE_CHECKING

from gputui.analysis.compare.amounts import flops_of
from gputui.analysis.compare.model import TimeChange

if TYPE_CHECKING:
    from typing import Literal

    from gputui.analysis.compare.matching import Match
    from gputui.analysis.compare.model import Member, Outcome, Side

    Noise = tuple[float, Literal["launches", "controls", "assumed"]]

LEAST_CHANGE = 0.02
"""A change in time that is smaller is none."""
_CLOSE = 0.05
"""Where the bounds stay within so much there is no difference that matters."""
_VAGUE = 0.10
"""Beyond such bounds even what was measured as no change is none for sure."""
_HIDDEN_BY_CLOCKS = 0.10
"""No difference in time stays that where equal clocks would make less than this of it."""
_LEAST_CONTROLS = 3
_CHANGELESS = frozenset({"cublas", "cudnn", "aten"})
"""Libraries whose kernels have another name when they do something else."""

_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
         2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04)  # fmt: skip
"""Student's t, two-sided at 95 %, for 1 to 30 degrees of freedom."""


def time_change(
    before: Sequence[float],
    after: Sequence[float],
    noise: Noise,
    *,
    clocks: Sequence[float] = (),
    because: Iterable[str] = (),
) -> TimeChange:
    """From the times of each pass, in ns.

    ``clocks`` are how many times faster the clocks of the new side ran (SM, DRAM), where they differ. ``because`` are
    cautions that leave the outcome open.
    """
    samples = len(before), len(after)
    because = tuple(because)
    if not (before and after and fmean(before) > 0 and fmean(after) > 0):
        known = [fmean(times) if times else None for times in (before, after)]
        return TimeChange(known[0], known[1], None, None, None, samples, "assumed", 0.0, "inconclusive",
                          because=(*because, "no-time"))  # fmt: skip
    ratio = fmean(before) / fmean(after)
    source: Literal["passes", "launches", "controls", "assumed"]
    if min(samples) >= 2:
        half, source = _spread(before, after), "passes"
    else:
        half, source = noise
    # A recording against itself is no difference, however much its passes spread.
    outcome = "no-difference" if tuple(before) == tuple(after) else _outcome(ratio, half)
    equal = tuple(sorted(ratio / clock for clock in clocks))
    if equal and not because and _is_hidden(outcome, (equal[0], equal[-1])):
        because = ("clocks",)
    return TimeChange(
        before_ns=fmean(before),
        after_ns=fmean(after),
        speedup=ratio,
        low=ratio * exp(-half),
        high=ratio * exp(half),
        samples=samples,
        noise=source,
        noise_pct=100 * (exp(half) - 1),
        outcome="inconclusive" if because else outcome,
        at_equal_clocks=(min(ratio, equal[0]), max(ratio, equal[-1])) if equal else None,
        because=because or (("noise",) if outcome == "inconclusive" else ()),
    )


def _spread(before: Sequence[float], after: Sequence[float]) -> float:
    """Half of the interval of the logarithm of the ratio of two means."""
    parts = [variance(times) / fmean(times) ** 2 / len(times) for times in (before, after)]
    whole = sum(parts)
    if not whole:
        return 0.0
    freedom = whole**2 / sum(part**2 / (len(times) - 1) for part, times in zip(parts, (before, after), strict=True))
    place = min(len(_T_95), max(1, int(freedom))) - 1
    return sqrt(whole) * _T_95[place]


def _outcome(ratio: float, half: float) -> Outcome:
    apart = abs(log(ratio))
    if apart >= log(1 + LEAST_CHANGE) and apart > half:
        return "faster" if ratio > 1 else "slower"
    if apart + half <= log(1 + _CLOSE) or (apart < log(1 + LEAST_CHANGE) and half <= log(1 + _VAGUE) + 1e-9):
        return "no-difference"
    return "inconclusive"


def _is_hidden(outcome: Outcome, equal: tuple[float, float]) -> bool:
    """Whether the answer could be another one at equal clocks."""
    least, most = equal
    if outcome == "faster":
        return least < 1 + LEAST_CHANGE
    if outcome == "slower":
        return most > 1 / (1 + LEAST_CHANGE)
    return outcome == "no-difference" and max(most, 1 / least) > 1 + _HIDDEN_BY_CLOCKS


# ------------------------------------------------------------------ noise


def noise_of(base: Side, new: Side, matches: Iterable[Match]) -> Noise:
    """How far two measurements of the same thing lie apart, as half of the interval of a ratio's logarithm.

    From library kernels that did not change between the sides; from launches of the same function, shape and work
    within one; else assumed.
    """
    controls = [one for one in map(_control, matches) if one is not None]
    if len(controls) >= _LEAST_CONTROLS:
        return max(LEAST_CHANGE / 2, 2 * sqrt(fmean(one**2 for one in controls))), "controls"
    spread = _launch_spread((base, new))
    if spread is not None:
        return max(LEAST_CHANGE / 2, 2 * sqrt(2) * spread), "launches"
    return assumed_noise([member.time_ns for member in (*base.members, *new.members)]), "assumed"


def assumed_noise(times_ns: Iterable[float | None]) -> float:
    """For single launches: 10 %, and twice that for kernels so short that their start is a good part of them.

    Launches of one kernel lie 1 % apart on an H200 left alone; in reports from elsewhere two passes of one launch do
    20 %.
    """
    shortest = min((time for time in times_ns if time is not None), default=0.0)
    return log(1.10) if shortest >= 5_000 else log(1.20)


def _control(match: Match) -> float | None:
    """How far a kernel that did not change lies apart, as a logarithm."""
    if len(match.base) != 1 or len(match.new) != 1:
        return None
    one, other = match.base[0], match.new[0]
    same = one.kernel.demangled == other.kernel.demangled and _work(one) == _work(other)
    if not same or one.identity.library not in _CHANGELESS or not (one.time_ns and other.time_ns):
        return None
    return log(one.time_ns / other.time_ns)


def _work(member: Member) -> tuple[object, ...]:
    flops = flops_of(member)
    return member.kernel.grid, member.kernel.block, None if flops is None else f"{flops:.2g}"


def _launch_spread(sides: Sequence[Side]) -> float | None:
    """The relative standard deviation of a launch, from all that were done more than once on one side."""
    alike: dict[tuple[object, ...], list[float]] = {}
    for number, side in enumerate(sides):
        for member in side.members:
            key = (number, member.kernel.demangled, *_work(member))
            alike.setdefault(key, []).extend(member.durations_ns)
    squares = [
        (variance(times) / fmean(times) ** 2, len(times) - 1)
        for times in alike.values()
        if len(times) >= 2 and fmean(times) > 0
    ]
    freedom = sum(count for _, count in squares)
    return sqrt(sum(square * count for square, count in squares) / freedom) if freedom else None
