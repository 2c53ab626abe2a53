from __future__ import annotations

from pathlib import Path

import pytest

from gputui.errors import GputuiError
from gputui.formats import ncu_csv, open_report
from gputui.model.report import Report

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC"'
)
KERNEL = (
    '"{id}","42","app","127.0.0.1","void ns::scale<float>(float *, int)","1","7","(128, 2, 1)","(64, 1, 1)","0","9.0"'
)

RAW = "\n".join(
    [
        HEAD
        + ',"gpu__time_duration.sum","dram__bytes_read.sum","launch__func_cache_config","lts__hit.pct","sm__x.avg"',
        '"","","","","","","","","","","","us","Mbyte","","%","cycle/nsecond"',
        KERNEL.format(id=0) + ',"22.592000","1.500000","CachePreferNone","50.250000","1.1"',
        KERNEL.format(id=1) + ',"1,022.5","0","CachePreferNone","n/a",""',
        "",
    ]
)
LONG_HEAD = (
    HEAD + ',"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"'
)
LONG_HEAD += ',"Estimated Speedup Type","Estimated Speedup"'


def long_row(section: str, metric: str, unit: str, value: str, id: int = 0) -> str:
    return KERNEL.format(id=id) + f',"{section}","{metric}","{unit}","{value}",""'


DETAILS = "\n".join(
    [
        LONG_HEAD,
        long_row("GPU Speed Of Light Throughput", "SM Frequency", "Ghz", "1.10"),
        long_row("GPU Speed Of Light Throughput", "Memory Throughput", "%", "44.98"),
        long_row("GPU Speed Of Light Throughput", "Duration", "us", "22.59"),
        long_row("GPU Speed Of Light Throughput", "Elapsed Cycles", "cycle", "13,485"),
        KERNEL.format(id=0) + ',"SpeedOfLight","","","","SOLBottleneck","OPT","Too ""small"".","global","13.51"',
        long_row("Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "345.14"),
        long_row("My own section", "Something of mine", "", "7"),
        long_row("Launch Statistics", "Dynamic Shared Memory Per Block", "Kbyte/block", "73.73"),
        long_row("GPU Speed Of Light Throughput", "Duration", "us", "9.00", id=1),
        "",
    ]
)


def opened(tmp_path: Path, text: str | bytes) -> Report:
    path = tmp_path / "out.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_report(path)


def value(report: Report, name: str, kernel: int = 0) -> float | str | None:
    metric = report.kernels[kernel].metric(name)
    assert metric is not None, name
    return metric.value


def check_raw(report: Report) -> None:
    assert report.kind == "ncu-csv"
    assert [kernel.index for kernel in report.kernels] == [0, 1]
    first, second = report.kernels
    assert (first.name, first.demangled) == ("scale", "void ns::scale<float>(float *, int)")
    assert (first.grid, first.block, first.device.capability_text) == ((64, 1, 1), (128, 2, 1), "9.0")
    assert first.duration_ns == pytest.approx(22592)
    assert second.duration_ns == pytest.approx(1022500)
    assert value(report, "dram__bytes_read.sum") == pytest.approx(1.5e6)
    assert value(report, "launch__func_cache_config") == "CachePreferNone"
    assert value(report, "lts__hit.pct") == 50.25
    assert value(report, "lts__hit.pct", 1) is None
    assert value(report, "sm__x.avg") == pytest.approx(1.1e9)
    assert second.metric("sm__x.avg") is None  # not in that kernel at all
    assert second.metric("sm__never") is None
    assert {metric.unit for metric in first.metrics().values()} == {"ns", "byte", "", "%", "hz"}


def test_raw_page(tmp_path: Path) -> None:
    report = opened(tmp_path, RAW)
    check_raw(report)
    assert (report.truncated, report.notices, report.session.command_line) == (False, [], None)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str, line_end: str) -> None:
    check_raw(opened(tmp_path, RAW.replace("\n", line_end).encode(encoding)))


def test_utf16_with_either_byte_order_mark(tmp_path: Path) -> None:
    check_raw(opened(tmp_path, b"\xff\xfe" + RAW.encode("utf-16-le")))
    check_raw(opened(tmp_path, b"\xfe\xff" + RAW.encode("utf-16-be")))


