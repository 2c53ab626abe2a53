"""Every metric of the selected kernel in NVIDIA's own order, and in plain words what the highlighted one means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical

from gputui import units
from gputui.model.describe import describe
from gputui.model.metrics import concept_of_metric
from gputui.paint.grid import width_of
from gputui.views import ordering
from gputui.views.glyphs import Glyphs
from gputui.views.paper import LinesView
from gputui.views.text import Line, fit, paragraph, shorten_middle, shown, wrap
from gputui.views.widgets.line_table import LineTable, TableState, highlight

if TYPE_CHECKING:
    from gputui.model.metrics import Metric
    from gputui.model.report import Extras
    from gputui.wording import Wording


_LISTS = ("breakdown:", "group:")


class MetricTable:
    """The metrics as rows, by section; those of no section come last."""

    def __init__(self, words: Wording, signs: Glyphs) -> None:
        self.words = words
        self.signs = signs
        self.filter = ""
        self.names: list[str] = []
        self.collapsed: set[str] = set()
        self._metrics: Mapping[str, Metric] = {}
        self._labels: list[str] = []
        self._texts: list[str] = []
        self._groups = ordering.NO_ROWS
        self._sections: list[str] = []
        self._counts = ordering.NO_ROWS

    def set_metrics(self, metrics: Mapping[str, Metric], extras: Extras) -> None:
        """Take over a kernel's metrics. A metric shown by several sections stands under the first.

        Lists of other metrics' names (``breakdown:``, ``group:``) are no metrics to read.
        """
        metrics = {name: metric for name, metric in metrics.items() if not name.startswith(_LISTS)}
        placed: dict[str, int] = {}
        self._sections = []
        for section in extras.sections:
            new = [name for name in section.metrics if name in metrics and name not in placed]
            if new:
                placed.update(dict.fromkeys(new, len(self._sections)))
                self._sections.append(shown(section.name))
        rest = [name for name in metrics if name not in placed]
        if rest:
            placed.update(dict.fromkeys(rest, len(self._sections)))
            self._sections.append(self.words.ui("metrics_other" if len(self._sections) else "metrics_all"))
        self._metrics = metrics
        self.names = list(placed)
        self._labels = [self._label(name, extras) for name in self.names]
        self._texts = [f"{name}\n{label}".casefold() for name, label in zip(self.names, self._labels, strict=True)]
        self._groups = np.array(list(placed.values()), dtype=np.int64)

    def _label(self, name: str, extras: Extras) -> str:
        """NVIDIA's label, else ours, else the metric's own name."""
        label = extras.labels.get(name, "")
        if label and "{" not in label:
            return shown(label)
        concept = concept_of_metric().get(name)
        if concept is not None:
            return concept.label.get(self.words.language) or concept.label["en"]
        return shown(name)

    def rows(self) -> ordering.Rows:
        rows = np.arange(len(self.names), dtype=np.int64)
        if self.filter:
            rows = ordering.keep(rows, np.array([self.filter in text for text in self._texts], dtype=bool))
        self._counts = np.bincount(self._groups[rows], minlength=len(self._sections))
        expanded = {number for number, name in enumerate(self._sections) if self.filter or name not in self.collapsed}
        return ordering.group_rows(rows, self._groups, expanded)

    def toggle(self, group: int) -> None:
        self.collapsed ^= {self._sections[group]}

    def matches(self, query: str, row: int) -> bool:
        return row >= 0 and query in self._texts[row]

    def metric(self, row: int) -> Metric:
        return self._metrics[self.names[row]]

    def label(self, row: int) -> str:
        return self._labels[row]

    def value_text(self, row: int) -> str:
        metric = self.metric(row)
        if metric.value is None:
            return units.DASH
        if isinstance(metric.value, str):
            return shown(metric.value, 200)
        return units.quantity(metric.value, shown(metric.unit, 40))

    def columns(self, width: int) -> tuple[int, int, int]:
        """Cells for label, value and name."""
        value = 18
        if width < 76:
            return width - value - 3, value, 0
        label = min(44, (width - value) * 2 // 5)
        return label, value, width - label - value - 5

    def head(self, width: int) -> Line:
        label, value, name = self.columns(width - 1)
        return [
            (" ", "head"),
            (fit(f"  {self.words.ui('column.metric')}", label), "head"),
            (" ", "head"),
            (fit(self.words.ui("column.value"), value, right=True), "head"),
            ("  ", "head"),
            (fit(self.words.ui("column.metric_name"), name) if name else "", "head"),
        ]

    def row(self, row: int, state: TableState) -> Line:
        if row < 0:
            group = ordering.group_of(row)
            sign = (
                self.signs.folded
                if self._sections[group] in self.collapsed and not self.filter
                else self.signs.unfolded
            )
            return [
                (f"{sign} ", "accent"),
                (shorten_middle(self._sections[group], state.width - 8), "strong"),
                (f"  {self._counts[group]}", "faint"),
            ]
        label, value, name = self.columns(state.width)
        text = shorten_middle(self._labels[row], label - 2)
        value_text = shorten_middle(self.value_text(row), value)
        line: list[tuple[str, str]] = [
            ("  ", ""),
            *highlight(text, "", state.query),
            (" " * (label - 2 - width_of(text) + 1), ""),
            (fit(value_text, value, right=True), "number"),
            ("  ", ""),
        ]
        if name:
            line += highlight(shorten_middle(shown(self.names[row]), name), "faint", state.query)
        return line


class MetricWords(LinesView, can_focus=False):
    """What one metric means: our words, then NVIDIA's."""

    def __init__(self, words: Wording) -> None:
        super().__init__(id="metric-words")
        self.words = words
        self.name_shown = ""
        self._lines_of: tuple[str, str, str, str] | None = None

    def show(self, label: str, value: str, name: str, nvidia: str) -> None:
        self._lines_of = (label, value, name, nvidia)
        self.rebuild(to_top=True)

    def clear(self) -> None:
        self._lines_of = None
        self.rebuild()

    def build(self, width: int) -> list[Line]:
        if self._lines_of is None:
            return []
        label, value, name, nvidia = self._lines_of
        inner = min(width - 2, 110)
        lines: list[Line] = [[(label, "title"), ("  ", ""), (value, "number")]]
        if name != label:
            lines += [[(part, "code")] for part in wrap(shown(name), inner)]
        lines += paragraph(shown(describe(name, self.words.language)), inner)
        if nvidia:
            lead = f"{self.words.ui('nvidia_says')} "
            lines += paragraph(nvidia, inner, first=[(lead, "label-word")], indent=width_of(lead), role="muted")
        return [[(" ", ""), *line] for line in lines]


