"""A warehouse that is made anew, put back or copied beside what it has published: peers never
combine what belongs to two histories, and what helps is said."""

import json
import shutil
from pathlib import Path

import pytest

from headwater.algebra.rows import Rows
from headwater.sharing import ConflictError, SharingNode, UntrustedObjectError
from headwater.sharing.coalescing import coalesce
from headwater.sharing.owed import OwedBooster, read_owed, write_owed
from headwater.sharing.peers import NODE_FILE
from tests.sharing.homes import Home, R, follows, peer


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """It has loaded one row and published four changes."""
    made = Home(tmp_path / "home")
    made.load([(0, "loaded")])
    made.publish()
    made.happen((1, "a"), (2, "b"))
    made.publish()
    made.happen((3, "c"), (4, "d"))
    made.publish()
    return made


def combined(peer: SharingNode) -> set[bool]:
    """Of all changes of the relation, whether they lead from small versions to those of a life that
    began later."""
    found = peer.catalog.updategrams("x.r")
    return {(u.first["x.r"] < 1 << 32) != (u.last["x.r"] < 1 << 32) for u in found}


def test_a_warehouse_made_anew_beside_what_it_published_begins_a_life_of_its_own(
    home: Home, tmp_path: Path
) -> None:
    follower = peer(tmp_path / "p", home)
    shutil.rmtree(home.folder / "warehouse")
    home.load([(0, "other")])
    home.happen((11, "a"), (12, "b"))
    done = home.publish()
    assert done.anew == dict.fromkeys(
        ["v", "x.r"], "another warehouse has published it here before"
    )
    home.happen(*((number, "later") for number in range(20, 26)))
    home.publish()
    assert follows(follower, home)
    assert combined(follower) == {False}
    assert follows(peer(tmp_path / "new", home, "Q"), home)


def test_a_warehouse_that_was_put_back_begins_a_life_of_its_own(home: Home, tmp_path: Path) -> None:
    follower = peer(tmp_path / "p", home)
    home.copied(tmp_path / "backup")
    home.happen((5, "e"))
    home.publish()
    assert follows(follower, home)
    Home(tmp_path / "backup").copied(home.folder, "warehouse")
    home.happen((50, "not e"), (60, "not f"), (70, "not g"))
    done = home.publish()
    assert "was put back to an earlier state" in done.anew["v"]
    assert follows(follower, home)
    assert combined(follower) == {False}


