"""What workers tell the screen. Each carries finished, unshared results; the newest of a burst of progress wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.source import Source
    from gputui.errors import GputuiError
    from gputui.model.metrics import Metric
    from gputui.model.report import Extras
    from gputui.views.library import LoadedReport


class LoadProgressed(Message):
    """``done`` of ``total`` kernels of the file are known."""

    def __init__(self, generation: int, path: str, done: int, total: int) -> None:
        super().__init__()
        self.generation = generation
        self.path = path
        self.done = done
        self.total = total

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LoadProgressed)


class ReportOpened(Message):
    def __init__(self, generation: int, loaded: LoadedReport) -> None:
        super().__init__()
        self.generation = generation
        self.loaded = loaded


class ReportFailed(Message):
    def __init__(self, generation: int, path: str, error: GputuiError) -> None:
        super().__init__()
        self.generation = generation
        self.path = path
        self.error = error


class LoadFinished(Message):
    def __init__(self, generation: int, stopped: bool) -> None:
        super().__init__()
        self.generation = generation
        self.stopped = stopped


class KernelsDiagnosed(Message):
    """A batch of diagnoses by entry number."""

    def __init__(self, generation: int, diagnoses: Mapping[int, Diagnosis]) -> None:
        super().__init__()
        self.generation = generation
        self.diagnoses = diagnoses


class ExtrasRead(Message):
    def __init__(self, generation: int, entry: int, extras: Extras) -> None:
        super().__init__()
        self.generation = generation
        self.entry = entry
        self.extras = extras


class MetricsRead(Message):
    """Every metric of one kernel, and what NVIDIA says of them."""

    def __init__(self, generation: int, entry: int, metrics: Mapping[str, Metric], extras: Extras) -> None:
        super().__init__()
        self.generation = generation
        self.entry = entry
        self.metrics = metrics
        self.extras = extras


class SourceRead(Message):
    """The lines of one kernel; ``None`` where the report has nothing by instruction."""

    def __init__(self, generation: int, entry: int, source: Source | None) -> None:
        super().__init__()
        self.generation = generation
        self.entry = entry
        self.source = source
