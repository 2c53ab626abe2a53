"""What warps wait for. A stall matters only where schedulers have nothing to issue, and it is mostly an effect.

Gate (NVIDIA's): under 0.8 issues a cycle and the reason over 30 % of the wait. On kernels that a unit holds a stall
only restates that unit's limit, so these rules hold for kernels that wait: latency-bound ones, and those that have too
few blocks and still take their time. Kernels whose tensor cores are well used, warp-specialised ones (their producers
wait by design) and communication (it polls by design) are left alone.

The counters of a full report come first. Where only samples are there the share is that of all samples: on 94 kernels
with both it is within 11 points of the counters', that of the samples taken while nothing was issued up to 54 points
off. ``selected`` and ``not_selected`` are no waits, and nothing can be done about ``dispatch_stall`` and ``misc``: none
has a rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.rules import Check, Hit, rule
from gputui.analysis.verdict import FULL_PCT

_GATE_ISSUE = 0.8
_GATE_SHARE = 0.3
_TOLD = 2
"""Stalls told of one kernel: with over 30 % each there can be three, and the third adds nothing to do."""

_FEWEST_SAMPLES = 200
"""The share of a wait read off this many samples is right within about 3 points (one standard error at 30 %)."""

_TENSOR_USED_PCT = 50.0

_REASONS = (
    "long_scoreboard", "short_scoreboard", "wait", "barrier", "membar", "lg_throttle", "mio_throttle", "tex_throttle",
    "math_pipe_throttle", "imc_miss", "no_instruction", "branch_resolving", "drain", "sleeping", "gmma",
)  # fmt: skip
"""The reasons that have a rule, as the dictionary of metrics spells them."""

_UNTOLD = ("dispatch_stall", "misc", "not_selected", "selected")

_WARP_GROUP_PRODUCT = re.compile(r"[HIQB]GMMA$|UTC[A-Z]*MMA$")
_STREAM_K = re.compile(r"stream_?k", re.IGNORECASE)

_USES = (
    "warp_latency", "issue_active", "sm_issue_active_elapsed_pct", "pcsamp_samples", "active_warps_per_scheduler",
    *(f"stall_{reason}" for reason in _REASONS), *(f"pcsamp_{reason}" for reason in (*_REASONS, *_UNTOLD)),
)  # fmt: skip


def _issue(facts: Facts) -> tuple[float, str] | None:
    """Issues a cycle, and the concept it came from: of the active cycles, else of all (never more than that)."""
    if facts.issue is not None:
        return facts.issue, "issue_active"
    elapsed = facts.number("sm_issue_active_elapsed_pct")
    return None if elapsed is None else (elapsed / 100, "sm_issue_active_elapsed_pct")


def _samples(facts: Facts) -> float:
    """All samples; reports before 2021.2 hold no total."""
    told = facts.number("pcsamp_samples")
    return told or sum(facts.number(f"pcsamp_{reason}") or 0.0 for reason in (*_REASONS, *_UNTOLD))


def _multiplies_by_warp_group(facts: Facts) -> bool:
    return any(_WARP_GROUP_PRODUCT.match(opcode) and count for opcode, count in facts.opcodes.items())


def _share(facts: Facts, reason: str) -> float | None:
    """Share (0-1) of the warps' time that they wait for this reason: counted, else sampled.

    The wait for a warp group's product (wgmma) shows mostly as ``barrier``, also in a kernel without any (seen on an
    H200: 75 % barrier, 5 % gmma): there it counts as ``gmma``.
    """
    own = _plain_share(facts, reason)
    if reason not in ("gmma", "barrier") or own is None or not _multiplies_by_warp_group(facts):
        return own
    if reason == "barrier":
        return 0.0
    return own if facts.opcode_count("BAR") else own + (_plain_share(facts, "barrier") or 0.0)


def _plain_share(facts: Facts, reason: str) -> float | None:
    counted = facts.stall_share(reason)
    if counted is not None:
        return counted
    sampled, samples = facts.number(f"pcsamp_{reason}"), _samples(facts)
    return None if sampled is None or samples < _FEWEST_SAMPLES else sampled / samples


def _warp_specialised(facts: Facts) -> bool:
    """Some warps only fetch tiles (TMA) and others only multiply them (wgmma, tcgen05)."""
    return _multiplies_by_warp_group(facts) and facts.opcode_count("UTMALDG") > 0


def _can_wait(facts: Facts) -> bool:
    """Whether the question makes sense: no unit is known to hold the kernel, and waiting is not its design."""
    return not (
        facts.is_short
        or max(facts.sm or 0.0, facts.memory or 0.0) >= FULL_PCT
        or (facts.tensor or 0.0) >= _TENSOR_USED_PCT
        or facts.identity.op_class == "communication"
    )


def _may_stall(facts: Facts) -> bool:
    return _can_wait(facts) and not _warp_specialised(facts)


def _held_by_barriers(facts: Facts) -> bool:
    """The unit that runs barriers is the busiest of the SM."""
    return (facts.top_sm_part or "").startswith("sm__inst_executed_pipe_adu") and facts.opcode_count("BAR") > 0


def _waits(verdict: Verdict) -> bool:
    return verdict.id == "latency-bound" or (verdict.id == "launch-bound" and verdict.variant == "grid")


def _told(facts: Facts, reason: str) -> int | None:
    """Its place among the largest that are told: 0, 1, or ``None``."""
    share = _share(facts, reason) or 0.0
    place = sum((_share(facts, other) or 0.0) > share for other in _REASONS if other != reason)
    return place if place < _TOLD else None


def _stall(
    facts: Facts,
    verdict: Verdict,
    reason: str,
    *,
    hides: tuple[str, ...] = (),
    frees: tuple[str, ...] | None = None,
    named: bool = False,
    held: bool = False,
) -> Hit | None:
    """The finding of one reason, in a kernel that waits or whose unit is ``held`` by what makes it wait.

    Bound: the wait goes and all else stays, so at most 1 / (1 - share); the same instructions still have to be issued
    (1 / issues a cycle), and the busiest unit still has its work (100 / its percent). What is cured by more independent
    work ``hides`` other waits as well. Where the cure is fewer instructions to a unit (``frees``: how its metrics'
    names begin) neither that unit nor the issue slots bound.

    A wait that the code names (``named``: a fence, a sleep) and that takes half of the time is more than a symptom.
    """
    share, issued, place = _share(facts, reason), _issue(facts), _told(facts, reason)
    if share is None or issued is None or share <= _GATE_SHARE or issued[0] >= _GATE_ISSUE:
        return None
    if not (_waits(verdict) or held) or place is None:
        return None
    issue, issue_concept = issued
    gone = share + sum(_share(facts, other) or 0.0 for other in hides)
    gains = [1 / (1 - gone) if gone < 1 else math.inf]
    if frees is not None:
        gains.append(facts.bound(lambda name: 0.0 if name.startswith(frees) else 1.0) or math.inf)
    else:
        gains += [facts.latency_bound_gain or math.inf, 1 / issue if issue else math.inf]
    bound = min(gains)
    counted = facts.stall_share(reason) is not None
    if counted:
        latency = facts.number("warp_latency") or 0.0
        shown = [facts.evidence(f"stall_{reason}", _GATE_SHARE * latency), facts.evidence("warp_latency")]
    else:
        shown = [facts.evidence(f"pcsamp_{reason}", _GATE_SHARE * _samples(facts))]
    whole = 1.0 if issue_concept == "issue_active" else 100.0
    params = {
        "share_pct": 100 * min(share, 1.0),
        "cycles": facts.number(f"stall_{reason}"),
        "latency": facts.number("warp_latency"),
        "issue_pct": 100 * issue,
    }
    confidence = (0.45 if counted else 0.35) + (0.1 if named and share >= 0.5 else 0.0) - 0.05 * place
    return Hit(
        confidence,
        bound if math.isfinite(bound) else None,
        (*shown, facts.evidence(issue_concept, whole * _GATE_ISSUE)),
        params,
        "" if counted else "sampled",
    )


def _stall_rule(
    id: str,
    reason: str,
    *,
    needs: tuple[str, ...] = (),
    effects: tuple[str, ...] = (),
    applies: Callable[[Facts], bool] = _may_stall,
) -> Callable[[Check], Check]:
    """A rule on one stall reason: what all of them need, use and explain, and what this one adds."""
    return rule(
        id,
        "stalls",
        needs=(
            f"stall_{reason}|pcsamp_{reason}",
            "warp_latency|pcsamp_selected",
            "issue_active|sm_issue_active_elapsed_pct",
            *needs,
        ),
        uses=_USES,
        effects=("issue-slots", *effects),
        applies=applies,
    )


_LOAD_STORE_UNIT = (
    "l1tex__", "idc__", "sm__mio", "sm__inst_executed_pipe_lsu", "sm__inst_executed_pipe_adu", "sm__issue",
    "sm__inst_issued", "sm__inst_executed.",
)  # fmt: skip
_JUMPS = ("sm__inst_executed_pipe_cbu", "sm__issue", "sm__inst_issued", "sm__inst_executed.")
_ARITHMETIC = ("sm__pipe_", "sm__inst_executed_pipe_", "sm__issue", "sm__inst_issued", "sm__inst_executed.")


@_stall_rule("stall-long-scoreboard", "long_scoreboard")
def long_scoreboard(facts: Facts, verdict: Verdict) -> Hit | None:
    """Global, local or texture data on its way (400 to 800 cycles from DRAM)."""
    return _stall(facts, verdict, "long_scoreboard", hides=("wait",))


@_stall_rule("stall-short-scoreboard", "short_scoreboard")
def short_scoreboard(facts: Facts, verdict: Verdict) -> Hit | None:
    """Shared memory, shuffles, special functions (exp, rsqrt, division) and indirect branches: some 20 to 30 cycles."""
    return _stall(facts, verdict, "short_scoreboard", hides=("wait",))


@_stall_rule(
    "stall-barrier",
    "barrier",
    needs=("block_size",),
    effects=("occupancy-achieved", "compute-roof"),
    applies=lambda facts: _may_stall(facts) or (_held_by_barriers(facts) and not facts.is_short),
)
def barrier(facts: Facts, verdict: Verdict) -> Hit | None:
    """Warps of one block waiting for each other; NVIDIA's advice names blocks of 512 threads and more.

    The barriers' own instructions (on the address-divergence unit, ADU) go with them: so it is also told of a kernel
    that this unit holds.
    """
    hit = _stall(
        facts, verdict, "barrier", frees=("sm__inst_executed_pipe_adu",), named=True, held=_held_by_barriers(facts)
    )
    if hit is None:
        return None
    issued = _issue(facts)
    bound = min(hit.max_speedup or math.inf, 1 / issued[0] if issued and issued[0] else math.inf)
    params = {**hit.params, "threads": facts.number("block_size")}
    return replace(hit, max_speedup=bound if math.isfinite(bound) else None, params=params)


@_stall_rule("stall-lg-throttle", "lg_throttle")
def lg_throttle(facts: Facts, verdict: Verdict) -> Hit | None:
    """The queue of global and local memory instructions is full: too many small ones in a row."""
    return _stall(facts, verdict, "lg_throttle", frees=_LOAD_STORE_UNIT)


@_stall_rule("stall-mio-throttle", "mio_throttle")
def mio_throttle(facts: Facts, verdict: Verdict) -> Hit | None:
    """The queue of shared-memory instructions, shuffles, special functions and dynamic branches is full."""
    return _stall(facts, verdict, "mio_throttle", frees=_LOAD_STORE_UNIT)


@_stall_rule("stall-tex-throttle", "tex_throttle")
def tex_throttle(facts: Facts, verdict: Verdict) -> Hit | None:
    """The queue of texture and surface instructions is full: 4 threads a cycle where loads take 32 (NVIDIA)."""
    return _stall(facts, verdict, "tex_throttle", frees=(*_LOAD_STORE_UNIT, "sm__inst_executed_pipe_tex"))


@_stall_rule("stall-math-pipe", "math_pipe_throttle")
def math_pipe(facts: Facts, verdict: Verdict) -> Hit | None:
    """Warps want one arithmetic unit at the same time. Healthy where that is the tensor pipe at 30 % or more."""
    if (facts.tensor or 0.0) >= 30:
        return None
    return _stall(facts, verdict, "math_pipe_throttle", frees=_ARITHMETIC)


@_stall_rule("stall-wait", "wait")
def wait(facts: Facts, verdict: Verdict) -> Hit | None:
    """The fixed latency of arithmetic (4 cycles and more): each instruction needs the one before. With one warp a
    scheduler every instruction waits so; well-tuned kernels show it too, hence the last to act on."""
    return _stall(facts, verdict, "wait")


@_stall_rule("stall-no-instruction", "no_instruction")
def no_instruction(facts: Facts, verdict: Verdict) -> Hit | None:
    """The next instruction is not in the instruction cache, or its fetch lags behind jumps."""
    return _stall(facts, verdict, "no_instruction")


@_stall_rule("stall-branch", "branch_resolving")
def branch(facts: Facts, verdict: Verdict) -> Hit | None:
    """A jump's target and the program counter behind it are being worked out. What goes with a jump: its slots and
    those of the compare, the mask and the return address it needs, its fixed latency and the fetch behind it (a branch,
    a call and a return a step on an H200: 8.0 times faster without, with 2.7 times fewer instructions)."""
    return _stall(facts, verdict, "branch_resolving", hides=("wait", "no_instruction"), frees=_JUMPS)


def _polls(facts: Facts) -> bool:
    """Stream-K kernels wait for their neighbours' parts by design."""
    return _STREAM_K.search(f"{facts.kernel.name} {facts.kernel.demangled}") is not None


