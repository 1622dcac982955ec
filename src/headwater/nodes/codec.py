"""What a runner and a node tell each other, as bytes: a head in JSON, and rows as Arrow streams.

Nothing that comes is run or trusted to be of some type: terms are named by their places in the
view, which both sides have, columns by their names in it. What does not fit is a FrameError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow
import pyarrow.ipc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Schema
from headwater.algebra.terms import Base, Bound, Factor, Term
from headwater.algebra.views import View
from headwater.algorithms.hosted import Did, Told
from headwater.algorithms.parts.ring_visit import Token, TokenEntry
from headwater.algorithms.rings import Increment
from headwater.algorithms.rings_star import Request
from headwater.frames.columns import arrow_table, rows_of_table
from headwater.frames.frame import Frame
from headwater.nodes.frames import FrameError
from headwater.protocol.effects import Apply, Ask, Effect, Send
from headwater.protocol.events import (
    AnswerArrived,
    Event,
    Idled,
    MessageArrived,
    TransactionArrived,
)
from headwater.protocol.messages import Message
from headwater.protocol.transactions import Transaction, Update
from headwater.reading import parse_json

_LENGTH = struct.Struct(">I")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Parcel:
    """One message: what it is about, and the rows that belong to it."""

    head: Mapping[str, Any]
    blobs: Sequence[bytes] = ()

    def to_bytes(self) -> bytes:
        head = json.dumps({**self.head, "blobs": [len(blob) for blob in self.blobs]}).encode()
        return b"".join((_LENGTH.pack(len(head)), head, *self.blobs))

    @classmethod
    def of(cls, payload: bytes) -> Parcel:
        (length,) = _LENGTH.unpack_from(payload)
        at = _LENGTH.size + length
        head = parse_json(payload[_LENGTH.size : at])
        blobs = []
        for size in head.pop("blobs"):
            blobs.append(payload[at : at + size])
            at += size
        if at != len(payload):
            raise ValueError("it has another length than it says")
        return cls(head, blobs)


def read(make: Callable[[], _T]) -> _T:
    """What somebody sent; FrameError if it cannot be read."""
    try:
        return make()
    except (
        *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError),
        *(TypeError, ValueError, struct.error, pyarrow.ArrowException),
    ) as error:
        raise FrameError(
            f"A message cannot be read ({type(error).__name__}).",
            "See that the runner and its nodes are the same release.",
        ) from error


@dataclass
class Writer:
    """Puts what parties say of a view into a parcel."""

    view: View
    blobs: list[bytes] = field(default_factory=list)

    def told(self, told: Told) -> Any:
        return {"epoch": told.epoch, "event": self._event(told.event)}

    def did(self, did: Did) -> Any:
        return {
            "epoch": did.epoch,
            "effects": [self._effect(effect) for effect in did.effects],
            "handled": did.handled,
            "settled": did.is_settled,
            "idle": did.wants_idle,
            "holds": did.holds_token,
        }

    def _event(self, event: Event) -> Any:
        match event:
            case TransactionArrived(transaction):
                updates = [[u.relation, self._rows(u.delta)] for u in transaction.updates]
                return ["transaction", transaction.id, list(transaction.sources), updates]
            case AnswerArrived(source, label):
                return ["answer", source, label]
            case Idled():
                return ["idled"]
            case MessageArrived(sender, receiver, message):
                return ["message", sender, receiver, self._message(message)]

    def _effect(self, effect: Effect) -> Any:
        match effect:
            case Send(receiver, message):
                return ["send", receiver, self._message(message)]
            case Ask(source, label):
                return ["ask", source, label]
            case Apply():
                raise AssertionError("no node applies anything")

    def _message(self, message: Message) -> Any:
        match message:
            case Token(rings, entries, number, idle):
                return ["token", list(rings), number, idle, [self._entry(e) for e in entries]]
            case Increment(transactions, parts):
                found = [[ring, number, self._rows(rows)] for ring, number, rows in parts]
                return ["increment", list(transactions), found]
            case Request(item):
                return ["request", item]
        raise AssertionError(f"{message} is no message of the rings")

    def _entry(self, entry: TokenEntry) -> Any:
        terms = [self._term(term) for term in entry.terms]
        return [entry.item, list(entry.transactions), terms]

    def _term(self, term: Term) -> Any:
        return [self.view.joins.index(term.join), term.coefficient, [
            factor.at if isinstance(factor, Base) else [list(factor.at), self._rows(factor.rows)]
            for factor in term.factors
        ]]  # fmt: skip

    def _rows(self, rows: Rows) -> Any:
        """The columns' names, and where the rows are."""
        if isinstance(rows, Frame):
            rows = rows.collected()
        table = arrow_table(rows)
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self.blobs.append(sink.getvalue().to_pybytes())
        return [list(rows.schema.names), len(self.blobs) - 1]


