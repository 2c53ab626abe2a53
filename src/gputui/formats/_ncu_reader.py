"""The child process around NVIDIA's native report reader.

Run as a script with the folder of that reader, the report's path and the seconds that one answer may take: it
answers one JSON line for each JSON line of requests, and ends with its standard input. It imports nothing of gputui,
so that it starts in a few hundredths of a second; the native code's own output goes to the null device, and if that
code crashes only this process ends.
"""

from __future__ import annotations

import codecs
import faulthandler
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_IDENTITY = (
    "device__attribute_display_name",
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
    "device__attribute_multiprocessor_count",
    "device__attribute_clock_rate",
    "device__attribute_memory_clock_rate",
    "device__attribute_global_memory_bus_width",
    "device__attribute_l2_cache_size",
    "launch__grid_size",
    "launch__block_size",
    "launch__grid_dim_x",
    "launch__grid_dim_y",
    "launch__grid_dim_z",
    "launch__block_dim_x",
    "launch__block_dim_y",
    "launch__block_dim_z",
    "gpu__time_duration.sum",
    "gpu__time_duration",
)

_WITH_INSTANCES = ("sass__inst_executed_per_opcode", "sass__inst_executed_per_opcode_with_modifier_all")
"""The metrics whose value says little without its parts: instructions executed, by opcode."""

_PER_INSTRUCTION = {
    "samples": ("smsp__pcsamp_sample_count",),
    "executed": ("inst_executed",),
    "threads": ("thread_inst_executed",),
    "global_sectors": ("memory_l2_theoretical_sectors_global", "memory_l2_sectors_global"),
    "global_ideal": ("memory_l2_theoretical_sectors_global_ideal", "memory_l2_sectors_global_ideal"),
    "shared_wavefronts": ("memory_l1_wavefronts_shared",),
    "shared_ideal": ("memory_l1_wavefronts_shared_ideal",),
    "local_sectors": ("memory_l2_theoretical_sectors_local", "memory_l2_sectors_local"),
    "divergent": ("smsp__branch_targets_threads_divergent",),
}
"""What is read of each instruction, under the first of its names that the report has by address."""

_STALLS = ("smsp__pcsamp_warps_issue_stalled_", "smsp__pcsamp_warp_stall_")
"""Samples by reason: since 2020 and before."""

_MOST_INSTRUCTIONS = 20_000
_MOST_LINES = 20_000
_AROUND = 12
"""Lines of source kept on either side of one that instructions come from."""
_MOST_TEXT = 400

_Row = tuple[str, "float | str | None", str, "dict[str, float] | None"]


def _value(metric: Any) -> float | str | None:
    """The metric's value; one without a value may hold a meaningless 0, and infinity is no JSON."""
    if not metric.has_value():
        return None
    value = metric.value()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (int, float, str)) else None


def _metric(action: Any, name: str) -> Any:
    """The metric of this name; none where the name holds bytes that the reader cannot pass on."""
    try:
        return action.metric_by_name(name)
    except (TypeError, UnicodeError):
        return None


def _instances(metric: Any) -> dict[str, float] | None:
    """The parts of a metric by the text that tells them apart; ``None`` where it has none or they cannot be read."""
    try:
        if not metric.has_correlation_ids():
            return None
        keys = metric.correlation_ids()
        parts = {keys.as_string(i): metric.as_double(i) for i in range(metric.num_instances())}
    except Exception:
        return None
    return {key: value for key, value in parts.items() if key and math.isfinite(value)} or None


def _text(call: Callable[[], Any], fallback: Any = "") -> Any:
    """A string of the reader; it raises TypeError on bytes that it cannot decode."""
    try:
        return call()
    except (TypeError, UnicodeError):
        return fallback


def _each(kernels: Iterable[int], read: Callable[[int], Any]) -> dict[str, Any]:
    """``read`` of each kernel, ``None`` where the reader fails: one bad kernel must not lose the others."""
    rows = []
    for index in kernels:
        try:
            rows.append(read(index))
        except Exception:
            rows.append(None)
    return {"kernels": rows}


