"""Which kernels of a timeline deserve Nsight Compute, and what profiling them costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gputui.analysis.ncu_command import LAUNCHES, Commands, Launches, nvtx_filters
from gputui.analysis.steps import without_numbers
from gputui.analysis.timeline import Mask, TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.analysis.timeline_kernels import KernelShare
from gputui.analysis.timeline_tables import PARTICULARS, Selection, ops_of_nodes, select
from gputui.errors import GputuiError


@dataclass(frozen=True, slots=True)
class Proposal:
    """A kernel that may be profiled.

    ``share`` as in ``KernelShare`` (of the chosen NVTX ranges where some were asked for). ``gain`` bounds how much
    faster the program gets: its ``amdahl``, and ``None`` where too little was recorded to speak of the program.
    ``is_proposed``: marked at the start. ``reason`` is an id under ``run.reason`` for why it is or is not.
    ``seconds`` estimates what profiling it takes: running the program, which goes on to its end, and replaying its
    launches; ``None`` where nothing tells how long the program runs. ``skip`` and ``count`` are ncu's
    ``--launch-skip`` and ``--launch-count`` where it is profiled alone.
    """

    share: KernelShare
    gain: float | None
    is_proposed: bool
    reason: str
    seconds: float | None
    skip: int
    count: int


_MOST = 5
"""Kernels marked at the start: what the first few tell is mostly enough to go on."""
_PASSES = 40
"""How often ncu replays a launch for the set ``full``: 31 to 38 times in public logs, and some for our sections."""
_PASS_S = 0.05
"""What a pass takes beside the kernel itself (1.9 s a launch of 38 passes on an H200 with ncu 2025.3)."""
_SET_UP_S = 3.0
"""What ncu takes before the first launch (seen there: 2 to 4 s)."""


_UNKNOWN_S = 60.0
"""What is taken for a program's time where nothing tells it."""


def propose(
    diagnosis: TimelineDiagnosis,
    kernel: str | None = None,
    nvtx: str | None = None,
    *,
    top: int | None = None,
    launches: int = LAUNCHES,
) -> tuple[Proposal, ...]:
    """The kernels, or those that were asked for, the longest total first, and which of them to profile.

    ``top`` marks so many, whether they deserve it or not. Collectives are never marked: they hang when they are
    replayed. Raises ``GputuiError`` where nothing has the names asked for.
    """
    chosen = Chosen(diagnosis, kernel, nvtx)
    asked = "asked" if not chosen.selection.is_whole else "longest" if top is not None else ""
    most = _MOST if top is None else top
    tells_program = diagnosis.verdict.id != "few"
    found: list[Proposal] = []
    marked = 0
    for share in chosen.selection.kernels:
        needed = chosen.launches((share.group.name,), launches)
        if needed is None:
            continue
        reason = asked or ("small" if not share.deserves else "worth" if tells_program else "few")
        if share.identity.op_class == "communication":
            reason = "collective"
        elif reason != "small" and marked >= most:
            reason = "more"
        is_proposed = reason in ("asked", "longest", "worth", "few")
        marked += is_proposed
        seconds = _seconds(chosen.facts, share, needed.count)
        gain = share.amdahl if tells_program else None
        found.append(Proposal(share, gain, is_proposed, reason, seconds, needed.skip, needed.count))
    return tuple(found)


def _seconds(facts: TimelineFacts, share: KernelShare, count: int) -> float | None:
    if not _is_whole_program(facts):
        return None
    return facts.timeline.span_ns / 1e9 + _SET_UP_S + count * _PASSES * (share.group.mean_ns / 1e9 + _PASS_S)


def _is_whole_program(facts: TimelineFacts) -> bool:
    """Whether the timeline tells how long the program runs: PyTorch's profiler records a few steps of it."""
    return all(file.kind == "nsys" for file in facts.timeline.files)


def is_cheaper(facts: TimelineFacts, together: Launches, apart: Sequence[Launches]) -> bool:
    """Whether one run of the program that profiles them all takes less time than one for each."""
    program = facts.timeline.span_ns / 1e9 if _is_whole_program(facts) else _UNKNOWN_S
    more = together.count - sum(one.count for one in apart)
    return more * _PASSES * _PASS_S < (len(apart) - 1) * (program + _SET_UP_S)


