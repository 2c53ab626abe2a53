"""Writes an nsys SQLite file of any size: a training job of one or two GPUs, the same bytes for the same arguments.

    python benchmarks/generate_timeline.py -n 1000000 OUT.sqlite [--gpus 1|2] [--seed 0]

The schema is that of nsys 2025.5 (`nsys_schema.sql`). Each GPU has a process with a main thread, which launches the
forward pass and the optimiser, and a thread for the backward pass; a step launches a thousand kernels of about a
hundred names on three streams, with copies, memory clears, waits and NVTX ranges for the step, its parts and layers.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]
Rows = dict[str, Iterable[tuple[object, ...]]]
"""What is to be inserted, by the keys of INSERT and in the order of its statements."""

LAYERS = 24
FORWARD_PER_LAYER = 14
BACKWARD_PER_LAYER = 22
LOSS_KERNELS = 16
OPTIMIZER_KERNELS = 120
STEP_KERNELS = LAYERS * (FORWARD_PER_LAYER + BACKWARD_PER_LAYER) + LOSS_KERNELS + OPTIMIZER_KERNELS

COMPUTE, SIDE, NCCL = 7, 21, 25
"""Streams; 7 is nsys's number of the default stream."""

START_NS = 1_000_000_000
BETWEEN_KERNELS_NS = (600, 1_500)
LAUNCH_LATENCY_NS = 4_000
VM = 1 << 48
"""The virtual machine in the high bits of nsys's ids of processes and threads."""

