"""Makes a Python program's PyTorch operators NVTX ranges (``aten::mm, seq = 7``) without a change to the program.

On PYTHONPATH, Python imports it at its start. It does nothing until the program imports torch, and turns the ranges on
in the thread that does (autograd's threads follow it). A ``sitecustomize`` of the user's own is run as ever. For
Python 3.6 and later; whatever fails here leaves the program as it would be without. To try it:
``PYTHONPATH=FOLDER_OF_THIS_FILE nsys profile --trace=cuda,nvtx python train.py``.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, Optional, Sequence  # noqa: UP035


class _Loader:
    """torch's own loader; once torch is there, its ranges are turned on."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            _turn_on(module)
        except Exception as error:
            _tell(f"{type(error).__name__}: {error}")


class _Finder:
    """Finds torch as the other finders do. Programs also ask whether torch is there long before they import it."""

    def __init__(self) -> None:
        self._asks = False

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Any:  # noqa: UP045
        if name != "torch" or self._asks:
            return None
        self._asks = True
        try:
            spec: Any = importlib.util.find_spec(name)
        finally:
            self._asks = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


def _turn_on(torch: Any) -> None:
    profiler = torch.autograd.profiler
    ranges = profiler.emit_nvtx(record_shapes=False)
    # It waits for the GPU first, which would start CUDA before the program has chosen its device, or forked.
    cuda, wait = torch.cuda, torch.cuda.synchronize
    cuda.synchronize = _nothing
    try:
        ranges.__enter__()
    finally:
        cuda.synchronize = wait
    _give_way(profiler)


def _give_way(profiler: Any) -> None:
    """PyTorch allows one profiler at a time: the program's own takes over, and the ranges end."""
    names = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
    originals = {name: getattr(profiler, name) for name in names if hasattr(profiler, name)}
    turn_off = getattr(profiler, "_disable_profiler", None) or profiler._disable_profiler_legacy

    def give_way(name: str) -> Any:
        def first(*args: Any, **kwargs: Any) -> Any:
            for one, original in originals.items():
                setattr(profiler, one, original)
            try:
                turn_off()
            except Exception as error:
                _tell(f"{type(error).__name__}: {error}")
            else:
                _tell("the program uses PyTorch's profiler itself")
            return originals[name](*args, **kwargs)

        return first

    for name in originals:
        setattr(profiler, name, give_way(name))


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _tell(reason: str) -> None:
    # Nobody may be listening.
    with contextlib.suppress(Exception):
        sys.stderr.write(f"gputui: no NVTX ranges of PyTorch operators from here on ({reason})\n")


def _chain() -> None:
    """Run the ``sitecustomize`` that Python would have found without this one; what it raises is its own."""
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [one for one in sys.path if os.path.abspath(one or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "torch" not in sys.modules:
    sys.meta_path.insert(0, _Finder())
_chain()
