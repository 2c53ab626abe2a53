"""Matrix products of known size, one per kind of number, to see what NVIDIA's counters of tensor operations count.

Each is a product of 4096 x 4096 x 4096, so 2 * 4096**3 operations, in an NVTX range of its kind's name. The command
that collects them stands in ``tensor_counts.sh``.
"""

from collections.abc import Callable

import torch

SIZE = 4096
KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32, "fp64": torch.float64}


def product(kind: str) -> Callable[[], torch.Tensor]:
    """A function that runs the product once; its inputs are on the GPU already."""
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    if kind == "fp8":
        a = torch.ones(SIZE, SIZE, device="cuda").to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if kind == "int8":
        b = torch.ones(SIZE, SIZE, device="cuda", dtype=torch.int8)
        return lambda: torch._int_mm(b, b.t())
    c = torch.randn(SIZE, SIZE, device="cuda").to(KINDS[kind])
    return lambda: c @ c


def main() -> None:
    for kind in ("bf16", "fp16", "tf32", "fp64", "fp8", "int8"):
        try:
            run = product(kind)
            run()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            with torch.cuda.nvtx.range(kind):
                run()
            torch.cuda.synchronize()
        except RuntimeError as error:
            print(f"{kind}: {error}")
        finally:
            torch.cuda.profiler.stop()


if __name__ == "__main__":
    main()