def test_other_output_in_front_in_the_middle_and_behind(tmp_path: Path) -> None:
    lines = RAW.splitlines()
    lines.insert(3, 'my "app prints, with, commas')
    lines.insert(3, '==PROF== Profiling "scale" - 1: 0%....50%....100% - 9 passes')
    before = ["==PROF== Connected to process 42 (/bin/app)", "12, 13, 14", '"quoted", and more']
    after = ["done: 1,2,3", "==PROF== Disconnected from process 42"]
    check_raw(opened(tmp_path, "\n".join(before + lines + after)))


def test_output_in_front_longer_than_what_is_sniffed(tmp_path: Path) -> None:
    check_raw(opened(tmp_path, "==PROF== Connected to process 42\n" + "noise\n" * 30000 + RAW))


def test_a_table_saved_again_by_a_spreadsheet(tmp_path: Path) -> None:
    plain = (
        "ID;Kernel Name;Block Size;Grid Size;CC;gpu__time_duration.sum;dram__bytes_read.sum\n"
        ";;;;;us;byte\n"
        "0;scale;(128, 2, 1);(64, 1, 1);9.0;22,59;27.595.520\n"
    )
    report = opened(tmp_path, plain)
    assert report.kernels[0].duration_ns == pytest.approx(22590)
    assert value(report, "dram__bytes_read.sum") == 27595520


def test_without_the_row_of_units_it_says_so(tmp_path: Path) -> None:
    lines = RAW.splitlines()
    report = opened(tmp_path, "\n".join([lines[0], *lines[2:]]))
    assert [notice.id for notice in report.notices] == ["units-missing"]


def test_nvtx_columns_give_the_stack(tmp_path: Path) -> None:
    head = HEAD.replace(
        '"Kernel Name"', '"thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","Kernel Name"'
    )
    nvtx = (
        '"129325  ""<default domain>:run:none:none:RGB:0xff00ff00:ASCII:run""  '
        '""torch:a::b:none:none:RGB:0xff00ff00:ASCII:a::b"" "'
    )
    row = KERNEL.format(id=0).replace('"void', nvtx + ',"void')
    units = '"",' * 12 + '"ns"'
    report = opened(tmp_path, f'{head},"gpu__time_duration.sum"\n{units}\n{row},"5"\n')
    assert report.kernels[0].nvtx == ("run", "torch@a::b")
    assert list(report.kernels[0].metrics()) == ["gpu__time_duration.sum"]


def test_details_page(tmp_path: Path) -> None:
    report = opened(tmp_path, DETAILS)
    assert len(report.kernels) == 2  # keyed by id: both launches have the same name
    assert report.kernels[0].duration_ns == pytest.approx(22590)
    assert report.kernels[1].duration_ns == pytest.approx(9000)
    assert value(report, "gpc__cycles_elapsed.avg.per_second") == pytest.approx(1.1e9)
    assert value(report, "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed") == 44.98
    assert value(report, "dram__bytes.sum.per_second") == pytest.approx(345.14e9)
    assert value(report, "gpc__cycles_elapsed.max") == 13485
    assert value(report, "launch__shared_mem_per_block_dynamic") == pytest.approx(73730)
    assert value(report, "Something of mine") == 7  # what has no known name keeps its own


def test_details_page_has_sections_labels_and_rules(tmp_path: Path) -> None:
    extras = opened(tmp_path, DETAILS).kernels[0]._source.extras(0)
    assert [(section.id, section.name) for section in extras.sections][:2] == [
        ("SpeedOfLight", "GPU Speed Of Light Throughput"),
        ("MemoryWorkloadAnalysis", "Memory Workload Analysis"),
    ]
    assert extras.labels["dram__bytes.sum.per_second"] == "Memory Throughput"
    (rule,) = extras.rules
    assert (rule.rule, rule.section, rule.kind, rule.message) == (
        "SOLBottleneck", "SpeedOfLight", "OPT", 'Too "small".',
    )  # fmt: skip
    assert (rule.speedup_pct, rule.speedup_is_global) == (13.51, True)


def test_names_printed_beside_labels(tmp_path: Path) -> None:
    row = long_row("GPU Speed Of Light Throughput", "DRAM Frequency (dram__cycles_elapsed.avg.per_second)", "hz", "5")
    assert value(opened(tmp_path, f"{LONG_HEAD}\n{row}\n"), "dram__cycles_elapsed.avg.per_second") == 5


