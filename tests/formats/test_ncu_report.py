"""The child process around NVIDIA's reader, with a stand-in for that reader which misbehaves as told."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from nvr_builder import SOURCE, VERSION, report, results, session

from gputui.data import demo_report
from gputui.errors import GputuiError
from gputui.formats import ncu_report, open_report

STAND_IN = """
import ctypes, os, signal, sys, time

MsgType_OK, MsgType_OPTIMIZATION, MsgType_WARNING, MsgType_ERR = 1, 2, 3, 4


class IAction:
    WorkloadType_KERNEL, WorkloadType_RANGE, WorkloadType_GRAPH = 0, 1, 3
    NameBase_DEMANGLED = 2

    def __init__(self, index):
        self.index = index

    def name(self, base=0):
        return f"void kernel{self.index}(int)" if base else f"kernel{self.index}"

    def workload_type(self):
        return 0

    def nvtx_state(self):
        return None

    def metric_names(self):
        return list(VALUES)

    def metric_by_name(self, name):
        return Metric(name) if name in VALUES else None


VALUES = {
    "gpu__time_duration.sum": (2000.0, "ns"),
    "launch__grid_size": (6, ""),
    "launch__grid_dim_x": (3, ""),
    "launch__grid_dim_y": (2, ""),
    "launch__grid_dim_z": (1, ""),
    "gone": (None, "%"),
    "nan": (float("nan"), "%"),
    "inf": (float("inf"), "%"),
    "sm__sol_pct": (50.0, ""),
    "breakdown:x": ("a,b", "%"),
}


class Metric:
    def __init__(self, name):
        self.name_ = name

    def has_value(self):
        return VALUES[self.name_][0] is not None

    def value(self):
        return VALUES[self.name_][0]

    def unit(self):
        return VALUES[self.name_][1]


class Range:
    def num_actions(self):
        return 3

    def action_by_idx(self, index):
        return IAction(index)


class Context:
    def num_ranges(self):
        return 1

    def range_by_idx(self, index):
        return Range()


def load_report(path):
    return Context()
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs the stand-in, changed by the given code; gives a report's path."""

    def install(code: str = "") -> Path:
        package = tmp_path / "library" / "ncu_report"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(STAND_IN + textwrap.dedent(code))
        (package / "_ncu_report.so").touch()
        monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])
        path = tmp_path / "a.ncu-rep"
        path.write_bytes(report(session(), VERSION, SOURCE, results(3)))
        return path

    return install


def test_a_report(stand_in) -> None:
    found = open_report(stand_in())
    assert [kernel.name for kernel in found.kernels] == ["kernel0", "kernel1", "kernel2"]
    kernel = found.kernels[1]
    assert (kernel.demangled, kernel.grid, kernel.block, kernel.duration_ns) == (
        "void kernel1(int)",
        (3, 2, 1),
        None,
        2000,
    )
    assert (found.kind, found.tool_version, found.truncated, found.notices) == ("ncu", "2025.2.1.0", False, [])
    assert (found.session.clock_control, found.session.cache_control) == ("none", "none")
    metrics = kernel.metrics()
    assert [metrics[name].value for name in ("gone", "nan", "inf", "sm__sol_pct", "breakdown:x")] == [
        None, None, None, 50.0, "a,b",
    ]  # fmt: skip
    assert metrics["sm__sol_pct"].unit == "%"
    assert found.source.fetch([0, 2], ["nan", "no such"]) == [{"nan": metrics["nan"]}] * 2
    found.close()
    with pytest.raises(GputuiError, match="is closed"):
        found.source.fetch([0], ["nan"])


def test_the_progress_can_stop_the_reading(stand_in, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu_report, "_BATCH", 1)
    seen: list[tuple[int, int]] = []
    found = open_report(stand_in(), lambda done, total: seen.append((done, total)) or done < 2)
    # Before there is a kernel it may be asked as well.
    assert (len(found.kernels), [one for one in dict.fromkeys(seen) if one[0]]) == (2, [(1, 3), (2, 3)])
    found.close()


