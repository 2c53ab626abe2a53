"""How long the event loop did not come round, and what held it.

A turn of the loop is the time between two looks at what is new. What counts of it is what the loop's thread did itself:
the processor time it took, and the time it slept in (a file, a lock, a sleep). What it waited for does not count: for a
processor that others have, which is the machine's, and for Python's lock, which is told beside it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LIMIT_MS = 50.0
_LOOK_S = 0.004
_NS = 1e-6
"""Milliseconds."""


@dataclass(slots=True)
class Turn:
    """All in ms. ``shared`` is what it waited for Python's lock while other threads of this process held it,
    ``collected`` the part of ``own`` in which Python looked for garbage. ``stacks`` are what it was seen doing."""

    wall: float = 0.0
    own: float = 0.0
    asleep: float = 0.0
    shared: float = 0.0
    collected: float = 0.0
    stacks: list[str] = field(default_factory=list)

    @property
    def held(self) -> float:
        return self.own + self.asleep

    def __str__(self) -> str:
        seen = "".join(f"\n  at {one}" for one in dict.fromkeys(self.stacks))
        return (
            f"{self.held:.0f} ms (processor {self.own:.0f}, asleep {self.asleep:.0f}; beside it Python's lock "
            f"{self.shared:.0f}, of {self.wall:.0f} in all; garbage {self.collected:.0f}){seen}"
        )


class LoopMonitor:
    """``turns`` are those that held the loop for more than ``told`` ms, or waited so long for Python's lock."""

    def __init__(self, told: float = LIMIT_MS) -> None:
        self.told = told
        self.turns: list[Turn] = []
        self._turn: Turn | None = None
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat")
        self._thread = threading.get_ident()
        self._is_over = False

    @property
    def longest(self) -> Turn:
        return max(self.turns, key=lambda turn: turn.held, default=Turn())

    @property
    def blocks(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.held > LIMIT_MS]

    def forget(self) -> None:
        self.turns.clear()

    @contextmanager
    def watch(self) -> Iterator[LoopMonitor]:
        """Watch the running loop of this thread."""
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        look = selector.select
        begun = [time.perf_counter_ns(), time.thread_time_ns()]

        def select(timeout: float | None = None) -> object:
            turn, self._turn = self._turn, None
            if turn is not None:
                turn.wall = (time.perf_counter_ns() - begun[0]) * _NS
                turn.own = (time.thread_time_ns() - begun[1]) * _NS
                if max(turn.held, turn.shared) > self.told:
                    self.turns.append(turn)
            found = look(timeout)
            begun[:] = time.perf_counter_ns(), time.thread_time_ns()
            self._turn = Turn()
            return found

        watcher = threading.Thread(target=self._look_on, daemon=True)
        selector.select = select
        gc.callbacks.append(self._collected)
        watcher.start()
        try:
            yield self
        finally:
            self._is_over = True
            del selector.select
            gc.callbacks.remove(self._collected)
            watcher.join()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() == self._thread and self._turn is not None:
            self._turn.collected += time.thread_time_ns() * _NS * (1 if phase == "stop" else -1)

    def _look_on(self) -> None:
        """A thread that sleeps takes no processor time at all; one that waits for Python's lock looks at it every few
        milliseconds, which takes a little; one that waits for a processor is ready to run."""
        turn, used, at = None, 0, 0
        while not self._is_over:
            time.sleep(_LOOK_S)
            before, turn = turn, self._turn
            used_before, used = used, time.clock_gettime_ns(self._clock)
            at_before, at = at, time.perf_counter_ns()
            if turn is None or turn is not before:
                continue
            if not self._is_ready():
                if used == used_before:
                    turn.asleep += (at - at_before) * _NS
                elif used - used_before < (at - at_before) // 10:
                    turn.shared += (at - at_before) * _NS
            frame = sys._current_frames().get(self._thread)
            if frame is not None and self._turn is turn:
                turn.stacks.append(_told(traceback.extract_stack(frame)))

    def _is_ready(self) -> bool:
        return self._stat.read_text().rpartition(")")[2].split()[0] == "R"


def _told(stack: traceback.StackSummary) -> str:
    """The innermost places, this program's own first."""
    own = [one for one in stack if "gputui" in Path(one.filename).parts]
    chosen = [*reversed(own[-3:]), *([] if own and stack[-1] is own[-1] else [stack[-1]])]
    return " < ".join(f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in chosen)
