"""The paper's example (figure 1): three base relations at three nodes, and views over them."""

from pathlib import Path

from headwater.sharing import Policy, SharingNode

GENES = {"GeneID": "int", "GeneName": "text", "ChromosomeLocus": "text"}
VARIANTS = {"VariantID": "int", "GeneID": "int", "Sequence": "text", "Frequency": "float"}
PROTEINS = {"ProteinID": "int", "VariantID": "int", "ProteinName": "text"}
V1 = """SELECT g.GeneID, GeneName, VariantID, Frequency
FROM Genes AS g JOIN Variants AS v ON g.GeneID = v.GeneID WHERE Frequency > 0.01"""
V2 = """SELECT g.GeneID, GeneName, v.VariantID, ProteinName
FROM Genes AS g JOIN Variants AS v ON g.GeneID = v.GeneID
JOIN Proteins AS p ON v.VariantID = p.VariantID WHERE Frequency > 0.01"""
V3 = """SELECT v.VariantID, Sequence, ProteinID
FROM Variants AS v JOIN Proteins AS p ON v.VariantID = p.VariantID"""


def node(folder: Path, name: str, policy: Policy | None = None) -> SharingNode:
    return SharingNode.create(folder / name, name, "genes", policy, durable=False)


def owners(folder: Path) -> tuple[SharingNode, SharingNode, SharingNode]:
    """The nodes of the base relations, which know of each other."""
    n1, n2, n3 = (node(folder, name) for name in ("N1", "N2", "N3"))
    genes = [(42, "PRNC", "17q2"), (7, "BRCA2", "13q13")]
    variants = [(1, 42, "ACG", 0.2), (2, 42, "ACT", 0.005), (3, 7, "GGA", 0.3)]
    proteins = [(100, 1, "alpha"), (101, 3, "beta")]
    n1.own("Genes", GENES, genes, key=["GeneID"], version=3, publish=True)
    n2.own("Variants", VARIANTS, variants, key=["VariantID"], version=7, publish=True)
    n3.own("Proteins", PROTEINS, proteins, key=["ProteinID"], version=5, publish=True)
    for other in (n2, n3, n2):
        n1.exchange(other)
    return n1, n2, n3


def rename(n1: SharingNode) -> None:
    """Example 2.2: PRNC becomes AFKAP."""
    n1.update("Genes", modified=[((42, "PRNC", "17q2"), (42, "AFKAP", "17q2"))])


def without_copies(at: SharingNode) -> SharingNode:
    """The node, when contents of base relations have been taken away from it."""
    for relation in at.catalog.relations:
        for listed in at.catalog.contents(relation):
            at.catalog.store.path(listed.address).unlink()
    return SharingNode.open(at.catalog.store.folder, durable=False)
