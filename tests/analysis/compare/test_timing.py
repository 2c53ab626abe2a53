"""How sure it is that something got faster: against hand arithmetic, and against many draws of known noise."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import fmean, stdev

import numpy as np
import pytest

from gputui.analysis.compare.timing import time_change

NOISE = (log(1.05), "assumed")


def test_bounds_of_passes_are_welchs() -> None:
    before, after = [100.0, 102.0, 98.0], [50.0, 51.0, 49.5, 49.5]
    found = time_change(before, after, NOISE)
    # Relative variances of the means, and Welch's degrees of freedom: 3.64, so 3 of the table (3.18).
    parts = [stdev(times) ** 2 / fmean(times) ** 2 / len(times) for times in (before, after)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    assert int(freedom) == 3
    half = 3.18 * sqrt(sum(parts))
    assert found.speedup == pytest.approx(2.0)
    assert (found.low, found.high) == (pytest.approx(2.0 * exp(-half)), pytest.approx(2.0 * exp(half)))
    assert (found.noise, found.outcome) == ("passes", "faster")


@pytest.mark.parametrize(
    ("after", "outcome"),
    [(94.0, "faster"), (98.5, "no-difference"), (101.5, "no-difference"), (97.0, "inconclusive"), (106.0, "slower")],
)
def test_single_launches_are_held_against_assumed_noise(after: float, outcome: str) -> None:
    assert time_change([100.0], [after], NOISE).outcome == outcome


@pytest.mark.parametrize(
    ("after", "clock", "outcome"),
    [
        (50.0, 1.3, "faster"),  # even at equal clocks
        (90.0, 1.15, "inconclusive"),  # the clock alone could be it
        (100.5, 0.95, "no-difference"),  # less than a tenth could hide
        (100.0, 0.8, "inconclusive"),
        (120.0, 0.85, "inconclusive"),
    ],
)
def test_clocks_leave_open_what_they_could_turn(after: float, clock: float, outcome: str) -> None:
    found = time_change([100.0], [after], NOISE, clocks=[clock])
    assert found.outcome == outcome
    assert found.at_equal_clocks == tuple(sorted((100 / after, 100 / after / clock)))
    assert found.because == (("clocks",) if outcome == "inconclusive" else ())


def test_without_times_nothing_is_told() -> None:
    found = time_change([], [5.0], NOISE)
    assert (found.outcome, found.speedup, found.because) == ("inconclusive", None, ("no-time",))


def test_noise_alone_is_hardly_ever_a_change_and_a_change_is_found() -> None:
    random = np.random.default_rng(6)

    def outcomes(gain: float, noise: float) -> list[str]:
        draws = random.normal(1.0, noise, (400, 2, 5))
        return [time_change(list(100 * old), list(100 / gain * now), NOISE).outcome for old, now in draws]

    for noise in (0.003, 0.01, 0.03):
        wrong = [one for one in outcomes(1.0, noise) if one in ("faster", "slower")]
        assert len(wrong) <= 0.05 * 400
    found = outcomes(1.1, 0.01)
    assert found.count("faster") > 0.99 * 400
    assert "slower" not in found
