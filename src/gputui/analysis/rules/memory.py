"""Where the bytes go: a full level of the memory, and traffic that need not be."""

from __future__ import annotations

from collections.abc import Callable

from gputui.analysis.facts import Facts
from gputui.analysis.finding import Evidence, Verdict
from gputui.analysis.rules import Hit, rule
from gputui.analysis.verdict import DRAM_FULL_PCT

_LATENCY_EFFECTS = (
    "stall-long-scoreboard", "issue-slots", "occupancy-achieved", "l1-bandwidth", "l2-bandwidth", "dram-bandwidth",
)  # fmt: skip

DRAM_REACHABLE_PCT = 93.0
"""The DRAM use of the best plain copies: 88-96 % on the GPUs seen."""


@rule(
    "dram-bandwidth",
    "memory",
    needs=("dram_pct|dram_read_pct|dram_write_pct",),
    uses=("dram_bytes_per_s", "dram_bytes", "dram_peak_bytes_per_s"),
    effects=("stall-long-scoreboard", "issue-slots", "occupancy-achieved"),
)
def dram_bandwidth(facts: Facts, verdict: Verdict) -> Hit | None:
    """DRAM at 75 % or more (kernels at 77 % are bandwidth-limited), or the level that holds a memory-bound kernel.

    Fewer bytes are not all that helps while the best copies are 10 % faster: until there more loads in flight do too.
    Where DRAM is not full something else may hold the kernel beside it.
    """
    dram = facts.levels.get("dram")
    if not dram or facts.is_short:
        return None
    if dram < DRAM_FULL_PCT and not (verdict.id == "memory-bound" and verdict.level == "dram"):
        return None
    params = {
        "dram_pct": dram,
        "rate": facts.number("dram_bytes_per_s"),
        "bytes": facts.number("dram_bytes"),
        "peak": facts.number("dram_peak_bytes_per_s"),
    }
    bytes_unknown = any(params[name] is None for name in ("rate", "bytes", "peak"))
    bound = max(1.0, min(DRAM_REACHABLE_PCT / dram, 100 / (facts.busiest or 1.0)))
    params["gain"] = bound
    if facts.dram_is_at_least:
        variant = "one-way"
    elif dram < DRAM_FULL_PCT:
        variant = "partly"
    elif bound >= 1.1:
        variant = "room"
    else:
        variant = "bytes-unknown" if bytes_unknown else ""
    evidence = (facts.evidence("dram_pct|dram_read_pct|dram_write_pct", DRAM_FULL_PCT),)
    return Hit(0.6 if dram < DRAM_FULL_PCT else 0.9, bound, evidence, params, variant)


@rule(
    "l2-bandwidth",
    "memory",
    needs=("l2_pct",),
    uses=("l2_load_sectors", "l2_store_sectors"),
    effects=("stall-long-scoreboard", "issue-slots"),
)
def l2_bandwidth(facts: Facts, verdict: Verdict) -> Hit | None:
    """A full L2 is never done: its traffic falls with reuse in registers and shared memory."""
    if verdict.id != "memory-bound" or verdict.level != "l2" or facts.is_short:
        return None
    bound = facts.bound(lambda name: 0.0 if name.startswith(("lts__", "ltc__", "syslts__")) else 1.0)
    params = {"l2_pct": facts.levels["l2"], "dram_pct": facts.levels.get("dram")}
    to_l2, from_l2 = (_busy(facts, f"lts__{way}_cycles_active") for way in ("xbar2lts", "lts2xbar"))
    params |= {"to_l2_pct": to_l2, "from_l2_pct": from_l2}
    variant = "writes" if _writes(facts, to_l2, from_l2) else _alone(facts)
    return Hit(0.5, bound, (facts.evidence("l2_pct", 60.0),), params, variant)


def _writes(facts: Facts, to_l2: float | None, from_l2: float | None) -> bool:
    """The way to L2 is at least half as busy again as the way back (heuristic), and as many sectors are stored as
    loaded, side by side: requests of scattered loads and stores fill that way too."""
    stored, loaded = facts.number("l2_store_sectors"), facts.number("l2_load_sectors")
    used = facts.number("store_bytes_per_sector_pct")
    if to_l2 is None or from_l2 is None or stored is None or loaded is None or (used and used < 80):
        return False
    return to_l2 >= 1.5 * from_l2 and stored >= loaded


