"""Calls of functions, and the words that SQL has for some of them: EXTRACT, SUBSTRING ... FROM.

A function is known by the name that was written: sqlglot leaves the names of `CALLED` alone,
instead of reading them as what it takes for the same.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headwater.algebra.expressions import Expression, Literal
from headwater.algebra.functions.late import LATE_BY_NAME
from headwater.algebra.functions.table import BY_NAME
from headwater.algebra.functions.texts import lower
from headwater.algebra.like import like_pattern
from headwater.algebra.sql.forms import FORMS
from headwater.algebra.sql.functions import own_call, value_of
from headwater.algebra.sql.intervals import is_interval, moved
from headwater.algebra.sql.late import HIGHER, Translates, late
from headwater.algebra.sql.refusals import refused
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call
from headwater.algebra.values import DATE, TEXT, TIMESTAMP, TIMESTAMP_TZ, Type

_FIELDS = {
    word: function
    for function, words in {
        "year": "YEAR Y YEARS YR YRS",
        "yearofweek": "YEAROFWEEK",
        "quarter": "QUARTER QTR",
        "month": "MONTH MON MONS MONTHS",
        "weekofyear": "WEEK W WEEKS",
        "day": "DAY D DAYS",
        "dayofweek": "DAYOFWEEK DOW",
        "dayofweek_iso": "DAYOFWEEK_ISO DOW_ISO",
        "dayofyear": "DOY",
        "hour": "HOUR H HOURS HR HRS",
        "minute": "MINUTE M MIN MINS MINUTES",
        "seconds_with_fraction": "SECOND S SEC SECONDS SECS",
    }.items()
    for word in words.split()
}
FIELD_NAMES = tuple(_FIELDS)


Handler = Callable[..., Expression]


def called(t: Translates, node: exp.Anonymous) -> Expression:
    """A function by its name."""
    if own_call(node) is not None:
        return value_of(node, t)
    name = node.name.upper()
    if name in ("DATE_PART", "DATEPART") and len(node.expressions) == 2:
        return _field(t, node.expressions[0].name, node.expressions[1])
    if name in HIGHER and any(isinstance(part, exp.Lambda) for part in node.expressions):
        return HIGHER[name](t, name, node.expressions)
    if name in FORMS or name in BY_NAME:
        arguments = [t.expression(part) for part in node.expressions]
        try:
            if name in FORMS:
                return FORMS[name].expression(name, arguments)
            return call(BY_NAME[name].name, *arguments)
        except ValueError:
            if name not in LATE_BY_NAME:
                raise
    found = late(t, name, node.expressions)
    if found is None:
        raise refused(t.text, node)
    return found


def _exists(t: Translates, node: exp.Exists) -> Expression:
    """EXISTS of an array's elements; all others are subqueries."""
    if not isinstance(node.args.get("expression"), exp.Lambda):
        raise refused(t.text, node)
    found = late(t, "EXISTS", [node.this, node.expression])
    assert found is not None
    return found


def _given(t: Translates, node: exp.Expr, *names: str) -> list[Expression]:
    return [t.expression(node.args[name]) for name in names if node.args.get(name)]


def _substring(t: Translates, node: exp.Substring) -> Expression:
    if not node.args.get("start"):
        raise RefusalError("SUBSTRING needs a start.", "Write SUBSTRING(x FROM 1 FOR 2).")
    return call("substring", *_given(t, node, "this", "start", "length"))


def _trim(t: Translates, node: exp.Trim) -> Expression:
    names = {"LEADING": "trim_left", "TRAILING": "trim_right"}
    name = names.get(str(node.args.get("position") or "").upper(), "trim")
    return call(name, *_given(t, node, "this", "expression"))


def _position(t: Translates, node: exp.StrPosition) -> Expression:
    return call("locate", *_given(t, node, "substr", "this", "position"))


def _overlay(t: Translates, node: exp.Overlay) -> Expression:
    return call("overlay", *_given(t, node, "this", "expression", "from_", "for_"))


def _extract(t: Translates, node: exp.Extract) -> Expression:
    return _field(t, node.this.name, node.expression)


def _field(t: Translates, field: str, node: exp.Expr) -> Expression:
    function = _FIELDS.get(field.upper())
    if function is None:
        raise RefusalError(
            f"{field} is no field of a date or timestamp.",
            "There are YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFWEEK, DOY, HOUR, MINUTE and SECOND.",
        )
    return call(function, t.expression(node))


