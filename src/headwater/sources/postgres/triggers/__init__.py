"""PostgreSQL without logical replication: triggers write changes into a table that is polled.

For servers where no slot can be had. `functions` is what runs inside the application's
transactions, `setup` makes and removes it, `watch` notices what was changed behind its back,
`units` finds the order of what was logged, `monitor` reads it, and `capture` is all of it together.
"""
