"""What can go wrong with nsys, played by small scripts; ``tests/real/test_nsys_oracle.py`` runs the real one."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from nsys_builder import database, kernel, strings

from gputui.errors import GputuiError
from gputui.formats import nsys_export_of, nsys_rep, open_report
from gputui.model.report import Notice
from gputui.run import probe
from gputui.wording import LANGUAGES, wording

pytestmark = pytest.mark.skipif(os.name != "posix", reason="shell scripts")

EXPORTS = """
for last; do true; done
while [ "$1" != "--output" ]; do shift; done
printf 'Processing 9 events: [=50%%'
cp "{export}" "$2"
printf 'Processing 9 events: [=100%%]'
"""


class Nsys:
    """An nsys that does as it is told, counting how often it exports."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "nsys"
        self.log = folder / "log"
        self.cache = folder / "cache" / "gputui" / "nsys"
        self.export = database(
            folder / "export.db", StringIds=strings("k"), CUPTI_ACTIVITY_KIND_KERNEL=[kernel(10, 20)]
        )
        self.does(EXPORTS.format(export=self.export))

    def does(self, script: str, version: str = "NVIDIA Nsight Systems version 1") -> None:
        self.program.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit 0; fi\necho run >> {self.log}\n{script}'
        )
        self.program.chmod(0o755)

    @property
    def runs(self) -> int:
        return self.log.read_text().count("run") if self.log.exists() else 0


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nsys:
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return Nsys(folder)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    path = folder / "-run rank2.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 1.\0")
    return path


def failed(path: Path) -> GputuiError:
    with pytest.raises(GputuiError) as caught:
        open_report(path)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    return caught.value


def test_a_report_is_exported_into_the_cache_once(nsys: Nsys, report: Path) -> None:
    for _ in range(2):
        opened = open_report(report)
        assert opened.path == str(report)
        assert opened.timeline is not None
        assert len(opened.timeline.ops) == 1
        (file,) = opened.timeline.files
        assert (file.path, file.rank) == (str(report), 2)
    assert nsys.runs == 1
    assert [one.suffix for one in nsys.cache.iterdir()] == [".sqlite"]
    assert [one.name for one in report.parent.iterdir()] == [report.name]
    assert nsys.cache.stat().st_mode & 0o077 == 0


def test_the_export_that_is_at_hand(nsys: Nsys, report: Path) -> None:
    assert nsys_export_of(report) is None
    assert nsys.runs == 0
    open_report(report)
    cached = nsys_export_of(report)
    assert cached is not None
    assert cached.parent == nsys.cache
    beside = report.with_suffix(".sqlite")
    shutil.copy(nsys.export, beside)
    assert nsys_export_of(report) == beside
    assert nsys.runs == 1


def test_another_report_or_another_nsys_is_exported_anew(nsys: Nsys, report: Path) -> None:
    open_report(report)
    os.utime(report, (1, 1))
    open_report(report)
    assert nsys.runs == 2
    nsys.does(EXPORTS.format(export=nsys.export), version="NVIDIA Nsight Systems version 2")
    open_report(report)
    assert nsys.runs == 3


def test_an_export_beside_the_report_is_used(nsys: Nsys, report: Path) -> None:
    beside = report.with_suffix(".sqlite")
    shutil.copy(nsys.export, beside)
    opened = open_report(report)
    assert opened.path == str(report)
    assert opened.notices == [Notice("export-beside", {"file": beside.name})]
    assert all(wording(language).notice(opened.notices[0]) for language in LANGUAGES)
    assert nsys.runs == 0
    os.utime(beside, (1, 1))
    open_report(report)
    assert nsys.runs == 1
    beside.write_bytes(b"SQLite format 3\0 and no more")
    open_report(report)
    assert nsys.runs == 1


def test_progress_of_both_halves(nsys: Nsys, report: Path) -> None:
    seen: list[float] = []

    def progress(done: int, total: int) -> bool:
        seen.append(done / total)
        return True

    open_report(report, progress)
    assert seen == sorted(seen)
    assert 0.25 in seen or 0.5 in seen
    assert seen[-1] == 1.0


