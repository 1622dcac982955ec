"""What every kind of source provides, in two halves: one captures changes, one answers.

The capturing half sets up a log and opens **monitors**, which report committed transactions,
whole, in one order, exactly once, and can go on from a stored position. The answering half
describes relations, loads them, and opens **wrappers**, which answer queries, each question in one
snapshot that it names. The channel joins both. So one database can be captured in several ways. A
new kind of database, or another way to capture one, implements the protocols here and passes the
conformance suite; nothing else in Headwater knows how it works.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.terms import Query
from headwater.algebra.values import Json
from headwater.errors import SourceError
from headwater.protocol.transactions import Transaction
from headwater.sources.discovered import DiscoveredTable, RelationSize

if TYPE_CHECKING:
    import pyarrow

Lift: TypeAlias = Callable[[Rows], Rows]


def as_it_is(rows: Rows) -> Rows:
    return rows


Position: TypeAlias = dict[str, Json]
"""A place in a source's log, as JSON; only its own kind looks into it."""


@dataclass(frozen=True)
class Committed:
    """A committed transaction, and the position from which the log goes on after it.

    `stamp` is what snapshots know it by. The transaction's id is unique in its source and the
    same when it is read again. Only relations that were asked for are in it; one that
    touches none of them is not reported, unless it is tagged as a part of a global one.

    Where a source cannot tell several transactions apart it reports them as one, and `others`
    has further stamps in it: an answer whose snapshot holds some of them and not others lies
    between the transactions, and is asked again.
    """

    transaction: Transaction
    position: Position
    stamp: int
    others: tuple[int, ...] = ()

    @property
    def stamps(self) -> tuple[int, ...]:
        """What a snapshot must hold together, or not at all."""
        return (*self.others, self.stamp)


@dataclass(frozen=True)
class Broken:
    """Here the log has a gap: what became of some columns is not known from it.

    A TRUNCATE, a rewritten column, a table that was not watched for a while. No view that uses
    one of these columns may pass this place: it is to be loaded anew behind it. All others
    go on.

    `columns` has them by relation (`source.name`), None for a whole relation; `columns` itself
    None is everything of this source. `stamp` is what snapshots know the moment by, None where
    the log does not say; it then lies before every snapshot that is taken after it was read.
    """

    columns: Mapping[str, frozenset[str] | None] | None
    reason: str
    position: Position
    stamp: int | None = None


@dataclass(frozen=True)
class Marked:
    """A marker that a wrapper put into the log has come by: all before it has been read."""

    marker: str


@dataclass(frozen=True)
class Progressed:
    """Nothing of interest happened up to this position; it may be acknowledged."""

    position: Position


Logged: TypeAlias = Committed | Broken | Marked | Progressed


class Snapshot(Protocol):
    """The state that an answer reflects: which transactions are in it."""

    def includes(self, stamp: int) -> bool: ...


@dataclass(frozen=True)
class Reply:
    """An answer: one relation for each query, and the snapshot that all of them reflect.

    With a `marker`, the transactions in the snapshot have all been read once the monitor has
    seen it.
    """

    results: tuple[Rows, ...]
    snapshot: Snapshot
    marker: str | None = None


class Monitor(Protocol):
    """Reads a source's log. Used by one thread, `acknowledge` and `close` by any."""

    def read(self, timeout_s: float) -> Sequence[Logged]:
        """What came next, in order; empty after `timeout_s` without anything.

        Raises LostConnectionError when reading can go on after `open_monitor` at the last
        position, and another SourceError when it cannot.
        """
        ...

    def acknowledge(self, position: Position) -> None:
        """Everything up to here is durable with the caller; the source may forget it."""
        ...

    def close(self) -> None: ...


class Wrapper(Protocol):
    """Answers questions on a connection of its own. Used by one thread."""

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        """Evaluate all queries in one snapshot. Raises as `Monitor.read` does.

        `marker` is one that a monitor elsewhere waits for (see `Answers.expected_marker`).
        """
        ...

    def close(self) -> None: ...


