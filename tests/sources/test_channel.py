"""A channel whose past is elsewhere delivers each transaction once, however it is kept there."""

from collections.abc import Sequence
from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.channel import Channel
from headwater.sources.contract import Committed, Progressed, Source
from headwater.sources.order import Numbered

SCHEMA = Schema.of([("a", INT)])
ONE = Rows.of(SCHEMA, [(1,)])


class Kept:
    """A history that holds everything, as net changes: what cancels out is not in it."""

    first = 1

    def __init__(self, items: Sequence[Committed]) -> None:
        self._items = [replace(item, transaction=_net(item.transaction)) for item in items]

    def record(self, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        pass

    def recall(self, after: int, most: int) -> Sequence[Numbered]:
        return self._items[after : after + most]

    def heads(self, after: int, most: int) -> Sequence[Numbered]:
        return self.recall(after, most)

    def holds(self, number: int) -> bool:
        return True


def _net(transaction: Transaction) -> Transaction:
    updates = tuple(Update(name, delta) for name, delta in transaction.deltas.items())
    return replace(transaction, updates=updates)


def committed(number: int, *deltas: Rows) -> Committed:
    updates = tuple(Update("x.r", delta) for delta in deltas)
    return Committed(Transaction(f"T{number}", updates, ("x",), ("x",)), {}, number)


class Nothing(Source):
    """A source that is never opened."""

    def __init__(self) -> None:
        self.name = "x"


def test_a_transaction_that_changed_nothing_in_the_end_does_not_repeat_the_next_one() -> None:
    items = [committed(1, ONE, -ONE), committed(2, ONE), committed(3, ONE)]
    channel = Channel(Nothing(), history=Kept(items))
    channel.order.take(items)
    channel.order.trim()  # nobody has subscribed yet: what is kept elsewhere is not held
    subscription = channel.subscribe(lambda at: None, 0, relations={"x.r"})
    delivered = [*subscription.take(2), *subscription.take(2), *subscription.take(2)]
    assert [delivery.number for delivery in delivered] == [1, 2, 3]
