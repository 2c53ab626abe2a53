"""Where profilers run: on this machine or another, both seen alike.

Two programs do the work there and know nothing of gputui, so that they can be sent anywhere: ``probe.py`` tells what
the machine is, ``keeper.py`` runs a command and outlives, or not, whoever asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Facts = Mapping[str, Any]
"""What ``probe.py`` found, as JSON values; ``doctor.py`` says what each means."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A command to run in a run folder's place on the machine.

    ``id`` names its files there: ``<id>.log`` (all it printed, as it came) and ``<id>.status.json``. ``env`` is added
    to the machine's environment. ``tool`` (``"nsys"``, ``"ncu"``, ``""``) says how it is stopped. ``folder`` is the
    run folder on the machine, ``cwd`` where the command runs. ``inherit_stdin`` lets it read gputui's standard input,
    for a run without a screen; else it has none.
    """

    id: str
    argv: tuple[str, ...]
    folder: str
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    tool: str = ""
    columns: int = 120
    rows: int = 40
    inherit_stdin: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended.

    ``status`` is its exit status, minus the signal's number where one ended it, ``None`` where it never started
    (``error`` says why) or nobody saw it end. ``stopped`` says that it ended because it was asked to.
    """

    status: int | None
    stopped: bool
    seconds: float
    error: str = ""


class Job(Protocol):
    """A command under way. All may be called from any one thread; none waits longer than a moment.

    A lost connection raises ``ConnectionError``; the job goes on, and the same calls work again once it is back.
    """

    def read(self) -> bytes:
        """What it printed since the last call; empty where there is nothing new."""
        ...

    def outcome(self) -> Outcome | None:
        """How it ended; ``None`` while it runs. Everything it printed can be read by then."""
        ...

    def written(self) -> int:
        """Bytes of report that the profiler has written so far; 0 where that is not to be seen."""
        ...

    def stop(self) -> None:
        """Ask the program to end (SIGINT) and let the profiler finish its report. Asked again: end it at once."""
        ...

    def kill(self) -> None:
        """End it, and whatever it started, at once."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...


CopyProgress = Callable[[int, int], bool]
"""``progress(bytes_done, bytes_total)``; copying stops where it answers ``False``."""


class Machine(Protocol):
    """``name`` is ``""`` for this machine, else what the user typed (``user@server``)."""

    name: str

    def facts(self) -> Facts:
        """Raises ``GputuiError`` where the machine cannot be reached or has no Python."""
        ...

    def folder(self, run: Path) -> str:
        """Where the files of this run lie there; made where it does not exist, with mode 0700."""
        ...

    def put(self, run: Path, name: str, content: bytes) -> None:
        """Write a small file of the run's folder there."""
        ...

    def start(self, spec: JobSpec) -> Job:
        """Raises ``GputuiError`` where nothing can be started."""
        ...

    def attach(self, spec: JobSpec) -> Job:
        """The job of this spec that was started before. Raises ``GputuiError`` where there is none."""
        ...

    def files(self, run: Path, prefix: str) -> Mapping[str, int]:
        """Names of the run's files there that begin so, with their sizes in bytes."""
        ...

    def fetch(self, run: Path, name: str, to: Path, progress: CopyProgress | None = None) -> None:
        """Bring a file here, whole or not at all; a copy that broke off goes on where it was."""
        ...

    def forget(self, run: Path) -> None:
        """Remove what another machine keeps of a run of which everything is here."""
        ...

    def close(self) -> None: ...
