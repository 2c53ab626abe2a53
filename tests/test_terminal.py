"""Strangers' text on a terminal, and what the terminal is taken for."""

from __future__ import annotations

import sys
import unicodedata
from types import SimpleNamespace

import pytest

from gputui import terminal
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
        unicodedata.category(char) for code in range(sys.maxunicode + 1) if (char := safe(chr(code))) and len(char) == 1
    }
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _stream(tty: bool = True, encoding: str = "utf-8") -> SimpleNamespace:
    return SimpleNamespace(encoding=encoding, isatty=lambda: tty)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The two streams as ``terminal`` sees them: at first a terminal at both ends."""
    streams = SimpleNamespace(stdin=_stream(), stdout=_stream())
    monkeypatch.setattr(terminal, "sys", streams)
    monkeypatch.delenv("GPUTUI_ASCII", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return streams


def test_a_terminal_is_drawn_on(streams: SimpleNamespace) -> None:
    assert can_draw()
    assert not wants_ascii()


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize("term", ["dumb", "", None])
def test_a_terminal_without_a_cursor_is_not_drawn_on(monkeypatch: pytest.MonkeyPatch, term: str | None) -> None:
    monkeypatch.delenv("TERM") if term is None else monkeypatch.setenv("TERM", term)
    assert not can_draw()


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_a_pipe_is_not_drawn_on(streams: SimpleNamespace, name: str) -> None:
    setattr(streams, name, _stream(tty=False))
    assert not can_draw()


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_a_closed_stream_is_not_drawn_on(streams: SimpleNamespace, name: str) -> None:
    setattr(streams, name, None)
    assert not can_draw()
    assert isinstance(wants_ascii(), bool)


@pytest.mark.parametrize(
    ("encoding", "ascii"),
    [("utf-8", False), ("UTF8", False), ("utf-16", False), ("ascii", True), ("latin-1", True), ("cp932", True)],
)
def test_ascii_where_the_encoding_is_no_unicode(streams: SimpleNamespace, encoding: str, ascii: bool) -> None:
    streams.stdout = _stream(encoding=encoding)
    assert wants_ascii() is ascii


@pytest.mark.usefixtures("streams")
def test_ascii_on_the_linux_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "linux")
    assert wants_ascii()


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize(("value", "ascii"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_ascii_where_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch, value: str, ascii: bool) -> None:
    monkeypatch.setenv("GPUTUI_ASCII", value)
    assert wants_ascii() is ascii
