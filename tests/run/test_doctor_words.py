"""Every check has its words in every language, and they can be filled with what the check tells."""

from __future__ import annotations

import ast
import re
import string
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from gputui.render.doctor import message, summary, told
from gputui.run import doctor
from gputui.run.doctor import Check, State
from gputui.wording import LANGUAGES, wording

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WHO = {"host", "user"}
CHECKS: Mapping[tuple[str, str], tuple[State, set[str]]] = {
    ("gpu", "found"): ("ok", {"gpus"}),
    ("gpu", "unknown"): ("unknown", set()),
    ("gpu", "hidden"): ("problem", {"value"}),
    ("gpu", "unseen"): ("problem", {"driver", *WHO}),
    ("gpu", "none"): ("problem", WHO),
    ("gpu", "container"): ("problem", WHO),
    ("driver", "found"): ("ok", {"driver"}),
    ("driver", "unknown"): ("unknown", set()),
    ("driver", "mismatch"): ("problem", {"error", *WHO}),
    ("driver", "broken"): ("problem", {"error", *WHO}),
    **{
        (tool, variant): shape
        for tool in ("nsys", "ncu")
        for variant, shape in {
            "found": ("ok", {"path", "version"}),
            "unknown": ("unknown", set()),
            "broken": ("problem", {"path", "error", *WHO}),
            "missing": ("problem", WHO),
        }.items()
    },
    ("chip", "known"): ("ok", {"version"}),
    ("chip", "too-old"): ("problem", {"gpu", "capability", "version", *WHO}),
    ("chip", "too-new"): ("problem", {"gpu", "capability", "version", *WHO}),
    ("counters", "open"): ("ok", set()),
    ("counters", "administrator"): ("ok", set()),
    ("counters", "wsl"): ("unknown", WHO),
    ("counters", "unknown"): ("unknown", WHO),
    ("counters", "rootless"): ("unknown", {"driver", *WHO}),
    ("counters", "restricted"): ("problem", {"driver", *WHO}),
    ("counters", "container"): ("problem", {"driver", *WHO}),
    ("counters", "kubernetes"): ("problem", {"driver", *WHO}),
    ("mig", "off"): ("ok", set()),
    ("mig", "on"): ("warning", {"count", "all"}),
    ("confidential", "on"): ("warning", WHO),
    ("sampling", "allowed"): ("ok", {"level"}),
    ("sampling", "unknown"): ("unknown", set()),
    ("sampling", "paranoid"): ("warning", {"level", *WHO}),
    ("sampling", "seccomp"): ("warning", WHO),
    ("ptrace", "allowed"): ("ok", {"scope", *WHO}),
    ("ptrace", "strict"): ("warning", {"scope", *WHO}),
    ("container", "inside"): ("ok", {"kind"}),
    ("profilers", "none"): ("ok", set()),
    ("profilers", "monitor"): ("warning", {"programs", *WHO}),
    ("profilers", "profiler"): ("warning", {"programs", *WHO}),
    ("injection", "none"): ("ok", set()),
    ("injection", "refused"): ("problem", {"value"}),
    ("injection", "inside"): ("warning", {"names"}),
    ("injection", "preload"): ("warning", {"value"}),
    ("temp", "good"): ("ok", {"path", "free", *WHO}),
    ("temp", "unwritable"): ("problem", {"path", "free", *WHO}),
    ("temp", "noexec"): ("warning", {"path", "free", *WHO}),
    ("temp", "low"): ("warning", {"path", "free", *WHO}),
    ("lock", "taken"): ("problem", {"path", "owner", *WHO}),
    ("disk", "good"): ("ok", {"path", "free"}),
    ("disk", "unwritable"): ("warning", {"path", "free"}),
    ("disk", "low"): ("warning", {"path", "free"}),
}
"""The state of each check and what it tells."""
NUMBERS = {"free": 10**9, "level": 4, "scope": 3, "count": 1, "all": 2}


def check_of(id: str, variant: str) -> Check:
    state, names = CHECKS[id, variant]
    params = {name: NUMBERS.get(name, f"<{name}>") for name in names}
    return Check(id, state, variant, params, ("ncu",) if state == "problem" else ())


