"""Gaps in a source's log, and which views they concern."""

from __future__ import annotations

from headwater.algebra.views import View
from headwater.errors import BrokenLogError, HeadwaterError
from headwater.sources.contract import Broken
from headwater.warehouse.change_records import Break
from headwater.warehouse.changes import ChangeLog


class GapError(HeadwaterError):
    """A source's log has a gap that this view may not pass; it is to be loaded anew behind it."""

    def __init__(self, view: str, broken: Broken) -> None:
        self.reason = broken.reason.rstrip(".;") + "."
        self.is_repair = broken.columns is None and not broken.position
        """Whether somebody has repaired the source, so that all of its views are to follow."""
        is_part = broken.columns is not None
        first = ", which says what has to be mended first if anything has" if is_part else ""
        super().__init__(
            f"View {view} cannot go on: {self.reason}",
            f"Load it anew: headwater reload {view}{first}; until then readers keep its last "
            "state.",
        )


def concerns(gap: Broken | Break, view: View) -> bool:
    """Whether a view uses a column of which it is not known what became of it."""
    if gap.columns is None:
        return True
    for relation, columns in gap.columns.items():
        if relation in view.used_columns and (
            columns is None or not columns.isdisjoint(view.used_columns[relation])
        ):
            return True
    return False


def check_goes_on(view: str, source: str, number: int, log: ChangeLog) -> None:
    """Whether a view that has come to a number finds in a change log what follows it."""
    if number > log.end:
        raise BrokenLogError(
            source,
            f"its change log ends at transaction {log.end}, and view {view} has come to {number}: "
            "the log, or the warehouse, is not the one it was.",
        )
    if number < log.first - 1:
        reason = f"the change log of {source} begins behind transaction {number}"
        raise GapError(view, Broken(None, f"{reason}, to which it has come.", {}))
