"""Kernels of a timeline and of an Nsight Compute report that are the same function, launched alike."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gputui.model.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Link:
    """``counted`` is the place of the launch that tells most about a kernel of a timeline.

    ``same_shape`` says whether it was launched with the grid and block that the timeline has most often, ``None``
    where one of the two does not tell.
    """

    counted: int
    same_shape: bool | None


def link(timed: Sequence[Kernel], counted: Sequence[Kernel]) -> dict[int, Link]:
    """Per place in ``timed`` the launch among ``counted`` that belongs to it, where there is one.

    The full names decide. Of several launches of one name the shape does, and then the longest is taken. Where a report
    knows functions by their bare names alone (``ncu --kernel-name-base function``), those are compared.
    """
    names = [normalised(kernel.demangled) for kernel in counted]
    by_name: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        by_name[name].append(place)
    only_bare = not any("(" in name or "<" in name for name in names)
    found: dict[int, Link] = {}
    for place, kernel in enumerate(timed):
        candidates = by_name.get(normalised(kernel.demangled))
        if candidates is None and only_bare:
            candidates = by_name.get(normalised(kernel.name))
        if candidates:
            best = max(candidates, key=lambda one: (_likeness(kernel, counted[one]), counted[one].duration_ns or 0.0))
            found[place] = Link(best, _same_shape(kernel, counted[best]))
    return found


def _likeness(one: Kernel, other: Kernel) -> int:
    """How much of the shape is the same: all of it, the block, nothing."""
    if one.block is None or one.block != other.block:
        return 0
    return 2 if one.grid == other.grid else 1


def _same_shape(one: Kernel, other: Kernel) -> bool | None:
    if None in (one.grid, one.block, other.grid, other.block):
        return None
    return one.grid == other.grid and one.block == other.block


# ------------------------------------------------------------------ names

_READ_OF_A_NAME = 20_000
"""Characters of a name that are looked at: names of templates may be longer than this and differ at their end alone."""
_REWRITES = (
    (re.compile(r"\(anonymous namespace\)"), "<unnamed>"),
    # [lambda(float) (instance 1)] and {lambda(float)#1}
    (re.compile(r"\[(lambda\([^\[\]]*\)) \(instance (\d+)\)\]"), r"{\1#\2}"),
    # (int)128, 128u and 128; (bool)1 and true
    (re.compile(r"\((?:bool|(?:unsigned )?(?:char|short|int|long|long long)|unsigned)\)(?=-?\d)"), ""),
    (re.compile(r"\b(\d+)[uUlL]+\b"), r"\1"),
    (re.compile(r"\btrue\b"), "1"),
    (re.compile(r"\bfalse\b"), "0"),
    (re.compile(r"\bconst\b"), ""),
)  # fmt: skip
_OPEN, _CLOSE = "<({[", ">)}]"


@lru_cache(maxsize=65536)
def normalised(demangled: str) -> str:
    """A function's name as every demangler would have it: without return type, blanks, casts and ``const``.

    A template's parameters are left out too: some tools print ``T1`` there, others what it stands for. Those of other
    functions stay, since they tell overloads apart.
    """
    text = demangled[:_READ_OF_A_NAME]
    for pattern, by in _REWRITES:
        text = pattern.sub(by, text)
    start, end = _function_of(text)
    core = "".join(text[start:end].split())
    if core.endswith(">"):
        return core
    return core + "".join(text[end:].split())


def _function_of(text: str) -> tuple[int, int]:
    """Where the function's qualified name with its template arguments begins and ends."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        if char == "(" and depth == 0 and not text[start:place].endswith("operator"):
            return start, place
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE and text[place - 1 : place] != "-":
            depth = max(0, depth - 1)
        elif char == " " and depth == 0 and text[place + 1 : place + 2] not in ("(", ""):
            start = place + 1
    return start, len(text)
