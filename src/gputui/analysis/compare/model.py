"""What a comparison of two sides is made of. No words: those are in ``data/wording`` under ``compare``.

A *side* is one report, or the reports of one run; ``base`` is before the change, ``new`` after it. Times are ns and
bytes are bytes, both a pass: a side that did the same work several times is told for one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from gputui.analysis.links import normalised

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding, Level, VerdictId
    from gputui.analysis.kernel_names import KernelIdentity
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.transformer import TransformerOp
    from gputui.model.device import Device
    from gputui.model.kernel import Kernel
    from gputui.model.report import Report

Kind = Literal["counters", "timeline"]
Trend = Literal["up", "down", "same", "unknown"]
Outcome = Literal["faster", "slower", "no-difference", "inconclusive"]
How = Literal["same", "alike", "replaced", "fused", "split", "gone", "added"]
"""How kernels of the base became those of the new side: the same function; another that does the same; others in their
place; fewer, or more, that do their work; nothing; or they came out of nothing."""
Fusion = Literal["fused", "split", "both", "fewer", "more", "same", "unknown"]
"""Whether kernels were fused, or split up; else whether there are fewer of them, or more, for another reason."""
Answer = Literal["time", "wall", "tensor", "dram", "kernels"]
"""What a caution may leave open."""


@dataclass(frozen=True, slots=True, order=True)
class KernelKey:
    """What a kernel is known by when it is paired by hand: its function, its NVTX ranges without numbers, and how many
    such a pass has launched before it."""

    function: str
    nvtx: str = ""
    nth: int = 0


@dataclass(frozen=True, slots=True)
class Pairing:
    """What the user says became what; nothing on one side: it is gone, or was added.

    ``kind`` is that of the reports on which it was said: the same function is another launch in a timeline and in
    counters. ``None`` for both.
    """

    base: frozenset[KernelKey]
    new: frozenset[KernelKey]
    kind: Kind | None = None


@dataclass(frozen=True, eq=False)
class Member:
    """One place in the work of a side: what is launched there, in each of its passes.

    ``place`` counts in launch order. ``kernel`` is the first launch; of a timeline it stands for all and has a name and
    a shape alone. ``durations_ns`` has a sample a pass and is empty where no time is told. ``diagnoses`` are of those
    launches; a timeline has none. ``nvtx`` are the ranges around it, without numbers. ``count`` is how many launches of
    a pass it stands for, on average: those of a timeline whose steps are not alike are told together. ``nth`` counts
    those of its kind before it.
    """

    place: int
    kernel: Kernel
    identity: KernelIdentity
    op: TransformerOp | None
    nvtx: tuple[str, ...]
    durations_ns: tuple[float, ...]
    diagnoses: tuple[Diagnosis, ...] = ()
    count: float = 1.0
    nth: int = 0

    @cached_property
    def kind(self) -> tuple[str, str]:
        """The function and its NVTX ranges: those of a kind do the same, as far as names tell."""
        return normalised(self.kernel.demangled), "/".join(self.nvtx)

    @property
    def key(self) -> KernelKey:
        return KernelKey(*self.kind, self.nth)

    @property
    def time_ns(self) -> float | None:
        return sum(self.durations_ns) / len(self.durations_ns) if self.durations_ns else None


def numbered(members: Iterable[Member]) -> tuple[Member, ...]:
    """Members of a pass in launch order, each with its ``nth``."""
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for member in members:
        found.append(replace(member, nth=counts[member.kind]) if counts[member.kind] else member)
        counts[member.kind] += 1
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Amounts:
    """What some members take together in a pass. ``None`` where the report does not tell it of each of them.

    ``tensor_pct``, ``sm_pct``, ``dram_pct`` and the clocks are means weighted by time. ``flops`` are all operations
    that the report counts, tensor and others. ``verdict`` is the one that holds for most of the time, ``verdict_share``
    of it (0-1).
    """

    kernels: int = 0
    time_ns: float | None = None
    tensor_pct: float | None = None
    tensor_ops: float | None = None
    flops: float | None = None
    dram_bytes: float | None = None
    sm_pct: float | None = None
    dram_pct: float | None = None
    sm_clock_hz: float | None = None
    dram_clock_hz: float | None = None
    verdict: VerdictId | None = None
    level: Level | None = None
    verdict_share: float | None = None


@dataclass(frozen=True, slots=True)
class TimeChange:
    """How much faster: ``speedup`` is before over after, above 1 where it got faster, with its 95 % bounds.

    ``samples`` are the passes of the base and the new side. ``noise`` says what the bounds come from: the ``passes``,
    other ``launches`` of the same kernels, ``controls`` (library kernels that did not change), or they are
    ``assumed``; ``noise_pct`` is half their width. ``at_equal_clocks`` are the least and the most that the speed-up
    would be at equal clocks; ``None`` where those do not differ. ``because`` names the cautions that left it open.
    """

    before_ns: float | None
    after_ns: float | None
    speedup: float | None
    low: float | None
    high: float | None
    samples: tuple[int, int]
    noise: Literal["passes", "launches", "controls", "assumed"]
    noise_pct: float
    outcome: Outcome
    at_equal_clocks: tuple[float, float] | None = None
    because: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Group:
    """Kernels of the base and what they became.

    ``times`` such places of a pass are told together. ``sureness`` (0-1) is of the pairing, which is 1 where it was
    made ``by_hand``. ``same_work`` is whether both do the same work, ``None`` where the reports do not tell. ``time``
    is ``None`` where one side is empty.
    """

    number: int
    base: tuple[Member, ...]
    new: tuple[Member, ...]
    how: How
    times: int
    sureness: float
    by_hand: bool
    before: Amounts
    after: Amounts
    time: TimeChange | None
    same_work: bool | None

    @property
    def longest_base(self) -> Member | None:
        return max(self.base, key=lambda member: member.time_ns or 0.0, default=None)

    @property
    def longest_new(self) -> Member | None:
        return max(self.new, key=lambda member: member.time_ns or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class Caution:
    """What must be said first: text ``compare.caution.<id>``, filled by ``params``. ``open`` are the answers that it
    leaves open."""

    id: str
    params: Mapping[str, Any] = field(default_factory=dict)
    open: frozenset[Answer] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """One of the three answers. ``before`` and ``after`` are tensor use in percent, DRAM bytes, or kernels a pass.

    ``because`` names what leaves it open (text ``compare.open.<id>``), empty where it is not.
    """

    trend: Trend
    before: float | None
    after: float | None
    because: str = ""

    @property
    def ratio(self) -> float | None:
        """After over before; ``None`` where one is not known or before is nothing."""
        return self.after / self.before if self.before and self.after is not None else None


@dataclass(frozen=True, slots=True)
class NextChange:
    """What to change next: the finding of a kernel of the new side that gains the program most.

    ``share`` is the kernel's of the new side's time (0-1), ``gain`` how many times faster the whole gets at most.
    """

    member: Member
    diagnosis: Diagnosis
    finding: Finding
    share: float
    gain: float


@dataclass(frozen=True, slots=True)
class Wall:
    """How long the steps of a timeline took, in ns, each a sample; ``source`` as ``Steps.source``, or ``"span"``: from
    the first to the last work of the GPU, once. ``busy_pct`` is how much of that the GPU did anything."""

    durations_ns: tuple[float, ...]
    source: Literal["nvtx", "kernels", "span"]
    busy_pct: float | None = None


@dataclass(frozen=True, eq=False)
class Side:
    """One side. ``members`` are what one pass launches, ``passes`` how often that was done; ``launches`` counts all.

    ``is_part`` says that the report was told to leave launches out, so that what is missing need not be gone.
    ``is_chosen`` says that these are some kernels of a timeline, or those of some NVTX ranges: ``diagnosis`` is of all.
    ``is_cyclic`` says that the first member need not be what the program does first: a pass may begin anywhere.
    ``wall`` and ``diagnosis`` are of a timeline.
    """

    kind: Kind
    reports: tuple[Report, ...]
    members: tuple[Member, ...]
    passes: int
    launches: int
    is_part: bool
    wall: Wall | None = None
    diagnosis: TimelineDiagnosis | None = None
    is_chosen: bool = False
    is_cyclic: bool = False

    @property
    def device(self) -> Device | None:
        return self.members[0].kernel.device if self.members else None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything said about two sides. ``groups`` come with the longest first; ``before`` and ``after`` are of all of
    them. ``time`` is the GPU's, ``wall`` the program's, where timelines tell it."""

    kind: Kind
    base: Side
    new: Side
    cautions: tuple[Caution, ...]
    groups: tuple[Group, ...]
    before: Amounts
    after: Amounts
    tensor: Change
    dram: Change
    kernels: Change
    fusion: Fusion
    time: TimeChange
    wall: TimeChange | None
    next: NextChange | None

    @property
    def is_part(self) -> bool:
        """Whether one side left launches out, so that what the other has alone need not be gone or new."""
        return self.base.is_part or self.new.is_part

    @property
    def fused(self) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if group.how == "fused")

    @property
    def split(self) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if group.how == "split")

    @property
    def slowest(self) -> Group | None:
        """Where the new side still spends most of its time."""
        return max(
            (group for group in self.groups if group.new), key=lambda group: group.after.time_ns or 0.0, default=None
        )
