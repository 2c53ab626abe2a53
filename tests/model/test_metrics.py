"""The metric dictionary: its formulas, its names, its words, and what it says of real reports."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gputui.model.metrics import Formula, Metric, concept_of_metric, dictionary, names_of, resolve

Lookup = Callable[[str], "Metric | None"]

UNITS = {
    *("", "%", "ns", "Hz", "kHz", "bit", "byte", "byte/s", "byte/cycle", "byte/sector", "cycle", "inst", "inst/cycle"),
    *("sector", "sector/request", "request", "warp", "thread", "block", "cluster", "register", "sample"),
    *("FLOP", "FLOP/s", "FLOP/cycle", "op", "op/s", "op/cycle"),
}

SECTIONS = {
    *("SpeedOfLight", "LaunchStats", "Occupancy", "WorkloadDistribution", "ComputeWorkloadAnalysis"),
    *("MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "SourceCounters", "SchedulerStats", "WarpStateStats"),
    *("InstructionStats", "SpeedOfLight_RooflineChart", "SpeedOfLight_HierarchicalSingleRooflineChart"),
    *("SpeedOfLight_HierarchicalHalfRooflineChart", "SpeedOfLight_HierarchicalTensorRooflineChart"),
    *("Nvlink_Tables", "C2CLink", "metrics", "device"),
}

NOT_COUNTERS = re.compile(
    # Properties and values that the tool works out itself.
    r"launch__|device__|derived__|profiler__|memory_l[12]_|sass__|inst_executed$|thread_inst_executed(_true)?$"
    # Counted per line of machine code, by samples or by patching it.
    r"|smsp__pcsamp_|smsp__branch_targets_threads_divergent"
    # Occupancy is worked out from the launch.
    r"|sms?p?__maximum_warps_"
)

# Names of the 2018 and 2019 tools, and of Pascal, that the later lists of counters do not hold.
OLD_NAMES = {
    # How busy each unit is, in percent of its limit ("speed of light").
    *("sm__sol_pct", "gpu__compute_memory_sol_pct", "fbpa__sol_pct", "ltc__sol_pct", "tex__sol_pct"),
    "gpu__compute_memory_request_utilization_pct",
    # Clocks and cycles.
    *("gpc__elapsed_cycles_max", "gpc__frequency", "dram__frequency", "sm__elapsed_cycles_avg"),
    # Occupancy, schedulers and instructions.
    *("sm__active_warps_avg_per_active_cycle", "sm__active_warps_avg_per_active_cycle_pct"),
    *("smsp__active_warps_avg_per_active_cycle", "smsp__eligible_warps_avg_per_active_cycle"),
    *("smsp__issue_active_avg_per_active_cycle", "smsp__inst_issued0_active_per_active_cycle_pct"),
    *("smsp__warps_per_cycle_max", "smsp__inst_executed_sum", "smsp__inst_issued_sum"),
    *("sm__inst_executed_avg_per_active_cycle", "sm__inst_executed_avg_per_elapsed_cycle"),
    "smsp__thread_inst_executed_not_pred_off_per_inst_executed",
    # Stall reasons.
    "smsp__warp_cycles_per_issue_active",
    *(
        f"smsp__warp_cycles_per_issue_stall_{reason}"
        for reason in (
            *("barrier", "dispatch_stall", "drain", "imc_miss", "long_scoreboard", "math_pipe_throttle", "membar"),
            *("mio_throttle", "misc", "no_instructions", "not_selected", "selected", "short_scoreboard"),
            *("tex_throttle", "wait"),
        )
    ),
    # Memory.
    *("dram__bytes_per_sec", "dram__read_bytes", "dram__write_bytes", "dram__read_sectors", "dram__write_sectors"),
    *("tex__hitrate_pct", "lts__request_total_sectors_hitrate_pct"),
    *("sm__shmem_ld_bank_conflict_sum", "sm__shmem_st_bank_conflict_sum", "smsp__inst_executed_shared_atomics_sum"),
    *("sm__shmem_ld_count_sum", "sm__shmem_st_count_sum"),
}


def fake(**values: float) -> Lookup:
    """A kernel that holds these concepts, each under its first name."""
    metrics = {dictionary()[id].names[0]: value for id, value in values.items()}
    return lambda name: Metric(name, metrics[name], "") if name in metrics else None


def value(id: str, lookup: Lookup) -> float:
    found = resolve(id, lookup)
    assert found is not None, id
    return found.value


# -------
# Formula
# -------


def test_formula_follows_arithmetic() -> None:
    assert Formula("(a + b) * 2 - c / 4").evaluate({"a": 1, "b": 2, "c": 8}) == 4
    assert Formula("a / b * 1e9").evaluate({"a": 3, "b": 2}) == 1.5e9


def test_formula_without_a_finite_result_is_none() -> None:
    assert Formula("a / b").evaluate({"a": 1, "b": 0}) is None


@pytest.mark.parametrize("text", ["f(a)", "a ** 2", "a if b else c", "a.b", "'a'", "True + a", "-a"])
def test_formula_refuses_all_but_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match="not allowed"):
        Formula(text)


def test_formula_spells_the_metrics_it_used() -> None:
    spelled = Formula("a + b / a").spell({"a": "x__y.sum", "b": "p + q"})
    assert spelled == "x__y.sum + (p + q) / x__y.sum"


# -------
# Resolve
# -------


def test_first_name_with_a_number_wins() -> None:
    held = {"gpc__cycles_elapsed.max": None, "sm__cycles_elapsed.max": 7.0}
    found = resolve("elapsed_cycles", lambda name: Metric(name, held[name], "cycle") if name in held else None)
    assert found is not None
    assert (found.value, found.metric, found.unit) == (7.0, "sm__cycles_elapsed.max", "cycle")


def test_what_is_not_told_is_none() -> None:
    assert all(resolve(id, lambda name: None) is None for id in dictionary())


def test_formulas_over_each_other_end() -> None:
    # Each of the two pairs is worked out from the other.
    assert resolve("dram_bytes", fake(dram_pct=50)) is None
    assert value("issue_idle_pct", fake(issue_active=0.25)) == 75
    assert value("issue_active", fake(issue_idle_pct=75)) == 0.25


@pytest.mark.parametrize(
    ("id", "given", "expected"),
    [
        ("duration", {"elapsed_cycles": 3e6, "sm_clock": 1.5e9}, 2e6),
        ("sm_clock", {"elapsed_cycles": 3e6, "duration": 2e6}, 1.5e9),
        ("grid_size", {"grid_x": 4, "grid_y": 3, "grid_z": 2}, 24),
        ("shared_per_block", {"shared_static": 100, "shared_dynamic": 20, "shared_driver": 3}, 123),
        ("l1_elapsed_pct", {"l1_pct": 80, "sm_cycles_active_avg": 50, "sm_cycles_elapsed_avg": 100}, 40),
        ("device_clock", {"device_clock_khz": 1_410_000}, 1.41e9),
        ("dram_bytes", {"dram_read_bytes": 100, "dram_write_bytes": 28}, 128),
        ("dram_bytes", {"dram_read_sectors": 3, "dram_write_sectors": 1}, 128),
        ("dram_bytes", {"dram_bytes_per_s": 2e12, "duration": 1000}, 2e6),
        ("dram_bytes_per_s", {"dram_read_bytes": 1500, "dram_write_bytes": 500, "duration": 1000}, 2e9),
        ("dram_peak_bytes_per_s", {"dram_peak_bytes_per_cycle": 1280, "dram_clock": 1.2e9}, 1.536e12),
        ("dram_peak_bytes_per_s", {"dram_clock": 1.2e9, "device_memory_bus_bits": 5120}, 1.536e12),
        ("dram_peak_bytes_per_s", {"device_memory_clock_khz": 1.2e6, "device_memory_bus_bits": 5120}, 1.536e12),
        ("warp_latency", {"active_warps_per_scheduler": 8, "issue_active": 0.4}, 20),
        ("warp_execution_efficiency_pct", {"threads_per_inst": 24}, 75),
        ("threads_per_inst", {"thread_inst_executed": 320, "inst_executed": 20}, 16),
        ("l2_hit_pct", {"l2_hit_sectors": 30, "l2_miss_sectors": 10}, 75),
        ("load_sectors_per_request", {"global_load_sectors": 32, "global_load_requests": 8}, 4),
        ("load_bytes_per_sector", {"load_bytes_per_sector_pct": 25}, 8),
        ("l2_sectors_global_excess", {"l2_sectors_global": 40, "l2_sectors_global_ideal": 10}, 30),
        ("shared_wavefronts_excess", {"shared_wavefronts": 40, "shared_wavefronts_ideal": 10}, 30),
        ("ldgsts_inst", {"ldgsts_cached_inst": 3, "ldgsts_bypass_inst": 4}, 7),
        ("tensor_ops_bf16", {"tensor_ops_bf16_dense": 5, "tensor_ops_bf16_sparse": 6}, 11),
        ("tensor_ops_fp16", {"tensor_ops_fp16_dst_fp16": 5, "tensor_ops_fp16_bf16_tf32_dst_fp32": 6}, 11),
        ("tensor_ops_fp8", {"tensor_ops_fp8_dst_fp16": 5, "tensor_ops_fp8_dst_fp32": 6}, 11),
        ("tensor_ops_int8_peak_per_s", {"tensor_ops_int8_peak_per_cycle": 1000, "sm_clock": 1e9}, 1e12),
        ("l2_bytes_per_s", {"l2_output_cycles_per_s": 1e9}, 32e9),
        ("l2_peak_bytes_per_s", {"l2_output_peak_per_cycle": 160, "l2_clock": 1e9}, 5.12e12),
        ("l1_peak_bytes_per_s", {"l1_output_peak_per_cycle": 108, "l1_clock": 1e9}, 13.824e12),
        ("fp32_peak_flop_per_s", {"ffma_peak_per_cycle": 6912, "smsp_clock": 1.41e9}, 19.49184e12),
        ("fp16_peak_flop_per_s", {"hfma_peak_per_cycle": 13824, "smsp_clock": 1.41e9}, 77.96736e12),
    ],
)
def test_formulas_against_hand_arithmetic(id: str, given: dict[str, float], expected: float) -> None:
    assert value(id, fake(**given)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("id", "letter", "weights"),
    [("fp32_flop_per_s", "f", (1, 1, 2)), ("fp64_flop_per_s", "d", (1, 1, 2)), ("fp16_flop_per_s", "h", (2, 2, 4))],
)
def test_flop_rates(id: str, letter: str, weights: tuple[int, int, int]) -> None:
    rates = {"add": 3.0, "mul": 5.0, "fma": 7.0}
    expected = sum(weight * rate for weight, rate in zip(weights, rates.values(), strict=True)) * 1e9
    per_cycle = {f"{letter}{kind}_per_cycle": rate for kind, rate in rates.items()}
    assert value(id, fake(smsp_clock=1e9, **per_cycle)) == expected
    counts = {f"{letter}{kind}_count": rate * 1000 for kind, rate in rates.items()}
    assert value(id, fake(duration=1000, **counts)) == expected


def test_packed_fp32_counts_twice() -> None:
    given = {f"{kind}_per_cycle": 1.0 for kind in ("fadd", "fmul", "ffma", "fadd2", "fmul2", "ffma2")}
    assert value("fp32_flop_per_s", fake(smsp_clock=1e9, **given)) == (1 + 1 + 2 + 2 + 2 + 4) * 1e9


# ---------
# The table
# ---------


def base_name(name: str) -> str:
    return name.split(".")[0]


@cache
def counters() -> frozenset[str]:
    """Every hardware counter's name, of all chips and versions in the list."""
    packed = Path(__file__).with_name("metric_presence.csv.gz").read_bytes()
    return frozenset(row["metric"] for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))


