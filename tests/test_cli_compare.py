"""``gputui compare`` as its users start it, and what ``compare_reports`` makes of reports and choices."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import gputui
from gputui.analysis.compare.model import Pairing
from gputui.analysis.compare.reports import Chosen, compare_reports
from gputui.cli import main
from gputui.errors import GputuiError
from gputui.formats import open_report
from gputui.model.report import Report
from gputui.run.folder import RunFolder
from gputui.run.machine import Outcome
from gputui.run.pairs import keep_pairs
from gputui.run.plan import Command, Request

SAMPLES = Path(__file__).parents[1] / "sample_reports"
EAGER, SDPA, TOUR = (SAMPLES / f"{name}.ncu-rep" for name in ("attention_eager", "attention_sdpa", "tour"))
TIMELINE = SAMPLES / "timeline_tuned.sqlite"
MAIN = "import sys; from gputui.cli import main; sys.argv[0] = 'gputui'; main()"
PLAIN = {"LC_ALL": "C.UTF-8", "COLUMNS": "100"}


@pytest.fixture(scope="module")
def opened() -> Iterator[dict[Path, Report]]:
    with ExitStack() as stack:
        reports = {path: open_report(path) for path in (EAGER, SDPA, TOUR, TIMELINE)}
        for report in reports.values():
            stack.callback(report.close)
        yield reports


Started = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Started:
    """``gputui compare``, in this process."""

    def start(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["gputui", "compare", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess((), int(ended.value.code or 0), printed.out, printed.err)

    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    return start


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("gputui: ")
    return line


# ------------------------------------------------------------------ in a script


def test_a_script_fails_where_the_condition_holds(tmp_path: Path) -> None:
    """``ncu --import … --page raw --csv`` counts 2050.112 us eager and 1042.944 us fused: slower by 1.966 one way."""
    program = tmp_path / "gputui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{MAIN}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = """
    gputui compare "$1" "$2" --fail-if "time > 1.05 or dram > 1.1" > faster.txt; echo $?
    gputui compare "$2" "$1" --format json --fail-if "dram > 5 and time > 1.05" > slower.json; echo $?
    """
    done = subprocess.run(
        ["sh", "-c", script, "sh", EAGER, SDPA], cwd=tmp_path,
        env={**os.environ, **PLAIN, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["0", "1"]
    assert done.stderr == "gputui: --fail-if dram > 5 and time > 1.05: dram is 5.405, time is 1.966.\n"
    assert (tmp_path / "faster.txt").read_text(encoding="utf-8").strip()
    json.loads((tmp_path / "slower.json").read_text(encoding="utf-8"))


def test_what_the_reports_do_not_tell_is_status_2_after_the_comparison(compare: Started) -> None:
    done = compare(TOUR, TOUR, "--kernel", "transpose", "--fail-if", "wall > 1")
    assert done.returncode == 2
    assert done.stdout.strip()
    assert done.stderr.splitlines() == [
        "gputui: --fail-if wall > 1: cannot tell wall, because only two timelines tell it. "
        "Compare the timelines of both runs."
    ]


# ------------------------------------------------------------------ wrong usage


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([TOUR], "has nothing to compare it with. Name the report after the change too"),
        ([TOUR, "--kernel", "transpose"], "has nothing to compare it with"),
        ([SAMPLES], "has nothing to compare it with"),
        ([TOUR, "none.ncu-rep"], "none.ncu-rep: does not exist"),
        ([TOUR, TIMELINE], "is a timeline, and "),
        ([TOUR, TOUR, "--base-kernel", "nosuch"], "nosuch: finds no kernel of the base side, "),
        ([TOUR, TOUR, "--new-kernel", "nosuch"], "nosuch: finds no kernel of the new side, "),
        ([TOUR, TOUR, "--kernel", "gemm", "--nvtx", "nosuch"], "gemm in nosuch: finds no kernel of the base side, "),
        ([TOUR, TOUR, "--kernel", "("], "--kernel (: is no regular expression"),
        ([TOUR, TOUR, "--pair", "gemm"], "--pair gemm: does not say what became what"),
        ([TOUR, TOUR, "--pair", "="], "--pair =: does not say what became what"),
        ([TOUR, TOUR, "--pair", "gemm=nosuch"], "nosuch: finds no kernel of the new side, "),
        ([TOUR, "none.ncu-rep", "--fail-if", "tiem > 1"], "tiem is no name that it knows"),
        ([TOUR, TOUR, "--open", "--kernel", "gemm"], "--open: shows whole reports"),
    ],
    ids=lambda one: " ".join(map(str, one))[-40:] if isinstance(one, list) else "",
)
def test_wrong_usage_is_one_line(compare: Started, arguments: list[str | Path], told: str) -> None:
    assert told in refused(compare(*arguments))


# ------------------------------------------------------------------ on a terminal


def test_what_goes_on_is_told_on_a_terminal_and_leaves_nothing(
    compare: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    told = compare(EAGER, SDPA, "--lang", "en", "--format", "json").stderr
    lines = [line.removesuffix("\x1b[K") for line in told.split("\r")]
    assert lines[:2] == ["", "Reading attention_eager.ncu-rep"]
    assert "Looking at 14 kernels of attention_eager.ncu-rep" in lines
    assert lines[-1] == ""


def test_open_shows_the_two_sides_on_the_screen(compare: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    def run(paths: list[Path], **options: object) -> int:
        shown.extend((paths, options["compared"], options["language"]))
        return 0

    monkeypatch.setattr("gputui.views.app.run", run)
    monkeypatch.setattr("gputui.terminal.can_draw", lambda: True)
    assert compare(EAGER, SDPA, "--open", "--lang", "ja").returncode == 0
    assert shown == [[], ([EAGER], [SDPA]), "ja"]


# ------------------------------------------------------------------ folders


def made_run(base: Path, *reports: Path, program: str = "train.py") -> Path:
    run = RunFolder.create(base, Request(("python", program), "/data"))
    for number, report in enumerate(reports):
        run.begin(Command(f"step-{number}", "ncu", ("ncu",), f"step-{number}"))
        shutil.copy(report, run.work / "draft")
        run.finish(f"step-{number}", Outcome(0, False, 1.0), [run.adopt(run.work / "draft", report.name)])
    run.end("done")
    run.close()
    return run.path


def test_a_folder_is_a_side_and_one_bad_file_in_it_a_warning(compare: Started, tmp_path: Path) -> None:
    old, new = made_run(tmp_path, EAGER), made_run(tmp_path, SDPA)
    (new / "bad.ncu-rep").write_bytes(b"NVR\0")
    done = compare(old, new, "--fail-if", "1.9 < speedup < 2 and kernels == 10 / 14")
    assert done.returncode == 1
    warning, line = done.stderr.splitlines()
    assert warning.startswith(f"gputui: {new}/bad.ncu-rep: ")
    assert line.endswith(": speedup is 1.966, kernels is 0.7143.")
    (new / SDPA.name).unlink()
    assert "bad.ncu-rep: " in refused(compare(old, new))


def test_a_folder_of_runs_is_a_history_and_the_first_against_the_last(compare: Started, tmp_path: Path) -> None:
    first, other, last = made_run(tmp_path, EAGER), made_run(tmp_path, TOUR, program="x.py"), made_run(tmp_path, SDPA)
    for run, second in ((first, "01"), (other, "02"), (last, "03")):
        record = re.sub(r'"started": "[^"]*"', f'"started": "2026-01-01T00:00:{second}+00:00"',
                        (run / "run.json").read_text(encoding="utf-8"), count=1)  # fmt: skip
        (run / "run.json").write_text(record, encoding="utf-8")
    done = compare(tmp_path, "--format", "json", "--fail-if", "speedup > 1.9")
    assert (done.returncode, done.stderr) == (1, "gputui: --fail-if speedup > 1.9: speedup is 1.966.\n")
    assert [run["name"] for run in json.loads(done.stdout)["history"]["runs"]] == [first.name, last.name]
    shutil.rmtree(first)
    only = compare(tmp_path, "--fail-if", "speedup > 1.9", "--format", "json")
    assert only.returncode == 2
    told = json.loads(only.stdout)
    assert (told["comparisons"], [run["name"] for run in told["history"]["runs"]]) == ([], [last.name])
    assert "cannot tell speedup, because nothing is compared" in only.stderr


def test_pairs_kept_in_the_run_folder_are_used_and_those_of_the_command_line_go_before(
    compare: Started, tmp_path: Path, opened: dict[Path, Report]
) -> None:
    new = made_run(tmp_path, EAGER)
    fails = ("--fail-if", "fused", "--format", "json")
    assert compare(EAGER, new, *fails).returncode == 0
    members = gputui.compare(opened[EAGER], opened[EAGER]).base.members
    scale, softmax = members[3].key, members[4].key
    assert (scale.nvtx, softmax.nvtx) == ("block/attention/attention scores", "block/attention/softmax")
    keep_pairs(new, [Pairing(frozenset({scale, softmax}), frozenset({softmax}))])
    assert compare(EAGER, new, *fails).returncode == 1
    assert compare(EAGER, new, *fails, "--pair", "SoftMax=SoftMax").returncode == 0
    (new / "pairs.json").write_text("{", encoding="utf-8")
    assert refused(compare(EAGER, new)).startswith(f"gputui: {new}/pairs.json: holds no pairs of kernels (")


# ------------------------------------------------------------------ reports and choices


def test_counters_are_compared_as_ncu_counts_them(opened: dict[Path, Report]) -> None:
    """Sums over ``ncu --import … --page raw --csv``."""
    one = gputui.compare(opened[EAGER], opened[SDPA])
    assert (one.time.before_ns, one.time.after_ns) == (pytest.approx(2050112), pytest.approx(1042944))
    assert (one.dram.before, one.dram.after) == (pytest.approx(3893295616), pytest.approx(720353280))
    assert (one.before.kernels, one.after.kernels) == (14, 10)


def test_what_different_expressions_choose_is_paired_and_one_for_both_only_chooses(opened: dict[Path, Report]) -> None:
    tour = opened[TOUR]
    paired = gputui.compare(tour, tour, base_kernel="^transpose_naive", new_kernel="^transpose_tiled")
    (group,) = paired.groups
    assert group.by_hand
    # 957.888 us and 143.008 us, as ncu --import prints them.
    assert paired.time.speedup == pytest.approx(957.888 / 143.008)
    both = gputui.compare(tour, tour, kernel="^transpose_")
    assert {(g.base[0].kernel.name, g.new[0].kernel.name, g.by_hand) for g in both.groups} == {
        ("transpose_naive", "transpose_naive", False),
        ("transpose_tiled", "transpose_tiled", False),
    }


def test_kernels_are_chosen_by_nvtx_path(opened: dict[Path, Report]) -> None:
    one = gputui.compare(opened[EAGER], opened[SDPA], nvtx="block/attention($|/)")
    assert [member.kernel.name for member in one.new.members] == ["flash_fwd_kernel"]
    assert len(one.base.members) == 4


def test_a_pair_may_say_that_kernels_are_gone(opened: dict[Path, Report]) -> None:
    tour = opened[TOUR]
    chosen = Chosen(*[re.compile("^transpose_")] * 2, pairs=((re.compile("naive"), None), (None, re.compile("tiled"))))
    (one,) = compare_reports([tour], [tour], chosen)
    by_hand = {group.how: group for group in one.groups if group.by_hand}
    assert [member.kernel.name for member in by_hand["gone"].base] == ["transpose_naive"]
    assert [member.kernel.name for member in by_hand["added"].new] == ["transpose_tiled"]


def test_several_reports_are_one_side_and_each_is_diagnosed_once(opened: dict[Path, Report]) -> None:
    from gputui.analysis.engine import diagnose_all

    asked: list[str] = []

    def diagnosed(report: Report) -> object:
        asked.append(report.path)
        return diagnose_all(report)

    both = [opened[EAGER], opened[SDPA]]
    (one,) = compare_reports(both, both, diagnosed=diagnosed)  # type: ignore[arg-type]
    assert asked == [str(EAGER), str(SDPA)]
    assert one.base.launches == 14 + 10
    assert one.time.outcome == "no-difference"


def test_timelines_come_before_counters_and_a_choice_that_only_one_has_is_of_that_one(
    opened: dict[Path, Report],
) -> None:
    side = [opened[EAGER], opened[TIMELINE]]
    assert [one.kind for one in compare_reports(side, side)] == ["timeline", "counters"]
    assert [one.kind for one in compare_reports(side, [opened[TIMELINE]])] == ["timeline"]
    softmax = re.compile("cunn_SoftMaxForwardReg")
    assert [one.kind for one in compare_reports(side, side, Chosen(softmax, softmax))] == ["counters"]


def test_two_timelines_of_one_side_are_not_guessed_between(opened: dict[Path, Report]) -> None:
    with pytest.raises(GputuiError, match="is not the only timeline of its side"):
        compare_reports([opened[TIMELINE]], [opened[TIMELINE], opened[TIMELINE]])
