"""Stored objects: one content, one address; damage, foreigners and contradictions are refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import parse_type
from headwater.errors import HeadwaterError, InputError
from headwater.frames.frame import Frame
from headwater.sharing import (
    Booster,
    ConflictError,
    Contents,
    DamagedObjectError,
    ForeignObjectError,
    SharingError,
    SharingNode,
    Updategram,
    Versions,
    rules,
)
from headwater.sharing.encoding import address_of, decode, encode
from headwater.sharing.entries import Item, RelationEntry
from headwater.sharing.store import Envelope, ObjectFiles
from headwater.sharing.versions import Interval, parse_versions
from tests.sharing import publishing_loop
from tests.sharing.genes import V1, node, owners, rename
from tests.strategies import signed

EVERY = Schema.of(
    (name, parse_type(name))
    for name in (
        *("bool", "int", "float", "text", "bytes", "date", "timestamp", "timestamp_tz"),
        "decimal(12,3)",
    )
)
ROW = (
    True,
    -(2**63),
    0.1,
    'quote " line \n é \ud800',
    b"\x00\xff",
    date(2024, 2, 29),
    datetime(2024, 2, 29, 12, 0, 0, 7),
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    Decimal("-1.500"),
)
OTHERS = [
    (None,) * 9,
    (False, 0, float("nan"), "", b"", date(1, 1, 1), datetime.min, None, Decimal(0)),
    (False, 0, float("-inf"), "", b"", date(1, 1, 1), datetime.max, None, Decimal(10) ** 8),
]
EXAMPLE = Updategram.of_relation("R", EVERY, 3, 5, inserted=[ROW, ROW, OTHERS[0]], deleted=OTHERS)


NESTED = Schema.of(
    [("k", parse_type("int")), ("of", parse_type('array<struct<a text, "B b" array<float>>>'))]
)
NESTED_ROWS = [
    (1, None),
    (1, ()),
    (2, (None, ("],[", (0.5, None, float("nan"))), (None, ()), (None, None))),
]


# Bytes and addresses


def test_the_bytes_of_an_object_are_the_same_for_ever() -> None:
    small = Updategram.of_relation(
        "R", Schema.of([("k", parse_type("int"))]), 3, 4, inserted=[(10,), (9,)], deleted=[(9,)]
    )
    assert encode(small) == (
        b'{"columns":[["k","int"]],"first":{"R":3},"format":1,"kind":"updategram",'
        b'"last":{"R":4},"rows":2,"subject":"R"}\n[1,0,[10]]\n[1,1,[9]]\n'
    )
    assert address_of(encode(EXAMPLE)) == (
        "66771203c76e2fbed754b05163109be5d57174cc179504b37acfdf142991217e"
    )


def test_every_value_comes_back() -> None:
    assert decode(encode(EXAMPLE)) == EXAMPLE


def test_arrays_and_structs_come_back() -> None:
    nested = Updategram.of_relation("R", NESTED, 3, 4, inserted=NESTED_ROWS, deleted=[])
    written = encode(nested)
    assert decode(written) == nested
    assert (
        written.splitlines()[-1]
        == b'[1,0,[2,[null,["],[",[0.5,null,"NaN"]],[null,[]],[null,null]]]]'
    )


@pytest.mark.parametrize(
    "values", ["[1,[1]]", "[1,[[null]]]", "[1,[[null,[],3]]]", "[1,[null,]]", "[1,[,]]", "[[1],[]]"]
)
def test_a_line_whose_values_are_nested_otherwise_is_not_read(values: str) -> None:
    nested = Updategram.of_relation("R", NESTED, 3, 4, inserted=[(1, None)], deleted=[])
    wrong = encode(nested).replace(b"[1,null]", values.encode())
    with pytest.raises(DamagedObjectError, match="is no row of 2 values"):
        decode(wrong)


@given(one=signed(Schema.of([("k", parse_type("int")), ("t", parse_type("text"))])))
def test_contents_and_updategrams_come_back(one: Rows) -> None:
    versions = Versions({"R": 1, "S": 2})
    for item in (
        Contents("V", versions, one.positive()),
        Updategram("V", versions, versions.moved("R", 4), one.positive(), -one.negative()),
    ):
        assert decode(encode(item)) == item


def test_rows_in_any_order_and_on_any_engine_have_one_address(spark: SparkSession) -> None:
    shuffled = Updategram.of_relation(
        "R", EVERY, 3, 5, inserted=[OTHERS[0], ROW, ROW], deleted=OTHERS[::-1]
    )
    on_spark = Updategram(
        "R",
        EXAMPLE.first,
        EXAMPLE.last,
        Frame.of_rows(spark, _plain(EXAMPLE.inserted)),
        Frame.of_rows(spark, _plain(EXAMPLE.deleted)),
    )
    assert encode(shuffled) == encode(EXAMPLE)
    plain = Updategram(
        "R", EXAMPLE.first, EXAMPLE.last, _plain(EXAMPLE.inserted), _plain(EXAMPLE.deleted)
    )
    assert encode(on_spark) == encode(plain)


def _plain(rows: Rows) -> Rows:
    """Without the text that is no text for Spark."""
    return Rows(rows.schema, {row: n for row, n in rows.items() if row[3] != ROW[3]})


def test_an_updategram_and_its_inverse_undo_each_other() -> None:
    rows = Rows.of(EVERY, [*OTHERS, *OTHERS])
    assert EXAMPLE.inverse().apply(EXAMPLE.apply(rows)) == rows
    assert not EXAMPLE.then(EXAMPLE.inverse()).net
    assert EXAMPLE.inverse().inverse() == EXAMPLE


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace(b'"rows":2', b'"rows":3'),
        lambda content: content.replace(b"[1,0,[10]]\n[1,1,[9]]\n", b"[1,1,[9]]\n[1,0,[10]]\n"),
        lambda content: content.replace(b"[1,0,[10]]", b"[-1,0,[10]]"),
        lambda content: content.replace(b"[1,0,[10]]", b'[1,0,["x"]]'),
        lambda content: content.replace(b"[1,0,[10]]", b"[1,0,[10,11]]"),
        lambda content: content.replace(b'"int"', b'"what"'),
        lambda content: content.replace(b'"format":1', b'"format":9'),
        lambda content: content.replace(b'"updategram"', b'"unheard"'),
        lambda content: content[:-5],
        lambda content: b"",
    ],
)
def test_bytes_that_are_not_canonical_are_refused(change: Callable[[bytes], bytes]) -> None:
    schema = Schema.of([("k", parse_type("int"))])
    content = encode(Updategram.of_relation("R", schema, 3, 4, inserted=[(10,), (9,)],
                                            deleted=[(9,)]))  # fmt: skip
    assert change(content) != content
    with pytest.raises(DamagedObjectError):
        decode(change(content))


@pytest.mark.parametrize(
    ("written", "words"),
    [(b"9", "has the format 9, .*upgrade Headwater"), (b"null", "does not say which format")],
)
def test_an_object_of_another_format_is_refused_by_its_name(
    tmp_path: Path, written: bytes, words: str
) -> None:
    n1, n2, _ = owners(tmp_path)
    rename(n1)
    (listed,) = n1.catalog.updategrams("Genes")
    path = n1.catalog.store.path(listed.address)
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":' + written))
    with pytest.raises(DamagedObjectError, match=rf"{path} {words}"):
        n2.exchange(n1)


def test_what_is_held_in_another_format_is_refused_by_its_name(tmp_path: Path) -> None:
    made = node(tmp_path, "N")
    made.own("numbers", {"n": "int"}, [(1,)])
    path = made.catalog.store.held()["numbers"]
    line, _, content = path.path.read_bytes().partition(b"\n")
    later = content.replace(b'"format":1', b'"format":9')
    envelope = replace(Envelope.read(line, path), address=address_of(later))
    path.path.write_bytes(envelope.line() + later)
    with pytest.raises(DamagedObjectError, match=rf"{path} has the format 9, .*upgrade Headwater"):
        made.held("numbers")


# Arrival


def counts(at: SharingNode) -> int:
    return len(SharingNode.open(at.catalog.store.folder).catalog.addresses())


def test_a_damaged_object_stops_an_exchange_before_anything_is_taken(tmp_path: Path) -> None:
    n1, n2, _ = owners(tmp_path)
    rename(n1)
    (listed,) = n1.catalog.updategrams("Genes")
    path = n1.catalog.store.path(listed.address)
    whole = path.read_bytes()
    n1.update("Genes", deleted=[(7, "BRCA2", "13q13")])
    before = counts(n2)
    for damaged in (whole.replace(b"AFKAP", b"AFKAQ"), whole[:-3], b"", whole[10:]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedObjectError, match=f"{path} is damaged"):
            n2.exchange(SharingNode.open(n1.catalog.store.folder, durable=False), fetch_only=True)
        assert counts(n2) == before
    path.write_bytes(whole.replace(b"AFKAP", b"AFKAQ"))
    damaged_node = SharingNode.open(n1.catalog.store.folder, durable=False)
    (copied,) = n2.exchange(damaged_node, fetch_only=True, skip_bad=True)
    assert (copied.taken, list(copied.refused)) == ({"updategram": 1}, [listed.address])
    path.write_bytes(whole)
    n2.exchange(n1)
    assert n2.query("Genes", {"Genes": 5}) == n1.query("Genes")


def smuggle(at: SharingNode, item: Item, maker: str, system: str = "genes") -> None:
    """Put an object into a node's folder without asking whether it fits; its maker signs it."""
    content, folder = encode(item), at.catalog.store.folder.parent / maker
    envelope = Envelope(system, maker, address_of(content))
    if signer := ObjectFiles(folder).signer():
        envelope = replace(envelope, signature=signer.sign(envelope.statement))
    at.catalog.store.add(envelope, content)


