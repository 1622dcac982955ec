"""Updategrams: what changed in a relation or a view between two versions, as an object.

Definition 2.1 of the paper: the updategram from i to j of R has the changes that advance the
i-th version of R to the j-th. Here it is a pair of multisets, the rows `inserted` and the rows
`deleted` within the interval, each with how often. What it does is their difference (`net`);
what it touches is their sum (`touched`). A modification is a deletion and an insertion.

Choices: a row that was inserted and deleted again within the interval nets to nothing, but some
version in between had it, and a booster must cover it (see `booster`). So the pair is not
netted when updategrams are composed. Storing every step by itself would do as well and would
allow to take an updategram apart, at a size that grows with the number of steps; the pair's
size grows with the rows touched, as the paper asks, composing is adding, inverting is
swapping, and the labels that the paper lets a join carry are the two sides of the pair.

Works on `Rows` and on Frames alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.algebra.rows import Rows, show_row
from headwater.algebra.schema import Schema
from headwater.sharing.errors import MisfitError, PreconditionError
from headwater.sharing.versions import Interval, Versions


@dataclass(frozen=True)
class Updategram:
    """The changes of `subject` from one version (vector) to another.

    `subject` is a base relation, a view, or, between two steps of a computation, a join of some
    relations of a view, whose columns are then named `relation.column`. Versions may also
    go backwards: an inverse does.
    """

    subject: str
    first: Versions
    last: Versions
    inserted: Rows
    deleted: Rows

    def __post_init__(self) -> None:
        if self.first.keys() != self.last.keys():
            raise PreconditionError(
                f"The updategram of {self.subject} starts at ({self.first}) and ends at "
                f"({self.last}).",
                "Both vectors must have the same relations.",
            )
        if self.inserted.schema != self.deleted.schema:
            raise PreconditionError(
                f"The inserted and deleted rows of {self.subject} have different columns.",
                "Give both the columns of the relation.",
            )

    @classmethod
    def of_relation(
        cls,
        relation: str,
        schema: Schema,
        first: int,
        last: int,
        *,
        inserted: Iterable[Sequence[object]] = (),
        deleted: Iterable[Sequence[object]] = (),
        modified: Iterable[tuple[Sequence[object], Sequence[object]]] = (),
    ) -> Updategram:
        """An updategram of a base relation; `modified` has pairs of old and new rows."""
        pairs = list(modified)
        return cls(
            relation,
            Versions({relation: first}),
            Versions({relation: last}),
            Rows.of(schema, [*inserted, *(new for _, new in pairs)]),
            Rows.of(schema, [*deleted, *(old for old, _ in pairs)]),
        )

    @classmethod
    def of_net(cls, subject: str, first: Versions, last: Versions, net: Rows) -> Updategram:
        """One step whose inner life nobody can see: signed rows as they were committed."""
        return cls(subject, first, last, net.positive(), -net.negative())

    # What it says

    @property
    def schema(self) -> Schema:
        return self.inserted.schema

    @property
    def net(self) -> Rows:
        """What to add to the first version to have the last."""
        return self.inserted - self.deleted

    @property
    def touched(self) -> Rows:
        """Every row that came or went within the interval, also if it netted to nothing."""
        return self.inserted + self.deleted

    @property
    def moving(self) -> tuple[str, ...]:
        """The base relations whose versions differ at its ends."""
        return tuple(name for name in self.first if self.first[name] != self.last[name])

    @property
    def interval(self) -> Interval:
        """Of the one relation that moves, the lower version first; PreconditionError if several."""
        if len(self.moving) != 1:
            raise PreconditionError(
                f"The updategram of {self.subject} changes versions of "
                f"{', '.join(self.moving) or 'nothing'}.",
                "Here one relation changes at a time.",
            )
        (name,) = self.moving
        low, high = sorted((self.first[name], self.last[name]))
        return Interval(name, low, high)

    # What can be done with it

    def inverse(self) -> Updategram:
        """Takes the last version back to the first."""
        return Updategram(self.subject, self.last, self.first, self.deleted, self.inserted)

    def then(self, later: Updategram) -> Updategram:
        """This one and a later one that starts where this ends (rule A10)."""
        return composed([self, later])

    def apply(self, rows: Rows) -> Rows:
        """The last version, given the first; MisfitError if these rows cannot be the first."""
        if rows.schema != self.schema:
            raise MisfitError(
                f"The updategram of {self.subject} has other columns than the rows.",
                "Apply it to the relation or view that it was made for.",
            )
        after = rows + self.net
        for row, _ in after.negative().items():
            raise MisfitError(
                f"The updategram of {self.subject} from ({self.first}) to ({self.last}) deletes "
                f"the row {show_row(row)} more often than it is there.",
                f"These rows are not {self.subject} at ({self.first}); nothing was applied.",
            )
        return after


def composed(steps: Sequence[Updategram]) -> Updategram:
    """Updategrams of one subject, each starting where the one before ends, as one."""
    first, last = steps[0], steps[-1]
    for one, two in pairwise(steps):
        if (one.subject, one.schema) != (two.subject, two.schema):
            raise PreconditionError(
                f"Updategrams of {one.subject} and {two.subject} cannot be composed.",
                "Both must be of one relation or view, with the same columns.",
            )
        if one.last != two.first:
            raise PreconditionError(
                f"An updategram of {one.subject} ends at ({one.last}) and the next starts at "
                f"({two.first}).",
                "The next must start exactly where the one before ends.",
            )
    return Updategram(
        first.subject,
        first.first,
        last.last,
        Rows.sum(first.schema, (step.inserted for step in steps)),
        Rows.sum(first.schema, (step.deleted for step in steps)),
    )
