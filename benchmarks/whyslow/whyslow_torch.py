"""Planted problems in PyTorch code, each with its cure, and controls. See README.md; bench.py runs the pairs."""

from __future__ import annotations

import bench
import torch
from bench import Bench, case
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


# --------------------------------
# Products in the wrong arithmetic
# --------------------------------


@case("hopper-mma")
def hopper_mma(run: Bench) -> None:
    a, b = (random(4096, 4096, dtype=torch.bfloat16) for _ in range(2))
    run.cured_only(lambda: a @ b)


@case("torch-tf32-off")
def tf32_off(run: Bench) -> None:
    a, b = (random(2048, 2048) for _ in range(2))

    def product(precision: str) -> torch.Tensor:
        torch.set_float32_matmul_precision(precision)
        result = a @ b
        torch.set_float32_matmul_precision("highest")
        return result

    run.pair(lambda: product("highest"), lambda: product("high"), 1e-2)


@case("torch-conv-fp32")
def conv_fp32(run: Bench) -> None:
    x, weight = random(32, 128, 56, 56), random(128, 128, 3, 3)
    narrow_x = x.bfloat16().contiguous(memory_format=torch.channels_last)
    narrow_weight = weight.bfloat16().contiguous(memory_format=torch.channels_last)
    torch.backends.cudnn.allow_tf32 = False
    run.pair(
        lambda: functional.conv2d(x, weight, padding=1),
        lambda: functional.conv2d(narrow_x, narrow_weight, padding=1),
        2e-2,
    )


@case("torch-fp8")
def fp8(run: Bench) -> None:
    a, b = (random(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    narrow_a = a.to(torch.float8_e4m3fn)
    narrow_b = b.t().contiguous().to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=DEVICE)
    run.pair(
        lambda: a @ b,
        lambda: torch._scaled_mm(narrow_a, narrow_b, one, one, out_dtype=torch.bfloat16),
        0.1,
    )


@case("torch-gemv")
def gemv(run: Bench) -> None:
    weight = random(8192, 8192, dtype=torch.bfloat16)
    one, many = random(1, 8192, dtype=torch.bfloat16), random(512, 8192, dtype=torch.bfloat16)
    run.pair(lambda: functional.linear(one, weight), lambda: functional.linear(many, weight))


@case("torch-splitk")
def splitk(run: Bench) -> None:
    a, b = random(128, 131072, dtype=torch.bfloat16), random(131072, 128, dtype=torch.bfloat16)
    wide_a, wide_b = random(2048, 512, dtype=torch.bfloat16), random(512, 2048, dtype=torch.bfloat16)
    run.pair(lambda: a @ b, lambda: wide_a @ wide_b)


# -------------------------------
# Many kernels where one would do
# -------------------------------


@case("torch-attention")
def attention(run: Bench) -> None:
    q, k, v = (random(1, 8, 4096, 128, dtype=torch.bfloat16) for _ in range(3))

    def written_out() -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) * 128**-0.5
        return torch.matmul(torch.softmax(scores, dim=-1), v)

    def fused() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)

    run.pair(written_out, fused, 5e-2)


@case("torch-flash2")
def attention_generation(run: Bench) -> None:
    q, k, v = (random(2, 16, 4096, 128, dtype=torch.bfloat16) for _ in range(3))

    def by(backend: SDPBackend) -> torch.Tensor:
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v)

    run.pair(lambda: by(SDPBackend.FLASH_ATTENTION), lambda: by(SDPBackend.CUDNN_ATTENTION), 2e-2)


@case("torch-elementwise")
def elementwise(run: Bench) -> None:
    x, scale, bias = random(4096, 4096), random(4096), random(4096)

    def written_out(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * 1.702) * x * scale + bias

    compiled = torch.compile(written_out)
    run.pair(lambda: written_out(x, scale, bias), lambda: compiled(x, scale, bias), 1e-5)


@case("torch-rms-norm")
def rms_norm(run: Bench) -> None:
    x, weight = random(8192, 4096), random(4096)

    def written_out(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    compiled = torch.compile(written_out)
    run.pair(lambda: written_out(x, weight), lambda: compiled(x, weight), 1e-5)


@case("torch-layout")
def layout(run: Bench) -> None:
    x, weight, bias = random(32, 256, 64, 64), random(256), random(256)
    last = x.permute(0, 2, 3, 1).contiguous()

    def with_copies() -> torch.Tensor:
        h = functional.layer_norm(x.permute(0, 2, 3, 1).contiguous(), (256,), weight, bias)
        return h.permute(0, 3, 1, 2).contiguous()

    def channels_last() -> torch.Tensor:
        return functional.layer_norm(last, (256,), weight, bias).permute(0, 3, 1, 2)

    run.pair(with_copies, channels_last, 1e-5)


@case("torch-gather")
def gather(run: Bench) -> None:
    narrow, wide = random(1 << 23, 4), random(1 << 15, 1024)
    many = torch.randint(1 << 23, (1 << 22,), device=DEVICE)
    few = torch.randint(1 << 15, (1 << 14,), device=DEVICE)
    run.pair(lambda: functional.embedding(many, narrow), lambda: functional.embedding(few, wide))


# --------------------------
# Controls: nothing is wrong
# --------------------------


@case("product")
def product_control(run: Bench) -> None:
    a, b = (random(8192, 8192, dtype=torch.bfloat16) for _ in range(2))
    run.control(lambda: a @ b)


@case("attention-cudnn")
def attention_control(run: Bench) -> None:
    q, k, v = (random(1, 16, 8192, 128, dtype=torch.bfloat16) for _ in range(3))

    def fused() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)

    run.control(fused)


@case("torch-negate")
def negate_control(run: Bench) -> None:
    x = random(64 << 20)
    out = torch.empty_like(x)
    run.control(lambda: torch.neg(x, out=out))


@case("torch-add")
def add_control(run: Bench) -> None:
    x, y = random(32 << 20), random(32 << 20)
    out = torch.empty_like(x)
    run.control(lambda: torch.add(x, y, out=out))


@case("torch-sum")
def sum_control(run: Bench) -> None:
    x = random(64 << 20)
    run.control(lambda: x.sum())


@case("torch-rms-norm-compiled")
def norm_control(run: Bench) -> None:
    x, weight = random(8192, 8192, dtype=torch.bfloat16), random(8192, dtype=torch.bfloat16)

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16() * weight

    compiled = torch.compile(norm)
    run.control(lambda: compiled(x, weight))


# Last, because it takes the most launches: they are the first to go where time is short.
@case("torch-optimizer")
def optimizer(run: Bench) -> None:
    def steps(**way: bool) -> torch.optim.Optimizer:
        parameters = [torch.nn.Parameter(random(4 << 20)) for _ in range(2)]
        for parameter in parameters:
            parameter.grad = random(4 << 20)
        return torch.optim.Adam(parameters, **way)

    single, fused = steps(foreach=False), steps(fused=True)
    run.pair(lambda: single.step(), lambda: fused.step())


if __name__ == "__main__":
    bench.main()
