"""What a comparison says, as plain strings: the text, the Markdown and the screen put them in place.

Strangers' text comes out safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from gputui import units
from gputui.analysis.compare.gpus import gpu_change
from gputui.analysis.compare.why import why, work_moved_to
from gputui.model.metrics import dictionary
from gputui.paint.grid import shorten
from gputui.render import timeline_rows
from gputui.render.lines import file_name
from gputui.render.text import gain, level_of, sureness
from gputui.terminal import safe

if TYPE_CHECKING:
    from gputui.analysis.compare.model import (
        Amounts,
        Caution,
        Change,
        Comparison,
        Group,
        Member,
        Outcome,
        Side,
        TimeChange,
    )
    from gputui.analysis.compare.why import Moved, Why
    from gputui.analysis.finding import Finding, Verdict
    from gputui.wording import FindingText, ReaderLevel, Wording

Mark = Literal["yes", "no", "unknown"]
SHOWN_GROUPS = 12
SHOWN_WHYS = 5
SHOWN_ACTIONS = 2
NAME_CELLS = 30
_LONG_NAME_CELLS = 60
_SHOWN_PARTS = 6
_SURE = 0.75
"""A pairing that is less sure is told with how it was made."""
_SAME_OPS = 0.02
_AS_TIMES = 2.0
"""Changes in bytes are told as so many times from here on, and in percent below."""
_POINTWISE = ("elementwise", "random")


# ------------------------------------------------------------------ the head


def title(c: Comparison, words: Wording) -> str:
    """Both files, or the two kernels where it is one file, the GPU, and whether the clocks are alike."""
    base, new = (_files(side, words) for side in (c.base, c.new))
    key, file = "title", base
    if base == new:
        if {report.path for report in c.base.reports} != {report.path for report in c.new.reports}:
            base, new = (safe(side.reports[0].path) for side in (c.base, c.new))
        elif len(c.base.members) == len(c.new.members) == 1:
            key = "title-kernels"
            base, new = (short_name(side.members[0]) for side in (c.base, c.new))
    gpus = [safe(side.device.name) if side.device is not None else "" for side in (c.base, c.new)]
    gpu = gpus[0] if gpus[0] == gpus[1] else words.text("compare.gpus", base=gpus[0], new=gpus[1])
    parts = [words.text(f"compare.{key}", file=file, base=base, new=new), gpu]
    if c.kind == "counters" and gpus[0] == gpus[1]:
        differ = any(caution.id == "clocks" for caution in c.cautions)
        known = c.before.sm_clock_hz is not None and c.after.sm_clock_hz is not None
        parts.append(words.text(f"compare.clocks-{'differ' if differ else 'alike' if known else 'unknown'}"))
    return " · ".join(part for part in parts if part)


def _files(side: Side, words: Wording) -> str:
    names = [file_name(report.path) for report in side.reports]
    return names[0] if len(names) == 1 else words.text("compare.files", name=names[0], count=len(names) - 1)


def cautions(c: Comparison, words: Wording) -> list[str]:
    """What must be said first, those that leave an answer open before the others."""
    return [line for caution in ranked_cautions(c) for line in caution_lines(c, caution, words)]


def ranked_cautions(c: Comparison) -> list[Caution]:
    return sorted(c.cautions, key=lambda caution: not caution.open)


def caution_lines(c: Comparison, caution: Caution, words: Wording) -> list[str]:
    """One caution: what it means and what to do; for another GPU also what that one has."""
    params: dict[str, Any] = {
        key: shorten(safe(one), _LONG_NAME_CELLS) if isinstance(one, str) else one
        for key, one in caution.params.items()
    }
    if "file" in params:
        params["file"] = file_name(caution.params["file"])
    key = caution.id
    if key == "clocks":
        clocks = (
            words.text(f"compare.clock.{id}", before=params[f"{id}_before"], after=params[f"{id}_after"])
            for id in ("sm", "dram")
            if params[f"{id}_before"] is not None and params[f"{id}_after"] is not None
        )
        params["clocks"] = _listed(clocks, words)
    if key == "other-work" and params["times"] is None:
        key = "other-work-unknown"
    found = [words.text(f"compare.caution.{key}", **params)]
    if key == "other-gpu":
        found += _gpu_lines(c, words)
    return found


def _gpu_lines(c: Comparison, words: Wording) -> Iterator[str]:
    """What the other GPU has, and each side in percent of what its own can."""
    old, now = c.base.device, c.new.device
    if old is not None and now is not None:
        names = {"base": safe(old.name), "new": safe(now.name)}
        change = gpu_change(old, now)
        for key, ids in (("gained", change.gained), ("lost", change.lost)):
            if ids:
                features = _listed((words.text(f"compare.gpu.{id}") for id in ids), words)
                yield words.text(f"compare.gpu.{key}", names=features, **names)
        if change.figures:
            figures = (
                words.text(f"compare.gpu.{one.id}", before=one.before, after=one.after) for one in change.figures
            )
            yield words.text("compare.gpu.figures", figures=_listed(figures, words), **names)
    pairs = {
        "sm": (c.before.sm_pct, c.after.sm_pct),
        "dram": (c.before.dram_pct, c.after.dram_pct),
        "tensor": (c.before.tensor_pct, c.after.tensor_pct),
    }
    roofs = [
        words.text(f"compare.roof.{id}", before=before, after=after)
        for id, (before, after) in pairs.items()
        if before is not None and after is not None
    ]
    if roofs:
        yield words.text("compare.gpu.roofs", figures=_listed(roofs, words))


def headline(c: Comparison, words: Wording) -> str:
    """Faster, slower, no difference, or that it cannot be told: of the program where it is known, else of the GPU."""
    if c.wall is not None:
        return _time_line(c, c.wall, _wall_source(c), words)
    return _time_line(c, c.time, "gpu", words)


def _wall_source(c: Comparison) -> str:
    sources = {side.wall.source for side in (c.base, c.new) if side.wall is not None}
    return "span" if "span" in sources else "step"


def further_lines(c: Comparison, words: Wording) -> list[str]:
    """What belongs to the headline: the GPU's time after the program's, and where the noise comes from."""
    found = []
    if c.wall is not None:
        found.append(_time_line(c, c.time, "gpu", words))
    elif c.kind == "counters" and not c.time.because:
        found.append(words.text("compare.alone"))
    time = c.wall or c.time
    if time.speedup is not None and not any(one.id.startswith("single-") for one in c.cautions):
        found.append(
            words.text(
                f"compare.noise.{time.noise}", noise=time.noise_pct, before=time.samples[0], after=time.samples[1]
            )
        )
    return found


def _time_line(c: Comparison, time: TimeChange, what: str, words: Wording) -> str:
    params = {
        "before": time.before_ns,
        "after": time.after_ns,
        "what": words.text(f"compare.what.{what}"),
        "ratio": _ratio(time),
        "noise": time.noise_pct,
        "because": _because(c, time.because, words) if time.because else "",
    }
    untimed = time.before_ns is None or time.after_ns is None
    line = words.text(f"compare.time.{'untimed' if untimed else time.outcome}", **params)
    other = set(time.because) - {"clocks", "noise"}
    if time.at_equal_clocks is None or untimed or other:
        return line
    least, most = time.at_equal_clocks
    if time.outcome == "slower":
        least, most = 1 / most, 1 / least
    if units.times(least) == units.times(most):
        return line
    return words.text(f"compare.time.equal-{time.outcome}", line=line, least=least, most=most)


def _ratio(time: TimeChange) -> float | None:
    """How many times faster, or for what got slower, how many times as long."""
    return 1 / time.speedup if time.outcome == "slower" and time.speedup else time.speedup


def _because(c: Comparison, reasons: Sequence[str], words: Wording) -> str:
    """Why something is open: that nothing could be paired says more than the rest."""
    unpaired = any(caution.id == "nothing-paired" for caution in c.cautions)
    return words.text(f"compare.open.{'nothing-paired' if unpaired else reasons[0]}")


# ------------------------------------------------------------------ the three answers


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """``mark`` answers whether what one hopes for happened; ``same``: it is no, but nothing got worse either."""

    id: str
    mark: Mark
    title: str
    numbers: str
    note: str = ""
    same: bool = False


def answers(c: Comparison, words: Wording) -> list[AnswerRow]:
    """Tensor cores, DRAM, kernels."""
    return [_tensor(c, words), _dram(c, words), _kernels(c, words)]


def _row(c: Comparison, id: str, change: Change, hoped: str, words: Wording, *, numbers: str, key: str) -> AnswerRow:
    title = words.text(f"compare.answer.{id}.{key}")
    if change.trend == "unknown":
        return AnswerRow(id, "unknown", title, numbers, _because(c, (change.because,), words))
    return AnswerRow(id, "yes" if change.trend == hoped else "no", title, numbers, same=change.trend == "same")


def _tensor(c: Comparison, words: Wording) -> AnswerRow:
    change, old, now = c.tensor, c.before.tensor_ops, c.after.tensor_ops
    numbers = ""
    if change.before is not None and change.after is not None:
        key = "tensor"
        if old and now:
            key = "tensor-same-ops" if abs(now / old - 1) < _SAME_OPS else "tensor-ops"
        numbers = words.text(
            f"compare.numbers.{key}", before=change.before, after=change.after, ops_before=old, ops_after=now
        )
    unused = change.trend == "same" and change.before == change.after == 0
    return _row(c, "tensor", change, "up", words, numbers=numbers, key="unused" if unused else change.trend)


def _dram(c: Comparison, words: Wording) -> AnswerRow:
    change, key = c.dram, "dram"
    ratio = change.ratio
    if ratio and change.trend == "down":
        ratio = 1 / ratio
        key = "dram-times-less" if ratio >= _AS_TIMES else "dram-less"
    elif ratio and change.trend == "up":
        key = "dram-times-more" if ratio >= _AS_TIMES else "dram-more"
    numbers = ""
    if change.before is not None and change.after is not None:
        percent = None if change.ratio is None else 100 * abs(change.ratio - 1)
        numbers = words.text(
            f"compare.numbers.{key}", before=change.before, after=change.after, ratio=ratio, percent=percent
        )
    return _row(c, "dram", change, "down", words, numbers=numbers, key=change.trend)


def _kernels(c: Comparison, words: Wording) -> AnswerRow:
    change = c.kernels
    numbers = ""
    if change.before and change.after:
        numbers = words.text("compare.numbers.kernels", before=int(change.before), after=int(change.after))
    title = words.text(f"compare.answer.kernels.{c.fusion}")
    if c.fusion == "unknown":
        return AnswerRow("kernels", "unknown", title, numbers, _because(c, (change.because or "part",), words))
    fused = c.fusion == "fused" or (c.fusion == "both" and c.kernels.trend == "down")
    return AnswerRow(
        "kernels",
        "yes" if fused else "no",
        title,
        numbers,
        note=_listed((_became(group, words) for group in (*c.fused, *c.split)), words, "parts"),
        same=c.fusion in ("same", "fewer", "more"),
    )


def _became(group: Group, words: Wording) -> str:
    """ "5 kernels → flash_fwd_kernel: scores, softmax": which kernels became which."""
    fused = group.how == "fused"
    many, few = (group.base, group.new) if fused else (group.new, group.base)
    kernels = (group.before if fused else group.after).kernels
    name = _listed(dict.fromkeys(short_name(one) for one in few), words)
    text = words.text(
        f"compare.{group.how}-one", kernels=kernels // group.times, name=name, parts=parts_of(many, words)
    )
    if group.times > 1:
        text = words.text("compare.fused-times", count=group.times, text=text)
    return text if _is_sure(group) else words.text("compare.unsure", text=text)


def parts_of(members: Iterable[Member], words: Wording) -> str:
    """What kernels do, each in a word or two, in launch order."""
    parts = list(dict.fromkeys(_does(member, words) for member in members))
    if len(parts) > _SHOWN_PARTS:
        parts = [*parts[: _SHOWN_PARTS - 1], words.text("compare.more", count=len(parts) - _SHOWN_PARTS + 1)]
    return _listed(parts, words)


def _does(member: Member, words: Wording) -> str:
    identity = member.identity
    if identity.op_class in _POINTWISE and identity.library in ("aten", "inductor") and identity.detail:
        return shorten(safe(identity.detail), NAME_CELLS)
    if identity.op_class in ("gemm", "attention", "norm") and member.op is not None:
        return words.ui(f"transformer.{member.op}")
    return short_name(member) if identity.op_class == "other" else words.ui(f"op.{identity.op_class}")


def _listed(items: Iterable[str], words: Wording, key: Literal["list", "parts"] = "list") -> str:
    """One after the other, as the language parts them; nothing where there are none."""
    *others, last = list(items) or [""]
    for item in reversed(others):
        last = words.text(f"compare.{key}", first=item, rest=last)
    return last


def short_name(member: Member) -> str:
    return shorten(safe(member.kernel.name), NAME_CELLS)


# ------------------------------------------------------------------ where the bottleneck went


_OTHER_WORK = frozenset({"nothing-paired", "little-paired", "other-work"})
"""With these a bottleneck has not moved: other work has another one."""


def shift(c: Comparison, words: Wording) -> str | None:
    """Where the bottleneck went; ``None`` where there is nothing to hold against each other."""
    if any(caution.id in _OTHER_WORK for caution in c.cautions):
        return None
    if c.kind == "timeline":
        return _timeline_shift(c, words)
    if c.before.verdict is None or c.after.verdict is None:
        return None
    if "unknown" in (c.before.verdict, c.after.verdict):
        return words.text("compare.shift.unknown")
    held = [_ruling(amounts, members) for amounts, members in ((c.before, c.base.members), (c.after, c.new.members))]
    return words.text(
        f"compare.shift.{'same' if held[0] == held[1] else 'moved'}",
        before=words.text(f"compare.held.{held[0]}"),
        after=words.text(f"compare.held.{held[1]}"),
        before_pct=100 * (c.before.verdict_share or 0.0),
        after_pct=100 * (c.after.verdict_share or 0.0),
    )


def _timeline_shift(c: Comparison, words: Wording) -> str | None:
    """What holds up the program, and what of that is cured; ``None`` where chosen kernels alone are compared."""
    old, now = c.base.diagnosis, c.new.diagnosis
    if old is None or now is None or c.base.is_chosen or c.new.is_chosen:
        return None
    before, after = (timeline_rows.sentence(one, words) for one in (old, now))
    same = (old.verdict.id, old.verdict.variant) == (now.verdict.id, now.verdict.variant) and old.verdict.id == "idle"
    line = words.text(f"compare.shift.timeline-{'same' if same else 'moved'}", before=before, after=after)
    left = {finding.id for finding in now.findings} | {rule.id for rule in now.not_checked}
    cured = [finding for finding in old.main if finding.id not in left]
    if not cured:
        return line
    names = _listed((words.finding_name(finding.id) for finding in cured), words)
    return words.text("compare.shift.cured", line=line, names=names)


def _ruling(amounts: Amounts, members: Sequence[Member]) -> str:
    """What holds the members for most of their time, as the longest of them has it."""
    verdicts = [
        (member.time_ns or 0.0, one.verdict)
        for member in members
        for one in member.diagnoses[:1]
        if (one.verdict.id, one.verdict.level) == (amounts.verdict, amounts.level)
    ]
    return _held(max(verdicts, key=lambda one: one[0])[1]) if verdicts else str(amounts.verdict)


def _held(verdict: Verdict) -> str:
    """The key of what holds a kernel."""
    if verdict.id == "memory-bound" and verdict.level is not None:
        return f"memory-bound-{verdict.level}"
    is_issue = verdict.id in ("compute-bound", "balanced") and verdict.variant == "issue"
    return f"{verdict.id}-issue" if is_issue else verdict.id


# ------------------------------------------------------------------ the groups


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One line of the table. ``reason`` says why the speed-up is not told, but for what leaves the whole open; ``sure``
    how the pair was made, where that is not certain. ``new`` is empty for the same kernel."""

    group: Group
    base: str
    new: str
    how: str
    before: str
    after: str
    gain: str
    reason: str
    sure: str
    dram_before: str
    dram_after: str
    tensor_before: str
    tensor_after: str


