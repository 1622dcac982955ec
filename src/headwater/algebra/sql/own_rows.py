"""Functions of one's own that give rows, read where FROM calls them.

The body is a query over the sources' tables and views, which sees nothing of the one around it. A
parameter in it stands for the constant that it is given, unless a table of the body has a column of
that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.expressions import Expression
from headwater.algebra.schema import Schema
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.functions import GIVEN, Function, Given, own_call
from headwater.algebra.sql.names import Scope
from headwater.algebra.sql.plans import project, refs
from headwater.algebra.sql.query import Environment, Reading, read_query
from headwater.algebra.sql.text import RefusalError, SqlText
from headwater.algebra.typing_rules import cast


def rows_of(call: exp.Expr, around: Environment, text: SqlText) -> Reading:
    """The rows that a call gives; SqlError or FunctionError says what is wrong."""
    known = own_call(call)
    assert known is not None
    function, functions = known
    function.check_gives_rows()
    if call.find(exp.Column):
        message = f"an argument of {function.name} names a column: it takes constants."
        raise RefusalError(message, f"Compare a column that {function.name} gives with it.")
    values = function.values(call, Translator(text, Scope()))
    with function.telling():
        body = functions.marked(function.body())
        parts = function.text.parts(body)
        _mark_parameters(body, function, values)
        inside = Environment(function.text, around.relations, parts, views=around.views)
        return _as_declared(read_query(body, inside), function)


def _mark_parameters(body: exp.Expr, function: Function, values: Mapping[str, Expression]) -> None:
    """Put a mark around each name that may mean a parameter, with what it is given."""
    known = {name.lower(): value for name, value in values.items()}
    for column in list(body.find_all(exp.Column)):
        parts = [column.args.get(part) for part in ("catalog", "db", "table", "this")]
        names = [part.name for part in parts if isinstance(part, exp.Identifier)]
        if len(names) > 1 and names[0].lower() == function.name.lower():
            names = names[1:]
        if names and names[0].lower() in known:
            given = Given(this=column.copy())
            given.meta[GIVEN] = (known[names[0].lower()], names[1:])
            column.replace(given)


def _as_declared(found: Reading, function: Function) -> Reading:
    """The rows with the columns that the function RETURNS."""
    if not function.columns:
        return found
    if len(function.columns) != len(found.names):
        raise function.text.error(
            function.tree,
            f"{function.name} RETURNS {len(function.columns)} columns, and its SELECT has "
            f"{len(found.names)}.",
            "Name each column.",
        )
    schema = Schema.of((str(at), kind) for at, (_, kind) in enumerate(function.columns, 1))
    outputs = []
    for ref, (name, kind), (_, place) in zip(
        refs(found.schema), function.columns, found.items, strict=True
    ):
        try:
            outputs.append(cast(ref, kind))
        except ValueError as error:
            raise function.text.error_at(place, f"{name}: {error}.", "CAST it.") from None
    names = tuple(name for name, _ in function.columns)
    items = tuple(zip(names, (place for _, place in found.items), strict=True))
    plan = project(found.plan, schema, outputs)
    return replace(Reading(plan, names), items=items)