def test_every_counter_exists_on_some_chip() -> None:
    names = {base_name(name) for concept in dictionary().values() for name in concept.names}
    assert {n for n in names if not NOT_COUNTERS.match(n)} - counters() - OLD_NAMES == set()


def test_old_names_are_all_needed() -> None:
    names = {base_name(name) for concept in dictionary().values() for name in concept.names}
    assert names - counters() >= OLD_NAMES


def test_every_concept_is_whole() -> None:
    table = dictionary()
    for concept in table.values():
        assert concept.names or concept.formulas, concept.id
        assert len(set(concept.names)) == len(concept.names), concept.id
        assert concept.unit in UNITS, concept.id
        assert concept.section in SECTIONS, concept.id
        assert concept.id.endswith("_pct") == (concept.unit == "%"), concept.id
        for formula in concept.formulas:
            assert set(formula.concepts) <= table.keys(), concept.id


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_concept_has_words(language: str) -> None:
    stop = {"en": ".", "ja": "。"}[language]
    for concept in dictionary().values():
        label, plain = concept.label[language], concept.plain[language]
        assert 0 < len(label) <= 40, concept.id
        assert plain.endswith(stop), concept.id
        assert plain.count(stop + (" " if language == "en" else "")) <= 3, concept.id
        assert "\n" not in plain, concept.id


