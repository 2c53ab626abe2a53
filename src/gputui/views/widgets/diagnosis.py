"""One kernel explained: the sentence first, its numbers, up to three findings, and what is uncertain or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.render.collect import not_told
from gputui.render.lines import code_of, line_name, place_share, placed, remark_counts, remark_text
from gputui.render.text import expectation, gain, gain_beside, gauge_rows, launch_shape, sureness, what_it_is
from gputui.views import actions
from gputui.views.glyphs import Glyphs, severity_mark
from gputui.views.paper import LinesView
from gputui.views.text import Line, Segment, fit, line_width, paragraph, shorten_middle, shown, wrap

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.nvidia_rules import Remark
    from gputui.analysis.source import Source
    from gputui.model.report import Extras
    from gputui.views.library import Entry
    from gputui.wording import ReaderLevel, Wording

_PARTS = ("why", "picture", "do", "check", "sure")
_MAX_WIDTH = 116
"""Lines longer than this are hard to read back from."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the page is about. ``diagnosis``, ``extras`` and ``source`` are ``None`` until they are known.

    ``remarks`` are NVIDIA's, held against the diagnosis.
    """

    entry: Entry
    diagnosis: Diagnosis | None
    extras: Extras | None
    level: ReaderLevel
    source: Source | None = None
    remarks: tuple[Remark, ...] = ()


class DiagnosisView(LinesView):
    """The page of the selected kernel."""

    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, signs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.words = words
        self.signs = signs
        self.subject: Subject | None = None
        self.unfolded = False

    def show(self, subject: Subject | None) -> None:
        """Explain this kernel; the page stays where it is while the kernel is the same."""
        same = self.subject is not None and subject is not None and self.subject.entry is subject.entry
        if subject != self.subject or not same:
            self.subject = subject
            self.rebuild(to_top=not same)

    def toggle_evidence(self) -> None:
        self.unfolded = not self.unfolded
        self.rebuild()

    def build(self, width: int) -> list[Line]:
        subject = self.subject
        if subject is None:
            return [(), [(" ", ""), (self.words.ui("no_kernel"), "muted")]]
        inner = min(width - 2, _MAX_WIDTH)
        return [[(" ", ""), *line] for line in self._page(subject, inner)]

    def _page(self, subject: Subject, width: int) -> Iterable[Line]:
        yield from self._title(subject.entry, subject.diagnosis, width)
        yield ()
        diagnosis = subject.diagnosis
        if diagnosis is None:
            yield [(self.words.ui("verdict_pending"), "muted")]
            return
        yield from self._sentence(diagnosis, width)
        yield ()
        yield from self._gauges(diagnosis, width)
        yield from self._findings(diagnosis, subject, width)
        yield from self._not_the_problem(diagnosis, width)
        yield from self._validity(diagnosis, width)
        yield from self._nvidia(subject, diagnosis, width)
        yield from self._not_told(diagnosis, width)

    def _title(self, entry: Entry, diagnosis: Diagnosis | None, width: int) -> Iterable[Line]:
        kernel = entry.kernel
        identity, op = (entry.identity, None) if diagnosis is None else (diagnosis.identity, diagnosis.transformer_op)
        facts = self.signs.separator.join(
            (
                *what_it_is(identity, self.words, op),
                launch_shape(kernel, self.words),
                units.duration(entry.duration_ns),
            )
        )
        name = entry.title
        if width_of(name) + 3 + width_of(facts) <= width:
            yield [(name, "title"), ("   ", ""), (facts, "muted")]
        else:
            yield [(shorten_middle(name, width), "title")]
            for part in wrap(facts, width):
                yield [(part, "muted")]
        if self.unfolded and kernel.demangled != kernel.name:
            for part in wrap(shown(kernel.demangled, 1200), width)[:6]:
                yield [(part, "faint")]
        if kernel.nvtx:
            ranges = " / ".join(shown(name, 80) for name in kernel.nvtx)
            yield [(f"NVTX {shorten_middle(ranges, width - 5)}", "faint")]

    def _sentence(self, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        """The one thing to read: with a bar beside it, so that it stands out without colour too."""
        for part in wrap(self.words.verdict(diagnosis.verdict), width - 2):
            yield [(f"{self.signs.emphasis} ", "ok" if diagnosis.verdict.at_roof else "accent"), (part, "sentence")]
        differs = expectation(diagnosis, self.words)
        if differs:
            yield from paragraph(differs, width, first=[("  ", "")], indent=2, role="muted")

    # -------------------------------------------------------------- numbers

    def _gauges(self, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        rows = gauge_rows(diagnosis)
        left, right = rows[:4], rows[4:]
        leading = diagnosis.verdict.level if diagnosis.verdict.id in ("memory-bound", "latency-bound") else None
        label_left, label_right, number = 14, 17, 7
        if width >= 60:
            cells = min(24, (width - label_left - label_right - 2 * number - 3) // 2)
            for row, gauge in enumerate(left):
                line = self._gauge(*gauge, label_left, cells, leading)
                if row < len(right):
                    blanks = " " * (label_left + cells + number + 3 - line_width(line))
                    line = [*line, (blanks, ""), *self._gauge(*right[row], label_right, cells, leading)]
                yield line
        else:
            cells = max(6, min(24, width - label_right - number))
            for gauge in rows:
                yield self._gauge(*gauge, label_right, cells, leading)
            label_left = label_right
        yield self._achieved(diagnosis, label_left, width)

    def _gauge(self, id: str, value: float | None, label_cells: int, cells: int, leading: str | None) -> Line:
        label = self.words.ui(f"gauge.{id}")
        strong = id.removesuffix("-at-least") == leading
        name = (fit(label, label_cells), "strong" if strong else "muted")
        if id == "tensor" and value == 0:
            return [name, (self.words.ui("not_used"), "muted")]
        if value is None:
            return [name, (units.DASH, "faint")]
        filled = bar(value, 100, cells, ascii=self.ascii).rstrip()
        return [
            name,
            (filled, "bar-lead" if strong else "bar"),
            ((" " if self.ascii else "─") * (cells - width_of(filled)), "bar-empty"),
            (fit(units.percent(value), 7, right=True), "strong" if strong else "number"),
        ]

    def _achieved(self, diagnosis: Diagnosis, label_cells: int, width: int) -> Line:
        gauges = diagnosis.gauges
        flops = gauges.achieved_flop_per_s
        parts = []
        if flops is not None:
            parts.append(self.words.ui("flops", flops=flops) if flops else self.words.ui("no_arithmetic"))
        if gauges.dram_bytes_per_s is not None:
            parts.append(self.words.ui("from_dram", rate=gauges.dram_bytes_per_s))
        text = fit(self.signs.separator.join(parts) or units.DASH, max(0, width - label_cells)).rstrip()
        return [(fit(self.words.ui("gauge.achieved"), label_cells), "muted"), (text, "number")]

    # -------------------------------------------------------------- findings

    def _findings(self, diagnosis: Diagnosis, subject: Subject, width: int) -> Iterable[Line]:
        if not diagnosis.main and not diagnosis.verdict.at_roof:
            yield ()
            key = "nothing_unknown" if diagnosis.verdict.id == "unknown" else "nothing"
            yield from paragraph(self.words.ui(key), width, role="muted")
        for number, finding in enumerate(diagnosis.main, 1):
            yield ()
            yield from self._finding(number, finding, diagnosis, subject, width)

    def _finding(
        self, number: int, finding: Finding, diagnosis: Diagnosis, subject: Subject, width: int
    ) -> Iterable[Line]:
        text = self.words.finding(finding, diagnosis.tags)
        mark, role = severity_mark(finding.severity, self.signs)
        worth = gain(finding, self.words)
        title = wrap(text.title, width - 7 - width_of(worth))
        for part_number, part in enumerate(title):
            lead: Line = [(f"{number} ", "strong"), (mark, role), ("  ", "")] if part_number == 0 else [("     ", "")]
            line = [*lead, (part, "strong")]
            if part_number == 0:
                line += [(" " * (width - line_width(line) - width_of(worth)), ""), (worth, f"gain-{finding.severity}")]
            yield line
        yield from self._where(finding, subject.source, width)
        yield from self._part("why", (text.why,), width)
        yield from self._part("picture", (text.analogy,), width, role="muted")
        actions_of_level = text.actions[subject.level]
        if actions_of_level:
            yield from self._part("do", actions_of_level, width, role="do")
        yield from self._part("check", (text.verify,), width)
        yield from self._part("sure", (sureness(finding, self.words),), width, role="muted")
        if self.unfolded:
            yield from self._evidence(finding, width)

    def _where(self, finding: Finding, source: Source | None, width: int) -> Iterable[Line]:
        """The line that the finding is about: its place, its code, how much of the evidence it carries."""
        place = placed(source, finding)
        if place is None:
            return
        label, indent = self.words.text("source.where"), self._part_indent
        name = line_name(place.line, self.words)
        lead: Line = [("     ", ""), (fit(label, indent - 5), "label-word"), (name, "accent"), ("  ", "")]
        yield [*lead, (fit(code_of(place.line), max(0, width - line_width(lead))).rstrip(), "code")]
        key = actions.BY_ID["where"].footer_key()
        share = f"{place_share(place, self.words)}   "
        line: Line = [
            (" " * indent, ""),
            (share, "muted"),
            (key, "key"),
            (f" {self.words.ui('footer.where')}", "faint"),
        ]
        yield line if line_width(line) <= width else line[:2]

    @property
    def _part_indent(self) -> int:
        labels = [*(self.words.text(f"explain.{id}") for id in _PARTS), self.words.text("source.where")]
        return 7 + max(map(width_of, labels))

    def _part(self, id: str, texts: Sequence[str], width: int, role: str = "") -> Iterable[Line]:
        label = self.words.text(f"explain.{id}")
        indent = self._part_indent
        for number, text in enumerate(texts):
            bullet = f"{self.signs.bullet} " if len(texts) > 1 else ""
            first: Line = [("     ", ""), (label if number == 0 else "", "label-word")]
            lead = [*first, (" " * max(0, indent - line_width(first)), ""), (bullet, "accent")]
            yield from paragraph(text, width, first=lead, indent=indent + width_of(bullet), role=role)

    def _evidence(self, finding: Finding, width: int) -> Iterable[Line]:
        label, indent = self.words.ui("numbers"), self._part_indent
        for number, one in enumerate(finding.evidence):
            lead: Line = [("     ", ""), (fit(label if number == 0 else "", indent - 5), "label-word")]
            value = units.quantity(one.value, one.unit)
            if one.threshold is not None:
                value = self.words.ui("evidence_limit", value=value, limit=units.quantity(one.threshold, one.unit))
            yield from paragraph(value, width, first=lead, indent=indent, role="number")
            yield [(" " * (indent + 2), ""), (shorten_middle(shown(one.metric), max(12, width - indent - 2)), "code")]
        yield from paragraph(self.words.ui("look_up", id=finding.id), width, indent=indent, role="faint")

    # -------------------------------------------------------------- what else there is to say

    def _not_the_problem(self, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        number_of = {finding.id: number for number, finding in enumerate(diagnosis.main, 1)}
        effects = []
        for finding in diagnosis.effects:
            name, cause = self.words.finding_name(finding.id), diagnosis.explained[finding.id]
            if cause in number_of:
                effects.append(self.words.ui("effect_of", name=name, number=number_of[cause]))
            else:
                effects.append(self.words.ui("effect_of_other", name=name, cause=self.words.finding_name(cause)))
        further = [
            f"{self.words.finding_name(one.id)} ({gain_beside(one, diagnosis, self.words)})"
            for one in diagnosis.further
        ]
        if effects or further:
            yield ()
        if effects:
            yield from self._note("not_the_problem", ", ".join(effects), width)
        if further:
            yield from self._note("also", ", ".join(further), width)

    def _note(self, id: str, text: str, width: int, role: str = "muted") -> Iterable[Line]:
        label = self.words.ui(id)
        yield from paragraph(
            text, width, first=[(label, "label-word"), ("  ", "")], indent=width_of(label) + 2, role=role
        )

    def _validity(self, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        # That a report holds one launch is so common that it is told only to those who ask for more.
        notes = [one for one in diagnosis.validity if self.unfolded or one.id != "single-launch"]
        if not notes:
            return
        yield ()
        yield [(self.words.ui("validity"), "label-word")]
        for finding in notes:
            text = self.words.finding(finding)
            yield from paragraph(text.title, width, first=[("  ! ", "warning")], indent=4, role="muted")
            if self.unfolded:
                yield from paragraph(text.why, width, indent=4, role="faint")

    def _nvidia(self, subject: Subject, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        if subject.extras is None:
            return
        yield ()
        label = self.words.ui("nvidia_rules")
        remarks = [remark for remark in subject.remarks if remark.rule.message or remark.rule.title]
        if not remarks:
            yield [(label, "label-word"), (f"  {self.words.ui('nvidia_nothing')}", "muted")]
            return
        more = "" if self.unfolded else f"   {self.signs.enter} {self.words.ui('unfold')}"
        count = f"{self.words.ui('nvidia_count', count=len(remarks))}: {remark_counts(remarks, self.words)}"
        lead: Line = [(label, "label-word"), ("  ", "")]
        lines = paragraph(count, width, first=lead, indent=line_width(lead), role="muted")
        if line_width(lines[-1]) + width_of(more) <= width:
            lines[-1] = [*lines[-1], (more, "faint")]
        yield from lines
        if self.unfolded:
            for remark in remarks:
                yield from self._remark(remark, diagnosis, width)

    def _remark(self, remark: Remark, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        rule = remark.rule
        title = shown(rule.title or rule.rule)
        if rule.speedup_pct:
            key = "nvidia_estimate" if rule.speedup_is_global else "nvidia_estimate_local"
            title = f"{title}  {self.words.ui(key, percent=rule.speedup_pct)}"
        yield ()
        yield from paragraph(title, width, first=[(f"  {self.signs.bullet} ", "accent")], indent=4, role="strong")
        yield from paragraph(
            remark_text(remark, diagnosis, self.words), width, first=[("    ", ""), self._mark(remark)], indent=6
        )
        yield from paragraph(shown(rule.message, 1500), width, indent=4, role="faint")

    def _mark(self, remark: Remark) -> Segment:
        """Whether a remark says the same as we do, in one sign."""
        if remark.relation == "agrees":
            return self.signs.ok, "ok"
        if remark.relation in ("effect", "differs"):
            return self.signs.warning, "warning"
        return (self.signs.unknown if remark.relation == "not-checked" else self.signs.waiting), "faint"

    def _not_told(self, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        told = not_told(diagnosis.not_checked, self.words, diagnosis.kernel.device)
        if told.what is not None or told.never is not None:
            yield ()
        if told.what is not None and told.command is not None:
            label = self.words.text("explain.not-told")
            first: Line = [(label, "label-word"), (" ", "")]
            yield from paragraph(told.what, width, first=first, indent=2, role="muted")
            label = self.words.ui("collect")
            first = [("  ", ""), (label, "muted"), (" ", "")]
            yield from paragraph(told.command, width, first=first, indent=3 + width_of(label), role="code")
        if told.version is not None:
            yield from paragraph(told.version, width, first=[("  ", "")], indent=2, role="muted")
        if told.never is not None:
            label = self.words.text("explain.not-told-never")
            first = [(label, "label-word"), (" ", "")]
            yield from paragraph(told.never, width, first=first, indent=2, role="muted")
