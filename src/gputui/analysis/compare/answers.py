"""The answers: what a change did to the tensor cores, to DRAM, to the number of kernels and to the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, log
from typing import TYPE_CHECKING

from gputui.analysis.compare.amounts import amounts, as_many
from gputui.analysis.compare.clocks import Clocks, clocks_of
from gputui.analysis.compare.matching import Match, likeness, match
from gputui.analysis.compare.model import (
    Amounts,
    Answer,
    Caution,
    Change,
    Comparison,
    Fusion,
    Group,
    How,
    Member,
    NextChange,
    Pairing,
    Side,
    TimeChange,
    Trend,
    Wall,
)
from gputui.analysis.compare.sides import begun_alike
from gputui.analysis.compare.timelines import same_steps, timeline_cautions
from gputui.analysis.compare.timing import noise_of, time_change
from gputui.errors import GputuiError

if TYPE_CHECKING:
    from gputui.analysis.compare.timing import Noise
    from gputui.model.report import Report

_LESS_TRAFFIC = 0.9
"""Kernels that are fewer are fused where the DRAM bytes fell by a tenth: what they handed on stays on the chip."""
_BY_NAMES = 0.85
"""How sure it is that kernels were fused where names and order alone say so: a timeline counts no bytes."""
_DRAM_CHANGE = 1.05
"""DRAM counters of the same launch differ by up to 4 % from run to run (measured on an H200)."""
_TENSOR_POINTS = 2.0
_TENSOR_CHANGE = 1.05
_MOSTLY = 0.5
_MUCH_ALIKE = 1.25


def compare(base: Side, new: Side, pairings: Iterable[Pairing] = (), *, same_work: bool = False) -> Comparison:
    """What changed from ``base`` to ``new``. ``same_work`` is that the user knows both to do the same work.

    Raises ``GputuiError`` where one is a timeline and the other is not, or a side is empty.
    """
    _check(base, new)
    base, new = begun_alike(base, new)
    matches = match(base.members, new.members, (one for one in pairings if one.kind in (None, base.kind)))
    noise = noise_of(base, new, matches)
    works = [_same_work(one, told=same_work) for one in matches]
    partial = base.is_part or new.is_part
    counted = [one for one in matches if (one.base and one.new) or not partial]
    before = amounts(_in_order(member for one in counted for member in one.base))
    after = amounts(_in_order(member for one in counted for member in one.new))
    if base.kind == "timeline":
        whole_work = same_steps(base, new, matches, works)
    else:
        whole_work = _same_work_in_all(matches, works)
        if not same_work and _same_operations(before, after) is False:
            whole_work = False
    clocks = clocks_of(counted, before, after)
    cautions = _cautions(base, new, matches, works, whole_work, before, after, noise, clocks)
    open_: dict[Answer, str] = {}
    for caution in cautions:
        for answer in caution.open:
            open_.setdefault(answer, caution.id)
    because = (open_["time"],) if "time" in open_ else ()
    groups = _groups(matches, works, whole_work, noise, because)
    return Comparison(
        kind=base.kind,
        base=base,
        new=new,
        cautions=cautions,
        groups=groups,
        before=before,
        after=after,
        tensor=_tensor(before, after, base, open_.get("tensor", "")),
        dram=_dram(before, after, base, open_.get("dram", "")),
        kernels=_kernels(before, after, open_.get("kernels", "")),
        fusion=_fusion(groups, before, after, partial, open_.get("kernels", "")),
        time=_whole_time(counted, noise, clocks, because),
        wall=_wall_change(base.wall, new.wall, (open_["wall"],) if "wall" in open_ else ()),
        next=next_change(new),
    )


def _check(base: Side, new: Side) -> None:
    for side in (base, new):
        if not side.members:
            path = side.reports[0].path if side.reports else "a side"
            raise GputuiError(path, "holds no kernels to compare", "Choose others, or collect it again")
    if base.kind != new.kind:
        raise kinds_differ(base.reports[0], new.reports[0])


def kinds_differ(one: Report, other: Report) -> GputuiError:
    timeline, counters = (one, other) if one.timeline is not None else (other, one)
    return GputuiError(
        timeline.path,
        f"is a timeline, and {counters.path} counts inside kernels",
        "Compare two timelines, or two Nsight Compute reports",
    )


def _in_order(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: member.place))


# ------------------------------------------------------------------ the same work


def _same_work(one: Match, *, told: bool) -> bool | None:
    """Whether both do the same work: by the operations of the tensor cores, the launch shape, all operations.

    Of what was paired by hand it is taken to be so, unless counted operations say otherwise.
    """
    if not (one.base and one.new):
        return None
    if told:
        return True
    before, after = amounts(one.base), amounts(one.new)
    same = _same_operations(before, after)
    if same is not None:
        return same
    near = None
    if before.flops and after.flops:
        apart = abs(log(before.flops / after.flops))
        near = True if as_many(before.flops, after.flops) else False if apart > log(2) else None
    if near:
        return True
    if one.by_hand:
        return near is None
    return True if near is None and _launched_alike(one.base, one.new) else None


def _same_operations(before: Amounts, after: Amounts) -> bool | None:
    """By the operations of the tensor cores; ``None`` where one side does none, or does not tell."""
    if not (before.tensor_ops and after.tensor_ops):
        return None
    return as_many(before.tensor_ops, after.tensor_ops)


def _launched_alike(one: Sequence[Member], other: Sequence[Member]) -> bool:
    """Whether the same shapes are launched, and each about as often."""
    ours, theirs = _shapes(one), _shapes(other)
    return (
        ours.keys() == theirs.keys()
        and all(None not in shape and as_many(count, theirs[shape]) for shape, count in ours.items())
        and (not any(map(_may_be_persistent, (*one, *other))) or _move_alike(one, other))
    )


def _may_be_persistent(member: Member) -> bool:
    """A library's product may be launched with a block for each SM, whatever its size."""
    return member.identity.op_class in ("gemm", "conv", "attention") and member.identity.library != "user"


