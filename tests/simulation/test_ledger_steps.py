"""What the ledger promises wherever it is cut short, at each step of one operation."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.errors import FencedError
from headwater.pipeline.repair import begin_anew
from headwater.protocol.transactions import Transaction, Update
from headwater.simulation.disk import Disk, Mount
from headwater.simulation.process import SimulatedHost
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location
from headwater.warehouse.change_records import SEGMENT_START, Change, batch_of
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.segments import segment_path


class CutError(Exception):
    """The power is gone."""


def log_on(disk: Disk, steps: int | None = None) -> ChangeLog:
    """A change log of which only so many steps are taken."""
    left = [steps]

    def interrupt(step: str, path: Path) -> None:
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise CutError

    return ChangeLog(Location(Path("/w"), LocalStorage(system=Mount(disk, interrupt))), "s")


def change(number: int) -> Change:
    delta = Rows(Schema.of([("k", INT)]), {(number,): 1})
    transaction = Transaction(f"T{number}", (Update("s.r", delta),), ("s",), ("s",))
    return Change(number, transaction, {"at": number}, number)


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_was_being_begun_anew_is_whole_wherever_that_was_cut_short(
    after: int, seed: int
) -> None:
    for steps in range(100):
        disk = Disk()
        log = log_on(disk)
        log.open(2)
        log.append([change(1), change(2)])
        log.close()
        segment_path(log._folder, 1, 9).write(SEGMENT_START)  # of a runner that was replaced
        try:
            log_on(disk, steps).begin_anew("it was repaired.", after, 3)
        except CutError:
            disk.crash(Random(seed))
        else:
            break
        log = log_on(disk)
        log.open(4)
        assert log.end in (2, 3)
        assert [record.number for record in log.read(log.first - 1)][-1] == log.end
    assert steps > 10


def test_a_log_that_views_have_outrun_can_be_opened_wherever_beginning_it_anew_was_cut_short() -> (
    None
):
    for steps in range(100):
        disk = Disk()
        log = log_on(disk)
        log.open(2)
        log.append([change(1), change(2)])
        try:
            log_on(disk, steps).begin_anew("it was lost.", 7, 3)
        except CutError:
            disk.crash(Random(steps))
        else:
            break
        log = log_on(disk)
        log.open(4)
        assert log.end in (2, 8)
    assert steps > 10


@pytest.mark.parametrize("seed", range(5))
def test_what_a_replaced_runner_still_writes_while_a_log_is_opened_is_durable_if_it_counts(
    seed: int,
) -> None:
    for at in range(100):
        disk = Disk()
        replaced = log_on(disk)
        replaced.open(1)
        replaced.append([change(1)])
        steps = iter(range(1000))

        def interrupt(
            step: str, path: Path, replaced: ChangeLog = replaced, steps: Any = steps, at: int = at
        ) -> None:
            if next(steps) == at:  # it is killed before it syncs this
                file: Any = replaced._file
                file._file.write(batch_of([change(2)], replaced._size))

        log = ChangeLog(Location(Path("/w"), LocalStorage(system=Mount(disk, interrupt))), "s")
        log.open(2)
        disk.crash(Random(seed))
        again = log_on(disk)
        again.open(3)
        assert [record.number for record in again.read(0)] == list(range(1, log.end + 1))
        if next(steps) < at:
            break
    assert at > 5


def test_a_replaced_runner_that_goes_on_late_ends_nothing_that_a_later_one_built_on() -> None:
    disk, present = Disk(), [2]

    def guard(epoch: int) -> AbstractContextManager[None]:
        if present[0] > epoch:
            raise FencedError("replaced", "")
        return nullcontext()

    first, third = log_on(disk), log_on(disk)
    first.open(1)
    first.append([change(1)])

    def stand(step: str, path: Path) -> None:
        """The second runner has read the log, and stands while others go on."""
        if step == "sync" and path.suffix == ".log" and present[0] == 2:
            first.append([change(2)])
            present[0] = 3
            third.open(3, guard=partial(guard, 3))

    second = ChangeLog(Location(Path("/w"), LocalStorage(system=Mount(disk, stand))), "s")
    with pytest.raises(FencedError):
        second.open(2, guard=partial(guard, 2))
    assert third.end == 2
    assert [record.number for record in third.read(0)] == [1, 2]


def test_a_replaced_runner_begins_no_log_anew() -> None:
    disk, alive = Disk(), {1, 2}
    own = Location(Path("/w/_headwater"), LocalStorage(system=Mount(disk, lambda step, path: None)))
    replaced, present = (LeaseClaim(own, SimulatedHost(pid, alive)) for pid in (1, 2))
    replaced.acquire()
    alive.remove(1)
    present.acquire()
    log = log_on(disk)
    log.open(present.epoch)
    log.append([change(1), change(2)])
    with pytest.raises(FencedError):
        begin_anew(log_on(disk), replaced, "it was repaired.", 2)
    assert [record.number for record in log_on(disk).read(0)] == [1, 2]
