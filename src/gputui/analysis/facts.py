"""What the rules share about one kernel, worked out once: the units' busy times, the verdict's inputs, the guards.

Names as in the knowledge that the rules stand on: SM is the compute throughput, MEM* the largest of the memory
throughputs, TEN the tensor pipe's busy share of a kernel that really does tensor operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from gputui.analysis.finding import Evidence, Level
from gputui.analysis.kernel_names import KernelIdentity, confirm, identify, is_tensor_opcode
from gputui.analysis.neighbours import Launches, Neighbours
from gputui.model.kernel import Kernel
from gputui.model.report import Session

if TYPE_CHECKING:
    from gputui.analysis.roofline import Roofline

SM_BREAKDOWN = "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_BREAKDOWN = "breakdown:gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"

OPCODES = "sass__inst_executed_per_opcode"
OPCODES_WITH_MODIFIERS = "sass__inst_executed_per_opcode_with_modifier_all"

TENSOR_PRECISIONS = ("bf16", "fp16", "tf32", "fp8", "fp4", "int8", "int4", "fp64")
_TENSOR_COUNTS = tuple(f"tensor_ops_{precision}" for precision in TENSOR_PRECISIONS)

WARP_GROUP_MMA = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")
"""Hopper's matrix instructions for four warps at a time (wgmma)."""

_DIVIDED_L2 = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})
"""GA100, GH100, GB100, GB110: the counters ``lts__…ltcfabric`` exist on these alone."""

_DATA_MOVING_UNITS = ("sm__inst_executed_pipe_lsu", "sm__mio", "idc__", "l1tex__")
"""Parts of the SM throughput that are loads and stores: a kernel held by them is not held by arithmetic."""

EMPTY_KERNEL_NS = 1000.0
"""About the least that ncu measures for any kernel (0.9 to 2 µs in public reports)."""

_RULING_PCT = 60.0
"""A part this busy holds the kernel, whatever happens elsewhere: the verdict's own line."""

_LEVEL_OF_PREFIX: Mapping[str, Level] = {
    "dram__": "dram",
    "fbpa__": "dram",
    "lts__": "l2",
    "ltc__": "l2",
    "syslts__": "l2",
    "l1tex__": "l1",
}


def breakdown_parts(kernel: Kernel, breakdown: str) -> tuple[str, ...]:
    """The metrics that a throughput is the largest of, by name, as the report lists them."""
    metric = kernel.metric(breakdown)
    if metric is None or not isinstance(metric.value, str):
        return ()
    return tuple(name.strip() for name in metric.value.split(",") if name.strip())


