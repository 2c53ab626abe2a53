from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from gputui.errors import GputuiError
from gputui.formats import open_report


def error(path: Path) -> GputuiError:
    with pytest.raises(GputuiError) as caught:
        open_report(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert caught.value.hint
    return caught.value


TABLE = "is a table that nsys stats printed"


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "is empty", "Collect it again"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer", "git lfs pull"),
        (b"SQLite format 3\0" + b"..CREATE TABLE StringIds (", "is cut off or damaged", "Copy it again"),
        (b"SQLite format 3\0" + b"..CREATE TABLE people (", "looks like an SQLite database", ".nsys-rep"),
        (b"Start (ns),Duration (ns),CorrId,GrdX\n1,2,3,4\n", TABLE, ".nsys-rep"),
        (b"Time (%),Total Time (ns),Instances\n1,2,3\n", TABLE, ".nsys-rep"),
        (b"Processing [a.sqlite] with [x.py]...\n\n ** CUDA API Summary (cuda_api_sum):\n", TABLE, ".nsys-rep"),
        (gzip.compress(b"hello", mtime=0), "looks like a gzip archive", "Unpack"),
        (b"\x1f\x8b", "looks like a gzip archive", "Unpack"),
        (b"PK\x03\x04....", "looks like a zip archive", "Unpack"),
        (b"\x7fELF....", "looks like a program", ".ncu-rep"),
        (b"\x89HDF\r\n\x1a\n", "looks like an HDF5 file", ".ncu-rep"),
        (b"\x89PNG\r\n\x1a\n", "looks like a PNG picture", ".ncu-rep"),
        (b'{"a": 1}', "looks like JSON", ".ncu-rep"),
        (b"\n<!DOCTYPE html><html>", "is a web page", "Download"),
        (b"==99== NVPROF is profiling process 99\n", "nvprof", "ncu"),
        (b"hello\n", "is no report that gputui knows", ".ncu-rep"),
        (b"\0\1\2\3" * 99, "is no report that gputui knows", ".ncu-rep"),
    ],
)
def test_other_files_are_told_what_they_are(tmp_path: Path, data: bytes, message: str, hint: str) -> None:
    path = tmp_path / "file.dat"
    path.write_bytes(data)
    found = error(path)
    assert message in found.message
    assert hint in found.hint


def test_a_report_by_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "file.ncu-rep"
    path.write_bytes(b"XXXX")
    assert "first bytes" in error(path).message


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder" in error(tmp_path).message
    (tmp_path / "b.ncu-rep").touch()
    assert "b.ncu-rep" in error(tmp_path).hint


@pytest.mark.parametrize("wrong", ["reprot.ncu-rep", "report"])
def test_a_missing_file_gets_a_near_name(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "report.ncu-rep").touch()
    found = error(tmp_path / wrong)
    assert found.message == "does not exist"
    assert found.hint == "Did you mean report.ncu-rep?"


def test_a_missing_folder(tmp_path: Path) -> None:
    assert "no folder" in error(tmp_path / "no" / "x.ncu-rep").hint
    (tmp_path / "file").touch()
    assert error(tmp_path / "file" / "x.ncu-rep").message == "does not exist"


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in error(tmp_path / "pipe").message


def test_a_file_of_someone_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR\0")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    found = error(path)
    assert "may not be read" in found.message
    assert "owner or mode" in found.hint
