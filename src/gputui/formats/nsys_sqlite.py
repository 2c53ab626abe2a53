"""What ``nsys export --type sqlite`` writes, of every schema from 2020 to 2026."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gputui.errors import GputuiError
from gputui.formats import foreign
from gputui.formats.base import HEAD_BYTES, Progress, rank_of
from gputui.model.report import NoMetrics, Notice, Report, Session

if TYPE_CHECKING:
    from gputui.formats._nsys_tables import Contents
    from gputui.formats._sqlite_columns import Database
    from gputui.model.timeline import SourceFile, Timeline

kind = "nsys"
MAGIC = b"SQLite format 3\0"

_DROPPED = re.compile(r"\bdropped\b|\blost\b|\bnot all\b|might not have been collected", re.IGNORECASE)
_NOTHING = re.compile(r"^No .* events collected", re.IGNORECASE)
"""What nsys says of each kind of event that a program simply does not have."""
_ERROR = 3
_MOST_UNLINKED = 0.01
_HEADER_BYTES, _WAL_HEADER_BYTES = 100, 32
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""A journal begins with it until its write has ended."""


def recognises(head: bytes) -> bool:
    """Any SQLite database: whose it is may lie beyond the head."""
    return head.startswith(MAGIC)


def open(path: Path, progress: Progress | None = None) -> Report:
    """The report at ``path``. Raises ``GputuiError`` where it is no export of nsys, or none of it can be read."""
    return open_export(path, path, progress)


def open_export(path: Path, origin: Path, progress: Progress | None) -> Report:
    """The report at ``path``, which is an export of ``origin``."""
    # numpy is not for those who open something else.
    from gputui.formats._nsys_tables import read

    with _database(path) as database:
        contents = read(database, origin, rank_of(origin), progress)
    notices = list(_notices(contents))
    unseen = _unseen(path)
    if unseen is not None:
        notices.append(Notice("rows-unseen", {"file": unseen.name, "command": _finish(path)}))
    timeline = contents.timeline
    if contents.damaged and not any(map(len, (timeline.ops, timeline.calls, timeline.ranges, timeline.os_calls))):
        raise _lost(path)
    (file_of_it,) = timeline.files
    return Report(
        path=str(origin),
        kind=kind,
        kernels=[],
        source=NoMetrics(),
        tool_version=file_of_it.tool_version,
        truncated=bool(contents.damaged),
        notices=notices,
        session=_session(file_of_it),
        timeline=replace(timeline, lacks=tuple(lacks(timeline))),
    )


@dataclass(frozen=True, slots=True)
class KernelSum:
    """All launches of the kernels of one name; times in ns. ``short_name`` is the function without parameters and
    templates, empty where the file does not tell it or it is the name."""

    name: str
    short_name: str
    count: int
    total_ns: int
    min_ns: int
    max_ns: int


def kernel_sums(path: Path, progress: Progress | None = None) -> tuple[KernelSum, ...]:
    """The kernels of the export at ``path`` by name, the longest total first, without opening it as a report: a fifth
    of the time. Empty where it has none.

    What can be read of a damaged file, and what is read until ``progress`` answers ``False``. Raises ``GputuiError``
    where it is no export of nsys.
    """
    from gputui.formats._nsys_sums import sum_kernels

    with _database(path) as database:
        return sum_kernels(database, progress)


@contextmanager
def _database(path: Path) -> Iterator[Database]:
    """The export at ``path`` to read. Raises ``GputuiError`` where it is none."""
    from gputui.formats._nsys_tables import TABLES
    from gputui.formats._sqlite_columns import Database

    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    try:
        database = Database(path)
    except sqlite3.Error as error:
        if foreign.is_nsys_export(head):
            raise _lost(path) from error
        raise foreign.unknown(path, head) from error
    try:
        if not TABLES & database.columns.keys():
            unseen = _unseen(path)
            if unseen is not None:
                raise GputuiError(
                    str(path),
                    f"holds no table of nsys yet: what was written is still in {unseen.name}",
                    f"Run {_finish(path)}, or export it again",
                )
            raise foreign.unknown(path, head)
        yield database
    finally:
        database.close()


