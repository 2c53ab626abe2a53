"""One guided run, step by step, for whoever leads it: the command line, the screen or the Python API.

Every step blocks until it is done and is meant for a worker thread; ``stop`` and ``resize`` may be called from others.
"""

from __future__ import annotations

import codecs
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gputui.errors import GputuiError
from gputui.run import doctor, plan
from gputui.run.doctor import Check
from gputui.run.failures import Failure, recognise
from gputui.run.folder import RunFolder, is_whole_report
from gputui.run.machine import Facts, Job, JobSpec, Machine, Outcome
from gputui.run.plan import Command, Request, Tools
from gputui.run.progress import Progress, ProgressReader

if TYPE_CHECKING:
    from gputui.analysis.proposals import Proposal
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis

_POLL_S = 0.1
_TOLD_S = 0.5
"""How often the size of the growing report is looked at."""
_RECONNECT_S = 3.0
_SUFFIXES = {"nsys": ".nsys-rep", "ncu": ".ncu-rep"}
_AVOIDED = ("lock", "temp")
"""Checks about the folder for temporary files: a run with such a problem has its own folder for them."""
_GPU = ("gpu", "driver")
_ENDED = 128 + signal.SIGTERM
_MOST_LOG = 2_000_000
"""Bytes of a log's beginning, and of its end, that are looked through for what went wrong."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of a command: its reports under their final names, and what went wrong."""

    command: Command
    outcome: Outcome
    reports: tuple[Path, ...]
    failures: tuple[Failure, ...]
    log: Path

    @property
    def failed(self) -> bool:
        """Whether nothing came of it."""
        return not self.reports

    @property
    def program_failed(self) -> bool:
        """Whether the program itself ended badly, and not because it was to end."""
        return bool(self.outcome.status) and not self.outcome.stopped


class Listener:
    """Whom a session tells; every method may be left as it is. Called from the session's thread."""

    def command(self, command: Command) -> None:
        """It is about to run."""

    def output(self, data: bytes) -> None:
        """The program and the profiler printed this, as it came."""

    def progress(self, progress: Progress) -> None:
        """Several times a second while a command runs."""

    def copying(self, name: str, done: int, total: int) -> None:
        """A report is brought here from another machine."""

    def lost(self, message: str) -> None:
        """The connection to the other machine broke: the run goes on there and is looked for again and again. An empty
        message says that it is back."""


