"""A timeline explained as text and as Markdown, checked against numbers by hand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from render_builder import HOSTILE
from rich.console import Console

import gputui
from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.analysis.timeline_tables import select
from gputui.model.report import NoMetrics, Notice, Report
from gputui.model.timeline import Process, SourceFile, Timeline
from gputui.render import timeline_rows
from gputui.render.timeline_markdown import timeline_markdown
from gputui.render.timeline_text import timeline_text
from gputui.wording import LANGUAGES, wording
from traces import ADD, GEMM, STEPS, Event, loop, whole, write_trace


def opened(path: Path) -> tuple[Report, TimelineDiagnosis]:
    report = gputui.open_report(path)
    diagnosis = gputui.diagnose(report)
    assert isinstance(diagnosis, TimelineDiagnosis)
    return report, diagnosis


def explained(
    path: Path,
    *,
    kernel: str | None = None,
    nvtx: str | None = None,
    language: str = "en",
    width: int = 100,
    ascii: bool = False,
) -> str:
    report, diagnosis = opened(path)
    selection = select(diagnosis, *(None if one is None else re.compile(one) for one in (kernel, nvtx)))
    console = Console(file=StringIO(), width=width, highlight=False, markup=False, emoji=False)
    for part in timeline_text(report, diagnosis, selection, wording(language), ascii=ascii):
        console.print(part)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def markdown(path: Path, *, nvtx: str | None = None, language: str = "en") -> str:
    report, diagnosis = opened(path)
    selection = select(diagnosis, None, None if nvtx is None else re.compile(nvtx))
    return timeline_markdown(report, diagnosis, selection, wording(language))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "loop.json")


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


def rows_under(text: str, heading: str) -> list[list[str]]:
    """The table under a heading, without its line of column names."""
    lines = iter(text.splitlines())
    assert any(line.startswith(heading) for line in lines)
    table: list[list[str]] = []
    for line in lines:
        if not line.strip():
            break
        table.append(cells(line))
    return table[1:]


def test_the_first_line_says_what_it_is(trace: Path) -> None:
    first = " ".join(explained(trace, width=300).splitlines()[:1])
    assert first.split(" · ")[1:] == [
        "PyTorch profiler", "NVIDIA Test GPU", "8 ms", f"2 kernels launched {3 * STEPS} times",
    ]  # fmt: skip


def test_the_sentence_comes_before_the_findings_and_those_before_the_tables(trace: Path) -> None:
    text = explained(trace)
    _, diagnosis = opened(trace)
    words = wording("en")
    first = words.finding(diagnosis.main[0]).title
    flat = " ".join(text.split())
    places = [flat.index(part) for part in (timeline_rows.sentence(diagnosis, words), "35 % busy", first)]
    places += [flat.index(part) for part in ("Kernels, longest", "NVTX ranges, longest", "Copies and memsets")]
    assert places == sorted(places)


def test_a_gpus_bar_and_share_are_of_the_steps(trace: Path) -> None:
    text = explained(trace)
    (line,) = [line for line in text.splitlines() if line.startswith("GPU 0  ")]
    # 35 % of 20 cells
    assert line.split() == ["GPU", "0", "███████", "35", "%", "busy", "NVIDIA", "Test", "GPU"]
    assert "Shares and gains are of all 8 steps" in text


def test_the_kernels_are_those_of_the_trace(trace: Path) -> None:
    assert rows_under(explained(trace), "Kernels") == [
        ["80 %", "1.6 ms", "16", "100 µs", "matrix product", GEMM],
        ["20 %", "400 µs", "8", "50 µs", "elementwise", "vectorized_elementwise_kernel"],
    ]


def test_the_ranges_are_a_tree_with_what_they_launched(trace: Path) -> None:
    text = explained(trace)
    assert rows_under(text, "NVTX ranges") == [
        ["7.99 ms", "2.8 ms", "24", "65 %", "ProfilerStep# ×8"],
        ["4.8 ms", "–", "0", "100 %", "data ×8"],
        ["3.12 ms", "2.8 ms", "24", "10 %", "forward ×8"],
    ]
    assert re.search(r"^ *4\.8 ms .*100 % {4}data ×8", text, re.MULTILINE)


def test_the_copies_are_summed(trace: Path) -> None:
    assert rows_under(explained(trace), "Copies") == [
        ["800 µs", "8", "8 MB", "10 GB/s", "host to device, pageable memory"]
    ]


def test_nvtx_leaves_what_the_ranges_launched_and_no_findings(trace: Path) -> None:
    text = explained(trace, nvtx="#[0-2]/forward")
    assert rows_under(text, "Kernels")[0] == ["80 %", "600 µs", "6", "100 µs", "matrix product", GEMM]
    assert rows_under(text, "NVTX ranges") == [["1.17 ms", "1.05 ms", "9", "10 %", "forward ×3"]]
    assert rows_under(text, "Copies")[0][:2] == ["300 µs", "3"]
    assert "  Why " not in text
    assert "Findings are about the whole timeline" in text


def test_kernel_leaves_the_kernels_alone(trace: Path) -> None:
    text = explained(trace, kernel="sgemm")
    assert [row[-1] for row in rows_under(text, "Kernels")] == [GEMM]
    assert "vectorized" not in text
    assert "Copies and memsets" not in text
    assert "NVTX ranges" not in text


def test_a_kernel_that_was_asked_for_by_name_is_told_with_its_command(trace: Path) -> None:
    _, diagnosis = opened(trace)
    add = next(one for one in diagnosis.kernels if one.kernel.demangled == ADD)
    assert "ncu --set full" in explained(trace, kernel="vectorized")
    chosen = select(diagnosis, re.compile("vectorized"))
    advice = timeline_rows.ncu_advice(replace(chosen, kernels=(replace(add, deserves=False),)), wording("en"))
    assert advice is not None
    assert advice.command == add.command
    advice = timeline_rows.ncu_advice(
        replace(select(diagnosis), kernels=(replace(add, deserves=False),)), wording("en")
    )
    assert advice is not None
    assert advice.command == ()


def test_what_is_not_looked_at_is_told_where_it_is_most_of_the_capture(trace: Path, tmp_path: Path) -> None:
    late = [*loop(), whole("start-up", "user_annotation", 8_000, 12_000)]
    told = " ".join(explained(write_trace(tmp_path / "late.json", late)).split())
    # The steps end at 7.999 of 20 ms.
    assert "The other 12 ms are not looked at" in told
    assert "not looked at" not in explained(trace)


def test_ranges_are_asked_for_in_the_programs_own_language() -> None:
    words, report = wording("en"), Report("x", "nsys", [], NoMetrics())
    for process, told, not_told in (
        ("python3.11", "torch.cuda.nvtx.range", "nvtxRangePushA"),
        ("./app", "nvtxRangePushA", "import torch"),
    ):
        files = [SourceFile("x.sqlite", "nsys")]
        timeline = Timeline(names=(), files=files, processes=[Process(1, process)], lacks=[Notice("lacks-nvtx")])
        (line,) = timeline_rows.lacks(report, TimelineFacts(timeline), words)
        assert told in line
        assert not_told not in line


def test_a_stand_in_for_the_program_is_called_one(trace: Path) -> None:
    _, diagnosis = opened(trace)
    words = wording("en")
    assert not diagnosis.program_known
    known = replace(diagnosis, program_known=True)
    assert timeline_rows.program_note(known, ("ncu", "-o", "x", "./app"), words) is None
    assert "./app stands for" in str(timeline_rows.program_note(diagnosis, ("ncu", "-o", "x", "./app"), words))
    note = timeline_rows.program_note(diagnosis, ("ncu", "-o", "x", "python", "train.py"), words)
    assert "python train.py stands for" in str(note)


def test_the_ncu_command_is_read_by_a_shell_as_it_was_meant(trace: Path) -> None:
    _, diagnosis = opened(trace)
    text = explained(trace, width=80)
    lines = text.splitlines()
    (start,) = [place for place, line in enumerate(lines) if line.startswith("    ncu ")]
    command = []
    for line in lines[start:]:
        command.append(line.strip().removesuffix(" \\"))
        if not line.rstrip().endswith("\\"):
            break
    assert tuple(shlex.split(" ".join(command))) == diagnosis.kernels[0].command
    assert all(len(line) <= 80 for line in lines)


def test_it_is_told_what_times_count_from(trace: Path) -> None:
    words = wording("en")
    text = " ".join(explained(trace).split())
    assert words.text("timeline_text.clock.trace") in text
    assert words.text("timeline_text.clock.trace") in " ".join(markdown(trace).split())
    one, other = SourceFile("/a/rank0.sqlite", "nsys"), SourceFile("/b/rank1.sqlite", "nsys", shift_ns=5)
    assert timeline_rows.clock(Timeline(names=(), files=[one]), words) == words.text("timeline_text.clock.capture")
    told = timeline_rows.clock(Timeline(names=(), files=[other, one]), words)
    assert "time 0 of rank0.sqlite" in told
    apart = Timeline(names=(), files=[other, one], lacks=[Notice("not-aligned", {"count": 2})])
    assert timeline_rows.clock(apart, words) == words.text("timeline_text.clock.apart")


def test_a_command_of_any_length_is_cut_between_its_parts() -> None:
    command = ["ncu", "--set", "full", "--kernel-name", "regex:^a b$", "-o", "x", "python", "it's.py", "--lr", "1"]
    for cells_ in (10, 30, 72, 500):
        lines = timeline_rows.command_lines(command, cells_)
        assert shlex.split(" ".join(line.removesuffix("\\") for line in lines)) == command
        assert all(line.endswith(" \\") for line in lines[:-1])
    assert any(line.startswith("--kernel-name 'regex") for line in timeline_rows.command_lines(command, 30))


def test_kernels_of_one_name_are_told_apart(tmp_path: Path) -> None:
    other = ADD.replace("CUDAFunctor_add", "MulFunctor")
    events = [*loop(), *(dict(event) for event in loop(add=other))]
    for event in events[len(events) // 2 :]:
        event["ts"] += 20_000
        event["args"] = {**event["args"], "correlation": event["args"].get("correlation", 0) + 5000}
    names = [row[-1] for row in rows_under(explained(write_trace(tmp_path / "a.json", events)), "Kernels")]
    assert sorted(names) == ["[add] vectorized_elementwise_kernel", "[mul] vectorized_elementwise_kernel", GEMM]


def test_a_trace_of_the_cpu_alone_is_explained(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "a.json", [whole(f"ProfilerStep#{one}", "user_annotation", one * 10, 9) for one in range(4)]
    )
    text = explained(path)
    assert rows_under(text, "NVTX ranges") == [["36 µs", "–", "0", "–", "ProfilerStep# ×4"]]
    assert "What this capture lacks" in text
    assert "% busy" not in text
    assert "Kernels, longest" not in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [60, 80, 110])
def test_no_line_is_wider_than_the_terminal(trace: Path, language: str, width: int) -> None:
    from rich.cells import cell_len

    assert max(cell_len(line) for line in explained(trace, language=language, width=width).splitlines()) <= width


def hostile_events(name: str) -> list[Event]:
    events = loop(gemm=name, add=f"{name}<2>")
    for event in events:
        event["name"] = name if event["cat"] == "user_annotation" else event["name"]
    return events


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_strangers_do_nothing(tmp_path: Path, name: str) -> None:
    path = write_trace(tmp_path / "a.json", hostile_events(name))
    for text in (explained(path), explained(path, language="ja"), markdown(path)):
        assert all(char == "\n" or char.isprintable() for char in text)
        assert "\u0300" * 3 not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_strangers_do_nothing_in_markdown(tmp_path: Path, name: str) -> None:
    text = markdown(write_trace(tmp_path / "a.json", hostile_events(name)))
    without_code = "\n".join(
        line for line in re.sub(r"`[^`\n]*`", "", text).splitlines() if not line.startswith("    ")
    )
    plain = re.sub(r"\\.", "", without_code)
    assert not re.search(r"<img|\]\(|\*\*bold|~~s|<!--", plain)


def test_markdown_tells_what_the_text_tells(trace: Path) -> None:
    text, plain = markdown(trace), re.sub(r"\\(.)", r"\1", markdown(trace))
    report, diagnosis = opened(trace)
    words = wording("en")
    assert plain.startswith(f"# {report.path} · PyTorch profiler")
    assert f"**{timeline_rows.sentence(diagnosis, words)}**" in plain
    for number, finding in enumerate(diagnosis.main, 1):
        assert f"# {number}. {words.finding(finding).title}" in plain
        assert all(f"`{one.metric}`" in text for one in finding.evidence)
    assert f"| 80 % | 1.6 ms | 16 | 100 µs | matrix product | {GEMM} |" in plain
    assert "| 4.8 ms | – | 0 | 100 % | · data ×8 |" in plain
    assert "| 800 µs | 8 | 8 MB | 10 GB/s | host to device, pageable memory |" in plain
    assert list(tables(text)), "no tables"
    assert all(len(widths) == 1 for widths in tables(text))


def tables(text: str) -> Iterable[set[int]]:
    """Per table the numbers of columns that its lines have."""
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines:
            yield {len(re.findall(r"(?<!\\)\|", line)) for line in lines}


def test_markdown_of_some_ranges(trace: Path) -> None:
    text = markdown(trace, nvtx="#1/forward")
    assert "| 80 % | 200 µs | 2 |" in text
    assert "# 1." not in text


def test_what_a_report_says_of_itself_does_not_act_on_the_terminal(trace: Path) -> None:
    report, diagnosis = opened(trace)
    report.notices.append(Notice("dropped-events", {"count": 1, "text": HOSTILE}))
    console = Console(file=StringIO(), width=100, highlight=False, markup=False, emoji=False)
    for part in timeline_text(report, diagnosis, select(diagnosis), wording("en")):
        console.print(part)
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    assert "The recording has holes" in printed
    assert not [char for char in printed if char != "\n" and not char.isprintable()]
