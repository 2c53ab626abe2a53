"""Plain words for metrics that the dictionary does not hold."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from gputui.model.describe import describe
from gputui.model.metrics import dictionary


def test_the_dictionary_has_the_word_first() -> None:
    name = "gpu__time_duration.sum"
    assert describe(name) == dictionary()["duration"].plain["en"]
    assert describe(name, "ja") == dictionary()["duration"].plain["ja"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "l1tex__t_bytes_pipe_lsu_mem_global_op_st_lookup_miss.sum",
            "L1 cache and texture unit of an SM: bytes, load/store pipe, global memory, stores, "
            "not found in the cache (in total).",
        ),
        (
            "dram__bytes.sum.pct_of_peak_sustained_elapsed",
            "DRAM (the GPU's main memory): bytes (in total, in percent of the hardware's limit over the whole run).",
        ),
        (
            "derived__smsp__inst_executed_op_branch_pct",
            "Worked out from other metrics: SM partition (a quarter of an SM, with its own scheduler): "
            "instructions run, branches, in percent.",
        ),
        ("launch__uses_vgpu", "Launch of the kernel: uses vgpu."),
    ],
)
def test_words_for_the_parts(name: str, expected: str) -> None:
    assert describe(name) == expected


def test_japanese() -> None:
    assert describe("dram__bytes_read.sum.per_second", "ja") == (
        "DRAM（GPU のメインメモリ）：読んだバイト（合計、1 秒あたり）。"
    )


def test_a_language_without_words_gets_english() -> None:
    for name in ("gpu__time_duration.sum", "dram__bytes_read.sum.per_second"):
        assert describe(name, "xx") == describe(name, "en")


def test_unknown_parts_stay_as_they_are() -> None:
    assert describe("foo__bar_baz_cycles_active.qux") == "Foo: bar baz cycles active (qux)."
    assert describe("lts__t_sectors_zig_op_read.sum").startswith(
        "Slice of the L2 cache: sectors (pieces of 32 bytes), zig, reads"
    )
    # Words of a property's name mean nothing of their own.
    assert describe("device__attribute_sass_level") == "The GPU itself: attribute sass level."


def test_every_counter_gets_a_sentence_in_both_languages() -> None:
    packed = Path(__file__).with_name("metric_presence.csv.gz").read_bytes()
    for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode())):
        name = f"{row['metric']}.sum"
        assert describe(name).endswith(".")
        assert describe(name, "ja").endswith("。")
        assert "__" not in describe(name)
