"""Which concepts a GPU can tell at all: some counters do not exist on some chips (``data/absent_metrics.tsv``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gputui.data import text_of
from gputui.model.device import Device
from gputui.model.metrics import dictionary


def can_tell(concept: str, device: Device) -> bool:
    """Whether a report of this GPU can hold the concept; ``True`` where the GPU is not known."""
    capability = device.capability_text
    return capability is None or _can_tell(concept, capability, frozenset())


@cache
def _can_tell(id: str, capability: str, open_ids: frozenset[str]) -> bool:
    if id in open_ids:
        return False
    concept = dictionary()[id]
    if any(capability not in _absent().get(name.partition(".")[0], ()) for name in concept.names):
        return True
    open_ids |= {id}
    return any(all(_can_tell(part, capability, open_ids) for part in formula.concepts) for formula in concept.formulas)


@cache
def _absent() -> Mapping[str, frozenset[str]]:
    """The compute capabilities that lack a counter, by its base name."""
    text = text_of("absent_metrics.tsv")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {name: frozenset(capabilities.split()) for name, capabilities in rows}
