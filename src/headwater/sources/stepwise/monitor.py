"""The monitor of a source that is seen step by step: looks, writes down what it sees, reports it.

A step is in the journal before it is reported, so that it has the same number and the same
contents when it is read again. What is acknowledged is forgotten there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from headwater.algebra.schema import Relation
from headwater.errors import BrokenLogError, LostConnectionError
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Broken, Committed, Logged, Marked, Position, Progressed
from headwater.sources.stepwise.contract import Described, UnknownChangeError, reading
from headwater.sources.stepwise.journal import Gap, Standing, Step
from headwater.sources.stepwise.keep import Keep

_MOST_AT_ONCE = 64
_MOST_ROWS = 50_000
_FORGOTTEN_AT_ONCE = 16
_AWAITED_PAUSE_S = 0.005


class StepMonitor:
    """Reports the steps behind a position."""

    def __init__(self, keep: Keep, after: Position | None, look_every_s: float) -> None:
        self._keep = keep
        self._line = keep.line
        self._look_every_s = look_every_s
        with reading(keep.name):
            self._known = keep.journal.required()
        self._at = _number(keep.name, self._known, after)
        self._is_new = after is None
        self._acknowledged = -1
        self._closed = False
        self._reported = self._at
        self._looked_at = 0.0
        with reading(keep.name):
            described = self._described()
        self._relations: Mapping[str, Relation] = keep.narrowed(described.relations)
        self._lost = {
            name: str(error)
            for name, error in described.unusable.items()
            if not keep.columns or name in keep.columns
        }

    def _described(self) -> Described:
        """The relations; what cannot be read may have been replaced, which looking finds out."""
        described = self._keep.states.describe(self._known)
        if described.unusable and (found := self._keep.states.look(self._known)) != self._known:
            self._keep.journal.change(self._known, found)
            self._known = found
            return self._keep.states.describe(found)
        return described

    # The contract

    def read(self, timeout_s: float) -> Sequence[Logged]:
        until = time.monotonic() + timeout_s
        self._line.handed_on(self._known.log, self._reported)
        while not self._closed:
            with reading(self._keep.name):
                logged = self._next()
            if logged or time.monotonic() >= until:
                return logged
            with self._line.changed:
                if not self._closed:
                    pause = min(until, self._looked_at + self._look_every_s) - time.monotonic()
                    most = _AWAITED_PAUSE_S if self._line.is_awaited else pause
                    self._line.changed.wait(max(0.001, min(pause, most)))
        return []

    def acknowledge(self, position: Position) -> None:
        number = position.get("at")
        if isinstance(number, int) and position.get("log") == self._known.log:
            self._acknowledged = max(self._acknowledged, number)

    def close(self) -> None:
        self._closed = True
        self._line.closed()

    # Reading

    def _next(self) -> list[Logged]:
        if self._is_new:
            self._is_new = False
            return [Progressed(self._position(self._at))]
        logged: list[Logged] = []
        if self._lost:
            logged.append(self._gap_of_lost())
        if not logged and (passed := self._line.passed(self._at)):
            return [Marked(marker) for marker in passed]  # whatever looking will find
        if self._at == self._known.at:
            logged += self._looked()
        logged += self._steps()
        logged += [Marked(marker) for marker in self._line.passed(self._at)]
        return logged

    def _gap_of_lost(self) -> Broken:
        """What cannot be read any more, told once: whoever uses it may not go on."""
        lost, self._lost = self._lost, {}
        reason = "; ".join(dict.fromkeys(lost.values()))
        columns = {f"{self._keep.name}.{name}": None for name in lost}
        return Broken(columns, reason, self._position(self._at), self._at)

    def _looked(self) -> list[Logged]:
        """Look for what is next, if it is time; the markers that wait for that."""
        if not self._is_due():
            return []
        look = self._line.look_begun()
        self._looked_at = time.monotonic()
        if self._keep.journal.standing() is not self._known:
            self._adopt()
        found = self._keep.states.look(self._known)
        found = self._forgotten(found)
        if found is not self._known:
            self._keep.journal.change(self._known, found)
            self._keep.states.used(found)
        is_more = found.at > self._known.at
        self._known = found
        if is_more or self._keep.states.is_pending:
            return []
        return [Marked(marker) for marker in self._line.passed(self._at, look)]

    def _is_due(self) -> bool:
        return (
            self._line.is_awaited or time.monotonic() >= self._looked_at + self._look_every_s - 1e-3
        )

    def _adopt(self) -> None:
        """What a setup has written beside this monitor: more relations, or another log."""
        found = self._keep.journal.standing()
        if found is None or found.log != self._known.log:
            raise BrokenLogError(self._keep.name, "it was set up anew, or its log removed.")
        if found.at != self._known.at:
            raise LostConnectionError(
                f"Source {self._keep.name}: another process has read on in it.",
                "It is opened again; if that goes on, end the other runner.",
            )
        self._known = found

    def _forgotten(self, known: Standing) -> Standing:
        upto = min(self._acknowledged, self._at)
        if upto < known.base.number + _FORGOTTEN_AT_ONCE:
            return known
        return self._keep.states.forget(known, upto)

    def _steps(self) -> list[Logged]:
        logged: list[Logged] = []
        rows = 0
        for step in self._known.after(self._at)[:_MOST_AT_ONCE]:
            found, size = self._logged(step)
            logged += found
            rows += size
            self._at = step.number
            if rows >= _MOST_ROWS:
                break
        if logged:
            self._reported = self._at
        return logged

    def _logged(self, step: Step) -> tuple[list[Logged], int]:
        position = self._position(step.number)
        logged: list[Logged] = []
        gaps = {name: gap for name, gap in step.gaps.items() if name in self._relations}
        before = self._known.upto(step.number - 1)
        updates = []
        for name, relation in self._relations.items():
            if name not in step.data or (name in gaps and not gaps[name].columns):
                continue
            try:
                delta = self._keep.states.change(before, step, relation)
            except UnknownChangeError as error:
                gaps[name] = Gap(str(error))
                continue
            if delta or step.tags:
                updates.append(Update(relation.name, delta))
        if gaps:
            reason = "; ".join(dict.fromkeys(gap.reason for gap in gaps.values()))
            columns = {
                self._relations[name].name: frozenset(gap.columns) if gap.columns else None
                for name, gap in gaps.items()
            }
            is_all = not (updates or step.tags)
            told_at = position if is_all else self._position(step.number - 1)
            logged.append(Broken(columns, reason, told_at, step.number))
        if updates or step.tags:
            source = self._keep.name
            id_ = f"{self._known.log[:12]}:{step.number}"
            transaction = Transaction(id_, tuple(updates), (source,), (source,), tags=step.tags)
            logged.append(Committed(transaction, position, step.number))
        if not logged:
            logged.append(Progressed(position))
        return logged, sum(len(update.delta) for update in updates)

    def _position(self, number: int) -> Position:
        return {"log": self._known.log, "at": number}


def _number(source: str, known: Standing, after: Position | None) -> int:
    """The number that a position means; BrokenLogError if nothing goes on from there."""
    if after is None:
        return known.base.number
    number = after.get("at")
    if after.get("log") != known.log or not isinstance(number, int):
        raise BrokenLogError(source, "the position belongs to another log.")
    if number > known.at:
        raise BrokenLogError(
            source,
            f"the position {number} is ahead of what is kept, which ends at {known.at}: the "
            "warehouse's folder was restored from an earlier state.",
        )
    if number < known.base.number:
        raise BrokenLogError(
            source,
            f"what came after {number} is not kept any more; it begins after {known.base.number}.",
        )
    return number
