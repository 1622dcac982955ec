"""What a transaction means to a view: of its relations, the columns that it uses, and the rows
that its conditions do not rule out."""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.views import View
from headwater.errors import HeadwaterError
from headwater.pipeline.joining import identity
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Lift
from headwater.sources.subscription import Delivery

_MOST_SIFTED = 10_000
"""Of a larger change rows are not looked at one by one: it is asked for at once anyway."""


def relevant(view: View, transaction: Transaction, delivery: Delivery, lift: Lift) -> Transaction:
    """What a transaction means to a view, under the name by which its manager knows it.

    Rows that the view's conditions on their relation rule out mean nothing to it.
    """
    schemas = {relation.name: relation.schema for relation in view.relations}
    updates = []
    for name, delta in transaction.deltas.items():
        if name in schemas:
            place = f"transaction {delivery.number} of {delivery.source}"
            found = narrowed(delta, schemas[name], view.name, name, place)
            if len(found) <= _MOST_SIFTED:
                found = view.relevant_rows(name, found)
            if found:
                updates.append(Update(name, lift(found)))
    called = identity(delivery.source, delivery.number)
    return replace(transaction, id=called, updates=tuple(updates))


def narrowed(delta: Rows, schema: Schema, view: str, relation: str, place: str) -> Rows:
    """A logged change of a relation, with the columns of it that a view uses.

    What was logged before a column was needed, or when it was gone, does not have it.
    """
    absent = [c for c in schema.columns if c.name not in delta.schema.positions]
    if absent:
        lacking = ", ".join(dict.fromkeys(c.text_of or c.name for c in absent))
        raise HeadwaterError(
            f"View {view} needs {lacking} of {relation}, which {place} was logged without.",
            f"Load it anew: headwater reload {view}. If {relation} has no {lacking} any more "
            "(it was renamed or dropped), change the view first.",
        )
    return delta.only(schema)
