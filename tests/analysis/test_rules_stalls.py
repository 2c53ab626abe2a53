"""The stalls: the gate, the bound worked out by hand, the sampled form, and by which kernels they stay silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from built import DEVICE, make_kernel, memory_parts, metrics_of, sm_parts
from gputui.analysis.engine import Diagnosis, diagnose
from gputui.analysis.facts import OPCODES
from gputui.analysis.finding import Finding
from gputui.analysis.rules import all_rules
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric
from views.fakes import FakeSource

Numbers = Mapping[str, Any]

WAITING: Numbers = {
    "duration": 1e6, "grid_size": 1000.0, "block_size": 256.0, "sm_count": 100.0, "sm_pct": 20.0, "memory_pct": 25.0,
}  # fmt: skip
"""A latency-bound kernel: with the same work it gains at most 100 / 25 = 4 times."""

B200 = Device("NVIDIA B200", (10, 0), 148)

REASONS = {
    "stall-long-scoreboard": "long_scoreboard",
    "stall-short-scoreboard": "short_scoreboard",
    "stall-barrier": "barrier",
    "stall-lg-throttle": "lg_throttle",
    "stall-mio-throttle": "mio_throttle",
    "stall-tex-throttle": "tex_throttle",
    "stall-math-pipe": "math_pipe_throttle",
    "stall-wait": "wait",
    "stall-no-instruction": "no_instruction",
    "stall-branch": "branch_resolving",
    "stall-membar": "membar",
    "stall-drain": "drain",
    "stall-sleeping": "sleeping",
    "stall-imc-miss": "imc_miss",
    "stall-gmma": "gmma",
}
NAMED = ("stall-barrier", "stall-membar", "stall-sleeping", "stall-gmma")
NEW = [id for id in REASONS if id not in ("stall-long-scoreboard", "stall-barrier")]
QUEUES = ["stall-lg-throttle", "stall-mio-throttle", "stall-tex-throttle", "stall-math-pipe"]


def kernel(
    values: Numbers, opcodes: Mapping[str, float] | None = None, name: str = "kernel", device: Device = DEVICE
) -> Kernel:
    if opcodes is None:
        return make_kernel(values, name, device=device)
    row = {**metrics_of(values), OPCODES: Metric(OPCODES, sum(opcodes.values()), "inst", opcodes)}
    return Kernel(0, name, name, device, FakeSource([row]), grid=(int(values["grid_size"]), 1, 1))


def see(values: Numbers, **options: Any) -> Diagnosis:
    return diagnose(kernel(values, **options))


def find(id: str, values: Numbers, **options: Any) -> Finding | None:
    return next((found for found in see(values, **options).findings if found.id == id), None)


def tensor(id: str) -> dict[str, float]:
    """Only kernels with warp-group products wait for them."""
    return {"tensor_type_pct": 5.0, "tensor_pct": 5.0} if id == "stall-gmma" else {}


def stalled(id: str, cycles: float = 6.0, **other: float) -> Numbers:
    values = {**WAITING, f"stall_{REASONS[id]}": cycles, "warp_latency": 10.0, "issue_active": 0.2}
    return {**values, **tensor(id), **other}


def sampled(id: str, samples: float = 600.0, total: float = 1000.0, **other: float) -> Numbers:
    values = {
        **WAITING, f"pcsamp_{REASONS[id]}": samples, "pcsamp_samples": total, "pcsamp_selected": 50.0,
        "sm_issue_active_elapsed_pct": 20.0,
    }  # fmt: skip
    return {**values, **tensor(id), **other}


def test_every_reason_that_can_be_acted_on_has_a_rule() -> None:
    rules = {id for id, rule in all_rules().items() if rule.family == "stalls"}
    assert rules == {*REASONS, "issue-slots"}


@pytest.mark.parametrize("id", REASONS)
def test_a_wait_gains_at_most_its_share(id: str) -> None:
    found = find(id, stalled(id))
    assert found is not None
    # 6 of 10 cycles go; the issue slots allow 1 / 0.2 and the busiest unit 100 / 25.
    assert found.max_speedup == pytest.approx(10 / 4)
    assert found.params["share_pct"] == pytest.approx(60)
    assert found.params["issue_pct"] == pytest.approx(20)
    assert [item.threshold for item in found.evidence] == [pytest.approx(0.3 * 10), None, 0.8]
    assert (found.confidence, found.variant) == (0.55 if id in NAMED else 0.45, "")


@pytest.mark.parametrize("id", REASONS)
@pytest.mark.parametrize(
    "other",
    [
        {"issue_active": 0.8},
        {"warp_latency": 20.0},  # 6 of 20 cycles: not over 30 %.
        {"sm_pct": 60.0},
        {"memory_pct": 60.0},
        {"duration": 4999.0},
        {"tensor_type_pct": 50.0, "tensor_pct": 50.0},
    ],
)
def test_no_stall(id: str, other: dict[str, float]) -> None:
    assert find(id, stalled(id, **other)) is None


@pytest.mark.parametrize("id", [id for id in REASONS if id not in (*QUEUES, "stall-membar", "stall-branch")])
def test_the_same_work_bounds_a_wait(id: str) -> None:
    for other, expected in (({"issue_active": 0.5}, 1 / 0.5), ({"memory_pct": 50.0}, 100 / 50)):
        found = find(id, stalled(id, **other))
        assert found is not None
        assert found.max_speedup == expected


@pytest.mark.parametrize("id", ["stall-long-scoreboard", "stall-short-scoreboard"])
def test_more_independent_work_hides_the_fixed_latency_too(id: str) -> None:
    found = find(id, stalled(id, 4.0, stall_wait=2.0))
    assert found is not None
    # 4 + 2 of 10 cycles.
    assert found.max_speedup == pytest.approx(10 / 4)
    assert find("stall-barrier", stalled("stall-barrier", 4.0, stall_wait=2.0)).max_speedup == (  # type: ignore[union-attr]
        pytest.approx(10 / 6)
    )


@pytest.mark.parametrize("id", QUEUES)
def test_fewer_instructions_relieve_the_unit_that_is_queued_for(id: str) -> None:
    # The queued-for unit is the busiest (55 %) and the issue slots are half full: neither stays with fewer
    # instructions. DRAM's 30 % stay.
    part = "pipe_fma_cycles_active" if id == "stall-math-pipe" else "inst_executed_pipe_lsu"
    busy = {**sm_parts(**{part: 55.0, "issue_active": 50.0}), **memory_parts(dram__cycles_active=30.0)}
    found = find(id, {**stalled(id, 9.0, issue_active=0.5, sm_pct=55.0), **busy})
    assert found is not None
    assert found.max_speedup == pytest.approx(100 / 30)


def test_a_jump_takes_its_slots_and_the_fetch_behind_it_along() -> None:
    # 4 of 10 cycles at jumps, 3 of fixed latency, 1 of fetching; neither the jump unit (40 %) nor the slots stay.
    busy = sm_parts(inst_executed_pipe_cbu_pred_on_any=40.0, issue_active=38.0, pipe_fma_cycles_active=12.0)
    waits = stalled("stall-branch", 4.0, issue_active=0.4, sm_pct=40.0, stall_wait=3.0, stall_no_instruction=1.0)
    found = find("stall-branch", {**waits, **busy})
    assert found is not None
    assert found.max_speedup == pytest.approx(10 / 2)
    found = find("stall-branch", {**waits, **busy, **sm_parts(pipe_fma_cycles_active=25.0)})
    assert found is not None
    assert found.max_speedup == pytest.approx(100 / 25)


def test_a_barrier_takes_its_own_instructions_along() -> None:
    # The barriers' unit is the busiest (55 %), the next one 30 %; the slots allow 1 / 0.4.
    busy = sm_parts(inst_executed_pipe_adu=55.0, pipe_alu_cycles_active=30.0)
    waits = stalled("stall-barrier", 9.0, sm_pct=55.0, issue_active=0.4)
    found = find("stall-barrier", {**waits, **busy})
    assert found is not None
    assert found.max_speedup == pytest.approx(1 / 0.4)
    found = find("stall-barrier", {**waits, **busy, "issue_active": 0.2})
    assert found is not None
    assert found.max_speedup == pytest.approx(100 / 30)


def test_a_fence_takes_its_own_traffic_along() -> None:
    # The L2 throughput (20 %) holds the fences' traffic; of its listed parts none is over 15 %.
    parts = memory_parts(lts__xbar2lts_cycles_active=15.0)
    found = find("stall-membar", {**stalled("stall-membar", 9.3, memory_pct=20.0, sm_pct=6.0), **parts})
    assert found is not None
    assert found.max_speedup == pytest.approx(100 / 15)


@pytest.mark.parametrize("id", REASONS)
def test_samples_are_less_sure(id: str) -> None:
    found = find(id, sampled(id))
    assert found is not None
    # 600 of 1000 samples; issue slots 20 %, busiest unit 25 %.
    assert found.max_speedup == pytest.approx(1 / 0.4)
    assert (found.confidence, found.variant) == (0.45 if id in NAMED else 0.35, "sampled")
    assert [(item.value, item.threshold) for item in found.evidence] == [(600.0, 300.0), (20.0, 80.0)]


@pytest.mark.parametrize(
    ("samples", "total", "hit"), [(300.0, 1000.0, False), (301.0, 1000.0, True), (150.0, 199.0, False)]
)
def test_samples_must_be_many_and_over_the_line(samples: float, total: float, hit: bool) -> None:
    assert (find("stall-drain", sampled("stall-drain", samples, total)) is not None) is hit


def test_the_counters_come_before_the_samples() -> None:
    both = {**sampled("stall-drain", 900.0), **stalled("stall-drain", 5.0)}
    found = find("stall-drain", both)
    assert found is not None
    assert found.params["share_pct"] == pytest.approx(50)


def test_old_reports_hold_no_total_of_samples() -> None:
    values = {**sampled("stall-drain"), "pcsamp_wait": 150.0, "pcsamp_not_selected": 200.0}
    found = find("stall-drain", {key: value for key, value in values.items() if key != "pcsamp_samples"})
    assert found is not None
    # 600 of 600 + 150 + 200 + 50 (selected).
    assert found.params["share_pct"] == pytest.approx(60)


@pytest.mark.parametrize(("metric", "id"), [
    ("smsp__pcsamp_warps_issue_stalled_no_instructions", "stall-no-instruction"),
    ("smsp__pcsamp_warps_issue_stalled_warpgroup_arrive", "stall-gmma"),
    ("smsp__pcsamp_warp_stall_drain", "stall-drain"),
])  # fmt: skip
def test_the_samples_have_names_of_their_own(metric: str, id: str) -> None:
    values = {**sampled(id, 0.0), metric: 600.0}
    del values[f"pcsamp_{REASONS[id]}"]
    found = find(id, values)
    assert found is not None
    assert found.evidence[0].metric == metric


@pytest.mark.parametrize("id", NAMED)
def test_a_wait_that_the_code_names_is_surer_from_half_of_the_time_on(id: str) -> None:
    for cycles, confidence in ((4.9, 0.45), (5.0, 0.55)):
        found = find(id, stalled(id, cycles))
        assert found is not None
        assert found.confidence == confidence


# -------------
# Which is told
# -------------


def test_the_larger_wait_leads_and_a_third_is_not_told() -> None:
    # The busiest unit bounds all three alike, so only the order of the shares can decide.
    three = {**stalled("stall-drain", 3.5), "stall_membar": 3.2, "stall_barrier": 3.1, "memory_pct": 80.0 * 0.7}
    told = [found.id for found in see({**three, "issue_active": 0.7}).findings]
    assert told == ["stall-drain", "stall-membar"]


@pytest.mark.parametrize(
    ("cause", "stalls"),
    [
        ("small-grid", set(REASONS)),
        ("few-blocks", {"stall-barrier"}),
        ("bank-conflicts", {"stall-short-scoreboard", "stall-mio-throttle"}),
        ("register-spill", {"stall-long-scoreboard", "stall-lg-throttle"}),
        ("uncoalesced-load", {"stall-long-scoreboard", "stall-lg-throttle"}),
        ("uncoalesced-store", {"stall-lg-throttle", "stall-drain"}),
        ("thread-divergence", {"stall-branch", "stall-no-instruction"}),
        ("occupancy-registers", {"stall-long-scoreboard", "stall-short-scoreboard", "stall-wait"}),
        ("fp64-on-slow-part", {"stall-math-pipe"}),
    ],
)
def test_which_patterns_explain_which_waits(cause: str, stalls: set[str]) -> None:
    assert stalls <= set(all_rules()[cause].effects)


@pytest.mark.parametrize("id", REASONS)
def test_a_wait_explains_the_idle_issue_slots(id: str) -> None:
    assert see(stalled(id)).explained["issue-slots"] == id


def test_with_too_few_blocks_a_wait_is_their_effect_unless_they_cost_little() -> None:
    few = see({**stalled("stall-long-scoreboard"), "grid_size": 50.0})
    assert few.verdict.id == "launch-bound"
    assert few.explained["stall-long-scoreboard"] == "small-grid"
    # 96 of 100 SMs at work: 1.04 times is no cause.
    nearly = see({**stalled("stall-long-scoreboard"), "grid_size": 96.0})
    assert nearly.findings[0].id == "stall-long-scoreboard"
    assert "stall-long-scoreboard" not in nearly.explained


# ------
# Silent
# ------

WARP_SPECIALISED = {"HGMMA": 1000.0, "UTMALDG": 50.0, "SYNCS": 900.0}


@pytest.mark.parametrize("id", [id for id in REASONS if id != "stall-gmma"])
def test_the_producers_of_a_warp_specialised_product_wait_by_design(id: str) -> None:
    quiet = see(stalled(id, tensor_pct=20.0, tensor_type_pct=20.0), opcodes=WARP_SPECIALISED)
    assert id not in {found.id for found in quiet.findings}
    assert id not in {rule.id for rule in quiet.not_checked}
    if id != "stall-barrier":  # In any product by warp groups that is the wait for the product.
        assert find(id, stalled(id), opcodes={"HGMMA": 1000.0, "LDG": 50.0}) is not None


def test_the_wait_for_a_warp_group_shows_as_a_barrier() -> None:
    # As counted on an H200: a wgmma loop without a barrier instruction.
    waits = stalled("stall-gmma", 0.5, stall_barrier=7.5)
    found = find("stall-gmma", waits, opcodes={"HGMMA": 1000.0, "WARPGROUP": 2000.0})
    assert found is not None
    assert found.params["share_pct"] == pytest.approx(80)
    assert find("stall-barrier", waits, opcodes={"HGMMA": 1000.0}) is None
    # With barriers in the code too, they cannot be told apart.
    assert find("stall-gmma", waits, opcodes={"HGMMA": 1000.0, "BAR": 10.0}) is None


@pytest.mark.parametrize(
    ("device", "opcodes"),
    [(Device("NVIDIA A100", (8, 0), 108), None), (B200, None), (DEVICE, {"HMMA": 1000.0, "LDG": 10.0})],
)
def test_only_hoppers_warp_group_products_are_asked_for_theirs(device: Device, opcodes: Numbers | None) -> None:
    quiet = see({**WAITING, **tensor("stall-gmma")}, device=device, opcodes=opcodes)
    assert "stall-gmma" not in {rule.id for rule in quiet.not_checked}
    assert find("stall-gmma", stalled("stall-gmma"), device=device, opcodes=opcodes) is None


def test_blackwell_counts_no_misses_of_constants() -> None:
    assert "stall-imc-miss" not in {rule.id for rule in see(WAITING, device=B200).not_checked}
    assert "stall-imc-miss" in {rule.id for rule in see(WAITING).not_checked}


@pytest.mark.parametrize("id", REASONS)
def test_communication_waits_by_design(id: str) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    assert find(id, stalled(id), name=name) is None
    assert id not in {rule.id for rule in see(WAITING, name=name).not_checked}


@pytest.mark.parametrize("name", ["gemm_stream_k_kernel", "cutlass_Kernel_StreamK"])
@pytest.mark.parametrize("id", ["stall-membar", "stall-sleeping"])
def test_stream_k_waits_for_its_neighbours_by_design(id: str, name: str) -> None:
    assert find(id, stalled(id), name=name) is None
    assert find("stall-drain", stalled("stall-drain"), name=name) is not None


@pytest.mark.parametrize(("tensor_pct", "hit"), [(29.0, True), (30.0, False)])
def test_a_queue_for_the_tensor_cores_is_healthy(tensor_pct: float, hit: bool) -> None:
    busy = stalled("stall-math-pipe", tensor_pct=tensor_pct, tensor_type_pct=tensor_pct)
    assert (find("stall-math-pipe", busy) is not None) is hit


@pytest.mark.parametrize("other", [{"memory_pct": 80.0}, {"sm_pct": 70.0}, {"duration": 2000.0}])
def test_a_kernel_that_does_not_wait_is_not_told_to_be_collected_again_for_it(other: Numbers) -> None:
    asked = {rule.id for rule in see(WAITING).not_checked}
    assert {*REASONS, "issue-slots"} - asked == {"stall-gmma"}
    assert not asked & set(REASONS) & {rule.id for rule in see({**WAITING, **other}).not_checked}


@pytest.mark.parametrize("id", NEW)
@pytest.mark.parametrize("without", ["wait", "latency", "issue"])
def test_not_checked(id: str, without: str) -> None:
    gone = {"wait": f"stall_{REASONS[id]}", "latency": "warp_latency", "issue": "issue_active"}[without]
    seen = see({key: value for key, value in stalled(id).items() if key != gone})
    told = next(rule for rule in seen.not_checked if rule.id == id)
    assert told.needs == (gone,)
    assert told.sections == ("SchedulerStats" if without == "issue" else "WarpStateStats",)


def test_barriers_that_fill_their_own_unit_are_told() -> None:
    held = {
        **WAITING, "sm_pct": 87.0, "warp_latency": 20.0, "stall_barrier": 10.0, "issue_active": 0.45,
        "opcode_total": {"BAR": 1000.0, "LDS": 3000.0}, **sm_parts(inst_executed_pipe_adu=87, issue_active=45),
    }  # fmt: skip
    seen = diagnose(make_kernel(held))
    assert (seen.verdict.id, seen.verdict.variant) == ("compute-bound", "adu")
    assert [one.id for one in seen.main] == ["stall-barrier"]
    assert seen.explained["compute-roof"] == "stall-barrier"
    # Half of the wait goes, and the unit's own work with it; the issue slots keep theirs.
    assert seen.main[0].max_speedup == pytest.approx(min(2.0, 100 / 45))
    without = {**held, "opcode_total": {"LDS": 4000.0}}
    assert "stall-barrier" not in [one.id for one in diagnose(make_kernel(without)).findings]
