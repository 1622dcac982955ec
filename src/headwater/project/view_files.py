"""View files: the header of a `views/*.sql` file, and the view that its SELECT defines.

    CREATE MATERIALIZED VIEW name
    [IN GROUP group]
    [WITH (NO | CONVERGENCE | WEAK | STRONG | COMPLETE) [CONSISTENCY]]
    [USING algorithm [(parameter = value, ...)]]
    [KEEP KEYS] [KEEP COPY OF relation, ...]
    [REFRESH EVERY '5 seconds'] [PUBLISH EVERY '1 minute'] [WITH CHANGES]
    [RECOMPUTE (NEVER | WHEN CHEAPER | FROM number ROWS)]
    AS SELECT ...

The header is read here, the SELECT by `algebra.sql`. Every mistake carries the file, the line and
the column, counted from the file's start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from headwater.algebra.schema import Relation
from headwater.algebra.sql.function_statements import script
from headwater.algebra.sql.functions import NONE, Functions
from headwater.algebra.sql.names import closest_first, find_relation
from headwater.algebra.sql.sources import TableName
from headwater.algebra.sql.text import QuotedName, RefusalError, line_and_column
from headwater.algebra.sql.view import (
    functions_of,
    parse_group,
    parse_view,
    tables_of,
    unfolded,
)
from headwater.algebra.views import View
from headwater.check.levels import Level
from headwater.costs.recomputing import Recompute
from headwater.errors import HeadwaterError, InputError, SeveralInputError, SqlError
from headwater.mediation.binding import Answer
from headwater.mediation.schema import NO_SCHEMA, SOURCE, MediatedSchema
from headwater.project.choice import as_loaded, as_stored
from headwater.project.over_mediated import Meaning, meaning_of
from headwater.project.setting_values import did_you_mean, parse_duration
from headwater.reading import as_text, read_plain
from headwater.warehouse.definition import StoredDefinition

LEVELS = {
    "CONVERGENCE": Level.CONVERGENT,
    "WEAK": Level.WEAK,
    "STRONG": Level.STRONG,
    "COMPLETE": Level.COMPLETE,
    "NO": Level.NONE,
}
_VIEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_CREATE = ("CREATE", "MATERIALIZED", "VIEW")
_CLAUSES = ("IN", "WITH", "USING", "KEEP", "REFRESH", "PUBLISH", "RECOMPUTE", "AS")
_NO_NAMES = tuple(word for word in _CLAUSES if word != "RECOMPUTE")  # an algorithm is called that
_MOST_BYTES = 1 << 20
_T = TypeVar("_T")


class CopyName(NamedTuple):
    """A relation as KEEP COPY OF names it, and where in the file."""

    parts: tuple[str, ...]
    place: int

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class ViewFile:
    """One view as its file has it; the SELECT is not yet looked into."""

    path: Path
    name: str
    text: str
    """The whole file."""
    offset: int
    """Where the SELECT starts in it."""
    group: str | None = None
    """The group that it is a member of: IN GROUP."""
    level: Level = Level.STRONG
    algorithm: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    keep_keys: bool = False
    keep_copies: tuple[CopyName, ...] = ()
    """The relations that KEEP COPY OF names."""
    refresh_every: float | None = None
    """Seconds, as in REFRESH EVERY."""
    publish_every: float | None = None
    recompute: Recompute | None = None
    """When it is recomputed rather than maintained: RECOMPUTE."""
    changes: bool = False
    """Whether it has a table of its changes: WITH CHANGES."""
    others: Mapping[str, str] = field(default_factory=dict)
    """The SELECTs of the views that it reads, by their names; each reads tables only."""
    functions: Functions = NONE
    """The functions of the project, which it may call."""
    mediation: MediatedSchema = NO_SCHEMA
    """The mediated schema, if it reads relations of one."""
    places: Mapping[str, int] = field(default_factory=dict)
    """Where in the file the name and each clause stand."""

    @property
    def select(self) -> str:
        return self.text[self.offset :].strip().rstrip(";").rstrip()

    def whole(self, relations: Iterable[Relation]) -> str:
        """The SELECT by itself, with the views that it reads and the functions that it calls; over
        mediated relations what it is over sources."""
        return self._whole(self._meaning(tuple(relations)))

    def _whole(self, meaning: Meaning) -> str:
        if meaning.own is not None:
            return meaning.own.sql
        return unfolded(self.select, meaning.others, self.functions)

    def tables(self) -> tuple[TableName, ...]:
        """The tables that the SELECT reads; its syntax is checked, its names are not.

        A view that it reads stands for the tables of that view, in the place where it is named; so
        does a mediated relation for the tables that may tell its rows.
        """
        found: list[TableName] = []
        self._check_is_one_query()
        for table in self._placed(lambda: tables_of(self._padded, self.functions)):
            other = self._other(table)
            if other is None:
                found += self._told(table, table)
                continue
            for inner in tables_of(other):
                placed = replace(inner, line=table.line, column=table.column, function="")
                found += self._told(inner, placed)
        if not found:
            message, hint = "the query reads no table.", "A view shows what its sources have."
            raise error_at(self.path, self.text, self.offset, message, hint)
        return tuple(found)

    def _told(self, table: TableName, placed: TableName) -> list[TableName]:
        """The tables by which rows of a mediated relation may be told; any other as it is."""
        name = self.mediation.meant(table)
        if name is not None:
            line, column = placed.line, placed.column
            told = self.mediation.tables_behind(name)
            return [replace(t, line=line, column=column, function="") for t in told]
        if self.mediation and table.source.lower() == SOURCE:
            raise InputError(
                f"{self.path}:{placed.line}:{placed.column}: there is no mediated relation "
                f"{table.name}.",
                f"There are: {closest_first(table.name, self.mediation.names.values())}.",
            )
        return [placed]

    @property
    def mediated(self) -> tuple[str, ...]:
        """The mediated relations that it reads, by itself or in views that it reads."""
        own = [t for t in tables_of(self._padded, self.functions) if self._other(t) is None]
        inner = [t for select in self.others.values() for t in tables_of(select)]
        found = [self.mediation.meant(table) for table in (*own, *inner)]
        wanted = any(table.source.lower() == SOURCE for table in (*own, *inner))
        names = tuple(dict.fromkeys(name for name in found if name is not None))
        return names or ((SOURCE,) if wanted else ())

    def _check_is_one_query(self) -> None:
        if self._placed(lambda: script(self._padded))[0]:
            message, hint = "a view is no function.", "Functions stand in functions/*.sql."
            raise error_at(self.path, self.text, self.offset, message, hint)

    @property
    def read_views(self) -> tuple[str, ...]:
        """The views of the project that it reads, by itself or by functions that it calls."""
        return tuple(dict.fromkeys(table.name for table in self.named_views()))

    def named_views(self) -> tuple[TableName, ...]:
        """The same, wherever one is named."""
        named = tables_of(self._padded, self.functions)
        return tuple(table for table in named if self._other(table) is not None)

    @property
    def called(self) -> tuple[str, ...]:
        """The functions of the project that it calls."""
        return functions_of(self.select, self.functions)

    def _other(self, table: TableName) -> str | None:
        """The SELECT of the view that a name means."""
        known = {name.lower(): select for name, select in self.others.items()}
        return None if table.source else known.get(table.name.lower())

    def error(self, place: str, message: str, hint: str = "") -> InputError:
        """A mistake at the clause of that name."""
        return error_at(self.path, self.text, self.places.get(place, 0), message, hint)

    def define(self, relations: Iterable[Relation]) -> DefinedView:
        """The view over these relations."""
        # would slow down all commands
        from headwater.warehouse.columns import CHANGE, VERSION, check_columns

        relations = tuple(relations)
        meaning = self._placed(lambda: self._meaning(relations))
        view = self._placed(lambda: self._view(relations, meaning))
        try:
            check_columns(self.name, view.schema)
            check_columns(self.name, view.shown_schema, (CHANGE, VERSION) if self.changes else ())
        except InputError as error:
            raise error_at(self.path, self.text, self.offset, error.message, error.hint) from None
        copied = self.copied(view, relations)
        stored = as_stored(view, self.algorithm, self.keep_keys, copied)
        whole = self._whole(meaning)
        plain = replace(view, sql=whole)
        return DefinedView(
            self, replace(stored, sql=whole), plain, copied, answers=meaning.answers_of(self.name)
        )

    def copied(self, view: View, relations: Sequence[Relation]) -> frozenset[str]:
        """The relations of which copies are to be kept; InputError for one that cannot be."""
        return frozenset(self._copied(name, view, relations) for name in self.keep_copies)

    def _copied(self, name: CopyName, view: View, relations: Sequence[Relation]) -> str:
        names = closest_first(str(name), view.joined)
        hint = "It joins nothing: leave KEEP COPY OF out."
        hint = f"View {view.name} joins {names}." if names else hint
        try:
            found = _relation_of(name, view.relations, relations)
        except RefusalError as error:
            raise error_at(self.path, self.text, name.place, str(error), hint) from None
        if found.name in view.joined:
            return found.name
        does = "joins" if found in view.relations else "reads"
        message = f"a copy of {found.name} is of no use to {view.name}, which never {does} it."
        raise error_at(self.path, self.text, name.place, message, hint)

    def _meaning(self, relations: tuple[Relation, ...]) -> Meaning:
        """What it and the views that it reads are over sources."""
        if not self.mediation:
            return Meaning(self.others)
        own = [t for t in tables_of(self._padded, self.functions) if self._other(t) is None]
        reads = any(self.mediation.meant(table) is not None for table in own)
        select = self._padded if reads else None
        return meaning_of(select, self.others, self.functions, self.mediation, relations)

    def _view(self, relations: tuple[Relation, ...], meaning: Meaning) -> View:
        if meaning.own is not None:
            return parse_view(meaning.own.sql, relations, self.name)
        others, functions = meaning.others, self.functions
        return parse_view(self._padded, relations, self.name, others, functions=functions)

    @property
    def _padded(self) -> str:
        """The SELECT where it stands in the file, with blanks in place of the header."""
        return re.sub(r"[^\n]", " ", self.text[: self.offset]) + self.text[self.offset :]

    def _placed(self, read: Callable[[], _T]) -> _T:
        """What `read` gives; its mistakes with the file's name, none before the SELECT."""
        try:
            return read()
        except SqlError as error:
            found = [self._in_file(each) for each in error.problems]
            raise (found[0] if len(found) == 1 else SeveralInputError(found)) from None
        except HeadwaterError:
            raise
        except RecursionError:
            message = "the query is nested too deeply."
            raise error_at(self.path, self.text, self.offset, message, "Simplify it.") from None
        except Exception as error:  # ends a view, and not everything beside it
            message = f"the view cannot be understood ({type(error).__name__})."
            hint = "Write it in another way, and report this."
            raise error_at(self.path, self.text, self.offset, message, hint) from error

    def _in_file(self, error: SqlError) -> InputError:
        start = line_and_column(self.text, self.offset)
        line, column = max((error.line, error.column), start)
        message = error.message.removeprefix(f"line {error.line}, column {error.column}: ")
        return InputError(f"{self.path}:{line}:{column}: {message}", error.hint)


