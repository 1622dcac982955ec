"""Which relation or column a name of a view's SQL means.

Names are looked up as in Spark, without regard to case; where that leaves several columns
of one relation, the one that is spelled the same way is meant. A name in double quotes, as in
standard SQL, means only what is spelled the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TypeVar

from headwater.algebra.expressions import ColumnRef, Expression
from headwater.algebra.schema import Relation
from headwater.algebra.sql.text import TEXT_HINT, QuotedName, RefusalError, means
from headwater.algebra.typing_rules import call
from headwater.algebra.views import Occurrence

_SHOWN = 12
_T = TypeVar("_T")


class UnknownNameError(RefusalError):
    """A name that means nothing where it stands."""


def _spelled(name: str, items: Iterable[_T], name_of: Callable[[_T], str]) -> list[_T]:
    """The items that `name` may mean: those spelled alike, else alike but for case."""
    alike = [item for item in items if means(name, name_of(item))]
    exact = [item for item in alike if name_of(item) == name]
    return exact or alike


def closest_first(name: str, candidates: Iterable[str]) -> str:
    """The candidates as a list in words, those most like `name` first."""

    def unlikeness(candidate: str) -> float:
        short = candidate.rpartition(".")[2] if "." not in name else candidate
        return -SequenceMatcher(None, name.lower(), short.lower()).ratio()

    ordered = sorted(dict.fromkeys(candidates), key=unlikeness)
    return ", ".join(ordered[:_SHOWN]) + (", ..." if len(ordered) > _SHOWN else "")


def find_relation(
    name: str, source: str, relations: Sequence[Relation], within: str = ""
) -> Relation:
    """The relation that `name`, `source.name` or `source.within.name` means, or `within.name`."""
    at_source = [r for r in relations if not source or means(source, r.source)]
    if source and not within and not at_source:
        source, within, at_source = "", source, [r for r in relations if r.within]
    found = _within(name, within, at_source)
    written = ".".join(part for part in (source, within, name) if part)
    if len(found) == 1:
        return found[0]
    if not found:
        known = [f"{r.source}.{r.short_name}" if source else r.short_name for r in relations]
        listed = closest_first(written, known) or "none"
        raise RefusalError(f"there is no relation {written}.", f"Relations: {listed}.")
    several = " and ".join(f"{r.source}.{r.short_name}" for r in found)
    raise RefusalError(f"{written} may mean {several}.", "Write which of them you mean.")


def _within(name: str, within: str, relations: Iterable[Relation]) -> list[Relation]:
    if not within:
        return _spelled(name, relations, lambda relation: relation.short_name)
    whole = f"{within}.{name}"
    if isinstance(name, QuotedName) or isinstance(within, QuotedName):
        whole = QuotedName(whole)
    return _spelled(whole, relations, lambda relation: relation.short_name) or [
        relation
        for relation in _spelled(name, relations, lambda relation: relation.short_name)
        if not relation.within or means(within, relation.within)
    ]


OUTER = "^"
"""What the names of columns of the query around a subquery start with inside it."""


@dataclass(frozen=True)
class Visible:
    """A column that can be named without its relation, and that `*` stands for."""

    name: str
    column: ColumnRef
    alias: str
    printed: str = ""
    """What its source calls its type, if it is a text only here."""
    text: ColumnRef | None = None
    """What a CAST to text reads, where any value may be in the column."""

    def seen_from_inside(self) -> Visible:
        """The column as a subquery sees it."""
        text = self.text and replace(self.text, name=OUTER + self.text.name)
        column = replace(self.column, name=OUTER + self.column.name)
        return replace(self, column=column, text=text)


@dataclass(frozen=True)
class Table:
    """Something with columns in FROM; an alias hides the name of its source."""

    alias: str
    columns: tuple[Visible, ...]
    source: str = ""
    unusable: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, occurrence: Occurrence, source: str = "") -> Table:
        relation, alias = occurrence.relation, occurrence.alias
        pairs = zip(relation.schema.names, occurrence.schema.columns, strict=True)
        every = occurrence.schema.columns
        texts = {c.text_of: ColumnRef(c.name, c.type) for c in every if c.text_of}
        columns = tuple(
            Visible(name, ColumnRef(c.name, c.type), alias, c.printed, texts.get(name))
            for name, c in pairs
            if not c.text_of
        )
        return cls(occurrence.alias, columns, source, relation.unusable)

    def seen_from_inside(self) -> Table:
        """The table as a subquery sees it."""
        return replace(self, columns=tuple(c.seen_from_inside() for c in self.columns))


@dataclass(frozen=True)
class Scope:
    """The tables in reach, and their columns; a column that USING merges is there once."""

    tables: tuple[Table, ...] = ()
    visible: tuple[Visible, ...] = ()
    outer: Scope | None = None
    """The names of the query around a subquery, which mean something where its own do not."""

    @classmethod
    def of(cls, table: Table) -> Scope:
        return cls((table,), table.columns)

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.tables + other.tables, self.visible + other.visible, self.outer)

    def seen_from_inside(self) -> Scope:
        """The scope as a subquery sees it."""
        tables = tuple(table.seen_from_inside() for table in self.tables)
        return Scope(tables, tuple(column.seen_from_inside() for column in self.visible))

    def column(self, name: str, qualifier: str = "", source: str = "") -> Visible:
        """The column that `name`, `qualifier.name` or `source.qualifier.name` means."""
        try:
            return self._own_column(name, qualifier, source)
        except UnknownNameError:
            if self.outer is None:
                raise
            try:
                return self.outer.column(name, qualifier, source)
            except UnknownNameError:
                pass
            raise

    def _own_column(self, name: str, qualifier: str, source: str) -> Visible:
        columns = self.table(qualifier, source).columns if qualifier else self.visible
        alike = [c for c in columns if means(name, c.name)]
        if len({c.alias for c in alike}) == 1:
            alike = _spelled(name, alike, lambda c: c.name)
        if len(alike) == 1:
            return alike[0]
        if alike:
            owners = " and ".join(c.column.name.removeprefix(OUTER) for c in alike)
            raise RefusalError(
                f"column {name} is ambiguous: {owners}.", "Write which of them you mean."
            )
        raise self._no_column(name, qualifier, columns)

    def _no_column(self, name: str, qualifier: str, columns: Sequence[Visible]) -> RefusalError:
        tables = qualifier or ", ".join(t.alias for t in self.tables)
        known = [c.name if qualifier or not c.alias else f"{c.alias}.{c.name}" for c in columns]
        text = f" {TEXT_HINT}" if isinstance(name, QuotedName) else ""
        for table in self.tables:
            for column, reason in table.unusable:
                if means(name, column) and (not qualifier or means(qualifier, table.alias)):
                    return RefusalError(f"column {name} cannot be used: {reason}")
        return UnknownNameError(
            f"there is no column {name} in {tables}.",
            f"Columns: {closest_first(name, known)}.{text}",
        )

    def table(self, qualifier: str, source: str = "") -> Table:
        """The table that a qualifier means."""
        for table in self.tables:
            if means(qualifier, table.alias) and (not source or means(source, table.source)):
                return table
        written = f"{source}.{qualifier}" if source else qualifier
        known = closest_first(written, (t.alias for t in self.tables))
        raise UnknownNameError(f"there is no table {written} in FROM here.", f"Tables: {known}.")

    def noting(self, used: set[str]) -> Scope:
        """The same names; the columns that are looked up are noted."""
        return _NotingScope(self.tables, self.visible, self.outer, used)

    def common_names(self, other: Scope) -> list[str]:
        """The column names that both have: what NATURAL JOIN compares."""
        theirs = {column.name.lower() for column in other.visible}
        return list(dict.fromkeys(c.name for c in self.visible if c.name.lower() in theirs))

    def using(self, other: Scope, names: Sequence[str]) -> tuple[Scope, list[Expression]]:
        """The join of both on equal `names`, which come first and once, and its condition."""
        left = [self.column(name) for name in names]
        right = [other.column(name) for name in names]
        condition = [call("=", a.column, b.column) for a, b in zip(left, right, strict=True)]
        rest = [c for c in self.visible if c not in left]
        rest += [c for c in other.visible if c not in right]
        return Scope(self.tables + other.tables, (*left, *rest), self.outer), condition


@dataclass(frozen=True)
class _NotingScope(Scope):
    used: set[str] = field(default_factory=set, compare=False)

    def column(self, name: str, qualifier: str = "", source: str = "") -> Visible:
        found = super().column(name, qualifier, source)
        self.used.update(ref.name for ref in (found.column, found.text) if ref is not None)
        return found
