"""The rules of traffic and of rows inside a sector: what each takes away, by hand, and each side of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from built import A100, DEVICE, ELAPSED, make_kernel, make_report, memory_parts, sm_parts
from gputui.analysis.engine import Diagnosis, diagnose
from gputui.analysis.finding import Finding
from gputui.model.device import Device
from gputui.render.text import gauge_rows

Numbers = Mapping[str, Any]

IDLE: Numbers = {
    "duration": 1e6, "grid_size": 1000.0, "block_size": 256.0, "sm_count": 100.0, "sm_pct": 5.0, "memory_pct": 8.0,
}  # fmt: skip
"""Nothing is busy."""


def see(
    values: Numbers, name: str = "kernel", device: Device = DEVICE, grid: tuple[int, int, int] | None = None
) -> Diagnosis:
    kernel = make_report([values], [name], device=device).kernels[0]
    if grid is not None:
        kernel.grid = grid
    return diagnose(kernel)


def find(id: str, values: Numbers, *args: Any, **options: Any) -> Finding | None:
    seen = see(values, *args, **options)
    assert id not in {rule.id for rule in seen.not_checked}
    return next((finding for finding in seen.findings if finding.id == id), None)


def found(id: str, values: Numbers, *args: Any, **options: Any) -> Finding:
    finding = find(id, values, *args, **options)
    assert finding is not None
    return finding


def ids(seen: Diagnosis) -> list[str]:
    return [finding.id for finding in seen.findings]


# ------------------------
# Rows that start in a sector
# ------------------------

SHIFTED: Numbers = {
    **IDLE, "memory_pct": 90.0, "l2_pct": 90.0, "global_store_sectors": 5e6, "global_store_requests": 1e6,
    "global_load_sectors": 0.0, "global_load_requests": 0.0, "store_bytes_per_sector": 25.6,
    "store_bytes_per_sector_max": 32.0,
    **memory_parts(lts__xbar2lts_cycles_active=90, lts__t_sectors=50, l1tex__data_pipe_lsu_wavefronts=30),
}  # fmt: skip
"""Stores of 32 floats from an odd address: 5 sectors, of which 4 would do."""

READS: Numbers = {
    **IDLE, "memory_pct": 90.0, "l1_elapsed_pct": 90.0, "global_load_sectors": 9e6, "global_load_requests": 1e6,
    "global_store_sectors": 0.0, "global_store_requests": 0.0, "load_bytes_per_sector": 32 * 8 / 9,
    "load_bytes_per_sector_max": 32.0, **memory_parts(l1tex__t_sectors=90, lts__t_sectors=30),
}  # fmt: skip


def test_a_shifted_store_costs_more_than_its_extra_sector_on_the_way_to_l2() -> None:
    seen = found("partial-sectors", SHIFTED)
    # The way to L2 shrinks to 4 / 7, the sectors to 4 / 5: 90 becomes 51, 50 becomes 40.
    assert seen.max_speedup == pytest.approx(7 / 4)
    assert (seen.variant, seen.confidence) == ("store", 0.6)
    assert seen.params == {"sectors": 5.0, "ideal": 4, "used_pct": pytest.approx(80.0)}
    assert [item.metric for item in seen.evidence] == [
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
    ]


def test_a_shifted_load_costs_its_extra_sector_inside_the_sm() -> None:
    seen = found("partial-sectors", READS)
    assert seen.max_speedup == pytest.approx(9 / 8)
    assert (seen.variant, seen.params["ideal"]) == ("", 8)


def test_a_waiting_kernels_shift_is_less_sure() -> None:
    seen = found("partial-sectors", {**READS, "memory_pct": 30.0, "l1_elapsed_pct": 30.0,
                                     **memory_parts(l1tex__t_sectors=30)})  # fmt: skip
    assert (seen.confidence, seen.max_speedup) == (0.4, pytest.approx(9 / 8))


@pytest.mark.parametrize(
    ("sectors", "used"),
    [
        (5e6, 0.799),  # Scattered stores.
        (4.15e6, 0.97),
        (4.6e6, 0.9),  # Less than half a sector more than needed.
        (6.6e6, 0.81),  # More than one.
        (3.0e6, 0.83),  # No row of 4.
    ],
)
def test_no_shift(sectors: float, used: float) -> None:
    assert find(
        "partial-sectors", {**SHIFTED, "global_store_sectors": sectors, "store_bytes_per_sector": 32 * used}
    ) is (None)


def test_never_a_shift_and_scattered_together() -> None:
    for used in (0.7, 0.79, 0.8, 0.81):
        seen = ids(see({**SHIFTED, "store_bytes_per_sector": 32 * used}))
        assert ("partial-sectors" in seen) is (used >= 0.8)
        assert ("uncoalesced-store" in seen) is (used < 0.8)


@pytest.mark.parametrize(
    "other",
    [
        {"duration": 4000.0},
        # Held by DRAM, which needs no sector more.
        {"dram_pct": 95.0, **memory_parts(dram__cycles_active=95, lts__xbar2lts_cycles_active=60)},
        {"l2_sectors_from_l1": 5e6 / 0.0499},
    ],
)
def test_no_shift_where_nothing_is_relieved(other: Numbers) -> None:
    assert find("partial-sectors", {**SHIFTED, **other}) is None


# ------------------------
# Stores that DRAM pays for
# ------------------------

SPREAD: Numbers = {
    **IDLE, "memory_pct": 89.0, "dram_pct": 89.0, "global_load_sectors": 0.0, "global_load_requests": 0.0,
    "global_store_sectors": 16e6, "global_store_requests": 0.5e6, "store_bytes_per_sector": 4.0,
    "store_bytes_per_sector_max": 32.0, "dram_read_bytes": 500e6, "dram_write_bytes": 512e6, "l2_to_l1_bytes": 0.0,
    "global_atom_sectors": 0.0, "global_red_sectors": 0.0,
    **memory_parts(dram__cycles_active=89, lts__d_sectors_fill_device=40, lts__xbar2lts_cycles_active=53),
}  # fmt: skip
"""512 MB of sectors, of which 64 MB are stored; each was written to DRAM and read before."""


def test_stores_that_l2_does_not_merge_cost_dram_their_whole_sectors_twice() -> None:
    seen = found("uncoalesced-store", SPREAD)
    # 1012 MB become 64; fills go; the way to L2 keeps an eighth.
    assert seen.max_speedup == pytest.approx(100 / max(89 * 64 / 1012, 53 / 8, 5))
    assert not see(SPREAD).verdict.at_roof


def test_stores_that_l2_merges_cost_dram_nothing() -> None:
    merged = {**SPREAD, "dram_read_bytes": 0.0, "dram_write_bytes": 64e6}
    assert found("uncoalesced-store", merged).max_speedup == 1.0


def test_other_writes_stay() -> None:
    # 512 MB of the 1024 written are not of these stores (spills, say): kept are they and the 64 MB.
    more = {**SPREAD, "dram_read_bytes": 0.0, "dram_write_bytes": 1024e6}
    assert found("uncoalesced-store", more).max_speedup == pytest.approx(100 / (89 * (512 + 64) / 1024))


def test_loads_are_no_fills() -> None:
    loads = {**SPREAD, "l2_to_l1_bytes": 500e6}
    assert found("uncoalesced-store", loads).max_speedup == pytest.approx(100 / (89 * (500 + 64) / 1012))


# ------------------------
# Requests on the way to L2
# ------------------------

COLUMNS: Numbers = {
    **IDLE, "memory_pct": 90.0, "l2_pct": 90.0, "global_load_sectors": 32e6, "global_load_requests": 1e6,
    "global_store_sectors": 4e6, "global_store_requests": 1e6, "load_bytes_per_sector": 4.0,
    "load_bytes_per_sector_max": 32.0, "l2_load_sectors": 32e6, "l2_store_sectors": 4e6, "l2_load_requests": 32e6,
    "l2_store_requests": 1e6, "dram_read_bytes": 0.0, "dram_bytes": 1e9,
    **memory_parts(lts__t_tag_requests=90, lts__xbar2lts_cycles_active=60, lts__t_sectors=30),
}  # fmt: skip
"""Loads down columns: a request for each sector, of which an eighth is used; stores along rows."""


def test_loads_side_by_side_need_a_request_for_four_sectors() -> None:
    # Of 32 + 1 million requests remain 1 + 1, and of 32 + 1 + 4 parcels on the way to L2 1 + 1 + 4.
    tags, way, sectors = 90 * 2 / 33, 60 * 6 / 37, 30 * (1 - 7 / 8 * 32 / 36)
    assert found("uncoalesced-load", COLUMNS).max_speedup == pytest.approx(100 / max(tags, way, sectors, 5))


def test_stores_side_by_side_also_carry_fewer_sectors() -> None:
    rows = {
        **COLUMNS, "global_load_sectors": 4e6, "global_store_sectors": 32e6, "store_bytes_per_sector": 4.0,
        "store_bytes_per_sector_max": 32.0, "load_bytes_per_sector": 32.0, "l2_load_sectors": 4e6,
        "l2_store_sectors": 32e6, "l2_load_requests": 1e6, "l2_store_requests": 32e6,
        **memory_parts(lts__t_tag_requests=80, lts__xbar2lts_cycles_active=90),
    }  # fmt: skip
    # Of 1 + 32 + 32 parcels remain 1 + 1 + 4.
    assert found("uncoalesced-store", rows).max_speedup == pytest.approx(100 / max(80 * 2 / 33, 90 * 6 / 65, 5))


def test_requests_that_were_never_more_stay() -> None:
    # An eighth of each sector in unbroken lines: 8 million requests for 32 million sectors become 1.
    lines = {**COLUMNS, "l2_load_requests": 8e6}
    tags, way, sectors = 90 * 2 / 9, 60 * 6 / 13, 30 * (1 - 7 / 8 * 32 / 36)
    assert found("uncoalesced-load", lines).max_speedup == pytest.approx(100 / max(tags, way, sectors))


# ------------------------
# What L2's sectors alone tell
# ------------------------

CHART: Numbers = {
    "duration": 1e5, "grid_size": 1000.0, "block_size": 256.0, "global_store_requests": 1e6,
    "global_load_requests": 1e6, "l2_load_sectors": 4e6, "l2_store_sectors": 12e6,
}  # fmt: skip


def test_stores_of_no_full_width_are_told_though_nothing_is_sure() -> None:
    seen = found("uncoalesced-store", CHART)
    assert (seen.variant, seen.confidence, seen.max_speedup) == ("l2", 0.35, None)
    assert seen.params["sectors"] == 12.0
    assert [item.value for item in seen.evidence] == [12e6, 1e6]
    assert found("uncoalesced-store", {**CHART, "l2_store_sectors": 32e6}).confidence == 0.45


@pytest.mark.parametrize(
    "other",
    [
        *({"l2_store_sectors": rate * 1e6} for rate in (1, 2, 3, 4, 5, 8, 9, 16, 17)),
        {"duration": 4000.0},
        {"local_store_inst": 1.0},
        {"tma_load_inst": 1.0},
        {"l2_store_sectors": 33e6},
    ],
)
def test_what_l2s_sectors_do_not_tell_is_not_checked(other: Numbers) -> None:
    seen = see({**CHART, **other})
    assert "uncoalesced-store" not in ids(seen)
    assert "uncoalesced-store" in {rule.id for rule in seen.not_checked}


@pytest.mark.parametrize(("rate", "hit"), [(12, False), (17, False), (18, True)])
def test_loads_may_lose_sectors_to_l1(rate: float, hit: bool) -> None:
    assert ("uncoalesced-load" in ids(see({**CHART, "l2_load_sectors": rate * 1e6}))) is hit


# ------------------------
# Re-reading
# ------------------------

PRODUCT: Numbers = {
    **IDLE, "dram_pct": 80.0, "memory_pct": 80.0, "dram_read_bytes": 4e9, "dram_write_bytes": 1e9,
    "global_load_sectors": 8e9 / 32, "l2_to_l1_bytes": 8e9, "device_memory_bytes": 80e9, "device_l2_bytes": 50e6,
    **memory_parts(dram__cycles_active=80, lts__t_sectors=30),
}  # fmt: skip
"""16 rows of tiles load 8 GB, so the inputs are at most 0.5 GB; 4 GB are read."""


def test_a_product_reads_its_inputs_again() -> None:
    seen = found("l2-thrash", PRODUCT, "my_gemm", grid=(1024, 16, 1))
    assert seen.params == {"read": 4e9, "inputs": pytest.approx(0.5e9), "times": pytest.approx(8.0), "l2": 50e6}
    # Of 5 GB stay the written one and at least 8 / 1024 read.
    assert seen.max_speedup == pytest.approx(100 / 30)
    assert (seen.confidence, seen.variant) == (0.4, "")
    assert [item.threshold for item in seen.evidence] == [pytest.approx(0.75e9), 60.0]
    alone = {**PRODUCT, **memory_parts(dram__cycles_active=80, lts__t_sectors=5)}
    least = 80 * (1e9 + 8e9 / 1024) / 5e9
    assert found("l2-thrash", alone, "my_gemm", grid=(1024, 16, 1)).max_speedup == pytest.approx(100 / least)


@pytest.mark.parametrize(
    "other",
    [
        {"dram_read_bytes": 0.74e9},
        {"dram_pct": 59.0},
        {"duration": 4000.0},
        {"local_load_sectors": 3.5e9 / 32},  # Spills are no inputs.
        {"tma_load_inst": 1.0},
    ],
)
def test_no_rereading_of_a_product(other: Numbers) -> None:
    assert find("l2-thrash", {**PRODUCT, **other}, "my_gemm", grid=(1024, 16, 1)) is None


def test_a_stream_may_have_any_hit_rate() -> None:
    tiled = (1024, 16, 1)
    for name, grid in (
        ("stream", tiled), ("my_gemm", (16384, 1, 1)), ("my_batched_gemm", tiled), ("triton_tem_fused_mm_1", tiled),
        ("conv2d_depthwise", tiled),
    ):  # fmt: skip
        seen = see({**PRODUCT, "l2_read_hit_pct": 0.0}, name, grid=grid)
        assert "l2-thrash" not in {*ids(seen), *(rule.id for rule in seen.not_checked)}


def test_more_than_the_whole_memory_is_read_again() -> None:
    long = {**PRODUCT, "duration": 1e8, "dram_read_bytes": 121e9, "global_load_sectors": 200e9 / 32}
    seen = found("l2-thrash", long)
    assert (seen.variant, seen.params["inputs"], seen.confidence) == ("memory", 80e9, 0.8)
    assert find("l2-thrash", {**long, "dram_read_bytes": 119e9}) is None


PASSES: Numbers = {
    **IDLE, "dram_pct": 90.0, "memory_pct": 90.0, "dram_read_bytes": 8e8, "dram_write_bytes": 0.0, "dram_bytes": 8e8,
    "global_load_sectors": 8e8 / 32, "l2_sectors_from_l1": 8e8 / 32, "l2_to_l1_bytes": 8e8,
    "accessible_memory_bytes": 2e8, "device_memory_bytes": 80e9, "device_l2_bytes": 50e6,
    **memory_parts(dram__cycles_active=90, lts__d_sectors_fill_device=80, lts__t_sectors=40,
                   lts__d_sectors=60),
}  # fmt: skip
"""Four times what is allocated."""


def test_more_than_all_that_is_allocated_is_read_again() -> None:
    seen = found("l2-thrash", PASSES)
    assert (seen.variant, seen.confidence) == ("allocated", 0.7)
    assert seen.params == {"read": 8e8, "inputs": 2e8, "times": 4.0, "l2": 50e6}
    # DRAM and the fills go, and half of what the data banks do.
    assert seen.max_speedup == pytest.approx(100 / 40)
    assert found("l2-thrash", {**PASSES, "lts__d_sectors" + ELAPSED: 88.0}).max_speedup == pytest.approx(100 / 44)
    assert seen.evidence[-1].metric == "profiler__replayer_bytes_mem_accessible.max"
    assert not see(PASSES).verdict.at_roof


@pytest.mark.parametrize(
    "other",
    [
        {"accessible_memory_bytes": 5.4e8},
        {"accessible_memory_bytes": 0.0},
        {"texture_sectors": 1.0},  # Their arrays may not be counted.
        {"local_load_sectors": 5.1e8 / 32},
        {"dram_pct": 59.0},
    ],
)
def test_no_rereading_within_what_is_allocated(other: Numbers) -> None:
    assert "l2-thrash" not in ids(see({**PASSES, **other}))


# ------------------------
# Bytes nobody asked for
# ------------------------

HALVES: Numbers = {
    **IDLE, "dram_pct": 80.0, "memory_pct": 80.0, "dram_read_bytes": 2e9, "dram_write_bytes": 0.5e9,
    "l2_to_l1_bytes": 1e9, **memory_parts(dram__cycles_active=80, lts__d_sectors_fill_device=50, lts__t_sectors=20),
}  # fmt: skip


def test_the_other_half_of_each_fetch() -> None:
    seen = found("redundant-traffic", HALVES)
    # 1 of 2.5 GB in DRAM and 1 of 2 in what fills L2.
    assert seen.max_speedup == pytest.approx(100 / max(80 * (1 - 1 / 2.5), 50 / 2))
    assert (seen.variant, seen.confidence) == ("", 0.45)
    assert seen.params == {"read": 2e9, "wanted": 1e9, "extra": 1e9, "extra_pct": pytest.approx(40.0)}


def test_sectors_that_are_filled_partly_are_read_first() -> None:
    partly = {**HALVES, "global_store_sectors": 0.5e9 / 32, "store_bytes_per_sector": 8.0,
              "store_bytes_per_sector_max": 32.0}  # fmt: skip
    seen = found("redundant-traffic", partly)
    assert (seen.variant, seen.confidence) == ("fill", 0.7)
    assert found("redundant-traffic", {**partly, "store_bytes_per_sector": 32.0}).variant == ""
    assert found("redundant-traffic", {**partly, "global_store_sectors": 0.49e9 / 32}).variant == ""


def test_scattered_stores_explain_their_fills() -> None:
    seen = see(SPREAD)
    assert seen.explained["redundant-traffic"] == "uncoalesced-store"


@pytest.mark.parametrize(
    ("name", "read", "hit"),
    [("transpose_user", 2.21e9, True), ("transpose_user", 2.19e9, False), ("stencil", 2.21e9, False)],
)
def test_a_transpose_reads_what_it_writes(name: str, read: float, hit: bool) -> None:
    # What it reads again, L2 sends again.
    again = {**HALVES, "dram_read_bytes": read, "l2_to_l1_bytes": read, "global_store_sectors": 1e9 / 32}
    seen = find("redundant-traffic", again, name)
    assert (seen is not None) is hit
    if seen is not None:
        assert (seen.variant, seen.confidence, seen.params["wanted"]) == ("copy", 0.45, 1e9)
        assert seen.max_speedup == pytest.approx(100 / max(80 * (1 - (read - 1e9) / (read + 0.5e9)), 50 * 1e9 / read))


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"dram_pct": 59.0}, "kernel"),
        ({"duration": 4000.0}, "kernel"),
        ({"l2_to_l1_bytes": 1.51e9}, "kernel"),
        ({"global_red_sectors": 0.51e9 / 32}, "kernel"),  # Atomics read inside L2.
        ({}, "softmax_warp_forward"),
        ({}, "my_gemm"),
    ],
)
def test_nothing_is_said_of_what_may_be_needed(other: Numbers, name: str) -> None:
    assert find("redundant-traffic", {**HALVES, **other}, name) is None


# ------------------------
# Atomics
# ------------------------

QUEUE: Numbers = {
    **IDLE, "global_red_sectors": 8e6, "global_red_requests": 1e6, "global_atom_sectors": 0.0,
    "global_atom_requests": 0.0, "l2_sectors_from_l1": 10e6, "l1_to_l2_bytes": 32 * 8e6,
    **memory_parts(lts__xbar2lts_cycles_active=8, lts__t_sectors=5, dram__cycles_active=2,
                   lts__d_atomic_input_cycles_active=4),
}  # fmt: skip


def test_atomics_that_queue_leave_everything_idle() -> None:
    seen = found("atomic-contention", {**QUEUE, "sm_pct": 1.0, **sm_parts(issue_active=0.5)})
    # All that goes to L2 are atomics; of its sectors a fifth stays, and DRAM's 2 %.
    assert seen.max_speedup == pytest.approx(100 / max(2, 5 * 0.2, 0.5))
    assert (seen.confidence, seen.variant) == (0.6, "")
    assert seen.params == {"share_pct": pytest.approx(80.0), "turns": pytest.approx(8.0)}
    assert seen.evidence[0].metric == "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"
    assert seen.evidence[0].threshold == pytest.approx(2e6)


def test_fewer_atomics_are_less_sure() -> None:
    assert found("atomic-contention", {**QUEUE, "global_red_sectors": 4.9e6}).confidence == 0.5


@pytest.mark.parametrize(
    "other",
    [
        {"global_red_sectors": 1.99e6},
        {"duration": 4000.0},
        {"memory_pct": 75.0, "dram_pct": 75.0},  # Beside a full DRAM they cost nothing.
    ],
)
def test_no_queue_of_atomics(other: Numbers) -> None:
    assert find("atomic-contention", {**QUEUE, **other}) is None


def test_full_atomic_units_count_beside_a_full_dram() -> None:
    full = {**QUEUE, "memory_pct": 75.0, "dram_pct": 75.0, "atomic_input_pct": 50.0}
    assert find("atomic-contention", full) is not None


BINS: Numbers = {
    **IDLE, "memory_pct": 90.0, "l1_elapsed_pct": 90.0, "shared_atom_inst": 1e6, "shared_atom_wavefronts": 6e6,
    "shared_all_wavefronts": 8e6, "shared_load_wavefronts": 0.5e6, "global_red_sectors": 0.0,
    **sm_parts(issue_active=40), **memory_parts(l1tex__data_pipe_lsu_wavefronts=90, dram__cycles_active=10),
}  # fmt: skip


def test_bins_in_shared_memory_take_its_turns() -> None:
    seen = found("atomic-contention", BINS)
    # 6 and the half of a compare-and-swap loop's loads, of 8: 90 becomes 90 * 1.5 / 8, DRAM's 10 stay.
    assert seen.max_speedup == pytest.approx(100 / (90 * 1.5 / 8))
    assert (seen.variant, seen.confidence) == ("shared", 0.6)
    assert seen.params == {"share_pct": pytest.approx(75.0), "turns": pytest.approx(6.0)}


WAITS: Numbers = {"warp_latency": 10.0, "stall_short_scoreboard": 2.0, "stall_mio_throttle": 1.1}


@pytest.mark.parametrize(
    ("other", "hit"),
    [
        ({"shared_atom_wavefronts": 1.49e6, "shared_all_wavefronts": 2e6}, False),
        ({"shared_all_wavefronts": 20.1e6}, False),
        ({"duration": 4000.0}, False),
        ({"memory_pct": 70.0, "l1_elapsed_pct": 70.0, **memory_parts(l1tex__data_pipe_lsu_wavefronts=70)}, False),
        ({"memory_pct": 70.0, "l1_elapsed_pct": 70.0, **memory_parts(l1tex__data_pipe_lsu_wavefronts=70), **WAITS},
         True),
        ({"memory_pct": 30.0, "l1_elapsed_pct": 30.0, **memory_parts(l1tex__data_pipe_lsu_wavefronts=30), **WAITS},
         True),
        ({"memory_pct": 30.0, "l1_elapsed_pct": 30.0, **memory_parts(l1tex__data_pipe_lsu_wavefronts=30)}, False),
    ],
)  # fmt: skip
def test_where_bins_in_shared_memory_matter(other: Numbers, hit: bool) -> None:
    assert (find("atomic-contention", {**BINS, **other}) is not None) is hit


def test_a_kernel_without_atomics_is_not_asked() -> None:
    assert "atomic-contention" in {rule.id for rule in see(IDLE).not_checked}


# ------------------------
# Host memory
# ------------------------

FAR: Numbers = {
    **IDLE, "memory_pct": 2.0, "sm_pct": 1.0, "dram_pct": 0.5, "sysmem_miss_sectors": 1e6, "peer_miss_sectors": 0.0,
    "device_miss_sectors": 1e6, "dram_peak_bytes_per_cycle": 1e3, "dram_clock": 1e9,
}  # fmt: skip
"""32 MB from the host in 1 ms: 32 GB/s, or 3.2 % of DRAM's 1 TB/s."""

