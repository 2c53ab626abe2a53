"""A guided run as plain text: every line of it, in both languages, narrow and wide, with hostile names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from built_timeline import Built
from gputui.analysis.proposals import Proposal, propose
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.model.report import NoMetrics, Report
from gputui.render import run_text
from gputui.run.doctor import Check
from gputui.run.failures import Failure, known, recognise
from gputui.run.folder import RunSummary
from gputui.run.machine import Outcome
from gputui.run.plan import Command, Tools
from gputui.run.session import StepResult
from gputui.wording import LANGUAGES, Wording, wording

MS = 1_000_000
HOSTILE = "k\x1b[2J\x1b]0;t\x07\r\n\u202e{path}[bold]%s\udcff漢字"
TOOLS = Tools("/opt/nsys", (2025, 3, 1), "/opt/ncu", (2025, 3, 1, 0))
OK = (Check("gpu", "ok", "found", {"gpus": "NVIDIA H200"}), Check("counters", "ok", "open"))
NO_GPU = (Check("gpu", "problem", "none", {"host": "h", "user": "u"}, ("nsys", "ncu")),)
DENIED = (
    *OK[:1],
    Check("counters", "problem", "restricted", {"driver": "580.1", "host": "h", "user": "u"}, ("ncu",)),
)
UNSURE = (*OK[:1], Check("counters", "unknown", "unknown", {"host": "h", "user": "u"}))

PROGRAM_FAILED = Failure("program-failed", "warning", {"status": "3"})

both = pytest.mark.parametrize("words", [wording(one) for one in LANGUAGES], ids=LANGUAGES)
widths = pytest.mark.parametrize("width", [60, 110])


def printed(parts: Iterable[RenderableType], width: int = 110) -> str:
    """As the command line prints it."""
    file = StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part, crop=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def flat(parts: Iterable[RenderableType]) -> str:
    return " ".join(printed(parts, 500).split())


def is_harmless(text: str) -> bool:
    return re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text) is None


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "timeline.nsys-rep"
    path.write_bytes(b"x" * 242_000)
    return path


def result(
    *reports: Path, status: int | None = 0, stopped: bool = False, failures: tuple[Failure, ...] = (), error: str = ""
) -> StepResult:
    command = Command("timeline", "nsys", ("nsys",), "timeline")
    return StepResult(command, Outcome(status, stopped, 1.45, error), reports, failures, Path("runs/1/timeline.log"))


def diagnosed(*names: str) -> TimelineDiagnosis:
    """Twenty steps of 10 ms in which these kernels run one after another."""
    built = Built()
    built.range(0, 200 * MS, "outer")
    for step in range(20):
        for place, name in enumerate(names):
            start = step * 10 * MS + place * 2 * MS
            built.kernel(start, start + 2 * MS - 1000, name)
    return diagnose_timeline(built.facts())


def proposals(*names: str, top: int | None = None) -> tuple[Proposal, ...]:
    return propose(diagnosed(*names), top=top)


# --------------------------------------------------------------------- in English


EN = wording("en")


def test_the_stages_are_numbered() -> None:
    assert [printed([run_text.stage_line(one, EN)]) for one in run_text.STAGES] == [
        "1  Check", "2  Timeline", "3  Choose", "4  Counters", "5  Explain",
    ]  # fmt: skip


def test_what_works_here() -> None:
    assert printed(run_text.checked_text(OK, TOOLS, EN)).splitlines() == [
        "   nsys 2025.3.1 · ncu 2025.3.1.0", "   Profiling works here: timeline and counters.",
    ]  # fmt: skip
    assert printed(run_text.checked_text(NO_GPU, Tools(), EN)).splitlines() == [
        "   nsys: not found · ncu: not found",
        "   No usable GPU here: a timeline will tell only where the CPU's time goes. On a machine that has one: gputui",
        "   run --host USER@HOST -- COMMAND",
        "   gputui doctor tells more, with the fixes.",
    ]
    assert printed(run_text.checked_text(DENIED, TOOLS, EN)).splitlines()[1:] == [
        "   The timeline works here; counters do not: permission to read the GPU's counters.",
        "   gputui doctor tells more, with the fixes.",
    ]
    assert printed(run_text.checked_text(UNSURE, TOOLS, EN)).splitlines()[1:] == [
        "   Profiling should work here; gputui doctor lists what could not be found out.",
    ]


def test_a_command_is_shown_as_it_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = "/" + "x" * 90
    command = Command("t", "nsys", ("nsys", "profile", "-o", long, "python", "a b", HOSTILE), "t")
    lines = printed([run_text.command_text(command)], 60).splitlines()
    assert lines[0] == "   $ nsys profile -o \\"
    assert lines[1] == f"       {long} \\"
    assert lines[2] == "       python 'a b' \\"
    assert len(lines) == 4
    assert is_harmless("\n".join(lines))
    assert all(cell_len(line) <= 60 for line in (lines[0], lines[2]))


def test_what_a_command_left(report: Path) -> None:
    assert flat(run_text.ended_text(result(report), EN)) == f"Kept: {report} (242 kB, after 1.45 s)"
    assert flat(run_text.ended_text(result(report, stopped=True, status=-2), EN)).endswith(
        "Stopped, as asked; what was recorded until then is kept."
    )
    assert flat(run_text.ended_text(result(report, status=3), EN)).endswith(
        "The program ended with exit status 3; what was recorded is kept."
    )
    failed = flat(run_text.ended_text(result(report, status=3, failures=(PROGRAM_FAILED,)), EN))
    assert failed.count("status 3") == 1
    assert "ended by SIGKILL;" in flat(run_text.ended_text(result(report, status=-9), EN))
    assert "ended by 99;" in flat(run_text.ended_text(result(report, status=-99), EN))
    assert flat(run_text.ended_text(result(), EN)) == (
        "No report was written. Everything it printed: runs/1/timeline.log"
    )
    stopped = flat(run_text.ended_text(result(stopped=True), EN))
    assert stopped == "No report was written. Everything it printed: runs/1/timeline.log"


def test_a_failure_comes_with_its_cause_its_line_and_what_to_do() -> None:
    (failure,) = recognise("==ERROR== ERR_NVGPUCTRPERM - The user does not", tool="ncu", has_report=False)
    lines = printed(run_text.failure_lines(failure, EN), 200).splitlines()
    assert lines[0] == "   Only administrators may read this GPU's counters"
    assert lines[1].startswith("      NVIDIA's driver lets only administrators")
    assert lines[2] == "      > ERR_NVGPUCTRPERM - The user does not"
    assert [line[:8] for line in lines[3:]] == ["      - "] * (len(lines) - 3)


def test_an_unknown_end_comes_with_the_last_lines() -> None:
    (failure,) = recognise("one\n\x1b[31mtwo\x07\n", tool="nsys", outcome=Outcome(7, False, 1), has_report=False)
    text = printed(run_text.failure_lines(failure, EN))
    assert "(status 7)" in text
    assert "\n      > one\n      > two\\x07\n" in text


def test_the_timeline_in_a_few_lines() -> None:
    report = Report("runs/a b/timeline.nsys-rep", "nsys", [], NoMetrics())
    text = printed(run_text.timeline_summary(report, diagnosed("gemm_kernel", "softmax_kernel"), EN))
    lines = text.splitlines()
    assert lines[0].startswith("   GPU 0 ")
    assert re.match(r"   1  .*  up to [\d.]+×$", lines[1])
    assert lines[-1] == "   All of it: gputui explain 'runs/a b/timeline.nsys-rep'"
    assert "no kernel to look into" not in text
    assert "So there is no kernel to look into." in printed(run_text.timeline_summary(report, diagnosed(), EN))


def test_the_kernels_that_are_chosen() -> None:
    text = printed(run_text.proposals_text(proposals("gemm_kernel", "softmax_kernel", top=1), EN))
    (line,) = text.splitlines()
    assert re.fullmatch(r"   gemm_kernel  50 %  up to [\d.]+×  one of the longest  about [\d.]+ s", line)
    assert printed(run_text.proposals_text(proposals("gemm_kernel", top=0), EN)) == (
        "   No kernel is worth counting: none can gain the program 5 %."
    )


def test_earlier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "gputui-runs" / "1 x"
    kept = RunSummary(path, "interrupted", "x", None, ("timeline.nsys-rep", "counters-1.ncu-rep"))
    assert flat([run_text.interrupted_line(kept, EN)]) == (
        "An earlier run was interrupted: gputui-runs/1 x (timeline.nsys-rep, counters-1.ncu-rep). "
        "Look at it: gputui open 'gputui-runs/1 x'"
    )
    nothing = RunSummary(path, "interrupted", "x", None)
    assert flat([run_text.interrupted_line(nothing, EN)]).endswith(
        "(no whole report). Look at it: gputui runs 'gputui-runs/1 x'"
    )


def test_the_connection() -> None:
    assert flat([run_text.connection_line("box", "it broke off", EN)]).startswith(
        "The connection to box is lost (it broke off). The run goes on there"
    )
    assert flat([run_text.connection_line("box", "", EN)]) == "The connection to box is back."


# --------------------------------------------------------------------- all of it


def every_line(words: Wording, report: Path, name: str) -> Iterator[RenderableType]:
    for stage in run_text.STAGES:
        yield run_text.stage_line(stage, words)
    for checks in (OK, NO_GPU, DENIED, UNSURE):
        yield from run_text.checked_text(checks, TOOLS, words)
    for one in (
        result(report), result(report, stopped=True), result(report, status=3), result(report, status=-11), result(),
        result(status=None, error=name), result(stopped=True),
    ):  # fmt: skip
        yield from run_text.ended_text(one, words)
    text = f"==ERROR== {name}\n==PROF== Report: {name}\n{name}\n"
    for tool in ("nsys", "ncu"):
        for failure in recognise(text, tool=tool, outcome=Outcome(1, False, 1, name), has_report=False, log=name):
            yield from run_text.failure_lines(failure, words)
    hidden = Report(f"/{name}", "nsys", [], NoMetrics())
    for names in ((name, "gemm"), ()):
        yield from run_text.timeline_summary(hidden, diagnosed(*names), words)
    yield from run_text.proposals_text(proposals(name, "gemm", top=2), words)
    yield from run_text.proposals_text((), words)
    yield run_text.next_line(["gputui", "open", name], words)
    for reports in ((name,), ()):
        yield run_text.interrupted_line(RunSummary(Path(name), "interrupted", name, None, reports), words)
    yield run_text.connection_line(name, name, words)
    yield run_text.connection_line(name, "", words)
    yield run_text.stopping_line(words)


@both
@widths
def test_every_line_fits_and_acts_on_no_terminal(
    words: Wording, width: int, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    short = report.rename(report.with_name("r"))
    monkeypatch.chdir(short.parent)
    lines = printed(every_line(words, Path("r"), HOSTILE), width).splitlines()
    assert len(lines) > 40
    assert is_harmless("\n".join(lines))
    assert [line for line in lines if cell_len(line) > width] == []
    assert any("漢字" in line for line in lines)
    assert any("{path}" in line and "[bold]" in line for line in lines)


@both
def test_every_failure_has_its_lines(words: Wording) -> None:
    params = {name: "1" for one in known() for word in one.words for name in re.findall(r"\(\?P<(\w+)>", word.pattern)}
    params |= dict.fromkeys(("kernel", "error", "signal", "status", "tool", "log", "module", "file", "option"), "1")
    for one in known():
        text = printed(run_text.failure_lines(Failure(one.id, one.kind, params, "said"), words))
        assert len(text.splitlines()) >= 4
        assert "\n      > said\n" in text


def test_japanese_says_what_english_says(report: Path) -> None:
    """Nothing is left in English but names, commands and what programs said."""
    lines = printed(every_line(wording("ja"), report, "k"), 500).splitlines()
    without = [line for line in lines if not re.search("[ぁ-んァ-ン一-龥]", line)]
    assert os.linesep.join(without).count("\n") < 12, without
