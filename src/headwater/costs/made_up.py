"""Made-up rows: transactions as they are expected, and answers in which one row stands for many.

A row's count says how many rows it stands for, in millionths, so that a join that finds half a row
is told apart from one that finds none. Values are all different, except where conditions equate
them: an answer joins with what was asked for, and concurrent changes do not meet by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from headwater.algebra.expressions import ColumnRef, Expression
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.terms import Query, Term
from headwater.algebra.values import Row, Value
from headwater.algebra.views import Join, View, equated_columns
from headwater.costs.expected import FromStatistics, equated
from headwater.costs.statistics import Statistics, column_bytes
from headwater.protocol.look_ups import LookUp
from headwater.protocol.transactions import Transaction, Update

ONE = 1_000_000
"""The count of a row that stands for itself."""
_FEWEST = 1e-3


@dataclass(frozen=True)
class Answer:
    """The rows of an answer, and how many bytes those that they stand for have."""

    rows: Rows
    bytes: float
    count: float


class MadeUp:
    """Transactions on and answers from relations of which only statistics are known."""

    def __init__(self, view: View, original: View, statistics: Statistics) -> None:
        self._view, self._statistics = view, statistics
        self._expected = FromStatistics(original, statistics)
        self._original = {relation.name: relation for relation in original.relations}
        self._values = count(1)
        self._owed = 0.5

    # What happens

    def transaction(self, number: int, relation: Relation, kind: str) -> Transaction:
        """One row that comes, goes, or becomes another with the same key and partners."""
        fresh: Row = tuple(next(self._values) for _ in relation.schema.names)
        match kind:
            case "inserts":
                counts = {fresh: ONE}
            case "deletes":
                counts = {fresh: -ONE}
            case _:
                counts = {fresh: -ONE, self._updated(relation, fresh): ONE}
        update = Update(relation.name, Rows(relation.schema, counts))
        source = (relation.source,)
        return Transaction(f"{relation.source}:{number}", (update,), source, source)

    def _updated(self, relation: Relation, row: Row) -> Row:
        """With another value in a column that neither the key nor a join has, if there is one."""
        fixed = set(relation.key) | self._joined(relation)
        for at, name in enumerate(relation.schema.names):
            if name not in fixed:
                return (*row[:at], next(self._values), *row[at + 1 :])
        return (*row[:-1], next(self._values))

    def _joined(self, relation: Relation) -> set[str]:
        """The columns of a relation that conditions equate with others."""
        found = set()
        for join in self._view.joins:
            for pair in filter(None, map(equated_columns, join.condition)):
                for name in pair:
                    occurrence = join.occurrences[join.owner[name]]
                    if occurrence.relation.name == relation.name:
                        found.add(name.removeprefix(f"{occurrence.alias}."))
        return found

    # What sources answer

    def answer(self, query: Query) -> Answer:
        parts = [self._term(term) for term in query]
        schema = query[0].join.schema
        return Answer(
            Rows.sum(schema, [part.rows for part in parts]),
            sum(part.bytes for part in parts),
            sum(part.count for part in parts),
        )

    def _term(self, term: Term) -> Answer:
        counts: dict[Row, int] = {}
        stands_for = 0.0
        for known, number, scale in _known(term):
            values, rows = self._with_partners(term, dict(known), abs(number) / scale)
            row = tuple(_value(output, values) for output in term.join.outputs)
            sign = (1 if number > 0 else -1) * term.coefficient
            counts[row] = counts.get(row, 0) + sign * max(1, round(rows * scale))
            stands_for += rows
        width = sum(self._width(term.join, output) for output in term.join.outputs)
        return Answer(Rows(term.join.schema, counts), width * stands_for, stands_for)

    def _with_partners(
        self, term: Term, values: dict[str, Value], rows: float
    ) -> tuple[dict[str, Value], float]:
        """Values of all columns of a joined row, and how many rows there would be."""
        left = list(term.base)
        while left:
            at = next((at for at in left if equated(term.join, at, values)), left[0])
            left.remove(at)
            rows *= max(_FEWEST, self._expected.partners(term.join, at, values))
            for name in term.occurrence(at).schema.names:
                values[name] = _equal_value(term.join, name, values, self._values)
        return values, rows

    def _width(self, join: Join, output: Expression) -> float:
        if not isinstance(output, ColumnRef) or output.name not in join.owner:
            return 8.0
        occurrence = join.occurrences[join.owner[output.name]]
        relation = self._original[occurrence.relation.name]
        column = output.name.removeprefix(f"{occurrence.alias}.")
        return column_bytes(relation, column, self._statistics.relation(relation.name))

    # What the view holds

    def view_rows(self) -> float:
        """About how many rows the view has."""
        return max(1.0, sum(self._rows_of(join) for join in self._view.joins))

    def _rows_of(self, join: Join) -> float:
        """Beginning with the largest relation, so that keys are followed and not turned round."""
        sizes = [self._statistics.relation(o.relation.name).rows for o in join.occurrences]
        start = max(range(len(sizes)), key=lambda at: sizes[at])
        known: dict[str, Value] = dict.fromkeys(join.occurrences[start].schema.names, 0)
        rows, left = sizes[start], [at for at in range(len(sizes)) if at != start]
        while left:
            at = next((at for at in left if equated(join, at, known)), left[0])
            left.remove(at)
            rows *= self._expected.partners(join, at, known)
            known |= dict.fromkeys(join.occurrences[at].schema.names, 0)
        return rows

    def looked_up(self, wanted: tuple[LookUp, ...]) -> Rows:
        """Rows of the view with the keys that are looked up, where it is likely to have some."""
        counts = {}
        for look_up in wanted:
            for key in sorted(look_up.keys):
                self._owed += self._likely(look_up.columns)
                if self._owed >= 1:
                    self._owed -= 1
                    counts[self._view_row(look_up.columns, key)] = 1
        return Rows(self._view.schema, counts)

    def _likely(self, columns: tuple[str, ...]) -> float:
        """How likely the view has a row with a key of these columns."""
        (join,) = self._view.joins
        for at, occurrence in enumerate(join.occurrences):
            shown = join.output_positions(at, occurrence.relation.key)
            if shown and tuple(self._view.schema.names[p] for p in shown) == columns:
                rows = self._statistics.relation(occurrence.relation.name).rows
                return 1 - float(2.718281828 ** -(self.view_rows() / max(1.0, rows)))
        return 0.0

    def _view_row(self, columns: tuple[str, ...], key: Row) -> Row:
        (join,) = self._view.joins
        values: dict[str, Value] = {}
        for name, value in zip(columns, key, strict=True):
            output = join.outputs[self._view.schema.positions[name]]
            if isinstance(output, ColumnRef):
                values[output.name] = value
        for name in join.owner:
            values[name] = _equal_value(join, name, values, self._values)
        return tuple(_value(output, values) for output in join.outputs)


def _known(term: Term) -> Iterator[tuple[dict[str, Value], int, int]]:
    """The rows that travel along, joined with each other, with their counts and their scale."""
    found: list[tuple[dict[str, Value], int, int]] = [({}, 1, 1)]
    if not term.bound:
        found = [({}, ONE, ONE)]
    for factor in term.bound:
        names = factor.rows.schema.names
        grown = []
        for values, number, scale in found:
            for row, more in factor.rows.items():
                joined = {**values, **dict(zip(names, row, strict=True))}
                if _agrees(term.join, joined):
                    grown.append(_multiplied(joined, (number, scale), more))
        found = grown
    yield from found


def _multiplied(
    values: dict[str, Value], known: tuple[int, int], more: int
) -> tuple[dict[str, Value], int, int]:
    number, scale = known
    if abs(more) == 1:  # a key that is sent by itself stands for no number of rows
        return values, number * more, scale
    if scale == 1:
        return values, number * more, ONE
    return values, number * more // ONE or 1, scale


def _agrees(join: Join, values: Mapping[str, Value]) -> bool:
    for a, b in filter(None, map(equated_columns, join.condition)):
        if a in values and b in values and values[a] != values[b]:
            return False
    return True


def _equal_value(join: Join, name: str, values: Mapping[str, Value], fresh: count[int]) -> Value:
    if name in values:
        return values[name]
    equal = next((other for other in values if join.same_column(other, name)), None)
    return values[equal] if equal is not None else next(fresh)


def _value(output: Expression, values: Mapping[str, Value]) -> Value:
    return values.get(output.name, 0) if isinstance(output, ColumnRef) else 0
