"""Values and their types: one meaning everywhere, Spark SQL's in ANSI mode.

The set of types is closed: some plain ones, and arrays and structs made of others. A value is
canonical when equal values are the same Python value, so that a row can be a dictionary key:
every NaN is the one object `NAN`, -0.0 is 0.0, decimals stand at their declared scale, zoned
timestamps are in UTC, arrays and structs are tuples of canonical values. A column holds
one type only, so `1` and `true` never meet in one column although Python calls them equal.

Inside arrays and structs NULL equals NULL, as in Spark and in rows.

This is separate from schemas because sources, frames and the lab all convert values,
and all must do it through `canonical`.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import NoReturn, TypeAlias

Value: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | date | datetime | tuple[Value, ...] | None"
)
Row: TypeAlias = tuple[Value, ...]
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

NAN = float("nan")
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
MAX_DECIMAL_DIGITS = 38
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class Type:
    """One of the closed set of types; only decimals have a precision and a scale.

    An array has one part, its elements; a struct has its fields, each with its name.
    """

    name: str
    precision: int = 0
    scale: int = 0
    parts: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        if self.precision:
            return f"decimal({self.precision},{self.scale})"
        if self.name == "array":
            return f"array<{self.element}>"
        if self.name == "struct":
            fields = ", ".join(f"{_field_name(name)} {kind}" for name, kind in self.parts)
            return f"struct<{fields}>"
        return self.name

    @property
    def is_nested(self) -> bool:
        return self.name in ("array", "struct")

    @property
    def element(self) -> Type:
        """The type of an array's elements."""
        assert self.name == "array"
        return self.parts[0][1]

    @property
    def is_numeric(self) -> bool:
        return self.name in ("int", "decimal", "float")


BOOL = Type("bool")
INT = Type("int")
FLOAT = Type("float")
TEXT = Type("text")
BYTES = Type("bytes")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
TIMESTAMP_TZ = Type("timestamp_tz")
VOID = Type("void")
"""The type of a bare NULL, which fits every other type."""


def decimal_type(precision: int, scale: int) -> Type:
    if not (1 <= precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision):
        raise ValueError(f"decimal({precision},{scale}) is outside decimal(1,0) to decimal(38,38)")
    return Type("decimal", precision, scale)


def array_type(element: Type) -> Type:
    return Type("array", parts=(("element", element),))


def struct_type(fields: Iterable[tuple[str, Type]]) -> Type:
    """ValueError if two fields have one name, or there is none: nobody could store it."""
    parts = tuple(fields)
    if not parts or len(dict(parts)) < len(parts):
        raise ValueError("a struct needs fields, each with a name of its own")
    return Type("struct", parts=parts)


_NAMES = {
    "bool": BOOL,
    "boolean": BOOL,
    "int": INT,
    "int64": INT,
    "integer": INT,
    "bigint": INT,
    "float": FLOAT,
    "float64": FLOAT,
    "double": FLOAT,
    "text": TEXT,
    "string": TEXT,
    "bytes": BYTES,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_tz": TIMESTAMP_TZ,
}
TYPE_NAMES = (
    "bool, int, decimal(p,s), float, text, bytes, date, timestamp, timestamp_tz, array<type>, "
    "struct<name type, ...>"
)
MOST_TYPE_DEPTH = 20
"""How deeply arrays and structs may be nested: anybody may write files that name types."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOKEN = re.compile(
    r'\s*(?:(decimal)\s*\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)|(\w+)|"((?:[^"]|"")*)"|([<>,]))\s*',
    re.IGNORECASE,
)


def _field_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def parse_type(text: str) -> Type:
    """The type that `text` names; ValueError says which names exist."""
    reader = _TypeReader(text)
    found = reader.type(0)
    return found if reader.at == len(text) else reader.fail()


class _TypeReader:
    """Reads a type as `str` writes it, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self) -> NoReturn:
        raise ValueError(f"unknown type {reprlib.repr(self.text)}; there are {TYPE_NAMES}")

    def token(self) -> re.Match[str]:
        match = _TOKEN.match(self.text, self.at) or self.fail()
        self.at = match.end()
        return match

    def expect(self, symbol: str) -> None:
        if self.token()[6] != symbol:
            self.fail()

    def type(self, depth: int) -> Type:
        token = self.token()
        if depth > MOST_TYPE_DEPTH:
            self.fail()
        if token[1]:
            return decimal_type(int(token[2]), int(token[3]))
        match (token[4] or "").lower():
            case "array":
                self.expect("<")
                element = self.type(depth + 1)
                self.expect(">")
                return array_type(element)
            case "struct":
                self.expect("<")
                return struct_type(self.fields(depth + 1))
            case name:
                return _NAMES[name] if name in _NAMES else self.fail()

    def fields(self, depth: int) -> Iterator[tuple[str, Type]]:
        while True:
            token = self.token()
            quoted: str | None = token[5]
            name: str = token[4] if quoted is None else quoted.replace('""', '"')
            if name is None:
                self.fail()
            yield name, self.type(depth)
            symbol = self.token()[6]
            if symbol == ">":
                return
            if symbol != ",":
                self.fail()


def text_of(value: object) -> str:
    """A text that files and terminals can take; ValueError if it is none."""
    if not isinstance(value, str):
        raise ValueError(f"{reprlib.repr(value)} is not a text")
    value.encode()
    return value


