"""Nsight Compute's binary reports (``.ncu-rep``, ``.ncu-repz``, ``.nsight-cuprof-report``).

NVIDIA's own reader opens them, in a child process (``_ncu_reader.py``): it is native code that prints on standard
error and may crash on a damaged file. Where that reader is not installed, ``ncu`` itself prints the report as CSV.
What the reader does not tell (cut-off files, versions, clock control) comes from ``_nvr.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gputui.errors import GputuiError
from gputui.formats import ncu_csv
from gputui.formats._nvr import MAGIC, ZSTD_MAGIC, Layout, compressed_is_cut, read_layout
from gputui.formats._units import unit_of
from gputui.formats.base import Progress, device_of
from gputui.model.kernel import Dim3, Kernel
from gputui.model.metrics import Metric, is_sane
from gputui.model.report import Extras, MetricSource, Notice, Report, RuleResult, Section
from gputui.model.source import Instruction, SourceLine, SourceListing
from gputui.nsight import find_ncu

kind = "ncu"
_BATCH = 256
_TIMEOUT_S = 120.0
"""How long the native reader may take for one answer; loading a report of 1 GB takes some ten seconds."""
_LOOK_S = 0.1
"""How often somebody who waits for a report to be opened is asked whether to go on."""
_READER = str(Path(__file__).with_name("_ncu_reader.py"))
_INSTALL = "Install NVIDIA's report reader: pip install ncu-report"


def recognises(head: bytes) -> bool:
    return head.startswith((MAGIC, ZSTD_MAGIC))


def is_whole(path: Path) -> bool:
    """Whether ncu wrote the report to its end. Raises ``OSError``."""
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head == ZSTD_MAGIC:
        return not compressed_is_cut(path)
    if head != MAGIC:
        return False
    layout = read_layout(path)
    return layout.results > 0 and not layout.cut


def open(path: Path, progress: Progress | None = None) -> Report:
    """The report at ``path``. Raises ``GputuiError`` where it holds no kernel or cannot be read at all."""
    with path.open("rb") as file:
        compressed = file.read(4) == ZSTD_MAGIC
    # The blocks of a compressed report are out of reach: the standard library knows no zstd.
    layout = Layout(cut=compressed_is_cut(path)) if compressed else read_layout(path)
    if layout.cut and not layout.results and not compressed:
        raise _no_kernels(path, layout)
    library = find_library()
    report = _open_with_ncu(path) if library is None else _open_native(path, library, progress)
    report.tool_version, report.session, report.truncated = layout.tool_version, layout.session, layout.cut
    count = len(report.kernels)
    if not count:
        report.close()
        raise _no_kernels(path, layout)
    if layout.cut:
        if layout.results > count:
            report.notices.append(Notice("truncated", {"kernels": count, "promised": layout.results}))
        else:
            report.notices.append(Notice("truncated-end", {"kernels": count}))
    elif layout.damaged or layout.results > count:
        report.notices.append(Notice("damaged", {"kernels": count, "promised": max(count, layout.results)}))
    return report


def _no_kernels(path: Path, layout: Layout) -> GputuiError:
    if layout.cut:
        return GputuiError(str(path), "is cut off before its first kernel", "Copy it again, or collect it again")
    if layout.damaged or layout.results:
        return GputuiError(
            str(path), "is damaged: none of its kernels can be read", "Copy it again, or collect it again"
        )
    return GputuiError(
        str(path), "holds no kernels", "Check ncu's --kernel-name, --launch-skip and --nvtx-include, and profile again"
    )


def find_library() -> Path | None:
    """The folder to import NVIDIA's reader from, or ``None``.

    Only a folder with the native library in it counts: a stray ``ncu_report.py`` on the path is not NVIDIA's. The
    package from PyPI wins over the module that ships with Nsight Compute, which may be too old.
    """
    entries = [Path(entry) for entry in sys.path if entry]
    for home in (*(entry / "ncu_report" for entry in entries), *entries):
        module = home / ("__init__.py" if home.name == "ncu_report" else "ncu_report.py")
        if module.is_file() and any(home.glob("_ncu_report*")):
            return home.parent if home.name == "ncu_report" else home
    return None


class NativeSource:
    """The child process of one open report. While it is opened, ``goes_on`` is asked again and again."""

    def __init__(self, path: Path, library: Path, goes_on: Callable[[], bool] = lambda: True) -> None:
        self._path = path
        self._goes_on: Callable[[], bool] | None = goes_on
        self._lock = threading.Lock()
        self._extras: dict[int, Extras] = {}
        self._command = [
            # Isolated and without site: neither PYTHONPATH nor what lies beside this script or the report counts.
            *(sys.executable, "-I", "-S", _READER, str(library), os.path.realpath(path), str(_TIMEOUT_S))
        ]
        self._revived = False
        self._start()
        self.count: int = self._answer()["count"]

    def _start(self) -> None:
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl+C is for the parent to handle
        )
        self._stop = weakref.finalize(self, _stop, self._child)

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        while self._goes_on is not None and not select.select([self._child.stdout], [], [], _LOOK_S)[0]:
            if not self._goes_on():
                self._stop()
                raise GputuiError(str(self._path), "was not opened: reading it was stopped", "Open it again")
        line = self._child.stdout.readline()
        if not line:
            raise self._failure()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self._stop()
            raise self._error("NVIDIA's report reader gave no sense on it") from None
        if answer.get("error") == "import":
            self._stop()
            raise GputuiError(
                str(self._path), f"NVIDIA's report reader does not start ({answer['text']})", f"{_INSTALL} --upgrade"
            )
        if "error" in answer:
            raise self._error(f"NVIDIA's report reader cannot read it ({answer['text']})")
        return answer

    def _failure(self) -> GputuiError:
        """Why the child is gone: its watchdog exits with 1, a crash of native code with a signal."""
        try:
            timed_out = self._child.wait(timeout=5) == 1
        except subprocess.TimeoutExpired:
            timed_out = True
        self._stop()
        what = f"gave no answer within {_TIMEOUT_S:g} s" if timed_out else "crashed on it"
        return self._error(f"NVIDIA's report reader {what}")

    def _error(self, message: str) -> GputuiError:
        return GputuiError(str(self._path), message, "The file is damaged: copy it again, or collect it again")

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        with self._lock:
            if self._child.poll() is not None and self._stop.alive and not self._revived:
                # Killed from outside (out of memory, say): once more, from the start.
                self._revived = True
                self._stop()
                self._start()
                self._answer()
            if not self._stop.alive:
                raise GputuiError(str(self._path), "is closed, or its reader has failed", "Open it again")
            assert self._child.stdin is not None
            # A child that is gone shows in its answer.
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.write(json.dumps({"do": do, **request}) + "\n")
                self._child.stdin.flush()
            return self._answer()

    def fetch(self, indices: Sequence[int], names: Sequence[str] | None) -> list[dict[str, Metric]]:
        answer = self.ask("metrics", kernels=list(indices), names=None if names is None else list(names))
        return [
            {name: Metric(name, value, unit_of(name, unit), parts) for name, value, unit, parts in row or ()}
            for row in answer["kernels"]
        ]

    def extras(self, index: int) -> Extras:
        if index not in self._extras:
            self._extras[index] = _extras(self.ask("extras", kernel=index))
        return self._extras[index]

    def source(self, index: int) -> SourceListing | None:
        found = self.ask("source", kernel=index)["source"]
        return None if found is None else _listing(found)

    def opened(self) -> None:
        """From now on an answer is waited for."""
        self._goes_on = None

    def close(self) -> None:
        # Before the lock: whoever holds it waits for the child's answer.
        self._child.kill()
        with self._lock:
            self._stop()


def _stop(child: subprocess.Popen[str]) -> None:
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()


def _open_native(path: Path, library: Path, progress: Progress | None) -> Report:
    kernels: list[Kernel] = []
    count = unreadable = 0

    def goes_on() -> bool:
        return progress is None or progress(len(kernels), count)

    source = NativeSource(path, library, goes_on)
    count = source.count
    for start in range(0, count, _BATCH):
        batch = range(start, min(start + _BATCH, count))
        for index, row in zip(batch, source.ask("identity", kernels=list(batch))["kernels"], strict=True):
            unreadable += row is None
            kernels.append(_kernel(index, row or _UNREADABLE, source))
        if not goes_on():
            break
    source.opened()
    notices = [Notice("unreadable-kernels", {"count": unreadable})] if unreadable else []
    return Report(path=str(path), kind=kind, kernels=kernels, source=source, notices=notices)


_UNREADABLE: dict[str, Any] = {"name": "", "demangled": "", "workload": "kernel", "nvtx": (), "metrics": ()}


def _kernel(index: int, row: dict[str, Any], source: MetricSource) -> Kernel:
    metrics = {name: Metric(name, value, unit_of(name, unit)) for name, value, unit, _ in row["metrics"]}
    name = row["name"] or "(unnamed kernel)"
    return Kernel(
        index,
        name,
        row["demangled"] or name,
        device_of(metrics),
        source,
        grid=_dim3(metrics, "grid"),
        block=_dim3(metrics, "block"),
        nvtx=tuple(row["nvtx"]),
        workload=row["workload"],
        metrics=metrics.values(),
    )


def _dim3(metrics: dict[str, Metric], what: str) -> Dim3 | None:
    """The launch's size in three dimensions; reports before 2020.1.1 hold the product alone."""

    def whole(name: str) -> int | None:
        metric = metrics.get(f"launch__{what}_{name}")
        return None if metric is None or metric.number is None else int(metric.number)

    x, y, z = (whole(f"dim_{axis}") for axis in "xyz")
    if x is not None and y is not None and z is not None:
        return x, y, z
    size = whole("size")
    return None if size is None else (size, 1, 1)