def _busy(facts: Facts, unit: str) -> float | None:
    """How busy this part of the breakdowns is."""
    return max((pct for name, pct in facts.busy.items() if name.startswith(unit)), default=None)


_ACCESSES = (
    "LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST", "LDSM", "STSM", "TEX", "TLD", "TLD4", "SULD", "SUST",
)  # fmt: skip
"""Instructions that go through L1 or shared memory, and that wider ones or reuse in registers save."""


TURNS = 4.5
"""A warp's access of 16 bytes a thread takes 4 turns in L1 or shared memory, the most that lie side by side."""


@rule(
    "l1-bandwidth",
    "memory",
    needs=("l1_elapsed_pct|l1_pct",),
    uses=("tma_load_inst",),
    effects=("issue-slots",),
)
def l1_bandwidth(facts: Facts, verdict: Verdict) -> Hit | None:
    """The load/store unit or L1 and shared memory hold the kernel: fewer, wider accesses help. Those saved leave their
    issue slots to the rest.

    Where the data unit works on over 4.5 times what requests take, it is not their number: each takes many turns. Turns
    have a peak of one a cycle, requests of one (A100, H100) or a half (GA10x, where accesses of one turn show half as
    much), so that the ratio of the two is the least number of turns. Not of kernels with tensor work or bulk copies:
    these take turns without such requests.
    """
    if verdict.id != "memory-bound" or verdict.level != "l1" or facts.is_short:
        return None
    l1 = max(facts.levels.get("l1", 0.0), facts.sm or 0.0 if facts.moves_data else 0.0)
    others = 1.0 - facts.opcode_count(*_ACCESSES) / (sum(facts.opcodes.values()) or 1.0)

    def factor(name: str) -> float:
        if name.startswith(("l1tex__", "sm__mio", "sm__inst_executed_pipe_lsu")):
            return 0.0
        return others if name.startswith(("sm__issue", "sm__inst_issued", "sm__inst_executed.")) else 1.0

    bound = facts.bound(factor)
    concepts = "sm_pct" if facts.moves_data and l1 == facts.sm else "l1_elapsed_pct|l1_pct"
    wavefronts, requests = _busy(facts, "l1tex__data_pipe_lsu_wavefronts"), _busy(facts, "l1tex__lsuin_requests")
    turns = wavefronts / requests if wavefronts and requests else None
    params = {"l1_pct": l1, "dram_pct": facts.levels.get("dram"), "turns": turns}
    counted = not facts.tensor and not facts.number("tma_load_inst")
    many = turns is not None and turns > TURNS and counted and wavefronts == _busy(facts, "l1tex__")
    return Hit(0.55, bound, (facts.evidence(concepts, 60.0),), params, "turns" if many else _alone(facts))


def _alone(facts: Facts) -> str:
    """GPUs that share the computer's memory count no DRAM: then nothing is said of it."""
    return "" if "dram" in facts.levels else "alone"