def test_the_progress_can_stop_what_does_not_come(stand_in) -> None:
    path = stand_in("def load_report(path): time.sleep(99)")
    asked: list[tuple[int, int]] = []
    with pytest.raises(GputuiError, match="reading it was stopped"):
        open_report(path, lambda done, total: asked.append((done, total)) or len(asked) < 3)
    assert asked == [(0, 0)] * 3


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def load_report(path): os.kill(os.getpid(), signal.SIGSEGV)", "crashed on it"),
        ("def load_report(path): ctypes.string_at(0)", "crashed on it"),
        ("def load_report(path): raise TypeError('in method x')", "cannot read it (in method x)"),
        ("def load_report(path): return None", "cannot read it (not a report)"),
        ("def load_report(path): time.sleep(99)", "gave no answer within 0.5 s"),
        ("Range.num_actions = lambda self: time.sleep(99)", "gave no answer within 0.5 s"),
        ("raise OSError('wrong architecture')", "does not start (wrong architecture)"),
        ("IAction.workload_type = lambda self: os._exit(9)", "crashed on it"),
    ],
)
def test_what_the_reader_does_to_itself_is_an_error_of_the_file(
    stand_in, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    monkeypatch.setattr(ncu_report, "_TIMEOUT_S", 0.5)
    path = stand_in(code)
    start = time.perf_counter()
    with pytest.raises(GputuiError) as caught:
        open_report(path)
    assert caught.value.title == str(path)
    assert message in caught.value.message
    assert caught.value.hint
    assert time.perf_counter() - start < 5


def test_a_crash_later_leaves_the_list_and_says_so_once_more(stand_in) -> None:
    found = open_report(stand_in("IAction.metric_names = lambda self: os.kill(os.getpid(), signal.SIGKILL)"))
    with pytest.raises(GputuiError, match="crashed"):
        found.kernels[0].metrics()
    with pytest.raises(GputuiError, match="has failed"):
        found.kernels[1].metrics()


def test_a_reader_killed_from_outside_comes_back_once() -> None:
    found = open_report(demo_report())
    before = found.kernels[0].metrics()
    for alive in (True, False):
        found.source._child.kill()  # type: ignore[attr-defined]
        found.source._child.wait()  # type: ignore[attr-defined]
        if alive:
            assert found.source.fetch([0], None)[0] == dict(before)
        else:
            with pytest.raises(GputuiError):
                found.source.fetch([0], None)
    found.close()


def test_its_output_reaches_nobody(stand_in, capfd: pytest.CaptureFixture[str]) -> None:
    code = """
    def load_report(path):
        os.write(1, b"noise 1")
        os.write(2, b"noise 2")
        print("noise 3", flush=True)
        print("noise 4", file=sys.stderr, flush=True)
        return Context()
    """
    open_report(stand_in(code)).close()
    assert capfd.readouterr() == ("", "")


def test_an_answer_without_sense_is_an_error(stand_in, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reader = tmp_path / "reader.py"
    reader.write_text("print('hello')\n")
    monkeypatch.setattr(ncu_report, "_READER", str(reader))
    with pytest.raises(GputuiError, match="no sense"):
        open_report(stand_in())


def test_one_bad_kernel_does_not_lose_the_others(stand_in) -> None:
    code = """
    whole = IAction.workload_type
    IAction.workload_type = lambda self: whole(self) if self.index != 1 else 1 / 0
    by_name = IAction.metric_by_name
    IAction.metric_by_name = lambda self, name: by_name(self, name) if self.index != 1 else 1 / 0
    """
    found = open_report(stand_in(code))
    assert [kernel.name for kernel in found.kernels] == ["kernel0", "(unnamed kernel)", "kernel2"]
    assert [(notice.id, dict(notice.params)) for notice in found.notices] == [("unreadable-kernels", {"count": 1})]
    assert [len(row) for row in found.source.fetch([0, 1, 2], ["nan"])] == [1, 0, 1]
    found.close()


def test_undecodable_names_and_lone_surrogates(stand_in) -> None:
    code = """
    def name(self, base=0):
        if self.index == 0:
            raise TypeError("not UTF-8")
        return "bad\\udcff" if base else "k\\x1b[31m\\u202e"
    IAction.name = name
    VALUES["sm__sol_pct"] = ("x\\ud800", "")
    """
    found = open_report(stand_in(code))
    first, second, _ = found.kernels
    assert (first.name, first.demangled) == ("(unnamed kernel)", "(unnamed kernel)")
    assert second.name == "k\x1b[31m\u202e"  # as it is: the views make it harmless
    assert second.demangled == "bad\ufffd"
    metric = second.metric("sm__sol_pct")
    assert metric is not None
    assert metric.value == "x\ufffd"
    json.dumps(second.demangled, ensure_ascii=False).encode()
    found.close()


def test_a_cut_off_file_opens_as_far_as_it_goes(stand_in) -> None:
    path = stand_in()
    path.write_bytes(report(session(), VERSION, SOURCE, results(3), results(2))[:-1])
    found = open_report(path)
    assert found.truncated
    assert [(notice.id, dict(notice.params)) for notice in found.notices] == [
        ("truncated", {"kernels": 3, "promised": 5})
    ]
    found.close()


def test_fewer_kernels_than_the_headers_announce(stand_in) -> None:
    path = stand_in()
    path.write_bytes(report(session(), VERSION, SOURCE, results(5)))
    found = open_report(path)
    assert (found.truncated, [notice.id for notice in found.notices]) == (False, ["damaged"])
    found.close()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (report(session(), SOURCE, results(1))[:-1], "is cut off before its first kernel"),
        (report(session(), SOURCE)[:-1], "is cut off before its first kernel"),
        (report(), "is cut off before its first kernel"),
        (report()[:-1], "is cut off before its first kernel"),
        (b"NVR\0", "is cut off before its first kernel"),
        (report(session(), VERSION), "holds no kernels"),
        (report(session(), results(2)), "is damaged"),
        (report(session()) + b"\1\0\0\0\7", "is damaged"),
    ],
)
def test_files_without_kernels(stand_in, data: bytes, message: str) -> None:
    path = stand_in("Range.num_actions = lambda self: 0")
    path.write_bytes(data)
    with pytest.raises(GputuiError) as caught:
        open_report(path)
    assert message in caught.value.message
    assert caught.value.hint


