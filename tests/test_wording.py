"""Every id has every text in every language, and every text can be filled with what its rule gives."""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from built import Values, metrics_of, sm_parts
from gputui import units
from gputui.analysis.engine import Diagnosis, diagnose_all
from gputui.analysis.facts import Facts
from gputui.analysis.finding import Finding
from gputui.analysis.neighbours import Launches
from gputui.analysis.rules import all_rules
from gputui.analysis.timeline_rules import all_timeline_rules
from gputui.analysis.verdict import _PIPES, verdict_of
from gputui.data import demo_report
from gputui.formats import open_report
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.metrics import Metric, Value, dictionary
from gputui.model.report import Session
from gputui.wording import LANGUAGES, READER_LEVELS, ReaderLevel, language_of_locale, wording

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(str(resources.files("gputui")))
SAMPLES = Path(__file__).parents[1] / "sample_reports"
TERMS = Path(__file__).parents[1] / "docs" / "terms-ja.md"
LATENCY = {"sm_pct": 20.0, "memory_pct": 20.0}
TIGHT = {**LATENCY, "theoretical_occupancy_pct": 50.0, "limit_warps": 8.0, "block_size": 96.0}
STALL = {**LATENCY, "warp_latency": 20.0, "issue_active": 0.2, "block_size": 256.0}
SAMPLED = {
    **LATENCY, "block_size": 256.0, "pcsamp_samples": 1000.0, "pcsamp_selected": 50.0,
    "sm_issue_active_elapsed_pct": 20.0,
}  # fmt: skip
SECTORS = {"global_load_sectors": 1e6, "global_store_sectors": 1e6}

STEP = {"duration": 1e5, "dram_pct": 80.0, "dram_read_bytes": 1e8, "dram_write_bytes": 1e8,
        "dram_peak_bytes_per_s": 4e12}  # fmt: skip

ELEMENTWISE = "at::native::vectorized_elementwise_kernel"
ADD, MUL = f"{ELEMENTWISE}<CUDAFunctor_add>", f"{ELEMENTWISE}<binary_internal::MulFunctor>"
FOREACH = "at::native::multi_tensor_apply_kernel<UnaryOpFunctor>"
AMONG: Mapping[str, tuple[str, ...]] = {
    "elementwise-chain": (MUL, ADD),
    "naive-attention": ("sgemm", "softmax", "sgemm"),
    "layout-copies": ("sgemm", "at::native::direct_copy_kernel_cuda"),
    "unfused-optimizer": (FOREACH,) * 5,
    "splitk-overhead": ("sgemm", "splitKreduce_kernel"),
}
"""The launches, by name, that a finding about several needs: each as ``FIRES`` says."""
NAMES = {"tensor-cores-unused": "sgemm", "gemv-decode": "gemv", "irregular-gather": "embedding",
         "multi-pass-norm": "softmax"}  # fmt: skip
"""What the kernel must be, where a rule asks for it. The occupancy rules leave busy matrix products alone."""