GRACE = Device("NVIDIA GH200 480GB", (9, 0), 132)


def test_host_memory_would_come_from_dram() -> None:
    seen = found("sysmem-traffic", FAR)
    assert seen.max_speedup == pytest.approx(100 / (0.5 + 3.2))
    assert (seen.confidence, seen.variant) == (0.8, "")
    assert seen.params == {"bytes": 32e6, "rate": pytest.approx(32e9), "share_pct": pytest.approx(50.0)}
    assert [item.threshold for item in seen.evidence] == [pytest.approx(0.4 * 2e6)]


def test_the_link_to_grace_is_fast() -> None:
    seen = found("sysmem-traffic", FAR, device=GRACE)
    # 1 TB/s over 450 GB/s.
    assert (seen.confidence, seen.max_speedup) == (0.4, pytest.approx(1e12 / 450e9))


def test_another_gpu() -> None:
    seen = found("sysmem-traffic", {**FAR, "sysmem_miss_sectors": 0.0, "peer_miss_sectors": 1e6})
    assert (seen.variant, seen.confidence) == ("peer", 0.5)


def test_writes_to_the_host_show_on_pcie_alone() -> None:
    writes = {**FAR, "sysmem_miss_sectors": 0.0, "pcie_write_bytes_per_s": 20e9, "l1_to_l2_bytes": 40e6}
    seen = found("sysmem-traffic", writes)
    assert (seen.variant, seen.confidence, seen.params["bytes"]) == ("write", 0.5, pytest.approx(20e6))
    assert seen.max_speedup == pytest.approx(100 / (0.5 + 2))
    for other in ({"pcie_write_bytes_per_s": 4.9e9, "l1_to_l2_bytes": 5e6}, {"l1_to_l2_bytes": 51e6}):
        assert find("sysmem-traffic", {**writes, **other}) is None