def test_what_lies_around_is_not_imported(stand_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    junk = tmp_path / "junk"
    junk.mkdir()
    for name in ("ncu_report", "json", "sitecustomize"):
        (junk / f"{name}.py").write_text("raise SystemExit('junk')\n")
    path = stand_in()
    for name in ("ncu_report", "json"):
        path.with_name(f"{name}.py").write_text("raise SystemExit('junk')\n")
    monkeypatch.setenv("PYTHONPATH", str(junk))
    monkeypatch.setattr(sys, "path", [str(junk), "", *sys.path])
    monkeypatch.chdir(path.parent)
    found = open_report(path)
    assert len(found.kernels) == 3
    found.close()


def test_the_package_wins_over_the_module_of_nsight_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package = tmp_path / "module", tmp_path / "site" / "ncu_report"
    module.mkdir()
    package.mkdir(parents=True)
    (module / "ncu_report.py").touch()
    monkeypatch.setattr(sys, "path", [str(module), str(package.parent)])
    assert ncu_report.find_library() is None
    (module / "_ncu_report.so").touch()
    assert ncu_report.find_library() == module
    (package / "__init__.py").touch()
    (package / "_ncu_report.cpython-311.so").touch()
    assert ncu_report.find_library() == package.parent


def test_the_library_sees_a_suffix_that_fits_the_content(stand_in) -> None:
    path = stand_in("def load_report(path): raise ValueError(os.path.basename(path))")
    odd = path.with_name("odd.ncu-repz")
    odd.write_bytes(path.read_bytes())
    with pytest.raises(GputuiError, match=r"report\.ncu-rep\)"):
        open_report(odd)
    path.write_bytes(b"\x28\xb5\x2f\xfd\x20\x03" + (3 << 3 | 1).to_bytes(3, "little") + b"abc")
    with pytest.raises(GputuiError, match=r"report\.ncu-repz\)"):
        open_report(path)


def gone(pid: int) -> bool:
    """Whether the process ends within a few seconds."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_the_child_ends_when_closed_and_when_forgotten(stand_in) -> None:
    path = stand_in()
    closed, forgotten = open_report(path), open_report(path)
    pids = [one.source._child.pid for one in (closed, forgotten)]
    closed.close()
    closed.close()
    del forgotten
    gc.collect()
    assert all(gone(pid) for pid in pids)


@linux
def test_closing_frees_who_waits_for_an_answer(stand_in) -> None:
    found = open_report(stand_in("IAction.metric_names = lambda self: time.sleep(99)"))
    errors: list[GputuiError] = []

    def wait() -> None:
        try:
            found.kernels[0].metrics()
        except GputuiError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    found.close()
    thread.join(5)
    assert len(errors) == 1


@linux
@pytest.mark.parametrize("code", ["", "IAction.metric_names = lambda self: time.sleep(99)"])
def test_the_child_ends_with_its_parent(stand_in, code: str) -> None:
    path = stand_in(code)
    program = f"""
import sys, os, threading, time
sys.path.insert(0, {str(path.parent / "library")!r})
from gputui.formats import open_report, ncu_report
ncu_report._TIMEOUT_S = 2
report = open_report({str(path)!r})
threading.Thread(target=report.kernels[0].metrics, daemon=True).start()
time.sleep(0.2)
print(report.source._child.pid, flush=True)
time.sleep(99)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


def test_no_resource_warnings(stand_in) -> None:
    path = stand_in()
    program = f"""
import gc, sys
sys.path.insert(0, {str(path.parent / "library")!r})
from gputui.formats import open_report
kept = open_report({str(path)!r})
open_report({str(path)!r}).close()
dropped = open_report({str(path)!r})
del dropped
gc.collect()
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


NCU = """#!{python}
import sys
assert sys.argv[1] == "--import" and sys.argv[3:] == ["--page", "raw", "--csv"], sys.argv
{body}
"""
CSV = '''print("""==PROF== noise
"ID","Kernel Name","Block Size","Grid Size","CC","gpu__time_duration.sum"
"","","","","","usecond"
"0","void k<1>(int)","(32, 1, 1)","(8, 1, 1)","9.0","2.500000"
""")'''


@pytest.fixture
def without_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A report where there is no native reader, and an ``ncu`` that runs the given code."""

    def install(body: str | None) -> Path:
        monkeypatch.setattr(sys, "path", [])
        monkeypatch.setenv("PATH", str(tmp_path))
        if body is not None:
            program = tmp_path / "ncu"
            program.write_text(NCU.format(python=sys.executable, body=body))
            program.chmod(0o755)
        path = tmp_path / "-a.ncu-rep"
        path.write_bytes(report(session(), VERSION, SOURCE, results(1)))
        return path

    return install


@linux
def test_ncu_itself_prints_the_report_where_the_reader_is_missing(without_library) -> None:
    found = open_report(without_library(CSV))
    assert (found.kind, found.tool_version, [notice.id for notice in found.notices]) == (
        "ncu", "2025.2.1.0", ["read-with-ncu"],
    )  # fmt: skip
    assert (found.kernels[0].name, found.kernels[0].duration_ns) == ("k", pytest.approx(2500))


@linux
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "which is not installed"),
        ("print('==ERROR== Failed to load report file.'); sys.exit(1)", "(Failed to load report file)"),
        ("sys.exit(3)", "(status 3)"),
        ("import time; time.sleep(99)", "timed out"),
    ],
)
def test_without_reader_and_help_it_says_what_to_install(
    without_library, monkeypatch: pytest.MonkeyPatch, body: str | None, message: str
) -> None:
    monkeypatch.setattr(ncu_report, "_TIMEOUT_S", 1.0)
    with pytest.raises(GputuiError) as caught:
        open_report(without_library(body))
    assert message in caught.value.message
    assert "pip install ncu-report" in caught.value.hint


