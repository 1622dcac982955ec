"""Headwater keeps materialized views consistent with many autonomous, changing sources."""

__version__ = "0.1.0"
