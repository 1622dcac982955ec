"""Gathers statistics beside a run, and keeps them in the warehouse for the next choice.

Nothing waits for it. How large relations are is asked of their sources seldom; all else is what
the views have counted. What cannot be asked or written is left for the next time.
"""

from __future__ import annotations

import math
import threading
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
from headwater.pipeline.life import ImpatientError
from headwater.pipeline.maintain import Maintainer
from headwater.pipeline.observed import typical
from headwater.project.measured import read_statistics, write_statistics
from headwater.sources.contract import Source
from headwater.warehouse.looking_up import StoredRows
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

_FIRST_S = 1.0
_EVERY_S = 60.0
_SIZES_EVERY_S = 3600.0
_FEWEST = 10
"""So many transactions say something of what they cost."""
_MOST_LOOKED_UP = 1_000_000
"""In views of more rows nothing is looked up only to see how long that takes."""
_LOOK_UPS = 5
"""So many are, the first of which does not count: it reads what others find in memory."""
_LOOKED_AT = 20
"""In so many views at most: prices are for all of them."""


@dataclass
class _Seen:
    """What of a view's counts is in the statistics already."""

    changes: dict[str, Counter[str]] = field(default_factory=dict)
    transactions: Counter[str] = field(default_factory=Counter)
    bursts: int = 0
    questions: Counter[str] = field(default_factory=Counter)


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
        """By relation."""
        self._begun: set[int] = set()
        """The maintainers that were seen."""
        self._looked_up: dict[int, deque[float]] = {}
        """By maintainer: how long look-ups took that were made to see how long they take."""
        self._lock = threading.Lock()
        """Held while the statistics become others: two threads know of something."""

    def look(self) -> None:
        """Gather, if it is time; of views that have begun what does not wait for changes."""
        now = time.monotonic()
        running = self.running()
        begun = [each for each in running if id(each) not in self._begun]
        self._begun.update(map(id, begun))
        if begun or now >= self._due:
            self._ask_sizes([each.plan.view for each in running], now)
            self._look_up(begun)
        if now < self._due:
            return
        self._due = now + _EVERY_S
        with self._lock:
            self._gather(running, now)

    def running(self) -> list[Maintainer]:
        """Those that maintain a view now."""
        return [each for each in self._maintainers() if each.table is not None]

    def finish(self, stopped: Sequence[Maintainer]) -> None:
        """Gather what has happened since, to views that have stopped; no source is asked."""
        with self._lock:
            self._gather(stopped, time.monotonic())

    def waited_in_vain(self, maintainer: Maintainer, seconds: float) -> None:
        """Note that a view showed nothing for so long: its algorithm is chosen by that."""
        counters = maintainer.counters
        number = max(1, counters.transactions)
        messages, moved = 2 * counters.questions / number, counters.answer_bytes / number
        found = Spent(messages, moved, seconds, number)
        with self._lock:
            spent = {view: dict(known) for view, known in self.statistics.spent.items()}
            spent.setdefault(maintainer.name, {})[maintainer.plan.algorithm] = found
            self.statistics = replace(self.statistics, spent=spent)
            self._write()

    def _gather(self, running: Iterable[Maintainer], now: float) -> None:
        running = [each for each in running if not isinstance(each.failure, ImpatientError)]
        elapsed, self._gathered_at = now - self._gathered_at, now
        news = [(each, self._news(each)) for each in running]
        before = self.statistics
        for maintainer, _ in news:
            self.statistics = with_measured(
                self.statistics, maintainer.name, maintainer.burden.measured
            )
        self.statistics = _without_loaded_anew(self.statistics, before)
        measured = (before.loads, before.paces) != (self.statistics.loads, self.statistics.paces)
        if elapsed > 0 and (measured or any(new.transactions for _, new in news)):
            self.statistics = gathered(self.statistics, news, elapsed, self._looked_up)
            self._write()

    def _write(self) -> None:
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
            Counter(observed.questions),
        )
        self._seen[id(maintainer)] = now
        return _Seen(
            {
                name: found - before.changes.get(name, Counter())
                for name, found in now.changes.items()
            },
            now.transactions - before.transactions,
            now.bursts - before.bursts,
            now.questions - before.questions,
        )

    def _ask_sizes(self, views: Iterable[View], now: float) -> None:
        for source, joined in joined_columns(views).items():
            names = [f"{source}.{name}" for name in joined]
            if all(now < self._sized_at.get(name, -math.inf) + _SIZES_EVERY_S for name in names):
                continue
            self._sized_at |= dict.fromkeys(names, now)
            with suppress(HeadwaterError):
                relations = dict(self.statistics.relations)
                for name, size in self._source(source).sizes(joined).items():
                    known = self.statistics.relation(f"{source}.{name}")
                    relations[f"{source}.{name}"] = replace(
                        known, rows=size.rows, row_bytes=size.row_bytes, distinct=size.distinct
                    )
                self.statistics = replace(self.statistics, relations=relations)

    def _look_up(self, begun: Iterable[Maintainer]) -> None:
        """See what look-ups take in views that have begun; their algorithms may make none."""
        for maintainer in begun:
            if len(self._looked_up) >= _LOOKED_AT:
                return
            with suppress(HeadwaterError, OSError):
                found = _look_up_times(self._warehouse.view(maintainer.name))
                self._looked_up[id(maintainer)] = found


def gathered(
    known: Statistics,
    news: Sequence[tuple[Maintainer, _Seen]],
    elapsed_s: float,
    looked_up: Mapping[int, deque[float]],
) -> Statistics:
    """The statistics with what views have counted.

    `looked_up` says how long look-ups took in views whose algorithms may make none.
    """
    every = [maintainer for maintainer, _ in news]
    relations, sources = dict(known.relations), dict(known.sources)
    for name, changes in _changes(news).items():
        before = relations.get(name, RelationStatistics())
        relations[name] = with_changes(before, Counted(elapsed_s, changes))
    for source, (transactions, bursts) in _transactions(news).items():
        question_s = _typical(m.observed.questions_s.get(source) for m in every)
        asked = sum(new.questions[source] for _, new in news)
        counted = Counted(elapsed_s, {}, transactions, bursts, asked, question_s)
        sources[source] = with_questions(sources.get(source, SourceStatistics()), counted)
    prices, spent = _prices(known.prices, every, looked_up), _spent(known.spent, every)
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


def _look_up_times(view: ViewTable) -> deque[float]:
    """How long it took to look up the same rows again and again."""
    found: deque[float] = deque()
    if view.at().stored_size > _MOST_LOOKED_UP:
        return found
    stored = StoredRows(view)
    example = stored.example()
    for number in range(_LOOK_UPS):
        began = time.monotonic()
        stored.touched([example])
        if number:
            found.append(time.monotonic() - began)
    return found


def _prices(
    known: Prices, every: Sequence[Maintainer], looked_up: Mapping[int, deque[float]]
) -> Prices:
    found = {
        "delivery_s": _typical(m.observed.deliveries_s for m in every),
        "event_s": _typical(m.observed.events_s for m in every),
        "commit_s": _typical(m.observed.commits_s for m in every),
        "look_up_s": _typical(m.observed.look_ups_s or looked_up.get(id(m)) for m in every),
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


def _without_loaded_anew(now: Statistics, before: Statistics) -> Statistics:
    """Without what views have cost that were loaded since: they may be other views by now."""
    anew = {view for view, found in now.loads.items() if found != before.loads.get(view)}
    return replace(now, spent={v: found for v, found in now.spent.items() if v not in anew})


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
