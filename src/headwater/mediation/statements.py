"""Statements: what a file of a mediated schema says, as data.

    CREATE TABLE name (column TYPE [NOT NULL], ..., [PRIMARY KEY (...)],
                       [FOREIGN KEY (...) REFERENCES name [(...)]])
    CREATE VIEW name [(column, ...)] AS SELECT ... FROM sources
    CREATE SOURCE VIEW source.relation [(column, ...)] AS SELECT ... FROM mediated relations
    CREATE SOURCE VIEW name FROM (SELECT ... FROM sources) AS SELECT ... FROM mediated relations

A table is a mediated relation; a view tells rows of one (GAV); a source view says what the rows of
a source's relation are, or those of a query (LAV and GLAV). Queries are kept as texts, each in its
place in the file, and are read when the columns of sources are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import Token, TokenType, exp

from headwater.algebra.sql.function_statements import statements
from headwater.algebra.sql.functions import telling_of
from headwater.algebra.sql.late import nested_type
from headwater.algebra.sql.text import RefusalError, SqlText, line_and_column, means, only
from headwater.algebra.values import Type

_FORMS = (
    "Write CREATE TABLE name (column TYPE, ...), CREATE VIEW name AS SELECT ..., or CREATE SOURCE "
    "VIEW source.relation AS SELECT ..."
)
_TABLE_HINT = (
    "A table has columns with types, NOT NULL, one PRIMARY KEY, and FOREIGN KEY ... REFERENCES."
)


@dataclass(frozen=True)
class Place:
    """Where something stands in the files."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class ForeignKey:
    """That the values of columns, none of them NULL, are values of another relation's columns."""

    columns: tuple[str, ...]
    refers_to: str
    to_columns: tuple[str, ...]
    """Its key, if none are named."""
    place: Place


@dataclass(frozen=True)
class TableStatement:
    """A mediated relation with its columns and constraints."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    key: tuple[str, ...]
    required: frozenset[str]
    """The columns that are never NULL."""
    foreign_keys: tuple[ForeignKey, ...]
    place: Place


@dataclass(frozen=True)
class ViewStatement:
    """Rows of a mediated relation that a query gives."""

    name: str
    columns: tuple[str, ...]
    """What its columns are called, if that is said before AS."""
    told: str
    place: Place


@dataclass(frozen=True)
class SourceStatement:
    """What the rows of a source's relation, or of a query over sources, are in mediated terms."""

    name: tuple[str, ...]
    """The relation, by its source and maybe what it is within; or a name of its own."""
    columns: tuple[str, ...]
    told: str | None
    """The query behind FROM; None if the relation itself is described."""
    target: str
    place: Place
    quoted: tuple[bool, ...] = field(default=())

    @property
    def title(self) -> str:
        return ".".join(self.name)


Statement = TableStatement | ViewStatement | SourceStatement


def read_statements(sql: str, file: str) -> Iterator[str]:
    """The statements of a file, each in its place with all else blank."""
    with telling_of(file):
        yield from statements(sql)


def read_statement(statement: str, file: str) -> Statement:
    """What a statement says; InputError if it is none of a schema's, with its place."""
    with telling_of(file):
        return _Reader(SqlText(statement), file).read()


