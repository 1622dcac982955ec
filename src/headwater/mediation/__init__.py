"""Mediation: sources described as views over a mediated schema, and views over that schema."""
