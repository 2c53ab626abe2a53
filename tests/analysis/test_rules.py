"""Each rule: a kernel that it is made for with the bound worked out by hand, one on the other side of each line, and
"not checked" where the report lacks what the rule needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import compute_kernels
from built import A100, DEVICE, make_kernel, memory_parts, metrics_of, sm_parts
from gputui.analysis.engine import Diagnosis, diagnose
from gputui.analysis.finding import Finding
from gputui.analysis.rules import all_rules
from gputui.model.device import Device
from gputui.model.metrics import dictionary, names_of
from gputui.model.report import Session

Numbers = Mapping[str, Any]

WAITING: Numbers = {
    "duration": 1e6, "grid_size": 1000.0, "block_size": 256.0, "sm_count": 100.0, "sm_pct": 20.0, "memory_pct": 25.0,
}  # fmt: skip
"""A latency-bound kernel: what waits or lacks warps gains at most 100 / 25 = 4 times."""


def see(values: Numbers, name: str = "kernel", device: Device = DEVICE, **options: Any) -> Diagnosis:
    return diagnose(make_kernel(values, name, device=device), **options)


def find(id: str, values: Numbers, name: str = "kernel", device: Device = DEVICE, **options: Any) -> Finding | None:
    seen = see(values, name, device, **options)
    assert id not in {rule.id for rule in seen.not_checked}
    return next((finding for finding in (*seen.findings, *seen.validity) if finding.id == id), None)


def bound(id: str, values: Numbers, name: str = "kernel", device: Device = DEVICE) -> float:
    found = find(id, values, name, device)
    assert found is not None
    assert found.max_speedup is not None
    return found.max_speedup


# --------
# Validity
# --------


def test_missing_metrics_counts_the_groups() -> None:
    found = find("missing-metrics", {"duration": 1e6, "sm_pct": 20.0, "dram_bytes": 1e9})
    assert found is not None
    assert found.params == {"missing": 6 - 2, "total": 6}


def test_missing_metrics_is_silent_where_each_group_has_something() -> None:
    whole = {**WAITING, "dram_bytes": 1e9, "warp_latency": 10.0, "global_store_sectors": 1.0,
             "achieved_occupancy_pct": 50.0, "threads_per_inst": 32.0}  # fmt: skip
    assert find("missing-metrics", whole) is None


@pytest.mark.parametrize(("duration", "hit"), [(4999.0, True), (5000.0, False)])
def test_too_short(duration: float, hit: bool) -> None:
    assert (find("too-short", {**WAITING, "duration": duration}) is not None) is hit


@pytest.mark.parametrize(("clock", "hit"), [(0.899e9, True), (0.9e9, False)])
def test_clock_locked(clock: float, hit: bool) -> None:
    found = find("clock-locked", {**WAITING, "sm_clock": clock, "device_clock_khz": 1e6})
    assert (found is not None) is hit
    if found is not None:
        assert [item.threshold for item in found.evidence] == [0.9 * 1e9, None]


COLD: Numbers = {**WAITING, "dram_bytes": 40e6, "device_l2_bytes": 40e6, "dram_pct": 20.0}


def test_cold_cache() -> None:
    found = find("cold-cache", COLD)
    assert found is not None
    assert found.params == {"moved": 40e6, "l2": 40e6}


@pytest.mark.parametrize("other", [{"dram_bytes": 40.1e6}, {"dram_pct": 19.9}])
def test_no_cold_cache(other: Numbers) -> None:
    assert find("cold-cache", {**COLD, **other}) is None


def test_no_cold_cache_where_ncu_left_the_caches_alone() -> None:
    assert find("cold-cache", COLD, session=Session(cache_control="none")) is None
    assert find("cold-cache", COLD, session=Session(cache_control="all")) is not None


@pytest.mark.parametrize(("pct", "hit"), [(-0.1, True), (0.0, False), (102.0, False), (102.1, True)])
def test_replay_inconsistent(pct: float, hit: bool) -> None:
    found = find("replay-inconsistent", {**WAITING, "l2_hit_pct": pct})
    assert (found is not None) is hit
    if found is not None:
        assert found.evidence[0].value == pct


@pytest.mark.parametrize(("launches", "hit"), [(1, True), (2, False)])
def test_single_launch(launches: int, hit: bool) -> None:
    assert (find("single-launch", WAITING, launches=launches) is not None) is hit


# ------
# Launch
# ------


def test_small_grid_gains_at_most_the_idle_sms() -> None:
    small = {**WAITING, "grid_size": 50.0}
    found = find("small-grid", small)
    assert found is not None
    # 100 SMs for 50 blocks; the busiest unit would allow 100 / 25.
    assert found.max_speedup == 100 / 50
    assert found.params["idle_pct"] == 100 - 50
    assert (found.confidence, found.severity) == (0.85, "high")


def test_small_grid_gains_at_most_what_the_busiest_unit_leaves() -> None:
    assert bound("small-grid", {**WAITING, "grid_size": 1.0, "sm_pct": 40.0}) == 100 / 40


def test_small_grid_gains_the_room_on_the_sms_at_work_too() -> None:
    # 50 blocks fill a tenth of the places for blocks; the busiest unit allows 100 / 8.
    small = {**WAITING, "grid_size": 50.0, "waves": 0.1, "sm_pct": 8.0, "memory_pct": 5.0}
    found = find("small-grid", small)
    assert found is not None
    assert found.max_speedup == 1 / 0.1
    assert (found.params["places"], found.variant) == (500, "roomy")
    # 120 places for 100 SMs: the SMs at work are full but for a fifth.
    found = find("small-grid", {**small, "waves": 50 / 120})
    assert found is not None
    assert found.max_speedup == pytest.approx(120 / 50)
    assert found.variant == ""


def test_small_grid_goes_by_the_listed_parts_of_a_level() -> None:
    # L2's own throughput (10 %) does not fall in step with the time; DRAM's 6 % stay.
    small = {**WAITING, "grid_size": 50.0, "waves": 0.01, "sm_pct": 2.0, "memory_pct": 10.0, "l2_pct": 10.0}
    assert bound("small-grid", {**small, **memory_parts(dram__cycles_active=6.0)}) == pytest.approx(100 / 6)


@pytest.mark.parametrize("other", [{"grid_size": 100.0}, {"sm_pct": 60.0}, {"memory_pct": 60.0}])
def test_no_small_grid(other: Numbers) -> None:
    assert find("small-grid", {**WAITING, "grid_size": 99.0, **other}) is None


def test_small_grid_of_a_short_kernel_is_less_sure() -> None:
    found = find("small-grid", {**WAITING, "grid_size": 50.0, "duration": 2000.0})
    assert found is not None
    assert found.confidence == 0.5


TAIL: Numbers = {**WAITING, "waves": 1.25, "theoretical_occupancy_pct": 50.0, "achieved_occupancy_pct": 39.0}


def test_tail_wave_takes_as_long_as_a_full_one() -> None:
    found = find("tail-wave", TAIL)
    assert found is not None
    # 39 of 50 % of the places are taken. With 25 of 50, two waves' time for the work of 1.25 is the less.
    assert found.max_speedup == pytest.approx(50 / 39)
    assert bound("tail-wave", {**TAIL, "achieved_occupancy_pct": 25.0}) == 2 / 1.25
    assert (found.params["whole"], found.params["part_pct"]) == (1, 25.0)


def test_tail_wave_gains_at_most_what_the_busiest_unit_leaves() -> None:
    assert bound("tail-wave", {**TAIL, "sm_pct": 90.0}) == 100 / 90


@pytest.mark.parametrize(("waves", "hit"), [(0.9, False), (1.0, False), (1.005, False), (4.5, True), (5.5, False)])
def test_tail_wave_needs_one_to_four_full_waves_and_a_part(waves: float, hit: bool) -> None:
    assert (find("tail-wave", {**TAIL, "waves": waves}) is not None) is hit


@pytest.mark.parametrize("other", [{"achieved_occupancy_pct": 40.0}, {"duration": 4000.0}])
def test_no_tail_wave(other: Numbers) -> None:
    # 40 is 0.8 of the theoretical 50.
    assert find("tail-wave", {**TAIL, **other}) is None


def test_tail_wave_counts_the_sms_that_ended() -> None:
    # The SMs at work keep 85 of 100 %, but the average one works for 0.7 of the time: 60 % of the places.
    tail = {**TAIL, "waves": 1.1, "theoretical_occupancy_pct": 100.0, "achieved_occupancy_pct": 85.0}
    uneven = {"sm_cycles_active_avg": 70.0, "sm_cycles_active_max": 100.0}
    assert find("tail-wave", tail) is None
    found = find("tail-wave", {**tail, **uneven})
    assert found is not None
    assert found.max_speedup == pytest.approx(1 / (0.85 * 0.7))
    assert [(item.value, item.threshold) for item in found.evidence] == [(1.1, None), (pytest.approx(85 * 0.7), 80)]
    # A tail leaves the average SM 1.1 / 2 of the longest one's time at least: less is uneven blocks.
    assert find("tail-wave", {**tail, **uneven, "sm_cycles_active_avg": 56.0}) is not None
    assert find("tail-wave", {**tail, **uneven, "sm_cycles_active_avg": 54.0}) is None


@pytest.mark.parametrize(
    ("threads", "used", "confidence"),
    [(33.0, 33 / 64, 0.9), (48.0, 48 / 64, 0.9), (1.0, 1 / 32, 0.9), (95.0, 95 / 96, 0.6)],
)
def test_partial_warp_gains_at_most_its_empty_lanes(threads: float, used: float, confidence: float) -> None:
    held_by_sm = {**WAITING, "block_size": threads, "sm_pct": 90.0, "memory_pct": 1.0}
    found = find("partial-warp", held_by_sm)
    assert found is not None
    # The SM's 90 % shrink to ``used`` of themselves, memory's 1 % stay.
    expected = min(100 / max(90 * used, 1), 1 / used)
    assert found.max_speedup == pytest.approx(expected if 90 * used < 0.98 * 90 else 1.0)
    assert found.confidence == confidence
    assert found.params["wasted_pct"] == pytest.approx(100 * (1 - used))


def test_partial_warp_of_a_kernel_held_by_dram_gains_nothing() -> None:
    assert bound("partial-warp", {**WAITING, "block_size": 48.0, "dram_pct": 80.0, "memory_pct": 80.0}) == 1.0


@pytest.mark.parametrize("threads", [32.0, 64.0, 1024.0])
def test_no_partial_warp(threads: float) -> None:
    assert find("partial-warp", {**WAITING, "block_size": threads}) is None


UNEVEN: Numbers = {
    **WAITING, "sm_cycles_active_avg": 50.0, "sm_cycles_active_max": 100.0, "sm_cycles_active_sum": 5000.0,
    "sm_cycles_elapsed_sum": 10000.0,
}  # fmt: skip


def test_sm_imbalance_gains_what_the_longest_sm_runs_alone() -> None:
    found = find("sm-imbalance", UNEVEN)
    assert found is not None
    # The longest SM is active for 100 of 100 cycles, the average one for 50: half of the time goes.
    assert found.max_speedup == pytest.approx(100 / 50)
    assert found.params["lost_pct"] == pytest.approx(100 - 50)


@pytest.mark.parametrize(
    "other",
    [
        {"sm_cycles_active_avg": 95.0, "sm_cycles_active_sum": 9500.0},  # (1 - 0.95) * 0.95 is under 0.05.
        {"sm_cycles_active_sum": 900.0},  # (1 - 0.5) * 0.09 is too.
        {"grid_size": 99.0},
        {"duration": 4000.0},
    ],
)
def test_no_sm_imbalance(other: Numbers) -> None:
    assert find("sm-imbalance", {**UNEVEN, **other}) is None


@pytest.mark.parametrize(("dram", "expected"), [(80.0, 93 / 80), (90.0, None)])
def test_uneven_sms_gain_what_dram_has_to_spare(dram: float, expected: float | None) -> None:
    held = {**UNEVEN, "sm_pct": 10.0, "memory_pct": dram, "dram_pct": dram, "sm_cycles_active_avg": 70.0}
    found = find("sm-imbalance", held)
    assert (found.max_speedup if found else None) == expected


# ---------
# Occupancy
# ---------

LIMITS: Numbers = {"limit_registers": 4.0, "limit_shared": 4.0, "limit_blocks": 4.0, "limit_warps": 4.0}

OCCUPANCY: Mapping[str, tuple[str, Numbers]] = {
    "occupancy-registers": ("limit_registers", {"registers_per_thread": 128.0}),
    "occupancy-shared-memory": ("limit_shared", {"shared_per_block": 49152.0}),
    "occupancy-block-count": ("limit_blocks", {}),
    "occupancy-block-size": ("limit_warps", {}),
}


def limited_by(id: str, **other: float) -> Numbers:
    limit, more = OCCUPANCY[id]
    return {**WAITING, "theoretical_occupancy_pct": 50.0, **LIMITS, limit: 2.0, **more, **other}


@pytest.mark.parametrize("id", OCCUPANCY)
def test_occupancy_gains_at_most_the_missing_warps(id: str) -> None:
    found = find(id, limited_by(id))
    assert found is not None
    # Twice the warps; the busiest unit would allow 100 / 25.
    assert found.max_speedup == 100 / 50
    assert found.params["blocks"] == 2.0
    assert [item.metric for item in found.evidence] == [
        "sm__maximum_warps_per_active_cycle_pct", dictionary()[OCCUPANCY[id][0]].names[0],
    ]  # fmt: skip


@pytest.mark.parametrize("id", OCCUPANCY)
def test_occupancy_gains_at_most_what_the_busiest_unit_leaves(id: str) -> None:
    assert bound(id, limited_by(id, theoretical_occupancy_pct=10.0, memory_pct=40.0)) == 100 / 40


@pytest.mark.parametrize("id", OCCUPANCY)
@pytest.mark.parametrize(
    "other",
    [
        {"theoretical_occupancy_pct": 70.0},
        {"duration": 4000.0},
        {"memory_pct": 80.0},  # Held by memory: more warps would wait for it too.
        {"tensor_pct": 50.0, "tensor_ops_bf16": 1e9},
    ],
)
def test_no_occupancy(id: str, other: dict[str, float]) -> None:
    assert find(id, limited_by(id, **other)) is None


@pytest.mark.parametrize("id", OCCUPANCY)
def test_only_the_smallest_limit_limits(id: str) -> None:
    raised = {OCCUPANCY[id][0]: 5.0}
    assert find(id, limited_by(id, **raised)) is None


@pytest.mark.parametrize(("fed", "hit"), [((0.6, 1.0), False), ((0.59, 1.0), True), ((0.6, 0.99), True)])
def test_sms_at_work_that_have_enough_to_issue_need_no_more_warps(fed: tuple[float, float], hit: bool) -> None:
    values = limited_by("occupancy-registers", issue_active=fed[0], eligible_warps=fed[1])
    assert (find("occupancy-registers", values) is not None) is hit


def test_occupancy_of_a_busier_kernel_that_lacks_ready_warps() -> None:
    starved = {"sm_pct": 74.0, "issue_active": 0.59, "eligible_warps": 0.9}
    assert bound("occupancy-registers", limited_by("occupancy-registers", **starved)) == 100 / 74
    for fed in ({"issue_active": 0.6}, {"eligible_warps": 1.0}, {"sm_pct": 75.0}):
        assert find("occupancy-registers", limited_by("occupancy-registers", **{**starved, **fed})) is None


def test_no_occupancy_for_a_matrix_product_that_is_busy_enough() -> None:
    starved = {"sm_pct": 60.0, "issue_active": 0.3, "eligible_warps": 0.5}
    assert find("occupancy-registers", limited_by("occupancy-registers", **starved)) is not None
    assert find("occupancy-registers", limited_by("occupancy-registers", **starved), name="sgemm") is None


def test_a_limit_by_barriers_is_not_blamed_on_another() -> None:
    assert find("occupancy-registers", limited_by("occupancy-registers", limit_barriers=1.0)) is None


def test_shared_memory_that_merely_fits_the_blocks_is_no_limit() -> None:
    # The driver divides L1 and shared memory so that what the other limits allow just fits.
    fits = limited_by("occupancy-block-size", limit_shared=2.0, shared_per_block=5248.0)
    assert find("occupancy-block-size", fits) is not None
    assert find("occupancy-shared-memory", fits) is None


GAP: Numbers = {**WAITING, "waves": 4.0, "theoretical_occupancy_pct": 100.0, "achieved_occupancy_pct": 50.0}


def test_occupancy_achieved() -> None:
    assert bound("occupancy-achieved", GAP) == 100 / 50
    assert bound("occupancy-achieved", {**GAP, "achieved_occupancy_pct": 10.0}) == 100 / 25


@pytest.mark.parametrize("other", [{"achieved_occupancy_pct": 90.0}, {"waves": 0.9}, {"memory_pct": 80.0}])
def test_no_occupancy_achieved(other: Numbers) -> None:
    assert find("occupancy-achieved", {**GAP, **other}) is None


# ------
# Stalls
# ------

STALLS = {"stall-long-scoreboard": "stall_long_scoreboard", "stall-barrier": "stall_barrier"}


def stalled(id: str, **other: float) -> Numbers:
    return {**WAITING, STALLS[id]: 6.0, "warp_latency": 10.0, "issue_active": 0.2, **other}


@pytest.mark.parametrize("id", STALLS)
def test_a_stall_gains_at_most_its_share_of_the_wait(id: str) -> None:
    found = find(id, stalled(id))
    assert found is not None
    # 6 of 10 cycles go; the issue slots would allow 1 / 0.2, the busiest unit 100 / 25.
    assert found.max_speedup == pytest.approx(10 / 4)
    assert found.params["share_pct"] == pytest.approx(60)


@pytest.mark.parametrize("id", STALLS)
def test_a_stall_gains_at_most_the_free_issue_slots_and_units(id: str) -> None:
    assert bound(id, stalled(id, issue_active=0.5)) == 1 / 0.5
    assert bound(id, stalled(id, memory_pct=50.0)) == 100 / 50


@pytest.mark.parametrize("id", STALLS)
@pytest.mark.parametrize(
    "other",
    [
        {"warp_latency": 20.0},  # 6 of 20 is the threshold of 30 %.
        {"issue_active": 0.8},
        {"memory_pct": 80.0},
        {"tensor_pct": 50.0, "tensor_ops_bf16": 1e9},
        {"warp_latency": 0.0},
    ],
)
def test_no_stall(id: str, other: dict[str, float]) -> None:
    assert find(id, stalled(id, **other)) is None


def test_issue_slots() -> None:
    found = find("issue-slots", {**WAITING, "issue_active": 0.4, "eligible_warps": 0.5})
    assert found is not None
    assert found.max_speedup == 1 / 0.4
    assert found.params == {"idle_pct": pytest.approx(60), "eligible": 0.5}
    assert bound("issue-slots", {**WAITING, "issue_active": 0.1}) == 100 / 25


@pytest.mark.parametrize("other", [{"issue_active": 0.6}, {"issue_active": 0.0}, {"memory_pct": 80.0}])
def test_no_issue_slots(other: Numbers) -> None:
    assert find("issue-slots", {**WAITING, "issue_active": 0.4, **other}) is None


# ------
# Memory
# ------

COPY: Numbers = {**WAITING, "sm_pct": 15.0, "memory_pct": 80.0, "dram_pct": 80.0}


def test_dram_bandwidth_leaves_what_the_best_copies_leave() -> None:
    found = find("dram-bandwidth", COPY)
    assert found is not None
    assert found.max_speedup == 93 / 80
    assert (found.variant, found.params["gain"], found.confidence) == ("room", 93 / 80, 0.9)


def test_dram_bandwidth_with_its_bytes() -> None:
    told = {"dram_bytes": 1.6e9, "dram_bytes_per_s": 1.6e12, "dram_clock": 1e9, "device_memory_bus_bits": 8000.0}
    found = find("dram-bandwidth", {**COPY, **told, "memory_pct": 85.0, "dram_pct": 85.0})
    assert found is not None
    # Twice the clock times the bus of 1000 bytes.
    params = {"dram_pct": 85.0, "rate": 1.6e12, "bytes": 1.6e9, "peak": 2 * 1e9 * 1000, "gain": 93 / 85}
    assert found.params == params
    assert found.variant == ""


@pytest.mark.parametrize(
    ("dram", "variant", "confidence"),
    [(74.9, "partly", 0.6), (75.0, "room", 0.9), (84.5, "room", 0.9), (84.6, "bytes-unknown", 0.9)],
)
def test_loads_in_flight_are_told_of_while_the_best_copies_are_10_percent_faster(
    dram: float, variant: str, confidence: float
) -> None:
    found = find("dram-bandwidth", {**COPY, "memory_pct": dram, "dram_pct": dram})
    assert found is not None
    assert (found.variant, found.confidence) == (variant, confidence)


def test_dram_bandwidth_of_the_best_copy_gains_nothing() -> None:
    assert bound("dram-bandwidth", {**COPY, "dram_pct": 96.0}) == 1.0


def test_dram_bandwidth_under_75_where_it_leads() -> None:
    assert bound("dram-bandwidth", {**COPY, "dram_pct": 62.0, "memory_pct": 62.0}) == 93 / 62


def test_dram_bandwidth_gains_at_most_what_the_busiest_unit_leaves() -> None:
    # A divided L2 at 64 % leads back to DRAM at 43 %, but nothing here can run twice as fast.
    divided = {**WAITING, "memory_pct": 64.0, "l2_pct": 64.0, "dram_pct": 43.0, **memory_parts(lts__t_sectors=30)}
    assert see(divided).verdict.level == "dram"
    assert bound("dram-bandwidth", divided) <= 100 / 64


@pytest.mark.parametrize(
    ("other", "hit"),
    [
        ({"sm_pct": 90.0, "memory_pct": 75.0, "dram_pct": 75.0}, True),
        ({"sm_pct": 90.0, "memory_pct": 74.9, "dram_pct": 74.9}, False),
        ({"memory_pct": 90.0, "l2_pct": 90.0, "dram_pct": 74.9}, False),
        ({"duration": 4000.0}, False),
    ],
)
def test_dram_bandwidth_from_75_or_as_the_level_that_leads(other: Numbers, hit: bool) -> None:
    assert (find("dram-bandwidth", {**COPY, **other}) is not None) is hit


L2: Numbers = {
    **WAITING, "memory_pct": 90.0, "l2_pct": 90.0, "dram_pct": 30.0,
    **memory_parts(lts__t_sectors=90, dram__cycles_active=30),
}  # fmt: skip


def test_l2_bandwidth_leaves_the_time_of_the_other_units() -> None:
    assert bound("l2-bandwidth", L2) == 100 / 30


@pytest.mark.parametrize("other", [{"l1_elapsed_pct": 95.0, "memory_pct": 95.0}, {"duration": 4000.0}])
def test_no_l2_bandwidth(other: Numbers) -> None:
    assert find("l2-bandwidth", {**L2, **other}) is None


WRITES: Numbers = {
    **L2, **memory_parts(lts__xbar2lts_cycles_active=90, lts__lts2xbar_cycles_active=60, lts__t_sectors=50),
    "l2_store_sectors": 1e6, "l2_load_sectors": 1e6,
}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "variant"),
    [
        ({}, "writes"),
        ({"store_bytes_per_sector_pct": 80.0}, "writes"),
        ({"store_bytes_per_sector_pct": 79.0}, ""),  # Scattered stores fill that way too.
        ({"l2_store_sectors": 0.9e6}, ""),
        (memory_parts(lts__xbar2lts_cycles_active=90, lts__lts2xbar_cycles_active=61, lts__t_sectors=50), ""),
    ],
)
def test_l2_that_is_full_of_writes(other: Numbers, variant: str) -> None:
    found = find("l2-bandwidth", {**WRITES, **other})
    assert found is not None
    assert (found.variant, found.params["to_l2_pct"]) == (variant, 90.0)


def test_no_l2_bandwidth_under_60() -> None:
    idle = {**L2, "memory_pct": 59.0, "l2_pct": 59.0, **memory_parts(lts__t_sectors=59)}
    assert find("l2-bandwidth", idle) is None


L1: Numbers = {
    **WAITING, "memory_pct": 90.0, "l1_elapsed_pct": 90.0, "dram_pct": 10.0,
    **memory_parts(l1tex__data_pipe_lsu_wavefronts=90, lts__t_sectors=20),
}  # fmt: skip


def test_l1_bandwidth_leaves_the_time_of_the_other_units() -> None:
    assert bound("l1-bandwidth", L1) == 100 / 20


@pytest.mark.parametrize(
    ("other", "variant"),
    [
        ({}, "turns"),
        (memory_parts(l1tex__data_pipe_lsu_wavefronts=90, l1tex__lsuin_requests=20), ""),  # 4.5 turns.
        (memory_parts(l1tex__data_pipe_lsu_wavefronts=70, l1tex__lsuin_requests=10, l1tex__f_wavefronts=90), ""),
        ({"tma_load_inst": 100.0}, ""),
        ({"tensor_pct": 30.0}, ""),
    ],
)
def test_accesses_of_many_turns(other: Numbers, variant: str) -> None:
    turns = {**L1, **memory_parts(l1tex__data_pipe_lsu_wavefronts=90, l1tex__lsuin_requests=15)}
    found = find("l1-bandwidth", {**turns, **other})
    assert found is not None
    assert found.variant == variant
    if variant:
        assert found.params["turns"] == 90 / 15


def test_accesses_saved_leave_their_issue_slots() -> None:
    # Half of the instructions are loads: the slots' 40 % become 20, and the multiply-adds' 25 % stay.
    parts = {**sm_parts(issue_active=40.0, pipe_fma_cycles_active=25.0),
             **memory_parts(l1tex__data_pipe_lsu_wavefronts=80.0)}  # fmt: skip
    assert bound("l1-bandwidth", {**L1, **parts}) == 100 / 40
    opcodes = {"sass__inst_executed_per_opcode": {"LDS": 40.0, "LDG": 10.0, "FFMA": 50.0}}
    assert bound("l1-bandwidth", {**L1, **parts, **opcodes}) == 100 / 25


def test_l1_bandwidth_of_a_full_load_and_store_unit() -> None:
    lsu = {**WAITING, "sm_pct": 80.0, "l1_elapsed_pct": 50.0}
    parts = sm_parts(inst_executed_pipe_lsu=80, mio_inst_issued=70, pipe_fma_cycles_active=40)
    found = find("l1-bandwidth", {**lsu, **parts})
    assert found is not None
    assert found.max_speedup == 100 / 40
    assert found.params["l1_pct"] == 80.0


def test_l1_bandwidth_shows_the_unit_that_is_full() -> None:
    # Not the L1 throughput, which is under the threshold that stands beside it.
    lsu = {**WAITING, "sm_pct": 80.0, "l1_elapsed_pct": 50.0, **sm_parts(inst_executed_pipe_lsu=80)}
    found = find("l1-bandwidth", lsu)
    assert found is not None
    assert all(item.threshold is None or item.value >= item.threshold for item in found.evidence)


@pytest.mark.parametrize("other", [{"dram_pct": 95.0, "memory_pct": 95.0}, {"duration": 4000.0}])
def test_no_l1_bandwidth(other: Numbers) -> None:
    assert find("l1-bandwidth", {**L1, **other}) is None


LOADS: Numbers = {
    **WAITING, "memory_pct": 80.0, "l2_pct": 80.0, "global_load_sectors": 3e6, "global_load_requests": 3e6 / 32,
    "global_store_sectors": 1e6, "global_store_requests": 1e6 / 4, "load_bytes_per_sector": 8.0,
    "load_bytes_per_sector_max": 32.0, "dram_read_bytes": 60e6, "dram_write_bytes": 40e6,
    **memory_parts(dram__cycles_active=50, lts__t_sectors=80, lts__lts2xbar_cycles_active=60,
                   lts__xbar2lts_cycles_active=20, l1tex__data_pipe_lsu_wavefronts=40),
}  # fmt: skip
"""Loads are 3 of 4 sectors and use 8 of each 32 bytes; 60 % of DRAM's bytes are reads."""


