"""Work that is spread over several launches, or passes over its data several times, and need not be.

Most of these judge a group of launches and are told on each of them, with the same numbers; their bound is the group's:
its time now over what the fewest bytes (and the tensor operations) of one launch would need. A report that left
launches out (``ncu -k`` …) does not show which ran next to each other: then nothing is said of chains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gputui.analysis.facts import EMPTY_KERNEL_NS, Facts
from gputui.analysis.finding import Evidence, Verdict
from gputui.analysis.neighbours import identity_of, outermost_range, same_pass
from gputui.analysis.rules import Hit, rule
from gputui.analysis.rules.memory import DRAM_REACHABLE_PCT, sum_of
from gputui.analysis.rules.tensor import ATTENTION_REACHABLE
from gputui.analysis.transformer import is_decode_product, sizes_known, written_attention, written_bytes
from gputui.analysis.verdict import FULL_PCT
from gputui.model.kernel import Kernel

_BYTES = ("dram_read_bytes", "dram_write_bytes")
_GROUP_USES = ("duration", "dram_pct", "dram_bytes_per_s", "dram_peak_bytes_per_s", "global_store_sectors", *_BYTES)
_SUM_OF_TIMES = "sum of gpu__time_duration.sum over the launches"


@dataclass(frozen=True)
class _Group:
    """Launches that follow each other, each handing its result to the next."""

    kernels: tuple[Kernel, ...]

    @cached_property
    def indexes(self) -> tuple[int, ...]:
        return tuple(kernel.index for kernel in self.kernels)

    @cached_property
    def time(self) -> float:
        return sum(kernel.duration_ns or 0.0 for kernel in self.kernels)

    @cached_property
    def longest(self) -> Kernel:
        return max(self.kernels, key=lambda kernel: kernel.duration_ns or 0.0)

    @cached_property
    def passed_on(self) -> tuple[float, ...]:
        """What each launch but the last writes for the next."""
        return tuple(written_bytes(kernel) or 0.0 for kernel in self.kernels[:-1])

    @property
    def saved(self) -> float:
        """One write and one read of each intermediate result."""
        return 2 * sum(self.passed_on)

    @cached_property
    def moved(self) -> float:
        return sum(kernel.number(concept) or 0.0 for kernel in self.kernels for concept in _BYTES)

    @cached_property
    def most(self) -> float:
        """The bytes of the launch that moves most."""
        return max((kernel.number("dram_bytes") or 0.0 for kernel in self.kernels), default=0.0)

    @cached_property
    def remaining(self) -> float:
        """The least that one launch must move at DRAM: what the first reads, what the last writes, and what is new to
        the others. A read as large as something that the chain has read or written before may be that once more (the
        input of a norm, read for the sums and for the result), so it does not count."""
        seen = [self.kernels[0].number("dram_read_bytes") or 0.0]
        least = seen[0] + (self.kernels[-1].number("dram_write_bytes") or 0.0)
        for kernel, handed_on in zip(self.kernels[1:], self.passed_on, strict=True):
            new = (kernel.number("dram_read_bytes") or 0.0) - handed_on
            for size in sorted(seen, reverse=True):
                new -= size if size <= 1.05 * new else 0.0
            least += max(0.0, new)
            seen.append(handed_on)
        return least

    def bound(self, remaining: float, busy_ns: float = 0.0) -> float | None:
        """The time now over that of the remaining bytes at the rate that DRAM reaches, or of other work if longer."""
        peak = next(filter(None, map(_dram_peak, self.kernels)), None)
        needed = max(busy_ns, remaining / (peak * DRAM_REACHABLE_PCT / 100) * 1e9 if peak else 0.0)
        # However little it has to do, one launch takes as long as an empty one.
        return max(1.0, self.time / max(needed, EMPTY_KERNEL_NS)) if needed else None

    @cached_property
    def dram_pct(self) -> float | None:
        """How busy DRAM was over the group's time."""
        parts = [(kernel.duration_ns, kernel.number("dram_pct")) for kernel in self.kernels]
        if not self.time or any(time is None or pct is None for time, pct in parts):
            return None
        return sum((time or 0.0) * (pct or 0.0) for time, pct in parts) / self.time

    @property
    def params(self) -> dict[str, float | None]:
        return {
            "kernels": len(self.kernels),
            "time": self.time,
            "first": self.kernels[0].index + 1,
            "last": self.kernels[-1].index + 1,
        }

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return (Evidence(_SUM_OF_TIMES, self.time, "ns"),)


