"""Traces as JSON, to be saved; rows carry their columns' types."""

from __future__ import annotations

from headwater.algebra.rows import Rows
from headwater.algebra.values import Json, to_json
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
from headwater.protocol.transactions import Transaction


def trace_to_json(trace: Trace) -> dict[str, Json]:
    return {
        "initial": _dump_rows(trace.initial),
        "entries": [_dump_entry(entry) for entry in trace.entries],
    }


def rows_to_json(rows: Rows) -> list[Json]:
    """`[[row, count], ...]` in a fixed order."""
    return [[[to_json(value) for value in row], count] for row, count in rows.sorted_items()]


def _dump_rows(rows: Rows) -> Json:
    return {"columns": rows.schema.to_json(), "rows": rows_to_json(rows)}


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