def genes_updategram(at: SharingNode, first: int, last: int, name: str = "X") -> Updategram:
    schema = at.catalog.relation("Genes").relation.schema
    return Updategram.of_relation("Genes", schema, first, last, inserted=[(1, name, "y")])


def booster(at: SharingNode, wrong: bool = False) -> Booster:
    definition = at.define("V1", V1)
    contents = at.query("Variants", {"Variants": 7})
    made = rules.a3(definition, genes_updategram(at, 3, 4), contents)
    alien = Rows.of(definition.columns(("Variants",)), [(2, 42, "ACT", 0.005)])
    interval = Interval("Genes", 3, 4)
    return Booster(definition, interval, made.of, made.versions, alien if wrong else made.rows)


@pytest.mark.parametrize(
    ("item", "maker", "error", "message"),
    [
        (lambda n: genes_updategram(n, 4, 5), "N2", ForeignObjectError, "belongs to N1"),
        (lambda n: genes_updategram(n, 4, 5), "N9", ForeignObjectError, "no node that is known"),
        (lambda n: genes_updategram(n, 4, 4), "N1", ForeignObjectError, "to a later one"),
        (lambda n: genes_updategram(n, 3, 4).inverse(), "N1", ForeignObjectError, "a later one"),
        (lambda n: genes_updategram(n, 3, 4, "Y"), "N1", ConflictError, "different things"),
        (lambda n: Contents("Genes", Versions({"Variants": 1}), Rows.empty(EVERY)), "N1",
         ForeignObjectError, "has versions of Variants"),
        (lambda n: Contents("Genes", Versions({"Genes": 1}), Rows.empty(EVERY)), "N1",
         ForeignObjectError, "has the columns bool"),
        (lambda n: Contents("Nothing", Versions({"Genes": 1}), Rows.empty(EVERY)), "N1",
         ForeignObjectError, "no relation or view Nothing"),
        (lambda n: RelationEntry(n.catalog.relation("Genes").relation, "N2"), "N2",
         ConflictError, "descriptions differ"),
        (lambda n: booster(n, wrong=True), "N2", ForeignObjectError, "cannot occur in that view"),
    ],
)  # fmt: skip
def test_an_object_that_does_not_fit_is_refused_on_arrival(
    tmp_path: Path,
    item: Callable[[SharingNode], Item],
    maker: str,
    error: type[SharingError],
    message: str,
) -> None:
    n1, _, n3 = owners(tmp_path)
    n1.catalog.add(genes_updategram(n1, 3, 4))
    n3.exchange(n1)
    before, carrier = counts(n3), node(tmp_path, "N7")
    smuggle(carrier, item(n1), maker)
    with pytest.raises(error, match=message):
        n3.take(carrier.as_peer())
    assert counts(n3) == before


