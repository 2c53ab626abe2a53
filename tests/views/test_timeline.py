"""The timeline pane: where its keys lead, what its lines say, what it repaints."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.worker import WorkerFailed

import gputui.views
from built_timeline import Built
from gputui.analysis.finding import Moment
from gputui.analysis.timeline import TimelineFacts
from gputui.model.device import Device
from gputui.model.timeline import (
    Calls,
    CopyKind,
    Gpu,
    GpuOps,
    LaunchShape,
    MemoryKind,
    OpKind,
    Process,
    RangeKind,
    Ranges,
    SourceFile,
    Stream,
    Thread,
    Timeline,
    Transfers,
    no_events,
)
from gputui.paint.grid import width_of
from gputui.views.glyphs import glyphs
from gputui.views.themes import THEMES
from gputui.views.widgets import timeline as timeline_widget
from gputui.views.widgets.timeline import TimelineView
from gputui.wording import wording

US = 1000
NAMES = (
    "void lib::gemm<float>(float*)", "softmax", "add", "[CUDA memcpy HtoD]", "cudaLaunchKernel",
    "cudaStreamSynchronize", "step 0", "step 1", "forward", "poll", "cudaMemcpyAsync",
)  # fmt: skip
#         name, start, end (µs), kind, launched by the call that begins at (µs)
OPS = (
    (3, 500, 700, OpKind.COPY, 400),
    (0, 1000, 2000, OpKind.KERNEL, 800),
    (1, 2100, 2600, OpKind.KERNEL, 900),
    (0, 5600, 7000, OpKind.KERNEL, 5400),
    (2, 8000, 9000, OpKind.KERNEL, 7500),
)
"""GPU 0 idles 700-1000, 2000-2100, 2600-5600 (the longest: 3 ms) and 7000-8000 µs."""
CALLS = ((10, 400, 450), (4, 800, 850), (4, 900, 950), (5, 2700, 4200), (4, 5400, 5500), (4, 7500, 7600))
#            name, start, end, parent, depth
RANGES = ((6, 0, 5000, -1, 0), (8, 300, 2700, 0, 1), (7, 5000, 9500, -1, 0), (8, 5200, 7800, 2, 1))
GEMM, SOFTMAX, SECOND_GEMM, ADD = 1, 2, 3, 4
LONGEST = (2600 * US, 5600 * US)
MOVES = (
    *"hljkgGvbBza0", "plus", "minus", "left_curly_bracket", "right_curly_bracket", "full_stop", "comma", "enter",
    "pageup", "pagedown", "less_than_sign", "greater_than_sign", "escape",
)  # fmt: skip


def ns(values: Any) -> Any:
    return np.array([US * value for value in values], dtype=np.int64)


def ids(values: Any) -> Any:
    return np.array(list(values), dtype=np.int32)


def make_timeline(names: tuple[str, ...] = NAMES) -> Timeline:
    call_at = {start: row for row, (_, start, _) in enumerate(CALLS)}
    name, start, end, kind, launch = zip(*OPS, strict=True)
    small = {"dtype": np.uint8}
    ops = GpuOps(
        start=ns(start), end=ns(end), name=ids(name), kind=np.array(kind, **small), stream=ids([1, 0, 0, 0, 0]),
        call=ids(call_at[one] for one in launch), detail=ids([0, 0, 1, 0, 1]), graph=ids([0] * 5),
    )  # fmt: skip
    call_name, call_start, call_end = zip(*CALLS, strict=True)
    range_name, range_start, range_end, parent, depth = zip(*RANGES, strict=True)
    none = ids([0] * len(RANGES))
    ranges = Ranges(
        start=ns(range_start), end=ns(range_end), name=ids(range_name),
        kind=np.full(len(RANGES), RangeKind.PUSH_POP, **small), domain=ids([-1] * len(RANGES)), thread=none,
        end_thread=none, parent=ids(parent), depth=np.array(depth, dtype=np.int16),
        is_open=np.zeros(len(RANGES), dtype=bool),
    )  # fmt: skip
    return Timeline(
        names=names, files=(SourceFile("fake.sqlite", "nsys"),),
        gpus=(Gpu(0, Device("Test GPU", (9, 0), 132, 1e9, 1e9, 5120, 1)),), processes=(Process(7, "python"),),
        streams=(Stream(0, 0, 7), Stream(0, 0, 13)), threads=(Thread(0, 7, "python"),),
        shapes=(LaunchShape((128, 2, 1), (256, 1, 1)), LaunchShape((64, 1, 1), (32, 1, 1))), ops=ops,
        transfers=Transfers(
            bytes=np.array([2_000_000], dtype=np.int64), kind=np.array([CopyKind.HOST_TO_DEVICE], **small),
            source=np.array([MemoryKind.PAGEABLE], **small), target=np.array([MemoryKind.DEVICE], **small),
        ),
        calls=Calls(start=ns(call_start), end=ns(call_end), name=ids(call_name), thread=ids([0] * len(CALLS))),
        os_calls=Calls(start=ns([4300]), end=ns([5200]), name=ids([9]), thread=ids([0])),
        ranges=ranges, start_ns=0, end_ns=10_000 * US,
    )  # fmt: skip


class Main(Screen[None]):
    BINDINGS = [Binding("escape", "leave")]

    def __init__(self, view: TimelineView) -> None:
        super().__init__()
        self.view = view
        self.left = 0

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def action_leave(self) -> None:
        self.left += 1


class Host(App[None]):
    """Shows the pane alone, and keeps what it posts."""

    CSS_PATH = str(Path(gputui.views.__file__).parent / "app.tcss")
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, facts: TimelineFacts | None, *, ascii: bool = False, language: str = "en") -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.view = TimelineView(wording(language), glyphs(ascii), ascii=ascii, id="timeline")
        self.facts = facts
        self.selected: list[tuple[str, int]] = []

    def on_mount(self) -> None:
        self.push_screen(Main(self.view))
        self.view.show(self.facts)

    def on_timeline_view_selected(self, event: TimelineView.Selected) -> None:
        self.selected.append((event.kind, event.row))


async def settle(host: Host, pilot: Pilot[None]) -> None:
    for _ in range(2):
        await host.workers.wait_for_complete()
        await pilot.pause()


@asynccontextmanager
async def shown(
    timeline: Timeline | None = None, *, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    host = Host(TimelineFacts(timeline or make_timeline()), **options)
    async with host.run_test(size=size) as pilot:
        await settle(host, pilot)
        yield host, pilot


def page(host: Host) -> str:
    return "\n".join(host.view.plain_lines())


def window(host: Host) -> tuple[int, int]:
    return host.view.stand.start_ns, host.view.stand.end_ns


def column(host: Host, time_us: float) -> int:
    found = host.view._plan.column_of(round(time_us * US))
    assert found is not None
    return found


def line_of(host: Host, title: str) -> int:
    return next(y for y, line in enumerate(host.view.plain_lines()) if line.startswith(title))


# ------------------------------------------------------------------ first sight


async def test_it_opens_on_the_whole_with_the_cursor_on_the_longest_kernel() -> None:
    async with shown() as (host, _):
        assert window(host) == (0, 10_000 * US)
        assert host.view.stand.cursor_ns == 5600 * US
        text = page(host)
        for said in ("gemm", "1.4 ms", "grid 128 × 2", "block 256", "stream 7", "200 µs after cudaLaunchKernel began",
                     "in step 1 / forward", "longest idle time"):  # fmt: skip
            assert said in text


async def test_a_capture_that_mostly_waits_opens_on_the_gpus_work_and_0_shows_all_of_it() -> None:
    timeline = replace(make_timeline(), start_ns=-90_000 * US)
    async with shown(timeline) as (host, pilot):
        start, end = window(host)
        assert (start, end) == (500 * US - 170 * US, 9000 * US + 170 * US)
        await pilot.press("0")
        assert window(host) == (-90_000 * US, 10_000 * US)
        await pilot.press("0")
        assert window(host) == (start, end)


async def test_until_the_lanes_are_made_it_says_so_and_no_key_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    make = timeline_widget.lanes

    def late(*some: Any, **more: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        assert gate.wait(20)
        return make(*some, **more)

    monkeypatch.setattr(timeline_widget, "lanes", late)
    host = Host(TimelineFacts(make_timeline()))
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "Reading the lanes" in page(host)
        await pilot.press(*MOVES)
        host.view.next_match(1)
        assert "Reading the lanes" in page(host)
        gate.set()
        await settle(host, pilot)
        assert "gemm" in page(host)
        assert window(host) == (0, 10_000 * US)


async def test_a_timeline_without_anything_says_so() -> None:
    empty = replace(
        make_timeline(), ops=no_events(GpuOps), calls=no_events(Calls), os_calls=no_events(Calls),
        ranges=no_events(Ranges),
    )  # fmt: skip
    async with shown(empty) as (host, pilot):
        assert "nothing to show" in page(host)
        await pilot.press("plus", "full_stop", "a", "enter")


async def test_a_capture_without_gpu_work_shows_its_ranges_and_one_without_these_its_calls() -> None:
    timeline = replace(make_timeline(), ops=no_events(GpuOps))
    async with shown(timeline) as (host, pilot):
        assert {lane.kind for lane in host.view._lanes} == {"nvtx"}
        await pilot.press("full_stop")
        assert host.view.stand.gap is None
    async with shown(replace(timeline, ranges=no_events(Ranges))) as (host, _):
        assert {lane.kind for lane in host.view._lanes} == {"api", "os"}


# ------------------------------------------------------------------ the window


async def test_plus_halves_the_window_around_the_cursor_and_minus_takes_it_back() -> None:
    async with shown() as (host, pilot):
        await pilot.press("plus")
        # The cursor stays at 56 % of the window.
        assert window(host) == (2800 * US, 7800 * US)
        await pilot.press("equals_sign")
        assert window(host) == (4200 * US, 6700 * US)
        await pilot.press("minus", "minus")
        assert window(host) == (0, 10_000 * US)


async def test_no_window_is_shorter_than_a_nanosecond_a_cell_or_longer_than_the_capture() -> None:
    async with shown(size=(100, 30)) as (host, _):
        for _ in range(40):
            host.view.action_zoom(-1)
        assert host.view.stand.span_ns == host.view._plan.columns
        for _ in range(60):
            host.view.action_zoom(1)
        assert window(host) == (0, 10_000 * US)


async def test_panning_keeps_the_cursors_place_on_the_screen_until_the_capture_ends() -> None:
    async with shown() as (host, pilot):
        await pilot.press("plus", "l")
        assert window(host) == (3425 * US, 8425 * US)
        assert host.view.stand.cursor_ns == 6225 * US
        await pilot.press("left")
        assert window(host) == (2800 * US, 7800 * US)
        await pilot.press("pagedown", "pagedown")
        assert window(host) == (5000 * US, 10_000 * US)
        assert host.view.stand.cursor_ns == 10_000 * US
        await pilot.press("home")
        assert host.view.stand.cursor_ns == 0
        assert window(host)[0] == 0


async def test_z_goes_to_what_is_measured_else_to_the_event_under_the_cursor() -> None:
    async with shown() as (host, pilot):
        await pilot.press("z")
        assert window(host) == (4200 * US, 8400 * US)  # 1400 µs fill a third
        await pilot.press("0", "v", "right_curly_bracket", "v", "z")
        assert window(host) == (5600 * US - 48 * US, 8000 * US + 48 * US)


async def test_resizing_keeps_window_cursor_and_lane() -> None:
    async with shown() as (host, pilot):
        await pilot.press("plus", "j")
        before = window(host), host.view.stand.cursor_ns, host.view.stand.lane
        for size in ((80, 12), (200, 50), (60, 8), (120, 40)):
            await pilot.resize_terminal(*size)
            await settle(host, pilot)
            assert (window(host), host.view.stand.cursor_ns, host.view.stand.lane) == before
            assert all(width_of("".join(text for text, _ in line)) <= size[0] for line in host.view._lines)
            assert len(host.view._lines) <= size[1]


# ------------------------------------------------------------------ moves


async def test_braces_go_from_event_to_event_of_the_lane() -> None:
    async with shown() as (host, pilot):
        await pilot.press("right_curly_bracket")
        assert host.view.stand.cursor_ns == 8000 * US
        await pilot.press("right_curly_bracket")
        assert host.view.stand.cursor_ns == 8000 * US
        await pilot.press("left_curly_bracket", "left_curly_bracket")
        assert host.view.stand.cursor_ns == 2100 * US
        assert "softmax" in page(host)
        await pilot.press("greater_than_sign", "left_curly_bracket")
        assert host.view.stand.cursor_ns == 2100 * US


async def test_the_cell_keys_move_the_cursor_by_one_column() -> None:
    async with shown() as (host, pilot):
        before = column(host, 5600)
        await pilot.press("greater_than_sign", "greater_than_sign")
        assert host.view._plan.column_of(host.view.stand.cursor_ns) == before + 2
        await pilot.press("less_than_sign")
        assert host.view._plan.column_of(host.view.stand.cursor_ns) == before + 1


async def test_a_full_stop_lands_in_the_longest_gap_and_tells_what_the_cpu_did() -> None:
    async with shown() as (host, pilot):
        await pilot.press("full_stop")
        stand = host.view.stand
        assert stand.cursor_ns == 2600 * US
        assert stand.lane is not None
        assert stand.lane.kind == "idle"
        text = page(host)
        # cudaStreamSynchronize 1500 of 3000 µs, one launch 100; poll takes 900 of the 1400 left.
        for said in ("GPU 0 had nothing to do", "3 ms", "thread python 7", "cudaStreamSynchronize 50 %", "3.3 %",
                     "47 % in no CUDA call (poll 30 %)", "then came gemm", "number 1 of 4"):  # fmt: skip
            assert said in text, said
        starts = []
        for key in ("full_stop", "full_stop", "full_stop", "full_stop", "comma"):
            await pilot.press(key)
            starts.append(stand.cursor_ns // US)
        assert starts == [7000, 700, 2000, 2000, 700]


def two_gpus() -> Timeline:
    """Twelve steps of 1 ms on two GPUs, each idle for 300 µs of every step (in step 7 GPU 1 for 600); before them, in
    two steps of 10 ms, they idle for up to 9 ms."""
    built = Built(gpus=2, streams=(Stream(0, 0, 7), Stream(1, 0, 7)))
    start = 0
    for step in range(14):
        span = 10_000 if step < 2 else 1000
        built.range(US * start, US * (start + span), f"step {step}")
        for gpu in (0, 1):
            busy = 1000 + 200 * gpu if step < 2 else 400 if (gpu, step) == (1, 7) else 700
            built.call(US * start, US * (start + 5))
            built.kernel(US * start, US * (start + busy), stream=gpu, call=2 * step + gpu)
        start += span
    return built.timeline()


async def test_gaps_of_the_steady_time_come_before_those_of_the_warm_up_on_all_gpus() -> None:
    async with shown(two_gpus()) as (host, pilot):
        assert host.facts is not None
        assert host.facts.window.start_ns == 20_000 * US
        found = []
        for _ in range(60):
            await pilot.press("full_stop")
            lane = host.view._lane
            row = lane.row_at(host.view.stand.cursor_ns)
            assert row is not None
            start, end = lane.span(row)
            place = (lane.gpu, start // US, (end - start) // US)
            if found[-1:] == [place]:
                break
            found.append(place)
            assert ("in the warm-up" in page(host)) == (start < 20_000 * US)
        # The longest of the steady time is GPU 1's; those of 10 ms steps, though longer, come last.
        assert found[0] == (1, 25_400, 600)
        steady = [one for one in found if one[1] >= 20_000]
        assert found == [*steady, (0, 1000, 9000), (0, 11_000, 9000), (1, 1200, 8800), (1, 11_200, 8800)]
        assert {one[0] for one in steady} == {0, 1}
        assert [one[2] for one in steady] == sorted((one[2] for one in steady), reverse=True)


@pytest.mark.parametrize("size", [(58, 12), (62, 20), (80, 24), (120, 40)])
async def test_what_the_cpu_did_in_a_gap_is_told_without_a_cut(size: tuple[int, int]) -> None:
    async with shown(size=size) as (host, pilot):
        await pilot.press("full_stop")
        text = " ".join(page(host).split())
        assert "Meanwhile thread python 7: cudaStreamSynchronize 50 %" in text
        if size[1] > 14:
            assert "47 % in no CUDA call (poll 30 %) · cudaLaunchKernel 3.3 %" in text
        assert "…" not in next(line for line in host.view.plain_lines() if "Meanwhile" in line)


async def test_times_are_the_files_own() -> None:
    """The file's time 0 is no event: what the pane says is found there under the same number."""
    late = replace(make_timeline(), start_ns=400 * US)
    async with shown(late, size=(160, 40)) as (host, pilot):
        await pilot.press("0")
        ruler = host.view.plain_lines()[0]
        assert "2 ms" in ruler
        at = ruler.index("2 ms") + 2
        assert abs(column(host, 2000) - at) <= 2
        await pilot.press("full_stop")
        assert "at 2.60 ms" in page(host)
        assert "0: start of the capture" in page(host)