@pytest.mark.parametrize(
    "other",
    [
        {"device_miss_sectors": 1.5e6},
        {"sysmem_miss_sectors": 3.1e4, "device_miss_sectors": 0.0},  # Under 1 GB/s.
        {"duration": 4000.0},
        {"memory_pct": 80.0, "l2_pct": 80.0},
    ],
)
def test_no_host_memory(other: Numbers) -> None:
    assert find("sysmem-traffic", {**FAR, **other}) is None


@pytest.mark.parametrize("name", ["Orin", "NVIDIA Thor", "NVIDIA GB10"])
def test_where_the_memory_is_one_nothing_is_far(name: str) -> None:
    seen = see(FAR, device=Device(name, (12, 1), 48))
    assert "sysmem-traffic" not in {*ids(seen), *(rule.id for rule in seen.not_checked)}
    assert find("sysmem-traffic", {**FAR, "device_integrated": 1.0}) is None


# ------------------------
# Compression
# ------------------------

PRESSED: Numbers = {
    **IDLE, "l2_compression_success_pct": 19.0, "l2_compression_input_sectors": 1e6, "l2_hit_sectors": 5e6,
    "l2_miss_sectors": 5e6,
}  # fmt: skip


def test_compression_without_effect_has_no_bound() -> None:
    seen = found("l2-compression", PRESSED, device=A100)
    assert (seen.max_speedup, seen.confidence) == (None, 0.4)
    assert seen.params == {"success_pct": 19.0, "tried_pct": pytest.approx(10.0)}


