"""The block structure of Nsight Compute's own files: what NVIDIA's reader does not tell.

A report is ``NVR\\0``, a length and a file header, then blocks: a length, a block header, and as many bytes of
payload as that header says. Lengths are 32-bit little-endian; headers are protobuf messages. Only headers and the
first result are looked at, every length is checked against what the file holds, and nothing here recurses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

from gputui.model.report import Session

MAGIC = b"NVR\0"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_MAX_HEADER = 64 << 20
"""A block header holds strings and device attributes, some 100 KB; more than this is damage."""

# Field numbers of NVIDIA's message definitions (extras/FileFormat of Nsight Compute).
_SOURCES, _RESULTS, _DETAILS, _PAYLOAD = 1, 2, 3, 5
_OTHER_RESULTS = (7, 8, 9)  # ranges, command lists, graphs
_CREATED, _VERSIONS, _SETTINGS, _COMMAND_LINE = 2, 8, 10, 11
_CLOCK_MODE, _REPLAY_MODE = 8, 11
_CLOCK_STATUS, _LOCK_EXECUTED = 25, 2


@dataclass(frozen=True, slots=True)
class Layout:
    """What the blocks say. ``results`` is how many results the headers announce, of those that are there.

    ``cut`` is set where a block needs more bytes than the file holds, ``damaged`` where a header is no header.
    """

    results: int = 0
    cut: bool = False
    damaged: bool = False
    tool_version: str | None = None
    session: Session = field(default_factory=Session)


class _DamagedError(ValueError):
    pass


class _CutError(ValueError):
    pass


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one protobuf message: numbers as ``int``, everything else as ``bytes``.

    Raises ``ValueError`` where the bytes are no message.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _DamagedError(f"wire type {kind}")
        if size > len(data) - at:
            raise _DamagedError("field beyond the end of its message")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _DamagedError("number without an end")


def _last(data: int | bytes | None) -> dict[int, int | bytes]:
    """A message as a table; of a repeated field the last one."""
    return dict(fields(data)) if isinstance(data, bytes) else {}


def _number(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _text(value: int | bytes | None) -> str | None:
    return value.decode("utf-8", "replace").strip() or None if isinstance(value, bytes) else None


class _Blocks:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self.results = 0
        self.details: dict[int, int | bytes] = {}
        self.settings: dict[int, int | bytes] = {}
        self.versions: dict[str, str] = {}
        self.locked: bool | None = None

    def _take(self, size: int) -> bytes:
        if size > self._left:
            raise _CutError
        self._left -= size
        return self._file.read(size)

    def _message(self) -> bytes:
        (size,) = struct.unpack("<I", self._take(4))
        if size > _MAX_HEADER:
            raise _DamagedError("header too long")
        return self._take(size)

    def read(self) -> None:
        if self._take(4) != MAGIC:
            raise _DamagedError("magic")
        _last(self._message())
        if not self._left:
            raise _CutError  # a report has at least the block of its session
        while self._left:
            self._block()

    def _block(self) -> None:
        header: dict[int, int | bytes] = {}
        for key, value in fields(self._message()):
            header[key] = value
            if key == _DETAILS and isinstance(value, bytes):
                self._session(value)
        self.results += sum(_number(header.get(key)) for key in (_RESULTS, *_OTHER_RESULTS))
        payload = _number(header.get(_PAYLOAD))
        if payload > self._left:
            raise _CutError
        self._left -= payload
        end = self._file.tell() + payload
        if self.locked is None and _number(header.get(_RESULTS)) and not _number(header.get(_SOURCES)):
            self._first_result(payload)
        self._file.seek(end)

    def _session(self, data: bytes) -> None:
        """Each block header adds a line to the session, mostly an empty one."""
        for key, value in fields(data):
            if key == _VERSIONS:
                one = _last(value)
                provider, version = _text(one.get(1)), _text(one.get(2))
                if provider and version:
                    self.versions[provider] = version
            elif key == _SETTINGS:
                self.settings.update(_last(value))
            else:
                self.details[key] = value

    def _first_result(self, payload: int) -> None:
        (size,) = struct.unpack("<I", self._file.read(4)) if payload >= 4 else (0,)
        if size <= min(payload - 4, _MAX_HEADER):
            status = _last(_last(self._file.read(size)).get(_CLOCK_STATUS))
            if _LOCK_EXECUTED in status:
                self.locked = bool(status[_LOCK_EXECUTED])


def read_layout(path: Path) -> Layout:
    """The layout of the report at ``path``, as far as its blocks can be followed. Raises ``OSError``."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        blocks = _Blocks(file, size)
        cut = damaged = False
        try:
            blocks.read()
        except _CutError:
            cut = True
        except ValueError:
            damaged = True
    version = blocks.versions.get("Nsight Compute Target")
    return Layout(
        results=blocks.results,
        cut=cut,
        damaged=damaged,
        tool_version=version.split()[0] if version else None,
        session=_session(blocks),
    )


def _session(blocks: _Blocks) -> Session:
    command = _text(blocks.details.get(_COMMAND_LINE))
    clock = _option(command, "--clock-control", "base") or _lower(blocks.settings.get(_CLOCK_MODE))
    if blocks.locked is not None:
        clock = (clock or "base") if blocks.locked else "none"
    seconds = _number(blocks.details.get(_CREATED))
    return Session(
        command_line=command,
        clock_control=clock,
        cache_control=_option(command, "--cache-control", "all"),
        replay_mode=_option(command, "--replay-mode", "kernel") or _lower(blocks.settings.get(_REPLAY_MODE)),
        # Up to the year 9999: beyond, the field is damage.
        created=datetime.fromtimestamp(seconds, timezone.utc).isoformat() if 0 < seconds < 253402300800 else None,
    )


def _lower(value: int | bytes | None) -> str | None:
    text = _text(value)
    return text.lower() if text else None


def _option(command: str | None, name: str, default: str) -> str | None:
    """An option's value on ncu's command line, ``default`` where the line leaves it out."""
    if command is None:
        return None
    words = command.replace(f"{name}=", f"{name} ").split()
    return words[words.index(name) + 1].lower() if name in words[:-1] else default


def compressed_is_cut(path: Path) -> bool:
    """Whether the zstd frame at the start of ``path`` ends before its last block. Raises ``OSError``."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(4)
        descriptor = (file.read(1) or b"\0")[0]
        single = descriptor >> 5 & 1
        content_size = (single, 2, 4, 8)[descriptor >> 6]
        at = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content_size
        while at + 3 <= size:
            file.seek(at)
            block = int.from_bytes(file.read(3), "little")
            if block == 0:
                return True  # the zeros of a copy that was never finished, a block each
            at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
            if block & 1:
                return at + (4 if descriptor & 4 else 0) > size
        return True
