"""The rules of a timeline: one function a finding, registered under its id with what the capture must hold.

A rule looks at the steady state (``steady.SteadyState``) and returns a ``Hit`` where its condition holds. Where the
capture lacks what it needs it is not run, and is told as not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gputui.analysis.finding import Evidence, Finding, Moment

if TYPE_CHECKING:
    from gputui.analysis.timeline_rules.steady import Cause, SteadyState


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule found; the rest of the ``Finding`` is the rule's own.

    ``max_speedup`` bounds the time of the steady window: that time over the time without what the finding names, all
    else as it is. ``effects`` are findings that it explains, beside those of the rule; ``claims`` are the causes of
    idle time that it speaks of, which ``gpu-idle`` then leaves to it.
    """

    confidence: float
    max_speedup: float | None
    evidence: tuple[Evidence, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    moment: Moment | None = None
    effects: tuple[str, ...] = ()
    claims: tuple[Cause, ...] = ()


Check = Callable[["SteadyState"], "Hit | None"]


@dataclass(frozen=True, slots=True)
class TimelineRule:
    """``needs`` are what the capture must hold (``steady.NEEDS``); ``"a|b"`` asks for one of two.

    ``applies`` says whether the question makes sense for the program: where not, the rule is neither run nor told as
    not checked. ``loop`` asks for a program that does something again and again: a single launch has no steady state.
    """

    id: str
    family: str
    needs: tuple[str, ...]
    effects: tuple[str, ...]
    applies: Callable[[SteadyState], bool]
    check: Check
    option: bool
    loop: bool

    def missing(self, state: SteadyState) -> tuple[str, ...]:
        """The needs that this capture lacks; of alternatives, the first."""
        wanted = (*self.needs, "loop") if self.loop else self.needs
        return tuple(need.split("|")[0] for need in wanted if not any(map(state.has, need.split("|"))))

    def finding(self, hit: Hit) -> Finding:
        return Finding(
            self.id, self.family, round(hit.confidence, 2), hit.max_speedup, hit.evidence, hit.params,
            tuple(dict.fromkeys((*self.effects, *hit.effects))), hit.variant, self.option, moment=hit.moment,
        )  # fmt: skip


_RULES: dict[str, TimelineRule] = {}


def timeline_rule(
    id: str,
    family: str,
    *,
    needs: tuple[str, ...] = (),
    effects: tuple[str, ...] = (),
    applies: Callable[[SteadyState], bool] = lambda state: True,
    option: bool = False,
    loop: bool = True,
) -> Callable[[Check], Check]:
    """Register a rule under its id."""

    def register(check: Check) -> Check:
        if id in _RULES:
            raise ValueError(f"two timeline rules with the id {id}")
        _RULES[id] = TimelineRule(id, family, needs, effects, applies, check, option, loop)
        return check

    return register


def all_timeline_rules() -> Mapping[str, TimelineRule]:
    """Every rule by id."""
    from gputui.analysis.timeline_rules import capture, communication, copies, idle, kernels, waiting  # noqa: F401

    return _RULES
