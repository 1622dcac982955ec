"""The publications of one node, by number: whether what it publishes is of one history.

A warehouse's versions are numbers of transactions. A node that was put back to an earlier state
together with its warehouse, or that was copied and is at work in two places, gives the same numbers
to other transactions, and cannot notice. Whoever has both can: each publication has a number and a
token that no other has, and names the token before. Objects say of which publication they are
(`Envelope.heads`), so what is of another history than what is known here is not let in.

Where a node begins anew, a life begins, with numbers behind all that it has used. What is told of
earlier lives in two ways is then no conflict any more: nothing new leads on from there.
"""

from __future__ import annotations

from headwater.sharing.entries import Publication
from headwater.sharing.errors import ConflictError, ForeignObjectError, PastLifeError

_BEGUN = "Node {} has begun anew since its publication {}."
_NEWER = "Exchange with a node that has what it published since."


class Publications:
    """Those of one node that are known here."""

    def __init__(self) -> None:
        self._by_number: dict[int, Publication] = {}
        self._latest_start = 0
        """The number with which its newest life begins."""

    def copy(self) -> Publications:
        found = Publications()
        found._by_number, found._latest_start = dict(self._by_number), self._latest_start
        return found

    @property
    def newest(self) -> Publication:
        return self._by_number[max(self._by_number)]

    def knows(self, number: int) -> bool:
        return number in self._by_number

    def has(self, publication: Publication) -> bool:
        return self._by_number.get(publication.number) == publication

    def missing(self) -> list[tuple[int, Publication | None]]:
        """The numbers of the newest life that others name and that are not known, with what can be
        told of them by their neighbours."""
        found: list[tuple[int, Publication | None]] = []
        for number, item in sorted(self._by_number.items()):
            if self.is_past(number) or not item.before or number - 1 in self._by_number:
                continue
            before = self._by_number.get(number - 2)
            known = number == 2 or before is not None
            token = before.token if before is not None else ""
            told = Publication(item.node, number - 1, item.before, token) if known else None
            found.append((number - 1, told))
        return found

    def admit(self, item: Publication) -> None:
        """Take note of one; ConflictError if it is of another history than the others."""
        before, after = (self._by_number.get(item.number + step) for step in (-1, 1))
        here = self._by_number.get(item.number)
        if (
            (here is not None and here != item)
            or (before is not None and item.before not in ("", before.token))
            or (after is not None and after.before not in ("", item.token))
        ):
            raise self._conflict(item.node, item.number)
        self._by_number[item.number] = item
        if not item.before:
            self._latest_start = max(self._latest_start, item.number)

    def is_past(self, number: int) -> bool:
        """Whether a life has begun since."""
        return number < self._latest_start

    def require_before(self, item: Publication) -> None:
        """Else what leads there may be of another history, of which nothing else is known here."""
        if item.before and item.number - 1 not in self._by_number:
            raise self._unknown(item.node, item.number - 1)

    def require(self, node: str, number: int, token: str) -> None:
        """Whether this publication is known here, and not another one of its number."""
        here = self._by_number.get(number)
        if here is not None and here.token == token:
            return
        if here is not None:
            raise self._conflict(node, number)
        raise self._unknown(node, number)

    def _unknown(self, node: str, number: int) -> ForeignObjectError:
        if self.is_past(number):
            return PastLifeError(_BEGUN.format(node, number), _NEWER)
        return ForeignObjectError(
            f"An object goes on from publication {number} of node {node}, which is not known here.",
            f"Exchange with {node} itself, or with a node that knows it.",
        )

    def _conflict(self, node: str, number: int) -> ConflictError | PastLifeError:
        if self.is_past(number):
            return PastLifeError(_BEGUN.format(node, number), _NEWER)
        return ConflictError(
            f"Node {node} has published two different things as its publication {number}: it was "
            "put back to an earlier state, or is at work in two places.",
            f"Nothing of the second was taken. End what publishes as {node} elsewhere, and run "
            f"'headwater share publish --anew' at {node}: what it publishes then is taken here.",
        )
