"""Functions that views may call: one table, and what each of them does to values."""
