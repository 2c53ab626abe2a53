"""Data-sheet figures of GPUs, for reports that do not hold their own peaks (``data/gpu_specs.csv``)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gputui.data import text_of

_TERA_COLUMNS: Mapping[str, str] = {
    "fp64": "fp64_tflops",
    "fp32": "fp32_tflops",
    "tensor-fp64": "fp64_tensor_tflops",
    "tensor-tf32": "tf32_tensor_tflops",
    "tensor-bf16": "fp16_bf16_tensor_fp32acc_tflops",
    "tensor-fp16": "fp16_bf16_tensor_fp32acc_tflops",
    "tensor-fp8": "fp8_tensor_fp32acc_tflops",
    "tensor-int8": "int8_tensor_tops",
    "tensor-fp4": "fp4_tensor_tflops",
}


@dataclass(frozen=True, slots=True)
class Specs:
    """One row. ``peaks`` are dense FLOP/s (or operations/s) at ``boost_hz``, by roof id."""

    name: str
    sm_count: int | None
    boost_hz: float | None
    dram_bytes_per_s: float | None
    peaks: Mapping[str, float]


@cache
def specs_of(device_name: str) -> Specs | None:
    """The first row whose pattern is found in the device's name, or ``None``."""
    for pattern, specs in _rows():
        if pattern.search(device_name):
            return specs
    return None


@cache
def _rows() -> tuple[tuple[re.Pattern[str], Specs], ...]:
    text = text_of("gpu_specs.csv")
    return tuple((re.compile(row["name_regex"]), _specs(row)) for row in csv.DictReader(text.splitlines()))


def _specs(row: Mapping[str, str]) -> Specs:
    def number(column: str, factor: float) -> float | None:
        return float(row[column]) * factor if row[column] else None

    peaks = {id: number(column, 1e12) for id, column in _TERA_COLUMNS.items()}
    return Specs(
        name=row["display_name"],
        sm_count=int(row["sm_count"]) if row["sm_count"] else None,
        boost_hz=number("boost_mhz", 1e6),
        dram_bytes_per_s=number("mem_bw_gbs", 1e9),
        peaks={id: peak for id, peak in peaks.items() if peak is not None},
    )
