"""What the package's own files must not hold, and what must lie beside them."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

PACKAGE = Path(str(resources.files("gputui")))
TEXT = {".py", ".toml", ".csv", ".tsv", ".tcss"}
MACHINE_PATH = re.compile(r"(?<![\w.~/:])/(work|root|tmp|home|Users|mnt|scratch)/\w|[A-Z]:\\+Users\\")
FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in TEXT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_names_a_path_of_some_machine(path: Path) -> None:
    found = MACHINE_PATH.search(path.read_text(encoding="utf-8"))
    assert found is None, found


def test_the_pattern_finds_such_paths() -> None:
    for text in ("open('/home/me/x')", "see /tmp/a.txt", "C:\\Users\\me"):
        assert MACHINE_PATH.search(text)
    for text in ("https://x.org/home/page", "sm__inst/tmp", "~/src/x", "/somewhere/else"):
        assert not MACHINE_PATH.search(text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_text_is_utf8_without_tabs_at_the_margin_or_blanks_at_the_end(path: Path) -> None:
    text = path.read_bytes().decode("utf-8")
    assert "\r" not in text
    assert text == "" or text.endswith("\n")
    if path.suffix in {".py", ".toml", ".tcss"}:
        assert not re.search(r"^\t|[ \t]$", text, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_character_hides_in_a_file(path: Path) -> None:
    assert not re.search(r"[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", path.read_text(encoding="utf-8"))


def test_what_the_commands_read_lies_in_the_package() -> None:
    for name in ("wording/en.toml", "wording/ja.toml", "metrics.toml", "gpu_specs.csv", "kernel_patterns.tsv"):
        assert (PACKAGE / "data" / name).is_file()
    assert (PACKAGE / "data" / "demo" / "tour.ncu-rep").is_file()
