"""Measures gputui beside NVIDIA's ncu and nsys and beside nsys-tui and nsys-ai, and writes docs/performance.md.

    python benchmarks/run.py [REPORTS] [--check] [--quick] [--folder FOLDER]

REPORTS is a folder of reports; default: GPUTUI_REPORTS, else ../shared/reports beside the checkout, else
sample_reports. The peers from PyPI are installed first; everything after that runs with the network cut. ``--check``
writes nothing: it measures again and says which ratios do not agree with those of the page. ``--quick`` leaves out
the timeline of ten million kernels. FOLDER keeps the peers and the generated timelines (1.4 GB).
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import keys
import link
import offline
import peers
import timeline
from measure import Pair, cost, in_turns
from terminal import Terminal

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
GPUTUI = str(Path(sys.executable).with_name("gputui"))
TURNS = 5
COPIES = 20
"""How many times the report with the most kernels is read for the set of files."""
RANGE = re.compile(r"([\d.]+) \(([\d.]+)–([\d.]+)\)")
"""A ratio on the page: median, least, greatest."""


@dataclass(frozen=True)
class Table:
    title: str
    words: str
    """What is measured, and how."""
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.words, "", f"| {' | '.join(self.header)} |"]
        lines.append("|---|" + "--:|" * (len(self.header) - 1))
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines)


@dataclass(frozen=True)
class Target:
    what: str
    limit: str
    found: str
    reached: bool


@dataclass(frozen=True)
class Counters:
    """A report of kernels to measure on."""

    path: Path
    kernels: int
    first_kernel: str

    @property
    def words(self) -> str:
        return f"{self.kernels} kernel{'s' if self.kernels != 1 else ''}, {self.path.stat().st_size / 1e6:.1f} MB"


def reports_folder(named: Path | None) -> Path:
    for folder in (
        named,
        os.environ.get("GPUTUI_REPORTS"),
        ROOT.parent / "shared" / "reports",
        ROOT / "sample_reports",
    ):
        if folder and Path(folder).is_dir():
            return Path(folder).resolve()
    raise SystemExit("no reports found: name a folder of them")


def counters_in(folder: Path) -> list[Counters]:
    """The reports of kernels that can be read, by the number of kernels, then by size."""
    import gputui
    from gputui.errors import GputuiError

    found = []
    for path in sorted(folder.rglob("*.ncu-rep")):
        try:
            report = gputui.open_report(path)
        except GputuiError:
            continue
        if report.kernels:
            found.append(Counters(path, len(report.kernels), report.kernels[0].name))
        report.close()
    return sorted(found, key=lambda one: (one.kernels, one.path.stat().st_size))


def ratio(pair: Pair) -> str:
    return f"{pair.ratio:.2f} ({pair.low:.2f}–{pair.high:.2f})"


def command_row(
    what: str, ours: Sequence[Sequence[str]], name: str, theirs: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    pair = in_turns(lambda: cost(ours).seconds, lambda: cost(theirs).seconds, TURNS)
    return what, f"{pair.ours:.3f} s", f"{name}: {pair.theirs:.3f} s", ratio(pair)


# ------------------------------------------------------------------ the tables


def start_table(found: dict[str, peers.Peer]) -> tuple[Table, list[Target]]:
    asks = {"ncu": "--version", "nsys": "--version", "nsys-tui": "--help", "nsys-ai": "--help"}
    rows = [
        command_row(
            "`gputui --version`", [[GPUTUI, "--version"]], f"`{name} {asks[name]}`", [[peer.program, asks[name]]]
        )
        for name, peer in found.items()
    ]
    took = statistics.median(cost([[GPUTUI, "--version"]]).seconds for _ in range(TURNS))
    target = Target("`gputui --version`", "under 0.15 s", f"{took:.3f} s", took < 0.15)
    return Table("Start", "Whole processes.", ("what", "gputui", "peer", "peer ÷ gputui"), rows), [target]


def first_frame(report: Counters) -> float:
    """Seconds from the start of `gputui open` until a terminal of 120 × 40 shows the first kernel of the list."""
    with Terminal([GPUTUI, "open", "--lang", "en", str(report.path)], 120, 40) as terminal:
        (moment,) = terminal.wait_for(report.first_kernel[:8], limit_s=30)
    return moment


def frame_table(reports: Sequence[Counters]) -> tuple[Table, list[Target]]:
    small = reports[0]
    frames = {one.path: statistics.median(first_frame(one) for _ in range(3)) for one in reports}
    slowest = max(reports, key=lambda one: frames[one.path])
    of_small = statistics.median(first_frame(small) for _ in range(TURNS))
    of_slowest = statistics.median(first_frame(slowest) for _ in range(TURNS))
    bare = statistics.median(cost([[sys.executable, "-c", "import textual.app"]]).seconds for _ in range(TURNS))
    rows = [
        (f"the smallest report: {small.words}", f"{of_small:.2f} s", f"{of_small / bare:.1f}"),
        (f"the slowest of {len(reports)} reports: {slowest.words}", f"{of_slowest:.2f} s", f"{of_slowest / bare:.1f}"),
        ("all of them, median", f"{statistics.median(frames.values()):.2f} s", ""),
    ]
    words = (
        "`gputui open` on a terminal of 120 × 40, from the start of the process until the list shows its first kernel. "
        f"Python that only imports Textual takes {bare:.2f} s on this machine."
    )
    table = Table("The first frame", words, ("what", "seconds", "÷ importing Textual"), rows)
    return table, [
        Target("first frame, small report", "under 0.5 s", f"{of_small:.2f} s", of_small < 0.5),
        Target("first frame, any report", "under 1 s", f"{of_slowest:.2f} s", of_slowest < 1),
    ]


def explain_table(reports: Sequence[Counters], ncu: str, folder: Path) -> tuple[Table, list[Target]]:
    one, most = reports[0], reports[-1]
    largest = max(reports, key=lambda report: report.path.stat().st_size)
    for copy in range(COPIES):
        (folder / f"{copy}.ncu-rep").symlink_to(most.path)
    many = sorted(folder.iterdir())
    sets = [(one.words, [one.path]), (f"with source: {largest.words}", [largest.path]), (most.words, [most.path])]
    sets.append((f"{COPIES} files of {most.words}", many))
    pairs: dict[tuple[str, str], Pair] = {}
    rows = []
    for words, paths in sets:
        ours = [[GPUTUI, "explain", *map(str, paths)]]
        for page in ("details", "raw"):
            theirs = [
                [ncu, "--import", str(path), "--page", page, *(["--csv"] if page == "raw" else [])] for path in paths
            ]
            pair = in_turns(lambda: cost(ours).seconds, lambda: cost(theirs).seconds, TURNS)  # noqa: B023
            pairs[words, page] = pair
            memory = cost(ours).memory, cost(theirs).memory
            name = f"`ncu --page {page}`" if page == "details" else "`ncu --page raw --csv`"
            rows.append((
                words, f"{pair.ours:.2f} s", f"{name}: {pair.theirs:.2f} s", ratio(pair),
                *memory,
            ))  # fmt: skip
    first, hundred = pairs[one.words, "details"], pairs[most.words, "details"]
    further = most.kernels - one.kernels
    ours_each = (hundred.ours - first.ours) / further
    theirs_each = (hundred.theirs - first.theirs) / further
    rows.append((
        "each further kernel", f"{ours_each * 1e3:.2f} ms", f"`ncu --page details`: {theirs_each * 1e3:.2f} ms",
        f"{theirs_each / ours_each:.2f}", "", "",
    ))  # fmt: skip
    words = (
        f"`gputui explain` reads every report anew and says why each kernel is slow; `ncu --import` prints what it "
        f"counted. Of the {COPIES} files gputui explains all in one process, ncu takes one file a process. Memory is "
        "that of the largest process."
    )
    header = ("reports", "gputui", "peer", "peer ÷ gputui", "gputui's memory", "peer's memory")
    return Table("Explaining kernels", words, header, rows), [
        Target(
            f"explaining {most.kernels} kernels",
            "faster than `ncu --page details`",
            f"{hundred.ratio:.2f} × as fast",
            hundred.ratio > 1,
        ),
        Target(
            "each further kernel",
            "1.5 × as fast as `ncu --page details`",
            f"{theirs_each / ours_each:.2f} × as fast",
            theirs_each / ours_each >= 1.5,
        ),
    ]


def sums_table(counts: Sequence[int], found: dict[str, peers.Peer], folder: Path) -> tuple[Table, list[Target]]:
    rows: list[tuple[str, ...]] = []
    targets = []
    asks = {
        "nsys": ["stats", "--report", "cuda_gpu_kern_sum", "--format", "csv"],
        "nsys-tui": ["summary"],
        "nsys-ai": ["summary"],
    }
    for count in counts:
        path = timeline.generated(count, folder)
        turns = 1 if count > 1_000_000 else 3
        ours = [timeline.sums_command(path)]
        explain = [[GPUTUI, "explain", str(path)]]
        for name, arguments in asks.items():
            # The peers from PyPI hold every kernel, or wait for a download, in every run.
            if name not in found or (count > 1_000_000 and name != "nsys"):
                continue
            theirs = [[found[name].program, *arguments, str(path)]]
            words = f"`{name} {' '.join(arguments[:1])}`"
            # Without a network nsys-ai waits for a download that fails, for more than ten seconds.
            slow = name == "nsys-ai"
            for what, commands in (("sums of the kernels", ours), *([] if slow else [("`gputui explain`", explain)])):
                pair = in_turns(lambda: cost(commands).seconds, lambda: cost(theirs).seconds, 1 if slow else turns)  # noqa: B023
                memory = cost(commands).memory, cost(theirs).memory
                rows.append(
                    (f"{count:,}: {what}", f"{pair.ours:.2f} s", f"{words}: {pair.theirs:.2f} s", ratio(pair), *memory)
                )
                if name == "nsys" and count == 1_000_000 and commands is ours:
                    targets.append(
                        Target(
                            "sums of 1,000,000 kernels",
                            "10 × as fast as `nsys stats`",
                            f"{pair.ratio:.1f} × as fast",
                            pair.ratio >= 10,
                        )
                    )
    words = (
        "Timelines generated by `benchmarks/generate_timeline.py`, in a training job's likeness. The sums (time and "
        "count by name) are what `nsys stats` prints and what gputui shows first, here as a process of its own; "
        "`gputui explain` says besides where the time goes and why."
    )
    return Table(
        "Timelines: sums",
        words,
        ("kernels", "gputui", "peer", "peer ÷ gputui", "gputui's memory", "peer's memory"),
        rows,
    ), targets


def timeline_table(counts: Sequence[int], folder: Path) -> tuple[Table, list[Target]]:
    columns = [timeline.figures(timeline.generated(count, folder), 1 if count > 1_000_000 else 3) for count in counts]
    seconds = {"open": "read", "sums": "sum what was read"}
    rows = [(words, *(f"{one[name]:.2f} s" for one in columns)) for name, words in seconds.items()]
    rows += [(f"on the screen: {name}", *(f"{one[name]:.2f} s" for one in columns)) for name in timeline.MOMENTS]
    rows.append(("memory of gputui and its children by then", *(f"{one['peak'] / 1e9:.2f} GB" for one in columns)))
    rows.append(("first painting, with the lanes' sums", *(f"{one['first paint'] * 1e3:.0f} ms" for one in columns)))
    for zoom in timeline.ZOOMS:
        rows.append((
            f"a frame of 1/{zoom:,} of the time: median, worst",
            *(f"{one[f'paint {zoom}'] * 1e3:.1f}, {one[f'worst {zoom}'] * 1e3:.1f} ms" for one in columns),
        ))  # fmt: skip
    words = (
        f"Read and painted in one process, then `gputui open` on a terminal of {timeline.COLUMNS} × 50, from the start "
        f"of the process. A frame has {timeline.LANES} lanes and {timeline.COLUMNS} columns."
    )
    table = Table("Timelines: opening and painting", words, ("what", *(f"{count:,} kernels" for count in counts)), rows)
    peak = columns[-1]["peak"]
    return table, [Target(f"memory of {counts[-1]:,} kernels", "under 2 GB", f"{peak / 1e9:.2f} GB", peak < 2e9)]


def keys_tables(found: dict[str, peers.Peer]) -> tuple[list[Table], list[Target]]:
    sizes = {f"{columns} × {lines}": keys.measure(columns, lines) for columns, lines in keys.SIZES}
    moves = keys.measure_moves({name: found[name].program for name in peers.FROM_PYPI if name in found})
    usual = sizes["120 × 40"]
    worst = max(one.first_byte_95th_s for one in sizes.values())
    idle = sum(one.idle_bytes for one in sizes.values())
    tables = [
        Table(
            "Keys",
            "200 keys of a scripted session on the reports of `sample_reports/`, each pressed when all that the last "
            "one changed has come.",
            ("what", *sizes),
            keys.beside(sizes),
        ),
        Table(
            "Keys in a timeline",
            "18 keys that move and zoom in the same timeline, on 120 × 40.",
            ("what", *moves),
            keys.beside(moves, keys.NOT_MOVES),
        ),
    ]
    return tables, [
        Target(
            "bytes a key, median at 120 × 40", "at most 2 KB", f"{usual.bytes_median:,.0f}", usual.bytes_median <= 2000
        ),
        Target(
            "bytes of a change of tab, median at 120 × 40",
            "at most 6 KB",
            f"{usual.tab_bytes_median:,.0f}",
            usual.tab_bytes_median <= 6000,
        ),
        Target("key to its first byte, 95th percentile", "at most 50 ms", f"{worst * 1e3:.0f} ms", worst <= 0.05),
        Target("bytes in 10 s of idling", "0", f"{idle}", idle == 0),
    ]


def link_table() -> tuple[Table, list[Target]]:
    columns = link.measure()
    lines = zip(*map(link.rows, columns.values()), strict=True)
    words = (
        "`ssh` to an `sshd` on the loopback address, directly and through a proxy that takes 25 ms in each direction "
        "and carries 256 kbit/s in each; the terminal has 120 × 40. No answer can come before 50 ms there."
    )
    table = Table(
        "A slow link", words, ("what", *columns), [(line[0][0], *(text for _, text in line)) for line in lines]
    )
    slow = columns["ssh, slow link"].keys
    return table, [
        Target(
            "key to the last byte of its answer, 50 ms and 256 kbit/s, median",
            "at most 0.25 s",
            f"{slow.last_byte_median_s:.2f} s",
            slow.last_byte_median_s <= 0.25,
        )
    ]


# ------------------------------------------------------------------ the page


def machine() -> str:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())
    return (
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
        f"{int(memory[1]) / 2**20 if memory else 0:.0f} GiB, Linux {platform.release().split('-')[0]}"
    )


def programs(found: dict[str, peers.Peer]) -> str:
    own = [f"gputui {metadata.version('gputui')}", f"Python {platform.python_version()}"]
    own += [f"{name} {metadata.version(name.lower())}" for name in ("Textual", "Rich", "NumPy", "pandas")]
    return ", ".join([*own, *(f"{name} {peer.version}" for name, peer in found.items())])


def page(tables: Sequence[Table], targets: Sequence[Target], found: dict[str, peers.Peer]) -> str:
    summary = Table(
        "Targets",
        "What gputui wants to be, and what was measured.",
        ("what", "target", "measured", "reached"),
        [(one.what, one.limit, one.found, "yes" if one.reached else "**no**") for one in targets],
    )
    return "\n\n".join([
        "# Performance",
        "Written by `python benchmarks/run.py`; `python benchmarks/run.py --check` measures again and compares. Each "
        "figure is a median. A ratio is that of a peer to gputui in the same run, measured in turns: above 1, gputui "
        "takes less. In brackets its least and greatest.",
        f"Machine: {machine()}.  \nPrograms: {programs(found)}.  \n"
        "Network: cut (a namespace in which loopback alone is there).",
        *(table.markdown() for table in [summary, *tables]),
    ]) + "\n"  # fmt: skip


def ratios(text: str) -> dict[str, tuple[float, float, float]]:
    """Every ratio of a page with its range, by title and the first and third cell of its line."""
    found = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line[3:]
        cells = line.split(" | ")
        for place, cell in enumerate(cells):
            if matched := RANGE.search(cell):
                peer = cells[2].partition(":")[0] if len(cells) > 2 else ""
                found[f"{title}, {cells[0].strip('| ')}, {peer}, {place}"] = tuple(map(float, matched.groups()))
    return found


def compare(before: str, after: str) -> int:
    """Prints how the ratios of two pages agree; 1 where the ranges of one do not overlap."""
    old, new = ratios(before), ratios(after)
    both = sorted(old.keys() & new.keys())
    apart = [name for name in both if old[name][1] > new[name][2] or new[name][1] > old[name][2]]
    print(f"{len(both) - len(apart)} of {len(both)} ratios agree within their ranges")
    for name in apart:
        print(f"apart: {name}: {old[name]} and {new[name]}")
    return 1 if apart else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gputui-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    peers.install(folder)
    offline.cut_network()
    found = peers.found(folder)
    if "ncu" not in found or "nsys" not in found:
        raise SystemExit("ncu and nsys are needed beside: scripts/install_nsight.sh installs them")
    counts = [10_000, 100_000, 1_000_000, *([] if options.quick else [10_000_000])]
    reports = counters_in(reports_folder(options.reports))
    tables: list[Table] = []
    targets: list[Target] = []

    def add(measured: tuple[Table | list[Table], list[Target]]) -> None:
        more, reached = measured
        tables.extend(more if isinstance(more, list) else [more])
        targets.extend(reached)
        print(tables[-1].markdown(), end="\n\n", flush=True)

    add(start_table(found))
    add(frame_table(reports))
    with tempfile.TemporaryDirectory() as links:
        add(explain_table(reports, found["ncu"].program, Path(links)))
    add(sums_table(counts, found, folder))
    add(timeline_table(counts, folder))
    add(keys_tables(found))
    add(link_table())
    written = page(tables, targets, found)
    if options.check:
        return compare(PAGE.read_text(), written)
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
