"""Strangers' text on a terminal, and what the terminal is taken for."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest

from gputui.terminal import can_draw, safe, wants_ascii


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("void add<float, 4>(float*)", "void add<float, 4>(float*)"),
        ("[/bold][red]x", "[/bold][red]x"),
        ("行列積 µ × café", "行列積 µ × café"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]8;;http://x\x1b\\link", "\\x1b]8;;http://x\\x1b\\link"),
        ("\x1b]52;c;AAAA\x07", "\\x1b]52;c;AAAA\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("half\udc80", "half\\udc80"),
        ("nul\0", "nul\\x00"),
        ("one\ntwo\r\tthree", "one\\x0atwo\\x0d\\x09three"),
        ("line\u2028end\u2029", "line\\u2028end\\u2029"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("private\ue000", "private\\ue000"),
        ("e\u0301", "e\u0301"),
        ("Z" + "\u0300" * 500, "Z\u0300\u0300"),
        ("a\u20dd\u20dd\u20ddb\u0301", "a\u20dd\u20ddb\u0301"),
    ],
)
def test_safe(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_nothing_that_acts_on_a_terminal_is_left_of_any_character() -> None:
    left = {
        unicodedata.category(char)
        for code in range(sys.maxunicode + 1)
        if (char := safe(chr(code))) and len(char) == 1
    }
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("GPUTUI_ASCII", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(sys, "stdout", _Terminal())
    return monkeypatch


def test_a_terminal_is_drawn_on(terminal: pytest.MonkeyPatch) -> None:
    assert can_draw()
    assert not wants_ascii()


@pytest.mark.parametrize("term", ["dumb", "", None])
def test_a_terminal_without_a_cursor_is_not_drawn_on(terminal: pytest.MonkeyPatch, term: str | None) -> None:
    terminal.delenv("TERM") if term is None else terminal.setenv("TERM", term)
    assert not can_draw()


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_pipe_is_not_drawn_on(terminal: pytest.MonkeyPatch, stream: str) -> None:
    terminal.setattr(sys, stream, io.StringIO())
    assert not can_draw()


@pytest.mark.xfail(strict=True, reason="a closed standard stream is None and raises AttributeError")
@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_closed_stream_is_not_drawn_on(terminal: pytest.MonkeyPatch, stream: str) -> None:
    terminal.setattr(sys, stream, None)
    assert not can_draw()
    assert isinstance(wants_ascii(), bool)


@pytest.mark.parametrize(
    ("encoding", "ascii"),
    [("utf-8", False), ("UTF8", False), ("utf-16", False), ("ascii", True), ("latin-1", True), ("cp932", True)],
)
def test_ascii_where_the_encoding_is_no_unicode(terminal: pytest.MonkeyPatch, encoding: str, ascii: bool) -> None:
    terminal.setattr(_Terminal, "encoding", encoding)
    assert wants_ascii() is ascii


def test_ascii_on_the_linux_console(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("TERM", "linux")
    assert wants_ascii()


@pytest.mark.parametrize(("value", "ascii"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_ascii_where_the_environment_asks_for_it(terminal: pytest.MonkeyPatch, value: str, ascii: bool) -> None:
    terminal.setenv("GPUTUI_ASCII", value)
    assert wants_ascii() is ascii
