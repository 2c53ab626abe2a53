"""Makes a report of Nsight Compute small: python3 slim.py REPORT SMALL_REPORT [without-sections]

Every metric keeps its value. What goes are the values per instruction and per unit (but for the counts per opcode),
the layouts of tables and charts, and the machine code, which together are nine tenths of a full report. Without the
sections, which say in what order NVIDIA shows the metrics, half of the rest goes too. The format is described by the
message definitions that ship with Nsight Compute (extras/FileFormat).
"""

import struct
import sys

# Field numbers of the message definitions.
HEADER_SOURCES, HEADER_RESULTS, HEADER_STRINGS, HEADER_PAYLOAD = 1, 2, 4, 5
RESULT_METRIC, RESULT_SOURCE, RESULT_SECTIONS = 13, 15, 17
METRIC_NAME, METRIC_INSTANCES = 1, 3

KEEPS_INSTANCES = {b"sass__inst_executed_per_opcode"}


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data):
    """(field number, value, the field's own bytes) of one message."""
    at = 0
    while at < len(data):
        start = at
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if kind == 2 else (8 if kind == 1 else 4, at)
            value = data[at : at + size]
            at += size
        yield key >> 3, value, data[start:at]


def sized(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def slim_metric(metric, names):
    name = names[next(value for number, value, _ in fields(metric) if number == METRIC_NAME)]
    if name.startswith(b"group:"):
        return b""
    if name in KEEPS_INSTANCES:
        return sized(RESULT_METRIC, metric)
    return sized(RESULT_METRIC, b"".join(raw for number, _, raw in fields(metric) if number != METRIC_INSTANCES))


def slim_result(result, names, with_sections):
    return b"".join(
        slim_metric(value, names) if number == RESULT_METRIC else sized(number, b"") if number == RESULT_SOURCE else raw
        for number, value, raw in fields(result)
        if with_sections or number != RESULT_SECTIONS
    )


def messages(data):
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def framed(data):
    return struct.pack("<I", len(data)) + data


def slim(data, with_sections=True):
    """The bytes of the small report."""
    (size,) = struct.unpack_from("<I", data, 4)
    at = 8 + size
    out = [data[:at]]
    names = []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        header = data[at + 4 : at + 4 + size]
        at += 4 + size
        table = {number: value for number, value, _ in fields(header)}
        payload = data[at : at + table.get(HEADER_PAYLOAD, 0)]
        at += len(payload)
        names += [value for _, value, _ in fields(table.get(HEADER_STRINGS, b""))]
        sources, results = table.get(HEADER_SOURCES, 0), table.get(HEADER_RESULTS, 0)
        parts = list(messages(payload))
        assert len(parts) == sources + results, "only kernels are expected"
        small = b"".join(framed(slim_result(part, names, with_sections)) for part in parts[sources:])
        changed = {HEADER_SOURCES: 0, HEADER_PAYLOAD: len(small)}
        head = b"".join(
            varint(number << 3) + varint(changed[number]) if number in changed else raw
            for number, _, raw in fields(header)
        )
        out += [framed(head), small]
    return b"".join(out)


if __name__ == "__main__":
    source, target, *options = sys.argv[1:]
    with open(source, "rb") as file:
        small = slim(file.read(), with_sections="without-sections" not in options)
    with open(target, "wb") as file:
        file.write(small)
    print(f"{target}: {len(small):,} bytes")