async def test_shares_in_the_pane_say_of_what() -> None:
    async with shown(size=(140, 50)) as (host, _):
        text = page(host)
        assert "GPU work: G matrix product" in text
        # 200 + 1000 + 500 + 1400 + 1000 µs of 10 ms.
        assert "GPU busy 41 % of the view" in text
        assert "By name, % of the time in view: stream 7" in text
        assert host.view.plain_lines()[1].endswith("of view")


async def test_lanes_that_cannot_be_made_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    host = Host(TimelineFacts(make_timeline()))
    with monkeypatch.context() as patched:
        patched.setattr(timeline_widget, "lanes", fail)
        async with host.run_test(size=(120, 40)) as pilot:
            with suppress(WorkerFailed):  # it may have failed before the wait began
                await host.workers.wait_for_complete()
            await pilot.pause()
            assert "could not be worked out" in " ".join(page(host).split())
            patched.undo()
            await pilot.resize_terminal(120, 20)
            await settle(host, pilot)
            assert "gemm" in page(host)


async def test_a_gap_too_small_to_be_seen_is_zoomed_to() -> None:
    async with shown() as (host, pilot):
        await pilot.press("full_stop", "full_stop")
        assert window(host) == (0, 10_000 * US)
        await pilot.press("full_stop")  # 300 µs of 10 ms
        assert window(host) == (400 * US, 1300 * US)


