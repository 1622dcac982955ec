"""Algorithms with one thing left out, or as printed: each must be caught.

They are no part of the running system. `headwater.lab.counterexamples` keeps for each the smallest
scenario found, with the schedule that shows what goes wrong.
"""
