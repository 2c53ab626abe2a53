"""Each finding of a timeline: a program that has it, one that must not, and numbers worked out by hand."""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
import pytest
from timeline_builder import MS, US, Program

from gputui.analysis.finding import Finding
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.analysis.timeline_rules import all_timeline_rules
from gputui.analysis.timeline_rules.steady import NEEDS, SteadyState
from gputui.model.device import Device
from gputui.model.report import Notice
from gputui.model.timeline import CopyKind, MemoryKind
from gputui.units import DASH
from gputui.wording import LANGUAGES, READER_LEVELS, wording

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STEPS = 20


def diagnosed(program: Program, *notices: Notice) -> TimelineDiagnosis:
    return diagnose_timeline(program.facts(), notices)


def found(diagnosis: TimelineDiagnosis, id: str) -> Finding:
    return next(one for one in diagnosis.findings if one.id == id)


def ids(diagnosis: TimelineDiagnosis) -> set[str]:
    return {one.id for one in diagnosis.findings}


# ------------------------------------------------------------------ programs


def busy(gap: int = 100 * US, **options: object) -> Program:
    """Steps of 10 ms: two kernels, and at the end a gap in which nothing runs."""
    program = Program(**options)  # type: ignore[arg-type]
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 10 * MS - 10, f"step {step}")
        program.kernel(start + 10 * US, start + 5 * MS, "gemm", called=start + US)
        program.kernel(start + 5 * MS, start + 10 * MS - gap + 10 * US, "softmax", called=start + 4 * US)
    return program


def saving(os_call: str | None = "write") -> Program:
    """Each step of 10 ms runs a kernel for 6 ms; for the other 4 ms the CPU saves."""
    program = Program()
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.range(start + US, start + 20 * US, "compute")
        program.range(start + 6 * MS, start + 9_990 * US, "save")
        program.kernel(start + 10 * US, start + 6_010 * US, called=start + 5 * US)
        if os_call is not None:
            program.os_call(start + 6 * MS, start + 9_980 * US, os_call)
    return program


def launches(kernels: int = 2000, *, api: str = "cudaLaunchKernel", graph: int = 0, queued: bool = False) -> Program:
    """Kernels of 4 µs, each 6 µs after the one before: launched when that has ended, or long before."""
    program = Program(process="./app", command="./app", launch_ns=5 * US)
    for number in range(kernels):
        start = 10 * US * number + 100 * MS
        called = 10 * MS + number * 5 * US if queued else start - 6 * US
        program.kernel(start, start + 4 * US, f"kernel_{number % 10}", called=called, api=api, graph=graph)
    return program


def full_queue() -> Program:
    """One copy after the other keeps the GPU busy; launch calls wait for a place in the queue."""
    program = Program(launch_ns=900 * US)
    for number in range(1000):
        start = number * MS
        program.kernel(start, start + 45 * US, "tiny", called=start - 950 * US)
        program.copy(start + 45 * US, start + 995 * US, 1 << 24, CopyKind.DEVICE_TO_DEVICE, called=start - 10 * US)
    return program


def loading(name: str = "poll", *, other_thread_works: bool = False, range_name: str | None = None) -> Program:
    """4 of 10 ms the GPU works; 6 ms the launching thread waits in an operating-system call, or in a range."""
    program = Program()
    other = program.thread("autograd")
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.kernel(start + 10 * US, start + 2 * MS, called=start + 5 * US)
        thread = other if other_thread_works else 0
        program.kernel(start + 2 * MS, start + 4_010 * US, "backward", called=start + 20 * US, thread=thread)
        program.os_call(start + 4 * MS, start + 9_990 * US, name)
        if range_name is not None:
            program.range(start + 4 * MS, start + 9_990 * US, range_name)
    return program


def interpreted(**options: str) -> Program:
    """A kernel of 600 µs, then 300 µs in which the thread runs its own code."""
    program = Program(**options)  # type: ignore[arg-type]
    for number in range(500):
        start = number * 900 * US
        program.kernel(start, start + 600 * US, f"kernel_{number % 5}")
        program.os_call(start + 100 * US, start + 101 * US, "ioctl")
    return program


def in_operators(where: str = "PyTorch") -> Program:
    """As PyTorch's profiler records it: a kernel of 600 µs, then 300 µs of which an operator fills 240, a range of the
    program's own, a CUDA call, or nothing."""
    program = Program(kind="torch", command=None)
    program.range(0, 10 * US, "aten::empty", domain="PyTorch")
    for number in range(500):
        start = number * 900 * US
        program.kernel(start, start + 600 * US, f"kernel_{number % 5}")
        if where in ("PyTorch", "own"):
            program.range(
                start + 630 * US, start + 870 * US, "aten::mm", domain="PyTorch" if where == "PyTorch" else None
            )
        elif where == "call":
            program.range(start + 630 * US, start + 870 * US, "aten::mm", domain="PyTorch")
            program.call(start + 640 * US, start + 860 * US, "cudaFuncGetAttributes")
    return program


