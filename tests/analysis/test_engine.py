"""The engine: the order of findings, what explains what, what a roof hides, and how the reading is done."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict

import pytest

from built import make_kernel, make_report, memory_parts, sm_parts
from gputui.analysis.engine import diagnose, diagnose_all, diagnoser, needed_names, prepare, rank
from gputui.analysis.facts import Facts
from gputui.analysis.finding import Finding
from gputui.analysis.rules import all_rules
from gputui.model.metrics import dictionary
from gputui.model.report import Session
from views.fakes import FakeSource


def finding(id: str, gain: float | None, confidence: float = 1.0, effects: tuple[str, ...] = ()) -> Finding:
    return Finding(id, "memory", confidence, gain, effects=effects)


def ids(*findings: Finding) -> list[str]:
    return [found.id for found in rank(findings)[0]]


# -----
# Order
# -----


def test_the_score_is_the_share_of_time_times_the_confidence() -> None:
    assert finding("a", 2.0, 0.8).score == (1 - 1 / 2) * 0.8
    assert finding("a", None, 0.8).score == 0
    assert finding("a", 1.0, 0.8).score == 0


@pytest.mark.parametrize(
    ("gain", "severity"),
    [
        *((None, "info"), (1.0, "info"), (1.049, "info")),
        *((1.05, "low"), (1.149, "low"), (1.15, "medium"), (1.499, "medium"), (1.5, "high"), (100.0, "high")),
    ],
)
def test_severity(gain: float | None, severity: str) -> None:
    assert finding("a", gain).severity == severity


def test_the_largest_score_comes_first() -> None:
    sure, vague = finding("sure", 2.0, 0.9), finding("vague", 4.0, 0.5)  # 0.45 and 0.375.
    assert ids(vague, sure) == ["sure", "vague"]


def test_at_one_score_the_severity_decides_then_the_id() -> None:
    high, medium = finding("z", 2.0, 0.25), finding("a", 4 / 3, 0.5)
    assert high.score == medium.score == 0.125
    assert ids(medium, high) == ["z", "a"]
    assert ids(finding("b", None), finding("a", 1.0)) == ["a", "b"]


def test_no_bound_counts_as_no_gain() -> None:
    assert ids(finding("a", None), finding("b", 1.05, 0.1)) == ["b", "a"]


def test_a_cause_comes_before_its_effects_though_they_score_higher() -> None:
    cause, effect, other = finding("cause", 1.5, effects=("effect",)), finding("effect", 4.0), finding("other", 1.2)
    order, explained = rank([effect, other, cause])
    assert [found.id for found in order] == ["cause", "other", "effect"]
    assert explained == {"effect": "cause"}


def test_an_effect_that_is_not_there_is_not_explained() -> None:
    assert rank([finding("cause", 2.0, effects=("absent",))])[1] == {}


def test_the_first_cause_explains() -> None:
    strong, weak = finding("strong", 3.0, effects=("effect",)), finding("weak", 1.5, effects=("effect",))
    assert rank([weak, strong, finding("effect", 2.0)])[1] == {"effect": "strong"}


def test_effects_of_effects() -> None:
    chain = [finding("a", 3.0, effects=("b",)), finding("b", 2.0, effects=("c",)), finding("c", 1.5)]
    order, explained = rank(chain)
    assert [found.id for found in order] == ["a", "b", "c"]
    assert explained["b"] == "a"


def test_a_finding_without_gain_explains_none_that_has_one() -> None:
    # Half-used loads of a waiting kernel that cost no unit any time are not why it waits.
    idle, wait = finding("uncoalesced-load", 1.0, effects=("stall",)), finding("stall", 2.5)
    assert ids(idle, wait) == ["stall", "uncoalesced-load"]
    assert rank([idle, wait])[1] == {}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_does_not_hang_on_the_rules_order(order: tuple[int, ...]) -> None:
    found = [finding("a", 2.0, effects=("d",)), finding("b", 3.0), finding("c", None), finding("d", 9.0)]
    assert ids(*(found[place] for place in order)) == ["b", "a", "c", "d"]


def test_effects_are_rules_or_known_ids_and_never_go_round() -> None:
    rules = all_rules()
    effects = {id: {effect for effect in rule.effects if effect in rules} for id, rule in rules.items()}

    def reach(id: str, seen: frozenset[str]) -> None:
        assert id not in seen, f"{id} explains itself"
        for effect in effects[id]:
            reach(effect, seen | {id})

    for id in rules:
        reach(id, frozenset())


# ------------
# One kernel's
# ------------

COPY = {
    "duration": 1e6, "grid_size": 1000.0, "block_size": 256.0, "sm_count": 100.0, "sm_pct": 15.0, "memory_pct": 88.0,
    "dram_pct": 88.0, "l2_pct": 40.0, "issue_active": 0.1, "eligible_warps": 0.1, "theoretical_occupancy_pct": 50.0,
    "limit_registers": 2.0, "registers_per_thread": 128.0,
}  # fmt: skip
WAITING = {**COPY, "memory_pct": 30.0, "dram_pct": 30.0, "l2_pct": 25.0}


def test_at_its_roof_a_kernel_gets_no_advice_on_occupancy_or_stalls() -> None:
    seen = diagnose(make_kernel(COPY))
    assert seen.verdict.at_roof
    assert [found.id for found in seen.findings] == ["dram-bandwidth"]
    assert {"occupancy-registers", "issue-slots"} <= {found.id for found in diagnose(make_kernel(WAITING)).findings}


def test_occupancy_hides_even_where_schedulers_starve_at_the_roof() -> None:
    # Held by multiply-add at 85 %: the rule would speak (few ready warps), the roof does not let it.
    fma = {**COPY, "sm_pct": 85.0, "memory_pct": 20.0, "dram_pct": 20.0, **sm_parts(pipe_fma_cycles_active=85)}
    seen = diagnose(make_kernel(fma))
    assert seen.verdict.at_roof
    assert {found.family for found in seen.findings} <= {"compute"}


def test_waste_that_the_roof_hides_is_named_and_no_advice() -> None:
    conflicts = {"shared_load_conflicts": 500.0, "shared_load_wavefronts": 1000.0}
    seen = diagnose(make_kernel({**COPY, **conflicts}))
    assert seen.verdict.at_roof
    assert (seen.main, seen.effects) == ((), ())
    assert [(found.id, found.severity) for found in seen.further] == [("bank-conflicts", "info")]


def test_validity_stands_apart() -> None:
    seen = diagnose(make_kernel(WAITING))
    assert {found.id for found in seen.validity} == {"missing-metrics", "single-launch"}
    assert all(found.family != "validity" for found in seen.findings)


def test_what_was_not_checked_names_the_section() -> None:
    seen = diagnose(make_kernel({"duration": 1e6, "sm_pct": 20.0, "memory_pct": 25.0}))
    told = {rule.id: rule for rule in seen.not_checked}
    assert told["stall-long-scoreboard"].needs == ("stall_long_scoreboard", "warp_latency", "issue_active")
    assert told["stall-long-scoreboard"].sections == ("WarpStateStats", "SchedulerStats")
    assert "dram-bandwidth" in told


def test_each_rule_is_checked_or_not_checked_or_silent_and_never_two_of_it() -> None:
    for values in ({}, {"duration": 1e6}, COPY, WAITING):
        seen = diagnose(make_kernel(values))
        found = [finding.id for finding in (*seen.findings, *seen.validity)]
        missing = [rule.id for rule in seen.not_checked]
        assert len(found) == len(set(found))
        assert not set(found) & set(missing)
        assert set(found) | set(missing) <= set(all_rules())


def test_nothing_known_is_unknown() -> None:
    nothing = make_kernel({})
    seen = diagnose(nothing)
    assert (seen.verdict.id, seen.verdict.level, seen.findings) == ("unknown", None, ())
    assert {found.id for found in seen.validity} == {"missing-metrics", "single-launch"}
    asked = [rule.id for rule in all_rules().values() if rule.needs and rule.applies(Facts(nothing))]
    assert [rule.id for rule in seen.not_checked] == asked


def test_a_question_that_makes_no_sense_is_not_told_as_unchecked() -> None:
    for name, asked in (("sgemm", True), ("walk", False)):
        told = {rule.id for rule in diagnose(make_kernel({}, name)).not_checked}
        assert ("tensor-cores-unused" in told) is asked


def test_gauges() -> None:
    told = {"achieved_occupancy_pct": 40.0, "threads_per_inst": 24.0, "dram_bytes": 1e9, "dram_bytes_per_s": 1e12}
    gauges = diagnose(make_kernel({**COPY, **told, "tensor_pct": 3.0, "tensor_ops_bf16": 0.0})).gauges
    assert (gauges.sm_pct, gauges.memory_pct, gauges.dram_pct, gauges.l2_pct, gauges.l1_pct) == (15, 88, 88, 40, None)
    assert gauges.tensor_pct == 0.0
    assert gauges.warp_execution_efficiency_pct == 24 / 32 * 100
    assert gauges.achieved_occupancy_pct == 40
    assert (gauges.dram_bytes, gauges.dram_bytes_per_s) == (1e9, 1e12)


# --------
# A report
# --------


def test_launches_of_one_function_and_shape_are_counted_together() -> None:
    rows = [WAITING, WAITING, {**WAITING, "block_size": 512.0}, WAITING]
    report = make_report(rows, ["add", "add", "add", "mul"])
    single = ["single-launch" in {found.id for found in seen.validity} for seen in diagnose_all(report)]
    assert single == [False, False, True, True]


def test_overloads_are_functions_of_their_own() -> None:
    report = make_report([WAITING] * 2, ["add", "add"], ["void add<float>(float *)", "void add<double>(double *)"])
    assert all("single-launch" in {found.id for found in seen.validity} for seen in diagnose_all(report))


def test_how_the_caches_were_kept_comes_from_the_session() -> None:
    cold = {**WAITING, "dram_bytes": 1e6, "device_l2_bytes": 40e6}
    for control, told in (("none", False), ("all", True), (None, True)):
        report = make_report([cold], session=Session(cache_control=control))
        assert ("cold-cache" in {found.id for found in diagnose_all(report)[0].validity}) is told


def test_a_clock_that_ncu_left_alone_is_not_said_to_be_locked() -> None:
    slow = {**WAITING, "sm_clock": 1e9, "device_clock_khz": 2e6}
    left, locked = (
        {
            found.id: found
            for found in diagnose_all(make_report([slow], session=Session(clock_control=control)))[0].validity
        }
        for control in ("none", "base")
    )
    # Its advice is to collect with --clock-control none.
    assert "clock-locked" in locked
    assert "clock-locked" not in left or left["clock-locked"].variant != locked["clock-locked"].variant


def fetches(values: dict[str, object]) -> tuple[int, int]:
    """How often a report of three such kernels is asked by the preparing and by the diagnosing."""
    report = make_report([values] * 3)  # type: ignore[list-item]
    assert isinstance(report.source, FakeSource)
    prepare(report)
    prepared = len(report.source.fetched)
    seen = list(map(diagnoser(report), report.kernels))
    assert len(seen) == 3
    return prepared, len(report.source.fetched) - prepared


GEMM = {**WAITING, "sm_pct": 80.0, "tensor_pct": 1.0, "tensor_ops_bf16": 0.0, "ffma_per_cycle": 9.0, "sm_clock": 1e9}


@pytest.mark.parametrize(
    "values",
    [
        {},
        COPY,
        WAITING,
        GEMM,
        {**COPY, **memory_parts(dram__cycles_active=88, lts__t_sectors=40), **sm_parts(inst_executed_pipe_cbu=15)},
        {**WAITING, **sm_parts(pipe_fp64_cycles_active=70), "pipe_fp64_pct": 70.0, "device_fp64_ratio": 32.0},
        {**WAITING, "warp_latency": 10.0, "stall_barrier": 9.0, "stall_short_scoreboard": 1.0},
        {**WAITING, "shared_load_conflicts": 9.0, "shared_load_wavefronts": 10.0, "local_load_sectors": 9.0},
    ],
)
def test_after_preparing_nothing_more_is_read(values: dict[str, object]) -> None:
    prepared, more = fetches(values)
    assert prepared <= 2
    assert more == 0


def test_a_report_is_read_in_few_round_trips() -> None:
    report = make_report([{**COPY, **sm_parts(inst_executed_pipe_cbu=15)}] * 130)
    assert isinstance(report.source, FakeSource)
    prepare(report)
    # 130 kernels in batches of 64: three for the names, three for the parts that the breakdowns name.
    assert [len(indices) for indices in report.source.fetched] == [64, 64, 2, 64, 64, 2]
    prepare(report)
    assert len(report.source.fetched) == 6


def test_preparing_can_be_stopped() -> None:
    report = make_report([{**COPY, **sm_parts(inst_executed_pipe_cbu=15)}] * 130)
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        told.append((done, total))
        return False

    prepare(report, progress=progress)
    assert told[0] == (64, 130)
    assert report.kernels[0].has_fetched(needed_names())
    assert not report.kernels[64].has_fetched(needed_names())


def test_stopping_stops_the_second_reading_too() -> None:
    report = make_report([{**COPY, **sm_parts(inst_executed_pipe_cbu=15)}] * 130)
    assert isinstance(report.source, FakeSource)
    prepare(report, progress=lambda done, total: False)
    assert len(report.source.fetched) == 1


def test_some_kernels_may_be_prepared_alone() -> None:
    report = make_report([COPY] * 3)
    prepare(report, report.kernels[1:2])
    assert [kernel.has_fetched(needed_names()) for kernel in report.kernels] == [False, True, False]


def test_every_concept_of_the_rules_exists() -> None:
    for rule in all_rules().values():
        assert set(rule.concepts) <= set(dictionary()), rule.id
    assert len(needed_names()) == len(set(needed_names()))


# ----
# Data
# ----


def plain(value: object) -> bool:
    """Whether JSON can hold it as it is."""
    json.dumps(value, allow_nan=False)
    return True


@pytest.mark.parametrize("values", [{}, COPY, WAITING, GEMM])
def test_what_is_said_is_plain_data(values: dict[str, float]) -> None:
    seen = diagnose(make_kernel(values))
    for found in (*seen.findings, *seen.validity):
        assert plain({**asdict(found), "params": dict(found.params)})
        assert 0 < found.confidence <= 1
        assert found.max_speedup is None or (math.isfinite(found.max_speedup) and found.max_speedup >= 1)
        assert found.evidence or found.id in ("missing-metrics", "single-launch")
    assert plain({**asdict(seen.verdict), "params": dict(seen.verdict.params)})
    assert plain(asdict(seen.gauges))
    assert plain(asdict(seen.roofline))
    assert plain(seen.explained)
    assert plain([asdict(rule) for rule in seen.not_checked])