def test_nodes_of_different_systems_and_of_one_name_do_not_exchange(tmp_path: Path) -> None:
    n1, _, _ = owners(tmp_path)
    other = SharingNode.create(tmp_path / "o", "N1", "other", durable=False)
    with pytest.raises(ForeignObjectError, match="'other'"):
        n1.exchange(other)
    twin = SharingNode.create(tmp_path / "t", "N1", "genes", durable=False)
    with pytest.raises(ForeignObjectError, match="Every node has its own name"):
        n1.exchange(twin)
    smuggle(n1, genes_updategram(n1, 3, 4), "N1", system="other")
    with pytest.raises(ForeignObjectError, match="belongs to the system 'other'"):
        node(tmp_path, "N8").exchange(SharingNode.open(n1.catalog.store.folder, durable=False))


def test_a_folder_that_is_no_catalog_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a catalog"):
        SharingNode.open(tmp_path)
    (tmp_path / "node.json").write_text("[")
    with pytest.raises(InputError, match="cannot be read"):
        SharingNode.open(tmp_path)


# Writing


def test_a_write_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n1 = SharingNode.create(tmp_path / "n1", "N1")
    n1.own("R", {"k": "int"}, [(1,)])
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HeadwaterError, match="cannot be written: No space left on device"):
        n1.update("R", inserted=[(2,)])
    monkeypatch.undo()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert n1.update("R", inserted=[(2,)]).last == Versions({"R": 1})


