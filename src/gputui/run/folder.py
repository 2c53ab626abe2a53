"""The run folder: what was run, how it ended, and the reports, in files that people can read.

``run.json`` tells all, ``commands.txt`` holds each command to copy, ``notes.txt`` the user's notes. Reports and logs
lie under their names only when they are whole; until then they are in ``.work``.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal

import msgspec

from gputui import __version__
from gputui.errors import GputuiError
from gputui.formats import REPORT_SUFFIXES, ncu_report, nsys_rep
from gputui.run import keeper
from gputui.run.local import WORK
from gputui.run.machine import Outcome
from gputui.run.plan import Command, Request, Tools
from gputui.run.process import Identity, is_alive, read_small, read_status
from gputui.terminal import safe

RUNS = "gputui-runs"
"""The folder of runs below the current one."""
SCHEMA = 1
_RECORD = "run.json"
_COMMANDS = "commands.txt"
_NOTES = "notes.txt"
_LOCK = "lock"
_MOST_RECORD = 4 << 20
_MOST_NOTE = 4096
_MOST_NAME = 40
_MOST_REASON = 200

_KEPT_ENVIRONMENT = re.compile(
    r"(CUDA|NVIDIA|NCCL|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|OMP|MKL|SLURM)_\w+"
    r"|LD_LIBRARY_PATH|PYTHONPATH|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|JWT")

_LAUNCHERS = re.compile(
    r"(?:python|pypy)[\d.]*|torchrun|accelerate|launch|deepspeed|mpirun|mpiexec|srun|env|uv|poetry|run|nice|numactl|time"
)

_NO_PROGRAM = re.compile(rf"-.*|.*=.*|\d+|{_LAUNCHERS.pattern}", re.DOTALL)

_STAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""A step's name, of which its files' names are made."""

