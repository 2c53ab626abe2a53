"""``gputui run`` without a screen, as its users start it: a child process, its streams, its exit status."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pytest
from standins import COUNTERS, DENIED, METACHARACTERS, NO_TEXT, TIMELINE, Act, Bin, make_bin, read_until

import gputui
from gputui.cli_run import Printer
from gputui.formats.nsys_rep import find_nsys
from gputui.run import keeper
from gputui.run.folder import RunRecord, read_record
from gputui.run.machine import Outcome
from gputui.run.plan import Command
from gputui.run.process import read_status
from gputui.run.session import StepResult
from gputui.wording import wording

needs_nsys = pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")
MAIN = (sys.executable, "-c", "import sys; from gputui.cli import main; sys.argv[0] = 'gputui'; main()")
GEMM = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_NNT"
SAY = (sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))")
WAIT = """if True:
    import sys, time
    sys.stdout.write("ready\\n")
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        sys.stdout.write("finishing\\n")
"""


class Place:
    """A folder to start gputui in, and what it has on its search path."""

    def __init__(self, folder: Path, bin: Bin) -> None:
        self.folder = folder
        self.bin = bin
        self.begun: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str | Path, **more: Any) -> subprocess.Popen[bytes]:
        begun: subprocess.Popen[bytes] = subprocess.Popen(
            [*MAIN, *map(str, arguments)],
            **{
                "cwd": self.folder, "env": self.bin.environment, "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0, **more,
            },
        )  # fmt: skip
        self.begun.append(begun)
        return begun

    def run(self, *arguments: str | Path, input: bytes | None = None, **more: Any) -> Done:
        if input is not None:
            more["stdin"] = subprocess.PIPE
        begun = self.start("run", "--no-tui", *arguments, **more)
        out, err = begun.communicate(input, timeout=120)
        return Done(begun.returncode, (out or b"").decode(), (err or b"").decode())

    @property
    def runs(self) -> list[Path]:
        return sorted((self.folder / "gputui-runs").glob("*"))

    @property
    def only(self) -> Path:
        (found,) = self.runs
        return found

    @property
    def record(self) -> RunRecord:
        return read_record(self.only)

    def clear(self) -> None:
        for one in self.begun:
            one.kill()
            one.communicate()
        for path in self.folder.rglob("*.status.json"):
            status = read_status(path)
            assert status is None or keeper.end_all(status.token)


class Done:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def text(self) -> str:
        """What it said, without the breaks of lines."""
        return " ".join(self.out.split())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "here"
    folder.mkdir()
    made = Place(folder, make_bin(tmp_path))
    yield made
    made.clear()


@pytest.fixture
def bare(place: Place) -> Place:
    """With no GPU and no ncu."""
    for path in place.bin.folder.iterdir():
        path.unlink()
    return place


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code, *arguments)


def until(what: Callable[[], Any], within: float = 60) -> Any:
    end = time.monotonic() + within
    while not (answer := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return answer


def in_order(text: str, *words: str) -> bool:
    return re.search(".*".join(map(re.escape, words)), text, re.DOTALL) is not None


# ---------------------------------------------------------------- what it prints


@needs_nsys
def test_a_program_without_gpu_work(bare: Place) -> None:
    code = r"print('\x1b[31mred\x1b[0m \x1b]0;title\x07\u202e'); import sys; sys.stdout.write('no end')"
    done = bare.run(*python(code, METACHARACTERS))
    assert (done.status, done.err) == (1, "")
    folder = f"gputui-runs/{bare.only.name}"
    assert in_order(
        done.text, "1 Check", "nsys 20", "No usable GPU here", "2 Timeline", "$ ", "nsys profile",
        "red \\u202e no end", f"Kept: {folder}/timeline.nsys-rep (", "There is no GPU work in this capture",
        "So there is no kernel", f"gputui explain {folder}/timeline.nsys-rep", f"Look at it: gputui open {folder}",
    ), done.out  # fmt: skip
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.out) is None
    # The program's output is told once, and nothing of nsys's own under names of the moment.
    assert done.out.count("\nred ") == 1
    assert "qdstrm" not in done.out
    assert "\nno end\n" in done.out
    assert bare.record.state == "failed"


def test_from_a_timeline_to_an_explanation(place: Place) -> None:
    done = place.run("--timeline", TIMELINE, "--ncu-top", "1", "--", *SAY, NO_TEXT, "--ncu-top", "-o")
    assert (done.status, done.err) == (0, "")
    folder = f"gputui-runs/{place.only.name}"
    arguments = ascii([NO_TEXT, "--ncu-top", "-o"])
    assert in_order(
        done.out, "1  Check\n", "3  Choose\n", "one of the longest", "4  Counters\n", "$ ", f"\n{arguments}\n",
        "==PROF== Profiling", f"Kept: {folder}/counters-1.ncu-rep",
        "5  Explain\n", "transpose_naive", f"Look at it: gputui open {folder}\n",
    ), done.out  # fmt: skip
    assert place.record.state == "done"
    assert place.record.stages[0].argv[-3:] == (NO_TEXT, "--ncu-top", "-o")


def test_in_japanese_and_ascii(place: Place) -> None:
    done = place.run("--lang", "ja", "--timeline", TIMELINE, "--ncu-top", "0", "--", *SAY)
    assert (done.status, done.err) == (0, "")
    assert re.search("[ぁ-ん]", done.out)
    assert not place.runs
    done = place.run("--ascii", "--timeline", TIMELINE, "--ncu-top", "1", "--", *SAY)
    assert done.status == 0
    assert done.out.isascii()


def test_what_failed_comes_with_its_cause_and_a_fix(place: Place) -> None:
    place.bin.ncu(Act(report=None, launches=(), before=DENIED, after="", status=1))
    done = place.run("--timeline", TIMELINE, "--ncu-top", "1", "--", *SAY)
    assert (done.status, done.err) == (1, "")
    assert in_order(
        done.text, "No report was written.", "Only administrators may read this GPU's counters", "> ERR_NVGPUCTRPERM",
        "- ", f"Everything it printed: gputui-runs/{place.only.name}/counters-1.log",
    ), done.out  # fmt: skip
    assert "Look at it" not in done.out


@needs_nsys
def test_the_command_can_be_typed_as_it_is_shown(bare: Place, tmp_path: Path) -> None:
    done = bare.run(*python("print('x')"))
    start = done.out.index("   $ ") + 5
    shown = done.out[start : done.out.index("\nx\n")]
    typed = subprocess.run(
        ["bash", "-c", f'set -- {shown}\nprintf "%s\\0" "$@"'], capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    assert tuple(map(os.fsdecode, typed)) == bare.record.stages[0].argv


@needs_nsys
def test_a_program_called_debug(bare: Place) -> None:
    done = bare.run("--debug", "--", *SAY, "--debug", "--no-tui")
    assert "\n['--debug', '--no-tui']\n" in done.out
    done = bare.run(*SAY, "--debug")
    assert "\n['--debug']\n" in done.out


@needs_nsys
def test_standard_input_is_the_program_s(bare: Place) -> None:
    done = bare.run(*python("import sys; print(sys.stdin.read()[::-1])"), input=b"olleh")
    assert "\nhello\n" in done.out
    done = bare.run(*python("import sys; print(repr(sys.stdin.read()))"))
    assert "\n''\n" in done.out


def test_what_is_printed_while_nsys_writes_is_not_lost() -> None:
    """As nsys 2023.4.4 prints when it is stopped, with what other ranks print meanwhile."""
    told: list[str] = []
    printer = Printer(told.append, lambda lines: None, wording("en"), None, "", ascii=False)
    for said in (
        b"ready\nfinishing",
        b"Generating '/tmp/nsys-report-d6cb.qdstrm'\n\n\r[1/1] [0%      ] time",
        b"line.nsys-rep\r[1/1] [====58%  ] timeline.nsys-rep\nrank 1: st",
        b"ep 9\nGenerating '/tmp/nsys-report-0a1b.qdstrm'\n[1/1] [=====100%] timeline.nsys-rep\nGenerated:\n",
        b"    /runs/1/.work/timeline.nsys-rep\n\nrank 2: [1/3] step 10",
    ):
        printer.output(said)
    printer.ended(StepResult(Command("timeline", "nsys", (), ""), Outcome(0, False, 1.0), (), (), Path("log")))
    assert "".join(told) == "ready\nfinishingrank 1: step 9\nrank 2: [1/3] step 10\n"


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "gputui run: has no program to run"),
        (("--kernel", "(", "--", "true"), "--kernel (: is no regular expression"),
        (("--nvtx", "[", "--", "true"), "--nvtx [: is no regular expression"),
        (("--ncu-options", "'a", "--", "true"), "--ncu-options 'a: has a quotation mark that is not closed"),
        (("--nsys-options", '"', "--", "true"), '--nsys-options ": has a quotation mark that is not closed'),
        (("--attach", "--", "true"), "gputui run --attach: goes on with a program and takes none"),
        (("--attach",), "gputui-runs: holds no run that goes on on another machine"),
        (("--timeline", "none.nsys-rep", "--", "true"), "none.nsys-rep: does not exist"),
        (("--timeline", str(COUNTERS), "--", "true"), "is no timeline"),
        (("--host", "-oProxyCommand=x", "--", "true"), "this is no name of a host"),
        (("-o", "/dev/null", "--", "true"), "/dev/null: cannot be read (Not a directory)"),
        (("-o", "/proc/none", "--", "true"), "/proc/none: cannot be written (No such file or directory)"),
        (("--kernel", "no such", "--timeline", str(TIMELINE), "--", "true"), "--kernel no such: matches no NVTX range"),
    ],
)
def test_wrong_use_is_told_in_a_line(place: Place, arguments: tuple[str, ...], words: str) -> None:
    place.bin.write("nsys", "#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.3.1'\n")
    done = place.run(*arguments)
    assert done.status == 2, done.out
    (line,) = done.err.splitlines()
    assert line.startswith("gputui: ")
    assert words in line
    assert not place.runs


@needs_nsys
def test_a_folder_for_runs(bare: Place, tmp_path: Path) -> None:
    done = bare.run("-o", tmp_path / "a b" / "runs", *python("print(1)"))
    (run,) = (tmp_path / "a b" / "runs").iterdir()
    assert gputui.open_report(run / "timeline.nsys-rep").timeline is not None
    assert f"gputui open '../a b/runs/{run.name}'" in done.text
    assert not bare.runs


# ---------------------------------------------------------------- ends before the end


@needs_nsys
def test_ctrl_c_keeps_what_was_recorded(bare: Place) -> None:
    process = bare.start("run", "--no-tui", *python(WAIT))
    read_until(process, "\nready\n")
    process.send_signal(signal.SIGINT)
    out, err = (one.decode() for one in process.communicate(timeout=60))
    assert (process.returncode, err) == (130, "")
    assert in_order(" ".join(out.split()), "Asked the program to end", "Kept: ", "Stopped, as asked"), out
    # nsys may write into the same line.
    assert "\nfinishing" in f"\n{out}"
    assert "qdstrm" not in out
    assert "[1/1]" not in out
    assert bare.record.state == "stopped"
    assert gputui.open_report(bare.only / "timeline.nsys-rep").timeline is not None


@needs_nsys
def test_ctrl_c_while_nobody_reads_and_the_pipe_is_full(bare: Place) -> None:
    code = """if True:
        import sys, time
        for at in range(3000):
            sys.stdout.write("%1000d\\n" % at)
        try:
            time.sleep(100)
        except KeyboardInterrupt:
            pass
    """
    process = bare.start("run", "--no-tui", *python(code))
    read_until(process, " 7\n")
    assert process.stdout is not None
    pipe = process.stdout
    until(lambda: is_full(pipe))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, b"")
    assert bare.record.state == "stopped"
    # It is told between two pieces of output, which may be in the middle of a line: line ends do not count.
    others, count = re.subn(rb"   Asked the program to end[^\n]*\n", b"", out)
    assert count == 1
    assert b"".join(b"%1000d" % at for at in range(8, 3000)) in others.replace(b"\n", b"")


def is_full(pipe: IO[bytes]) -> bool:
    unread = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, unread)
    # What was read of its first page gives no room.
    return int.from_bytes(unread, sys.byteorder) >= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 8192


def test_ctrl_c_while_nothing_runs(place: Place) -> None:
    place.bin.write("nvidia-smi", "#!/bin/sh\nsleep 30\n")
    process = place.start("run", "--no-tui", "--", "true")
    read_until(process, "Check")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert not place.runs


@needs_nsys
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_when_gputui_is_ended_the_report_is_kept_later(bare: Place, number: signal.Signals) -> None:
    process = bare.start("run", "--no-tui", *python(WAIT))
    read_until(process, "\nready\n")
    status = read_status(bare.only / ".work" / "timeline.status.json")
    assert status is not None
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (128 + number if number != signal.SIGKILL else -number)
    assert err == b""
    until(lambda: not keeper.leftovers(status.token))
    until(lambda: not keeper._start(status.keeper.pid))
    assert bare.record.state == "running"
    ended = bare.only
    told = [bare.run(*python("print(1)")).text for _ in range(2)]
    notice = f"An earlier run was interrupted: gputui-runs/{ended.name} (timeline.nsys-rep). Look at it: gputui open"
    assert [one.count("An earlier run") for one in told] == [1, 0]
    assert told[0].startswith(notice)
    assert read_record(ended).state == "interrupted"
    assert gputui.open_report(ended / "timeline.nsys-rep").timeline is not None


@needs_nsys
def test_runs_keeps_what_a_killed_one_left(bare: Place) -> None:
    process = bare.start("run", "--no-tui", *python(WAIT))
    read_until(process, "\nready\n")
    status = read_status(bare.only / ".work" / "timeline.status.json")
    assert status is not None
    process.kill()
    process.wait()
    until(lambda: not keeper.leftovers(status.token) and not keeper._start(status.keeper.pid))
    listed = bare.start("runs", "--format", "json")
    (one,) = json.loads(listed.communicate(timeout=60)[0])
    assert (one["state"], one["reports"]) == ("interrupted", ["timeline.nsys-rep"])
    (stage,) = bare.record.stages
    assert (stage.stopped, stage.status) == (True, 0)


@needs_nsys
def test_a_reader_that_has_seen_enough_ends_nothing(bare: Place) -> None:
    code = "import time\nfor at in range(20): print('step', at); time.sleep(0.05)"
    process = bare.start("run", "--no-tui", *python(code))
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 1
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert bare.record.stages[0].status == 0
    assert (bare.only / "timeline.nsys-rep").is_file()
    assert b"step 19\n" in (bare.only / "timeline.log").read_bytes()


@needs_nsys
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_cannot_be_written_ends_nothing(bare: Place) -> None:
    with open("/dev/full", "wb") as full:
        done = bare.run(*python("print('step')"), stdout=full)
    assert done.status == 2
    assert done.err.startswith("gputui: standard output: cannot be written (No space left on device)")
    assert (bare.only / "timeline.nsys-rep").is_file()


# ---------------------------------------------------------------- doctor


def test_doctor_as_json(place: Place) -> None:
    place.bin.write("nsys", "#!/bin/sh\necho 'NVIDIA Nsight Systems version 2025.3.1'\n")
    process = place.start("doctor", "--format", "json")
    out, err = process.communicate(timeout=60)
    told: Mapping[str, Any] = json.loads(out)
    assert err == b""
    assert told["can_profile"] == (process.returncode == 0)
    by_id = {check["id"]: check for check in told["checks"]}
    assert by_id["gpu"]["state"] == "ok"
    assert "NVIDIA H200" in json.dumps(by_id["gpu"])
    assert told["facts"]["tools"]["ncu"][0]["version"] == "2025.3.1.0"


@pytest.mark.parametrize("option", ["--delay", "--duration"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_seconds_that_are_none(place: Place, option: str, value: str) -> None:
    done = place.run(option, value, "--", "true")
    assert (done.status, done.err.count("is no number of seconds"), done.err.count("\n")) == (2, 1, 1)


def test_a_name_that_is_too_long_for_the_folder_of_runs(place: Place) -> None:
    done = place.run("-o", "x" * 300, "--", "true")
    assert (done.status, "Traceback" in done.err, done.err.count("\n")) == (2, False, 1)
