"""Ranges of a program under profilers."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import gputui
from gputui import annotation

NSYS = shutil.which("nsys")

PROGRAM = """
import asyncio
import gputui

@gputui.annotate("inner")
def inner(): pass

@gputui.annotate("generator")
def numbers():
    yield 1

@gputui.annotate("coroutine")
async def wait():
    await asyncio.sleep(0)

with gputui.annotate("outer"):
    inner()
    inner()
with gputui.annotate("broken"):
    try:
        with gputui.annotate("raises"):
            raise ValueError
    except ValueError:
        pass
    inner()
list(numbers())
asyncio.run(wait())
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called of a marker, in order."""
    seen: list[Any] = []
    marker = annotation._Marker(
        lambda name: seen.append(f"push {name}"),
        lambda: seen.append("pop"),
        lambda name: seen.append(f"start {name}") or name,
        lambda handle: seen.append(f"end {handle}"),
    )
    monkeypatch.setattr(annotation, "_marker", lambda: marker)
    return seen


def test_a_block_is_left_on_an_error_and_may_be_entered_again(calls: list[Any]) -> None:
    mark = gputui.annotate("a")
    with pytest.raises(ValueError, match="x"), mark, mark:
        raise ValueError("x")
    assert calls == ["push a", "push a", "pop", "pop"]


def test_a_function_keeps_its_name_value_and_error(calls: list[Any]) -> None:
    @gputui.annotate("f")
    def divide(a: int, *, by: int) -> float:
        """Doc."""
        return a / by

    assert (divide.__name__, divide.__doc__, divide(6, by=3)) == ("divide", "Doc.", 2)
    with pytest.raises(ZeroDivisionError):
        divide(1, by=0)
    assert calls == ["push f", "pop"] * 2


def test_a_generator_is_one_range_and_passes_everything_on(calls: list[Any]) -> None:
    @gputui.annotate("g")
    def echo() -> Generator[str, str, int]:
        heard = yield "first"
        try:
            yield heard
        except ValueError:
            yield "caught"
        return 7

    steps = echo()
    assert calls == []
    assert [next(steps), steps.send("sent"), steps.throw(ValueError)] == ["first", "sent", "caught"]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == 7
    half = echo()
    next(half)
    half.close()
    assert calls == ["start g", "end g"] * 2


def test_coroutines_on_one_thread_are_ranges_that_need_not_nest(calls: list[Any]) -> None:
    async def both() -> list[str]:
        turn = asyncio.Event()

        @gputui.annotate("long")
        async def first() -> str:
            await turn.wait()
            return "a"

        @gputui.annotate("short")
        async def second() -> str:
            turn.set()
            return "b"

        return await asyncio.gather(first(), second())

    assert asyncio.run(both()) == ["a", "b"]
    assert calls == ["start long", "start short", "end short", "end long"]


def test_an_asynchronous_generator_is_refused() -> None:
    async def numbers() -> Any:
        yield 1

    with pytest.raises(TypeError, match="numbers, an asynchronous generator"):
        gputui.annotate("n")(numbers)


def torch_of(cuda: str | None, seen: list[str]) -> ModuleType:
    """As much of PyTorch as ``annotate`` looks at."""
    torch = ModuleType("torch")
    nvtx = SimpleNamespace(
        range_push=seen.append, range_pop=lambda: seen.append("pop"), range_start=seen.append, range_end=seen.append
    )
    torch.__dict__.update(version=SimpleNamespace(cuda=cuda), cuda=SimpleNamespace(nvtx=nvtx))
    return torch


@pytest.mark.parametrize(("cuda", "expected"), [("12.4", ["a", "pop"]), (None, [])])
def test_without_nvtx_an_imported_pytorch_with_cuda_is_used(
    cuda: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(annotation, "_nvtx_package", lambda: None)
    monkeypatch.setitem(sys.modules, "torch", torch_of(cuda, seen))
    with gputui.annotate("a"):
        pass
    assert seen == expected


def test_a_block_is_left_as_it_was_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(annotation, "_nvtx_package", lambda: None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with gputui.annotate("a"):
        monkeypatch.setitem(sys.modules, "torch", torch_of("12.4", seen))
    assert seen == []


def test_pytorch_is_never_imported_for_it(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    (tmp_path / "nvtx.py").write_text("raise ImportError")
    program = "import sys, gputui\nwith gputui.annotate('a'): print('torch' in sys.modules, 'numpy' in sys.modules)"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("False False\n", 0), done.stderr


@pytest.mark.skipif(NSYS is None, reason="nsys is not installed")
def test_nsys_records_the_ranges_and_how_they_nest(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    assert NSYS is not None
    options = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", str(tmp_path / "run")]
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    run = {"env": env, "check": True, "capture_output": True, "timeout": 120}
    subprocess.run([NSYS, "profile", *options, sys.executable, "-c", PROGRAM], **run)
    export = ["export", "--type", "sqlite", "-o", str(tmp_path / "run.sqlite"), str(tmp_path / "run.nsys-rep")]
    subprocess.run([NSYS, *export], **run)
    database = sqlite3.connect(tmp_path / "run.sqlite")
    ranges = database.execute(
        "SELECT coalesce(e.text, s.value), e.start, e.end FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId"
        " WHERE e.end IS NOT NULL AND e.eventType IN (59, 60) ORDER BY e.start"
    ).fetchall()
    database.close()
    paths = ["/".join(name for name, start, end in ranges if start <= one[1] and one[2] <= end) for one in ranges]
    assert paths == [
        "outer", "outer/inner", "outer/inner", "broken", "broken/raises", "broken/inner", "generator", "coroutine",
    ]  # fmt: skip
