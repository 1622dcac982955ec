"""Late functions: those that only Spark computes, as a table of what they take and give.

They are left to the top of a view: what is stored are their arguments, and Spark computes them when
the view is folded and read. So nothing here has values, and types are known without a session; a
test asks Spark whether it agrees. In an expression such a call has an operator of its own
(`LATE` and a name), which the engines in memory refuse to evaluate.

Not here are functions that depend on time, chance or the session (`known`), and those of maps,
variants, intervals and times of day, which are no types of ours. Whole numbers have 64 bits, where
Spark has functions of 32 and of 64.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.algebra.functions.signatures import Result, Signature
from headwater.algebra.functions.table import Function
from headwater.algebra.values import (
    TEXT,
    Type,
    Value,
    array_type,
    decimal_type,
)
from headwater.errors import EngineError

LATE = "late "
"""How the operators of late calls begin."""
LAMBDA, VARIABLE = f"{LATE}lambda", f"{LATE}variable"
FROM_JSON, FROM_CSV = f"{LATE}from_json", f"{LATE}from_csv"
PARSED = (f"{LATE}parse_json", f"{LATE}try_parse_json")
"""What has values of any type, which no column has here: they are shown as JSON texts."""
PICKED = (f"{LATE}variant_get", f"{LATE}try_variant_get")
"""What picks a value of such a one, by a path and a type."""
SPOKEN_APART = frozenset(
    {"FROM_JSON", "FROM_CSV", "TRANSFORM", "FILTER", "FORALL", "ZIP_WITH", "AGGREGATE", "REDUCE"}
    | {"VARIANT_GET", "TRY_VARIANT_GET"}
)
"""Late functions that the table does not have, because other arguments than values make their
types: a schema, or a function of elements. EXISTS is one too, and has a syntax of its own."""


def not_here(*values: object) -> Value:
    """What a late call does in memory."""
    raise EngineError(
        "A view with a function that only Spark computes was to be shown without Spark.",
        "Read it through Spark.",
    )


def _late(
    group: str, names: str, signatures: str, example: str = "", result: Result | None = None
) -> Function:
    spoken = tuple(names.split())
    return Function(
        group,
        spoken,
        tuple(Signature(text.strip()) for text in signatures.split("|")),
        lambda kinds, result: not_here,
        example,
        result=result,
        fails=True,
        spark=spoken[0],
    )


def _texts(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    return array_type(TEXT)


def _sentences(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    return array_type(array_type(TEXT))


def _formatted(kinds: Sequence[Type], constants: Sequence[Value]) -> Type:
    """The decimal that a format of TO_NUMBER has room for."""
    whole, _, rest = (
        re.sub("[^09.DdGg,]", "", str(constants[1])).upper().replace("D", ".").partition(".")
    )
    digits = [sum(each in "09" for each in part) for part in (whole, rest)]
    return decimal_type(sum(digits), digits[1])


_NUMBER, _TEXT, _TIME, _ARRAY, _JSON = "number", "text", "date and time", "array", "JSON"
_REAL = (
    "acos asin atan cos cosh exp expm1 rint sin sinh tanh tan asinh cbrt degrees radians atanh "
    "acosh cot csc sec ln log10 log1p log2"
)
_MOMENT = "TIMESTAMP_NTZ '2024-02-29 12:30:45'"
_NUMBERS = (
    *(_late(_NUMBER, name, "float -> float", f"{name}(0.5)") for name in sorted(_REAL.split())),
    _late(_NUMBER, "atan2", "float, float -> float", "atan2(1, 2)"),
    _late(_NUMBER, "hypot", "float, float -> float", "hypot(3, 4)"),
    _late(_NUMBER, "log", "float, [float] -> float", "log(2, 8)"),
    _late(_NUMBER, "nanvl", "float, float -> float", "nanvl(1e0, 2e0)"),
    _late(_NUMBER, "power pow", "float, float -> float", "power(2, 10)"),
    _late(_NUMBER, "bin", "int -> text", "bin(13)"),
    _late(_NUMBER, "bit_count", "int -> int | bool -> int", "bit_count(13)"),
    _late(_NUMBER, "bit_get getbit", "int, narrow -> int", "bit_get(13, 1)"),
    _late(_NUMBER, "conv", "text, narrow, narrow -> text", "conv('ff', 16, 10)"),
    _late(_NUMBER, "shiftleft", "int, narrow -> int", "shiftleft(1, 3)"),
    _late(_NUMBER, "shiftright", "int, narrow -> int", "shiftright(-8, 1)"),
    _late(_NUMBER, "shiftrightunsigned", "int, narrow -> int", "shiftrightunsigned(8, 1)"),
    _late(_NUMBER, "try_mod", "int, int -> int", "try_mod(7, 0)"),
    _late(_NUMBER, "width_bucket", "float, float, float, int -> int", "width_bucket(5, 0, 10, 4)"),
    _late(_NUMBER, "hash", "any, [any...] -> int", "hash('a', true)"),
    _late(_NUMBER, "xxhash64", "any, [any...] -> int", "xxhash64('a', true)"),
)  # fmt: skip
_TEXTS = (
    _late(_TEXT, "decode", "bytes, text -> text", "decode(X'61', 'UTF-8')"),
    _late(_TEXT, "elt", "narrow, text, [text...] -> text", "elt(2, 'a', 'b')"),
    _late(_TEXT, "encode", "text, text -> bytes", "encode('a', 'UTF-8')"),
    _late(_TEXT, "find_in_set", "text, text -> int", "find_in_set('b', 'a,b')"),
    _late(_TEXT, "format_number", "number, narrow -> text | number, text -> text",
          "format_number(12345.678, 1)"),
    _late(_TEXT, "format_string printf", "text!, [any...] -> text",
          "format_string('%s-%d', 'a', 7)"),
    _late(_TEXT, "from_base32", "text -> bytes", "from_base32('ME======')"),
    _late(_TEXT, "to_base32", "bytes -> text", "to_base32(X'61')"),
    _late(_TEXT, "hmac", "bytes, bytes, [text] -> bytes", "hmac(X'61', X'62')"),
    _late(_TEXT, "aes_decrypt", "bytes, bytes, [text], [text] -> bytes"),
    _late(_TEXT, "try_aes_decrypt", "bytes, bytes, [text], [text] -> bytes"),
    _late(_TEXT, "is_valid_utf8", "text -> bool", "is_valid_utf8('a')"),
    _late(_TEXT, "jaro_winkler_similarity", "text, text -> float",
          "jaro_winkler_similarity('abc', 'abd')"),
    _late(_TEXT, "luhn_check", "text -> bool", "luhn_check('79927398713')"),
    _late(_TEXT, "mask", "text, [text!], [text!], [text!], [text!] -> text", "mask('aB-1')"),
    _late(_TEXT, "parse_url", "text, text, [text] -> text",
          "parse_url('http://x.org/a?b=c', 'HOST')"),
    _late(_TEXT, "try_parse_url", "text, text, [text] -> text", "try_parse_url('x y', 'HOST')"),
    _late(_TEXT, "quote", "text -> text", "quote('it''s')"),
    _late(_TEXT, "regexp_extract_all", "text, text, [narrow] -> text",
          "regexp_extract_all('a1b2', '([0-9])', 1)", _texts),
    _late(_TEXT, "regexp_instr", "text, text -> int", "regexp_instr('ab1', '[0-9]')"),
    _late(_TEXT, "sentences", "text -> text", "sentences('A b. C d.')", _sentences),
    _late(_TEXT, "soundex", "text -> text", "soundex('Miller')"),
    _late(_TEXT, "space", "narrow -> text", "space(2)"),
    _late(_TEXT, "split", "text, text, [narrow] -> text", "split('a,b', ',')", _texts),
    _late(_TEXT, "to_binary", "text, [text!] -> bytes", "to_binary('61', 'hex')"),
    _late(_TEXT, "try_to_binary", "text, [text!] -> bytes", "try_to_binary('x', 'hex')"),
    _late(_TEXT, "to_char to_varchar", "number, text! -> text | time, text! -> text",
          "to_char(12.5, '99.99')"),
    _late(_TEXT, "to_number", "text, text! -> text", "to_number('12.5', '99.99')", _formatted),
    _late(_TEXT, "try_to_number", "text, text! -> text", "try_to_number('x', '99')", _formatted),
    _late(_TEXT, "unbase64", "text -> bytes", "unbase64('YQ==')"),
    _late(_TEXT, "unhex", "text -> bytes", "unhex('61')"),
    _late(_TEXT, "url_decode", "text -> text", "url_decode('a%20b')"),
    _late(_TEXT, "try_url_decode", "text -> text", "try_url_decode('%')"),
    _late(_TEXT, "url_encode", "text -> text", "url_encode('a b')"),
    _late(_TEXT, "xpath", "text, text! -> text", "xpath('<a><b>1</b></a>', 'a/b/text()')", _texts),
    _late(_TEXT, "xpath_boolean", "text, text! -> bool", "xpath_boolean('<a><b/></a>', 'a/b')"),
    _late(_TEXT, "xpath_double xpath_number", "text, text! -> float",
          "xpath_double('<a>1.5</a>', 'a')"),
    _late(_TEXT, "xpath_long", "text, text! -> int", "xpath_long('<a>7</a>', 'a')"),
    _late(_TEXT, "xpath_int", "text, text! -> int", "xpath_int('<a>7</a>', 'a')"),
    _late(_TEXT, "xpath_string", "text, text! -> text", "xpath_string('<a>x</a>', 'a')"),
)  # fmt: skip
_PARTS = "narrow, narrow, narrow, narrow, narrow, seconds"
_SECONDS = "(2024, 2, 29, 12, 30, 45.5)"
_TIMES = (
    _late(_TIME, "convert_timezone", "text!, text!, timestamp -> timestamp",
          f"convert_timezone('America/New_York', 'UTC', {_MOMENT})"),
    _late(_TIME, "date_format", "time, text -> text", f"date_format({_MOMENT}, 'yyyy/MM')"),
    _late(_TIME, "from_unixtime", "int, [text] -> text", "from_unixtime(0)"),
    _late(_TIME, "from_utc_timestamp", "instant, text! -> timestamp_tz",
          "from_utc_timestamp(TIMESTAMP '2024-02-29 12:00:00+00:00', 'Asia/Tokyo')"),
    _late(_TIME, "to_utc_timestamp", "instant, text! -> timestamp_tz",
          "to_utc_timestamp(TIMESTAMP '2024-02-29 12:00:00+00:00', 'Asia/Tokyo')"),
    _late(_TIME, "make_timestamp make_timestamp_ltz", f"{_PARTS}, [text!] -> timestamp_tz",
          f"make_timestamp{_SECONDS}"),
    _late(_TIME, "make_timestamp_ntz", f"{_PARTS} -> timestamp", f"make_timestamp_ntz{_SECONDS}"),
    _late(_TIME, "try_make_timestamp try_make_timestamp_ltz", f"{_PARTS}, [text!] -> timestamp_tz",
          f"try_make_timestamp{_SECONDS}"),
    _late(_TIME, "try_make_timestamp_ntz", f"{_PARTS} -> timestamp",
          f"try_make_timestamp_ntz{_SECONDS}"),
    _late(_TIME, "to_date", "text, text -> date", "to_date('29.2.2024', 'd.M.yyyy')"),
    _late(_TIME, "try_to_date", "text, text -> date", "try_to_date('x', 'd.M.yyyy')"),
    _late(_TIME, "to_timestamp to_timestamp_ltz", "text, text -> timestamp_tz",
          "to_timestamp('29.2.2024', 'd.M.yyyy')"),
    _late(_TIME, "to_timestamp_ntz", "text, text -> timestamp",
          "to_timestamp_ntz('29.2.2024', 'd.M.yyyy')"),
    _late(_TIME, "try_to_timestamp", "text, text -> timestamp_tz",
          "try_to_timestamp('x', 'd.M.yyyy')"),
    _late(_TIME, "to_unix_timestamp unix_timestamp", "text, text -> int | instant -> int",
          "to_unix_timestamp('29.2.2024', 'd.M.yyyy')"),
)  # fmt: skip
_OTHERS = (
    _late(_ARRAY, "array_insert", "array, narrow, any -> first", "array_insert(array(1), 1, 7)"),
    _late(_JSON, "get_json_object", "text, text -> text",
          "get_json_object('{\"a\": {\"b\": 7}}', '$.a.b')"),
    _late(_JSON, "json_array_length", "text -> int", "json_array_length('[1, 2]')"),
    _late(_JSON, "json_object_keys", "text -> text", "json_object_keys('{\"a\": 1}')", _texts),
    _late(_JSON, "parse_json", "text -> text"),
    _late(_JSON, "try_parse_json", "text -> text"),
    _late(_JSON, "to_json", "struct -> text | array -> text", "to_json(named_struct('a', 1))"),
    _late(_JSON, "to_csv", "struct -> text", "to_csv(named_struct('a', 1, 'b', 'x'))"),
    _late(_JSON, "schema_of_json", "text! -> text", "schema_of_json('{\"a\": 1}')"),
)  # fmt: skip

LATE_FUNCTIONS: tuple[Function, ...] = (*_NUMBERS, *_TEXTS, *_TIMES, *_OTHERS)
LATE_BY_NAME: dict[str, Function] = {
    name.upper(): function for function in LATE_FUNCTIONS for name in function.names
}
LATE_BY_OPERATOR: dict[str, Function] = {f"{LATE}{f.name}": f for f in LATE_FUNCTIONS}


def names_of(operator: str) -> tuple[str, ...]:
    """What a late function may be called where it is written, by the operator of its calls."""
    function = LATE_BY_OPERATOR.get(operator)
    return function.names if function else (operator.removeprefix(LATE),)