async def test_j_and_k_change_the_lane_and_a_adds_lanes_that_keep_the_cursors() -> None:
    async with shown() as (host, pilot):
        kinds = [lane.kind for lane in host.view._lanes]
        assert kinds == ["nvtx", "nvtx", "idle", "stream", "copy"]
        await pilot.press("k", "k", "k", "k", "k")
        assert host.view._place == 0
        assert "step 1" in page(host)
        await pilot.press("j", "j", "j")
        for extra in (["api"], ["api", "os"], []):
            await pilot.press("a")
            await settle(host, pilot)
            assert [lane.kind for lane in host.view._lanes] == kinds + extra
            assert host.view._lane.kind == "stream"


async def test_a_copy_a_range_and_a_call_tell_their_own_facts() -> None:
    async with shown() as (host, pilot):
        await pilot.press("j", "home", "right_curly_bracket", "a")
        await settle(host, pilot)
        text = page(host)
        # 2 MB in 200 µs.
        for said in ("[CUDA memcpy HtoD]", "2 MB", "10 GB/s", "pageable host memory to device memory", "stream 13"):
            assert said in text, said
        await pilot.press("k", "k", "k", "k")
        assert "launched 2 kernels" in page(host)
        assert "on the GPU 2.1 ms from first to last" in page(host)  # 500 to 2600 µs
        await pilot.press(*"jjjjj", "home", "right_curly_bracket", "right_curly_bracket")
        assert "launched gemm" in page(host)
        assert "began 200 µs later" in page(host)


