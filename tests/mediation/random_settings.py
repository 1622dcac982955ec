"""Random settings, and their SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT
from headwater.mediation.binding import Answer, bind
from headwater.mediation.schema import MediatedSchema
from headwater.mediation.statements import read_statement, read_statements
from tests.mediation.certain import Atom, Comparison, Instance, Query, Setting, Term, Told

TABLES = {"r": 2, "s": 2, "t": 1}
VARIABLES = "xyzw"
COLUMNS = "abc"


def random_setting(random: Random, *, comparisons: bool = False, inner: bool = True) -> Setting:
    listed = ("p.p0", "q.q1", "p.p2")[: random.randint(1, 3)]
    sources = {name: random.choice([1, 2, 2, 3]) for name in listed}
    descriptions = [
        _description(random, name, width, sources, comparisons) for name, width in sources.items()
    ]
    own: list[Told] = []
    tables = dict(TABLES)
    if inner and random.random() < 0.4:  # a foreign key: r(b) refers to s(a)
        referring = Query(("y",), (("r", ("x", "y")),), present=frozenset("y"))
        own.append(Told(referring, Query(("y",), (("s", ("y", "z")),))))
    if inner and random.random() < 0.3:  # a mediated view
        told = _query(random, "rst", random.randint(1, 2), 2, False)
        names = dict(zip(told.head, ("x", "y"), strict=True))
        told = _renamed(told, names)
        own.append(Told(told, Query(("x", "y"), (("v", ("x", "y")),))))
        tables["v"] = 2
    query = [_query(random, list(tables), random.randint(1, 3), 0, comparisons)]
    if random.random() < 0.3:
        query.append(_query(random, list(tables), 2, len(query[0].head), comparisons))
    keyed = frozenset(name for name in sources if random.random() < 0.4)
    return Setting(tuple(descriptions), tuple(own), tuple(query), tables, sources, keyed)


def _renamed(query: Query, names: Mapping[str, str]) -> Query:
    new = {n: names.get(n, f"q{n}") for n in query.variables}
    atoms = tuple(
        (r, tuple(new[t] if isinstance(t, str) else t for t in ts)) for r, ts in query.atoms
    )
    return Query(tuple(new[n] for n in query.head), atoms)


def _atoms(random: Random, names: Sequence[str], number: int) -> tuple[Atom, ...]:
    widths = {**TABLES, "v": 2}
    return tuple(
        (name, tuple(_term(random) for _ in range(widths[name])))
        for name in (random.choice(names) for _ in range(number))
    )


def _term(random: Random) -> Term:
    return random.randint(0, 1) if random.random() < 0.12 else random.choice(VARIABLES)


def _query(
    random: Random, names: Sequence[str], number: int, width: int, comparisons: bool
) -> Query:
    while True:
        found = Query((), _atoms(random, names, number))
        if len(found.variables) >= max(width, 1):
            break
    width = width or random.randint(1, min(2, len(found.variables)))
    head = tuple(random.sample(found.variables, width))
    return Query(head, found.atoms, _comparisons(random, found.variables, comparisons))


def _comparisons(random: Random, variables: Sequence[str], wanted: bool) -> tuple[Comparison, ...]:
    if not wanted or random.random() < 0.4:
        return ()
    operator = random.choice(["<", "<=", ">", ">=", "<>"])
    return ((random.choice(variables), operator, random.randint(0, 2)),)


def _description(
    random: Random, name: str, width: int, sources: Mapping[str, int], comparisons: bool
) -> Told:
    while True:
        target = Query((), _atoms(random, "rst", random.randint(1, 2)))
        if len(target.variables) >= width:
            break
    shown = tuple(random.sample(target.variables, width))
    target = Query(shown, target.atoms, _comparisons(random, target.variables, comparisons))
    told = Query(shown, ((name, shown),))
    if random.random() < 0.3:  # another source is joined
        other, terms = random.choice(sorted(sources.items()))
        joined = tuple(random.choice((*shown, "o")) for _ in range(terms))
        return Told(Query(shown, ((name, shown), (other, joined))), target)
    return Told(told, target, is_source_view=random.random() < 0.8)


def random_facts(random: Random, setting: Setting, most: int = 2) -> Instance:
    values = [0, 1, 1, 0, 2, None]
    found: Instance = frozenset()
    for name, width in setting.sources.items():
        for _ in range(random.randint(0, most)):
            row = tuple(random.choice(values) for _ in range(width))
            if setting.fits(found | {(name, row)}):
                found |= {(name, row)}
    return found


# SQL


def select(query: Query, prefix: str = "") -> str:
    places: dict[str, list[str]] = {}
    conditions = []
    for at, (_, terms) in enumerate(query.atoms, 1):
        for column, term in zip(COLUMNS, terms, strict=False):
            if isinstance(term, str):
                places.setdefault(term, []).append(f"t{at}.{column}")
            else:
                conditions.append(f"t{at}.{column} = {term}")
    for first, *others in places.values():
        conditions += [f"{first} = {other}" for other in others]
    conditions += [f"{places[n][0]} {operator} {limit}" for n, operator, limit in query.comparisons]
    tables = ", ".join(f"{prefix}{name} t{at}" for at, (name, _) in enumerate(query.atoms, 1))
    shown = ", ".join(f"{places[name][0]} AS {name}" for name in query.head)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {shown} FROM {tables}{where}"


def statements_of(setting: Setting) -> str:
    foreign = any(each.target.atoms[0][0] == "s" for each in setting.inner)
    refers = ", FOREIGN KEY (b) REFERENCES s (a)" if foreign else ""
    found = [
        f"CREATE TABLE r (a INT, b INT{refers})",
        "CREATE TABLE s (a INT, b INT)",
        "CREATE TABLE t (a INT)",
    ]
    for each in setting.inner:
        if each.target.atoms[0][0] == "v":
            told = select(each.told, "mediated.")
            found.append(f"CREATE VIEW v (a, b) AS {told}")
    for at, each in enumerate(setting.descriptions):
        name = each.told.atoms[0][0]
        if each.is_source_view:
            listed = ", ".join(COLUMNS[: len(each.told.head)])
            found.append(f"CREATE SOURCE VIEW {name} ({listed}) AS {select(each.target)}")
        else:
            told = select(each.told)
            found.append(f"CREATE SOURCE VIEW d{at} FROM ({told}) AS {select(each.target)}")
    return ";\n".join(found)


def schema_of(text: str) -> MediatedSchema:
    read = (read_statement(each, "schema.sql") for each in read_statements(text, "schema.sql"))
    found, mistakes = MediatedSchema.of(read)
    assert not mistakes, mistakes
    return found


def relations_of(setting: Setting) -> tuple[Relation, ...]:
    return tuple(
        Relation(
            name,
            name.partition(".")[0],
            Schema.of((c, INT) for c in COLUMNS[:width]),
            ("a",) if name in setting.keyed else (),
        )
        for name, width in setting.sources.items()
    )


def answer_of(setting: Setting) -> Answer:
    schema = schema_of(statements_of(setting))
    query = " UNION ".join(select(each, "mediated.") for each in setting.query)
    return bind(schema, schema.read_in(query), relations_of(setting)).answer(query)


def state_of(setting: Setting, facts: Instance) -> dict[str, Rows]:
    return {
        relation.name: Rows.of(relation.schema, [row for n, row in facts if n == relation.name])
        for relation in relations_of(setting)
    }
