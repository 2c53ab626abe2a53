"""Another machine over ssh, with nothing installed there.

Every request is one ``python3 -`` run by the system's ``ssh``: that constant is all a login shell there ever reads.
``agent.py`` goes to its standard input with the request behind it, so nothing needs quoting. All requests share one
connection (ssh's ControlMaster); a command that was started belongs to its keeper there and outlives the connection.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, TypedDict

import msgspec

from gputui.errors import GputuiError
from gputui.run.machine import CopyProgress, Facts, JobSpec, Outcome
from gputui.run.process import Status
from gputui.terminal import safe

_SILENCE = 15.0
"""Seconds without a word after which a connection counts as lost; the agent speaks every five."""
_FIRST_SILENCE = 30.0
"""The same on the first connection, once it is made: what a login starts there may be slow."""
_LOGIN = 120.0
"""The same before: ssh may be asking for a password; a server waits no longer for one by default."""
_SAY_WAITING = 3.0
_RETRY = 2.0
"""Seconds between two attempts to get a lost connection back."""
_MOST_NOISE = 1 << 20
"""Bytes that a login shell may print before the answer."""
_MOST_MESSAGE = 1 << 24
_MOST_READ = 1 << 20
_SOCKET = "m"
_LAST_PORT = 65535
_HEAD = struct.Struct(">cI")
_SSH_FAILED = 255
_GOES_ON = "What runs there goes on; gputui run --attach comes back to it"
_HOST = re.compile(r"(ssh://)?([\w.+][\w.+-]*@)?[\w\[][\w.:%\]-]*/?")
"""A user, a host or alias and with ``ssh://`` a port; nothing that a shell in the user's ssh config would act on."""

_OPTIONS = {
    "ControlMaster": "auto",
    "ControlPersist": "120",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "3",
    "ConnectTimeout": "10",
    # What the user's config may ask for on behalf of a login, which this is not.
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "PermitLocalCommand": "no",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
}

_TROUBLE = (
    # What ssh says; what it means; what to do.
    ("Permission denied", "the server does not let you in", "Try: ssh {host}; ssh-copy-id {host} sets up a key"),
    ("Could not resolve", "there is no host of this name", "Check the name, or its entry in ~/.ssh/config"),
    ("Connection refused", "no ssh server answers there", "Check the port and that sshd runs on that machine"),
    ("timed out", "the machine does not answer", "Check that it is on and that your network (VPN) reaches it"),
    ("No route to host", "the machine cannot be reached", "Check that it is on and that your network (VPN) reaches it"),
    ("unreachable", "the machine cannot be reached", "Check that it is on and that your network (VPN) reaches it"),
    (
        "Host key verification failed",
        "the server's key is new or has changed",
        "Run ssh {host} once and answer its question; where the key has changed, ask the administrator why",
    ),
)


_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Small = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Texts = dict[_Text, _Text]
_Path = Annotated[str, msgspec.Meta(pattern=r"\A/[^\x00-\x1f\x7f-\x9f]*\Z")]


class _About(TypedDict):
    """A file that is about to come; its tag changes with it."""

    tag: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]+-[0-9]+\Z")]
    size: _Size
    offset: _Size


class _User(TypedDict):
    name: _Text
    uid: _Size
    mapped: bool


class _ToolFound(TypedDict):
    path: _Text
    version: _Text


class _Tool(_ToolFound, total=False):
    error: _Text
    chips: list[_Text]
    sections: list[_Text]


class _Gpus(TypedDict):
    smi: _Text | None
    list: Sequence[_Texts]
    error: _Text


class _Process(TypedDict):
    pid: _Size
    name: _Text
    user: _Text


class _Folder(TypedDict):
    path: _Text
    writable: bool
    noexec: bool
    free: _Size | None


class _Lock(TypedDict):
    path: _Text
    owner: _Text
    since_2025: bool


_SHAPES: Mapping[str, Any] = {
    "system": _Texts,
    "user": _User,
    "tools": dict[_Text, list[_Tool]],
    "driver": _Texts,
    "profiling_admin_only": _Small,
    "perf_event_paranoid": _Small,
    "ptrace_scope": _Small,
    "capabilities": dict[_Text, bool],
    "seccomp": _Small,
    "container": _Text,
    "wsl": bool,
    "gpus": _Gpus,
    "confidential": bool,
    "processes": list[_Process],
    "temp": _Folder,
    "cwd": _Folder,
    "locks": list[_Lock],
    "variables": _Texts,
    "errors": _Texts,
}
"""What each fact of ``probe.py`` looks like where it could be told."""