def test_a_list_of_metrics_with_words_for_units(tmp_path: Path) -> None:
    head = LONG_HEAD.split(',"Rule Name"')[0]
    rows = [
        KERNEL.format(id=7) + f',"Command line profiler metrics","{name}","{unit}","{text}"'
        for name, unit, text in [
            ("gpu__time_duration.sum", "nsecond", "10,776,576"),
            ("dram__bytes.sum", "byte", "32,746,880"),
            ("flop_count_hp.sum", "", "n/a"),
            ("dram__bytes.sum.per_second", "Gbyte/second", "3.5"),
        ]
    ]
    report = opened(tmp_path, "\n".join([head, *rows]))
    assert report.kernels[0].duration_ns == 10776576
    assert value(report, "dram__bytes.sum") == 32746880
    assert value(report, "flop_count_hp.sum") is None
    assert value(report, "dram__bytes.sum.per_second") == pytest.approx(3.5e9)


def test_two_tables_in_one_file_are_kept_apart(tmp_path: Path) -> None:
    assert len(opened(tmp_path, DETAILS + DETAILS).kernels) == 4


@pytest.mark.parametrize(
    ("values", "comma"),
    [
        (["117.344", "27.595.520", "65,77"], True),
        (["117.344", "65,77"], True),
        (["27.595.520"], True),
        (["1.234,5", "7"], True),
        (["117,344", "65.77"], False),
        (["1,234.5"], False),
        (["332.000000", "13,485"], False),
        (["1,234"], False),  # ncu prints no three decimals
        (["1.234"], True),
        (["0.125"], False),
        (["12", "n/a", "CachePreferNone", "(1, 2, 3)", ""], False),
        (["1 234,50"], True),
        (["1'234.50"], False),
        (["-1,50"], True),
    ],
)
def test_decimal_comma_is_decided_by_all_values(values: list[str], comma: bool) -> None:
    assert ncu_csv.decimal_comma(values) is comma


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["117.344", "27.595.520", "65,77", "3"], [117344, 27595520, 65.77, 3]),
        (["117,344", "27,595,520", "65.77", "1e3"], [117344, 27595520, 65.77, 1000]),
        (["117 344,5", "27\u00a0595\u00a0520", "65,77", "nan"], [117344.5, 27595520, 65.77, None]),
        (["117'344.5", "27\u2019595\u2019520", "65.77", "inf"], [117344.5, 27595520, 65.77, None]),
    ],
)
def test_numbers_of_other_locales(tmp_path: Path, texts: list[str], numbers: list[float | None]) -> None:
    rows = [long_row("x", f"m__{i}", "", text) for i, text in enumerate(texts)]
    report = opened(tmp_path, "\n".join([LONG_HEAD, *rows]))
    assert [value(report, f"m__{i}") for i in range(len(texts))] == numbers


TABLES = """\
==PROF== Connected to process 8821 (/home/app)
"Multi" took 596.458 milliseconds
[8821] a.out@127.0.0.1
  void multi<3>(int, const float *) (32, 32, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    SM Frequency            cycle/nsecond         1.31
    Elapsed Cycles                  cycle    2,273,471
    Duration                      msecond         1.73
    ----------------------- ------------- ------------

    OPT   Est. Local Speedup: 89.84%                                           \x20
          All compute pipelines are under-utilized. Check the Launch Statistics
          and Scheduler Statistics sections.

    Section: Launch Statistics
    ---------------------------- --------------- ---------------
    Metric Name                      Metric Unit    Metric Value
    ---------------------------- --------------- ---------------
    Block Size                                                32
    Function Cache Configuration                 CachePreferNone
    ---------------------------- --------------- ---------------

    WRN   A wave of blocks.
    INF   Another.
  single(int) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    Duration                      usecond         2.50
    ----------------------- ------------- ------------
"""


def test_plain_tables(tmp_path: Path) -> None:
    report = opened(tmp_path, TABLES)
    first, second = report.kernels
    assert (first.name, first.demangled, first.grid) == ("multi", "void multi<3>(int, const float *)", (32, 32, 1))
    assert (first.block, first.device.compute_capability) == ((32, 1, 1), (8, 6))
    assert first.duration_ns == pytest.approx(1.73e6)
    assert second.duration_ns == pytest.approx(2500)
    assert value(report, "gpc__cycles_elapsed.max") == 2273471
    assert value(report, "gpc__cycles_elapsed.avg.per_second") == pytest.approx(1.31e9)
    assert value(report, "launch__block_size") == 32
    assert value(report, "launch__func_cache_config") == "CachePreferNone"
    rules = report.source.extras(0).rules
    assert [(rule.kind, rule.section, rule.speedup_pct) for rule in rules] == [
        ("OPT", "SpeedOfLight", 89.84), ("WRN", "LaunchStats", None), ("INF", "LaunchStats", None),
    ]  # fmt: skip
    assert rules[0].message == (
        "All compute pipelines are under-utilized. Check the Launch Statistics and Scheduler Statistics sections."
    )


