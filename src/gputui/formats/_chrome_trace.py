"""The events of a Chrome trace, the JSON that torch.profiler (Kineto) and others write, some ten thousand at a time.

The text, plain or gzip, is read in blocks that are cut between two events, so memory does not grow with the file.
msgspec makes objects of the fields that are wanted and of no others: 2.8 times as fast as json (1 M events, 263 MB).
What it refuses (NaN, a wrong type, bytes that are no UTF-8) is read again event by event, and only events that are no
JSON at all are left out.

The form: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ; Kineto's
``libkineto/src/output_json.cpp``.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from gputui.errors import GputuiError
from gputui.formats.base import LONGEST_NAME, Progress
from gputui.model.intervals import Ns
from gputui.model.limits import FARTHEST_NS, LONGEST_NS

GZIP_MAGIC = b"\x1f\x8b"

_BLOCK_BYTES = 4 << 20
_PACKED_BYTES = 1 << 18
_MOST_UNPACKED = 8 << 30
"""Bytes that a gzip file may unpack to: 30 million events."""
_MOST_RATIO, _ANY_RATIO_BELOW = 250, 64 << 20
"""How many times its size a gzip file may unpack to, beyond some bytes. Traces unpack to 10 to 30 times, and blanks to
1000 times their size."""
_LONGEST_EVENT = 16 << 20
"""Bytes of one event, and of what stands before and after the events; real ones have some thousand."""
_MOST_SKIPPED = 1000
"""Events that are no JSON: with more of them the rest of the file is given up."""
_FAR_US = FARTHEST_NS / 1000
_LONG_US = LONGEST_NS / 1000
"""µs; a time or duration beyond them is none."""
_EXACT_BELOW_US = 2.0**43
"""Below it a 64-bit float tells nanoseconds apart; Kineto counted from 1970 (1.7e15 µs) until 2024."""

_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(r"\}\s*,\s*(?=\{)")
_BORDER_BYTES = re.compile(_BORDER.pattern.encode())
_BETWEEN = re.compile(r"[\s,]*")
_NO_NUMBER = re.compile(r"([:\[,]\s*)-?(?:nan|inf)(?=\s*[,\]}])")
MALFORMED = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
"""What decoders raise; an ArithmeticError is that of a Decimal out of range."""

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Place = int | float | Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)] | None
"""How an event names a process, thread, device or stream."""


class Args(
    msgspec.Struct,
    gc=False,
    rename={
        "in_device": "inDevice", "registers": "registers per thread", "shared": "shared memory", "graph": "graph id",
    },
):  # fmt: skip
    """What Kineto says of an event beyond its time, as far as it is wanted."""

    device: Place = None
    in_device: Place = None
    context: Place = None
    stream: Place = None
    correlation: _Int64 | None = None
    bytes: _Int64 | None = None
    registers: int | None = None
    shared: int | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    graph: _Int64 | None = None
    name: str | None = None


class Event(msgspec.Struct, gc=False):
    """One event. ``ts`` and ``dur`` are µs; ``ph`` is the kind (X: a whole one, B and E: its ends, M: a name)."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Place = None
    tid: Place = None
    ts: float = float("inf")
    dur: float = 0.0
    args: Args | None = None


class ExactEvent(Event, gc=False):
    """An event whose time a float would round."""

    ts: Decimal = Decimal("inf")  # type: ignore[assignment]
    dur: Decimal = Decimal(0)  # type: ignore[assignment]


_EVENTS = msgspec.json.Decoder(list[Event])
_EXACT_EVENTS = msgspec.json.Decoder(list[ExactEvent])


def times(events: Sequence[Event]) -> tuple[Ns, Ns]:
    """Start and end in ns. Kineto's three decimals are kept exactly; a negative duration is none, as in Kineto."""
    start = _nanoseconds([event.ts for event in events])
    return start, start + np.clip(_nanoseconds([event.dur for event in events]), 0, LONGEST_NS)


def _nanoseconds(values: Sequence[float]) -> Ns:
    if any(type(value) is not float for value in values):
        return np.array([int((Decimal(value) * 1000).to_integral_value()) for value in values], dtype=np.int64)
    us = np.array(values, dtype=np.float64)
    # Not us * 1000: the product of 4.4e12 µs and more is rounded to whole and half ns before it is rounded again.
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)


def _has_time(event: Event) -> bool:
    """Whether a time can be made of an event's; names need none."""
    if event.ph == "M":
        return True
    if isinstance(event, ExactEvent) and not (event.ts.is_finite() and event.dur.is_finite()):
        return False
    return -_FAR_US < event.ts < _FAR_US and -_LONG_US < event.dur < _LONG_US


