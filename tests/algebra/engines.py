"""Engines on which the law suite runs: whatever has the operations of `Rows`.

`Frame` lists them. To hold another engine to the laws, add it to `ENGINES`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow

from headwater.algebra.evaluate import evaluate
from headwater.algebra.expressions import Expression
from headwater.algebra.rows import Equality, Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Bound, Query, Term
from headwater.algebra.values import Row
from headwater.frames import frame as frames
from headwater.frames.columns import Columns
from tests.spark import shared_session


class Frame(Protocol):
    """The operations that obey the laws."""

    def __add__(self, other: Any) -> "Frame": ...
    def __sub__(self, other: Any) -> "Frame": ...
    def __neg__(self) -> "Frame": ...
    def scaled(self, factor: int) -> "Frame": ...
    def select(self, condition: Expression) -> "Frame": ...
    def project(self, schema: Schema, outputs: Sequence[Expression]) -> "Frame": ...
    def join(self, other: Any, on: Sequence[Equality] = ()) -> "Frame": ...
    def key_delete(self, columns: Sequence[str], keys: Iterable[Row]) -> "Frame": ...
    def among(self, other: Any) -> "Frame": ...
    def positive(self) -> "Frame": ...
    def renamed(self, schema: Schema) -> "Frame": ...


class Engine(Protocol):
    def from_rows(self, rows: Rows) -> Frame: ...
    def to_rows(self, frame: Any) -> Rows: ...
    def evaluate(self, query: Query, state: Mapping[str, Rows], schema: Schema) -> Rows: ...


@dataclass(frozen=True)
class PlainEngine:
    """The engine in memory: its frames are `Rows` themselves."""

    def from_rows(self, rows: Rows) -> Frame:
        return rows

    def to_rows(self, frame: Any) -> Rows:
        assert isinstance(frame, Rows)
        return frame

    def evaluate(self, query: Query, state: Mapping[str, Rows], schema: Schema) -> Rows:
        return evaluate(query, state, schema)


@dataclass(frozen=True)
class ArrowEngine:
    """Arrow: rows of an odd number come in parts that add up."""

    def from_rows(self, rows: Rows) -> Columns:
        columns = Columns.of_rows(rows)
        if len(rows) % 2 == 0:
            return columns
        less = Columns.of_rows(-rows)
        halves = pyarrow.concat_tables([columns.table, columns.table, less.table])
        return Columns(rows.schema, halves)

    def to_rows(self, frame: Any) -> Rows:
        assert isinstance(frame, Rows)
        return Rows(frame.schema, dict(frame.items()))

    def evaluate(self, query: Query, state: Mapping[str, Rows], schema: Schema) -> Rows:
        lifted = {name: self.from_rows(rows) for name, rows in state.items()}
        terms = tuple(_lifted(term, self.from_rows) for term in query)
        return self.to_rows(evaluate(terms, lifted, schema))


@dataclass(frozen=True)
class SparkEngine:
    """Spark: rows of an odd number come as a DataFrame of which nothing is known."""

    _answers: dict[object, Rows] = field(default_factory=dict)
    """Queries that were answered already; laws about all orders ask the same again and again."""

    def from_rows(self, rows: Rows) -> frames.Frame:
        frame = frames.Frame.of_rows(shared_session(), rows)
        if len(rows) % 2 == 0:
            return frame
        return frames.Frame.of_dataframe(frame.dataframe, rows.schema, signed=True)

    def to_rows(self, frame: Any) -> Rows:
        if isinstance(frame, Rows) and not isinstance(frame, frames.Frame):
            assert not frame, "only what is known to be empty needs no Spark"
            return frame
        assert isinstance(frame, frames.Frame)
        return frame.collected()

    def evaluate(self, query: Query, state: Mapping[str, Rows], schema: Schema) -> Rows:
        asked = query, tuple(sorted(state.items(), key=lambda item: item[0])), schema
        if asked not in self._answers:
            lifted = {name: self.from_rows(rows) for name, rows in state.items()}
            terms = tuple(_lifted(term, self.from_rows) for term in query)
            self._answers[asked] = (
                self.to_rows(evaluate(terms, lifted, schema)) if terms else Rows.empty(schema)
            )
        return self._answers[asked]


def _lifted(term: Term, lift: Callable[[Rows], Rows]) -> Term:
    factors = (
        Bound(factor.at, lift(factor.rows)) if isinstance(factor, Bound) else factor
        for factor in term.factors
    )
    return replace(term, factors=tuple(factors))


ENGINES: dict[str, Engine] = {
    "plain": PlainEngine(),
    "arrow": ArrowEngine(),
    "spark": SparkEngine(),
}
"""The engines to which the laws are applied, one after the other."""
