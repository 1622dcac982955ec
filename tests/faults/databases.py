"""What a round does with a database, of whatever kind.

Everything here is done as an application or an administrator would, by plain drivers; nothing of
Headwater's is used.
"""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from tests.faults.commands import FaultError
from tests.faults.schemas import Schema, Table, Value, create_table, quoted
from tests.faults.statements import Statement, Transaction


class Database(ABC):
    """One source of a world, from the side of its owner."""

    kind: ClassVar[str]
    dialect: ClassVar[str]

    def __init__(self, source: str, schema: Schema) -> None:
        self.source = source
        self.schema = schema
        self.is_down = False
        self.is_unordered = False
        """Whether the order of its commits cannot be known, so that no view is complete."""
        self.remembered: Schema | None = None
        """The tables as they were when a copy was made; None if there is no copy."""

    def create(self) -> None:
        """Make the tables; what the database does not take is left out."""
        for table in self.schema.tables.values():
            self.execute(create_table(table))
        self.execute(*self.schema.triggers)

    @abstractmethod
    def settings(self) -> list[str]:
        """What headwater.toml says of it, besides its relations."""

    @abstractmethod
    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """An application's connection."""

    def apply(self, transaction: Transaction) -> int:
        """Carry it out as far as the database allows; how many statements it took."""
        with self.session() as session:
            return session.apply(transaction)

    def execute(self, *statements: str) -> None:
        with self.session() as session:
            for statement in statements:
                session.execute(Statement(statement))

    def attempt(self, *statements: str) -> bool:
        """Carry out all of them, or none where the database refuses one."""
        with self.session() as session:
            return session.attempt([Statement(text) for text in statements])

    def select(self, query: str) -> list[tuple[Any, ...]]:
        with self.session() as session:
            return session.select(query)

    def rows(self, table: Table, columns: Sequence[str]) -> list[tuple[Value, ...]]:
        """A table's contents, by the driver, each value in one form."""
        names = ", ".join(map(quoted, columns))
        kinds = [table.column(name).kind for name in columns]
        found = self.select(f"SELECT {names} FROM {quoted(table.name)}")
        return [tuple(map(canonical, row, kinds)) for row in found]

    @abstractmethod
    def down(self) -> None: ...

    @abstractmethod
    def up(self) -> None: ...

    @abstractmethod
    def move(self) -> None:
        """Give it another name or place."""

    @abstractmethod
    def remember(self) -> None:
        """Make a copy, as a backup does."""

    @abstractmethod
    def restore(self) -> None:
        """Put the copy in the place of what is there."""

    @abstractmethod
    def close(self) -> None: ...


class Session(ABC):
    """A connection that commits by itself outside BEGIN."""

    refusals: ClassVar[tuple[type[Exception], ...]]

    @abstractmethod
    def execute(self, statement: Statement) -> None: ...

    @abstractmethod
    def select(self, query: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def begin(self) -> None: ...

    def check(self, error: Exception) -> None:
        """Applications hear only what the database has against their statements."""
        if not isinstance(error, self.refusals) or "_headwater_" in str(error):
            raise FaultError(f"an application's statement failed: {error}") from error

    def attempt(self, statements: Sequence[Statement]) -> bool:
        return self.apply(Transaction(tuple(statements))) == len(statements)

    def apply(self, transaction: Transaction) -> int:
        done = 0
        self.begin()
        try:
            for statement in transaction.statements:
                if transaction.savepoints:
                    done += self._apply_behind_savepoint(statement)
                else:
                    self.execute(statement)
                    done += 1
            self._say("COMMIT" if transaction.commits else "ROLLBACK")
        except Exception as error:
            with contextlib.suppress(sqlite3.OperationalError):  # it has rolled back by itself
                self._say("ROLLBACK")
            self.check(error)
            return 0
        return done if transaction.commits else 0

    def _apply_behind_savepoint(self, statement: Statement) -> int:
        self._say("SAVEPOINT s")
        try:
            self.execute(statement)
        except Exception as error:
            self.check(error)
            self._say("ROLLBACK TO SAVEPOINT s")
            self._say("RELEASE SAVEPOINT s")
            return 0
        self._say("RELEASE SAVEPOINT s")
        return 1

    def _say(self, text: str) -> None:
        self.execute(Statement(text))


def canonical(value: Any, kind: str) -> Value:
    """A value as either driver gives it, in the one form that Headwater shows it in."""
    if value is None:
        return None
    match kind:
        case "bool":
            return bool(value)
        case "decimal":
            return Decimal(str(value)).quantize(Decimal("0.01"))
        case "float":
            return float(value) + 0.0
        case "text":
            return str(value).rstrip(" ")
        case "bytes":
            return bytes(value)
        case "date":
            return date.fromisoformat(value) if isinstance(value, str) else value
        case "timestamp" | "timestamp_tz":
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            if kind == "timestamp_tz":  # sessions that give none are in UTC
                return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
            return moment
        case _:
            return value  # type: ignore[no-any-return]
