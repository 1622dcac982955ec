"""PVM: up to p units of updates in work at once; PVM CC commits them in order of arrival.

The PVM paper, sections 3 and 4.2, Figures 14 and 17. With p = 1 it is SWEEP, Nested SWEEP or
POSSE by themselves, depending on the strategy for one unit.

The warehouse numbers updates as they arrive; the numbers are its timestamps. All updates that
may still matter are kept in their order. Those that have been taken into work stand in the `log`:
the ones in work are the paper's parallel processing set, and the ones that are done but have an
earlier one in work before them its related processed set. Behind them come the waiting ones, the
paper's update message queue. An answer may reflect updates of its source that come after the one
in hand; those are exactly the later ones in the log and all that wait, and their effect is taken
out locally.

PVM commits a unit as soon as it is ready. Deltas commute, but a deletion may come before its
insertion, so counts may pass below zero; readers see positive counts only. Convergent. PVM CC
holds ready units back until all earlier ones are committed. Complete.

Choices, each with a counterexample in the tests:

- `isConcurrent` in Figure 14 lacks "received after the update in hand" (Definition 1); it is
  tested here. As printed, a third of random runs do not converge.
- CleanUp in Figure 14 runs before the update leaves the processing set, so the related set
  never becomes empty. Here it runs after.
- Figure 17 takes an empty delta as "not ready", so an update without effect would block the
  commit queue for ever. Here a unit is ready when it has no partials left.
- A unit that is ready and waits for its turn to commit does not count against p. But while one
  slow answer is awaited the log is not let grow beyond `AHEAD` times p units, since every answer
  looks through it. What waits may grow: nothing looks through that.
- `batch`: a unit may take up to that many waiting updates at once: fewer probes, and strong
  instead of complete.
- A strategy may absorb waiting updates into a unit in work (Nested SWEEP). They move to just
  behind it in the log. This needs that nothing of their sources that comes before them stays
  behind, and that no later unit has used an answer of those sources already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.algorithms.parts.manager import Manager
from headwater.algorithms.parts.update_queue import UpdateQueue
from headwater.algorithms.parts.view_change import (
    Partial,
    Probe,
    Strategy,
    Unit,
    Unseen,
    advance,
    partials_of,
    put_answer,
)
from headwater.algorithms.sweep import sweep
from headwater.protocol.effects import Add, Apply, Ask, Effect
from headwater.protocol.events import AnswerArrived
from headwater.protocol.transactions import Transaction, net_change

AHEAD = 64
"""No unit starts while the log holds this many times p units of updates."""


@cached_hash
@dataclass(frozen=True)
class Entry:
    """An update: waiting, in work in a unit, or done."""

    number: int
    transaction: Transaction
    unit: int | None = None
    """The unit that has taken it; None while it waits."""
    done: bool = False

    @property
    def deltas(self) -> dict[str, Rows]:
        return self.transaction.deltas


@cached_hash
@dataclass(frozen=True)
class State:
    arrived: int = 0
    log: tuple[Entry, ...] = ()
    """The updates that have been taken into work, with those done that still matter."""
    waiting: UpdateQueue[Entry] = field(default_factory=UpdateQueue)
    """The paper's update message queue; comes behind the log."""
    units: tuple[Unit, ...] = ()
    """Units that are not committed, in the order of the log."""

    @property
    def related(self) -> tuple[Entry, ...]:
        """The paper's related processed set."""
        return tuple(entry for entry in self.log if entry.done)


