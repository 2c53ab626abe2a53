"""What a key costs: bytes sent to the terminal, and the time to the first and the last of them.

A scripted session of 200 keys, as a person would press them, on a pty of three sizes: 140 with reports of ncu, 60 with
a timeline, all of `sample_reports/`. The peers read the same timeline, and are moved and zoomed in it.
"""

from __future__ import annotations

import math
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from terminal import KEYS, ProgramEndedError, Terminal

GPUTUI = str(Path(sys.executable).with_name("gputui"))
OPEN = (GPUTUI, "open", "--lang", "en")
SAMPLES = Path(__file__).resolve().parent.parent / "sample_reports"
SIZES = ((80, 24), (120, 40), (200, 50))
LATE_S = 0.05
SETTLED_S = 0.6
"""Nothing comes for so long: all that was worked out behind the first frame has been shown."""


@dataclass(frozen=True, slots=True)
class Script:
    """``reports`` to open, a text on the screen when they can be read (``ready``), and the keys to press then: a line
    for each kind of key."""

    reports: tuple[Path, ...]
    ready: str
    keys: str
    start: str = ""
    """Keys that are pressed before and count for nothing."""

    def presses(self) -> list[tuple[str, str]]:
        """The kind and the name of each key."""
        lines = [line.split() for line in self.keys.splitlines()]
        return [(kind, key) for kind, *keys in filter(None, lines) for key in keys]


COUNTERS = Script(
    (SAMPLES / "tour.ncu-rep",),
    "Memory-bound",
    """
    move   j j j j j k k down down down up j j pagedown pageup G g
    tab    2 4 1 2
    other  ] ] ] [ [
    tab    1
    other  enter j pagedown g enter tab
    move   j j j down down up k
    other  enter enter L L L
    other  / l o o k enter n n N escape
    move   j j j
    other  f g e m m enter
    move   k k j
    other  escape s s s S S o
    move   j j k
    other  o
    tab    4
    other  j j j pagedown / d r a m enter n n N escape tab
    move   j k
    tab    1
    other  ? j j pagedown escape ctrl+p r o o escape
    """,
)
SOURCE = Script(
    (SAMPLES / "tour_source.ncu-rep",),
    "Memory-bound",
    """
    move   j
    other  w j j j k enter s s w ]
    tab    2 5 4 1
    """,
)
COMPARISON = Script(
    (SAMPLES / "attention_eager.ncu-rep", SAMPLES / "attention_sdpa.ncu-rep"),
    "attention",
    """
    other  c
    move   j j j k
    other  tab j
    tab    2 3 1
    other  ? escape tab x x escape
    move   j j
    """,
)
TIMELINE = Script(
    (SAMPLES / "timeline_wasteful.sqlite",),
    "GPU 0",
    """
    move   j j j k pagedown g
    tab    3
    zoom   + + + + + +
    pan    l l l l h h right right left
    other  j j k > > <
    zoom   - -
    other  } } } { . . . , enter z
    zoom   - -
    other  v l v b B 0 a a w
    tab    1
    other  o
    move   j j j
    other  enter o ? escape
    """,
)
SCRIPTS = (COUNTERS, SOURCE, COMPARISON, TIMELINE)
_MOVES = """
    zoom   + + + + - -
    pan    right right right right left left
    event  {next} {next} {next} {next} {next} {next}
"""
NOT_MOVES = ("bytes of a move", "bytes of a change", "bytes in 10 s")
"""How the rows begin that say nothing of the 18 keys that the peers are given too."""


@dataclass(frozen=True, slots=True)
class Press:
    """A key and what came for it; ``bytes`` counts what came late too."""

    kind: str
    key: str
    bytes: int
    first_byte_s: float | None
    last_byte_s: float | None


@dataclass(frozen=True, slots=True)
class Session:
    """A script, pressed. The first frame is all that came until the script's ``ready`` stood on the screen and nothing
    followed; ``first_frame_s`` is when that text stood there, from the start of the program."""

    first_frame_s: float
    first_frame_bytes: int
    presses: tuple[Press, ...]
    idle_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """Sessions on a terminal of one size, put together. Bytes are of all keys, and a key that changes nothing sends
    0; times are of the keys that were answered. The first frame is that of the first session."""

    columns: int
    lines: int
    keys: int
    silent_keys: int
    bytes_median: float
    bytes_95th: float
    move_bytes_median: float
    tab_bytes_median: float
    first_byte_median_s: float
    first_byte_95th_s: float
    first_byte_worst_s: float
    late_keys: tuple[str, ...]
    """Those whose first byte took more than `LATE_S`, slowest first."""
    last_byte_median_s: float
    last_byte_95th_s: float
    last_byte_worst_s: float
    waited_s: float
    """From each key to the last byte of its answer, all together."""
    first_frame_s: float
    first_frame_bytes: int
    key_bytes: int
    idle_bytes: int


