"""The five papers' own evaluations, made again: one module for each paper.

An experiment gives figures: what was published, what was found, a table, charts, and the raw
records that both are made of. Formulas stand apart from what is counted or measured.
"""
