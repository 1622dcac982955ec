"""What is said of gaps in a source's log."""

import pytest

from headwater.project.gaps import GapError
from headwater.sources.contract import Broken


@pytest.mark.parametrize("reason", ["it was altered", "it was altered.", "it was altered;"])
def test_a_reason_ends_with_one_full_stop(reason: str) -> None:
    assert GapError("v", Broken({"s.t": None}, reason, {})).reason == "it was altered."


def test_a_gap_of_columns_says_where_one_learns_what_has_to_be_done_first() -> None:
    told = str(GapError("v", Broken({"s.t": frozenset({"x"})}, "t has no column x any more", {})))
    assert "t has no column x any more. Load it anew: headwater reload v, which says" in told
