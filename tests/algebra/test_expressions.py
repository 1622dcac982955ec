"""What expressions mean: Spark SQL in ANSI mode, written as SQL and applied to one row."""

import math
from datetime import date, datetime
from decimal import Decimal

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.expressions import can_fail, show_expression
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import (
    BOOL,
    DATE,
    FLOAT,
    INT,
    INT_MAX,
    INT_MIN,
    TEXT,
    Row,
    Value,
    decimal_type,
)
from headwater.errors import ExpressionError, SqlError

SCHEMA = Schema.of(
    [
        ("i", INT),
        ("j", INT),
        ("f", FLOAT),
        ("g", FLOAT),
        ("d", decimal_type(5, 2)),
        ("e", decimal_type(38, 10)),
        ("t", TEXT),
        ("p", BOOL),
        ("q", BOOL),
        ("day", DATE),
    ]
)
R = Relation("r", "source", SCHEMA)
NAMES = SCHEMA.names


def value(expression: str, **columns: Value) -> Value:
    """The expression on a row with these columns and NULL in all others."""
    view = parse_view(f"SELECT {expression} AS x FROM r", [R], total=False)
    rows = Rows.of(SCHEMA, [tuple(columns.get(name) for name in NAMES)])
    ((found,),) = evaluate_view(view, {"r": rows})
    return found


def type_of(expression: str) -> str:
    return str(parse_view(f"SELECT {expression} AS x FROM r", [R], total=False).schema.types[0])


