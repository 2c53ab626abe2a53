"""Pairings made by hand, in the run folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputui.analysis.compare.model import KernelKey, Pairing
from gputui.errors import GputuiError
from gputui.run.folder import RunFolder
from gputui.run.pairs import keep_pairs, kept_pairs
from gputui.run.plan import Request

FUSED = Pairing(
    frozenset({KernelKey("softmax<float>", "block/attention"), KernelKey("bmm \ud800 名前")}),
    frozenset({KernelKey("flash_fwd")}),
)
GONE = Pairing(frozenset({KernelKey("copy")}), frozenset())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = RunFolder.create(tmp_path / "runs", Request(("python", "train.py"), "/data"))
    made.close()
    return made.path


def test_what_is_kept_is_found_again_from_each_report_of_the_run(run: Path, tmp_path: Path) -> None:
    assert kept_pairs([run / "one.ncu-rep"]) == ()
    kept = keep_pairs(run / "one.ncu-rep", [FUSED, GONE])
    assert kept == run / "pairs.json"
    for named in (run, run / "other.ncu-rep"):
        assert kept_pairs([named]) == (FUSED, GONE)
    assert keep_pairs(run, [GONE]) == kept
    assert kept_pairs([tmp_path / "elsewhere.ncu-rep", run]) == (GONE,)
    assert sorted(one.name for one in run.iterdir()) == [".work", "pairs.json", "run.json"]


def test_those_of_the_new_side_s_run_are_taken(run: Path, tmp_path: Path) -> None:
    made = RunFolder.create(tmp_path / "runs", Request(("python", "train.py"), "/data"))
    made.close()
    keep_pairs(run, [GONE])
    assert kept_pairs([made.path, run]) == ()
    keep_pairs(made.path, [FUSED])
    assert kept_pairs([made.path, run]) == (FUSED,)


def test_outside_of_a_run_nothing_is_kept(tmp_path: Path) -> None:
    assert keep_pairs(tmp_path / "one.ncu-rep", [FUSED]) is None
    assert kept_pairs([tmp_path / "one.ncu-rep"]) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"schema": 2, "pairs": []}', '{"schema": 1}', '{"schema": 1, "pairs": [{"base": []}]}',
        '{"schema": 1, "pairs": [{"base": [{"function": 1}], "new": []}]}', "[" * 100_000, '"' + "x" * (5 << 20) + '"',
        "\udcff",
    ],
)  # fmt: skip
def test_what_is_damaged_is_one_error_with_the_next_step(run: Path, text: str) -> None:
    (run / "pairs.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(GputuiError) as caught:
        kept_pairs([run])
    assert caught.value.title == str(run / "pairs.json")
    assert caught.value.hint == "Remove it, and pair the kernels again"
    assert len(str(caught.value)) < 500


def test_what_is_no_file_is_not_waited_for(run: Path) -> None:
    (run / "pairs.json").mkdir()
    with pytest.raises(GputuiError, match="cannot be read"):
        kept_pairs([run])


def test_what_cannot_be_written_is_an_error_and_leaves_what_was_there(run: Path) -> None:
    keep_pairs(run, [GONE])
    (run / "pairs.json.draft").mkdir()
    with pytest.raises(GputuiError, match="cannot be written"):
        keep_pairs(run, [FUSED])
    assert kept_pairs([run]) == (GONE,)


def test_it_can_be_read_by_people(run: Path) -> None:
    keep_pairs(run, [GONE])
    assert json.loads((run / "pairs.json").read_text(encoding="utf-8")) == {
        "schema": 1,
        "pairs": [{"kind": None, "base": [{"function": "copy", "nvtx": "", "nth": 0}], "new": []}],
    }
