"""Why an expression of a view's SQL is refused: in words, and with its place."""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp

from headwater.algebra.aggregates import FUNCTIONS
from headwater.algebra.functions.known import OF_OTHER_TYPES, VOLATILE
from headwater.algebra.functions.late import LATE_BY_NAME, SPOKEN_APART
from headwater.algebra.functions.table import BY_NAME
from headwater.algebra.sql.forms import FORMS, POINTS
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.errors import SqlError

_OF_WINDOWS = frozenset(
    {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"}
    | {"NTH_VALUE"}
)


_LISTED = "docs/sql.md lists the functions; your own stand in functions/*.sql."


_INSTEAD: dict[type, str] = {
    exp.SimilarTo: "Write x RLIKE '...' with a regular expression.",
    exp.RegexpILike: "Write LOWER(x) RLIKE '...'.",
    exp.AtTimeZone: "Write FROM_UTC_TIMESTAMP, TO_UTC_TIMESTAMP or CONVERT_TIMEZONE.",
    exp.Tuple: "Compare column by column: a = 1 AND b = 2.",
    exp.Bracket: "Write SLICE(xs, 1, 2) for a part of an array.",
    exp.BitwiseLeftShift: "Write SHIFTLEFT(x, n).",
    exp.BitwiseRightShift: "Write SHIFTRIGHT(x, n).",
    exp.BitwiseAnd: "Write BIT_GET(x, n) for one bit.",
}
_OTHER_NAMES = {
    "AGE": "TIMESTAMPDIFF(YEAR, a, b), or compare a - b with an INTERVAL",
    "JSON_VALUE": "GET_JSON_OBJECT(x, '$.a') or x ->> 'a'",
    "JSON_QUERY": "x -> 'a'",
    "MAKE_INTERVAL": "an INTERVAL such as INTERVAL '3' DAYS",
    "PRODUCT": "EXP(SUM(LN(x)))",
    "ROW": "STRUCT(a, b)",
    "STRFTIME": "DATE_FORMAT(x, 'yyyy-MM-dd')",
}
"""What is written here instead, by the node or the name of a function."""


def misplaced_aggregate(name: str, hint: str) -> RefusalError:
    """What is said of an aggregate, or a function of windows, where it cannot stand."""
    if name in _OF_WINDOWS:
        return without_over(name)
    return RefusalError(f"the aggregate {name} cannot stand here.", hint)


def without_over(name: str) -> RefusalError:
    return RefusalError(
        f"{name} is computed over a window, and there is no OVER.",
        f"Write {name}(...) OVER (ORDER BY ...).",
    )


def needs_over(name: str) -> bool:
    """Whether a function of this name means something over a window only."""
    return name in _OF_WINDOWS


def refused(text: SqlText, node: exp.Expr) -> SqlError:
    """The error for an expression that has no meaning in a view."""
    if isinstance(node, exp.Query | exp.Exists):
        return refused_subquery(text, node)
    if isinstance(node, exp.Window):
        return text.error(
            node,
            "a window function (OVER) cannot stand here.",
            "Conditions on it stand in QUALIFY; or compute it in a subquery in FROM.",
        )
    if isinstance(node, exp.AggFunc):
        hint = "Conditions on groups stand in HAVING; or aggregate in a subquery in FROM."
        found = misplaced_aggregate(text.written(node).upper(), hint)
        return text.error(node, str(found), found.hint)
    if isinstance(node, exp.Lambda):
        return text.error(
            node,
            "a function of elements cannot stand here.",
            "It is an argument of TRANSFORM, FILTER, EXISTS, FORALL, ZIP_WITH, AGGREGATE or "
            "ARRAY_SORT.",
        )
    if isinstance(node, exp.Identifier):  # of which only variables of lambdas are no columns
        return text.error(
            node,
            f"{node.name} is an element of an array, which an aggregate or a window of rows cannot "
            "take.",
            "Aggregate elements with AGGREGATE(xs, 0, (total, x) -> total + x).",
        )
    if _is_formatted(text, node):
        return text.error(
            node,
            "CAST ... FORMAT is not supported.",
            "Write TO_DATE(x, 'dd.MM.yyyy'), TO_TIMESTAMP(x, 'dd.MM.yyyy HH:mm') or "
            "DATE_FORMAT(x, 'dd.MM.yyyy').",
        )
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return _refused_function(text, node)
    return text.error(
        node,
        f"{node.sql('spark')} is not an expression that a view may use.",
        _INSTEAD.get(
            type(node),
            "Use comparisons, AND, OR, NOT, IS, IN, BETWEEN, LIKE, arithmetic, || and CASE.",
        ),
    )


def _is_formatted(text: SqlText, node: exp.Expr) -> bool:
    """Whether it is a CAST with a FORMAT, of which the parser makes other functions."""
    is_cast = isinstance(node, exp.StrToDate | exp.StrToTime | exp.TimeToStr | exp.Cast)
    return is_cast and any(token.text.upper() == "FORMAT" for token in text.tokens)


def refused_subquery(text: SqlText, node: exp.Expr) -> SqlError:
    exists = isinstance(node, exp.Exists)
    return text.error_at(
        text.before(node, "EXISTS" if exists else "SELECT"),
        f"a subquery{' (EXISTS)' if exists else ''} is not supported.",
        "Write it as a join, or define a view for it.",
    )


def _refused_function(text: SqlText, node: exp.Func) -> SqlError:
    name = text.written(node).upper()
    if needs_over(name):
        return text.error(node, str(without_over(name)), without_over(name).hint)
    if any(known in VOLATILE for known in (name, *node.sql_names())):
        return text.error(
            node,
            f"{name} depends on time, chance or the session, so the view would change "
            "although no source did.",
            "Apply it when reading the view.",
        )
    if name == "WINDOW":
        hint = "Group by it in a subquery, or write DATE_BIN('5 minutes', at)."
        return text.error(node, "WINDOW is an expression of GROUP BY and the select list.", hint)
    if name in OF_OTHER_TYPES:
        message = f"{name} is of a type that views do not have, such as maps and variants."
        return text.error(node, message, "Apply it when reading the view.")
    aggregates = {function.partition("(")[0].upper() for function in FUNCTIONS} - {
        "SINGLE",
        "DEVIATIONS",
    }
    known = {*BY_NAME, *FORMS, *POINTS, *LATE_BY_NAME, *SPOKEN_APART, "CAST", *aggregates}
    near = get_close_matches(name, sorted(known), 3)
    hint = f"Did you mean {' or '.join(near)}?" if near else _LISTED
    hint = f"Write {_OTHER_NAMES[name]}." if name in _OTHER_NAMES else hint
    return text.error(node, f"{name} is not a function that a view may use.", hint)