@dataclass(frozen=True)
class Pvm(Manager[State]):
    view: View
    p: int = 4
    in_order: bool = False
    """Whether units commit in order of arrival (PVM CC)."""
    strategy: Strategy = sweep
    batch: int = 1
    depth: int = 0
    """How often a unit may absorb waiting updates (Nested SWEEP)."""

    @property
    def most_taken(self) -> int:
        """How many updates the log may hold when a unit starts."""
        return AHEAD * self.p * self.batch

    def start(self) -> State:
        return State()

    def take_transaction(
        self, state: State, transaction: Transaction
    ) -> tuple[State, tuple[Effect, ...]]:
        entry = Entry(state.arrived + 1, transaction)
        waiting = state.waiting.appended(entry)
        return self._work(replace(state, arrived=entry.number, waiting=waiting), [])

    # Handling one unit

    def take_answer(self, state: State, answer: AnswerArrived) -> tuple[State, tuple[Effect, ...]]:
        number = int(answer.label[1:].split("^")[0])
        unit = next(u for u in state.units if u.number == number)
        probes = dict(unit.under_way)[answer.label]
        unit = put_answer(unit, answer, self.unseen(state))
        if unit.absorbed < self.depth and (concurrent := _concurrent_waiting(state, probes)):
            state, unit = self._absorb(state, unit, concurrent)
        unit, asks = self._advance(state, unit)
        units = tuple(unit if u.number == number else u for u in state.units)
        return self._work(replace(state, units=units), list(asks))

    def _advance(self, state: State, unit: Unit) -> tuple[Unit, tuple[Ask, ...]]:
        others = (other for other in state.units if other.number != unit.number)
        load = Counter(
            probes[0].source for other in others for _, probes in other.under_way if probes
        )
        return advance(unit, self.unseen(state), self.strategy, load)

    def unseen(self, state: State) -> Unseen:
        """What a partial must not see of an occurrence: the changes that come after it."""

        def taken(partial: Partial, at: int) -> tuple[tuple[int, Rows], ...]:
            relation = partial.term.occurrence(at).relation.name
            return tuple(
                (entry.number, entry.deltas[relation])
                for entry in self.later(state, partial, at)
                if relation in entry.deltas
            )

        return Unseen(taken, state.waiting)

    def later(self, state: State, partial: Partial, at: int) -> tuple[Entry, ...]:
        """The updates behind a partial's in the log, and its own for the old occurrences."""
        if at > partial.at:
            return state.log[_place(state, partial.group[0]) :]
        return state.log[_place(state, partial.group[-1]) + 1 :]

    # Starting and committing units

    def _work(self, state: State, effects: list[Effect]) -> tuple[State, tuple[Effect, ...]]:
        """Start and commit units until nothing more can be done without an answer."""
        while True:
            state, committed = self._commit(state)
            effects += committed
            state, started = self._start(self._clean_up(state))
            if started is None:
                return state, tuple(effects)
            effects += started

    def _start(self, state: State) -> tuple[State, list[Effect] | None]:
        """Take the next waiting updates into work, if a process is free."""
        in_work = sum(not unit.is_ready for unit in state.units)
        if not state.waiting or in_work >= self.p or len(state.log) >= self.most_taken:
            return state, None
        taken, waiting = state.waiting.take(self.batch)
        members = tuple(entry.number for entry in taken)
        log = (*state.log, *(replace(entry, unit=members[0]) for entry in taken))
        state = replace(state, log=log, waiting=waiting)
        partials = partials_of(self.view, members, _net(entry.transaction for entry in taken))
        unit = Unit(members[0], members, partials, Rows.empty(self.view.schema))
        unit, asks = self._advance(state, unit)
        return replace(state, units=(*state.units, unit)), list(asks)

    def _commit(self, state: State) -> tuple[State, list[Effect]]:
        """Commit what is ready: each unit by itself, or only in order of arrival."""
        effects: list[Effect] = []
        for unit in state.units:
            if unit.is_ready:
                state, step = self.commit_unit(state, unit)
                effects.append(step)
            elif self.in_order:
                break
        return state, effects

    def commit_unit(self, state: State, unit: Unit) -> tuple[State, Apply]:
        ids = tuple(e.transaction.id for e in state.log if e.unit == unit.number)
        log = tuple(replace(e, done=True) if e.unit == unit.number else e for e in state.log)
        units = tuple(u for u in state.units if u.number != unit.number)
        return replace(state, log=log, units=units), Apply((Add(unit.delta),), ids)

    def _clean_up(self, state: State) -> State:
        """Forget what is done and has nothing in work before it (Lemma 3)."""
        kept = next((i for i, entry in enumerate(state.log) if not entry.done), len(state.log))
        return replace(state, log=state.log[kept:]) if kept else state

    # Absorbing concurrent updates

    def _absorb(
        self, state: State, unit: Unit, concurrent: tuple[Entry, ...]
    ) -> tuple[State, Unit]:
        """Take updates into a unit in work, with all that their sources did before them."""
        taken = self._with_prefixes(state, unit, concurrent)
        if not taken:
            return state, unit
        members = tuple(entry.number for entry in taken)
        moved = tuple(replace(entry, unit=unit.number) for entry in taken)
        at = _place(state, unit.members[-1]) + 1
        log = (*state.log[:at], *moved, *state.log[at:])
        gone = frozenset(members)
        waiting = UpdateQueue(entry for entry in state.waiting if entry.number not in gone)
        state = replace(state, log=log, waiting=waiting)
        partials = partials_of(self.view, members, _net(entry.transaction for entry in taken))
        unit = replace(
            unit,
            members=(*unit.members, *members),
            partials=(*unit.partials, *partials),
            absorbed=unit.absorbed + 1,
        )
        return state, unit

    def _with_prefixes(
        self, state: State, unit: Unit, concurrent: tuple[Entry, ...]
    ) -> tuple[Entry, ...]:
        """These updates and the earlier ones of their sources; none if they cannot be moved."""
        behind = (*state.log[_place(state, unit.members[-1]) + 1 :], *state.waiting)
        sources = {s for entry in concurrent for s in entry.transaction.sources}
        taken = {entry.number for entry in concurrent}
        last = max(i for i, entry in enumerate(behind) if entry.number in taken)
        for entry in reversed(behind[: last + 1]):
            if entry.number in taken or sources & set(entry.transaction.sources):
                sources |= set(entry.transaction.sources)
                taken.add(entry.number)
        chosen = tuple(entry for entry in behind if entry.number in taken)
        if any(entry.unit is not None for entry in chosen):
            return ()
        others = {entry.unit for entry in behind if entry.unit is not None}
        heard = {s for u in state.units if u.number in others for s in u.heard}
        finished = any(entry.done for entry in behind)
        return () if finished or heard & sources else chosen


def _net(transactions: Iterable[Transaction]) -> dict[str, Rows]:
    """The net change of each relation over several transactions."""
    return net_change(change for t in transactions for change in t.deltas.items())


def _place(state: State, number: int) -> int:
    """Where an update that has been taken stands in the log."""
    return next(i for i, entry in enumerate(state.log) if entry.number == number)


def _concurrent_waiting(state: State, probes: tuple[Probe, ...]) -> tuple[Entry, ...]:
    """The waiting updates whose effect an answer to these shows."""
    asked = {probe.partial.term.occurrence(probe.at).relation.name for probe in probes}
    return state.waiting.concerning(asked)
