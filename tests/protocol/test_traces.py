"""Traces: saved and loaded again, printed, and counted."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    NAN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Value,
    decimal_type,
)
from headwater.lab.generate import KINDS, Shape, generate
from headwater.lab.library import example
from headwater.lab.run import run
from headwater.lab.schedules import parse_schedule, replayed, seeded
from headwater.lab.simulate import simulate
from headwater.protocol.trace import (
    Answered,
    Evaluated,
    Received,
    Sent,
    Showed,
    Trace,
    Waited,
    show_trace,
)
from headwater.protocol.trace_json import trace_to_json
from headwater.protocol.transactions import Transaction, Update, joined, show_transaction
from tests.traces import trace_from_json

R = Schema.of([("A", INT), ("B", TEXT)])


def rows(*found: tuple[object, ...], sign: int = 1) -> Rows:
    return Rows.of(R, found, sign)


def transaction(*deltas: Rows) -> Transaction:
    return Transaction("T1", tuple(Update("r", delta) for delta in deltas), ("x",), ("x",))


# Saving and loading


@given(
    seed=st.integers(0, 200),
    schedule=st.integers(0, 20),
    algorithm=st.sampled_from(["conventional", "recompute", "copies"]),
    kind=st.sampled_from(KINDS),
    channels=st.sampled_from(["fifo", "unordered"]),
)
def test_a_trace_is_the_same_after_saving_and_loading(
    seed: int, schedule: int, algorithm: str, kind: str, channels: str
) -> None:
    scenario = generate(seed, Shape(kind, relations=2, sources=2, transactions=3))
    trace = run(simulate(scenario, algorithm, {"channels": channels}), seeded(schedule)).trace
    assert trace_from_json(json.loads(json.dumps(trace_to_json(trace)))) == trace


VALUES: tuple[tuple[Any, Value], ...] = (
    (BOOL, True),
    (INT, -(2**63)),
    (FLOAT, NAN),
    (FLOAT, float("-inf")),
    (FLOAT, 0.1),
    (decimal_type(38, 4), Decimal("-0.1000")),
    (TEXT, "it's [✓]\n"),
    (BYTES, b"\x00\xff"),
    (DATE, date(1, 1, 1)),
    (TIMESTAMP, datetime(2024, 2, 29, 12, 30, 0, 5)),
    (TIMESTAMP_TZ, datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
    (INT, None),
)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_every_kind_of_value_is_saved_and_loaded(kind: Any, value: Value) -> None:
    state = Rows(Schema.of([("v", kind)]), {(value,): 2})
    trace = Trace(state, (Showed(state, ("T1",)), Waited()))
    assert trace_from_json(json.loads(json.dumps(trace_to_json(trace)))) == trace


# Printing


@pytest.mark.parametrize(
    ("deltas", "shown"),
    [
        ([rows((1, "a"))], "T1 = insert(r, [1, 'a'])"),
        ([rows((1, "a"), sign=-1)], "T1 = delete(r, [1, 'a'])"),
        (
            [rows((2, "b")) + rows((1, "a"), sign=-1)],
            "T1 = update(r, [1, 'a'] → [2, 'b'])",
        ),
        ([rows()], "T1 = no change of r"),
        (
            [rows((1, "a")), rows((2, None), sign=-1)],
            "T1 = ⟨insert(r, [1, 'a']), delete(r, [2, NULL])⟩",
        ),
        ([rows((1, "a"), (1, "a"))], "T1 = insert(r, [1, 'a']), insert(r, [1, 'a'])"),
    ],
)
def test_a_transaction_prints_its_updates(deltas: list[Rows], shown: str) -> None:
    assert show_transaction(transaction(*deltas)) == shown


def test_what_the_warehouse_does_at_once_is_one_step() -> None:
    trace = Trace(
        rows(),
        (
            Received(transaction(rows((1, "a")))),
            Showed(rows((1, "a"))),
            Sent("x", "Q1^1", ("r", "s"), 2),
        ),
    )
    assert show_trace(trace) == [
        "1. The warehouse receives T1 and the view becomes [1, 'a'] and sends Q1^1 = r and s "
        "to source x."
    ]


def test_waiting_is_a_step() -> None:
    assert show_trace(Trace(rows(), (Waited(), Sent("x", "Q1", ("r",), 1)))) == [
        "1. The warehouse finds that nothing goes on and sends Q1 = r to source x."
    ]


def test_an_answer_has_the_number_of_its_question() -> None:
    trace = Trace(rows(), (Evaluated("x", "Q2^1", (rows(), rows((1, "a")))),))
    assert show_trace(trace) == ["1. Source x evaluates Q2^1: A2^1 = ∅ and [1, 'a']."]


def test_an_empty_trace_has_no_steps() -> None:
    assert show_trace(Trace(rows(), ())) == []


# Counting


def test_questions_and_answers_are_messages_and_notifications_are_not() -> None:
    scenario = example("eca-2")
    schedule = parse_schedule(scenario.data["schedule"])
    trace = run(simulate(scenario, "conventional"), replayed(schedule)).trace
    assert (trace.message_count, trace.byte_count) == (4, 24)


def test_an_answer_costs_what_its_values_cost_as_often_as_they_count() -> None:
    answer = Evaluated("x", "Q1", (rows((1, "é"), (1, "é")), rows((2, None), sign=-1)))
    taken = Answered("x", "Q1", answer.results)
    assert Trace(rows(), (answer, taken)).byte_count == 2 * (8 + 2) + (8 + 1)


def test_copies_send_nothing() -> None:
    trace = run(simulate(example("eca-2"), "copies"), seeded(0)).trace
    assert (trace.message_count, trace.byte_count) == (0, 0)


def test_the_states_are_the_initial_one_and_one_for_each_step_of_the_view() -> None:
    first, second = rows((1, "a")), rows((2, "b"))
    assert Trace(first, (Showed(second), Waited(), Showed(second))).states == [
        first,
        second,
        second,
    ]


# Transactions


def test_the_deltas_of_a_transaction_are_net() -> None:
    found = transaction(rows((1, "a")), rows((2, "b")), rows((1, "a"), sign=-1)).deltas
    assert found == {"r": rows((2, "b"))}


def test_updates_that_cancel_change_nothing() -> None:
    assert transaction(rows((1, "a")), rows((1, "a"), sign=-1)).deltas == {}


def test_the_parts_of_a_global_transaction_make_it_whole() -> None:
    delta = rows((1, "a"))
    parts = [Transaction("T", (Update(s, delta),), (s,), ("x", "y")) for s in "xy"]
    whole = joined(parts)
    assert (whole.is_whole, whole.sources) == (True, ("x", "y"))
    assert [update.relation for update in whole.updates] == ["x", "y"]
    assert not parts[0].is_whole
