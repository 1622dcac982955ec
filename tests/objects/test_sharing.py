"""Nodes that meet by an object store: one puts its objects there, others take them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.sharing import SharingNode
from headwater.sharing.errors import DamagedObjectError, ForeignObjectError, PeerError
from headwater.sharing.following import catch_up
from headwater.sharing.stores import StorePeer, mirror
from headwater.storage.location import Location
from tests.cli.commands import quick
from tests.objects import servers
from tests.objects.server import BUCKET
from tests.sharing.genes import V1, node, owners, rename


@pytest.fixture(scope="module", params=servers.servers())
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with servers.endpoint_of(request.param) as found:
        yield found


@pytest.fixture
def address(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A place in the store, which the environment has the options for."""
    for name, value in servers.options(endpoint).items():
        shown = name.upper() if name != "allow_http" else "AWS_ALLOW_HTTP"
        monkeypatch.setenv(shown, value)
        if servers.is_azure(endpoint):
            monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    return servers.address(endpoint, f"share/{tmp_path.name}")


@pytest.fixture
def n1(tmp_path: Path) -> SharingNode:
    found, *_ = owners(tmp_path)
    rename(found)
    return found


def stored(endpoint: str, address: str) -> Location:
    return servers.location(endpoint, "share") / address.rpartition("/")[2]


def test_what_one_puts_there_another_takes(tmp_path: Path, n1: SharingNode, address: str) -> None:
    n4 = node(tmp_path, "N4")
    assert mirror(n1.catalog, address)["updategram"] == 1
    with closing(StorePeer(address)) as peer:
        assert n4.take(peer).taken == {"node": 3, "relation": 3, "contents": 3, "updategram": 1}
        n1.update("Genes", inserted=[(8, "NEW", "1p1")])
        assert mirror(n1.catalog, address) == {"updategram": 1}
        assert mirror(n1.catalog, address) == {}
        assert n4.take(peer).taken == {"updategram": 1}
        assert n4.take(peer).taken == {}
    assert n1.catalog.addresses() < n4.catalog.addresses()


def test_nothing_private_is_put_there(
    tmp_path: Path, n1: SharingNode, address: str, endpoint: str
) -> None:
    mirror(n1.catalog, address)
    there = stored(endpoint, address)
    assert set(there.names()) == {"node.json", "addresses", "listing", "objects"}


def test_a_view_takes_what_it_needs_from_a_store(
    tmp_path: Path, n1: SharingNode, address: str
) -> None:
    n1.define("V1", V1)
    n1.hold("V1")
    n1.publish("V1")
    mirror(n1.catalog, address)
    n4 = node(tmp_path, "N4")
    with closing(StorePeer(address)) as peer:
        done = catch_up(n4, peer, ["V1"])
    assert done.copied.taken["contents"] == 1
    assert n4.held("V1") == n1.held("V1")


def test_a_put_that_was_not_finished_is_not_seen_and_goes_on(
    tmp_path: Path, n1: SharingNode, address: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.sharing import stores

    class KilledError(Exception):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    mirror(n1.catalog, address)
    n1.update("Genes", inserted=[(8, "NEW", "1p1")])
    with monkeypatch.context() as patched:
        patched.setattr(stores, "_put_listings", killed)
        with pytest.raises(KilledError):
            mirror(n1.catalog, address)
    n4 = node(tmp_path, "N4")
    with closing(StorePeer(address)) as peer:
        assert n4.take(peer).taken["updategram"] == 1
        assert mirror(n1.catalog, address) == {"updategram": 1}
        assert n4.take(peer).taken == {"updategram": 1}


def test_a_place_is_one_nodes(tmp_path: Path, n1: SharingNode, address: str) -> None:
    mirror(n1.catalog, address)
    with pytest.raises(ForeignObjectError, match="is the mirror of node N1 of 'genes'"):
        mirror(node(tmp_path, "N4").catalog, address)


def test_what_was_altered_there_is_not_taken(
    tmp_path: Path, n1: SharingNode, address: str, endpoint: str
) -> None:
    mirror(n1.catalog, address)
    (listed,) = n1.catalog.updategrams("Genes")
    path = stored(endpoint, address) / "objects" / listed.address[:2] / f"{listed.address}.jsonl"
    path.replace(path.read(1 << 20).replace(b"AFKAP", b"AFKAQ"))
    n4 = node(tmp_path, "N4")
    with closing(StorePeer(address)) as peer:
        with pytest.raises(DamagedObjectError, match="is not what its name says"):
            n4.take(peer)
        path.remove()
        assert list(n4.take(peer, skip_bad=True).refused) == [listed.address]


def test_mistakes_are_told(address: str, endpoint: str) -> None:
    with pytest.raises(PeerError, match=f"There is no node of Headwater at {address}"):
        StorePeer(address)
    with pytest.raises(InputError, match="is an address of a kind that is not known"):
        StorePeer("ftp://bucket/folder")
    with pytest.raises(InputError, match="has a secret or options in its address"):
        StorePeer("s3://user:secret@bucket/folder")
    bucket = address.replace(f"//{BUCKET}/", "//no-such-bucket/")
    with pytest.raises(InputError, match=r"There is no bucket.*Correct the address"):
        StorePeer(bucket)


def test_the_commands_put_and_take(tmp_path: Path, n1: SharingNode, address: str) -> None:
    put = quick("share", "mirror", address, "-c", str(n1.catalog.store.folder))
    assert put.out.startswith(f"✓ N1 to {address}: 3 nodes, 3 relations")
    taken = quick("share", "exchange", address, "-c", str(tmp_path / "N9"), "--node", "N9")
    assert taken.out == "✓ N1 to N9: 3 nodes, 3 relations, 3 contents, 1 updategram\n"
