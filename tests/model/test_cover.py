"""What classes of events cover, against counting every nanosecond by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gputui.model.cover import Cover
from gputui.model.intervals import Intervals

_SPAN = 300
_CLASSES = 3


def _each_ns(start: np.ndarray, end: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Per nanosecond the class it belongs to, that of the event that began first; -1 for none."""
    owner = np.full(_SPAN, -1)
    for low, high, one in zip(start, end, of, strict=True):
        free = owner[low:high] < 0
        owner[low:high][free] = one
    return owner


@pytest.mark.parametrize("overlap", [0, 30])
@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 31, 32, 33, 50])
def test_every_class_equals_counting_each_nanosecond(count: int, overlap: int) -> None:
    source = np.random.default_rng(count * 100 + overlap)
    for _ in range(20):
        borders = np.sort(source.integers(0, _SPAN, 2 * count))
        start = borders[::2]
        end = np.minimum(borders[1::2] + (source.integers(0, overlap, count) if overlap else 0), _SPAN)
        of = source.integers(0, _CLASSES, count).astype(np.uint8)
        owner = _each_ns(start, end, of)
        edges = np.sort(source.integers(0, _SPAN + 1, 12))
        cover = Cover(start, end, of, _CLASSES)

        assert cover.within(edges).tolist() == [
            [int((owner[low:high] == one).sum()) for low, high in pairwise(edges)] for one in range(_CLASSES)
        ]
        every = np.arange(_SPAN + 1)
        assert (cover.within(every).sum(axis=0) == (owner >= 0)).all()
        union = Intervals.union(start, end)
        assert (cover.within(edges).sum(axis=0) == union.within(edges)).all()


def test_long_times_are_exact() -> None:
    start = np.arange(100, dtype=np.int64) * 10**14
    end = start + 10**14 - 1
    cover = Cover(start, end, np.zeros(100, dtype=np.uint8), 1)
    assert cover.within(np.array([0, 10**16])).tolist() == [[10**16 - 100]]


def test_many_blocks_are_summed_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(5)
    start = np.cumsum(source.integers(5, 9, 1000))
    end = start + source.integers(0, 5, 1000)
    of = source.integers(0, 4, 1000).astype(np.uint8)
    edges = np.sort(source.integers(0, int(end[-1]), 40))
    whole = Cover(start, end, of, 4).within(edges)
    monkeypatch.setattr("gputui.model.cover._PORTION", 7)
    assert (Cover(start, end, of, 4).within(edges) == whole).all()
