"""Which kernels of the base became which of the new side: by what they do, not by their names.

Both sides are sequences of launches. They are laid beside each other so that the likeness of those opposite each other
is largest and the order is kept (as two versions of a text are compared); what stays over between two such pairs
belongs together: many kernels of the base opposite one of the new side are fused in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import log

import numpy as np
import numpy.typing as npt

from gputui.analysis.compare.amounts import as_many, flops_of
from gputui.analysis.compare.model import KernelKey, Member, Pairing

_LEAST = 0.4
"""Two launches less alike than this are no pair."""
_PRODUCTS = frozenset({"gemm", "gemv", "conv"})
_POINTWISE = frozenset({"elementwise", "copy", "transpose", "reduction", "random", "embedding"})
_ROW_WISE = _POINTWISE | {"norm", "softmax", "loss"}
"""What compilers fuse with each other."""
_EPILOGUE = re.compile(r"bias|gelu|relu|silu|epilogue|activation", re.IGNORECASE)
_READ_OF_A_NAME = 200
Table = npt.NDArray[np.float32]

_MOST_CELLS = 25_000_000
"""Of the table that the two sequences span: 100 MB."""


@dataclass(frozen=True, eq=False)
class Match:
    """Members of the base and of the new side that do the same work."""

    base: tuple[Member, ...]
    new: tuple[Member, ...]
    sureness: float
    by_hand: bool = False


def match(base: Sequence[Member], new: Sequence[Member], pairings: Iterable[Pairing] = ()) -> list[Match]:
    """All members of both sides, each in one match; those of one side alone have nothing opposite."""
    found: list[Match] = []
    for pairing in pairings:
        ours = tuple(member for member in base if member.key in pairing.base)
        theirs = tuple(member for member in new if member.key in pairing.new)
        if (ours or not pairing.base) and (theirs or not pairing.new) and (ours or theirs):
            found.append(Match(ours, theirs, 1.0, by_hand=True))
            base = [member for member in base if member.key not in pairing.base]
            new = [member for member in new if member.key not in pairing.new]
    # In one order, so that exchanging the sides exchanges the answer and nothing else.
    if order_of(new) < order_of(base):
        return [*found, *(Match(one.new, one.base, one.sureness) for one in _match(new, base))]
    return [*found, *_match(base, new)]


def order_of(members: Sequence[Member]) -> tuple[int, list[KernelKey], list[float]]:
    """By which of two sides the one to begin with is chosen, so that exchanging them changes nothing."""
    return len(members), [member.key for member in members], [member.time_ns or 0.0 for member in members]


def _match(one: Sequence[Member], other: Sequence[Member]) -> list[Match]:
    ours, theirs = _tokens(one, other)
    pairs = _moved(ours, theirs, _align(ours, theirs))
    found: list[Match] = []
    # Runs of what has no pair lie between pairs that keep the order.
    anchors = [(i, j) for i, j, in_order in pairs if in_order]
    taken_i, taken_j = {i for i, _, _ in pairs}, {j for _, j, _ in pairs}
    matched = {i: Match(ours[i], theirs[j], likeness(ours[i][0], theirs[j][0])) for i, j, _ in pairs}
    telling = _telling_ranges(one) & _telling_ranges(other)
    low_i = low_j = 0
    before: int | None = None
    for i, j in [*anchors, (len(ours), len(theirs))]:
        left = [place for place in range(low_i, i) if place not in taken_i]
        right = [place for place in range(low_j, j) if place not in taken_j]
        after = i if i < len(ours) else None
        loose = _join([ours[place] for place in left], [theirs[place] for place in right], telling)
        if loose is not None:
            found.append(loose)
            together = {id(member) for member in (*loose.base, *loose.new)}
            left, right = (
                [place for place in places if id(tokens[place][0]) not in together]
                for places, tokens in ((left, ours), (right, theirs))
            )
        beside = [place for place in (before, after) if place is not None]
        for place in left:
            found += _absorb(ours[place], True, beside, matched)
        for place in right:
            found += _absorb(theirs[place], False, beside, matched)
        before, low_i, low_j = after, i + 1, j + 1
    return [*found, *matched.values()]


Token = tuple[Member, ...]
"""Launches that are matched as one: a single one, or all of a function where there are very many, or where a side tells
several together."""


def _tokens(one: Sequence[Member], other: Sequence[Member]) -> tuple[list[Token], list[Token]]:
    if len(one) * len(other) <= _MOST_CELLS and all(member.count == 1 for member in (*one, *other)):
        return [(member,) for member in one], [(member,) for member in other]
    return _by_function(one), _by_function(other)


def _by_function(members: Sequence[Member]) -> list[Token]:
    found: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        found.setdefault(member.kind, []).append(member)
    return [tuple(group) for group in found.values()]


# ------------------------------------------------------------------ likeness


def likeness(one: Member, other: Member) -> float:
    """How alike the work of two launches is, 0-1: by the function, what it does, where, and how much of it."""
    found = _kind_likeness(one, other)
    if not found:
        return 0.0
    if one.op and other.op:
        found += 0.2 if one.op == other.op else -0.3
    if one.nvtx and other.nvtx:
        found += 0.15 if one.nvtx[-1] == other.nvtx[-1] else -0.1
    flops, others = flops_of(one), flops_of(other)
    if flops and others:
        found += 0.15 if as_many(flops, others) else -0.3 if abs(log(flops / others)) > log(2) else 0.0
    if one.kernel.block is not None and (one.kernel.grid, one.kernel.block) == (other.kernel.grid, other.kernel.block):
        found += 0.1
    return min(1.0, max(0.0, found))


def _kind_likeness(one: Member, other: Member) -> float:
    if one.kind[0] == other.kind[0]:
        return 0.9
    mine, others = one.identity.op_class, other.identity.op_class
    if mine != others:
        return 0.5 if {mine, others} <= _PRODUCTS else 0.0
    if mine == "other":
        name, others_name = one.kernel.name[:_READ_OF_A_NAME], other.kernel.name[:_READ_OF_A_NAME]
        return 0.5 if SequenceMatcher(None, name, others_name, autojunk=False).ratio() >= 0.6 else 0.0
    if mine in _POINTWISE and not _does(one) & _does(other):
        return 0.15
    return 0.6


def _does(member: Member) -> set[str]:
    """The operations that a kernel's name lists, without the underscores and endings of their different spellings."""
    return {word for word in map(_plain, member.identity.operations) if word not in _SAYS_NOTHING}


