"""SQLite files as sources: triggers write a log, the write-ahead log tells transactions apart."""