class _Pattern:
    """How well one direction of the global accesses uses the 32-byte sectors that it moves.

    ``used`` is the used share of the bytes moved (0-1), ``share`` this direction's part of all global sectors.
    """

    def __init__(self, facts: Facts, direction: str) -> None:
        other = "store" if direction == "load" else "load"
        sectors = {d: facts.number(f"global_{d}_sectors") or 0.0 for d in ("load", "store")}
        requests = facts.number(f"global_{direction}_requests")
        # Bulk copies (TMA) are no part of the global sectors but fill L2's: against them a few odd loads are nothing.
        total = max(sum(sectors.values()), facts.number("l2_sectors_from_l1") or 0.0)
        self.sectors = sectors[direction]
        self.share = self.sectors / total if total else 0.0
        self.per_request = self.sectors / requests if requests else None
        self.l2_requests = tuple(facts.number(f"l2_{d}_requests") for d in (direction, other))
        self.evidence: tuple[Evidence, ...] = ()
        self.used = self._used(facts, direction, other, sectors)
        # Of the sectors that L1 fetches, the threads' own bytes fill at most this part: loads that hit in L1 use the
        # rest of a sector that is there already.
        hits = facts.number("global_load_hit_pct") or facts.number("l1_hit_pct") or 0.0
        below = (self.used or 0.0) / max(0.01, 1 - hits / 100)
        self.used_below = min(1.0, below) if direction == "load" else self.used or 0.0

    def _used(self, facts: Facts, direction: str, other: str, sectors: dict[str, float]) -> float | None:
        got, most = (facts.number(f"{direction}_bytes_per_sector{part}") for part in ("", "_max"))
        # 0: all of them are asynchronous copies (LDGSTS), whose bytes this counter leaves out.
        if got and most:
            self.evidence = (facts.evidence(f"{direction}_bytes_per_sector", 0.8 * most),)
            return got / most
        share = facts.number(f"{direction}_bytes_per_sector_pct")
        if share:
            self.evidence = (facts.evidence(f"{direction}_bytes_per_sector_pct", 80.0),)
            return share / 100
        excess, total = facts.number("l2_sectors_global_excess"), facts.number("l2_sectors_global")
        if excess is None or not total or not self.sectors:
            return None
        # These count both directions together: the sectors are divided as the measured ones are, and the excess belongs
        # to the direction that needs more sectors a request, what exceeds that one's sectors to the other.
        rates = {d: facts.number(f"{d}_sectors_per_request") or 0.0 for d in ("load", "store")}
        parts = {d: total * sectors[d] / sum(sectors.values()) for d in ("load", "store")}
        wasteful = direction if rates[direction] >= rates[other] else other
        # A request needs one sector at least, so it cannot waste them all.
        most_wasted = {d: parts[d] * (1 - 1 / max(1.0, rates[d])) for d in parts}
        taken = min(excess, most_wasted[wasteful])
        own = taken if wasteful == direction else min(excess - taken, most_wasted[direction])
        if self.per_request is not None:
            self.per_request *= parts[direction] / self.sectors
        self.evidence = (facts.evidence("l2_sectors_global_excess", 0.2 * total), facts.evidence("l2_sectors_global"))
        return max(0.0, 1 - own / parts[direction])


_PATTERN_USES = (
    "global_load_requests", "global_store_requests", "load_sectors_per_request", "store_sectors_per_request",
    "load_bytes_per_sector_max", "store_bytes_per_sector_max", "l1_hit_pct", "dram_pct", "dram_read_bytes",
    "dram_write_bytes", "dram_bytes", "global_load_sectors", "global_store_sectors", "global_load_hit_pct",
    "l2_sectors_from_l1", "l2_sectors_global", "l2_to_l1_bytes", "global_atom_sectors", "global_red_sectors",
    "stall_long_scoreboard", "stall_lg_throttle", "stall_membar", "stall_drain", "stall_barrier", "warp_latency",
    "l2_load_sectors", "l2_store_sectors", "l2_load_requests", "l2_store_requests", "local_load_inst",
    "load_bytes_per_sector_pct", "store_bytes_per_sector_pct",
    "local_store_inst", "tma_load_inst", "texture_sectors",
)  # fmt: skip


_FULL_WIDTHS = (1, 2, 4, 8, 16)
"""Sectors that a whole warp's access side by side fills, by 1, 2, 4, 8 and 16 bytes a thread."""


def _counted_in_l2(facts: Facts, direction: str) -> Hit | None:
    """What L2's sectors tell where no counter tells the bytes used: too many for each access of a warp.

    NVIDIA's section MemoryWorkloadAnalysis_Chart counts nothing else. A whole warp's access fills 4, 8 or 16 sectors,
    and one more where it starts inside one: more than 5.2 that fits none of these is scattered (one colour of pixels of
    3 floats: 12). Stores of unlike widths and warps that are not full can come to the same, so it is never sure. L1
    takes sectors from loads: those count only above 17.2, more than any full load. How much time goes is not known.
    """
    requests, sectors = facts.number(f"global_{direction}_requests"), facts.number(f"l2_{direction}_sectors")
    others = ("local_load_inst", "local_store_inst", "tma_load_inst", "texture_sectors")
    if not requests or not sectors or facts.is_short or any(map(facts.number, others)):
        return None
    rate = sectors / requests
    fits = any(width - 0.4 <= rate <= width + 1.2 for width in _FULL_WIDTHS)
    if rate > 32 or fits or rate < (17.2 if direction == "load" else 5.2):
        return None
    params = dict.fromkeys(("used_pct", "used_bytes", "ideal", "wasted_pct"), None) | {"sectors": rate}
    evidence = (facts.evidence(f"l2_{direction}_sectors"), facts.evidence(f"global_{direction}_requests"))
    return Hit(0.45 if rate > 17.2 else 0.35, None, evidence, params, "l2")


