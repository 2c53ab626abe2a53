"""The diagnosis of a timeline: one sentence, findings in rank, what could not be checked, and which kernels matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gputui.analysis.engine import rank
from gputui.analysis.finding import Finding, NotChecked
from gputui.analysis.ncu_command import program_of
from gputui.analysis.timeline import TimelineFacts, Window
from gputui.analysis.timeline_kernels import KernelShare, kernel_shares
from gputui.analysis.timeline_rules import Hit, TimelineRule, all_timeline_rules
from gputui.analysis.timeline_rules.idle import IDLE_SHARE
from gputui.analysis.timeline_rules.steady import SteadyState
from gputui.model.timeline import CopyKind, MemoryKind, OpKind

if TYPE_CHECKING:
    from gputui.model.report import Notice


__all__ = ["KernelShare", "TimelineDiagnosis", "TimelineVerdict", "diagnose_timeline"]


@dataclass(frozen=True, slots=True)
class TimelineVerdict:
    """What holds the program up, in one sentence: text ``timeline.verdict.<id>.<variant>``, filled by ``params``.

    ``id`` is that of the finding that leads, or ``"busy"``, ``"idle"``, ``"few"``, ``"hidden"`` or ``"no-gpu"``.
    """

    id: str
    variant: str = "default"
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimelineDiagnosis:
    """Everything said about one timeline.

    ``findings`` are ranked, those of family ``"validity"`` at the end; ``explained`` names, per finding id, the finding
    that explains it. ``window`` is the time that all of this is said of: the steady state, or the middle of a very long
    one. ``program_known`` says whether the ncu commands end in the program's own command, or in one that
    stands for it. ``tags`` are what advice depends on: optimizer steps in one kernel already (``fused-optimizer``),
    kernels made by ``inductor``, input copied from ``pinned`` memory.
    """

    facts: TimelineFacts
    verdict: TimelineVerdict
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    kernels: tuple[KernelShare, ...]
    explained: Mapping[str, str]
    window: Window
    program_known: bool
    tags: frozenset[str] = frozenset()

    @property
    def main(self) -> tuple[Finding, ...]:
        """What is told in full: the first three causes that gain something, or whose gain is not known."""
        return tuple(one for one in self._causes if one.max_speedup is None or one.severity != "info")[:_TOLD_IN_FULL]

    @property
    def further(self) -> tuple[Finding, ...]:
        """The other causes, and what else could be done."""
        options = tuple(one for one in self.findings if one.option)
        return (*(one for one in self._causes if one not in self.main), *options)

    @property
    def effects(self) -> tuple[Finding, ...]:
        """The findings that another one explains."""
        return tuple(one for one in self.findings if one.id in self.explained)

    @property
    def validity(self) -> tuple[Finding, ...]:
        """What the reader must know of the capture itself."""
        return tuple(one for one in self.findings if one.family == "validity")

    @property
    def _causes(self) -> tuple[Finding, ...]:
        return tuple(
            one for one in self.findings if one.family != "validity" and one.id not in self.explained and not one.option
        )


_TOLD_IN_FULL = 3


def diagnose_timeline(facts: TimelineFacts, notices: Sequence[Notice] = ()) -> TimelineDiagnosis:
    """The diagnosis of a timeline; ``notices`` are what its report says of itself (lost events, for one)."""
    state = SteadyState(facts, notices)
    hits: dict[str, tuple[TimelineRule, Hit]] = {}
    not_checked: list[NotChecked] = []
    rules = all_timeline_rules()
    # What the others leave unexplained is the last thing to ask for.
    for rule in (*(one for one in rules.values() if one.id != "gpu-idle"), rules["gpu-idle"]):
        if not state.has("ops") or not rule.applies(state):
            continue
        missing = rule.missing(state)
        if missing:
            flags = tuple(dict.fromkeys(_FLAGS[need] for need in missing if state.is_nsys and need in _FLAGS))
            not_checked.append(NotChecked(rule.id, rule.family, missing, flags, bool(flags)))
            continue
        hit = rule.check(state)
        if hit is not None:
            hits[rule.id] = rule, hit
            state.found.add(rule.id)
            state.claimed.update(hit.claims)
    findings = [rule.finding(hit) for rule, hit in hits.values()]
    explaining = _explains_most_idle(state, {id: hit for id, (_, hit) in hits.items()})
    findings = [replace(one, effects=(*one.effects, "gpu-idle")) if one.id in explaining else one for one in findings]
    ranked, explained = rank([one for one in findings if one.family != "validity"])
    validity = tuple(one for one in findings if one.family == "validity")
    kernels = kernel_shares(state)
    return TimelineDiagnosis(
        facts=facts,
        verdict=_verdict(state, ranked, explained, kernels),
        findings=(*ranked, *validity),
        not_checked=tuple(not_checked),
        kernels=kernels,
        explained=explained,
        window=state.window,
        program_known=bool(program_of(facts.timeline.files)),
        tags=_tags(state, kernels),
    )


def _tags(state: SteadyState, kernels: Sequence[KernelShare]) -> frozenset[str]:
    optimizers = {one.identity.detail for one in kernels if one.identity.op_class == "optimizer"}
    copied = state.host_memory[state.copies_of(CopyKind.HOST_TO_DEVICE) & state.in_window]
    told = {
        "fused-optimizer": bool(optimizers - {"foreach"}),
        "inductor": any(one.identity.library == "inductor" for one in kernels),
        "pinned": len(copied) > 0 and bool((copied == MemoryKind.PINNED).all()),
    }
    return frozenset(tag for tag, holds in told.items() if holds)


_FLAGS = {
    "api-calls": "--trace=cuda,nvtx,osrt",
    "os-calls": "--trace=cuda,nvtx,osrt",
    "nvtx": "--trace=cuda,nvtx,osrt",
    "gpu-metrics": "--gpu-metrics-devices=all",
    "samples": "--sample=process-tree",
}
"""The flag of ``nsys profile`` that brings what a capture lacks."""


def _explains_most_idle(state: SteadyState, hits: Mapping[str, Hit]) -> frozenset[str]:
    """The findings that together speak of half of the idle time or more, where they do: the largest part first."""
    if "gpu-idle" not in hits:
        return frozenset()
    gpu = state.worst(state.idle_share)
    if state.idle(gpu, *state.claimed) * 2 < state.idle(gpu) or not state.claimed:
        return frozenset()
    return frozenset(id for id, hit in hits.items() if hit.claims)


# ------------------------------------------------------------------ the sentence


def _verdict(
    state: SteadyState, ranked: Sequence[Finding], explained: Mapping[str, str], kernels: Sequence[KernelShare]
) -> TimelineVerdict:
    timeline = state.timeline
    if not state.gpus:
        return TimelineVerdict(
            "no-gpu", "ranges" if len(timeline.ranges) else "default", {"ranges": len(timeline.ranges)}
        )
    lead = next((one for one in ranked if one.id not in explained and _leads(one)), None)
    worst = state.worst(state.idle_share)
    named = None if lead is None else lead.params.get("gpu")
    gpu = next((one for one in state.gpus if state.number(one) == named), worst)
    # Collectives have no command, and faster kernels are not what they need.
    top = next((one for one in kernels if one.command), kernels[0] if kernels else None)
    params: dict[str, Any] = {
        "busy_pct": 100 * (1 - state.idle_share(gpu)),
        "idle_pct": 100 * state.idle_share(gpu),
        "most_pct": 100 * (1 - state.least_idle),
        "gpu": state.number(gpu),
        "gpus": len(state.gpus),
        "kernel": top.kernel.name if top else "",
        "kernel_pct": 100 * top.share if top else 0.0,
        "kernels": int(state.facts.kernel_mask.sum()),
        "ops": len(timeline.ops),
        "span": float(state.window.span_ns),
    }
    if any(one == OpKind.GRAPH for one in np.unique(timeline.ops.kind[state.rows]).tolist()) and top is None:
        return TimelineVerdict("hidden", "default", params)
    if lead is not None:
        return TimelineVerdict(lead.id, lead.variant, {**params, **lead.params})
    if not state.has("loop"):
        return TimelineVerdict("few", "copies" if top is None else "once" if state.has_many_ops else "default", params)
    if params["idle_pct"] >= 100 * IDLE_SHARE:
        return TimelineVerdict("idle", "several" if len(state.gpus) > 1 else "default", params)
    several = "default"
    if len(state.gpus) > 1:
        several = "alike" if round(params["busy_pct"]) == round(params["most_pct"]) else "several"
    return TimelineVerdict("busy", several if top else f"{several}-copies", params)


def _leads(finding: Finding) -> bool:
    """Sure and large enough to be the one sentence."""
    return finding.severity in ("high", "medium") and finding.confidence >= _LEADING


_LEADING = 0.5