FIRES: Mapping[str, Mapping[str, float]] = {
    "missing-metrics": {},
    "too-short": {"duration": 2000.0},
    "clock-locked": {"sm_clock": 1e9, "device_clock": 2e9},
    "cold-cache": {"dram_bytes": 1e6, "device_l2_bytes": 5e7, "dram_pct": 50.0},
    "replay-inconsistent": {"sm_pct": 130.0},
    "single-launch": {},
    "small-grid": {"grid_size": 16.0, "sm_count": 132.0, **LATENCY},
    "tail-wave": {"waves": 1.25, "achieved_occupancy_pct": 40.0, "theoretical_occupancy_pct": 100.0},
    "partial-warp": {"block_size": 33.0},
    "sm-imbalance": {
        "sm_cycles_active_avg": 50.0, "sm_cycles_active_max": 100.0, "sm_cycles_active_sum": 60.0,
        "sm_cycles_elapsed_sum": 100.0, "grid_size": 200.0, "sm_count": 100.0,
    },
    "few-blocks": {
        **STALL, "stall_barrier": 4.0, "grid_size": 132.0, "sm_count": 132.0, "waves": 0.5,
    },
    "cluster-limits": {
        **LATENCY, "cluster_size": 16.0, "cluster_max_active": 7.0, "grid_size": 528.0, "sm_count": 132.0,
        "limit_registers": 8.0, "limit_shared": 1.0, "limit_warps": 8.0, "limit_blocks": 32.0,
    },
    "occupancy-registers": {**TIGHT, "limit_registers": 2.0, "registers_per_thread": 255.0},
    "occupancy-shared-memory": {**TIGHT, "limit_shared": 2.0, "shared_per_block": 1e5},
    "occupancy-block-count": {**TIGHT, "limit_blocks": 2.0},
    "occupancy-block-size": {**TIGHT, "limit_warps": 2.0},
    "occupancy-barriers": {**TIGHT, "limit_barriers": 4.0, "barrier_count": 16.0},
    "occupancy-achieved": {
        **LATENCY, "theoretical_occupancy_pct": 100.0, "achieved_occupancy_pct": 50.0, "waves": 4.0,
    },
    "stall-long-scoreboard": {**STALL, "stall_long_scoreboard": 15.0},
    "stall-barrier": {**STALL, "stall_barrier": 15.0},
    "stall-short-scoreboard": {**STALL, "stall_short_scoreboard": 15.0},
    "stall-lg-throttle": {**STALL, "stall_lg_throttle": 15.0},
    "stall-mio-throttle": {**STALL, "stall_mio_throttle": 15.0},
    "stall-tex-throttle": {**STALL, "stall_tex_throttle": 15.0},
    "stall-math-pipe": {**STALL, "stall_math_pipe_throttle": 15.0},
    "stall-wait": {**STALL, "stall_wait": 15.0},
    "stall-no-instruction": {**STALL, "stall_no_instruction": 15.0},
    "stall-branch": {**STALL, "stall_branch_resolving": 15.0},
    "stall-membar": {**STALL, "stall_membar": 15.0},
    "stall-drain": {**STALL, "stall_drain": 15.0},
    "stall-sleeping": {**STALL, "stall_sleeping": 15.0},
    "stall-imc-miss": {**STALL, "stall_imc_miss": 15.0},
    "stall-gmma": {**STALL, "stall_gmma": 15.0},
    "issue-slots": STALL,
    "dram-bandwidth": {
        "dram_pct": 90.0, "dram_bytes": 1e9, "dram_bytes_per_s": 4e12, "dram_peak_bytes_per_s": 4.8e12,
    },
    "l2-bandwidth": {"sm_pct": 10.0, "l2_pct": 80.0, "dram_pct": 20.0},
    "l1-bandwidth": {"sm_pct": 10.0, "l1_elapsed_pct": 80.0, "dram_pct": 20.0},
    "uncoalesced-load": {
        **SECTORS, "load_bytes_per_sector": 8.0, "load_bytes_per_sector_max": 32.0, "global_load_requests": 1e5,
    },
    "uncoalesced-store": {
        **SECTORS, "store_bytes_per_sector": 8.0, "store_bytes_per_sector_max": 32.0, "global_store_requests": 1e5,
    },
    "bank-conflicts": {"shared_load_conflicts": 500.0, "shared_load_wavefronts": 1000.0},
    "partial-sectors": {
        "sm_pct": 10.0, "memory_pct": 80.0, "l2_pct": 80.0, "global_store_sectors": 5e6, "global_store_requests": 1e6,
        "store_bytes_per_sector": 25.6, "store_bytes_per_sector_max": 32.0,
    },
    "l2-thrash": {
        "dram_pct": 80.0, "dram_read_bytes": 3e11, "device_memory_bytes": 1e11, "global_load_sectors": 1e10,
        "duration": 1e9,
    },
    "redundant-traffic": {"dram_pct": 80.0, "dram_read_bytes": 2e9, "l2_to_l1_bytes": 1e9},
    "atomic-contention": {
        **LATENCY, "global_red_sectors": 8e6, "global_red_requests": 1e6, "l2_sectors_from_l1": 1e7,
    },
    "sysmem-traffic": {
        **LATENCY, "sysmem_miss_sectors": 1e6, "duration": 1e6, "dram_peak_bytes_per_s": 1e12,
    },
    "l2-compression": {
        "l2_compression_success_pct": 5.0, "l2_compression_input_sectors": 1e6, "l2_sectors": 2e6,
    },
    "register-spill": {"local_load_sectors": 1000.0, "local_load_inst": 10.0, "inst_executed": 100.0},
    "compute-roof": {"sm_pct": 90.0},
    "tensor-roof": {**LATENCY, "tensor_pct": 80.0},
    "tensor-cores-unused": {"sm_pct": 70.0, "tensor_pct": 1.0},
    "thread-divergence": {"threads_per_inst": 8.0, "sm_pct": 50.0},
    "fp64-on-slow-part": {"pipe_fp64_pct": 80.0, "device_fp64_ratio": 32.0},
    "tf32-off": {"sm_pct": 70.0, "tensor_pct": 1.0},
    "fp16-without-tensor": {"pipe_fp16_pct": 60.0, "tensor_pct": 1.0},
    "pipe-saturated": {"sm_pct": 70.0, "memory_pct": 20.0},
    "unfused-math": {
        **LATENCY, "fadd_per_cycle": 100.0, "fmul_per_cycle": 100.0, "ffma_per_cycle": 10.0, "pipe_fma_pct": 40.0,
    },
    "predication": {"threads_per_inst": 30.0, "threads_per_inst_pred": 15.0, "sm_pct": 50.0},
    "low-ilp": {
        **STALL, "stall_wait": 8.0, "stall_short_scoreboard": 6.0, "eligible_warps": 0.2,
        "achieved_occupancy_pct": 70.0,
    },
    "hopper-features-unused": {
        "sm_pct": 60.0, "tensor_pct": 70.0, "tensor_type_pct": 70.0, "tensor_gmma_pct": 0.0, "l2_pct": 30.0,
    },
    "blackwell-features-unused": {"sm_pct": 20.0, "tensor_pct": 20.0, "tensor_tc_pct": 0.0},
    "fp8-opportunity": {"sm_pct": 70.0, "tensor_pct": 70.0, "tensor_ops_bf16": 1e12},
    "async-copy-unused": {**STALL, "stall_long_scoreboard": 10.0, "opcode_total": 16.0},
    "gemv-decode": {"dram_pct": 90.0},
    "irregular-gather": {"load_bytes_per_sector": 8.0, "load_bytes_per_sector_max": 32.0},
    "multi-pass-norm": {
        "dram_read_bytes": 1e8, "dram_write_bytes": 9e7, "l2_sectors_from_l1": 1e7, "global_store_sectors": 3e6,
    },
    **dict.fromkeys(
        ("elementwise-chain", "naive-attention", "layout-copies", "unfused-optimizer", "splitk-overhead"), STEP
    ),
}  # fmt: skip
"""What a kernel must show for each rule to hold, by concept."""

