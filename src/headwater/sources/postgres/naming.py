"""How tables of PostgreSQL are named in settings, and what their relations are called in views."""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUOTED = r'"((?:[^"]|"")+)"'


def split_name(name: str) -> tuple[str | None, str]:
    """`lines`, `sales.lines` or `"sales"."lines"` as schema and name."""
    if match := re.fullmatch(rf"(?:{_QUOTED}\.)?{_QUOTED}", name):
        schema, table = match[1], match[2]
        return schema and schema.replace('""', '"'), table.replace('""', '"')
    schema, dot, table = name.rpartition(".")
    return (schema, table) if dot and schema and table else (None, name)


def called(names: Sequence[str]) -> list[str]:
    """What the relations are called: as their tables are, a second one of a name with its schema.

    The first of a name keeps it, so that a table that is added to the list renames no other.
    """
    found: list[str] = []
    for schema, table in map(split_name, names):
        found.append(f"{schema}.{table}" if table in found and schema else table)
    return found
