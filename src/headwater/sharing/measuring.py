"""How fast a node reads and joins, measured where it runs: `Speeds` for its plans.

A second or two of work on made-up rows; time of a processor, the best of a few runs. Places that
are not here, peers over a network and object stores, keep what is assumed of them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT
from headwater.sharing import rules
from headwater.sharing.available import Place
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import decode, encode
from headwater.sharing.plan_costs import Speed, Speeds
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram

ROWS, CHANGED, PARTNERS, RUNS = 10_000, 100, 50, 3
_R = Relation("R", "x", Schema.of([("k", INT), ("a", INT)]), ("k",))
_S = Relation("S", "y", Schema.of([("a", INT), ("n", INT), ("t", TEXT)]))
_VIEW = SharedView.parse("V", "SELECT R.k, S.t FROM R, S WHERE R.a = S.a AND S.n >= 0", (_R, _S))


def measured_speeds() -> Speeds:
    """What reading and joining takes here."""
    assumed = Speeds()
    alone = _seconds_of_joining(0, matching=False)
    few, many = (_seconds_of_joining(ROWS, matching=found) for found in (False, True))
    an_object, a_row, a_byte = _reading()
    return Speeds(
        {**assumed.places, Place.LOCAL: _files()},
        read_object=an_object,
        read_row=a_row,
        read_byte=a_byte,
        step=alone,
        join_row=max(few - alone, 0.0) / ROWS,
        made_row=max(many - few, 0.0) / (CHANGED * PARTNERS),
    )


def _best(work: Callable[[], object]) -> float:
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def _reading() -> tuple[float, float, float]:
    """Seconds for an object, a row and a byte, from narrow and from wide rows."""
    alone = _best(partial(decode, encode(Contents.of_relation("S", 0, _numbers(2, 0)))))
    seconds, sizes = [], []
    for columns in (2, 8):
        content = encode(Contents.of_relation("S", 0, _numbers(columns, ROWS)))
        seconds.append((_best(partial(decode, content)) - alone) / ROWS)
        sizes.append(len(content) / ROWS)
    a_byte = max(0.0, (seconds[1] - seconds[0]) / (sizes[1] - sizes[0]))
    return alone, max(0.0, seconds[0] - a_byte * sizes[0]), a_byte


def _numbers(columns: int, many: int) -> Rows:
    schema = Schema.of((f"c{at}", INT) for at in range(columns))
    return Rows.of(schema, [tuple(range(at, at + columns)) for at in range(many)])


def _seconds_of_joining(many: int, matching: bool) -> float:
    """A small updategram with so many rows, of which its own have partners or none."""
    first = 0 if matching else ROWS
    changed = [(at, at + first) for at in range(CHANGED)]
    half = CHANGED // 2
    change = Updategram.of_relation(
        "R", _R.schema, 0, 1, inserted=changed[:half], deleted=changed[half:]
    )
    rows = Rows.of(_S.schema, [(at // PARTNERS, at, "text") for at in range(many)])
    contents = Contents.of_relation("S", 0, rows)
    return _best(lambda: rules.a1(_VIEW, change, contents))


def _files() -> Speed:
    """Until a small file is there, and how fast a large one comes."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        small.write_bytes(b"x")
        large.write_bytes(bytes(8_000_000))
        until, all_of_it = (_elapsed(path) for path in (small, large))
    return Speed(until, 8_000_000 / max(all_of_it - until, 1e-9))


def _elapsed(path: Path) -> float:
    found = []
    for _ in range(RUNS):
        start = time.perf_counter()
        path.read_bytes()
        found.append(time.perf_counter() - start)
    return min(found)
