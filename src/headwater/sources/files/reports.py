"""Reports of changes: rows with an operation each, as sources send them from time to time.

An insertion names a row that is not there, an update and a deletion one that is: by its key where
the relation has one, else by all its columns. A report that says otherwise has been lost, or comes
twice, so it is refused with its line. Pure but for Arrow: what is there is asked for.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import TEXT, Row
from headwater.frames.arrow import row_values
from headwater.sources.files.misfits import MisfitError

OPERATIONS: Mapping[str, str] = {
    "i": "insert",
    "insert": "insert",
    "c": "insert",
    "+": "insert",
    "d": "delete",
    "delete": "delete",
    "-": "delete",
    "u": "update",
    "update": "update",
    "m": "upsert",
    "merge": "upsert",
    "upsert": "upsert",
}

Present = Callable[[Collection[Row]], Rows]
"""The rows that are there now, of those that have one of these keys; all columns are the key of a
relation without one."""


def with_operation(schema: Schema, column: str) -> Schema:
    """What a report has: an operation before the columns."""
    return Schema.of([(column, TEXT)]) + schema


def changes_of(
    relation: Relation, reports: Sequence[tuple[str, pyarrow.Table]], present: Present
) -> Rows:
    """What reports change, one after the other; each with the file that it is in."""
    lines = [
        (file, number, row)
        for file, table in reports
        for number, row in enumerate(row_values(table, _reported(relation, table)), 1)
    ]
    if relation.key:
        return _by_key(relation, lines, present)
    return _by_row(relation, lines, present)


def _reported(relation: Relation, table: pyarrow.Table) -> Schema:
    return with_operation(relation.schema, table.column_names[0])


Lines = Sequence[tuple[str, int, Row]]


def _operation(file: str, number: int, row: Row) -> str:
    said = row[0]
    found = OPERATIONS.get(said.strip().lower()) if isinstance(said, str) else None
    if found is None:
        raise MisfitError(
            f"row {number} has the operation {said!r}; there are "
            + ", ".join(sorted(set(OPERATIONS))),
            file=file,
        )
    return found


def _by_key(relation: Relation, lines: Lines, present: Present) -> Rows:
    keys = {relation.key_of(row[1:]) for _, _, row in lines}
    before = {relation.key_of(row): row for row in present(keys)}
    after: dict[Row, Row | None] = dict(before)
    for file, number, row in lines:
        operation, values = _operation(file, number, row), row[1:]
        key = relation.key_of(values)
        if None in key:
            raise MisfitError(f"row {number} has NULL in its key", file=file)
        there = after.get(key) is not None
        if operation == "insert" and there:
            raise _contradicts(file, number, "inserts", key, "is there already")
        if operation in ("update", "delete") and not there:
            raise _contradicts(file, number, f"{operation}s", key, "is not there")
        after[key] = None if operation == "delete" else values
    counts: Counter[Row] = Counter()
    for key in keys:
        if (old := before.get(key)) is not None:
            counts[old] -= 1
        if (new := after.get(key)) is not None:
            counts[new] += 1
    return Rows(relation.schema, {row: count for row, count in counts.items() if count})


def _by_row(relation: Relation, lines: Lines, present: Present) -> Rows:
    counts: Counter[Row] = Counter()
    removed: dict[Row, tuple[str, int]] = {}
    for file, number, row in lines:
        operation, values = _operation(file, number, row), row[1:]
        if operation in ("update", "upsert"):
            raise MisfitError(
                f"row {number} is to {operation} a row, and {relation.name} has no key",
                "Name its key in keys of the source's settings, or report the old row as deleted "
                "and the new one as inserted.",
                file=file,
            )
        counts[values] += 1 if operation == "insert" else -1
        if operation == "delete":
            removed[values] = (file, number)
    net = {row: count for row, count in counts.items() if count}
    wanted = {row: -count for row, count in net.items() if count < 0}
    there = present(wanted) if wanted else Rows.empty(relation.schema)
    for row, count in wanted.items():
        if there.count(row) < count:
            file, number = removed[row]
            raise _contradicts(file, number, "deletes", row, "is not there so often")
    return Rows(relation.schema, net)


def _contradicts(file: str, number: int, does: str, key: Row, words: str) -> MisfitError:
    shown = reprlib.repr(key[0] if len(key) == 1 else key)
    return MisfitError(
        f"row {number} {does} {shown}, which {words}: a report may be missing, or have come twice",
        "Put the missing report in its place, or correct this one; otherwise run 'headwater repair "
        "SOURCE', which begins with the reports that are there.",
        file=file,
    )
