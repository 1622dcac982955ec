"""Sources: a monitor and a wrapper for each kind of database, joined by a channel."""
