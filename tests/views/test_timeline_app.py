"""Timelines in the application: the list, the page that explains one, the NVTX tree, links, several files."""

from __future__ import annotations

import asyncio
import shlex
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot

from built_timeline import Built
from gputui.analysis.nvtx import DEEPEST
from gputui.model.kernel import Kernel
from gputui.model.report import NoMetrics, Notice, Report
from gputui.paint.grid import width_of
from gputui.views import actions
from gputui.views.app import GputuiApp
from gputui.views.library import common_beginnings, distinguish, flatten, load
from gputui.views.ordering import unfolded, with_parents
from gputui.views.screens.help import HelpScreen
from gputui.views.screens.loading import LoadingScreen
from gputui.views.widgets.kernel_list import fit_name, shorten_name
from gputui.views.widgets.timeline import TimelineView
from traces import write_trace

from .conftest import Start, settle
from .fakes import make_report

US = 1000
STEPS = 10
GEMM, SOFTMAX = "void lib::gemm<float>(float *)", "softmax"
GEMM_NS, SOFTMAX_NS = 600 * US, 50 * US
"""Of each kernel a step. The GPU idles for the other 350 of 1,000 µs."""


def loop(kernel: str = GEMM) -> Built:
    """Ten steps of 1 ms: forward launches a product of 400 µs and a softmax, backward a product of 200 µs."""
    built = Built(names=[])
    for step in range(STEPS):
        start = step * 1000 * US
        built.range(start, start + 990 * US, f"step {step}", 0)
        built.range(start + 5 * US, start + 300 * US, "forward", 1)
        built.range(start + 310 * US, start + 600 * US, "backward", 1)
        calls = (10, 30, 320)
        for call in calls:
            built.call(start + call * US, start + (call + 5) * US)
        first = step * len(calls)
        built.kernel(start + 50 * US, start + 450 * US, kernel, call=first)
        built.kernel(start + 450 * US, start + 500 * US, SOFTMAX, call=first + 1)
        built.kernel(start + 500 * US, start + 700 * US, kernel, call=first + 2)
    return built


def timeline_report(built: Built | None = None, *, path: str = "/somewhere/run.sqlite", **changes: Any) -> Report:
    timeline = replace((built or loop()).timeline(), **changes)
    return Report(path, "nsys", [], NoMetrics(), tool_version="2025.3.1.90", timeline=timeline)


def page(app: GputuiApp) -> str:
    return "\n".join(app.main.timeline_diagnosis.plain_lines())


def one_line(text: str) -> str:
    """Without the line breaks that the width makes, and the bar beside a sentence."""
    return " ".join(text.replace("▌", " ").split())


def listed(app: GputuiApp) -> list[str]:
    """The list as it stands on the screen."""
    table = app.main.selected.list.table
    return [table.render_line(line).text.strip() for line in range(table.size.height)]


async def keys(app: GputuiApp, pilot: Pilot[int], *pressed: str) -> None:
    await pilot.press(*pressed)
    await settle(app, pilot)


# -------------------------------------------------------------------- the list


async def test_kernels_are_listed_by_name_the_longest_total_first(start: Start) -> None:
    async with start(timeline_report()) as (app, _):
        entries = app.library.entries
        assert [(entry.title, entry.count, entry.duration_ns) for entry in entries] == [
            ("gemm", 2 * STEPS, STEPS * GEMM_NS),
            ("softmax", STEPS, STEPS * SOFTMAX_NS),
        ]
        assert entries[0].share == pytest.approx(600 / 650)
        assert listed(app)[1].split() == ["▌", "92", "%", "6", "ms", "×20", "gemm", "◎"]
        assert app.main.entry is entries[0]
        # No counters to read, and nothing for the engine of kernels to do.
        assert app.diagnoses == {}