def _move_alike(one: Sequence[Member], other: Sequence[Member]) -> bool:
    """By the bytes of DRAM, or where those are not counted by the time."""
    before, after = amounts(one), amounts(other)
    pairs = (before.dram_bytes, after.dram_bytes), (before.time_ns, after.time_ns)
    return next((abs(log(now / old)) < log(_MUCH_ALIKE) for old, now in pairs if old and now), False)


def _shapes(members: Sequence[Member]) -> dict[tuple[object, object], float]:
    found: dict[tuple[object, object], float] = {}
    for member in members:
        shape = member.kernel.grid, member.kernel.block
        found[shape] = found.get(shape, 0.0) + member.count
    return found


def _same_work_in_all(matches: Sequence[Match], works: Sequence[bool | None]) -> bool | None:
    """Of everything, weighted by the base's time: what is known of most holds for kernels between them too."""
    times = {True: 0.0, False: 0.0, None: 0.0}
    for one, work in zip(matches, works, strict=True):
        if one.base and one.new:
            times[work] += sum(member.time_ns or 0.0 for member in (*one.base, *one.new))
    total = sum(times.values())
    if not total:
        known = [work for one, work in zip(matches, works, strict=True) if one.base and one.new]
        return True if known and all(known) else None
    if times[False] > 0.05 * total:
        return False
    return True if times[True] >= _MOSTLY * total else None


# ------------------------------------------------------------------ what is said first


def _cautions(
    base: Side,
    new: Side,
    matches: Sequence[Match],
    works: Sequence[bool | None],
    same_work: bool | None,
    before: Amounts,
    after: Amounts,
    noise: Noise,
    clocks: Clocks,
) -> tuple[Caution, ...]:
    found: list[Caution] = []

    def say(id: str, *open_: Answer, **params: object) -> None:
        found.append(Caution(id, params, frozenset(open_)))

    paired = [one for one in matches if one.base and one.new]
    names = [side.device.name if side.device is not None else "" for side in (base, new)]
    if names[0] != names[1]:
        say("other-gpu", "time", "wall", "dram", base=names[0], new=names[1])
    if any(len({member.kernel.device.name for member in side.members}) > 1 for side in (base, new)):
        say("mixed-gpus", "time", "wall", "dram")
    if not paired:
        say("nothing-paired", "time", "wall", "tensor", "dram", "kernels")
        return tuple(found)
    cut_off = any(report.truncated for side in (base, new) for report in side.reports)
    if cut_off:
        say("truncated", "kernels")
    share = min(_paired_share(paired, side) for side in (base, new))
    if share < _MOSTLY:
        say("little-paired", "time", "wall", "tensor", "dram", "kernels", percent=100 * share)
    if base.kind == "timeline":
        return (*found, *timeline_cautions(base, new, same_work))
    # Of sides that are mostly other work it is said already.
    if share >= _MOSTLY and same_work is False:
        say("other-work", "time", "tensor", "dram", "kernels", times=_more_operations(before, after))
    elif share >= _MOSTLY and same_work is None:
        say("work-unknown", "time", "dram")
    if any(one.by_hand and work and not _is_known(one) for one, work in zip(matches, works, strict=True)):
        say("by-hand")
    if clocks.ratios and names[0] == names[1]:
        say(
            "clocks",
            sm_before=clocks.sm and clocks.sm[0], sm_after=clocks.sm and clocks.sm[1],
            dram_before=clocks.dram and clocks.dram[0], dram_after=clocks.dram and clocks.dram[1],
            percent=100 * (max(exp(abs(log(ratio))) for ratio in clocks.ratios) - 1),
        )  # fmt: skip
    controls = [{report.session.cache_control for report in side.reports} for side in (base, new)]
    if all(len(one) == 1 and None not in one for one in controls) and controls[0] != controls[1]:
        say("cache-control", "time", "dram", base=min(map(str, controls[0])), new=min(map(str, controls[1])))
    alone = len(matches) - len(paired)
    if alone and (base.is_part or new.is_part) and not cut_off:
        say("part", count=alone)
    if base.passes != new.passes:
        say("passes", base=base.passes, new=new.passes)
    if min(base.passes, new.passes) == 1:
        say(f"single-{noise[1]}", percent=100 * (exp(noise[0]) - 1))
    return tuple(found)


