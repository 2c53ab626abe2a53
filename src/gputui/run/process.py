"""A command on this machine: the keeper that runs it, seen from here."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from gputui.errors import GputuiError
from gputui.run import keeper
from gputui.run.machine import JobSpec, Outcome

_MOST_READ = 1 << 20
_MOST_STATUS = 1 << 16
_REPORTS = (".qdstrm", ".nsys-rep", ".ncu-rep")
_LAST_TIME = 1e11
"""Of what a date can be made."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, as ``keeper.identity`` tells it."""

    pid: int
    start: int
    boot: str
    space: str
    host: str


def is_alive(who: Identity) -> bool | None:
    """As ``keeper.is_alive``."""
    return keeper.is_alive(asdict(who))


@dataclass(frozen=True, slots=True)
class Status:
    """What a keeper tells of its command. Times in seconds since 1970; ``ended`` is ``None`` until all is over."""

    keeper: Identity
    token: str
    started: float
    pid: int | None = None
    ended: Annotated[float, msgspec.Meta(ge=0, le=_LAST_TIME)] | None = None
    status: int | None = None
    stopped: bool = False
    seconds: float = 0.0
    error: str = ""


class LocalJob:
    """A ``machine.Job``: reads the keeper's log and status. A keeper that was itself killed is told by ``outcome``."""

    def __init__(
        self,
        spec: JobSpec,
        status: Status,
        child: subprocess.Popen[bytes] | None = None,
        liveness: int | None = None,
    ) -> None:
        self._place = os.path.join(spec.folder, spec.id)
        self._status = status
        self._child = child
        self._liveness = liveness
        self._read = 0
        self._outcome: Outcome | None = None

    @classmethod
    def start(cls, spec: JobSpec) -> LocalJob:
        """Raises ``GputuiError`` where the keeper cannot start or cannot write."""
        place = os.path.join(spec.folder, f"{spec.id}.spec.json")
        gone, liveness = os.pipe()
        try:
            try:
                keeper.replace(os.fsencode(place), json.dumps({**asdict(spec), "liveness": gone}).encode())
                child = subprocess.Popen(
                    # Isolated: what PYTHONPATH or a .pth file brings is not for the keeper.
                    [sys.executable, "-I", "-S", keeper.__file__, place],
                    stdin=None if spec.inherit_stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(gone,),
                    start_new_session=True,
                )
            except OSError as error:
                raise _cannot_start(spec, error.strerror or str(error)) from error
            finally:
                os.close(gone)
            assert child.stdout is not None
            said = child.stdout.readline()
            status = _parsed(said)
            if status is None:
                lines = (said + child.communicate()[0]).decode("utf-8", "replace").split("\n")
                raise _cannot_start(spec, next((line for line in reversed(lines) if line), "its keeper died"))
            return cls(spec, status, child, liveness)
        except BaseException:
            # A keeper that had begun takes this for the death of whoever asked.
            os.close(liveness)
            raise

    @classmethod
    def attach(cls, spec: JobSpec) -> LocalJob:
        """Raises ``GputuiError`` where no such command was started."""
        status = read_status(Path(spec.folder) / f"{spec.id}.status.json")
        if status is None:
            raise GputuiError(
                os.path.join(spec.folder, spec.id),
                "was never started, or what is known of it is damaged",
                "Run it anew",
            )
        return cls(spec, status)

    def read(self) -> bytes:
        try:
            with open(f"{self._place}.log", "rb") as file:
                file.seek(self._read)
                data = file.read(_MOST_READ)
        except FileNotFoundError:
            return b""
        self._read += len(data)
        return data

    def outcome(self) -> Outcome | None:
        if self._outcome is None and not self._keeper_runs():
            said = self._last_words()
            written = read_status(Path(f"{self._place}.status.json"))
            ended = next((one for one in (written, said) if one is not None and one.ended is not None), None)
            if ended is None:
                keeper.end_all(self._status.token)
                self._outcome = Outcome(
                    None, stopped=False, seconds=0.0, error="its keeper was killed, and nobody saw it end"
                )
            else:
                self._outcome = Outcome(ended.status, ended.stopped, ended.seconds, ended.error)
            self.let_go()
        return self._outcome

    def written(self) -> int:
        """By the files that the profiler has open: nsys writes into the folder for temporary files first."""
        sizes: dict[tuple[int, int], int] = {}
        for pid in keeper.leftovers(self._status.token):
            # A process may end meanwhile, or be another user's.
            with suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/fd"):
                    with suppress(OSError):
                        place = f"/proc/{pid}/fd/{name}"
                        if os.readlink(place).endswith(_REPORTS):
                            found = os.stat(place)
                            sizes[found.st_dev, found.st_ino] = found.st_size
        return sum(sizes.values())

    def stop(self) -> None:
        self._tell(signal.SIGINT)

    def kill(self) -> None:
        self._tell(signal.SIGTERM)

    def resize(self, columns: int, rows: int) -> None:
        # Of no consequence where it cannot be written.
        with suppress(OSError):
            keeper.replace(os.fsencode(f"{self._place}.size"), b"%d %d\n" % (columns, rows))
            self._tell(signal.SIGWINCH)

    def let_go(self) -> None:
        """Say that nobody asks for it any more: what still runs is stopped."""
        if self._liveness is not None:
            os.close(self._liveness)
            self._liveness = None

    def _keeper_runs(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return is_alive(self._status.keeper) is not False

    def _last_words(self) -> Status | None:
        """The status that the keeper printed last, for a disk that has no room for it."""
        if self._child is None or self._child.stdout is None:
            return None
        with self._child.stdout as pipe:
            lines = pipe.read().splitlines()
        return _parsed(lines[-1]) if lines else None

    def _tell(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)
        elif self._keeper_runs():
            with suppress(ProcessLookupError):
                os.kill(self._status.keeper.pid, number)


def read_status(path: Path) -> Status | None:
    """What a keeper wrote; ``None`` where there is nothing, or nothing of use."""
    try:
        return _parsed(read_small(path, _MOST_STATUS))
    except OSError:
        return None


def read_small(path: Path, most: int) -> bytes:
    """The beginning of a file. Raises ``OSError``, also for what is no file: a pipe would be waited for."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return file.read(most)


def _parsed(text: bytes) -> Status | None:
    try:
        return msgspec.convert(json.loads(text), Status)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _cannot_start(spec: JobSpec, why: str) -> GputuiError:
    return GputuiError(spec.argv[0], f"was not started: {why}", f"Check that {spec.folder} can be written and has room")
