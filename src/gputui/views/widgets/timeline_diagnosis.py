"""A timeline explained: what holds the program up, how busy its GPUs were, where; then the selected kernel or range.

Where an ncu report holds the selected kernel too, the page goes on with what that report says of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.render import timeline_rows as rows
from gputui.render.text import gain, launch_shape, what_it_is
from gputui.views import actions
from gputui.views.glyphs import Glyphs
from gputui.views.text import Line, broken, fit, line_width, paragraph, shorten_middle, shown, wrap
from gputui.views.widgets.diagnosis import DiagnosisView, Subject
from gputui.views.widgets.findings import MAX_WIDTH, FindingsView

if TYPE_CHECKING:
    from gputui.analysis.finding import Finding
    from gputui.analysis.nvtx import RangeNode
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.analysis.timeline_kernels import KernelShare
    from gputui.model.report import Report
    from gputui.views.library import Entry, LinkedEntry
    from gputui.wording import ReaderLevel, Wording

_MOST_GPUS = 8
_BAR = 24
_NEARLY_ALL = 10.0
"""A kernel without which the program would be so many times as fast is all there is to make faster."""


@dataclass(frozen=True, slots=True)
class TimelineSubject:
    """What the page is about: the timeline, and below it ``entry`` (a kernel) or ``node`` (NVTX ranges).

    ``timeline`` and the kernel's ``share`` are ``None`` until they are known. ``link`` is the launch of an ncu report
    that belongs to the kernel, ``counted`` what is known of it. ``level`` is the reader's.
    """

    report: Report
    level: ReaderLevel
    timeline: TimelineDiagnosis | None = None
    entry: Entry | None = None
    share: KernelShare | None = None
    node: RangeNode | None = None
    link: LinkedEntry | None = None
    link_file: str = ""
    counted: Subject | None = None


class TimelineDiagnosisView(FindingsView):
    """One finding is marked: enter shows its place in the timeline. Lines scroll while the next one is out of sight."""

    LOOK_UP = "look_up_timeline"
    BINDINGS = [*actions.bindings("pane"), *actions.bindings("place")]

    class PlaceChosen(Message):
        """The reader wants to see where this is."""

        def __init__(self, finding: Finding) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, words: Wording, signs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(words, signs, id=id)
        self.subject: TimelineSubject | None = None
        self.current = 0
        """The marked one of ``timeline.main``."""
        self._titles: list[int] = []
        self._selected_at = 0
        self._kernel_page = DiagnosisView(words, signs)

    def show(self, subject: TimelineSubject | None, *, to_selected: bool = False) -> None:
        """Explain this timeline; ``to_selected`` brings the selected kernel's or range's part into view."""
        before, self.subject = self.subject, subject
        same = before is not None and subject is not None and before.report is subject.report
        if not same:
            self.current = 0
        if subject != before:
            self.rebuild(to_top=not same)
        if to_selected and subject is not None:
            self.scroll_to(y=self._selected_at, animate=False)

    @property
    def finding_marked(self) -> Finding | None:
        timeline = None if self.subject is None else self.subject.timeline
        main = () if timeline is None else timeline.main
        return main[self.current] if self.current < len(main) else None

    def mark(self, number: int) -> None:
        """Mark another one of the findings that are told in full."""
        if number != self.current:
            self.current = number
            self.rebuild()

    # -------------------------------------------------------------- keys

    def action_cursor_down(self) -> None:
        after = self.current + 1
        if after < len(self._titles) and self._titles[after] < self.scroll_offset.y + self.size.height:
            self.mark(after)
        else:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        if 0 < self.current < len(self._titles) and self._titles[self.current - 1] >= self.scroll_offset.y:
            self.mark(self.current - 1)
        else:
            super().action_cursor_up()

    def action_open_place(self) -> None:
        finding = self.finding_marked
        if finding is not None:
            self.post_message(self.PlaceChosen(finding))

    # -------------------------------------------------------------- the page

    def build(self, width: int) -> list[Line]:
        self._titles = []
        if self.subject is None:
            return []
        inner = min(width - 2, MAX_WIDTH)
        lines: list[Line] = []
        for line in self._whole(self.subject, inner, lines):
            sign = " "
            if self._titles and self._titles[-1] == len(lines) and len(self._titles) == self.current + 1:
                sign = self.signs.cursor
            lines.append([(sign, "accent"), *line])
        return lines

    def _whole(self, subject: TimelineSubject, width: int, above: list[Line]) -> Iterable[Line]:
        """The page; ``above`` are the lines that stand already."""
        timeline = subject.timeline
        if timeline is None:
            yield [(self.words.ui("verdict_pending"), "muted")]
            return
        yield from self.sentence(rows.sentence(timeline, self.words), width)
        yield ()
        yield from self._gpus(timeline, width)
        for number, finding in enumerate(timeline.main, 1):
            yield ()
            self._titles.append(len(above))
            where = self._where(finding, timeline, width)
            text = rows.finding_text(finding, self.words, timeline.tags)
            yield from self.finding(number, finding, text, subject.level, width, where=where)
        if timeline.facts.gpus:
            # What the numbers are of stands behind what they say.
            yield ()
            yield from paragraph(rows.window(timeline.facts, self.words), width, role="muted")
            yield from paragraph(rows.clock(timeline.facts.timeline, self.words), width, role="muted")
        yield from self._rest(timeline, width)
        yield from self._lacks(subject.report, timeline, width)
        self._selected_at = len(above) + 1
        yield from self._selected(subject, timeline, width)

    def _gpus(self, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        """How much of the steady time each GPU did anything: the least busy ones where there are many."""
        facts = timeline.facts
        if not facts.gpus:
            return
        busy = {gpu: 100 * facts.busy_share(gpu) for gpu in facts.gpus}
        shown_gpus = sorted(sorted(busy, key=lambda gpu: busy[gpu])[:_MOST_GPUS])
        names = {gpu: rows.gpu_label(facts.timeline, gpu, self.words) for gpu in shown_gpus}
        label = max(map(width_of, names.values())) + 2
        cells = max(6, min(_BAR, width - label - 8))
        for gpu in shown_gpus:
            filled = bar(busy[gpu], 100, cells, ascii=self.ascii).rstrip()
            yield [
                (fit(names[gpu], label), "muted"),
                (filled, "bar-lead"),
                ((" " if self.ascii else "─") * (cells - width_of(filled)), "bar-empty"),
                (fit(units.percent(busy[gpu]), 7, right=True), "strong"),
            ]
        if len(busy) > len(shown_gpus):
            yield [(self.words.ui("timeline.more_gpus", count=len(busy) - len(shown_gpus)), "faint")]

    def _where(self, finding: Finding, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        moment = finding.moment
        if moment is None:
            return
        place = rows.where(moment, timeline.facts, self.words)
        yield from self.place(place, "", width, self.words.ui("footer.where_place"))

    def _rest(self, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        further = [f"{self.words.finding_name(one.id)} ({gain(one, self.words)})" for one in timeline.further]
        if timeline.effects or further:
            yield ()
        yield from self.effects(timeline.main, timeline.effects, timeline.explained, width)
        if further:
            yield from self.note("also", ", ".join(further), width)
        yield from self.validity(timeline.validity, width)

    def _lacks(self, report: Report, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        """What the capture does not have, and the flag that brings it; code on lines of its own."""
        lacks = rows.lacks(report, timeline.facts, self.words)
        yield from self._not_checked(timeline, width)
        if not lacks:
            return
        yield ()
        yield [(self.words.text("timeline_text.lacks"), "label-word")]
        for text in lacks:
            first: Line = [(f"  {self.signs.bullet} ", "accent")]
            for part in shown_lines(text):
                if part.startswith(" "):
                    yield from ([("      ", ""), (piece, "code")] for piece in broken(part, width - 6))
                else:
                    yield from paragraph(part, width, first=first, indent=4, role="muted")
                first = ()

    def _not_checked(self, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        not_checked, command = rows.not_checked(timeline, self.words)
        if not not_checked:
            return
        yield ()
        yield [(self.words.text("explain.not-told"), "label-word")]
        yield from paragraph(not_checked, width, indent=2, role="muted")
        if command is not None:
            yield [("  ", ""), (self.words.ui("collect"), "muted")]
            yield from self.command(command.split(" "), width)

    # -------------------------------------------------------------- the selected kernel or range

    def _selected(self, subject: TimelineSubject, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        if subject.node is not None:
            yield ()
            yield from self._range(subject.node, width)
        elif subject.entry is not None and subject.share is not None:
            yield ()
            yield from self._kernel(subject.entry, subject.share, width)
            if subject.link is None:
                yield from self._worth(subject.share, timeline, width)
            else:
                yield from self._linked(subject.link, subject, width)

    def _range(self, node: RangeNode, width: int) -> Iterable[Line]:
        path = " / ".join(shown(name, 200) or self.words.ui("range_unnamed") for name in node.path)
        yield [(shorten_middle(path, width), "title")]
        key = "range_cpu" if node.count > 1 else "range_cpu_one"
        yield from paragraph(self.words.ui(f"timeline.{key}", count=node.count, time=node.cpu_ns), width)
        if node.projected_ns:
            text = self.words.ui(
                "timeline.range_gpu",
                busy=node.busy_ns,
                kernels=node.kernels,
                projected=node.projected_ns,
                idle=100 * (node.idle_share or 0.0),
            )
        else:
            text = self.words.ui("timeline.range_nothing")
        yield from paragraph(text, width)

    def _kernel(self, entry: Entry, share: KernelShare, width: int) -> Iterable[Line]:
        words, group = self.words, share.group
        facts = self.signs.separator.join(what_it_is(share.identity, words))
        name = shorten_middle(entry.title, max(16, width - width_of(facts) - 3))
        yield [(name, "title"), ("   ", ""), (facts, "muted")]
        if self.unfolded and share.kernel.demangled != share.kernel.name:
            for part in wrap(shown(share.kernel.demangled, 1200), width)[:6]:
                yield [(part, "faint")]
        texts = [
            words.ui(
                "timeline.kernel_total" if group.count > 1 else "timeline.kernel_total_one",
                time=group.total_ns,
                count=group.count,
                share=100 * share.share,
                window=100 * share.window_share,
            )
        ]
        if group.count > 1:
            texts.append(
                words.ui("timeline.kernel_each", least=group.min_ns, median=group.median_ns, most=group.max_ns)
            )
        if share.kernel.grid is not None and share.kernel.block is not None:
            key = "kernel_shapes" if share.shapes > 1 else "kernel_shape"
            texts.append(words.ui(f"timeline.{key}", shape=launch_shape(share.kernel, words), count=share.shapes))
        if share.amdahl is not None:
            key = "kernel_amdahl" if share.amdahl < _NEARLY_ALL else "kernel_is_all"
            texts.append(words.ui(f"timeline.{key}", gain=share.amdahl))
        for text in texts:
            yield from paragraph(text, width)

    def _worth(self, share: KernelShare, timeline: TimelineDiagnosis, width: int) -> Iterable[Line]:
        yield ()
        key = "worth_yes" if share.deserves else "worth_no" if share.command else "worth_never"
        first: Line = [(f"{self.signs.worth} ", "accent")] if share.deserves else []
        yield from paragraph(self.words.ui(f"timeline.{key}"), width, first=first, indent=line_width(first))
        if not share.command:
            return
        yield from self.command(share.command, width)
        note = rows.program_note(timeline, share.command, self.words)
        if note is not None:
            yield from paragraph(note, width, first=[("  ", "")], indent=2, role="faint")

    def _linked(self, link: LinkedEntry, subject: TimelineSubject, width: int) -> Iterable[Line]:
        """What an ncu report says of the same kernel."""
        yield ()
        device = shown(link.entry.kernel.device.name, 60)
        text = self.words.ui("timeline.linked", file=subject.link_file, gpu=device)
        if link.same_shape is False:
            shape = launch_shape(link.entry.kernel, self.words)
            text = f"{text} {self.words.ui('timeline.linked_shape', shape=shape)}"
        yield from paragraph(text, width, role="label-word")
        if subject.counted is None:
            return
        yield ()
        page = self._kernel_page
        page.unfolded, page.ascii = self.unfolded, self.ascii
        yield from page.page(subject.counted, width)


def shown_lines(text: str) -> list[str]:
    """A text of several lines, each fit for the screen; the blanks that begin a line of code stay."""
    return [shown(part) for part in text.split("\n") if part.strip()]
