"""Numbers to text, to the letter."""

from __future__ import annotations

import re

import pytest

from gputui import units

BEYOND = [-1e30, -1e15, -1234.5, -1.0, -1e-6, 1e-6, 0.001, 1.0, 59.95, 999.5, 999_950, 1e12, 1e18, 1e30]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (0.5, "0.5 B"),
        (7, "7 B"),
        (999.4, "999 B"),
        (999.5, "1 kB"),
        (999.6, "1 kB"),
        (1000, "1 kB"),
        (1023, "1.02 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (999_950, "1 MB"),
        (62.9e6, "62.9 MB"),
        (999.6e6, "1 GB"),
        (999.6e9, "1 TB"),
        (999.6e12, "1 PB"),
        (1e18, "1000 PB"),
        (-1500, "-1.5 kB"),
        (-999_950, "-1 MB"),
        (None, "–"),
    ],
)
def test_size(value: float | None, text: str) -> None:
    assert units.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"),
        (0.04, "0.04 %"),
        (0.333, "0.33 %"),
        (0.996, "1 %"),
        (1.04, "1 %"),
        (5.55, "5.5 %"),
        (9.949, "9.9 %"),
        (9.95, "10 %"),
        (59.4, "59 %"),
        (59.95, "60 %"),
        (99.4, "99 %"),
        (99.96, "100 %"),
        (130, "130 %"),
        (-3, "-3 %"),
        (None, "–"),
    ],
)
def test_percent(value: float | None, text: str) -> None:
    assert units.percent(value) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (0.5, "0.5 ns"),
        (999.4, "999 ns"),
        (999.6, "1 µs"),
        (1950, "1.95 µs"),
        (123_456, "123 µs"),
        (999_499, "999 µs"),
        (999_500, "1 ms"),
        (1_056_000, "1.06 ms"),
        (999.6e6, "1 s"),
        (59.95e9, "60 s"),
        (3.6e12, "3600 s"),
        (-20, "-20 ns"),
        (None, "–"),
    ],
)
def test_duration(ns: float | None, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1, "1.00×"),
        (1.074, "1.07×"),
        (1.994, "1.99×"),
        (1.995, "2.0×"),
        (3.46, "3.5×"),
        (9.949, "9.9×"),
        (9.95, "10×"),
        (23.7, "24×"),
        (None, "–"),
    ],
)
def test_times(ratio: float | None, text: str) -> None:
    assert units.times(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (31.999, "32"),
        (0.1, "0.1"),
        (0.01234, "0.0123"),
        (0.000_123_45, "0.000123"),
        (12_345.6, "12300"),
        (999_999, "1000000"),
        (-0.5, "-0.5"),
        (None, "–"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert units.number(value) == text


def test_counts_are_whole_with_thousands_apart() -> None:
    assert units.count(0) == "0"
    assert units.count(999) == "999"
    assert units.count(1_234_567) == "1,234,567"
    assert units.count(None) == "–"


def test_rates_carry_their_unit() -> None:
    assert units.rate(3.35e12) == "3.35 TB/s"
    assert units.flops(0) == "0 FLOP/s"
    assert units.flops(66.9e12) == "66.9 TFLOP/s"
    assert units.hertz(1.695e9) == "1.7 GHz"
    assert units.hertz(999.6e6) == "1 GHz"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.0, "%", "12 %"),
        (1000.0, "ns", "1 µs"),
        (5.25e3, "byte", "5.25 kB"),
        (2e12, "byte/s", "2 TB/s"),
        (1.98e9, "hz", "1.98 GHz"),
        (5.0, "warp", "5 warp"),
        (4096, "", "4,096"),
        (0.25, "", "0.25"),
        (123.456, "cycle", "123.5 cycle"),
        (-2, "", "-2"),
        (None, "%", "–"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize("name", units.BY_NAME)
def test_every_format_knows_what_is_not_told(name: str) -> None:
    assert units.BY_NAME[name](None) == units.DASH


@pytest.mark.parametrize("name", units.BY_NAME)
@pytest.mark.parametrize("value", BEYOND)
def test_no_format_uses_exponents(name: str, value: float) -> None:
    assert re.fullmatch(r"-?[\d,]+(\.\d+)?(×| ?[^\de]*)", units.BY_NAME[name](value))


@pytest.mark.parametrize("name", ["pct", "num", "size", "time"])
def test_next_to_nothing_is_a_number(name: str) -> None:
    assert re.match(r"0(\.\d+)?( |$)", units.BY_NAME[name](1e-14))


@pytest.mark.parametrize("name", ["pct", "time", "size", "rate", "num"])
def test_more_is_never_shown_as_less(name: str) -> None:
    def back(text: str) -> float:
        number, _, unit = text.partition(" ")
        prefix = {"µ": 1e3, "m": 1e6, "s": 1e9, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
        return float(number) * (1 if unit in ("", "%", "ns") else prefix.get(unit[0], 1))

    values = [1.0037**step for step in range(1, 6000)]
    shown = [back(units.BY_NAME[name](value)) for value in values]
    assert shown == sorted(shown)


@pytest.mark.parametrize(
    ("ns", "step", "reach", "text"),
    [
        (0, 10_000_000, 54_000_000, "0 ms"),
        (12_345_678, 1000, 12_345_678, "12.345 ms"),
        (1_680_000_000, 20_000_000, 1_790_000_000, "1.68 s"),
        (250_000, 250_000, 3_000_000, "0.25 ms"),
        (2_000, 500, 2_500, "2.0 µs"),
        (40, 20, 180, "40 ns"),
        (-1_500, 500, 3_000, "-1.5 µs"),
        (90_000_000_000, 10_000_000_000, 99_000_000_000, "90 s"),
    ],
)
def test_moments_are_as_exact_as_their_steps(ns: int, step: int, reach: int, text: str) -> None:
    assert units.moment(ns, step, reach) == text
