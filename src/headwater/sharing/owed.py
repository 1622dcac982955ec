"""What a node owes: boosters that it publishes by its policy, and that are not made yet.

They are written down before the updategrams are published that they are for. So they are made in
the end, whatever happens in between: a source that is away, a process that is killed. Of one
relation whose version stands still, one booster is owed over all the time; it covers every
updategram within its interval (A8).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headwater.errors import HeadwaterError
from headwater.sharing.encoding import MALFORMED
from headwater.sharing.shared_views import SharedView
from headwater.sharing.store import OWED_FILE, ObjectStore
from headwater.sharing.versions import Interval, Versions


@dataclass(frozen=True)
class OwedBooster:
    """A booster that is to be made: of `of` at a version, for the changes of another relation."""

    view: str
    changed: str
    first: int
    last: int
    of: str
    version: int
    through: str = ""
    """The relation that lies between, if there is one; it is joined first."""
    through_version: int = 0
    why: str = ""
    """What kept it from being made when that was last tried."""

    @property
    def interval(self) -> Interval:
        return Interval(self.changed, self.first, self.last)

    @property
    def source(self) -> str:
        """The one that is to be asked: relations are named by theirs."""
        return self.of.partition(".")[0]

    def is_same(self, other: OwedBooster) -> bool:
        """Whether both are one, however often that was tried."""
        return replace(self, why="") == replace(other, why="")

    def __str__(self) -> str:
        at = f"of {self.of} at {self.version} for {self.interval}"
        return f"the booster {at} in view {self.view}"


def owed_for(
    views: Iterable[SharedView],
    vectors: Mapping[str, Versions],
    moved: Iterable[Interval],
) -> Iterator[OwedBooster]:
    """What is owed to views at these vectors, when relations have changed over these intervals."""
    intervals = list(moved)
    for view in views:
        if view.beyond_rules:
            continue
        vector = vectors[view.name]
        for interval in intervals:
            if interval.relation not in view.relations:
                continue
            ends = (interval.relation, interval.first, interval.last)
            for name in view.relations:
                between = view.between(interval.relation, name)
                if between is not None:
                    yield OwedBooster(
                        view.name, *ends, name, vector[name], between, vector[between]
                    )
                elif name != interval.relation:
                    yield OwedBooster(view.name, *ends, name, vector[name])


def with_more(owed: Sequence[OwedBooster], more: Iterable[OwedBooster]) -> list[OwedBooster]:
    """All of them; one that goes on where another ends takes its place, of one version."""
    found = list(owed)
    for new in more:
        for at, old in enumerate(found):
            if replace(new, first=old.first, last=old.last).is_same(old) and old.last == new.first:
                found[at] = replace(new, first=old.first)
                break
        else:
            if not any(new.is_same(old) for old in found):
                found.append(new)
    return found


# Kept with the node


def read_owed(store: ObjectStore) -> list[OwedBooster]:
    """What is owed by the node; HeadwaterError in words if that cannot be read."""
    content = store.read_own(OWED_FILE)
    if content is None:
        return []
    try:
        return [_owed(found) for found in json.loads(content)]
    except MALFORMED:
        raise HeadwaterError(
            f"{store.folder / OWED_FILE} cannot be read.",
            "Delete it: boosters that were owed are then not made.",
        ) from None


def _owed(found: Any) -> OwedBooster:
    made = OwedBooster(**found)
    for text in (made.view, made.changed, made.of, made.through, made.why):
        if not isinstance(text, str):
            raise TypeError
    for number in (made.first, made.last, made.version, made.through_version):
        if type(number) is not int:
            raise TypeError
    return made


def write_owed(store: ObjectStore, owed: Iterable[OwedBooster]) -> None:
    """To be called while the node is locked."""
    store.write(OWED_FILE, json.dumps([asdict(each) for each in owed]).encode())
