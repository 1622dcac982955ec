"""Binding: a mediated schema over the relations that sources have, so that queries can be answered.

Mediated relations get their columns, descriptions become rules, and a query over mediated relations
becomes an ordinary one over sources.

Choices. Primary keys of mediated relations say which of their columns are never NULL; that two rows
with one key are one row is not used (updategrams paper, footnote 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.algebra.expressions import ColumnRef, Expression
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.functions import NONE, Functions, telling_of
from headwater.algebra.sql.names import closest_first, find_relation
from headwater.algebra.sql.text import RefusalError, means
from headwater.algebra.sql.view import read_plan
from headwater.algebra.values import Type
from headwater.errors import InputError, SqlError
from headwater.mediation.clauses import Atom, Clause, present
from headwater.mediation.descriptions import Description, Rule, Rules, with_own_origins
from headwater.mediation.queries import clauses_of
from headwater.mediation.rewriting import Rewriting, rewritten
from headwater.mediation.schema import SOURCE, MediatedSchema
from headwater.mediation.statements import (
    ForeignKey,
    Place,
    SourceStatement,
    TableStatement,
    ViewStatement,
)
from headwater.mediation.writing import canonical, refused, written

_QUERY = "the query reads mediated relations, and "
_HINT = "Describe rows by joins and unions of them."


@dataclass(frozen=True)
class Answer:
    """A query over a mediated schema as one over sources."""

    sql: str
    rewriting: Rewriting
    names: tuple[str, ...]
    relations: tuple[Relation, ...]


def bind(schema: MediatedSchema, names: Iterable[str], relations: Iterable[Relation]) -> Bound:
    """The part of a schema that some of its relations need, over relations of sources."""
    return _Binding(schema, tuple(relations)).bound(schema.behind(names))


@dataclass(frozen=True, eq=False)
class Bound:
    """Mediated relations over relations of sources: their columns, and the rules for their rows."""

    schema: MediatedSchema
    mediated: Mapping[str, Relation]
    """By their names as relations."""
    relations: tuple[Relation, ...]
    """Those of sources."""
    descriptions: tuple[Description, ...]
    rules: Rules

    def answer(
        self, sql: str, views: Mapping[str, str] | None = None, functions: Functions = NONE
    ) -> Answer:
        """A query over mediated relations, and maybe sources', as one over sources alone."""
        plan, text = read_plan(sql, self._every, views, functions)
        try:
            query = clauses_of(plan)
            found = rewritten(query, self.rules, frozenset(self.mediated), self.relations)
            if not found.clauses:
                raise RefusalError(*self._nothing(found))
            by_name = {relation.name: relation for relation in self.relations}
            names = plan.schema.names
            answer = written(found.clauses, names, by_name, distinct=found.distinct)
            _check_written(answer, found.clauses, by_name)
        except RefusalError as error:
            place = text.first_of(error.about)
            raise text.error_at(place, str(error), error.hint) from None
        return Answer(answer, found, names, self.relations)

    @property
    def _every(self) -> tuple[Relation, ...]:
        return (*self.mediated.values(), *self.relations)

    def _nothing(self, found: Rewriting) -> tuple[str, str]:
        reasons = list(dict.fromkeys(dead.reason for dead in found.dead))
        told = "; ".join(reasons[:3]) or "its conditions never hold together"
        return (
            f"no source can ever answer the query: {told}.",
            "Ask for what the sources are described to have, or describe one that tells the rest.",
        )


def _check_written(sql: str, clauses: Sequence[Clause], relations: Mapping[str, Relation]) -> None:
    """RefusalError if what was written is read as something else."""
    try:
        again = clauses_of(read_plan(sql, relations)[0])
    except SqlError:
        again = []
    for at, clause in enumerate(clauses):
        read = again[at] if at < len(again) else None
        if read is None or canonical(read, relations) != canonical(clause, relations):
            computed = [*clause.outputs, *clause.conditions]
            raise refused(next((e for e in computed if not isinstance(e, ColumnRef)), computed[0]))


