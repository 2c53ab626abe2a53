"""What a comparison says, against arithmetic by hand, and that it has words for whatever it may have to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from render_builder import make_report

import gputui
from gputui.analysis.compare.answers import compare
from gputui.analysis.compare.model import (
    Caution,
    Change,
    Comparison,
    Fusion,
    How,
    Outcome,
    Pairing,
    Side,
    TimeChange,
    Wall,
)
from gputui.analysis.compare.sides import counters_side
from gputui.analysis.compare.why import why
from gputui.analysis.engine import diagnose_all
from gputui.analysis.finding import Level, Verdict, VerdictId
from gputui.model.device import Device
from gputui.render import compare_rows as rows
from gputui.wording import LANGUAGES, Wording, wording

SAMPLES = Path(__file__).parents[2] / "sample_reports"
ENGLISH = wording("en")
CAUTIONS: Mapping[str, Mapping[str, Any]] = {
    "nothing-paired": {},
    "little-paired": {"percent": 12.0},
    "by-hand": {},
    "mixed-gpus": {},
    "other-gpu": {"base": "NVIDIA A100", "new": "NVIDIA H100"},
    "truncated": {},
    "other-work": {"times": 2.0},
    "other-work-unknown": {},
    "work-unknown": {},
    "clocks": {"sm_before": 1e9, "sm_after": 2e9, "dram_before": None, "dram_after": None, "percent": 100.0},
    "cache-control": {"base": "all", "new": "none"},
    "part": {"count": 3},
    "single-controls": {"percent": 1.3},
    "single-launches": {"percent": 1.3},
    "single-assumed": {"percent": 5.0},
    "passes": {"base": 1, "new": 20},
    "no-steps": {},
    "steps-of-one": {"file": "runs/one.sqlite"},
    "other-steps": {"base": "step", "new": "iteration"},
    "other-shapes": {},
    "other-tool": {},
    "events-lost": {},
    "whole-graphs": {},
    "gpu-count": {"base": 1, "new": 2},
    "several-gpus": {"count": 2},
    "collectives": {"base_pct": 20.0, "new_pct": 30.0},
}
"""The cautions, with what fills them; without the ratio of operations another work has a text of its own."""
OPEN = frozenset(
    [
        "other-gpu",
        "nothing-paired",
        "little-paired",
        "mixed-gpus",
        "truncated",
        "other-work",
        "work-unknown",
        "cache-control",
        "clocks",
        "no-time",
        "noise",
        "not-counted",
        "timeline",
        "part",
        "no-steps",
        "steps-of-one",
        "other-steps",
        "other-shapes",
        "other-tool",
        "events-lost",
        "whole-graphs",
        "gpu-count",
        "collectives",
    ]
)
"""What may leave an answer open."""


@cache
def side(path: str, kernel: str = "") -> Side:
    report = gputui.open_report(path)
    return counters_side([(report, diagnose_all(report))], lambda one: re.search(kernel, one.name) is not None)


def sample(base: str, new: str) -> Comparison:
    return compare(*(side(str(SAMPLES / f"attention_{name}.ncu-rep")) for name in (base, new)))


def small(*names: str, device: Device | None = None) -> Side:
    report = make_report(*names, path="small.ncu-rep", **({} if device is None else {"device": device}))
    return counters_side([(report, diagnose_all(report))])


@pytest.fixture(scope="module")
def tiny() -> Comparison:
    """A kernel against itself."""
    return compare(small("walk"), small("walk"))


def assert_filled(*texts: str) -> None:
    for text in texts:
        assert text == text.strip() != ""
        assert not re.search(r"None\b|\bnan\b|\{|\}|–", text), text


def marks(c: Comparison) -> dict[str, str]:
    return {row.id: row.mark for row in rows.answers(c, ENGLISH)}


# ------------------------------------------------------------------ the samples


def test_flash_attention_is_told_with_its_numbers() -> None:
    c = sample("eager", "sdpa")
    # By hand from ncu's CSV: 2,050,112 ns / 1,042,944 ns and 3,893,295,616 B / 720,353,280 B.
    assert rows.headline(c, ENGLISH) == "Faster: 2.05 ms → 1.04 ms of GPU time, 1.97× (±1.3 %)"
    tensor, dram, kernels = rows.answers(c, ENGLISH)
    assert (tensor.mark, tensor.title) == ("yes", "Tensor cores used more")
    assert tensor.numbers == "32 % → 69 % of the time, the same 550 G operations"
    assert (dram.mark, dram.title, dram.numbers) == ("yes", "Less DRAM traffic", "3.89 GB → 720 MB, 5.4× less")
    assert (kernels.mark, kernels.title, kernels.numbers) == ("yes", "Kernels fused", "14 kernels → 10")
    assert kernels.note == ("5 kernels → flash_fwd_kernel: attention scores, mul, softmax, attention values, copy")
    assert rows.shift(c, ENGLISH) == (
        "The bottleneck moved from instruction issue (43 % of the time) to the tensor cores (51 %)."
    )
    assert rows.title(c, ENGLISH) == "attention_eager.ncu-rep → attention_sdpa.ncu-rep · NVIDIA H200 · clocks alike"
    slowest = rows.still_slow(c, ENGLISH)
    assert slowest is not None
    # 398,784 ns of 1,042,944 ns.
    assert slowest.startswith("Slowest now: flash_fwd_kernel, 38 % of the time. ")


def test_every_fused_group_is_told() -> None:
    kernels = rows.answers(sample("eager", "compile"), ENGLISH)[2]
    assert kernels.numbers == "14 kernels → 9"
    first, second = kernels.note.split("; ")
    assert first.startswith("5 kernels → flash_fwd_kernel: ")
    assert re.fullmatch(r"2 kernels → triton_red_fused_add_native\S*: add, normalisation", second)


def test_the_next_change_says_where_what_and_how_to_check() -> None:
    c = sample("eager", "sdpa")
    first, *others = rows.next_lines(c, ENGLISH, "pytorch")
    assert first.startswith("Change next, in flash_fwd_kernel: ")
    assert first.endswith(" (the whole up to 1.25× faster)")
    assert [line.partition(":")[0] for line in others[:3]] == ["Do", "Do", "Check"]
    assert others[3].startswith("Fairly sure")
    assert rows.next_lines(c, ENGLISH, "cuda") != rows.next_lines(c, ENGLISH, "pytorch")


@pytest.mark.parametrize("new", ["sdpa", "compile"])
def test_exchanged_sides_turn_every_answer_round(new: str) -> None:
    there, back = sample("eager", new), sample(new, "eager")
    assert marks(there) == dict.fromkeys(("tensor", "dram", "kernels"), "yes")
    assert marks(back) == dict.fromkeys(("tensor", "dram", "kernels"), "no")
    assert [row.title for row in rows.answers(back, ENGLISH)] == [
        "Tensor cores used less", "More DRAM traffic", "Kernels split up",
    ]  # fmt: skip
    assert not any(row.same for row in rows.answers(back, ENGLISH))
    assert rows.headline(back, ENGLISH).startswith("Slower: ")


def test_a_report_against_itself_has_no_difference() -> None:
    c = sample("sdpa", "sdpa")
    assert rows.headline(c, ENGLISH) == "No difference: 1.04 ms → 1.04 ms of GPU time (±1 %)"
    assert all(row.same and row.mark == "no" for row in rows.answers(c, ENGLISH))
    assert rows.changed_groups(c, ENGLISH) == []
    assert {row.gain for row in rows.group_rows(c, ENGLISH)} == {"same"}
    assert {row.new for row in rows.group_rows(c, ENGLISH)} == {""}


def test_groups_come_with_their_numbers() -> None:
    c = sample("eager", "sdpa")
    first, second = rows.group_rows(c, ENGLISH, 2)
    assert first.base == "5 kernels: attention scores, mul, softmax, attention values, copy"
    assert (first.new, first.how, first.gain) == ("flash_fwd_kernel", "fused", "3.5× faster")
    assert (first.dram_before, first.dram_after) == ("3.23 GB", "61.4 MB")
    assert (second.base[:14], second.new, second.how) == ("MLP: 2 × nvjet", "", "same kernel")
    lines = rows.why_lines(c, first.group, ENGLISH)
    assert lines[0] == "flash_fwd_kernel: 3.5× faster."
    assert "1 kernel in place of 5" in lines[1]
    assert "Cured: attention written out." in lines
    # What the softmax of five kernels did is not held against the whole.
    assert not any(line.startswith("Numbers") for line in lines)
    assert rows.why_lines(c, second.group, ENGLISH) == []


def test_what_only_went_with_its_kernel_is_not_called_cured() -> None:
    c = sample("sdpa", "eager")
    lines = rows.why_lines(c, c.groups[0], ENGLISH)
    assert not any(line.startswith("Cured") for line in lines)
    assert "No longer found: Hopper's matrix instructions unused." in lines


# ------------------------------------------------------------------ handed pairs


def test_a_coalesced_transpose_is_faster_for_its_stores(reports: Path) -> None:
    path = str(reports / "ncu" / "Lashi0812__CudaProgramming__smemTranspose.ncu-rep")
    c = compare(side(path, "naiveGmem"), side(path, "transposeSmem$"))
    # 523,712 ns / 145,120 ns; the clocks were 2.24 and 1.75 GHz.
    assert rows.headline(c, ENGLISH) == (
        "Faster: 524 µs → 145 µs of GPU time, 3.6× (±10 %); at equal clocks 3.6× to 4.6×"
    )
    assert rows.title(c, ENGLISH) == (
        "Lashi0812__CudaProgramming__smemTranspose.ncu-rep: naiveGmem → transposeSmem · NVIDIA GeForce RTX 4090"
        " · clocks differ"
    )
    lines = rows.why_lines(c, c.groups[0], ENGLISH)
    assert lines[:3] == [
        "transposeSmem: 3.6× faster.",
        "Held before by the L2 cache, now by main memory (DRAM).",
        "Cured: scattered stores (Sectors per store 32 → 4).",
    ]
    assert lines[-1] == "Paired by order and place alone: check that it does the same."


def test_padding_gains_nothing_while_dram_is_full(reports: Path) -> None:
    path = str(reports / "ncu" / "Lashi0812__CudaProgramming__smemTranspose.ncu-rep")
    c = compare(side(path, "transposeSmem$"), side(path, "transposeSmemPad"))
    assert rows.headline(c, ENGLISH).startswith("No difference: 145 µs → 144 µs of GPU time (±10 %)")
    lines = rows.why_lines(c, c.groups[0], ENGLISH)
    assert lines[:2] == [
        "transposeSmemPad: no gain.",
        "Gone: shared-memory bank conflicts (Bank conflict factor 8.5 → 1). That gained nothing, because main memory"
        " (DRAM) is what holds it all along (86 % → 90 % busy).",
    ]


def test_another_gpu_is_said_with_what_it_has(reports: Path) -> None:
    stem = "AlpriElse__cs599k__2025-04-21"
    c = compare(*(side(str(reports / "ncu" / f"{stem}-{name}.ncu-rep")) for name in ("77_06-MT", "v1")))
    assert set(marks(c).values()) == {"unknown"}
    assert rows.headline(c, ENGLISH) == "Cannot tell which is faster: nothing could be paired"
    said = "\n".join(rows.cautions(c, ENGLISH))
    assert "NVIDIA H100 PCIe has what NVIDIA A100-SXM4-40GB has not: FP8 on the tensor cores" in said
    assert "(TMA)" in said
    assert "(wgmma)" in said
    # The report's L2 sizes: 41,943,040 B and 52,428,800 B.
    assert "L2 cache 41.9 MB → 52.4 MB" in said
    assert "DRAM 1.56 TB/s → 2.04 TB/s" in said
    gone, added = (rows.why_lines(c, group, ENGLISH) for group in c.groups)
    # Both were collected with ncu -k.
    assert gone == ["silu_kernel: in the base report alone. Launches were left out on purpose, so it need not be gone."]
    assert added[0].startswith("rms_norm_vector_kernel_float4: in the new report alone.")


def test_slower_is_not_called_faster(reports: Path) -> None:
    stem = "armleth__cuda-mlp-inference__report"
    c = compare(*(side(str(reports / "ncu" / f"{stem}{name}.ncu-rep")) for name in ("", "_v4_8_per_thread")))
    # 151,328 ns / 52,576 ns.
    assert rows.headline(c, ENGLISH) == "Slower: 52.6 µs → 151 µs of GPU time, 2.9× as long (±10 %)"
    lines = rows.why_lines(c, c.groups[0], ENGLISH)
    # That DRAM holds it no longer is no cure.
    assert not any(line.startswith(("Cured", "No longer")) for line in lines)
    assert any("scattered stores (Sectors per store 3.97 → 31.2)" in line for line in lines)


# ------------------------------------------------------------------ words for everything


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("id", CAUTIONS)
def test_every_caution_has_words(tiny: Comparison, id: str, language: str) -> None:
    caution = Caution(id, CAUTIONS[id])
    found = rows.caution_lines(replace(tiny, cautions=(caution,)), caution, wording(language))
    assert_filled(*found)


def test_there_are_no_other_texts_for_cautions_and_open_answers() -> None:
    assert set(ENGLISH._table["compare"]["caution"]) == set(CAUTIONS)
    assert set(ENGLISH._table["compare"]["open"]) == set(OPEN)


def test_another_amount_of_work_that_is_not_known_is_no_number(tiny: Comparison) -> None:
    said = rows.caution_lines(tiny, Caution("other-work", {"times": None}), ENGLISH)
    assert said == rows.caution_lines(tiny, Caution("other-work-unknown"), ENGLISH)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("outcome", get_args(Outcome))
@pytest.mark.parametrize("source", ["nvtx", "kernels", "span", None])
def test_every_outcome_has_words(tiny: Comparison, outcome: Outcome, source: Any, language: str) -> None:
    words = wording(language)
    speedup = {"slower": 0.5, "faster": 2.0}.get(outcome, 1.0)
    because = ("noise",) if outcome == "inconclusive" else ()
    for equal in (None, (0.8 * speedup, 1.2 * speedup)):
        for noise in ("passes", "launches", "controls", "assumed"):
            time = TimeChange(1e6, 1e6 / speedup, speedup, 0.9, 1.1, (3, 4), noise, 5.0, outcome, equal, because)  # type: ignore[arg-type]
            c = replace(tiny, cautions=(), time=time)
            if source is not None:
                wall = Wall((1.0,), source)
                c = replace(c, wall=time, base=replace(c.base, wall=wall), new=replace(c.new, wall=wall))
            further = rows.further_lines(c, words)
            assert_filled(rows.headline(c, words), *further)
            # The GPU's time beside the program's, or that a timeline tells the latter; then where the bounds come from.
            assert len(further) == (1 if source is None and outcome == "inconclusive" else 2)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reason", sorted(OPEN))
def test_every_reason_has_words(tiny: Comparison, reason: str, language: str) -> None:
    words = wording(language)
    untimed = replace(tiny.time, before_ns=None, after_ns=None, outcome="inconclusive", because=(reason,))
    c = replace(tiny, time=untimed, tensor=Change("unknown", None, None, reason))
    row = rows.answers(c, words)[0]
    assert row.mark == "unknown"
    assert_filled(rows.headline(c, words), row.title, row.note)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_trend_has_words(tiny: Comparison, language: str) -> None:
    words = wording(language)
    for trend, after in (("up", 20.0), ("up", 11.0), ("down", 4.0), ("down", 9.0), ("same", 10.0), ("down", 0.0)):
        change = Change(trend, 10.0, after)  # type: ignore[arg-type]
        for row in rows.answers(replace(tiny, tensor=change, dram=change), words):
            assert_filled(row.title, row.numbers)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("fusion", get_args(Fusion))
def test_every_kind_of_fusion_has_words(tiny: Comparison, fusion: Fusion, language: str) -> None:
    row = rows.answers(replace(tiny, fusion=fusion), wording(language))[2]
    assert_filled(row.title, row.numbers)
    assert row.mark == {"fused": "yes", "unknown": "unknown"}.get(fusion, "no")


def test_a_fusion_that_is_not_sure_is_no_reason() -> None:
    c = sample("eager", "sdpa")
    group = replace(c.groups[0], sureness=0.4)
    note = rows.answers(replace(c, groups=(group,)), ENGLISH)[2].note
    assert note.endswith("copy (not sure: check that it does the same)")
    lines = rows.why_lines(c, group, ENGLISH)
    assert "1 kernel in place of 5: attention scores, mul, softmax, attention values, copy." in lines
    assert not any("on the chip" in line for line in lines)


def test_other_clocks_do_not_matter_where_the_answer_is_open_anyway(tiny: Comparison) -> None:
    time = replace(tiny.time, outcome="inconclusive", at_equal_clocks=(0.5, 2.0), because=("other-gpu",))
    assert "clocks" not in rows.headline(replace(tiny, time=time), ENGLISH)
    assert "0.50× to 2.0× as fast" in rows.headline(replace(tiny, time=replace(time, because=("clocks",))), ENGLISH)


def test_fused_and_split_goes_by_which_is_more(tiny: Comparison) -> None:
    c = replace(tiny, fusion="both", kernels=Change("down", 9.0, 7.0))
    assert marks(c)["kernels"] == "yes"
    assert marks(replace(c, kernels=Change("up", 7.0, 9.0)))["kernels"] == "no"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("how", get_args(How))
def test_every_kind_of_pair_has_words(how: How, language: str) -> None:
    words = wording(language)
    group = sample("eager", "sdpa").groups[0]
    group = replace(group, how=how, sureness=0.5)
    if how == "gone":
        group = replace(group, new=(), time=None)
    elif how == "added":
        group = replace(group, base=(), time=None)
    c = replace(sample("eager", "sdpa"), groups=(group,))
    row = rows.group_rows(c, words)[0]
    assert_filled(rows.became(row, words), *rows.why_lines(c, group, words))
    assert bool(row.sure) == (how not in ("gone", "added"))


def test_how_a_pair_was_made_is_said_where_it_is_not_sure(tiny: Comparison) -> None:
    pair = tiny.groups[0]
    assert rows.pairing(pair, ENGLISH) == ""
    assert rows.pairing(replace(pair, sureness=0.7, how="alike"), ENGLISH).startswith("Paired by likeness")
    by_hand = compare(small("walk"), small("run"), [Pairing(frozenset([pair.base[0].key]), frozenset())])
    assert rows.pairing(replace(by_hand.groups[0], by_hand=True), ENGLISH) == "Paired by hand."


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("id", get_args(VerdictId))
@pytest.mark.parametrize("level", [None, *get_args(Level)])
def test_whatever_holds_a_kernel_has_words(tiny: Comparison, id: VerdictId, level: Level | None, language: str) -> None:
    amounts = replace(tiny.before, verdict=id, level=level, verdict_share=0.5)
    shift = rows.shift(replace(tiny, before=amounts), wording(language))
    assert shift is not None
    assert_filled(shift)
    if id != "unknown":
        for variant in ("default", "issue"):
            key = rows._held(Verdict(id, level, variant))
            assert_filled(wording(language).text(f"compare.held.{key}"))


@pytest.mark.parametrize("words", [wording(language) for language in LANGUAGES])
@pytest.mark.parametrize("capability", [(7, 0), (8, 0), (8, 9), (9, 0), (10, 0)])
def test_every_feature_of_a_gpu_has_words(words: Wording, capability: tuple[int, int]) -> None:
    c = compare(small("walk", device=Device("Old", (6, 0), 50)), small("walk", device=Device("New", capability, 100)))
    found = rows.cautions(c, words)
    assert_filled(*found)
    assert len(found) >= 4


def test_percent_of_each_roof_stands_for_times_of_other_gpus() -> None:
    c = compare(small("walk", device=Device("Old", (8, 0), 50)), small("walk", device=Device("New", (9, 0), 100)))
    assert rows.cautions(c, ENGLISH)[3] == "In percent of each GPU's own limits: SMs 12 % → 12 %, DRAM 78 % → 78 %."
    assert "50 → 100 SMs" in rows.cautions(c, ENGLISH)[2]


# ------------------------------------------------------------------ several comparisons


def test_each_answer_is_of_the_first_comparison_that_tells_it() -> None:
    counters = sample("eager", "sdpa")
    open_ = Change("unknown", None, None, "timeline")
    wall = replace(counters.time, before_ns=10e6, after_ns=8e6, speedup=1.25, noise="passes", samples=(9, 9))
    sides = {
        "base": replace(counters.base, wall=Wall((10e6,), "nvtx")),
        "new": replace(counters.new, wall=Wall((8e6,), "nvtx")),
    }
    timeline = replace(counters, kind="timeline", cautions=(), tensor=open_, dram=open_, wall=wall, **sides)  # type: ignore[arg-type]
    head = rows.head([timeline, counters], ENGLISH)
    assert head.headline == "Faster: 10 ms → 8 ms a step on average, 1.25× (±1.3 %)"
    assert head.further[0] == "Faster: 2.05 ms → 1.04 ms of GPU time, 1.97× (±1.3 %)"
    assert [row.mark for row in head.answers] == ["yes", "yes", "yes"]
    assert head.answers[0].numbers.startswith("32 % → 69 %")
    assert [is_open for _, is_open in head.cautions] == [False]


def test_a_headline_that_tells_goes_before_one_that_does_not(tiny: Comparison) -> None:
    lost = replace(tiny, time=replace(tiny.time, outcome="inconclusive", because=("no-steps",)))
    assert rows.head([lost, tiny], ENGLISH).outcome == "no-difference"
    # That noise could hide it is an answer.
    noisy = replace(tiny, time=replace(tiny.time, outcome="inconclusive", because=("noise",)))
    assert rows.head([noisy, tiny], ENGLISH).outcome == "inconclusive"
    assert rows.head([lost], ENGLISH).outcome == "inconclusive"


def test_cautions_that_leave_an_answer_open_come_first(tiny: Comparison) -> None:
    cautions = (Caution("single-assumed", {"percent": 5.0}), Caution("truncated", {}, frozenset(["kernels"])))
    assert rows.cautions(replace(tiny, cautions=cautions), ENGLISH)[0].startswith("A report breaks off")


def test_work_that_a_fusion_moved_elsewhere_is_told_with_it() -> None:
    """The fused norm does not store the sum, which the last kernel then forms again: 17.6 MB saved, 18.0 MB spent."""
    c = sample("eager", "compile")
    norm = next(group for group in c.fused if len(group.base) == 2)
    assert norm.before.dram_bytes - norm.after.dram_bytes == pytest.approx(17.6e6, rel=0.01)  # type: ignore[operator]
    (line,) = [line for line in rows.why_lines(c, norm, ENGLISH) if line.startswith("But ")]
    assert line.startswith("But triton_poi_fused_add_view_3 moves more now (DRAM 37.4 MB → 55.4 MB)")
    attention = c.groups[0]
    assert not any(line.startswith("But ") for line in rows.why_lines(c, attention, ENGLISH))


def test_another_type_of_numbers_is_said() -> None:
    tf32 = [side(str(SAMPLES / f"tf32_{name}.ncu-rep")) for name in ("off", "on")]
    c = compare(*tf32)
    lines = rows.why_lines(c, c.groups[0], ENGLISH)
    assert lines[1].startswith("The numbers are TF32 now, not FP32")


def test_what_a_partial_report_lacks_is_not_called_gone(tiny: Comparison) -> None:
    c = sample("eager", "sdpa")
    group = replace(c.groups[0], new=(), time=None, how="gone")
    part = replace(c, groups=(group,), base=replace(c.base, is_part=True))
    assert rows.group_rows(part, ENGLISH)[0].how == "in the base report alone"
    assert "Launches were left out on purpose" in rows.why_lines(part, group, ENGLISH)[0]
    assert rows.group_rows(replace(c, groups=(group,)), ENGLISH)[0].how == "gone"


def test_what_one_report_could_not_check_is_neither_new_nor_cured(reports: Path) -> None:
    """The first report of this pair tells no occupancy: that the block size limits it may have been so before."""
    stem = "2388612861__GPU-DEMO__ncu_report"
    paths = [str(reports / "ncu" / f"{stem}{name}.ncu-rep") for name in ("", "_optimized")]
    for base, new in (paths, paths[::-1]):
        c = compare(side(base), side(new))
        told = [why(group) for group in c.groups if group.time is not None]
        assert {one.variant for one in told} == {"unknown"}
        assert [(one.cured, one.appeared) for one in told] == [((), ())] * len(told)
    found = {finding.id for one in side(paths[1], "^transposeMatrix$").members for finding in one.diagnoses[0].findings}
    assert "occupancy-block-size" in found


def test_the_bottleneck_of_other_work_has_not_moved(reports: Path) -> None:
    stem = "AveryClapp__ESMM-Research__"
    c = compare(
        *(side(str(reports / "ncu" / f"{stem}{name}.ncu-rep")) for name in ("be34af6_profile", "profile_output"))
    )
    assert c.cautions[0].id == "little-paired"
    assert rows.shift(c, ENGLISH) is None
