"""What a GPU's counters can tell at all."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from gputui.model.device import Device
from gputui.model.metrics import dictionary
from gputui.model.presence import _absent, can_tell

CHIPS = {
    "gv100": "7.0", "tu102": "7.5", "ga100": "8.0", "ga102": "8.6", "ad102": "8.9", "gh100": "9.0", "gb100": "10.0",
    "gb110": "10.3", "gb10b": "11.0", "gb202": "12.0", "gb20b": "12.1",
}  # fmt: skip


def gpu(major: int, minor: int) -> Device:
    return Device("some GPU", (major, minor))


@pytest.mark.parametrize(
    ("concept", "there", "not_there"),
    [
        ("dram_pct", (9, 0), (12, 1)),  # Through no formula either: its parts need DRAM's bytes.
        ("dram_read_bytes", (10, 0), (11, 0)),
        ("sysmem_miss_sectors", (9, 0), (10, 0)),
        ("l2_compression_success_pct", (8, 6), (10, 3)),
        ("l2_compression_success_pct", (8, 0), (7, 5)),
        ("stall_imc_miss", (9, 0), (12, 0)),
        ("stall_gmma", (9, 0), (8, 0)),
    ],
)
def test_can_tell(concept: str, there: tuple[int, int], not_there: tuple[int, int]) -> None:
    assert can_tell(concept, gpu(*there))
    assert not can_tell(concept, gpu(*not_there))


def test_of_an_unknown_gpu_nothing_is_ruled_out() -> None:
    for device in (Device("some GPU"), gpu(6, 1), gpu(13, 0)):
        assert all(can_tell(concept, device) for concept in dictionary())


def test_every_gpu_can_tell_what_the_verdict_needs() -> None:
    for capability in CHIPS.values():
        device = gpu(*map(int, capability.split(".")))
        for concept in ("duration", "sm_pct", "memory_pct", "l2_pct", "l1_pct", "warp_latency", "issue_active",
                        "achieved_occupancy_pct", "grid_size", "global_load_sectors", "threads_per_inst"):  # fmt: skip
            assert can_tell(concept, device), (capability, concept)


def test_the_table_is_made_from_the_list_of_counters() -> None:
    packed = Path(__file__).with_name("metric_presence.csv.gz").read_bytes()
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))}
    used = {name.partition(".")[0] for concept in dictionary().values() for name in concept.names}
    for name in used & rows.keys():
        has = {column.partition("@")[0] for column, flag in rows[name].items() if flag == "1"}
        assert _absent().get(name, frozenset()) == {CHIPS[chip] for chip in CHIPS.keys() - has}, name
    assert _absent().keys() <= used