_SAYS_NOTHING = frozenset({"view", "t", "unsafe_view", "permute", "transpose", "expand", "reshape", "unknown"})
_SPELLINGS = {"to_copy": "cast", "direct_copy": "cast", "convert_element_type": "cast", "clone": "cast", "copy": "cast"}


def _plain(operation: str) -> str:
    word = operation.strip("_")
    return _SPELLINGS.get(word, word)


# ------------------------------------------------------------------ pairs in order


def _align(ours: Sequence[Token], theirs: Sequence[Token]) -> list[tuple[int, int]]:
    """The pairs of places, in order, with the largest sum of likeness (the method of Needleman and Wunsch, 1970)."""
    if not (ours and theirs):
        return []
    alike = likeness_table([token[0] for token in ours], [token[0] for token in theirs])
    best = _best(alike)
    found = []
    i, j = len(ours), len(theirs)
    while i and j:
        value = alike[i - 1, j - 1]
        if value >= _LEAST and best[i, j] == best[i - 1, j - 1] + value:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif best[i, j] == best[i - 1, j]:
            i -= 1
        else:
            j -= 1
    return found[::-1]


def in_order(alike: Table) -> float:
    """The largest sum of likeness of pairs that keep the order, of a table as ``likeness_table`` gives it."""
    return float(_best(alike)[-1, -1])


def _best(alike: Table) -> Table:
    """The largest sum up to each pair of places."""
    best = np.zeros((alike.shape[0] + 1, alike.shape[1] + 1), dtype=np.float32)
    for i, row in enumerate(alike):
        paired = np.where(row >= _LEAST, best[i, :-1] + row, 0)
        best[i + 1, 1:] = np.maximum.accumulate(np.maximum(best[i, 1:], paired))
    return best


def likeness_table(ours: Sequence[Member], theirs: Sequence[Member]) -> Table:
    """The likeness of each with each; worked out once for launches that are the same to it."""
    rows, row_kinds = _kinds(ours)
    columns, column_kinds = _kinds(theirs)
    small = np.array([[likeness(one, other) for other in column_kinds] for one in row_kinds], dtype=np.float32)
    found: Table = small[np.ix_(rows, columns)]
    return found


def _kinds(members: Sequence[Member]) -> tuple[list[int], list[Member]]:
    places: dict[tuple[object, ...], int] = {}
    kinds: list[Member] = []
    which = []
    for member in members:
        kind = (member.kind, member.op, member.kernel.grid, member.kernel.block, flops_of(member))
        if kind not in places:
            places[kind] = len(kinds)
            kinds.append(member)
        which.append(places[kind])
    return which, kinds


def _moved(
    ours: Sequence[Token], theirs: Sequence[Token], pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int, bool]]:
    """The pairs, and beside them those of the same function elsewhere; whether each keeps the order."""
    found = [(i, j, True) for i, j in pairs]
    free: dict[str, list[int]] = {}
    for j in sorted(set(range(len(theirs))) - {j for _, j in pairs}):
        free.setdefault(theirs[j][0].kind[0], []).append(j)
    for i in sorted(set(range(len(ours))) - {i for i, _ in pairs}):
        places = free.get(ours[i][0].kind[0], [])
        place = next((j for j in places if likeness(ours[i][0], theirs[j][0]) >= _LEAST), None)
        if place is not None:
            places.remove(place)
            found.append((i, place, False))
    return found


