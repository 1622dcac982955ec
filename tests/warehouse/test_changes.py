"""The change log: durable, ordered, and closed to a runner that was replaced."""

import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.errors import FencedError, HeadwaterError
from headwater.protocol.transactions import Transaction, Update
from headwater.warehouse import changes
from headwater.warehouse.changes import Change, ChangeLog, Progress, between

SCHEMA = Schema.of([("id", INT), ("name", TEXT)])


def change(number: int) -> Change:
    delta = Rows(SCHEMA, {(number, "é'\0"): 1, (number, None): -2})
    transaction = Transaction(f"t{number}", (Update("s.r", delta),), ("s",), ("s",))
    return Change(number, transaction, {"seq": 10 * number}, number + 100)


_OPEN: list[ChangeLog] = []


@pytest.fixture(autouse=True)
def _close_all() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def opened(folder: Path, epoch: int = 1) -> ChangeLog:
    log = ChangeLog(folder, "s")
    log.open(epoch)
    _OPEN.append(log)
    return log


def numbers(found: Sequence[Change]) -> list[int]:
    return [item.number for item in found]


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([change(1), change(2), Progress({"seq": 25})])
    assert list(ChangeLog(tmp_path, "s").read()) == [change(1), change(2)]
    assert list(log.read(after=1)) == [change(2)]


def test_a_new_runner_goes_on_where_the_log_ends(tmp_path: Path) -> None:
    opened(tmp_path).append([change(1), Progress({"seq": 15})])
    log = opened(tmp_path, epoch=2)
    assert (log.end, log.position) == (1, {"seq": 15})
    log.append([change(2)])
    assert numbers(list(log.read())) == [1, 2]


def test_the_position_survives_runners_that_append_nothing(tmp_path: Path) -> None:
    opened(tmp_path).append([change(1)])
    for epoch in (2, 3, 4):
        log = opened(tmp_path, epoch)
        assert (log.end, log.position) == (1, {"seq": 10})


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_record_that_was_cut_off_is_as_if_never_written(tmp_path: Path, lost: int) -> None:
    log = opened(tmp_path)
    log.append([change(1), change(2)])
    log.close()
    (path,) = tmp_path.glob("s/*.log")
    path.write_bytes(path.read_bytes()[:-lost])
    log = opened(tmp_path, epoch=2)
    assert log.end == 1
    log.append([change(2)])
    assert list(log.read()) == [change(1), change(2)]


def test_what_a_replaced_runner_still_appends_does_not_count(tmp_path: Path) -> None:
    old = opened(tmp_path)
    old.append([change(1)])
    new = opened(tmp_path, epoch=2)
    old.append([change(2), change(3)])
    assert numbers(list(new.read())) == [1]
    new.append([change(2)])
    found = list(ChangeLog(tmp_path, "s").read())
    assert numbers(found) == [1, 2]
    again = opened(tmp_path, epoch=3)
    assert again.end == 2


def test_segments_are_released_when_no_view_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_SEGMENT_BYTES", 1)
    log = opened(tmp_path)
    for number in range(1, 6):
        log.append([change(number)])
    assert log.release(upto=3, older_than_s=3600) == 0
    assert log.release(upto=3, older_than_s=0) > 0
    assert log.first <= 4
    assert numbers(list(log.read(after=3))) == [4, 5]


def test_a_gap_is_named(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([change(1)])
    with pytest.raises(HeadwaterError, match="no transaction 2"):
        list(between(log, 0, 2))
    assert numbers(list(between(log, 0, 1))) == [1]


def test_what_is_written_after_the_runner_was_replaced_does_not_count(tmp_path: Path) -> None:
    replaced: list[FencedError] = []

    def check() -> None:
        if replaced:
            raise replaced[0]

    log = ChangeLog(tmp_path, "s")
    _OPEN.append(log)
    log.open(1, check)
    log.append([change(1)])
    replaced.append(FencedError("Another runner has taken over."))
    successor = opened(tmp_path, epoch=2)
    with pytest.raises(FencedError):
        log.append([change(2)])
    assert log.end == 1
    assert successor.end == 1
    assert numbers(list(successor.read())) == [1]


def test_a_record_that_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([change(1)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(path.stat().st_size for path in tmp_path.rglob("*.log"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            log.append([change(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.close()
    assert numbers(list(opened(tmp_path, epoch=2).read())) == [1]