@pytest.mark.parametrize("other", [{"l2_compression_success_pct": 20.0}, {"l2_compression_input_sectors": 0.99e6}])
def test_no_compression_finding(other: Numbers) -> None:
    assert find("l2-compression", {**PRESSED, **other}, device=A100) is None


def test_compression_is_asked_of_ampere_and_ada_alone() -> None:
    for capability, asked in (((7, 5), False), ((8, 0), True), ((8, 9), True), ((9, 0), False)):
        seen = see(IDLE, device=Device("some GPU", capability, 100))
        assert ("l2-compression" in {rule.id for rule in seen.not_checked}) is asked


# ------------------------
# Where no DRAM is counted
# ------------------------


def test_without_dram_nothing_is_said_of_it() -> None:
    (cache,) = (f for f in see({**IDLE, "memory_pct": 80.0, "l2_pct": 80.0}).findings if f.id == "l2-bandwidth")
    assert (cache.variant, cache.params["dram_pct"]) == ("alone", None)
    (inside,) = (
        f for f in see({**IDLE, "memory_pct": 80.0, "l1_elapsed_pct": 80.0}).findings if f.id == "l1-bandwidth"
    )
    assert (inside.variant, inside.params["dram_pct"]) == ("alone", None)


# ------------------------
# Reports of few metrics
# ------------------------

