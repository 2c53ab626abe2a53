"""What a machine is, as far as profiling goes: raw facts, printed as JSON by ``python3 -``.

It stands alone and imports nothing of gputui: it is sent to other machines, whose Python may be as old as 3.6. What the
facts mean is for ``doctor.py`` to say. A fact that cannot be told is ``None``, and ``errors`` says why.
"""

import concurrent.futures
import contextlib
import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

TOOLS = ("nsys", "ncu")
HOMES = (
    *("/opt/nvidia", "/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/opt/nvidia/hpc_sdk/*/*"),
    *("/usr/lib", "/usr/local", "/opt/conda"),
)
"""Where NVIDIA, distributions and Conda install."""
BELOW = {
    "nsys": (
        *("bin/nsys", "nsys", "nsight-systems*/bin/nsys", "nsight-systems*/*/bin/nsys"),
        *("nsight-systems*/*/target-linux-*/nsys", "profilers/Nsight_Systems/bin/nsys"),
    ),
    "ncu": ("bin/ncu", "ncu", "nsight-compute*/ncu", "nsight-compute*/*/ncu", "profilers/Nsight_Compute/ncu"),
}
"""Where the tools lie in such a place. The nsys within Nsight Compute is none of them: it cannot write a report."""
HOME_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "NVHPC_ROOT", "CONDA_PREFIX")
"""Variables that name such a place; ``NSIGHT_…`` do, too."""

INJECTIONS = (
    *("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"),
    *("NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NV_TPS_LAUNCH_TOKEN"),
)
"""What nsys, ncu and other tools set in the programs that they look into."""
PROFILERS = (
    *("nsys", "ncu", "nv-nsight-cu-cli", "nvprof", "nsys-ui", "ncu-ui"),
    *("nv-hostengine", "dcgm-exporter", "dcgmi"),
)
"""Programs that hold a GPU's counters or look into programs themselves."""

_MOST_CANDIDATES = 8
_MOST_SAID = 1 << 20
_TOOL_S = 5.0
_LIST_S = 8.0
_SMI_S = 10.0
_SMI_FIELDS = ("index", "name", "uuid", "compute_cap", "driver_version", "mig.mode.current", "memory.used")
_CAPABILITIES = {"sys_ptrace": 19, "sys_admin": 21, "perfmon": 38}


def candidates(tool: str, root: str = "/") -> "list[str]":
    """The paths of a tool, the preferred first: the search path's, those that variables name, the newest installed."""
    found = [os.path.join(folder, tool) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    named = [os.environ.get(name, "") for name in HOME_VARIABLES]
    named += [value for name, value in sorted(os.environ.items()) if name.startswith("NSIGHT_")]
    for home in named:
        if os.path.isabs(home):
            found += _installed(tool, glob.escape(home))
    installed = []  # type: list[str]
    for place in HOMES:
        installed += _installed(tool, os.path.join(root, place.lstrip("/")))
    found += sorted(installed, key=_version_in, reverse=True)
    unique = {}  # type: dict[str, str]
    for path in found:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            unique.setdefault(os.path.realpath(path), path)
    return list(unique.values())


def _installed(tool: str, home: str) -> "list[str]":
    found = []  # type: list[str]
    for below in BELOW[tool]:
        found += glob.glob(os.path.join(home, below))
    return sorted(found, key=_version_in, reverse=True)


def _version_in(path: str) -> "tuple[int, ...]":
    """The last version that a path names: that of the tool, where a toolkit's stands before it."""
    versions = re.findall(r"\d+(?:\.\d+)+", path)
    return tuple(int(part) for part in versions[-1].split(".")) if versions else ()


def facts(root: str = "/") -> "dict[str, object]":
    """All facts. Files are read below ``root``; variables, user and the working folder are this process's."""
    found = {}  # type: dict[str, object]
    errors = {}  # type: dict[str, str]
    # At the same time: programs that hang then cost the time of one.
    with concurrent.futures.ThreadPoolExecutor(len(_FACTS)) as pool:
        told = [(name, pool.submit(tell, root)) for name, tell in _FACTS]
    for name, future in told:
        try:
            found[name] = future.result()
        except Exception as error:  # one fact that fails must not cost the others
            found[name] = None
            errors[name] = f"{type(error).__name__}: {error}"
    found["errors"] = errors
    return found


def _read(root: str, path: str) -> "str | None":
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return None


def _number(root: str, path: str) -> "int | None":
    text = _read(root, path)
    return None if text is None or not re.match(r"-?\d+\s*$", text) else int(text)


def _said(command: "list[str]", seconds: float) -> "tuple[int, str]":
    """Exit status and output of a program; what it left unsaid by then is not waited for."""
    # Into a file: what hangs in the driver outlives SIGKILL and would keep a pipe open.
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what a wrapper script started ends with it
        )
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1)
            raise
        said.seek(0)
        return status, said.read(_MOST_SAID).decode("utf-8", "replace")


