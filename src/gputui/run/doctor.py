"""Can this machine profile? Facts in, checks out; no I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gputui.run.machine import Facts
from gputui.run.plan import Tools

Tool = Literal["nsys", "ncu"]
State = Literal["ok", "warning", "problem", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that profiling needs. Words: ``doctor.<id>.name`` and, below ``doctor.<id>.<variant>``, ``found`` and
    where there is something to do ``fix-root``, ``fix-user`` and ``ask`` (a message ready to send to the
    administrator).

    ``state``: ``ok``; ``warning`` (profiling works, with a limit that is told); ``problem`` (it does not work, for
    the ``blocks`` named: ``nsys``, ``ncu``); ``unknown`` (could not be told).
    """

    id: str
    state: State
    variant: str
    params: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[Tool, ...] = ()


BOTH: tuple[Tool, ...] = ("nsys", "ncu")
LOW_BYTES = 2 * 10**9
"""Free space under which a long timeline may not fit."""
_PERFMON_DRIVER = 565
"""Since this driver CAP_PERFMON, too, opens the counters (NVIDIA's page on ERR_NVGPUCTRPERM)."""
_SAMPLING_PARANOID = 2
"""nsys samples the CPU up to this kernel.perf_event_paranoid (``nsys status -e``)."""
_OLD_LOCK, _NEW_LOCK = (2024, 1, 999), (2025, 3)
"""The last ncu that was seen to use the old lock file and the first that was seen to use the new ones."""
_MONITORS = ("nv-hostengine", "dcgm-exporter", "dcgmi")
_CHIPS = {
    "7.0": "gv100", "7.2": "gv11b", "7.5": "tu1", "8.0": "ga100", "8.6": "ga10", "8.7": "ga10b", "8.9": "ad10",
    "9.0": "gh100", "10.0": "gb100", "10.3": "gb110", "11.0": "gb10b", "12.0": "gb20", "12.1": "gb20b",
}  # fmt: skip
"""How the names of a compute capability's chips begin in ``ncu --list-chips``."""


def checks(facts: Facts) -> tuple[Check, ...]:
    """What the facts of a machine mean for profiling on it, in the order in which things are needed.

    What makes no sense without a GPU is not checked where there is none.
    """
    # The machine, for the messages to its administrator.
    system, user = facts.get("system") or {}, facts.get("user") or {}
    who = {"host": system.get("host") or "?", "user": user.get("name") or "?"}
    found = [*_gpu(facts, who), *(_tool(facts, tool, who) for tool in BOTH)]
    if found[0].state != "problem":
        found += (*_chip(facts, who), _counters(facts, who), *_mig(facts), *_confidential(facts, who))
        found += (_sampling(facts, who), *_ptrace(facts, who), *_container(facts), *_profilers(facts, who))
    found += (*_injection(facts), *_temp(facts, who), *_locks(facts, who), *_disk(facts))
    return tuple(found)


def blocked(checks: Iterable[Check]) -> frozenset[Tool]:
    """The profilers that cannot work."""
    return frozenset(tool for check in checks for tool in check.blocks)


def outlook(checks: Iterable[Check]) -> Literal["all", "unsure", "timeline", "counters", "none", "no-gpu"]:
    """What works here, in one word; the key of the sentence that comes first."""
    checks = tuple(checks)
    stopped = blocked(checks)
    if any(check.id in ("gpu", "driver") and check.state == "problem" for check in checks):
        return "no-gpu"
    if stopped:
        return "none" if stopped == set(BOTH) else "timeline" if "ncu" in stopped else "counters"
    decisive = ("gpu", "nsys", "ncu", "counters")
    return "unsure" if any(check.state == "unknown" and check.id in decisive for check in checks) else "all"


def can_profile(checks: Iterable[Check]) -> bool:
    """Whether both stages can work: the timeline (nsys) and the counters (ncu).

    What could not be told and what is only limited stop neither: the profilers themselves have the last word.
    """
    return not blocked(checks)


