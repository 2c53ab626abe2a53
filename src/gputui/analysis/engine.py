"""The diagnosis of one kernel: verdict, findings in rank, what could not be checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from gputui.analysis.facts import (
    MEMORY_BREAKDOWN,
    OPCODES_WITH_MODIFIERS,
    SM_BREAKDOWN,
    TENSOR_PRECISIONS,
    Facts,
    breakdown_parts,
)
from gputui.analysis.finding import SEVERITIES, Finding, Gauges, NotChecked, Verdict
from gputui.analysis.kernel_names import KernelIdentity
from gputui.analysis.neighbours import CONCEPTS as NEIGHBOUR_CONCEPTS
from gputui.analysis.neighbours import Launches, Neighbours
from gputui.analysis.roofline import CONCEPTS as ROOFLINE_CONCEPTS
from gputui.analysis.roofline import Roofline
from gputui.analysis.rules import all_rules
from gputui.analysis.transformer import Expected, TransformerOp, expected_of, transformer_op
from gputui.analysis.verdict import settle, verdict_of
from gputui.model.kernel import Kernel
from gputui.model.metrics import dictionary, names_of
from gputui.model.presence import can_tell
from gputui.model.report import Report, Session

WASTE = frozenset(
    {
        "uncoalesced-load", "uncoalesced-store", "bank-conflicts", "partial-warp", "register-spill",
        "thread-divergence", "tensor-cores-unused", "fp64-on-slow-part", "tf32-off", "fp16-without-tensor",
        "unfused-math", "predication", "hopper-features-unused", "blackwell-features-unused", "partial-sectors",
        "l2-thrash", "redundant-traffic", "atomic-contention",
    }
)  # fmt: skip
"""Findings of work that need not be done: a kernel with one of 10 % or more is not at its roof."""

_CONCEPTS = (
    "duration", "device_fp64_ratio", "sm_pct", "memory_pct", "dram_pct", "l2_pct", "l1_pct", "l1_elapsed_pct",
    "dram_read_pct", "dram_write_pct",
    "tensor_pct", "tensor_type_pct", "tensor_tc_pct", "sm_count", "waves", "issue_active", "eligible_warps",
    "warp_latency", "achieved_occupancy_pct", "theoretical_occupancy_pct", "warp_execution_efficiency_pct",
    "dram_bytes", "dram_bytes_per_s", "dram_read_bytes", "dram_write_bytes", "global_store_sectors", "opcode_total",
    *NEIGHBOUR_CONCEPTS, *(f"tensor_ops_{precision}" for precision in TENSOR_PRECISIONS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything said about one kernel.

    ``findings`` are ranked, validity apart in ``validity``; ``explained`` names, per finding id, the finding that
    explains it. ``transformer_op`` is the step of a transformer that the kernel belongs to, where that is known;
    ``expected`` the side of the roofline where its kind belongs; ``python`` whether the report is of a Python program,
    as far as it tells.
    """

    kernel: Kernel
    identity: KernelIdentity
    transformer_op: TransformerOp | None
    expected: Expected | None
    verdict: Verdict
    gauges: Gauges
    roofline: Roofline
    findings: tuple[Finding, ...]
    validity: tuple[Finding, ...]
    explained: dict[str, str]
    not_checked: tuple[NotChecked, ...]
    python: bool

    @property
    def tags(self) -> frozenset[str]:
        """What advice depends on: a ``product`` of matrices, near ``attention``, made by ``inductor``, of a ``library``
        that nobody changes, in ``half`` precision or less already."""
        identity, op = self.identity, self.transformer_op
        told = {
            "product": identity.op_class in ("gemm", "gemv", "conv"),
            "attention": op in _ATTENTION_OPS or (op is None and identity.op_class in ("gemm", "softmax", "attention")),
            "inductor": identity.library == "inductor",
            "library": identity.library in ("cublas", "cudnn"),
            "half": identity.precision in ("bf16", "fp16", "fp8", "fp4", "int8", "int4"),
        }
        return frozenset(tag for tag, holds in told.items() if holds)

    @property
    def main(self) -> tuple[Finding, ...]:
        """What is told in full: the first three causes that gain something.

        A kernel at its roof gets advice on fusing alone: only moving less makes it faster, and that is what fusing is.
        """
        gaining = tuple(one for one in self._causes if one.max_speedup is None or one.severity != "info")
        if self.verdict.at_roof:
            return tuple(one for one in gaining if one.family == "fusion")[:_TOLD_IN_FULL]
        return gaining[:_TOLD_IN_FULL] or self._causes[:1]

    @property
    def further(self) -> tuple[Finding, ...]:
        """The other causes, and what else the GPU offers; of a kernel at its roof the waste, which gains next to
        nothing there."""
        options = tuple(one for one in self.findings if one.option)
        others = (one for one in self._causes if one not in self.main)
        if self.verdict.at_roof:
            return (*(one for one in others if one.id in WASTE), *options)
        return (*others, *options)

    @property
    def effects(self) -> tuple[Finding, ...]:
        """The findings that another one explains."""
        return () if self.verdict.at_roof else tuple(one for one in self.findings if one.id in self.explained)

    @property
    def _causes(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.id not in self.explained and not one.option)