def _if(t: Translates, node: exp.If) -> Expression:
    return FORMS["IF"].expression("IF", _given(t, node, "this", "true", "false"))


def _div(t: Translates, node: exp.IntDiv) -> Expression:
    return call("div", t.expression(node.left), t.expression(node.right))


def _regexp_like(t: Translates, node: exp.RegexpLike) -> Expression:
    return call("regexp_like", t.expression(node.this), t.expression(node.expression))


def _like(t: Translates, node: exp.Like) -> Expression:
    return _with_pattern(t, node, _constant(node))


def _escape(t: Translates, node: exp.Escape) -> Expression:
    """LIKE with an escape character of its own: its pattern in terms of the usual one."""
    inner, escape = node.this, node.expression
    if not isinstance(inner, exp.Like | exp.ILike):
        raise refused(t.text, node)
    if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.name) == 1):
        raise RefusalError("ESCAPE needs one character.", "Write for example ESCAPE '!'.")
    found = _with_pattern(t, inner, _escaped(_constant(inner), escape.name))
    return call("not", found) if inner.args.get("negate") else found


def _constant(node: exp.Like | exp.ILike) -> str:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        name = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
        raise RefusalError(f"{name} needs a pattern that is a constant.", f"Write {name} '...'.")
    return pattern.name


def _escaped(pattern: str, escape: str) -> str:
    """The pattern with backslashes in the place of another escape character."""
    characters, found = iter(pattern), []
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("_", "%", escape) or not escaped:
                raise ValueError(
                    f"{escape} in '{pattern}' escapes something else than _ % {escape}"
                )
            found.append(f"\\{escaped}" if escaped in "_%\\" else escaped)
        else:
            found.append("\\\\" if character == "\\" else character)
    return "".join(found)


def _with_pattern(t: Translates, node: exp.Like | exp.ILike, pattern: str) -> Expression:
    """As in Spark, ILIKE is LIKE of the text and the pattern in lower case."""
    tested = t.expression(node.this)
    if isinstance(node, exp.ILike):
        tested, pattern = call("lower", tested), lower(pattern)
    like_pattern(pattern)  # refuses a wrong one now rather than on the first row
    return call("like", tested, Literal(pattern, TEXT))


def with_interval(t: Translates, operator: str, node: exp.Binary) -> Expression | None:
    """A date or timestamp plus or minus an INTERVAL; None if there is none."""
    if operator in ("+", "-") and is_interval(node.right):
        return moved(t.expression(node.left), node.right, 1 if operator == "+" else -1)
    if operator == "+" and is_interval(node.left):
        return moved(t.expression(node.right), node.left, 1)
    return None


_MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_TZ)


def combined(operator: str, left: Expression, right: Expression) -> Expression:
    """Arithmetic, and a date plus or minus days."""
    match operator, left.type, right.type:
        case "+", Type("date"), Type("int"):
            return call("date_add", left, right)
        case "+", Type("int"), Type("date"):
            return call("date_add", right, left)
        case "-", Type("date"), Type("int"):
            return call("date_sub", left, right)
        case "-", a, b if a in _MOMENTS and b in _MOMENTS:
            raise RefusalError(
                "the difference of two moments is an INTERVAL, which is no type here.",
                "Write DATEDIFF(a, b) for days, or UNIX_MICROS(a) - UNIX_MICROS(b).",
            )
    return call(operator, left, right)


def _interval(t: Translates, node: exp.Interval) -> Expression:
    raise t.text.error_at(
        t.text.before(node, "INTERVAL"),
        "an INTERVAL stands only beside + or - and a date or timestamp.",
        "Write for example day + INTERVAL '3' MONTH.",
    )


CALL_HANDLERS: dict[type, Handler] = {
    exp.Anonymous: called,
    exp.Exists: _exists,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Overlay: _overlay,
    exp.Extract: _extract,
    exp.If: _if,
    exp.IntDiv: _div,
    exp.Like: _like,
    exp.ILike: _like,
    exp.RegexpLike: _regexp_like,
    exp.Escape: _escape,
    exp.RawString: lambda t, node: Literal(node.name, TEXT),
    exp.Interval: _interval,
}
