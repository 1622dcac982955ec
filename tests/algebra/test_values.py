import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    from_json,
    parse_type,
    show,
    sort_key,
    struct_type,
    to_json,
    width,
)

MONEY = decimal_type(5, 2)
CENTS = st.integers(-99999, 99999).map(lambda cents: Decimal(cents).scaleb(-2))
ZONES = st.timezones()
VALUES: dict[Type, st.SearchStrategy[Value]] = {
    BOOL: st.booleans(),
    INT: st.integers(INT_MIN, INT_MAX),
    FLOAT: st.floats(),
    MONEY: CENTS,
    TEXT: st.text(),
    BYTES: st.binary(),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    TIMESTAMP_TZ: st.datetimes(
        min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29), timezones=ZONES
    ),
    array_type(FLOAT): st.lists(st.none() | st.floats(), max_size=3).map(tuple),
    struct_type([("of", array_type(MONEY)), ("It's", BYTES)]): st.tuples(
        st.none() | st.lists(CENTS, max_size=2).map(tuple), st.none() | st.binary()
    ),
}
TYPED = st.sampled_from(sorted(VALUES, key=str)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.none() | VALUES[kind])
)


@given(TYPED)
def test_a_value_comes_back_from_json_as_it_was(typed: tuple[Type, Value]) -> None:
    kind, value = typed
    stored = canonical(value, kind)
    back = from_json(to_json(stored), kind)
    assert back is stored or back == stored
    assert type(back) is type(stored)


@given(TYPED)
def test_a_canonical_value_is_its_own_canonical_value(typed: tuple[Type, Value]) -> None:
    kind, value = typed
    stored = canonical(value, kind)
    again = canonical(stored, kind)
    assert again is stored or again == stored


@given(TYPED)
def test_every_value_has_a_width_and_a_text(typed: tuple[Type, Value]) -> None:
    kind, value = typed
    stored = canonical(value, kind)
    assert width(stored) >= 0
    assert show(stored)


def test_every_nan_is_the_same_value() -> None:
    assert canonical(float("-nan"), FLOAT) is NAN
    assert canonical(math.inf - math.inf, FLOAT) is NAN


def test_negative_zero_is_zero() -> None:
    assert math.copysign(1, float(str(canonical(-0.0, FLOAT)))) == 1.0


def test_a_negative_decimal_zero_is_zero() -> None:
    assert str(canonical(Decimal("-0.001"), MONEY)) == "0.00"


def test_a_decimal_stands_at_its_declared_scale() -> None:
    assert str(canonical(Decimal("1.5"), MONEY)) == "1.50"
    assert str(canonical(7, MONEY)) == "7.00"


def test_a_decimal_is_rounded_half_up() -> None:
    assert canonical(Decimal("0.125"), MONEY) == Decimal("0.13")
    assert canonical(Decimal("-0.125"), MONEY) == Decimal("-0.13")


def test_a_decimal_of_38_digits_is_exact() -> None:
    widest = Decimal("9" * 38)
    assert canonical(widest, decimal_type(38, 0)) == widest


def test_a_zoned_timestamp_is_held_in_utc() -> None:
    east = datetime(2024, 1, 1, 3, tzinfo=timezone(timedelta(hours=3)))
    assert canonical(east, TIMESTAMP_TZ) == datetime(2024, 1, 1, tzinfo=UTC)
    assert to_json(canonical(east, TIMESTAMP_TZ)) == "2024-01-01T00:00:00+00:00"


REFUSED = {
    "an int above 64 bits": (INT_MAX + 1, INT),
    "an int below 64 bits": (INT_MIN - 1, INT),
    "a bool as an int": (True, INT),
    "a float as an int": (1.0, INT),
    "a bool as a float": (True, FLOAT),
    "an int that no float holds": (10**400, FLOAT),
    "a decimal with too many digits": (Decimal("1000"), MONEY),
    "a decimal that rounds up to too many digits": (Decimal("999.995"), MONEY),
    "a decimal that is no number": (Decimal("NaN"), MONEY),
    "an infinite decimal": (Decimal("Infinity"), MONEY),
    "a float as a decimal": (1.5, MONEY),
    "an int as a bool": (1, BOOL),
    "bytes as text": (b"x", TEXT),
    "text as bytes": ("x", BYTES),
    "a timestamp as a date": (datetime(2024, 1, 1), DATE),
    "a date as a timestamp": (date(2024, 1, 1), TIMESTAMP),
    "a timestamp with a zone where there is none": (datetime(2024, 1, 1, tzinfo=UTC), TIMESTAMP),
    "a timestamp without a zone where there is one": (datetime(2024, 1, 1), TIMESTAMP_TZ),
    "a moment before year 1 in UTC": (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        TIMESTAMP_TZ,
    ),
}


