"""Names of the select list in items behind them: `SELECT a + 1 AS x, x * 2 AS y`.

As in Spark, a column of FROM that has the name is meant first. The name then stands for what the
item before says, so that groups and windows know nothing of it. Subqueries do not see such names.
"""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.sql.functions import Given
from headwater.algebra.sql.names import Scope
from headwater.algebra.sql.text import SqlText


def unfold_aliases(select: exp.Select, scope: Scope, text: SqlText) -> None:
    """Put what names of earlier items stand for in their place; once done, it changes nothing."""
    known = {column.name.lower() for column in scope.visible}
    known |= {table.alias.lower() for table in scope.tables}
    earlier: dict[str, list[exp.Expr]] = {}
    for item in select.expressions:
        for column in list(_columns(item)):
            _unfold(column, known, earlier, text)
        if isinstance(item, exp.Alias):
            earlier.setdefault(item.alias.lower(), []).append(item.this)


def _columns(node: exp.Expr) -> list[exp.Column]:
    """The names of columns in an item, but for those of subqueries and of parameters."""
    if isinstance(node, exp.Query | Given):
        return []
    if isinstance(node, exp.Column):
        return [node]
    return [column for part in node.iter_expressions() for column in _columns(part)]


def _unfold(
    column: exp.Column, known: set[str], earlier: dict[str, list[exp.Expr]], text: SqlText
) -> None:
    """`x` is the item, and `x.y` a field of it."""
    parts = [part for name in ("catalog", "db", "table", "this") if (part := column.args.get(name))]
    name = parts[0].name.lower()
    if isinstance(column.this, exp.Star) or name in known or name not in earlier:
        return
    if len(earlier[name]) > 1:
        raise text.error(column, f"two items are named {parts[0].name}.", "Rename one of them.")
    (meant,) = earlier[name]
    found: exp.Expr = exp.Paren(this=meant)
    for field in parts[1:]:
        found = exp.Dot(this=found, expression=field)
    column.replace(found)
