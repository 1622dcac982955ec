"""Calls of late functions: by name, with lambdas, and those whose type a constant names.

Separate from other calls because they are typed by themselves: a lambda's variables have the types
of an array's elements, and what FROM_JSON gives is what its schema says. What a lambda binds is a
variable, which no column can be taken for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp
from sqlglot.errors import ParseError

from headwater.algebra.expressions import Call, Expression, Literal
from headwater.algebra.functions.known import VOLATILE
from headwater.algebra.functions.late import (
    FROM_CSV,
    FROM_JSON,
    LAMBDA,
    LATE,
    LATE_BY_NAME,
    PARSED,
    PICKED,
    VARIABLE,
)
from headwater.algebra.sql.literals import type_of
from headwater.algebra.sql.text import DIALECT, RefusalError, SqlText
from headwater.algebra.typing_rules import cast, common_type, late_call
from headwater.algebra.values import BOOL, INT, TEXT, VOID, Type, array_type, struct_type


class Translates(Protocol):
    """What translates the parts of a call."""

    @property
    def text(self) -> SqlText: ...

    @property
    def special(self) -> Callable[[Any], Expression | None]: ...

    def expression(self, node: exp.Expr) -> Expression: ...

    def value_or_span(self, node: exp.Expr) -> Expression: ...

    def knowing(self, special: Callable[[Any], Expression | None]) -> Translates: ...


SCHEMAS = {"FROM_JSON": FROM_JSON, "FROM_CSV": FROM_CSV}


def late(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression | None:
    """What a late function of this name is of these arguments; None if there is none."""
    if name in HIGHER and name != "ARRAY_SORT":
        return HIGHER[name](t, name, nodes)
    if name in SCHEMAS:
        return _of_schema(t, name, nodes)
    if f"{LATE}{name.lower()}" in PICKED:
        return _picked(t, name, nodes)
    function = LATE_BY_NAME.get(name)
    if function is None or (not nodes and name in VOLATILE):
        return None
    arguments = [t.expression(node) for node in nodes]
    if name == "TO_JSON" and len(arguments) == 1 and _is_json(arguments[0]):
        return arguments[0]
    if name == "ARRAY_INSERT" and len(arguments) == 3 and arguments[0].type.name == "array":
        arguments[2] = _brought(arguments[2], arguments[0].type.element, "ARRAY_INSERT puts in")
    return late_call(function, *arguments)


def _brought(value: Expression, kind: Type, what: str) -> Expression:
    if common_type([value.type, kind]) != kind:
        raise ValueError(f"{what} {value.type} where {kind} is needed; CAST it")
    return cast(value, kind)


# Schemas


def _of_schema(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    schema = nodes[1] if len(nodes) == 2 else None
    if not (isinstance(schema, exp.Literal) and schema.is_string):
        raise RefusalError(
            f"{name} takes a text and its schema as a constant.",
            f"Write {name}(x, 'a BIGINT, b STRING').",
        )
    text = t.expression(nodes[0])
    if text.type not in (TEXT, VOID):
        raise RefusalError(f"{name} takes a text, not {text.type}.", "CAST it.")
    kind = schema_type(schema.name)
    if name == "FROM_CSV" and kind.name != "struct":
        raise RefusalError("FROM_CSV needs a list of columns.", "Write 'a BIGINT, b STRING'.")
    return Call(SCHEMAS[name], (cast(text, TEXT), Literal(schema.name, TEXT)), kind)


def _picked(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    """A value of JSON, of the type that a constant names, or as JSON again if none is named."""
    constants = [
        each.name for each in nodes[1:] if isinstance(each, exp.Literal) and each.is_string
    ]
    value = t.expression(nodes[0]) if nodes else None
    is_parsed = isinstance(value, Call) and value.operator in PARSED
    if value is None or not is_parsed or not 1 <= len(constants) == len(nodes) - 1 <= 2:
        raise RefusalError(
            f"{name} takes what PARSE_JSON gives, and a path and a type as constants.",
            f"Write {name}(PARSE_JSON(x), '$.a', 'int').",
        )
    kind = TEXT
    if len(constants) == 2:
        try:
            found = nested_type(exp.DataType.build(constants[1], dialect=DIALECT))
        except ParseError:
            found = None
        if found is None:
            raise RefusalError(f"'{constants[1]}' is no type.", "Write for example 'int'.")
        kind = found
    texts = (Literal(each, TEXT) for each in constants)
    return Call(f"{LATE}{name.lower()}", (value, *texts), kind)


def _is_json(value: Expression) -> bool:
    """Whether it is of any type in Spark, and JSON text already here."""
    if not isinstance(value, Call):
        return False
    return value.operator in PARSED or (value.operator in PICKED and len(value.arguments) == 2)


def schema_type(text: str) -> Type:
    """The type that a schema in Spark's words stands for: a type, or a list of columns."""
    for written in (text, f"STRUCT<{text}>"):
        try:
            node = exp.DataType.build(written, dialect=DIALECT)
        except ParseError:
            continue
        found = nested_type(node)
        if found is not None and found.is_nested:
            return found
    raise RefusalError(f"'{text}' is no schema.", "Write for example 'a BIGINT, b ARRAY<STRING>'.")


def nested_type(node: Any) -> Type | None:
    """The type that a node stands for, arrays and structs too; None if it is none."""
    if not isinstance(node, exp.DataType):
        return None
    if node.this is exp.DType.ARRAY and len(node.expressions) == 1:
        element = nested_type(node.expressions[0])
        return None if element is None else array_type(element)
    if node.this is exp.DType.STRUCT and node.expressions:
        fields = [(part.name, nested_type(part.args.get("kind"))) for part in node.expressions]
        known = [(name, kind) for name, kind in fields if kind is not None]
        return struct_type(known) if len(known) == len(fields) else None
    return None if node.this in (exp.DType.ARRAY, exp.DType.STRUCT) else type_of(node)


