"""The roofline: where a kernel stands between the memory's roofs and the arithmetic units' roofs.

Peaks come from the report itself where it has them (at the clock it measured), else from ``data/gpu_specs.csv`` scaled
by the measured clock. Formulas: NVIDIA's own roofline sections, and for tensor cores the exact operation counters
``sm__ops_path_tensor_*`` over their dense peaks. A kernel that does tensor operations is never judged on a scalar roof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gputui.analysis.facts import TENSOR_PRECISIONS, Facts
from gputui.analysis.specs import specs_of

PeakSource = Literal["report", "specs"]
MemoryLevel = Literal["dram", "l2", "l1"]


@dataclass(frozen=True, slots=True)
class Roof:
    """A compute roof (``peak`` in FLOP/s; ``id`` such as ``"fp32"``, ``"fp64"``, ``"tensor-bf16"``) or a memory roof
    (``peak`` in bytes/s; ``id`` is ``"dram"``, ``"l2"`` or ``"l1"``)."""

    id: str
    kind: Literal["compute", "memory"]
    peak: float
    source: PeakSource


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel on the chart. ``intensity`` is in FLOP per byte of ``level``'s traffic; ``roof_fraction`` is 0-1."""

    kernel: int
    name: str
    level: MemoryLevel
    intensity: float
    flop_per_s: float
    roof_fraction: float | None
    duration_ns: float | None


@dataclass(frozen=True, slots=True)
class Roofline:
    """One kernel's place. ``precision`` is the compute roof it is judged on.

    ``point`` is its DRAM point and ``None`` where it does no arithmetic that the report counts or where bytes are
    unknown: then only ``dram_bytes_per_s`` against the DRAM roof says something. ``points`` holds the other levels too.
    """

    precision: str | None
    roofs: tuple[Roof, ...]
    point: Point | None
    points: tuple[Point, ...]
    achieved_flop_per_s: float | None
    peak_flop_per_s: float | None
    peak_source: PeakSource | None
    arithmetic_intensity: float | None
    ridge: float | None
    dram_bytes_per_s: float | None
    dram_peak_bytes_per_s: float | None
    roof_fraction: float | None


_SCALARS = ("fp32", "fp64", "fp16")
_SPARSE_PEAKS = ("bf16", "fp16", "tf32", "int8")

CONCEPTS = (
    "sm_clock", "dram_bytes", "dram_bytes_per_s", "dram_peak_bytes_per_s", "duration", "tensor_pct", "pipe_fp16_pct",
    "l2_bytes_per_s", "l2_peak_bytes_per_s", "l1_bytes_per_s", "l1_peak_bytes_per_s",
    *(f"{precision}_{what}" for precision in _SCALARS for what in ("flop_per_s", "peak_flop_per_s")),
    *(f"tensor_ops_{precision}_sparse_peak_per_cycle" for precision in _SPARSE_PEAKS),
    *(f"tensor_ops_{precision}{what}" for precision in TENSOR_PRECISIONS for what in ("", "_peak_per_s")),
)  # fmt: skip
"""What the dictionary is asked for here."""


def roofline_of(facts: Facts) -> Roofline:
    """Where the kernel stands, as far as its report tells."""
    achieved = _achieved(facts)
    roofs = {roof.id: roof for roof in (*_compute_roofs(facts), *_memory_roofs(facts))}
    precision = _precision(facts, achieved, roofs)
    total = sum(achieved.values()) if achieved else None
    compute = roofs.get(precision) if precision else None
    dram = roofs.get("dram")
    dram_rate = facts.number("dram_bytes_per_s")
    points = tuple(
        Point(
            kernel=facts.kernel.index,
            name=facts.kernel.name,
            level=level,
            intensity=total / rate,
            flop_per_s=total,
            roof_fraction=_fraction(total, rate, compute, roofs.get(level)),
            duration_ns=facts.kernel.duration_ns,
        )
        for level, rate in _rates(facts)
        if total and rate
    )
    point = next((point for point in points if point.level == "dram"), None)
    return Roofline(
        precision=precision,
        roofs=tuple(roofs.values()),
        point=point,
        points=points,
        achieved_flop_per_s=total,
        peak_flop_per_s=compute.peak if compute else None,
        peak_source=compute.source if compute else None,
        arithmetic_intensity=point.intensity if point else None,
        ridge=compute.peak / dram.peak if compute and dram else None,
        dram_bytes_per_s=dram_rate,
        dram_peak_bytes_per_s=dram.peak if dram else None,
        roof_fraction=point.roof_fraction if point else None,
    )


