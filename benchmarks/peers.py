"""The programs that gputui is measured beside: NVIDIA's own, and two terminal programs from PyPI.

    python benchmarks/peers.py FOLDER

installs the latter into environments of their own in FOLDER.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

FROM_PYPI = {"nsys-tui": "0.1.5", "nsys-ai": "0.3.0"}


@dataclass(frozen=True)
class Peer:
    program: str
    version: str


def install(folder: Path) -> None:
    """Does nothing for a peer that is there."""
    for name, version in FROM_PYPI.items():
        home = folder / name
        if not (home / "bin" / name).is_file():
            venv.create(home, with_pip=True, clear=True)
            subprocess.run([home / "bin" / "pip", "install", "-q", f"{name}=={version}"], check=True)


def found(folder: Path) -> dict[str, Peer]:
    """The peers on this machine: `ncu` and `nsys` on the PATH, the others in ``folder``."""
    peers = {}
    for name in ("ncu", "nsys"):
        if program := shutil.which(name):
            printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            numbers = re.search(r"\d{4}\.\d+(\.\d+)*", printed)
            peers[name] = Peer(program, numbers[0] if numbers else "of an unknown version")
    for name, version in FROM_PYPI.items():
        program_there = folder / name / "bin" / name
        if program_there.is_file():
            peers[name] = Peer(str(program_there), version)
    return peers


if __name__ == "__main__":
    install(Path(sys.argv[1]))
