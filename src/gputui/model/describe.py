"""What a hardware metric means, from the parts of its name, for those that the dictionary does not hold.

A part that is not in ``data/metric_words.toml`` stays as it is in the name: nothing is invented.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache

from gputui.data import text_of
from gputui.model.metrics import concept_of_metric

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Words = Mapping[str, Mapping[str, str]]

_NAMES_ONLY = frozenset({"c2clink", "device", "launch", "numa", "nvlink", "profiler"})
"""Units whose metrics are properties with names of their own, not counts made of parts."""


def describe(metric_name: str, lang: str = "en") -> str:
    """A plain sentence on the metric; a language without words of its own gets English."""
    concept = concept_of_metric().get(metric_name)
    if concept is not None:
        return concept.plain.get(lang) or concept.plain["en"]
    shape = _tables()["shape"]
    text = _sentence(metric_name, lang)
    return text[:1].upper() + text[1:] + _in(lang, shape["end"])


@cache
def _tables() -> Mapping[str, _Words]:
    text = text_of("metric_words.toml")
    tables: Mapping[str, _Words] = tomllib.loads(text)
    return tables


def _in(lang: str, word: Mapping[str, str]) -> str:
    return word.get(lang) or word["en"]


def _sentence(name: str, lang: str) -> str:
    tables = _tables()
    prefix, colon, rest = name.partition(":")
    if colon and prefix in tables["prefixes"]:
        # A pattern has no parts to put into words.
        text = rest if prefix == "regex" else _sentence(rest, lang)
        return _in(lang, tables["prefixes"][prefix]) + text
    before, found, after = name.partition("__")
    if not found:
        return _quantity_and_form(name, lang)
    # "SM.TriageA.sm": the unit is the last part.
    unit = before.rpartition(".")[2]
    words = tables["units"].get(unit)
    if unit in _NAMES_ONLY:
        rest = after.replace("_", " ")
    elif "__" in after:
        rest = _sentence(after, lang)
    else:
        rest = _quantity_and_form(after, lang)
    return _in(lang, tables["shape"]["unit"]).format(unit=_in(lang, words) if words else unit, rest=rest)


def _quantity_and_form(name: str, lang: str) -> str:
    """``t_sectors_op_read.sum`` → "sectors (pieces of 32 bytes), reads (in total)"."""
    tables = _tables()
    quantity, *submetrics = name.split(".")
    what = _quantity(quantity.split("_"), lang)
    form = _in(lang, tables["shape"]["joint"]).join(
        _in(lang, word) if (word := tables["rollups"].get(part) or tables["suffixes"].get(part)) else part
        for part in submetrics
    )
    return _in(lang, tables["shape"]["form"]).format(what=what, form=form) if form else what


def _quantity(parts: Sequence[str], lang: str) -> str:
    """The known runs of parts in plain words, the longest first; the rest as its own words."""
    words = _tables()["words"]
    pieces: list[str] = []
    own: list[str] = []
    at = 0
    while at < len(parts):
        for end in range(len(parts), at, -1):
            word = words.get("_".join(parts[at:end]))
            if word is None:
                continue
            if own and pieces:
                pieces.append(" ".join(own))
                own = []
            # What stands first says which kind of the thing that follows: "xbar2lts cycles active".
            pieces.append(" ".join([*own, _in(lang, word)]))
            own = []
            at = end
            break
        else:
            own.append(parts[at])
            at += 1
    if own:
        pieces.append(" ".join(own))
    return _in(lang, _tables()["shape"]["joint"]).join(pieces)
