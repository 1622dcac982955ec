"""Nodes: they publish, meet, catch up, and answer about the present and the past."""

import shutil
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.errors import InputError
from headwater.sharing import (
    Boosters,
    ConflictError,
    Contents,
    DamagedObjectError,
    Eager,
    Hybrid,
    MisfitError,
    MissingBoosterError,
    MissingContentsError,
    Periodic,
    Policy,
    SharingNode,
    VersionGapError,
    Versions,
)
from headwater.sharing.booster import Booster
from headwater.sharing.updategram import Updategram
from tests.sharing.genes import GENES, V1, V2, V3, node, owners, rename, without_copies

VIEWS = {"V1": V1, "V2": V2, "V3": V3}


def counselor(folder: Path, *others: SharingNode) -> SharingNode:
    """A node that holds V1 and knows what the others publish."""
    n4 = node(folder, "N4")
    for other in others:
        n4.exchange(other)
    n4.define("V1", V1)
    n4.hold("V1")
    return n4


# The paper's example


def test_a_view_advances_by_an_updategram_and_a_booster(tmp_path: Path) -> None:
    """Examples 2.2 and 2.3."""
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    n2.exchange(n4)
    rename(n1)
    n2.exchange(n1)
    (booster,) = n2.boost(["V1"])
    assert [row[0] for row in booster.rows] == [1]
    n4.exchange(n2)
    done = n4.advance("V1", {"Genes": 4})
    assert (len(done.boosters), done.copies) == (1, ())
    assert n4.query("V1").versions == Versions({"Genes": 4, "Variants": 7})
    assert (42, "AFKAP", 1, 0.2) in set(n4.query("V1").rows)


def random_change(random: Random, owner: SharingNode, name: str) -> None:
    """A new row, a row less, or a modified row, often one that came and goes again."""
    held = owner.held(name)
    assert held is not None
    rows = sorted(held.rows, key=repr)
    old = random.choice(rows)
    match random.choice(["insert", "delete", "modify"]):
        case "delete" if len(rows) > 2:
            owner.update(name, deleted=[old])
        case "insert":
            new = max(row[0] for row in rows if isinstance(row[0], int)) + 1
            owner.update(name, inserted=[(new, *old[1:])])
        case _:
            other = random.choice(rows)
            owner.update(name, modified=[(old, (old[0], *other[1:]))])


def recomputed(owned: dict[str, SharingNode], view: str, versions: Versions) -> Contents:
    """The oracle: the view computed from the owners' rows."""
    definition = next(iter(owned.values())).catalog.view(view)
    state = {r: owned[r].query(r, {r: versions[r]}).rows for r in definition.relations}
    return Contents(view, versions, evaluate_view(definition.view, state))


