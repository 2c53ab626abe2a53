"""What went wrong, told by the words of the tools: cause and fix, from ``data/known_errors.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that a tool said, or did. Its words are ``failure.<id>.title``, ``.cause``, ``.fix`` (list) and, where
    only an administrator can help, ``.ask`` (a message to send to them).

    ``kind``: a ``failure`` is why there is no usable report; a ``warning`` is worth telling beside one; ``noise``
    looks like trouble and is none. ``line`` is the tool's own line, empty where there is none.
    """

    id: str
    kind: Literal["failure", "warning", "noise"]
    params: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""
