"""Peers that attack: what they put into their folder harms nobody, and one sentence says so.

Every attack is carried out by `headwater share exchange`, the command that meets strangers.
"""

import json
import os
import shutil
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGALRM, alarm, signal
from types import FrameType

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import parse_type
from headwater.errors import InputError
from headwater.sharing import (
    DamagedObjectError,
    Limits,
    Peer,
    SharingError,
    SharingNode,
    UntrustedObjectError,
    Updategram,
    Versions,
)
from headwater.sharing.booster import Booster
from headwater.sharing.encoding import address_of, decode, encode
from headwater.sharing.entries import Item, NodeEntry, RelationEntry
from headwater.sharing.shared_views import SharedView
from headwater.sharing.signatures import Signer
from headwater.sharing.store import PRIVATE_FILE, Envelope, ObjectFiles
from headwater.sharing.versions import Interval
from tests.cli.commands import Result, failing, quick
from tests.sharing.genes import node, owners, rename

HANG_S = 60


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """What waits for a peer's pipe or lock waits for ever: the test then fails instead."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    before = signal(SIGALRM, stop)
    alarm(HANG_S)
    yield
    alarm(0)
    signal(SIGALRM, before)


@pytest.fixture
def here(tmp_path: Path) -> SharingNode:
    """The node that is attacked, which knows N1 to N3 and owns nothing."""
    n1, *_ = owners(tmp_path)
    rename(n1)
    made = node(tmp_path, "N4")
    made.exchange(n1)
    return made


@pytest.fixture
def peer(here: SharingNode) -> Path:
    """The folder of N1 as it is found at somebody else's: without its private key."""
    folder = here.catalog.store.folder.parent / "N1"
    n1 = SharingNode.open(folder, durable=False)
    n1.update("Genes", inserted=[(8, "NEW", "1p1")])
    (folder / PRIVATE_FILE).rename(folder.parent / "N1.key")
    return folder


def exchange(here: SharingNode, peer: Path, *options: str) -> Result:
    arguments = ["share", "exchange", str(peer), "-c", str(here.catalog.store.folder)]
    return quick(*arguments, *options)


def newest(peer: Path) -> Path:
    """The file of the object that N1 made last, the updategram to version 5."""
    catalog = SharingNode.open(peer).catalog
    (last,) = [u for u in catalog.updategrams("Genes") if u.last["Genes"] == 5]
    return catalog.store.path(last.address)


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What a folder holds, without following links; for what is no file, nothing is read."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return found


def forged(
    folder: Path, item: Item | bytes, maker: str, signer: Signer | None, system: str = "genes"
) -> str:
    """Put an object into a peer's folder as an attacker would; its address."""
    content = item if isinstance(item, bytes) else encode(item)
    envelope = Envelope(system, maker, address_of(content))
    if signer is not None:
        envelope = replace(envelope, signature=signer.sign(envelope.statement))
    path = ObjectFiles(folder).path(envelope.address)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(envelope.line() + content)
    return envelope.address


def genes(first: int, last: int, *rows: tuple[int, str, str]) -> Updategram:
    names = (("GeneID", "int"), ("GeneName", "text"), ("ChromosomeLocus", "text"))
    schema = Schema.of((name, parse_type(kind)) for name, kind in names)
    return Updategram.of_relation("Genes", schema, first, last, inserted=rows)


# Nothing is changed in a folder of somebody else, and nothing through it


@pytest.mark.parametrize("place", ["held", "lock"])
def test_nothing_is_deleted_or_made_through_links_in_a_peers_folder(
    tmp_path: Path, here: SharingNode, peer: Path, place: str
) -> None:
    documents = tmp_path / "documents"
    (documents / "inner").mkdir(parents=True)
    (documents / "letter").write_text("dear")
    os.utime(documents / "letter", (0, 0))
    there = peer / place
    shutil.rmtree(there) if there.is_dir() else there.unlink()
    there.symlink_to(documents)
    before = everything(documents)
    assert exchange(here, peer, "--fetch-only").out == "✓ N1 to N4: 1 updategram\n"
    assert everything(documents) == before