def test_no_nsys(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(probe, "HOMES", ())
    for name in probe.HOME_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    found = failed(report)
    assert "nsys, which is not installed" in found.message
    assert found.hint == (
        "On the machine that captured it run nsys export --type sqlite -o '-run rank2.sqlite' '-run rank2.nsys-rep', "
        "then gputui open '-run rank2.sqlite'"
    )


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        (
            "echo 'Exportation error: Report was created in Nsight Systems version (2025.5.2.266-255236693005v0), "
            "newer than your current version (2023.4.4.54-234433681190v0).'; exit 1",
            "was made by Nsight Systems 2025.5.2.266, which is newer than the 2023.4.4.54 installed here",
            "nsys export",
        ),
        ("echo 'Exportation error: Version tag is not found.'; exit 1", "Version tag is not found", "copy it again"),
        ("exit 3", "nsys cannot read it (status 3)", "copy it again"),
        ("exit 0", "nsys cannot read it (status 0)", "copy it again"),
        ("kill -SEGV $$", "nsys crashed on it (signal 11)", "nsys export"),
        ("echo 'error: database or disk is full'; exit 1", "database or disk is full", "XDG_CACHE_HOME"),
    ],
)
def test_failures_of_nsys(nsys: Nsys, report: Path, script: str, message: str, hint: str) -> None:
    nsys.does(script)
    found = failed(report)
    assert message in found.message
    assert hint in found.hint
    assert not list(nsys.cache.iterdir())


def test_an_export_that_is_not_whole(nsys: Nsys, report: Path) -> None:
    """Nsys ends with status 0 on a full disk."""
    for writes in ("echo x >", "true >", f"head -c 5000 {nsys.export} >", "mkdir"):
        nsys.does(f'while [ "$1" != "--output" ]; do shift; done; {writes} "$2"')
        found = failed(report)
        assert "nsys wrote no whole export; is the disk full?" in found.message or "status 0" in found.message
        assert not list(nsys.cache.iterdir())


def spoil(cached: Path, how: str, sound: Path) -> None:
    cached.unlink()
    if how == "empty":
        cached.touch()
    elif how == "cut":
        cached.write_bytes(sound.read_bytes()[:-4096])
    elif how == "foreign":
        sqlite3.connect(cached).execute("CREATE TABLE mine (id)").connection.close()
    elif how == "damaged":
        raw = bytearray(sound.read_bytes())
        raw[4096:] = b"\xff" * (len(raw) - 4096)
        cached.write_bytes(raw)
    elif how == "folder":
        (cached / "in it").mkdir(parents=True)
    elif how == "pipe":
        os.mkfifo(cached)
    else:
        cached.symlink_to("/dev/zero")


@pytest.mark.parametrize("how", ["empty", "cut", "foreign", "damaged", "folder", "pipe", "device"])
def test_a_bad_file_in_the_cache_is_made_anew(nsys: Nsys, report: Path, how: str) -> None:
    open_report(report)
    (cached,) = nsys.cache.iterdir()
    spoil(cached, how, nsys.export)
    if how != "damaged":
        assert nsys_export_of(report) is None
    opened = open_report(report)
    assert not opened.notices
    assert nsys.runs == 2
    assert cached.read_bytes() == nsys.export.read_bytes()


@pytest.mark.parametrize("how", ["empty", "cut", "foreign", "folder", "pipe", "device"])
def test_what_is_beside_the_report_and_no_export_is_left_alone(nsys: Nsys, report: Path, how: str) -> None:
    beside = report.with_suffix(".sqlite")
    beside.touch()
    spoil(beside, how, nsys.export)
    assert not open_report(report).notices
    assert nsys.runs == 1
    assert os.path.lexists(beside)