MEANINGS: dict[str, Value] = {
    # whole numbers
    "7 / 2": 3.5,
    "-7 % 3": -1,
    "7 % -3": 1,
    "-7 % -3": -1,
    "2 + 3 * 4": 14,
    "- -3": 3,
    "ABS(-3)": 3,
    "MOD(7, 3)": 1,
    # decimals
    "1.50 + 1": Decimal("2.50"),
    "1.5 * 1.5": Decimal("2.25"),
    "1.0 / 3": Decimal("0.333333"),
    "-7.5 % 2": Decimal("-1.5"),
    "2.0 / 3.0": Decimal("0.666667"),
    # floats
    "1e0 / 4": 0.25,
    "-7.5e0 % 2": -1.5,
    "1e308 * 10e0": math.inf,
    # text
    "'a' || 'b' || 'c'": "abc",
    "CONCAT('a', 'b', 'c')": "abc",
    "CONCAT('a')": "a",
    "LENGTH('añ😀')": 3,
    "'abc' LIKE 'a%'": True,
    "'abc' LIKE 'A%'": False,
    "'abc' LIKE 'a_c'": True,
    "'abc' LIKE 'ab'": False,
    r"'a%c' LIKE 'a\%c'": True,
    r"'abc' LIKE 'a\%c'": False,
    "'a\nc' LIKE 'a%'": True,
    "'a.c' LIKE 'a.c' AND NOT ('abc' LIKE 'a.c')": True,
    "'it''s'": "it's",
    "'a' < 'b'": True,
    "'B' < 'a'": True,
    # comparisons
    "1 = 1.0": True,
    "1 < 1.5": True,
    "1 != 2": True,
    "1 <> 1": False,
    "0.1 + 0.2 = 0.3": True,
    "0.1e0 + 0.2e0 = 0.3e0": False,
    "2 BETWEEN 1 AND 3": True,
    "2 NOT BETWEEN 1 AND 3": False,
    "2 BETWEEN 3 AND 1": False,
    "DATE '2024-02-29' < DATE '2024-03-01'": True,
    "DATE '2024-02-29' = TIMESTAMP_NTZ '2024-02-29 00:00:00'": True,
    # choices
    "CASE WHEN FALSE THEN 1 WHEN TRUE THEN 2 ELSE 3 END": 2,
    "CASE WHEN NULL THEN 1 ELSE 2 END": 2,
    "CASE 2 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END": "two",
    "CASE 3 WHEN 1 THEN 'one' END": None,
    "CASE WHEN TRUE THEN 1 ELSE 2.5 END": Decimal("1.0"),
    "COALESCE(NULL, NULL, 3)": 3,
    "IFNULL(NULL, 1)": 1,
    "NVL(2, 1)": 2,
    "NULLIF(1, 1)": None,
    "NULLIF(1, 2)": 1,
    "CASE NULL WHEN NULL THEN 1 ELSE 2 END": 2,
    "NVL2(NULL, 1, 2.5)": Decimal("2.5"),
    "IF(NULL, 1, 2)": 2,
    "IIF(TRUE, 1, 2)": 1,
    "ISNULL(NULL) AND NOT ISNOTNULL(NULL)": True,
    "GREATEST(1, NULL, 2.5)": Decimal("2.5"),
    "LEAST('b', 'a')": "a",
    "NULLIFZERO(0) IS NULL": True,
    # functions of texts
    "UPPER('straße')": "STRASSE",
    "LOWER('ΑΣ')": "ας",
    "INITCAP('o''neil AND sons')": "O'neil And Sons",
    "SUBSTRING('abcd' FROM 2 FOR 2)": "bc",
    "SUBSTRING('abcd' FROM -2)": "cd",
    "SUBSTR('abcd', -6, 3)": "a",
    "LEFT('abc', 2) || RIGHT('abc', 1)": "abc",
    "TRIM('  a ')": "a",
    "TRIM(BOTH 'xy' FROM 'xyaxy')": "a",
    "TRIM(LEADING FROM '  a ')": "a ",
    "TRIM(TRAILING 'x' FROM 'xax')": "xa",
    "LTRIM('x', 'xax')": "ax",
    "BTRIM('xax', 'x')": "a",
    "POSITION('b' IN 'abc')": 2,
    "LOCATE('b', 'abcb', 3)": 4,
    "OVERLAY('abcd' PLACING 'X' FROM 2 FOR 2)": "aXd",
    "SPLIT_PART('a-b-c', '-', -1)": "c",
    "CONCAT_WS(',', 'a', NULL, 'b')": "a,b",
    "LPAD('7', 3, '0')": "007",
    "'aBc' ILIKE 'Ab%'": True,
    "'aBc' NOT ILIKE 'b%'": True,
    "'50%' LIKE '50!%' ESCAPE '!'": True,
    "'500' NOT LIKE '50!%' ESCAPE '!'": True,
    r"'a\\b' LIKE 'a\\b' ESCAPE '!'": True,
    r"'a12' RLIKE '\\d+'": True,
    r"REGEXP_EXTRACT('a12', r'(\d)(\d)', 2)": "2",
    "MD5('a')": "0cc175b9c0f1b6a831c399e269772661",
    # functions of numbers
    "ROUND(2.5)": Decimal("3"),
    "ROUND(-2.55, 1)": Decimal("-2.6"),
    "ROUND(15, -1)": 20,
    "ROUND(2.5e0)": 3.0,
    "BROUND(2.5)": Decimal("2"),
    "FLOOR(-1.5)": Decimal("-2"),
    "CEIL(1.2e0)": 2,
    "7 DIV 2": 3,
    "-7 DIV 2": -3,
    "PMOD(-7, 3)": 2,
    "SQRT(9)": 3.0,
    "SIGN(-2.5)": -1.0,
    # functions of dates and timestamps
    "EXTRACT(YEAR FROM DATE '2024-02-29')": 2024,
    "EXTRACT(dow FROM DATE '2024-02-29')": 5,
    "EXTRACT(SECOND FROM TIMESTAMP_NTZ '2024-02-29 12:30:45.5')": Decimal("45.500000"),
    "DATE_PART('month', DATE '2024-02-29')": 2,
    "YEAR(TIMESTAMP '2024-01-01 00:30:00+01:00')": 2023,
    "DATE '2024-02-29' + INTERVAL '1' YEAR": date(2025, 2, 28),
    "DATE '2024-01-31' + INTERVAL 1 MONTH": date(2024, 2, 29),
    "DATE '1998-12-01' - INTERVAL '90' DAY": date(1998, 9, 2),
    "INTERVAL 1 WEEK + DATE '2024-02-29'": date(2024, 3, 7),
    "DATE '2024-01-31' + INTERVAL 1 YEAR 1 MONTH": date(2025, 2, 28),
    "TIMESTAMP_NTZ '2024-02-29 12:00:00' - INTERVAL '1 day 12 hours'": datetime(2024, 2, 28),
    "TIMESTAMP_NTZ '2024-01-31 12:00:00' + INTERVAL 1 MONTH": datetime(2024, 2, 29, 12),
    "DATE '2024-02-28' + 2": date(2024, 3, 1),
    "DATE '2024-03-01' - 1": date(2024, 2, 29),
    "DATEDIFF(DATE '2024-03-01', DATE '2024-02-28')": 2,
    "LAST_DAY(DATE '2024-02-01')": date(2024, 2, 29),
    "TRUNC(DATE '2024-05-17', 'QUARTER')": date(2024, 4, 1),
    "TO_DATE('2024-2-9' || '')": date(2024, 2, 9),
    # casts
    "CAST('12' || '' AS INT)": 12,
    "CAST(' yes' || '' AS BOOLEAN)": True,
    "CAST(TRUE AS STRING)": "true",
    "CAST(0.00000001 AS STRING)": "0.00000001",
    "CAST(DATE '0099-01-02' AS STRING)": "0099-01-02",
    "CAST(TIMESTAMP_NTZ '2024-01-02 03:04:05.120' AS STRING)": "2024-01-02 03:04:05.12",
    "CAST(TIMESTAMP_NTZ '2024-01-02 03:04:05' AS DATE)": date(2024, 1, 2),
    "CAST('é' AS BINARY)": "é".encode(),
    "CAST(1.99 AS BIGINT)": 1,
    "CAST(-1.99 AS BIGINT)": -1,
    "CAST(1.5e0 AS BIGINT)": 1,
    "CAST(1.005 AS DECIMAL(5,2))": Decimal("1.01"),
    "CAST(0.1e0 AS DECIMAL(5,2))": Decimal("0.10"),
    "CAST(12 AS STRING)": "12",
    "CAST(' 1.005 ' || '' AS DECIMAL(5,2))": Decimal("1.01"),
    "CAST('-.5E1' || '' AS DECIMAL(5,2))": Decimal("-5.00"),
    "CAST('1e-400' || '' AS DECIMAL(5,2))": Decimal("0.00"),
    "CAST(DATE '2024-02-29' AS TIMESTAMP_NTZ)": datetime(2024, 2, 29),
    "CAST(NULL AS DATE)": None,
    "DATE '2024-02-29'": date(2024, 2, 29),
    "X'00FF'": b"\x00\xff",
}


