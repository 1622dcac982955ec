"""A group's members in one table: what a reader sees of all of them at one moment.

The lab judges groups by it. A row says which member it is of, and has NULL in the columns of the
others; so a state of this view is a state of each member, and the view is at a vector exactly if
all members are at that vector, the same one.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.schema import Column, Schema
from headwater.algebra.tops import Project, Top, UnionAll
from headwater.algebra.values import TEXT
from headwater.algebra.views import Member, View

MEMBER = "_member"


def together(group: View) -> View:
    """The view that shows all members of a group, a row for each row of theirs."""
    columns = [
        Column(f"{member.name}.{column.name}", column.type)
        for member in group.members
        for column in member.top.schema.columns
    ]
    schema = Schema((Column(MEMBER, TEXT), *columns))
    inputs = tuple(_told_apart(member, schema) for member in group.members)
    return replace(group, top=inputs[0] if len(inputs) == 1 else UnionAll(inputs), members=())


def _told_apart(member: Member, schema: Schema) -> Top:
    """The rows of one member under the columns of all."""
    own: dict[str, Expression] = {MEMBER: Literal(member.name, TEXT)}
    for column in member.top.schema.columns:
        own[f"{member.name}.{column.name}"] = ColumnRef(column.name, column.type)
    outputs = tuple(own.get(c.name, Literal(None, c.type)) for c in schema.columns)
    return Project(member.top, outputs, schema)