METRICS: Mapping[str, Values] = {
    "pipe-saturated": sm_parts(pipe_alu_cycles_active=70),
    "async-copy-unused": {"opcode_total": {"LDG": 1.0, "STS": 1.0, "LDS": 4.0, "FFMA": 10.0}},
}
"""And what it must hold by metric."""

PRODUCTS = frozenset(
    {
        "tensor-cores-unused", "tf32-off", "fp16-without-tensor", "hopper-features-unused",
        "blackwell-features-unused", "fp8-opportunity",
    }
)  # fmt: skip

SENTENCES = {
    "unknown": {"default"},
    "launch-bound": {"short", "grid"},
    "tensor-bound": {"default", "older", "roof"},
    "compute-bound": {*_PIPES.values(), "fp64-alu", "other", "roof"},
    "memory-bound": {"default", "dram", "dram-partly", "dram-roof", "l2", "l2-dram", "l1"},
    "balanced": {"default", "issue"},
    "latency-bound": {"default", "tensor", "dram", "l2", "l1"},
}
"""What verdict.py can say."""


class _Kernel(Kernel):
    """A kernel whose concepts are given, whatever metrics they are made of."""

    concepts: Mapping[str, float]
    metrics: Mapping[str, Metric]

    def value(self, concept: str) -> Value | None:
        known, row = self.concepts.get(concept), dictionary()[concept]
        return None if known is None else Value(known, row.unit, row.names[0] if row.names else concept)

    def metric(self, name: str) -> Metric | None:
        return self.metrics.get(name)


def kernel_with(
    concepts: Mapping[str, float], name: str = "sgemm", index: int = 0, metrics: Values | None = None
) -> Kernel:
    device = Device("NVIDIA A100-SXM4-40GB", (8, 0), 108)
    kernel = _Kernel(index, name, f"void {name}(float*)", device, None)  # type: ignore[arg-type]
    kernel.concepts = concepts
    kernel.metrics = metrics_of(metrics or {})
    return kernel


