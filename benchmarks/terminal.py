"""A terminal to measure in: runs a program on a pty, and counts and times what it sends.

It answers as xterm does, with synchronized output, which most terminals now have. It sends no kitty key codes, as
neither xterm nor tmux do: a program then waits behind an escape, which may be the first byte of another key.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import tempfile
import termios
import time
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

KEYS = {
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "enter": b"\r",
    "tab": b"\t",
    "space": b" ",
    "escape": b"\x1b",
    "ctrl+p": b"\x10",
}
"""What xterm sends for keys that have a name; any other key sends its character."""
_PASSED_ON = ("PATH", "PYTHONPATH", "TMPDIR")
_QUERY = re.compile(rb"\x1b\[(?:c|\?(\d+)\$p)")
_CUT_QUERY = re.compile(rb"\x1b(?:\[(?:\?\d*\$?)?)?\Z")
_SYNCHRONIZED = b"2026"
_CURSOR_KEYS_MODE = re.compile(rb"\x1b\[\?1([hl])")
_CURSOR_KEY = re.compile(rb"\x1b\[([ABCDFH])\Z")
_CODE = re.compile(r"\x1b(?:\[([0-9;:?<=>]*)[ -/]*([@-~])|[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_CUT_CODE = re.compile(r"\x1b(?:|\[[0-9;:?<=>]*[ -/]*|[\]P_^X][^\x07\x1b]*\x1b?|[ -/]+)\Z")


class ProgramEndedError(Exception):
    """The program ended while something was expected of it; holds what stood on the screen."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came for a key: how many bytes, and when the first and the last of them, in seconds after it was sent;
    ``None`` where none came. ``late`` is how many came for what was before it, after that had been waited for."""

    bytes: int
    first_byte_s: float | None
    last_byte_s: float | None
    late: int


class Screen:
    """The characters that a terminal shows of the codes that Textual and curses send. No colours."""

    def __init__(self, columns: int, lines: int) -> None:
        self._rows = [[" "] * columns for _ in range(lines)]
        self._row = self._column = 0
        self._last = " "
        self._cut = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __str__(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._rows)

    def feed(self, data: bytes) -> None:
        text = self._cut + self._decoder.decode(data)
        cut = _CUT_CODE.search(text)
        self._cut, text = (cut.group(), text[: cut.start()]) if cut else ("", text)
        at = 0
        for code in _CODE.finditer(text):
            self._print(text[at : code.start()])
            if code.group(2) and code.group(1)[:1] not in tuple("<=>"):
                self._act(code.group(2), code.group(1))
            at = code.end()
        self._print(text[at:])

    def _print(self, text: str) -> None:
        for char in text:
            if char == "\r":
                self._column = 0
            elif char == "\n":
                self._row = min(self._row + 1, len(self._rows) - 1)
            elif char == "\b":
                self._column = max(self._column - 1, 0)
            elif char >= " " and not unicodedata.combining(char):
                row = self._rows[self._row]
                for shown in (char, "") if unicodedata.east_asian_width(char) in "WF" else (char,):
                    if self._column < len(row):
                        row[self._column] = shown
                    self._column += 1
                self._last = char

    def _act(self, act: str, parameters: str) -> None:
        numbers = [int(number) if number.isdigit() else 0 for number in parameters.split(";")]
        many = max(numbers[0], 1)
        row, column = self._row, self._column
        if act in "Hf":
            row, column = many - 1, max(1, *numbers[1:2], 1) - 1
        elif act == "d":
            row = many - 1
        elif act == "G":
            column = many - 1
        elif act in "AB":
            row += many if act == "B" else -many
        elif act in "CD":
            column += many if act == "C" else -many
        elif act == "b":
            self._print(self._last * many)
            return
        elif act == "X":
            self._erase(row, column, column + many)
        elif act == "K":
            self._erase(row, 0 if numbers[0] else column, column + 1 if numbers[0] == 1 else None)
        elif act == "J" or parameters == "?1049":
            if numbers[0] == 0 and act == "J":
                self._erase(row, column)
            for other in range(row + 1 if numbers[0] == 0 and act == "J" else 0, len(self._rows)):
                self._erase(other)
        self._row = min(max(row, 0), len(self._rows) - 1)
        self._column = min(max(column, 0), len(self._rows[0]) - 1)

    def _erase(self, row: int, start: int = 0, end: int | None = None) -> None:
        cells = self._rows[row]
        for column in range(start, len(cells) if end is None else min(end, len(cells))):
            cells[column] = " "


class Terminal:
    """A program on a terminal of this size, which reads and writes nothing of the user's: it runs in a home of its own,
    an empty folder that goes again."""

    def __init__(self, program: Sequence[str], columns: int, lines: int) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="gputui-terminal-")
        home = Path(self._home.name)
        values = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        values |= {"HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        values |= {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA", "STATE")}
        self._screen = Screen(columns, lines)
        self._unread: list[bytes] = []
        self._cut_query = b""
        self._cursor_keys_begin = b"\x1b["
        self.received = 0
        """Bytes that the program has sent."""
        self.begin = time.perf_counter()
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            try:
                os.chdir(home)
                os.execvpe(program[0], list(program), values)
            finally:
                os._exit(127)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def screen(self) -> str:
        """The lines that the screen shows."""
        for data in self._unread:
            self._screen.feed(data)
        self._unread.clear()
        return str(self._screen)

    def _read(self, until: float) -> int:
        """How many bytes came at once, at the latest at this time; 0 where none did."""
        if not select.select([self._master], [], [], max(0.0, until - time.perf_counter()))[0]:
            return 0
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # what Linux answers when the program has ended
            data = b""
        if not data:
            raise ProgramEndedError(self.screen)
        self.received += len(data)
        self._unread.append(data)
        asked = self._cut_query + data
        for query in _QUERY.finditer(asked):
            mode = query.group(1)
            answer = b"\x1b[?62;22c" if mode is None else b"\x1b[?%b;%d$y" % (mode, 2 if mode == _SYNCHRONIZED else 0)
            os.write(self._master, answer)
        for mode_set in _CURSOR_KEYS_MODE.finditer(data):
            self._cursor_keys_begin = b"\x1bO" if mode_set.group(1) == b"h" else b"\x1b["
        cut = _CUT_QUERY.search(asked)
        self._cut_query = cut.group() if cut else b""
        return len(data)

    def wait_for(self, *texts: str, limit_s: float = 60) -> list[float]:
        """Seconds from the start to when each text first stood on the screen, in one line; infinite where ``limit_s``
        passed before."""
        moments = dict.fromkeys(texts, float("inf"))
        until = time.perf_counter() + limit_s
        while True:
            now = time.perf_counter() - self.begin
            shown = self.screen
            moments.update({text: min(moment, now) for text, moment in moments.items() if text in shown})
            if max(moments.values()) < float("inf") or not self._read(until):
                return list(moments.values())

    def press(self, keys: bytes, quiet_s: float = 0.15, patience_s: float = 0.4, limit_s: float = 10) -> Answer:
        """Send keys and wait until nothing has come for ``quiet_s`` after something came, or for ``patience_s`` where
        nothing does, but not longer than ``limit_s``."""
        late = self.idle(0)
        begin = time.perf_counter()
        os.write(self._master, _CURSOR_KEY.sub(self._cursor_keys_begin + rb"\1", keys))
        first = last = None
        count, until = 0, begin + patience_s
        while got := self._read(min(until, begin + limit_s)):
            last = time.perf_counter() - begin
            first = last if first is None else first
            count += got
            until = begin + last + quiet_s
        return Answer(count, first, last, late)

    def idle(self, seconds: float) -> int:
        """The bytes that come while nothing is pressed for so long."""
        before, until = self.received, time.perf_counter() + seconds
        while self._read(until) and time.perf_counter() < until:
            pass
        return self.received - before

    def peak_bytes(self) -> int:
        """The most memory that the program and what it has started have held, each at its worst."""
        found, total = [self.pid], 0
        for pid in found:
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                total += 1024 * int(status.partition("VmHWM:")[2].split()[0])
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    found += map(int, children.read_text().split())
        return total

    def close(self) -> None:
        """End the program, as closing the window does."""
        if self._master < 0:
            return
        os.close(self._master)
        self._master = -1
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._home.cleanup()
