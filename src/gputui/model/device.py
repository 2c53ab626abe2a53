"""The GPU that a kernel ran on, as its report describes it."""

from __future__ import annotations

from dataclasses import dataclass

_ARCHITECTURES = {
    6: "Pascal", 7: "Volta", 8: "Ampere", 9: "Hopper", 10: "Blackwell", 11: "Blackwell", 12: "Blackwell",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU. ``None`` where the report does not tell; clocks are the device's maximum clocks in Hz."""

    name: str
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None
    l2_bytes: int | None = None

    @property
    def architecture(self) -> str | None:
        """NVIDIA's architecture name from the compute capability (7.5 is Turing and 8.9 Ada)."""
        if self.compute_capability is None:
            return None
        if self.compute_capability == (7, 5):
            return "Turing"
        if self.compute_capability == (8, 9):
            return "Ada"
        return _ARCHITECTURES.get(self.compute_capability[0])

    @property
    def capability_text(self) -> str | None:
        """``"9.0"``, or ``None``."""
        return None if self.compute_capability is None else "{}.{}".format(*self.compute_capability)

    @property
    def dram_peak_bytes_per_s(self) -> float | None:
        """Twice the memory clock times the bus width in bytes: right for HBM and GDDR alike.

        Checked on 24 GPU models against the reports' own peaks; ``None`` on parts without a memory bus of their own.
        """
        if not self.memory_clock_hz or not self.memory_bus_bits:
            return None
        return 2 * self.memory_clock_hz * self.memory_bus_bits / 8
