"""Nsight Systems' own reports (``.nsys-rep``, ``.qdrep``).

Only nsys reads them: it exports them to SQLite, in a process group of its own, into the user's cache. Nothing is
written beside the report. An export that lies there already is used as it is.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from gputui.errors import GputuiError
from gputui.formats import nsys_sqlite
from gputui.formats.base import Progress
from gputui.model.report import Notice, Report
from gputui.nsight import find_nsys

kind = "nsys"
MAGIC = b"NVIDIA Tegra Profiler"
_END = b"[END]"
"""Of every whole report (seen in those of 2020 to 2025)."""

_MOST_HEAD = 1 << 20
"""Bytes of a report that are searched for its session; it stands in the first 16 KiB."""
_MOST_FILES = 20
_MOST_BYTES = 5 * 10**9
_STALL_S = 300.0
"""How long nsys may neither say nor write anything."""
_VERSION_S = 30.0
_TICK_S = 0.2
_LAST_WORDS = 65536
_PERCENT = re.compile(rb"(\d{1,3})%")
_NEWER = re.compile(r"created in Nsight Systems version \(([\d.]+)[^)]*\), newer than your current version \(([\d.]+)")


def recognises(head: bytes) -> bool:
    return head.startswith(MAGIC)


def is_whole(path: Path) -> bool:
    """Whether nsys wrote the report to its end. Raises ``OSError``."""
    with path.open("rb") as file:
        if not recognises(file.read(len(MAGIC))):
            return False
        file.seek(-len(_END), os.SEEK_END)
        return file.read() == _END


def open(path: Path, progress: Progress | None = None) -> Report:
    """The report at ``path``. Raises ``GputuiError`` where there is no nsys that can read it, or it is stopped."""
    beside = path.with_suffix(".sqlite")
    if _is_export_of(beside, path):
        with contextlib.suppress(GputuiError):
            report = nsys_sqlite.open_export(beside, path, progress)
            if not _session_of(beside):
                report.notices.append(Notice("export-beside", {"file": beside.name}))
            return report

    def converting(done: int, total: int) -> bool:
        return progress is None or progress(done, 2 * total)

    def reading(done: int, total: int) -> bool:
        return progress is None or progress(total + done, 2 * total)

    export, is_new = _converted(path, converting)
    if not is_new:
        with contextlib.suppress(GputuiError):
            report = nsys_sqlite.open_export(export, path, reading)
            if not report.truncated:
                return report
            report.close()
        # What is wrong with a file of the cache is not wrong with the user's.
        _drop(export)
        export, _ = _converted(path, converting)
    return nsys_sqlite.open_export(export, path, reading)


def export_at_hand(path: Path) -> Path | None:
    """The export of this report that lies beside it or in the cache."""
    beside = path.with_suffix(".sqlite")
    if _is_export_of(beside, path):
        return beside
    nsys = find_nsys()
    cached = None if nsys is None else _place_in_cache(path, nsys)
    return cached if cached is not None and nsys_sqlite.is_whole(cached) else None


def _is_export_of(export: Path, path: Path) -> bool:
    """Whether it is an export of the report: of its session, or newer where the export does not tell its session."""
    if not nsys_sqlite.is_whole(export):
        return False
    session = _session_of(export)
    try:
        if session:
            with path.open("rb") as file:
                return session in file.read(_MOST_HEAD)
        return export.stat().st_mtime >= path.stat().st_mtime
    except OSError:
        return False


def _session_of(export: Path) -> bytes:
    """The id of the profiling session that nsys has written near the start of reports and into exports since 2023."""
    return nsys_sqlite.capture_info(export).get("PROFILING_SESSION_UUID", "").encode()


def _by_hand(path: Path) -> str:
    export, name = shlex.quote(f"{path.stem}.sqlite"), shlex.quote(path.name)
    return (
        f"On the machine that captured it run nsys export --type sqlite -o {export} {name}, then gputui open {export}"
    )


def _converted(path: Path, progress: Progress) -> tuple[Path, bool]:
    """The export of this report in the cache, and whether it had to be made."""
    nsys = find_nsys()
    if nsys is None:
        raise GputuiError(str(path), "is read by nsys, which is not installed here", _by_hand(path))
    export = _place_in_cache(path, nsys)
    if export is None:
        raise GputuiError(
            str(path),
            "cannot be converted: there is no folder for its export (no absolute path in XDG_CACHE_HOME or HOME)",
            "Set XDG_CACHE_HOME to a folder with room",
        )
    folder = export.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if nsys_sqlite.is_whole(export):
            # The last used go last.
            with contextlib.suppress(OSError):
                os.utime(export)
            return export, False
        _drop(export)
        draft = export.with_name(f"{export.stem}.{os.getpid()}.draft")
        try:
            _run(nsys, path, draft, progress)
            if not nsys_sqlite.is_whole(draft):
                # nsys ends with status 0 on a full disk, too.
                raise _no_room(path, folder, "nsys wrote no whole export; is the disk full?")
            draft.replace(export)
        finally:
            for leftover in folder.glob(f"{draft.name}*"):
                _drop(leftover)
        _tidy(folder, export)
    except OSError as error:
        raise _no_room(path, folder, error.strerror or str(error)) from error
    return export, True


def _drop(export: Path) -> None:
    """Remove what is in the place of an export in the cache."""
    if export.is_dir() and not export.is_symlink():
        shutil.rmtree(export)
    else:
        export.unlink(missing_ok=True)


def _place_in_cache(path: Path, nsys: str) -> Path | None:
    cache = _cache()
    if cache is None:
        return None
    status = path.stat()
    key = f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0{_version(nsys)}"
    return cache / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:32]}.sqlite"


def _cache() -> Path | None:
    """Where exports are kept; ``None`` where no folder is known. The specification: a relative path is ignored."""
    for home, below in ((os.environ.get("XDG_CACHE_HOME", ""), ""), (os.path.expanduser("~"), ".cache")):
        if os.path.isabs(home):
            return Path(home) / below / "gputui" / "nsys"
    return None


def _no_room(path: Path, folder: Path, why: str) -> GputuiError:
    return GputuiError(
        str(path),
        f"cannot be converted into the cache {folder} ({why})",
        "Make room or rights there, or set XDG_CACHE_HOME to a folder with both",
    )


def _version(nsys: str) -> str:
    try:
        done = subprocess.run(
            [nsys, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def _run(nsys: str, path: Path, draft: Path, progress: Progress) -> None:
    """Have nsys write ``draft``. Raises ``GputuiError`` where it does not."""
    command = [
        *(nsys, "export", "--type", "sqlite", "--lazy", "true", "--force-overwrite", "true"),
        *("--output", str(draft), str(path.absolute())),
    ]
    words = b""
    with _started(command, path, draft.parent) as child:
        assert child.stdout is not None
        for said in _output(child.stdout, draft):
            if said is None:
                raise GputuiError(
                    str(path), f"nsys has done nothing for {_STALL_S:g} s and was stopped", _by_hand(path)
                )
            words = (words + said)[-_LAST_WORDS:]
            percents = _PERCENT.findall(words)
            if not progress(min(int(percents[-1]), 100) if percents else 0, 100):
                raise GputuiError(str(path), "was not opened: its conversion was stopped", "Open it again")
        status = child.wait()
    if status or not draft.is_file():
        raise _refused(path, draft.parent, words.decode("utf-8", "replace"), status)


@contextlib.contextmanager
def _started(command: list[str], path: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """nsys, which ends with the block, and with it whatever it started. Raises ``GputuiError``."""
    with ThreadPoolExecutor(1) as starter:
        # Not in the main thread: there a signal's handler may raise inside of Popen, and the child would be lost.
        starting = starter.submit(
            subprocess.Popen,
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # to stop whatever it starts, too
        )
        try:
            try:
                child = starting.result()
            except OSError as error:
                raise GputuiError(
                    str(path), f"nsys does not start ({error.strerror or error})", _by_hand(path)
                ) from error
            yield child
        finally:
            if starting.exception() is None:
                _kill(starting.result())


def _output(pipe: IO[bytes], draft: Path) -> Iterator[bytes | None]:
    """What the child says, some times a second; ends with the child, and with ``None`` where it stalls."""
    size, alive = -1, time.monotonic()
    while True:
        ready, _, _ = select.select([pipe], [], [], _TICK_S)
        said = os.read(pipe.fileno(), _LAST_WORDS) if ready else b""
        if ready and not said:
            return
        now = draft.stat().st_size if draft.exists() else -1
        if said or now != size:
            size, alive = now, time.monotonic()
        elif time.monotonic() - alive > _STALL_S:
            yield None
        yield said


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _refused(path: Path, folder: Path, words: str, status: int) -> GputuiError:
    newer = _NEWER.search(words)
    if newer is not None:
        return GputuiError(
            str(path),
            f"was made by Nsight Systems {newer[1]}, which is newer than the {newer[2]} installed here",
            _by_hand(path),
        )
    reason = next((line.strip(" .") for line in re.findall(r"rror: *([^\r\n]+)", words)), "")
    if re.search("disk (is|I/O)|No space left|is full|unable to open database", words):
        return _no_room(path, folder, reason or os.strerror(errno.ENOSPC))
    if status < 0:
        return GputuiError(str(path), f"nsys crashed on it (signal {-status})", _by_hand(path))
    return GputuiError(
        str(path),
        f"nsys cannot read it ({reason or f'status {status}'})",
        "The file is cut off or damaged: copy it again byte for byte, or collect it again",
    )


def _tidy(folder: Path, keep: Path) -> None:
    """Remove the exports that were not used for longest, until few enough and small enough ones are left."""
    exports = []
    for one in folder.iterdir():
        with contextlib.suppress(OSError):
            status = one.stat()
            exports.append((one != keep, -status.st_mtime, status.st_size, one))
    size = 0
    for count, (_, _, bytes_here, one) in enumerate(sorted(exports)):
        size += bytes_here
        if one != keep and (count >= _MOST_FILES or size > _MOST_BYTES):
            with contextlib.suppress(OSError):
                one.unlink()
