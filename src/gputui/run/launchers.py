"""Programs that start several ranks of a job (``torchrun``, ``mpirun``, ``srun`` …), with the profiler put inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that starts ranks, taken apart: ``before`` the program is what stays outside, ``program`` what each
    rank runs, and ``variable`` the environment variable that holds its rank.

    A ``variable`` of ``""``: it cannot be taken apart. It is then profiled as a whole, with all processes that it
    starts on this machine, into one report. So it is with options that are not known here: whether the next word is
    theirs cannot be told. ``is_sure`` says that the variable is the one that this launcher sets; ``mpirun`` and
    ``mpiexec`` are several programs of one name, and Open MPI's is taken where the options tell nothing.
    """

    name: str
    before: tuple[str, ...]
    program: tuple[str, ...]
    variable: str
    is_sure: bool = True

    def report(self, output: str) -> str:
        """The name of each rank's report, in the profilers' own terms (``%q{VARIABLE}``, ``%p`` the process)."""
        if not self.variable:
            return output
        return f"{output}.rank%q{{{self.variable}}}" + ("" if self.is_sure else ".%p")

    def around(self, profiler: Sequence[str]) -> tuple[str, ...]:
        """The command with a profiler's call in front of each rank's program."""
        return (*self.before, *profiler, *self.program) if self.variable else (*profiler, *self.program)


def launch_of(command: Sequence[str]) -> Launch | None:
    """How a command starts ranks; ``None`` where it is no launcher known here."""
    name, rest = _name(command)
    if name in ("torchrun", "torch.distributed.run", "torch.distributed.launch"):
        return _torch(name, tuple(command), rest)
    if name in _MPI:
        return _mpi(name, tuple(command))
    if name == "srun":
        return _srun(name, tuple(command))
    if name == "accelerate launch":
        # It starts ranks in several ways, by a file of the user's: some have no rank of their own.
        return Launch(name, (), tuple(command), "")
    return None


def _name(command: Sequence[str]) -> tuple[str, int]:
    """What kind of launcher a command is, and where its options begin."""
    if not command:
        return "", 0
    name = PurePosixPath(command[0]).name
    if name == "accelerate" and list(command[1:2]) == ["launch"]:
        return "accelerate launch", 2
    if _PYTHON.fullmatch(name):
        place = 1
        while place < len(command) and command[place].startswith("-") and command[place] != "-m":
            place += 2 if command[place] in ("-X", "-W") else 1
        if place + 1 < len(command) and command[place] == "-m":
            module = command[place + 1]
            return ("accelerate launch" if module == "accelerate.commands.launch" else module), place + 2
    return name, 1


_PYTHON = re.compile(r"python\d*(\.\d+)?t?")


def _taken_apart(name: str, command: tuple[str, ...], end: int | None, variable: str, is_sure: bool = True) -> Launch:
    if end is None or end >= len(command):
        return Launch(name, (), command, "")
    return Launch(name, command[:end], command[end:], variable, is_sure)


def _end_of_options(
    command: Sequence[str],
    begin: int,
    values: Iterable[str],
    flags: Iterable[str],
    *,
    pairs: Iterable[str] = (),
    letters: str = "",
) -> int | None:
    """Where the program begins, after options of which ``values`` take the next word (``--name=value`` do not) and
    ``pairs`` the next two; ``letters`` may have their value behind them (``-n2``). ``None`` where an option is not
    known."""
    values, flags, pairs = frozenset(values), frozenset(flags), frozenset(pairs)
    place = begin
    while place < len(command):
        word = command[place]
        if word == "--":
            return place + 1
        if not word.startswith("-") or word == "-":
            return place
        name, equals, _ = word.partition("=")
        is_attached = not word.startswith("--") and len(word) > 2 and word[1] in letters
        if word in pairs:
            place += 3
        elif word in values:
            place += 2
        elif word in flags or (equals and name in values | flags) or is_attached:
            place += 1
        else:
            return None
    return place


# ------------------------------------------------------------------ PyTorch


_TORCH_VALUES = (
    "nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts",
    "monitor-interval", "start-method", "event-log-handler", "role", "log-dir", "redirects", "tee",
    "local-ranks-filter", "node-rank", "master-addr", "master-port", "local-addr", "logs-specs", "numa-binding",
    "shutdown-timeout", "signals-to-handle", "duplicate-stdout-filters", "duplicate-stderr-filters",
    "virtual-local-rank",
)  # fmt: skip
_TORCH_FLAGS = ("standalone", "module", "no-python", "run-path", "use-env")


