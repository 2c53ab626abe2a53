"""A regular expression that would take for ever is told, before anything waits for it."""

from __future__ import annotations

import pytest

from gputui.errors import GputuiError
from gputui.run.patterns import check_time


def test_one_that_goes_back_for_ever_is_told() -> None:
    with pytest.raises(GputuiError, match=r"--kernel \(a\+\)\+\$: takes too long .*repetition"):
        check_time("--kernel", "(a+)+$", ["a" * 40 + "b"], limit_s=0.5)


@pytest.mark.parametrize("expression", ["gemm", "(unclosed", "(a+)+b"])
def test_others_are_left_to_where_they_are_used(expression: str) -> None:
    check_time("--nvtx", expression, ["a" * 40 + "b", "\udcff"])
