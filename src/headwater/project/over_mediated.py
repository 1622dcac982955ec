"""Views over a mediated schema: what they are over the tables of sources.

Such a view is rewritten (`headwater.mediation`), and maintained like any other. A view that reads
mediated relations by itself is rewritten whole, with the views that it reads in their own words; a
view that only reads such views has their rows, those that are certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.algebra.schema import Relation
from headwater.algebra.sql.functions import Functions
from headwater.errors import InputError, SqlError
from headwater.mediation.binding import Answer, bind
from headwater.mediation.schema import MediatedSchema


@dataclass(frozen=True)
class Meaning:
    """What a view and those that it reads are over the tables of sources."""

    others: Mapping[str, str]
    """The SELECTs of the views that it reads."""
    own: Answer | None = None
    """The view itself, if it reads mediated relations."""
    read: Mapping[str, Answer] = field(default_factory=dict)
    """The views among those that it reads which read mediated relations."""

    def answers_of(self, view: str) -> dict[str, Answer]:
        """How the view of this name, or those that it reads, are answered, by their names."""
        return dict(self.read) if self.own is None else {view: self.own}


def meaning_of(
    select: str | None,
    others: Mapping[str, str],
    functions: Functions,
    schema: MediatedSchema,
    relations: tuple[Relation, ...],
) -> Meaning:
    """What a view is over these relations; its SELECT is given if it reads mediated relations."""
    if select is not None:
        names = [n for sql in (select, *others.values()) for n in schema.read_in(sql)]
        own = bind(schema, names, relations).answer(select, others, functions)
        return Meaning(others, own)
    answers = {}
    for name, sql in others.items():
        if read := schema.read_in(sql):
            bound = bind(schema, read, relations)
            try:
                answers[name] = bound.answer(sql)
            except SqlError as error:
                said = error.message.removeprefix(f"line {error.line}, column {error.column}: ")
                raise InputError(f"view {name}, which is read here: {said}", error.hint) from None
    return Meaning({**others, **{name: a.sql for name, a in answers.items()}}, None, answers)