def _spelled(names: Iterable[str]) -> frozenset[str]:
    """As torchrun takes them: with ``-`` or ``_`` between words."""
    return frozenset(f"--{one}" for name in names for one in (name, name.replace("-", "_")))


def _torch(name: str, command: tuple[str, ...], begin: int) -> Launch:
    """``torchrun`` puts a Python in front of the script: ``--no-python`` leaves that to us."""
    whole = Launch(name, (), command, "")
    values = (*_spelled(_TORCH_VALUES), "-r", "-t")
    end = _end_of_options(command, begin, values, (*_spelled(_TORCH_FLAGS), "-m"))
    if end is None or end >= len(command):
        return whole
    given = {word.replace("_", "-") for word in command[begin:end]}
    # Without --use-env torch.distributed.launch passes the rank to the script itself, as its first argument; and
    # --run-path has no like for a program of its own.
    if "--run-path" in given or (name == "torch.distributed.launch" and "--use-env" not in given):
        return whole
    if "--no-python" in given:
        return Launch(name, command[:end], command[end:], "RANK")
    is_module = bool(given & {"-m", "--module"})
    options = tuple(word for word in command[begin:end] if word not in ("-m", "--module", "--"))
    program = (_python(command, name), "-u", *(("-m",) if is_module else ()), *command[end:])
    return Launch(name, (*command[:begin], *options, "--no-python"), program, "RANK")


def _python(command: Sequence[str], name: str) -> str:
    """The Python that would have run the script: the launcher's own."""
    if name != "torchrun":
        return command[0]
    folder = PurePosixPath(command[0]).parent
    return "python" if "/" not in command[0] else str(folder / "python")


# ------------------------------------------------------------------ MPI


_OPEN_MPI_RANK = "OMPI_COMM_WORLD_RANK"
_MPI = {
    "mpirun": "", "mpiexec": "", "orterun": _OPEN_MPI_RANK, "prterun": _OPEN_MPI_RANK,
    "mpirun.openmpi": _OPEN_MPI_RANK, "mpiexec.openmpi": _OPEN_MPI_RANK,
    "mpiexec.hydra": "PMI_RANK", "mpirun.mpich": "PMI_RANK", "mpiexec.mpich": "PMI_RANK",
}  # fmt: skip
"""The variable of the rank, where the name tells it."""

_MPI_VALUES = (
    "-n", "-np", "--n", "--np", "-c", "-host", "--host", "-H", "-wdir", "--wdir", "-wd", "-bind-to", "--bind-to",
    "-map-by", "--map-by", "-hostfile", "--hostfile", "-machinefile", "--machinefile",
)  # fmt: skip
_OPEN_MPI_VALUES = (
    "-x", "--rank-by", "-rank-by", "-npernode", "--npernode", "-N", "--npersocket", "-npersocket", "--output",
    "--output-filename", "-output-filename", "--timeout", "--prefix", "-prefix", "--path", "-path", "--rankfile",
    "-rankfile", "-rf", "--cpu-set", "--cpu-list", "--stdin", "--personality", "--tune", "-tune", "--display",
    "--runtime-options", "--report-pid", "--dvm",
)  # fmt: skip
_OPEN_MPI_PAIRS = ("-mca", "--mca", "-gmca", "--gmca", "--pmixmca", "--prtemca")
_OPEN_MPI_FLAGS = (
    "--allow-run-as-root", "--oversubscribe", "-oversubscribe", "--nooversubscribe", "--report-bindings",
    "-report-bindings", "--tag-output", "-tag-output", "--timestamp-output", "--display-map", "-display-map",
    "--display-allocation", "--bind-to-core", "--bind-to-socket", "--bind-to-none", "--bynode", "--byslot", "--quiet",
    "-q", "--use-hwthread-cpus", "--merge-stderr-to-stdout", "--nolocal", "-nolocal", "--pernode", "-pernode",
    "--enable-recovery", "--continuous",
)  # fmt: skip
_HYDRA_VALUES = (
    "-genvlist", "-envlist", "-ppn", "-perhost", "-f", "-launcher", "-bootstrap", "-launcher-exec", "-rmk", "-iface",
    "-hosts", "-gpus-per-proc", "-errfile-pattern", "-outfile-pattern", "-pmi-port", "-topolib", "-localhost", "-usize",
)  # fmt: skip
_HYDRA_PAIRS = ("-env", "-genv")
_HYDRA_FLAGS = (
    "-genvall", "-genvnone", "-envall", "-envnone", "-l", "-prepend-rank", "-print-rank-map", "-verbose", "-info",
    "-disable-auto-cleanup", "-disable-hostname-propagation", "-skip-launch-node",
)  # fmt: skip