def test_a_folder_of_objects_that_is_a_link_is_not_entered(
    tmp_path: Path, here: SharingNode, peer: Path
) -> None:
    part = newest(peer).parent
    part.rename(tmp_path / "elsewhere")
    part.symlink_to(tmp_path / "elsewhere")
    done = exchange(here, peer, "--skip-bad")
    assert f"✗ objects/{part.name}: " in done.out
    assert f"'{part.name}' is a link or no folder" in done.out
    (peer / "objects").rename(tmp_path / "objects")
    (peer / "objects").symlink_to(tmp_path / "objects")
    with pytest.raises(DamagedObjectError, match="'objects' is a link or no folder"):
        exchange(here, peer)


def test_a_folder_that_is_not_ones_own_stays_as_it_is(here: SharingNode, peer: Path) -> None:
    shutil.rmtree(peer / "held")
    before = everything(peer)
    taken, not_given = exchange(here, peer).out.splitlines()
    assert taken == "✓ N1 to N4: 1 updategram"
    assert "N1 is not this user's own node: it takes what it lacks itself" in not_given
    quick("share", "list", "-c", str(peer))
    assert everything(peer) == before


def test_a_peer_that_keeps_its_lock_does_not_hold_up_anybody(here: SharingNode, peer: Path) -> None:
    with SharingNode.open(peer).catalog.store.locked():
        assert exchange(here, peer).code == 0


def test_a_folder_with_a_key_and_links_is_not_written_through(
    tmp_path: Path, here: SharingNode, peer: Path
) -> None:
    """The attacker sends the key along, so that the folder looks like one's own."""
    (peer.parent / "N1.key").rename(peer / PRIVATE_FILE)
    (tmp_path / "documents").mkdir()
    shutil.rmtree(peer / "held")
    (peer / "held").symlink_to(tmp_path / "documents")
    done = exchange(here, peer, "--skip-bad")
    assert "✗ N1: The shared object" in done.out
    assert "held is damaged" in done.out
    assert list((tmp_path / "documents").iterdir()) == []


# Malformed objects


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return make


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def giant(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def socket(path: Path) -> None:
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o644)


