"""Somebody else's SQLite file as numpy columns.

Nothing is written to the file or left beside it, and nothing of its own runs: only plain tables are read, no views, no
virtual tables, no triggers. Bulk columns come as Arrow batches (a third of the time that rows of Python objects take).
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from gputui.formats._arrow import int64_batches
from gputui.formats.base import LONGEST_NAME
from gputui.model.intervals import Ns
from gputui.model.timeline import Ids

T = TypeVar("T")

_BATCH_ROWS = 65536
_AHEAD = 16
"""Batches: a million rows, some 80 MB of kernels."""
_LOOK_S = 0.05
_READ_DAMAGED = "PRAGMA writable_schema = ON"
"""Makes SQLite read what is there of a file that is shorter than it should be. The connections can write nothing."""


class DamagedError(Exception):
    """The rest of a table cannot be read."""


class Database:
    """An SQLite file opened to read. Raises ``sqlite3.Error`` where it is none, or its table of contents is lost."""

    def __init__(self, path: Path) -> None:
        # Not just mode=ro: that leaves -shm and -wal files beside a database in write-ahead mode.
        self._uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        self._most_rows = path.stat().st_size
        self._connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        self._connection.text_factory = _text
        self.columns: Mapping[str, Mapping[str, bool]] = {}
        """Per table its columns, and of each whether it may be NULL."""
        try:
            self._connection.execute(_READ_DAMAGED)
            self.columns = {
                name: {
                    column: not not_null
                    for _, column, _, not_null, *_ in self._connection.execute(f"PRAGMA table_info({_quoted(name)})")
                }
                for (name,) in self._connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
                ).fetchall()
            }
        except sqlite3.Error:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def has(self, table: str, *columns: str) -> bool:
        return table in self.columns and self.columns[table].keys() >= set(columns)

    def whole(self, table: str, column: str, otherwise: int = -1) -> str:
        """SQL for an integer column: ``otherwise`` for NULL or no such column, 0 for text that is no number."""
        return self._told(table, column, f"CAST({_quoted(column)} AS INTEGER)", otherwise)

    def bits(self, table: str, column: str, count: int, shift: int = 0, otherwise: int = 0) -> str:
        """SQL for the last bits of an integer column, to be packed with others; ``otherwise`` as in ``whole``."""
        # These operators take text and fractions for integers.
        value = f"{self._told(table, column, _quoted(column), otherwise)} & {(1 << count) - 1}"
        return f"({value}) << {shift}" if shift else value

    def _told(self, table: str, column: str, value: str, otherwise: int) -> str:
        if not self.has(table, column):
            return f"{otherwise}"
        return f"COALESCE({value}, {otherwise})" if self.columns[table][column] else value

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """A small table's rows, ``None`` for a column that it lacks. Raises ``DamagedError``."""
        if table not in self.columns:
            return
        wanted = ", ".join(_quoted(one) if self.has(table, one) else "NULL" for one in columns)
        try:
            yield from self._connection.execute(f"SELECT {wanted} FROM {_quoted(table)} NOT INDEXED")
        except sqlite3.Error as error:
            raise DamagedError(table) from error

    def texts(self, table: str, column: str) -> Iterator[list[tuple[Any]]]:
        """A big table's texts, many rows at a time, in the order of ``batches``. Raises ``DamagedError``."""
        try:
            cursor = self._connection.execute(f"SELECT {_quoted(column)} FROM {_quoted(table)} NOT INDEXED")
            while texts := cursor.fetchmany(_BATCH_ROWS):
                yield texts
        except sqlite3.Error as error:
            raise DamagedError(table) from error

    def about(self, table: str) -> int:
        """How many rows a table has, about: its largest row number, which is at hand at once."""
        if table in self.columns:
            with contextlib.suppress(sqlite3.Error):
                (largest,) = self._connection.execute(f"SELECT max(_rowid_) FROM {_quoted(table)}").fetchone()
                return min(max(int(largest or 0), 0), self._most_rows)
        return 0

    def batches(self, table: str, expressions: Sequence[str]) -> Iterator[list[Ns]]:
        """The columns of a table as int64, some ten thousand rows at a time, in the order of the file.

        ``expressions`` are integers in SQL. Raises ``DamagedError``, after the batches that could be read. May run in
        another thread than the rest.
        """
        import adbc_driver_manager
        import adbc_driver_sqlite

        # A constant costs as much as a column.
        constants = {place: int(one) for place, one in enumerate(expressions) if one.lstrip("-").isdigit()}
        read = [one for place, one in enumerate(expressions) if place not in constants]
        count = 0
        try:
            with (
                adbc_driver_sqlite.connect(self._uri) as database,
                adbc_driver_manager.AdbcConnection(database) as connection,
                adbc_driver_manager.AdbcStatement(connection) as statement,
            ):
                statement.set_sql_query(_READ_DAMAGED)
                statement.execute_update()
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
                # An index that somebody added would change the order.
                statement.set_sql_query(f"SELECT {', '.join(read)} FROM {_quoted(table)} NOT INDEXED")
                handle, _ = statement.execute_query()
                for columns in int64_batches(handle):
                    length = len(columns[0])
                    count += length
                    if count > self._most_rows:
                        # A row takes some bytes: damaged pages point at one another.
                        raise DamagedError(table)
                    told = iter(columns)
                    if length:
                        yield [
                            np.broadcast_to(np.int64(constants[place]), length) if place in constants else next(told)
                            for place in range(len(expressions))
                        ]
        except (adbc_driver_manager.Error, OSError) as error:
            raise DamagedError(table) from error