def finding_of(id: str, concepts: Mapping[str, float]) -> Finding | None:
    # The occupancy rules leave busy matrix products alone.
    names = AMONG.get(id, ("sgemm" if id in PRODUCTS else NAMES.get(id, "walk"),))
    kernels = [kernel_with(concepts, name, i, METRICS.get(id)) for i, name in enumerate(names)]
    launches = Launches(kernels, Session())
    rule = all_rules()[id]
    for kernel in kernels:
        facts = Facts(kernel, neighbours=launches.of(kernel))
        check = rule.otherwise if rule.missing(facts) else rule.check
        hit = check(facts, verdict_of(facts)) if check is not None else None
        if hit is not None:
            return rule.finding(hit, facts)
    return None


def table(language: str) -> dict[str, Any]:
    text = resources.files("gputui.data").joinpath("wording", f"{language}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def texts(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a table with its dotted path; the texts of a list under their number."""
    if isinstance(node, str):
        yield path, node
        return
    for key, child in node.items() if isinstance(node, dict) else enumerate(node):
        yield from texts(child, f"{path}.{key}" if path else str(key))


def placeholders(text: str) -> list[tuple[str, str]]:
    """Names and formats; a number with its English noun is a count to other languages."""
    found = [(name, spec or "") for _, name, spec, _ in string.Formatter().parse(text) if name is not None]
    return sorted((name, "count" if spec.startswith("many ") else spec) for name, spec in found)


def filled(finding: Finding, language: str) -> list[str]:
    text = wording(language).finding(finding)
    actions = [action for level in READER_LEVELS for action in text.actions[level]]
    return [text.title, text.why, text.analogy, text.verify, *actions]


def assert_well_filled(text: str) -> None:
    """Nothing left open, and no number that is none."""
    assert text.strip() == text != ""
    assert not re.search(r"None\b|\bnan\b|\binf\b|\{[a-z_]+(:[a-z]+)?\}", text), text
    assert units.DASH not in text, text


def test_the_languages_have_the_same_texts_with_the_same_placeholders() -> None:
    english, japanese = (dict(texts(table(language))) for language in ("en", "ja"))
    assert english.keys() == japanese.keys()
    differing = [key for key in english if placeholders(english[key]) != placeholders(japanese[key])]
    assert not differing


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_placeholder_names_a_format_that_there_is(language: str) -> None:
    for key, text in texts(table(language)):
        assert all(spec in ("", *units.BY_NAME) for _, spec in placeholders(text)), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_rule_has_every_text_and_no_other_has(language: str) -> None:
    rows = table(language)["finding"]
    assert rows.keys() == all_rules().keys() | all_timeline_rules().keys()
    for id, row in rows.items():
        assert {"name", "title", "why", "analogy", "verify", "actions"} <= row.keys(), id
        assert row["actions"].keys() == set(READER_LEVELS), id
        assert all(isinstance(row["actions"][level], list) and row["actions"][level] for level in READER_LEVELS), id


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_one_line_without_blanks_around(language: str) -> None:
    for key, text in texts(table(language)):
        assert "\n" not in text, key
        assert text.strip(), key
        assert text == text.strip(), key


def test_the_table_of_this_test_knows_every_rule() -> None:
    assert all_rules().keys() == FIRES.keys()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("id", FIRES)
def test_a_rules_texts_are_filled_by_what_it_finds(id: str, language: str) -> None:
    finding = finding_of(id, FIRES[id])
    assert finding is not None
    for text in filled(finding, language):
        assert_well_filled(text)
    assert_well_filled(wording(language).finding_name(id))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("id", FIRES)
def test_a_rules_texts_ask_for_nothing_that_it_does_not_give(id: str, language: str) -> None:
    finding = finding_of(id, FIRES[id])
    assert finding is not None
    asked = {name for _, text in texts(table(language)["finding"][id]) for name, _ in placeholders(text)}
    assert asked <= finding.params.keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_finding_without_the_bytes_has_a_reason_without_them(language: str) -> None:
    finding = finding_of("dram-bandwidth", {"dram_pct": 90.0})
    assert finding is not None
    assert finding.variant == "bytes-unknown"
    for text in filled(finding, language):
        assert_well_filled(text)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("id", "concepts", "variant"),
    [
        ("uncoalesced-store", {"duration": 1e5, "global_store_requests": 1e6, "l2_store_sectors": 12e6}, "l2"),
        ("uncoalesced-load", {"duration": 1e5, "global_load_requests": 1e6, "l2_load_sectors": 24e6}, "l2"),
        ("dram-bandwidth", {"dram_pct": 80.0}, "room"),
        ("dram-bandwidth", {"dram_read_pct": 80.0}, "one-way"),
        ("register-spill", FIRES["register-spill"], "unknown"),
        ("register-spill", {**FIRES["register-spill"], "registers_per_thread": 40.0}, "unknown-few"),
        ("register-spill", {**FIRES["register-spill"], "registers_per_thread": 200.0}, "unknown-many"),
        ("register-spill", {**FIRES["register-spill"], "spill_pct": 0.0}, "indexed"),
        (
            "l2-thrash",
            {"dram_pct": 80.0, "dram_read_bytes": 3e8, "accessible_memory_bytes": 1e8, "global_load_sectors": 1e7},
            "allocated",
        ),
        *(
            (f"stall-{reason.replace('_', '-')}", {**SAMPLED, f"pcsamp_{reason}": 600.0}, "sampled")
            for reason in ("long_scoreboard", "barrier", "wait")
        ),
        ("occupancy-barriers", {**TIGHT, "limit_barriers": 4.0}, "uncounted"),
    ],
)
def test_a_finding_with_fewer_numbers_has_a_reason_without_them(
    id: str, concepts: Mapping[str, float], variant: str, language: str
) -> None:
    finding = finding_of(id, concepts)
    assert finding is not None
    assert finding.variant == variant
    for text in filled(finding, language):
        assert_well_filled(text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_verdict_has_its_sentences_and_no_other(language: str) -> None:
    rows = table(language)["verdict"]
    assert {id: row.keys() - {"name"} for id, row in rows.items()} == SENTENCES
    assert all(row["name"] for row in rows.values())
    assert table(language)["ui"]["verdict_short"].keys() == SENTENCES.keys()


def test_verdicts_fill_what_their_sentences_ask_for() -> None:
    given = verdict_of(Facts(kernel_with({}))).params.keys() | {"arithmetic_pct"}
    for language in LANGUAGES:
        for id, row in table(language)["verdict"].items():
            asked = {name for text in row.values() for name, _ in placeholders(text)}
            assert asked <= given, id


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_notice_that_a_format_gives_has_a_text_and_no_other_has(language: str) -> None:
    code = "\n".join(
        path.read_text(encoding="utf-8") for folder in ("formats", "model") for path in (PACKAGE / folder).glob("*.py")
    )
    given = dict(re.findall(r'\bNotice\(\s*"([a-z-]+)"(?:,\s*(\{[^}]*\}))?', code))
    rows = table(language)["notice"]
    assert rows.keys() == given.keys()
    for id, text in rows.items():
        assert {name for name, _ in placeholders(text)} <= set(re.findall(r'"(\w+)":', given[id])), id


def test_no_english_sentence_is_left_in_the_japanese_texts() -> None:
    for key, text in texts(table("ja")):
        # Commands to type are the same in every language.
        if not re.search(r"[\u3040-\u30ff\u4e00-\u9fff]|^(sudo|docker|echo|mkdir|unset) ", text):
            assert not re.search(r"[A-Za-z]+ [a-z]+ [a-z]+", text), key


def terms() -> list[tuple[str, list[str], list[str]]]:
    """The rows of the table of terms: the English term, its Japanese forms, and the forms not to use."""
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in TERMS.read_text(encoding="utf-8").split("## Terms")[1].splitlines()
        if line.startswith("|")
    ][2:]
    return [(row[0], row[1].split("、"), row[2].split("、") if len(row) > 2 else []) for row in rows]


