"""The ``sitecustomize`` that makes PyTorch's operators NVTX ranges, on a stand-in for torch that notes its calls."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

INJECTED = Path(str(resources.files("gputui.run").joinpath("inject")))
TORCH = """
print("torch imports")
class cuda:
    def synchronize():
        print("CUDA starts")
class profiler:
    class emit_nvtx:
        def __init__(self, enabled=True, record_shapes=False):
            pass
        def __enter__(self):
            import torch
            torch.cuda.synchronize()
            profiler._enable_profiler("nvtx")
            return self
    def _enable_profiler(*args):
        print("on", *args)
    def _prepare_profiler(*args):
        print("prepare", *args)
    def _disable_profiler():
        print("off")
class autograd:
    profiler = profiler
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Where the stand-in for torch lies."""
    folder = tmp_path / "site"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(TORCH)
    return folder


def run(site: Path, code: str, *options: str, before: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = [str(one) for one in (before, INJECTED, site) if one is not None]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run([sys.executable, *options, "-c", code], env=env, capture_output=True, text=True, timeout=60)


def test_ranges_are_on_once_torch_is_there_and_cuda_has_not_started(site: Path) -> None:
    done = run(site, "import torch, torch; print('program'); torch.cuda.synchronize()")
    assert done.stdout.splitlines() == ["torch imports", "on nvtx", "program", "CUDA starts"]
    assert done.stderr == ""


def test_a_program_without_torch_notices_nothing(site: Path) -> None:
    done = run(site, "import json, sys; print(sorted(m for m in sys.modules if 'torch' in m))")
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)


def test_asking_whether_torch_is_there_does_not_use_it_up(site: Path) -> None:
    """As transformers does."""
    done = run(site, "import importlib.util as u; print(u.find_spec('torch').origin[-11:]); import torch")
    assert done.stdout.splitlines() == ["__init__.py", "torch imports", "on nvtx"]


def test_torch_keeps_its_own_loader(site: Path) -> None:
    done = run(site, "import torch; print(type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__)")
    assert done.stdout.splitlines()[-1] == "SourceFileLoader SourceFileLoader"


def test_the_programs_own_profiler_takes_over(site: Path) -> None:
    done = run(
        site,
        "import torch; own = torch.autograd.profiler\n"
        "own._prepare_profiler(1); own._enable_profiler(2); own._enable_profiler(3)",
    )
    assert done.stdout.splitlines() == ["torch imports", "on nvtx", "off", "prepare 1", "on 2", "on 3"]
    assert "the program uses PyTorch's profiler itself" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_where_it_fails_the_program_goes_on(site: Path) -> None:
    (site / "torch" / "__init__.py").write_text("class autograd: pass\n")
    done = run(site, "import torch; print('program')")
    assert (done.stdout, done.returncode) == ("program\n", 0)
    assert done.stderr == (
        "gputui: no NVTX ranges of PyTorch operators from here on "
        "(AttributeError: type object 'autograd' has no attribute 'profiler')\n"
    )


def test_a_torch_that_does_not_import_fails_as_it_would(site: Path) -> None:
    (site / "torch" / "__init__.py").write_text("raise OSError('libcudart')\n")
    done = run(site, "try:\n    import torch\nexcept OSError as error:\n    print(error)")
    assert (done.stdout, done.stderr) == ("libcudart\n", "")


def test_no_torch_at_all(tmp_path: Path) -> None:
    done = run(tmp_path, "try:\n    import torch\nexcept ImportError as error:\n    print(error.name)")
    assert (done.stdout, done.stderr) == ("torch\n", "")


@pytest.mark.parametrize("is_before", [True, False])
def test_the_users_own_sitecustomize_is_run_once(site: Path, tmp_path: Path, is_before: bool) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine', __name__, __file__[-16:]); answer = 42\n")
    if not is_before:
        (own / "sitecustomize.py").rename(site / "sitecustomize.py")
    done = run(
        site, "import sitecustomize; print(sitecustomize.answer); import torch", before=own if is_before else None
    )
    expected = ["mine sitecustomize sitecustomize.py", "42", "torch imports"]
    # One that comes before ours on the path is the only one that Python runs.
    assert done.stdout.splitlines() == (expected if is_before else [*expected, "on nvtx"])


def test_what_the_users_own_raises_is_told_as_ever_and_the_ranges_are_on(site: Path) -> None:
    (site / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    done = run(site, "import torch")
    assert done.stdout.splitlines() == ["torch imports", "on nvtx"]
    assert "ValueError: mine" in done.stderr
    assert done.returncode == 0


def test_usercustomize_and_child_processes(site: Path) -> None:
    (site / "usercustomize.py").write_text("print('user')\n")
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'])"
    done = run(site, code)
    assert done.stdout.splitlines()[-2:] == ["torch imports", "on nvtx"]
    assert done.stderr == ""


@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_a_python_that_takes_no_customising_runs_as_ever(site: Path, option: str) -> None:
    code = f"import sys; sys.path.append({str(site)!r}); import torch; print('program')"
    done = run(site, code, option)
    assert done.stdout.splitlines() == ["torch imports", "program"]
    assert (done.stderr, done.returncode) == ("", 0)


def test_it_is_python_of_3_6() -> None:
    import ast

    ast.parse((INJECTED / "sitecustomize.py").read_text(encoding="utf-8"), feature_version=(3, 6))
