"""Why an expression of a view's SQL is refused: in words, and with its place."""

from __future__ import annotations

import re

from sqlglot import exp

from headwater.algebra.sql.text import SqlText
from headwater.errors import SqlError

FUNCTIONS = "ABS, CAST, COALESCE, CONCAT, IFNULL, LENGTH, MOD, NULLIF, NVL"
_VOLATILE = re.compile(
    "CURRENT_(TIMESTAMP|DATE|TIME|TIMEZONE|USER|CATALOG|DATABASE|SCHEMA)|NOW|CURDATE|LOCALTIMESTAMP"
    "|UNIX_TIMESTAMP|RAND|RANDOM|RANDN|RANDSTR|UNIFORM|UUID|SHUFFLE|MONOTONICALLY_INCREASING_ID"
    "|SPARK_PARTITION_ID|INPUT_FILE_NAME|USER|SESSION_USER|VERSION"
)


def refused(text: SqlText, node: exp.Expr) -> SqlError:
    """The error for an expression that has no meaning in a view."""
    if isinstance(node, exp.Query | exp.Exists):
        return refused_subquery(text, node)
    if isinstance(node, exp.Window):
        message = "a window function (OVER) is not supported."
        return text.error(node, message, "Apply it when reading the view.")
    if isinstance(node, exp.AggFunc):
        message = f"the aggregate {text.written(node).upper()} is not supported."
        return text.error(node, message, "Aggregate when reading the view.")
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return _refused_function(text, node)
    return text.error(
        node,
        f"{node.sql('spark')} is not an expression that a view may use.",
        "Use comparisons, AND, OR, NOT, IS, IN, BETWEEN, LIKE, arithmetic, || and CASE.",
    )


def refused_subquery(text: SqlText, node: exp.Expr) -> SqlError:
    exists = isinstance(node, exp.Exists)
    return text.error_at(
        text.before(node, "EXISTS" if exists else "SELECT"),
        f"a subquery{' (EXISTS)' if exists else ''} is not supported.",
        "Write it as a join, or define a view for it.",
    )


def _refused_function(text: SqlText, node: exp.Func) -> SqlError:
    name = text.written(node).upper()
    if any(_VOLATILE.fullmatch(known) for known in (name, *node.sql_names())):
        return text.error(
            node,
            f"{name} depends on time, chance or the session, so the view would change "
            "although no source did.",
            "Apply it when reading the view.",
        )
    message = f"{name} is not a function that a view may use."
    return text.error(node, message, f"There are {FUNCTIONS}.")