class Reader:
    def __init__(self, library: Any, path: str) -> None:
        with _suffixed(path) as name:
            self.context = library.load_report(name)
        if self.context is None:
            raise ValueError("not a report")
        self.messages = {
            getattr(library, f"MsgType_{kind}", None): short
            for kind, short in (("OK", "INF"), ("OPTIMIZATION", "OPT"), ("WARNING", "WRN"), ("ERR", "ERR"))
        }
        self.workloads = {
            getattr(library.IAction, f"WorkloadType_{kind}", None): kind.lower() for kind in ("RANGE", "GRAPH")
        }
        self.made: dict[int, Any] = {}
        self.actions: list[tuple[Any, int]] = []
        for r in range(self.context.num_ranges()):
            one = self.context.range_by_idx(r)
            self.actions.extend((one, a) for a in range(one.num_actions()))

    def action(self, index: int) -> Any:
        # Kept: making one anew takes the library 0.3 ms, as long as reading a hundred metrics.
        if index not in self.made:
            one, a = self.actions[index]
            self.made[index] = one.action_by_idx(a)
        return self.made[index]

    def count(self) -> dict[str, Any]:
        return {"count": len(self.actions)}

    def identity(self, kernels: list[int]) -> dict[str, Any]:
        """Name, NVTX stack and the few metrics of each kernel that say what and where it is."""
        return _each(kernels, self._identity)

    def _identity(self, index: int) -> dict[str, Any]:
        action = self.action(index)
        name = _text(action.name)
        return {
            "name": name,
            "demangled": _text(lambda: action.name(action.NameBase_DEMANGLED), name),
            "workload": self.workloads.get(action.workload_type(), "kernel"),
            "nvtx": self._nvtx(action),
            "metrics": self._metrics(action, _IDENTITY),
        }

    def _nvtx(self, action: Any) -> list[str]:
        state = action.nvtx_state()
        if state is None:
            return []
        stack: list[str] = []
        for domain in state.domains():
            info = state.domain_by_id(domain)
            ranges = _text(info.push_pop_ranges, ())
            name = _text(info.name)
            prefix = "" if name in ("", "<default domain>") else f"{name}@"
            stack.extend(prefix + one for one in ranges)
        return stack

    def _metrics(self, action: Any, names: Iterable[str]) -> list[_Row]:
        """The metrics of these names that exist; a breakdown is followed by the metrics that it names."""
        found: list[_Row] = []
        names = list(names)
        asked = set(names)
        for name in names:
            metric = _metric(action, name)
            if metric is None:
                continue
            try:
                value = _value(metric)
            except (TypeError, UnicodeError):
                value = None
            found.append(
                (name, value, _text(metric.unit) or "", _instances(metric) if name in _WITH_INSTANCES else None)
            )
            if name.startswith("breakdown:") and isinstance(value, str):
                parts = [part.strip() for part in value.split(",")]
                names.extend(part for part in parts if part not in asked)
                asked.update(parts)
        return found

    def metrics(self, kernels: list[int], names: list[str] | None) -> dict[str, Any]:
        """Of each kernel the metrics of these names, or all of them where names is null."""

        def read(index: int) -> list[_Row]:
            action = self.action(index)
            return self._metrics(action, action.metric_names() if names is None else names)

        return _each(kernels, read)

    def extras(self, kernel: int) -> dict[str, Any]:
        """Sections, NVIDIA's rule results, and the labels and descriptions of all metrics of one kernel."""
        action = self.action(kernel)
        sections = [
            {
                "id": _text(section.identifier),
                "name": _text(section.name),
                "order": section.order(),
                "metrics": [_text(m.name) for m in (*section.header_metrics(), *section.body_metrics())],
            }
            for section in action.sections()
        ]
        labels, descriptions = {}, {}
        for name in action.metric_names():
            metric = _metric(action, name)
            if metric is not None:
                labels[name] = _text(metric.label) or ""
                descriptions[name] = _text(metric.description) or ""
        rules = []
        for rule in _text(action.rule_results_as_dicts, ()):
            message, speedup = rule.get("rule_message") or {}, rule.get("speedup_estimation") or {}
            rules.append(
                {
                    "rule": rule.get("rule_identifier") or "",
                    "section": rule.get("section_identifier") or "",
                    "kind": self.messages.get(message.get("type"), ""),
                    "title": message.get("title") or rule.get("name") or "",
                    "message": message.get("message") or "",
                    "speedup": speedup.get("speedup"),
                    "global": speedup.get("type") == 2,
                }
            )
        return {"sections": sections, "rules": rules, "labels": labels, "descriptions": descriptions}

    def source(self, kernel: int) -> dict[str, Any]:
        """Instructions by address with their numbers, and the source lines that they come from.

        ``columns`` and ``stalls`` hold pairs of lists: the places of instructions, and their values where not 0.
        """
        action = self.action(kernel)
        columns: dict[str, dict[int, float]] = {}
        for column, names in _PER_INSTRUCTION.items():
            found = next((values for values in (_by_address(action, name) for name in names) if values), None)
            if found:
                columns[column] = found
        stalls: dict[str, dict[int, float]] = {}
        for name in action.metric_names():
            prefix = next((one for one in _STALLS if name.startswith(one)), None)
            if prefix is not None and not name.endswith("_not_issued"):
                values = _by_address(action, name)
                if values:
                    stalls[name[len(prefix) :]] = values
        addresses = sorted({address for values in (*columns.values(), *stalls.values()) for address in values})
        if not addresses or not (stalls or columns.keys() & {"samples", "executed"}):
            return {"source": None}
        total = len(addresses)
        if total > _MOST_INSTRUCTIONS:
            first = columns.get("samples") or columns.get("executed") or {}
            by_weight = sorted(addresses, key=lambda address: -first.get(address, 0.0))
            addresses = sorted(by_weight[:_MOST_INSTRUCTIONS])
        place_of = {address: place for place, address in enumerate(addresses)}

        def packed(values: dict[int, float]) -> list[list[Any]]:
            kept = [(place_of[a], value) for a, value in values.items() if value and a in place_of]
            return [[place for place, _ in kept], [value for _, value in kept]]

        files: dict[str, int] = {}
        places = [self._place(action, address, files) for address in addresses]
        return {
            "source": {
                "addresses": addresses,
                "sass": [_sass(action, address) for address in addresses],
                "places": places,
                "files": list(files),
                "lines": _lines(dict(_text(action.source_files, {})), list(files), places),
                "columns": {name: packed(values) for name, values in columns.items()},
                "stalls": {name: packed(values) for name, values in stalls.items()},
                "left_out": total - len(addresses),
            }
        }

    def _place(self, action: Any, address: int, files: dict[str, int]) -> tuple[int, int] | None:
        """The number of the instruction's file, which may be a new one, and the line; line 0 is none."""
        info = action.source_info(address)
        name = None if info is None else _text(info.file_name)
        line = 0 if info is None else info.line()
        return (files.setdefault(name, len(files)), line) if name and line > 0 else None