def session(
    command: Sequence[str],
    script: Script,
    columns: int,
    lines: int,
    *,
    idle_s: float = 0,
    quiet_s: float = 0.15,
    patience_s: float = 0.4,
) -> Session:
    """Press a script in a program on a terminal of this size, then nothing for ``idle_s``. ``patience_s`` is how long
    the first byte of an answer is waited for, and ``quiet_s`` how long nothing must come behind the last."""
    with Terminal([*command, *map(str, script.reports)], columns, lines) as terminal:
        (first_frame_s,) = terminal.wait_for(script.ready)
        if first_frame_s == float("inf"):
            raise SystemExit(f"{command[0]} never showed {script.ready!r}:\n{terminal.screen}")
        while terminal.idle(SETTLED_S):
            pass
        first_frame_bytes = terminal.received
        for key in script.start.split():
            terminal.press(KEYS.get(key, key.encode()), quiet_s=SETTLED_S)
        presses: list[Press] = []
        for kind, key in script.presses():
            answer = terminal.press(KEYS.get(key, key.encode()), quiet_s, patience_s)
            if presses and answer.late:
                presses[-1] = replace(presses[-1], bytes=presses[-1].bytes + answer.late)
            presses.append(Press(kind, key, answer.bytes, answer.first_byte_s, answer.last_byte_s))
        while idle_s and terminal.idle(SETTLED_S):
            pass
        idle_bytes = terminal.idle(idle_s)
        return Session(first_frame_s, first_frame_bytes, tuple(presses), idle_bytes, terminal.peak_bytes())


def key_figures(columns: int, lines: int, sessions: Sequence[Session]) -> KeyFigures:
    presses = [press for one in sessions for press in one.presses]
    sizes = [press.bytes for press in presses]
    answered = [(press.first_byte_s, press.key) for press in presses if press.first_byte_s is not None]
    first, last = [seconds for seconds, _ in answered], [press.last_byte_s for press in presses if press.last_byte_s]

    def median_of(kind: str) -> float:
        return statistics.median([press.bytes for press in presses if press.kind == kind] or [0])

    return KeyFigures(
        columns,
        lines,
        len(presses),
        len(presses) - len(first),
        statistics.median(sizes),
        percentile_95(sizes),
        median_of("move"),
        median_of("tab"),
        statistics.median(first),
        percentile_95(first),
        max(first),
        tuple(key for seconds, key in sorted(answered, reverse=True) if seconds > LATE_S),
        statistics.median(last),
        percentile_95(last),
        max(last),
        sum(last),
        sessions[0].first_frame_s,
        sessions[0].first_frame_bytes,
        sum(sizes),
        sum(one.idle_bytes for one in sessions),
    )


def percentile_95(values: Sequence[float]) -> float:
    """The least of the values that 95 % of them do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def measure(columns: int, lines: int, command: Sequence[str] = OPEN) -> KeyFigures:
    """The 200 keys in gputui on a terminal of this size, and 10 s of idling behind the first script."""
    sessions = [session(command, script, columns, lines, idle_s=10 * (script is COUNTERS)) for script in SCRIPTS]
    return key_figures(columns, lines, sessions)


def measure_moves(peers: Mapping[str, str], columns: int = 120, lines: int = 40) -> dict[str, KeyFigures]:
    """18 keys in the timeline that gputui and its peers can read, by name: moved, zoomed, and to the next kernel.

    ``peers`` are the programs nsys-tui and nsys-ai, by these names. They read a copy, as they write beside it. One that
    ends before it shows the timeline is left out, and what it said goes to standard error.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(shutil.copy(TIMELINE.reports[0], folder))
        moves = Script((report,), "GPU 0", _MOVES.format(next="}"), start="3")
        found["gputui"] = key_figures(columns, lines, [session(OPEN, moves, columns, lines)])
        for name, program in peers.items():
            command = [program, "timeline", "--gpu", "0", "--trim", "0", "1.2"]
            moves = Script((report,), "step 0", _MOVES.format(next="tab"))
            try:
                found[name] = key_figures(columns, lines, [session(command, moves, columns, lines, patience_s=1)])
            except ProgramEndedError as error:
                print(f"{name} ended: {error}", file=sys.stderr)
    return found


def rows(figures: KeyFigures) -> list[tuple[str, str]]:
    """What was measured, and the figure."""
    first, last = times(figures)
    return [
        ("keys (of these change nothing, and send nothing)", f"{figures.keys} ({figures.silent_keys})"),
        ("bytes a key: median", f"{figures.bytes_median:,.0f}"),
        ("bytes a key: 95th percentile", f"{figures.bytes_95th:,.0f}"),
        ("bytes of a move in a list: median", f"{figures.move_bytes_median:,.0f}"),
        ("bytes of a change of tab: median", f"{figures.tab_bytes_median:,.0f}"),
        ("bytes of all keys", f"{figures.key_bytes:,}"),
        ("bytes until the first frame is complete", f"{figures.first_frame_bytes:,}"),
        ("bytes in 10 s of idling", f"{figures.idle_bytes:,}"),
        first,
        (
            f"keys with the first byte after more than {LATE_S * 1e3:.0f} ms",
            ", ".join(f"{count} × {key}" for key, count in Counter(figures.late_keys).items()) or "none",
        ),
        last,
    ]


def times(figures: KeyFigures) -> tuple[tuple[str, str], tuple[str, str]]:
    """The rows of the time to the first and to the last byte."""
    first = (figures.first_byte_median_s, figures.first_byte_95th_s, figures.first_byte_worst_s)
    last = (figures.last_byte_median_s, figures.last_byte_95th_s, figures.last_byte_worst_s)
    return (
        ("key to its first byte: median, 95th percentile, worst", in_ms(first)),
        ("key to its last byte: median, 95th percentile, worst", in_ms(last)),
    )


def in_ms(seconds: Sequence[float]) -> str:
    return ", ".join(f"{one * 1e3:.0f}" for one in seconds) + " ms"


def beside(columns: Mapping[str, KeyFigures], leave_out: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Rows of figures beside each other, without those whose text begins with one of ``leave_out``."""
    lines = zip(*map(rows, columns.values()), strict=True)
    return [(line[0][0], *(figure for _, figure in line)) for line in lines if not line[0][0].startswith(leave_out)]
