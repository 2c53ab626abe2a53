"""What one GPU has that another has not, as far as it matters to a kernel's speed."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

from gputui.analysis.gpu import features_of
from gputui.analysis.specs import specs_of

if TYPE_CHECKING:
    from gputui.model.device import Device

_DIFFERS = log(1.05)
_UNITS = ("async_copy", "tma", "wgmma", "tcgen05")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of both GPUs: ``sms``, ``l2`` in bytes, ``dram`` in bytes/s, ``tensor`` (bf16) or ``fp32`` in FLOP/s."""

    id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class GpuChange:
    """``gained`` and ``lost`` are features by id; nothing where a report does not tell which generation its GPU is.
    ``figures`` are those that differ by 5 % or more, of reports and data sheets."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    figures: tuple[Figure, ...]


def gpu_change(base: Device, new: Device) -> GpuChange:
    """What changes with the GPU."""
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    if base.compute_capability is not None and new.compute_capability is not None:
        old, now = _features(base), _features(new)
        gained = tuple(one for one in now if one not in old)
        lost = tuple(one for one in old if one not in now)
    before, after = _figures(base), _figures(new)
    figures = (Figure(id, before[id], after[id]) for id in before if id in after)
    return GpuChange(gained, lost, tuple(one for one in figures if abs(log(one.after / one.before)) >= _DIFFERS))


def _features(device: Device) -> tuple[str, ...]:
    features = features_of(device)
    units = (one.replace("_", "-") for one in _UNITS if getattr(features, one))
    return (*sorted(features.tensor), *units)


def _figures(device: Device) -> dict[str, float]:
    specs = specs_of(device.name)
    found = {
        "sms": device.sm_count,
        "l2": device.l2_bytes,
        "dram": device.dram_peak_bytes_per_s or (specs.dram_bytes_per_s if specs is not None else None),
        "tensor": specs.peaks.get("tensor-bf16") if specs is not None else None,
        "fp32": specs.peaks.get("fp32") if specs is not None else None,
    }
    return {id: float(value) for id, value in found.items() if value}