def japanese_texts() -> Iterator[tuple[str, str]]:
    yield from texts(table("ja"))
    for name in ("metrics.toml", "metric_words.toml"):
        rows = tomllib.loads(resources.files("gputui.data").joinpath(name).read_text(encoding="utf-8"))
        yield from ((f"{name}:{key}", text) for key, text in texts(rows) if key.endswith(".ja"))


def test_the_japanese_texts_use_no_form_that_the_table_of_terms_rules_out() -> None:
    avoided = [form for _, _, forms in terms() for form in forms]
    assert len(avoided) > 50
    found = [(key, form) for key, text in japanese_texts() for form in avoided if form in text.replace("その他", "")]
    assert not found


def test_the_names_and_titles_of_findings_use_the_fixed_terms() -> None:
    english, japanese = (dict(texts(table(language)["finding"])) for language in ("en", "ja"))
    checked = 0
    for key, text in english.items():
        if not re.search(r"\.(name|title)(-[\w-]+)?$", key):
            continue
        counted = re.sub(r"\{\w+:many (\w+)\}", r" \1 ", text)
        plain = re.sub(r"\{[^}]*\}", "", counted).replace("-", " ").lower()
        for term, fixed, _ in terms():
            words = [word.strip().lower() for word in re.sub(r"\(.*?\)", "", term).split(",")]
            if any(word and re.search(rf"\b{word}(s|es)?\b", plain) for word in words):
                checked += 1
                assert any(form in japanese[key] for form in fixed), (key, term)
    assert checked > 100


