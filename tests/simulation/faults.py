"""Faults that production once had, or could have, put back as patches of its code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from headwater.frames.arrow import signed_schema
from headwater.frames.session import Spark
from headwater.pipeline import joining, maintenance, relevant, wanted
from headwater.pipeline.committing import Pending
from headwater.pipeline.companions import Company
from headwater.pipeline.copied import Copied
from headwater.pipeline.cutting import Cutting, LoadCut
from headwater.pipeline.joining import Joining
from headwater.pipeline.loading import Loading
from headwater.pipeline.maintenance import Maintenance
from headwater.pipeline.plan import Plan
from headwater.pipeline.recording import Recording
from headwater.pipeline.reflected import InArrivalOrder, Reflected
from headwater.pipeline.wanted import Commit, Wanted
from headwater.project import needs
from headwater.protocol.events import AnswerArrived
from headwater.protocol.look_ups import LookUp
from headwater.simulation import judge, process
from headwater.simulation.reading import Reading
from headwater.sources.contract import Progressed, Snapshot
from headwater.sources.order import Numbered, Order, Place
from headwater.sources.subscription import Delivery
from headwater.storage import local
from headwater.storage.bucket import Condition, ConditionError, Tag
from headwater.storage.contract import Content
from headwater.storage.local import AppendedFile, LocalStorage
from headwater.storage.objects import ObjectStorage
from headwater.warehouse import change_records, compaction, folding
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.commits import maintenance_info
from headwater.warehouse.delta_log import is_table
from headwater.warehouse.groups import MemberTable
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.looking_up import StoredRows
from headwater.warehouse.states import ViewState
from headwater.warehouse.table_versions import DataFile
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_writer import ViewWriter

Patch = pytest.MonkeyPatch
Fault = Callable[[Patch], None]


def _by_number(source: str, number: int) -> str:
    return f"{number}"


def identity_by_transaction_number(patch: Patch) -> None:
    """Transactions of different sources are taken for one another."""
    for module in (joining, relevant, wanted, judge):
        patch.setattr(module, "identity", _by_number)


def epoch_from_the_lease_file_alone(patch: Patch) -> None:
    """The file is not durable: after a loss of power epochs begin at 1 again."""

    def highest(self: LeaseClaim) -> int:
        leased: int = self._read().get("epoch", 0)
        return leased

    patch.setattr(LeaseClaim, "highest_epoch", highest)
    patch.setattr(LeaseClaim, "_stored_epoch", lambda self: 0)


def acknowledged_when_read(patch: Patch) -> None:
    """The source forgets what is not on disk yet."""
    recorded = Recording.record

    def record(self: Recording, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        recorded(self, first, logged)
        if logged:
            self.position = logged[-1].position

    patch.setattr(Recording, "record", record)


def written_and_not_synced(patch: Patch) -> None:
    """The change log relies on what the operating system may still hold."""

    def append(self: AppendedFile, content: bytes) -> None:
        self._file.write(content)

    patch.setattr(AppendedFile, "append", append)


def unsynced_records_of_a_killed_runner(patch: Patch) -> None:
    """What an earlier runner wrote is built on without being synced."""
    settle = LocalStorage.settle

    def unsettled(self: LocalStorage, folder: Path, names: Sequence[str]) -> None:
        if folder.parent.name != "changes":
            settle(self, folder, names)

    patch.setattr(LocalStorage, "settle", unsettled)


def a_lost_answer_counts_as_refused(patch: Patch) -> None:
    """A put that took effect and was tried again is taken for somebody else's."""

    def put(self: ObjectStorage, path: Path, content: Content, condition: Condition) -> Tag | None:
        def ask() -> Tag | None:
            try:
                return self.bucket.put(str(path).lstrip("/"), content, condition)
            except ConditionError:
                return None

        return self._answered(ask)

    patch.setattr(ObjectStorage, "_put", put)