def _by_address(action: Any, name: str) -> dict[int, float]:
    """A metric's values by instruction address; empty where it is not kept by address, or cannot be read."""
    metric = _metric(action, name)
    try:
        count = metric.num_instances() if metric is not None else 0
        if count < 2 or not metric.has_correlation_ids():
            return {}
        ids = metric.correlation_ids()
        if ids.num_instances() < count or ids.kind(0) != ids.ValueKind_UINT64:
            return {}
        values = {ids.as_uint64(i): metric.as_double(i) for i in range(count)}
    except Exception:
        return {}
    return {address: value for address, value in values.items() if math.isfinite(value)}


def _sass(action: Any, address: int) -> str:
    text = " ".join((_text(lambda: action.sass_by_pc(address)) or "")[:_MOST_TEXT].split())
    return "" if text == "N/A" else text


def _lines(texts: dict[str, str], files: list[str], places: list[Any]) -> list[dict[int, str] | None]:
    """Of each file the lines that instructions come from and those around them; ``None`` where it is not imported."""
    wanted: list[set[int]] = [set() for _ in files]
    for place in places:
        if place is not None:
            wanted[place[0]].add(place[1])
    found: list[dict[int, str] | None] = []
    left = _MOST_LINES
    for name, own in zip(files, wanted, strict=True):
        text = texts.get(name, "")
        if not text:
            found.append(None)
            continue
        lines = text.split("\n")
        around = {line for one in own for line in range(one - _AROUND, one + _AROUND + 1) if 1 <= line <= len(lines)}
        # Those that matter, before those around them.
        kept = [*sorted(own & around), *sorted(around - own)][:left]
        left -= len(kept)
        found.append({line: lines[line - 1][:_MOST_TEXT].rstrip() for line in kept})
    return found


@contextmanager
def _suffixed(path: str) -> Iterator[str]:
    """A name of the file with the suffix that its content needs: the library tells compressed reports by name alone."""
    with open(path, "rb") as file:
        suffix = ".ncu-repz" if file.read(4) == b"\x28\xb5\x2f\xfd" else ".ncu-rep"
    if path.endswith(".ncu-repz") == (suffix == ".ncu-repz"):
        yield path
        return
    import tempfile  # slow to import, seldom needed

    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "report" + suffix)
        os.symlink(os.path.abspath(path), name)
        yield name


def _replaced(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "\ufffd".encode() * (error.end - error.start), error.end


def main() -> None:
    # Undecodable bytes of a name come as lone surrogates, which no UTF-8 output can hold.
    codecs.register_error("replaced", _replaced)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replaced", newline="\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer, ensure_ascii=False) + "\n")
        answers.flush()

    folder, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    # A watchdog in C: native code that never returns is ended too, also when the parent is gone.
    faulthandler.dump_traceback_later(seconds, exit=True, file=null)
    sys.path.append(folder)
    try:
        import ncu_report
    except Exception as error:
        say({"error": "import", "text": str(error)})
        return
    try:
        reader = Reader(ncu_report, path)
    except Exception as error:  # the native library raises whatever it likes; the parent names the file
        say({"error": "load", "text": str(error)})
        return
    say(reader.count())
    faulthandler.cancel_dump_traceback_later()
    for line in sys.stdin:
        faulthandler.dump_traceback_later(seconds, exit=True, file=null)
        request = json.loads(line)
        try:
            answer = getattr(reader, request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": "read", "text": f"{type(error).__name__}: {error}"}
        say(answer)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        sys.exit(2)  # 1 is the watchdog's
