"""What ``explain`` prints, to the letter for a built report."""

from __future__ import annotations

import io

import pytest
from render_builder import DEVICE, MEMORY_BOUND, MemorySource, hostile_report, make_report
from rich.console import Console

from gputui.analysis.engine import diagnose_all
from gputui.model.device import Device
from gputui.model.kernel import Dim3, Kernel
from gputui.model.report import Notice, Report
from gputui.render.text import SHOWN_KERNELS, launch_shape, report_text
from gputui.terminal import safe
from gputui.wording import ReaderLevel, wording


def printed(
    report: Report, language: str = "en", level: ReaderLevel | None = None, *, ascii: bool = False, width: int = 100
) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    for part in report_text(report, diagnose_all(report), wording(language), level, ascii=ascii):
        console.print(part)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("grid", "block", "told"),
    [
        ((1024, 1, 1), (1, 1, 1), "1,024 blocks of one thread"),
        ((1, 1, 1), (1, 1, 1), "one block of one thread"),
        ((1, 1, 1), (32, 4, 1), "one block of 32 × 4 threads"),
        ((8, 2, 1), (1, 1, 2), "8 × 2 blocks of 1 × 1 × 2 threads"),
    ],
)
def test_a_launch_is_told_in_blocks_and_threads(grid: Dim3, block: Dim3, told: str) -> None:
    kernel = Kernel(0, "fill", "fill", DEVICE, MemorySource([{}]), grid=grid, block=block)
    assert launch_shape(kernel, wording("en")) == told


def test_the_head_and_the_bars_of_a_kernel_to_the_letter() -> None:
    text = printed(make_report("copy_a"))
    assert text.startswith(
        """\
run.ncu-rep · NVIDIA Test GPU · 1 kernel"""
    )
    assert (
        """
copy_a  500 µs
copy · own kernel · 4,096 blocks of 256 threads

Memory-bound: the road to the GPU's main memory (DRAM) is 78 % full, and computing waits for
deliveries.

Achieved                               2 TB/s DRAM
SM (compute)     ██▍                   12 %
Memory           ███████████████▋      78 %
L2 cache                               –
DRAM             ███████████████▋      78 %
Tensor cores                           –
Occupancy        ███████████           55 %
Warp efficiency  ████████████████████  100 %

1  Main memory (DRAM) is 78 % busy: close to full                                        up to 1.19×
   Why    The best plain copies keep this road about 93 % busy. More loads in flight can bring up to
          1.19× here; beyond that only moving fewer bytes helps.
   Like   A road full of lorries with a few gaps left: closing them helps a little, fewer deliveries
          help more.
   Do     Fuse it with its neighbours so that intermediate results stay on the chip
          Use a smaller type in memory; read each byte once
          Start several loads before using the first: 16 bytes each (float4), several a thread
   Check  DRAM's share rises towards 93 %, or its bytes (dram__bytes_read and dram__bytes_write)
          fall; either way the duration falls.
   Sure   Quite sure: the report shows it directly.
"""
        in text
    )
    assert text.endswith("To collect it: ncu --set full --import-source yes -o again YOUR_PROGRAM")


def test_a_kernel_at_its_roof_gets_one_sentence_and_no_list() -> None:
    full = {**MEMORY_BOUND, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (92.0, "%")}
    text = printed(make_report("copy_a", metrics=full))
    assert "At the DRAM roof (92 %). Only moving fewer bytes makes it faster" in text
    assert "\n1  " not in text


def test_kernels_are_listed_only_where_there_are_several() -> None:
    title = wording("en").text("explain.kernels")
    assert title not in printed(make_report("copy_a"))
    assert (
        f"{title}\n  50 %  ████        500 µs  copy_a  memory-bound\n  50 %  ████        500 µs  gemm_b  memory-bound\n"
        in printed(make_report("copy_a", "gemm_b"))
    )


def test_launches_of_one_function_are_told_once() -> None:
    text = printed(make_report("copy_a", "copy_a", "copy_a"))
    assert text.count("Memory-bound: the road") == 1
    assert "3 launches, 1.5 ms in all" in text


def test_of_many_functions_the_slowest_are_explained_and_the_rest_is_counted() -> None:
    text = printed(make_report(*(f"kernel_{number}" for number in range(SHOWN_KERNELS + 3))))
    assert text.count("Memory-bound") + text.count("At the DRAM roof") == SHOWN_KERNELS
    assert "and 3 more" in text


def test_a_notice_stands_under_the_head() -> None:
    notice = Notice("truncated", {"kernels": 1, "promised": 7})
    lines = printed(make_report("copy_a", notices=[notice]), width=200).splitlines()
    assert lines[1] == f"! {wording('en').notice(notice)}"


def test_the_level_is_the_readers_or_the_kernels() -> None:
    actions = wording("en").finding(diagnose_all(make_report("copy_a"))[0].findings[0]).actions
    for level in ("pytorch", "triton", "cuda"):
        assert actions[level][0][:60] in printed(make_report("copy_a"), level=level, width=200)  # type: ignore[index]
    assert actions["cuda"][0] in printed(make_report("copy_a"), width=200)
    assert actions["triton"][0] in printed(make_report("triton_"), width=200)


def test_without_numbers_it_says_that_it_does_not_know() -> None:
    text = printed(make_report("copy_a", metrics={"gpu__time_duration.sum": (5e5, "ns")}))
    assert wording("en").text("verdict.unknown.default") in text
    assert wording("en").text("explain.nothing-unknown") in text


def test_ascii_draws_bars_of_ascii() -> None:
    text = printed(make_report("copy_a", "gemm_b"), ascii=True)
    assert "###############.      78 %" in text
    assert not set(text) & set("█▏▎▍▌▋▊▉")


@pytest.mark.parametrize("width", [40, 80, 110])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_line_is_wider_than_the_console(width: int, language: str) -> None:
    from rich.cells import cell_len

    text = printed(make_report("copy_a", "a_kernel_with_a_name_that_goes_on_and_on" * 3), language, width=width)
    assert max(map(cell_len, text.splitlines())) <= width


@pytest.mark.parametrize("language", ["en", "ja"])
def test_nothing_hostile_reaches_the_terminal(language: str) -> None:
    for line in printed(hostile_report(), language).splitlines():
        assert safe(line) == line


def test_markup_and_placeholders_in_names_are_shown_as_they_are() -> None:
    text = printed(make_report("[bold red]x[/bold red] {dram_pct:pct} {0} %s :smile:"))
    assert "[bold red]x[/bold red] {dram_pct:pct} {0} %s :smile:" in text


@pytest.mark.parametrize("language", ["en", "ja"])
def test_what_a_basic_report_cannot_tell_fits_four_lines(language: str) -> None:
    words = wording(language)
    report = make_report("walk", device=Device("NVIDIA B200", (10, 0), 148))
    (what, *rest) = printed(report, language, width=80).partition(words.text("explain.not-told"))[2].splitlines()
    unchecked = [one for one in diagnose_all(report)[0].not_checked if one.available]
    assert str(len(unchecked)) in what
    assert len(rest) <= 3
    assert any("ncu --set full" in line for line in rest)
    never = f"{words.text('explain.not-told-never')} {words.finding_name('sysmem-traffic')}"
    assert rest[-1] == never