def checkpoint_unsynced(patch: Patch) -> None:
    """Entries go although the checkpoint that replaces them may be lost."""
    settle, replace = LocalStorage.settle, LocalStorage.replace

    def unsettled(self: LocalStorage, folder: Path, names: Sequence[str]) -> None:
        if folder.name != "_delta_log":
            settle(self, folder, names)

    def unsynced(self: LocalStorage, path: Path, content: Content, durable: bool = True) -> None:
        replace(self, path, content, durable and "checkpoint" not in path.name)

    patch.setattr(LocalStorage, "settle", unsettled)
    patch.setattr(LocalStorage, "replace", unsynced)


def columns_of_running_views_alone(patch: Patch) -> None:
    """What a view needs that does not run just now is not logged."""
    for module in (needs, process):
        patch.setattr(module, "loaded_columns", lambda warehouse, source: {})


def holes_read_over(patch: Patch) -> None:
    """Numbers that are missing from the change log are passed over."""
    patch.setattr(ChangeLog, "_check_reaches", lambda self, segment, number: None)
    patch.setattr(change_records, "_is_appended_to", lambda path, offset: False)
    unsynced_records_of_a_killed_runner(patch)


def answer_inside_a_unit(patch: Patch) -> None:
    """A snapshot that holds some of what is reported as one is taken to hold all of it."""

    def split(self: Place, snapshot: Snapshot, known: int, whole_after: int = 0) -> int | None:
        stamps = self._order.stamps(self.cursor)
        inside = [any(map(snapshot.includes, item or ())) for item in stamps]
        count = sum(inside)
        return self.cursor + count - 1 if all(inside[:count]) else None

    patch.setattr(Place, "split", split)


def answers_that_lack_what_was_received(patch: Patch) -> None:
    patch.setattr(Place, "_holds_received", lambda self, snapshot: True)


def answers_by_count(patch: Patch) -> None:
    """An answer is placed by how many transactions it holds, whichever they are."""

    def split(self: Place, snapshot: Snapshot, known: int, whole_after: int = 0) -> int:
        stamps = self._order.stamps(self.cursor)
        return self.cursor + sum(all(map(snapshot.includes, i or ())) for i in stamps) - 1

    patch.setattr(Place, "split", split)


def answers_where_their_view_stands(patch: Patch) -> None:
    """An answer is handed on at once, whatever it holds."""

    def split(self: Place, snapshot: Snapshot, known: int, whole_after: int = 0) -> int:
        return self.cursor - 1

    patch.setattr(Place, "split", split)


def what_concerns_a_view_is_passed_over(patch: Patch) -> None:
    """Some of what changes a view's relations is taken for something else."""
    concerning = Order.concerning

    def spared(self: Order, place: Place, first: int, most: int | None = None) -> Sequence[int]:
        return [n for n in concerning(self, place, first, most) if n % 3]

    patch.setattr(Order, "concerning", spared)


def a_log_synced_before_it_is_read(patch: Patch) -> None:
    """What a replaced runner writes in between is built on without being synced."""

    def opened(self: ChangeLog, epoch: int, check: Any, guard: Any) -> None:
        self._folder.make_folder()
        self._settle()
        self.scan()
        self._check, self._guard = check, guard
        self._epoch = epoch
        self._roll()

    patch.setattr(ChangeLog, "open", opened)


def a_replaced_runner_begins_a_segment(patch: Patch) -> None:
    """It looked for the end of the log before the present runner did, and goes on only now."""
    opened = ChangeLog.open

    def open_unguarded(self: ChangeLog, epoch: int, check: Any, guard: Any) -> None:
        opened(self, epoch, check)

    patch.setattr(ChangeLog, "open", open_unguarded)


def a_replaced_runner_commits(patch: Patch) -> None:
    """A commit takes the next number although another runner has taken numbers meanwhile."""

    def pass_on(self: ViewWriter, number: int) -> None:
        if number != self.latest.number:
            self.latest = self._look()

    patch.setattr(ViewWriter, "_fence", pass_on)


