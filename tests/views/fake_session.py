"""A session that runs nothing: what each command prints and brings is given, and it ends when it is let.

It has the methods of ``gputui.run.session.Session``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from gputui.errors import GputuiError
from gputui.run.doctor import Check
from gputui.run.failures import Failure
from gputui.run.machine import Outcome
from gputui.run.plan import Command, Request, Tools
from gputui.run.progress import Progress
from gputui.run.session import Session, StepResult

PROGRAM = ("python", "train.py", "--steps", "40")


@dataclass
class Step:
    """What a command does: what it tells while it runs, and what it leaves. ``gate`` holds its end back."""

    printed: Sequence[bytes] = ()
    progress: Sequence[Progress] = ()
    reports: Sequence[Any] = ()
    failures: tuple[Failure, ...] = ()
    status: int | None = 0
    gate: threading.Event | None = None
    act: Callable[[Any, threading.Event], None] | None = None


@dataclass
class Folder:
    path: Path


@dataclass
class FakeSession:
    base: Path
    steps: list[Step] = field(default_factory=list)
    request: Request = field(default_factory=lambda: Request(PROGRAM, "."))
    tools: Tools = field(default_factory=lambda: Tools("nsys", (2023, 4), "ncu", (2024, 1)))
    found: tuple[Check, ...] = (Check("nsys", "ok", "found", {"path": "nsys", "version": "2023.4"}),)
    check_error: GputuiError | None = None
    listener: Any = None
    folder: Folder | None = None
    checks: tuple[Check, ...] = ()
    results: list[StepResult] = field(default_factory=list)
    pending: Command | None = None
    facts: Any = None
    numbers: Iterator[int] = field(default_factory=lambda: count(2))
    ran: list[Command] = field(default_factory=list)
    stops: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def check(self) -> tuple[Check, ...]:
        if self.check_error is not None:
            raise self.check_error
        self.checks = self.found
        return self.checks

    def blockers(self, tool: str) -> tuple[Check, ...]:
        return tuple(one for one in self.checks if tool in one.blocks)

    def place(self) -> str:
        if self.folder is None:
            self.folder = Folder(self.base / f"2026-11-30_07-1{next(self.numbers)}_train")
        self.tools = replace(self.tools, folder=str(self.folder.path))
        return self.tools.folder

    timeline_command = Session.timeline_command
    counter_commands = Session.counter_commands
    kernels_command = Session.kernels_command

    def attach(self, command: Command) -> StepResult:
        self.pending = None
        return self.run(command)

    def run(self, command: Command) -> StepResult:
        self.place()
        assert self.folder is not None
        self.ran.append(command)
        self.stopping.clear()
        step = self.steps.pop(0)
        began = time.monotonic()
        self.listener.command(command)
        for data in step.printed:
            self.listener.output(data)
        for progress in step.progress:
            self.listener.progress(progress)
        if step.act is not None:
            step.act(self.listener, self.stopping)
        if step.gate is not None:
            while not (step.gate.wait(0.01) or self.stopping.is_set()):
                pass
        stopped = self.stopping.is_set()
        outcome = Outcome(step.status, stopped, time.monotonic() - began)
        log = self.folder.path / f"{command.id}.log"
        result = StepResult(command, outcome, tuple(step.reports), step.failures, log)
        self.results.append(result)
        return result

    def stop(self) -> None:
        self.stops += 1
        self.stopping.set()

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    def finish(self, state: str) -> None:
        self.finished.append(state)
