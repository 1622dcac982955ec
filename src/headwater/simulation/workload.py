"""What a simulated deployment is about: databases, what they commit, and views at their levels.

Values are few, so that joins hit, rows come back, and several transactions look alike. Views use
different columns of the same relations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from headwater.algebra.groups import together
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_group, parse_view
from headwater.algebra.tops import evaluate_top
from headwater.algebra.values import INT, Row
from headwater.algebra.views import View
from headwater.check.levels import Level
from headwater.pipeline.maintenance import Plan
from headwater.project.choice import choose
from headwater.protocol.transactions import Update
from headwater.simulation.database import Change, Database
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
_TOPS = (
    "SELECT x.a, count(*) AS n, sum(y.b) AS total, min(y.a) AS least "
    "FROM s1.r AS x, s2.r AS y WHERE x.k = y.k GROUP BY x.a",
    "SELECT x.a, y.b FROM s1.r AS x LEFT JOIN s2.r AS y ON x.k = y.k",
)
"""Views that show something else than is stored of them."""
_MEMBERS = {
    "totals": "SELECT x.a, count(*) AS n, sum(y.b) AS total "
    "FROM s1.r AS x, s2.r AS y WHERE x.k = y.k GROUP BY x.a",
    "pairs": "SELECT x.a, y.b FROM s1.r AS x, s2.r AS y WHERE x.k = y.k",
    "alone": "SELECT DISTINCT x.k, x.b FROM s1.r AS x LEFT ANTI JOIN s2.r AS y ON x.k = y.k",
}
"""A group of views."""


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
        return Plan(narrow, choice.manager, choice.algorithm, str(self.level), definition)

    @property
    def judged(self) -> View:
        """The view that shows what readers see: of a group all members at once."""
        return together(self.view) if self.view.members else self.view

    def shown(self, found: Rows) -> dict[str, Rows]:
        """What each plain table shows of rows that a manager finds."""
        if not self.view.members:
            return {self.name: self.view.shown(found)}
        return {member.name: evaluate_top(member.top, found) for member in self.view.members}


def relations() -> tuple[Relation, ...]:
    schema = Schema.of((name, INT) for name in _COLUMNS)
    return tuple(
        Relation(f"{s}.{r}", s, schema) for s, r in (("s1", "r"), ("s2", "r"), ("s2", "t"))
    )


def views(
    random: Random, count: int, tops: bool = False, groups: bool = False
) -> list[ViewAtLevel]:
    """So many views; with `tops` two more, with `groups` a group."""
    found = []
    selects = [*random.sample(_SELECTS, count), *(_TOPS if tops else ())]
    for at, select in enumerate(selects):
        name = f"v{at}"
        view = parse_view(select, relations(), name)
        level = random.choice([Level.STRONG, Level.COMPLETE])
        found.append(ViewAtLevel(name, view, level))
    if groups:
        group = parse_group([(n, sql, relations()) for n, sql in _MEMBERS.items()], "group")
        found.append(ViewAtLevel("group", group, random.choice([Level.STRONG, Level.COMPLETE])))
    return found


def databases(random: Random, transactions: int) -> dict[str, Database]:
    """Two sources, and how many transactions they will commit."""
    initial = {r.name: _some_rows(random) for r in relations()}
    gaps = random.choice([0.0, 0.0, 0.2])
    first = random.randint(0, transactions)
    application = _Application(Random(random.random()), gaps, random.choice([0.0, 0.5]))
    return {
        source: Database(
            source,
            {name: rows for name, rows in initial.items() if name.startswith(source)},
            application,
            count,
        )
        for source, count in (("s1", first), ("s2", transactions - first))
    }


def _some_rows(random: Random) -> Rows:
    return _rows([_row(random) for _ in range(random.randint(1, 3))])


def _row(random: Random) -> Row:
    return tuple(random.randrange(_DOMAIN) for _ in _COLUMNS)


@dataclass
class _Application:
    """What is done at the sources: draws what comes next, and may think better of it."""

    random: Random
    gaps: float
    """How likely somebody does something behind the log's back."""
    regrets: float
    """How likely what was done last to a relation is undone."""
    _last: dict[str, Rows] = field(default_factory=dict)

    def __call__(self, state: Mapping[str, Rows]) -> Change:
        if self.random.random() < self.gaps:
            return _unwatched(self.random, self.random.choice(list(state)), state)
        names = self.random.sample(list(state), self.random.randint(1, len(state)))
        updates = (Update(name, self._next(name, state[name])) for name in names)
        return Change(tuple(update for update in updates if update.delta))

    def _next(self, name: str, rows: Rows) -> Rows:
        last = self._last.pop(name, None)
        undone = -last if last is not None and self.random.random() < self.regrets else None
        if undone is not None and not (rows + undone).negative():
            return undone
        self._last[name] = _some_change(self.random, rows)
        return self._last[name]


def _some_change(random: Random, rows: Rows) -> Rows:
    """Insert a row, delete one, or both."""
    known = [row for row, count in rows.items() for _ in range(count)]
    gone = [random.choice(known)] if known and random.random() < 0.5 else []
    come = [_row(random)] if not gone or random.random() < 0.5 else []
    return _rows(come) + -_rows(gone)


def _unwatched(random: Random, name: str, state: Mapping[str, Rows]) -> Change:
    """Something becomes of a whole relation, or of one of its columns."""
    before = state[name]
    if random.random() < 0.5:
        after, lost = _some_rows(random), None
    else:
        at = random.randrange(len(_COLUMNS))
        lost = frozenset([_COLUMNS[at]])
        known = [row for row, count in before.items() for _ in range(count)]
        after = _rows([(*row[:at], random.randrange(_DOMAIN), *row[at + 1 :]) for row in known])
    delta = after + -before
    return Change((Update(name, delta),) if delta else (), {name: lost})


def _rows(rows: list[Row]) -> Rows:
    schema = Schema.of((name, INT) for name in _COLUMNS)
    counts: dict[Row, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return Rows(schema, counts)
