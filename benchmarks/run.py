"""Measures gputui beside NVIDIA's own ncu in the same run and prints a Markdown table.

    python benchmarks/run.py [FOLDER OF REPORTS]

Default folder: GPUTUI_REPORTS, else ../shared/reports beside the checkout, else sample_reports. Each figure is the
median of five runs after a first one; ratios are against `ncu --import … --page details` where ncu is installed.
"""

from __future__ import annotations

import os
import platform
import pty
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GPUTUI = str(Path(sys.executable).with_name("gputui"))
RUNS = 5


def seconds_of(command: list[str]) -> float:
    """Median wall seconds of a command whose output goes nowhere."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True
        )
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def seconds_to_text(command: list[str], text: bytes, columns: int = 120, lines: int = 40) -> float:
    """Median seconds until a full-screen program, run on a pty of this size, has written ``text``."""
    import fcntl
    import struct
    import termios

    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        pid, master = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LINES=str(lines))
            os.execv(command[0], command)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        seen = b""
        while text not in seen:
            if time.perf_counter() - start > 30 or not select.select([master], [], [], 30)[0]:
                raise TimeoutError(f"{command} never wrote {text!r}")
            seen += os.read(master, 65536)
        times.append(time.perf_counter() - start)
        os.kill(pid, signal.SIGKILL)
        os.close(master)
        os.waitpid(pid, 0)
    return statistics.median(times[1:])


def reports_folder() -> Path:
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    for folder in (os.environ.get("GPUTUI_REPORTS"), ROOT.parent / "shared" / "reports", ROOT / "sample_reports"):
        if folder and Path(folder).is_dir():
            return Path(folder)
    raise SystemExit("no reports found; name a folder")


def main() -> None:
    sys.path.insert(0, str(ROOT / "src"))
    import gputui
    import gputui.errors

    ncu = shutil.which("ncu")
    found = []
    for path in sorted(reports_folder().rglob("*.ncu-rep")):
        try:
            report = gputui.open_report(path)
        except gputui.errors.GputuiError:
            continue
        found.append((path, len(report.kernels), report.kernels[0].name))
        report.close()
    largest = max(found, key=lambda one: one[0].stat().st_size)
    most = max(found, key=lambda one: one[1])

    rows = [("gputui --version", seconds_of([GPUTUI, "--version"]), None)]
    path, count, name = largest
    frame = seconds_to_text([GPUTUI, "open", str(path)], name[:8].encode())
    rows.append(
        (f"open: first frame with the kernels, {path.stat().st_size / 1e6:.1f} MB, {count} kernels", frame, None)
    )
    for path, count, _ in sorted({largest, most}, key=lambda one: one[1]):
        peer = seconds_of([ncu, "--import", str(path), "--page", "details"]) if ncu else None
        for format in ("text", "json"):
            took = seconds_of([GPUTUI, "explain", str(path), "--format", format])
            rows.append((f"explain --format {format}, {count} kernels", took, peer))

    version = (
        subprocess.run([ncu, "--version"], capture_output=True, text=True).stdout.split("Version ")[-1] if ncu else ""
    )
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    print(f"gputui {gputui.__version__}; ncu {version.split()[0] if version else 'not installed'}\n")
    print("| what | gputui, s | ncu --page details, s | ratio |")
    print("|---|--:|--:|--:|")
    for what, took, peer in rows:
        beside = "– | –" if not peer else f"{peer:.2f} | {took / peer:.2f}"
        print(f"| {what} | {took:.2f} | {beside} |")


if __name__ == "__main__":
    main()
