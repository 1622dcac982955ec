"""The table of functions: for each its names, what it takes and gives, and what it does.

A function that is added here is known to the reader of SQL, to all engines and to the
documentation. Most of them are NULL as soon as one argument is; the others say so. `spark` is
Spark's own name for it, and empty where Spark needs more words than a name: those stand with
Spark's other expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headwater.algebra.functions import json_text, lists, numbers, regular, texts, times
from headwater.algebra.functions.signatures import Result, Signature
from headwater.algebra.values import FLOAT, Type, Value, canonical_float, decimal_type

Maker = Callable[[Sequence[Type], Type], Callable[..., Any]]
Fails = Callable[[Sequence[Type], Type], bool]


@dataclass(frozen=True)
class Function:
    """One function of the table."""

    group: str
    names: tuple[str, ...]
    signatures: tuple[Signature, ...]
    make: Maker
    """The function of values for these types of arguments and result."""
    example: str = ""
    result: Result | None = None
    """The type of the result where the signature cannot say it."""
    fails: bool | Fails = False
    """Whether it may raise on some values."""
    sees_nulls: bool = False
    """Whether it looks at NULLs itself, instead of being NULL when an argument is."""
    check: Callable[..., None] | None = None
    """Refuses wrong constants when the view is read; takes the values of all constants."""
    spark: str = ""
    is_spoken: bool = True
    """Whether a view may call it by name; if not, other syntax means it."""

    @property
    def name(self) -> str:
        return self.names[0]

    @cached_property
    def takes(self) -> str:
        """The arguments in words."""
        return " or ".join(signature.shown for signature in self.signatures)

    def can_fail(self, kinds: Sequence[Type], result: Type) -> bool:
        return self.fails if isinstance(self.fails, bool) else self.fails(kinds, result)

    def value(self, kinds: Sequence[Type], result: Type) -> Callable[..., Any]:
        """The function of values, whose result is canonical."""
        made = self.make(kinds, result)
        if result != FLOAT:
            return made
        return lambda *values: None if (v := made(*values)) is None else canonical_float(v)

    def check_constants(self, signature: Signature, values: Sequence[Value]) -> None:
        """ValueError in words if the function cannot take these constants."""
        if self.check is not None:
            constant = [signature.parameter(at).is_constant for at in range(len(values))]
            self.check(*(v for v, known in zip(values, constant, strict=True) if known))

    def result_type(
        self, signature: Signature, kinds: Sequence[Type], constants: Sequence[Value]
    ) -> Type:
        return self.result(kinds, constants) if self.result else signature.result(kinds)


def _of(
    group: str,
    names: str,
    signatures: str,
    value: Callable[..., Any] | None = None,
    example: str = "",
    *,
    make: Maker | None = None,
    spark: str | None = None,
    **more: Any,
) -> Function:
    """`names` and `signatures` as texts: names with blanks between, signatures with `|`."""
    assert (value is None) != (make is None)
    return Function(
        group,
        tuple(names.split()),
        tuple(Signature(text.strip()) for text in signatures.split("|")),
        make or (lambda kinds, result: value),  # type: ignore[return-value,arg-type]
        example,
        spark=names.split()[0] if spark is None else spark,
        **more,
    )


_TEXT = "text"
_TEXTS = (
    _of(_TEXT, "upper ucase", "text -> text", texts.upper, "upper('abc')"),
    _of(_TEXT, "lower lcase", "text -> text", texts.lower, "lower('ABC')"),
    _of(_TEXT, "initcap", "text -> text", texts.capitalized, "initcap('o''neil AND sons')"),
    _of(_TEXT, "length char_length character_length len", "text -> int | bytes -> int", len,
        "length('añ')"),
    _of(_TEXT, "octet_length", "text -> int | bytes -> int", lambda v: len(texts.bytes_of(v)),
        "octet_length('añ')"),
    _of(_TEXT, "bit_length", "text -> int | bytes -> int", lambda v: 8 * len(texts.bytes_of(v)),
        "bit_length('añ')"),
    _of(_TEXT, "substring substr", "text, index, [index] -> text | bytes, index, [index] -> bytes",
        texts.substring, "substring('abcd', 2, 2)"),
    _of(_TEXT, "left", "text, index -> text", texts.left, "left('abcd', 2)"),
    _of(_TEXT, "right", "text, index -> text", texts.right, "right('abcd', 2)"),
    _of(_TEXT, "trim btrim", "text, [text] -> text", texts.trim, "trim('  a ')", spark="btrim"),
    _of(_TEXT, "lpad", "text, index, [text] -> text", texts.pad_left, "lpad('7', 3, '0')",
        fails=True),
    _of(_TEXT, "rpad", "text, index, [text] -> text", texts.pad_right, "rpad('7', 3, '.')",
        fails=True),
    _of(_TEXT, "repeat", "text, index -> text", texts.repeat, "repeat('ab', 2)", fails=True),
    _of(_TEXT, "reverse", "text -> text | array -> first", lambda text: text[::-1],
        "reverse('abc')"),
    _of(_TEXT, "replace", "text, text, [text] -> text", texts.replace, "replace('aba', 'a', 'x')"),
    _of(_TEXT, "translate", "text, text, text -> text", texts.translate,
        "translate('abc', 'ab', 'x')"),
    _of(_TEXT, "overlay", "text, text, index, [index] -> text", texts.overlay,
        "overlay('abcd', 'X', 2)"),
    _of(_TEXT, "split_part", "text, text, index -> text", texts.split_part,
        "split_part('a-b-c', '-', 2)", fails=True),
    _of(_TEXT, "substring_index", "text, text, index -> text", texts.substring_index,
        "substring_index('a.b.c', '.', 2)"),
    _of(_TEXT, "concat_ws", "text, [text...] -> text", texts.concat_ws,
        "concat_ws('-', 'a', NULL, 'b')", sees_nulls=True),
    _of(_TEXT, "instr strpos", "text, text -> int", texts.position, "instr('abc', 'b')"),
    _of(_TEXT, "locate position charindex", "text, text, [index] -> int", texts.locate,
        "locate('b', 'abcb', 3)", sees_nulls=True),
    _of(_TEXT, "startswith starts_with", "text, text -> bool", str.startswith,
        "startswith('abc', 'a')"),
    _of(_TEXT, "endswith ends_with", "text, text -> bool", str.endswith, "endswith('abc', 'c')"),
    _of(_TEXT, "contains", "text, text -> bool", lambda a, b: b in a, "contains('abc', 'b')"),
    _of(_TEXT, "regexp_like rlike regexp", "text, text! -> bool", regular.matches,
        "regexp_like('a12', '[0-9]+')", check=regular.check_pattern),
    _of(_TEXT, "regexp_extract", "text, text!, [index!] -> text", regular.extract,
        "regexp_extract('k=v', '(.*)=(.*)', 2)", check=regular.check_extract),
    _of(_TEXT, "regexp_substr", "text, text! -> text", regular.first_match,
        "regexp_substr('a12', '[0-9]+')", check=regular.check_pattern),
    _of(_TEXT, "regexp_replace", "text, text!, text! -> text", regular.replace,
        "regexp_replace('a1b2', '[0-9]', '#')", check=regular.check_replace),
    _of(_TEXT, "regexp_count", "text, text! -> int", regular.count,
        "regexp_count('a1b2', '[0-9]')", check=regular.check_not_empty),
    _of(_TEXT, "ascii", "text -> int", texts.ascii_code, "ascii('a')"),
    _of(_TEXT, "chr char", "int -> text", texts.character, "chr(65)"),
    _of(_TEXT, "levenshtein", "text, text -> int", texts.levenshtein,
        "levenshtein('kitten', 'sitting')"),
    _of(_TEXT, "hex", "int -> text | text -> text | bytes -> text", None, "hex(255)",
        make=texts.hexadecimal),
    _of(_TEXT, "base64", "text -> text | bytes -> text", texts.base_64, "base64('abc')"),
    _of(_TEXT, "md5", "text -> text | bytes -> text", texts.md5, "md5('a')"),
    _of(_TEXT, "sha1 sha", "text -> text | bytes -> text", texts.sha1, "sha1('a')"),
    _of(_TEXT, "sha2", "text, index -> text | bytes, index -> text", texts.sha2, "sha2('a', 256)"),
    _of(_TEXT, "crc32", "text -> int | bytes -> int", texts.crc32, "crc32('a')"),
)  # fmt: skip

_NUMBER = "number"
_SCALED = "number, [int!] -> first"
_NUMBERS = (
    _of(_NUMBER, "round", _SCALED, None, "round(2.55, 1)", make=numbers.rounding(numbers.HALF_UP),
        result=numbers.rounded_type, fails=numbers.rounding_can_fail, spark=""),
    _of(_NUMBER, "bround", _SCALED, None, "bround(2.5)", make=numbers.rounding(numbers.HALF_EVEN),
        result=numbers.rounded_type, fails=numbers.rounding_can_fail, spark=""),
    _of(_NUMBER, "floor", "number -> int", None, "floor(-2.5)", make=numbers.whole(numbers.FLOOR),
        result=numbers.whole_type, fails=numbers.whole_can_fail),
    _of(_NUMBER, "ceil ceiling", "number -> int", None, "ceil(-2.5)",
        make=numbers.whole(numbers.CEILING), result=numbers.whole_type,
        fails=numbers.whole_can_fail),
    _of(_NUMBER, "sign signum", "float -> float", numbers.sign, "sign(-3)"),
    _of(_NUMBER, "sqrt", "float -> float", numbers.square_root, "sqrt(9)"),
    _of(_NUMBER, "isnan", "float -> bool", numbers.is_nan, "isnan(1e0)", sees_nulls=True),
    _of(_NUMBER, "factorial", "index -> int", numbers.factorial, "factorial(5)"),
)  # fmt: skip

_TIME = "date and time"
_DAY, _NOON = "DATE '2024-02-29'", "TIMESTAMP_NTZ '2024-02-29 12:30:45'"
_TIMES = (
    *(
        _of(_TIME, names, "day -> int", value, f"{names.split()[0]}({_DAY})")
        for names, value in times.DAY_FIELDS.items()
    ),
    *(
        _of(_TIME, name, "time -> int", value, f"{name}({_NOON})")
        for name, value in times.TIME_FIELDS.items()
    ),
    _of(_TIME, "dayname", "day -> text", times.day_name, "dayname(DATE '2024-02-29')"),
    _of(_TIME, "monthname", "day -> text", times.month_name, "monthname(DATE '2024-02-29')"),
    _of(_TIME, "date_add", "day, index -> date", times.add_days,
        "date_add(DATE '2024-02-28', 2)", fails=True),
    _of(_TIME, "date_sub", "day, index -> date", times.subtract_days,
        "date_sub(DATE '2024-03-01', 1)", fails=True),
    _of(_TIME, "datediff date_diff", "day, day -> int", times.days_between,
        "datediff(DATE '2024-03-01', DATE '2024-02-28')"),
    _of(_TIME, "add_months", "day, index -> date", times.add_months,
        "add_months(DATE '2024-01-31', 1)", fails=True),
    _of(_TIME, "months_between", "instant, instant, [bool] -> float", times.months_between,
        "months_between(DATE '2024-03-15', DATE '2024-01-31')"),
    _of(_TIME, "last_day", "day -> date", times.last_day, "last_day(DATE '2024-02-01')"),
    _of(_TIME, "next_day", "day, text! -> date", times.next_day,
        "next_day(DATE '2024-02-29', 'MON')", fails=True, check=times.check_weekday),
    _of(_TIME, "trunc", "day, text! -> date", times.first_day, "trunc(DATE '2024-02-29', 'MONTH')",
        fails=True, check=times.check_day_unit),
    _of(_TIME, "date_trunc", "text!, instant -> timestamp_tz", times.truncated,
        "date_trunc('HOUR', TIMESTAMP_NTZ '2024-02-29 12:30:45')", fails=True,
        check=times.check_unit),
    _of(_TIME, "make_date", "index, index, index -> date", times.make_date,
        "make_date(2024, 2, 29)", fails=True),
    _of(_TIME, "unix_date", "day -> int", times.unix_date, "unix_date(DATE '2024-02-29')"),
    _of(_TIME, "date_from_unix_date", "index -> date", times.date_from_unix_date,
        "date_from_unix_date(19782)", fails=True),
    *(
        _of(_TIME, f"unix_{unit}", "instant -> int", times.unix_time(size),
            f"unix_{unit}(TIMESTAMP '2024-02-29 00:00:00+00:00')")
        for unit, size in (("seconds", 10**6), ("millis", 1000), ("micros", 1))
    ),
    *(
        _of(_TIME, f"timestamp_{unit}", "int -> timestamp_tz", times.from_unix(size),
            f"timestamp_{unit}(0)", fails=True)
        for unit, size in (("seconds", 10**6), ("millis", 1000), ("micros", 1))
    ),
)  # fmt: skip

_SPANS = "timestamp, {0} -> timestamp | timestamp_tz, {0} -> timestamp_tz"
_OPERATIONS = (
    _of(_TEXT, "trim_left", "text, [text] -> text", texts.trim_left, spark="", is_spoken=False),
    _of(_TEXT, "trim_right", "text, [text] -> text", texts.trim_right, spark="", is_spoken=False),
    _of(_TIME, "seconds_with_fraction", "time -> int", times.seconds_with_fraction,
        result=lambda kinds, constants: decimal_type(8, 6), spark="", is_spoken=False),
    _of(_TIME, "yearofweek", "day -> int", times.year_of_week, spark="", is_spoken=False),
    _of(_TIME, "dayofweek_iso", "day -> int", times.iso_weekday, spark="", is_spoken=False),
    _of(_TIME, "plus_months", _SPANS.format("index"), times.add_months, fails=True, spark="",
        is_spoken=False),
    _of(_TIME, "plus_microseconds", _SPANS.format("int"), times.add_micros, fails=True, spark="",
        is_spoken=False),
    _of(_TIME, "epoch", "instant -> int", times.epoch,
        result=lambda kinds, constants: decimal_type(18, 6), spark="", is_spoken=False),
    *(
        _of(_TIME, f"{unit}s_between", "instant, instant -> int", times.units_between(unit),
            spark="", is_spoken=False)
        for unit in times.UNITS
    ),
    _of(_NUMBER, "div", "any, any -> int", numbers.quotient, fails=True, is_spoken=False),
)  # fmt: skip

_CHOICES = (
    _of("choice", "greatest", "any, any... -> first", numbers.greatest, "greatest(1, NULL, 3)",
        sees_nulls=True),
    _of("choice", "least", "any, any... -> first", numbers.least, "least(1, NULL, 3)",
        sees_nulls=True),
)  # fmt: skip

_ARRAY = "array and struct"
_LISTS = (
    _of(_ARRAY, "array", "any... -> first", lambda *values: values, "array(1, NULL, 3)",
        sees_nulls=True),
    _of(_ARRAY, "get", "array, index -> first", lists.item_or_null, "get(array(1, 2), 2)",
        result=lists.element),
    _of(_ARRAY, "element_at", "array, index -> first", lists.element_at,
        "element_at(array(1, 2), -1)", result=lists.element, fails=True),
    _of(_ARRAY, "try_element_at", "array, index -> first", lists.element_or_null,
        "try_element_at(array(1, 2), 3)", result=lists.element, fails=True),
    _of(_ARRAY, "array_size size cardinality", "array -> int", len, "size(array(1, NULL))"),
    _of(_ARRAY, "array_contains", "array, any -> bool", lists.contains,
        "array_contains(array(1, NULL), 2)"),
    _of(_ARRAY, "array_position", "array, any -> int", lists.position,
        "array_position(array(1, 2), 2)"),
    _of(_ARRAY, "array_max", "array -> first", lists.extreme(max), "array_max(array(1, 3))",
        result=lists.element),
    _of(_ARRAY, "array_min", "array -> first", lists.extreme(min), "array_min(array(1, 3))",
        result=lists.element),
    _of(_ARRAY, "array_distinct", "array -> first", lists.distinct, "array_distinct(array(1, 1))"),
    _of(_ARRAY, "array_compact", "array -> first", lists.compact, "array_compact(array(1, NULL))"),
    _of(_ARRAY, "array_union", "array, array -> first", lists.union,
        "array_union(array(1, 2), array(2, 3))"),
    _of(_ARRAY, "array_except", "array, array -> first", lists.difference,
        "array_except(array(1, 2), array(2, 3))"),
    _of(_ARRAY, "array_intersect", "array, array -> first", lists.intersection,
        "array_intersect(array(1, 2), array(2, 3))"),
    _of(_ARRAY, "arrays_overlap", "array, array -> bool", lists.overlap,
        "arrays_overlap(array(1, 2), array(2, 3))"),
    _of(_ARRAY, "array_remove", "array, any -> first", lists.without,
        "array_remove(array(1, 2, 1), 1)"),
    _of(_ARRAY, "array_append", "array, any -> first", lists.appended, "array_append(array(1), 2)",
        sees_nulls=True),
    _of(_ARRAY, "array_prepend", "array, any -> first", lists.prepended,
        "array_prepend(array(1), 2)", sees_nulls=True),
    _of(_ARRAY, "array_repeat", "any, index -> first", lists.repeated, "array_repeat(7, 2)",
        result=lists.of_such, sees_nulls=True, fails=True, spark=""),
    _of(_ARRAY, "slice", "array, index, index -> first", lists.part, "slice(array(1, 2, 3), 2, 2)",
        fails=True, spark=""),
    _of(_ARRAY, "flatten", "array -> first", lists.flattened, "flatten(array(array(1), array(2)))",
        result=lists.element),
    _of(_ARRAY, "sort_array", "array, [bool!] -> first", lists.in_order,
        "sort_array(array(2, NULL, 1))"),
    _of(_ARRAY, "array_sort", "array -> first", lists.in_order_nulls_last,
        "array_sort(array(2, NULL, 1))"),
    _of(_ARRAY, "array_join", "texts, text, [text] -> text", lists.joined,
        "array_join(array('a', NULL, 'b'), '-')"),
    _of(_ARRAY, "sequence", "int, int, [int] -> first", lists.sequence, "sequence(1, 7, 3)",
        result=lists.of_such, fails=True, spark=""),
    _of(_ARRAY, "item", "array, index -> first", lists.item, result=lists.element, fails=True,
        spark="", is_spoken=False),
    _of(_ARRAY, "field", "struct, text! -> first", None, make=lists.field,
        spark="", is_spoken=False),
    _of(_ARRAY, "struct", "any... -> first", lambda *values: values, sees_nulls=True, spark="",
        is_spoken=False),
)  # fmt: skip

_JSON = "JSON"
_MEMBER, _PATH = "text, text! -> text | text, int! -> text", "text, text! -> text"
_JSONS = (
    _of(_JSON, "->", _MEMBER, json_text.member, fails=True, spark="", is_spoken=False),
    _of(_JSON, "->>", _MEMBER, json_text.member_text, fails=True, spark="", is_spoken=False),
    _of(_JSON, "#>", _PATH, json_text.at_path, fails=True, check=json_text.check_path,
        spark="", is_spoken=False),
    _of(_JSON, "#>>", _PATH, json_text.at_path_text, fails=True, check=json_text.check_path,
        spark="", is_spoken=False),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (*_TEXTS, *_NUMBERS, *_TIMES, *_CHOICES, *_LISTS, *_JSONS, *_OPERATIONS)
}
BY_NAME: dict[str, Function] = {
    name.upper(): function
    for function in FUNCTIONS.values()
    for name in function.names
    if function.is_spoken
}