def first_line(line: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(line + b"\n" + path.read_bytes().partition(b"\n")[2])

    return make


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (fifo, "not a plain file"),
        (link("/dev/zero"), "it is a link"),
        (link("/etc/passwd"), "it is a link"),
        (folder, "not a plain file"),
        (socket, "it cannot be read"),
        (giant, "more than"),
        (longer, "does not have the checksum that is its name"),
        (first_line(b"[" * 200_000), "its first line is not what Headwater writes"),
        (first_line(b'{"system": "genes", "system": "genes"}'), "its first line is not"),
        (first_line(b"9" * 10_000), "its first line is not"),
        (first_line(b"NaN"), "its first line is not"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_bad_file_is_one_sentence_and_can_be_skipped(
    here: SharingNode,
    peer: Path,
    damage: Callable[[Path], None],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = newest(peer)
    damage(path)
    command = ["share", "exchange", str(peer), "-c", str(here.catalog.store.folder)]
    found = failing(monkeypatch, capsys, *command)
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert reason in found.err
    done = exchange(here, peer, "--skip-bad")
    assert f"✗ {path.stem[:12]}: " in done.out
    assert reason in done.out


def content_of(path: Path) -> bytes:
    return path.read_bytes().partition(b"\n")[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"subject":"Genes"', b'"subject":' + b"[" * 100_000 + b"]" * 100_000),
        (b'"subject":"Genes"', b'"subject":"\\ud800"'),
        (b'"subject":"Genes"', b'"subject":["Genes"]'),
        (b'"last":{"Genes":5}', b'"last":{"Genes":' + b"9" * 5000 + b"}"),
        (b'"last":{"Genes":5}', b'"last":{"Genes":' + b"9" * 30 + b"}"),
        (b'"last":{"Genes":5}', b'"last":{"Genes":NaN}'),
        (b'"last":{"Genes":5}', b'"last":{"Genes":5,"Genes":5}'),
        (b'"last":{"Genes":5}', b'"last":[]'),
        (b"[1,0,[8,", b"[1000000000000,0,[8,"),
        (b"[1,0,[8,", b"[" + b"1" * 100 + b",0,[8,"),
        (b"[1,0,[8,", b"[NaN,0,[8,"),
        (b"[1,0,[8,", b"[1,0,[" + b"8" * 5000 + b","),
        (b"[1,0,[8,", b"[1,0,[" + b"[" * 100_000 + b"8,"),
        (b'[1,0,[8,"NEW","1p1"]]', b"[]"),
        (b'[1,0,[8,"NEW","1p1"]]', b"[1,0,{}]"),
        (b'"int"', b"7"),
        (b'"int"', b'"decimal(99999999999,0)"'),
    ],
)
def test_a_malformed_object_is_one_sentence_and_can_be_skipped(
    here: SharingNode, peer: Path, old: bytes, new: bytes
) -> None:
    """It is signed by N1 itself: that a node is who it says does not make it harmless."""
    path = newest(peer)
    content = content_of(path)
    assert old in content
    path.unlink()
    signer = Signer((peer.parent / "N1.key").read_bytes())
    bad = forged(peer, content.replace(old, new), "N1", signer)
    before = here.catalog.addresses()
    done = exchange(here, peer, "--skip-bad")
    assert done.code == 0
    assert f"✗ {bad[:12]}: " in done.out
    assert max(map(len, done.out.splitlines())) < 1000
    assert SharingNode.open(here.catalog.store.folder).catalog.addresses() == before


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT GeneID FROM Genes WHERE GeneID = {'(' * 3000}1{')' * 3000}",
        f"SELECT GeneID FROM Genes WHERE GeneID = {'+'.join(['1'] * 4000)}",
        f"SELECT GeneID FROM Genes WHERE {' AND '.join(f'GeneID > {n}' for n in range(300))}",
        f"SELECT GeneID FROM Genes WHERE GeneID = 1 {' ' * 20_000}",
        "SELECT",
    ],
    ids=["parentheses", "sum", "conditions", "long", "broken"],
)
def test_a_view_that_takes_too_long_to_understand_is_refused(
    here: SharingNode, peer: Path, sql: str
) -> None:
    relation = SharingNode.open(peer).catalog.relation("Genes").relation
    columns = [[c.name, str(c.type)] for c in relation.schema.columns]
    known = {"name": "Genes", "source": "N1", "columns": columns, "key": ["GeneID"]}
    manifest = {"format": 1, "kind": "view", "name": "V", "sql": sql, "relations": [known],
                "rows": 0}  # fmt: skip
    content = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    bad = forged(peer, content, "N1", Signer((peer.parent / "N1.key").read_bytes()))
    done = exchange(here, peer, "--skip-bad")
    assert f"✗ {bad[:12]}: " in done.out
    assert "1 updategram" in done.out


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"{}",
        b"[" * 100_000,
        b'{"node": 3, "system": "genes"}',
        b'{"node": "\\ud800", "system": "genes"}',
    ],
)
def test_a_public_file_that_cannot_be_read_is_one_sentence(
    here: SharingNode, peer: Path, content: bytes
) -> None:
    (peer / "node.json").write_bytes(content)
    with pytest.raises(InputError, match=r"node\.json cannot be read"):
        exchange(here, peer)


@pytest.mark.parametrize("damage", [fifo, link("/dev/zero"), giant])
def test_a_public_file_that_is_no_file_is_one_sentence(
    here: SharingNode, peer: Path, damage: Callable[[Path], None]
) -> None:
    damage(peer / "node.json")
    with pytest.raises(InputError, match=r"node\.json cannot be read"):
        exchange(here, peer)


def test_more_than_is_taken_at_once_is_left_for_the_next_time(
    here: SharingNode, peer: Path
) -> None:
    n1 = Peer(peer)
    (copied, again) = (
        here.take(n1, skip_bad=True, limits=limits) for limits in (Limits(objects=0), Limits())
    )
    assert (copied.count, len(copied.refused), again.count) == (0, 1, 1)
    with pytest.raises(Exception, match="more than 10 bytes"):
        node(peer.parent, "N6").take(n1, limits=Limits(bytes=10))


def test_a_row_that_is_there_very_often_is_shown_without_being_repeated(tmp_path: Path) -> None:
    made = node(tmp_path, "N")
    schema = Schema.of([("k", parse_type("int"))])
    made.own("R", schema, Rows(schema, {(1,): 10**9}))
    shown = quick("share", "query", "R", "-c", str(tmp_path / "N"), "--limit", "2").out
    assert "1,000,000,000 rows of R at (R 0); the first 2 are shown" in shown


