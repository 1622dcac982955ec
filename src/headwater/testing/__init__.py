"""The test kit for kinds of sources: suites that every kind has to pass, and what they are made of.

Needs pytest. `docs/sources/own.md` is the guide.
"""