def test_an_export_of_another_session_is_not_used(nsys: Nsys, report: Path) -> None:
    beside = report.with_suffix(".sqlite")
    told = {"name": "PROFILING_SESSION_UUID", "value": "eb72838f-f449-4886-b6ab-32e8df004f31"}
    kernels = {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(10, 20), kernel(30, 40)]}
    database(beside, StringIds=strings("k"), META_DATA_CAPTURE=[told], **kernels)
    assert nsys_export_of(report) is None
    timeline = open_report(report).timeline
    assert timeline is not None
    assert (len(timeline.ops), nsys.runs) == (1, 1)
    # The same session, told in both; and a copy has another time.
    report.write_bytes(report.read_bytes() + b"\n\x12$eb72838f-f449-4886-b6ab-32e8df004f31 \x01")
    os.utime(beside, (1, 1))
    opened = open_report(report)
    assert opened.timeline is not None
    assert (len(opened.timeline.ops), nsys.runs) == (2, 1)
    assert not opened.notices


def test_without_a_home_there_is_one_line(nsys: Nsys, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "relative too")
    monkeypatch.chdir(report.parent)
    found = failed(report)
    assert "there is no folder for its export" in found.message
    assert "XDG_CACHE_HOME" in found.hint
    assert nsys_export_of(report) is None
    monkeypatch.setenv("HOME", str(nsys.cache.parent))
    open_report(report)
    assert len(list((nsys.cache.parent / ".cache/gputui/nsys").iterdir())) == 1


def test_a_cache_that_cannot_be_written(nsys: Nsys, report: Path) -> None:
    nsys.cache.parent.parent.parent.joinpath("cache").write_text("a file")
    found = failed(report)
    assert "cannot be converted into the cache" in found.message
    assert "XDG_CACHE_HOME" in found.hint


def test_stopping_stops_everything_that_nsys_started(nsys: Nsys, report: Path) -> None:
    alive = nsys.log.with_name("alive")
    nsys.does(f"(while true; do date > {alive}; sleep 0.05; done) &\nwhile true; do sleep 1; done")
    begin = time.monotonic()
    with pytest.raises(GputuiError, match="was stopped"):
        open_report(report, lambda done, total: not alive.exists())
    assert time.monotonic() - begin < 10
    time.sleep(0.2)
    alive.unlink()
    time.sleep(0.3)
    assert not alive.exists()
    assert not list(nsys.cache.iterdir())


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="signals")
def test_a_signal_while_nsys_starts_loses_no_process(nsys: Nsys, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = nsys.log.with_name("alive")
    nsys.does(f"while true; do date > {alive}; sleep 0.05; done")

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **more: Any) -> None:
            super().__init__(command, **more)
            if "export" in command:
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.2)

    def end(*_: object) -> None:
        raise SystemExit(3)

    before = signal.signal(signal.SIGUSR1, end)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    try:
        with pytest.raises(SystemExit):
            open_report(report)
    finally:
        signal.signal(signal.SIGUSR1, before)
    time.sleep(0.2)
    alive.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not alive.exists()
    assert not list(nsys.cache.iterdir())


def test_an_nsys_that_hangs_is_stopped(nsys: Nsys, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_rep, "_STALL_S", 0.5)
    nsys.does("sleep 60")
    assert "nsys has done nothing for 0.5 s" in failed(report).message


def test_the_cache_stays_small(nsys: Nsys, report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_rep, "_MOST_FILES", 3)
    for age in range(5):
        os.utime(report, (age, age))
        open_report(report)
        for place, one in enumerate(sorted(nsys.cache.iterdir(), key=lambda one: one.stat().st_mtime)):
            os.utime(one, (100 * age + place, 100 * age + place))
    kept = set(nsys.cache.iterdir())
    assert len(kept) == 3
    os.utime(report, (4, 4))
    open_report(report)
    assert nsys.runs == 5
    monkeypatch.setattr(nsys_rep, "_MOST_BYTES", 1)
    os.utime(report, (9, 9))
    open_report(report)
    assert len(list(nsys.cache.iterdir())) == 1
