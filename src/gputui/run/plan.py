"""What to run: argument lists, never shell strings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gputui.run.launchers import launch_of

if TYPE_CHECKING:
    from gputui.analysis.proposals import Proposal
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. ``command`` is the program's argument list; ``nvtx`` and ``kernel`` are regular
    expressions over gputui's NVTX paths and kernel names; times in seconds."""

    command: tuple[str, ...]
    cwd: str
    directory: str = ""
    """Where the program is to run, where that was asked for."""
    top: int | None = None
    nvtx: str | None = None
    kernel: str | None = None
    pytorch_ranges: bool = False
    capture_api: bool = False
    """Record only between cudaProfilerStart and cudaProfilerStop."""
    delay: float | None = None
    duration: float | None = None
    communication: bool = False
    """Let ncu profile collectives too, which hang when they are replayed."""
    launches: int = 3
    """Launches of a kernel to profile."""
    nsys_options: tuple[str, ...] = ()
    ncu_options: tuple[str, ...] = ()
    """What the user adds to the profilers' own options."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The profilers of the machine: paths, versions as numbers, and the sections that its ncu knows.

    ``folder`` is the run folder there (``Machine.folder``), which reports are written into, and ``python_path`` what
    PYTHONPATH is there.
    """

    nsys: str = ""
    nsys_version: tuple[int, ...] = ()
    ncu: str = ""
    ncu_version: tuple[int, ...] = ()
    ncu_sections: frozenset[str] = frozenset()
    folder: str = ""
    python_path: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One call of a profiler.

    ``id`` names its files (``timeline``, ``counters-1``). ``argv`` writes reports that begin with ``output``, a path
    relative to the run folder, without suffix; with a launcher there is one a rank. ``env`` is added to the program's.
    ``kernels`` are the short names it profiles and ``launches`` how many launches in all (0: a timeline).
    """

    id: str
    tool: str
    argv: tuple[str, ...]
    output: str
    env: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    launches: int = 0


def timeline_command(request: Request, tools: Tools, output: str = "timeline") -> Command:
    """The call of nsys that records the timeline; it ends with the program's own exit status.

    ``osrt`` is traced because the waits for input and locks that explain an idle GPU are calls of the operating
    system; nsys traces it by itself too, and leaves out calls under a microsecond. CPU samples and thread switches
    need rights that containers mostly lack, and nothing here reads them. Nodes of CUDA graphs are traced one by one:
    else their kernels are not known. After ``duration`` nsys ends the program: it may run for hours.
    """
    options = [
        "--trace=cuda,nvtx,osrt", "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none", "--stats=false",
        "--force-overwrite=false",
    ]  # fmt: skip
    if request.capture_api:
        options += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    if request.delay is not None:
        options.append(f"--delay={_seconds(request.delay)}")
    if request.duration is not None:
        options.append(f"--duration={_seconds(request.duration)}")
    nsys_annotates = request.pytorch_ranges and tools.nsys_version >= _NSYS_ANNOTATES
    if nsys_annotates:
        options.append("--pytorch=autograd-nvtx")
    launch = launch_of(request.command)
    report = _path(tools, output if launch is None else launch.report(output))
    profiler = (tools.nsys or "nsys", "profile", *options, *request.nsys_options, "-o", report)
    return Command(
        id="timeline",
        tool="nsys",
        argv=(*profiler, *request.command) if launch is None else launch.around(profiler),
        output=output,
        env={} if nsys_annotates else _env(request, tools),
    )


_NSYS_ANNOTATES = (2025, 1)
"""From here on ``--pytorch=autograd-nvtx`` is surely there: guides and users' scripts of 2024.7 and later have it,
2023.4 refuses it."""


def counter_commands(
    request: Request, tools: Tools, diagnosis: TimelineDiagnosis, proposals: Sequence[Proposal]
) -> tuple[Command, ...]:
    """The calls of ncu that profile these kernels: one for all of them where a stretch of the program holds what is
    wanted of each and few others, so that it takes less time than one a kernel. Collectives are left out unless they
    were asked for.

    Launches are counted from what the timeline shows: what ran before ``delay`` is not skipped. Raises as
    ``proposals.resolve``.
    """
    from gputui.analysis.proposals import Chosen, is_cheaper

    chosen = Chosen(diagnosis, request.kernel, request.nvtx)
    names = tuple(
        one.share.group.name
        for one in proposals
        if request.communication or one.share.identity.op_class != "communication"
    )
    apart = [one for name in names if (one := chosen.launches((name,), request.launches)) is not None]
    together = chosen.launches(names, request.launches) if names else None
    runs = [together] if together is not None and is_cheaper(chosen.facts, together, apart) else apart
    return tuple(
        _counter_command(request, tools, chosen.ranges, one.names, one.chosen, number)
        for number, one in enumerate(runs, start=1)
    )


def kernels_command(request: Request, tools: Tools, kernels: str, skip: int = 0) -> Command:
    """The call of ncu that profiles launches where no timeline tells which; ``kernels`` is ncu's own filter for names
    (``regex:…`` or a name), empty for all. ``skip`` of those that it lets through are left out first."""
    return _counter_command(request, tools, (), (), (kernels, skip, request.launches), number=1)


_SECTIONS = ("SpeedOfLight_HierarchicalTensorRooflineChart", "SpeedOfLight_HierarchicalHalfRooflineChart")
"""What the diagnosis reads and the set ``full`` of 2024 lacks: tensor and half-precision work, traffic of L1 and L2."""


def _counter_command(
    request: Request,
    tools: Tools,
    ranges: Sequence[str],
    names: tuple[str, ...],
    launches: tuple[str, int, int],
    number: int,
) -> Command:
    """``launches`` are ncu's filter for names, how many of those to skip, and how many to profile."""
    from gputui.analysis.ncu_command import ncu_command

    output = f"counters-{number}"
    launch = launch_of(request.command)
    profiler = ncu_command(
        tools.ncu or "ncu",
        launches,
        _path(tools, output if launch is None else launch.report(output)),
        (),
        sections=[one for one in _SECTIONS if one in tools.ncu_sections],
        nvtx=True,
        ranges=ranges,
        from_start=not request.capture_api,
        more=request.ncu_options,
    )
    return Command(
        id=output,
        tool="ncu",
        argv=(*profiler, *request.command) if launch is None else launch.around(profiler),
        output=output,
        env=_env(request, tools),
        kernels=names,
        launches=launches[-1],
    )


