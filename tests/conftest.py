"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def reports() -> Path:
    """The folder of real reports, which is not part of the repository: ``GPUTUI_REPORTS``, else beside it."""
    folder = Path(os.environ.get("GPUTUI_REPORTS") or ROOT.parent / "shared" / "reports")
    if not folder.is_dir():
        pytest.skip(f"no real reports at {folder}")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Programs are profiled one after the other: two nsys at a time lose each other's connections on a busy machine."""
    for item in items:
        if any("nsys" in mark.kwargs.get("reason", "") for mark in item.iter_markers("skipif")):
            item.add_marker(pytest.mark.xdist_group("nsys"))
