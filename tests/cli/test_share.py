"""`headwater share` on the command line: what it prints, and what it says of mistakes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.errors import InputError
from headwater.sharing import ForeignObjectError, SharingNode
from headwater.sharing.policies import Hybrid, Periodic
from tests.cli.commands import PROGRAM, failing, headwater, quick
from tests.sharing.genes import V1, owners, rename


@pytest.fixture
def genes(tmp_path: Path) -> Path:
    """N1 to N3 know each other and V1; Genes is at 4, and there is a booster for that."""
    n1, n2, _ = owners(tmp_path)
    n1.define("V1", V1)
    rename(n1)
    n2.exchange(n1)
    n2.boost(["V1"])
    return tmp_path


def lines(*arguments: str) -> list[dict[str, object]]:
    done = quick("share", *arguments, "--json")
    assert done.code == 0
    return [json.loads(line) for line in done.out.splitlines()]


def test_objects_are_listed_for_people_and_for_machines(genes: Path) -> None:
    shown = quick("share", "list", "-c", str(genes / "N2"))
    assert "node N2 of the system genes" in shown.out
    assert ["Genes", "N1", "1", "4"] in [line.split() for line in shown.out.splitlines()]
    assert "Variants 7, for Genes 3 to 4 in view V1" in " ".join(shown.out.split())
    found = lines("list", "-c", str(genes / "N2"))
    kinds = [item["kind"] for item in found]
    assert {"node", "relation", "view", "contents", "updategram", "booster", "held"} == set(kinds)
    (booster,) = lines("list", "-c", str(genes / "N2"), "--kind", "booster")
    assert (booster["changed"], booster["of"], booster["rows"]) == ("Genes", ["Variants"], 1)


def test_a_new_node_takes_everything_and_follows(genes: Path) -> None:
    here = str(genes / "N9")
    taken, given = lines("exchange", str(genes / "N2"), "-c", here, "--node", "N9")
    assert (taken["from"], taken["to"], taken["refused"]) == ("N2", "N9", {})
    assert taken["taken"] == {"node": 3, "relation": 3, "view": 1, "contents": 3,
                              "updategram": 1, "booster": 1}  # fmt: skip
    assert given["taken"] == {"node": 1}
    about, *rows = lines("query", "V1", "-c", here, "--at", "Genes=3,Variants=7")
    assert about == {"name": "V1", "versions": {"Genes": 3, "Variants": 7}}
    assert [row["count"] for row in rows] == [1, 1]
    SharingNode.open(here).hold("V1", {"Genes": 3, "Variants": 7})
    (done,) = lines("advance", "V1", "-c", here)
    assert (done["last"], done["inserted"], done["copies"]) == ({"Genes": 4, "Variants": 7}, 1, [])
    assert "V1 stays at (Genes 4, Variants 7)" in quick("share", "advance", "V1", "-c", here).out
    shown = quick("share", "query", "V1", "-c", here, "--limit", "1").out
    assert "2 rows of V1 at (Genes 4, Variants 7); the first 1 are shown" in shown


def test_a_plan_is_a_tree_with_rules_and_costs_and_advance_follows_it(genes: Path) -> None:
    here = str(genes / "N9")
    quick("share", "exchange", str(genes / "N2"), "-c", here, "--node", "N9")
    SharingNode.open(here).hold("V1", {"Genes": 3, "Variants": 7})
    (found,) = lines("plan", "V1", "-c", here)
    assert (found["first"], found["last"]) == (
        {"Genes": 3, "Variants": 7},
        {"Genes": 4, "Variants": 7},
    )
    tree = cast("dict[str, Any]", found["plan"])
    (join,) = tree["below"]
    assert (join["rule"], [part["place"] for part in join["below"]]) == ("A2", ["local"] * 2)
    assert tree["seconds"] >= join["seconds"] >= sum(part["seconds"] for part in join["below"])
    picture = genes / "plan.svg"
    shown = quick("share", "plan", "V1", "-c", here, "--plot", str(picture)).out
    assert "└─ A2: joined with Variants (1 row, " in shown
    assert "booster of Variants 7 for Genes 3 to 4, view V1" in " ".join(shown.split())
    assert "A2" in picture.read_text()
    (done,) = lines("advance", "V1", "-c", here)
    assert done["boosters"] == [join["below"][1]["address"]]
    assert "nothing to plan" in quick("share", "plan", "V1", "-c", here).out
    assert lines("plan", "V1", "-c", here)[0]["plan"] is None


def test_a_policy_is_set_from_the_command_line(genes: Path) -> None:
    for text, policy in (("hybrid:5", Hybrid(5)), ("periodic:60", Periodic(60.0))):
        quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "N1"), "--policy", text)
        assert SharingNode.open(genes / "N1").policy.propagation == policy


def test_bad_objects_are_skipped_if_that_is_wanted(genes: Path) -> None:
    n1 = SharingNode.open(genes / "N1")
    (listed,) = n1.catalog.updategrams("Genes")
    path = n1.catalog.store.path(listed.address)
    path.write_bytes(path.read_bytes().replace(b"AFKAP", b"AFKAQ"))
    taken, _ = lines("exchange", str(genes / "N1"), "-c", str(genes / "N3"), "--skip-bad")
    assert list(taken["refused"]) == [listed.address]  # type: ignore[call-overload]
    again = quick("share", "exchange", str(genes / "N1"), "-c", str(genes / "N3"), "--skip-bad")
    assert f"✗ {listed.address[:12]}: The shared object {path} is damaged" in again.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "-c", "nowhere"], "is not a catalog of shared objects"),
        (["list", "--kind", "thing", "-c", "N1"], "There is no kind 'thing'"),
        (["query", "V9", "-c", "N1"], "There is no view or relation V9"),
        (["query", "V1", "-c", "N1", "--at", "Genes"], "is not a version of a relation"),
        (["query", "V1", "-c", "N1", "--at", "Other=3"], "does not read Other"),
        (["advance", "V9", "-c", "N1"], "There is no view V9"),
        (["exchange", "N2", "-c", "N1", "--policy", "often"], "There is no policy 'often'"),
        (["exchange", "N2", "-c", "N1", "--policy", "eager:3"], "--policy eager:3: cannot be read"),
        (["exchange", "N2", "-c", "N8"], "There is no node in N8 yet. Name it with --node"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    genes: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(genes)
    found = failing(monkeypatch, capsys, "share", *arguments)
    assert found.code == 2
    assert message in found.err
    assert found.err.count("\n") == 1


def test_what_is_missing_is_exit_code_1(
    genes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = failing(
        monkeypatch, capsys, "share", "query", "Genes", "-c", str(genes / "N1"), "--at", "Genes=9"
    )
    assert found.code == 1
    assert "updategrams lead up to 4 only" in found.err


def test_sharing_starts_neither_spark_nor_delta() -> None:
    heavy = "('pyspark', 'pyarrow', 'deltalake')"
    check = f"import sys, headwater.sharing; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
    assert headwater("share", "--help").code == 0


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("periodic:nan", "has nan seconds"),
        ("periodic:-5", "has -5.0 seconds"),
        ("periodic:0", "has 0.0 seconds"),
        ("periodic:inf", "has inf seconds"),
        ("hybrid:-1", "has -1 rows"),
        ("hybrid:", "cannot be read"),
        ("periodic", "cannot be read"),
    ],
)
def test_a_policy_that_means_nothing_is_refused_and_the_old_one_stays(
    genes: Path, policy: str, why: str
) -> None:
    before = SharingNode.open(genes / "N1").policy
    with pytest.raises(InputError, match=f"--policy {policy}: .*{why}"):
        quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "N1"), "--policy", policy)
    assert SharingNode.open(genes / "N1").policy == before


def test_a_policy_that_means_nothing_in_a_nodes_file_is_told_with_file_and_line(
    genes: Path,
) -> None:
    file = genes / "N1" / "node.json"
    said = json.loads(file.read_text())
    said["policy"]["propagation"] = {"kind": "periodic", "every_s": -5}
    file.write_text(json.dumps(said, indent=1))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if '"policy"' in text)
    with pytest.raises(InputError) as told:
        quick("share", "list", "-c", str(genes / "N1"))
    assert f"{file}:{line}: The policy 'periodic' has -5 seconds." in str(told.value)


def test_another_name_for_a_node_that_is_there_is_refused(genes: Path) -> None:
    with pytest.raises(InputError, match="is called 'N1', not 'other'"):
        quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "N1"), "--node", "other")
    quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "N1"), "--node", "N1")


def test_a_name_that_is_none_makes_no_folder(genes: Path) -> None:
    with pytest.raises(InputError, match="no name for a node"):
        quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "new"), "--node", "a\nb")
    assert not (genes / "new").exists()
    with pytest.raises(ForeignObjectError, match="Every node has its own name"):
        quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "new"), "--node", "N2")
    assert not (genes / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "v1"], "Did you mean 'V1'? There are: V1, Genes, Proteins, Variants."),
        (["query", "V1", "--at", ""], "No version is given"),
        (["query", "V1", "--fresh", ""], "'' is no time"),
        (["query", "V1", "--fresh", "9" * 30 + "d"], "is too long a time. Up to 36500d"),
        (["advance", "V1", "--to", ""], "No version is given"),
        (["plan", "V1", "--to", ""], "No version is given"),
        (["coalesce", "V1", "--from", ""], "No version is given"),
        (["coalesce", "genes"], "Did you mean 'Genes'?"),
    ],
)
def test_what_is_given_is_looked_at_also_if_it_is_empty(
    genes: Path, arguments: list[str], message: str
) -> None:
    with pytest.raises(InputError) as told:
        quick("share", *arguments, "-c", str(genes / "N2"))
    assert message in str(told.value)


def test_a_file_where_a_folder_should_be_is_told(genes: Path) -> None:
    (genes / "file").write_text("")
    with pytest.raises(InputError, match="file is no folder"):
        quick("share", "exchange", str(genes / "N2"), "-c", str(genes / "file"), "--node", "N9")
    with pytest.raises(InputError, match="file is not a catalog of shared objects"):
        quick("share", "list", "-c", str(genes / "file"))


def test_rows_of_a_view_with_an_order_come_in_it(genes: Path) -> None:
    node = SharingNode.open(genes / "N2")
    node.define(
        "Frequent", "SELECT Sequence, Frequency FROM Variants ORDER BY Frequency DESC LIMIT 2"
    )
    shown = quick("share", "query", "Frequent", "-c", str(genes / "N2")).out.splitlines()
    assert [line.split()[0] for line in shown[2:4]] == ["GGA", "ACG"]
    _, *rows = lines("query", "Frequent", "-c", str(genes / "N2"))
    assert [row["row"]["Sequence"] for row in rows] == ["GGA", "ACG"]  # type: ignore[index]


def test_a_disk_without_room_is_told_and_leaves_everything_as_it_was(genes: Path) -> None:
    """The size of files is what can be limited without a disk of one's own."""
    SharingNode.open(genes / "N2").hold("V1", {"Genes": 3})
    before = {path: path.read_bytes() for path in (genes / "N2").rglob("*") if path.is_file()}
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); "
    done = subprocess.run(
        [sys.executable, "-c", limit + PROGRAM, "share", "query", "V1", "-c", str(genes / "N2")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"The node's folder {genes / 'N2'} cannot be written: File too large." in done.stderr
    assert done.stderr.count("\n") == 1
    after = {path: path.read_bytes() for path in (genes / "N2").rglob("*") if path.is_file()}
    assert after == before


READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def on_a_read_only_disk(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command where a folder cannot be written by anybody."""
    alone = ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", str(folder)]
    command = [sys.executable, "-c", PROGRAM, "share", *arguments, "-c", str(folder)]
    try:
        done = subprocess.run([*alone, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        done = None
    if done is None or done.returncode:
        pytest.skip("this machine lets nobody mount a folder for himself")
    return subprocess.run([*alone, *command], capture_output=True, text=True, check=False)


def test_a_node_on_a_read_only_disk_answers_and_says_why_it_cannot_be_changed(genes: Path) -> None:
    node = SharingNode.open(genes / "N2")
    node.hold("V1", {"Genes": 3})
    there = on_a_read_only_disk(genes / "N2", "query", "V1", "--json")
    assert (there.returncode, there.stderr) == (0, "")
    about, *rows = [json.loads(line) for line in there.stdout.splitlines()]
    assert about["versions"] == {"Genes": 4, "Variants": 7}, "taken on, and not kept"
    assert {row["row"]["GeneName"] for row in rows} == {"AFKAP", "BRCA2"}
    assert cast(Any, node.held("V1")).versions["Genes"] == 3
    past = on_a_read_only_disk(genes / "N2", "query", "Variants")
    assert (past.returncode, past.stderr) == (0, "")
    assert on_a_read_only_disk(genes / "N2", "list").returncode == 0
    assert on_a_read_only_disk(genes / "N2", "plan", "V1").returncode == 0
    refused = on_a_read_only_disk(genes / "N2", "advance", "V1")
    assert refused.returncode == 1
    assert f"folder {genes / 'N2'} cannot be written: Read-only file system." in refused.stderr
    mirrored = on_a_read_only_disk(genes / "N2", "mirror", "s3://nowhere/at-all")
    assert "cannot be written: Read-only file system." in mirrored.stderr