JAPANESE = "\u3041-\u30fa\u30fc\u4e00-\u9fff"
"""Kana and kanji, without the middle dot."""


def test_japanese_and_latin_letters_have_a_blank_between_them() -> None:
    for key, text in japanese_texts():
        filled_in = re.sub(r"\{[^}]*\}", "8", text)
        assert not re.search(rf"[{JAPANESE}][A-Za-z0-9]|[A-Za-z0-9%][{JAPANESE}]", filled_in), key


def test_punctuation_beside_japanese_is_full_width() -> None:
    for key, text in japanese_texts():
        assert not re.search(rf"[{JAPANESE}] ?[:;,!?]|[{JAPANESE}] ?\((?![a-z]|\w* \^)", text), key
        assert not re.search(r"[：、。（] |[ ][：、。）]", text), key


def test_each_kind_of_japanese_text_has_one_style() -> None:
    polite = re.compile(r"(です|ます|ません|ください|ました)(?=。|$|：)")
    plain = re.compile(r"(である|ない|する|いる)。")
    for key, text in texts(table("ja")):
        kind = key.split(".")[0]
        if kind in ("finding", "verdict", "expected", "notice", "nvidia", "explain"):
            assert not polite.search(text), key
        if kind in ("ui", "glossary"):
            assert not plain.search(text), key


def test_no_japanese_is_left_in_the_english_texts() -> None:
    for key, text in texts(table("en")):
        assert not re.search(r"[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef]", text), key


@pytest.mark.parametrize(
    ("id", "concepts"),
    [
        ("small-grid", {"grid_size": 1.0}),
        ("partial-warp", {"block_size": 6.0}),
        ("occupancy-registers", {"limit_registers": 1.0}),
        ("occupancy-shared-memory", {"limit_shared": 1.0}),
    ],
)
def test_one_is_singular(id: str, concepts: Mapping[str, float]) -> None:
    finding = finding_of(id, {**FIRES[id], **concepts})
    assert finding is not None
    assert not re.search(r"\b1 (blocks|warps|threads)\b", "\n".join(filled(finding, "en")))


def test_a_last_wave_that_is_nearly_full_is_not_called_nearly_empty() -> None:
    finding = finding_of("tail-wave", {**FIRES["tail-wave"], "waves": 1.94})
    if finding is not None:
        assert "most SMs have nothing to do" not in wording("en").finding(finding).why


def test_little_is_left_only_where_the_bound_says_so() -> None:
    finding = finding_of("dram-bandwidth", {**FIRES["dram-bandwidth"], "sm_pct": 10.0, "dram_pct": 61.0})
    if finding is not None and (finding.max_speedup or 1) > 1.25:
        assert "little left" not in wording("en").finding(finding).why


