"""The metric dictionary: what a concept ("DRAM throughput") is called in reports from 2018 to 2026.

A concept is looked up by its list of names, in order, then by its formulas over other concepts. Values are in
base units (bytes, ns, Hz, percent 0-100). A concept that the report does not tell is ``None``, never 0.
The table itself is ``data/metrics.toml``. No I/O but that table, no UI.
"""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from gputui.data import text_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_LARGEST = 1e30
"""Beyond what any counter holds; arithmetic on larger or tinier numbers leaves the range of a float."""


def is_sane(value: float) -> bool:
    return value == 0 or 1 / _LARGEST <= abs(value) <= _LARGEST


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as the report stores it, in base units.

    ``value`` is a number or a string; ``None`` where the report names the metric and holds no value (NaN too).
    ``instances`` are its parts by name (instructions by opcode), where the report keeps them and gputui reads them.
    """

    name: str
    value: float | str | None
    unit: str
    instances: Mapping[str, float] | None = field(default=None, hash=False)

    @property
    def number(self) -> float | None:
        """The value as a number; one that no counter can reach is damage and counts as not told."""
        return self.value if isinstance(self.value, (int, float)) and is_sane(self.value) else None


@dataclass(frozen=True, slots=True)
class Value:
    """A concept's value and where it came from: a metric's name, or the formula over names that gave it."""

    value: float
    unit: str
    metric: str


@dataclass(frozen=True, slots=True)
class Concept:
    """One row of the dictionary; ``section`` is the ncu section (or set) that collects it."""

    id: str
    names: tuple[str, ...]
    unit: str
    section: str
    formulas: tuple[Formula, ...]
    label: Mapping[str, str]
    plain: Mapping[str, str]


class Formula:
    """An arithmetic expression over concept ids and numbers: ``+ - * /`` and brackets.

    Raises ``ValueError`` where the text holds anything else.
    """

    __slots__ = ("_code", "_places", "concepts", "text")

    _ALLOWED = (ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Name, ast.Load, ast.Constant)

    def __init__(self, text: str) -> None:
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            if not isinstance(node, self._ALLOWED) or (
                isinstance(node, ast.Constant) and type(node.value) not in (int, float)
            ):
                raise ValueError(f"{type(node).__name__} is not allowed in a formula: {text!r}")
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        self.text = text
        self.concepts = tuple(dict.fromkeys(node.id for node in names))
        self._code: ast.expr = tree.body
        # From the last to the first, so that replacing one leaves the places of the others.
        self._places = sorted(((node.col_offset, node.end_col_offset, node.id) for node in names), reverse=True)

    def evaluate(self, values: Mapping[str, float]) -> float | None:
        """The result, or ``None`` where it is not finite (a division by zero)."""
        try:
            result = _evaluate(self._code, values)
        except (ZeroDivisionError, OverflowError):
            return None
        return result if math.isfinite(result) else None

    def spell(self, metrics: Mapping[str, str]) -> str:
        """The expression with each concept replaced by the metric that gave it, for the evidence."""
        text = self.text
        for start, end, id in self._places:
            metric = metrics[id]
            text = f"{text[:start]}{f'({metric})' if ' ' in metric else metric}{text[end:]}"
        return text


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _evaluate(node: ast.expr, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))
    if isinstance(node, ast.Name):
        return values[node.id]
    assert isinstance(node, ast.Constant)
    return float(node.value)  # type: ignore[arg-type]


@cache
def dictionary() -> Mapping[str, Concept]:
    """Every concept by its id."""
    text = text_of("metrics.toml")
    return {
        id: Concept(
            id=id,
            names=tuple(row.get("names", ())),
            unit=row["unit"],
            section=row["section"],
            formulas=tuple(Formula(text) for text in row.get("formulas", ())),
            label=row["label"],
            plain=row["plain"],
        )
        for id, row in tomllib.loads(text).items()
    }


@cache
def concept_of_metric() -> Mapping[str, Concept]:
    """The concept that a report's metric name stands for, by that name."""
    return {name: concept for concept in reversed(tuple(dictionary().values())) for name in concept.names}


def names_of(concepts: Iterable[str]) -> tuple[str, ...]:
    """Every metric name that may be asked to answer ``concepts``, the formulas' own concepts included."""
    table = dictionary()
    seen: dict[str, None] = {}
    todo = list(concepts)
    names: dict[str, None] = {}
    while todo:
        id = todo.pop()
        if id in seen:
            continue
        seen[id] = None
        concept = table[id]
        names.update(dict.fromkeys(concept.names))
        for formula in concept.formulas:
            todo.extend(formula.concepts)
    return tuple(names)


def resolve(id: str, lookup: Callable[[str], Metric | None]) -> Value | None:
    """The concept's value in one kernel; ``lookup`` gives that kernel's metric of a name.

    The first name with a number wins, then the first formula whose parts are all there.
    Raises ``KeyError`` where the dictionary has no such concept.
    """
    return _resolve(id, lookup, frozenset())


def _resolve(id: str, lookup: Callable[[str], Metric | None], open_ids: frozenset[str]) -> Value | None:
    concept = dictionary()[id]
    for name in concept.names:
        metric = lookup(name)
        number = None if metric is None else metric.number
        if number is not None:
            return Value(float(number), concept.unit, name)
    if not concept.formulas:
        return None
    open_ids |= {id}
    for formula in concept.formulas:
        parts: dict[str, Value] = {}
        for part in formula.concepts:
            value = None if part in open_ids else _resolve(part, lookup, open_ids)
            if value is None:
                break
            parts[part] = value
        else:
            result = formula.evaluate({part: value.value for part, value in parts.items()})
            if result is not None:
                return Value(result, concept.unit, formula.spell({part: value.metric for part, value in parts.items()}))
    return None