class _Binding:
    """Gives the relations of a schema their columns, and its descriptions their rules."""

    def __init__(self, schema: MediatedSchema, relations: tuple[Relation, ...]) -> None:
        self._schema = schema
        self._relations = relations
        self._mediated: dict[str, Relation] = {}
        self._told: dict[ViewStatement, tuple[tuple[str, ...], tuple[Clause, ...]]] = {}

    def bound(self, names: Sequence[str]) -> Bound:
        schema = self._schema
        for table in schema.tables.values():
            self._mediated[table.name.lower()] = _relation(table.name, table.columns)
        for name in names:
            self._columns_of(name)
        statements = schema.telling(names)
        descriptions = [self._description(statement) for statement in statements]
        descriptions += [
            self._foreign(table, key)
            for table in schema.tables.values()
            for key in table.foreign_keys
            if key.refers_to.lower() in names
        ]
        descriptions = with_own_origins(descriptions)
        mediated = {relation.name: relation for relation in self._mediated.values()}
        required = {name: frozenset[str]() for name in mediated}
        for table in schema.tables.values():
            required[f"{SOURCE}.{table.name}"] = table.required
        rules = Rules.of(_rules(each, mediated, required) for each in descriptions)
        return Bound(schema, mediated, self._relations, tuple(descriptions), rules)

    def _columns_of(self, name: str) -> None:
        """A relation that only views describe has the columns of the first."""
        if name in self._mediated:
            return
        view = next(v for v in self._schema.views if v.name.lower() == name)
        columns, clauses = self._told_by(view)
        kinds = zip(columns, (output.type for output in clauses[0].outputs), strict=True)
        self._mediated[name] = _relation(view.name, tuple(kinds))

    def _told_by(self, view: ViewStatement) -> tuple[tuple[str, ...], tuple[Clause, ...]]:
        if view not in self._told:
            for other in self._schema.read_in(view.told):
                self._columns_of(other.lower())
            names, clauses = self._read(view.told, view, self._every)
            self._told[view] = _named(view.columns, names, view.place), clauses
        return self._told[view]

    @property
    def _every(self) -> tuple[Relation, ...]:
        return (*self._mediated.values(), *self._relations)

    def _read(
        self, sql: str, statement: ViewStatement | SourceStatement, relations: Sequence[Relation]
    ) -> tuple[tuple[str, ...], tuple[Clause, ...]]:
        with telling_of(statement.place.file):
            plan, text = read_plan(sql, relations, functions=self._schema.functions)
            start = text.tokens[0].start
            try:
                clauses = tuple(clauses_of(plan))
            except RefusalError as error:
                place = text.first_of(error.about) or start
                said = str(error).replace(_QUERY, "this description ", 1)
                hint = _HINT if said != str(error) else error.hint
                raise text.error_at(place, said, hint) from None
            if not clauses:
                message = "the conditions of this query never hold together."
                raise text.error_at(start, message, "Correct them.")
        return plan.schema.names, clauses

    def _description(self, statement: ViewStatement | SourceStatement) -> Description:
        if isinstance(statement, ViewStatement):
            return self._of_view(statement)
        for name in self._schema.read_in(statement.target):
            self._columns_of(name.lower())
        names, targets = self._read(statement.target, statement, tuple(self._mediated.values()))
        names = _named(statement.columns, names, statement.place)
        if len(targets) > 1:
            raise InputError(
                f"{statement.place}: source view {statement.title} is a union, and of no row is it "
                "known which part it is of.",
                "Describe a source by one SELECT without UNION and OR between joins.",
            )
        told_names, told = self._told_by_source(statement, names)
        order = [_place_of(name, told_names, statement) for name in names]
        if len(set(order)) < len(order):
            raise _one_twice(statement.place)
        clauses = tuple(
            replace(clause, outputs=tuple(clause.outputs[at] for at in order)) for clause in told
        )
        return Description(
            f"source view {statement.title}", clauses, names, targets[0], str(statement.place)
        )

    def _told_by_source(
        self, statement: SourceStatement, names: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[Clause, ...]]:
        if statement.told is not None:
            told_names, told = self._read(statement.told, statement, self._relations)
            unused = [n for n in told_names if n.lower() not in {each.lower() for each in names}]
            if unused:
                raise InputError(
                    f"{statement.place}: column {unused[0]} of the query behind FROM is none of "
                    f"the SELECT behind AS.",
                    f"That one has {', '.join(names)}.",
                )
            return told_names, told
        source, *within, name = statement.name
        try:
            relation = find_relation(name, source, self._relations, "".join(within))
        except RefusalError as error:
            raise InputError(f"{statement.place}: {error}", error.hint) from None
        columns = tuple(
            ColumnRef(f"{relation.short_name}.{c.name}", c.type) for c in relation.schema.columns
        )
        shown = [c for c in relation.schema.columns if not c.text_of]
        clause = Clause(
            tuple(ColumnRef(f"{relation.short_name}.{c.name}", c.type) for c in shown),
            (Atom(relation.name, columns),),
        )
        return tuple(c.name for c in shown), (clause,)

    def _of_view(self, view: ViewStatement) -> Description:
        names, told = self._told_by(view)
        self._columns_of(view.name.lower())
        relation = self._mediated[view.name.lower()]
        atom = _atom(relation)
        refs = dict(zip(relation.schema.names, atom.terms, strict=True))
        outputs = []
        for name in names:
            column = next((c for c in relation.schema.names if means(name, c)), None)
            if column is None:
                listed = closest_first(name, relation.schema.names)
                raise InputError(
                    f"{view.place}: mediated relation {relation.short_name} has no column {name}.",
                    f"Columns: {listed}.",
                )
            outputs.append(refs[column])
        if len(set(outputs)) < len(outputs):
            raise _one_twice(view.place)
        target = Clause(tuple(outputs), (atom,))
        return Description(f"view {view.name}", told, names, target, str(view.place))

    def _foreign(self, table: TableStatement, key: ForeignKey) -> Description:
        other = self._schema.referred(key)
        own, their = (_atom(self._mediated[each.name.lower()]) for each in (table, other))
        columns = [name for name, _ in table.columns]
        told = tuple(own.terms[columns.index(column)] for column in key.columns)
        lower = [name.lower() for name, _ in other.columns]
        outputs = tuple(their.terms[lower.index(c.lower())] for c in key.to_columns or other.key)
        origin = f"foreign key of {table.name} ({', '.join(key.columns)})"
        clause = Clause(told, (own,), tuple(map(present, told)))
        return Description(
            origin, (clause,), key.columns, Clause(outputs, (their,)), str(key.place)
        )


