"""Runs one command in a terminal of its own, keeps what it prints, and leaves nothing of it running.

Stand-alone and for Python 3.6 and newer: it is also sent to other machines as it is. ``keeper.py SPEC`` reads a JSON
file: ``id``, ``argv``, ``folder``, ``cwd``, ``env``, ``tool``, ``columns``, ``rows`` as in ``machine.JobSpec``, and

- ``liveness``: number of an inherited pipe's reading end. Once its writers are gone, whoever asked is gone too, and the
  command is stopped. Without it the command goes on alone.
- ``grace_s``: how long it may then take.
- ``inherit_stdin``: the command reads the keeper's standard input; else it has none.

In ``folder`` it writes ``<id>.log`` (what was printed, as it came) and ``<id>.status.json``, at the start and, with
``ended``, as its last act; both are also printed, a line each. It obeys signals: SIGINT stops the command as Ctrl-C
would, a second one ends the program within seconds, SIGTERM all at once; SIGWINCH gives its terminal the size in
``<id>.size`` ("columns rows").

What the command leaves running has a moment to end by itself (nsys's agent does) and is then killed, daemons too: it
would disturb the next measurement, and no report tells of it any more.
"""

import errno
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from typing import Any, Dict, List, Optional, Set, Tuple

MARKER = "GPUTUI_JOB"
"""The environment variable by whose value everything that a command started is found."""

LOG_HEAD = 32 << 20
LOG_TAIL = 1 << 20
GRACE_S = 20.0
"""For the program to end once whoever asked is gone, and for nsys's report after that."""
LAST_GRACE_S = 3.0
"""Between the second stop and the end."""
LEFTOVER_S = 2.0
_STATUS_BYTES = 4096
_KILL_S = 10.0
_TICK_S = 0.05
_PR_SET_CHILD_SUBREAPER = 36


def identity(pid: int) -> Dict[str, Any]:
    """What tells this process from any other that will have its number: ``start`` is 0 where it does not run."""
    return {"pid": pid, "start": _start(pid), "boot": _boot(), "space": _space(), "host": socket.gethostname()}


def is_alive(who: Dict[str, Any]) -> Optional[bool]:
    """Whether a process runs; ``None`` where that cannot be told here: it is another machine's, or container's."""
    if who.get("boot") != _boot():
        return False if who.get("host") == socket.gethostname() else None
    if who.get("space") != _space():
        return None
    start = _start(int(who["pid"]))
    return start != 0 and start == who.get("start")


