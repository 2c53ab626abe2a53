"""What is sent cell by cell leaves a terminal as the whole frames would. The terminal is pyte, which is not ours."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path

import pyte
import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, InlineUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from gputui.views.cells import Cells

from .ptys import read_until_idle, start

COLUMNS, LINES = 40, 6
ESCAPE, REDRAW = b"\x1b", b"\x0c"
SPLIT = 16
STYLES = [
    None,
    Style(),
    Style.parse("#102030 on #405060"),
    Style.parse("bold #102030 on #405060"),
    Style.parse("red on #405060"),
    Style.parse("underline on blue"),
    Style.parse("reverse italic"),
    Style.parse("bold strike color(200) on color(17)"),
    Style.parse("not bold bright_green on bright_black"),
    Style.parse("dim"),
]
CHARACTERS = ["a", "b", " ", " ", "─", "▌", "é", "世", "界", "e\u0301"]
TOUR = """
from pathlib import Path
from gputui.views.app import run
run([Path("sample_reports/tour.ncu-rep")], language="LANGUAGE")
"""


def console() -> Console:
    return Console(color_system="truecolor", force_terminal=True)


def strip(chance: random.Random, width: int) -> Strip:
    segments = []
    while width:
        text, columns = "", chance.randint(1, width)
        while columns:
            character = chance.choice(CHARACTERS)
            wide = 2 if character in "世界" else 1
            if wide <= columns:
                text, columns, width = text + character, columns - wide, width - wide
        segments.append(Segment(text, chance.choice(STYLES)))
    return Strip(segments)


def frame(chance: random.Random, before: list[list[Strip]]) -> CompositorUpdate:
    """Some lines anew, of the whole width or of one of its parts; the rest as before."""
    if chance.random() < 0.4:
        top = chance.randrange(LINES)
        rows = range(top, chance.randint(top + 1, LINES))
        for y in rows:
            if chance.random() < 0.7:
                before[y] = [strip(chance, SPLIT), strip(chance, COLUMNS - SPLIT)]
        return LayoutUpdate([before[y] for y in rows], Region(0, top, COLUMNS, len(rows)))  # type: ignore[arg-type]
    spans = []
    for y in sorted(chance.sample(range(LINES), chance.randint(1, LINES))):
        part = chance.randrange(2)
        before[y][part] = strip(chance, COLUMNS - SPLIT if part else SPLIT)
        spans.append((y, SPLIT if part else 0, COLUMNS if part else SPLIT))
    chops = [{0: left, SPLIT: right} for left, right in before]
    return ChopsUpdate(chops, spans, [[SPLIT, COLUMNS]] * LINES)


def seen(screen: pyte.Screen) -> list[list[tuple[object, ...]]]:
    """Each cell as a person sees it: of a space neither its colour nor how thick it is."""
    cells = []
    for y in range(screen.lines):
        row = []
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            looks = (cell.bg, cell.underscore, cell.strikethrough, cell.reverse)
            if cell.data != " " or cell.underscore or cell.strikethrough or cell.reverse:
                looks = (*looks, cell.fg, cell.bold, cell.italics)
            row.append((cell.data, *looks))
        cells.append(row)
    return cells


@pytest.mark.parametrize("seed", range(20))
def test_a_terminal_shows_what_whole_frames_would_show(seed: int) -> None:
    chance = random.Random(seed)
    whole, changed = pyte.Screen(COLUMNS, LINES), pyte.Screen(COLUMNS, LINES)
    # pyte would wrap before a mark that belongs to the last column.
    whole.reset_mode(pyte.modes.DECAWM)
    changed.reset_mode(pyte.modes.DECAWM)
    to_whole, to_changed = pyte.Stream(whole), pyte.Stream(changed)
    cells, lines = Cells(), [[Strip.blank(SPLIT), Strip.blank(COLUMNS - SPLIT)] for _ in range(LINES)]
    for update in [
        LayoutUpdate(lines, Region(0, 0, COLUMNS, LINES)),  # type: ignore[arg-type]
        *(frame(chance, lines) for _ in range(30)),
    ]:
        texts = update.render_segments(console()), cells.changes(update).render_segments(console())
        to_whole.feed(texts[0].replace("\n", ""))
        to_changed.feed(texts[1])
        assert seen(changed) == seen(whole)


def line_of(*segments: Segment) -> LayoutUpdate:
    return LayoutUpdate([[Strip(segments)]], Region(3, 2, 9, 1))  # type: ignore[list-item]


def test_only_what_changes_is_sent() -> None:
    cells, plain = Cells(), Style.parse("#010203 on #040506")
    sent = cells.sequence(line_of(Segment("time", plain), Segment(" 12 ms", Style())), console())
    assert sent == "\x1b[3;4H\x1b[38;2;1;2;3;48;2;4;5;6mtime\x1b[m 12 ms"
    sent = cells.sequence(line_of(Segment("time 12 ms", plain)), console())
    # The colour of a space is not seen.
    assert sent == "\x1b[3;8H\x1b[48;2;4;5;6m \x1b[38;2;1;2;3m12 ms\x1b[m"
    assert cells.sequence(line_of(Segment("time 12 ms", plain)), console()) == ""
    sent = cells.sequence(line_of(Segment("time 13 ms", plain)), console())
    assert sent == "\x1b[3;10H\x1b[38;2;1;2;3;48;2;4;5;6m3\x1b[m"
    bold = plain + Style(bold=True)
    sent = cells.sequence(line_of(Segment("time ", plain), Segment("13", bold), Segment(" ms", plain)), console())
    assert sent == "\x1b[3;9H\x1b[1;38;2;1;2;3;48;2;4;5;6m13\x1b[m"


def test_what_lies_between_two_changes_is_sent_again_where_that_is_shorter() -> None:
    plain, other = Style.parse("#010203 on #040506"), Style.parse("#070809 on #040506")

    def second(*segments: Segment) -> str:
        cells = Cells()
        cells.sequence(line_of(Segment("to be or not", plain)), console())
        return cells.sequence(line_of(*segments), console())

    # A space looks the same in both colours; the letters do not, and far away it takes more bytes than a move.
    colours = "\x1b[38;2;7;8;9;48;2;4;5;6m"
    assert second(Segment("to my", other), Segment(" or not", plain)) == f"\x1b[3;4H{colours}to my\x1b[m"
    changed = second(Segment("t", other), Segment("o be o", plain), Segment("r", other), Segment(" not", plain))
    assert changed == f"\x1b[3;4H{colours}t\x1b[11Gr\x1b[m"
    assert second(Segment("x", plain), Segment("o be ", plain), Segment("x", plain)).count("o be x") == 1


def test_an_attribute_is_ended_alone() -> None:
    bold, dim = Style.parse("bold dim red on blue"), Style.parse("dim red on blue")
    sent = Cells().sequence(line_of(Segment("a", bold), Segment("b", dim), Segment("c", Style())), console())
    assert sent == "\x1b[3;4H\x1b[1;2;31;44ma\x1b[22;2mb\x1b[mc"


def test_all_is_sent_again_where_it_is_not_known_what_the_terminal_shows() -> None:
    cells, update = Cells(), line_of(Segment("gputui"))
    assert cells.sequence(update, console()) == "\x1b[3;4Hgputui"
    cells.forget()
    assert cells.sequence(update, console()) == "\x1b[2J\x1b[3;4Hgputui"
    inline = InlineUpdate([Strip([Segment("other")])])
    assert cells.sequence(inline, console()) == inline.render_segments(console())
    assert cells.sequence(update, console()) == "\x1b[2J\x1b[3;4Hgputui"


def test_characters_that_terminals_measure_otherwise_do_not_move_the_rest() -> None:
    family = "👨\u200d👩\u200d👧"
    sent = Cells().sequence(line_of(Segment("a"), Segment(family), Segment("b")), console())
    assert sent == f"\x1b[3;4Ha{family}\x1b[7Gb"
    assert Cells().sequence(line_of(Segment("ae\u0301z")), console()) == "\x1b[3;4Hae\u0301\x1b[6Gz"


def test_half_of_a_wide_character_is_blank_when_the_other_is_written_over() -> None:
    cells = Cells()
    cells.sequence(line_of(Segment("世界")), console())
    middle = LayoutUpdate([[Strip([Segment("xy")])]], Region(4, 2, 2, 1))  # type: ignore[list-item]
    assert cells.sequence(middle, console()) == "\x1b[3;4H xy "
    assert cells.sequence(line_of(Segment("世界")), console()) == "\x1b[3;4H世界"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_application_leaves_the_screen_as_if_all_had_been_sent(language: str, tmp_path: Path) -> None:
    child, terminal = start(TOUR.replace("LANGUAGE", language), tmp_path, "transpose_naive")
    screen = pyte.Screen(120, 40)
    stream = pyte.ByteStream(screen)
    sizes = []

    def feed(keys: bytes) -> int:
        os.write(terminal, keys)
        found = read_until_idle(terminal, child)
        # pyte knows no kitty keys and no synchronized output.
        stream.feed(re.sub(rb"\x1b\[[<=>?][0-9;]*[a-zA-Z]", b"", found))
        return len(found)

    try:
        read_until_idle(terminal, child)
        feed(REDRAW)
        keys = [b"jj", b"j", b"2", b"4G", b"1", b"?", ESCAPE, b"/gemm\r", b"m", b"jc"]
        for pressed in keys:
            sizes.append(feed(pressed))
            after = seen(screen)
            if pressed == b"/gemm\r":
                # It came at once, and nothing of it was taken for a key of the list.
                assert "gemm" in next(line for line in screen.display if line.startswith("▌"))
            feed(REDRAW)
            assert seen(screen) == after, pressed
        # 23,700 bytes before only changes were sent.
        assert sizes[1] < 3_000
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
