"""Views with groups and first rows are followed by what is stored of them: the rules A12 to A17,
in the plans that nodes make, and in what they publish for each other."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.sharing import SharingNode
from headwater.sharing.encoding import decode, encode
from headwater.sharing.errors import DamagedObjectError, ForeignObjectError, SharingError
from headwater.sharing.grouping import GroupingBooster, grouping_booster
from headwater.sharing.node import Advanced
from headwater.sharing.plans import rule, walk
from headwater.sharing.stored import computed
from headwater.sharing.versions import Versions
from headwater.sharing.windows import Window, window
from tests.sharing.genes import without_copies

R = {"k": "int", "a": "int", "b": "int", "c": "int"}
S = {"k": "int", "b": "int", "d": "int"}
AVERAGE = "SELECT a, AVG(c) AS o FROM R GROUP BY a, b"
MAXIMUM = "SELECT a, MAX(c) AS o FROM R GROUP BY a"
TOP = "SELECT c, k FROM R ORDER BY c DESC, k LIMIT 2"
VIEWS = {
    "average": AVERAGE,
    "maximum": MAXIMUM,
    "top": TOP,
    "joined": "SELECT R.a, COUNT(*) AS n, SUM(d) AS s FROM R JOIN S ON R.b = S.b GROUP BY R.a",
    "either": "SELECT a FROM R UNION SELECT b FROM S",
    "outer": "SELECT R.a, R.c, S.d FROM R LEFT JOIN S ON R.b = S.b",
    "total": "SELECT COUNT(*) AS n, MIN(c) AS m FROM R",
    "ranked": "SELECT a, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY c, k) AS r FROM R",
}
ROWS = [(1, 1, 1, 10), (2, 1, 1, 20), (3, 2, 1, 7), (4, 2, 2, 30), (5, 2, 2, 5)]
Tuples = Iterable[Sequence[int]]


def node(folder: Path, name: str) -> SharingNode:
    return SharingNode.create(folder / name, name, "groups", durable=False)


def owner(folder: Path, rows: Tuples = ROWS, s: Tuples = ((1, 1, 4),)) -> SharingNode:
    """Of both relations and all views, which it holds and publishes."""
    found = node(folder, "owner")
    found.own("R", R, rows, key=["k"])
    found.own("S", S, s, key=["k"])
    for name, sql in VIEWS.items():
        found.define(name, sql)
        found.hold(name)
    return found


def contents_of(at: SharingNode, *views: str) -> None:
    """Let a node publish what its views show, and nothing of what is stored."""
    for view in views:
        held = at.held(view)
        assert held is not None
        at.catalog.add(held)


def rules_of(done: Advanced) -> set[str]:
    assert done.plan is not None
    return {rule(done.plan.view, part) for part in walk(done.plan.change)}


def recomputed(at: SharingNode, view: str, versions: Versions) -> Rows:
    definition = at.catalog.view(view)
    state = {name: at.query(name, {name: versions[name]}).rows for name in definition.relations}
    return evaluate_shown(definition.view, state)


def assert_right(at: SharingNode, owner: SharingNode, view: str) -> None:
    held = at.held(view)
    assert held is not None
    assert held.rows == recomputed(owner, view, held.versions)


# The examples of section 4.2


def test_an_average_follows_from_a_grouping_booster_that_a_peer_made(tmp_path: Path) -> None:
    first, peer = owner(tmp_path), node(tmp_path, "peer")
    contents_of(first, "average")
    peer.exchange(first)
    peer.hold("average")
    first.update("R", inserted=[(6, 1, 1, 60)])
    made = first.boost(["average"])
    peer.exchange(first)
    done = peer.advance("average")
    assert "A13" in rules_of(done)
    assert len(done.boosters) == len(made) == 1
    assert done.updategram is not None
    assert dict(done.updategram.net.items()) == {(1, 15.0): -1, (1, 30.0): 1}
    assert_right(peer, first, "average")


def test_a_maximum_that_is_deleted_is_followed_by_what_is_kept(tmp_path: Path) -> None:
    first, peer = owner(tmp_path), node(tmp_path, "peer")
    first.publish("maximum")
    peer.exchange(first)
    peer.hold("maximum")
    for gone in ((2, 1, 1, 20), (4, 2, 2, 30)):
        first.update("R", deleted=[gone])
        peer.exchange(first)
        assert "A13" in rules_of(peer.advance("maximum"))
        assert_right(peer, first, "maximum")


def test_a_window_that_runs_dry_is_refilled_from_a_larger_one_of_a_peer(tmp_path: Path) -> None:
    many = [(k, 0, 0, k) for k in range(60)]
    first, peer = owner(tmp_path, many), node(tmp_path, "peer")
    contents_of(first, "top")
    definition = first.catalog.view("top")
    stored = computed(definition, Versions({"R": 0}), {"R": first.query("R").rows}).rows
    first.catalog.add(window(definition, Versions({"R": 0}), stored, 3))
    peer.exchange(first)
    peer.hold("top")
    first.update("R", deleted=[many[-1]])
    peer.exchange(first)
    assert "A17" in rules_of(peer.advance("top"))
    assert_right(peer, first, "top")
    first.update("R", deleted=[many[-2], many[-3]])
    peer.exchange(first)
    with pytest.raises(SharingError, match="has 0 rows left and needs 2"):
        peer.advance("top", {"R": 2})
    assert peer.advance("top").updategram is None, "it stays where it is"
    assert_right(peer, first, "top")
    helper = node(tmp_path, "helper")
    helper.exchange(first)
    helper.catalog.add(window(definition, Versions({"R": 0}), stored, 30))
    peer.exchange(helper)
    assert "A17" in rules_of(peer.advance("top", {"R": 2}))
    assert_right(peer, first, "top")
    kept = peer.stored("top")
    assert isinstance(kept, Window)
    assert kept.size == 27


# A14 to A16


def test_grouping_boosters_are_merged_taken_on_and_end_in_between(tmp_path: Path) -> None:
    first, peer = owner(tmp_path), node(tmp_path, "peer")
    contents_of(first, "average")
    peer.exchange(first)
    peer.hold("average")
    for k, c in ((6, 1), (7, 2), (8, 3), (9, 4)):
        first.update("R", inserted=[(k, k % 3, 1, c)])
        if k in (7, 9):
            assert len(first.boost(["average"])) == 1
    peer.exchange(first)
    other = SharingNode.open(peer.catalog.store.folder, durable=False)
    assert "A16" in rules_of(other.advance("average", {"R": 4}))
    assert_right(other, first, "average")
    late = node(tmp_path, "late")
    late.exchange(first)
    late.hold("average", {"R": 1}, recomputed(first, "average", Versions({"R": 1})))
    assert "A15" in rules_of(late.advance("average", {"R": 2}))
    assert_right(late, first, "average")


def test_a_booster_by_coarser_columns_serves_a_view_that_groups_by_them(tmp_path: Path) -> None:
    first, peer = owner(tmp_path), node(tmp_path, "peer")
    fine = "SELECT a, b, MAX(c) AS o FROM R GROUP BY a, b"
    first.define("fine", fine)
    first.define("other", "SELECT a, MAX(c) AS o FROM R WHERE c > 5 GROUP BY a")
    contents_of(first, "maximum")
    first.hold("other")
    contents_of(first, "other")
    peer.exchange(first)
    for view in ("maximum", "other"):
        peer.hold(view)
    before = computed(first.catalog.view("fine"), Versions({"R": 0}), {"R": first.query("R").rows})
    change = first.update("R", deleted=[(4, 2, 2, 30)])
    by = [name for name in before.rows.schema.names if name.endswith("a")]
    first.catalog.add(grouping_booster(before.view, change, before.rows, by))
    peer.exchange(first)
    assert "A14" in rules_of(peer.advance("maximum", {"R": 1}))
    assert_right(peer, first, "maximum")
    with pytest.raises(SharingError):  # it has other rows of R
        peer.advance("other", {"R": 1})


def test_boosters_of_the_same_join_without_groups_serve_a_view_with_groups(tmp_path: Path) -> None:
    first = owner(tmp_path)
    first.define("pairs", "SELECT R.k, R.a, S.d FROM R JOIN S ON R.b = S.b")
    first.publish("joined")
    first.update("R", inserted=[(6, 1, 1, 60)], deleted=[(1, 1, 1, 10)])
    assert first.boost(["pairs"])
    peer = node(tmp_path, "peer")
    peer.exchange(first)
    peer = without_copies(peer)
    peer.hold("joined")
    done = peer.advance("joined")
    assert {"A13", "A12"} <= rules_of(done)
    assert done.boosters
    assert not done.copies
    assert_right(peer, first, "joined")


# Any view, any changes


@pytest.mark.parametrize("seed", range(3))
def test_every_plan_of_every_view_comes_to_what_recomputing_does(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    size = random.choice([6, 60])
    rows = {k: _row(random, k) for k in range(size)}
    parts = {k: (k, random.randint(0, 2), random.randint(0, 5)) for k in range(size // 2)}
    first, peer = owner(tmp_path, rows.values(), parts.values()), node(tmp_path, "peer")
    for name in ("R", "S", *VIEWS):
        first.publish(name)
    peer.exchange(first)
    for name in VIEWS:
        peer.hold(name)
    poor = node(tmp_path, "poor")
    poor.exchange(first)
    poor = without_copies(poor)
    alone = ("average", "maximum", "total", "ranked")
    for name in alone:
        poor.hold(name)
    used: set[str] = set()
    for k in range(100, 104):
        gone = [rows.pop(old) for old in list(rows) if random.random() < 0.2]
        rows[k] = _row(random, k)
        first.update("R", inserted=[rows[k]], deleted=gone)
        if random.random() < 0.5:
            first.update("S", inserted=[(k, random.randint(0, 2), random.randint(0, 5))])
        first.boost(list(VIEWS))
        for each, views in ((peer, tuple(VIEWS)), (poor, alone)):
            each.exchange(first, fetch_only=True)
            for name in views:
                done = each.advance(name)
                if done.plan is not None:
                    used |= rules_of(done)
                assert all(done.last[n] == first.catalog.newest(n) for n in done.last)
                assert_right(each, first, name)
                before = done.first
                assert each.query(name, before).rows == recomputed(first, name, before)
    assert "A13" in used


def _row(random: Random, k: int) -> tuple[int, int, int, int]:
    return k, random.randint(0, 2), random.randint(0, 2), random.randint(0, 9)


# As objects


def test_what_is_stored_of_a_view_travels_as_it_is(tmp_path: Path) -> None:
    first = owner(tmp_path)
    first.update("R", inserted=[(6, 1, 1, -60)], deleted=[(5, 2, 2, 5)])
    state = {"R": first.query("R", {"R": 0}).rows}
    change = first.catalog.load_updategram(first.catalog.updategrams("R")[0])
    for name in ("average", "maximum", "top"):
        part = computed(first.catalog.view(name), Versions({"R": 0}), state)
        items = [part]
        if name != "top":
            items.append(grouping_booster(part.view, change, part.rows))
        for item in items:
            assert decode(encode(item)) == item
    top = window(part.view, Versions({"R": 0}), part.rows, 3)
    assert decode(encode(top)) == top


def test_rows_of_groups_that_a_booster_does_not_cover_are_refused(tmp_path: Path) -> None:
    first = owner(tmp_path)
    part = computed(first.catalog.view("maximum"), Versions({"R": 0}), {"R": first.query("R").rows})
    change = first.update("R", inserted=[(6, 1, 1, 60)])
    booster = grouping_booster(part.view, change, part.rows)
    wrong = GroupingBooster(booster.view, booster.first, booster.last, booster.groups, part.rows)
    with pytest.raises(ForeignObjectError, match="does not cover"):
        first.catalog.add(wrong)


def test_a_view_of_one_relation_that_cannot_be_taken_there_says_so(tmp_path: Path) -> None:
    first, peer = owner(tmp_path), node(tmp_path, "peer")
    first.update("R", inserted=[(6, 1, 1, 60)])
    first.advance("average")
    contents_of(first, "average")
    peer.exchange(first)
    peer = without_copies(peer)
    peer.hold("average")
    with pytest.raises(SharingError, match=r"No updategrams of average lead from \(R 1\) to"):
        peer.advance("average", {"R": 9})


def test_a_file_that_is_not_what_is_stored_is_told_and_may_be_deleted(tmp_path: Path) -> None:
    first = owner(tmp_path)
    held = tmp_path / "owner" / "held"
    good = (held / "average.stored").read_bytes()
    first.update("R", inserted=[(6, 1, 1, 60)])
    for bad in (b"", good[:-9], (held / "average.jsonl").read_bytes()):
        (held / "average.stored").write_bytes(bad)
        with pytest.raises(DamagedObjectError, match="Delete the file"):
            first.advance("average")
    (held / "average.stored").unlink()
    first.advance("average")
    assert_right(first, first, "average")
