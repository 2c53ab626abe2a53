"""Whatever numbers a report holds: no exception, every number finite, every bound at least 1."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import pytest

from built import A100, DEVICE, ELAPSED, make_kernel
from compute_kernels import HITS
from gputui.analysis.engine import Diagnosis, diagnose, needed_names
from gputui.analysis.facts import MEMORY_BREAKDOWN, SM_BREAKDOWN, breakdown_parts
from gputui.analysis.finding import Evidence, Finding
from gputui.analysis.rules import all_rules
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import concept_of_metric

SM_PARTS = tuple(
    f"sm__{part}{ELAPSED}"
    for part in ("issue_active", "inst_executed_pipe_lsu", "pipe_fma_cycles_active", "pipe_fp64_cycles_active",
                 "pipe_alu_cycles_active", "pipe_tensor_cycles_active")
)  # fmt: skip
OPCODES = ("LDG", "LDS", "STS", "LDGSTS", "FFMA", "FADD", "FMUL", "IADD3", "HMMA", "HGMMA", "UTMALDG")
MEMORY_PARTS = tuple(
    f"{part}{ELAPSED}"
    for part in ("dram__cycles_active", "lts__t_sectors", "lts__xbar2lts_cycles_active", "l1tex__data_bank_reads",
                 "gpu__compute_memory_access_throughput_internal_activity")
)  # fmt: skip
NAMES = ("kernel", "ampere_sgemm_128x64_nn", "my_gemm", "indexSelectLargeIndex", "flash_fwd_kernel", "copyGmem")
DEVICES = (
    DEVICE, A100, Device("NVIDIA GeForce RTX 2080 Ti", (7, 5), 68), Device("GeForce GTX 1080", (6, 1)),
    Device("NVIDIA B200", (10, 0), 148), Device("unknown GPU"),
)  # fmt: skip


def plausible(random: random.Random, unit: str) -> float:
    if unit == "%":
        return random.uniform(0, 100)
    if unit in ("Hz", "kHz", "byte/s", "FLOP/s", "op/s"):
        return 10 ** random.uniform(6, 15)
    return 10 ** random.uniform(-2, 9)


def waiting(random: random.Random, unit: str) -> float:
    """A kernel that nothing holds: no unit is full, and waits are of the size of the time between two instructions."""
    if unit == "%":
        return random.uniform(0, 59)
    if unit in ("cycle", "", "warp", "block", "cluster"):
        return 10 ** random.uniform(-1, 1.5)
    return plausible(random, unit)


def odd(random: random.Random, unit: str) -> float:
    """Zero, negative, tiny, whole, enormous."""
    return random.choice((0.0, -1.0, -1e12, 1e-12, 1.0, 32.0, 1e18, 1e30, plausible(random, unit)))


def random_kernel(seed: int, make: Any, present: float) -> Kernel:
    dice = random.Random(seed)
    values: dict[str, Any] = {}
    for name in needed_names():
        concept = concept_of_metric().get(name)
        if concept is not None and dice.random() < present:
            values[name] = make(dice, concept.unit)
    if dice.random() < present:
        values["opcode_total"] = {opcode: make(dice, "inst") for opcode in OPCODES if dice.random() < 0.5}
    for breakdown, parts in ((SM_BREAKDOWN, SM_PARTS), (MEMORY_BREAKDOWN, MEMORY_PARTS)):
        if dice.random() < present:
            listed = [part for part in parts if dice.random() < 0.8]
            values[breakdown] = ", ".join(listed)
            # A part that is listed may still be absent.
            values.update({part: make(dice, "%") for part in listed if dice.random() < 0.9})
    name, device = dice.choice(NAMES), dice.choice(DEVICES)
    if dice.random() < 0.4:
        # Rules of many conditions are not met by chance.
        made, name, device = dice.choice(list(HITS.values()))
        values.update({key: value for key, value in made.items() if dice.random() < 0.95})
    return make_kernel(values, name, device=device)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, dict):
        yield from numbers(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from numbers(item)


def all_of(seen: Diagnosis) -> tuple[Finding, ...]:
    return (*seen.findings, *seen.validity)


@cache
def tried(make: Any) -> tuple[tuple[Diagnosis, ...], tuple[str, ...]]:
    """The diagnoses of 300 kernels for each share of metrics that are there, and what went wrong instead of one."""
    seen, errors = [], []
    for present in (0.1, 0.3, 0.6, 0.9, 1.0):
        for seed in range(300):
            try:
                seen.append(diagnose(random_kernel(seed, make, present)))
            except Exception as error:
                errors.append(f"{present} {seed}: {error!r}")
    return tuple(seen), tuple(errors)


EVERYTHING = pytest.mark.parametrize("make", [plausible, waiting, odd])


@EVERYTHING
def test_no_exception(make: Any) -> None:
    seen, errors = tried(make)
    assert errors == ()
    assert len(seen) == 5 * 300


@EVERYTHING
def test_every_number_is_finite(make: Any) -> None:
    for seen in tried(make)[0]:
        said = (seen.verdict, seen.gauges, seen.roofline, seen.findings, seen.validity, seen.explained)
        assert all(math.isfinite(number) for number in numbers(said)), said


@EVERYTHING
def test_every_bound_is_at_least_1(make: Any) -> None:
    for seen in tried(make)[0]:
        for found in all_of(seen):
            assert found.max_speedup is None or found.max_speedup >= 1, found


@EVERYTHING
def test_confidence_is_a_share(make: Any) -> None:
    for seen in tried(make)[0]:
        for found in all_of(seen):
            assert 0 <= found.confidence <= 1, found


@EVERYTHING
def test_evidence_is_what_the_report_holds(make: Any) -> None:
    for seen in tried(make)[0]:
        for found in all_of(seen):
            for item in found.evidence:
                assert isinstance(item, Evidence)
                metric = seen.kernel.metric(item.metric)
                # Else it is a formula over names.
                assert " " in item.metric or (metric is not None and metric.number == item.value), found


@EVERYTHING
def test_explained_findings_stand_behind_the_others(make: Any) -> None:
    for seen in tried(make)[0]:
        behind = [found.id in seen.explained for found in seen.findings]
        assert behind == sorted(behind)
        assert set(seen.explained) | set(seen.explained.values()) <= {found.id for found in seen.findings}


LESS_WORK = (
    "stall-lg-throttle", "stall-mio-throttle", "stall-tex-throttle", "stall-math-pipe", "stall-membar", "stall-branch",
    "stall-barrier",
)  # fmt: skip
"""Cured by fewer instructions to a unit of the SM, which relieves that unit too."""


@pytest.mark.parametrize("make", [plausible, waiting])
def test_no_latency_finding_gains_more_than_the_busiest_unit_leaves(make: Any) -> None:
    for seen in tried(make)[0]:
        busiest = seen.verdict.params["busiest_pct"]
        for found in seen.findings:
            waits = found.family in ("stalls", "occupancy") and found.id not in LESS_WORK
            if waits and found.max_speedup is not None and busiest:
                assert found.max_speedup <= max(1.0, 100 / busiest) * 1.000001, found


def test_fewer_instructions_gain_no_more_than_l2_and_dram_leave() -> None:
    told = set()
    for seen in tried(waiting)[0]:
        kept = [part for part in breakdown_parts(seen.kernel, MEMORY_BREAKDOWN) if part.startswith(("lts__", "dram__"))]
        busiest = max((metric.number or 0.0 for part in kept if (metric := seen.kernel.metric(part))), default=0.0)
        for found in seen.findings:
            if found.id in LESS_WORK and found.max_speedup is not None and busiest:
                told.add(found.id)
                assert found.max_speedup <= max(1.0, 100 / busiest) * 1.000001, found
    assert told == set(LESS_WORK)


def test_the_same_numbers_give_the_same_answer() -> None:
    first, second = (diagnose(random_kernel(7, plausible, 0.9)) for _ in range(2))
    assert (first.verdict, first.findings, first.roofline) == (second.verdict, second.findings, second.roofline)


def test_the_random_kernels_reach_most_rules() -> None:
    found = {finding.id for make in (plausible, waiting, odd) for seen in tried(make)[0] for finding in all_of(seen)}
    # Some ask for several numbers to fit together, and what is said of several launches needs several.
    single = {id for id, rule in all_rules().items() if rule.family != "fusion"}
    assert len(single - found) <= 0.15 * len(single)
