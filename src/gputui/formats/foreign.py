"""Files that are no report gputui opens: what they are, and what to do about it."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from gputui.errors import GputuiError

_OPENS = (
    "gputui opens reports of Nsight Compute (.ncu-rep, the CSV of ncu --csv) and Nsight Systems (.nsys-rep, .sqlite), "
    "and traces of the PyTorch profiler (.json, .json.gz)"
)
_BINARY_SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report", ".nsys-rep", ".qdrep", ".sqlite")
_SUFFIXES = (*_BINARY_SUFFIXES, ".csv", ".json", ".json.gz")

_BINARY = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x7fELF", "a program or library (ELF)"),
    (b"MZ", "a Windows program"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"%PDF-", "a PDF"),
    (b"PAR1", "a Parquet table"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
)

_NSYS_SQLITE = (b"CUPTI_ACTIVITY", b"TARGET_INFO_", b"PROFILER_OVERHEAD", b"StringIds", b"NVTX_EVENTS")
_NSYS_TABLE = re.compile(r"^\"?(Start \(ns\)|Time ?\(%\)),\"?(Duration|Total Time) ?\((ns|s)\)", re.MULTILINE)
_NSYS_STATS = re.compile(
    r"^(Generating SQLite file|Processing \[.*\.sqlite\] with|NOTICE: Existing SQLite export|"
    r" ?\*\* .* \(\w+\):| ?Time ?\(%\) +Total Time)",
    re.MULTILINE,
)


def check_is_file(path: Path) -> None:
    """Raises ``GputuiError`` for what cannot hold a report at all, ``OSError`` where the file is not there."""
    status = path.stat()
    if path.is_dir():
        found = sorted(one.name for one in path.iterdir() if one.name.endswith(_SUFFIXES))
        hint = f"Name one of the reports in it, such as {found[0]}" if found else "Name a report"
        raise GputuiError(str(path), "is a folder, not a report", hint)
    if not path.is_file():
        raise GputuiError(str(path), "is no regular file", "Save the report to a file and name that")
    if status.st_size == 0:
        raise GputuiError(
            str(path), "is empty", "Collect it again, and look for an error in the profiler's output or a full disk"
        )


def cannot_open(path: Path, error: OSError) -> GputuiError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return GputuiError(str(path), "does not exist", _near(path))
    if error.errno in (errno.EACCES, errno.EPERM):
        return GputuiError(
            str(path),
            "may not be read by this user",
            "Change its owner or mode, or copy it (a profiler run as root writes files of root)",
        )
    return GputuiError(
        str(path), f"cannot be read ({error.strerror or error})", "Check the disk or the mount that it is on"
    )


def _near(path: Path) -> str:
    import difflib  # only a mistyped name needs it

    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return f"There is no folder {path.parent} either; check the path"
    near = difflib.get_close_matches(path.name, names, n=1)
    near = near or [name for name in sorted(names) if name.startswith(path.name) and name.endswith(_SUFFIXES)][:1]
    return f"Did you mean {near[0]}?" if near else "Check the name"


def unknown(path: Path, head: bytes) -> GputuiError:
    """The error for a file that no format recognises."""
    name = str(path)
    if head.startswith(b"version https://git-lfs.github.com/"):
        return GputuiError(
            name,
            "is a Git LFS pointer, not the report itself",
            "Run git lfs pull in its repository, then open it again",
        )
    text = _as_text(head)
    if re.match(r"\s*<(!doctype html|html)", text, re.IGNORECASE):
        return GputuiError(name, "is a web page, not a report", "Download the file itself (its raw form)")
    if "NVPROF is profiling" in text:
        return GputuiError(name, "is nvprof's output", "Profile with ncu: nvprof does not know GPUs newer than Volta")
    if _NSYS_TABLE.search(text) or _NSYS_STATS.search(text):
        return GputuiError(
            name, "is a table that nsys stats printed", "Open the report that it is of (.nsys-rep, or its .sqlite)"
        )
    what = next((what for magic, what in _BINARY if head.startswith(magic)), None)
    if what is None and text.lstrip()[:1] in ("{", "["):
        what = "JSON"
    if what is None and path.suffix in _BINARY_SUFFIXES:
        return GputuiError(
            name,
            f"is no report that gputui knows: its first bytes are not those of a {path.suffix} file",
            "Copy it again byte for byte, or collect it again",
        )
    looks = f" (looks like {what})" if what else ""
    hint = "Unpack it and open the report in it" if what and what.endswith(" archive") else _OPENS
    return GputuiError(name, f"is no report that gputui knows{looks}", hint)


def is_nsys_export(head: bytes) -> bool:
    """Whether an SQLite file's first pages name a table of nsys."""
    return any(word in head for word in _NSYS_SQLITE)


def _as_text(head: bytes) -> str:
    return "" if b"\0" in head[:4096] else head.decode("utf-8-sig", "replace")
