"""Builds Nsight Compute report files byte by byte, for the tests."""

from __future__ import annotations

import struct

Fields = dict[int, "int | bytes | str | Fields | list[Fields]"]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(fields: Fields) -> bytes:
    out = b""
    for key, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                out += varint(key << 3) + varint(one)
                continue
            data = one.encode() if isinstance(one, str) else message(one) if isinstance(one, dict) else one
            out += varint(key << 3 | 2) + varint(len(data)) + data
    return out


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def block(header: Fields, payload: bytes = b"") -> bytes:
    return sized(message({**header, 5: len(payload)})) + payload


def report(*blocks: bytes) -> bytes:
    return b"NVR\0" + sized(message({1: 7})) + b"".join(blocks)


COMMAND = "/opt/ncu --set full --clock-control none --cache-control=none -o out ./app --replay-modes"


def session(command: str | None = COMMAND, **settings: str) -> bytes:
    details: Fields = {2: 1700000000, 8: [{1: "CUDA Version", 2: "12.9"}]}
    if command is not None:
        details[11] = command
    if settings:
        details[10] = {8: settings["clock"], 11: settings["replay"]}
    return block({1: 0, 2: 0, 3: details})


VERSION = block({3: {8: [{1: "Nsight Compute Target", 2: "2025.2.1.0 (build 35987062) (public-release)"}]}})
SOURCE = block({1: 1, 2: 0}, sized(message({1: 1, 2: "code"})))


def results(count: int, locked: bool | None = None) -> bytes:
    one: Fields = {1: 1, 6: "kernel"}
    if locked is not None:
        one[25] = {1: 1, 2: int(locked)}
    return block({1: 0, 2: count}, sized(message(one)) * count)