@dataclass(frozen=True)
class DefinedView:
    """A view, and everything else that its file says of it.

    Of a group the file is that of its first member, which says the same as those of the others.
    """

    file: ViewFile
    view: View
    plain: View
    """The view with nothing stored that its SELECT does not need."""
    copied: frozenset[str] = frozenset()
    """The relations of which its file asks for copies."""
    members: tuple[DefinedView, ...] = ()
    """The views of a group, each as it would be by itself."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """How it is answered over a mediated schema, or views that it reads are, by their names."""

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def answered(self) -> Mapping[str, Answer]:
        """Its own answers over a mediated schema, and those of its members."""
        found = dict(self.answers)
        for member in self.members:
            found |= member.answers
        return found

    @classmethod
    def of_group(
        cls, name: str, members: Iterable[tuple[DefinedView, Iterable[Relation]]]
    ) -> DefinedView:
        """The group of these views, each with the relations that it was read over."""
        found = tuple(members)
        listed = [(view.name, view.view.sql, relations) for view, relations in found]
        file = found[0][0].file
        copied = frozenset[str]().union(*(view.copied for view, _ in found))
        plain = parse_group(listed, name)
        view = as_stored(plain, file.algorithm, file.keep_keys, copied)
        return cls(file, view, plain, copied, tuple(each for each, _ in found))

    def as_loaded(self, kept: str) -> DefinedView:
        """The view with what is stored for it since it was loaded (see `View.kept`), unless USING
        asks for something else: another algorithm is chosen without a reload."""
        if self.file.algorithm is not None or kept == self.view.kept:
            return self
        return replace(self, view=as_loaded(self.plain, kept).with_copies(self.copied))

    @property
    def stored(self) -> StoredDefinition:
        """What is kept with its table, to notice when it no longer fits."""
        return StoredDefinition.of(self.view)


def _relation_of(
    name: CopyName, read: Sequence[Relation], relations: Sequence[Relation]
) -> Relation:
    """The relation that a name means, one that is read if it may be; RefusalError if there is
    none."""
    *places, last = name.parts
    source, within = (*places, "", "")[:2]
    with suppress(RefusalError):
        return find_relation(last, source, read, within)
    return find_relation(last, source, relations, within)


def error_at(path: Path, text: str, offset: int, message: str, hint: str = "") -> InputError:
    line, column = line_and_column(text, offset)
    return InputError(f"{path}:{line}:{column}: {message}", hint)


def read_view_file(path: Path) -> ViewFile:
    """The file's header; InputError says what is wrong in it, and where."""
    return _Header(path, file_text(path)).read()


