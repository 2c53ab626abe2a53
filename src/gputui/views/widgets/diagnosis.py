"""One kernel explained: the sentence first, its numbers, up to three findings, and what is uncertain or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.render.collect import not_told
from gputui.render.lines import code_of, line_name, place_share, placed, remark_counts, remark_text
from gputui.render.text import expectation, gain_beside, gauge_rows, launch_shape, what_it_is
from gputui.views.glyphs import Glyphs
from gputui.views.text import Line, Segment, fit, line_width, paragraph, shorten_middle, shown, wrap
from gputui.views.widgets.findings import MAX_WIDTH, FindingsView

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.finding import Finding
    from gputui.analysis.nvidia_rules import Remark
    from gputui.analysis.source import Source
    from gputui.model.report import Extras
    from gputui.views.library import Entry
    from gputui.wording import ReaderLevel, Wording


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


class DiagnosisView(FindingsView):
    """The page of the selected kernel."""

    def __init__(self, words: Wording, signs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(words, signs, id=id)
        self.subject: Subject | None = None

    def show(self, subject: Subject | None) -> None:
        """Explain this kernel; the page stays where it is while the kernel is the same."""
        same = self.subject is not None and subject is not None and self.subject.entry is subject.entry
        if subject != self.subject or not same:
            self.subject = subject
            self.rebuild(to_top=not same)

    def build(self, width: int) -> list[Line]:
        subject = self.subject
        if subject is None:
            return [(), [(" ", ""), (self.words.ui("no_kernel"), "muted")]]
        inner = min(width - 2, MAX_WIDTH)
        return [[(" ", ""), *line] for line in self.page(subject, inner)]

    def page(self, subject: Subject, width: int) -> Iterable[Line]:
        """Everything about one launch."""
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
        # That a report holds one launch is so common that it is told only to those who ask for more.
        validity = [one for one in diagnosis.validity if self.unfolded or one.id != "single-launch"]
        yield from self.validity(validity, width)
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
        role = "ok" if diagnosis.verdict.at_roof else "accent"
        yield from self.sentence(self.words.verdict(diagnosis.verdict), width, role)
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
            text = self.words.finding(finding, diagnosis.tags)
            where = self._where(finding, subject.source, width)
            yield from self.finding(number, finding, text, subject.level, width, where=where)

    def _where(self, finding: Finding, source: Source | None, width: int) -> Iterable[Line]:
        """The line that the finding is about: its place, its code, how much of the evidence it carries."""
        place = placed(source, finding)
        if place is None:
            return
        name, code = line_name(place.line, self.words), code_of(place.line)
        share, key_label = place_share(place, self.words), self.words.ui("footer.where")
        yield from self.place(name, share, width, key_label, code)

    # -------------------------------------------------------------- what else there is to say

    def _not_the_problem(self, diagnosis: Diagnosis, width: int) -> Iterable[Line]:
        further = [
            f"{self.words.finding_name(one.id)} ({gain_beside(one, diagnosis, self.words)})"
            for one in diagnosis.further
        ]
        if diagnosis.effects or further:
            yield ()
        yield from self.effects(diagnosis.main, diagnosis.effects, diagnosis.explained, width)
        if further:
            yield from self.note("also", ", ".join(further), width)

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
            yield [("  ", ""), (self.words.ui("collect"), "muted")]
            yield from self.command(told.command.split(" "), width)
        if told.version is not None:
            yield from paragraph(told.version, width, first=[("  ", "")], indent=2, role="muted")
        if told.never is not None:
            label = self.words.text("explain.not-told-never")
            first = [(label, "label-word"), (" ", "")]
            yield from paragraph(told.never, width, first=first, indent=2, role="muted")
