"""Files of what a node has published that are gone or damaged: told, and made again."""

import shutil
from pathlib import Path

import pytest

from headwater.sharing import DamagedObjectError, SharingNode
from headwater.warehouse.changes import ChangeLog
from tests.cli.commands import quick
from tests.sharing.homes import Home, follows, peer


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """It has loaded one row and published three times."""
    made = Home(tmp_path / "home")
    made.load([(0, "loaded")])
    made.publish()
    for number in range(1, 7, 2):
        made.happen((number, "a"), (number + 1, "b"))
        made.publish()
    return made


def file_of(home: Home, kind: str, subject: str, last: int) -> Path:
    """Of an object that ends at a version."""
    catalog = home.node.catalog
    (found,) = [
        listed.address
        for listed in catalog
        if listed.kind == kind
        and listed.manifest["subject"] == subject
        and listed.manifest.get("last", listed.manifest.get("versions")) == {"x.r": last}
    ]
    return catalog.store.path(found)


KINDS = [("updategram", "x.r", 4), ("updategram", "v", 4), ("updategram", "v", 6)]


@pytest.mark.parametrize(("kind", "subject", "last"), KINDS)
def test_a_file_that_was_deleted_is_made_again(
    home: Home, kind: str, subject: str, last: int
) -> None:
    file = file_of(home, kind, subject, last)
    content = file.read_bytes()
    file.unlink()
    done = home.publish()
    assert (done.counts, done.anew, done.damaged) == ({"updategram": 1}, {}, {})
    again = file_of(home, kind, subject, last).read_bytes()
    assert again.partition(b"\n")[2] == content.partition(b"\n")[2]


@pytest.mark.parametrize("part", [0, 20, 200, -2])
@pytest.mark.parametrize(("kind", "subject", "last"), KINDS)
def test_a_file_that_was_damaged_is_told_removed_and_made_again(
    home: Home, kind: str, subject: str, last: int, part: int
) -> None:
    file = file_of(home, kind, subject, last)
    content = bytearray(file.read_bytes())
    content[part] ^= 1
    file.write_bytes(content)
    done = home.publish()
    assert [f"{file} is damaged" in why for why in done.damaged.values()] == [True]
    assert (done.counts, done.anew) == ({"updategram": 1}, {})
    assert not home.publish().damaged


def test_a_file_that_cannot_be_read_leaves_the_rest_of_the_node_and_is_told(home: Home) -> None:
    file = file_of(home, "updategram", "x.r", 4)
    file.write_bytes(b"nothing\n")
    shown = quick("share", "list", "-c", str(home.folder / "share")).out
    assert f"{file} is damaged" in " ".join(shown.split())
    assert "'headwater share publish' removes it and makes it again" in " ".join(shown.split())
    assert home.node.catalog.updategrams("v")


def test_contents_that_were_deleted_are_published_as_they_are_now(
    home: Home, tmp_path: Path
) -> None:
    file_of(home, "contents", "v", 0).unlink()
    assert home.publish().counts == {"contents": 1}
    assert follows(peer(tmp_path / "p", home), home)


def test_what_the_warehouse_does_not_have_any_more_is_told_and_peers_go_on(
    home: Home, tmp_path: Path
) -> None:
    """The change log has let it go; the view's contents are published behind it."""
    follower = peer(tmp_path / "p", home)
    for kind, subject, last in (("updategram", "x.r", 4), ("updategram", "x.r", 6)):
        file_of(home, kind, subject, last).unlink()
    home.happen((7, "c"))
    log = ChangeLog(home.warehouse.changes, "x")
    assert log.release(6, 0.0) > 0
    done = home.publish()
    assert done.anew["v"].startswith("files of what was published are gone")
    assert done.counts["contents"] == 1
    assert not home.publish().counts, "once"
    assert follows(follower, home)
    assert follows(peer(tmp_path / "q", home, "Q"), home)


def test_a_runner_that_is_at_work_notices_that_a_file_is_gone(home: Home) -> None:
    catalog = home.node.catalog
    file_of(home, "updategram", "x.r", 4).unlink()
    catalog.refresh()
    assert {u.last["x.r"] for u in catalog.updategrams("x.r")} == {2, 6}


def test_a_damaged_object_of_somebody_else_can_be_taken_again(home: Home, tmp_path: Path) -> None:
    follower = peer(tmp_path / "p", home)
    listed = follower.catalog.updategrams("v")[0]
    follower.catalog.store.path(listed.address).write_bytes(b"nothing\n")
    follower = SharingNode.open(tmp_path / "p", durable=False)
    assert isinstance(follower.catalog.damaged[listed.address], DamagedObjectError)
    follower.catalog.store.path(listed.address).unlink()
    assert follower.exchange(home.node, fetch_only=True)[0].taken == {"updategram": 1}


@pytest.mark.parametrize("kind", ["node", "relation", "view", "publication"])
@pytest.mark.parametrize("at", [0, -1])
def test_what_says_what_there_is_is_made_again(
    home: Home, tmp_path: Path, kind: str, at: int
) -> None:
    catalog = home.node.catalog
    lost = sorted(listed.address for listed in catalog if listed.kind == kind)[at]
    catalog.store.path(lost).unlink()
    home.publish()
    assert home.node.catalog.addresses() == catalog.addresses()
    assert follows(peer(tmp_path / "p", home), home)


def test_a_node_of_which_everything_is_gone_but_its_file_begins_a_life(
    home: Home, tmp_path: Path
) -> None:
    follower = peer(tmp_path / "p", home)
    shutil.rmtree(home.folder / "share" / "objects")
    home.happen((7, "c"))
    assert home.publish().anew["v"] == "files of what was published here are gone"
    assert follows(follower, home)
    assert follows(peer(tmp_path / "q", home, "Q"), home)
