"""``--fail-if``: a condition on what a comparison says, in Python's notation."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from gputui.errors import GputuiError

if TYPE_CHECKING:
    from gputui.analysis.compare.model import Change, Comparison, TimeChange

_MOST = 200
"""Characters of a condition: brackets can be nested deeper than the parser goes."""

Number = float | bool
_Told = Number | str
"""A value, or the id in ``_REASONS`` of why there is none."""


def _time(change: TimeChange | None, value: Callable[[float, TimeChange], Number]) -> _Told:
    """Noise leaves nothing open here: what is not shown to be slower is not slower. Cautions do."""
    if change is None:
        return "no-wall"
    open_ = [one for one in change.because if one not in ("noise", "clocks")]
    if change.speedup is None or open_:
        return open_[0] if open_ else "no-time"
    return value(change.speedup, change)


def _ratio(change: Change) -> _Told:
    if change.because or change.after is None or change.before is None:
        return change.because or "not-counted"
    return change.after / change.before if change.before else "nothing-before"


def _percent(change: Change, value: float | None) -> _Told:
    return change.because or "not-counted" if value is None else value


def _fused(one: Comparison) -> _Told:
    return (one.kernels.because or "part") if one.fusion == "unknown" else one.fusion in ("fused", "both")


def _lead(one: Comparison) -> TimeChange:
    """The time of the headline: the program's, where timelines tell it."""
    return one.wall or one.time


NUMBERS: dict[str, Callable[[Comparison], _Told]] = {
    "time": lambda one: _time(_lead(one), lambda speedup, _: 1 / speedup),
    "speedup": lambda one: _time(_lead(one), lambda speedup, _: speedup),
    "gpu_time": lambda one: _time(one.time, lambda speedup, _: 1 / speedup),
    "wall": lambda one: _time(one.wall, lambda speedup, _: 1 / speedup),
    "dram": lambda one: _ratio(one.dram),
    "kernels": lambda one: _ratio(one.kernels),
    "tensor": lambda one: _ratio(one.tensor),
    "tensor_before": lambda one: _percent(one.tensor, one.tensor.before),
    "tensor_after": lambda one: _percent(one.tensor, one.tensor.after),
}
"""After over before, ``speedup`` before over after, and percent before and after."""
TRUTHS: dict[str, Callable[[Comparison], _Told]] = {
    "faster": lambda one: _time(_lead(one), lambda _, time: time.outcome == "faster"),
    "slower": lambda one: _time(_lead(one), lambda _, time: time.outcome == "slower"),
    "inconclusive": lambda one: _time(_lead(one), lambda _, time: time.outcome == "inconclusive"),
    "fused": _fused,
}

_REASONS = {
    "nothing": ("nothing is compared", "Name two reports or runs of one program"),
    "no-wall": ("only two timelines tell it", "Compare the timelines of both runs"),
    "no-time": ("the reports do not tell the time of every kernel", "Collect them again with gputui run"),
    "timeline": ("a timeline does not count it", "Compare reports of Nsight Compute"),
    "not-counted": ("the reports do not count it in every kernel", "Collect them again with gputui run"),
    "nothing-before": ("there was none before", "Use tensor_after, or look at the comparison"),
    "part": ("a report holds a part of the kernels", "Collect all of them, or the same ones"),
    "truncated": ("a report is cut off", "Collect it again"),
    "mixed-gpus": ("one side has kernels of several GPU models", "Choose those of one: --kernel or --nvtx"),
    "little-paired": (
        "most of the time went to kernels that have none opposite",
        "Compare runs of one program, or --pair",
    ),
    "nothing-paired": ("no kernel of one side does what one of the other does", "Pair them with --pair"),
    "other-gpu": ("the GPUs differ", "Measure both on one GPU"),
    "other-work": ("the two sides do different work", "Measure the same work, or add --same-work if it is"),
    "work-unknown": ("the reports do not tell whether both do the same work", "Add --same-work if they do"),
    "no-steps": ("the timelines show no steps of one kind", "Mark them: with gputui.annotate('step')"),
    "steps-of-one": ("only one timeline shows steps", "Mark them in both: with gputui.annotate('step')"),
    "other-steps": ("the steps of the two timelines are not the same", "Add --same-work if they are"),
    "other-shapes": ("the two sides do different work", "Measure the same work, or add --same-work if it is"),
    "other-tool": ("the timelines come from different tools", "Record both with the same one"),
    "events-lost": ("a timeline lost events", "Record it again, shorter"),
    "whole-graphs": ("CUDA graphs hide their kernels", "Record both with --cuda-graph-trace=node"),
    "gpu-count": ("different numbers of GPUs work", "Record both on as many"),
    "collectives": ("waiting for other GPUs takes much of it", "Look at wall instead"),
    "cache-control": ("only one side started each kernel with empty caches", "Collect both with the same options"),
}
"""By the id of what leaves it open: why, and what to do."""
_OTHERWISE = ("the comparison leaves it open", "gputui compare says why")

