"""Planted problems in Triton kernels, each with its cure. See README.md; bench.py runs the pairs."""

from __future__ import annotations

import bench
import torch
import triton
import triton.language as tl
from bench import Bench, case

DEVICE = "cuda"


# ---------------------------
# Products: depth of pipeline
# ---------------------------


@triton.jit
def matmul_tiles_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, precision: tl.constexpr,
    stages: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(1) * block_m + tl.arange(0, block_m)
    columns = tl.program_id(0) * block_n + tl.arange(0, block_n)
    depth = tl.arange(0, block_k)
    a_ptrs = a_ptr + rows[:, None] * k + depth[None, :]
    b_ptrs = b_ptr + depth[:, None] * n + columns[None, :]
    sums = tl.zeros((block_m, block_n), dtype=tl.float32)
    for _ in tl.range(0, k, block_k, num_stages=stages):
        sums = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), sums, input_precision=precision)
        a_ptrs += block_k
        b_ptrs += block_k * n
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], sums)


def multiply(a, b, c, stages, precision="tf32", block=128, warps=8):
    m, k = a.shape
    n = b.shape[1]
    matmul_tiles_kernel[(n // block, m // block)](
        a, b, c, m, n, k, block, block, 64 if a.dtype == torch.bfloat16 else 32, precision, stages,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return c


@case("triton-stages")
def product_stages(run: Bench) -> None:
    n = 4096
    a, b = (torch.randn(n, n, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    slow, cured = (torch.empty(n, n, device=DEVICE) for _ in range(2))
    run.pair(lambda: multiply(a, b, slow, 1), lambda: multiply(a, b, cured, 4), 1e-3)


@case("triton-ieee")
def product_ieee(run: Bench) -> None:
    n = 2048
    a, b = (torch.randn(n, n, device=DEVICE) for _ in range(2))
    slow, cured = (torch.empty(n, n, device=DEVICE) for _ in range(2))
    run.pair(
        lambda: multiply(a, b, slow, 3, "ieee", block=64, warps=4),
        lambda: multiply(a, b, cured, 3, "tf32", block=64, warps=4),
        1e-2,
    )


# --------------------------------
# A product without the dot product
# --------------------------------


@triton.jit
def matmul_sums_kernel(a_ptr, b_ptr, c_ptr, m, n, k, block: tl.constexpr):
    rows = tl.program_id(1) * block + tl.arange(0, block)
    columns = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.zeros((block, block), dtype=tl.float32)
    for first in range(0, k, 8):
        for step in tl.static_range(8):
            # a is stored with its columns side by side, so that both reads are contiguous.
            left = tl.load(a_ptr + (first + step) * m + rows)
            right = tl.load(b_ptr + (first + step) * n + columns)
            sums += left[:, None] * right[None, :]
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], sums)


@case("triton-no-dot")
def product_without_dot(run: Bench) -> None:
    n = 2048
    a, b = (torch.randn(n, n, device=DEVICE) for _ in range(2))
    a_columns = a.t().contiguous()
    slow, cured = (torch.empty(n, n, device=DEVICE) for _ in range(2))

    def with_sums():
        matmul_sums_kernel[(n // 64, n // 64)](a_columns, b, slow, n, n, n, 64, num_warps=4)
        return slow

    run.pair(with_sums, lambda: multiply(a, b, cured, 3, block=64, warps=4), 1e-2)


# --------------
# Strided access
# --------------


@triton.jit
def columns_to_rows_kernel(in_ptr, out_ptr, m, n, block: tl.constexpr):
    column = tl.program_id(0)
    rows = tl.program_id(1) * block + tl.arange(0, block)
    tl.store(out_ptr + column * m + rows, tl.load(in_ptr + rows * n + column) * 0.5)


@triton.jit
def tiles_to_rows_kernel(in_ptr, out_ptr, m, n, block: tl.constexpr):
    columns = tl.program_id(0) * block + tl.arange(0, block)
    rows = tl.program_id(1) * block + tl.arange(0, block)
    tile = tl.load(in_ptr + rows[:, None] * n + columns[None, :]) * 0.5
    tl.store(out_ptr + columns[:, None] * m + rows[None, :], tl.trans(tile))


@case("triton-columns")
def strided_columns(run: Bench) -> None:
    m, n = 8192, 4096
    x = torch.randn(m, n, device=DEVICE)
    slow, cured = (torch.empty(n, m, device=DEVICE) for _ in range(2))

    def by_columns():
        columns_to_rows_kernel[(n, m // 1024)](x, slow, m, n, 1024, num_warps=4)
        return slow

    def by_tiles():
        tiles_to_rows_kernel[(n // 64, m // 64)](x, cured, m, n, 64, num_warps=8)
        return cured

    run.pair(by_columns, by_tiles, 0.0)


# --------------------------------------
# Softmax: spilled, and in several passes
# --------------------------------------


@triton.jit
def softmax_row_kernel(in_ptr, out_ptr, n: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, n)
    x = tl.load(in_ptr + row * n + at)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n + at, e / tl.sum(e, axis=0))


@triton.jit
def softmax_passes_kernel(in_ptr, out_ptr, n, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    largest = tl.full((block,), float("-inf"), dtype=tl.float32)
    for first in range(0, n, block):
        largest = tl.maximum(largest, tl.load(in_ptr + row * n + first + at))
    top = tl.max(largest, axis=0)
    total = tl.zeros((block,), dtype=tl.float32)
    for first in range(0, n, block):
        total += tl.exp(tl.load(in_ptr + row * n + first + at) - top)
    scale = 1.0 / tl.sum(total, axis=0)
    for first in range(0, n, block):
        x = tl.load(in_ptr + row * n + first + at)
        tl.store(out_ptr + row * n + first + at, tl.exp(x - top) * scale)


@case("triton-spill")
def spilled_row(run: Bench) -> None:
    rows, n = 1056, 32768
    x = torch.randn(rows, n, device=DEVICE)
    slow, cured = (torch.empty_like(x) for _ in range(2))

    def with_warps(out, warps):
        softmax_row_kernel[(rows,)](x, out, n, num_warps=warps)
        return out

    run.pair(lambda: with_warps(slow, 2), lambda: with_warps(cured, 16), 1e-4)


@case("triton-softmax-passes")
def softmax_passes(run: Bench) -> None:
    # All 2112 rows are under way at once (16 programs an SM): 138 MB, more than L2 holds.
    rows, n = 2112, 16384
    x = torch.randn(rows, n, device=DEVICE)
    slow, cured = (torch.empty_like(x) for _ in range(2))

    def in_passes():
        softmax_passes_kernel[(rows,)](x, slow, n, 1024, num_warps=4)
        return slow

    def in_one():
        softmax_row_kernel[(rows,)](x, cured, n, num_warps=16)
        return cured

    run.pair(in_passes, in_one, 1e-4)


# ------------
# A small grid
# ------------


@triton.jit
def sum_rows_kernel(in_ptr, out_ptr, n, part, block: tl.constexpr):
    row = tl.program_id(0)
    start = tl.program_id(1) * part
    total = tl.zeros((block,), dtype=tl.float32)
    for first in range(start, start + part, block):
        total += tl.load(in_ptr + row * n + first + tl.arange(0, block))
    tl.atomic_add(out_ptr + row, tl.sum(total, axis=0))


@case("triton-small-grid")
def small_grid(run: Bench) -> None:
    rows, n = 16, 1 << 20
    x = torch.rand(rows, n, device=DEVICE)
    out = torch.zeros(rows, device=DEVICE)

    def in_parts(parts):
        sum_rows_kernel[(rows, parts)](x, out, n, n // parts, 2048, num_warps=4)

    run.pair(lambda: in_parts(1), lambda: in_parts(64))


@case("triton-softmax")
def softmax_control(run: Bench) -> None:
    rows, n = 8192, 8192
    x = torch.randn(rows, n, device=DEVICE)
    out = torch.empty_like(x)
    run.control(lambda: softmax_row_kernel[(rows,)](x, out, n, num_warps=8) and None)


if __name__ == "__main__":
    bench.main()
