"""Whole deployments in virtual time from a seed: `headwater lab system`.

The machines of the running system and the real ledger, over a disk that keeps only what was
synced, databases, runners that crash, pause and are replaced, and clocks that jump.
"""