def moved(command: Command, new: str) -> Command:
    """The same command for another run, whose folder on the machine is ``new``."""
    output = next((word for word in command.argv if word.rpartition("/")[2].startswith(command.output)), "")
    old = output.rpartition("/")[0]
    if not old:
        return command
    return replace(
        command,
        argv=tuple(word.replace(old, new) for word in command.argv),
        output=command.output.replace(old, new),
        env={key: value.replace(old, new) for key, value in command.env.items()},
    )


def files_needed(request: Request) -> Mapping[str, bytes]:
    """Files that must lie in the run folder on the machine before its commands run (``Machine.put``)."""
    if not request.pytorch_ranges:
        return {}
    name = "sitecustomize.py"
    return {name: (Path(__file__).parent / "inject" / name).read_bytes()}


def _env(request: Request, tools: Tools) -> Mapping[str, str]:
    """Puts the run folder's ``sitecustomize.py`` before the machine's own PYTHONPATH."""
    if not request.pytorch_ranges:
        return {}
    return {"PYTHONPATH": ":".join(one for one in (tools.folder, tools.python_path) if one)}


def _path(tools: Tools, output: str) -> str:
    return f"{tools.folder}/{output}" if tools.folder else output


def _seconds(value: float) -> str:
    """nsys takes whole seconds."""
    return str(max(1, round(value)))