def not_keeping_up(own_code: int) -> Program:
    """Each step of 1 ms: ten kernels of 20 µs, each 15 µs after the one before; then ``own_code`` ns of the thread's
    own code with the GPU idle; then the GPU works for all but the last 10 µs."""
    program = Program()
    for step in range(300):
        start = step * MS
        program.os_call(start + US, start + 2 * US, "ioctl")
        for number in range(10):
            begin = start + number * 35 * US
            program.kernel(begin, begin + 20 * US, f"kernel_{number}")
        program.kernel(start + 335 * US + own_code, start + 990 * US, "kernel_10")
    return program


def synchronising(*, queued: bool = False) -> Program:
    """200 µs of work, a wait for it, and 80 µs until the next kernel runs; or with the next kernel queued already."""
    program = Program()
    period = 200 * US if queued else 280 * US
    for number in range(500):
        start = number * period
        program.kernel(start, start + 200 * US, f"kernel_{number % 5}", called=start - (190 if queued else 5) * US)
        program.call(start + 5 * US, start + 205 * US, "cudaStreamSynchronize")
    return program


def fetching(api: str, memory: MemoryKind, *, blocks: bool = True) -> Program:
    """After each kernel a small copy to the computer; the next kernel 80 µs after it."""
    program = Program()
    for number in range(500):
        start = number * 300 * US
        program.kernel(start, start + 200 * US, f"kernel_{number % 5}", called=start - 5 * US)
        program.copy(
            start + 200 * US, start + 205 * US, 65_536, CopyKind.DEVICE_TO_HOST, memory=memory, api=api,
            called=start + 10 * US, returns=start + 215 * US if blocks else start + 12 * US,
        )  # fmt: skip
    return program


def clearing(api: str) -> Program:
    program = busy(gap=3 * MS)
    for step in range(STEPS):
        program.call(step * 10 * MS + 8 * MS, step * 10 * MS + 9 * MS, api)
    return program


def allocating(api: str, *, once: bool = False) -> Program:
    program = busy(gap=2 * MS)
    for step in range(1 if once else STEPS):
        program.call(step * 10 * MS + 8_500 * US, step * 10 * MS + 9_500 * US, api)
    return program


def copying(
    memory: MemoryKind = MemoryKind.PINNED, *, time: int = 2 * MS, size: int = 20_000_000, beside: bool = False
) -> Program:
    """Each step of 10 ms copies to the GPU and then computes, or copies while it computes."""
    program = Program()
    side = program.stream()
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.copy(start + 10 * US, start + 10 * US + time, size, memory=memory, stream=side, called=start + 5 * US)
        first = start + 10 * US + (0 if beside else time)
        program.kernel(first, start + 7 * MS, "gemm", called=start + 7 * US)
        program.kernel(start + 7 * MS, start + 9_990 * US, "softmax", called=start + 9 * US)
    return program


def many_copies(size: int) -> Program:
    program = Program()
    for number in range(1000):
        start = number * 100 * US
        program.kernel(start, start + 90 * US, f"kernel_{number % 4}")
        program.copy(start + 90 * US, start + 97 * US, size)
    return program


def within(time: int) -> Program:
    """9 of 10 ms the GPU works, ``time`` of it on a copy within its memory."""
    program = Program()
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.kernel(start + 10 * US, start + 9 * MS - time, called=start + 2 * US)
        program.copy(start + 9 * MS - time, start + 9 * MS, 1 << 24, CopyKind.DEVICE_TO_DEVICE, called=start + 5 * US)
    return program


def faulting(device: Device) -> Program:
    program = busy(device=device)
    for step in range(STEPS):
        program.fault(step * 10 * MS + MS, step * 10 * MS + 2 * MS)
    return program


def communicating(*, beside: bool = False) -> Program:
    """3 of 10 ms in a collective, alone or beside a kernel."""
    program = Program()
    side = program.stream()
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.kernel(start + 10 * US, start + (9 if beside else 6) * MS, called=start + 2 * US)
        nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        program.kernel(start + 6 * MS, start + 9 * MS, nccl, stream=side, called=start + 5 * US)
    return program


