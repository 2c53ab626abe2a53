"""The tables of a timeline: copies by kind, NVTX ranges short enough to read, and what was asked for of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from gputui.analysis.nvtx import RangeNode
from gputui.analysis.steps import without_numbers
from gputui.analysis.timeline import Mask, TimelineFacts, groups
from gputui.model.timeline import CopyKind, MemoryKind, OpKind

if TYPE_CHECKING:
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_kernels import KernelShare


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies of one direction, or all memsets (``kind`` is ``None``).

    ``host`` is where the host's end lies, ``UNKNOWN`` where none of the two is the host's or the file does not tell.
    ``bytes`` is ``None`` where the file does not tell it of each. ``total_ns`` sums their times: those of copies at
    the same time too.
    """

    kind: CopyKind | None
    host: MemoryKind
    count: int
    bytes: int | None
    total_ns: int

    @property
    def bytes_per_s(self) -> float | None:
        """Over the time that they ran."""
        return None if self.bytes is None or self.total_ns <= 0 else self.bytes / self.total_ns * 1e9


_FROM_HOST = (CopyKind.HOST_TO_DEVICE, CopyKind.HOST_TO_ARRAY, CopyKind.HOST_TO_HOST, CopyKind.UNIFIED_HOST_TO_DEVICE)
_TO_HOST = (CopyKind.DEVICE_TO_HOST, CopyKind.ARRAY_TO_HOST, CopyKind.UNIFIED_DEVICE_TO_HOST)