def _more_operations(before: Amounts, after: Amounts) -> float | None:
    """How many times as many: those of the tensor cores, else all that are counted; ``None`` where as many."""
    pairs = (before.tensor_ops, after.tensor_ops), (before.flops, after.flops)
    ratio = next((now / old for old, now in pairs if old and now), 1.0)
    return None if as_many(ratio, 1.0) else ratio


def _paired_share(paired: Sequence[Match], side: Side) -> float:
    """Of a side's time, or of its launches where no time is told, what has something opposite."""
    members = {id(member) for one in paired for member in (*one.base, *one.new)}

    def weigh(timed: bool) -> tuple[float, float]:
        weights = [(id(one) in members, (one.time_ns or 0.0) if timed else one.count) for one in side.members]
        return sum(weight for is_paired, weight in weights if is_paired), sum(weight for _, weight in weights)

    part, whole = weigh(timed=True)
    if not whole:
        part, whole = weigh(timed=False)
    return part / whole


def _is_known(one: Match) -> bool:
    """Whether more than the user's word says that both do the same work."""
    flops = amounts(one.base).flops and amounts(one.new).flops
    return bool(flops) or _launched_alike(one.base, one.new)


# ------------------------------------------------------------------ groups


def _groups(
    matches: Sequence[Match],
    works: Sequence[bool | None],
    whole_work: bool | None,
    noise: Noise,
    because: tuple[str, ...],
) -> tuple[Group, ...]:
    """Matches of the same functions are told as one group."""
    alike: dict[tuple[object, ...], list[tuple[Match, bool | None]]] = {}
    for one, work in zip(matches, works, strict=True):
        alike.setdefault(_signature(one), []).append((one, work))
    found = []
    for merged in alike.values():
        base = _in_order(member for one, _ in merged for member in one.base)
        new = _in_order(member for one, _ in merged for member in one.new)
        before, after = amounts(base), amounts(new)
        known = {work for _, work in merged}
        work = False if False in known else None if None in known else True
        first = merged[0][0]
        how = _how(first, before, after)
        sureness = min(one.sureness for one, _ in merged)
        if how in ("fused", "split") and before.dram_bytes is None and not first.by_hand:
            sureness *= _BY_NAMES
        time = None
        if base and new:
            reasons = because
            if not reasons and (work is False or (work is None and whole_work is not True)):
                reasons = ("other-work" if work is False else "work-unknown",)
            time = time_change(
                _pass_times(base), _pass_times(new), noise, clocks=clocks_of((), before, after).ratios, because=reasons
            )
        found.append(
            Group(
                number=0,
                base=base,
                new=new,
                how=how,
                times=len(merged),
                sureness=sureness,
                by_hand=first.by_hand,
                before=before,
                after=after,
                time=time,
                same_work=work,
            )
        )

    def time_of(group: Group) -> float:
        return max(group.before.time_ns or 0.0, group.after.time_ns or 0.0)

    ordered = sorted(found, key=lambda group: (-time_of(group), [m.place for m in (*group.base, *group.new)]))
    return tuple(replace(group, number=number) for number, group in enumerate(ordered))


def _signature(one: Match) -> tuple[object, ...]:
    def of(members: Sequence[Member]) -> tuple[object, ...]:
        return tuple((member.kind, member.op, member.kernel.grid, member.kernel.block) for member in members)

    return one.by_hand, of(one.base), of(one.new)


