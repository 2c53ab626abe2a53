"""The calls of the profilers that a request becomes, and the real nsys on them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from built_timeline import Built
from gputui.analysis.proposals import propose
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.formats.nsys_rep import find_nsys
from gputui.run.plan import Request, Tools, counter_commands, files_needed, timeline_command

MS = 1_000_000
NASTY = ("python", "train.py", "--name=$HOME; rm -rf x", "a b", "*", "'\"", "", "&&", "-o", "%q{X}")
TOOLS = Tools("/opt/nsys", (2023, 4, 4), "/opt/ncu", (2024, 1, 1), frozenset(), "/run/1", "/old:/path")
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def diagnosis(*names: str, ranges: bool = False) -> TimelineDiagnosis:
    """Twenty steps of 10 ms in which these kernels run one after another; with ranges, each in one of its name."""
    built = Built()
    for step in range(20):
        for place, name in enumerate(names):
            start = step * 10 * MS + place * 2 * MS
            if ranges:
                built.range(start, start + MS // 2, f"do {name}")
                built.call(start + MS // 4, start + MS // 3)
            call = step * len(names) + place if ranges else -1
            built.kernel(start + MS // 2, start + 2 * MS - 1000, name, call=call)
    return diagnose_timeline(built.facts())


# ------------------------------------------------------------------ the timeline


def test_the_program_stays_as_it_was_typed() -> None:
    command = timeline_command(Request(NASTY, "/w"), TOOLS)
    assert command.argv[:2] == ("/opt/nsys", "profile")
    assert command.argv[-len(NASTY) :] == NASTY
    assert command.argv[-len(NASTY) - 2 : -len(NASTY)] == ("-o", "/run/1/timeline")
    assert (command.id, command.tool, command.output, command.env, command.launches) == (
        "timeline", "nsys", "timeline", {}, 0,
    )  # fmt: skip
    assert {"--trace=cuda,nvtx,osrt", "--cuda-graph-trace=node", "--force-overwrite=false"} <= set(command.argv)
    assert not any(word.startswith(("--capture-range", "--d")) for word in command.argv)


def test_what_is_recorded_can_be_narrowed() -> None:
    argv = timeline_command(Request(("./app",), "/w", capture_api=True, delay=2.4, duration=0.2), TOOLS).argv
    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--delay=2", "--duration=1"} <= set(argv)


@pytest.mark.parametrize(("version", "own"), [((2022, 1), False), ((2023, 4, 4), False), ((2025, 1, 3), True)])
def test_operator_ranges_come_from_nsys_where_it_can(version: tuple[int, ...], own: bool) -> None:
    request = Request(("python", "x.py"), "/w", pytorch_ranges=True)
    command = timeline_command(request, Tools("nsys", version, folder="/run/1", python_path="/old"))
    assert ("--pytorch=autograd-nvtx" in command.argv) is own
    assert command.env == ({} if own else {"PYTHONPATH": "/run/1:/old"})
    assert b"meta_path" in files_needed(request)["sitecustomize.py"]
    assert files_needed(Request(("x",), "/w")) == {}


@pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")
def test_nsys_takes_all_of_it_and_the_exit_status_is_the_programs(tmp_path: Path) -> None:
    nsys = find_nsys()
    assert nsys is not None
    tools = Tools(str(nsys), (2023, 4), folder=str(tmp_path))
    program = ("import sys; print(sys.argv[1:]); sys.exit(7)", *NASTY)
    command = timeline_command(Request((sys.executable, "-c", *program), str(tmp_path), duration=60), tools)
    done = subprocess.run(command.argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 7
    assert str(list(NASTY)) in done.stdout
    assert [one.name for one in tmp_path.glob("timeline*")] == ["timeline.nsys-rep"]


@pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")
def test_nsys_knows_every_option(tmp_path: Path) -> None:
    request = Request(("true",), str(tmp_path), capture_api=True, delay=1, duration=1)
    help = subprocess.run([str(find_nsys()), "profile", "--help"], capture_output=True, text=True).stdout
    for word in timeline_command(request, Tools("nsys")).argv:
        if word.startswith("--"):
            assert f"{word.partition('=')[0]}=" in help


# ------------------------------------------------------------------ the counters


def test_one_run_for_the_kernels_of_a_loop() -> None:
    told = diagnosis("gemm", "softmax", NCCL)
    sections = frozenset({"SpeedOfLight_HierarchicalTensorRooflineChart", "LaunchStats"})
    tools = Tools(ncu="/opt/ncu", ncu_sections=sections, folder="/run/1")
    (command,) = counter_commands(Request(NASTY, "/w"), tools, told, propose(told))
    assert command.argv[-len(NASTY) :] == NASTY
    assert command.kernels == ("gemm", "softmax")
    assert (command.id, command.tool, command.output, command.launches) == ("counters-1", "ncu", "counters-1", 6)
    assert option(command.argv, "--kernel-name") == "regex:^(gemm$|softmax$)"
    assert option(command.argv, "--section") == "SpeedOfLight_HierarchicalTensorRooflineChart"
    assert command.argv.count("--section") == 1
    assert option(command.argv, "-o") == "/run/1/counters-1"
    assert option(command.argv, "--target-processes") == "all"
    assert {"--nvtx", "--import-source"} <= set(command.argv)
    assert not {"--nvtx-include", "--kill", "--clock-control", "--profile-from-start"} & set(command.argv)


def test_collectives_only_where_they_were_asked_for() -> None:
    told = diagnosis("gemm", NCCL)
    (command,) = counter_commands(Request(("x",), "/w", communication=True), TOOLS, told, propose(told))
    assert command.kernels == ("gemm", NCCL)
    only = [one for one in propose(told) if one.share.kernel.name == NCCL]
    assert counter_commands(Request(("x",), "/w"), TOOLS, told, only) == ()
    assert counter_commands(Request(("x",), "/w"), TOOLS, told, ()) == ()


def test_a_run_each_for_kernels_far_apart() -> None:
    built = Built()
    for step in range(200):
        built.kernel(step * MS, step * MS + MS // 2, "often")
        if step % 60 == 30:
            built.kernel(step * MS + MS // 2, step * MS + MS, "rare")
    told = diagnose_timeline(built.facts())
    commands = counter_commands(Request(("x",), "/w"), TOOLS, told, propose(told, top=2))
    assert [one.id for one in commands] == ["counters-1", "counters-2"]
    assert [one.kernels for one in commands] == [("often",), ("rare",)]


def test_the_range_that_was_asked_for_is_asked_of_ncu() -> None:
    told = diagnosis("gemm", "softmax", ranges=True)
    request = Request(("x",), "/w", nvtx="do softmax", launches=2, capture_api=True)
    (command,) = counter_commands(request, TOOLS, told, propose(told, nvtx=request.nvtx))
    assert option(command.argv, "--nvtx-include") == "do softmax/"
    assert option(command.argv, "--profile-from-start") == "off"
    assert (command.kernels, command.launches) == (("softmax",), 2)


def test_operator_ranges_are_recorded_by_ncu_too() -> None:
    told = diagnosis("gemm")
    (command,) = counter_commands(Request(("x",), "/w", pytorch_ranges=True), TOOLS, told, propose(told))
    assert command.env == {"PYTHONPATH": "/run/1:/old:/path"}


def test_each_rank_has_its_report() -> None:
    told = diagnosis("gemm")
    program = ("torchrun", "--nproc-per-node=2", "train.py", "--lr", "1")
    (command,) = counter_commands(Request(program, "/w"), TOOLS, told, propose(told))
    assert command.argv[:4] == ("torchrun", "--nproc-per-node=2", "--no-python", "/opt/ncu")
    assert option(command.argv, "-o") == "/run/1/counters-1.rank%q{RANK}"
    assert command.argv[-5:] == ("python", "-u", "train.py", "--lr", "1")
    assert command.output == "counters-1"