def test_a_process_that_is_killed_leaves_whole_objects_only(tmp_path: Path) -> None:
    made = SharingNode.create(tmp_path / "n", "N", durable=False)
    made.own("numbers", {"n": "int"}, [(0,)], key=["n"])
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, publishing_loop.__file__, str(tmp_path / "n")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(20)]
        process.kill()
        said += [int(line) for line in process.stdout.read().splitlines()]
        process.wait()
        process.stdout.close()
        again = SharingNode.open(tmp_path / "n", durable=False)
        newest = again.catalog.newest("numbers")
        assert newest - said[-1] in (0, 1)
        for listed in again.catalog:
            again.catalog.load(listed.address)
        assert again.query("numbers", {"numbers": newest}).rows == Rows.of(
            again.catalog.relation("numbers").relation.schema, [(newest,)]
        )


def test_what_is_left_over_is_removed_once_it_is_old(tmp_path: Path) -> None:
    made = node(tmp_path, "N")
    held = made.catalog.store.folder / "held"
    young, old = (held / name for name in (".numbers.jsonl.young.tmp", ".numbers.jsonl.old.tmp"))
    young.write_text("{")
    old.write_text("{")
    os.utime(old, (0, 0))
    SharingNode.open(made.catalog.store.folder)
    assert (young.exists(), old.exists()) == (True, False)


def test_an_object_is_readable_text(tmp_path: Path) -> None:
    n1, _, _ = owners(tmp_path)
    rename(n1)
    (listed,) = n1.catalog.updategrams("Genes")
    lines = n1.catalog.store.path(listed.address).read_text().splitlines()
    assert json.loads(lines[0])["maker"] == "N1"
    assert json.loads(lines[1])["kind"] == "updategram"
    assert lines[2:] == ['[1,0,[42,"AFKAP","17q2"]]', '[0,1,[42,"PRNC","17q2"]]']


@pytest.mark.parametrize("text", ["", "Genes", "Genes=x", "Genes=-1", "=3", "Genes=1,Genes=2"])
def test_versions_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_versions(text)


def test_versions_are_read() -> None:
    assert parse_versions("shop.orders=3, crm.customers = 0") == Versions(
        {"crm.customers": 0, "shop.orders": 3}
    )