def _system(root: str) -> "dict[str, object]":
    release = _read(root, "etc/os-release") or ""
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return {
        "name": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "distribution": pretty.group(1) if pretty else "",
        "host": platform.node(),
        "python": platform.python_version(),
    }


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _user(root: str) -> "dict[str, object]":
    # The identity mapping is that of a machine; in a container of an ordinary user, root is that user outside.
    mapping = (_read(root, "proc/self/uid_map") or "").split()
    return {
        "name": _user_name(os.geteuid()),
        "uid": os.geteuid(),
        "mapped": bool(mapping) and mapping != ["0", "0", "4294967295"],
    }


def _tools(root: str) -> "dict[str, object]":
    found = [(tool, path) for tool in TOOLS for path in candidates(tool, root)[:_MOST_CANDIDATES]]
    with concurrent.futures.ThreadPoolExecutor(len(TOOLS) * _MOST_CANDIDATES) as pool:
        told = list(pool.map(lambda one: _tool(*one), found))
    return {tool: [one for (name, _), one in zip(found, told) if name == tool] for tool in TOOLS}  # noqa: B905


def _tool(tool: str, path: str) -> "dict[str, object]":
    """Path and version, ``""`` where it does not run; of ncu the chips and sections that it knows, too."""
    try:
        status, output = _said([path, "--version"], _TOOL_S)
    except (OSError, subprocess.SubprocessError) as error:
        return {"path": path, "version": "", "error": str(error)}
    version = re.search(r"[Vv]ersion (\d+(?:\.\d+)+)", output)
    if status or version is None:
        return {"path": path, "version": "", "error": output.strip()[-300:] or f"status {status}"}
    found = {"path": path, "version": version.group(1)}  # type: dict[str, object]
    if tool == "ncu":
        found["chips"] = re.findall(r"\b[a-z]{2}\d{2}[0-9a-z]\b", _list(path, "--list-chips"))
        # Columns: identifier, name, whether it is on, file. A line of dashes stands below the heads.
        rows = _list(path, "--list-sections").splitlines()
        words = [row.split()[0] for row in rows if row.strip()]
        found["sections"] = [word for word in words if re.match(r"[A-Za-z]\w*$", word) and word != "Identifier"]
    return found


