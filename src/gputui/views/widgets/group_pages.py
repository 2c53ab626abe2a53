"""The pages of a selected group: why it changed, where it stands in the roofline, its kernels on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gputui import units
from gputui.analysis.compare.amounts import amounts, point_of
from gputui.paint.grid import width_of
from gputui.paint.roofline import Arrow, Chart, draw, legend
from gputui.render.compare_rows import next_lines, still_slow, why_lines
from gputui.render.text import launch_shape
from gputui.views import actions
from gputui.views.glyphs import Glyphs
from gputui.views.paper import LinesView
from gputui.views.text import Line, fit, paragraph, shorten_middle, shown
from gputui.views.widgets.findings import MAX_WIDTH

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Comparison, Group, Member, Side
    from gputui.analysis.roofline import Roof
    from gputui.render.compare_rows import GroupRow
    from gputui.wording import ReaderLevel, Wording

_MOST_ARROWS = 60
"""More would only cover each other."""
_SHORT_GPU = 12
_LEAST_NAME = 36
_MOST_MEMBERS = 100
"""On each side; a step of a timeline may launch thousands."""


class GroupPage(LinesView):
    """A page about one group of a comparison."""

    BINDINGS = actions.bindings("pane")

    def __init__(self, words: Wording, signs: Glyphs, *, id: str) -> None:
        super().__init__(id=id)
        self.words = words
        self.signs = signs
        self.comparison: Comparison | None = None
        self.group: Group | None = None
        self.row: GroupRow | None = None
        self.level: ReaderLevel = "pytorch"

    def show(self, comparison: Comparison, group: Group, row: GroupRow, level: ReaderLevel) -> None:
        same = comparison is self.comparison and group is self.group
        self.comparison, self.group, self.row, self.level = comparison, group, row, level
        self.rebuild(to_top=not same)

    def build(self, width: int) -> list[Line]:
        if self.comparison is None or self.group is None or self.row is None:
            return []
        lines = self.page(self.comparison, self.group, self.row, width - 2)
        return [[(" ", ""), *line] for line in lines]

    def page(self, comparison: Comparison, group: Group, row: GroupRow, width: int) -> Iterable[Line]:
        raise NotImplementedError

    def title(self, row: GroupRow, width: int) -> Iterable[Line]:
        sides = [text for text in (row.base, row.new) if text]
        yield from paragraph(f"{f' {self.signs.arrow} '.join(sides)} · {row.how}", width, role="title")[:2]


class WhyPage(GroupPage):
    """Why the selected group changed; then what is still slow, what to change next, and how far to trust all of it."""

    cautions: Sequence[str] = ()
    tells_next = True

    def page(self, comparison: Comparison, group: Group, row: GroupRow, width: int) -> Iterable[Line]:
        width = min(width, MAX_WIDTH)
        words = self.words
        yield from self.title(row, width)
        yield from self._told(why_lines(comparison, group, words) or [words.ui("compare.unchanged")], width)
        yield from self._part([still_slow(comparison, words) or ""], width)
        if self.tells_next:
            yield from self._part(next_lines(comparison, words, self.level), width)
        if self.cautions:
            yield ()
            yield [(words.ui("compare.cautions"), "label-word")]
            yield from self._told(self.cautions, width)

    def _part(self, texts: Sequence[str], width: int) -> Iterable[Line]:
        """What says itself what it is about: its first line leads, the others belong to that."""
        texts = [text for text in texts if text]
        if texts:
            yield ()
            yield from paragraph(texts[0], width, role="strong")
            yield from self._told(texts[1:], width)

    def _told(self, texts: Sequence[str], width: int) -> Iterable[Line]:
        for text in texts:
            yield from paragraph(text, width, first=[(f"{self.signs.bullet} ", "faint")], indent=2)


class ShiftPage(GroupPage):
    """The roofline with both sides: an arrow for each group, the selected one lit."""

    def on_resize(self) -> None:
        self.rebuild()

    def page(self, comparison: Comparison, group: Group, row: GroupRow, width: int) -> Iterable[Line]:
        arrows = [
            Arrow(
                point_of(one.before, one.number, _name(one.longest_base)),
                point_of(one.after, one.number, _name(one.longest_new)),
                is_selected=one is group,
            )
            for one in (*comparison.groups[:_MOST_ARROWS], *((group,) if group.number >= _MOST_ARROWS else ()))
        ]
        if not any(arrow.before or arrow.after for arrow in arrows):
            yield from paragraph(self.words.ui("compare.no_points"), width, role="muted")
            return
        roofs, names = self._roofs(comparison, group)
        selected = next(arrow for arrow in arrows if arrow.is_selected)
        has_point = selected.before is not None or selected.after is not None
        chart = Chart(
            roofs=roofs, points=(), roof_names=names, x_label=self.words.ui("axis_intensity"), arrows=tuple(arrows)
        )
        words = [] if has_point else list(paragraph(self.words.ui("compare.no_point"), width, role="muted"))
        height = max(6, self.scrollable_content_region.height - len(words) - 1)
        yield from draw(chart, width, height, ascii=self.ascii).rows
        yield legend(self.words.ui("compare.before"), self.words.ui("compare.after"), ascii=self.ascii)
        yield from words

    def _roofs(self, comparison: Comparison, group: Group) -> tuple[tuple[Roof, ...], dict[str, str]]:
        """DRAM's and those of the arithmetic that the group uses; of two GPUs each has its own."""
        devices = [comparison.base.device, comparison.new.device]
        two = len({device.name for device in devices if device is not None}) > 1
        roofs: dict[str, Roof] = {}
        names: dict[str, str] = {}
        sides = (
            (group.longest_base or _longest(comparison.base), devices[0], two),
            (group.longest_new or _longest(comparison.new), devices[1], False),
        )
        for member, device, is_other in sides:
            if not member.diagnoses:
                continue
            roofline = member.diagnoses[0].roofline
            for roof in roofline.roofs:
                if roof.id not in ("dram", "fp32", roofline.precision):
                    continue
                id = f"base-{roof.id}" if is_other else roof.id
                roofs[id] = replace(roof, id=id)
                gpu = f"{shown(device.name, 60).removeprefix('NVIDIA ')[:_SHORT_GPU]} " if two and device else ""
                names[id] = f"{gpu}{self.words.ui(f'roof.{roof.id}')}"
        return tuple(roofs.values()), names


