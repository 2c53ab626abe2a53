"""What is compared with what, and the pairs made by hand: between the reports that are open and the screen that
compares. It decides; the screen paints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gputui.analysis.compare.model import Pairing
from gputui.errors import GputuiError
from gputui.model.kernel import function_name
from gputui.run.folder import run_of
from gputui.run.pairs import keep_pairs, kept_pairs
from gputui.views.screens.compare import CompareScreen
from gputui.views.text import shorten_middle, shown

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Comparison, Group, KernelKey, Kind
    from gputui.analysis.engine import Diagnosis
    from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
    from gputui.model.report import Report
    from gputui.render.compare_rows import GroupRow
    from gputui.views.app import GputuiApp
    from gputui.views.library import Entry, Library, LoadedReport
    from gputui.wording import Wording


@dataclass(frozen=True, slots=True)
class Part:
    """One side as it was chosen: reports by their place, and where it is one kernel of them, its full name."""

    reports: tuple[int, ...]
    kernel: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A comparison with its groups as the list shows them."""

    comparison: Comparison
    rows: tuple[GroupRow, ...]


def sides_of(library: Library) -> list[tuple[int, ...]]:
    """The reports that belong together, by their place: those of a run, each other by itself."""
    sides: dict[Path, list[int]] = {}
    for number, loaded in enumerate(library.reports):
        path = Path(loaded.report.path)
        sides.setdefault(run_of(path) or path, []).append(number)
    return [tuple(side) for side in sides.values()]


def compare_parts(
    library: Library,
    diagnoses: Mapping[int, Diagnosis],
    parts: tuple[Part, Part],
    pairings: Sequence[Pairing],
    words: Wording,
    *,
    same_work: bool,
) -> tuple[Compared, ...]:
    """The comparisons of two sides whose kernels are all diagnosed. For a worker only."""
    from gputui.analysis.compare.reports import Chosen, compare_reports
    from gputui.render.compare_rows import group_rows

    numbers = {id(loaded.report): number for number, loaded in enumerate(library.reports)}

    def diagnosed(report: Report) -> list[Diagnosis]:
        return [diagnoses[entry.number] for entry in library.reports[numbers[id(report)]].entries]

    def explained(report: Report) -> TimelineDiagnosis:
        return library.timelines[numbers[id(report)]].diagnosis

    base, new = ([library.reports[number].report for number in part.reports] for part in parts)
    names = [re.compile(f"^{re.escape(part.kernel)}$") if part.kernel else None for part in parts]
    chosen = Chosen(names[0], names[1])
    found = compare_reports(base, new, chosen, pairings, same_work=same_work, diagnosed=diagnosed, explained=explained)
    return tuple(Compared(one, tuple(group_rows(one, words))) for one in found)


def _files_of(loaded: LoadedReport) -> list[Path]:
    timeline = loaded.report.timeline
    return [Path(loaded.report.path)] if timeline is None else [Path(file.path) for file in timeline.files]