def _uncoalesced(facts: Facts, verdict: Verdict, direction: str) -> Hit | None:
    """Under 80 % of the moved bytes used, in a direction with at least 5 % of the global sectors."""
    pattern = _Pattern(facts, direction)
    if pattern.used is None or pattern.used >= 0.8 or pattern.share < 0.05 or facts.is_short:
        return None
    # No counter tells the bytes that asynchronous copies use; whole lines are charged for the short rows of a tile.
    if direction == "load" and facts.opcode_count("LDGSTS") > facts.opcode_count("LDG"):
        return None
    share = pattern.share
    factor = _without_waste(facts, pattern, direction)
    confidence = 0.85 if verdict.id == "memory-bound" else 0.6 * min(1.0, 2 * share)
    # Sectors that L1 serves again cost little (float4 row loads on an H100: +3 % DRAM bytes), and gathers are irregular
    # by nature.
    absorbed = direction == "load" and pattern.used_below >= 0.8 and facts.level != "l1"
    bound = facts.bound(factor)
    if absorbed and bound is not None:
        bound = min(bound, facts.relief(factor))
    # Where no level is full the accesses cost what warps wait for them.
    waited = _waited_for(facts, direction)
    if verdict.id == "latency-bound" and bound is not None and waited is not None:
        bound = min(bound, max(1 / (1 - waited), facts.relief(factor)))
    if absorbed or facts.identity.op_class in ("embedding", "sparse", "sort-scan"):
        confidence /= 2
    ideal = None if pattern.per_request is None else max(1.0, pattern.per_request * pattern.used)
    params = {
        "used_pct": 100 * pattern.used,
        "used_bytes": 32 * pattern.used,
        "sectors": pattern.per_request,
        "ideal": ideal,
        "wasted_pct": 100 * (1 - pattern.used),
    }
    # A few threads at a time: the sectors a request say nothing, the bytes used do.
    few = pattern.per_request is not None and ideal is not None and pattern.per_request - ideal < 1
    return Hit(confidence, bound, pattern.evidence, params, "absorbed" if absorbed else "few" if few else "")


def _waited_for(facts: Facts, direction: str) -> float | None:
    """The share (0-1) of the warps' time that waits for global accesses take; ``None`` where it is not told.

    Loads: the data and the queue. Stores are waited for when the queue is full, at a fence and at the end. At a barrier
    a warp waits for what another one waits for, so that time is divided as the rest is.
    """
    reasons = ("long_scoreboard",) if direction == "load" else ("membar", "drain")
    shares = [facts.stall_share(reason) for reason in (*reasons, "lg_throttle")]
    known = [share for share in shares if share is not None]
    elsewhere = 1 - min(0.99, facts.stall_share("barrier") or 0.0)
    return min(0.99, sum(known) / elsewhere) if known else None


def _without_waste(facts: Facts, pattern: _Pattern, direction: str) -> Callable[[str], float]:
    """To what part of itself each unit's work shrinks once this direction moves only the bytes that it uses."""
    used, used_below, share = pattern.used or 0.0, pattern.used_below, pattern.share
    fills, dram = (
        _dram_without_waste(facts, pattern) if direction == "store" else (used_below, _reads(facts, used_below))
    )
    requests, packets = _requests_without_waste(facts, pattern, direction)

    def factor(name: str) -> float:
        if name.startswith(("dram__", "fbpa__", "gpu__dram")):
            return dram
        if name.startswith("lts__d_sectors_fill"):
            return fills
        if name.startswith(("lts__lts2xbar", "l1tex__m_xbar2l1tex")):
            return used_below if direction == "load" else 1.0
        if name.startswith(("lts__xbar2lts", "l1tex__m_l1tex2xbar")):
            return packets
        if name.startswith("lts__t_tag_requests"):
            return requests
        if name.startswith(("lts__", "ltc__")):
            return 1 - (1 - used_below) * share
        if name.startswith("l1tex__"):
            return 1 - (1 - used) * share
        return 1.0

    return factor


