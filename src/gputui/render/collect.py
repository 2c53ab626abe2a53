"""What a report cannot tell, in a few words, and the ncu command that collects it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputui.analysis.finding import NotChecked
    from gputui.model.device import Device
    from gputui.wording import Wording

_NAMED = 4
"""Up to so many findings are named one by one; more are counted by family."""

PROGRAM = "YOUR_PROGRAM"
"""Stands for the profiled program and its arguments."""


_OLD_SECTIONS = (
    "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "SchedulerStats", "WarpStateStats",
    "InstructionStats", "LaunchStats", "Occupancy", "SourceCounters",
)  # fmt: skip
"""What Nsight Compute 2019.5 has; sets came later."""


def needs_old_ncu(device: Device | None) -> bool:
    """Pascal: Nsight Compute dropped it in 2020.1."""
    return device is not None and device.compute_capability is not None and device.compute_capability < (7, 0)


def collect_command(sections: Iterable[str], device: Device | None = None) -> str:
    """The shortest ncu command that collects these sections; ``"metrics"`` and ``"device"`` are no sections."""
    wanted = [section for section in dict.fromkeys(sections) if section not in ("metrics", "device")]
    if needs_old_ncu(device):
        chosen = " ".join(f"--section {one}" for one in _OLD_SECTIONS if one in (*wanted, "SpeedOfLight"))
        return f"nv-nsight-cu-cli {chosen} -o again {PROGRAM}"
    if len(wanted) == 1:
        chosen = " ".join(f"--section {section}" for section in dict.fromkeys((wanted[0], "SpeedOfLight")))
        return f"ncu {chosen} -o again {PROGRAM}"
    return f"ncu --set full --import-source yes -o again {PROGRAM}"


def nsys_command(flags: Iterable[str]) -> str:
    """The ``nsys profile`` command that records what these flags bring."""
    return " ".join(("nsys profile", *dict.fromkeys(flags), "-o again", PROGRAM))


@dataclass(frozen=True, slots=True)
class NotTold:
    """``what`` collecting again with ``command`` would tell; ``never``: what this GPU has no counters for.

    ``version`` says which Nsight Compute it takes, where that is not a current one.
    ``None`` where there is no such finding.
    """

    what: str | None
    command: str | None
    never: str | None
    version: str | None = None


def not_told(unchecked: Iterable[NotChecked], words: Wording, device: Device | None = None) -> NotTold:
    """The findings that could not be looked for, short enough for a line or two."""
    unchecked = tuple(unchecked)
    missing = [one for one in unchecked if one.available]
    never = [one for one in unchecked if not one.available]
    return NotTold(
        what=_named(missing, words) if missing else None,
        command=collect_command((section for one in missing for section in one.sections), device) if missing else None,
        never=_named(never, words) if never else None,
        version=words.text("explain.not-told-version") if missing and needs_old_ncu(device) else None,
    )


def _named(findings: Sequence[NotChecked], words: Wording) -> str:
    if len(findings) <= _NAMED:
        return ", ".join(words.finding_name(one.id) for one in findings)
    families = Counter(one.family for one in findings)
    return words.text(
        "explain.not-told-count",
        count=len(findings),
        families=", ".join(
            words.text("explain.not-told-family", family=words.text(f"explain.family.{family}"), count=count)
            for family, count in families.most_common()
        ),
    )
