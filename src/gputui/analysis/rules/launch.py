"""How the work is cut into blocks, and how the blocks fill the GPU."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.rules import Hit, rule
from gputui.analysis.rules.memory import DRAM_REACHABLE_PCT
from gputui.analysis.verdict import FULL_PCT

ALL_STALLS = (
    "stall-long-scoreboard", "stall-short-scoreboard", "stall-barrier", "stall-lg-throttle", "stall-mio-throttle",
    "stall-tex-throttle", "stall-math-pipe", "stall-wait", "stall-no-instruction", "stall-branch", "stall-membar",
    "stall-drain", "stall-sleeping", "stall-imc-miss", "stall-gmma",
)  # fmt: skip


@rule(
    "small-grid",
    "launch",
    needs=("grid_size", "sm_count"),
    uses=("sm_pct", "waves"),
    effects=(
        "occupancy-achieved", "issue-slots", "sm-imbalance", "occupancy-registers", "occupancy-shared-memory",
        "occupancy-block-count", "occupancy-block-size", "occupancy-barriers", *ALL_STALLS,
    ),
)  # fmt: skip
def small_grid(facts: Facts, verdict: Verdict) -> Hit | None:
    """Fewer blocks than SMs (NVIDIA's launch rule).

    The bound: more blocks fill the idle SMs and, where several fit on an SM, the waiting on the others too (one block
    of 8 warps on 32 of an H200's 132 SMs: 14.4 times faster with 2,048 blocks), so at most 1 / waves; all SMs' averages
    count the work that stays. Only the listed parts of a level do: L2's own throughput on GPUs with a divided L2 does
    not fall in step with the time (7.6 % became 86 %, DRAM's 5.7 % became 82 %).
    """
    blocks, sms = facts.number("grid_size"), facts.number("sm_count")
    if not blocks or not sms or blocks >= sms:
        return None
    if (facts.sm or 0) >= FULL_PCT or (facts.memory or 0) >= FULL_PCT:
        return None
    waves = facts.number("waves")
    room = 1 / waves if waves else sms / blocks
    bound = min(max(room, sms / blocks), facts.bound(lambda name: 1.0) or math.inf)
    evidence = (facts.evidence("grid_size", sms), facts.evidence("sm_count"))
    confidence = 0.5 if facts.is_short else 0.85
    params = {"blocks": blocks, "sms": sms, "idle_pct": 100 * (1 - blocks / sms), "places": blocks * room}
    # Half as many blocks again as SMs fit: then the SMs at work are not full either.
    return Hit(confidence, bound, evidence, params, "roomy" if blocks * room >= 1.5 * sms else "")


@rule(
    "tail-wave",
    "launch",
    needs=("waves", "achieved_occupancy_pct", "theoretical_occupancy_pct"),
    uses=("sm_cycles_active_avg", "sm_cycles_active_max"),
    effects=("occupancy-achieved", "sm-imbalance", "issue-slots"),
)
def tail_wave(facts: Facts, verdict: Verdict) -> Hit | None:
    """The last, partly filled wave takes as long as a full one. Conditions are NVIDIA's (launch configuration rule),
    but for one: achieved occupancy is of the SMs at work alone, so where the last wave has fewer blocks than there are
    SMs those that ended count too (half a block an SM after a full wave: 85 % of the occupancy, for 67 % of the time).

    SMs more uneven than a tail makes them (the longest works ``(whole + 1) / waves`` times as long as the average one)
    have uneven blocks, and then waves mean nothing.

    The bound: all waves as full as the whole ones, and no more than every place for a warp taken all the time: a warp
    among many is never faster than one alone.
    """
    waves = facts.number("waves") or 0.0
    achieved, theoretical = facts.number("achieved_occupancy_pct"), facts.number("theoretical_occupancy_pct")
    if achieved is None or theoretical is None:
        return None
    whole, part = math.floor(waves), waves - math.floor(waves)
    if whole < 1 or part < 0.01 or 1 / (whole + 1) < 0.20 or facts.is_short:
        return None
    average, longest = facts.number("sm_cycles_active_avg"), facts.number("sm_cycles_active_max")
    at_work = min(1.0, average / longest) if average and longest else 1.0
    if achieved * at_work >= 0.8 * theoretical or at_work < waves / (whole + 1):
        return None
    taken = achieved * at_work / theoretical
    bound = min((whole + 1) / waves, 1 / taken if taken else math.inf, facts.latency_bound_gain or math.inf)
    if bound < 1.05:
        return None
    whole_gpu = facts.evidence("achieved_occupancy_pct", 0.8 * theoretical)
    if at_work < 1:
        cycles = [facts.evidence(f"sm_cycles_active_{which}").metric for which in ("avg", "max")]
        whole_gpu = replace(
            whole_gpu, metric=f"{whole_gpu.metric} × {cycles[0]} / {cycles[1]}", value=achieved * at_work
        )
    params = {"waves": waves, "whole": whole, "part_pct": 100 * part, "empty_pct": 100 * (1 - part)}
    return Hit(0.7, bound, (facts.evidence("waves"), whole_gpu), params)


@rule(
    "partial-warp",
    "launch",
    needs=("block_size",),
    effects=("thread-divergence", "occupancy-block-count", "occupancy-achieved"),
)
def partial_warp(facts: Facts, verdict: Verdict) -> Hit | None:
    """Threads run in warps of 32; a block's last warp runs its empty lanes too."""
    threads = facts.number("block_size")
    if not threads or threads % 32 == 0:
        return None
    used = threads / (32 * math.ceil(threads / 32))
    # Where a few threads fetch a sector each, full warps share sectors: of 4 bytes a thread 8 fit into one.
    below = max(used, 1 / 8) if used <= 0.25 else 1.0
    bound = facts.bound(lambda name: used if name.startswith(("sm__", "smsp__", "l1tex__", "idc__")) else below)
    if bound is not None:
        bound = min(bound, 1 / used)
    params = {"threads": threads, "warps": math.ceil(threads / 32), "wasted_pct": 100 * (1 - used),
              "rounded": 32 * math.ceil(threads / 32)}  # fmt: skip
    return Hit(0.9 if used <= 0.75 else 0.6, bound, (facts.evidence("block_size", 32.0),), params)


_PERSISTENT = re.compile(r"persistent|warp_?speciali[sz]ed|stream_?k", re.IGNORECASE)


@rule(
    "few-blocks",
    "launch",
    needs=("grid_size", "sm_count", "waves", "block_size", "stall_barrier|pcsamp_barrier"),
    uses=("warp_latency", "issue_active", "pcsamp_samples"),
    effects=("stall-barrier", "stall-long-scoreboard", "occupancy-achieved", "issue-slots"),
    applies=lambda facts: _has_one_block_an_sm(facts),
)
def few_blocks(facts: Facts, verdict: Verdict) -> Hit | None:
    """At least as many blocks as SMs, fewer than two each, with room for more, and over 10 % of the wait at barriers:
    while the one block meets, its SM stands still. The lines are NVIDIA's (launch configuration rule); the room for
    more (under one wave) leaves out kernels whose single block fills the SM.

    The bound: 1 / waves times as many warps to fill the waiting, and no time at barriers.
    """
    waves, barrier = facts.number("waves"), facts.stall_share("barrier")
    if barrier is None:
        sampled, samples = facts.number("pcsamp_barrier"), facts.number("pcsamp_samples")
        barrier = sampled / samples if sampled is not None and samples else None
    if not waves or waves >= 1 or barrier is None or not 0.1 < barrier < 1 or verdict.id != "latency-bound":
        return None
    blocks, sms = facts.number("grid_size"), facts.number("sm_count")
    gains = [1 / (waves * (1 - barrier)), facts.latency_bound_gain or math.inf]
    if facts.issue:
        gains.append(1 / facts.issue)
    evidence = (
        facts.evidence("grid_size", 2 * (sms or 0)), facts.evidence("waves", 1.0),
        facts.evidence("stall_barrier|pcsamp_barrier"),
    )  # fmt: skip
    params = {
        "blocks": blocks, "sms": sms, "barrier_pct": 100 * barrier, "room_pct": 100 * (1 - waves),
        "threads": facts.number("block_size"),
    }  # fmt: skip
    return Hit(0.5, min(gains), evidence, params)


def _has_one_block_an_sm(facts: Facts) -> bool:
    """Persistent kernels and tiled products choose this number of blocks on purpose."""
    blocks, sms = facts.number("grid_size"), facts.number("sm_count")
    if blocks is None or sms is None:
        return True
    names = f"{facts.kernel.name} {facts.kernel.demangled}"
    by_design = facts.is_matrix_product or bool(facts.does_tensor) or _PERSISTENT.search(names) is not None
    return sms <= blocks < 2 * sms and not facts.is_short and not by_design


@rule(
    "sm-imbalance",
    "launch",
    needs=(
        "sm_cycles_active_avg", "sm_cycles_active_max", "sm_cycles_active_sum", "sm_cycles_elapsed_sum", "grid_size",
        "sm_count",
    ),
    effects=("occupancy-achieved", "issue-slots"),
)  # fmt: skip
def sm_imbalance(facts: Facts, verdict: Verdict) -> Hit | None:
    """(1 - average / longest active SM) x share of time active, at least 5 % (NVIDIA's workload distribution rule).

    Where DRAM holds the kernel an SM that ends early leaves its bytes a second to the others: what DRAM has to spare
    is all there is to gain.
    """
    average, longest = facts.number("sm_cycles_active_avg"), facts.number("sm_cycles_active_max")
    active, elapsed = facts.number("sm_cycles_active_sum"), facts.number("sm_cycles_elapsed_sum")
    blocks, sms = facts.number("grid_size"), facts.number("sm_count")
    if not average or not longest or not active or not elapsed or not blocks or not sms or blocks < sms:
        return None
    share_active = min(1.0, active / elapsed)
    if (1 - average / longest) * share_active < 0.05 or facts.is_short:
        return None
    # With the work spread evenly every SM ends when the average one ends now: the time shrinks by the difference
    # between the longest and the average, as shares of the elapsed time.
    lost = min(0.99, (longest / average - 1) * share_active)
    bound = min(1 / (1 - lost), facts.latency_bound_gain or math.inf)
    if verdict.id == "memory-bound" and verdict.level == "dram":
        bound = min(bound, DRAM_REACHABLE_PCT / facts.levels["dram"])
        if bound < 1.05:
            return None
    evidence = (facts.evidence("sm_cycles_active_avg"), facts.evidence("sm_cycles_active_max"))
    return Hit(0.8, bound, evidence, {"lost_pct": 100 * lost, "ratio": longest / average})


_BLOCK_LIMITS = ("limit_registers", "limit_shared", "limit_warps", "limit_blocks")


def _launches_clusters(facts: Facts) -> bool:
    """Clusters came with compute capability 9.0; 0 and 1 stand for none."""
    capability = facts.device.compute_capability
    size = facts.number("cluster_size")
    return capability is not None and capability >= (9, 0) and size is not None and size > 1


@rule(
    "cluster-limits",
    "launch",
    needs=("cluster_max_active", "grid_size", "sm_count", *_BLOCK_LIMITS),
    uses=("cluster_size", "stall_barrier", "stall_membar", "warp_latency"),
    effects=("sm-imbalance", "tail-wave", "occupancy-achieved", "issue-slots"),
    applies=_launches_clusters,
)
def cluster_limits(facts: Facts, verdict: Verdict) -> Hit | None:
    """The blocks of a cluster must fit in one group of SMs (GPC), so whole clusters leave SMs over: at least 5 % of the
    room (heuristic). ``launch__occupancy_cluster_gpu_pct`` says nothing here: 0.6 % for a product that fills the GPU.

    The bound: rounds of clusters now over the rounds, also broken ones, that the same blocks take without clusters; and
    where they meet (``UCGABAR``), no wait at barriers and fences.
    On an H200 528 blocks of one an SM took 40.2 µs in clusters of 16 (7 at a time) and of 8 (15), 33.1 µs in clusters
    of 2: 1.21 times, bound 1.25.
    """
    size, active = facts.number("cluster_size") or 0.0, facts.number("cluster_max_active") or 0.0
    blocks, sms = facts.number("grid_size") or 0.0, facts.number("sm_count") or 0.0
    room = sms * min(facts.number(limit) or 0.0 for limit in _BLOCK_LIMITS)
    seated = size * active
    if not seated or not room or seated > 0.95 * room or blocks <= seated or facts.is_short:
        return None
    if verdict.id == "memory-bound" and verdict.level == "dram":
        return None
    rounds = math.ceil(blocks / seated) / max(1.0, blocks / room)
    bound = min(rounds / (1 - _met(facts)), facts.latency_bound_gain or math.inf)
    if rounds < 1.05 or bound < 1.05:
        return None
    evidence = (facts.evidence("cluster_max_active", 0.95 * room / size), facts.evidence("cluster_size"))
    params = {"size": size, "clusters": active, "seated": seated, "room": room, "empty_pct": 100 * (1 - seated / room)}
    return Hit(0.6, bound, evidence, params)


def _met(facts: Facts) -> float:
    """Share of the warps' time at barriers and fences, where the blocks of a cluster wait for each other."""
    if not facts.opcode_count("UCGABAR_WAIT"):
        return 0.0
    return min(0.99, sum(facts.stall_share(reason) or 0.0 for reason in ("barrier", "membar")))
