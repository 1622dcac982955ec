"""PostgreSQL's operators for JSON: `->`, `->>`, `#>` and `#>>` with constant keys and paths.

They bind as they do in PostgreSQL, weaker than `+` and `::` and stronger than comparisons
(`sql.text` has that). What they take is a text here: a column of type json or jsonb, what another
of them gives, or any text that holds JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from headwater.algebra.expressions import Call, Expression, Literal, walk
from headwater.algebra.functions.json_text import path_of
from headwater.algebra.functions.late import VARIABLE
from headwater.algebra.sql.late import Translates
from headwater.algebra.sql.literals import type_of
from headwater.algebra.sql.names import UnknownNameError, Visible
from headwater.algebra.sql.text import JSON_OPERATORS, RefusalError
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT, Type

_CONTAINERS = ("->", "#>")
"""Those that give JSON again."""
_JSON_TYPES = ("json", "jsonb")


_NO_LAMBDA = "; a function of elements, x -> x + 1, stands only in TRANSFORM, FILTER and the like"


class Sees(Translates, Protocol):
    """What translates, and knows the columns."""

    def visible(self, node: exp.Column) -> tuple[Visible, Any]: ...


def _access(operator: str) -> Callable[[Sees, exp.Binary], Expression]:
    def handler(t: Sees, node: exp.Binary) -> Expression:
        key = (_path if operator.startswith("#") else _key)(operator, node.expression)
        of = t.expression(node.this)
        _check_operand(t, operator, node.this, of)
        match _printed(t, node.this), key:
            case "jsonb", _:  # which is always JSON, so that nothing fails
                return Call("tried", (call(operator, of, key),), TEXT)
            case "json", Literal(
                value=int()
            ):  # whose scalars have no elements, unlike those of jsonb
                whole = call("#>", of, Literal("{}", TEXT))
                is_array = call("startswith", whole, Literal("[", TEXT))
                return call("case", is_array, call(operator, of, key), Literal(None, TEXT))
        return call(operator, of, key)

    return handler


JSON_HANDLERS: dict[type, Callable[..., Expression]] = {
    kind: _access(operator) for operator, kind in JSON_OPERATORS.items()
}
_SPOKEN = {kind: operator for operator, kind in JSON_OPERATORS.items()}


def gives_json(node: exp.Expr) -> bool:
    """Whether it is a call of `->` or `#>`, whose text means a value of type json or jsonb."""
    return _SPOKEN.get(type(node)) in _CONTAINERS


def _check_operand(t: Sees, operator: str, node: exp.Expr, of: Expression) -> None:
    if any(isinstance(e, Call) and e.operator == VARIABLE for e in walk(of)):
        raise RefusalError(
            f"{operator} cannot stand in a function of an array's elements.",
            "Write GET_JSON_OBJECT(x, '$.k') there, as Spark has it.",
        )
    printed = _printed(t, node)
    if printed and printed not in _JSON_TYPES:
        raise RefusalError(
            f"{operator} is for JSON, and this is of type {printed} at its source.",
            "Use a column of type json or jsonb, or a text that holds JSON.",
        )


def _printed(t: Sees, node: exp.Expr) -> str:
    """What the source calls the type of a column, or of the one that this is a part of."""
    of = node.unnest()
    while gives_json(of):
        of = of.this.unnest()
    if not isinstance(of, exp.Column) or isinstance(of.this, exp.Star):
        return ""
    try:
        visible, fields = t.visible(of)
    except UnknownNameError:
        return ""  # a name of the select list
    return "" if fields else visible.printed


# Constants


def _key(operator: str, node: exp.Expr) -> Literal:
    """A member's name or an element's number."""
    value = _constant(node, TEXT, INT)
    if value is None:
        raise RefusalError(
            f"{operator} takes the name of a member or the number of an element as a constant.",
            f"Write {operator} 'name' or {operator} 0{_NO_LAMBDA if operator == '->' else ''}.",
        )
    if isinstance(value, int):
        return Literal(value, INT)
    if value.startswith(("$.", "$[")) or value == "$":
        raise RefusalError(
            f"'{value}' would be the name of a member for {operator}, which takes no paths.",
            f"Write {operator} 'name', or a path as in #>> '{{a,b,0}}'.",
        )
    return Literal(value, TEXT)


def _path(operator: str, node: exp.Expr) -> Literal:
    written = node.unnest()
    if isinstance(written, exp.Array):
        names = [_constant(each, TEXT) for each in written.expressions]
        known = [name for name in names if isinstance(name, str)]
        path = path_of(known) if len(known) == len(names) else None
    else:
        found = _constant(written, TEXT)
        path = found if isinstance(found, str) else None
    if path is None:
        raise RefusalError(
            f"{operator} takes a path that is a constant.", f"Write {operator} '{{a,b,0}}'."
        )
    return Literal(path, TEXT)


def _constant(node: exp.Expr, *kinds: Type) -> str | int | None:
    """A text or a whole number that was written, maybe with the `::` that PostgreSQL puts there."""
    inner = node.unnest()
    if isinstance(inner, exp.Cast | exp.TryCast) and not inner.args.get("safe"):
        value = _constant(inner.this, *kinds)
        return value if _fits(value, inner.to) else None
    sign = 1
    if isinstance(inner, exp.Neg):
        sign, inner = -1, inner.this
    if not isinstance(inner, exp.Literal):
        return None
    if inner.is_string:
        return inner.name if TEXT in kinds and sign == 1 else None
    return sign * int(inner.name) if INT in kinds and inner.name.isdecimal() else None


def _fits(value: str | int | None, to: exp.DataType) -> bool:
    """Whether a cast leaves a constant what it is; of a path, one to an array of texts does."""
    kind = to.expressions[0] if to.this is exp.DType.ARRAY and to.expressions else to
    return type_of(kind) == (TEXT if isinstance(value, str) else INT)
