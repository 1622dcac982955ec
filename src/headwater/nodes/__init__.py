"""Nodes of the Rings protocols in processes of their own, and how a runner talks to them."""
