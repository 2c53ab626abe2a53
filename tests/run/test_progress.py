"""How far a profiler is, by what real ones printed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable

import pytest

from gputui.run.progress import Progress, ProgressReader

GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
SOFTMAX = "cunn_SoftMaxForward"

# Recorded of ncu 2025.3.1 on an H200, through a terminal.
NO_COUNT = f"""\
==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling results may be \
inconsistent.\r
==PROF== Connected to process 507 (/usr/bin/python3.12)\r
step 4\r
==WARNING== Unable to access the following 6 metrics: ctc__rx_bytes_data_user.sum, \
ctc__rx_bytes_data_user.sum.pct_of_peak_sustained_elapsed, ctc__rx_bytes_data_user.sum.per_second.\r
\r
\r
==PROF== Profiling "{GEMM}": 0%....50%....100% - 38 passes\r
==PROF== Profiling "{SOFTMAX}": 0%....50%....100% - 38 passes\r
step 5\r
==PROF== Profiling "{GEMM}": 0%....50%....100% - 38 passes\r
==PROF== Profiling "{SOFTMAX}": 0%....50%....100% - 38 passes\r
step 6\r
done True\r
==PROF== Disconnected from process 507\r
==WARNING== No source files were imported. Check that the target application was compiled with -lineinfo.\r
==PROF== Report: full.ncu-rep\r
"""
COUNTED = """\
==PROF== Connected to process 3522 (/usr/bin/python3.12)\r
==PROF== Profiling "distribution_elementwise_grid..." - 0 (1/2): 0%....50%....100% - 10 passes\r
==PROF== Profiling "distribution_elementwise_grid..." - 1 (2/2): 0%....50%....100% - 10 passes\r
step 0\r
done True\r
==PROF== Disconnected from process 3522\r
==ERROR== The application returned an error code (3).\r
==PROF== Report: exit3.ncu-rep\r
"""
INTERRUPTED = f"""\
==PROF== Profiling "{GEMM}": 0%....50%....100% - 38 passes\r
==PROF== Profiling "{SOFTMAX}": 0%....50%.==PROF== Trying to shutdown target application\r
 - 29 passes\r
==ERROR== Failed to profile "{SOFTMAX}" in process 2903\r
==PROF== Trying to shutdown target application\r
==ERROR== An error occurred while trying to profile.\r
==PROF== Report: groupint.ncu-rep\r
"""
# Recorded of nsys 2023.4.4.
NSYS = (
    "hello\nGenerating '/tmp/nsys-report-281b.qdstrm'\n"
    "\r[1/1] [0%                          ] timeline.nsys-rep"
    "\r[1/1] [6%                          ] timeline.nsys-rep"
    "\r[1/1] [=============58%            ] timeline.nsys-rep"
    "\r[1/1] [=======================99%  ] timeline.nsys-rep"
    "\r[1/1] [========================100%] timeline.nsys-rep\n"
    "Generated:\n    timeline.nsys-rep\n"
)


def whole(text: str) -> Iterable[str]:
    return [text]


def one_by_one(text: str) -> Iterable[str]:
    return text


def at_random(text: str) -> Iterable[str]:
    chance, at = random.Random(text), 0
    while at < len(text):
        size = chance.randint(0, 40)
        yield text[at : at + size]
        at += size


def seen(pieces: Iterable[str], launches: int = 0) -> list[Progress]:
    """Each state of progress, once."""
    reader = ProgressReader(launches)
    states = [reader.progress]
    for piece in pieces:
        state = reader.feed(piece)
        if state != states[-1]:
            states.append(state)
    assert reader.progress == states[-1]
    return states


def launches_of(states: Iterable[Progress]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((one.kernel, one.launch) for one in states if one.kernel))


Cut = Callable[[str], Iterable[str]]
cuts = pytest.mark.parametrize("cut", [whole, one_by_one, at_random])


@cuts
@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_ncu_with_a_filter_tells_no_count(cut: Cut, newline: str) -> None:
    """The keeper's terminal leaves out the \\r of the recording."""
    states = seen(cut(NO_COUNT.replace("\r\n", newline)), launches=4)
    assert states[0] == Progress(launches=4)
    assert states[-1] == Progress(kernel=SOFTMAX, launch=4, launches=4, percent=0, is_writing=True)
    if cut is not whole:
        assert launches_of(states) == [(GEMM, 1), (SOFTMAX, 2), (GEMM, 3), (SOFTMAX, 4)]
    if cut is one_by_one:
        of_third = [one.percent for one in states if one.launch == 3]
        assert [*dict.fromkeys(of_third)] == [0, 50, 100]
    assert [one.is_writing for one in states[:-1]] == [False] * (len(states) - 1)


@cuts
def test_ncu_without_a_filter_counts_by_itself(cut: Cut) -> None:
    states = seen(cut(COUNTED))
    assert states[-1] == Progress(
        kernel="distribution_elementwise_grid...", launch=2, launches=2, percent=0, is_writing=True
    )
    if cut is one_by_one:
        assert launches_of(states)[-2:] == [(states[-1].kernel, 1), (states[-1].kernel, 2)]


@cuts
def test_a_launch_that_was_stopped_is_not_counted_twice(cut: Cut) -> None:
    states = seen(cut(INTERRUPTED), launches=3000)
    assert (states[-1].kernel, states[-1].launch, states[-1].launches) == (SOFTMAX, 2, 3000)
    assert states[-1].is_writing


@cuts
def test_nsys_writes_its_report(cut: Cut) -> None:
    states = seen(cut(NSYS))
    assert states[-1] == Progress(is_writing=True, percent=100)
    if cut is one_by_one:
        assert [*dict.fromkeys(one.percent for one in states)] == [0, 6, 58, 99, 100]
        assert not states[0].is_writing
        assert all(one.is_writing for one in states[1:])


BARS = (
    "".join(f"\r{at:3d}%|{'█' * (at // 10):<10}| {at}/100 [00:01<00:09, 9.9it/s]" for at in range(101)),
    "\rEpoch 1 [12/340] [====>      ] 45%\r[3/10] loss 0.5\r[ 30%]\n",
    "x" * 3_000_000,
    "50%" * 400_000,
    "==PROF== Profiling " + '"' * 100_000,
    "\x1b[2K\x1b[1A" * 10_000,
)


@pytest.mark.parametrize("bar", BARS, ids=range(len(BARS)))
def test_a_program_s_own_bars_do_no_harm(bar: str) -> None:
    reader = ProgressReader(launches=4)
    for at in range(0, len(bar), 65536):
        assert reader.feed(bar[at : at + 65536]) == Progress(launches=4)
    reader.feed(f"\n{NO_COUNT}")
    assert (reader.progress.kernel, reader.progress.launch) == (SOFTMAX, 4)


def test_text_of_the_program_between_the_percents_is_no_percent_of_ncu() -> None:
    reader = ProgressReader()
    reader.feed(f'==PROF== Profiling "{GEMM}": 0%....50%')
    assert reader.feed("\nstep 99%\n").percent == 50


def test_the_number_of_kernels_is_that_of_lines_and_not_of_pieces() -> None:
    reader = ProgressReader()
    for piece in re.findall(r".{1,7}", f'==PROF== Profiling "{GEMM}": 0%....50%....100% - 38 passes'):
        reader.feed(piece)
    assert reader.progress.launch == 1
    reader.feed("\r")
    reader.feed("\n")
    assert reader.progress == Progress(kernel=GEMM, launch=1, percent=100)