class Facts:
    """One kernel's numbers.

    ``launches`` counts the report's launches of the same function with the same shape; ``session`` is how the report
    was collected, as far as it tells; ``neighbours`` are the report's other launches, seen from this one.
    """

    def __init__(
        self,
        kernel: Kernel,
        launches: int = 1,
        session: Session | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.kernel = kernel
        self.device = kernel.device
        self.launches = launches
        self.session = session or Session()
        self.neighbours = neighbours or Launches([kernel], self.session).of(kernel)

    def number(self, concept: str) -> float | None:
        """The concept's value; a negative one is damage and counts as not told."""
        value = self.kernel.number(concept)
        return None if value is None or value < 0 else value

    def evidence(self, concepts: str, threshold: float | None = None) -> Evidence:
        """The concept's value as evidence; of ``"a|b"`` the first that is there, and one must be."""
        value = next(value for value in map(self.kernel.value, concepts.split("|")) if value is not None)
        return Evidence(value.metric, value.value, value.unit, threshold)

    @cached_property
    def identity(self) -> KernelIdentity:
        """What the name says, once the instructions that the report counts have confirmed it."""
        named = identify(self.kernel.name, self.kernel.demangled)
        if not self.opcodes:
            return named
        modified = self.kernel.metric(OPCODES_WITH_MODIFIERS)
        return confirm(named, self.opcodes, (modified.instances if modified else None) or {}, self.tensor)

    @cached_property
    def roofline(self) -> Roofline:
        """Where the kernel stands against the roofs."""
        from gputui.analysis.roofline import roofline_of

        return roofline_of(self)

    @cached_property
    def sm_count(self) -> int | None:
        """SMs that the launch could use: fewer than the device's under MIG or a green context."""
        count = self.number("sm_count")
        return int(count) if count else self.device.sm_count

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Percent of the elapsed time that each part of the GPU was busy, by metric name.

        The parts of NVIDIA's two throughput breakdowns, but for those that sum up others (``gpu__…``); where the report
        has none, the throughputs themselves.
        """
        parts: dict[str, float] = {}
        for breakdown in (SM_BREAKDOWN, MEMORY_BREAKDOWN):
            for name in breakdown_parts(self.kernel, breakdown):
                metric = self.kernel.metric(name)
                if metric is not None and metric.number is not None and not name.startswith("gpu__"):
                    parts[name] = metric.number
        l1 = self.number("l1_elapsed_pct") or 0.0
        largest = max((pct for name, pct in parts.items() if name.startswith("l1tex__")), default=0.0)
        if largest and 1.9 <= l1 / largest <= 2.1:
            # From Turing to Ada the listed parts of L1 are in half of its throughput's percent.
            parts.update({name: 2 * pct for name, pct in parts.items() if name.startswith("l1tex__")})
        if not parts:
            for concept in ("sm_pct", "dram_pct", "l2_pct", "l1_elapsed_pct", "memory_pct"):
                value = self.kernel.value(concept)
                if value is not None and not (concept == "memory_pct" and len(parts) > 1):
                    parts[value.metric] = value.value
        return parts

    def bound(self, factor: Callable[[str], float]) -> float | None:
        """The most a kernel can gain when each part's busy time shrinks to ``factor(metric name)`` of itself.

        The time now over the largest busy time that remains; ``None`` where no part's time is known. Where a part
        holds the kernel and keeps its work there is nothing to gain: padding away the bank conflicts of a transpose at
        86 % of DRAM made it 1 % faster.
        """
        if not self.busy:
            return None
        now = max(self.busy.values())
        remaining = max(percent * factor(name) for name, percent in self.busy.items())
        if now >= _RULING_PCT and remaining >= 0.98 * now:
            return 1.0
        return max(1.0, 100 / remaining) if remaining > 0 else None

    def relief(self, factor: Callable[[str], float]) -> float:
        """How much less busy the busiest part gets when each part's busy time shrinks to ``factor`` of itself."""
        remaining = max((percent * factor(name) for name, percent in self.busy.items()), default=0.0)
        return max(self.busy.values()) / remaining if remaining > 0 else 1.0

    @cached_property
    def sm(self) -> float | None:
        return self.number("sm_pct")

    @cached_property
    def levels(self) -> Mapping[Level, float]:
        """Busy percent by memory level, elapsed; L1 from its own throughput or else its parts of the breakdown."""
        found: dict[Level, float] = {}
        for level, concept in (("dram", "dram_pct"), ("l2", "l2_pct"), ("l1", "l1_elapsed_pct")):
            value = self.number(concept)
            if value is not None:
                found[level] = value  # type: ignore[index]
        if self.dram_is_at_least:
            found["dram"] = self.number("dram_read_pct") or self.number("dram_write_pct") or 0.0
        for name in breakdown_parts(self.kernel, MEMORY_BREAKDOWN):
            level_of_part = _level_of(name)
            if level_of_part is not None and name in self.busy:
                found[level_of_part] = max(found.get(level_of_part, 0.0), self.busy[name])
        return found

    @cached_property
    def dram_is_at_least(self) -> bool:
        """Whether the report tells one direction alone of DRAM's use: the whole is that or more."""
        ways = (self.number("dram_read_pct"), self.number("dram_write_pct"))
        return self.number("dram_pct") is None and any(way is not None for way in ways)

    @cached_property
    def memory(self) -> float | None:
        """MEM*: the largest of the memory throughput and its levels."""
        values = [*self.levels.values()]
        whole = self.number("memory_pct")
        if whole is not None:
            values.append(whole)
        return max(values, default=None)

    @cached_property
    def level(self) -> Level | None:
        """The busiest memory level.

        On GPUs with a divided L2 its throughput holds parts that only pass DRAM's bytes on (a plain copy on an H200:
        L2 93 %, DRAM 86 %, no listed part of L2 over 57 %): there DRAM leads unless a listed part of L2 is busier.
        Where the report lists no parts (CSV), DRAM leads on such GPUs from 75 %, where it limits kernels.
        """
        busiest = max(self.levels, key=lambda level: self.levels[level], default=None)
        dram = self.levels.get("dram", 0.0)
        if busiest != "l2" or dram < 40:
            return busiest
        if self._listed_l2 is None:
            divided = self.device.compute_capability in _DIVIDED_L2
            return "dram" if divided and dram >= 75 else "l2"
        return "dram" if self._listed_l2 < dram else "l2"

    @cached_property
    def _listed_l2(self) -> float | None:
        """The busiest part of L2 in the memory breakdown."""
        parts = (name for name in breakdown_parts(self.kernel, MEMORY_BREAKDOWN) if name.startswith(("lts__", "ltc__")))
        return max((self.busy[name] for name in parts if name in self.busy), default=None)

    @cached_property
    def leading_level(self) -> Level | None:
        """The busiest level where it is at least 40 % busy, half as busy again as the next one, and nothing else is
        busier."""
        ranked = sorted(self.levels.values(), reverse=True)
        if not ranked or ranked[0] < 40 or (len(ranked) > 1 and ranked[0] < 1.5 * ranked[1]):
            return None
        if ranked[0] < max(self.sm or 0.0, self.tensor or 0.0):
            return None
        return self.level

    @cached_property
    def opcodes(self) -> Mapping[str, float]:
        """Warp instructions executed by base opcode (``"LDG"``, ``"HMMA"``); empty where the report does not tell."""
        metric = self.kernel.metric(OPCODES)
        return (metric.instances if metric is not None else None) or {}

    def opcode_count(self, *opcodes: str) -> float:
        """Warp instructions executed of these base opcodes together."""
        return sum(self.opcodes.get(opcode, 0.0) for opcode in opcodes)

    @cached_property
    def does_tensor(self) -> bool | None:
        """Whether the kernel does tensor operations at all; ``None`` where the report cannot tell.

        On Ampere and Hopper plain kernels show up to 3 % of tensor pipe use, because constants are moved through it:
        so counted operations decide, then the opcodes executed, then the Hopper pipe that leaves such moves out, then
        5 %. Counts of 0 decide nothing by themselves: a report may count other precisions than the kernel's.
        """
        known = [count for count in map(self.number, _TENSOR_COUNTS) if count is not None]
        if sum(known) > 0:
            return True
        if self.opcodes:
            return any(is_tensor_opcode(opcode) and count for opcode, count in self.opcodes.items())
        typed = self.number("tensor_type_pct")
        if typed is not None:
            return typed >= 5 if known else typed > 0
        use = self.number("tensor_pct")
        if use is not None:
            return use >= 5
        return False if known else None

    @cached_property
    def tensor(self) -> float | None:
        """TEN in percent: 0 where no tensor operation is done, ``None`` where the report cannot tell."""
        if self.does_tensor is None:
            return None
        if not self.does_tensor:
            return 0.0
        return max((use for use in map(self.number, ("tensor_pct", "tensor_tc_pct")) if use is not None), default=None)

    @cached_property
    def busiest(self) -> float | None:
        """max(SM, MEM*, TEN): what latency and occupancy advice can gain at most is 100 over this."""
        return max((value for value in (self.sm, self.memory, self.tensor) if value is not None), default=None)

    @property
    def latency_bound_gain(self) -> float | None:
        return None if not self.busiest else max(1.0, 100 / self.busiest)

    @cached_property
    def most_gain(self) -> float:
        """However little it has to do, a kernel takes as long as an empty one."""
        duration = self.kernel.duration_ns
        return math.inf if duration is None else max(1.0, duration / EMPTY_KERNEL_NS)

    @cached_property
    def top_sm_part(self) -> str | None:
        """The busiest part of the SM throughput, by metric name.

        But for the entrance that the tensor, FP64 and FP16 pipes share on GH100: the pipe behind it says more.
        """
        parts = [
            name
            for name in breakdown_parts(self.kernel, SM_BREAKDOWN)
            if name in self.busy and not name.startswith("sm__pipe_shared")
        ]
        return max(parts, key=lambda name: self.busy[name], default=None)

    @cached_property
    def moves_data(self) -> bool:
        """Whether the busiest part of the SM is loading, storing or fetching constants rather than computing."""
        return self.top_sm_part is not None and self.top_sm_part.startswith(_DATA_MOVING_UNITS)

    @cached_property
    def alu_is_as_busy_as_fp64(self) -> bool:
        """Whether the integer and logic pipe is as busy as the double-precision one.

        FP64 instructions keep it waiting on the GPUs slow at them, but not longer than their own pipe: some of what it
        does may be its own work.
        """
        use = self.number("pipe_fp64_pct")
        alu = [
            pct for name, pct in self.busy.items() if name.startswith(("sm__pipe_alu", "sm__inst_executed_pipe_alu"))
        ]
        return use is not None and max(alu, default=0.0) >= use

    @cached_property
    def issue(self) -> float | None:
        """Share of cycles in which a scheduler issues an instruction, 0-1."""
        return self.number("issue_active")

    @cached_property
    def starved(self) -> bool:
        """Whether schedulers lack ready warps: under 0.6 issues a cycle and under one eligible warp."""
        eligible = self.number("eligible_warps")
        return self.issue is not None and self.issue < 0.6 and (eligible is None or eligible < 1)

    @cached_property
    def fed(self) -> bool:
        """Whether the schedulers of the SMs at work have what they can issue: then more warps add nothing, however
        little the GPU does on average (SMs that stand idle for want of blocks)."""
        eligible = self.number("eligible_warps")
        return self.issue is not None and self.issue >= 0.6 and eligible is not None and eligible >= 1

    def stall_share(self, reason: str) -> float | None:
        """Share (0-1) of a warp's time between two instructions that it waits for this reason."""
        stall, latency = self.number(f"stall_{reason}"), self.number("warp_latency")
        return None if stall is None or not latency else stall / latency

    @cached_property
    def is_matrix_product(self) -> bool:
        return self.identity.op_class in ("gemm", "conv", "attention")

    @cached_property
    def is_short(self) -> bool:
        """Under 5 µs: about what starting a kernel costs, and too short for steady percentages."""
        duration = self.kernel.duration_ns
        return duration is not None and duration < 5000


def _level_of(name: str) -> Level | None:
    return next((level for prefix, level in _LEVEL_OF_PREFIX.items() if name.startswith(prefix)), None)