def _rules(
    description: Description,
    mediated: Mapping[str, Relation],
    required: Mapping[str, frozenset[str]],
) -> tuple[list[Rule], dict[str, tuple[Expression, ...]]]:
    try:
        return description.rules(mediated, required)
    except RefusalError as error:
        raise InputError(f"{description.place}: {error}", error.hint) from None


def _relation(name: str, columns: Iterable[tuple[str, Type]]) -> Relation:
    return Relation(f"{SOURCE}.{name}", SOURCE, Schema.of(columns))


def _atom(relation: Relation) -> Atom:
    return Atom(
        relation.name,
        tuple(
            ColumnRef(f"{relation.short_name}.{c.name}", c.type) for c in relation.schema.columns
        ),
    )


def _named(given: Sequence[str], names: tuple[str, ...], place: Place) -> tuple[str, ...]:
    """The names of a query's columns, or those that stand before AS."""
    if not given:
        return names
    if len(given) != len(names):
        raise InputError(
            f"{place}: {len(given)} names are given, and the query has {len(names)} columns.",
            "Name each column.",
        )
    return tuple(given)


def _one_twice(place: Place) -> InputError:
    return InputError(f"{place}: two columns are the same one.", "Name each once.")


def _place_of(name: str, told: Sequence[str], statement: SourceStatement) -> int:
    for at, other in enumerate(told):
        if means(name, other):
            return at
    listed = closest_first(name, told)
    raise InputError(
        f"{statement.place}: {statement.title} has no column {name}.",
        f"The columns of the SELECT are named as those that they describe: {listed}. Write AS.",
    )