def table(language: str) -> dict[str, Any]:
    text = resources.files("gputui.data").joinpath("wording").joinpath(f"{language}.toml").read_text(encoding="utf-8")
    rows: dict[str, Any] = tomllib.loads(text)["doctor"]
    return rows


def made() -> Iterator[tuple[str, str]]:
    """The ids and variants that ``doctor.py`` names: every string constant that a Check is made with."""
    tree = ast.parse(Path(doctor.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Check":
            id, variant = node.args[0], node.args[2]
            if isinstance(id, ast.Constant):
                for part in ast.walk(variant):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                        yield id.value, part.value


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_are_those_of_the_checks(language: str) -> None:
    rows = {id: row for id, row in table(language).items() if isinstance(row, dict) and id != "outlook"}
    written = {(id, variant) for id, row in rows.items() for variant in row if variant != "name"}
    assert written == CHECKS.keys()
    assert all(row["name"] for row in rows.values())
    assert set(made()) - written == set()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("id", "variant"), CHECKS)
def test_every_text_can_be_filled(language: str, id: str, variant: str) -> None:
    row = table(language)[id][variant]
    assert {"found"} <= row.keys() <= {"found", "fix-root", "fix-user", "ask"}
    state, params = CHECKS[id, variant]
    for part in row.values():
        for text in [part] if isinstance(part, str) else part:
            assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= params
    (line,) = told([check_of(id, variant)], wording(language))
    assert line.state == state
    assert line.name
    assert line.found
    assert not re.search(r"\{\w*\}|None", line.found)
    assert [heading for heading, _ in line.fixes] == [
        wording(language).text(f"doctor.{part}") for part in ("fix-user", "fix-root", "ask") if part in row
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_wrong_has_a_fix_and_what_needs_an_administrator_a_message(language: str) -> None:
    for (id, variant), (state, params) in CHECKS.items():
        row = table(language)[id][variant]
        if state == "ok":
            assert row.keys() == {"found"}, id
            continue
        assert "fix-user" in row or (state, id) == ("unknown", "sampling") or variant == "unknown", (id, variant)
        if "fix-root" in row and variant != "noexec":
            assert "ask" in row, (id, variant)
            text = message([check_of(id, variant)], wording(language))
            assert "<user>" in text or "user" not in params, (id, variant)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sentence_that_comes_first(language: str) -> None:
    words = wording(language)
    counters = Check("counters", "problem", "restricted", {}, ("ncu",))
    nsys = Check("nsys", "problem", "missing", {}, ("nsys",))
    gpu = Check("gpu", "problem", "none", {}, ("nsys", "ncu"))
    fine = Check("temp", "ok", "good")
    unsure = Check("counters", "unknown", "unknown")
    sentences = [summary(one, words) for one in ([fine], [unsure], [counters], [nsys], [counters, nsys], [gpu])]
    assert len(set(sentences)) == 6
    assert words.text("doctor.counters.name") in sentences[2]
    assert words.text("doctor.nsys.name") in sentences[3]


def test_the_sentences_in_english() -> None:
    words = wording("en")
    assert summary([Check("temp", "ok", "good")], words) == "Profiling works here: timeline and counters."
    assert summary([Check("counters", "problem", "restricted", {}, ("ncu",))], words) == (
        "The timeline works here; counters do not: permission to read the GPU's counters."
    )
    assert summary([Check("gpu", "problem", "none", {}, ("nsys", "ncu"))], words) == (
        "No usable GPU here, so nothing can be profiled. Opening reports works: gputui open PATH."
    )


def test_the_message_holds_the_facts_and_the_commands() -> None:
    params = {"driver": "580.159.04", "host": "gpu7", "user": "alice\x1b[31m"}
    restricted = Check("counters", "problem", "restricted", params, ("ncu",))
    paranoid = Check("sampling", "warning", "paranoid", {"level": 4, **params})
    text = message([paranoid, restricted], wording("en"))
    assert "on gpu7" in text
    assert "driver 580.159.04" in text
    assert "NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/" in text
    assert "\x1b" not in text
    # What only limits is not asked for beside what prevents.
    assert "perf_event_paranoid" not in text
    assert "perf_event_paranoid=2" in message([paranoid], wording("en"))
    assert message([Check("temp", "ok", "good")], wording("en")) == ""