def group_rows(c: Comparison, words: Wording, limit: int | None = None) -> list[GroupRow]:
    """The groups, longest first."""
    return [_group_row(c, group, words) for group in c.groups[:limit]]


def _group_row(c: Comparison, group: Group, words: Wording) -> GroupRow:
    before, after, time = group.before, group.after, group.time
    base, new = _names(group, "base", words), _names(group, "new", words)
    step = _step(group.base or group.new, words)
    same = group.how == "same" and base == new
    told = time is not None and time.because and time.because != c.time.because
    dram, tensor = (
        _both(group, form, values)
        for form, values in (
            (units.size, (before.dram_bytes, after.dram_bytes)),
            (units.percent, (before.tensor_pct, after.tensor_pct)),
        )
    )
    return GroupRow(
        group=group,
        base=words.text("compare.step", step=step, name=base) if step and base else base,
        new="" if same else words.text("compare.step", step=step, name=new) if step and not base else new,
        how=words.text(f"compare.how.{_how(c, group)}"),
        before=units.duration(before.time_ns) if group.base else "",
        after=units.duration(after.time_ns) if group.new else "",
        gain="" if time is None else words.text(f"compare.gain.{time.outcome}", ratio=_ratio(time)),
        reason=_because(c, time.because, words) if time is not None and told else "",
        sure=pairing(group, words),
        dram_before=dram[0],
        dram_after=dram[1],
        tensor_before=tensor[0],
        tensor_after=tensor[1],
    )


