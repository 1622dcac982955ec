"""Random scenarios from a seed: small domains, so that joins hit and keys come back.

The relations form a chain, r1 to rn, joined neighbour to neighbour, spread over the sources;
some seeds close the chain to a ring or add a condition such as `W > Z` across relations.
Rows are deleted and inserted again, keyless relations hold duplicates. With several terms the view
is a UNION ALL of such chains, each over some of the relations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.values import Json
from headwater.errors import InputError
from headwater.lab.scenario import Object, Scenario, scenario_from_json

KINDS = ("single-source", "single-source-local", "multi-source", "source-local", "global")


@dataclass(frozen=True)
class Shape:
    """How big a random scenario is."""

    kind: str = "multi-source"
    relations: int = 3
    sources: int = 3
    transactions: int = 4
    keys: bool = False
    """Whether relations have keys; the view then shows all of them."""
    some_keys: bool = False
    """With keys: whether the view shows the key of the first relation alone."""
    by_key: bool = False
    """With keys: whether each relation refers to the next one's key, as orders to customers."""
    comes_back: bool = False
    """With keys: whether most insertions bring a deleted key back, half with other values, and
    the view shows few other columns, so that a changed row may look the same."""
    self_join: bool = False
    """Whether the first relation occurs again at the end of the chain."""
    terms: int = 1
    """How many joins the view adds up; with several it need not show keys."""
    domain: int = 2
    """Join columns hold values from 0 to domain - 1, keys twice as many."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(
                f"There is no kind of scenario '{self.kind}'.", f"There are: {', '.join(KINDS)}."
            )


def generate(seed: int, shape: Shape | None = None) -> Scenario:
    """The random scenario number `seed`: always the same for the same shape.

    Most random joins stay empty and would show nothing, so it draws until the view changes
    in at least half of the transactions, and takes the last draw if none does.
    """
    shape = shape or Shape()
    for attempt in range(_ATTEMPTS):
        data = _Generator(Random(f"{seed}/{attempt}"), shape).scenario(seed)
        scenario = scenario_from_json(data, f"seed {seed}")
        if 2 * _changes(scenario) >= shape.transactions:
            break
    return scenario


_ATTEMPTS = 50


def _changes(scenario: Scenario) -> int:
    """How often the view changes when the transactions happen in the listed order."""
    state, changes = dict(scenario.initial), 0
    shown = evaluate_shown(scenario.view, state)
    for transaction in scenario.transactions:
        state |= {name: state[name] + delta for name, delta in transaction.deltas.items()}
        before, shown = shown, evaluate_shown(scenario.view, state)
        changes += before != shown
    return changes


@dataclass
class _Generator:
    random: Random
    shape: Shape
    contents: dict[str, list[list[int]]] = field(default_factory=dict)
    deleted: dict[str, list[list[int]]] = field(default_factory=dict)

    def scenario(self, seed: int) -> Object:
        names = [f"r{number}" for number in range(1, self.shape.relations + 1)]
        many = 1 if self.shape.kind.startswith("single-source") else self.shape.sources
        places = {name: f"s{at % many + 1}" for at, name in enumerate(names)}
        relations: Object = {}
        for name in names:
            rows = self._initial_rows(name)
            relations[name] = {
                "source": places[name],
                "columns": dict.fromkeys(self._columns(name), "int"),
                "key": [f"K{name[1:]}"] if self.shape.keys else [],
                "rows": [list(row) for row in rows],
            }
        if self.shape.terms > 1:
            view = self._sum(names)
        else:
            view = self._view([*names, names[0]] if self.shape.self_join else names)
        transactions: list[Json] = [
            {"id": f"T{number}", "updates": self._updates(places)}
            for number in range(1, self.shape.transactions + 1)
        ]
        return {
            "name": f"{self.shape.kind} seed {seed}",
            "relations": relations,
            "view": view,
            "transactions": transactions,
        }

    def _columns(self, name: str) -> list[str]:
        """`r2` has A2 and B2, its links to the left and to the right, after its key."""
        number = name[1:]
        key = [f"K{number}"] if self.shape.keys else []
        return [*key, f"A{number}", f"B{number}"]

    def _initial_rows(self, name: str) -> list[list[int]]:
        self.contents[name] = []
        for _ in range(self.random.randint(0, 3)):
            row = self._new_row(name)
            if row is not None:
                self.contents[name].append(row)
        return self.contents[name]

    def _new_row(self, name: str) -> list[int] | None:
        row = [self.random.randrange(self.shape.domain) for _ in "AB"]
        if not self.shape.keys:
            return row
        key = self.random.randrange(2 * self.shape.domain)
        gone = self.deleted.get(name)
        if self.shape.comes_back and gone and self.random.random() < 0.7:
            back = self.random.choice(gone)
            key, row = back[0], row if self.random.random() < 0.5 else back[1:]
        taken = any(key == other[0] for other in self.contents[name])
        return None if taken else [key, *row]

    def _view(self, names: list[str]) -> str:
        places = [(f"t{at}", name[1:]) for at, name in enumerate(names, 1)]
        target = "K" if self.shape.by_key and self.shape.keys else "A"
        joins = [f"{a}.B{m} = {b}.{target}{n}" for (a, m), (b, n) in pairwise(places)]
        (first, m), (last, n) = places[0], places[-1]
        if self.random.random() < 0.3:
            joins.append(f"{first}.A{m} > {last}.B{n}")
        elif self.random.random() < 0.2 and len(names) > 2:
            joins.append(f"{last}.B{n} = {first}.A{m}")
        keyed = places[:1] if self.shape.some_keys else places
        shown = [f"{t}.K{n} AS {t}_K" for t, n in keyed] if self.shape.keys else []
        links = [f"{t}.{side}{n} AS {t}_{side}" for t, n in places for side in "AB"]
        most = 2 if self.shape.comes_back else len(links)
        shown += self.random.sample(links, self.random.randint(1, most))
        tables = ", ".join(f"{name} {t}" for name, (t, _) in zip(names, places, strict=True))
        where = f" WHERE {' AND '.join(joins)}" if joins else ""
        return f"SELECT {', '.join(shown)} FROM {tables}{where}"

    def _sum(self, names: list[str]) -> str:
        """A UNION ALL; the first term is over all relations, the others over some."""
        width = self.random.randint(1, 3)
        terms = [self._term(names, width)]
        while len(terms) < self.shape.terms:
            some = self.random.sample(names, self.random.randint(1, len(names)))
            terms.append(self._term(sorted(some, key=names.index), width))
        return " UNION ALL ".join(terms)

    def _term(self, names: list[str], width: int) -> str:
        joins = [f"{a}.B{a[1:]} = {b}.A{b[1:]}" for a, b in pairwise(names)]
        links = [f"{name}.{side}{name[1:]}" for name in names for side in "AB"]
        shown = ", ".join(f"{self.random.choice(links)} AS c{at}" for at in range(width))
        where = f" WHERE {' AND '.join(joins)}" if joins else ""
        return f"SELECT {shown} FROM {', '.join(names)}{where}"

    def _updates(self, places: dict[str, str]) -> list[Json]:
        names = list(places)
        if self.shape.kind in ("single-source", "multi-source"):
            return [self._update(self.random.choice(names))]
        count = self.random.randint(1, 3)
        if self.shape.kind == "source-local":
            source = self.random.choice(sorted(set(places.values())))
            names = [name for name in names if places[name] == source]
        return [self._update(self.random.choice(names)) for _ in range(count)]

    def _update(self, name: str) -> Json:
        rows = self.contents[name]
        chance = self.random.random()
        if rows and chance < 0.4:
            row = self._drop(name)
            return {"relation": name, "delete": list(row)}
        if rows and chance < 0.5:
            old = self._drop(name)
            new = self._new_row(name) or old
            rows.append(new)
            return {"relation": name, "update": [list(old), list(new)]}
        for _ in range(20):
            fresh = self._new_row(name)
            if fresh is not None:
                rows.append(fresh)
                return {"relation": name, "insert": list(fresh)}
        row = rows.pop()
        return {"relation": name, "delete": list(row)}

    def _drop(self, name: str) -> list[int]:
        row = self.random.choice(self.contents[name])
        self.contents[name].remove(row)
        self.deleted.setdefault(name, []).append(row)
        return row


def chain(relations: int, updates: int, *, deletions: bool = True, run: int = 1) -> Scenario:
    """r1 to rn, each at a source of its own, joined in a chain; updates go round the relations,
    `run` of each at a time.

    Each relation holds one row, and its updates insert another one and delete it again in turn,
    so every update changes the view and every probe finds a partner. The view shows all keys.
    Without `deletions` every update inserts.
    """
    names = [f"r{number}" for number in range(1, relations + 1)]
    joins = [f"{a}.B = {b}.A" for a, b in pairwise(names)]
    where = f" WHERE {' AND '.join(joins)}" if joins else ""
    shown = ", ".join(f"{name}.K AS {name}_K" for name in names)
    columns: Object = {"K": "int", "A": "int", "B": "int"}
    described: Object = {
        name: {"source": f"s{name[1:]}", "columns": columns, "key": ["K"], "rows": [[0, 0, 0]]}
        for name in names
    }
    transactions: list[Json] = []
    for number in range(updates):
        at = number // run % relations
        turn = number // (run * relations) * run + number % run
        deletes = deletions and turn % 2 == 1
        key = 1 if deletions else turn + 1
        update: Object = {"relation": names[at]}
        update["delete" if deletes else "insert"] = [key, 0, 0]
        transactions.append({"id": f"DU{number + 1}", "updates": [update]})
    view = f"SELECT {shown} FROM {', '.join(names)}{where}"
    data: Object = {"relations": described, "view": view, "transactions": transactions}
    return scenario_from_json(data, f"chain of {relations}")