async def test_a_million_launches_are_few_entries(start: Start) -> None:
    count = 1_000_000
    built = loop()
    small = built.timeline()
    times = np.arange(count, dtype=np.int64) * 1000
    ops = replace(
        small.ops,
        start=times, end=times + 900, name=np.resize(small.ops.name[:3], count), kind=np.zeros(count, dtype=np.uint8),
        stream=np.zeros(count, dtype=np.int32), call=np.full(count, -1, dtype=np.int32),
        detail=np.zeros(count, dtype=np.int32), graph=np.zeros(count, dtype=np.int32),
    )  # fmt: skip
    report = timeline_report(ops=ops, end_ns=int(ops.end[-1]))
    loaded = await asyncio.to_thread(load, report, 0, 0)
    assert len(loaded.entries) == 2
    assert sum(entry.count for entry in loaded.entries) == count


async def test_the_filter_and_the_search_find_kernels(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "f", *"soft", "enter")
        assert [app.library.entries[row].title for row in app.main.kernels.table.rows] == ["softmax"]
        await keys(app, pilot, "escape", "slash", *"soft", "enter")
        assert app.main.entry is not None
        assert app.main.entry.title == "softmax"


def test_the_most_telling_word_of_a_kernels_full_name_comes_first() -> None:
    full = (
        "void at::native::vectorized_elementwise_kernel<(int){}, at::native::{}, std::array<char *, (unsigned long)2>>"
    )
    names = [
        full.format(4, "AUnaryFunctor<float, at::native::binary_internal::MulFunctor<float>>"),
        full.format(4, "BUnaryFunctor<float, at::native::binary_internal::MulFunctor<float>>"),
        full.format(8, "GeluCUDAKernelImpl(at::TensorIteratorBase &)::[lambda() (instance 2)]"),
    ]
    details = distinguish([("vectorized_elementwise_kernel", one, ()) for one in names])
    assert [one.split(" ")[0] for one in details] == ["AUnaryFunctor", "BUnaryFunctor", "GeluCUDAKernelImpl"]
    assert details[0].split(" ")[:2] == ["AUnaryFunctor", "MulFunctor"]
    assert details[0].endswith("4")


async def test_a_narrow_list_tells_what_sets_kernels_apart(start: Start) -> None:
    built = loop("void lib::vectorized_elementwise_kernel<4, AUnaryFunctor<float>>(float *)")
    built.kernel(200, 300, "void lib::vectorized_elementwise_kernel<4, BUnaryFunctor<float>>(float *)")
    async with start(timeline_report(built)) as (app, _):
        by_name = {entry.kernel.demangled: entry for entry in app.library.entries}
        entry = next(one for name, one in by_name.items() if "AUnary" in name)
        assert fit_name(entry, 24) == ("vectorize…", "AUnaryFunctor")
        assert fit_name(entry, 25) == ("vectorized…", "AUnaryFunctor")
        assert fit_name(entry, 60) == ("vectorized_elementwise_kernel", "AUnaryFunctor")
        assert fit_name(entry, 16) == ("vector…", "AUnaryF…")
        assert any("AUnaryFunctor" in line for line in listed(app))


def test_a_shortened_name_keeps_what_others_of_its_family_do_not_have() -> None:
    names = ["nvjet_sm90_tst_192x128_64x5_NNT", "nvjet_sm90_tst_128x160_64x5_NTT", "softmax_forward", "gemm"]
    assert common_beginnings(names) == [15, 15, 0, 0]
    assert shorten_name(names[0], 15, 31) == names[0]
    assert shorten_name(names[0], 15, 22) == "nvjet…192x128_64x5_NNT"
    assert shorten_name(names[1], 15, 19) == "nvjet…128x16…x5_NTT"
    assert shorten_name("softmax_forward", 0, 9) == "soft…ward"


# -------------------------------------------------------------------- the pages


async def test_a_timeline_opens_on_its_diagnosis(start: Start) -> None:
    async with start(timeline_report()) as (app, _):
        assert app.main.page == "timeline-diagnosis"
        told = app.library.timelines[0].diagnosis
        text = one_line(page(app))
        # Steps of 1 ms in which the GPU works for 650 µs.
        assert "65 %" in text
        for finding in told.main:
            assert app.words.finding(finding).why in text


