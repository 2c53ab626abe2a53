"""Bytes that travel twice, too far, or to one place: re-reading, host memory, atomics, L2's own detours."""

from __future__ import annotations

import math
import re

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Verdict
from gputui.analysis.rules import Hit, rule
from gputui.analysis.rules.memory import bytes_asked_for, sum_of
from gputui.analysis.verdict import ROOF_PCT

_WAITS = ("stall-long-scoreboard", "stall-lg-throttle", "issue-slots", "occupancy-achieved", "sm-imbalance")

_DRAM = ("dram__", "fbpa__", "gpu__dram")

# ------
# Re-reading
# ------


def _tiles(facts: Facts) -> tuple[int, int] | None:
    """Columns and rows of a matrix product's two-dimensional grid.

    Not of Triton's, whose second axis is the batch or the split of K, nor of one that says that it is batched: there a
    block's neighbours share no input.
    """
    grid, identity = facts.kernel.grid, facts.identity
    if identity.op_class != "gemm" or identity.library in ("triton", "inductor") or grid is None:
        return None
    if min(grid[0], grid[1]) < 2 or re.search(r"batch|bmm|split_?k|grouped", facts.kernel.demangled, re.IGNORECASE):
        return None
    return grid[0], grid[1]


_LONG_NS = 1e7
"""A kernel that reads more than the GPU's whole memory takes at least this long."""


@rule(
    "l2-thrash",
    "memory",
    needs=("dram_read_bytes", "dram_pct", "global_load_sectors"),
    uses=(
        "dram_bytes",
        "l2_to_l1_bytes",
        "l2_sectors_from_l1",
        "accessible_memory_bytes",
        "device_memory_bytes",
        "device_l2_bytes",
        "tma_load_inst",
        "texture_sectors",
        "local_load_sectors",
        "global_atom_sectors",
        "global_red_sectors",
    ),
    effects=("dram-bandwidth", "stall-long-scoreboard", "issue-slots"),
    applies=lambda facts: (
        _tiles(facts) is not None
        or (facts.kernel.duration_ns or _LONG_NS) >= _LONG_NS
        or bool(facts.number("accessible_memory_bytes"))
    ),
)
def l2_thrash(facts: Facts, verdict: Verdict) -> Hit | None:
    """DRAM at 60 % or more, and at least 1.5 times the bytes read from it that the kernel's inputs can be.

    A low hit rate proves nothing, a stream has one by nature: so the inputs' size must be bounded. Three bounds are
    sound. In a product whose grid has X columns and Y rows of tiles each input byte is loaded by at least min(X, Y)
    blocks, so the inputs are at most the loaded sectors over that (not with bulk copies, which are no loads and may
    serve several blocks at once). ncu counts the allocated memory that the kernel could reach, because it must put it
    back between passes (in no kernel of the reports seen did more come from DRAM unless registers were spilled or data
    were read again; what a texture's array holds may be missing from it, so it does not count where textures are
    read). And no kernel's inputs are larger than the GPU's memory.

    The bound: the reads come from L2 instead, so the work of L2 but for its fills stays.
    """
    read, dram = facts.number("dram_read_bytes"), facts.number("dram_pct")
    if not read or dram is None or dram < 60 or facts.is_short:
        return None
    # Spilled registers and the targets of atomics are read too, and are no inputs.
    read -= 32 * (sum_of(facts, "local_load_sectors", "global_atom_sectors", "global_red_sectors") or 0.0)
    tiles, loaded = _tiles(facts), 32 * (sum_of(facts, "global_load_sectors", "texture_sectors") or 0.0)
    by_tiles = None if tiles is None or not loaded or facts.number("tma_load_inst") else loaded / min(tiles)
    within_reach = None if facts.number("texture_sectors") else facts.number("accessible_memory_bytes")
    sizes = {"": by_tiles, "allocated": within_reach, "memory": facts.number("device_memory_bytes")}
    inputs, variant = min(((size, name) for name, size in sizes.items() if size), default=(None, ""))
    if inputs is None or read < 1.5 * inputs:
        return None
    # What each block fetches once from L2 is at most max(X, Y) times the inputs.
    least = (facts.number("l2_to_l1_bytes") or 0.0) / max(tiles) if tiles and variant == "" else 0.0
    saved = max(0.0, read - least)
    moved = facts.number("dram_bytes") or read
    in_l2 = moved + 32 * (facts.number("l2_sectors_from_l1") or math.inf)

    def factor(name: str) -> float:
        if name.startswith((*_DRAM, "lts__d_sectors_fill")):
            return max(0.0, 1 - saved / moved)
        # L2's data banks hold each sector twice in the hand: when it comes from DRAM and when it is asked for.
        return max(0.0, 1 - saved / in_l2) if name.startswith("lts__d_sectors.") else 1.0

    bound = facts.bound(factor)
    params = {"read": read, "inputs": inputs, "times": read / inputs, "l2": facts.number("device_l2_bytes")}
    evidence = (facts.evidence("dram_read_bytes", 1.5 * inputs), facts.evidence("dram_pct", 60.0))
    if variant == "allocated":
        evidence = (*evidence, facts.evidence("accessible_memory_bytes"))
    return Hit({"": 0.4, "allocated": 0.7, "memory": 0.8}[variant], bound, evidence, params, variant)