def copies(facts: TimelineFacts, chosen: Mask | None = None) -> tuple[Copies, ...]:
    """The copies and memsets (of these operations), the longest total first."""
    ops, transfers = facts.timeline.ops, facts.timeline.transfers
    wanted = facts.ops_of(kinds=(OpKind.COPY, OpKind.MEMSET)) & (ops.detail >= 0)
    rows = np.flatnonzero(wanted if chosen is None else wanted & chosen)
    if not len(rows):
        return ()
    detail = ops.detail[rows]
    kind = np.where(ops.kind[rows] == OpKind.MEMSET, _MEMSET, transfers.kind[detail].astype(np.int64))
    host = np.full(len(rows), MemoryKind.UNKNOWN, dtype=np.int64)
    for kinds, end in ((_FROM_HOST, transfers.source), (_TO_HOST, transfers.target)):
        there = np.isin(kind, kinds)
        host[there] = end[detail[there]]
    keys, place = np.unique(kind * _MEMORY_KINDS + host, return_inverse=True)
    counts = np.bincount(place)
    size = transfers.bytes[detail]
    untold = np.bincount(place[size < 0], minlength=len(keys))
    sizes, times = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    np.add.at(sizes, place, size)
    np.add.at(times, place, ops.duration[rows])
    found = [
        Copies(
            _copy_kind(key // _MEMORY_KINDS), _memory_kind(key % _MEMORY_KINDS), count, None if unknown else total, time
        )
        for key, count, unknown, total, time in zip(
            *(column.tolist() for column in (keys, counts, untold, sizes, times)), strict=True
        )
    ]
    return tuple(sorted(found, key=lambda one: -one.total_ns))


_MEMSET = 256
_MEMORY_KINDS = 256


def _copy_kind(value: int) -> CopyKind | None:
    if value == _MEMSET:
        return None
    return CopyKind(value) if value in CopyKind.__members__.values() else CopyKind.UNKNOWN


def _memory_kind(value: int) -> MemoryKind:
    return MemoryKind(value) if value in MemoryKind.__members__.values() else MemoryKind.UNKNOWN


def matching(nodes: Iterable[RangeNode], pattern: re.Pattern[str]) -> tuple[RangeNode, ...]:
    """The outermost ranges whose path the pattern finds, the longest first.

    A path is names joined by ``/``: as they are, or with ``#`` for numbers as they are shown.
    """
    found: list[RangeNode] = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        path = "/".join(node.path)
        if pattern.search(path) or pattern.search(without_numbers(path)):
            found.append(node)
        else:
            waiting += node.children
    return tuple(sorted(found, key=lambda node: -node.cpu_ns))


def ops_of_nodes(facts: TimelineFacts, nodes: Sequence[RangeNode]) -> Mask:
    """The operations that these ranges launched."""
    rows = np.concatenate([node.rows for node in nodes]) if nodes else np.zeros(0, dtype=np.int32)
    return facts.ops_of_ranges(rows)


PARTICULARS = re.compile(r", (?:seq|op_id|sizes) = .*", re.DOTALL)
"""What ``torch.autograd.profiler.emit_nvtx`` writes behind the name of an operation."""


def condensed(nodes: Iterable[RangeNode], more_than: int = 1) -> tuple[RangeNode, ...]:
    """Ranges beside one another whose names differ in numbers alone as one, where they are ``more_than`` so many, with
    ``#`` for the numbers.

    Times and counts are sums of the parts'; the longest CPU time first. Their children are as they were: condense
    those when they are shown.
    """
    alike = sorted(nodes, key=_likeness)
    found: list[RangeNode] = []
    for _, group in groupby(alike, key=_likeness):
        same = list(group)
        found += same if 1 < len(same) <= more_than else [_merge(same)]
    return tuple(sorted(found, key=lambda node: -node.cpu_ns))


def _likeness(node: RangeNode) -> tuple[str, str, int]:
    return without_numbers(PARTICULARS.sub("", node.name)), node.domain, node.kind


def _merge(nodes: Sequence[RangeNode]) -> RangeNode:
    first = nodes[0]
    name = PARTICULARS.sub("", first.name)
    if len(nodes) == 1:
        return replace(first, path=(*first.path[:-1], name))
    return replace(
        first,
        path=(*first.path[:-1], without_numbers(name)),
        count=sum(node.count for node in nodes),
        cpu_ns=sum(node.cpu_ns for node in nodes),
        projected_ns=sum(node.projected_ns for node in nodes),
        busy_ns=sum(node.busy_ns for node in nodes),
        idle_ns=None if first.idle_ns is None else sum(node.idle_ns or 0 for node in nodes),
        kernels=sum(node.kernels for node in nodes),
        rows=np.concatenate([node.rows for node in nodes]),
        children=tuple(child for node in nodes for child in node.children),
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a timeline to tell of: kernels of certain names, and what certain NVTX ranges launched.

    ``nodes`` are the chosen ranges: all where nothing was asked for, none where kernels were chosen by name alone.
    Where ranges were asked for, ``kernels`` have the ``group`` and ``share`` of what those launched. ``ops`` are the
    operations, as a mask; copies are among them unless kernels were chosen by name, which ``by_name`` says.
    ``is_whole`` says that nothing was left out.
    """

    facts: TimelineFacts
    kernels: tuple[KernelShare, ...]
    nodes: tuple[RangeNode, ...]
    ops: Mask
    is_whole: bool
    by_name: bool

    @property
    def copies(self) -> tuple[Copies, ...]:
        return copies(self.facts, None if self.is_whole else self.ops)


def select(
    diagnosis: TimelineDiagnosis, kernel: re.Pattern[str] | None = None, nvtx: re.Pattern[str] | None = None
) -> Selection:
    """What these patterns find: in kernel names short or full, and in the paths of ranges, ``outer/inner``."""
    facts, shares = diagnosis.facts, diagnosis.kernels
    nodes = matching(facts.range_tree, nvtx) if nvtx is not None else facts.range_tree if kernel is None else ()
    ops = select_ops(facts, kernel, nvtx)
    if kernel is not None:
        shares = tuple(share for share in shares if _is_named(facts, share.group.name, kernel))
    if nvtx is not None:
        inside = {group.name: group for group in groups(facts.timeline.ops, ops & facts.kernel_mask)}
        found = [replace(one, group=inside[one.group.name]) for one in shares if one.group.name in inside]
        shares = tuple(
            replace(one, share=one.group.share) for one in sorted(found, key=lambda one: -one.group.total_ns)
        )
    return Selection(facts, shares, nodes, ops, is_whole=kernel is None and nvtx is None, by_name=kernel is not None)


def select_ops(
    facts: TimelineFacts, kernel: re.Pattern[str] | None = None, nvtx: re.Pattern[str] | None = None
) -> Mask:
    """The operations that these patterns find, as a mask."""
    ops = facts.ops_of()
    if nvtx is not None:
        ops = ops_of_nodes(facts, matching(facts.range_tree, nvtx))
    if kernel is not None:
        names = [group.name for group in facts.kernels if _is_named(facts, group.name, kernel)]
        ops = ops & facts.kernel_mask & np.isin(facts.timeline.ops.name, np.array(names, dtype=np.int32))
    return ops


def _is_named(facts: TimelineFacts, name: int, pattern: re.Pattern[str]) -> bool:
    """Whether the pattern finds a kernel's full name or its short one."""
    return any(pattern.search(one) is not None for one in (facts.timeline.name(name), facts.short_name(name)))
