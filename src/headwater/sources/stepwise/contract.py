"""What a kind of source provides that is seen step by step; all else is the same for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import LostConnectionError, SourceError
from headwater.frames.canonical import NotCanonicalError
from headwater.sources.contract import Origin
from headwater.sources.discovered import DiscoveredTable
from headwater.sources.stepwise.journal import Standing, Step

Table: TypeAlias = Any
"""Arrow's table or dataset, with columns in canonical form: both are scanned alike."""


@dataclass(frozen=True)
class Contents:
    """A relation's rows: those of some tables, and signed ones that came or went since."""

    plain: tuple[Table, ...]
    signed: tuple[pyarrow.Table, ...] = ()
    """With each row's count behind its columns."""


@dataclass(frozen=True)
class Described:
    """The relations that can be used, and why others cannot."""

    relations: Mapping[str, Relation]
    unusable: Mapping[str, SourceError] = field(default_factory=dict)


@contextmanager
def reading(source: str) -> Iterator[None]:
    """What cannot be read right now, or the warehouse not written, in words; it is tried again."""
    try:
        yield
    except NotCanonicalError as error:
        raise SourceError(f"Source {source}: {error}.", "Correct it there.") from None
    except (OSError, pyarrow.ArrowException) as error:
        place = getattr(error, "filename", None) or "something of it"
        words = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise LostConnectionError(
            f"Source {source}: {place} cannot be read or written: {words}.",
            "See to the file, and to who may read it; it is tried again.",
        ) from None


class UnknownChangeError(Exception):
    """What a step changed in a relation cannot be found out any more; the words say why."""


class States(Protocol):
    """A kind's own part. Used by several threads; what it reads has not been changed since."""

    name: str
    """Of the source."""

    def describe(self, known: Standing | None) -> Described:
        """The relations of interest, by the names that they have in their source."""
        ...

    def discover(self) -> Sequence[DiscoveredTable]: ...

    def begin(self, relations: Collection[str], known: Standing | None) -> Standing:
        """A standing in which these relations are kept, too, as they are now.

        Without one before, its log's name does not matter.
        """
        ...

    def look(self, known: Standing) -> Standing:
        """What follows a standing, durable but for the journal; the same standing if nothing does.

        At most some steps at once. Raises LostConnectionError where looking again may help.
        """
        ...

    @property
    def is_pending(self) -> bool:
        """Whether the last look has found something that will be complete in a moment."""
        ...

    def change(self, before: Standing, step: Step, relation: Relation) -> Rows:
        """What a step changes in a relation, which it says something of; or UnknownChangeError."""
        ...

    def contents(self, standing: Standing, relation: Relation) -> Contents: ...

    def forget(self, known: Standing, upto: int) -> Standing:
        """Without steps that were acknowledged, as far as that is worth it."""
        ...

    def used(self, standing: Standing) -> None:
        """The journal names nothing else any more: what it named before may go in time."""
        ...

    def cautions(self, described: Described) -> Sequence[str]: ...

    def origins(self) -> Mapping[str, Origin]:
        """The relations that are views of another warehouse."""
        ...

    def identity(self) -> str: ...