def _text(raw: bytes) -> str:
    """A text of the file, its first characters where it is longer than any real one (4 bytes each at most)."""
    return raw[: 4 * LONGEST_NAME].decode("utf-8", "replace")[:LONGEST_NAME]


class Ahead(Generic[T]):
    """An iterator that a thread works off, some items in advance. Close it where it may not come to its end."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._ready: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            for item in self._items:
                if not self._put((item,)):
                    return
        except BaseException as error:
            end = error
        self._put(end)

    def _put(self, item: tuple[T] | BaseException | None) -> bool:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(item, timeout=_LOOK_S)
                return True
        return False

    def __iter__(self) -> Iterator[T]:
        while True:
            item = self._ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]

    def close(self) -> None:
        """End the thread, and wait until it has let go of everything."""
        self._stop.set()
        self._thread.join()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Codes:
    """Numbers 0, 1, 2 … for the distinct values of a column that comes in batches; -1 for the value ``missing``.

    ``values[code]`` is the value again.
    """

    def __init__(self, missing: int | None = None) -> None:
        self.values: list[int] = []
        known = [] if missing is None else [missing]
        self._known: Ns = np.array(known, dtype=np.int64)
        self._codes: Ids = np.full(len(known), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.values)

    def of(self, values: Ns) -> Ids:
        """The code of each value."""
        if len(values) and (values == values[0]).all():
            return np.broadcast_to(self._of(values[:1]), len(values))
        return self._of(values)

    def _of(self, values: Ns) -> Ids:
        place = self._find(values)
        strange = self._known[place] != values if len(self._known) else np.ones(len(values), dtype=bool)
        if strange.any():
            new = np.unique(values[strange])
            where = np.searchsorted(self._known, new)
            codes = np.arange(len(self.values), len(self.values) + len(new), dtype=np.int32)
            self._known = np.insert(self._known, where, new)
            self._codes = np.insert(self._codes, where, codes)
            self.values += new.tolist()
            place = self._find(values)
        return self._codes[place]

    def _find(self, values: Ns) -> npt.NDArray[np.intp]:
        return np.minimum(np.searchsorted(self._known, values), max(len(self._known) - 1, 0))
