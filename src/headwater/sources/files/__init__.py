"""Files as a source: successive snapshots that are compared, or changes that somebody reports."""