def facts_of(answer: Mapping[str, Any]) -> Facts:
    """The facts in what a stranger answered: those of the wrong shape are ``None``, as if they could not be told."""
    found: dict[str, Any] = {}
    for name, shape in _SHAPES.items():
        try:
            found[name] = msgspec.convert(answer.get(name), shape)
        except msgspec.ValidationError:
            found[name] = None
    return found


class UnreachableError(GputuiError, ConnectionError):
    """The connection is lost or cannot be made; whatever was started there goes on."""


class _NoPythonError(UnreachableError):
    """The connection is there, and nothing at its other end that could answer."""


class SshMachine:
    """``host`` is what ssh takes: ``user@server``, a name of ``~/.ssh/config``, ``ssh://user@server:port``.

    Programs run in ``directory`` there; without one, in the folder of the same path as here, else in the home folder.
    ``config`` replaces ssh's own configuration files. Raises ``GputuiError`` for a host that is none.
    """

    def __init__(self, host: str, directory: str = "", config: Path | None = None) -> None:
        port = re.fullmatch(r"ssh://.*:([0-9]+)/?", host)
        if not _HOST.fullmatch(host) or (port and not 0 < int(port[1][:6]) <= _LAST_PORT):
            raise GputuiError(safe(host) or "--host", "this is no name of a host", "Give it as user@server")
        ssh = shutil.which("ssh")
        if ssh is None:
            raise GputuiError("ssh", "it is not installed here", "Install the OpenSSH client")
        self.name = host
        self._directory = directory
        self._python = ""
        self._started = False
        self._calls: set[_Call] = set()
        # Not below TMPDIR: the path of a socket may have about a hundred bytes.
        self._private = Path(tempfile.mkdtemp(prefix="gputui-", dir="/tmp"))
        self._ssh = [ssh, *(("-F", str(config)) if config else ()), "-E", str(self._private / "log"), "-T"]
        for name, value in {**_OPTIONS, "ControlPath": self._private / _SOCKET}.items():
            self._ssh += ["-o", f"{name}={value}"]

    def connect(self) -> None:
        """Make the connection, while the terminal is free for what ssh may ask (a password, the server's key).

        Raises ``GputuiError`` where that fails; nothing of it stays then.
        """
        try:
            self._find_python(interactive=True)
            # However long a person then reads and chooses: who typed a password could not be asked again.
            self._call("hold")
        except BaseException:
            self.close()
            raise

    def facts(self) -> Facts:
        found = self._ask("facts", probe=_source("probe"), cwd=os.getcwd(), directory=self._directory)
        if not isinstance(found, dict):
            raise _nonsense(self.name)
        return facts_of(found)

    def folder(self, run: Path) -> str:
        found = self._ask("folder", run=run.name)
        with _understood(self.name):
            return msgspec.convert(found, _Path)

    def put(self, run: Path, name: str, content: bytes) -> None:
        self._ask("put", run=run.name, name=name, content=base64.b64encode(content).decode())

    def start(self, spec: JobSpec) -> RemoteJob:
        sent = {name: getattr(spec, name) for name in JobSpec.__slots__}
        sent["env"] = dict(spec.env)
        self._started = True
        self._ask("start", keeper=_source("keeper"), spec=sent, directory=self._directory)
        return RemoteJob(self, spec)

    def attach(self, spec: JobSpec) -> RemoteJob:
        self._started = True
        self._ask("attach", folder=spec.folder, id=spec.id)
        return RemoteJob(self, spec)

    def files(self, run: Path, prefix: str) -> Mapping[str, int]:
        found = self._ask("files", run=run.name, prefix=prefix)
        with _understood(self.name):
            return {self._plain(name): size for name, size in msgspec.convert(found, dict[str, _Size]).items()}

    def fetch(self, run: Path, name: str, to: Path, progress: CopyProgress | None = None) -> None:
        """Copy a file, checked by its SHA-256. What a copy that broke off brought is kept beside ``to``.

        Raises ``ConnectionError`` where the connection breaks, ``GputuiError`` where there is no such file, no room, or
        ``progress`` stopped it.
        """
        self._plain(name)
        try:
            self._fetch(run, name, to, progress)
        except ConnectionError:
            raise
        except OSError as error:
            message = f"it cannot be written ({error.strerror})"
            raise GputuiError(str(to), message, "Make room, or choose another folder") from error

    def _fetch(self, run: Path, name: str, to: Path, progress: CopyProgress | None) -> None:
        parts = {
            path.name[len(to.name) + 2 : -len(".part")]: path
            for path in to.parent.iterdir()
            if path.name.startswith(f".{to.name}.") and path.name.endswith(".part")
        }
        kept = {tag: path.stat().st_size for tag, path in parts.items()}
        call = self._call("fetch", run=run.name, name=name, kept=kept)
        try:
            messages = call.messages()
            with _understood(self.name):
                about = msgspec.convert(json.loads(next(messages)[1]), _About)
                tag, size, offset = about["tag"], about["size"], about["offset"]
                if offset not in (0, kept.get(tag, 0)):
                    raise ValueError
            part = to.with_name(f".{to.name}.{tag}.part")
            for old in parts.values():
                if old != part or not offset:
                    old.unlink()
            sha = _sum_of(part) if offset else hashlib.sha256()
            with part.open("ab") as file:
                for kind, content in messages:
                    if kind == b"A":
                        break
                    if file.tell() + len(content) > size:
                        raise _nonsense(self.name)
                    file.write(content)
                    sha.update(content)
                    if progress is not None and not progress(file.tell(), size):
                        message = "it was not copied to the end: it was stopped"
                        raise GputuiError(f"{self.name}: {safe(name)}", message, "Fetch it again for the rest")
        finally:
            call.end()
        with _understood(self.name):
            same = json.loads(content)["sha256"] == sha.hexdigest()
        if not same:
            part.unlink()
            raise GputuiError(f"{self.name}: {safe(name)}", "the copy differs from the file there", "Fetch it again")
        os.replace(part, to)

    def forget(self, run: Path) -> None:
        """Remove the run's folder there, once everything wanted was fetched."""
        self._ask("forget", keeper=_source("keeper"), run=run.name)

    def close(self) -> None:
        """End the connection; what runs there goes on."""
        for call in list(self._calls):
            call.end()
        self._hang_up()
        shutil.rmtree(self._private, ignore_errors=True)

    def _hang_up(self) -> None:
        """Give up the shared connection, which may hang; the next request makes a new one."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*self._ssh, "-O", "exit", "--", self.name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=5,
            )
        (self._private / _SOCKET).unlink(missing_ok=True)

    def _find_python(self, interactive: bool = False) -> None:
        for python in ("python3", "python"):
            call = _Call(self, python, "hello", {}, interactive)
            try:
                call.answer()
            except _NoPythonError as none:
                said = none.hint
                continue
            self._python = python
            return
        raise GputuiError(
            self.name,
            "no Python 3.6 or later answers there" + (f" ({said})" if said else ""),
            f"See what this prints: ssh {self.name} python3 --version",
        )

    def _call(self, do: str, **request: Any) -> _Call:
        if not self._python:
            self._find_python()
        return _Call(self, self._python, do, request)

    def _ask(self, do: str, **request: Any) -> Any:
        return self._call(do, **request).answer()

    def _plain(self, name: str) -> str:
        """The name of a file, which could be any text: it comes from the far side."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise GputuiError(self.name, f"a file there is called {safe(name)!r}", "gputui does not bring it here")
        return name