def _longest(side: Side) -> Member:
    return max(side.members, key=lambda member: member.time_ns or 0.0)


def _name(member: Member | None) -> str:
    return "" if member is None else shown(member.kernel.name)


class MembersPage(GroupPage):
    """The kernels of the group, before and after, in launch order."""

    def page(self, comparison: Comparison, group: Group, row: GroupRow, width: int) -> Iterable[Line]:
        told = (*group.base[:_MOST_MEMBERS], *group.new[:_MOST_MEMBERS])
        name_cells = max(width_of(_name(member)) for member in told)
        for side, members in (("before", group.base), ("after", group.new)):
            if side == "after":
                yield ()
            yield [(self.words.ui(f"compare.{side}"), "label-word")]
            if not members:
                yield [("  ", ""), (units.DASH, "faint")]
            for member in members[:_MOST_MEMBERS]:
                yield from self._member(member, name_cells, width)
            if len(members) > _MOST_MEMBERS:
                text = self.words.ui("compare.more_kernels", count=len(members) - _MOST_MEMBERS)
                yield [("  ", ""), (text, "faint")]

    def _member(self, member: Member, name_cells: int, width: int) -> Iterable[Line]:
        numbers = amounts((member,))
        facts = [units.duration(numbers.time_ns)]
        if member.diagnoses:
            facts += [
                self.words.ui("compare.member", dram=numbers.dram_bytes, tensor=numbers.tensor_pct),
                self.words.verdict_name(member.diagnoses[0].verdict.id),
            ]
        facts.append(launch_shape(member.kernel, self.words))
        text = self.signs.separator.join(one for one in facts if one)
        room = min(name_cells, width - width_of(text) - 4)
        name = _name(member)
        if room >= min(name_cells, _LEAST_NAME):
            yield [("  ", ""), (fit(shorten_middle(name, room), room), ""), ("  ", ""), (text, "muted")]
        else:
            yield [("  ", ""), (shorten_middle(name, width - 2), "")]
            yield from paragraph(text, width, first=[("    ", "")], indent=4, role="muted")
