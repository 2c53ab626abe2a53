"""The sentence on the expected side and the step of a transformer, wherever a kernel is told of."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from built import make_report, sm_parts
from gputui.analysis.engine import diagnose_all
from gputui.formats import open_report
from gputui.model.report import Report, Session
from gputui.render.markdown import report_markdown
from gputui.render.schema import report_json
from gputui.render.text import level_of, report_text
from gputui.wording import LANGUAGES, wording

SAMPLES = Path(__file__).parents[2] / "sample_reports"

BUSY = {"duration": 1e5, "sm_pct": 75.0, "memory_pct": 20.0, "dram_pct": 20.0, **sm_parts(issue_active=75)}
SENTENCE = {
    "en": "Softmax: expected on the memory side of the roofline; this one is held by its instructions instead "
    "(SMs 75 %, DRAM 20 % busy).",
    "ja": "softmax：ルーフラインのメモリ側にあるはずだが、このカーネルは命令の処理で頭打ちである"
    "（稼働率は SM 75 %、DRAM 20 %）。",
}  # fmt: skip


def softmax(**other: float) -> Report:
    report = make_report([{**BUSY, **other}], ["softmax_walk"])
    report.kernels[0].nvtx = ("block", "attention")
    return report


def printed(report: Report, language: str = "en") -> str:
    console = Console(file=io.StringIO(), width=300, highlight=False, markup=False, emoji=False)
    for part in report_text(report, diagnose_all(report), wording(language)):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sentence_is_told_everywhere(language: str) -> None:
    words, seen = wording(language), diagnose_all(softmax())
    text, report = SENTENCE[language].casefold(), softmax()
    assert text in printed(report, language).casefold()
    assert text in report_markdown(report, seen, words).replace("\\", "").casefold()
    kernel = report_json(report, seen, words)["kernels"][0]
    assert kernel["expected"]["side"] == "memory"
    assert kernel["expected"]["sentence"].casefold() == text
    assert kernel["transformer_op"] == "softmax"


def test_a_kernel_where_it_belongs_gets_none() -> None:
    at_home = softmax(sm_pct=20.0, memory_pct=85.0, dram_pct=85.0)
    (kernel,) = report_json(at_home, diagnose_all(at_home), wording("en"))["kernels"]
    assert kernel["expected"] == {"side": "memory", "sentence": None}
    assert "expected" not in printed(at_home)
    other = make_report([BUSY], ["walk"])
    assert report_json(other, diagnose_all(other), wording("en"))["kernels"][0]["expected"] is None


def test_the_step_is_named_once() -> None:
    report = make_report([{"duration": 1e5}] * 2, ["sgemm", "softmax_walk"])
    report.kernels[0].nvtx, report.kernels[1].nvtx = ("mlp",), ("attention",)
    text = printed(report)
    assert "MLP · matrix product · own kernel" in text
    assert "\nsoftmax · own kernel" in text


def test_what_is_told_on_another_launch_of_the_function_is_not_lost() -> None:
    # The slower addition stands alone; the chain is told on the faster one.
    add, mul = "vectorized_elementwise_kernel<CUDAFunctor_add>", "vectorized_elementwise_kernel<MulFunctor>"
    numbers = {"duration": 1e5, "dram_read_bytes": 1e8, "dram_write_bytes": 1e8, "dram_pct": 50.0,
               "dram_bytes_per_s": 2e12, "sm_pct": 10.0, "memory_pct": 50.0}  # fmt: skip
    rows = [{**numbers, "duration": 3e5}, {"duration": 1e5}, {**numbers, "duration": 9e4}, numbers]
    report = make_report(rows, [add, "sgemm", mul, add], session=Session(command_line="ncu -o x python x.py"))
    assert "- 2 launches pass data through memory" in printed(report)


def test_a_group_is_told_in_full_once() -> None:
    report = open_report(SAMPLES / "attention_eager.ncu-rep")
    try:
        text = printed(report)
        markdown = report_markdown(report, diagnose_all(report), wording("en")).replace("\\", "")
    finally:
        report.close()
    for whole in (text, markdown):
        assert whole.count("F.scaled_dot_product_attention(q, k, v") == 1
        # The softmax takes longest, so the product, the scale and the other product point to it.
        assert whole.count("finding 1 of cunn") == 3


@pytest.mark.parametrize(
    ("command", "nvtx", "other", "level"),
    [
        ("ncu -o x ./program", (), "walk", "cuda"),
        (None, (), "walk", "cuda"),
        ("ncu -o x /usr/bin/python3 train.py", (), "walk", "pytorch"),
        ("ncu -o x ./program", ("step",), "walk", "pytorch"),
        ("ncu -o x ./program", (), "vectorized_elementwise_kernel<CUDAFunctor_add>", "pytorch"),
    ],
)
def test_a_librarys_kernel_is_explained_for_the_program_that_calls_it(
    command: str | None, nvtx: tuple[str, ...], other: str, level: str
) -> None:
    names = ["ampere_sgemm_128x64_nn", other]
    report = make_report([BUSY, BUSY], names, names, session=Session(command_line=command))
    report.kernels[1].nvtx = nvtx
    assert level_of(diagnose_all(report)[0]) == level
