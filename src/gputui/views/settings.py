"""What is remembered between sessions: the reader's level and the theme. Losing it is never an error."""

from __future__ import annotations

import json
import os
from pathlib import Path


def _path() -> Path:
    root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "gputui" / "settings.json"


def remembered() -> dict[str, str]:
    """The settings of earlier sessions, empty where there are none that can be read."""
    try:
        found = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def remember(key: str, value: str) -> None:
    """Keep one setting. Silent where the folder cannot be written."""
    try:
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**remembered(), key: value}), encoding="utf-8")
    except (OSError, RuntimeError):
        return
