"""The Japanese explanation of every report says the same as the English one, with the same numbers."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.formats import open_report
from gputui.model.report import Report
from gputui.render.text import report_text
from gputui.wording import READER_LEVELS, ReaderLevel, wording

SAMPLES = sorted((Path(__file__).parents[2] / "sample_reports").glob("*.ncu-rep"))


def explained(report: Report, diagnoses: Sequence[Diagnosis], language: str, level: ReaderLevel | None) -> str:
    console = Console(file=io.StringIO(), width=100_000, color_system=None)
    for part in report_text(report, diagnoses, wording(language), level):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def numbers(text: str) -> Counter[str]:
    """The numbers of a text, but for the small ones: Japanese writes "1 つの" where English writes "a"."""
    found = re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?", text)
    return Counter(number for number in found if "." in number or int(number.replace(",", "")) > 3)


def english_sentences(text: str) -> list[str]:
    """Lines with four English words in a row, but for commands, code and the program's own names."""
    return [
        line.strip()
        for line in text.splitlines()
        if re.search(r"\b[a-z]+ [a-z]+ [a-z]+ [a-z]+\b", line) and not re.search(r"--|[=_(]|^NVTX ", line)
    ]


def check(path: Path, levels: Sequence[ReaderLevel | None]) -> int:
    """How many English sentences the English text has; the Japanese one must have none."""
    report = open_report(path)
    try:
        diagnoses = diagnose_all(report)
        found = 0
        for level in levels:
            english, japanese = (explained(report, diagnoses, language, level) for language in ("en", "ja"))
            assert numbers(english) == numbers(japanese), path.name
            assert not english_sentences(japanese), path.name
            found += len(english_sentences(english))
        return found
    finally:
        report.close()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_samples(path: Path) -> None:
    assert check(path, READER_LEVELS)


def test_the_public_reports(reports: Path) -> None:
    assert sum(check(path, [None]) for path in sorted((reports / "ncu").iterdir())) > 100
