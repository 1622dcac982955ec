"""What a simulated deployment is about: databases, what they commit, and views at their levels.

Values are few, so that joins hit, rows come back, and several transactions look alike. Views use
different columns of the same relations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from headwater.algebra.groups import together
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_group, parse_view
from headwater.algebra.tops import evaluate_top
from headwater.algebra.values import INT, Row
from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.pipeline.plan import Plan
from headwater.project.choice import as_stored, choose, fits, usable
from headwater.protocol.managers import Need
from headwater.protocol.transactions import Tag, Update
from headwater.simulation.database import Change, Database
from headwater.warehouse.definition import StoredDefinition

_COLUMNS = ("k", "a", "b")
_DOMAIN = 3
_MOST_ACROSS = 8
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
_IN_PARTS = (
    "SELECT x.a, y.b FROM s1.r AS x LEFT JOIN s2.r AS y ON x.k = y.k UNION ALL "
    "SELECT z.b, z.k FROM s2.t AS z",
    "SELECT x.a, y.b FROM s1.r AS x FULL JOIN s2.t AS y ON x.b = y.a",
    "SELECT x.a FROM s1.r AS x WHERE NOT EXISTS (SELECT 1 FROM s2.r AS y WHERE y.a = x.b) "
    "UNION SELECT y.b FROM s2.r AS y",
    "SELECT x.a, x.b FROM s1.r AS x WHERE x.a > 0 UNION ALL SELECT x.b, x.a FROM s1.r AS x "
    "UNION ALL SELECT x.a, y.b FROM s1.r AS x, s2.t AS y WHERE x.k = y.k",
    "SELECT u.a, count(*) AS n, sum(u.b) AS total FROM (SELECT x.a, y.b FROM s1.r AS x, s2.r AS y "
    "WHERE x.k = y.a UNION ALL SELECT z.a, z.b FROM s2.t AS z) AS u GROUP BY u.a",
    "SELECT x.a, (SELECT count(*) FROM s2.r AS y WHERE y.a = x.a) AS n FROM s1.r AS x "
    "WHERE x.b IN (SELECT z.b FROM s2.t AS z)",
)
"""Views of several parts, which share relations."""
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
    algorithm: str | None = None
    """The one that is forced, if one is."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def plan(self) -> Plan:
        choice = choose(self.view.narrowed(), self.level, self.algorithm, self.parameters)
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


def relations(keyed: bool = False) -> tuple[Relation, ...]:
    schema, key = Schema.of((name, INT) for name in _COLUMNS), _COLUMNS[:1] if keyed else ()
    return tuple(
        Relation(f"{s}.{r}", s, schema, key) for s, r in (("s1", "r"), ("s2", "r"), ("s2", "t"))
    )


def views(
    random: Random,
    count: int,
    tops: bool = False,
    keyed: bool = False,
    groups: bool = False,
    copies: bool = False,
    parts: bool = False,
) -> list[ViewAtLevel]:
    """So many views, of several `parts` if these are wanted; with `tops` two more, with `groups` a
    group, with `keyed` by whatever algorithm keeps their level, with `copies` of some relations
    beside each of them."""
    found = []
    selects = [*random.sample(_IN_PARTS if parts else _SELECTS, count), *(_TOPS if tops else ())]
    for at, select in enumerate(selects):
        name = f"v{at}"
        view = parse_view(select, relations(keyed), name)
        level = random.choice([Level.STRONG, Level.COMPLETE])
        made = ViewAtLevel(name, view, level)
        found.append(_by_any_algorithm(random, made, parts) if keyed else made)
    if groups:
        listed = [(n, sql, relations(keyed)) for n, sql in _MEMBERS.items()]
        level = random.choice([Level.STRONG, Level.COMPLETE])
        made = ViewAtLevel("group", parse_group(listed, "group"), level)
        found.append(_by_any_algorithm(random, made, parts) if keyed else made)
    return [_with_copies(random, made) for made in found] if copies else found


def _with_copies(random: Random, made: ViewAtLevel) -> ViewAtLevel:
    names = [relation.name for relation in made.view.relations]
    copied = random.sample(names, random.randint(1, len(names)))
    return replace(made, view=made.view.with_copies(copied))


def _by_any_algorithm(random: Random, made: ViewAtLevel, parts: bool) -> ViewAtLevel:
    """By one that keeps its level; if it has several `parts`, mostly one that deletes by key."""
    level = random.choice([Level.CONVERGENT, made.level])
    known = [n for n in usable(level, made.view.sources) if fits(n, made.view)]
    by_key = [n for n in known if Need.KEYS in ALGORITHMS[n].needs]
    algorithm = random.choice(by_key if parts and by_key and random.random() < 0.7 else known)
    told = _told(random, algorithm) if parts else {}
    return ViewAtLevel(made.name, as_stored(made.view, algorithm, True), level, algorithm, told)


def _told(random: Random, algorithm: str) -> dict[str, str]:
    """Some of its parameters that lower no level."""
    known = {"local": "on", "order": "least"}
    taken = ALGORITHMS[algorithm].parameters.keys()
    return {n: value for n, value in known.items() if n in taken and random.random() < 0.5}