_OPERATORS: dict[type, Callable[[float, float], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    text: str
    tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Raises ``GputuiError`` where it is no condition, or names what a comparison does not tell."""
        try:
            if len(text) > _MOST:
                raise ValueError("it is too long")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text.strip(), mode="eval").body
            _check(tree, truth=True)
        except (SyntaxError, ValueError) as error:
            why = error.msg if isinstance(error, SyntaxError) else str(error)
            raise GputuiError(f"--fail-if {text}", f"is no condition ({why})", _HINT) from error
        return cls(text, tree)

    def holds(self, comparisons: Sequence[Comparison]) -> bool:
        """Raises ``GputuiError`` where the answer hangs on what the reports do not tell."""
        return bool(self._value(self.tree, comparisons, {}))

    def values(self, comparisons: Sequence[Comparison]) -> dict[str, Number]:
        """What the names stand for that the answer hangs on. Raises as ``holds`` does."""
        found: dict[str, Number] = {}
        self._value(self.tree, comparisons, found)
        return found

    def _value(self, node: ast.expr, comparisons: Sequence[Comparison], found: dict[str, Number]) -> Number:
        def value(part: ast.expr) -> Number:
            return self._value(part, comparisons, found)

        match node:
            case ast.Name(id=name):
                found[name] = self._named(name, comparisons)
                return found[name]
            case ast.Constant(value=int() | float() as constant):
                return float(constant)
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(map(value, parts))
            case ast.BoolOp(values=parts):
                return any(map(value, parts))
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return not value(part)
            case ast.UnaryOp(op=sign, operand=part):
                return -value(part) if isinstance(sign, ast.USub) else value(part)
            case ast.BinOp(left=left, op=op, right=right):
                try:
                    result = _OPERATORS[type(op)](value(left), value(right))
                except ZeroDivisionError as error:
                    raise GputuiError(f"--fail-if {self.text}", "divides by 0", "Write it without") from error
                if not isfinite(result):
                    raise GputuiError(f"--fail-if {self.text}", "goes beyond all numbers", "Write smaller ones")
                return result
            case ast.Compare(left=left, ops=ops, comparators=others):
                low = value(left)
                for comparison, other in zip(ops, others, strict=True):
                    high = value(other)
                    if not _OPERATORS[type(comparison)](low, high):
                        return False
                    low = high
                return True
        raise AssertionError(node)

    def _named(self, name: str, comparisons: Sequence[Comparison]) -> Number:
        """From the first comparison that tells it."""
        reason = "nothing"
        for one in comparisons:
            told = {**NUMBERS, **TRUTHS}[name](one)
            if not isinstance(told, str):
                return told
            reason = told
        if name == "inconclusive":
            return True
        why, hint = _REASONS.get(reason, _OTHERWISE)
        raise GputuiError(f"--fail-if {self.text}", f"cannot tell {name}, because {why}", hint)


_HINT = (
    'Write one such as "time > 1.05 or fused": the numbers are '
    f"{', '.join(NUMBERS)}; what is true or not is {', '.join(TRUTHS)}"
)


def _check(node: ast.expr, *, truth: bool) -> None:
    """Raises ``ValueError`` unless the expression is one of those known, of numbers compared where a truth is due."""
    match node:
        case ast.Name(id=name):
            if name not in NUMBERS and name not in TRUTHS:
                raise ValueError(f"{name} is no name that it knows")
            if (name in TRUTHS) != truth:
                raise ValueError(f"{name} is a number" if truth else f"{name} is no number")
        case ast.BoolOp(values=parts) if truth:
            for part in parts:
                _check(part, truth=True)
        case ast.UnaryOp(op=ast.Not(), operand=part) if truth:
            _check(part, truth=True)
        case ast.Compare(left=left, ops=ops, comparators=others) if truth and all(type(op) in _OPERATORS for op in ops):
            for part in (left, *others):
                _check(part, truth=False)
        case ast.BinOp(left=left, op=op, right=right) if not truth and type(op) in _OPERATORS:
            _check(left, truth=False)
            _check(right, truth=False)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=part) if not truth:
            _check(part, truth=False)
        case ast.Constant(value=int() | float() as constant) if not truth and not isinstance(constant, bool):
            pass
        case _:
            raise ValueError("it takes names, numbers, + - * / and brackets, comparisons, and, or, not")
