from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import pytest
from nvr_builder import SOURCE, VERSION, block, message, report, results, session, sized, varint

from gputui.formats._nvr import Layout, compressed_is_cut, fields, read_layout

WHOLE = report(session(), VERSION, SOURCE, results(1, locked=True), results(2))


def layout(tmp_path: Path, data: bytes) -> Layout:
    path = tmp_path / "report"
    path.write_bytes(data)
    return read_layout(path)


def test_a_whole_file(tmp_path: Path) -> None:
    found = layout(tmp_path, WHOLE)
    assert (found.results, found.cut, found.damaged, found.tool_version) == (3, False, False, "2025.2.1.0")
    assert found.session.created == "2023-11-14T22:13:20+00:00"
    assert found.session.command_line == (
        "/opt/ncu --set full --clock-control none --cache-control=none -o out ./app --replay-modes"
    )
    assert (found.session.cache_control, found.session.replay_mode) == ("none", "kernel")


@pytest.mark.parametrize(
    ("blocks", "clock"),
    [
        ([session("ncu ./app")], "base"),  # ncu's default
        ([session("ncu --clock-control none ./app")], "none"),
        ([session("ncu --clock-control none ./app"), results(1, locked=False)], "none"),
        ([session("ncu ./app"), results(1, locked=False)], "none"),  # asked for and not got
        ([session("ncu --clock-control boost ./app"), results(1, locked=True)], "boost"),
        ([session(None), results(1, locked=True)], "base"),
        ([session(None, clock="None", replay="Application")], "none"),
        ([session(None), results(1)], None),
    ],
)
def test_clock_control(tmp_path: Path, blocks: list[bytes], clock: str | None) -> None:
    assert layout(tmp_path, report(*blocks)).session.clock_control == clock


def test_settings_tell_the_replay_mode_where_there_is_no_command_line(tmp_path: Path) -> None:
    found = layout(tmp_path, report(session(None, clock="Base", replay="Application"))).session
    assert (found.replay_mode, found.cache_control, found.command_line) == ("application", None, None)


def test_ranges_and_graphs_are_results_too(tmp_path: Path) -> None:
    data = report(session(), block({2: 1, 7: 2, 8: 3, 9: 4}))
    assert layout(tmp_path, data).results == 10


def test_every_cut_is_noticed_but_one_between_blocks(tmp_path: Path) -> None:
    ends = set()
    at = len(report())
    for part in (session(), VERSION, SOURCE, results(1, locked=True), results(2)):
        at += len(part)
        ends.add(at)
    for size in range(4, len(WHOLE) + 1):
        found = layout(tmp_path, WHOLE[:size])
        assert found.cut != (size in ends), size
        assert not found.damaged, size


@pytest.mark.parametrize(
    "tail",
    [
        b"\xff\xff\xff\xff",  # a header of 4 GB
        sized(b"\x2a" + varint(2**63)),  # a field longer than its header
        sized(b"\x08" + b"\xff" * 20),  # a number without an end
        sized(b"\x0b\x0b\x0b"),  # groups, which the format does not use
        sized(b"\x07"),  # a wire type that does not exist
        sized(b"\x1a\x05ab"),
    ],
)
def test_hostile_headers_are_damage(tmp_path: Path, tail: bytes) -> None:
    found = layout(tmp_path, WHOLE + tail)
    assert found.damaged or found.cut
    assert found.results == 3


def test_a_payload_longer_than_the_file_is_a_cut(tmp_path: Path) -> None:
    found = layout(tmp_path, WHOLE + sized(message({2: 1, 5: 0xFFFFFFFF})))
    assert (found.cut, found.results) == (True, 4)


def test_a_first_result_with_a_wrong_length_is_left_alone(tmp_path: Path) -> None:
    payload = struct.pack("<I", 0xFFFFFFF0) + b"abc"
    assert layout(tmp_path, report(session(), block({2: 1}, payload))).session.clock_control == "none"


def test_nesting_is_not_followed() -> None:
    data = b""
    for _ in range(2000):
        data = message({1: data})
    assert [key for key, _ in fields(data)] == [1]


def test_random_damage_ends_in_an_answer(tmp_path: Path) -> None:
    chance = random.Random(1)
    start = time.perf_counter()
    for _ in range(1500):
        data = bytearray(WHOLE)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        layout(tmp_path, bytes(data[: chance.randint(4, len(data))]))
    assert time.perf_counter() - start < 20


# A frame of one raw block of 3 bytes with its size in the header, and one with a checksum and a second, RLE block.
ONE = b"\x28\xb5\x2f\xfd\x20\x03" + (3 << 3 | 1).to_bytes(3, "little") + b"abc"
TWO = (
    b"\x28\xb5\x2f\xfd\x04\x58"
    + (3 << 3).to_bytes(3, "little")
    + b"abc"
    + (900 << 3 | 1 << 1 | 1).to_bytes(3, "little")
    + b"x"
    + b"sum."
)


@pytest.mark.parametrize("whole", [ONE, TWO])
def test_a_cut_zstd_frame_is_noticed(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "report.ncu-repz"
    for size in range(4, len(whole) + 1):
        path.write_bytes(whole[:size])
        assert compressed_is_cut(path) == (size < len(whole)), size
