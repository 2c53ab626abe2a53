"""What changes with the GPU, against NVIDIA's data sheets."""

from __future__ import annotations

from gputui.analysis.compare.gpus import gpu_change
from gputui.model.device import Device

AMPERE = Device("NVIDIA A100-SXM4-40GB", (8, 0), 108, l2_bytes=40 << 20)
HOPPER = Device("NVIDIA H100 PCIe", (9, 0), 114, l2_bytes=50 << 20)


def test_hopper_has_what_ampere_has_not() -> None:
    change = gpu_change(AMPERE, HOPPER)
    assert set(change.gained) == {"fp8", "tma", "wgmma"}
    assert change.lost == ()
    figures = {one.id: (one.before, one.after) for one in change.figures}
    assert figures == {
        "sms": (108, 114),
        "l2": (40 << 20, 50 << 20),
        "dram": (1555e9, 2039e9),
        "tensor": (312e12, 756e12),
        "fp32": (19.5e12, 51.2e12),
    }


def test_the_way_back_loses_it() -> None:
    there, back = gpu_change(AMPERE, HOPPER), gpu_change(HOPPER, AMPERE)
    assert (back.gained, back.lost) == (there.lost, there.gained)


def test_a_gpu_that_is_not_told_lacks_nothing() -> None:
    change = gpu_change(Device("GPU"), HOPPER)
    assert (change.gained, change.lost, change.figures) == ((), (), ())


def test_figures_that_are_alike_are_left_out() -> None:
    assert gpu_change(HOPPER, Device("NVIDIA H100 PCIe", (9, 0), 113, l2_bytes=50 << 20)).figures == ()