def _achieved(facts: Facts) -> dict[str, float]:
    """FLOP/s by roof id, as far as the report counts them; nothing for a tensor kernel whose operations it does not."""
    found: dict[str, float] = {}
    duration = facts.kernel.duration_ns
    for precision in TENSOR_PRECISIONS:
        ops = facts.number(f"tensor_ops_{precision}")
        if ops is not None and duration:
            found[f"tensor-{precision}"] = ops / duration * 1e9
    if facts.does_tensor and not any(found.values()):
        return {}
    for precision in _SCALARS:
        rate = facts.number(f"{precision}_flop_per_s")
        if rate is not None and not (precision == "fp16" and _moves_constants(facts)):
            found[precision] = rate
    return found


def _moves_constants(facts: Facts) -> bool:
    """Whether the FP16 multiply-adds counted are constants moved through the tensor pipe (``HFMA2.MMA``).

    The compiler does so on Ampere and Hopper; the FP16 pipe itself then stands still.
    """
    use = facts.number("pipe_fp16_pct")
    return use is not None and use < 1


def _compute_roofs(facts: Facts) -> list[Roof]:
    """The scalar roofs and those of the tensor precisions that the kernel uses."""
    roofs = []
    for id in (*_SCALARS, *(f"tensor-{precision}" for precision in _tensor_precisions(facts))):
        peak = peak_of(facts, id)
        if peak is not None:
            roofs.append(Roof(id, "compute", *peak))
    return roofs


def peak_of(facts: Facts, id: str) -> tuple[float, PeakSource] | None:
    """The dense peak in FLOP/s of a compute roof (``"fp32"``, ``"tensor-bf16"``), whether the kernel uses it or not."""
    tensor = id.startswith("tensor-")
    concept = f"tensor_ops_{id.removeprefix('tensor-')}_peak_per_s" if tensor else f"{id}_peak_flop_per_s"
    peak = facts.number(concept) or _hopper_dense_peak(facts, id)
    if peak:
        return peak, "report"
    specs = specs_of(facts.device.name)
    if specs is None or id not in specs.peaks:
        return None
    clock = facts.number("sm_clock")
    scale = clock / specs.boost_hz if clock and specs.boost_hz else 1.0
    # A slice of a GPU (MIG, green context) has the name of the whole.
    part = min(1.0, facts.sm_count / specs.sm_count) if facts.sm_count and specs.sm_count else 1.0
    return specs.peaks[id] * scale * part, "specs"


def _hopper_dense_peak(facts: Facts, id: str) -> float | None:
    """On GH100 the counters without a sparsity suffix have the sparse peak, which is twice the dense one."""
    clock = facts.number("sm_clock")
    if facts.device.compute_capability != (9, 0) or id.removeprefix("tensor-") not in _SPARSE_PEAKS or not clock:
        return None
    peak = facts.number(f"tensor_ops_{id.removeprefix('tensor-')}_sparse_peak_per_cycle")
    return peak / 2 * clock if peak else None


def _tensor_precisions(facts: Facts) -> list[str]:
    """The tensor precisions that the kernel uses: those counted, else what its name says."""
    counted = [precision for precision in TENSOR_PRECISIONS if facts.number(f"tensor_ops_{precision}")]
    if counted or not facts.does_tensor:
        return counted
    named = facts.identity.precision
    return [named] if named in TENSOR_PRECISIONS else []


def _memory_roofs(facts: Facts) -> list[Roof]:
    roofs = []
    for level in ("dram", "l2", "l1"):
        peak = facts.number(f"{level}_peak_bytes_per_s")
        if peak:
            roofs.append(Roof(level, "memory", peak, "report"))
    specs = specs_of(facts.device.name)
    if not any(roof.id == "dram" for roof in roofs) and specs is not None and specs.dram_bytes_per_s:
        roofs.append(Roof("dram", "memory", specs.dram_bytes_per_s, "specs"))
    return roofs


def _precision(facts: Facts, achieved: dict[str, float], roofs: dict[str, Roof]) -> str | None:
    """The roof the kernel is judged on: the arithmetic unit that it keeps busy longest."""
    busy = {
        id: rate / roofs[id].peak
        for id, rate in achieved.items()
        if rate and id in roofs and (not facts.does_tensor or id.startswith("tensor-"))
    }
    if busy:
        return max(busy, key=lambda id: busy[id])
    return next((f"tensor-{precision}" for precision in _tensor_precisions(facts)), None)


def _rates(facts: Facts) -> list[tuple[MemoryLevel, float | None]]:
    return [
        ("dram", facts.number("dram_bytes_per_s")),
        ("l2", facts.number("l2_bytes_per_s")),
        ("l1", facts.number("l1_bytes_per_s")),
    ]


def _fraction(flop_per_s: float, rate: float, compute: Roof | None, memory: Roof | None) -> float | None:
    if compute is None or memory is None:
        return None
    return flop_per_s / min(compute.peak, flop_per_s / rate * memory.peak)
