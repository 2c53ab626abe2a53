"""Where kernels stand together in the roofline."""

from __future__ import annotations

from gputui.analysis.compare.amounts import point_of
from gputui.analysis.compare.model import Amounts


def test_several_kernels_have_one_point() -> None:
    # 3 GFLOP and 1 GFLOP over 1.5 MB and 0.5 MB, in 0.6 ms and 0.4 ms.
    point = point_of(Amounts(2, time_ns=1e6, flops=4e9, dram_bytes=2e6), 7, "softmax")
    assert point is not None
    assert (point.kernel, point.name, point.level) == (7, "softmax", "dram")
    assert (point.intensity, point.flop_per_s, point.duration_ns) == (2000.0, 4e12, 1e6)


def test_where_a_number_is_missing_there_is_no_point() -> None:
    for known in ({"flops": 4e9}, {"dram_bytes": 2e6}, {"flops": 0.0, "dram_bytes": 2e6}):
        assert point_of(Amounts(1, time_ns=1e6, **known), 0, "") is None
    assert point_of(Amounts(), 0, "") is None