class _Reader:
    """Reads one statement; of queries only where they stand."""

    def __init__(self, text: SqlText, file: str) -> None:
        self._text = text
        self._file = file
        self._at = 0

    def read(self) -> Statement:
        place = self._place(self._tokens[0])
        words = [token.text.upper() for token in self._tokens[:3]]
        if words[:2] == ["CREATE", "TABLE"]:
            return self._table(place)
        if words[:2] == ["CREATE", "VIEW"]:
            self._at = 2
            (name,) = self._name(most=1)
            columns, start = self._columns(), self._behind_as()
            return ViewStatement(name, columns, self._query(start, None), place)
        if words == ["CREATE", "SOURCE", "VIEW"]:
            self._at = 3
            return self._source(place)
        hint = f"{_FORMS} Views that are kept stand in views/*.sql."
        raise self._text.error_at(
            self._tokens[0].start, "this statement has no place in a mediated schema.", hint
        )

    @property
    def _tokens(self) -> Sequence[Token]:
        return self._text.tokens

    def _place(self, token: Token) -> Place:
        return Place(self._file, *line_and_column(self._text.sql, token.start))

    # CREATE VIEW and CREATE SOURCE VIEW

    def _source(self, place: Place) -> SourceStatement:
        start = self._at
        name = self._name(most=3)
        quoted = tuple(
            t.token_type is TokenType.IDENTIFIER for t in self._tokens[start : self._at : 2]
        )
        columns, told = self._columns(), None
        if self._word() == "FROM":
            told = self._in_parentheses()
        elif len(name) == 1:
            hint = "Write CREATE SOURCE VIEW source.relation AS ..., or FROM (SELECT ...) AS ..."
            raise self._error(f"the source view {name[0]} names no relation of a source.", hint)
        target = self._query(self._behind_as(), None)
        return SourceStatement(name, columns, told, target, place, quoted)

    def _name(self, most: int) -> tuple[str, ...]:
        parts: list[str] = []
        while True:
            token = self._token()
            if token is None or not self._is_name(token):
                raise self._error("a name is missing here.", _FORMS)
            parts.append(token.text)
            self._at += 1
            if self._word() != ".":
                break
            self._at += 1
        if len(parts) > most:
            hint = "A mediated relation has a name without dots." if most == 1 else _FORMS
            raise self._error(f"{'.'.join(parts)} has too many parts.", hint)
        return tuple(parts)

    def _is_name(self, token: Token) -> bool:
        if token.token_type is TokenType.IDENTIFIER:
            return True
        return token.text.isidentifier() and token.text.upper() not in ("AS", "FROM", "SELECT")

    def _columns(self) -> tuple[str, ...]:
        if self._word() != "(":
            return ()
        found: list[str] = []
        while self._word() in ("(", ","):
            self._at += 1
            found += self._name(most=1)
        if self._word() != ")":
            raise self._error("the list of columns is not closed.", "Write (column, ...).")
        self._at += 1
        return tuple(found)

    def _in_parentheses(self) -> str:
        self._at += 1
        if self._word() != "(":
            raise self._error("behind FROM a query in parentheses is missing.", "FROM (SELECT ...)")
        start, depth = self._at + 1, 0
        while (word := self._word()) is not None:
            depth += (word == "(") - (word == ")")
            self._at += 1
            if depth == 0:
                return self._query(start, self._at - 1)
        raise self._error("a parenthesis is never closed.", "Close it.")

    def _behind_as(self) -> int:
        if self._word() != "AS":
            raise self._error("AS and a SELECT are missing here.", _FORMS)
        self._at += 1
        return self._at

    def _query(self, first: int, last: int | None) -> str:
        """The tokens from one to before another as a text in its place."""
        found = self._tokens[first:last]
        if not found:
            raise self._error("a SELECT is missing here.", "Write one.")
        return only(self._text.sql, found[0].start, found[-1].end + 1)

    def _token(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _word(self) -> str | None:
        token = self._token()
        return None if token is None else token.text.upper()

    def _error(self, message: str, hint: str) -> Exception:
        token = self._token() or self._tokens[-1]
        return self._text.error_at(token.start, message, hint)

    # CREATE TABLE

    def _table(self, place: Place) -> TableStatement:
        tree = self._text.parse()
        made = tree.this
        if not isinstance(tree, exp.Create) or not isinstance(made, exp.Schema):
            raise self._text.error(tree, "this is no CREATE TABLE with columns.", _TABLE_HINT)
        for part in ("expression", "properties", "exists", "replace"):
            if tree.args.get(part):
                message = "a mediated table has a name and columns, and nothing else."
                raise self._text.error(tree, message, _TABLE_HINT)
        if made.this.args.get("db"):
            hint = "A mediated relation has a name without dots."
            raise self._text.error(made.this, f"{made.this.sql()} has too many parts.", hint)
        table = _Table(self._text, self._file)
        for part in made.expressions:
            table.take(part)
        return table.statement(made.this.name, place, made)


class _Table:
    """Collects what stands between the parentheses of CREATE TABLE."""

    def __init__(self, text: SqlText, file: str) -> None:
        self._text = text
        self._file = file
        self._columns: dict[str, Type] = {}
        self._key: tuple[str, ...] = ()
        self._required: set[str] = set()
        self._foreign: list[ForeignKey] = []

    def take(self, part: exp.Expr) -> None:
        match part:
            case exp.ColumnDef():
                self._column(part)
            case exp.PrimaryKey():
                self._keyed(tuple(each.name for each in part.expressions), part)
            case exp.ForeignKey():
                columns = tuple(each.name for each in part.expressions)
                self._refers(columns, part.args.get("reference"), part)
            case exp.Constraint() if len(part.expressions) == 1:
                self.take(part.expressions[0])
            case _:
                raise self._refused(part)

    def _column(self, node: exp.ColumnDef) -> None:
        name = node.name
        try:
            kind = nested_type(node.args.get("kind"))
        except RefusalError as error:
            raise self._text.error(node, f"column {name}: {error}", error.hint) from None
        if kind is None:
            raise self._text.error(
                node, f"column {name} has no type that a view can have.", _TABLE_HINT
            )
        if name.lower() in {each.lower() for each in self._columns}:
            raise self._text.error(node, f"there are two columns {name}.", "Name each once.")
        self._columns[name] = kind
        for constraint in node.args.get("constraints") or ():
            match constraint.kind:
                case exp.NotNullColumnConstraint() as found if not found.args.get("allow_null"):
                    self._required.add(name)
                case exp.NotNullColumnConstraint() | exp.CommentColumnConstraint():
                    pass
                case exp.PrimaryKeyColumnConstraint():
                    self._keyed((name,), node)
                case exp.Reference() as reference:
                    self._refers((name,), reference, node)
                case _:
                    raise self._refused(constraint)

    def _keyed(self, columns: tuple[str, ...], node: exp.Expr) -> None:
        if self._key:
            raise self._text.error(node, "there are two primary keys.", "Keep one of them.")
        self._key = columns

    def _refers(self, columns: tuple[str, ...], reference: exp.Expr | None, node: exp.Expr) -> None:
        found = reference.this if reference is not None else None
        table = found.this if isinstance(found, exp.Schema) else found
        if not isinstance(table, exp.Table):
            raise self._refused(node)
        named = found.expressions if isinstance(found, exp.Schema) else ()
        place = line_and_column(self._text.sql, self._text.start(node))
        to_columns = tuple(each.name for each in named)
        if to_columns and len(to_columns) != len(columns):
            message = f"{len(columns)} columns refer to {len(to_columns)}."
            raise self._text.error(node, message, "Name as many on both sides.")
        self._foreign.append(ForeignKey(columns, table.name, to_columns, Place(self._file, *place)))

    def _refused(self, node: exp.Expr) -> Exception:
        return self._text.error(node, f"{node.sql('spark')} is not supported here.", _TABLE_HINT)

    def statement(self, name: str, place: Place, node: exp.Expr) -> TableStatement:
        if not self._columns:
            raise self._text.error(node, f"{name} has no columns.", _TABLE_HINT)

        def known(columns: Sequence[str]) -> tuple[str, ...]:
            return tuple(self._known(column, node) for column in columns)

        key = known(self._key)
        foreign = tuple(
            ForeignKey(known(each.columns), each.refers_to, each.to_columns, each.place)
            for each in self._foreign
        )
        required = frozenset(self._required) | set(key)
        return TableStatement(name, tuple(self._columns.items()), key, required, foreign, place)

    def _known(self, name: str, node: exp.Expr) -> str:
        for column in self._columns:
            if means(name, column):
                return column
        listed = ", ".join(self._columns)
        raise self._text.error(node, f"there is no column {name}.", f"Columns: {listed}.")