# ------------------------------------------------------------------ what has no pair


def _telling_ranges(members: Sequence[Member]) -> set[str]:
    """The innermost NVTX ranges that tell one part of the work from the rest."""
    counts = Counter(member.nvtx[-1] for member in members if member.nvtx)
    return {name for name, count in counts.items() if 2 * count <= len(members)}


def _join(left: Sequence[Token], right: Sequence[Token], telling: set[str]) -> Match | None:
    """What stands beside each other as one match, where one can have become the other."""
    ours, theirs = _of_attention(
        tuple(member for token in left for member in token), tuple(member for token in right for member in token)
    )
    sureness = _belong(ours, theirs, telling) if ours and theirs else 0.0
    return Match(ours, theirs, sureness) if sureness else None


def _of_attention(ours: Token, theirs: Token) -> tuple[Token, Token]:
    """Opposite a fused attention kernel what can have become it: no norm, and none of the products around it."""
    if any(member.identity.op_class == "attention" for member in ours):
        theirs = tuple(filter(_may_be_attention, theirs))
    if any(member.identity.op_class == "attention" for member in theirs):
        ours = tuple(filter(_may_be_attention, ours))
    return ours, theirs


def _may_be_attention(member: Member) -> bool:
    is_product = member.identity.op_class in _PRODUCTS
    return (
        member.identity.op_class != "norm"
        and member.op not in ("mlp", "norm", "residual")
        and not (is_product and member.op in ("qkv-linear", "attention-output"))
    )


def _belong(ours: Token, theirs: Token, telling: set[str]) -> float:
    # What a CUDA graph launches is hidden: it stands for whatever is missing around it.
    if any(member.kernel.workload == "graph" for member in (*ours, *theirs)):
        return 0.5
    few, many = (ours, theirs) if len(ours) <= len(theirs) else (theirs, ours)
    few_classes, many_classes = ({member.identity.op_class for member in side} for side in (few, many))
    if telling & _ranges(few) & _ranges(many) or _ops(few) & _ops(many):
        return 0.7
    if "attention" in few_classes and many_classes & {"softmax", "gemm"}:
        return 0.9
    if len(many) == 1:
        return 0.4 if "other" in few_classes | many_classes else 0.0
    if set().union(*map(_does, few)) & set().union(*map(_does, many)):
        return 0.8
    if few_classes | many_classes <= _ROW_WISE | {"other"} or (few_classes & many_classes & _PRODUCTS):
        return 0.5
    return 0.0


def _ranges(members: Token) -> set[str]:
    return {member.nvtx[-1] for member in members if member.nvtx}


def _ops(members: Token) -> set[str]:
    return {member.op for member in members if member.op}


def _absorb(token: Token, is_ours: bool, beside: Sequence[int], matched: dict[int, Match]) -> Iterator[Match]:
    """Put what has no pair into the pair next to it whose other side does its work too; else it stands alone."""
    for place in beside:
        pair = matched[place]
        own, opposite = (pair.base, pair.new) if is_ours else (pair.new, pair.base)
        sureness = _does_too(token, own, opposite)
        if sureness:
            whole = tuple(sorted((*own, *token), key=lambda member: member.place))
            base, new = (whole, opposite) if is_ours else (opposite, whole)
            matched[place] = Match(base, new, min(pair.sureness, sureness))
            return
    yield Match(token, (), 1.0) if is_ours else Match((), token, 1.0)


def _does_too(token: Token, own: Token, opposite: Token) -> float:
    """How sure it is that ``opposite`` does the work of ``token`` beside that of ``own``; 0 where nothing says so."""
    works = set().union(*map(_does, opposite)) - set().union(*map(_does, own))
    if set().union(*map(_does, token)) & works:
        return 0.8
    classes = {member.identity.op_class for member in token}
    if classes <= _POINTWISE and _epilogues(opposite) - _epilogues(own):
        return 0.6
    if classes <= _PRODUCTS:
        mine, others, added = (_flops(members) for members in (own, opposite, token))
        if mine and others and added and abs(log((mine + added) / others)) < abs(log(mine / others)):
            return 0.7
    return 0.0


def _epilogues(members: Token) -> set[str]:
    """What products do with their result, as far as their names tell."""
    return {
        word.lower()
        for member in members
        if member.identity.op_class in _PRODUCTS
        for word in _EPILOGUE.findall(member.kernel.demangled[:_READ_OF_A_FULL_NAME])
    }


_READ_OF_A_FULL_NAME = 2000


def _flops(members: Token) -> float:
    return sum(flops_of(member) or 0.0 for member in members)
