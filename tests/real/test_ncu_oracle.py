"""Every value that gputui reads from real reports against what NVIDIA's ``ncu`` prints of them."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputui.errors import GputuiError
from gputui.formats import ncu_csv, open_report
from gputui.formats._units import base_unit
from gputui.model.metrics import Metric

NCU = shutil.which("ncu") or shutil.which("ncu", path=os.environ.get("GPUTUI_NSIGHT", "/opt/nsight") + "/bin")
needs_ncu = pytest.mark.skipif(NCU is None, reason="ncu is not installed")

CANNOT_IMPORT = {"evozone96__matrixMul__profile.nsight-cuprof-report"}
"""ncu 2024.1.1 ends with a segmentation fault on it."""

LISTS = ("breakdown:", "group:", "regex:")
"""Names of other metrics, which are stored like metrics; ncu's raw page leaves them out."""

EMPTY = {"", "no data", "nan", "-nan", "n/a"}
"""What ncu prints of a metric without a value."""


def index_of(reports: Path) -> dict[str, int]:
    """The number of kernels of each report, from the folder's own index."""
    section = (reports / "INDEX.md").read_text().split("\n## ncu\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    return {row[0]: int(row[4]) for row in rows if row[4].isdigit()}


@dataclass
class Printed:
    path: Path
    base: str
    """The raw page in base units, two decimals."""
    scaled: str
    """The raw page as it comes, six decimals."""
    details: str
    page: str
    """The details page as plain tables."""


@pytest.fixture(scope="module")
def printed(reports: Path) -> list[Printed]:
    assert NCU is not None
    raw, details = ["--page", "raw", "--csv"], ["--page", "details"]

    def run(path: Path, *options: str) -> str:
        done = subprocess.run([NCU, "--import", str(path), *options], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")

    def print_all(path: Path) -> Printed:
        return Printed(
            path,
            base=run(path, *raw, "--print-units", "base"),
            scaled=run(path, *raw),
            details=run(path, *details, "--csv"),
            page=run(path, *details),
        )

    paths = [path for path in sorted((reports / "ncu").iterdir()) if path.name not in CANNOT_IMPORT]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(print_all, paths))


@pytest.fixture(scope="module")
def read(printed: list[Printed]) -> dict[Path, list[dict[str, Metric]]]:
    """Every metric of every kernel of every report."""
    found = {}
    for one in printed:
        report = open_report(one.path)
        found[one.path] = [dict(kernel.metrics()) for kernel in report.kernels]
        report.close()
    return found


def table(text: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Header, units and rows of ncu's raw page."""
    header, units, *rows = csv.reader(line for line in text.splitlines() if line.startswith('"'))
    return header, units, rows


def rounding(cell: str, decimals: int) -> float:
    """Half of the last printed digit; ncu prints whole numbers where the rest rounds away."""
    return 0.5 * 10.0 ** -(len(cell.split(".")[1]) if "." in cell else decimals) * 1.000001


def number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def test_kernel_counts_are_those_of_the_index(reports: Path) -> None:
    index = index_of(reports)
    assert len(index) == 37
    found = {}
    for name in index:
        report = open_report(reports / "ncu" / name)
        found[name] = len(report.kernels)
        assert (report.truncated, report.notices) == (False, []), name
        assert report.session.created
        report.close()
    assert found == index


@needs_ncu
def test_every_value_equals_what_ncu_prints_in_base_units(
    printed: list[Printed], read: dict[Path, list[dict[str, Metric]]], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: Counter[str] = Counter()
    wrong = []
    for one in printed:
        header, _, rows = table(one.base)
        assert len(rows) == len(read[one.path]) > 0
        for metrics, row in zip(read[one.path], rows, strict=True):
            cells = dict(zip(header, row, strict=True))
            for name, metric in metrics.items():
                cell, value = cells.get(name), metric.value
                if cell is None:
                    kind = "list of names" if name.startswith(LISTS) else "not printed"
                elif value is None:
                    kind = "without a value" if cell in EMPTY else "value lost"
                elif isinstance(value, str):
                    kind = "equal text" if value == cell else "other text"
                else:
                    expected = number(cell)
                    close = expected is not None and abs(expected - value) <= rounding(cell, 2) + 1e-9 * abs(value)
                    kind = "equal number" if close else "other number"
                seen[kind] += 1
                if kind in ("not printed", "value lost", "other text", "other number"):
                    wrong.append((one.path.name, name, cell, value))
    with capsys.disabled():
        print(f"\n{len(printed)} reports against ncu: {dict(seen)}")  # noqa: T201
    assert not wrong, wrong[:20]
    assert seen["equal number"] > 100_000
    assert seen["equal text"] > 500


@needs_ncu
def test_the_csv_reader_gives_what_the_binary_reader_gives(
    printed: list[Printed], read: dict[Path, list[dict[str, Metric]]], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: Counter[str] = Counter()
    wrong = []
    for one in printed:
        header, units, rows = table(one.scaled)
        _, source, truncated = ncu_csv.read_text(one.scaled)
        assert not truncated
        texts = source.fetch(range(len(rows)), None)
        for metrics, text, row in zip(read[one.path], texts, rows, strict=True):
            for name, unit, cell in zip(header, units, row, strict=True):
                if name not in metrics or name not in text:
                    continue
                value, found = metrics[name].value, text[name].value
                if value == found:
                    kind = "equal"
                elif isinstance(value, (int, float)) and isinstance(found, (int, float)):
                    close = abs(value - found) <= rounding(cell, 2) * base_unit(unit)[0] + 1e-9 * abs(value)
                    # In scaled units ncu prints a (meaningless) negative value as 0.
                    kind = "equal" if close else "negative" if value < 0 == found else "other"
                else:
                    # ... and NaN too; the binary reader says "no value".
                    kind = "no number" if value is None and found == 0 else "other"
                seen[kind] += 1
                if kind == "other":
                    wrong.append((one.path.name, name, unit, cell, value, found))
    with capsys.disabled():
        print(f"\nraw page through the CSV reader: {dict(seen)}")  # noqa: T201
    assert not wrong, wrong[:20]
    assert seen["equal"] > 100_000
    assert seen["negative"] + seen["no number"] < 20


@needs_ncu
def test_the_details_page_gives_the_same_metrics_under_their_names(
    printed: list[Printed], read: dict[Path, list[dict[str, Metric]]], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: Counter[str] = Counter()
    wrong = []
    for one in printed:
        kernels, source, _ = ncu_csv.read_text(one.details)
        pages, _, _ = ncu_csv.read_text(one.page)
        if not kernels:  # only chart sections were collected
            seen["without details"] += 1
            continue
        assert [kernel.grid for kernel in kernels] == [kernel.grid for kernel in pages]
        for metrics, kernel, page in zip(read[one.path], kernels, pages, strict=True):
            assert kernel.metrics().keys() == page.metrics().keys()
            for name, metric in kernel.metrics().items():
                if name not in metrics:
                    seen["other name"] += 1
                    continue
                value, found, shown = metrics[name].value, metric.value, page.metrics()[name].value
                close = found == value == shown
                if isinstance(value, (int, float)) and isinstance(found, (int, float)):
                    assert isinstance(shown, (int, float))
                    # Two decimals of a number that may be as small as 1 in its unit.
                    close = abs(value - found) <= 0.0051 * max(1.0, abs(value)) >= abs(value - shown)
                seen["equal" if close else "other"] += 1
                if not close:
                    wrong.append((one.path.name, name, value, found, shown))
        rules = sum(len(source.extras(kernel.index).rules) for kernel in kernels)
        seen["rules"] += rules
    with capsys.disabled():
        print(f"\ndetails page: {dict(seen)}")  # noqa: T201
    assert not wrong, wrong[:20]
    assert seen["equal"] > 3000


@needs_ncu
def test_rules_names_and_ranges_are_those_of_the_details_page(printed: list[Printed]) -> None:
    for one in printed:
        kernels, source, _ = ncu_csv.read_text(one.details)
        report = open_report(one.path)
        for native, text in zip(report.kernels, kernels, strict=False):
            assert (native.name, native.demangled, native.nvtx) == (text.name, text.demangled, text.nvtx)
            assert (native.grid, native.block) == (text.grid, text.block)
            assert native.device.compute_capability == text.device.compute_capability
            told = [
                sorted((rule.rule, rule.section, rule.kind, rule.message) for rule in extras.rules if rule.kind)
                for extras in (report.source.extras(native.index), source.extras(text.index))
            ]
            assert told[0] == told[1], one.path.name
        report.close()


ODD: dict[str, int | str] = {
    "ncu_bad_magic.ncu-rep": "first bytes are not those of a .ncu-rep file",
    "ncu_details_utf16_powershell.csv": 1,
    "ncu_empty0.ncu-rep": "is empty",
    "ncu_flipped64_middle.ncu-rep": 3,
    "ncu_header_only_no_blocks.ncu-rep": "cut off before its first kernel",
    "ncu_locale_de_windows.csv": 1,
    "ncu_magic_only.ncu-rep": "cut off before its first kernel",
    "ncu_no_kernels.csv": "none were profiled",
    "ncu_nvgpuctrperm.log": "ERR_NVGPUCTRPERM",
    "ncu_raw_with_prof_preamble_and_app_output.csv": 1,
    "ncu_truncated_half.ncu-rep": 2,
    "ncu_truncated_last1byte.ncu-rep": 3,
    "nsys_truncated.sqlite": "is cut off or damaged",
    "torch_truncated.json": 0,
    "torch_truncated.json.gz": 0,
}
CSV: dict[str, int | str] = {
    "AveryClapp__ESMM-Research__metrics.csv": 9,
    "AveryClapp__ESMM-Research__profile_multi3.txt": 1,
    "CodeGandee__accelsim-test__algo23_ncu_details.csv": 1,
    "CodeGandee__accelsim-test__algo23_ncu_raw.csv": 1,
    "CodeGandee__accelsim-test__algo23_nsys_cuda_gpu_trace.csv": "is a table that nsys stats printed",
    "CodeGandee__llm-perf-opt__kernel_0001_ncu.details.csv": 1,
    "CodeGandee__llm-perf-opt__kernel_0001_ncu.metrics.csv": 1,
    "CodeGandee__llm-perf-opt__outputs_2025-10-30_05-20-37_ncu_raw.csv": "no section of the name",
}


def outcome(path: Path) -> int | str:
    """The number of kernels, or the error."""
    try:
        report = open_report(path)
    except GputuiError as error:
        return str(error)
    report.close()
    return len(report.kernels) if report.truncated == ("truncated" in path.name) else "told wrongly that it is cut off"


@pytest.mark.parametrize(("folder", "expected"), [("odd", ODD), ("csv", CSV)])
def test_odd_files_and_text_end_as_expected(reports: Path, folder: str, expected: dict[str, int | str]) -> None:
    for path in sorted((reports / folder).iterdir()):
        found, right = outcome(path), expected[path.name]
        if isinstance(right, int):
            assert found == right, path.name
        else:
            assert isinstance(found, str), path.name
            assert right in found
            assert "\n" not in found


def test_the_german_file_has_the_right_numbers(reports: Path) -> None:
    (kernel,) = open_report(reports / "odd" / "ncu_locale_de_windows.csv").kernels
    assert kernel.duration_ns == 117344
    assert {name: metric.value for name, metric in kernel.metrics().items()} == {
        "gpu__time_duration.sum": 117344,
        "dram__bytes.sum": 27595520,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 65.77,
    }