async def test_measuring_prints_the_difference_and_a_third_press_ends_it() -> None:
    async with shown() as (host, pilot):
        await pilot.press("v", "left_curly_bracket")
        assert "Δ 3.5000 ms" in page(host)
        assert "from mark A to the cursor" in page(host)
        await pilot.press("v", "home")
        # 2100 to 5600 µs: 500 busy of 3500.
        assert "Δ 3.5000 ms" in page(host)
        assert "GPU busy 14 %" in page(host)
        assert "1 operation" in page(host)
        await pilot.press("v")
        assert "Δ" not in page(host)


async def test_bookmarks_are_set_walked_round_and_removed() -> None:
    async with shown() as (host, pilot):
        await pilot.press("B")
        assert host.view.stand.bookmarks == ()
        await pilot.press("b", "right_curly_bracket", "b")
        assert host.view.stand.bookmarks == (5600 * US, 8000 * US)
        await pilot.press("B")
        assert host.view.stand.cursor_ns == 5600 * US
        await pilot.press("B")
        assert host.view.stand.cursor_ns == 8000 * US
        await pilot.press("b")
        assert host.view.stand.bookmarks == (5600 * US,)


# ------------------------------------------------------------------ search, selection, light


async def test_search_goes_to_the_next_match_and_round() -> None:
    async with shown() as (host, pilot):
        view = host.view
        view.search("SOFT")
        await settle(host, pilot)
        assert (view.match_count, view.stand.cursor_ns) == (1, 2100 * US)
        view.search("gemm")
        await settle(host, pilot)
        assert (view.match_count, view.stand.cursor_ns) == (2, 5600 * US)
        view.next_match(1)
        assert view.stand.cursor_ns == 1000 * US
        view.next_match(-1)
        assert view.stand.cursor_ns == 5600 * US
        view.search("forward")
        await settle(host, pilot)
        assert (view.match_count, view.stand.cursor_ns, view._lane.kind) == (2, 300 * US, "nvtx")
        view.search("nothing like it")
        await settle(host, pilot)
        assert view.match_count == 0
        assert view.stand.cursor_ns == 300 * US
        assert "0 found" in page(host)
        view.search("")
        assert view.match_count is None