class RemoteJob:
    """A command under way there: its log and status come over a connection that lasts as long as it does."""

    def __init__(self, machine: SshMachine, spec: JobSpec) -> None:
        self._machine = machine
        self._spec = spec
        self._call: _Call | None = None
        self._lost: GputuiError | None = None
        self._retry_at = 0.0
        self._offset = 0
        self._log = bytearray()
        self._status: Status | None = None
        self._over = False

    def read(self) -> bytes:
        self._listen()
        log = bytes(self._log)
        self._log.clear()
        return log

    def outcome(self) -> Outcome | None:
        self._listen()
        return _outcome(self._status) if self._over else None

    def written(self) -> int:
        return 0

    def stop(self) -> None:
        self._tell("signal", name="SIGINT")

    def kill(self) -> None:
        self._tell("signal", name="SIGTERM")

    def resize(self, columns: int, rows: int) -> None:
        self._tell("resize", columns=columns, rows=rows)

    def _tell(self, do: str, **request: Any) -> None:
        if self._lost is not None:
            # Trying to connect could take long.
            raise self._lost
        self._machine._ask(do, keeper=_source("keeper"), folder=self._spec.folder, id=self._spec.id, **request)

    def _listen(self) -> None:
        """Take what came. Never waits: a connection that broke is made anew behind the caller's back."""
        if self._over:
            return
        if self._call is None:
            if self._lost is not None and time.monotonic() < self._retry_at:
                raise self._lost
            spec = self._spec
            self._call = self._machine._call(
                "follow", keeper=_source("keeper"), folder=spec.folder, id=spec.id, offset=self._offset
            )
        try:
            until = len(self._log) + _MOST_READ
            while len(self._log) < until and (messages := self._call.poll(0)):
                for message in messages:
                    self._take(*message)
                if messages[-1][0] == b"A":
                    self._over = True
                    self._call.end()
                    return
        except GputuiError as lost:
            self._call.end()
            self._call = None
            self._lost = lost
            self._retry_at = time.monotonic() + _RETRY
            raise
        if self._call.answers:
            self._lost = None
        elif self._lost is not None:
            raise self._lost

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == b"D":
            self._log += content
            self._offset += len(content)
        elif kind == b"S":
            with _understood(self._machine.name):
                self._status = msgspec.convert(json.loads(content), Status)


