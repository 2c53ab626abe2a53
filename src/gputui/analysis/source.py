"""Which lines of a kernel the time goes to, and which line a finding is about.

Lines are source lines where the report knows them, and single instructions where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gputui.analysis.finding import Finding
from gputui.model.source import Instruction, SourceListing

FlagId = Literal[
    "uncoalesced", "bank-conflicts", "local-memory", "divergent-branch", "few-threads", "atomic", "barrier", "stall"
]  # fmt: skip

HOT_PCT = 10.0
ONE_STALL_PCT = 30.0
"""NVIDIA marks a line that has over 10 % of the samples where over 30 % of those wait for the same."""

_EXCESS_OF_LINE = {"global": 0.2, "shared": 0.1}
"""What part of a line's sectors or turns is excess before it is marked: the lines of our kernel-wide findings."""
_PART_OF_KERNEL = 0.05
"""... and how much of the kernel's it must be."""

_FEW_THREADS = 24
"""As for the whole kernel: NVIDIA's line."""

_WORKING = ("selected", "not_selected")
"""Reasons under which a warp does not wait for anything of its own."""

_LOCAL = frozenset(("LDL", "STL"))
_LOADS = frozenset(("LDG", "LD", "LDGSTS"))
_STORES = frozenset(("STG", "ST"))
_ATOMS = frozenset(("ATOM", "ATOMG", "RED", "REDG", "ATOMS"))
_FILLS = frozenset(("LDG", "LD", "LDL", "TEX", "TLD", "ATOM", "ATOMG"))
_BARRIERS = frozenset(("BAR",))
_FP64 = frozenset(("DADD", "DFMA", "DMUL", "DSETP", "DMNMX"))
_PRODUCTS = frozenset(("FFMA", "FFMA2", "HFMA2"))


@dataclass(frozen=True, slots=True)
class Stall:
    """``share_pct`` is the part of the line's samples that wait for ``reason``."""

    reason: str
    samples: float
    share_pct: float


@dataclass(frozen=True, slots=True)
class Flag:
    """Something about a line that costs time; ``params`` fill its texts ``ui.source_flag.<id>``."""

    id: FlagId
    params: Mapping[str, Any]