class MetricsView(Vertical):
    """The table above, the words below."""

    def __init__(self, words: Wording, signs: Glyphs, *, ascii: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self.words = words
        self.data = MetricTable(words, signs)
        self.table = LineTable(self.data, id="metric-table")
        self.description = MetricWords(words)
        self.table.ascii = self.description.ascii = ascii
        self.entry: int | None = None
        self._extras: Extras | None = None

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.description

    def show(self, entry: int, metrics: Mapping[str, Metric], extras: Extras) -> None:
        """Show another kernel; the cursor stays on the metric of the same name."""
        row = self.table.row
        name = self.data.names[row] if row is not None and row >= 0 and row < len(self.data.names) else None
        self.entry = entry
        self._extras = extras
        self.data.set_metrics(metrics, extras)
        keep = self.data.names.index(name) if name in metrics and name is not None else None
        self.table.set_rows(self.data.rows(), keep=keep)
        self.describe_row(self.table.row)

    def update_rows(self) -> None:
        self.table.set_rows(self.data.rows())

    def unfold(self) -> None:
        row = self.table.row
        if row is not None and row < 0:
            self.data.toggle(ordering.group_of(row))
            self.update_rows()

    def describe_row(self, row: int | None) -> None:
        if row is None or row < 0 or row >= len(self.data.names):
            self.description.clear()
            return
        name = self.data.names[row]
        nvidia = self._extras.descriptions.get(name, "") if self._extras else ""
        nvidia = shown(" ".join(nvidia.split()), 600)
        if "{" in nvidia:  # NVIDIA's unfilled pattern, no text
            nvidia = ""
        self.description.show(self.data.label(row), self.data.value_text(row), name, nvidia)
