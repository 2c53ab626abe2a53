"""Measures gputui on generated timelines beside NVIDIA's own nsys in the same run and prints a Markdown table.

    python benchmarks/timeline.py [--ten-million] [--folder FOLDER]

The files (122 bytes a kernel) are made by `generate_timeline.py` in FOLDER and kept there, else in a folder that goes
again. They lie in the memory of the operating system when they are read. Each figure is the median of three runs, of
ten million kernels that of one. Peak memory is the largest resident size of the process that did the work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import generate_timeline
from terminal import Terminal

GPUTUI = str(Path(sys.executable).with_name("gputui"))
COLUMNS, LANES = 200, 20
ZOOMS = (1, 10, 100, 1_000, 100_000)
"""How many times the whole timeline is longer than what a frame shows."""
FRAMES = 25
"""Painted at each zoom, each at another place."""
FIRST_KERNEL = "ncclDevKer"
"""How the kernel with the longest total begins, which is the first in the list."""
ITS_CLASS = "communication"
"""What the list says of it, and the sums that stand there while the file is opened do not."""
DIAGNOSIS = "of the time looked at"
"""In the sentence above the findings."""


def measure(path: Path) -> dict[str, float]:
    """Opens, sums and paints in this process. Seconds, and bytes for ``peak``."""
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
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def measure_sums(path: Path) -> dict[str, float]:
    """Sums the kernels of the file without opening it. Seconds, and bytes for ``peak``."""
    from gputui.formats.nsys_sqlite import kernel_sums

    begin = time.perf_counter()
    kernel_sums(path)
    took = time.perf_counter() - begin
    return {"sums": took, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def seconds_of_sums(path: Path) -> float:
    """A whole process that sums the kernels of the file: Python's start and every import count."""
    program = "import sys, pathlib, gputui.formats.nsys_sqlite as f; f.kernel_sums(pathlib.Path(sys.argv[1]))"
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    return time.perf_counter() - begin


def in_a_child(what: str, path: Path) -> dict[str, float]:
    """What ``measure`` or ``measure_sums`` finds in a process of its own."""
    command = [sys.executable, __file__, what, str(path)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(output.stdout)
    return found


def seconds_of_nsys(nsys: str, path: Path) -> float:
    command = [nsys, "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", str(path)]
    begin = time.perf_counter()
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    if FIRST_KERNEL not in output:
        raise SystemExit(f"nsys did not read {path}")
    return time.perf_counter() - begin


def seconds_on_screen(path: Path, limit_s: float) -> tuple[float, float, float, float, float]:
    """`gputui open` on a terminal of its own: seconds to the first frame of any kind, to the one with the kernels'
    sums, to the one with their list and to the one with the diagnosis, and its peak memory by then. Infinite where
    ``limit_s`` passes before."""
    with Terminal([GPUTUI, "open", "--lang", "en", str(path.resolve())], 200, 50) as terminal:
        first, kernels, listed, diagnosis = terminal.wait_for(
            path.name, FIRST_KERNEL, ITS_CLASS, DIAGNOSIS, limit_s=limit_s
        )
        return first, kernels, listed, diagnosis, terminal.peak_bytes()


def rows_for(kernel_count: int, folder: Path, nsys: str | None) -> list[tuple[str, str]]:
    """The lines of the table for one file: what, and the figure."""
    runs = 1 if kernel_count > 1_000_000 else 3
    path = folder / f"generated-{kernel_count}.sqlite"
    if not path.is_file():
        generate_timeline.generate(path, kernel_count)
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass

    children = [in_a_child("--measure", path) for _ in range(runs)]
    summed = [in_a_child("--measure-sums", path) for _ in range(runs)]
    screens = [seconds_on_screen(path, 120) for _ in range(runs)]
    peer = statistics.median(seconds_of_nsys(nsys, path) for _ in range(runs)) if nsys else None

    def median(name: str, found: list[dict[str, float]] = children) -> float:
        return statistics.median(child[name] for child in found)

    opened, sums = median("open"), median("sums")
    of_file = median("sums", summed)
    process = statistics.median(seconds_of_sums(path) for _ in range(runs))
    first, kernels, listed, diagnosis, peak = (statistics.median(column) for column in zip(*screens, strict=True))
    beside = "–" if peer is None else f"{peer:.2f} s"
    return [
        ("file", f"{path.stat().st_size / 1e6:,.0f} MB"),
        ("open", f"{opened:.2f} s"),
        ("kernel sums of the file, not opened", f"{of_file:.2f} s"),
        ("the same as a process of its own", f"{process:.2f} s"),
        ("kernel sums of the opened file", f"{sums * 1e3:.0f} ms"),
        ("`nsys stats -r cuda_gpu_kern_sum`", beside),
        ("ratio: nsys to the sums of the file", "–" if peer is None else f"{peer / of_file:.1f}"),
        ("ratio: nsys to the same as a process of its own", "–" if peer is None else f"{peer / process:.1f}"),
        ("ratio: nsys to the sums of the opened file", "–" if peer is None else f"{peer / sums:.0f}"),
        ("ratio: nsys to opening and the sums", "–" if peer is None else f"{peer / (opened + sums):.1f}"),
        ("peak memory: the sums of the file", f"{median('peak', summed) / 1e9:.2f} GB"),
        ("peak memory: open, sums, paint", f"{median('peak') / 1e9:.2f} GB"),
        ("on the screen: first frame", f"{first:.2f} s"),
        ("on the screen: the kernels' sums", f"{kernels:.2f} s"),
        ("on the screen: the list of kernels", f"{listed:.2f} s"),
        ("on the screen: the diagnosis", f"{diagnosis:.2f} s"),
        ("peak memory of the application by then", f"{peak / 1e9:.2f} GB"),
        ("first paint, with the lanes' sums", f"{median('first paint') * 1e3:.0f} ms"),
        *(
            (
                f"a frame of {LANES} lanes × {COLUMNS} columns, 1/{zoom:,} of the time: median, worst",
                f"{median(f'paint {zoom}') * 1e3:.1f}, {max(one[f'worst {zoom}'] for one in children) * 1e3:.1f} ms",
            )
            for zoom in ZOOMS
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ten-million", action="store_true", help="also a file of ten million kernels, 1.2 GB")
    parser.add_argument("--folder", type=Path, help="where the generated files are kept")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure-sums", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure or options.measure_sums:
        print(json.dumps(measure(options.measure) if options.measure else measure_sums(options.measure_sums)))
        return

    import gputui

    nsys = shutil.which("nsys")
    counts = [1_000_000, *([10_000_000] if options.ten_million else [])]
    with tempfile.TemporaryDirectory() as own:
        folder = options.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        columns = [rows_for(count, folder, nsys) for count in counts]
    version = subprocess.run([nsys, "--version"], capture_output=True, text=True).stdout.split()[-1] if nsys else None
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    print(f"gputui {gputui.__version__}; nsys {version or 'not installed'}\n")
    print(f"| what | {' | '.join(f'{count:,} kernels' for count in counts)} |")
    print(f"|---|{'--:|' * len(counts)}")
    for lines in zip(*columns, strict=True):
        print(f"| {lines[0][0]} | {' | '.join(figure for _, figure in lines)} |")


if __name__ == "__main__":
    main()
