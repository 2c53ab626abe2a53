"""Timelines compared: against the sums of the exports' own tables, and on timelines put together by hand."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import gputui
from built_timeline import Built
from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.model import Comparison, Side
from gputui.analysis.compare.timelines import timeline_side
from gputui.errors import GputuiError
from gputui.model.report import NoMetrics, Notice, Report
from gputui.model.timeline import LaunchShape, Stream

SAMPLES = Path(__file__).parents[3] / "sample_reports"


@cache
def sample(name: str) -> Side:
    return timeline_side(gputui.open_report(SAMPLES / f"timeline_{name}"))


def by_step(name: str) -> tuple[list[int], list[int], list[int]]:
    """Per step its launches, their time and its length: a join of the export's own tables.

    The length is from when the GPU was done with the step before: not before this one begins on the CPU, and never
    before all that the thread of the steps launched in it has run."""
    path = (SAMPLES / f"timeline_{name}").resolve()
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as file:
        starts = file.execute(
            "SELECT start, end, globalTid FROM NVTX_EVENTS WHERE text LIKE 'step %' ORDER BY start"
        ).fetchall()
        ends_on_gpu = file.execute(
            " UNION ALL ".join(
                f"SELECT call.start, call.end, call.globalTid, work.end FROM CUPTI_ACTIVITY_KIND_{kind} work"
                " JOIN CUPTI_ACTIVITY_KIND_RUNTIME call USING (correlationId)"
                for kind in ("KERNEL", "MEMCPY", "MEMSET")
            )
        ).fetchall()
        kernels = file.execute(
            "SELECT call.start, kernel.end - kernel.start FROM CUPTI_ACTIVITY_KIND_KERNEL kernel"
            " JOIN CUPTI_ACTIVITY_KIND_RUNTIME call USING (correlationId)"
        ).fetchall()
    borders = [start for start, *_ in starts]
    ends = [*borders[1:], starts[-1][1]]
    done = [borders[0]]
    for (start, end, thread), least in zip(starts, ends, strict=True):
        mine = [
            work for began, ended, caller, work in ends_on_gpu if caller == thread and start <= began and ended <= end
        ]
        done.append(max([least, done[-1], *mine]))
    steps = [
        [time for launch, time in kernels if start <= launch < end] for start, end in zip(borders, ends, strict=True)
    ]
    lengths = [end - start for start, end in pairwise(done)]
    return [len(step) for step in steps], [sum(step) for step in steps], lengths


@pytest.mark.parametrize(("name", "warm_up"), [("wasteful.sqlite", 1), ("tuned.sqlite", 0)])
def test_steady_steps_have_the_sums_of_the_exports_tables(name: str, warm_up: int) -> None:
    launches, times, lengths = (column[warm_up:] for column in by_step(name))
    side = sample(name)
    assert set(launches) == {len(side.members)}
    assert [sum(member.durations_ns[place] for member in side.members) for place in range(side.passes)] == times
    assert side.wall is not None
    assert list(side.wall.durations_ns) == lengths
    assert side.launches == sum(launches)


def test_the_tuned_loop_is_faster_and_its_optimizer_is_fused() -> None:
    found = compare(sample("wasteful.sqlite"), sample("tuned.sqlite"))
    assert (found.kernels.before, found.kernels.after, found.kernels.trend, found.fusion) == (427, 206, "down", "fused")
    assert (found.tensor.trend, found.tensor.because, found.dram.because) == ("unknown", "timeline", "timeline")
    # 58.9 ms in 10 steps and 43.3 ms in 8.
    assert found.time.speedup == pytest.approx(58_888_357 / 10 / (43_265_203 / 8))
    assert (found.time.outcome, found.time.noise, found.time.samples) == ("faster", "passes", (10, 8))
    assert found.wall is not None
    assert found.wall.outcome == "faster"
    (fused,) = found.fused
    assert ({member.op for member in fused.base}, len(fused.new)) == ({"optimizer"}, 3)
    assert fused.sureness < 0.6
    assert found.cautions == ()


def test_exchanging_the_sides_turns_every_answer() -> None:
    found = compare(sample("tuned.sqlite"), sample("wasteful.sqlite"))
    assert (found.kernels.trend, found.fusion, found.time.outcome) == ("up", "split", "slower")
    assert found.wall is not None
    assert found.wall.outcome == "slower"


@pytest.mark.parametrize("name", ["wasteful.sqlite", "graph.sqlite", "ddp_rank0.json.gz"])
def test_a_timeline_against_itself_is_no_difference(name: str) -> None:
    found = compare(sample(name), sample(name))
    assert found.wall is not None
    assert (found.time.outcome, found.wall.outcome) == ("no-difference", "no-difference")
    assert (found.kernels.trend, found.fusion, {group.how for group in found.groups}) == ("same", "same", {"same"})


def test_steps_found_in_kernels_are_turned_to_begin_alike() -> None:
    found = compare(sample("tuned.sqlite"), sample("graph.sqlite"))
    assert {group.how for group in found.groups} == {"same"}
    assert all(
        [member.place for member in group.base] == [member.place for member in group.new] for group in found.groups
    )
    assert (found.time.outcome, found.fusion, found.cautions) == ("no-difference", "same", ())
    assert found.wall is not None
    # README of the samples: a step takes 9.7 ms, and 5.6 as a graph.
    assert found.wall.outcome == "faster"
    assert found.wall.low is not None
    assert found.wall.low > 1.5


def test_another_tool_leaves_the_steps_time_open_and_the_kernels_time_not() -> None:
    found = compare(sample("wasteful.sqlite"), sample("wasteful.json.gz"))
    assert found.time.outcome == "no-difference"
    assert found.wall is not None
    assert (found.wall.outcome, found.wall.because) == ("inconclusive", ("other-tool",))
    assert {group.how for group in found.groups} <= {"same", "alike"}


def test_waiting_in_collectives_is_no_speedup() -> None:
    found = compare(sample("ddp_rank0.json.gz"), sample("ddp_rank1.json.gz"))
    assert (found.time.outcome, found.time.because) == ("inconclusive", ("collectives",))
    (caution,) = found.cautions
    assert caution.params["base_pct"] == pytest.approx(83.1, abs=0.1)


def test_a_range_is_told_by_what_it_launched() -> None:
    found = [
        timeline_side(gputui.open_report(SAMPLES / f"timeline_{name}.sqlite"), nvtx=re.compile("optimizer"))
        for name in ("wasteful", "tuned")
    ]
    assert [len(side.members) for side in found] == [224, 3]
    only = compare(*found)
    (group,) = only.groups
    assert (group.how, only.fusion) == ("fused", "fused")
    assert only.wall is not None
    # From its first work on the GPU to its last, not the range's time on the CPU (3 to 5 ms).
    assert only.wall.before_ns is not None
    assert only.wall.after_ns is not None
    assert only.wall.after_ns < 0.35e6 < 3e6 < only.wall.before_ns < 5.3e6


# ------------------------------------------------------------------ by hand

Body = Sequence[tuple[str, int]]


def loop(bodies: Sequence[Body], *, scale: int = 1, **more: object) -> Report:
    """A range a step, a launch in it for each kernel (name, ns), and the kernel right after its launch."""
    built = Built(**more)  # type: ignore[arg-type]
    time, call = 0, 0
    for number, body in enumerate(bodies):
        begun = time
        for name, length in body:
            built.call(time, time + 10)
            built.kernel(time + 20, time + 20 + scale * length, name, call=call)
            call += 1
            time += 30 + scale * length
        built.range(begun, time, f"step {number}")
        time += 10
    return report(built)


def recording(names: Body, **more: object) -> Report:
    """Kernels without any step."""
    built = Built(**more)  # type: ignore[arg-type]
    time = 0
    for name, length in names:
        built.kernel(time, time + length, name)
        time += length + 10
    return report(built)


def report(built: Built, notices: Sequence[Notice] = ()) -> Report:
    return Report("run.sqlite", "nsys", [], NoMetrics(), timeline=built.timeline(), notices=list(notices))


def said(found: Comparison) -> dict[str, frozenset[str]]:
    return {caution.id: frozenset(caution.open) for caution in found.cautions}


LAYER = [("gemm", 40_000), ("softmax", 20_000), ("gelu_kernel", 10_000)]


def test_steps_that_are_not_alike_are_told_by_kernel() -> None:
    # The optimizer runs in every other step, and a step has two or three layers.
    bodies = [LAYER * (2 + number % 2) + [("adam", 60_000)] * (number % 2) for number in range(8)]
    side = timeline_side(loop(bodies))
    assert {member.kernel.name: member.count for member in side.members} == {
        "gemm": 2.5, "softmax": 2.5, "gelu_kernel": 2.5, "adam": 0.5,
    }  # fmt: skip
    adam = next(member for member in side.members if member.kernel.name == "adam")
    assert adam.durations_ns == (0, 60_000) * 4
    assert adam.nvtx == ("step #",)
    assert (side.passes, side.launches) == (8, 64)
    # Against steps of which each launch is told: fewer of the same are no fusion.
    found = compare(side, timeline_side(loop([LAYER * 2] * 8)))
    assert (found.kernels.before, found.kernels.after) == (8, 6)
    assert found.fusion == "fewer"
    assert {group.how for group in found.groups} == {"same", "gone"}


def test_a_step_that_the_recording_cut_off_is_no_sample() -> None:
    bodies = [LAYER * 2] * 11 + [LAYER]
    side = timeline_side(loop(bodies))
    assert (side.passes, len(side.members)) == (11, 6)
    assert side.wall is not None
    assert len(side.wall.durations_ns) == 11


def test_half_the_layers_are_no_fusion() -> None:
    found = compare(timeline_side(loop([LAYER * 8] * 4)), timeline_side(loop([LAYER * 4] * 4)))
    assert (found.kernels.before, found.kernels.after, found.fusion) == (24, 12, "fewer")


def test_kernels_with_one_that_names_their_work_are_fused() -> None:
    gelu = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>"
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
    eager = [("gemm", 40_000), (gelu, 20_000), (add, 10_000)]
    fused = [("gemm", 40_000), ("triton_poi_fused_add_gelu_0", 12_000)]
    found = compare(timeline_side(loop([eager] * 4)), timeline_side(loop([fused] * 4)))
    (group,) = found.fused
    assert [member.kernel.demangled for member in group.base] == [gelu, add]
    assert found.time.speedup == pytest.approx(70 / 52)


def test_other_shapes_leave_the_time_open() -> None:
    new = loop([LAYER] * 4, scale=2)
    assert new.timeline is not None
    new.timeline = replace(new.timeline, shapes=[LaunchShape((8, 2, 1), (128, 1, 1))])
    found = compare(timeline_side(loop([LAYER] * 4)), timeline_side(new))
    assert (found.time.outcome, found.time.because) == ("inconclusive", ("other-shapes",))
    assert compare(found.base, found.new, same_work=True).time.outcome == "slower"


def test_without_steps_the_same_launches_are_the_same_work() -> None:
    base, new = ([(f"kernel_{place}", length * 1_000) for place in range(12)] for length in (40, 20))
    found = compare(timeline_side(recording(base)), timeline_side(recording(new)))
    assert (found.time.outcome, found.time.speedup, said(found)) == ("faster", 2.0, {"no-steps": frozenset()})
    # Half of the recording is no faster program.
    found = compare(timeline_side(recording(base)), timeline_side(recording(base[:6])))
    assert (found.time.outcome, found.wall and found.wall.outcome) == ("inconclusive", "inconclusive")


def test_a_step_against_a_whole_recording_tells_nothing() -> None:
    found = compare(timeline_side(loop([LAYER] * 4)), timeline_side(recording(LAYER)))
    assert said(found)["steps-of-one"] == {"time", "wall", "kernels"}
    assert (found.time.outcome, found.kernels.trend) == ("inconclusive", "unknown")


def test_whole_graphs_hide_their_kernels_and_not_their_time() -> None:
    built = Built()
    for number in range(4):
        built.call(number * 100_000, number * 100_000 + 10, "cudaGraphLaunch")
        built.call(number * 100_000 + 31, number * 100_000 + 32)
        built.graph(number * 100_000 + 20, number * 100_000 + 60_020)
        built.kernel(number * 100_000 + 60_030, number * 100_000 + 61_030, "loss_kernel", call=2 * number + 1)
        built.range(number * 100_000, number * 100_000 + 90_000, f"step {number}")
    base = loop([[*LAYER, ("loss_kernel", 1_000)]] * 4)
    graph = report(built)
    found = compare(timeline_side(base), timeline_side(graph))
    assert (found.kernels.trend, found.fusion) == ("unknown", "unknown")
    assert not found.fused
    assert {group.how for group in found.groups} == {"same", "replaced"}
    assert found.time.speedup == pytest.approx(71 / 61)
    assert found.time.outcome == "faster"


def test_lost_events_leave_time_and_kernels_open() -> None:
    base = timeline_side(loop([LAYER] * 4))
    holed = loop([LAYER] * 4)
    holed.notices.append(Notice("dropped-events", {"count": 1, "text": "lost"}))
    found = compare(base, timeline_side(holed))
    assert (found.time.because, found.kernels.because) == (("events-lost",), "events-lost")


def test_another_number_of_gpus_leaves_the_time_open() -> None:
    two = Built(gpus=2, streams=[Stream(0, 0, 7), Stream(1, 0, 7)])
    for number in range(8):
        for stream in (0, 1):
            two.kernel(number * 100_000, number * 100_000 + 40_000 + 10_000 * stream, f"k{number}", stream)
    side = timeline_side(report(two))
    # The members are of the GPU with the most work.
    assert [member.time_ns for member in side.members] == [50_000] * 8
    one = timeline_side(recording([(f"k{number}", 50_000) for number in range(8)]))
    assert "time" in said(compare(one, side))["gpu-count"]
    assert said(compare(side, side))["several-gpus"] == frozenset()


def test_what_cannot_be_compared_is_said() -> None:
    empty = timeline_side(recording([]))
    with pytest.raises(GputuiError, match="no kernels"):
        compare(empty, empty)
    with pytest.raises(GputuiError, match="is no timeline"):
        timeline_side(Report("a.ncu-rep", "ncu", [], NoMetrics()))
    with pytest.raises(GputuiError, match="different kernels"):
        timeline_side(recording([(f"kernel_{number}", 10) for number in range(3_001)]))
