"""Engines on which the law suite runs: whatever has the operations of `Rows`.

`Frame` lists them. To hold another engine to the laws, add it to `ENGINES`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.algebra.evaluate import evaluate
from headwater.algebra.expressions import Expression
from headwater.algebra.rows import Equality, Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Query
from headwater.algebra.values import Row


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


ENGINES: dict[str, Engine] = {"plain": PlainEngine()}
