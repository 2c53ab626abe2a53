"""What is said of real captures, and what must not be."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gputui.analysis.timeline import TimelineFacts
from gputui.analysis.timeline_diagnosis import TimelineDiagnosis, diagnose_timeline
from gputui.errors import GputuiError
from gputui.formats import open_report
from gputui.units import DASH
from gputui.wording import LANGUAGES, READER_LEVELS, wording

POWER = "sqlite/brycelelbach__nsightful__power_iteration__baseline.sqlite"
JACOBI = "nsys/openhackathons-org__gpubootcamp__jacobi_report.qdrep"
TWO_GPUS = "sqlite/GindaChen__nsys-ai__mfu_2gpu_before.sqlite"


@cache
def diagnosed(path: Path) -> TimelineDiagnosis:
    report = open_report(path)
    assert report.timeline is not None
    return diagnose_timeline(TimelineFacts(report.timeline), report.notices)


def found(diagnosis: TimelineDiagnosis) -> dict[str, object]:
    return {one.id: one for one in diagnosis.findings}


@pytest.fixture(scope="module")
def jacobi(reports: Path, tmp_path_factory: pytest.TempPathFactory) -> TimelineDiagnosis:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("no nsys on this machine")
    export = tmp_path_factory.mktemp("jacobi") / "jacobi.sqlite"
    command = [nsys, "export", "--type", "sqlite", "-o", str(export), str(reports / JACOBI)]
    subprocess.run(command, check=True, capture_output=True)
    return diagnosed(export)


def test_the_gpu_idles_for_over_a_third_of_the_loop_while_the_cpu_writes(reports: Path) -> None:
    diagnosis = diagnosed(reports / POWER)
    first = diagnosis.main[0]
    assert first.id == diagnosis.verdict.id == "gpu-idle"
    assert diagnosis.facts.steps is not None
    assert diagnosis.facts.window.source == "steps"
    # Checked apart: 14 ms of "IO" in each of 44 steps of 41 ms.
    assert first.params["idle_pct"] == pytest.approx(36.8, abs=0.1)
    assert first.params["steps"] == 44
    assert first.params["gaps"] == pytest.approx(44, abs=3)
    assert (first.params["before"], first.params["range"], first.params["after"]) == ("Copy #", "IO #", "Compute #")
    assert first.params["range_pct"] > 95
    title = wording("en").finding(first).title
    assert title == 'Once a step, between "Copy #" and "Compute #", the GPU has nothing to do: 37 % of the loop'
    moment = first.moment
    assert moment is not None
    path = diagnosis.facts.range_path(diagnosis.facts.range_at(0, (moment.start_ns + moment.end_ns) // 2))
    assert path[0] == "Loop"
    assert path[-1].startswith("IO ")


def test_one_kernel_is_nearly_all_of_the_gpu_time(reports: Path) -> None:
    diagnosis = diagnosed(reports / POWER)
    top = diagnosis.kernels[0]
    assert top.kernel.name == "gemv2T_kernel_val"
    assert top.share == pytest.approx(0.95, abs=0.005)
    assert top.deserves
    assert top.command[-2:] == ("python", "power_iteration__baseline.py")
    assert diagnosis.program_known
    finding = next(one for one in diagnosis.findings if one.id == "one-kernel-dominates")
    assert finding in diagnosis.main
    assert finding.params["share_pct"] == pytest.approx(95, abs=0.5)


def test_small_pageable_copies_are_no_severe_matter(reports: Path) -> None:
    diagnosis = diagnosed(reports / POWER)
    finding = next(one for one in diagnosis.findings if one.id == "pageable-copies")
    assert finding.params["count"] == 89
    assert (finding.severity, finding.variant) == ("info", "harmless")
    assert finding not in diagnosis.main


def test_a_busy_gpu_is_not_said_to_wait(jacobi: TimelineDiagnosis) -> None:
    assert set(found(jacobi)) <= {"one-kernel-dominates"}
    assert jacobi.verdict.id == "busy"
    assert jacobi.verdict.params["busy_pct"] > 99
    assert jacobi.verdict.params["kernel"] == "jacobi_kernel"


def test_long_launch_calls_of_busy_gpus_are_no_launch_bound(reports: Path) -> None:
    diagnosis = diagnosed(reports / TWO_GPUS)
    assert not found(diagnosis).keys() & {"launch-bound-timeline", "gpu-idle", "input-bound", "excessive-sync"}
    # Copies between types and layouts, by the kernels' own names: a sixth of the work.
    assert diagnosis.main[0].id == "device-copies"


def timelines(reports: Path) -> list[Path]:
    return sorted([*(reports / "sqlite").iterdir(), *(reports / "torch").iterdir()])


def test_every_word_about_the_public_captures_is_filled(reports: Path) -> None:
    told = 0
    for path in timelines(reports):
        try:
            diagnosis = diagnosed(path)
        except GputuiError:
            continue
        told += 1
        for language in LANGUAGES:
            words = wording(language)
            said = [words.timeline_verdict(diagnosis.verdict)]
            for finding in diagnosis.findings:
                text = words.finding(finding)
                said += [text.title, text.why, text.analogy, text.verify]
                said += [action for level in READER_LEVELS for action in text.actions[level]]
            for one in said:
                assert one.strip() == one != "", path.name
                assert DASH not in one, (path.name, one)
                assert "None" not in one, (path.name, one)
    assert told >= 15


def test_pytorchs_own_work_between_launches_leads_where_calls_of_the_system_are_not_traced(reports: Path) -> None:
    diagnosis = diagnosed(reports / "torch/facebookresearch__HolisticTraceAnalysis__nccl_data.json.gz")
    lead = diagnosis.main[0]
    assert lead.id == diagnosis.verdict.id == "python-overhead"
    assert lead.params["operators_pct"] == pytest.approx(86, abs=1)
    assert diagnosis.explained["gpu-idle"] == "python-overhead"


def test_the_sentence_tells_the_busy_share_of_the_gpu_that_it_names(reports: Path) -> None:
    diagnosis = diagnosed(reports / TWO_GPUS)
    assert diagnosis.verdict.params["gpu"] == "0"
    assert diagnosis.verdict.params["busy_pct"] == pytest.approx(100 * diagnosis.facts.busy_share(0), abs=0.1)


def test_a_capture_of_few_operations_is_not_judged(reports: Path) -> None:
    for name in ("CodeGandee__accelsim-test__capture", "GindaChen__nsys-ai__mock", "hsiaogary__CUDA-course__report1"):
        diagnosis = diagnosed(reports / "sqlite" / f"{name}.sqlite")
        assert diagnosis.verdict.id == "few"
        assert not diagnosis.main


def test_a_program_that_reads_a_file_waits_for_data(reports: Path, tmp_path: Path) -> None:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("no nsys on this machine")
    export = tmp_path / "mordred.sqlite"
    report = reports / "nsys" / "bwyogatama__Mordred-Deprecated__report1.qdrep"
    subprocess.run(
        [nsys, "export", "--type", "sqlite", "-o", str(export), str(report)], check=True, capture_output=True
    )
    diagnosis = diagnosed(export)
    assert diagnosis.main[0].id == "input-bound"
    assert diagnosis.main[0].params["os"] == "getc"
    assert diagnosis.explained["gpu-idle"] == "input-bound"
