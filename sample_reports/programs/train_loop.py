"""Trains a small GPT on frames of sound, in a way that wastes time, without the waste, and as a CUDA graph.

Usage: python3 train_loop.py wasteful|tuned|graph [--record nvtx|torch] [--out NAME] [--late-rank RANK]

wasteful  one loader process that cannot keep up, copies from pageable memory, the loss read back in each step, an
          optimiser that updates one parameter after another
tuned     the same model and batches with enough loader processes, pinned memory, copies that do not wait, the losses
          read once at the end, a fused optimiser
graph     as tuned, with the whole step captured once as a CUDA graph and replayed

Without --record it prints the time of a step. --record torch writes a trace of the PyTorch profiler to NAME.json.gz
(NAME_rankN.json.gz where there are several), --record nvtx marks the steps and their parts for Nsight Systems. Under
torchrun each GPU trains on batches of its own; --late-rank names the rank whose loader cannot keep up.
"""

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

MODES = ("wasteful", "tuned", "graph")
BATCH = 32
FRAMES = 256
FEATURES = 256
CLASSES = 1024
WIDTH = 768
HEADS = 12
LAYERS = 4
WINDOW = 512
HOP = 256
LOADER_PROCESSES = 14
WARM_UP_STEPS = 3
RECORDED_STEPS = 8
TIMED_STEPS = 100


class Sounds(Dataset[tuple[np.ndarray, np.ndarray]]):
    """Random sound as the logarithm of its spectrum, with random classes to predict."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.sound = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)
        self.window = np.hanning(WINDOW).astype(np.float32)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        chance = np.random.default_rng(place)
        begin = int(chance.integers(len(self.sound) - FRAMES * HOP - WINDOW))
        part = self.sound[begin : begin + (FRAMES - 1) * HOP + WINDOW]
        frames = np.lib.stride_tricks.sliding_window_view(part, WINDOW)[::HOP] * self.window
        spectrum = np.log1p(np.abs(np.fft.rfft(frames)[:, :FEATURES]))
        return spectrum.astype(np.float32), chance.integers(CLASSES, size=FRAMES)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, bias=False)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.LayerNorm(WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(*x.shape[:2], 3 * HEADS, -1).transpose(1, 2).chunk(3, dim=1)
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(FEATURES, WIDTH, bias=False)
        self.position = nn.Parameter(torch.zeros(FRAMES, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(frames) + self.position)))


def loss_of(model: nn.Module, frames: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    # Each weight is used once a step: a cache of the converted ones would save nothing, and a graph forbids it.
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        scores = model(frames)
        return functional.cross_entropy(scores.flatten(0, 1), classes.flatten())


Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Range = Callable[[str], contextlib.AbstractContextManager[object]]


def eager_step(model: nn.Module, optimizer: torch.optim.Optimizer, part: Range) -> Step:
    def step(frames: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        with part("forward"):
            loss = loss_of(model, frames, classes)
        with part("backward"):
            loss.backward()
        with part("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step


def graph_step(model: nn.Module, optimizer: torch.optim.Optimizer, part: Range) -> Step:
    frames = torch.zeros(BATCH, FRAMES, FEATURES, device="cuda")
    classes = torch.zeros(BATCH, FRAMES, dtype=torch.int64, device="cuda")
    eager = eager_step(model, optimizer, lambda name: contextlib.nullcontext())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            eager(frames, classes)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # The loader's thread allocates pinned memory meanwhile, which a capture forbids to other threads by default.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        loss = eager(frames, classes)

    def step(new_frames: torch.Tensor, new_classes: torch.Tensor) -> torch.Tensor:
        with part("graph"):
            frames.copy_(new_frames, non_blocking=True)
            classes.copy_(new_classes, non_blocking=True)
            graph.replay()
            return loss.clone()

    return step


def batches(steps: int, processes: int, pinned: bool) -> Iterator[list[torch.Tensor]]:
    return iter(DataLoader(Sounds(steps * BATCH), BATCH, num_workers=processes, pin_memory=pinned, prefetch_factor=2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--record", choices=("nvtx", "torch"))
    parser.add_argument("--out", default="timeline")
    parser.add_argument("--late-rank", type=int)
    options = parser.parse_args()

    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    wasteful = options.mode == "wasteful"
    late = wasteful or rank == options.late_rank
    steps = WARM_UP_STEPS + (RECORDED_STEPS if options.record else TIMED_STEPS)
    # Before the GPU is used: loader processes are forks of this one.
    loader = batches(steps, processes=1 if late else LOADER_PROCESSES, pinned=not wasteful)

    torch.manual_seed(0)
    model: nn.Module = Gpt().cuda()
    if ranks > 1:
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, foreach=False, fused=not wasteful, capturable=options.mode == "graph"
    )
    part: Range = {
        None: lambda name: contextlib.nullcontext(),
        "nvtx": torch.cuda.nvtx.range,
        "torch": torch.profiler.record_function,
    }[options.record]
    run_step = (graph_step if options.mode == "graph" else eager_step)(model, optimizer, part)

    losses: list[torch.Tensor | float] = []
    waited = 0.0

    def one_step(number: int) -> None:
        nonlocal waited
        with part(f"step {number}"):
            with part("data"):
                begin = time.perf_counter()
                frames, classes = next(loader)
                waited += time.perf_counter() - begin
            with part("copy"):
                frames = frames.to("cuda", non_blocking=not wasteful)
                classes = classes.to("cuda", non_blocking=not wasteful)
            loss = run_step(frames, classes)
            if wasteful:
                with part("loss"):
                    losses.append(loss.item())
            else:
                losses.append(loss)

    # The first steps, slow as they are, belong to the record of the wasteful loop alone.
    warm_up = 0 if wasteful and options.record else WARM_UP_STEPS
    for number in range(warm_up):
        one_step(number)
    torch.cuda.synchronize()
    waited = 0.0

    with contextlib.ExitStack() as recording:
        if options.record == "torch":
            profiler = recording.enter_context(torch.profiler.profile())
        elif options.record == "nvtx":
            recording.enter_context(torch.cuda.nvtx.range("record"))
        begin = time.perf_counter()
        for number in range(warm_up, steps):
            one_step(number)
        torch.cuda.synchronize()
        taken = time.perf_counter() - begin
    if options.record == "torch":
        profiler.export_chrome_trace(f"{options.out}{f'_rank{rank}' if ranks > 1 else ''}.json.gz")

    count = steps - warm_up
    print(
        f"{options.mode}{f', rank {rank}' if ranks > 1 else ''}, recorded by {options.record}: {count} steps, "
        f"{1e3 * taken / count:.2f} ms a step, {1e3 * waited / count:.2f} ms of it waiting for data; "
        f"loss {float(losses[0]):.3f} to {float(losses[-1]):.3f}"
    )
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
