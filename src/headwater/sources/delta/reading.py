"""The rows of files of a Delta table, in canonical form: a dataset of Arrow over some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import BYTES, Type
from headwater.frames.arrow import arrow_schema, arrow_type
from headwater.frames.canonical import canonical_table
from headwater.frames.columns import FEW, Columns
from headwater.sources.delta.log import Action, GoneError, Snapshot, file_of
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location

_FORMAT = pyarrow.dataset.ParquetFileFormat(
    read_options=pyarrow.dataset.ParquetReadOptions(coerce_int96_timestamp_unit="us")
)
_CHANGE = "_change_type"
_CAME, _WENT = ["insert", "update_postimage"], ["delete", "update_preimage"]


def dataset(folder: Location, snapshot: Snapshot, files: Iterable[Action], schema: Schema) -> Any:
    """The rows of some files; columns that a file lacks are NULL."""
    wanted = arrow_schema(schema)
    return _dataset(folder, snapshot, files, wanted, schema)


def _dataset(
    folder: Location,
    snapshot: Snapshot,
    files: Iterable[Action],
    wanted: pyarrow.Schema,
    schema: Schema,
) -> Any:
    fragments = [
        _FORMAT.make_fragment(
            *_opened(file_of(folder, file["path"])),
            partition_expression=_partition(snapshot, file, schema),
        )
        for file in files
    ]
    if not fragments:
        return pyarrow.dataset.dataset(
            pyarrow.table({f.name: pyarrow.array([], f.type) for f in wanted})
        )
    return pyarrow.dataset.FileSystemDataset(
        fragments, wanted, _FORMAT, pyarrow.fs.LocalFileSystem()
    )


def _opened(file: Location) -> tuple[Any, Any]:
    """What Arrow opens: a path of this machine, or what a store has of it."""
    if isinstance(file.storage, LocalStorage):
        if not file.path.exists():
            raise GoneError(f"its file {file.name} has been deleted, as VACUUM does")
        return str(file.path), pyarrow.fs.LocalFileSystem()
    try:
        return file.for_arrow(), None
    except FileNotFoundError:
        raise GoneError(f"its file {file.name} has been deleted, as VACUUM does") from None


def _partition(snapshot: Snapshot, file: Action, schema: Schema) -> pc.Expression:
    """What the table's layout says of a file's rows."""
    values = file.get("partitionValues") or {}
    parts = []
    for name in snapshot.partition_columns:
        if name in schema.positions:
            kind = schema.columns[schema.positions[name]].type
            scalar = _scalar(values.get(name), kind)
            field = pc.field(name)
            parts.append(field == scalar if scalar is not None else field.is_null())
    return reduce(and_, parts) if parts else pc.scalar(True)


def _scalar(text: str | None, kind: Type) -> pyarrow.Scalar | None:
    """A value of a partition, which the log has as a text; an empty one is NULL."""
    if text is None or text == "":
        return None
    if kind == BYTES:
        return pyarrow.scalar(text.encode("latin-1"), arrow_type(kind))
    if kind.name == "timestamp_tz":
        text = text.replace(" ", "T")
        text = text if text.endswith("Z") or "+" in text[10:] else text + "Z"
    return pyarrow.scalar(text).cast(arrow_type(kind))


def rows_of(found: Any, schema: Schema, sign: int) -> Rows:
    """All rows of a dataset, each with a count of 1 or -1."""
    table = found.to_table(columns=list(schema.names))
    return Columns.of_plain(schema, canonical_table(table, schema)).scaled(sign)


def changed(
    folder: Location, before: Snapshot, after: Snapshot, entry: Sequence[Action], schema: Schema
) -> Rows:
    """What an entry changes: by the change files that it names, or by all that came and went.

    `schema` has the columns that are asked for; those that the table has not are NULL.
    """
    if cdc := [action["cdc"] for action in entry if action.get("cdc")]:
        return _from_change_files(folder, after, cdc, schema)
    came = [a["add"] for a in entry if a.get("add") and a["add"].get("dataChange", True)]
    went = [a["remove"] for a in entry if a.get("remove") and a["remove"].get("dataChange", True)]
    gone = [before.adds[file["path"]] for file in went if file["path"] in before.adds]
    new = [file for file in came if file["path"] not in before.adds]
    return net(
        schema,
        [
            rows_of(dataset(folder, after, new, schema), schema, 1),
            rows_of(dataset(folder, before, gone, schema), schema, -1),
        ],
    )


def _from_change_files(
    folder: Location, snapshot: Snapshot, files: Sequence[Action], schema: Schema
) -> Rows:
    wanted = arrow_schema(schema).append(pyarrow.field(_CHANGE, pyarrow.string()))
    found = _dataset(folder, snapshot, files, wanted, schema)
    parts: list[Rows] = []
    for kinds, sign in ((_CAME, 1), (_WENT, -1)):
        table = found.to_table(columns=list(schema.names), filter=pc.field(_CHANGE).isin(kinds))
        parts.append(Columns.of_plain(schema, canonical_table(table, schema)).scaled(sign))
    return net(schema, parts)


def net(schema: Schema, parts: Sequence[Rows]) -> Rows:
    """The sum of signed rows: held row by row where they are few."""
    rows = Rows.sum(schema, parts)
    return rows if rows.size_hint > FEW else Rows(schema, dict(rows.items()))