ONE_WAY: Numbers = {"duration": 1e5, "grid_size": 1000.0, "sm_count": 100.0, "dram_read_pct": 78.0}


def test_one_direction_of_dram_is_told_as_at_least() -> None:
    seen = see(ONE_WAY)
    assert (seen.verdict.id, seen.verdict.level, seen.gauges.dram_pct) == ("memory-bound", "dram", 78.0)
    (dram,) = (finding for finding in seen.findings if finding.id == "dram-bandwidth")
    assert (dram.variant, dram.max_speedup, dram.evidence[0].value) == ("one-way", 93 / 78, 78.0)
    assert [key for key, value in gauge_rows(seen) if value == 78.0] == ["memory", "dram-at-least"]
    assert seen.gauges.dram_bytes is None  # One direction says nothing of both.


def test_stored_percentages_win_over_peaks_worked_out() -> None:
    worked_out = {"dram_bytes": 1e8, "device_memory_clock_khz": 1e7, "device_memory_bus_bits": 1000.0}
    # 1e12 bytes/s of 2 * 1e10 * 125 are 40 %.
    assert see({"duration": 1e5, **worked_out}).gauges.dram_pct == pytest.approx(40)
    both = {"dram_read_pct": 42.0, "dram_write_pct": 9.0}
    assert see({"duration": 1e5, **worked_out, **both}).gauges.dram_pct == 51.0


