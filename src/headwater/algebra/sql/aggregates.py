"""Aggregates of a view's SQL: which call is one, and what it means over what its arguments mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from headwater.algebra.aggregates import FUNCTIONS, Aggregate, Sorting, aggregate
from headwater.algebra.expressions import Call, Expression, Literal
from headwater.algebra.shapes import OF_PAIRS
from headwater.algebra.sql.expressions import Translator, check_values
from headwater.algebra.sql.refusals import needs_over, without_over
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call, folded
from headwater.algebra.values import INT, TEXT, VOID

_BY_NODE: dict[type, str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.AnyValue: "any_value",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrSxy: "regr_sxy",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.First: "first",
    exp.FirstValue: "first",
    exp.Last: "last",
    exp.LastValue: "last",
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.ApproxQuantile: "approx_percentile",
    exp.ApproxDistinct: "count",
    exp.Median: "median",
    exp.Mode: "mode",
    exp.GroupConcat: "string_agg",
    exp.ArrayAgg: "array_agg",
    exp.ArrayUniqueAgg: "array_agg",
}
_BY_NAME = {
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "percentile": "percentile_cont",
    "min_by": "min_by",
    "max_by": "max_by",
}
_WITHIN = frozenset({"percentile_cont", "percentile_disc", "mode"})
"""Those whose argument may stand behind WITHIN GROUP."""
_UNSPOKEN = ("single", "count(*)", "deviations")
_ENDS = exp.First | exp.FirstValue | exp.Last | exp.LastValue
_OF_PAIRS: dict[type, tuple[str, bool]] = {
    exp.RegrCount: ("count", False),
    exp.RegrAvgx: ("avg", True),
    exp.RegrAvgy: ("avg", False),
    exp.RegrSxx: ("deviations", True),
    exp.RegrSyy: ("deviations", False),
}
"""Aggregates of one number of each pair, and whether it is the second one."""
_DISTINCT = frozenset(
    {
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "any_value",
        "string_agg",
        "array_agg",
        "approx_percentile",
    }
)


_BY_ORDER = {"min": 0, "max": 0, "min_by": 1, "max_by": 1}
"""Those that look at the order of an argument, and which that is."""


def is_aggregate(node: Any) -> bool:
    """Whether a node is a call of an aggregate."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _BY_NAME
    if isinstance(node, exp.Grouping | exp.GroupingId):
        return False
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(node.this)
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def own_parts(node: exp.Expr, stop: Callable[[Any], bool]) -> Iterator[exp.Expr]:
    """The parts of an expression that satisfy `stop`, not below another and not in a subquery."""
    if stop(node):
        yield node
    elif not isinstance(node, exp.Query):
        for part in node.iter_expressions():
            yield from own_parts(part, stop)


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates of groups in an expression; the function of a window is none."""
    for part in own_parts(node, lambda p: isinstance(p, exp.Window) or is_aggregate(p)):
        if not isinstance(part, exp.Window):
            yield part
            continue
        function = part.this
        below: list[exp.Expr] = []
        while isinstance(function, exp.Filter | exp.WithinGroup):
            function, below = function.this, [*below, function.expression]
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        below += [*function.iter_expressions(), *(part.args.get("partition_by") or ())]
        below += [part.args["order"]] if part.args.get("order") else []
        for inner in below:
            yield from own_parts(inner, is_aggregate)


def read_aggregate(node: Any, t: Translator) -> Aggregate:
    """The aggregate that a node is, over what its arguments mean."""
    condition = None
    if isinstance(node, exp.Filter):
        condition = _all(t.condition(node.expression.this, "FILTER"))
        node = node.this
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        if not isinstance(node.this, _ENDS | exp.AnyValue):
            spoken = t.text.written(node.this).upper()
            raise RefusalError(f"{spoken} has no IGNORE NULLS.", "It leaves NULLs out by itself.")
        if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, _ENDS):
            value = node.this.this
            value = value.this if isinstance(value, exp.Order) else value
            there = call("not", call("is null", t.expression(value)))
            condition = there if condition is None else call("and", condition, there)
        node = node.this
    if type(node) in _OF_PAIRS:
        return _of_pair(node, condition, t)
    order: Sequence[exp.Ordered] = ()
    if isinstance(node, exp.WithinGroup):
        order = node.expression.expressions
        node = node.this
    name = _BY_NAME.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    name = name or _BY_NODE.get(type(node))
    if name is None and needs_over(spoken := t.text.written(node).upper()):
        raise without_over(spoken)
    if name is None:
        known = ", ".join(sorted(f.upper() for f in FUNCTIONS if f not in _UNSPOKEN))
        raise RefusalError(
            f"the aggregate {spoken} is not supported.",
            f"There are {known}.",
        )
    return _typed(name, node, order, condition, t)


def _of_pair(node: Any, condition: Expression | None, t: Translator) -> Aggregate:
    """REGR_AVGX and such: what is made of one number where both are there."""
    name, is_second = _OF_PAIRS[type(node)]
    y, x = (t.expression(part) for part in (node.this, node.expression))
    for part in (y, x):
        if not (part.type.is_numeric or part.type == VOID):
            raise ValueError(f"{t.text.written(node).upper()} needs numbers, not {part.type}")
    value, other = (x, y) if is_second else (y, x)
    there = call("not", call("is null", other))
    return aggregate(name, _where(there, value), condition=condition)


def _typed(
    name: str,
    node: Any,
    order: Sequence[exp.Ordered],
    condition: Expression | None,
    t: Translator,
) -> Aggregate:
    given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    inner: Any = given[0] if given else None
    if isinstance(inner, exp.Order):
        inner, order = inner.this, inner.expressions
    if isinstance(node, exp.ApproxDistinct) and not isinstance(inner, exp.Distinct):
        inner = exp.Distinct(expressions=[inner])
    distinct = isinstance(inner, exp.Distinct)
    nodes = [] if inner is None else list(inner.expressions) if distinct else [inner]
    if distinct and name not in _DISTINCT:
        raise RefusalError(f"{name.upper()}(DISTINCT ...) is not supported.", "Leave it out.")
    within = bool(order) and name in _WITHIN
    if name != "count":
        beside = bool(node.args.get("accuracy")) - within
        t.text.check_arguments(node, FUNCTIONS[name].arguments + beside)
    nodes += given[1:]
    if within:
        nodes = [order[0].this, *nodes]
    if name in OF_PAIRS:
        nodes.append(node.expression)
    if name == "count" and not distinct:
        nodes += node.expressions
    if name == "count" and len(nodes) == 1 and _is_always(nodes[0]) and not distinct:
        return aggregate("count(*)", condition=condition)
    _check_accuracy(node.args.get("accuracy"))
    arguments = [t.expression(part) for part in nodes]
    if name in _BY_ORDER:
        check_values(t, name.upper(), nodes[_BY_ORDER[name]])
    if name == "string_agg":
        separator = node.args.get("separator")
        arguments.append(t.expression(separator) if separator else Literal("", TEXT))
    if isinstance(node, exp.ApproxQuantile):
        arguments.append(t.expression(node.args["quantile"]))
    if "percentile" in name:
        arguments = [folded(part) if isinstance(part, Call) else part for part in arguments]
    if name == "count" and len(arguments) > 1:
        return Aggregate("count", tuple(arguments), INT, distinct, condition)
    return aggregate(
        name,
        *arguments,
        distinct=distinct or isinstance(node, exp.ArrayUniqueAgg),
        condition=condition,
        order=[_sorting(part, t) for part in order if name != "mode" or part.args.get("desc")],
    )


def without_filter(found: Aggregate) -> Aggregate:
    """The same aggregate with its FILTER as a CASE, where only its arguments are looked at."""
    if found.condition is None:
        return found
    if found.function == "count(*)":
        return aggregate("count", _where(found.condition, Literal(1, INT)))
    arguments = list(found.arguments)
    decisive = 1 if found.function in ("min_by", "max_by") else 0
    arguments[decisive] = _where(found.condition, arguments[decisive])
    return replace(found, arguments=tuple(arguments), condition=None)


def _where(condition: Expression, value: Expression) -> Expression:
    return call("case", condition, value, Literal(None, VOID))


def _check_accuracy(node: exp.Expr | None) -> None:
    """How exact an approximation has to be: one that is exact is exact enough."""
    if node is not None and not (isinstance(node, exp.Literal) and float(node.name) > 0):
        raise RefusalError("the accuracy is no number above zero.", "Leave it out.")


def _sorting(part: exp.Ordered, t: Translator) -> Sorting:
    check_values(t, "ORDER BY", part.this)
    nulls_last = not part.args.get("nulls_first")
    return Sorting(t.expression(part.this), bool(part.args.get("desc")), nulls_last)


def _is_always(node: exp.Expr) -> bool:
    """`COUNT(*)` and `COUNT(1)` count rows."""
    return isinstance(node, exp.Star | exp.Literal)


def _all(conjuncts: Sequence[Expression]) -> Expression | None:
    if not conjuncts:
        return None
    return conjuncts[0] if len(conjuncts) == 1 else call("and", *conjuncts)
