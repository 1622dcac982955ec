"""How fast a peer is, is measured when objects come, and plans go by it."""

from pathlib import Path

import pytest

from headwater.sharing import SharingNode
from headwater.sharing.available import Place
from headwater.sharing.plan_costs import Speed, Speeds
from headwater.sharing.transfers import measured, speeds_of
from tests.sharing.far_peers import TOKEN, far, served
from tests.sharing.genes import node, owners

ASSUMED = Speed(0.02, 10e6)


def test_small_objects_say_how_long_asking_takes() -> None:
    slow = measured([(1000, 2.0)] * 10, 4, ASSUMED)
    assert slow.seconds == pytest.approx(0.1)  # between 0.02 and 0.5
    assert slow.bytes_per_second == ASSUMED.bytes_per_second
    quick = measured([(1000, 0.0008)] * 10, 4, ASSUMED)
    assert quick.seconds == pytest.approx(0.002)


def test_large_objects_say_how_fast_bytes_come() -> None:
    found = measured([(1000, 0.01), (1000, 0.01), *[(10_000_000, 10.01)] * 4], 1, ASSUMED)
    assert found.bytes_per_second == pytest.approx((10e6 * 1e6) ** 0.5, rel=0.01)


def test_too_little_says_nothing() -> None:
    assert measured([(1000, 9.0)], 1, ASSUMED) == ASSUMED


def test_a_node_remembers_how_fast_a_peer_was(tmp_path: Path) -> None:
    owners(tmp_path)
    n4 = node(tmp_path, "N4")
    with served(tmp_path / "N1") as url, far(url) as peer:
        n4.take(peer)
    assert TOKEN not in str(n4.catalog.description)
    again = SharingNode.open(tmp_path / "N4", durable=False)
    places = speeds_of(again.catalog, "N1", Place.HTTP, Speeds()).places
    assert places[Place.HTTP] != Speeds().places[Place.HTTP]
    assert speeds_of(again.catalog, "N2", Place.HTTP, Speeds()) == Speeds()
