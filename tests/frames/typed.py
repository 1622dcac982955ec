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
    array_type,
    canonical,
    decimal_type,
    struct_type,
)


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, texts))


# The first four of each are tame, so that expressions do not fail on most rows.
MONEY, WIDE, FINE = decimal_type(10, 2), decimal_type(38, 0), decimal_type(38, 38)
SHORT = decimal_type(5, 1)
FLOATS = array_type(FLOAT)
POINTS = array_type(struct_type([("x", INT), ("y", TEXT)]))
PLACE = struct_type([("odd.name`", TEXT), ("costs", array_type(MONEY)), ("at", TIMESTAMP_TZ)])
DOMAINS: dict[Type, tuple[object, ...]] = {
    BOOL: (True, False),
    INT: (1, -1, 2, 7, 0, 10, -100, INT_MAX, INT_MIN, 2**53 + 1),
    MONEY: _decimals("0.01", "1", "1.50", "-2.25", "0", "-0.01", "99999999.99"),
    WIDE: _decimals("1", "-3", "12345678901234567890", "2", "0", "9" * 38, "-" + "9" * 38),
    FINE: _decimals("0.5", "0.25", "-0.001", "1E-38", "0", "0." + "9" * 38, "-0." + "9" * 38),
    FLOAT: (1.0, -1.5, 0.1, -0.0, 0.0, 1e300, -1e-300, NAN, float("inf"), float("-inf"), 2.0**63),
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
NESTED: dict[Type, tuple[object, ...]] = {
    FLOATS: ((), (0.0,), (None, 1.5), (NAN,), (-0.0, float("inf")), (None,)),
    POINTS: ((), ((1, "a"),), (None, (None, None)), ((1, ""), (2, None))),
    PLACE: (("a", (Decimal("1.50"),), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
            ("a", None, None), (None, None, None), ("é'", (None, Decimal("0")), None)),
}  # fmt: skip
PATTERNS = ("%", "_", "a%", "%b", "a\\_b", "_x", "%\\%", "é", "", "%a%b", "%_a%é%")
NAMES = ("a.b", "a`b", "with space", "Quote'\"", "_count.x", "é", "c1", "c0", "x.y.z", "-", "1")

SCHEMA = Schema.of(zip(NAMES, DOMAINS, strict=True))
TWICE = SCHEMA + SCHEMA.qualified("other")
"""Two columns of every plain type."""
WHOLE = SCHEMA + Schema.of(zip(("floats", "points", "place"), NESTED, strict=True))
"""With arrays and structs, which Arrow does not compare."""
WHOLE_TWICE = WHOLE + WHOLE.qualified("other")


def random_value(random: Random, kind: Type) -> Value:
    if random.random() < 0.15:
        return None
    known = DOMAINS[kind] if kind in DOMAINS else NESTED[kind]
    chosen = random.choice(known if random.random() < 0.4 else known[:4])
    return canonical(chosen, kind)


def random_rows(random: Random, schema: Schema, size: int) -> Rows:
    counts = {
        tuple(random_value(random, kind) for kind in schema.types): random.choice((1, -1, 2))
        for _ in range(size)
    }
    return Rows(schema, counts)


def random_expression(random: Random, schema: Schema, depth: int) -> Expression:
    """An expression of any type; parts that do not fit each other are drawn again."""
    if depth == 0 or random.random() < 0.1:
        return _leaf(random, schema)

    def part() -> Expression:
        return random_expression(random, schema, depth - 1)

    form = random.choice(random.choice(_FORMS))
    for _ in range(30):
        try:
            return form(random, part)
        except ValueError:
            continue
    return _leaf(random, schema)


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


def _calls(number: int, *names: str) -> tuple[_Form, ...]:
    """Calls of these operators, each with so many arguments."""

    def form(name: str) -> _Form:
        return lambda _, part: call(name, *(part() for _ in range(number)))

    return tuple(map(form, names))


_TARGETS = (INT, FLOAT, TEXT, MONEY, FINE, SHORT, BOOL, BYTES, DATE, TIMESTAMP, TIMESTAMP_TZ)
_FORMS: tuple[tuple[_Form, ...], ...] = (
    _calls(2, "=", "<>", "<", "<=", ">", ">=", "<=>"),
    _calls(2, "+", "-", "*", "/", "%"),
    _calls(2, "and", "or", "||"),
    _calls(1, "not", "negate", "abs", "is null", "length"),
    _calls(
        1,
        "upper",
        "lower",
        "trim",
        "reverse",
        "hex",
        "floor",
        "ceil",
        "sign",
        "sqrt",
        "isnan",
        "year",
        "quarter",
        "hour",
        "last_day",
        "unix_micros",
    ),
    _calls(
        2,
        "greatest",
        "least",
        "left",
        "instr",
        "startswith",
        "concat_ws",
        "datediff",
        "date_add",
        "pmod",
        "div",
    ),
    _calls(3, "substring", "replace", "split_part", "translate"),
    (
        *_calls(3, "coalesce"),
        lambda _, part: call("case", _condition(part), part(), part()),
        lambda random, part: call("like", part(), Literal(random.choice(PATTERNS), TEXT)),
    ),
    (lambda random, part: cast(part(), random.choice(_TARGETS)),),
)
"""How an expression is made of others, in groups of which each is as likely as the others."""
