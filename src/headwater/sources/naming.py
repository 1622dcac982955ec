"""How tables are named in settings, and what their relations are called in views."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
_PART = r'(?:"((?:[^"]|"")+)"|([^."]+))'
_NAME = re.compile(rf"(?:{_PART}\.)?{_PART}")


def split_name(name: str) -> tuple[str | None, str]:
    """`lines`, `sales.lines` or `"sales"."lines"` as schema and name."""
    if match := _NAME.fullmatch(name):
        return _unquoted(match[1]) or match[2], _unquoted(match[3]) or match[4]
    schema, dot, table = name.rpartition(".")
    return (schema, table) if dot and schema and table else (None, name)


def _unquoted(name: str | None) -> str | None:
    return name and name.replace('""', '"')


def written(name: str) -> str:
    """A schema or a table as settings have it, in quotes if it needs them."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def called(names: Sequence[str]) -> list[str]:
    """What the relations are called: as their tables are, a second one of a name with its schema.

    One that is listed without a schema keeps its name, or else the first: so a table that is added
    to the list with its schema renames no other.
    """
    split = [split_name(name) for name in names]
    taken = {table for schema, table in split if schema is None}
    found: list[str] = []
    for schema, table in split:
        found.append(f"{schema}.{table}" if schema is not None and table in taken else table)
        taken.add(table)
    return found
