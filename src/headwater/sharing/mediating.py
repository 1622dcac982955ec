"""Mediating: a view over a mediated schema as a shared view over base relations of other nodes.

Section 2 of the paper has nodes that "do not contain any data, but serve only as logical mediators
between other sets of nodes", and section 4.1 says how their views are expressed: "in terms of the
base relations, and not just the relations over which it is expressed". So a mediator's view becomes
an ordinary shared view. Its version vector has the base relations that it reads, it is answered
from what other nodes publish, and one updategram of a base relation is one of the view
(Example 4.2). The mediator need hold nothing.

What is described are base relations, by their owners' names (`N1.Genes`), and shared views: in a
query behind FROM a view means its SELECT, which has to be a join or a union of joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headwater.algebra.schema import Relation
from headwater.algebra.sql.view import tables_of, unfolded
from headwater.mediation.binding import Answer, bind
from headwater.mediation.schema import MediatedSchema
from headwater.mediation.statements import (
    Statement,
    TableStatement,
    read_statement,
    read_statements,
)

_FILE = "the mediated schema"


def mediated_answer(
    schema: str, query: str, relations: Iterable[Relation], views: Mapping[str, str]
) -> Answer:
    """A query over a mediated schema as one over base relations; InputError says what is wrong."""
    read = (read_statement(each, _FILE) for each in read_statements(schema, _FILE))
    found, mistakes = MediatedSchema.of(_over_relations(each, views) for each in read)
    for mistake in mistakes:
        raise mistake
    whole = _without_views(query, views)
    return bind(found, found.read_in(whole), relations).answer(whole)


def _over_relations(statement: Statement, views: Mapping[str, str]) -> Statement:
    if isinstance(statement, TableStatement) or statement.told is None:
        return statement
    return replace(statement, told=_without_views(statement.told, views))


def _without_views(query: str, views: Mapping[str, str]) -> str:
    """A query with the views that it names in their own words."""
    named = {table.name.lower() for table in tables_of(query) if not table.source}
    read = {name: sql for name, sql in views.items() if name.lower() in named}
    return unfolded(query, read) if read else query
