"""The strip under the header: what the reader must know of the files."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.views.text import Line, fit
from gputui.views.widgets.one_line import OneLine


class Notices(OneLine):
    """What the reader must know of the files, one line each; not there where there is nothing to say."""

    MOST = 2

    def __init__(self) -> None:
        super().__init__(id="notices")
        self.texts: tuple[str, ...] = ()
        self.display = False

    def show(self, texts: Sequence[str], more: str) -> None:
        shown = list(texts[: self.MOST])
        if len(texts) > self.MOST:
            shown[-1] += f"  {more}"
        self.texts = tuple(shown)
        self.styles.height = len(shown)
        self.display = bool(shown)
        self.refresh()

    def lines(self, width: int) -> list[Line]:
        return [[(" ! ", "warning"), (fit(text, width - 4), "")] for text in self.texts]
