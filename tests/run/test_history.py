"""The history of a folder of runs, from real reports: its numbers against those that ``ncu`` prints, and its words."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from built_timeline import Built
from gputui.analysis.compare.history import GroupRow, History, HistoryRun, Work, history
from gputui.analysis.compare.model import Amounts, Member, Side, Wall
from gputui.analysis.kernel_names import identify
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.model.device import Device
from gputui.model.kernel import Kernel
from gputui.model.report import NoMetrics, Report
from gputui.render.history import history_json, history_markdown, history_text
from gputui.run.folder import RunFolder
from gputui.run.history import history_of
from gputui.run.machine import Outcome
from gputui.run.plan import Command, Request
from gputui.wording import LANGUAGES, wording

SAMPLES = Path(__file__).parents[2] / "sample_reports"

# ncu --import sample_reports/attention_*.ncu-rep --page raw --csv: gpu__time_duration.sum in ns, DRAM bytes read and
# written, and sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active of the kernels that multiply matrices.
EAGER_NS = (18688, 137568, 166752, 249344, 828448, 143488, 22560, 45888, 12832, 18432, 179552, 44352, 169632, 12576)
SDPA_NS = (18688, 138112, 398784, 46176, 12896, 18432, 181184, 44736, 171296, 12640)
COMPILE_NS = (14816, 137632, 400832, 45952, 17312, 179808, 48128, 171456, 17440)
EAGER_READ = (16800000, 71242752, 34166784, 536888064, 536904448, 554979328, 16800256, 25294848, 33563648, 16799232,
              91540736, 67126272, 138448384, 33563392)  # fmt: skip
EAGER_WRITTEN = (646912, 40998656, 509795840, 513328128, 518720000, 11322112, 960768, 2754304, 4091904, 560384,
                 53705984, 47360000, 11121664, 3810816)  # fmt: skip
EAGER_TENSOR = {1: 90.345717, 2: 46.418029, 5: 59.564647, 7: 86.254614, 10: 90.826766, 12: 96.236928}
ATTENTION = range(2, 7)
"""From the product of queries and keys to the copy of the result, which fused attention writes as it is needed."""


def make(base: Path, *reports: Path, note: str = "", state: str = "done", program: str = "block.py") -> Path:
    run = RunFolder.create(base, Request(("python", program), "/data"))
    for number, report in enumerate(reports, 1):
        run.begin(Command(f"counters-{number}", "ncu", ("ncu",), f"counters-{number}"))
        shutil.copy(report, run.work / "draft")
        kept = run.adopt(run.work / "draft", f"counters-{number}.ncu-rep")
        run.finish(f"counters-{number}", Outcome(0, False, 1.0), [kept])
    run.end(state)  # type: ignore[arg-type]
    if note:
        run.note(note)
    run.close()
    return run.path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("history")
    broken = base / "broken.ncu-rep"
    broken.write_bytes(b"NVR\0 cut off")
    base = base / "gputui-runs"
    make(base, program="old.py")
    make(base, SAMPLES / "attention_eager.ncu-rep", note="eager \x1b[31m")
    make(base, broken)
    make(base, SAMPLES / "attention_sdpa.ncu-rep", note="sdpa")
    make(base, state="failed")
    make(base, SAMPLES / "attention_compile.ncu-rep", note="torch.compile")
    (base / "damaged").mkdir()
    (base / "damaged" / "run.json").write_text("{", encoding="utf-8")
    return base


@pytest.fixture(scope="module")
def real(base: Path) -> History:
    return history_of(base)


def printed(h: History, language: str = "en", width: int = 80, *, ascii: bool = False) -> str:
    file = StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    for part in history_text(h, wording(language), ascii=ascii):
        console.print(part, crop=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


# ------------------------------------------------------------------ real reports


def test_each_run_has_the_sums_that_ncu_prints(real: History) -> None:
    assert (real.kind, real.measure, real.told) == ("counters", "gpu", (1, 3, 5))
    eager, sdpa, compiled = (real.runs[place] for place in real.told)
    assert [eager.time_ns, sdpa.time_ns, compiled.time_ns] == [sum(EAGER_NS), sum(SDPA_NS), sum(COMPILE_NS)]
    assert [eager.kernels, sdpa.kernels, compiled.kernels] == [14, 10, 9]
    assert eager.dram_bytes == sum(EAGER_READ) + sum(EAGER_WRITTEN)
    tensor = sum(pct * EAGER_NS[place] for place, pct in EAGER_TENSOR.items()) / sum(EAGER_NS)
    assert eager.tensor_pct == pytest.approx(tensor, abs=1e-4)
    assert [row.gpu for row in (eager, sdpa, compiled)] == ["NVIDIA H200"] * 3
    assert [row.part for row in real.runs] == [False] * 6


def test_each_run_is_compared_with_the_last_one_that_tells_and_with_the_first(real: History) -> None:
    _, eager, _, sdpa, _, compiled = real.runs
    assert (eager.step, eager.total) == (None, None)
    assert sdpa.step is not None
    assert (sdpa.step.against, sdpa.step.time.outcome) == (1, "faster")
    assert sdpa.step.time.speedup == pytest.approx(sum(EAGER_NS) / sum(SDPA_NS))
    assert compiled.step is not None
    assert (compiled.step.against, compiled.step.time.outcome) == (3, "no-difference")
    assert real.change is not None
    assert real.change is compiled.total
    assert (real.change.against, real.change.time.outcome) == (1, "faster")
    assert real.change.time.speedup == pytest.approx(sum(EAGER_NS) / sum(COMPILE_NS))
    assert real.largest == 3


def group(h: History, name: str) -> GroupRow:
    (found,) = (row for row in h.groups if row.work.name == name)
    return found


def test_a_fused_kernel_goes_on_with_the_row_of_those_that_it_replaced(real: History) -> None:
    row = real.groups[0]
    assert (row.kind, row.work, row.also) == ("counters", Work("attention"), (Work("attention-output"),))
    damaged, eager, broken, sdpa, failed, compiled = row.runs
    assert damaged is broken is failed is None
    assert eager is not None
    assert (eager.kernels, eager.time_ns) == (5, sum(EAGER_NS[place] for place in ATTENTION))
    assert eager.dram_bytes == sum(EAGER_READ[place] + EAGER_WRITTEN[place] for place in ATTENTION)
    busy = sum(EAGER_TENSOR.get(place, 0) * EAGER_NS[place] for place in ATTENTION)
    assert eager.tensor_pct == pytest.approx(busy / eager.time_ns, abs=1e-4)  # type: ignore[operator]
    assert sdpa is not None
    assert (sdpa.kernels, sdpa.time_ns, sdpa.dram_bytes) == (1, SDPA_NS[2], 51440128 + 9929472)
    assert compiled is not None
    assert (compiled.kernels, compiled.time_ns) == (1, COMPILE_NS[2])


def test_the_groups_hold_every_kernel_once(real: History) -> None:
    for place in real.told:
        parts = [row.runs[place] for row in real.groups]
        assert sum(one.time_ns or 0 for one in parts if one is not None) == real.runs[place].time_ns
        assert sum(one.kernels for one in parts if one is not None) == real.runs[place].kernels
    # The norm that torch.compile fused with a residual sum goes on with both.
    norm = group(real, "norm")
    assert norm.also == (Work("residual"),)
    times = [one.time_ns for one in norm.runs if one is not None]
    assert times == [18688 + 12832 + 18432, 18688 + 12896 + 18432, 14816 + 17312]
    assert [one.time_ns for one in group(real, "residual").runs if one is not None] == [12576, 12640, 17440]


def test_no_run_is_dropped_silently(real: History) -> None:
    damaged, _, broken, _, failed, _ = real.runs
    assert [row.state for row in real.runs] == ["damaged", "done", "done", "done", "failed", "done"]
    assert "damaged run.json" in damaged.problems[0]
    assert "counters-1.ncu-rep" in broken.problems[0]
    assert (failed.problems, failed.time_ns, failed.dram_bytes) == ((), None, None)
    assert real.others == {"old": 1}


def test_the_program_is_the_one_that_ran_last(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "runs")
    make(tmp_path / "runs", program="new.py")
    found = history_of(tmp_path / "runs")
    assert [row.state for row in found.runs] == ["damaged", "done"]
    assert (found.kind, found.told, found.change, found.groups) == (None, (), None, ())
    assert found.others == {"old": 1, "block": 5}
    assert printed(found).startswith("None of the 2 runs has a report that tells its kernels.")
    assert "Left out: 6 runs of other programs (block (5), old (1))." in printed(found, width=200)


def test_one_run_and_none(base: Path, tmp_path: Path) -> None:
    (one,) = history_of(base / "damaged").runs
    assert one.state == "damaged"
    nothing = history_of(tmp_path / "nowhere")
    assert (nothing.runs, nothing.kind) == ((), None)
    assert printed(nothing).startswith("There are no runs to compare yet.")
    alone = history([run("first", timeline(100.0))])
    assert printed(alone).startswith("One run tells its kernels.")
    assert len(alone.groups) == 1
    for h in (nothing, alone):
        json.dumps(history_json(h), allow_nan=False)
        assert history_markdown(h, wording("ja"))


def test_the_text(real: History) -> None:
    lines = printed(real).splitlines()
    assert lines[:2] == [
        "Over 3 runs: GPU time per pass 2.05 ms → 1.03 ms, 1.98× faster. The largest step",
        "was run 4 (“sdpa”).",
    ]
    cells = [re.split(r"  +", line) for line in lines]
    assert ["2.05 ms", "–", "14", "3.89 GB", "32 %", "–"] in [one[-6:] for one in cells]
    assert ["1.04 ms", "1.97×", "10", "720 MB", "69 %", "faster than 2"] in [one[-6:] for one in cells]
    assert ["1.03 ms", "1.98×", "9", "715 MB", "69 %", "as fast as 4"] in [one[-6:] for one in cells]
    place = next(place for place, line in enumerate(lines) if line.startswith("attention"))
    assert "·█·▂·▂  1.41 ms → 401 µs          3.5×" in lines[place]
    assert any("·█·▁·▁  DRAM 3.23 GB → 61.4 MB" in line for line in lines[place : place + 3])
    assert any("·▂·█·█  tensor cores 12 % → 56 %" in line for line in lines[place : place + 4])
    assert "Left out: 1 run of other programs (old (1))." in lines
    assert "Run 3:" in [line[:6] for line in lines]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("ascii", [False, True])
def test_the_text_fits_80_cells_and_acts_on_no_terminal(real: History, language: str, ascii: bool) -> None:
    text = printed(real, language, ascii=ascii)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]|None\b|\{", text)
    assert ("▁" not in text) is ascii


def test_japanese(real: History) -> None:
    text = printed(real, "ja", 110)
    assert text.startswith("3 件の実行で、1 回分の GPU 時間 2.05 ms → 1.03 ms：1.98× の速さになりました。")
    assert "アテンション（ほか：アテンションの出力）" in text
    assert "2 より速い" in text


def test_markdown(real: History) -> None:
    lines = history_markdown(real, wording("en")).splitlines()
    assert lines[0].startswith("**Over 3 runs: GPU time per pass 2.05 ms → 1.03 ms, 1.98× faster.")
    assert "| attention (also: attention output) | 1.41 ms → 401 µs | 3.5× | 3.23 GB → 61.4 MB | 12 % → 56 % |" in lines
    assert any(line.endswith(r"eager \\x1b\[31m | 2.05 ms | – | 14 | 3.89 GB | 32 % | – |") for line in lines)


def test_json(real: History) -> None:
    told = json.loads(json.dumps(history_json(real), allow_nan=False))
    assert [one["gpu_time_ns"] for one in told["runs"]] == [
        None, sum(EAGER_NS), None, sum(SDPA_NS), None, sum(COMPILE_NS)
    ]  # fmt: skip
    assert told["runs"][5]["step"]["against"] == 4
    assert (told["change"]["against"], told["change"]["outcome"], told["largest"]) == (2, "faster", 4)
    first = told["groups"][0]
    assert (first["name"], first["also"], first["runs"][0]) == ("attention", ["attention-output"], None)
    assert first["runs"][3] == {
        "time_ns": 398784, "dram_bytes": 61369600, "tensor_pct": pytest.approx(55.966727), "kernels": 1
    }  # fmt: skip


# ------------------------------------------------------------------ made sides


@cache
def recorded() -> tuple[Report, TimelineDiagnosis]:
    """A recording with steps, which the made sides say that they come from."""
    built = Built()
    for step in range(6):
        built.range(100 * step, 100 * step + 90, f"step {step}")
        built.call(100 * step + 1, 100 * step + 2)
        built.kernel(100 * step + 10, 100 * step + 80, call=step)
    facts = built.facts()
    assert facts.steps is not None
    return Report("made.sqlite", "nsys", [], NoMetrics(), timeline=facts.timeline), diagnose_timeline(facts)


def member(place: int, name: str, times: Sequence[float], gpu: str = "A") -> Member:
    kernel = Kernel(place, name, name, Device(gpu), NoMetrics(), grid=(8, 1, 1), block=(64, 1, 1))
    return Member(place, kernel, identify(name, name), None, (), tuple(times))


def timeline(*walls: float, kernels: Sequence[tuple[str, float]] = (("mine", 50.0),), gpu: str = "A") -> Side:
    passes = max(1, len(walls))
    members = tuple(member(place, name, [time] * passes, gpu) for place, (name, time) in enumerate(kernels))
    wall = Wall(walls, "nvtx", 50.0) if walls else None
    report, diagnosis = recorded()
    return Side("timeline", (report,), members, passes, passes * len(members), False, wall, diagnosis)


def counted(*kernels: tuple[str, float], is_part: bool = False) -> Side:
    return replace(timeline(kernels=kernels), kind="counters", is_part=is_part, diagnosis=None)


def run(name: str, side: Side | None = None, counters: Side | None = None, note: str = "") -> HistoryRun:
    return HistoryRun(name, None, note, counters, side)


def test_where_timelines_tell_them_steps_are_compared() -> None:
    h = history(
        [
            run("a", timeline(100.0, 102.0, 98.0)),
            run("b", timeline(400.0, 402.0, 398.0), note="worse"),
            run("c", timeline(200.0, 202.0, 198.0)),
        ]
    )
    assert (h.kind, h.measure) == ("timeline", "step")
    assert [row.wall_ns for row in h.runs] == [100.0, 400.0, 200.0]
    assert [row.time_ns for row in h.runs] == [50.0] * 3
    assert [row.step.time.outcome for row in h.runs if row.step is not None] == ["slower", "faster"]
    assert h.change is not None
    assert (h.change.time.outcome, h.change.time.speedup, h.largest) == ("slower", 0.5, 1)
    text = printed(h, width=200)
    assert text.startswith(
        "Over 3 runs: time per step 100 ns → 200 ns, 2.0× slower. The largest step was run 2 (“worse”)."
    )
    assert "tensor cores" not in text


def test_steps_are_compared_only_where_all_runs_tell_them() -> None:
    h = history([run("a", timeline(100.0)), run("b", timeline())])
    assert (h.measure, h.runs[0].wall_ns, h.runs[1].wall_ns) == ("gpu", 100.0, None)
    span = replace(timeline(100.0), wall=Wall((100.0,), "span"))
    assert history([run("a", span), run("b", timeline(90.0))]).measure == "span"


def test_times_are_those_of_one_kind_and_bytes_those_of_the_counters() -> None:
    both = [run("a", timeline(100.0), counted(("mine", 7.0))), run("b", timeline(100.0))]
    h = history([*both, run("c", None, counted(("mine", 7.0)))])
    assert h.kind == "timeline"
    assert [row.time_ns for row in h.runs] == [50.0, 50.0, None]
    assert {row.kind: [one and one.time_ns for one in row.runs] for row in h.groups} == {
        "timeline": [50.0, 50.0, None],
        "counters": [7.0, None, 7.0],
    }
    more = history([*both, run("c", None, counted(("mine", 7.0))), run("d", None, counted(("mine", 6.0)))])
    assert more.kind == "counters"
    assert [row.time_ns for row in more.runs] == [7.0, None, 7.0, 6.0]


def test_what_a_part_leaves_out_is_not_gone() -> None:
    whole, fewer = counted(("softmax", 7.0), ("mine", 3.0)), counted(("mine", 3.0))
    gone = group(history([run("a", None, whole), run("b", None, fewer)]), "softmax")
    assert gone.runs[1] == Amounts(0, 0.0, dram_bytes=0.0)
    h = history([run("a", None, whole), run("b", None, replace(fewer, is_part=True))])
    assert group(h, "softmax").runs[1] is None
    assert [row.part for row in h.runs] == [False, True]
    assert "Run 2: chosen kernels alone were counted" in printed(h, width=200)


@pytest.mark.parametrize("language", LANGUAGES)
def test_another_gpu_is_said_and_no_speed_is_told(language: str) -> None:
    h = history([run("a", timeline(100.0)), run("b", timeline(50.0)), run("c", timeline(10.0, gpu="B [x]"))])
    assert h.change is not None
    assert (h.change.time.outcome, h.change.time.because, h.largest) == ("inconclusive", ("other-gpu",), None)
    text = printed(h, language, 200)
    assert "（A → B [x]）" in text if language == "ja" else "on another GPU than run 2 (A → B [x])" in text
    # From the first run to the last as well, which are not compared one after the other.
    assert text.count("A → B [x]") == 2
    last = next(line for line in text.splitlines() if line.startswith("3  "))
    assert last.split()[2:4] == ["10", "ns"]
    assert last.split()[4] == "–"
    assert "×" not in text.partition("\n\n")[2].partition("\n\n")[2]


def test_kernels_of_unknown_kind_go_by_their_function() -> None:
    named = [("my_kernel\x1b[2J", 9.0), ("other_thing", 5.0)]
    h = history([run("a", timeline(10.0, kernels=named)), run("b", timeline(10.0, kernels=named))])
    assert [row.work for row in h.groups] == [Work(name, is_function=True) for name, _ in named]
    assert "my_kernel\\x1b[2J" in printed(h)


def test_of_the_runs_sides_few_are_kept() -> None:
    alive: list[object] = []

    def runs() -> Iterator[HistoryRun]:
        import gc
        import weakref

        for number in range(6):
            gc.collect()
            assert sum(one() is not None for one in alive) <= 3  # type: ignore[operator]
            side = timeline(100.0 + number)
            alive.append(weakref.ref(side))
            yield run(str(number), side)

    assert len(history(runs()).runs) == 6
