"""``gputui compare``: which reports are read, and what is printed of them. It holds no arithmetic."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple

from gputui.analysis.compare.reports import Chosen, compare_reports
from gputui.analysis.engine import diagnose_all
from gputui.errors import GputuiError
from gputui.formats.together import open_all
from gputui.run.folder import runs
from gputui.run.pairs import kept_pairs
from gputui.terminal import safe
from gputui.units import significant

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gputui.analysis.compare.condition import Condition
    from gputui.analysis.compare.history import History
    from gputui.analysis.compare.model import Comparison
    from gputui.analysis.engine import Diagnosis
    from gputui.model.report import Report
    from gputui.wording import ReaderLevel, Wording

Pattern = re.Pattern[str]


class Asked(NamedTuple):
    """Where the two sides lie, and the folder of runs whose history is told."""

    base: Path | None
    new: Path | None
    history: Path | None = None


class Found(NamedTuple):
    comparisons: tuple[Comparison, ...]
    history: History | None = None


def asked(base: Path, new: Path | None, chosen: Chosen) -> Asked:
    """Raises ``GputuiError`` where there is nothing to compare ``base`` with."""
    if new is not None:
        return Asked(base, new)
    if chosen.base_kernel and chosen.new_kernel and chosen.base_kernel != chosen.new_kernel:
        return Asked(base, base)
    found = runs(base) if os.path.isdir(base) else []
    if len(found) < 2:
        raise GputuiError(
            f"gputui compare {shlex.quote(str(base))}",
            "has nothing to compare it with",
            "Name the report after the change too, or a folder of runs, or kernels with --base-kernel and --new-kernel",
        )
    told = [one for one in found if one.reports]
    own = [one.path for one in told if one.program == told[0].program]
    return Asked(own[-1], own[0], base) if len(own) > 1 else Asked(None, None, base)


def pair(text: str, pattern: Callable[[str, str], Pattern | None]) -> tuple[Pattern | None, Pattern | None]:
    """``BASE=NEW`` as two expressions, ``None`` for one that is empty."""
    base, equals, new = text.partition("=")
    if not equals or not (base or new):
        raise GputuiError(
            f"--pair {text}", "does not say what became what", "Write BASE=NEW, such as --pair 'softmax|bmm=flash'"
        )
    return (pattern("--pair", base) if base else None), (pattern("--pair", new) if new else None)


@contextmanager
def found(
    asked: Asked, chosen: Chosen, words: Wording, warn: Callable[[GputuiError], None], *, same_work: bool
) -> Iterator[Found]:
    """What is asked for; within, its reports are open. One bad file of many is a warning."""
    status = _Status(words)
    opened: dict[Path, list[Report]] = {}

    def diagnosed(report: Report) -> Sequence[Diagnosis]:
        status.say("comparing.explaining", count=len(report.kernels), file=Path(report.path).name)
        return diagnose_all(report)

    try:
        history = None
        if asked.history is not None:
            from gputui.run.history import history_of

            history = history_of(asked.history, status.reading)
        comparisons: tuple[Comparison, ...] = ()
        if asked.base is not None and asked.new is not None:
            try:
                for path in (asked.base, asked.new):
                    if path not in opened:
                        opened[path] = _read(path, status, warn)
                status.say("comparing.comparing")
                comparisons = compare_reports(
                    opened[asked.base],
                    opened[asked.new],
                    chosen,
                    kept_pairs((asked.new, asked.base)),
                    same_work=same_work,
                    diagnosed=diagnosed,
                )
            except GputuiError as error:
                if history is None:
                    raise
                status.clear()
                warn(error)
        status.clear()
        yield Found(comparisons, history)
    finally:
        status.clear()
        for report in (one for reports in opened.values() for one in reports):
            report.close()


def _read(path: Path, status: _Status, warn: Callable[[GputuiError], None]) -> list[Report]:
    found = list(open_all([path], status.reading))
    failed = [one for one in found if isinstance(one, GputuiError)]
    read = [one for one in found if not isinstance(one, GputuiError)]
    if not read:
        raise failed[0]
    status.clear()
    for error in failed:
        warn(error)
    return read


class _Status:
    """A line on the terminal that says what goes on, and leaves nothing behind."""

    def __init__(self, words: Wording) -> None:
        self._words = words
        self._is_watched = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"
        self._shown = ""

    def say(self, text: str, **params: object) -> None:
        if self._is_watched:
            from rich.cells import set_cell_size

            line = safe(self._words.text(text, **params))
            self._show(set_cell_size(line, get_terminal_size().columns - 1).rstrip())

    def reading(self, file: str, done: int, total: int) -> bool:
        """As ``FileProgress``."""
        name = Path(file).name
        if total:
            self.say("comparing.reading-part", file=name, percent=100 * done / total)
        else:
            self.say("comparing.reading", file=name)
        return True

    def clear(self) -> None:
        self._show("")

    def _show(self, line: str) -> None:
        if line != self._shown:
            sys.stderr.write(f"\r{line}\x1b[K")
            sys.stderr.flush()
            self._shown = line


def as_json(found: Found, words: Wording) -> str:
    from gputui.render.compare_json import compare_json

    told = compare_json(found.comparisons, words)
    if found.history is not None:
        from gputui.render.history import history_json

        told = {**told, "history": history_json(found.history)}
    return json.dumps(told, allow_nan=False)


def as_markdown(found: Found, words: Wording, level: ReaderLevel | None) -> str:
    parts = []
    if found.history is not None:
        from gputui.render.history import history_markdown

        parts.append(history_markdown(found.history, words))
    if found.comparisons:
        from gputui.render.compare_markdown import compare_markdown

        parts.append(compare_markdown(found.comparisons, words, level))
    return "\n\n".join(part.rstrip("\n") for part in parts)


def as_text(found: Found, words: Wording, level: ReaderLevel | None, *, ascii: bool) -> Iterable[RenderableType]:
    if found.history is not None:
        from gputui.render.history import history_text

        yield from history_text(found.history, words, ascii=ascii)
        if found.comparisons:
            yield ""
    if found.comparisons:
        from gputui.render.compare_text import compare_text

        yield from compare_text(found.comparisons, words, level, ascii=ascii)


def failing(condition: Condition, comparisons: Sequence[Comparison]) -> GputuiError | None:
    """The line that says why the condition holds; ``None`` where it does not."""
    if not condition.holds(comparisons):
        return None
    values = condition.values(comparisons)
    told = [
        f"{name} is {str(value).lower() if isinstance(value, bool) else significant(value, 4)}"
        for name, value in values.items()
    ]
    return GputuiError(f"--fail-if {condition.text}", ", ".join(told) or "it always holds")