@dataclass
class Reader:
    """Finds again what the other side said of a view."""

    view: View
    blobs: Sequence[bytes]

    def told(self, found: Any) -> Told:
        return Told(_epoch(found["epoch"]), self._event(found["event"]))

    def did(self, found: Any) -> Did:
        return Did(
            _epoch(found["epoch"]),
            tuple(map(self._effect, found["effects"])),
            int(found["handled"]),
            bool(found["settled"]),
            bool(found["idle"]),
            bool(found["holds"]),
        )

    def _event(self, found: Any) -> Event:
        match found:
            case ["transaction", str(name), list(sources), list(updates)]:
                schemas = {relation.name: relation.schema for relation in self.view.relations}
                read = tuple(
                    Update(relation, self._rows(rows, schemas[relation].columns))
                    for relation, rows in updates
                )
                return TransactionArrived(Transaction(name, read, tuple(sources), tuple(sources)))
            case ["answer", str(source), str(label)]:
                return AnswerArrived(source, label, ())
            case ["idled"]:
                return Idled()
            case ["message", str(sender), str(receiver), message]:
                return MessageArrived(sender, receiver, self._message(message))
        raise ValueError("no such event")

    def _effect(self, found: Any) -> Effect:
        match found:
            case ["send", str(receiver), message]:
                return Send(receiver, self._message(message))
            case ["ask", str(source), str(label)]:
                return Ask(source, label, ())
        raise ValueError("no such effect")

    def _message(self, found: Any) -> Message:
        match found:
            case ["token", list(rings), int(number), int(idle), list(entries)]:
                return Token(tuple(rings), tuple(map(self._entry, entries)), number, idle)
            case ["increment", list(transactions), list(parts)]:
                columns = self.view.schema.columns
                read = tuple((ring, n, self._rows(rows, columns)) for ring, n, rows in parts)
                return Increment(tuple(map(str, transactions)), read)
            case ["request", str(item)]:
                return Request(item)
        raise ValueError("no such message")

    def _entry(self, found: Any) -> TokenEntry:
        item, transactions, terms = found
        return TokenEntry(str(item), tuple(map(str, transactions)), tuple(map(self._term, terms)))

    def _term(self, found: Any) -> Term:
        at, coefficient, factors = found
        join = self.view.joins[at]
        columns = [column for each in join.occurrences for column in each.schema.columns]

        def factor(told: Any) -> Factor:
            if isinstance(told, int):
                return Base(told)
            return Bound(tuple(told[0]), self._rows(told[1], columns))

        return Term(join, tuple(map(factor, factors)), int(coefficient))

    def _rows(self, found: Any, columns: Sequence[Column]) -> Rows:
        names, at = found
        known = {column.name: column for column in columns}
        schema = Schema(tuple(known[name] for name in names))
        with pyarrow.ipc.open_stream(self.blobs[at]) as reader:
            table = reader.read_all()
        table.validate(full=True)
        if table.column_names[:-1] != list(names):
            raise ValueError("its rows have other columns")
        return rows_of_table(table, schema)


def _epoch(found: Any) -> tuple[int, ...]:
    return tuple(map(int, found))
