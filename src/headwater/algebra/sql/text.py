"""The text of a view's SQL: its tokens, its names, and where in it something stands.

The dialect is Spark's, except that double quotes enclose names, as in standard SQL. sqlglot
notes where names, literals and function names start, but not clauses; those are found among the
tokens. Errors made here carry a line and a column, both from 1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import binary_range_parser

from headwater.algebra.functions.late import LATE_BY_NAME, SPOKEN_APART
from headwater.algebra.functions.table import BY_NAME
from headwater.algebra.sql.forms import FORMS, POINTS
from headwater.errors import SqlError

_OF_UNITS = (
    "DATE_PART DATEPART TIMESTAMPDIFF DATEDIFF DATE_DIFF TIMEDIFF TIMESTAMPADD DATEADD DATE_ADD "
    "DATE_BIN TIME_BUCKET"
)
CALLED = frozenset(
    {*BY_NAME, *FORMS, *POINTS, *LATE_BY_NAME, *SPOKEN_APART, *_OF_UNITS.split()}
) - {"ARRAY"}
"""Names of functions that are read as calls, whatever sqlglot knows of them. It would take `[0]`
behind a call of that other one for its argument."""
MISREAD = frozenset({"PERCENTILE", "MAX_BY", "MIN_BY"})
"""Aggregates of which sqlglot drops an argument."""
SPECIAL = frozenset({"SUBSTRING", "SUBSTR", "TRIM", "POSITION", "OVERLAY"})
"""Those that have a syntax of their own, such as SUBSTRING(x FROM 1 FOR 2)."""

JSON_OPERATORS: dict[str, type[exp.Expr]] = {
    "->": exp.JSONExtract,
    "->>": exp.JSONExtractScalar,
    "#>": exp.JSONBExtract,
    "#>>": exp.JSONBExtractScalar,
}
_JSON_TOKENS = {
    TokenType.ARROW: exp.JSONExtract,
    TokenType.DARROW: exp.JSONExtractScalar,
    TokenType.HASH_ARROW: exp.JSONBExtract,
    TokenType.DHASH_ARROW: exp.JSONBExtractScalar,
}
_TAKE_LAMBDAS = SPOKEN_APART | {"EXISTS"}


def _without(names: frozenset[str], functions: dict[str, Any]) -> dict[str, Any]:
    return {name: read for name, read in functions.items() if name not in names}


def _json_reader(kind: type[exp.Expr]) -> Any:
    return lambda parser, this, key: parser.expression(kind(this=this, expression=key))


def _json_writer(operator: str) -> Any:
    return lambda generator, node: (
        f"{generator.sql(node, 'this')} {operator} {generator.sql(node, 'expression')}"
    )


class StandardSpark(Spark):
    """Spark's SQL as `spark.sql.ansi.doubleQuotedIdentifiers` makes it: `"..."` is a name."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012  # sqlglot reads it from the class and never changes it
        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012
        RAW_STRINGS = [("r'", "'"), ("R'", "'")]  # noqa: RUF012

    class Parser(Spark.Parser):  # type: ignore[valid-type,misc]
        # A function of ours is known by the name that was written, and not by what sqlglot takes
        # for the same in all dialects.
        FUNCTIONS = _without(CALLED | MISREAD, Spark.Parser.FUNCTIONS)
        FUNCTION_PARSERS = _without((CALLED - SPECIAL) | MISREAD, Spark.Parser.FUNCTION_PARSERS)
        # `x ~ 'a.b'` and `TABLE orders` are PostgreSQL's; Spark has the latter, too.
        RANGE_PARSERS = {  # noqa: RUF012
            **Spark.Parser.RANGE_PARSERS,
            TokenType.TILDE: binary_range_parser(exp.RegexpLike),
        }
        SUPPORTS_TABLE_QUERY = True
        NO_PAREN_FUNCTION_PARSERS = _without(
            frozenset({"TRANSFORM"}), Spark.Parser.NO_PAREN_FUNCTION_PARSERS
        )
        # JSON's operators bind as in PostgreSQL, and their keys stay as they were written.
        COLUMN_OPERATORS = {  # noqa: RUF012
            token: read
            for token, read in Spark.Parser.COLUMN_OPERATORS.items()
            if token not in _JSON_TOKENS
        }
        JSON_OPERATORS = {  # noqa: RUF012
            token: _json_reader(kind) for token, kind in _JSON_TOKENS.items()
        }

        def parse(self, raw_tokens: list[Token], sql: str) -> Any:
            """WINDOW before a parenthesis is a function, and begins no clause."""
            for token, following in pairwise(raw_tokens):
                is_call = following.token_type is TokenType.L_PAREN
                if token.token_type is TokenType.WINDOW and is_call:
                    token.token_type = TokenType.VAR
            return super().parse(raw_tokens, sql)

        def _parse_as_command(self, start: Token) -> Any:
            """A statement that cannot be read is a mistake, and nothing to be passed on."""
            self.raise_error("Invalid expression / Unexpected token", self._curr or start)

        def _parse_lambda(self, alias: bool = False) -> Any:
            """An argument; `x -> ...` is a function only where a function is taken."""
            if self._next.token_type is not TokenType.ARROW or self._may_be_lambda():
                return super()._parse_lambda(alias=alias)
            argument = self._parse_select_or_expression(alias=alias)
            return self._parse_limit(self._parse_order(argument))

        def _parse_table_alias(self, alias_tokens: Any = None) -> Any:
            """With how many steps a recursion may take, which only Spark has behind its name."""
            alias = super()._parse_table_alias(alias_tokens)
            if alias is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
                alias.set("most_steps", self._parse_number() or self.raise_error("Expected number"))
            return alias

        def _may_be_lambda(self) -> bool:
            depth = 0
            for at in range(self._index - 1, 0, -1):
                token = self._tokens[at].token_type
                depth += token is TokenType.R_PAREN
                depth -= token is TokenType.L_PAREN
                if depth < 0:
                    return self._tokens[at - 1].text.upper() in _TAKE_LAMBDAS
            return False

    class Generator(Spark.Generator):  # type: ignore[valid-type,misc]
        # A query is written as it was read, and not without clauses that Spark does not have; each
        # WITH stays where its names mean something.
        EXPRESSIONS_WITHOUT_NESTED_CTES: set[type[exp.Expr]] = set()  # noqa: RUF012
        TRANSFORMS = {  # noqa: RUF012
            **{
                kind: write
                for kind, write in Spark.Generator.TRANSFORMS.items()
                if kind not in (exp.Select, exp.WithinGroup)
            },
            exp.ArrayAgg: lambda generator, node: f"ARRAY_AGG({generator.sql(node, 'this')})",
            exp.Unnest: lambda generator, node: _written_unnest(generator, node),
            exp.TableAlias: lambda generator, node: _written_alias(generator, node),
            **{kind: _json_writer(operator) for operator, kind in JSON_OPERATORS.items()},
        }


