"""Open reports against each other: which of them, and which kernels in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gputui.analysis.compare.answers import compare, kinds_differ
from gputui.analysis.compare.model import Comparison, KernelKey, Pairing, Side
from gputui.analysis.compare.sides import counters_side
from gputui.analysis.compare.timelines import timeline_side
from gputui.analysis.engine import diagnose_all
from gputui.errors import GputuiError

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.model.kernel import Kernel
    from gputui.model.report import Report

Diagnosed = Callable[["Report"], "Sequence[Diagnosis]"]
Explained = Callable[["Report"], "TimelineDiagnosis"]
Pattern = re.Pattern[str]
Pair = tuple[Pattern | None, Pattern | None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to compare; ``None`` asks for nothing.

    Kernels are chosen by their names, short or full, and by NVTX paths (``outer/inner``). ``pairs`` say which of the
    base became which of the new side; ``None`` on one side of a pair: they are gone, or were added.
    """

    base_kernel: Pattern | None = None
    new_kernel: Pattern | None = None
    nvtx: Pattern | None = None
    pairs: tuple[Pair, ...] = ()

    @property
    def by_hand(self) -> tuple[Pair, ...]:
        """The pairs, and what was chosen on both sides: one expression for both chooses, and pairs nothing."""
        base, new = self.base_kernel, self.new_kernel
        return (*self.pairs, (base, new)) if base and new and base != new else self.pairs


def compare_reports(
    base: Sequence[Report],
    new: Sequence[Report],
    chosen: Chosen | None = None,
    pairings: Iterable[Pairing] = (),
    *,
    same_work: bool = False,
    diagnosed: Diagnosed = diagnose_all,
    explained: Explained | None = None,
) -> tuple[Comparison, ...]:
    """The timelines of both sides against each other, then their Nsight Compute reports, as far as both have some.

    Where one of the two cannot be compared, or has none of the kernels chosen, the other one is. ``pairings`` give way
    to those of ``chosen``. ``diagnosed`` and ``explained`` have what is known of a report already. Raises
    ``GputuiError`` where nothing can be compared.
    """
    chosen = chosen or Chosen()
    sides: list[tuple[Side, Side]] = []
    failed: list[GputuiError] = []
    kinds = (
        partial(_timeline_sides, base, new, chosen, explained),
        partial(_counters_sides, base, new, chosen, diagnosed),
    )
    for make in kinds:
        try:
            sides += make()
        except GputuiError as error:
            failed.append(error)
    if not sides:
        raise failed[0] if failed else kinds_differ(base[0], new[0])
    by_hand = [[_pairing(pair, *both) for pair in chosen.by_hand] for both in sides]
    for place, pair in enumerate(chosen.by_hand):
        if all(found[place] is None for found in by_hand):
            raise _no_pair(pair, sides)
    kept = tuple(pairings)
    return tuple(
        compare(*both, (*(one for one in found if one is not None), *kept), same_work=same_work)
        for both, found in zip(sides, by_hand, strict=True)
    )


def _timeline_sides(
    base: Sequence[Report], new: Sequence[Report], chosen: Chosen, explained: Explained | None
) -> list[tuple[Side, Side]]:
    ours, theirs = ([one for one in side if one.timeline is not None] for side in (base, new))
    if not (ours and theirs):
        return []
    for side in (ours, theirs):
        if len(side) > 1:
            raise GputuiError(
                side[0].path, f"is not the only timeline of its side: {side[1].path} is of another run", "Name one"
            )
    diagnoses = [None if explained is None else explained(side[0]) for side in (ours, theirs)]
    old = timeline_side(ours[0], chosen.base_kernel, chosen.nvtx, diagnoses[0])
    now = timeline_side(theirs[0], chosen.new_kernel, chosen.nvtx, diagnoses[1])
    return [_filled(old, now, chosen)]


def _counters_sides(
    base: Sequence[Report], new: Sequence[Report], chosen: Chosen, diagnosed: Diagnosed
) -> list[tuple[Side, Side]]:
    ours, theirs = ([one for one in side if one.timeline is None] for side in (base, new))
    if not (ours and theirs):
        return []
    # Both sides may be of one report.
    diagnoses = {id(one): diagnosed(one) for one in {id(one): one for one in (*ours, *theirs)}.values()}

    def side(reports: Sequence[Report], kernel: Pattern | None) -> Side:
        return counters_side(
            [(one, diagnoses[id(one)]) for one in reports], lambda one: _is_chosen(one, kernel, chosen.nvtx)
        )

    return [_filled(side(ours, chosen.base_kernel), side(theirs, chosen.new_kernel), chosen)]


def _is_chosen(kernel: Kernel, name: Pattern | None, nvtx: Pattern | None) -> bool:
    return (name is None or _is_named(kernel, name)) and (nvtx is None or bool(nvtx.search("/".join(kernel.nvtx))))


def _is_named(kernel: Kernel, name: Pattern) -> bool:
    return bool(name.search(kernel.demangled) or name.search(kernel.name))


def _filled(base: Side, new: Side, chosen: Chosen) -> tuple[Side, Side]:
    """The sides, where the choice left something on both."""
    for side, kernel, name in ((base, chosen.base_kernel, "base"), (new, chosen.new_kernel, "new")):
        given = " in ".join(one.pattern for one in (kernel, chosen.nvtx) if one is not None)
        if given and not side.members:
            raise _finds_nothing(given, name, side.reports[0].path)
    same = {one.kernel.demangled for one in base.members} & {one.kernel.demangled for one in new.members}
    if same and base.reports[0] is new.reports[0] and chosen.base_kernel != chosen.new_kernel:
        raise GputuiError(
            min(same)[:_MOST_NAME],
            "is found on both sides of one report",
            "Write --base-kernel and --new-kernel so that each finds its own: '^name$'",
        )
    return base, new


_MOST_NAME = 80


def _pairing(pair: Pair, base: Side, new: Side) -> Pairing | None:
    """The pair by the kernels that it finds; ``None`` where it finds none on a side that it names."""
    found = [_keys(side, name) for side, name in zip((base, new), pair, strict=True)]
    return (
        None if any(name and not keys for name, keys in zip(pair, found, strict=True)) else Pairing(found[0], found[1])
    )


def _keys(side: Side, name: Pattern | None) -> frozenset[KernelKey]:
    return frozenset(one.key for one in side.members if name is not None and _is_named(one.kernel, name))


def _no_pair(pair: Pair, sides: Sequence[tuple[Side, Side]]) -> GputuiError:
    """Which of its sides finds nothing."""
    base = pair[0]
    number = int(base is None or any(_keys(both[0], base) for both in sides))
    given = pair[number]
    return _finds_nothing(given.pattern if given else "", ("base", "new")[number], sides[0][number].reports[0].path)


def _finds_nothing(given: str, name: str, path: str) -> GputuiError:
    return GputuiError(
        given, f"finds no kernel of the {name} side, {path}", f"gputui explain {shlex.quote(path)} lists what there is"
    )