@dataclass(slots=True)
class Session:
    """``base`` is where run folders are made; this run's is made when its first command is planned."""

    machine: Machine
    request: Request
    base: Path
    listener: Listener = field(default_factory=Listener)
    folder: RunFolder | None = None
    facts: Facts = field(default_factory=dict)
    tools: Tools = field(default_factory=Tools)
    checks: tuple[Check, ...] = ()
    results: list[StepResult] = field(default_factory=list)
    columns: int = 120
    rows: int = 40
    inherit_stdin: bool = False
    """Whether the program reads this process's standard input; else it has none."""
    _job: Job | None = None
    _asked_to_stop: bool = False

    # ------------------------------------------------------------------ before

    def check(self) -> tuple[Check, ...]:
        """Look at the machine. Raises ``GputuiError`` where it cannot be reached."""
        self.facts = self.machine.facts()
        self.tools = doctor.tools(self.facts)
        self.checks = doctor.checks(self.facts)
        return self.checks

    def blockers(self, tool: str) -> tuple[Check, ...]:
        """What keeps this profiler from working. nsys works without a GPU too, and tells then that none was used."""
        helped = (*_AVOIDED, *(_GPU if tool == "nsys" else ()))
        return tuple(check for check in self.checks if tool in check.blocks and check.id not in helped)

    @property
    def was_stopped(self) -> bool:
        return any(result.outcome.stopped for result in self.results)

    def place(self) -> str:
        """The run's folder on the machine; the run begins with it."""
        if self.folder is None:
            gpus = (self.facts.get("gpus") or {}).get("list") or []
            self.folder = RunFolder.create(
                self.base,
                self.request,
                host=self.machine.name,
                tools=self.tools,
                gpus=[gpu.get("name", "") for gpu in gpus],
                driver=doctor.driver_version(self.facts),
            )
        if not self.tools.folder:
            place = self.machine.folder(self.folder.path)
            for name, content in plan.files_needed(self.request).items():
                self.machine.put(self.folder.path, name, content)
            python_path = (self.facts.get("variables") or {}).get("PYTHONPATH", "")
            self.tools = replace(self.tools, folder=place, python_path=python_path)
        return self.tools.folder

    # ------------------------------------------------------------------ commands

    def timeline_command(self) -> Command:
        """What records the timeline."""
        self.place()
        return plan.timeline_command(self.request, self.tools)

    def counter_commands(self, diagnosis: TimelineDiagnosis, chosen: Sequence[Proposal]) -> tuple[Command, ...]:
        """What counts in these kernels. Raises as ``plan.counter_commands``."""
        self.place()
        return plan.counter_commands(self.request, self.tools, diagnosis, chosen)

    def kernels_command(self, kernels: str, skip: int = 0) -> Command:
        """What counts in launches where no timeline tells which to take; as ``plan.kernels_command``."""
        self.place()
        return plan.kernels_command(self.request, self.tools, kernels, skip)

    # ------------------------------------------------------------------ running

    @property
    def pending(self) -> Command | None:
        """The command of a run that was begun before and is not known to have ended."""
        stages = () if self.folder is None else self.folder.record.stages
        stage = next((one for one in stages if one.seconds is None), None)
        if stage is None:
            return None
        return Command(stage.id, stage.tool, stage.argv, stage.output, stage.env, stage.kernels)

    def run(self, command: Command) -> StepResult:
        """Run it to its end, keep its report, and tell what went wrong. A failure is a result, not an exception;
        ``GputuiError`` where nothing can be started."""
        spec = self._spec(command)
        assert self.folder is not None
        self.folder.begin(command)
        try:
            job = self.machine.start(spec)
        except GputuiError as error:
            self.folder.finish(command.id, Outcome(None, False, 0.0, str(error)))
            raise
        return self._follow(command, job)

    def attach(self, command: Command) -> StepResult:
        """Go on with the ``pending`` command, which may have ended since. Raises ``GputuiError`` where it is not there
        any more."""
        return self._follow(command, self.machine.attach(self._spec(command)))

    def _spec(self, command: Command) -> JobSpec:
        return JobSpec(
            command.id,
            command.argv,
            self.place(),
            self.request.cwd,
            env=self._environment(command),
            tool=command.tool,
            columns=self.columns,
            rows=self.rows,
            inherit_stdin=self.inherit_stdin,
        )

    def _follow(self, command: Command, job: Job) -> StepResult:
        assert self.folder is not None
        self.listener.command(command)
        self._job, self._asked_to_stop = job, False
        try:
            outcome = self._watch(job, command)
        finally:
            self._job = None
        if command.tool == "nsys" and outcome.status == _ENDED and self._has_duration:
            # nsys ended the program, once the time to record was over.
            outcome = replace(outcome, status=0)
        if self._asked_to_stop:
            # Also where it had just ended by itself: nothing more is to begin.
            outcome = replace(outcome, stopped=True)
        drafts = [name for name in self._drafts(command) if name.endswith(_SUFFIXES[command.tool])]
        # What a profiler wrote that ended by itself is for the reader to judge: its format may be newer than this.
        ended = outcome.status is not None and outcome.status >= 0
        reports = tuple(path for name in drafts if (path := self._bring(name, must_be_whole=not ended)) is not None)
        log = self._bring(f"{command.id}.log")
        assert log is not None
        failures = recognise(_ends_of(log), tool=command.tool, outcome=outcome, has_report=bool(reports), log=str(log))
        self.folder.finish(command.id, outcome, reports, [failure.id for failure in failures])
        result = StepResult(command, outcome, reports, failures, log)
        self.results.append(result)
        return result

    @property
    def _has_duration(self) -> bool:
        options = self.request.nsys_options
        return self.request.duration is not None or any(one.startswith(("--duration", "-d")) for one in options)

    def _watch(self, job: Job, command: Command) -> Outcome:
        began = looked = time.monotonic()
        reader, decoder = ProgressReader(command.launches), codecs.getincrementaldecoder("utf-8")("replace")
        size = 0
        is_lost = False
        while True:
            try:
                outcome = job.outcome()
                data = job.read()
                now = time.monotonic()
                if now - looked > _TOLD_S:
                    looked, size = now, job.written()
            except ConnectionError as error:
                if not is_lost:
                    is_lost = True
                    self.listener.lost(str(error))
                time.sleep(_RECONNECT_S)
                continue
            if is_lost:
                is_lost = False
                self.listener.lost("")
            if data:
                self.listener.output(data)
                reader.feed(decoder.decode(data))
            self.listener.progress(replace(reader.progress, seconds=now - began, size=size))
            # What it printed last may come after its end was seen.
            if outcome is not None and not data:
                return outcome
            if not data:
                time.sleep(_POLL_S)

    def _drafts(self, command: Command) -> Mapping[str, int]:
        assert self.folder is not None
        found = self.machine.files(self.folder.path, command.output)
        return {name: found[name] for name in sorted(found)}

    def stop(self) -> bool:
        """Have the running command finish what it has; again: end it at once. Whether there was one to be reached."""
        # A signal's handler may stand within another call of this thread: no lock here.
        job = self._job
        if job is None:
            return False
        try:
            job.stop()
        except ConnectionError:
            return False
        self._asked_to_stop = True
        return True

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        job = self._job
        if job is not None:
            job.resize(columns, rows)

    def finish(self, state: Literal["done", "stopped", "failed"]) -> None:
        """Note how the run ended, and let go of the machine. A run in which nothing was run leaves nothing; one whose
        command was not seen to end is left as by ``abandon``."""
        if self.folder is not None and self.pending is None:
            if self.folder.record.stages:
                self.folder.end(state)
            else:
                self.folder.discard()
            # All is here: what may stay there is of no use.
            with suppress(ConnectionError):
                self.machine.forget(self.folder.path)
        self.abandon()

    def abandon(self) -> None:
        """Let go of everything at once. What runs here is ended by its keeper, which has the profiler write its report
        first; ``folder.recover`` keeps that later."""
        if self.folder is not None:
            self.folder.close()
        self.machine.close()

    # ------------------------------------------------------------------ what it leaves

    def _bring(self, name: str, *, must_be_whole: bool | None = None) -> Path | None:
        """Bring a file of the run here, and give it its final name. A report that is empty, or not whole where it
        ``must_be_whole``, stays among the drafts."""
        assert self.folder is not None

        def copying(done: int, total: int) -> bool:
            self.listener.copying(name, done, total)
            return True

        draft = self.folder.work / name
        self.machine.fetch(self.folder.path, name, draft, copying)
        is_report = must_be_whole is not None
        if is_report and (not draft.stat().st_size or (must_be_whole and not is_whole_report(draft))):
            return None
        return self.folder.adopt(draft, name)

    def _environment(self, command: Command) -> Mapping[str, str]:
        """What is added to the program's. Python holds its output back where it writes into a pipe, as under nsys; and
        where the folder for temporary files is of no use, the run's own takes its place."""
        avoids = any(check.id in _AVOIDED and check.blocks for check in self.checks)
        temporary = {"TMPDIR": self.tools.folder} if avoids else {}
        return {"PYTHONUNBUFFERED": "1", **temporary, **command.env}


def machine_of(host: str, directory: str, *, connect: bool = True) -> Machine:
    """This machine, or the one that ``host`` names; while it is connected ssh may ask in the terminal, else it is
    reached later and without asking. Raises ``GputuiError``."""
    if not host:
        from gputui.run.local import LocalMachine

        return LocalMachine()
    from gputui.run.remote import SshMachine

    machine = SshMachine(host, directory)
    if connect:
        machine.connect()
    return machine


def _ends_of(log: Path) -> str:
    """The beginning and the end of a log, as text."""
    try:
        with log.open("rb") as file:
            head = file.read(_MOST_LOG)
            size = file.seek(0, 2)
            if size > 2 * _MOST_LOG:
                file.seek(-_MOST_LOG, 2)
            else:
                file.seek(min(size, len(head)))
            return (head + b"\n" + file.read() if size > len(head) else head).decode("utf-8", "replace")
    except OSError:
        return ""