@rule(
    "redundant-traffic",
    "memory",
    needs=("dram_read_bytes", "dram_pct", "l2_to_l1_bytes"),
    uses=(
        "dram_write_bytes", "dram_bytes", "global_store_sectors", "global_atom_sectors", "global_red_sectors",
        "store_bytes_per_sector", "store_bytes_per_sector_max", "sysmem_miss_sectors",
    ),
    effects=("dram-bandwidth", "stall-long-scoreboard", "issue-slots"),
    applies=lambda facts: (
        not facts.is_matrix_product and facts.identity.op_class not in ("softmax", "norm", "communication")
    ),
)  # fmt: skip
def redundant_traffic(facts: Facts, verdict: Verdict) -> Hit | None:
    """Main memory at 60 % or more delivers bytes that the SMs never asked for, or a copy reads what it does not write.

    Asked for is what L2 sent to the SMs and what atomics read: a stream's DRAM reads equal it within 1 % on most GPUs
    (additions on a T4: 20 % more). What goes beyond by 20 % of DRAM's bytes is either the other half of a 64-byte fetch
    (random 4-byte loads on an H200: 1.7 times; fetching 32 bytes instead cured the bytes and was slower) or the reading
    of sectors that a store then fills only partly (4-byte stores 32 bytes apart: all of it; side by side they took a
    sixth of the time).

    A copy or transpose writes what it reads; over 2.2 times as much read (2 is a conversion to half the size) it reads
    again. Other operations' needs are not known, so nothing is said of them.
    """
    read, dram, sent = (facts.number(concept) for concept in ("dram_read_bytes", "dram_pct", "l2_to_l1_bytes"))
    if not read or dram is None or dram < 60 or facts.is_short:
        return None
    total = facts.number("dram_bytes") or read
    stored = 32 * (facts.number("global_store_sectors") or 0.0)
    got, most = facts.number("store_bytes_per_sector"), facts.number("store_bytes_per_sector_max")
    used = got / most if got and most else 1.0
    wanted = bytes_asked_for(facts) or 0.0
    unasked = read - wanted
    copies = facts.identity.op_class in ("copy", "transpose") and facts.identity.detail != "cast_copy"
    if unasked >= 0.2 * total:
        # Each partly written sector is read once.
        variant = "fill" if used < 0.95 and stored >= unasked / 2 else ""
        extra, limit, confidence = unasked, wanted, 0.7 if variant == "fill" else 0.45
    elif copies and stored and read > 2.2 * stored * used and read - stored * used >= 0.2 * total:
        variant, extra, limit, confidence = "copy", read - stored * used, stored * used, 0.45
    else:
        return None
    kept_of_sent = limit / sent if variant == "copy" and sent else 1.0
    kept_of_fills = max(0.0, 1 - extra / read)

    def factor(name: str) -> float:
        if name.startswith(_DRAM):
            return 1 - extra / total
        if name.startswith("lts__d_sectors_fill"):
            return kept_of_fills
        return min(1.0, kept_of_sent) if name.startswith(("lts__lts2xbar", "l1tex__m_xbar2l1tex")) else 1.0

    params = {"read": read, "wanted": limit, "extra": extra, "extra_pct": 100 * extra / total}
    evidence = (facts.evidence("dram_read_bytes", limit), facts.evidence("l2_to_l1_bytes"))
    return Hit(confidence, facts.bound(factor), evidence, params, variant)


# ------
# Atomics
# ------

_ATOMIC_OPCODES = ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS")


