"""Draws README's pictures from the sample reports: python scripts/screenshots.py

Writes screenshots/NAME.svg (as Textual draws it) and NAME.png (drawn by resvg with a font of this machine).
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import resvg_py
from rich.cells import cell_len
from textual.worker import WorkerCancelled

from gputui.data import demo_report, demo_timeline

if TYPE_CHECKING:
    from gputui.views.app import GputuiApp

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "screenshots"
FONT = "DejaVu Sans Mono"
FONTS = f"{FONT}, 'Noto Sans Mono CJK JP'"
_WIDTH = re.compile(r'(textLength=")([\d.]+)("[^>]*>)([^<]*)')
SAMPLES = ROOT / "sample_reports"
EAGER = SAMPLES / "attention_eager.ncu-rep"

Picture = tuple[str, Path | tuple[Path, Path], tuple[int, int], Sequence[str], str | None]

# name, report or two, size, keys, theme (None: the dark one)
PICTURES: Sequence[Picture] = (
    ("diagnosis", demo_report(), (120, 40), (), None),
    ("roofline", SAMPLES / "attention_sdpa.ncu-rep", (120, 36), ("2",), None),
    ("metrics", demo_report(), (120, 36), ("4",), None),
    ("source", SAMPLES / "tour_source.ncu-rep", (120, 36), ("j", "w"), None),
    ("timeline", demo_timeline(), (140, 40), ("w", "minus"), None),
    ("run", SAMPLES / "timeline_graph.sqlite", (120, 24), (), None),
    ("compare", (EAGER, SAMPLES / "attention_sdpa.ncu-rep"), (120, 40), ("c",), None),
    ("compare-roofline", (EAGER, SAMPLES / "attention_sdpa.ncu-rep"), (120, 40), ("c", "2"), None),
    (
        "compare-compile",
        (EAGER, SAMPLES / "attention_compile.ncu-rep"),
        (120, 40),
        ("c", "j", "j", "j", "j", "j"),
        None,
    ),
    ("compare-small", (EAGER, SAMPLES / "attention_sdpa.ncu-rep"), (80, 24), ("c",), None),
    ("timeline-diagnosis", demo_timeline(), (120, 36), (), None),
    ("timeline-light", demo_timeline(), (120, 36), ("3",), "light"),
    ("timeline-small", demo_timeline(), (80, 24), ("w",), None),
    ("light", EAGER, (120, 36), (), "light"),
    ("small", demo_report(), (80, 24), (), None),
    ("japanese", demo_report(), (120, 40), (), None),
)


def _stretch(text: re.Match[str]) -> str:
    """Rich counts characters where wide ones take two cells."""
    shown = html.unescape(text[4])
    length = float(text[2]) / max(1, len(shown)) * cell_len(shown)
    return f"{text[1]}{length:.1f}{text[3]}{text[4]}"


def choosing_from(timeline: Path) -> GputuiApp:
    """A guided run whose timeline is there, on a machine where all is well."""
    from gputui.analysis.proposals import propose
    from gputui.run.local import LocalMachine
    from gputui.run.plan import Request, Tools
    from gputui.run.session import Session
    from gputui.views.app import GputuiApp

    class Ready(Session):
        def check(self) -> tuple[()]:
            self.tools = Tools("nsys", (2025, 5), "ncu", (2025, 3))
            return ()

    session = Ready(LocalMachine(), Request(("python", "train.py"), os.getcwd()), Path(tempfile.mkdtemp()))
    return GputuiApp([], session=session, proposer=propose, timeline=timeline)


async def draw(
    name: str, report: Path | tuple[Path, Path], size: tuple[int, int], keys: Sequence[str], theme: str | None
) -> None:
    from gputui.views.app import GputuiApp
    from gputui.views.themes import THEMES

    reports = (report,) if isinstance(report, Path) else report
    language = "ja" if name == "japanese" else "en"
    app = choosing_from(reports[0]) if name == "run" else GputuiApp(reports, language=language)
    async with app.run_test(size=size) as pilot:
        if theme is not None:
            app.theme = next(one.name for one in THEMES if theme in one.name)
        for key in ("", *keys):
            if key:
                await pilot.press(key)
            # A kernel's lines are read when the cursor has rested on it.
            await pilot.pause(0.2)
            for _ in range(2):
                # A newer worker of the same kind ends the one before.
                with contextlib.suppress(WorkerCancelled):
                    await app.workers.wait_for_complete()
                await pilot.pause()
        svg = _WIDTH.sub(_stretch, app.export_screenshot(title="gputui"))
    (OUT / f"{name}.svg").write_text(svg, encoding="utf-8")
    # The embedded fonts point at a server; the PNG is drawn with a local one.
    local = re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL).replace("Fira Code", FONTS)
    (OUT / f"{name}.png").write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=local, font_family=FONT)))
    print(f"screenshots/{name}.svg, .png")


def main() -> None:
    os.environ.update(COLORTERM="truecolor", TEXTUAL_COLOR_SYSTEM="truecolor", XDG_STATE_HOME=tempfile.mkdtemp())
    OUT.mkdir(exist_ok=True)
    wanted = set(sys.argv[1:])
    for picture in PICTURES:
        if not wanted or picture[0] in wanted:
            asyncio.run(draw(*picture))


if __name__ == "__main__":
    main()
