"""What went wrong, told by the words of the tools: cause and fix, from ``data/known_errors.toml``."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from gputui.data import text_of
from gputui.terminal import safe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from gputui.run.machine import Outcome
    from gputui.wording import Wording

Kind = Literal["failure", "warning", "noise"]

_END_LENGTH = 1 << 20
"""Characters looked at, at either end of an output: a tool speaks when it starts and when it ends."""
_LINE_LENGTH = 2000
_LAST_LINES = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that a tool said, or did. Its words are ``failure.<id>.title``, ``.cause``, ``.fix`` (list) and, where
    only an administrator can help, ``.ask`` (a message to send to them).

    ``kind``: a ``failure`` is why there is no usable report; a ``warning`` is worth telling beside one; ``noise``
    looks like trouble and is none. ``line`` is the tool's own line, empty where there is none.
    """

    id: str
    kind: Kind
    params: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""


@dataclass(frozen=True, slots=True)
class FailureText:
    """``ask`` is empty where no administrator is needed."""

    title: str
    cause: str
    fix: tuple[str, ...]
    ask: str


@dataclass(frozen=True, slots=True)
class Known:
    """A row of ``known_errors.toml``, whose head says what each field means."""

    id: str
    kind: Kind
    tools: tuple[str, ...] = ("ncu", "nsys", "")
    words: tuple[re.Pattern[str], ...] = ()
    mark: str = ""
    program: bool = False
    when: str = ""
    depth: int = 0
    despite_report: bool = False
    after_stop: bool = True


@cache
def known() -> tuple[Known, ...]:
    """All rows, in the order in which they are tried."""
    text = text_of("known_errors.toml")
    return tuple(
        Known(
            id,
            **{
                **row,
                "tools": tuple(row.get("tools", ("ncu", "nsys", ""))),
                "words": tuple(re.compile(one, re.MULTILINE) for one in row.get("words", ())),
            },
        )
        for id, row in tomllib.loads(text).items()
    )


def recognise(
    text: str, *, tool: str, outcome: Outcome | None = None, has_report: bool = True, log: str = ""
) -> tuple[Failure, ...]:
    """What an output and an end mean: failures, then warnings, in the order told, each id once.

    ``tool`` is ``"ncu"``, ``"nsys"`` or ``""``; ``log`` is where the whole output can be read. Beside a report what
    failed is a warning; without one there is at least the failure ``unknown``, whose ``lines`` are the last ones.
    """
    run = _Run(_lines(text, tool), tool, outcome, has_report)
    found: dict[str, tuple[Known, Failure]] = {}
    for one, failure in (*_told(run), *_done(run)):
        found.setdefault(one.id, (one, failure))
    failed = [(one, failure) for one, failure in found.values() if one.kind == "failure"]
    warnings = [failure for one, failure in found.values() if one.kind == "warning"]
    if not failed and not has_report:
        return (_unknown(run, log), *warnings)
    depth = min((one.depth for one, _ in failed), default=0)
    causes = [(one, failure) for one, failure in failed if one.depth == depth]
    failures = [failure for one, failure in causes if one.despite_report or not has_report]
    beside = [replace(failure, kind="warning") for _, failure in causes if failure not in failures]
    return (*failures, *beside, *warnings)


