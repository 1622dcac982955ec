"""What waits for a view, and whether that is so much that it is recomputed: a machine.

It is told what the view receives and commits, and how many transactions it has yet to receive. So
it knows how many changed rows of each relation wait, and what taking large batches in takes. What
a load costs against that is weighed elsewhere (`costs.recomputing`). It is asked whenever something
has come, and only while all sources of the view are read: a load could not begin otherwise, and
what was done so far would be thrown away for nothing. It would be, too, where a load comes no
further: not beyond a part of a global transaction whose others are not there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.costs.recomputing import FEWEST_ROWS, Crossover
from headwater.costs.statistics import Loaded, Statistics
from headwater.pipeline.life import OutgrownError
from headwater.protocol.events import TransactionArrived
from headwater.sources.subscription import Delivery
from headwater.warehouse.vectors import VersionVector

_KNOWN_FOR_S = 5.0
"""For how long what either way costs is taken for known."""
_LARGE_ROWS = FEWEST_ROWS // 2
"""From so many changed rows on a commit tells something of large batches."""
_NEWEST = 0.5
"""How much the last large batch counts, against all before."""
_LEAST_PACE, _MOST_PACE = 0.1, 20.0
_USELESS_FOR_S = 1.0
"""For how long a load that would be of no use is taken to be of none."""

Crossing = Callable[[], Crossover | None]
"""Tells from where on the view is recomputed; None if it is not."""
Expect = Callable[[Mapping[str, float]], float]
"""Tells how many seconds so many changed rows, by relation, are expected to take."""


@dataclass
class Measured:
    """What one view has shown, also in earlier lives."""

    loaded: Loaded | None = None
    pace: float | None = None
    """How many times as long large batches took as they were expected to."""

    def note_batch(self, expected_s: float, took_s: float) -> None:
        if expected_s <= 0:
            return
        pace = min(_MOST_PACE, max(_LEAST_PACE, took_s / expected_s))
        before = pace if self.pace is None else self.pace
        self.pace = before + _NEWEST * (pace - before)


def with_measured(statistics: Statistics, view: str, measured: Measured) -> Statistics:
    """The statistics with what a view has shown since they were gathered."""
    loads, paces = dict(statistics.loads), dict(statistics.paces)
    if measured.loaded is not None:
        loads[view] = measured.loaded
    if measured.pace is not None:
        paces[view] = measured.pace
    return replace(statistics, loads=loads, paces=paces)


@dataclass(frozen=True)
class _Received:
    """A transaction that the view has received, and when."""

    number: int
    rows: Mapping[str, int]
    at: float


@dataclass
class Burden:
    """What waits for one view; `crossing` is asked when that is much."""

    crossing: Crossing = lambda: None
    expect: Expect = lambda rows: 0.0
    fewest: int = FEWEST_ROWS
    """Fewer changed rows are no reason to ask."""
    measured: Measured = field(default_factory=Measured)
    _received: dict[str, deque[_Received]] = field(default_factory=dict)
    """What the view does not reflect yet, by source."""
    _reflected: list[tuple[str, _Received]] = field(default_factory=list)
    """What it does, and may still have to be committed."""
    _rows: Counter[str] = field(default_factory=Counter)
    _seen: Counter[str] = field(default_factory=Counter)
    """Changed rows of all transactions so far, by relation."""
    _transactions: Counter[str] = field(default_factory=Counter)
    """In how many of them each relation changed."""
    _committed_at: float = 0.0
    _crossover: Crossover | None = None
    _known_until: float = 0.0
    _useless_until: float = 0.0

    def receive(
        self, deliveries: Iterable[Delivery], relations: frozenset[str], now: float
    ) -> None:
        """What the view has taken from a source, of which these relations concern it."""
        for delivery in deliveries:
            if isinstance(delivery.event, TransactionArrived):
                updates = delivery.event.transaction.updates
                rows: Counter[str] = Counter()
                for update in updates:
                    if update.relation in relations:
                        rows[update.relation] += update.delta.size_hint
                received = self._received.setdefault(delivery.source, deque())
                received.append(_Received(delivery.number, rows, now))
                self._rows.update(rows)
                self._seen.update(rows)
                self._transactions.update(rows.keys())

    def reflected(self, vector: VersionVector, is_settled: bool) -> None:
        """The view has come to a vector; `is_settled`: and shows everything that it has received.

        What it has received and what did not change it waits no more, though nothing is committed.
        """
        for source, reached in vector.items():
            received = self._received.get(source, ())
            while received and received[0].number <= reached.number:
                one = received.popleft()
                self._rows.subtract(one.rows)
                self._reflected.append((source, one))
        if is_settled:
            self._reflected.clear()

    def committed(self, vector: VersionVector, now: float) -> None:
        """A commit shows the view at a vector."""
        self.reflected(vector, is_settled=False)
        shown = [one for source, one in self._reflected if one.number <= vector[source].number]
        self._reflected = [e for e in self._reflected if e[1].number > vector[e[0]].number]
        rows: Counter[str] = Counter()
        for each in shown:
            rows.update(each.rows)
        if rows.total() >= _LARGE_ROWS:
            began = max(_half_there(shown, rows.total()), self._committed_at)
            self.measured.note_batch(self.expect(rows), now - began)
        self._committed_at = now

    def waiting(self, behind: Mapping[str, int]) -> dict[str, float]:
        """Changed rows by relation: received, and about how many in transactions that were not."""
        found = {name: float(rows) for name, rows in self._rows.items() if rows}
        for name, number in behind.items():
            known = self._transactions[name]
            each = self._seen[name] / known if known else 1.0
            found[name] = found.get(name, 0.0) + number * each
        return found

    def weigh(
        self, behind: Mapping[str, int], now: float, helps: Callable[[], bool] = lambda: True
    ) -> None:
        """OutgrownError if so much waits that the view is to be recomputed, and that `helps`."""
        waiting = self.waiting(behind)
        if sum(waiting.values()) < self.fewest or now < self._useless_until:
            return
        found = self._known(now)
        if found is None or not found.is_passed(waiting):
            return
        if helps():
            raise OutgrownError(found.told(waiting))
        self._useless_until = now + _USELESS_FOR_S

    def _known(self, now: float) -> Crossover | None:
        if now >= self._known_until:
            self._crossover = self.crossing()
            self._known_until = now + _KNOWN_FOR_S
        return self._crossover


def _half_there(received: Sequence[_Received], rows: int) -> float:
    """When half of the rows had come."""
    half = 0
    for each in sorted(received, key=lambda one: one.at):
        half += sum(each.rows.values())
        if 2 * half >= rows:
            return each.at
    return 0.0
