"""The lines of the selected kernel that the time goes to: hottest first, with what their warps wait for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical

from gputui import units
from gputui.paint.bars import bar
from gputui.paint.grid import width_of
from gputui.render.lines import code_of, file_name, flag_text, line_name, mark_of, stall_name, stall_text, tidy
from gputui.views import actions, ordering
from gputui.views.glyphs import Glyphs
from gputui.views.paper import LinesView
from gputui.views.text import Line, fit, line_width, paragraph, shorten_middle, shown, wrap
from gputui.views.widgets.line_table import LineTable, TableState, highlight

if TYPE_CHECKING:
    from gputui.analysis.source import HotLine, Source, Stall
    from gputui.model.source import Instruction
    from gputui.wording import Wording

ORDERS = ("hot", "program")
_BAR = 6
_SHARE = 6
_WHY = 21
_MARK = 18
_RUN = 12
_WIDE = 92
"""From here on mark and main reason stand side by side."""
_WIDER = 112
_MOST_WIDTH = 116
_SHOWN_STALLS = 4
_AROUND = 60
"""Instructions on either side of an open one."""


class SourceTable:
    """A kernel's lines as rows, or the instructions of the one that is open."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        self.words = words
        self.signs = signs
        self.ascii = False
        self.order = ORDERS[0]
        self.filter = ""
        self.source: Source | None = None
        self.opened: int | None = None
        self._place_cells = 0
        self._texts: list[str] | None = None
        self._most = 0.0
        """The samples of the hottest line."""

    def set_source(self, source: Source | None) -> None:
        self.source, self.opened = source, None
        lines = self.lines
        self._one_file = len({line.file for line in lines if line.line}) <= 1
        names = [line_name(line, self.words, number_only=self._one_file) for line in lines]
        head = width_of(self.words.text("source.column_line"))
        self._place_cells = min(22, max([head, *map(width_of, names)]))
        self._texts = None
        self._most = max((line.samples for line in lines), default=0.0)

    @property
    def lines(self) -> tuple[HotLine, ...]:
        return self.source.lines if self.source is not None else ()

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Those of the open line; where lines are not known, those around the open instruction."""
        if self.opened is None or self.source is None:
            return ()
        line = self.lines[self.opened]
        if line.line:
            return line.instructions
        return self.source.listing.instructions[max(0, line.number - 1 - _AROUND) : line.number + _AROUND]

    @property
    def first_row(self) -> int | None:
        """Where the cursor goes first; ``None`` for the first row."""
        if self.opened is None or self.lines[self.opened].line:
            return None
        return self.instructions.index(self.lines[self.opened].instructions[0])

    @property
    def _hottest(self) -> float:
        """The samples that fill a bar."""
        return self._most if self.opened is None else max(one.samples for one in self.instructions)

    def rows(self) -> ordering.Rows:
        if self.opened is not None:
            by_samples = self.order == "hot" and self.first_row is None
            weights = [-one.samples for one in self.instructions] if by_samples else None
            order = np.arange(len(self.instructions)) if weights is None else np.argsort(weights, kind="stable")
            return order.astype(np.int64)
        rows = np.arange(len(self.lines), dtype=np.int64)
        if self.order == "program" and len(rows):
            assert self.source is not None
            place_of = {line.number: place for place, line in enumerate(self.source.in_program_order)}
            rows = np.argsort([place_of[line.number] for line in self.lines], kind="stable").astype(np.int64)
        if self.filter:
            rows = ordering.keep(rows, np.array([self.filter in text for text in self._searched], dtype=bool))
        return rows

    def matches(self, query: str, row: int) -> bool:
        if self.opened is not None:
            return query in self.instructions[row].sass.casefold()
        return query in self._searched[row]

    @property
    def _searched(self) -> list[str]:
        """What search and filter look at, made when first asked for."""
        if self._texts is None:
            self._texts = [f"{line.file}:{line.line}\n{line.text or ''}\n{line.sass}".casefold() for line in self.lines]
        return self._texts

    # -------------------------------------------------------------- cells

    def _columns(self, width: int) -> tuple[int, int, int, int, int, int]:
        """Cells for bar, place, code, reason, mark and count; 0 for those without room."""
        bar_cells = _BAR if width >= 64 else 0
        place = 6 if self.opened is not None else min(self._place_cells, max(10, width // 4))
        mark = _MARK if width >= _WIDE else 0
        run = _RUN if width >= _WIDER else 0
        why = _WHY if width >= 50 else 0
        rest = sum(cells + 2 for cells in (why, mark, run) if cells)
        return bar_cells, place, max(8, width - bar_cells - _SHARE - 4 - place - rest), why, mark, run

    def head(self, width: int) -> Line:
        if self.source is None:
            return ()
        bar_cells, place, code, why, mark, run = self._columns(width - 1)
        words = self.words
        column = "line" if self.opened is None and self.source.has_source else "sass"
        cells = [
            (" ", "head"),
            (fit(words.text("source.column_share"), bar_cells + _SHARE + 1), "head"),
            (" ", "head"),
            (fit(words.text(f"source.column_{column}"), place, right=True), "head"),
            ("  ", "head"),
            (fit(words.text("source.column_code"), code), "head"),
        ]
        for id, size, right in (("why", why, False), ("mark", mark, False), ("run", run, True)):
            if size:
                cells += [("  ", "head"), (fit(words.text(f"source.column_{id}"), size, right=right), "head")]
        return cells

    def row(self, row: int, state: TableState) -> Line:
        if self.opened is not None:
            return self._instruction(self.instructions[row], state)
        line = self.lines[row]
        name = line_name(line, self.words, number_only=self._one_file)
        mark = mark_of(line, self.words)
        return self._row(line.samples, name, code_of(line), line.stalls, mark, line.executed, state, is_hot=line.is_hot)

    def _instruction(self, one: Instruction, state: TableState) -> Line:
        source = self.source
        assert source is not None
        mark = self.words.text("source.mark.local-memory") if one.local_sectors else ""
        return self._row(
            one.samples, str(source.number_of(one)), tidy(one.sass), stalls_of(one), mark, one.executed, state
        )

    def _row(
        self,
        samples: float,
        name: str,
        code: str,
        stalls: tuple[Stall, ...],
        mark: str,
        executed: float,
        state: TableState,
        *,
        is_hot: bool = False,
    ) -> Line:
        bar_cells, place, code_cells, why, mark_cells, run = self._columns(state.width)
        code = fit(code, code_cells).rstrip()
        assert self.source is not None
        share = 100 * samples / self.source.samples if self.source.samples else None
        filled = bar(samples, self._hottest, bar_cells, ascii=self.ascii)
        line: list[tuple[str, str]] = [
            (filled, "bar-lead" if is_hot else "bar"),
            (fit(units.share(share), _SHARE, right=True), "strong" if is_hot else "number"),
            ("  ", ""),
            (fit(shorten_middle(name, place), place, right=True), "muted"),
            ("  ", ""),
            *highlight(code, "code", state.query),
            (" " * (code_cells - width_of(code)), ""),
        ]
        reason = stall_name(stalls[0].reason, self.words) if stalls else ""
        if why:
            text, role = (mark, "warning") if mark and not mark_cells else (reason, "" if is_hot else "muted")
            line += [("  ", ""), (fit(text, why), role)]
        if mark_cells:
            line += [("  ", ""), (fit(mark, mark_cells), "warning")]
        if run:
            line += [("  ", ""), (fit(units.count(executed), run, right=True), "faint")]
        return line


def stalls_of(one: Instruction) -> tuple[Stall, ...]:
    """An instruction's reasons, most samples first."""
    from gputui.analysis.source import ranked_stalls

    return ranked_stalls(one.stalls, one.samples)


