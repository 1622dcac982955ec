"""What a view's tables promise when what one process has begun is built on by another."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import NoReturn

import pytest

from headwater.algebra.rows import Rows
from headwater.errors import FencedError
from headwater.simulation.disk import Disk, Interrupt, Mount
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location
from headwater.warehouse.files import renewed, write_contents
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import definition, rows, vector

Work = Callable[[ViewTable], None]
LOG = Path("/w/_headwater/views/orders/_delta_log")
OLD, CHANGE, NEW = rows({(1, "a"): 1}), rows({(2, "b"): 1}), rows({(3, "c"): 1})


class CutError(Exception):
    """The process is no more."""


def warehouse_on(disk: Disk, interrupt: Interrupt = lambda step, path: None) -> Warehouse:
    return Warehouse(Location(Path("/w"), LocalStorage(system=Mount(disk, interrupt))))


def view_on(disk: Disk, interrupt: Interrupt = lambda step, path: None) -> ViewTable:
    return warehouse_on(disk, interrupt).view("orders")


def cut_after(steps: int) -> Interrupt:
    left = iter(range(steps))

    def interrupt(step: str, path: Path) -> None:
        if next(left, None) is None:
            raise CutError

    return interrupt


def cut_before_synced(version: int) -> Interrupt:
    """An entry of the signed log has its name, which is not on the disk."""
    linked: list[Path] = []

    def interrupt(step: str, path: Path) -> None:
        if step == "sync" and path == LOG and LOG / f"{version:020}.json" in linked:
            raise CutError
        if step == "link":
            linked.append(path)

    return interrupt


def load_of(contents: Rows) -> ViewLoad:
    return ViewLoad(definition(), vector(0), contents, "strobe", "strong", "r")


def loaded() -> Disk:
    disk = Disk()
    warehouse_on(disk).put(load_of(OLD))
    return disk


def no_spark() -> NoReturn:
    raise AssertionError("small views need no Spark")


def reload(view: ViewTable) -> None:
    view.replace(load_of(NEW))


def commit(view: ViewTable) -> None:
    writer = view.writer("killed")
    writer.commit(CHANGE, vector(1))


def compact(view: ViewTable) -> None:
    view.compact(at_least=1)


def open_(view: ViewTable) -> None:
    view.writer("next").close()


def fold(view: ViewTable) -> None:
    view.fold(no_spark, "next")


def clean_up(view: ViewTable) -> None:
    view.clean_up(timedelta(0))


@pytest.mark.parametrize("built", [open_, fold, clean_up])
@pytest.mark.parametrize(("begun", "version"), [(reload, 1), (commit, 2)])
def test_what_a_killed_process_has_committed_is_on_the_disk_before_other_tables_follow(
    begun: Work, version: int, built: Work
) -> None:
    started = loaded()
    with pytest.raises(CutError):
        begun(view_on(started, cut_before_synced(version)))
    started.now += 7200.0
    is_whole = False
    for steps in count():
        disk = deepcopy(started)
        try:
            built(view_on(disk, cut_after(steps)))
            is_whole = True
        except CutError:
            pass
        for seed in range(3):
            lost = deepcopy(disk)
            lost.crash(Random(seed))
            open_(view_on(lost))
            assert view_on(lost).rows() in (OLD, OLD + CHANGE, NEW)
        if is_whole:
            break
    assert steps > 5


@pytest.mark.parametrize("late", [reload, commit, fold, compact])
def test_a_process_that_stands_still_for_hours_commits_no_file_that_was_cleaned_up(
    late: Work,
) -> None:
    started = loaded()
    if late in (fold, compact):
        commit(view_on(started))
    taken = refused = 0
    for at in count():
        disk = deepcopy(started)
        steps = count()
        try:
            late(view_on(disk, partial(stand_at, at, steps, disk)))
            taken += 1
        except FencedError:
            refused += 1
        view = view_on(disk)
        open_(view)
        assert view.rows() in (OLD, OLD + CHANGE, NEW)
        if next(steps) <= at:
            break
    assert taken
    assert refused


def stand_at(at: int, steps: Iterator[int], disk: Disk, step: str, path: Path) -> None:
    """At one step others go on for hours, and clean up."""
    if next(steps) == at:
        disk.now += 7200.0
        clean_up(view_on(disk))


@pytest.mark.parametrize(("late", "version"), [(reload, 1), (commit, 2)])
def test_an_entry_that_gets_its_name_while_others_clean_up_has_its_files(
    late: Work, version: int
) -> None:
    for at in count():
        disk, standing = loaded(), Standing(LOG / f"{version:020}.json")
        standing.start(late, view_on(disk, standing.stand))
        disk.now += 7200.0
        steps = count()
        clean_up(view_on(disk, partial(go_on_at, at, steps, standing)))
        standing.go_on()
        open_(view_on(disk))
        if next(steps) <= at:
            break
    assert at > 3


class Standing:
    """A process that stands still before an entry gets its name, until it may go on."""

    def __init__(self, entry: Path) -> None:
        self._entry = entry
        self._stands, self._goes_on = Event(), Event()

    def start(self, work: Work, view: ViewTable) -> None:
        def ended() -> None:
            with suppress(FencedError):
                work(view)

        self._thread = Thread(target=ended)
        self._thread.start()
        assert self._stands.wait(60)

    def stand(self, step: str, path: Path) -> None:
        if (step, path) == ("link", self._entry):
            self._stands.set()
            assert self._goes_on.wait(60)

    def go_on(self) -> None:
        self._goes_on.set()
        self._thread.join(60)


def go_on_at(at: int, steps: Iterator[int], standing: Standing, step: str, path: Path) -> None:
    if next(steps) == at:
        standing.go_on()


def test_files_that_had_to_wait_are_young_again_under_another_name() -> None:
    disk = loaded()
    folder = view_on(disk).plain.folder
    old = write_contents(NEW, NEW.schema, folder, folder)
    disk.now += 7200.0
    young = write_contents(CHANGE, CHANGE.schema, folder, folder)
    found = renewed(folder, [*old, *young])
    assert [(folder / file.name).age_s() for file in found] == [0.0, 0.0]
    assert [file.name for file in found if file in young] == [file.name for file in young]
    assert not (folder / old[0].name).exists()
