"""What the conformance suite needs of a kind of source: a real database and ways to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Value
from headwater.protocol.transactions import Transaction
from headwater.sources.contract import Source


class Writer(Protocol):
    """A client of the database, as an application would be; used by one thread.

    Statements have `?` where a parameter goes. Outside `transaction` each statement commits
    by itself.
    """

    def execute(self, statement: str, parameters: Sequence[Value] = ()) -> None: ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commits at the end, or rolls back when the body raises."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Inside a transaction: undone when the body raises."""
        ...

    def close(self) -> None: ...


class Harness(Protocol):
    """One real database, empty at first."""

    kind: str

    def create_table(self, name: str, schema: Schema, key: Sequence[str] = ()) -> None:
        """A table whose columns have the given types, quoted exactly as named."""
        ...

    def source(self, relations: Sequence[str], **settings: object) -> Source:
        """The source over these tables; not set up yet."""
        ...

    def writer(self) -> Writer: ...

    def contents(self, name: str) -> Mapping[tuple[Value, ...], int]:
        """A table's rows in canonical form, with their counts, read past Headwater."""
        ...

    def close(self) -> None:
        """Stop the database, whatever happened, and remove its files."""
        ...


def local(transaction: Transaction) -> dict[str, Rows]:
    """A transaction's net changes by the names that relations have in their source."""
    return {name.partition(".")[2]: delta for name, delta in transaction.deltas.items()}