def tools(facts: Facts) -> Tools:
    """The profilers to use: of each the first that tells its version."""
    nsys, ncu = _chosen(facts, "nsys") or {}, _chosen(facts, "ncu") or {}
    return Tools(
        nsys=nsys.get("path", ""),
        nsys_version=_numbers(nsys.get("version", "")),
        ncu=ncu.get("path", ""),
        ncu_version=_numbers(ncu.get("version", "")),
        ncu_sections=frozenset(ncu.get("sections", ())),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _candidates(facts: Facts, tool: Tool) -> list[Mapping[str, Any]]:
    return (facts.get("tools") or {}).get(tool) or []


def _chosen(facts: Facts, tool: Tool) -> Mapping[str, Any] | None:
    return next((one for one in _candidates(facts, tool) if one.get("version")), None)


def _gpus(facts: Facts) -> list[Mapping[str, str]]:
    return (facts.get("gpus") or {}).get("list") or []


def driver_version(facts: Facts) -> str:
    """The driver's version; empty where it is not told, as in WSL without nvidia-smi."""
    told = [one.get("driver_version", "") for one in _gpus(facts)]
    return (facts.get("driver") or {}).get("version") or next(iter(told), "")


def _has(facts: Facts, capability: str) -> bool:
    return bool((facts.get("capabilities") or {}).get(capability))


def _gpu(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    gpus, error = _gpus(facts), (facts.get("gpus") or {}).get("error", "")
    visible = (facts.get("variables") or {}).get("CUDA_VISIBLE_DEVICES")
    if facts.get("gpus") is None:
        yield Check("gpu", "unknown", "unknown")
    elif gpus and visible is not None and visible.strip() in ("", "-1"):
        yield Check("gpu", "problem", "hidden", {"value": visible}, BOTH)
    elif gpus:
        names = Counter(gpu.get("name", "") for gpu in gpus)
        listed = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
        yield Check("gpu", "ok", "found", {"gpus": listed})
        driver = driver_version(facts)
        yield Check("driver", "ok", "found", {"driver": driver}) if driver else Check("driver", "unknown", "unknown")
    elif "mismatch" in error.lower():
        yield Check("driver", "problem", "mismatch", {"error": error, **who}, BOTH)
    elif error:
        yield Check("driver", "problem", "broken", {"error": error, **who}, BOTH)
    elif facts.get("driver"):
        yield Check("gpu", "problem", "unseen", {"driver": driver_version(facts), **who}, BOTH)
    else:
        yield Check("gpu", "problem", "container" if facts.get("container") else "none", who, BOTH)


def _tool(facts: Facts, tool: Tool, who: Mapping[str, str]) -> Check:
    chosen, candidates = _chosen(facts, tool), _candidates(facts, tool)
    if chosen is not None:
        return Check(tool, "ok", "found", {"path": chosen["path"], "version": chosen["version"]})
    if candidates:
        params = {"path": candidates[0]["path"], "error": candidates[0].get("error", ""), **who}
        return Check(tool, "problem", "broken", params, (tool,))
    if facts.get("tools") is None:
        return Check(tool, "unknown", "unknown")
    return Check(tool, "problem", "missing", who, (tool,))


def _chip(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    """Whether this ncu knows this GPU, by its own list of chips."""
    chosen = _chosen(facts, "ncu") or {}
    chips = tuple(chosen.get("chips") or ())
    known = [capability for capability, begins in _CHIPS.items() if any(chip.startswith(begins) for chip in chips)]
    told = [gpu for gpu in _gpus(facts) if gpu.get("compute_cap") in _CHIPS]
    if not known or not told:
        return
    for gpu in told:
        capability = gpu["compute_cap"]
        if capability not in known:
            # A later ncu drops the oldest GPUs: to these a newer one is no help.
            variant = "too-new" if _numbers(capability) < min(map(_numbers, known)) else "too-old"
            params = {"gpu": gpu.get("name", ""), "capability": capability, "version": chosen["version"], **who}
            yield Check("chip", "problem", variant, params, ("ncu",))
            return
    yield Check("chip", "ok", "known", {"version": chosen["version"]})


def _counters(facts: Facts, who: Mapping[str, str]) -> Check:
    """Who may read the GPU's counters: the driver's RmProfilingAdminOnly against this process's capabilities."""
    restricted, driver, container = facts.get("profiling_admin_only"), driver_version(facts), facts.get("container")
    if restricted == 0:
        return Check("counters", "ok", "open")
    if facts.get("wsl"):
        return Check("counters", "unknown", "wsl", who)
    if restricted is None or facts.get("capabilities") is None:
        return Check("counters", "unknown", "unknown", who)
    opened = _has(facts, "sys_admin") or (_has(facts, "perfmon") and _numbers(driver)[:1] >= (_PERFMON_DRIVER,))
    params = {"driver": driver or "?", **who}
    if opened and (facts.get("user") or {}).get("mapped"):
        # Its capabilities end with its namespace, and the driver asks for those of the machine.
        return Check("counters", "unknown", "rootless", params)
    if opened:
        return Check("counters", "ok", "administrator")
    variant = "restricted" if not container else "kubernetes" if container == "kubernetes" else "container"
    return Check("counters", "problem", variant, params, ("ncu",))


def _mig(facts: Facts) -> Iterator[Check]:
    modes = [gpu.get("mig.mode.current", "") for gpu in _gpus(facts)]
    if "Enabled" in modes:
        yield Check("mig", "warning", "on", {"count": modes.count("Enabled"), "all": len(modes)})
    elif "Disabled" in modes:
        yield Check("mig", "ok", "off")


def _confidential(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    if facts.get("confidential"):
        yield Check("confidential", "warning", "on", who)


def _sampling(facts: Facts, who: Mapping[str, str]) -> Check:
    """CPU samples of nsys, through perf_event_open; a trace of CUDA needs none."""
    level = facts.get("perf_event_paranoid")
    if level is None:
        return Check("sampling", "unknown", "unknown")
    if _has(facts, "sys_admin") or _has(facts, "perfmon"):
        return Check("sampling", "ok", "allowed", {"level": level})
    if level > _SAMPLING_PARANOID:
        return Check("sampling", "warning", "paranoid", {"level": level, **who})
    if facts.get("container") and facts.get("seccomp") == 2:
        return Check("sampling", "warning", "seccomp", who)
    return Check("sampling", "ok", "allowed", {"level": level})


def _ptrace(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    scope = facts.get("ptrace_scope")
    if scope is not None:
        strict = scope >= 2 and not _has(facts, "sys_ptrace")
        yield Check("ptrace", "warning" if strict else "ok", "strict" if strict else "allowed", {"scope": scope, **who})


def _container(facts: Facts) -> Iterator[Check]:
    if facts.get("container"):
        yield Check("container", "ok", "inside", {"kind": facts["container"]})


def _profilers(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    processes = facts.get("processes")
    if processes is None:
        return
    monitors = [one for one in processes if one["name"] in _MONITORS]
    others = [one for one in processes if one["name"] not in _MONITORS]
    for variant, found in (("monitor", monitors), ("profiler", others)):
        if found:
            yield Check("profilers", "warning", variant, {"programs": _listed(found), **who})
    if not processes:
        yield Check("profilers", "ok", "none")


def _listed(processes: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one['name']} ({one['user']}, {one['pid']})" for one in processes)


def _injection(facts: Facts) -> Iterator[Check]:
    variables = dict(facts.get("variables") or {})
    variables.pop("CUDA_VISIBLE_DEVICES", None)
    preload = variables.pop("LD_PRELOAD", None)
    injected = variables.pop("CUDA_INJECTION64_PATH", None)
    if injected is not None:
        yield Check("injection", "problem", "refused", {"value": injected}, ("ncu",))
    elif variables:
        yield Check("injection", "warning", "inside", {"names": " ".join(sorted(variables))})
    elif preload:
        yield Check("injection", "warning", "preload", {"value": preload})
    else:
        yield Check("injection", "ok", "none")


def _temp(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    temp = facts.get("temp")
    if temp is None:
        return
    params = {"path": temp["path"], "free": temp.get("free"), **who}
    if not temp["writable"]:
        yield Check("temp", "problem", "unwritable", params, BOTH)
    elif temp["noexec"]:
        yield Check("temp", "warning", "noexec", params)
    elif _is_low(temp):
        yield Check("temp", "warning", "low", params)
    else:
        yield Check("temp", "ok", "good", params)


def _is_low(folder: Mapping[str, Any]) -> bool:
    free = folder.get("free")
    return free is not None and free < LOW_BYTES


def _locks(facts: Facts, who: Mapping[str, str]) -> Iterator[Check]:
    version = _numbers((_chosen(facts, "ncu") or {}).get("version", ""))
    for lock in facts.get("locks") or ():
        if version >= _NEW_LOCK if lock["since_2025"] else version <= _OLD_LOCK:
            yield Check("lock", "problem", "taken", {"path": lock["path"], "owner": lock["owner"], **who}, ("ncu",))
            return
        if _OLD_LOCK < version < _NEW_LOCK:
            yield Check("lock", "warning", "taken", {"path": lock["path"], "owner": lock["owner"], **who})
            return


def _disk(facts: Facts) -> Iterator[Check]:
    folder = facts.get("cwd")
    if folder is None:
        return
    params = {"path": folder["path"], "free": folder.get("free")}
    if not folder["writable"]:
        yield Check("disk", "warning", "unwritable", params)
    elif _is_low(folder):
        yield Check("disk", "warning", "low", params)
    else:
        yield Check("disk", "ok", "good", params)