def test_a_japanese_sentence_is_japanese() -> None:
    kana = re.compile("[぀-ヿ]")
    assert [c.id for c in dictionary().values() if not kana.search(c.plain["ja"])] == []


def test_a_name_leads_back_to_its_concept() -> None:
    assert concept_of_metric()["gpu__time_duration.sum"].id == "duration"
    assert concept_of_metric()["device__attribute_multiprocessor_count"].id == "device_sm_count"


def test_names_of_takes_in_the_formulas() -> None:
    names = names_of(["load_sectors_per_request"])
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in names
    assert "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum" in names


# ------------
# Real reports
# ------------


def actions(path: Path) -> Iterator[Any]:
    library = pytest.importorskip("ncu_report")
    context = library.load_report(str(path))
    for index in range(context.num_ranges()):
        one = context.range_by_idx(index)
        for action in range(one.num_actions()):
            yield one.action_by_idx(action)


def lookup_of(action: Any) -> Lookup:
    def lookup(name: str) -> Metric | None:
        metric = action.metric_by_name(name)
        if metric is None:
            return None
        held = metric.value() if metric.has_value() else None
        return Metric(name, None if isinstance(held, float) and math.isnan(held) else held, metric.unit())

    return lookup


def kernel(reports: Path, report: str, name: str) -> tuple[Lookup, Callable[[str], float]]:
    """The first kernel of this name, and its raw numbers."""
    action = next(a for a in actions(reports / "ncu" / report) if a.name() == name)
    return lookup_of(action), lambda metric: float(action.metric_by_name(metric).value())


