"""Regular expressions that people type."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from gputui.errors import GputuiError

_LIMIT_S = 5.0
"""Thousands of names take milliseconds."""
_SEARCH = """
import json, re, sys
expression, texts = json.load(sys.stdin)
for flags in (0, re.IGNORECASE):
    pattern = re.compile(expression, flags)
    for text in texts:
        pattern.search(text)
"""


def check_time(option: str, expression: str, texts: Sequence[str], *, limit_s: float = _LIMIT_S) -> None:
    """Raise ``GputuiError`` where it takes too long to look for an expression in these texts.

    In a process of its own: ``(a+)+$`` can take for ever on one name, and holds Python's lock meanwhile, so that no
    screen could answer. What is wrong with an expression otherwise is told where it is used.
    """
    try:
        subprocess.run(
            [sys.executable, "-I", "-c", _SEARCH],
            input=json.dumps([expression, texts]),
            text=True,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        hint = "Write it without a repetition inside a repetition, such as (a+)+"
        raise GputuiError(f"{option} {expression}", "takes too long to look for in these names", hint) from error
