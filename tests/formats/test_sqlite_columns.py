from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gputui.formats._sqlite_columns import Ahead, Codes, DamagedError, Database
from gputui.model.timeline import in_order


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER NOT NULL, b INTEGER, c TEXT)")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?)", [(n, n * n if n % 3 else None, f"{n}") for n in range(999)]
        )
    connection.close()
    return path


def test_columns_are_those_of_sqlite(path: Path) -> None:
    database = Database(path)
    whole, bits = database.whole, database.bits
    (batch,) = database.batches(
        "t", [whole("t", "a"), "7", whole("t", "b", -5), whole("t", "none"), bits("t", "a", 3, 4), whole("t", "c")]
    )
    count = np.arange(999)
    assert batch[0].tolist() == batch[5].tolist() == count.tolist()
    assert batch[1].tolist() == [7] * 999
    assert batch[2].tolist() == np.where(count % 3, count * count, -5).tolist()
    assert batch[3].tolist() == [-1] * 999
    assert batch[4].tolist() == ((count & 7) << 4).tolist()
    assert batch[0].dtype == np.int64
    assert [text for texts in database.texts("t", "c") for (text,) in texts] == [str(one) for one in count.tolist()]
    assert database.about("t") == 999


def test_what_is_not_of_integers_is_not_taken_for_them(path: Path) -> None:
    """A buffer of another type is shorter than its rows times eight bytes."""
    for expression in ('"c"', "0.5 * a", "x'00'"):
        with pytest.raises(DamagedError):
            list(Database(path).batches("t", [expression]))


def test_null_where_none_may_be_is_0(path: Path) -> None:
    (batch,) = Database(path).batches("t", ["NULLIF(a, 3)", "NULL"])
    assert batch[0].tolist() == [0 if one == 3 else one for one in range(999)]
    assert batch[1].tolist() == [0] * 999


def test_a_table_that_is_not_there(path: Path) -> None:
    with pytest.raises(DamagedError):
        list(Database(path).batches("none", ['"a"']))
    assert list(Database(path).rows("none", ["a"])) == []
    assert Database(path).about("none") == 0


def test_codes_against_a_dictionary() -> None:
    random = np.random.default_rng(11)
    codes = Codes(missing=-1)
    known = {-1: -1}
    for high in (3, 1, 50, 2**62, 5, 100_000):
        for _ in range(5):
            values = random.integers(-2, high, 1000)
            found = codes.of(values)
            assert found.dtype == np.int32
            for value, code in zip(values.tolist(), found.tolist(), strict=True):
                assert known.setdefault(value, code) == code
                assert code == -1 or codes.values[code] == value
    assert sorted(known.values()) == list(range(-1, len(codes)))
    assert Codes().of(np.zeros(0, dtype=np.int64)).tolist() == []


def test_order_against_a_plain_sort() -> None:
    random = np.random.default_rng(2)
    for high in (2, 10, 10_000):
        start = random.integers(0, high, 500)
        end = start + random.integers(0, 5, 500)
        for first in (start, np.sort(start)):
            order = in_order(first, end)
            expected = sorted(range(500), key=lambda row: (first[row], -end[row]))
            assert (list(range(500)) if order is None else order.tolist()) == expected
    assert in_order(np.array([1, 1, 2]), np.array([5, 4, 9])) is None


def test_ahead_gives_the_same_and_ends_its_thread() -> None:
    before = threading.active_count()
    ahead = Ahead(iter(range(100)))
    assert list(ahead) == list(range(100))
    ahead.close()

    def breaks() -> Iterator[int]:
        yield 1
        raise DamagedError("t")

    broken = Ahead(breaks())
    items = iter(broken)
    assert next(items) == 1
    with pytest.raises(DamagedError):
        next(items)
    broken.close()

    def endless() -> Iterator[int]:
        while True:
            yield 0

    left = Ahead(endless())
    assert next(iter(left)) == 0
    left.close()
    assert threading.active_count() == before