def test_memory_concepts_of_a_transpose(reports: Path) -> None:
    lookup, raw = kernel(reports, "Lashi0812__CudaProgramming__smemTranspose.ncu-rep", "naiveGmem")
    assert value("dram_bytes", lookup) == raw("dram__bytes_read.sum") + raw("dram__bytes_write.sum") > 0
    for op, word in (("ld", "load"), ("st", "store")):
        sectors = raw(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum")
        requests = raw(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum")
        assert value(f"{word}_sectors_per_request", lookup) == sectors / requests
    assert value("store_sectors_per_request", lookup) == 32
    assert value("l2_sectors_global_excess", lookup) == pytest.approx(
        raw("memory_l2_theoretical_sectors_global") - raw("memory_l2_theoretical_sectors_global_ideal")
    )


def test_bank_conflicts_of_a_transpose(reports: Path) -> None:
    lookup, raw = kernel(reports, "Lashi0812__CudaProgramming__smemTranspose.ncu-rep", "transposeSmem")
    expected = raw("memory_l1_wavefronts_shared") / raw("memory_l1_wavefronts_shared_ideal")
    assert value("shared_nway", lookup) == expected > 4


def test_peaks_and_rates_of_a_full_report(reports: Path) -> None:
    lookup, raw = kernel(reports, "AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4")
    clock = raw("smsp__cycles_elapsed.avg.per_second")
    op = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    flops = (raw(op.format("fadd")) + raw(op.format("fmul")) + 2 * raw(op.format("ffma"))) * clock
    assert value("fp32_flop_per_s", lookup) == pytest.approx(flops, rel=1e-9)
    assert flops > 0
    ffma = raw("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained")
    peak = 2 * ffma * raw("sm__cycles_elapsed.avg.per_second")
    assert value("fp32_peak_flop_per_s", lookup) == pytest.approx(peak, rel=0.01)
    dram = raw("dram__bytes.sum.peak_sustained") * raw("dram__cycles_elapsed.avg.per_second")
    assert value("dram_peak_bytes_per_s", lookup) == pytest.approx(dram, rel=1e-9)
    share = 100 * value("dram_bytes_per_s", lookup) / dram
    assert share == pytest.approx(raw("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"), rel=1e-6)
    # The same peak from the bus width, which a basic report has too.
    without = resolve("dram_peak_bytes_per_s", lambda n: None if n == "dram__bytes.sum.peak_sustained" else lookup(n))
    assert without is not None
    assert without.value == pytest.approx(dram, rel=1e-9)


def test_l1_over_the_whole_run_from_its_active_share(reports: Path) -> None:
    lookup, raw = kernel(reports, "AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4")
    stored = "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"
    worked_out = resolve("l1_elapsed_pct", lambda name: None if name == stored else lookup(name))
    assert worked_out is not None
    assert worked_out.value == pytest.approx(raw(stored), rel=1e-6)


def test_stall_reasons_add_up_to_the_latency(reports: Path) -> None:
    lookup, _ = kernel(reports, "AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4")
    total = sum(found.value for id in dictionary() if id.startswith("stall_") and (found := resolve(id, lookup)))
    assert total == pytest.approx(value("warp_latency", lookup), rel=0.05)


def test_dense_tensor_peak_of_a_hopper(reports: Path) -> None:
    lookup, raw = kernel(reports, "AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4")
    sms = value("device_sm_count", lookup)
    per_sm = {"bf16": 4096, "fp16": 4096, "tf32": 2048, "fp8": 8192, "int8": 8192, "fp64": 256}
    for precision, dense in per_sm.items():
        assert value(f"tensor_ops_{precision}_peak_per_cycle", lookup) == dense * sms, precision
    assert value("tensor_ops_bf16_peak_per_s", lookup) == raw(
        "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained_elapsed.per_second"
    )


IMPORTANT = {
    *(
        "duration",
        "elapsed_cycles",
        "sm_clock",
        "dram_clock",
        "sm_cycles_active_avg",
        "sm_cycles_active_max",
        "sm_cycles_elapsed_avg",
    ),
    *("sm_pct", "memory_pct", "dram_pct", "l2_pct", "l1_pct", "l1_elapsed_pct"),
    *(
        "device_sm_count",
        "device_cc_major",
        "device_clock",
        "device_l2_bytes",
        "device_max_warps_per_sm",
        "device_fp64_ratio",
    ),
    *("grid_size", "block_size", "registers_per_thread", "shared_per_block", "waves", "sm_count", "cluster_size"),
    *(
        "limit_registers",
        "limit_shared",
        "limit_warps",
        "limit_blocks",
        "theoretical_occupancy_pct",
        "achieved_occupancy_pct",
    ),
    *(
        "tensor_pct",
        "tensor_type_pct",
        "tensor_hmma_pct",
        "tensor_gmma_pct",
        "tensor_ops_bf16",
        "tensor_ops_bf16_peak_per_s",
    ),
    *("issue_active", "issue_idle_pct", "eligible_warps", "warp_latency", "ipc", "inst_executed"),
    *(
        "stall_long_scoreboard",
        "stall_barrier",
        "stall_gmma",
        "pcsamp_samples",
        "pcsamp_long_scoreboard",
        "pcsamp_no_instruction",
        "pcsamp_gmma",
    ),
    *("threads_per_inst", "threads_per_inst_pred", "warp_execution_efficiency_pct", "branch_uniform_pct"),
    *("dram_bytes", "dram_bytes_per_s", "dram_peak_bytes_per_s", "l1_hit_pct", "l2_hit_pct", "l2_read_hit_pct"),
    *(
        "global_load_sectors",
        "load_sectors_per_request",
        "store_sectors_per_request",
        "load_bytes_per_sector",
        "load_bytes_per_sector_max",
    ),
    *(
        "l2_sectors_global",
        "l2_sectors_global_excess",
        "l1_sectors",
        "l2_sectors",
        "l2_sectors_from_l1",
        "l2_to_l1_bytes",
    ),
    *("shared_load_conflicts", "shared_wavefronts", "shared_wavefronts_excess", "shared_nway", "shared_load_inst"),
    *(
        "local_load_inst",
        "local_load_sectors",
        "ldgsts_inst",
        "tma_pct",
        "atomic_input_pct",
        "sysmem_miss_sectors",
        "pcie_read_bytes_per_s",
    ),
    *(
        "fp32_flop_per_s",
        "fp64_flop_per_s",
        "fp16_flop_per_s",
        "fp32_peak_flop_per_s",
        "fp64_peak_flop_per_s",
        "fp16_peak_flop_per_s",
    ),
    *("l2_bytes_per_s", "l2_peak_bytes_per_s", "l1_bytes_per_s", "l1_peak_bytes_per_s"),
    *(
        "pipe_fma_pct",
        "pipe_alu_pct",
        "pipe_fp64_pct",
        "pipe_fp16_pct",
        "pipe_lsu_pct",
        "pipe_xu_pct",
        "pipe_cbu_pct",
        "pipe_uniform_pct",
    ),
}


TOLD_BY_A_FULL_REPORT = 330
"""Of an H100's full set by ncu 2025.1. What is missing is of other chips and of hand-picked metrics."""


def test_what_a_full_report_tells(reports: Path) -> None:
    lookup, _ = kernel(reports, "AlpriElse__cs599k__2025-04-21-v1.ncu-rep", "rms_norm_vector_kernel_float4")
    told = {id for id in dictionary() if resolve(id, lookup) is not None}
    assert IMPORTANT - told == set()
    assert len(told) == TOLD_BY_A_FULL_REPORT


# A rate over all units of a link or a cache may pass its nominal limit by rounding, not by more.
HIGHEST_PCT = 101


def test_no_value_of_any_real_report_is_impossible(reports: Path) -> None:
    files = sorted(p for p in (reports / "ncu").iterdir() if p.suffix in (".ncu-rep", ".nsight-cuprof-report"))
    assert len(files) >= 30
    wrong: list[tuple[str, str, float]] = []
    for path in files:
        for action in actions(path):
            lookup = lookup_of(action)
            for concept in dictionary().values():
                found = resolve(concept.id, lookup)
                if found is None:
                    continue
                highest = HIGHEST_PCT if concept.unit == "%" else math.inf
                if not (math.isfinite(found.value) and 0 <= found.value <= highest):
                    wrong.append((path.name, concept.id, found.value))
    assert wrong == []