@dataclass(frozen=True)
class HotLine:
    """One line: a source line, or one instruction where ``line`` is 0.

    ``number`` is the place of its first instruction in the program, from 1. ``share_pct`` is its part of all samples,
    ``None`` where the report has none. ``text`` is the source text, ``None`` where the report does not hold it.
    ``executed`` sums the warps over its instructions, ``threads`` is the mean of active threads of those.
    """

    file: str
    line: int
    number: int
    text: str | None
    instructions: tuple[Instruction, ...]
    samples: float
    share_pct: float | None
    stalls: tuple[Stall, ...]
    executed: float
    threads: float | None
    flags: tuple[Flag, ...]

    @cached_property
    def sass(self) -> str:
        """Its instruction with the most samples."""
        return max(self.instructions, key=lambda one: (one.samples, one.executed)).sass

    @property
    def is_hot(self) -> bool:
        """Whether NVIDIA's rule would mark it."""
        return any(flag.id == "stall" for flag in self.flags)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding shows: a line, and what part of what the finding counts is there.

    ``what`` names what is counted, as in ``ui.source_place``.
    """

    line: HotLine
    share_pct: float
    what: str


class Source:
    """A kernel's lines, hottest first (``lines``)."""

    def __init__(self, listing: SourceListing) -> None:
        self.listing = listing
        self.samples = sum(one.samples for one in listing.instructions)
        self._number = {one.address: number for number, one in enumerate(listing.instructions, 1)}
        groups: dict[tuple[str, int, int], list[Instruction]] = {}
        for one in listing.instructions:
            groups.setdefault((one.file, one.line, 0 if one.line else one.address), []).append(one)
        self._totals = {
            "global": sum(one.global_sectors for one in listing.instructions),
            "shared": sum(one.shared_wavefronts for one in listing.instructions),
            "executed": sum(one.executed for one in listing.instructions),
            "idle": _idle(listing.instructions),
        }
        lines = [self._line(tuple(group)) for group in groups.values()]
        lines.sort(key=lambda line: (-(line.samples if self.samples else line.executed), line.number))
        self.lines: tuple[HotLine, ...] = tuple(lines)
        self._places: dict[str, tuple[Place, ...]] = {}
        self._line_of = {one.address: line for line in self.lines for one in line.instructions}

    @cached_property
    def has_source(self) -> bool:
        """Whether instructions are tied to source lines (the program was built with line numbers)."""
        return any(line.line for line in self.lines)

    @cached_property
    def has_text(self) -> bool:
        return any(line.text is not None for line in self.lines)

    @cached_property
    def in_program_order(self) -> tuple[HotLine, ...]:
        """Source lines by file, in the order in which the program first enters the files, then by number."""
        first: dict[str, int] = {}
        for line in sorted(self.lines, key=lambda one: one.number):
            first.setdefault(line.file, len(first))
        return tuple(sorted(self.lines, key=lambda one: (first[one.file] if one.line else -1, one.line, one.number)))

    @cached_property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.file for line in self.lines if line.file))

    def number_of(self, instruction: Instruction) -> int:
        """Its place in the program, from 1."""
        return self._number[instruction.address]

    def line_of(self, instruction: Instruction) -> HotLine:
        return self._line_of[instruction.address]

    def feeder(self, instruction: Instruction) -> Instruction | None:
        """The load that an instruction most likely waits for, where it mostly waits for memory.

        It is the nearest load above that fills a register which the instruction reads and nothing in between fills
        anew. Jumps are not followed, so this is a guess: right in straight code and unrolled loops.
        """
        stalls = ranked_stalls(instruction.stalls, instruction.samples)
        if not stalls or stalls[0].reason != "long_scoreboard":
            return None
        _, wanted = _registers(instruction.sass)
        place = self._number[instruction.address] - 1
        for one in reversed(self.listing.instructions[max(0, place - _LOOK_BACK) : place]):
            written, _ = _registers(one.sass)
            if wanted & written and one.opcode in _FILLS:
                return one
            wanted -= written
            if not wanted:
                return None
        return None

    def around(self, line: HotLine, lines: int) -> tuple[tuple[int, str], ...]:
        """The known source text from ``lines`` before this line to as many behind it."""
        known = self.listing.lines
        numbers = range(max(1, line.line - lines), line.line + lines + 1)
        return tuple((n, known[line.file, n].text) for n in numbers if (line.file, n) in known)

    def places_of(self, finding: str | Finding) -> tuple[Place, ...]:
        """The lines that carry a finding, those with most of what it counts first; empty where none can be told."""
        id = finding if isinstance(finding, str) else finding.id
        if id not in self._places:
            self._places[id] = self._places_of(id)
        return self._places[id]

    def _places_of(self, id: str) -> tuple[Place, ...]:
        found: dict[int, Place] = {}
        for what, weigh in _weights_of(id):
            weights: dict[int, float] = {}
            for one, weight in weigh(self.listing.instructions):
                if weight > 0:
                    line = self._line_of[one.address]
                    weights[id_of(line)] = weights.get(id_of(line), 0.0) + weight
            total = sum(weights.values())
            for key, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
                # What is spread thinly over many lines has no place.
                if weight >= 0.1 * total:
                    found.setdefault(key, Place(self._line_by_key[key], 100 * weight / total, what))
        return tuple(found.values())[:_MOST_PLACES]

    @cached_property
    def _line_by_key(self) -> Mapping[int, HotLine]:
        return {id_of(line): line for line in self.lines}

    def _line(self, group: tuple[Instruction, ...]) -> HotLine:
        first = group[0]
        samples = sum(one.samples for one in group)
        reasons: dict[str, float] = {}
        for one in group:
            for reason, count in one.stalls.items():
                reasons[reason] = reasons.get(reason, 0.0) + count
        stalls = ranked_stalls(reasons, samples)
        executed = sum(one.executed for one in group)
        threads = sum(one.threads for one in group)
        known = self.listing.lines.get((first.file, first.line)) if first.line else None
        share = 100 * samples / self.samples if self.samples else None
        return HotLine(
            file=first.file,
            line=first.line,
            number=self._number[first.address],
            text=None if known is None else known.text,
            instructions=group,
            samples=samples,
            share_pct=share,
            stalls=stalls,
            executed=executed,
            threads=threads / executed if executed and "threads" in self.listing.measured else None,
            flags=tuple(self._flags(group, share, stalls, executed, threads)),
        )

    def _flags(
        self,
        group: tuple[Instruction, ...],
        share: float | None,
        stalls: tuple[Stall, ...],
        executed: float,
        threads: float,
    ) -> Iterable[Flag]:
        for id, kind in (("uncoalesced", "global"), ("bank-conflicts", "shared")):
            total, ideal = _moved(group, kind)
            if ideal and self._is_wasteful(kind, total, ideal):
                yield Flag(id, {"needed": total, "ideal": ideal, "ratio": total / ideal})  # type: ignore[arg-type]
        local = [one for one in group if one.opcode in _LOCAL or one.local_sectors]
        moved = sum(one.executed for one in local)
        if moved >= 0.01 * self._totals["executed"] > 0:
            yield Flag("local-memory", {"count": moved, "share_pct": 100 * moved / executed if executed else 0.0})
        branches = sum(one.divergent for one in group)
        branching = sum(one.executed for one in group if one.divergent)
        if branching and branches >= 0.1 * branching:
            yield Flag("divergent-branch", {"count": branches, "executed": branching})
        if (
            threads
            and executed
            and threads / executed < _FEW_THREADS
            and _idle(group) >= _PART_OF_KERNEL * self._totals["idle"]
        ):
            yield Flag("few-threads", {"threads": threads / executed})
        opcodes = {one.opcode for one in group}
        if opcodes & _ATOMS:
            count = sum(one.executed for one in group if one.opcode in _ATOMS)
            yield Flag("atomic", {"count": count})
        if opcodes & _BARRIERS:
            yield Flag("barrier", {"count": sum(one.executed for one in group if one.opcode in _BARRIERS)})
        waiting = [one for one in stalls if one.reason not in _WORKING]
        if waiting and (share or 0) > HOT_PCT and waiting[0].share_pct > ONE_STALL_PCT:
            yield Flag("stall", {"share_pct": share, "stall_pct": waiting[0].share_pct, "reason": waiting[0].reason})

    def _is_wasteful(self, kind: str, total: float, ideal: float) -> bool:
        excess = total - ideal
        return excess >= _EXCESS_OF_LINE[kind] * total and excess >= _PART_OF_KERNEL * self._totals[kind]