def _written_alias(generator: Any, node: exp.TableAlias) -> str:
    most = node.args.get("most_steps")
    limit = f" MAX RECURSION LEVEL {most.name}" if most is not None else ""
    return f"{generator.tablealias_sql(node)}{limit}"


def _written_unnest(generator: Any, node: exp.Unnest) -> str:
    """UNNEST, which Spark does not have; the number's name stands behind those of the alias."""
    text = f"UNNEST({generator.expressions(node, flat=True)})"
    alias, offset = node.args.get("alias"), node.args.get("offset")
    text += " WITH ORDINALITY" if offset else ""
    if alias is None:
        return text
    names = [*(alias.args.get("columns") or ())]
    names += [offset] if isinstance(offset, exp.Identifier) else []
    listed = ", ".join(generator.sql(name) for name in names)
    return f"{text} AS {generator.sql(alias, 'this')}{f'({listed})' if listed else ''}"


DIALECT = StandardSpark
_KEYWORDS = {word.partition(" ")[0].upper() for word in StandardSpark.Tokenizer.KEYWORDS}
TEXT_HINT = "Text stands in single quotes."
_WRITE_TEXT = "Write text in single quotes, and a quote in it twice: 'it''s'."
_VISIBLE = re.compile(r"[^\n]")
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_BEFORE_QUERY = frozenset(
    ["(", ")", "AS", "RETURN", "UNION", "EXCEPT", "MINUS", "INTERSECT", "ALL", "DISTINCT", "NAME"]
)
_SET_WORDS = (TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT)
_CLOSED = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_PREFIX = re.compile(r"(?<![\w.])([EeNnBb]|[Uu]&)$")
_NO_HEX = re.compile(r"\b[Xx]'(?![0-9A-Fa-f]*')")
_JOIN_WORDS = re.compile(
    "NATURAL|LEFT|RIGHT|FULL|OUTER|SEMI|ANTI|INNER|CROSS|ASOF|STRAIGHT_JOIN|JOIN", re.IGNORECASE
)


