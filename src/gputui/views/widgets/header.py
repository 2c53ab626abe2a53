"""The top line: what is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputui import units
from gputui.paint.grid import width_of
from gputui.render.timeline_rows import gpu_names
from gputui.views.text import Line, Segment, line_width, shorten_middle, shown
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.analysis.timeline import TimelineFacts
    from gputui.model.device import Device
    from gputui.views.library import LoadedReport
    from gputui.wording import Wording

_GPU_NAME = 40
_LEAST_FILE = 24


class Header(OneLine):
    """File, GPU and totals left; level, language and help right. What has no room goes from the middle."""

    def __init__(self) -> None:
        super().__init__(id="header")
        self._left: tuple[str, ...] = ()
        self._file = ""
        self._right = ""
        self._least = _LEAST_FILE

    def show(self, file: str, facts: Sequence[str], right: str, *, least: int = _LEAST_FILE) -> None:
        """The file gets ``least`` cells before the facts do."""
        new = (file, tuple(facts), right, least)
        if new != (self._file, self._left, self._right, self._least):
            self._file, self._left, self._right, self._least = new
            self.refresh()

    def lines(self, width: int) -> list[Line]:
        right = f"{self._right} "
        name: list[Segment] = [(" gputui", "accent"), ("  ", "")]
        room = width - width_of(right) - line_width(name) - 3
        facts = list(self._left)
        separator = " · "
        while facts and min(width_of(self._file), self._least) + 3 + width_of(separator.join(facts)) > room:
            facts.pop(max(0, len(facts) - 3) if len(facts) > 2 else 0)
        tail = separator.join(facts)
        file = shorten_middle(self._file, max(8, room - (width_of(tail) + 3 if tail else 0)))
        line = [*name, (file, "strong"), ("   " if tail else "", ""), (tail, "muted")]
        blanks = width - line_width(line) - width_of(right)
        return [[*line, (" " * max(1, blanks), ""), (right, "muted")]]


def facts_of(loaded: LoadedReport, device: Device | None, words: Wording) -> list[str]:
    """What is told of a report beside its name; ``device`` is that of the selected kernel."""
    if loaded.facts is not None:
        return _of_timeline(loaded, loaded.facts, words)
    facts = []
    if device is not None:
        facts.append(shown(_short(device.name), _GPU_NAME))
        if device.architecture:
            facts.append(f"{device.architecture} {device.capability_text}")
    if loaded.report.tool_version:
        facts.append(f"ncu {_version(loaded.report.tool_version)}")
    facts.append(words.ui("kernel_count", count=len(loaded.entries)))
    if loaded.total_ns is not None:
        facts.append(units.duration(loaded.total_ns))
    return facts


def _of_timeline(loaded: LoadedReport, facts: TimelineFacts, words: Wording) -> list[str]:
    report, timeline = loaded.report, facts.timeline
    tool = words.ui("header.torch") if report.kind == "torch" else "nsys"
    if report.tool_version:
        tool = f"{tool} {_version(report.tool_version)}"
    schemas = dict.fromkeys(file.schema for file in timeline.files if file.schema)
    if schemas:
        tool = words.ui("header.schema", tool=tool, schema=shown(", ".join(schemas), 30))
    launches = sum(entry.count for entry in loaded.entries)
    counts = words.ui("header.no_kernels")
    if launches:
        key = "header.launches" if launches > 1 else "header.launch"
        counts = words.ui(key, kernels=len(loaded.entries), launches=launches)
    return [
        *([shown(_short(gpu_names(timeline, facts.gpus)), _GPU_NAME)] if timeline.gpus else []),
        tool,
        counts,
        units.duration(timeline.span_ns),
    ]


def _short(gpu: str) -> str:
    return gpu.replace("NVIDIA ", "").replace("GeForce ", "").strip()


def _version(full: str) -> str:
    return shown(".".join(full.split(".")[:2]), 20)