@pytest.mark.parametrize(("used", "hit"), [(50.0, True), (79.9, True), (80.0, False), (0.0, False)])
def test_the_used_share_may_be_told_in_percent(used: float, hit: bool) -> None:
    stores = {"duration": 1e5, "global_store_sectors": 8e6, "global_store_requests": 1e6,
              "store_bytes_per_sector_pct": used}  # fmt: skip
    store = find("uncoalesced-store", stores)
    assert (store is not None) is hit
    if store is not None:
        assert (store.params["used_pct"], store.params["ideal"]) == (used, pytest.approx(8 * used / 100))
        assert (store.evidence[0].value, store.evidence[0].threshold) == (used, 80.0)


# ----------------------------------
# Accesses that nobody waits for
# ----------------------------------

WAITED: Numbers = {
    **IDLE, "sm_pct": 40.0, "global_load_sectors": 1e6, "global_load_requests": 1e6, "global_store_sectors": 0.0,
    "global_store_requests": 0.0, "load_bytes_per_sector": 4.0, "load_bytes_per_sector_max": 32.0,
    "warp_latency": 100.0, "issue_active": 0.3,
}  # fmt: skip
"""One value for the whole warp, 4 of 32 bytes, in a kernel that waits."""


@pytest.mark.parametrize(
    ("waits", "bound"),
    [
        ({}, 100 / 40),
        ({"stall_long_scoreboard": 30.0, "stall_lg_throttle": 10.0}, 1 / (1 - 0.4)),
        ({"stall_long_scoreboard": 1.0}, 1 / (1 - 0.01)),
        # Half of the time is spent at barriers: of the other half the loads take a fifth.
        ({"stall_long_scoreboard": 10.0, "stall_barrier": 50.0}, 1 / (1 - 0.2)),
        ({"stall_long_scoreboard": 90.0}, 100 / 40),
    ],
)
def test_loads_cost_a_waiting_kernel_what_it_waits_for_them(waits: Numbers, bound: float) -> None:
    assert found("uncoalesced-load", {**WAITED, **waits}).max_speedup == pytest.approx(bound)


