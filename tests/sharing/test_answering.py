"""Questions on demand: the best of what is held or can be had, of a version, as fresh as asked."""

import json
import tempfile
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headwater import Project
from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.cli.share import app
from headwater.errors import InputError
from headwater.pipeline import share_refresh
from headwater.project.example import make_project
from headwater.sharing import (
    Boosters,
    MissingContentsError,
    NotFreshError,
    Policy,
    SharingError,
    SharingNode,
    Versions,
)
from headwater.sharing.freshness import (
    Heard,
    heard_from_json,
    heard_of,
    latest,
    note,
    parse_seconds,
    show_seconds,
)
from headwater.sharing.peers import Peer
from headwater.sharing.publishing import PublishedObjects
from tests.sharing.cases import LAST, RELATIONS, random_case
from tests.sharing.genes import V1, node, owners, rename
from tests.sharing.test_engines import BEYOND

FEW = settings(max_examples=max(1, settings().max_examples // 6))
HOUR = 3600.0


def shop(folder: Path) -> tuple[SharingNode, SharingNode, SharingNode]:
    """The owners of genes and of variants, and a counselor who has met them and holds V1."""
    n1, n2, _ = owners(folder)
    n4 = node(folder, "N4")
    n4.exchange(n1)
    n4.exchange(n2)
    n4.define("V1", V1)
    n4.hold("V1")
    return n1, n2, n4


def heard_long_ago(at: SharingNode) -> None:
    """What a node has heard is an hour older than it was."""
    before = heard_from_json(at.catalog.description["heard"])
    old = {name: [heard.version, heard.at - HOUR] for name, heard in before.items()}
    at.catalog.describe(heard=old)


def names(at: SharingNode, **question: object) -> set[str]:
    return {row[1] for row in at.query("V1", **question).rows}  # type: ignore[arg-type, misc] # as the test gives it


# As fresh as asked


def test_what_is_held_answers_if_it_is_fresh(tmp_path: Path) -> None:
    _, _, n4 = shop(tmp_path)
    (way, *others) = n4.ways("V1", fresh_s=60)
    assert way.is_held
    assert way.plan is None
    assert others, "and it was cheaper than computing it"
    assert n4.query("V1", fresh_s=60) == n4.held("V1")


def test_a_held_view_is_brought_up_to_date_by_what_has_come(tmp_path: Path) -> None:
    n1, _, n4 = shop(tmp_path)
    rename(n1)
    n4.exchange(n1)
    assert names(n4, fresh_s=60) == {"AFKAP", "BRCA2"}
    assert n4.held("V1") == n4.query("V1", fresh_s=60), "and is kept for who asks next"


def test_who_asks_for_the_first_time_has_what_has_come_since_contents_were_published(
    tmp_path: Path,
) -> None:
    n1, _, n4 = shop(tmp_path)
    n4.publish("V1")
    n5 = node(tmp_path, "N5")
    rename(n1)
    n5.exchange(n1)
    n5.exchange(n4)
    assert n5.query("V1").versions["Genes"] == n1.catalog.newest("Genes")
    assert "AFKAP" in names(n5)


def test_what_was_heard_too_long_ago_is_refused_with_what_can_be_had(tmp_path: Path) -> None:
    n1, _, n4 = shop(tmp_path)
    rename(n1)
    heard_long_ago(n4)
    with pytest.raises(NotFreshError) as error:
        n4.query("V1", fresh_s=300)
    assert "Genes was last heard of 3601s ago, at version 3" in error.value.message.replace(
        "61m", "3601s"
    )
    assert "Ask for" in error.value.hint
    assert "N1" in error.value.hint
    assert names(n4, fresh_s=2 * HOUR) == {"PRNC", "BRCA2"}, "what was offered can be had"


def test_the_owner_is_met_if_nothing_here_is_fresh_enough(tmp_path: Path) -> None:
    n1, n2, n4 = shop(tmp_path)
    rename(n1)
    heard_long_ago(n4)
    heard_long_ago(n2)  # who would else do, having met N1 just before
    peers = [n1.as_peer(), n2.as_peer()]
    assert names(n4, fresh_s=300, peers=peers) == {"AFKAP", "BRCA2"}


def test_nobody_is_met_for_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n1, _, n4 = shop(tmp_path)
    monkeypatch.setattr(SharingNode, "take", lambda *_: pytest.fail("a peer was met"))
    assert names(n4, fresh_s=300, peers=[n1.as_peer()]) == {"PRNC", "BRCA2"}


def test_a_cache_that_has_heard_lately_stands_in_for_the_owners(tmp_path: Path) -> None:
    """Hearsay goes on: N5 meets the owners, N4 meets N5."""
    n1, n2, n4 = shop(tmp_path)
    n5 = node(tmp_path, "N5")
    rename(n1)
    n5.exchange(n1)
    n5.exchange(n2)
    heard_long_ago(n4)
    assert names(n4, fresh_s=300, peers=[n5.as_peer()]) == {"AFKAP", "BRCA2"}


def test_a_peer_that_has_heard_long_ago_does_not_help(tmp_path: Path) -> None:
    _, _, n4 = shop(tmp_path)
    n5 = node(tmp_path, "N5")
    n5.exchange(n4)
    for late in (n4, n5):
        heard_long_ago(late)
    with pytest.raises(NotFreshError):
        n4.query("V1", fresh_s=300, peers=[n5.as_peer()])


def test_the_copy_of_a_folder_is_as_old_as_what_was_said_in_it(tmp_path: Path) -> None:
    """It has no private key, and nobody knows what its owner has done since."""
    n1, _, n4 = shop(tmp_path)
    heard_long_ago(n4)
    heard_long_ago(n1)
    rename_later = Peer(n1.catalog.store.folder)
    (n1.catalog.store.folder / "private.key").unlink()
    assert not rename_later.is_own
    with pytest.raises(NotFreshError):
        n4.query("V1", fresh_s=300, peers=[rename_later])


def test_relations_that_nobody_has_spoken_of_are_named(tmp_path: Path) -> None:
    _, _, n4 = shop(tmp_path)
    n4.catalog.describe(heard={})
    with pytest.raises(NotFreshError, match="nobody has said") as error:
        n4.query("V1", fresh_s=300)
    assert "'headwater share publish --refresh' beside a runner: have N1 or N2" in error.value.hint
    assert error.value.hint.endswith("Or ask without a freshness.")


def test_a_relation_is_as_fresh_as_asked_too(tmp_path: Path) -> None:
    n1, _, n4 = shop(tmp_path)
    rename(n1)
    heard_long_ago(n4)
    with pytest.raises(NotFreshError):
        n4.query("Genes", fresh_s=300)
    found = n4.query("Genes", fresh_s=300, peers=[n1.as_peer()])
    assert found.versions == Versions({"Genes": 4})


# At versions, now and in the past


def test_all_ways_lead_to_one_vector_which_is_not_before_what_is_held(tmp_path: Path) -> None:
    """An old copy of the view is no cheap answer: what somebody has seen stays seen."""
    n1, n2, n4 = shop(tmp_path)
    n4.publish("V1")
    n2.update("Variants", inserted=[(4, 42, "TTT", 0.5)])
    n4.exchange(n2)
    n4.advance("V1")
    n4.publish("V1")
    rename(n1)
    n4.exchange(n1)
    for question in ({"fresh_s": HOUR}, {"at": {"Genes": 4}}):
        ways = n4.ways("V1", **question)
        assert {way.versions for way in ways} == {Versions({"Genes": 4, "Variants": 8})}
        assert len(ways) == 4, "what is held, two copies, and the relations"


def test_a_version_and_a_freshness_go_together(tmp_path: Path) -> None:
    """Genes as they were; variants as new as asked."""
    n1, n2, n4 = shop(tmp_path)
    rename(n1)
    n2.update("Variants", inserted=[(4, 42, "TTT", 0.5)])
    n4.exchange(n1)
    n4.exchange(n2)
    found = n4.query("V1", {"Genes": 3}, fresh_s=300)
    assert found.versions == Versions({"Genes": 3, "Variants": 8})
    assert len(found.rows) == 3
    assert n4.held("V1") != found, "the past is not held"


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_every_way_comes_to_what_recomputing_does(seed: int) -> None:
    case, random = random_case(seed, sets=False), Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        here = SharingNode.create(Path(folder, "N"), "N", "s", durable=False)
        for relation in RELATIONS:
            rows = case.states[relation.name][0]
            here.own(relation.name, relation.schema, rows, publish=random.random() < 0.8)
            here.catalog.add_all(case.steps[relation.name])
        view = here.define("V", random.choice([case.view.sql, *BEYOND]))

        def shown(versions: Versions) -> Rows:
            state = {name: case.states[name][number] for name, number in versions.items()}
            return evaluate_shown(view.view, state)

        for _ in range(2):
            at = Versions({name: random.randint(0, LAST) for name in view.relations})
            here.hold("V", at, shown(at))
            if random.random() < 0.7:
                here.publish("V")
        target = Versions({name: random.randint(0, LAST) for name in view.relations})
        ways = here.ways("V", target)
        assert [way.seconds for way in ways] == sorted(way.seconds for way in ways)
        answering = here.answering("V")
        for way in ways:
            assert answering.answer(way).rows == shown(target), way.about


def test_a_view_of_which_nothing_is_here_says_what_is_missing(tmp_path: Path) -> None:
    n1, *_ = owners(tmp_path)
    n4 = node(tmp_path, "N4")
    n4.exchange(n1)
    for relation in ("Genes", "Variants", "Proteins"):
        for listed in n4.catalog.contents(relation):
            n4.catalog.store.path(listed.address).unlink()
    alone = SharingNode.open(tmp_path / "N4", durable=False)
    alone.define("V1", V1)
    with pytest.raises(MissingContentsError, match="there are no rows of"):
        alone.query("V1", {"Genes": 3, "Variants": 7})
    assert alone.query("V1", {"Genes": 3, "Variants": 7}, peers=[n1.as_peer()]).rows


def test_ways_are_for_views(tmp_path: Path) -> None:
    n1, *_ = owners(tmp_path)
    with pytest.raises(InputError, match="base relation"):
        n1.ways("Genes")


# What was heard


def test_what_was_heard_last_counts_and_nothing_lies_in_the_future(tmp_path: Path) -> None:
    one, other = {"R": Heard(3, 10.0), "S": Heard(1, 5.0)}, {"R": Heard(2, 9.0)}
    assert latest(one, other) == latest(other, one) == one
    assert heard_from_json({"R": [3, 99.0]}, now=50.0) == {"R": Heard(3, 50.0)}
    for nonsense in (None, 3, {"R": 3}, {"R": ["x", 1.0]}, {"R": [-1, 1.0]}, {"R": [1, -2]}):
        assert heard_from_json(nonsense) == {}
    n1, *_ = owners(tmp_path)
    before = heard_of(n1.catalog)
    note(n1.catalog, {"Variants": Heard(1, 1.0)})
    assert heard_of(n1.catalog)["Variants"] == before["Variants"]


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [("90s", 90, "90s"), ("5m", 300, "5m"), ("2h", 7200, "2h"), ("1.5h", 5400, "90m")],
)
def test_times_are_written_as_people_do(text: str, seconds: float, shown: str) -> None:
    assert parse_seconds(text) == seconds
    assert show_seconds(seconds) == shown
    with pytest.raises(InputError, match="no time"):
        parse_seconds(f"{text}x")


def test_a_warehouse_says_how_new_its_relations_are_when_its_runner_has_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_project(tmp_path / "orders")
    project = Project.open(tmp_path / "orders")
    warehouse = SharingNode.create(tmp_path / "W", "W", "genes", durable=False)
    warehouse.own("crm.customers", {"id": "int"}, publish=True, version=4)
    asked: list[str] = []

    def ask(_: object, kind: str, name: str) -> bool:
        asked.append(kind)
        return True

    done = PublishedObjects(vectors={"v": Versions({"crm.customers": 4})})
    monkeypatch.setattr(share_refresh, "ask_runner", ask)
    monkeypatch.setattr(share_refresh, "publish_project", lambda *_, anew: done)
    warehouse.catalog.describe(heard={})
    before = time.time()
    share_refresh.publish_refreshed(project, warehouse)
    said = heard_from_json(warehouse.catalog.description["heard"])["crm.customers"]
    assert said.version == 4
    assert said.at <= time.time()
    assert said.at >= before - 0.01, "when it was asked, or a little later, rounded"
    assert asked == ["refresh"] * len(project.view_files)


# Volunteers


def test_a_volunteer_makes_boosters_for_others_of_relations_of_others(tmp_path: Path) -> None:
    """It has rows of Variants because N2 published them, and has heard of V1 and the change."""
    n1, _, n4 = shop(tmp_path)
    volunteer = node(tmp_path, "N6", Policy(boosters=Boosters(("*",), volunteers=True)))
    volunteer.exchange(n4)
    rename(n1)
    volunteer.exchange(n1)
    (made,) = volunteer.catalog.boosters("Genes")
    assert (made.maker, made.of) == ("N6", ("Variants",))
    n4.exchange(volunteer)
    assert n4.advance("V1", {"Genes": 4}).boosters == (made.address,)
    selfish = node(tmp_path, "N7", Policy(boosters=Boosters(("*",))))
    selfish.exchange(n1)
    assert selfish.boost(["V1"]) == []


# From a shell


def test_the_command_answers_explains_and_refuses(tmp_path: Path) -> None:
    n1, n2, n4 = shop(tmp_path)
    rename(n1)
    heard_long_ago(n4)
    heard_long_ago(n2)
    n4_folder, n1_folder = str(tmp_path / "N4"), str(tmp_path / "N1")
    ask = ["query", "V1", "--catalog", n4_folder, "--fresh", "5m"]
    with pytest.raises(SharingError):
        CliRunner().invoke(app, ask, catch_exceptions=False)
    explained = CliRunner().invoke(app, [*ask, "--from", n1_folder, "--from", str(tmp_path / "N2"),
                                         "--explain", "--json"])  # fmt: skip
    ways = [json.loads(line) for line in explained.stdout.splitlines()]
    assert [way["chosen"] for way in ways] == [True] + [False] * (len(ways) - 1)
    assert ways[0]["about"].startswith("held here")
    shown = CliRunner().invoke(app, [*ask, "--explain"])
    assert "updategram of Genes" in shown.stdout
    done = CliRunner().invoke(app, ask)
    assert "AFKAP" in done.stdout


def test_a_volunteer_by_the_command(tmp_path: Path) -> None:
    n1, _, n4 = shop(tmp_path)
    rename(n1)
    n4.exchange(n1)
    done = CliRunner().invoke(app, ["boost", "--catalog", str(tmp_path / "N4"), "--volunteer"])
    assert "the booster of Variants for Genes 3 to 4 in view V1: 1 row" in done.stdout
    again = CliRunner().invoke(app, ["boost", "--catalog", str(tmp_path / "N4"), "--json"])
    assert again.stdout == ""
    assert SharingNode.open(tmp_path / "N4").policy.boosters.volunteers