@rule(
    "atomic-contention",
    "memory",
    needs=("global_atom_sectors|global_red_sectors|shared_atom_inst",),
    uses=(
        "global_atom_sectors", "global_red_sectors", "global_atom_requests", "global_red_requests",
        "l2_sectors_from_l1", "l1_to_l2_bytes", "atomic_input_pct", "shared_atom_inst", "shared_atom_wavefronts",
        "shared_all_wavefronts", "shared_load_wavefronts", "stall_short_scoreboard",
        "stall_mio_throttle", "warp_latency",
    ),
    effects=(*_WAITS, "bank-conflicts", "l1-bandwidth", "l2-bandwidth", "thread-divergence", "stall-short-scoreboard",
             "stall-mio-throttle"),
    applies=lambda facts: not facts.opcodes or facts.opcode_count(*_ATOMIC_OPCODES) > 0,
)  # fmt: skip
def atomic_contention(facts: Facts, verdict: Verdict) -> Hit | None:
    """Atomics are a fifth of the sectors that reach L2 while nothing is busy; or shared-memory atomics take the banks.

    Updates of one address queue at one slice of L2, so every average stays low (one float summed by all threads on an
    H200: 0.4 % of the atomic units, 716 times as long as sums by warp). L2's atomic units on average at 50 % count too.
    Atomics beside a full DRAM cost nothing (coalesced additions: as fast as plain ones). In shared memory: at least
    1.5 turns an instruction and 30 % of the turns, where warps wait for it over 0.3 of their time or L1 is at 80 % (a
    histogram of 8 bins on an H200 took 7 turns an instruction with L1 at 63 % and no such waits: private bins gained
    nothing).
    """
    if facts.is_short:
        return None
    return _global_atomics(facts, verdict) or _shared_atomics(facts, verdict)


def _global_atomics(facts: Facts, verdict: Verdict) -> Hit | None:
    sectors = sum_of(facts, "global_atom_sectors", "global_red_sectors")
    total = facts.number("l2_sectors_from_l1")
    if not sectors or not total:
        return None
    share, unit = min(1.0, sectors / total), facts.number("atomic_input_pct") or 0.0
    if share < 0.2 or (verdict.id != "latency-bound" and unit < 50):
        return None
    sent = facts.number("l1_to_l2_bytes")
    sent_share = min(1.0, 32 * sectors / sent) if sent else share

    def factor(name: str) -> float:
        if name.startswith("lts__d_atomic"):
            return 0.0
        if name.startswith(("lts__xbar2lts", "l1tex__m_l1tex2xbar")):
            return 1 - sent_share
        return 1 - share if name.startswith(("lts__", "ltc__", "l1tex__", "sm__mio", "sm__inst_executed_pipe")) else 1.0

    requests = sum_of(facts, "global_atom_requests", "global_red_requests")
    params = {"share_pct": 100 * share, "turns": sectors / requests if requests else None}
    concept = "global_atom_sectors" if facts.number("global_atom_sectors") else "global_red_sectors"
    evidence = (facts.evidence(concept, 0.2 * total), facts.evidence("l2_sectors_from_l1"))
    variant = "" if requests else "uncounted"
    return Hit(0.6 if share >= 0.5 else 0.5, facts.bound(factor), evidence, params, variant)


def _shared_atomics(facts: Facts, verdict: Verdict) -> Hit | None:
    executed, turns = facts.number("shared_atom_inst"), facts.number("shared_atom_wavefronts")
    total = facts.number("shared_all_wavefronts")
    if not executed or not turns or not total or turns < 1.5 * executed or turns < 0.3 * total:
        return None
    waits = (facts.stall_share("short_scoreboard") or 0) + (facts.stall_share("mio_throttle") or 0)
    leads = verdict.id == "memory-bound" and verdict.level == "l1"
    full = leads and facts.levels.get("l1", 0.0) >= ROOF_PCT
    if not full and not (waits > 0.3 and (leads or verdict.id == "latency-bound")):
        return None
    share = min(1.0, turns / total)
    # Where the hardware has no such atomic a loop of load and compare-and-swap stands for it, and goes as a whole.
    looped = min(executed, facts.number("shared_load_wavefronts") or 0.0)
    kept = max(0.0, 1 - (turns + looped) / total)
    bound = facts.bound(lambda name: kept if name.startswith(("l1tex__data", "l1tex__lsu", "sm__")) else 1.0)
    params = {"share_pct": 100 * share, "turns": turns / executed}
    evidence = (facts.evidence("shared_atom_wavefronts", 0.3 * total), facts.evidence("shared_atom_inst"))
    return Hit(0.6 if full else 0.5, bound, evidence, params, "shared")


# ------
# Host memory and compression
# ------

