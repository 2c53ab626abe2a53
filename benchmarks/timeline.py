"""Generated timelines measured: opened, summed, painted, and shown on a terminal.

They lie in the memory of the operating system when they are read.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import generate_timeline
from measure import read_once
from terminal import Terminal

GPUTUI = str(Path(sys.executable).with_name("gputui"))
COLUMNS, LANES = 200, 20
ZOOMS = (1, 10, 100, 1_000, 100_000)
"""How many times the whole timeline is longer than what a frame shows."""
FRAMES = 25
"""Painted at each zoom, each at another place."""
FIRST_KERNEL = "ncclDevKer"
"""How the kernel with the longest total begins, which is the first in the list."""
MOMENTS = {
    "the kernels' sums": FIRST_KERNEL,
    "the list of kernels": "communication",
    "the diagnosis": "of the time looked at",
}
"""What stands on the screen when it shows this. The class of the first kernel is in the list and not in the sums that
stand there while the file is opened."""


def generated(kernel_count: int, folder: Path) -> Path:
    """A timeline of so many kernels, 122 bytes each, made once and kept in ``folder``."""
    path = folder / f"generated-{kernel_count}.sqlite"
    if not path.is_file():
        generate_timeline.generate(path, kernel_count)
    read_once(path)
    return path


def measure(path: Path) -> dict[str, float]:
    """Opens, sums and paints in this process. Seconds."""
    from gputui.analysis.lanes import lanes
    from gputui.analysis.timeline import TimelineFacts
    from gputui.formats import open_report
    from gputui.paint.timeline import Overlay, Viewport, layout, paint

    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        work()
        found[name] = time.perf_counter() - begin

    begin = time.perf_counter()
    timeline = open_report(path).timeline
    found["open"] = time.perf_counter() - begin
    if timeline is None:
        raise SystemExit(f"{path} did not open as a timeline")
    facts = TimelineFacts(timeline)
    timed("sums", lambda: facts.kernels)
    rows = lanes(facts)[:LANES]

    def view(zoom: int, place: float) -> Viewport:
        span = timeline.span_ns // zoom
        start = timeline.start_ns + int((timeline.span_ns - span) * place)
        return Viewport(start, start + span, COLUMNS + beside, LANES + 3)

    # What titles and shares take beside the time.
    beside = 0
    beside = COLUMNS - layout(rows, view(1, 0.0)).columns
    shown = layout(rows, view(1, 0.0))
    if (shown.columns, shown.lanes_shown) != (COLUMNS, LANES):
        raise SystemExit(f"the frame shows {shown.lanes_shown} lanes in {shown.columns} columns")
    timed("first paint", lambda: paint(rows, view(1, 0.0)))
    for zoom in ZOOMS:
        times = []
        for frame in range(FRAMES):
            at = view(zoom, frame / FRAMES)
            overlay = Overlay(cursor_ns=(at.start_ns + at.end_ns) // 2)
            begin = time.perf_counter()
            paint(rows, at, overlay)
            times.append(time.perf_counter() - begin)
        found[f"paint {zoom}"] = statistics.median(times)
        found[f"worst {zoom}"] = max(times)
    return found


def sums_command(path: Path) -> list[str]:
    """A process that sums the kernels of a file without opening it: Python's start and every import count."""
    program = "import sys, pathlib, gputui.formats.nsys_sqlite as f; f.kernel_sums(pathlib.Path(sys.argv[1]))"
    return [sys.executable, "-c", program, str(path)]


def on_screen(path: Path, limit_s: float = 120) -> dict[str, float]:
    """`gputui open` on a terminal of its own: seconds to the ``first frame`` of any kind and to each of MOMENTS,
    infinite where ``limit_s`` passes before, and bytes of memory for ``peak`` by then."""
    with Terminal([GPUTUI, "open", "--lang", "en", str(path.resolve())], COLUMNS, 50) as terminal:
        moments = terminal.wait_for(path.name, *MOMENTS.values(), limit_s=limit_s)
        return {**dict(zip(("first frame", *MOMENTS), moments, strict=True)), "peak": terminal.peak_bytes()}


def figures(path: Path, runs: int) -> dict[str, float]:
    """Medians of ``measure`` in a process of its own, but the ``worst`` of all, and of ``on_screen``."""
    found: list[dict[str, float]] = []
    for _ in range(runs):
        output = subprocess.run([sys.executable, __file__, str(path)], stdout=subprocess.PIPE, text=True, check=True)
        found.append({**json.loads(output.stdout), **on_screen(path)})
    return {
        name: (max if name.startswith("worst") else statistics.median)([one[name] for one in found])
        for name in found[0]
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
