"""Measurements: `headwater bench`, the studies of costs behind it, and their pictures."""
