"""The kinds of sources: for each the model of its settings, which says how it is opened."""

from __future__ import annotations

from headwater.sources.postgres.settings import PostgresSettings
from headwater.sources.settings import SourceSettings
from headwater.sources.sqlite.settings import SqliteSettings

KINDS: dict[str, type[SourceSettings]] = {"sqlite": SqliteSettings, "postgres": PostgresSettings}
