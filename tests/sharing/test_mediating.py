"""Nodes that have no data of their own and mediate between others."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.sharing import SharingNode
from tests.sharing.genes import V1, node, owners, rename

GENES = """
CREATE TABLE GeneNames (GeneID INT, GeneName STRING);
CREATE TABLE GeneLoci (GeneID INT, Locus STRING);
CREATE SOURCE VIEW N1.Genes AS SELECT N.GeneID, GeneName, Locus AS ChromosomeLocus
FROM GeneNames AS N, GeneLoci AS L WHERE N.GeneID = L.GeneID
"""
V = """SELECT N.GeneID, GeneName, Locus AS ChromosomeLocus
FROM GeneNames AS N, GeneLoci AS L WHERE N.GeneID = L.GeneID"""


def mediator(folder: Path) -> tuple[SharingNode, SharingNode]:
    """The owner of the genes, and a mediator that has met it."""
    n1, _, _ = owners(folder)
    n7 = node(folder, "N7")
    n7.exchange(n1)
    return n1, n7


def test_a_mediator_holds_nothing_and_answers(tmp_path: Path) -> None:
    _, n7 = mediator(tmp_path)
    n7.mediate("V", V, GENES)
    found = n7.query("V", {"Genes": 3})
    assert set(found.rows) == {(42, "PRNC", "17q2"), (7, "BRCA2", "13q13")}
    assert dict(found.versions) == {"Genes": 3}
    assert n7.holdings() == {}


def test_example_4_2_one_updategram_of_the_base_is_one_of_the_view(tmp_path: Path) -> None:
    """V depends on Genes and on nothing else: no booster and no copy is needed."""
    n1, n7 = mediator(tmp_path)
    n7.mediate("V", V, GENES)
    n7.hold("V")
    rename(n1)
    n7.exchange(n1)
    done = n7.advance("V", {"Genes": 4})
    assert done.updategram is not None
    assert dict(done.updategram.net.items()) == {
        (42, "PRNC", "17q2"): -1,
        (42, "AFKAP", "17q2"): 1,
    }
    assert (done.boosters, done.copies) == ((), ())


def test_a_mediator_describes_views_of_others(tmp_path: Path) -> None:
    n1, n7 = mediator(tmp_path)
    other = node(tmp_path, "N5")
    other.exchange(n1)
    other.define("V1", V1)
    n7.exchange(other)
    schema = """
    CREATE TABLE common (Gene STRING, Variant INT, Share DOUBLE);
    CREATE SOURCE VIEW common_variants FROM
    (SELECT GeneName AS Gene, VariantID AS Variant, Frequency AS Share FROM V1)
    AS SELECT Gene, Variant, Share FROM common
    """
    found = n7.mediate("names", "SELECT Gene, Variant FROM common WHERE Share < 0.25", schema)
    assert set(found.relations) == {"Genes", "Variants"}
    assert set(n7.query("names", {"Genes": 3, "Variants": 7}).rows) == {("PRNC", 1)}


def test_what_nobody_can_answer_is_refused(tmp_path: Path) -> None:
    _, n7 = mediator(tmp_path)
    with pytest.raises(InputError, match="no source can ever answer"):
        n7.mediate("V", "SELECT Curator FROM Curated", "CREATE TABLE Curated (Curator STRING)")
    with pytest.raises(InputError, match=r"the mediated schema:1:1: this statement has no place"):
        n7.mediate("V", V, "DROP TABLE x")
