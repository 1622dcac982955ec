"""Scenarios: relations at sources, a view, and transactions, validated from JSON.

In place of `view` there may be a `group`: views by their names, which are maintained together and
judged together, as one view whose rows say of which of them they are.

Besides these a scenario may carry a name, a sentence `about` it, and a run to replay
(`algorithm`, `set`, `schedule`, and what to `expect` of it). Every mistake is one sentence
that starts with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headwater.algebra.groups import together
from headwater.algebra.rows import Rows, show_row
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_group, parse_view
from headwater.algebra.values import Json, Row, from_json, parse_type
from headwater.algebra.views import View
from headwater.check.history import History
from headwater.errors import ScenarioError, SqlError
from headwater.protocol.transactions import Transaction, Update

Object = dict[str, Json]


@dataclass(frozen=True, eq=False)
class Scenario:
    """A validated scenario; `data` is the JSON object that it was read from."""

    name: str
    relations: Mapping[str, Relation]
    initial: Mapping[str, Rows]
    view: View
    transactions: tuple[Transaction, ...]
    data: Object = field(repr=False)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(relation.source for relation in self.relations.values()))

    @property
    def keeps_keys(self) -> bool:
        """Whether keys that the view lacks may be kept out of sight."""
        return self.data.get("keep_keys") is True

    @property
    def keeps_copies(self) -> frozenset[str]:
        """The relations of which copies are kept, whatever the algorithm."""
        found = self.data.get("keep_copies", [])
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    @cached_property
    def history(self) -> History:
        """What happens at each source, in the order in which it happens there."""
        parts = {
            source: tuple(
                _part(transaction, source, self.relations)
                for transaction in self.transactions
                if source in transaction.spans
            )
            for source in self.sources
        }
        return History(self.view, self.initial, self.sources, parts)


def _part(whole: Transaction, source: str, relations: Mapping[str, Relation]) -> Transaction:
    updates = tuple(u for u in whole.updates if relations[u.relation].source == source)
    return Transaction(whole.id, updates, (source,), whole.spans)


_MEMBERS = {
    "": {
        "relations",
        "view",
        "group",
        "transactions",
        "keep_keys",
        "keep_copies",
        "name",
        "about",
        "algorithm",
        "set",
        "schedule",
        "expect",
    },
    "relation": {"source", "columns", "key", "rows"},
    "transaction": {"id", "updates"},
    "update": {"relation", "insert", "delete", "update"},
}


def scenario_from_json(data: Object, where: str = "scenario") -> Scenario:
    """Validate a scenario; ScenarioError says where and what is wrong."""
    reader = _Reader(where)
    reader.refuse_unknown(data, "", "the scenario")
    described = reader.object(data, "relations", "the scenario")
    relations = {name: reader.relation(name, value) for name, value in described.items()}
    if not relations:
        raise reader.wrong("relations", "there is none", "Describe at least one relation.")
    initial = {
        name: reader.initial_rows(relation, described[name]) for name, relation in relations.items()
    }
    view = reader.view(data, relations)
    if not isinstance(data.get("keep_keys", False), bool):
        raise reader.wrong("keep_keys", "must be true or false")
    reader.copies(data, view)
    transactions = _Replay(reader, relations, dict(initial)).transactions(
        reader.list(data, "transactions", "the scenario")
    )
    return Scenario(str(data.get("name", where)), relations, initial, view, transactions, data)


def kind_of(value: Json) -> str:
    """A JSON value's kind in words."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text"}
    kinds |= {list: "a list", dict: "an object", type(None): "null"}
    return kinds[type(value)]