class SourceHead(LinesView, can_focus=False):
    """What is shown, in which order, and what is missing and how to get it."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        super().__init__(id="source-head")
        self.words = words
        self.signs = signs
        self.data: SourceTable | None = None
        self.is_pending = False
        self.note = ""
        """What finding the highlighted line belongs to, where one led here."""

    def show(self, data: SourceTable, *, is_pending: bool) -> None:
        self.data, self.is_pending = data, is_pending
        self.rebuild()

    def set_note(self, note: str) -> None:
        if note != self.note:
            self.note = note
            self.rebuild()

    def rebuild(self, *, to_top: bool = False) -> None:
        super().rebuild(to_top=to_top)
        self.styles.height = max(1, len(self._lines))

    def build(self, width: int) -> list[Line]:
        data = self.data
        if data is None:
            return []
        inner = min(width - 2, _MOST_WIDTH)
        return [[(" ", ""), *line] for line in self._page(data, inner)]

    def _page(self, data: SourceTable, width: int) -> Iterable[Line]:
        words, source = self.words, data.source
        if source is None:
            text = words.text("source.pending" if self.is_pending else "source.none")
            yield from paragraph(text, width, role="muted")
            return
        order = words.text(f"source.order_{data.order}")
        sort = actions.BY_ID["sort"].footer_key()
        if data.opened is not None:
            line = data.lines[data.opened]
            title = line_name(line, words)
            facts = words.text("source.instruction_count", count=len(line.instructions))
        else:
            files = source.files
            key = "hottest" if source.has_source else "hottest_instructions"
            title = file_name(files[0]) if len(files) == 1 else words.text(f"source.{key}")
            facts = words.text("source.lines" if source.has_source else "source.instruction_count",
                               count=len(source.lines))  # fmt: skip
        tail = f"{facts}{self.signs.separator}{order} ({sort})"
        if data.filter and data.opened is None:
            filtered = words.ui("filtered", text=shown(data.filter, 24), count=len(data.rows()))
            tail = f"{tail}{self.signs.separator}{filtered}"
        yield [(shorten_middle(title, max(10, width - width_of(tail) - 3)), "title"), ("   ", ""), (tail, "muted")]
        if self.note:
            yield from paragraph(self.note, width, first=[(f"{self.signs.emphasis} ", "accent")], indent=2)
        if data.opened is not None:
            return
        for note in self._notes(source):
            yield from paragraph(note, width, role="faint")

    def _notes(self, source: Source) -> Iterable[str]:
        words, missing = self.words, source.listing.missing_files
        if not source.samples:
            yield words.text("source.no_samples")
        if not source.has_source:
            yield words.text("source.no_lines")
        elif not source.has_text:
            key = "no_import" if len(missing) == 1 else "no_imports"
            yield words.text(f"source.{key}", **({"file": file_name(missing[0])} if len(missing) == 1 else {}))
        if source.listing.left_out:
            yield words.text("source.left_out", count=source.listing.left_out)


class SourceWords(LinesView, can_focus=False):
    """The highlighted line in full: its code, what its warps wait for, what it does badly."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        super().__init__(id="source-words")
        self.words = words
        self.signs = signs
        self.data: SourceTable | None = None
        self.row: int | None = None

    def show(self, data: SourceTable, row: int | None) -> None:
        self.data, self.row = data, row
        self.rebuild(to_top=True)

    def on_resize(self) -> None:
        # The code around a line takes what is left of the height.
        self.rebuild()

    def build(self, width: int) -> list[Line]:
        data, row = self.data, self.row
        if data is None or data.source is None or row is None:
            return []
        inner = min(width - 2, _MOST_WIDTH)
        page = self._line(data, row, inner) if data.opened is None else self._opened(data, row, inner)
        return [[(" ", ""), *line] for line in page]

    def _line(self, data: SourceTable, row: int, width: int) -> Iterable[Line]:
        words, line = self.words, data.lines[row]
        facts = []
        if line.share_pct is not None:
            facts.append(words.text("source.share", share=units.share(line.share_pct)))
        if line.executed:
            facts.append(words.text("source.executed", count=line.executed))
        if line.threads is not None:
            facts.append(words.text("source.threads", threads=line.threads))
        yield from self._title(line_name(line, words), facts, width)
        code = line.text if line.text is not None and line.text.strip() else line.sass
        if code:
            for part in wrap(tidy(code), width - 2)[:2]:
                yield [("  ", ""), (part, "code")]
        for flag in line.flags:
            if flag.id != "stall":
                first: Line = [(f"{self.signs.warning} ", "warning")]
                yield from paragraph(flag_text(flag, words), width, first=first, indent=2)
        yield from self._stalls(line.stalls, width)
        waiting = max(line.instructions, key=lambda one: one.samples)
        if line.is_hot and data.source is not None:
            yield from self._feeder(data.source, waiting, width)
        if line.is_hot:
            text = flag_text(next(flag for flag in line.flags if flag.id == "stall"), words)
            yield from paragraph(text, width, indent=2, role="faint")

    def _feeder(self, source: Source, one: Instruction, width: int) -> Iterable[Line]:
        """The load that an instruction most likely waits for."""
        feeder = source.feeder(one)
        if feeder is None:
            return
        line = source.line_of(feeder)
        place = f" ({line_name(line, self.words)})" if line.line else ""
        text = self.words.text("source.feeder", number=source.number_of(feeder), sass=tidy(feeder.sass), place=place)
        yield from paragraph(text, width)

    def _title(self, name: str, facts: list[str], width: int) -> Iterable[Line]:
        text = self.signs.separator.join(facts)
        if width_of(name) + 3 + width_of(text) <= width:
            yield [(name, "title"), ("   ", ""), (text, "muted")]
        else:
            yield [(shorten_middle(name, width), "title")]
            for part in wrap(text, width):
                yield [(part, "muted")]

    def _stalls(self, stalls: tuple[Stall, ...], width: int) -> Iterable[Line]:
        words = self.words
        if not stalls:
            yield [(words.text("source.stalls_none"), "faint")]
            return
        cells = max(width_of(stall_name(one.reason, words)) for one in stalls[:_SHOWN_STALLS])
        for one in stalls[:_SHOWN_STALLS]:
            if one.share_pct < 1 and one is not stalls[0]:
                break
            lead: Line = [
                (fit(stall_name(one.reason, words), cells), "strong" if one is stalls[0] else ""),
                (" ", ""),
                (bar(one.share_pct, 100, 8, ascii=self.ascii), "bar-lead" if one is stalls[0] else "bar"),
                (fit(units.share(one.share_pct), 6, right=True), "number"),
                ("  ", ""),
            ]
            indent = line_width(lead)
            if width - indent < 24:
                yield lead
            else:
                text = stall_text(one.reason, words)
                yield from paragraph(text, width, first=lead, indent=indent, role="muted")

    def _opened(self, data: SourceTable, row: int, width: int) -> Iterable[Line]:
        source, words = data.source, self.words
        assert source is not None
        assert data.opened is not None
        line, one = data.lines[data.opened], data.instructions[row]
        facts = [words.text("source.run", count=one.executed)] if one.executed else []
        if one.executed and one.threads:
            facts.append(words.text("source.threads", threads=one.threads / one.executed))
        name = words.text("source.sass", number=source.number_of(one))
        stalls = [
            *self._title(name, facts, width),
            *self._stalls(stalls_of(one), width),
            *self._feeder(source, one, width),
        ]
        around = self._around(source, line, width, self.scrollable_content_region.height - len(stalls) - 1)
        yield from around
        if around:
            yield ()
        yield from stalls

    def _around(self, source: Source, line: HotLine, width: int, height: int) -> list[Line]:
        """The source around a line, with each line's share of the samples."""
        if line.text is None:
            return []
        half = max(1, (height - 1) // 2)
        shares = {(one.file, one.line): one.share_pct for one in source.lines}
        lines: list[Line] = []
        for number, text in source.around(line, min(half, 12)):
            own = number == line.line
            share = shares.get((line.file, number))
            lines.append(
                [
                    (self.signs.cursor if own else " ", "accent"),
                    (fit(str(number), 6, right=True), "strong" if own else "faint"),
                    (fit(units.share(share) if share else "", 6, right=True), "number" if own else "faint"),
                    ("  ", ""),
                    (fit(shown(text.expandtabs(4)), max(4, width - 15)).rstrip(), "code" if own else "muted"),
                ]
            )
        return lines


class SourceView(Vertical):
    """What is shown on top, the lines below it, and the highlighted one in full."""

    def __init__(self, words: Wording, signs: Glyphs, *, ascii: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self.data = SourceTable(words, signs)
        self.data.ascii = ascii
        self.head = SourceHead(words, signs)
        self.table = LineTable(self.data, id="source-table")
        self.words_view = SourceWords(words, signs)
        for widget in (self.head, self.table, self.words_view):
            widget.ascii = ascii
        self.entry: int | None = None
        self._shown: Source | None = None
        self._noted: int | None = None

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.table
        yield self.words_view

    def show(self, entry: int | None, source: Source | None, *, is_pending: bool) -> None:
        """Show the lines of a kernel; ``source`` is ``None`` while they are read, and where there are none."""
        if (entry, source) != (self.entry, self._shown) or source is None:
            self.entry, self._shown = entry, source
            self.data.set_source(source)
            self.head.note = ""
            self._update(first=True)
        self.head.show(self.data, is_pending=is_pending)

    def _update(self, *, first: bool = False, keep: int | None = None) -> None:
        rows = self.data.rows()
        if first and len(rows):
            first_row = self.data.first_row
            keep = int(rows[0]) if first_row is None else first_row
        self.table.set_rows(rows, keep=keep)
        self.head.show(self.data, is_pending=False)
        self.words_view.display = self.data.source is not None
        self.words_view.show(self.data, self.table.row)

    def update_rows(self) -> None:
        self._update()

    def describe_row(self, row: int | None) -> None:
        if row != self._noted and self.data.opened is None:
            self.head.set_note("")
        self.words_view.show(self.data, row)

    def next_order(self) -> None:
        self.data.order = ORDERS[(ORDERS.index(self.data.order) + 1) % len(ORDERS)]
        self._update(first=True)

    def toggle_line(self) -> None:
        """Open the highlighted line, or go back to all of them."""
        if self.data.opened is not None:
            self.close_line()
        elif self.table.row is not None:
            self.data.opened = self.table.row
            self._update(first=True)

    def close_line(self) -> bool:
        """Whether a line was open."""
        opened, self.data.opened = self.data.opened, None
        if opened is not None:
            self._update(keep=opened)
        return opened is not None

    def go_to(self, line: HotLine, note: str) -> None:
        """Put the cursor on this line, and say why."""
        self.data.opened, self.data.filter = None, ""
        self._noted = self.data.lines.index(line)
        self.head.note = note
        self._update(keep=self._noted)
