"""Named ranges in a program that both profilers see, at next to no cost where neither looks."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])


def annotate(name: str) -> Range:
    """Mark what a ``with`` block or a function does, as an NVTX range of this name.

    >>> with gputui.annotate("forward"):
    ...     loss = model(batch)
    >>> @gputui.annotate("optimizer")
    ... def step(): ...

    Uses the ``nvtx`` package where it is installed, else PyTorch's ranges where the program has imported PyTorch with
    CUDA by then, else does nothing. A ``with`` block and a plain function are push/pop ranges of their thread, which
    nest. A decorated coroutine or generator is a start/end range from its first step to its end, since others run on
    its thread in between; for that reason do not await or yield in a ``with`` block. An asynchronous generator cannot
    be decorated (``TypeError``).
    """
    return Range(name)


class Range:
    """What ``annotate`` returns; may be entered again, also while it is entered."""

    __slots__ = ("_name", "_pops")

    def __init__(self, name: str) -> None:
        # Neither what is no text nor a lone surrogate may break the program.
        self._name = str(name).encode("utf-8", "replace").decode()
        # How to leave is fixed on entering: PyTorch may be imported in between.
        self._pops: list[Callable[[], Any]] = []

    def __enter__(self) -> None:
        marker = _marker()
        marker.push(self._name)
        self._pops.append(marker.pop)

    def __exit__(self, *_: object) -> None:
        self._pops.pop()()

    def __call__(self, function: _Function) -> _Function:
        name = self._name

        if inspect.isasyncgenfunction(function):
            raise TypeError(
                f"annotate cannot mark {function.__qualname__}, an asynchronous generator: mark what it awaits"
            )

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                marker = _marker()
                handle = marker.start(name)
                try:
                    return await function(*args, **kwargs)
                finally:
                    marker.end(handle)

            return cast("_Function", coroutine)

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                marker = _marker()
                handle = marker.start(name)
                try:
                    return (yield from function(*args, **kwargs))
                finally:
                    marker.end(handle)

            return cast("_Function", generator)

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            marker = _marker()
            marker.push(name)
            try:
                return function(*args, **kwargs)
            finally:
                marker.pop()

        return cast("_Function", plain)


class _Marker(NamedTuple):
    push: Callable[[str], Any]
    pop: Callable[[], Any]
    start: Callable[[str], Any]
    end: Callable[[Any], Any]


def _nothing(*_: object) -> None: ...


_OFF = _Marker(_nothing, _nothing, _nothing, _nothing)


def _marker() -> _Marker:
    return _nvtx_package() or _pytorch() or _OFF


@cache
def _nvtx_package() -> _Marker | None:
    try:
        nvtx = import_module("nvtx")
    except ImportError:
        return None
    return _Marker(nvtx.push_range, nvtx.pop_range, nvtx.start_range, nvtx.end_range)


def _pytorch() -> _Marker | None:
    # torch.cuda.is_available() would start CUDA in a program that may still fork; a build with CUDA is enough.
    torch: Any = sys.modules.get("torch")
    if getattr(getattr(torch, "version", None), "cuda", None) is None or not hasattr(torch, "cuda"):
        return None
    nvtx = torch.cuda.nvtx
    return _Marker(nvtx.range_push, nvtx.range_pop, nvtx.range_start, nvtx.range_end)