@dataclass(frozen=True)
class _Reader:
    """Takes members out of JSON objects and words the errors."""

    where: str

    def wrong(self, place: str, message: str, hint: str = "") -> ScenarioError:
        return ScenarioError(f"{self.where}: {place}: {message}.", hint)

    def copies(self, data: Object, view: View) -> None:
        """Refuse copies of what the view does not read."""
        found = data.get("keep_copies", [])
        known = [relation.name for relation in view.relations]
        if not isinstance(found, list):
            raise self.wrong("keep_copies", f"must be a list of relations, is {kind_of(found)}")
        for name in found:
            if name not in known:
                hint = f"The view reads {', '.join(known)}."
                raise self.wrong("keep_copies", f"the view does not read {name}", hint)

    def refuse_unknown(self, data: Object, kind: str, place: str) -> None:
        for key in data:
            if key not in _MEMBERS[kind]:
                known = ", ".join(sorted(_MEMBERS[kind]))
                raise self.wrong(place, f"has an unknown member '{key}'", f"There are: {known}.")

    def member(self, data: Object, key: str, place: str) -> Json:
        if key not in data:
            raise self.wrong(place, f"'{key}' is missing", f"Add '{key}'.")
        return data[key]

    def object(self, data: Object, key: str, place: str) -> Object:
        value = self.member(data, key, place)
        if not isinstance(value, dict):
            raise self.wrong(place, f"'{key}' must be an object, not {kind_of(value)}")
        return value

    def list(self, data: Object, key: str, place: str) -> list[Json]:
        value = self.member(data, key, place)
        if not isinstance(value, list):
            raise self.wrong(place, f"'{key}' must be a list, not {kind_of(value)}")
        return value

    def text(self, data: Object, key: str, place: str) -> str:
        value = self.member(data, key, place)
        if not isinstance(value, str):
            raise self.wrong(place, f"'{key}' must be a text, not {kind_of(value)}")
        if not value.strip():
            raise self.wrong(place, f"'{key}' is empty")
        return value

    def as_object(self, value: Json, place: str) -> Object:
        if not isinstance(value, dict):
            raise self.wrong(place, f"must be an object, not {kind_of(value)}")
        return value

    def relation(self, name: str, value: Json) -> Relation:
        place = f"relations.{name}"
        data = self.as_object(value, place)
        self.refuse_unknown(data, "relation", place)
        source = self.text(data, "source", place)
        columns = self.object(data, "columns", place)
        if not columns:
            raise self.wrong(place, "has no columns", 'Write for example {"A": "int"}.')
        try:
            schema = Schema.of((column, parse_type(str(kind))) for column, kind in columns.items())
        except ValueError as error:
            raise self.wrong(f"{place}.columns", str(error)) from None
        key = data.get("key", [])
        if not isinstance(key, list) or not all(isinstance(column, str) for column in key):
            raise self.wrong(f"{place}.key", "must be a list of column names")
        names = tuple(str(column) for column in key)
        for column in names:
            if column not in schema.positions:
                known = ", ".join(schema.names)
                raise self.wrong(f"{place}.key", f"no column '{column}'", f"There are: {known}.")
        return Relation(name, source, schema, names)

    def initial_rows(self, relation: Relation, value: Json) -> Rows:
        rows = Rows.empty(relation.schema)
        place = f"relations.{relation.name}"
        data = self.as_object(value, place)
        listed = self.list(data, "rows", place) if "rows" in data else []
        for at, values in enumerate(listed):
            here = f"{place}.rows[{at}]"
            row = self.row(relation, values, here)
            self.check_key(relation, rows, row, here)
            rows = rows + Rows(relation.schema, {row: 1})
        return rows

    def row(self, relation: Relation, values: Json, place: str) -> Row:
        if not isinstance(values, list):
            raise self.wrong(place, f"a row is a list of values, not {kind_of(values)}")
        columns = relation.schema.columns
        if len(values) != len(columns):
            names = ", ".join(relation.schema.names)
            raise self.wrong(
                place,
                f"a row of {relation.name} has {len(columns)} values ({names}), not {len(values)}",
            )
        row = []
        for value, column in zip(values, columns, strict=True):
            try:
                row.append(from_json(value, column.type))
            except ValueError as error:
                raise self.wrong(place, f"column {column.name}: {error}") from None
        return tuple(row)

    def check_key(self, relation: Relation, rows: Rows, row: Row, place: str) -> None:
        """A key is not NULL, and no row of `rows` has it already."""
        if not relation.key:
            return
        key = relation.key_of(row)
        if None in key:
            raise self.wrong(place, f"the key of {relation.name} is NULL in {show_row(row)}")
        if any(relation.key_of(other) == key for other in rows):
            raise self.wrong(
                place,
                f"{relation.name} already has a row with the key {show_row(key)}",
                "Delete that row first, or give the relation no key.",
            )

    def view(self, data: Object, relations: Mapping[str, Relation]) -> View:
        if "group" in data:
            return self.group(data, relations)
        try:
            sql = self.text(data, "view", "the scenario")
            view = parse_view(sql, relations)
        except SqlError as error:
            raise ScenarioError(f"{self.where}: view: {error.message}", error.hint) from None
        return self._without_spark(view)

    def group(self, data: Object, relations: Mapping[str, Relation]) -> View:
        if "view" in data:
            raise self.wrong("the scenario", "has a view and a group", "Leave one of them out.")
        selects = self.object(data, "group", "the scenario")
        if not selects:
            raise self.wrong("group", "there is none", "Name at least one view.")
        known = tuple(relations.values())
        for name in selects:
            sql = self.text(selects, name, "group")
            try:
                parse_view(sql, known)
            except SqlError as error:
                place = f"{self.where}: group.{name}"
                raise ScenarioError(f"{place}: {error.message}", error.hint) from None
        members = [(name, str(sql), known) for name, sql in selects.items()]
        return self._without_spark(together(parse_group(members, "view")))

    def _without_spark(self, view: View) -> View:
        if view.left_to_spark:
            names = ", ".join(name.upper() for name in view.left_to_spark)
            raise self.wrong(
                "view", f"only Spark computes {names}", "The lab has no Spark: leave it out."
            )
        return view