def _requests_without_waste(facts: Facts, pattern: _Pattern, direction: str) -> tuple[float, float]:
    """What remains of L2's requests, and of the way to L2, once this direction's accesses lie side by side.

    A request asks for up to 4 sectors of one 128-byte line. Scattered accesses need one for each sector, so that
    coalescing saves up to four times more of them than of the sectors. On the way to L2 travel the requests of both
    directions and the sectors of the stores: on an H200 that way is busy in proportion to their sum, for loads down
    columns as for stores 128 bytes apart (0.39 to 0.62 cycles each, whichever it is).
    """
    own, other = pattern.l2_requests
    sectors, stored = facts.number(f"l2_{direction}_sectors"), facts.number("l2_store_sectors")
    if not own or other is None or not sectors or stored is None:
        share = 1 - (1 - pattern.used_below) * pattern.share
        return share, pattern.used_below if direction == "store" else 1.0
    kept = min(own, pattern.used_below * sectors / 4)
    wasted = (1 - pattern.used_below) * sectors if direction == "store" else 0.0
    saved = own - kept
    return 1 - saved / (own + other), 1 - (saved + wasted) / (own + other + stored)


def _reads(facts: Facts, used_below: float) -> float:
    """DRAM's part that remains of loads which use this share of what L2 brings."""
    read, both = facts.number("dram_read_bytes"), facts.number("dram_bytes")
    return 1 - (1 - used_below) * (min(1.0, read / both) if read is not None and both else 1.0)


def _dram_without_waste(facts: Facts, pattern: _Pattern) -> tuple[float, float]:
    """What remains of L2's fills and of DRAM's bytes once each store fills its sectors.

    L2 merges the parts of a sector that come soon after one another: a transpose's column-wise stores waste no DRAM.
    Where the writes to DRAM are more than the stored bytes they were not merged, and each half-written sector was read
    first (4-byte stores 32 bytes apart on an H200: as many bytes read as written, and nothing loaded).
    """
    read, written = facts.number("dram_read_bytes"), facts.number("dram_write_bytes")
    if pattern.used is None or read is None or not written:
        return 1.0, 1.0
    moved = 32 * pattern.sectors
    kept = max(written - moved * (1 - pattern.used), min(written, moved * pattern.used))
    wanted = bytes_asked_for(facts)
    fills = 0.0 if wanted is None else min(max(0.0, read - wanted), moved)
    return (1 - fills / read if read else 1.0), (read - fills + kept) / (read + written)


def bytes_asked_for(facts: Facts) -> float | None:
    """The bytes that the SMs wanted from L2: what it sent them, and the sectors that atomics read inside it."""
    sent = facts.number("l2_to_l1_bytes")
    return None if sent is None else sent + 32 * (sum_of(facts, "global_atom_sectors", "global_red_sectors") or 0.0)


@rule(
    "uncoalesced-load",
    "memory",
    needs=("load_bytes_per_sector|l2_sectors_global_excess", "global_load_sectors", "global_load_requests"),
    otherwise=lambda facts, verdict: _counted_in_l2(facts, "load"),
    uses=_PATTERN_USES,
    effects=(*_LATENCY_EFFECTS, "stall-lg-throttle", "redundant-traffic"),
)
def uncoalesced_load(facts: Facts, verdict: Verdict) -> Hit | None:
    return _uncoalesced(facts, verdict, "load")


@rule(
    "uncoalesced-store",
    "memory",
    needs=("store_bytes_per_sector|l2_sectors_global_excess", "global_store_sectors", "global_store_requests"),
    otherwise=lambda facts, verdict: _counted_in_l2(facts, "store"),
    uses=_PATTERN_USES,
    effects=(*_LATENCY_EFFECTS, "stall-lg-throttle", "stall-drain", "redundant-traffic"),
)
def uncoalesced_store(facts: Facts, verdict: Verdict) -> Hit | None:
    return _uncoalesced(facts, verdict, "store")


