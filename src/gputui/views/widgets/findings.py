"""A page with findings: how one is told in full, its numbers, and notes with a label. What all diagnoses share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gputui import units
from gputui.paint.grid import width_of
from gputui.render.text import gain, sureness
from gputui.render.timeline_rows import command_lines
from gputui.views import actions
from gputui.views.glyphs import Glyphs, severity_mark
from gputui.views.paper import LinesView
from gputui.views.text import Line, broken, fit, line_width, paragraph, shorten_middle, shown, wrap

if TYPE_CHECKING:
    from gputui.analysis.finding import Finding
    from gputui.wording import FindingText, ReaderLevel, Wording

_PARTS = ("why", "picture", "do", "check", "sure")
MAX_WIDTH = 116
"""Lines longer than this are hard to read back from."""


class FindingsView(LinesView):
    """The parts; a subclass says in ``build`` what stands on its page."""

    LOOK_UP = "look_up"
    """The text that says where a finding is documented."""
    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, signs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.words = words
        self.signs = signs
        self.unfolded = False

    def toggle_evidence(self) -> None:
        self.unfolded = not self.unfolded
        self.rebuild()

    def sentence(self, text: str, width: int, role: str = "accent") -> Iterable[Line]:
        """The one thing to read: with a bar beside it, so that it stands out without colour too."""
        for part in wrap(text, width - 2):
            yield [(f"{self.signs.emphasis} ", role), (part, "sentence")]

    def finding(
        self,
        number: int,
        finding: Finding,
        text: FindingText,
        level: ReaderLevel,
        width: int,
        *,
        where: Iterable[Line] = (),
        is_current: bool = False,
    ) -> Iterable[Line]:
        """One in full; ``where`` are the lines that say what place it is about."""
        mark, role = severity_mark(finding.severity, self.signs)
        worth = gain(finding, self.words)
        for part_number, part in enumerate(wrap(text.title, width - 7 - width_of(worth))):
            lead: Line = [(f"{number} ", "strong"), (mark, role), ("  ", "")] if part_number == 0 else [("     ", "")]
            line = [*lead, (part, "title-current" if is_current else "strong")]
            if part_number == 0:
                line += [(" " * (width - line_width(line) - width_of(worth)), ""), (worth, f"gain-{finding.severity}")]
            yield line
        yield from where
        yield from self._part("why", (text.why,), width)
        yield from self._part("picture", (text.analogy,), width, role="muted")
        if text.actions[level]:
            yield from self._part("do", text.actions[level], width, role="do")
        yield from self._part("check", (text.verify,), width)
        yield from self._part("sure", (sureness(finding, self.words),), width, role="muted")
        if self.unfolded:
            yield from self._evidence(finding, width)

    @property
    def part_indent(self) -> int:
        labels = [*(self.words.text(f"explain.{id}") for id in _PARTS), self.words.text("source.where")]
        return 7 + max(map(width_of, labels))

    def _part(self, id: str, texts: Sequence[str], width: int, role: str = "") -> Iterable[Line]:
        label = self.words.text(f"explain.{id}")
        indent = self.part_indent
        for number, text in enumerate(texts):
            bullet = f"{self.signs.bullet} " if len(texts) > 1 else ""
            first: Line = [("     ", ""), (label if number == 0 else "", "label-word")]
            lead = [*first, (" " * max(0, indent - line_width(first)), ""), (bullet, "accent")]
            yield from paragraph(text, width, first=lead, indent=indent + width_of(bullet), role=role)

    def _evidence(self, finding: Finding, width: int) -> Iterable[Line]:
        label, indent = self.words.ui("numbers"), self.part_indent
        for number, one in enumerate(finding.evidence):
            lead: Line = [("     ", ""), (fit(label if number == 0 else "", indent - 5), "label-word")]
            value = units.quantity(one.value, one.unit)
            if one.threshold is not None:
                value = self.words.ui("evidence_limit", value=value, limit=units.quantity(one.threshold, one.unit))
            yield from paragraph(value, width, first=lead, indent=indent, role="number")
            yield [(" " * (indent + 2), ""), (shorten_middle(shown(one.metric), max(12, width - indent - 2)), "code")]
        yield from paragraph(self.words.ui(self.LOOK_UP, id=finding.id), width, indent=indent, role="faint")

    def place(self, name: str, share: str, width: int, key_label: str, code: str = "") -> Iterable[Line]:
        """What a finding is about, and the key that goes there: ``name``, ``code``, then ``share`` if there is any."""
        label, indent = self.words.text("source.where"), self.part_indent
        lead: Line = [("     ", ""), (fit(label, indent - 5), "label-word")]
        key: Line = [("   ", ""), (actions.BY_ID["where"].footer_key(), "key"), (f" {key_label}", "faint")]
        if code:
            first: Line = [*lead, (name, "accent"), ("  ", "")]
            yield [*first, (fit(code, max(0, width - line_width(first))).rstrip(), "code")]
            last: Line = [(" " * indent, ""), (share, "muted")]
        else:
            *above, last = paragraph(name, width, first=lead, indent=indent, role="accent")
            yield from above
        if line_width([*last, *key]) <= width:
            yield [*last, *key]
        else:
            yield last
            if not code:
                yield [(" " * indent, ""), *key[1:]]

    def command(self, command: Sequence[str], width: int) -> Iterable[Line]:
        """A command, whole: over several lines as a shell reads them."""
        for line in command_lines(command, width - 2):
            for part in broken(line, width - 2):
                yield [("  ", ""), (part, "code")]

    def note(self, id: str, text: str, width: int, role: str = "muted") -> Iterable[Line]:
        label = self.words.ui(id)
        first: Line = [(label, "label-word"), ("  ", "")]
        yield from paragraph(text, width, first=first, indent=width_of(label) + 2, role=role)

    def effects(
        self, main: Sequence[Finding], effects: Sequence[Finding], cause_of: Mapping[str, str], width: int
    ) -> Iterable[Line]:
        """What is not the problem: findings that another one explains."""
        number_of = {finding.id: number for number, finding in enumerate(main, 1)}
        texts = []
        for finding in effects:
            name, cause = self.words.finding_name(finding.id), cause_of[finding.id]
            if cause in number_of:
                texts.append(self.words.ui("effect_of", name=name, number=number_of[cause]))
            else:
                texts.append(self.words.ui("effect_of_other", name=name, cause=self.words.finding_name(cause)))
        if texts:
            yield from self.note("not_the_problem", ", ".join(texts), width)

    def validity(self, findings: Sequence[Finding], width: int) -> Iterable[Line]:
        """How far to trust the numbers."""
        if not findings:
            return
        yield ()
        yield [(self.words.ui("validity"), "label-word")]
        for finding in findings:
            text = self.words.finding(finding)
            yield from paragraph(text.title, width, first=[("  ! ", "warning")], indent=4, role="muted")
            if self.unfolded:
                yield from paragraph(text.why, width, indent=4, role="faint")