async def test_the_page_tells_the_numbers_of_the_selected_kernel(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "j")
        words = app.words
        text = one_line(page(app))
        assert words.ui("timeline.kernel_each", least=SOFTMAX_NS, median=SOFTMAX_NS, most=SOFTMAX_NS) in text
        share = app.library.share_of(app.library.entries[1])
        assert share is not None
        assert (share.share, share.window_share) == (pytest.approx(50 / 650), pytest.approx(50 / 1000, rel=0.1))
        total = words.ui(
            "timeline.kernel_total", time=STEPS * SOFTMAX_NS, count=STEPS, share=100 * share.share,
            window=100 * share.window_share,
        )  # fmt: skip
        assert total in text
        assert "ncu" in share.command
        assert "--launch-skip" in text


async def test_moving_in_the_list_brings_the_kernel_into_view(start: Start) -> None:
    async with start(timeline_report(), size=(120, 24)) as (app, pilot):
        view = app.main.timeline_diagnosis
        assert view.scroll_offset.y == 0
        await keys(app, pilot, "j")
        seen = view.plain_lines()[view.scroll_offset.y : view.scroll_offset.y + view.size.height]
        assert any(line.strip().startswith("softmax") for line in seen)
        await keys(app, pilot, "1")
        assert view.scroll_offset.y == 0


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_command_is_never_cut(start: Start, size: tuple[int, int]) -> None:
    name = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_" + "NNT_" * 30
    async with start(timeline_report(loop(name)), size=size) as (app, _):
        view = app.main.timeline_diagnosis
        lines = [line.strip(" ▌") for line in view.plain_lines()]
        share = app.library.share_of(app.library.entries[0])
        assert share is not None
        begin = next(place for place, line in enumerate(lines) if line.startswith("ncu --set"))
        told, left = "", len("".join(shlex.quote(one) for one in share.command))
        for line in lines[begin:]:
            told += line.removesuffix("\\").rstrip() + (" " if line.endswith("\\") else "")
            if len(told.replace(" ", "")) >= left:
                break
        assert tuple(shlex.split(told)) == share.command
        assert max(map(width_of, view.plain_lines())) <= view.size.width


async def test_help_of_a_timeline_begins_with_its_own_keys_and_words(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "3", "question_mark")
        assert isinstance(app.screen, HelpScreen)
        text = "\n".join(app.screen.body.plain_lines())
        words = app.words
        order = [
            words.ui("help.timeline.title"), words.ui("action.zoom_in"), words.ui("mark.high"),
            words.ui("action.cursor_down"), words.glossary()["lane"]["term"], words.glossary()["warp"]["term"],
        ]  # fmt: skip
        places, at = [], 0
        for one in order:
            at = text.index(one, at)
            places.append(at)
        assert places == sorted(places)
        assert f" {app.signs.worth}  {words.ui('mark.worth')[:20]}" in text


async def test_what_the_capture_lacks_is_told_with_its_flag(start: Start) -> None:
    report = timeline_report(lacks=[Notice("lacks-nvtx")])
    async with start(report) as (app, _):
        assert "torch.cuda.nvtx.range" in page(app)


@pytest.mark.parametrize("tab", ["roofline", "metrics", "source"])
async def test_pages_of_counters_say_why_they_are_empty(start: Start, tab: str) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, {"roofline": "2", "metrics": "4", "source": "5"}[tab])
        assert app.main.page == "no-counters"
        assert not next(one for one in app.main.tabs.tabs if one.id == tab).has_data
        assert next(one for one in app.main.tabs.tabs if one.id == "timeline").has_data


async def test_the_header_says_what_was_captured_with_what(start: Start) -> None:
    async with start(timeline_report(), size=(160, 40)) as (app, _):
        header = app.main.header.lines(160)
        text = "".join(part for part, _ in header[0])
        assert "run.sqlite" in text
        assert "nsys 2025.3" in text
        assert app.words.ui("header.launches", kernels=2, launches=3 * STEPS) in text


