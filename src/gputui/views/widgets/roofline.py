"""The roofline of the selected kernel among the others of its report, and in words how far it is from its roof."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gputui.paint.bandwidth import bandwidth_bar
from gputui.paint.roofline import Chart, draw
from gputui.views import actions
from gputui.views.glyphs import Glyphs
from gputui.views.paper import LinesView
from gputui.views.text import Line, paragraph

if TYPE_CHECKING:
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.roofline import Point, Roofline
    from gputui.views.library import Entry
    from gputui.wording import Wording


@dataclass(frozen=True, slots=True)
class RooflineSubject:
    """``others`` are the DRAM points of the report's other kernels, ``total_ns`` the whole report's time."""

    entry: Entry
    diagnosis: Diagnosis | None
    others: tuple[Point, ...]
    total_ns: float | None


class RooflineView(LinesView):
    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, signs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.words = words
        self.signs = signs
        self.subject: RooflineSubject | None = None
        self._built_height = -1

    def show(self, subject: RooflineSubject | None) -> None:
        if subject != self.subject:
            self.subject = subject
            self.rebuild(to_top=True)

    def on_resize(self) -> None:
        if self.scrollable_content_region.height != self._built_height:
            self.rebuild()
        else:
            super().on_resize()

    def build(self, width: int) -> list[Line]:
        self._built_height = self.scrollable_content_region.height
        subject = self.subject
        if subject is None or subject.diagnosis is None:
            return [(), [(" ", ""), (self.words.ui("verdict_pending" if subject else "no_kernel"), "muted")]]
        roofline = subject.diagnosis.roofline
        words = [[(" ", ""), *line] for line in self._words(subject, roofline, min(width - 2, 116))]
        height = max(8, self._built_height - len(words))
        if roofline.point is None and not subject.others:
            return [*self._bandwidth(roofline, width), (), *words]
        if roofline.point is None:
            band = self._bandwidth(roofline, width)
            return [*self._chart(subject, roofline, width, max(8, height - len(band))), *band, *words]
        return [*self._chart(subject, roofline, width, height), *words]

    def _chart(self, subject: RooflineSubject, roofline: Roofline, width: int, height: int) -> list[Line]:
        points = (*(point for point in subject.others if point.kernel != subject.entry.number), *self._own(subject))
        names = {roof.id: self.words.ui(f"roof.{roof.id}") for roof in roofline.roofs}
        chart = Chart(
            roofs=tuple(
                roof for roof in roofline.roofs if roof.kind == "memory" or roof.id in self._relevant(roofline)
            ),
            points=points,
            selected=subject.entry.number,
            total_ns=subject.total_ns,
            roof_names=names,
            x_label=self.words.ui("axis_intensity"),
        )
        picture = draw(chart, width - 1, height - 1, ascii=self.ascii)
        return [*([(" ", ""), *row] for row in picture.rows), ()]

    def _relevant(self, roofline: Roofline) -> tuple[str, ...]:
        """The compute roofs to draw: the one the kernel is judged on, and FP32 as everyone's yardstick."""
        return tuple(id for id in (roofline.precision, "fp32") if id)

    def _own(self, subject: RooflineSubject) -> Iterable[Point]:
        if subject.diagnosis is None:
            return ()
        return (
            replace(point, kernel=subject.entry.number, name=subject.entry.title)
            for point in subject.diagnosis.roofline.points
        )

    def _bandwidth(self, roofline: Roofline, width: int) -> list[Line]:
        """A kernel without arithmetic has no point: what it moves against what the memory can."""
        rate, peak = roofline.dram_bytes_per_s, roofline.dram_peak_bytes_per_s
        if rate is None or peak is None:
            return []
        caption = self.words.text("explain.bandwidth", rate=rate, peak=peak)
        picture = bandwidth_bar(rate, peak, min(width - 2, 100), caption=caption, ascii=self.ascii)
        return [(), *([(" ", ""), *row] for row in picture.rows)]

    def _words(self, subject: RooflineSubject, roofline: Roofline, width: int) -> Iterable[Line]:
        yield [(subject.entry.title[:width], "title")]
        yield from paragraph(
            self._sentence(roofline), width, first=[(f"{self.signs.emphasis} ", "accent")], indent=2, role="sentence"
        )
        if roofline.point is not None and roofline.ridge is not None and roofline.arithmetic_intensity is not None:
            side = "left" if roofline.arithmetic_intensity < roofline.ridge else "right"
            text = self.words.ui(f"roofline_{side}", intensity=roofline.arithmetic_intensity, ridge=roofline.ridge)
            yield from paragraph(text, width, role="muted")
        sources = {roof.source for roof in roofline.roofs}
        if sources:
            source = "specs" if roofline.peak_source == "specs" or sources == {"specs"} else "report"
            text = self.words.text(f"explain.roofline-source-{source}")
            if self._built_height >= 20 and roofline.point is not None:
                text = f"{text} {self.words.ui('roofline_legend')}"
            yield from paragraph(text, width, role="faint")

    def _sentence(self, roofline: Roofline) -> str:
        if roofline.roof_fraction is not None:
            return self.words.ui(
                "roofline_distance",
                flops=roofline.achieved_flop_per_s,
                fraction=100 * roofline.roof_fraction,
            )
        if roofline.achieved_flop_per_s == 0:
            return self.words.ui("roofline_no_arithmetic")
        if roofline.achieved_flop_per_s:
            return self.words.ui("roofline_no_roof", flops=roofline.achieved_flop_per_s)
        return self.words.ui("roofline_uncounted")
