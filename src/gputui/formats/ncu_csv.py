"""What ``ncu`` prints as text: ``--csv`` of its raw and details pages, and those pages as plain tables.

The text may stand among the profiled program's own output and ncu's ``==PROF==`` lines, in UTF-8 or in the UTF-16 of
PowerShell's ``>``, with the separators of any locale. Values come scaled (``us``, ``Kbyte``) and are brought to base
units; display names ("SM Frequency") become metric names by ``details_names.tsv``.

Numbers. Whether a file writes ``1,234.5`` or ``1.234,5`` is decided once for all of its values. Certain evidence is a
separator that repeats, that stands before the other one, or that is followed by other than three digits; the side
with more of it wins. Without any, a separator before exactly three digits is taken to group thousands: ncu prints two
or six decimals, never three. Spaces and apostrophes between digits group thousands everywhere.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gputui.errors import GputuiError
from gputui.formats._units import base_unit, unit_of
from gputui.formats.base import Progress, device_of
from gputui.model.kernel import Dim3, Kernel, function_name
from gputui.model.metrics import Metric
from gputui.model.report import Extras, Notice, Report, RuleResult, Section
from gputui.model.source import SourceListing

kind = "ncu-csv"

_HEADER = re.compile(r'^"?ID"?[,;\t].*\bKernel Name\b', re.MULTILINE)
_SUMMARY = re.compile(r'^"?(Process ID|Domain)"?[,;\t].*\bKernel Name\b.*\bInvocations\b', re.MULTILINE)
_TABLE_HEADER = re.compile(r"^ +Metric Name +Metric Unit +(Metric Value|Minimum)\b", re.MULTILINE)
_TOOL_LINE = re.compile(r"^==(PROF|WARNING|ERROR)==", re.MULTILINE)
_MISSING = {"n/a", "no data", "nan", "-nan", "inf", "-inf"}
_IDENTITY = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC",
}  # fmt: skip


def recognises(head: bytes) -> bool:
    text = _decoded(head)
    return any(pattern.search(text) for pattern in (_HEADER, _SUMMARY, _TABLE_HEADER, _TOOL_LINE))


def open(path: Path, progress: Progress | None = None) -> Report:
    """The report in ncu's output at ``path``. Raises ``GputuiError`` where there is no kernel in it, and says why."""
    text = _decoded(path.read_bytes())
    kernels, source, truncated = read_text(text)
    if not kernels:
        raise _no_kernels(path, text)
    if progress is not None:
        progress(len(kernels), len(kernels))
    notices = [Notice("truncated-end", {"kernels": len(kernels)})] if truncated else []
    if source.without_units:
        notices.append(Notice("units-missing"))
    said = _errors(text)
    if said:
        notices.append(Notice("profiler-errors", {"text": said[0], "count": len(said)}))
    return Report(path=str(path), kind=kind, kernels=kernels, source=source, truncated=truncated, notices=notices)


def _decoded(data: bytes) -> str:
    if data.startswith(b"\xff\xfe") or (data[1:2] == b"\0" and data[3:4] == b"\0"):
        encoding = "utf-16-le"
    elif data.startswith(b"\xfe\xff") or (data[:1] == b"\0" and data[2:3] == b"\0"):
        encoding = "utf-16-be"
    else:
        encoding = "utf-8"
    return data.decode(encoding, "replace").lstrip("\ufeff").replace("\r\n", "\n")


@dataclass(slots=True)
class _Launch:
    """One kernel launch as the text has it; ``cells`` holds ``(unit, value)`` by metric name."""

    name: str
    grid: Dim3 | None = None
    block: Dim3 | None = None
    capability: tuple[int, int] | None = None
    nvtx: tuple[str, ...] = ()
    cells: dict[str, tuple[str, str]] = field(default_factory=dict)
    sections: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    rules: list[RuleResult] = field(default_factory=list)

    def add(self, section: str, label: str, unit: str, value: str) -> None:
        name = metric_name(section, label)
        if name != label:
            self.labels.setdefault(name, label)
        # The same metric of a later section is the same value.
        self.cells.setdefault(name, (unit, value))
        names = self.sections.setdefault(section, [])
        if name not in names:
            names.append(name)