def _dram_peak(kernel: Kernel) -> float | None:
    """DRAM's top speed as this launch tells it."""
    peak = kernel.number("dram_peak_bytes_per_s")
    if peak:
        return peak
    rate, pct = kernel.number("dram_bytes_per_s"), kernel.number("dram_pct")
    return 100 * rate / pct if rate and pct else None


# ------------------------------------------------------------------ chains

_POINTWISE = frozenset({"elementwise", "random", "copy"})
_ROW_WISE = frozenset({"norm", "softmax", "reduction"})
_NO_STEP = frozenset({"fill", "concat", "mem_op", "kv_cache_write", "splitk_reduce", "user_copy", "pointwise_or_split"})
"""Kernels of those classes that are no step of a calculation, or whose name alone does not tell that they are."""
_MAY_CHAIN = ("aten", "triton", "cudnn", "user")
"""Inductor has fused what it could already."""


_NO_SIZE_BYTES = 1e6
"""What is smaller tells nothing: one number a row fills an eighth of each sector that it is counted as."""


def _linked(before: Kernel, after: Kernel) -> bool:
    """Whether the second launch is a step on what the first wrote, as far as names and sizes tell.

    One of the two works element by element. The second must read at least 80 % of what the first wrote. An author's
    own kernels of one kind after each other are more often variants under test than steps.
    """
    one, two = identity_of(before), identity_of(after)
    classes = (one.op_class, two.op_class)
    if not all(op_class in _POINTWISE or op_class in _ROW_WISE for op_class in classes):
        return False
    if not _POINTWISE & set(classes) or {one.detail, two.detail} & _NO_STEP:
        return False
    if one.library not in _MAY_CHAIN or two.library not in _MAY_CHAIN:
        return False
    if not same_pass(before, after):
        return False
    if "user" in (one.library, two.library) and one.op_class == two.op_class:
        return False
    written, read = written_bytes(before), after.number("dram_read_bytes")
    if written is None or read is None:
        return False
    return written < _NO_SIZE_BYTES or read >= 0.8 * written


def _chain(facts: Facts) -> _Group | None:
    """The chain that this kernel is in, where it has two different functions at least."""
    if facts.neighbours.filtered:
        return None
    kernels = facts.neighbours.run(_linked)
    if len({kernel.demangled for kernel in kernels}) < 2:
        return None
    return _group_of(facts, kernels)


def _group_of(facts: Facts, kernels: tuple[Kernel, ...]) -> _Group:
    """Worked out once, however many of its launches ask."""
    return facts.neighbours.launches.once(kernels, lambda: _Group(kernels))


def _may_be_in_chain(facts: Facts) -> bool:
    """Of such a class, with such a neighbour: a kernel that stands alone is in no chain, whatever the report lacks."""
    if facts.neighbours.filtered or facts.identity.op_class not in _POINTWISE | _ROW_WISE:
        return False
    beside = [kernel for kernel in (facts.neighbours.at(-1), facts.neighbours.at(1)) if kernel is not None]
    own = identity_of(facts.kernel)
    return own.library in _MAY_CHAIN and any(
        identity_of(kernel).op_class in _POINTWISE | _ROW_WISE
        and identity_of(kernel).library in _MAY_CHAIN
        and kernel.demangled != facts.kernel.demangled
        and _POINTWISE & {own.op_class, identity_of(kernel).op_class}
        for kernel in beside
    )


@rule("elementwise-chain", "fusion", needs=_BYTES, uses=_GROUP_USES, applies=_may_be_in_chain)
def elementwise_chain(facts: Facts, verdict: Verdict) -> Hit | None:
    """Launches that work element by element after each other (F1): at least 30 % of DRAM over their time, or each
    under 10 µs, and a tenth of the bytes saved. Told on each. The intermediate results may be needed elsewhere
    too (a residual): the bound leaves that out."""
    group = _chain(facts)
    if group is None or group.time < 5000:
        return None
    short = all((kernel.duration_ns or 0.0) < 10_000 for kernel in group.kernels)
    if not short and (group.dram_pct or 0.0) < 30:
        return None
    if group.saved < 0.1 * group.moved:
        return None
    bound = group.bound(group.remaining)
    sure = 0.6 if identity_of(group.longest).library == "aten" else 0.4
    confidence = sure if facts.neighbours.order_known else sure - 0.15
    params = {**group.params, "saved": group.saved, "steps": len(group.kernels) - 1}
    return Hit(confidence, bound, group.evidence, params, group=group.indexes)


