"""Inputs that nobody should write: shared objects and scenarios, changed where it hurts.

A program of its own, so that memory can be limited and a hang be ended:
`python fuzzing.py share|scenario FOLDER FIRST COUNT`. Every number from FIRST on is the seed of one
input. What is refused in words is well; anything else ends the program, with the seed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

from headwater.cli import share
from headwater.errors import HeadwaterError
from headwater.lab.files import load_scenarios
from headwater.lab.library import example, example_names
from headwater.sharing import Node, Peer
from headwater.sharing.encoding import address_of
from headwater.sharing.signatures import Signer
from headwater.sharing.store import PRIVATE_FILE, Envelope, ObjectFiles

MEMORY = 3 << 30
"""Of address space, in which the libraries alone take more than one."""
HANG_S = 60

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**63, 10**12, 10**400, 0.5, -0.0),
    *(float("nan"), float("inf"), "", "x", "\ud800", "\x1b[31m", "\x00", "x" * 5000),
    *("Genes", "N1", "N4", "V1", "../../outside", "decimal(99,3)", "int", "text", "null", "%s"),
    *([], {}, [[]], {"": {}}, ["Genes"], {"Genes": 4}, {"Genes": -1}, [["k", "int"]]),
    *("SELECT", "SELECT * FROM Genes", "SELECT GeneID FROM Genes WHERE 1/0 = GeneID"),
    "SELECT GeneID FROM Genes WHERE GeneID = " + "(" * 500 + "1" + ")" * 500,
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of a JSON value with what it is in."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in list(members):
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += places(inner)
    return found


def changed(random: Random, value: Any) -> None:
    """Change a JSON value somewhere, in a way that leaves it one."""
    container, key = random.choice(places(value))
    match random.randrange(6):
        case 0:
            del container[key]
        case 1 if isinstance(container, list):
            container.insert(random.randrange(len(container) + 1), container[key])
        case 2 if isinstance(container, list):
            random.shuffle(container)
        case 3:
            other, at = random.choice(places(value))
            container[key] = json.loads(json.dumps(other[at]))
        case 4 if isinstance(container[key], int):
            container[key] += random.choice([-1, 1, 10**9, 10**12, -(10**20)])
        case _:
            container[key] = json.loads(json.dumps(random.choice(VALUES)))


def noise(random: Random, content: bytes) -> bytes:
    """Bytes with a few of them changed, lost or doubled."""
    found = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(found) + 1)
        match random.randrange(4):
            case 0:
                del found[at : at + random.randint(1, 40)]
            case 1:
                found[at:at] = bytes(random.choices(b'[]{}",:\\u0d8-1e9\n\xff', k=3))
            case 2:
                found[at:at] = b"[" * random.choice([10, 2000, 100_000])
            case _:
                found[at:at] = found[max(0, at - 30) : at]
    return bytes(found)


# Shared objects


class Shared:
    """An attacker who has a node's key puts an object after the other into its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._template = folder / "N4", folder / "template"
        self._peer = folder / "N1"
        shutil.rmtree(self._peer / "objects")
        (self._peer / "objects").mkdir()
        known = self._template.glob("objects/*/*.jsonl")
        self._objects = sorted(path.read_bytes().split(b"\n", 1) for path in known)
        self._signer = Signer((folder / "N1.key").read_bytes())
        self._outside = folder / "outside"
        self._start()

    def _start(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._template, self._folder)
        self._here = Node.open(self._folder, durable=False)

    def attack(self, random: Random) -> None:
        path = self._written(random)
        try:
            copied = self._here.take(Peer(self._peer), skip_bad=random.random() < 0.5)
        finally:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        if copied.count:
            self._used()

    def _written(self, random: Random) -> Path:
        line, content = random.choice(self._objects)
        content = self._content(random, content)
        envelope = replace(
            Envelope.read(line, self._peer), address=address_of(content), signature=""
        )
        if random.random() < 0.1:
            members = {name: random.choice(VALUES) for name in random.choices(
                ["system", "maker", "address", "signature"])}  # fmt: skip
            line = json.dumps({**json.loads(envelope.line()), **members}).encode() + b"\n"
        else:
            maker = random.choices(["N1", envelope.maker, "N4"], [20, 2, 1])[0]
            envelope = replace(envelope, maker=maker)
            signature = self._signer.sign(envelope.statement)
            line = replace(envelope, signature=signature).line()
        path = ObjectFiles(self._peer).path(envelope.address)
        path.parent.mkdir(exist_ok=True)
        match random.randrange(40):
            case 0:
                os.mkfifo(path)
            case 1:
                path.symlink_to(random.choice(["/dev/zero", str(self._outside), "nowhere"]))
            case 2:
                path.mkdir()
            case 3:
                path.write_bytes(noise(random, line + content))
            case _:
                path.write_bytes(line + content)
        return path

    def _content(self, random: Random, content: bytes) -> bytes:
        if random.random() < 0.2:
            return noise(random, content)
        value = [json.loads(line) for line in content.splitlines()]
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            if value:
                changed(random, value)
        if value and isinstance(value[0], dict) and "rows" in value[0] and random.random() < 0.8:
            value[0]["rows"] = len(value) - 1
        lines = (json.dumps(line, sort_keys=True, separators=(",", ":")) for line in value)
        return "".join(f"{line}\n" for line in lines).encode()

    def _used(self) -> None:
        """Something was let in: everything that can be done with it is done."""
        try:
            here = Node.open(self._folder, durable=False)
            with redirect_stdout(StringIO()):
                share.list_command(self._folder)
                share.list_command(self._folder, as_json=True)
            for name in (*here.catalog.relations, *here.catalog.views):
                for command in (here.query, here.hold, here.advance):
                    with suppress(HeadwaterError):
                        command(name)
        finally:
            self._start()


# Scenarios


class Scenarios:
    """Shipped scenarios, changed, as files."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "scenario.json"
        self._texts = [json.dumps(example(name).data) for name in example_names()]

    def attack(self, random: Random) -> None:
        text = random.choice(self._texts)
        if random.random() < 0.2:
            self._path.write_bytes(noise(random, text.encode()))
        else:
            value = json.loads(text)
            for _ in range(random.choice([1, 1, 2, 3])):
                changed(random, value)
            self._path.write_text(json.dumps(value))
        for scenario in load_scenarios(self._path):
            assert scenario.history.sources


ATTACKS: dict[str, Callable[[Path], Shared | Scenarios]] = {"share": Shared, "scenario": Scenarios}


def prepared(folder: Path) -> None:
    """N1 with an object of each kind and without its key, and N4, which knows it."""
    from tests.sharing.genes import V1, node, owners, rename

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
    (folder / "outside").mkdir()
    (folder / "outside" / "letter").write_text("dear")


def main() -> None:
    kind, folder, first, count = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    attacks = ATTACKS[kind](Path(folder))
    for seed in range(int(first), int(first) + int(count)):
        signal.alarm(HANG_S)
        try:
            attacks.attack(Random(seed))
        except HeadwaterError as error:
            str(error).encode("utf-8", "backslashreplace")
        except BaseException:
            sys.stderr.write(f"seed {seed}\n")
            raise


if __name__ == "__main__":
    main()