CALLS = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020", "cudaStreamSynchronize_v3020")
LAUNCH, COPY, CLEAR, WAIT = range(len(CALLS))
PARTS = ("data", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class Kernels:
    """What a step launches, in order. ``name`` is a place in the list of names, ``duration`` the usual one in ns."""

    name: npt.NDArray[np.int64]
    duration: npt.NDArray[np.float64]
    stream: npt.NDArray[np.int64]
    grid: npt.NDArray[np.int64]
    block: npt.NDArray[np.int64]
    registers: npt.NDArray[np.int64]
    shared: npt.NDArray[np.int64]


def kernel_names() -> list[tuple[str, str, str]]:
    """Demangled, short and mangled names, as nsys writes them: products first, then norms, then elementwise ones."""
    products = [
        f"nvjet_sm90_tst_{m}x{n}_64x{stages}_{cluster}_h_bz_{form}"
        for m, n in ((64, 64), (128, 128), (128, 256), (192, 128), (256, 128))
        for stages, cluster in ((4, "1x2"), (6, "2x1"))
        for form in ("coopA_TNT", "coopB_NNT", "NTT", "TNN")
    ]
    norms = ["vectorized_layer_norm_kernel", "layer_norm_grad_input_kernel", "GammaBetaBackwardCUDAKernelTemplate"]
    norms += ["softmax_warp_forward", "softmax_warp_backward", "nll_loss_forward_reduce_cuda_kernel_2d"]
    functors = ["AddFunctor", "MulFunctor", "GeluCUDAKernelImpl", "GeluBackwardCUDAKernelImpl", "FillFunctor"]
    functors += ["bfloat16_copy_kernel_cuda", "direct_copy_kernel_cuda", "sqrt_kernel_cuda", "addcdiv_cuda_kernel"]
    elementwise = [
        (width, functor, kind) for width in (2, 4, 8) for functor in functors for kind in ("float", "bfloat16")
    ]
    return [
        *((name, name, name) for name in products),
        *(
            (
                f"void at::native::<unnamed>::{name}<{kind}, float>(int, T2, const T1 *)",
                name,
                f"_ZN2at6native{name}I{kind}E",
            )
            for name in norms
            for kind in ("float", "c10::BFloat16")
        ),
        *(
            (
                f"void at::native::vectorized_elementwise_kernel<(int){width}, at::native::{functor}<{kind}>, "
                "std::array<char *, (unsigned long)3>>(int, T2, T3)",
                "vectorized_elementwise_kernel",
                f"_ZN2at6native29vectorized_elementwise_kernelILi{width}E{functor}{kind}E",
            )
            for width, functor, kind in elementwise
        ),
        *((name, name.partition("(")[0], name.partition("(")[0]) for name in NCCL_NAMES),
    ]


NCCL_NAMES = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",)


def step_of(names: list[tuple[str, str, str]], chance: np.random.Generator) -> Kernels:
    """The launches of every step: the same for each layer, a few large products among many small kernels."""
    products = [place for place, (name, *_) in enumerate(names) if name.startswith("nvjet")]
    small = [place for place, (name, *_) in enumerate(names) if not name.startswith(("nvjet", "nccl"))]

    def part(length: int, product_share: float) -> npt.NDArray[np.int64]:
        chosen = chance.choice(small, length)
        large = chance.random(length) < product_share
        chosen[large] = chance.choice(products, int(large.sum()))
        return chosen

    backward = np.tile(part(BACKWARD_PER_LAYER, 0.35), LAYERS)
    name = np.concatenate(
        (
            np.tile(part(FORWARD_PER_LAYER, 0.3), LAYERS),
            part(LOSS_KERNELS, 0.1),
            backward,
            np.tile(part(OPTIMIZER_KERNELS // 12, 0.0), 12),
        )
    )
    stream = np.full(len(name), COMPUTE)
    first_backward = LAYERS * FORWARD_PER_LAYER + LOSS_KERNELS
    in_backward = np.arange(len(name)) - first_backward
    is_backward = (in_backward >= 0) & (in_backward < len(backward))
    stream[is_backward & (in_backward % BACKWARD_PER_LAYER == 3)] = SIDE
    reduces = is_backward & (in_backward % (4 * BACKWARD_PER_LAYER) == 4 * BACKWARD_PER_LAYER - 1)
    stream[reduces], name[reduces] = NCCL, len(names) - 1
    is_product = np.isin(name, products)
    # By name, so that a name means the same work wherever it is launched.
    usual = np.where(np.isin(np.arange(len(names)), products), 1, 0) * 16_000 + chance.integers(
        1_500, 9_000, len(names)
    )
    usual[-1] = 240_000
    return Kernels(
        name=name,
        duration=usual[name].astype(float),
        stream=stream,
        grid=np.where(is_product, 132, chance.integers(1, 64, len(names))[name] * 128),
        block=np.where(is_product, 384, 128),
        registers=np.where(is_product, 168, 32),
        shared=np.where(is_product, 200_704, 0),
    )


def queued(ready: Ns, taken: Ns, stream: npt.NDArray[np.int64], free: dict[int, int]) -> Ns:
    """When each op starts: as soon as it is ready and the ops before it in its stream are done.

    start[i] = max(ready[i], start[i-1] + taken[i-1]) is, with the sum of what lies before, a running maximum.
    ``taken`` is the op with the gap behind it. ``free`` is when each stream is free, and is brought up to date.
    """
    start = np.empty_like(ready)
    for one in np.unique(stream):
        rows = np.flatnonzero(stream == one)
        before = np.concatenate(([0], np.cumsum(taken[rows])[:-1]))
        earliest = ready[rows].copy()
        earliest[0] = max(earliest[0], free.get(int(one), 0))
        start[rows] = np.maximum.accumulate(earliest - before) + before
        free[int(one)] = int(start[rows[-1]] + taken[rows[-1]])
    return start


class Rank:
    """One process with its GPU: the state from step to step."""

    def __init__(self, gpu: int, kernels: Kernels, seed: int) -> None:
        self.gpu = gpu
        self.kernels = kernels
        self.pid = 4_000 + gpu
        self.process = VM | self.pid << 24
        self.main = self.process | self.pid
        self.autograd = self.process | self.pid + 100
        self.chance = np.random.default_rng((seed, gpu))
        self.now = START_NS + gpu * 50_000
        self.free: dict[int, int] = {}
        self.correlation = 1

    def step(
        self, number: int, kernel_count: int, text_ids: dict[str, int], name_ids: list[tuple[int, int, int]]
    ) -> Rows:
        """The rows of one step with its first ``kernel_count`` kernels."""
        kernels, chance = self.kernels, self.chance
        begin = self.now
        # A batch in fifty comes late.
        data_end = begin + int(chance.integers(200_000, 600_000)) + (20_000_000 if number % 50 == 49 else 0)

        # Calls: two copies of the batch, two clears, the launches, the copy of the loss, the wait.
        kind = np.full(kernel_count + 6, LAUNCH)
        kind[:2], kind[2:4], kind[-2], kind[-1] = COPY, CLEAR, COPY, WAIT
        length = chance.lognormal(np.log(4_200), 0.25, len(kind)).astype(np.int64)
        pause = chance.lognormal(np.log(2_300), 0.4, len(kind)).astype(np.int64)
        start = data_end + np.cumsum(length + pause) - length
        end = start + length
        correlation = self.correlation + np.arange(len(kind))
        self.correlation += len(kind)

        ran = (chance.lognormal(0, 0.05, kernel_count) * kernels.duration[:kernel_count]).astype(np.int64)
        took = np.concatenate(([380_000, 4_000, 1_100, 1_100], ran, [1_500]))
        stream = np.concatenate((np.full(4, COMPUTE), kernels.stream[:kernel_count], [COMPUTE]))
        gap = chance.integers(*BETWEEN_KERNELS_NS, len(took))
        op_start = queued(end[:-1] + LAUNCH_LATENCY_NS, took + gap, stream, self.free)
        op_end = op_start + took
        done = int(op_end.max())
        end[-1] = max(int(end[-1]), done + 3_000)
        self.now = int(end[-1]) + 20_000

        first_backward = 4 + LAYERS * FORWARD_PER_LAYER + LOSS_KERNELS
        last_backward = first_backward + LAYERS * BACKWARD_PER_LAYER
        thread = np.full(len(kind), self.main)
        thread[first_backward : min(last_backward, len(kind) - 2)] = self.autograd

        inner = slice(4, 4 + kernel_count)
        names = [name_ids[one] for one in kernels.name[:kernel_count].tolist()]

        def of_op(place: int) -> tuple[int, int, int, int, int, int]:
            return (
                int(op_start[place]),
                int(op_end[place]),
                self.gpu,
                int(stream[place]),
                int(correlation[place]),
                self.process,
            )

        return {
            "calls": zip(
                start.tolist(),
                end.tolist(),
                thread.tolist(),
                correlation.tolist(),
                [text_ids[CALLS[one]] for one in kind.tolist()],
                strict=True,
            ),
            "kernels": zip(
                op_start[inner].tolist(),
                op_end[inner].tolist(),
                [self.gpu] * kernel_count,
                stream[inner].tolist(),
                correlation[inner].tolist(),
                [self.process] * kernel_count,
                *zip(*names, strict=True),
                kernels.registers[:kernel_count].tolist(),
                kernels.grid[:kernel_count].tolist(),
                kernels.block[:kernel_count].tolist(),
                kernels.shared[:kernel_count].tolist(),
                strict=True,
            ),
            # The larger copy is from pageable memory in one step of ten.
            "copies": [
                (*of_op(0), 16_777_216, 1, 0 if number % 10 == 9 else 1, 2),
                (*of_op(1), 65_536, 1, 1, 2),
                (*of_op(len(op_start) - 1), 4, 2, 2, 1),
            ],
            "clears": [(*of_op(2), 4_096), (*of_op(3), 4_096)],
            "waits": [(int(start[-1]), int(end[-1]), self.gpu, COMPUTE, int(correlation[-1]), self.process)],
            "os_calls": [(begin + 20_000, data_end - 20_000, self.main, text_ids["poll"])],
            "ranges": self.ranges(number, begin, data_end, start, end, text_ids),
        }

    def ranges(
        self, number: int, begin: int, data_end: int, start: Ns, end: Ns, text_ids: dict[str, int]
    ) -> list[tuple[object, ...]]:
        """NVTX ranges: the step's name as text of its own, the others registered."""
        found: list[tuple[object, ...]] = [
            (begin, int(end[-1]) + 10_000, f"step {number}", self.main, None),
            (begin + 5_000, data_end, None, self.main, text_ids["data"]),
        ]
        last = len(start) - 2

        def add(first: int, after: int, name: str) -> None:
            if first < last:
                found.append((int(start[first]), int(end[min(after, last) - 1]), None, self.main, text_ids[name]))

        first_backward = 4 + LAYERS * FORWARD_PER_LAYER + LOSS_KERNELS
        last_backward = first_backward + LAYERS * BACKWARD_PER_LAYER
        add(4, first_backward, "forward")
        for layer in range(LAYERS):
            first = 4 + layer * FORWARD_PER_LAYER
            add(first, first + FORWARD_PER_LAYER, f"layer {layer}")
        add(first_backward, last_backward, "backward")
        add(last_backward, last, "optimizer")
        return found


INSERT = {
    "calls": "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
    "kernels": """INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (
        ?, ?, ?, 1, 0, ?, ?, ?, ?, ?, ?, 1, 1, ?, ?, 1, 1, ?, 1, 1, 0, ?, 0, 0, 1, 32768,
        NULL, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 1, 0, 0)""",
    "copies": """INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (
        ?, ?, ?, 1, 0, ?, ?, ?, ?, ?, NULL, ?, ?, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)""",
    "clears": "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?, ?, ?, 1, 0, ?, ?, ?, 0, ?, NULL, 2)",
    "waits": "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, ?, 1, 0, ?, ?, ?, NULL, 3, 0, 0)",
    "os_calls": "INSERT INTO OSRT_API VALUES (?, ?, 27, ?, ?, 0, 0, 0)",
    "ranges": """INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId)
        VALUES (?, ?, 59, ?, ?, ?, 0)""",
}


def write_texts(database: sqlite3.Connection, names: list[tuple[str, str, str]]) -> dict[str, int]:
    """Fills StringIds. Returns the id of each text."""
    layers = [f"layer {layer}" for layer in range(LAYERS)]
    threads = ["python", "pt_autograd_0"]
    texts = dict.fromkeys([*CALLS, "poll", *PARTS, *layers, *threads, *(part for name in names for part in name)])
    ids = {text: place for place, text in enumerate(texts, 1)}
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(place, text) for text, place in ids.items()])
    return ids


def write_machine(database: sqlite3.Connection, ranks: list[Rank], text_ids: dict[str, int], end_ns: int) -> None:
    database.executemany(
        "INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
        [
            ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
            ("EXPORT_PRODUCT_VERSION", "2025.5.2.266"),
            ("EXPORT_SCHEMA_VERSION", "3.24.0"),
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "24"),
            ("EXPORT_SCHEMA_VERSION_MICRO", "0"),
        ],
    )
    database.execute("INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)", (VM, end_ns, end_ns))
    wall = "2025-06-15T15:06:40"
    database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, ?, ?)", (1_750_000_000 * 10**9, wall, wall))
    for rank in ranks:
        gpu = {
            "vmId": VM,
            "id": rank.gpu,
            "cuDevice": rank.gpu,
            "name": "NVIDIA H200",
            "chipName": "GH100",
            "isDiscrete": 1,
            "l2CacheSize": 62_914_560,
            "totalMemory": 150_109_880_320,
            "memoryBandwidth": 4_814_304_000_000,
            "clockRate": 1_980_000_000,
            "smCount": 132,
            "maxWarpsPerSm": 64,
            "maxBlocksPerSm": 32,
            "threadsPerWarp": 32,
            "computeMajor": 9,
            "computeMinor": 0,
        }
        marks = ", ".join("?" * len(gpu))
        database.execute(f"INSERT INTO TARGET_INFO_GPU ({', '.join(gpu)}) VALUES ({marks})", list(gpu.values()))
        database.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?)", (rank.gpu, rank.gpu, rank.pid))
        database.execute(
            "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (?, 0, 1, ?, ?, 1, 0, 0)", (COMPUTE, rank.pid, rank.gpu)
        )
        database.executemany(
            "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?, 0, 1, ?, 1, 0, 1)",
            [(stream, rank.pid) for stream in (COMPUTE, SIDE, NCCL)],
        )
        database.execute("INSERT INTO PROCESSES VALUES (?, ?, 'python')", (rank.process, rank.pid))
        database.executemany(
            "INSERT INTO ThreadNames VALUES (?, 20, ?)",
            [(text_ids["python"], rank.main), (text_ids["pt_autograd_0"], rank.autograd)],
        )


