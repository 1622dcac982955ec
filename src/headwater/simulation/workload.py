"""What a simulated deployment is about: databases, what they commit, and views at their levels.

Values are few, so that joins hit, rows come back, and several transactions look alike. Views use
different columns of the same relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, Row
from headwater.algebra.views import View
from headwater.check.levels import Level
from headwater.pipeline.maintenance import Plan
from headwater.project.choice import choose
from headwater.protocol.transactions import Transaction, Update
from headwater.simulation.database import Database
from headwater.warehouse.definition import StoredDefinition

_COLUMNS = ("k", "a", "b")
_DOMAIN = 3
_SELECTS = (
    "SELECT x.a, y.b FROM s1.r AS x, s2.r AS y WHERE x.k = y.k",
    "SELECT x.k, y.a FROM s1.r AS x, s2.r AS y WHERE x.b = y.b",
    "SELECT x.a, x.b FROM s1.r AS x",
    "SELECT x.b, y.a, z.k FROM s1.r AS x, s2.r AS y, s2.t AS z WHERE x.k = y.k AND y.a = z.a",
    "SELECT x.a, y.k FROM s2.r AS x, s2.t AS y WHERE x.k = y.k AND x.a >= y.b",
)


@dataclass(frozen=True)
class ViewAtLevel:
    """A view as it is to be kept."""

    name: str
    view: View
    level: Level

    def plan(self) -> Plan:
        choice = choose(self.view.narrowed(), self.level)
        narrow = self.view.narrowed()
        definition = StoredDefinition.of(self.view)
        return Plan(narrow, choice.manager, choice.algorithm, str(self.level), "", definition)


def relations() -> tuple[Relation, ...]:
    schema = Schema.of((name, INT) for name in _COLUMNS)
    return tuple(
        Relation(f"{s}.{r}", s, schema) for s, r in (("s1", "r"), ("s2", "r"), ("s2", "t"))
    )


def views(random: Random, count: int) -> list[ViewAtLevel]:
    found = []
    for at, select in enumerate(random.sample(_SELECTS, count)):
        name = f"v{at}"
        view = parse_view(select, relations(), name)
        level = random.choice([Level.STRONG, Level.COMPLETE])
        found.append(ViewAtLevel(name, view, level))
    return found


def databases(random: Random, transactions: int) -> dict[str, Database]:
    """Two sources, and the transactions that they will commit."""
    state = {r.name: _some_rows(random) for r in relations()}
    initial = {name: _rows(found) for name, found in state.items()}
    to_come: dict[str, list[Transaction]] = {"s1": [], "s2": []}
    for _ in range(transactions):
        source = random.choice(["s1", "s2"])
        names = [name for name in state if name.startswith(source)]
        updates = []
        for name in random.sample(names, random.randint(1, len(names))):
            if delta := _change(random, state[name]):
                updates.append(Update(name, delta))
        if updates:
            where = (source,)
            to_come[source].append(Transaction("", tuple(updates), where, where))
    return {
        source: Database(source, {n: r for n, r in initial.items() if n.startswith(source)}, found)
        for source, found in to_come.items()
    }


def _some_rows(random: Random) -> list[Row]:
    return [_row(random) for _ in range(random.randint(1, 3))]


def _row(random: Random) -> Row:
    return tuple(random.randrange(_DOMAIN) for _ in _COLUMNS)


def _change(random: Random, rows: list[Row]) -> Rows:
    """Insert a row, delete one, or both; the rows are changed likewise."""
    gone = [rows.pop(random.randrange(len(rows)))] if rows and random.random() < 0.5 else []
    come = [_row(random)] if not gone or random.random() < 0.5 else []
    rows += come
    return _rows(come) + -_rows(gone)


def _rows(rows: list[Row]) -> Rows:
    schema = Schema.of((name, INT) for name in _COLUMNS)
    counts: dict[Row, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return Rows(schema, counts)
