"""Saving and loading traces as JSON; rows carry their columns' types."""

from __future__ import annotations

from typing import Any

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Json, from_json, to_json
from headwater.errors import InputError
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


def trace_to_json(trace: Trace) -> dict[str, Json]:
    return {
        "initial": _dump_rows(trace.initial),
        "entries": [_dump_entry(entry) for entry in trace.entries],
    }


def trace_from_json(data: Any) -> Trace:
    """The trace that `trace_to_json` wrote; InputError if it is something else."""
    try:
        return Trace(_load_rows(data["initial"]), tuple(map(_load_entry, data["entries"])))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"This is not a saved trace: {type(error).__name__} {error}.",
            "Save one with 'headwater lab replay --save'.",
        ) from None


def rows_to_json(rows: Rows) -> list[Json]:
    """`[[row, count], ...]` in a fixed order."""
    return [[[to_json(value) for value in row], count] for row, count in rows.sorted_items()]


def _dump_rows(rows: Rows) -> Json:
    return {"columns": rows.schema.to_json(), "rows": rows_to_json(rows)}


def _load_rows(data: Any) -> Rows:
    schema = Schema.from_json(data["columns"])
    counts = {
        tuple(from_json(v, kind) for v, kind in zip(row, schema.types, strict=True)): int(count)
        for row, count in data["rows"]
    }
    return Rows(schema, counts)


def _dump_transaction(transaction: Transaction) -> Json:
    numbers: Json = list(transaction.numbers)
    return {
        "id": transaction.id,
        "updates": [
            {"relation": update.relation, "delta": _dump_rows(update.delta)}
            for update in transaction.updates
        ],
        "sources": list(transaction.sources),
        "spans": list(transaction.spans),
        **({"numbers": numbers} if numbers else {}),
    }


def _load_transaction(data: Any) -> Transaction:
    updates = tuple(Update(u["relation"], _load_rows(u["delta"])) for u in data["updates"])
    numbers = tuple(map(int, data.get("numbers", ())))
    return Transaction(data["id"], updates, tuple(data["sources"]), tuple(data["spans"]), numbers)


def _dump_entry(entry: Entry) -> Json:
    match entry:
        case Executed(source, transaction):
            body: dict[str, Json] = {
                "source": source,
                "transaction": _dump_transaction(transaction),
            }
        case Received(transaction):
            body = {"transaction": _dump_transaction(transaction)}
        case Sent(source, label, queries, terms):
            body = {"source": source, "label": label, "queries": list(queries), "terms": terms}
        case Evaluated(source, label, results) | Answered(source, label, results):
            dumped: list[Json] = [_dump_rows(rows) for rows in results]
            body = {"source": source, "label": label, "results": dumped}
        case Waited():
            body = {}
        case Showed(view, transactions):
            body = {"view": _dump_rows(view), "transactions": list(transactions)}
        case Posted(sender, receiver, message, size):
            body = {"sender": sender, "receiver": receiver, "message": message, "bytes": size}
        case Delivered(sender, receiver, label):
            body = {"sender": sender, "receiver": receiver, "label": label}
        case Consulted(source, queries, results):
            told: list[Json] = [_dump_rows(rows) for rows in results]
            body = {"source": source, "queries": list(queries), "results": told}
        case Roused(source):
            body = {"source": source}
    return {"did": type(entry).__name__.lower(), **body}


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
