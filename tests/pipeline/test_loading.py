"""The rules of a load: what comes before what, which snapshot fits, and when it starts over."""

import pytest

from headwater.errors import HeadwaterError, LostConnectionError, SourceError, StateLostError
from headwater.pipeline.loading import (
    Hold,
    Loading,
    LostSnapshotError,
    MakeDurable,
    OpenSnapshot,
    Put,
    held_back,
)
from headwater.warehouse.vectors import Reached


def held(*sources: str) -> Loading:
    loading = Loading(sources)
    for source in sources:
        assert loading.next() == Hold(source)
        loading.held(source)
    return loading


def test_every_place_is_held_before_a_snapshot_and_durable_before_the_view_is_put() -> None:
    loading = held("x", "y")
    assert loading.next() == OpenSnapshot("x", again=False)
    assert loading.opened("x", 7)
    assert loading.next() == MakeDurable("x", 7)
    loading.durable("x", {"at": 7})
    assert loading.next() == OpenSnapshot("y", again=False)
    assert loading.opened("y", 0)
    assert loading.next() == MakeDurable("y", 0)
    loading.durable("y", None)
    assert loading.next() == Put({"x": Reached(7, {"at": 7}), "y": Reached(0, None)})


def test_another_snapshot_is_tried_where_one_does_not_fit() -> None:
    loading = held("x")
    assert not loading.opened("x", None)
    assert loading.next() == OpenSnapshot("x", again=True)
    assert loading.opened("x", 5)


def test_a_source_of_which_no_snapshot_fits_is_given_up() -> None:
    loading = held("x")
    with pytest.raises(SourceError, match="Source x: no snapshot fits the log"):
        any(loading.opened("x", None) for _ in range(1000))


@pytest.mark.parametrize(
    "failure",
    [LostConnectionError("It is down."), StateLostError("gone"), LostSnapshotError("It is gone.")],
)
def test_a_load_starts_over_where_that_may_help_and_not_for_ever(failure: HeadwaterError) -> None:
    loading = held("x")
    loading.opened("x", 7)
    starts = 0
    while loading.starts_over(failure):
        assert loading.next() == Hold("x"), "its places are gone"
        starts += 1
    assert starts == 4


def test_a_load_that_failed_otherwise_does_not_start_over() -> None:
    assert not held("x").starts_over(HeadwaterError("A value does not fit."))


def test_a_place_is_held_far_enough_back_and_not_before_the_log_begins() -> None:
    assert held_back(5000) == 4000
    assert held_back(10) == 0
    assert held_back(5000, first=4501) == 4500
