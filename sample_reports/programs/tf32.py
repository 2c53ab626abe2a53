"""A product of two float32 matrices of 4096 x 4096, a few times.

Usage: python3 tf32.py off|on

off  PyTorch's default: the FP32 units
on   torch.set_float32_matmul_precision("high"): TF32 on the tensor cores
"""

import sys

import torch

SIZE = 4096
PASSES = 5


def main() -> None:
    if sys.argv[1:] not in (["off"], ["on"]):
        sys.exit("usage: python3 tf32.py off|on")
    torch.set_float32_matmul_precision("high" if sys.argv[1] == "on" else "highest")
    torch.manual_seed(0)
    a, b = (torch.randn(SIZE, SIZE, device="cuda") for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for _ in range(PASSES):
        with torch.cuda.nvtx.range("product"):
            c = a @ b
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    sys.stdout.write(f"{sys.argv[1]}: mean square {c.square().mean().item():.3f}\n")


if __name__ == "__main__":
    main()
