"""A runner that publishes what views do, over real databases; a peer that follows it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from headwater.frames.engine import Engine
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.publisher import Publisher
from headwater.pipeline.runner import Runner
from headwater.pipeline.share import open_node, publish_project
from headwater.pipeline.status import describe, publishing, troubles
from headwater.sharing import SharingNode
from headwater.sharing.owed import read_owed
from headwater.sharing.peers import NODE_FILE, read_description
from headwater.warehouse.changes import ChangeLog
from tests.cli.commands import PROGRAM, quick
from tests.pipeline.small import AMOUNTS, LIMIT_S, NAMES, Small, supervised, wait_until
from tests.warehouse.test_small import no_spark

JOINED = (
    "CREATE MATERIALIZED VIEW joined AS SELECT o.id, o.amount, c.name FROM shop.orders AS o "
    "JOIN crm.customers AS c ON c.id = o.id"
)
SHARE = "[share]\npublish = true\nevery = 'commit'\nnode = 'W'\n"


def shared(folder: Path, share: str = SHARE, **views: str) -> Small:
    made = Small(folder, views or {"amounts": AMOUNTS, "names": NAMES})
    settings = made.folder / "headwater.toml"
    settings.write_text(settings.read_text() + share)
    return made


@contextmanager
def publishing_runner(small: Small) -> Iterator[Runner]:
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: all(view.state == "running" for view in runner.views.values()))
        yield runner


def node(small: Small) -> SharingNode:
    return SharingNode.open(small.folder / "share")


def follower(folder: Path, small: Small, *views: str) -> SharingNode:
    """A peer that has met the node and holds its views; it is met again by `meet`."""
    peer = SharingNode.create(folder, "P", durable=False)
    meet(peer, small)
    for view in views:
        peer.hold(view)
    return peer


def meet(peer: SharingNode, small: Small) -> None:
    peer.exchange(node(small), fetch_only=True)


def follows(peer: SharingNode, small: Small, view: str) -> bool:
    """Whether a peer has what the warehouse shows, once it has taken what is published."""
    meet(peer, small)
    return peer.query(view).rows == small.warehouse.view(view).rows()


def reached(small: Small) -> int:
    """Up to which transaction orders are published."""
    found: int = node_description(small)["reached"]["shop.orders"]
    return found


def node_description(small: Small) -> dict[str, Any]:
    return read_description(small.folder / "share" / NODE_FILE)


def is_published(small: Small, *views: str) -> bool:
    """Whether there is something to start from of each of these views."""
    if not (small.folder / "share" / NODE_FILE).exists():
        return False
    return set(views) <= set(node_description(small).get("published", ()))


def is_told(trouble: str) -> bool:
    return trouble.startswith("Nothing can be published: Another process")


def insert(small: Small, number: int) -> None:
    small.write("shop", f"INSERT INTO orders VALUES ({number}, {number * 10}, 'n', 'new')")


def test_what_views_commit_is_published_by_itself_and_a_peer_follows(tmp_path: Path) -> None:
    small = shared(tmp_path / "p")
    with publishing_runner(small) as runner:
        wait_until(lambda: is_published(small, "amounts", "names"))
        peer = follower(tmp_path / "peer", small, "amounts", "names")
        for number in range(3, 8):
            insert(small, number)
        small.write("crm", "UPDATE customers SET name = 'Eve'")
        wait_until(lambda: follows(peer, small, "amounts") and len(small.rows("amounts")) == 7)
        wait_until(lambda: follows(peer, small, "names"))
        found = runner.describe()
        assert found["share"]["node"] == "W"
        assert found["views"]["amounts"]["published"]["why"] is None


def test_a_run_that_ends_has_published_everything(tmp_path: Path) -> None:
    small = shared(tmp_path / "p", SHARE.replace("commit", "1 hour"))
    insert(small, 3)
    small.project.run(once=True)
    insert(small, 4)
    small.project.run(once=True)
    status = describe(small.project)
    newest = status["views"]["amounts"]["number"]
    assert status["views"]["amounts"]["published"]["number"] == newest
    assert not troubles(status)
    assert f"amounts is published up to version {newest}" in publishing(status)
    assert follows(follower(tmp_path / "peer", small, "amounts"), small, "amounts")


def test_a_booster_whose_source_is_away_is_owed_and_made_when_it_is_back(tmp_path: Path) -> None:
    small = shared(tmp_path / "p", f"{SHARE}boosters = ['*']\n", amounts=AMOUNTS, joined=JOINED)
    crm = small.folder / "crm.db"
    with publishing_runner(small) as runner:
        insert(small, 3)
        wait_until(lambda: len(small.rows("amounts")) == 3)
        wait_until(lambda: runner.publisher is not None and runner.publisher.catch_up())
        assert not runner.describe()["share"]["owed"]
        shutil.move(crm, small.folder / "away.db")
        insert(small, 1001)
        insert(small, 1002)

        def owed() -> list[dict[str, str]]:
            found: list[dict[str, str]] = runner.describe()["share"]["owed"]
            return found

        wait_until(lambda: any(each["why"] for each in owed()), runner.describe)
        assert {each["source"] for each in owed()} == {"crm"}
        assert [line for line in publishing(runner.describe()) if line.startswith("owed: ")]
        before = read_owed(node(small).catalog.store)
        assert {o.of for o in before} == {"crm.customers"}
        shutil.move(small.folder / "away.db", crm)
        wait_until(lambda: not owed(), runner.describe)
    made = node(small).catalog.boosters("shop.orders")
    for each in before:
        assert any(b.interval.contains(each.interval) for b in made if b.of == (each.of,))
    assert read_owed(node(small).catalog.store) == []


def test_boosters_are_owed_on_over_an_end_of_the_runner(tmp_path: Path) -> None:
    small = shared(tmp_path / "p", f"{SHARE}boosters = ['*']\n", amounts=AMOUNTS, joined=JOINED)
    small.project.run(once=True)
    crm = small.folder / "crm.db"
    with publishing_runner(small) as runner:
        shutil.move(crm, small.folder / "away.db")
        insert(small, 3)
        wait_until(lambda: any(each["why"] for each in runner.describe()["share"]["owed"]))
    listed = quick("share", "list", "-c", str(small.folder / "share"))
    assert "Owed" in listed.out
    assert "crm.customers" in listed.out
    shutil.move(small.folder / "away.db", crm)
    small.project.run(once=True)
    assert read_owed(node(small).catalog.store) == []
    assert node(small).catalog.boosters("shop.orders")


def test_by_hand_and_by_the_runner_at_once_nothing_is_published_twice(tmp_path: Path) -> None:
    small = shared(tmp_path / "p")
    with publishing_runner(small):
        wait_until(lambda: is_published(small, "amounts"))
        peer = follower(tmp_path / "peer", small, "amounts")
        project = small.project
        for number in range(3, 23):
            insert(small, number)
            if number % 4 == 0:
                publish_project(project, open_node(project))
        wait_until(lambda: len(small.rows("amounts")) == 22 and follows(peer, small, "amounts"))
    for subject in ("amounts", "shop.orders"):
        ends = [
            (u.first["shop.orders"], u.last["shop.orders"])
            for u in node(small).catalog.updategrams(subject)
        ]
        assert len({first for first, _ in ends}) == len(ends), "one way leads on from each version"
        assert {first for first, _ in ends} - {last for _, last in ends} == {min(ends)[0]}


def test_a_runner_that_was_replaced_and_does_not_know_it_publishes_nothing_else(
    tmp_path: Path,
) -> None:
    small = shared(tmp_path / "p", SHARE.replace("publish = true", "publish = false"))
    small.project.run(once=True)
    views = [KeptView("amounts"), KeptView("names")]
    for number in range(3, 6):
        runners = [
            Publisher(lambda: small.project, lambda: views, Engine(no_spark), lambda: False)
            for _ in range(2)
        ]
        for each in runners:
            each.start()
        for each in runners:
            wait_until(each.catch_up)
        for each in runners:
            each.finish(LIMIT_S)
        insert(small, number)
        small.project.run(once=True)
    project = small.project
    publish_project(project, open_node(project))
    ways = {(u.first, u.last) for u in node(small).catalog.updategrams("amounts")}
    assert len(ways) == len({first for first, _ in ways}) == 3, "one after the other"
    assert follows(follower(tmp_path / "peer", small, "amounts"), small, "amounts")


def test_a_node_that_another_process_keeps_locked_is_told_and_keeps_nobody_waiting(
    tmp_path: Path,
) -> None:
    small = shared(tmp_path / "p")
    small.project.run(once=True)
    with publishing_runner(small) as runner:
        with node(small).catalog.store.locked():
            insert(small, 3)
            wait_until(lambda: len(small.rows("amounts")) == 3)
            wait_until(lambda: "Another process" in (runner.describe()["share"]["trouble"] or ""))
            wait_until(lambda: any(map(is_told, troubles(describe(small.project)))))
        wait_until(lambda: runner.describe()["share"]["trouble"] is None)


def why(runner: Runner, view: str) -> str:
    """Why a view is not published, as the runner has found last."""
    return runner.describe()["views"][view].get("published", {}).get("why") or ""


def test_a_view_that_cannot_be_published_is_told_with_the_remedy_and_the_others_are(
    tmp_path: Path,
) -> None:
    small = shared(tmp_path / "p")
    small.project.run(once=True)
    small.view_file("amounts").write_text(AMOUNTS.replace("amount FROM", "2 * amount AS a FROM"))
    peer = follower(tmp_path / "peer", small, "names")
    small.write("crm", "UPDATE customers SET name = 'Eve'")
    with supervised(Runner(small.project, no_spark, anew=["amounts"])) as runner:
        wait_until(lambda: "publish into a new catalog" in why(runner, "amounts"))
        wait_until(lambda: len(small.rows("names")) == 1 and follows(peer, small, "names"))
    told = "\n".join(troubles(describe(small.project)))
    assert "amounts is not published: " in told
    assert "publish into a new catalog" in told


def test_what_is_not_published_yet_is_known_before_anything_is_published(tmp_path: Path) -> None:
    """So that nothing of it is let go while the node cannot be used."""
    small = shared(tmp_path / "p")
    small.project.run(once=True)
    insert(small, 3)
    small.project.run(once=True)
    (small.folder / "share" / "private.key").unlink()
    publisher = Publisher(lambda: small.project, list, Engine(no_spark), lambda: False)
    publisher.start()
    publisher.finish(60.0)
    assert (publisher.needed("shop"), publisher.needed("crm")) == (1, 0)


def test_a_publisher_that_was_away_too_long_begins_anew_with_contents(tmp_path: Path) -> None:
    small = shared(tmp_path / "p")
    small.project.run(once=True)
    peer = follower(tmp_path / "peer", small, "amounts")
    settings = small.folder / "headwater.toml"
    text = settings.read_text()
    settings.write_text(text.replace("publish = true", "publish = false"))
    insert(small, 3)
    small.project.run(once=True)
    insert(small, 4)
    small.project.run(once=True)
    log = ChangeLog(small.warehouse.changes, "shop")
    assert log.release(1, 0.0)
    settings.write_text(text)
    with publishing_runner(small) as runner:
        wait_until(lambda: bool(runner.describe()["share"]["notes"]))
        (told,) = runner.describe()["share"]["notes"]
        assert told.startswith("shop.orders: It begins anew, since the change log begins at")
        wait_until(lambda: follows(peer, small, "amounts"))


def test_a_runner_that_is_killed_at_any_moment_leaves_nothing_out(tmp_path: Path) -> None:
    small = shared(tmp_path / "p", f"{SHARE}boosters = ['*']\n", amounts=AMOUNTS, joined=JOINED)
    small.project.run(once=True)
    peer = follower(tmp_path / "peer", small, "amounts", "joined")
    random, number = Random(1), 3
    for _ in range(2):
        runner = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", *small.arguments, "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        before = reached(small)
        deadline = time.monotonic() + LIMIT_S
        while reached(small) < before + 3:
            assert time.monotonic() < deadline
            insert(small, number)
            number += 1
            time.sleep(random.uniform(0.01, 0.1))
            assert runner.poll() is None
        time.sleep(random.uniform(0.0, 0.2))
        runner.kill()
        runner.wait()
    small.project.run(once=True)
    assert all(follows(peer, small, view) for view in ("amounts", "joined"))
    assert len(peer.query("amounts").rows) == number - 1
    assert read_owed(node(small).catalog.store) == []


def test_the_runner_says_how_new_what_it_publishes_is(tmp_path: Path) -> None:
    """So that a peer can ask for a freshness, and nobody types 'share publish --refresh'."""
    small = shared(tmp_path / "p", amounts=AMOUNTS)
    with publishing_runner(small) as runner:
        wait_until(lambda: is_published(small, "amounts"))
        peer = follower(tmp_path / "peer", small, "amounts")
        for number in (3, 4):
            asked = time.time()
            insert(small, number)
            wait_until(lambda at=asked: (runner.describe()["share"]["as_of"] or 0) > at)  # type: ignore[misc]
            meet(peer, small)
            found = peer.query("amounts", fresh_s=time.time() - asked)
            assert len(found.rows) == number
        assert "all that the sources had committed at" in "\n".join(
            publishing(describe(small.project))
        )
