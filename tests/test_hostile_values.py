"""What fuzzing found: numbers that no counter can reach, names that no compiler makes, paths through the texts."""

from __future__ import annotations

from typing import Any

import pytest

from built import make_kernel, make_report
from gputui.analysis.engine import diagnose
from gputui.analysis.kernel_names import identify
from gputui.analysis.neighbours import Launches, outermost_range
from gputui.analysis.source import Source
from gputui.formats.ncu_report import _listing, _share
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric
from gputui.model.source import Instruction, SourceListing
from gputui.render.lines import stall_name, stall_text
from gputui.wording import wording

WAITING = {"duration": 1e6, "grid_size": 1000.0, "sm_count": 100.0, "sm_pct": 20.0, "memory_pct": 25.0}


@pytest.mark.parametrize("value", [5e-324, 1e-31, 1e31, 1e308, -1e31])
def test_numbers_beyond_any_counter_are_not_told(value: float) -> None:
    assert Metric("m", value, "").number is None


@pytest.mark.parametrize("value", [0, 1e-30, -3.0, 1e30])
def test_other_numbers_are(value: float) -> None:
    assert Metric("m", value, "").number == value


@pytest.mark.parametrize(
    "concept", ["block_size", "threads_per_inst", "global_load_sectors", "sm_clock", "l2_clock", "duration"]
)
def test_tiny_numbers_divide_nothing(concept: str) -> None:
    diagnose(make_kernel({**WAITING, concept: 5e-324}))


def test_no_time_is_no_duration() -> None:
    assert make_kernel({"duration": -50_000.0}).duration_ns is None


@pytest.mark.parametrize(
    "instruction",
    [
        Instruction(0, "MOV", "f", 1, samples=1, threads=32),
        Instruction(0, "MOV", stalls={"a": 1.0, "b": -1.0}),
        Instruction(0, "LDG R" + "9" * 5000, samples=1),
    ],
)
def test_lines_without_what_they_are_divided_by(instruction: Instruction) -> None:
    source = Source(SourceListing((instruction,), frozenset({"samples", "threads", "stalls"})))
    assert len(source.lines) == 1


def test_damaged_numbers_of_instructions_are_left_out() -> None:
    answer: dict[str, Any] = {
        "files": [], "addresses": [0, 16], "sass": ["MOV", "EXIT"], "places": [None, None], "lines": [], "left_out": 0,
        "columns": {"samples": [[0, 1], [1e308, 2.0]]}, "stalls": {"barrier": [[0, 1], [-1.0, 2.0]]},
    }  # fmt: skip
    first, second = _listing(answer).instructions
    assert (first.samples, first.stalls) == (0, {})
    assert (second.samples, second.stalls) == (2.0, {"barrier": 2.0})


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), -1.0, 101.0, None])
def test_an_estimate_that_is_none(percent: float | None) -> None:
    assert _share(percent) is None


@pytest.mark.parametrize("reason", ["long_scoreboard.x", "long_scoreboard.not_issued", "", ".", "source"])
def test_a_reason_of_the_file_is_no_path_through_the_texts(reason: str) -> None:
    assert stall_name(reason, wording("en")) == reason.replace("_", " ")
    assert stall_text(reason, wording("en")) == ""


@pytest.mark.parametrize(
    "name",
    [
        "_Z99999999999999999999999foo",
        "_Z" + "9" * 5000,
        "volta_" * 50_000,
        "turing_h1" * 50_000,
        "triton_poi_fused_" + "a_" * 100_000 + "1",
    ],
    ids=["length", "digits", "volta", "turing", "triton"],
)
def test_names_that_no_compiler_makes(name: str) -> None:
    # The long ones took minutes while all of a name was looked at.
    assert identify(name, name) == identify(name[:4000], name[:4000])


def is_copy(kernel: Kernel) -> bool:
    return kernel.name == "direct_copy_kernel"


def test_two_thousand_ranges_are_read_once() -> None:
    report = make_report([WAITING] * 2000, ["direct_copy_kernel"] * 2000)
    for number, kernel in enumerate(report.kernels):
        kernel.nvtx = (f"range {number}",)
    reads = 0

    def read() -> None:
        nonlocal reads
        reads += 1

    launches = Launches(report.kernels, report.session, read)
    for kernel in report.kernels:
        assert launches.share_of(is_copy, outermost_range(kernel))[0] == (kernel,)
    assert reads == 1


def test_every_text_of_the_languages_is_found_by_its_path_alone() -> None:
    for path in ("source.stall", "source.stall.long_scoreboard.x", "nothing"):
        with pytest.raises(KeyError):
            wording("en").text(path)
