"""What the benchmarks measure with: the terminal, the slow link and the cut network do what the figures say of them."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import keys
import link
import pytest
from terminal import Screen, Terminal

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

ANSWERS = """
import sys, termios, time, tty
tty.setraw(0)
def send(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
send(b"\\x1b[?2026$p\\x1b[2;5Hready")
while key := sys.stdin.buffer.read(1):
    if key == b"a":
        send(b"x" * 10)
        time.sleep(0.05)
        send(b"y" * 90)
    elif key == b"\\x1b":
        send(b"[" + sys.stdin.buffer.read(10))
"""


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(10)
    assert not thread.is_alive(), "the link has left its connection open"


def test_link_delays_and_throttles(echo: int) -> None:
    with link.SlowLink(echo) as slow, socket.create_connection(("127.0.0.1", slow.port)) as connection:
        connection.settimeout(10)
        connection.sendall(b"1")
        connection.recv(1)
        begin = time.monotonic()
        connection.sendall(b"2")
        assert connection.recv(1) == b"2"
        assert time.monotonic() - begin >= 0.050  # 25 ms there, 25 ms back
        begin = time.monotonic()
        sent = bytes(range(256)) * 128
        connection.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += connection.recv(1 << 16)
        assert got == sent
        # 32,768 bytes × 8 / 256,000 bits per second, and once there and back.
        assert time.monotonic() - begin >= 1.024 + 0.050


def test_link_makes_the_sender_wait() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        link.SlowLink(listener.getsockname()[1]) as slow,
        socket.create_connection(("127.0.0.1", slow.port)) as connection,
    ):
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.sendall(bytes(32 << 20))


def test_terminal_counts_and_times_what_is_sent() -> None:
    with Terminal([sys.executable, "-c", ANSWERS], 20, 4) as terminal:
        (ready,) = terminal.wait_for("ready", limit_s=10)
        assert 0 < ready < 10
        assert terminal.screen.splitlines()[1] == "    ready"
        # What it answered to the question for synchronized output: yes.
        terminal.idle(0.1)
        assert "[?2026;2$y" in terminal.screen
        answer = terminal.press(b"a")
        assert answer.bytes == 100
        assert answer.first_byte_s is not None
        assert answer.last_byte_s is not None
        assert answer.last_byte_s - answer.first_byte_s > 0.03
        assert terminal.press(b"b", patience_s=0.1).bytes == 0
        assert terminal.idle(0.1) == 0
        assert terminal.peak_bytes() > 1_000_000


def test_screen_shows_what_the_codes_draw() -> None:
    screen = Screen(10, 3)
    screen.feed("\x1b[2;3H\x1b[1;31mab\x1b[0mカc\x1b[1;1Hx\x1b[2C".encode())
    screen.feed(b"y\x1b[3;1Hzzzz\x1b[2D\x1b[K\x1b[1;6H-\x1b[3b")
    assert str(screen) == "x  y ----\n  abカc\nzz"
    screen.feed(b"\x1b[1;2H\x1b[7X\x1b[2;1H\x1b[")
    screen.feed(b"J")
    assert str(screen) == "x       -\n\n"


def test_scripts_are_200_keys() -> None:
    assert sum(len(script.presses()) for script in keys.SCRIPTS) == 200
    assert len(link.SCRIPT.presses()) == 40
    assert all(report.exists() for script in keys.SCRIPTS for report in script.reports)


def test_figures_count_keys_that_send_nothing() -> None:
    presses = [keys.Press("move", "j", size, size / 1e6, size / 1e5) for size in range(1, 101)]
    presses += [keys.Press("tab", "1", 0, None, None)] * 2
    found = keys.key_figures(80, 24, [keys.Session(1.0, 5, tuple(presses), 0, 0)])
    assert (found.keys, found.silent_keys) == (102, 2)
    assert found.key_bytes == 5050
    assert found.bytes_median == 49.5
    assert found.move_bytes_median == 50.5
    assert found.tab_bytes_median == 0
    assert found.first_byte_95th_s == 95e-6
    assert found.first_byte_worst_s == 100e-6
    assert found.late_keys == ()


def test_network_is_cut() -> None:
    program = (
        "import offline, socket, errno\n"
        "offline.cut_network()\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname(), 1)\n"
        "with socket.socket() as outside: print(errno.errorcode[outside.connect_ex(('192.0.2.1', 9))])\n"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=30)
    if "cannot be cut off here" in found.stderr:
        pytest.skip("no network namespaces here")
    assert found.stdout == "ENETUNREACH\n", found.stderr
