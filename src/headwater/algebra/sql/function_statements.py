"""CREATE FUNCTION: the statements that functions of one's own are written as.

A text may begin with the functions that its query calls, each closed by a semicolon: so a view is
stored with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import TokenType, exp

from headwater.algebra.functions.known import OF_OTHER_TYPES, VOLATILE
from headwater.algebra.sql.functions import Function, Parameter
from headwater.algebra.sql.late import nested_type
from headwater.algebra.sql.text import CALLED, DIALECT, SqlText, only
from headwater.algebra.values import Type

_FORM = "Write CREATE FUNCTION name(argument TYPE, ...) RETURNS TYPE RETURN expression."
_PROPERTIES = (
    exp.ReturnsProperty,
    exp.LanguageProperty,
    exp.StabilityProperty,
    exp.SchemaCommentProperty,
)


def script(sql: str, file: str = "") -> tuple[dict[str, Function], SqlText]:
    """The functions with which a text begins, and the rest of it in its place."""
    whole = SqlText(sql)
    found: dict[str, Function] = {}
    start = 0
    for at, token in enumerate(whole.tokens):
        words = [each.text.upper() for each in whole.tokens[start : start + 5]]
        if not _is_function(words):
            break
        if token.token_type is TokenType.SEMICOLON:
            begin, end = whole.tokens[start].start, token.start
            function = read_function(only(sql, begin, end), file)
            found[function.name.upper()] = function
            start = at + 1
    if not found:
        return found, whole
    begin = whole.tokens[start].start if start < len(whole.tokens) else len(sql)
    return found, SqlText(only(sql, begin, len(sql)))


def _is_function(words: Sequence[str]) -> bool:
    plain = [word for word in words if word not in ("OR", "REPLACE", "TEMPORARY")]
    return plain[:2] == ["CREATE", "FUNCTION"]


def statements(sql: str) -> Iterator[str]:
    """The statements of a text, each in its place with all else blank."""
    tokens = SqlText(sql).tokens
    start = 0
    for at, token in enumerate([*tokens, None]):
        if token is None or token.token_type is TokenType.SEMICOLON:
            if at > start:
                yield only(sql, tokens[start].start, tokens[at - 1].end + 1)
            start = at + 1


def read_function(statement: str, file: str = "") -> Function:
    """The function that a statement creates; SqlError or FunctionError says what is wrong."""
    text = SqlText(statement)
    bare = Function("", (), None, None, text, file)
    with bare.telling():
        return _read(text, bare)


def _read(text: SqlText, bare: Function) -> Function:
    words = [token.text.upper() for token in text.tokens[:5]]
    if not _is_function(words):
        place = text.tokens[0].start if text.tokens else 0
        raise text.error_at(place, "a function starts with CREATE FUNCTION.", _FORM)
    text.check_words()
    tree = text.parse()
    made = tree.this
    if not isinstance(made, exp.UserDefinedFunction) or not isinstance(tree.expression, exp.Return):
        raise text.error(tree, "this is no function with a RETURN.", _FORM)
    name = made.this.name
    _check_name(name, made, text)
    properties = tree.args.get("properties")
    returns = None
    for each in properties.expressions if properties else ():
        if not isinstance(each, _PROPERTIES) or _is_other_language(each):
            raise text.error(tree, f"{each.sql(DIALECT)} is not supported.", _FORM)
        returns = each.this if isinstance(each, exp.ReturnsProperty) else returns
    parameters = tuple(_parameter(each, text) for each in made.expressions)
    _check_parameters(parameters, made, text)
    if isinstance(tree.expression.this, exp.Query) and not isinstance(returns, exp.DataType):
        listed = returns.expressions if isinstance(returns, exp.Schema) else ()
        columns = tuple((each.name, _type(each.args.get("kind"), each, text)) for each in listed)
        return replace(bare, name=name, parameters=parameters, columns=columns)
    if returns is not None and not isinstance(returns, exp.DataType):
        raise text.error(tree, f"{name} RETURNS TABLE, and its RETURN is no SELECT.", _FORM)
    kind = None if returns is None else _type(returns, tree, text)
    return replace(bare, name=name, parameters=parameters, returns=kind)


def _is_other_language(each: exp.Expr) -> bool:
    return isinstance(each, exp.LanguageProperty) and each.name.upper() != "SQL"


def _check_name(name: str, made: exp.Expr, text: SqlText) -> None:
    if made.this.args.get("db"):
        raise text.error(made, "a function's name has no dot.", "Write the name alone.")
    called = SqlText(f"SELECT {name}(x)").parse().expressions[0] if name.isidentifier() else None
    if called is None:
        hint = "Use letters, digits and underscores, a letter first."
        raise text.error(made, f"{name} cannot be the name of a function.", hint)
    known = CALLED | VOLATILE | OF_OTHER_TYPES | {"EVERY", "SOME", "ANY", "DATEPART", "RANGE"}
    if not isinstance(called, exp.Anonymous) or name.upper() in known:
        raise text.error(made, f"there is a function {name} already.", "Give yours another name.")


def _parameter(node: exp.Expr, text: SqlText) -> Parameter:
    if not isinstance(node, exp.ColumnDef) or node.args.get("kind") is None:
        raise text.error(node, f"{node.name} has no type.", "Write its type behind its name.")
    default = None
    for constraint in node.args.get("constraints") or ():
        if isinstance(constraint.kind, exp.DefaultColumnConstraint):
            default = constraint.kind.this
        elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
            raise text.error(node, f"{constraint.sql(DIALECT)} is not supported.", _FORM)
    return Parameter(node.name, _type(node.args["kind"], node, text), default)


def _check_parameters(parameters: Sequence[Parameter], made: exp.Expr, text: SqlText) -> None:
    names = [one.name.lower() for one in parameters]
    if len(set(names)) < len(names):
        raise text.error(made, "two arguments have one name.", "Names differ, whatever their case.")
    optional = [one.default is not None for one in parameters]
    if optional != sorted(optional):
        hint = "Those with a DEFAULT come last."
        raise text.error(made, "behind a DEFAULT is an argument without one.", hint)


def _type(node: Any, place: exp.Expr, text: SqlText) -> Type:
    try:
        kind = nested_type(node)
    except ValueError as error:
        raise text.error(place, f"{error}".rstrip(".") + ".", getattr(error, "hint", "")) from None
    if kind is None:
        raise text.error(
            place, f"{node.sql(DIALECT)} is no type of a view.", "docs/sql.md has them."
        )
    return kind
