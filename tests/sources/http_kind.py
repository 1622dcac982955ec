"""A kind of source of one's own, as docs/sources/own.md tells it: an HTTP service with versions.

The service has tables. Each of its versions is one transaction, and the rows of a version can be
asked for as long as the service keeps it:

    GET /state                        {"service": "...", "version": 7, "tables": {...}}
    GET /rows?table=items&version=7   [[1, "a"], ...]
    GET /changes?after=5              [{"version": 6, "changes": {"items": [[-1, [1, "a"]], ...]}}]

So a version is a position, a stamp and a snapshot at once; nothing is set up there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pyarrow
from pydantic import Field

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.terms import Query
from headwater.algebra.values import Row, from_json
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.frames.arrow import COUNT, to_arrow
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import (
    Answers,
    Capture,
    Committed,
    Constant,
    Lift,
    Load,
    Logged,
    Marked,
    Monitor,
    OtherLog,
    Position,
    Progressed,
    Reader,
    Reply,
    Retained,
    Source,
    UsedColumns,
    Wrapper,
    as_it_is,
)
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable, RelationSize
from headwater.sources.fetch import Fetch, answer_query
from headwater.sources.settings import SourceSettings
from headwater.sources.stepwise.keep import Line, NumberSnapshot


class HttpSettings(SourceSettings):
    """What `headwater.toml` has of it; the entry point leads here."""

    kind: Annotated[Literal["http-tables"], Field(description="The kind of database.")]
    url: Annotated[str, Field(description="Where the service is.")]

    def excess(self, kept: Retained) -> str:
        return ""

    def position_text(self, position: Position) -> str:
        return f"version {position.get('version')}"

    def written(self, within: str, name: str) -> str:
        return str(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.listed)

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        return HttpSource(name, self.url, self.listed)


@dataclass(frozen=True)
class Service:
    """What is asked of the service, and what its answers are here."""

    source: str
    url: str
    names: tuple[str, ...]
    columns: UsedColumns = field(default_factory=dict)
    known: dict[str, Schema] = field(default_factory=dict)
    """The columns of whole tables, as they were described last."""

    def get(self, path: str, **parameters: object) -> Any:
        try:
            with urlopen(f"{self.url}{path}?{urlencode(parameters)}", timeout=30) as reply:
                return json.load(reply)
        except (URLError, OSError, ValueError) as error:
            raise LostConnectionError(
                f"Source {self.source}: {self.url} does not answer: {error}.",
                "See whether the service runs.",
            ) from None

    def relations(self) -> dict[str, Relation]:
        tables = self.get("/state")["tables"]
        if missing := [name for name in self.names if name not in tables]:
            raise SourceError(
                f"Source {self.source}: the service has no table {missing[0]}.",
                f"There are: {', '.join(tables)}.",
            )
        found = {}
        for name in self.columns or self.names:
            schema, key = Schema.from_json(tables[name]["columns"]), tuple(tables[name]["key"])
            self.known[name] = schema
            relation = Relation(f"{self.source}.{name}", self.source, schema, key)
            wanted = {*self.columns.get(name, schema.names), *key}
            found[name] = relation.only([c for c in schema.names if c in wanted])
        return found

    def rows(self, relation: Relation, version: int) -> Rows:
        listed = self.get("/rows", table=relation.short_name, version=version)
        return self.signed(relation, [[1, row] for row in listed])

    def signed(self, relation: Relation, listed: Sequence[Any]) -> Rows:
        whole = self.known[relation.short_name]
        counts: dict[Row, int] = {}
        for count, values in listed:
            row = tuple(from_json(v, kind) for v, kind in zip(values, whole.types, strict=True))
            counts[row] = counts.get(row, 0) + count
        return Rows(whole, {row: count for row, count in counts.items() if count}).only(
            relation.schema
        )


class HttpSource(Source):
    """Both halves, for the columns that are needed."""

    def __init__(self, name: str, url: str, relations: Sequence[str]) -> None:
        line, begun = Line(), Begun()

        def halves(columns: UsedColumns) -> tuple[Capture, Answers]:
            service = Service(name, url.rstrip("/"), tuple(relations), columns)
            return HttpCapture(service, line, begun), HttpAnswers(service, line)

        super().__init__(name, halves)


@dataclass
class Begun:
    """From which version on it is read where there is no position: from the setup on. A process
    that was not there then begins where the service is; its loads come later."""

    version: int | None = None


@dataclass(frozen=True)
class HttpCapture:
    """The service keeps its versions itself, so there is nothing to make and nothing to prune."""

    service: Service
    line: Line
    begun: Begun
    limits: str = ""
    tagging: str = ""

    def cautions(self) -> Sequence[str]:
        return ()

    def lacking(self) -> Sequence[SourceError]:
        return ()

    def stays(self) -> Sequence[str]:
        return ()

    def retained(self) -> Retained | None:
        return None

    def other_logs(self) -> Sequence[OtherLog]:
        return ()

    def remove_log(self, owner: str) -> None:
        """Nobody has one."""

    def setup_statements(self) -> Sequence[str]:
        self.service.relations()  # says what is wrong
        return []

    def setup(self) -> None:
        self.setup_statements()
        self.begun.version = self.service.get("/state")["version"]

    def set_up_again(self) -> None:
        self.setup()

    def teardown(self) -> None:
        """Nothing was made."""

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        return HttpMonitor(self.service, self.line, after, self.begun.version)


def _version(position: Position) -> int:
    version = position["version"]
    assert isinstance(version, int)
    return version


class HttpMonitor:
    """Reports versions, each as a transaction."""

    def __init__(
        self, service: Service, line: Line, after: Position | None, begun: int | None
    ) -> None:
        self._service, self._line = service, line
        self._relations = service.relations()
        state = service.get("/state")
        self._id = state["service"]
        first: int = state["version"] if begun is None else begun
        self._at = first if after is None else _version(after)
        self._is_new = after is None
        self._closed = False
        if after is not None and (after["service"] != self._id or self._at > state["version"]):
            raise BrokenLogError(service.source, "the service was begun anew.")

    def read(self, timeout_s: float) -> Sequence[Logged]:
        until = time.monotonic() + timeout_s
        self._line.handed_on(self._id, self._at)  # what was returned last has arrived
        while not self._closed:
            look = self._line.look_begun()
            logged = self._next()
            is_end = not logged
            logged += [Marked(m) for m in self._line.passed(self._at, look if is_end else 0)]
            if logged or time.monotonic() >= until:
                return logged
            with self._line.changed:
                self._line.changed.wait(0.01)
        return []

    def _next(self) -> list[Logged]:
        logged: list[Logged] = []
        if self._is_new:
            self._is_new = False
            logged.append(Progressed(self._position))
        for found in self._service.get("/changes", after=self._at):
            self._at = found["version"]
            updates = tuple(
                Update(relation.name, delta)
                for name, relation in self._relations.items()
                if (delta := self._service.signed(relation, found["changes"].get(name, ())))
            )
            name = self._service.source
            transaction = Transaction(f"v{self._at}", updates, (name,), (name,))
            logged.append(
                Committed(transaction, self._position, self._at)
                if updates
                else Progressed(self._position)
            )
        return logged

    @property
    def _position(self) -> Position:
        return {"service": self._id, "version": self._at}

    def acknowledge(self, position: Position) -> None:
        """The service forgets by itself."""

    def close(self) -> None:
        self._closed = True
        self._line.closed()


@dataclass(frozen=True)
class HttpAnswers:
    """Answers as of the version that the service has when it is asked."""

    service: Service
    line: Line

    def relations(self) -> Mapping[str, Relation]:
        return self.service.relations()

    def discover(self) -> Sequence[DiscoveredTable]:
        return [
            DiscoveredTable(name, tuple(DiscoveredColumn(n, t, t) for n, t in table["columns"]))
            for name, table in self.service.get("/state")["tables"].items()
        ]

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        return {}

    def problems(self) -> Sequence[SourceError]:
        try:
            self.service.relations()
        except SourceError as error:
            return [error]
        return []

    def unusable(self) -> Mapping[str, SourceError]:
        return {}

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        return []

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        return {}

    def cautions(self) -> Sequence[str]:
        return ()

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        return HttpWrapper(self.service, self.line, lift)

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        return HttpLoad(self.service)

    def identity(self) -> str:
        return f"the service {self.service.get('/state')['service']}"

    def expected_marker(self) -> str | None:
        return None

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        number, id_ = int(snapshot), self.service.get("/state")["service"]
        return Reply((), NumberSnapshot(number), self.line.marker(id_, number, fresh=False))


@dataclass(frozen=True)
class HttpWrapper:
    """Reads whole tables of one version; Headwater does the rest."""

    service: Service
    line: Line
    lift: Lift

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        state = self.service.get("/state")
        version, relations = state["version"], self.service.relations()

        def run(fetch: Fetch) -> Rows:
            (item,) = fetch.items
            names = [ref.column for ref in fetch.columns]
            rows = self.service.rows(relations[item.relation], version)
            return rows.only(rows.schema.only(names)).renamed(fetch.schema)

        pushes = partial(_pushes_nothing)
        results = tuple(answer_query(query, run, pushes, self.lift) for query in queries)
        # The marker comes by when the monitor has read all that the answer reflects.
        awaited = self.line.marker(state["service"], version, fresh=not queries)
        return Reply(results, NumberSnapshot(version), awaited)

    def close(self) -> None:
        """Nothing is open."""


def _pushes_nothing(operator: str, kind: object) -> bool:
    return False


class HttpLoad:
    """Whole tables of one version."""

    def __init__(self, service: Service) -> None:
        self._service = service
        state = service.get("/state")
        self._version: int = state["version"]
        self.position: Position = {"service": state["service"], "version": self._version}
        self.snapshot = NumberSnapshot(self._version)

    def parts(self, relation: str) -> int:
        return 1

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        rows = self._service.rows(self._service.relations()[relation], self._version)
        table = to_arrow(Rows(rows.schema, dict(rows.items())))
        counts = table.column(COUNT).to_pylist()
        places = [at for at, count in enumerate(counts) for _ in range(count)]
        yield from table.drop_columns([COUNT]).take(places).to_batches()

    def remote(self, relation: str, part: int) -> None:
        """It is read here."""

    def within(self, position: Position | None) -> bool:
        if position is None:
            return self._version == 0
        is_same = position["service"] == self.position["service"]
        return is_same and _version(position) >= self._version

    def close(self) -> None:
        """Nothing is open."""