@dataclass
class _Replay:
    """Reads transactions while keeping the relations' contents, to validate each update."""

    reader: _Reader
    relations: Mapping[str, Relation]
    contents: dict[str, Rows]

    def transactions(self, listed: list[Json]) -> tuple[Transaction, ...]:
        found: dict[str, Transaction] = {}
        for at, value in enumerate(listed):
            transaction = self._transaction(value, f"transactions[{at}]")
            if transaction.id in found:
                raise self.reader.wrong(
                    f"transactions[{at}]",
                    f"the id '{transaction.id}' occurs twice",
                    "Give every transaction an id of its own.",
                )
            found[transaction.id] = transaction
        return tuple(found.values())

    def _transaction(self, value: Json, place: str) -> Transaction:
        data = self.reader.as_object(value, place)
        self.reader.refuse_unknown(data, "transaction", place)
        name = self.reader.text(data, "id", place)
        place = f"{place} ({name})"
        listed = self.reader.list(data, "updates", place)
        if not listed:
            raise self.reader.wrong(place, "has no updates", "Leave the transaction out.")
        updates = tuple(
            self._update(update, f"{place}.updates[{at}]") for at, update in enumerate(listed)
        )
        spans = tuple(dict.fromkeys(self.relations[u.relation].source for u in updates))
        return Transaction(name, updates, spans, spans)

    def _update(self, value: Json, place: str) -> Update:
        data = self.reader.as_object(value, place)
        self.reader.refuse_unknown(data, "update", place)
        name = self.reader.text(data, "relation", place)
        relation = self.relations.get(name)
        if relation is None:
            known = ", ".join(self.relations)
            raise self.reader.wrong(place, f"no relation '{name}'", f"There are: {known}.")
        removed, added = self._change(relation, data, place)
        before = self.contents[name]
        for row in removed:
            if before.count(row) < 1:
                raise self.reader.wrong(
                    place,
                    f"{name} has no row {show_row(row)} to delete at this point",
                    f"It has {self.contents[name]!r}.",
                )
            before = before - Rows(relation.schema, {row: 1})
        for row in added:
            self.reader.check_key(relation, before, row, place)
            before = before + Rows(relation.schema, {row: 1})
        delta = before - self.contents[name]
        self.contents[name] = before
        return Update(name, delta)

    def _change(self, relation: Relation, data: Object, place: str) -> tuple[list[Row], list[Row]]:
        kinds = [kind for kind in ("insert", "delete", "update") if kind in data]
        if len(kinds) != 1:
            raise self.reader.wrong(place, "needs exactly one of insert, delete and update")
        value = data[kinds[0]]
        if kinds[0] == "insert":
            return [], [self.reader.row(relation, value, place)]
        if kinds[0] == "delete":
            return [self.reader.row(relation, value, place)], []
        if not isinstance(value, list) or len(value) != 2:
            raise self.reader.wrong(place, "an update is a list of the old row and the new row")
        old, new = (self.reader.row(relation, row, place) for row in value)
        return [old], [new]
