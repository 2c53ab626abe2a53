"""The doctor's findings as text and as JSON."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from gputui.render.doctor import doctor_json, doctor_text
from gputui.run.doctor import Check
from gputui.wording import wording

CHECKS = (
    Check("gpu", "ok", "found", {"gpus": "NVIDIA H200"}),
    Check("nsys", "ok", "found", {"path": "nsys\x1b[2J", "version": "2025.3.1"}),
    Check("sampling", "warning", "paranoid", {"level": 4, "host": "gpu7", "user": "alice"}),
    Check(
        "counters", "problem", "restricted", {"driver": "580.1", "host": "gpu7", "user": "alice"}, ("ncu",)
    ),
)  # fmt: skip


def printed(*, ascii: bool = False) -> list[str]:
    file = StringIO()
    console = Console(file=file, width=300)
    for part in doctor_text(CHECKS, wording("en"), ascii=ascii):
        console.print(part)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_problems_come_first_each_with_its_fix_and_what_is_right_comes_last() -> None:
    lines = printed()
    assert lines[0] == "The timeline works here; counters do not: permission to read the GPU's counters."
    assert lines[2] == (
        "✗ permission to read the GPU's counters  The driver lets only administrators read them"
        " (RmProfilingAdminOnly: 1), and user alice is none."
    )
    user, root, ask = (lines.index(f"  {one}:") for one in
                       ("As a user", "As administrator", "To send to your administrator"))  # fmt: skip
    assert user < root < ask
    assert lines[root + 3] == "    sudo reboot"
    marks = [line[0] for line in lines if line[:1] in "✗?!✓" and line[1:2] == " "]
    assert marks == ["✗", "!", "✓", "✓"]
    assert "✓ GPU  NVIDIA H200" in lines
    assert lines[-1] == lines[0], "the first line may have left the screen"
    assert "\x1b" not in "".join(lines)


def test_ascii_marks() -> None:
    lines = printed(ascii=True)
    marks = [line.split(" ")[0] for line in lines]
    assert [one for one in marks if one in ("x", "?", "!", "ok")] == ["x", "!", "ok", "ok"]


def test_json_for_programs() -> None:
    facts = {"profiling_admin_only": 1, "errors": {}}
    told = json.loads(json.dumps(doctor_json(CHECKS, facts), allow_nan=False))
    assert told["schema"] == 1
    assert (told["can_profile"], told["timeline"], told["counters"]) == (False, True, False)
    assert told["outlook"] == "timeline"
    assert told["checks"][3] == {
        "id": "counters",
        "state": "problem",
        "variant": "restricted",
        "params": {"driver": "580.1", "host": "gpu7", "user": "alice"},
        "blocks": ["ncu"],
    }
    assert told["facts"] == facts