def test_stores_cost_a_waiting_kernel_fences_the_queue_and_the_end() -> None:
    stores = {
        "global_load_sectors": 0.0, "global_load_requests": 0.0, "global_store_sectors": 1e6,
        "global_store_requests": 1e6, "store_bytes_per_sector": 4.0, "store_bytes_per_sector_max": 32.0,
        "stall_long_scoreboard": 50.0, "stall_drain": 5.0, "stall_membar": 10.0, "stall_lg_throttle": 5.0,
    }  # fmt: skip
    assert found("uncoalesced-store", {**WAITED, **stores}).max_speedup == pytest.approx(1 / (1 - 0.2))


def test_nothing_is_said_of_the_bytes_that_asynchronous_copies_use() -> None:
    rows = {
        "duration": 1e6, "sm_pct": 20.0, "memory_pct": 80.0, "l2_pct": 80.0, "global_load_sectors": 24e6,
        "global_load_requests": 1e6, "l2_sectors_global": 24e6, "l2_sectors_global_excess": 8e6,
    }  # fmt: skip
    told = {opcode: {finding.id for finding in diagnose(make_kernel({**rows, "opcode_total": {opcode: 1e6}})).findings}
            for opcode in ("LDG", "LDGSTS")}  # fmt: skip
    assert "uncoalesced-load" in told["LDG"]
    assert "uncoalesced-load" not in told["LDGSTS"]
