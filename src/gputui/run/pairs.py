"""The pairings of kernels that the user made by hand, kept in ``pairs.json`` in the run folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gputui.analysis.compare.model import Pairing
from gputui.errors import GputuiError
from gputui.run import keeper
from gputui.run.folder import run_of, writing
from gputui.run.process import read_small

SCHEMA = 1
_PAIRS = "pairs.json"
_MOST = 4 << 20


def kept_pairs(reports: Iterable[Path]) -> tuple[Pairing, ...]:
    """Those kept in the first run folder that one of these reports lies in, or is; name the new side's first.

    Raises ``GputuiError`` where they cannot be read.
    """
    folder = next((folder for folder in map(run_of, reports) if folder is not None), None)
    return _read(folder / _PAIRS) if folder is not None and os.path.lexists(folder / _PAIRS) else ()


def keep_pairs(report: Path, pairings: Iterable[Pairing]) -> Path | None:
    """Keep these, in place of those kept before, in the run folder of a report; the file, ``None`` outside of one.

    Raises ``GputuiError`` where it cannot be written.
    """
    folder = run_of(report)
    if folder is None:
        return None
    pairs = [{"kind": one.kind, "base": sorted(one.base), "new": sorted(one.new)} for one in pairings]
    text = json.dumps({"schema": SCHEMA, "pairs": msgspec.to_builtins(pairs)}, indent=2) + "\n"
    with writing(folder):
        keeper.replace(os.fsencode(folder / _PAIRS), text.encode())
    return folder / _PAIRS


def _read(path: Path) -> tuple[Pairing, ...]:
    hint = "Remove it, and pair the kernels again"
    try:
        text = read_small(path, _MOST + 1)
        if len(text) > _MOST:
            raise ValueError("it is too large")
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise ValueError("it is none that this gputui knows")
        return msgspec.convert(found.get("pairs"), tuple[Pairing, ...])
    except OSError as error:
        raise GputuiError(str(path), f"cannot be read ({error.strerror})", hint) from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise GputuiError(str(path), f"holds no pairs of kernels ({str(error)[:200]})", hint) from error
