"""What an explained timeline says, line by line as plain strings: the text and the Markdown put it on paper.

Strangers' text comes out safe.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputui import units
from gputui.analysis.ncu_command import PLACEHOLDER, is_python, stand_in_of
from gputui.analysis.timeline_tables import condensed
from gputui.model.kernel import function_name
from gputui.model.timeline import MemoryKind
from gputui.paint.grid import shorten, width_of
from gputui.render.collect import nsys_command
from gputui.render.lines import file_name
from gputui.render.text import gain
from gputui.terminal import safe
from gputui.wording import FindingText

if TYPE_CHECKING:
    from gputui.analysis.finding import Finding, Moment
    from gputui.analysis.nvtx import RangeNode
    from gputui.analysis.timeline import TimelineFacts
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_kernels import KernelShare
    from gputui.analysis.timeline_tables import Copies, Selection
    from gputui.model.report import Notice, Report
    from gputui.model.timeline import Timeline
    from gputui.wording import ReaderLevel, Wording

SHOWN_KERNELS = 10
_NAME_CELLS = 34
SHOWN_GPUS = 8
SHOWN_COPIES = 6
SHOWN_RANGES = 14
_SHOWN_CHILDREN = 5
_DEEPEST_RANGE = 3
_SHOWN_OTHERS = 4
_LEAST_WINDOW = 0.5
"""Of the capture: where the time looked at is less, what is left out is told."""
_LEAST_SHARE = 0.01
"""A range under one percent of those beside it is left out."""


def title(report: Report, facts: TimelineFacts, words: Wording) -> str:
    """The file, what wrote it, the GPUs, how long it is and how much is in it."""
    timeline = facts.timeline
    path = safe(report.path)
    if len(timeline.files) > 1:
        path = words.text("timeline_text.files", path=path, count=len(timeline.files) - 1)
    tool = words.text(f"timeline_text.tool-{report.kind}", version=safe(report.tool_version or "")).strip()
    launches = int(facts.kernel_mask.sum())
    parts = [path, tool, gpu_names(timeline, facts.gpus), units.duration(timeline.span_ns)]
    if launches:
        parts.append(words.text("timeline_text.launches", launches=launches, kernels=len(facts.kernels)))
    return " · ".join(part for part in parts if part)


def gpu_names(timeline: Timeline, gpus: Sequence[int]) -> str:
    """ "2 × NVIDIA H100": those that did something, or all where none did."""
    chosen = [timeline.gpus[gpu] for gpu in gpus] or list(timeline.gpus)
    counts = Counter(gpu.device.name for gpu in chosen)
    return ", ".join(f"{count} × {safe(name)}" if count > 1 else safe(name) for name, count in counts.items())


def gpu_label(timeline: Timeline, gpu: int, words: Wording) -> str:
    """ "GPU 0", and the rank where there are several."""
    one = timeline.gpus[gpu]
    rank = timeline.files[one.file].rank if len(timeline.files) > 1 else None
    key = "gpu" if rank is None else "gpu-of-rank"
    return words.text(f"timeline_text.{key}", number=one.ordinal, rank=rank)


def window(facts: TimelineFacts, words: Wording) -> str:
    """What time shares and gains are told of, and what is left out where that is most of the capture."""
    found, capture = _window(facts, words), facts.timeline.span_ns
    rest = capture - facts.window.span_ns
    if not facts.gpus or facts.window.span_ns >= _LEAST_WINDOW * capture:
        return found
    return words.text("timeline_text.window-rest", window=found, rest=rest)


def _window(facts: TimelineFacts, words: Wording) -> str:
    found, steps = facts.window, facts.steps
    if found.source != "steps" or steps is None:
        return words.text(f"timeline_text.window-{found.source}", span=found.span_ns, capture=facts.timeline.span_ns)
    of_kernels = steps.source == "kernels"
    label = function_name(steps.label) if of_kernels else steps.label
    return words.text(
        f"timeline_text.{'window-warm' if steps.warm_up else 'window-steps'}",
        steps=words.text(f"timeline_text.steps-{steps.source}", label=shorten(safe(label), _NAME_CELLS)),
        steady=len(steps.steady),
        warm_up=steps.warm_up,
        step=steps.median_ns,
        span=found.span_ns,
    )


def clock(timeline: Timeline, words: Wording) -> str:
    """What the times count from."""
    return words.text(f"timeline_text.clock.{clock_kind(timeline)}", file=clock_file(timeline))


def clock_kind(timeline: Timeline) -> str:
    """What time 0 is: ``"capture"`` (the file's own), ``"trace"`` (its first event), ``"file"`` (that of one of several
    files) or ``"apart"`` (each file's first event)."""
    if len(timeline.files) == 1:
        return "trace" if timeline.files[0].kind == "torch" else "capture"
    return "apart" if any(one.id == "not-aligned" for one in timeline.lacks) else "file"


def clock_file(timeline: Timeline) -> str:
    """The name of the file whose times stand as they are, the first where several do."""
    chosen = next((file for file in timeline.files if not file.shift_ns), timeline.files[0])
    return safe(file_name(chosen.path))


@dataclass(frozen=True, slots=True)
class GpuRow:
    label: str
    name: str
    busy_pct: float
    kernels: int


def gpu_rows(facts: TimelineFacts, words: Wording) -> list[GpuRow]:
    """The GPUs that did something, in the file's order."""
    timeline = facts.timeline
    return [
        GpuRow(
            gpu_label(timeline, gpu, words),
            safe(timeline.gpus[gpu].device.name),
            100 * facts.busy_share(gpu),
            int((facts.kernel_mask & facts.ops_of(gpu)).sum()),
        )
        for gpu in facts.gpus
    ]


def where(moment: Moment, facts: TimelineFacts, words: Wording) -> str:
    """When a finding shows, on the timeline's clock, and on which GPU, stream or thread."""
    place = lane(moment, facts.timeline, words)
    span = moment.end_ns - moment.start_ns
    # Exact to a tenth of what is to be found there.
    step = 10 ** max(0, len(str(span)) - 2)
    start = units.moment(moment.start_ns, step, facts.timeline.end_ns)
    time = words.text("timeline_text.moment", start=start, span=span)
    return words.text("timeline_text.moment-in", time=time, place=place) if place else time


def lane(moment: Moment, timeline: Timeline, words: Wording) -> str:
    """ "GPU 0, stream 7", or the CPU thread; empty where the moment is about none."""
    parts = []
    if moment.gpu is not None:
        parts.append(gpu_label(timeline, moment.gpu, words))
    if moment.stream is not None:
        parts.append(words.text("timeline_text.stream", number=timeline.streams[moment.stream].number))
    if moment.thread is not None:
        thread = timeline.threads[moment.thread]
        key = "thread-named" if thread.name else "thread"
        parts.append(words.text(f"timeline_text.{key}", number=thread.tid, name=safe(thread.name)))
    return ", ".join(parts)


def class_of(share: KernelShare, words: Wording) -> str:
    """What a kernel is: its operation, else its library."""
    identity = share.identity
    if identity.op_class != "other":
        return words.ui(f"op.{identity.op_class}")
    return words.text("explain.own-kernel") if identity.library == "user" else identity.library


def kernel_rows(shares: Sequence[KernelShare], words: Wording) -> list[tuple[str, ...]]:
    """The first few: share, total, count, average, class, name."""
    names = kernel_names(shares)
    return [
        (
            units.share(100 * share.share),
            units.duration(share.group.total_ns),
            units.count(share.group.count),
            units.duration(share.group.mean_ns),
            class_of(share, words),
            name,
        )
        for share, name in zip(shares[:SHOWN_KERNELS], names, strict=False)
    ]


def kernel_names(shares: Sequence[KernelShare]) -> list[str]:
    """Short names; where several kernels share one, with what sets them apart: ``[mul, fp32] elementwise_kernel``."""
    alike: dict[str, list[tuple[str | None, ...]]] = {}
    for share in shares:
        alike.setdefault(share.kernel.name, []).append(_features(share))
    names = []
    for share in shares:
        own = _features(share)
        differs = [len(set(values)) > 1 for values in zip(*alike[share.kernel.name], strict=True)]
        told = ", ".join(one for one, apart in zip(own, differs, strict=True) if apart and one)
        names.append(safe(f"[{told}] {share.kernel.name}" if told else share.kernel.name))
    return names


def _features(share: KernelShare) -> tuple[str | None, ...]:
    return share.identity.detail, share.identity.tile, share.identity.precision


def kernel_headings(words: Wording) -> tuple[str, ...]:
    return tuple(
        words.text(f"timeline_text.column.{key}") for key in ("share", "total", "count", "average", "class", "name")
    )


@dataclass(frozen=True, slots=True)
class NcuAdvice:
    """Which kernels are worth a closer look: a sentence, the command for the first, the others' names.

    ``command`` is empty where even the first gains next to nothing.
    """

    sentence: str
    command: tuple[str, ...]
    others: str


def ncu_advice(selection: Selection, words: Wording) -> NcuAdvice | None:
    """Kernels that were asked for by name are told whether they deserve it or not.

    ``None`` where there is none that ncu can profile, and without a bound where none deserves it.
    """
    able = [share for share in selection.kernels if share.command]
    told = able if selection.by_name else [share for share in able if share.deserves]
    if not told:
        most = max((share for share in able if share.amdahl is not None), key=_bound, default=None)
        if most is None:
            return None
        return NcuAdvice(words.text("timeline_text.ncu-later", name=_short(most), bound=most.amdahl), (), "")
    first = told[0]
    key = "ncu-chosen" if selection.by_name else "ncu"
    others = dict.fromkeys(map(_short, told[1:]))
    others.pop(_short(first), None)
    return NcuAdvice(
        words.text(
            f"timeline_text.{key if first.amdahl is None else f'{key}-bound'}",
            name=_short(first),
            bound=first.amdahl,
        ),
        first.command,
        ", ".join(list(others)[:_SHOWN_OTHERS]),
    )


def _bound(share: KernelShare) -> float:
    return share.amdahl or 1.0


def _short(share: KernelShare) -> str:
    return shorten(safe(share.kernel.name), _NAME_CELLS)


def program_note(diagnosis: TimelineDiagnosis, command: Sequence[str], words: Wording) -> str | None:
    """That an ncu command ends in a stand-in for the program's own one, and in what; ``None`` where it does not."""
    if diagnosis.program_known:
        return None
    program = stand_in_of(command)
    if program == " ".join(PLACEHOLDER):
        return words.text("timeline.program-unknown")
    return words.text("timeline.program-by-name", program=safe(program))


def command_lines(command: Sequence[str], cells: int) -> list[str]:
    """A command as a shell reads it, over lines of so many cells; an argument that is longer has a line of its own.

    An option's value stays beside it where there is room.
    """
    parts: list[str] = []
    before = ""
    for one in command:
        quoted = safe(shlex.quote(one))
        is_value = before.startswith("-") and not one.startswith("-")
        if is_value and width_of(parts[-1]) + 1 + width_of(quoted) + 2 <= cells:
            parts[-1] += f" {quoted}"
        else:
            parts.append(quoted)
        before = one
    lines: list[str] = []
    for part in parts:
        if lines and width_of(lines[-1]) + width_of(part) + 3 <= cells:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


@dataclass(frozen=True, slots=True)
class RangeRow:
    """``depth`` levels below the first; the strings are CPU time, GPU time, kernels, idle share."""

    depth: int
    name: str
    cells: tuple[str, str, str, str]


def range_headings(words: Wording) -> tuple[str, ...]:
    return tuple(words.text(f"timeline_text.column.{key}") for key in ("cpu", "gpu", "kernels", "idle", "range"))


def range_rows(nodes: Iterable[RangeNode], words: Wording) -> tuple[list[RangeRow], int]:
    """The top of the tree of NVTX ranges, those alike but for numbers as one; and how many rows were left out.

    Where the program has ranges of its own, in the default domain, those of libraries are left out.
    """
    top = condensed(nodes)
    own = tuple(node for node in top if not node.domain)
    rows = list(_range_rows(own or top, words, 0))
    return rows[:SHOWN_RANGES], max(0, len(rows) - SHOWN_RANGES) + (len(top) - len(own) if own else 0)


def _range_rows(nodes: Sequence[RangeNode], words: Wording, depth: int) -> Iterator[RangeRow]:
    whole = sum(node.cpu_ns for node in nodes)
    shown = [node for node in nodes if node.cpu_ns >= _LEAST_SHARE * whole][: None if depth == 0 else _SHOWN_CHILDREN]
    for node in shown:
        name = safe(node.name) if node.count == 1 else f"{safe(node.name)} ×{units.count(node.count)}"
        if node.domain:
            name = words.text("timeline_text.of-domain", name=name, domain=safe(node.domain))
        idle = units.share(None if node.idle_share is None else 100 * node.idle_share)
        gpu = units.duration(node.busy_ns) if node.projected_ns > 0 else units.DASH
        yield RangeRow(depth, name, (units.duration(node.cpu_ns), gpu, units.count(node.kernels), idle))
        if depth + 1 < _DEEPEST_RANGE:
            yield from _range_rows(condensed(node.children), words, depth + 1)


def copy_headings(words: Wording) -> tuple[str, ...]:
    return tuple(words.text(f"timeline_text.column.{key}") for key in ("total", "count", "bytes", "rate", "copy"))


def copy_row(copies: Copies, words: Wording) -> tuple[str, ...]:
    """Total, count, bytes, rate, what it is."""
    kind = "memset" if copies.kind is None else copies.kind.name.lower()
    name = words.text(f"timeline_text.copy.{kind}")
    if copies.host in (MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.MANAGED):
        name = words.text(f"timeline_text.copy-of-{copies.host.name.lower()}", copy=name)
    return (
        units.duration(copies.total_ns),
        units.count(copies.count),
        units.size(copies.bytes),
        units.rate(copies.bytes_per_s),
        name,
    )


def level_of(diagnosis: TimelineDiagnosis) -> ReaderLevel:
    """The reader's level that fits: PyTorch where its libraries or a Python process are seen, else CUDA."""
    libraries = {share.identity.library for share in diagnosis.kernels}
    of_python = is_python(diagnosis.facts.timeline)
    return "pytorch" if of_python or libraries & {"aten", "inductor", "triton", "flash-attn"} else "cuda"


def lacks(report: Report, facts: TimelineFacts, words: Wording) -> list[str]:
    """What the capture does not have, each with the flag that brings it."""
    found = [one for one in facts.timeline.lacks if one not in report.notices]
    told = [_lack(one, is_python(facts.timeline), words) for one in found]
    return told + list(_outside_ranges(facts, words))


def _lack(notice: Notice, of_python: bool | None, words: Wording) -> str:
    """Ranges are added in the program's own language, where that is known."""
    if notice.id != "lacks-nvtx" or of_python is None:
        return words.notice(notice)
    return words.text(f"timeline_text.lacks-nvtx-{'python' if of_python else 'native'}")


_OUTSIDE_SHARE = 0.05
"""Kernels in no NVTX range are told from this share of all kernels' time on."""


def _outside_ranges(facts: TimelineFacts, words: Wording) -> Iterable[str]:
    """The kernels that no NVTX range holds, by the thread that launched them."""
    timeline = facts.timeline
    whole = sum(group.total_ns for group in facts.kernels) or 1
    for one in facts.outside_ranges:
        if one.time_ns >= _OUTSIDE_SHARE * whole:
            thread = timeline.threads[one.thread]
            key = "outside-autograd" if "autograd" in thread.name else "outside"
            yield words.text(
                f"timeline_text.{key}",
                kernels=one.kernels,
                all=int(facts.kernel_mask.sum()),
                share=100 * one.time_ns / whole,
                thread=safe(thread.name or str(thread.tid)),
            )


def not_checked(diagnosis: TimelineDiagnosis, words: Wording) -> tuple[str, str | None]:
    """What could not be looked for, by name, and the command that records what it takes where there is one."""
    found = dict.fromkeys(words.finding_name(one.id) for one in diagnosis.not_checked)
    flags = [flag for one in diagnosis.not_checked for flag in one.sections]
    return ", ".join(found), nsys_command(flags) if flags else None


def sentence(diagnosis: TimelineDiagnosis, words: Wording) -> str:
    """What holds the program up."""
    return safe(words.timeline_verdict(diagnosis.verdict))


def notes(diagnosis: TimelineDiagnosis, words: Wording) -> list[str]:
    """What must be known of the capture itself, but for what its notices have told."""
    told = [one for one in diagnosis.validity if one.id != "dropped-events" or one.variant]
    return [f"{words.text('explain.note')}: {finding_text(one, words).title}" for one in told]


def other_findings(diagnosis: TimelineDiagnosis, words: Wording) -> Iterator[tuple[str, list[str]]]:
    """What is told in a line each, under its heading: other causes with their gain, effects without one, since it is
    their cause that one would work on."""
    if diagnosis.further:
        lines = [f"{finding_text(one, words).title} ({gain(one, words)})" for one in diagnosis.further]
        yield words.text("explain.also"), lines
    if diagnosis.effects:
        yield words.text("explain.effects"), [finding_text(one, words).title for one in diagnosis.effects]


def finding_text(finding: Finding, words: Wording, tags: Collection[str] = ()) -> FindingText:
    """The texts of a finding, in which names of kernels and ranges may stand, with the actions that fit these
    ``TimelineDiagnosis.tags``."""
    text = words.finding(finding, tags)
    return FindingText(
        title=safe(text.title),
        why=safe(text.why),
        analogy=safe(text.analogy),
        actions={level: tuple(map(safe, actions)) for level, actions in text.actions.items()},
        verify=safe(text.verify),
    )
