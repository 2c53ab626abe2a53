"""What a change did, at a glance: faster or not, and the three answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gputui.paint.grid import width_of
from gputui.views.glyphs import Glyphs
from gputui.views.text import Line, fit, paragraph, wrap
from gputui.views.widgets.one_line import OneLine

if TYPE_CHECKING:
    from gputui.render.compare_rows import AnswerRow, Head

_OUTCOME_ROLES = {"faster": "ok", "slower": "high", "no-difference": "strong", "inconclusive": "warning"}
_ANSWER_ROLES = {"yes": "ok", "no": "high", "unknown": "warning"}
_MOST_WIDTH = 140


class Answers(OneLine):
    """The headline, an answer a row, and where the bottleneck went; as many lines as they take."""

    def __init__(self, signs: Glyphs) -> None:
        super().__init__(id="answers")
        self.signs = signs
        self.head: Head | None = None
        self.shift = ""
        self.is_roomy = True
        """Whether there is room for empty lines and for every word."""

    def show(self, head: Head, shift: str, *, is_roomy: bool) -> None:
        """``shift`` says where the bottleneck went."""
        self.head, self.shift, self.is_roomy = head, shift, is_roomy
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        self._lines = [[(" ", ""), *line] for line in self._build(min(self.size.width - 2, _MOST_WIDTH))]
        self.styles.height = len(self._lines)
        self.refresh()

    def _build(self, width: int) -> Iterable[Line]:
        head = self.head
        if head is None or width <= 0:
            return
        if self.is_roomy:
            yield ()
        role = _OUTCOME_ROLES[head.outcome]
        for part in wrap(head.headline, width - 2):
            yield [(f"{self.signs.emphasis} ", role), (part, role)]
        for text in head.further if self.is_roomy else ():
            yield from paragraph(text, width, first=[("  ", "")], indent=2, role="muted")
        if self.is_roomy:
            yield ()
        yield from self._answers(head.answers, width)
        if self.shift:
            yield from paragraph(self.shift, width, first=[("  ", "")], indent=2, role="muted")
        if self.is_roomy:
            yield ()

    def _answers(self, rows: Sequence[AnswerRow], width: int) -> Iterable[Line]:
        signs = {"yes": self.signs.done, "no": self.signs.no, "unknown": self.signs.unknown}
        mark_cells = max(map(width_of, signs.values())) + 1
        title_cells = max(width_of(row.title) for row in rows) + 3
        for row in rows:
            role = "muted" if row.same else _ANSWER_ROLES[row.mark]
            yield [
                (fit("=" if row.same else signs[row.mark], mark_cells), role),
                (fit(row.title, title_cells), "strong"),
                (row.numbers, "number"),
            ]
            if row.note and self.is_roomy:
                yield from paragraph(row.note, width, indent=mark_cells, role="muted")
