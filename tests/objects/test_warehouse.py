"""A warehouse in an object store: tables, the change log and the lease, and who is refused."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headwater.algebra.rows import Rows
from headwater.errors import BusyError, FencedError, HeadwaterError, InputError
from headwater.protocol.transactions import Transaction, Update
from headwater.storage.location import Location
from headwater.storage.opening import opened
from headwater.warehouse.change_records import SEGMENT_START, Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.segments import segment_path
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.objects.proxy import faulty_proxy
from tests.objects.servers import address, endpoint_of, location, options, servers
from tests.warehouse.views import SCHEMA, definition, rows, vector


@pytest.fixture(params=[*servers(), pytest.param("faulty", marks=pytest.mark.stress)])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with endpoint_of("small" if request.param == "faulty" else request.param) as found:
        if request.param == "faulty":
            with faulty_proxy(found, share=0.1) as proxy:
                yield proxy.endpoint
        else:
            yield found


@pytest.fixture
def root(endpoint: str) -> Location:
    return location(endpoint)


def no_spark() -> None:
    raise AssertionError("a small view needs no Spark")


def load(root: Location, contents: Rows) -> ViewTable:
    loaded = ViewLoad(
        definition("SELECT 1", "orders", SCHEMA),
        vector(0),
        contents,
        algorithm="strobe",
        level="strong",
        runner="loader",
    )
    return Warehouse(root).put(loaded)


def shown(endpoint: str) -> list[tuple[object, ...]]:
    """What another reader finds in the plain table."""
    told = {**options(endpoint), "aws_allow_http": "true"}
    table = DeltaTable(f"{address(endpoint)}/orders", storage_options=told)
    found = table.to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["name"]) for row in found)


def test_a_view_is_loaded_changed_folded_and_read_by_others(root: Location, endpoint: str) -> None:
    view = load(root, rows({(1, "a"): 1, (2, "b"): 2}))
    with view.writer("one") as writer:
        writer.commit(rows({(1, "a"): -1, (3, "c"): 1}), vector(1))
    again = Warehouse(root).view("orders")
    assert again.rows() == rows({(2, "b"): 2, (3, "c"): 1})
    assert again.latest().vector == vector(1)
    again.fold(no_spark, "one")  # type: ignore[arg-type]  # must not be called
    assert again.rows() == rows({(2, "b"): 2, (3, "c"): 1})
    assert shown(endpoint) == [(2, "b"), (2, "b"), (3, "c")]


def test_a_view_that_is_dropped_and_loaded_anew_is_the_new_one(
    root: Location, endpoint: str
) -> None:
    load(root, rows({(1, "a"): 1}))
    warehouse = Warehouse(root)
    warehouse.drop("orders")
    assert warehouse.view_names() == []
    with pytest.raises(InputError, match="no view 'orders'"):
        warehouse.drop("orders")
    view = load(root, rows({(2, "b"): 1}))
    assert view.rows() == Warehouse(root).view("orders").rows() == rows({(2, "b"): 1})
    assert shown(endpoint) == [(2, "b")]


def test_a_writer_that_slept_through_a_drop_and_a_load_commits_nothing(root: Location) -> None:
    old = load(root, rows({(1, "a"): 1}))
    late = old.writer("late")
    Warehouse(root).drop("orders")
    view = load(root, rows({(2, "b"): 1}))
    with pytest.raises(FencedError):
        late.commit(rows({(9, "z"): 1}), vector(1))
    assert view.rows() == Warehouse(root).view("orders").rows() == rows({(2, "b"): 1})


def test_a_writer_that_was_replaced_commits_nothing(root: Location) -> None:
    view = load(root, rows({}))
    late = view.writer("late")
    with Warehouse(root).view("orders").writer("present") as present:
        present.commit(rows({(1, "a"): 1}), vector(1))
    with pytest.raises(FencedError):
        late.commit(rows({(9, "z"): 1}), vector(1))
    assert Warehouse(root).view("orders").rows() == rows({(1, "a"): 1})


def test_clean_up_leaves_what_is_shown_and_forgets_the_rest(root: Location) -> None:
    view = load(root, rows({(1, "a"): 1}))
    with view.writer("one") as writer:
        for number in range(1, 4):
            writer.commit(rows({(number + 1, "b"): 1}), vector(number))
        view.fold(no_spark, "one")  # type: ignore[arg-type]  # must not be called
        view.clean_up(timedelta(0), minimum_age=timedelta(0))
        writer.commit(rows({(9, "z"): 1}), vector(4))
    again = Warehouse(root).view("orders")
    assert again.rows() == rows(
        {(n, "a" if n == 1 else "b"): 1 for n in range(1, 5)} | {(9, "z"): 1}
    )


def test_what_a_job_wrote_before_clean_up_took_its_version_is_not_committed(
    root: Location,
) -> None:
    """The entry waits behind its last look while clean-up deletes what it names."""
    view = load(root, rows({(1, "a"): 1}))
    file = view.plain.folder / "late.parquet"
    file.write(b"not named yet")
    version = view.plain.snapshot().version + 1
    Warehouse(root).view("orders").clean_up(timedelta(0), minimum_age=timedelta(0))
    assert not file.exists()
    assert not view.plain.put(version, [])


# The change log and the lease


def change(number: int) -> Change:
    delta = rows({(number, "x"): 1})
    transaction = Transaction(f"T{number}", (Update("s.r", delta),), ("s",), ("s",))
    return Change(number, transaction, {"at": number}, number)


def numbers(root: Location) -> list[int]:
    return [found.number for found in ChangeLog(root, "s").read()]


def test_the_change_log_goes_on_where_another_runner_left_it(root: Location) -> None:
    first, second = ChangeLog(root, "s"), ChangeLog(root, "s")
    first.open(1)
    first.append([change(1), change(2)])
    second.open(2)
    second.append([change(3)])
    first.append([change(3)])  # late: it counts for nothing
    assert numbers(root) == [1, 2, 3]
    assert second.position == {"at": 3}


def test_a_segment_that_a_replaced_runner_begins_late_counts_for_nothing(root: Location) -> None:
    first, present = ChangeLog(root, "s"), ChangeLog(root, "s")
    first.open(1)
    first.append([change(1), change(2)])
    present.open(3)
    present.append([change(3)])
    segment_path(root / "s", 2, 2).write(SEGMENT_START)  # of epoch 2, which had seen one number
    assert numbers(root) == [1, 2, 3]


def test_of_two_that_claim_the_lease_one_has_it(root: Location) -> None:
    first, second = LeaseClaim(root), LeaseClaim(root)
    first.acquire()
    with pytest.raises(BusyError):
        second.acquire()
    first.release()
    second.acquire()
    assert second.epoch == first.epoch + 1
    with pytest.raises(FencedError):
        first.check()
    assert not first.renew()
    assert second.renew()


# Errors


def test_a_bucket_that_is_missing_is_told() -> None:
    with endpoint_of("small") as endpoint:
        place = opened("s3://other/x", Path(), options(endpoint))
        with pytest.raises(InputError, match="no bucket or container 'other'"):
            Warehouse(place)


def test_a_store_that_does_not_answer_is_told_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.storage.objects._TRIES", 2)
    place = opened("s3://lake/x", Path(), options("http://127.0.0.1:9"))
    with pytest.raises(HeadwaterError, match="does not answer") as caught:
        Warehouse(place)
    assert options("")["aws_secret_access_key"] not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ftp://lake/x", "a kind that is not known"),
        ("s3://key:secret@lake/x", "secret or options"),
        ("az://lake/x?sig=secret", "secret or options"),
        ("s3:///x", "names no bucket"),
    ],
)
def test_an_address_that_cannot_be_is_refused_and_not_repeated(address: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        opened(address, Path(), {})
    assert "secret@" not in str(caught.value)
    assert "sig=" not in str(caught.value)