async def test_calls_are_found_once_their_lanes_are_shown() -> None:
    async with shown() as (host, pilot):
        host.view.search("synchronize")
        await settle(host, pilot)
        assert host.view.match_count == 0
        await pilot.press("a")
        await settle(host, pilot)
        host.view.search("synchronize")
        await settle(host, pilot)
        assert (host.view.match_count, host.view._lane.kind) == (1, "api")
        assert host.view.stand.cursor_ns == 2700 * US


async def test_enter_selects_what_is_under_the_cursor() -> None:
    async with shown() as (host, pilot):
        await pilot.press("enter", "k", "k", "space")
        assert host.selected == [("kernel", SECOND_GEMM), ("range", 3)]
        await pilot.press("full_stop", "enter", "j", "j", "home", "right_curly_bracket", "enter")
        assert host.selected[2:] == [("gap", 2), ("copy", 0)]


async def test_escape_takes_back_marks_then_is_the_screens() -> None:
    async with shown() as (host, pilot):
        screen = host.screen
        assert isinstance(screen, Main)
        await pilot.press("v", "enter", "escape")
        assert host.view.stand.measured is None
        assert host.view.stand.chosen is None
        assert screen.left == 0
        await pilot.press("escape")
        assert screen.left == 1


async def test_light_shows_launches_of_a_name_within_a_mask() -> None:
    async with shown() as (host, pilot):
        view = host.view

        async def lit(**chosen: Any) -> list[int]:
            view.light(**chosen)
            await settle(host, pilot)
            return [] if view._lit is None else view._lit.rows.tolist()

        assert await lit(name=0) == [GEMM, SECOND_GEMM]
        assert "selected" in page(host)
        mask = np.array([False, True, True, False, False])
        assert await lit(mask=mask) == [GEMM, SOFTMAX]
        assert await lit(name=0, mask=mask) == [GEMM]
        assert await lit() == []
        assert "selected" not in page(host)


