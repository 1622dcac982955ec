"""Contents: the rows of a base relation or of a view at one version (vector)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.sharing.errors import PreconditionError
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions


@dataclass(frozen=True)
class Contents:
    """What a relation or a view holds at `versions`; no count is below zero."""

    subject: str
    versions: Versions
    rows: Rows

    @classmethod
    def of_relation(cls, relation: str, version: int, rows: Rows) -> Contents:
        return cls(relation, Versions({relation: version}), rows)

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    def after(self, updategram: Updategram) -> Contents:
        """The contents that an updategram leads to."""
        if updategram.subject != self.subject or updategram.first != self.versions:
            raise PreconditionError(
                f"An updategram of {updategram.subject} from ({updategram.first}) does not apply "
                f"to {self.subject} at ({self.versions}).",
                "It must start exactly where the contents stand.",
            )
        return Contents(self.subject, updategram.last, updategram.apply(self.rows))
