"""``gputui.profile``: the real nsys; stand-ins for ncu and nvidia-smi where a GPU would be needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from standins import AFTER, COUNTERS, DENIED, METACHARACTERS, NO_TEXT, NONE_PROFILED, Act, Bin

import gputui
from gputui.errors import GputuiError
from gputui.formats.nsys_rep import find_nsys
from gputui.model.report import Report
from gputui.run.folder import RunRecord, read_record
from gputui.run.profiling import (
    CountersDeniedError,
    NothingProfiledError,
    ProfileError,
    ProgramFailedError,
    ToolMissingError,
    profile,
)

needs_nsys = pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")


@pytest.fixture
def bin(bin: Bin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bin:
    """The current folder is an empty one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return bin


@pytest.fixture
def script(bin: Bin) -> Path:
    path = Path("train.py")
    path.write_text("import os, sys\nprint('\\x1b[31msays', ascii(sys.argv[1:]), 'in', os.getcwd())\n")
    return path


def run_record(folder: str = "gputui-runs") -> RunRecord:
    (run,) = Path(folder).iterdir()
    return read_record(run)


@needs_nsys
def test_a_python_file_gives_a_timeline(bin: Bin, script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = profile(script, [METACHARACTERS, "-o"])
    assert isinstance(report, Report)
    assert report.timeline is not None
    record = run_record()
    assert record.request.command == (sys.executable, "train.py", METACHARACTERS, "-o")
    assert (record.state, record.stages[0].status) == ("done", 0)
    assert Path(report.path).samefile(next(Path("gputui-runs").iterdir()) / "timeline.nsys-rep")
    assert sorted(os.listdir()) == ["gputui-runs", "train.py"]
    assert capfd.readouterr() == ("", "")


@needs_nsys
def test_output_shows_what_the_program_prints(bin: Bin, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile(script, ["é"], output=True)
    assert capsys.readouterr().out.startswith(f"says {['é']!a} in {os.getcwd()}\n")


@needs_nsys
def test_where_it_runs_and_where_it_is_kept(bin: Bin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there").mkdir()
    code = "import os; print(os.getcwd())"
    report = profile([sys.executable, "-c", code], directory=tmp_path / "there", folder=tmp_path / "runs", output=True)
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'there'}\n")
    assert report.timeline is not None
    assert run_record(str(tmp_path / "runs")).request.cwd == str(tmp_path / "there")
    assert not os.listdir()


@needs_nsys
def test_options_of_nsys(bin: Bin) -> None:
    profile([sys.executable, "-c", ""], options=["--export=sqlite"], launches=7)
    argv = run_record().stages[0].argv
    assert argv.index("--export=sqlite") < argv.index("-o")


@needs_nsys
def test_options_that_nsys_refuses_are_no_fault_of_the_program(bin: Bin) -> None:
    for option, id in (("--trace=nvtx", "option-twice"), ("--no-such-option=1", "option-unknown")):
        with pytest.raises(ProfileError) as error:
            profile([sys.executable, "-c", ""], options=[option])
        assert type(error.value) is ProfileError
        assert [one.id for one in error.value.failures] == [id]


def test_counters_of_kernels(bin: Bin, script: Path) -> None:
    report = profile(
        script, [NO_TEXT], tool="ncu", kernel="soft|gemm", skip=10, launches=2, options=["--cache-control", "none"]
    )
    assert [one.name for one in report.kernels][:1] == ["transpose_naive"]
    assert gputui.diagnose(report.kernels[0]).verdict.id
    (stage,) = run_record().stages
    text = " ".join(stage.argv[: stage.argv.index("-o")])
    for words in (
        "--kernel-name regex:soft|gemm", "--launch-skip 10", "--launch-count 2", "--cache-control none", "--set full",
    ):  # fmt: skip
        assert words in text
    assert stage.argv[-3:] == (sys.executable, "train.py", NO_TEXT)


def test_without_the_profiler(bin: Bin, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin.write("ncu", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{bin.folder}:/usr/bin:/bin")
    with pytest.raises(ToolMissingError) as error:
        profile(script, tool="ncu")
    assert error.value.title == "ncu"
    assert "gputui doctor" in error.value.hint
    assert (error.value.failures, error.value.log, error.value.reports) == ((), None, ())
    assert os.listdir() == ["train.py"]


def test_without_a_gpu(bin: Bin, script: Path) -> None:
    bin.write("nvidia-smi", "#!/bin/sh\necho 'No devices were found'; exit 6\n")
    with pytest.raises(ToolMissingError, match="No devices were found"):
        profile(script, tool="ncu")


def test_counters_that_are_denied(bin: Bin, script: Path) -> None:
    bin.ncu(Act(report=None, launches=(), before=DENIED, after="", status=1))
    with pytest.raises(CountersDeniedError) as error:
        profile(script, tool="ncu")
    assert error.value.message == "Only administrators may read this GPU's counters"
    assert [one.id for one in error.value.failures] == ["counters-denied"]
    assert error.value.log is not None
    assert DENIED.encode() in error.value.log.read_bytes()
    assert error.value.reports == ()
    assert run_record().state == "failed"


def test_nothing_was_profiled(bin: Bin, script: Path) -> None:
    bin.ncu(Act(report=None, launches=(), after=AFTER + NONE_PROFILED))
    with pytest.raises(NothingProfiledError) as error:
        profile(script, tool="ncu", kernel="nothing")
    assert [one.id for one in error.value.failures] == ["no-kernels-filter"]


@needs_nsys
def test_a_program_that_fails_leaves_its_report(bin: Bin) -> None:
    with pytest.raises(ProgramFailedError) as error:
        profile([sys.executable, "-c", "raise SystemExit(3)"])
    assert error.value.status == 3
    (report,) = error.value.reports
    assert gputui.open_report(report).timeline is not None
    assert "ended with status 3" in error.value.message
    assert run_record().state == "failed"


def test_a_program_that_fails_under_ncu(bin: Bin) -> None:
    bin.ncu(Act(report=None, launches=()))
    with pytest.raises(ProgramFailedError) as error:
        profile([sys.executable, "-c", "raise ValueError('x')"], tool="ncu")
    assert error.value.status == 1
    assert error.value.reports == ()
    assert "ValueError: x" in str(error.value)


@needs_nsys
def test_a_program_that_is_ended_by_a_signal(bin: Bin) -> None:
    with pytest.raises(ProgramFailedError) as error:
        profile([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert error.value.status == 137


@needs_nsys
def test_a_program_that_is_not_there(bin: Bin) -> None:
    with pytest.raises(ProfileError) as error:
        profile("./none", ["x"])
    assert type(error.value) is ProfileError
    assert [one.id for one in error.value.failures][:1] == ["program-not-found"]
    assert error.value.title == "./none x"


def test_what_nobody_knows(bin: Bin, script: Path) -> None:
    bin.ncu(Act(report=None, launches=(), before="==ERROR== Something new\n", after="", status=9))
    with pytest.raises(ProfileError) as error:
        profile(script, tool="ncu")
    assert type(error.value) is ProfileError
    assert [one.id for one in error.value.failures] == ["unknown"]


def test_a_report_that_cannot_be_read(bin: Bin, script: Path, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"NVR\0" + b"\xff" * 100)
    bin.ncu(Act(report=tmp_path / "damaged"))
    with pytest.raises(GputuiError, match=r"counters-1\.ncu-rep"):
        profile(script, tool="ncu")


def test_a_folder_that_cannot_be_written(bin: Bin, script: Path) -> None:
    with pytest.raises(GputuiError, match="cannot be written"):
        profile(script, tool="ncu", folder="train.py")


@pytest.mark.parametrize(
    "kind", [ToolMissingError, CountersDeniedError, NothingProfiledError, ProgramFailedError, ProfileError]
)
def test_errors_can_be_caught_as_what_they_are(kind: type[Exception]) -> None:
    assert issubclass(kind, ProfileError)
    assert issubclass(kind, GputuiError)
    assert gputui.profile is profile
    assert COUNTERS.exists()
