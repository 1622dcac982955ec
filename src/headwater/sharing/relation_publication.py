"""Relations of a warehouse on their way into a catalog: a source's change log as updategrams.

Where they start and end is where views that are published stand, so that these lead from one vector
to the next. Numbers are those of the change log; versions are these and the offset of the source's
life (see `lives`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import HeadwaterError
from headwater.sharing.catalog import Catalog
from headwater.sharing.errors import SharingError
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions
from headwater.warehouse.change_records import Break
from headwater.warehouse.changes import ChangeLog, between


def holes(catalog: Catalog, relation: str, offset: int, reached: int) -> list[tuple[int, int]]:
    """Where updategrams of a life are missing that were published, as versions.

    Where every view over it has contents behind a hole, nobody needs what was in it.
    """
    there = catalog.updategrams(relation)
    mine = [u for u in there if offset <= u.first[relation] and u.last[relation] <= reached]
    steps = {(u.first[relation], u.last[relation]) for u in mine}
    starts: dict[str, set[int]] = {}
    for name in catalog.views:
        for contents in catalog.contents(name):
            version = contents.versions.get(relation, -1)
            if contents.maker == catalog.node and version >= offset:
                starts.setdefault(name, set()).add(version)
    first = min((min(versions) for versions in starts.values()), default=reached)
    ends = sorted({first, reached, *(end for step in steps for end in step)})
    behind = min((max(versions) for versions in starts.values()), default=first)
    return [step for step in pairwise(ends) if step not in steps and step[1] > behind]


def made_again(
    log: ChangeLog, relation: Relation, offset: int, hole: tuple[int, int]
) -> Updategram | None:
    """What was in a hole, from the change log; None if that does not have it any more."""
    first, last = hole[0] - offset, hole[1] - offset
    step = _Step(relation, first, offset)
    try:
        for change in between(log, first, last):
            if isinstance(change, Break):
                if change.columns is None or relation.name in change.columns:
                    return None
            elif delta := change.transaction.deltas.get(relation.name):
                step.take(_only(delta, relation, log.source, change.number))
    except HeadwaterError:
        return None
    return step.made(last)


def intervals_of(steps: Iterable[Updategram]) -> Iterator[Interval]:
    """Those that steps which follow each other cover together."""
    whole: Interval | None = None
    for step in steps:
        interval = step.interval
        if whole is not None and whole.last == interval.first:
            whole = Interval(whole.relation, whole.first, interval.last)
            continue
        if whole is not None:
            yield whole
        whole = interval
    if whole is not None:
        yield whole


@dataclass
class Way:
    """Where updategrams of a relation start and end: where views that are published stand.

    `vectors` has for each view the relation's versions at which it stood.
    """

    borders: list[int]
    vectors: Sequence[Sequence[int]]
    offset: int = 0
    anew: str = ""
    """Why it does not start where the last one ended, if that is so."""

    def steps(
        self, log: ChangeLog, relation: Relation, each_transaction: bool
    ) -> Iterator[Updategram]:
        """The updategrams, from what the change log says."""
        step = _Step(relation, self.borders[0], self.offset)
        ends = deque(self.borders[1:])
        for change in between(log, self.borders[0], self.borders[-1]):
            if isinstance(change, Break):
                if change.columns is None or relation.name in change.columns:
                    step = _Step(relation, self._behind(log, relation, change), self.offset)
                    ends = deque(end for end in ends if end > step.first)
            elif change.number > step.first:
                delta = change.transaction.deltas.get(relation.name)
                if delta:
                    step.take(_only(delta, relation, log.source, change.number))
                if each_transaction and delta and change.number != ends[0]:
                    yield step.made(change.number)
                    step = _Step(relation, change.number, self.offset)
            if ends and change.number == ends[0]:
                yield step.made(ends.popleft())
                step = _Step(relation, change.number, self.offset)

    def _behind(self, log: ChangeLog, relation: Relation, gap: Break) -> int:
        """Where to begin anew behind a gap: where a view was loaded after it."""
        across = any(vector[0] < gap.number <= vector[-1] for vector in self.vectors)
        later = [n for vector in self.vectors for n in vector if n >= gap.number]
        if across or not later:
            raise SharingError(
                f"The change log of {log.source} has a gap at number {gap.number}: {gap.reason}",
                f"What became of {relation.name} there is not known: publish it into a new node.",
            )
        self.anew = f"the change log has a gap at number {gap.number}: {gap.reason.rstrip('.')}"
        return min(later)


class _Step:
    """What has happened to a relation since a version: inserted and deleted apart."""

    def __init__(self, relation: Relation, first: int, offset: int) -> None:
        self.first, self._offset = first, offset
        self._relation = relation
        self._inserted: list[Rows] = []
        self._deleted: list[Rows] = []

    def take(self, delta: Rows) -> None:
        self._inserted.append(delta.positive())
        self._deleted.append(-delta.negative())

    def made(self, last: int) -> Updategram:
        name, schema = self._relation.name, self._relation.schema
        return Updategram(
            name,
            Versions({name: self.first + self._offset}),
            Versions({name: last + self._offset}),
            Rows.sum(schema, self._inserted),
            Rows.sum(schema, self._deleted),
        )


def way_of(
    catalog: Catalog,
    log: ChangeLog,
    relation: str,
    versions: Sequence[Sequence[int]],
    offset: int,
    reached: int | None,
    each_transaction: bool,
) -> Way:
    """From where it is known that all updategrams are there, over those that are there already.

    `versions` has for each view those of the relation at which it stood, `reached` is one too.
    """
    vectors = [[version - offset for version in vector] for vector in versions]
    wanted = {n for vector in vectors for n in (vector if each_transaction else vector[-1:])}
    ends = {u.last[relation] - offset for u in catalog.updategrams(relation)
            if u.first[relation] >= offset}  # fmt: skip
    start = max(ends, default=None) if reached is None else reached - offset
    kept, anew = log.first - 1, ""
    if start is None:
        start = max(min(map(min, vectors)), kept)
    elif start < kept and (later := [n for vector in vectors for n in vector if n >= kept]):
        anew = f"the change log begins at number {kept + 1}, and {start} was published last"
        start = min(later)
    borders = sorted({start, *(n for n in wanted | ends if n > start)})
    return Way(borders, vectors, offset, anew)


def _only(delta: Rows, relation: Relation, source: str, number: int) -> Rows:
    missing = [c for c in relation.schema.names if c not in delta.schema.positions]
    if missing:
        raise SharingError(
            f"Transaction {number} of {source} was logged without {', '.join(missing)} of "
            f"{relation.name}.",
            "Publish again once the change log starts after it ('retention' in headwater.toml).",
        )
    return delta.only(relation.schema)