@rule(
    "partial-sectors",
    "memory",
    needs=(
        "load_bytes_per_sector|store_bytes_per_sector|l2_sectors_global_excess",
        "global_load_sectors|global_store_sectors", "global_load_requests|global_store_requests",
    ),
    uses=_PATTERN_USES,
    effects=("l2-bandwidth", "l1-bandwidth", "stall-lg-throttle", "issue-slots"),
)  # fmt: skip
def partial_sectors(facts: Facts, verdict: Verdict) -> Hit | None:
    """A warp's whole row of 4, 8 or 16 sectors that takes one more, because it starts inside a sector.

    From 80 % of the bytes used, so never together with the uncoalesced findings. Mostly it costs nothing: the
    neighbouring warp needs the shared sector too, and L1 has it (a copy shifted by 4 bytes on an H200: 3 % slower).
    Stores have no such luck where L2 is the limit: a fill shifted by 4 bytes took 1.6 times as long. Told only where
    the busiest unit is relieved.
    """
    best: Hit | None = None
    for direction in ("load", "store"):
        pattern = _Pattern(facts, direction)
        ideal = _whole_row(pattern)
        if ideal is None or pattern.used is None or pattern.share < 0.05 or facts.is_short:
            continue
        gain = facts.relief(_aligned(_without_waste(facts, pattern, direction), direction, ideal))
        if gain < 1.02 or (best is not None and gain <= (best.max_speedup or 1.0)):
            continue
        params = {"sectors": pattern.per_request, "ideal": ideal, "used_pct": 100 * pattern.used}
        confidence = 0.6 if verdict.id == "memory-bound" else 0.4
        best = Hit(confidence, gain, pattern.evidence, params, "store" if direction == "store" else "")
    return best


def _whole_row(pattern: _Pattern) -> int | None:
    """The sectors of a row of 32 aligned accesses of 4, 8 or 16 bytes, where the pattern takes one more than that."""
    if pattern.used is None or not 0.8 <= pattern.used < 0.97 or pattern.per_request is None:
        return None
    needed = pattern.per_request * pattern.used
    row = min((4, 8, 16), key=lambda sectors: abs(sectors - needed))
    return row if abs(row - needed) <= 0.1 * row and 0.5 <= pattern.per_request - needed <= 1.2 else None


def _aligned(factor: Callable[[str], float], direction: str, ideal: int) -> Callable[[str], float]:
    """On their way to L2 the two half-filled sectors of a store take as long as four full ones (measured: 3.5)."""

    def with_edges(name: str) -> float:
        if direction == "store" and name.startswith(("lts__xbar2lts", "l1tex__m_l1tex2xbar", "lts__t_tag_requests")):
            return ideal / (ideal + 3)
        return factor(name)

    return with_edges


@rule(
    "bank-conflicts",
    "memory",
    needs=("shared_wavefronts_excess|shared_load_conflicts",),
    uses=(
        "shared_wavefronts", "shared_nway", "shared_load_conflicts", "shared_store_conflicts",
        "shared_load_wavefronts", "shared_store_wavefronts", "stall_short_scoreboard", "stall_mio_throttle",
        "warp_latency",
    ),
    effects=("l1-bandwidth", "issue-slots", "stall-short-scoreboard", "stall-mio-throttle"),
)  # fmt: skip
def bank_conflicts(facts: Facts, verdict: Verdict) -> Hit | None:
    """At least 10 % of the shared-memory wavefronts are repeats. The per-instruction excess decides where it is there:
    the conflict counters include arbitration with other accesses and the needs of wide loads."""
    wavefronts = facts.number("shared_wavefronts")
    excess = facts.number("shared_wavefronts_excess")
    if excess is not None and wavefronts:
        share, concept = excess / wavefronts, "shared_wavefronts_excess"
    else:
        conflicts = sum_of(facts, "shared_load_conflicts", "shared_store_conflicts")
        counted = sum_of(facts, "shared_load_wavefronts", "shared_store_wavefronts")
        if not counted or conflicts is None:
            return None
        share, wavefronts, concept = conflicts / counted, counted, "shared_load_conflicts|shared_store_conflicts"
    if share < 0.10 or facts.is_short:
        return None
    waits = (facts.stall_share("short_scoreboard") or 0) + (facts.stall_share("mio_throttle") or 0)
    leads = facts.level == "l1" or facts.moves_data
    bound = facts.bound(lambda name: 1 - share if name.startswith("l1tex__data") else 1.0)
    if not leads and not (verdict.id == "latency-bound" and waits > 0.3):
        bound = 1.0
    elif verdict.id == "latency-bound" and bound is not None:
        # What is not spent waiting for shared memory stays.
        bound = min(bound, 1 / (1 - min(0.99, waits)))
    params = {"share_pct": 100 * share, "nway": facts.number("shared_nway") or 1 / (1 - min(share, 0.97))}
    return Hit(0.85 if leads else 0.5, bound, (facts.evidence(concept, 0.10 * wavefronts),), params)


