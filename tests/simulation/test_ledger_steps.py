"""What the ledger promises wherever it is cut short, at each step of one operation."""

from pathlib import Path
from random import Random

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.protocol.transactions import Transaction, Update
from headwater.simulation.disk import Disk, Mount
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location
from headwater.warehouse.change_records import SEGMENT_START, Change
from headwater.warehouse.changes import ChangeLog
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
