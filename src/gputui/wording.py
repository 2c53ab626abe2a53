"""The words: every sentence a person reads, by id and language, from ``data/wording/<language>.toml``.

No sentence is put together in Python; texts hold placeholders such as ``{dram_pct:pct}``, whose formats are those of
``units.BY_NAME``, and ``{blocks:many block}`` for ``1 block`` and ``16 blocks``.
"""

from __future__ import annotations

import os
import re
import string
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from gputui import units
from gputui.data import text_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from gputui.analysis.finding import Finding, Verdict
    from gputui.analysis.timeline_diagnosis import TimelineVerdict
    from gputui.analysis.transformer import Expected
    from gputui.model.report import Notice

ReaderLevel = Literal["pytorch", "triton", "cuda"]
READER_LEVELS: tuple[ReaderLevel, ...] = ("pytorch", "triton", "cuda")
LANGUAGES = ("en", "ja")


@dataclass(frozen=True, slots=True)
class FindingText:
    title: str
    why: str
    analogy: str
    actions: Mapping[ReaderLevel, tuple[str, ...]]
    verify: str


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        formatter = units.BY_NAME.get(format_spec)
        if formatter is not None:
            return formatter(value)
        if format_spec.startswith("many "):
            noun = format_spec.removeprefix("many ")
            return f"{units.count(value)} {noun}" if value == 1 else f"{units.count(value)} {noun}s"
        return str(super().format_field(value, format_spec))


_FORMATTER = _Formatter()


_CONDITION = re.compile(r"\[([a-z, !-]+)\] ")
"""Before an action: ``[product, !library]`` where it is for products that are no library's."""


def _fitting(actions: Iterable[str], tags: Collection[str]) -> Iterator[str]:
    """The actions whose conditions hold, without them."""
    for action in actions:
        found = _CONDITION.match(action)
        conditions = found.group(1).split(", ") if found is not None else []
        if all((one.removeprefix("!") in tags) != one.startswith("!") for one in conditions):
            yield action[found.end() :] if found is not None else action


def _variant(row: Mapping[str, Any], variant: str, prefix: str = "") -> str | None:
    """The key of the first form of a text that there is: of the whole variant, or of its parts, joined by ``+``."""
    return next((key for one in variant.split("+") if one and (key := f"{prefix}{one}") in row), None)


_TABLE = re.compile(r"^(?=\[)", re.MULTILINE)
"""Where a table of a file of texts begins: nothing else in them stands at the start of a line with a bracket."""


class _Tables(Mapping[str, Any]):
    """The tables of a TOML file whose names go on from ``path``, each parsed once it is asked for.

    All of them take Python's own parser 70 ms, and a report needs few. Those without keys of their own are divided
    again: a finding's texts are read, not those of all findings.
    """

    def __init__(self, parts: Iterable[str], path: tuple[str, ...] = ()) -> None:
        self._path = path
        self._parts: dict[str, list[str]] = {}
        for part in parts:
            name = part[1 : part.index("]")].split(".")[len(path)]
            self._parts.setdefault(name, []).append(part)
        self._read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._read:
            parts = self._parts[key]
            path = (*self._path, key)
            start = f"[{'.'.join(path)}."
            if not self._path and all(part.startswith(start) for part in parts):
                self._read[key] = _Tables(parts, path)
            else:
                table: Any = tomllib.loads("".join(parts))
                for name in path:
                    table = table[name]
                self._read[key] = table
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Wording:
    """One language's texts."""

    def __init__(self, language: str) -> None:
        self.language = language
        text = text_of(f"wording/{language}.toml")
        self._table: Mapping[str, Any] = _Tables(_TABLE.split(text)[1:])

    def text(self, path: str, /, **params: Any) -> str:
        """The text at a dotted path, filled. Raises ``KeyError`` for a path or parameter that does not exist."""
        node = self._node(path)
        if not isinstance(node, str):
            raise KeyError(path)
        return _FORMATTER.vformat(node, (), params)

    def texts(self, path: str, /, **params: Any) -> tuple[str, ...]:
        """The texts of the list at a dotted path, filled; none where there is no such path."""
        try:
            node = self._node(path)
        except KeyError:
            return ()
        return tuple(_FORMATTER.vformat(one, (), params) for one in ([node] if isinstance(node, str) else node))

    def _node(self, path: str) -> Any:
        node: Any = self._table
        for part in path.split("."):
            if not isinstance(node, Mapping):
                raise KeyError(path)
            node = node[part]
        return node

    def ui(self, key: str, /, **params: Any) -> str:
        """A label of the screen or of the printed text."""
        return self.text(f"ui.{key}", **params)

    def finding(self, finding: Finding, tags: Collection[str] = ()) -> FindingText:
        """The texts of a finding, with the actions that fit a kernel of these ``tags`` (``Diagnosis.tags``)."""
        row = self._table["finding"][finding.id]

        def part(key: str) -> Any:
            return row[_variant(row, finding.variant, f"{key}-") or key]

        def fill(text: str) -> str:
            return _FORMATTER.vformat(text, (), finding.params)

        return FindingText(
            title=fill(part("title")),
            why=fill(part("why")),
            analogy=fill(part("analogy")),
            actions={
                level: tuple(fill(one) for one in _fitting(part("actions")[level], tags))
                or (self._no_action(level, tags),)
                for level in READER_LEVELS
            },
            verify=fill(part("verify")),
        )

    def _no_action(self, level: ReaderLevel, tags: Collection[str]) -> str:
        return self.text(f"no-action.{'inductor' if level == 'pytorch' and 'inductor' in tags else level}")

    def finding_name(self, id: str) -> str:
        """A finding's short name, without numbers, for lists of what was or was not checked."""
        name: str = self._table["finding"][id]["name"]
        return name

    def verdict_name(self, id: str) -> str:
        """One or two words for a verdict, for the list."""
        name: str = self._table["verdict"][id]["name"]
        return name

    def verdict(self, verdict: Verdict) -> str:
        """The one sentence."""
        return self.text(f"verdict.{verdict.id}.{verdict.variant}", **verdict.params)

    def timeline_verdict(self, verdict: TimelineVerdict) -> str:
        """The one sentence about a timeline."""
        row = self._table["timeline"]["verdict"][verdict.id]
        text: str = row[_variant(row, verdict.variant) or "default"]
        return _FORMATTER.vformat(text, (), verdict.params)

    def expected(self, expected: Expected, what: str) -> str | None:
        """How a kernel differs from where its kind belongs; ``what`` names the kind."""
        if expected.variant is None:
            return None
        return self.text(f"expected.{expected.side}-{expected.variant}", what=what, **expected.params)

    def notice(self, notice: Notice) -> str:
        return self.text(f"notice.{notice.id}", **notice.params)

    def glossary(self) -> Mapping[str, Mapping[str, str]]:
        """Term id → ``term``, ``text``, and for words of timelines ``of``."""
        table: Mapping[str, Mapping[str, str]] = self._table["glossary"]
        return table


@cache
def wording(language: str = "en") -> Wording:
    """The texts of a language (``"en"`` or ``"ja"``)."""
    return Wording(language)


def language_of_locale() -> str:
    """``"ja"`` where the environment's locale is Japanese, else ``"en"``."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return "ja" if value.startswith("ja") else "en"
    return "en"