def ranked_stalls(reasons: Mapping[str, float], samples: float) -> tuple[Stall, ...]:
    """Reasons by their samples, most first."""
    whole = max(samples, sum(count for count in reasons.values() if count > 0))
    return tuple(
        Stall(reason, count, 100 * count / whole)
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        if count > 0
    )


_MOST_PLACES = 3
_LOOK_BACK = 1000
_REGISTER = re.compile(r"\bR(\d{1,3})(\.64)?")
_WITHOUT_RESULT = ("ST", "BRA", "BAR", "RED", "EXIT", "RET", "CALL", "LDGSTS")


def _registers(sass: str) -> tuple[set[int], set[int]]:
    """The registers that an instruction writes, and those it reads, as its text tells."""
    name, _, operands = re.sub(r"^@!?U?P\w+\s+", "", sass).partition(" ")
    found = [(int(number), 2 if wide else 1) for number, wide in _REGISTER.findall(operands)]
    if not found:
        return set(), set()
    first = operands.lstrip()[:1] == "R" and not name.startswith(_WITHOUT_RESULT)
    reads = {number + i for number, size in (found[1:] if first else found) for i in range(size)}
    if not first:
        return set(), reads
    width = 4 if ".128" in name else 2 if ".64" in name or "WIDE" in name else 1
    return {found[0][0] + i for i in range(width)}, reads


