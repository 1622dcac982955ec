"""SQLite files as sources: triggers write a log, the write-ahead log tells transactions apart."""

from headwater.sources.sqlite.source import SqliteSource

__all__ = ["SqliteSource"]