_TOLD_IN_FULL = 3
_ATTENTION_OPS = ("attention-scores", "softmax", "attention-values", "attention-fused")


def diagnose(
    kernel: Kernel, launches: int = 1, session: Session | None = None, neighbours: Neighbours | None = None
) -> Diagnosis:
    """The diagnosis of ``kernel``; ``launches`` is how often the report holds the same function and shape."""
    facts = Facts(kernel, launches, session, neighbours)
    verdict = verdict_of(facts)
    found: list[Finding] = []
    not_checked: list[NotChecked] = []
    table = dictionary()
    for rule in all_rules().values():
        if not rule.applies(facts):
            continue
        missing = rule.missing(facts)
        check = rule.otherwise if missing else rule.check
        hit = check(facts, verdict) if check is not None else None
        if missing and hit is None:
            sections = tuple(dict.fromkeys(table[concept].section for concept in missing))
            available = all(can_tell(concept, kernel.device) for concept in missing)
            not_checked.append(NotChecked(rule.id, rule.family, missing, sections, available))
        if hit is not None:
            found.append(rule.finding(hit, facts))
    # Waste of which nobody knows how much is no roof either.
    waste_gain = max((finding.max_speedup or math.inf for finding in found if finding.id in WASTE), default=1.0)
    verdict = settle(verdict, facts, waste_gain)
    if verdict.at_roof:
        found = [finding for finding in found if finding.family not in ("occupancy", "stalls")]
    ranked, explained = rank([finding for finding in found if finding.family != "validity"])
    roofline = facts.roofline
    op = transformer_op(facts)
    return Diagnosis(
        kernel=kernel,
        identity=facts.identity,
        transformer_op=op,
        expected=expected_of(facts, verdict, roofline, op),
        verdict=verdict,
        gauges=_gauges(facts, roofline),
        roofline=roofline,
        findings=ranked,
        validity=tuple(finding for finding in found if finding.family == "validity"),
        explained=explained,
        not_checked=tuple(not_checked),
        python=facts.neighbours.launches.python,
    )


def rank(findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], dict[str, str]]:
    """Findings by score, then severity, then id, those that another one explains behind; and who explains whom."""
    ordered = sorted(findings, key=lambda finding: (-finding.score, SEVERITIES.index(finding.severity), finding.id))
    explained: dict[str, str] = {}
    found = {finding.id for finding in ordered}
    for cause in ordered:
        # What gains nothing is no cause.
        if cause.max_speedup is not None and cause.severity == "info":
            continue
        for effect in cause.effects:
            if effect in found and explained.get(cause.id) != effect:
                explained.setdefault(effect, cause.id)
    causes = [finding for finding in ordered if finding.id not in explained]
    effects = [finding for finding in ordered if finding.id in explained]
    return (*causes, *effects), explained


