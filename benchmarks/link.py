"""gputui at the far end of a slow link: ssh to an sshd of its own, through a proxy that delays and throttles.

The link takes 25 ms in each direction, so that no answer is there before 50 ms, and carries 256 kbit/s in each. Packets
wait for one another, and where 16 KiB wait the sender must. Their headers count, lost packets and TCP's slow start do
not: connections end at the proxy, which is on this machine, as are both ends.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

sys.path.insert(0, str(Path(__file__).parent))
from keys import OPEN, SAMPLES, KeyFigures, Script, key_figures, session, times

DELAY_S = 0.025
"""One way."""
BITS_PER_S = 256_000
"""One way."""
QUEUE_BYTES = 16 << 10
PACKET_BYTES = 1460
"""What one packet of Ethernet carries."""
HEADER_BYTES = 40
"""IPv4 and TCP."""
SCRIPT = Script(
    (),
    "Memory-bound",
    """
    move   j j j k down down up pagedown G g
    tab    2 4 1 2
    other  ] [
    tab    1
    other  enter enter L / l o o k enter n escape
    move   j j
    other  f g e m m enter escape s ? escape
    """,
)
"""40 keys, in one report."""
REPORT = SAMPLES / "tour.ncu-rep"


class SlowLink:
    """A port on the loopback address that leads to another one over a slow link, while it is entered."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SlowLink:
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._connect, "127.0.0.1", 0, limit=PACKET_BYTES))
        self.port = server.sockets[0].getsockname()[1]
        self._begun.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(_end_connections())
        self._loop.close()

    async def _connect(self, near_reader: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * DELAY_S)  # TCP's first packets
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port, limit=PACKET_BYTES)
        for writer in (near_writer, far_writer):
            # What the system keeps for the proxy is no part of the link.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE_BYTES)
        try:
            await asyncio.gather(_carry(near_reader, far_writer), _carry(far_reader, near_writer))
        except (asyncio.CancelledError, OSError):  # nothing is left to be delivered
            near_writer.transport.abort()
            far_writer.transport.abort()


async def _end_connections() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # each is closed in a turn of its own


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction: packets leave one after the other, as fast as the link carries them, and arrive DELAY_S later."""
    loop = asyncio.get_running_loop()
    packets: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    delivery = loop.create_task(_deliver(packets, writer))
    free_at = loop.time()
    while data := await reader.read(PACKET_BYTES):
        free_at = max(free_at, loop.time()) + (len(data) + HEADER_BYTES) * 8 / BITS_PER_S
        packets.put_nowait((free_at + DELAY_S, data))
        await asyncio.sleep(free_at - loop.time() - QUEUE_BYTES * 8 / BITS_PER_S)
    packets.put_nowait((free_at + DELAY_S, b""))
    await delivery


async def _deliver(packets: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    while True:
        arrives_at, data = await packets.get()
        await asyncio.sleep(arrives_at - asyncio.get_running_loop().time())
        if not data or writer.is_closing():
            writer.close()
            return
        writer.write(data)


class Server:
    """An sshd on the loopback address that lets this user in, with keys of its own, while it is entered."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gputui-sshd-")
        self.port = 0

    def __enter__(self) -> Server:
        folder = Path(self._folder.name)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd separates its privileges in it
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder / 'host'}",
            f"AuthorizedKeysFile {folder / 'user.pub'}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "PrintMotd no",
            "UseDNS no",
            f"SetEnv HOME={folder} LANG=C.UTF-8 COLORTERM=truecolor PYTHONPATH={os.environ.get('PYTHONPATH', '')}",
        ]
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
        until = time.monotonic() + 10
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.02)
        raise SystemExit(f"sshd does not listen: {(folder / 'log').read_text()}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def ssh(self, port: int, *options: str) -> list[str]:
        """The command that logs in through this port, on a terminal of its own."""
        folder = self._folder.name
        settings = ["StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "IdentitiesOnly=yes"]
        settings += ["LogLevel=ERROR", f"IdentityFile={folder}/user"]
        arguments = [word for setting in settings for word in ("-o", setting)]
        return ["ssh", "-F", "none", *arguments, *options, "-tt", "-p", str(port), f"{getpass.getuser()}@127.0.0.1"]


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """``login_s`` is how long `ssh … true` takes: the connection and nothing else. ``keys`` are those pressed in
    gputui; their first frame is counted from the start of ssh."""

    login_s: float
    keys: KeyFigures


def measure(columns: int = 120, lines: int = 40) -> dict[str, LinkFigures]:
    """The script in gputui over ssh: to the loopback address itself, over the slow link, and there with `ssh -C`."""
    program = shlex.join([*OPEN, str(REPORT)])
    found = {}
    with Server() as server, SlowLink(server.port) as link:
        for name, port, options in (
            ("ssh", server.port, []),
            ("ssh, slow link", link.port, []),
            ("ssh -C, slow link", link.port, ["-C"]),
        ):
            ssh = server.ssh(port, *options)
            begin = time.perf_counter()
            subprocess.run([*ssh, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
            login_s = time.perf_counter() - begin
            pressed = session([*ssh, program], SCRIPT, columns, lines, quiet_s=0.2, patience_s=0.6)
            found[name] = LinkFigures(login_s, key_figures(columns, lines, [pressed]))
    return found


def rows(figures: LinkFigures) -> list[tuple[str, str]]:
    """What was measured, and the figure."""
    keys = figures.keys
    return [
        ("logging in", f"{figures.login_s:.2f} s"),
        ("from the start of ssh to the first frame with the diagnosis", f"{keys.first_frame_s:.2f} s"),
        ("keys (of these change nothing)", f"{keys.keys} ({keys.silent_keys})"),
        *times(keys),
        ("bytes of all keys, as the terminal gets them", f"{keys.key_bytes:,}"),
        ("bytes a second while an answer is waited for", f"{keys.key_bytes / keys.waited_s:,.0f}"),
    ]
