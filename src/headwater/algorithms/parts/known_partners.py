"""What an insertion changes, told by the view alone, where it shows the partners.

Strobe paper, section 9, item 3. Starting from the inserted row, every other relation must be
reached by an equality with its whole key; the view must show that key, and every column of the
relation that it uses; and it must hold a row with the key value. That row then shows the one
base row that the inserted row joins with.

Choices: the paper looks into the view as it was last updated. A row there may have lost its base
row since, by a deletion that is received and not yet applied; the new row would bring it back. So
`contents` is the view with everything applied that was received.

Of the view only the rows are needed that partners are looked up by (`to_look_up`). One that was not
looked up is as one that is not there: the view does not tell then, and is not wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.expressions import columns_of
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Term, bind_delta, query_of
from headwater.algebra.values import Row
from headwater.algebra.views import Join, View
from headwater.protocol.look_ups import LookUp, together


@dataclass(frozen=True)
class _Lookup:
    """How one occurrence is found: its key from known columns, its columns in the view."""

    at: int
    key_from: tuple[str, ...]
    """The columns, known by then, that equal its key."""
    key_positions: tuple[int, ...]
    """Where the view shows the key."""
    shown: tuple[tuple[str, int], ...]
    """The columns that the view needs of it, and where it shows them."""


def known_effect(view: View, contents: Rows, relation: str, inserted: Rows) -> Rows | None:
    """What inserting these rows adds to the view, or None if the view does not tell."""
    if len(view.joins) != 1:
        return None
    (join,) = view.joins
    places = [at for at, o in enumerate(join.occurrences) if o.relation.name == relation]
    lookups = _plan(join, places[0]) if len(places) == 1 else None
    if lookups is None:
        return None
    (term,) = query_of(view)
    parts = []
    for row, count in inserted.items():
        bound = bind_delta(term, places[0], Rows(inserted.schema, {row: count}))
        names = join.occurrences[places[0]].schema.names
        found = _bind_partners(bound, dict(zip(names, row, strict=True)), lookups, contents)
        if found is None:
            return None
        parts.append(evaluate_term(found, {}) if found.base == () else Rows.empty(view.schema))
    return Rows.sum(view.schema, parts)


def to_look_up(
    view: View, contents: Rows, looked_up: Iterable[LookUp], relation: str, inserted: Rows
) -> tuple[LookUp, ...]:
    """What else has to be looked up in the view to find the partners of these rows."""
    if len(view.joins) != 1:
        return ()
    (join,) = view.joins
    places = [at for at, o in enumerate(join.occurrences) if o.relation.name == relation]
    lookups = _plan(join, places[0]) if len(places) == 1 else None
    if not lookups:
        return ()
    done = {(look_up.columns, key) for look_up in looked_up for key in look_up.keys}
    names = join.occurrences[places[0]].schema.names
    found = []
    for row in inserted:
        known = dict(zip(names, row, strict=True))
        for lookup in lookups:
            key = tuple(known[name] for name in lookup.key_from)
            partner = _row_with(contents, lookup.key_positions, key)
            if None in key or partner is None:
                columns = tuple(view.schema.names[at] for at in lookup.key_positions)
                if None not in key and (columns, key) not in done:
                    found.append(LookUp(columns, frozenset({key})))
                break
            known |= {name: partner[at] for name, at in lookup.shown}
    return together(found)


def _bind_partners(
    term: Term, known: dict[str, object], lookups: tuple[_Lookup, ...], contents: Rows
) -> Term | None:
    """The term with every partner bound; unchanged if a NULL joins nothing; None: not told."""
    bound = term
    for lookup in lookups:
        key = tuple(known[name] for name in lookup.key_from)
        if None in key:
            return term
        row = _row_with(contents, lookup.key_positions, key)
        if row is None:
            return None
        values = {name: row[at] for name, at in lookup.shown}
        known |= values
        schema = term.occurrence(lookup.at).schema.only(tuple(values))
        bound = bound.bind((lookup.at,), Rows(schema, {tuple(values.values()): 1}))
    return bound


def _row_with(contents: Rows, positions: tuple[int, ...], key: tuple[object, ...]) -> Row | None:
    return next(
        (
            row
            for row, count in contents.items()
            if count > 0 and tuple(row[at] for at in positions) == key
        ),
        None,
    )


def _plan(join: Join, start: int) -> tuple[_Lookup, ...] | None:
    """An order in which every other occurrence is found by key, or None."""
    known = set(join.occurrences[start].schema.names)
    left = [at for at in range(len(join.occurrences)) if at != start]
    plan: list[_Lookup] = []
    while left:
        lookup = next((found for at in left if (found := _lookup(join, at, known))), None)
        if lookup is None:
            return None
        plan.append(lookup)
        known |= {name for name, _ in lookup.shown}
        left.remove(lookup.at)
    return tuple(plan)


def _lookup(join: Join, at: int, known: set[str]) -> _Lookup | None:
    occurrence = join.occurrences[at]
    key_from = join.key_from(at, known)
    positions = join.output_positions(at, occurrence.relation.key)
    shown = _shown(join, at)
    if key_from is None or positions is None or shown is None:
        return None
    return _Lookup(at, key_from, positions, shown)


def _shown(join: Join, at: int) -> tuple[tuple[str, int], ...] | None:
    """Where the view shows each column of an occurrence that it uses; None if one is missing."""
    needed = frozenset[str]().union(
        *(columns_of(expression) for expression in (*join.condition, *join.outputs))
    )
    found = []
    occurrence = join.occurrences[at]
    for column in occurrence.relation.schema.names:
        name = f"{occurrence.alias}.{column}"
        if name not in needed:
            continue
        positions = join.output_positions(at, (column,))
        if positions is None:
            return None
        found.append((name, positions[0]))
    return tuple(found)