async def test_a_findings_place_fills_a_third_with_the_cursor_in_it() -> None:
    async with shown() as (host, pilot):
        host.view.go_to(Moment(*LONGEST, gpu=0, op=SECOND_GEMM))
        assert window(host) == (0, 9000 * US)  # no earlier than the capture begins
        assert host.view.stand.cursor_ns == 2600 * US
        assert host.view._lane.kind == "idle"
        host.view.go_to(Moment(2100 * US, 2600 * US, gpu=0, stream=0, op=SOFTMAX))
        assert window(host) == (1600 * US, 3100 * US)
        assert host.view._lane.kind == "stream"
        assert "softmax" in page(host)
        host.view.go_to(Moment(2700 * US, 4200 * US, thread=0))
        await settle(host, pilot)
        assert host.view.stand.extra == ("api",)
        assert host.view._lane.thread == 0


async def test_a_place_asked_for_before_the_lanes_are_there_is_kept() -> None:
    host = Host(TimelineFacts(make_timeline()))
    async with host.run_test(size=(80, 24)) as pilot:
        host.view.show(host.facts)
        host.view.go_to(Moment(*LONGEST, gpu=0))
        await settle(host, pilot)
        assert host.view.stand.cursor_ns == 2600 * US
        assert host.view._lane.kind == "idle"