_MARKUP = (
    (re.compile(r"@url:(.*?):((?:https?|file)://[^@]*)@"), r"\1 (\2)"),
    (re.compile(r"@\w+:[^@:]*:([^@]*)@"), r"\1"),
)
"""Links in NVIDIA's messages: to a page, and to a section or the source."""


_LONGEST_MESSAGE = 5000


def _plain(message: str) -> str:
    message = message[:_LONGEST_MESSAGE]
    for pattern, plain in _MARKUP:
        message = pattern.sub(plain, message)
    return message.strip()


def _share(percent: float | None) -> float | None:
    """NVIDIA's estimate, where it can be one."""
    return percent if percent is not None and 0 <= percent <= 100 else None


def _extras(answer: dict[str, Any]) -> Extras:
    sections = sorted(answer["sections"], key=lambda section: (section["id"] == "section0", section["order"]))
    return Extras(
        sections=tuple(Section(one["id"], one["name"], tuple(one["metrics"])) for one in sections),
        rules=tuple(
            RuleResult(
                rule=rule["rule"],
                section=rule["section"],
                kind=rule["kind"],
                title=rule["title"],
                message=_plain(rule["message"]),
                speedup_pct=_share(rule["speedup"]),
                speedup_is_global=rule["global"],
            )
            for rule in answer["rules"]
        ),
        labels=answer["labels"],
        descriptions=answer["descriptions"],
    )