def _written_out(group: _Group) -> bool:
    """A norm or softmax spelled as single operations: a reduction between elementwise steps, one of them a root,
    power or exponential."""
    identities = [identity_of(kernel) for kernel in group.kernels]
    details = {identity.detail for identity in identities}
    has_reduction = any(identity.op_class == "reduction" for identity in identities[:-1])
    return has_reduction and bool(details & {"rsqrt", "exp", "pow", "pow_tensor_scalar", "sqrt"})


def _is_row_operation(facts: Facts) -> bool:
    own = facts.identity
    if own.op_class in ("norm", "softmax"):
        backward = any(word in facts.kernel.name.lower() for word in ("backward", "bwd", "grad", "gamma"))
        return not backward and not {"add", "cat"} & set(own.operations)
    return own.op_class in _POINTWISE | {"reduction"} and _may_be_in_chain(facts)


@rule(
    "multi-pass-norm",
    "fusion",
    needs=_BYTES,
    uses=(*_GROUP_USES, "l2_sectors_from_l1", "local_load_sectors", "local_store_sectors"),
    effects=("elementwise-chain", "l2-bandwidth"),
    applies=_is_row_operation,
)
def multi_pass_norm(facts: Facts, verdict: Verdict) -> Hit | None:
    """A norm or softmax that reads its rows more than once (F2).

    Written out in several launches: a chain with a reduction and a root, power or exponential. In one launch: L1 asks
    L2 for at least 1.6 times what came from DRAM and 1.6 times what was written (the second pass hits L2), or DRAM
    delivers 2.5 times what was written (inputs in a wider type, or a second input, explain twice). A heuristic.
    """
    group = _chain(facts)
    if group is not None and _written_out(group) and len(group.kernels) >= 3:
        if group.time < 5000:
            return None
        confidence = 0.65 if facts.neighbours.order_known else 0.5
        params = {**group.params, "saved": group.saved, "passes": None}
        return Hit(confidence, group.bound(group.remaining), group.evidence, params, "chain", group.indexes)
    if facts.identity.op_class not in ("norm", "softmax") or facts.is_short:
        return None
    read, written = facts.number("dram_read_bytes"), written_bytes(facts.kernel)
    asked, stored = facts.number("l2_sectors_from_l1"), facts.number("global_store_sectors")
    spilled = sum_of(facts, "local_load_sectors", "local_store_sectors") or 0.0
    # Of a kernel over little data the weights and fixed costs count for more than its rows; spilled registers are read
    # and written as often as rows are.
    if not read or not written or min(read, written) < 1e6 or 32 * spilled > 0.05 * written:
        return None
    read_in_l2 = 32 * (asked - stored) if asked is not None and stored is not None else 0.0
    params = {"kernels": 1, "time": facts.kernel.duration_ns, "first": None, "last": None, "saved": None}
    by_dram = read >= 2.5 * written
    if not by_dram and read_in_l2 < 1.6 * max(read, written):
        return None
    # What remains is read once. A second input may be among what DRAM delivers beyond the size of the result; that it
    # all goes is the most that can be gained.
    kept = min(read, written)
    moved = read + (facts.number("dram_write_bytes") or written)
    asked_for = max(read, read_in_l2)
    parts = {
        ("dram__", "fbpa__", "gpu__dram"): 1 - (read - kept) / moved,
        ("lts__d_sectors_fill",): kept / read,
        ("lts__lts2xbar", "l1tex__m_xbar2l1tex"): kept / asked_for,
        ("lts__xbar2lts", "l1tex__m_l1tex2xbar"): 1.0,
        # L2's data banks work for what is asked and stored, and again for what DRAM delivers and takes.
        ("lts__d_sectors.",): (kept + written + moved - (read - kept)) / (asked_for + written + moved),
        ("lts__", "ltc__"): (kept + written) / (asked_for + written),
    }
    bound = facts.bound(lambda name: next((part for starts, part in parts.items() if name.startswith(starts)), 1.0))
    if by_dram:
        evidence = facts.evidence("dram_read_bytes", 2.5 * written)
        return Hit(0.45, bound, (evidence,), {**params, "passes": read / written})
    both = (facts.evidence("l2_sectors_from_l1"), facts.evidence("dram_read_bytes"))
    return Hit(0.6, bound, both, {**params, "passes": read_in_l2 / max(read, written)})


