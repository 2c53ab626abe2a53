"""What importing gputui must not cost: no Textual under the views, nothing heavy for ``--version`` and ``--help``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"textual", "pandas", "numpy"}


def modules_after(code: str) -> set[str]:
    program = f"{code}\nimport json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    "package",
    [
        "formats",
        "model",
        "analysis",
        "analysis.engine",
        "paint",
        "render",
        "render.text",
        "run.doctor",
        "render.doctor",
    ],
)
def test_importing_a_package_below_the_views_loads_no_textual(package: str) -> None:
    loaded = modules_after(f"import gputui.{package}")
    assert "gputui" in loaded
    assert not loaded & {"textual"}


@pytest.mark.parametrize("argument", ["--version", "--help", "explain --help"])
def test_version_and_help_load_nothing_heavy(argument: str) -> None:
    code = f"import sys, gputui.cli\nsys.argv = ['gputui', *{argument.split()!r}]\n"
    code += "try: gputui.cli.main()\nexcept SystemExit as end: assert not end.code"
    assert not modules_after(code) & HEAVY


def test_explaining_a_report_loads_neither_textual_nor_pandas_nor_numpy() -> None:
    code = (
        "import gputui.formats, gputui.analysis.engine, gputui.analysis.rules as r, gputui.render.schema\nr.all_rules()"
    )
    assert not modules_after(code) & HEAVY
