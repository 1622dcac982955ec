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
from headwater.algebra.sql.forms import FORMS, POINTS
from headwater.algebra.sql.functions import own_call, value_of
from headwater.algebra.sql.intervals import (
    SPAN,
    binned,
    combined,
    is_interval,
    moved,
    seconds,
    span,
    stride,
    units_between,
    units_later,
)
from headwater.algebra.sql.late import HIGHER, Translates, late
from headwater.algebra.sql.refusals import refused
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call
from headwater.algebra.values import TEXT

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
_FORMS = FORMS | POINTS
FIELD_NAMES = tuple(_FIELDS)


Handler = Callable[..., Expression]


def called(t: Translates, node: exp.Anonymous) -> Expression:
    """A function by its name."""
    if own_call(node) is not None:
        return value_of(node, t)
    name = node.name.upper()
    if name in BY_UNIT and len(node.expressions) in BY_UNIT[name][1]:
        return BY_UNIT[name][0](t, *node.expressions)
    if name in HIGHER and any(isinstance(part, exp.Lambda) for part in node.expressions):
        return HIGHER[name](t, name, node.expressions)
    if name in _FORMS or name in BY_NAME:
        arguments = [t.expression(part) for part in node.expressions]
        try:
            if name in _FORMS:
                return _FORMS[name].expression(name, arguments)
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


def _part(t: Translates, field: exp.Expr, node: exp.Expr) -> Expression:
    return _field(t, field.name, node)


def _units_between(t: Translates, unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> Expression:
    return units_between(unit.name, t.expression(start), t.expression(end))


def _units_later(t: Translates, unit: exp.Expr, number: exp.Expr, moment: exp.Expr) -> Expression:
    return units_later(unit.name, t.expression(number), t.expression(moment))


def _bin(
    t: Translates, size: exp.Expr, node: exp.Expr, start: exp.Expr | None = None
) -> Expression:
    return binned(t.expression(node), stride(size), t.expression(start) if start else None)


BY_UNIT: dict[str, tuple[Handler, tuple[int, ...]]] = {
    **dict.fromkeys(("DATE_PART", "DATEPART"), (_part, (2,))),
    **dict.fromkeys(("TIMESTAMPDIFF", "DATEDIFF", "DATE_DIFF", "TIMEDIFF"), (_units_between, (3,))),
    **dict.fromkeys(("TIMESTAMPADD", "DATEADD", "DATE_ADD"), (_units_later, (3,))),
    **dict.fromkeys(("DATE_BIN", "TIME_BUCKET"), (_bin, (2, 3))),
}
"""Functions of which the first argument is no value, with as many arguments as they have then."""


def is_unit(node: exp.Expr) -> bool:
    """Whether it is the unit that a function of the calendar takes, which looks like a column."""
    of = node.parent
    if not isinstance(of, exp.Anonymous) or of.name.upper() not in BY_UNIT:
        return False
    return len(of.expressions) in BY_UNIT[of.name.upper()][1] and node is of.expressions[0]


def _field(t: Translates, field: str, node: exp.Expr) -> Expression:
    of = t.value_or_span(node)
    if field.upper() == "EPOCH":
        return seconds(of)
    if of.type == SPAN:
        raise RefusalError(
            f"{field} of a difference of moments is not supported.",
            "Write TIMESTAMPDIFF(HOUR, at, until) for whole hours, or EXTRACT(EPOCH FROM ...).",
        )
    function = _FIELDS.get(field.upper())
    if function is None:
        raise RefusalError(
            f"{field} is no field of a date or timestamp.",
            "There are YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFWEEK, DOY, HOUR, MINUTE, SECOND and "
            "EPOCH.",
        )
    return call(function, of)


def _if(t: Translates, node: exp.If) -> Expression:
    return FORMS["IF"].expression("IF", _given(t, node, "this", "true", "false"))


def _div(t: Translates, node: exp.IntDiv) -> Expression:
    return call("div", t.expression(node.left), t.expression(node.right))


def _regexp_like(t: Translates, node: exp.RegexpLike) -> Expression:
    return call("regexp_like", t.expression(node.this), t.expression(node.expression))


def _like(t: Translates, node: exp.Like | exp.ILike) -> Expression:
    if isinstance(node.expression, exp.Any | exp.All):
        return _like_several(t, node)
    return _with_pattern(t, node, _constant(node))


def _like_several(t: Translates, node: exp.Like | exp.ILike) -> Expression:
    """LIKE ANY and LIKE ALL; as in Spark, NOT LIKE ANY asks for one that does not match.

    Whoever asks for what NOT LIKE means takes the opposite of what is said here.
    """
    listed = node.expression.this.unnest()
    patterns = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
    each = [_like(t, type(node)(this=node.this, expression=pattern)) for pattern in patterns]
    is_any = isinstance(node.expression, exp.Any) != bool(node.args.get("negate"))
    return each[0] if len(each) == 1 else call("or" if is_any else "and", *each)


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
        left = t.value_or_span(node.left)
        if left.type == SPAN:
            return combined(operator, left, span(node.right))
        return moved(left, node.right, 1 if operator == "+" else -1)
    if operator == "+" and is_interval(node.left):
        right = t.value_or_span(node.right)
        return (
            combined("+", span(node.left), right)
            if right.type == SPAN
            else moved(right, node.left, 1)
        )
    return None


def _interval(t: Translates, node: exp.Interval) -> Expression:
    try:
        return span(node)
    except RefusalError as error:
        place = t.text.before(node, "INTERVAL")
        raise t.text.error_at(place, str(error), error.hint) from None


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