def _list(path: str, option: str) -> str:
    try:
        status, output = _said([path, option], _LIST_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return "" if status else output


def _driver(root: str) -> "dict[str, str] | None":
    text = _read(root, "proc/driver/nvidia/version")
    if text is None:
        return None
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  …"; the open one says "… Open Kernel Module for …".
    version = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", text)
    return {"version": version.group(1) if version else ""}


def _profiling_admin_only(root: str) -> "int | None":
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", _read(root, "proc/driver/nvidia/params") or "", re.MULTILINE)
    return int(found.group(1)) if found else None


def _perf_event_paranoid(root: str) -> "int | None":
    return _number(root, "proc/sys/kernel/perf_event_paranoid")


def _ptrace_scope(root: str) -> "int | None":
    return _number(root, "proc/sys/kernel/yama/ptrace_scope")


def _process_status(root: str, field: str) -> "str | None":
    found = re.search(rf"^{field}:\s*(\S+)", _read(root, "proc/self/status") or "", re.MULTILINE)
    return found.group(1) if found else None


def _capabilities(root: str) -> "dict[str, bool] | None":
    effective = _process_status(root, "CapEff")
    if effective is None:
        return None
    return {name: bool(int(effective, 16) >> bit & 1) for name, bit in _CAPABILITIES.items()}


def _seccomp(root: str) -> "int | None":
    mode = _process_status(root, "Seccomp")
    return None if mode is None else int(mode)


def _container(root: str) -> str:
    """The kind of container; ``""`` where there is no sign of one."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if os.path.exists(os.path.join(root, ".singularity.d")):
        return "singularity"
    if os.path.exists(os.path.join(root, "run/.containerenv")):
        return "podman"
    if os.path.exists(os.path.join(root, ".dockerenv")):
        return "docker"
    groups = _read(root, "proc/1/cgroup") or ""
    for sign, kind in (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")):
        if sign in groups:
            return kind
    return os.environ.get("container", "")  # noqa: SIM112 (so systemd and Podman spell it)


def _wsl(root: str) -> bool:
    return "microsoft" in (_read(root, "proc/sys/kernel/osrelease") or "").lower()


def _nvidia_smi(root: str) -> "str | None":
    # In WSL it does not always lie on the search path.
    for path in (shutil.which("nvidia-smi"), os.path.join(root, "usr/lib/wsl/lib/nvidia-smi")):
        if path is not None and os.access(path, os.X_OK):
            return path
    return None


def _gpus(root: str) -> "dict[str, object]":
    """``list``: the GPUs, by nvidia-smi's names of their fields; ``error``: what nvidia-smi said instead.

    Without nvidia-smi the names are those that the driver tells in ``/proc``.
    """
    program = _nvidia_smi(root)
    if program is None:
        models = []
        for path in sorted(glob.glob(os.path.join(glob.escape(root), "proc/driver/nvidia/gpus/*/information"))):
            model = re.search(r"^Model:\s*(.+?)\s*$", _read("/", path) or "", re.MULTILINE)
            models.append({"name": model.group(1) if model else ""})
        return {"smi": None, "list": models, "error": ""}
    fields = list(_SMI_FIELDS)
    try:
        status, output = _query(program, fields)
        if status and "compute_cap" in output:
            # Drivers before 470 do not know this field.
            fields.remove("compute_cap")
            status, output = _query(program, fields)
    except subprocess.TimeoutExpired:
        return {"smi": program, "list": [], "error": "nvidia-smi does not answer"}
    lines = [line for line in output.splitlines() if line.strip()]
    if status:
        return {"smi": program, "list": [], "error": lines[0].strip()[:300] if lines else f"status {status}"}
    rows = [[part.strip() for part in line.split(",")] for line in lines]
    gpus = [dict(zip(fields, row)) for row in rows if len(row) == len(fields)]  # noqa: B905 (3.10 knows strict)
    return {"smi": program, "list": gpus, "error": ""}


def _query(program: str, fields: "list[str]") -> "tuple[int, str]":
    return _said([program, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"], _SMI_S)


def _confidential(root: str) -> "bool | None":
    """Whether the GPUs compute confidentially; ``None`` where that is not to be told."""
    program = _nvidia_smi(root)
    if program is None:
        return None
    status, output = _said([program, "conf-compute", "-f"], _SMI_S)
    found = re.search(r"CC status: *(\w+)", output)
    return None if status or found is None else found.group(1).upper() == "ON"


def _processes(root: str) -> "list[dict[str, object]]":
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(root), "proc/[0-9]*"))):
        words = (_read(path, "cmdline") or "").split("\0")
        name = os.path.basename(words[0])
        if name not in PROFILERS:
            continue
        try:
            owner = _user_name(os.stat(path).st_uid)
        except OSError:
            continue  # it has ended
        found.append({"pid": int(os.path.basename(path)), "name": name, "user": owner})
    return found


def _folder(path: str) -> "dict[str, object]":
    free = None  # type: int | None
    noexec = False
    if os.path.isdir(path):
        status = os.statvfs(path)
        free = status.f_bavail * status.f_frsize
        noexec = bool(status.f_flag & os.ST_NOEXEC)
    writable = os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)
    return {"path": path, "writable": writable, "noexec": noexec, "free": free}


def _temp_path(root: str) -> str:
    return os.environ.get("TMPDIR") or os.path.join(root, "tmp")


def _temp(root: str) -> "dict[str, object]":
    return _folder(_temp_path(root))


def _cwd(root: str) -> "dict[str, object]":
    return _folder(os.getcwd())


def _locks(root: str) -> "list[dict[str, object]]":
    """What lies where ncu keeps the files by which its users take turns, and cannot be opened as ncu opens it.

    ncu 2024.1 uses ``nsight-compute-lock``, ncu 2025.3 a folder of its own and in it a file for each GPU.
    """
    temp = _temp_path(root)
    newer = os.path.join(temp, "nvidia", "nsight_compute")
    found = []
    for path in (
        os.path.join(temp, "nsight-compute-lock"),
        *sorted(glob.glob(os.path.join(glob.escape(newer), "lock*"))),
    ):
        if os.path.lexists(path):
            try:
                # Kernels with fs.protected_regular refuse O_CREAT on another's file in a shared folder, even to root.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW))
            except OSError:
                found.append(path)
    if not os.path.lexists(os.path.join(newer, "lock")):
        folder = newer if os.path.lexists(newer) else os.path.dirname(newer)
        if os.path.lexists(folder) and not os.access(folder, os.W_OK | os.X_OK):
            found.append(folder)
    return [
        {"path": path, "owner": _user_name(os.lstat(path).st_uid), "since_2025": "nvidia" in path[len(temp) :]}
        for path in found
    ]


def _variables(root: str) -> "dict[str, str]":
    names = (*INJECTIONS, "CUDA_VISIBLE_DEVICES")
    found = {name: os.environ[name] for name in names if name in os.environ}
    # CUDA, and with it ncu, passes over a library that is not there.
    if not os.path.exists(found.get("CUDA_INJECTION64_PATH", "")):
        found.pop("CUDA_INJECTION64_PATH", None)
    return found


_FACTS = (
    ("system", _system),
    ("user", _user),
    ("tools", _tools),
    ("driver", _driver),
    ("profiling_admin_only", _profiling_admin_only),
    ("perf_event_paranoid", _perf_event_paranoid),
    ("ptrace_scope", _ptrace_scope),
    ("capabilities", _capabilities),
    ("seccomp", _seccomp),
    ("container", _container),
    ("wsl", _wsl),
    ("gpus", _gpus),
    ("confidential", _confidential),
    ("processes", _processes),
    ("temp", _temp),
    ("cwd", _cwd),
    ("locks", _locks),
    ("variables", _variables),
)


def main() -> None:
    """Print the facts as one line of JSON."""
    json.dump(facts(), sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
