"""The rules: one function a finding, registered under its id with the metrics that it needs.

A rule returns a ``Hit`` where its condition holds. A rule whose metrics the report lacks is not run, and is told as
not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gputui.analysis.finding import Evidence, Finding
from gputui.model.presence import can_tell

if TYPE_CHECKING:
    from gputui.analysis.facts import Facts
    from gputui.analysis.finding import Verdict


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule found; the rest of the ``Finding`` is the rule's own. The bound of a ``group`` is the group's."""

    confidence: float
    max_speedup: float | None
    evidence: tuple[Evidence, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    group: tuple[int, ...] = ()


Check = Callable[["Facts", "Verdict"], "Hit | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """``needs`` are concepts that must all be there; ``"a|b"`` asks for one of two. ``uses`` are read where there.

    ``applies`` says whether the question makes sense for the kernel (its GPU, its operation): where not, the rule is
    neither run nor told as not checked. ``otherwise`` says what a report may show that lacks the needs; where it says
    nothing the rule is not checked.
    """

    id: str
    family: str
    needs: tuple[str, ...]
    uses: tuple[str, ...]
    effects: tuple[str, ...]
    applies: Callable[[Facts], bool]
    check: Check
    option: bool = False
    otherwise: Check | None = None

    def missing(self, facts: Facts) -> tuple[str, ...]:
        """The needs that this kernel's report lacks; of alternatives, the first that its GPU can tell."""
        missing: list[str] = []
        for need in self.needs:
            options = need.split("|")
            if not any(facts.number(one) is not None for one in options):
                missing.append(next((one for one in options if can_tell(one, facts.device)), options[0]))
        return tuple(missing)

    @property
    def concepts(self) -> tuple[str, ...]:
        return (*(concept for need in self.needs for concept in need.split("|")), *self.uses)

    def finding(self, hit: Hit, facts: Facts) -> Finding:
        bound = hit.max_speedup
        if bound is not None:
            most = math.inf if hit.group else facts.most_gain
            bound = max(1.0, min(bound, most)) if math.isfinite(bound) else None
        confidence = round(hit.confidence, 2)
        return Finding(
            self.id, self.family, confidence, bound, hit.evidence, hit.params, self.effects, hit.variant, self.option,
            hit.group,
        )  # fmt: skip


RULES: dict[str, Rule] = {}


def rule(
    id: str,
    family: str,
    *,
    needs: tuple[str, ...] = (),
    uses: tuple[str, ...] = (),
    effects: tuple[str, ...] = (),
    applies: Callable[[Facts], bool] = lambda facts: True,
    option: bool = False,
    otherwise: Check | None = None,
) -> Callable[[Check], Check]:
    """Register a rule. ``effects`` are the ids of findings that this one, where it holds, explains; an ``option`` is
    what else the GPU offers and no cause."""

    def register(check: Check) -> Check:
        if id in RULES:
            raise ValueError(f"two rules with the id {id}")
        RULES[id] = Rule(id, family, needs, uses, effects, applies, check, option, otherwise)
        return check

    return register


def all_rules() -> Mapping[str, Rule]:
    """Every rule by id."""
    from gputui.analysis.rules import (  # noqa: F401
        compute,
        fusion,
        launch,
        memory,
        occupancy,
        stalls,
        tensor,
        traffic,
        validity,
    )

    return RULES