def two_ranks(late: int) -> Program:
    """Two GPUs meet in a collective that ends after 9 of 10 ms; the second comes ``late`` ns after the first."""
    program = Program(gpus=2)
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        for gpu in (0, 1):
            ready = start + 6 * MS + gpu * late
            program.kernel(start + 10 * US, ready, stream=gpu, called=start + 2 * US)
            program.kernel(ready, start + 9 * MS, nccl, stream=gpu, called=start + 5 * US)
    return program


def two_gpus(second: int) -> Program:
    """The first GPU works for 9 of 10 ms, the second for ``second`` ns."""
    program = Program(gpus=2)
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.kernel(start + 10 * US, start + 9_010 * US, stream=0, called=start + 2 * US)
        program.kernel(start + 10 * US, start + 10 * US + second, stream=1, called=start + 5 * US)
    return program


def small_kernels(blocks: int) -> Program:
    program = Program()
    for number in range(400):
        start = number * 100 * US
        program.kernel(start, start + 95 * US, f"kernel_{number % 4}", blocks=blocks)
    return program


def sampled(active: float) -> Program:
    program = busy()
    program.counter("SMs Active", np.arange(0, 200 * MS, MS), np.full(200, active))
    return program


def warming(first: int) -> Program:
    program = Program()
    start = 0
    for step in range(10):
        length = first if step == 0 else 10 * MS
        program.range(start, start + length - US, f"step {step}")
        program.kernel(start + length - 9_900 * US, start + length - 100 * US, called=start + length - 9_950 * US)
        if step == 0:
            program.call(start + US, start + 2 * MS, "cuModuleLoadData")
        start += length
    return program


def as_graphs(*, nodes: bool) -> Program:
    program = Program()
    for step in range(30):
        start = step * 10 * MS
        if nodes:
            program.kernel(start, start + 9 * MS, graph=1, api="cudaGraphLaunch")
        else:
            program.graph(start, start + 9 * MS)
    return program


def unlinked(share: float) -> Program:
    program = Program()
    for number in range(100):
        program.lead = None if number < 100 * share else 3 * US
        program.kernel(number * 100 * US, number * 100 * US + 90 * US, f"kernel_{number % 4}")
    return program


def thirds() -> Program:
    program = Program()
    for number in range(300):
        program.kernel(number * 100 * US, number * 100 * US + 95 * US, f"kernel_{number % 3}")
    return program


CASES: Mapping[str, tuple[Callable[[], Program], Callable[[], Program]]] = {
    "gpu-idle": (saving, busy),
    "launch-bound-timeline": (launches, full_queue),
    "no-cuda-graph": (launches, lambda: launches(graph=1)),
    "input-bound": (loading, lambda: loading(other_thread_works=True)),
    "python-overhead": (interpreted, lambda: interpreted(process="./app", command="./app")),
    "excessive-sync": (synchronising, lambda: synchronising(queued=True)),
    "sync-copies": (
        lambda: fetching("cudaMemcpy", MemoryKind.PINNED),
        lambda: fetching("cudaMemcpyAsync", MemoryKind.PINNED, blocks=False),
    ),
    "sync-memset": (lambda: clearing("cudaMemset"), lambda: clearing("cudaMemsetAsync")),
    "alloc-in-loop": (lambda: allocating("cudaMalloc"), lambda: allocating("cudaMallocAsync")),
    "pageable-copies": (lambda: copying(MemoryKind.PAGEABLE), copying),
    "no-overlap": (copying, lambda: copying(beside=True)),
    "small-copies": (lambda: many_copies(512), lambda: many_copies(1_000_000)),
    "device-copies": (lambda: within(2 * MS), lambda: within(500 * US)),
    "page-faults": (
        lambda: faulting(Device("NVIDIA H100 PCIe", (9, 0), 114)),
        lambda: faulting(Device("NVIDIA GH200 480GB", (9, 0), 132)),
    ),
    "exposed-communication": (communicating, lambda: communicating(beside=True)),
    "straggler": (lambda: two_ranks(2 * MS), lambda: two_ranks(100 * US)),
    "device-imbalance": (lambda: two_gpus(4 * MS), lambda: two_gpus(8 * MS)),
    "one-kernel-dominates": (busy, thirds),
    "single-stream": (lambda: small_kernels(8), lambda: small_kernels(1024)),
    "low-sm-active": (lambda: sampled(20.0), lambda: sampled(90.0)),
    "warm-up": (lambda: warming(100 * MS), lambda: warming(10 * MS)),
    "graph-trace-hides": (lambda: as_graphs(nodes=False), lambda: as_graphs(nodes=True)),
    "dropped-events": (lambda: unlinked(0.5), lambda: unlinked(0.0)),
}
"""Per finding a program that has it, and one that must not."""