@_stall_rule("stall-membar", "membar", applies=lambda facts: _may_stall(facts) and not _polls(facts))
def membar(facts: Facts, verdict: Verdict) -> Hit | None:
    """Memory fences: the warp waits until its earlier writes are seen by whom the fence names. A fence's own traffic in
    L2 (20 % busy where no listed part was over 15) goes with it, so only the listed parts bound."""
    return _stall(facts, verdict, "membar", frees=(), named=True)


@_stall_rule("stall-drain", "drain")
def drain(facts: Facts, verdict: Verdict) -> Hit | None:
    """Warps that have ended and wait for their stores to leave; until then they keep their place on the SM."""
    return _stall(facts, verdict, "drain")


@_stall_rule("stall-sleeping", "sleeping", applies=lambda facts: _may_stall(facts) and not _polls(facts))
def sleeping(facts: Facts, verdict: Verdict) -> Hit | None:
    """``nanosleep``, mostly in a loop that polls a flag or a lock."""
    return _stall(facts, verdict, "sleeping", named=True)


@_stall_rule(
    "stall-imc-miss",
    "imc_miss",
    applies=lambda facts: _may_stall(facts) and (facts.device.compute_capability or (0, 0)) < (10, 0),
)
def imc_miss(facts: Facts, verdict: Verdict) -> Hit | None:
    """Constants named in an instruction (kernel parameters, ``__constant__`` at a fixed place) are not in the small
    cache for them. Blackwell has no such counter."""
    return _stall(facts, verdict, "imc_miss")


