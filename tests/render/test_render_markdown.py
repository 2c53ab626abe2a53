"""The explanation as Markdown: a table, sections, and names that stay names."""

from __future__ import annotations

import re

import pytest
from render_builder import HOSTILE, hostile_report, make_report

from gputui.analysis.engine import diagnose_all
from gputui.model.report import Report
from gputui.render.markdown import escape, report_markdown
from gputui.terminal import safe
from gputui.wording import wording


def markdown(report: Report, language: str = "en") -> str:
    return report_markdown(report, diagnose_all(report), wording(language))


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain", "plain"),
        ("a|b", r"a\|b"),
        ("`rm`", r"\`rm\`"),
        ("my_kernel_v2", r"my\_kernel\_v2"),
        ("add<float, 4>", r"add\<float, 4\>"),
        ("[text](http://x)", r"\[text\](http://x)"),
        ("![i](x)", r"\!\[i\](x)"),
        ("<img src=x>", r"\<img src=x\>"),
        ("a&lt;b", r"a\&lt;b"),
        ("**b** ~~s~~ $x$", r"\*\*b\*\* \~\~s\~\~ \$x\$"),
        ("back\\slash", r"back\\slash"),
        ("one\n# two", r"one\\x0a\# two"),
        ("\x1b[2J", r"\\x1b\[2J"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_the_table_and_the_sections_of_a_built_report() -> None:
    text = markdown(make_report("copy_a", "gemm_b", "gemm_b"))
    assert text.startswith("# run.ncu-rep · NVIDIA Test GPU · 3 kernels · 1.5 ms\n")
    assert (
        "| % | time | kernel | verdict |\n"
        "|--:|--:|---|---|\n"
        "| 67 % | 1 ms | gemm\\_b ×2 | memory-bound |\n"
        "| 33 % | 500 µs | copy\\_a | memory-bound |\n"
        in text
    )  # fmt: skip
    assert (
        "\n## copy\\_a · 500 µs\n\n"
        "**Memory-bound: the road to the GPU's main memory (DRAM) is 78 % full, and computing waits for deliveries.**"
        "\n\n"
        "SM (compute) 12 % · Memory 78 % · L2 cache – · DRAM 78 % · Tensor cores – · Occupancy 55 % · "
        "Warp efficiency 100 %\n\n"
        "### 1. Main memory (DRAM) is 78 % busy: close to full (up to 1.19×)\n"
        in text
    )  # fmt: skip
    assert "- Evidence: `gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed` = 78 % (75 %)" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("language", ["en", "ja"])
def test_nothing_hostile_is_left(language: str) -> None:
    for line in markdown(hostile_report(), language).splitlines():
        assert safe(line) == line
        # Outside of code no character of a name acts.
        bare = re.sub(r"`[^`]*`", "", re.sub(r"\\.", "", line))
        assert not re.search(r"[<>`\[\]$~&]", bare.removeprefix("> ")), line


def test_hostile_names_keep_the_table_a_table() -> None:
    rows = [line for line in markdown(hostile_report()).splitlines() if line.startswith("| 11 %")]
    assert len(rows) == len(HOSTILE)
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {5}


def test_what_the_report_cannot_tell_is_its_last_word() -> None:
    assert markdown(make_report("copy_a")).splitlines()[-1] == (
        "To collect it: `ncu --set full --import-source yes -o again YOUR_PROGRAM`"
    )
