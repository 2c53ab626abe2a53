"""What a program prints, made fit to show: a terminal's lines without a terminal's powers."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from gputui.terminal import safe

LONGEST_LINE = 2000
_TAB = 8
_MOST_UP = 100
"""How far up a program may go to change a line that it has printed: about a screen."""
_LONGEST_PARAMETERS = 32

_RUN = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_CSI_PARAMETERS = re.compile(r"[ -?]*")
_STRING_END = re.compile(r"[\x07\x1b\x9c\x18\x1a\n]")
_STRINGS = "\x90\x98\x9d\x9e\x9f"


class Escapes:
    """Parts text from escape sequences (ECMA-48), also where they come in pieces or never end.

    Yields runs of text, single control characters, and CSI sequences as ``\\x1b[`` with parameters and final
    character; all other sequences are swallowed. The strings of OSC, DCS and the like end at a line's end at latest.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state: Callable[[str, int], tuple[int, str]] = self._text
        self._parameters = ""

    def feed(self, data: bytes) -> Iterator[str]:
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            at, found = self._state(text, at)
            if found:
                yield found

    def _text(self, text: str, at: int) -> tuple[int, str]:
        run = _RUN.match(text, at)
        if run is not None:
            return run.end(), run[0]
        char = text[at]
        if char == "\x1b":
            self._state = self._escape
        elif char == "\x9b":
            self._begin_csi()
        elif char in _STRINGS:
            self._state = self._string
        else:
            return at + 1, char
        return at + 1, ""

    def _escape(self, text: str, at: int) -> tuple[int, str]:
        char = text[at]
        if char == "[":
            self._begin_csi()
        elif char in "PX^_]":
            self._state = self._string
        elif not " " <= char <= "/":
            self._state = self._text
            if not "0" <= char <= "~":
                return at, ""
        return at + 1, ""

    def _begin_csi(self) -> None:
        self._state = self._csi
        self._parameters = ""

    def _csi(self, text: str, at: int) -> tuple[int, str]:
        more = _CSI_PARAMETERS.match(text, at)
        assert more is not None
        self._parameters = (self._parameters + more[0])[:_LONGEST_PARAMETERS]
        at = more.end()
        if at == len(text):
            return at, ""
        self._state = self._text
        return (at + 1, f"\x1b[{self._parameters}{text[at]}") if "@" <= text[at] <= "~" else (at, "")

    def _string(self, text: str, at: int) -> tuple[int, str]:
        end = _STRING_END.search(text, at)
        if end is None:
            return len(text), ""
        # The \ that follows ESC ends the string as an escape sequence of its own.
        self._state = self._escape if end[0] == "\x1b" else self._text
        return (end.start() if end[0] == "\n" else end.end()), ""


class PlainText:
    """For a pipe or a terminal that is not gputui's to draw on: text and line ends, no escape sequences."""

    def __init__(self) -> None:
        self._escapes = Escapes()

    def feed(self, data: bytes) -> str:
        found = (one for one in self._escapes.feed(data) if one[0] != "\x1b")
        return "".join(one if one in "\r\n\t" else safe(one) for one in found)


class OutputLines:
    """The last lines as a terminal would show them, each safe to print.

    Progress bars show their latest state: ``\\r``, backspace, going up some lines and erasing are obeyed; colours and
    all else are not. Only the beginning of a very long line is kept.
    """

    def __init__(self, keep: int = 10_000) -> None:
        self._escapes = Escapes()
        self._lines: deque[str] = deque([""], maxlen=keep)
        self._row = 0
        self._column = 0
        self._moves: Mapping[str, Callable[[int], None]] = {
            "A": lambda count: self._go(-count),
            "B": self._go,
            "C": lambda count: self._go_to(self._column + count),
            "D": lambda count: self._go_to(self._column - count),
            "E": lambda count: self._go(count, 0),
            "F": lambda count: self._go(-count, 0),
            "G": lambda count: self._go_to(count - 1),
        }

    def feed(self, data: bytes) -> None:
        for one in self._escapes.feed(data):
            if one == "\n":
                self._new_line()
            elif one == "\r":
                self._column = 0
            elif one == "\b":
                self._go_to(self._column - 1)
            elif one == "\t":
                self._write(" " * (_TAB - self._column % _TAB))
            elif one[0] == "\x1b":
                self._obey(one[2:-1], one[-1])
            else:
                self._write(safe(one))

    def lines(self) -> list[str]:
        return list(self._lines)

    def tail(self, count: int) -> list[str]:
        return list(islice(self._lines, max(len(self._lines) - count, 0), None))

    def _new_line(self) -> None:
        self._column = 0
        if self._row + 1 < len(self._lines):
            self._row += 1
            return
        self._lines.append("")
        self._row = len(self._lines) - 1

    def _write(self, text: str) -> None:
        line, at = self._lines[self._row], self._column
        self._column += len(text)
        if at > LONGEST_LINE:
            return
        line = f"{line[:at].ljust(at)}{text[: LONGEST_LINE + 1]}{line[self._column :]}"
        self._lines[self._row] = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"

    def _obey(self, parameters: str, final: str) -> None:
        count = int(parameters) if parameters.isdecimal() and parameters.isascii() else 0
        if final in self._moves:
            self._moves[final](max(count, 1))
        elif final == "K":
            line = self._lines[self._row]
            self._lines[self._row] = (line[: self._column], " " * self._column + line[self._column :], "")[
                min(count, 2)
            ]
        elif final == "J" and not count:
            self._lines[self._row] = self._lines[self._row][: self._column]
            for row in range(self._row + 1, len(self._lines)):
                self._lines[row] = ""

    def _go(self, rows: int, column: int | None = None) -> None:
        self._row = min(max(self._row + rows, len(self._lines) - _MOST_UP, 0), len(self._lines) - 1)
        if column is not None:
            self._column = column

    def _go_to(self, column: int) -> None:
        self._column = min(max(column, 0), LONGEST_LINE)
