"""The strip on top of the run screen: which step of the run is done, which one it is at, and where the files go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gputui.paint.grid import width_of
from gputui.views.text import Line, Segment, line_width, shorten_middle
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.views.glyphs import Glyphs
    from gputui.wording import Wording

Stage = Literal["check", "timeline", "choose", "counters", "explain"]
STAGES: tuple[Stage, ...] = ("check", "timeline", "choose", "counters", "explain")
_LEAST_FOLDER = 12


class StageStrip(OneLine):
    def __init__(self, words: Wording, signs: Glyphs) -> None:
        super().__init__(id="stages")
        self.words = words
        self.signs = signs
        self._shown: tuple[frozenset[Stage], frozenset[Stage], Stage, str, str]
        self._shown = (frozenset(), frozenset(), "check", "", "")

    def show(self, done: frozenset[Stage], troubled: frozenset[Stage], now: Stage, clock: str, folder: str) -> None:
        """``troubled`` are steps in which something went wrong; ``clock`` is how long the step has been running, empty
        where nothing runs."""
        new = (done, troubled, now, clock, folder)
        if new != self._shown:
            self._shown = new
            self.refresh()

    def lines(self, width: int) -> list[Line]:
        folder = self._shown[-1]
        line = self._stages(named=True)
        if line_width(line) > width:
            line = self._stages(named=False)
        room = width - line_width(line) - 2
        if folder and room >= _LEAST_FOLDER:
            text = shorten_middle(folder if width_of(folder) <= room else folder.rpartition("/")[2], room)
            line += [(" " * (width - line_width(line) - width_of(text) - 1), ""), (text, "faint")]
        return [line]

    def _stages(self, *, named: bool) -> list[Segment]:
        """All steps; where there is no room, only the one it is at by name."""
        done, troubled, now, clock, _ = self._shown
        line: list[Segment] = []
        for number, stage in enumerate(STAGES, 1):
            name = f" {self.words.text(f'run.stage.{stage}')}" if named or stage == now else ""
            role = "accent" if stage == now else "muted" if stage in done else "faint"
            line.append((f"{self.signs.here if stage == now else ' '}{number}{name}", role))
            if stage == now:
                line.append((f" {clock}" if clock else "", "number"))
            elif stage in troubled:
                line.append((f" {self.signs.warning}", "warning"))
            elif stage in done:
                line.append((f" {self.signs.done}", "ok"))
            line.append((" ", ""))
        return line