def is_keyword(word: str) -> bool:
    """Whether a word may mean something else than a name, or begin what does."""
    return word.upper() in _KEYWORDS


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Where an offset of a text is, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class RefusalError(ValueError):
    """A part of a view that is refused, in words; whoever knows the place adds it."""

    def __init__(self, message: str, hint: str = "", about: Collection[str] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.about = about
        """Words in small letters, with one of which the part begins, where no place is known."""


class QuotedName(str):
    """A name in double quotes, which means only what is spelled the same way."""

    __slots__ = ()


def means(name: str, other: str) -> bool:
    """Whether a name that was written may mean what is called `other`."""
    return name == other or (not isinstance(name, QuotedName) and name.lower() == other.lower())


class SqlText:
    """SQL as it was written, with its tokens."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        try:
            self.tokens: list[Token] = sqlglot.tokenize(sql, read=DIALECT)
        except Exception:
            raise self._unclosed() from None

    # Errors

    def error_at(self, offset: int, message: str, hint: str = "") -> SqlError:
        line, column = line_and_column(self.sql, offset)
        return SqlError(message, hint, line=line, column=column)

    def error(self, node: exp.Expr, message: str, hint: str = "") -> SqlError:
        return self.error_at(self.start(node), message, hint)

    def _unclosed(self) -> SqlError:
        rest = _CLOSED.sub(lambda match: " " * len(match[0]), self.sql)
        opened = re.search(r"['\"`]|/\*|\$\w*\$", rest)
        if opened and opened[0].startswith("$"):
            return self._dollar(opened.start())
        if opened is None and (digits := _NO_HEX.search(self.sql)):
            hint = "Write for example X'00ff'."
            return self.error_at(digits.start(), "X'...' has something else than digits.", hint)
        if opened is None:
            return self.error_at(0, "this text cannot be divided into words.", "Check its quotes.")
        return self.error_at(
            opened.start(), f"what {opened[0]} opens is never closed.", "Close it."
        )

    def _dollar(self, offset: int) -> SqlError:
        return self.error_at(offset, "$ has no meaning here.", _WRITE_TEXT)

    def check_words(self) -> None:
        """Refuse texts and names in ways of writing that some databases have."""
        for token in self.tokens:
            if token.text == "$" and token.token_type is TokenType.PARAMETER:
                raise self._dollar(token.start)
            if token.token_type is TokenType.IDENTIFIER and not token.text:
                raise self.error_at(token.start, "there is a name without letters.", TEXT_HINT)
            if prefix := self._prefix(token):
                message = f"{prefix[0]}'...' is not supported."
                raise self.error_at(prefix.start(), message, _WRITE_TEXT)
        for (before, token), (_, following) in pairwise(pairwise(self.tokens)):
            is_part = before.token_type is TokenType.DOT
            if (is_part or token.token_type in _QUOTED) and _is_constructor(token, following):
                hint = "Write GET(name, 0) or ELEMENT_AT(name, 1)."
                raise self.error_at(token.start, f"{token.text}[...] is ambiguous.", hint)
        for token, following in pairwise(self.tokens):
            if token.token_type is following.token_type is TokenType.STRING:
                message = "there are two strings side by side."
                raise self.error_at(following.start, message, "Put || between them.")

    def _prefix(self, token: Token) -> re.Match[str] | None:
        """What makes a text of another kind, such as the E of E'...'."""
        if token.token_type is TokenType.NATIONAL_STRING:
            return re.compile(".").match(self.sql, token.start)
        if token.token_type is TokenType.STRING:
            return _PREFIX.search(self.sql, max(0, token.start - 3), token.start)
        return None

    # Reading

    @property
    def code(self) -> str:
        """The text with blanks where comments and hints are, everything else in its place."""
        parts, at = [], 0
        for token in self.tokens:
            if token.token_type is not TokenType.HINT:
                parts += [blank(self.sql[at : token.start]), self.sql[token.start : token.end + 1]]
                at = token.end + 1
        return "".join([*parts, blank(self.sql[at:])])

    def first_of(self, words: Collection[str]) -> int:
        """Where the first of some words stands behind FROM, or else anywhere; or the start."""
        places = [token.start for token in self.tokens if token.text.lower() in words]
        behind = next((t.start for t in self.tokens if t.token_type is TokenType.FROM), 0)
        return next((place for place in places if place > behind), places[0] if places else 0)

    def name(self, node: exp.Expr, part: str = "this") -> str:
        """A name of the tree as it was written; empty if there is none."""
        identifier = node if isinstance(node, exp.Identifier) else node.args.get(part)
        if not isinstance(identifier, exp.Identifier):
            return node.text(part)
        start = identifier.meta.get("start")
        quoted = start is not None and self.sql[start : start + 1] == '"'
        return QuotedName(identifier.name) if quoted else identifier.name

    def parse(self) -> exp.Expr:
        """The syntax tree; the caller has seen to it that there is one statement."""
        try:
            tree = sqlglot.parse(self.sql, read=DIALECT, error_level=ErrorLevel.IMMEDIATE)[0]
        except ParseError as error:
            raise self._syntax_error(error) from None
        except RecursionError:
            raise self.error_at(0, "the query is nested too deeply.", "Simplify it.") from None
        except Exception:
            # sqlglot stumbles over some calls with too few arguments, such as MAP(1), and hints
            tree = None
        if tree is None:
            hint = "Look for a function, type or hint with arguments that it cannot have."
            raise self.error_at(0, "the query cannot be read.", hint)
        return tree

    def _syntax_error(self, error: ParseError) -> SqlError:
        details = error.errors[0]
        ends = (details.get("line"), details.get("col"))
        token = next((t for t in self.tokens if (t.line, t.col) == ends), self.tokens[-1])
        found = self.sql[token.start : token.end + 1]
        what = _plain_words(str(details.get("description", "")))
        return self.error_at(
            token.start, f"syntax error at '{found}': {what}.", "Correct the query there."
        )

    def parts(self, tree: exp.Expr) -> dict[int, SqlText]:
        """For each SELECT of a tree, by its identity, the text with all else blank: places stay.

        A SELECT goes up to the parenthesis or the set operator that ends it.
        """
        starts = [at for at in range(len(self.tokens)) if self._starts_query(at)]
        selects = list(_selects_in_order(tree))
        if len(starts) != len(selects):
            place = self.last_keyword("FROM", "TABLE")
            raise self.error_at(place, "a SELECT is missing here.", "Write SELECT ... FROM ....")
        return {
            id(select): self._part(start) for select, start in zip(selects, starts, strict=True)
        }

    def _starts_query(self, at: int) -> bool:
        """Whether a SELECT starts here, or the TABLE that stands for one, and is no name."""
        token = self.tokens[at]
        if token.token_type is not TokenType.TABLE or at + 1 == len(self.tokens):
            return token.token_type is TokenType.SELECT
        is_behind = at == 0 or self.tokens[at - 1].text.upper() in _BEFORE_QUERY
        return is_behind and self.tokens[at + 1].token_type in StandardSpark.Parser.ID_VAR_TOKENS

    def _part(self, first: int) -> SqlText:
        depth, start, end = 0, self.tokens[first].start, len(self.sql)
        for before, token in pairwise(self.tokens[first:]):
            depth += token.token_type is TokenType.L_PAREN
            depth -= token.token_type is TokenType.R_PAREN
            ends = token.token_type in _SET_WORDS and before.text != "*"
            if depth < 0 or (depth == 0 and ends):
                end = token.start
                break
        if (start, end) == (self.tokens[0].start, len(self.sql)):
            return self
        return SqlText(only(self.sql, start, end))

    def words(self) -> Iterator[tuple[Token, str]]:
        """The tokens outside parentheses and brackets, each with its first word in capitals."""
        depth = 0
        for token in self.tokens:
            depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
            if depth == 0 and token.token_type not in _QUOTED:
                yield token, (token.text.upper().split() or [""])[0]
            depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)

    def select_items(self, end: int) -> list[tuple[str, int]]:
        """The items of the select list, which goes up to `end`: their texts and places."""
        start = self.keyword("SELECT", "TABLE")
        if self.sql[start : start + 5].upper() == "TABLE":  # which stands for SELECT * FROM
            return [("*", start)]
        items: list[tuple[int, list[Token]]] = [(start, [])]
        commas = {token.start for token, word in self.words() if word == ","}
        for token in self.tokens:
            if token.start in commas and start < token.start < end:
                items.append((token.start, []))
            elif start < token.start < end:
                items[-1][1].append(token)
        return [(self._between(item), item[0].start if item else at) for at, item in items]

    def _between(self, tokens: list[Token]) -> str:
        if not tokens:
            return ""
        return " ".join(self.sql[tokens[0].start : tokens[-1].end + 1].split())

    # Places

    def keyword(self, *words: str) -> int:
        """Where the first of these words stands outside parentheses, or the end of the text."""
        return next((t.start for t, word in self.words() if word in words), len(self.sql))

    def from_word(self) -> int:
        """Where the FROM of the SELECT stands; IS DISTINCT FROM has another."""
        words = [("", 0), *((word, t.start) for t, word in self.words())]
        places = [
            place
            for (before, _), (word, place) in pairwise(words)
            if word == "FROM" and before != "DISTINCT"
        ]
        return places[0] if places else len(self.sql)

    def last_keyword(self, *words: str) -> int:
        return max((t.start for t, word in self.words() if word in words), default=0)

    def start(self, node: exp.Expr) -> int:
        """Where a part of the syntax tree starts."""
        known: list[int] = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        first = min(known, default=len(self.sql))
        if isinstance(node, exp.Func) and not isinstance(node, exp.Binary | exp.Cast):
            first = self._name_before(first, node.sql_names())
        if first < len(self.sql):
            return first
        return self.start(node.parent) if node.parent else 0

    def _name_before(self, start: int, names: list[str]) -> int:
        """Where a function's name stands that sqlglot did not note."""
        places = [
            token.start
            for token in self.tokens
            if token.start <= start and token.text.upper() in names
        ]
        return places[-1] if places else start

    def before(self, node: exp.Expr, word: str) -> int:
        """Where `word` stands last before a part of the tree."""
        start = self.start(node)
        places = [t.start for t in self.tokens if t.start <= start and t.text.upper() == word]
        return places[-1] if places else start

    def written(self, node: exp.Expr) -> str:
        """The name of a function as it was written."""
        if isinstance(node, exp.Anonymous):
            return node.name
        if "start" in node.meta:
            return self.sql[node.meta["start"] : node.meta["end"] + 1]
        return node.sql_names()[0] if isinstance(node, exp.Func) else type(node).__name__

    def check_arguments(self, node: exp.Expr, most: int) -> None:
        """RefusalError if a call has more arguments: the parser reads past some of them."""
        if self._arguments(node) > most:
            name = self.written(node).upper()
            raise RefusalError(f"{name} takes {most} argument(s).", "Change the expression.")

    def _arguments(self, node: exp.Expr) -> int:
        """How many arguments a call has as it was written; 0 where its place is not known."""
        place = node.meta.get("start")
        behind = [token for token in self.tokens if place is not None and token.start > place]
        depth = count = 0
        for token in behind:
            depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
            if depth == 0 and token.token_type is not TokenType.L_PAREN:
                break
            if depth == 1 and token.token_type is TokenType.ORDER_BY:
                break
            count += depth == 1 and token.token_type is TokenType.COMMA
            count = count or int(depth > 0)
            depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
        return count

    def follows_comma(self, node: exp.Expr) -> bool:
        """Whether a table of FROM was joined by a comma."""
        at = self._position(node)
        return at > 0 and self.tokens[at - 1].text == ","

    def join_start(self, node: exp.Expr) -> int:
        """Where the words start that join this table, such as LEFT OUTER JOIN."""
        at = self._position(node)
        while at > 0 and _JOIN_WORDS.fullmatch(self.tokens[at - 1].text):
            at -= 1
        return self.tokens[at].start

    def _position(self, node: exp.Expr) -> int:
        start = self.start(node)
        return max((at for at, t in enumerate(self.tokens) if t.start <= start), default=0)


def _is_constructor(token: Token, following: Token) -> bool:
    """Whether sqlglot takes a name and a bracket for an array, whatever else it may be."""
    is_bracket = following.token_type is TokenType.L_BRACKET
    return is_bracket and token.text.upper() in ("ARRAY", "LIST")


def _selects_in_order(tree: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs of a tree as they stand in the text."""
    left: list[Any] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += reversed(node)
        elif isinstance(node, exp.Select) and "with_" in node.args and node.args["with_"]:
            left += [_AfterWith(node), node.args["with_"]]
        elif isinstance(node, exp.Select | _AfterWith):
            select = node.select if isinstance(node, _AfterWith) else node
            yield select
            left += reversed(_in_order(select))
        elif isinstance(node, exp.Expr):
            left += reversed(_in_order(node))


class _AfterWith:
    """A SELECT whose WITH is done."""

    def __init__(self, select: exp.Select) -> None:
        self.select = select


def _in_order(node: exp.Expr) -> list[Any]:
    """The parts of a node as they stand in the text, for a SELECT without its WITH."""
    parts = dict(node.args)
    first = (
        ("expressions", "from_", "joins", "where") if isinstance(node, exp.Select) else ("with_",)
    )
    if isinstance(node, exp.Select):
        parts.pop("with_", None)
    return [parts.pop(name) for name in first if name in parts] + list(parts.values())


def only(sql: str, start: int, end: int) -> str:
    """A part of a text in its place, with all else blank."""
    return blank(sql[:start]) + sql[start:end] + blank(sql[end:])


def blank(text: str) -> str:
    """Blanks in the place of a text."""
    return _VISIBLE.sub(" ", text)


def _plain_words(description: str) -> str:
    """sqlglot's description without names of its own classes and tokens."""
    if "missing for <class" in description:
        return "something is missing here"
    if match := re.match(r"The number of provided arguments \((\d+)\)", description):
        return f"a function does not take {match[1]} arguments"
    if description.startswith("Invalid expression"):
        return "this was not expected here"
    plain = description.partition(" but got ")[0]
    return plain[:1].lower() + plain[1:] if plain else "this was not expected here"