def _stat(pid: int) -> List[bytes]:
    """The fields of a process from its state on (proc(5): field 3)."""
    with open("/proc/%d/stat" % pid, "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _start(pid: int) -> int:
    try:
        fields = _stat(pid)
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def leftovers(token: str, root: int = 0) -> Set[int]:
    """The processes that carry the token, and, with a ``root``, those below that process."""
    mark = ("%s=%s" % (MARKER, token)).encode()
    found = set()  # type: Set[int]
    parents = {}  # type: Dict[int, int]
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = _stat(int(name))
            if fields[0] in (b"Z", b"X"):
                continue
            parents[int(name)] = int(fields[1])
            with open("/proc/%s/environ" % name, "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.add(int(name))
        except OSError:
            continue
    new = {root} if root else set()  # type: Set[int]
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found - {os.getpid()}


def end_all(token: str, root: int = 0) -> bool:
    """Kill the ``leftovers``; whether none is left."""
    end = time.monotonic() + _KILL_S
    quiet = 0
    while time.monotonic() < end:
        halted = set()  # type: Set[int]
        new = leftovers(token, root)
        while new and time.monotonic() < end:
            # Halted before any is killed: what cannot run cannot start another while this list is made.
            for pid in new:
                _send(pid, signal.SIGSTOP)
            halted |= new
            new = leftovers(token, root) - halted
        for pid in halted:
            _send(pid, signal.SIGKILL)
        # Twice, for a process that is between two programs shows no environment.
        quiet = 0 if halted else quiet + 1
        if quiet == 2:
            return True
        time.sleep(_TICK_S)
    return False


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _adopt_orphans() -> bool:
    """Whether what the command leaves without a parent becomes this process's child, to be found without its token."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _bytes(text: str) -> bytes:
    # Python 3.6 in the C locale would refuse what is not ASCII.
    return text.encode("utf-8", "surrogateescape")


class Log:
    """What was printed: its beginning, and of what is too much the end. A full disk loses text, nothing else."""

    def __init__(self, path: bytes) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._size = 0
        self._tail = bytearray()
        self._left_out = 0
        self.error = ""

    def add(self, data: bytes) -> None:
        head, rest = data[: LOG_HEAD - self._size], data[LOG_HEAD - self._size :]
        self._size += len(head)
        self._write(head)
        if not rest:
            return
        if not self._tail:
            self._write(b"\n[gputui: this is much output; what follows is shown when the program has ended]\n")
        self._tail += rest
        if len(self._tail) > 2 * LOG_TAIL:
            self._cut()

    def close(self) -> None:
        self._cut()
        if self._left_out:
            self._write(b"[gputui: %d bytes are left out here]\n" % self._left_out)
        self._write(bytes(self._tail))
        os.close(self._file)

    def _cut(self) -> None:
        too_much = max(len(self._tail) - LOG_TAIL, 0)
        self._left_out += too_much
        del self._tail[:too_much]

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self.error = "some of its output could not be kept (%s)" % error.strerror


class Keeper:
    def __init__(self, spec: Dict[str, Any]) -> None:
        self._spec = spec
        self._place = os.path.join(_bytes(spec["folder"]), _bytes(spec["id"]))
        self._token = os.urandom(16).hex()
        self._root = os.getpid() if _adopt_orphans() else 0
        self._status = {
            "keeper": identity(os.getpid()),
            "pid": None,
            "token": self._token,
            "started": time.time(),
        }  # type: Dict[str, Any]
        self._asked = []  # type: List[int]
        self._stops = 0
        self._deadline = None  # type: Optional[float]
        self._child = 0
        self._spare_tool = spec.get("tool") == "nsys"
        self._grace = spec.get("grace_s", GRACE_S)

    def run(self) -> int:
        wake = self._listen()
        begun = time.monotonic()
        log = Log(self._place + b".log")
        self._tell()
        master, slave = self._terminal()
        status = None
        error = ""
        try:
            command = self._start(slave)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            error = _told(problem)
        os.close(slave)
        if not error:
            self._status["pid"] = self._child = command.pid
            self._tell()
            status = command.returncode = self._follow(master, wake, log)
        seconds = time.monotonic() - begun
        if not error:
            self._clear(master, log)
        log.close()
        self._status.update(
            ended=time.time(),
            seconds=seconds,
            status=status,
            stopped=self._stops > 0 or self._asks_to_end(),
            error=error or log.error,
        )
        return 0 if self._tell() else 1

    def _listen(self) -> int:
        """Catch signals; the descriptor that becomes readable with each."""
        reading, writing = os.pipe()
        for end in (reading, writing):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writing)
        # Caught, not ignored, even where nothing is to be done: the command would inherit that.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGCHLD):
            signal.signal(number, lambda number, _: self._asked.append(number))
        return reading

    def _terminal(self) -> Tuple[int, int]:
        master, slave = pty.openpty()
        os.set_blocking(master, False)
        modes = termios.tcgetattr(slave)
        # Output as it was written, without a \r before each \n.
        modes[1] &= ~termios.OPOST
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self._master = master
        self._resize(self._spec.get("columns", 120), self._spec.get("rows", 40))
        return master, slave

    def _resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _start(self, slave: int) -> "subprocess.Popen[bytes]":
        env = dict(os.environb)
        # Under nsys a program prints into a pipe, and Python would keep its lines for long.
        env.setdefault(b"PYTHONUNBUFFERED", b"1")
        env.update((_bytes(name), _bytes(value)) for name, value in self._spec.get("env", {}).items())
        env[MARKER.encode()] = self._token.encode()
        return subprocess.Popen(
            [_bytes(one) for one in self._spec["argv"]],
            stdin=None if self._spec.get("inherit_stdin") else subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            cwd=_bytes(self._spec["cwd"]),
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0) and None,
        )

    def _follow(self, master: int, wake: int, log: Log) -> int:
        """Copy and obey until the command ends; its status."""
        liveness = self._spec.get("liveness")
        watched = [one for one in (wake, master, liveness) if one is not None]
        while True:
            timeout = None if self._deadline is None else max(self._deadline - time.monotonic(), 0)
            ready = select.select(watched, [], [], timeout)[0]
            if wake in ready:
                os.read(wake, 4096)
            if master in ready and not _copied(master, log):
                watched.remove(master)
            if liveness in ready and not os.read(liveness, 4096):
                watched.remove(liveness)
                self._ask_to_stop()
                self._hurry(self._grace)
            while self._asked:
                self._obey(self._asked.pop(0))
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._lose_patience()
            status = self._reaped()
            if status is not None:
                return status

    def _obey(self, number: int) -> None:
        if number == signal.SIGINT and not self._stops:
            self._ask_to_stop()
        elif number == signal.SIGINT:
            self._end_program(signal.SIGTERM)
            self._hurry(LAST_GRACE_S)
        elif number == signal.SIGTERM:
            self._stops += 1
            self._spare_tool = False
            self._hurry(0)
        elif number == signal.SIGWINCH:
            try:
                with open(self._place + b".size") as file:
                    columns, rows = map(int, file.read().split())
                self._resize(columns, rows)
            except (OSError, ValueError, struct.error):
                pass

    def _ask_to_stop(self) -> None:
        if not self._stops and self._spare_tool:
            # nsys hands it on to the program.
            _send(self._child, signal.SIGINT)
        elif not self._stops:
            self._end_program(signal.SIGINT)
        self._stops += 1

    def _end_program(self, number: int) -> None:
        """As Ctrl-C in a terminal does, to the whole group; but not to nsys, which drops its report at a second one."""
        if self._spare_tool:
            for pid in self._programs():
                _send(pid, number)
        else:
            try:
                os.killpg(self._child, number)
            except (ProcessLookupError, PermissionError):
                pass

    def _programs(self) -> List[int]:
        """What nsys profiles: it has sessions of its own, and nsys's agent, which has one too, goes by nsys's name."""
        found = []
        for pid in leftovers(self._token, self._root):
            try:
                is_tool = os.path.basename(os.readlink("/proc/%d/exe" % pid)).startswith("nsys")
                if os.getsid(pid) != self._child and not is_tool:
                    found.append(pid)
            except OSError:
                continue
        return found

    def _lose_patience(self) -> None:
        """Kill what did not end in time: all, or first the program alone, so that nsys finishes its report."""
        if self._spare_tool:
            self._end_program(signal.SIGKILL)
            self._spare_tool = False
            self._deadline = time.monotonic() + self._grace
        else:
            end_all(self._token, self._root)
            self._deadline = None

    def _hurry(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)

    def _reaped(self) -> Optional[int]:
        """The command's status once it has ended. Orphans that came to this process are let go of, too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if pid == 0:
                return None
            if pid == self._child:
                return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _asks_to_end(self) -> bool:
        return signal.SIGTERM in self._asked or signal.SIGINT in self._asked

    def _clear(self, master: int, log: Log) -> None:
        """See to it that all has ended, and that all it printed is in the log."""
        end = time.monotonic() + LEFTOVER_S
        while leftovers(self._token, self._root):
            if time.monotonic() >= end or self._deadline is not None or self._asks_to_end():
                end_all(self._token, self._root)
                break
            _copied(master, log)
            time.sleep(_TICK_S)
        while _copied(master, log, once=True):
            pass
        self._reaped()

    def _tell(self) -> bool:
        """Write the status and print it; whether it was written. Raises ``OSError`` where the first cannot be."""
        text = json.dumps(self._status)
        place = self._place + b".status.json"
        try:
            # Padded, so that what replaces it in place finds room on a full disk.
            replace(place, text.ljust(_STATUS_BYTES).encode())
        except OSError:
            if self._status["pid"] is None and "ended" not in self._status:
                raise
            try:
                with open(place, "r+b") as file:
                    file.write(text.ljust(_STATUS_BYTES).encode())
            except OSError:
                return False
        finally:
            # Nobody may be listening.
            try:
                os.write(1, text.encode() + b"\n")
            except OSError:
                pass
        return True


def replace(place: bytes, content: bytes) -> None:
    """Write a file whole or not at all. Raises ``OSError``."""
    draft = place + b".draft"
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)
    except OSError:
        try:
            os.unlink(draft)
        except OSError:
            pass
        raise


def _copied(master: int, log: Log, once: bool = False) -> bool:
    """Move what the terminal has to the log; whether there may be more to come (with ``once``: whether there was)."""
    try:
        data = os.read(master, 65536)
    except OSError as error:
        # EIO: no process has the terminal open any more.
        return error.errno == errno.EAGAIN and not once
    log.add(data)
    return bool(data)


def _told(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.filename:
        return str(error)
    return "%s: %s" % (os.fsdecode(error.filename), error.strerror)


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    try:
        return Keeper(spec).run()
    except OSError as error:
        os.write(1, _told(error).encode("utf-8", "replace") + b"\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