def test_uncoalesced_load_takes_the_unused_bytes_from_each_unit() -> None:
    found = find("uncoalesced-load", LOADS)
    assert found is not None
    unused = 1 - 8 / 32
    dram = 50 * (1 - unused * 0.6)  # Of its reads.
    l2 = 80 * (1 - unused * 3 / 4)  # Of the loads' part of its sectors.
    l2_to_l1 = 60 * (1 - unused)
    l1 = 40 * (1 - unused * 3 / 4)
    assert found.max_speedup == pytest.approx(100 / max(dram, l2, l2_to_l1, l1, 20))
    assert found.params["used_bytes"] == pytest.approx(8)
    assert (found.params["sectors"], found.params["ideal"]) == (pytest.approx(32), pytest.approx(32 / 4))
    assert found.confidence == 0.85


def test_uncoalesced_load_that_hits_in_l1_wastes_less_below_it() -> None:
    hits = {**LOADS, "global_load_hit_pct": 50.0}
    # A half of the sectors comes from L1, so the threads use twice as much of those that L2 delivers.
    unused = 1 - 2 * 8 / 32
    assert bound("uncoalesced-load", hits) == pytest.approx(100 / (80 * (1 - unused * 3 / 4)))


def test_uncoalesced_load_that_l1_absorbs_is_less_sure() -> None:
    absorbed = find("uncoalesced-load", {**LOADS, "global_load_hit_pct": 80.0})
    assert absorbed is not None
    assert absorbed.confidence == round(0.85 / 2, 2)
    assert absorbed.max_speedup == 1.0


