"""The strip under the header: what the reader must know of the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputui.views.text import Line, fit, shown
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.views.library import Library
    from gputui.wording import Wording

_CUT = ("truncated", "truncated-end", "damaged", "damaged-tables", "trace-cut", "trace-damaged")
"""Notices that say what a cut-off file has lost."""


class Notices(OneLine):
    """What the reader must know of the files, one line each; not there where there is nothing to say."""

    MOST = 2

    def __init__(self) -> None:
        super().__init__(id="notices")
        self.texts: tuple[str, ...] = ()
        self.urgent = 0
        self.display = False

    def show(self, texts: Sequence[str], more: str, *, urgent: int = 0) -> None:
        """``more`` says how many have no room; the first ``urgent`` ones are lit."""
        shown = list(texts[: self.MOST])
        if len(texts) > self.MOST:
            shown[-1] += f"  {more}"
        self.texts, self.urgent = tuple(shown), urgent
        self.styles.height = len(shown)
        self.display = bool(shown)
        self.refresh()

    def lines(self, width: int) -> list[Line]:
        return [
            [(" ! ", "warning"), (fit(text, width - 4), "caution" if place < self.urgent else "")]
            for place, text in enumerate(self.texts)
        ]


def texts_of(library: Library, words: Wording, *, was_stopped: bool) -> list[str]:
    """What there is to say: what the profilers told, files left out, each report's own notices, that reading was
    stopped."""
    several = len(library.reports) + len(library.failures) > 1
    texts = [shown(remark) for remark in library.remarks]
    for failure in library.failures:
        texts.append(words.ui("not_opened", file=shown(failure.title.rsplit("/", 1)[-1]), why=shown(failure.message)))
    for loaded in library.reports:
        lead = f"{loaded.name}: " if several else ""
        texts += [f"{lead}{shown(words.notice(notice))}" for notice in loaded.report.notices]
        if loaded.report.truncated and not any(notice.id in _CUT for notice in loaded.report.notices):
            texts.append(lead + words.ui("truncated"))
    if was_stopped:
        texts.append(words.ui("stopped"))
    return texts