def _has_warp_group_products(facts: Facts) -> bool:
    """Only Hopper has wgmma and its counter; where the instructions are not told, any tensor kernel may use it."""
    if facts.device.compute_capability != (9, 0) or not _can_wait(facts):
        return False
    return _multiplies_by_warp_group(facts) if facts.opcodes else facts.does_tensor is True


@_stall_rule("stall-gmma", "gmma", applies=_has_warp_group_products)
def gmma(facts: Facts, verdict: Verdict) -> Hit | None:
    """Warp groups waiting for their matrix products while the tensor cores are less than half busy: too little is in
    flight. At 50 % and more the wait is a good sign."""
    return _stall(facts, verdict, "gmma", named=True)


@rule(
    "issue-slots",
    "stalls",
    needs=("issue_active",),
    uses=("eligible_warps", "active_warps_per_scheduler"),
    applies=_may_stall,
)
def issue_slots(facts: Facts, verdict: Verdict) -> Hit | None:
    """Under 0.6 issues a cycle (NVIDIA's threshold) in a kernel that no unit holds."""
    issue = facts.issue
    if not issue or issue >= 0.6 or verdict.id != "latency-bound":
        return None
    bound = min(1 / issue, facts.latency_bound_gain or math.inf)
    evidence = [facts.evidence("issue_active", 0.6)]
    eligible = facts.number("eligible_warps")
    if eligible is not None:
        evidence.append(facts.evidence("eligible_warps", 1.0))
    return Hit(0.4, bound, tuple(evidence), {"idle_pct": 100 * (1 - issue), "eligible": eligible})
