"""What is shared in the experiments of the updategrams paper: TPC-H, and 200 updates to lineitem.

Every update is an updategram, with boosters of orders, part and supplier. Updategrams between other
versions are composed from those. All objects are files, as nodes have them, written when they are
first asked for; sizes are those of the files, of composed updategrams the sum of their parts.

Choices: an update changes half as many lines as it has rows: some go and others come. Of each
table the columns are there that the views and the updates need.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

import pyarrow.parquet

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import Row, parse_type
from headwater.bench.freshness.workload import tpch_program
from headwater.frames.arrow import arrow_schema
from headwater.frames.columns import Columns
from headwater.sharing import rules
from headwater.sharing.available import (
    Available,
    AvailableBooster,
    AvailableContents,
    AvailableUpdategram,
    Place,
)
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import decode, encode
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram, composed
from headwater.sharing.versions import NOTHING, Versions

Item = Updategram | Booster | Contents
CHANGED = "lineitem"
BOOSTED = ("orders", "part", "supplier")
_TABLES = {
    CHANGED: (
        "l_orderkey int, l_linenumber int, l_partkey int, l_suppkey int, "
        "l_quantity decimal(15,2), l_shipdate date, l_commitdate date, l_receiptdate date",
        "l_orderkey l_linenumber",
    ),
    "orders": (
        "o_orderkey int, o_custkey int, o_orderdate date, o_orderpriority text",
        "o_orderkey",
    ),
    "customer": ("c_custkey int, c_nationkey int, c_mktsegment text", "c_custkey"),
    "part": ("p_partkey int, p_name text, p_type text", "p_partkey"),
    "supplier": ("s_suppkey int, s_nationkey int, s_name text", "s_suppkey"),
    "partsupp": (
        "ps_partkey int, ps_suppkey int, ps_supplycost decimal(15,2)",
        "ps_partkey ps_suppkey",
    ),
    "nation": ("n_nationkey int, n_regionkey int, n_name text", "n_nationkey"),
}
"""The columns that are looked at, and the key."""


def _relation(name: str, columns: str, key: str) -> Relation:
    pairs = [column.split(" ", 1) for column in columns.split(", ")]
    schema = Schema.of((column, parse_type(kind)) for column, kind in pairs)
    return Relation(name, "tpch", schema, tuple(key.split()))


RELATIONS = {name: _relation(name, *about) for name, about in _TABLES.items()}
BOOSTING = {
    name: SharedView.parse(
        f"with {name}",
        f"SELECT l_quantity FROM lineitem, {name} WHERE {key} = {RELATIONS[name].key[0]}",
        RELATIONS,
    )
    for name, key in zip(BOOSTED, ("l_orderkey", "l_partkey", "l_suppkey"), strict=True)
}
"""A view for each: a booster of orders for a join with parts too would lack those of lines without
a part, and no view without parts could use it."""


def generate(folder: Path, scale: float) -> dict[str, Rows]:
    """The tables of TPC-H."""
    tables = f"--tables={','.join(_TABLES)}"
    command = (tpch_program(), "parquet", "-s", str(scale), tables, "--output-dir", str(folder))
    subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Rows] = {}
    for name, relation in RELATIONS.items():
        table = pyarrow.parquet.read_table(
            folder / f"{name}.parquet", columns=list(relation.schema.names)
        )
        found[name] = Columns.of_plain(relation.schema, table.cast(arrow_schema(relation.schema)))
    return found


@dataclass
class SharedTables:
    """What the nodes of the experiment have published, in a folder."""

    folder: Path
    tables: dict[str, Rows]
    updates: int
    rows: int
    """Of an update: so many lines are touched."""
    seed: int = 1
    _sizes: dict[str, int] = field(default_factory=dict)

    # What was done

    @cached_property
    def steps(self) -> list[Updategram]:
        """An updategram for each update."""
        random = Random(self.seed)
        lines = sorted(self.tables[CHANGED])
        found = []
        for version in range(self.updates):
            gone = [lines.pop(random.randrange(len(lines))) for _ in range(self.rows // 2)]
            numbers = itertools.count(100 + version * self.rows)
            chosen = random.sample(lines, self.rows // 2)
            came = [_moved(line, number) for line, number in zip(chosen, numbers, strict=False)]
            lines += came
            schema = RELATIONS[CHANGED].schema
            found.append(
                Updategram.of_relation(
                    CHANGED, schema, version, version + 1, inserted=came, deleted=gone
                )
            )
        return found

    @cached_property
    def boosters(self) -> dict[str, Booster]:
        """Of each relation that shares a key with lineitem, for each update."""
        contents = {name: Contents.of_relation(name, 0, self.tables[name]) for name in BOOSTED}
        return {
            f"{name}-{version}": _in_memory(rules.a3(BOOSTING[name], step, contents[name]))
            for version, step in enumerate(self.steps)
            for name in BOOSTED
        }

    def between(self, first: int, last: int) -> Updategram:
        return composed(self.steps[first:last])

    def state(self, version: int) -> dict[str, Rows]:
        """Every table, when lineitem was at a version."""
        lines = self.tables[CHANGED]
        if version:
            lines = lines + self.between(0, version).net
        return {**self.tables, CHANGED: lines}

    # What there is

    def available(self, wide: Iterable[tuple[int, int]]) -> Available:
        """The updategrams of single updates and these, the boosters, and all tables."""
        singles = [(at, at + 1) for at in range(self.updates)]
        return Available(
            tuple(self._updategram(*ends) for ends in dict.fromkeys([*singles, *wide])),
            tuple(map(self._booster, self.boosters)),
            tuple(map(self._contents, self.tables)),
        )

    def _updategram(self, first: int, last: int) -> AvailableUpdategram:
        steps = range(first, last)
        size = sum(self._size(f"{at}-{at + 1}") for at in steps)
        rows = sum(len(self.steps[at].touched) for at in steps)
        ends = Versions({CHANGED: first}), Versions({CHANGED: last})
        return AvailableUpdategram(f"{first}-{last}", CHANGED, *ends, rows, size, Place.PEER)

    def _booster(self, address: str) -> AvailableBooster:
        found = self.boosters[address]
        return AvailableBooster(
            address, found.view, found.interval, found.of, found.versions, len(found.rows),
            self._size(address), NOTHING, Place.PEER,
        )  # fmt: skip

    def _contents(self, name: str) -> AvailableContents:
        rows = len(self.tables[name])
        return AvailableContents(
            name, name, Versions({name: 0}), rows, self._size(name), Place.PEER
        )

    # Its files

    def load(self, address: str) -> Item:
        """An object, read from its file and checked as every node does."""
        found = decode((self.folder / address).read_bytes())
        assert isinstance(found, Updategram | Booster | Contents)
        return found

    def write(self, address: str) -> int:
        """Have an object's file, and its size in bytes."""
        content = encode(self._item(address))
        (self.folder / address).write_bytes(content)
        self._sizes[address] = len(content)
        return len(content)

    def prepare(self, addresses: Iterable[str]) -> None:
        """Have files of these objects."""
        for address in addresses:
            self._size(address)

    def _size(self, address: str) -> int:
        return self._sizes.get(address) or self.write(address)

    def _item(self, address: str) -> Item:
        if address in self.tables:
            rows = self.tables[address]
            return Contents.of_relation(address, 0, Rows(rows.schema, dict(rows.items())))
        if address in self.boosters:
            return self.boosters[address]
        first, last = map(int, address.split("-"))
        return self.between(first, last)


def _moved(line: Row, number: int) -> Row:
    """Another line of the same order."""
    place = RELATIONS[CHANGED].schema.positions["l_linenumber"]
    return (*line[:place], number, *line[place + 1 :])


def _in_memory(booster: Booster) -> Booster:
    rows = Rows(booster.rows.schema, dict(booster.rows.items()))
    return Booster(booster.view, booster.interval, booster.of, booster.versions, rows)


def random_ends(random: Random, updates: int, many: int) -> Sequence[tuple[int, int]]:
    """Pairs of different versions, the lower first."""
    pairs = (sorted(random.sample(range(updates + 1), 2)) for _ in range(many))
    return [(first, last) for first, last in pairs]
