"""``explain`` and ``export`` on the handed timelines: their counts, and whether what is said first is what matters."""

from __future__ import annotations

import csv
import json
import re
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import gputui
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.analysis.timeline_tables import select
from gputui.errors import GputuiError
from gputui.render.timeline_json import timeline_json
from gputui.render.timeline_markdown import timeline_markdown
from gputui.render.timeline_table import csv_parts
from gputui.render.timeline_text import timeline_text
from gputui.wording import LANGUAGES, wording

POWER_ITERATION = "brycelelbach__nsightful__power_iteration__baseline.sqlite"


def table_of(index: str, heading: str) -> dict[str, dict[str, str]]:
    """A table of the reports' own list: file → column → cell."""
    table = index.partition(f"## {heading}")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    header, _, *rows = cells
    return {row[0]: dict(zip(header, row, strict=False)) for row in rows}


def explained(path: Path) -> tuple[Any, dict[tuple[str, int], str], str]:
    """The JSON, the texts by language and width, the Markdown."""
    report = gputui.open_report(path)
    diagnosis = gputui.diagnose(report)
    assert isinstance(diagnosis, TimelineDiagnosis)
    selection = select(diagnosis)
    answer = json.loads(json.dumps(timeline_json(report, diagnosis, selection, wording("en")), allow_nan=False))
    texts = {}
    for language in LANGUAGES:
        for width in (80, 110):
            console = Console(file=StringIO(), width=width, highlight=False, markup=False, emoji=False)
            for part in timeline_text(report, diagnosis, selection, wording(language)):
                console.print(part)
            assert isinstance(console.file, StringIO)
            texts[language, width] = console.file.getvalue()
    return answer, texts, timeline_markdown(report, diagnosis, selection, wording("en"))


def readable(folder: Path) -> list[Path]:
    """The timelines in a folder; an export stands for its report where there is no nsys for that."""
    return [path for path in sorted(folder.iterdir()) if path.suffix in (".sqlite", ".json", ".gz")]


@pytest.mark.parametrize("folder", ["sqlite", "torch"])
def test_every_handed_timeline_is_explained(reports: Path, folder: str) -> None:
    index = table_of((reports / "INDEX.md").read_text(encoding="utf-8"), folder)
    refused = 0
    for path in readable(reports / folder):
        try:
            answer, texts, markdown = explained(path)
        except GputuiError:
            refused += 1
            continue
        kernels = index[path.name].get("kernels")
        if kernels is not None:
            expected = 0 if kernels == "-" else int(kernels)
            assert sum(one["count"] for one in answer["kernels"]) == expected, path.name
            assert sum(one["kernel_count"] for one in answer["timeline"]["devices"]) == expected, path.name
        sentence = answer["timeline"]["verdict"]["sentence"]
        assert sentence in " ".join(texts["en", 110].split()), path.name
        assert sentence in re.sub(r"\\(.)", r"\1", markdown), path.name
        for device in answer["timeline"]["devices"]:
            assert 0 <= device["busy_share"] <= 1, path.name
            assert device["busy_ns"] + device["idle_ns"] == answer["timeline"]["span_ns"], path.name
        for (_, width), text in texts.items():
            assert max(map(cell_len, text.splitlines())) <= width, path.name
            # A screen or two, whatever the size of the capture.
            assert len(text.splitlines()) <= 130, path.name
            assert not re.search(r"\bnan\b|\bNone\b|\{[a-z_]+(:[a-z]+)?\}", text), path.name
    # The Git LFS pointer alone.
    assert refused == (folder == "sqlite")


def test_power_iteration_idles_between_its_steps_and_runs_one_kernel(reports: Path) -> None:
    answer, texts, _ = explained(reports / "sqlite" / POWER_ITERATION)
    timeline = answer["timeline"]
    assert timeline["verdict"]["id"] == timeline["findings"][0]["id"] == "gpu-idle"
    assert timeline["devices"][0]["busy_share"] < 0.65
    text = " ".join(texts["en", 80].split())
    # The idle time leads, then the kernel; the small copies come last and are called so.
    places = [text.index(part) for part in ("GPU 0 waits", "gemv2T_kernel_val takes 95 %", "89 copies")]
    assert places == sorted(places)
    assert re.search(r"89 copies [^()]*small[^()]*\(minor\)", text)
    loop = next(one for one in timeline["nvtx"] if one["range"] == "Loop")
    assert (loop["count"], loop["kernel_count"]) == (1, 3677)


def test_nvtx_of_power_iteration_counts_what_the_ranges_launched(reports: Path) -> None:
    report = gputui.open_report(reports / "sqlite" / POWER_ITERATION)
    diagnosis = gputui.diagnose(report)
    assert isinstance(diagnosis, TimelineDiagnosis)
    chosen = select(diagnosis, nvtx=re.compile(r"/Compute & Residual"))
    # 44 steps launch the product and its reduction once each in this range, and nothing overlaps it.
    counts = {share.kernel.name: share.group.count for share in chosen.kernels}
    assert counts["gemv2T_kernel_val"] == counts["splitKreduce_kernel"] == 44
    assert sum(counts.values()) == sum(node.kernels for node in chosen.nodes)


def test_every_operation_of_a_handed_timeline_is_exported(reports: Path) -> None:
    timeline = gputui.open_report(reports / "sqlite" / POWER_ITERATION).timeline
    assert timeline is not None
    facts = TimelineFacts(timeline)
    rows = list(csv.DictReader(StringIO("".join(csv_parts(facts, facts.ops_of())))))
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("kernel"), kinds.count("copy")) == (3689, 89)
    assert sum(int(row["duration_ns"]) for row in rows if row["kind"] == "kernel") == sum(
        group.total_ns for group in facts.kernels
    )
    # All but a few of the first operations belong to the loop, and most of those to a step of it.
    assert sum(row["nvtx"].startswith("Loop") for row in rows) == 3677 + 88
    assert sum(row["nvtx"].startswith("Loop/Step ") for row in rows) > 3700


@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
def test_reports_of_nsys_itself_are_explained(reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    index = table_of((reports / "INDEX.md").read_text(encoding="utf-8"), "nsys")
    for name in ("openhackathons-org__gpubootcamp__jacobi_report.qdrep", "piragi__fuzigrad__report.nsys-rep"):
        answer, _, _ = explained(reports / "nsys" / name)
        assert sum(one["count"] for one in answer["kernels"]) == int(index[name]["kernels"])
        assert answer["report"]["path"].endswith(name)
