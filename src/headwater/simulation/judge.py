"""What has to hold of a deployment, whatever happened to it.

The judge reads the warehouse as everybody does, through the ledger's own code, and knows what the
databases committed. Each commit is the view at its vector, and so is what the plain table shows by
itself; numbers and vectors only grow; what a number means never changes once something was
committed with it; levels hold, also over loads, except that these leave states out and begin anew
behind a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.check.certificate import Claim, certify
from headwater.check.history import History
from headwater.check.levels import Level
from headwater.frames.arrow import arrow_schema, plain_from_arrow
from headwater.pipeline.joining import identity
from headwater.protocol.transactions import Transaction
from headwater.simulation.database import Database
from headwater.simulation.workload import ViewAtLevel
from headwater.storage.contract import Storage
from headwater.storage.location import Location
from headwater.warehouse.change_records import Break, Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.delta_log import is_table
from headwater.warehouse.files import read_arrow
from headwater.warehouse.groups import GroupTable
from headwater.warehouse.vectors import VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

ROOT = Path("/warehouse")


class ViolationError(AssertionError):
    """Something that must never happen has happened."""


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise ViolationError(what)


@dataclass
class _Shown:
    """What a view has shown since it was last loaded."""

    number: int = 0
    contents: Rows | None = None
    """What is stored."""
    start: VersionVector = field(default_factory=dict)
    vector: VersionVector = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    states: dict[int, Mapping[str, Rows]] = field(default_factory=dict)
    """What each commit has shown, in each plain table."""
    split: set[str] = field(default_factory=set)
    """The transactions across databases of which it has said that it shows a part alone."""


@dataclass(frozen=True)
class _Unit:
    """What a number of a source means."""

    stamps: tuple[int, ...] = ()
    begins: bool = False
    """Whether a new log of the source begins here."""
    is_gap: bool = False
    """Whether something was changed that the log does not tell."""


class Judge:
    """Follows the views of a deployment from outside."""

    def __init__(
        self, storage: Storage, databases: Mapping[str, Database], views: Iterable[ViewAtLevel]
    ) -> None:
        """`storage` shows what is durable."""
        self._storage = storage
        self.power_lost()
        self.commits = 0
        self.releases = True
        """Whether parts of transactions across databases may be shown by themselves."""
        self._databases = databases
        self._views = {view.name: view for view in views}
        self._shown = {name: _Shown() for name in self._views}
        self._units: dict[str, list[_Unit]] = {source: [] for source in databases}
        """For each source and number, from 1 on, what it means."""
        self._logs: dict[tuple[str, int], int] = {}
        """Which log of a source begins with a number; with 0 the first that was read."""

    def power_lost(self) -> None:
        """What was read is not relied on any more: names may be gone that were not synced."""
        self.warehouse = Warehouse(Location(ROOT, self._storage))

    # What is looked at while it runs

    def look(self, name: str, upto: int) -> None:
        """Judge the commits of a view up to a number, all of which are durable."""
        shown = self._shown[name]
        if upto <= shown.number:
            return
        table = self.warehouse.view(name)
        for commit, delta in table.changes(shown.number):
            if commit.number > upto:
                break
            demand(
                commit.kind == "load" or commit.number == shown.number + 1,
                f"{name}: commit {commit.number} follows {shown.number}",
            )
            if commit.kind == "load":
                shown = self._loaded(name, commit, table.at(commit.number).signed_rows())
            elif shown.contents is not None:
                shown.contents = shown.contents + delta
            self._judge(name, shown, commit)

    def _loaded(self, name: str, commit: ViewCommit, contents: Rows) -> _Shown:
        """A view was loaded, for the first time or anew.

        What it shows then goes on from what it has shown, unless its sources have begun anew or
        changed behind their logs' backs; only that every state is shown begins anew.
        """
        shown = self._shown[name]
        if self._goes_on(name, shown.vector, commit.vector):
            shown.contents = contents
            return shown
        self._certify(name)
        before = shown
        shown = _Shown(contents=contents, start=commit.vector)
        shown.states, shown.split = before.states, before.split
        self._shown[name] = shown
        return shown

    def _goes_on(self, name: str, before: VersionVector, after: VersionVector) -> bool:
        """Whether a load is a step of what a view shows, as any other."""
        if not before or self._views[name].level >= Level.COMPLETE:
            return False
        return not any(
            unit.begins or unit.is_gap
            for source, at in after.items()
            for unit in self._units[source][before[source].number : at.number]
        )

    def look_at_absence(self, name: str) -> None:
        """A view that is not there has never been opened."""
        demand(not self._shown[name].number, f"{name} was there, and is gone")

    def look_at_note(self, name: str) -> None:
        """Judge how far a view says that it has come without a change."""
        latest = self.warehouse.view(name).latest()
        shown = self._shown[name]
        if latest.number == shown.number and not latest.is_early:
            numbers = {source: at.number for source, at in latest.vector.items()}
            demand(
                shown.contents == self._stored_at(name, numbers),
                f"{name} is noted at {_shown(latest.vector)}, where the view is another",
            )

    def look_at_plain(self, name: str) -> None:
        """Judge what those see who read the plain table and nothing else."""
        table = self.warehouse.view(name)
        if isinstance(table, GroupTable):
            for member in table.members:
                if is_table(member.plain.folder):  # else nobody sees anything
                    self._look_at_plain(name, member)
        else:
            self._look_at_plain(name, table)

    def _look_at_plain(self, name: str, table: ViewTable) -> None:
        plain = table.plain.snapshot()
        states = self._shown[name].states.get(plain.number)
        if states is not None:
            expected = states[table.name]
            found = read_arrow(plain.folder, plain.files, arrow_schema(expected.schema))
            demand(
                plain_from_arrow(found, expected.schema) == expected,
                f"{table.name}: the plain table shows {found} as commit {plain.number}: {expected}",
            )

    def _judge(self, name: str, shown: _Shown, commit: ViewCommit) -> None:
        self.commits += 1
        numbers = {source: at.number for source, at in commit.vector.items()}
        expected = self._view_at(name, numbers)
        stored = self._stored_at(name, numbers)
        demand(
            commit.is_early or shown.contents == stored,
            f"{name}: commit {commit.number} ({commit.kind}) at {_shown(commit.vector)} shows "
            f"{shown.contents}, and the view there is {stored}",
        )
        demand(self.releases or not commit.split, f"{name} shows parts of {commit.split} alone")
        shown.split |= set(commit.split)
        for found, parts in self._divided(name, numbers).items():
            demand(
                found in shown.split,
                f"{name}: commit {commit.number} at {_shown(commit.vector)} shows of {found} the "
                f"part of {parts} alone, and does not say so",
            )
        before = shown.vector or commit.vector
        demand(
            all(at.number >= before[source].number for source, at in commit.vector.items()),
            f"{name}: commit {commit.number} goes back from {_shown(before)}",
        )
        if commit.is_early:
            shown.number = commit.number
            return
        if shown.vector:
            taken = self._order_of(name, shown.vector, commit.vector)
            shown.claims.append(Claim(self._views[name].judged.shown(expected), taken))
        shown.number, shown.vector = commit.number, commit.vector
        shown.states[commit.number] = self._views[name].shown(expected)

    def _divided(self, name: str, numbers: Mapping[str, int]) -> dict[str, list[str]]:
        """The transactions across databases of which a view shows a part, and not all."""
        if not self._views[name].plan().shows_global_whole:
            return {}
        used = {r.name: r.schema for r in self._views[name].plan().view.relations}
        shown: dict[str, list[str]] = {}
        lacking: set[str] = set()
        unknown: set[str] = set()
        for source, database in self._databases.items():
            inside = set(self._stamps(source, numbers[source]))
            ids = Counter(tag.id for t in database.transactions for tag in t.tags)
            ids.update(tag.id for tag in database.owed)
            unknown |= {name for name, count in ids.items() if count > 1}
            unlogged = (s for before in database.before for s in before)
            unknown |= {tag.id for s in unlogged for tag in database.transactions[s - 1].tags}
            lacking |= {tag.id for tag in database.owed}
            for stamp in database.line:
                transaction = database.transactions[stamp - 1]
                deltas = transaction.deltas.items()
                if not any(r in used and delta.only(used[r]) for r, delta in deltas):
                    continue
                for tag in transaction.tags:
                    if stamp in inside:
                        shown.setdefault(tag.id, []).append(source)
                    else:
                        lacking.add(tag.id)
        # An id that was used again names nothing, and what came before a log is not in it.
        divided = (shown.keys() & lacking) - unknown
        return {name: shown[name] for name in divided}

    def _order_of(self, name: str, before: VersionVector, after: VersionVector) -> tuple[str, ...]:
        """The transactions between two vectors, in an order in which the view changes once.

        A commit does not tell the order between sources; where no such order exists, any will do.
        """
        start = {source: at.number for source, at in before.items()}
        goal = {source: at.number for source, at in after.items()}
        old, new = self._view_at(name, start), self._view_at(name, goal)
        ways: list[tuple[dict[str, int], tuple[str, ...], bool]] = [(start, (), False)]
        seen = set()
        while ways:
            at, taken, changed = ways.pop()
            if at == goal:
                return taken
            for source in goal:
                if at[source] < goal[source]:
                    following = {**at, source: at[source] + 1}
                    view = self._view_at(name, following)
                    key = (*following.values(), changed or view != old)
                    if key not in seen and (view == new or (view == old and not changed)):
                        seen.add(key)
                        step = identity(source, following[source])
                        ways.append((following, (*taken, step), changed or view != old))
        return tuple(
            identity(source, number)
            for source, upto in goal.items()
            for number in range(start[source] + 1, upto + 1)
        )

    def _view_at(self, name: str, numbers: Mapping[str, int]) -> Rows:
        """What is to be found there."""
        return evaluate_view(self._views[name].view, self._state(numbers))

    def _stored_at(self, name: str, numbers: Mapping[str, int]) -> Rows:
        """What is to be stored there."""
        view, base = self._views[name].view, self._state(numbers)
        return view.stored(evaluate_view(view, base), base)

    def _state(self, numbers: Mapping[str, int]) -> dict[str, Rows]:
        found: dict[str, Rows] = {}
        for source, database in self._databases.items():
            found |= database.state(set(self._stamps(source, numbers.get(source, 0))))
        return found

    def _stamps(self, source: str, number: int) -> list[int]:
        """The transactions that a source has committed up to a number, and that still count."""
        units = self._units[source]
        demand(number <= len(units), f"{source}: {number} is in no change log")
        begun = max((at for at, unit in enumerate(units[:number], 1) if unit.begins), default=0)
        newest = len(self._databases[source].before) - 1
        before = sorted(self._databases[source].before[self._logs.get((source, begun), newest)])
        return [*before, *(stamp for unit in units[begun:number] for stamp in unit.stamps)]

    def learn(self, source: str, again: bool = False) -> None:
        """What new numbers of a source mean, or once more what all of them do.

        They may be let go later, and never mean something else.
        """
        known = self._units[source]
        log = ChangeLog(self.warehouse.changes, source)
        for record in log.heads(max(0 if again else len(known), log.first - 1)):
            unit = _unit(record)
            if unit.begins:  # what was not durable when a log began may have had a number
                known += [_Unit()] * (record.number - 1 - len(known))
            if record.number == len(known) + 1:
                known.append(unit)
            demand(
                record.number <= len(known) and known[record.number - 1] == unit,
                f"{source}: {record.number} means {unit} now, and there was {known}",
            )
        begun = max((at for at, unit in enumerate(known, 1) if unit.begins), default=0)
        if (source, begun) not in self._logs:
            log.scan()
            if log.position:
                self._logs[source, begun] = int(str(log.position["log"]))

    # What is looked at in the end

    def conclude(self) -> None:
        """Everything that was committed at the sources is shown."""
        final = {source: len(units) for source, units in self._units.items()}
        whole: dict[str, Rows] = {}
        for source, database in self._databases.items():
            stamps = self._stamps(source, final[source])
            demand(
                stamps == database.line,
                f"{source} has committed {database.line}, and the change log has {stamps}",
            )
            whole |= database.state(set(database.line))
        for name, view in self._views.items():
            table = self.warehouse.view(name)
            found = table.states() if isinstance(table, GroupTable) else {name: table.rows()}
            expected = view.shown(evaluate_view(view.view, whole))
            demand(found == expected, f"{name} ends with {found}, and should with {expected}")
            self.look_at_note(name)
            self.look_at_plain(name)
            if isinstance(table, GroupTable):
                self._look_whether_members_follow(table)
            reached = self.warehouse.view(name).latest().vector
            demand(
                all(at.number == final[source] for source, at in reached.items()),
                f"{name} ends at {_shown(reached)}, and the logs at {final}",
            )
            self._certify(name)

    def _look_whether_members_follow(self, group: GroupTable) -> None:
        """What a crash has left undone was made up for."""
        folded = group.plain.snapshot().number
        for member in group.members:
            shown = member.plain.snapshot().number
            demand(shown == folded, f"{member.name} shows {shown}, and its group {folded}")

    def _certify(self, name: str) -> None:
        """The level of what a view has shown since its last load."""
        shown, view = self._shown[name], self._views[name]
        if not shown.claims:
            return
        history = History(
            view.judged,
            self._state({source: at.number for source, at in shown.start.items()}),
            tuple(shown.start),
            {source: self._transactions(source, shown) for source in shown.start},
        )
        found = certify(history, shown.claims)
        across = any(t.tags for database in self._databases.values() for t in database.transactions)
        least = min(view.level, Level.STRONG if across else Level.COMPLETE)
        demand(found.level >= least, f"{name} is {found.level} and not {least}: {found.broken}")

    def _transactions(self, source: str, shown: _Shown) -> tuple[Transaction, ...]:
        first, last = shown.start[source].number + 1, shown.vector[source].number
        units: Sequence[_Unit] = self._units[source][first - 1 : last]
        return tuple(
            replace(self._databases[source].unit(unit.stamps), id=identity(source, number))
            for number, unit in enumerate(units, first)
        )


def _unit(record: Change | Break) -> _Unit:
    if isinstance(record, Change):
        return _Unit((*record.others, record.stamp))
    if record.columns is None:
        return _Unit(begins=True)
    return _Unit(() if record.stamp is None else (record.stamp,), is_gap=True)


def _shown(vector: VersionVector) -> str:
    return str({source: at.number for source, at in vector.items()})
