"""Every function and every cast has the same values in memory, in Arrow's columns and on Spark.

Many calls go into one query. A row on which a call fails in memory is kept away from it on Spark;
that Spark fails there too is tested apart, on a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    compile_expression,
    show_expression,
)
from headwater.algebra.functions.casts import cast_function
from headwater.algebra.functions.signatures import Signature
from headwater.algebra.functions.table import FUNCTIONS, Function
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call, cast, struct, try_cast
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
    Row,
    Type,
    Value,
    array_type,
    canonical,
    decimal_type,
    struct_type,
)
from headwater.errors import ExpressionError
from headwater.frames.columns import Columns
from tests.frames.lifting import unsettled

MONEY, WIDE, FINE = decimal_type(10, 2), decimal_type(38, 0), decimal_type(38, 37)
INTS, TEXTS, FLOATS = array_type(INT), array_type(TEXT), array_type(FLOAT)
NESTED, POINT = array_type(INTS), struct_type([("x", INT), ("y", TEXT)])
SMALL_INTS = (0, 1, 2, 3, 5, -1, -2, 7, 30, 64, 256, 2024)
DOMAINS: dict[Type, tuple[object, ...]] = {
    BOOL: (True, False),
    INT: (*SMALL_INTS, -100, 2**31, -(2**31) - 1, 2**40, INT_MAX, INT_MIN, 19782, 1_709_210_096),
    MONEY: tuple(map(Decimal, ("0", "0.01", "1", "1.50", "-2.25", "2.5", "-0.5", "99999999.99"))),
    WIDE: tuple(map(Decimal, ("0", "7", "-7", "5", "9" * 38, "-" + "9" * 38, "12345678901"))),
    FINE: tuple(map(Decimal, ("0", "0.5", "-2.5", "9.9999", "-9." + "9" * 37, "1E-37"))),
    FLOAT: (0.0, 1.0, -1.5, 2.5, 0.1, 0.125, 2.675, 1e300, -1e-300, NAN, float("inf"),
            float("-inf"), 2.0**63, -(2.0**63), 1234.5678, 9.007199254740993e15, 5e-324),
    TEXT: ("", "a", "A", "ab", "abcABC", "a,b,,c", "  a b ", "\t x\n", "Straße", "ΑΣ ΟΔΟΣ", "é",
           "e\u0301", "\U0001f600x", "ǆ ŉx", "İıiI", "o'neil a-b", "\x00", "12", " -7 ", "1.5",
           "1e3", "true", "NO", "2024-02-29", "2024-2-9 1:2:3.5", "2023-02-29", "2024",
           "2024-02-29T23:59:59.9999999Z", "2024-02-29 10:00:00+02:00", "12:30", "+5", "0x1p3",
           "-Infinity", "nan", "ab\r\n", "b\n", "a\u2028", "b\r", "aab\n\n", "\x85",
           "5d", "x" * 70, "aaa", "x", "bc", " "),
    BYTES: (b"", b"\x00", b"\xff\xfe", b"a", "é".encode(), b"abc"),
    DATE: (date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(1970, 1, 1),
           date(2024, 1, 31), date(2024, 2, 29), date(2023, 12, 31), date(2021, 1, 3),
           date(9999, 12, 31)),
    TIMESTAMP: (datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999),
                datetime(2024, 2, 29, 12, 30, 45, 120000), datetime(2024, 1, 31, 0, 0, 1),
                datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2023, 2, 28, 23, 0)),
    TIMESTAMP_TZ: (datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC),
                   datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
                   datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    INTS: ((), (1,), (1, 2, 3), (3, None, 1, 3, 2), (None,), (None, None), (7, 1, 7, -1), (5,)),
    TEXTS: ((), ("a",), ("b", None, "a"), (None,), ("a", "", "a"), ("x,y",)),
    FLOATS: ((), (NAN, 1.0, 0.0), (2.5, None, NAN), (float("inf"), -1.5)),
    NESTED: ((), ((1,), (2, None)), ((3,), None), (None,), ((), (1,))),
    POINT: ((1, "a"), (None, "b"), (2, None)),
}  # fmt: skip
KINDS: dict[str, tuple[Type, ...]] = {
    "any": (INT,),
    "index": (INT,),
    "number": (INT, MONEY, WIDE, FINE, FLOAT),
    "float": (FLOAT, INT, MONEY),
    "day": (DATE, TIMESTAMP, TIMESTAMP_TZ),
    "time": (DATE, TIMESTAMP, TIMESTAMP_TZ),
    "instant": (DATE, TIMESTAMP, TIMESTAMP_TZ),
    **{kind.name: (kind,) for kind in DOMAINS if not kind.precision},
    "array": (INTS,),
    "texts": (TEXTS,),
}
OTHER_KINDS: dict[str, tuple[Type, ...]] = {
    "flatten": (NESTED,),
    **dict.fromkeys(
        ("array_max", "array_min", "sort_array", "array_sort", "array_distinct", "array_compact"),
        (INTS, FLOATS, TEXTS),
    ),
}
PATTERNS = (
    "a",
    "^a.*",
    "[0-9]+",
    "b$",
    "(a+)(b)?",
    r"\s(\S+)",
    r"^(\d{4})-(\d{1,2})",
    "(?:a|b)+([^x-z]*)$",
    ".$",
    "([A-Z]|x)",
    r"[\w.]+?",
    r"[^\d\s]+",
    "(?:ab|,)+",
    r"^$",
)
CONSTANTS: dict[tuple[str, int], tuple[Value, ...]] = {
    ("round", 1): (0, 1, 2, -1, -2, 5, 40, -40),
    ("bround", 1): (0, 1, 2, -1, -2, 5, 40, -40),
    ("regexp_like", 1): PATTERNS,
    ("regexp_substr", 1): PATTERNS[:4],
    ("regexp_extract", 1): PATTERNS,
    ("regexp_extract", 2): (0, 0, 0, 0, 2, 1, 2, 1, 0, 1, 0, 0, 0, 0),
    ("regexp_count", 1): PATTERNS[2:7],
    ("regexp_replace", 1): PATTERNS[:7],
    ("regexp_replace", 2): ("", "x", "<$0>", "é", "$2-$1", "$1.", "$2/$1"),
    ("next_day", 1): ("MON", "su", "Friday"),
    ("trunc", 1): ("YEAR", "quarter", "MM", "week"),
    ("date_trunc", 0): ("YEAR", "QUARTER", "mon", "WEEK", "DAY", "hour", "MINUTE", "SECOND",
                        "MILLISECOND", "MICROSECOND"),
    ("sort_array", 1): (True, False, True),
    ("field", 1): ("x", "Y"),
}  # fmt: skip
SMALL_SIZES = frozenset({"lpad", "rpad", "repeat", "array_repeat", "sequence"})
COPIES = 3
SCHEMA = Schema.of(
    [
        ("id", INT),
        *((f"{kind} {copy}", kind) for kind in DOMAINS for copy in range(COPIES)),
        *((f"small {copy}", INT) for copy in range(COPIES)),
    ]
)


def _rows(random: Random, number: int) -> Rows:
    def value(name: str, kind: Type) -> Value:
        if random.random() < 0.08:
            return None
        known = SMALL_INTS if name.startswith("small") else DOMAINS[kind]
        return canonical(random.choice(known), kind)

    columns = SCHEMA.columns[1:]
    rows: list[Row] = [(at, *(value(c.name, c.type) for c in columns)) for at in range(number)]
    return Rows.of(SCHEMA, rows)


ROWS = _rows(Random(1), 80)


def _calls(function: Function) -> Iterator[Expression]:
    """Calls with columns of every type that fits, and constants where they must be."""
    random = Random(function.name)
    for signature in function.signatures:
        for variant in range(_variants(function, signature)):
            yield call(function.name, *_arguments(random, function, signature, variant))


def _variants(function: Function, signature: Signature) -> int:
    constants = [len(found) for (name, _), found in CONSTANTS.items() if name == function.name]
    kinds = [
        len(OTHER_KINDS.get(function.name, KINDS[parameter.kind]))
        for parameter in signature.parameters
    ]
    return max([2, *kinds, *constants])


def _arguments(
    random: Random, function: Function, signature: Signature, variant: int
) -> Iterator[Expression]:
    needed = sum(not parameter.is_optional for parameter in signature.parameters)
    most = len(signature.parameters) + 2 * signature.parameters[-1].is_repeated
    is_whole = not variant or any(parameter.is_constant for parameter in signature.parameters)
    for at in range(most if is_whole else random.randint(needed, most)):
        parameter = signature.parameter(at)
        if parameter.is_constant:
            known = CONSTANTS[function.name, at]
            value = known[variant % len(known)]
            yield Literal(value, {bool: BOOL, int: INT}.get(type(value), TEXT))
            continue
        kinds = OTHER_KINDS.get(function.name, KINDS[parameter.kind])
        kind = kinds[(variant + at) % len(kinds)]
        is_small = kind == INT and (function.name in SMALL_SIZES or variant % 2)
        name = "small" if is_small else str(kind)
        yield ColumnRef(f"{name} {random.randrange(COPIES)}", kind)


def _casts() -> Iterator[Expression]:
    for source in DOMAINS:
        for target in DOMAINS:
            if source == target or cast_function(source, target) is None:
                continue
            for copy in range(2 if source == TEXT else 1):
                column = ColumnRef(f"{source} {copy}", source)
                yield cast(column, target)
                yield try_cast(column, target)


def _holds(expression: Expression) -> list[bool]:
    """On which rows it does not fail in memory."""
    evaluate = compile_expression(expression, SCHEMA)

    def holds(row: Row) -> bool:
        try:
            evaluate(row)
        except ExpressionError:
            return False
        return True

    return [holds(row) for row in ROWS]


def _assert_same(spark: SparkSession, expressions: Sequence[Expression]) -> None:
    holds = [_holds(expression) for expression in expressions]
    flags = [ColumnRef(f"holds {at}", BOOL) for at in range(len(expressions))]
    schema = SCHEMA + Schema.of((flag.name, BOOL) for flag in flags)
    kept = zip(*holds, strict=True)
    rows = Rows.of(schema, [(*row, *known) for row, known in zip(ROWS, kept, strict=True)])
    outputs: list[Expression] = [ColumnRef("id", INT)]
    for flag, expression in zip(flags, expressions, strict=True):
        outputs.append(call("case", flag, expression, Literal(None, expression.type)))
    result = Schema.of((f"v{at}", output.type) for at, output in enumerate(outputs))
    expected = {row[0]: row for row in rows.project(result, outputs)}
    found = {row[0]: row for row in unsettled(spark, rows).project(result, outputs)}
    wrong = [
        f"{_shown(expressions[at - 1], number)} is {there!r} on Spark, not {here!r}"
        for number, row in expected.items()
        for at, (here, there) in enumerate(zip(row, found[number], strict=True))
        if repr(here) != repr(there)
    ]
    assert not wrong, "\n".join(wrong[:40])
    assert {row[0]: row for row in Columns.of_rows(rows).project(result, outputs)} == expected


def _shown(expression: Expression, number: Value) -> str:
    (row,) = (row for row in ROWS if row[0] == number)
    return show_expression(expression, lambda name: repr(row[SCHEMA.positions[name]]))


GROUPS = ("text", "number", "date and time", "choice", "array and struct")


@pytest.mark.parametrize("group", GROUPS)
def test_a_function_has_the_same_values_everywhere(spark: SparkSession, group: str) -> None:
    known = [f for f in FUNCTIONS.values() if f.group == group and f.name != "struct"]
    calls = [each for f in known for each in _calls(f)]
    assert calls
    _assert_same(spark, calls)


@pytest.mark.parametrize("operator", ["try_add", "try_subtract", "try_multiply", "try_divide"])
def test_arithmetic_that_is_tried_has_the_same_values_everywhere(
    spark: SparkSession, operator: str
) -> None:
    kinds = (INT, MONEY, WIDE, FINE, FLOAT)
    columns = [(ColumnRef(f"{a} 0", a), ColumnRef(f"{b} 1", b)) for a in kinds for b in kinds]
    _assert_same(spark, [call(operator, a, b) for a, b in columns])


def test_a_struct_is_made_and_taken_apart_alike_everywhere(spark: SparkSession) -> None:
    point, names = ColumnRef(f"{POINT} 1", POINT), ["a", "b"]
    made = struct(names, [ColumnRef("float 0", FLOAT), point])
    other = struct(names, [ColumnRef("float 1", FLOAT), point])
    field = call("field", call("field", made, Literal("b", TEXT)), Literal("x", TEXT))
    array = call("array", made, other)
    _assert_same(spark, [made, field, array, call("item", array, Literal(1, INT))])


def test_a_cast_has_the_same_values_everywhere(spark: SparkSession) -> None:
    _assert_same(spark, list(_casts()))


def _fails(name: str, *arguments: Value) -> Expression:
    kinds = {str: TEXT, int: INT, float: FLOAT, date: DATE, datetime: TIMESTAMP, tuple: INTS}
    return Call(name, tuple(Literal(a, kinds[type(a)]) for a in arguments), _RESULTS[name])


_RESULTS = {"lpad": TEXT, "split_part": TEXT, "floor": INT, "round": INT, "div": INT,
            "date_add": DATE, "add_months": DATE, "make_date": DATE, "next_day": DATE,
            "timestamp_seconds": TIMESTAMP_TZ, "plus_months": TIMESTAMP,
            "item": INT, "element_at": INT, "slice": INTS, "sequence": INTS,
            "->>": TEXT}  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        _fails("lpad", "a", 2**40),
        _fails("split_part", "a", "-", 0),
        _fails("floor", 1e300),
        _fails("round", INT_MAX, -1),
        _fails("div", INT_MIN, -1),
        _fails("date_add", date(9999, 12, 31), 1),
        _fails("add_months", date(2024, 1, 1), 2**40),
        _fails("make_date", 2023, 2, 29),
        _fails("make_date", 10000, 1, 1),
        _fails("next_day", date(9999, 12, 31), "MON"),
        _fails("plus_months", datetime(1, 1, 1), -1),
        _fails("timestamp_seconds", 2**40),
        _fails("item", (1, 2), 2),
        _fails("item", (1, 2), -1),
        _fails("element_at", (1, 2), 0),
        _fails("element_at", (1, 2), -3),
        _fails("slice", (1, 2), 1, -1),
        _fails("sequence", 1, 2, -1),
        _fails("sequence", INT_MIN, INT_MAX),
        _fails("->>", "x", "k"),
        Call("cast", (Literal("12:30", TEXT),), TIMESTAMP),
        Call("cast", (Literal("10000-01-01", TEXT),), DATE),
        Call("cast", (Literal(b"\xff", BYTES),), TEXT),
    ],
    ids=show_expression,
)  # fmt: skip
def test_what_has_no_value_in_memory_fails_on_spark_too(
    spark: SparkSession, expression: Expression
) -> None:
    rows = Rows.of(Schema.of([("id", INT)]), [(1,)])
    result = Schema.of([("v", expression.type)])
    sentences = []
    for held in (rows, unsettled(spark, rows)):
        with pytest.raises(ExpressionError) as caught:
            len(held.project(result, [expression]))
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