class _Call:
    """One request: the ssh process that carries it, and the messages of its answer."""

    def __init__(
        self, machine: SshMachine, python: str, do: str, request: Mapping[str, Any], interactive: bool = False
    ) -> None:
        self._machine = machine
        self._marker = f"gputui {secrets.token_hex(16)}"
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self._log = machine._private / "log"
        self._log_from = self._log.stat().st_size if self._log.exists() else 0
        self._buffer = bytearray()
        self._heard = time.monotonic()
        self._patient = interactive
        self._shown = 0
        self._connected = False
        self._said_waiting = False
        self.answers = False
        # A file and no pipe: however slow the line is, nothing here waits for it.
        with tempfile.TemporaryFile() as program:
            program.write(_program({"do": do, **request}, self._marker))
            program.seek(0)
            self._process = subprocess.Popen(
                [*machine._ssh, "-o", f"BatchMode={'no' if interactive else 'yes'}", "--", machine.name, f"{python} -"],
                stdin=program,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=_environment(),
                # Away from the terminal, whose Ctrl-C is not meant for it; but ssh asks at the terminal.
                start_new_session=not interactive,
            )
        machine._calls.add(self)

    def answer(self) -> Any:
        """What was asked for. Raises ``GputuiError`` with the reason where it is refused."""
        try:
            content = next(content for kind, content in self.messages() if kind == b"A")
            with _understood(self._machine.name):
                return json.loads(content)
        finally:
            self.end()

    def messages(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            yield from self.poll(0.1 if self._patient else 1)

    def poll(self, wait: float) -> list[tuple[bytes, bytes]]:
        """What came, waiting at most that many seconds for something.

        Raises ``UnreachableError`` where nothing will come any more, ``GputuiError`` where the request is refused.
        """
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        ready = select.select([out], [], [], wait)[0]
        if self._patient:
            self._show_said()
        if not ready:
            if time.monotonic() - self._heard > self._patience():
                self._machine._hang_up()
                raise self._broken("the machine does not answer" + (" any more" if self.answers else ""))
            return []
        came = os.read(out, 1 << 18)
        if not came:
            raise self._end_of_answer()
        self._heard = time.monotonic()
        self._buffer += came
        return list(self._parse())

    def _patience(self) -> float:
        """Seconds of silence that are too many; on the first connection, say in time that this waits."""
        if not self._patient:
            return _SILENCE
        if not self._connected:
            # ssh makes the socket once it was let in: from then on it asks nothing.
            if not (self._machine._private / _SOCKET).exists():
                return _LOGIN
            self._connected, self._heard = True, time.monotonic()
        if not self._said_waiting and time.monotonic() - self._heard > _SAY_WAITING:
            self._said_waiting = True
            _show(f"waiting for {self._machine.name} …")
        return _FIRST_SILENCE

    def _show_said(self, to_the_end: bool = False) -> None:
        """What the server and the login shell say (a banner, say), line by line and without what acts on a terminal.

        ssh itself asks at the terminal.
        """
        while self._shown < _MOST_NOISE:
            # Not by seek(): ssh writes where this file stands.
            new = os.pread(self._said.fileno(), 1 << 16, self._shown)
            line, end, _ = new.partition(b"\n")
            if not new or not (end or to_the_end or len(new) == 1 << 16):
                return
            self._shown += len(line + end)
            _show(safe(line.decode("utf-8", "replace").rstrip("\r")))

    def _broken(self, message: str) -> UnreachableError:
        host = self._machine.name
        return UnreachableError(host, message, _GOES_ON if self._machine._started else f"Try: ssh {host}")

    def _parse(self) -> Iterator[tuple[bytes, bytes]]:
        if not self.answers:
            mark = f"\n{self._marker}\n".encode()
            noise, found, rest = self._buffer.partition(mark)
            if not found:
                if len(noise) > _MOST_NOISE:
                    raise _nonsense(self._machine.name)
                return
            self._buffer = rest
            if self._patient:
                self._show_said(to_the_end=True)
            self.answers, self._patient = True, False
        while len(self._buffer) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._buffer)
            if size > _MOST_MESSAGE:
                raise _nonsense(self._machine.name)
            if len(self._buffer) < _HEAD.size + size:
                return
            content = bytes(self._buffer[_HEAD.size : _HEAD.size + size])
            del self._buffer[: _HEAD.size + size]
            if kind == b"E":
                raise self._refusal(content)
            if kind == b"O":
                version = f"its Python is {safe(content[:20].decode('utf-8', 'replace'))}"
                raise _NoPythonError(self._machine.name, "its Python is too old", version)
            yield kind, content

    def _refusal(self, content: bytes) -> GputuiError:
        host = self._machine.name
        with _understood(host):
            message, *hint = json.loads(content)
            return GputuiError(host, safe(message), safe(hint[0]) if hint else f"Look there: ssh {host}")

    def end(self) -> None:
        """Let go of it; a request that is not finished ends."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()
        self._machine._calls.discard(self)

    def _end_of_answer(self) -> GputuiError:
        """Why there is no more, by what ssh and the far side said."""
        host = self._machine.name
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = _SSH_FAILED
        if self._patient:
            self._show_said(to_the_end=True)
        said = _content(self._said)
        if status != _SSH_FAILED and status >= 0:
            if self.answers:
                return GputuiError(host, f"gputui's helper there failed ({_last_line(said)})", "Please report this")
            return _NoPythonError(host, "no Python answers there", _last_line(said))
        if self.answers:
            return self._broken("the connection broke off")
        told = self._logged().decode("utf-8", "replace")
        for words, meaning, hint in _TROUBLE:
            if words in told:
                return UnreachableError(host, meaning, hint.format(host=host))
        last = _last_line(told.encode() or said) or (f"it was ended by signal {-status}" if status < 0 else "")
        return UnreachableError(host, "ssh cannot connect" + (f" ({last})" if last else ""), f"Try: ssh {host}")

    def _logged(self) -> bytes:
        """What ssh itself said of this request; nothing where it did not come as far as its log."""
        try:
            with self._log.open("rb") as log:
                log.seek(self._log_from)
                return log.read()
        except FileNotFoundError:
            return b""


def _show(line: str) -> None:
    # A closed stream is None.
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _nonsense(host: str) -> GputuiError:
    return GputuiError(host, "its answer makes no sense", f"See what this prints: ssh {host} python3 --version")


@contextlib.contextmanager
def _understood(host: str) -> Iterator[None]:
    """What the far side says may be anything."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        raise _nonsense(host) from None