State = Literal["running", "done", "stopped", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of a profiler. ``reports`` are names in the run folder, ``failures`` ids of ``failures.Failure``."""

    id: str
    tool: str
    argv: tuple[str, ...]
    output: str
    env: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    started: datetime | None = None
    seconds: float | None = None
    status: int | None = None
    stopped: bool = False
    error: str = ""
    reports: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What ``run.json`` holds. ``host`` is what the user named with ``--host``, empty for gputui's own machine."""

    state: State
    started: datetime
    request: Request
    owner: Identity
    host: str = ""
    ended: datetime | None = None
    tools: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    driver: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    gputui: str = __version__
    schema: int = SCHEMA

    @property
    def reports(self) -> tuple[str, ...]:
        return tuple(report for stage in self.stages for report in stage.reports)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run for a list. ``state`` is ``unknown`` where its owner is another machine's process, or has left its program
    on another machine; ``problem`` says why there is no record, and is empty where there is one."""

    path: Path
    state: Literal[State, "unknown"]
    program: str
    started: datetime | None
    reports: tuple[str, ...] = ()
    host: str = ""
    note: str = ""
    problem: str = ""


class RunFolder:
    """A run that this process writes. No other can while it is open."""

    def __init__(self, path: Path, record: RunRecord, lock: int) -> None:
        self.path = path
        self.record = record
        self._lock = lock

    @classmethod
    def create(
        cls,
        base: Path,
        request: Request,
        *,
        host: str = "",
        tools: Tools | None = None,
        gpus: Sequence[str] = (),
        driver: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> RunFolder:
        """A new folder below ``base``. ``environ`` is the program's (default: this process's), of which little is
        kept. Raises ``GputuiError`` where nothing can be written there."""
        now = _now()
        name = f"{now:%Y-%m-%d_%H-%M-%S}-{program_name(request.command)}"
        with writing(base):
            base.mkdir(parents=True, exist_ok=True)
            path = _first_free(base, name, "", Path.mkdir)
            lock = _locked(path)
        versions = tools or Tools()
        known = {"nsys": versions.nsys_version, "ncu": versions.ncu_version}
        record = RunRecord(
            state="running",
            started=now,
            request=request,
            owner=_owner(),
            host=host,
            tools={tool: ".".join(map(str, version)) for tool, version in known.items() if version},
            gpus=tuple(gpus),
            driver=driver,
            environment=kept_environment(os.environ if environ is None else environ),
        )
        run = cls(path, record, lock)
        run._write(record)
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run to go on with. Raises ``GputuiError`` where there is none, or another gputui has it open."""
        read_record(path)
        with writing(path):
            lock = _locked(path)
        return cls(path, read_record(path), lock)

    @property
    def work(self) -> Path:
        """Where drafts lie; as ``LocalMachine.folder`` says."""
        return self.path / WORK

    def begin(self, command: Command) -> Stage:
        """Note that the command starts now. One that is begun again starts anew."""
        stage = Stage(
            command.id, command.tool, command.argv, command.output, dict(command.env), command.kernels, started=_now()
        )
        additions = ["env", *(f"{name}={value}" for name, value in command.env.items())] if command.env else []
        comment = safe(f"{command.id}, {stage.started:%Y-%m-%d %H:%M:%S}, in {self.record.request.cwd}")
        self._append(_COMMANDS, f"# {comment}\n{shlex.join([*additions, *command.argv])}\n\n")
        others = tuple(one for one in self.record.stages if one.id != stage.id)
        self._write(replace(self.record, state="running", ended=None, owner=_owner(), stages=(*others, stage)))
        return stage

    def finish(self, stage: str, outcome: Outcome, reports: Sequence[Path] = (), failures: Sequence[str] = ()) -> None:
        """Note how a begun command ended. ``reports`` are what ``adopt`` answered."""
        self._change(
            stage,
            seconds=outcome.seconds,
            status=outcome.status,
            stopped=outcome.stopped,
            error=outcome.error,
            reports=tuple(one.name for one in reports),
            failures=tuple(failures),
        )

    def end(self, state: State) -> None:
        """Note how the whole run ended."""
        self._write(replace(self.record, state=state, ended=_now()))

    def discard(self) -> None:
        """Remove the folder of a run in which nothing was run. What is in it beside stays."""
        with suppress(OSError):
            for name in (self.work / _LOCK, self.path / _RECORD):
                name.unlink()
            self.work.rmdir()
            self.path.rmdir()

    def note(self, text: str) -> None:
        """Add lines to the user's notes."""
        add_note(self.path, text)

    def adopt(self, draft: Path, name: str) -> Path:
        """Give a whole file of the run folder its final name; ``-2`` is added where that is taken."""
        with writing(self.path):

            def link(place: Path) -> None:
                try:
                    os.link(draft, place)
                except FileExistsError:
                    raise
                except OSError:
                    # A disk without hard links: take the name first.
                    place.touch(exist_ok=False)
                    draft.replace(place)

            place = _first_free(self.path, Path(name).stem, Path(name).suffix, link)
            draft.unlink(missing_ok=True)
            return place

    def close(self) -> None:
        """Let others write the run."""
        os.close(self._lock)

    def _change(self, stage: str, **changes: object) -> None:
        stages = tuple(replace(one, **changes) if one.id == stage else one for one in self.record.stages)  # type: ignore[arg-type]
        self._write(replace(self.record, stages=stages))

    def _write(self, record: RunRecord) -> None:
        text = json.dumps(msgspec.to_builtins(record), indent=2) + "\n"
        with writing(self.path):
            keeper.replace(os.fsencode(self.path / _RECORD), text.encode())
        self.record = record

    def _append(self, name: str, text: str) -> None:
        with writing(self.path), (self.path / name).open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)


def run_of(report: Path) -> Path | None:
    """The run folder that this is, or that a report lies in."""
    return next((one for one in (report, report.parent) if os.path.isfile(one / _RECORD)), None)


