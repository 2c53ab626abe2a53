"""How far a running command is, in a line or two that change alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.views.text import Line, Segment, paragraph, shorten_middle, shown
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.views.guide import Guide
    from gputui.wording import Wording

_BAR = 16


class RunStatus(OneLine):
    DEFAULT_CSS = "RunStatus { height: 2; }"

    def __init__(self, guide: Guide, words: Wording) -> None:
        super().__init__(id="run-status")
        self.guide = guide
        self.words = words
        self._now: list[Line] = []

    def update_lines(self) -> None:
        """Paint, if anything has changed."""
        width = self.size.width
        sentence, role = self._sentence()
        new = [[(" ", ""), *line] for line in paragraph(sentence, width - 2, role=role)] + [self._measure(width)]
        if new != self._now:
            if len(new) != len(self._now):
                self.styles.height = len(new)
            self._now = new
            self.refresh()

    def on_resize(self) -> None:
        self.update_lines()

    def lines(self, width: int) -> list[Line]:
        return self._now

    def _sentence(self) -> Segment:
        guide, now = self.guide, self.guide.live.now
        is_timeline = guide.stage == "timeline"
        if guide.live.lost_why:
            return self._say("lost", "warning", why=shown(guide.live.lost_why, 200))
        if guide.asks_to_quit:
            return self._say("quit", "warning")
        if guide.stops > 1:
            return self._say("ending", "warning")
        if guide.stops:
            return self._say("stopping_and_quit" if guide.quits else "stopping", "warning")
        if guide.live.copied is not None:
            return self._say("copying", "sentence", name=shown(guide.live.copied.name, 60))
        if now is not None and now.is_writing:
            return self._say("writing", "sentence", tool="Nsight Systems" if is_timeline else "Nsight Compute")
        if is_timeline:
            return self._say("recording", "sentence")
        key = "counting_one" if len(guide.commands) == 1 else "counting"
        return self._say(key, "sentence", number=guide.place + 1, count=len(guide.commands))

    def _say(self, key: str, role: str, **params: object) -> Segment:
        return self.words.text(f"guide.{key}", **params), role

    def _measure(self, width: int) -> Line:
        """Numbers: what is copied, the kernel and its passes, the report's size."""
        copied, now = self.guide.live.copied, self.guide.live.now
        if copied is not None:
            size = self.words.text("guide.part", done=copied.done, total=copied.total)
            return [
                (" ", ""),
                (bar(copied.done, copied.total, _BAR, ascii=self.ascii), "bar-lead"),
                (f" {size}", "muted"),
            ]
        if now is None:
            return ()
        if not now.kernel:
            return [(" ", ""), (self.words.text("guide.size", size=now.size), "muted")] if now.size else ()
        key = "launch" if now.launches else "launch_of_unknown"
        launch = self.words.text(f"guide.{key}", launch=now.launch, launches=now.launches)
        tail: list[Segment] = [
            (f"  {launch}  ", "muted"),
            (bar(now.percent, 100, _BAR, ascii=self.ascii), "bar-lead"),
            (f" {units.percent(now.percent)}", "number"),
        ]
        room = width - 2 - sum(width_of(text) for text, _ in tail)
        return [(" ", ""), (shorten_middle(shown(now.kernel), max(8, room)), "strong"), *tail]
