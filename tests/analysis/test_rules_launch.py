"""Few blocks, clusters and barriers: the bounds worked out by hand, and one kernel on the other side of each line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from built import A100, DEVICE, make_kernel
from gputui.analysis.engine import Diagnosis, diagnose
from gputui.analysis.finding import Finding
from gputui.model.device import Device

Numbers = Mapping[str, Any]
H200 = Device("NVIDIA H200", (9, 0), 132)


def see(values: Numbers, name: str = "kernel", device: Device = H200) -> Diagnosis:
    return diagnose(make_kernel(values, name, device=device))


def find(id: str, values: Numbers, name: str = "kernel", device: Device = H200) -> Finding | None:
    return next((found for found in see(values, name, device).findings if found.id == id), None)


def asked(id: str, values: Numbers, device: Device = H200) -> bool:
    return id in {rule.id for rule in see(values, device=device).not_checked}


FEW: Numbers = {
    "duration": 121.8e3, "grid_size": 132.0, "block_size": 1024.0, "sm_count": 132.0, "sm_pct": 22.0,
    "memory_pct": 23.0, "waves": 0.5, "stall_barrier": 1.8, "warp_latency": 10.0, "issue_active": 0.17,
}  # fmt: skip
"""As counted on an H200: one block of 1024 threads on each SM, where two fit. Eight of 256 took 58.3 µs (2.09 times
less)."""


def test_few_blocks_gain_the_room_that_is_free_and_the_time_at_barriers() -> None:
    found = find("few-blocks", FEW)
    assert found is not None
    # Twice the warps, and 18 % of their time no longer at barriers; the units would allow 100 / 23, the slots 1 / 0.17.
    assert found.max_speedup == pytest.approx(2 / 0.82)
    assert found.max_speedup >= 121.8 / 58.3
    assert found.params == {
        "blocks": 132,
        "sms": 132,
        "barrier_pct": pytest.approx(18),
        "room_pct": 50,
        "threads": 1024,
    }
    assert found.evidence[0].threshold == 264


def test_few_blocks_gain_at_most_what_units_and_issue_slots_leave() -> None:
    for other, expected in (({"memory_pct": 50.0}, 100 / 50), ({"issue_active": 0.6}, 1 / 0.6)):
        found = find("few-blocks", {**FEW, **other})
        assert found is not None
        assert found.max_speedup == expected


@pytest.mark.parametrize(
    "other",
    [
        {"grid_size": 131.0},  # Fewer than SMs: another finding.
        {"grid_size": 264.0},
        {"waves": 1.0},  # The one block fills its SM.
        {"stall_barrier": 1.0},
        {"sm_pct": 60.0},
        {"duration": 4999.0},
        {"tensor_ops_bf16": 1e9},
    ],
)
def test_no_few_blocks(other: Numbers) -> None:
    assert find("few-blocks", {**FEW, **other}) is None


@pytest.mark.parametrize("name", ["my_persistent_scan", "sm90_warpspecialized", "reduce_StreamK", "sgemm_tiled"])
def test_persistent_kernels_choose_one_block_an_sm(name: str) -> None:
    assert find("few-blocks", FEW, name) is None


def test_few_blocks_by_samples() -> None:
    samples = {**FEW, "pcsamp_barrier": 180.0, "pcsamp_samples": 1000.0}
    del samples["stall_barrier"], samples["warp_latency"]
    found = find("few-blocks", samples)
    assert found is not None
    assert found.params["barrier_pct"] == 18
    assert find("few-blocks", {**samples, "pcsamp_barrier": 100.0}) is None


def test_few_blocks_explain_the_waits() -> None:
    seen = see({**FEW, "stall_barrier": 4.0, "stall_long_scoreboard": 3.5, "theoretical_occupancy_pct": 100.0,
                "achieved_occupancy_pct": 50.0})  # fmt: skip
    assert seen.findings[0].id == "few-blocks"
    assert seen.explained == {
        "stall-barrier": "few-blocks", "stall-long-scoreboard": "few-blocks", "issue-slots": "few-blocks",
    }  # fmt: skip


@pytest.mark.parametrize("need", ["waves", "stall_barrier", "sm_count"])
def test_few_blocks_not_checked(need: str) -> None:
    assert asked("few-blocks", {key: value for key, value in FEW.items() if key != need})


CLUSTERS: Numbers = {
    "duration": 40.2e3, "grid_size": 528.0, "block_size": 256.0, "sm_count": 132.0, "sm_pct": 12.0, "memory_pct": 8.0,
    "cluster_size": 16.0, "cluster_max_active": 7.0, "limit_registers": 16.0, "limit_shared": 1.0, "limit_warps": 8.0,
    "limit_blocks": 32.0,
}  # fmt: skip
"""As counted on an H200. With clusters of 2 (66 at a time) 33.1 µs, without 32.6."""


@pytest.mark.parametrize(("size", "active"), [(16.0, 7.0), (8.0, 15.0)])
def test_clusters_gain_the_rounds_that_they_add(size: float, active: float) -> None:
    found = find("cluster-limits", {**CLUSTERS, "cluster_size": size, "cluster_max_active": active})
    assert found is not None
    # 528 blocks at 112 or 120 a time are five rounds, at 132 four.
    assert found.max_speedup == 5 / 4
    assert found.max_speedup >= 40.2 / 32.6
    assert (found.params["seated"], found.params["room"]) == (size * active, 132)
    assert found.params["empty_pct"] == pytest.approx(100 * (1 - size * active / 132))
    assert [item.threshold for item in found.evidence] == [pytest.approx(0.95 * 132 / size), None]


def test_without_clusters_nobody_waits_for_the_others_of_one() -> None:
    waits = {"warp_latency": 10.0, "stall_barrier": 0.5, "stall_membar": 1.5}
    meeting = {"sass__inst_executed_per_opcode": {"UCGABAR_WAIT": 2.0, "FFMA": 98.0}}
    found = find("cluster-limits", {**CLUSTERS, **waits, **meeting})
    assert found is not None
    assert found.max_speedup == pytest.approx(5 / 4 / 0.8)
    # Barriers of the blocks' own stay.
    found = find("cluster-limits", {**CLUSTERS, **waits, "sass__inst_executed_per_opcode": {"BAR": 2.0}})
    assert found is not None
    assert found.max_speedup == 5 / 4


def test_clusters_of_many_rounds_gain_the_places_that_they_leave_empty() -> None:
    found = find("cluster-limits", {**CLUSTERS, "grid_size": 112.0 * 1000})
    assert found is not None
    assert found.max_speedup == pytest.approx(132 / 112)


def test_clusters_gain_at_most_what_the_busiest_unit_leaves() -> None:
    found = find("cluster-limits", {**CLUSTERS, "sm_pct": 90.0})
    assert found is not None
    assert found.max_speedup == 100 / 90


@pytest.mark.parametrize(
    "other",
    [
        {"cluster_size": 2.0, "cluster_max_active": 66.0},
        {"cluster_size": 2.0, "cluster_max_active": 63.0},  # 126 of 132: 4.5 % of the room.
        {"grid_size": 112.0},  # All at once.
        {"cluster_size": 0.0, "cluster_max_active": 0.0},
        {"cluster_max_active": 0.0},
        {"memory_pct": 85.0, "dram_pct": 85.0},
        {"duration": 4000.0},
    ],
)
def test_no_cluster_limits(other: Numbers) -> None:
    assert find("cluster-limits", {**CLUSTERS, **other}) is None


def test_only_launches_with_clusters_are_asked() -> None:
    bare = {"duration": 1e6, "sm_pct": 20.0, "memory_pct": 20.0}
    assert not asked("cluster-limits", bare)
    assert not asked("cluster-limits", {**bare, "cluster_size": 1.0})
    assert not asked("cluster-limits", {**bare, "cluster_size": 4.0}, A100)
    assert asked("cluster-limits", {**bare, "cluster_size": 4.0})


BARRIERS: Numbers = {
    "duration": 23.9e3, "grid_size": 4224.0, "block_size": 64.0, "sm_count": 132.0, "sm_pct": 18.0, "memory_pct": 20.0,
    "theoretical_occupancy_pct": 12.5, "limit_barriers": 4.0, "barrier_count": 16.0, "limit_registers": 64.0,
    "limit_shared": 8.0, "limit_blocks": 32.0, "limit_warps": 32.0,
}  # fmt: skip
"""As counted on an H200. Without the named barriers 11.1 µs (2.15 times)."""


def test_barriers_gain_the_missing_warps_as_far_as_the_units_allow() -> None:
    found = find("occupancy-barriers", BARRIERS)
    assert found is not None
    # 100 / 12.5 = 8 times the warps, but the busiest unit allows 100 / 20.
    assert found.max_speedup == 5
    assert found.max_speedup >= 23.9 / 11.1
    assert found.params == {"theoretical_pct": 12.5, "blocks": 4, "barriers": 16}
    assert found.variant == ""


def test_older_reports_do_not_count_the_barriers() -> None:
    found = find("occupancy-barriers", {key: value for key, value in BARRIERS.items() if key != "barrier_count"})
    assert found is not None
    assert found.variant == "uncounted"


@pytest.mark.parametrize(
    "other",
    [
        {"limit_blocks": 4.0},  # One barrier a block: the limit on blocks itself.
        {"limit_shared": 3.0},
        {"theoretical_occupancy_pct": 70.0},
        {"sm_pct": 80.0},
    ],
)
def test_no_occupancy_barriers(other: Numbers) -> None:
    assert find("occupancy-barriers", {**BARRIERS, **other}) is None


def test_only_hopper_and_later_are_asked_for_the_limit_of_barriers() -> None:
    bare = {key: value for key, value in BARRIERS.items() if key != "limit_barriers"}
    assert asked("occupancy-barriers", bare, DEVICE)
    assert not asked("occupancy-barriers", bare, A100)