def test_opcodes_come_with_their_counts() -> None:
    report = open_report(demo_report())
    try:
        for kernel in report.kernels:
            opcodes = kernel.metric("sass__inst_executed_per_opcode")
            total = kernel.metric("smsp__inst_executed.sum")
            assert opcodes is not None
            assert opcodes.instances
            assert total is not None
            assert sum(opcodes.instances.values()) == opcodes.value == total.value
    finally:
        report.close()


BY_ADDRESS = """
COUNT = 4
FIRST = 2**47


class Ids:
    ValueKind_UINT64 = 6

    def __init__(self, name):
        self.name_ = name

    def num_instances(self):
        return COUNT - (self.name_ == "thread_inst_executed")

    def kind(self, index):
        return 1 if self.name_ == "memory_l1_wavefronts_shared" else 6

    def as_uint64(self, index):
        return FIRST + 16 * index


class Counts(Metric):
    def num_instances(self):
        return COUNT

    def has_correlation_ids(self):
        return True

    def correlation_ids(self):
        return Ids(self.name_)

    def as_double(self, index):
        return float("nan") if self.name_.endswith("_drain") else float(index)


NAMES = (
    "smsp__pcsamp_sample_count", "inst_executed", "thread_inst_executed", "memory_l1_wavefronts_shared",
    "smsp__pcsamp_warps_issue_stalled_no_instruction", "smsp__pcsamp_warps_issue_stalled_drain",
    "smsp__pcsamp_warps_issue_stalled_wait_not_issued",
)
VALUES.update({name: (1.0, "") for name in NAMES})
IAction.metric_by_name = lambda self, name: (
    Counts(name) if name in NAMES else Metric(name) if name in VALUES else None
)


class Info:
    def __init__(self, place):
        self.place = place

    def file_name(self):
        if self.place == 2:
            raise TypeError("in method file_name")
        return "dir/a\\x1b[2J.cu"

    def line(self):
        return 2 if self.place < 2 else 10**9


def sass_by_pc(self, address):
    if address == FIRST + 16:
        raise UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "bad")
    return "   @P0   BRA `(.L_x_0) 0x10   " if address < FIRST + 16 else "N/A"


IAction.sass_by_pc = sass_by_pc
IAction.source_info = lambda self, address: Info((address - FIRST) // 16)
IAction.source_files = lambda self: {"dir/a\\x1b[2J.cu": "one\\ntwo\\x1b[31m" + "x" * 10**6 + "\\nthree", "other": ""}
"""


