"""From sqlglot's syntax trees to typed expressions.

One handler for each kind of node that a view may use; everything else is refused with its
place. Types and implied casts come from `typing_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from headwater.algebra.expressions import Call, Expression, Literal
from headwater.algebra.sql.calls import CALL_HANDLERS, with_interval
from headwater.algebra.sql.functions import GIVEN, Given
from headwater.algebra.sql.intervals import SPAN, combined, is_missing
from headwater.algebra.sql.json_access import JSON_HANDLERS, gives_json
from headwater.algebra.sql.literals import constant_decimal, dated, number, type_of
from headwater.algebra.sql.names import Scope, UnknownNameError, Visible
from headwater.algebra.sql.refusals import refused, refused_subquery
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.typing_rules import call, cast, common_type, struct, try_cast
from headwater.algebra.values import BOOL, BYTES, DATE, TEXT, TIMESTAMP, TIMESTAMP_TZ, VOID

# Parts of nodes that a handler reads, or that say nothing more. A node with another part is
# refused: a later sqlglot may put there what it used to write around the node.
_UNDERSTOOD = frozenset(
    [
        "this",
        "expression",
        "expressions",
        "table",
        "db",
        "catalog",
        "is_string",
        "query",
        "low",
        "high",
        "symmetric",
        "ifs",
        "default",
        "to",
        "negate",
        "typed",
        "safe",
        "coalesce",
        "is_nvl",
        "is_null",
        "start",
        "length",
        "position",
        "substr",
        "true",
        "false",
        "from_",
        "for_",
        "unit",
    ]
)


@dataclass(frozen=True)
class Translator:
    """Translates the expressions of one query whose names mean what `scope` says."""

    text: SqlText
    scope: Scope
    special: Callable[[Any], Expression | None] = lambda node: None
    """What some nodes mean in this query: subqueries, aggregates, windows."""

    def expression(self, node: Any) -> Expression:
        """What a node means as a value."""
        found = self.value_or_span(node)
        if found.type == SPAN:
            is_written = isinstance(node, exp.Interval)
            raise self.text.error_at(
                self.text.before(node, "INTERVAL") if is_written else self.text.start(node),
                "an INTERVAL, such as the difference of two moments, is no value here.",
                "Compare it with another one, add it to a moment, or write EXTRACT(EPOCH FROM "
                "(until - at)) for seconds or DATEDIFF(until, at) for days.",
            )
        return found

    def value_or_span(self, node: Any) -> Expression:
        """What a node means where it may also be a time between moments."""
        try:
            if (known := self.special(node)) is not None:
                return known
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None
        except ValueError as error:
            raise self.text.error(node, f"{error}.", "Change the expression.") from None
        handler = _HANDLERS.get(type(node))
        if handler is None or any(node.args[part] for part in node.args.keys() - _UNDERSTOOD):
            raise refused(self.text, node)
        try:
            if isinstance(node, exp.Anonymous) and (looks_at := _LOOKING.get(node.name.upper())):
                check_values(self, node.name.upper(), *node.expressions, looks_at=looks_at)
            meaning = handler(self, node)
            return call("not", meaning) if node.args.get("negate") else meaning
        except RefusalError as error:
            raise self.text.error(node, str(error), error.hint) from None
        except ValueError as error:  # from the typing rules, without a full stop
            raise self.text.error(node, f"{error}.", "Change the expression.") from None

    def knowing(self, special: Callable[[Any], Expression | None]) -> Translator:
        """The same where some nodes mean something else."""
        return replace(self, special=special)

    def visible(self, node: exp.Column) -> tuple[Visible, Sequence[str]]:
        """The column that a name means, and which of its fields.

        `a.b` is a column b of a table a or, if there is none, the field b of a column a.
        """
        parts = ("catalog", "db", "table", "this")
        names = [self.text.name(node, part) for part in parts if node.args.get(part)]
        unknown: UnknownNameError | None = None
        for fields in range(max(0, len(names) - 3), len(names)):
            path = ["", "", *names[: len(names) - fields]][-3:]
            try:
                return self.scope.column(path[2], path[1], path[0]), names[len(names) - fields :]
            except UnknownNameError as error:
                unknown = unknown or error
        assert unknown is not None
        raise unknown

    def condition(self, node: exp.Expr, clause: str) -> tuple[Expression, ...]:
        """The conjuncts of a condition, without those that are plainly true."""
        condition = self.expression(node)
        if condition.type not in (BOOL, VOID):
            raise self.text.error(
                node,
                f"the condition of {clause} is of type {condition.type}, not boolean.",
                "Compare it with something.",
            )
        return tuple(c for c in _conjuncts(cast(condition, BOOL)) if c != Literal(True, BOOL))


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Call) and condition.operator == "and":
        for part in condition.arguments:
            yield from _conjuncts(part)
    else:
        yield condition


# Names and constants


def _column(t: Translator, node: exp.Column) -> Expression:
    if isinstance(node.this, exp.Star):
        raise RefusalError(
            "* stands only for a whole item of the select list.", "Name the columns."
        )
    visible, fields = t.visible(node)
    return _with_fields(visible.column, fields)


def _given(t: Translator, node: Given) -> Expression:
    """A parameter of a function of one's own, unless a column has its name."""
    try:
        return _column(t, node.this)
    except UnknownNameError:
        value, fields = node.meta[GIVEN]
        return _with_fields(value, fields)


