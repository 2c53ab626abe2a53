"""``gputui run --host``, as its users start it, against a real sshd and the real nsys."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ssh_server import Server, needs_sshd, wait_for
from standins import METACHARACTERS, Bin, read_until

import gputui
from gputui.formats.nsys_rep import find_nsys
from gputui.run.folder import read_record

NSYS = find_nsys()
pytestmark = [needs_sshd, pytest.mark.skipif(NSYS is None, reason="nsys is not installed")]
MAIN = (sys.executable, "-c", "import sys; from gputui.cli import main; sys.argv[0] = 'gputui'; main()")
WAIT = """if True:
    import os, sys, time
    sys.stdout.write("ready\\n")
    try:
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.02)
        sys.stdout.write("over\\n")
    except KeyboardInterrupt:
        sys.stdout.write("finishing\\n")
"""


class Here:
    """This side: a folder to start gputui in, whose ssh knows the server as ``box``."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.server = server
        self.go = folder / "go"
        self.begun: list[subprocess.Popen[bytes]] = []
        bin = Bin(folder / "bin")
        bin.folder.mkdir(parents=True)
        bin.write("ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {server.config} "$@"\n')
        self.environment = bin.environment

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        begun = subprocess.Popen(
            [*MAIN, *arguments], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self.begun.append(begun)
        return begun

    def run(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start("run", "--no-tui", "--host", "box", "--", *arguments)

    def waiting(self) -> subprocess.Popen[bytes]:
        """A run whose program waits for the file ``go``."""
        process = self.run(sys.executable, "-c", WAIT, str(self.go))
        read_until(process, "\nready\n")
        return process

    @property
    def only(self) -> Path:
        (found,) = (self.folder / "gputui-runs").iterdir()
        return found

    @property
    def there(self) -> list[str]:
        """The folders of runs on the server."""
        place = self.server.home / ".cache" / "gputui" / "runs"
        return os.listdir(place) if place.exists() else []

    def listed(self) -> Any:
        (found,) = json.loads(self.start("runs", "--format", "json").communicate(timeout=60)[0])
        return found


@pytest.fixture
def here(server: Server, tmp_path: Path) -> Iterator[Here]:
    assert NSYS is not None
    server.start(path=os.pathsep.join([str(Path(NSYS).parent), os.environ["PATH"]]))
    made = Here(tmp_path / "here", server)
    yield made
    for one in made.begun:
        one.kill()
        one.communicate()
    made.go.touch()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out.decode(), err.decode()


def is_whole(report: Path) -> bool:
    return gputui.open_report(report).timeline is not None


def test_the_report_comes_back_and_nothing_stays_there(here: Here) -> None:
    code = "import nvtx, os, sys\nwith nvtx.annotate('far away'): print(ascii(sys.argv[1:]), os.getcwd())"
    status, out, err = ended(here.run(sys.executable, "-c", code, METACHARACTERS, "", "-o"))
    assert (status, err) == (1, "")
    assert f"\n{[METACHARACTERS, '', '-o']!a} {here.folder}\n" in out
    assert f"Kept: gputui-runs/{here.only.name}/timeline.nsys-rep" in " ".join(out.split())
    timeline = gputui.open_report(here.only / "timeline.nsys-rep").timeline
    assert timeline is not None
    assert "far away" in timeline.names
    record = read_record(here.only)
    assert (record.state, record.host, record.stages[0].status) == ("failed", "box", 0)
    assert record.stages[0].argv[-3:] == (METACHARACTERS, "", "-o")
    assert here.there == []
    assert sorted(os.listdir(here.only)) == [".work", "commands.txt", "run.json", "timeline.log", "timeline.nsys-rep"]
    assert os.listdir(here.only / ".work") == ["lock"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_program_outlives_gputui_and_is_found_again(here: Here, number: signal.Signals) -> None:
    process = here.waiting()
    process.send_signal(number)
    assert process.wait(60) == (-number if number == signal.SIGKILL else 128 + number)
    assert here.there == [here.only.name]
    assert here.listed()["state"] == "unknown"
    again = here.start("run", "--attach", "--no-tui")
    read_until(again, "\nready\n")
    here.go.touch()
    status, out, err = ended(again)
    assert (status, err) == (1, "")
    assert "over\n" in out
    assert is_whole(here.only / "timeline.nsys-rep")
    record = read_record(here.only)
    assert (record.state, record.stages[0].status, record.stages[0].reports) == ("failed", 0, ("timeline.nsys-rep",))
    assert here.there == []
    status, out, err = ended(here.start("run", "--attach", "--no-tui"))
    assert (status, err.count("holds no run that goes on")) == (2, 1)


def test_what_ended_meanwhile_is_fetched(here: Here) -> None:
    process = here.waiting()
    process.kill()
    process.wait()
    here.go.touch()
    place = here.server.home / ".cache" / "gputui" / "runs" / here.only.name / "timeline.status.json"
    wait_for(lambda: json.loads(place.read_text()).get("ended"))
    status, out, err = ended(here.start("run", "--attach", "--no-tui"))
    assert (status, err) == (1, "")
    assert "\nready\nover\n" in out
    assert is_whole(here.only / "timeline.nsys-rep")
    assert here.there == []


def test_ctrl_c_stops_the_program_there(here: Here) -> None:
    process = here.waiting()
    process.send_signal(signal.SIGINT)
    status, out, err = ended(process)
    assert (status, err) == (130, "")
    assert "finishing" in out
    assert "Asked the program to end" in out
    assert is_whole(here.only / "timeline.nsys-rep")
    assert read_record(here.only).state == "stopped"
    assert here.there == []


def test_a_broken_connection_costs_nothing(here: Here) -> None:
    process = here.waiting()
    here.server.cut()
    read_until(process, "is lost")
    here.go.touch()
    status, out, err = ended(process)
    assert (status, err) == (1, "")
    assert "over\n" in out
    assert is_whole(here.only / "timeline.nsys-rep")


def test_ctrl_c_while_the_connection_is_lost_leaves_it_running(here: Here) -> None:
    process = here.waiting()
    here.server.stop()
    read_until(process, "is lost")
    process.send_signal(signal.SIGINT)
    status, out, err = ended(process)
    assert (status, err) == (130, "")
    here.server.start(path=os.pathsep.join([str(Path(str(NSYS)).parent), os.environ["PATH"]]))
    here.go.touch()
    status, out, err = ended(here.start("run", "--attach", "--no-tui"))
    assert (status, err) == (1, "")
    assert "\nready\nover\n" in out
    assert is_whole(here.only / "timeline.nsys-rep")


def test_a_machine_that_cannot_be_reached(here: Here) -> None:
    here.server.stop()
    status, out, err = ended(here.run("true"))
    assert (status, out) == (2, "")
    assert err.startswith("gputui: box: no ssh server answers there")
    assert not (here.folder / "gputui-runs").exists()


def test_the_doctor_looks_there(here: Here) -> None:
    told = json.loads(here.start("doctor", "--host", "box", "--format", "json").communicate(timeout=60)[0])
    assert told["facts"]["tools"]["nsys"][0]["path"] == NSYS
    assert told["can_profile"] is False
