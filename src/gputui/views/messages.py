"""What workers tell the screen. Each carries finished, unshared results; the newest of a burst of progress wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from textual.message import Message

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.proposals import Proposal
    from gputui.analysis.source import Source
    from gputui.errors import GputuiError
    from gputui.model.metrics import Metric
    from gputui.model.report import Extras
    from gputui.run.plan import Command
    from gputui.run.session import StepResult
    from gputui.views.comparing import Compared
    from gputui.views.library import ExplainedTimeline, LinkedEntry, LoadedReport, RangeContent, SummedKernels


Keep = Literal["copy", "save"]
"""What becomes of an explanation."""


class LoadProgressed(Message):
    """``done`` of ``total`` parts of the file are known: kernels, rows, bytes, as its format counts."""

    def __init__(self, generation: int, path: str, done: int, total: int) -> None:
        super().__init__()
        self.generation = generation
        self.path = path
        self.done = done
        self.total = total

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LoadProgressed)


class KernelsSummed(Message):
    """What kernels the file holds that is being opened."""

    def __init__(self, generation: int, kernels: SummedKernels) -> None:
        super().__init__()
        self.generation = generation
        self.kernels = kernels

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, KernelsSummed)


class ReportOpened(Message):
    def __init__(self, generation: int, loaded: LoadedReport) -> None:
        super().__init__()
        self.generation = generation
        self.loaded = loaded


class ReportFailed(Message):
    def __init__(self, generation: int, error: GputuiError) -> None:
        super().__init__()
        self.generation = generation
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


class KernelsLinked(Message):
    """Kernels of timelines by entry number, each with the launch in an ncu report that is the same function."""

    def __init__(self, generation: int, links: Mapping[int, LinkedEntry]) -> None:
        super().__init__()
        self.generation = generation
        self.links = links


class RangeRead(Message):
    """What the NVTX ranges of one path launched."""

    def __init__(self, generation: int, content: RangeContent) -> None:
        super().__init__()
        self.generation = generation
        self.content = content


class TimelineExplained(Message):
    """The diagnosis of the timeline at this place among the reports is there."""

    def __init__(self, generation: int, report: int, explained: ExplainedTimeline) -> None:
        super().__init__()
        self.generation = generation
        self.report = report
        self.explained = explained


class ExplanationWritten(Message):
    """The explanation of a timeline as Markdown; ``path`` is its report's."""

    def __init__(self, generation: int, text: str, path: str, keep: Keep) -> None:
        super().__init__()
        self.generation = generation
        self.text = text
        self.path = path
        self.keep = keep


class SidesCompared(Message):
    """The answer to what ``Comparing`` has asked for, counted."""

    def __init__(self, asked: int, found: tuple[Compared, ...]) -> None:
        super().__init__()
        self.asked = asked
        self.found = found


class MachineChecked(Message):
    """What the machine can do is known."""


class KernelsProposed(Message):
    """The kernels of a timeline that ncu can look into; ``then`` is what they were wanted for."""

    def __init__(self, proposals: tuple[Proposal, ...], then: Callable[[], None]) -> None:
        super().__init__()
        self.proposals = proposals
        self.then = then


class CommandsPlanned(Message):
    """The next commands of a run are known."""

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self.commands = commands


class CommandEnded(Message):
    def __init__(self, result: StepResult) -> None:
        super().__init__()
        self.result = result
