"""G-Strobe: T-Strobe that updates the view only when every transaction it has heard of is whole.

Strobe paper, section 6.2, for global transactions. A part waits in a holding queue until the
others are there; then the transaction is taken in as one unit. The view is updated when

1. no query is unanswered;
2. with a transaction every other one that it depends on was received;
3. all updates of the transactions received have been received and processed.

Condition 2 is a matter of reporting: it holds where sites report their parts in commit order, and
where one site reports for all only if reports carry numbers.

Choices:

- As printed, later messages of a source go on while its part of a transaction is held. A later
  deletion is then taken in before the insertion that is held, and the row stays for ever; or a
  later insertion before the deletion that is held, and the row is lost. So the integrator stands
  before it: nothing overtakes a held part of its source, and answers wait as well. Then it is
  strong. Every transaction arrives whole, and condition 3 is always true here. Without the
  integrator it is the printed form; its counterexamples are kept.
- Without condition 3 it is T-Strobe with the holding queue of the paper's Example 4. The paper
  calls that weak. It is not: an answer may show the part that is held, beside rows from before
  it. T-Strobe by itself takes parts as local transactions, and is weak.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.algorithms.parts.manager import Effects
from headwater.algorithms.strobe import State, Strobe
from headwater.protocol.transactions import Transaction, joined


@dataclass(frozen=True)
class GStrobe(Strobe):
    name: str = "g-strobe"
    whole_transactions: bool = True
    waits_for_parts: bool = True
    """Condition 3; without it the view is updated while parts are held."""

    def take_transaction(self, state: State, transaction: Transaction) -> tuple[State, Effects]:
        parts = [part for part in (*state.held, transaction) if part.id == transaction.id]
        if len(parts) < len(transaction.spans) and not transaction.is_whole:
            return replace(state, held=(*state.held, transaction)), ()
        held = tuple(part for part in state.held if part.id != transaction.id)
        return super().take_transaction(replace(state, held=held), joined(parts))

    def may_update(self, state: State) -> bool:
        is_whole = not state.held
        return super().may_update(state) and (is_whole or not self.waits_for_parts)