def test_every_rule_has_a_program_that_has_it_and_one_that_has_not() -> None:
    assert CASES.keys() == all_timeline_rules().keys()
    assert {need for rule in all_timeline_rules().values() for one in rule.needs for need in one.split("|")} <= set(
        NEEDS
    )


@pytest.mark.parametrize("id", CASES)
def test_a_program_that_has_it_is_told_so(id: str) -> None:
    diagnosis = diagnosed(CASES[id][0]())
    finding = found(diagnosis, id)
    assert 0 < finding.confidence <= 1
    assert finding.max_speedup is None or finding.max_speedup >= 1
    assert finding.evidence


@pytest.mark.parametrize("id", CASES)
def test_a_program_that_has_not_is_not_told_so(id: str) -> None:
    assert id not in ids(diagnosed(CASES[id][1]()))


# ------------------------------------------------------------------ words


def assert_well_filled(text: str) -> None:
    assert text.strip() == text != ""
    assert not re.search(r"None\b|\bnan\b|\binf\b|\{|\}", text), text
    assert DASH not in text, text
    assert '""' not in text
    assert "「」" not in text


VARIANTS: Mapping[str, Callable[[], Program]] = {
    "idle: code in a range": lambda: saving(None),
    "idle: several GPUs": lambda: two_gpus(7 * MS),
    "idle: no calls": lambda: _without_calls(),
    "idle: code of a range between others": lambda: loading("write", range_name="save"),
    "launches: queued": lambda: launches(queued=True),
    "launches: the CPU does not keep up": lambda: not_keeping_up(110 * US),
    "python: PyTorch's operators": lambda: in_operators(),
    "input: reading in a range": lambda: loading(range_name="next_batch"),
    "input: waiting for another thread": lambda: loading("pthread_cond_wait"),
    "pageable: harmless": lambda: copying(MemoryKind.PAGEABLE, time=10 * US, size=1000),
    "pageable and blocking": lambda: fetching("cudaMemcpyAsync", MemoryKind.PAGEABLE),
    "one rank in turns": lambda: _in_turns(),
    "kernels hidden": lambda: as_graphs(nodes=False),
    "no ops": lambda: Program(),
    "few ops": lambda: _few(),
    "copies alone": lambda: _only_copies(),
    "one kernel": lambda: _launched(1),
}


def _without_calls() -> Program:
    program = busy(gap=4 * MS, kind="torch")
    for row in program._rows["ops"]:
        row["call"] = None
    return program


def _in_turns() -> Program:
    program = Program(gpus=2)
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        for gpu in (0, 1):
            ready = start + 6 * MS + (2 * MS if gpu == step % 2 else 0)
            program.kernel(start + 10 * US, ready, stream=gpu, called=start + 2 * US)
            program.kernel(ready, start + 9 * MS, nccl, stream=gpu, called=start + 5 * US)
    return program


def _few() -> Program:
    program = Program()
    program.kernel(100 * US, 200 * US)
    return program


def _only_copies() -> Program:
    program = Program()
    for number in range(50):
        program.copy(number * MS, number * MS + 990 * US, 1 << 20)
    return program


def _launched(times: int) -> Program:
    """Many copies that wait for one another, and one kernel launched ``times`` times among them."""
    program = Program()
    for number in range(50):
        program.copy(number * MS, number * MS + 10 * US, 1 << 20)
    for number in range(times):
        program.kernel((40 + number) * MS + 20 * US, (40 + number) * MS + 30 * US)
    return program


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [*CASES, *VARIANTS])
def test_every_word_is_filled(name: str, language: str) -> None:
    words = wording(language)
    programs = CASES[name] if name in CASES else (VARIANTS[name],)
    for program in programs:
        diagnosis = diagnosed(program())
        assert_well_filled(words.timeline_verdict(diagnosis.verdict))
        for finding in diagnosis.findings:
            text = words.finding(finding)
            told = (text.title, text.why, text.analogy, text.verify)
            for one in (*told, *(action for level in READER_LEVELS for action in text.actions[level])):
                assert_well_filled(one)
            assert_well_filled(words.finding_name(finding.id))
        for one in diagnosis.not_checked:
            assert_well_filled(words.text(f"timeline.family.{one.family}"))
            for need in one.needs:
                assert_well_filled(words.text(f"timeline.need.{need}"))