def databases(
    random: Random, transactions: int, keyed: bool = False, whole: bool | None = None
) -> dict[str, Database]:
    """Two sources, and how many transactions they will commit; some of them across both, unless
    `whole` is None, and with it their parts all come, and in the same order at both."""
    initial = {r.name: _some_rows(random, keyed) for r in relations()}
    gaps = random.choice([0.0, 0.0, 0.2])
    first = random.randint(0, transactions)
    application = _Application(Random(random.random()), gaps, random.choice([0.0, 0.5]), keyed)
    application.across = None if whole is None else _Across(application.random, whole)
    return {
        source: Database(
            source,
            {name: rows for name, rows in initial.items() if name.startswith(source)},
            application,
            count,
            application.across.owed[source] if application.across else (),
        )
        for source, count in (("s1", first), ("s2", transactions - first))
    }


def _some_rows(random: Random, keyed: bool) -> Rows:
    return _rows(_distinct([_row(random) for _ in range(random.randint(1, 3))], keyed))


def _distinct(rows: list[Row], keyed: bool) -> list[Row]:
    """Of rows with one key the last, where keys are kept."""
    return list({row[0]: row for row in rows}.values()) if keyed else rows


def _keeps_keys(rows: Rows) -> bool:
    return len({row[0] for row in rows}) == sum(count for _, count in rows.items())


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
    keyed: bool = False
    """Whether the first column is a key."""
    _last: dict[str, Rows] = field(default_factory=dict)
    across: _Across | None = None
    """Draws the tags of transactions across both databases, if there are any."""

    def __call__(self, state: Mapping[str, Rows]) -> Change:
        if self.random.random() < self.gaps:
            return _unwatched(self.random, self.random.choice(list(state)), state, self.keyed)
        names = self.random.sample(list(state), self.random.randint(1, len(state)))
        updates = (Update(name, self._next(name, state[name])) for name in names)
        tags = self.across.tags(names[0].partition(".")[0]) if self.across else ()
        return Change(tuple(update for update in updates if update.delta), None, tags)

    def _next(self, name: str, rows: Rows) -> Rows:
        last = self._last.pop(name, None)
        undone = -last if last is not None and self.random.random() < self.regrets else None
        if undone is not None and not (rows + undone).negative() and self._may_be(rows + undone):
            return undone
        change = _some_change(self.random, rows)
        while not self._may_be(rows + change):
            change = _some_change(self.random, rows)
        self._last[name] = change
        return change

    def _may_be(self, rows: Rows) -> bool:
        return not self.keyed or _keeps_keys(rows)


class _Across:
    """Which transactions are parts of one across both databases.

    Unless `whole`, parts may never come, or come in another order than at the other database, and
    an id may be used again.
    """

    def __init__(self, random: Random, whole: bool) -> None:
        self.owed: dict[str, list[Tag]] = {"s1": [], "s2": []}
        """What is still to be committed at each database."""
        self._random = random
        self._whole = whole
        self._count = 0

    def tags(self, source: str) -> tuple[Tag, ...]:
        owed, random = self.owed[source], self._random
        if owed and random.random() < 0.7:
            return (owed.pop(0 if self._whole else random.randrange(len(owed))),)
        if self._count == _MOST_ACROSS or random.random() < 0.5:
            return ()
        self._count += 1
        number = self._count if self._whole or random.random() < 0.9 else 1
        tag = Tag(f"g{number}", random.choice([2, 2, 3]))
        if self._whole or random.random() < 0.8:
            self.owed["s2" if source == "s1" else "s1"].append(tag)
        return (tag,)


def _some_change(random: Random, rows: Rows) -> Rows:
    """Insert a row, delete one, or both."""
    known = [row for row, count in rows.items() for _ in range(count)]
    gone = [random.choice(known)] if known and random.random() < 0.5 else []
    come = [_row(random)] if not gone or random.random() < 0.5 else []
    return _rows(come) + -_rows(gone)


def _unwatched(random: Random, name: str, state: Mapping[str, Rows], keyed: bool) -> Change:
    """Something becomes of a whole relation, or of one of its columns."""
    before = state[name]
    if random.random() < 0.5:
        after, lost = _some_rows(random, keyed), None
    else:
        at = random.randrange(len(_COLUMNS))
        lost = frozenset([_COLUMNS[at]])
        known = [row for row, count in before.items() for _ in range(count)]
        others = [(*row[:at], random.randrange(_DOMAIN), *row[at + 1 :]) for row in known]
        after = _rows(_distinct(others, keyed))
        if sum(n for _, n in after.items()) < sum(n for _, n in before.items()):
            lost = None
    delta = after + -before
    return Change((Update(name, delta),) if delta else (), {name: lost})


def _rows(rows: list[Row]) -> Rows:
    schema = Schema.of((name, INT) for name in _COLUMNS)
    counts: dict[Row, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return Rows(schema, counts)
