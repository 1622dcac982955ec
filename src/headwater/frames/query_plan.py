"""What Spark makes of a query, looked at before anything of it is run.

Spark's own parser has the last word on what a text means, so a query is judged by the plan that
it gives: made of nothing but what questions are made of, over relations that are known, calling
no function that reaches out of the data. All three are lists of what may be or may not be by
name; what a later Spark adds to queries is refused until it is added here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from headwater.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "org.apache.spark.sql.catalyst."
_STEPS = {
    *("Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join"),
    *("LateralJoin", "LimitAll", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation"),
    *("PipeOperator", "Pivot", "Project", "RepartitionByExpression", "Sample", "Sort"),
    *("SubqueryAlias", "Union", "Unpivot", "UnresolvedHaving", "UnresolvedInlineTable"),
    *("UnresolvedQualify", "UnresolvedRelation", "UnresolvedSubqueryColumnAliases"),
    *("UnresolvedTVFAliases", "UnresolvedTableValuedFunction", "UnresolvedWith"),
    "WithWindowDefinition",
}
"""Of what questions are made; commands, writes and scripts are none of it."""
_TABLE_FUNCTIONS = {
    *("collations", "explode", "explode_outer", "inline", "inline_outer", "json_tuple"),
    *("posexplode", "posexplode_outer", "range", "sql_keywords", "stack", "variant_explode"),
    "variant_explode_outer",
}
_REACHING_OUT = {
    *("java_method", "reflect", "try_reflect"),  # call any method of Java
    *("from_avro", "from_protobuf", "from_xml", "to_protobuf"),  # have options that name files
}
_NO_NAME = "ExpressionWithUnresolvedIdentifier"
_ONLY = "only a query over views can be run."


def check_query(spark: SparkSession, query: str, known: Collection[str]) -> None:
    """SqlError if Spark would do something else than read relations that are known by name.

    Spark's own error if it cannot read the query at all.
    """
    names = {name.lower() for name in known}
    for node in _nodes(spark._jsparkSession.sessionState().sqlParser().parsePlan(query)):
        _check_step(node, names)
        for expression in _expressions(node):
            _check_expression(expression)


def _check_step(node: Any, known: Collection[str]) -> None:
    kind = _kind(node)
    if kind not in _STEPS:
        raise _error(node, _ONLY)
    if kind == "UnresolvedRelation":
        parts = _listed(node.multipartIdentifier())
        if len(parts) > 1 or parts[0].lower() not in known:
            raise _error(node, f"there is no view {'.'.join(parts)}.")
    if kind == "UnresolvedTableValuedFunction":
        name = _listed(node.name())[-1]
        if name.lower() not in _TABLE_FUNCTIONS:
            raise _error(node, f"{name} may not be called in FROM.")


def _check_expression(expression: Any) -> None:
    kind = _kind(expression)
    if kind == _NO_NAME:
        raise _error(expression, "a name cannot be computed.")
    if kind == "UnresolvedFunction":
        name = _listed(expression.nameParts())[-1]
        if name.lower() in _REACHING_OUT:
            raise _error(expression, f"{name} may not be called: {_ONLY}")


# Walking


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan's nodes, those of queries in it included."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [*_listed(node.children()), *_listed(node.innerChildren())]


def _expressions(node: Any) -> Iterator[Any]:
    waiting = _listed(node.expressions())
    if _kind(node) == "WithWindowDefinition":  # has them where Spark does not look
        waiting += _listed(node.windowDefinitions().values().toSeq())
    while waiting:
        expression = waiting.pop()
        yield expression
        waiting += _listed(expression.children())


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _kind(node: Any) -> str:
    """The name of its class; as a whole, if it is not one of Spark's core."""
    name: str = node.getClass().getName()
    return name.rpartition(".")[2].removesuffix("$") if name.startswith(_PACKAGE) else name


def _error(node: Any, message: str) -> SqlError:
    line, start = node.origin().line(), node.origin().startPosition()
    if line.isEmpty() or start.isEmpty():
        return SqlError(message, "Ask about views.")
    return SqlError(message, "Ask about views.", line=line.get(), column=start.get() + 1)
