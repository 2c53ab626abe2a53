from __future__ import annotations

import pytest

from gputui.formats._units import base_unit, unit_of


@pytest.mark.parametrize(
    ("unit", "factor", "base"),
    [
        ("ns", 1, "ns"),
        ("nsecond", 1, "ns"),
        ("us", 1e3, "ns"),
        ("usecond", 1e3, "ns"),
        ("msecond", 1e6, "ns"),
        ("second", 1e9, "ns"),
        ("hz", 1, "hz"),
        ("Ghz", 1e9, "hz"),
        ("Mhz", 1e6, "hz"),
        ("cycle/second", 1, "hz"),
        ("cycle/usecond", 1e6, "hz"),
        ("cycle/nsecond", 1e9, "hz"),
        ("byte", 1, "byte"),
        ("Kbyte", 1e3, "byte"),
        ("Tbyte", 1e12, "byte"),
        ("Kbyte/block", 1e3, "byte/block"),
        ("byte/second", 1, "byte/s"),
        ("Gbyte/s", 1e9, "byte/s"),
        ("Mbyte/second", 1e6, "byte/s"),
        ("Kbyte/cycle", 1e3, "byte/cycle"),
        ("sector/msecond", 1e3, "sector/s"),
        ("%/Kbyte", 1e3, "%/byte"),  # ncu scales it the wrong way
        ("%", 1, "%"),
        ("inst/cycle", 1, "inst/cycle"),
        ("register/thread", 1, "register/thread"),
        ("SM", 1, "SM"),
        ("", 1, ""),
    ],
)
def test_units_scale_to_base(unit: str, factor: float, base: str) -> None:
    assert base_unit(unit) == (pytest.approx(factor, rel=1e-12), base)


@pytest.mark.parametrize(
    ("name", "unit", "right"),
    [
        ("gpu__time_duration", "", "ns"),
        ("sm__sol_pct", "", "%"),
        ("gpc__frequency", "", "hz"),
        ("dram__bytes_per_sec", "", "byte/s"),
        ("tex__m_rd_bytes_global_atom_per_sec", "", "byte/s"),
        ("launch__grid_size", "", ""),
        ("derived__memory_l2_theoretical_sectors_global_excessive", "byte", "sector"),
        ("nvlrx__bytes.sum.per_second", "byte", "byte/s"),
        ("dram__bytes_read.sum", "byte", "byte"),
    ],
)
def test_the_name_decides_where_the_unit_is_missing_or_wrong(name: str, unit: str, right: str) -> None:
    assert unit_of(name, unit) == right
