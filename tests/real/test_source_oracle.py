"""What is read by instruction against what ``ncu --page source`` prints of the same reports."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.analysis.source import Source
from gputui.formats import open_report
from gputui.model.source import Instruction, SourceListing

NCU = shutil.which("ncu") or shutil.which("ncu", path=os.environ.get("GPUTUI_NSIGHT", "/opt/nsight") + "/bin")
SAMPLE = Path(__file__).parents[2] / "sample_reports" / "tour_source.ncu-rep"

COLUMNS = {
    "# Samples": "samples",
    "Instructions Executed": "executed",
    "Thread Instructions Executed": "threads",
    "L2 Theoretical Sectors Global": "global_sectors",
    "L2 Theoretical Sectors Global Ideal": "global_ideal",
    "L1 Wavefronts Shared": "shared_wavefronts",
    "L1 Wavefronts Shared Ideal": "shared_ideal",
    "L2 Theoretical Sectors Local": "local_sectors",
    "Divergent Branches": "divergent",
}
STALLS = {
    "stall_barrier": "barrier",
    "stall_branch_resolving": "branch_resolving",
    "stall_dispatch": "dispatch_stall",
    "stall_drain": "drain",
    "stall_imc": "imc_miss",
    "stall_lg": "lg_throttle",
    "stall_long_sb": "long_scoreboard",
    "stall_math": "math_pipe_throttle",
    "stall_mio": "mio_throttle",
    "stall_not_selected": "not_selected",
    "stall_selected": "selected",
    "stall_short_sb": "short_scoreboard",
    "stall_wait": "wait",
}

WITH_INSTRUCTIONS = {
    "AlpriElse__cs599k__2025-04-21-77_06-MT.ncu-rep": 3,
    "AlpriElse__cs599k__2025-04-21-v1.ncu-rep": 4,
    "AlpriElse__cs599k__rms_norm_triton_looping.ncu-rep": 1,
    "AshunFeiyu__Cuda_Gemm_Practice__gemm_v9.ncu-rep": 2,
    "Lashi0812__CudaProgramming__readOnlyCache.ncu-rep": 3,
    "Lashi0812__CudaProgramming__smemTranspose.ncu-rep": 5,
    "NVIDIA__nsight-training__manual_nvtx.ncu-rep": 3,
    "armleth__cuda-mlp-inference__report.ncu-rep": 1,
    "armleth__cuda-mlp-inference__report_v4_8_per_thread.ncu-rep": 1,
    "armleth__cuda-mlp-inference__report_v8_1d_4_per_thread_stripped.ncu-rep": 1,
    "bwd29__self-join-MiSTIC__ilpProf.ncu-rep": 1,
    "bwd29__self-join-MiSTIC__profileMSDKT23.out.ncu-rep": 4,
    "bwd29__self-join-MiSTIC__profileSUSYBIN2.out.ncu-rep": 1,
    "eschnett__IndexSpaces.jl__3176628_profile.ncu-rep": 2,
    "jhiems__PMKID_Brute-Force__profile.nsight-cuprof-report": 1,
}
"""Kernels with numbers by instruction, of each public report that has any."""

needs_ncu = pytest.mark.skipif(NCU is None, reason="ncu is not installed")


def listings(path: Path) -> list[SourceListing | None]:
    report = open_report(path)
    try:
        return [report.source.source(kernel.index) for kernel in report.kernels]
    finally:
        report.close()


def printed(path: Path, kernels: int) -> Iterator[list[dict[str, str]]]:
    """The rows of ncu's source page, kernel by kernel; some versions print each kernel twice."""
    assert NCU is not None
    command = [NCU, "--import", str(path), "--page", "source", "--csv", "--print-source", "sass"]
    done = subprocess.run(command, capture_output=True, check=True)
    text = done.stdout.decode("utf-8", "replace")
    blocks = text.split('"Kernel Name"')[1:]
    assert len(blocks) % kernels == 0
    for block in blocks[:: len(blocks) // kernels]:
        _, _, table = block.partition("\n")
        rows = list(csv.DictReader(io.StringIO(table)))
        yield [row for row in rows if (row.get("Address") or "").startswith("0x")]


def value_of(one: Instruction, name: str) -> float:
    return float(getattr(one, name))


def _compare(path: Path) -> tuple[int, int]:
    """How many numbers and instructions equal what ncu prints; all of them must."""
    numbers = instructions = 0
    found = listings(path)
    for listing, rows in zip(found, printed(path, len(found)), strict=True):
        if listing is None:
            continue
        by_address = {one.address: one for one in listing.instructions}
        for row in rows:
            one = by_address.pop(int(row["Address"], 16), None)
            if one is None:
                # An instruction that has no number of any kind.
                counts = [row[name] for name in COLUMNS if name in row]
                assert set(counts) <= {"0", "-", ""}, (path.name, row)
                continue
            instructions += 1
            # Two disassemblers spell operands differently here and there.
            assert one.sass.split()[:1] == row["Source"].split()[:1]
            for column, name in COLUMNS.items():
                if column in row and name in listing.measured and row[column] not in ("", "-"):
                    assert value_of(one, name) == float(row[column]), (path.name, column, row["Address"])
                    numbers += 1
            for column, reason in STALLS.items():
                if column in row and row[column] not in ("", "-"):
                    assert one.stalls.get(reason, 0) == float(row[column]), (path.name, column, row["Address"])
                    numbers += 1
        # Nothing that ncu does not print.
        assert not by_address, path.name
    return numbers, instructions


@needs_ncu
def test_every_instruction_of_the_sample_equals_what_ncu_prints() -> None:
    numbers, instructions = _compare(SAMPLE)
    assert (instructions, numbers > 10_000) == (752, True)


@needs_ncu
@pytest.mark.parametrize(
    "name",
    [
        "AlpriElse__cs599k__2025-04-21-v1.ncu-rep",
        "AshunFeiyu__Cuda_Gemm_Practice__gemm_v9.ncu-rep",
        "Lashi0812__CudaProgramming__smemTranspose.ncu-rep",
        "eschnett__IndexSpaces.jl__3176628_profile.ncu-rep",
    ],
)
def test_every_instruction_of_public_reports_equals_what_ncu_prints(reports: Path, name: str) -> None:
    numbers, instructions = _compare(reports / "ncu" / name)
    assert instructions > 50
    assert numbers > 10 * instructions


def test_which_reports_have_instructions(reports: Path) -> None:
    found = {}
    for path in sorted((reports / "ncu").iterdir()):
        start = time.perf_counter()
        known = [Source(one) for one in listings(path) if one is not None]
        # The largest has 18,364 instructions and takes 0.45 s here; a slow machine may take longer.
        assert time.perf_counter() - start < 5
        if known:
            found[path.name] = len(known)
        for source in known:
            assert sum(len(line.instructions) for line in source.lines) == len(source.listing.instructions)
            shares = [line.share_pct for line in source.lines if line.share_pct is not None]
            assert not shares or sum(shares) == pytest.approx(100)
    assert found == WITH_INSTRUCTIONS


def test_the_findings_of_the_sample_point_at_the_planted_lines() -> None:
    from gputui.analysis.engine import diagnose_all

    report = open_report(SAMPLE)
    found = {}
    for diagnosis in diagnose_all(report):
        listing = report.source.source(diagnosis.kernel.index)
        assert listing is not None
        place = Source(listing).places_of(diagnosis.main[0])[0]
        assert place.line.text is not None
        found[diagnosis.kernel.name] = (diagnosis.main[0].id, place.line.text.strip(), round(place.share_pct))
    report.close()
    assert found == {
        "energy_array_of_structs": (
            "uncoalesced-load",
            "const float vx = particles[i].vx, vy = particles[i].vy, vz = particles[i].vz;",
            100,
        ),
        "shared_walk_conflicts": ("bank-conflicts", "total = fmaf(total, 0.5f, row[column]);", 100),
        "filter_spilled": ("register-spill", "v[i] = fmaf(v[i], 0.9f, 0.1f * v[(i + 1) % FILTER_VALUES]);", 80),
        "branches_mixed_in_warp": ("thread-divergence", "switch (kinds[i]) {", 100),
    }