def _with_fields(struct: Expression, fields: Sequence[str]) -> Expression:
    for field in fields:
        struct = call("field", struct, Literal(field, TEXT))
    return struct


def _dot(t: Translator, node: exp.Dot) -> Expression:
    """A field of what an expression gives; a column's own are parts of its name."""
    if not isinstance(node.expression, exp.Identifier):
        raise refused(t.text, node)
    return _with_fields(t.expression(node.this), [node.expression.name])


def _bracket(t: Translator, node: exp.Bracket) -> Expression:
    """An element of an array, counted from 0 as in Spark, or a field of a struct."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise refused(t.text, node)
    of, at = t.expression(node.this), t.expression(node.expressions[0])
    if of.type.name == "struct" and isinstance(at, Literal) and at.type == TEXT:
        return _with_fields(of, [str(at.value)])
    return call("item", of, at)


def _array(t: Translator, node: exp.Array) -> Expression:
    if any(column.name.lower() == "array" for column in t.scope.visible):
        raise RefusalError(
            "it is not told whether array is a function or a column here.",
            "Give the column another name in a subquery.",
        )
    return call("array", *(t.expression(part) for part in node.expressions))


def _struct(t: Translator, node: exp.Struct) -> Expression:
    names, values = [], []
    for at, part in enumerate(node.expressions, 1):
        if isinstance(part, exp.PropertyEQ):
            name, value = part.this.name, part.expression
        else:
            name, value = part.alias or f"col{at}", part.unalias()
        names.append(name)
        values.append(t.expression(value))
    return struct(names, values)


def _star(t: Translator, node: exp.Star) -> Expression:
    raise RefusalError("* stands only for a whole item of the select list.", "Name the columns.")


def _literal(t: Translator, node: exp.Literal) -> Expression:
    return Literal(node.name, TEXT) if node.is_string else number(node.name)


def _hex(t: Translator, node: exp.HexString) -> Expression:
    if len(node.name) % 2:
        raise RefusalError("X'...' needs two digits for each byte.", "Write for example X'00ff'.")
    return Literal(bytes.fromhex(node.name), BYTES)


def _negate(t: Translator, node: exp.Neg) -> Expression:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return number(inner.name, -1)
    return call("negate", t.expression(inner))


# Conditions


def _operator(name: str) -> Callable[[Translator, exp.Binary], Expression]:
    def handler(t: Translator, node: exp.Binary) -> Expression:
        return combined(name, t.value_or_span(node.left), t.value_or_span(node.right))

    return handler


def _of_values(name: str) -> Callable[[Translator, exp.Binary], Expression]:
    """An operator that means something else for a value than for the text that it is here."""

    def handler(t: Translator, node: exp.Binary) -> Expression:
        if (moved := with_interval(t, name, node)) is not None:
            return moved
        check_values(t, name, node.left, node.right)
        return combined(name, t.value_or_span(node.left), t.value_or_span(node.right))

    return handler


def _any(printed: str) -> bool:
    return True


def _range(printed: str) -> bool:
    return printed.endswith("range")


_LOOKING = {"GREATEST": _any, "LEAST": _any, "LOWER": _range, "UPPER": _range}
"""Functions that would take texts for what they are at their source, of some types: the lower end
of a range is not its text in lower case."""


def check_values(
    t: Translator, operator: str, *nodes: exp.Expr, looks_at: Callable[[str], bool] = _any
) -> None:
    """RefusalError if an operator would take texts for what they are at their source."""
    for node in nodes:
        column = node.unnest()
        if gives_json(column):
            raise RefusalError(
                f"-> and #> give JSON, which is a text here, for which {operator} would mean "
                "something else.",
                "Say what you mean: CAST(t ->> 'k' AS DECIMAL(38,10)) for a number, t ->> 'k' "
                "for a text.",
            )
        if isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
            try:
                visible, fields = t.visible(column)
            except UnknownNameError:
                continue  # a name of the select list, or of nothing: whoever reads it says so
            if visible.printed and not fields and looks_at(visible.printed):
                raise other_value(visible.name, visible.printed, operator)


def other_value(name: str, printed: str, operator: str) -> RefusalError:
    """What is said of a column that is a text only here, where its value would be looked at."""
    return RefusalError(
        f"{name} is of type {printed} at its source and a text here, for which {operator} would "
        "mean something else.",
        f"Say what you mean: CAST({name} AS DECIMAL(38,10)) if it is a number, CAST({name} AS "
        "STRING) for its text.",
    )


def _connector(name: str) -> Callable[[Translator, exp.Connector], Expression]:
    def handler(t: Translator, node: exp.Connector) -> Expression:
        return call(name, *(t.expression(part) for part in node.flatten()))

    return handler


def _distinct_from(t: Translator, node: exp.NullSafeNEQ) -> Expression:
    return call("not", combined("<=>", t.value_or_span(node.left), t.value_or_span(node.right)))


def _is(t: Translator, node: exp.Is) -> Expression:
    tested = t.value_or_span(node.this)
    if isinstance(node.expression, exp.Null):
        return is_missing(tested) if tested.type == SPAN else call("is null", tested)
    if isinstance(node.expression, exp.Boolean):
        if tested.type not in (BOOL, VOID):
            raise RefusalError(f"IS TRUE needs bool, not {tested.type}.", "Compare it first.")
        return call("<=>", tested, t.expression(node.expression))
    raise RefusalError(
        f"{node.sql('spark')} is not supported.", "After IS write NULL, TRUE, FALSE or NOT."
    )


def _in(t: Translator, node: exp.In) -> Expression:
    if query := node.args.get("query"):
        raise refused_subquery(t.text, query)
    if not node.expressions:
        raise RefusalError("IN needs a list of values.", "Write IN (a, b, ...).")
    tested, *members = _alike([node.this, *node.expressions], t)
    tests = [call("=", tested, member) for member in members]
    return tests[0] if len(tests) == 1 else call("or", *tests)


def _alike(nodes: Sequence[exp.Expr], t: Translator) -> list[Expression]:
    """Expressions brought to one type; whole and decimal numbers compare as they are."""
    found = [t.expression(node) for node in nodes]
    kind = common_type([expression.type for expression in found])
    return found if kind.name == "decimal" else [cast(expression, kind) for expression in found]


def _between(t: Translator, node: exp.Between) -> Expression:
    if node.args.get("symmetric"):
        raise RefusalError("BETWEEN SYMMETRIC is not supported.", "Write two BETWEEN with OR.")
    check_values(t, "BETWEEN", node.this, node.args["low"], node.args["high"])
    tested, low, high = (t.value_or_span(n) for n in (node.this, *map(node.args.get, _BOUNDS)))
    return call("and", combined(">=", tested, low), combined("<=", tested, high))


_BOUNDS = ("low", "high")


# Functions


def _unary(name: str) -> Callable[[Translator, exp.Unary], Expression]:
    def handler(t: Translator, node: exp.Unary) -> Expression:
        return call(name, t.expression(node.this))

    return handler


def _case(t: Translator, node: exp.Case) -> Expression:
    parts: list[Expression] = []
    subject = t.expression(node.this) if node.this else None
    for branch in node.args["ifs"]:
        when = t.expression(branch.this)
        parts.append(when if subject is None else call("=", subject, when))
        parts.append(t.expression(branch.args["true"]))
    otherwise = node.args.get("default")
    parts.append(t.expression(otherwise) if otherwise else Literal(None, VOID))
    return call("case", *parts)


def _cast(t: Translator, node: exp.Cast) -> Expression:
    if node.args.get("default"):
        raise RefusalError(f"{node.sql('spark')} is not supported.", "Write CAST(value AS type).")
    target, inner = type_of(node.to), node.this
    is_text = isinstance(inner, exp.Literal) and inner.is_string
    if is_text and target in (DATE, TIMESTAMP, TIMESTAMP_TZ):
        return dated(inner.name, target)
    if is_text and target.name == "decimal" and (value := constant_decimal(inner.name, target)):
        return value
    argument = t.expression(inner)
    if target == TEXT and (stored := _stored_text(t, inner, argument)):
        return stored
    return try_cast(argument, target) if node.args.get("safe") else cast(argument, target)


def _stored_text(t: Translator, node: exp.Expr, meaning: Expression) -> Expression | None:
    """A column as the text that its source has for it, where any value may be in it."""
    column = node.unnest()
    if isinstance(column, exp.Column):
        visible, _ = t.visible(column)
        return visible.text if visible.column == meaning else None
    return None


_HANDLERS: dict[type, Callable[..., Expression]] = {
    exp.Paren: lambda t, node: t.value_or_span(node.this),
    Given: _given,
    exp.Column: _column,
    exp.Star: _star,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Array: _array,
    exp.Struct: _struct,
    exp.Literal: _literal,
    exp.HexString: _hex,
    exp.Boolean: lambda t, node: Literal(node.this, BOOL),
    exp.Null: lambda t, node: Literal(None, VOID),
    exp.EQ: _operator("="),
    exp.NEQ: _operator("<>"),
    exp.LT: _of_values("<"),
    exp.LTE: _of_values("<="),
    exp.GT: _of_values(">"),
    exp.GTE: _of_values(">="),
    exp.NullSafeEQ: _operator("<=>"),
    exp.NullSafeNEQ: _distinct_from,
    exp.And: _connector("and"),
    exp.Or: _connector("or"),
    exp.Not: _unary("not"),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Add: _of_values("+"),
    exp.Sub: _of_values("-"),
    exp.Mul: _of_values("*"),
    exp.Div: _of_values("/"),
    exp.Mod: _of_values("%"),
    exp.Neg: _negate,
    exp.DPipe: _operator("||"),
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,  # how sqlglot reads Spark's CAST too; TRY_CAST is "safe"
    **CALL_HANDLERS,
    **JSON_HANDLERS,
}
