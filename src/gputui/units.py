"""Numbers to text, in one place: three significant digits, decimal prefixes, a space before the unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

DASH = "–"
"""What stands for a number that the report does not tell."""

_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def significant(value: float, digits: int = 3) -> str:
    """``value`` with this many significant digits, never in exponent form: 1234.5 → ``1230``, 0.0123 → ``0.0123``."""
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text:
        number = float(text)
        text = f"{number:.0f}" if abs(number) >= 1 else f"{number:.12f}".rstrip("0").rstrip(".")
    return text


def _scaled(value: float, unit: str) -> str:
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * 0.9995:
            return f"{significant(value / factor)} {prefix}{unit}"
    return f"{significant(value)} {unit}".rstrip()


def percent(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{significant(value, 2)} %"


def share(value: float | None) -> str:
    """A part of a whole in percent; what is under one is ``<1 %``."""
    return "<1 %" if value is not None and 0 < value < 1 else percent(value)


def duration(ns: float | None) -> str:
    if ns is None:
        return DASH
    for factor, unit in _TIME_UNITS:
        if abs(ns) >= factor * 0.9995:
            return f"{significant(ns / factor)} {unit}"
    return f"{significant(ns)} ns"


def moment(ns: int, step_ns: int, reach_ns: int) -> str:
    """A time on a ruler, exact to its steps: 12345678 in steps of 1000 is ``12.345 ms``.

    The unit is that of ``reach_ns``, the largest time on the ruler, so that all of them have the same; times are cut
    to the step, not rounded.
    """
    factor, unit = next(
        ((factor, unit) for factor, unit in _TIME_UNITS if max(abs(reach_ns), step_ns) >= factor), (1, "ns")
    )
    decimals, resolution = 0, factor
    while resolution > 1 and step_ns % resolution:
        decimals, resolution = decimals + 1, resolution // 10
    count = ns // resolution
    whole, part = divmod(abs(count), 10**decimals)
    sign = "-" if count < 0 else ""
    return f"{sign}{whole}.{part:0{decimals}d} {unit}" if decimals else f"{sign}{whole} {unit}"


def size(count: float | None) -> str:
    return DASH if count is None else _scaled(count, "B")


def rate(bytes_per_s: float | None) -> str:
    return DASH if bytes_per_s is None else _scaled(bytes_per_s, "B/s")


def flops(flop_per_s: float | None) -> str:
    return DASH if flop_per_s is None else _scaled(flop_per_s, "FLOP/s")


def operations(count: float | None) -> str:
    """``550 G``: how many of something there are, where there are very many."""
    return DASH if count is None else _scaled(count, "")


def hertz(value: float | None) -> str:
    return DASH if value is None else _scaled(value, "Hz")


def count(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def number(value: float | None) -> str:
    return DASH if value is None else significant(value)


def times(ratio: float | None) -> str:
    """A speed-up: ``3.5×``, ``1.07×``, ``24×``."""
    if ratio is None:
        return DASH
    return f"{ratio:.0f}×" if ratio >= 9.95 else f"{ratio:.1f}×" if ratio >= 1.995 else f"{ratio:.2f}×"


BY_NAME: Mapping[str, Callable[[float | None], str]] = {
    "pct": percent,
    "time": duration,
    "size": size,
    "rate": rate,
    "flops": flops,
    "hz": hertz,
    "count": count,
    "num": number,
    "x": times,
    "ops": operations,
}
"""The formats a text may name: ``{dram_pct:pct}``."""

_BY_UNIT: Mapping[str, Callable[[float | None], str]] = {
    "%": percent,
    "ns": duration,
    "byte": size,
    "byte/s": rate,
    "hz": hertz,
    "Hz": hertz,
    "FLOP/s": flops,
}


def quantity(value: float | None, unit: str) -> str:
    """A metric's value with its unit, as the report's units name it."""
    if value is None:
        return DASH
    formatter = _BY_UNIT.get(unit)
    if formatter is not None:
        return formatter(value)
    is_count = float(value).is_integer() or abs(value) >= 1e4
    text = f"{value:,.0f}" if is_count and abs(value) < 1e15 else significant(value, 4)
    return f"{text} {unit}".rstrip()
