"""Each check where all is well and where it is not; the facts come from machines laid out in a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_machine import DOCKER, NO_CAPABILITIES, RECORDED_SMI, ROOT, FakeMachine, clean_environment

from gputui.run.doctor import BOTH, Check, blocked, can_profile, checks, outlook, tools

pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    machine = FakeMachine(tmp_path / "machine")
    clean_environment(machine, monkeypatch)
    return machine


def found(machine: FakeMachine, **other: Any) -> dict[str, Check]:
    """The checks by id; each comes once here."""
    told = checks({**machine.facts(), **other})
    by_id = {check.id: check for check in told}
    assert len(by_id) == len(told)
    return by_id


def stands(check: Check) -> tuple[str, str, tuple[str, ...]]:
    return check.state, check.variant, check.blocks


def test_a_healthy_machine(machine: FakeMachine) -> None:
    told = found(machine)
    assert {id: (check.state, check.variant) for id, check in told.items() if id != "disk"} == {
        "gpu": ("ok", "found"),
        "driver": ("ok", "found"),
        "nsys": ("ok", "found"),
        "ncu": ("ok", "found"),
        "chip": ("ok", "known"),
        "counters": ("ok", "open"),
        "mig": ("ok", "off"),
        "sampling": ("ok", "allowed"),
        "ptrace": ("ok", "allowed"),
        "profilers": ("ok", "none"),
        "injection": ("ok", "none"),
        "temp": ("ok", "good"),
    }
    assert told["gpu"].params == {"gpus": "NVIDIA H200"}
    assert told["driver"].params == {"driver": "580.159.04"}
    assert told["ncu"].params == {"path": str(machine.programs / "ncu"), "version": "2025.3.1.0"}
    assert can_profile(told.values())
    assert outlook(told.values()) == "all"


def test_what_the_plan_needs_of_the_tools(machine: FakeMachine) -> None:
    here = tools(machine.facts())
    assert here.nsys == str(machine.programs / "nsys")
    assert here.nsys_version == (2023, 4, 4, 54)
    assert here.ncu_version == (2025, 3, 1, 0)
    assert here.ncu_sections == {"LaunchStats", "SpeedOfLight", "SpeedOfLight_RooflineChart"}
    machine.answers("ncu", "exit 1")
    machine.write("opt/nvidia/nsight-compute/2024.1.1/ncu", "#!/bin/sh\necho Version 2024.1.1.0\n").chmod(0o755)
    assert tools(machine.facts()).ncu_version == (2024, 1, 1, 0)
    machine.remove("programs/ncu", "opt/nvidia/nsight-compute/2024.1.1/ncu")
    gone = tools({**machine.facts(), "tools": None})
    assert (gone.ncu, gone.ncu_version, gone.ncu_sections) == ("", (), frozenset())


def test_no_gpu(machine: FakeMachine) -> None:
    machine.remove("programs/nvidia-smi", "proc/driver/nvidia/version", "proc/driver/nvidia/params")
    told = found(machine)
    assert stands(told["gpu"]) == ("problem", "none", BOTH)
    # Without a GPU nobody needs to hear of its counters.
    assert not {"counters", "mig", "chip", "sampling"} & told.keys()
    assert not can_profile(told.values())
    assert outlook(told.values()) == "no-gpu"
    machine.write(".dockerenv", "")
    assert stands(found(machine)["gpu"]) == ("problem", "container", BOTH)


def test_a_driver_without_a_gpu_or_with_one_that_nvidia_smi_does_not_tell(machine: FakeMachine) -> None:
    machine.remove("programs/nvidia-smi")
    assert stands(found(machine)["gpu"]) == ("problem", "unseen", BOTH)
    machine.write("proc/driver/nvidia/gpus/0000:00:06.0/information", "Model: \t\t NVIDIA H200\n")
    told = found(machine)
    assert stands(told["gpu"]) == ("ok", "found", ())
    assert "chip" not in told
    assert can_profile(told.values())


@pytest.mark.parametrize(
    ("words", "variant"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "mismatch"),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.", "broken"),
    ],
)
def test_a_driver_that_does_not_work(machine: FakeMachine, words: str, variant: str) -> None:
    machine.smi(words, status=9)
    told = found(machine)
    assert stands(told["driver"]) == ("problem", variant, BOTH)
    assert told["driver"].params["error"] == words
    assert outlook(told.values()) == "no-gpu"


@pytest.mark.parametrize("value", ["", "-1"])
def test_gpus_that_are_hidden(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """With both values a program was seen to find no GPU (error 100)."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert stands(found(machine)["gpu"]) == ("problem", "hidden", BOTH)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert stands(found(machine)["gpu"]) == ("ok", "found", ())


def test_several_gpus_are_counted(machine: FakeMachine) -> None:
    machine.smi("\n".join([RECORDED_SMI] * 8))
    assert found(machine)["gpu"].params["gpus"] == "8 × NVIDIA H200"