def test_instructions_with_whatever_the_library_answers(stand_in) -> None:
    opened = open_report(stand_in(BY_ADDRESS))
    listing = opened.source.source(1)
    opened.close()
    assert listing is not None
    # Ids that are no addresses, too few of them, and values that are no numbers are left out.
    assert listing.measured == {"samples", "executed", "stalls"}
    assert [(one.address - 2**47, one.sass) for one in listing.instructions] == [
        (0, "@P0 BRA 0x10"), (16, ""), (32, ""), (48, ""),
    ]  # fmt: skip
    assert [one.samples for one in listing.instructions] == [0, 1, 2, 3]
    assert dict(listing.instructions[3].stalls) == {"no_instructions": 3}
    file = "dir/a\x1b[2J.cu"
    assert [(one.file, one.line) for one in listing.instructions] == [(file, 2), (file, 2), ("", 0), (file, 10**9)]
    assert listing.lines[file, 1].text == "one"
    assert len(listing.lines[file, 2].text) == 400
    assert set(listing.lines) == {(file, 1), (file, 2), (file, 3)}
    assert (listing.missing_files, listing.left_out) == ((), 0)


def test_a_kernel_of_50_000_instructions_is_cut_to_those_with_most_samples(stand_in) -> None:
    opened = open_report(stand_in(BY_ADDRESS + "COUNT = 50_000\n"))
    listing = opened.source.source(0)
    opened.close()
    assert listing is not None
    assert (len(listing.instructions), listing.left_out) == (20_000, 30_000)
    assert listing.instructions[0].samples == 30_000
    assert listing.instructions[-1].samples == 49_999


def test_a_report_without_numbers_by_instruction_has_no_lines(stand_in) -> None:
    opened = open_report(stand_in())
    assert opened.source.source(0) is None
    opened.close()
