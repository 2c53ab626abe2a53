"""Text from strangers made safe to print, and what this terminal can do."""

from __future__ import annotations

import os
import sys
import unicodedata

_ESCAPED_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def safe(text: str) -> str:
    """``text`` on one line without anything that acts on a terminal.

    Control characters, escape sequences, bidirectional and other format marks, lone surrogates and unassigned
    characters are shown as ``\\x1b`` or ``\\u202e``; combining marks beyond two in a row are dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        if category in ("Mn", "Me"):
            marks += 1
            if marks > 2:
                continue
        else:
            marks = 0
        if category in _ESCAPED_CATEGORIES:
            code = ord(char)
            shown.append(f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
        else:
            shown.append(char)
    return "".join(shown)


def wants_ascii() -> bool:
    """Whether to draw with ASCII alone: asked for by GPUTUI_ASCII, no UTF-8, or a Linux console."""
    if os.environ.get("GPUTUI_ASCII", "") not in ("", "0"):
        return True
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding not in ("utf8", "utf16", "utf32") or os.environ.get("TERM") == "linux"


def can_draw() -> bool:
    """Whether a full-screen application makes sense here: a terminal on both ends that knows how to move a cursor."""
    # A closed stream is None.
    ends = (sys.stdin, sys.stdout)
    return all(end is not None and end.isatty() for end in ends) and os.environ.get("TERM", "dumb") not in ("dumb", "")
