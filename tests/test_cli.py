"""The program as its users start it: a child process, its exit status and its two streams."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gputui import __version__, diagnose
from gputui.analysis.engine import diagnose_all
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.data import demo_report, demo_timeline
from gputui.formats import open_report
from gputui.model.report import Report
from gputui.render.schema import report_json
from gputui.wording import wording
from traces import GEMM, STEPS, write_trace

PROGRAM = str(Path(sys.executable).with_name("gputui"))
DEMO = str(demo_report())
LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb\nsize 12345\n"
)
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)")

pytestmark = pytest.mark.skipif(not Path(PROGRAM).is_file(), reason="gputui is not installed beside this Python")


def environment(**changes: str) -> dict[str, str]:
    """A plain UTF-8 environment in English, whatever this test runs in."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "GPUTUI_", "PYTHON"))}
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "LANGUAGE"):
        keep.pop(name, None)
    return {**keep, "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLUMNS": "100", **changes}


def gputui(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        env=env or environment(),
        timeout=120,
        check=False,
    )


def out(*arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
    done = gputui(*arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(*arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
    """The one line on standard error."""
    done = gputui(*arguments, env=env)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("gputui: ")
    assert line.isprintable()
    return line


@pytest.fixture(scope="module")
def explained() -> dict[str, str]:
    """The demo report explained in each format, in English."""
    return {format: out("explain", DEMO, "--format", format, "--lang", "en") for format in ("text", "json", "markdown")}


@pytest.fixture(scope="module")
def answer(explained: dict[str, str]) -> Any:
    return json.loads(explained["json"])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A timeline: the training loop of ``traces``."""
    return write_trace(tmp_path / "loop.json")


# -------------------------------------------------------------------- usage


def test_version() -> None:
    assert out("--version") == f"gputui {__version__}\n"


def test_help_names_every_command() -> None:
    text = out("--help")
    assert re.findall(r"^  (open|demo|explain|export) ", text, re.MULTILINE) == ["open", "demo", "explain", "export"]
    assert out("-h") == text


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("open", {"--lang", "--level", "--ascii", "--no-mouse"}),
        ("demo", {"--timeline", "--lang", "--level", "--ascii", "--no-mouse"}),
        ("explain", {"--kernel", "--nvtx", "--format", "--level", "--lang", "--ascii"}),
        (
            "compare",
            {"--kernel", "--base-kernel", "--new-kernel", "--nvtx", "--pair", "--same-work", "--fail-if", "--open"},
        ),
        ("export", {"--output", "--format", "--kernel", "--nvtx", "--force"}),
    ],
)
def test_help_of_a_command_names_its_options(command: str, options: set[str]) -> None:
    assert set(re.findall(r"(--[a-z-]+)", out(command, "--help"))) >= options


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["explain"],
        ["open"],
        ["explain", DEMO, "--format", "xml"],
        ["explain", DEMO, "--lang", "xx"],
        ["explain", DEMO, "--level", "fortran"],
        ["explain", DEMO, "--no-such-option"],
        ["export", DEMO],
        ["export", DEMO, "-o", "x.csv"],
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments: list[str]) -> None:
    done = gputui(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: gputui" in done.stderr
    assert "Traceback" not in done.stderr


# -------------------------------------------------------------------- errors


def test_a_missing_file(tmp_path: Path) -> None:
    line = refused("explain", tmp_path / "run.ncu-rep")
    assert f"{tmp_path / 'run.ncu-rep'}: does not exist." in line


def test_a_mistyped_file_is_answered_with_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "profile.ncu-rep").write_bytes(b"")
    line = refused("explain", tmp_path / "profil.ncu-rep")
    assert "Did you mean profile.ncu-rep?" in line
    assert not re.search(r"[?!.]\.", line.removesuffix("."))


def test_a_question_ends_without_a_full_stop(tmp_path: Path) -> None:
    (tmp_path / "profile.ncu-rep").write_bytes(b"")
    assert refused("explain", tmp_path / "profil.ncu-rep").endswith("?")


def test_a_folder_without_a_report(tmp_path: Path) -> None:
    assert "is a folder without a report" in refused("explain", tmp_path)


def test_a_folder_is_no_report_to_export(tmp_path: Path) -> None:
    arguments = ("export", tmp_path, "--format", "csv", "-o", tmp_path / "out.csv")
    assert "is a folder, not a report. Name a report." in refused(*arguments)
    shutil.copy(DEMO, tmp_path / "a.ncu-rep")
    assert "such as a.ncu-rep" in refused(*arguments)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.ncu-rep").write_bytes(b"")
    assert "is empty. Collect it again" in refused("explain", tmp_path / "a.ncu-rep")


def test_a_git_lfs_pointer(tmp_path: Path) -> None:
    (tmp_path / "a.ncu-rep").write_text(LFS_POINTER)
    assert "is a Git LFS pointer, not the report itself. Run git lfs pull" in refused("explain", tmp_path / "a.ncu-rep")


@pytest.mark.parametrize("command", ["explain", "export"])
def test_a_name_too_long(tmp_path: Path, command: str) -> None:
    more = ["--format", "csv", "-o", tmp_path / "o.csv"] if command == "export" else []
    assert "too long" in refused(command, tmp_path / ("a" * 300), *more)


def test_open_with_a_name_too_long(tmp_path: Path) -> None:
    assert "too long" in refused("open", tmp_path / ("a" * 300))


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("command", ["open", "explain", "export"])
@pytest.mark.parametrize("kind", ["file", "folder", "in a folder"])
def test_what_may_not_be_read_is_one_line(tmp_path: Path, command: str, kind: str) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    path = folder / "a.ncu-rep"
    shutil.copy(DEMO, path)
    locked = folder if kind != "file" else path
    named = folder if kind == "folder" else path
    more = ["--format", "csv", "-o", str(tmp_path / "o.csv")] if command == "export" else []
    program = [PROGRAM, command, str(named), *more]
    if os.geteuid() == 0:
        # Root may read everything, unless it gives that up.
        program = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *program]
        if shutil.which("setpriv") is None:
            pytest.skip("root without setpriv")
    locked.chmod(0)
    try:
        done = subprocess.run(
            program, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment(), check=False
        )
    finally:
        locked.chmod(0o755)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("gputui: ")
    assert "may not be read by this user" in line


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", [["explain"], ["export", "--format", "csv", "-o", "-"]])
def test_a_signal_ends_a_conversion_and_what_it_began(
    tmp_path: Path, number: signal.Signals, command: list[str]
) -> None:
    nsys, alive, cache = tmp_path / "nsys", tmp_path / "alive", tmp_path / "cache"
    nsys.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo 1; exit 0; fi\nwhile [ "$1" != --output ]; do shift; done\n'
        f'echo half > "$2"\n(while true; do date > {alive}; sleep 0.05; done) &\nwhile true; do sleep 1; done\n'
    )
    nsys.chmod(0o755)
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 1.\0")
    env = environment(PATH=f"{tmp_path}:{os.environ['PATH']}", XDG_CACHE_HOME=str(cache))
    with subprocess.Popen([PROGRAM, *command, str(report)], env=env, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 30
        while not alive.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(cache.glob("gputui/nsys/*.draft"))
        child.send_signal(number)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (128 + number, "")
    assert not list(cache.glob("gputui/nsys/*"))
    # What was killed may still be on its way out on a busy machine; what lives on writes every 0.05 s.
    deadline = time.monotonic() + 10
    while alive.exists() and time.monotonic() < deadline:
        alive.unlink()
        time.sleep(0.3)
    assert not alive.exists()


def test_a_file_with_a_hostile_name(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J\u202e\n.ncu-rep"
    assert "\\x1b[2J\\u202e\\x0a" in refused("explain", path)


def test_a_kernel_pattern_that_is_none() -> None:
    line = refused("explain", DEMO, "--kernel", "(")
    assert line.startswith("gputui: --kernel (: is no")


@pytest.mark.parametrize(("option", "value"), [("--kernel", "zzz"), ("--nvtx", "zzz"), ("--nvtx", "^$")])
def test_a_pattern_that_matches_nothing_in_a_timeline(trace: Path, option: str, value: str, tmp_path: Path) -> None:
    line = refused("explain", trace, option, value)
    assert f"{option} {value}: matches nothing in this timeline. Without {option}" in line
    assert f"{option} {value}: matches" in refused(
        "export", trace, option, value, "--format", "csv", "-o", tmp_path / "out.csv"
    )
    assert not (tmp_path / "out.csv").exists()


def test_an_nvtx_pattern_that_is_none(trace: Path) -> None:
    assert refused("explain", trace, "--nvtx", "(").startswith("gputui: --nvtx (: is no regular expression")


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
def test_a_kernel_pattern_that_matches_nothing(format: str) -> None:
    assert "--kernel zzz: matches none of the 30 kernels" in refused(
        "explain", DEMO, "--kernel", "zzz", "--format", format
    )


def test_an_export_of_nothing_is_refused(tmp_path: Path) -> None:
    refused("export", DEMO, "--kernel", "zzz", "--format", "csv", "-o", tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--kernel", "("], ["--kernel", "zzz"]], ids=" ".join)
def test_a_kernel_pattern_is_answered_with_the_next_step(arguments: list[str]) -> None:
    line = refused("explain", DEMO, *arguments).removeprefix("gputui: ")
    assert re.search(r"\. [A-Z].*\.$", line)


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = gputui("--debug", "explain", tmp_path / "a")
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "does not exist" in done.stderr


def test_debug_does_not_change_the_exit_status(tmp_path: Path) -> None:
    assert gputui("--debug", "explain", tmp_path / "a").returncode == 2


def test_an_interrupt_ends_quietly_with_130() -> None:
    code = (
        "import sys, gputui.cli, gputui.formats\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "gputui.formats.open_report = interrupted\n"
        "sys.argv = ['gputui', 'explain', 'x']\n"
        "gputui.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


# -------------------------------------------------------------------- without a terminal


@pytest.mark.parametrize("term", ["xterm-256color", "dumb", ""])
def test_open_prints_what_explain_prints(explained: dict[str, str], term: str) -> None:
    assert out("open", DEMO, env=environment(TERM=term)) == explained["text"]


def test_demo_prints_what_explain_prints(explained: dict[str, str]) -> None:
    assert out("demo") == explained["text"]


def test_open_of_a_folder_explains_every_report_in_it(tmp_path: Path) -> None:
    for name in ("a.ncu-rep", "b.ncu-rep"):
        shutil.copy(DEMO, tmp_path / name)
    text = out("open", tmp_path)
    assert text.count("· NVIDIA H200 ·") == 2


def test_one_bad_file_of_many_is_a_warning(tmp_path: Path) -> None:
    shutil.copy(DEMO, tmp_path / "b.ncu-rep")
    (tmp_path / "a.ncu-rep").write_bytes(b"")
    done = gputui("open", tmp_path)
    assert done.returncode == 0
    assert "· NVIDIA H200 ·" in done.stdout
    (line,) = done.stderr.splitlines()
    assert "a.ncu-rep: is empty" in line


def test_open_of_nothing_readable_is_refused(tmp_path: Path) -> None:
    assert "without a report" in refused("open", tmp_path)
    (tmp_path / "a.ncu-rep").write_bytes(b"")
    assert "is empty" in refused("open", tmp_path)
    assert "does not exist" in refused("open", tmp_path / "b.ncu-rep")


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_ascii_stops_nothing(format: str, language: str) -> None:
    env = environment(LC_ALL="C", PYTHONIOENCODING="ascii")
    assert not set(out("explain", DEMO, "--format", format, "--lang", language, env=env)) & set("█▏▎▍▌▋▊▉")


@pytest.mark.parametrize(("encoding", "language"), [("latin-1", "ja"), ("latin-1", "en"), ("cp932", "ja")])
def test_no_encoding_stops_it(encoding: str, language: str) -> None:
    assert out("explain", DEMO, "--lang", language, env=environment(PYTHONIOENCODING=encoding))


def test_a_linux_console_is_drawn_on_in_ascii() -> None:
    text = out("explain", DEMO, env=environment(TERM="linux"))
    assert "####" in text
    assert not set(text) & set("█▏▎▍▌▋▊▉")


def test_ascii_draws_in_ascii(explained: dict[str, str]) -> None:
    text = out("explain", DEMO, "--ascii")
    assert "####" in text
    assert not set(text) & set("█▏▎▍▌▋▊▉")
    assert len(text.splitlines()) == len(explained["text"].splitlines())


def test_ascii_is_ascii_alone() -> None:
    assert out("explain", DEMO, "--ascii", "--lang", "en").isascii()


def test_nothing_is_coloured_and_no_line_ends_in_blanks(explained: dict[str, str]) -> None:
    for text in explained.values():
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
def test_a_reader_that_has_gone_is_no_error(format: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [PROGRAM, "explain", DEMO, "--format", format],
            stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, env=environment(), check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell here")
def test_output_into_head_ends_quietly() -> None:
    command = f'"{PROGRAM}" explain "{DEMO}" --lang en | head -1'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("format", ["text", "json"])
def test_a_full_disk_is_one_line(format: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROGRAM, "explain", DEMO, "--format", format],
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


# -------------------------------------------------------------------- what explain says

Number = (int, float)


def maybe(*types: type) -> tuple[type, ...]:
    return (*types, type(None))


EVIDENCE = {"metric": str, "value": maybe(*Number), "unit": str, "threshold": maybe(*Number)}
FINDING = {
    "id": str,
    "severity": {"high", "medium", "low", "info"},
    "confidence": Number,
    "max_speedup": maybe(*Number),
    "title": str,
    "why": str,
    "actions": {"pytorch": [str], "triton": [str], "cuda": [str]},
    "verify": str,
    "evidence": [EVIDENCE],
}
GAUGES = (
    "sm_pct", "memory_pct", "dram_pct", "tensor_pct", "achieved_occupancy_pct", "warp_execution_efficiency_pct",
    "achieved_flop_per_s", "dram_bytes_per_s", "dram_bytes",
)  # fmt: skip
KERNEL = {
    "index": int,
    "name": str,
    "demangled": str,
    "duration_ns": maybe(*Number),
    "count": int,
    "device": str,
    "grid": maybe(list),
    "block": maybe(list),
    "nvtx": [str],
    "op_class": {
        "gemm", "gemv", "conv", "attention", "softmax", "norm", "elementwise", "reduction", "copy", "transpose",
        "embedding", "optimizer", "loss", "communication", "sort-scan", "fft", "sparse", "random", "other",
    },
    "library": str,
    "precision": maybe(str),
    "transformer_op": {
        "qkv-linear", "attention-scores", "softmax", "attention-values", "attention-fused", "attention-output", "mlp",
        "norm", "residual", "embedding", "optimizer", None,
    },
    "gauges": dict.fromkeys(GAUGES, maybe(*Number)),
    "roofline": {
        "precision": maybe(str),
        "achieved_flop_per_s": maybe(*Number),
        "peak_flop_per_s": maybe(*Number),
        "peak_source": {"report", "specs", None},
        "arithmetic_intensity": maybe(*Number),
        "ridge": maybe(*Number),
        "dram_peak_bytes_per_s": maybe(*Number),
        "roof_fraction": maybe(*Number),
    },
    "verdict": {
        "id": {
            "unknown", "launch-bound", "tensor-bound", "compute-bound", "memory-bound", "balanced", "latency-bound",
        },
        "level": {"dram", "l2", "l1", None},
        "sentence": str,
    },
    "findings": [FINDING],
}  # fmt: skip
ANSWER = {
    "schema": {1},
    "gputui": str,
    "report": {
        "path": str,
        "kind": {"ncu", "ncu-csv", "nsys", "torch"},
        "tool_version": maybe(str),
        "truncated": bool,
        "devices": [
            {"name": str, "compute_capability": maybe(str), "architecture": maybe(str), "sm_count": maybe(int)}
        ],
    },
    "warnings": [str],
    "kernels": [KERNEL],
    "timeline": maybe(dict),
}
TIMELINE = {
    "span_ns": int,
    "devices": [{"device": str, "busy_ns": int, "idle_ns": int, "kernel_count": int}],
    "nvtx": [{"range": str, "count": int, "cpu_ns": int, "gpu_ns": int, "kernel_count": int}],
    "findings": [{**FINDING, "place": maybe(dict)}],
}
PLACE = {"start_ns": int, "end_ns": int, "lane": maybe(str)}
"""Schema 1: a type, types, a set of values, ``[shape of each]`` or ``{key: shape}``; further keys may be there."""


def mismatches(value: Any, shape: Any, path: str = "$") -> Iterator[str]:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no object"
            return
        for key, inner in shape.items():
            if key in value:
                yield from mismatches(value[key], inner, f"{path}.{key}")
            else:
                yield f"{path}.{key} is missing"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        for place, one in enumerate(value):
            yield from mismatches(one, shape[0], f"{path}[{place}]")
    elif isinstance(shape, set):
        if value not in shape:
            yield f"{path}: {value!r} is none of {shape}"
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        yield f"{path}: {value!r} is no {shape}"


def check_answer(answer: Any) -> None:
    assert list(mismatches(answer, ANSWER)) == []
    timeline = answer["timeline"]
    assert (timeline is not None) == (answer["report"]["kind"] in ("nsys", "torch"))
    if timeline is not None:
        assert list(mismatches(timeline, TIMELINE)) == []
        for finding in timeline["findings"]:
            assert finding["place"] is None or list(mismatches(finding["place"], PLACE)) == []
            assert finding["max_speedup"] is None or 1 <= finding["max_speedup"] < math.inf
    for kernel in answer["kernels"]:
        for side in ("grid", "block"):
            assert kernel[side] is None or [type(one) for one in kernel[side]] == [int] * 3
        for finding in kernel["findings"]:
            assert 0 <= finding["confidence"] <= 1
            assert finding["max_speedup"] is None or 1 <= finding["max_speedup"] < math.inf


def strict(text: str) -> Any:
    """JSON without the NaN and Infinity that Python's reader lets pass."""

    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=no_constant)


def test_the_checker_finds_what_is_wrong() -> None:
    assert list(mismatches({"a": True}, {"a": int, "b": str})) == ["$.a: True is no <class 'int'>", "$.b is missing"]
    assert list(mismatches([1, "x"], [int])) == ["$[1]: 'x' is no <class 'int'>"]
    assert list(mismatches({"a": 3}, {"a": {1, None}}))


def test_json_is_schema_1(explained: dict[str, str]) -> None:
    answer = strict(explained["json"])
    check_answer(answer)
    assert answer["gputui"] == __version__
    assert answer["report"]["path"] == DEMO
    assert [kernel["index"] for kernel in answer["kernels"]] == list(range(30))


def groups_of(answer: Any) -> list[list[Any]]:
    """The launches by function as the texts tell them: the slowest launch first, the longest function first."""
    groups: dict[str, list[Any]] = {}
    for kernel in answer["kernels"]:
        groups.setdefault(kernel["demangled"], []).append(kernel)
    for launches in groups.values():
        launches.sort(key=lambda kernel: -(kernel["duration_ns"] or 0))
    return sorted(groups.values(), key=lambda launches: -sum(kernel["duration_ns"] or 0 for kernel in launches))


def test_the_formats_agree_on_the_number_of_kernels(explained: dict[str, str], answer: Any) -> None:
    count = f"· {len(answer['kernels'])} kernels ·"
    assert count in " ".join(explained["text"].splitlines()[:3])
    assert count in explained["markdown"].splitlines()[0]
    sections = re.findall(r"^## ", explained["markdown"], re.MULTILINE)
    assert len(sections) == len(groups_of(answer))


def test_the_formats_agree_on_the_verdicts(explained: dict[str, str], answer: Any) -> None:
    slowest = [launches[0] for launches in groups_of(answer)]
    plain = re.sub(r"\\(.)", r"\1", explained["markdown"])
    told = re.findall(r"^## (\S+) .*\n\n\*\*(.*)\*\*$", plain, re.MULTILINE)
    assert told == [(kernel["name"], kernel["verdict"]["sentence"]) for kernel in slowest]
    text, place = " ".join(explained["text"].split()), 0
    for kernel in slowest[:10]:
        place = text.index(kernel["verdict"]["sentence"], place)


def test_the_formats_agree_on_the_first_finding(explained: dict[str, str], answer: Any) -> None:
    text = " ".join(explained["text"].split())
    plain = re.sub(r"\\(.)", r"\1", explained["markdown"])
    for launches in groups_of(answer)[:10]:
        findings = [finding for finding in launches[0]["findings"] if finding["family"] != "validity"]
        if findings:
            why = findings[0]["why"]
            assert why in text
            assert f"Why: {why}" in plain


@pytest.mark.parametrize("level", ["pytorch", "triton", "cuda"])
def test_level_chooses_the_advice(answer: Any, level: str) -> None:
    text = " ".join(out("explain", DEMO, "--level", level).split())
    first = groups_of(answer)[0][0]["findings"][0]["actions"]
    assert first[level][0] in text
    assert not [other for other in first.keys() - {level} if f"Do {first[other][0]} " in text]


def test_lang_chooses_the_language(answer: Any) -> None:
    japanese = strict(out("explain", DEMO, "--lang", "ja", "--format", "json"))
    check_answer(japanese)
    for ours, theirs in zip(answer["kernels"], japanese["kernels"], strict=True):
        assert [finding["id"] for finding in ours["findings"]] == [finding["id"] for finding in theirs["findings"]]
        assert ours["verdict"]["id"] == theirs["verdict"]["id"]
        assert re.search(r"[\u3040-\u30ff]", theirs["verdict"]["sentence"])
    by_locale = strict(out("explain", DEMO, "--format", "json", env=environment(LC_ALL="ja_JP.UTF-8")))
    assert by_locale == japanese


def test_kernel_chooses_the_kernels(answer: Any) -> None:
    chosen = strict(out("explain", DEMO, "--kernel", "^transpose_", "--format", "json"))["kernels"]
    assert chosen == [kernel for kernel in answer["kernels"] if kernel["name"].startswith("transpose_")] != []
    text = out("explain", DEMO, "--kernel", "^transpose_naive$", "--lang", "en")
    assert "transpose_naive" in text
    assert "filter_spilled" not in text


# -------------------------------------------------------------------- timelines


def test_a_timeline_is_explained_in_each_format(trace: Path) -> None:
    answer = strict(out("explain", trace, "--format", "json"))
    check_answer(answer)
    assert (answer["kernels"][0]["name"], answer["kernels"][0]["count"]) == (GEMM, 2 * STEPS)
    sentence = answer["timeline"]["verdict"]["sentence"]
    first = answer["timeline"]["findings"][0]
    text = " ".join(out("explain", trace).split())
    plain = re.sub(r"\\(.)", r"\1", out("explain", trace, "--format", "markdown"))
    for told in (text, plain):
        assert 0 < told.index(sentence) < told.index(first["why"]) < told.index(first["verify"]) < told.index(GEMM)
    assert out("open", trace) == out("explain", trace)


def test_a_timeline_at_80_columns_in_ascii_and_japanese(trace: Path) -> None:
    text = out("explain", trace, "--ascii", env=environment(COLUMNS="80"))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    japanese = out("explain", trace, "--lang", "ja")
    assert re.search(r"[\u3040-\u30ff]", japanese)
    assert GEMM in japanese


def test_the_level_of_a_timeline_is_that_of_its_program(trace: Path) -> None:
    actions = strict(out("explain", trace, "--format", "json"))["timeline"]["findings"][0]["actions"]
    assert actions["pytorch"][0] in " ".join(out("explain", trace).split())
    assert actions["cuda"][0] in " ".join(out("explain", trace, "--level", "cuda").split())


def test_nvtx_chooses_ranges_of_a_timeline_and_kernels_of_a_report(trace: Path, answer: Any) -> None:
    kernels = strict(out("explain", trace, "--nvtx", "#[12]/forward", "--format", "json"))["kernels"]
    assert [one["count"] for one in kernels] == [4, 2]
    within = [one for one in answer["kernels"] if one["nvtx"]]
    if within:
        name = within[0]["nvtx"][0]
        chosen = strict(out("explain", DEMO, "--nvtx", f"^{re.escape(name)}", "--format", "json"))["kernels"]
        assert chosen == [one for one in answer["kernels"] if one["nvtx"][:1] == [name]]
    else:
        assert "--nvtx x: matches none of the 30 kernels" in refused("explain", DEMO, "--nvtx", "x")


@pytest.mark.parametrize("as_folder", [False, True])
def test_the_ranks_of_a_job_are_one_timeline(tmp_path: Path, as_folder: bool) -> None:
    ranks = [write_trace(tmp_path / f"rank{rank}.json", rank=rank) for rank in (0, 1)]
    answer = strict(out("explain", *([tmp_path] if as_folder else ranks), "--format", "json"))
    check_answer(answer)
    assert [file["rank"] for file in answer["report"]["files"]] == [0, 1]
    assert [one["device"] for one in answer["timeline"]["devices"]] == ["rank 0 GPU 0", "rank 1 GPU 0"]
    assert answer["kernels"][0]["count"] == 2 * 2 * STEPS


def test_reports_that_belong_to_no_job_are_explained_one_by_one(trace: Path) -> None:
    lines = out("explain", DEMO, trace, "--format", "json").splitlines()
    assert [strict(line)["report"]["kind"] for line in lines] == ["ncu", "torch"]


def test_one_bad_file_of_several_is_a_warning_to_explain(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_bytes(b"")
    done = gputui("explain", tmp_path / "bad.sqlite", trace)
    assert done.returncode == 0
    assert done.stdout == out("explain", trace)
    (line,) = done.stderr.splitlines()
    assert "bad.sqlite: is empty" in line


def test_the_demo_has_a_timeline() -> None:
    text = out("demo", "--timeline")
    assert "Kernels, longest total first" in text
    assert "% busy" in text
    assert text == out("explain", demo_timeline())


def test_a_timeline_is_exported_row_by_row(trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    done = gputui("export", trace, "--format", "csv", "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"{4 * STEPS} GPU operations" in done.stderr
    with target.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * STEPS
    assert sum(int(row["duration_ns"]) for row in rows if row["name"] == GEMM) == 2 * STEPS * 100_000
    assert out("export", trace, "--format", "csv", "-o", "-") == target.read_text(encoding="utf-8")
    some = strict(out("export", trace, "--nvtx", "#3", "--kernel", "sgemm", "--format", "json", "-o", "-"))
    assert [one["nvtx"] for one in some["operations"]] == ["ProfilerStep#3/forward"] * 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_while_rows_are_written_is_one_line(trace: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROGRAM, "export", str(trace), "--format", "csv", "-o", "-"],
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_the_python_api_diagnoses_kernels_and_whole_reports(trace: Path) -> None:
    timeline = diagnose(open_report(trace))
    assert isinstance(timeline, TimelineDiagnosis)
    assert timeline.findings
    report = open_report(DEMO)
    try:
        whole = diagnose(report)
        assert isinstance(whole, list)
        assert [one.kernel for one in whole] == report.kernels
        assert diagnose(report.kernels[0]).verdict == whole[0].verdict
    finally:
        report.close()


# -------------------------------------------------------------------- export


@pytest.fixture(scope="module")
def demo() -> Iterator[Report]:
    report = open_report(DEMO)
    yield report
    report.close()


def test_csv_holds_the_reports_own_values(tmp_path: Path, demo: Report) -> None:
    target = tmp_path / "all.csv"
    done = gputui("export", DEMO, "--format", "csv", "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert list(tmp_path.iterdir()) == [target]
    with target.open(encoding="utf-8", newline="") as file:
        names, units, *rows = csv.reader(file)
    assert names[:6] == ["index", "name", "demangled", "grid", "block", "nvtx"]
    assert len(set(names)) == len(names)
    assert len(rows) == len(demo.kernels)
    for kernel, row in zip(demo.kernels, rows, strict=True):
        metrics = kernel.metrics()
        cells = dict(zip(names, row, strict=True))
        assert cells["index"] == str(kernel.index)
        assert cells["name"] == kernel.name
        for name in names[6:]:
            metric = metrics.get(name)
            if metric is None or metric.value is None:
                assert cells[name] == ""
            elif isinstance(metric.value, str):
                assert cells[name] == metric.value
            else:
                assert float(cells[name]) == metric.value
                assert dict(zip(names, units, strict=True))[name] == metric.unit
        assert metrics.keys() <= cells.keys()


def test_json_holds_the_reports_own_values(tmp_path: Path, demo: Report) -> None:
    target = tmp_path / "all.json"
    assert gputui("export", DEMO, "--format", "json", "-o", target).returncode == 0
    assert list(tmp_path.iterdir()) == [target]
    written = strict(target.read_text(encoding="utf-8"))
    assert len(written["kernels"]) == len(demo.kernels)
    for kernel, row in zip(demo.kernels, written["kernels"], strict=True):
        metrics = kernel.metrics()
        assert row["metrics"] == {name: metric.value for name, metric in metrics.items()}
        assert {name: written["units"][name] for name in metrics} == {name: one.unit for name, one in metrics.items()}
        assert (row["index"], row["name"], row["demangled"]) == (kernel.index, kernel.name, kernel.demangled)


def test_export_of_some_kernels(tmp_path: Path) -> None:
    target = tmp_path / "some.json"
    assert gputui("export", DEMO, "--kernel", "^copy_", "--format", "json", "-o", target).returncode == 0
    assert {row["name"] for row in strict(target.read_text(encoding="utf-8"))["kernels"]} == {"copy_plain"}


def test_export_leaves_what_is_there_unless_forced(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("mine")
    assert "is there already" in refused("export", DEMO, "--format", "csv", "-o", target)
    assert target.read_text() == "mine"
    assert gputui("export", DEMO, "--kernel", "copy", "--format", "csv", "--force", "-o", target).returncode == 0
    assert target.read_text(encoding="utf-8").startswith("index,name,")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("where", ["missing/a.csv", "folder"])
def test_export_to_where_it_cannot_write(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / where
    reason = "is no ordinary file" if target.is_dir() else "cannot be written"
    assert reason in refused("export", DEMO, "--format", "csv", "--force", "-o", target)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_export_to_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "cannot be written" in refused("export", DEMO, "--format", "csv", "-o", tmp_path / "a.csv")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("where", ["file/a.csv", "a" * 245 + ".csv"], ids=["under a file", "long name"])
def test_export_to_an_impossible_name(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("mine")
    done = gputui("export", DEMO, "--kernel", "copy", "--format", "csv", "-o", tmp_path / where)
    assert "Traceback" not in done.stderr
    assert done.returncode == 2 or (tmp_path / where).is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_export_never_replaces_what_is_no_file(tmp_path: Path) -> None:
    target = tmp_path / "pipe"
    os.mkfifo(target)
    refused("export", DEMO, "--kernel", "copy", "--format", "csv", "--force", "-o", target)
    assert target.is_fifo()


def test_names_are_no_formulas(tmp_path: Path) -> None:
    source, target = tmp_path / "evil.csv", tmp_path / "out.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", "gpu__time_duration.sum", "=sum(a).avg"])
        rows.writerow(["", "", "", "", "ns", "%"])
        for number, name in enumerate(FORMULAS):
            rows.writerow([number, f"{name}(int)", "(256, 1, 1)", "(64, 1, 1)", "12345", "-1.5"])
    assert gputui("export", source, "--format", "csv", "-o", target).returncode == 0
    with target.open(encoding="utf-8", newline="") as file:
        names, units, *written = csv.reader(file)
    assert len(written) == len(FORMULAS)
    for row in [names, units, *written]:
        for cell in row:
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            assert not cell.startswith("-") or float(cell) < 0


# -------------------------------------------------------------------- real reports


def explain_in_process(path: Path) -> Any:
    report = open_report(path)
    try:
        answer = report_json(report, diagnose_all(report), wording("en"))
        return strict(json.dumps(answer, allow_nan=False))
    finally:
        report.close()


def kernel_counts(index: str) -> dict[str, int]:
    """The ncu table of the reports' own list: file → kernels."""
    table = index.partition("## ncu\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.split("|")] for line in table.splitlines() if line.startswith("|")]
    header, _, *rows = cells
    return {row[header.index("file")]: int(row[header.index("kernels")]) for row in rows}


def test_every_public_report_is_explained(reports: Path) -> None:
    counts = kernel_counts((reports / "INDEX.md").read_text(encoding="utf-8"))
    assert counts.keys() == {path.name for path in (reports / "ncu").iterdir()}
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda name: explain_in_process(reports / "ncu" / name), counts))
    for name, answer in zip(counts, answers, strict=True):
        check_answer(answer)
        assert len(answer["kernels"]) == counts[name], name
        assert answer["report"]["kind"] == "ncu"


def test_a_public_report_is_explained_by_the_program(reports: Path) -> None:
    path = reports / "ncu" / "NVIDIA__nsight-training__manual_nvtx.ncu-rep"
    answer = strict(out("explain", path, "--format", "json"))
    check_answer(answer)
    assert len(answer["kernels"]) == 3


@pytest.mark.parametrize("folder", ["odd", "csv"])
def test_every_odd_file_is_explained_or_refused(reports: Path, folder: str) -> None:
    paths = sorted((reports / folder).iterdir())
    assert paths
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda path: gputui("explain", path, "--format", "json"), paths))
    for path, one in zip(paths, done, strict=True):
        if one.returncode == 0:
            assert one.stderr == "", path.name
            check_answer(strict(one.stdout))
        else:
            assert one.returncode == 2, path.name
            assert one.stdout == "", path.name
            (line,) = one.stderr.splitlines()
            assert line.startswith(f"gputui: {path}: "), line