# ------------------------------------------------------------------ attention


@rule(
    "naive-attention",
    "fusion",
    uses=(*_GROUP_USES, "tensor_pct"),
    effects=("elementwise-chain", "multi-pass-norm", "dram-bandwidth", "l2-bandwidth", "compute-roof"),
    applies=lambda facts: facts.identity.op_class == "softmax" or bool(_attention_around(facts)),
)
def naive_attention(facts: Facts, verdict: Verdict) -> Hit | None:
    """Product, elementwise steps, softmax, elementwise steps, product (F3), with sizes that fit a sequence × sequence
    matrix (``written_attention``). One fused kernel keeps that matrix on the chip.

    The bound takes the matrix out of DRAM and keeps the products' tensor work, at the share of the tensor cores' rate
    that the best attention kernels reach: the softmax's own arithmetic stays in the way. Told on each launch.
    """
    group = _attention_around(facts)
    if not group:
        return None
    whole = _group_of(facts, group)
    if whole.time < 10_000:
        return None
    scores, values = group[0], group[-1]
    softmax = next(kernel for kernel in group if identity_of(kernel).op_class == "softmax")
    known = all(map(sizes_known, group))
    tensor = [_tensor_ns(kernel) for kernel in (scores, values)]
    busy = sum(time or 0.0 for time in tensor) / ATTENTION_REACHABLE
    bound, saved = (whole.bound(0.0, busy) if busy else None), None
    if known:
        matrix = written_bytes(softmax) or 0.0
        kept_of_values = max(0.0, (values.number("dram_read_bytes") or 0.0) - matrix)
        remaining = (scores.number("dram_read_bytes") or 0.0) + kept_of_values
        remaining += values.number("dram_write_bytes") or 0.0
        bound, saved = whole.bound(remaining, busy), max(0.0, whole.moved - remaining)
    confidence = 0.85 if known else 0.6
    if facts.neighbours.filtered:
        confidence *= 0.7
    elif not facts.neighbours.order_known:
        confidence -= 0.1
    variant = "filtered" if facts.neighbours.filtered else "" if known else "bytes-unknown"
    params = {**whole.params, "saved": saved}
    return Hit(confidence, bound, whole.evidence, params, variant, whole.indexes)


def _attention_around(facts: Facts) -> tuple[Kernel, ...]:
    """The launches of the written-out attention that this kernel is part of, if it is of one."""
    if facts.identity.op_class not in ("gemm", "softmax", "elementwise", "random", "copy", "transpose", "reduction"):
        return ()
    for offset in sorted(range(-5, 6), key=abs):
        kernel = facts.neighbours.at(offset)
        if kernel is None or identity_of(kernel).op_class != "softmax":
            continue
        group = written_attention(facts.neighbours.seen_from(kernel))
        if facts.kernel in group:
            return group
    return ()


def _tensor_ns(kernel: Kernel) -> float | None:
    """How long the tensor pipe works in a launch."""
    use = Facts(kernel).tensor
    return None if use is None or kernel.duration_ns is None else kernel.duration_ns * use / 100


# ------------------------------------------------------------------ copies

_LAYOUT_DETAILS = frozenset({"cast_copy", "layout_transform", "direct_copy", "bfloat16_copy", "float16_copy",
                             "float8_copy"})  # fmt: skip
_COPY_SHARE = 0.05


def _is_layout_copy(kernel: Kernel) -> bool:
    """A library's kernel that only changes type or order of its data. An author's own copy may be the work itself."""
    identity = identity_of(kernel)
    if identity.library not in ("aten", "cudnn", "inductor") or identity.op_class not in ("copy", "transpose"):
        return False
    return identity.detail in _LAYOUT_DETAILS or identity.library == "inductor" or identity.detail.endswith("copy")