async def test_each_timeline_keeps_its_own_place_and_a_new_view_takes_it_over() -> None:
    async with shown() as (host, pilot):
        first, second = host.facts, TimelineFacts(make_timeline())
        await pilot.press("plus", "full_stop", "b")
        before = window(host), host.view.stand.cursor_ns, host.view.stand.bookmarks
        host.view.show(second)
        await settle(host, pilot)
        assert window(host) == (0, 10_000 * US)
        host.view.show(first)
        await settle(host, pilot)
        assert (window(host), host.view.stand.cursor_ns, host.view.stand.bookmarks) == before
        other = Host(None, language="ja")
        other.view.take_over(host.view)
        assert other.view.stand is host.view.stand
        async with other.run_test(size=(120, 40)):
            other.view.show(first)
            assert "しおり 1 個" in page(other)


# ------------------------------------------------------------------ mouse


async def test_a_click_puts_the_cursor_there_and_selects() -> None:
    async with shown() as (host, pilot):
        await pilot.click(host.view, offset=(column(host, 2300), line_of(host, "stream 7")))
        assert host.view._plan.column_of(host.view.stand.cursor_ns) == column(host, 2300)
        assert host.selected == [("kernel", SOFTMAX)]
        await pilot.click(host.view, offset=(column(host, 8500), line_of(host, "stream 7")), times=2)
        assert window(host) == (7000 * US, 10_000 * US)


async def test_dragging_marks_a_time() -> None:
    async with shown() as (host, pilot):
        first, last = column(host, 2100), column(host, 5600)
        await pilot.mouse_down(host.view, offset=(first, 4))
        await pilot.hover(host.view, offset=(last, 4))
        await pilot.mouse_up(host.view, offset=(last, 4))
        edges, left = host.view._plan.edges, host.view._plan.left
        assert host.view.stand.range_ns == (edges[first - left], edges[last + 1 - left])
        assert "Δ" in page(host)
        assert host.selected == []
        await pilot.click(host.view, offset=(column(host, 8500), line_of(host, "stream 7")))
        assert host.view.stand.range_ns is None
        assert host.selected == [("kernel", ADD)]


