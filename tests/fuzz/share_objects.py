"""Shared objects: an attacker who has a node's key puts one after the other into its folder."""

from __future__ import annotations

import json
import shutil
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random

from headwater.cli import share
from headwater.errors import HeadwaterError
from headwater.sharing import Peer, SharingNode
from headwater.sharing.encoding import address_of
from headwater.sharing.signatures import Signer
from headwater.sharing.store import PRIVATE_FILE, Envelope, ObjectFiles
from tests.fuzz.mutations import VALUES, changed, noise, put, removed
from tests.sharing.genes import V1, node, owners, rename

_VALUES = [
    *VALUES,
    *("Genes", "N1", "N4", "V1", "decimal(99,3)", "int", "text", ["Genes"], {"Genes": 4}),
    *({"Genes": -1}, "SELECT", "SELECT * FROM Genes"),
    "SELECT GeneID FROM Genes WHERE 1/0 = GeneID",
    "SELECT GeneID FROM Genes WHERE GeneID = " + "(" * 500 + "1" + ")" * 500,
]


class SharedObjects:
    def __init__(self, folder: Path, outside: Path) -> None:
        _prepare(folder)
        self._folder, self._template = folder / "N4", folder / "template"
        self._peer, self._outside = folder / "N1", outside
        shutil.rmtree(self._peer / "objects")
        (self._peer / "objects").mkdir()
        known = self._template.glob("objects/*/*.jsonl")
        self._objects = sorted(path.read_bytes().split(b"\n", 1) for path in known)
        self._signer = Signer((folder / "N1.key").read_bytes())
        self.input = self._peer
        self._start()

    def _start(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._template, self._folder)
        self._here = SharingNode.open(self._folder, durable=False)

    def attack(self, random: Random) -> None:
        removed(self.input) if self.input != self._peer else None
        line, content = self._object(random)
        self.input.parent.mkdir(exist_ok=True)
        content = line + content
        put(random, self.input, noise(random, content) if random.random() < 0.02 else content,
            self._outside)  # fmt: skip
        copied = self._here.take(Peer(self._peer), skip_bad=random.random() < 0.5)
        if copied.count:
            self._used()

    def _object(self, random: Random) -> tuple[bytes, bytes]:
        """An envelope and what is in it, the one or the other spoilt."""
        line, content = random.choice(self._objects)
        content = self._content(random, content)
        envelope = replace(
            Envelope.read(line, self._peer), address=address_of(content), signature=""
        )
        if random.random() < 0.1:
            members = {name: random.choice(_VALUES) for name in random.choices(
                ["system", "maker", "address", "signature"])}  # fmt: skip
            line = json.dumps({**json.loads(envelope.line()), **members}).encode() + b"\n"
        else:
            maker = random.choices(["N1", envelope.maker, "N4"], [20, 2, 1])[0]
            envelope = replace(envelope, maker=maker)
            signature = self._signer.sign(envelope.statement)
            line = replace(envelope, signature=signature).line()
        self.input = ObjectFiles(self._peer).path(envelope.address)
        return line, content

    def _content(self, random: Random, content: bytes) -> bytes:
        if random.random() < 0.2:
            return noise(random, content)
        value = [json.loads(line) for line in content.splitlines()]
        value = changed(random, value, _VALUES)
        if value and isinstance(value[0], dict) and "rows" in value[0] and random.random() < 0.8:
            value[0]["rows"] = len(value) - 1
        lines = (json.dumps(line, sort_keys=True, separators=(",", ":")) for line in value)
        return "".join(f"{line}\n" for line in lines).encode()

    def _used(self) -> None:
        """Something was let in: everything that can be done with it is done."""
        try:
            here = SharingNode.open(self._folder, durable=False)
            with redirect_stdout(StringIO()):
                share.list_command(self._folder)
                share.list_command(self._folder, as_json=True)
            for name in (*here.catalog.relations, *here.catalog.views):
                for command in (here.query, here.hold, here.advance):
                    with suppress(HeadwaterError):
                        command(name)
        finally:
            self._start()


def _prepare(folder: Path) -> None:
    """N1 with an object of each kind and without its key, and N4, which knows it."""
    n1, n2, _ = owners(folder)
    n1.define("V1", V1)
    n1.hold("V1")
    n1.publish("V1")
    here = node(folder, "N4")
    here.exchange(n1)
    rename(n1)
    n1.boost(["V1"])
    n1.exchange(n2)
    n2.boost(["V1"])
    n1.exchange(n2)
    n1.advance("V1")
    here.exchange(n1)
    (folder / "N4").rename(folder / "template")
    (folder / "N1" / PRIVATE_FILE).rename(folder / "N1.key")