def texts(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for child in node.values():
            yield from texts(child)
    elif isinstance(node, Sequence):
        for child in node:
            yield from texts(child)


def asked(node: object) -> set[str]:
    """The parameters that these texts name."""
    return {name for text in texts(node) for _, name, _, _ in string.Formatter().parse(text) if name}


def table(language: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("gputui.data").joinpath("wording", f"{language}.toml").read_text("utf-8"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("id", CASES)
def test_no_form_of_a_text_asks_for_what_the_finding_does_not_give(id: str, language: str) -> None:
    finding = found(diagnosed(CASES[id][0]()), id)
    assert asked(table(language)["finding"][id]) <= finding.params.keys()


def test_every_finding_that_may_lead_has_its_sentence_and_gives_what_that_asks_for() -> None:
    always = diagnosed(busy()).verdict.params.keys()
    told = {id: found(diagnosed(programs[0]()), id) for id, programs in CASES.items()}
    for language in LANGUAGES:
        rows = table(language)["timeline"]["verdict"]
        for id, finding in told.items():
            if (
                finding.family != "validity"
                and not finding.option
                and finding.max_speedup
                and finding.confidence >= 0.5
            ):
                assert asked(rows[id]) <= {*always, *finding.params}, id
        for id in rows.keys() - told.keys():
            assert asked(rows[id]) <= {*always, "ranges"}, id


# ------------------------------------------------------------------ numbers


def test_the_idle_time_is_told_with_place_and_reason() -> None:
    diagnosis = diagnosed(saving())
    finding = found(diagnosis, "gpu-idle")
    # 4 of 10 ms, but for the 10 µs at the ends of the window.
    assert finding.params["idle_pct"] == pytest.approx(40, abs=0.1)
    assert finding.max_speedup == pytest.approx(1 / 0.6, rel=0.005)
    assert finding.severity == "high"
    assert (finding.params["before"], finding.params["after"]) == ("", "")
    assert finding.params["range"] == "save"
    assert finding.params["range_pct"] == pytest.approx(99.5, abs=0.5)
    assert finding.params["os"] == "write"
    assert finding.params["os_pct"] == pytest.approx(99.5, abs=0.6)
    assert finding.variant.endswith("range-os")
    moment = finding.moment
    assert moment is not None
    assert moment.end_ns - moment.start_ns == 4 * MS
    assert (moment.gpu, moment.stream, moment.thread) == (0, 0, 0)
    assert diagnosis.verdict.id == "gpu-idle"
    assert diagnosis.main[0] is finding


def test_the_ranges_on_both_sides_of_a_gap_are_named() -> None:
    program = Program()
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        program.range(start + US, start + 100 * US, "forward")
        program.kernel(start + 10 * US, start + 3 * MS, called=start + 5 * US)
        program.range(start + 5 * MS, start + 5_100 * US, f"backward {step}")
        program.kernel(start + 6 * MS, start + 10_010 * US, called=start + 5_050 * US)
    finding = found(diagnosed(program), "gpu-idle")
    assert finding.variant.split("+")[0] == "loop-parted-once"
    title = wording("en").finding(finding).title
    assert title == 'Once a step, between "forward" and "backward #", the GPU has nothing to do: 30 % of the loop'


def test_what_the_profiler_itself_does_in_a_gap_is_not_counted() -> None:
    plain, disturbed = saving(), saving()
    for step in range(STEPS):
        disturbed.overhead(step * 10 * MS + 7 * MS, step * 10 * MS + 9 * MS)
    states = [SteadyState(one.facts()) for one in (plain, disturbed)]
    assert states[0].idle(0) - states[1].idle(0) == STEPS * 2 * MS
    assert states[0].length(0) - states[1].length(0) == STEPS * 2 * MS


def test_overhead_of_a_thread_that_launches_nothing_takes_nothing_from_a_gap() -> None:
    program = saving()
    other = program.thread("CUPTI")
    for step in range(STEPS):
        program.overhead(step * 10 * MS + 7 * MS, step * 10 * MS + 9 * MS, other)
    assert SteadyState(program.facts()).idle(0) == SteadyState(saving().facts()).idle(0)


def test_launch_calls_that_wait_for_a_full_queue_do_not_hold_the_gpu_up() -> None:
    diagnosis = diagnosed(full_queue())
    calls = diagnosis.facts.timeline.calls
    kernels = diagnosis.facts.kernels[0]
    assert calls.duration.sum() > 900 * MS > 10 * kernels.total_ns
    assert not ids(diagnosis) & {"launch-bound-timeline", "gpu-idle", "python-overhead"}


def test_tiny_kernels_are_held_up_by_launches() -> None:
    diagnosis = diagnosed(launches())
    finding = found(diagnosis, "launch-bound-timeline")
    assert finding.params["typical"] == 4 * US
    assert finding.params["gap"] == 6 * US
    assert finding.params["share_pct"] == pytest.approx(60, abs=0.5)
    assert finding.max_speedup == pytest.approx(2.5, rel=0.02)
    assert finding.variant == "cpu"
    assert diagnosis.explained["gpu-idle"] == "launch-bound-timeline"
    assert diagnosis.verdict.id == "launch-bound-timeline"
    graph = found(diagnosis, "no-cuda-graph")
    assert graph.option
    assert graph.params["kernels"] == 10
    assert graph in diagnosis.further


def test_the_cpus_own_code_between_launches_is_counted_with_them() -> None:
    """Of 1 ms 145 µs are gaps between launches and 110 µs are the CPU's own code: one finding tells of both."""
    diagnosis = diagnosed(not_keeping_up(110 * US))
    finding = found(diagnosis, "launch-bound-timeline")
    assert finding.params["share_pct"] == pytest.approx(25.5, abs=0.1)
    assert finding.max_speedup == pytest.approx(1 / (1 - 0.255), rel=0.005)
    assert diagnosis.explained["python-overhead"] == "launch-bound-timeline"
    assert finding.variant == "cpu+longer"
    assert "does not launch fast enough" in wording("en").timeline_verdict(diagnosis.verdict)


def test_code_that_takes_longer_than_launches_is_told_apart() -> None:
    diagnosis = diagnosed(not_keeping_up(300 * US))
    launch, code = (found(diagnosis, id) for id in ("launch-bound-timeline", "python-overhead"))
    for finding in (launch, code):
        assert finding.max_speedup == pytest.approx(1 / (1 - finding.params["share_pct"] / 100), rel=0.01)
    assert launch.params["share_pct"] == pytest.approx(14.5, abs=0.1)
    assert code.params["share_pct"] == pytest.approx(30, abs=0.1)
    assert "python-overhead" not in diagnosis.explained
    # One launch of all spares both.
    assert found(diagnosis, "no-cuda-graph").params["share_pct"] == pytest.approx(44.5, abs=0.1)


def test_pytorchs_operators_in_a_gap_are_the_programs_own_code() -> None:
    diagnosis = diagnosed(in_operators())
    finding = found(diagnosis, "python-overhead")
    assert finding.params["share_pct"] == pytest.approx(100 / 3, abs=0.2)
    assert finding.params["operators_pct"] == pytest.approx(80, abs=0.5)
    assert finding.variant.startswith("operators")
    assert diagnosis.main[0] is finding
    assert "record_shapes" in wording("en").finding(finding).verify
    between = found(diagnosed(in_operators("own")), "python-overhead")
    assert between.params["operators_pct"] == pytest.approx(0, abs=0.1)
    assert between.confidence < finding.confidence
    for where in ("call", "nothing"):
        assert "python-overhead" not in ids(diagnosed(in_operators(where)))


def test_one_rank_alone_may_be_waiting_for_another_one() -> None:
    alone, both = found(diagnosed(communicating()), "exposed-communication"), diagnosed(two_ranks(100 * US))
    assert alone.variant == "alone"
    assert alone.confidence <= 0.5
    for level in READER_LEVELS:
        assert "gputui open rank*.sqlite" in wording("en").finding(alone).actions[level][0]
    assert found(both, "exposed-communication").variant == ""


def test_the_sentence_tells_the_busy_share_of_the_gpu_that_it_names() -> None:
    """The second GPU is less busy; the first one copies more within its memory."""
    program = Program(gpus=2)
    for step in range(STEPS):
        start = step * 10 * MS
        program.range(start, start + 9_999 * US, f"step {step}")
        for gpu, first, last in ((0, 6_000 * US, 9_900 * US), (1, 6_400 * US, 8_900 * US)):
            program.kernel(start + 10 * US, start + first, stream=gpu, called=start + 2 * US)
            program.copy(
                start + first, start + last, 1 << 24, CopyKind.DEVICE_TO_DEVICE, stream=gpu, called=start + 5 * US
            )
    diagnosis = diagnosed(program)
    assert diagnosis.verdict.id == "device-copies"
    assert diagnosis.verdict.params["gpu"] == "0"
    assert diagnosis.verdict.params["busy_pct"] == pytest.approx(100 * diagnosis.facts.busy_share(0), abs=0.01)
    assert diagnosis.facts.busy_share(0) > diagnosis.facts.busy_share(1) + 0.05


FUSED = "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float>>"
FOREACH = "multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor<float>>"


@pytest.mark.parametrize(("name", "is_fused"), [(FUSED, True), (FOREACH, False), ("gemm", False)])
def test_no_advice_is_given_for_what_is_done_already(name: str, is_fused: bool) -> None:
    program = launches()
    program.kernel(90 * MS, 91 * MS, name)
    diagnosis = diagnosed(program)
    assert ("fused-optimizer" in diagnosis.tags) == is_fused
    text = wording("en").finding(found(diagnosis, "launch-bound-timeline"), diagnosis.tags)
    assert any("fused=True" in action for action in text.actions["pytorch"]) != is_fused


@pytest.mark.parametrize("memory", [MemoryKind.PINNED, MemoryKind.PAGEABLE])
def test_pinned_memory_is_not_advised_where_it_is_used(memory: MemoryKind) -> None:
    assert ("pinned" in diagnosed(copying(memory)).tags) == (memory == MemoryKind.PINNED)


def test_operations_queued_before_the_gap_are_the_gpus_own_pace() -> None:
    assert found(diagnosed(launches(queued=True)), "launch-bound-timeline").variant == "queued"


def test_waiting_for_data_explains_the_idle_time() -> None:
    diagnosis = diagnosed(loading())
    finding = found(diagnosis, "input-bound")
    assert finding.params["share_pct"] == pytest.approx(60, abs=0.2)
    assert finding.max_speedup == pytest.approx(2.5, rel=0.01)
    assert finding.variant == "reading"
    assert diagnosis.explained == {"gpu-idle": "input-bound"}
    assert found(diagnosed(loading(range_name="next_batch")), "input-bound").variant == "range"
    surest = [found(diagnosed(one), "input-bound").confidence for one in (
        loading(range_name="next_batch"), loading(), loading("pthread_cond_wait"))]  # fmt: skip
    assert surest == sorted(surest, reverse=True)


def test_writing_is_not_waiting_for_data() -> None:
    assert "input-bound" not in ids(diagnosed(loading("write")))


def test_samples_make_python_overhead_surer() -> None:
    plain, seen = interpreted(), interpreted()
    for number in range(500):
        for time in range(600, 900, 50):
            seen.sample(number * 900 * US + time * US)
    first, second = (found(diagnosed(one), "python-overhead") for one in (plain, seen))
    assert first.params["share_pct"] == pytest.approx(100 / 3, abs=0.2)
    assert second.confidence > first.confidence


def test_waits_for_the_gpu_cost_what_it_idles_after_them() -> None:
    finding = found(diagnosed(synchronising()), "excessive-sync")
    assert finding.params["share_pct"] == pytest.approx(100 * 80 / 280, abs=0.3)
    assert finding.max_speedup == pytest.approx(280 / 200, rel=0.01)


def test_a_copy_from_pageable_memory_blocks_whatever_its_name_says() -> None:
    assert "sync-copies" in ids(diagnosed(fetching("cudaMemcpyAsync", MemoryKind.PAGEABLE)))


def test_small_pageable_copies_are_harmless() -> None:
    diagnosis = diagnosed(copying(MemoryKind.PAGEABLE, time=10 * US, size=1000))
    finding = found(diagnosis, "pageable-copies")
    assert finding.variant == "harmless"
    assert finding.severity == "info"
    assert finding.params["count"] == STEPS
    assert finding not in diagnosis.main


def test_large_pageable_copies_cost_their_time() -> None:
    finding = found(diagnosed(copying(MemoryKind.PAGEABLE)), "pageable-copies")
    assert finding.variant == ""
    assert finding.params["share_pct"] == pytest.approx(20, abs=0.2)
    assert finding.params["rate"] == pytest.approx(20_000_000 / 2e-3)
    assert finding.max_speedup == pytest.approx(1.25, rel=0.01)


def test_copies_that_hide_behind_kernels_gain_the_shorter_of_the_two() -> None:
    finding = found(diagnosed(copying()), "no-overlap")
    assert finding.params["copies_pct"] == pytest.approx(20, abs=0.2)
    assert finding.params["both_pct"] == 0
    assert finding.max_speedup == pytest.approx(1.25, rel=0.01)


def test_waiting_in_a_collective_is_its_time_beyond_the_last_gpus() -> None:
    diagnosis = diagnosed(two_ranks(2 * MS))
    finding = found(diagnosis, "straggler")
    assert (finding.params["gpu"], finding.params["late"]) == ("0", "1")
    assert finding.params["wait"] == STEPS * 2 * MS
    assert finding.params["last_pct"] == 100
    assert finding.max_speedup == pytest.approx(1.25, rel=0.01)
    assert diagnosis.explained["exposed-communication"] == "straggler"


def test_no_gpu_is_always_last_where_they_take_turns() -> None:
    assert found(diagnosed(_in_turns()), "straggler").variant == "turns"


def test_the_bound_of_uneven_work_spreads_it_evenly() -> None:
    finding = found(diagnosed(two_gpus(4 * MS)), "device-imbalance")
    # 9 and 4 of 10 ms: 6.5 each, so 2.5 of 10 ms go.
    assert finding.max_speedup == pytest.approx(1 / 0.75, rel=0.01)


def test_no_gpu_gets_faster_than_the_busiest_one_is_busy() -> None:
    """The idle time of one GPU is no gain while another has work all the time."""
    diagnosis = diagnosed(two_gpus(4 * MS))
    finding = found(diagnosis, "gpu-idle")
    assert finding.params["gpu"] == "1"
    assert finding.params["idle_pct"] == pytest.approx(60, abs=0.3)
    assert finding.max_speedup == pytest.approx(1 / 0.9, rel=0.01)


def test_the_warm_up_is_left_out() -> None:
    diagnosis = diagnosed(warming(100 * MS))
    finding = found(diagnosis, "warm-up")
    assert finding.params["steps"] == 1
    assert finding.params["ratio"] == pytest.approx(10)
    assert finding.variant == "loads"
    assert diagnosis.facts.window.start_ns == 100 * MS
    assert finding in diagnosis.validity


def test_what_the_profiler_says_of_lost_events_is_told() -> None:
    notice = Notice("dropped-events", {"count": 3, "text": "Some events were dropped."})
    finding = found(diagnosed(busy(), notice), "dropped-events")
    assert "Some events were dropped." in wording("en").finding(finding).why


def test_a_capture_without_operating_system_calls_says_what_was_not_checked() -> None:
    program = interpreted()
    del program._rows["os_calls"]
    missing = {one.id: one for one in diagnosed(program).not_checked}
    assert missing["python-overhead"].needs == ("os-calls",)
    assert missing["python-overhead"].sections == ("--trace=cuda,nvtx,osrt",)
    program.kind = "torch"
    missing = {one.id: one for one in diagnosed(program).not_checked}
    assert missing["python-overhead"].sections == ()
    assert not missing["python-overhead"].available


def test_a_single_launch_has_no_steady_state() -> None:
    diagnosis = diagnosed(_few())
    assert diagnosis.verdict.id == "few"
    assert not diagnosis.findings
    assert "gpu-idle" in {one.id for one in diagnosis.not_checked}


@pytest.mark.parametrize(("times", "is_loop"), [(1, False), (2, False), (3, True), (8, True)])
def test_copies_around_a_kernel_launched_once_are_no_loop_that_waits(times: int, is_loop: bool) -> None:
    diagnosis = diagnosed(_launched(times))
    found, unchecked = ({one.id for one in part} for part in (diagnosis.findings, diagnosis.not_checked))
    assert ("gpu-idle" in found, "gpu-idle" in unchecked) == (is_loop, not is_loop)
    if not is_loop:
        assert (diagnosis.verdict.id, diagnosis.verdict.variant) == ("few", "once")


def test_no_gpu_work_says_so() -> None:
    diagnosis = diagnosed(Program())
    assert diagnosis.verdict.id == "no-gpu"
    assert diagnosis.findings == diagnosis.not_checked == diagnosis.kernels == ()


def test_a_busy_gpu_needs_faster_kernels() -> None:
    diagnosis = diagnosed(busy())
    assert diagnosis.verdict.id == "busy"
    assert diagnosis.verdict.params["kernel"] == "gemm"
    assert not diagnosis.main or diagnosis.main[0].id == "one-kernel-dominates"


@pytest.mark.parametrize("name", CASES)
def test_no_bound_of_waiting_goes_beyond_the_busy_time(name: str) -> None:
    """Without any waiting at all the window takes as long as its busiest GPU is busy."""
    for program in CASES[name]:
        diagnosis = diagnosed(program())
        facts = diagnosis.facts
        if not facts.gpus:
            continue
        bound = 1 / max(facts.busy_share(gpu) for gpu in facts.gpus)
        for finding in diagnosis.findings:
            if finding.family in ("idle", "waiting") and finding.max_speedup is not None:
                assert finding.max_speedup <= bound * 1.001, finding.id


def test_copies_whose_sizes_are_not_in_the_file_get_no_bytes_and_no_rate() -> None:
    finding = found(diagnosed(copying(MemoryKind.PAGEABLE, size=-1)), "pageable-copies")
    assert finding.variant == "unsized"
    assert (finding.params["bytes"], finding.params["rate"]) == (None, None)
    assert "–" not in wording("en").finding(finding).why
    assert "small-copies" not in ids(diagnosed(many_copies(-1)))