class PartReader(Protocol):
    """Reads one part of a relation; can be sent to another process, where it connects anew."""

    def read(self) -> Iterator[pyarrow.RecordBatch]: ...


class Load(Protocol):
    """Consistent reads of whole relations, all from one snapshot, by several readers."""

    @property
    def snapshot(self) -> Snapshot:
        """The state that is read: which transactions are in it."""
        ...

    @property
    def position(self) -> Position:
        """Where the log goes on after this snapshot."""
        ...

    def parts(self, relation: str) -> int:
        """Into how many parts the relation is cut; each may be read by another thread."""
        ...

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        """One part's rows in canonical form, as batches."""
        ...

    def remote(self, relation: str, part: int) -> PartReader | None:
        """A reader of the same state for other processes; None where only this one can read."""
        ...

    def within(self, position: Position | None) -> bool:
        """Whether a log that was read up to `position` holds all that is in the snapshot.

        None: nothing of it was read, which is all there is where nothing has happened yet.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Reader:
    """Who reads a log, where several might: a later epoch of a name replaces an earlier one."""

    name: str
    epoch: int


@dataclass(frozen=True)
class OtherLog:
    """A log that another warehouse keeps at the same source, used or forgotten."""

    owner: str
    size_bytes: int | None
    """What it takes there, where that is known."""


@dataclass(frozen=True)
class Retained:
    """What a source keeps for this warehouse until it has been read; it grows meanwhile."""

    size_bytes: int | None
    """What it takes there, where that is known."""
    rows: int | None = None
    """How many changed rows, where they are counted."""
    is_read: bool = False
    left_bytes: int | None = None
    """How much more may be written before the source gives it up; None: without a limit."""


class Capture(Protocol):
    """The half of a source that captures changes: its log, and what is set up to fill it."""

    @property
    def limits(self) -> str:
        """What cannot be promised of this source, in a sentence; empty where nothing is limited.

        Where there is something, not every state can be shown.
        """
        ...

    def cautions(self) -> Sequence[str]:
        """What somebody should know who looks after its log, in sentences."""
        ...

    def lacking(self) -> Sequence[SourceError]:
        """What this role may not do that a run needs; empty where nothing is lacking."""
        ...

    def stays(self) -> Sequence[str]:
        """What a teardown would leave at the source, in sentences."""
        ...

    def retained(self) -> Retained | None:
        """How much log the source keeps for us; None where it keeps none."""
        ...

    def other_logs(self) -> Sequence[OtherLog]:
        """The logs of other warehouses here, each of which grows until its owner reads it."""
        ...

    def remove_log(self, owner: str) -> None:
        """Remove the log of a warehouse that is no more."""
        ...

    @property
    def tagging(self) -> str:
        """The statement by which an application says, inside a transaction, that it is a part of a
        global one."""
        ...

    def setup_statements(self) -> Sequence[str]:
        """What `setup` would still run, for a person to read or to run; empty after a setup."""
        ...

    def setup(self) -> None: ...

    def set_up_again(self) -> None:
        """Begin another log in the place of one that cannot be followed any more."""
        ...

    def teardown(self) -> None: ...

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        """Report what was committed after a position; None: from the setup on.

        Without a position it says first where it begins, so that a log which takes the place of
        this one is known for another, although nothing has happened in either.

        Where a source has one reader at a time, an earlier epoch of this reader, which may hang
        on, is ended; any other is left alone.
        """
        ...


@dataclass(frozen=True)
class Constant:
    """A text that a view compares with a column of a relation, which has its name in its source."""

    relation: str
    column: str
    text: str


UsedColumns: TypeAlias = Mapping[str, Collection[str]]
"""For relations, by the names that they have in their source, the columns that are needed."""


class Answers(Protocol):
    """The half of a source that describes its relations, answers questions, and loads."""

    def relations(self) -> Mapping[str, Relation]:
        """The relations of interest as the database describes them; SourceError in words.

        By the name that they have in this source; `Relation.name` is `source.name`, and so
        are the names in transactions. One that cannot be used is left out, unless none can, or
        somebody relies on it: then it is an error.
        """
        ...

    def discover(self) -> Sequence[DiscoveredTable]:
        """Everything that there is, whether it is of interest or not."""
        ...

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        """The text that each of some constants has here, as a value of its column.

        None for what is no value of the column; one of which that is not known is left out.
        """
        ...

    def problems(self) -> Sequence[SourceError]:
        """Why relations of interest cannot be used; all that there is, not the first."""
        ...

    def unusable(self) -> Mapping[str, SourceError]:
        """The same by relation, named as in `relations`, as it was when these were last asked."""
        ...

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        """The CREATE INDEX statements that would let probes find their rows.

        A probe looks a relation up, which is named as in `relations`, by values of some of its
        columns. It is served by any index that starts with one of them.
        """
        ...

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        """About how large relations are, and how many values these columns of them have.

        Of what is not known soon nothing is told.
        """
        ...

    def cautions(self) -> Sequence[str]:
        """What somebody should know of what can be read, in sentences."""
        ...

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        """A wrapper; `lift` may move what was read to another engine before it is joined."""
        ...

    def open_load(self, relations: Sequence[str], readers: int) -> Load: ...

    def identity(self) -> str:
        """What tells this database from others, for who asks it from elsewhere."""
        ...

    def expected_marker(self) -> str | None:
        """A marker for a wrapper in another process, of which monitors here know; None where they
        need not."""
        ...

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        """The reply of a wrapper in another process, without its rows: `snapshot` is the text of
        its snapshot."""
        ...


@dataclass(frozen=True)
class Origin:
    """What a relation is made from that is a view of another warehouse."""

    view: str
    databases: frozenset[str]
    """By the names that they have there."""
    level: str


class Source:
    """One database. Holds settings only; connections are opened by the methods of its halves.

    `halves` makes both for the columns that are needed of some relations; of relations that are
    not named all columns are.
    """

    def __init__(self, name: str, halves: Callable[[UsedColumns], tuple[Capture, Answers]]) -> None:
        self.name = name
        self._halves = halves
        self._capture, self._answers = halves({})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def narrowed(self, columns: UsedColumns) -> Self:
        """The same source with these relations only, of which no other columns are needed."""
        narrow = copy(self)
        narrow._capture, narrow._answers = self._halves(columns)
        return narrow

    def cautions(self) -> Sequence[str]:
        return [*self._answers.cautions(), *self._capture.cautions()]

    def origins(self) -> Mapping[str, Origin]:
        """The relations that are views themselves, by their names at the source."""
        return {}

    # What the capture does

    @property
    def limits(self) -> str:
        return self._capture.limits

    @property
    def tagging(self) -> str:
        return self._capture.tagging

    def lacking(self) -> Sequence[SourceError]:
        return self._capture.lacking()

    def stays(self) -> Sequence[str]:
        return self._capture.stays()

    def retained(self) -> Retained | None:
        return self._capture.retained()

    def other_logs(self) -> Sequence[OtherLog]:
        return self._capture.other_logs()

    def remove_log(self, owner: str) -> None:
        self._capture.remove_log(owner)

    def setup_statements(self) -> Sequence[str]:
        return self._capture.setup_statements()

    def setup(self) -> None:
        self._capture.setup()

    def set_up_again(self) -> None:
        self._capture.set_up_again()

    def teardown(self) -> None:
        self._capture.teardown()

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        return self._capture.open_monitor(after, reader)

    # What is answered

    def relations(self) -> Mapping[str, Relation]:
        return self._answers.relations()

    def discover(self) -> Sequence[DiscoveredTable]:
        return self._answers.discover()

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        return self._answers.printed(constants)

    def problems(self) -> Sequence[SourceError]:
        return self._answers.problems()

    def unusable(self) -> Mapping[str, SourceError]:
        return self._answers.unusable()

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        return self._answers.missing_indexes(probes)

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        return self._answers.sizes(columns)

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        return self._answers.open_wrapper(lift)

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        return self._answers.open_load(relations, readers)

    def identity(self) -> str:
        return self._answers.identity()

    def expected_marker(self) -> str | None:
        return self._answers.expected_marker()

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        return self._answers.replied_elsewhere(snapshot, marker)
