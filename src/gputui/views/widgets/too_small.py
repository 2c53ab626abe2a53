"""What stands in place of a screen that has no room."""

from __future__ import annotations

from typing import Any

from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from gputui.wording import Wording

_LEAST = Size(60, 15)


class TooSmall(Static):
    def __init__(self, words: Wording) -> None:
        super().__init__("", id="too-small", markup=False)
        self.words = words

    def fit(self, screen: Screen[Any], size: Size) -> None:
        """Take the place of everything else (class ``-tiny`` of ``screen``) where the terminal is too small for it."""
        is_tiny = size.width < _LEAST.width or size.height < _LEAST.height
        screen.set_class(is_tiny, "-tiny")
        if is_tiny:
            self.update(
                self.words.ui(
                    "too_small", width=size.width, height=size.height, least=_LEAST.width, least_height=_LEAST.height
                )
            )
