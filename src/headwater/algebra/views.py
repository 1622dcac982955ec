"""Views: sums of joins, each a projection of a selection of a product of relations, and a top.

`Join` is the papers' `proj(cond(r1 x ... x rn))` (ECA section 4, Strobe section 5.1); a view
is a sum of joins (Rings section 2). Inside a join every occurrence of a relation has an
alias of its own, and columns are named `alias.column`.

A view beyond joins has a *top* (`tops`): the sum of joins is what is stored for it, and what it
shows is a function of that. Algorithms maintain what is stored and never look at the top.

A *group* is one view with several tops, one for each of its members: what is stored for all of
them is one sum of joins, so that they move together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from headwater.algebra.compact import Compact, compacted
from headwater.algebra.copies import CopyParts, copy_parts
from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, can_fail, columns_of
from headwater.algebra.hashing import cached_hash
from headwater.algebra.left_to_spark import left_to_spark
from headwater.algebra.relevance import condition_on
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.tops import (
    PART,
    Part,
    Project,
    Select,
    Top,
    UnionAll,
    evaluate_top,
    inputs_of,
    with_inputs,
)
from headwater.algebra.values import INT, TEXT
from headwater.errors import ExpressionError

FAILING = Rows.of(Schema.of([("error", TEXT)]), [("an error",)])
"""Stands for the state of a view in which it cannot be shown; readers keep the last before it."""


@dataclass(frozen=True)
class Occurrence:
    """One use of a relation in a join."""

    alias: str
    relation: Relation

    @cached_property
    def schema(self) -> Schema:
        return self.relation.schema.qualified(self.alias)

    @cached_property
    def key_columns(self) -> frozenset[str]:
        return frozenset(f"{self.alias}.{column}" for column in self.relation.key)


@cached_hash
@dataclass(frozen=True)
class Join:
    """`proj(cond(r1 x ... x rn))`; the condition is a conjunction, kept in parts."""

    occurrences: tuple[Occurrence, ...]
    condition: tuple[Expression, ...]
    outputs: tuple[Expression, ...]
    schema: Schema

    def __post_init__(self) -> None:
        assert len(self.outputs) == len(self.schema)

    @cached_property
    def owner(self) -> dict[str, int]:
        """The occurrence to which each qualified column belongs."""
        return {name: at for at, occ in enumerate(self.occurrences) for name in occ.schema.names}

    @cached_property
    def column_order(self) -> dict[str, int]:
        """The place of each qualified column among all columns of the join."""
        return {name: at for at, name in enumerate(self.owner)}

    def reach(self, expression: Expression) -> frozenset[int]:
        """The occurrences that an expression looks at."""
        return frozenset(self.owner[name] for name in columns_of(expression))

    @cached_property
    def safe_conjuncts(self) -> tuple[tuple[Expression, frozenset[int]], ...]:
        """The parts of the condition that cannot fail, with the occurrences they look at."""
        return tuple((c, self.reach(c)) for c in self.condition if not can_fail(c))

    @cached_property
    def late_conjuncts(self) -> tuple[Expression, ...]:
        """The parts that may fail on a row; decided last, when every other part holds."""
        return tuple(c for c in self.condition if can_fail(c))

    def output_positions(self, at: int, columns: tuple[str, ...]) -> tuple[int, ...] | None:
        """Where the output shows these columns of an occurrence as they are, or None."""
        found = []
        for column in columns:
            wanted = f"{self.occurrences[at].alias}.{column}"
            shown = [
                position
                for position, output in enumerate(self.outputs)
                if isinstance(output, ColumnRef) and self.same_column(output.name, wanted)
            ]
            if not shown:
                return None
            found.append(shown[0])
        return tuple(found)

    @cached_property
    def number(self) -> int | None:
        """Which part of its view it is; None where nothing tells parts apart."""
        at = self.schema.positions.get(PART)
        match self.outputs[at] if at is not None else None:
            case Literal(value=int(number)):
                return number
        return None

    def key_positions(self, relation: str) -> tuple[int, ...] | None:
        """Where it shows the key of a relation, or None if it does not.

        Only of one that occurs once: otherwise one key value does not identify the rows that were
        derived from a base row.
        """
        places = [at for at, o in enumerate(self.occurrences) if o.relation.name == relation]
        if len(places) != 1 or not self.occurrences[places[0]].relation.key:
            return None
        return self.output_positions(places[0], self.occurrences[places[0]].relation.key)

    @cached_property
    def keyless(self) -> tuple[Relation, ...]:
        """The relations whose key it does not show, each once."""
        found = dict.fromkeys(occurrence.relation for occurrence in self.occurrences)
        return tuple(r for r in found if self.key_positions(r.name) is None)

    @property
    def missing_keys(self) -> tuple[ColumnRef, ...]:
        """The key columns that it does not show, of those that it makes equal the first."""
        found: list[ColumnRef] = []
        for at, occurrence in enumerate(self.occurrences):
            for column in occurrence.relation.schema.only(occurrence.relation.key).columns:
                ref = ColumnRef(f"{occurrence.alias}.{column.name}", column.type)
                is_found = any(self.same_column(other.name, ref.name) for other in found)
                if not is_found and self.output_positions(at, (column.name,)) is None:
                    found.append(ref)
        return tuple(found)

    def identifies(self, positions: Iterable[int]) -> bool:
        """Whether these outputs, all columns as they are, determine the row of each occurrence.

        A column determines those equal to it, and the key of an occurrence all its columns.
        """
        outputs = [self.outputs[at] for at in positions]
        known = {o.name for o in outputs if isinstance(o, ColumnRef)}
        left = list(self.occurrences)
        while True:
            known |= {b for a in known for b in self._equal_columns.get(a, ())}
            keyed = [o for o in left if o.relation.key and known >= o.key_columns]
            if not keyed:
                return not left
            left = [occurrence for occurrence in left if occurrence not in keyed]
            known |= {name for occurrence in keyed for name in occurrence.schema.names}

    def key_from(self, at: int, known: Collection[str]) -> tuple[str, ...] | None:
        """The known columns that equal the whole key of an occurrence, or None."""
        occurrence = self.occurrences[at]
        found = []
        for column in occurrence.relation.key:
            wanted = f"{occurrence.alias}.{column}"
            equal = [name for name in known if name != wanted and self.same_column(name, wanted)]
            if not equal:
                return None
            found.append(min(equal))
        return tuple(found) or None

    def same_column(self, a: str, b: str) -> bool:
        """Whether the condition makes two columns equal in every row of the view."""
        return b in self._equal_columns.get(a, frozenset({a}))

    @cached_property
    def _equal_columns(self) -> dict[str, frozenset[str]]:
        classes: dict[str, frozenset[str]] = {}
        for conjunct in self.condition:
            if pair := equated_columns(conjunct):
                a, b = pair
                merged = classes.get(a, frozenset({a})) | classes.get(b, frozenset({b}))
                classes.update(dict.fromkeys(merged, merged))
        return classes


def equated_columns(conjunct: Expression) -> tuple[str, str] | None:
    """The two columns of a conjunct `a = b` between columns of one type, or None."""
    match conjunct:
        case Call("=", (ColumnRef(a, kind), ColumnRef(b, other))) if kind == other:
            return a, b
    return None


@dataclass(frozen=True)
class Member:
    """A view of a group: what it shows of the rows that are stored for all of them."""

    name: str
    sql: str
    relations: tuple[str, ...]
    """The names of the relations that its SELECT reads."""
    top: Top


@dataclass(frozen=True)
class View:
    """A named sum of joins with one schema, and what is shown of it."""

    name: str
    joins: tuple[Join, ...]
    schema: Schema
    """The columns of the sum: what managers maintain."""
    sql: str = ""
    top: Top | None = None
    """What is shown, as a function of what is stored; None if that is the same."""
    members: tuple[Member, ...] = ()
    """The views of a group, which has no top of its own; none if it is no group."""
    kept: str = ""
    """What is stored for an algorithm that looks rows up by key: `rows` where they would be
    condensed otherwise, `keys` where hidden ones stand behind them."""
    copies: tuple[str, ...] = ()
    """The relations of which copies are stored beside its rows (`copies`)."""

    @cached_property
    def compact(self) -> Compact | None:
        """How its rows are condensed before they are stored; None if they are not."""
        if self.kept:
            return None
        if self.members:
            return compacted(UnionAll(tuple(member.top for member in self.members)), self.schema)
        return compacted(self.top, self.schema)

    @cached_property
    def _conditions(self) -> Mapping[str, Expression | None]:
        return {r.name: condition_on(r.name, self.joins) for r in self.relations}

    def relevant_rows(self, relation: str, delta: Rows) -> Rows:
        """The rows of a change that the conditions on their relation alone do not rule out; none of
        a relation that it does not read."""
        if relation not in self._conditions:
            return Rows.empty(delta.schema)
        condition = self._conditions[relation]
        return delta if condition is None else delta.select(condition)

    @cached_property
    def copy_parts(self) -> CopyParts | None:
        """How copies of relations are stored beside its rows; None if there are none."""
        if not self.copies:
            return None
        own = self.schema if self.compact is None else self.compact.schema
        copied = [r.only(self.used_columns[r.name]) for r in self.relations]
        return copy_parts(own, self.joins, [r for r in copied if r.name in self.copies])

    @property
    def stored_schema(self) -> Schema:
        """The columns of what a warehouse stores."""
        if self.copy_parts is not None:
            return self.copy_parts.schema
        return self.schema if self.compact is None else self.compact.schema

    @property
    def stored_top(self) -> Top | None:
        """What is shown, as a function of what a warehouse stores."""
        top = self.top if self.compact is None or self.members else self.compact.top
        return top if top is None or self.copy_parts is None else self.copy_parts.over(top)

    @cached_property
    def stored_members(self) -> tuple[Member, ...]:
        """The members of a group with their tops over what a warehouse stores."""
        tops: Iterable[Top] = (member.top for member in self.members)
        if self.members and self.compact is not None:
            tops = inputs_of(self.compact.top)
        if self.copy_parts is not None:
            tops = map(self.copy_parts.over, tops)
        pairs = zip(self.members, tops, strict=True)
        return tuple(replace(member, top=top) for member, top in pairs)

    def condensed(self, rows: Rows) -> Rows:
        """What is stored of rows that a manager finds, copies of relations apart."""
        return rows if self.compact is None else self.compact.condensed(rows)

    def stored(self, rows: Rows, base: Mapping[str, Rows] | None = None) -> Rows:
        """What a warehouse stores for the rows of the view over base relations, which are looked at
        where copies of them are kept."""
        own, parts = self.condensed(rows), self.copy_parts
        if parts is None:
            return own
        assert base is not None
        copies = (parts.copied(name, base[name]) for name in parts.by_name)
        return Rows.sum(parts.schema, [parts.stored(own), *copies])

    @property
    def shown_schema(self) -> Schema:
        return self.schema if self.top is None else self.top.schema

    @property
    def error_column(self) -> str | None:
        """The stored column that tells of errors (`totals`), where all others are shown."""
        if self.copies:
            return None
        match self.top:
            case Project(
                input=Select(input=Part(), condition=Call("sound", (ColumnRef(name=name),))),
                schema=shown,
            ) if self.schema.names == (*shown.names, name):
                return name
        return None

    @cached_property
    def left_to_spark(self) -> tuple[str, ...]:
        """The functions of what is shown that only Spark computes; if any, it shows the whole."""
        return tuple(sorted({name for top in self.tops for name in left_to_spark(top)}))

    @property
    def tops(self) -> tuple[Top, ...]:
        """Its own, and those of its members."""
        every = (self.top, *(member.top for member in self.members))
        return tuple(top for top in every if top is not None)

    def shown(self, stored: Rows) -> Rows:
        """What a reader sees when these rows are stored: no negative counts, no hidden columns."""
        return stored.positive() if self.top is None else evaluate_top(self.top, stored)

    def of_member(self, member: Member) -> View:
        """A view of this group as one by itself, over the rows that are stored for all."""
        return replace(self, name=member.name, sql=member.sql, top=member.top, members=())

    def judged(self, stored: Rows) -> Rows:
        """The same, and `FAILING` where there is an error: for who compares states."""
        try:
            return self.shown(stored)
        except ExpressionError:
            return FAILING

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """The base relations, each once, in order of appearance."""
        found = {occ.relation.name: occ.relation for join in self.joins for occ in join.occurrences}
        return tuple(found.values())

    @cached_property
    def used_columns(self) -> dict[str, tuple[str, ...]]:
        """For each relation the columns that some condition or output looks at; at least one."""
        used: dict[str, set[str]] = {relation.name: set() for relation in self.relations}
        for join in self.joins:
            for expression in (*join.condition, *join.outputs):
                for name in columns_of(expression):
                    occurrence = join.occurrences[join.owner[name]]
                    used[occurrence.relation.name].add(name.removeprefix(f"{occurrence.alias}."))
        return {
            relation.name: tuple(c for c in relation.schema.names if c in used[relation.name])
            or relation.schema.names[:1]
            for relation in self.relations
        }

    def narrowed(self) -> View:
        """The same view over relations that have only the columns it looks at."""
        return self._over(
            {
                relation.name: relation.only(self.used_columns[relation.name])
                for relation in self.relations
            }
        )

    def without_unused_texts(self) -> View:
        """The same view over relations without columns that stand for CASTs which it has not."""
        offering = [r for r in self.relations if any(c.text_of for c in r.schema.columns)]
        if not offering:
            return self
        narrow = {relation.name: relation for relation in self.relations}
        for relation in offering:
            used = self.used_columns[relation.name]
            columns = relation.schema.columns
            kept = [c.name for c in columns if not c.text_of or c.name in used]
            narrow[relation.name] = relation.only(kept)
        return self._over(narrow)

    def _over(self, narrow: Mapping[str, Relation]) -> View:
        joins = tuple(
            replace(
                join,
                occurrences=tuple(
                    replace(occurrence, relation=narrow[occurrence.relation.name])
                    for occurrence in join.occurrences
                ),
            )
            for join in self.joins
        )
        return replace(self, joins=joins)

    def with_keys(self) -> View:
        """The view with the key columns that its parts lack behind its own columns, and with what
        tells parts apart where there are several. They are stored and not shown."""
        view = self._with_parts()
        hidden: dict[str, Column] = {}
        placed = []
        for join in view.joins:
            own: dict[str, Expression] = {}
            for ref in join.missing_keys:
                name = unused_name(ref.name.replace(".", "_"), view.schema)
                while name.lower() in own or hidden.get(name.lower(), ref).type != ref.type:
                    name = unused_name(f"_{name}", view.schema)
                own[name.lower()] = ref
                hidden.setdefault(name.lower(), Column(name, ref.type))
            placed.append(own)
        if not hidden:
            return view
        schema = Schema((*view.schema.columns, *hidden.values()))
        joins = tuple(
            replace(
                join,
                outputs=(
                    *join.outputs,
                    *(own.get(n, Literal(None, c.type)) for n, c in hidden.items()),
                ),
                schema=schema,
            )
            for join, own in zip(view.joins, placed, strict=True)
        )
        top = None if view.members else view.top or Part(view.schema.names, view.schema)
        return replace(view, joins=joins, schema=schema, top=top, kept="keys")

    def _with_parts(self) -> View:
        """The view with a column that tells its parts apart, if there are several."""
        if len(self.joins) == 1 or PART in map(str.lower, self.schema.names):
            return self
        schema = Schema((Column(PART, INT), *self.schema.columns))
        joins = tuple(
            replace(join, outputs=(Literal(number, INT), *join.outputs), schema=schema)
            for number, join in enumerate(self.joins, 1)
        )
        top = _over_parts(self.top or Part(self.schema.names, self.schema), len(joins))
        return replace(self, joins=joins, schema=schema, top=top, kept="keys")

    def with_rows(self) -> View:
        """The view with its rows stored, where only what they add up to would be."""
        return self if self.compact is None else replace(self, kept="rows")

    @cached_property
    def joined(self) -> tuple[str, ...]:
        """The relations that are joined, and may be asked about."""
        wide = [join for join in self.joins if len(join.occurrences) > 1]
        return tuple(dict.fromkeys(o.relation.name for join in wide for o in join.occurrences))

    def with_copies(self, names: Collection[str]) -> View:
        """The view with copies of these relations stored beside its rows, and not shown.

        One that is joined with nothing is not copied: nobody asks about it.
        """
        copied = tuple(name for name in self.joined if name in names)
        if not copied:
            return self
        top = None if self.members else self.top or Part(self.schema.names, self.schema)
        return replace(self, copies=copied, top=top)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(relation.source for relation in self.relations))

    def relation(self, name: str) -> Relation | None:
        return next((r for r in self.relations if r.name == name), None)

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify every row, as few as can be told: from the keys of all relations,
        if all are shown, without those that follow from others.
        """
        if len(self.joins) != 1 or not self.shows_keys:
            return ()
        (join,) = self.joins
        found = (join.key_positions(relation.name) or () for relation in self.relations)
        positions = dict.fromkeys(at for shown in found for at in shown)
        for at in list(positions):
            if join.identifies(other for other in positions if other != at):
                del positions[at]
        return tuple(self.schema.names[at] for at in positions)

    @property
    def shows_keys(self) -> bool:
        """Whether a row tells which base rows it was derived from, in every part."""
        return self.tells_parts and not any(join.keyless for join in self.joins)

    @property
    def tells_parts(self) -> bool:
        """Whether a row tells which part it belongs to."""
        numbers = {join.number for join in self.joins}
        return len(self.joins) == 1 or (len(numbers) == len(self.joins) and None not in numbers)


def _over_parts(top: Top, number: int) -> Top:
    """A top over rows of which nothing tells the parts, as one over so many parts."""
    if isinstance(top, Part):
        return UnionAll(tuple(replace(top, number=at) for at in range(1, number + 1)))
    return with_inputs(top, [_over_parts(below, number) for below in inputs_of(top)])


def unused_name(name: str, schema: Schema) -> str:
    """The name, with underscores before it until no column has it, in any case of its letters."""
    taken = {column.lower() for column in schema.names}
    while name.lower() in taken:
        name = f"_{name}"
    return name
