"""A PyTorch trace made of nothing, with numbers that can be checked by hand.

Each of ``STEPS`` steps takes 1000 µs. After 600 µs of reading data (the GPU has nothing to do) a pageable copy of
1,000,000 bytes runs for 100 µs, then two matrix products of 100 µs and an addition of 50 µs, end to end: the GPU is
busy for 350 of 1000 µs.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

STEPS = 8
COPY_BYTES = 1_000_000
GEMM = "ampere_sgemm_128x64_tn"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)"
)
PROCESS, THREAD, STREAM = 41, 42, 7
BUSY_US = 350
KERNELS = {GEMM: (2 * STEPS, 200 * STEPS), ADD: (STEPS, 50 * STEPS)}
"""Name → launches, µs in all."""

Event = dict[str, Any]


def whole(name: str, category: str, start: float, duration: float, *, thread: int = THREAD, **args: Any) -> Event:
    """One event, times in µs."""
    return {"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": thread, "ts": start, "dur": duration,
            "args": args}  # fmt: skip


def launched(
    number: int, name: str, category: str, called: float, start: float, duration: float, **args: Any
) -> list[Event]:
    """A GPU operation and the call that launched it."""
    call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
    operation = whole(name, category, start, duration, thread=STREAM, correlation=number, stream=STREAM, device=0,
                      context=1, **args)  # fmt: skip
    return [whole(call, "cuda_runtime", called, 5, correlation=number), operation]


def step(number: int, *, add: str = ADD, gemm: str = GEMM) -> list[Event]:
    start, first = 1000 * number, 10 * number + 1
    grid = {"grid": [64, 2, 1], "block": [256, 1, 1], "registers per thread": 122, "shared memory": 16384}
    small = {"grid": [8, 1, 1], "block": [128, 1, 1]}
    copy = "Memcpy HtoD (Pageable -> Device)"
    return [
        whole(f"ProfilerStep#{number}", "user_annotation", start, 999),
        whole("data", "user_annotation", start + 1, 600),
        whole("forward", "user_annotation", start + 602, 390),
        *launched(first, copy, "gpu_memcpy", start + 603, start + 610, 100, bytes=COPY_BYTES),
        *launched(first + 1, gemm, "kernel", start + 615, start + 710, 100, **grid),
        *launched(first + 2, gemm, "kernel", start + 622, start + 810, 100, **grid),
        *launched(first + 3, add, "kernel", start + 629, start + 910, 50, **small),
    ]


def document(events: list[Event], *, rank: int | None = None) -> dict[str, Any]:
    beside: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA Test GPU", "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }
    if rank is not None:
        beside["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    return {**beside, "traceEvents": events}


def loop(**changes: str) -> list[Event]:
    return [event for number in range(STEPS) for event in step(number, **changes)]


def write_trace(path: Path, events: list[Event] | None = None, *, rank: int | None = None) -> Path:
    """The loop, or these events, at ``path``; packed where it ends in ``.gz``."""
    text = json.dumps(document(loop() if events is None else events, rank=rank))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