def always_fits(source: Type, target: Type) -> bool:
    """Whether every value of `source` can be cast to `target`."""
    if target.name not in ("int", "decimal"):
        return True
    digits = {"int": 19, "decimal": source.precision - source.scale}.get(source.name)
    if digits is None or target.name == "int":
        return False
    # Rounding to fewer decimals may carry into one more digit.
    return source.scale <= target.scale and digits <= target.precision - target.scale


def canonical_float(value: float) -> float:
    return NAN if value != value else value + 0.0  # adding 0.0 turns -0.0 into 0.0


_LAST_PLACES = [Decimal(1).scaleb(-scale) for scale in range(MAX_DECIMAL_DIGITS + 1)]


def canonical_decimal(value: Decimal, kind: Type) -> Decimal:
    """`value` rounded half up to the declared scale; ValueError if it has too many digits."""
    if not value.is_finite():
        raise ValueError(f"{value} does not fit {kind}")
    try:
        fitted = value.quantize(_LAST_PLACES[kind.scale], context=_EXACT)
    except InvalidOperation:
        raise ValueError(f"{value} does not fit {kind}") from None
    if not fitted:
        return abs(fitted)
    if fitted.adjusted() + kind.scale >= kind.precision:
        raise ValueError(f"{value} does not fit {kind}")
    return fitted


def canonical(value: object, kind: Type) -> Value:
    """`value` as the one Python value that stands for it in a column of type `kind`.

    ValueError, in words fit for a message, when it is not a value of that type.
    """
    if value is None:
        return None
    match kind.name, value:
        case "bool", bool():
            return value
        case "int", int() if not isinstance(value, bool):
            if INT_MIN <= value <= INT_MAX:
                return value
            raise ValueError(f"{value} is outside the range of int (64 bits)")
        case "float", float() | int() if not isinstance(value, bool):
            try:
                return canonical_float(float(value))
            except OverflowError:
                raise ValueError(f"{value} is outside the range of float") from None
        case "decimal", Decimal() | int() if not isinstance(value, bool):
            return canonical_decimal(Decimal(value), kind)
        case "text", str():
            return value
        case "bytes", bytes():
            return value
        case "date", date() if not isinstance(value, datetime):
            return value
        case "timestamp", datetime() if value.tzinfo is None:
            return value
        case "timestamp_tz", datetime() if value.tzinfo is not None:
            try:
                return value.astimezone(UTC)
            except OverflowError:
                raise ValueError(f"{value} is outside the years 1 to 9999 in UTC") from None
        case "array", list() | tuple():
            element = kind.element
            return tuple([canonical(each, element) for each in value])
        case "struct", list() | tuple() | dict():
            return _canonical_struct(value, kind)
    raise ValueError(f"{value!r} is not a value of type {kind}")


def _canonical_struct(
    value: list[object] | tuple[object, ...] | dict[object, object], kind: Type
) -> tuple[Value, ...]:
    """A struct by its fields' names, or by their places."""
    names = [name for name, _ in kind.parts]
    if isinstance(value, dict):
        if set(value) != set(names):
            raise ValueError(f"{value!r} is not a value of type {kind}")
        value = [value[name] for name in names]
    if len(value) != len(names):
        raise ValueError(f"{value!r} is not a value of type {kind}")
    return tuple([canonical(each, part) for each, (_, part) in zip(value, kind.parts, strict=True)])


def from_json(value: Json, kind: Type) -> Value:
    """Read a value as `to_json` writes it; ValueError in words when it does not fit."""
    if isinstance(value, list) and kind.is_nested:
        kinds = [part for _, part in kind.parts]
        if kind.name == "array":
            kinds = kinds * len(value)
        if len(kinds) != len(value):
            raise ValueError(f"{value!r} is not a value of type {kind}")
        return tuple([from_json(each, part) for each, part in zip(value, kinds, strict=True)])
    if isinstance(value, str) and kind.name != "text":
        try:
            return canonical(_PARSERS[kind.name](value), kind)
        except (KeyError, ValueError, InvalidOperation):
            raise ValueError(f"{value!r} is not a value of type {kind}") from None
    return canonical(value, kind)


def _parse_float(text: str) -> float:
    if text not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(text)
    return float(text)


_PARSERS: dict[str, Callable[[str], object]] = {
    "float": _parse_float,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_tz": datetime.fromisoformat,
}


def to_json(value: Value) -> Json:
    """A JSON value that `from_json` reads back, given the type; a struct by its fields' places."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case date():
            return value.isoformat()
        case tuple():
            return [to_json(each) for each in value]


def width(value: Value) -> int:
    """How many bytes a value costs on the wire, as the lab counts them."""
    match value:
        case None | bool():
            return 1
        case str():
            return len(value.encode("utf-8", "surrogatepass"))
        case bytes():
            return len(value)
        case Decimal():
            return 16
        case tuple():
            return 1 + sum(map(width, value))
        case _:
            return 8


def show(value: Value) -> str:
    """A value as the papers print it inside a tuple."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"x'{value.hex()}'"
        case date():
            return value.isoformat()
        case tuple():
            return "[" + ", ".join(map(show, value)) + "]"
        case _:
            return str(value)


def sort_key(row: Row) -> tuple[tuple[int, object], ...]:
    """Order rows for display: NULL first, then by value; total within one schema."""
    return tuple(_sort_key(value) for value in row)


def _sort_key(value: Value) -> tuple[int, object]:
    if value is None:
        return (0, 0)
    if isinstance(value, float) and value != value:
        return (2, 0)
    return (1, sort_key(value) if isinstance(value, tuple) else value)
