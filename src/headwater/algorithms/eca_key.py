"""ECA-Key: deletions by key without asking, insertions without compensation.

ECA paper, section 5.4: for views over one source that show the key of every relation. The view has
no duplicates then. Strong.

Choices:

- As printed it is wrong for a deletion of a tuple that takes part in a query under way: the
  deletion is applied to COLLECT before the answer that contains the tuple arrives. So each
  query keeps the deletions that were received while it was under way, and they are applied to
  its answer, as Strobe does. The printed form's counterexample is kept in the tests.
- Repaired, it is T-Strobe: COLLECT, the working copy, is the view with the action list applied.
- `batch` is Strobe's.
- Of a transaction, the deletions are applied first, then one query asks for all insertions.
"""

from __future__ import annotations

from headwater.algebra.views import View
from headwater.algorithms.strobe import Strobe


def eca_key(view: View, batch: int = 1) -> Strobe:
    return Strobe(view, "eca-key", whole_transactions=True, batch=batch)
