"""Views as nodes share them: any view by its updategrams, and one join as the rules need it.

The rules are for a view that joins, each relation once; its condition is closed. Of others only
what readers see is shared: contents, and what changed from one vector to another. Columns are
named `relation.column` here, whatever alias the SQL gives a relation, so that views of different
nodes can be compared. `joined` is the paper's join "with the join and selection
conditions of V" of rows of some of its relations, and `finished` what is left to do when all
relations are in: conditions that may fail on a row, and the select list.

A definition is its SQL text and the relations that it reads, as they are published: it travels
with boosters and is read anew where it arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headwater.algebra.evaluate import evaluate_with
from headwater.algebra.expressions import Call, ColumnRef, Expression, can_fail, columns_of
from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Bound, Term
from headwater.algebra.values import text_of
from headwater.algebra.views import Join, Occurrence, View
from headwater.errors import InputError
from headwater.sharing.deduction import Facts
from headwater.sharing.errors import PreconditionError
from headwater.sharing.limits import MOST_SQL_CHARACTERS


@cached_hash
@dataclass(frozen=True)
class SharedView:
    """A view by its name, its SQL and its relations."""

    name: str
    sql: str
    known: tuple[Relation, ...]

    @classmethod
    def parse(
        cls, name: str, sql: str, relations: Mapping[str, Relation] | Iterable[Relation]
    ) -> SharedView:
        """Read a SELECT; InputError says what is wrong with it."""
        given = tuple(relations.values() if isinstance(relations, Mapping) else relations)
        view = parse_view(sql, given, name, total=False)
        found = cls(name, sql.strip(), tuple(sorted(view.relations, key=lambda r: r.name)))
        found.__dict__["view"] = view  # read already
        return found

    # What it is

    @cached_property
    def beyond_rules(self) -> str:
        """Why the rules do not apply to it, which are for a join; empty if they do."""
        if self.view.top is not None:
            return "is more than a join of relations"
        if len(self.view.joins) > 1:
            return "is a UNION ALL"
        names = [occurrence.relation.name for occurrence in self.view.joins[0].occurrences]
        twice = sorted({name for name in names if names.count(name) > 1})
        return f"reads {twice[0]} twice" if twice else ""

    @cached_property
    def view(self) -> View:
        return parse_view(self.sql, self.known, self.name, total=False)

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """By name, in the order of FROM."""
        return {relation.name: relation for relation in self.view.relations}

    @property
    def schema(self) -> Schema:
        return self.view.shown_schema

    @cached_property
    def join(self) -> Join:
        """The view's join with every relation's own name as its alias."""
        if self.beyond_rules:
            raise PreconditionError(
                f"View {self.name} {self.beyond_rules}.",
                "Boosters and the rules are for views that join, each relation once.",
            )
        (join,) = self.view.joins
        names = {
            f"{occurrence.alias}.{column}": f"{occurrence.relation.name}.{column}"
            for occurrence in join.occurrences
            for column in occurrence.relation.schema.names
        }
        return replace(
            join,
            occurrences=tuple(Occurrence(o.relation.name, o.relation) for o in join.occurrences),
            condition=tuple(renamed_columns(c, names) for c in join.condition),
            outputs=tuple(renamed_columns(o, names) for o in join.outputs),
        )

    @cached_property
    def may_fail(self) -> bool:
        """Whether computing it may fail on a row (a division, a cast)."""
        return any(can_fail(part) for part in (*self.join.condition, *self.join.outputs))

    @cached_property
    def facts(self) -> Facts:
        """The condition without parts that may fail on a row, closed under deduction."""
        return Facts(conjunct for conjunct, _ in self.join.safe_conjuncts)

    # Joins of some of its relations

    def require(self, name: str) -> Relation:
        if name not in self.relations:
            raise InputError(
                f"View {self.name} does not read {name}.",
                f"It reads {', '.join(self.relations)}.",
            )
        return self.relations[name]

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """These relations in the order of FROM."""
        wanted = frozenset(self.require(name).name for name in names)
        return tuple(name for name in self.relations if name in wanted)

    def columns(self, names: Iterable[str]) -> Schema:
        """The columns of a join of these relations, each named `relation.column`."""
        return self._join_of(self.ordered(names)).schema

    def condition(self, names: Iterable[str]) -> tuple[Expression, ...]:
        """What the view's condition implies about rows of these relations alone."""
        return self._conditions(self.ordered(names))

    def connects(self, names: Iterable[str], name: str) -> bool:
        """Whether a condition looks at a relation and at one of the others together."""
        there, here = set(self.columns(names).names), set(self.columns((name,)).names)
        return any(
            columns_of(conjunct) & there and columns_of(conjunct) & here
            for conjunct in self.condition((*names, name))
        )

    def between(self, name: str, other: str) -> str | None:
        """A relation that connects two which no condition connects; None if there is none."""
        if name == other or self.connects((name,), other):
            return None
        return next(
            (
                found
                for found in self.relations
                if found not in (name, other)
                and self.connects((name,), found)
                and self.connects((found,), other)
            ),
            None,
        )

    @cached_property
    def _closed(self) -> dict[tuple[str, ...], tuple[Expression, ...]]:
        return {}

    def _conditions(self, names: tuple[str, ...]) -> tuple[Expression, ...]:
        if names not in self._closed:
            self._closed[names] = self.facts.within(self.columns(names).names)
        return self._closed[names]

    def joined(self, parts: Sequence[tuple[tuple[str, ...], Rows]]) -> Rows:
        """Rows of disjoint sets of relations, joined by what the view says about all of them."""
        names = self.ordered(name for part, _ in parts for name in part)
        assert len(names) == sum(len(part) for part, _ in parts), "each relation once"
        join = self._join_of(names, with_condition=True)
        factors = tuple(
            Bound(tuple(names.index(name) for name in part), rows) for part, rows in parts
        )
        return evaluate_with(Term(join, factors), _nothing_is_read)

    def _join_of(self, names: tuple[str, ...], with_condition: bool = False) -> Join:
        """Of some relations, whole; plans ask for the same ones over and over."""
        if (names, with_condition) not in self._joins:
            columns = [self.relations[name].schema.qualified(name).columns for name in names]
            schema = Schema(tuple(column for several in columns for column in several))
            self._joins[names, with_condition] = Join(
                tuple(Occurrence(name, self.relations[name]) for name in names),
                self._conditions(names) if with_condition else (),
                tuple(ColumnRef(column.name, column.type) for column in schema.columns),
                schema,
            )
        return self._joins[names, with_condition]

    @cached_property
    def _joins(self) -> dict[tuple[tuple[str, ...], bool], Join]:
        return {}

    def finished(self, rows: Rows) -> Rows:
        """The view's rows from those of the join of all its relations."""
        places = tuple(range(len(self.relations)))
        return evaluate_with(Term(self.join, (Bound(places, rows),)), _nothing_is_read)

    # As JSON

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sql": self.sql,
            "relations": [relation_to_json(relation) for relation in self.known],
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> SharedView:
        relations = [relation_from_json(item) for item in json["relations"]]
        name, sql = text_of(json["name"]), text_of(json["sql"])
        if len(sql) > MOST_SQL_CHARACTERS:
            raise InputError(
                f"View {name} has {len(sql):,} characters of SQL.",
                f"Views of up to {MOST_SQL_CHARACTERS:,} can be shared.",
            )
        return cls.parse(name, sql, relations)


def relation_to_json(relation: Relation) -> dict[str, Any]:
    return {
        "name": relation.name,
        "source": relation.source,
        "columns": relation.schema.to_json(),
        "key": list(relation.key),
    }


def relation_from_json(json: Mapping[str, Any]) -> Relation:
    key = tuple(map(text_of, json["key"]))
    schema = Schema.from_json(json["columns"])
    return Relation(text_of(json["name"]), text_of(json["source"]), schema, key)


def renamed_columns(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression with other names for its columns."""
    match expression:
        case ColumnRef(name=name, type=kind):
            return ColumnRef(names[name], kind)
        case Call(operator=operator, arguments=arguments, type=kind):
            return Call(operator, tuple(renamed_columns(a, names) for a in arguments), kind)
    return expression


def _nothing_is_read(at: int) -> Rows:
    raise AssertionError("every relation is bound")
