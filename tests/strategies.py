"""Random rows, databases, changes and views, small enough that joins hit.

Rows alone are drawn by hypothesis, which shrinks them well. A view together with its database
comes from one drawn seed: hypothesis likes to vary one example a little, and for views many
quite different ones are wanted. They are small as they are.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT, Row, Type, Value
from headwater.algebra.views import View
from headwater.errors import SqlError
from tests.queries import random_query, random_relations

_DOMAINS: dict[Type, tuple[Value, ...]] = {
    INT: (1, 1, 0, 2, None),
    TEXT: ("x", "x", "y", "", "it's", None),
}
_SEEDS = st.integers(0, 2**32 - 1)

# Drawn by hypothesis


def row(schema: Schema) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.sampled_from(_DOMAINS[kind]) for kind in schema.types))


def signed(schema: Schema, max_size: int = 5) -> st.SearchStrategy[Rows]:
    """Any element of the ring: rows with counts of either sign."""
    counts = st.dictionaries(row(schema), st.integers(-2, 2), max_size=max_size)
    return counts.map(lambda found: Rows(schema, found))


# Made from a seed


def random_bag(random: Random, schema: Schema) -> Rows:
    """What a source holds: rows that may repeat, none with a negative count; rarely nothing."""
    size = random.randint(3, 7) if random.random() < 0.9 else random.randint(0, 2)
    return Rows.of(schema, [random_row(random, schema) for _ in range(size)])


def random_delta(random: Random, schema: Schema) -> Rows:
    """A change: one to three rows with counts of either sign, which may cancel."""
    rows = [random_row(random, schema) for _ in range(random.randint(1, 3))]
    return Rows.sum(schema, (Rows.of(schema, [r], random.choice([-1, 1, 2])) for r in rows))


def random_row(random: Random, schema: Schema) -> Row:
    return tuple(random.choice(_DOMAINS[kind]) for kind in schema.types)


def changed(state: Mapping[str, Rows], delta: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: rows + delta[name] if name in delta else rows for name, rows in state.items()}


@dataclass(frozen=True)
class Case:
    """A view, and its database before and after some transactions.

    `states` has one more element than `deltas`.
    """

    view: View
    deltas: tuple[dict[str, Rows], ...]
    states: tuple[dict[str, Rows], ...]

    @property
    def old(self) -> dict[str, Rows]:
        return self.states[0]

    @property
    def delta(self) -> dict[str, Rows]:
        (only,) = self.deltas
        return only

    @property
    def new(self) -> dict[str, Rows]:
        return self.states[-1]

    def __repr__(self) -> str:
        return f"Case({self.view.sql!r}, first state {self.old}, deltas {list(self.deltas)})"


def random_case(
    seed: int,
    *,
    self_joins: bool = False,
    unions: bool = False,
    transactions: int = 0,
    most_changed: int = 3,
) -> Case:
    random = Random(seed)
    known = random_relations(random)
    sql = random_query(random, known, self_joins=self_joins)
    view = parse_view(sql, known)
    if unions:
        view = _union(random, view, known)
    states = [{relation.name: random_bag(random, relation.schema) for relation in view.relations}]
    deltas = []
    for _ in range(transactions):
        deltas.append(_transaction(random, view.relations, most_changed))
        states.append(changed(states[-1], deltas[-1]))
    return Case(view, tuple(deltas), tuple(states))


def _union(random: Random, view: View, known: tuple[Relation, ...]) -> View:
    """The view with up to two more queries by UNION ALL, if some that fit are found.

    Not those whose `*` has merged columns: SQLite puts these in another order.
    """
    if _merges_under_star(view.sql):
        return view
    for _ in range(40):
        with suppress(SqlError):
            more = random_query(random, known, self_joins=True)
            if _merges_under_star(more):
                continue
            view = parse_view(f"{view.sql} UNION ALL {more}", known)
            if len(view.joins) == 3:
                break
    return view


def _merges_under_star(sql: str) -> bool:
    return sql.startswith("SELECT * ") and ("USING" in sql or "NATURAL" in sql)


def _transaction(
    random: Random, relations: tuple[Relation, ...], most_changed: int
) -> dict[str, Rows]:
    count = random.randint(1, min(most_changed, len(relations)))
    touched = random.sample(relations, count)
    return {relation.name: random_delta(random, relation.schema) for relation in touched}


def cases(
    *,
    self_joins: bool = False,
    unions: bool = False,
    transactions: int = 0,
    most_changed: int = 3,
) -> st.SearchStrategy[Case]:
    """Views with databases; a transaction changes up to `most_changed` relations."""
    return _SEEDS.map(
        lambda seed: random_case(
            seed,
            self_joins=self_joins,
            unions=unions,
            transactions=transactions,
            most_changed=most_changed,
        )
    )