# Conditions that are evaluated over rows of the same maker


def boosted(peer: Path, condition: str, text: str) -> str:
    """Put a booster of N1 into its folder, whose row meets a condition or not; its address."""
    signer = Signer((peer.parent / "N1.key").read_bytes())
    names = (("id", "int"), ("note", "text"))
    schema = Schema.of((name, parse_type(kind)) for name, kind in names)
    r, s = (Relation(name, "N1", schema, ("id",)) for name in ("R", "S"))
    for relation in (r, s):
        forged(peer, RelationEntry(relation, "N1"), "N1", signer)
    sql = f"SELECT R.id, S.note FROM R JOIN S ON R.id = S.id WHERE {condition}"
    view = SharedView.parse("V", sql, [r, s])
    rows = Rows(view.columns(("S",)), {(1, text): 1})
    booster = Booster(view, Interval("R", 1, 2), ("S",), Versions({"S": 1}), rows)
    return forged(peer, booster, "N1", signer)


def test_a_condition_that_takes_long_to_decide_holds_nobody_up(
    here: SharingNode, peer: Path
) -> None:
    bad = boosted(peer, f"S.note LIKE '{'%a' * 8}%b'", "a" * 2000)
    done = exchange(here, peer, "--skip-bad")
    assert f"✗ {bad[:12]}: " in done.out
    assert "has rows that cannot occur in that view" in done.out


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (f"LENGTH(CONCAT({', '.join(['S.note'] * 100)})) > 0", "makes texts of up to"),
        (f"LENGTH({' || '.join(['S.note'] * 9)}) > 0", "makes texts of up to"),
        (" OR ".join(f"S.note LIKE '%a_{n}%'" for n in range(30)), "characters for one row"),
    ],
    ids=["CONCAT", "||", "LIKE"],
)
def test_a_condition_that_makes_much_of_a_row_is_refused_before_it_is_evaluated(
    here: SharingNode, peer: Path, condition: str, words: str
) -> None:
    bad = boosted(peer, condition, "a" * 2_000_000)
    done = exchange(here, peer, "--skip-bad")
    assert f"✗ {bad[:12]}: " in done.out
    assert words in " ".join(done.out.split())


