"""Small databases with the tables that nsys exports."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROCESS = (1 << 48) + (1234 << 24)
"""The globalPid of process 1234."""
OTHER = (1 << 48) + (4321 << 24)
MAIN, WORKER = PROCESS + 1234, PROCESS + 1240
"""The globalTids of two of its threads."""

Rows = Sequence[Mapping[str, Any]]

SCHEMA = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
    "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, "
    "gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, "
    "blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
    "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, "
    "sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, "
    "dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, "
    "migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "graphId INTEGER NOT NULL, graphExecId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
    "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, "
    "callchainId INTEGER",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
    "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, "
    "domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, "
    "int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT",
    "OSRT_API": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
    "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER NOT NULL",
    "PROFILER_OVERHEAD": "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL, "
    "returnValue INTEGER NOT NULL",
    "COMPOSITE_EVENTS": "id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER, "
    "globalTid INTEGER, cpuCycles INTEGER NOT NULL",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, address INTEGER NOT NULL, "
    "originalFaultPc INTEGER, CpuInstruction INTEGER NOT NULL, module INTEGER NOT NULL, unresolvedFaultPc INTEGER",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start INTEGER NOT NULL, end INTEGER NOT NULL, globalPid INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, address INTEGER NOT NULL, numberOfPageFaults INTEGER NOT NULL, "
    "faultAccessType INTEGER NOT NULL",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, value INTEGER NOT NULL",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, "
    "metricId INTEGER NOT NULL, metricName TEXT NOT NULL",
    "TARGET_INFO_GPU": "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, l2CacheSize INTEGER, "
    "clockRate INTEGER, smCount INTEGER, cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER",
    "TARGET_INFO_CUDA_GPU": "vmId INTEGER NOT NULL, name TEXT NOT NULL, l2CacheSize INTEGER NOT NULL, "
    "coreClockRate INTEGER NOT NULL, numMultiprocessors INTEGER NOT NULL, computeCapabilityMajor INTEGER NOT NULL, "
    "computeCapabilityMinor INTEGER NOT NULL, deviceId INTEGER NOT NULL, pid INTEGER NOT NULL",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, "
    "processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, parentContextId INTEGER",
    "TARGET_INFO_NVTX_CUDA_STREAM": "name TEXT NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, "
    "processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, nameEnum INTEGER, "
    "value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "META_DATA_CAPTURE": "name TEXT NOT NULL, value TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL, "
    "severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "MPI_RANKS": "globalTid INTEGER NOT NULL, rank INTEGER NOT NULL",
}
"""As of nsys 2023.4, from ``nsys export --lazy=false``; ``CUPTI_ACTIVITY_KIND_GRAPH_TRACE`` and ``DIAGNOSTIC_EVENT`` as
later ones have them."""


def database(path: Path, **tables: Rows) -> Path:
    """A file with these tables and no others. Columns that may not be NULL and are not given are 0 or empty."""
    with sqlite3.connect(path) as connection:
        for table, rows in tables.items():
            connection.execute(f"CREATE TABLE {table} ({SCHEMA[table]})")
            insert(connection, table, rows)
    connection.close()
    return path


def insert(connection: sqlite3.Connection, table: str, rows: Rows) -> None:
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    names = [name for _, name, *_ in columns]
    filler = {
        name: ("" if type == "TEXT" else 0) if not_null and not key else None
        for _, name, type, not_null, _, key in columns
    }
    connection.executemany(
        f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})",
        [[(filler | dict(row))[name] for name in names] for row in rows],
    )


def strings(*texts: str) -> Rows:
    """StringIds: the first text has id 1."""
    return [{"id": id, "value": text} for id, text in enumerate(texts, 1)]


def kernel(start: int, end: int, **columns: Any) -> dict[str, Any]:
    """A kernel of name 1 on stream 7."""
    return {
        "start": start, "end": end, "streamId": 7, "contextId": 1, "globalPid": PROCESS, "demangledName": 1,
        "shortName": 1, "gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1,
        "registersPerThread": 32, **columns,
    }  # fmt: skip


def copy(start: int, end: int, **columns: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "streamId": 7, "contextId": 1, "globalPid": PROCESS, **columns}


def call(start: int, end: int, correlation: int, **columns: Any) -> dict[str, Any]:
    """An API call of the main thread, of name 2."""
    return {"start": start, "end": end, "globalTid": MAIN, "correlationId": correlation, "nameId": 2, **columns}


def pushed(start: int, end: int | None, text: str | None, **columns: Any) -> dict[str, Any]:
    """An NVTX push/pop range of the main thread."""
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": MAIN, "domainId": 0, **columns}
