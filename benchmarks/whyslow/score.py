"""Holds gputui's diagnosis of the planted kernels against what was planted, and prints one line a pair.

    python benchmarks/whyslow/score.py [FOLDER OF REPORTS]

Default folder: `reports` beside this file. The held-out pairs have a score of their own. Exit status 1 where the others
miss a target or a control is accused, 2 where there is nothing to score.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.formats import open_report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
REPORTS = HERE / "reports"

TARGETS = {"first": 0.85, "first three": 0.95, "gone": 0.95, "bound holds": 0.90}
TOLERANCE = 1.1
"""A measured speed-up may pass its bound by this much: two single runs differ by some percent."""

Label = Mapping[str, Any]
Ranges = Mapping[str, Sequence[Diagnosis]]


@dataclass(frozen=True, slots=True)
class Row:
    """What the diagnosis made of one pair."""

    name: str
    planted: str
    rank: int | None
    """The best place, from 1, of the planted finding (or of one as good) on any kernel of the slow side."""
    leading: str
    """The first finding of the kernel that holds this place, else of the longest one."""
    left: float | None
    """What the finding still promises on the cured side (infinity where it cannot say); ``None`` where it is gone."""
    gain: float | None
    """Measured under ncu: the slow side's time over the cured one's; ``None`` where the sides do other work."""
    outside: float | None
    """The same outside ncu, by events around warm launches."""
    bound: float | None
    remains: bool = False
    """The cure only lessens it."""

    @property
    def gone(self) -> bool:
        """Not found any more, or found to gain under 5 %; what remains, found to gain less than on the slow side."""
        least = self.bound or 1.05 if self.remains else 1.05
        return self.left is None or self.left < least

    @property
    def holds(self) -> bool | None:
        """Whether the bound holds; ``None`` where there is nothing to hold it against."""
        if self.rank is None or self.gain is None:
            return None
        return self.bound is not None and self.gain <= TOLERANCE * self.bound


@dataclass(frozen=True, slots=True)
class Score:
    rows: Sequence[Row]
    missing: Sequence[str]
    """Pairs and controls that the reports do not hold."""
    alarms: Mapping[str, Sequence[str]]
    """By control: its findings of high severity."""

    @property
    def shares(self) -> dict[str, float]:
        """What is held against ``TARGETS``, 0-1."""
        held = [row.holds for row in self.rows if row.holds is not None]
        return {
            "first": _share([row.rank == 1 for row in self.rows]),
            "first three": _share([row.rank is not None and row.rank <= 3 for row in self.rows]),
            "gone": _share([row.gone for row in self.rows]),
            "bound holds": _share(held),
        }

    @property
    def passed(self) -> bool:
        accused = any(self.alarms.values())
        return bool(self.rows) and not accused and all(self.shares[name] >= least for name, least in TARGETS.items())


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits) if hits else 0.0


def labels() -> tuple[list[Label], list[Label]]:
    """The pairs and the controls."""
    table = tomllib.loads((HERE / "labels.toml").read_text(encoding="utf-8"))
    return table["pair"], table["control"]


def reports_in(folder: Path) -> list[Path]:
    """Those to score: the one with source lines repeats kernels of the others."""
    return [path for path in sorted(folder.glob("whyslow_*.ncu-rep")) if path.stem != "whyslow_source"]


def ranges_of(paths: Sequence[Path]) -> dict[str, list[Diagnosis]]:
    """The diagnoses of each NVTX range, in the reports' order.

    A range that was collected once more, into a later report, counts as it is there.
    """
    found: dict[str, list[Diagnosis]] = {}
    for path in paths:
        report = open_report(path)
        here: dict[str, list[Diagnosis]] = {}
        try:
            for seen in diagnose_all(report):
                for name in dict.fromkeys(seen.kernel.nvtx):
                    here.setdefault(name, []).append(seen)
        finally:
            report.close()
        found |= here
    return found


def timings_in(folder: Path) -> dict[str, dict[str, float]]:
    """The times outside ncu by pair; a side that was timed once more counts as it is in the later file."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("timings*.json")):
        for name, sides in json.loads(path.read_text(encoding="utf-8")).items():
            found.setdefault(name, {}).update(sides)
    return found


def time_of(side: Sequence[Diagnosis]) -> float:
    return sum(seen.kernel.duration_ns or 0.0 for seen in side)