def read_record(path: Path) -> RunRecord:
    """What is known of the run in the folder ``path``. Raises ``GputuiError`` where that cannot be told."""
    try:
        text = read_small(path / _RECORD, _MOST_RECORD + 1)
    except OSError as error:
        raise GputuiError(
            str(path), f"is no run of gputui (run.json: {error.strerror})", "gputui runs lists the runs there are"
        ) from error
    try:
        return _parsed(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise GputuiError(
            str(path),
            f"has a damaged run.json ({safe(str(error))[:_MOST_REASON]})",
            f"What reports it has can still be opened: gputui open {shlex.quote(str(path))}",
        ) from error


def _parsed(text: bytes) -> RunRecord:
    if len(text) > _MOST_RECORD:
        raise ValueError("it is too large")
    record = msgspec.convert(json.loads(text), RunRecord)
    # They are joined to paths.
    if not all(re.fullmatch(r"[^/\0]+", report) and report != ".." for report in record.reports):
        raise ValueError("it names a report outside of the folder")
    if not all(_STAGE.fullmatch(name) for stage in record.stages for name in (stage.id, stage.output)):
        raise ValueError("it names a step that is none of gputui's")
    return record


def commands_of(record: RunRecord) -> tuple[Command, ...]:
    """What left a report in a run, in turn."""
    return tuple(
        Command(one.id, one.tool, one.argv, one.output, one.env, one.kernels) for one in record.stages if one.reports
    )


def runs(base: Path) -> list[RunSummary]:
    """The runs in a folder, newest first; or the one run that ``base`` is.

    Raises ``GputuiError`` where the folder cannot be read; one that is not there holds none.
    """
    try:
        if (base / _RECORD).exists():
            return [summary(base)]
        with os.scandir(base) as entries:
            found = [summary(Path(one.path)) for one in entries if os.path.lexists(os.path.join(one.path, _RECORD))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise GputuiError(str(base), f"cannot be read ({error.strerror})", "Name a folder of runs") from error
    return sorted(found, key=lambda one: (_seconds_of(one.started), one.path.name))[::-1]


def _seconds_of(moment: datetime | None) -> float:
    try:
        return 0.0 if moment is None else moment.timestamp()
    except (ValueError, OverflowError):
        # A year that no clock shows.
        return 0.0


def summary(path: Path) -> RunSummary:
    """A run in short. What cannot be read is a ``problem``."""
    try:
        record = read_record(path)
    except GputuiError as error:
        return RunSummary(path, "failed", "", None, problem=str(error))
    return RunSummary(
        path,
        _state(path, record),
        program_name(record.request.command),
        record.started,
        tuple(report for report in record.reports if (path / report).is_file()),
        record.host or record.owner.host,
        _first_note(path),
    )


def listed(base: Path) -> list[RunSummary]:
    """As ``runs``, with what interrupted ones left kept wherever that can be done."""
    return [_kept(one) if one.state == "interrupted" else one for one in runs(base)]


def _kept(run: RunSummary) -> RunSummary:
    try:
        return recover(run.path)
    except GputuiError:
        return run


def interrupted(base: Path) -> list[RunSummary]:
    """The runs whose gputui died and that ``recover`` has not seen yet. Newest first."""
    return [one for one in runs(base) if one.state == "interrupted" and read_record(one.path).state == "running"]


def recover(path: Path) -> RunSummary:
    """Keep what an interrupted run has: whole reports, logs, and how its commands ended; then mark it as such.

    Raises ``GputuiError`` where it is open elsewhere, or cannot be written.
    """
    run = RunFolder.open(path)
    try:
        if _state(path, run.record) == "interrupted" and run.record.state == "running":
            ends = [_recover_stage(run, stage) for stage in run.record.stages if stage.seconds is None]
            ended = max((end for end in ends if end is not None), default=None)
            run._write(replace(run.record, state="interrupted", ended=ended))
    finally:
        run.close()
    return summary(path)


def _recover_stage(run: RunFolder, stage: Stage) -> datetime | None:
    """Keep what the command left; when it ended, where its keeper saw that."""
    status = read_status(run.work / f"{stage.id}.status.json")
    if status is not None and status.ended is None:
        keeper.end_all(status.token)
    begin = Path(stage.output).name
    drafts = [one for one in sorted(run.work.iterdir()) if one.name.startswith(begin) and is_whole_report(one)]
    reports = [run.adopt(draft, draft.name) for draft in drafts]
    log = run.work / f"{stage.id}.log"
    if log.is_file():
        run.adopt(log, log.name)
    run._change(stage.id, reports=tuple(one.name for one in reports))
    if status is None or status.ended is None:
        return None
    run._change(stage.id, seconds=status.seconds, status=status.status, stopped=status.stopped, error=status.error)
    return datetime.fromtimestamp(status.ended).astimezone()


def is_whole_report(path: Path) -> bool:
    """Whether it is a report of a profiler, written to its end."""
    if path.suffix not in REPORT_SUFFIXES:
        return False
    try:
        return nsys_rep.is_whole(path) or ncu_report.is_whole(path)
    except OSError:
        return False


def _state(path: Path, record: RunRecord) -> Literal[State, "unknown"]:
    if record.state != "running":
        return record.state
    alive = is_alive(record.owner)
    if alive is False and record.host:
        # The program may go on there.
        return "unknown"
    if alive is False:
        statuses = [read_status(one) for one in (path / WORK).glob("*.status.json")]
        ending = [one for one in statuses if one is not None and one.ended is None]
        return "running" if any(is_alive(one.keeper) for one in ending) else "interrupted"
    return "unknown" if alive is None else "running"


def add_note(path: Path, text: str) -> Path:
    """Add lines to the notes of a run; the file they are in.

    Raises ``GputuiError`` where it is no run, or cannot be written.
    """
    read_record(path)
    notes = path / _NOTES
    with writing(path), notes.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{text.strip()}\n")
    return notes


def _first_note(path: Path) -> str:
    try:
        lines = read_small(path / _NOTES, _MOST_NOTE).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return lines[0].strip()


def kept_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that bear on how fast a GPU program is, and no secrets."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if _KEPT_ENVIRONMENT.fullmatch(name) and not _SECRET.search(name)
    }


def program_name(command: Sequence[str]) -> str:
    """A short name for a command, of letters, digits and ``._-``: ``train`` for ``torchrun train.py``."""
    names = [Path(word).name for word in command]
    name = ""
    if names and _LAUNCHERS.fullmatch(names[0]):
        for word, following in zip(names[1:], [*names, ""][2:], strict=True):
            if word in ("-m", "-c") or word.endswith(".py"):
                name = {"-m": following.rpartition(".")[2], "-c": ""}.get(word, word.removesuffix(".py"))
                break
        else:
            name = next((word for word in names if not _NO_PROGRAM.fullmatch(word)), "")
    name = name or next(iter(names), "")
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._-")[:_MOST_NAME] or "program"


def _now() -> datetime:
    return datetime.now().astimezone()


def _owner() -> Identity:
    return Identity(**keeper.identity(os.getpid()))


def _first_free(folder: Path, stem: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """Make a name in the folder, or ``stem-2`` and so on where it is taken: ``make`` raises ``FileExistsError``."""
    for number in count(1):
        place = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
        with suppress(FileExistsError):
            make(place)
            return place
    raise AssertionError


def _locked(path: Path) -> int:
    (path / WORK).mkdir(mode=0o700, exist_ok=True)
    if (path / WORK).is_symlink():
        raise GputuiError(str(path / WORK), "is a link, and gputui makes none", "Remove it")
    lock = os.open(path / WORK / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise GputuiError(str(path), "is open in another gputui", "Close it there first") from error
    except OSError:
        # A disk without locks.
        pass
    return lock


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Within, what cannot be written is a ``GputuiError`` about ``path``."""
    try:
        yield
    except OSError as error:
        raise GputuiError(
            str(path),
            f"cannot be written ({error.strerror})",
            "Make room there, or work in a folder that can be written",
        ) from error