def is_whole(path: Path) -> bool:
    """Whether there is an export of nsys at ``path`` without its end missing."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
        if not recognises(head) or path.stat().st_size < _size_told(head):
            return False
        with _database(path):
            return True
    except (OSError, GputuiError):
        return False


def _size_told(head: bytes) -> int:
    """The size in bytes that an SQLite file's header tells; 0 where it is not told (https://sqlite.org/fileformat.html,
    1.3)."""
    if len(head) < _HEADER_BYTES or head[24:28] != head[92:96]:
        return 0
    page_bytes = int.from_bytes(head[16:18], "big")
    return int.from_bytes(head[28:32], "big") * (65536 if page_bytes == 1 else page_bytes)


def capture_info(path: Path) -> dict[str, str]:
    """What nsys says of the capture in the export at ``path``; empty where it says nothing or is no export."""
    from gputui.formats._sqlite_columns import DamagedError

    info: dict[str, str] = {}
    with suppress(OSError, GputuiError, DamagedError), _database(path) as database:
        for name, value in database.rows("META_DATA_CAPTURE", ("name", "value")):
            if isinstance(name, str) and isinstance(value, str):
                info[name] = value
    return info


def _unseen(path: Path) -> Path | None:
    """The file beside a database that holds what is not yet in it: its write-ahead log, or the journal of a write that
    did not end."""
    for suffix, least in (("-wal", _WAL_HEADER_BYTES + 1), ("-journal", len(_JOURNAL_MAGIC))):
        beside = path.with_name(path.name + suffix)
        with suppress(OSError):
            if not beside.is_file() or beside.stat().st_size < least:
                continue
            if suffix == "-wal":
                return beside
            with beside.open("rb") as file:
                if file.read(len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC:
                    return beside
    return None


def _finish(path: Path) -> str:
    """The command that brings into a database what lies beside it."""
    return f"sqlite3 {shlex.quote(path.name)} 'PRAGMA wal_checkpoint(TRUNCATE)'"


def _lost(path: Path) -> GputuiError:
    return GputuiError(
        str(path),
        "is cut off or damaged: none of its events can be read",
        "Copy it again byte for byte, or export it again: nsys export --type sqlite",
    )


def _session(file: SourceFile) -> Session:
    created = None
    if file.wall_ns is not None:
        created = datetime.fromtimestamp(file.wall_ns // 10**9, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Session(command_line=file.command, created=created)


def _notices(contents: Contents) -> Iterator[Notice]:
    if contents.damaged:
        yield Notice("damaged-tables", {"tables": ", ".join(contents.damaged)})
    dropped = [text for _, text in contents.messages if _DROPPED.search(text) and not _NOTHING.search(text)]
    if dropped:
        yield Notice("dropped-events", {"count": len(dropped), "text": dropped[0]})
    errors = [text for severity, text in contents.messages if severity == _ERROR and text not in dropped]
    if errors:
        yield Notice("profiler-errors", {"count": len(errors), "text": errors[0]})


def lacks(timeline: Timeline) -> Iterator[Notice]:
    """What a capture does not have, each with the flag of nsys that brings it."""
    from gputui.model.timeline import OpKind

    kinds = timeline.ops.kind
    kernels = kinds == OpKind.KERNEL
    graphs = int((kinds == OpKind.GRAPH).sum())
    if not len(timeline.ops) and not len(timeline.calls):
        yield Notice("lacks-cuda")
    elif not kernels.any() and not graphs:
        yield Notice("lacks-kernels")
    elif not ((kinds == OpKind.COPY) | (kinds == OpKind.MEMSET)).any():
        yield Notice("lacks-copies")
    if graphs:
        yield Notice("lacks-graph-kernels", {"count": graphs})
    count = int(kernels.sum())
    unlinked = int((timeline.ops.call[kernels] < 0).sum())
    if unlinked > _MOST_UNLINKED * count:
        yield Notice("lacks-calls", {"count": unlinked, "kernels": count})
    if not len(timeline.ranges):
        yield Notice("lacks-nvtx")
