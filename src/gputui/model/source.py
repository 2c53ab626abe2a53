"""The instructions of one kernel, what was measured of each, and the source lines that they come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_OPCODE = re.compile(r"(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction (SASS). Numbers are sums over all warps of the launch, 0 where there was none.

    ``file`` is empty and ``line`` 0 where the report does not tell where it comes from. ``samples`` are warp samples
    taken while it was next, ``stalls`` the same by reason. ``executed`` counts warps, ``threads`` their active threads.
    ``global_sectors``, ``local_sectors``: 32-byte sectors that the addresses ask for; ``shared_wavefronts``: turns of
    shared memory; ``…_ideal``: the fewest that would do. ``divergent``: branches that split a warp.
    """

    address: int
    sass: str = ""
    file: str = ""
    line: int = 0
    samples: float = 0.0
    stalls: Mapping[str, float] = field(default_factory=dict, hash=False)
    executed: float = 0.0
    threads: float = 0.0
    global_sectors: float = 0.0
    global_ideal: float = 0.0
    shared_wavefronts: float = 0.0
    shared_ideal: float = 0.0
    local_sectors: float = 0.0
    divergent: float = 0.0

    @property
    def opcode(self) -> str:
        """``LDG`` of ``@P0 LDG.E.128 R4, [R2]``; empty where there is no text."""
        found = _OPCODE.match(self.sass)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of a source file, as it was when it was compiled or imported."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SourceListing:
    """What a report holds of a kernel's code.

    ``instructions`` are in program order; ``measured`` names the fields of ``Instruction`` that the report has numbers
    for. ``lines`` holds the known source lines by file and number; ``missing_files`` are files that lines refer to and
    whose text is not in the report. ``left_out`` counts the instructions of a very long kernel that were not read.
    """

    instructions: tuple[Instruction, ...]
    measured: frozenset[str]
    lines: Mapping[tuple[str, int], SourceLine] = field(default_factory=dict)
    missing_files: tuple[str, ...] = ()
    left_out: int = 0