def test_a_grid_of_no_blocks_is_unknown_and_the_metric_wins(tmp_path: Path) -> None:
    rows = [
        long_row("Launch Statistics", "Grid Size", "", "16").replace("(64, 1, 1)", "(2048, 1, 1)"),
        KERNEL.format(id=1).replace("(64, 1, 1)", "(0, 0, 0)") + ',"x","m__a","","1",""',
    ]
    report = opened(tmp_path, "\n".join([LONG_HEAD, *rows]))
    assert [kernel.grid for kernel in report.kernels] == [(16, 1, 1), None]


@pytest.mark.parametrize("text", [RAW, DETAILS])
def test_a_text_cut_anywhere_is_a_report_or_one_error(tmp_path: Path, text: str) -> None:
    cut = 0
    for size in range(len(HEAD) + 40, len(text), 7):
        try:
            cut += opened(tmp_path, text[:size]).truncated
        except GputuiError:
            continue
    assert cut > 20


def test_a_cut_row_is_left_out_and_said(tmp_path: Path) -> None:
    report = opened(tmp_path, RAW[: RAW.index('"1,022')])
    assert (len(report.kernels), report.truncated) == (1, True)
    assert [(notice.id, dict(notice.params)) for notice in report.notices] == [("truncated-end", {"kernels": 1})]


def test_a_quote_that_never_closes_costs_one_row(tmp_path: Path) -> None:
    lines = DETAILS.splitlines()
    lines[3] = lines[3][:-4]
    report = opened(tmp_path, "\n".join(lines))
    assert (len(report.kernels), value(report, "gpc__cycles_elapsed.max")) == (2, 13485)


def test_errors_beside_kernels_are_a_notice(tmp_path: Path) -> None:
    report = opened(tmp_path, RAW + "==ERROR== LaunchFailed \x1b[31m\n==ERROR== again\n")
    assert [(notice.id, dict(notice.params)) for notice in report.notices] == [
        ("profiler-errors", {"text": "LaunchFailed  [31m", "count": 2})
    ]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n",
            "ERR_NVGPUCTRPERM",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.\n", "none were profiled", "--kernel-name"),
        ("==ERROR== Option '--section .*' did not match any section.\n", "no section of the name", "--list-sections"),
        ("==ERROR== The application returned an error code (11)\n", "returned an error code (11)", "profile again"),
        ("==PROF== Connected to process 4\n==PROF== Disconnected\n", "no metrics in it", "ncu -o"),
        (LONG_HEAD + "\n", "head of a table and no kernels", "--page raw"),
        (
            '"Process ID","Kernel Name","Invocations","Metric Name","Metric Unit","Minimum","Maximum"\n"1","k","2"\n',
            "summary over launches",
            "--print-summary",
        ),
    ],
)
def test_text_without_kernels_says_why(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(GputuiError) as caught:
        opened(tmp_path, text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_the_line_ends_of_old_macs_are_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "mac.csv"
    file.write_bytes(RAW.replace("\n", "\r").encode())
    assert len(open_report(file).kernels) == 2


def test_a_size_of_thousands_of_digits_is_no_size(tmp_path: Path) -> None:
    file = tmp_path / "size.csv"
    file.write_text(RAW.replace("(64, 1, 1)", f"({'9' * 5000}, 1, 1)"), encoding="utf-8")
    assert [kernel.grid for kernel in open_report(file).kernels] == [None, None]


def test_a_column_twice_does_not_make_a_short_row_whole(tmp_path: Path) -> None:
    head, units, row, *_ = RAW.split("\n")
    file = tmp_path / "twice.csv"
    cut = row.rsplit(",", 1)[0]
    file.write_text("\n".join([head + ',"sm__x.avg"', units + ',""', row + ',"2"', cut, ""]), encoding="utf-8")
    assert len(open_report(file).kernels) == 1
