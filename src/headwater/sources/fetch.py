"""How a question becomes reads at a database: wide there, exact here.

A database compares values in its own way (collations, padding, division), so it only
pre-filters: by equality with the join values that are known, by joins between its own
relations, and by comparisons with constants, each only where the kind of source says that its
comparison finds at least what Headwater's would. The term is then evaluated by Headwater on
what came back. Only columns that the term needs are read; values are always parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, columns_of
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Schema
from headwater.algebra.terms import Query, Term
from headwater.algebra.values import Row, Type, Value, sort_key
from headwater.sources.contract import Lift, as_it_is


@dataclass(frozen=True)
class FromItem:
    """A base relation, by the name it has in its source, under its alias in the statement."""

    alias: str
    relation: str


@dataclass(frozen=True)
class Ref:
    """A column of one of the relations in a statement."""

    alias: str
    column: str
    type: Type


@dataclass(frozen=True)
class Far:
    """Rows that Spark holds, too many to be brought here, and the columns that have the values."""

    rows: Rows
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Keys:
    """The only values that some columns may have together; no NULLs, each once."""

    columns: tuple[Ref, ...]
    values: tuple[Row, ...]
    far: Far | None = None
    """Where the values are instead, if they are not here."""


@dataclass(frozen=True)
class Fetch:
    """One statement: base relations joined at the source, filtered, some columns of them."""

    items: tuple[FromItem, ...]
    columns: tuple[Ref, ...]
    """What is read, in this order; empty when only the number of rows matters."""
    joins: tuple[tuple[Ref, str, Ref], ...]
    filters: tuple[tuple[Ref, str, Value], ...]
    keys: tuple[Keys, ...]
    schema: Schema


MOST_KEYS = 100_000
"""A statement with more key values than this is cut into several."""

Pushes = Callable[[str, Type], bool]
"""Whether a kind of source may decide a comparison (=, <, <=, >, >=) of two values of a type."""
Run = Callable[[Fetch], Rows]
Spread = Callable[[Fetch, Far], Rows]
"""Executes a statement for keys that are far, where they are."""
Apart = Callable[[str, str], bool]
"""Whether a source cannot compare a column, named after its relation, with other columns."""


def none_apart(relation: str, column: str) -> bool:
    return False


def answer_query(
    query: Query,
    run: Run,
    pushes: Pushes,
    lift: Lift = as_it_is,
    apart: Apart = none_apart,
    spread: Spread | None = None,
) -> Rows:
    """Evaluate a query; `run` and `spread` execute statements, all in one snapshot."""
    answers = [answer_term(term, run, pushes, lift, apart, spread) for term in query]
    return Rows.sum(query[0].join.schema, answers)


def answer_term(
    term: Term,
    run: Run,
    pushes: Pushes,
    lift: Lift = as_it_is,
    apart: Apart = none_apart,
    spread: Spread | None = None,
) -> Rows:
    if any(not factor.rows for factor in term.bound):
        return Rows.empty(term.join.schema)
    for places in _components(term, pushes, apart):
        fetch = plan_fetch(term, places, pushes, apart, may_be_far=spread is not None)
        far = next((keys.far for keys in fetch.keys if keys.far is not None), None)
        if spread is not None and far is not None:
            rows = spread(fetch, far)
        else:
            rows = run_in_parts(fetch, run)
        if not rows:
            return Rows.empty(term.join.schema)
        term = term.bind(places, lift(rows))
    return evaluate_term(term, {})


def run_in_parts(fetch: Fetch, run: Run) -> Rows:
    """What a statement finds, however many keys it has."""
    parts = [by_own_keys(run(part), part, fetch) for part in cut(fetch)]
    return parts[0] if len(parts) == 1 else Rows.sum(fetch.schema, parts)


def cut(fetch: Fetch, most_keys: int = MOST_KEYS) -> Iterator[Fetch]:
    """The statement in parts of at most so many key values each, disjoint by key range."""
    for at, keys in enumerate(fetch.keys):
        if len(keys.values) > most_keys:
            keys = replace(keys, values=tuple(sorted(keys.values, key=sort_key)))
            for start in range(0, len(keys.values), most_keys):
                part = replace(keys, values=keys.values[start : start + most_keys])
                rest = (*fetch.keys[:at], part, *fetch.keys[at + 1 :])
                yield from cut(replace(fetch, keys=rest), most_keys)
            return
    yield fetch


def by_own_keys(rows: Rows, part: Fetch, whole: Fetch) -> Rows:
    """Of what a part has found only what our equality finds by the part's own keys.

    A source's equality may be looser, and then another part has found the row as well.
    """
    for keys, all_keys in zip(part.keys, whole.keys, strict=True):
        if keys is not all_keys:
            kinds = [ref.type for ref in keys.columns]
            found = [ColumnRef(f"{ref.alias}.{ref.column}", ref.type) for ref in keys.columns]
            wanted = [ColumnRef(f"key {at}", kind) for at, kind in enumerate(kinds)]
            schema = Schema.of((column.name, column.type) for column in wanted)
            own = Rows(schema, dict.fromkeys(keys.values, 1))
            rows = rows.join(own, list(zip(found, wanted, strict=True))).only(part.schema)
    return rows


def plan_fetch(
    term: Term,
    places: tuple[int, ...],
    pushes: Pushes,
    apart: Apart = none_apart,
    *,
    may_be_far: bool = False,
) -> Fetch:
    """The statement that reads these base occurrences of a term.

    `may_be_far` leaves keys where they are if they are too many to be brought here.
    """
    join = term.join
    needed = frozenset[str]().union(
        *(columns_of(expression) for expression in (*join.condition, *join.outputs))
    )
    columns = [
        column
        for at in places
        for column in join.occurrences[at].schema.columns
        if column.name in needed
    ]
    comparisons = list(_comparisons(join.condition, pushes))
    inside = {c.name for at in places for c in join.occurrences[at].schema.columns}
    return Fetch(
        tuple(
            FromItem(join.occurrences[at].alias, join.occurrences[at].relation.short_name)
            for at in places
        ),
        tuple(_ref(term, column) for column in columns),
        tuple(
            (_ref(term, a), operator, _ref(term, b))
            for a, operator, b in comparisons
            if isinstance(a, ColumnRef)
            and isinstance(b, ColumnRef)
            and {a.name, b.name} <= inside
            and not _is_apart(term, (a, b), apart)
        ),
        tuple(
            (_ref(term, a), operator, b.value)
            for a, operator, b in comparisons
            if isinstance(a, ColumnRef)
            and isinstance(b, Literal)
            and a.name in inside
            and b.value is not None
        ),
        tuple(_keys(term, comparisons, inside, may_be_far)),
        Schema(tuple(columns)),
    )


_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Comparison = tuple[Expression, str, Expression]


def _comparisons(condition: Iterable[Expression], pushes: Pushes) -> Iterable[_Comparison]:
    """Comparisons of a column with a column or a constant that the source may decide.

    Each is given from both sides, so that a reader need only look at the left one.
    """
    for conjunct in condition:
        match conjunct:
            case Call(operator, (a, b)) if operator in _FLIPPED and a.type == b.type:
                if pushes(operator, a.type):
                    yield a, operator, b
                    yield b, _FLIPPED[operator], a


def _keys(
    term: Term, comparisons: list[_Comparison], inside: set[str], may_be_far: bool
) -> Iterable[Keys]:
    """For each bound factor the values that equalities allow; of one at most they may be far."""
    for factor in term.bound:
        known = factor.rows.schema.positions
        pairs = [
            (a, b.name)
            for a, operator, b in comparisons
            if operator == "="
            and isinstance(a, ColumnRef)
            and isinstance(b, ColumnRef)
            and a.name in inside
            and b.name in known
        ]
        if not pairs:
            continue
        refs = tuple(_ref(term, a) for a, _ in pairs)
        names = tuple(name for _, name in pairs)
        if may_be_far and len(set(names)) == len(names) and factor.rows.is_far:
            may_be_far = False
            yield Keys(refs, (), Far(factor.rows, names))
            continue
        values = factor.rows.distinct(names)
        yield Keys(refs, tuple(v for v in values if None not in v))


def _components(term: Term, pushes: Pushes, apart: Apart) -> list[tuple[int, ...]]:
    """The base occurrences, grouped by the comparisons that the source can join them with."""
    groups: list[set[int]] = [{at} for at in term.base]
    for a, _, b in _comparisons(term.join.condition, pushes):
        if not (isinstance(a, ColumnRef) and isinstance(b, ColumnRef)):
            continue
        if _is_apart(term, (a, b), apart):
            continue
        touched = [g for g in groups if g & {term.join.owner[a.name], term.join.owner[b.name]}]
        ends = {term.join.owner[a.name], term.join.owner[b.name]}
        if len(touched) == 2 and ends <= set(term.base):
            merged = touched[0] | touched[1]
            groups = [g for g in groups if g not in touched] + [merged]
    return [tuple(sorted(group)) for group in groups]


def _is_apart(term: Term, columns: Iterable[ColumnRef], apart: Apart) -> bool:
    for column in columns:
        occurrence = term.occurrence(term.join.owner[column.name])
        name = column.name.removeprefix(f"{occurrence.alias}.")
        if apart(occurrence.relation.short_name, name):
            return True
    return False


def _ref(term: Term, column: ColumnRef | Column) -> Ref:
    alias = term.occurrence(term.join.owner[column.name]).alias
    return Ref(alias, column.name.removeprefix(alias + "."), column.type)
