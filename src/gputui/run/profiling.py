"""Profiling from Python: for notebooks and continuous integration."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gputui.errors import GputuiError
from gputui.run.failures import Failure, failure_text
from gputui.run.output import PlainText
from gputui.run.session import Listener, Session, machine_of
from gputui.wording import wording

if TYPE_CHECKING:
    from gputui.model.report import Report
    from gputui.run.doctor import Check
    from gputui.run.session import StepResult

_MISSING = frozenset(
    {"not-started", "driver-mismatch", "driver-unreachable", "gpu-unsupported", "mining-card", "wsl-unsupported", "sli"}
)
_DENIED = frozenset({"counters-denied", "counters-denied-vgpu", "counters-busy", "counters-busy-or-denied"})
_NOTHING = frozenset(
    {"no-kernels", "no-kernels-filter", "no-kernels-children", "nvtx-push-pop", "nvtx-start-end", "no-cuda"}
)
_PROGRAM = frozenset(
    {
        "module-missing", "gpu-memory-full", "no-gpu", "program-driver-old", "no-kernel-image", "python-error",
        "program-crashed", "program-killed", "program-failed",
    }
)  # fmt: skip
"""Ids of failures, by the error that stands for them."""


class ProfileError(GputuiError):
    """A profiler left no usable report. ``failures`` are what its output tells, ``log`` is all that was printed
    (``None`` where nothing ran), ``reports`` what was kept all the same."""

    def __init__(
        self,
        title: str,
        message: str,
        hint: str = "",
        *,
        failures: Sequence[Failure] = (),
        log: Path | None = None,
        reports: Sequence[Path] = (),
    ) -> None:
        super().__init__(title, message, hint)
        self.failures = tuple(failures)
        self.log = log
        self.reports = tuple(reports)


class ToolMissingError(ProfileError):
    """The profiler is not installed, or cannot work on this machine."""


class CountersDeniedError(ProfileError):
    """The GPU's counters are not for this user, or another program holds them."""


class NothingProfiledError(ProfileError):
    """The program ran and no kernel was profiled."""


class ProgramFailedError(ProfileError):
    """The program itself ended badly. ``status`` is its exit status, or minus the number of the signal that ended
    it."""

    def __init__(self, title: str, message: str, hint: str = "", *, status: int, **more: Any) -> None:
        super().__init__(title, message, hint, **more)
        self.status = status


def profile(
    program: str | os.PathLike[str] | Sequence[str],
    arguments: Sequence[str] = (),
    *,
    tool: Literal["nsys", "ncu"] = "nsys",
    kernel: str | None = None,
    skip: int = 0,
    launches: int = 3,
    options: Sequence[str] = (),
    pytorch_ranges: bool = False,
    host: str = "",
    directory: str | os.PathLike[str] = "",
    folder: str | os.PathLike[str] = "gputui-runs",
    output: bool = False,
) -> Report:
    """Run a program under a profiler, and open the report.

    ``program`` is a Python file (run by this Python), another program, or a whole argument list. With ``tool="ncu"``
    ``launches`` launches are counted in, of the kernels whose name the regular expression ``kernel`` finds, after
    ``skip`` of them. ``options`` are added to the profiler's own. ``host`` runs it there, over ssh, in ``directory``.
    The run folder is made below ``folder``; ``output`` prints what the program prints.

    A report that a failing program left is not returned: ``ProgramFailedError.reports`` names it. Raises
    ``ToolMissingError``, ``CountersDeniedError``, ``NothingProfiledError``, ``ProgramFailedError``, else
    ``ProfileError``; each a ``GputuiError``.

    >>> report = gputui.profile("train.py", ["--steps", "20"], tool="ncu", kernel="softmax", skip=10)
    >>> gputui.diagnose(report.kernels[0]).verdict.id
    """
    if tool not in ("nsys", "ncu"):
        raise ValueError(f'tool is "nsys" or "ncu", not {tool!r}')
    from gputui.formats.together import open_all
    from gputui.run import plan

    command = _command(program, arguments)
    if not command:
        raise ValueError("there is no program to run")
    if isinstance(options, str):
        raise TypeError("options is a list of words")
    request = plan.Request(
        command=command,
        cwd=os.path.abspath(directory) if directory and not host else os.getcwd(),
        directory=os.fspath(directory),
        pytorch_ranges=pytorch_ranges,
        launches=launches,
        nsys_options=tuple(options) if tool == "nsys" else (),
        ncu_options=tuple(options) if tool == "ncu" else (),
    )
    session = Session(
        machine_of(host, os.fspath(directory)), request, Path(folder), listener=_Printing() if output else Listener()
    )
    done = False
    try:
        session.check()
        blockers = session.blockers(tool)
        if blockers:
            raise _missing(tool, blockers)
        kernels = f"regex:{kernel}" if kernel else ""
        planned = session.timeline_command() if tool == "nsys" else session.kernels_command(kernels, skip)
        result = session.run(planned)
        _check(result, command)
        done = True
    finally:
        session.finish("done" if done else "failed")
    report = next(iter(open_all(result.reports)))
    if isinstance(report, GputuiError):
        raise report
    return report


class _Printing(Listener):
    def __init__(self) -> None:
        self._plain = PlainText()

    def output(self, data: bytes) -> None:
        # Not to the descriptor: a notebook shows what goes to sys.stdout.
        sys.stdout.write(self._plain.feed(data))
        sys.stdout.flush()


def _command(program: str | os.PathLike[str] | Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(program, str | os.PathLike):
        return (*program, *arguments)
    path = os.fspath(program)
    return (*((sys.executable,) if path.endswith(".py") else ()), path, *arguments)


def _missing(tool: str, blockers: Sequence[Check]) -> ProfileError:
    words, check = wording("en"), blockers[0]
    found = words.texts(f"doctor.{check.id}.{check.variant}.found", **check.params)
    kind = CountersDeniedError if check.id in ("counters", "profilers") else ToolMissingError
    return kind(tool, " ".join(found).rstrip("."), words.text("run.text.doctor").rstrip("."))


def _check(result: StepResult, command: Sequence[str]) -> None:
    """Raises the error that a result stands for."""
    more: dict[str, Any] = {"failures": result.failures, "log": result.log, "reports": result.reports}
    title = shlex.join(command)
    if result.reports and result.program_failed:
        status = result.outcome.status or 0
        raise ProgramFailedError(title, f"ended with status {status}", f"See {result.log}", status=status, **more)
    if result.reports:
        return
    failure = result.failures[0]
    text = failure_text(failure, wording("en"))
    words = (title, text.title.rstrip("."), " ".join((text.cause, *text.fix)).rstrip("."))
    if failure.id in _DENIED:
        raise CountersDeniedError(*words, **more)
    if failure.id in _MISSING:
        raise ToolMissingError(*words, **more)
    if failure.id in _NOTHING and not result.program_failed:
        raise NothingProfiledError(*words, **more)
    if failure.id in _PROGRAM:
        raise ProgramFailedError(*words, status=result.outcome.status or 0, **more)
    raise ProfileError(*words, **more)
