"""The queue of waiting updates: a value that finds what they change without looking at all."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta
from headwater.algebra.values import FLOAT, INT, NAN, Row
from headwater.algorithms.parts import update_queue
from headwater.algorithms.parts.update_queue import UpdateQueue
from headwater.algorithms.parts.view_change import Unseen, compensated, join_probe, partials_of

R = Schema.of([("A", INT), ("B", FLOAT), ("C", INT)])
VALUES = st.sampled_from([None, 0, 1, 2])
FLOATS = st.sampled_from([None, 0.0, 1.5, NAN])
ROWS: st.SearchStrategy[Row] = st.tuples(VALUES, FLOATS, VALUES)
DELTAS = st.dictionaries(ROWS, st.sampled_from([-2, -1, 1, 2]), max_size=3).map(
    lambda counts: Rows(R, counts)
)


@dataclass(frozen=True)
class Waiting:
    number: int
    deltas: dict[str, Rows] = field(hash=False)


UPDATES = st.dictionaries(st.sampled_from(["r", "s"]), DELTAS.filter(bool))
STEPS = st.lists(st.one_of(UPDATES, st.integers(1, 9)), max_size=60)
"""Each an update that arrives, or how many are taken."""


def driven(steps: list[dict[str, Rows] | int]) -> tuple[UpdateQueue[Waiting], list[Waiting]]:
    """A queue, and a list to which the same was done."""
    queue: UpdateQueue[Waiting] = UpdateQueue()
    plain: list[Waiting] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            taken, queue = queue.take(step)
            assert list(taken) == plain[:step]
            plain = plain[step:]
        else:
            plain.append(Waiting(number, step))
            queue = queue.appended(plain[-1])
    return queue, plain


@given(STEPS)
def test_gives_the_updates_back_in_the_order_of_their_arrival(
    steps: list[dict[str, Rows] | int],
) -> None:
    queue, plain = driven(steps)
    assert list(queue) == plain
    assert len(queue) == len(plain)


@given(STEPS)
def test_equal_updates_make_equal_queues_whatever_came_before(
    steps: list[dict[str, Rows] | int],
) -> None:
    queue, plain = driven(steps)
    assert queue == UpdateQueue(plain)
    assert hash(queue) == hash(UpdateQueue(plain))
    assert queue != queue.appended(Waiting(-1, {}))


@given(STEPS)
def test_what_is_made_of_a_queue_leaves_it_as_it_was(steps: list[dict[str, Rows] | int]) -> None:
    queue, plain = driven(steps)
    queue.appended(Waiting(-1, {})).take(3)
    queue.take(3)
    assert list(queue) == plain


@given(STEPS, st.sampled_from([(), ("A",), ("C", "A"), ("B",)]), st.integers(0, 3))
def test_finds_what_waiting_updates_change_among_rows_with_given_values(
    steps: list[dict[str, Rows] | int], columns: tuple[str, ...], most: int
) -> None:
    queue, plain = driven(steps)
    whole = Rows.sum(R, (w.deltas["r"] for w in plain if "r" in w.deltas))
    found = [key for key in whole.distinct(columns) if None not in key]
    keys: set[Row] = set(sorted(found, key=repr)[:most]) | ({()} if not columns else set())
    expected = {row: n for row, n in whole.items() if _key(row, columns) in keys}
    assert Rows.sum(R, queue.changes("r", columns, keys)) == Rows(R, expected)


@given(STEPS)
def test_finds_the_updates_that_concern_a_relation(steps: list[dict[str, Rows] | int]) -> None:
    queue, plain = driven(steps)
    assert list(queue.concerning({"r", "t"})) == [w for w in plain if "r" in w.deltas]


def test_blocks_stay_few_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_queue, "MOST_IN_A_BLOCK", 64)
    queue: UpdateQueue[Waiting] = UpdateQueue()
    for number in range(1000):
        queue = queue.appended(Waiting(number, {}))
        if number % 3 == 0:
            _, queue = queue.take(1)
        sizes = [len(block.items) for block in queue._blocks]
        assert max(sizes, default=0) <= 64
        assert len(sizes) <= 2 * len(queue) / 64 + 14


CONDITIONS = [
    "r.A = s.A",
    "r.B = s.B",
    "r.A = s.A AND r.B = s.B",
    "r.A = s.A AND r.C < s.C",
    "r.A = s.A + 1",
    "r.A < s.A",
    "r.A = s.A AND r.C = 1",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@given(change=DELTAS.filter(bool), base=DELTAS, steps=STEPS)
def test_answer_is_freed_of_all_that_waits(
    condition: str, change: Rows, base: Rows, steps: list[dict[str, Rows] | int]
) -> None:
    """With NULL and NaN in join columns, duplicates, and conditions of every kind."""
    r, s = Relation("r", "x", R), Relation("s", "y", R)
    view = parse_view(f"SELECT r.A, s.C FROM r, s WHERE {condition}", [r, s])
    queue, plain = driven(steps)
    (partial,) = partials_of(view, (1,), {"s": change})
    probe = join_probe(partial, 0)
    before = evaluate_term(probe.question, {"r": base})
    after = base + Rows.sum(R, (w.deltas["r"] for w in plain if "r" in w.deltas))
    answer = evaluate_term(bind_delta(probe.question, 0, after), {})
    assert compensated(probe, answer, Unseen(lambda partial, at: (), queue)) == before


def _key(row: Row, columns: tuple[str, ...]) -> Row:
    return tuple(row[R.positions[name]] for name in columns)