# -------------------------------------------------------------------- places


async def test_w_goes_through_the_places_of_the_findings(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        told = app.library.timelines[0].diagnosis
        moments = [
            one.moment for one in (*told.main, *told.further, *told.effects, *told.validity) if one.moment is not None
        ]
        assert len(moments) > 1
        await keys(app, pilot, "w")
        assert app.main.page == "timeline"
        assert app.main.timeline.stand.cursor_ns == moments[0].start_ns
        assert app.main.footer.status == app.words.finding_name(told.main[0].id)
        await keys(app, pilot, "w")
        assert app.main.timeline.stand.cursor_ns == moments[1].start_ns
        assert isinstance(app.main.focused, TimelineView)


async def test_enter_goes_to_the_place_of_the_marked_finding(start: Start) -> None:
    async with start(timeline_report(), size=(140, 70)) as (app, pilot):
        told = app.library.timelines[0].diagnosis
        main = told.main
        assert len(main) > 1
        await keys(app, pilot, "tab", "j")
        assert app.main.timeline_diagnosis.finding_marked is main[1]
        await keys(app, pilot, "enter")
        assert main[1].moment is not None
        assert app.main.timeline.stand.cursor_ns == main[1].moment.start_ns
        # And from there to the next one.
        await keys(app, pilot, "1", "k", "enter")
        assert main[0].moment is not None
        assert app.main.timeline.stand.cursor_ns == main[0].moment.start_ns


async def test_space_shows_the_numbers_of_a_finding(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        told = app.library.timelines[0].diagnosis
        evidence = told.main[0].evidence[0].metric
        assert evidence not in page(app)
        await keys(app, pilot, "tab", "space")
        assert evidence in page(app)
        assert "docs/timeline.md" in page(app)


# -------------------------------------------------------------------- the tree and what a range launched


async def test_o_changes_between_kernels_and_ranges(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "o")
        assert app.main.selected.listing == actions.RANGES
        nodes = [app.main.ranges.data.node(int(row)) for row in app.main.ranges.table.rows]
        # Two levels are open; ten steps are few enough to stand one by one.
        assert [node.name for node in nodes].count("forward") == STEPS
        assert len(nodes) == 3 * STEPS
        first = nodes[0]
        assert (first.cpu_ns, first.busy_ns, first.kernels) == (990 * US, 650 * US, 3)
        await keys(app, pilot, "o")
        assert app.main.selected.listing == actions.KERNELS


async def test_after_o_the_focus_is_in_the_list_that_appeared(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "3")
        assert app.main.pane == actions.TIMELINE
        await keys(app, pilot, "o")
        assert app.focused is app.main.ranges.table
        await keys(app, pilot, "j")
        assert app.main.ranges.table.cursor == 1
        await keys(app, pilot, "tab", "o")
        assert app.focused is app.main.kernels.table


async def test_many_ranges_alike_are_one_line() -> None:
    built = Built()
    for step in range(30):
        built.range(step * 100, step * 100 + 90, f"step {step}", 0)
        built.range(step * 100 + 10, step * 100 + 20, f"read {step}", 1)
    rows = flatten(built.facts().range_tree)
    assert [(node.path, node.count) for node in rows.nodes] == [(("step #",), 30), (("step #", "read #"), 30)]
    assert rows.ends == (2, 2)


async def test_ranges_that_nest_deep_can_be_reached(start: Start) -> None:
    built = Built()
    deepest = DEEPEST
    for depth in range(deepest + 10):
        built.range(depth, 10_000 - depth, f"level {depth}", depth)
    rows = flatten(built.facts().range_tree)
    assert len(rows.nodes) == deepest
    assert rows.ends == (deepest,) * deepest
    async with start(timeline_report(built)) as (app, pilot):
        await keys(app, pilot, "f", *str(deepest - 1), "enter", "G")
        assert app.main.ranges.node is not None
        assert app.main.ranges.node.name == f"level {deepest - 1}"
        assert len(app.main.ranges.table.rows) == deepest


async def test_space_folds_a_range(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "o", "space")
        assert len(app.main.ranges.table.rows) == 3 * STEPS - 2
        await keys(app, pilot, "space")
        assert len(app.main.ranges.table.rows) == 3 * STEPS


async def test_choosing_a_range_keeps_what_it_launched(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "o", "j", "enter")
        # The first step's forward: one product of 400 µs, one softmax of 50 µs.
        main = app.main
        assert main.selected.listing == actions.KERNELS
        data = main.kernels.data
        assert [data.duration_of(entry) for entry in app.library.entries] == [400 * US, 50 * US]
        assert [data.count_of(entry) for entry in app.library.entries] == [1, 1]
        assert data.share_of(app.library.entries[0]) == pytest.approx(400 / 450)
        assert "step 0 / forward" in main.kernels.breadcrumb.lines(60)[0][1][0]
        held = main.selected.held_to
        assert held is not None
        assert int(held.ops.sum()) == 2
        # One key takes it back, and leads to where it was chosen.
        await keys(app, pilot, "escape")
        assert main.selected.listing == actions.RANGES
        assert main.kernels.data.within is None
        assert not main.kernels.breadcrumb.display


async def test_choosing_a_range_in_the_timeline_does_the_same(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "3")
        facts = app.main.timeline.facts
        assert facts is not None
        row = int(np.flatnonzero(facts.timeline.ranges.depth == 1)[1])  # the first step's backward
        app.main.timeline.post_message(TimelineView.Selected(app.main.timeline, "range", row))
        await settle(app, pilot)
        assert [app.library.entries[row].title for row in app.main.kernels.table.rows] == ["gemm"]
        assert app.main.kernels.data.duration_of(app.library.entries[0]) == 200 * US


async def test_a_kernel_chosen_in_the_timeline_is_selected_in_the_list(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        facts = app.library.reports[0].facts
        assert facts is not None
        ops = facts.timeline.ops
        softmax = app.library.entries[1]
        assert softmax.timed is not None
        row = int(np.flatnonzero(ops.name == softmax.timed.name)[3])
        # Even where the filter hides it.
        await keys(app, pilot, "f", *"gemm", "enter", "3")
        app.main.timeline.post_message(TimelineView.Selected(app.main.timeline, "kernel", row))
        await settle(app, pilot)
        assert app.main.entry is softmax


async def test_selecting_a_kernel_lights_its_launches(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    lit: list[Any] = []
    monkeypatch.setattr(TimelineView, "light", lambda self, name=None, mask=None: lit.append((name, mask)))
    async with start(timeline_report()) as (app, pilot):
        # What the cursor happens to stand on at first is no choice.
        assert lit[-1] == (None, None)
        await keys(app, pilot, "j")
        group = app.library.entries[1].timed
        assert group is not None
        assert lit[-1] == (group.name, None)


async def test_choosing_a_range_lights_all_that_it_launched(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    lit: list[Any] = []
    monkeypatch.setattr(TimelineView, "light", lambda self, name=None, mask=None: lit.append((name, mask)))
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "o", "j", "enter")
        name, mask = lit[-1]
        assert name is None
        assert np.flatnonzero(mask).tolist() == [0, 1]
        # From there on a kernel of it.
        await keys(app, pilot, "j")
        name, mask = lit[-1]
        assert app.main.timeline.facts is not None
        assert app.main.timeline.facts.timeline.name(name) == SOFTMAX
        assert np.flatnonzero(mask).tolist() == [0, 1]


async def test_a_range_without_kernels_leaves_the_list_as_it_is(start: Start) -> None:
    built = loop()
    built.range(0, 4 * US, "setup", 0, thread=1)
    async with start(timeline_report(built)) as (app, pilot):
        await keys(app, pilot, "o", "G", "enter")
        assert app.main.ranges.node is not None
        assert app.main.ranges.node.name == "setup"
        assert app.main.selected.held_to is None
        assert app.main.selected.listing == actions.RANGES


async def test_a_capture_without_kernels_shows_its_ranges_first(start: Start) -> None:
    built = Built()
    built.range(0, 900, "step", 0)
    built.range(100, 300, "read", 1)
    async with start(timeline_report(built)) as (app, pilot):
        assert app.main.selected.listing == actions.RANGES
        assert app.main.pane == actions.RANGES
        assert app.main.page == "timeline-diagnosis"
        assert app.words.ui("timeline.range_nothing") in one_line(page(app))
        # There is no list of kernels to change to.
        await keys(app, pilot, "o")
        assert app.main.selected.listing == actions.RANGES


def test_the_rows_of_a_tree() -> None:
    # 0 ┬ 1 ─ 2
    #   └ 3        4 ─ 5
    ends = (4, 3, 3, 4, 6, 6)
    assert unfolded(ends, ()).tolist() == [0, 4]
    assert unfolded(ends, {0}).tolist() == [0, 1, 3, 4]
    assert unfolded(ends, {0, 1, 4}).tolist() == [0, 1, 2, 3, 4, 5]
    assert with_parents(ends, [2]).tolist() == [0, 1, 2]
    assert with_parents(ends, [3, 4]).tolist() == [0, 3, 4]
    assert with_parents(ends, []).tolist() == []


# -------------------------------------------------------------------- beside an ncu report


def counted_report(demangled: str = "void lib::gemm<float>(float*)") -> Report:
    """An ncu report of one launch of the product."""
    report = make_report(("gemm",), path="/somewhere/gemm.ncu-rep")
    kernel = report.kernels[0]
    twin = Kernel(0, "gemm", demangled, kernel.device, report.source, grid=(4, 2, 1), block=(128, 1, 1))
    report.kernels = [twin]
    return report


async def test_a_kernel_is_linked_to_its_launch_in_an_ncu_report(start: Start) -> None:
    async with start(timeline_report(), counted_report()) as (app, pilot):
        timed, counted = (
            next(one for one in app.library.entries if one.title == "gemm" and (one.timed is None) == is_counted)
            for is_counted in (False, True)
        )
        link = app.library.links[timed.number]
        assert (link.entry, link.same_shape) == (counted, True)
        app.main.kernels.table.move_to(app.main.kernels.table.rows.tolist().index(timed.number))
        await settle(app, pilot)
        # The list tells its verdict beside its total.
        data = app.main.kernels.data
        assert data.verdict_text(timed) == data.verdict_text(counted) != ""
        # The page goes on with the launch's own diagnosis.
        text = one_line(page(app))
        verdict = app.words.verdict(app.diagnoses[counted.number].verdict)
        assert app.words.ui("timeline.linked", file="gemm.ncu-rep", gpu=counted.kernel.device.name) in text
        assert verdict in text
        # And so do the pages of counters.
        await keys(app, pilot, "2")
        assert app.main.page == "roofline"
        await keys(app, pilot, "4")
        assert app.main.metrics.entry == counted.number


async def test_the_timeline_stands_before_the_reports_on_its_kernels(start: Start) -> None:
    async with start(counted_report(), timeline_report()) as (app, _):
        files = [app.main.kernels.data._group_names[-1 - row] for row in app.main.kernels.table.rows if row < 0]
        assert files == ["run.sqlite", "gemm.ncu-rep"]
        assert app.main.entry is not None
        assert app.main.entry.timed is not None


async def test_a_kernel_of_another_program_is_not_linked(start: Start) -> None:
    async with start(timeline_report(), counted_report("void other::gemm<double>(double*)")) as (app, _):
        assert app.library.links == {}


# -------------------------------------------------------------------- files


async def test_ranks_open_as_one_timeline(start: Start, tmp_path: Path) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"run_rank{rank}.json", rank=rank)
    async with start(tmp_path, size=(160, 50)) as (app, _):
        assert len(app.library.reports) == 1
        assert app.library.reports[0].name == "run_rank*.json"
        text = page(app)
        for rank in (0, 1):
            assert app.words.text("timeline_text.gpu-of-rank", number=0, rank=rank) in text


async def test_one_bad_file_of_many_is_a_warning(start: Start, tmp_path: Path) -> None:
    write_trace(tmp_path / "good.json")
    (tmp_path / "bad.sqlite").write_bytes(b"SQLite format 3\0")
    async with start(tmp_path) as (app, _):
        assert len(app.library.reports) == 1
        assert "bad.sqlite" in app.main.notices.texts[0]


async def test_reading_a_timeline_can_be_stopped(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    def slow(path: Path, progress: Any) -> Report:
        started.set()
        while progress(1, 1000):
            threading.Event().wait(0.01)
        return timeline_report(path=str(path))

    monkeypatch.setattr("gputui.formats.open_report", slow)
    async with start("one.sqlite", "two.sqlite", wait=False) as (app, pilot):
        assert await asyncio.to_thread(started.wait, 5)
        await pilot.pause(0.1)
        assert isinstance(app.screen, LoadingScreen)
        await keys(app, pilot, "escape")
        assert app.was_stopped
        assert len(app.library.reports) == 1


async def test_the_explanation_of_a_timeline_is_copied(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "y")
        text = (tmp_path / "cache" / "gputui" / "copied.md").read_text()
        assert "gemm" in text
        assert "65 %" in text


# -------------------------------------------------------------------- the screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_every_page_can_be_drawn_at_every_size(start: Start, size: tuple[int, int], ascii: bool) -> None:
    async with start(timeline_report(), counted_report(), size=size, ascii=ascii) as (app, pilot):
        for key in ("2", "3", "4", "5", "1", "o", "tab", "tab"):
            await pilot.press(key)
            await pilot.pause()
            lines = [strip.text for strip in app.screen._compositor.render_strips()]
            assert len(lines) == size[1]
            if ascii:
                assert all(line.isascii() for line in lines)


async def test_the_other_language_stands_where_the_first_one_stood(start: Start) -> None:
    async with start(timeline_report()) as (app, pilot):
        await keys(app, pilot, "o", "j", "enter", "j")
        app.action_next_language()
        await settle(app, pilot)
        assert app.main.selected.held_to is not None
        assert app.main.kernels.breadcrumb.path == ("step 0", "forward")
        assert app.main.entry is not None
        assert app.main.entry.title == "softmax"
        assert app.main.page == "timeline-diagnosis"


async def test_names_from_the_file_are_text(start: Start) -> None:
    evil = "[/bold]\x1b]52;c;aGk=\x07\u202e"
    built = loop(kernel=f"k{evil}")
    built.range(0, 9_999 * US, f"outer{evil}", 0, thread=1)
    async with start(timeline_report(built)) as (app, pilot):
        for pressed in ("1", "3", "tab", "o", "enter"):
            await keys(app, pilot, pressed)
            for strip in app.screen._compositor.render_strips():
                assert not any(mark in strip.text for mark in "\x1b\x07\u202e")


@pytest.mark.parametrize(
    "name",
    [
        "sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite",
        "sqlite/RajaATAli__SC23_Programming-Your-GPU-with-OpenMP_Tutorial__report1.sqlite",
        "torch/facebookresearch__HolisticTraceAnalysis__nccl_data.json.gz",
        "torch/facebookresearch__HolisticTraceAnalysis__rank_non_gpu.json.gz",
    ],
)
async def test_every_page_of_a_real_timeline_can_be_walked_through(start: Start, reports: Path, name: str) -> None:
    async with start(reports / name) as (app, pilot):
        assert app.main.page == "timeline-diagnosis"
        for pressed in ("j", "space", "2", "3", "w", "full_stop", "plus", "tab", "o", "j", "enter", "escape", "1"):
            await pilot.press(pressed)
            await pilot.pause(0.05)
            assert app.screen is app.main
        await settle(app, pilot)
