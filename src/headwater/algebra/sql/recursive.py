"""WITH RECURSIVE: a query that reads itself, as a start and a step.

The start and the step are the two sides of a UNION; the step reads the query's own name once, in a
place where more rows found mean more rows to find. What else SQL could say there is refused by its
name: a step could take back what one before it has found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.recursion import MOST_STEPS
from headwater.algebra.sql.aggregates import aggregates_in, own_parts
from headwater.algebra.sql.plans import Plan, project, refs, top_of
from headwater.algebra.sql.query import Environment, Reading, named, read_query
from headwater.algebra.sql.text import SqlText
from headwater.algebra.tops import Found, Recursive
from headwater.algebra.typing_rules import cast
from headwater.algebra.values import VOID

_FORM = "Write name AS (SELECT ... UNION SELECT ... FROM name ...)."
_ONCE = "Read it once in the FROM of the second part, and do the rest behind the recursion."


def reads_of(node: exp.Expr, name: str) -> Iterator[exp.Table]:
    """Where a query reads a table of this name, in small letters, that no WITH in it names."""
    if isinstance(node, exp.Table) and node.name.lower() == name and not node.args.get("db"):
        yield node
    clause = node.args.get("with_") or exp.With(expressions=[])
    for query in clause.expressions:
        if query.alias.lower() == name and clause.args.get("recursive"):
            return
        yield from reads_of(query.this, name)
        if query.alias.lower() == name:
            return
    for part in node.iter_expressions():
        if part is not clause:
            yield from reads_of(part, name)


def check_order(queries: Iterable[exp.CTE], text: SqlText) -> None:
    """Refuse queries of one WITH that read those behind them: each other, for example."""
    before: list[exp.CTE] = []
    for query in queries:
        for other in before:
            for table in reads_of(other.this, query.alias.lower()):
                raise text.error(
                    table,
                    f"{other.alias} reads {query.alias}, which WITH names behind it.",
                    "A query reads itself and those before it; two that read each other are not "
                    "supported.",
                )
        before.append(query)


def read_recursive(query: exp.CTE, around: Environment) -> Reading:
    """What a query means that reads itself."""
    text, name, union = around.text, query.alias, query.this.unnest()
    _check_form(query, union, text)
    columns = [text.name(c) for c in query.args["alias"].args.get("columns") or ()]
    start = read_query(union.left, around.apart())
    _check_types(start, text)
    start = named(start, columns, query, text) if columns else start
    given = Reading(Found(name, start.schema), start.names, start.printed, start.items)
    inside = replace(around.apart(), named={**around.named, name.lower(): given})
    step = read_query(union.right, inside)
    plan = Recursive(
        top_of(start.plan),
        top_of(_of_types(step, start, union, text)),
        name,
        bool(union.args.get("distinct")),
        _most_steps(query, text),
    )
    return replace(start, plan=plan)


def _most_steps(query: exp.CTE, text: SqlText) -> int:
    given = query.args["alias"].args.get("most_steps")
    if given is None:
        return MOST_STEPS
    if not given.name.isdigit() or int(given.name) == 0:
        raise text.error(given, "MAX RECURSION LEVEL is no number above zero.", "Write 1000.")
    return int(given.name)


# Its form


def _check_form(query: exp.CTE, union: exp.Expr, text: SqlText) -> None:
    name = query.alias
    reads = list(reads_of(query.this, name.lower()))
    if not isinstance(union, exp.Union) or list(reads_of(union.left, name.lower())):
        message = f"{name} reads itself, and is no UNION whose first part does not."
        raise text.error(reads[0], message, _FORM)
    if len(reads) > 1:
        raise text.error(reads[1], f"the recursion reads {name} more than once.", _ONCE)
    if any(union.args.get(part) for part in ("order", "limit", "offset", "with_")):
        message = f"the UNION of {name} has a WITH, an ORDER BY or a LIMIT."
        raise text.error(reads[0], message, "Write it where the recursion is read.")
    if where := _wrong_place(reads[0], union):
        raise text.error(reads[0], f"the recursion reads {name} {where}.", _ONCE)


def _wrong_place(table: exp.Expr, union: exp.Union) -> str:
    """Where the step reads its own name, if it must not be there."""
    node = table
    while node is not union:
        above = node.parent
        assert above is not None
        if where := _in_node(node) or _below(node, above):
            return where
        node = above
    return ""


def _in_node(node: exp.Expr) -> str:
    """What a query does with its rows that more rows could make fewer."""
    joins = node.args.get("joins") or ()
    if not isinstance(node, exp.Select) and any(j.side in ("RIGHT", "FULL") for j in joins):
        return "where an outer join fills up with NULL"
    if node.args.get("limit") or node.args.get("offset"):
        return "under a LIMIT"
    if not isinstance(node, exp.Select):
        return ""
    items = [*node.expressions, *filter(None, [node.args.get("qualify")])]
    if any(any(own_parts(i, lambda part: isinstance(part, exp.Window))) for i in items):
        return "under a window function"
    grouped = node.args.get("group") or node.args.get("having")
    if grouped or any(any(aggregates_in(item)) for item in items):
        return "under an aggregate"
    distinct = node.args.get("distinct")
    return "under DISTINCT ON" if distinct and distinct.args.get("on") else ""


def _below(node: exp.Expr, above: exp.Expr) -> str:
    """What the node above does with the rows of one below it."""
    match above:
        case exp.Select() if node.arg_key in ("from_", "joins"):
            joins = above.args.get("joins") or []
            behind = joins if node.arg_key == "from_" else joins[joins.index(node) + 1 :]
            outer = any(join.side in ("RIGHT", "FULL") for join in behind)
            return "where an outer join fills up with NULL" if outer else ""
        case exp.Join() if node.arg_key == "this":
            if above.kind in ("SEMI", "ANTI"):
                return f"in what a {above.kind} JOIN looks for"
            outer = above.side in ("LEFT", "FULL")
            return "where an outer join fills up with NULL" if outer else ""
        case exp.Union() | exp.From() | exp.Subquery() | exp.Table():
            return ""
        case exp.SetOperation():
            return "under EXCEPT or INTERSECT"
        case exp.CTE():
            return "in a WITH of its own"
    return "in a subquery beside FROM"


# Its types


def _check_types(start: Reading, text: SqlText) -> None:
    for name, kind, (_, place) in zip(start.names, start.schema.types, start.items, strict=True):
        if kind == VOID:
            raise text.error_at(
                place,
                f"column {name} is always NULL at the start, and has no type.",
                "Write CAST(NULL AS type).",
            )


def _of_types(step: Reading, start: Reading, union: exp.Union, text: SqlText) -> Plan:
    """The step with the start's types: a recursion keeps them, as in Spark."""
    if len(step.names) != len(start.names):
        raise text.error(
            union.right,
            f"a step has {len(step.names)} columns, and the start has {len(start.names)}.",
            "Both parts have as many.",
        )
    for at, (a, b) in enumerate(zip(start.schema.types, step.schema.types, strict=True)):
        if b not in (a, VOID):
            raise text.error_at(
                step.items[at][1],
                f"column {at + 1} of a step is of type {b}, and at the start of type {a}.",
                f"Write CAST(... AS {str(a).upper()}) in one of both.",
            )
    columns = zip(refs(step.schema), start.schema.types, strict=True)
    return project(step.plan, start.schema, [cast(column, kind) for column, kind in columns])
