"""A kernel that each rule of the compute family is made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from built import A100, DEVICE, memory_parts, sm_parts
from gputui.model.device import Device

Numbers = Mapping[str, Any]

B200 = Device("NVIDIA B200", (10, 0), 148)

WAITING: Numbers = {
    "duration": 1e6, "grid_size": 1000.0, "block_size": 256.0, "sm_count": 100.0, "sm_pct": 20.0, "memory_pct": 25.0,
}  # fmt: skip
"""Latency-bound: at most 100 / 25 = 4 times."""

CLOCKS: Numbers = {"sm_clock": 1.41e9, "smsp_clock": 1.41e9}
"""Those of the A100's data sheet: 156 TFLOP/s in TF32, 312 in bf16 and fp16."""

SGEMM: Numbers = {
    **WAITING, **CLOCKS, "sm_count": 108.0, "sm_pct": 90.0, "memory_pct": 20.0, "dram_pct": 2.0, "tensor_pct": 0.0,
    "fadd_per_cycle": 0.0, "fmul_per_cycle": 0.0, "ffma_per_cycle": 5000.0,
}  # fmt: skip
"""2 x 5000 FLOP a cycle: 14.1 TFLOP/s."""

HGEMM: Numbers = {
    **WAITING, **CLOCKS, "sm_count": 108.0, "sm_pct": 70.0, "memory_pct": 20.0, "dram_pct": 2.0, "tensor_pct": 0.0,
    "pipe_fp16_pct": 60.0, "hadd_per_cycle": 0.0, "hmul_per_cycle": 0.0, "hfma_per_cycle": 5000.0,
}  # fmt: skip
"""4 x 5000 FLOP a cycle: 28.2 TFLOP/s."""

HOPPER: Numbers = {
    **WAITING, "sm_pct": 60.0, "memory_pct": 30.0, "dram_pct": 10.0, "l2_pct": 30.0, "tensor_pct": 66.0,
    "tensor_type_pct": 60.0, "tensor_gmma_pct": 0.0, **sm_parts(pipe_tensor_cycles_active=60),
    "opcode_total": {"HMMA": 1e6, "LDSM": 1e5},
}  # fmt: skip
"""mma.sync 60 % of the elapsed time: the same at wgmma's rate takes 40 %."""

BLACKWELL: Numbers = {**WAITING, "tensor_pct": 12.5, "tensor_tc_pct": 0.0}

PRODUCT: Numbers = {
    **WAITING, "sm_pct": 70.0, "memory_pct": 50.0, "tensor_pct": 75.0, "tensor_gmma_pct": 5.0, "tensor_ops_bf16": 1e12,
}  # fmt: skip

TILES: Numbers = {
    **WAITING, "issue_active": 0.3, "warp_latency": 20.0, "stall_long_scoreboard": 6.0, "stall_barrier": 4.0,
    "opcode_total": {"LDG": 100.0, "STS": 100.0, "LDS": 400.0, "FFMA": 1000.0, "IADD3": 400.0},
}  # fmt: skip
"""Half of the wait is for tiles."""

ALU: Numbers = {
    **WAITING, "sm_pct": 80.0, "memory_pct": 20.0,
    **sm_parts(pipe_alu_cycles_active=80, issue_active=50, pipe_fma_cycles_active=30),
    **memory_parts(lts__t_sectors=20),
}  # fmt: skip

UNFUSED: Numbers = {
    **WAITING, "sm_pct": 80.0, "memory_pct": 20.0, "fadd_per_cycle": 1000.0, "fmul_per_cycle": 1000.0,
    "ffma_per_cycle": 100.0, "pipe_fma_pct": 80.0, **sm_parts(pipe_fma_cycles_active=80, issue_active=70),
}  # fmt: skip

MASKED: Numbers = {
    **WAITING, "sm_pct": 90.0, "memory_pct": 20.0, **sm_parts(issue_active=90), "threads_per_inst": 30.0,
    "threads_per_inst_pred": 15.0,
}  # fmt: skip

CHAIN: Numbers = {
    **WAITING, "issue_active": 0.3, "eligible_warps": 0.4, "warp_latency": 20.0, "stall_wait": 6.0,
    "stall_short_scoreboard": 6.0, "stall_long_scoreboard": 2.0, "achieved_occupancy_pct": 70.0,
}  # fmt: skip

HITS: Mapping[str, tuple[Numbers, str, Device]] = {
    "tf32-off": (SGEMM, "ampere_sgemm_128x64_nn", A100),
    "fp16-without-tensor": (HGEMM, "my_gemm", A100),
    "hopper-features-unused": (HOPPER, "my_gemm", DEVICE),
    "blackwell-features-unused": (BLACKWELL, "my_gemm", B200),
    "fp8-opportunity": (PRODUCT, "my_gemm", DEVICE),
    "async-copy-unused": (TILES, "kernel", A100),
    "pipe-saturated": (ALU, "kernel", DEVICE),
    "unfused-math": (UNFUSED, "kernel", DEVICE),
    "predication": (MASKED, "kernel", DEVICE),
    "low-ilp": (CHAIN, "kernel", DEVICE),
}
