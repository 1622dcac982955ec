"""Views of several joins and of one relation twice follow from their relations, by the rules."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.sharing import Policy, SharingNode
from headwater.sharing.contents import Contents
from headwater.sharing.errors import ForeignObjectError
from headwater.sharing.planning import Planner
from headwater.sharing.plans import Summed
from headwater.sharing.policies import Boosters
from headwater.sharing.versions import Versions
from headwater.sharing.view_parts import parts_of, relation_of

SQLS = {
    "union": "SELECT a, b FROM r WHERE a > 0 UNION ALL SELECT r.a, s.c FROM r, s WHERE r.b = s.b",
    "pairs": "SELECT x.a, y.b FROM r AS x JOIN r AS y ON x.b = y.a",
    "thrice": "SELECT x.a, z.b, s.c FROM r AS x, r AS y, r AS z, s "
    "WHERE x.b = y.a AND y.b = z.a AND z.b = s.b",
    "left": "SELECT r.a, s.c FROM r, s WHERE r.b = s.b UNION ALL SELECT c, b FROM s",
}


def owner(folder: Path, name: str = "N1") -> SharingNode:
    node = SharingNode.create(folder / name, name, "system", durable=False)
    node.own("r", {"a": "int", "b": "int"}, [(1, 1), (1, 2), (2, 1)], publish=True)
    node.own("s", {"b": "int", "c": "int"}, [(1, 7), (2, 8)], publish=True)
    return node


def random_change(random: Random, node: SharingNode) -> None:
    name = random.choice("rs")
    held = node.held(name)
    assert held is not None
    gone = [row for row in held.rows if random.random() < 0.3]
    came: list[Sequence[object]] = [
        (random.randint(0, 2), random.randint(0, 2)) for _ in range(random.randint(1, 3))
    ]
    node.update(name, inserted=came, deleted=gone)


def recomputed(node: SharingNode, view: str, versions: Versions) -> Contents:
    definition = node.catalog.view(view)
    state = {name: node.query(name, {name: versions[name]}).rows for name in definition.relations}
    return Contents(view, versions, evaluate_shown(definition.view, state))


@pytest.mark.parametrize("view", SQLS)
@pytest.mark.parametrize("seed", range(3))
def test_it_advances_along_its_relations(tmp_path: Path, view: str, seed: int) -> None:
    random, node = Random(seed), owner(tmp_path)
    definition = node.define(view, SQLS[view])
    start = node.hold(view)
    for _ in range(4):
        random_change(random, node)
    newest = Versions({name: node.catalog.newest(name) for name in start.versions})
    held = {name: found for name in "rs" if (found := node.held(name)) is not None}
    planner = Planner(node.catalog, held)
    for first, last in ((start.versions, newest), (newest, start.versions)):
        change = planner._by_relations(definition, first, last)
        assert isinstance(change, Summed)
        done = planner.carrying_out(definition).done(change)
        assert (done.first, done.last) == (first, last)
        before, after = (recomputed(node, view, versions).rows for versions in (first, last))
        assert done.net == after - before
    assert node.advance(view).last == newest
    assert node.held(view) == recomputed(node, view, newest)
    node.advance(view, start.versions)
    assert node.held(view) == start, "and back"


def test_it_follows_a_peer_from_updategrams_and_a_copy(tmp_path: Path) -> None:
    node, peer = owner(tmp_path), SharingNode.create(tmp_path / "p", "P", "system", durable=False)
    node.define("union", SQLS["union"])
    peer.exchange(node)
    peer.hold("union")
    peer.set_policy(Policy(boosters=Boosters(("*",))))
    node.update("r", inserted=[(3, 2)])
    peer.exchange(node)
    done = peer.advance("union")
    assert done.copies == ("s",)
    assert peer.held("union") == recomputed(node, "union", done.last)
    assert not peer.catalog.boosters(), "boosters are of joins that have a name"


def test_an_occurrence_has_a_name_of_its_own(tmp_path: Path) -> None:
    node = owner(tmp_path)
    (part,) = parts_of(node.define("thrice", SQLS["thrice"]))
    assert list(part.relations) == ["r", "r#2", "r#3", "s"]
    assert {relation_of(name) for name in part.relations} == {"r", "s"}
    vector = Versions({"r": 3, "s": 1})
    assert part.gathered(part.spread(vector)) == vector


def test_a_join_of_a_union_compares_no_more_than_any_join_may(tmp_path: Path) -> None:
    """What is deduced takes the cube of that, at every node that plans."""
    node = owner(tmp_path)
    many = " AND ".join(f"r.a <> {n}" for n in range(60))
    with pytest.raises(ForeignObjectError, match="compares 61 columns and constants"):
        node.define("much", f"SELECT c FROM s UNION ALL SELECT a FROM r WHERE {many}")
