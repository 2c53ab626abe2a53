"""Interval sets against counting every nanosecond by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gputui.model.intervals import EMPTY, Intervals, any_of, levels

_SPAN = 60


def _random(seed: int, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(seed)
    start = source.integers(0, _SPAN - 10, count)
    return start, start + source.integers(-1, 10, count)


def _each_ns(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    covered = np.zeros(_SPAN, dtype=bool)
    for low, high in zip(start, end, strict=True):
        covered[low : max(low, high)] = True
    return covered


def _of(found: Intervals) -> np.ndarray:
    return _each_ns(found.start, found.end)


@pytest.mark.parametrize("seed", range(40))
def test_every_operation_equals_counting_each_nanosecond(seed: int) -> None:
    first, second = _random(seed), _random(seed + 1000, 5)
    one, other = Intervals.union(*first), Intervals.union(*second)
    a, b = _each_ns(*first), _each_ns(*second)

    assert (_of(one) == a).all()
    assert one.total == a.sum()
    assert (one.start[1:] > one.end[:-1]).all(), "disjoint and not touching"
    edges = np.sort(np.random.default_rng(seed).integers(0, _SPAN, 9))
    assert one.within(edges).tolist() == [a[low:high].sum() for low, high in pairwise(edges)]
    assert one.length_in(7, 31) == a[7:31].sum()
    assert (_of(one.intersect(other)) == (a & b)).all()
    assert (_of(one.minus(other)) == (a & ~b)).all()
    inside = np.zeros(_SPAN, dtype=bool)
    inside[10:40] = True
    assert (_of(one.clip(10, 40)) == (a & inside)).all()
    assert (_of(one.gaps(10, 40)) == (~a & inside)).all()


def test_nothing_covers_nothing() -> None:
    none = np.array([], dtype=np.int64)
    assert Intervals.union(none, none) is EMPTY
    assert EMPTY.within(np.array([0, 5, 9])).tolist() == [0, 0]
    gaps = EMPTY.gaps(3, 8)
    assert (gaps.start.tolist(), gaps.end.tolist()) == ([3], [8])
    assert len(EMPTY.gaps(8, 3)) == 0
    assert EMPTY.intersect(gaps).total == 0
    assert gaps.minus(EMPTY).total == 5


def test_before_an_interval_nothing_is_covered_and_after_all_of_it() -> None:
    one = Intervals.union(np.array([10, 20]), np.array([15, 30]))
    assert one.up_to(np.array([0, 10, 12, 15, 19, 20, 25, 30, 99])).tolist() == [0, 0, 2, 5, 5, 5, 10, 15, 15]


def test_nested_events_go_below_what_encloses_them() -> None:
    start, end = np.array([0, 0, 2, 5, 12]), np.array([10, 10, 4, 8, 14])
    assert levels(start, end).tolist() == [0, 1, 2, 2, 0]


def test_events_one_after_the_other_share_one_row() -> None:
    start = np.arange(0, 100, 5)
    assert levels(start, start + 5).tolist() == [0] * 20


@pytest.mark.parametrize("seed", range(20))
def test_no_two_events_of_one_row_overlap(seed: int) -> None:
    start, end = _random(seed, 30)
    end = np.maximum(end, start + 1)
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    level = levels(start, end)
    for row in range(level.max() + 1):
        mine = np.flatnonzero(level == row)
        assert (start[mine][1:] >= end[mine][:-1]).all()
    assert level.max() + 1 == max(int(((start <= time) & (time < end)).sum()) for time in range(_SPAN))


@pytest.mark.parametrize("seed", range(10))
def test_any_of_sets_covers_what_one_of_them_covers(seed: int) -> None:
    sets = [Intervals.union(*_random(seed * 10 + number)) for number in range(3)]
    for count in range(4):
        covered = np.zeros(_SPAN, dtype=bool)
        for one in sets[:count]:
            covered |= _of(one)
        assert (_of(any_of(sets[:count])) == covered).all()