async def test_the_wheel_zooms_on_the_ruler_and_walks_through_lanes_elsewhere() -> None:
    async with shown() as (host, pilot):
        x, lane = column(host, 2600), host.view._place
        event = {"widget": host.view, "offset": (x, 0)}
        time = host.view._time_at(x)
        await pilot._post_mouse_events([events.MouseScrollUp], button=0, **event)
        assert host.view.stand.span_ns == round(10_000 * US / 1.5)
        assert host.view._plan.column_of(time) in (x - 1, x, x + 1)
        event = {"widget": host.view, "offset": (x, 5)}
        await pilot._post_mouse_events([events.MouseScrollDown], button=0, **event)
        assert host.view._place == lane + 1


# ------------------------------------------------------------------ painting


async def test_a_move_repaints_only_the_lines_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown() as (host, pilot):
        regions: list[Region] = []
        refresh = host.view.refresh

        def note(*some: Region, **more: Any) -> Any:
            regions.extend(some)
            return refresh(*some, **more)

        monkeypatch.setattr(host.view, "refresh", note)
        host.view.repaint()
        assert regions == []
        await pilot.press("v")
        assert 0 < len(regions) < 30
        assert all(region.height == 1 for region in regions)


async def test_in_ascii_nothing_else_reaches_the_screen() -> None:
    async with shown(ascii=True) as (host, pilot):
        for key in ("plus", "v", "full_stop", "b", "a", "enter"):
            await pilot.press(key)
            await settle(host, pilot)
        strips = [host.view.render_line(y) for y in range(host.view.size.height)]
        assert all(strip.text.isascii() and strip.cell_length == host.view.size.width for strip in strips)
        assert "gemm" in page(host)


async def test_names_from_a_report_neither_act_nor_break_the_page() -> None:
    hostile = ("[/bold]\x1b[31m\u202e核", "a" * 5000, "\n\n", *NAMES[3:6], "\x1b]0;x\x07", *NAMES[7:])
    async with shown(make_timeline(hostile), size=(80, 24)) as (host, pilot):
        for key in ("right_curly_bracket", "left_curly_bracket", "full_stop", "k", "k", "plus", "enter"):
            await pilot.press(key)
            text = "\n".join(host.view.render_line(y).text for y in range(host.view.size.height))
            assert not any(sign in text for sign in ("\x1b", "\x07", "\u202e"))


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("size", [(60, 6), (80, 12), (80, 24), (120, 40), (200, 50)])
async def test_it_fits_every_size_in_every_language(size: tuple[int, int], language: str) -> None:
    async with shown(size=size, language=language) as (host, pilot):
        for key in ("plus", "full_stop", "v", "right_curly_bracket", "j", "a"):
            await pilot.press(key)
            await settle(host, pilot)
            assert len(host.view._lines) <= size[1]
            for y in range(size[1]):
                assert host.view.render_line(y).cell_length == size[0]
        # Whatever the size, the cursor's lane is seen.
        assert any(slot.lane == host.view._place for slot in host.view._plan.slots)


async def test_the_room_below_ranks_what_is_in_view() -> None:
    async with shown(size=(120, 50)) as (host, pilot):
        lines = host.view.plain_lines()
        first = next(y for y, line in enumerate(lines) if line.startswith(" By name"))
        # Of 10 ms: gemm 2.4, add 1, softmax 0.5.
        assert [line.split()[-1] for line in lines[first + 1 : first + 4]] == ["gemm", "add", "softmax"]
        assert "24 %" in lines[first + 1]
        assert "2×" in lines[first + 1]
        assert "1.2 ms each" in lines[first + 1]
        await pilot.press("k")
        lines = host.view.plain_lines()
        first = next(y for y, line in enumerate(lines) if line.startswith(" Longest idle"))
        assert "3 ms" in lines[first + 1]
        assert "30 %" in lines[first + 1]