def test_gathers_are_irregular_by_nature() -> None:
    found = find("uncoalesced-load", LOADS, name="indexSelectLargeIndex")
    assert found is not None
    assert found.confidence == round(0.85 / 2, 2)


def test_a_waiting_kernels_loads_count_by_their_share() -> None:
    idle = {**LOADS, "memory_pct": 30.0, "l2_pct": 30.0, **memory_parts(lts__t_sectors=30)}
    found = find("uncoalesced-load", idle)
    assert found is not None
    assert found.confidence == 0.6
    rare = find("uncoalesced-load", {**idle, "l2_sectors_from_l1": 12e6})
    assert rare is not None
    # A quarter of what reaches L2, the rest bulk copies.
    assert rare.confidence == 0.6 * 2 * 0.25


@pytest.mark.parametrize(
    "other",
    [
        {"load_bytes_per_sector": 0.8 * 32},
        {"l2_sectors_from_l1": 3e6 / 0.0499},
        {"duration": 4000.0},
        {"load_bytes_per_sector": 0.0},  # All of them asynchronous copies, whose bytes are not counted.
    ],
)
def test_no_uncoalesced_load(other: Numbers) -> None:
    assert find("uncoalesced-load", {**LOADS, **other}) is None


STORES: Numbers = {
    **WAITING, "memory_pct": 90.0, "l2_pct": 90.0, "global_load_sectors": 1e6, "global_load_requests": 1e6 / 4,
    "global_store_sectors": 1e6, "global_store_requests": 1e6 / 32, "store_bytes_per_sector": 4.0,
    "store_bytes_per_sector_max": 32.0,
    **memory_parts(dram__cycles_active=20, lts__xbar2lts_cycles_active=90, lts__t_sectors=60),
}  # fmt: skip
"""A half of the sectors are stores that use 4 of 32 bytes."""