def a_replaced_runner_appends(patch: Patch) -> None:
    """What it appends to the change log counts for it."""
    opened = ChangeLog.open

    def open_unchecked(self: ChangeLog, epoch: int, check: Any = None, guard: Any = None) -> None:
        opened(self, epoch)

    patch.setattr(ChangeLog, "open", open_unchecked)


def a_replaced_runner_acknowledges(patch: Patch) -> None:
    """It tells the source to forget without looking who the runner is."""

    @contextmanager
    def guard(self: LeaseClaim) -> Iterator[None]:
        yield

    patch.setattr(LeaseClaim, "guard", guard)
    a_replaced_runner_appends(patch)


def states_taken_together(patch: Patch) -> None:
    """A complete view leaves states out."""
    patch.setattr(Plan, "shows_each_state", False)


def watermark_that_jumps(patch: Patch) -> None:
    """A view that has a transaction is taken to have all before it."""
    reflected = Reflected.reflect

    def reflect(self: Reflected, source: str, number: int, concerns: bool = True) -> None:
        for earlier in range(self.vector[source].number + 1, number):
            reflected(self, source, earlier, concerns)
        reflected(self, source, number, concerns)

    patch.setattr(Reflected, "reflect", reflect)


def vector_before_its_change(patch: Patch) -> None:
    """Progress is noted although what goes with it is not committed yet."""
    ticked = Maintenance.tick

    def tick(self: Maintenance, now: float, more: bool) -> Sequence[Wanted]:
        found = ticked(self, now, more)
        if not found and self._committing.pending.actions:
            return [Commit((), self.vector, (), "vector")]
        return found

    patch.setattr(Maintenance, "tick", tick)


def noted_before_it_is_settled(patch: Patch) -> None:
    """A view is said to have come to what it has received and does not show yet."""

    def received(maintenance: Maintenance) -> VersionVector:
        sources = maintenance._reflected._sources.items()
        return {name: Reached(source._passed, None) for name, source in sources}

    patch.setattr(Maintenance, "is_settled", True)
    patch.setattr(Maintenance, "vector", property(received))


def noted_before_it_is_logged(patch: Patch) -> None:
    """A view is said to have come further than the change log that is on disk."""

    def noted(self: Maintenance, durable: Mapping[str, int]) -> VersionVector | None:
        return self.vector if self.is_settled else None

    patch.setattr(Maintenance, "noted", noted)