def id_of(line: HotLine) -> int:
    """What tells a line from the others of its kernel."""
    return line.number


def _moved(group: Iterable[Instruction], kind: str) -> tuple[float, float]:
    if kind == "global":
        return sum(one.global_sectors for one in group), sum(one.global_ideal for one in group)
    return sum(one.shared_wavefronts for one in group), sum(one.shared_ideal for one in group)


def _idle(group: Iterable[Instruction]) -> float:
    """Places for threads that were empty, over all warps."""
    return sum(32 * one.executed - one.threads for one in group if one.threads)


_Weigh = Callable[[tuple[Instruction, ...]], Iterable[tuple[Instruction, float]]]


def _each(weight: Callable[[Instruction], float]) -> _Weigh:
    return lambda instructions: ((one, weight(one)) for one in instructions)


def _excess(one: Instruction) -> float:
    # Without the ideal there is no telling which are too many.
    return max(0.0, one.global_sectors - one.global_ideal) if one.global_ideal else 0.0


def _of(opcodes: frozenset[str], weight: Callable[[Instruction], float]) -> _Weigh:
    return _each(lambda one: weight(one) if one.opcode in opcodes else 0.0)


def _barrier_waits(instructions: tuple[Instruction, ...]) -> Iterable[tuple[Instruction, float]]:
    """A warp that waits at a barrier has issued it, and goes on to the first instruction that must not pass it: its
    samples stand there, behind the barrier that it waits at."""
    barrier, distance = None, 0
    for one in instructions:
        distance += 1
        waiting = one.stalls.get("barrier", 0.0)
        yield (barrier if barrier is not None and distance <= _BEHIND_BARRIER else one), waiting
        if one.opcode in _BARRIERS:
            barrier, distance = one, 0


_BEHIND_BARRIER = 32


_PLACES: Mapping[str, tuple[tuple[str, _Weigh], ...]] = {
    "uncoalesced-load": (("sectors", _of(_LOADS, _excess)),),
    "uncoalesced-store": (("sectors", _of(_STORES | _ATOMS, _excess)),),
    "bank-conflicts": (
        ("turns", _each(lambda one: max(0.0, one.shared_wavefronts - one.shared_ideal) if one.shared_ideal else 0.0)),
    ),
    "register-spill": (("spills", _of(_LOCAL, lambda one: one.executed)),),
    "thread-divergence": (
        ("branches", _each(lambda one: one.divergent)),
        ("lanes", _each(lambda one: _idle((one,)))),
    ),
    "fp64-on-slow-part": (("instructions", _of(_FP64, lambda one: one.executed)),),
    "tensor-cores-unused": (("instructions", _of(_PRODUCTS, lambda one: one.executed)),),
    "stall-barrier": (("samples", _barrier_waits),),
}


def _weights_of(id: str) -> tuple[tuple[str, _Weigh], ...]:
    if id in _PLACES:
        return _PLACES[id]
    if id.startswith("atomic"):
        return (("atomics", _of(_ATOMS, lambda one: one.executed)),)
    if id.startswith("stall-"):
        reason = id.removeprefix("stall-").replace("-", "_")
        names = {"no_instruction": "no_instructions", "gmma": "warpgroup_arrive", "imc": "imc_miss"}
        wanted = names.get(reason, reason)
        names_tried = (wanted, f"{wanted}_stall")
        return (("samples", _each(lambda one: sum(one.stalls.get(name, 0.0) for name in names_tried))),)
    return ()


def lines_of(finding: str | Finding, listing: SourceListing) -> tuple[HotLine, ...]:
    """The lines that carry a finding's evidence."""
    return tuple(place.line for place in Source(listing).places_of(finding))


def hot_lines(listing: SourceListing) -> tuple[HotLine, ...]:
    """The kernel's lines, those with most samples first."""
    return Source(listing).lines
