"""Random rows of every type and random typed expressions over them."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call, cast
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    NAN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Type,
    Value,
    canonical,
    decimal_type,
)

MONEY, WIDE, FINE = decimal_type(10, 2), decimal_type(38, 0), decimal_type(38, 38)
DOMAINS: dict[Type, tuple[object, ...]] = {
    BOOL: (True, False),
    INT: (0, 1, -1, 2, 7, 10, -100, INT_MAX, INT_MIN, 2**53 + 1),
    MONEY: tuple(map(Decimal, ("0", "0.01", "-0.01", "1", "1.50", "-2.25", "99999999.99"))),
    WIDE: tuple(map(Decimal, ("0", "1", "-3", "9" * 38, "-" + "9" * 38, "12345678901234567890"))),
    FINE: tuple(map(Decimal, ("0", "0.5", "0." + "9" * 38, "-0." + "9" * 38, "1E-38"))),
    FLOAT: (0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -1e-300, NAN, float("inf"), float("-inf"), 2.0**63),
    TEXT: ("", "a", "A", "ab", "a_b", "a%", "it's", 'q"`\\\\', "é", "e\u0301", "\U0001f600x",
           "\uffff", "line\nbreak\r", "tab\t", "\x00", "  "),
    BYTES: (b"", b"\x00", b"\xff\xfe", b"a"),
    DATE: (date(1, 1, 1), date(1582, 10, 10), date(1970, 1, 1), date(2024, 2, 29),
           date(9999, 12, 31)),
    TIMESTAMP: (datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999),
                datetime(2024, 2, 29), datetime(9999, 12, 31, 23, 59, 59, 999999)),
    TIMESTAMP_TZ: (datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
                   datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
}  # fmt: skip
PATTERNS = ("%", "_", "a%", "%b", "a\\_b", "_x", "%\\%", "é", "")
NAMES = ("a.b", "a`b", "with space", "Quote'\"", "_count.x", "é", "c1", "c0", "x.y.z", "-", "1")

SCHEMA = Schema.of(zip(NAMES, DOMAINS, strict=True))
TWICE = SCHEMA + SCHEMA.qualified("other")
"""Two columns of every type."""


def random_value(random: Random, kind: Type) -> Value:
    if random.random() < 0.15:
        return None
    return canonical(random.choice(DOMAINS[kind]), kind)


def random_rows(random: Random, schema: Schema, size: int) -> Rows:
    counts = {
        tuple(random_value(random, kind) for kind in schema.types): random.choice((1, -1, 2))
        for _ in range(size)
    }
    return Rows(schema, counts)


def random_expression(random: Random, schema: Schema, depth: int) -> Expression:
    """An expression of any type; one that does not fit its types is thrown away."""
    while True:
        try:
            return _expression(random, schema, depth)
        except ValueError:
            continue


def _expression(random: Random, schema: Schema, depth: int) -> Expression:
    if depth == 0 or random.random() < 0.1:
        return _leaf(random, schema)

    def part() -> Expression:
        return random_expression(random, schema, depth - 1)

    return random.choice(_FORMS)(random, part)


def _leaf(random: Random, schema: Schema) -> Expression:
    column = random.choice(schema.columns)
    if random.random() < 0.25:
        return Literal(random_value(random, column.type), column.type)
    return ColumnRef(column.name, column.type)


def _condition(part: Callable[[], Expression]) -> Expression:
    while True:
        first, second = part(), part()
        try:
            return call("=", first, second)
        except ValueError:
            continue


_Form = Callable[[Random, Callable[[], Expression]], Expression]
_BINARY = ("=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "||")
_UNARY = ("not", "negate", "abs", "is null", "length")
_FORMS: tuple[_Form, ...] = (
    *(lambda _, part, name=name: call(name, part(), part()) for name in _BINARY),
    *(lambda _, part, name=name: call(name, part()) for name in _UNARY),
    lambda _, part: call("coalesce", part(), part(), part()),
    lambda _, part: call("case", _condition(part), part(), part()),
    lambda random, part: call("like", part(), Literal(random.choice(PATTERNS), TEXT)),
    lambda random, part: cast(part(), random.choice((*DOMAINS, decimal_type(5, 1)))),
)
