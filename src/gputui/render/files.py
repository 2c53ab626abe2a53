"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """``text``, or its parts one after the other, at ``path``: written beside its place, then renamed.

    Raises ``OSError`` and leaves nothing behind.
    """
    part = path.with_name(f".gputui-{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.writelines((text,) if isinstance(text, str) else text)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
