"""The window and the cursor of the timeline pane: arithmetic alone."""

from __future__ import annotations

import numpy as np
import pytest

from gputui.views.timeline_stand import Stand


def stand(start: int = 0, end: int = 1_000_000, cursor: int = 500_000) -> Stand:
    made = Stand((0, 1_000_000), (200_000, 300_000))
    made.look_at(start, end - start)
    made.cursor_ns = cursor
    return made


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_moves_window_and_cursor_stay_in_the_capture_and_together(seed: int) -> None:
    random = np.random.default_rng(seed)
    one = stand()
    for move in random.integers(0, 6, 300).tolist():
        number = int(random.integers(-400_000, 1_400_000))
        if move == 0:
            one.zoom(0.5 if number % 2 else 2.0)
        elif move == 1:
            one.pan(number)
        elif move == 2:
            one.put_cursor(number)
        elif move == 3:
            one.frame(number, number + abs(number) // 10)
            one.put_cursor(number)
        elif move == 4:
            one.fit((number, number + 1000))
            one.put_cursor(number)
        else:
            one.fit_next()
            one.put_cursor(one.cursor_ns)
        assert 0 <= one.start_ns < one.end_ns <= 1_000_000
        assert one.span_ns >= one.least_ns
        assert 0 <= one.cursor_ns <= 1_000_000
        assert one.start_ns <= one.cursor_ns <= one.end_ns


def test_zooming_in_and_out_again_comes_back() -> None:
    one = stand(cursor=123_456)
    for _ in range(8):
        one.zoom(0.5)
    assert one.span_ns == pytest.approx(1_000_000 / 256, abs=1)
    assert (123_456 - one.start_ns) / one.span_ns == pytest.approx(0.123456, abs=1e-3)
    for _ in range(8):
        one.zoom(2)
    assert one.span_ns == pytest.approx(1_000_000, rel=1e-3)
    one.zoom(2)
    assert (one.start_ns, one.end_ns) == (0, 1_000_000)


def test_panning_past_the_end_moves_the_cursor_alone() -> None:
    one = stand(800_000, 1_000_000, 850_000)
    one.pan(100_000)
    assert (one.start_ns, one.end_ns, one.cursor_ns) == (800_000, 1_000_000, 950_000)


def test_the_cursor_outside_brings_the_window_along_at_the_same_zoom() -> None:
    one = stand(0, 90_000, 50_000)
    one.put_cursor(500_000)
    assert (one.start_ns, one.end_ns) == (470_000, 560_000)


def test_whole_and_work_take_turns() -> None:
    one = stand(10, 5000)
    one.fit_next()
    assert (one.start_ns, one.end_ns) == (0, 1_000_000)
    one.fit_next()
    assert (one.start_ns, one.end_ns) == (198_000, 302_000)


def test_marks_come_in_order_and_go_together() -> None:
    one = stand()
    assert one.measured is None
    one.measure()
    one.put_cursor(400_000)
    assert one.measured == (400_000, 500_000)
    one.measure()
    one.put_cursor(0)
    assert one.measured == (400_000, 500_000)
    one.measure()
    assert one.measured is None
    assert not one.clear()


def test_a_bookmark_near_the_cursor_is_taken_away_instead() -> None:
    one = stand()
    one.toggle_bookmark(10)
    one.put_cursor(500_005)
    one.toggle_bookmark(10)
    assert one.bookmarks == ()
    assert not one.next_bookmark()
