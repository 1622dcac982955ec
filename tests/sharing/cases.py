"""Random views over R, S and T, and random histories of these, for the rules' laws."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT, Row, Type, Value
from headwater.sharing.contents import Contents
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions

R = Relation("R", "x", Schema.of([("a", INT), ("b", INT), ("x", INT)]))
S = Relation("S", "y", Schema.of([("a", INT), ("c", INT), ("t", TEXT)]))
T = Relation("T", "z", Schema.of([("b", INT), ("c", INT)]))
RELATIONS = (R, S, T)
DOMAIN: dict[Type, tuple[Value, ...]] = {INT: (0, 1, 1, 2, None), TEXT: ("u", "v", None)}
CONDITIONS = (
    *("R.a = S.a", "R.a = S.a", "S.c = T.c", "R.b = T.b", "R.a = T.c", "R.b = S.c", "S.a = T.b"),
    *("R.x > 0", "R.x <= 1", "S.c < 2", "T.b >= 1", "R.x = 1", "R.b < T.c", "S.c <= T.b"),
    *("S.t LIKE 'u%'", "S.t IS NOT NULL", "R.x = 1 OR S.c = 1", "R.b <> S.c", "T.c IN (0, 1)"),
    *("R.a IS NOT DISTINCT FROM S.c", "R.a + S.a > 0"),
)
COLUMNS = [
    f"{relation.name}.{column}" for relation in RELATIONS for column in relation.schema.names
]
LAST = 4
Lift = Callable[[Rows], Rows]


def in_memory(rows: Rows) -> Rows:
    return rows


@dataclass(frozen=True)
class Case:
    """A view, views that contain it, and every version of R, S and T."""

    view: SharedView
    wider: tuple[SharedView, SharedView]
    states: dict[str, list[Rows]]
    steps: dict[str, list[Updategram]]
    lift: Lift

    def contents(self, name: str, version: int) -> Contents:
        return Contents.of_relation(name, version, self.lift(self.states[name][version]))

    def updategram(self, name: str, first: int, last: int) -> Updategram:
        """Composed from the steps in between, or an inverse."""
        if first > last:
            return self.updategram(name, last, first).inverse()
        found = self.steps[name][first]
        for step in self.steps[name][first + 1 : last]:
            found = found.then(step)
        return Updategram(
            name, found.first, found.last, self.lift(found.inserted), self.lift(found.deleted)
        )

    def recomputed(self, versions: Versions) -> Rows:
        state = {name: self.states[name][number] for name, number in versions.items()}
        return evaluate_view(self.view.view, state)

    def __repr__(self) -> str:
        wider = [found.sql for found in self.wider]
        return f"Case({self.view.sql!r}, wider={wider}, states={self.states})"


def random_case(seed: int, *, sets: bool, lift: Lift = in_memory) -> Case:
    random = Random(seed)
    chosen = random.sample(CONDITIONS, random.randint(2, 5))
    view = _view(random, "V", chosen)
    wider = tuple(
        _view(random, name, random.sample(chosen, random.randint(1, len(chosen))))
        for name in ("U", "W")
    )
    states, steps = {}, {}
    for relation in RELATIONS:
        states[relation.name], steps[relation.name] = _history(random, relation, sets)
    return Case(view, (wider[0], wider[1]), states, steps, lift)


def _view(random: Random, name: str, conditions: list[str]) -> SharedView:
    outputs = random.sample(COLUMNS, random.randint(1, 4))
    shown = ", ".join(f"{output} AS o{at}" for at, output in enumerate(outputs))
    tables = random.sample(["R", "S", "T"], 3)
    where = " AND ".join(f"({condition})" for condition in conditions)
    sql = f"SELECT {shown} FROM {', '.join(tables)} WHERE {where}"
    return SharedView.parse(name, sql, RELATIONS)


def _history(random: Random, relation: Relation, sets: bool) -> tuple[list[Rows], list[Updategram]]:
    rows = [random_row(random, relation.schema) for _ in range(random.randint(2, 6))]
    states = [Rows.of(relation.schema, set(rows) if sets else rows)]
    steps = []
    for version in range(LAST):
        state = states[-1]
        gone = [row for row in state if random.random() < 0.35]
        came = [random_row(random, relation.schema) for _ in range(random.randint(0, 3))]
        if sets:
            came = [row for row in set(came) if row not in state or row in gone]
        step = Updategram.of_relation(
            relation.name, relation.schema, version, version + 1, inserted=came, deleted=gone
        )
        steps.append(step)
        states.append(step.apply(state))
    return states, steps


def random_row(random: Random, schema: Schema) -> Row:
    return tuple(random.choice(DOMAIN[kind]) for kind in schema.types)