@pytest.mark.parametrize(("expression", "expected"), MEANINGS.items(), ids=MEANINGS.keys())
def test_an_expression_means_what_it_means_in_spark(expression: str, expected: Value) -> None:
    found = value(expression)
    assert found == expected
    assert type(found) is type(expected)


TYPES = {
    "7 / 2": "float",
    "i + j": "int",
    "i % j": "int",
    "i + f": "float",
    "d + f": "float",
    "d + d": "decimal(6,2)",
    "d - 1": "decimal(6,2)",
    "d + i": "decimal(23,2)",
    "d * d": "decimal(11,4)",
    "d / d": "decimal(13,8)",
    "d % d": "decimal(5,2)",
    "e * e": "decimal(38,6)",
    "e + e": "decimal(38,9)",
    "1.50": "decimal(3,2)",
    "0.05": "decimal(2,2)",
    "1e3": "float",
    "COALESCE(i, d)": "decimal(22,2)",
    "COALESCE(d, f)": "float",
    "LENGTH(t)": "int",
    "i < d": "bool",
    "-d": "decimal(5,2)",
    "CAST(i AS DECIMAL(7,3))": "decimal(7,3)",
    "ROUND(d)": "decimal(4,0)",
    "ROUND(d, 1)": "decimal(5,1)",
    "ROUND(d, 5)": "decimal(6,2)",
    "ROUND(d, -5)": "decimal(6,0)",
    "FLOOR(d)": "decimal(4,0)",
    "CEIL(f)": "int",
    "SQRT(i)": "float",
    "day + INTERVAL 1 DAY": "date",
    "day + INTERVAL 1 HOUR": "timestamp_tz",
    "DATE_TRUNC('month', day)": "timestamp_tz",
    "GREATEST(i, d)": "decimal(22,2)",
    "CAST(i AS DECIMAL)": "decimal(10,0)",
}


