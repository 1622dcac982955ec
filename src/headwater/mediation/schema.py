"""The mediated schema of a project by names: its relations, and what tells of them.

Until the columns of sources are known, names are all there is: which tables of sources a mediated
relation may be told by (`tables_behind`), and that nothing is told in a circle. With them `binding`
makes rules of descriptions.

In queries mediated relations are those of a source called `mediated`, which may be left out.

Choices. A foreign key is a description like others, so that foreign keys which lead back to their
own relation are a circle, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from headwater.algebra.sql.functions import NONE, Functions, telling_of
from headwater.algebra.sql.names import closest_first
from headwater.algebra.sql.sources import TableName
from headwater.algebra.sql.view import tables_of
from headwater.errors import InputError
from headwater.mediation.circles import Step, circle_of
from headwater.mediation.statements import (
    ForeignKey,
    Place,
    SourceStatement,
    Statement,
    TableStatement,
    ViewStatement,
)

SOURCE = "mediated"
"""What mediated relations are relations of."""


@dataclass(frozen=True)
class MediatedSchema:
    """Everything that the files of a schema say, found sound as far as names go."""

    tables: Mapping[str, TableStatement] = field(default_factory=dict)
    """By their names in small letters."""
    views: tuple[ViewStatement, ...] = ()
    sources: tuple[SourceStatement, ...] = ()
    functions: Functions = NONE

    @classmethod
    def of(
        cls, statements: Iterable[Statement], functions: Functions = NONE
    ) -> tuple[MediatedSchema, list[InputError]]:
        """The schema of some statements without those that are wrong, and what is wrong."""
        mistakes: list[InputError] = []
        tables: dict[str, TableStatement] = {}
        views: list[ViewStatement] = []
        sources: list[SourceStatement] = []
        for statement in statements:
            match statement:
                case TableStatement():
                    first = tables.setdefault(statement.name.lower(), statement)
                    if first is not statement:
                        mistakes.append(_twice(statement.name, statement.place, first.place))
                case ViewStatement():
                    views.append(statement)
                case SourceStatement():
                    sources.append(statement)
        seen: dict[str, ViewStatement] = {}
        for view in views:
            other = seen.setdefault(view.name.lower(), view)
            if other is not view and view.name.lower() not in tables:
                mistakes.append(_twice(view.name, view.place, other.place))
        found = cls(tables, tuple(views), tuple(sources), functions)
        mistakes += found._checked()
        return found, list({str(each): each for each in mistakes}.values())

    def __bool__(self) -> bool:
        return bool(self.tables or self.views or self.sources)

    # Names

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The mediated relations as they are spelled, by their names in small letters."""
        found = {view.name.lower(): view.name for view in reversed(self.views)}
        return {**found, **{name: table.name for name, table in self.tables.items()}}

    def meant(self, table: TableName) -> str | None:
        """The mediated relation that a query names, if it is one."""
        if table.within or table.source.lower() not in ("", SOURCE):
            return None
        return self.names.get(table.name.lower())

    def read_in(self, sql: str) -> tuple[str, ...]:
        """The mediated relations that a query names."""
        found = (self.meant(table) for table in tables_of(sql, self.functions))
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def tables_behind(self, name: str) -> tuple[TableName, ...]:
        """The tables of sources by which rows of a mediated relation may be told."""
        found: dict[TableName, None] = {}
        for statement in self.telling([name]):
            for table in self._told_tables(statement):
                if self.meant(table) is None:
                    found.setdefault(table)
        return tuple(found)

    @cached_property
    def _described(self) -> Mapping[str, tuple[ViewStatement | SourceStatement, ...]]:
        """What tells rows of each mediated relation, and what its columns are known by."""
        found: dict[str, list[ViewStatement | SourceStatement]] = {n: [] for n in self.names}
        for view in self.views:
            found[view.name.lower()].append(view)
        for source in self.sources:
            for name in self.read_in(source.target):
                found[name.lower()].append(source)
        return {name: tuple(each) for name, each in found.items()}

    def telling(self, names: Iterable[str]) -> tuple[ViewStatement | SourceStatement, ...]:
        """Every description by which rows of these relations come about, in some steps."""
        found: dict[ViewStatement | SourceStatement, None] = {}
        for name in self.behind(names):
            for statement in self._described[name]:
                found.setdefault(statement)
        return tuple(found)

    def behind(self, names: Iterable[str]) -> tuple[str, ...]:
        """These mediated relations and those whose rows tell of them, in small letters.

        One without CREATE TABLE that a description names has its columns from its views.
        """
        left, seen = [name.lower() for name in names], dict[str, None]()
        while left:
            name = left.pop(0)
            if name in seen:
                continue
            seen[name] = None
            left += [step.by.lower() for step in self.steps if step.to.lower() == name]
            for source in self._described[name]:
                if isinstance(source, SourceStatement):
                    mentioned = map(str.lower, self.read_in(source.target))
                    left += [other for other in mentioned if other not in self.tables]
        return tuple(seen)

    def _told_tables(self, statement: ViewStatement | SourceStatement) -> tuple[TableName, ...]:
        if statement.told is not None:
            return tables_of(statement.told, self.functions)
        assert isinstance(statement, SourceStatement)
        source, *within, name = statement.name
        at, quoted = (statement.place.line, statement.place.column), statement.quoted
        return (TableName(source, name, *at, "".join(within), "", quoted[-1], quoted[-2]),)

    @property
    def statements(self) -> tuple[ViewStatement | SourceStatement, ...]:
        """What tells rows, in the order in which it is used."""
        return (*self.views, *self.sources)

    @property
    def source_tables(self) -> tuple[tuple[Place, TableName], ...]:
        """Every table of a source that is described, and where."""
        return tuple(
            (replace(s.place, line=table.line, column=table.column), table)
            for s in self.statements
            for table in self._told_tables(s)
            if self.meant(table) is None
        )

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Which mediated relations are told by others."""
        found = []
        for view in self.views:
            for name in self.read_in(view.told):
                found.append(Step(view.name, name, f"view {view.name}", view.place))
        for table in self.tables.values():
            for key in table.foreign_keys:
                found.append(
                    Step(key.refers_to, table.name, f"a foreign key of {table.name}", key.place)
                )
        return tuple(found)

    # Checking

    def _checked(self) -> list[InputError]:
        """What is wrong with names, whatever sources have."""
        found: list[InputError] = []
        for statement in self.statements:
            for sql in filter(None, (statement.told, _target(statement))):
                try:
                    with telling_of(statement.place.file):
                        tables_of(sql, self.functions)
                except InputError as error:
                    found.append(error)
        if found:
            return found
        for source in self.sources:
            found += self._target_mistakes(source)
        for table in self.tables.values():
            for key in table.foreign_keys:
                try:
                    self.referred(key)
                except InputError as error:
                    found.append(error)
        circle = circle_of(self.steps)
        return found or ([] if circle is None else [circle])

    def _target_mistakes(self, source: SourceStatement) -> Iterator[InputError]:
        for table in tables_of(source.target, self.functions):
            if self.meant(table) is None:
                written = ".".join(filter(None, (table.source, table.within, table.name)))
                listed = closest_first(table.name, self.names.values()) or "none"
                place = replace(source.place, line=table.line, column=table.column)
                yield InputError(
                    f"{place}: {written} is no mediated relation, and behind AS source view "
                    f"{source.title} is described by these.",
                    f"There are: {listed}. Tables of sources stand behind FROM (SELECT ...).",
                )
        for table in tables_of(source.told, self.functions) if source.told else ():
            if (name := self.meant(table)) is not None:
                place = replace(source.place, line=table.line, column=table.column)
                yield InputError(
                    f"{place}: {name} is a mediated relation, and behind FROM stand tables of "
                    "sources.",
                    f"Write source.{table.name} if you mean one; a relation that others tell of is "
                    "a CREATE VIEW.",
                )

    def referred(self, key: ForeignKey) -> TableStatement:
        table = self.tables.get(key.refers_to.lower())
        if table is None:
            listed = closest_first(key.refers_to, (t.name for t in self.tables.values()))
            raise InputError(
                f"{key.place}: there is no mediated table {key.refers_to} to refer to.",
                f"Tables: {listed or 'none'}.",
            )
        columns = key.to_columns or table.key
        names = [name.lower() for name, _ in table.columns]
        wrong = [column for column in columns if column.lower() not in names]
        if wrong or len(columns) != len(key.columns):
            raise InputError(
                f"{key.place}: {', '.join(key.columns)} cannot refer to "
                f"{', '.join(columns) or 'no column'} of {table.name}.",
                "Name as many columns that it has: REFERENCES name (column, ...).",
            )
        return table


def _target(statement: ViewStatement | SourceStatement) -> str | None:
    return statement.target if isinstance(statement, SourceStatement) else None


def _twice(name: str, place: Place, first: Place) -> InputError:
    return InputError(
        f"{place}: mediated relation {name} is described in {first} already.",
        "One CREATE TABLE says which columns it has; then several CREATE VIEW may tell its rows.",
    )


NO_SCHEMA = MediatedSchema()
