"""What a statement in the log may have changed in the rows and columns of tables.

The log holds changes of rows as rows, and everything else as the statement that was given. What
that does to rows nobody tells, so it is read here, and with suspicion: a statement that is not
known to leave rows alone may have changed anything. No meaning is missed by a name in
another case, in quotes of another kind, or in a comment that servers execute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Name: TypeAlias = tuple[str, str]
"""A database and a table, in lower case."""

_TOKEN = re.compile(
    r"""
    (?P<open>/\*M?!\d*) | (?P<close>\*/)
    | (?P<comment>/\*.*?\*/ | --(?=\s|$)[^\n]*|\#[^\n]*)
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<either>"(?:[^"\\]|""|\\.)*")
    | (?P<text>'(?:[^'\\]|''|\\.)*')
    | (?P<word>[\w$\u0080-\U0010ffff]+)
    | (?P<mark>\S)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def name(self) -> str | None:
        """As a name, if it can be one."""
        match self.kind:
            case "quoted":
                return self.text[1:-1].replace("``", "`")
            case "either":
                return self.text[1:-1].replace('""', '"')
            case "word":
                return self.text
        return None


@dataclass
class Effect:
    """What may have changed: everything, whole tables, whole databases, or some columns."""

    everything: str = ""
    tables: dict[Name, str] = field(default_factory=dict)
    databases: dict[str, str] = field(default_factory=dict)
    columns: dict[Name, dict[str, str]] = field(default_factory=dict)
    """Their names in lower case, and what happened."""
    keys: set[Name] = field(default_factory=set)
    """Tables that may have lost a unique index."""


def effect_of(text: str, database: str) -> Effect:
    """What a statement that was given in a database may have changed."""
    return _Statement(list(_tokens(text)), database.lower()).effect()


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind not in ("comment", "open", "close"):
            yield Token(kind, match[0])


_HARMLESS_FIRST = (
    "GRANT", "REVOKE", "FLUSH", "OPTIMIZE", "CHECKSUM", "CHECK", "REPAIR", "INSTALL",
    "UNINSTALL", "USE", "SET", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA",
    "CHANGE", "START", "STOP", "RESET", "PURGE", "KILL",
)  # fmt: skip
_HARMLESS_OBJECTS = (
    "USER", "ROLE", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "SEQUENCE", "PACKAGE",
    "SERVER", "TABLESPACE", "LOGFILE", "SPATIAL", "RESOURCE", "UNDO", "INSTANCE",
)  # fmt: skip
_QUALIFIERS = (
    "OR", "REPLACE", "DEFINER", "CURRENT_USER", "SQL", "SECURITY", "INVOKER", "ALGORITHM",
    "UNDEFINED", "MERGE", "TEMPTABLE", "AGGREGATE", "ONLINE", "OFFLINE", "IGNORE", "UNIQUE",
    "FULLTEXT", "BODY",
)  # fmt: skip
_OPTIONS = (
    "COMMENT", "ENGINE", "AUTO_INCREMENT", "ROW_FORMAT", "DEFAULT", "CHARACTER", "CHARSET",
    "COLLATE",
    "KEY_BLOCK_SIZE", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "CHECKSUM",
    "TABLE_CHECKSUM", "PAGE_CHECKSUM", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "CONNECTION",
    "MAX_ROWS", "MIN_ROWS", "AVG_ROW_LENGTH", "PACK_KEYS", "DELAY_KEY_WRITE", "TRANSACTIONAL",
    "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "COMPRESSION", "FORCE", "ALGORITHM", "LOCK",
    "ENABLE", "DISABLE", "ORDER", "PASSWORD", "ROW", "SECONDARY_LOAD",
    "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR", "REORGANIZE", "COALESCE", "REMOVE",
    "PARTITION", "WITH", "WITHOUT", "AUTOEXTEND_SIZE", "IETF_QUOTES", "SEQUENCE",
)  # fmt: skip
_CLAUSES = (
    "ADD", "DROP", "MODIFY", "CHANGE", "RENAME", "CONVERT", "TRUNCATE", "EXCHANGE", "DISCARD",
    "IMPORT",
)  # fmt: skip


