"""Where a load begins so that it shows no part of a global transaction by itself: a machine.

The snapshots of a load are taken one after the other, so one source may show its part of a
transaction and another not yet. The view is then put as it was a little earlier: at the last
numbers, up to those of the snapshots, that divide no transaction (`global_parts.closed_cut`). What
the snapshots hold beyond them is taken back, as the change log has it, and is delivered again
afterwards, when its other parts may be there. So a load need not wait for a part.

It has to where the change log cannot take back what would have to be: it was logged without the
columns that the view needs, or lies before a gap, or too far back. Then later snapshots are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.views import View
from headwater.errors import LostConnectionError
from headwater.pipeline.global_parts import GlobalTransaction, closed_cut
from headwater.pipeline.joining import LateParts
from headwater.pipeline.relevant import narrowed
from headwater.project.gaps import concerns
from headwater.protocol.transactions import net_change
from headwater.warehouse.change_records import Break, Change, NumberedRecord
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.vectors import VersionVector


@dataclass(frozen=True)
class LoadCut:
    """At which numbers a view is put, and of which global transactions it shows a part alone."""

    numbers: Mapping[str, int]
    split: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cutting:
    """The load of one view whose table, if it has one, has come to `floor`."""

    view: View
    floor: Mapping[str, int]
    late: LateParts

    def cut(
        self,
        numbers: Mapping[str, int],
        lowest: Mapping[str, int],
        parts: Collection[GlobalTransaction],
        now: float,
    ) -> LoadCut | None:
        """Where the view is put whose snapshots hold everything up to these numbers; None if
        nothing can be taken back that far: not behind the numbers `lowest`."""
        cut = self.closed(numbers, parts, now)
        if any(number < min(numbers[source], lowest[source]) for source, number in cut.items()):
            return None
        alone = sorted(found.id for found in parts if self._is_split(found, cut))
        return LoadCut(cut, tuple(alone))

    def closed(
        self, numbers: Mapping[str, int], parts: Collection[GlobalTransaction], now: float
    ) -> dict[str, int]:
        """The last numbers, up to these, that divide no transaction whose parts are waited for."""
        waited = [found for found in parts if not self._is_released(found, now)]
        return closed_cut(waited, self.view, numbers, self.floor)

    def cannot(
        self, numbers: Mapping[str, int], parts: Collection[GlobalTransaction]
    ) -> LostConnectionError:
        """Why it is not put."""
        found = [f"{each.id!r}" for each in parts if self._is_split(each, numbers)]
        names = f"{', '.join(found[:3])}{' and others' if len(found) > 3 else ''}"
        return LostConnectionError(
            f"View {self.view.name} cannot be loaded yet: not all parts of {names} are there, "
            "which is a transaction across databases.",
            "It is tried again; [global] in headwater.toml says for how long.",
        )

    def _is_released(self, found: GlobalTransaction, now: float) -> bool:
        """Whether its parts are not waited for any more, and are shown each by itself."""
        if found.is_known_to(self.view) or self.late.then == "stop":
            return False
        return all(part.since + self.late.wait_s <= now for part in found.parts.values())

    def _is_split(self, found: GlobalTransaction, cut: Mapping[str, int]) -> bool:
        concerned = found.of(self.view)
        inside = [source for source, part in concerned.items() if part.number <= cut[source]]
        is_all = len(inside) == len(concerned) and found.is_known_to(self.view)
        return bool(inside) and not is_all


def changes_of(
    change: Change, name: str, source: str, schemas: Mapping[str, Schema]
) -> Iterator[tuple[str, Rows]]:
    """What a logged transaction changes of relations, with the columns that a view uses."""
    place = f"transaction {change.number} of {source}"
    for relation, delta in change.transaction.deltas.items():
        if relation in schemas:
            yield relation, narrowed(delta, schemas[relation], name, relation, place)


def has_gap(
    view: View, logs: Mapping[str, ChangeLog], after: Mapping[str, int], upto: Mapping[str, int]
) -> bool:
    """Whether a log has a gap between two numbers that concerns a view."""
    return any(
        isinstance(record, Break) and concerns(record, view)
        for source, first in after.items()
        for record in _between(logs[source].heads, first, upto[source])
    )


def taken_back(
    view: View, logs: Mapping[str, ChangeLog], vector: VersionVector, upto: Mapping[str, int]
) -> dict[str, Rows]:
    """What turns relations that hold everything up to some numbers into what they were at a
    vector."""
    schemas = {relation.name: relation.schema for relation in view.relations}
    taken: list[tuple[str, Rows]] = []
    for source, last in upto.items():
        for record in _between(logs[source].read, vector[source].number, last):
            if isinstance(record, Change):
                found = changes_of(record, view.name, source, schemas)
                taken += [(relation, -delta) for relation, delta in found]
    return net_change(taken)


def _between(
    read: Callable[[int], Iterator[NumberedRecord]], after: int, upto: int
) -> Iterator[NumberedRecord]:
    return islice(read(after), upto - after) if upto > after else iter(())
