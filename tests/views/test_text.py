from __future__ import annotations

import pytest

from gputui.paint.grid import width_of
from gputui.views.text import broken, cut, fit, paragraph, shorten_middle, shown, wrap

LONG = "void at::native::" + "vectorized_elementwise_kernel<" * 200


@pytest.mark.parametrize(
    "text", ["", "word", "many words in a row " * 9, "日本語の文章、句読点。" * 5, LONG, "混ざった text と 日本語 " * 5]
)
@pytest.mark.parametrize("cells", [1, 2, 7, 40])
def test_wrapped_lines_fit_and_lose_nothing(text: str, cells: int) -> None:
    lines = wrap(text, cells)
    assert all(width_of(line) <= max(cells, 2) for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["", "nsys  profile --trace=cuda", LONG, "混ざった text と 日本語"])
@pytest.mark.parametrize("cells", [2, 7, 40])
def test_code_is_broken_anywhere_and_nothing_of_it_is_lost(text: str, cells: int) -> None:
    lines = broken(text, cells)
    assert all(width_of(line) <= cells for line in lines)
    assert "".join(lines) == text


def test_a_number_keeps_its_unit() -> None:
    assert wrap("it takes 524 µs and 91 % of it", 12) == ["it takes", "524 µs and", "91 % of it"]


@pytest.mark.parametrize("cells", range(8, 40))
def test_what_begins_no_line_takes_the_character_before_it_along(cells: int) -> None:
    text = "ロード/ストアユニット、L1 キャッシュ、共有メモリのいずれかである。" * 3
    lines = wrap(text, cells)
    assert not [line for line in lines if line[0] in "、。ュッ"]
    assert all(width_of(line) <= cells for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ["short", "a" * 50, "日本語" * 10])
@pytest.mark.parametrize("cells", [1, 5, 12, 60])
def test_fit_is_exact(text: str, cells: int) -> None:
    assert width_of(fit(text, cells)) == cells
    assert width_of(fit(text, cells, right=True)) == cells
    assert width_of(shorten_middle(text, cells)) <= cells
    assert width_of(cut(text, cells)) <= cells


def test_shorten_middle_keeps_both_ends() -> None:
    text = shorten_middle("transposeSmemUnrollPad", 13)
    assert text.startswith("transp")
    assert text.endswith("ollPad")


def test_strangers_text_is_made_safe() -> None:
    assert "\x1b" not in shown("\x1b[31mred")
    assert "\u202e" not in shown("a\u202eb")
    assert "\n" not in shown("a\nb")
    assert len(shown("x" * 10_000)) == 400


def test_paragraph_hangs() -> None:
    lines = paragraph("one two three four", 12, first=[("Why", "")], indent=5)
    assert "".join(text for text, _ in lines[0]).startswith("Why  one")
    assert "".join(text for text, _ in lines[1]).startswith("     ")
