"""Copies of all base relations at the warehouse (SC): complete, and as big as the sources.

ECA paper, section 1.2. No source is ever asked: what a transaction changes is computed from the
copies, and added in one step.

Choices: the copies are not the manager's. Its host keeps them beside the view, where they move in
the same steps, and answers questions about them at once (`protocol.copies`). So what is left is a
sweep over the copies, one transaction at a time, which never waits: a row that changes is joined
with the rows of the other relations that have its join values, and with no others. Nobody but the
host holds a relation as a whole, in the lab as in a warehouse.
"""

from __future__ import annotations

from headwater.algebra.views import View
from headwater.algorithms.pvm import Pvm


def copies(view: View) -> Pvm:
    """A sweep, for a host that has all its relations copied."""
    return Pvm(view, p=1)