@cache
def needed_names() -> tuple[str, ...]:
    """Every metric name that verdicts, rules and roofline may read, but for the parts that breakdowns name."""
    concepts = dict.fromkeys(_CONCEPTS)
    concepts.update(dict.fromkeys(ROOFLINE_CONCEPTS))
    for rule in all_rules().values():
        concepts.update(dict.fromkeys(rule.concepts))
    return (*names_of(concepts), SM_BREAKDOWN, MEMORY_BREAKDOWN, OPCODES_WITH_MODIFIERS)


def prepare(
    report: Report,
    kernels: Sequence[Kernel] | None = None,
    progress: Callable[[int, int], bool] | None = None,
) -> None:
    """Read what the diagnosis of these kernels (all, where ``None``) needs, in few round trips.

    ``progress(done, total)`` is called between batches and stops the reading where it answers ``False``.
    """
    kernels = report.kernels if kernels is None else kernels
    if not report.prefetch(needed_names(), kernels, progress):
        return
    parts = dict.fromkeys(
        name
        for kernel in kernels
        if kernel.has_fetched((SM_BREAKDOWN, MEMORY_BREAKDOWN))
        for breakdown in (SM_BREAKDOWN, MEMORY_BREAKDOWN)
        for name in breakdown_parts(kernel, breakdown)
    )
    if parts:
        report.prefetch(tuple(parts), kernels, progress)


def diagnoser(report: Report) -> Callable[[Kernel], Diagnosis]:
    """What diagnoses a kernel of this report, knowing its other launches and how it was collected."""
    counts = Counter((kernel.demangled, kernel.grid, kernel.block) for kernel in report.kernels)

    beside = Launches(
        report.kernels,
        report.session,
        read=lambda: report.prefetch(names_of(NEIGHBOUR_CONCEPTS)),
        read_ahead=lambda kernels: report.prefetch(needed_names(), kernels),
    )

    def diagnose_one(kernel: Kernel) -> Diagnosis:
        launches = counts[kernel.demangled, kernel.grid, kernel.block]
        return diagnose(kernel, launches, report.session, beside.of(kernel))

    return diagnose_one


def diagnose_all(report: Report) -> list[Diagnosis]:
    """The diagnosis of every kernel of the report, in its order; batches are read while others are worked on.

    A batch is worked on once the next one is read too: its last kernels ask about their neighbours.
    """
    one = diagnoser(report)
    batches = [report.kernels[start : start + _BATCH] for start in range(0, len(report.kernels), _BATCH)]
    if len(batches) <= 1:
        prepare(report)
        return list(map(one, report.kernels))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(prepare, report, batch) for batch in batches]
        found: list[Diagnosis] = []
        for batch, next_ready in zip(batches, [*coming[1:], coming[-1]], strict=True):
            next_ready.result()
            found.extend(map(one, batch))
    return found


_BATCH = 32
"""Kernels read at a time: some 20 ms of the reader's work."""


def _gauges(facts: Facts, roofline: Roofline) -> Gauges:
    return Gauges(
        sm_pct=facts.sm,
        memory_pct=facts.number("memory_pct"),
        busiest_memory_pct=facts.memory,
        dram_pct=facts.levels.get("dram"),
        dram_at_least=facts.dram_is_at_least,
        l2_pct=facts.levels.get("l2"),
        l1_pct=facts.levels.get("l1"),
        tensor_pct=facts.tensor,
        achieved_occupancy_pct=facts.number("achieved_occupancy_pct"),
        warp_execution_efficiency_pct=facts.number("warp_execution_efficiency_pct"),
        achieved_flop_per_s=roofline.achieved_flop_per_s,
        dram_bytes_per_s=facts.number("dram_bytes_per_s"),
        dram_bytes=facts.number("dram_bytes"),
    )
