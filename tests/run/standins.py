"""Stand-ins for what the real profilers cannot do without a GPU: an ncu that says recorded words and copies a report
to where it was told, and an nvidia-smi that tells of a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_machine import RECORDED_CHIPS, RECORDED_CONFIDENTIAL, RECORDED_NCU, RECORDED_SECTIONS, RECORDED_SMI

from gputui.data import demo_report, demo_timeline
from gputui.formats.nsys_rep import find_nsys

SAMPLES = Path(__file__).parents[2] / "sample_reports"
TIMELINE = demo_timeline()
RANKED = SAMPLES / "timeline_ddp_rank0.json.gz"
"""A timeline most of which is NCCL."""
COUNTERS = demo_report()
LAST = SAMPLES / "tensor_counts.ncu-rep"

METACHARACTERS = "a b'c\"d$(touch x)`touch y`;&&||>z<*?[!]{}~#\\ \n\r\t!%^=-- é日本"
NO_TEXT = f"{METACHARACTERS}\udcff"
"""The bytes of which are no UTF-8; nsys 2023.4 itself refuses such arguments."""

# Recorded of ncu 2025.3.1 on an H200 (the denial: the words of NVIDIA's page on it).
BEFORE = (
    "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling results may be "
    "inconsistent.\n==PROF== Connected to process 507 (/usr/bin/python3.12)\n"
)
AFTER = "==PROF== Disconnected from process 507\n"
NO_SOURCE = (
    "==WARNING== No source files were imported. Check that the target application was compiled with -lineinfo.\n"
)
DENIED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
)
NONE_PROFILED = "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. cunn_SoftMaxForward\n2. reduce_kernel\n"
INTERRUPTED = (
    '==PROF== Trying to shutdown target application\n - 29 passes\n==ERROR== Failed to profile "{name}" in process '
    "2903\n==PROF== Trying to shutdown target application\n==ERROR== An error occurred while trying to profile.\n"
)

_NCU = """\
import json, os, shutil, signal, subprocess, sys, time

given = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ncu.json")))
arguments = sys.argv[1:]
for option in ("--version", "--list-chips", "--list-sections"):
    if option in arguments[:1]:
        print(given[option])
        sys.exit()
place = arguments.index("-o")
output, program = arguments[place + 1] + ".ncu-rep", arguments[place + 2:]
act = next(act for words, act in given["acts"] if words in " ".join(arguments[:place]))


def say(text):
    os.write(1, text.encode())


def write_report():
    if act["report"]:
        shutil.copyfile(act["report"], output)
        say("==PROF== Report: %s\\n" % output)


def end(*_):
    say(given["interrupted"].format(name=act["launches"][-1]))
    write_report()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


status = 0
if act["runs"]:
    signal.signal(signal.SIGINT, lambda *_: None)
    status = subprocess.call(program)
signal.signal(signal.SIGINT, end)
say(act["before"])
for at, name in enumerate(act["launches"]):
    say('==PROF== Profiling "%s": 0%%' % name)
    time.sleep(act["pause"])
    say("....50%")
    if act["hangs"] and at + 1 == len(act["launches"]):
        while True:
            time.sleep(60)
    say("....100% - 38 passes\\n")
say(act["after"])
if status:
    say("==ERROR== The application returned an error code (%d).\\n" % status)
write_report()
sys.exit(act["status"] or status)
"""


@dataclass(frozen=True)
class Act:
    """What the stand-in for ncu does: run the program, say ``before``, then each of ``launches``, then ``after``."""

    report: Path | None = COUNTERS
    launches: Sequence[str] = ("reduce_kernel",)
    before: str = BEFORE
    after: str = AFTER + NO_SOURCE
    status: int = 0
    pause: float = 0.0
    hangs: bool = False
    runs: bool = True


@dataclass
class Bin:
    """A folder of programs that comes first on the search path."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """A plain one, in which these programs and the real nsys are found."""
        nsys = find_nsys()
        keep = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LC_", "GPUTUI_", "LANG", "NSIGHT_", "CUDA_"))
            and name not in ("COLUMNS", "PYTHONUNBUFFERED")
        }
        paths = [str(self.folder), *([str(Path(nsys).parent)] if nsys else []), os.environ["PATH"]]
        return {**keep, "LC_ALL": "C.UTF-8", "COLUMNS": "110", "PATH": os.pathsep.join(paths)}

    def write(self, name: str, text: str) -> Path:
        program = self.folder / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        return program

    def gpu(self) -> None:
        """Let it seem that there is a GPU."""
        self.write(
            "nvidia-smi", f"#!/bin/sh\n[ $1 = conf-compute ] && {{ echo '{RECORDED_CONFIDENTIAL}'; exit; }}\n"
            f"echo '{RECORDED_SMI}'\n"
        )  # fmt: skip

    def ncu(self, act: Act | None = None, **by_words: Act) -> None:
        """Put ncu there. Which act it plays, the first of ``by_words`` tells whose name is in its arguments."""
        acts = [*by_words.items(), ("", act or Act())]
        given: Mapping[str, Any] = {
            "--version": RECORDED_NCU,
            "--list-chips": RECORDED_CHIPS,
            "--list-sections": RECORDED_SECTIONS,
            "interrupted": INTERRUPTED,
            "acts": [
                (
                    words,
                    {
                        **{name: getattr(one, name) for name in Act.__dataclass_fields__},
                        "report": str(one.report or ""),
                    },
                )
                for words, one in acts
            ],
        }
        (self.folder / "ncu.json").write_text(json.dumps(given))
        self.write("ncu", f"#!{sys.executable} -IS\n{_NCU}")


def make_bin(tmp_path: Path) -> Bin:
    """With a GPU and an ncu that succeeds."""
    made = Bin(tmp_path / "bin")
    made.folder.mkdir()
    made.gpu()
    made.ncu()
    return made


def read_until(process: subprocess.Popen[bytes], words: str) -> str:
    """What it printed up to the line that holds the words."""
    assert process.stdout is not None
    found = ""
    while words not in found:
        line = process.stdout.readline().decode()
        assert line, f"{found}{process.communicate()[1].decode()}"
        found += line
    return found