@pytest.mark.parametrize("seed", range(4))
def test_nodes_that_meet_in_random_order_end_with_the_same_views(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    n1, n2, n3 = owners(tmp_path)
    for view, sql in VIEWS.items():
        n1.define(view, sql)
    nodes = [n1, n2, n3]
    for one, two in combinations(nodes, 2):
        one.exchange(two)
    for at in nodes:
        at.set_policy(Policy(Eager(), Boosters(("*",))))
        for view in VIEWS:
            at.hold(view)
    owned = {"Genes": n1, "Variants": n2, "Proteins": n3}
    for _ in range(6):
        for name in random.sample(sorted(owned), random.randint(1, 3)):
            random_change(random, owned[name], name)
        one, two = random.sample(nodes, 2)
        one.exchange(two)
        for at in (one, two):
            for view in VIEWS:
                found = at.query(view)
                assert found == recomputed(owned, view, found.versions)
    for _ in range(2):
        for one, two in combinations(nodes, 2):
            one.exchange(two)
    newest = {name: owner.catalog.newest(name) for name, owner in owned.items()}
    for view in VIEWS:
        states = [at.query(view) for at in nodes]
        assert states[0] == states[1] == states[2]
        assert all(states[0].versions[r] == newest[r] for r in states[0].versions)


def test_a_node_that_was_away_catches_up_from_boosters_alone(tmp_path: Path) -> None:
    """It has no copy of a base relation, and meets only a third node."""
    random = Random(7)
    n1, n2, n3 = owners(tmp_path)
    n2.set_policy(Policy(boosters=Boosters(("V2",))))
    n3.set_policy(Policy(boosters=Boosters(("V2",))))
    n1.set_policy(Policy(boosters=Boosters(("V2",))))
    n1.define("V2", V2)
    first = n1.hold("V2")
    n1.publish("V2")
    away = node(tmp_path, "N5")
    away.exchange(n1)
    away = without_copies(away)
    assert away.hold("V2") == first
    owned = {"Genes": n1, "Variants": n2, "Proteins": n3}
    for name in ["Genes", "Variants", "Genes", "Proteins", "Variants", "Genes"] * 2:
        random_change(random, owned[name], name)
        for other in (n2, n3, n2):
            n1.exchange(other)
    n3.exchange(n1)
    away.exchange(without_copies(n3), fetch_only=True)
    newest = {name: owner.catalog.newest(name) for name, owner in owned.items()}
    done = away.advance("V2", newest)
    assert done.copies == ()
    used = [b for b in away.catalog.boosters() if b.address in done.boosters]
    assert {tuple(b.through) for b in used} == {(), ("Variants",)}
    found = away.query("V2")
    assert found == recomputed(owned, "V2", Versions(newest))
    assert away.query("V2", first.versions) == first, "and back again"


def test_a_booster_reaches_over_a_relation_in_between(tmp_path: Path) -> None:
    """Example 2.4: no condition connects Genes and Proteins, and not all proteins are sent."""
    n1, n2, n3 = owners(tmp_path)
    n3.update("Proteins", inserted=[(n, 3, "other") for n in range(200, 250)])
    n1.define("V2", V2)
    rename(n1)
    for one, two in ((n1, n2), (n1, n3)):
        one.exchange(two)
    n2.boost(["V2"])
    n3.exchange(n2)
    made = [b for b in n3.boost(["V2"]) if isinstance(b, Booster)]
    (booster,) = [b for b in made if b.changed == "Genes"]
    assert (booster.of, dict(booster.through)) == (("Proteins",), {"Variants": 7})
    assert [row[0] for row in booster.rows] == [100]


# The past


def test_old_versions_are_answered_backwards_and_forwards(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    rename(n1)
    n1.update("Genes", deleted=[(7, "BRCA2", "13q13")])
    n4.exchange(n1)
    assert n4.query("Genes", {"Genes": 4}).rows == n1.query("Genes", {"Genes": 4}).rows
    assert len(n1.query("Genes", {"Genes": 3}).rows) == 2
    n4.advance("V1")
    now, then = n4.query("V1"), n4.query("V1", {"Genes": 3})
    assert (len(now.rows), len(then.rows)) == (1, 2)
    middle = n4.query("V1", {"Genes": 4, "Variants": 7})
    assert sorted(row[1] for row in middle.rows) == ["AFKAP", "BRCA2"]  # type: ignore[type-var]
    assert n4.advance("V1", {"Genes": 3}).last == Versions({"Genes": 3, "Variants": 7})


# Policies


def test_an_eager_node_follows_at_once_and_a_lazy_one_when_asked(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    rename(n1)
    n4.exchange(n1)
    held = n4.held("V1")
    assert held is not None
    assert held.versions["Genes"] == 3
    assert n4.query("V1").versions["Genes"] == 4
    n4.set_policy(Policy(Eager()))
    n1.update("Genes", deleted=[(7, "BRCA2", "13q13")])
    n4.exchange(n1)
    held = n4.held("V1")
    assert held is not None
    assert held.versions["Genes"] == 5


def test_a_hybrid_node_leaves_large_changes_and_a_periodic_one_young_views(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    n4.set_policy(Policy(Hybrid(most_rows=2)))
    rename(n1)
    n4.exchange(n1)
    assert n4.follow("update") == []
    held = n4.held("V1")
    assert held is not None
    assert held.versions["Genes"] == 4
    n1.update("Genes", inserted=[(n, "new", "1p1") for n in range(100, 103)])
    n4.exchange(n1)
    assert (held := n4.held("V1")) is not None
    assert held.versions["Genes"] == 4
    n4.set_policy(Policy(Periodic(every_s=3600.0)))
    assert n4.query("V1").versions["Genes"] == 4
    when = n4.catalog.store.held()["V1"].modified() + 3601.0
    assert [done.last["Genes"] for done in n4.follow("tick", when)] == [5]


def test_boosters_come_about_on_the_way_if_the_policy_asks(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    rename(n1)
    n4.exchange(n1)
    n4.set_policy(Policy(boosters=Boosters(("V1",), most_rows=0)))
    assert n4.advance("V1").copies == ("Variants",)
    assert not n4.catalog.boosters()
    n4.set_policy(Policy(boosters=Boosters(("V1",))))
    n1.update("Genes", deleted=[(7, "BRCA2", "13q13")])
    n4.exchange(n1)
    assert n4.advance("V1").copies == ("Variants",)
    assert [b.of for b in n4.catalog.boosters("Genes")] == [("Variants",)]


@pytest.mark.parametrize(("condition", "kept"), [("> 0.05", 1), ("< 0.05", 0)])
def test_a_booster_is_kept_where_it_saves_another_view_more_than_it_costs(
    tmp_path: Path, condition: str, kept: int
) -> None:
    """The other view joins the same relations; it is served if V1 contains it."""
    n1, n2, _ = owners(tmp_path)
    n2.update("Variants", inserted=[(n, 99, "A", 0.5) for n in range(10, 500)])
    n4 = counselor(tmp_path, n1, n2)
    n4.define("Other", V1.replace("> 0.01", condition))
    rename(n1)
    n4.exchange(n1)
    n4.set_policy(Policy(boosters=Boosters(("V1",), only_paying=True)))
    assert n4.advance("V1").copies == ("Variants",)
    assert len(n4.catalog.boosters("Genes")) == kept


def test_a_policy_is_kept_with_the_node(tmp_path: Path) -> None:
    made = node(tmp_path, "N1", Policy(Hybrid(5), Boosters(("V1",), 9), "transaction"))
    assert SharingNode.open(made.catalog.store.folder).policy == made.policy
    (made.catalog.store.folder / "node.json").write_text('{"node": "N1", "system": "s"}')
    with pytest.raises(InputError, match="policy"):
        SharingNode.open(made.catalog.store.folder)


# Bad input: nothing is applied


def test_a_gap_in_the_versions_is_named(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    for _ in range(3):
        n1.update("Genes", inserted=[(1000 + n1.catalog.newest("Genes"), "x", "y")])
    (middle,) = [u for u in n1.catalog.updategrams("Genes") if u.first["Genes"] == 4]
    n1.catalog.store.path(middle.address).unlink()
    n4.exchange(SharingNode.open(n1.catalog.store.folder, durable=False))
    before = n4.held("V1")
    with pytest.raises(VersionGapError, match="lead up to 4, and the next starts at 5"):
        n4.advance("V1", {"Genes": 6})
    with pytest.raises(VersionGapError, match="from version 3 to 9: updategrams lead up to 4, and"):
        n4.query("Genes", {"Genes": 9})
    assert n4.held("V1") == before


def test_overlapping_updategrams_do_not_lead_on(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    for number in range(4):
        n1.update("Genes", inserted=[(number, "x", "y")])
    entries = sorted(n1.catalog.updategrams("Genes"), key=lambda u: u.first["Genes"])
    steps = [n1.catalog.load_updategram(entry) for entry in entries]
    for entry in entries:
        n1.catalog.store.path(entry.address).unlink()
    n1 = SharingNode.open(n1.catalog.store.folder, durable=False)
    n1.catalog.add(steps[0].then(steps[1]))
    n1.catalog.add(steps[1].then(steps[2]).then(steps[3]))
    n4.exchange(n1)
    with pytest.raises(VersionGapError, match="the next, 4 to 7, overlaps"):
        n4.advance("V1", {"Genes": 7})
    assert n4.advance("V1", {"Genes": 5}).last["Genes"] == 5


def test_a_missing_booster_is_named_with_who_could_make_it(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    n4 = counselor(tmp_path, n1, n2)
    rename(n1)
    n4.exchange(n1, fetch_only=True)
    n4 = without_copies(n4)
    before = n4.held("V1")
    with pytest.raises(MissingBoosterError, match=r"booster of Variants for Genes 3 to 4.*with N2"):
        n4.advance("V1", {"Genes": 4})
    assert n4.held("V1") == before
    assert n4.advance("V1").updategram is None


def test_what_does_not_fit_a_relation_is_refused(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    with pytest.raises(MisfitError, match="more often than it is there"):
        n1.update("Genes", deleted=[(8, "no", "such")])
    with pytest.raises(InputError, match="two rows with the key"):
        n1.update("Genes", inserted=[(42, "again", "17q2")])
    with pytest.raises(InputError, match="2 values for 3 columns"):
        n1.update("Genes", inserted=[(42, "short")])
    with pytest.raises(InputError, match="belongs to node N1"):
        n2.update("Genes", inserted=[(1, "not", "mine")])
    with pytest.raises(InputError, match="owns Genes already"):
        n1.own("Genes", GENES)
    with pytest.raises(InputError, match="unknown type 'number'"):
        n1.own("Other", {"k": "number"})
    with pytest.raises(InputError, match="has no column key"):
        n1.own("Other", {"k": "int"}, key=["key"])
    assert n1.catalog.newest("Genes") == 3


def test_what_nobody_has_is_said(tmp_path: Path) -> None:
    n4 = node(tmp_path, "N4")
    with pytest.raises(InputError, match=r"no view or relation Genes.*There are: none"):
        n4.query("Genes")
    n1 = node(tmp_path, "N1")
    n1.own("Genes", GENES)
    n4.exchange(n1)
    with pytest.raises(MissingContentsError, match="Nobody here has rows of Genes"):
        n4.query("Genes")
    with pytest.raises(InputError, match="is not a folder of this machine"):
        SharingNode.create("s3://bucket/share", "N9")


def test_a_file_that_was_copied_under_another_name_is_not_answered(tmp_path: Path) -> None:
    """Of a view, of what is stored of it, and of a relation."""
    n1, n2, _ = owners(tmp_path)
    n1.define("V1", V1)
    n1.define("Loci", "SELECT GeneID, ChromosomeLocus FROM Genes")
    n1.define("Counts", "SELECT GeneName, COUNT(*) AS n FROM Genes GROUP BY GeneName")
    n1.define("Places", "SELECT ChromosomeLocus, COUNT(*) AS n FROM Genes GROUP BY ChromosomeLocus")
    for view in ("V1", "Loci", "Counts", "Places"):
        n1.hold(view)
    held = n1.catalog.store.folder / "held"
    shutil.copy(held / "Loci.jsonl", held / "V1.jsonl")
    with pytest.raises(DamagedObjectError, match="not what this node holds of V1, but of Loci"):
        n1.query("V1")
    (held / "V1.jsonl").unlink()
    assert n1.query("V1").subject == "V1", "the remedy"
    shutil.copy(held / "Counts.stored", held / "Places.stored")
    with pytest.raises(DamagedObjectError, match="is not what is stored of view Places"):
        n1.stored("Places")
    shutil.copy(held / "V1.jsonl", held / "Genes.jsonl")
    with pytest.raises(DamagedObjectError, match="not what this node holds of Genes, but of V1"):
        n1.query("Genes")
    assert n2.query("Variants").subject == "Variants"


def test_updategrams_that_contradict_each_other_are_named_and_there_is_a_way_out(
    tmp_path: Path,
) -> None:
    """A node has published a wrong one of a view, and another has taken its view on by that."""
    n1, n2, _ = owners(tmp_path)
    n1.define("V1", V1)
    right, wrong, misled = (node(tmp_path, name) for name in ("A", "B", "C"))
    for each in (right, wrong, misled):
        each.exchange(n2, fetch_only=True)
        each.exchange(n1, fetch_only=True)
        each.hold("V1")
    rename(n1)
    right.exchange(n1, fetch_only=True)
    right.advance("V1", {"Genes": 4})
    at = {"Genes": 3, "Variants": 7}
    ends = Versions(at), Versions({**at, "Genes": 4})
    change = Updategram.of_net("V1", *ends, -right.query("V1", at).rows)
    address = wrong.catalog.add(change)
    misled.exchange(wrong, fetch_only=True)
    misled.advance("V1")
    assert not misled.query("V1").rows
    (mine,) = (u for u in right.catalog.updategrams("V1"))
    with pytest.raises(ConflictError) as told:
        misled.exchange(right, fetch_only=True)
    file = misled.catalog.store.path(address)
    assert f"say different things: {file}, made by B, and {mine.address[:12]}, made by A." in str(
        told.value
    )
    for each in (wrong, misled):  # what is told to do
        each.catalog.store.path(address).unlink()
    (tmp_path / "C" / "held" / "V1.jsonl").unlink()
    misled = SharingNode.open(tmp_path / "C", durable=False)
    misled.exchange(right, fetch_only=True)
    assert misled.query("V1") == right.query("V1")
