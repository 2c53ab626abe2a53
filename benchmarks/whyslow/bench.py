"""What the planted Python programs share: one NVTX range a side, comparing, timing, and failing alone.

Usage of each program: PROGRAM [--profile] [--only REGEX] [--skip FILE] [--timings FILE]

A plain run compares the results of each pair and times both sides; with --profile each side is called once between the
profiler's start and stop. Like harness.cuh, but a pair that fails does not end the program.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

Call = Callable[[], "torch.Tensor | None"]
RUNS = 10

_cases: dict[str, Callable[[Bench], None]] = {}


def case(name: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Registers a function that plants one pair (or a control) under this name."""

    def register(body: Callable[[Bench], None]) -> Callable[[Bench], None]:
        _cases[name] = body
        return body

    return register


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Bench:
    """The sides of the case that runs now."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.name = ""
        self.flushed: torch.Tensor | None = None

    def pair(self, slow: Call, cured: Call, tolerance: float | None = None) -> None:
        """``tolerance`` is relative to the largest value; ``None`` where the two results are no equals."""
        slow_us, first = self._side(f"{self.name}:slow", slow)
        cured_us, second = self._side(f"{self.name}:cured", cured)
        self._report(slow_us, cured_us)
        if tolerance is not None and not self.options.profile:
            assert first is not None
            assert second is not None
            largest = first.abs().max().item()
            difference = (first.float() - second.float()).abs().max().item()
            same = 0 < largest < float("inf") and difference <= tolerance * largest
            say(f"  largest difference {difference:.2e} of {largest:.2e}: {'same' if same else 'DIFFERENT'}")

    def cured_only(self, cured: Call) -> None:
        """A side whose twin is in another program: the plain run writes 0 for the side that it lacks."""
        self._report(0.0, self._side(f"{self.name}:cured", cured)[0])

    def control(self, call: Call) -> None:
        self._report(self._side(f"control:{self.name}", call)[0], 0.0)

    def _side(self, name: str, call: Call) -> tuple[float, torch.Tensor | None]:
        # Three calls outside the profile: compilation, autotuning and the libraries' set-up.
        for _ in range(3):
            result = call()
        torch.cuda.synchronize()
        if self.options.profile:
            torch.cuda.profiler.start()
            with torch.cuda.nvtx.range(name):
                result = call()
                torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            return 0.0, result
        if self.flushed is None:
            self.flushed = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        times = []
        for run in range(RUNS):
            self.flushed.fill_(run)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(stop) * 1e3)
        return statistics.median(times), result

    def _report(self, slow_us: float, cured_us: float) -> None:
        if self.options.profile:
            return
        gain = slow_us / cured_us if cured_us else 0.0
        say(f"{self.name:28} {slow_us:9.1f} us {cured_us:9.1f} us {gain:6.2f}x")
        if self.options.timings:
            with self.options.timings.open("a") as file:
                file.write(f"{self.name} {slow_us:.2f} {cured_us:.2f}\n")


def main() -> None:
    """Runs the registered cases in their order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--skip", type=Path)
    parser.add_argument("--timings", type=Path)
    options = parser.parse_args()
    skipped = set(options.skip.read_text().split()) if options.skip and options.skip.exists() else set()
    deadline = float(os.environ.get("WHYSLOW_DEADLINE", "inf"))
    torch.manual_seed(0)
    bench = Bench(options)
    for name, body in _cases.items():
        if name in skipped or not options.only.search(name):
            continue
        if time.time() >= deadline:
            say(f"{name}: no time left")
            continue
        bench.name = name
        try:
            body(bench)
            torch.cuda.synchronize()
        except Exception:
            say(f"{name}: FAILED\n{traceback.format_exc(limit=-4)}")
            if options.skip:
                with options.skip.open("a") as file:
                    file.write(name + "\n")
        torch.cuda.empty_cache()