def entries_put_before_they_are_synced(patch: Patch) -> None:
    """A commit has its name before its contents are on disk."""

    def put_if_absent(
        self: LocalStorage, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        check()
        with self._temporary(path, content, synced=False) as temporary:
            try:
                self.system.link(temporary, path)
            except FileExistsError:
                return False
        self._sync(path.parent)
        return True

    patch.setattr(LocalStorage, "put_if_absent", put_if_absent)


def names_that_are_not_synced(patch: Patch) -> None:
    """A commit counts although its name may be lost."""

    def put_if_absent(
        self: LocalStorage, path: Path, content: Content, check: Callable[[], None] = lambda: None
    ) -> bool:
        with self._temporary(path, content, synced=True) as temporary:
            check()
            try:
                self.system.link(temporary, path)
            except FileExistsError:
                return False
        return True

    patch.setattr(LocalStorage, "put_if_absent", put_if_absent)


def folders_of_a_killed_runner(patch: Patch) -> None:
    """A folder that is there is taken to be there after a loss of power."""
    patch.setattr(local, "_is_ours", lambda path, folder: False)


def merged_transactions_of_no_concern(patch: Patch) -> None:
    """A snapshot between transactions that are reported as one is accepted."""
    patch.setattr(Place, "_is_between", lambda self, snapshot, anew: False)


def merged_transactions_behind_a_view(patch: Patch) -> None:
    """A snapshot between transactions that are reported as one is accepted by who is past them."""
    merged = Place._merged

    def ahead(self: Place, snapshot: Snapshot, anew: int) -> Iterator[tuple[int, set[bool]]]:
        return merged(self, snapshot, max(anew, self._from - 1))

    patch.setattr(Place, "_merged", ahead)


def folded_files_go_first(patch: Patch) -> None:
    """The log lets rows go before the plain table has them."""
    into_plain = folding._fold_into_plain

    def fold(view: Any, state: Any, spark: Any, runner: str) -> Any:
        log = view.log.snapshot()
        gone = [file.remove() for file in log.files]
        if gone and state.number > state.base.number:
            info = maintenance_info(view.name, "clean")
            compaction.put_beside_writer(view.log, log.version, [info, *gone])
        return into_plain(view, state, spark, runner)

    patch.setattr(folding, "_fold_into_plain", fold)


def a_replaced_runner_begins_a_log_anew(patch: Patch) -> None:
    """It forgets what the present runner has written."""

    def begin(log: ChangeLog, lease: LeaseClaim, reason: str, after: int = 0) -> None:
        log.begin_anew(reason, after, lease.epoch)
        log.close()

    patch.setattr(process, "begin_anew", begin)


def a_log_begun_anew_forgets_first(patch: Patch) -> None:
    """What was before goes although nothing says yet that the log begins anew."""
    begun = ChangeLog.begin_anew

    def begin(self: ChangeLog, reason: str, after: int, epoch: int, check: Any = None) -> None:
        for segment in self._segments():
            self._let_go(segment)
        begun(self, reason, after, epoch, check)

    patch.setattr(ChangeLog, "begin_anew", begin)


def gaps_passed(patch: Patch) -> None:
    """A view goes on behind a gap that concerns it."""
    patch.setattr(maintenance, "concerns", lambda gap, view: False)


def tables_of_members_not_made_up(patch: Patch) -> None:
    """A member's table is left as it is, if there is one."""
    made_up = MemberTable.make_up

    def make_up(self: MemberTable, state: ViewState, spark: Spark) -> None:
        if not is_table(self.plain.folder):
            made_up(self, state, spark)

    patch.setattr(MemberTable, "make_up", make_up)


def tail_not_looked_up(patch: Patch) -> None:
    """Rows are looked up by key in what was folded alone."""

    def in_tail(self: StoredRows, state: ViewState, wanted: Sequence[LookUp]) -> pyarrow.Table:
        return signed_schema(self.schema).empty_table()

    patch.setattr(StoredRows, "_in_tail", in_tail)


def base_not_looked_up(patch: Patch) -> None:
    """Rows are looked up by key in what was committed since the last fold alone."""

    def in_file(
        self: StoredRows, state: ViewState, file: DataFile, wanted: Sequence[LookUp]
    ) -> pyarrow.Table:
        return signed_schema(self.schema).empty_table()

    patch.setattr(StoredRows, "_in_file", in_file)


def halves_of_transactions_committed(patch: Patch) -> None:
    """What of a transaction has come is shown, and the rest later."""
    patch.setattr(Pending, "is_half", property(lambda self: False, lambda self, value: None))


def parts_taken_by_themselves(patch: Patch) -> None:
    """A part of a transaction across databases does not wait for the others."""
    patch.setattr(Joining, "needs", lambda self, item: frozenset())


def answers_overtake_held_parts(patch: Patch) -> None:
    """An answer goes on although a part before it is held."""
    received = Joining.receive

    def receive(self: Joining, delivery: Delivery) -> None:
        if isinstance(delivery.event, AnswerArrived):
            delivery = replace(delivery, source=f"{delivery.source} answers")
        received(self, delivery)

    patch.setattr(Joining, "receive", receive)


def parts_forgotten_at_a_crash(patch: Patch) -> None:
    """What an earlier runner has read is not known to be a part of anything."""
    patch.setattr(Reading, "learn_again", lambda self, now: None)


def loads_that_divide(patch: Patch) -> None:
    """A view is put where its snapshots are, whatever they divide."""

    def cut(self: Cutting, numbers: Mapping[str, int], *_: object) -> LoadCut:
        return LoadCut(numbers)

    patch.setattr(Cutting, "cut", cut)


def parts_reflected_one_by_one(patch: Patch) -> None:
    """A vector has the first part of a transaction that is in, and not the others."""
    reflected = Maintenance._reflect

    def reflect(self: Maintenance, name: str, now: float, concerns: bool = True) -> None:
        self._known[name] = self._known[name][:1]
        reflected(self, name, now, concerns)

    patch.setattr(Maintenance, "_reflect", reflect)


def copies_at_the_last_commit(patch: Patch) -> None:
    """Questions are answered from copies as they are stored, without what was received since."""
    patch.setattr(Copied, "_ahead", lambda self, names: {})


def copies_with_what_is_committed_twice(patch: Patch) -> None:
    """What a commit stores of copied relations is still taken for not stored."""
    patch.setattr(Copied, "committed", lambda self: None)


def another_order_after_a_crash(patch: Patch) -> None:
    """What comes again is received in whatever order it comes."""
    patch.setattr(InArrivalOrder, "may_come", lambda self, source, number: True)


def loads_that_go_back(patch: Patch) -> None:
    """A snapshot that lacks what a view has shown already is as good as another."""
    opened = Loading.opened

    def anything(self: Loading, source: str, number: int | None) -> bool:
        self._floor = {}
        return opened(self, source, number)

    patch.setattr(Loading, "opened", anything)


def a_shared_snapshot_that_fits_one_view(patch: Patch) -> None:
    """Where it splits the order is told for the relations of one view, and taken for all."""

    def relations(self: Company, source: str) -> tuple[str, ...]:
        found = [relation for relation in self.views[0].relations if relation.source == source]
        return tuple(relation.name for relation in found)

    patch.setattr(Company, "relations", relations)


FAULTS: Mapping[str, Fault] = {
    fault.__name__.replace("_", " "): fault
    for fault in (
        identity_by_transaction_number,
        epoch_from_the_lease_file_alone,
        acknowledged_when_read,
        written_and_not_synced,
        unsynced_records_of_a_killed_runner,
        checkpoint_unsynced,
        columns_of_running_views_alone,
        holes_read_over,
        answer_inside_a_unit,
        answers_that_lack_what_was_received,
        answers_by_count,
        answers_where_their_view_stands,
        what_concerns_a_view_is_passed_over,
        a_replaced_runner_commits,
        a_replaced_runner_acknowledges,
        states_taken_together,
        watermark_that_jumps,
        vector_before_its_change,
        noted_before_it_is_settled,
        noted_before_it_is_logged,
        entries_put_before_they_are_synced,
        names_that_are_not_synced,
        folders_of_a_killed_runner,
        merged_transactions_of_no_concern,
        merged_transactions_behind_a_view,
        a_log_synced_before_it_is_read,
        a_replaced_runner_begins_a_segment,
        a_lost_answer_counts_as_refused,
        folded_files_go_first,
        a_replaced_runner_begins_a_log_anew,
        a_log_begun_anew_forgets_first,
        gaps_passed,
        tables_of_members_not_made_up,
        tail_not_looked_up,
        base_not_looked_up,
        halves_of_transactions_committed,
        parts_taken_by_themselves,
        answers_overtake_held_parts,
        parts_forgotten_at_a_crash,
        loads_that_divide,
        parts_reflected_one_by_one,
        copies_at_the_last_commit,
        copies_with_what_is_committed_twice,
        another_order_after_a_crash,
        loads_that_go_back,
        a_shared_snapshot_that_fits_one_view,
    )
}
