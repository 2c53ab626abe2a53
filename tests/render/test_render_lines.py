"""Source lines and NVIDIA's remarks in text, Markdown and JSON, and that each has its words in every language."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from render_builder import HOSTILE, MemorySource, make_report
from rich.console import Console

from gputui.analysis import nvidia_rules
from gputui.analysis.engine import diagnose_all
from gputui.analysis.source import FlagId, Source
from gputui.model.report import Extras, Report, RuleResult
from gputui.model.source import Instruction, SourceLine, SourceListing
from gputui.render.lines import code_of, file_name, line_name, stall_name, stall_text
from gputui.render.markdown import report_markdown
from gputui.render.schema import report_json
from gputui.render.text import report_text
from gputui.wording import LANGUAGES, wording

SAMPLE = Path(__file__).parents[2] / "sample_reports" / "tour_source.ncu-rep"


def listing(text: str, file: str = "dir/a.cu") -> SourceListing:
    instruction = Instruction(0, "LDG.E R2, [R4]", file, 7, samples=9, stalls={"long_scoreboard": 9.0})
    return SourceListing((instruction,), frozenset({"samples"}), {(file, 7): SourceLine(file, 7, text)})


def report_with(code: SourceListing, *rules: RuleResult) -> Report:
    class Told(MemorySource):
        def extras(self, index: int) -> Extras:
            return Extras(rules=rules)

    report = make_report("walk")
    assert isinstance(report.source, MemorySource)
    report.source = Told(report.source.rows)
    report.source.listing = code
    return report


def text_of(report: Report, language: str = "en", width: int = 100) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        for part in report_text(report, diagnose_all(report), wording(language)):
            console.print(part)
    return capture.get()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_mark_reason_and_relation_has_words(language: str) -> None:
    words = wording(language)
    for id in get_args(FlagId):
        assert words.text(f"source.mark.{id}")
    for relation in nvidia_rules.RELATIONS:
        assert words.text(f"nvidia.count.{relation}", count=1)
    table = words._table
    assert table["source"]["stall"].keys() == table["source"]["stall_text"].keys()
    assert table["source"]["mark"].keys() == table["source"]["mark_text"].keys() == set(get_args(FlagId))
    code = Path(nvidia_rules.__file__).read_text(encoding="utf-8")
    reasons = table["nvidia"]["reason"].keys()
    assert {reason for reason in reasons if f'"{reason}"' not in code} == set()


def test_reasons_of_tomorrow_are_shown_by_their_own_name() -> None:
    words = wording("en")
    assert stall_name("new_unit_throttle", words) == "new unit throttle"
    assert stall_name("evil\x1b[2J", words) == "evil\\x1b[2J"
    assert stall_name("", words) == ""
    assert stall_text("new_unit_throttle", words) == ""


@pytest.mark.parametrize(
    ("path", "name"), [("/a/b.cu", "b.cu"), (r"C:\src\b.cu", "b.cu"), ("b.cu", "b.cu"), ("a/\x1b.cu", "\\x1b.cu")]
)
def test_file_names(path: str, name: str) -> None:
    assert file_name(path) == name


def test_the_three_hottest_lines_and_nvidias_remarks_are_printed() -> None:
    rules = (RuleResult("SOLBottleneck", "SpeedOfLight", "OPT", "High Memory Throughput", "Memory is busy."),)
    text = text_of(report_with(listing("    y = x[i];"), *rules))
    assert re.search(r"100 %\s+█{8}\s+a\.cu:7\s+y = x\[i\];\s+waits for memory", text)
    assert "- High Memory Throughput: Agrees with gputui's verdict: memory-bound." in text
    assert "Hottest lines" in text


@pytest.mark.parametrize("evil", HOSTILE)
def test_strangers_code_is_shown_and_does_nothing(evil: str) -> None:
    rule = RuleResult(evil, evil, "OPT", evil, evil)
    report = report_with(listing(evil, f"dir/{evil}"), rule)
    diagnoses = diagnose_all(report)
    for language in LANGUAGES:
        for text in (text_of(report, language), report_markdown(report, diagnoses, wording(language))):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    found = json.loads(json.dumps(report_json(report, diagnoses, wording("en"))))["kernels"][0]
    assert found["source"]["lines"][0]["text"] == evil
    assert found["nvidia_rules"][0]["title"] == evil


def test_backticks_in_code_do_not_end_the_code_in_markdown() -> None:
    report = report_with(listing("a ``b`` c"))
    assert "``` a ``b`` c ```" in report_markdown(report, diagnose_all(report), wording("en"))


def test_the_json_of_the_sample() -> None:
    from gputui.formats import open_report

    report = open_report(SAMPLE)
    kernels = report_json(report, diagnose_all(report), wording("en"))["kernels"]
    report.close()
    conflicts = next(one for one in kernels if one["name"] == "shared_walk_conflicts")
    place = conflicts["findings"][0]["place"]
    assert (place["line"], place["share_pct"]) == (115, 100.0)
    (first, *rest) = conflicts["source"]["lines"]
    assert len(rest) == 9
    assert first["line"] == 115
    assert first["share_pct"] == pytest.approx(75.6, abs=0.1)
    assert first["flags"] == ["bank-conflicts", "stall"]
    assert first["stalls"]["mio_throttle"] == pytest.approx(0.769, abs=0.001)
    remark = next(one for one in conflicts["nvidia_rules"] if one["rule"] == "SharedMemoryConflicts")
    assert (remark["our_finding"], remark["relation"], remark["estimate_is"]) == ("bank-conflicts", "agrees", "kernel")
    assert round(remark["estimate_pct"]) == 97


def test_a_report_without_lines_says_null() -> None:
    report = make_report("walk")
    kernel = report_json(report, diagnose_all(report), wording("en"))["kernels"][0]
    assert (kernel["source"], kernel["nvidia_rules"], kernel["findings"][0]["place"]) == (None, [], None)


def test_names_of_lines() -> None:
    words = wording("en")
    (line,) = Source(listing("\ty = x[i];   // it")).lines
    assert (line_name(line, words), code_of(line)) == ("a.cu:7", "y = x[i]; // it")
    (bare,) = Source(SourceListing((Instruction(0, "EXIT", samples=1),), frozenset({"samples"}))).lines
    assert (line_name(bare, words), code_of(bare)) == ("SASS 1", "EXIT")