@pytest.mark.parametrize(("value", "kind"), REFUSED.values(), ids=REFUSED.keys())
def test_a_value_of_another_type_or_range_is_refused(value: object, kind: Type) -> None:
    with pytest.raises(ValueError, match=r"outside|does not fit|is not a value of type"):
        canonical(value, kind)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_null_is_a_value_of_every_type(kind: Type) -> None:
    assert canonical(None, kind) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [("NaN", MONEY), ("1.5", FLOAT), ("nan", FLOAT), ("zz", BYTES), ("true", BOOL), ("1", INT)],
    ids=str,
)
def test_json_text_that_is_no_value_is_refused(text: str, kind: Type) -> None:
    with pytest.raises(ValueError, match=r"is not a value of type|does not fit"):
        from_json(text, kind)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_type_is_read_as_it_is_shown(kind: Type) -> None:
    assert parse_type(str(kind)) == kind


@pytest.mark.parametrize("text", ["number", "decimal", "decimal(39,0)", "decimal(2,3)", ""])
def test_an_unknown_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown type|is outside"):
        parse_type(text)


def test_rows_are_shown_with_null_first_and_nan_last() -> None:
    column: list[Value] = [NAN, 2.0, None, math.inf, -1.0]
    assert sorted(column, key=lambda value: sort_key((value,))) == [None, -1.0, 2.0, math.inf, NAN]


def test_a_text_is_shown_as_sql_writes_it() -> None:
    assert show("it's") == "'it''s'"


# Arrays and structs

ADDRESS = struct_type([("street", TEXT), ('Zip "Code"', array_type(INT)), ("a b", FLOAT)])


def test_a_nested_type_is_written_so_that_it_can_be_read() -> None:
    assert str(ADDRESS) == 'struct<street text, "Zip ""Code""" array<int>, "a b" float>'
    for kind in (ADDRESS, array_type(array_type(ADDRESS)), array_type(MONEY)):
        assert parse_type(str(kind)) == kind
    assert parse_type(" ARRAY < Decimal( 5 , 2 ) > ") == array_type(MONEY)


@pytest.mark.parametrize(
    "text",
    [
        "array",
        "array<>",
        "array<int",
        "array<int>>",
        "array<int, int>",
        "struct<>",
        "struct<a>",
        "struct<a int a int>",
        "struct<a int, a int>",
        "struct<a int,>",
        "array<" * 30 + "int" + ">" * 30,
        "array<" * 100_000,
    ],
)
def test_what_is_no_nested_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown type|needs fields"):
        parse_type(text)


def test_a_struct_may_be_given_by_its_names_or_by_its_places() -> None:
    by_name = {"a b": -0.0, "street": None, 'Zip "Code"': [1, None]}
    stored = canonical(by_name, ADDRESS)
    assert stored == canonical([None, (1, None), 0], ADDRESS) == (None, (1, None), 0.0)
    assert str(stored) == "(None, (1, None), 0.0)"  # not -0.0
    for wrong in ({"street": None}, [None, None], [1, (), 0.0], [None, ("a",), 0.0]):
        with pytest.raises(ValueError, match="is not a value of type"):
            canonical(wrong, ADDRESS)


def test_nulls_inside_are_equal_and_order_rows_for_display() -> None:
    kind = array_type(FLOAT)
    assert canonical([None, math.nan], kind) == canonical([None, float("-nan")], kind)
    rows = [(canonical(value, kind),) for value in ([math.nan], [None], None, [], [1.0], [1, 2])]
    shown = [show(value) for (value,) in sorted(rows, key=sort_key)]
    assert shown == ["NULL", "[]", "[NULL]", "[1.0]", "[1.0, 2.0]", "[nan]"]
