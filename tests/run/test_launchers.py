"""Launchers taken apart, and ranks that the real nsys records one by one.

The launchers that run here are stand-ins: they start the ranks with the environment variables of the real ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.formats.nsys_rep import find_nsys
from gputui.formats.together import open_all
from gputui.model.report import Report
from gputui.run.launchers import launch_of
from gputui.run.plan import Request, Tools, timeline_command

OMPI, PMI = "OMPI_COMM_WORLD_RANK", "PMI_RANK"


@pytest.mark.parametrize(
    ("command", "around", "variable"),
    [
        ("torchrun --nproc-per-node=2 train.py --lr 1",
         "torchrun --nproc-per-node=2 --no-python PROFILER python -u train.py --lr 1", "RANK"),
        ("torchrun --nproc_per_node 2 --standalone -m pkg.train -m x",
         "torchrun --nproc_per_node 2 --standalone --no-python PROFILER python -u -m pkg.train -m x", "RANK"),
        ("torchrun --no-python --nnodes 1 ./app -x", "torchrun --no-python --nnodes 1 PROFILER ./app -x", "RANK"),
        ("torchrun --nnodes=1:2 -- train.py -- a",
         "torchrun --nnodes=1:2 --no-python PROFILER python -u train.py -- a", "RANK"),
        ("/env/bin/torchrun -t 3 train.py", "/env/bin/torchrun -t 3 --no-python PROFILER /env/bin/python -u train.py",
         "RANK"),
        ("python3.11 -X dev -u -m torch.distributed.run --rdzv-id=1 train.py",
         "python3.11 -X dev -u -m torch.distributed.run --rdzv-id=1 --no-python PROFILER python3.11 -u train.py",
         "RANK"),
        ("python -m torch.distributed.launch --use_env --nproc_per_node=2 t.py",
         "python -m torch.distributed.launch --use_env --nproc_per_node=2 --no-python PROFILER python -u t.py", "RANK"),
        ("mpirun -np 2 ./prog -n 3", "mpirun -np 2 PROFILER ./prog -n 3", OMPI),
        ("mpirun --allow-run-as-root --mca btl ^tcp -x A=1 -n 2 python t.py",
         "mpirun --allow-run-as-root --mca btl ^tcp -x A=1 -n 2 PROFILER python t.py", OMPI),
        ("mpiexec -genv A 1 -ppn 2 -n 4 ./prog -env a b",
         "mpiexec -genv A 1 -ppn 2 -n 4 PROFILER ./prog -env a b", PMI),
        ("mpiexec.hydra -n 2 ./prog", "mpiexec.hydra -n 2 PROFILER ./prog", PMI),
        ("orterun -np 2 ./prog", "orterun -np 2 PROFILER ./prog", OMPI),
        ("srun -n2 -N 1 --gpus-per-task=1 --mem 4G --pty python t.py -n 9",
         "srun -n2 -N 1 --gpus-per-task=1 --mem 4G --pty PROFILER python t.py -n 9", "SLURM_PROCID"),
        ("srun --kill-on-bad-exit=1 --cpu-bind none ./app", "srun --kill-on-bad-exit=1 --cpu-bind none PROFILER ./app",
         "SLURM_PROCID"),
    ],
)  # fmt: skip
def test_the_profiler_goes_in_front_of_each_ranks_program(command: str, around: str, variable: str) -> None:
    launch = launch_of(command.split())
    assert launch is not None
    assert launch.variable == variable
    assert " ".join(launch.around(("PROFILER",))) == around


@pytest.mark.parametrize(
    "command",
    [
        "accelerate launch train.py",
        "python -m accelerate.commands.launch train.py",
        "torchrun --some-new-option 3 train.py",
        "torchrun --run-path train.py",
        "torchrun --nproc-per-node=2",
        "python -m torch.distributed.launch --nproc_per_node=2 t.py",
        "mpirun -np 1 ./a : -np 1 ./b",
        "mpirun --no-such-option 1 ./a",
        "srun --multi-prog conf",
        "srun -n 2",
    ],
)
def test_what_cannot_be_taken_apart_is_profiled_as_a_whole(command: str) -> None:
    launch = launch_of(command.split())
    assert launch is not None
    assert launch.variable == ""
    assert launch.around(("PROFILER",)) == ("PROFILER", *command.split())
    assert launch.report("timeline") == "timeline"


@pytest.mark.parametrize(
    "command", ["", "python train.py", "python -m pkg.train", "python -c torchrun", "./mpirun_like 2"]
)
def test_other_programs_are_no_launchers(command: str) -> None:
    assert launch_of(command.split()) is None


def test_where_the_kind_of_mpi_is_not_told_no_report_takes_anothers_place() -> None:
    sure, unsure = (launch_of(command.split()) for command in ("mpirun --oversubscribe ./a", "mpirun ./a"))
    assert sure is not None
    assert unsure is not None
    assert sure.report("t") == "t.rank%q{OMPI_COMM_WORLD_RANK}"
    assert unsure.report("t") == "t.rank%q{OMPI_COMM_WORLD_RANK}.%p"


# ------------------------------------------------------------------ the real nsys

STAND_IN = """#!{python}
# A stand-in for {name}: starts the program, which begins at the first word that is no option, twice.
import os, subprocess, sys
words = sys.argv[1:]
while words[0].startswith("-"):
    words = words[2:] if words[0] in ("-np", "-n") else words[1:]
ranks = [subprocess.Popen(words, env={{**os.environ, {variable!r}: str(rank)}}) for rank in range(2)]
sys.exit(max(abs(one.wait()) for one in ranks))
"""


@pytest.mark.skipif(find_nsys() is None, reason="nsys is not installed")
@pytest.mark.parametrize(
    ("name", "options", "variable"),
    [
        ("torchrun", ("--nproc-per-node=2",), "RANK"),
        ("mpirun", ("-np", "2"), OMPI),
        ("srun", ("-n2",), "SLURM_PROCID"),
    ],
)
def test_a_report_a_rank_that_open_as_one(
    name: str, options: tuple[str, ...], variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nvtx")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, programs = tmp_path / "run", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    launcher = programs / name
    launcher.write_text(STAND_IN.format(python=sys.executable, name=name, variable=variable))
    launcher.chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\nimport nvtx\n"
        f"with nvtx.annotate('rank ' + os.environ['{variable}'] + ' ' + sys.argv[1]):\n    sum(range(1000))\n"
    )
    # The stand-in for python is a link: what its environment holds is told to it.
    path = os.pathsep.join(one for one in sys.path if one)
    command = (str(launcher), *options, *(() if name == "torchrun" else ("python",)), str(script), "a $b")
    argv = timeline_command(Request(command, str(tmp_path)), Tools(str(find_nsys()), folder=str(folder))).argv
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(folder.glob("*.nsys-rep"))
    assert len(files) == 2
    assert all(one.name.startswith(f"timeline.rank{rank}") for rank, one in enumerate(files))
    (report,) = open_all([folder])
    assert isinstance(report, Report)
    timeline = report.timeline
    assert timeline is not None
    assert [one.rank for one in timeline.files] == [0, 1]
    assert {timeline.name(int(one)) for one in timeline.ranges.name} == {"rank 0 a $b", "rank 1 a $b"}
