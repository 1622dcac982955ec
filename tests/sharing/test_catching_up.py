"""Who was away for long takes what is cheapest, weighed by a listing before anything is fetched."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.sharing import (
    Boosters,
    MissingContentsError,
    Peer,
    Policy,
    SharingNode,
    Updategram,
    Versions,
)
from headwater.sharing.available import Place
from headwater.sharing.catching_up import Foreseen, best_way
from headwater.sharing.coalescing import coalesce
from headwater.sharing.errors import ForeignObjectError, UnknownNameError
from headwater.sharing.following import CaughtUp, catch_up
from headwater.sharing.offers import Offered
from headwater.sharing.serving import Served
from tests.sharing.far_peers import far, served
from tests.sharing.genes import V1, V2, node, owners

STEPS = 40
Taking = Callable[[SharingNode, SharingNode, str], tuple[CaughtUp, set[str]]]


def by_http(at: SharingNode, of: SharingNode, view: str) -> tuple[CaughtUp, set[str]]:
    """What was done, and the objects that were transferred."""
    told: list[Served] = []
    with served(of.catalog.store.folder, told=told) as url, far(url) as peer:
        done = catch_up(at, peer, [view])
    return done, {each.path[-70:-6] for each in told if each.path.endswith(".jsonl")}


def by_folder(at: SharingNode, of: SharingNode, view: str) -> tuple[CaughtUp, set[str]]:
    before = at.catalog.addresses()
    done = catch_up(at, Peer(of.catalog.store.folder), [view])
    return done, at.catalog.addresses() & of.catalog.addresses() - before


BOTH = pytest.mark.parametrize("take", [by_http, by_folder])


def steps(n1: SharingNode, count: int = STEPS) -> None:
    """So many changes of Genes, one row each, which V1 does not show."""
    first, schema = n1.catalog.newest("Genes"), n1.catalog.relation("Genes").relation.schema
    n1.catalog.add_all(
        Updategram.of_relation("Genes", schema, at, at + 1, inserted=[(1000 + at, "x", "y")])
        for at in range(first, first + count)
    )


@pytest.fixture
def met(tmp_path: Path) -> tuple[SharingNode, SharingNode]:
    """N1, which has everything; and N4, which holds V1 and has been away since."""
    n1, *_ = owners(tmp_path)
    n1.define("V1", V1)
    n1.hold("V1")
    n1.publish("V1")
    away = node(tmp_path, "N4")
    away.exchange(n1)
    away.hold("V1")
    steps(n1)
    return n1, away


def kinds(at: SharingNode, addresses: set[str]) -> dict[str, int]:
    found = [listed.kind for listed in at.catalog if listed.address in addresses]
    return {kind: found.count(kind) for kind in found}


@BOTH
def test_one_long_updategram_is_taken_instead_of_many(
    met: tuple[SharingNode, SharingNode], take: Taking
) -> None:
    n1, away = met
    coalesce(n1, "Genes")
    done, transferred = take(away, n1, "V1")
    assert kinds(away, transferred).pop("updategram") == 1
    assert done.ways[0].last == Versions({"Genes": 3 + STEPS, "Variants": 7})
    assert away.query("V1") == n1.query("V1", done.ways[0].last)


@BOTH
def test_the_views_own_updategram_is_taken_if_there_is_one(
    met: tuple[SharingNode, SharingNode], take: Taking
) -> None:
    n1, away = met
    n1.advance("V1")
    _, transferred = take(away, n1, "V1")
    assert kinds(away, transferred).pop("updategram") == 1
    assert away.held("V1") == n1.held("V1")


@BOTH
def test_contents_are_taken_where_they_are_cheaper_than_what_has_changed(
    met: tuple[SharingNode, SharingNode], take: Taking
) -> None:
    n1, away = met
    n1.advance("V1")
    n1.publish("V1")
    for listed in n1.catalog.updategrams("V1"):
        n1.catalog.store.path(listed.address).unlink()
    n1 = SharingNode.open(n1.catalog.store.folder, durable=False)
    done, transferred = take(away, n1, "V1")
    assert {"updategram", "booster"} & kinds(away, transferred).keys() == set()
    assert done.ways[0].kind == "its contents"
    assert away.held("V1") == n1.held("V1")


@BOTH
def test_all_the_steps_are_taken_if_there_is_nothing_else(
    met: tuple[SharingNode, SharingNode], take: Taking
) -> None:
    n1, away = met
    _, transferred = take(away, n1, "V1")
    assert kinds(away, transferred).pop("updategram") == STEPS
    assert away.query("V1").versions["Genes"] == 3 + STEPS


@BOTH
def test_only_what_the_view_needs_is_taken(tmp_path: Path, take: Taking) -> None:
    n1, n2, n3 = owners(tmp_path)
    n1.define("V1", V1)
    n1.define("V2", V2)
    for view in ("V1", "V2"):
        n1.hold(view)
        n1.publish(view)
    n3.update("Proteins", inserted=[(number, 1, "p") for number in range(200, 230)])
    n2.update("Variants", inserted=[(4, 42, "A", 0.5)])
    for other in (n2, n3):
        n1.exchange(other)
    new = node(tmp_path, "N9")
    _, transferred = take(new, n1, "V1")
    about = {listed.manifest.get("subject") for listed in new.catalog if listed.rows}
    assert {"Variants", "V1"} <= about <= {"Genes", "Variants", "V1", None}, "no V2, no Proteins"
    assert {"node", "relation", "view"} < kinds(new, transferred).keys()
    assert len(new.query("V1").rows) == 3


@BOTH
def test_a_view_of_which_nobody_has_contents_is_computed_from_its_relations(
    tmp_path: Path, take: Taking
) -> None:
    n1, *_ = owners(tmp_path)
    n1.define("V1", V1)
    steps(n1, 3)
    new = node(tmp_path, "N9")
    done, transferred = take(new, n1, "V1")
    assert done.ways[0].kind == "the rows of its relations"
    assert kinds(new, transferred)["contents"] == 2
    assert new.query("V1").versions == Versions({"Genes": 6, "Variants": 7})


@pytest.mark.stress
@pytest.mark.parametrize("shortcut", ["updategram of Genes", "updategram of V1", "contents"])
def test_of_ten_thousand_steps_one_object_is_transferred(
    met: tuple[SharingNode, SharingNode], shortcut: str
) -> None:
    n1, away = met
    steps(n1, 10_000 - STEPS)
    if shortcut == "updategram of Genes":
        coalesce(n1, "Genes")
    else:
        n1.advance("V1")
        n1.publish("V1")
    if shortcut == "contents":
        for listed in n1.catalog.updategrams("V1"):
            n1.catalog.store.path(listed.address).unlink()
        n1 = SharingNode.open(n1.catalog.store.folder, durable=False)
    done, transferred = by_http(away, n1, "V1")
    entries = {"node", "relation", "view"}
    assert sum(n for kind, n in kinds(away, transferred).items() if kind not in entries) == 1
    assert done.ways[0].last["Genes"] == 10_003
    assert len(away.query("V1").rows) == 2


def test_a_view_that_is_as_new_as_the_offer_takes_nothing(
    met: tuple[SharingNode, SharingNode],
) -> None:
    n1, away = met
    by_http(away, n1, "V1")
    done, transferred = by_http(away, n1, "V1")
    assert (done.copied.taken, transferred, done.ways[0].kind) == ({}, set(), "nothing new")


def test_a_policy_takes_only_what_some_views_need(met: tuple[SharingNode, SharingNode]) -> None:
    n1, away = met
    coalesce(n1, "Genes")
    away.set_policy(Policy(only=("V1",)))
    away = SharingNode.open(away.catalog.store.folder, durable=False)
    assert away.take(Peer(n1.catalog.store.folder)).taken == {"updategram": 1}


def test_what_nobody_knows_or_has_rows_of_is_told(tmp_path: Path) -> None:
    n1 = owners(tmp_path)[0]
    n1.define("V1", V1)
    for name in ("Genes", "Variants"):
        for listed in n1.catalog.contents(name):
            n1.catalog.store.path(listed.address).unlink()
    new = node(tmp_path, "N9")
    with pytest.raises(UnknownNameError, match="Neither this node nor the other one has a view V8"):
        by_folder(new, n1, "V8")
    with pytest.raises(MissingContentsError, match="View V1 cannot be had here"):
        by_folder(new, SharingNode.open(n1.catalog.store.folder), "V1")
    assert len(new.catalog.addresses()) == 1


# What a peer says is for choosing only


def offered(of: SharingNode) -> list[Offered]:
    files, found = Peer(of.catalog.store.folder).files, []
    for address in sorted(files.addresses()):
        envelope, _, head = files.head_line(address)
        found.append(Offered(address, files.size(address), envelope.maker, head))
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"subject":"Genes"', b'"subject":"Nothing"'),
        (b'"subject":"Genes"', b'"subject":["Genes"]'),
        (b'"first":{"Genes"', b'"first":{"Other"'),
        (b'"first":{', b'"first":{"Variants":7,'),
        (b'"rows":1', b'"rows":-1'),
        (b'"rows":1', b'"rows":"many"'),
        (b'"last":', b'"lost":'),
    ],
)
def test_what_a_listing_makes_up_is_passed_over(
    met: tuple[SharingNode, SharingNode], old: bytes, new: bytes
) -> None:
    n1, away = met
    lies = [
        Offered(f"{place:064x}", each.size, each.maker, each.head.replace(old, new))
        for place, each in enumerate(offered(n1))
        if b'"kind":"updategram"' in each.head and old in each.head
    ]
    assert lies
    foreseen = Foreseen(away.catalog, lies, Place.HTTP)
    assert not foreseen.updategrams("Genes")
    held = away.held("V1")
    assert held is not None
    way = best_way(foreseen, "V1", {"V1": held}, away.speeds)
    assert way is not None
    assert way.last == held.versions


def test_changes_that_somebody_else_offers_in_the_owners_stead_are_not_planned_with(
    met: tuple[SharingNode, SharingNode],
) -> None:
    n1, away = met
    lies = [Offered(each.address, each.size, "N2", each.head) for each in offered(n1)]
    assert not Foreseen(away.catalog, lies, Place.HTTP).updategrams("Genes")


# Coalescing


def test_changes_are_coalesced_by_the_owner_and_a_views_by_anybody(
    met: tuple[SharingNode, SharingNode],
) -> None:
    n1, away = met
    done = coalesce(n1, "Genes")
    assert done is not None
    assert (done.first["Genes"], done.last["Genes"], len(done.inserted)) == (3, 3 + STEPS, STEPS)
    assert coalesce(n1, "Genes") is None
    assert coalesce(n1, "Genes", {"Genes": 5}) is not None
    away.exchange(n1, fetch_only=True)
    with pytest.raises(ForeignObjectError, match="belongs to node N1"):
        coalesce(away, "Genes")
    away.set_policy(Policy(boosters=Boosters()))
    for version in (5, 9):
        away.advance("V1", {"Genes": version})
    assert coalesce(away, "V1") is not None
