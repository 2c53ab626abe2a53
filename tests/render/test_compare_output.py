"""A comparison on paper: as text, as Markdown and as JSON."""

from __future__ import annotations

import json
import re
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from render_builder import HOSTILE, MEMORY_BOUND, hostile_report, make_report
from rich.console import Console

import gputui
from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.model import Comparison, Side
from gputui.analysis.compare.sides import counters_side
from gputui.analysis.engine import diagnose_all
from gputui.model.report import Report
from gputui.paint.grid import width_of
from gputui.render.compare_json import compare_json
from gputui.render.compare_markdown import compare_markdown
from gputui.render.compare_text import compare_text
from gputui.wording import LANGUAGES, wording

SAMPLES = Path(__file__).parents[2] / "sample_reports"


def side_of(report: Report) -> Side:
    return counters_side([(report, diagnose_all(report))])


@cache
def sample(base: str, new: str) -> Comparison:
    return compare(*(side_of(gputui.open_report(SAMPLES / f"attention_{name}.ncu-rep")) for name in (base, new)))


def printed(*comparisons: Comparison, language: str = "en", width: int = 80, ascii: bool = False) -> str:
    console = Console(file=StringIO(), width=width, highlight=False, markup=False, emoji=False)
    for part in compare_text(comparisons, wording(language), ascii=ascii):
        console.print(part)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def hostile() -> Comparison:
    """Every name hostile, with kernels that stay, that change and that stand alone."""
    base, new = (
        hostile_report(),
        make_report(*HOSTILE[:4], *HOSTILE[6:], metrics=MEMORY_BOUND, path="b\x1b[2J|.ncu-rep"),
    )
    return compare(side_of(base), side_of(new))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [80, 110])
def test_the_text_stays_within_the_terminal(width: int, language: str) -> None:
    for line in printed(sample("eager", "compile"), language=language, width=width).splitlines():
        assert width_of(line.rstrip()) <= width, line


def test_the_text_says_first_what_matters() -> None:
    lines = [line.rstrip() for line in printed(sample("eager", "compile"), width=110).splitlines() if line.strip()]
    places = [
        next(place for place, line in enumerate(lines) if line.startswith(start))
        for start in (
            "attention_eager.ncu-rep →", "! The work was done once", "Faster: 2.05 ms → 1.03 ms",
            "✓  Tensor cores used more", "✓  Less DRAM traffic", "✓  Kernels fused", "The bottleneck moved",
            "Slowest now: flash_fwd_kernel", "Change next, in flash_fwd_kernel", "What became of the kernels", "Why",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert places[2] <= 3


def test_the_marks_need_no_more_than_ascii() -> None:
    marked = re.findall(r"^([+x=?])  ", printed(sample("eager", "compile"), ascii=True), re.MULTILINE)
    assert marked == ["+", "+", "+"]


def test_each_of_several_comparisons_has_its_part() -> None:
    text = printed(sample("eager", "compile"), sample("eager", "sdpa"))
    assert text.count("What became of the kernels") == 2
    assert text.count("Tensor cores used more") == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_from_strangers_act_on_nothing(language: str) -> None:
    c = hostile()
    for text in (printed(c, language=language), compare_markdown([c], wording(language))):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\u2066\u200b\u2028\udc80]", text)
    markdown = compare_markdown([c], wording(language))
    assert "<img" not in re.sub(r"\\<", "", markdown)
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {8}


def test_the_markdown_is_a_verdict_a_list_and_a_table() -> None:
    lines = compare_markdown([sample("eager", "sdpa")], wording("en")).splitlines()
    assert lines[2] == "**Faster: 2.05 ms → 1.04 ms of GPU time, 1.97× (±1.3 %)**"
    assert lines[4:6] == [
        "- ✅ **Tensor cores used more**: 32 % → 69 % of the time, the same 550 G operations",
        "- ✅ **Less DRAM traffic**: 3.89 GB → 720 MB, 5.4× less",
    ]
    assert lines[6].startswith("- ✅ **Kernels fused**: 14 kernels → 10 · 5 kernels → flash\\_fwd\\_kernel: ")
    assert lines[8].startswith("> ⚠️ The work was done once on a side")
    assert sum(line.startswith("| ") for line in lines) == 8
    assert "| flash\\_fwd\\_kernel | fused | 1.41 ms → 399 µs | 3.5× faster | 3.23 GB → 61.4 MB |" in "\n".join(lines)


def test_the_json_holds_the_numbers() -> None:
    found = json.loads(json.dumps(compare_json([sample("eager", "sdpa")], wording("en")), allow_nan=False))
    assert (found["schema"], found["base"]["device"]["name"]) == (1, "NVIDIA H200")
    assert found["new"]["path"].endswith("attention_sdpa.ncu-rep")
    [one] = found["comparisons"]
    assert one["answers"]["tensor"] | {"because": None} == one["answers"]["tensor"]
    assert (one["answers"]["tensor"]["answer"], one["answers"]["tensor"]["before_ops"]) == ("yes", 549_755_813_888)
    assert one["answers"]["dram"]["after_bytes"] == 720_353_280
    assert one["answers"]["fusion"]["kind"] == "fused"
    assert (one["answers"]["fusion"]["before_kernels"], one["answers"]["fusion"]["after_kernels"]) == (14, 10)
    assert (one["time"]["outcome"], one["time"]["before_ns"], one["wall"]) == ("faster", 2_050_112, None)
    assert one["time"]["speedup"] == pytest.approx(2_050_112 / 1_042_944)
    assert one["cautions"][0]["id"] == "single-controls"
    first = one["groups"][0]
    assert (first["how"], len(first["base"]), first["new"][0]["name"]) == ("fused", 5, "flash_fwd_kernel")
    assert first["base"][2]["transformer_op"] == "softmax"
    assert sum(member["duration_ns"] for member in first["base"]) == first["before"]["time_ns"]
    assert one["bottleneck"]["after"]["verdict"] == "tensor-bound"
    assert one["next"]["kernel"] == "flash_fwd_kernel"


def test_what_is_not_told_is_null() -> None:
    metrics = {"gpu__time_duration.sum": (500_000.0, "ns")}
    c = compare(*(side_of(make_report("walk", metrics=metrics)) for _ in range(2)))
    [one] = json.loads(json.dumps(compare_json([c], wording("en")), allow_nan=False))["comparisons"]
    assert one["answers"]["dram"] == {
        "answer": "unknown", "trend": "unknown", "before_bytes": None, "after_bytes": None, "because": "not-counted",
    }  # fmt: skip
    assert one["groups"][0]["before"]["dram_bytes"] is None
    assert one["next"] is None
    json.dumps(compare_json([hostile()], wording("ja")), allow_nan=False)