def test_a_warehouse_put_back_before_it_was_published_here_begins_a_life_of_its_own(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.load([(0, "loaded")])
    home.copied(tmp_path / "backup", "warehouse")
    home.happen((1, "a"))
    home.publish()
    follower = peer(tmp_path / "p", home)
    Home(tmp_path / "backup").copied(home.folder, "warehouse")
    home.happen((7, "not a"), (8, "not b"))
    assert "was put back" in home.publish().anew["v"]
    assert follows(follower, home)


def test_a_change_log_that_ends_before_what_was_published_begins_a_life(
    home: Home, tmp_path: Path
) -> None:
    follower = peer(tmp_path / "p", home)
    record = next((home.folder / "warehouse").rglob("published/*.json"))
    kept = record.read_bytes()
    shutil.rmtree(home.folder / "warehouse" / "_headwater" / "changes")
    shutil.rmtree(home.folder / "warehouse" / "v")
    shutil.rmtree(home.folder / "warehouse" / "_headwater" / "views")
    home.load([(0, "other")])
    home.happen((11, "a"))
    assert record.read_bytes() == kept, "so that only the log itself tells"
    assert home.publish().anew["x.r"] == "its change log ends with number 1, and 4 was published"
    assert follows(follower, home)


def test_a_node_that_was_put_back_begins_a_life_of_its_own(home: Home, tmp_path: Path) -> None:
    """What was published since is not known there any more; peers have it."""
    home.copied(tmp_path / "backup")
    home.happen((5, "e"))
    home.publish()
    follower = peer(tmp_path / "p", home)
    Home(tmp_path / "backup").copied(home.folder, "share")
    home.happen((6, "f"))
    assert "was put back" in home.publish().anew["v"]
    assert follows(follower, home)
    assert combined(follower) == {False}


def test_what_a_release_without_lives_has_published_is_not_gone_on_with(
    home: Home, tmp_path: Path
) -> None:
    follower = peer(tmp_path / "p", home)
    file = home.folder / "share" / NODE_FILE
    said = json.loads(file.read_text())
    del said["lives"]
    file.write_text(json.dumps(said))
    home.happen((5, "e"))
    assert home.publish().anew["x.r"].startswith("it is not known of which state")
    assert follows(follower, home)


def test_a_life_goes_on_like_any_other(home: Home, tmp_path: Path) -> None:
    shutil.rmtree(home.folder / "warehouse")
    home.load()
    home.publish()
    follower = peer(tmp_path / "p", home)
    for number in range(30, 33):
        home.happen((number, "x"))
        done = home.publish()
        assert (done.anew, done.counts) == ({}, {"updategram": 2})
        assert follows(follower, home)
    assert home.publish().counts == {}


@pytest.mark.parametrize("restored", [True, False])
def test_two_histories_with_the_same_versions_are_noticed_by_who_meets_both(
    home: Home, tmp_path: Path, restored: bool
) -> None:
    """Both parts put back to one moment; or copied to a second place, and both go on."""
    other = home.copied(tmp_path / "other")
    home.happen((5, "e"), (6, "f"))
    home.publish()
    follower = peer(tmp_path / "p", home)
    before = follower.query("v")
    if restored:
        other = other.copied(home.folder)
    other.happen((50, "not e"))
    assert not other.publish().anew, "nothing there tells"
    other.happen((60, "not f"), (70, "not g"))
    other.publish()
    with pytest.raises(ConflictError, match="as its publication 4: it was put back") as said:
        follower.exchange(other.node, fetch_only=True)
    assert "share publish --anew" in said.value.hint
    follower.exchange(other.node, fetch_only=True, skip_bad=True)
    assert follower.query("v") == before
    assert other.publish(anew=True).anew["v"] == "that was asked for"
    assert follows(follower, other)
    assert combined(follower) == {False}


def test_what_others_made_of_another_history_is_not_taken(home: Home, tmp_path: Path) -> None:
    other = home.copied(tmp_path / "other")
    for place, text in ((home, "e"), (other, "not e")):
        place.happen((5, text))
        place.publish()
    ours, theirs = peer(tmp_path / "ours", home, "A"), peer(tmp_path / "theirs", other, "B")
    theirs.publish("v")
    with pytest.raises(ConflictError, match="Node N has published two different things"):
        ours.exchange(theirs, fetch_only=True)
    ours.exchange(theirs, fetch_only=True, skip_bad=True)
    assert {c.maker for c in ours.catalog.contents("v")} == {"N"}
    other.publish(anew=True)
    ours.exchange(other.node, fetch_only=True)
    theirs.exchange(other.node, fetch_only=True)
    ours.exchange(theirs, fetch_only=True)  # what is past is no conflict any more
    assert ours.advance("v").last == theirs.advance("v").last
    assert ours.query("v").rows == theirs.query("v").rows == other.rows


def test_a_node_that_began_anew_meets_what_it_has_forgotten(home: Home, tmp_path: Path) -> None:
    home.copied(tmp_path / "backup")
    home.happen((5, "e"))
    home.publish()
    follower = peer(tmp_path / "p", home)
    Home(tmp_path / "backup").copied(home.folder)
    with pytest.raises(UntrustedObjectError, match="put back to an earlier state"):
        home.node.exchange(follower, fetch_only=True)
    home.publish(anew=True)
    home.node.exchange(follower, fetch_only=True)
    assert follows(follower, home)


def test_boosters_that_are_owed_from_an_earlier_life_are_forgotten(
    home: Home, tmp_path: Path
) -> None:
    store = home.node.catalog.store
    write_owed(store, [OwedBooster("v", "x.r", 0, 4, "y.s", 3)])
    shutil.rmtree(home.folder / "warehouse")
    home.load()
    home.publish()
    assert read_owed(store) == []


def test_what_is_published_as_one_step_does_not_lead_over_a_life(
    home: Home, tmp_path: Path
) -> None:
    home.publish(anew=True)
    for number in (5, 6):
        home.happen((number, "later"))
        home.publish()
    whole = coalesce(home.node, "v")
    assert whole is not None
    assert whole.first["x.r"] > 1 << 32
    assert whole.net == home.rows - Rows.of(R.schema, [(0, "loaded")])