def _mpi(name: str, command: tuple[str, ...]) -> Launch:
    end = _end_of_options(
        command, 1, (*_MPI_VALUES, *_OPEN_MPI_VALUES, *_HYDRA_VALUES), (*_OPEN_MPI_FLAGS, *_HYDRA_FLAGS),
        pairs=(*_OPEN_MPI_PAIRS, *_HYDRA_PAIRS),
    )  # fmt: skip
    given = {word.partition("=")[0] for word in command[1:end]}
    is_hydra = bool(given & {*_HYDRA_VALUES, *_HYDRA_PAIRS, *_HYDRA_FLAGS})
    is_open_mpi = bool(given & {*_OPEN_MPI_VALUES, *_OPEN_MPI_PAIRS, *_OPEN_MPI_FLAGS})
    variable = _MPI[name] or ("PMI_RANK" if is_hydra and not is_open_mpi else _OPEN_MPI_RANK)
    is_sure = bool(_MPI[name]) or is_hydra != is_open_mpi
    # Behind a ":" is another program of the same job.
    return _taken_apart(name, command, None if ":" in command else end, variable, is_sure)


# ------------------------------------------------------------------ Slurm


_SRUN_LETTERS = "ABCDFGJLMNSTWbcdeimnopqrtwx"
"""Options of one letter that take a value."""
_SRUN_VALUES = (
    *(f"-{letter}" for letter in _SRUN_LETTERS),
    "--account", "--acctg-freq", "--begin", "--chdir", "--cluster-constraint", "--clusters", "--comment",
    "--constraint", "--container", "--core-spec", "--cores-per-socket", "--cpu-bind", "--cpu-freq", "--cpus-per-gpu",
    "--cpus-per-task", "--deadline", "--delay-boot", "--dependency", "--distribution", "--epilog", "--error",
    "--exclude", "--export", "--extra-node-info", "--gpu-bind", "--gpu-freq", "--gpus", "--gpus-per-node",
    "--gpus-per-socket", "--gpus-per-task", "--gres", "--gres-flags", "--hint", "--input", "--job-name", "--jobid",
    "--licenses", "--mail-type", "--mail-user", "--mem", "--mem-bind", "--mem-per-cpu", "--mem-per-gpu", "--mincpus",
    "--mpi", "--network", "--nodefile", "--nodelist", "--nodes", "--ntasks", "--ntasks-per-core", "--ntasks-per-gpu",
    "--ntasks-per-node", "--ntasks-per-socket", "--open-mode", "--output", "--partition", "--power", "--priority",
    "--profile", "--prolog", "--qos", "--relative", "--reservation", "--signal", "--slurmd-debug",
    "--sockets-per-node", "--switches", "--task-epilog", "--task-prolog", "--thread-spec", "--threads",
    "--threads-per-core", "--time", "--time-min", "--tmp", "--tres-bind", "--tres-per-task", "--uid", "--wait",
    "--wckey",
)  # fmt: skip
_SRUN_FLAGS = (
    "-E", "-H", "-I", "-K", "-O", "-Q", "-X", "-Z", "-k", "-l", "-s", "-u", "-v", "-vv", "-vvv", "--bcast",
    "--contiguous", "--disable-status", "--exact", "--exclusive", "--hold", "--immediate", "--interactive",
    "--kill-on-bad-exit", "--label", "--nice", "--no-allocate", "--no-kill", "--overcommit", "--overlap",
    "--oversubscribe", "--preserve-env", "--propagate", "--pty", "--quiet", "--quit-on-interrupt", "--reboot",
    "--resv-ports", "--spread-job", "--unbuffered", "--use-min-nodes", "--verbose", "--whole",
)  # fmt: skip


def _srun(name: str, command: tuple[str, ...]) -> Launch:
    end = _end_of_options(command, 1, _SRUN_VALUES, _SRUN_FLAGS, letters=_SRUN_LETTERS)
    return _taken_apart(name, command, None if ":" in command else end, "SLURM_PROCID")