def sum_of(facts: Facts, *concepts: str) -> float | None:
    """The sum of those that the report has; ``None`` where it has none."""
    values = [value for value in map(facts.number, concepts) if value is not None]
    return sum(values) if values else None


@rule(
    "register-spill",
    "memory",
    needs=("local_load_sectors|local_store_sectors", "local_load_inst|local_store_inst"),
    uses=(
        "spill_pct",
        "local_load_sectors", "local_store_sectors", "local_load_inst", "local_store_inst", "global_load_sectors",
        "global_store_sectors", "inst_executed", "registers_per_thread", "stall_long_scoreboard", "stall_lg_throttle",
        "warp_latency",
    ),
    effects=(
        "stall-long-scoreboard", "stall-lg-throttle", "issue-slots", "l1-bandwidth", "l2-bandwidth", "dram-bandwidth",
        "uncoalesced-load",
    ),
)  # fmt: skip
def register_spill(facts: Facts, verdict: Verdict) -> Hit | None:
    """Local memory is over 5 % of the L1 sectors and at least 1 % of the instructions (two guards: small spills that
    stay in L1 are harmless).

    Newer reports tell which part of its requests are spills (H200: 100 % with capped registers, 0 % with an array
    indexed by a variable). Without that: from 65 registers on spills are as likely as such arrays; with fewer the
    compiler had registers left unless it was told to use no more.
    """
    local = sum_of(facts, "local_load_sectors", "local_store_sectors")
    other = sum_of(facts, "global_load_sectors", "global_store_sectors") or 0.0
    moved, executed = sum_of(facts, "local_load_inst", "local_store_inst"), facts.number("inst_executed")
    if not local or not moved or not executed or facts.is_short:
        return None
    share, inst_share = local / (local + other), moved / executed
    if share <= 0.05 or inst_share < 0.01:
        return None

    def factor(name: str) -> float:
        if name.startswith(
            ("sm__inst_executed_pipe_lsu", "sm__mio", "l1tex__", "lts__", "ltc__", "dram__", "fbpa__", "gpu__dram")
        ):
            return 1 - share
        if name.startswith(("sm__", "idc__")):
            return 1 - inst_share
        return 1.0

    bound = facts.bound(factor)
    waits = (facts.stall_share("long_scoreboard") or 0) + (facts.stall_share("lg_throttle") or 0)
    if bound is not None and verdict.id != "memory-bound" and facts.number("warp_latency"):
        # What is not spent waiting for memory does not go away with the spills.
        bound = min(bound, 1 / (1 - min(0.99, waits * share)))
    spilled = facts.number("spill_pct")
    evidence: tuple[Evidence, ...] = (facts.evidence("local_load_sectors|local_store_sectors", 0.05 * (local + other)),)
    if spilled is not None:
        evidence += (facts.evidence("spill_pct", 50.0),)
    params = {
        "share_pct": 100 * share,
        "inst_pct": 100 * inst_share,
        "registers": facts.number("registers_per_thread"),
        "spill_pct": spilled,
    }
    return Hit(0.6 if spilled is None else 0.8, bound, evidence, params, _local(spilled, params["registers"]))


def _local(spilled: float | None, registers: float | None) -> str:
    """What is in local memory, as far as it is known; the number of registers goes into two of the texts."""
    if spilled is not None:
        return "" if spilled >= 50 else "indexed"
    if registers is None:
        return "unknown"
    return "unknown-few" if registers <= FEW_REGISTERS else "unknown-many"


FEW_REGISTERS = 64
"""With so few even a block of 1024 threads fits an SM, so the compiler seldom has to spill (heuristic)."""
