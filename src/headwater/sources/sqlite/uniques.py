"""What no two rows of a SQLite table may share: the grounds on which REPLACE removes rows.

A uniqueness is a list of columns or expressions with their collations, over all rows or, with
a WHERE, over a part of them. Its expressions are kept as the file has them, and evaluated by
SQLite itself on the row in question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.values import Json

_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\w+|\s+|.""",
    re.DOTALL,
)
_COMPARES = frozenset(("IN", "BETWEEN", "LIKE", "GLOB", "IS", "ISNULL", "NOTNULL", "CASE"))

Reference = Callable[[str], str]
"""How a column of some row is written."""


@dataclass(frozen=True)
class IndexedTerm:
    """A column by its name, or an expression as it was written, and its collation."""

    text: str
    collation: str
    is_column: bool


@dataclass(frozen=True)
class Unique:
    """Terms that no two rows share; `where` says among which rows, if not among all."""

    terms: tuple[IndexedTerm, ...]
    where: str = ""

    def json(self) -> Json:
        terms: list[Json] = [[t.text, t.collation, t.is_column] for t in self.terms]
        return [terms, self.where]

    def renamed(self, names: Mapping[str, str]) -> Unique:
        return Unique(
            tuple(
                IndexedTerm(names.get(t.text, t.text), t.collation, True) if t.is_column else t
                for t in self.terms
            ),
            self.where,
        )

    def columns(self, known: Iterable[str]) -> list[str]:
        """The columns of a table that this uniqueness looks at."""
        found: list[str] = []
        for term in self.terms:
            if term.is_column:
                found.append(term.text)
            else:
                found += _named(term.text, known)
        return found + [column for column in _named(self.where, known) if column not in found]


def _named(expression: str, columns: Iterable[str]) -> list[str]:
    """The columns that an expression names, or some more."""
    words = {unquoted(token).lower() for token in tokens(expression)}
    return [column for column in columns if column.lower() in words]


def unique_of(value: Json) -> Unique:
    assert isinstance(value, list)
    terms, where = value
    assert isinstance(terms, list)
    made = []
    for term in terms:
        assert isinstance(term, list)
        made.append(IndexedTerm(str(term[0]), str(term[1]), bool(term[2])))
    return Unique(tuple(made), str(where))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def unquoted(token: str) -> str:
    if token[:1] in ('"', "`"):
        return token[1:-1].replace(token[0] * 2, token[0])
    return token[1:-1] if token[:1] == "[" else token


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def index_terms(statement: str) -> tuple[list[str], str]:
    """The terms of a CREATE INDEX as they were written, and its WHERE, or an empty text."""
    listed, behind = _listed(statement)
    terms = ["".join(term) for term in listed]
    rest = "".join(t for t in behind if not t.startswith(("--", "/*"))).strip()
    where = rest[len("WHERE") :].strip() if rest.upper().startswith("WHERE") else ""
    return [re.sub(r"\s+(ASC|DESC)\s*$", "", term, flags=re.I).strip() for term in terms], where


def collations(statement: str) -> list[str]:
    """The collations that a CREATE TABLE gives its columns, in their order; constraints follow.

    What is in brackets (a CHECK, a DEFAULT) is not about the column itself.
    """
    return [_collation(definition) for definition in _listed(statement)[0]]


def _collation(definition: Sequence[str]) -> str:
    found, depth = "BINARY", 0
    words = [t for t in definition if not t.isspace() and not t.startswith(("--", "/*"))]
    for at, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if at and depth == 0 and word.upper() == "COLLATE" and at + 1 < len(words):
            found = unquoted(words[at + 1]).strip("'")
    return found.upper()


def _listed(statement: str) -> tuple[list[list[str]], list[str]]:
    """The tokens of each part of the first list in brackets, and those behind it."""
    depth = 0
    listed: list[list[str]] = [[]]
    parts = tokens(statement)
    start = parts.index("(")
    for at, token in enumerate(parts[start:], start):
        depth += (token == "(") - (token == ")")
        if depth == 0:
            break
        if depth == 1 and token == ",":
            listed.append([])
        elif at > start:
            listed[-1].append(token)
    return listed, parts[at + 1 :]


def compares(expression: str) -> bool:
    """Whether an expression compares values: what that gives may depend on a column's type."""
    return any(
        token.upper() in _COMPARES or token in ("=", "<", ">", "!") for token in tokens(expression)
    )


@dataclass(frozen=True)
class Comparison:
    """Writes conditions over rows of a table, which has this name and these columns."""

    name: str
    columns: tuple[str, ...]

    def alike(self, unique: Unique, one: Reference, other: Reference) -> str:
        """Whether two rows share all terms, also where only a part of the rows has to differ."""
        return " AND ".join(
            _equal(self._value(term, one), self._value(term, other), term) for term in unique.terms
        )

    def in_the_way(self, unique: Unique, table: Reference, new: Reference) -> str:
        """Which rows of the table itself stand against a new one, so that the index finds them."""
        conditions = [
            _equal(
                table(term.text) if term.is_column else f"({term.text})",
                self._value(term, new),
                term,
            )
            for term in unique.terms
        ]
        return " AND ".join([*conditions, f"({unique.where})"] if unique.where else conditions)

    def _value(self, term: IndexedTerm, row: Reference) -> str:
        """A term of some row, of which only the columns can be named."""
        if term.is_column:
            return row(term.text)
        needed = Unique((term,)).columns(self.columns)
        columns = ", ".join(f"{row(column)} AS {quoted(column)}" for column in needed)
        return f"(SELECT {term.text} FROM (SELECT {columns or '1'}) AS {quoted(self.name)})"


def _equal(one: str, other: str, term: IndexedTerm) -> str:
    return f"{one} = {other} COLLATE {quoted(term.collation)}"