def file_text(path: Path) -> str:
    """What a file says; InputError if it cannot be read."""
    try:
        return as_text(read_plain(path, _MOST_BYTES))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.", "See to the file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text.", "Save it as UTF-8.") from None


# The header


class _Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text


_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
      | (?P<string>'(?:[^']|'')*')
      | (?P<word>[^\W\d]\w*(?:-\w+)*)
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            yield _Token(match.lastgroup or "", match[0], match.start())
    yield _Token("end", "", len(text.rstrip()))


class _Header:
    """Reads a header from left to right; tokens behind AS are never looked at."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._coming = _tokens(text)
        self._token = next(self._coming)
        self._places: dict[str, int] = {}

    def read(self) -> ViewFile:
        if self._token.kind == "end":
            raise self._error("there is no view in this file.", "Write one, or remove the file.")
        for word in _CREATE:
            self._expect(word, "A file starts with CREATE MATERIALIZED VIEW.")
        self._places["name"] = self._token.start
        name = self._name()
        clauses: dict[str, object] = {}
        while not self._is("AS"):
            clauses.update(self._clause())
        if self._next().kind == "end":
            raise self._error("there is no SELECT after AS.", "Write the view's query.")
        return ViewFile(
            self._path,
            name,
            self._text,
            self._token.start,
            places=self._places,
            **clauses,  # type: ignore[arg-type]  # each clause gives fields of its own type
        )

    def _name(self) -> str:
        name = self._plain_name("view", "Write CREATE MATERIALIZED VIEW name.")
        if self._is("("):
            raise self._error(
                "names of columns after the view's name are not supported.",
                "Name the columns in the SELECT, with AS.",
            )
        if self._is("."):
            raise self._error("a view's name has no dot.", "Write the name alone.")
        return name

    def _plain_name(self, of: str, hint: str) -> str:
        token = self._token
        if token.kind not in ("word", "quoted") or token.word in _NO_NAMES:
            raise self._error(f"the {of} has no name.", hint)
        name = _unquoted(token)
        if not _VIEW_NAME.fullmatch(name):
            raise self._error(
                f"{name} cannot be the name of a {of}.",
                "Use letters, digits and underscores, a letter first.",
            )
        self._next()
        return name

    def _group(self) -> dict[str, object]:
        self._expect("GROUP", "Write IN GROUP name.")
        return {"group": self._plain_name("group", "Write IN GROUP name.")}

    def _clause(self) -> dict[str, object]:
        token = self._token
        readers: dict[str, Callable[[], dict[str, object]]] = {
            "IN": self._group,
            "WITH": self._level,
            "USING": self._using,
            "WITH CHANGES": self._changes,
            "KEEP": self._keep_keys,
            "KEEP COPY": self._keep_copies,
            "REFRESH": lambda: {"refresh_every": self._every()},
            "PUBLISH": lambda: {"publish_every": self._every()},
            "RECOMPUTE": self._recompute,
        }
        if token.kind == "end":
            raise self._error("the file ends before AS SELECT.", "Write AS and the view's query.")
        if token.word not in readers:
            raise self._error(
                f"'{token.text}' was not expected here.",
                f"{did_you_mean(token.word, _CLAUSES)}After the name may come "
                f"{', '.join(_CLAUSES[:-1])}, then comes AS SELECT.",
            )
        self._next()
        two_words = f"{token.word} {self._token.word}"
        word = two_words if two_words in readers else token.word
        if word in self._places:
            raise self._error_at(token, f"{word} occurs twice.", "Write it once.")
        self._places[word] = token.start
        return readers[word]()

    def _level(self) -> dict[str, object]:
        level = LEVELS.get(self._token.word)
        if level is None:
            raise self._error(
                f"'{self._token.text}' is not a level of consistency.",
                f"{did_you_mean(self._token.word, (*LEVELS, 'CHANGES'))}The levels are: "
                f"{', '.join(LEVELS)}.",
            )
        self._next()
        if level == Level.NONE:
            self._expect("CONSISTENCY", "Write WITH NO CONSISTENCY.")
        elif self._is("CONSISTENCY"):
            self._next()
        return {"level": level}

    def _changes(self) -> dict[str, object]:
        self._next()
        return {"changes": True}

    def _using(self) -> dict[str, object]:
        if self._token.kind not in ("word", "quoted") or self._token.word in _NO_NAMES:
            raise self._error("USING names no algorithm.", "Write for example USING sweep.")
        self._places["algorithm"] = self._token.start
        algorithm = _unquoted(self._token).lower()
        self._next()
        parameters: dict[str, str] = {}
        if self._is("("):
            self._next()
            while not self._is(")"):
                name, value = self._parameter()
                parameters[name] = value
                if not self._is(")"):
                    self._expect(",", "Write (name = value, ...).")
            self._next()
        return {"algorithm": algorithm, "parameters": parameters}

    def _parameter(self) -> tuple[str, str]:
        if self._token.kind not in ("word", "quoted"):
            raise self._error("a parameter has no name.", "Write (name = value, ...).")
        name = _unquoted(self._token).lower()
        if f"parameter {name}" in self._places:
            raise self._error(f"parameter {name} occurs twice.", "Write it once.")
        self._places[f"parameter {name}"] = self._token.start
        self._next()
        self._expect("=", "Write (name = value, ...).")
        token = self._token
        if token.kind not in ("word", "number", "string"):
            raise self._error(f"parameter {name} has no value.", "Write (name = value, ...).")
        self._next()
        return name, token.text[1:-1] if token.kind == "string" else token.text

    def _keep_keys(self) -> dict[str, object]:
        self._expect("KEYS", "Write KEEP KEYS, or KEEP COPY OF and a relation.")
        return {"keep_keys": True}

    def _keep_copies(self) -> dict[str, object]:
        self._next()
        self._expect("OF", "Write KEEP COPY OF relation, ...")
        found = [self._relation()]
        while self._is(","):
            self._next()
            found.append(self._relation())
        return {"keep_copies": tuple(found)}

    def _relation(self) -> CopyName:
        place = self._token.start
        parts: list[str] = []
        while True:
            token = self._token
            if token.kind not in ("word", "quoted") or (not parts and token.word in _NO_NAMES):
                raise self._error(
                    "KEEP COPY OF names no relation here.", "Write for example crm.countries."
                )
            name = _unquoted(token)
            parts.append(QuotedName(name) if token.text.startswith('"') else name)
            self._next()
            if not self._is("."):
                break
            self._next()
        if len(parts) > 3:
            raise error_at(
                self._path,
                self._text,
                place,
                f"{'.'.join(parts)} has too many parts.",
                "Write source.relation, or source.schema.relation.",
            )
        return CopyName(tuple(parts), place)

    def _every(self) -> float:
        self._expect("EVERY", "Write for example EVERY '5 seconds'.")
        token = self._token
        if token.kind != "string":
            raise self._error("EVERY needs a duration in quotes.", "Write for example '5 seconds'.")
        try:
            seconds = parse_duration(token.text[1:-1])
        except ValueError as error:
            raise self._error(f"{token.text} {error}.") from None
        self._next()
        return seconds

    def _recompute(self) -> dict[str, object]:
        hint = "Write RECOMPUTE NEVER, RECOMPUTE WHEN CHEAPER, or RECOMPUTE FROM 100000 ROWS."
        if self._is("NEVER"):
            self._next()
            return {"recompute": "never"}
        if self._is("WHEN"):
            self._next()
            self._expect("CHEAPER", hint)
            return {"recompute": "when cheaper"}
        self._expect("FROM", hint)
        token = self._token
        if token.kind != "number" or not token.text.isdecimal() or int(token.text) == 0:
            raise self._error("RECOMPUTE FROM needs a whole number above zero.", hint)
        self._next()
        self._expect("ROWS", hint)
        return {"recompute": int(token.text)}

    # Tokens

    def _is(self, word: str) -> bool:
        return self._token.word == word and self._token.kind in ("word", "sign")

    def _expect(self, word: str, hint: str) -> None:
        if not self._is(word):
            found = f"'{self._token.text}'" if self._token.text else "the end of the file"
            raise self._error(f"{word} was expected here, not {found}.", hint)
        self._next()

    def _next(self) -> _Token:
        self._token = next(self._coming)
        if self._token.kind == "sign" and self._token.text in "'\"`":
            raise self._error(f"what {self._token.text} opens is never closed.", "Close it.")
        return self._token

    def _error(self, message: str, hint: str = "") -> InputError:
        return self._error_at(self._token, message, hint)

    def _error_at(self, token: _Token, message: str, hint: str = "") -> InputError:
        return error_at(self._path, self._text, token.start, message, hint)


def _unquoted(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)
