"""The change log: durable, ordered, and closed to a runner that was replaced."""

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.errors import BrokenLogError, FencedError, HeadwaterError
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.storage.local import AppendedFile
from headwater.storage.location import Location
from headwater.storage.system import Posix
from headwater.warehouse.change_records import Break, Change, PositionRecord, stored_in
from headwater.warehouse.changes import ChangeLog, between

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


def numbers(found: Sequence[Change | Break]) -> list[int]:
    return [item.number for item in found]


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([change(1), change(2), PositionRecord({"seq": 25})])
    assert list(ChangeLog(tmp_path, "s").read()) == [change(1), change(2)]
    assert list(log.read(after=1)) == [change(2)]


def test_what_an_earlier_runner_wrote_is_synced_before_it_is_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been killed between writing and syncing."""
    opened(tmp_path).append([change(1)])
    (segment,) = tmp_path.glob("s/*.log")
    synced: list[Path] = []
    sync = Posix.sync

    def noted(self: Posix, path: Path) -> None:
        synced.append(path)
        sync(self, path)

    monkeypatch.setattr(Posix, "sync", noted)
    opened(tmp_path, 2)
    assert synced.index(segment) < synced.index(segment.parent)


def test_what_is_released_goes_in_order_also_at_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        opened(tmp_path, number).append([change(number)])
    done: list[str] = []
    unlink, sync = Posix.unlink, Posix.sync

    def noted_unlink(self: Posix, path: Path) -> None:
        done.append("unlink")
        unlink(self, path)

    def noted_sync(self: Posix, path: Path) -> None:
        done.append("sync")
        sync(self, path)

    monkeypatch.setattr(Posix, "unlink", noted_unlink)
    monkeypatch.setattr(Posix, "sync", noted_sync)
    assert ChangeLog(tmp_path, "s").release(2, 0.0) == 2
    assert done == ["unlink", "sync"] * 2


def test_a_start_that_a_loss_of_power_has_left_as_zeros_is_none(tmp_path: Path) -> None:
    opened(tmp_path).append([change(1)])
    (tmp_path / "s" / f"{2:08}-{2:020}.log").write_bytes(bytes(12))
    assert numbers(list(opened(tmp_path, 3).read())) == [1]


def test_a_new_runner_goes_on_where_the_log_ends(tmp_path: Path) -> None:
    opened(tmp_path).append([change(1), PositionRecord({"seq": 15})])
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
    (path,) = tmp_path.glob("s/*.log")
    written = path.read_bytes()
    log.close()
    path.write_bytes(written[:-lost])
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
    monkeypatch.setattr(AppendedFile, "most_bytes", 1)
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


# Gaps, and transactions that a source could not tell apart


def test_a_gap_has_a_number_of_its_own_in_the_order(tmp_path: Path) -> None:
    log = opened(tmp_path)
    gaps = [
        Break(2, {"s.r": frozenset({"name"}), "s.q": None}, "TRUNCATE", {"seq": 21}, 102),
        Break(3, {"s.r": frozenset()}, "nothing", {"seq": 22}, 103),
        Break(4, None, "repaired", {"seq": 23}),
    ]
    log.append([change(1), *gaps, change(5)])
    assert list(ChangeLog(tmp_path, "s").read()) == [change(1), *gaps, change(5)]
    assert list(between(log, 1, 3)) == gaps[:2]
    assert opened(tmp_path, epoch=2).end == 5


def test_merged_transactions_keep_their_first_stamp(tmp_path: Path) -> None:
    merged = replace(change(1), others=(7,))
    opened(tmp_path).append([merged])
    assert list(ChangeLog(tmp_path, "s").read()) == [merged]


# Holes


def test_tags_are_kept_with_what_their_transaction_has_touched(tmp_path: Path) -> None:
    """Also what changed nothing in the end; logs from before there were tags have none."""
    nothing = Update("s.other", Rows.empty(change(1).transaction.updates[0].delta.schema))
    tags = (Tag("g", 2), Tag("", 0, "it is not JSON"))
    tagged = replace(
        change(1).transaction, tags=tags, updates=(*change(1).transaction.updates, nothing)
    )
    opened(tmp_path).append([replace(change(1), transaction=tagged), change(2)])
    for read in (ChangeLog(tmp_path, "s").read, ChangeLog(tmp_path, "s").heads):
        first, second = read(0)
        assert isinstance(first, Change)
        assert isinstance(second, Change)
        assert (first.transaction.tags, second.transaction.tags) == (tags, ())
        assert "s.other" in [update.relation for update in first.transaction.updates]


def damaged(folder: Path, number: int) -> Path:
    """Flip a byte in the middle of a record."""
    for path in sorted(folder.glob("s/*.log")):
        for stored in stored_in(Location.of(path)):
            if stored.number == number:
                data = bytearray(path.read_bytes())
                data[(stored.offset + stored.end) // 2] ^= 1
                path.write_bytes(data)
                return path
    raise AssertionError


def separately(log: ChangeLog, *found: int) -> None:
    for number in found:
        log.append([change(number)])


def test_a_damaged_record_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    separately(opened(tmp_path), 1, 2, 3)
    path = damaged(tmp_path, 2)
    log = ChangeLog(tmp_path, "s")
    place = rf"damaged: {path} at byte \d+.*headwater repair s"
    found = log.read()
    assert next(found) == change(1)
    with pytest.raises(BrokenLogError, match=place):
        next(found)
    with pytest.raises(BrokenLogError, match=place):
        log.scan()
    with pytest.raises(BrokenLogError, match=place):
        log.open(2)
    with pytest.raises(BrokenLogError, match=place):
        list(between(log, 0, 3))


def test_a_damaged_length_is_found_too(tmp_path: Path) -> None:
    separately(opened(tmp_path), 1, 2, 3)
    (path,) = tmp_path.glob("s/*.log")
    at = next(stored.offset for stored in stored_in(Location.of(path)) if stored.number == 2)
    data = bytearray(path.read_bytes())
    data[at + 4 : at + 8] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)
    with pytest.raises(BrokenLogError, match=f"at byte {at}"):
        list(ChangeLog(tmp_path, "s").read())


def test_a_damaged_last_record_of_a_closed_log_is_not_taken_for_cut_off(tmp_path: Path) -> None:
    log = opened(tmp_path)
    separately(log, 1, 2)
    log.close()
    damaged(tmp_path, 2)
    with pytest.raises(BrokenLogError, match="damaged"):
        ChangeLog(tmp_path, "s").scan()


def test_what_a_later_segment_shows_to_be_missing_is_an_error(tmp_path: Path) -> None:
    separately(opened(tmp_path), 1, 2)
    separately(opened(tmp_path, epoch=2), 3, 4)
    path = min(tmp_path.glob("s/*.log"))
    offset = next(stored.offset for stored in stored_in(Location.of(path)) if stored.number == 2)
    path.write_bytes(path.read_bytes()[:offset])
    log = ChangeLog(tmp_path, "s")
    log.scan()
    assert log.end == 4
    for search in (log.read(), log.read(1), between(log, 0, 4)):
        with pytest.raises(BrokenLogError, match=f"lacks transaction 2, which should be in {path}"):
            list(search)
    assert numbers(list(log.read(2))) == [3, 4]


def test_a_segment_that_is_missing_is_an_error(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        separately(opened(tmp_path, epoch), epoch)
    sorted(tmp_path.glob("s/*.log"))[1].unlink()
    with pytest.raises(BrokenLogError, match="lacks transaction 2"):
        list(ChangeLog(tmp_path, "s").read())


def test_a_number_that_was_left_out_is_an_error(tmp_path: Path) -> None:
    separately(opened(tmp_path), 1, 3)
    log = ChangeLog(tmp_path, "s")
    with pytest.raises(BrokenLogError, match="lacks transaction 2"):
        list(log.read())
    with pytest.raises(BrokenLogError, match="lacks transaction 2"):
        log.scan()


def test_what_a_power_loss_left_out_of_the_last_batch_counts_for_nothing(tmp_path: Path) -> None:
    """Blocks of a batch that was never reported durable reach the disk in any order."""
    log = opened(tmp_path)
    log.append([change(1)])
    log.append([change(2), change(3), change(4)])
    (path,) = tmp_path.glob("s/*.log")
    written = path.read_bytes()
    log.close()
    path.write_bytes(written)
    damaged(tmp_path, 2)
    log = opened(tmp_path, epoch=2)
    assert log.end == 1
    separately(log, 2)
    assert numbers(list(log.read())) == [1, 2]


def test_a_log_that_is_opened_again_goes_on_behind_what_a_failed_append_left(
    tmp_path: Path,
) -> None:
    log = opened(tmp_path)
    log.close()
    (path,) = tmp_path.glob("s/*.log")
    with path.open("ab") as file:
        file.write(b"\xa9hw\ncut off")
    log = opened(tmp_path)
    separately(log, 1, 2)
    assert numbers(list(log.read())) == [1, 2]


def test_a_segment_of_another_format_is_refused(tmp_path: Path) -> None:
    separately(opened(tmp_path), 1)
    (path,) = tmp_path.glob("s/*.log")
    data = bytearray(path.read_bytes())
    data[8] = 9
    path.write_bytes(data)
    with pytest.raises(
        BrokenLogError, match=rf"{path} has the format 9, .* reads format 1: .*upgrade Headwater"
    ):
        ChangeLog(tmp_path, "s").scan()
    path.write_bytes(b"something else altogether")
    with pytest.raises(BrokenLogError, match="begins with something else"):
        list(ChangeLog(tmp_path, "s").read())


def test_a_log_begun_anew_counts_on_behind_everything(tmp_path: Path) -> None:
    separately(opened(tmp_path), 1, 2, 3)
    damaged(tmp_path, 2)
    log = ChangeLog(tmp_path, "s")
    _OPEN.append(log)
    log.begin_anew("it was lost.", 2, epoch=1)
    assert (log.end, log.position) == (4, {})
    log.append([change(5)])
    assert numbers(list(ChangeLog(tmp_path, "s").read())) == [4, 5]
    with pytest.raises(HeadwaterError, match="no transaction 3 any more"):
        list(log.read(2))
    assert opened(tmp_path, epoch=2).end == 5


def test_what_is_not_kept_any_more_is_not_read_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppendedFile, "most_bytes", 1)
    log = opened(tmp_path)
    separately(log, 1, 2, 3)
    log.release(upto=2, older_than_s=0)
    assert numbers(list(log.read())) == [3]
    with pytest.raises(HeadwaterError, match="no transaction 2 any more"):
        list(log.read(1))


def test_a_reader_beside_the_writer_never_sees_a_hole(tmp_path: Path) -> None:
    """Appends arrive in pieces; a reader finds a prefix, and never damage."""
    log = opened(tmp_path)
    done = threading.Event()
    seen: list[int] = []
    failures: list[BaseException] = []

    def follow() -> None:
        reader = ChangeLog(tmp_path, "s")
        try:
            while not done.is_set() or len(seen) < 300:
                seen.extend(numbers(list(reader.read(len(seen)))))
                reader.scan()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    for first in range(1, 301, 3):
        log.append([change(number) for number in range(first, first + 3)])
    done.set()
    thread.join(120)
    assert not failures
    assert seen == list(range(1, 301))


# Pins


def test_what_is_pinned_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppendedFile, "most_bytes", 1)
    log = opened(tmp_path)
    separately(log, *range(1, 6))
    with ChangeLog(tmp_path, "s").pinned(2):
        log.release(upto=5, older_than_s=0)
        assert numbers(list(log.read(2))) == [3, 4, 5]
        assert log.first == 3
    assert log.release(upto=5, older_than_s=0, pins=[3]) == 1
    assert log.first == 4
    log.release(upto=5, older_than_s=0)
    assert log.first > 4


def test_a_pin_of_a_process_that_died_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppendedFile, "most_bytes", 1)
    log = opened(tmp_path)
    separately(log, *range(1, 6))
    code = (
        "import sys, pathlib, time; from headwater.warehouse.changes import ChangeLog\n"
        "with ChangeLog(pathlib.Path(sys.argv[1]), 's').pinned(2):\n"
        "    print('pinned', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "pinned\n"
        log.release(upto=5, older_than_s=0)
        assert log.first == 3
        process.kill()
        process.wait()
    log.release(upto=5, older_than_s=0)
    assert log.first > 3
    assert not list(tmp_path.glob("s/*.pin"))