@rule(
    "layout-copies",
    "fusion",
    uses=(
        "load_bytes_per_sector", "load_bytes_per_sector_max", "store_bytes_per_sector", "store_bytes_per_sector_max",
    ),
    effects=(
        "uncoalesced-load", "uncoalesced-store", "partial-sectors", "redundant-traffic", "l1-bandwidth", "l2-bandwidth",
        "dram-bandwidth", "stall-long-scoreboard", "issue-slots",
    ),
    applies=lambda facts: not facts.neighbours.filtered and _is_layout_copy(facts.kernel),
)  # fmt: skip
def layout_copies(facts: Facts, verdict: Verdict) -> Hit | None:
    """Type and layout changes are 5 % or more of the report's time, or of an outermost NVTX range's (F4).

    Told on the longest of them, and on each that scatters its loads or stores: a library's copy cannot be coalesced by
    its user, only done without. The bound is on the time of the whole report or range without these launches.
    """
    launches = facts.neighbours.launches
    for within in dict.fromkeys((None, outermost_range(facts.kernel))):
        copies, total = launches.share_of(_is_layout_copy, within)
        time = sum(kernel.duration_ns or 0.0 for kernel in copies)
        if total and _COPY_SHARE * total <= time < total and time >= 5000:
            break
    else:
        return None
    if facts.kernel is not _Group(copies).longest and not _scatters(facts):
        return None
    evidence = (Evidence(_SUM_OF_TIMES, time, "ns", _COPY_SHARE * total),)
    params = {"kernels": len(copies), "time": time, "share_pct": 100 * time / total}
    confidence = 0.6 if facts.neighbours.order_known else 0.5
    variant = "-".join(filter(None, ("range" if within else "", "one" if len(copies) == 1 else "")))
    return Hit(confidence, total / (total - time), evidence, params, variant)


def _scatters(facts: Facts) -> bool:
    """Whether it uses under 80 % of what it loads or stores: it reads along one dimension and writes along another."""
    for direction in ("load", "store"):
        got, most = (facts.number(f"{direction}_bytes_per_sector{part}") for part in ("", "_max"))
        if got and most and got < 0.8 * most:
            return True
    return False


# ------------------------------------------------------------------ optimizer


def _small_optimizer_step(before: Kernel, after: Kernel) -> bool:
    return _is_optimizer_step(before) and _is_optimizer_step(after) and same_pass(before, after)


def _is_optimizer_step(kernel: Kernel) -> bool:
    """One operation of an optimizer that takes several launches: ``foreach``, or elementwise in its NVTX range."""
    identity = identity_of(kernel)
    if identity.op_class == "optimizer":
        return identity.detail == "foreach"
    in_range = any("optimizer" in name.lower() for name in kernel.nvtx)
    return in_range and identity.library == "aten" and identity.op_class == "elementwise"


@rule(
    "unfused-optimizer",
    "fusion",
    uses=("duration", "dram_bytes", "dram_pct", "dram_bytes_per_s", "dram_peak_bytes_per_s"),
    effects=("elementwise-chain",),
    applies=lambda facts: not facts.neighbours.filtered and _is_optimizer_step(facts.kernel),
)
def unfused_optimizer(facts: Facts, verdict: Verdict) -> Hit | None:
    """Five or more launches of an optimizer's single operations in a row (F5). Told on each.

    The bound: one launch must move at least the bytes of the largest of them."""
    group = _group_of(facts, facts.neighbours.run(_small_optimizer_step))
    if len(group.kernels) < 5 or group.time < 5000:
        return None
    bound = group.bound(group.most) if group.most else None
    confidence = 0.5 if facts.neighbours.order_known else 0.4
    return Hit(confidence, bound, group.evidence, group.params, group=group.indexes)


# ------------------------------------------------------------------ products