def test_a_booster_that_takes_too_long_to_judge_is_refused(
    here: SharingNode, peer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sharing.validation.MOST_CHECK_SECONDS", -1.0)
    bad = boosted(peer, "S.note LIKE '%a%'", "a")
    done = exchange(here, peer, "--skip-bad")
    assert f"✗ {bad[:12]}: " in done.out
    assert "s to check" in " ".join(done.out.split())


def test_a_condition_on_texts_that_fits_its_rows_is_taken(here: SharingNode, peer: Path) -> None:
    boosted(peer, "LENGTH(S.note || S.note) > 0 AND S.note LIKE '%a_a%'", "a" * 100_000)
    assert exchange(here, peer).code == 0
    assert len(SharingNode.open(here.catalog.store.folder).catalog.boosters()) == 1


# How much is taken


def test_more_values_than_are_taken_at_once_are_left_for_the_next_time(
    here: SharingNode, peer: Path
) -> None:
    few = exchange(here, peer, "--skip-bad", "--most-values", "1")
    assert "more than 1 values" in " ".join(few.out.split())
    with pytest.raises(SharingError, match="--most-values"):
        exchange(here, peer, "--most-values", "1")
    assert "1 updategram" in exchange(here, peer).out


def test_updategrams_that_do_the_same_are_not_compared_each_with_each(
    here: SharingNode, peer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Signer((peer.parent / "N1.key").read_bytes())
    for number in range(40):
        passing = genes(5, 6, (1, "PASSING", str(number)))
        forged(peer, replace(passing, deleted=passing.inserted), "N1", key)
    made: list[Updategram] = []

    def net(updategram: Updategram) -> Rows:
        made.append(updategram)
        return updategram.inserted - updategram.deleted

    monkeypatch.setattr(Updategram, "net", property(net))
    assert "41 updategrams" in exchange(here, peer).out
    assert len(made) < 200


def test_a_line_with_more_values_than_columns_is_not_read(here: SharingNode, peer: Path) -> None:
    values = ",".join(['"x"'] * 500_000)
    head = '{"columns":[["id","int"]],"first":{"Genes":5},"format":1,"kind":"updategram"'
    rest = ',"last":{"Genes":6},"rows":1,"subject":"Genes"}'
    key = Signer((peer.parent / "N1.key").read_bytes())
    bad = forged(peer, f"{head}{rest}\n[1,0,[{values}]]\n".encode(), "N1", key)
    tracemalloc.start()
    try:
        done = exchange(here, peer, "--skip-bad")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = " ".join(done.out.split())
    assert f"✗ {bad[:12]}: " in said
    assert "a line is no row of 1 values with its counts." in said
    assert peak < 15 << 20


def test_reading_an_object_takes_little_more_memory_than_the_object_has() -> None:
    schema = Schema.of([("id", parse_type("int"))])
    content = encode(
        Updategram.of_relation("R", schema, 1, 2, inserted=((n,) for n in range(50_000)))
    )
    tracemalloc.start()
    try:
        item = decode(content)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(item, Updategram)
    assert peak < 2.5 * kept


# Forged objects


@contextmanager
def refused(words: str) -> Iterator[None]:
    with pytest.raises(UntrustedObjectError, match=words):
        yield


@pytest.mark.parametrize("signed", ["nobody", "somebody", "itself"])
def test_an_updategram_forged_in_my_own_name_is_refused(tmp_path: Path, signed: str) -> None:
    n1, *_ = owners(tmp_path)
    mine = n1.catalog.store.signer()
    signer = {"nobody": None, "somebody": Signer(), "itself": mine}[signed]
    forged(tmp_path / "N2", genes(3, 4, (666, "EVIL", "x")), "N1", signer)
    with refused("in the name of N1, this node"):
        exchange(n1, tmp_path / "N2")
    assert n1.update("Genes", inserted=[(9, "GOOD", "y")]).last == Versions({"Genes": 4})
    assert (666, "EVIL", "x") not in set(n1.query("Genes").rows)


@pytest.mark.parametrize(
    ("signer", "words"), [(None, "is not signed"), (Signer(), "was not signed by node N1")]
)
def test_an_updategram_forged_in_the_name_of_another_is_refused(
    here: SharingNode, peer: Path, signer: Signer | None, words: str
) -> None:
    carrier = node(peer.parent, "N7")
    forged(carrier.catalog.store.folder, genes(4, 5, (666, "EVIL", "x")), "N1", signer)
    for options in ((), ("--unsigned",)):
        with refused(words):
            exchange(here, peer.parent / "N7", *options)
    done = exchange(here, peer.parent / "N7", "--skip-bad", "--unsigned")
    assert words in done.out
    assert here.catalog.newest("Genes") == 4


def test_a_signature_does_not_serve_for_another_object(here: SharingNode, peer: Path) -> None:
    path = newest(peer)
    signature = json.loads(path.read_bytes().partition(b"\n")[0])["signature"]
    path.unlink()
    content = encode(genes(4, 5, (666, "EVIL", "x")))
    envelope = Envelope("genes", "N1", address_of(content), signature)
    SharingNode.open(peer).catalog.store.add(envelope, content)
    with refused("was not signed by node N1"):
        exchange(here, peer)


def test_a_node_with_another_key_than_before_is_refused(here: SharingNode, peer: Path) -> None:
    twin = node(peer.parent / "elsewhere", "N1")
    with refused("Node N1 has another key"):
        exchange(here, twin.catalog.store.folder, "--skip-bad")
    carrier, signer = node(peer.parent, "N7"), Signer()
    forged(carrier.catalog.store.folder, NodeEntry("N1", signer.public), "N1", signer)
    with refused("Node N1 has another key"):
        exchange(here, peer.parent / "N7")
    with refused("Node N1 has another key"):
        exchange(here, peer, "--trust", str(twin.catalog.store.folder / "node.json"))


def test_a_node_cannot_be_introduced_with_a_key_that_is_not_its_own(
    here: SharingNode, peer: Path
) -> None:
    """Else somebody could claim the objects that another has signed."""
    carrier, other = node(peer.parent, "N7"), Signer()
    forged(carrier.catalog.store.folder, NodeEntry("N8", other.public), "N8", Signer())
    with refused("was not signed by node N8"):
        exchange(here, peer.parent / "N7")


def test_with_a_key_from_a_file_nobody_is_trusted_on_first_use(tmp_path: Path) -> None:
    owners(tmp_path)
    fresh = node(tmp_path, "N4")
    told = [str(tmp_path / name / "node.json") for name in ("N1", "N2", "N3")]
    with refused("Nobody has said that node N[23] is to be trusted"):
        exchange(fresh, tmp_path / "N1", "--fetch-only", "--trust", told[0])
    with refused("Nobody has said that node N[23] is to be trusted"):
        exchange(fresh, tmp_path / "N1", "--fetch-only")
    options = [word for file in told[1:] for word in ("--trust", file)]
    assert "3 nodes" in exchange(fresh, tmp_path / "N1", "--fetch-only", *options).out


def test_a_file_of_trust_decides_against_who_comes_first(tmp_path: Path) -> None:
    owners(tmp_path)
    impostor = node(tmp_path / "elsewhere", "N1")
    fresh = node(tmp_path, "N4")
    fresh.catalog.trust(tmp_path / "N1" / "node.json")
    with refused("Node N1 has another key"):
        fresh.take(impostor.as_peer())


# Keys


def test_the_private_key_is_for_its_user_only(tmp_path: Path) -> None:
    made = node(tmp_path, "N")
    path = tmp_path / "N" / PRIVATE_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    public = json.loads((tmp_path / "N" / "node.json").read_text())["key"]
    assert Signer(path.read_bytes()).public == public == made.as_peer().key
    assert not any(
        path.read_bytes().strip() in other.read_bytes()
        for other in (tmp_path / "N").rglob("*")
        if other.is_file() and other != path
    )


def test_a_copy_of_a_node_without_its_key_publishes_nothing(here: SharingNode, peer: Path) -> None:
    with pytest.raises(InputError, match="is not this user's own"):
        SharingNode.open(peer).update("Genes", inserted=[(9, "x", "y")])


def old(folder: Path) -> None:
    """Make a node what an old release left: no key, nothing signed."""
    (folder / PRIVATE_FILE).unlink()
    description = json.loads((folder / "node.json").read_text())
    key = description.pop("key")
    (folder / "node.json").write_text(json.dumps(description))
    for path in list(folder.rglob("objects/*/*.jsonl")):
        line, _, content = path.read_bytes().partition(b"\n")
        envelope = Envelope.read(line, path)
        path.unlink()
        if key.encode() in content:
            content = encode(NodeEntry(envelope.maker))
        forged(folder, content, envelope.maker, None)


def test_a_node_of_an_old_release_gets_a_key_and_signs_what_it_made(tmp_path: Path) -> None:
    first = node(tmp_path, "N1")
    first.own("R", {"k": "int"}, [(1,)], publish=True)
    old(tmp_path / "N1")
    fresh = node(tmp_path, "N2")
    with refused("is not signed"):
        exchange(fresh, tmp_path / "N1")
    assert SharingNode.open(tmp_path / "N1").query("R").rows == first.query("R").rows
    SharingNode.open(tmp_path / "N1").update("R", inserted=[(2,)])
    assert "1 updategram" in exchange(fresh, tmp_path / "N1").out
    assert SharingNode.open(tmp_path / "N2").query("R", {"R": 1}).rows.count((2,)) == 1


def test_unsigned_objects_are_taken_where_that_is_said(tmp_path: Path) -> None:
    node(tmp_path, "N1").own("R", {"k": "int"}, [(1,)], publish=True)
    old(tmp_path / "N1")
    done = exchange(node(tmp_path, "N2"), tmp_path / "N1", "--unsigned", "--fetch-only")
    assert done.out == "✓ N1 to N2: 1 node, 1 relation, 1 contents\n"
    relation = Relation("S", "N2", Schema.of([("k", parse_type("int"))]), ())
    forged(tmp_path / "N1", RelationEntry(relation, "N2"), "N2", None)
    with refused("in the name of N2, this node"):
        exchange(SharingNode.open(tmp_path / "N2"), tmp_path / "N1", "--unsigned")