@pytest.mark.parametrize("tool", BOTH)
def test_a_missing_or_broken_tool(machine: FakeMachine, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.answers(tool, "echo 'error while loading shared libraries: libfoo.so'; exit 127")
    check = found(machine)[tool]
    assert stands(check) == ("problem", "broken", (tool,))
    assert "libfoo.so" in check.params["error"]
    machine.remove(f"programs/{tool}")
    monkeypatch.setenv("PATH", str(machine.programs))
    told = found(machine)
    assert stands(told[tool]) == ("problem", "missing", (tool,))
    assert outlook(told.values()) == ("counters" if tool == "nsys" else "timeline")
    assert not can_profile(told.values())


@pytest.mark.parametrize(
    ("capability", "stands_so"),
    [
        ("9.0", ("ok", "known", ())),
        ("12.0", ("ok", "known", ())),
        ("7.0", ("problem", "too-new", ("ncu",))),
        ("10.3", ("ok", "known", ())),
    ],
)
def test_ncu_2025_3_and_the_gpu(machine: FakeMachine, capability: str, stands_so: tuple[Any, ...]) -> None:
    machine.smi(RECORDED_SMI.replace("9.0", capability))
    assert stands(found(machine)["chip"]) == stands_so


def test_an_ncu_older_than_the_gpu(machine: FakeMachine) -> None:
    # As ncu 2024.1 lists them.
    machine.answers(
        "ncu",
        "case $1 in --version) echo Version 2024.1.1.0;; --list-chips) echo 'ad102, ga100, gh100, gv100, tu102';; esac",
    )
    machine.smi(RECORDED_SMI.replace("NVIDIA H200", "NVIDIA B200").replace("9.0", "10.0"))
    check = found(machine)["chip"]
    assert stands(check) == ("problem", "too-old", ("ncu",))
    assert {"gpu": "NVIDIA B200", "capability": "10.0", "version": "2024.1.1.0"}.items() <= check.params.items()
    # Of a GPU that this gputui does not know nothing is said.
    machine.smi(RECORDED_SMI.replace("9.0", "19.0"))
    assert "chip" not in found(machine)


def restrict(machine: FakeMachine) -> None:
    machine.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")


def test_counters_for_administrators_only(machine: FakeMachine) -> None:
    restrict(machine)
    told = found(machine)
    assert stands(told["counters"]) == ("problem", "restricted", ("ncu",))
    assert told["counters"].params["driver"] == "580.159.04"
    assert blocked(told.values()) == {"ncu"}
    assert outlook(told.values()) == "timeline"
    machine.write("proc/self/status", ROOT)
    assert stands(found(machine)["counters"]) == ("ok", "administrator", ())


def test_root_in_a_container_is_no_administrator(machine: FakeMachine) -> None:
    restrict(machine)
    machine.write("proc/self/status", DOCKER)
    machine.write(".dockerenv", "")
    told = found(machine)
    assert stands(told["counters"]) == ("problem", "container", ("ncu",))
    assert stands(told["container"]) == ("ok", "inside", ())
    assert stands(found(machine, container="kubernetes")["counters"]) == ("problem", "kubernetes", ("ncu",))
    # docker run --cap-add=SYS_ADMIN
    machine.write("proc/self/status", "CapEff:\t00000000a82425fb\nSeccomp:\t2\n")
    assert stands(found(machine)["counters"]) == ("ok", "administrator", ())


@pytest.mark.parametrize(("driver", "state"), [("565.57.01", "ok"), ("550.54.15", "problem")])
def test_cap_perfmon_opens_the_counters_since_565(machine: FakeMachine, driver: str, state: str) -> None:
    restrict(machine)
    machine.write("proc/self/status", "CapEff:\t0000004000000000\nSeccomp:\t0\n")
    machine.write("proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Thu\n")
    assert found(machine)["counters"].state == state


def test_rights_that_end_with_the_container_are_not_trusted(machine: FakeMachine) -> None:
    restrict(machine)
    machine.write("proc/self/status", ROOT)
    machine.write("proc/self/uid_map", "         0       1000          1\n")
    told = found(machine)
    assert stands(told["counters"]) == ("unknown", "rootless", ())
    assert can_profile(told.values())
    assert outlook(told.values()) == "unsure"


def test_counters_that_cannot_be_told(machine: FakeMachine) -> None:
    machine.remove("proc/driver/nvidia/params")
    assert stands(found(machine)["counters"]) == ("unknown", "unknown", ())
    machine.write("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    assert stands(found(machine)["counters"]) == ("unknown", "wsl", ())


def test_mig_and_confidential_computing(machine: FakeMachine) -> None:
    machine.smi(f"{RECORDED_SMI.replace('Disabled', 'Enabled')}\n{RECORDED_SMI}", confidential="CC status: ON")
    told = found(machine)
    assert stands(told["mig"]) == ("warning", "on", ())
    assert told["mig"].params == {"count": 1, "all": 2}
    assert stands(told["confidential"]) == ("warning", "on", ())
    assert can_profile(told.values())
    machine.smi(RECORDED_SMI.replace("Disabled", "[N/A]"))
    assert not {"mig", "confidential"} & found(machine).keys()


@pytest.mark.parametrize(
    ("level", "status", "stands_so"),
    [
        ("2", NO_CAPABILITIES, ("ok", "allowed", ())),
        ("4", NO_CAPABILITIES, ("warning", "paranoid", ())),
        ("4", ROOT, ("ok", "allowed", ())),
        ("-1", NO_CAPABILITIES, ("ok", "allowed", ())),
    ],
)
def test_cpu_samples(machine: FakeMachine, level: str, status: str, stands_so: tuple[Any, ...]) -> None:
    machine.write("proc/sys/kernel/perf_event_paranoid", f"{level}\n")
    machine.write("proc/self/status", status)
    told = found(machine)
    assert stands(told["sampling"]) == stands_so
    assert told["sampling"].params["level"] == int(level)
    assert can_profile(told.values())


def test_a_container_that_filters_calls(machine: FakeMachine) -> None:
    machine.write("proc/self/status", DOCKER)
    machine.write(".dockerenv", "")
    assert stands(found(machine)["sampling"]) == ("warning", "seccomp", ())


@pytest.mark.parametrize(("scope", "variant"), [("0", "allowed"), ("1", "allowed"), ("2", "strict"), ("3", "strict")])
def test_ptrace(machine: FakeMachine, scope: str, variant: str) -> None:
    machine.write("proc/sys/kernel/yama/ptrace_scope", f"{scope}\n")
    check = found(machine)["ptrace"]
    assert (check.variant, check.params["scope"], check.blocks) == (variant, int(scope), ())


def test_others_that_profile(machine: FakeMachine) -> None:
    machine.write("proc/77/cmdline", "/usr/bin/dcgm-exporter\0-f\0")
    machine.write("proc/88/cmdline", "/opt/nvidia/bin/ncu\0--set\0full\0")
    told = [check for check in checks(machine.facts()) if check.id == "profilers"]
    assert [(check.state, check.variant) for check in told] == [("warning", "monitor"), ("warning", "profiler")]
    assert told[0].params["programs"].startswith("dcgm-exporter (")
    assert told[1].params["programs"].endswith(", 88)")


@pytest.mark.parametrize(
    ("variables", "stands_so"),
    [
        ({"CUDA_INJECTION64_PATH": "tool.so"}, ("problem", "refused", ("ncu",))),
        ({"NSYS_PROFILING_SESSION_ID": "1", "LD_PRELOAD": "a.so"}, ("warning", "inside", ())),
        ({"LD_PRELOAD": "libjemalloc.so.2"}, ("warning", "preload", ())),
        ({"CUDA_VISIBLE_DEVICES": "0"}, ("ok", "none", ())),
    ],
)
def test_variables(machine: FakeMachine, variables: Mapping[str, str], stands_so: tuple[Any, ...]) -> None:
    assert stands(found(machine, variables=variables)["injection"]) == stands_so


@pytest.mark.parametrize(
    ("folder", "stands_so"),
    [
        ({"writable": False, "noexec": False, "free": 10**12}, ("problem", "unwritable", BOTH)),
        ({"writable": True, "noexec": True, "free": 10**12}, ("warning", "noexec", ())),
        ({"writable": True, "noexec": False, "free": 10**9}, ("warning", "low", ())),
        ({"writable": True, "noexec": False, "free": None}, ("ok", "good", ())),
    ],
)
def test_the_folder_for_temporary_files(
    machine: FakeMachine, folder: Mapping[str, Any], stands_so: tuple[Any, ...]
) -> None:
    assert stands(found(machine, temp={"path": "there", **folder})["temp"]) == stands_so


@pytest.mark.parametrize(
    ("folder", "state", "variant"),
    [
        ({"writable": False, "free": 10**12}, "warning", "unwritable"),
        ({"writable": True, "free": 10**9}, "warning", "low"),
        ({"writable": True, "free": 10**12}, "ok", "good"),
    ],
)
def test_the_working_folder(machine: FakeMachine, folder: Mapping[str, Any], state: str, variant: str) -> None:
    check = found(machine, cwd={"path": "there", **folder})["disk"]
    assert stands(check) == (state, variant, ())


@pytest.mark.parametrize(
    ("version", "since_2025", "stands_so"),
    [
        ("2025.3.1.0", True, ("problem", "taken", ("ncu",))),
        ("2025.3.1.0", False, None),
        ("2024.1.1.0", False, ("problem", "taken", ("ncu",))),
        ("2024.1.1.0", True, None),
        ("2024.3.2.0", True, ("warning", "taken", ())),
        ("2024.3.2.0", False, ("warning", "taken", ())),
    ],
)
def test_a_lock_counts_for_the_ncu_that_uses_it(
    machine: FakeMachine, version: str, since_2025: bool, stands_so: tuple[Any, ...] | None
) -> None:
    machine.answers("ncu", f"echo Version {version}")
    lock = {"path": "there/lock", "owner": "alice", "since_2025": since_2025}
    check = found(machine, locks=[lock]).get("lock")
    assert (None if check is None else stands(check)) == stands_so


def test_facts_that_all_failed() -> None:
    told = checks({})
    assert {check.state for check in told} <= {"unknown", "ok"}
    assert can_profile(told)
    assert outlook(told) == "unsure"
