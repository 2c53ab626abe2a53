"""What several tests of runs need: another machine, and a machine with a GPU and ncu, which are stand-ins."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_server import Server, of_this_test, wait_for
from standins import Bin, make_bin


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server")
    made.folder.mkdir()
    try:
        yield made
    finally:
        for machine in made.machines:
            machine.close()
        made.stop()
    places = [tmp_path, *(machine._private for machine in made.machines)]
    try:
        wait_for(lambda: not any(of_this_test(place) for place in places) or None, 10)
    finally:
        for pid in of_this_test(tmp_path):
            os.kill(pid, signal.SIGKILL)
    assert not any(machine._private.exists() for machine in made.machines)


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bin:
    made = make_bin(tmp_path)
    for name in set(os.environ) - set(made.environment):
        monkeypatch.delenv(name)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made