_GRACE = re.compile(r"\bG[HB][23]00\b|Grace")
_C2C_BYTES_PER_S = 450e9
"""One direction of the link between a Grace processor and its GPU (NVIDIA's data sheet)."""


def _has_own_memory(facts: Facts) -> bool:
    return not facts.number("device_integrated") and not re.search(r"Orin|Thor|Xavier|GB10\b|Tegra", facts.device.name)


@rule(
    "sysmem-traffic",
    "memory",
    needs=("sysmem_miss_sectors|peer_miss_sectors", "duration"),
    uses=(
        "sysmem_miss_sectors", "peer_miss_sectors", "device_miss_sectors", "pcie_write_bytes_per_s", "l1_to_l2_bytes",
        "dram_pct", "dram_peak_bytes_per_s", "device_integrated",
    ),
    effects=_WAITS,
    applies=lambda facts: _has_own_memory(facts) and facts.identity.op_class != "communication",
)  # fmt: skip
def sysmem_traffic(facts: Facts, verdict: Verdict) -> Hit | None:
    """Over 40 % of what misses in L2 (NVIDIA's line) comes from the host's or another GPU's memory, at 1 GB/s or more.

    Writes to the host do not miss in L2; they show as PCIe writes of 5 GB/s or more that are 40 % of what the SMs
    write. Only where nothing on the GPU is busy. On an H200 a sum over pinned host memory took 46 times as long.
    """
    duration = (facts.number("duration") or 0.0) / 1e9
    if not duration or facts.is_short or verdict.id not in ("latency-bound", "unknown", "launch-bound"):
        return None
    host, peer = facts.number("sysmem_miss_sectors") or 0.0, facts.number("peer_miss_sectors") or 0.0
    misses = host + peer + (facts.number("device_miss_sectors") or 0.0)
    far, written = 32 * (host + peer), (facts.number("pcie_write_bytes_per_s") or 0.0) * duration
    if misses and far / 32 > 0.4 * misses and far / duration >= 1e9:
        variant, moved = "peer" if peer > host else "", far
        concept = "peer_miss_sectors" if peer > host else "sysmem_miss_sectors"
        evidence = (facts.evidence(concept, 0.4 * misses),)
    elif written >= 5e9 * duration and written >= 0.4 * (facts.number("l1_to_l2_bytes") or written * 9):
        variant, moved = "write", written
        evidence = (facts.evidence("pcie_write_bytes_per_s", 5e9),)
    else:
        return None
    rate, peak = moved / duration, facts.number("dram_peak_bytes_per_s")
    # The same bytes then come from DRAM.
    dram = None if not peak else (facts.number("dram_pct") or 0.0) + 100 * rate / peak
    busiest = max([*facts.busy.values(), *([] if dram is None else [dram])], default=0.0)
    bound = max(1.0, 100 / busiest) if busiest and dram is not None else None
    confidence = 0.8 if variant == "" else 0.5
    if _GRACE.search(facts.device.name) and variant != "peer":
        # The link is fast there: it can be the limit only by its own speed.
        confidence /= 2
        bound = bound if bound is None or not peak else min(bound, max(1.0, peak / _C2C_BYTES_PER_S))
    params = {"bytes": moved, "rate": rate, "share_pct": 100 * far / 32 / misses if misses else 0.0}
    return Hit(confidence, bound, evidence, params, variant)


@rule(
    "l2-compression",
    "memory",
    needs=("l2_compression_success_pct", "l2_compression_input_sectors", "l2_sectors"),
    uses=("dram_pct",),
    applies=lambda facts: (8, 0) <= (facts.device.compute_capability or (0, 0)) < (9, 0) and _has_own_memory(facts),
)
def l2_compression(facts: Facts, verdict: Verdict) -> Hit | None:
    """Memory was allocated compressible and under 20 % of its sectors compress (NVIDIA's L2Compression rule, cc 8.x).

    At least a tenth of L2's sectors must be tried. What it costs cannot be read off, so there is no bound. In no report
    seen does any kernel use such memory.
    """
    success, tried = facts.number("l2_compression_success_pct"), facts.number("l2_compression_input_sectors")
    total = facts.number("l2_sectors")
    if success is None or success >= 20 or not tried or not total or tried < 0.1 * total or facts.is_short:
        return None
    evidence = (facts.evidence("l2_compression_success_pct", 20.0), facts.evidence("l2_compression_input_sectors"))
    return Hit(0.4, None, evidence, {"success_pct": success, "tried_pct": min(100.0, 100 * tried / total)})
