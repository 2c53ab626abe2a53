"""What every test of the screens needs: settings of its own, and a way to start the application and wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.worker import WorkerCancelled, WorkerFailed

from gputui.views.app import GputuiApp

Start = Callable[..., AbstractAsyncContextManager[tuple[GputuiApp, Pilot[int]]]]


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def settle(app: GputuiApp, pilot: Pilot[int]) -> None:
    """Wait for the workers, for what they post, and for what that starts."""
    for _ in range(3):
        # A worker that fails is the application's to tell, and a newer one ends the one before: both raise here.
        with suppress(WorkerFailed, WorkerCancelled):
            await app.workers.wait_for_complete()
        await pilot.pause(0.1)


@pytest.fixture
def start() -> Start:
    @asynccontextmanager
    async def run(
        *sources: Any, size: tuple[int, int] = (120, 40), wait: bool = True, **options: Any
    ) -> AsyncIterator[tuple[GputuiApp, Pilot[int]]]:
        app = GputuiApp(sources, **options)
        async with app.run_test(size=size) as pilot:
            if wait:
                await settle(app, pilot)
            yield app, pilot

    return run
