"""Can this machine profile? Facts in, checks out; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that profiling needs. Words: ``doctor.<id>.name`` and, by ``variant``, ``doctor.<id>.<variant>``
    (what was found), ``.fix-root``, ``.fix-user`` and ``.ask`` (a message ready to send to the administrator).

    ``state``: ``ok``; ``warning`` (profiling works, with a limit that is told); ``problem`` (it does not work, for
    the ``blocks`` named: ``nsys``, ``ncu``); ``unknown`` (could not be told).
    """

    id: str
    state: Literal["ok", "warning", "problem", "unknown"]
    variant: str
    params: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[str, ...] = ()