_REASONS = {"no_instruction": "no_instructions", "gmma": "warpgroup_arrive"}
"""Spellings of one stall reason."""

_LABEL = re.compile(r"`\(\S*\) ")
"""A label before an address: disassemblers put one or not."""


def _listing(answer: dict[str, Any]) -> SourceListing:
    files: list[str] = answer["files"]
    fields: list[dict[str, Any]] = [{} for _ in answer["addresses"]]
    for name, (places, values) in answer["columns"].items():
        for place, value in zip(places, values, strict=True):
            if value >= 0 and is_sane(value):
                fields[place][name] = value
    stalls: list[dict[str, float]] = [{} for _ in fields]
    for name, (places, values) in answer["stalls"].items():
        reason = _REASONS.get(name, name)
        for place, value in zip(places, values, strict=True):
            if value >= 0 and is_sane(value):
                stalls[place][reason] = value
    measured = set(answer["columns"])
    if answer["stalls"]:
        measured.add("stalls")
        if "samples" not in measured:
            # Before 2021.2 the samples are told by reason alone.
            measured.add("samples")
            for one, reasons in zip(fields, stalls, strict=True):
                one["samples"] = sum(reasons.values())
    instructions = tuple(
        Instruction(
            address,
            _LABEL.sub("", sass),
            file=files[place[0]] if place else "",
            line=place[1] if place else 0,
            stalls=reasons,
            **one,
        )
        for address, sass, place, one, reasons in zip(
            answer["addresses"], answer["sass"], answer["places"], fields, stalls, strict=True
        )
    )
    lines = {
        (file, int(number)): SourceLine(file, int(number), text)
        for file, texts in zip(files, answer["lines"], strict=True)
        for number, text in (texts or {}).items()
    }
    missing = tuple(file for file, texts in zip(files, answer["lines"], strict=True) if texts is None)
    return SourceListing(instructions, frozenset(measured), lines, missing, answer["left_out"])


def _open_with_ncu(path: Path) -> Report:
    """The report as ``ncu`` prints it: every metric to six decimals, no sections, rules or descriptions."""
    ncu = find_ncu()
    if ncu is None:
        raise GputuiError(str(path), "needs NVIDIA's report reader, which is not installed", _INSTALL)
    try:
        # Not --print-units base: that rounds to two decimals.
        done = subprocess.run(
            [ncu, "--import", str(path.absolute()), "--page", "raw", "--csv"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GputuiError(str(path), f"ncu did not print it ({error})", _INSTALL) from error
    text = done.stdout.decode("utf-8", "replace")
    kernels, source, _ = ncu_csv.read_text(text)
    if not kernels and done.returncode:
        said = re.search(r"==ERROR== (.*)", text + done.stderr.decode("utf-8", "replace"))
        raise GputuiError(
            str(path), f"ncu cannot print it ({said[1].strip(' .') if said else f'status {done.returncode}'})", _INSTALL
        )
    return Report(
        path=str(path), kind=kind, kernels=kernels, source=source, notices=[Notice("read-with-ncu", {"ncu": ncu})]
    )
