"""Traces of the PyTorch profiler (Kineto), and other Chrome traces: recognised here, read by ``_torch_timeline``."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from gputui.formats.base import Progress
from gputui.model.report import Report

kind = "torch"

_GZIP_MAGIC = b"\x1f\x8b"
_MOST_HEAD = 1 << 20
_OBJECT = re.compile(r'\s*\{\s*"(.*")?(traceEvents"\s*:\s*\[|(deviceProperties|distributedInfo)"\s*:)', re.DOTALL)
_LIST = re.compile(r'\s*\[\s*\{.{0,4000}?"ph"\s*:\s*"\w"', re.DOTALL)


def recognises(head: bytes) -> bool:
    if head.startswith(_GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _MOST_HEAD)
        except zlib.error:
            return False
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    return bool(_OBJECT.match(text) or _LIST.match(text))


def open(path: Path, progress: Progress | None = None) -> Report:
    """The trace at ``path``. Raises ``GputuiError`` where there is no event in it, or it unpacks to too much."""
    from gputui.formats._torch_timeline import read  # msgspec takes 25 ms to import

    return read(path, progress)
