"""This machine, as a place where profilers run. Its part of a run folder is the folder's ``.work``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gputui.errors import GputuiError
from gputui.run import keeper
from gputui.run.machine import CopyProgress, Facts, JobSpec
from gputui.run.process import LocalJob

PROBE = Path(__file__).with_name("probe.py")
WORK = ".work"
"""Where files lie in a run folder until they are whole."""
_PROBE_S = 60.0
_CHUNK = 4 << 20


class LocalMachine:
    """A ``machine.Machine``. What was started here ends with it: by ``close``, and by the death of this process."""

    name = ""

    def __init__(self) -> None:
        self._jobs: list[LocalJob] = []

    def facts(self) -> Facts:
        # Into a file: a tool that hangs in the driver would keep a pipe open even when it has been killed.
        with tempfile.TemporaryFile() as said:
            probe = subprocess.Popen(
                [sys.executable, str(PROBE)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                probe.wait(_PROBE_S)
            except subprocess.TimeoutExpired:
                raise _cannot_tell(f"looking at it took more than {_PROBE_S:g} s") from None
            finally:
                # And what it may have left waiting.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(probe.pid, signal.SIGKILL)
                probe.wait()
            said.seek(0)
            try:
                facts = json.load(said)
            except ValueError as error:
                raise _cannot_tell(f"looking at it failed (status {probe.returncode})") from error
        if not isinstance(facts, dict):
            raise _cannot_tell("looking at it failed")
        return facts

    def folder(self, run: Path) -> str:
        place = run.absolute() / WORK
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise GputuiError(
                str(place), f"cannot be made ({error.strerror})", "Name a folder that can be written"
            ) from error
        return str(place)

    def put(self, run: Path, name: str, content: bytes) -> None:
        place = Path(self.folder(run)) / name
        try:
            keeper.replace(os.fsencode(place), content)
        except OSError as error:
            raise GputuiError(str(place), f"cannot be written ({error.strerror})", "Make room there") from error

    def start(self, spec: JobSpec) -> LocalJob:
        if not os.path.isdir(spec.cwd):
            raise GputuiError(spec.cwd, "there is no such folder", "Name one that is there with --directory")
        job = LocalJob.start(spec)
        self._jobs.append(job)
        return job

    def attach(self, spec: JobSpec) -> LocalJob:
        return LocalJob.attach(spec)

    def files(self, run: Path, prefix: str) -> Mapping[str, int]:
        with os.scandir(self.folder(run)) as entries:
            return {one.name: one.stat().st_size for one in entries if one.name.startswith(prefix) and one.is_file()}

    def fetch(self, run: Path, name: str, to: Path, progress: CopyProgress | None = None) -> None:
        """Moves the file. Raises ``GputuiError`` where there is none, no room, or ``progress`` stopped it."""
        source = Path(self.folder(run)) / name
        try:
            if source.parent.samefile(to.parent) and source.name == to.name:
                return
            try:
                source.replace(to)
            except OSError:
                if source.stat().st_dev == to.parent.stat().st_dev:
                    raise
                _copy(source, to, progress)
                source.unlink()
        except OSError as error:
            raise GputuiError(
                str(to), f"cannot be written ({error.strerror})", f"Make room there; the file is {source}"
            ) from error

    def forget(self, run: Path) -> None:
        """Nothing: what is left in the run's folder is the user's."""

    def close(self) -> None:
        for job in self._jobs:
            job.let_go()
        self._jobs.clear()


def _copy(source: Path, to: Path, progress: CopyProgress | None) -> None:
    """Copy to another disk, whole or not at all."""
    draft = to.with_name(f"{to.name}.part")
    total = source.stat().st_size
    done = 0
    try:
        with source.open("rb") as reading, draft.open("wb") as writing:
            while chunk := reading.read(_CHUNK):
                writing.write(chunk)
                done += len(chunk)
                if progress is not None and not progress(done, total):
                    raise GputuiError(str(to), "was not copied: it was stopped", f"The file is {source}")
        shutil.copystat(source, draft)
        draft.replace(to)
    finally:
        draft.unlink(missing_ok=True)


def _cannot_tell(why: str) -> GputuiError:
    return GputuiError(
        "this machine", why, "Run gputui doctor again; if it stays so, run nvidia-smi and see if it hangs"
    )
