"""Boosters: the rows of other relations that an updategram's rows may join with in a view.

Definitions 2.2 to 2.4 of the paper. The booster of S with respect to a view V and an updategram
of R has the rows of S that may join, by V's condition, with a row that the updategram
mentions. Whether they may does not depend on what other relations hold, only on V's condition,
closed under deduction. With it, an updategram of R becomes one of V without asking for S.

Choices, all needed for the rules to hold:

- A booster covers every row that its updategram touches, not only those of the net change.
- It says of which version of S its rows are. The paper's boosters do not, and an updategram joined
  with S of another version gives a view of no version at all.
- It has whole rows, with the counts that they have in S. Rows that were cut to the columns that one
  view needs cannot be merged with others: nobody knows which are the same.
- A super-booster, which may have more rows than needed, has them with their right counts too.
- `of` may be several relations: then the rows are those of their join by V's condition.
- Where V has no condition on R and S together, every row of S may join: the booster would be S.
  So it may also be made for the updategram joined with relations in between (`through`, each at a
  version), as the paper's definition for sets of relations has it. These are then joined first.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.sharing.containment import is_contained
from headwater.sharing.errors import PreconditionError
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import NOTHING, Interval, Versions


@dataclass(frozen=True)
class Booster:
    """Rows of `of` at `versions` that cover the changes of a relation over `interval` in `view`.

    `exact` says that no other row of them could join; else this is a super-booster.
    """

    view: SharedView
    interval: Interval
    of: tuple[str, ...]
    versions: Versions
    rows: Rows
    exact: bool = True
    through: Versions = NOTHING

    def __post_init__(self) -> None:
        names = self.view.ordered(self.relations)
        if (
            not self.of
            or len(names) != len(self.of) + len(self.through) + 1
            or self.view.ordered(self.of) != self.of
        ):
            raise PreconditionError(
                f"A booster for {self.interval} cannot be of {', '.join(self.of) or 'nothing'}.",
                "It is of other relations of the view, each once, in the view's order.",
            )
        if set(self.versions) != set(self.of):
            raise PreconditionError(
                f"The booster of {', '.join(self.of)} has versions of "
                f"{', '.join(self.versions) or 'nothing'}.",
                "It needs a version for each relation that it is of.",
            )
        if self.rows.schema != self.view.columns(self.of):
            raise PreconditionError(
                f"The booster of {', '.join(self.of)} does not have all their columns.",
                "A booster has whole rows, so that boosters can be merged.",
            )

    @property
    def relations(self) -> tuple[str, ...]:
        """Those whose conditions matter: the one that changes, those between, and its own."""
        return (self.interval.relation, *self.through, *self.of)

    @property
    def changed(self) -> str:
        """The relation whose changes it is for."""
        return self.interval.relation

    def covers(self, view: SharedView, interval: Interval) -> bool:
        """Whether it has all rows that changes over `interval` may join with in `view`."""
        return self.interval.contains(interval) and is_contained(view, self.view, self.relations)

    def __str__(self) -> str:
        kind = "booster" if self.exact else "super-booster"
        through = f" through {self.through}" if self.through else ""
        of = " ⋈ ".join(self.of)
        return f"the {kind} of {of} for {self.interval}{through} in view {self.view.name}"
