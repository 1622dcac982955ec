"""What one algorithm costs for a view: a trial over transactions as statistics expect them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.views import View
from headwater.algorithms.registry import Algorithm, make_manager
from headwater.costs.made_up import MadeUp
from headwater.costs.skeleton import skeleton
from headwater.costs.statistics import KINDS, Statistics
from headwater.costs.trial import Estimate, Happening, Trial

_FEWEST, _MOST = 20, 40
"""So many transactions make a trial."""
_MOST_TOGETHER = 24
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
    def _bare(self) -> View:
        return skeleton(self.view)

    def estimate(self, algorithm: Algorithm, settings: Mapping[str, str]) -> Estimate:
        """What a transaction costs as they come; raises as the algorithm does that cannot maintain
        the view."""
        sources = [self.statistics.source(name) for name in self.view.sources]
        together = min(_MOST_TOGETHER, max(1, round(max(s.together for s in sources))))
        rate = max(1e-6, sum(s.transactions for s in sources))
        number = min(_MOST, max(_FEWEST, 2 * together))
        return self._tried(algorithm, settings, number, together, together / rate)

    def backlog_s(self, algorithm: Algorithm, settings: Mapping[str, str]) -> float:
        """How long a transaction takes if many are there at once."""
        return self._tried(algorithm, settings, _MOST_TOGETHER, _MOST_TOGETHER, 0.0).time_s

    def _tried(
        self,
        algorithm: Algorithm,
        settings: Mapping[str, str],
        number: int,
        together: int,
        apart_s: float,
    ) -> Estimate:
        manager = make_manager(algorithm, self._bare, settings)
        made_up = MadeUp(self._bare, self.view, self.statistics)
        trial = Trial(manager, self._bare, made_up, self.statistics, self.each_state)
        relations = {relation.name: relation for relation in self._bare.relations}
        happenings = [
            Happening(
                (at // together) * apart_s + (at % together) * _APART_S,
                made_up.transaction(at, relations[name], kind),
            )
            for at, (name, kind) in enumerate(self._changes(number))
        ]
        return trial.run(happenings)

    def busy(self, estimate: Estimate) -> float:
        """The share of time in which a question is under way, about."""
        sources = [self.statistics.source(name) for name in self.view.sources]
        rate = sum(source.transactions for source in sources)
        question_s = max(source.question_s for source in sources)
        return rate * question_s * estimate.messages / 2

    def _changes(self, number: int) -> list[tuple[str, str]]:
        """Changes of each kind and relation in proportion to their rates, evenly mixed."""
        rates = {
            (relation.name, kind): getattr(self.statistics.relation(relation.name), kind)
            for relation in self.view.relations
            for kind in KINDS
        }
        total = sum(rates.values())
        if not total:
            rates, total = dict.fromkeys(rates, 1.0), float(len(rates))
        owed = dict.fromkeys(rates, 0.0)
        found = []
        for _ in range(number):
            for change, rate in rates.items():
                owed[change] += rate / total
            most = max(owed, key=lambda change: owed[change])
            owed[most] -= 1
            found.append(most)
        return found
