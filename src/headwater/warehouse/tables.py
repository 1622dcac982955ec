"""What makes a folder a Delta table of a view: its protocol and metadata, made and read."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow
from deltalake import Schema as DeltaSchema

from headwater.algebra.schema import Schema
from headwater.errors import EngineError
from headwater.frames.arrow import arrow_schema, signed_schema
from headwater.reading import parse_json
from headwater.warehouse.columns import log_arrow_schema, schema_from_delta
from headwater.warehouse.commits import LogLine
from headwater.warehouse.definition import StoredDefinition, unreadable
from headwater.warehouse.forms import DESCRIPTION, has_form
from headwater.warehouse.table_versions import TableVersion

_WITH_TOP = "definition_with_top"
"""Where a view with a top has its definition. Releases that would take what is stored for what is
shown look for it elsewhere, and refuse the view."""
_OF_GROUP = "definition_of_group"
"""Where a group has its definition; releases that know of no groups refuse it."""


def plain_table(view: str, schema: Schema, before: TableVersion | None = None) -> list[LogLine]:
    """The actions that make a plain table, or give one other columns."""
    text = f"The view {view}, kept by Headwater; read only."
    return table_actions(view, arrow_schema(schema), text, before)


def stored_table(view: str, schema: Schema, before: TableVersion | None = None) -> list[LogLine]:
    """The actions that make a table of stored parts, or give one other columns."""
    text = f"What Headwater stores of the view {view}; what it shows is in the plain table."
    return table_actions(view, signed_schema(schema), text, before)


def member_table(
    member: str, group: str, schema: Schema, before: TableVersion | None = None
) -> list[LogLine]:
    """The actions that make the plain table of a group's member, or give it other columns."""
    text = f"The view {member} of the group {group}, kept by Headwater; read only."
    return table_actions(member, arrow_schema(schema), text, before)


def log_table(
    definition: StoredDefinition,
    sources: Sequence[str],
    key: Sequence[str],
    before: TableVersion | None = None,
) -> list[LogLine]:
    """The actions that make a signed log, or give one other columns and another definition."""
    name = _WITH_TOP if definition.layout else "definition"
    name = _OF_GROUP if definition.members else name
    told = {name: definition.to_json(), "sources": list(sources), "key": list(key)}
    schema = log_arrow_schema(definition.schema)
    return table_actions(definition.name, schema, json.dumps(told), before)


def schema_of(snapshot: TableVersion) -> Schema:
    """The view's columns, of either table."""
    return schema_from_delta(snapshot.schema_json)


def definition_of(log: TableVersion) -> StoredDefinition:
    """What the view was loaded with; EngineError if that is damaged."""
    _described(log)
    try:
        return _definition(log.description)
    except ValueError:
        raise unreadable(log.folder.name) from None


def error_column_of(log: TableVersion) -> str | None:
    """The column of commits that tells of errors, where all others are shown."""
    return definition_of(log).error_column if _WITH_TOP in _described(log) else None


def sources_of(log: TableVersion) -> tuple[str, ...]:
    return tuple(_described(log)["sources"])


def key_of(log: TableVersion) -> tuple[str, ...]:
    """The columns that identify every row; none if rows may occur twice."""
    return tuple(_described(log).get("key", ()))


def _described(log: TableVersion) -> dict[str, Any]:
    found = _description(log.description)
    if found is None:
        raise EngineError(
            f"The metadata of the table {log.folder} is damaged: it does not describe a view.",
            f"Load the view anew with 'headwater reload {log.folder.name}'.",
        )
    return found


@lru_cache(maxsize=1024)
def _definition(text: str) -> StoredDefinition:
    found = parse_json(text)
    names = (_OF_GROUP, _WITH_TOP, "definition")
    return StoredDefinition.from_json(next(found[name] for name in names if name in found))


@lru_cache(maxsize=256)
def _description(text: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = parse_json(text)
    except ValueError:
        return None
    return found if has_form(DESCRIPTION, found) else None


def table_actions(
    view: str, schema: pyarrow.Schema, description: str, before: TableVersion | None
) -> list[LogLine]:
    """The actions that make a table, or give one other columns."""
    metadata: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "name": view,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "createdTime": int(time.time() * 1000),
        "configuration": {"delta.enableExpiredLogCleanup": "false"},
    }
    if before is not None:
        metadata |= before.metadata
    metadata["description"] = description
    metadata["schemaString"] = DeltaSchema.from_arrow(schema).to_json()
    features = {"timestampNtz"} if "timestamp_ntz" in metadata["schemaString"] else set()
    return [{"protocol": _protocol(features, before)}, {"metaData": metadata}]


def _protocol(features: set[str], before: TableVersion | None) -> dict[str, Any]:
    """What a reader has to know; never less than before, since old versions stay readable."""
    old = before.protocol if before is not None else {}
    features = features.union(old.get("readerFeatures") or ())
    if not features:
        return dict(old) or {"minReaderVersion": 1, "minWriterVersion": 2}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(features),
        "writerFeatures": sorted(features.union(old.get("writerFeatures") or ())),
    }