class Comparing:
    """``base`` and ``new`` are the sides; ``found`` is there once they are compared: one of counters, one of timelines,
    or both. ``which`` of them is shown."""

    def __init__(self, host: GputuiApp) -> None:
        self.host = host
        self.base = self.new = Part(())
        self._opened = self.base, self.new
        self.pairings: tuple[Pairing, ...] = ()
        self.same_work = False
        self.found: tuple[Compared, ...] = ()
        self.which = 0
        self.asked = 0
        """Counts what was asked for: an answer to an earlier question is dropped."""
        self.is_waiting = False
        """Whether verdicts are still missing."""
        self.screen: CompareScreen | None = None

    # -------------------------------------------------------------- choosing

    def mark(self, entry: Entry) -> None:
        """Make the report of this kernel the base; once more takes that back."""
        library = self.host.library
        library.base = None if library.base is entry else entry
        if library.base is not None:
            self._tell("marked", name=library.name_of(entry.report), kernel=entry.title)

    def mark_run_before(self, loaded: LoadedReport) -> None:
        """Make a report the base, since the same has been run again."""
        longest = max(loaded.entries, key=lambda entry: entry.duration_ns or 0.0, default=None)
        if longest is not None:
            self.host.library.base = longest
            self.host.main.show_base()
            self._tell("run_before")

    @property
    def base_name(self) -> str:
        """The marked base: its file, or its kernel where only one report is open; empty where none is marked."""
        library = self.host.library
        if library.base is None:
            return ""
        return library.base.title if len(library.reports) == 1 else library.name_of(library.base.report)

    def begin(self, entry: Entry | None) -> None:
        """Compare the marked base with the report of this kernel; the only two sides that there are, where nothing is
        marked."""
        library = self.host.library
        sides = sides_of(library)
        base = library.base
        if base is None:
            if len(sides) == 2:
                self.open(*(Part(side) for side in sides))
            else:
                self._tell("nothing" if len(sides) < 2 else "mark_first")
            return
        if entry is None:
            return
        old, new = (next(side for side in sides if one.report in side) for one in (base, entry))
        if old != new:
            self.open(Part(old), Part(new))
            return
        if base.kernel.demangled == entry.kernel.demangled:
            self._tell("same_kernel")
        else:
            self.open(*(Part(old, one.kernel.demangled) for one in (base, entry)))

    def open_paths(self, base: Sequence[Path], new: Sequence[Path]) -> None:
        """Compare what was read of these files and folders."""
        parts = []
        for paths in (base, new):
            inside = [
                number
                for number, loaded in enumerate(self.host.library.reports)
                if any(path == one or path in one.parents for path in paths for one in _files_of(loaded))
            ]
            if not inside:
                self._tell("not_read", path=shown(", ".join(map(str, paths))))
                return
            parts.append(Part(tuple(inside)))
        self.open(*parts)

    def open(self, base: Part, new: Part) -> None:
        """Show these two sides against each other, as soon as all of their kernels are diagnosed."""
        reports = self.host.library.reports
        kinds = [{reports[number].facts is None for number in part.reports} for part in (base, new)]
        if not kinds[0] & kinds[1]:
            self._tell("kinds_differ")
            return
        self.base, self.new = self._opened = base, new
        self.pairings, self.same_work, self.found, self.which = (), False, (), 0
        try:
            self.pairings = kept_pairs([*self._paths(new), *self._paths(base)])
        except GputuiError as error:
            self._complain(error)
        self.host.clear_notifications()
        self.screen = CompareScreen(self)
        self.host.push_screen(self.screen)
        self.is_waiting = True
        self.host.diagnose_missing((*base.reports, *new.reports))
        self.advance()

    # -------------------------------------------------------------- working it out

    @property
    def progress(self) -> tuple[int, int]:
        """How many verdicts of those that are needed are there."""
        known = list(self._known())
        return sum(known), len(known)

    def _known(self) -> Iterable[bool]:
        library = self.host.library
        for number in dict.fromkeys((*self.base.reports, *self.new.reports)):
            loaded = library.reports[number]
            if loaded.facts is not None:
                yield number in library.timelines
            else:
                yield from (one.number in self.host.diagnoses for one in loaded.entries)

    def advance(self) -> None:
        """Compare as soon as the last verdict is there."""
        if not self.is_waiting:
            return
        if all(self._known()):
            self.is_waiting = False
            self._ask()
        elif self.screen is not None:
            self.screen.show()

    def _ask(self) -> None:
        if self.is_waiting:
            return
        self.asked += 1
        library, words, parts = self.host.library, self.host.words, (self.base, self.new)
        self.host.compare_sides(
            self.asked,
            partial(compare_parts, library, self.host.diagnoses, parts, self.pairings, words, same_work=self.same_work),
        )

    def answered(self, asked: int, found: tuple[Compared, ...]) -> None:
        if asked == self.asked and self.screen is not None:
            self.found = found
            self.which = min(self.which, len(found) - 1)
            self.screen.show()

    def stop(self) -> None:
        """Do not wait for verdicts any longer."""
        if self.is_waiting:
            self.close()

    def close(self) -> None:
        """Back to the reports."""
        self.asked += 1
        self.is_waiting = False
        if self.screen is not None:
            self.screen.close()
            self.screen = None

    # -------------------------------------------------------------- what the user changes

    @property
    def shown(self) -> Compared | None:
        return self.found[self.which] if self.found else None

    def title(self, cells: int) -> str:
        """What is compared with what, each name in so many cells."""
        base, new = (shorten_middle(self._name(part), cells) for part in (self.base, self.new))
        return self.host.words.ui("compare.sides", base=base, new=new)

    def _name(self, part: Part) -> str:
        if part.kernel:
            return shown(function_name(part.kernel), 60)
        library = self.host.library
        folder = run_of(Path(library.reports[part.reports[0]].report.path))
        return library.name_of(part.reports[0]) if folder is None else shown(folder.name)

    def show_other_kind(self) -> None:
        if len(self.found) > 1 and self.screen is not None:
            self.which = (self.which + 1) % len(self.found)
            self.screen.show()

    def swap(self) -> None:
        self.base, self.new = self.new, self.base
        self.pairings = _turned(self.pairings)
        self._ask()

    def toggle_same_work(self) -> None:
        self.same_work = not self.same_work
        self._ask()

    def pair(self, groups: Sequence[Group]) -> None:
        """Make one group of these."""
        if self.shown is not None:
            self._pair_anew([_pairing(groups, self.shown.comparison.kind)])

    def take_apart(self, group: Group) -> None:
        """Let each kernel of the group stand alone."""
        if self.shown is None:
            return
        whole = _pairing([group], self.shown.comparison.kind)
        nothing: frozenset[KernelKey] = frozenset()
        self._pair_anew(
            [
                *(Pairing(frozenset({key}), nothing, whole.kind) for key in sorted(whole.base)),
                *(Pairing(nothing, frozenset({key}), whole.kind) for key in sorted(whole.new)),
            ]
        )

    def forget(self) -> None:
        self._keep(())

    def _pair_anew(self, made: Sequence[Pairing]) -> None:
        """These, and of what was paired before whatever they leave."""
        base = frozenset(key for one in made for key in one.base)
        new = frozenset(key for one in made for key in one.new)
        kind = made[0].kind
        left = (
            replace(one, base=one.base - base, new=one.new - new) if one.kind == kind else one for one in self.pairings
        )
        self._keep((*made, *(one for one in left if one.base or one.new)))

    def _keep(self, pairings: tuple[Pairing, ...]) -> None:
        self.pairings = pairings
        base, new = self._opened
        try:
            # Where they were looked for, however often the sides were swapped since.
            kept = keep_pairs(self._paths(new)[0], pairings if self.base == base else _turned(pairings))
        except GputuiError as error:
            self._complain(error)
        else:
            if kept is None:
                self._tell("pairs_unkept")
        self._ask()

    def _paths(self, part: Part) -> list[Path]:
        return [Path(self.host.library.reports[number].report.path) for number in part.reports]

    def _complain(self, error: GputuiError) -> None:
        self.host.notify(shown(str(error), 300), severity="error", markup=False)

    def _tell(self, key: str, **params: object) -> None:
        self.host.notify(self.host.words.ui(f"compare.{key}", **params), markup=False)


def _turned(pairings: Iterable[Pairing]) -> tuple[Pairing, ...]:
    return tuple(replace(one, base=one.new, new=one.base) for one in pairings)


def _pairing(groups: Iterable[Group], kind: Kind) -> Pairing:
    groups = list(groups)
    return Pairing(
        frozenset(member.key for group in groups for member in group.base),
        frozenset(member.key for group in groups for member in group.new),
        kind,
    )
