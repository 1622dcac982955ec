"""The kinds of sources: for each the model of its settings, which says how it is opened.

A package of somebody else's adds one by an entry point in the group `headwater.sources`, which has
the name of the kind and leads to its model. It is looked for where a project names such a kind.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from headwater.errors import InputError
from headwater.sources.delta.settings import DeltaSettings
from headwater.sources.files.settings import FilesSettings
from headwater.sources.mariadb.settings import MariadbSettings, MysqlSettings
from headwater.sources.postgres.settings import PostgresSettings
from headwater.sources.settings import SourceSettings
from headwater.sources.sqlite.settings import SqliteSettings

KINDS: dict[str, type[SourceSettings]] = {
    "sqlite": SqliteSettings,
    "postgres": PostgresSettings,
    "mariadb": MariadbSettings,
    "mysql": MysqlSettings,
    "files": FilesSettings,
    "delta": DeltaSettings,
}
GROUP = "headwater.sources"


def kind_of(name: str) -> type[SourceSettings] | None:
    """The model of a kind, one of our own or one that is installed; None if there is none."""
    if name in KINDS:
        return KINDS[name]
    for entry in entry_points(group=GROUP, name=name):
        try:
            found = entry.load()
        except Exception as error:  # of somebody else's package
            raise InputError(
                f"The kind of source '{name}' of {entry.value} cannot be loaded: {error}.",
                "See to the package that brings it.",
            ) from None
        if isinstance(found, type) and issubclass(found, SourceSettings):
            return found
        raise InputError(
            f"The kind of source '{name}' is no model of settings: {entry.value}.",
            "The entry point has to lead to a class made of SourceSettings.",
        )
    return None


def known_kinds() -> list[str]:
    return [*KINDS, *(entry.name for entry in entry_points(group=GROUP))]