@pytest.mark.parametrize(("expression", "expected"), TYPES.items(), ids=TYPES.keys())
def test_an_expression_has_the_type_that_spark_gives_it(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


# NaN and zero


def test_nan_equals_nan() -> None:
    assert value("f = g", f=math.nan, g=math.nan) is True


@pytest.mark.parametrize("other", [0.0, math.inf, -math.inf, 1e308])
def test_nan_is_greater_than_every_other_number(other: float) -> None:
    assert value("f > g", f=math.nan, g=other) is True
    assert value("f <= g", f=math.nan, g=other) is False


def test_nan_is_found_in_a_list() -> None:
    assert value("f IN (1e0, g)", f=math.nan, g=math.nan) is True


def test_the_remainder_of_infinity_is_nan() -> None:
    assert value("f % 2e0 = g", f=math.inf, g=math.nan) is True


def test_zero_and_negative_zero_are_equal() -> None:
    assert value("f = -g", f=0.0, g=0.0) is True


# Three-valued logic

TRUTH: dict[str, dict[tuple[Value, Value], Value]] = {
    "p AND q": {
        (True, True): True,
        (True, False): False,
        (True, None): None,
        (False, None): False,
        (None, False): False,
        (None, True): None,
        (None, None): None,
    },
    "p OR q": {
        (False, False): False,
        (True, None): True,
        (None, True): True,
        (False, None): None,
        (None, False): None,
        (None, None): None,
    },
    "NOT p": {(True, None): False, (False, None): True, (None, None): None},
    "p = q": {(True, True): True, (True, None): None, (None, None): None},
    "p <=> q": {(True, True): True, (True, None): False, (None, None): True, (None, False): False},
    "p IS DISTINCT FROM q": {(True, None): True, (None, None): False, (True, False): True},
    "p IS NOT DISTINCT FROM q": {(True, None): False, (None, None): True},
    "p IS NULL": {(None, True): True, (False, True): False},
    "p IS NOT NULL": {(None, True): False, (False, True): True},
    "p IS TRUE": {(True, None): True, (False, None): False, (None, None): False},
    "p IS NOT TRUE": {(True, None): False, (False, None): True, (None, None): True},
    "p IS FALSE": {(True, None): False, (False, None): True, (None, None): False},
    "p IS NOT FALSE": {(True, None): True, (False, None): False, (None, None): True},
    "p IN (TRUE, q)": {(True, None): True, (False, None): None, (False, False): True},
    "p NOT IN (TRUE, q)": {(True, None): False, (False, None): None, (None, True): None},
}
CASES = [
    pytest.param(expression, p, q, expected, id=f"{expression} for {p!r}, {q!r}")
    for expression, table in TRUTH.items()
    for (p, q), expected in table.items()
]


@pytest.mark.parametrize(("expression", "p", "q", "expected"), CASES)
def test_logic_has_three_values(expression: str, p: Value, q: Value, expected: Value) -> None:
    assert value(expression, p=p, q=q) is expected


@pytest.mark.parametrize(
    "expression",
    ["i + 1", "1 - i", "i = 1", "i < 1", "-i", "ABS(i)", "t || 'x'", "CONCAT('x', t)", "LENGTH(t)",
     "t LIKE '%'", "i BETWEEN 0 AND 9", "CAST(i AS DOUBLE)", "i IN (1, 2)", "i / j"],
)  # fmt: skip
def test_null_in_gives_null_out(expression: str) -> None:
    assert value(expression) is None


def test_a_list_with_null_in_it_never_makes_not_in_true() -> None:
    assert value("i NOT IN (1, NULL)", i=2) is None
    assert value("i NOT IN (1, NULL)", i=1) is False


def test_a_row_whose_condition_is_unknown_is_not_selected() -> None:
    view = parse_view("SELECT i FROM r WHERE i > 0", [R], total=False)
    rows = Rows.of(SCHEMA, [(None,) * len(SCHEMA)])
    assert not evaluate_view(view, {"r": rows})


# What fails


@pytest.mark.parametrize(
    ("expression", "columns", "words"),
    [
        pytest.param("i + 1", {"i": INT_MAX}, "i = 9223372036854775807", id="sum above 64 bits"),
        pytest.param("i - 1", {"i": INT_MIN}, "outside the range of int", id="below 64 bits"),
        pytest.param("i * i", {"i": 2**40}, "outside the range of int", id="product"),
        pytest.param("-i", {"i": INT_MIN}, "outside the range of int", id="negation"),
        pytest.param("ABS(i)", {"i": INT_MIN}, "outside the range of int", id="absolute value"),
        pytest.param("i / j", {"i": 1, "j": 0}, "division by zero", id="division of integers"),
        pytest.param("i % j", {"i": 1, "j": 0}, "division by zero", id="remainder of integers"),
        pytest.param("f / g", {"f": 1.0, "g": 0.0}, "division by zero", id="division of floats"),
        pytest.param("f % g", {"f": 1.0, "g": 0.0}, "division by zero", id="remainder of floats"),
        pytest.param("f % g", {"f": math.inf, "g": 0.0}, "division by zero", id="of infinity"),
        pytest.param("d / i", {"d": Decimal(1), "i": 0}, "division by zero", id="of decimals"),
        pytest.param("e * e", {"e": Decimal(10) ** 27}, "does not fit", id="decimal overflow"),
        pytest.param("CAST(f AS BIGINT)", {"f": 1e30}, "outside the range", id="cast to int"),
        pytest.param("CAST(f AS BIGINT)", {"f": math.nan}, "no integer value", id="NaN to int"),
        pytest.param("CAST(f AS DECIMAL(3,1))", {"f": math.inf}, "no decimal", id="to decimal"),
        pytest.param("CAST(t AS DECIMAL(3,2))", {"t": "ten"}, "'ten' is not a num", id="no number"),
        pytest.param("CAST(t AS DECIMAL(3,2))", {"t": "1_0"}, "is not a number", id="underscore"),
        pytest.param("CAST(t AS DECIMAL(3,2))", {"t": "NaN"}, "is not a number", id="NaN text"),
        pytest.param("CAST(t AS DECIMAL(3,2))", {"t": "1e500"}, "does not fit", id="far too long"),
        pytest.param("CAST(t AS INT)", {"t": "1.5"}, "not a whole number", id="text to int"),
        pytest.param("CAST(t AS DATE)", {"t": "2023-02-29"}, "is not a date", id="text to date"),
        pytest.param("CAST(t AS TIMESTAMP_NTZ)", {"t": "12:30"}, "not a timestamp", id="no day"),
        pytest.param("CAST(t AS BOOLEAN)", {"t": "maybe"}, "neither true nor", id="text to bool"),
        pytest.param("SPLIT_PART(t, '-', i)", {"t": "a", "i": 0}, "count from 1", id="part 0"),
        pytest.param("day + i", {"day": date(2024, 1, 1), "i": 10**7}, "years 1 to", id="far"),
        pytest.param("i DIV j", {"i": 1, "j": 0}, "division by zero", id="DIV"),
        pytest.param("CAST(d AS DECIMAL(3,2))", {"d": Decimal(10)}, "does not fit", id="narrow"),
    ],
)
def test_what_has_no_value_is_an_error_with_the_row(
    expression: str, columns: dict[str, Value], words: str
) -> None:
    with pytest.raises(ExpressionError, match=words) as caught:
        value(expression, **columns)
    name = next(iter(columns))
    assert f"r.{name} = " in str(caught.value)


def test_a_branch_that_is_not_taken_cannot_fail() -> None:
    assert value("CASE WHEN j = 0 THEN 0e0 ELSE i / j END", i=1, j=0) == 0.0


def test_a_later_choice_that_is_not_needed_cannot_fail() -> None:
    assert value("COALESCE(f, i / j)", f=1.0, i=1, j=0) == 1.0


def test_a_condition_that_can_fail_sees_only_rows_that_the_others_keep() -> None:
    view = parse_view("SELECT i FROM r WHERE 10 / j > 1 AND j <> 0", [R], total=False)
    rows: list[Row] = [(1, 0, *(None,) * 8), (2, 5, *(None,) * 8)]
    assert list(evaluate_view(view, {"r": Rows.of(SCHEMA, rows)})) == [(2,)]


def test_a_condition_that_can_fail_sees_only_rows_that_join() -> None:
    s = Relation("s", "source", Schema.of([("k", INT)]))
    view = parse_view("SELECT i FROM r, s WHERE 10 / j > 1 AND r.i = s.k", [R, s], total=False)
    rows: list[Row] = [(1, 0, *(None,) * 8), (2, 5, *(None,) * 8)]
    state = {"r": Rows.of(SCHEMA, rows), "s": Rows.of(s.schema, [(2,)])}
    assert list(evaluate_view(view, state)) == [(2,)]


def test_an_output_that_can_fail_sees_only_rows_that_are_selected() -> None:
    view = parse_view("SELECT 10 / j AS x FROM r WHERE j <> 0", [R], total=False)
    rows: list[Row] = [(1, 0, *(None,) * 8), (2, 5, *(None,) * 8)]
    assert list(evaluate_view(view, {"r": Rows.of(SCHEMA, rows)})) == [(2.0,)]


@pytest.mark.parametrize("condition", ["f > 1", "d = 1", "f IN (1, 2)", "f = 1.5", "i = 1"])
def test_a_comparison_with_a_constant_cannot_fail(condition: str) -> None:
    (join,) = parse_view(f"SELECT i FROM r WHERE {condition}", [R], total=False).joins
    assert not any(can_fail(conjunct) for conjunct in join.condition)


@pytest.mark.parametrize(
    "expression", ["day < DATE '1998-12-01' - INTERVAL 90 DAY", "UPPER(t) = 'A'", "YEAR(day) = 1"]
)
def test_a_function_that_always_has_a_value_cannot_fail(expression: str) -> None:
    (join,) = parse_view(f"SELECT i FROM r WHERE {expression}", [R], total=False).joins
    assert not any(can_fail(conjunct) for conjunct in join.condition)


def test_a_constant_that_does_not_fit_fails_only_on_rows_that_reach_it() -> None:
    assert value("CASE WHEN p THEN CAST(100 AS DECIMAL(2,0)) END", p=False) is None
    with pytest.raises(ExpressionError, match="does not fit"):
        value("CASE WHEN p THEN CAST(100 AS DECIMAL(2,0)) END", p=True)


# What has no type


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("i = t", "int and text cannot be compared"),
        ("i + t", r"\+ needs numbers, not text"),
        ("t || i", r"\|\| needs text, not int"),
        ("NOT i", "NOT needs bool, not int"),
        ("p AND i", "AND needs bool, not int"),
        ("CASE WHEN i THEN 1 END", "WHEN needs bool, not int"),
        ("COALESCE(i, t)", "int and text"),
        ("LENGTH(i)", r"LENGTH takes \(text\) or \(bytes\), not \(int\)"),
        ("ABS(t)", "ABS needs numbers, not text"),
        ("CAST(day AS BIGINT)", "CAST from date to int is not supported"),
        ("CAST(f AS STRING)", "versions of Java differ"),
        ("i IS TRUE", "IS TRUE needs bool, not int"),
        ("day < 1", "date and int cannot be compared"),
    ],
)
def test_an_expression_whose_types_do_not_fit_is_refused(expression: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        value(expression)


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("i + 1 < j", "(r.i + 1) < r.j"),
        ("p AND NOT q", "r.p AND NOT r.q"),
        ("i IS NOT NULL", "NOT r.i IS NULL"),
        ("t LIKE 'x%'", "r.t LIKE 'x%'"),
        ("CASE WHEN p THEN 1 ELSE 2 END", "CASE WHEN r.p THEN 1 ELSE 2 END"),
        ("CAST(i AS DOUBLE)", "CAST(r.i AS float)"),
        ("COALESCE(i, 0)", "coalesce(r.i, 0)"),
    ],
)
def test_an_expression_is_shown_in_words_like_sql(expression: str, shown: str) -> None:
    (join,) = parse_view(f"SELECT {expression} AS x FROM r", [R], total=False).joins
    assert show_expression(join.outputs[0]) == shown
