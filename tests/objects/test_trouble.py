"""A store that does not say what is there: that is never taken for damage."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from headwater.errors import BrokenLogError, EngineError, HeadwaterError
from headwater.protocol.transactions import Transaction, Update
from headwater.storage.bucket import DeniedError, StoreError, UnansweredError
from headwater.storage.clouds import CloudBucket
from headwater.storage.location import Location
from headwater.storage.objects import ObjectStorage
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.delta_log import DeltaLog
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.remaking import whole
from headwater.warehouse.warehouse import Warehouse
from tests.objects.servers import endpoint_of, location
from tests.warehouse.views import SCHEMA, definition, rows, vector

TROUBLES = [
    UnansweredError(None, "no answer", "s3://lake/x"),
    DeniedError(None, "the token has expired", "s3://lake/x"),
]


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    monkeypatch.setattr("headwater.storage.objects._TRIES", 1)
    with endpoint_of("small") as endpoint:
        yield location(endpoint)


@contextmanager
def silent(ending: str, trouble: StoreError) -> Iterator[None]:
    """No object whose key ends so can be read."""
    real = CloudBucket.get

    def get(bucket: CloudBucket, key: str, most: int | None = None) -> object:
        if key.endswith(ending):
            raise trouble
        return real(bucket, key, most)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CloudBucket, "get", get)
        yield


def cleaned(root: Location) -> None:
    """A view that is read from checkpoints: the entries before them are gone."""
    Warehouse(root).put(
        ViewLoad(
            definition("SELECT 1", "orders", SCHEMA),
            vector(0),
            rows({(1, "a"): 1}),
            algorithm="strobe",
            level="strong",
            runner="loader",
        )
    )
    view = Warehouse(root).view("orders")
    with view.writer("one") as writer:
        writer.commit(rows({(2, "b"): 1}), vector(1))
    view.fold(lambda: pytest.fail("no Spark"), "one")
    view.clean_up(timedelta(0), minimum_age=timedelta(0))


@pytest.mark.parametrize("trouble", TROUBLES, ids=["unanswered", "denied"])
def test_a_checkpoint_that_cannot_be_had_now_is_no_damaged_table(
    root: Location, trouble: StoreError
) -> None:
    cleaned(root)
    with silent(".checkpoint.parquet", trouble):
        with pytest.raises(HeadwaterError) as caught:
            Warehouse(root).view("orders").rows()
        assert not isinstance(caught.value, EngineError), caught.value
    assert Warehouse(root).view("orders").rows() == rows({(1, "a"): 1, (2, "b"): 1})


@pytest.mark.parametrize("trouble", TROUBLES, ids=["unanswered", "denied"])
def test_a_table_of_which_nothing_can_be_had_now_is_not_made_anew(
    root: Location, trouble: StoreError
) -> None:
    """What is not whole would be replaced."""
    cleaned(root)
    plain = Warehouse(root).view("orders").plain
    for ending in (".checkpoint.parquet", ".json"):
        with silent(ending, trouble), pytest.raises(HeadwaterError):
            whole(DeltaLog(plain.folder))
    assert whole(DeltaLog(plain.folder)) is not None


@pytest.mark.parametrize("trouble", TROUBLES, ids=["unanswered", "denied"])
def test_a_change_log_that_cannot_be_had_now_needs_no_repair(
    root: Location, trouble: StoreError
) -> None:
    log = ChangeLog(root / "changes", "s")
    log.open(1)
    delta = rows({(1, "x"): 1})
    log.append(
        [Change(1, Transaction("T1", (Update("s.r", delta),), ("s",), ("s",)), {"at": 1}, 1)]
    )
    with silent(".log", trouble), pytest.raises(HeadwaterError) as caught:
        ChangeLog(root / "changes", "s").scan()
    assert not isinstance(caught.value, BrokenLogError), caught.value


# Clocks


def test_a_clock_that_is_set_while_a_runner_runs_changes_no_age(
    root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x").write(b"")
    assert (root / "x").age_s() < 60
    clock = CloudBucket.clock
    for shift in (timedelta(hours=1), -timedelta(hours=1)):
        monkeypatch.setattr(
            CloudBucket, "clock", lambda bucket, by=shift: clock(bucket) + by.total_seconds()
        )
        assert isinstance(root.storage, ObjectStorage)
        assert abs((root / "x").age_s()) < 60