def generate(path: Path, kernel_count: int, gpus: int = 2, seed: int = 0) -> None:
    """Writes ``path`` with exactly ``kernel_count`` kernels; an existing file is replaced."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    # A file that a stopped run leaves half written is made again: no need to be safe, only quick.
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.executescript(Path(__file__).with_name("nsys_schema.sql").read_text(encoding="utf-8"))

    names = kernel_names()
    kernels = step_of(names, np.random.default_rng(seed))
    ranks = [Rank(gpu, kernels, seed) for gpu in range(gpus)]
    database.execute("BEGIN")
    text_ids = write_texts(database, names)
    name_ids = [(text_ids[long], text_ids[short], text_ids[mangled]) for long, short, mangled in names]
    number, left = 0, kernel_count
    while left:
        for rank in ranks:
            count = min(left, STEP_KERNELS)
            if count:
                rows = rank.step(number, count, text_ids, name_ids)
                for table, statement in INSERT.items():
                    database.executemany(statement, rows[table])
                left -= count
        number += 1
    write_machine(database, ranks, text_ids, max(rank.now for rank in ranks))
    database.execute("COMMIT")
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("-n", "--kernels", type=int, default=1_000_000)
    parser.add_argument("--gpus", type=int, choices=(1, 2), default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.perf_counter()
    generate(options.out, options.kernels, options.gpus, options.seed)
    size = options.out.stat().st_size
    print(f"{options.out}: {options.kernels:,} kernels, {size / 1e6:.0f} MB, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
