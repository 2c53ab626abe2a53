"""A machine to examine: a folder laid out like ``/``, with files and answers recorded on real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputui.run import probe

# Recorded on a machine with an H200, 2026-11; ncu's list is cut.
RECORDED_VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n"
    "GCC version:  gcc version 15.3.0 (GCC) \n"
)
RECORDED_SMI = "0, NVIDIA H200, GPU-61a0dd73-d340-c8db-ffe0-02ffc4ef95de, 9.0, 580.159.04, Disabled, 0"
RECORDED_INFORMATION = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n"
RECORDED_CONFIDENTIAL = "CC status: OFF"
RECORDED_NCU = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2025 NVIDIA Corporation
Version 2025.3.1.0 (build 36398880) (public-release)"""
RECORDED_CHIPS = "ad102, ga100, ga102, ga10b, gb100, gb10b, gb110, gb202, gb20b, gh100, tu102, tu104"
RECORDED_SECTIONS = """-------------------------------------------- ----------------------------
Identifier                                   Display Name
-------------------------------------------- ----------------------------
LaunchStats                                  Launch Statistics
SpeedOfLight                                 GPU Speed Of Light Throughput
SpeedOfLight_RooflineChart                   GPU Speed Of Light Roofline Chart
"""
RECORDED_NSYS = "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0"

# Recorded: an ordinary user's process, one of root, and one of root in a container of Docker's.
NO_CAPABILITIES = "CapEff:\t0000000000000000\nSeccomp:\t0\n"
ROOT = "CapEff:\t000001fffeffffff\nSeccomp:\t0\n"
DOCKER = "CapEff:\t00000000a80425fb\nSeccomp:\t2\n"


class FakeMachine:
    """Healthy at first: one H200, both profilers, counters open to everyone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.programs = root / "programs"
        self.write("proc/driver/nvidia/version", RECORDED_VERSION)
        self.write("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n")
        self.write("proc/sys/kernel/perf_event_paranoid", "2\n")
        self.write("proc/sys/kernel/yama/ptrace_scope", "1\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
        self.write("proc/self/status", NO_CAPABILITIES)
        self.write("proc/self/uid_map", "         0          0 4294967295\n")
        self.write("proc/1/cgroup", "0::/init.scope\n")
        (root / "tmp").mkdir()
        self.answers("nsys", f"echo '{RECORDED_NSYS}'")
        self.answers(
            "ncu",
            f"case $1 in --version) echo '{RECORDED_NCU}';; --list-chips) echo '{RECORDED_CHIPS}';; "
            f"--list-sections) echo '{RECORDED_SECTIONS}';; esac",
        )
        self.smi(RECORDED_SMI)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def answers(self, name: str, script: str) -> Path:
        """A stand-in for a program: none of the real ones could find a GPU here."""
        program = self.write(f"programs/{name}", f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    def smi(self, says: str, *, status: int = 0, confidential: str = RECORDED_CONFIDENTIAL) -> None:
        self.answers(
            "nvidia-smi", f"[ $1 = conf-compute ] && {{ echo '{confidential}'; exit; }}\necho '{says}'; exit {status}"
        )

    def remove(self, *paths: str) -> None:
        for path in paths:
            (self.root / path).unlink()

    def facts(self) -> dict[str, object]:
        return probe.facts(str(self.root))


def clean_environment(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the machine's own programs on the search path, and no variable that leads out of it."""
    for name in list(os.environ):
        if name in (*probe.INJECTIONS, *probe.HOME_VARIABLES, "TMPDIR", "CUDA_VISIBLE_DEVICES", "container") or (
            name.startswith(("NSIGHT_", "KUBERNETES_"))
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{machine.programs}:/bin:/usr/bin")