class _Statement:
    """The tokens of one statement, read from the front."""

    def __init__(self, tokens: Sequence[Token], database: str) -> None:
        self._tokens = list(tokens)
        self._database = database
        self._at = 0
        self._found = Effect()

    def effect(self) -> Effect:
        first = self._next()
        match first.text.upper() if first is not None and first.kind == "word" else "":
            case "CREATE":
                self._create()
            case "DROP":
                self._drop()
            case "ALTER":
                self._alter()
            case "TRUNCATE":
                self._skip("TABLE")
                self._whole(self._table(), "was emptied by TRUNCATE")
            case "RENAME":
                self._rename()
            case "ANALYZE" if self._is("TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"):
                pass
            case "SET" if self._is("STATEMENT"):
                while (token := self._next()) is not None and not token.is_word("FOR"):
                    pass
                return self.effect()
            case word if word not in _HARMLESS_FIRST:
                self._found.everything = (
                    "a statement was logged instead of the rows that it changed; use "
                    "binlog_format = ROW in every session"
                )
        return self._found

    # Tokens

    def _next(self) -> Token | None:
        if self._at >= len(self._tokens):
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self, ahead: int = 0) -> Token | None:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else None

    def _is(self, *words: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token is not None and token.is_word(*words)

    def _skip(self, *words: str) -> bool:
        if self._is(*words):
            self._at += 1
            return True
        return False

    def _skip_condition(self) -> bool:
        """IF EXISTS or IF NOT EXISTS."""
        if not self._skip("IF"):
            return False
        self._skip("NOT")
        return self._skip("EXISTS")

    def _table(self) -> Name:
        """A table's name, with its database or without."""
        first = self._next()
        if first is not None and first.text == ".":  # `.t` is t of the database in use
            first = self._next()
        name = (first.name if first is not None else None) or ""
        dot, second = self._peek(), self._peek(1)
        if dot is not None and dot.text == "." and second is not None and second.name is not None:
            self._at += 2
            return name.lower(), second.name.lower()
        return self._database, name.lower()

    def _names(self) -> Iterator[Name]:
        """Names with commas between."""
        yield self._table()
        while (token := self._peek()) is not None and token.text == ",":
            self._at += 1
            yield self._table()

    def _whole(self, name: Name, what: str) -> None:
        self._found.tables[name] = what

    def _unknown(self) -> None:
        self._found.everything = "a statement was logged whose effect on rows is not known"

    # Statements

    def _object(self) -> str:
        """What is created, dropped or altered, behind words that say how."""
        while (token := self._peek()) is not None:
            if token.kind == "word" and token.text.upper() in _HARMLESS_OBJECTS:
                return token.text.upper()
            if token.is_word("TABLE", "INDEX", "DATABASE", "SCHEMA", "TEMPORARY", "TABLES"):
                self._at += 1
                return token.text.upper()
            is_qualifier = token.kind == "word" and token.text.upper() in _QUALIFIERS
            previous = self._tokens[self._at - 1]
            is_account = previous.text in ("=", "@", "%") or token.text in ("=", "@", "%", ".")
            if not (is_qualifier or is_account):
                return ""
            self._at += 1
        return ""

    def _create(self) -> None:
        replaces = self._is("OR") and self._is("REPLACE", ahead=1)
        match self._object():
            case "TABLE":
                self._skip_condition()
                name = self._table()
                if replaces:
                    self._whole(name, "was replaced by CREATE OR REPLACE TABLE")
            case "":
                self._unknown()

    def _drop(self) -> None:
        match self._object():
            case "TABLE" | "TABLES":
                self._skip_condition()
                for name in self._names():
                    self._whole(name, "was dropped")
            case "DATABASE" | "SCHEMA":
                self._skip_condition()
                token = self._next()
                gone = (token.name if token is not None else None) or ""
                self._found.databases[gone.lower()] = "was dropped with its database"
            case "INDEX":
                self._drop_index()
            case "":
                self._unknown()

    def _drop_index(self) -> None:
        self._skip_condition()
        index = self._next()
        if self._skip("ON"):
            name = self._table()
            if index is not None and (index.name or "").upper() == "PRIMARY":
                self._whole(name, "lost its primary key")
            self._found.keys.add(name)

    def _rename(self) -> None:
        if not self._skip("TABLE", "TABLES"):
            if not self._is("USER"):
                self._unknown()
            return
        self._skip_condition()
        while True:
            for _ in range(2):
                self._whole(self._table(), "was renamed, or replaced by another of its name")
                self._skip_until_to()
            token = self._next()
            if token is None or token.text != ",":
                return

    def _skip_until_to(self) -> None:
        """Pass over TO, and over how long may be waited before it."""
        while self._is("WAIT", "NOWAIT", "TO") or (
            (token := self._peek()) is not None and token.text.isdigit()
        ):
            self._at += 1

    def _alter(self) -> None:
        removes = any(t.is_word("IGNORE") for t in self._tokens[self._at : self._at + 3])
        match self._object():
            case "TABLE":
                pass
            case "":
                self._unknown()
                return
            case _:
                return
        self._skip_condition()
        name = self._table()
        if not self._skip("NOWAIT") and self._skip("WAIT"):
            self._at += 1
        for at, token in enumerate(self._tokens):
            if token.is_word("ENGINE") and not self._names_innodb(at + 1):
                self._whole(name, "got another engine, which has no snapshots")
        if removes:
            self._whole(name, "may have lost rows by ALTER IGNORE TABLE")
        for clause in self._clauses():
            self._clause(name, clause)

    def _names_innodb(self, at: int) -> bool:
        behind = [t for t in self._tokens[at : at + 2] if t.text != "="]
        return bool(behind) and (behind[0].name or "").upper() == "INNODB"

    def _has_another_clause(self) -> bool:
        """Whether what begins as an option goes on as something else."""
        depth = 0
        for token in self._tokens[1:]:
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if not depth and token.is_word(*_CLAUSES):
                return True
        return False

    def _clauses(self) -> Iterator[list[Token]]:
        """The parts of an ALTER TABLE, between commas that stand in no brackets."""
        found = list[list[Token]]()
        for clause in self._between_commas():
            if (
                found
                and _is_of_partitions(found[-1])
                and not (clause and clause[0].is_word(*_CLAUSES))
            ):
                found[-1] += clause  # the next name in a list of partitions
            else:
                found.append(clause)
        yield from found

    def _between_commas(self) -> Iterator[list[Token]]:
        depth, clause = 0, list[Token]()
        while (token := self._next()) is not None:
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if token.kind == "mark" and token.text == "," and not depth:
                yield clause
                clause = []
            else:
                clause.append(token)
        yield clause

    def _clause(self, name: Name, clause: list[Token]) -> None:
        part = _Statement(clause, self._database)
        part._found = self._found
        first = part._next()
        match first.text.upper() if first is not None and first.kind == "word" else "":
            case "ADD":
                part._added(name)
            case "DROP":
                part._dropped(name)
            case "MODIFY":
                part._skip("COLUMN")
                part._skip_condition()
                part._columns(name, 1, "was altered")
            case "CHANGE":
                part._skip("COLUMN")
                part._skip_condition()
                part._columns(name, 2, "was altered or renamed")
            case "RENAME":
                part._renamed(name)
            case "ALTER":
                pass  # the default of a column, or an index that is seen or not
            case word if word in _OPTIONS and not part._has_another_clause():
                pass
            case "" if first is None:
                pass
            case _:
                self._whole(name, "was altered in a way whose effect on rows is not known")
                self._others(clause)

    def _others(self, clause: Sequence[Token]) -> None:
        """A partition that changes places with a table changes that one, too."""
        for at, token in enumerate(clause):
            if token.is_word("TABLE"):
                other = _Statement(clause[at + 1 :], self._database)._table()
                self._whole(other, "changed places with a partition of another table")

    def _added(self, name: Name) -> None:
        if self._is("SYSTEM", "PERIOD"):
            self._whole(name, "got a past of its own")
        elif self._refers():
            self._whole(name, "got a foreign key that changes rows without logging it")
        # A column that is added had no values that anybody knows.

    def _refers(self) -> bool:
        """Whether a foreign key comes, by itself or with its column, that acts on rows."""
        words = [token.text.upper() for token in self._tokens]
        return "REFERENCES" in words and bool(
            {"CASCADE", "NULL", "DEFAULT"} & set(words[words.index("REFERENCES") :])
        )

    def _dropped(self, name: Name) -> None:
        if self._is("PARTITION", "SYSTEM"):
            self._whole(name, "lost a part of its rows")
        elif self._is("PRIMARY"):
            self._whole(name, "lost its primary key")
        elif self._is("INDEX", "KEY", "CONSTRAINT"):
            self._at += 1
            self._skip_condition()
            index = self._next()
            if index is not None and (index.name or "").upper() == "PRIMARY":
                self._whole(name, "lost its primary key")
            self._found.keys.add(name)
        elif not self._is("FOREIGN", "CHECK", "PERIOD"):
            self._skip("COLUMN")
            self._skip_condition()
            self._columns(name, 1, "was dropped")

    def _renamed(self, name: Name) -> None:
        if self._skip("COLUMN"):
            self._skip_condition()
            self._columns(name, 1, "was renamed")
            self._skip("TO")
            self._columns(name, 1, "was renamed")
        elif not self._is("INDEX", "KEY"):
            if not self._skip("TO", "AS") and (token := self._peek()) and token.text == "=":
                self._at += 1
            for each in (name, self._table()):
                self._whole(each, "was renamed, or replaced by another of its name")

    def _columns(self, name: Name, count: int, what: str) -> None:
        for _ in range(count):
            token = self._next()
            if token is None or token.name is None:
                self._whole(name, "was altered in a way whose effect on rows is not known")
                return
            self._found.columns.setdefault(name, {})[token.name.lower()] = what


def _is_of_partitions(clause: Sequence[Token]) -> bool:
    """Whether a clause does something to partitions, of which it may list several."""
    return len(clause) > 1 and clause[1].is_word("PARTITION")