class Trace:
    """A trace file. ``beside`` is what stands beside the events, ``cut`` whether the end of the file is missing,
    ``skipped`` how many events were unreadable: all three are whole once ``events`` has run to its end."""

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self._path = path
        self._progress = progress
        self._exact = False
        self._ended = False
        self.beside: dict[str, Any] = {}
        self.cut = False
        self.skipped = 0

    def events(self) -> Iterator[list[Event]]:
        """The events as they stand in the file. Raises ``GputuiError`` where it is no trace, or unpacks to too much."""
        blocks = self._blocks()
        is_list, rest = self._begin(blocks)
        for block in blocks:
            rest += block
            border = _last_border(rest)
            if border is None and len(rest) < _LONGEST_EVENT:
                continue
            found: list[Event] | None = None
            if border is not None:
                with suppress(*MALFORMED):
                    # What parses as a whole list was cut between two events, not inside one.
                    found = self._decoded(b"[" + rest[: border.start() + 1] + b"]")
                    rest = rest[border.end() :]
            if found is None:
                found, rest = self._one_by_one(rest, is_last=False)
            yield self._timed(found)
            if self._ended:
                break
        if not self._ended:
            found, rest = self._one_by_one(rest, is_last=True)
            yield self._timed(found)
        if self._ended:
            self._end(is_list, rest, blocks)
        else:
            # A bare list needs no end by the format's own rule.
            self.cut |= not is_list or bool(rest)

    def _blocks(self) -> Iterator[bytes]:
        """The text in blocks. Ends early where the user cancels, or where a gzip file does not go on."""
        total, done = self._path.stat().st_size, 0
        with self._path.open("rb") as file:
            is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            unpack, unpacked = zlib.decompressobj(wbits=31), 0
            while raw := file.read(_PACKED_BYTES if is_packed else _BLOCK_BYTES):
                done += len(raw)
                if self._progress is not None and not self._progress(done, total):
                    return
                if not is_packed:
                    yield raw
                    continue
                while raw:
                    try:
                        text = unpack.decompress(raw, _BLOCK_BYTES)
                    except zlib.error:
                        self.cut = True
                        return
                    unpacked += len(text)
                    if unpacked > _MOST_UNPACKED:
                        raise self._unpacks_to(f"more than {_MOST_UNPACKED >> 30} GiB")
                    if unpacked > max(_ANY_RATIO_BELOW, _MOST_RATIO * done):
                        raise self._unpacks_to(f"more than {_MOST_RATIO} times its size")
                    if text:
                        yield text
                    raw = unpack.unconsumed_tail
                    if unpack.eof:
                        # Files may be put together of several parts; anything else after the end is padding.
                        raw = unpack.unused_data if unpack.unused_data.startswith(GZIP_MAGIC) else b""
                        if raw:
                            unpack = zlib.decompressobj(wbits=31)
            self.cut |= is_packed and not unpack.eof

    def _unpacks_to(self, much: str) -> GputuiError:
        return GputuiError(
            str(self._path),
            f"unpacks to {much}",
            "Record fewer steps (torch.profiler.schedule), or unpack it with gunzip if you trust it",
        )

    def _begin(self, blocks: Iterator[bytes]) -> tuple[bool, bytes]:
        """Whether the file is a bare list, and the text after the list's bracket."""
        text = b""
        for block in blocks:
            text += block
            stripped = text.removeprefix(b"\xef\xbb\xbf").lstrip()
            if stripped.startswith(b"["):
                return True, stripped[1:]
            array = _ARRAY.search(text)
            if array is not None:
                with suppress(*MALFORMED):
                    self.beside.update(json.loads(stripped[: len(stripped) - len(text) + array.end()] + b"]}"))
                return False, text[array.end() :]
            if len(text) > _LONGEST_EVENT:
                break
        raise GputuiError(
            str(self._path), "is a trace without events", "Copy it again, or export it again (export_chrome_trace)"
        )

    def _end(self, is_list: bool, rest: bytes, blocks: Iterator[bytes]) -> None:
        """Read what stands after the events."""
        if is_list:
            return
        for block in blocks:
            rest += block
            if len(rest) > _LONGEST_EVENT:
                return
        try:
            self.beside.update(json.loads(b"{" + rest.lstrip(b" \t\r\n,")))
        except MALFORMED:
            self.cut |= not rest.rstrip().endswith(b"}")

    def _decoded(self, text: bytes) -> list[Event]:
        if not self._exact:
            events = _EVENTS.decode(text)
            if not any(event.ts > _EXACT_BELOW_US and event.ts % 1 for event in events):
                return events
            self._exact = True
        return list[Event](_EXACT_EVENTS.decode(text))

    def _one_by_one(self, rest: bytes, is_last: bool) -> tuple[list[Event], bytes]:
        """The events of a text that is not all right, and the text after them, where one may be unfinished."""
        text = _NO_NUMBER.sub(r"\1null", rest.decode("utf-8", "surrogateescape"))
        decoder = json.JSONDecoder(strict=False, parse_float=Decimal)
        found: list[Event] = []
        at = 0
        while True:
            between = _BETWEEN.match(text, at)
            at = between.end() if between else at
            if at == len(text):
                break
            if text[at] == "]":
                self._ended = True
                at += 1
                break
            try:
                value, at = decoder.raw_decode(text, at)
            except MALFORMED:
                if not is_last and len(text) - at < _LONGEST_EVENT:
                    break
                border = _BORDER.search(text, at)
                if border is None or self.skipped >= _MOST_SKIPPED:
                    self._ended, self.cut = not is_last, True
                    break
                self.skipped += 1
                at = border.end()
                continue
            if isinstance(value, dict):
                event = _event(value)
                if event is None:
                    self.skipped += 1
                else:
                    found.append(event)
        return found, text[at:].encode("utf-8", "surrogateescape")

    def _timed(self, events: list[Event]) -> list[Event]:
        timed = [event for event in events if _has_time(event)]
        self.skipped += len(events) - len(timed)
        for event in timed:
            if len(event.name) > LONGEST_NAME or len(event.cat) > LONGEST_NAME:
                event.name, event.cat = event.name[:LONGEST_NAME], event.cat[:LONGEST_NAME]
        return timed


def _last_border(text: bytes) -> re.Match[bytes] | None:
    """The last place that looks like one between two events."""
    for size in (1 << 14, len(text)):
        borders = list(_BORDER_BYTES.finditer(text, max(len(text) - size, 0)))
        if borders:
            return borders[-1]
    return None


def _event(value: dict[str, Any]) -> Event | None:
    """The event; without its arguments where they have other types than Kineto's. ``None`` where it is none."""
    for fields in (value, {name: value[name] for name in value if name != "args"}):
        with suppress(*MALFORMED):
            return msgspec.convert(fields, ExactEvent, strict=False)
    return None
