"""One transformer block, profiled for one forward pass or for several.

Usage: python3 attention.py eager|sdpa|compile [PASSES]

eager    attention written out: scores, scale, softmax, values
sdpa     attention by PyTorch's fused flash kernel
compile  the eager block through torch.compile
"""

import contextlib
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCH = 1
SEQUENCE = 4096
HEADS = 16
HEAD_DIM = 128
WIDTH = HEADS * HEAD_DIM
MODES = ("eager", "sdpa", "compile")
WARM_UP_PASSES = 3


class Block(nn.Module):
    """Attention and a two-layer MLP, each after a norm and with a residual connection."""

    def __init__(self, fused: bool, named: bool) -> None:
        super().__init__()
        self.fused = fused
        self.named = named
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def range(self, name: str) -> contextlib.AbstractContextManager[None]:
        """An NVTX range; none in compiled code, where it would split the graph."""
        return torch.cuda.nvtx.range(name) if self.named else contextlib.nullcontext()

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.fused:
            return functional.scaled_dot_product_attention(q, k, v)
        with self.range("attention scores"):
            scores = torch.matmul(q, k.transpose(-2, -1)) * HEAD_DIM**-0.5
        with self.range("softmax"):
            weights = torch.softmax(scores, dim=-1)
        with self.range("attention values"):
            return torch.matmul(weights, v)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.range("norm"):
            h = self.norm1(x)
        with self.range("qkv"):
            parts = self.qkv(h).chunk(3, dim=-1)
            q, k, v = [part.view(BATCH, SEQUENCE, HEADS, HEAD_DIM).transpose(1, 2) for part in parts]
        with self.range("attention"):
            h = self.attention(q, k, v)
        with self.range("attention output"):
            h = self.out(h.transpose(1, 2).reshape(BATCH, SEQUENCE, WIDTH))
        with self.range("residual"):
            x = x + h
        with self.range("norm"):
            h = self.norm2(x)
        with self.range("mlp"):
            h = self.down(functional.gelu(self.up(h)))
        with self.range("residual"):
            return x + h


def main() -> None:
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in MODES:
        sys.exit(f"usage: python3 attention.py {'|'.join(MODES)} [PASSES]")
    mode, passes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 1
    torch.manual_seed(0)
    block = Block(fused=mode == "sdpa", named=mode != "compile")
    block = block.to(device="cuda", dtype=torch.bfloat16).eval()
    run = torch.compile(block) if mode == "compile" else block
    x = torch.randn(BATCH, SEQUENCE, WIDTH, device="cuda", dtype=torch.bfloat16)

    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for _ in range(WARM_UP_PASSES):
            run(x)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for _ in range(passes):
            with torch.cuda.nvtx.range("block"):
                y = run(x)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()

    if not torch.isfinite(y).all():
        sys.exit("the result holds numbers that are not finite")
    sys.stdout.write(f"{mode}: output {tuple(y.shape)}, mean square {y.float().square().mean().item():.6f}\n")


if __name__ == "__main__":
    main()