def _how(one: Match, before: Amounts, after: Amounts) -> How:
    if not one.base:
        return "added"
    if not one.new:
        return "gone"
    if len(one.base) == len(one.new) == 1:
        if one.base[0].kind[0] == one.new[0].kind[0]:
            return "same"
        return "alike" if likeness(one.base[0], one.new[0]) else "replaced"
    if one.by_hand and all(len({member.kind for member in side}) == 1 for side in (one.base, one.new)):
        # All launches of one kernel against all of another: how many those are is no fusion.
        return "replaced"
    less = after.dram_bytes / before.dram_bytes if before.dram_bytes and after.dram_bytes else None
    if less is None:
        # Fewer launches of the same kernels are no fusion, and what a CUDA graph hides may be as many.
        if {member.kind[0] for member in one.base} == {member.kind[0] for member in one.new}:
            return "same"
        if any(member.kernel.workload == "graph" for member in (*one.base, *one.new)):
            return "replaced"
    if before.kernels > after.kernels:
        return "fused" if less is None or less <= _LESS_TRAFFIC else "replaced"
    if before.kernels < after.kernels:
        return "split" if less is None or less >= 1 / _LESS_TRAFFIC else "replaced"
    return "replaced"


def _pass_times(members: Sequence[Member]) -> list[float]:
    """The time of each pass, in ns; none where one member does not tell its time."""
    passes = min((len(member.durations_ns) for member in members), default=0)
    return [sum(member.durations_ns[place] for member in members) for place in range(passes)]


# ------------------------------------------------------------------ the answers


def _whole_time(matches: Sequence[Match], noise: Noise, clocks: Clocks, because: tuple[str, ...]) -> TimeChange:
    before = _pass_times([member for one in matches for member in one.base])
    after = _pass_times([member for one in matches for member in one.new])
    return time_change(before, after, noise, clocks=clocks.ratios, because=because)


def _wall_change(before: Wall | None, after: Wall | None, because: tuple[str, ...]) -> TimeChange | None:
    if before is None or after is None:
        return None
    return time_change(before.durations_ns, after.durations_ns, (log(1.10), "assumed"), because=because)


def _change(before: float | None, after: float | None, trend: Trend, open_: str) -> Change:
    return Change("unknown" if open_ else trend, before, after, open_)


def _tensor(before: Amounts, after: Amounts, side: Side, open_: str) -> Change:
    old, now = before.tensor_pct, after.tensor_pct
    if old is None or now is None:
        return _change(old, now, "unknown", open_ or _not_counted(side))
    if now - old >= _TENSOR_POINTS and now >= old * _TENSOR_CHANGE:
        return _change(old, now, "up", open_)
    down = old - now >= _TENSOR_POINTS and old >= now * _TENSOR_CHANGE
    return _change(old, now, "down" if down else "same", open_)


def _dram(before: Amounts, after: Amounts, side: Side, open_: str) -> Change:
    old, now = before.dram_bytes, after.dram_bytes
    if old is None or now is None:
        return _change(old, now, "unknown", open_ or _not_counted(side))
    trend: Trend = "down" if old > now * _DRAM_CHANGE else "up" if now > old * _DRAM_CHANGE else "same"
    return _change(old, now, trend, open_)


def _not_counted(side: Side) -> str:
    return "timeline" if side.kind == "timeline" else "not-counted"


def _kernels(before: Amounts, after: Amounts, open_: str) -> Change:
    old, now = before.kernels, after.kernels
    return _change(old, now, "down" if now < old else "up" if now > old else "same", open_)


def _fusion(groups: Sequence[Group], before: Amounts, after: Amounts, partial: bool, open_: str) -> Fusion:
    if open_:
        return "unknown"
    fused, split = (any(group.how == how for group in groups) for how in ("fused", "split"))
    if fused or split:
        return "both" if fused and split else "fused" if fused else "split"
    if partial and before.kernels != after.kernels:
        return "unknown"
    return "fewer" if after.kernels < before.kernels else "more" if after.kernels > before.kernels else "same"


# ------------------------------------------------------------------ what next


def next_change(side: Side) -> NextChange | None:
    """The finding that gains the side most, by its bound and how sure it is; ``None`` where none gains anything."""
    total = sum(member.time_ns or 0.0 for member in side.members)
    saved: dict[tuple[str, str], list[tuple[float, float, Member]]] = {}
    for member in side.members:
        time = member.time_ns
        if time is None or not member.diagnoses:
            return None
        for finding in member.diagnoses[0].main:
            if finding.max_speedup is not None and finding.severity != "info":
                gain = time * (1 - 1 / finding.max_speedup)
                saved.setdefault((member.kind[0], finding.id), []).append((gain, finding.confidence, member))
    if not total or not saved:
        return None
    best = max(saved, key=lambda key: sum(gain * confidence for gain, confidence, _ in saved[key]))
    _, _, member = max(saved[best], key=lambda one: one[0])
    diagnosis = member.diagnoses[0]
    return NextChange(
        member=member,
        diagnosis=diagnosis,
        finding=next(finding for finding in diagnosis.main if finding.id == best[1]),
        share=sum(one.time_ns or 0.0 for _, _, one in saved[best]) / total,
        gain=total / (total - sum(gain for gain, _, _ in saved[best])),
    )
