"""What programs print, as lines that are safe to show."""

from __future__ import annotations

import time

import pytest

from gputui.run.output import LONGEST_LINE, OutputLines, PlainText

ESCAPES = (
    b"a\x1b[1;32mb\x1b]0;title\x07c\x1bP1$rx\x1b\\d\x1b(Be\xc2\x9b31mf\xc2\x9d8;;http://x\xc2\x9cg\x1b]8;;y\x1b\\h\n"
)


def shown(*chunks: bytes, keep: int = 10_000) -> list[str]:
    lines = OutputLines(keep)
    for chunk in chunks:
        lines.feed(chunk)
    return lines.lines()


def test_escape_sequences_are_swallowed_wherever_they_are_split() -> None:
    for at in range(len(ESCAPES)):
        assert shown(ESCAPES[:at], ESCAPES[at:]) == ["abcdefgh", ""], at
    assert shown(*(bytes([one]) for one in ESCAPES)) == ["abcdefgh", ""]


@pytest.mark.parametrize(
    "begun", [b"\x1b]0;never ended", b"\x1bPnever", b"\x1b[12", b"\x1b", b"\x1b(", b"\x1b[1\x1b]x"]
)
def test_a_sequence_that_never_ends_takes_no_more_than_its_line(begun: bytes) -> None:
    assert shown(b"before" + begun, b"\nafter\n") == ["before", "after", ""]


def test_a_character_split_between_two_reads_is_whole() -> None:
    text = "損失 0.5 µs ✓".encode()
    for at in range(len(text)):
        assert shown(text[:at], text[at:]) == ["損失 0.5 µs ✓"]
    assert shown(b"a\xff\xfeb") == ["a\ufffd\ufffdb"]


def test_a_progress_bar_shows_its_latest_state() -> None:
    bar = [f"\r{percent:3}%|{'#' * (percent // 10):10}|".encode() for percent in range(101)]
    assert shown(b"start\n", *bar, b"\ndone\n") == ["start", "100%|##########|", "done", ""]


def test_nested_progress_bars_stay_in_their_lines() -> None:
    # As tqdm draws the inner of two bars: down, drawn, up again.
    drawn = [f"\router {step}\n\rinner {step}\x1b[A".encode() for step in range(500)]
    assert shown(*drawn, b"\n\nend") == ["outer 499", "inner 499", "end"]


def test_a_program_cannot_rewrite_what_has_left_its_screen() -> None:
    lines = shown(b"".join(b"%d\n" % number for number in range(1000)), b"\x1b[999999A\rX")
    assert lines[900] == "900"
    assert lines[901] == "X01"


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (b"abc\bd", "abd"),
        (b"\b\b\bx", "x"),
        (b"a\tb", "a       b"),
        (b"1234567\t8", "1234567 8"),
        (b"long line\rnew\x1b[K", "new"),
        (b"long line\rnew", "newg line"),
        (b"\x1b[5Gx", "    x"),
        (b"abc\x1b[2K\rx", "x"),
        (b"abc\x1b[2Dx", "axc"),
        (b"a\x07b\x00", "a\\x07b\\x00"),
        ("a\u202eb".encode(), "a\\u202eb"),
        (b"a\x1b[\xe2\x80\xae99m", "a\\u202e99m"),
    ],
)
def test_what_a_line_shows(printed: bytes, line: str) -> None:
    assert shown(printed) == [line]


def test_only_the_last_lines_are_kept() -> None:
    printed = b"".join(b"%d\n" % number for number in range(100))
    assert shown(printed, keep=3) == ["98", "99", ""]
    lines = OutputLines()
    lines.feed(printed)
    assert lines.tail(2) == ["99", ""]
    assert lines.tail(1000) == lines.lines()


def test_a_line_of_megabytes_is_cut_and_costs_no_time() -> None:
    begun = time.process_time()
    (line,) = shown(*[b"x" * 65536] * 100)
    assert line == "x" * LONGEST_LINE + "…"
    assert time.process_time() - begun < 2
    assert shown(b"x" * 5000 + b"\ry") == ["y" + "x" * (LONGEST_LINE - 1) + "…"]


def test_plain_text_keeps_line_ends_and_no_escape_sequence() -> None:
    plain = PlainText()
    assert "".join(plain.feed(bytes([one])) for one in ESCAPES) == "abcdefgh\n"
    assert plain.feed(b"\r 50%\r\n\ttab\x07\b\x1b[A.") == "\r 50%\r\n\ttab\\x07\\x08."