def failure_text(failure: Failure, wording: Wording) -> FailureText:
    """The words of a failure. Raises ``KeyError`` for one without words."""
    path = f"failure.{failure.id}"
    return FailureText(
        title=wording.text(f"{path}.title", **failure.params),
        cause=wording.text(f"{path}.cause", **failure.params),
        fix=wording.texts(f"{path}.fix", **failure.params),
        ask="".join(wording.texts(f"{path}.ask", **failure.params)),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    mark: str
    """ncu's: ``ERROR``, ``WARNING``, ``PROF``; empty for any other line."""
    text: str


@dataclass(frozen=True, slots=True)
class _Run:
    lines: list[_Line]
    tool: str
    outcome: Outcome | None
    has_report: bool

    @property
    def status(self) -> int:
        return (self.outcome.status if self.outcome is not None else None) or 0

    @property
    def stopped(self) -> bool:
        return self.outcome is not None and self.outcome.stopped

    @property
    def ended_well(self) -> bool:
        return self.outcome is not None and self.outcome.status == 0


_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\r\n]{0,200}\x07?|[@-Z\\^_])")
# A progress bar leaves the cursor where it is: ncu's mark may stand in the middle of a line.
_BREAK = re.compile(r"[\r\n]+|(?===(?:ERROR|WARNING|PROF)== )")
_MARK = re.compile(r"==(ERROR|WARNING|PROF)== ")
_RANK = re.compile(r"\[rank\d{1,5}\]: ?")


def _lines(text: str, tool: str) -> list[_Line]:
    """The lines that are not blank, without escape sequences and the marks of ranks."""
    if len(text) > 2 * _END_LENGTH:
        text = f"{text[:_END_LENGTH]}\n{text[-_END_LENGTH:]}"
    lines = []
    for piece in _BREAK.split(_ESCAPE.sub("", text)):
        line = _RANK.sub("", piece[:_LINE_LENGTH], count=1).rstrip()
        if not line:
            continue
        mark = _MARK.match(line) if tool == "ncu" else None
        lines.append(_Line(mark.group(1), line[mark.end() :]) if mark is not None else _Line("", line))
    return lines


def _told(run: _Run) -> Iterator[tuple[Known, Failure]]:
    """What the lines say."""
    rows = [one for one in known() if run.tool in one.tools and one.words and not _is_moot(one, run)]
    of_program = [one for one in rows if one.program or run.tool != "ncu" or "" in one.tools]
    # One look at a line that says nothing, which most lines do.
    names = re.compile(r"\(\?P<\w+>")
    any_of = {
        marked: re.compile("|".join(f"(?:{names.sub('(?:', word.pattern)})" for one in of for word in one.words), re.M)
        for marked, of in ((True, rows), (False, of_program))
        if of
    }
    skip = False
    for at, line in enumerate(run.lines):
        if skip:
            skip = False
            continue
        marked = bool(line.mark)
        pair = f"{line.text}\n{run.lines[at + 1].text}" if at + 1 < len(run.lines) else line.text
        if marked not in any_of or not any_of[marked].match(pair):
            continue
        for one in rows if marked else of_program:
            if one.mark not in ("", line.mark):
                continue
            match = next((found for word in one.words if (found := word.match(pair)) is not None), None)
            if match is None:
                continue
            skip = "\n" in match.group()
            yield one, Failure(one.id, one.kind, _params(match), safe(line.text))
            break


def _is_moot(one: Known, run: _Run) -> bool:
    return (one.program and run.ended_well) or (not one.after_stop and run.stopped)


def _params(match: re.Match[str]) -> dict[str, Any]:
    params = {name: safe(value or "") for name, value in match.groupdict().items()}
    if "signal" in params:
        params["signal"] = _signal_name(int(params["signal"]) % 128)
    return params


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _done(run: _Run) -> Iterator[tuple[Known, Failure]]:
    """What the end means, whatever was said."""
    for one in known():
        if one.when not in _CONDITIONS or run.tool not in one.tools or (not one.after_stop and run.stopped):
            continue
        params = _CONDITIONS[one.when](run)
        if params is not None:
            yield one, Failure(one.id, one.kind, params)


def _not_started(run: _Run) -> dict[str, Any] | None:
    if run.outcome is None or run.outcome.status is not None or not run.outcome.error:
        return None
    return {"error": safe(run.outcome.error)}


_PROFILING = re.compile(r'Profiling "([^"\n]{0,500})"')
_SLOW = "Launching the workload is taking more time than expected"
_PASSES = re.compile(r"\d+ pass(?:es)?\b")


