"""Effects: what a view manager asks for. Nothing else leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.algebra.values import Row
from headwater.protocol.messages import Message


@cached_hash
@dataclass(frozen=True)
class Ask:
    """Put queries to one source, to be evaluated in one snapshot; `label` is unique."""

    source: str
    label: str
    queries: tuple[Query, ...]
    kept: Query = ()
    """Terms of the same query that are evaluated at the warehouse and not sent; a trace shows
    them and adds their value to the answer, as the papers print it."""


@dataclass(frozen=True)
class Add:
    """Add signed rows to the view."""

    rows: Rows


@dataclass(frozen=True)
class AddNew:
    """Add the rows that the view does not have yet, each once: for views without duplicates."""

    rows: Rows


@dataclass(frozen=True)
class KeyDelete:
    """Delete the view's rows that show one of `keys` in these columns."""

    columns: tuple[str, ...]
    keys: tuple[Row, ...]


@dataclass(frozen=True)
class Replace:
    """Put these rows in the place of the whole view."""

    rows: Rows


Action: TypeAlias = Add | AddNew | KeyDelete | Replace


@dataclass(frozen=True)
class Apply:
    """Apply an action list to the view as one atomic step.

    `transactions` are the ids that the view reflects from this step on, as far as the
    manager knows.
    """

    actions: tuple[Action, ...]
    transactions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Send:
    """Send a message to another party, for protocols in which the sources have nodes."""

    receiver: str
    message: Message


Effect: TypeAlias = Ask | Apply | Send


def apply_actions(view: Rows, actions: tuple[Action, ...]) -> Rows:
    """The view after an action list: the meaning of `Apply`."""
    for action in actions:
        match action:
            case Add(rows=rows):
                view = view + rows
            case AddNew(rows=rows):
                new = {row: 1 for row, count in rows.items() if count > 0 and not view.count(row)}
                view = view + Rows(view.schema, new)
            case KeyDelete(columns=columns, keys=keys):
                view = view.key_delete(columns, keys)
            case Replace(rows=rows):
                view = rows
            case _:
                assert_never(action)
    return view
