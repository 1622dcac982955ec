"""What waits for a view: counted as it comes and goes, weighed when it is much."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.costs.recomputing import FEWEST_ROWS, Crossover
from headwater.pipeline.burden import Burden, Measured
from headwater.pipeline.life import OutgrownError
from headwater.protocol.events import TransactionArrived
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.subscription import Delivery
from headwater.warehouse.vectors import Reached, VersionVector

SCHEMA = Schema.of([("a", INT)])
RELATIONS = frozenset({"x.r", "x.s"})
QUICK = Crossover({"x.r": 1e-3, "x.s": 1e-3, "y.r": 1e-3}, load_s=10.0, is_measured=True)


def delivery(number: int, source: str = "x", **rows: int) -> Delivery:
    updates = tuple(
        Update(f"{source}.{name}", Rows(SCHEMA, {(at,): 1 for at in range(count)}))
        for name, count in rows.items()
    )
    transaction = Transaction(f"{number}", updates, (source,), (source,))
    return Delivery(source, TransactionArrived(transaction), None, number)


def vector(**numbers: int) -> VersionVector:
    return {source: Reached(number, None) for source, number in numbers.items()}


def expect(rows: Mapping[str, float]) -> float:
    return sum(rows.values()) / 1000


def test_rows_wait_from_when_they_are_received_until_they_are_committed() -> None:
    burden = Burden()
    burden.receive([delivery(1, r=3), delivery(2, r=1, s=2)], RELATIONS, 0.0)
    assert burden.waiting({}) == {"x.r": 4, "x.s": 2}
    burden.committed(vector(x=1), 1.0)
    assert burden.waiting({}) == {"x.r": 1, "x.s": 2}
    burden.committed(vector(x=5), 2.0)
    assert burden.waiting({}) == {}


def test_rows_that_did_not_change_the_view_wait_no_more_though_nothing_is_committed() -> None:
    burden = Burden(expect=expect)
    burden.receive([delivery(1, r=8000), delivery(2, r=5)], RELATIONS, 0.0)
    burden.reflected(vector(x=1), is_settled=True)
    assert burden.waiting({}) == {"x.r": 5}
    burden.committed(vector(x=2), 100.0)
    assert burden.measured.pace is None, "no large batch was committed"


def test_rows_of_relations_that_do_not_concern_the_view_do_not_wait_for_it() -> None:
    burden = Burden()
    burden.receive([delivery(1, r=3, other=100)], RELATIONS, 0.0)
    assert burden.waiting({}) == {"x.r": 3}


def test_transactions_that_were_not_received_yet_count_as_those_did_that_were() -> None:
    burden = Burden()
    assert burden.waiting({"x.r": 7}) == {"x.r": 7}
    burden.receive([delivery(1, r=10), delivery(2, r=30), delivery(3, s=1)], RELATIONS, 0.0)
    assert burden.waiting({"x.r": 100, "x.s": 5}) == {"x.r": 40 + 100 * 20, "x.s": 1 + 5}


def test_a_backlog_of_small_transactions_outgrows_a_view_as_one_large_one_does() -> None:
    for received, behind in [
        ([delivery(1, r=12_001)], {}),
        ([delivery(1, r=3)], {"x.r": 4000}),
    ]:
        burden = Burden(lambda: QUICK)
        burden.receive(received, RELATIONS, 0.0)
        with pytest.raises(OutgrownError, match="changed rows waited"):
            burden.weigh(behind, 0.0)


def test_what_is_less_than_a_load_is_taken_in() -> None:
    burden = Burden(lambda: QUICK)
    burden.receive([delivery(1, r=11_999)], RELATIONS, 0.0)
    burden.weigh({}, 0.0)


def test_while_it_may_not_be_recomputed_anything_is_taken_in() -> None:
    burden = Burden(lambda: None)
    burden.receive([delivery(1, r=2 * FEWEST_ROWS)], RELATIONS, 0.0)
    burden.weigh({"x.r": 10**9}, 0.0)


def test_costs_are_not_looked_for_while_little_waits() -> None:
    def crossing() -> Crossover:
        raise AssertionError("nobody needs them")

    burden = Burden(crossing)
    burden.receive([delivery(1, r=100)], RELATIONS, 0.0)
    burden.weigh({}, 0.0)


# What large batches take


def test_a_large_batch_tells_how_long_such_take() -> None:
    burden = Burden(expect=expect)
    burden.receive([delivery(1, r=8000)], RELATIONS, 100.0)
    burden.committed(vector(x=1), 104.0)
    assert burden.measured.pace == pytest.approx(0.5)
    burden.receive([delivery(2, r=8000)], RELATIONS, 200.0)
    burden.committed(vector(x=2), 208.0)
    assert burden.measured.pace == pytest.approx(0.75), "all of them count, the last one most"


def test_a_small_batch_tells_nothing_of_large_ones() -> None:
    burden = Burden(expect=expect)
    burden.receive([delivery(1, r=80)], RELATIONS, 100.0)
    burden.committed(vector(x=1), 104.0)
    assert burden.measured.pace is None


def test_time_in_which_others_were_taken_in_does_not_count() -> None:
    burden = Burden(expect=expect)
    burden.receive([delivery(1, r=8000), delivery(2, r=8000)], RELATIONS, 100.0)
    burden.committed(vector(x=1), 108.0)
    burden.committed(vector(x=2), 116.0)
    assert burden.measured.pace == pytest.approx(1.0)


def test_time_in_which_little_had_come_yet_does_not_count() -> None:
    burden = Burden(expect=expect)
    burden.receive([delivery(1, r=100)], RELATIONS, 10.0)
    burden.receive([delivery(2, r=7900)], RELATIONS, 100.0)
    burden.committed(vector(x=2), 108.0)
    assert burden.measured.pace == pytest.approx(1.0)


def test_what_was_measured_outlives_a_maintainer() -> None:
    measured = Measured()
    burden = Burden(expect=expect, measured=measured)
    burden.receive([delivery(1, r=8000)], RELATIONS, 0.0)
    burden.committed(vector(x=1), 8.0)
    assert measured.pace == pytest.approx(1.0)
