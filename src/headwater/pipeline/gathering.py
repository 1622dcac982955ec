"""Gathers statistics beside a run, and keeps them in the warehouse for the next choice.

Nothing waits for it. How large relations are is asked of their sources seldom; all else is what
the views have counted. What cannot be asked or written is left for the next time.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median

from headwater.algebra.views import View, equated_columns
from headwater.costs.statistics import (
    Counted,
    Prices,
    RelationStatistics,
    SourceStatistics,
    Spent,
    Statistics,
    with_changes,
    with_questions,
)
from headwater.errors import HeadwaterError
from headwater.pipeline.burden import with_measured
from headwater.pipeline.maintain import Maintainer
from headwater.pipeline.observed import typical
from headwater.project.measured import read_statistics, write_statistics
from headwater.sources.contract import Source
from headwater.warehouse.warehouse import Warehouse

_FIRST_S = 1.0
_EVERY_S = 60.0
_SIZES_EVERY_S = 3600.0
_FEWEST = 10
"""So many transactions say something of what they cost."""


@dataclass
class _Seen:
    """What of a view's counts is in the statistics already."""

    changes: dict[str, Counter[str]] = field(default_factory=dict)
    transactions: Counter[str] = field(default_factory=Counter)
    bursts: int = 0


class Gatherer:
    """For one runner; `look` is called by one thread, `finish` when that has ended."""

    def __init__(
        self,
        warehouse: Warehouse,
        maintainers: Callable[[], Sequence[Maintainer]],
        source: Callable[[str], Source],
    ) -> None:
        self.statistics = read_statistics(warehouse.own)
        self._warehouse = warehouse
        self._maintainers = maintainers
        self._source = source
        self._seen: dict[int, _Seen] = {}
        self._gathered_at = time.monotonic()
        self._due = self._gathered_at + _FIRST_S
        self._sized_at: dict[str, float] = {}

    def look(self) -> None:
        """Gather, if it is time."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_S
        running = self.running()
        self._ask_sizes([each.plan.view for each in running], now)
        self._gather(running, now)

    def running(self) -> list[Maintainer]:
        """Those that maintain a view now."""
        return [each for each in self._maintainers() if each.table is not None]

    def finish(self, stopped: Sequence[Maintainer]) -> None:
        """Gather what has happened since, to views that have stopped; no source is asked."""
        self._gather(stopped, time.monotonic())

    def _gather(self, running: Iterable[Maintainer], now: float) -> None:
        elapsed, self._gathered_at = now - self._gathered_at, now
        news = [(each, self._news(each)) for each in running]
        before = self.statistics
        for maintainer, _ in news:
            self.statistics = with_measured(
                self.statistics, maintainer.name, maintainer.burden.measured
            )
        measured = (before.loads, before.paces) != (self.statistics.loads, self.statistics.paces)
        if elapsed > 0 and (measured or any(new.transactions for _, new in news)):
            self.statistics = gathered(self.statistics, news, elapsed)
            with suppress(OSError):  # a full disk is told by what needs it
                write_statistics(self._warehouse.own, self.statistics)

    def _news(self, maintainer: Maintainer) -> _Seen:
        """What a view has counted since it was last looked at."""
        observed = maintainer.observed
        before = self._seen.get(id(maintainer), _Seen())
        now = _Seen(
            {name: Counter(found) for name, found in list(observed.changes.items())},
            Counter(observed.transactions),
            observed.bursts,
        )
        self._seen[id(maintainer)] = now
        return _Seen(
            {
                name: found - before.changes.get(name, Counter())
                for name, found in now.changes.items()
            },
            now.transactions - before.transactions,
            now.bursts - before.bursts,
        )

    def _ask_sizes(self, views: Iterable[View], now: float) -> None:
        for source, columns in joined_columns(views).items():
            if now < self._sized_at.get(source, 0.0):
                continue
            self._sized_at[source] = now + _SIZES_EVERY_S
            with suppress(HeadwaterError):
                relations = dict(self.statistics.relations)
                for name, size in self._source(source).sizes(columns).items():
                    known = self.statistics.relation(f"{source}.{name}")
                    relations[f"{source}.{name}"] = replace(
                        known, rows=size.rows, row_bytes=size.row_bytes, distinct=size.distinct
                    )
                self.statistics = replace(self.statistics, relations=relations)


def gathered(
    known: Statistics, news: Sequence[tuple[Maintainer, _Seen]], elapsed_s: float
) -> Statistics:
    """The statistics with what views have counted."""
    every = [maintainer for maintainer, _ in news]
    relations, sources = dict(known.relations), dict(known.sources)
    for name, changes in _changes(news).items():
        before = relations.get(name, RelationStatistics())
        relations[name] = with_changes(before, Counted(elapsed_s, changes))
    for source, (transactions, bursts) in _transactions(news).items():
        question_s = _typical(m.observed.questions_s.get(source) for m in every)
        counted = Counted(elapsed_s, {}, transactions, bursts, question_s)
        sources[source] = with_questions(sources.get(source, SourceStatistics()), counted)
    prices, spent = _prices(known.prices, every), _spent(known.spent, every)
    return replace(known, relations=relations, sources=sources, prices=prices, spent=spent)


def _changes(news: Sequence[tuple[Maintainer, _Seen]]) -> dict[str, Counter[str]]:
    """What has changed of each relation; where several views have counted, the most."""
    found: dict[str, Counter[str]] = {}
    for maintainer, new in news:
        for relation in maintainer.plan.view.relations:
            counted = new.changes.get(relation.name, Counter())
            found[relation.name] = found.get(relation.name, Counter()) | counted
    return found


def _transactions(news: Sequence[tuple[Maintainer, _Seen]]) -> dict[str, tuple[int, int]]:
    """The same of each source: how many transactions, and how often some came at once."""
    found: dict[str, tuple[int, int]] = {}
    for maintainer, new in news:
        for source in maintainer.plan.view.sources:
            number = new.transactions[source]
            share = number / max(1, new.transactions.total())
            bursts = max(1, round(new.bursts * share)) if number else 0
            found[source] = max(found.get(source, (0, 0)), (number, bursts))
    return found


def _prices(known: Prices, every: Sequence[Maintainer]) -> Prices:
    found = {
        "delivery_s": _typical(m.observed.deliveries_s for m in every),
        "event_s": _typical(m.observed.events_s for m in every),
        "commit_s": _typical(m.observed.commits_s for m in every),
        "look_up_s": _typical(m.observed.look_ups_s for m in every),
    }
    return replace(known, **{name: value for name, value in found.items() if value is not None})


def _typical(measured: Iterable[deque[float] | None]) -> float | None:
    found = [typical(each) for each in measured if each]
    return median(found) if found else None


def _spent(
    known: Mapping[str, Mapping[str, Spent]], every: Iterable[Maintainer]
) -> dict[str, dict[str, Spent]]:
    found = {view: dict(spent) for view, spent in known.items()}
    for maintainer in every:
        counters = maintainer.counters
        fresh = list(counters.freshness_s)
        if len(fresh) >= _FEWEST:
            number = counters.transactions
            spent = Spent(
                2 * counters.questions / number,
                counters.answer_bytes / number,
                median(fresh),
                number,
            )
            found.setdefault(maintainer.name, {})[maintainer.plan.algorithm] = spent
    return found


def joined_columns(views: Iterable[View]) -> dict[str, dict[str, set[str]]]:
    """By source and relation the columns by which views join."""
    found: dict[str, dict[str, set[str]]] = {}
    for join in (join for view in views for join in view.joins):
        for occurrence in join.occurrences:
            relation = occurrence.relation
            found.setdefault(relation.source, {}).setdefault(relation.short_name, set())
        for pair in filter(None, map(equated_columns, join.condition)):
            for name in pair:
                occurrence = join.occurrences[join.owner[name]]
                relation = occurrence.relation
                column = name.removeprefix(f"{occurrence.alias}.")
                found[relation.source][relation.short_name].add(column)
    return found