def row_of(label: Label, slow: Sequence[Diagnosis], cured: Sequence[Diagnosis], timing: Mapping[str, float]) -> Row:
    """What the diagnosis made of the two sides of a pair."""
    wanted = {label["planted"], *label.get("also", ())}
    places = [
        (place, found, seen)
        for seen in slow
        for place, found in enumerate(seen.findings, start=1)
        if found.id in wanted
    ]
    best = min((place for place, *_ in places), default=None)
    shown = next((seen for place, _, seen in places if place == best), None)
    # The cure is that of the planted finding: where it was found, beside one as good, its bound is meant.
    meant = [found for _, found, _ in places if found.id == label["planted"]]
    meant = meant or [found for place, found, _ in places if place == best]
    # A finding about a group of launches stands on several of them; the widest of its bounds is meant.
    bound = max((found.max_speedup for found in meant if found.max_speedup), default=None)
    if shown is None:
        shown = max(slow, key=lambda seen: seen.kernel.duration_ns or 0.0)
    # One of which the report cannot say how much it gains is not gone.
    left = [found.max_speedup or math.inf for seen in cured for found in seen.findings if found.id == label["planted"]]
    differs = label.get("work_differs", False)
    outside = timing.get("slow_us", 0.0) / timing["cured_us"] if timing.get("cured_us") else None
    return Row(
        name=label["name"],
        planted=label["planted"],
        rank=best,
        leading=shown.findings[0].id if shown.findings else "none",
        left=max(left, default=None),
        gain=None if differs or not time_of(cured) else time_of(slow) / time_of(cured),
        outside=None if differs or not outside else outside,
        bound=bound,
        remains=label.get("remains", False),
    )


def scores_of(folder: Path = REPORTS) -> tuple[Score, Score]:
    """The score of the reports in ``folder``, and that of the pairs that are held out."""
    pairs, controls = labels()
    ranges, timings = ranges_of(reports_in(folder)), timings_in(folder)
    known = [label for label in pairs if not label.get("held_out")]
    held_out = [label for label in pairs if label.get("held_out")]
    return _score(known, controls, ranges, timings), _score(held_out, [], ranges, timings)


def _score(
    pairs: Sequence[Label], controls: Sequence[Label], ranges: Ranges, timings: Mapping[str, Mapping[str, float]]
) -> Score:
    rows, missing, alarms = [], [], {}
    for label in pairs:
        slow, cured = (ranges.get(f"{label['name']}:{side}") for side in ("slow", "cured"))
        if slow and cured:
            rows.append(row_of(label, slow, cured, timings.get(label["name"], {})))
        else:
            missing.append(label["name"])
    for label in controls:
        kernels = ranges.get(f"control:{label['name']}")
        if kernels:
            alarms[label["name"]] = [
                found.id for seen in kernels for found in seen.findings if found.severity == "high"
            ]
        else:
            missing.append(f"control:{label['name']}")
    return Score(rows, missing, alarms)


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def told(score: Score) -> str:
    """The table and the shares as text."""
    lines = [
        f"{'pair':24} {'planted':24} {'rank':>4}  {'first finding':24} {'gone':5} {'gained':>8} {'outside':>8}"
        f" {'bound':>8}  holds"
    ]
    for row in score.rows:
        gone = "no" if not row.gone else "less" if row.remains and row.left is not None else "yes"
        holds = {True: "yes", False: "NO", None: "-"}[row.holds]
        lines.append(
            f"{row.name:24} {row.planted:24} {row.rank or '-':>4}  {row.leading:24} {gone:5} {_times(row.gain):>8}"
            f" {_times(row.outside):>8} {_times(row.bound):>8}  {holds}"
        )
    if score.alarms:
        lines.append("")
    for name, found in score.alarms.items():
        lines.append(f"control {name:24} {', '.join(found) or 'no high-severity finding'}")
    lines.append("")
    for name, share in score.shares.items():
        verdict = "" if share >= TARGETS[name] else "  below the target"
        lines.append(f"{name:12} {100 * share:5.1f} %  (target {100 * TARGETS[name]:.0f} %){verdict}")
    if score.alarms:
        accused = sum(map(bool, score.alarms.values()))
        lines.append(f"{'false alarms':12} {accused} of {len(score.alarms)} controls")
    if score.missing:
        lines.append(f"not in the reports: {', '.join(score.missing)}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]) if arguments else REPORTS
    if not reports_in(folder):
        print(f"no whyslow_*.ncu-rep in {folder}: collect them with collect.sh", file=sys.stderr)
        return 2
    known, held_out = scores_of(folder)
    print(told(known))
    if held_out.rows:
        print(f"\nheld out, see README.md\n\n{told(held_out)}")
    return 0 if known.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