# Functions of functions


def _lambda(t: Translates, node: exp.Expr, kinds: Sequence[Sequence[Type]]) -> Call:
    """A lambda whose variables have one of these lists of types, by how many it names."""
    if not isinstance(node, exp.Lambda):
        raise RefusalError("a function of an element is needed here.", "Write x -> x + 1.")
    names = [part.name for part in node.expressions]
    types = next((each for each in kinds if len(each) == len(names)), None)
    if types is None or len({name.lower() for name in names}) != len(names):
        wanted = " or ".join(str(len(each)) for each in kinds)
        raise RefusalError(f"the function takes {wanted} variables.", "Name each once.")
    depth = sum(isinstance(above, exp.Lambda) for above in _above(node))
    variables = {
        name.lower(): Call(VARIABLE, (Literal(f"{name.lower()}#{depth}", TEXT),), kind)
        for name, kind in zip(names, types, strict=True)
    }
    body = _within(t, variables).expression(node.this)
    return Call(LAMBDA, (body, *variables.values()), body.type)


def _above(node: exp.Expr) -> list[exp.Expr]:
    found = []
    above = node.parent
    while above is not None:
        found.append(above)
        above = above.parent
    return found


def _within(t: Translates, variables: Mapping[str, Call]) -> Translates:
    """The translator inside a lambda; sqlglot has told its variables from columns."""

    def special(node: Any) -> Expression | None:
        if isinstance(node, exp.Identifier) and node.name.lower() in variables:
            return variables[node.name.lower()]
        return None if _mentions(node, variables) else t.special(node)

    return t.knowing(special)


def _mentions(node: exp.Expr, variables: Mapping[str, Call]) -> bool:
    """Whether a variable is in a node, which then means nothing by itself."""
    found = (
        part for part in node.find_all(exp.Identifier) if not isinstance(part.parent, exp.Column)
    )
    return any(part.name.lower() in variables for part in found)


def _array(t: Translates, name: str, node: exp.Expr) -> Expression:
    array = t.expression(node)
    if array.type.name != "array":
        raise RefusalError(f"{name} takes an array, not {array.type}.", "Give it an array.")
    return array


def _check_count(name: str, nodes: Sequence[exp.Expr], *counts: int) -> None:
    if len(nodes) not in counts:
        wanted = " or ".join(map(str, counts))
        raise RefusalError(f"{name} takes {wanted} arguments.", "See docs/sql.md.")


def _condition(body: Call, name: str) -> None:
    if body.type != BOOL:
        raise RefusalError(f"the function of {name} gives {body.type}, not bool.", "Compare it.")


def _transform(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    _check_count(name, nodes, 2)
    array = _array(t, name, nodes[0])
    element = array.type.element
    body = _lambda(t, nodes[1], ((element,), (element, INT)))
    if body.type == VOID:
        raise RefusalError("the elements are always NULL and have no type.", "CAST the NULL.")
    return Call(f"{LATE}transform", (array, body), array_type(body.type))


def _filter(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    _check_count(name, nodes, 2)
    array = _array(t, name, nodes[0])
    element = array.type.element
    body = _lambda(t, nodes[1], ((element,), (element, INT)))
    _condition(body, name)
    return Call(f"{LATE}filter", (array, body), array.type)


def _tested(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    _check_count(name, nodes, 2)
    array = _array(t, name, nodes[0])
    body = _lambda(t, nodes[1], ((array.type.element,),))
    _condition(body, name)
    return Call(f"{LATE}{name.lower()}", (array, body), BOOL)


def _zip_with(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    _check_count(name, nodes, 3)
    left, right = (_array(t, name, node) for node in nodes[:2])
    body = _lambda(t, nodes[2], ((left.type.element, right.type.element),))
    if body.type == VOID:
        raise RefusalError("the elements are always NULL and have no type.", "CAST the NULL.")
    return Call(f"{LATE}zip_with", (left, right, body), array_type(body.type))


def _aggregate(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    _check_count(name, nodes, 3, 4)
    array, start = _array(t, name, nodes[0]), t.expression(nodes[1])
    merge = _lambda(t, nodes[2], ((start.type, array.type.element),))
    if merge.type != start.type:
        raise RefusalError(
            f"{name} starts with {start.type} and goes on with {merge.type}.",
            "CAST the start, or what its function gives, so that both are of one type.",
        )
    if len(nodes) == 3:
        return Call(f"{LATE}aggregate", (array, start, merge), start.type)
    finish = _lambda(t, nodes[3], ((start.type,),))
    return Call(f"{LATE}aggregate", (array, start, merge, finish), finish.type)


def _array_sort(t: Translates, name: str, nodes: Sequence[exp.Expr]) -> Expression:
    """With an order of its own; that of the values is no function of functions."""
    _check_count(name, nodes, 2)
    array = _array(t, name, nodes[0])
    body = _lambda(t, nodes[1], ((array.type.element, array.type.element),))
    if body.type != INT:
        raise RefusalError(
            f"the function of {name} gives {body.type}, not int.",
            "Give -1, 0 or 1, as the first element comes before, beside or behind the second.",
        )
    return Call(f"{LATE}array_sort", (array, body), array.type)


Higher = Callable[[Translates, str, Sequence[exp.Expr]], Expression]
HIGHER: dict[str, Higher] = {
    "TRANSFORM": _transform,
    "FILTER": _filter,
    "EXISTS": _tested,
    "FORALL": _tested,
    "ZIP_WITH": _zip_with,
    "AGGREGATE": _aggregate,
    "REDUCE": _aggregate,
    "ARRAY_SORT": _array_sort,
}