class Chosen:
    """What was asked for of a timeline, and how ncu is told of it. Raises as ``resolve``."""

    def __init__(self, diagnosis: TimelineDiagnosis, kernel: str | None, nvtx: str | None) -> None:
        self.facts = diagnosis.facts
        self.selection = resolve(diagnosis, kernel, nvtx)
        nodes = () if self.selection.is_whole else self.selection.nodes
        self.ranges = nvtx_filters(self.facts, nodes)
        """The filters for ``--nvtx-include``."""
        self._inside = None if self.selection.is_whole else self.selection.ops
        self._counted: Mask | None = ops_of_nodes(self.facts, nodes) if self.ranges else None
        self._commands = Commands(self.facts)

    def launches(self, names: tuple[int, ...], most: int) -> Launches | None:
        """As ``Commands.launches``."""
        return self._commands.launches(names, most, self._inside, self._counted)


# ------------------------------------------------------------------ what people type


def resolve(diagnosis: TimelineDiagnosis, kernel: str | None, nvtx: str | None) -> Selection:
    """What these regular expressions find. ``kernel`` may be what a person calls it: of NVTX ranges and PyTorch
    operators (``attention``, ``aten::matmul``) what they launched, else kernels of that name; upper or lower case only
    matters where both are there. With ``nvtx`` it is a kernel's name alone.

    Raises ``GputuiError`` where nothing is found, with the nearest names.
    """
    if kernel is None and nvtx is None:
        return select(diagnosis)
    for flags in (0, re.IGNORECASE):
        by_name = _pattern("--kernel", kernel, flags)
        by_range = _pattern("--nvtx", nvtx, flags)
        if by_name is not None and by_range is None:
            selection = select(diagnosis, nvtx=by_name)
            if selection.kernels:
                return selection
        selection = select(diagnosis, by_name, by_range)
        if (selection.ops & diagnosis.facts.kernel_mask).any():
            return selection
    raise _nothing_found(diagnosis.facts, kernel, nvtx)


def texts_of(facts: TimelineFacts) -> tuple[str, ...]:
    """All that ``resolve`` looks for an expression in: names of kernels, and ranges with those around them."""
    names = [text for row in facts.kernel_rows for text in (facts.timeline.name(row), facts.short_name(row))]
    waiting = list(facts.range_tree)
    while waiting:
        node = waiting.pop()
        path = "/".join(node.path)
        names += (path, without_numbers(path))
        waiting += node.children
    return tuple(dict.fromkeys(names))


def _pattern(option: str, expression: str | None, flags: int) -> re.Pattern[str] | None:
    try:
        return None if expression is None else re.compile(expression, flags)
    except re.error as error:
        hint = "Write special characters such as ( or [ with a backslash"
        raise GputuiError(f"{option} {expression}", f"is no regular expression ({error})", hint) from error


def _nothing_found(facts: TimelineFacts, kernel: str | None, nvtx: str | None) -> GputuiError:
    title = " ".join(f"{name} {one}" for name, one in (("--nvtx", nvtx), ("--kernel", kernel)) if one is not None)
    ranges = dict.fromkeys(_range_names(facts))
    names = ranges if nvtx is not None else {**ranges, **{facts.short_name(one): None for one in facts.kernel_rows}}
    by_lower = {one.lower(): one for one in reversed(names)}
    near = get_close_matches((nvtx or kernel or "").lower(), by_lower, n=3, cutoff=0.4)
    hints = [f"The nearest: {', '.join(by_lower[one] for one in near)}"] if near else []
    if not any(one.startswith("aten::") for one in ranges):
        hints.append("Names of PyTorch operators such as aten::matmul need a run with --pytorch-ranges")
    what = "that launched a kernel" if nvtx is not None else "and no kernel"
    return GputuiError(title, f"matches no NVTX range {what} in this timeline", ". ".join(hints))


def _range_names(facts: TimelineFacts) -> Iterator[str]:
    """What ranges that launched kernels are called, without numbers."""
    waiting = list(facts.range_tree)
    while waiting:
        node = waiting.pop()
        if node.kernels:
            yield without_numbers(PARTICULARS.sub("", node.name))
            waiting += node.children
