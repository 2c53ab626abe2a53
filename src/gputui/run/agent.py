"""What another machine does for gputui: one request, answered on standard output.

It is sent, with the request, to the standard input of ``python3 -`` there; ``remote.py`` is the other side. It
imports nothing of gputui and is run by Python 3.6 and later, hence the quoted annotations. Names and arguments are
bytes here: they come as they were typed whatever the locale of the machine is.

The answer begins with a line of its own that holds the marker of the request, since a login shell may print before.
Then come messages: a letter, the length (4 bytes, big-endian) and that many bytes. ``D`` is data, ``S`` a status, ``H``
a sign of life; the last is ``A``, the answer, or ``E``, why there is none (both JSON).
"""

import base64
import contextlib
import functools
import hashlib
import json
import os
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

_BEAT = 5.0
"""Seconds after which a silent agent says that it is alive."""
_PROBE_S = 60.0
_LOOK = 0.1
"""Seconds between two looks at a log."""
_CHUNK = 1 << 16


class RefusedError(Exception):
    """Why a request is not done and, second, what to do next: a line each, for a person."""


class Line:
    """The way back: messages, and a sign of life where there was none for a while."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._spoke = time.monotonic()
        self._gone = select.poll()
        self._gone.register(out, 0)

    def send(self, kind: bytes, content: bytes = b"") -> None:
        self._out.write(struct.pack(">cI", kind, len(content)) + content)
        self._out.flush()
        self._spoke = time.monotonic()

    def beat(self) -> None:
        """Say that this is alive where that is due. Raises ``BrokenPipeError`` where nobody listens any more."""
        if self._gone.poll(0):
            raise BrokenPipeError
        if time.monotonic() - self._spoke > _BEAT:
            self.send(b"H")


def main(request: str, marker: str) -> None:
    """Do what ``request`` (JSON: ``do`` and its arguments) asks for."""
    out = os.fdopen(os.dup(1), "wb")
    # Whatever else prints must not come between the messages.
    os.dup2(2, 1)
    line = Line(out)
    wanted = json.loads(request)
    try:
        out.write(b"\n" + marker.encode() + b"\n")
        try:
            line.send(b"A", json.dumps(_OPERATIONS[wanted.pop("do")](line, **wanted)).encode())
        except BrokenPipeError:
            raise
        except RefusedError as error:
            line.send(b"E", json.dumps(error.args).encode())
        except OSError as error:
            where = f" ({_text(os.fsencode(error.filename))})" if error.filename else ""
            line.send(b"E", json.dumps([f"{error.strerror or error}{where}"]).encode())
    except BrokenPipeError:
        # Nobody listens any more; without this, Python would try once again to write what is left.
        os._exit(1)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _place(run: str) -> bytes:
    """The folder of a run, not made yet."""
    name = _plain(run)
    home = os.path.expanduser(b"~")
    cache = os.environb.get(b"XDG_CACHE_HOME", b"")
    return os.path.join(cache if os.path.isabs(cache) else os.path.join(home, b".cache"), b"gputui", b"runs", name)


def _plain(name: str) -> bytes:
    raw = _raw(name)
    if not raw or raw in (b".", b"..") or b"/" in raw or b"\0" in raw:
        raise RefusedError("not a plain file name")
    return raw


def _folder(line: Line, run: str) -> str:
    place = _place(run)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        found = os.lstat(place)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise RefusedError(f"{_text(place)} is not a folder of this user") from None
        os.chmod(place, 0o700)
    return _text(place)


def _write(path: bytes, content: bytes) -> None:
    """Whole or not at all, for this user alone."""
    new = path + b".new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
    os.replace(new, path)


def _put(line: Line, run: str, name: str, content: str) -> None:
    _write(os.path.join(_raw(_folder(line, run)), _plain(name)), base64.b64decode(content))


def _facts(line: Line, probe: str, cwd: str, directory: str) -> "dict[str, Any]":
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as found:
        source.write(probe.encode())
        source.seek(0)
        place = _working_folder(_raw(cwd), _raw(directory))
        child = subprocess.Popen(
            [sys.executable, "-I", "-"], stdin=source, stdout=found, cwd=place, start_new_session=True
        )
        try:
            until = time.monotonic() + _PROBE_S
            while child.poll() is None:
                if time.monotonic() > until:
                    raise RefusedError(
                        f"looking at it took more than {_PROBE_S:g} s", "See whether nvidia-smi hangs there"
                    )
                time.sleep(0.02)
                line.beat()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        found.seek(0)
        try:
            return json.loads(found.read().decode())  # type: ignore[no-any-return]
        except ValueError:
            raise RefusedError(f"looking at the machine failed with status {child.returncode}") from None


def _start(line: Line, keeper: str, spec: "dict[str, Any]", directory: str) -> "dict[str, Any]":
    folder = _raw(spec["folder"])
    name = _plain(spec["id"])
    spec["cwd"] = _text(_working_folder(_raw(spec["cwd"]), _raw(directory)))
    if _under_way(keeper, _status(folder, name)) is not False:
        raise RefusedError("this command of the run is under way already", "gputui run --attach follows it")
    for old in (b".log", b".status.json"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name + old))
    program = os.path.join(folder, b"keeper.py")
    _write(program, keeper.encode())
    told = os.path.join(folder, name + b".spec.json")
    _write(told, json.dumps(spec).encode())
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as said:
        # A session of its own and nothing of this connection: it goes on when the connection ends.
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", program, told], stdin=nothing, stdout=said, stderr=said, start_new_session=True
        )
        while not _started(_status(folder, name)):
            if child.poll() is not None and not _started(_status(folder, name)):
                said.seek(0)
                last = said.read().decode("utf-8", "replace").strip().splitlines()[-1:]
                raise RefusedError(f"the command was not started ({''.join(last)})")
            time.sleep(0.02)
            line.beat()
    return {"cwd": spec["cwd"]}


def _started(status: "dict[str, Any] | None") -> bool:
    return status is not None and (status["pid"] is not None or "ended" in status)


def _working_folder(wanted: bytes, directory: bytes) -> bytes:
    """Where the program runs: the folder asked for, else the one named as here, else the home folder."""
    home = os.path.expanduser(b"~")
    if directory:
        path = os.path.join(home, os.path.expanduser(directory))
        if not os.path.isdir(path):
            raise RefusedError(f"there is no folder {_text(path)}", "Name one that is there with --directory")
        return path
    return wanted if os.path.isdir(wanted) else home


def _attach(line: Line, folder: str, id: str) -> "dict[str, Any]":
    if _status(_raw(folder), _plain(id)) is None:
        raise RefusedError("it was never started, or what is known of it is damaged", "Run it anew")
    return {}


def _follow(line: Line, keeper: str, folder: str, id: str, offset: int) -> None:
    """Send the log from ``offset`` on and every change of the status, until the command has ended."""
    place, name = _raw(folder), _plain(id)
    told = None
    while True:
        # Before the log: where the command has ended by now, the log is complete.
        status = _status(place, name)
        over = _under_way(keeper, status) is False
        if over:
            # It may have ended between the two looks.
            status = _status(place, name)
            if status is not None and "ended" not in status:
                # Its keeper was killed, and nobody else looks after what that left running.
                _module(keeper)["end_all"](status["token"])
        with contextlib.suppress(FileNotFoundError), open(os.path.join(place, name + b".log"), "rb") as log:
            log.seek(offset)
            for chunk in _chunks(log):
                line.send(b"D", chunk)
                offset += len(chunk)
        if status is not None and status != told:
            line.send(b"S", json.dumps(status).encode())
            told = status
        if over:
            return
        line.beat()
        time.sleep(_LOOK)


def _files(line: Line, run: str, prefix: str) -> "dict[str, int]":
    begins = _raw(prefix)
    with os.scandir(_place(run)) as entries:
        return {
            _text(entry.name): entry.stat(follow_symlinks=False).st_size
            for entry in entries
            if entry.name.startswith(begins) and entry.is_file(follow_symlinks=False)
        }


def _fetch(line: Line, run: str, name: str, kept: "dict[str, int]") -> "dict[str, Any]":
    """Send a file, from where the copy of the same state (``kept``: its tag and length) broke off."""
    with open(os.open(os.path.join(_place(run), _plain(name)), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise RefusedError("not a file")
        tag = _tag(before)
        offset = kept.get(tag, 0)
        line.send(b"S", json.dumps({"tag": tag, "offset": offset, "size": before.st_size}).encode())
        sha, position = hashlib.sha256(), 0
        for chunk in _chunks(file):
            sha.update(chunk)
            new = chunk[max(offset - position, 0) :]
            position += len(chunk)
            if new:
                line.send(b"D", new)
            line.beat()
        if _tag(os.fstat(file.fileno())) != tag:
            raise RefusedError("the file changed while it was copied", "Fetch it again")
    return {"sha256": sha.hexdigest()}


def _chunks(file: BinaryIO) -> "Iterator[bytes]":
    while True:
        chunk = file.read(_CHUNK)
        if not chunk:
            return
        yield chunk


def _tag(found: os.stat_result) -> str:
    return f"{found.st_size}-{found.st_mtime_ns}"


def _forget(line: Line, keeper: str, run: str) -> None:
    place = _place(run)
    for entry in os.listdir(place):
        name, mark, rest = entry.partition(b".status.json")
        if mark and not rest and _under_way(keeper, _status(place, name)) is not False:
            raise RefusedError("a command of the run is still under way", "gputui run --attach follows it")
    shutil.rmtree(place)


def _status(folder: bytes, name: bytes) -> "dict[str, Any] | None":
    """What the keeper last said of the command; ``None`` where there is nothing, or nothing of use."""
    try:
        with open(os.path.join(folder, name + b".status.json"), "rb") as file:
            status = json.loads(file.read().decode())  # type: dict[str, Any]
        told = isinstance(status["keeper"]["pid"], int) and isinstance(status["token"], str) and "pid" in status
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return status if told else None


def _under_way(keeper: str, status: "dict[str, Any] | None") -> "bool | None":
    """Whether a command still runs; ``None`` where that cannot be told here, on another machine of a cluster."""
    if status is None or "ended" in status:
        return False
    return _module(keeper)["is_alive"](status["keeper"])  # type: ignore[no-any-return]


@functools.lru_cache(1)
def _module(source: str) -> "dict[str, Any]":
    names = {"__name__": "keeper"}  # type: dict[str, Any]
    exec(source, names)
    return names


def _signal(line: Line, keeper: str, folder: str, id: str, name: str) -> None:
    status = _status(_raw(folder), _plain(id))
    runs = _under_way(keeper, status)
    if status is None or runs is False:
        return
    if runs is None:
        raise RefusedError(f"the command runs on {status['keeper']['host']}, another machine", "Connect to that one")
    with contextlib.suppress(ProcessLookupError):
        os.kill(status["keeper"]["pid"], getattr(signal, name))


def _resize(line: Line, keeper: str, folder: str, id: str, columns: int, rows: int) -> None:
    _write(os.path.join(_raw(folder), _plain(id) + b".size"), f"{columns} {rows}".encode())
    _signal(line, keeper, folder, id, "SIGWINCH")


def _hold(line: Line) -> None:
    """Keep the connection open, which ends soon after its last request."""
    while True:
        line.beat()
        time.sleep(1)


def _hello(line: Line) -> None:
    """Nothing: that this answers is the answer."""


_OPERATIONS: "dict[str, Callable[..., Any]]" = {
    "hello": _hello,
    "hold": _hold,
    "facts": _facts,
    "folder": _folder,
    "put": _put,
    "start": _start,
    "attach": _attach,
    "follow": _follow,
    "signal": _signal,
    "resize": _resize,
    "files": _files,
    "fetch": _fetch,
    "forget": _forget,
}