def _how(c: Comparison, group: Group) -> str:
    if group.base and group.new:
        return group.how
    return "apart" if group.by_hand else f"{group.how}-part" if c.is_part else group.how


def _both(
    group: Group, form: Callable[[float | None], str], values: tuple[float | None, float | None]
) -> tuple[str, str]:
    """Before and after; empty for the side where there is no kernel, and where neither report tells."""
    if values == (None, None):
        return "", ""
    return form(values[0]) if group.base else "", form(values[1]) if group.new else ""


def became(row: GroupRow, words: Wording) -> str:
    """What the base became, under its name: "→ flash_fwd_kernel · fused"."""
    if not (row.base and row.new):
        return row.how
    return words.text("compare.became", name=row.new, how=row.how)


def arrow(before: str, after: str, words: Wording) -> str:
    """ "3.23 GB → 61.4 MB"; one of them alone, or nothing, where there are not both."""
    return words.text("compare.arrow", before=before, after=after) if before and after else before or after


def _names(group: Group, side: Literal["base", "new"], words: Wording) -> str:
    """The kernel's name, or what several do; with how often a pass has that."""
    members, amounts = (group.base, group.before) if side == "base" else (group.new, group.after)
    if not members:
        return ""
    name, times = short_name(members[0]), amounts.kernels
    if _are_several(members):
        times = group.times
        name = words.text("compare.kernels-of", count=amounts.kernels // times, names=parts_of(members, words))
    return name if times == 1 else words.text("compare.times", count=times, name=name)


def _step(members: Sequence[Member], words: Wording) -> str:
    """The step of a transformer that a library's kernel does, of which its name tells nothing."""
    member = members[0]
    named = _are_several(members) or member.op is None or member.identity.library == "user"
    return "" if named else words.ui(f"transformer.{member.op}")


def _is_sure(group: Group) -> bool:
    """Whether the pair was made by more than its place."""
    return group.by_hand or group.sureness >= _SURE


def _are_several(members: Sequence[Member]) -> bool:
    return len({member.kind[0] for member in members}) > 1


def pairing(group: Group, words: Wording) -> str:
    """How a pair was made, where that is not certain; empty where it is."""
    if group.by_hand:
        return words.text("compare.by-hand")
    if group.time is None or _is_sure(group):
        return ""
    return words.text(f"compare.by-{'likeness' if group.how == 'alike' else 'place'}")


# ------------------------------------------------------------------ why

_LIMITS = frozenset({"dram-bandwidth", "l2-bandwidth", "l1-bandwidth", "compute-roof", "tensor-roof", "pipe-saturated"})
"""Findings that say what holds a kernel. That is told by itself: where another limit takes over, nothing is cured."""

_TOLD_BY = {
    "uncoalesced-load": "load_sectors_per_request",
    "uncoalesced-store": "store_sectors_per_request",
    "bank-conflicts": "shared_nway",
    "register-spill": "spill_inst",
    "tensor-cores-unused": "tensor_pct",
    "thread-divergence": "warp_execution_efficiency_pct",
    "occupancy-registers": "registers_per_thread",
    "occupancy-achieved": "achieved_occupancy_pct",
    "issue-slots": "issue_active",
}
"""The number that shows a finding come or go."""


def why_lines(c: Comparison, group: Group, words: Wording) -> list[str]:
    """Why it got faster or did not; nothing for a kernel that did not change."""
    if group.time is None:
        return [_alone(c, group, words)]
    told = why(group)
    changed = told.moved and (told.cured or told.appeared)
    if group.how == "same" and group.time.outcome == "no-difference" and not changed:
        return []
    names = _names(group, "new", words)
    found = [words.text(f"compare.why.{group.time.outcome}", names=names, ratio=_ratio(group.time))]
    if group.how in ("fused", "split"):
        found.append(_handed_on(group, words))
    elsewhere = work_moved_to(c, group)
    if elsewhere is not None:
        change = {"before": elsewhere.before.dram_bytes, "after": elsewhere.after.dram_bytes}
        found.append(words.text("compare.why.moved-to", name=_names(elsewhere, "new", words), **change))
    found += _precision(group, words)
    several = max(len(group.base), len(group.new)) > group.times
    # Those of one kernel of several say nothing of the others.
    numbers = {} if several else {one.concept: one for one in told.moved}
    cured, appeared = (_findings(findings, numbers, words) for findings in (told.cured, told.appeared))
    found += _held_lines(told, cured, several, words)
    if cured and told.variant != "full":
        key = "cured" if group.time.outcome == "faster" else "left"
        found.append(words.text(f"compare.why.{key}", names=cured))
    if appeared:
        found.append(words.text("compare.why.appeared", names=appeared))
    if numbers:
        rest = _listed((_number(one, words) for one in numbers.values()), words)
        found.append(words.text("compare.why.numbers", numbers=rest))
    sure = pairing(group, words)
    if sure:
        found.append(sure)
    # Faster or slower alone is no reason.
    return found if len(found) > 1 else []


def _precision(group: Group, words: Wording) -> Iterator[str]:
    """That the inputs of the arithmetic are of another type: the results differ, too."""
    old, now = (
        {member.identity.precision for member in side if member.identity.precision} for side in (group.base, group.new)
    )
    if len(old) == len(now) == 1 and old != now and group.how in ("alike", "replaced"):
        yield words.text("compare.why.precision", before=old.pop().upper(), after=now.pop().upper())


def _alone(c: Comparison, group: Group, words: Wording) -> str:
    how, amounts = ("gone", group.before) if group.base else ("added", group.after)
    name = _names(group, "base" if group.base else "new", words)
    key = f"{how}-part" if c.is_part else how if amounts.time_ns else f"{how}-untimed"
    return words.text(f"compare.why.{key}", name=name, time=amounts.time_ns)


def _handed_on(group: Group, words: Wording) -> str:
    fused = group.how == "fused"
    many, few = (group.before, group.after) if fused else (group.after, group.before)
    measured = None not in (group.before.dram_bytes, group.after.dram_bytes) and _is_sure(group)
    return words.text(
        f"compare.why.{group.how}{'' if measured else '-unmeasured'}",
        parts=parts_of(group.base if fused else group.new, words),
        kernels=many.kernels // group.times,
        few=few.kernels // group.times,
        before=group.before.dram_bytes,
        after=group.after.dram_bytes,
    )


def _held_lines(told: Why, cured: str, several: bool, words: Wording) -> Iterator[str]:
    if told.before is None or told.after is None or told.variant == "unknown":
        return
    before, after = (words.text(f"compare.held.{_held(one)}") for one in (told.before, told.after))
    if told.variant == "full" and told.held_pct is not None:
        yield words.text(
            f"compare.why.{'full-cured' if cured else 'full'}",
            after=after,
            before_pct=told.held_pct[0],
            after_pct=told.held_pct[1],
            cured=cured,
        )
    else:
        key = f"{'same' if before == after else 'moved'}{'-longest' if several else ''}"
        yield words.text(f"compare.why.{key}", before=before, after=after)


def _findings(findings: Sequence[Finding], numbers: dict[str, Moved], words: Wording) -> str:
    """Findings by name, each with the number that shows it, which is then told."""
    found = []
    for finding in findings:
        if finding.id in _LIMITS:
            continue
        name, moved = words.finding_name(finding.id), numbers.pop(_TOLD_BY.get(finding.id, ""), None)
        found.append(name if moved is None else words.text("compare.why.with", name=name, number=_number(moved, words)))
    return _listed(found, words)


def _number(moved: Moved, words: Wording) -> str:
    label = dictionary()[moved.concept].label[words.language]
    # Of counts the label says what they are of.
    form = {"%": units.percent, "byte": units.size}.get(moved.unit, units.operations)
    before, after = form(moved.before), form(moved.after)
    return words.text("compare.why.number", label=label, before=before, after=after)


# ------------------------------------------------------------------ what next


def still_slow(c: Comparison, words: Wording) -> str | None:
    """Where the new side still spends most of its time, and what holds it there."""
    group = c.slowest
    if group is None or not group.after.time_ns:
        return None
    total = sum(member.time_ns or 0.0 for member in c.new.members)
    name, share = _names(group, "new", words), 100 * group.after.time_ns / total
    longest = group.longest_new
    if longest is None or not longest.diagnoses:
        return words.text("compare.slowest-timeline", name=name, share=share)
    verdict = words.verdict(longest.diagnoses[0].verdict)
    key = "slowest-several" if _are_several(group.new) else "slowest"
    return words.text(f"compare.{key}", name=name, share=share, verdict=safe(verdict))


@dataclass(frozen=True, slots=True)
class NextFinding:
    """What to change next, in the words for the reader's level."""

    finding: Finding
    text: FindingText
    level: ReaderLevel


def next_finding(c: Comparison, words: Wording, level: ReaderLevel | None = None) -> NextFinding | None:
    """Of the kernels, or of the timeline; ``None`` where nothing gains anything."""
    if c.next is not None:
        diagnosis = c.next.diagnosis
        text = timeline_rows.finding_text(c.next.finding, words, diagnosis.tags)
        return NextFinding(c.next.finding, text, level or level_of(diagnosis))
    timeline = c.new.diagnosis
    if timeline is None or not timeline.main or c.new.is_chosen:
        return None
    text = timeline_rows.finding_text(timeline.main[0], words, timeline.tags)
    return NextFinding(timeline.main[0], text, level or timeline_rows.level_of(timeline))


def tells_next(c: Comparison, comparisons: Sequence[Comparison]) -> bool:
    """Whether the next change is told here: a timeline that could only ask for counters gives way to those."""
    finding = c.new.diagnosis.main[0] if c.new.diagnosis is not None and c.new.diagnosis.main else None
    asks = c.next is None and finding is not None and finding.max_speedup is None
    return not (asks and any(other.next is not None for other in comparisons))


def next_lines(c: Comparison, words: Wording, level: ReaderLevel | None = None) -> list[str]:
    """The next change: what, how much it gains the whole at most, what to do, how to check, how sure that is."""
    found = next_finding(c, words, level)
    if found is None:
        return []
    text = found.text
    if c.next is not None:
        first = words.text("compare.next-in", name=short_name(c.next.member), title=text.title, gain=c.next.gain)
    else:
        first = words.text("compare.next", title=text.title, gain=gain(found.finding, words))
    return [
        first,
        *(words.text("compare.do", text=action) for action in text.actions[found.level][:SHOWN_ACTIONS]),
        words.text("compare.check", text=text.verify),
        sureness(found.finding, words),
    ]


# ------------------------------------------------------------------ several comparisons of the same two runs


@dataclass(frozen=True, slots=True)
class Head:
    """What is said first of all comparisons of two runs together. A caution comes with whether it leaves an answer
    open. ``outcome`` is that of the headline."""

    title: str
    cautions: tuple[tuple[str, bool], ...]
    outcome: Outcome
    headline: str
    further: tuple[str, ...]
    answers: tuple[AnswerRow, ...]


def head(comparisons: Sequence[Comparison], words: Wording) -> Head:
    """Each answer from the first comparison that can tell it; where none can, the last says why."""
    lead = next((c for c in comparisons if not set(_time(c).because) - {"noise", "clocks"}), comparisons[0])
    told = [answers(c, words) for c in comparisons]
    lines: dict[str, bool] = {}
    for c in comparisons:
        for one in ranked_cautions(c):
            for line in caution_lines(c, one, words):
                # Beside a headline of another comparison it would be taken for what is wrong with that.
                of = words.text("compare.caution-of", kind=words.text(f"compare.kind.{c.kind}"), text=line)
                lines[line if c is lead else of] = bool(one.open)
    return Head(
        title=title(comparisons[0], words),
        cautions=tuple(lines.items()),
        outcome=_time(lead).outcome,
        headline=headline(lead, words),
        further=tuple(further_lines(lead, words)),
        answers=tuple(
            next((row for row in rows if row.mark != "unknown"), rows[-1]) for rows in zip(*told, strict=True)
        ),
    )


def changed_groups(c: Comparison, words: Wording) -> list[list[str]]:
    """Why, of the groups whose time changed most; those of which there is nothing to say are left out."""

    def change(group: Group) -> float:
        return abs((group.before.time_ns or 0.0) - (group.after.time_ns or 0.0))

    told = (why_lines(c, group, words) for group in sorted(c.groups, key=change, reverse=True))
    return list(islice((lines for lines in told if lines), SHOWN_WHYS))


def _time(c: Comparison) -> TimeChange:
    return c.wall or c.time
