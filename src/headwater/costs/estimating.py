"""What one algorithm costs for a view: a trial over transactions as statistics expect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.views import View
from headwater.algorithms.registry import Algorithm, make_manager
from headwater.costs.expected import FromStatistics
from headwater.costs.made_up import MadeUp
from headwater.costs.skeleton import skeleton
from headwater.costs.statistics import KINDS, Statistics
from headwater.costs.trial import Estimate, Happening, Trial

_FEWEST, _MOST = 20, 40
"""So many transactions make a trial."""
_MOST_TOGETHER = 24
_ALONE = 0.1
"""Up to this share of time with questions under way transactions do not meet."""
_APART_S = 0.0005
"""Between transactions that come at once."""


@dataclass(frozen=True)
class Estimator:
    """Estimates for one view. The same transactions are tried with every algorithm."""

    view: View
    statistics: Statistics
    each_state: bool
    """Whether every state is to be shown."""

    @cached_property
    def _narrow(self) -> View:
        """Over relations with the columns that the view uses, as it is maintained."""
        return self.view.narrowed()

    @cached_property
    def _expected(self) -> FromStatistics:
        return FromStatistics(self._narrow, self.statistics)

    @cached_property
    def _bare(self) -> View:
        return skeleton(self._narrow)

    def estimate(self, algorithm: Algorithm, settings: Mapping[str, str]) -> Estimate:
        """What a transaction costs as they come; raises as the algorithm does that cannot maintain
        the view."""
        sources = [self.statistics.source(name) for name in self.view.sources]
        together = min(_MOST_TOGETHER, max(1, round(max(s.together for s in sources))))
        rate = max(1e-6, sum(s.transactions for s in sources))
        if together == 1 and rate * max(s.question_s for s in sources) < _ALONE:
            return self._each_alone(algorithm, settings)
        number = min(_MOST, max(_FEWEST, 2 * together))
        return self.tried(algorithm, settings, self._changes(number), together, together / rate)

    def _each_alone(self, algorithm: Algorithm, settings: Mapping[str, str]) -> Estimate:
        """Where transactions do not meet: the average over all kinds of changes, by their rates."""
        rates = self._rates
        total = sum(rates.values())
        found = [
            (rate / total, self.tried(algorithm, settings, [change], 1, 0.0))
            for change, rate in rates.items()
            if rate
        ]
        return Estimate(
            sum(share * each.messages for share, each in found),
            sum(share * each.bytes for share, each in found),
            sum(share * each.time_s for share, each in found),
        )

    def tried(
        self,
        algorithm: Algorithm,
        settings: Mapping[str, str],
        changes: Sequence[tuple[str, str]],
        together: int,
        apart_s: float,
    ) -> Estimate:
        """What these changes cost, each a relation and a kind, so many together at a time."""
        manager = make_manager(algorithm, self._bare, settings, self._expected)
        made_up = MadeUp(self._bare, self._narrow, self.statistics)
        trial = Trial(
            manager, self._bare, made_up, self.statistics, self.each_state, self.view.copies
        )
        relations = {relation.name: relation for relation in self._bare.relations}
        happenings = [
            Happening(
                (at // together) * apart_s + (at % together) * _APART_S,
                made_up.transaction(at, relations[name], kind),
            )
            for at, (name, kind) in enumerate(changes)
        ]
        return trial.run(happenings)

    def busy(self, estimate: Estimate) -> float:
        """The share of time in which a question is under way, about."""
        sources = [self.statistics.source(name) for name in self.view.sources]
        rate = sum(source.transactions for source in sources)
        question_s = max(source.question_s for source in sources)
        return rate * question_s * estimate.messages / 2

    @cached_property
    def _rates(self) -> dict[tuple[str, str], float]:
        """How often each relation changes in each way; all alike if nothing is known to happen."""
        found = {
            (relation.name, kind): float(getattr(self.statistics.relation(relation.name), kind))
            for relation in self.view.relations
            for kind in KINDS
        }
        return found if any(found.values()) else dict.fromkeys(found, 1.0)

    def _changes(self, number: int) -> list[tuple[str, str]]:
        """Changes of each kind and relation in proportion to their rates, evenly mixed."""
        total = sum(self._rates.values())
        owed = dict.fromkeys(self._rates, 0.0)
        found = []
        for _ in range(number):
            for change, rate in self._rates.items():
                owed[change] += rate / total
            most = max(owed, key=lambda change: owed[change])
            owed[most] -= 1
            found.append(most)
        return found
