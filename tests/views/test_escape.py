"""The escape key, and the keys whose sequences begin with it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from textual import constants
from textual.drivers import linux_driver
from textual.events import Key

from gputui.views import escape


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What is written here is typed."""
    typed, keyboard = os.pipe()
    monkeypatch.setattr(constants, "ESCAPE_DELAY", constants.ESCAPE_DELAY)
    monkeypatch.setattr(linux_driver, "XTermParser", None)
    monkeypatch.delenv("ESCDELAY", raising=False)
    with os.fdopen(typed) as stdin:
        monkeypatch.setattr("sys.__stdin__", stdin)
        escape.shorten_wait()
        yield keyboard
        os.close(keyboard)


def keys(messages: object) -> list[str]:
    return [message.key for message in messages if isinstance(message, Key)]  # type: ignore[attr-defined]


def test_an_escape_alone_is_told_when_first_asked(keyboard: int) -> None:
    parser = linux_driver.XTermParser()  # type: ignore[attr-defined]
    assert keys(parser.feed("\x1b")) == []
    assert keys(parser.tick()) == ["escape"]
    assert keys(parser.tick()) == []


def test_a_sequence_that_comes_in_two_parts_is_one_key(keyboard: int) -> None:
    constants.ESCAPE_DELAY = 60.0  # type: ignore[misc]
    parser = linux_driver.XTermParser()  # type: ignore[attr-defined]
    assert keys(parser.feed("\x1b")) == []
    os.write(keyboard, b"[A")
    assert keys(parser.tick()) == []
    assert keys(parser.feed("[A")) == ["up"]
    assert keys(parser.tick()) == []


def test_a_wait_that_the_user_set_is_kept(keyboard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESCDELAY", "300")
    constants.ESCAPE_DELAY = 0.3  # type: ignore[misc]
    escape.shorten_wait()
    assert constants.ESCAPE_DELAY == 0.3
