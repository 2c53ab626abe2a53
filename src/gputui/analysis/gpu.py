"""What a GPU generation has, as far as advice depends on it and reports do not tell.

Keyed by compute capability, with the parts that differ from their generation by name. What a report says itself is not
here: the FP64 rate (``device_fp64_ratio``), the L2's size (``device_l2_bytes``), the SM count of a slice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from gputui.analysis.specs import specs_of
from gputui.model.device import Device

_UNIFIED_MEMORY = frozenset({(7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
"""Xavier, Orin, Thor (10.1 before CUDA 13), GB10: the CPU's memory is the GPU's."""

_TURING_WITHOUT_TENSOR_CORES = re.compile(r"GTX 16|\bMX\d|\bT(400|500|550|600|1000|1200|2000)\b")
"""TU116 and TU117 are compute capability 7.5 too."""

_GEFORCE = re.compile(r"GeForce|TITAN", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Features:
    """``tensor`` names the input precisions of its tensor cores (empty where it has none or is not known).

    ``tf32_gains``: TF32 runs faster than plain FP32 (on GeForce parts since Ampere both have the same peak).
    ``async_copy``: global to shared memory without registers (cp.async). ``tma``: tiles copied by a unit of their own.
    ``wgmma``, ``tcgen05``: the matrix instructions of Hopper and of the data-centre Blackwells, which the other
    generations do not have. ``unified_memory``: the CPU's memory is its only memory.
    """

    tensor: frozenset[str] = frozenset()
    tf32_gains: bool = False
    async_copy: bool = False
    tma: bool = False
    wgmma: bool = False
    tcgen05: bool = False
    unified_memory: bool = False

    @property
    def tensor_cores(self) -> bool:
        return bool(self.tensor)


@cache
def features_of(device: Device) -> Features:
    """What this GPU has; nothing where the report does not tell its compute capability."""
    capability = device.compute_capability
    if capability is None:
        return Features()
    tensor = _tensor_precisions(capability, device.name)
    return Features(
        tensor=tensor,
        tf32_gains="tf32" in tensor and _tf32_gains(device.name),
        async_copy=capability >= (8, 0),
        tma=capability >= (9, 0),
        wgmma=capability == (9, 0),
        tcgen05=capability[0] in (10, 11),
        unified_memory=capability in _UNIFIED_MEMORY,
    )


def _tensor_precisions(capability: tuple[int, int], name: str) -> frozenset[str]:
    if capability < (7, 0) or (capability == (7, 5) and _TURING_WITHOUT_TENSOR_CORES.search(name)):
        return frozenset()
    found = {"fp16"}
    if capability >= (7, 2):
        found.add("int8")
    if capability >= (8, 0):
        found |= {"bf16", "tf32"}
    if capability >= (8, 9):
        found.add("fp8")
    if capability >= (10, 0):
        found.add("fp4")
    return frozenset(found)


def _tf32_gains(name: str) -> bool:
    """From the data sheet where it is known: A10G and L40 have GeForce's rates too."""
    specs = specs_of(name)
    tf32, fp32 = (specs.peaks.get(id) for id in ("tensor-tf32", "fp32")) if specs is not None else (None, None)
    if tf32 is None or fp32 is None:
        return _GEFORCE.search(name) is None
    return tf32 > 1.2 * fp32
