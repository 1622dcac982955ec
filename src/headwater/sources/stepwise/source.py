"""A source that is seen step by step, put together of its states and their journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.terms import Query
from headwater.errors import SourceError, one_of
from headwater.sources.contract import (
    Answers,
    Capture,
    Constant,
    Lift,
    Load,
    Monitor,
    Origin,
    OtherLog,
    Position,
    Reader,
    Reply,
    Retained,
    Source,
    UsedColumns,
    Wrapper,
    as_it_is,
)
from headwater.sources.discovered import DiscoveredTable, RelationSize
from headwater.sources.fetch import Fetch, answer_query
from headwater.sources.stepwise.contract import Described, States, reading
from headwater.sources.stepwise.journal import Journal, Standing
from headwater.sources.stepwise.keep import Keep, Line, NumberSnapshot
from headwater.sources.stepwise.monitor import StepMonitor
from headwater.sources.stepwise.scanning import apart, fetched, pushes, whole
from headwater.storage.location import Location

if TYPE_CHECKING:
    import pyarrow

_ROWS_PER_BATCH = 50_000


class StepwiseSource(Source):
    """A source of a kind that is seen step by step; `place` is where it keeps what it has seen."""

    def __init__(
        self,
        states: States,
        place: Location | None,
        *,
        limits: str = "",
        tagging: str = "",
        look_every_s: float = 0.2,
    ) -> None:
        keep = Keep(states, Journal(states.name, place), Line())

        def halves(columns: UsedColumns) -> tuple[Capture, Answers]:
            names = {name: tuple(wanted) for name, wanted in columns.items()}
            narrow = replace(keep, columns=names)
            capture = StepwiseCapture(narrow, limits, tagging, look_every_s)
            return capture, StepwiseAnswers(narrow)

        super().__init__(states.name, halves)
        self._states = states

    def origins(self) -> Mapping[str, Origin]:
        with reading(self.name):
            return self._states.origins()


@dataclass(frozen=True)
class StepwiseCapture:
    """The journal in the warehouse; nothing is made at the source itself."""

    keep: Keep
    limits: str
    tagging: str
    look_every_s: float

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
        raise SourceError(
            f"Source {self.keep.name} has no logs of other warehouses: each keeps its own.",
            "Delete the folder of the other warehouse.",
        )

    def _lacking(self) -> list[str]:
        known = self.keep.journal.standing()
        kept = known.relations if known is not None else frozenset()
        described = self.keep.states.describe(known)
        if not described.relations and described.unusable:
            raise one_of(described.unusable.values())
        return [name for name in self.keep.narrowed(described.relations) if name not in kept]

    def setup_statements(self) -> Sequence[str]:
        return [
            f"-- nothing is run at the source: 'headwater setup {self.keep.name}' notes {name} "
            "as it is then in the warehouse"
            for name in self._lacking()
        ]

    def setup(self) -> None:
        lacking = self._lacking()
        known = self.keep.journal.standing()
        self.keep.journal.folder.make_folder()
        if known is None:
            begun = self.keep.states.begin(lacking, None)
            self.keep.journal.begin(begun.base.data, begun.notes)
        elif lacking:
            self.keep.journal.change(known, self.keep.states.begin(lacking, known))

    def set_up_again(self) -> None:
        self.teardown()
        self.setup()

    def teardown(self) -> None:
        self.keep.journal.remove()

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        return StepMonitor(self.keep, after, self.look_every_s)


@dataclass(frozen=True)
class StepwiseAnswers:
    """Answers as of the last step that is written down, whatever the source does meanwhile."""

    keep: Keep

    def _described(self) -> Described:
        return self.keep.states.describe(self.keep.journal.standing())

    def relations(self) -> Mapping[str, Relation]:
        described = self._described()
        for name in self.keep.columns:
            if name in described.unusable:
                raise described.unusable[name]
        if not described.relations and described.unusable:
            raise one_of(described.unusable.values())
        return self.keep.narrowed(described.relations)

    def discover(self) -> Sequence[DiscoveredTable]:
        return self.keep.states.discover()

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        return {}

    def problems(self) -> Sequence[SourceError]:
        return list(self._described().unusable.values())

    def unusable(self) -> Mapping[str, SourceError]:
        return self._described().unusable

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        return []

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        known = self.keep.journal.standing()
        found: dict[str, RelationSize] = {}
        for name, relation in self._described().relations.items():
            if known is not None and name in known.relations and name in columns:
                with suppress(SourceError):
                    contents = self.keep.states.contents(known, relation)
                    rows = sum(table.count_rows() if hasattr(table, "count_rows")
                               else table.num_rows for table in contents.plain)  # fmt: skip
                    found[name] = RelationSize(float(rows))
        return found

    def cautions(self) -> Sequence[str]:
        return self.keep.states.cautions(self._described())

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        return StepwiseWrapper(self.keep, lift)

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        return StepwiseLoad(self.keep, relations)

    def identity(self) -> str:
        return self.keep.states.identity()

    def expected_marker(self) -> str | None:
        return None

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        number = int(snapshot)
        log = self.keep.journal.required().log
        return Reply((), NumberSnapshot(number), self.keep.line.marker(log, number, fresh=False))


class StepwiseWrapper:
    """Answers questions as of the last step that is written down."""

    def __init__(self, keep: Keep, lift: Lift) -> None:
        self._keep = keep
        self._lift = lift
        self._relations: Mapping[str, Relation] = {}
        self._described: Standing | None = None

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        with reading(self._keep.name):
            known = self._keep.journal.required()
            results = tuple(
                answer_query(query, lambda f: self._run(known, f), pushes, self._lift, apart)
                for query in queries
            )
        awaited = self._keep.line.marker(known.log, known.at, fresh=not queries)
        return Reply(results, NumberSnapshot(known.at), awaited)

    def close(self) -> None:
        """Nothing is open between questions."""

    def _run(self, known: Standing, fetch: Fetch) -> Rows:
        (item,) = fetch.items
        relation = kept_relation(self._keep, known, item.relation)
        return fetched(self._keep.states.contents(known, relation), fetch)


def kept_relation(keep: Keep, known: Standing, name: str) -> Relation:
    described = keep.states.describe(known)
    if name in described.unusable:
        raise described.unusable[name]
    relation = described.relations.get(name)
    if relation is None or name not in known.relations:
        raise SourceError(
            f"Source {keep.name}: {name} was not set up.", f"Run 'headwater setup {keep.name}'."
        )
    return relation


class StepwiseLoad:
    """Whole relations as of the last step that is written down."""

    def __init__(self, keep: Keep, relations: Sequence[str]) -> None:
        self._keep = keep
        with reading(keep.name):
            self._known = keep.journal.required()
            described = keep.states.describe(self._known)
        self._relations = keep.narrowed(described.relations)
        for name in relations:
            kept_relation(keep, self._known, name)
        self.position: Position = {"log": self._known.log, "at": self._known.at}

    @property
    def snapshot(self) -> NumberSnapshot:
        return NumberSnapshot(self._known.at)

    def parts(self, relation: str) -> int:
        return 1

    def read(self, relation: str, part: int) -> Iterator[pyarrow.RecordBatch]:
        with reading(self._keep.name):
            yield from self._read(relation)

    def _read(self, relation: str) -> Iterator[pyarrow.RecordBatch]:
        from headwater.frames.arrow import arrow_schema
        from headwater.frames.canonical import canonical_table
        from headwater.frames.columns import copies

        wanted = self._relations[relation].without_texts()
        contents = self._keep.states.contents(self._known, wanted)
        schema, names = arrow_schema(wanted.schema), list(wanted.schema.names)
        if contents.signed:
            table = copies(whole(contents, wanted.schema, names))
            yield from table.rename_columns(names).cast(schema).to_batches(_ROWS_PER_BATCH)
            return
        for plain in contents.plain:
            if hasattr(plain, "to_batches") and not hasattr(plain, "num_rows"):
                batches = plain.to_batches(columns=names, batch_size=_ROWS_PER_BATCH)
                found = (canonical_table(batch, wanted.schema) for batch in batches)
            else:
                found = plain.select(names).to_batches(_ROWS_PER_BATCH)
            for batch in found:
                if batch.num_rows:
                    yield batch.cast(schema)

    def remote(self, relation: str, part: int) -> None:
        """What is kept is read here only."""

    def within(self, position: Position | None) -> bool:
        if position is None:
            return self._known.at == 0
        number = position.get("at")
        return (
            position.get("log") == self._known.log
            and isinstance(number, int)
            and number >= self._known.at
        )

    def close(self) -> None:
        """Nothing is open."""
