"""ncu's unit words, scaled or not, brought to the base units of NVIDIA's own reader.

That reader says ``ns``, ``hz``, ``byte``, ``byte/s``, ``%``; ncu's text output says ``us``, ``usecond``, ``Ghz``,
``cycle/nsecond``, ``Kbyte/block``, ``Gbyte/second`` and the like, by version and by size of the value.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TIMES = {
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
}  # fmt: skip
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""ncu's prefixes are decimal, for bytes too."""


def _word(word: str) -> tuple[float, str]:
    if word in _TIMES:
        return _TIMES[word], "ns"
    if word[:1] in _PREFIXES and word[1:].islower():
        return _PREFIXES[word[0]], word[1:]
    return 1.0, word


@lru_cache(maxsize=1024)
def base_unit(unit: str) -> tuple[float, str]:
    """``(factor, base unit)``: a value in ``unit`` times the factor is the value in the base unit."""
    top, slash, bottom = unit.partition("/")
    factor, top = _word(top)
    if not slash:
        return factor, top
    divisor, bottom = _word(bottom)
    if bottom == "ns":
        return factor / divisor * 1e9, "hz" if top == "cycle" else f"{top}/s"
    # ncu scales 2614 %/byte to "2.614 %/Kbyte": the wrong way, undone here.
    return factor * divisor, f"{top}/{bottom}"


_BY_NAME = (
    # Reports of 2018 and 2019 have no units; the values are in base units all the same.
    (re.compile(r"(_|\.)pct(_|$)|_pct\."), "", "%"),
    (re.compile(r"^gpu__time_duration"), "", "ns"),
    (re.compile(r"__frequency$"), "", "hz"),
    (re.compile(r"bytes(_\w+)?_per_sec$"), "", "byte/s"),
    # Some versions say "byte" of what is none.
    (re.compile(r"^derived__memory_l[12]_\w*sectors"), "byte", "sector"),
    (re.compile(r"^nvl[rt]x__bytes\..*per_second$"), "byte", "byte/s"),
)


@lru_cache(maxsize=16384)
def unit_of(name: str, unit: str) -> str:
    """The unit of a metric whose reported unit is missing or known to be wrong; else ``unit`` itself."""
    if unit in ("", "byte"):
        for pattern, reported, right in _BY_NAME:
            if unit == reported and pattern.search(name):
                return right
    return unit