_BITS = {"fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8}


@rule(
    "gemv-decode",
    "fusion",
    needs=("dram_pct",),
    uses=_BYTES,
    effects=(
        "tensor-cores-unused",
        "small-grid",
        "dram-bandwidth",
        "l2-bandwidth",
        "stall-long-scoreboard",
        "issue-slots",
    ),
    applies=lambda facts: is_decode_product(facts, facts.roofline.arithmetic_intensity),
)
def gemv_decode(facts: Facts, verdict: Verdict) -> Hit | None:
    """A product of one or a few rows (``is_decode_product``) with DRAM at 60 % or more
    (F6): it reads its weights for little arithmetic, and that is as it must be. Weights in 4 bits are the bound."""
    dram = facts.levels.get("dram")
    if dram is None or dram < FULL_PCT or facts.is_short:
        return None
    bits = _BITS.get(facts.identity.precision or "")
    kept = 4 / bits if bits else None
    bound = facts.bound(lambda name: kept if _carries_weights(name) else 1.0) if kept else None
    return Hit(0.5, bound, (facts.evidence("dram_pct", FULL_PCT),), {"dram_pct": dram})


def _carries_weights(name: str) -> bool:
    return name.startswith(("dram__", "fbpa__", "gpu__dram", "lts__", "ltc__", "l1tex__m_"))


@rule(
    "splitk-overhead",
    "fusion",
    applies=lambda facts: not facts.neighbours.filtered and len(_split_product(facts)) == 2,
)
def splitk_overhead(facts: Facts, verdict: Verdict) -> Hit | None:
    """The launch that adds up a split product takes over 15 % of that product's time (F7). Told on both."""
    group = _Group(_split_product(facts))
    product, reduce = (kernel.duration_ns or 0.0 for kernel in group.kernels)
    if not product or reduce <= 0.15 * product or group.time < 5000:
        return None
    params = {**group.params, "share_pct": 100 * reduce / product, "reduce_time": reduce}
    return Hit(0.5, group.time / product, group.evidence, params, group=group.indexes)


def _split_product(facts: Facts) -> tuple[Kernel, ...]:
    """A matrix product and the launch that adds up its parts, where this kernel is one of the two."""
    kernel = facts.kernel
    if identity_of(kernel).detail == "splitk_reduce":
        before = facts.neighbours.at(-1)
        return (before, kernel) if before is not None and identity_of(before).op_class == "gemm" else ()
    after = facts.neighbours.at(1) if identity_of(kernel).op_class == "gemm" else None
    return (kernel, after) if after is not None and identity_of(after).detail == "splitk_reduce" else ()


# ------------------------------------------------------------------ gather


_WIDEST_LOAD = 16
"""Sectors of a warp's widest load: 16 bytes a thread."""


@rule(
    "irregular-gather",
    "fusion",
    needs=("load_bytes_per_sector", "load_bytes_per_sector_max"),
    uses=("stall_long_scoreboard", "warp_latency", "global_load_sectors", "global_load_requests"),
    effects=("uncoalesced-load", "stall-long-scoreboard", "issue-slots"),
    applies=lambda facts: facts.identity.op_class == "embedding",
)
def irregular_gather(facts: Facts, verdict: Verdict) -> Hit | None:
    """A lookup by index that uses under 80 % of the bytes it moves, or mostly waits (F8). Rows are scattered by
    nature: what can change is how whole and how many at a time they are read.

    The bound: rows as wide as a warp reads at once (16 sectors) take as many times fewer instructions as today's loads
    are narrower, and no unused bytes (rows of 512 bytes in place of 16 on an H200: the same bytes in a 31st of the
    time).
    """
    got, most = facts.number("load_bytes_per_sector"), facts.number("load_bytes_per_sector_max")
    if not got or not most or facts.is_short:
        return None
    used = got / most
    params = {"used_pct": 100 * used, "dram_pct": facts.levels.get("dram")}
    if used < 0.8:
        sectors, requests = facts.number("global_load_sectors"), facts.number("global_load_requests")
        filled = min(1.0, sectors / requests / _WIDEST_LOAD) if sectors and requests else 1.0

        def factor(name: str) -> float:
            if name.startswith(("sm__", "idc__", "l1tex__lsuin")):
                return filled
            return used if _carries_weights(name) else 1.0

        bound = facts.bound(factor)
        return Hit(0.5, bound, (facts.evidence("load_bytes_per_sector", 0.8 * most),), params)
    waits = (facts.stall_share("long_scoreboard") or 0.0) > 0.3
    if verdict.id != "latency-bound" or not waits:
        return None
    return Hit(0.45, facts.latency_bound_gain, (facts.evidence("stall_long_scoreboard"),), params, "waiting")