def _every_word_of(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    yield wording(language).verdict(diagnosis.verdict)
    yield wording(language).verdict_name(diagnosis.verdict.id)
    for finding in (*diagnosis.findings, *diagnosis.validity):
        yield from filled(finding, language)
    for one in diagnosis.not_checked:
        yield wording(language).finding_name(one.id)


def _check_report(path: Path) -> int:
    report = open_report(path)
    try:
        for diagnosis in diagnose_all(report):
            for language in LANGUAGES:
                for text in _every_word_of(diagnosis, language):
                    assert_well_filled(text)
        for language in LANGUAGES:
            for notice in report.notices:
                assert_well_filled(wording(language).notice(notice))
        return len(report.kernels)
    finally:
        report.close()


@pytest.mark.parametrize("path", [demo_report(), *sorted(SAMPLES.glob("*.ncu-rep"))], ids=lambda path: path.name)
def test_every_word_about_a_sample_report_is_filled(path: Path) -> None:
    assert _check_report(path)


def test_every_word_about_the_public_reports_is_filled(reports: Path) -> None:
    for path in sorted((reports / "ncu").iterdir()):
        assert _check_report(path), path.name


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "ja_JP"}, "ja"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, "en"),
    ],
)
def test_the_language_is_the_locales(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], language: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language_of_locale() == language


TAGS = {"product", "attention", "inductor", "library", "half", "fused-optimizer", "pinned"}


def actions_for(id: str, level: ReaderLevel, *tags: str, variant: str = "") -> tuple[str, ...]:
    finding = finding_of(id, FIRES[id])
    assert finding is not None
    return wording("en").finding(replace(finding, variant=variant), tags).actions[level]


def test_the_conditions_of_actions_are_known_and_the_same_in_both_languages() -> None:
    conditions = [
        {path: found.group(1) for path, text in texts(table(language)) if (found := re.match(r"\[([^\]]+)\] ", text))}
        for language in LANGUAGES
    ]
    assert conditions[0] == conditions[1] != {}
    assert all(".actions" in path for path in conditions[0])
    assert {one.removeprefix("!") for text in conditions[0].values() for one in text.split(", ")} == TAGS


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("id", FIRES)
def test_every_level_keeps_an_action_for_every_kind_of_kernel(id: str, language: str) -> None:
    finding = finding_of(id, FIRES[id])
    assert finding is not None
    for size in range(len(TAGS) + 1):
        for tags in combinations(sorted(TAGS), size):
            actions = wording(language).finding(finding, tags).actions
            for level in READER_LEVELS:
                assert actions[level]
                assert not any(action.startswith("[") for action in actions[level])


def test_advice_that_cannot_apply_is_left_out() -> None:
    told = " ".join(actions_for("dram-bandwidth", "pytorch"))
    assert "torch.compile" in told
    assert "bf16" in told
    assert ".contiguous()" in told
    assert "torch.compile" not in " ".join(actions_for("dram-bandwidth", "pytorch", "inductor"))
    assert "bf16" not in " ".join(actions_for("dram-bandwidth", "pytorch", "half"))
    assert ".contiguous()" not in " ".join(actions_for("dram-bandwidth", "pytorch", "library"))
    assert actions_for("low-ilp", "pytorch", "inductor") == (
        'torch.compile made this kernel; mode="max-autotune" tries other block sizes.',
    )
    sdpa = "scaled_dot_product_attention"
    assert sdpa in " ".join(actions_for("compute-roof", "pytorch", "attention"))
    assert sdpa not in " ".join(actions_for("compute-roof", "pytorch"))
    few = " ".join(actions_for("small-grid", "cuda"))
    assert "Launch more blocks" in few
    assert "Split the loop" in few
    assert "K dimension" not in few
    product = " ".join(actions_for("small-grid", "cuda", "product", "library"))
    assert "K dimension" in product
    assert "smaller blocks" not in product
    assert "stream-K" not in " ".join(actions_for("tail-wave", "cuda"))
    assert "stream-K" in " ".join(actions_for("tail-wave", "cuda", "product"))
    assert "varlen" not in " ".join(actions_for("sm-imbalance", "pytorch", "product", "library", "attention"))


def test_full_issue_slots_have_their_own_advice() -> None:
    finding = finding_of("compute-roof", FIRES["compute-roof"])
    assert finding is not None
    text = wording("en").finding(replace(finding, variant="issue"))
    assert "another unit" not in " ".join(text.actions["cuda"])
    assert "16 bytes with one instruction" in text.actions["cuda"][0]
    assert "stove" not in text.analogy


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_texts_are_those_of_the_whole_file(language: str) -> None:
    """They are read table by table; a line that only looks like the start of one would cut a text in two."""
    with (PACKAGE / "data" / "wording" / f"{language}.toml").open("rb") as file:
        assert wording(language)._table == tomllib.load(file)
