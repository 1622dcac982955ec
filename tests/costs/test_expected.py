"""What is asked first, and together, follows from what statistics expect to be found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algorithms.parts.view_change import partials_of
from headwater.algorithms.posse import Posse
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.costs.estimating import Estimator
from headwater.costs.expected import FromStatistics
from headwater.costs.statistics import RelationStatistics, SourceStatistics, Statistics
from headwater.project.choice import choose
from headwater.protocol.effects import Ask, Effect
from headwater.protocol.events import TransactionArrived
from headwater.protocol.transactions import Transaction, Update

SCHEMA = Schema.of([("id", INT), ("of", INT)])
ORDERS, LINES, PAYMENTS = (
    Relation(f"{at}.{name}", at, SCHEMA, ("id",))
    for at, name in (("a", "orders"), ("b", "lines"), ("c", "payments"))
)
VIEW = parse_view(
    "SELECT o.id AS o, l.id AS l, p.id AS p FROM a.orders o JOIN b.lines l ON l.of = o.id "
    "JOIN c.payments p ON p.of = o.id",
    [ORDERS, LINES, PAYMENTS],
)
INSERTION = Rows.of(SCHEMA, [(1, 2)])


def having(lines: float, payments: float) -> Statistics:
    """So many of each for an order; it is orders that change."""
    never: dict[str, Any] = {"inserts": 0.0, "deletes": 0.0, "updates": 0.0}
    return Statistics(
        {
            "a.orders": RelationStatistics(1e3, **{**never, "inserts": 1.0}),
            "b.lines": RelationStatistics(1e3 * lines, distinct={"of": 1e3}, **never),
            "c.payments": RelationStatistics(1e3 * payments, distinct={"of": 1e3}, **never),
        }
    )


def asked_first(effects: tuple[Effect, ...]) -> str:
    (ask,) = effects
    assert isinstance(ask, Ask)
    return ask.source


@pytest.mark.parametrize(("lines", "payments", "first"), [(9, 2, "c"), (2, 9, "b")])
@pytest.mark.parametrize("name", ["sweep", "pvm-cc", "t-strobe", "g-strobe"])
def test_the_relation_with_the_fewest_partners_is_asked_first(
    name: str, lines: float, payments: float, first: str
) -> None:
    statistics = having(lines, payments)
    choice = choose(VIEW, Level.STRONG, name, {"order": "least"}, statistics=statistics)
    transaction = Transaction("t", (Update("a.orders", INSERTION),), ("a",), ("a",))
    machine = choice.manager
    _, effects = machine.handle(machine.start(), TransactionArrived(transaction))
    assert asked_first(effects) == first


@pytest.mark.parametrize(("lines", "payments"), [(9, 2), (2, 9)])
def test_an_estimate_knows_of_it(lines: float, payments: float) -> None:
    estimator = Estimator(VIEW, having(lines, payments), each_state=False)

    def moved(order: str) -> float:
        return estimator.estimate(ALGORITHMS["sweep"], {"order": order}).bytes

    assert moved("least") <= moved("nearest")
    assert (moved("least") < moved("nearest")) == (lines > payments)


CHAIN = parse_view(
    "SELECT o.id AS o, l.id AS l, p.id AS p FROM a.orders o JOIN b.lines l ON l.of = o.id "
    "JOIN c.payments p ON p.of = l.id",
    [ORDERS, LINES, PAYMENTS],
)


def policy(payments: float, question_s: float) -> str:
    """What POSSE does by itself for an order over a chain with so many payments at its end."""
    sources = {name: SourceStatistics(question_s=question_s) for name in CHAIN.sources}
    statistics = replace(having(2, payments), sources=sources)
    posse = Posse(expected=FromStatistics(CHAIN, statistics))
    return posse.choose(partials_of(CHAIN, (1,), {"a.orders": INSERTION}))


def test_posse_fetches_a_far_relation_whole_where_that_is_less_than_a_question() -> None:
    assert policy(payments=0.01, question_s=0.1) == "concurrent"
    assert policy(payments=1000, question_s=0.1) != "concurrent"
    assert policy(payments=0.01, question_s=1e-6) != "concurrent"
