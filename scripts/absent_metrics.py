"""Writes src/gputui/data/absent_metrics.tsv: the dictionary's counters that some GPU does not have.

    python scripts/absent_metrics.py

It reads tests/model/metric_presence.csv.gz, the names that Nsight Compute 2024.1 and 2026.3 know on each chip. Names
that the table does not hold are those of the 2018 and 2019 tools, which no chip after Turing had, or no counters
(launch__…).
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from pathlib import Path

from gputui.model.metrics import dictionary

ROOT = Path(__file__).parents[1]
CHIPS = {
    "gv100": "7.0", "tu102": "7.5", "ga100": "8.0", "ga102": "8.6", "ad102": "8.9", "gh100": "9.0", "gb100": "10.0",
    "gb110": "10.3", "gb10b": "11.0", "gb202": "12.0", "gb20b": "12.1",
}  # fmt: skip
OLDEST = ("7.0", "7.5")
NO_COUNTERS = re.compile(
    r"launch__|device__|derived__|profiler__|memory_l[12]_|sass__|inst_executed$|thread_inst_executed(_true)?$"
    r"|smsp__pcsamp_|smsp__branch_targets_threads_divergent|sms?p?__maximum_warps_"
)


def absent() -> dict[str, list[str]]:
    packed = (ROOT / "tests/model/metric_presence.csv.gz").read_bytes()
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))}
    found = {}
    for name in sorted({name.split(".")[0] for concept in dictionary().values() for name in concept.names}):
        if NO_COUNTERS.match(name):
            continue
        if name in rows:
            has = {column.split("@")[0] for column, flag in rows[name].items() if flag == "1"}
            missing = [capability for chip, capability in CHIPS.items() if chip not in has]
        else:
            missing = [capability for capability in CHIPS.values() if capability not in OLDEST]
        if missing:
            found[name] = missing
    return found


if __name__ == "__main__":
    lines = ["counter\tabsent on compute capability", *(f"{name}\t{' '.join(on)}" for name, on in absent().items())]
    (ROOT / "src/gputui/data/absent_metrics.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