class TextSource:
    """The metrics of a text, all in memory."""

    def __init__(self, launches: Sequence[_Launch], without_units: bool = False) -> None:
        self._launches = launches
        self.without_units = without_units
        comma = decimal_comma(value for launch in launches for _, value in launch.cells.values())
        self._metrics = [
            {name: _metric(name, unit, value, comma) for name, (unit, value) in launch.cells.items()}
            for launch in launches
        ]

    def fetch(self, indices: Sequence[int], names: Sequence[str] | None) -> list[dict[str, Metric]]:
        rows = [self._metrics[index] for index in indices]
        if names is None:
            return [dict(row) for row in rows]
        return [{name: row[name] for name in names if name in row} for row in rows]

    def source(self, index: int) -> SourceListing | None:
        return None

    def extras(self, index: int) -> Extras:
        launch = self._launches[index]
        return Extras(
            sections=tuple(
                Section(_section_id(name), name, tuple(metrics)) for name, metrics in launch.sections.items() if name
            ),
            rules=tuple(launch.rules),
            labels=launch.labels,
        )

    def close(self) -> None:
        pass


def read_text(text: str) -> tuple[list[Kernel], TextSource, bool]:
    """The kernels in ncu's output, their source, and whether the text is cut off in the middle of a record."""
    if _HEADER.search(text):
        launches, truncated, without_units = _read_csv(text)
    else:
        launches, truncated, without_units = _read_tables(text), False, False
    source = TextSource(launches, without_units)
    kernels = []
    for index, (launch, metrics) in enumerate(zip(launches, source.fetch(range(len(launches)), None), strict=True)):
        kernels.append(
            Kernel(
                index,
                function_name(launch.name) or "(unnamed kernel)",
                launch.name,
                device_of(metrics, launch.capability),
                source,
                grid=_size(launch.grid, metrics.get("launch__grid_size")),
                block=_size(launch.block, metrics.get("launch__block_size")),
                nvtx=launch.nvtx,
            )
        )
    return kernels, source, truncated


def _size(told: Dim3 | None, metric: Metric | None) -> Dim3 | None:
    """The launch's size. Of reports before 2020.1.1 ncu prints a grid in threads; the metric counts blocks."""
    total = None if metric is None or metric.number is None else int(metric.number)
    if told is None or not all(told) or (total is not None and total != told[0] * told[1] * told[2]):
        return (total, 1, 1) if total else None
    return told


# Numbers


_GROUPS = str.maketrans("", "", " \u00a0\u202f'\u2019")
_NUMBER = re.compile(r"^[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?$")


def decimal_comma(values: Iterable[str]) -> bool:
    """Whether these values of one file write the decimal point as a comma (the rule is at the top of this module)."""
    certain = weak = 0
    for value in values:
        text = value.translate(_GROUPS).lstrip("+-")
        if not _NUMBER.match(text) or not ("," in text or "." in text):
            continue
        comma, dot = text.rfind(","), text.rfind(".")
        last, other = (",", ".") if comma > dot else (".", ",")
        sign = 1 if last == "," else -1  # for the last separator as the decimal point
        digits = len(text) - text.rfind(last) - 1
        if text.count(last) > 1:
            certain -= sign
        elif other in text or digits != 3 or text.startswith(("0.", "0,")):
            certain += sign
        else:
            weak -= sign
    return (certain or weak) > 0


def _metric(name: str, unit: str, value: str, comma: bool) -> Metric:
    factor, unit = base_unit(unit)
    unit = unit_of(name, unit)
    text = value.strip().removeprefix("(!) ")  # ncu's mark for a value that is none
    if text.lower() in _MISSING:
        return Metric(name, None, unit)
    digits = text.translate(_GROUPS)
    if not _NUMBER.match(digits):
        return Metric(name, text, unit)
    digits = digits.replace(".", "").replace(",", ".") if comma else digits.replace(",", "")
    try:
        number = float(digits) * factor
    except ValueError:
        return Metric(name, text, unit)
    return Metric(name, number if math.isfinite(number) else None, unit)


# Names


