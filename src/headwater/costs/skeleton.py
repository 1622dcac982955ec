"""A view reduced to what decides which questions are asked: its joins by equality, and its keys.

All columns are whole numbers, conditions on one relation are left out, and what is computed is one
of the columns that it is computed from. So rows can be made up that join as real ones would.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, columns_of
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.values import BOOL, INT
from headwater.algebra.views import Join, Occurrence, View, equated_columns


def skeleton(view: View) -> View:
    """The view with nothing but its joins."""
    joins = tuple(_bare(join) for join in view.joins)
    return View(view.name, joins, _numbers(view.schema))


def _bare(join: Join) -> Join:
    occurrences = tuple(Occurrence(o.alias, _bare_relation(o.relation)) for o in join.occurrences)
    condition = tuple(
        bare for conjunct in join.condition if (bare := _bare_condition(join, conjunct)) is not None
    )
    outputs = tuple(map(_bare_output, join.outputs))
    return Join(occurrences, condition, outputs, _numbers(join.schema))


def _bare_relation(relation: Relation) -> Relation:
    return replace(relation, schema=_numbers(relation.schema))


def _numbers(schema: Schema) -> Schema:
    return Schema(tuple(Column(column.name, INT) for column in schema.columns))


def _bare_condition(join: Join, conjunct: Expression) -> Expression | None:
    """The same equality; of another condition between relations only which it connects."""
    if pair := equated_columns(conjunct):
        return Call("=", (ColumnRef(pair[0], INT), ColumnRef(pair[1], INT)), BOOL)
    reach = join.reach(conjunct)
    if len(reach) < 2:
        return None
    always = [
        Call("=", (ColumnRef(name, INT), ColumnRef(name, INT)), BOOL)
        for name in sorted(columns_of(conjunct))
    ]
    found: Expression = always[0]
    for each in always[1:]:
        found = Call("or", (found, each), BOOL)
    return found


def _bare_output(output: Expression) -> Expression:
    names = sorted(columns_of(output))
    if isinstance(output, ColumnRef) or names:
        return ColumnRef(output.name if isinstance(output, ColumnRef) else names[0], INT)
    return output if isinstance(output, Literal) else Literal(0, INT)
