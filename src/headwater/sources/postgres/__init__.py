"""PostgreSQL databases as sources: logical replication or triggers, answers by snapshot."""

from headwater.sources.postgres.source import PostgresSource

__all__ = ["PostgresSource"]
