"""Ways of reporting global transactions to the warehouse: Strobe paper, sections 3.2 and 6.2.

Each part commits at its own source. What the warehouse hears of it is one of:

- sites: every site reports its own part, with the transaction's id and the sites that it spans;
- committer: the site whose part commits last reports the whole, the others are silent;
- numbered: as committer, and every report has the transaction's number at each of its sources.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.check.history import History, Vector
from headwater.protocol.transactions import Transaction, joined

SITES, COMMITTER, NUMBERED = "sites", "committer", "numbered"


def report(
    history: History, positions: Vector, executed: Transaction, way: str
) -> Transaction | None:
    """What a site reports that has just executed this part, or None while parts are missing."""
    if way == SITES:
        return executed
    numbers = {source: _number(history, source, executed.id) for source in executed.spans}
    done = dict(zip(history.sources, positions, strict=True))
    if any(done[source] < number for source, number in numbers.items()):
        return None
    whole = joined(history.transactions[source][n - 1] for source, n in numbers.items())
    return replace(whole, numbers=tuple(numbers.values())) if way == NUMBERED else whole


def _number(history: History, source: str, name: str) -> int:
    """The number of a transaction at a source, from 1 on."""
    return 1 + [part.id for part in history.transactions[source]].index(name)