@cache
def _table() -> tuple[dict[tuple[str, str], str], dict[str, str | None], dict[str, str]]:
    """Metric names by section and label, by label alone (``None`` where it is ambiguous), and section ids by name."""
    exact: dict[tuple[str, str], str] = {}
    by_label: dict[str, str | None] = {}
    ids: dict[str, str] = {}
    lines = Path(__file__).with_name("details_names.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        id, section, label, name = line.split("\t")
        exact[section, label] = name
        by_label[label] = name if by_label.get(label, name) == name else None
        ids[section] = id
    return exact, by_label, ids


_BOTH = re.compile(r".* \((\w+__[^()\s]+)\)$")
"""``--print-metric-name label-name``."""


def metric_name(section: str, label: str) -> str:
    """The metric that the details page shows under ``label`` in ``section``; ``label`` itself where it is a name."""
    exact, by_label, _ = _table()
    both = _BOTH.match(label)
    return both[1] if both else exact.get((section, label)) or by_label.get(label) or label


def _section_id(name: str) -> str:
    return _table()[2].get(name, name)


# CSV


def _read_csv(text: str) -> tuple[list[_Launch], bool, bool]:
    records = _Records(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    launches: dict[tuple[Any, ...], _Launch] = {}
    header: dict[str, int] = {}
    units: list[str] | None = None
    tables = width = 0
    without_units = cut = False
    csv.field_size_limit(sys.maxsize)  # a mangled name of templates may pass 128 KB
    for row in _rows(records):
        cut = False
        if "Kernel Name" in row and row[0] == "ID":
            header, units, tables = {name: column for column, name in enumerate(row)}, None, tables + 1
            width = len(row)
        elif "Metric Value" in header:
            if len(row) > header["Metric Value"]:
                key = (tables, row[header.get("Process ID", 0)], row[0])
                launch = launches.get(key)
                if launch is None:
                    launch = launches[key] = _launch(row, header)
                _add_row(launch, row, header)
        elif len(row) < width:
            cut = True
        elif not row[0]:
            units = row
        else:
            without_units |= units is None
            launch = launches[tables, len(launches)] = _launch(row, header)
            for name, column in header.items():
                if name not in _IDENTITY and "Range:" not in name and row[column]:
                    launch.cells[name] = ((units or row)[column] if units else "", row[column])
    return list(launches.values()), cut or records.cut, without_units


def _rows(records: _Records) -> Iterator[list[str]]:
    """The rows that the csv module can read; damage ends them."""
    with suppress(csv.Error):
        yield from csv.reader(records, delimiter=records.delimiter, strict=False)


class _Records:
    """The lines of ncu's CSV among other output: headers, and rows that start with an id (or none: the units).

    A cell may hold line breaks; a row that never closes its quotes is dropped.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        header = next(line for line in lines if _HEADER.match(line))
        quoted = header.startswith('"')
        self.delimiter = header[4 if quoted else 2]
        self._start = re.compile(rf'^"\d*"{self.delimiter}' if quoted else rf"^\d*{self.delimiter}")
        self.cut = False

    def __iter__(self) -> Iterator[str]:
        parts: list[str] = []
        open_quote = started = False
        for line in self._lines:
            if _HEADER.match(line):
                parts, open_quote, started = [], False, True
            elif not started or _TOOL_LINE.match(line):
                continue
            elif self._start.match(line):
                parts, open_quote = [], False
            elif not parts:
                continue
            parts.append(line)
            open_quote ^= line.count('"') % 2 == 1
            if not open_quote:
                yield "\n".join(parts)
                parts = []
        self.cut = bool(parts)


def _launch(row: list[str], header: dict[str, int]) -> _Launch:
    def cell(name: str) -> str:
        column = header.get(name)
        return row[column] if column is not None and column < len(row) else ""

    return _Launch(
        name=cell("Kernel Name"),
        grid=_dim3(cell("Grid Size")),
        block=_dim3(cell("Block Size")),
        capability=_capability(cell("CC")),
        nvtx=next((_ranges(row[column]) for name, column in header.items() if "Push/Pop_Range:" in name), ()),
    )


def _add_row(launch: _Launch, row: list[str], header: dict[str, int]) -> None:
    def cell(name: str) -> str:
        column = header.get(name)
        return row[column].strip() if column is not None and column < len(row) else ""

    if cell("Metric Name"):
        launch.add(cell("Section Name"), cell("Metric Name"), cell("Metric Unit"), cell("Metric Value"))
    elif cell("Rule Name"):
        speedup = _metric("", "", cell("Estimated Speedup"), False).number
        launch.rules.append(
            RuleResult(
                rule=cell("Rule Name"),
                section=cell("Section Name"),
                kind=cell("Rule Type"),
                title="",
                message=cell("Rule Description"),
                speedup_pct=speedup,
                speedup_is_global=cell("Estimated Speedup Type") == "global",
            )
        )


def _dim3(text: str) -> Dim3 | None:
    sides = [int(side) for side in re.findall(r"\d{1,10}", text)]
    return (sides[0], sides[1], sides[2]) if len(sides) == 3 else None


def _capability(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,3})[.,](\d{1,3})", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def _ranges(cell: str) -> tuple[str, ...]:
    """The stack in an NVTX column, outermost first.

    Entries are quoted ``Domain:Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg``. The message repeats the range, so
    that the number of colons in both is known from the whole.
    """
    stack = []
    for entry in re.findall(r'"([^"]*)"', cell):
        domain, *rest = entry.split(":")
        colons = (len(rest) - 7) // 2
        name = ":".join(rest[: colons + 1])
        stack.append(name if domain in ("", "<default domain>") else f"{domain}@{name}")
    return tuple(stack)


# Plain tables

_KERNEL_LINE = re.compile(
    r"^  (?P<name>\S.*?)(?: (?P<grid>\(\d+, \d+, \d+\))x(?P<block>\(\d+, \d+, \d+\)))?,"
    r"(?: \d{4}-\w{3}-\d{2} [\d:]+,)? Context \d+, Stream \d+(?:, Device \d+, CC (?P<cc>\d+\.\d+))?$"
)
_DASHES = re.compile(r"^ +-+ -+ -+ *$")
_RULE_LINE = re.compile(r"^    (?P<kind>INF|OPT|WRN|ERR) {2,}(?P<text>.*)$")
_SPEEDUP = re.compile(r"^Est\. (?P<local>Local )?Speedup: (?P<pct>\d{1,3}(?:\.\d+)?)% *")


def _read_tables(text: str) -> list[_Launch]:
    launches: list[_Launch] = []
    section, rule_kind = "", ""
    rule: list[str] = []
    columns: list[int] = []
    below_header = False

    def end_rule() -> None:
        if rule and launches:
            launches[-1].rules.append(_text_rule(rule_kind, section, " ".join(rule)))
        rule.clear()

    for line in text.split("\n"):
        if rule and line.startswith(" " * 10):
            rule.append(line.strip())
            continue
        end_rule()
        header, below_header = below_header, False
        if _DASHES.match(line):
            # One such line opens a table, one ends its header, one ends the table.
            columns = [match.start() for match in re.finditer("-+", line)] if header else []
        elif _TABLE_HEADER.match(line):
            below_header = True
        elif kernel := _KERNEL_LINE.match(line):
            grid, block, capability = kernel["grid"] or "", kernel["block"] or "", kernel["cc"] or ""
            launches.append(_Launch(kernel["name"], _dim3(grid), _dim3(block), _capability(capability)))
            section, columns = "", []
        elif line.startswith("    Section: "):
            section, columns = line.removeprefix("    Section: ").strip(), []
        elif start := _RULE_LINE.match(line):
            rule_kind = start["kind"]
            rule.append(start["text"].strip())
        elif columns and launches and line.strip():
            _, unit, value = columns
            launches[-1].add(section, line[:unit].strip(), line[unit:value].strip(), line[value:].strip())
    end_rule()
    return launches


def _text_rule(kind: str, section: str, text: str) -> RuleResult:
    speedup = _SPEEDUP.match(text)
    return RuleResult(
        rule="",
        section=_section_id(section),
        kind=kind,
        title="",
        message=text[speedup.end() :] if speedup else text,
        speedup_pct=float(speedup["pct"]) if speedup else None,
        speedup_is_global=speedup is not None and not speedup["local"],
    )


# Files without kernels


def _errors(text: str) -> list[str]:
    """What ncu itself said went wrong, each as one line of printable text."""
    found = re.findall(r"^==ERROR== (.*)", text, re.MULTILINE)
    return ["".join(c if c.isprintable() else " " for c in line).strip()[:200] for line in found]


_EXPLAINED = (
    (
        "ERR_NVGPUCTRPERM",
        "holds no kernels: ncu was not permitted to read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        "Run ncu as root, or load the NVIDIA driver with NVreg_RestrictProfilingToAdminUsers=0, and profile again",
    ),
    (
        "did not match any section",
        "holds no kernels: ncu found no section of the name that --section gave",
        "See ncu --list-sections for the names, or use --set full, and profile again",
    ),
    (
        "No kernels were profiled",
        "holds no kernels: ncu says that none were profiled",
        "Check that the program reaches its kernels, and ncu's --kernel-name, --launch-skip and --nvtx-include",
    ),
)


def _no_kernels(path: Path, text: str) -> GputuiError:
    for words, message, hint in _EXPLAINED:
        if re.search(rf"^==(ERROR|WARNING)== .*{words}", text, re.MULTILINE):
            return GputuiError(str(path), message, hint)
    said = _errors(text)
    if said:
        return GputuiError(str(path), f"holds no kernels: ncu said {said[0]!r}", "Solve that and profile again")
    if _SUMMARY.search(text) or "Minimum" in text:
        return GputuiError(
            str(path),
            "is a summary over launches, not a list of kernels",
            "Print it without --print-summary: ncu --import REPORT --page raw --csv",
        )
    if _HEADER.search(text) or _TABLE_HEADER.search(text):
        return GputuiError(
            str(path),
            "holds the head of a table and no kernels",
            "Print it again: ncu --import REPORT --page raw --csv",
        )
    return GputuiError(
        str(path),
        "is what ncu printed while profiling; there are no metrics in it",
        "Open the report that ncu -o wrote, or print the metrics with ncu --csv --page raw",
    )