def test_uncoalesced_store_wastes_l2_and_no_dram() -> None:
    unused = 1 - 4 / 32
    arriving, sectors, dram = 90 * (1 - unused), 60 * (1 - unused / 2), 20
    assert bound("uncoalesced-store", STORES) == pytest.approx(100 / max(arriving, sectors, dram))


def test_uncoalesced_store_of_a_kernel_held_by_dram_gains_nothing() -> None:
    held = {**STORES, "dram_pct": 90.0, **memory_parts(dram__cycles_active=90, lts__xbar2lts_cycles_active=60)}
    assert bound("uncoalesced-store", held) == 1.0


@pytest.mark.parametrize(
    "other",
    [
        {"store_bytes_per_sector": 0.8 * 32},
        {"global_load_sectors": 19.1e6},  # Stores are under 5 % of the sectors.
        {"duration": 4000.0},
    ],
)
def test_no_uncoalesced_store(other: Numbers) -> None:
    assert find("uncoalesced-store", {**STORES, **other}) is None


def without(values: Numbers, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def test_older_reports_tell_the_excess_of_both_directions_together() -> None:
    old = {**without(STORES, "store_bytes_per_sector", "store_bytes_per_sector_max"),
           "l2_sectors_global": 2000.0, "l2_sectors_global_excess": 600.0}  # fmt: skip
    # The stores (32 sectors a request against 4) are 1000 of the 2000, and the 600 are theirs.
    unused = 600 / 1000
    arriving, sectors = 90 * (1 - unused), 60 * (1 - unused / 2)
    assert bound("uncoalesced-store", old) == pytest.approx(100 / max(arriving, sectors, 20))
    assert find("uncoalesced-load", old) is None


def test_an_excess_larger_than_one_directions_sectors_is_the_others_too() -> None:
    both = {**without(STORES, "store_bytes_per_sector", "store_bytes_per_sector_max"),
            "l2_sectors_global": 2000.0, "l2_sectors_global_excess": 1500.0}  # fmt: skip
    loads = find("uncoalesced-load", both)
    assert loads is not None
    # Each store needs one of its 32 sectors: 31 / 32 of the 1000 are the stores' own, and the rest is the loads'.
    assert loads.params["used_pct"] == pytest.approx(100 * (1 - (1500 - 1000 * 31 / 32) / 1000))


def test_a_request_needs_one_sector_at_least() -> None:
    most = {**without(STORES, "store_bytes_per_sector", "store_bytes_per_sector_max"),
            "l2_sectors_global": 2000.0, "l2_sectors_global_excess": 2000.0}  # fmt: skip
    for id, sectors in (("uncoalesced-store", 32), ("uncoalesced-load", 4)):
        found = find(id, most)
        assert found is not None
        assert found.params["used_pct"] == pytest.approx(100 / sectors)


BANKS: Numbers = {
    **WAITING, "memory_pct": 80.0, "l1_elapsed_pct": 80.0, "shared_wavefronts": 4000.0,
    "shared_wavefronts_excess": 3000.0, "memory_l1_wavefronts_shared_ideal": 1000.0,
    **memory_parts(l1tex__data_bank_reads=80, l1tex__lsuin_requests=10, lts__t_sectors=10),
}  # fmt: skip


def test_bank_conflicts_take_their_repeats_from_the_data_banks() -> None:
    found = find("bank-conflicts", BANKS)
    assert found is not None
    assert found.max_speedup == pytest.approx(100 / (80 * (1 - 3000 / 4000)))
    assert (found.confidence, found.params["nway"]) == (0.85, pytest.approx(4000 / 1000))


def test_bank_conflicts_of_a_kernel_held_by_dram_gain_nothing() -> None:
    found = find("bank-conflicts", {**BANKS, "dram_pct": 86.0, "memory_pct": 86.0})
    assert found is not None
    assert (found.max_speedup, found.confidence, found.severity) == (1.0, 0.5, "info")


def test_bank_conflicts_of_a_waiting_kernel_count_where_it_waits_for_shared_memory() -> None:
    idle = {**BANKS, "memory_pct": 40.0, "l1_elapsed_pct": 20.0, "l2_pct": 40.0,
            **memory_parts(l1tex__data_bank_reads=20, lts__t_sectors=40)}  # fmt: skip
    waits = {"warp_latency": 10.0, "stall_short_scoreboard": 2.0, "stall_mio_throttle": 2.0}
    assert bound("bank-conflicts", idle) == 1.0
    # Of the time 0.4 is spent waiting for shared memory; L2's 40 % would allow 2.5 times.
    assert bound("bank-conflicts", {**idle, **waits}) == pytest.approx(1 / (1 - 0.4))
    assert bound("bank-conflicts", {**idle, **waits, "stall_mio_throttle": 5.0}) == 100 / 40
    assert bound("bank-conflicts", {**idle, **waits, "stall_mio_throttle": 0.9}) == 1.0


def test_bank_conflicts_gain_what_a_waiting_kernel_waits_for_them_also_where_l1_leads() -> None:
    led = {**BANKS, "memory_pct": 50.0, "l1_elapsed_pct": 50.0, "l2_pct": 20.0, "warp_latency": 10.0,
           "stall_short_scoreboard": 1.0, "stall_mio_throttle": 1.0,
           **memory_parts(l1tex__data_bank_reads=50, lts__t_sectors=20)}  # fmt: skip
    assert bound("bank-conflicts", led) == pytest.approx(1 / (1 - 0.2))
    assert bound("bank-conflicts", {**led, "stall_mio_throttle": 8.5}) == pytest.approx(100 / 20)


def test_older_reports_count_conflicts() -> None:
    counted = {**without(BANKS, "shared_wavefronts", "shared_wavefronts_excess"),
               "shared_load_conflicts": 60.0, "shared_load_wavefronts": 80.0,
               "shared_store_conflicts": 0.0, "shared_store_wavefronts": 20.0}  # fmt: skip
    assert bound("bank-conflicts", counted) == pytest.approx(100 / (80 * (1 - 60 / 100)))


def test_conflicts_of_stores_alone_are_found_too() -> None:
    stores = {**without(BANKS, "shared_wavefronts"), "shared_store_conflicts": 60.0, "shared_store_wavefronts": 100.0}
    assert bound("bank-conflicts", stores) == pytest.approx(100 / (80 * (1 - 60 / 100)))


@pytest.mark.parametrize("other", [{"shared_wavefronts_excess": 399.0}, {"duration": 4000.0}])
def test_no_bank_conflicts(other: Numbers) -> None:
    assert find("bank-conflicts", {**BANKS, **other}) is None


SPILL: Numbers = {
    **WAITING, "memory_pct": 90.0, "l2_pct": 90.0, "local_load_sectors": 100.0, "local_store_sectors": 100.0,
    "global_load_sectors": 200.0, "global_store_sectors": 200.0, "local_load_inst": 30.0, "local_store_inst": 20.0,
    "inst_executed": 1000.0, "registers_per_thread": 32.0,
    **memory_parts(lts__t_sectors=90), **sm_parts(issue_active=30),
}  # fmt: skip


def test_register_spill_takes_its_sectors_from_memory_and_its_instructions_from_the_sm() -> None:
    found = find("register-spill", SPILL)
    assert found is not None
    assert found.max_speedup == pytest.approx(100 / max(90 * (1 - 200 / 600), 30 * (1 - 50 / 1000)))
    assert found.params["registers"] == 32.0


def test_register_spill_of_a_waiting_kernel_gains_at_most_its_part_of_the_wait() -> None:
    idle = {**SPILL, "memory_pct": 30.0, "l2_pct": 30.0, **memory_parts(lts__t_sectors=30), "warp_latency": 10.0,
            "stall_long_scoreboard": 5.0, "stall_lg_throttle": 1.0}  # fmt: skip
    assert bound("register-spill", idle) == pytest.approx(1 / (1 - 6 / 10 * 200 / 600))


@pytest.mark.parametrize(
    ("other", "variant", "confidence"),
    [
        ({"spill_pct": 100.0}, "", 0.8),
        ({"spill_pct": 50.0}, "", 0.8),
        ({"spill_pct": 49.9}, "indexed", 0.8),
        ({"spill_pct": 0.0}, "indexed", 0.8),
        ({"spill_inst": 25.0}, "", 0.8),  # Of 50 local instructions.
        ({"spill_inst": 24.0}, "indexed", 0.8),
        ({"registers_per_thread": 64.0}, "unknown-few", 0.6),
        ({"registers_per_thread": 65.0}, "unknown-many", 0.6),
    ],
)
def test_local_memory_is_called_a_spill_only_where_spills_are_counted(
    other: Numbers, variant: str, confidence: float
) -> None:
    found = find("register-spill", {**SPILL, **other})
    assert found is not None
    assert (found.variant, found.confidence) == (variant, confidence)
    assert found.max_speedup == pytest.approx(100 / max(90 * (1 - 200 / 600), 30 * (1 - 50 / 1000)))


def test_without_the_number_of_registers_none_is_told() -> None:
    found = find("register-spill", without(SPILL, "registers_per_thread"))
    assert found is not None
    assert found.variant == "unknown"


@pytest.mark.parametrize(
    "other",
    [
        {"global_load_sectors": 3600.0},  # 200 of 4000 sectors is the threshold of 5 %.
        {"inst_executed": 5001.0},  # 50 of them is under 1 %.
        {"local_load_sectors": 0.0, "local_store_sectors": 0.0},
        {"duration": 4000.0},
    ],
)
def test_no_register_spill(other: Numbers) -> None:
    assert find("register-spill", {**SPILL, **other}) is None


# -------
# Compute
# -------

COMPUTE: Numbers = {**WAITING, "sm_pct": 90.0, "memory_pct": 20.0, **sm_parts(issue_active=90)}


def test_compute_roof_leaves_the_slots_that_are_free() -> None:
    assert bound("compute-roof", COMPUTE) == 100 / 90


@pytest.mark.parametrize(("sm", "confidence"), [(60.0, 0.5), (79.9, 0.5), (80.0, 0.8)])
def test_compute_roof_is_surer_from_80(sm: float, confidence: float) -> None:
    found = find("compute-roof", {**COMPUTE, "sm_pct": sm})
    assert found is not None
    assert (found.max_speedup, found.confidence) == (100 / sm, confidence)


@pytest.mark.parametrize("other", [{"sm_pct": 59.9}, {"memory_pct": 85.0}, {"duration": 4000.0}])
def test_no_compute_roof(other: Numbers) -> None:
    assert find("compute-roof", {**COMPUTE, **other}) is None


TENSOR: Numbers = {**WAITING, "sm_pct": 70.0, "memory_pct": 50.0, "tensor_pct": 75.0, "tensor_ops_bf16": 1e12}


def test_tensor_roof_leaves_what_the_best_products_leave() -> None:
    assert bound("tensor-roof", TENSOR) == 90 / 75
    assert bound("tensor-roof", {**TENSOR, "tensor_pct": 96.0}) == 1.0


@pytest.mark.parametrize("other", [{"tensor_pct": 59.9}, {"tensor_ops_bf16": 0.0, "tensor_type_pct": 0.0}])
def test_no_tensor_roof(other: Numbers) -> None:
    assert find("tensor-roof", {**TENSOR, **other}) is None


GEMM: Numbers = {
    **WAITING, "sm_count": 108.0, "sm_pct": 90.0, "memory_pct": 20.0, "dram_pct": 2.0, "tensor_pct": 0.0,
    "sm_clock": 1.41e9, "smsp_clock": 1.41e9, "fadd_per_cycle": 0.0, "fmul_per_cycle": 0.0, "ffma_per_cycle": 5000.0,
}  # fmt: skip
"""2 x 5000 FLOP a cycle at the 1410 MHz of the A100's data sheet, which says 312 TFLOP/s in bf16."""


def test_tensor_cores_unused_moves_the_arithmetic_to_them() -> None:
    assert bound("tensor-cores-unused", GEMM, "sgemm", A100) == pytest.approx(312e12 / (2 * 5000 * 1.41e9))


def test_tensor_cores_unused_leaves_dram_as_it_is() -> None:
    assert bound("tensor-cores-unused", {**GEMM, "dram_pct": 10.0}, "sgemm", A100) == 100 / 10


def test_tensor_cores_at_a_lower_clock_do_less() -> None:
    slower = {**GEMM, "sm_clock": 1.41e9 / 2}
    assert bound("tensor-cores-unused", slower, "sgemm", A100) == pytest.approx(312e12 / 2 / (2 * 5000 * 1.41e9))


def test_tensor_cores_unused_on_a_gpu_without_a_data_sheet() -> None:
    found = find("tensor-cores-unused", GEMM, "sgemm")
    assert found is not None
    assert found.max_speedup is None
    assert found.severity == "info"


def test_a_name_of_the_authors_own_is_a_weaker_hint() -> None:
    sure, weak = (find("tensor-cores-unused", GEMM, name, A100) for name in ("ampere_sgemm_128x64_nn", "my_gemm"))
    assert sure is not None
    assert weak is not None
    assert (sure.confidence, weak.confidence) == (0.85, 0.7)


@pytest.mark.parametrize(
    "other",
    [
        {"tensor_ops_bf16": 1e9},
        {"tensor_pct": 5.0},
        {"sm_pct": 29.9},
        {"duration": 4000.0},
        {"dadd_per_cycle": 0.0, "dmul_per_cycle": 0.0, "dfma_per_cycle": 5001.0},  # A product in double precision.
    ],
)
def test_no_tensor_cores_unused(other: Numbers) -> None:
    assert find("tensor-cores-unused", {**GEMM, **other}, "sgemm", A100) is None


def test_only_matrix_products_miss_their_tensor_cores() -> None:
    assert find("tensor-cores-unused", GEMM, "stencil", A100) is None


@pytest.mark.parametrize(
    "device",
    [Device("GeForce GTX 1080", (6, 1), 20), Device("NVIDIA GeForce GTX 1660 Ti", (7, 5), 24), Device("unknown GPU")],
)
def test_only_gpus_with_tensor_cores_miss_them(device: Device) -> None:
    assert find("tensor-cores-unused", GEMM, "sgemm", device) is None


def test_the_constants_trap_is_no_use_of_tensor_cores() -> None:
    trap = {**GEMM, "tensor_pct": 3.0, "tensor_ops_bf16": 0.0}
    assert find("tensor-cores-unused", trap, "sgemm", A100) is not None


DIVERGENT: Numbers = {**COMPUTE, "threads_per_inst": 8.0, "branch_uniform_pct": 40.0}


def test_thread_divergence_gains_at_most_the_idle_lanes() -> None:
    found = find("thread-divergence", DIVERGENT)
    assert found is not None
    # The SM's part shrinks to 90 * 8 / 32 = 22.5 %, which would allow 4.4 times; the lanes allow 4.
    assert found.max_speedup == min(100 / (90 * 8 / 32), 32 / 8)
    assert found.params == {"threads": 8.0, "used_pct": 25.0, "uniform_pct": 40.0}
    assert found.confidence == 0.8


def test_thread_divergence_is_bound_by_the_memory() -> None:
    held = {**DIVERGENT, **memory_parts(lts__t_sectors=50)}
    assert bound("thread-divergence", held) == 100 / 50


def test_thread_divergence_of_a_memory_bound_kernel_gains_nothing() -> None:
    found = find("thread-divergence", {**WAITING, "memory_pct": 80.0, "l2_pct": 80.0, "threads_per_inst": 8.0})
    assert found is not None
    assert (found.max_speedup, found.confidence) == (1.0, 0.3)


@pytest.mark.parametrize("other", [{"threads_per_inst": 24.0}, {"threads_per_inst": 0.0}, {"duration": 4000.0}])
def test_no_thread_divergence(other: Numbers) -> None:
    assert find("thread-divergence", {**DIVERGENT, **other}) is None


FP64: Numbers = {
    **WAITING, "sm_pct": 80.0, "memory_pct": 20.0, "pipe_fp64_pct": 80.0, "device_fp64_ratio": 32.0,
    **sm_parts(pipe_fp64_cycles_active=80, issue_active=10), **memory_parts(lts__t_sectors=20),
}  # fmt: skip


def test_fp64_on_slow_part_leaves_the_other_units() -> None:
    assert bound("fp64-on-slow-part", FP64) == 100 / max(80 / 32, 10, 20)


@pytest.mark.parametrize(
    ("alu", "variant", "confidence", "sentence"), [(79.9, "", 0.8, "fp64"), (80.0, "alu", 0.55, "fp64-alu")]
)
def test_fp64_beside_an_alu_as_busy_does_not_hold_the_kernel_alone(
    alu: float, variant: str, confidence: float, sentence: str
) -> None:
    both = {**FP64, **sm_parts(pipe_fp64_cycles_active=80, pipe_alu_cycles_active=alu, issue_active=10)}
    found = find("fp64-on-slow-part", both)
    assert found is not None
    assert (found.variant, found.confidence, see(both).verdict.variant) == (variant, confidence, sentence)


def test_fp64_in_fp32_still_issues_its_instructions() -> None:
    issue = {**FP64, **sm_parts(pipe_fp64_cycles_active=70, issue_active=80)}
    assert bound("fp64-on-slow-part", issue) == 1.0


def test_fp64_in_fp32_still_loads_its_data() -> None:
    loads = {**FP64, **sm_parts(pipe_fp64_cycles_active=70, inst_executed_pipe_lsu=80)}
    assert bound("fp64-on-slow-part", loads) == 1.0


@pytest.mark.parametrize(
    "other",
    [
        {"pipe_fp64_pct": 59.9},
        {"device_fp64_ratio": 15.9},
        {"dram_pct": 95.0, "memory_pct": 95.0},
        {"duration": 4000.0},
    ],
)
def test_no_fp64_on_slow_part(other: Numbers) -> None:
    assert find("fp64-on-slow-part", {**FP64, **other}) is None


# -----------
# Not checked
# -----------

TRAFFIC: Mapping[str, Numbers] = {
    "partial-sectors": {
        **WAITING, "memory_pct": 80.0, "l2_pct": 80.0, "global_store_sectors": 5e6, "global_store_requests": 1e6,
        "store_bytes_per_sector": 25.6, "store_bytes_per_sector_max": 32.0,
    },
    "l2-thrash": {
        **WAITING, "dram_pct": 80.0, "dram_read_bytes": 3e11, "device_memory_bytes": 1e11, "global_load_sectors": 1e10,
        "duration": 1e9,
    },
    "redundant-traffic": {**WAITING, "dram_pct": 80.0, "dram_read_bytes": 2e9, "l2_to_l1_bytes": 1e9},
    "atomic-contention": {
        **WAITING, "global_red_sectors": 8e6, "global_red_requests": 1e6, "l2_sectors_from_l1": 1e7,
    },
    "sysmem-traffic": {**WAITING, "sysmem_miss_sectors": 1e6},
    "l2-compression": {
        **WAITING, "l2_compression_success_pct": 5.0, "l2_compression_input_sectors": 1e6, "l2_sectors": 2e6,
    },
}  # fmt: skip

HITS: Mapping[str, tuple[Numbers, str, Device]] = {
    "too-short": ({**WAITING, "duration": 4000.0}, "kernel", DEVICE),
    "clock-locked": ({**WAITING, "sm_clock": 0.5e9, "device_clock_khz": 1e6}, "kernel", DEVICE),
    "cold-cache": (COLD, "kernel", DEVICE),
    "small-grid": ({**WAITING, "grid_size": 50.0}, "kernel", DEVICE),
    "tail-wave": (TAIL, "kernel", DEVICE),
    "partial-warp": ({**WAITING, "block_size": 33.0}, "kernel", DEVICE),
    "sm-imbalance": (UNEVEN, "kernel", DEVICE),
    **{id: (limited_by(id), "kernel", DEVICE) for id in OCCUPANCY},
    "few-blocks": (
        {**WAITING, "grid_size": 100.0, "waves": 0.5, "stall_barrier": 2.0, "warp_latency": 10.0},
        "kernel",
        DEVICE,
    ),
    "cluster-limits": (
        {**WAITING, **LIMITS, "cluster_size": 16.0, "cluster_max_active": 15.0},
        "kernel",
        DEVICE,
    ),
    "occupancy-barriers": (
        {**WAITING, "theoretical_occupancy_pct": 50.0, **LIMITS, "limit_barriers": 2.0},
        "kernel",
        DEVICE,
    ),
    "occupancy-achieved": (GAP, "kernel", DEVICE),
    **{id: (stalled(id), "kernel", DEVICE) for id in STALLS},
    **{
        id: ({**WAITING, need.split("|")[0]: 6.0, "warp_latency": 10.0, "issue_active": 0.2,
              "tensor_type_pct": 5.0, "tensor_pct": 5.0}, "kernel", DEVICE)
        for id, rule in all_rules().items() if rule.family == "stalls" and id not in (*STALLS, "issue-slots")
        for need in rule.needs[:1]
    },
    "issue-slots": ({**WAITING, "issue_active": 0.4}, "kernel", DEVICE),
    "dram-bandwidth": (COPY, "kernel", DEVICE),
    "l2-bandwidth": (L2, "kernel", DEVICE),
    "l1-bandwidth": (L1, "kernel", DEVICE),
    "uncoalesced-load": (LOADS, "kernel", DEVICE),
    "uncoalesced-store": (STORES, "kernel", DEVICE),
    "bank-conflicts": (BANKS, "kernel", DEVICE),
    "register-spill": (SPILL, "kernel", DEVICE),
    **{id: (values, "kernel", A100 if id == "l2-compression" else DEVICE) for id, values in TRAFFIC.items()},
    "compute-roof": (COMPUTE, "kernel", DEVICE),
    "tensor-roof": (TENSOR, "kernel", DEVICE),
    "tensor-cores-unused": (GEMM, "sgemm", A100),
    "thread-divergence": (DIVERGENT, "kernel", DEVICE),
    "fp64-on-slow-part": (FP64, "kernel", DEVICE),
    **compute_kernels.HITS,
}  # fmt: skip
"""A kernel that each rule with needs finds."""

RULES = {id: rule for id, rule in all_rules().items() if rule.family != "fusion"}
"""Those about several launches have a file of their own."""
NEEDS = [(id, need) for id, rule in RULES.items() for need in rule.needs]


def test_every_rule_with_needs_is_here() -> None:
    assert set(HITS) == {id for id, rule in RULES.items() if rule.needs}
    for id, (values, name, device) in HITS.items():
        assert find(id, values, name, device) is not None, id


@pytest.mark.parametrize(("id", "need"), NEEDS, ids=[f"{id}-{need}" for id, need in NEEDS])
def test_not_checked_without_what_it_needs(id: str, need: str) -> None:
    values, name, device = HITS[id]
    gone = names_of(need.split("|"))
    kept = {key: value for key, value in values.items() if not set(metrics_of({key: value})) & set(gone)}
    seen = see(kept, name, device)
    assert id not in {finding.id for finding in (*seen.findings, *seen.validity)}
    told = next(rule for rule in seen.not_checked if rule.id == id)
    concept = need.split("|")[0]
    assert concept in told.needs
    assert dictionary()[concept].section in told.sections


@pytest.mark.parametrize("id", ["missing-metrics", "replay-inconsistent", "single-launch"])
def test_rules_without_needs_always_run(id: str) -> None:
    assert id not in {rule.id for rule in see({}).not_checked}


DESIGNED = """
missing-metrics too-short clock-locked cold-cache replay-inconsistent single-launch
small-grid tail-wave partial-warp few-blocks sm-imbalance cluster-limits
occupancy-registers occupancy-shared-memory occupancy-block-count occupancy-block-size occupancy-barriers
occupancy-achieved
stall-long-scoreboard stall-short-scoreboard stall-barrier stall-lg-throttle stall-mio-throttle stall-tex-throttle
stall-math-pipe stall-wait stall-no-instruction stall-branch stall-membar stall-drain stall-sleeping stall-imc-miss
stall-gmma issue-slots
dram-bandwidth l2-bandwidth l1-bandwidth uncoalesced-load uncoalesced-store bank-conflicts partial-sectors
register-spill l2-thrash atomic-contention sysmem-traffic l2-compression redundant-traffic
compute-roof tensor-roof tensor-cores-unused tf32-off fp16-without-tensor fp64-on-slow-part pipe-saturated unfused-math
thread-divergence predication low-ilp hopper-features-unused blackwell-features-unused fp8-opportunity
async-copy-unused
elementwise-chain multi-pass-norm naive-attention layout-copies unfused-optimizer gemv-decode splitk-overhead
irregular-gather
"""


def test_the_rules_are_these() -> None:
    assert set(all_rules()) == set(DESIGNED.split())


def test_every_finding_has_its_entry_in_the_documents() -> None:
    text = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    entries = [
        id for line in re.findall(r"^### (.*)$", text, re.MULTILINE) for id in re.findall(r"`([a-z0-9-]+)`", line)
    ]
    assert sorted(id for id in entries if id in all_rules()) == sorted(all_rules())
