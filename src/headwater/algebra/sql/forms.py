"""Functions that are other words for operators and casts: what each of them stands for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from headwater.algebra.expressions import Expression, Literal
from headwater.algebra.typing_rules import call, cast, struct
from headwater.algebra.values import (
    DATE,
    FLOAT,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VOID,
    Type,
    struct_type,
)

Build = Callable[..., Expression]
_NULL = Literal(None, VOID)


@dataclass(frozen=True)
class Form:
    """Names, the arguments in words, what they mean, and how many of them there may be."""

    group: str
    names: tuple[str, ...]
    takes: str
    build: Build
    example: str
    least: int
    most: int | None

    def expression(self, name: str, arguments: list[Expression]) -> Expression:
        if len(arguments) < self.least or (self.most is not None and len(arguments) > self.most):
            given = f"{len(arguments)} argument{'' if len(arguments) == 1 else 's'}"
            raise ValueError(f"{name} takes {self.takes}, not {given}")
        return self.build(*arguments)


def _form(
    group: str, names: str, takes: str, build: Build, example: str, numbers: tuple[int, int | None]
) -> Form:
    return Form(group, tuple(names.split()), f"({takes})", build, example, *numbers)


def _concat(*parts: Expression) -> Expression:
    return reduce(lambda left, right: call("||", left, right), parts or (Literal("", TEXT),))


def _nullif(value: Expression, other: Expression) -> Expression:
    return call("case", call("=", value, other), _NULL, value)


def _chosen(condition: Expression, value: Expression, otherwise: Expression) -> Expression:
    return call("case", condition, value, otherwise)


def _not_null(value: Expression) -> Expression:
    return call("not", call("is null", value))


def _to(target: Type) -> Build:
    return lambda value: cast(value, target)


_ZERO = Literal(0, INT)
_CHOICE, _NUMBER, _TEXT, _TIME = "choice", "number", "text", "date and time"
_DAY = "DATE '2024-02-29'"
_LIST = (
    _form(_CHOICE, "coalesce", "any type ...", lambda *v: call("coalesce", *v),
          "coalesce(NULL, 2)", (1, None)),
    _form(_CHOICE, "nvl ifnull", "any type, any type", lambda a, b: call("coalesce", a, b),
          "nvl(NULL, 2)", (2, 2)),
    _form(_CHOICE, "nvl2", "any type, any type, any type",
          lambda a, b, c: _chosen(_not_null(a), b, c), "nvl2(NULL, 1, 2)", (3, 3)),
    _form(_CHOICE, "nullif", "any type, any type", _nullif, "nullif(1, 1)", (2, 2)),
    _form(_CHOICE, "nullifzero", "number", lambda a: _nullif(a, _ZERO), "nullifzero(0)", (1, 1)),
    _form(_CHOICE, "zeroifnull", "number", lambda a: call("coalesce", a, _ZERO),
          "zeroifnull(NULL)", (1, 1)),
    _form(_CHOICE, "if iff", "bool, any type, any type", _chosen, "if(1 < 2, 'a', 'b')", (3, 3)),
    _form(_CHOICE, "isnull", "any type", lambda a: call("is null", a), "isnull(NULL)", (1, 1)),
    _form(_CHOICE, "isnotnull", "any type", _not_null, "isnotnull(NULL)", (1, 1)),
    _form(_CHOICE, "equal_null", "any type, any type", lambda a, b: call("<=>", a, b),
          "equal_null(1, NULL)", (2, 2)),
    _form(_NUMBER, "abs", "number", lambda a: call("abs", a), "abs(-2)", (1, 1)),
    _form(_NUMBER, "pi", "", lambda: Literal(math.pi, FLOAT), "pi()", (0, 0)),
    _form(_NUMBER, "e", "", lambda: Literal(math.e, FLOAT), "e()", (0, 0)),
    _form(_NUMBER, "negative", "number", lambda a: call("negate", a), "negative(2)", (1, 1)),
    _form(_NUMBER, "positive", "number", lambda a: a, "positive(2)", (1, 1)),
    _form(_NUMBER, "mod", "number, number", lambda a, b: call("%", a, b), "mod(-7, 3)", (2, 2)),
    _form(_NUMBER, "pmod", "number, number", lambda a, b: call("pmod", a, b), "pmod(-7, 3)",
          (2, 2)),
    _form(_NUMBER, "try_add", "number, number", lambda a, b: call("try_add", a, b),
          "try_add(9223372036854775807, 1)", (2, 2)),
    _form(_NUMBER, "try_subtract", "number, number", lambda a, b: call("try_subtract", a, b),
          "try_subtract(5, 3)", (2, 2)),
    _form(_NUMBER, "try_multiply", "number, number", lambda a, b: call("try_multiply", a, b),
          "try_multiply(2, 3)", (2, 2)),
    _form(_NUMBER, "try_divide", "number, number", lambda a, b: call("try_divide", a, b),
          "try_divide(7, 0)", (2, 2)),
    _form(_TEXT, "concat", "text ...", _concat, "concat('a', 'b')", (0, None)),
    _form(_TEXT, "ltrim", "[text,] text", lambda *v: call("trim_left", *reversed(v)),
          "ltrim('  a ')", (1, 2)),
    _form(_TEXT, "rtrim", "[text,] text", lambda *v: call("trim_right", *reversed(v)),
          "rtrim('  a ')", (1, 2)),
    _form(_TIME, "to_date date", "text or date or timestamp", _to(DATE), "to_date('2024-02-29')",
          (1, 1)),
    _form(_TIME, "to_timestamp timestamp", "text or date or timestamp", _to(TIMESTAMP_TZ),
          "to_timestamp('2024-02-29 12:30:00Z')", (1, 1)),
    _form(_TIME, "to_timestamp_ntz", "text or date or timestamp", _to(TIMESTAMP),
          "to_timestamp_ntz('2024-02-29 12:30:00')", (1, 1)),
)  # fmt: skip

# Points in the plane, which are structs of two floats; Spark has no such functions


def _point(x: Expression, y: Expression) -> Expression:
    """NULL if one of the coordinates is."""
    for part in (x, y):
        if not (part.type.is_numeric or part.type == VOID):
            raise ValueError(f"ST_POINT takes numbers, not {part.type}")
    missing = call("or", call("is null", x), call("is null", y))
    return call("case", missing, _NULL, struct(["x", "y"], [cast(x, FLOAT), cast(y, FLOAT)]))


def _coordinate(name: str, function: str = "") -> Build:
    def build(point: Expression) -> Expression:
        if point.type != POINT:
            spoken = function or f"ST_{name.upper()}"
            raise ValueError(f"{spoken} takes a point, as ST_POINT makes it, not {point.type}")
        return call("field", point, Literal(name, TEXT))

    return build


def _distance(one: Expression, other: Expression) -> Expression:
    squares = []
    for name in ("x", "y"):
        of = _coordinate(name, "ST_DISTANCE")
        between = call("-", of(one), of(other))
        squares.append(call("*", between, between))
    return call("sqrt", call("+", *squares))


POINT = struct_type([("x", FLOAT), ("y", FLOAT)])
_POINTS = (
    _form("point", "st_point", "number, number", _point, "st_point(3, 4)", (2, 2)),
    _form("point", "st_x", "point", _coordinate("x"), "st_x(st_point(3, 4))", (1, 1)),
    _form("point", "st_y", "point", _coordinate("y"), "st_y(st_point(3, 4))", (1, 1)),
    _form("point", "st_distance", "point, point", _distance,
          "st_distance(st_point(3, 4), st_point(0, 0))", (2, 2)),
)  # fmt: skip
POINTS: dict[str, Form] = {name.upper(): form for form in _POINTS for name in form.names}
FORMS: dict[str, Form] = {name.upper(): form for form in _LIST for name in form.names}
