"""Another machine, which is this one: a real sshd on the loopback address, in a session of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from gputui.run.remote import SshMachine

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
needs_sshd = pytest.mark.skipif(
    not (os.access(SSHD, os.X_OK) and shutil.which("ssh") and shutil.which("ssh-keygen")),
    reason="no OpenSSH server and client here",
)
T = TypeVar("T")


def wait_for(what: Callable[[], T | None], seconds: float = 30) -> T:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (found := what()) is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("it never came")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """An sshd for the user of this test, with a home folder, keys and a configuration for ssh of its own."""

    folder: Path
    force: str = ""
    port: int = 0
    machines: list[SshMachine] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self, force: str = "", path: str = os.environ["PATH"], sessions: int = 10) -> None:
        """Serve; ``force`` is a line of shell that runs in place of what was asked for, and ``sessions`` how many
        requests may share a connection."""
        for name in ("host", "user"):
            if not (self.folder / name).exists():
                subprocess.run(
                    ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True, timeout=30
                )
        self.home.mkdir(exist_ok=True)
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.port = self.port or free_port()
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder / 'host'}",
            f"AuthorizedKeysFile {self.folder / 'user.pub'}",
            f"PidFile {self.folder / 'pid'}",
            f"MaxSessions {sessions}",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "AcceptEnv *",
            f"SetEnv HOME={self.home} PATH={path}",
            *([f"ForceCommand {force}"] if force else []),
        ]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        host_key = (self.folder / "host.pub").read_text()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {host_key}")
        self.configure()
        log = (self.folder / "sshd.log").open("ab")
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], stderr=log, start_new_session=True
        )
        log.close()
        wait_for(self._listens)

    def configure(self, **changes: str) -> None:
        values = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": getpass.getuser(),
            "IdentityFile": str(self.folder / "user"),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.folder / "known"),
            "GlobalKnownHostsFile": "none",
            "SendEnv": "LANG LC_*",
            "RemoteCommand": "false",
            **changes,
        }
        self.config.write_text("Host box\n" + "".join(f"  {name} {value}\n" for name, value in values.items()))

    def _listens(self) -> bool | None:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "sshd.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0 or None

    def machine(self, host: str = "box", directory: str = "") -> SshMachine:
        made = SshMachine(host, directory, self.config)
        self.machines.append(made)
        return made

    def cut(self) -> None:
        """Break every connection: the server's side of each, whose processes are of sshd's session or children."""
        assert self.process is not None
        for pid in descendants(self.process.pid):
            if b"sshd" in name_of(pid):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.process is not None:
            self.cut()
            self.process.kill()
            self.process.wait()
            self.process = None


def name_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return b""


def descendants(root: int) -> list[int]:
    """The processes below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def of_this_test(folder: Path) -> list[int]:
    """The processes that name the folder in their arguments or environment, other than this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in told:
                found.append(int(entry.name))
    return found