def _program(request: Mapping[str, Any], marker: str) -> bytes:
    """The source of a program that holds the agent and its request: ASCII, and understood by any Python."""
    return f"""\
import sys
if sys.version_info < (3, 6):
    found = "%d.%d" % sys.version_info[:2]
    sys.stdout.write("\\n{marker}\\nO\\0\\0\\0%c%s" % (len(found), found))
else:
    # Not from the folder it runs in, which may hold any json.py.
    sys.path[:] = [entry for entry in sys.path if entry]
    names = {{"__name__": "agent"}}
    exec({_source("agent")!a}, names)
    names["main"]({json.dumps(request)!a}, {marker!a})
""".encode("ascii")


def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")


def _environment() -> dict[str, str]:
    """The environment of ssh, less what the configuration of many distributions makes it send (SendEnv)."""
    return {name: value for name, value in os.environ.items() if name not in ("LANG", "LANGUAGE") and name[:3] != "LC_"}


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return safe(lines[-1].strip()) if lines else ""


def _sum_of(path: Path) -> hashlib._Hash:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha


def _outcome(status: Status | None) -> Outcome:
    if status is None or status.ended is None:
        return Outcome(None, False, 0.0, "its keeper was killed, and nobody saw it end")
    return Outcome(status.status, status.stopped, status.seconds, safe(status.error))
