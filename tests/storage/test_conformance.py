"""What every storage promises: a folder of this machine, an object store, and one that is ill."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.storage.location import Location
from tests.objects.proxy import faulty_proxy
from tests.objects.servers import endpoint_of, location, servers

KINDS = ["folder", *servers(), "faulty"]


@pytest.fixture(params=KINDS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    match request.param:
        case "folder":
            yield Location.of(tmp_path)
        case "faulty":
            with endpoint_of("small") as endpoint, faulty_proxy(endpoint) as proxy:
                yield location(proxy.endpoint)
        case kind:
            with endpoint_of(kind) as endpoint:
                yield location(endpoint)


def test_a_file_is_put_where_there_is_none_and_by_one_alone(root: Location) -> None:
    assert (root / "x").put_if_absent(b"first")
    assert not (root / "x").put_if_absent(b"second")
    assert (root / "x").read(100) == b"first"


def test_of_many_that_put_a_file_at_once_one_does(root: Location) -> None:
    for at in range(5):
        winners: list[int] = []
        start = threading.Barrier(8)

        def put(number: int, at: int = at, start: threading.Barrier = start) -> None:
            start.wait()
            if (root / f"{at}").put_if_absent(f"{number}".encode()):
                winners.append(number)  # noqa: B023 # joined before the next round

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [f"{number}".encode() for number in winners] == [(root / f"{at}").read(100)]


def test_a_file_is_replaced_only_as_it_was_seen(root: Location) -> None:
    file = root / "x"
    first = file.replace_if(b"1", None)
    assert first is not None
    assert file.replace_if(b"2", None) is None
    second = file.replace_if(b"2", first)
    assert second is not None
    assert file.replace_if(b"3", first) is None
    assert file.stamped() == (b"2", second)


def test_a_file_grows_by_what_is_appended_to_it(root: Location) -> None:
    growing = (root / "log").appending()
    growing.append(b"ab")
    growing.append(b"cd")
    growing.truncate(3)
    growing.close()
    again = (root / "log").appending()
    again.append(b"e")
    again.close()
    assert (root / "log").read(100) == b"abce"


def test_a_folder_has_what_was_put_there(root: Location) -> None:
    for path in (root / "a" / "x", root / "a" / "b" / "y"):
        path.parent.make_folder()
        path.write(b"12")
    assert sorted((root / "a").names()) == ["b", "x"]
    assert {name: found.is_folder for name, found in (root / "a").listed().items()} == {
        "x": False,
        "b": True,
    }
    assert (root / "a").is_folder()
    assert (root / "a" / "x").size() == 2
    assert (root / "c").listed() == {}
    assert not (root / "c").exists()
    (root / "a").remove_tree()
    assert not (root / "a" / "b" / "y").exists()


def test_what_is_missing_is_missing(root: Location) -> None:
    with pytest.raises(FileNotFoundError):
        (root / "x").open()
    assert (root / "x").stamped() == (b"", None)
    (root / "x").remove()


def test_a_file_that_is_adopted_is_young(root: Location) -> None:
    (root / "x").write(b"12")
    (root / "x").adopt(root / "y")
    assert not (root / "x").exists()
    assert (root / "y").read(100) == b"12"
    assert (root / "y").age_s() < 60


def test_a_file_that_is_kept_is_gone_afterwards(root: Location) -> None:
    with (root / "pin").keep():
        assert (root / "pin").is_kept()
    assert not (root / "pin").is_kept()