def _unfinished_kernel(run: _Run) -> str | None:
    """The kernel that ncu was replaying when it was stopped, or when it had waited too long (ncu 2025 says so)."""
    if not run.stopped and not any(line.mark and line.text.startswith(_SLOW) for line in run.lines):
        return None
    for line in reversed(run.lines):
        if _PASSES.search(line.text):
            return None
        started = _PROFILING.match(line.text) if line.mark == "PROF" else None
        if started is not None:
            return safe(started.group(1))
    return None


def _hung_collective(run: _Run) -> dict[str, Any] | None:
    kernel = _unfinished_kernel(run)
    return {} if kernel is not None and "nccl" in kernel.lower() else None


def _hung_kernel(run: _Run) -> dict[str, Any] | None:
    kernel = _unfinished_kernel(run)
    return {"kernel": kernel} if kernel is not None and "nccl" not in kernel.lower() else None


def _stopped(run: _Run) -> dict[str, Any] | None:
    return {} if run.stopped and not run.has_report and _unfinished_kernel(run) is None else None


_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Abort|Failure|Timeout)\b(?:: .*)?$")


def _python_error(run: _Run) -> dict[str, Any] | None:
    if run.ended_well or (run.outcome is None and run.has_report):
        return None
    error: str | None = None
    in_traceback = False
    for line in run.lines:
        if line.text.startswith("Traceback (most recent call last)"):
            in_traceback = True
        elif in_traceback and _EXCEPTION.match(line.text):
            error, in_traceback = line.text, False
    return {"error": safe(error[:300])} if error is not None else None


def _never_connected(run: _Run) -> dict[str, Any] | None:
    told = [line.text for line in run.lines if line.mark]
    if any(one.startswith("Connected to process") for one in told):
        return None
    return {} if told and told[-1].startswith("No kernels were profiled") else None


_CRASHES = frozenset({"SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"})


def _program_signal(run: _Run) -> str | None:
    """The signal that ended the program: a shell and the profilers answer 128 and its number."""
    if run.status > 128:
        return _signal_name(run.status - 128)
    return _signal_name(-run.status) if run.status < 0 and not run.tool else None


def _crashed(run: _Run) -> dict[str, Any] | None:
    name = _program_signal(run)
    return {"signal": name} if name in _CRASHES else None


def _killed(run: _Run) -> dict[str, Any] | None:
    name = _program_signal(run) if run.status != -signal.SIGKILL else "SIGKILL"
    return {"signal": name} if name in ("SIGKILL", "SIGTERM") else None


def _failed(run: _Run) -> dict[str, Any] | None:
    # Without a report a status of a profiler may be its own.
    if not 0 < run.status <= 128 or run.tool == "ncu" or (run.tool and not run.has_report):
        return None
    return {"status": str(run.status)}


def _profiler_crashed(run: _Run) -> dict[str, Any] | None:
    if run.status >= 0 or run.status == -signal.SIGKILL:
        return None
    return {"tool": run.tool, "signal": _signal_name(-run.status)}


_CONDITIONS: Mapping[str, Callable[[_Run], dict[str, Any] | None]] = {
    "not-started": _not_started,
    "hung-collective": _hung_collective,
    "hung-kernel": _hung_kernel,
    "stopped": _stopped,
    "never-connected": _never_connected,
    "python-error": _python_error,
    "crashed": _crashed,
    "killed": _killed,
    "failed": _failed,
    "profiler-crashed": _profiler_crashed,
}


def _unknown(run: _Run, log: str) -> Failure:
    complaint = next((line for line in reversed(run.lines) if line.mark == "ERROR"), None)
    status = run.outcome.status if run.outcome is not None else None
    return Failure(
        "unknown",
        "failure",
        {
            "status": "?" if status is None else str(status),
            "lines": tuple(safe(line.text) for line in run.lines[-_LAST_LINES:]),
            "log": safe(log),
        },
        safe(complaint.text) if complaint is not None else "",
    )
