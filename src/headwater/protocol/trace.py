"""Traces: what happened in a run, in order, to be checked and printed.

An entry is what one party did. Queries are kept as they are printed, rows with their types,
so that a trace can be judged by the checker and read like the papers' lists of steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.rows import Rows, show_rows
from headwater.protocol.transactions import Transaction, show_transaction


@dataclass(frozen=True)
class Executed:
    """A source executed a transaction, or its part."""

    source: str
    transaction: Transaction


@dataclass(frozen=True)
class Received:
    """The view manager took a transaction in."""

    transaction: Transaction


@dataclass(frozen=True)
class Sent:
    """The view manager asked a source."""

    source: str
    label: str
    queries: tuple[str, ...]
    terms: int
    """How many terms the source has to evaluate."""


@dataclass(frozen=True)
class Evaluated:
    """A source answered a question."""

    source: str
    label: str
    results: tuple[Rows, ...]


@dataclass(frozen=True)
class Answered:
    """The view manager took an answer in."""

    source: str
    label: str
    results: tuple[Rows, ...]


@dataclass(frozen=True)
class Waited:
    """Nothing happened for a while, and the view manager was told."""


@dataclass(frozen=True)
class Showed:
    """The view changed, in one step, to what its reader sees now."""

    view: Rows
    transactions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Posted:
    """A party sent a message to another one; an empty name is the warehouse."""

    sender: str
    receiver: str
    message: str
    byte_count: int
    """Bytes of the rows in it."""


@dataclass(frozen=True)
class Delivered:
    """A party took a message in, which `label` names."""

    sender: str
    receiver: str
    label: str


@dataclass(frozen=True)
class Consulted:
    """A source answered its own node, or a copy the view manager (then there is no source);
    nothing travels."""

    source: str
    queries: tuple[str, ...]
    results: tuple[Rows, ...]


@dataclass(frozen=True)
class Roused:
    """Nothing happened for a while, and a source's node was told."""

    source: str


Entry: TypeAlias = (
    Executed
    | Received
    | Sent
    | Evaluated
    | Answered
    | Waited
    | Showed
    | Posted
    | Delivered
    | Consulted
    | Roused
)


@dataclass(frozen=True)
class Trace:
    """A run: the view at the start, then everything that happened."""

    initial: Rows
    entries: tuple[Entry, ...]

    @property
    def states(self) -> list[Rows]:
        """The view as its reader saw it: the initial state, then one for each step."""
        return [self.initial, *(e.view for e in self.entries if isinstance(e, Showed))]

    @property
    def message_count(self) -> int:
        """Questions and answers, and messages between parties; not notifications of updates."""
        return sum(isinstance(entry, Sent | Evaluated | Posted) for entry in self.entries)

    @property
    def term_count(self) -> int:
        """Terms that sources were asked to evaluate."""
        return sum(entry.terms for entry in self.entries if isinstance(entry, Sent))

    @property
    def byte_count(self) -> int:
        """Bytes of all answers, and of the rows in messages between parties."""
        answers = sum(
            rows.byte_count
            for entry in self.entries
            if isinstance(entry, Evaluated)
            for rows in entry.results
        )
        return answers + sum(e.byte_count for e in self.entries if isinstance(e, Posted))


# Printing


def show_trace(trace: Trace) -> list[str]:
    """Numbered steps in the papers' words; one step for each source or warehouse event."""
    steps: list[str] = []
    for entry in trace.entries:
        match entry:
            case Sent() | Showed() if steps and steps[-1].startswith(_WAREHOUSE):
                steps[-1] = f"{steps[-1].removesuffix('.')} {_continued(entry)}."
            case Posted(sender) if steps and steps[-1].startswith(_parties(sender)):
                who = "its node " if steps[-1].startswith("Source") else ""
                steps[-1] = f"{steps[-1].removesuffix('.')} and {who}{_sends(entry)}."
            case _:
                steps.append(_opening(entry))
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)]


_WAREHOUSE = "The warehouse"


def _party(name: str) -> str:
    return f"Node {name}" if name else _WAREHOUSE


def _parties(name: str) -> tuple[str, ...]:
    """How a step starts that a party, or the source beside it, has made."""
    return (f"{_party(name)} ", f"Source {name} ") if name else (f"{_WAREHOUSE} ",)


def _party_inside(name: str) -> str:
    return f"node {name}" if name else "the warehouse"


def _opening(entry: Entry) -> str:
    match entry:
        case Executed(source, transaction):
            return f"Source {source} executes {show_transaction(transaction)}."
        case Received(transaction):
            return f"{_WAREHOUSE} receives {transaction.id}."
        case Evaluated(source, label, results):
            return f"Source {source} evaluates {label}: {_answer(label)} = {_relations(results)}."
        case Answered(_, label, results):
            return f"{_WAREHOUSE} receives {_answer(label)} = {_relations(results)}."
        case Waited():
            return f"{_WAREHOUSE} finds that nothing goes on."
        case Sent() | Showed():
            return f"{_WAREHOUSE} {_continued(entry)}."
        case Posted(sender):
            return f"{_party(sender)} {_sends(entry)}."
        case Delivered(sender, receiver, label):
            named = f"the {label}" if label.isalpha() else label
            return f"{_party(receiver)} receives {named} from {_party_inside(sender)}."
        case Consulted(source, queries, results):
            pairs = zip(queries, results, strict=True)
            found = " and ".join(f"{query} = {show_rows(rows)}" for query, rows in pairs)
            return f"{_party(source)} finds {found} {'at its source' if source else 'in copies'}."
        case Roused(source):
            return f"{_party(source)} finds that nothing goes on."


def _sends(entry: Posted) -> str:
    return f"sends {entry.message} to {_party_inside(entry.receiver)}"


def _continued(entry: Sent | Showed) -> str:
    match entry:
        case Sent(source, label, queries, _):
            return f"and sends {label} = {' and '.join(queries)} to source {source}"
        case Showed(view):
            return f"and the view becomes {show_rows(view)}"


def _answer(label: str) -> str:
    return label.replace("Q", "A", 1)


def _relations(results: Iterable[Rows]) -> str:
    return " and ".join(show_rows(rows) for rows in results)
