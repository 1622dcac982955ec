"""Traces that were saved, read again."""

from typing import Any

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import from_json
from headwater.protocol.trace import (
    Answered,
    Consulted,
    Delivered,
    Entry,
    Evaluated,
    Executed,
    Posted,
    Received,
    Roused,
    Sent,
    Showed,
    Trace,
    Waited,
)
from headwater.protocol.transactions import Transaction, Update


def trace_from_json(data: Any) -> Trace:
    """The trace that `trace_to_json` wrote."""
    return Trace(_load_rows(data["initial"]), tuple(map(_load_entry, data["entries"])))


def _load_rows(data: Any) -> Rows:
    schema = Schema.from_json(data["columns"])
    counts = {
        tuple(from_json(v, kind) for v, kind in zip(row, schema.types, strict=True)): int(count)
        for row, count in data["rows"]
    }
    return Rows(schema, counts)


def _load_transaction(data: Any) -> Transaction:
    updates = tuple(Update(u["relation"], _load_rows(u["delta"])) for u in data["updates"])
    numbers = tuple(map(int, data.get("numbers", ())))
    return Transaction(data["id"], updates, tuple(data["sources"]), tuple(data["spans"]), numbers)


def _load_entry(data: Any) -> Entry:
    match data["did"]:
        case "executed":
            return Executed(data["source"], _load_transaction(data["transaction"]))
        case "received":
            return Received(_load_transaction(data["transaction"]))
        case "sent":
            return Sent(data["source"], data["label"], tuple(data["queries"]), int(data["terms"]))
        case "evaluated":
            return Evaluated(data["source"], data["label"], tuple(map(_load_rows, data["results"])))
        case "answered":
            return Answered(data["source"], data["label"], tuple(map(_load_rows, data["results"])))
        case "waited":
            return Waited()
        case "showed":
            return Showed(_load_rows(data["view"]), tuple(data["transactions"]))
        case "posted":
            return Posted(data["sender"], data["receiver"], data["message"], int(data["bytes"]))
        case "delivered":
            return Delivered(data["sender"], data["receiver"], data["label"])
        case "consulted":
            results = tuple(map(_load_rows, data["results"]))
            return Consulted(data["source"], tuple(data["queries"]), results)
        case "roused":
            return Roused(data["source"])
        case other:
            raise ValueError(f"unknown entry '{other}'")
