"""The guided run: the real nsys; where a GPU is needed, stand-ins for ncu and nvidia-smi and a recorded timeline."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from standins import AFTER, COUNTERS, DENIED, LAST, NO_TEXT, NONE_PROFILED, RANKED, TIMELINE, Act, Bin

from gputui.analysis.engine import Diagnosis
from gputui.analysis.proposals import Proposal
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis
from gputui.errors import GputuiError
from gputui.formats.nsys_rep import find_nsys
from gputui.model.report import Report
from gputui.run.doctor import Check
from gputui.run.folder import RunRecord, read_record
from gputui.run.guided import Guided, Stage, Teller, lead
from gputui.run.local import LocalMachine
from gputui.run.plan import Command, Request, Tools
from gputui.run.progress import Progress
from gputui.run.session import Session, StepResult

needs_nsys = pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")
PROGRAM = (sys.executable, "-c", "import os, sys; print(ascii(sys.argv[1:]), 'in', os.getcwd())")
GEMM = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT"
NORM = "GammaBetaBackwardCUDAKernelTemplate"
LOSS = "nll_loss_forward_reduce_cuda_kernel_2d"
"""Too far from GEMM in the program: it takes a run of its own."""


class Ear(Teller):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.printed = b""
        self.states: list[Progress] = []
        self.results: list[StepResult] = []
        self.proposals: Sequence[Proposal] = ()
        self.blockers: list[Check] = []
        self.kernels: list[list[Diagnosis]] = []
        self.report: Report | None = None
        self.tools: Tools | None = None
        self.do: Callable[[], None] = lambda: None

    def stage(self, stage: Stage) -> None:
        self.order.append(stage)

    def checked(self, checks: Sequence[Check], tools: Tools) -> None:
        self.tools = tools

    def blocked(self, checks: Sequence[Check]) -> None:
        self.order.append("blocked")
        self.blockers += checks

    def command(self, command: Command) -> None:
        self.order.append(command.id)

    def output(self, data: bytes) -> None:
        self.printed += data
        self.do()

    def progress(self, progress: Progress) -> None:
        self.states.append(progress)

    def ended(self, result: StepResult) -> None:
        self.order.append(f"{result.command.id} ended")
        self.results.append(result)

    def timeline(self, report: Report, diagnosis: TimelineDiagnosis) -> None:
        self.report = report

    def proposed(self, proposals: Sequence[Proposal]) -> None:
        self.proposals = proposals

    def explained(self, launches: Sequence[Diagnosis], report: Sequence[Diagnosis]) -> None:
        self.kernels.append(list(launches))


@pytest.fixture
def ear() -> Ear:
    return Ear()


class Run:
    def __init__(self, base: Path, ear: Ear) -> None:
        self.base = base
        self.ear = ear
        self.session: Session | None = None

    def __call__(self, *command: str, timeline: Path | None = TIMELINE, **more: object) -> Guided:
        request = Request(command or PROGRAM, str(self.base), **more)  # type: ignore[arg-type]
        self.session = Session(LocalMachine(), request, self.base / "runs", columns=100)
        return lead(self.session, self.ear, timeline)

    @property
    def folder(self) -> Path:
        (found,) = (self.base / "runs").iterdir()
        return found

    @property
    def record(self) -> RunRecord:
        return read_record(self.folder)


@pytest.fixture
def run(tmp_path: Path, ear: Ear) -> Run:
    return Run(tmp_path, ear)


def option(argv: Sequence[str], name: str) -> str:
    return argv[argv.index(name) + 1]


# ------------------------------------------------------------------- with no GPU


@needs_nsys
def test_a_program_without_gpu_work_ends_at_the_timeline(run: Run, ear: Ear, tmp_path: Path) -> None:
    code = "import nvtx\nwith nvtx.annotate('outer'):\n with nvtx.annotate('inner'): print('working')"
    done = run(sys.executable, "-c", code, timeline=None)
    assert ear.order[:4] == ["check", "timeline", "timeline", "timeline ended"]
    assert done.status == 1
    assert done.reports == [run.folder / "timeline.nsys-rep"]
    assert ear.report is not None
    assert ear.report.timeline is not None
    assert {"outer", "inner"} <= set(ear.report.timeline.names)
    assert run.record.state == "failed"
    assert run.record.stages[0].status == 0


# ------------------------------------------------------------ with stand-ins for it


def test_the_longest_kernels(run: Run, ear: Ear, bin: Bin) -> None:
    bin.ncu(Act(launches=(GEMM, NORM), pause=0.3))
    done = run(*PROGRAM, NO_TEXT, "", "-o", "--kernel-name", top=2)
    assert ear.order == ["check", "choose", "counters", "counters-1", "counters-1 ended", "explain"]
    assert [one.share.kernel.name for one in ear.proposals if one.is_proposed] == [GEMM, NORM]
    assert (done.status, run.record.state) == (0, "done")
    assert done.reports == [run.folder / "counters-1.ncu-rep"]
    assert done.reports[0].read_bytes() == COUNTERS.read_bytes()
    arguments = ascii([NO_TEXT, "", "-o", "--kernel-name"])
    assert ear.printed.count(f"{arguments} in {run.base}\n".encode()) == 1
    assert {one.kernel for one in ear.states} == {"", GEMM, NORM}
    assert {(one.kernel, one.percent) for one in ear.states if one.kernel} >= {(GEMM, 0), (NORM, 0)}
    assert ear.states[-1].is_writing
    assert ear.states[0].launches == int(option(run.record.stages[0].argv, "--launch-count"))


def test_what_was_run_is_kept_as_it_was_run(run: Run, bin: Bin) -> None:
    run(*PROGRAM, NO_TEXT, top=1)
    (stage,) = run.record.stages
    assert stage.argv[-4:] == (*PROGRAM, NO_TEXT)
    assert stage.argv[0] == str(bin.folder / "ncu")
    assert stage.kernels == (GEMM,)
    kept = os.fsdecode((run.folder / "commands.txt").read_bytes())
    assert tuple(shlex.split(kept.split("\n", 1)[1])) == stage.argv
    assert run.record.request.command == (*PROGRAM, NO_TEXT)
    assert run.record.gpus == ("NVIDIA H200",)
    assert run.record.tools["ncu"] == "2025.3.1.0"
    assert sorted(path.name for path in run.folder.iterdir()) == [
        ".work", "commands.txt", "counters-1.log", "counters-1.ncu-rep", "run.json",
    ]  # fmt: skip


def test_the_kernels_of_a_name(run: Run, ear: Ear, bin: Bin) -> None:
    assert run(kernel="^GammaBeta").status == 0
    (stage,) = run.record.stages
    assert stage.kernels == (NORM,)
    assert option(stage.argv, "--kernel-name") == f"regex:^{NORM}$"


def test_what_ranges_launched(run: Run, ear: Ear, bin: Bin) -> None:
    assert run(nvtx="^record$").status == 0
    assert len(run.record.stages) > 1
    for stage in run.record.stages:
        assert option(stage.argv, "--nvtx-include") == "record/"
    assert run.record.request.nvtx == "^record$"
    assert {one.reason for one in ear.proposals} == {"asked", "more"}


def test_nothing_of_the_name_asked_for(run: Run, ear: Ear, bin: Bin) -> None:
    with pytest.raises(GputuiError, match="--kernel attn_gemm: matches no NVTX range"):
        run(kernel="attn_gemm")
    assert not (run.base / "runs").exists()


def test_each_kernel_in_a_run_of_its_own(run: Run, ear: Ear, bin: Bin) -> None:
    bin.ncu(**{LOSS: Act(report=LAST)})
    done = run(kernel=f"{GEMM}|{LOSS}")
    assert (done.status, run.record.state) == (0, "done")
    assert [path.name for path in done.reports] == ["counters-1.ncu-rep", "counters-2.ncu-rep"]
    assert [stage.kernels for stage in run.record.stages] == [(GEMM,), (LOSS,)]
    assert (run.folder / "commands.txt").read_text().count("\n# counters-") == 1
    names = [launches[0].kernel.name for launches in ear.kernels]
    assert len(names) == len(set(names)) > 10
    assert {"transpose_naive", "Kernel2"} <= set(names)
    times = [launches[0].kernel.duration_ns or 0 for launches in ear.kernels]
    assert times == sorted(times, reverse=True)
    for launches in ear.kernels:
        inside = [one.kernel.duration_ns or 0 for one in launches]
        assert inside == sorted(inside, reverse=True)


def test_collectives_are_never_chosen(run: Run, ear: Ear, bin: Bin) -> None:
    assert run(timeline=RANKED, top=4).status == 0
    assert ear.proposals[0].reason == "collective"
    assert "nccl" in ear.proposals[0].share.kernel.name.lower()
    for stage in run.record.stages:
        assert not any("nccl" in word for word in (*stage.kernels, *stage.argv))


def test_collectives_are_not_chosen_by_their_name_either(run: Run, ear: Ear, bin: Bin) -> None:
    assert run(timeline=RANKED, kernel="nccl").status == 0
    assert [one for one in ear.proposals if one.is_proposed] == []
    assert ear.order == ["check", "choose"]


def test_one_kernel_fails_and_the_others_go_on(run: Run, ear: Ear, bin: Bin) -> None:
    bin.ncu(**{GEMM: Act(report=None, launches=(), before=DENIED, after="", status=1)})
    done = run(kernel=f"{GEMM}|{LOSS}")
    denied, counted = ear.results
    assert [(one.id, one.kind) for one in denied.failures] == [("counters-denied", "failure")]
    assert (denied.failed, counted.failed) == (True, False)
    assert done.reports == [run.folder / "counters-2.ncu-rep"]
    assert (done.status, run.record.state) == (1, "failed")
    assert run.record.stages[0].failures == ("counters-denied",)
    assert ear.kernels


def test_no_kernel_was_profiled(run: Run, ear: Ear, bin: Bin) -> None:
    bin.ncu(Act(report=None, launches=(), after=AFTER + NONE_PROFILED))
    done = run(top=1)
    assert [one.id for one in ear.results[0].failures] == ["no-kernels-filter"]
    assert (done.status, done.reports, run.record.state) == (1, [], "failed")
    assert "explain" not in ear.order


def test_the_program_fails_under_ncu(run: Run, ear: Ear, bin: Bin) -> None:
    done = run(sys.executable, "-c", "raise SystemExit(3)", top=1)
    assert (done.status, len(done.reports)) == (1, 1)
    assert ear.results[0].outcome.status == 3
    assert ear.kernels
    assert run.record.state == "failed"


@pytest.mark.parametrize("report", [None, COUNTERS])
def test_ncu_hangs_and_is_stopped(run: Run, ear: Ear, bin: Bin, report: Path | None) -> None:
    bin.ncu(Act(launches=(GEMM, NORM), hangs=True, report=report))
    stops: list[bool] = []

    def stop() -> None:
        if f'"{NORM}": 0%....50%'.encode() in ear.printed and not stops:
            assert run.session is not None
            stops.append(run.session.stop())

    ear.do = stop
    done = run(kernel=f"{GEMM}|{LOSS}")
    assert stops == [True]
    assert (done.status, run.record.state) == (130, "stopped")
    assert len(run.record.stages) == len(ear.results) == 1
    assert done.reports == ([run.folder / "counters-1.ncu-rep"] if report else [])
    assert ear.results[0].outcome.stopped
    assert ("explain" in ear.order) == bool(done.reports)
    # It had replayed it 29 times: it was no kernel that hangs.
    assert [one.id for one in ear.results[0].failures] == ([] if report else ["stopped"])


def test_a_damaged_report_does_not_hide_the_others(run: Run, ear: Ear, bin: Bin, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.ncu-rep"
    damaged.write_bytes(b"NVR\0" + b"\xff" * 1000)
    bin.ncu(**{GEMM: Act(report=damaged)})
    with pytest.raises(GputuiError, match=r"counters-1\.ncu-rep"):
        run(kernel=f"{GEMM}|{LOSS}")
    assert "transpose_naive" in {launches[0].kernel.name for launches in ear.kernels}
    assert run.record.state == "failed"


def test_without_ncu_the_reason_is_told(run: Run, ear: Ear, bin: Bin, monkeypatch: pytest.MonkeyPatch) -> None:
    bin.write("ncu", "#!/bin/sh\necho broken; exit 1\n")
    monkeypatch.setenv("PATH", f"{bin.folder}:/usr/bin:/bin")
    done = run(top=1)
    assert done.status == 1
    assert [one.id for one in ear.blockers] == ["ncu"]
    assert ear.order == ["check", "choose", "counters", "blocked"]
    assert not (run.base / "runs").exists()


def test_a_timeline_that_is_none(run: Run, ear: Ear, bin: Bin) -> None:
    with pytest.raises(GputuiError, match="is no timeline"):
        run(timeline=COUNTERS)
    with pytest.raises(GputuiError, match="does not exist"):
        run(timeline=run.base / "none.nsys-rep")
    assert not (run.base / "runs").exists()
