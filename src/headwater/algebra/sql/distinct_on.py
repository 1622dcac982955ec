"""DISTINCT ON, as PostgreSQL has it: of rows with equal values, the first one by ORDER BY.

It is read as ROW_NUMBER() = 1 over a window. Rows that ORDER BY does not tell apart come in the
order of all their columns, as in every window.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headwater.algebra.sql.text import SqlText


def is_distinct(select: exp.Select) -> bool:
    """Whether equal rows are shown once; DISTINCT ON asks for other rows."""
    clause = select.args.get("distinct")
    return clause is not None and not clause.args.get("on")


def numbered(
    select: exp.Select, aliases: Mapping[str, exp.Expr], text: SqlText
) -> exp.Window | None:
    """The number of a row among those with equal values, whose first DISTINCT ON keeps."""
    on = (select.args.get("distinct") or exp.Distinct()).args.get("on")
    if on is None:
        return None
    keys = [_listed(key, select, aliases, text) for key in on.expressions]
    clause = select.args.get("order")
    order = [part.copy() for part in clause.expressions] if clause else []
    for part in order:
        part.set("this", _listed(part.this, select, aliases, text))
    if clause and {part.this for part in order[: len(keys)]} != set(keys):
        raise text.error(
            clause,
            "ORDER BY does not begin with what DISTINCT ON names.",
            "Order by that first, then by what tells which row is the first.",
        )
    ordered = order or [exp.Ordered(this=key) for key in keys]
    return exp.Window(this=exp.RowNumber(), partition_by=keys, order=exp.Order(expressions=ordered))


def _listed(
    node: exp.Expr, select: exp.Select, aliases: Mapping[str, exp.Expr], text: SqlText
) -> exp.Expr:
    """What a number or a name of the select list stands for, or the node itself."""
    items = select.expressions
    if isinstance(node, exp.Literal) and node.name.isdecimal() and not node.is_string:
        at = int(node.name)
        if not 1 <= at <= len(items):
            message = f"there is no column {at} to be distinct on."
            raise text.error(node, message, f"There are {len(items)}.")
        found: exp.Expr = items[at - 1].unalias()
        return found
    if isinstance(node, exp.Column) and not node.args.get("table"):
        return aliases.get(node.name.lower(), node)
    return node
